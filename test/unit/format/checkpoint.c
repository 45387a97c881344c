/* checkpoint.c - checkpoint slots and records. */
#include "format/checkpoint.h"

#include "base/crc.h"

#include "format_test.h"

static struct stet_place random_place(struct stet_random *random)
{
	return (struct stet_place){
		.addr = stet_addr_make(stet_random_below(random, STET_SEG_ID_MAX) + 1,
				       (uint32_t)stet_random_below(random, 64)),
		.slot = (uint32_t)stet_random_below(random, STET_SLOT_NONE),
	};
}

static struct stet_ckpt_slot random_slot(struct stet_random *random)
{
	return (struct stet_ckpt_slot){
		.sequence = stet_random_next(random) | 1,
		.cut = stet_random_next(random),
		.record = random_place(random),
		.record_bytes = 256 + 16 * (uint32_t)stet_random_below(random, 5000),
		.record_check = stet_random_next(random),
	};
}

static void slot_round_trips(void **state)
{
	struct stet_ckpt_slot_disk disk;
	struct stet_ckpt_slot back;
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 1);
	for (int i = 0; i < 1000; i++) {
		struct stet_ckpt_slot slot = random_slot(&random);

		memset(&disk, 0xaa, sizeof(disk));
		stet_ckpt_slot_encode(&slot, TEST_VOLUME, &disk);
		assert_int_equal(stet_ckpt_slot_decode(&disk, TEST_VOLUME, &back), 0);
		assert_true(back.sequence == slot.sequence && back.cut == slot.cut);
		assert_true(back.record.addr.v == slot.record.addr.v);
		assert_true(back.record.slot == slot.record.slot);
		assert_true(back.record_bytes == slot.record_bytes);
		assert_true(back.record_check == slot.record_check);
	}
}

static int decode_slot(const uint8_t *buf, void *arg)
{
	struct stet_ckpt_slot slot;

	(void)arg;
	return stet_ckpt_slot_decode((const struct stet_ckpt_slot_disk *)buf, TEST_VOLUME, &slot);
}

static void slot_flips_are_found(void **state)
{
	struct stet_ckpt_slot_disk disk;
	struct stet_ckpt_slot slot;
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 2);
	slot = random_slot(&random);
	stet_ckpt_slot_encode(&slot, TEST_VOLUME, &disk);
	assert_flips_found((uint8_t *)&disk, sizeof(disk), decode_slot, NULL);
}

static void slot_limits(void **state)
{
	struct stet_ckpt_slot_disk disk;
	struct stet_ckpt_slot slot;
	struct stet_random random;

	(void)state;
	memset(&disk, 0, sizeof(disk));
	assert_int_equal(stet_ckpt_slot_decode(&disk, TEST_VOLUME, &slot), -ENOENT);
	disk.reserved[100] = 1;
	assert_int_equal(stet_ckpt_slot_decode(&disk, TEST_VOLUME, &slot), -EUCLEAN);
	stet_random_seed(&random, 3);
	struct stet_ckpt_slot good = random_slot(&random);

	good.record_bytes = 8192; /* two blocks */

#define REFUSED(field, value)                                                                 \
	do {                                                                                  \
		slot = good;                                                                  \
		slot.field = value;                                                           \
		stet_ckpt_slot_encode(&slot, TEST_VOLUME, &disk);                             \
		assert_int_equal(stet_ckpt_slot_decode(&disk, TEST_VOLUME, &slot), -EUCLEAN); \
	} while (0)
	REFUSED(sequence, 0);
	REFUSED(record.addr, STET_ADDR_NONE);
	REFUSED(record.addr, stet_addr_make(0, 5));
	REFUSED(record.addr, stet_addr_make(1, 4095));
	REFUSED(record.slot, STET_SLOT_NONE);
	REFUSED(record_bytes, 0);
	REFUSED(record_bytes, 255);
	REFUSED(record_bytes, 257);
	REFUSED(record_bytes, UINT32_MAX);
#undef REFUSED
	stet_ckpt_slot_encode(&good, TEST_VOLUME + 1, &disk);
	assert_int_equal(stet_ckpt_slot_decode(&disk, TEST_VOLUME, &slot), -EUCLEAN);
}

