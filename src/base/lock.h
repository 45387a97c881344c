/* lock.h - mutexes with ranks and owners, and conditions.
 *
 * I1. A thread locks only in rising rank: each new lock has a higher rank than all it holds.
 *     Whoever keeps to it cannot deadlock. Unlocking is free in order.
 * I2. Whoever needs a lock says so (STET_REQUIRES, _locked) and checks it (stet_assert_held).
 * Both are checked at run time when STET_DEBUG is defined, and the attributes by clang. All calls
 * abort when pthread reports an error: that is a bug, never a condition.
 */
#ifndef STET_BASE_LOCK_H
#define STET_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __clang__
#define STET_TSA_(x) __attribute__((x))
#else
#define STET_TSA_(x)
#endif

/** The type is a lock. */
#define STET_LOCKABLE(name) STET_TSA_(capability(name))
/** The function must be called with these locks held. */
#define STET_REQUIRES(...) STET_TSA_(requires_capability(__VA_ARGS__))
/** The function takes these locks and returns with them held. */
#define STET_ACQUIRE(...) STET_TSA_(acquire_capability(__VA_ARGS__))
/** The function gives these locks back. */
#define STET_RELEASE(...) STET_TSA_(release_capability(__VA_ARGS__))
/** The function must be called without these locks. */
#define STET_EXCLUDES(...) STET_TSA_(locks_excluded(__VA_ARGS__))
/** From the call on, the analysis takes this lock as held. */
#define STET_ASSERTS_HELD(x) STET_TSA_(assert_capability(x))
/** The function's body is not analysed; say why beside it. */
#define STET_NO_LOCK_ANALYSIS STET_TSA_(no_thread_safety_analysis)

/** How many locks one thread may hold at once. */
#define STET_LOCK_MAX_HELD 16

struct STET_LOCKABLE("mutex") stet_mutex {
	/* --- set at init, then constant --- */
	const char *name; /* borrowed: outlives the mutex */
	int rank;
	/* --- atomic; kept only when STET_DEBUG is defined --- */
	_Atomic uintptr_t owner; /* identifies the thread that holds it; 0: none */
	/* --- atomic --- */
	_Atomic unsigned int waiting; /* threads in stet_mutex_lock that did not get it at once */
	/* --- its own --- */
	pthread_mutex_t impl;
};

struct stet_cond {
	pthread_cond_t impl;
};

/** Makes an unlocked mutex. Ranks are compared only with each other; locking goes upwards. */
void stet_mutex_init(struct stet_mutex *m, int rank, const char *name);

/** Ends the mutex, which must not be locked. */
void stet_mutex_destroy(struct stet_mutex *m);

/** Waits for the mutex and takes it; the caller must not hold it nor any of same or higher rank. */
void stet_mutex_lock(struct stet_mutex *m) STET_ACQUIRE(m);

/** Gives the mutex back; the caller must hold it. */
void stet_mutex_unlock(struct stet_mutex *m) STET_RELEASE(m);

/** Whether somebody waits in stet_mutex_lock: a hint for who holds it long, out of date at once. */
bool stet_mutex_contended(const struct stet_mutex *m);

/** Asserts (when STET_DEBUG is defined) that the calling thread holds the mutex. */
void stet_assert_held(const struct stet_mutex *m) STET_ASSERTS_HELD(m);

/** Makes a condition whose deadlines are on CLOCK_MONOTONIC. */
void stet_cond_init(struct stet_cond *c);

/** Ends the condition; nobody may be waiting. */
void stet_cond_destroy(struct stet_cond *c);

/** Waits for a signal, m (the highest-ranked lock held) being free meanwhile; may wake early. */
void stet_cond_wait(struct stet_cond *c, struct stet_mutex *m) STET_REQUIRES(m);

/** As stet_cond_wait, until the CLOCK_MONOTONIC time at most; false when that has passed. */
bool stet_cond_timedwait(struct stet_cond *c, struct stet_mutex *m, int64_t deadline_ns)
	STET_REQUIRES(m);

/** Wakes one waiter, if any. */
void stet_cond_signal(struct stet_cond *c);

/** Wakes all waiters. */
void stet_cond_broadcast(struct stet_cond *c);

#endif
