/* bitmap.c - random operations against an array of bools. */
#include "base/bitmap.h"

#include "base/random.h"

#include "unit.h"

#include <string.h>

#define MAX_BITS 400

static size_t model_find(const bool *bit, size_t n_bits, size_t from, bool wanted)
{
	while (from < n_bits && bit[from] != wanted)
		from++;
	return from;
}

static void assert_same(const struct stet_bitmap *map, const bool *bit, size_t from)
{
	assert_int_equal(stet_bitmap_find_next_one(map, from),
			 model_find(bit, map->n_bits, from, true));
	assert_int_equal(stet_bitmap_find_next_zero(map, from),
			 model_find(bit, map->n_bits, from, false));
	for (size_t i = 0; i < map->n_bits; i++)
		assert_int_equal(stet_bitmap_test(map, i), bit[i]);
}

static void random_step(struct stet_bitmap *map, bool *bit, struct stet_random *random)
{
	size_t first = stet_random_below(random, map->n_bits + 1);
	size_t n = stet_random_below(random, map->n_bits - first + 1);
	size_t count = 0;

	switch (stet_random_below(random, 4)) {
	case 0:
		stet_bitmap_set_range(map, first, n);
		memset(bit + first, 1, n);
		break;
	case 1:
		stet_bitmap_clear_range(map, first, n);
		memset(bit + first, 0, n);
		break;
	case 2:
		if (first == map->n_bits)
			break;
		stet_bitmap_set(map, first);
		bit[first] = true;
		break;
	default:
		if (first == map->n_bits)
			break;
		stet_bitmap_clear(map, first);
		bit[first] = false;
	}
	for (size_t i = first; i < first + n; i++)
		count += bit[i];
	assert_int_equal(stet_bitmap_count_range(map, first, n), count);
	assert_same(map, bit, first);
}

static void random_operations(void **state)
{
	static const size_t sizes[] = { 1, 63, 64, 65, 127, 128, 200, MAX_BITS };
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 5);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint64_t word[STET_BITMAP_WORDS(MAX_BITS) + 1] = { 0 };
		bool bit[MAX_BITS] = { 0 };
		struct stet_bitmap map;

		word[STET_BITMAP_WORDS(sizes[s])] = 0x5555;
		stet_bitmap_init(&map, word, sizes[s]);
		for (int i = 0; i < 1000; i++)
			random_step(&map, bit, &random);
		assert_int_equal(word[STET_BITMAP_WORDS(sizes[s])], 0x5555);
	}
}

static void bits_behind_the_end_do_not_count(void **state)
{
	uint64_t word[1] = { ~UINT64_C(0) << 10 };
	struct stet_bitmap map;

	(void)state;
	stet_bitmap_init(&map, word, 10);
	assert_int_equal(stet_bitmap_find_next_one(&map, 0), 10);
	stet_bitmap_set_range(&map, 0, 10);
	assert_int_equal(stet_bitmap_find_next_zero(&map, 0), 10);
	assert_int_equal(stet_bitmap_count_range(&map, 0, 10), 10);
	stet_bitmap_clear_range(&map, 0, 10);
	assert_int_equal(word[0], ~UINT64_C(0) << 10);
}

static void set_outside(void *arg)
{
	stet_bitmap_set(arg, 64);
}

static void range_outside(void *arg)
{
	stet_bitmap_set_range(arg, 60, 5);
}

static void range_that_wraps(void *arg)
{
	stet_bitmap_clear_range(arg, 60, SIZE_MAX);
}

static void search_outside(void *arg)
{
	(void)stet_bitmap_find_next_one(arg, 65);
}

static void positions_outside_abort(void **state)
{
	uint64_t word[2] = { 0 };
	struct stet_bitmap map;

	(void)state;
	stet_bitmap_init(&map, word, 64);
	assert_true(unit_aborts(set_outside, &map));
	assert_true(unit_aborts(range_outside, &map));
	assert_true(unit_aborts(range_that_wraps, &map));
	assert_true(unit_aborts(search_outside, &map));
	assert_int_equal(stet_bitmap_find_next_one(&map, 64), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations),
		cmocka_unit_test(bits_behind_the_end_do_not_count),
		cmocka_unit_test(positions_outside_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
