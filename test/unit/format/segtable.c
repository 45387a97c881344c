/* segtable.c - pages of the segment table. */
#include "format/segtable.h"

#include "base/crc.h"

#include "format_test.h"

static uint32_t random_entry(struct stet_random *random, uint32_t seg_blocks,
			     struct stet_seg_entry *entry,
			     uint64_t bitmap[STET_SEG_BLOCKS_MAX / 64])
{
	uint32_t live = 0;

	*entry = (struct stet_seg_entry){
		.id = stet_random_below(random, STET_SEG_ID_MAX) + 1,
		.opened = stet_random_next(random),
		.last_death = stet_random_next(random),
		.state = (enum stet_seg_state)stet_random_below(random, 4),
		.kind = (enum stet_seg_kind)stet_random_below(random, STET_SEGK_COUNT),
	};
	for (uint32_t i = 0; i < seg_blocks / 64; i++) {
		bitmap[i] = entry->state == STET_SEG_FREE ? 0 : stet_random_next(random);
		live += (uint32_t)__builtin_popcountll(bitmap[i]);
	}
	entry->live_blocks = live;
	return live;
}

static void round_trips_of_all_geometries(void **state)
{
	static uint64_t bitmap[128][STET_SEG_BLOCKS_MAX / 64];
	static struct stet_seg_entry entry[128];
	struct stet_random random;
	uint8_t page[STET_BLOCK_SIZE];

	(void)state;
	stet_random_seed(&random, 1);
	for (uint32_t seg_blocks = 64; seg_blocks <= 4096; seg_blocks *= 2) {
		uint32_t fit = stet_table_page_entries(seg_blocks);
		uint32_t slots = 2 * fit + 1;

		assert_true(fit >= 1 && fit <= 128);
		assert_int_equal(stet_table_page_count(slots, seg_blocks), 3);
		assert_int_equal(stet_table_page_count(2 * fit, seg_blocks), 2);
		assert_int_equal(stet_table_page_count(0, seg_blocks), 0);
		for (uint32_t no = 0; no < 3; no++) {
			uint32_t n = no == 2 ? 1 : fit;

			stet_table_page_begin(page, TEST_VOLUME, 9, no, seg_blocks, slots);
			for (uint32_t i = 0; i < n; i++) {
				random_entry(&random, seg_blocks, &entry[i], bitmap[i]);
				stet_table_page_put(page, i, &entry[i], bitmap[i]);
			}
			assert_int_equal(stet_table_page_verify(page, TEST_VOLUME, no, seg_blocks,
								slots),
					 0);
			for (uint32_t i = 0; i < n; i++) {
				uint64_t bits[STET_SEG_BLOCKS_MAX / 64];
				struct stet_seg_entry back;

				stet_table_page_get(page, i, &back, bits);
				assert_memory_equal(bits, bitmap[i], seg_blocks / 8);
				assert_int_equal(back.state, entry[i].state);
				assert_int_equal(back.kind, entry[i].kind);
				assert_int_equal(back.live_blocks, entry[i].live_blocks);
				assert_true(back.id == entry[i].id);
				assert_true(back.opened == entry[i].opened);
				assert_true(back.last_death == entry[i].last_death);
			}
		}
	}
}

static void make_page(uint8_t page[STET_BLOCK_SIZE], uint32_t seg_blocks, uint32_t slots)
{
	uint64_t bitmap[STET_SEG_BLOCKS_MAX / 64];
	struct stet_random random;
	struct stet_seg_entry entry;

	stet_random_seed(&random, 2);
	stet_table_page_begin(page, TEST_VOLUME, 9, 0, seg_blocks, slots);
	for (uint32_t i = 0; i < slots && i < stet_table_page_entries(seg_blocks); i++) {
		random_entry(&random, seg_blocks, &entry, bitmap);
		stet_table_page_put(page, i, &entry, bitmap);
	}
}

/* As a reader does: the pointer's CRC first. */
static int verify(const uint8_t *page, void *arg)
{
	if (stet_crc32c(page, STET_BLOCK_SIZE) != *(uint32_t *)arg)
		return -EUCLEAN;
	return stet_table_page_verify(page, TEST_VOLUME, 0, 256, 500);
}

static void every_flip_is_found(void **state)
{
	uint8_t *page = exact(STET_BLOCK_SIZE);
	uint32_t crc;

	(void)state;
	make_page(page, 256, 500);
	crc = stet_crc32c(page, STET_BLOCK_SIZE);
	assert_flips_found(page, STET_BLOCK_SIZE, verify, &crc);
	free(page);
}

