/* test_node.c - nodes: verified, found again, healed, pinned, evicted. */
#include "testvol.h"

#define LIMIT UINT64_C(1280000)
#define BIRTH 7u

/* Writes a leaf with one item; both copies when asked. */
static struct stet_node_ptr write_leaf(struct testvol *vol, uint64_t n, bool two)
{
	static uint8_t bytes[STET_NODE_SIZE];
	struct stet_node_builder b;
	struct stet_node_ptr ptr = { .birth = BIRTH };

	stet_node_begin(&b, bytes, STET_TREE_RUN, 0, &n, sizeof(n));
	stet_node_add(&b, &n, sizeof(n), "value", 5, false);
	ptr.check = stet_node_seal(&b, TESTVOL_ID, BIRTH, NULL, 0, NULL, 0);
	ptr.addr = testvol_place(vol, STET_NODE_BLOCKS);
	testvol_write(vol, ptr.addr, bytes, STET_NODE_BLOCKS);
	if (two) {
		ptr.addr2 = testvol_place(vol, STET_NODE_BLOCKS);
		testvol_write(vol, ptr.addr2, bytes, STET_NODE_BLOCKS);
	}
	return ptr;
}

static int get(struct testvol *vol, const struct stet_node_ptr *ptr, struct stet_cnode **ret)
{
	return stet_cache_node(vol->cache, ptr, STET_TREE_RUN, 0, ret);
}

static void assert_readable(struct testvol *vol, const struct stet_node_ptr *ptr, uint64_t n)
{
	struct stet_cnode *node;

	assert_int_equal(get(vol, ptr, &node), 0);
	assert_int_equal(stet_node_key_cmp(stet_cnode_bytes(node), 0, &n, sizeof(n)), 0);
	stet_cnode_unpin(node);
}

static void test_hit_and_miss(void **state)
{
	struct testvol vol;
	struct stet_node_ptr ptr;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	ptr = write_leaf(&vol, 5, false);
	assert_readable(&vol, &ptr, 5);
	assert_readable(&vol, &ptr, 5);
	assert_int_equal(testvol_usage(&vol).node_misses, 1);
	assert_int_equal(testvol_usage(&vol).node_hits, 1);
	stet_cache_forget(vol.cache, &ptr);
	assert_int_equal(testvol_usage(&vol).node_bytes, 0);
	assert_readable(&vol, &ptr, 5);
	assert_int_equal(testvol_usage(&vol).node_misses, 2);
	testvol_close(&vol);
}

/* Any flipped bit is found (C1); the second copy stands in; both bad: -EIO that says where. */
static void test_flips(void **state)
{
	struct testvol vol;
	struct stet_random random;
	uint64_t healed = 0;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	stet_random_seed(&random, 3);
	for (uint64_t n = 0; n < 60; n++) {
		struct stet_node_ptr ptr = write_leaf(&vol, n, true);
		uint32_t bit = (uint32_t)stet_random_below(&random, STET_NODE_SIZE * UINT64_C(8));
		struct stet_cnode *node;
		char where[64];

		testvol_flip(&vol, ptr.addr, bit);
		assert_readable(&vol, &ptr, n);
		healed++;
		assert_int_equal(testvol_usage(&vol).healed, healed);
		stet_cache_forget(vol.cache, &ptr);
		testvol_flip(&vol, ptr.addr2, bit ^ 1);
		assert_int_equal(get(&vol, &ptr, &node), -EIO);
		(void)snprintf(where, sizeof(where), "node %llu:%u (",
			       (unsigned long long)stet_addr_seg(ptr.addr),
			       stet_addr_block(ptr.addr));
		assert_non_null(strstr(stet_error_text(), where));
		testvol_flip(&vol, ptr.addr, bit);
		assert_readable(&vol, &ptr, n);
	}
	testvol_close(&vol);
}

static void test_gone_and_failing(void **state)
{
	struct testvol vol;
	struct stet_node_ptr one, two, none = { .birth = BIRTH };
	struct stet_cnode *node;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	one = write_leaf(&vol, 1, false);
	vol.next_block += TESTVOL_SEG_BLOCKS;
	two = write_leaf(&vol, 2, true);
	assert_int_equal(get(&vol, &none, &node), -EUCLEAN);
	testvol_set_gone(&vol, one.addr, true);
	assert_int_equal(get(&vol, &one, &node), -EIO);
	assert_non_null(strstr(stet_error_text(), "gone"));
	assert_non_null(strstr(stet_error_text(), "(none)"));
	assert_int_equal(sim_fault_set(vol.fault, "read#1:eio"), 0);
	assert_readable(&vol, &two, 2);
	assert_int_equal(testvol_usage(&vol).healed, 1);
	stet_cache_forget(vol.cache, &two);
	assert_int_equal(sim_fault_set(vol.fault, "read#1+:eio"), 0);
	assert_int_equal(get(&vol, &two, &node), -EIO);
	assert_int_equal(sim_fault_set(vol.fault, ""), 0);
	assert_int_equal(testvol_usage(&vol).node_bytes, 0);
	testvol_close(&vol);
}

