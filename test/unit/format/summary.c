/* summary.c - partial segments: round trips, flips, hostile tables and records. */
#include "format/summary.h"

#include "base/crc.h"
#include "base/mem.h"
#include "format/key.h"
#include "format/segtable.h"
#include "format/value.h"

#include "format_test.h"

#define SEG_BLOCKS 1024u

struct fixture {
	struct stet_pseg pseg;
	struct stet_buf table;
	struct stet_buf records;
	uint8_t *summary; /* exact */
	uint32_t payload_count;
	uint32_t record_count;
};

static void add_record(struct fixture *f, struct stet_random *random)
{
	static const uint8_t bytes[STET_VALUE_MAX] = { 1, 2, 3 };
	uint8_t value[64] = { 0 };
	struct stet_key k;
	struct stet_run run = { .root = { .addr = stet_addr_make(5, 5) }, .item_count = 9 };
	struct stet_rec_segment seg = { .id = 7, .slot = 8, .kind = STET_SEGK_COLD };
	int rc = 0;

	stet_key_extent(&k, stet_random_below(random, 1000) + 1, stet_random_below(random, 1000));
	switch (stet_random_below(random, 6)) {
	case 0:
		rc = stet_record_append(&f->records, STET_REC_PUT, k.b, k.bytes, bytes,
					stet_random_below(random, 300));
		break;
	case 1:
		rc = stet_record_append(&f->records, STET_REC_DEL, k.b, k.bytes, NULL, 0);
		break;
	case 2:
		rc = stet_record_append(&f->records, STET_REC_PATCH, k.b, k.bytes, bytes,
					stet_random_below(random, 100) + STET_PATCH_HEADER_BYTES +
						1);
		break;
	case 3:
		stet_run_encode(&run, (struct stet_run_disk *)value);
		rc = stet_record_append(&f->records, STET_REC_RUN, NULL, 0, value,
					sizeof(struct stet_run_disk));
		break;
	case 4:
		stet_rec_segment_encode(&seg, (struct stet_rec_segment_disk *)value);
		rc = stet_record_append(&f->records, STET_REC_SEGMENT, NULL, 0, value,
					sizeof(struct stet_rec_segment_disk));
		break;
	default:
		rc = stet_record_append(&f->records, STET_REC_NEXT_INO, NULL, 0, bytes, 8);
		break;
	}
	assert_int_equal(rc, 0);
	f->record_count++;
}

static void add_payload(struct fixture *f, struct stet_random *random)
{
	uint32_t crcs[8];
	uint16_t n = (uint16_t)(stet_random_below(random, 8) + 1);

	for (uint32_t i = 0; i < n; i++)
		crcs[i] = f->pseg.payload_blocks + i;
	if (n % STET_NODE_BLOCKS == 0)
		assert_int_equal(stet_payload_append(&f->table, STET_PAYLOAD_NODE, 2, 3, crcs, n),
				 0);
	else
		assert_int_equal(stet_payload_append(&f->table, STET_PAYLOAD_DATA, 12,
						     f->pseg.payload_blocks, crcs, n),
				 0);
	f->pseg.payload_blocks = (uint16_t)(f->pseg.payload_blocks + n);
	f->payload_count++;
}

static void lay_out(struct fixture *f)
{
	size_t header = sizeof(struct stet_pseg_disk);

	f->pseg.table_bytes = (uint32_t)f->table.len;
	f->pseg.record_bytes = (uint32_t)f->records.len;
	f->pseg.summary_blocks = (uint16_t)stet_pseg_summary_blocks(f->table.len, f->records.len);
	f->summary = exact((size_t)f->pseg.summary_blocks * STET_BLOCK_SIZE);
	memset(f->summary, 0xaa, (size_t)f->pseg.summary_blocks * STET_BLOCK_SIZE);
	if (f->table.len > 0)
		memcpy(f->summary + header, f->table.p, f->table.len);
	if (f->records.len > 0)
		memcpy(f->summary + header + f->table.len, f->records.p, f->records.len);
	f->pseg.check = stet_pseg_seal(f->summary, &f->pseg, TEST_VOLUME);
}

