/* test_recover.c - roll-forward: torn tail or corruption, generations, read errors, batches. */
#include "log_unit.h"

#include "sim/fault.h"
#include "sim/image.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COMMITS 10u

struct fixture {
	struct stet_device *image;
	struct sim_fault *fault;
	struct stet_device *device;
	struct stet_superblock sb;
	struct lt_model model;
	struct lt_vol vol;
	struct stet_place
		place[COMMITS + 2]; /* [i]: of commit i, from 1; the last: behind the end */
};

/* Commits of 3 blocks and a few records, all in the first segment. */
static void open_fixture(struct fixture *f, bool flush)
{
	struct stet_ckpt_record rec;

	f->sb = lt_sb(32, 256);
	lt_model_init(&f->model);
	assert_int_equal(sim_image_create(lt_device_bytes(&f->sb), &f->image), 0);
	assert_int_equal(sim_fault_create(f->image, 1, &f->fault), 0);
	f->device = sim_fault_device(f->fault);
	lt_mkfs(&f->vol, f->device, &f->sb, &f->model, 1);
	for (uint32_t i = 1; i <= COMMITS; i++) {
		struct lt_group g;

		stet_log_position(f->vol.log, &rec);
		f->place[i] = rec.chain_next1;
		assert_int_equal(lt_begin_commit(&f->vol, &g, true), 0);
		assert_int_equal(lt_put(&f->vol, &g, STET_SEGK_LOG, STET_PAYLOAD_DATA, 3, false),
				 0);
		assert_int_equal(lt_fill(&f->vol, &g, 0, 4), 0);
		g.batch->cut = stet_log_next_serial(f->vol.log);
		assert_int_equal(stet_log_end(g.group, STET_PSEG_COMMIT, g.batch->cut,
					      (int64_t)g.batch->no, false),
				 0);
		assert_int_equal(stet_log_perform(g.group, flush), 0);
		lt_complete(&f->vol, &g);
	}
	stet_log_position(f->vol.log, &rec);
	f->place[COMMITS + 1] = rec.chain_next1;
}

static void close_fixture(struct fixture *f)
{
	lt_close(&f->vol);
	lt_model_release(&f->model);
	sim_fault_destroy(f->fault);
	stet_device_close(f->image);
}

static uint64_t offset_of(const struct fixture *f, struct stet_place place)
{
	return (f->sb.seg_start_block + (uint64_t)place.slot * f->sb.seg_blocks +
		stet_addr_block(place.addr)) *
	       STET_BLOCK_SIZE;
}

/* Flips a byte of the commit's block; does it again to mend it. */
static void damage(struct fixture *f, uint32_t commit, uint32_t block)
{
	uint64_t at = offset_of(f, f->place[commit]) + (uint64_t)block * STET_BLOCK_SIZE + 200;
	uint8_t byte;

	assert_int_equal(stet_device_read(f->image, at, &byte, 1), 0);
	byte ^= 0x10;
	assert_int_equal(stet_device_write(f->image, at, &byte, 1), 0);
}

struct outcome {
	int rc;
	size_t seen;
	struct stet_log_recovery stats;
};

static struct outcome mount_again(struct fixture *f, bool accept_prefix)
{
	struct outcome out;
	struct lt_vol again;

	out.rc = lt_mount(&again, f->device, &f->sb, &f->model, lt_newest(&f->vol), accept_prefix,
			  3, &out.stats);
	out.seen = again.seen.n;
	if (out.rc == 0)
		assert_int_equal(out.stats.batches, out.seen);
	lt_close(&again);
	return out;
}

static void expect(struct outcome out, int rc, size_t seen, bool torn, bool corrupt)
{
	assert_int_equal(out.rc, rc);
	if (rc == 0)
		assert_int_equal(out.seen, seen);
	assert_int_equal(out.stats.torn_tail, torn);
	assert_int_equal(out.stats.corrupt, corrupt);
}