static struct stet_ckpt_record random_record(struct stet_random *random, uint32_t page_count)
{
	return (struct stet_ckpt_record){
		.sequence = stet_random_next(random) | 1,
		.cut = stet_random_next(random),
		.generation = stet_random_next(random),
		.wall_ns = (int64_t)stet_random_next(random),
		.root = { random_place(random).addr, random_place(random).addr,
			  stet_random_next(random), stet_random_next(random) },
		.root_level = (uint32_t)stet_random_below(random, 16),
		.page_count = page_count,
		.chain_next1 = random_place(random),
		.chain_next2 = random_place(random),
		.chain_check = stet_random_next(random),
		.chain_serial = stet_random_next(random),
		.next_ino = (stet_random_next(random) >> 1) + 1000000,
		.next_seg_id = stet_random_below(random, STET_SEG_ID_MAX) + 1,
		.inode_count = stet_random_below(random, 1000000),
		.data_blocks = stet_random_below(random, STET_DEVICE_BLOCKS_MAX),
		.node_blocks = stet_random_below(random, STET_DEVICE_BLOCKS_MAX),
		.prev_record = random_place(random),
		.prev_bytes = 256,
		.prev_check = stet_random_next(random),
	};
}

/* Encodes with random pages into exact memory, which the caller frees. */
static uint8_t *encode(struct stet_random *random, const struct stet_ckpt_record *rec,
		       struct stet_table_ptr *pages)
{
	uint8_t *p = exact(stet_ckpt_record_bytes(rec->page_count));

	for (uint32_t i = 0; i < rec->page_count; i++) {
		struct stet_place place = random_place(random);

		pages[i].addr = place.addr;
		pages[i].slot = place.slot;
		pages[i].crc = (uint32_t)stet_random_next(random);
	}
	memset(p, 0xaa, stet_ckpt_record_bytes(rec->page_count));
	stet_ckpt_record_encode(rec, TEST_VOLUME, pages, p);
	return p;
}

static void record_round_trips(void **state)
{
	static struct stet_table_ptr pages[300];
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 4);
	for (uint32_t i = 0; i < 300; i++) {
		struct stet_ckpt_record rec = random_record(&random, i);
		struct stet_ckpt_record back;
		uint8_t *p = encode(&random, &rec, pages);
		uint8_t *again = exact(stet_ckpt_record_bytes(i));

		assert_int_equal(stet_ckpt_record_decode(p, stet_ckpt_record_bytes(i), TEST_VOLUME,
							 &back),
				 0);
		assert_memory_equal(&back.root, &rec.root, sizeof(back.root));
		assert_int_equal(back.wall_ns, rec.wall_ns);
		assert_true(back.next_ino == rec.next_ino);
		stet_ckpt_record_encode(&back, TEST_VOLUME, pages, again);
		assert_memory_equal(p, again, stet_ckpt_record_bytes(i));
		for (uint32_t n = 0; n < i; n++) {
			struct stet_table_ptr ptr = stet_ckpt_record_page(p, n);

			assert_true(ptr.addr.v == pages[n].addr.v);
			assert_int_equal(ptr.slot, pages[n].slot);
			assert_int_equal(ptr.crc, pages[n].crc);
		}
		free(p);
		free(again);
	}
}

struct check {
	size_t bytes;
	uint64_t check;
};

/* As a reader does: the check that the slot names first. */
static int verify_record(const uint8_t *buf, void *arg)
{
	struct check *c = arg;
	struct stet_ckpt_record rec;

	if (stet_crc64(buf, c->bytes) != c->check)
		return -EUCLEAN;
	return stet_ckpt_record_decode(buf, c->bytes, TEST_VOLUME, &rec);
}

static void record_flips_are_found(void **state)
{
	static struct stet_table_ptr pages[20];
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 5);
	struct stet_ckpt_record rec = random_record(&random, 20);
	uint8_t *p = encode(&random, &rec, pages);
	struct check c = { .bytes = stet_ckpt_record_bytes(20) };

	c.check = stet_crc64(p, c.bytes);
	assert_flips_found(p, c.bytes, verify_record, &c);
	free(p);
}

static void record_limits(void **state)
{
	struct stet_table_ptr page = { stet_addr_make(9, 9), 9, 9 };
	uint8_t *p = exact(stet_ckpt_record_bytes(1));
	struct stet_ckpt_record rec;
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 6);
	const struct stet_ckpt_record good = random_record(&random, 1);

