/* test_group.c - building and completing groups: what is written, where, and what it costs. */
#include "log_unit.h"

#include "sim/image.h"

#include <string.h>

struct fixture {
	struct stet_device *device;
	struct stet_superblock sb;
	struct lt_model model;
	struct lt_vol vol;
};

static void open_fixture(struct fixture *f, uint32_t slots, uint32_t seg_blocks)
{
	f->sb = lt_sb(slots, seg_blocks);
	lt_model_init(&f->model);
	assert_int_equal(sim_image_create(lt_device_bytes(&f->sb), &f->device), 0);
	lt_mkfs(&f->vol, f->device, &f->sb, &f->model, 1);
}

static void close_fixture(struct fixture *f)
{
	stet_space_check(f->vol.space);
	lt_close(&f->vol);
	lt_model_release(&f->model);
	stet_device_close(f->device);
}

static struct stet_device_stats stats_of(struct fixture *f)
{
	struct stet_device_stats stats;

	stet_device_stats(f->device, &stats);
	return stats;
}

static struct stet_space_usage usage_of(struct fixture *f)
{
	struct stet_space_usage usage;

	stet_space_usage(f->vol.space, &usage);
	return usage;
}

/* Mounts a second time from the newest checkpoint, and compares. */
static void check_recovers(struct fixture *f)
{
	const struct lt_ckpt *ckpt = lt_newest(&f->vol);
	struct lt_vol again;

	assert_int_equal(lt_mount(&again, f->device, &f->sb, &f->model, ckpt, false, 9, NULL), 0);
	lt_check_seen(&again, ckpt, f->model.order.n ? f->model.order.v[f->model.order.n - 1] : 0,
		      false);
	lt_close(&again);
}

static void small_commit_is_one_write(void **state)
{
	struct fixture f;
	struct lt_group g;
	struct stet_device_stats before;
	uint64_t bytes;

	(void)state;
	open_fixture(&f, 32, 256);
	lt_commit(&f.vol, 0, 3);
	before = stats_of(&f);
	assert_int_equal(lt_begin_commit(&f.vol, &g, false), 0);
	assert_int_equal(lt_put(&f.vol, &g, STET_SEGK_LOG, STET_PAYLOAD_DATA, 3, false), 0);
	g.batch->cut = stet_log_next_serial(f.vol.log);
	assert_int_equal(stet_log_end(g.group, STET_PSEG_COMMIT, g.batch->cut, (int64_t)g.batch->no,
				      false),
			 0);
	bytes = stet_log_group_bytes(g.group);
	assert_int_equal(bytes, 4 * STET_BLOCK_SIZE);
	assert_int_equal(stet_log_perform(g.group, true), 0);
	assert_int_equal(stet_log_group_failed(g.group), STET_LOG_OK);
	lt_complete(&f.vol, &g);
	assert_int_equal(stats_of(&f).writes - before.writes, 1);
	assert_int_equal(stats_of(&f).flushes - before.flushes, 1);
	assert_int_equal(stats_of(&f).write_bytes - before.write_bytes, bytes);
	assert_int_equal(stet_log_durable(f.vol.log), stet_log_last_serial(f.vol.log));
	check_recovers(&f);
	close_fixture(&f);
}

/* A file of 1 MiB, in extents, with a record each. */
static void big_file_costs_little(void **state)
{
	struct fixture f;
	struct lt_group g;
	uint8_t value[300] = { 0 };

	(void)state;
	open_fixture(&f, 32, 1024);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(lt_begin_commit(&f.vol, &g, false), 0);
		for (int e = 0; e < 4; e++) {
			assert_int_equal(
				lt_put(&f.vol, &g, STET_SEGK_LOG, STET_PAYLOAD_DATA, 64, false), 0);
			assert_int_equal(stet_log_put_record(g.group, STET_REC_PUT, "key", 3, value,
							     sizeof(value)),
					 0);
			assert_int_equal(stet_record_append(&g.batch->records, STET_REC_PUT, "key",
							    3, value, sizeof(value)),
					 0);
		}
		assert_int_equal(lt_end_commit(&f.vol, &g), 0);
		assert_true((double)stet_log_group_bytes(g.group) <= 1.03 * (1 << 20));
		assert_int_equal(stet_log_perform(g.group, true), 0);
		lt_complete(&f.vol, &g);
	}
	check_recovers(&f);
	close_fixture(&f);
}

static void records_spread_over_segments(void **state)
{
	struct fixture f;
	struct lt_group g;

	(void)state;
	open_fixture(&f, 64, 64);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
		do {
			assert_int_equal(lt_fill(&f.vol, &g, 0, 100), 0);
		} while (g.batch->records.len < 1000000); /* a segment is 256 KiB */
		assert_int_equal(lt_end_commit(&f.vol, &g), 0);
		assert_int_equal(stet_log_perform(g.group, true), 0);
		lt_complete(&f.vol, &g);
		lt_commit(&f.vol, 10, 3);
	}
	check_recovers(&f);
	close_fixture(&f);
}