static void idle(struct lt_vol *vol)
{
	struct lt_group g = { 0 };

	assert_int_equal(stet_log_begin(vol->log, true, &g.group), 0);
	assert_int_equal(stet_log_end(g.group, STET_PSEG_IDLE, 0, 1, false), 0);
	assert_int_equal(stet_log_perform(g.group, true), 0);
	lt_complete(vol, &g);
}

static void all_is_well(void **state)
{
	struct fixture f;
	struct outcome out;

	(void)state;
	open_fixture(&f, true);
	out = mount_again(&f, false);
	expect(out, 0, COMMITS, false, false);
	assert_int_equal(out.stats.psegs, COMMITS);
	assert_int_equal(out.stats.bytes, COMMITS * 4 * STET_BLOCK_SIZE);
	close_fixture(&f);
}

static void damaged_summary(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, true);
	damage(&f, 5, 0);
	expect(mount_again(&f, false), -EUCLEAN, 0, true, true);
	expect(mount_again(&f, true), 0, 4, true, true);
	damage(&f, 5, 0);
	damage(&f, COMMITS, 0); /* nobody says that it was durable */
	expect(mount_again(&f, false), 0, COMMITS - 1, true, false);
	damage(&f, COMMITS, 0);
	idle(&f.vol);
	expect(mount_again(&f, false), 0, COMMITS, false, false);
	damage(&f, COMMITS, 0); /* now somebody does */
	expect(mount_again(&f, false), -EUCLEAN, 0, true, true);
	expect(mount_again(&f, true), 0, COMMITS - 1, true, true);
	close_fixture(&f);
}

static void damaged_payload(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, true);
	damage(&f, 5, 2); /* is for the reader of that block to find */
	expect(mount_again(&f, false), 0, COMMITS, false, false);
	damage(&f, COMMITS, 3);
	expect(mount_again(&f, false), 0, COMMITS - 1, true, false);
	idle(&f.vol);
	expect(mount_again(&f, false), 0, COMMITS, false, false);
	close_fixture(&f);
}

/* The proof that a lost group was durable lies in a segment that only the group itself leads to. */
static void damaged_far_before_the_proof(void **state)
{
	struct fixture f;
	struct lt_group g;

	(void)state;
	open_fixture(&f, true);
	assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
	assert_int_equal(lt_put(&f.vol, &g, STET_SEGK_LOG, STET_PAYLOAD_DATA, 600, false), 0);
	assert_int_equal(lt_end_commit(&f.vol, &g), 0);
	assert_int_equal(stet_log_perform(g.group, true), 0);
	lt_complete(&f.vol, &g);
	lt_commit(&f.vol, 3, 3);
	expect(mount_again(&f, false), 0, COMMITS + 2, false, false);
	damage(&f, COMMITS + 1, 0);
	expect(mount_again(&f, false), -EUCLEAN, 0, true, true);
	expect(mount_again(&f, true), 0, COMMITS, true, true);
	close_fixture(&f);
}

/* The end of what was never flushed is found by its payload. */
static void not_flushed(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, false);
	assert_int_equal(stet_log_durable(f.vol.log), 0);
	expect(mount_again(&f, false), 0, COMMITS, false, false);
	damage(&f, 4, 1);
	expect(mount_again(&f, false), 0, 3, true, false);
	damage(&f, 4, 1);
	damage(&f, 7, 0);
	expect(mount_again(&f, false), 0, 6, true, false);
	close_fixture(&f);
}

static void fail_reads(struct fixture *f, struct stet_place place, uint32_t block)
{
	uint64_t from = offset_of(f, place) + (uint64_t)block * STET_BLOCK_SIZE;
	char script[100];

	(void)snprintf(script, sizeof(script), "read@%" PRIu64 "-%" PRIu64 ":eio", from,
		       from + STET_BLOCK_SIZE);
	assert_int_equal(sim_fault_set(f->fault, script), 0);
}

