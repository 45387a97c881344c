/* test_savepoint.c - random runs of transactions with savepoints that spill again and again.
 *
 * The cache is far too small for them, so that savepoints are rolled back across spills, by few steps and by
 * many. The model goes back to a copy of its state.
 *
 *	MODEL_SEED	run this seed only
 *	MODEL_OPS	steps of each run
 *	MODEL_RUNS	how many seeds, from 1 on
 */
#include "runner.h"

#include <inttypes.h>
#include <stdio.h>

#define RUNS 12
#define STEPS 1500

static void choose(uint64_t seed, size_t steps, struct run *run)
{
	run_by_seed(seed, steps, run);
	run->verbose = true;
	run->config.size_bytes = UINT64_C(64) << 20;
	run->config.seg_blocks = 256;
	run->config.spill_bytes = UINT64_C(1) << (10 + seed % 6);
	run->mix.txns = 1 + (unsigned)(seed % 5) / 4;
	run->mix.txn_percent = 97;
	run->mix.locking = seed % 3 == 0;
	run->mix.saves = true;
	run->mix.long_txns = seed % 2;
	run->mix.pages_max = 4000;
	run->mix.pages_min = seed % 4 ? 0 : 2000;
	run->mix.bytes_max = seed % 4 ? 60000 : 600000;
	run->mix.compare_every = 200;
}

int main(int argc, char **argv)
{
	uint64_t only = run_env("MODEL_SEED", 0);
	uint64_t steps = run_env("MODEL_OPS", STEPS);
	uint64_t runs = run_env("MODEL_RUNS", RUNS);
	uint64_t first = only ? only : 1, last = only ? only : runs;
	unsigned failed = 0;

	(void)argc;
	for (uint64_t seed = first; seed <= last && failed < 3; seed++) {
		struct run run;

		choose(seed, steps, &run);
		printf("seed %" PRIu64 "\n", seed);
		if (run_random(&run))
			continue;
		failed++;
		printf("again: MODEL_SEED=%" PRIu64 " MODEL_OPS=%" PRIu64 " %s\n", seed, steps,
		       argv[0]);
	}
	return failed ? 1 : 0;
}
