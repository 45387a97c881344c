/* clock.h - a clock that stands still until the test moves it. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include "base/clock.h"

#include <stdatomic.h>

/** Any thread may read and move it. */
struct sim_clock {
	struct stet_clock clock; /* pass &sim->clock on */
	/* --- atomic --- */
	_Atomic int64_t wall_ns;
	_Atomic int64_t mono_ns;
};

/** Starts at the given wall time; the monotonic time starts at 1 s. Needs no release. */
void sim_clock_init(struct sim_clock *sim, int64_t wall_ns);

/** Lets delta_ns >= 0 pass on both clocks. */
void sim_clock_advance(struct sim_clock *sim, int64_t delta_ns);

/** Sets the wall clock, backwards too; the monotonic time stays. */
void sim_clock_set_wall(struct sim_clock *sim, int64_t wall_ns);

#endif
