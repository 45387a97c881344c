/* space_unit.h - what every unit test of space/ includes: cmocka and a small table. */
#ifndef STET_TEST_SPACE_UNIT_H
#define STET_TEST_SPACE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "space/space.h"

#define VOLUME_ID UINT64_C(0x1122334455667788)
#define SEG_START 32u

static inline struct stet_superblock sb_of(uint32_t slot_count, uint32_t seg_blocks)
{
	return (struct stet_superblock){
		.volume_id = VOLUME_ID,
		.seg_start_block = SEG_START,
		.slot_count = slot_count,
		.seg_blocks = seg_blocks,
	};
}

static inline struct stet_space *create_ok(uint32_t slot_count, uint32_t seg_blocks)
{
	struct stet_superblock sb = sb_of(slot_count, seg_blocks);
	struct stet_space *space = NULL;

	assert_int_equal(stet_space_create(&sb, &space), 0);
	return space;
}

static inline struct stet_place open_ok(struct stet_space *space, uint64_t serial)
{
	struct stet_place place = { 0 };

	assert_int_equal(stet_space_open_segment(space, STET_SEGK_LOG, serial, 0, &place), 0);
	return place;
}

/* Places blocks and makes them live. */
static inline void live_ok(struct stet_space *space, struct stet_addr addr, uint32_t blocks)
{
	stet_space_hold(space, addr, blocks);
	assert_int_equal(stet_space_make_live(space, addr, blocks), 0);
}

static inline struct stet_seg_info info_of(const struct stet_space *space, uint32_t slot)
{
	struct stet_seg_info info;

	stet_space_info(space, slot, &info);
	return info;
}

static inline struct stet_space_usage usage_of(const struct stet_space *space)
{
	struct stet_space_usage usage;

	stet_space_usage(space, &usage);
	return usage;
}

#endif
