/* test_block.c - data blocks through the cache and past it: verified, healed, bypassed. */
#include "testvol.h"

#define LIMIT (1u << 20)
#define BLOCKS 64u
#define RUN_BYTES ((size_t)BLOCKS * STET_BLOCK_SIZE)

struct run {
	struct stet_addr addr, addr2;
	uint8_t data[RUN_BYTES];
	uint8_t crcs[BLOCKS * 4];
};

static void write_run(struct testvol *vol, struct run *run, bool two, uint64_t seed)
{
	struct stet_random random;

	stet_random_seed(&random, seed);
	stet_random_bytes(&random, run->data, sizeof(run->data));
	for (uint32_t i = 0; i < BLOCKS; i++)
		stet_put_le32(run->crcs + 4 * (size_t)i,
			      stet_crc32c(run->data + (size_t)i * STET_BLOCK_SIZE,
					  STET_BLOCK_SIZE));
	run->addr = testvol_place(vol, BLOCKS);
	testvol_write(vol, run->addr, run->data, BLOCKS);
	run->addr2 = STET_ADDR_NONE;
	if (two) {
		run->addr2 = testvol_place(vol, BLOCKS);
		testvol_write(vol, run->addr2, run->data, BLOCKS);
	}
}

static int read_at(struct testvol *vol, const struct run *run, uint32_t first, uint16_t count,
		   uint8_t *out)
{
	struct stet_addr addr2 = run->addr2;

	if (!stet_addr_is_none(addr2))
		addr2 = stet_addr_add(addr2, first);
	return stet_cache_read(vol->cache, stet_addr_add(run->addr, first), addr2, count,
			       run->crcs + 4 * (size_t)first, out);
}

static void assert_reads(struct testvol *vol, const struct run *run, uint32_t first, uint16_t count)
{
	static uint8_t out[RUN_BYTES];

	memset(out, 0x5a, sizeof(out));
	assert_int_equal(read_at(vol, run, first, count, out), 0);
	assert_memory_equal(out, run->data + (size_t)first * STET_BLOCK_SIZE,
			    (size_t)count * STET_BLOCK_SIZE);
}

static void test_small_reads_are_kept(void **state)
{
	static struct run run;
	struct testvol vol;
	struct sim_fault_stats stats;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	write_run(&vol, &run, false, 1);
	assert_int_equal(sim_fault_set(vol.fault, ""), 0);
	assert_reads(&vol, &run, 3, 2);
	assert_reads(&vol, &run, 8, 1);
	assert_reads(&vol, &run, 0, 12); /* three gaps around what is there */
	assert_reads(&vol, &run, 0, 12);
	sim_fault_stats(vol.fault, &stats);
	assert_int_equal(stats.calls[SIM_CALL_READ], 5);
	assert_int_equal(testvol_usage(&vol).block_misses, 12);
	assert_int_equal(testvol_usage(&vol).block_hits, 15);
	testvol_close(&vol);
}

static void test_big_reads_pass_by(void **state)
{
	static struct run run;
	struct testvol vol;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	write_run(&vol, &run, false, 2);
	assert_reads(&vol, &run, 0, 16);
	assert_reads(&vol, &run, 0, 64);
	assert_int_equal(testvol_usage(&vol).block_bytes, 0);
	assert_reads(&vol, &run, 0, 15);
	assert_true(testvol_usage(&vol).block_bytes > UINT64_C(15) * STET_BLOCK_SIZE);
	testvol_close(&vol);
}

