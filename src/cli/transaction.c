/* transaction.c - `stetfs begin`, commit, abort, diff and txns: transactions of a mount, by number.
 *
 * They are the daemon's: begin leaves one behind that lives until somebody ends it. `stetfs run`
 * is what ends one by itself.
 */
#include "cli/cli_internal.h"

#include "cli/changes_internal.h"
#include "fuse/control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

/// begin ///

static int begin(const char *dir, unsigned level, struct stet_cli_json *json)
{
	struct stet_control_begun begun;
	struct stet_control *ctl;
	int code;
	int rc;

	if (stet_control_inside(dir)) {
		stet_cli_error_(dir, "within a transaction no other one of the same mount can be "
				     "reached");
		return STET_CLI_FAILED;
	}
	code = stet_cli_connect_(dir, &ctl);
	if (code)
		return code;
	rc = stet_control_begin(ctl, level, STET_CONTROL_DETACHED, &begun);
	if (rc) {
		code = stet_cli_fail_control_(ctl, dir, rc);
	} else if (!json->on) {
		printf("%" PRIu64 "\n", begun.id);
	} else {
		stet_cli_json_open_(json, NULL, '{');
		stet_cli_json_number_(json, "id", begun.id);
		stet_cli_json_string_(json, "root", begun.root);
		stet_cli_json_close_(json, '}');
	}
	stet_control_close(ctl);
	return code;
}

static int run_begin(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct stet_cli_json json = { 0 };
	bool serializable = false;
	bool read_only = false;
	const struct stet_cli_option options[] = {
		{ 0, "serializable", STET_CLI_FLAG, &serializable, NULL,
		  "what was read must be unchanged at commit" },
		{ 0, "read-only", STET_CLI_FLAG, &read_only, NULL, "refuse changes" },
		{ 0, "json", STET_CLI_FLAG, &json.on, NULL, "print JSON, with the root's path" },
		{ 0 },
	};
	unsigned level;
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	level = serializable ? STET_BEGIN_SERIALIZABLE : STET_BEGIN_SNAPSHOT;
	if (read_only)
		level |= STET_BEGIN_READ_ONLY;
	return begin(words->word[0], level, &json);
}

const struct stet_cli_command stet_cli_begin_ = {
	.name = "begin",
	.synopsis = "DIR [--serializable] [--read-only] [--json]",
	.summary = "Begin a transaction on a mount and print its number",
	.details = "What it sees is DIR/.stet/txn/NUMBER/root. It lasts until commit or abort.",
	.min_words = 1,
	.max_words = 1,
	.run = run_begin,
};

/// commit, abort ///

/* Connects to the mount words[0] and reads the number words[1]. Returns an exit code. */
static int find_transaction(const struct stet_cli_command *cmd, const struct stet_cli_words *words,
			    struct stet_control **ret_ctl, uint64_t *ret_id)
{
	if (!stet_cli_parse_number_(words->word[1], ret_id))
		return stet_cli_misuse_(cmd, "'%s' is not the number of a transaction",
					words->word[1]);
	return stet_cli_connect_(words->word[0], ret_ctl);
}

static int fail_transaction(const struct stet_control *ctl, const char *id, int rc)
{
	if (rc != -ENOENT)
		return stet_cli_fail_control_(ctl, id, rc);
	stet_cli_error_(id, "there is no such transaction");
	return STET_CLI_FAILED;
}

int stet_cli_fail_commit_(const char *what, const struct stet_control_end *end)
{
	if (end->text[0])
		stet_cli_error_(what, "not committed: %s", end->text);
	else
		stet_cli_fail_(what, end->result);
	return STET_CLI_FAILED;
}

/* Without `only` all of it. A dropped part leaves the transaction open. */
static int end_transaction(struct stet_control *ctl, uint64_t id, bool commits,
			   const struct stet_cli_words *only, struct stet_control_end *end)
{
	const char *const *paths = (const char *const *)only->word;
	size_t count = (size_t)only->count;

	if (commits && count)
		return stet_control_commit_only(ctl, id, paths, count, 0, end);
	if (commits)
		return stet_control_commit(ctl, id, 0, end);
	return count ? stet_control_revert(ctl, id, paths, count)
		     : stet_control_abort(ctl, id, end);
}

