/* work.c - rounds: transactions begun, gone on with and ended, by threads or in turn; then the verdict.
 *
 * W1. Steps: one thread, one step of a random actor at a time, a lock that is not free is answered at once. An
 *     actor that is refused gives up, tries to commit all the same, or (it may have been a lock) goes on.
 * W2. Threads wait for locks. Nobody holds anything while he waits for another round.
 * W3. Last of all one reader reads everything: so all that was written is in its place in an order.
 */
#include "work.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPS_MAX 10u
#define ACTORS 6u
#define VOLUME_BYTES (UINT64_C(256) << 20)
#define VOLUME_ROUNDS 12u                     /* before there is a new one */
#define SMALL_CACHE_BYTES (UINT64_C(4) << 20) /* there are no smaller ones */

/* --- transactions of one actor --- */

static void keep(struct actor *a, enum hist_outcome outcome)
{
	a->log->outcome = outcome;
	hist_push(&a->done, a->log);
	a->log = NULL;
	a->txn = NULL;
	if (outcome == HIST_COMMITTED)
		a->totals.commits[a->level]++;
}

static enum hist_level choose_level(struct actor *a)
{
	enum hist_level level;

	do {
		level = (enum hist_level)work_random(a, 4);
	} while (!(a->work->plan->levels & 1u << level));
	return level;
}

static void begin(struct actor *a)
{
	static const unsigned flags[] = { 0, STET_BEGIN_SNAPSHOT, STET_BEGIN_SERIALIZABLE,
					  STET_BEGIN_LOCKING };
	bool read_only = work_random(a, 8) == 0;
	unsigned more = read_only ? STET_BEGIN_READ_ONLY : 0;
	int rc;

	if (a->level == HIST_LOCKING && work_random(a, 4) == 0)
		more |= STET_LOCK_PAGE;

	a->log = hist_txn_new(atomic_fetch_add(&a->work->next_txn, 1), a->level);
	a->log->read_only = read_only;
	a->log->begin_call = work_tick(a);
	rc = stet_begin(a->work->vol, flags[a->level] | more, &a->txn);
	a->log->begin_ret = work_tick(a);
	a->ops_left = 1 + (unsigned)work_random(a, OPS_MAX);
	a->refused = a->spoiled = false;
	a->saved = 0;
	if (!rc && a->flags)
		rc = work_records_begin(a);
	if (rc)
		a->txn = NULL;
	work_note(a, "begin", rc);
}

static void abort_it(struct actor *a)
{
	a->log->commit_call = work_tick(a);
	stet_abort(a->txn);
	a->log->commit_ret = work_tick(a);
	keep(a, HIST_ABORTED);
}

static void commit(struct actor *a)
{
	unsigned sync = a->work->plan->sync_one_in;
	unsigned flags = sync && work_random(a, sync) == 0 ? 0 : STET_COMMIT_NOSYNC;
	int rc;

	a->log->commit_call = work_tick(a);
	rc = stet_commit(a->txn, flags);
	a->log->commit_ret = work_tick(a);
	work_note(a, "commit", rc);
	if (!rc) {
		keep(a, HIST_COMMITTED);
		return;
	}
	a->totals.conflicts += rc == -EBUSY;
	stet_abort(a->txn);
	a->log->commit_ret = work_tick(a);
	keep(a, HIST_ABORTED);
}

/* A plain operation is a transaction of its own. One that was refused has not been. */
static void plain(struct actor *a)
{
	a->log = hist_txn_new(atomic_fetch_add(&a->work->next_txn, 1), HIST_PLAIN);
	a->log->begin_call = a->log->commit_call = work_tick(a);
	work_op(a);
	a->log->begin_ret = a->log->commit_ret = work_tick(a);
	keep(a, HIST_COMMITTED);
	a->refused = false;
}

/* A savepoint more, back to one of them, or one forgotten. */
static void savepoint(struct actor *a)
{
	unsigned at = a->saved ? (unsigned)work_random(a, a->saved) : 0;
	int rc;

	if (a->saved < WORK_SAVEPOINTS && (a->saved == 0 || work_random(a, 2) == 0)) {
		rc = stet_savepoint(a->txn, &a->savepoints[a->saved]);
		work_note(a, "savepoint", rc);
		a->saved_ops[a->saved] = a->log->ops.n;
		a->saved += !rc;
	} else if (work_random(a, 3) > 0) {
		rc = stet_rollback_to(a->txn, a->savepoints[at]);
		work_note(a, "back to a savepoint", rc);
		if (rc)
			return;
		hist_undo(a->log, a->saved_ops[at]);
		a->saved = at + 1;
		a->totals.rollbacks++;
	} else {
		rc = stet_savepoint_release(a->txn, a->savepoints[at]);
		work_note(a, "forgetting a savepoint", rc);
		a->saved = at;
	}
}

