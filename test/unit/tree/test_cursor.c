/* test_cursor.c - reading: seek, next, lookup against the model; damage and limits. */
#include "gen.h"

#define LIMIT (32u << 20)

static void fill(struct harness *h, enum gen_kind kind, uint64_t count, struct stet_random *random)
{
	struct entries batch = { 0 };

	for (uint64_t n = 0; n < count; n++)
		gen_put(&batch, kind, 3 * n + 1, random);
	harness_apply(h, &batch, 0);
	entries_release(&batch);
}

static void assert_at(const struct stet_tree_cursor *cur, const struct entries *model, size_t at)
{
	const struct entry *e;

	assert_int_equal(cur->valid, at < model->list.n);
	if (!cur->valid)
		return;
	e = &model->list.v[at];
	assert_int_equal(cur->key.bytes, e->key_bytes);
	assert_memory_equal(cur->key.b, e->key, e->key_bytes);
	assert_int_equal(cur->item.value_bytes, e->value_bytes);
	assert_memory_equal(cur->item.value, e->key + e->key_bytes, e->value_bytes);
}

/* Seeks anywhere, then some steps on. */
static void test_seek_and_next(void **state)
{
	static const uint64_t counts[GEN_KINDS] = { 3000, 1000, 120, 1500, 5000, 2000 };

	(void)state;
	for (int kind = 0; kind < GEN_KINDS; kind++) {
		struct stet_tree_cursor cur;
		struct stet_random random;
		struct harness h;

		stet_random_seed(&random, (uint64_t)kind);
		harness_open(&h, STET_TREE_CATALOG, LIMIT);
		fill(&h, (enum gen_kind)kind, counts[kind], &random);
		testvol_drop_cache(&h.vol, 200000);
		stet_tree_cursor_init(&cur, h.vol.cache, h.tree, &h.root);
		for (int i = 0; i < 1000; i++) {
			uint64_t n = stet_random_below(&random, 3 * counts[kind] + 3);
			struct stet_key key;
			size_t at;

			gen_key((enum gen_kind)kind, n, &key);
			at = entries_lower_bound(&h.model, key.b, key.bytes);
			assert_int_equal(stet_tree_cursor_seek(&cur, key.b, key.bytes), 0);
			assert_at(&cur, &h.model, at);
			for (uint64_t k = stet_random_below(&random, 20); k > 0 && cur.valid; k--) {
				assert_int_equal(stet_tree_cursor_next(&cur), 0);
				assert_at(&cur, &h.model, ++at);
			}
		}
		stet_tree_cursor_release(&cur);
		harness_close(&h);
	}
}

/* The last one below anything, then on from there. */
static void test_below(void **state)
{
	static const uint64_t counts[GEN_KINDS] = { 3000, 1000, 120, 1500, 5000, 2000 };

	(void)state;
	for (int kind = 0; kind < GEN_KINDS; kind++) {
		struct stet_tree_cursor cur;
		struct stet_random random;
		struct harness h;

		stet_random_seed(&random, (uint64_t)kind);
		harness_open(&h, STET_TREE_CATALOG, LIMIT);
		stet_tree_cursor_init(&cur, h.vol.cache, h.tree, &h.root);
		assert_int_equal(stet_tree_cursor_below(&cur, NULL, 0), 0);
		assert_false(cur.valid);
		fill(&h, (enum gen_kind)kind, counts[kind], &random);
		stet_tree_cursor_init(&cur, h.vol.cache, h.tree, &h.root);
		assert_int_equal(stet_tree_cursor_below(&cur, NULL, 0), 0);
		assert_at(&cur, &h.model, h.model.list.n - 1);
		for (int i = 0; i < 1000; i++) {
			uint64_t n = stet_random_below(&random, 3 * counts[kind] + 3);
			struct stet_key key;
			size_t at;

			gen_key((enum gen_kind)kind, n, &key);
			at = entries_lower_bound(&h.model, key.b, key.bytes);
			assert_int_equal(stet_tree_cursor_below(&cur, key.b, key.bytes), 0);
			assert_at(&cur, &h.model, at > 0 ? at - 1 : h.model.list.n);
			if (!cur.valid)
				continue;
			assert_int_equal(stet_tree_cursor_next(&cur), 0);
			assert_at(&cur, &h.model, at);
		}
		stet_tree_cursor_release(&cur);
		harness_close(&h);
	}
}