static void read_errors(void **state)
{
	struct fixture f;
	struct stet_ckpt_record rec;

	(void)state;
	open_fixture(&f, true);
	fail_reads(&f, f.place[5], 0);
	expect(mount_again(&f, false), -EIO, 0, false, false);
	expect(mount_again(&f, true), 0, 4, true, true);
	/* Both candidates of the end, and of one in the middle. */
	fail_reads(&f, f.place[COMMITS + 1], 0);
	expect(mount_again(&f, false), -EIO, 0, false, false);
	stet_log_position(f.vol.log, &rec);
	fail_reads(&f, rec.chain_next2, 0);
	expect(mount_again(&f, false), -EIO, 0, false, false);
	expect(mount_again(&f, true), 0, COMMITS, false, true);
	lt_commit(&f.vol, 100, 3);
	/* Payload: below `durable` nobody reads it, above it is not taken for torn. */
	fail_reads(&f, f.place[5], 2);
	expect(mount_again(&f, false), 0, COMMITS + 1, false, false);
	assert_int_equal(sim_fault_set(f.fault, ""), 0);
	expect(mount_again(&f, false), 0, COMMITS + 1, false, false);
	close_fixture(&f);
}

static void unreadable_payload_above_durable(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, true);
	fail_reads(&f, f.place[COMMITS], 2);
	expect(mount_again(&f, false), -EIO, 0, false, false);
	expect(mount_again(&f, true), 0, COMMITS - 1, true, true);
	close_fixture(&f);
}

/* A bad next2 does not matter while next1 is there. */
static void one_bad_candidate(void **state)
{
	struct fixture f;
	struct lt_vol again;
	struct stet_log_recovery stats;
	struct lt_ckpt *ckpt;

	(void)state;
	open_fixture(&f, true);
	ckpt = lt_ckpt_copy(lt_newest(&f.vol));
	fail_reads(&f, ckpt->rec.chain_next2, 0);
	ckpt->rec.chain_next2.slot = 30; /* only for this one step */
	ckpt->rec.chain_next2.addr = stet_addr_make(29, 0);
	fail_reads(&f, ckpt->rec.chain_next2, 0);
	assert_int_equal(lt_mount(&again, f.device, &f.sb, &f.model, ckpt, false, 3, &stats), 0);
	assert_int_equal(again.seen.n, COMMITS);
	lt_close(&again);
	lt_ckpt_free(ckpt);
	close_fixture(&f);
}

/* What an older generation left behind the end is never taken up again. */
static void stale_generation(void **state)
{
	struct fixture f;
	struct lt_vol next;
	struct lt_vol last;
	struct stet_log_recovery stats;
	const struct lt_ckpt *ckpt;

	(void)state;
	open_fixture(&f, false);
	ckpt = lt_newest(&f.vol);
	damage(&f, 4, 2);
	for (uint32_t round = 0; round < 4; round++) {
		assert_int_equal(lt_mount(&next, f.device, &f.sb, &f.model, ckpt, false, 5 + round,
					  &stats),
				 0);
		assert_int_equal(next.seen.n, 3 + round);
		assert_int_equal(stats.torn_tail, round == 0); /* then they are of the past */
		lt_adopt_seen(&next, ckpt);
		lt_commit(&next, 0, 3);
		assert_int_equal(lt_mount(&last, f.device, &f.sb, &f.model, ckpt, false, 3, &stats),
				 0);
		lt_check_seen(&last, ckpt, f.model.order.v[f.model.order.n - 1], false);
		assert_int_equal(stet_log_last_serial(last.log), stet_log_last_serial(next.log));
		lt_close(&last);
		lt_close(&next);
	}
	close_fixture(&f);
}

