/* test_limit.c - buffers, charges and the one limit. */
#include "testvol.h"

static void place_all(struct testvol *vol, struct stet_databuf *buf)
{
	struct stet_addr addr = testvol_place(vol, buf->block_count);

	for (uint16_t i = 0; i < buf->block_count; i++)
		buf->addr[i] = stet_addr_add(addr, i);
}

static void test_buffer_life(void **state)
{
	struct testvol vol;
	struct stet_databuf *buf;
	uint64_t full, small;

	(void)state;
	testvol_open(&vol, 2, 100000);
	assert_int_equal(stet_databuf_create(vol.cache, 4, &buf), 0);
	assert_non_null(buf->addr2);
	assert_int_equal((uintptr_t)buf->data % STET_BLOCK_SIZE, 0);
	for (size_t i = 0; i < (size_t)4 * STET_BLOCK_SIZE; i++)
		assert_int_equal(buf->data[i], 0);
	full = testvol_usage(&vol).buffer_bytes;
	assert_true(full > UINT64_C(4) * STET_BLOCK_SIZE);
	stet_cache_charge(vol.cache, 95000); /* dirty: it stays, and that is counted */
	assert_int_equal(testvol_usage(&vol).over_limit, 1);
	assert_non_null(buf->data);
	assert_false(stet_databuf_placed(buf, 0, 4));
	place_all(&vol, buf);
	assert_true(stet_databuf_placed(buf, 1, 3));
	stet_databuf_clean(buf);
	stet_databuf_clean(buf); /* once is enough */
	buf->frozen++;
	stet_cache_charge(vol.cache, 1);
	assert_non_null(buf->data);
	buf->frozen--;
	stet_cache_charge(vol.cache, 1);
	assert_null(buf->data);
	assert_false(stet_addr_is_none(buf->addr[3]));
	small = testvol_usage(&vol).buffer_bytes;
	assert_int_equal(full - small, UINT64_C(4) * STET_BLOCK_SIZE);
	stet_databuf_put(stet_databuf_get(buf));
	stet_databuf_put(buf);
	stet_databuf_put(NULL);
	assert_int_equal(testvol_usage(&vol).buffer_bytes, 0);
	stet_cache_charge(vol.cache, -95002);
	testvol_close(&vol);
}

static void test_stub(void **state)
{
	struct testvol vol;
	struct stet_databuf *buf;
	uint8_t crcs[12] = { 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0 };

	(void)state;
	testvol_open(&vol, 1, 100000);
	assert_int_equal(stet_databuf_stub(vol.cache, stet_addr_make(5, 6), STET_ADDR_NONE, 3, crcs,
					   &buf),
			 0);
	assert_null(buf->data);
	assert_null(buf->addr2);
	assert_true(stet_databuf_placed(buf, 0, 3));
	assert_int_equal(buf->addr[2].v, stet_addr_make(5, 8).v);
	assert_int_equal(buf->crc[2], 3);
	stet_databuf_clean(buf); /* nothing to give back */
	stet_databuf_put(buf);
	assert_int_equal(stet_databuf_stub(vol.cache, stet_addr_make(5, 6), stet_addr_make(7, 1), 3,
					   crcs, &buf),
			 0);
	assert_int_equal(buf->addr2[2].v, stet_addr_make(7, 3).v);
	stet_databuf_put(buf);
	for (int64_t n = 1; n <= 2; n++) {
		stet_mem_fail_after(n);
		assert_int_equal(stet_databuf_create(vol.cache, 3, &buf), -ENOMEM);
	}
	stet_mem_fail_after(1);
	assert_int_equal(stet_databuf_stub(vol.cache, stet_addr_make(5, 6), STET_ADDR_NONE, 3, crcs,
					   &buf),
			 -ENOMEM);
	stet_mem_fail_after(-1);
	testvol_close(&vol);
}

static struct stet_node_ptr write_leaf(struct testvol *vol, uint64_t n)
{
	static uint8_t bytes[STET_NODE_SIZE];
	struct stet_node_builder b;
	struct stet_node_ptr ptr = { .birth = 1 };

	stet_node_begin(&b, bytes, STET_TREE_RUN, 0, &n, sizeof(n));
	stet_node_add(&b, &n, sizeof(n), NULL, 0, false);
	ptr.check = stet_node_seal(&b, TESTVOL_ID, 1, NULL, 0, NULL, 0);
	ptr.addr = testvol_place(vol, STET_NODE_BLOCKS);
	testvol_write(vol, ptr.addr, bytes, STET_NODE_BLOCKS);
	return ptr;
}

#define NODES 200u

