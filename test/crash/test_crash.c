/* test_crash.c - crashes of recorded random runs, by enumeration and by chance.
 *
 *	test_crash [txns]	txns: those of concurrent transactions (X6 of crash.h)
 *
 *	CRASH_SEED	this run only
 *	CRASH_RUNS	how many runs, from seed 1 on
 *	CRASH_IMAGES	about how many states of each
 *	CRASH_IMAGE	this state only
 */
#include "crash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RUNS 30
#define IMAGES 350
#define TXNS_RUNS 24
#define TXNS_IMAGES 260

int main(int argc, char **argv)
{
	uint64_t only = run_env("CRASH_SEED", 0);
	bool txns = argc > 1 && strcmp(argv[1], "txns") == 0;
	uint64_t images = run_env("CRASH_IMAGES", txns ? TXNS_IMAGES : IMAGES);
	uint64_t first = only ? only : 1,
		 last = only ? only : run_env("CRASH_RUNS", txns ? TXNS_RUNS : RUNS);
	struct crash_counts counts = { 0 };
	unsigned failed = 0;

	for (uint64_t seed = first; seed <= last && failed < 3; seed++) {
		struct crash_plan plan;

		if (txns)
			crash_txns_by_seed(seed, images, &plan);
		else
			crash_by_seed(seed, images, &plan);
		plan.only = run_env("CRASH_IMAGE", 0);
		if (crash_run(&plan, &counts))
			continue;
		failed++;
		printf("again: CRASH_SEED=%" PRIu64 " CRASH_IMAGES=%" PRIu64 " %s%s\n", seed,
		       images, argv[0], txns ? " txns" : "");
	}
	printf("%" PRIu64 " states and %" PRIu64 " of recoveries, of %" PRIu64
	       " events and %" PRIu64 " flushes; %" PRIu64 " with a torn tail; %" PRIu64
	       " commits acknowledged late\n",
	       counts.images, counts.deep_images, counts.events, counts.boundaries, counts.torn,
	       counts.acks);
	return failed ? 1 : 0;
}
