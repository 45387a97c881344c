/* counter.h - event counters that any thread may bump. The tables of them (X-macros) are made by
 * the users. */
#ifndef STET_BASE_COUNTER_H
#define STET_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

/** All zero is a counter at 0. */
struct stet_counter {
	_Atomic uint64_t v;
};

/** Adds n; orders nothing else. */
static inline void stet_counter_add(struct stet_counter *counter, uint64_t n)
{
	atomic_fetch_add_explicit(&counter->v, n, memory_order_relaxed);
}

/** The value now. */
static inline uint64_t stet_counter_get(const struct stet_counter *counter)
{
	return atomic_load_explicit(&counter->v, memory_order_relaxed);
}

#endif