/* An old one at next2, torn, and a new one at next1: the generation decides. */
static void both_candidates(void **state)
{
	struct fixture f;
	struct lt_group g;
	struct lt_vol next;
	struct stet_ckpt_record rec;

	(void)state;
	open_fixture(&f, true);
	assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
	assert_int_equal(lt_put(&f.vol, &g, STET_SEGK_LOG, STET_PAYLOAD_DATA, 240, true), 0);
	assert_int_equal(lt_fill(&f.vol, &g, 0, 3), 0);
	stet_log_position(f.vol.log, &rec);
	assert_int_equal(lt_end_commit(&f.vol, &g), 0);
	assert_int_equal(stet_log_perform(g.group, false), 0);
	lt_complete(&f.vol, &g);
	assert_int_equal(stet_addr_seg(f.model.tried.v[COMMITS]->runs.v[0].addr),
			 stet_addr_seg(rec.chain_next2.addr));
	f.place[1] = rec.chain_next2;
	damage(&f, 1, 100);
	assert_int_equal(
		lt_mount(&next, f.device, &f.sb, &f.model, lt_newest(&f.vol), false, 5, NULL), 0);
	assert_int_equal(next.seen.n, COMMITS);
	lt_adopt_seen(&next, lt_newest(&f.vol));
	lt_commit(&next, 0, 3);
	lt_close(&next);
	expect(mount_again(&f, false), 0, COMMITS + 1, false, false);
	close_fixture(&f);
}

/* Records of a batch whose COMMIT never came. */
static void batch_without_commit(void **state)
{
	struct fixture f;
	struct lt_group g;
	struct outcome out;
	char script[64];

	(void)state;
	open_fixture(&f, true);
	assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
	do {
		assert_int_equal(lt_fill(&f.vol, &g, 0, 100), 0);
	} while (g.batch->records.len < 3000000); /* a segment is 1 MiB */
	assert_int_equal(lt_end_commit(&f.vol, &g), 0);
	(void)snprintf(script, sizeof(script), "write#4:eio");
	assert_int_equal(sim_fault_set(f.fault, script), 0);
	assert_int_equal(stet_log_perform(g.group, true), -EIO);
	assert_int_equal(stet_log_group_failed(g.group), STET_LOG_WRITE_FAILED);
	out = mount_again(&f, false);
	expect(out, 0, COMMITS, true, false);
	assert_int_equal(out.stats.psegs, COMMITS + 3);
	lt_abandon(&f.vol, &g);
	lt_commit(&f.vol, 20, 20);
	lt_commit(&f.vol, 20, 20);
	expect(mount_again(&f, false), 0, COMMITS + 2, false, false);
	close_fixture(&f);
}

/* The log goes on behind what was left of it, and is recovered again. */
static void goes_on_behind_open_batch(void **state)
{
	struct fixture f;
	struct lt_group g;
	struct lt_vol next;

	(void)state;
	open_fixture(&f, true);
	assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
	do {
		assert_int_equal(lt_fill(&f.vol, &g, 0, 100), 0);
	} while (g.batch->records.len < 3000000);
	assert_int_equal(lt_end_commit(&f.vol, &g), 0);
	assert_int_equal(sim_fault_set(f.fault, "write#4:eio"), 0);
	assert_int_equal(stet_log_perform(g.group, true), -EIO);
	lt_abandon(&f.vol, &g);
	assert_int_equal(
		lt_mount(&next, f.device, &f.sb, &f.model, lt_newest(&f.vol), false, 5, NULL), 0);
	lt_commit(&next, 20, 20);
	lt_commit(&next, 20, 20);
	lt_close(&next);
	expect(mount_again(&f, false), 0, COMMITS + 2, false, false);
	close_fixture(&f);
}