/* W1 */
static void refused(struct actor *a)
{
	unsigned way = (unsigned)work_random(a, 8);

	a->refused = false;
	if (a->spoiled || (way > 0 && way < 5) || (way > 4 && !a->flags))
		abort_it(a);
	else if (way == 0)
		commit(a);
}

static bool go_on(const struct actor *a)
{
	return !atomic_load(&a->work->failed) && (a->txn || atomic_load(&a->work->left) > 0);
}

static void step(struct actor *a)
{
	if (a->txn && a->refused) {
		refused(a);
	} else if (a->txn && a->ops_left > 0) {
		a->ops_left--;
		if (work_random(a, 8) == 0)
			savepoint(a);
		else
			work_op(a);
	} else if (a->txn) {
		if (work_random(a, 16) == 0)
			abort_it(a);
		else
			commit(a);
	} else {
		uint64_t left = atomic_load(&a->work->left);

		do {
			if (left == 0)
				return;
		} while (!atomic_compare_exchange_weak(&a->work->left, &left, left - 1));
		a->level = choose_level(a);
		if (a->level == HIST_PLAIN)
			plain(a);
		else
			begin(a);
	}
}

/* --- rounds --- */

static void *thread_main(void *arg)
{
	struct actor *a = arg;

	while (go_on(a))
		step(a);
	if (a->txn)
		abort_it(a);
	return NULL;
}

static bool run_threads(struct actor *actors, unsigned n)
{
	pthread_t threads[ACTORS];
	unsigned started = 0;

	while (started < n &&
	       pthread_create(&threads[started], NULL, thread_main, &actors[started]) == 0)
		started++;
	for (unsigned k = 0; k < started; k++)
		pthread_join(threads[k], NULL);
	return started == n;
}

static void run_steps(struct actor *actors, unsigned n, uint64_t seed)
{
	struct actor chooser = { .random = seed };
	unsigned idle = 0;

	while (idle < n) {
		unsigned at = (unsigned)work_random(&chooser, n);

		idle = 0;
		for (unsigned k = 0; k < n; k++)
			idle += !go_on(&actors[k]);
		if (go_on(&actors[at]))
			step(&actors[at]);
	}
	for (unsigned k = 0; k < n; k++)
		if (actors[k].txn)
			abort_it(&actors[k]);
}

/* W3 */
static void read_all(struct actor *a)
{
	int rc;

	a->level = HIST_SNAPSHOT;
	a->log = hist_txn_new(atomic_fetch_add(&a->work->next_txn, 1), HIST_SNAPSHOT);
	a->log->read_only = true;
	a->log->begin_call = work_tick(a);
	rc = stet_begin(a->work->vol, STET_BEGIN_READ_ONLY, &a->txn);
	a->log->begin_ret = work_tick(a);
	work_note(a, "begin", rc);
	if (rc) {
		keep(a, HIST_ABORTED);
		return;
	}
	work_read_all(a);
	a->refused = false;
	commit(a);
}

static bool was_linked(const struct actor *actors, unsigned n, uint64_t ino)
{
	for (unsigned k = 0; k < n; k++)
		for (size_t i = 0; i < actors[k].linked.n; i++)
			if (actors[k].linked.v[i] == ino)
				return true;
	return false;
}

/* The content of what had a second name does not go with one of them. */
static void keep_linked(const struct actor *actors, unsigned n, struct hist_txn *txn)
{
	size_t kept = 0;

	for (size_t i = 0; i < txn->ops.n; i++) {
		const struct hist_op *op = &txn->ops.v[i];

		if (op->value == WORK_CONTENT_GONE && op->key >> 56 == KEY_CONTENT &&
		    was_linked(actors, n, (op->key >> 16) & UINT64_C(0xffffffffff)))
			continue;
		txn->ops.v[kept++] = *op;
	}
	txn->ops.n = kept;
}

