/* runner.c - children, generation, shrinking.
 *
 * S1. Steps are generated while they are run (they are chosen by what is there) and noted before they are
 *     done: so the last one noted is the one that failed.
 * S2. Shrinking takes chunks out, large ones first, as long as what is left still fails. It is bounded by
 *     a number of runs and by time.
 * S3. What is left must fail in the same way: with the same kind of message, or by the same signal.
 */
#include "runner.h"

#include "model_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_LIMIT_S 60u
#define SHRUNK_LIMIT_S 5u /* a shorter run takes far less */
#define SHRINK_RUNS_MAX 600u
#define SHRINK_LIMIT_S 60

struct log {
	struct run run;
	size_t count;    /* steps noted */
	const char *why; /* format of the failure, the same in all children */
	int signal;      /* or what ended the child */
	bool print;      /* say what failed */
	struct step steps[];
};

uint64_t run_env(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 0) : otherwise;
}

bool run_child(bool (*fn)(void *arg), void *arg, unsigned limit_s, bool quiet, int *ret_signal)
{
	int status = 0;
	pid_t pid;

	if (run_env("RUN_HERE", 0)) /* for a debugger */
		return fn(arg);
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0) {
		int null = quiet ? open("/dev/null", O_WRONLY) : -1;
		bool ok;

		if (null >= 0) {
			dup2(null, 1);
			dup2(null, 2);
		}
		alarm(limit_s);
		ok = fn(arg);
		fflush(NULL);
		exit(ok ? 0 : 3); /* a leak is a failure too */
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	if (ret_signal)
		*ret_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	if (!quiet && WIFSIGNALED(status))
		printf("the run was ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* --- runs --- */

static void print_counts(const struct duel *d)
{
	struct stet_text t;

	stet_text_init(&t);
	duel_print_counts(d, &t);
	printf("  %s\n", stet_text_cstr(&t));
	stet_text_release(&t);
}

static bool end_run(struct duel *d, struct log *log, bool ok)
{
	if (ok)
		ok = duel_finish(d);
	log->why = d->why_fmt;
	if (!ok && log->print)
		printf("%s\n", stet_text_cstr(&d->why));
	if (ok && log->run.verbose)
		print_counts(d);
	duel_destroy(d);
	return ok;
}

static struct duel *begin_run(const struct log *log)
{
	struct duel *d;
	int rc = duel_create(&log->run.config, &d);

	if (rc) {
		printf("the volume could not be made: %d, %s\n", rc, stet_error_text());
		return NULL;
	}
	return d;
}

static bool generate(void *arg)
{
	struct log *log = arg;
	struct duel *d = begin_run(log);
	struct stet_random random;
	bool ok = d != NULL;

	stet_random_seed(&random, log->run.seed);
	for (size_t k = 0; ok && k < log->run.step_count; k++) {
		struct step_state state;

		duel_state(d, &state);
		step_random(&random, &log->run.mix, &state, k, &log->steps[k]);
		log->count = k + 1; /* S1 */
		ok = duel_step(d, &log->steps[k]);
	}
	return d && end_run(d, log, ok);
}

static bool replay(void *arg)
{
	struct log *log = arg;
	struct duel *d = begin_run(log);
	bool ok = d != NULL;

	for (size_t k = 0; ok && k < log->count; k++)
		ok = duel_step(d, &log->steps[k]);
	return d && end_run(d, log, ok);
}

/* --- shrinking --- */

/* S3 */
static bool fails_like(struct log *log, const char *why, int signal)
{
	bool ok;

	log->why = NULL;
	ok = run_child(replay, log, SHRUNK_LIMIT_S, true, &log->signal);
	if (!ok && log->why == why && log->signal == signal)
		return true;
	log->why = why;
	log->signal = signal;
	return false;
}

static bool fails_without(struct log *log, struct step *kept, size_t from, size_t n)
{
	size_t count = log->count;

	memcpy(kept, log->steps, count * sizeof(*kept));
	memmove(log->steps + from, log->steps + from + n, (count - from - n) * sizeof(*kept));
	log->count = count - n;
	if (fails_like(log, log->why, log->signal))
		return true;
	memcpy(log->steps, kept, count * sizeof(*kept));
	log->count = count;
	return false;
}

static void shrink(struct log *log)
{
	struct step *kept = model_alloc_(log->count * sizeof(*kept));
	time_t end = time(NULL) + SHRINK_LIMIT_S;
	unsigned runs = 0;

	for (size_t chunk = log->count / 2; chunk > 0; chunk /= 2) {
		bool again = true;

		while (again) {
			again = false;
			for (size_t from = 0; from + chunk <= log->count;) {
				if (++runs > SHRINK_RUNS_MAX || time(NULL) > end)
					goto out;
				if (fails_without(log, kept, from, chunk))
					again = chunk == 1;
				else
					from += chunk;
			}
		}
	}
out:
	free(kept);
}

static void print_steps(const struct log *log)
{
	struct stet_text t;

	stet_text_init(&t);
	for (size_t k = 0; k < log->count; k++) {
		stet_text_clear(&t);
		step_print(&t, &log->steps[k]);
		printf("  %s", stet_text_cstr(&t));
	}
	stet_text_release(&t);
}

static void explain(struct log *log)
{
	printf("failed at step %zu; making it small ...\n", log->count);
	if (!fails_like(log, log->why, log->signal)) {
		printf("the steps alone do not fail\n");
		return;
	}
	shrink(log);
	printf("%zu steps are enough (volume: %" PRIu64
	       " MiB, segments of %u blocks, %u copies):\n",
	       log->count, log->run.config.size_bytes >> 20, log->run.config.seg_blocks,
	       log->run.config.meta_copies);
	print_steps(log);
	log->print = true;
	run_child(replay, log, SHRUNK_LIMIT_S, false, NULL);
}

static struct log *make_log(const struct run *run)
{
	size_t bytes = sizeof(struct log) + run->step_count * sizeof(struct step);
	struct log *log = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			       0);

	if (log == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	log->run = *run;
	return log;
}

static void free_log(struct log *log)
{
	munmap(log, sizeof(*log) + log->run.step_count * sizeof(struct step));
}

bool run_random(const struct run *run)
{
	struct log *log = make_log(run);
	bool ok;

	log->print = true;
	ok = run_child(generate, log, CHILD_LIMIT_S, false, &log->signal);
	log->print = false;
	if (!ok)
		explain(log);
	free_log(log);
	return ok;
}

bool run_quiet(const struct run *run)
{
	struct log *log = make_log(run);
	bool ok = run_child(generate, log, CHILD_LIMIT_S, true, NULL);

	free_log(log);
	return ok;
}

/* --- what to run --- */

void run_by_seed(uint64_t seed, size_t step_count, struct run *ret)
{
	struct stet_random random;
	unsigned size_log2;

	stet_random_seed(&random, seed);
	size_log2 = (unsigned)stet_random_below(&random, 3);
	memset(ret, 0, sizeof(*ret));
	ret->seed = seed;
	ret->step_count = step_count;
	ret->config = (struct world_config){
		.size_bytes = UINT64_C(16) << (20 + size_log2),
		/* At least 60 segments, as mkfs makes them. */
		.seg_blocks = 64u << stet_random_below(&random, 1 + size_log2),
		.meta_copies = (uint8_t)(1 + stet_random_below(&random, 2)),
		.cache_bytes = UINT64_C(4) << 20,
		.checkpoint_bytes = UINT64_C(256) << (10 + stet_random_below(&random, 4)),
		.delta_bytes = seed % 3 == 1 ? UINT64_C(32) << 10 : 0, /* overlays */
		.seed = seed,
	};
	ret->mix = (struct step_mix){
		.txns = (unsigned)(seed % 4 == 0 ? 0 : 1 + stet_random_below(&random, STEP_TXNS)),
		.locking = seed % 4 == 3,
		.long_txns = seed % 5 == 2,
		.saves = seed % 3 != 1,
		.waits = stet_random_below(&random, 2),
		.kill = true,
		.reopen = true,
		.pages_max = ret->config.size_bytes / STET_BLOCK_SIZE /
			     (stet_random_below(&random, 4) ? 6 : 2),
		.reads_percent = 25,
		.inodes_max = 200,
		.bytes_max = stet_random_below(&random, 4) == 0 ? 600000 : 100000,
		.sync_every = (unsigned)(10 + stet_random_below(&random, 100)),
		.compare_every = 400,
	};
	ret->mix.pages_min = ret->mix.pages_max / (1 + stet_random_below(&random, 4));
}

void run_savepoints_by_seed(uint64_t seed, size_t step_count, struct run *ret)
{
	run_by_seed(seed, step_count, ret);
	ret->config.size_bytes = UINT64_C(64) << 20;
	ret->config.seg_blocks = 256;
	ret->config.spill_bytes = UINT64_C(1) << (10 + seed % 6);
	ret->mix.txns = 1 + (unsigned)(seed % 5) / 4;
	ret->mix.txn_percent = 97;
	ret->mix.locking = seed % 3 == 0;
	ret->mix.saves = true;
	ret->mix.long_txns = seed % 2;
	ret->mix.pages_max = 4000;
	ret->mix.pages_min = seed % 4 ? 0 : 2000;
	ret->mix.bytes_max = seed % 4 ? 60000 : 600000;
	ret->mix.compare_every = 200;
}
