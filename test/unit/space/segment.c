/* segment.c - places, exhaustion, order of reuse, pins, retiring, adopting, failing memory. */
#include "space_unit.h"

#include "base/mem.h"

#define SLOTS 12u
#define SEG_BLOCKS 64u

static void test_places(void **state)
{
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);
	struct stet_place a = open_ok(space, 1), b = open_ok(space, 2);
	struct stet_addr gone = stet_addr_make(99, 0);
	uint64_t off = 7;

	(void)state;
	assert_int_equal(a.slot, 0);
	assert_int_equal(b.slot, 1);
	assert_int_equal(stet_space_slot(space, stet_addr_seg(b.addr)), 1);
	assert_int_equal(stet_space_locate(space, gone, 1, &off), -ESTALE);
	assert_int_equal(stet_space_locate(space, STET_ADDR_NONE, 1, &off), -EUCLEAN);
	assert_int_equal(stet_space_locate(space, stet_addr_add(b.addr, 60), 5, &off), -EUCLEAN);
	assert_int_equal(off, 7);
	assert_int_equal(stet_space_locate(space, stet_addr_add(b.addr, 60), 4, &off), 0);
	assert_int_equal(off, (uint64_t)(SEG_START + SEG_BLOCKS + 60) * STET_BLOCK_SIZE);
	assert_int_equal(stet_space_slot_offset(space, 1) + 60ull * STET_BLOCK_SIZE, off);
	stet_space_destroy(space);
}

static void test_exhaustion(void **state)
{
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);
	struct stet_place place;

	(void)state;
	for (uint32_t i = 0; i < SLOTS - 3; i++)
		assert_int_equal(stet_space_open_segment(space, STET_SEGK_COLD, i, 3, &place), 0);
	assert_int_equal(stet_space_open_segment(space, STET_SEGK_COLD, 1, 3, &place), -ENOSPC);
	for (uint32_t i = 0; i < 3; i++)
		place = open_ok(space, 50);
	assert_int_equal(stet_space_open_segment(space, STET_SEGK_LOG, 1, 0, &place), -ENOSPC);
	assert_int_equal(usage_of(space).slots_open, SLOTS);
	assert_int_equal(stet_space_next_seg_id(space), SLOTS + 1);
	stet_space_close_segment(space, stet_addr_seg(place.addr));
	assert_int_equal(open_ok(space, 60).slot, place.slot);
	stet_space_check(space);
	stet_space_destroy(space);
}

/* Never-used slots first, then oldest death. */
static void test_order_of_reuse(void **state)
{
	static const uint64_t death[4] = { 40, 20, 30, 10 };
	static const uint32_t wanted[4] = { 3, 1, 2, 0 };
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		struct stet_place place = open_ok(space, i);

		live_ok(space, place.addr, 3);
		assert_int_equal(stet_space_free(space, place.addr, 3, i, death[i]), 0);
		stet_space_close_segment(space, i + 1);
	}
	stet_space_release(space, 100, NULL, NULL);
	assert_int_equal(usage_of(space).slots_free, SLOTS);
	for (uint32_t i = 4; i < SLOTS; i++)
		assert_int_equal(open_ok(space, 50).slot, i);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(info_of(space, wanted[i]).last_death, death[wanted[i]]);
		assert_int_equal(open_ok(space, 50).slot, wanted[i]);
	}
	stet_space_destroy(space);
}

/* Runs that look adjacent but lie in different segments are kept apart. */
static void test_runs_of_two_segments(void **state)
{
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);
	struct stet_addr a = open_ok(space, 1).addr, b = stet_addr_add(open_ok(space, 1).addr, 4);

	(void)state;
	for (int i = 0; i < 2; i++) {
		live_ok(space, a, 4);
		live_ok(space, b, 4);
		assert_int_equal(stet_space_free(space, i ? a : b, 4, 1, 2), 0);
		assert_int_equal(stet_space_free(space, i ? b : a, 4, 1, 2), 0);
		stet_space_check(space);
		stet_space_release(space, 2, NULL, NULL);
		assert_int_equal(usage_of(space).held_blocks, 0);
	}
	stet_space_destroy(space);
}

static void test_pin_and_retire(void **state)
{
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);
	struct stet_place a = open_ok(space, 1), b = open_ok(space, 2);
	uint64_t id_a = stet_addr_seg(a.addr), id_b = stet_addr_seg(b.addr);

	(void)state;
	stet_space_log_pin(space, id_a);
	stet_space_close_segment(space, id_a);
	assert_int_equal(info_of(space, a.slot).state, STET_SEG_FULL);
	stet_space_log_unpin(space, id_a, 33);
	assert_int_equal(info_of(space, a.slot).state, STET_SEG_FREE);
	assert_int_equal(info_of(space, a.slot).last_death, 33);
	assert_int_equal(info_of(space, a.slot).id, id_a);

	live_ok(space, b.addr, 5);
	stet_space_retire(space, id_b);
	stet_space_close_segment(space, id_b);
	assert_int_equal(info_of(space, b.slot).state, STET_SEG_BAD);
	assert_true(stet_space_is_live(space, b.addr));
	assert_int_equal(stet_space_free(space, b.addr, 5, 1, 3), 0);
	assert_false(stet_space_is_live(space, b.addr));
	stet_space_release(space, 3, NULL, NULL);
	assert_int_equal(stet_space_slot(space, id_b), STET_SLOT_NONE);
	stet_space_retire(space, id_b);
	assert_int_equal(usage_of(space).slots_bad, 1);
	for (uint32_t i = 1; i < SLOTS; i++)
		assert_int_not_equal(open_ok(space, 9).slot, b.slot);
	stet_space_check(space);
	stet_space_destroy(space);
}