static void whole_runs(void **state)
{
	struct fixture f;
	struct lt_group g;

	(void)state;
	open_fixture(&f, 32, 128);
	for (uint16_t n = 1; n <= 120; n = (uint16_t)(n + 17)) {
		assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
		assert_int_equal(lt_put(&f.vol, &g, STET_SEGK_LOG, STET_PAYLOAD_DATA, n, true), 0);
		assert_int_equal(lt_put(&f.vol, &g, STET_SEGK_COLD, STET_PAYLOAD_DATA, n, true), 0);
		assert_int_equal(g.batch->runs.n, 2);
		assert_int_equal(lt_end_commit(&f.vol, &g), 0);
		assert_int_equal(stet_log_perform(g.group, true), 0);
		lt_complete(&f.vol, &g);
	}
	assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
	assert_int_equal(lt_put(&f.vol, &g, STET_SEGK_LOG, STET_PAYLOAD_DATA, 128, true), -ENOSPC);
	lt_abandon(&f.vol, &g);
	check_recovers(&f);
	close_fixture(&f);
}

/* Nodes go out while a commit is in flight; each completes by itself. */
static void two_groups_in_flight(void **state)
{
	struct fixture f;
	struct lt_group commit;
	struct lt_group nodes = { 0 };

	(void)state;
	open_fixture(&f, 32, 64);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(stet_log_begin(f.vol.log, true, &nodes.group), 0);
		assert_int_equal(lt_begin_commit(&f.vol, &commit, true), 0);
		assert_int_equal(lt_put(&f.vol, &nodes, STET_SEGK_NODE, STET_PAYLOAD_NODE, 4, true),
				 0);
		assert_int_equal(lt_fill(&f.vol, &commit, 20, 5), 0);
		assert_int_equal(
			lt_put(&f.vol, &nodes, STET_SEGK_NODE2, STET_PAYLOAD_NODE, 4, true), 0);
		assert_int_equal(stet_log_end(nodes.group, STET_PSEG_PAYLOAD, 0, 1, false), 0);
		assert_int_equal(lt_end_commit(&f.vol, &commit), 0);
		assert_int_equal(stet_log_perform(commit.group, true), 0);
		if (i % 3 == 0) {
			lt_abandon(&f.vol, &nodes);
			lt_complete(&f.vol, &commit);
			continue;
		}
		assert_int_equal(stet_log_perform(nodes.group, i % 2 == 0), 0);
		lt_complete(&f.vol, &nodes);
		lt_complete(&f.vol, &commit);
	}
	check_recovers(&f);
	close_fixture(&f);
}

/* Until no segment is left; returns how many commits fitted. */
static int fill_up(struct fixture *f, bool privileged)
{
	struct lt_group g;

	for (int i = 0;; i++) {
		int rc;

		assert_int_equal(lt_begin_commit(&f->vol, &g, privileged), 0);
		rc = lt_fill(&f->vol, &g, 60, 10);
		if (!rc)
			rc = lt_end_commit(&f->vol, &g);
		if (rc) {
			struct stet_space_usage before;
			struct stet_space_usage after;

			assert_int_equal(rc, -ENOSPC);
			before = usage_of(f);
			lt_abandon(&f->vol, &g);
			after = usage_of(f);
			assert_true(after.held_blocks <= before.held_blocks);
			assert_true(after.slots_free >= before.slots_free);
			return i;
		}
		assert_int_equal(stet_log_perform(g.group, true), 0);
		lt_complete(&f->vol, &g);
	}
}

static void out_of_segments(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, 48, 64);
	for (int round = 0; round < 5; round++) {
		assert_true(stet_log_has_room(f.vol.log, 1));
		assert_true(fill_up(&f, false) > 5);
		assert_false(stet_log_has_room(f.vol.log, 64));
		assert_true(usage_of(&f).slots_free > 0);
		lt_commit(&f.vol, 10, 3); /* privileged */
		check_recovers(&f);
		for (int i = 0; i < 3; i++) /* everything is deleted; two checkpoints later free */
			lt_checkpoint(&f.vol, 0);
		assert_true(usage_of(&f).slots_free > 40);
	}
	fill_up(&f, true);
	assert_true(usage_of(&f).slots_free <= 1);
	check_recovers(&f);
	close_fixture(&f);
}

