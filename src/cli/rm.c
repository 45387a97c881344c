/* rm.c - `stetfs rm`: removes names, with -r directories and all they hold.
 *
 * I1. One transaction: all operands are gone, or nothing is. Without -r nothing but the named
 *     files goes.
 * I2. The names of a directory are read before the first of them is removed.
 */
#include "cli/cli_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct rm {
	bool recursive, force;
	struct stet_cli_volume *v;
	struct stet_cli_text path; /* for messages */
	struct stet_cli_progress progress;
};

static int remove_at(struct rm *rm, uint64_t dir, const char *name, unsigned depth);

static int remove_contents(struct rm *rm, uint64_t dir, unsigned depth)
{
	struct stet_cli_names names = { 0 };
	size_t len = rm->path.len;
	int rc = depth < STET_CLI_DEPTH_MAX ? stet_cli_list_(rm->v, dir, &names) : -ELOOP; /* I2 */
	int code = rc ? stet_cli_fail_volume_(rm->path.s, rc) : STET_CLI_OK;

	for (size_t i = 0; i < names.count && !code; i++) {
		stet_cli_text_join_(&rm->path, names.name[i]);
		code = remove_at(rm, dir, names.name[i], depth + 1);
		stet_cli_text_cut_(&rm->path, len);
	}
	stet_cli_names_release_(&names);
	return code;
}

/* name: one component, or, of an operand, a path. */
static int remove_at(struct rm *rm, uint64_t dir, const char *name, unsigned depth)
{
	unsigned flags = 0;
	struct stet_stat st;
	int code;
	int rc = stet_cli_statat_(rm->v, dir, name, STET_AT_NOFOLLOW, &st);

	if (rc == -ENOENT && rm->force)
		return STET_CLI_OK;
	if (!rc && S_ISDIR(st.mode)) {
		if (!rm->recursive)
			return stet_cli_fail_(rm->path.s, -EISDIR);
		flags = STET_AT_REMOVEDIR;
		code = remove_contents(rm, st.ino, depth);
		if (code)
			return code;
	}
	if (!rc)
		rc = stet_cli_unlinkat_(rm->v, dir, name, flags);
	if (rc)
		return stet_cli_fail_volume_(rm->path.s, rc);
	rm->progress.files++;
	stet_cli_progress_(&rm->progress);
	return STET_CLI_OK;
}

/* As rm(1): "." and ".." are never meant, and neither is all there is. */
static bool is_refused(const char *path)
{
	size_t len;
	const char *name = stet_cli_basename_(path, &len);

	return len == 0 || (len == 1 && name[0] == '.') || (len == 2 && memcmp(name, "..", 2) == 0);
}

static int remove_all(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *targets,
		      int count)
{
	struct rm *rm = arg;
	int code = STET_CLI_OK;

	rm->v = v;
	for (int i = 0; i < count && !code; i++) {
		if (is_refused(targets[i].path)) {
			stet_cli_error_(targets[i].word,
					"refusing to remove the root, '.' or '..'");
			return STET_CLI_FAILED;
		}
		stet_cli_text_cut_(&rm->path, 0);
		stet_cli_text_adds_(&rm->path, targets[i].word);
		code = remove_at(rm, STET_ROOT, targets[i].path, 0);
	}
	return code;
}

static int run_rm(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct rm rm = { .progress = { .verb = "removed" } };
	const struct stet_cli_option options[] = {
		{ 'r', "recursive", STET_CLI_FLAG, &rm.recursive, NULL,
		  "directories too, with all they hold" },
		{ 'R', NULL, STET_CLI_FLAG, &rm.recursive, NULL, NULL },
		{ 'f', "force", STET_CLI_FLAG, &rm.force, NULL, "no error for what is not there" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	if (words->count == 0)
		return rm.force ? STET_CLI_OK : stet_cli_misuse_(cmd, "too few arguments");
	code = stet_cli_change_(cmd, words, remove_all, &rm);
	stet_cli_text_release_(&rm.path);
	return code;
}

const struct stet_cli_command stet_cli_rm_ = {
	.name = "rm",
	.synopsis = "[-r] [-f] VOLUME:/path...",
	.summary = "Remove files and directories",
	.details = "All of them are removed, or none.",
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_rm,
};
