/* runner.h - runs of random steps in processes of their own, and making failing ones small.
 *
 * A run happens in a child process, so that an assertion or a hang of the system is a failure like any
 * other. The steps lie in shared memory: they outlive the child.
 */
#ifndef TEST_MODEL_RUNNER_H
#define TEST_MODEL_RUNNER_H

#include "duel.h"

struct run {
	struct world_config config;
	struct step_mix mix;
	uint64_t seed;
	size_t step_count; /* how many are wanted */
	bool verbose;
};

/** Chooses volume and mix by the seed. */
void run_by_seed(uint64_t seed, size_t step_count, struct run *ret);
/** Transactions with savepoints, one or two at a time, whose shares of memory are far too small. */
void run_savepoints_by_seed(uint64_t seed, size_t step_count, struct run *ret);
/** True: everything agrees. Otherwise a minimal list of steps has been printed. */
bool run_random(const struct run *run);
/** The same without making it small or saying anything. */
bool run_quiet(const struct run *run);

/**
 * Calls fn in a child process. True when it returned true; false when it did not, died, or took longer
 * than the limit. quiet: what it writes to stderr and stdout is dropped. *ret_signal (may be NULL): what
 * ended it, 0 when it ended itself.
 */
bool run_child(bool (*fn)(void *arg), void *arg, unsigned limit_s, bool quiet, int *ret_signal);
/** A number from the environment. */
uint64_t run_env(const char *name, uint64_t otherwise);

#endif
