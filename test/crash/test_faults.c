/* test_faults.c - the N-th write, flush, read or allocation fails, N = 1, 2, 3 ... until none does.
 *
 * Each time the same run of steps is done beside the model, in a child.
 *
 * E1. A failed write into the log is noticed by nobody: every operation succeeds, the volume goes on.
 * E2. After a failed flush the volume is FAILED: it shows its last durable state, changes give -EROFS; opened
 *     again, it shows a state that a crash may show.
 * E3. A failed read may fail the operation that it was for, and nothing else; opening may fail, and
 *     succeeds the next time.
 * E4. When memory is short an operation gives -ENOMEM and has changed nothing (or its transaction is lost).
 *
 *	FAULT_SEED	this run only		FAULT_N		this N only
 *	FAULT_RUNS	how many runs of each kind
 */
#include "runner.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define RUNS 6
#define STEPS 250
#define LIMIT_S 60u
#define N_MAX 3000u

enum kind { WRITE, WRITE_SHORT, HEAD_WRITE, FLUSH, READ, WRITES, FLUSHES, MEMORY, KINDS };

static const struct {
	const char *name, *script; /* %u: N */
} kinds[KINDS] = {
	[WRITE] = { "a write", "write#%u@131072-16777216:eio" },
	[WRITE_SHORT] = { "a write, half done", "write#%u@131072-16777216:short=3" },
	[HEAD_WRITE] = { "a write of a slot", "write#%u@0-131072:eio" },
	[FLUSH] = { "a flush", "flush#%u:eio" },
	[READ] = { "a read", "read#%u:eio" },
	[WRITES] = { "all writes", "write#%u+:eio" },
	[FLUSHES] = { "all flushes", "flush#%u+:eio" },
	[MEMORY] = { "an allocation", "" },
};

struct trial {
	enum kind kind;
	uint64_t seed;
	unsigned n;
	bool hit;
	char why[2000];
};

static bool strict(enum kind kind)
{
	return kind == WRITE || kind == WRITE_SHORT; /* E1 */
}

static void choose(const struct trial *t, struct run *run)
{
	memset(run, 0, sizeof(*run));
	run->seed = t->seed;
	run->config = (struct world_config){
		.size_bytes = UINT64_C(16) << 20,
		.seg_blocks = 64,
		.meta_copies = (uint8_t)(1 + t->seed % 2),
		.cache_bytes = UINT64_C(4) << 20,
		.checkpoint_bytes = UINT64_C(64) << 10,
		.delta_bytes = t->seed % 4 == 1 ? UINT64_C(16) << 10 : 0,
		.seed = t->seed,
		.fault = true,
	};
	run->mix = (struct step_mix){
		.txns = (unsigned)(t->seed % 3),
		.locking = t->seed % 2,
		.reopen = t->kind != HEAD_WRITE,
		.reads_percent = t->kind == READ ? 30 : 5,
		.pages_max = 800,
		.pages_min = 400,
		.inodes_max = 40,
		.bytes_max = 200000,
		.sync_every = 5,
	};
}

static bool set_fault(struct duel *d, const struct trial *t)
{
	char script[100];

	snprintf(script, sizeof(script), kinds[t->kind].script, t->n);
	return t->kind == MEMORY || sim_fault_set(d->w->fault, script) == 0 ||
	       duel_fail(d, "script: %s", script);
}

static bool was_hit(struct duel *d)
{
	struct sim_fault_stats stats;

	sim_fault_stats(d->w->fault, &stats);
	return stats.total_hits > 0;
}

/* --- E2 --- */

static bool shows_durable(struct duel *d)
{
	struct stet_engine_stats stats;
	struct model *have;
	bool same = false;
	int rc;

	duel_end_all_(d);
	stet_engine_stats(d->w->engine, &stats);
	rc = world_read_tree(d->w, NULL, &have);
	if (rc)
		return duel_fail(d, "a FAILED volume cannot be read: %d, %s", rc,
				 stet_error_text());
	for (size_t k = 0; k < d->boundaries.n; k++) {
		const struct duel_boundary *b = &d->boundaries.v[k];

		if (b->cut == stats.durable ||
		    (b->cut < stats.durable && k + 1 < d->boundaries.n && b[1].cut > stats.durable))
			same = same ||
			       model_hash_equal(model_state_hash(b->state), model_state_hash(have));
	}
	model_put(have);
	return same ||
	       duel_fail(d, "a FAILED volume does not show its durable state (serial %" PRIu64 ")",
			 stats.durable);
}

static bool refuses_changes(struct duel *d)
{
	const struct model_op op = {
		.kind = MODEL_MAKE, .dir = STET_ROOT_INO, .name = { "refused", 7 }, .mode = 0100644
	};
	struct stet_ticket ticket;
	struct stet_txn *txn;
	int rc = world_op(d->w, NULL, &op, false, &ticket, &d->real);

	if (rc != -EROFS)
		return duel_fail(d, "a FAILED volume answers a change with %d", rc);
	rc = stet_txn_begin(d->w->engine, STET_LEVEL_SNAPSHOT, false, &txn);
	if (!rc)
		stet_txn_end(txn);
	return rc == -EROFS || duel_fail(d, "a FAILED volume answers begin with %d", rc);
}

