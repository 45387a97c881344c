/* names.c - a namespace exerciser, in the manner of fsstress: many processes make, move and remove
 * names in one small tree, some of them in transactions.
 *
 *	exercise_names
 *	EXERCISE_OPS	of each process in each round (4000)
 *	EXERCISE_PROCS	processes that work plainly (6)
 *	EXERCISE_ROUNDS	(4)
 *
 * I1. No operation gives an errno value that it may not give there (name_ops.c).
 * I2. A commit succeeds or meets a conflict; `stetfs run` too.
 * I3. After each round all link counts are right, what files hold is whole, the volume checks clean,
 *     and mounted again the tree is what it was. After a kill all that must hold but the last.
 * The operations of each process are decided by the seed; how they meet is not.
 */
#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCS_MAX 64u
#define ABORTED 7 /* exit code with which a command drops its transaction */
#define CONFLICT 123
#define STALE_ONE_IN 1000u

static const char *self;
static struct name_tally *tally;
static _Atomic uint64_t *ended; /* [0]: commits, [1]: conflicts, [2]: aborts, of both kinds */

enum { COMMITTED, CONFLICTED, DROPPED, ENDS };

static void steps(struct name_worker *w, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		name_step(w);
}

/* --- kinds of processes --- */

static void work_plain(uint64_t seed, uint64_t ops)
{
	struct name_worker w = { .chance = { seed }, .tally = tally };

	snprintf(w.root, sizeof(w.root), "%s", ex_mount.dir);
	steps(&w, ops);
}

static void one_transaction(struct stet_control *ctl, struct ex_chance *chance, uint64_t ops)
{
	struct name_worker w = { .chance = { ex_random(chance) }, .in_txn = true, .tally = tally };
	struct stet_control_begun begun;
	struct stet_control_end end;
	int rc;

	ex_begin(ctl, ex_percent(chance, 50) ? STET_CONTROL_DETACHED : 0, &begun);
	snprintf(w.root, sizeof(w.root), "%s", begun.root);
	steps(&w, ops);
	if (ex_percent(chance, 25)) {
		ex_abort(ctl, begun.id);
		ended[DROPPED]++;
		return;
	}
	rc = ex_commit(ctl, begun.id, &end);
	if (rc && rc != -EBUSY && rc != -EDEADLK)
		ex_fail("commit: %s: %s", strerror(-rc), end.text);
	if (rc && !end.conflict)
		ex_fail("commit: %s, but no conflict is told: %s", strerror(-rc), end.text);
	if (rc && !end.text[0])
		ex_fail("commit: %s, and no word why", strerror(-rc));
	ended[rc ? CONFLICTED : COMMITTED]++;
}

static void work_in_transactions(uint64_t seed, uint64_t ops)
{
	struct ex_chance chance = { seed };
	struct stet_control *ctl = ex_connect();

	while (ops > 0) {
		uint64_t count = 1 + ex_below(&chance, 40);

		count = count < ops ? count : ops;
		one_transaction(ctl, &chance, count);
		ops -= count;
	}
	stet_control_close(ctl);
}

/* What `run` runs: this program again. */
static int work_as_command(char **argv)
{
	struct name_worker w = { .in_txn = true };

	w.chance.state = strtoull(argv[3], NULL, 0);
	snprintf(w.root, sizeof(w.root), "%s", argv[2]);
	steps(&w, strtoull(argv[4], NULL, 0));
	return ex_percent(&w.chance, 25) ? ABORTED : 0;
}

static void work_in_runs(uint64_t seed, uint64_t ops)
{
	struct ex_chance chance = { seed };

	for (uint64_t i = 0; i < ops / 80; i++) {
		char text[2][32];
		int code;

		snprintf(text[0], sizeof(text[0]), "%llu", (unsigned long long)ex_random(&chance));
		snprintf(text[1], sizeof(text[1]), "%llu",
			 (unsigned long long)(1 + ex_below(&chance, 80)));
		code = ex_stetfs("run", ex_mount.dir, "--", self, "command", ex_mount.dir, text[0],
				 text[1], NULL);
		if (code != 0 && code != ABORTED && code != CONFLICT)
			ex_fail("stetfs run: exit code %d", code);
		ended[code == 0 ? COMMITTED : code == CONFLICT ? CONFLICTED : DROPPED]++;
	}
}

/* --- rounds --- */