static void test_adopt(void **state)
{
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);

	(void)state;
	assert_int_equal(stet_space_adopt(space, 0, 1, STET_SEGK_LOG, 5), -EUCLEAN);
	assert_int_equal(stet_space_adopt(space, 7, SLOTS, STET_SEGK_LOG, 5), -EUCLEAN);
	assert_int_equal(stet_space_adopt(space, 7, 1, STET_SEGK_NODE, 5), 0);
	assert_int_equal(stet_space_adopt(space, 7, 1, STET_SEGK_NODE, 5), 0);
	assert_int_equal(stet_space_adopt(space, 7, 2, STET_SEGK_NODE, 5), -EUCLEAN);
	assert_int_equal(stet_space_next_seg_id(space), 8);
	assert_int_equal(stet_space_adopt(space, 9, 1, STET_SEGK_LOG, 6), 0);
	assert_int_equal(stet_space_slot(space, 7), STET_SLOT_NONE);
	assert_int_equal(stet_space_adopt(space, 7, 1, STET_SEGK_NODE, 5), -ESTALE);
	assert_int_equal(stet_space_hold_checked(space, stet_addr_make(9, 3), 2), 0);
	assert_int_equal(stet_space_hold_checked(space, stet_addr_make(9, 2), 2), 0);
	assert_int_equal(info_of(space, 1).held_blocks, 3);
	assert_int_equal(stet_space_adopt(space, 10, 1, STET_SEGK_LOG, 7), -EUCLEAN);
	assert_int_equal(stet_space_make_live(space, stet_addr_make(9, 2), 3), 0);
	assert_int_equal(stet_space_hold_checked(space, stet_addr_make(9, 1), 2), -EUCLEAN);
	assert_int_equal(stet_space_adopt(space, 10, 1, STET_SEGK_LOG, 7), -EUCLEAN);
	/* Nothing goes before the log is read to its end. */
	assert_int_equal(stet_space_adopt(space, 10, 2, STET_SEGK_LOG, 7), 0);
	assert_int_equal(stet_space_hold_checked(space, stet_addr_make(10, 0), 2), 0);
	assert_int_equal(stet_space_drop(space, stet_addr_make(10, 0), 2, 7, 0), 0);
	assert_int_equal(stet_space_slot(space, 10), 2);
	stet_space_log_pin(space, 10);
	assert_int_equal(stet_space_adopt(space, 11, 2, STET_SEGK_LOG, 8), -EUCLEAN);
	stet_space_log_unpin(space, 10, 8);
	stet_space_check(space);
	stet_space_recovered(space);
	assert_int_equal(stet_space_slot(space, 10), STET_SLOT_NONE);
	assert_int_equal(stet_space_slot(space, 9), 1);
	stet_space_check(space);
	stet_space_destroy(space);
}

/* Whatever fails for want of memory changed nothing and works when repeated. */
static void test_no_memory(void **state)
{
	struct stet_superblock sb = sb_of(SLOTS, SEG_BLOCKS);
	struct stet_space *space = NULL;
	struct stet_place place = { 0 };
	int rc;

	(void)state;
	for (int64_t n = 1;; n++) {
		stet_mem_fail_after(n);
		rc = stet_space_create(&sb, &space);
		if (!rc)
			break;
		assert_int_equal(rc, -ENOMEM);
	}
	stet_mem_fail_after(1);
	assert_int_equal(stet_space_open_segment(space, STET_SEGK_LOG, 1, 0, &place), -ENOMEM);
	assert_int_equal(stet_space_next_seg_id(space), 1);
	stet_space_check(space);
	stet_mem_fail_after(-1);
	place = open_ok(space, 1);
	live_ok(space, place.addr, 8);
	for (int64_t n = 1; n < 3; n++) {
		stet_mem_fail_after(n);
		assert_int_equal(stet_space_free(space, place.addr, 8, 1, 2), -ENOMEM);
		assert_true(stet_space_is_live(space, place.addr));
		stet_space_check(space);
	}
	stet_mem_fail_after(-1);
	assert_int_equal(stet_space_free(space, place.addr, 8, 1, 2), 0);
	stet_mem_fail_after(1);
	stet_space_release(space, 2, NULL, NULL);
	stet_mem_fail_after(-1);
	assert_int_equal(usage_of(space).held_blocks, 0);
	stet_space_check(space);
	stet_space_destroy(space);
	stet_space_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_exhaustion),
		cmocka_unit_test(test_order_of_reuse),
		cmocka_unit_test(test_pin_and_retire),
		cmocka_unit_test(test_runs_of_two_segments),
		cmocka_unit_test(test_adopt),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
