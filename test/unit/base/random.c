/* random.c - random numbers, the clock interface and counters. */
#include "base/random.h"

#include "base/clock.h"
#include "base/counter.h"

#include "unit.h"

#include <string.h>

static void known_sequence(void **state)
{
	struct stet_random random = { { 1, 2, 3, 4 } };
	/* The reference implementation's output for the state 1, 2, 3, 4. */
	static const uint64_t want[] = { 11520, 0, 1509978240, 1215971899390074240 };

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_int_equal(stet_random_next(&random), want[i]);
	stet_random_seed(&random, 0);
	assert_int_equal(random.s[0], 0xe220a8397b1dcdaf); /* splitmix64 of 0 */
}

static void same_seed_same_sequence(void **state)
{
	struct stet_random a;
	struct stet_random b;
	uint8_t bytes_a[101];
	uint8_t bytes_b[101];

	(void)state;
	stet_random_seed(&a, 42);
	stet_random_seed(&b, 42);
	for (int i = 0; i < 100; i++)
		assert_int_equal(stet_random_next(&a), stet_random_next(&b));
	stet_random_bytes(&a, bytes_a, sizeof(bytes_a));
	stet_random_bytes(&b, bytes_b, sizeof(bytes_b));
	assert_memory_equal(bytes_a, bytes_b, sizeof(bytes_a));
	stet_random_seed(&b, 43);
	assert_int_not_equal(stet_random_next(&a), stet_random_next(&b));
}

static void below_is_even(void **state)
{
	struct stet_random random;
	int hits[7] = { 0 };

	(void)state;
	stet_random_seed(&random, 1);
	for (int i = 0; i < 70000; i++)
		hits[stet_random_below(&random, 7)]++;
	for (int i = 0; i < 7; i++)
		assert_in_range(hits[i], 9500, 10500);
	assert_int_equal(stet_random_below(&random, 1), 0);
	for (int i = 0; i < 100; i++)
		assert_true(stet_random_below(&random, UINT64_MAX) < UINT64_MAX);
}

struct fixed_clock {
	struct stet_clock clock;
	int64_t now_ns;
};

static int64_t fixed_wall(struct stet_clock *clock)
{
	return ((struct fixed_clock *)clock)->now_ns;
}

static int64_t fixed_mono(struct stet_clock *clock)
{
	return ((struct fixed_clock *)clock)->now_ns / 2;
}

static void clocks_are_objects(void **state)
{
	struct fixed_clock fixed = { { fixed_wall, fixed_mono }, 100 };

	(void)state;
	assert_int_equal(stet_clock_wall_ns(&fixed.clock), 100);
	assert_int_equal(stet_clock_mono_ns(&fixed.clock), 50);
}

static void counters_count(void **state)
{
	struct stet_counter counter = { 0 };

	(void)state;
	stet_counter_add(&counter, 2);
	stet_counter_add(&counter, 40);
	assert_int_equal(stet_counter_get(&counter), 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_sequence), cmocka_unit_test(same_seed_same_sequence),
		cmocka_unit_test(below_is_even),  cmocka_unit_test(clocks_are_objects),
		cmocka_unit_test(counters_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
