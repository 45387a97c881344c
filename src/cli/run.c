/* run.c - `stetfs run`: a command as one transaction on a mount.
 *
 * I1. The transaction is bound to our connection to the daemon: if either side dies, it is gone.
 * I2. It is committed only if the command ended with 0, and nobody told us to end.
 * I3. The code is the command's own, except 122 to 125, which are ours: no transaction, or no
 *     commit of what the command did.
 * I4. Another attempt is made only if nothing of the one before is left, and only because somebody
 *     else was in the way.
 * I5. Within another run on the same mount the command is a part of that one's transaction: it sees
 *     and makes its changes there, and they are committed with it. Where it fails half way, that
 *     cannot be committed any more (fuse/view.c, I8): so all or nothing holds for it as well.
 */
#include "cli/cli_internal.h"

#include "cli/changes_internal.h"
#include "cli/run_internal.h"
#include "fuse/control.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S (1000 * NS_PER_MS)
#define PAUSE_NS (10 * NS_PER_MS) /* at most, before the first retry; then doubled */
#define PAUSE_MAX_NS (1000 * NS_PER_MS)
#define TIMEOUT_MAX_S (UINT64_C(1) << 31) /* as good as none */

struct run {
	/* --- as given --- */
	const char *dir;
	char **argv;
	bool serializable, read_only;
	bool dry_run, confirm;
	bool json, all; /* of what --dry-run shows */
	uint64_t retries;
	bool verbose;
	/* --- own --- */
	char *real_dir;     /* owned */
	char cwd[PATH_MAX]; /* where the command starts */
	int64_t deadline_ns;
	struct stet_cli_signals signals;
	struct stet_control *ctl;
	struct stet_control_begun begun;
};