static void add_counts(struct hist_counts *sum, const struct hist_counts *c)
{
	sum->txns += c->txns;
	sum->committed += c->committed;
	sum->ops += c->ops;
	sum->edges += c->edges;
	sum->reads += c->reads;
	sum->unsure_reads += c->unsure_reads;
	sum->versions += c->versions;
	sum->unsure_versions += c->unsure_versions;
}

static void gather(struct actor *actors, unsigned n, struct history *h, struct work_totals *totals)
{
	for (unsigned k = 0; k < n; k++)
		for (size_t i = 0; i < actors[k].done.n; i++) {
			keep_linked(actors, n, actors[k].done.v[i]);
			hist_push(&h->txns, actors[k].done.v[i]);
		}
	for (unsigned k = 0; k < n; k++) {
		const struct work_totals *t = &actors[k].totals;

		for (unsigned level = 0; level < 4; level++)
			totals->commits[level] += t->commits[level];
		totals->conflicts += t->conflicts;
		totals->deadlocks += t->deadlocks;
		totals->busy += t->busy;
		totals->operations += t->operations;
		totals->rollbacks += t->rollbacks;
		hist_vec_free(&actors[k].done);
		hist_vec_free(&actors[k].linked);
	}
}

static bool any_error(const struct actor *actors, unsigned n, FILE *out)
{
	for (unsigned k = 0; k < n; k++) {
		if (!actors[k].error)
			continue;
		if (out)
			fprintf(out, "%s: %s: %s\n", actors[k].what, strerror(-actors[k].error),
				actors[k].why);
		return true;
	}
	return false;
}

static enum work_verdict judge(struct actor *actors, unsigned n, const struct work_plan *plan,
			       FILE *out, struct work_totals *totals)
{
	struct history h = { .print_key = work_print_key };
	struct hist_counts counts = { 0 };
	bool wrong = any_error(actors, n, out);

	gather(actors, n, &h, totals);
	if (!wrong)
		wrong = hist_check(&h, out, &counts) != HIST_NONE;
	add_counts(&totals->counts, &counts);
	totals->rounds++;
	totals->steps += !plan->threads;
	hist_release(&h);
	return wrong ? WORK_WRONG : WORK_RIGHT;
}

enum work_verdict work_round(struct stet_volume *vol, const struct work_plan *plan, FILE *out,
			     struct work_totals *totals)
{
	struct work w = { .vol = vol, .client = plan->client, .plan = plan };
	struct actor actors[ACTORS + 1] = { { 0 } };
	unsigned n = plan->actors < ACTORS ? plan->actors : ACTORS;
	enum work_verdict verdict;
	int rc = work_set_up(&w);

	if (rc) {
		if (out)
			fprintf(out, "set-up: %s\n", stet_error_text());
		return WORK_WRONG;
	}
	atomic_store(&w.left, plan->txns);
	atomic_store(&w.next_txn, 1);
	for (unsigned k = 0; k <= n; k++) {
		actors[k].work = &w;
		actors[k].random = plan->seed * 1000003 + k;
		actors[k].flags = plan->threads ? 0 : STET_LL_NOWAIT;
	}
	if (!plan->threads)
		run_steps(actors, n, plan->seed);
	else if (!run_threads(actors, n))
		actors[0].error = -EAGAIN;
	if (!atomic_load(&w.failed))
		read_all(&actors[n]);
	verdict = judge(actors, n + 1, plan, out, totals);
	work_records_release(&w);
	return verdict;
}

/* --- runs --- */

void work_plan_by_seed(uint64_t seed, uint64_t no, struct work_plan *ret)
{
	static const unsigned levels[] = {
		1u << HIST_SERIALIZABLE,
		1u << HIST_SNAPSHOT,
		1u << HIST_LOCKING,
		1u << HIST_SERIALIZABLE | 1u << HIST_LOCKING | 1u << HIST_PLAIN,
		1u << HIST_SERIALIZABLE | 1u << HIST_SNAPSHOT,
		1u << HIST_SERIALIZABLE | 1u << HIST_LOCKING | 1u << HIST_PLAIN |
			1u << HIST_SNAPSHOT,
	};

	*ret = (struct work_plan){
		.seed = seed << 20 | no,
		.actors = 2 + (unsigned)(no / 6 % (ACTORS - 1)),
		.levels = levels[no % 6],
		.sync_one_in = 400,
		.threads = no / 6 % 2,
	};
}

