/* test_error.c - an apply that fails at its n-th callback, allocation or device read, for each n:
 * the old root is intact, nothing stays pinned or allocated, and the same batch then goes through. */
#include "gen.h"

#define LIMIT (32u << 20)

enum fault { FAULT_CALLBACK, FAULT_MEMORY, FAULT_READ };

struct scene {
	struct harness h;
	struct entries batch;
};

static void random_batch(struct entries *batch, enum gen_kind kind, uint64_t space, uint64_t size,
			 unsigned int percent_put, struct stet_random *random)
{
	for (uint64_t i = 0; i < size; i++) {
		uint64_t n = stet_random_below(random, space);

		if (stet_random_below(random, 100) < percent_put)
			gen_put(batch, kind, n, random);
		else
			gen_delete(batch, kind, n);
	}
}

static void open_scene(struct scene *s, enum gen_kind kind, uint64_t count,
		       unsigned int percent_put)
{
	struct entries first = { 0 };
	struct stet_random random;

	memset(s, 0, sizeof(*s));
	stet_random_seed(&random, 40 + percent_put);
	harness_open(&s->h, STET_TREE_CATALOG, LIMIT);
	for (uint64_t n = 0; n < count; n++)
		gen_put(&first, kind, n, &random);
	harness_apply(&s->h, &first, 0);
	entries_release(&first);
	random_batch(&s->batch, kind, count + 100, count / 3, percent_put, &random);
}

static void close_scene(struct scene *s)
{
	entries_release(&s->batch);
	harness_close(&s->h);
}

/* One try with the n-th thing failing. */
static int try_once(struct scene *s, enum fault fault, uint64_t n, struct stet_root *ret_root)
{
	char script[32];
	int rc;

	s->h.fail_at = fault == FAULT_CALLBACK ? n : 0;
	if (fault == FAULT_READ) {
		testvol_drop_cache(&s->h.vol, LIMIT);
		(void)snprintf(script, sizeof(script), "read#%llu:eio", (unsigned long long)n);
		assert_int_equal(sim_fault_set(s->h.vol.fault, script), 0);
	}
	if (fault == FAULT_MEMORY) {
		testvol_drop_cache(&s->h.vol, LIMIT);
		stet_mem_fail_after((int64_t)n);
	}
	rc = harness_try(&s->h, &s->batch, NULL, 0, 3, ret_root);
	stet_mem_fail_after(-1);
	assert_int_equal(sim_fault_set(s->h.vol.fault, ""), 0);
	s->h.fail_at = 0;
	return rc;
}

static void fail_each(enum gen_kind kind, uint64_t count, unsigned int percent_put,
		      enum fault fault, uint64_t step)
{
	struct stet_root root;
	struct scene s;
	uint64_t failed = 0;
	int rc = -1;

	open_scene(&s, kind, count, percent_put);
	for (uint64_t n = 1; rc != 0; n += step) {
		rc = try_once(&s, fault, n, &root);
		assert_true(rc <= 0);
		if (rc == 0)
			break;
		failed++;
		testvol_drop_cache(&s.h.vol, LIMIT); /* nothing is pinned */
		harness_check_root(&s.h, &s.h.root, &s.h.model);
	}
	assert_true(failed > 10);
	harness_accept(&s.h, &s.batch, &root);
	close_scene(&s);
}

static void test_callbacks(void **state)
{
	(void)state;
	fail_each(GEN_LARGE, 150, 60, FAULT_CALLBACK, 1);
	fail_each(GEN_LONG_KEYS, 1200, 5, FAULT_CALLBACK, 23);
	fail_each(GEN_LONG_KEYS, 1200, 90, FAULT_CALLBACK, 29);
}

static void test_memory(void **state)
{
	(void)state;
	fail_each(GEN_LARGE, 150, 60, FAULT_MEMORY, 1);
	fail_each(GEN_LONG_KEYS, 1200, 5, FAULT_MEMORY, 3);
}

static void test_reads(void **state)
{
	(void)state;
	fail_each(GEN_LARGE, 150, 60, FAULT_READ, 1);
	fail_each(GEN_LONG_KEYS, 1200, 5, FAULT_READ, 1);
	fail_each(GEN_LONG_KEYS, 1200, 90, FAULT_READ, 1);
}

/* A parent whose pointer and child do not fit together is damage, not a crash. */
static void test_bad_fences(void **state)
{
	static uint8_t bytes[STET_NODE_SIZE];
	struct stet_node_ptr_disk value;
	struct stet_node_builder b;
	struct stet_node_ptr leaf = { .birth = 1 }, top = { .birth = 1 };
	struct stet_tree_item item;
	struct stet_root root = { .level = 1 };
	struct harness h;

	(void)state;
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	for (int i = 0; i < 3; i++) {
		const char *low = i == 0 ? "b" : "";
		const char *high = i == 1 ? "x" : "";
		const char *key = i == 2 ? "a" : "";

		stet_node_begin(&b, bytes, STET_TREE_CATALOG, 0, NULL, 0);
		leaf.check = stet_node_seal(&b, TESTVOL_ID, 1, low, strlen(low), high,
					    strlen(high));
		leaf.addr = testvol_place(&h.vol, STET_NODE_BLOCKS);
		testvol_write(&h.vol, leaf.addr, bytes, STET_NODE_BLOCKS);
		stet_node_ptr_encode(&leaf, &value);
		stet_node_begin(&b, bytes, STET_TREE_CATALOG, 1, key, strlen(key));
		stet_node_add(&b, key, strlen(key), &value, sizeof(value), false);
		top.check = stet_node_seal(&b, TESTVOL_ID, 1, NULL, 0, NULL, 0);
		top.addr = testvol_place(&h.vol, STET_NODE_BLOCKS);
		testvol_write(&h.vol, top.addr, bytes, STET_NODE_BLOCKS);
		root.ptr = top;
		assert_int_equal(stet_tree_lookup(h.vol.cache, h.tree, &root, "c", 1, &item),
				 -EUCLEAN);
		stet_cache_check(h.vol.cache);
	}
	root.ptr = leaf; /* a leaf as root, but not of all keys */
	stet_node_begin(&b, bytes, STET_TREE_CATALOG, 0, NULL, 0);
	root.ptr.check = stet_node_seal(&b, TESTVOL_ID, 1, "a", 1, NULL, 0);
	root.ptr.addr = testvol_place(&h.vol, STET_NODE_BLOCKS);
	testvol_write(&h.vol, root.ptr.addr, bytes, STET_NODE_BLOCKS);
	root.level = 0;
	assert_int_equal(stet_tree_lookup(h.vol.cache, h.tree, &root, "c", 1, &item), -EUCLEAN);
	harness_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_callbacks),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_bad_fences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