#define GIVES(rc, field, value)                                                        \
	do {                                                                           \
		rec = good;                                                            \
		rec.field = value;                                                     \
		stet_ckpt_record_encode(&rec, TEST_VOLUME, &page, p);                  \
		assert_int_equal(stet_ckpt_record_decode(p, stet_ckpt_record_bytes(1), \
							 TEST_VOLUME, &rec),           \
				 rc);                                                  \
	} while (0)
	GIVES(0, cut, 0);
	GIVES(-EUCLEAN, sequence, 0);
	GIVES(-EUCLEAN, root_level, 16);
	GIVES(-EUCLEAN, root.addr, STET_ADDR_NONE); /* with a level, check and birth */
	GIVES(-EUCLEAN, root.addr, good.root.addr2);
	GIVES(-EUCLEAN, root.addr, stet_addr_make(1, 4093));
	GIVES(-EUCLEAN, root.addr2, stet_addr_make(0, 1));
	GIVES(0, root.addr2, STET_ADDR_NONE);
	GIVES(0, chain_next1.addr, STET_ADDR_NONE);
	GIVES(0, chain_next2.addr, STET_ADDR_NONE);
	GIVES(-EUCLEAN, chain_next1.slot, STET_SLOT_NONE);
	GIVES(-EUCLEAN, next_ino, 0);
	GIVES(-EUCLEAN, inode_count, UINT64_MAX);
	GIVES(-EUCLEAN, next_seg_id, 0);
	GIVES(-EUCLEAN, next_seg_id, STET_SEG_ID_MAX + 1);
	GIVES(-EUCLEAN, data_blocks, UINT64_MAX);
	GIVES(-EUCLEAN, node_blocks, UINT64_MAX);
	GIVES(-EUCLEAN, prev_bytes, 0);
	GIVES(-EUCLEAN, prev_bytes, 300);
	GIVES(-EUCLEAN, prev_record.addr, STET_ADDR_NONE); /* with bytes and a check */
	page.addr = STET_ADDR_NONE;
	GIVES(-EUCLEAN, cut, 0);
	page = (struct stet_table_ptr){ stet_addr_make(9, 9), STET_SLOT_NONE, 9 };
	GIVES(-EUCLEAN, cut, 0);
#undef GIVES
	free(p);
}

static void first_record_of_a_volume(void **state)
{
	struct stet_ckpt_record rec = {
		.sequence = 1,
		.chain_next1 = { stet_addr_make(1, 0), 0 },
		.chain_next2 = { STET_ADDR_NONE, STET_SLOT_NONE },
		.prev_record = { STET_ADDR_NONE, STET_SLOT_NONE },
		.next_ino = 1,
		.next_seg_id = 2,
	};
	struct stet_text t = { .p = NULL };
	uint8_t *p = exact(256);

	(void)state;
	stet_ckpt_record_encode(&rec, TEST_VOLUME, NULL, p);
	assert_int_equal(stet_ckpt_record_decode(p, 256, TEST_VOLUME, &rec), 0);
	assert_true(stet_addr_is_none(rec.root.addr));
	stet_ckpt_record_print(&t, &rec);
	assert_prints(&t, "root none level 0");
	for (size_t n = 0; n < 256; n++) /* never a byte beyond what is there */
		assert_int_equal(stet_ckpt_record_decode(p, n, TEST_VOLUME, &rec), -EUCLEAN);
	assert_int_equal(stet_ckpt_record_decode(p, 272, TEST_VOLUME, &rec), -EUCLEAN);
	free(p);
}

static void hostile_records_stay_in_bounds(void **state)
{
	static struct stet_table_ptr pages[40];
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 7);
	for (int i = 0; i < 20000; i++) {
		struct stet_ckpt_record rec = random_record(&random, (uint32_t)i % 40);
		size_t bytes = stet_ckpt_record_bytes(rec.page_count);
		struct stet_text t = { .p = NULL };
		uint8_t *p = encode(&random, &rec, pages);

		mutate(&random, p, bytes);
		if (stet_ckpt_record_decode(p, bytes, TEST_VOLUME, &rec) == 0) {
			for (uint32_t n = 0; n < rec.page_count; n++)
				assert_true(stet_ckpt_record_page(p, n).addr.v != 0);
			stet_ckpt_record_print(&t, &rec);
			stet_text_release(&t);
		}
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slot_round_trips),
		cmocka_unit_test(slot_flips_are_found),
		cmocka_unit_test(slot_limits),
		cmocka_unit_test(record_round_trips),
		cmocka_unit_test(record_flips_are_found),
		cmocka_unit_test(record_limits),
		cmocka_unit_test(first_record_of_a_volume),
		cmocka_unit_test(hostile_records_stay_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