static void test_scan(void **state)
{
	struct stet_tree_cursor cur;
	struct stet_random random;
	struct harness h;
	size_t at = 0;

	(void)state;
	stet_random_seed(&random, 20);
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	stet_tree_cursor_init(&cur, h.vol.cache, h.tree, &h.root);
	assert_int_equal(stet_tree_cursor_seek(&cur, NULL, 0), 0);
	assert_false(cur.valid);
	assert_int_equal(stet_tree_cursor_next(&cur), 0);
	assert_false(cur.valid);
	fill(&h, GEN_MIXED, 2000, &random);
	stet_tree_cursor_init(&cur, h.vol.cache, h.tree, &h.root);
	assert_int_equal(stet_tree_cursor_seek(&cur, NULL, 0), 0);
	for (; cur.valid; at++) {
		assert_at(&cur, &h.model, at);
		assert_int_equal(stet_tree_cursor_next(&cur), 0);
	}
	assert_int_equal(at, h.model.list.n);
	assert_int_equal(stet_tree_cursor_below(&cur, NULL, 0), 0);
	for (; cur.valid; at--) {
		assert_at(&cur, &h.model, at - 1);
		if (at % 7 == 0) { /* there and back */
			assert_int_equal(stet_tree_cursor_prev(&cur), 0);
			if (cur.valid)
				assert_int_equal(stet_tree_cursor_next(&cur), 0);
			else
				assert_int_equal(stet_tree_cursor_seek(&cur, NULL, 0), 0);
		}
		assert_int_equal(stet_tree_cursor_prev(&cur), 0);
	}
	assert_int_equal(at, 0);
	assert_int_equal(stet_tree_cursor_prev(&cur), 0);
	assert_false(cur.valid);
	stet_tree_cursor_release(&cur);
	harness_close(&h);
}

static void test_lookup(void **state)
{
	struct stet_tree_item item;
	struct stet_random random;
	struct harness h;
	struct stet_key key;

	(void)state;
	stet_random_seed(&random, 21);
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	gen_key(GEN_MIXED, 5, &key);
	assert_int_equal(stet_tree_lookup(h.vol.cache, h.tree, &h.root, key.b, key.bytes, &item),
			 -ENOENT);
	fill(&h, GEN_MIXED, 2000, &random);
	for (uint64_t n = 0; n < 6003; n++) {
		const struct entry *e;
		int rc;

		gen_key(GEN_MIXED, n, &key);
		e = entries_find(&h.model, key.b, key.bytes);
		rc = stet_tree_lookup(h.vol.cache, h.tree, &h.root, key.b, key.bytes, &item);
		assert_int_equal(rc, e ? 0 : -ENOENT);
		if (!e)
			continue;
		assert_int_equal(item.item.value_bytes, e->value_bytes);
		assert_memory_equal(item.item.value, e->key + e->key_bytes, e->value_bytes);
		stet_tree_item_release(&item);
		stet_tree_item_release(&item); /* harmless */
	}
	harness_close(&h);
}

/* Reads each item; -EIO for some. Returns how many. */
static int count_unreadable(struct harness *h)
{
	int bad = 0;

	for (size_t i = 0; i < h->model.list.n; i++) {
		const struct entry *e = &h->model.list.v[i];
		struct stet_tree_item item;
		int rc = stet_tree_lookup(h->vol.cache, h->tree, &h->root, e->key, e->key_bytes,
					  &item);

		if (rc) {
			assert_int_equal(rc, -EIO);
			bad++;
			continue;
		}
		assert_memory_equal(item.item.value, e->key + e->key_bytes, e->value_bytes);
		stet_tree_item_release(&item);
	}
	return bad;
}

static int collect(void *arg, const struct stet_node_ptr *ptr, uint32_t level, const uint8_t *node)
{
	struct stet_node_ptr **next = arg;

	(void)level;
	(void)node;
	*(*next)++ = *ptr;
	return 0;
}

