/* test_apply.c - batches of changes against the model. */
#include "gen.h"

#define LIMIT (64u << 20)

/* Puts numbers first, first + step, ... in batches; returns nothing, checks all. */
static void load(struct harness *h, enum gen_kind kind, uint64_t count, uint64_t per_batch,
		 bool reverse, struct stet_random *random)
{
	for (uint64_t i = 0; i < count; i += per_batch) {
		struct entries batch = { 0 };

		for (uint64_t j = i; j < i + per_batch && j < count; j++)
			gen_put(&batch, kind, reverse ? count - 1 - j : j, random);
		harness_apply(h, &batch, 0);
		entries_release(&batch);
	}
}

static void delete_range(struct harness *h, enum gen_kind kind, uint64_t first, uint64_t end,
			 uint32_t max_nodes)
{
	struct entries batch = { 0 };

	for (uint64_t n = first; n < end; n++)
		gen_delete(&batch, kind, n);
	harness_apply(h, &batch, max_nodes);
	entries_release(&batch);
}

static void test_empty(void **state)
{
	struct harness h;
	struct entries none = { 0 }, batch = { 0 };
	struct stet_root root;

	(void)state;
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	harness_apply(&h, &none, 0);
	gen_delete(&batch, GEN_SMALL, 3);
	assert_int_equal(harness_try(&h, &batch, NULL, 0, 0, &root), 0);
	assert_true(stet_addr_is_none(root.ptr.addr));
	assert_int_equal(h.written + h.freed + h.changed, 0);
	entries_release(&batch);
	harness_close(&h);
}

static void test_no_difference(void **state)
{
	struct harness h;
	struct stet_random random;
	struct entries batch = { 0 };
	struct stet_root root;

	(void)state;
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	stet_random_seed(&random, 1);
	for (uint64_t n = 0; n < 3000; n++)
		gen_put(&batch, GEN_SMALL, 2 * n, &random);
	harness_apply(&h, &batch, 0);
	for (uint64_t n = 0; n < 3000; n += 7)
		gen_delete(&batch, GEN_SMALL, 2 * n + 1);
	assert_int_equal(harness_try(&h, &batch, NULL, 0, 0, &root), 0);
	assert_int_equal(h.written + h.freed + h.changed, 0);
	assert_int_equal(root.ptr.addr.v, h.root.ptr.addr.v);
	assert_int_equal(root.level, h.root.level);
	entries_release(&batch);
	harness_close(&h);
}

