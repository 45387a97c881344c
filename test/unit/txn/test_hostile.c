/* test_hostile.c - volumes whose checksums are right and whose content is not: opening refuses them, or goes on
 * around what cannot be used; it never trusts them.
 *
 * Records are put into the log past the engine; slots and summaries are rewritten with their own encoders.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/endian.h"
#include "device/device.h"
#include "sim/clock.h"
#include "txn/engine.h"
#include "txn/txn.h"

#define VOLUME_BYTES (UINT64_C(64) << 20)
#define SEG_BLOCKS 64u

struct unit {
	struct stet_device *device;
	struct stet_superblock sb;
	struct sim_clock clock;
	struct stet_engine_config config;
	struct stet_engine *engine;
};

static bool same_value(void *arg, const struct stet_key *key, uint32_t mask,
		       const struct stet_val *a, const struct stet_val *b)
{
	(void)arg;
	(void)key;
	(void)mask;
	return (!a && !b) || (a && b && a->bytes == b->bytes && !memcmp(a->b, b->b, a->bytes));
}

static const struct stet_engine_hooks hooks = { .same = same_value };

static void record_key(struct stet_key *key, uint32_t i)
{
	char name[16];

	snprintf(name, sizeof(name), "%06u", i);
	stet_key_record(key, 2, name, strlen(name));
}

static int fill(void *arg, struct stet_txn *txn)
{
	struct stet_key key;

	(void)arg;
	record_key(&key, 0);
	return stet_txn_put(txn, &key, "\0first", 6);
}

static int reopen(struct unit *u, bool read_only)
{
	stet_engine_close(u->engine);
	u->engine = NULL;
	u->config.read_only = read_only;
	return stet_engine_open(u->device, &u->config, &hooks, &u->engine);
}

static void start(struct unit *u, uint64_t ro_compat)
{
	*u = (struct unit){ .sb = { .volume_id = 77,
				    .device_blocks = VOLUME_BYTES / STET_BLOCK_SIZE,
				    .seg_start_block = STET_HEAD_BLOCKS,
				    .seg_blocks = SEG_BLOCKS,
				    .feature_ro_compat = ro_compat,
				    .meta_copies = 2,
				    .data_copies = 1 } };
	u->sb.slot_count = (uint32_t)((u->sb.device_blocks - 1 - STET_HEAD_BLOCKS) / SEG_BLOCKS);
	assert_int_equal(stet_device_open_memory(VOLUME_BYTES, &u->device), 0);
	sim_clock_init(&u->clock, INT64_C(1700000000000000000));
	u->config = (struct stet_engine_config){ .cache_bytes = 4 << 20,
						 .seed = 1,
						 .clock = &u->clock.clock };
	assert_int_equal(stet_engine_format(u->device, &u->sb, &u->config, fill, NULL, &hooks), 0);
	if (!ro_compat)
		assert_int_equal(reopen(u, false), 0);
}

static void end(struct unit *u)
{
	stet_engine_close(u->engine);
	stet_device_close(u->device);
}

static void put(struct unit *u, uint32_t i, size_t bytes)
{
	uint8_t value[STET_VALUE_MAX] = { 0 };
	struct stet_key key;
	struct stet_txn *txn;
	uint64_t wait;

	record_key(&key, i);
	assert_int_equal(stet_txn_begin(u->engine, STET_LEVEL_PLAIN, false, &txn), 0);
	assert_int_equal(stet_txn_put(txn, &key, value, bytes), 0);
	assert_int_equal(stet_txn_order(txn, NULL, &wait), 0);
	stet_txn_end(txn);
}

static void put_data(struct unit *u, uint32_t i)
{
	struct stet_databuf *buf;
	struct stet_key key;
	struct stet_txn *txn;
	uint64_t wait;

	stet_key_extent(&key, 3, (uint64_t)i * 4);
	assert_int_equal(stet_databuf_create(stet_engine_cache(u->engine), 4, &buf), 0);
	assert_int_equal(stet_txn_begin(u->engine, STET_LEVEL_PLAIN, false, &txn), 0);
	assert_int_equal(stet_txn_put_buf(txn, &key, buf, 0, 4, 0), 0);
	assert_int_equal(stet_txn_order(txn, NULL, &wait), 0);
	stet_txn_end(txn);
	stet_databuf_put(buf);
}

/* --- records --- */

/* A batch of one record, as if the engine had written it. cut 0: the next serial. */
static uint64_t log_record(struct unit *u, uint64_t cut, enum stet_record_type type,
			   const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
	struct stet_log *log = stet_engine_log(u->engine);
	struct stet_log_group *group;

	if (cut == 0)
		cut = stet_log_next_serial(log);
	assert_int_equal(stet_log_begin(log, true, &group), 0);
	assert_int_equal(stet_log_put_record(group, type, key, key_bytes, value, value_bytes), 0);
	assert_int_equal(stet_log_end(group, STET_PSEG_COMMIT, cut, 1, false), 0);
	assert_int_equal(stet_log_perform(group, true), 0);
	stet_log_complete(group);
	return cut;
}