static void setup(struct fixture *f, struct stet_random *random, uint32_t payloads,
		  uint32_t records)
{
	memset(f, 0, sizeof(*f));
	f->pseg = (struct stet_pseg){
		.serial = 1000,
		.prev_check = stet_random_next(random),
		.generation = 3,
		.durable = 990,
		.self = { stet_addr_make(9, 100), 4 },
		.next1 = { stet_addr_make(9, 300), 4 },
		.next2 = { stet_addr_make(10, 0), 6 },
		.batch = 55,
		.cut = 999,
		.wall_ns = -7,
		.kind = STET_PSEG_COMMIT,
	};
	for (uint32_t i = 0; i < payloads; i++)
		add_payload(f, random);
	for (uint32_t i = 0; i < records; i++)
		add_record(f, random);
	lay_out(f);
}

static void teardown(struct fixture *f)
{
	stet_buf_release(&f->table);
	stet_buf_release(&f->records);
	free(f->summary);
}

/* Decodes, verifies and, when all is well, uses everything. */
static int use(const uint8_t *summary, uint32_t have_blocks, uint32_t *ret_payloads,
	       uint32_t *ret_records)
{
	struct stet_text t = { .p = NULL };
	struct stet_payload payload;
	struct stet_log_record rec;
	struct stet_pseg pseg;
	uint32_t first = 0;
	uint32_t pos = 0;
	int rc;

	rc = stet_pseg_decode(summary, TEST_VOLUME, SEG_BLOCKS, &pseg);
	if (rc)
		return rc;
	if (pseg.summary_blocks > have_blocks)
		return -EUCLEAN; /* the reader's next read would show other blocks */
	rc = stet_pseg_verify(summary, &pseg);
	if (rc)
		return rc;
	for (*ret_payloads = 0; stet_payload_next(summary, &pseg, &pos, &first, &payload);
	     ++*ret_payloads) {
		assert_true(payload.first_block + payload.block_count <= pseg.payload_blocks);
		for (uint32_t i = 0; i < payload.block_count; i++)
			(void)stet_get_le32(payload.crcs + 4 * (size_t)i);
	}
	assert_int_equal(first, pseg.payload_blocks);
	pos = 0;
	for (*ret_records = 0; stet_record_next(summary, &pseg, &pos, &rec); ++*ret_records) {
		rc = stet_record_verify(&rec, SEG_BLOCKS);
		assert_true(rc == 0 || rc == -EUCLEAN);
		stet_record_print(&t, &rec);
		stet_text_clear(&t);
	}
	assert_int_equal(pos, pseg.record_bytes);
	stet_pseg_print(&t, &pseg);
	stet_text_release(&t);
	return 0;
}

static void round_trips(void **state)
{
	struct stet_random random;
	struct fixture f;

	(void)state;
	stet_random_seed(&random, 1);
	for (uint32_t i = 0; i < 200; i++) {
		struct stet_pseg back;
		uint32_t payloads;
		uint32_t records;
		uint8_t *again;
		size_t bytes;

		setup(&f, &random, i % 90, i * 3);
		bytes = (size_t)f.pseg.summary_blocks * STET_BLOCK_SIZE;
		assert_int_equal(stet_pseg_decode(f.summary, TEST_VOLUME, SEG_BLOCKS, &back), 0);
		again = exact(bytes);
		memcpy(again, f.summary, bytes);
		assert_true(stet_pseg_seal(again, &back, TEST_VOLUME) == f.pseg.check);
		assert_memory_equal(again, f.summary, bytes);
		assert_int_equal(back.wall_ns, -7);
		assert_int_equal(use(f.summary, f.pseg.summary_blocks, &payloads, &records), 0);
		assert_int_equal(payloads, f.payload_count);
		assert_int_equal(records, f.record_count);
		free(again);
		teardown(&f);
	}
}

static int verify(const uint8_t *summary, void *arg)
{
	const struct fixture *f = arg;
	uint32_t payloads;
	uint32_t records;

	return use(summary, f->pseg.summary_blocks, &payloads, &records);
}

static void every_flip_is_found(void **state)
{
	struct stet_random random;
	struct fixture f;

	(void)state;
	stet_random_seed(&random, 2);
	setup(&f, &random, 20, 60);
	assert_true(f.pseg.summary_blocks > 1);
	assert_flips_found(f.summary, (size_t)f.pseg.summary_blocks * STET_BLOCK_SIZE, verify, &f);
	teardown(&f);
}