/* Loads in order leave nodes nearly full, in big and in small batches; others at least half. */
static void test_sequential(void **state)
{
	static const struct {
		enum gen_kind kind;
		uint64_t count, per_batch;
		bool reverse;
		unsigned int percent;
	} cases[] = {
		{ GEN_SMALL, 6000, 6000, false, 95 },    { GEN_SMALL, 6000, 37, false, 75 },
		{ GEN_SMALL, 6000, 1000, false, 75 },    { GEN_SMALL, 6000, 37, true, 48 },
		{ GEN_SHARED, 20000, 20000, false, 92 }, { GEN_SHARED, 6000, 37, false, 70 },
		{ GEN_SHARED, 20000, 1000, false, 75 },  { GEN_SHARED, 6000, 37, true, 48 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct harness h;
		struct stet_random random;

		harness_open(&h, STET_TREE_CATALOG, LIMIT);
		h.keep_old = false;
		stet_random_seed(&random, 2);
		load(&h, cases[i].kind, cases[i].count, cases[i].per_batch, cases[i].reverse,
		     &random);
		assert_true(h.used_bytes * 100 >=
			    h.leaves * STET_TREE_NODE_ROOM * cases[i].percent);
		delete_range(&h, cases[i].kind, 0, cases[i].count, 0);
		assert_int_equal(h.live_nodes, 0);
		harness_close(&h);
	}
}

/* Nodes that are left with few keys are joined by what these take there, not by what they are whole. */
static void test_shrinking(void **state)
{
	enum { COUNT = 9000 };
	struct stet_random random;
	struct harness h;

	(void)state;
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	h.keep_old = false;
	stet_random_seed(&random, 4);
	load(&h, GEN_SHARED, COUNT, COUNT, false, &random);
	for (int i = 0; i < 40; i++) {
		struct entries batch = { 0 };

		for (int j = 0; j < COUNT / 20; j++)
			gen_delete(&batch, GEN_SHARED, stet_random_below(&random, COUNT));
		harness_apply(&h, &batch, 0);
		entries_release(&batch);
		assert_true(h.leaves == 1 || h.used_bytes >= h.leaves * STET_TREE_NODE_MIN);
	}
	harness_close(&h);
}

/* Appending where a range of keys ends, inside the tree, fills nodes too. */
static void test_append_inside(void **state)
{
	struct harness h;
	struct stet_random random;

	(void)state;
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	h.keep_old = false;
	stet_random_seed(&random, 3);
	load(&h, GEN_SMALL, 3000, 3000, false, &random);
	for (uint64_t i = 0; i < 100; i++) {
		struct entries batch = { 0 };

		for (uint64_t j = 0; j < 40; j++)
			gen_put(&batch, GEN_SMALL, (UINT64_C(1) << 60) + i * 40 + j, &random);
		gen_put(&batch, GEN_SMALL, UINT64_MAX - i, &random);
		harness_apply(&h, &batch, 0);
		entries_release(&batch);
	}
	assert_true(h.used_bytes * 100 >= h.leaves * STET_TREE_NODE_ROOM * 75);
	harness_close(&h);
}

static void one_random_batch(struct harness *h, enum gen_kind kind, uint64_t space, uint64_t size,
			     uint64_t percent_put, uint32_t max_nodes, struct stet_random *random)
{
	struct entries batch = { 0 };
	uint64_t base = stet_random_below(random, space);
	uint64_t width = stet_random_below(random, 2) ? space
						      : 1 + stet_random_below(random, space);

	for (uint64_t i = 0; i < size; i++) {
		uint64_t n = (base + stet_random_below(random, width)) % space;

		if (stet_random_below(random, 100) < percent_put)
			gen_put(&batch, kind, n, random);
		else
			gen_delete(&batch, kind, n);
	}
	harness_apply(h, &batch, max_nodes);
	entries_release(&batch);
}

/* Growing, steady and shrinking phases of random changes, in all sizes of items. */
static void random_run(uint32_t tree, bool keep_tombstones, enum gen_kind kind, uint64_t space,
		       uint64_t seed, int batches)
{
	static const uint64_t percent[] = { 80, 50, 20, 50, 5, 95, 0, 60 };
	static const uint64_t sizes[] = { 1, 10, 100, 1000 };
	struct harness h;
	struct stet_random random;

	harness_open(&h, tree, 4u << 20);
	h.keep_tombstones = keep_tombstones;
	h.two_copies = seed % 2;
	stet_random_seed(&random, seed);
	for (int i = 0; i < batches; i++) {
		uint64_t size = sizes[stet_random_below(&random, 4)];
		uint32_t max_nodes = (uint32_t)stet_random_below(&random, 5);

		one_random_batch(&h, kind, space, size, percent[(i / 6) % 8], max_nodes, &random);
		if (i % 20 == 19)
			testvol_drop_cache(&h.vol, 4u << 20);
	}
	harness_close(&h);
}

static void test_random(void **state)
{
	static const uint64_t space[GEN_KINDS] = { 4000, 3000, 300, 1500, 9000, 3000 };
	const char *rounds_text = getenv("STET_TEST_ROUNDS");
	uint64_t rounds = rounds_text ? strtoull(rounds_text, NULL, 10) : 1;

	(void)state;
	for (uint64_t seed = 0; seed < 4 * rounds; seed++) {
		for (int kind = 0; kind < GEN_KINDS; kind++) {
			random_run(STET_TREE_CATALOG, false, (enum gen_kind)kind, space[kind],
				   seed * 10 + (uint64_t)kind, 50);
			random_run(STET_TREE_RUN, true, (enum gen_kind)kind, space[kind],
				   seed * 10 + (uint64_t)kind, 12);
		}
	}
}

/* Ranges that cover whole parents, at every place, in deep trees of long keys. */
static void test_delete_ranges(void **state)
{
	enum { COUNT = 6000 };
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 9);
	for (int i = 0; i < 12; i++) {
		struct harness h;
		uint64_t first = i == 0 ? 0 : stet_random_below(&random, COUNT);
		uint64_t end = i == 1 ? COUNT
				      : first + stet_random_below(&random, COUNT - first + 1);
		uint32_t max_nodes = i % 3 == 0 ? 1 : 0;

		harness_open(&h, STET_TREE_CATALOG, LIMIT);
		load(&h, GEN_LONG_KEYS, COUNT, COUNT, false, &random);
		assert_true(h.root.level >= 2);
		delete_range(&h, GEN_LONG_KEYS, first, end, max_nodes);
		/* All but one of the rest, then the last. */
		delete_range(&h, GEN_LONG_KEYS, 1, COUNT, max_nodes);
		delete_range(&h, GEN_LONG_KEYS, 0, 1, max_nodes);
		assert_int_equal(h.live_nodes, 0);
		harness_close(&h);
	}
}