static void refuse(enum stet_record_type type, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes)
{
	struct unit u;

	start(&u, 0);
	log_record(&u, 0, type, key, key_bytes, value, value_bytes);
	assert_int_equal(reopen(&u, true), -EUCLEAN);
	assert_int_equal(reopen(&u, false), -EUCLEAN);
	end(&u);
}

static void refuse_patch(const struct stet_key *key, uint64_t base, uint32_t offset, size_t len)
{
	uint8_t value[STET_PATCH_VALUE_MAX] = { 0 };

	stet_put_le64(value, base);
	stet_put_le32(value + 12, offset);
	refuse(STET_REC_PATCH, key->b, key->bytes, value, STET_PATCH_HEADER_BYTES + len);
}

static void test_patches(void **state)
{
	struct stet_key extent, record;

	(void)state;
	stet_key_extent(&extent, 3, 0);
	record_key(&record, 1);
	refuse_patch(&extent, STET_PATCH_BASE_HOLE, STET_BLOCK_SIZE, 1);
	refuse_patch(&extent, STET_PATCH_BASE_HOLE, UINT32_MAX - 7, 8);
	refuse_patch(&extent, STET_PATCH_BASE_HOLE, 1, STET_BLOCK_SIZE);
	refuse_patch(&extent, STET_PATCH_BASE_CURRENT, 0, 8);
	refuse_patch(&extent, stet_addr_make(1, SEG_BLOCKS).v, 0, 8);
	refuse_patch(&record, STET_PATCH_BASE_HOLE, 0, 8);
}

static void test_items(void **state)
{
	const uint8_t value[200] = { 0 };
	struct stet_key key;

	(void)state;
	refuse(STET_REC_PUT, "x", 1, value, 8);
	refuse(STET_REC_DEL, "x", 1, NULL, 0);
	stet_key_dirent(&key, 1, "a/b", 3);
	refuse(STET_REC_PUT, key.b, key.bytes, value, sizeof(struct stet_dirent_disk));
	stet_key_inode(&key, 5);
	refuse(STET_REC_PUT, key.b, key.bytes, value, 200);
	stet_key_kind(&key, 0, STET_KIND_RELOC);
	refuse(STET_REC_DEL, key.b, key.bytes, NULL, 0);
}

/* Runs must lie between the root's cut and their batch's. */
static void test_run_serials(void **state)
{
	struct stet_run run = {
		.root = { .addr = stet_addr_make(1, 0), .birth = 1, .check = 1 },
		.item_count = 1,
	};
	struct stet_run_disk disk;

	(void)state;
	stet_run_encode(&run, &disk);
	refuse(STET_REC_RUN, NULL, 0, &disk, sizeof(disk));
	run.serial = UINT64_MAX;
	stet_run_encode(&run, &disk);
	refuse(STET_REC_RUN, NULL, 0, &disk, sizeof(disk));
}

static void test_cut_goes_back(void **state)
{
	struct stet_key key;
	struct unit u;
	uint64_t cut;

	(void)state;
	record_key(&key, 1);
	start(&u, 0);
	stet_log_next_serial(stet_engine_log(u.engine));
	cut = log_record(&u, 0, STET_REC_PUT, key.b, key.bytes, "\0x", 2);
	log_record(&u, cut, STET_REC_PUT, key.b, key.bytes, "\0y", 2);
	assert_int_equal(reopen(&u, true), 0);
	log_record(&u, cut - 1, STET_REC_PUT, key.b, key.bytes, "\0z", 2);
	assert_int_equal(reopen(&u, true), -EUCLEAN);
	end(&u);
}

/* Numbers that could only be counted on to where they end: such a volume can be read. */
static void test_counters(void **state)
{
	uint8_t next_ino[8];
	struct unit u;

	(void)state;
	start(&u, 0);
	stet_put_le64(next_ino, UINT64_MAX);
	log_record(&u, 0, STET_REC_NEXT_INO, NULL, 0, next_ino, sizeof(next_ino));
	assert_int_equal(reopen(&u, false), -EUCLEAN);
	assert_int_equal(reopen(&u, true), 0);
	end(&u);
}

/* --- what leads to the log --- */

static uint64_t offset_of(const struct unit *u, struct stet_place place)
{
	return (u->sb.seg_start_block + (uint64_t)place.slot * SEG_BLOCKS +
		stet_addr_block(place.addr)) *
	       STET_BLOCK_SIZE;
}

