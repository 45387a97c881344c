/* run.c - `stetfs run`: a command as one transaction on a mount.
 *
 * I1. The transaction is bound to our connection to the daemon: if either side dies, it is gone.
 * I2. It is committed only if the command ended with 0, and nobody told us to end.
 * I3. The code is the command's own, except 122 to 125, which are ours: no transaction, or no
 *     commit of what the command did.
 */
#include "cli/cli_internal.h"

#include "cli/changes_internal.h"
#include "cli/run_internal.h"
#include "fuse/control.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	NOT_COMMITTED = 123,
	NOT_BEGUN = 125,
	BY_SIGNAL = 128,
};

struct run {
	const char *dir; /* as given */
	char **argv;
	unsigned level;
	char *real_dir;     /* owned */
	char cwd[PATH_MAX]; /* where the command starts */
	struct stet_control *ctl;
	struct stet_control_begun begun;
};

/// Where ///

static bool is_inside(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* The command starts where the caller stands, if that is inside DIR; else in DIR. */
static int find_directories(struct run *run)
{
	const struct stet_control_mount *mount = stet_control_info(run->ctl);

	run->real_dir = realpath(run->dir, NULL);
	if (!run->real_dir)
		return stet_cli_fail_(run->dir, -errno);
	if (!is_inside(run->real_dir, mount->dir)) {
		stet_cli_error_(run->dir, "is not below %s, where the volume is mounted",
				mount->dir);
		return STET_CLI_FAILED;
	}
	if (getcwd(run->cwd, sizeof(run->cwd)) && is_inside(run->cwd, run->real_dir))
		return STET_CLI_OK;
	if (strlen(run->real_dir) >= sizeof(run->cwd))
		return stet_cli_fail_(run->dir, -ENAMETOOLONG);
	memcpy(run->cwd, run->real_dir, strlen(run->real_dir) + 1);
	return STET_CLI_OK;
}

static int begin(struct run *run)
{
	int code;
	int rc;

	if (geteuid() != 0) {
		stet_cli_error_("run", "only root can run commands in a transaction so far");
		return NOT_BEGUN;
	}
	code = stet_cli_connect_(run->dir, &run->ctl);
	if (code)
		return NOT_BEGUN;
	if (find_directories(run))
		return NOT_BEGUN;
	rc = stet_control_begin(run->ctl, run->level, 0, &run->begun);
	if (!rc)
		return STET_CLI_OK;
	stet_cli_fail_control_(run->ctl, run->dir, rc);
	return NOT_BEGUN;
}

/// The end ///

static int commit(struct run *run)
{
	struct stet_control_end end = { 0 };
	int rc = stet_control_commit(run->ctl, run->begun.id, 0, &end);

	if (rc == -EPIPE) {
		stet_cli_error_(run->dir,
				"the daemon has gone; whether the commit is there shows when "
				"the volume is mounted again");
		return NOT_COMMITTED;
	}
	if (rc)
		stet_cli_fail_control_(run->ctl, run->dir, rc);
	else if (end.result)
		stet_cli_fail_commit_(run->dir, &end);
	return rc || end.result ? NOT_COMMITTED : STET_CLI_OK;
}

static void drop(struct run *run)
{
	struct stet_control_end end;

	/* What it holds goes with the connection in any case (I1). */
	(void)stet_control_abort(run->ctl, run->begun.id, &end);
}

static int finish(struct run *run, const struct stet_cli_job_end *end)
{
	if (end->daemon_gone) {
		stet_cli_error_(run->dir, "the daemon has gone, and the transaction with it");
		return NOT_COMMITTED;
	}
	if (end->code == 0 && !end->signal)
		return commit(run); /* I2 */
	drop(run);
	return end->code ? end->code : BY_SIGNAL + end->signal;
}

static void block_signals(sigset_t *ret_old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, ret_old);
}

static int run_command(struct run *run)
{
	struct stet_cli_job job = {
		.argv = run->argv,
		.root = run->begun.root,
		.mount = stet_control_info(run->ctl)->dir,
		.cwd = run->cwd,
		.control_fd = stet_control_fd(run->ctl),
	};
	struct stet_cli_job_end end;
	int code;

	block_signals(&job.mask);
	if (stet_cli_job_start_(&job, &code)) {
		stet_cli_job_wait_(&job, &end);
		code = finish(run, &end);
	} else {
		drop(run);
	}
	sigprocmask(SIG_SETMASK, &job.mask, NULL);
	return code;
}

static int run_run(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct run run = { 0 };
	bool serializable = false;
	bool read_only = false;
	const struct stet_cli_option options[] = {
		{ 0, "serializable", STET_CLI_FLAG, &serializable, NULL,
		  "what was read must be unchanged at commit" },
		{ 0, "read-only", STET_CLI_FLAG, &read_only, NULL,
		  "one consistent state; changes are refused" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	run.dir = words->word[0];
	run.argv = stet_cli_alloc_((size_t)words->count * sizeof(*run.argv));
	memcpy(run.argv, words->word + 1, (size_t)(words->count - 1) * sizeof(*run.argv));
	run.level = serializable ? STET_BEGIN_SERIALIZABLE : STET_BEGIN_SNAPSHOT;
	if (read_only)
		run.level |= STET_BEGIN_READ_ONLY;
	code = begin(&run);
	if (!code)
		code = run_command(&run);
	stet_control_close(run.ctl);
	free(run.real_dir);
	free(run.argv);
	return code;
}

const struct stet_cli_command stet_cli_run_ = {
	.name = "run",
	.synopsis = "DIR [--serializable] [--read-only] [--] COMMAND [ARGUMENT...]",
	.summary = "Run a command whose changes below a mount are one transaction",
	.details =
		"Committed when COMMAND ends with 0, dropped otherwise, also on a signal. The exit "
		"code is COMMAND's,\nor 123: not committed, 125: not begun, 126: not executable, "
		"127: not found, 128+N: signal N.",
	.min_words = 2,
	.max_words = STET_CLI_NO_LIMIT,
	.last_word = 2,
	.run = run_run,
};