/* A pointer to the right place with another check, birth, tree or level does not get the node. */
static void test_wrong_pointer(void **state)
{
	struct testvol vol;
	struct stet_node_ptr ptr, wrong;
	struct stet_cnode *node, *pinned;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	ptr = write_leaf(&vol, 1, false);
	assert_int_equal(get(&vol, &ptr, &pinned), 0);
	wrong = ptr;
	wrong.check ^= 1;
	assert_int_equal(get(&vol, &wrong, &node), -EIO);
	wrong = ptr;
	wrong.birth++;
	assert_int_equal(get(&vol, &wrong, &node), -EIO);
	assert_int_equal(stet_cache_node(vol.cache, &ptr, STET_TREE_CATALOG, 0, &node), -EIO);
	assert_int_equal(stet_cache_node(vol.cache, &ptr, STET_TREE_RUN, 1, &node), -EIO);
	assert_readable(&vol, &ptr, 1);
	stet_cnode_unpin(pinned);
	testvol_close(&vol);
}

/* The address is used again for another node: the entry gives way to what is there now. */
static void test_address_reused(void **state)
{
	struct testvol vol;
	struct stet_node_ptr ptr, now;
	struct stet_cnode *pinned;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	ptr = write_leaf(&vol, 1, false);
	assert_int_equal(get(&vol, &ptr, &pinned), 0);
	vol.next_block -= STET_NODE_BLOCKS;
	now = write_leaf(&vol, 2, false);
	assert_int_equal(now.addr.v, ptr.addr.v);
	assert_readable(&vol, &now, 2);
	assert_int_equal(stet_node_count(stet_cnode_bytes(pinned)), 1); /* still ours */
	stet_cache_check(vol.cache);
	stet_cnode_unpin(pinned);
	assert_readable(&vol, &now, 2);
	testvol_close(&vol);
}

static struct stet_cnode *create_sealed(struct testvol *vol, uint64_t n, uint64_t *ret_check)
{
	struct stet_node_builder b;
	struct stet_cnode *node;

	assert_int_equal(stet_cnode_create(vol->cache, &node), 0);
	stet_node_begin(&b, stet_cnode_writable(node), STET_TREE_RUN, 0, &n, sizeof(n));
	stet_node_add(&b, &n, sizeof(n), NULL, 0, false);
	*ret_check = stet_node_seal(&b, TESTVOL_ID, BIRTH, NULL, 0, NULL, 0);
	return node;
}

static void test_publish(void **state)
{
	struct testvol vol;
	struct stet_node_ptr ptr = { .birth = BIRTH }, moved;
	struct stet_cnode *node, *same, *other;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	node = create_sealed(&vol, 9, &ptr.check);
	ptr.addr = testvol_place(&vol, STET_NODE_BLOCKS);
	assert_int_equal(stet_cnode_publish(node, &ptr), 0);
	assert_int_equal(get(&vol, &ptr, &same), 0); /* it was never written */
	assert_ptr_equal(same, node);
	stet_cnode_unpin(same);
	moved = ptr;
	moved.addr = testvol_place(&vol, STET_NODE_BLOCKS);
	assert_int_equal(stet_cnode_publish(node, &moved), 0);
	assert_int_equal(get(&vol, &moved, &same), 0);
	assert_ptr_equal(same, node);
	stet_cnode_unpin(same);
	assert_int_equal(get(&vol, &ptr, &other), -EIO);
	stet_cache_check(vol.cache);
	stet_cnode_unpin(node);
	stet_cache_forget(vol.cache, &moved);
	assert_int_equal(testvol_usage(&vol).node_bytes, 0);
	node = create_sealed(&vol, 9, &ptr.check); /* never published: gone with its pin */
	stet_cnode_unpin(stet_cnode_pin(node));
	stet_cnode_unpin(node);
	assert_int_equal(testvol_usage(&vol).node_bytes, 0);
	testvol_close(&vol);
}

/* Without memory: -ENOMEM, nothing lost, nothing counted. */
static void test_no_memory(void **state)
{
	struct testvol vol;
	struct stet_node_ptr ptr;
	struct stet_cnode *node;
	int rc = -ENOMEM;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	ptr = write_leaf(&vol, 1, true);
	for (int64_t n = 1; rc; n++) {
		stet_mem_fail_after(n);
		rc = get(&vol, &ptr, &node);
		stet_mem_fail_after(-1);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			assert_int_equal(testvol_usage(&vol).node_bytes, 0);
		}
	}
	stet_cnode_unpin(node);
	testvol_close(&vol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hit_and_miss),     cmocka_unit_test(test_flips),
		cmocka_unit_test(test_gone_and_failing), cmocka_unit_test(test_wrong_pointer),
		cmocka_unit_test(test_address_reused),   cmocka_unit_test(test_publish),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