static void fix_check(uint8_t *summary, size_t bytes)
{
	struct stet_pseg_disk *h = (struct stet_pseg_disk *)summary;

	h->check = le64_make(0);
	h->check = le64_make(stet_crc64(summary, bytes));
}

static void hostile_summaries_stay_in_bounds(void **state)
{
	struct stet_random random;
	struct fixture f;
	uint32_t accepted = 0;

	(void)state;
	stet_random_seed(&random, 3);
	for (uint32_t i = 0; i < 20000; i++) {
		size_t used;
		uint32_t payloads;
		uint32_t records;

		setup(&f, &random, i % 5, i % 7);
		used = sizeof(struct stet_pseg_disk) + f.table.len + f.records.len;
		for (uint64_t n = stet_random_below(&random, 2) + 1; n > 0; n--)
			mutate(&random, f.summary + 0x10,
			       stet_random_below(&random, 2) ? 0x80 : used - 0x10);
		/* Whatever size it claims: the check is right for what there is. */
		fix_check(f.summary, (size_t)f.pseg.summary_blocks * STET_BLOCK_SIZE);
		int rc = use(f.summary, f.pseg.summary_blocks, &payloads, &records);

		assert_true(rc == 0 || rc == -EUCLEAN);
		accepted += rc == 0;
		teardown(&f);
	}
	assert_true(accepted > 0);
}

static void field_limits(void **state)
{
	struct stet_random random;
	struct stet_pseg p;
	struct stet_pseg back;
	struct fixture f;

	(void)state;
	stet_random_seed(&random, 4);
	setup(&f, &random, 2, 2);
#define GIVES(rc, field, value)                                                                    \
	do {                                                                                       \
		p = f.pseg;                                                                        \
		p.field = value;                                                                   \
		stet_pseg_seal(f.summary, &p, TEST_VOLUME);                                        \
		assert_int_equal(stet_pseg_decode(f.summary, TEST_VOLUME, SEG_BLOCKS, &back), rc); \
	} while (0)
	GIVES(0, prev_check, 0);
	GIVES(-EUCLEAN, serial, 0);
	GIVES(-EUCLEAN, serial, 998); /* below the cut */
	GIVES(-EUCLEAN, durable, 1001);
	GIVES(-EUCLEAN, batch, 0);
	GIVES(-EUCLEAN, kind, (enum stet_pseg_kind)0);
	GIVES(-EUCLEAN, kind, (enum stet_pseg_kind)6);
	GIVES(-EUCLEAN, kind, STET_PSEG_RECORDS); /* with a cut */
	GIVES(-EUCLEAN, kind, STET_PSEG_PAYLOAD); /* with records */
	GIVES(-EUCLEAN, flags, STET_PSEG_OFF_CHAIN);
	GIVES(-EUCLEAN, flags, 2);
	GIVES(-EUCLEAN, self.addr, STET_ADDR_NONE);
	GIVES(-EUCLEAN, self.addr, stet_addr_make(9, SEG_BLOCKS));
	GIVES(-EUCLEAN, self.addr, stet_addr_make(9, SEG_BLOCKS - 1));
	GIVES(-EUCLEAN, self.slot, STET_SLOT_NONE);
	GIVES(-EUCLEAN, next1.addr, stet_addr_make(0, 1));
	GIVES(-EUCLEAN, next1.addr, stet_addr_make(3, SEG_BLOCKS));
	GIVES(-EUCLEAN, next2.slot, STET_SLOT_NONE);
	GIVES(0, next2.addr, STET_ADDR_NONE);
	GIVES(-EUCLEAN, payload_blocks, SEG_BLOCKS);
	GIVES(-EUCLEAN, payload_blocks, UINT16_MAX);
#undef GIVES
	stet_pseg_seal(f.summary, &f.pseg, TEST_VOLUME);
	assert_int_equal(stet_pseg_decode(f.summary, TEST_VOLUME + 1, SEG_BLOCKS, &back), -ENOENT);
	assert_int_equal(stet_pseg_decode(f.summary, TEST_VOLUME, 64, &back), -EUCLEAN);
	f.summary[0] ^= 1;
	assert_int_equal(stet_pseg_decode(f.summary, TEST_VOLUME, SEG_BLOCKS, &back), -ENOENT);
	teardown(&f);
}

