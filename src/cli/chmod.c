/* chmod.c - `stetfs chmod`: permissions, octal or symbolic; all operands in one transaction. */
#include "cli/cli_internal.h"

#include <errno.h>
#include <sys/stat.h>

struct chmod_cmd {
	bool recursive;
	const char *mode;
	uint32_t mask;
	struct stet_cli_volume *v;
	struct stet_cli_text path; /* for messages */
	struct stet_cli_progress progress;
};

static int change_at(struct chmod_cmd *c, uint64_t dir, const char *name, unsigned depth);

static int change_contents(struct chmod_cmd *c, uint64_t dir, unsigned depth)
{
	struct stet_cli_names names = { 0 };
	size_t len = c->path.len;
	int rc = depth < STET_CLI_DEPTH_MAX ? stet_cli_list_(c->v, dir, &names) : -ELOOP;
	int code = rc ? stet_cli_fail_volume_(c->path.s, rc) : STET_CLI_OK;

	for (size_t i = 0; i < names.count && !code; i++) {
		stet_cli_text_join_(&c->path, names.name[i]);
		code = change_at(c, dir, names.name[i], depth + 1);
		stet_cli_text_cut_(&c->path, len);
	}
	stet_cli_names_release_(&names);
	return code;
}

/* A link that is named is followed; one that is met on the way down is left alone. */
static int change_at(struct chmod_cmd *c, uint64_t dir, const char *name, unsigned depth)
{
	struct stet_setattr attr = { .set = STET_SET_MODE };
	struct stet_stat st;
	int rc = stet_cli_statat_(c->v, dir, name, depth ? STET_AT_NOFOLLOW : 0, &st);

	if (!rc && S_ISLNK(st.mode))
		return STET_CLI_OK;
	if (!rc && stet_cli_change_mode_(c->mode, st.mode, c->mask, &attr.mode)) {
		attr.mode &= 07777u;
		rc = stet_cli_setattrat_(c->v, st.ino, "", STET_AT_NOFOLLOW, &attr);
	}
	if (rc)
		return stet_cli_fail_volume_(c->path.s, rc);
	c->progress.files++;
	stet_cli_progress_(&c->progress);
	return c->recursive && S_ISDIR(st.mode) ? change_contents(c, st.ino, depth) : STET_CLI_OK;
}

static int change_all(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *targets,
		      int count)
{
	struct chmod_cmd *c = arg;
	int code = STET_CLI_OK;

	c->v = v;
	for (int i = 0; i < count && !code; i++) {
		stet_cli_text_cut_(&c->path, 0);
		stet_cli_text_adds_(&c->path, targets[i].word);
		code = change_at(c, STET_ROOT, targets[i].path, 0);
	}
	return code;
}

static int run_chmod(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct chmod_cmd c = { .progress = { .verb = "changed" } };
	const struct stet_cli_option options[] = {
		{ 'R', "recursive", STET_CLI_FLAG, &c.recursive, NULL,
		  "directories and all they hold" },
		{ 0 },
	};
	struct stet_cli_words targets;
	uint32_t unused;
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	c.mode = words->word[0];
	c.mask = umask(0);
	umask((mode_t)c.mask);
	if (!stet_cli_change_mode_(c.mode, 0, c.mask, &unused))
		return stet_cli_misuse_(cmd, "'%s' is not a mode", c.mode);
	targets = (struct stet_cli_words){ .word = words->word + 1, .count = words->count - 1 };
	code = stet_cli_change_(cmd, &targets, change_all, &c);
	stet_cli_text_release_(&c.path);
	return code;
}

const struct stet_cli_command stet_cli_chmod_ = {
	.name = "chmod",
	.synopsis = "[-R] MODE VOLUME:/path...",
	.summary = "Change permissions",
	.details = "MODE is octal, or clauses as u+x,go=rX. All files are changed, or none.",
	.min_words = 2,
	.max_words = STET_CLI_NO_LIMIT,
	.mode_words = true,
	.run = run_chmod,
};
