/* table.c - the table through its pages: what is encoded is what is loaded. */
#include "space_unit.h"

#include "base/crc.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 230u
#define SEG_BLOCKS 64u
#define PAGES_MAX 8u

struct image {
	uint8_t page[PAGES_MAX][STET_BLOCK_SIZE];
	struct stet_table_ptr ptr[PAGES_MAX];
	uint64_t next_seg_id;
};

/* As a checkpoint does: place the dirty pages until none is left, then encode them. */
static uint32_t write_table(struct stet_space *space, struct stet_addr *where, uint64_t cut,
			    struct image *image)
{
	bool placed[PAGES_MAX] = { false };
	uint32_t n = 0;
	bool again = true;

	while (again) {
		again = false;
		for (uint32_t i = 0; i < stet_space_page_count(space); i++) {
			struct stet_table_ptr ptr = stet_space_page_ptr(space, i);

			if (placed[i] || !stet_space_page_dirty(space, i))
				continue;
			if (!stet_addr_is_none(ptr.addr))
				assert_int_equal(stet_space_drop(space, ptr.addr, 1, 0, cut), 0);
			stet_space_hold(space, *where, 1);
			ptr.addr = *where;
			ptr.slot = stet_space_slot(space, stet_addr_seg(*where));
			stet_space_page_placed(space, i, &ptr);
			*where = stet_addr_add(*where, 1);
			placed[i] = again = true;
			n++;
		}
	}
	for (uint32_t i = 0; i < stet_space_page_count(space); i++) {
		if (!placed[i])
			continue;
		stet_space_page_encode(space, i, cut, image->page[i]);
		image->ptr[i] = stet_space_page_ptr(space, i);
		image->ptr[i].crc = stet_crc32c(image->page[i], STET_BLOCK_SIZE);
		stet_space_page_placed(space, i, &image->ptr[i]);
		assert_false(stet_space_page_dirty(space, i));
	}
	image->next_seg_id = stet_space_next_seg_id(space);
	return n;
}

static struct stet_space *load_pages(const struct image *image)
{
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);

	for (uint32_t i = stet_space_page_count(space); i-- > 0;) {
		assert_int_equal(
			stet_table_page_verify(image->page[i], VOLUME_ID, i, SEG_BLOCKS, SLOTS), 0);
		assert_int_equal(stet_space_load_page(space, i, image->page[i], &image->ptr[i]), 0);
		assert_false(stet_space_page_dirty(space, i));
	}
	return space;
}

static void assert_same(const struct stet_space *a, const struct stet_space *b)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct stet_seg_info ia = info_of(a, i), ib = info_of(b, i);
		uint64_t live_a, live_b;

		stet_space_live_bitmap(a, i, &live_a);
		stet_space_live_bitmap(b, i, &live_b);
		assert_int_equal(ia.id, ib.id);
		assert_int_equal(ia.state, ib.state);
		assert_int_equal(ia.kind, ib.kind);
		assert_int_equal(ia.opened, ib.opened);
		assert_int_equal(ia.live_blocks, ib.live_blocks);
		assert_true(live_a == live_b);
		if (ia.state == STET_SEG_FREE)
			assert_int_equal(ia.last_death, ib.last_death);
	}
	assert_int_equal(usage_of(a).live_blocks, usage_of(b).live_blocks);
}

/* Segments of every state and kind, some freed again. */
static void fill(struct stet_space *space, struct stet_random *random)
{
	for (uint64_t i = 0; i < SLOTS * 3 / 4; i++) {
		enum stet_seg_kind kind = (enum stet_seg_kind)(i % STET_SEGK_COUNT);
		struct stet_place place;
		uint32_t blocks = 1 + (uint32_t)stet_random_below(random, SEG_BLOCKS);

		assert_int_equal(stet_space_open_segment(space, kind, i * 10, 0, &place), 0);
		live_ok(space, stet_addr_add(place.addr, SEG_BLOCKS - blocks), blocks);
		if (i % 4 == 0)
			assert_int_equal(
				stet_space_free(space,
						stet_addr_add(place.addr, SEG_BLOCKS - blocks),
						blocks, i, 5000 - i),
				0);
		if (i % 7 == 0)
			stet_space_retire(space, i + 1);
		else if (i % 3 > 0)
			stet_space_close_segment(space, i + 1);
	}
	stet_space_release(space, 4990, NULL, NULL);
}

