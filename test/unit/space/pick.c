/* pick.c - which segments the cleaner is given, and which never. */
#include "space_unit.h"

#define SEG_BLOCKS 64u
#define SEGMENTS 8u

/* Segment i + 1 lies in slot i, FULL, with its first live[i] blocks live. */
static struct stet_space *make(const uint32_t live[SEGMENTS])
{
	struct stet_space *space = create_ok(20, SEG_BLOCKS);

	for (uint32_t i = 0; i < SEGMENTS; i++) {
		struct stet_place place = open_ok(space, i);

		assert_int_equal(place.slot, i);
		live_ok(space, place.addr, live[i]);
	}
	for (uint32_t i = 0; i < SEGMENTS; i++)
		stet_space_close_segment(space, i + 1);
	return space;
}

static uint64_t pick_id(struct stet_space *space)
{
	struct stet_seg_info info;
	int rc = stet_space_pick(space, stet_space_score_greedy, 100, &info);

	if (rc) {
		assert_int_equal(rc, -ENOENT);
		return 0;
	}
	assert_int_equal(info.state, STET_SEG_FULL);
	assert_int_equal(stet_space_slot(space, info.id), info.slot);
	return info.id;
}

static void test_order_and_marks(void **state)
{
	const uint32_t live[SEGMENTS] = { 30, 10, SEG_BLOCKS, 0, 20, 10, 5, 1 };
	struct stet_space *space = make(live);
	struct stet_place open;

	(void)state;
	assert_int_equal(stet_space_slot(space, 4), STET_SLOT_NONE);
	stet_space_log_pin(space, 8);
	stet_space_retire(space, 7);
	open = open_ok(space, 50);
	live_ok(space, open.addr, 1);
	assert_int_equal(pick_id(space), 2);
	assert_int_equal(pick_id(space), 6);
	assert_int_equal(pick_id(space), 5);
	assert_int_equal(pick_id(space), 1);
	assert_int_equal(pick_id(space), 0);
	stet_space_log_unpin(space, 8, 60);
	assert_int_equal(pick_id(space), 8);
	stet_space_unpick(space, 5);
	stet_space_unpick(space, 4);
	stet_space_unpick(space, 999);
	assert_int_equal(pick_id(space), 5);
	assert_int_equal(pick_id(space), 0);
	stet_space_close_segment(space, stet_addr_seg(open.addr));
	assert_int_equal(pick_id(space), stet_addr_seg(open.addr));
	stet_space_destroy(space);
}

/* The mark goes with the segment: the slot's next one can be picked. */
static void test_mark_ends_with_the_segment(void **state)
{
	const uint32_t live[SEGMENTS] = { 1, 0, 0, 0, 0, 0, 0, 0 };
	struct stet_space *space = make(live);
	struct stet_place next;

	(void)state;
	assert_int_equal(pick_id(space), 1);
	assert_int_equal(stet_space_free(space, stet_addr_make(1, 0), 1, 1, 2), 0);
	stet_space_release(space, 2, NULL, NULL);
	assert_int_equal(stet_space_slot(space, 1), STET_SLOT_NONE);
	do {
		next = open_ok(space, 10);
		live_ok(space, next.addr, SEG_BLOCKS);
	} while (next.slot != 0);
	assert_int_equal(stet_space_free(space, next.addr, 1, 10, 20), 0);
	stet_space_close_segment(space, stet_addr_seg(next.addr));
	assert_int_equal(pick_id(space),
			 0); /* a dying block: moving the others would free nothing */
	stet_space_release(space, 20, NULL, NULL);
	assert_int_equal(pick_id(space), stet_addr_seg(next.addr));
	stet_space_check(space);
	stet_space_destroy(space);
}

/* What a checkpoint frees stays for the older slot, also where both have one cut; the next one releases it. */
static void test_same_cut(void **state)
{
	const uint32_t live[SEGMENTS] = { 1, 1, 0, 0, 0, 0, 0, 0 };
	struct stet_space *space = make(live);

	(void)state;
	assert_int_equal(stet_space_free(space, stet_addr_make(1, 0), 1, 1, 2), 0);
	stet_space_release(space, 1, NULL, NULL);
	assert_int_not_equal(stet_space_slot(space, 1), STET_SLOT_NONE);
	assert_int_equal(stet_space_free(space, stet_addr_make(2, 0), 1, 1, 2), 0);
	stet_space_release_same(space, 2, NULL, NULL);
	assert_int_equal(stet_space_slot(space, 1), STET_SLOT_NONE);
	assert_int_not_equal(stet_space_slot(space, 2), STET_SLOT_NONE);
	stet_space_release_same(space, 2, NULL, NULL);
	assert_int_equal(stet_space_slot(space, 2), STET_SLOT_NONE);
	stet_space_check(space);
	stet_space_destroy(space);
}

static double score_none(const struct stet_seg_info *seg, uint32_t seg_blocks, uint64_t now_serial)
{
	(void)seg;
	(void)seg_blocks;
	(void)now_serial;
	return 0;
}

/* The older the better. */
static double score_age(const struct stet_seg_info *seg, uint32_t seg_blocks, uint64_t now_serial)
{
	(void)seg_blocks;
	return (double)(now_serial - seg->opened);
}

static void test_policy(void **state)
{
	const uint32_t live[SEGMENTS] = { 9, 8, 7, 6, 5, 4, 3, 2 };
	struct stet_space *space = make(live);
	struct stet_seg_info info;

	(void)state;
	assert_int_equal(stet_space_pick(space, score_none, 100, &info), -ENOENT);
	assert_int_equal(stet_space_pick(space, score_age, 100, &info), 0);
	assert_int_equal(info.id, 1);
	assert_int_equal(info.live_blocks, 9);
	stet_space_destroy(space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_marks),
		cmocka_unit_test(test_mark_ends_with_the_segment),
		cmocka_unit_test(test_same_cut),
		cmocka_unit_test(test_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