/* A flipped bit anywhere: the second copy serves; without it -EIO, never wrong data (C1). */
static void test_damage(void **state)
{
	struct stet_node_ptr *ptrs, *end;
	struct stet_random random;
	struct harness h;

	(void)state;
	stet_random_seed(&random, 22);
	for (int two = 0; two < 2; two++) {
		harness_open(&h, STET_TREE_CATALOG, LIMIT);
		h.two_copies = two;
		fill(&h, GEN_SMALL, 2000, &random);
		ptrs = calloc(h.live_nodes, sizeof(*ptrs));
		assert_non_null(ptrs);
		end = ptrs;
		assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &h.root, collect, &end), 0);
		assert_int_equal(end - ptrs, h.live_nodes);
		for (uint64_t i = 0; i < h.live_nodes; i++) {
			uint32_t bit = (uint32_t)stet_random_below(&random,
								   STET_NODE_SIZE * UINT64_C(8));

			testvol_drop_cache(&h.vol, LIMIT);
			testvol_flip(&h.vol, ptrs[i].addr, bit);
			assert_int_equal(count_unreadable(&h) > 0, !two);
			assert_int_equal(testvol_usage(&h.vol).healed > 0, two);
			testvol_flip(&h.vol, ptrs[i].addr, bit);
		}
		free(ptrs);
		harness_close(&h);
	}
}

static int stop_at(void *arg, const struct stet_node_ptr *ptr, uint32_t level, const uint8_t *node)
{
	uint64_t *left = arg;

	(void)ptr;
	(void)level;
	(void)node;
	return --*left == 0 ? -EINTR : 0;
}

/* A walk ends where its visitor, or the device, says so. */
static void test_walk_stops(void **state)
{
	struct entries none = { 0 };
	struct stet_root bad;
	struct stet_random random;
	struct harness h;
	uint64_t left;

	(void)state;
	stet_random_seed(&random, 23);
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &h.root, stop_at, &left), 0);
	fill(&h, GEN_SMALL, 1000, &random);
	for (uint64_t n = 1; n <= h.live_nodes; n++) {
		left = n;
		assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &h.root, stop_at, &left),
				 -EINTR);
	}
	bad = h.root;
	bad.level = STET_TREE_LEVEL_MAX + 1;
	assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &bad, stop_at, &left), -EUCLEAN);
	bad.level = h.root.level + 1;
	assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &bad, stop_at, &left), -EIO);
	harness_check_root(&h, &h.root, &h.model);
	harness_apply(&h, &none, 0);
	harness_close(&h);
}

/* Errors on the way: the cursor is invalid, holds nothing wrong, and works again afterwards. */
static void test_cursor_errors(void **state)
{
	struct stet_tree_cursor cur;
	struct stet_random random;
	struct harness h;

	(void)state;
	stet_random_seed(&random, 24);
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	fill(&h, GEN_LONG_KEYS, 1500, &random);
	assert_true(h.root.level >= 2);
	testvol_drop_cache(&h.vol, LIMIT);
	for (int n = 1;; n++) {
		size_t at = 0;
		int rc;

		char script[32];

		testvol_drop_cache(&h.vol, LIMIT);
		(void)snprintf(script, sizeof(script), "read#%d:eio", n);
		assert_int_equal(sim_fault_set(h.vol.fault, script), 0);
		stet_tree_cursor_init(&cur, h.vol.cache, h.tree, &h.root);
		rc = stet_tree_cursor_seek(&cur, NULL, 0);
		for (; !rc && cur.valid; at++) {
			assert_at(&cur, &h.model, at);
			rc = stet_tree_cursor_next(&cur);
		}
		if (!rc) {
			stet_tree_cursor_release(&cur);
			break;
		}
		assert_int_equal(rc, -EIO);
		assert_false(cur.valid);
		assert_int_equal(stet_tree_cursor_seek(&cur, h.model.list.v[7].key,
						       h.model.list.v[7].key_bytes),
				 0);
		assert_at(&cur, &h.model, 7);
		stet_tree_cursor_release(&cur);
	}
	harness_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seek_and_next), cmocka_unit_test(test_below),
		cmocka_unit_test(test_scan),          cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_damage),        cmocka_unit_test(test_walk_stops),
		cmocka_unit_test(test_cursor_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