static int run_end(const struct stet_cli_command *cmd, struct stet_cli_words *words, bool commits)
{
	bool is_part = false;
	const struct stet_cli_option options[] = {
		{ 0, "only", STET_CLI_FLAG, &is_part, NULL,
		  commits ? "commit these paths, and drop what else was changed"
			  : "drop these paths, and go on with what else was changed" },
		{ 0 },
	};
	struct stet_cli_words only = { 0 };
	struct stet_control_end end = { 0 };
	struct stet_control *ctl = NULL;
	uint64_t id = 0;
	int code;
	int rc;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	only.word = words->word + 2;
	only.count = words->count - 2;
	if (is_part != (only.count > 0))
		return stet_cli_misuse_(cmd, is_part ? "--only needs a path"
						     : "paths are given with --only");
	code = find_transaction(cmd, words, &ctl, &id);
	if (code)
		return code;
	rc = end_transaction(ctl, id, commits, &only, &end);
	if (rc)
		code = fail_transaction(ctl, words->word[1], rc);
	else if (end.result)
		code = stet_cli_fail_commit_(words->word[1], &end);
	stet_control_close(ctl);
	return code;
}

static int run_commit(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	return run_end(cmd, words, true);
}

static int run_abort(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	return run_end(cmd, words, false);
}

const struct stet_cli_command stet_cli_commit_ = {
	.name = "commit",
	.synopsis = "DIR NUMBER [--only PATH...]",
	.summary = "Commit a transaction: its changes become visible and durable together",
	.details = "PATHs are as `stetfs diff` prints them; each stands for what is below it too. "
		   "If a part does "
		   "not stand\nalone, it is refused, and the transaction goes on.",
	.min_words = 2,
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_commit,
};

const struct stet_cli_command stet_cli_abort_ = {
	.name = "abort",
	.synopsis = "DIR NUMBER [--only PATH...]",
	.summary = "Drop a transaction and all its changes, or a part of them",
	.details = "PATHs are as `stetfs diff` prints them; each stands for what is below it too. "
		   "If the rest does "
		   "not stand\nalone, it is refused. The transaction then goes on with the rest.",
	.min_words = 2,
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_abort,
};

/// diff ///

struct diff {
	bool json, unified, all;
};

static int print_patch(const struct stet_control *ctl, const struct stet_cli_changes *changes,
		       FILE *out, bool visible)
{
	struct stet_cli_trees trees;
	int code = stet_cli_trees_open_(stet_control_info(ctl)->dir, changes->id, &trees);

	if (code)
		return code;
	code = stet_cli_patch_(changes, &trees, out, visible);
	stet_cli_trees_close_(&trees);
	return code;
}

static int print_changes(const struct diff *d, const struct stet_control *ctl,
			 const struct stet_cli_changes *changes)
{
	bool is_terminal = isatty(STDOUT_FILENO);
	struct stet_cli_pager pager = { .out = stdout };
	int code = STET_CLI_OK;

	if (d->json) {
		stet_cli_changes_json_(changes);
		return code;
	}
	if (is_terminal && (d->unified || d->all))
		stet_cli_pager_open_(STDOUT_FILENO, NULL, &pager);
	if (d->unified)
		code = print_patch(ctl, changes, pager.out, is_terminal);
	else
		stet_cli_summary_(changes, pager.out, is_terminal && !d->all, "--all lists them");
	if (pager.out != stdout)
		stet_cli_pager_close_(&pager);
	return code;
}

/* Without a number: the one that we are within. */
static int find_diffed(const struct stet_cli_command *cmd, const struct stet_cli_words *words,
		       struct stet_control **ret_ctl, uint64_t *ret_id)
{
	if (words->count == 2)
		return find_transaction(cmd, words, ret_ctl, ret_id);
	*ret_id = stet_control_inside(words->word[0]);
	if (!*ret_id)
		return stet_cli_misuse_(cmd, "the number of a transaction is missing");
	return stet_cli_connect_(words->word[0], ret_ctl);
}

static int run_diff(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct diff d = { 0 };
	const struct stet_cli_option options[] = {
		{ 'u', "unified", STET_CLI_FLAG, &d.unified, NULL,
		  "print the changes of files as a patch" },
		{ 0, "all", STET_CLI_FLAG, &d.all, NULL, "leave no line out on a terminal" },
		{ 0, "json", STET_CLI_FLAG, &d.json, NULL, "print JSON" },
		{ 0 },
	};
	struct stet_cli_changes changes = { 0 };
	struct stet_control *ctl = NULL;
	uint64_t id = 0;
	int code;
	int rc;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	code = find_diffed(cmd, words, &ctl, &id);
	if (code)
		return code;
	rc = stet_cli_changes_load_(ctl, id, &changes);
	if (rc)
		code = fail_transaction(ctl, words->count == 2 ? words->word[1] : words->word[0],
					rc);
	else
		code = print_changes(&d, ctl, &changes);
	stet_cli_changes_release_(&changes);
	stet_control_close(ctl);
	return code;
}

const struct stet_cli_command stet_cli_diff_ = {
	.name = "diff",
	.synopsis = "DIR [NUMBER] [-u] [--all] [--json]",
	.summary = "Print what a transaction would change",
	.details = "D deleted, T of another type, R renamed, A added, M changed. Compared with "
		   "what the "
		   "transaction began with,\nwhatever others have done since. Within `stetfs run` "
		   "NUMBER "
		   "may be left out.",
	.min_words = 1,
	.max_words = 2,
	.run = run_diff,
};