/* How an attempt ended. */
struct attempt {
	int code;
	bool conflict; /* it was not committed, and met one: worth another */
	struct stet_control_end end;
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
	const struct stet_ll_server *mount = stet_control_info(run->ctl);

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

/// The end ///

static int commit(struct run *run, struct attempt *a)
{
	int rc = stet_control_commit(run->ctl, run->begun.id, 0, &a->end);

	if (rc == -EPIPE) {
		stet_cli_error_(run->dir,
				"the daemon has gone; whether the commit is there shows when "
				"the volume is mounted again");
		return STET_CLI_RUN_NOT_COMMITTED;
	}
	if (rc == -ENOENT)
		stet_cli_error_(run->dir, "not committed: somebody else has ended the transaction");
	else if (rc)
		stet_cli_fail_control_(run->ctl, run->dir, rc);
	a->conflict = !rc && a->end.result && a->end.conflict;
	return rc || a->end.result ? STET_CLI_RUN_NOT_COMMITTED : STET_CLI_OK;
}

static void drop(struct run *run, struct attempt *a)
{
	/* What it holds goes with the connection in any case (I1). */
	if (stet_control_abort(run->ctl, run->begun.id, &a->end) == 0)
		a->conflict = a->end.conflict;
}

static int fail_gone(const struct run *run)
{
	stet_cli_error_(run->dir, "the daemon has gone, and the transaction with it");
	return STET_CLI_RUN_NOT_COMMITTED;
}

/// Showing what it did ///

/* Returns an exit code. */
static int load_changes(struct run *run, struct stet_cli_changes *ret)
{
	int rc = stet_control_freeze(run->ctl, run->begun.id);

	*ret = (struct stet_cli_changes){ 0 };
	if (!rc)
		rc = stet_cli_changes_load_(run->ctl, run->begun.id, ret);
	if (rc == -EPIPE)
		return fail_gone(run);
	if (!rc)
		return STET_CLI_OK;
	stet_cli_error_(run->dir, "its changes cannot be listed: %s", stet_control_why(run->ctl));
	return STET_CLI_RUN_NOT_COMMITTED;
}

static int show_and_drop(struct run *run, struct attempt *a)
{
	struct stet_cli_changes changes;
	int code = load_changes(run, &changes);

	if (!code && run->json)
		stet_cli_changes_json_(&changes);
	else if (!code)
		stet_cli_summary_(&changes, stdout, !run->all && isatty(STDOUT_FILENO),
				  "--all lists them");
	stet_cli_changes_release_(&changes);
	drop(run, a);
	a->conflict = false; /* no attempt would be better: they are all dropped */
	return stet_cli_flush_(code);
}

struct finding {
	uint64_t id;
	struct stet_control_txn txn;
};

static int find_txn(void *arg, const struct stet_control_txn *txn)
{
	struct finding *f = arg;

	if (txn->entry.id != f->id)
		return 0;
	f->txn = *txn;
	return 1;
}

static bool is_doomed(struct run *run)
{
	struct finding f = { .id = run->begun.id };

	return stet_control_txns(run->ctl, find_txn, &f) == 1 && f.txn.entry.doomed;
}

static int take_answer(struct run *run, const struct stet_cli_review *r, struct attempt *a)
{
	if (r->daemon_gone)
		return fail_gone(run);
	if (r->yes)
		return commit(run, a);
	drop(run, a);
	a->conflict = false; /* I4: it is not why */
	if (r->signal)
		return STET_CLI_RUN_BY_SIGNAL + r->signal;
	stet_cli_error_(run->dir, "%s; the changes were dropped",
			r->timed_out ? "no answer in time" : "declined");
	return r->timed_out ? STET_CLI_RUN_TIMED_OUT : STET_CLI_RUN_DECLINED;
}

static int ask_and_commit(struct run *run, struct attempt *a)
{
	struct stet_cli_changes changes;
	int code = load_changes(run, &changes);
	struct stet_cli_review r = {
		.dir = stet_control_info(run->ctl)->dir,
		.ctl = run->ctl,
		.changes = &changes,
		.signals = &run->signals,
		.deadline_ns = run->deadline_ns,
	};
	int rc = 0;

	if (code) {
		drop(run, a);
	} else if (changes.count == 0 || is_doomed(run)) {
		code = commit(run, a); /* there is nothing to ask: nothing comes of it */
	} else {
		rc = stet_cli_review_show_(&r);
		if (!rc)
			stet_cli_review_ask_(&r);
		else
			stet_cli_fail_("terminal", rc);
		code = take_answer(run, &r, a);
	}
	stet_cli_changes_release_(&changes);
	return code;
}

/// Attempts ///

static int finish(struct run *run, const struct stet_cli_job_end *end, struct attempt *a)
{
	int code;

	if (end->daemon_gone)
		return fail_gone(run);
	if (end->timed_out || end->signal) {
		drop(run, a);
		a->conflict = false; /* I4: it is not why */
		if (end->timed_out)
			stet_cli_error_(run->argv[0], "its time was up; the changes were dropped");
		return end->timed_out ? STET_CLI_RUN_TIMED_OUT
		       : end->code    ? end->code
				      : STET_CLI_RUN_BY_SIGNAL + end->signal;
	}
	if (run->dry_run) {
		code = show_and_drop(run, a);
		return end->code ? end->code : code;
	}
	if (end->code) {
		drop(run, a);
		return end->code;
	}
	return run->confirm ? ask_and_commit(run, a) : commit(run, a); /* I2 */
}

/* Starts the command where it sees `root` (NULL: what we see), and waits. False: it never ran, and
 * *ret_code is the code. */
static bool run_command(struct run *run, const char *root, struct stet_cli_job *job,
			struct stet_cli_job_end *ret, int *ret_code)
{
	*job = (struct stet_cli_job){
		.argv = run->argv,
		.signals = &run->signals,
		.control_fd = stet_control_fd(run->ctl),
		.deadline_ns = run->deadline_ns,
		.view = {
			.root = root,
			.mount = stet_control_info(run->ctl)->dir,
			.dev = stet_control_info(run->ctl)->dev,
			.id = run->begun.id,
			.cwd = run->cwd,
			.read_only = run->read_only,
		},
	};
	if (!stet_cli_job_start_(job, ret_code))
		return false;
	stet_cli_job_wait_(job, ret);
	return true;
}

static void attempt(struct run *run, struct attempt *a)
{
	unsigned level = (run->serializable ? STET_BEGIN_SERIALIZABLE : STET_BEGIN_SNAPSHOT) |
			 (run->read_only ? STET_BEGIN_READ_ONLY : 0);
	struct stet_cli_job job;
	struct stet_cli_job_end end;
	int rc = stet_control_begin(run->ctl, level, 0, &run->begun);

	*a = (struct attempt){ .code = STET_CLI_RUN_NOT_BEGUN };
	if (rc) {
		stet_cli_fail_control_(run->ctl, run->dir, rc);
	} else if (run_command(run, run->begun.root, &job, &end, &a->code)) {
		a->code = finish(run, &end, a);
		stet_cli_job_release_(&job);
	} else {
		drop(run, a);
		a->conflict = false;
	}
}

/* Random, so that those who met do not meet again; longer each time. */
static int64_t pause_ns(uint64_t retry)
{
	int64_t most = PAUSE_NS;
	uint32_t chance = UINT32_MAX;

	for (uint64_t i = 0; i < retry && most < PAUSE_MAX_NS; i++)
		most *= 2;
	(void)!getrandom(&chance, sizeof(chance), 0);
	return most * (int64_t)(chance >> 8) / (1 << 24);
}

/* Waits until the time or an ending signal, which is returned; 0: none. */
static int sleep_until(struct run *run, int64_t until_ns)
{
	struct pollfd p = { .fd = run->signals.fd, .events = POLLIN };

	for (;;) {
		int64_t left = until_ns - stet_cli_monotonic_ns_();
		int number;

		if (left <= 0)
			return 0;
		poll(&p, 1, (int)(left / NS_PER_MS) + 1);
		while ((number = stet_cli_signals_next_(&run->signals)) != 0) {
			if (stet_cli_signal_ends_(number))
				return number;
			if (number == SIGTSTP)
				stet_cli_signals_stop_();
		}
	}
}

/* True: once more. Otherwise *ret_code may be changed. */
static bool wants_retry(struct run *run, const struct attempt *a, uint64_t retry, int *ret_code)
{
	int64_t until_ns;
	int number;

	if (!a->conflict || retry >= run->retries)
		return false;
	if (run->verbose)
		stet_cli_error_(run->dir, "conflict: %s; again (%llu of %llu)",
				a->end.text[0] ? a->end.text : "a lock was not free in time",
				(unsigned long long)retry + 1, (unsigned long long)run->retries);
	until_ns = stet_cli_monotonic_ns_() + pause_ns(retry);
	if (until_ns >= run->deadline_ns)
		return false;
	number = sleep_until(run, until_ns);
	if (number)
		*ret_code = STET_CLI_RUN_BY_SIGNAL + number;
	return !number;
}

/* What led to the code, where the user does not know it yet. */
static void explain(const struct run *run, const struct attempt *a, uint64_t retries)
{
	char tries[64] = "";

	if (!a->end.result && !a->conflict)
		return;
	if (retries)
		snprintf(tries, sizeof(tries), "after %llu more attempts, ",
			 (unsigned long long)retries);
	stet_cli_error_(run->dir, "not committed: %s%s%s", tries, a->conflict ? "conflict: " : "",
			a->end.text[0] ? a->end.text : "a lock was not free in time");
}

static int run_attempts(struct run *run)
{
	struct attempt a;
	uint64_t retry = 0;
	int code;

	attempt(run, &a);
	code = a.code;
	while (wants_retry(run, &a, retry, &code)) {
		retry++;
		attempt(run, &a);
		code = a.code;
	}
	explain(run, &a, retry);
	return code;
}

/// Within another run (I5) ///

static int refuse_joining(const struct run *run, const char *why)
{
	stet_cli_error_(run->dir, "within a transaction: %s", why);
	return STET_CLI_RUN_NOT_BEGUN;
}

/* What a part of a transaction cannot have. Returns an exit code. */
static int check_joining(struct run *run)
{
	struct finding f = { .id = run->begun.id };

	if (run->dry_run || run->confirm)
		return refuse_joining(run, "the changes of a part cannot be dropped alone, so "
					   "--dry-run and --confirm are for the whole");
	if (stet_control_txns(run->ctl, find_txn, &f) != 1)
		return refuse_joining(run, "it has ended");
	if (run->serializable && !(f.txn.entry.flags & STET_BEGIN_SERIALIZABLE))
		return refuse_joining(run, "it is not --serializable, so no part of it can be");
	return STET_CLI_OK;
}

static int finish_joined(struct run *run, const struct stet_cli_job_end *end)
{
	int code = end->code;

	if (end->timed_out) {
		stet_cli_error_(run->argv[0], "its time was up");
		code = STET_CLI_RUN_TIMED_OUT;
	} else if (end->signal && !code) {
		code = STET_CLI_RUN_BY_SIGNAL + end->signal;
	}
	if (end->daemon_gone || stet_control_quit(run->ctl, run->begun.id, code != 0) == -EPIPE)
		return fail_gone(run);
	return code;
}

static int run_joined(struct run *run)
{
	struct stet_cli_job job;
	struct stet_cli_job_end end;
	int code = check_joining(run);
	int rc;

	if (code)
		return code;
	rc = stet_control_join(run->ctl, run->begun.id);
	if (rc) {
		stet_cli_fail_control_(run->ctl, run->dir, rc);
		return STET_CLI_RUN_NOT_BEGUN;
	}
	if (!run_command(run, NULL, &job, &end, &code)) {
		(void)stet_control_quit(run->ctl, run->begun.id, true); /* nothing was changed */
		return code;
	}
	code = finish_joined(run, &end);
	stet_cli_job_release_(&job);
	return code;
}

/// The command ///

static int run_in(struct run *run)
{
	int code = stet_cli_connect_(run->dir, &run->ctl);
	int rc;

	if (code || find_directories(run))
		return STET_CLI_RUN_NOT_BEGUN;
	rc = stet_cli_signals_open_(&run->signals);
	if (rc) {
		stet_cli_fail_("run", rc);
		return STET_CLI_RUN_NOT_BEGUN;
	}
	run->begun.id = stet_control_inside(run->real_dir);
	if (run->begun.id) {
		code = run_joined(run);
	} else if (run->confirm && run->signals.tty < 0) {
		stet_cli_error_("run", "--confirm: there is no terminal to ask on; %s was not run",
				run->argv[0]);
		code = STET_CLI_RUN_DECLINED;
	} else {
		code = run_attempts(run);
	}
	stet_cli_signals_close_(&run->signals);
	return code;
}

static int check_options(const struct stet_cli_command *cmd, struct run *run, uint64_t timeout_s)
{
	if (timeout_s == 0)
		return stet_cli_misuse_(cmd, "--timeout: at least 1");
	if (timeout_s > TIMEOUT_MAX_S)
		return stet_cli_misuse_(cmd, "--timeout: too long");
	if (run->dry_run && run->confirm)
		return stet_cli_misuse_(cmd, "either --dry-run or --confirm");
	if ((run->json || run->all) && !run->dry_run)
		return stet_cli_misuse_(cmd, "--json and --all are for --dry-run");
	if (timeout_s < TIMEOUT_MAX_S)
		run->deadline_ns = stet_cli_monotonic_ns_() + (int64_t)timeout_s * NS_PER_S;
	return STET_CLI_OK;
}

static int run_run(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct run run = { .deadline_ns = STET_CLI_NEVER };
	uint64_t timeout_s = TIMEOUT_MAX_S;
	const struct stet_cli_option options[] = {
		{ 0, "retry", STET_CLI_NUMBER, &run.retries, "N",
		  "run it again, up to N times, when others were in the way" },
		{ 0, "serializable", STET_CLI_FLAG, &run.serializable, NULL,
		  "what was read must be unchanged at commit" },
		{ 0, "read-only", STET_CLI_FLAG, &run.read_only, NULL,
		  "one consistent state; changes are refused" },
		{ 0, "dry-run", STET_CLI_FLAG, &run.dry_run, NULL,
		  "show the changes, and drop them" },
		{ 0, "confirm", STET_CLI_FLAG, &run.confirm, NULL,
		  "show the changes, and ask whether to commit them" },
		{ 0, "timeout", STET_CLI_NUMBER, &timeout_s, "SECONDS",
		  "drop the changes and end it after so long" },
		{ 0, "all", STET_CLI_FLAG, &run.all, NULL,
		  "with --dry-run: leave no line out on a terminal" },
		{ 0, "json", STET_CLI_FLAG, &run.json, NULL,
		  "with --dry-run: print the changes as JSON" },
		{ 'v', "verbose", STET_CLI_FLAG, &run.verbose, NULL, "tell each retry" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	code = check_options(cmd, &run, timeout_s);
	if (code)
		return code;
	run.dir = words->word[0];
	run.argv = stet_cli_alloc_((size_t)words->count * sizeof(*run.argv));
	memcpy(run.argv, words->word + 1, (size_t)(words->count - 1) * sizeof(*run.argv));
	code = run_in(&run);
	stet_control_close(run.ctl);
	free(run.real_dir);
	free(run.argv);
	return code;
}

const struct stet_cli_command stet_cli_run_ = {
	.name = "run",
	.synopsis = "DIR [OPTION...] [--] COMMAND [ARGUMENT...]",
	.summary = "Run a command whose changes below a mount are one transaction",
	.details =
		"Committed when COMMAND ends with 0, dropped otherwise, also on a signal. What it "
		"leaves running in its\nprocess group is waited for. Within it, another `stetfs "
		"run` "
		"on the same mount is a part of the same\ntransaction. With --retry, COMMAND finds "
		"its "
		"standard input where the attempt before has left it.\n\nThe exit code is "
		"COMMAND's, "
		"or 122: declined, 123: not committed, 124: timed out, 125: not begun,\n126: not "
		"executable, 127: not found, 128+N: signal N.",
	.min_words = 2,
	.max_words = STET_CLI_NO_LIMIT,
	.last_word = 2,
	.run = run_run,
};
