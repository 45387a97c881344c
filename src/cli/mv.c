/* mv.c - `stetfs mv`: renames within one volume, all operands in one transaction. */
#include "cli/cli_internal.h"

#include <errno.h>
#include <string.h>

static int move_one(struct stet_cli_volume *v, const struct stet_cli_target *from,
		    const struct stet_cli_target *to, bool into_directory)
{
	struct stet_cli_text path = { 0 };
	size_t len;
	int rc;

	stet_cli_basename_(from->path, &len);
	if (len == 0) {
		stet_cli_error_(from->word, "the root cannot be moved");
		return STET_CLI_FAILED;
	}
	rc = stet_cli_destination_(v, to->path, from->path, &path);
	if (!rc && into_directory && strcmp(path.s, to->path) == 0) {
		stet_cli_text_release_(&path);
		return stet_cli_fail_(to->word, -ENOTDIR);
	}
	if (!rc)
		rc = stet_cli_renameat_(v, STET_ROOT, from->path, STET_ROOT, path.s);
	stet_cli_text_release_(&path);
	if (rc == -EINVAL) {
		stet_cli_error_(from->word, "a directory cannot be moved into itself");
		return STET_CLI_FAILED;
	}
	return rc ? stet_cli_fail_volume_(from->word, rc) : STET_CLI_OK;
}

static int move_all(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *targets,
		    int count)
{
	int code = STET_CLI_OK;

	(void)arg;
	for (int i = 0; i < count - 1 && !code; i++)
		code = move_one(v, &targets[i], &targets[count - 1], count > 2);
	return code;
}

static int run_mv(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	const struct stet_cli_option options[] = { { 0 } };
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	return stet_cli_change_(cmd, words, move_all, NULL);
}

const struct stet_cli_command stet_cli_mv_ = {
	.name = "mv",
	.synopsis = "VOLUME:/source... VOLUME:/target",
	.summary = "Rename files and directories",
	.details =
		"When the target is a directory, the sources go into it. All are renamed, or none.",
	.min_words = 2,
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_mv,
};
