/* clock.h - time as an object, so that tests own it.
 *
 * The real clock lives in api/, the simulated one in sim/; below api/ nobody asks the system.
 */
#ifndef STET_BASE_CLOCK_H
#define STET_BASE_CLOCK_H

#include <stdint.h>

/** Embedded as the first member by implementations. */
struct stet_clock {
	int64_t (*wall_ns)(struct stet_clock *clock); /* since 1970-01-01 UTC; may jump */
	int64_t (*mono_ns)(struct stet_clock *clock); /* since some start; never goes back */
};

/** Wall clock time in ns since 1970-01-01 UTC. */
static inline int64_t stet_clock_wall_ns(struct stet_clock *clock)
{
	return clock->wall_ns(clock);
}

/** Monotonic time in ns, for deadlines and durations. */
static inline int64_t stet_clock_mono_ns(struct stet_clock *clock)
{
	return clock->mono_ns(clock);
}

#endif
