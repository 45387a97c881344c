/* stat.c - `stetfs stat`: all that is known of a file but its contents. */
#include "cli/cli_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct stat_cmd {
	bool follow;
	struct stet_cli_json json;
};

/* The names of the extended attributes, a NUL after each. */
static int list_xattrs(struct stet_cli_volume *v, uint64_t ino, struct stet_cli_text *ret)
{
	ssize_t len = stet_cli_listxattr_(v, ino, "", NULL, 0);
	char *buf;

	if (len <= 0)
		return (int)len;
	buf = stet_cli_alloc_((size_t)len);
	len = stet_cli_listxattr_(v, ino, "", buf, (size_t)len);
	if (len > 0)
		stet_cli_text_add_(ret, buf, (size_t)len);
	free(buf);
	return len < 0 ? (int)len : 0;
}

static void print_time(const char *what, int64_t time_ns)
{
	char time[STET_CLI_TIME_MAX];

	stet_cli_format_local_(time_ns, true, time);
	printf("%10s: %s\n", what, time);
}

static void print_text(const char *word, const struct stet_stat *st, const char *target,
		       const struct stet_cli_text *xattrs)
{
	char user[STET_CLI_OWNER_MAX], group[STET_CLI_OWNER_MAX];
	char mode[STET_CLI_MODE_MAX];

	printf("%10s: ", "path");
	stet_cli_print_name_(word);
	if (target) {
		fputs(" -> ", stdout);
		stet_cli_print_name_(target);
	}
	stet_cli_format_mode_(st->mode, mode);
	stet_cli_format_user_(st->uid, user);
	stet_cli_format_group_(st->gid, group);
	printf("\n%10s: %s\n", "type", stet_cli_type_name_(st->mode));
	printf("%10s: %04o (%s)\n", "mode", st->mode & 07777u, mode);
	printf("%10s: %u (%s), %u (%s)\n", "owner", st->uid, user, st->gid, group);
	printf("%10s: %" PRIu64 "\n", "inode", st->ino);
	printf("%10s: %u\n", "links", st->nlink);
	if (S_ISCHR(st->mode) || S_ISBLK(st->mode))
		printf("%10s: %u, %u\n", "device", (uint32_t)(st->rdev >> 32), (uint32_t)st->rdev);
	printf("%10s: %" PRIu64 "\n", "size", st->size);
	printf("%10s: %" PRIu64 "\n", "blocks", st->blocks);
	print_time("accessed", st->atime_ns);
	print_time("modified", st->mtime_ns);
	print_time("changed", st->ctime_ns);
	print_time("created", st->btime_ns);
	for (size_t at = 0; at < xattrs->len; at += strlen(xattrs->s + at) + 1) {
		printf("%10s: ", "attribute");
		stet_cli_print_name_(xattrs->s + at);
		putchar('\n');
	}
}

static void print_json(struct stet_cli_json *json, const char *word, const struct stet_stat *st,
		       const char *target, const struct stet_cli_text *xattrs)
{
	stet_cli_json_open_(json, NULL, '{');
	stet_cli_json_string_(json, "path", word);
	stet_cli_json_string_(json, "type", stet_cli_type_name_(st->mode));
	stet_cli_json_number_(json, "ino", st->ino);
	stet_cli_json_stat_(json, st);
	if (S_ISREG(st->mode))
		stet_cli_json_number_(json, "data_version", st->data_version);
	if (target)
		stet_cli_json_string_(json, "target", target);
	stet_cli_json_open_(json, "xattrs", '[');
	for (size_t at = 0; at < xattrs->len; at += strlen(xattrs->s + at) + 1)
		stet_cli_json_string_(json, NULL, xattrs->s + at);
	stet_cli_json_close_(json, ']');
	stet_cli_json_close_(json, '}');
}

static int stat_one(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *target)
{
	struct stat_cmd *c = arg;
	struct stet_cli_text link = { 0 }, xattrs = { 0 };
	struct stet_stat st;
	int rc = stet_cli_statat_(v, STET_ROOT, target->path,
				  STET_CLI_AT_ALL | (c->follow ? 0 : STET_AT_NOFOLLOW), &st);

	if (!rc && S_ISLNK(st.mode))
		rc = stet_cli_readlink_(v, st.ino, &link);
	if (!rc)
		rc = list_xattrs(v, st.ino, &xattrs);
	if (!rc && c->json.on)
		print_json(&c->json, target->word, &st, link.s, &xattrs);
	else if (!rc)
		print_text(target->word, &st, link.s, &xattrs);
	stet_cli_text_release_(&link);
	stet_cli_text_release_(&xattrs);
	return rc ? stet_cli_fail_volume_(target->word, rc) : STET_CLI_OK;
}

static int run_stat(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct stat_cmd c = { 0 };
	const struct stet_cli_option options[] = {
		{ 'L', "follow", STET_CLI_FLAG, &c.follow, NULL, "follow symbolic links" },
		{ 0, "json", STET_CLI_FLAG, &c.json.on, NULL, "print JSON" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	stet_cli_json_open_(&c.json, NULL, '[');
	code = stet_cli_read_each_(cmd, words, stat_one, &c);
	stet_cli_json_close_(&c.json, ']');
	return code;
}

const struct stet_cli_command stet_cli_stat_ = {
	.name = "stat",
	.synopsis = "[-L] [--json] VOLUME:/path...",
	.summary = "Print the attributes of files",
	.min_words = 1,
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_stat,
};
