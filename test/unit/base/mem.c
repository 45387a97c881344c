/* mem.c - allocation, and the hook that makes it fail. */
#include "base/mem.h"

#include "unit.h"

#include <pthread.h>
#include <string.h>

static void allocations_work(void **state)
{
	char *p = stet_alloc(10);
	char *zero = stet_calloc(10, 10);
	char *copy;

	(void)state;
	assert_non_null(p);
	memcpy(p, "012345678", 10);
	p = stet_realloc(p, 1000);
	assert_string_equal(p, "012345678");
	copy = stet_strdup(p);
	assert_string_equal(copy, p);
	stet_free(copy);
	copy = stet_memdup(p, 3);
	assert_memory_equal(copy, "012", 3);
	stet_free(copy);
	for (int i = 0; i < 100; i++)
		assert_int_equal(zero[i], 0);
	stet_free(zero);
	stet_free(p);
	stet_free(NULL);
}

static void size_zero_is_memory(void **state)
{
	void *p[5] = { stet_alloc(0), stet_calloc(0, 5), stet_calloc(5, 0), stet_realloc(NULL, 0),
		       stet_memdup(NULL, 0) };

	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_non_null(p[i]);
		stet_free(p[i]);
	}
}

static void overflow_is_refused(void **state)
{
	volatile size_t half = SIZE_MAX / 2;

	(void)state;
	assert_null(stet_calloc(half, 3));
}

static void alignment_is_kept(void **state)
{
	(void)state;
	for (size_t align = sizeof(void *); align <= 65536; align *= 2) {
		void *p = stet_alloc_aligned(align, 100);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % align, 0);
		stet_free(p);
	}
}

/* Tries each kind once; the bits of the result are the kinds that failed. */
static unsigned int try_all(void)
{
	static char old[4];
	void *p[6] = { stet_alloc(1),         stet_calloc(1, 1),
		       stet_realloc(NULL, 1), stet_alloc_aligned(64, 64),
		       stet_strdup("abc"),    stet_memdup(old, 4) };
	unsigned int failed = 0;

	for (unsigned int i = 0; i < 6; i++) {
		failed |= (p[i] ? 0U : 1U) << i;
		stet_free(p[i]);
	}
	return failed;
}

static void hook_fails_the_nth_and_later(void **state)
{
	(void)state;
	for (int n = 1; n <= 7; n++) {
		stet_mem_fail_after(n);
		assert_int_equal(stet_mem_count(), 0);
		/* The order in which the kinds are tried is the initialiser's. */
		assert_int_equal(__builtin_popcount(try_all()), 7 - n);
		assert_int_equal(stet_mem_count(), 6);
	}
	stet_mem_fail_after(0);
	assert_int_equal(try_all(), 0x3f);
	stet_mem_fail_after(-1);
	assert_int_equal(try_all(), 0);
}

static void failed_realloc_keeps_the_memory(void **state)
{
	char *p = stet_strdup("kept");

	(void)state;
	stet_mem_fail_after(1);
	assert_null(stet_realloc(p, 100));
	stet_mem_fail_after(-1);
	assert_string_equal(p, "kept");
	stet_free(p);
}

static void *other_thread(void *arg)
{
	*(unsigned int *)arg = try_all();
	return NULL;
}

static void hook_is_of_one_thread(void **state)
{
	unsigned int failed = 1;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &failed), 0);
	stet_mem_fail_after(1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	stet_mem_fail_after(-1);
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocations_work),
		cmocka_unit_test(size_zero_is_memory),
		cmocka_unit_test(overflow_is_refused),
		cmocka_unit_test(alignment_is_kept),
		cmocka_unit_test(hook_fails_the_nth_and_later),
		cmocka_unit_test(failed_realloc_keeps_the_memory),
		cmocka_unit_test(hook_is_of_one_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
