/* test_fill.c - planned reads, done without the volume's lock. */
#include "testvol.h"

#define BLOCKS 8u

struct fixture {
	struct testvol vol;
	struct stet_addr addr, addr2;
	uint8_t data[BLOCKS * STET_BLOCK_SIZE];
	uint8_t out[BLOCKS * STET_BLOCK_SIZE + 64];
	struct stet_read_piece piece;
};

static void open_fixture(struct fixture *f)
{
	struct stet_random random;

	testvol_open(&f->vol, 2, 1u << 20);
	stet_random_seed(&random, 11);
	stet_random_bytes(&random, f->data, sizeof(f->data));
	f->addr = testvol_place(&f->vol, BLOCKS);
	f->addr2 = testvol_place(&f->vol, BLOCKS);
	testvol_write(&f->vol, f->addr, f->data, BLOCKS);
	testvol_write(&f->vol, f->addr2, f->data, BLOCKS);
	memset(&f->piece, 0, sizeof(f->piece));
	f->piece.device_off = testvol_offset(f->addr);
	f->piece.device_off2 = testvol_offset(f->addr2);
	f->piece.block_count = BLOCKS;
	f->piece.out = f->out;
	for (uint32_t i = 0; i < BLOCKS; i++)
		f->piece.crc[i] = stet_crc32c(f->data + (size_t)i * STET_BLOCK_SIZE,
					      STET_BLOCK_SIZE);
}

static void assert_fills(struct fixture *f, uint32_t skip, uint32_t len)
{
	memset(f->out, 0xee, sizeof(f->out));
	f->piece.skip_bytes = skip;
	f->piece.len_bytes = len;
	assert_int_equal(stet_cache_fill(f->vol.device, &f->piece), 0);
	assert_memory_equal(f->out, f->data + skip, len);
	assert_int_equal(f->out[len], 0xee); /* not a byte more */
}

static void test_ranges(void **state)
{
	static struct fixture f;
	struct stet_random random;

	(void)state;
	open_fixture(&f);
	stet_random_seed(&random, 12);
	assert_fills(&f, 0, BLOCKS * STET_BLOCK_SIZE);
	for (int i = 0; i < 200; i++) {
		uint32_t skip = (uint32_t)stet_random_below(&random, sizeof(f.data));
		uint32_t len = (uint32_t)stet_random_below(&random, sizeof(f.data) - skip);

		assert_fills(&f, skip, len);
	}
	testvol_close(&f.vol);
}

static void test_copies(void **state)
{
	static struct fixture f;

	(void)state;
	open_fixture(&f);
	testvol_flip(&f.vol, f.addr, 2 * STET_BLOCK_SIZE * 8);
	testvol_flip(&f.vol, f.addr2, 3 * STET_BLOCK_SIZE * 8);
	assert_fills(&f, 100, 20000);
	assert_fills(&f, 0, BLOCKS * STET_BLOCK_SIZE);
	assert_int_equal(sim_fault_set(f.vol.fault, "read#1:eio"), 0);
	assert_fills(&f, 4096, 4096);
	assert_int_equal(sim_fault_set(f.vol.fault, ""), 0);
	testvol_flip(&f.vol, f.addr2, 2 * STET_BLOCK_SIZE * 8 + 1);
	assert_int_equal(stet_cache_fill(f.vol.device, &f.piece), -EIO);
	f.piece.device_off2 = UINT64_MAX;
	assert_int_equal(stet_cache_fill(f.vol.device, &f.piece), -EIO);
	testvol_close(&f.vol);
}

static void test_buffer_and_hole(void **state)
{
	static struct fixture f;
	struct stet_databuf *buf;
	uint8_t zero[300] = { 0 };

	(void)state;
	open_fixture(&f);
	assert_int_equal(stet_databuf_create(f.vol.cache, 2, &buf), 0);
	memcpy(buf->data, f.data, (size_t)2 * STET_BLOCK_SIZE);
	buf->frozen++;
	f.piece.buf = buf;
	f.piece.buf_offset_bytes = 4000;
	f.piece.len_bytes = 500;
	assert_int_equal(stet_cache_fill(f.vol.device, &f.piece), 0);
	assert_memory_equal(f.out, f.data + 4000, 500);
	buf->frozen--;
	stet_databuf_put(buf);
	f.piece.buf = NULL;
	f.piece.block_count = 0;
	f.piece.len_bytes = sizeof(zero);
	assert_int_equal(stet_cache_fill(f.vol.device, &f.piece), 0);
	assert_memory_equal(f.out, zero, sizeof(zero));
	testvol_close(&f.vol);
}

static void test_no_memory(void **state)
{
	static struct fixture f;

	(void)state;
	open_fixture(&f);
	f.piece.len_bytes = 5;
	stet_mem_fail_after(1);
	assert_int_equal(stet_cache_fill(f.vol.device, &f.piece), -ENOMEM);
	stet_mem_fail_after(-1);
	testvol_close(&f.vol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_buffer_and_hole),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