static void trim_frees_segments(void **state)
{
	struct fixture f;
	uint32_t free_slots = 0;

	(void)state;
	open_fixture(&f, 64, 64);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 20; i++)
			lt_commit(&f.vol, 40, 4);
		assert_true(stet_log_bytes_since(f.vol.log, lt_newest(&f.vol)->rec.chain_serial) >
			    0);
		lt_checkpoint(&f.vol, 100);
		assert_int_equal(
			stet_log_bytes_since(f.vol.log, lt_newest(&f.vol)->rec.chain_serial), 0);
		lt_checkpoint(&f.vol, 100);
		lt_checkpoint(&f.vol, 100);
		if (round == 2)
			free_slots = usage_of(&f).slots_free;
		if (round > 2) /* no leak */
			assert_in_range(usage_of(&f).slots_free, free_slots - 4, free_slots + 4);
		check_recovers(&f);
	}
	close_fixture(&f);
}

static void check_both(struct fixture *f)
{
	for (size_t i = 0; i < f->vol.ckpts.n; i++) {
		struct lt_vol again;

		assert_int_equal(lt_mount(&again, f->device, &f->sb, &f->model, f->vol.ckpts.v[i],
					  false, 9, NULL),
				 0);
		lt_check_seen(&again, f->vol.ckpts.v[i], f->model.order.v[f->model.order.n - 1],
			      false);
		lt_close(&again);
	}
}

/* Segments are used again at once; both checkpoints' logs stay readable. */
static void trim_keeps_the_older_log(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, 20, 64);
	for (int round = 0; round < 20; round++) {
		uint32_t free_slots = usage_of(&f).slots_free;

		assert_true(free_slots > 2);
		while (usage_of(&f).slots_free > (round == 0 ? free_slots / 2 : 2))
			lt_commit(&f.vol, 0, 200);
		check_both(&f);
		lt_checkpoint(&f.vol, 0);
		check_both(&f);
	}
	close_fixture(&f);
}

struct scan {
	uint64_t last_serial;
	uint32_t psegs;
	uint64_t seg_id;
	uint32_t next_block;
};

static int on_pseg(void *arg, const struct stet_pseg *pseg, const uint8_t *summary)
{
	struct scan *scan = arg;

	assert_non_null(summary);
	assert_int_equal(stet_addr_seg(pseg->self.addr), scan->seg_id);
	assert_true(stet_addr_block(pseg->self.addr) >= scan->next_block);
	assert_true(pseg->serial > scan->last_serial);
	scan->next_block = stet_addr_block(pseg->self.addr) + pseg->summary_blocks +
			   pseg->payload_blocks;
	scan->last_serial = pseg->serial;
	scan->psegs++;
	return 0;
}

static int stop(void *arg, const struct stet_pseg *pseg, const uint8_t *summary)
{
	(void)arg;
	(void)pseg;
	(void)summary;
	return -ECANCELED;
}

static void scanning(void **state)
{
	struct fixture f;
	struct scan scan = { 0 };
	uint8_t junk[STET_BLOCK_SIZE];
	struct stet_ckpt_record rec;
	uint64_t off_bytes;

	(void)state;
	open_fixture(&f, 32, 256);
	for (int i = 0; i < 5; i++)
		lt_commit(&f.vol, 0, 4);
	stet_log_position(f.vol.log, &rec);
	lt_commit(&f.vol, 0, 4);
	for (int i = 0; i < 5; i++)
		lt_commit(&f.vol, 0, 4);
	scan.seg_id = stet_addr_seg(rec.chain_next1.addr);
	assert_int_equal(stet_log_scan_segment(f.vol.log, scan.seg_id, on_pseg, &scan), 0);
	assert_int_equal(scan.psegs, 11);
	/* One that is damaged leaves a gap. */
	memset(junk, 0xa5, sizeof(junk));
	assert_int_equal(stet_space_locate(f.vol.space, rec.chain_next1.addr, 1, &off_bytes), 0);
	assert_int_equal(stet_device_write(f.device, off_bytes, junk, sizeof(junk)), 0);
	scan = (struct scan){ .seg_id = scan.seg_id };
	assert_int_equal(stet_log_scan_segment(f.vol.log, scan.seg_id, on_pseg, &scan), 0);
	assert_int_equal(scan.psegs, 10);
	assert_int_equal(stet_log_scan_segment(f.vol.log, scan.seg_id, stop, NULL), -ECANCELED);
	assert_int_equal(stet_log_scan_segment(f.vol.log, 999, on_pseg, &scan), -ESTALE);
	close_fixture(&f);
}