static void touch_node(struct testvol *vol, const struct stet_node_ptr *ptr)
{
	struct stet_cnode *node;

	assert_int_equal(stet_cache_node(vol->cache, ptr, STET_TREE_RUN, 0, &node), 0);
	stet_cnode_unpin(node);
}

/* Nodes, blocks, clean buffers and charges in any mixture stay below the limit. */
static void test_mixed_load(void **state)
{
	enum { LIMIT = 40 * 17000, BUFS = 100 };
	static struct stet_node_ptr ptr[NODES];
	struct stet_databuf *buf[BUFS] = { NULL };
	struct testvol vol;
	struct stet_random random;
	uint8_t block[STET_BLOCK_SIZE] = { 1 }, crc[4], out[STET_BLOCK_SIZE];

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	stet_random_seed(&random, 8);
	for (uint32_t i = 0; i < NODES; i++)
		ptr[i] = write_leaf(&vol, i);
	stet_put_le32(crc, stet_crc32c(block, sizeof(block)));
	for (int i = 0; i < 3000; i++) {
		uint64_t r = stet_random_below(&random, 4);
		struct stet_databuf **b = &buf[stet_random_below(&random, BUFS)];
		struct stet_addr addr;

		if (r <= 1) {
			touch_node(&vol, &ptr[stet_random_below(&random, NODES)]);
		} else if (r == 2) {
			addr = testvol_place(&vol, 1);
			testvol_write(&vol, addr, block, 1);
			assert_int_equal(
				stet_cache_read(vol.cache, addr, STET_ADDR_NONE, 1, crc, out), 0);
		} else {
			stet_databuf_put(*b);
			assert_int_equal(stet_databuf_create(vol.cache, 5, b), 0);
			place_all(&vol, *b);
			stet_databuf_clean(*b);
		}
		assert_true(testvol_usage(&vol).used_bytes <= LIMIT);
	}
	stet_cache_check(vol.cache);
	assert_true(testvol_usage(&vol).evictions > 1000);
	assert_int_equal(testvol_usage(&vol).over_limit, 0);
	for (int i = 0; i < BUFS; i++)
		stet_databuf_put(buf[i]);
	testvol_close(&vol);
}

/* What is used again stays while others pass by. */
static void test_second_chance(void **state)
{
	static struct stet_node_ptr ptr[NODES];
	struct testvol vol;
	uint64_t misses;

	(void)state;
	testvol_open(&vol, 1, 340000);
	for (uint32_t i = 0; i < NODES; i++)
		ptr[i] = write_leaf(&vol, i);
	touch_node(&vol, &ptr[0]);
	for (uint32_t i = 1; i < NODES; i++) {
		touch_node(&vol, &ptr[i]);
		touch_node(&vol, &ptr[0]);
	}
	misses = testvol_usage(&vol).node_misses;
	assert_int_equal(misses, NODES);
	testvol_close(&vol);
}

/* Everything pinned: the limit is passed and counted; unpinned, all fits again. */
static void test_all_pinned(void **state)
{
	enum { LIMIT = 10 * 17000 };
	struct stet_cnode *pinned[NODES];
	struct testvol vol;
	struct stet_text text;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	for (uint32_t i = 0; i < NODES; i++) {
		struct stet_node_ptr ptr = write_leaf(&vol, i);

		assert_int_equal(stet_cache_node(vol.cache, &ptr, STET_TREE_RUN, 0, &pinned[i]), 0);
	}
	assert_true(testvol_usage(&vol).used_bytes > LIMIT);
	assert_true(testvol_usage(&vol).over_limit > 0);
	stet_cache_check(vol.cache);
	for (uint32_t i = 0; i < NODES; i++)
		stet_cnode_unpin(pinned[i]);
	assert_true(testvol_usage(&vol).used_bytes <= LIMIT);
	stet_text_init(&text);
	stet_cache_usage_print(&text, &(struct stet_cache_usage){ .over_limit = 3 });
	assert_non_null(strstr(stet_text_cstr(&text), "over_limit=3"));
	stet_text_release(&text);
	testvol_close(&vol);
}

static void test_no_memory_to_create(void **state)
{
	struct testvol vol;
	struct stet_cache *cache;

	(void)state;
	testvol_open(&vol, 1, 1000);
	stet_mem_fail_after(1);
	assert_int_equal(stet_cache_create(vol.device, vol.space, &vol.sb, 1000, &cache), -ENOMEM);
	stet_mem_fail_after(-1);
	stet_cache_destroy(NULL);
	testvol_close(&vol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buffer_life), cmocka_unit_test(test_stub),
		cmocka_unit_test(test_mixed_load),  cmocka_unit_test(test_second_chance),
		cmocka_unit_test(test_all_pinned),  cmocka_unit_test(test_no_memory_to_create),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