/* Opened again, without faults, it shows a legal state. */
static bool reopens(struct duel *d)
{
	struct step step = { .kind = STEP_KILL };

	if (sim_fault_set(d->w->fault, ""))
		return duel_fail(d, "script");
	d->faults = false;
	return duel_step(d, &step);
}

static bool after_failure(struct duel *d)
{
	return shows_durable(d) && refuses_changes(d) && reopens(d);
}

/* --- running --- */

/* An open that fails is tried again, without the fault. Nothing is lost: all was settled before. */
static bool open_again(struct duel *d)
{
	int rc = sim_fault_set(d->w->fault, "");

	stet_text_clear(&d->why);
	if (!rc)
		rc = world_open(d->w);
	if (rc)
		return duel_fail(d, "it does not open a second time: %d, %s", rc,
				 stet_error_text());
	memset(d->held, 0, sizeof(d->held));
	model_reclaim_all(&d->now);
	return duel_compare(d);
}

static bool do_step(struct duel *d, struct trial *t, const struct step *step)
{
	bool ok;

	if (t->kind == MEMORY && step->kind < MODEL_KINDS) {
		struct step alone = *step;

		alone.pump = 0; /* what runs in the background is not asked */
		d->fail_allocation = t->n;
		ok = duel_step(d, &alone);
		t->hit = t->hit || d->allocation_failed;
		d->fail_allocation = 0;
		return ok;
	}
	ok = duel_step(d, step);
	if (!ok && !strict(t->kind) && step->kind == STEP_REOPEN && !d->w->engine) {
		t->hit = true;
		ok = open_again(d);
	}
	return ok;
}

static bool run_steps(struct duel *d, struct trial *t, const struct run *run)
{
	struct stet_random random;
	struct step step;

	stet_random_seed(&random, run->seed);
	for (uint64_t k = 0; k < STEPS; k++) {
		struct step_state state;

		duel_state(d, &state);
		step_random(&random, &run->mix, &state, k, &step);
		if (run_env("FAULT_PRINT", 0)) {
			struct stet_text text;

			stet_text_init(&text);
			step_print(&text, &step);
			printf("  %s", stet_text_cstr(&text));
			stet_text_release(&text);
		}
		if (!do_step(d, t, &step))
			return false;
		if (run_env("FAULT_PRINT", 0) > 1 && !world_failed(d->w) && !duel_compare(d))
			return false;
		if (world_failed(d->w)) {
			t->hit = true;
			return !strict(t->kind)
				       ? after_failure(d)
				       : duel_fail(d, "the volume FAILED: %s", stet_error_text());
		}
	}
	t->hit = t->hit || was_hit(d);
	return sim_fault_set(d->w->fault, "") == 0;
}

static bool run_trial(void *arg)
{
	struct trial *t = arg;
	struct duel *d;
	struct run run;
	bool ok;

	choose(t, &run);
	if (duel_create(&run.config, &d)) {
		snprintf(t->why, sizeof(t->why), "no volume: %s", stet_error_text());
		return false;
	}
	d->faults = !strict(t->kind);
	d->memory_faults = t->kind == MEMORY;
	ok = set_fault(d, t) && run_steps(d, t, &run) && duel_finish(d);
	if (!ok)
		snprintf(t->why, sizeof(t->why), "%s", stet_text_cstr(&d->why));
	duel_destroy(d);
	return ok;
}

/* N = 1, 2, 3 ... */
static bool run_all(struct trial *t, unsigned only, unsigned *ret_count)
{
	unsigned step = t->kind == WRITES || t->kind == FLUSHES ? 7 : 1;
	bool ok = true;

	for (t->n = only ? only : 1; t->n < N_MAX && ok; t->n += step) {
		t->hit = false;
		t->why[0] = 0;
		ok = run_child(run_trial, t, LIMIT_S, false, NULL);
		++*ret_count;
		if (only || (ok && !t->hit))
			break;
	}
	if (!ok)
		printf("%s fails, number %u, seed %" PRIu64 ":\n%s\n"
		       "again: FAULT_KIND=%d FAULT_SEED=%" PRIu64 " FAULT_N=%u\n",
		       kinds[t->kind].name, t->n, t->seed, t->why, (int)t->kind, t->seed, t->n);
	return ok;
}

int main(void)
{
	uint64_t only = run_env("FAULT_SEED", 0);
	uint64_t first = only ? only : 1, last = only ? only : run_env("FAULT_RUNS", RUNS);
	uint64_t only_kind = run_env("FAULT_KIND", KINDS);
	struct trial *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			       -1, 0);
	unsigned failed = 0;

	if (t == MAP_FAILED)
		return 1;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		unsigned count = 0;

		if (only_kind != KINDS && only_kind != kind)
			continue;
		for (uint64_t seed = first; seed <= last; seed++) {
			*t = (struct trial){ .kind = kind, .seed = seed };
			failed += !run_all(t, (unsigned)run_env("FAULT_N", 0), &count);
		}
		printf("%s: %u runs\n", kinds[kind].name, count);
	}
	return failed ? 1 : 0;
}