/* The last partial segment says that the chain goes on in another slot than its segment lies in. */
static void test_wrong_slot(void **state)
{
	uint8_t summary[STET_BLOCK_SIZE];
	struct stet_ckpt_record at;
	struct stet_pseg pseg;
	struct stet_key key;
	struct unit u;

	(void)state;
	record_key(&key, 1);
	start(&u, 0);
	stet_log_position(stet_engine_log(u.engine), &at);
	log_record(&u, 0, STET_REC_PUT, key.b, key.bytes, "\0x", 2);
	assert_int_equal(stet_device_read(u.device, offset_of(&u, at.chain_next1), summary,
					  sizeof(summary)),
			 0);
	assert_int_equal(stet_pseg_decode(summary, u.sb.volume_id, SEG_BLOCKS, &pseg), 0);
	pseg.next1.slot = pseg.next1.slot + 20;
	stet_pseg_seal(summary, &pseg, u.sb.volume_id);
	assert_int_equal(stet_device_write(u.device, offset_of(&u, at.chain_next1), summary,
					   sizeof(summary)),
			 0);
	assert_int_equal(reopen(&u, false), -EUCLEAN);
	end(&u);
}

/* The table says that blocks are in use where the chain goes on: it goes on elsewhere. */
static void test_live_ahead(void **state)
{
	struct stet_ckpt_record at;
	struct stet_space *space;
	struct stet_addr addr;
	struct unit u;

	(void)state;
	start(&u, 0);
	space = stet_engine_space(u.engine);
	stet_log_position(stet_engine_log(u.engine), &at);
	addr = stet_addr_add(at.chain_next1.addr, 20);
	stet_space_hold(space, addr, 1);
	assert_int_equal(stet_space_make_live(space, addr, 1), 0);
	put(&u, 1, 100);
	assert_int_equal(stet_engine_settle(u.engine), 0);
	assert_int_equal(reopen(&u, false), 0);
	for (uint32_t i = 0; i < 40; i++) {
		put_data(&u, i);
		assert_int_equal(stet_engine_settle(u.engine), 0);
	}
	end(&u);
}

static void rewrite_slot(struct unit *u, int i, uint64_t sequence_more)
{
	static const uint64_t block[2] = { STET_CKPT_SLOT_BLOCK_0, STET_CKPT_SLOT_BLOCK_1 };
	struct stet_ckpt_slot_disk disk;
	struct stet_ckpt_slot slot[2];
	int rc[2];

	stet_log_read_slots(u->device, u->sb.volume_id, slot, rc);
	assert_int_equal(rc[i], 0);
	slot[i].sequence += sequence_more;
	stet_ckpt_slot_encode(&slot[i], u->sb.volume_id, &disk);
	assert_int_equal(
		stet_device_write(u->device, block[i] * STET_BLOCK_SIZE, &disk, sizeof(disk)), 0);
}

/* A slot that gives itself out for newer than its record. */
static void test_slot_of_another_sequence(void **state)
{
	struct unit u;

	(void)state;
	start(&u, 0);
	rewrite_slot(&u, 0, 1000);
	assert_int_equal(reopen(&u, true), 0); /* by the other one */
	rewrite_slot(&u, 1, 1000);
	assert_int_equal(reopen(&u, true), -EUCLEAN);
	rewrite_slot(&u, 0, (uint64_t)-1000);
	rewrite_slot(&u, 1, (uint64_t)-1000);
	assert_int_equal(reopen(&u, false), 0);
	end(&u);
}

static void flip(struct unit *u, struct stet_place place)
{
	uint8_t byte;

	assert_int_equal(stet_device_read(u->device, offset_of(u, place) + 100, &byte, 1), 0);
	byte ^= 1;
	assert_int_equal(stet_device_write(u->device, offset_of(u, place) + 100, &byte, 1), 0);
}

/* The newest checkpoint's record is lost: the older one's log leads to the same state, or nobody opens it. */
static void test_lost_record(void **state)
{
	struct stet_ckpt_record at;
	struct stet_ckpt_slot slot[2];
	struct stet_key key;
	struct stet_val val;
	struct unit u;
	int rc[2];

	(void)state;
	start(&u, 0);
	stet_log_position(stet_engine_log(u.engine), &at);
	put(&u, 1, 100);
	assert_int_equal(stet_engine_settle(u.engine), 0);
	stet_log_read_slots(u.device, u.sb.volume_id, slot, rc);
	flip(&u, slot[slot[1].sequence > slot[0].sequence].record);
	assert_int_equal(reopen(&u, true), 0);
	record_key(&key, 1);
	assert_int_equal(stet_view_get(u.engine, NULL, &key, &val), 0);
	flip(&u, at.chain_next1);
	assert_int_equal(reopen(&u, true), -EUCLEAN);
	u.config.accept_prefix = true;
	assert_int_equal(reopen(&u, true), 0);
	assert_int_equal(stet_view_get(u.engine, NULL, &key, &val), -ENOENT);
	end(&u);
}

