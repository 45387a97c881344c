/* mkdir.c - `stetfs mkdir`: makes directories; all of them, or none. */
#include "cli/cli_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct mkdir_cmd {
	bool parents;
	mode_t mode;
	mode_t parent_mode;
};

static bool is_directory(struct stet_cli_volume *v, const char *path)
{
	struct stet_stat st;

	return stet_cli_statat_(v, STET_ROOT, path, 0, &st) == 0 && S_ISDIR(st.mode);
}

/* Makes the directory, which may be there already; last: no other is to be made in it. */
static int make_or_find(struct stet_cli_volume *v, const char *path, mode_t mode, bool last)
{
	int rc = stet_cli_mkdirat_(v, STET_ROOT, path, mode);

	if (rc != -EEXIST)
		return rc;
	if (is_directory(v, path))
		return 0;
	return last ? rc : -ENOTDIR;
}

static int make_with_parents(struct mkdir_cmd *c, struct stet_cli_volume *v, const char *path)
{
	char *copy = stet_cli_strdup_(path);
	char *end = copy + strspn(copy, "/");
	int rc = 0;

	while (!rc && *end) {
		char *next;
		char saved;

		end += strcspn(end, "/");
		next = end + strspn(end, "/");
		saved = *end;
		*end = '\0';
		rc = make_or_find(v, copy, *next ? c->parent_mode : c->mode, !*next);
		*end = saved;
		end = next;
	}
	free(copy);
	return rc;
}

static int mkdir_all(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *targets,
		     int count)
{
	struct mkdir_cmd *c = arg;

	for (int i = 0; i < count; i++) {
		int rc = c->parents ? make_with_parents(c, v, targets[i].path)
				    : stet_cli_mkdirat_(v, STET_ROOT, targets[i].path, c->mode);

		if (rc)
			return stet_cli_fail_volume_(targets[i].word, rc);
	}
	return STET_CLI_OK;
}

static int run_mkdir(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct mkdir_cmd c = { 0 };
	const char *mode = NULL;
	const struct stet_cli_option options[] = {
		{ 'p', "parents", STET_CLI_FLAG, &c.parents, NULL,
		  "make the directories above too; no error if it is there" },
		{ 'm', "mode", STET_CLI_STRING, &mode, "MODE", "permissions, as for chmod" },
		{ 0 },
	};
	mode_t mask = umask(0);
	int code;

	umask(mask);
	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	c.mode = 0777u & ~mask;
	c.parent_mode = c.mode | 0300u;
	if (mode) {
		uint32_t result;

		if (!stet_cli_change_mode_(mode, S_IFDIR | 0777u, mask, &result))
			return stet_cli_misuse_(cmd, "'%s' is not a mode", mode);
		c.mode = result & 07777u;
	}
	return stet_cli_change_(cmd, words, mkdir_all, &c);
}

const struct stet_cli_command stet_cli_mkdir_ = {
	.name = "mkdir",
	.synopsis = "[-p] [-m MODE] VOLUME:/path...",
	.summary = "Make directories",
	.details = "All of them are made, or none.",
	.min_words = 1,
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_mkdir,
};
