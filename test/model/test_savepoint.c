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

		run_savepoints_by_seed(seed, steps, &run);
		run.verbose = true;
		printf("seed %" PRIu64 "\n", seed);
		if (run_random(&run))
			continue;
		failed++;
		printf("again: MODEL_SEED=%" PRIu64 " MODEL_OPS=%" PRIu64 " %s\n", seed, steps,
		       argv[0]);
	}
	return failed ? 1 : 0;
}
