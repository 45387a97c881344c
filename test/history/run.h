/* run.h - runs of many rounds (work.h), for those who need nothing else. */
#ifndef TEST_HISTORY_RUN_H
#define TEST_HISTORY_RUN_H

#include "history.h"

struct work_totals {
	struct hist_counts counts;
	uint64_t rounds, steps, commits[4], conflicts, deadlocks, busy, operations;
	uint64_t spills, checkpoints, overlays, rollbacks;
};

enum work_verdict { WORK_RIGHT, WORK_WRONG };
/**
 * A whole run: rounds first .. first + count - 1 of the seed, on a volume in the file `path` that is made anew, and
 * opened in another way, after some of them; before, it is closed and checked. txns: of each round. threads: every second round has them.
 */
struct stet_volume;
struct work_run {
	const char *path;
	uint64_t seed, first, count, txns;
	bool threads;   /* else all rounds are stepped */
	unsigned level; /* 1 + enum hist_level: all transactions have it; 0: levels in turn */
	FILE *out;      /* NULL: silent */
	/* NULL: the rounds are of this process. Else it serves the volume (of the number: in another way), and they are a
	 * client's, all with threads. stop: the client is closed. */
	int (*serve)(struct stet_volume *vol, uint64_t no, struct stet_volume **ret_client,
		     void **ret_server);
	void (*stop)(void *server);
};
enum work_verdict work_run(const struct work_run *run, struct work_totals *totals);

#endif