static void slots_and_records(void **state)
{
	struct fixture f;
	struct stet_ckpt_slot slot[2];
	int rc[2];

	(void)state;
	open_fixture(&f, 32, 64);
	stet_log_read_slots(f.device, LT_VOLUME_ID, slot, rc);
	assert_int_equal(rc[0], -ENOENT);
	assert_int_equal(rc[1], -ENOENT);
	for (uint64_t seq = 1; seq <= 4; seq++) {
		struct lt_group g = { 0 };
		struct stet_ckpt_record rec = {
			.sequence = seq, .next_ino = 2, .next_seg_id = 100, .cut = seq
		};
		struct stet_ckpt_record back;
		struct stet_ckpt_slot mine = { .sequence = seq, .cut = seq };
		uint8_t *bytes = stet_calloc(1, STET_BLOCK_SIZE);
		uint8_t *read;
		uint32_t crc;

		assert_non_null(bytes);
		stet_log_position(f.vol.log, &rec);
		stet_ckpt_record_encode(&rec, LT_VOLUME_ID, NULL, bytes);
		crc = stet_crc32c(bytes, STET_BLOCK_SIZE);
		assert_int_equal(stet_log_begin(f.vol.log, true, &g.group), 0);
		assert_int_equal(stet_log_put_whole(g.group, STET_SEGK_LOG, STET_PAYLOAD_CKPT, 0,
						    seq, bytes, &crc, 1, &mine.record.addr),
				 0);
		mine.record.slot = stet_space_slot(f.vol.space, stet_addr_seg(mine.record.addr));
		mine.record_bytes = (uint32_t)stet_ckpt_record_bytes(0);
		mine.record_check = stet_crc64(bytes, mine.record_bytes);
		assert_int_equal(stet_log_end(g.group, STET_PSEG_CHECKPOINT, 0, 1, true), 0);
		assert_int_equal(stet_log_perform(g.group, true), 0);
		lt_complete(&f.vol, &g);
		assert_int_equal(stet_log_write_slot(f.vol.log, &mine), 0);
		stet_free(bytes);
		stet_log_read_slots(f.device, LT_VOLUME_ID, slot, rc);
		assert_int_equal(rc[seq % 2], 0);
		assert_int_equal(slot[seq % 2].sequence, seq);
		assert_int_equal(
			stet_log_read_record(f.device, &f.sb, &slot[seq % 2], &read, &back), 0);
		assert_int_equal(back.sequence, seq);
		assert_int_equal(back.chain_serial, rec.chain_serial);
		stet_free(read);
		slot[seq % 2].record_check ^= 1;
		assert_int_equal(stet_log_read_record(f.device, &f.sb, &slot[seq % 2], &read,
						      &back),
				 -EUCLEAN);
		slot[seq % 2].record.slot = 1000;
		assert_int_equal(stet_log_read_record(f.device, &f.sb, &slot[seq % 2], &read,
						      &back),
				 -EUCLEAN);
	}
	/* The volume id matters. */
	stet_log_read_slots(f.device, 1, slot, rc);
	assert_int_equal(rc[0], -EUCLEAN);
	check_recovers(&f);
	close_fixture(&f);
}

/* Whatever allocation fails, the group can be abandoned and the next one works. */
static void out_of_memory(void **state)
{
	struct fixture f;
	bool failed = true;

	(void)state;
	open_fixture(&f, 64, 64);
	for (int64_t n = 1; failed && n < 2000; n++) {
		struct lt_group g;
		uint8_t data[2 * STET_BLOCK_SIZE] = { 0 };
		uint32_t crcs[2];
		struct stet_addr addr;
		int rc;

		crcs[0] = crcs[1] = stet_crc32c(data, STET_BLOCK_SIZE);
		if (n % 10 == 0) {
			lt_checkpoint(&f.vol, 50);
		}
		assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
		g.batch->cut = stet_log_next_serial(f.vol.log);
		stet_mem_fail_after(n);
		rc = 0;
		for (int i = 0; i < 40 && !rc; i++)
			rc = stet_log_put_whole(g.group, i % 4 ? STET_SEGK_LOG : STET_SEGK_COLD,
						STET_PAYLOAD_DATA, 5, 0, data, crcs, 2, &addr);
		for (int i = 0; i < 100 && !rc; i++)
			rc = stet_log_put_record(g.group, STET_REC_DEL, data, 400, NULL, 0);
		if (!rc)
			rc = stet_log_end(g.group, STET_PSEG_COMMIT, g.batch->cut,
					  (int64_t)g.batch->no, false);
		stet_mem_fail_after(-1);
		failed = rc != 0;
		if (failed)
			assert_int_equal(rc, -ENOMEM);
		lt_abandon(&f.vol, &g);
		stet_space_check(f.vol.space);
		lt_commit(&f.vol, 5, 5);
	}
	assert_false(failed);
	check_recovers(&f);
	close_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_commit_is_one_write),
		cmocka_unit_test(big_file_costs_little),
		cmocka_unit_test(records_spread_over_segments),
		cmocka_unit_test(whole_runs),
		cmocka_unit_test(two_groups_in_flight),
		cmocka_unit_test(out_of_segments),
		cmocka_unit_test(trim_frees_segments),
		cmocka_unit_test(trim_keeps_the_older_log),
		cmocka_unit_test(scanning),
		cmocka_unit_test(slots_and_records),
		cmocka_unit_test(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