typedef void work_fn(uint64_t seed, uint64_t ops);

static pid_t start(work_fn *work, uint64_t seed, uint64_t ops)
{
	pid_t pid = fork();

	if (pid < 0)
		ex_fail_errno("fork");
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stderr)) /* where runs tell of their conflicts */
			ex_fail_errno("/dev/null");
		work(seed, ops);
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

static void work_together(struct ex_chance *chance, uint64_t procs, uint64_t ops)
{
	pid_t pid[PROCS_MAX + 3];
	size_t count = 0;

	fflush(stdout);
	while (count < procs)
		pid[count++] = start(work_plain, ex_random(chance), ops);
	pid[count++] = start(work_in_transactions, ex_random(chance), ops);
	pid[count++] = start(work_in_transactions, ex_random(chance), ops);
	pid[count++] = start(work_in_runs, ex_random(chance), ops);
	ex_wait_all(pid, count, "workers");
}

/* I3 */
static void check_round(bool kill)
{
	size_t names;
	char *before = walk_tree(ex_mount.dir, &names), *after;

	if (kill)
		ex_kill();
	else
		ex_umount();
	ex_check();
	ex_do_mount();
	after = walk_tree(ex_mount.dir, &names);
	if (!kill)
		compare_trees(before, after, "mounted again");
	printf("%zu names%s\n", names, kill ? ", after a kill" : "");
	free(before);
	free(after);
}

static void print_tally(void)
{
	for (unsigned op = 0; op < NAME_OP_COUNT; op++) {
		printf("%-9s", name_op_names[op]);
		for (unsigned err = 0; err < ERRNO_MAX; err++)
			if (tally->count[op][err])
				printf(" %s %llu", err ? strerrorname_np((int)err) : "done",
				       (unsigned long long)tally->count[op][err]);
		printf("\n");
	}
	printf("transactions: %llu committed, %llu met a conflict, %llu dropped\n",
	       (unsigned long long)ended[COMMITTED], (unsigned long long)ended[CONFLICTED],
	       (unsigned long long)ended[DROPPED]);
}

/* See name_ops.c. */
static void check_stale(void)
{
	uint64_t stale = 0, all = 0;

	for (unsigned op = 0; op < NAME_OP_COUNT; op++) {
		stale += tally->count[op][ESTALE];
		for (unsigned err = 0; err < ERRNO_MAX; err++)
			all += tally->count[op][err];
	}
	if (stale > all / STALE_ONE_IN)
		ex_fail("%llu of %llu operations gave ESTALE", (unsigned long long)stale,
			(unsigned long long)all);
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		ex_fail_errno("mmap");
	return p;
}

int main(int argc, char **argv)
{
	uint64_t seed = ex_seed(), ops = ex_env("EXERCISE_OPS", 4000);
	uint64_t procs = ex_env("EXERCISE_PROCS", 6), rounds = ex_env("EXERCISE_ROUNDS", 4);
	struct ex_chance chance = { seed };
	int64_t begun;

	if (argc == 5 && strcmp(argv[1], "command") == 0)
		return work_as_command(argv);
	self = realpath("/proc/self/exe", NULL);
	if (!self || procs > PROCS_MAX) {
		fprintf(stderr, "at most %u processes\n", PROCS_MAX);
		return 2;
	}
	ex_start("256M", "lock_timeout=0.05,flush=0.2",
		 "EXERCISE_SEED=%llu EXERCISE_OPS=%llu EXERCISE_PROCS=%llu EXERCISE_ROUNDS=%llu %s",
		 (unsigned long long)seed, (unsigned long long)ops, (unsigned long long)procs,
		 (unsigned long long)rounds, argv[0]);
	tally = shared(sizeof(*tally));
	ended = shared(ENDS * sizeof(*ended));
	begun = ex_now_ns();
	for (uint64_t round = 0; round < rounds; round++) {
		work_together(&chance, procs, ops);
		check_round(round % 3 == 1);
	}
	ex_finish();
	print_tally();
	check_stale();
	if (!ended[COMMITTED] || !ended[CONFLICTED])
		ex_fail("not one commit, or not one conflict");
	printf("%llu processes, %llu rounds in %.1f s\n", (unsigned long long)procs + 3,
	       (unsigned long long)rounds, (double)(ex_now_ns() - begun) / EX_NS_PER_S);
	return 0;
}