static void wrong_pages_are_refused(void **state)
{
	uint8_t *page = exact(STET_BLOCK_SIZE);

	(void)state;
	make_page(page, 256, 500);
	assert_int_equal(stet_table_page_verify(page, TEST_VOLUME, 0, 256, 500), 0);
	assert_int_equal(stet_table_page_verify(page, TEST_VOLUME ^ 1, 0, 256, 500), -EUCLEAN);
	assert_int_equal(stet_table_page_verify(page, TEST_VOLUME, 1, 256, 500), -EUCLEAN);
	assert_int_equal(stet_table_page_verify(page, TEST_VOLUME, UINT32_MAX, 256, 500), -EUCLEAN);
	assert_int_equal(stet_table_page_verify(page, TEST_VOLUME, 0, 128, 500), -EUCLEAN);
	assert_int_equal(stet_table_page_verify(page, TEST_VOLUME, 0, 256, 5), -EUCLEAN);
	free(page);
}

static void entry_rules(void **state)
{
	uint8_t *page = exact(STET_BLOCK_SIZE);
	const struct {
		struct stet_seg_entry entry;
		uint64_t word;
		int rc;
	} c[] = {
		{ { .id = 0, .state = STET_SEG_FREE }, 0, 0 },
		{ { .id = 0, .state = STET_SEG_BAD }, 0, 0 },
		{ { .id = 0, .state = STET_SEG_OPEN }, 0, -EUCLEAN },
		{ { .id = 0, .state = STET_SEG_FULL }, 0, -EUCLEAN },
		{ { .id = 0, .state = STET_SEG_BAD, .live_blocks = 1 }, 1, -EUCLEAN },
		{ { .id = 1, .state = STET_SEG_BAD, .live_blocks = 1 }, 1, 0 },
		{ { .id = 1, .state = STET_SEG_FREE, .live_blocks = 1 }, 1, -EUCLEAN },
		{ { .id = 1, .state = STET_SEG_FULL, .live_blocks = 64 }, UINT64_MAX, 0 },
		{ { .id = 1, .state = STET_SEG_FULL, .live_blocks = 63 }, UINT64_MAX, -EUCLEAN },
		{ { .id = STET_SEG_ID_MAX, .state = STET_SEG_OPEN }, 0, 0 },
		{ { .id = STET_SEG_ID_MAX + 1, .state = STET_SEG_OPEN }, 0, -EUCLEAN },
		{ { .id = 1, .state = (enum stet_seg_state)4 }, 0, -EUCLEAN },
		{ { .id = 1, .kind = STET_SEGK_COUNT }, 0, -EUCLEAN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		stet_table_page_begin(page, TEST_VOLUME, 1, 0, 64, 1);
		stet_table_page_put(page, 0, &c[i].entry, &c[i].word);
		assert_int_equal(stet_table_page_verify(page, TEST_VOLUME, 0, 64, 1), c[i].rc);
	}
	free(page);
}

static void hostile_pages_stay_in_bounds(void **state)
{
	uint64_t bitmap[STET_SEG_BLOCKS_MAX / 64];
	uint8_t *page = exact(STET_BLOCK_SIZE);
	struct stet_seg_entry entry;
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 3);
	for (int i = 0; i < 20000; i++) {
		uint32_t seg_blocks = 64u << i % 7;
		uint32_t slots = 1 + (uint32_t)i % 200;

		make_page(page, seg_blocks, slots);
		mutate(&random, page, stet_random_below(&random, 2) ? 64 : STET_BLOCK_SIZE);
		if (stet_table_page_verify(page, TEST_VOLUME, 0, seg_blocks, slots) != 0)
			continue;
		for (uint32_t s = 0; s < slots && s < stet_table_page_entries(seg_blocks); s++) {
			stet_table_page_get(page, s, &entry, bitmap);
			assert_true(entry.live_blocks <= seg_blocks);
			assert_true(entry.state <= STET_SEG_BAD);
		}
	}
	free(page);
}

static void printing(void **state)
{
	struct stet_seg_entry entry = { .id = 12, .state = STET_SEG_FULL, .kind = STET_SEGK_COLD };
	struct stet_text t = { .p = NULL };

	(void)state;
	stet_seg_entry_print(&t, &entry);
	assert_prints(&t, "segment 12 full cold");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trips_of_all_geometries),
		cmocka_unit_test(every_flip_is_found),
		cmocka_unit_test(wrong_pages_are_refused),
		cmocka_unit_test(entry_rules),
		cmocka_unit_test(hostile_pages_stay_in_bounds),
		cmocka_unit_test(printing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