/* The COMMIT may have landed although its write failed: what it names off the chain is kept. */
static void keeps_what_may_be_named(void **state)
{
	struct fixture f;
	struct lt_group g;
	struct lt_run chain, cold;

	(void)state;
	open_fixture(&f, true);
	assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
	assert_int_equal(lt_put(&f.vol, &g, STET_SEGK_LOG, STET_PAYLOAD_DATA, 3, true), 0);
	assert_int_equal(lt_put(&f.vol, &g, STET_SEGK_COLD, STET_PAYLOAD_DATA, 5, true), 0);
	chain = g.batch->runs.v[0];
	cold = g.batch->runs.v[1];
	assert_int_equal(lt_end_commit(&f.vol, &g), 0);
	assert_int_equal(sim_fault_set(f.fault, "write#2:short=100000"), 0);
	assert_int_equal(stet_log_perform(g.group, true), -EIO);
	lt_abandon(&f.vol, &g);
	assert_false(stet_space_is_held(f.vol.space, chain.addr));
	assert_true(stet_space_is_held(f.vol.space, cold.addr));
	expect(mount_again(&f, false), 0, COMMITS + 1, false, false);
	lt_commit(&f.vol, 30, 30);
	expect(mount_again(&f, false), 0, COMMITS + 1, false, false);
	lt_check_seen(&f.vol, lt_newest(&f.vol), 0, false);
	stet_space_release(f.vol.space, stet_log_last_serial(f.vol.log), NULL, NULL);
	assert_false(stet_space_is_held(f.vol.space, cold.addr));
	close_fixture(&f);
}

static void failed_flush_ends_the_log(void **state)
{
	struct fixture f;
	struct lt_group g;
	struct stet_ckpt_slot slot = { .sequence = 1 };

	(void)state;
	open_fixture(&f, true);
	assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
	assert_int_equal(lt_fill(&f.vol, &g, 10, 10), 0);
	assert_int_equal(lt_end_commit(&f.vol, &g), 0);
	assert_int_equal(sim_fault_set(f.fault, "flush#1:eio"), 0);
	assert_int_equal(stet_log_perform(g.group, true), -EIO);
	assert_int_equal(stet_log_group_failed(g.group), STET_LOG_FLUSH_FAILED);
	lt_abandon(&f.vol, &g);
	assert_int_equal(stet_log_begin(f.vol.log, true, &g.group), -EROFS);
	assert_int_equal(stet_log_write_slot(f.vol.log, &slot), -EROFS);
	close_fixture(&f);
}

/* Both places that the end of the chain names have failed: only opening anew helps. */
static void no_place_left(void **state)
{
	struct fixture f;
	struct lt_group g;

	(void)state;
	open_fixture(&f, true);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(lt_begin_commit(&f.vol, &g, true), 0);
		assert_int_equal(lt_fill(&f.vol, &g, 0, 10), 0);
		assert_int_equal(lt_end_commit(&f.vol, &g), 0);
		assert_int_equal(sim_fault_set(f.fault, "write#1:eio"), 0);
		assert_int_equal(stet_log_perform(g.group, true), -EIO);
		assert_int_equal(stet_log_group_failed(g.group), STET_LOG_WRITE_FAILED);
		lt_abandon(&f.vol, &g);
	}
	assert_int_equal(stet_log_begin(f.vol.log, true, &g.group), -EROFS);
	expect(mount_again(&f, false), 0, COMMITS, false, false);
	close_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_well),
		cmocka_unit_test(damaged_summary),
		cmocka_unit_test(damaged_payload),
		cmocka_unit_test(damaged_far_before_the_proof),
		cmocka_unit_test(not_flushed),
		cmocka_unit_test(read_errors),
		cmocka_unit_test(unreadable_payload_above_durable),
		cmocka_unit_test(one_bad_candidate),
		cmocka_unit_test(stale_generation),
		cmocka_unit_test(both_candidates),
		cmocka_unit_test(batch_without_commit),
		cmocka_unit_test(goes_on_behind_open_batch),
		cmocka_unit_test(keeps_what_may_be_named),
		cmocka_unit_test(failed_flush_ends_the_log),
		cmocka_unit_test(no_place_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