static void areas_are_bounded_without_wrapping(void **state)
{
	struct stet_random random;
	struct stet_pseg_disk *h;
	struct stet_pseg back;
	struct fixture f;
	uint32_t payloads;
	uint32_t records;

	(void)state;
	stet_random_seed(&random, 5);
	setup(&f, &random, 2, 2);
	h = (struct stet_pseg_disk *)f.summary;
	h->table_bytes = le32_make(UINT32_MAX - 100);
	h->record_bytes = le32_make(200);
	assert_int_equal(stet_pseg_decode(f.summary, TEST_VOLUME, SEG_BLOCKS, &back), -EUCLEAN);
	/* The whole block taken by both areas, one byte moved from one to the other. */
	h->table_bytes = le32_make((uint32_t)f.table.len + 1);
	h->record_bytes = le32_make((uint32_t)f.records.len - 1);
	fix_check(f.summary, STET_BLOCK_SIZE);
	assert_int_equal(use(f.summary, 1, &payloads, &records), -EUCLEAN);
	h->table_bytes = le32_make((uint32_t)f.table.len);
	h->record_bytes = le32_make((uint32_t)(STET_BLOCK_SIZE - 0xc0 - f.table.len));
	fix_check(f.summary, STET_BLOCK_SIZE);
	assert_int_equal(use(f.summary, 1, &payloads, &records), -EUCLEAN);
	teardown(&f);
}

static void bytes_behind_the_table_are_refused(void **state)
{
	struct stet_random random;
	struct fixture f;
	uint32_t payloads;
	uint32_t records;

	(void)state;
	stet_random_seed(&random, 8);
	setup(&f, &random, 3, 0);
	assert_int_equal(use(f.summary, 1, &payloads, &records), 0);
	f.pseg.table_bytes += 8;
	stet_pseg_seal(f.summary, &f.pseg, TEST_VOLUME);
	assert_int_equal(use(f.summary, 1, &payloads, &records), -EUCLEAN);
	teardown(&f);
}

/* A block filled to its last byte, whose last record claims one byte more. */
static void last_record_is_not_read_past(void **state)
{
	static const uint8_t value[STET_BLOCK_SIZE] = { 0 };
	struct stet_random random;
	struct fixture f;
	uint32_t payloads;
	uint32_t records;
	size_t room = STET_BLOCK_SIZE - sizeof(struct stet_pseg_disk);

	(void)state;
	stet_random_seed(&random, 9);
	setup(&f, &random, 0, 0);
	free(f.summary);
	for (int i = 0; i < 2; i++) {
		size_t value_bytes = i == 0 ? 2000 : room - f.records.len - 9;

		assert_int_equal(stet_record_append(&f.records, STET_REC_PUT, "k", 1, value,
						    value_bytes),
				 0);
	}
	lay_out(&f);
	assert_int_equal(f.pseg.summary_blocks, 1);
	assert_int_equal(use(f.summary, 1, &payloads, &records), 0);
	assert_int_equal(records, 2);
	f.summary[sizeof(struct stet_pseg_disk) + 2009 + 4]++;
	fix_check(f.summary, STET_BLOCK_SIZE);
	assert_int_equal(use(f.summary, 1, &payloads, &records), -EUCLEAN);
	teardown(&f);
}

static void idle_and_off_chain(void **state)
{
	struct stet_random random;
	struct fixture f = { .pseg = { .serial = 5, .kind = STET_PSEG_IDLE } };
	uint32_t payloads;
	uint32_t records;

	(void)state;
	stet_random_seed(&random, 6);
	f.pseg.self = (struct stet_place){ stet_addr_make(1, 0), 0 };
	f.pseg.next2.slot = STET_SLOT_NONE; /* "none" is all zero on disk whatever the slot */
	lay_out(&f);
	assert_int_equal(f.pseg.summary_blocks, 1);
	assert_int_equal(use(f.summary, 1, &payloads, &records), 0);
	free(f.summary);
	add_payload(&f, &random);
	lay_out(&f);
	assert_int_equal(use(f.summary, 1, &payloads, &records), -EUCLEAN);
	free(f.summary);
	f.pseg.kind = STET_PSEG_PAYLOAD;
	f.pseg.flags = STET_PSEG_OFF_CHAIN;
	lay_out(&f);
	assert_int_equal(use(f.summary, 1, &payloads, &records), 0);
	assert_int_equal(payloads, 1);
	teardown(&f);
}

