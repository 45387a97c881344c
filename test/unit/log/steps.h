/* steps.h - random use of a log: commits, groups beside them, failures, checkpoints. */
#ifndef STET_TEST_LOG_STEPS_H
#define STET_TEST_LOG_STEPS_H

#include "log_unit.h"

#include "sim/fault.h"

struct lt_steps {
	struct lt_vol *vol;
	struct sim_fault *fault; /* NULL: no write fails */
	struct lt_group side;    /* beside the commits */
	bool side_open;
	uint32_t max_blocks, max_records;
	uint64_t keep_blocks;
	bool tight; /* there is little room: leave the reserve to checkpoints */
	bool lazy;  /* not every commit is flushed */
	/* Called when everything completed so far is durable. */
	void (*durable)(void *arg, bool checkpoint);
	void *arg;
};

/* One commit, or an attempt at one, and what goes on beside it. */
void lt_step(struct lt_steps *steps);
/* Ends what is open beside. */
void lt_steps_end(struct lt_steps *steps);
void lt_steps_checkpoint(struct lt_steps *steps);

#endif
