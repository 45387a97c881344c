/* hash.c - random operations against a plain array, while the table grows. */
#include <stdlib.h>

#include "base/hash.h"

#include "base/list.h"
#include "base/mem.h"
#include "base/random.h"

#include "unit.h"

#include <string.h>

#define ITEMS 3000

struct item {
	struct stet_hash_node node;
	bool in;
	bool seen;
};

static struct item *item_of(struct stet_hash_node *node)
{
	return stet_container_of(node, struct item, node);
}

/* How many nodes of the key the table finds; each must be one that is in. */
static size_t found(struct stet_hash *hash, uint64_t key)
{
	size_t n = 0;

	for (struct stet_hash_node *node = stet_hash_find(hash, key); node;
	     node = stet_hash_find_next(node)) {
		assert_true(item_of(node)->in);
		assert_int_equal(node->key, key);
		n++;
	}
	return n;
}

static size_t expected(const struct item *items, uint64_t key)
{
	size_t n = 0;

	for (size_t i = 0; i < ITEMS; i++)
		n += items[i].in && items[i].node.key == key;
	return n;
}

static void walk_sees_all(struct stet_hash *hash, struct item *items)
{
	size_t n = 0;

	for (size_t i = 0; i < ITEMS; i++)
		items[i].seen = false;
	for (struct stet_hash_node *node = stet_hash_first(hash); node;
	     node = stet_hash_next(hash, node)) {
		assert_true(item_of(node)->in);
		assert_false(item_of(node)->seen);
		item_of(node)->seen = true;
		n++;
	}
	assert_int_equal(n, stet_hash_count(hash));
}

/* Random inserts and removals, of keys below key_limit, with every n-th allocation failing. */
static void random_run(uint64_t seed, uint64_t key_limit, bool starve)
{
	static struct item items[ITEMS];
	struct stet_random random;
	struct stet_hash hash;
	size_t count = 0;

	memset(items, 0, sizeof(items));
	stet_random_seed(&random, seed);
	stet_hash_init(&hash, 0);
	for (int step = 0; step < 20000; step++) {
		/* More inserts than removals at first, fewer later. */
		struct item *item = &items[stet_random_below(&random, ITEMS)];
		uint64_t key = stet_random_below(&random, key_limit);

		if (starve && step > 0)
			stet_mem_fail_after(stet_random_below(&random, 3) ? 1 : -1);
		if (item->in) {
			stet_hash_remove(&hash, &item->node);
			item->in = false;
			count--;
		} else {
			assert_int_equal(stet_hash_insert(&hash, key, &item->node), 0);
			item->in = true;
			count++;
		}
		assert_int_equal(stet_hash_count(&hash), count);
		if (step % 50 == 0) {
			assert_int_equal(found(&hash, key), expected(items, key));
			stet_hash_check(&hash);
		}
		if (step % 1000 == 999)
			walk_sees_all(&hash, items);
	}
	stet_mem_fail_after(-1);
	assert_true(starve || stet_hash_grow_failures(&hash) == 0);
	stet_hash_release(&hash);
	stet_hash_release(&hash);
	stet_hash_release(NULL);
}

static void random_operations(void **state)
{
	(void)state;
	random_run(1, UINT64_MAX, false);
	random_run(2, 100, false); /* many duplicates */
	random_run(3, 2000, false);
	random_run(4, 10, false);
}

static void growing_may_fail(void **state)
{
	(void)state;
	random_run(5, UINT64_MAX, true);
	random_run(6, 500, true);
}

static void only_the_first_table_is_needed(void **state)
{
	static struct item items[ITEMS];
	struct stet_hash hash;

	(void)state;
	memset(items, 0, sizeof(items));
	stet_hash_init(&hash, 4);
	assert_null(stet_hash_find(&hash, 1));
	assert_null(stet_hash_first(&hash));
	stet_mem_fail_after(1);
	assert_int_equal(stet_hash_insert(&hash, 1, &items[0].node), -ENOMEM);
	assert_int_equal(stet_hash_count(&hash), 0);
	stet_mem_fail_after(2);
	for (size_t i = 0; i < ITEMS; i++)
		assert_int_equal(stet_hash_insert(&hash, i, &items[i].node), 0);
	assert_true(stet_hash_grow_failures(&hash) > 0);
	/* Failing must not be tried again with each insert. */
	assert_true(stet_mem_count() < ITEMS / 2);
	stet_mem_fail_after(-1);
	stet_hash_check(&hash);
	for (size_t i = 0; i < ITEMS; i++)
		assert_ptr_equal(stet_hash_find(&hash, i), &items[i].node);
	stet_hash_release(&hash);
}

static void removing_while_walking(void **state)
{
	static struct item items[ITEMS];
	struct stet_hash_node *next;
	struct stet_hash hash;
	size_t seen = 0;

	(void)state;
	stet_hash_init(&hash, 2);
	for (size_t i = 0; i < ITEMS; i++)
		assert_int_equal(stet_hash_insert(&hash, i / 2 * 7, &items[i].node), 0);
	for (struct stet_hash_node *node = stet_hash_first(&hash); node; node = next) {
		next = stet_hash_next(&hash, node);
		if (node->key % 2 == 0)
			stet_hash_remove(&hash, node);
		seen++;
	}
	assert_int_equal(seen, ITEMS);
	assert_int_equal(stet_hash_count(&hash), ITEMS / 2);
	stet_hash_check(&hash);
	stet_hash_release(&hash);
}

static void mixing_is_one_to_one_on_samples(void **state)
{
	uint64_t low_bits = 0;

	(void)state;
	assert_int_equal(stet_mix64(0), 0);
	for (uint64_t i = 0; i < 64; i++)
		low_bits |= UINT64_C(1) << (stet_mix64(i << 20) % 64);
	assert_true(__builtin_popcountll(low_bits) > 30);
}

/* Taking out the first node until none is left must not look at every bucket every time. */
static void emptied_from_the_first(void **state)
{
	enum { N = 200000 };
	struct stet_hash_node *nodes = calloc(N, sizeof(*nodes));
	struct stet_hash_node *node;
	struct stet_hash hash;
	size_t n = 0;

	(void)state;
	assert_non_null(nodes);
	stet_hash_init(&hash, 4);
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(stet_hash_insert(&hash, stet_mix64(i), &nodes[i]), 0);
	while ((node = stet_hash_first(&hash))) {
		stet_hash_remove(&hash, node);
		n++;
	}
	assert_int_equal(n, N);
	stet_hash_check(&hash);
	stet_hash_release(&hash);
	free(nodes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations),
		cmocka_unit_test(growing_may_fail),
		cmocka_unit_test(only_the_first_table_is_needed),
		cmocka_unit_test(removing_while_walking),
		cmocka_unit_test(emptied_from_the_first),
		cmocka_unit_test(mixing_is_one_to_one_on_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
