/* put.c - `stetfs put`: one file, or standard input, into a volume.
 *
 * I1. The file in the volume has its old contents, or all of the new ones: what is read before the
 *     input ends or fails is in a transaction.
 */
#include "cli/table_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)1 << 20)

struct put {
	const char *source;
	int fd;
	uint32_t mode;
	struct stat st; /* of fd */
	struct stet_cli_progress progress;
};

/* Fills buf as far as the input goes: a pipe gives little at a time. */
static ssize_t read_chunk(int fd, char *buf)
{
	size_t len = 0;

	while (len < CHUNK_BYTES) {
		ssize_t n = read(fd, buf + len, CHUNK_BYTES - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

static int copy_in(struct put *put, struct stet_cli_stream *file, const char *what)
{
	char *buf = stet_cli_alloc_(CHUNK_BYTES);
	int code = STET_CLI_OK;
	uint64_t off = 0;
	ssize_t n;
	int rc;

	while (!code && (n = read_chunk(put->fd, buf)) != 0) {
		if (n < 0) {
			code = stet_cli_fail_(put->source, (int)n);
			break;
		}
		rc = stet_cli_stream_write_(file, buf, (size_t)n, off);
		if (rc)
			code = stet_cli_fail_volume_(what, rc);
		off += (uint64_t)n;
		put->progress.bytes = off;
		stet_cli_progress_(&put->progress);
	}
	free(buf);
	return code;
}

/* Standard input has no name of its own. Returns 0 or a negative errno value; -EISDIR was told. */
static int take_path(struct stet_cli_volume *v, const struct stet_cli_target *target,
		     struct stet_cli_text *ret)
{
	size_t len = strlen(target->path);
	struct stet_stat st;
	int rc = stet_cli_statat_(v, STET_ROOT, target->path, 0, &st);

	if (rc == -ENOENT && target->path[len - 1] == '/')
		return -ENOTDIR;
	if (rc && rc != -ENOENT)
		return rc;
	if (!rc && S_ISDIR(st.mode)) {
		stet_cli_error_(target->word, "is a directory: standard input needs a file's name");
		return -EISDIR;
	}
	stet_cli_text_adds_(ret, target->path);
	return 0;
}

static int put_one(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *target,
		   int count)
{
	struct put *put = arg;
	struct stet_cli_text path = { 0 };
	struct stet_cli_stream file;
	int rc;
	int code;

	(void)count;
	if (put->st.st_dev == v->dev && put->st.st_ino == v->ino) {
		stet_cli_error_(put->source, "is the volume itself");
		return STET_CLI_FAILED;
	}
	if (strcmp(put->source, "-") == 0)
		rc = take_path(v, target, &path);
	else
		rc = stet_cli_destination_(v, target->path, put->source, &path);
	if (rc == -EISDIR)
		return STET_CLI_FAILED;
	if (!rc)
		rc = stet_cli_openat_(v, STET_ROOT, path.s, O_WRONLY | O_CREAT | O_TRUNC, put->mode,
				      &file);
	code = rc && path.s ? stet_cli_fail_data_(v, target->word, path.s, rc) : STET_CLI_OK;
	stet_cli_text_release_(&path);
	if (rc)
		return code ? code : stet_cli_fail_volume_(target->word, rc);
	code = copy_in(put, &file, target->word);
	rc = stet_cli_stream_close_(&file);
	return rc && !code ? stet_cli_fail_volume_(target->word, rc) : code;
}

/* Opens the input, of which mode is taken over from a regular file. */
static int open_source(struct put *put)
{
	mode_t mask = umask(0);

	umask(mask);
	put->fd = STDIN_FILENO;
	put->mode = 0666u & ~mask;
	if (strcmp(put->source, "-") != 0)
		put->fd = open(put->source, O_RDONLY | O_CLOEXEC);
	if (put->fd < 0 || fstat(put->fd, &put->st) != 0)
		return stet_cli_fail_(put->source, -errno);
	if (S_ISDIR(put->st.st_mode))
		return stet_cli_fail_(put->source, -EISDIR);
	if (S_ISREG(put->st.st_mode) && put->fd != STDIN_FILENO)
		put->mode = put->st.st_mode & 0777u & ~mask;
	return STET_CLI_OK;
}

static int run_put(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	const struct stet_cli_option options[] = { { 0 } };
	struct put put = { .fd = -1, .progress = { .verb = "written" } };
	struct stet_cli_words target;
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	put.source = words->word[0];
	target = (struct stet_cli_words){ .word = words->word + 1, .count = 1 };
	code = open_source(&put);
	if (!code)
		code = stet_cli_change_(cmd, &target, put_one, &put);
	if (put.fd > STDIN_FILENO)
		close(put.fd);
	return code;
}

const struct stet_cli_command stet_cli_put_ = {
	.name = "put",
	.synopsis = "FILE|- VOLUME:/path",
	.summary = "Put a file, or standard input (-), into a volume",
	.details = "The file in the volume is replaced as a whole, or stays as it was. When "
		   "VOLUME:/path is a directory,\nthe file goes into it under its own name.",
	.min_words = 2,
	.max_words = 2,
	.run = run_put,
};