static int verify_one_payload(enum stet_payload_kind kind, uint64_t owner, uint64_t offset,
			      uint16_t blocks)
{
	static const uint32_t crcs[100] = { 0 };
	struct fixture f = { .pseg = { .serial = 5, .kind = STET_PSEG_PAYLOAD } };
	uint32_t payloads;
	uint32_t records;
	int rc;

	f.pseg.self = (struct stet_place){ stet_addr_make(1, 0), 0 };
	f.pseg.payload_blocks = blocks;
	assert_int_equal(stet_payload_append(&f.table, kind, owner, offset, crcs, blocks), 0);
	lay_out(&f);
	rc = use(f.summary, f.pseg.summary_blocks, &payloads, &records);
	teardown(&f);
	return rc;
}

static void payload_rules(void **state)
{
	(void)state;
	assert_int_equal(verify_one_payload(STET_PAYLOAD_DATA, 1, 0, 100), 0);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_DATA, 0, 0, 1), -EUCLEAN);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_DATA, 1, STET_FILE_BLOCKS_MAX - 9, 9), 0);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_DATA, 1, STET_FILE_BLOCKS_MAX - 9, 10),
			 -EUCLEAN);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_DATA, 1, UINT64_MAX, 1), -EUCLEAN);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_NODE, 1, 15, 8), 0);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_NODE, 1, 16, 8), -EUCLEAN);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_NODE, 1, 0, 5), -EUCLEAN);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_NODE, 3, 0, 4), -EUCLEAN);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_TABLE, 0, 9, 1), 0);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_TABLE, 1, 9, 1), -EUCLEAN);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_CKPT, 0, 9, 2), 0);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_XATTR, 5, 0, 16), 0);
	assert_int_equal(verify_one_payload(STET_PAYLOAD_XATTR, 5, 0, 65), -EUCLEAN);
	assert_int_equal(verify_one_payload((enum stet_payload_kind)6, 0, 0, 1), -EUCLEAN);
}

static int verify_one_record(uint8_t type, const struct stet_key *k, const void *value, size_t n)
{
	struct stet_log_record rec = {
		.type = (enum stet_record_type)type,
		.key = k ? k->b : NULL,
		.key_bytes = k ? k->bytes : 0,
		.value = value,
		.value_bytes = (uint32_t)n,
	};

	return stet_record_verify(&rec, 64);
}

static void patch_rules(void **state)
{
	uint8_t v[STET_PATCH_VALUE_MAX + 1] = { 0 };
	struct stet_key extent;
	struct stet_key name;

	(void)state;
	stet_key_extent(&extent, 3, 4);
	stet_key_dirent(&name, 3, "x", 1);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &name, v, 20), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 16), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 16 + 4096), 0);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 16 + 4097), -EUCLEAN);
	stet_put_le32(v + 12, 4095);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 17), 0);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 18), -EUCLEAN);
	stet_put_le32(v + 12, UINT32_MAX);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 18), -EUCLEAN);
	stet_put_le32(v + 12, 0);
	stet_put_le64(v, STET_PATCH_BASE_HOLE);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 18), 0);
	stet_put_le64(v, 2); /* no address has id 0 */
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 18), -EUCLEAN);
	stet_put_le64(v, stet_addr_make(1, 63).v);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 18), 0);
	stet_put_le64(v, stet_addr_make(1, 64).v);
	assert_int_equal(verify_one_record(STET_REC_PATCH, &extent, v, 18), -EUCLEAN);
}

