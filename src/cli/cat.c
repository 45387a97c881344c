/* cat.c - `stetfs cat`: the contents of files. */
#include "cli/table_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNK_BYTES ((size_t)1 << 20)

static int copy_out(struct stet_cli_stream *file, const char *what, char *buf)
{
	uint64_t off = 0;
	ssize_t n;

	while ((n = stet_cli_stream_read_(file, buf, CHUNK_BYTES, off)) > 0) {
		/* What standard output cannot take is reported once, at the end. */
		if (fwrite(buf, 1, (size_t)n, stdout) != (size_t)n)
			return STET_CLI_FAILED;
		off += (uint64_t)n;
	}
	return n < 0 ? stet_cli_fail_volume_(what, (int)n) : STET_CLI_OK;
}

static int cat_one(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *target)
{
	struct stet_cli_stream file;
	int rc = stet_cli_openat_(v, STET_ROOT, target->path, O_RDONLY, 0, &file);
	int code;

	if (rc)
		return stet_cli_fail_data_(v, target->word, target->path, rc);
	code = copy_out(&file, target->word, arg);
	stet_cli_stream_close_(&file);
	return code;
}

static int run_cat(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	const struct stet_cli_option options[] = { { 0 } };
	char *buf;
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	buf = stet_cli_alloc_(CHUNK_BYTES);
	code = stet_cli_read_each_(cmd, words, cat_one, buf);
	free(buf);
	return code;
}

const struct stet_cli_command stet_cli_cat_ = {
	.name = "cat",
	.synopsis = "VOLUME:/path...",
	.summary = "Write the contents of files to standard output",
	.min_words = 1,
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_cat,
};