static int print_problem(void *arg, const struct stet_problem *problem)
{
	FILE *out = arg;

	if (out)
		fprintf(out, "check: %s: %s %s\n", problem->id, problem->text, problem->path);
	return 0;
}

/* By its number: with memory for all, or so little that transactions spill and checkpoints come often; flushed
 * now and then, or all the time. */
static int open_new(const char *path, uint64_t no, struct stet_volume **ret)
{
	const struct stet_mkfs_options make = { .size_bytes = VOLUME_BYTES, .force = true };
	const struct stet_open_options open = {
		.cache_bytes = no % 2 ? SMALL_CACHE_BYTES : 0,
		.checkpoint_bytes = no % 2 ? SMALL_CACHE_BYTES : 0,
		.flush_interval_ms = no % 4 > 1 ? 1 : 0,
	};
	int rc = stet_mkfs(path, &make);

	return rc ? rc : stet_open(path, &open, ret);
}

static int add_stat(void *arg, const char *name, uint64_t value)
{
	struct work_totals *totals = arg;

	if (strcmp(name, "spills") == 0)
		totals->spills += value;
	else if (strcmp(name, "checkpoints") == 0)
		totals->checkpoints += value;
	else if (strcmp(name, "overlays") == 0)
		totals->overlays += value;
	return 0;
}

static enum work_verdict run_round(const struct work_run *run, struct stet_volume *vol, uint64_t no,
				   struct work_totals *totals)
{
	enum work_verdict verdict;
	struct work_plan plan;

	work_plan_by_seed(run->seed, no, &plan);
	plan.txns = run->txns;
	plan.client = run->serve;
	plan.threads = (plan.threads && run->threads) || plan.client;
	if (run->level)
		plan.levels = 1u << (run->level - 1);
	verdict = work_round(vol, &plan, run->out, totals);
	if (verdict && run->out)
		fprintf(run->out,
			"again: HISTORY_SEED=%" PRIu64 " HISTORY_ROUND=%" PRIu64 " (%s)\n",
			run->seed, no, plan.threads ? "threads" : "in turn");
	return verdict;
}

/* Those of a client, if the run is a client's. */
static enum work_verdict run_rounds(const struct work_run *run, struct stet_volume *vol,
				    uint64_t first, uint64_t end, struct work_totals *totals)
{
	enum work_verdict verdict = WORK_RIGHT;
	struct stet_volume *used = vol;
	void *server;

	if (run->serve && run->serve(vol, first / VOLUME_ROUNDS, &used, &server)) {
		fprintf(stderr, "serving: %s\n", stet_error_text());
		return WORK_WRONG;
	}
	for (uint64_t no = first; no < end && !verdict; no++)
		verdict = run_round(run, used, no, totals);
	if (verdict || !run->serve)
		return verdict; /* what may be broken is not closed */
	if (stet_close(used))
		return WORK_WRONG;
	run->stop(server);
	return WORK_RIGHT;
}

/* Rounds first .. end - 1, which are of one volume. */
static enum work_verdict run_volume(const struct work_run *run, uint64_t first, uint64_t end,
				    struct work_totals *totals)
{
	enum work_verdict verdict;
	struct stet_volume *vol;

	if (open_new(run->path, first / VOLUME_ROUNDS, &vol)) {
		fprintf(stderr, "%s: %s\n", run->path, stet_error_text());
		return WORK_WRONG;
	}
	verdict = run_rounds(run, vol, first, end, totals);
	if (verdict)
		return verdict;
	stet_stats(vol, add_stat, totals);
	if (stet_close(vol) || stet_check(run->path, 0, print_problem, run->out) != 0) {
		if (run->out)
			fprintf(run->out,
				"the volume of rounds from %" PRIu64 " on is damaged: %s\n", first,
				stet_error_text());
		return WORK_WRONG;
	}
	return WORK_RIGHT;
}

enum work_verdict work_run(const struct work_run *run, struct work_totals *totals)
{
	enum work_verdict verdict = WORK_RIGHT;
	uint64_t last = run->first + run->count;

	for (uint64_t no = run->first, end; no < last && !verdict; no = end) {
		end = (no / VOLUME_ROUNDS + 1) * VOLUME_ROUNDS;
		if (end > last)
			end = last;
		verdict = run_volume(run, no, end, totals);
	}
	return verdict;
}