static void record_rules(void **state)
{
	uint8_t v[STET_PATCH_VALUE_MAX + 1] = { 0 };
	struct stet_dirent dirent = { .ino = 4, .type = 8 };
	struct stet_key name;

	(void)state;
	stet_key_dirent(&name, 3, "x", 1);
	assert_int_equal(verify_one_record(STET_REC_PUT, &name, v, stet_dirent_encode(&dirent, v)),
			 0);
	assert_int_equal(verify_one_record(STET_REC_PUT, &name, v, 8), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_PUT, NULL, v, 9), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_DEL, &name, v, 0), 0);
	assert_int_equal(verify_one_record(STET_REC_DEL, &name, v, 1), -EUCLEAN);
	v[0] = 1;
	assert_int_equal(verify_one_record(STET_REC_NEXT_INO, NULL, v, 8), 0);
	assert_int_equal(verify_one_record(STET_REC_NEXT_INO, NULL, v, 7), -EUCLEAN);
	memset(v, 0, sizeof(v));
	assert_int_equal(verify_one_record(STET_REC_NEXT_INO, NULL, v, 8), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_SEGMENT, NULL, v, 13), -EUCLEAN);
	v[0] = 1;
	assert_int_equal(verify_one_record(STET_REC_SEGMENT, NULL, v, 13), 0);
	v[12] = STET_SEGK_COUNT;
	assert_int_equal(verify_one_record(STET_REC_SEGMENT, NULL, v, 13), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_RUN, NULL, v, 64), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_DELETE_RANGE, &name, v, 10), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_SNAPSHOT, &name, v, 10), -EUCLEAN);
	assert_int_equal(verify_one_record(STET_REC_PREPARED, &name, v, 10), -EUCLEAN);
	assert_int_equal(verify_one_record(0, &name, v, 10), -EUCLEAN);
	assert_int_equal(verify_one_record(255, &name, v, 10), -EUCLEAN);
}

static void run_round_trip(void **state)
{
	struct stet_run run = {
		.root = { stet_addr_make(4, 4092), stet_addr_make(5, 0), 0, 77 },
		.root_level = 15,
		.serial = 12,
		.commit_ns = -1,
		.item_count = 3,
	};
	struct stet_run_disk disk;
	struct stet_run back;

	(void)state;
	stet_run_encode(&run, &disk);
	assert_int_equal(stet_run_decode(&disk, sizeof(disk), &back), 0);
	assert_memory_equal(&back.root, &run.root, sizeof(run.root));
	assert_true(back.serial == 12 && back.commit_ns == -1 && back.item_count == 3);
	assert_int_equal(stet_run_decode(&disk, sizeof(disk) - 1, &back), -EUCLEAN);
	disk.root_level = le32_make(16);
	assert_int_equal(stet_run_decode(&disk, sizeof(disk), &back), -EUCLEAN);
	run.root.addr = stet_addr_make(4, 4093);
	stet_run_encode(&run, &disk);
	assert_int_equal(stet_run_decode(&disk, sizeof(disk), &back), -EUCLEAN);
	run.root.addr = stet_addr_make(4, 0);
	run.item_count = 0;
	stet_run_encode(&run, &disk);
	assert_int_equal(stet_run_decode(&disk, sizeof(disk), &back), -EUCLEAN);
}

static void no_memory_changes_nothing(void **state)
{
	struct stet_buf buf = { .p = NULL };
	uint32_t crc = 5;

	(void)state;
	stet_mem_fail_after(1);
	assert_int_equal(stet_payload_append(&buf, STET_PAYLOAD_DATA, 1, 0, &crc, 1), -ENOMEM);
	assert_int_equal(stet_record_append(&buf, STET_REC_DEL, "k", 1, NULL, 0), -ENOMEM);
	assert_int_equal(buf.len, 0);
	stet_mem_fail_after(-1);
	stet_buf_release(&buf);
}

static void summary_block_boundaries(void **state)
{
	(void)state;
	assert_int_equal(stet_pseg_summary_blocks(0, 0), 1);
	assert_int_equal(stet_pseg_summary_blocks(4096 - 0xc0, 0), 1);
	assert_int_equal(stet_pseg_summary_blocks(4096 - 0xc0, 1), 2);
	assert_int_equal(stet_pseg_summary_blocks(1, 2 * 4096 - 0xc0 - 1), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trips),
		cmocka_unit_test(every_flip_is_found),
		cmocka_unit_test(hostile_summaries_stay_in_bounds),
		cmocka_unit_test(field_limits),
		cmocka_unit_test(areas_are_bounded_without_wrapping),
		cmocka_unit_test(bytes_behind_the_table_are_refused),
		cmocka_unit_test(last_record_is_not_read_past),
		cmocka_unit_test(idle_and_off_chain),
		cmocka_unit_test(payload_rules),
		cmocka_unit_test(patch_rules),
		cmocka_unit_test(record_rules),
		cmocka_unit_test(run_round_trip),
		cmocka_unit_test(no_memory_changes_nothing),
		cmocka_unit_test(summary_block_boundaries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