/* What is to be done now; how much of it was I/O. */
static unsigned step_all(struct unit *u)
{
	struct stet_job *job = NULL;
	unsigned jobs = 0;

	while (stet_engine_step(u->engine, &job) == 1) {
		if (!job)
			continue;
		stet_job_perform(job);
		stet_engine_finish(u->engine, job);
		jobs++;
	}
	return jobs;
}

/* Once the volume was idle, damage to the last commit is damage, not a commit that did not get through. */
static void test_idle(void **state)
{
	struct stet_ckpt_record at;
	struct stet_job *job;
	struct stet_key key;
	struct stet_val val;
	struct unit u;

	(void)state;
	start(&u, 0);
	stet_log_position(stet_engine_log(u.engine), &at);
	put(&u, 1, 100);
	assert_int_equal(stet_engine_flush_start(u.engine, &job), 0);
	stet_job_perform(job);
	stet_engine_finish(u.engine, job);
	assert_int_equal(step_all(&u), 0);
	sim_clock_advance(&u.clock, stet_engine_deadline(u.engine) -
					    u.clock.clock.mono_ns(&u.clock.clock) - 1);
	assert_int_equal(step_all(&u), 0);
	sim_clock_advance(&u.clock, 1);
	assert_int_equal(step_all(&u), 1);
	assert_int_equal(stet_engine_deadline(u.engine), INT64_MAX);
	flip(&u, at.chain_next1);
	assert_int_equal(reopen(&u, true), -EUCLEAN);
	flip(&u, at.chain_next1);
	assert_int_equal(reopen(&u, false), 0);
	record_key(&key, 1);
	assert_int_equal(stet_view_get(u.engine, NULL, &key, &val), 0);
	assert_int_equal(stet_engine_deadline(u.engine), INT64_MAX); /* a checkpoint says it too */
	end(&u);
}

static void test_ro_compat(void **state)
{
	struct unit u;

	(void)state;
	start(&u, 1);
	assert_int_equal(reopen(&u, false), -EOPNOTSUPP);
	assert_int_equal(reopen(&u, true), 0);
	end(&u);
}

/* --- a checkpoint that cannot be made --- */

struct leaf {
	const struct unit *u;
	struct stet_node_ptr ptr; /* of the last leaf */
};

static int last_leaf(void *arg, const struct stet_node_ptr *ptr, uint32_t level,
		     const uint8_t *node)
{
	struct leaf *leaf = arg;

	(void)node;
	if (level == 0)
		leaf->ptr = *ptr;
	return 0;
}

static void damage_last_leaf(struct unit *u)
{
	const uint8_t zeros[STET_BLOCK_SIZE] = { 0 };
	struct leaf leaf = { .u = u };
	struct stet_root root;
	uint64_t cut, off;

	stet_engine_root(u->engine, &root, &cut);
	assert_int_equal(stet_tree_walk(stet_engine_cache(u->engine), STET_TREE_CATALOG, &root,
					last_leaf, &leaf),
			 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(stet_space_locate(stet_engine_space(u->engine),
						   i ? leaf.ptr.addr2 : leaf.ptr.addr, 1, &off),
				 0);
		assert_int_equal(stet_device_write(u->device, off, zeros, sizeof(zeros)), 0);
	}
}

static void test_hopeless_checkpoint(void **state)
{
	struct stet_ticket ticket;
	struct unit u;

	(void)state;
	start(&u, 0);
	for (uint32_t i = 0; i < 60; i++)
		put(&u, i, 3000);
	assert_int_equal(stet_engine_settle(u.engine), 0);
	damage_last_leaf(&u);
	assert_int_equal(reopen(&u, false), 0);
	put(&u, 59, 100);
	stet_ticket_init(&ticket, NULL, NULL);
	assert_int_equal(stet_engine_checkpoint(u.engine, &ticket), 0);
	for (int i = 0; i < 100 && !ticket.fired; i++) {
		struct stet_job *job = NULL;

		(void)!stet_engine_step(u.engine, &job);
		if (job) {
			stet_job_perform(job);
			stet_engine_finish(u.engine, job);
		}
	}
	assert_true(ticket.fired);
	assert_int_equal(ticket.result, -EIO);
	assert_int_equal(stet_engine_settle(u.engine), -EIO);
	end(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patches),     cmocka_unit_test(test_items),
		cmocka_unit_test(test_run_serials), cmocka_unit_test(test_cut_goes_back),
		cmocka_unit_test(test_counters),    cmocka_unit_test(test_wrong_slot),
		cmocka_unit_test(test_live_ahead),  cmocka_unit_test(test_slot_of_another_sequence),
		cmocka_unit_test(test_lost_record), cmocka_unit_test(test_idle),
		cmocka_unit_test(test_ro_compat),   cmocka_unit_test(test_hopeless_checkpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
