/* admission.c - promises: an operation reserves what it will need before it is accepted.
 *
 * I1. No reservation is accepted that takes live + pinned + reserved above the limit. Other held
 *     blocks do not count: those that will become live are still among the reserved ones, and those
 *     that only the older checkpoint needs come free with the next checkpoint.
 * I2. NORMAL leaves the reserve alone, so that what empties a full volume always finds room;
 *     PRIVILEGED leaves a few segments: the open ends of the heads are never filled to the last block.
 */
#include "space/space_internal.h"

#include "base/assert.h"

/* The reserve is a tenth of the capacity and 4 MiB, but no more than a quarter. */
#define RESERVE_SHARE 10
#define RESERVE_BLOCKS (((uint64_t)4 << 20) / STET_BLOCK_SIZE)
#define RESERVE_SHARE_MAX 4
#define RESERVE_SLOTS_MIN 4
#define PRIVILEGED_SPARE_SEGMENTS 4

static uint64_t capacity_blocks(const struct stet_space *space)
{
	return (uint64_t)(space->slot_count - space->state_n[STET_SEG_BAD]) * space->seg_blocks;
}

static uint64_t reserve_blocks(uint64_t capacity)
{
	uint64_t wanted = capacity / RESERVE_SHARE + RESERVE_BLOCKS;
	uint64_t most = capacity / RESERVE_SHARE_MAX;

	return wanted < most ? wanted : most;
}

/* Half of the reserve in whole segments: the other half may lie in partly used ones. */
static uint32_t reserve_slots(const struct stet_space *space)
{
	uint64_t slots = reserve_blocks(capacity_blocks(space)) / space->seg_blocks / 2;

	return slots > RESERVE_SLOTS_MIN ? (uint32_t)slots : RESERVE_SLOTS_MIN;
}

static uint64_t limit_blocks(const struct stet_space *space, enum stet_space_class class)
{
	uint64_t capacity = capacity_blocks(space);
	uint64_t spare = (uint64_t)PRIVILEGED_SPARE_SEGMENTS * space->seg_blocks;

	if (class == STET_SPACE_NORMAL)
		return capacity - reserve_blocks(capacity);
	return capacity > spare ? capacity - spare : 0;
}

int stet_space_reserve(struct stet_space *space, uint64_t blocks, enum stet_space_class class)
{
	uint64_t used = space->live_blocks + space->pinned_blocks + space->reserved_blocks;
	uint64_t limit = limit_blocks(space, class);

	if (used > limit || blocks > limit - used)
		return -ENOSPC;
	space->reserved_blocks += blocks;
	return 0;
}

void stet_space_unreserve(struct stet_space *space, uint64_t blocks)
{
	STET_ASSERT_CMP(blocks, <=, space->reserved_blocks);
	space->reserved_blocks -= blocks;
}

void stet_space_usage(const struct stet_space *space, struct stet_space_usage *ret)
{
	uint64_t capacity = capacity_blocks(space);

	*ret = (struct stet_space_usage){
		.capacity_blocks = capacity,
		.reserve_blocks = reserve_blocks(capacity),
		.live_blocks = space->live_blocks,
		.held_blocks = space->held_blocks,
		.dying_blocks = space->dying_blocks,
		.pinned_blocks = space->pinned_blocks,
		.reserved_blocks = space->reserved_blocks,
		.slots_free = space->state_n[STET_SEG_FREE],
		.slots_open = space->state_n[STET_SEG_OPEN],
		.slots_full = space->state_n[STET_SEG_FULL],
		.slots_bad = space->state_n[STET_SEG_BAD],
		.slots_total = space->slot_count,
		.reserve_slots = reserve_slots(space),
	};
}