static void test_round_trip(void **state)
{
	struct image *image = calloc(1, sizeof(*image));
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);
	struct stet_random random;
	struct stet_addr where;
	struct stet_space *loaded;

	(void)state;
	stet_random_seed(&random, 3);
	fill(space, &random);
	where = open_ok(space, 8000).addr;
	assert_int_equal(write_table(space, &where, 9000, image), stet_space_page_count(space));
	loaded = load_pages(image);
	assert_int_equal(stet_space_load_done(loaded, image->next_seg_id), 0);
	stet_space_check(loaded);
	assert_same(space, loaded);
	assert_int_equal(usage_of(loaded).held_blocks, stet_space_page_count(space));

	/* Writing the table changed nothing that it counts: it is not dirty again. */
	assert_int_equal(write_table(space, &where, 9001, image), 0);
	/* One change, one page, and then (the old place died) none. */
	live_ok(space, where, 1);
	where = stet_addr_add(where, 1);
	assert_int_equal(write_table(space, &where, 9002, image), 1);
	assert_int_equal(write_table(space, &where, 9003, image), 0);

	stet_space_recovered(loaded);
	stet_space_check(loaded);
	assert_int_equal(usage_of(loaded).slots_open, 0);
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct stet_seg_info info = info_of(loaded, i);

		if (info.state == STET_SEG_FULL)
			assert_true(info.live_blocks + info.held_blocks > 0);
	}
	stet_space_destroy(loaded);
	stet_space_destroy(space);
	free(image);
}

/* An empty FULL or OPEN segment is written as it is, and stays until the log is read. */
static void test_empty_segments(void **state)
{
	struct image *image = calloc(1, sizeof(*image));
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);
	struct stet_place a = open_ok(space, 1), b = open_ok(space, 2), c = open_ok(space, 3);
	struct stet_space *loaded;

	(void)state;
	stet_space_log_pin(space, 2);
	stet_space_close_segment(space, 2);
	write_table(space, &c.addr, 10, image);
	loaded = load_pages(image);
	assert_int_equal(stet_space_load_done(loaded, image->next_seg_id), 0);
	assert_int_equal(info_of(loaded, a.slot).state, STET_SEG_OPEN);
	assert_int_equal(info_of(loaded, b.slot).state, STET_SEG_FULL);
	assert_int_equal(stet_space_adopt(loaded, 1, a.slot, STET_SEGK_LOG, 1), 0);
	stet_space_log_pin(loaded, 1);
	assert_int_equal(info_of(loaded, a.slot).state, STET_SEG_FULL);
	stet_space_recovered(loaded);
	assert_int_equal(info_of(loaded, a.slot).state, STET_SEG_FULL);
	assert_int_equal(info_of(loaded, b.slot).state, STET_SEG_FREE);
	assert_int_equal(info_of(loaded, c.slot).state, STET_SEG_FULL);
	assert_int_equal(info_of(loaded, c.slot).held_blocks, stet_space_page_count(loaded));
	stet_space_check(loaded);
	stet_space_destroy(loaded);
	stet_space_destroy(space);
	free(image);
}

static void expect_refused(const struct image *image, uint64_t next_seg_id)
{
	struct stet_space *space = load_pages(image);

	assert_int_equal(stet_space_load_done(space, next_seg_id), -EUCLEAN);
	stet_space_destroy(space);
}

static void test_refused(void **state)
{
	struct image *image = calloc(1, sizeof(*image)), *bad = calloc(1, sizeof(*bad));
	struct stet_space *space = create_ok(SLOTS, SEG_BLOCKS);
	struct stet_seg_entry entry = { .id = 1, .state = STET_SEG_OPEN };
	struct stet_place a = open_ok(space, 1), b = open_ok(space, 2);
	uint64_t none = 0;

	(void)state;
	live_ok(space, a.addr, 1);
	write_table(space, &b.addr, 10, image);
	expect_refused(image, 0);
	expect_refused(image, 2);
	*bad = *image;
	bad->ptr[1].addr = STET_ADDR_NONE;
	expect_refused(bad, 3);
	bad->ptr[1].addr = stet_addr_make(2, SEG_BLOCKS);
	expect_refused(bad, 3);
	bad->ptr[1].addr = stet_addr_make(77, 0);
	expect_refused(bad, 3);
	bad->ptr[1].addr = image->ptr[0].addr; /* two pages in one place */
	expect_refused(bad, 3);
	bad->ptr[1] = (struct stet_table_ptr){ .addr = a.addr, .slot = a.slot }; /* live */
	expect_refused(bad, 3);
	bad->ptr[1] = image->ptr[1];
	bad->ptr[1].slot++;
	expect_refused(bad, 3);
	*bad = *image;
	stet_table_page_put(bad->page[1], 0, &entry, &none); /* an id twice */
	expect_refused(bad, 3);
	stet_space_destroy(space);
	free(image);
	free(bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_empty_segments),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