/// txns ///

struct txns {
	struct stet_cli_json json;
	int64_t now_ns;
	bool begun;
};

static const char *level_name(unsigned flags)
{
	if (flags & STET_BEGIN_LOCKING)
		return "locking";
	return flags & STET_BEGIN_SERIALIZABLE ? "serializable" : "snapshot";
}

static void print_json_txn(struct stet_cli_json *json, const struct stet_control_txn *txn)
{
	stet_cli_json_open_(json, NULL, '{');
	stet_cli_json_number_(json, "id", txn->entry.id);
	stet_cli_json_string_(json, "level", level_name(txn->entry.flags));
	stet_cli_json_bool_(json, "read_only", txn->entry.flags & STET_BEGIN_READ_ONLY);
	stet_cli_json_bool_(json, "detached", txn->detached);
	stet_cli_json_bool_(json, "client", !txn->is_view);
	stet_cli_json_time_(json, "begun", txn->entry.begun_ns);
	stet_cli_json_number_(json, "view_serial", txn->entry.view_serial);
	stet_cli_json_number_(json, "uid", txn->uid);
	stet_cli_json_number_(json, "pid", (uint64_t)txn->pid);
	stet_cli_json_number_(json, "files", txn->files);
	stet_cli_json_number_(json, "locks", txn->entry.locks);
	stet_cli_json_number_(json, "staged_bytes", txn->entry.staged_bytes);
	stet_cli_json_number_(json, "pinned_bytes", txn->entry.pinned_bytes);
	stet_cli_json_number_(json, "waiting_for", txn->entry.waiting_for);
	stet_cli_json_bool_(json, "conflict", txn->conflict);
	stet_cli_json_bool_(json, "doomed", txn->entry.doomed);
	stet_cli_json_close_(json, '}');
}

static void print_state(const struct stet_control_txn *txn)
{
	if (txn->entry.doomed)
		fputs("doomed", stdout);
	else if (txn->entry.waiting_for)
		printf("waits for %" PRIu64, txn->entry.waiting_for);
	else if (!txn->is_view)
		fputs("client", stdout);
	else
		fputs(txn->detached ? "detached" : "running", stdout);
	putchar('\n');
}

static int print_txn(void *arg, const struct stet_control_txn *txn)
{
	struct txns *t = arg;
	char user[STET_CLI_OWNER_MAX];
	char staged[STET_CLI_SIZE_MAX], pinned[STET_CLI_SIZE_MAX];

	if (!txn->is_view && !txn->entry.for_user)
		return 0;
	if (t->json.on) {
		print_json_txn(&t->json, txn);
		return 0;
	}
	if (!t->begun)
		printf("%8s %-12s %8s %-10s %8s %6s %6s %8s %8s %s\n", "NUMBER", "LEVEL", "SECONDS",
		       "USER", "PROCESS", "FILES", "LOCKS", "STAGED", "PINNED", "STATE");
	t->begun = true;
	stet_cli_format_user_(txn->uid, user);
	stet_cli_format_short_size_(txn->entry.staged_bytes, staged);
	stet_cli_format_short_size_(txn->entry.pinned_bytes, pinned);
	printf("%8" PRIu64 " %-12s %8" PRId64 " %-10s %8ld %6" PRIu64 " %6" PRIu64 " %8s %8s ",
	       txn->entry.id, level_name(txn->entry.flags),
	       (t->now_ns - txn->entry.begun_ns) / NS_PER_S, user, (long)txn->pid, txn->files,
	       txn->entry.locks, staged, pinned);
	print_state(txn);
	return 0;
}

static int run_txns(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct txns t = { 0 };
	const struct stet_cli_option options[] = {
		{ 0, "json", STET_CLI_FLAG, &t.json.on, NULL, "print JSON" },
		{ 0 },
	};
	struct stet_control *ctl;
	struct timespec now;
	int code;
	int rc;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	code = stet_cli_connect_(words->word[0], &ctl);
	if (code)
		return code;
	clock_gettime(CLOCK_REALTIME, &now);
	t.now_ns = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
	stet_cli_json_open_(&t.json, NULL, '[');
	rc = stet_control_txns(ctl, print_txn, &t);
	stet_cli_json_close_(&t.json, ']');
	if (rc)
		code = stet_cli_fail_control_(ctl, words->word[0], rc);
	stet_control_close(ctl);
	return code;
}

const struct stet_cli_command stet_cli_txns_ = {
	.name = "txns",
	.synopsis = "DIR [--json]",
	.summary = "List the open transactions of a mount",
	.min_words = 1,
	.max_words = 1,
	.run = run_txns,
};