static int longest_key(void *arg, const struct stet_node_ptr *ptr, uint32_t level,
		       const uint8_t *node)
{
	size_t *longest = arg;
	struct stet_key key;

	(void)ptr;
	for (uint32_t i = 0; level > 0 && i < stet_node_count(node); i++) {
		stet_node_key(node, i, &key);
		*longest = key.bytes > *longest ? key.bytes : *longest;
	}
	return 0;
}

/* Above the leaves keys are cut to what tells neighbours apart. */
static void test_short_separators(void **state)
{
	struct harness h;
	struct stet_random random;
	size_t longest = 0;

	(void)state;
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	stet_random_seed(&random, 13);
	load(&h, GEN_LARGE, 1000, 300, false, &random);
	assert_int_equal(h.root.level, 1);
	assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &h.root, longest_key, &longest), 0);
	assert_int_equal(longest, 8);
	harness_close(&h);
}

/* Low fences of the nodes of one level. */
struct lows {
	uint32_t level;
	size_t count;
	struct stet_key key[40];
};

static int collect_lows(void *arg, const struct stet_node_ptr *ptr, uint32_t level,
			const uint8_t *node)
{
	struct lows *lows = arg;
	const uint8_t *key;
	uint32_t bytes;

	(void)ptr;
	if (level != lows->level)
		return 0;
	assert_true(lows->count < 40);
	stet_node_low(node, &key, &bytes);
	lows->key[lows->count].bytes = (uint16_t)bytes;
	memcpy(lows->key[lows->count++].b, key, bytes);
	return 0;
}

/* Exactly the items of some neighbouring nodes above the leaves: what stays is not touched, unless
 * it must take over the keys of those that are gone. */
static void test_delete_whole_parents(void **state)
{
	enum { COUNT = 26000 };
	static struct lows lows;
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 12);
	for (int i = 0; i < 16; i++) {
		struct entries batch = { 0 };
		struct harness h;
		size_t first, end, from, to;

		harness_open(&h, STET_TREE_CATALOG, LIMIT);
		load(&h, GEN_LONG_KEYS, COUNT, COUNT, false, &random);
		assert_true(h.root.level >= 3);
		lows.level = i % 4 == 3 ? 2 : 1;
		lows.count = 0;
		assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &h.root, collect_lows, &lows),
				 0);
		first = stet_random_below(&random, lows.count);
		end = i % 2 ? lows.count : first + stet_random_below(&random, lows.count - first);
		from = entries_lower_bound(&h.model, lows.key[first].b, lows.key[first].bytes);
		to = h.model.list.n;
		if (end < lows.count)
			to = entries_lower_bound(&h.model, lows.key[end].b, lows.key[end].bytes);
		/* Sometimes a few items of the last one stay. */
		for (size_t n = from; n + (size_t)(i % 5 == 4) * 3 < to; n++)
			entries_put(&batch, h.model.list.v[n].key, h.model.list.v[n].key_bytes,
				    NULL, 0, true);
		harness_apply(&h, &batch, i % 3 == 0);
		assert_true(h.written <= 2 * h.root.level + 2);
		entries_release(&batch);
		harness_close(&h);
	}
}

/* Many ranges at once, leaving few items here and there; also with new items between. */
static void test_delete_sparse(void **state)
{
	enum { COUNT = 5000 };
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 10);
	for (int i = 0; i < 16; i++) {
		struct entries batch = { 0 };
		struct harness h;
		uint64_t run = 1 + stet_random_below(&random, 1500);

		harness_open(&h, STET_TREE_CATALOG, LIMIT);
		load(&h, GEN_LONG_KEYS, COUNT, COUNT, false, &random);
		for (uint64_t n = 0; n < COUNT; n++) {
			if (stet_random_below(&random, run) != 0)
				gen_delete(&batch, GEN_LONG_KEYS, n);
			else if (i % 2)
				gen_put(&batch, GEN_LONG_KEYS, n, &random);
		}
		harness_apply(&h, &batch, i % 4 == 0 ? 2 : 0);
		entries_release(&batch);
		harness_close(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_no_difference),
		cmocka_unit_test(test_sequential),
		cmocka_unit_test(test_shrinking),
		cmocka_unit_test(test_append_inside),
		cmocka_unit_test(test_delete_ranges),
		cmocka_unit_test(test_delete_sparse),
		cmocka_unit_test(test_delete_whole_parents),
		cmocka_unit_test(test_short_separators),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