static void test_second_copy(void **state)
{
	static struct run run;
	struct testvol vol;
	uint8_t *out = malloc(RUN_BYTES);
	char where[64];

	(void)state;
	assert_non_null(out);
	for (uint16_t count = 8; count <= 64; count = (uint16_t)(count * 8)) {
		testvol_open(&vol, 2, LIMIT);
		vol.next_block += TESTVOL_SEG_BLOCKS - BLOCKS; /* copies in two segments */
		write_run(&vol, &run, true, count);
		testvol_flip(&vol, run.addr, 3 * STET_BLOCK_SIZE * 8 + 77);
		testvol_flip(&vol, run.addr2, 5 * STET_BLOCK_SIZE * 8 + 1);
		assert_reads(&vol, &run, 0, count);
		assert_int_equal(testvol_usage(&vol).healed, 1);
		testvol_drop_cache(&vol, LIMIT);
		testvol_flip(&vol, run.addr, 5 * STET_BLOCK_SIZE * 8 + 2);
		assert_int_equal(read_at(&vol, &run, 0, count, out), -EIO);
		(void)snprintf(where, sizeof(where),
			       "data block %llu:%u:", (unsigned long long)stet_addr_seg(run.addr),
			       stet_addr_block(run.addr) + 5);
		assert_non_null(strstr(stet_error_text(), where));
		testvol_flip(&vol, run.addr2, 5 * STET_BLOCK_SIZE * 8 + 1);
		testvol_set_gone(&vol, run.addr, true);
		assert_reads(&vol, &run, 0, count);
		testvol_set_gone(&vol, run.addr2, true);
		testvol_drop_cache(&vol, LIMIT);
		assert_int_equal(read_at(&vol, &run, 0, count, out), -EIO);
		testvol_close(&vol);
	}
	free(out);
}

/* One unreadable sector costs its neighbours nothing. */
static void test_read_error(void **state)
{
	static struct run run;
	struct testvol vol;
	uint8_t out[STET_BLOCK_SIZE];
	char script[96];
	uint64_t bad;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	write_run(&vol, &run, true, 4);
	bad = testvol_offset(run.addr) + UINT64_C(6) * STET_BLOCK_SIZE + 512;
	(void)snprintf(script, sizeof(script), "read@%llu-%llu:eio", (unsigned long long)bad,
		       (unsigned long long)bad + 512);
	assert_int_equal(sim_fault_set(vol.fault, script), 0);
	assert_reads(&vol, &run, 0, 20);
	assert_int_equal(testvol_usage(&vol).healed, 1);
	run.addr2 = STET_ADDR_NONE;
	assert_int_equal(read_at(&vol, &run, 6, 1, out), -EIO);
	assert_reads(&vol, &run, 7, 5);
	assert_reads(&vol, &run, 0, 6);
	testvol_close(&vol);
}

/* Another crc at a cached address: the entry gives way. */
static void test_address_reused(void **state)
{
	static struct run first, second;
	struct testvol vol;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	write_run(&vol, &first, false, 5);
	assert_reads(&vol, &first, 0, 4);
	vol.next_block -= BLOCKS;
	write_run(&vol, &second, false, 6);
	assert_int_equal(second.addr.v, first.addr.v);
	assert_reads(&vol, &second, 0, 4);
	assert_reads(&vol, &second, 0, 4);
	testvol_close(&vol);
}

/* Keeping is a favour: reads succeed without memory and without room. */
static void test_no_memory(void **state)
{
	static struct run run;
	struct testvol vol;

	(void)state;
	testvol_open(&vol, 1, LIMIT);
	write_run(&vol, &run, false, 7);
	for (int64_t n = 1; n < 12; n++) {
		stet_mem_fail_after(n);
		assert_reads(&vol, &run, (uint32_t)n * 4, 4);
		stet_mem_fail_after(-1);
		stet_cache_check(vol.cache);
	}
	testvol_drop_cache(&vol, 1000);
	assert_reads(&vol, &run, 0, 4);
	assert_int_equal(testvol_usage(&vol).block_bytes, 0);
	assert_int_equal(testvol_usage(&vol).over_limit, 0);
	testvol_close(&vol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_reads_are_kept),
		cmocka_unit_test(test_big_reads_pass_by),
		cmocka_unit_test(test_second_copy),
		cmocka_unit_test(test_read_error),
		cmocka_unit_test(test_address_reused),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
