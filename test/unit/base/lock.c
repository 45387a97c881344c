/* lock.c - mutexes exclude, conditions wake, and (with STET_DEBUG) misuse aborts. */
#include "base/lock.h"

#include "unit.h"

#include <time.h>

#define THREADS 4
#define ROUNDS 20000

struct shared {
	struct stet_mutex low;
	struct stet_mutex high;
	struct stet_cond cond;
	long counter;
	bool ready;
};

static void shared_init(struct shared *shared)
{
	stet_mutex_init(&shared->low, 10, "low");
	stet_mutex_init(&shared->high, 20, "high");
	stet_cond_init(&shared->cond);
	shared->counter = 0;
	shared->ready = false;
}

static void shared_release(struct shared *shared)
{
	stet_cond_destroy(&shared->cond);
	stet_mutex_destroy(&shared->high);
	stet_mutex_destroy(&shared->low);
}

static void *count_up(void *arg)
{
	struct shared *shared = arg;

	for (int i = 0; i < ROUNDS; i++) {
		stet_mutex_lock(&shared->low);
		stet_mutex_lock(&shared->high);
		shared->counter++;
		stet_mutex_unlock(&shared->low); /* any order */
		stet_assert_held(&shared->high);
		stet_mutex_unlock(&shared->high);
	}
	return NULL;
}

static void mutexes_exclude(void **state)
{
	pthread_t thread[THREADS];
	struct shared shared;

	(void)state;
	shared_init(&shared);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count_up, &shared), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(shared.counter, (long)THREADS * ROUNDS);
	shared_release(&shared);
}

static void *wait_until_ready(void *arg)
{
	struct shared *shared = arg;

	stet_mutex_lock(&shared->low);
	while (!shared->ready)
		stet_cond_wait(&shared->cond, &shared->low);
	stet_assert_held(&shared->low);
	shared->counter++;
	stet_cond_signal(&shared->cond);
	stet_mutex_unlock(&shared->low);
	return NULL;
}

static void conditions_wake(void **state)
{
	pthread_t thread[THREADS];
	struct shared shared;

	(void)state;
	shared_init(&shared);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, wait_until_ready, &shared), 0);
	stet_mutex_lock(&shared.low);
	shared.ready = true;
	stet_cond_broadcast(&shared.cond);
	while (shared.counter < THREADS)
		stet_cond_wait(&shared.cond, &shared.low);
	stet_mutex_unlock(&shared.low);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	shared_release(&shared);
}

static int64_t now_ns(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void deadlines_pass(void **state)
{
	struct shared shared;
	int64_t deadline_ns = now_ns() + 20000000;

	(void)state;
	shared_init(&shared);
	stet_mutex_lock(&shared.low);
	while (stet_cond_timedwait(&shared.cond, &shared.low, deadline_ns))
		continue; /* may wake early */
	assert_true(now_ns() >= deadline_ns);
	stet_assert_held(&shared.low);
	assert_false(stet_cond_timedwait(&shared.cond, &shared.low, 0));
	stet_mutex_unlock(&shared.low);
	shared_release(&shared);
}

#ifdef STET_DEBUG

/* Misuse on purpose: not for the static analysis. */
static void lock_in_wrong_order(void *arg) STET_NO_LOCK_ANALYSIS
{
	struct shared *shared = arg;

	stet_mutex_lock(&shared->high);
	stet_mutex_lock(&shared->low);
}

static void lock_twice(void *arg) STET_NO_LOCK_ANALYSIS
{
	struct shared *shared = arg;

	stet_mutex_lock(&shared->high);
	stet_mutex_lock(&shared->high);
}

static void unlock_unlocked(void *arg) STET_NO_LOCK_ANALYSIS
{
	struct shared *shared = arg;

	stet_mutex_unlock(&shared->low);
}

static void assert_not_held(void *arg)
{
	struct shared *shared = arg;

	stet_assert_held(&shared->low);
}

static void wait_below_another(void *arg) STET_NO_LOCK_ANALYSIS
{
	struct shared *shared = arg;

	stet_mutex_lock(&shared->low);
	stet_mutex_lock(&shared->high);
	(void)stet_cond_timedwait(&shared->cond, &shared->low, 0);
}

static void misuse_aborts(void **state)
{
	struct shared shared;

	(void)state;
	shared_init(&shared);
	assert_true(unit_aborts(lock_in_wrong_order, &shared));
	assert_true(unit_aborts(lock_twice, &shared));
	assert_true(unit_aborts(unlock_unlocked, &shared));
	assert_true(unit_aborts(assert_not_held, &shared));
	assert_true(unit_aborts(wait_below_another, &shared));
	shared_release(&shared);
}

#else

static void misuse_aborts(void **state)
{
	(void)state;
	skip(); /* not checked in this build */
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutexes_exclude),
		cmocka_unit_test(conditions_wake),
		cmocka_unit_test(deadlines_pass),
		cmocka_unit_test(misuse_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
