/* lock.c - pthread locks with run-time checks of rank and owner.
 *
 * The checks exist when STET_DEBUG is defined: each thread keeps the list of the mutexes it holds.
 *
 * I1. A mutex is on the list of exactly the thread that holds it, and its owner names that thread.
 * I2. The last mutex taken has the highest rank of the list.
 * Threads are named by the address of their list, which is theirs alone and never 0.
 */
#include "base/lock.h"

#include "base/assert.h"

#include <errno.h>
#include <time.h>

#define NS_PER_S 1000000000

#ifdef STET_DEBUG

static _Thread_local struct {
	const struct stet_mutex *mutex[STET_LOCK_MAX_HELD];
	unsigned int n;
} held;

static uintptr_t self(void)
{
	return (uintptr_t)&held;
}

static bool is_mine(const struct stet_mutex *m)
{
	return atomic_load_explicit(&m->owner, memory_order_relaxed) == self();
}

/* Before the wait for the mutex, so that a wrong order shows even when it happens to go well. */
static void note_wanted(const struct stet_mutex *m)
{
	STET_ASSERT(!is_mine(m));
	STET_ASSERT_CMP(held.n, <, STET_LOCK_MAX_HELD);
	for (unsigned int i = 0; i < held.n; i++)
		STET_ASSERT_CMP(held.mutex[i]->rank, <, m->rank); /* I2 */
}

static void note_taken(struct stet_mutex *m)
{
	held.mutex[held.n++] = m;
	atomic_store_explicit(&m->owner, self(), memory_order_relaxed);
}

static void note_given(struct stet_mutex *m)
{
	unsigned int i = 0;

	STET_ASSERT(is_mine(m));
	while (held.mutex[i] != m)
		i++; /* bounded: it is on the list (I1) */
	for (held.n--; i < held.n; i++)
		held.mutex[i] = held.mutex[i + 1];
	atomic_store_explicit(&m->owner, 0, memory_order_relaxed);
}

void stet_assert_held(const struct stet_mutex *m)
{
	STET_ASSERT(is_mine(m));
}

#else

static void note_wanted(const struct stet_mutex *m)
{
	(void)m;
}

static void note_taken(struct stet_mutex *m)
{
	(void)m;
}

static void note_given(struct stet_mutex *m)
{
	(void)m;
}

void stet_assert_held(const struct stet_mutex *m)
{
	(void)m;
}

#endif

/* pthread reports only misuse here. */
static void must(int rc)
{
	STET_ASSERT_CMP(rc, ==, 0);
}

void stet_mutex_init(struct stet_mutex *m, int rank, const char *name)
{
	m->name = name;
	m->rank = rank;
	atomic_init(&m->owner, 0);
	atomic_init(&m->waiting, 0);
	must(pthread_mutex_init(&m->impl, NULL));
}

void stet_mutex_destroy(struct stet_mutex *m)
{
	STET_ASSERT(atomic_load_explicit(&m->owner, memory_order_relaxed) == 0);
	must(pthread_mutex_destroy(&m->impl));
}

void stet_mutex_lock(struct stet_mutex *m) STET_NO_LOCK_ANALYSIS
{
	note_wanted(m);
	if (pthread_mutex_trylock(&m->impl) != 0) {
		atomic_fetch_add_explicit(&m->waiting, 1, memory_order_relaxed);
		must(pthread_mutex_lock(&m->impl));
		atomic_fetch_sub_explicit(&m->waiting, 1, memory_order_relaxed);
	}
	note_taken(m);
}

bool stet_mutex_contended(const struct stet_mutex *m)
{
	return atomic_load_explicit(&m->waiting, memory_order_relaxed) > 0;
}

void stet_mutex_unlock(struct stet_mutex *m) STET_NO_LOCK_ANALYSIS
{
	note_given(m);
	must(pthread_mutex_unlock(&m->impl));
}

void stet_cond_init(struct stet_cond *c)
{
	pthread_condattr_t attr;

	must(pthread_condattr_init(&attr));
	must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	must(pthread_cond_init(&c->impl, &attr));
	must(pthread_condattr_destroy(&attr));
}

void stet_cond_destroy(struct stet_cond *c)
{
	must(pthread_cond_destroy(&c->impl));
}

void stet_cond_wait(struct stet_cond *c, struct stet_mutex *m)
{
	note_given(m);
	must(pthread_cond_wait(&c->impl, &m->impl));
	note_wanted(m);
	note_taken(m);
}

bool stet_cond_timedwait(struct stet_cond *c, struct stet_mutex *m, int64_t deadline_ns)
{
	struct timespec deadline = { .tv_sec = deadline_ns / NS_PER_S,
				     .tv_nsec = deadline_ns % NS_PER_S };
	int rc;

	STET_ASSERT_CMP(deadline_ns, >=, 0);
	note_given(m);
	rc = pthread_cond_timedwait(&c->impl, &m->impl, &deadline);
	STET_ASSERT(rc == 0 || rc == ETIMEDOUT);
	note_wanted(m);
	note_taken(m);
	return rc == 0;
}

void stet_cond_signal(struct stet_cond *c)
{
	must(pthread_cond_signal(&c->impl));
}

void stet_cond_broadcast(struct stet_cond *c)
{
	must(pthread_cond_broadcast(&c->impl));
}
