/* blocks.c - runs of blocks: placed, named by a root, no longer named, given up.
 *
 *	free --hold--> held --make_live--> live --free--> held, dying --release--> free
 *	               held --drop--> held, dying (cut 0: free at once)
 *
 * I1. live and held are disjoint; a dying block is held and in exactly one run (release.c).
 * I2. A dying block never comes back: neither placed nor named nor given up again before its release.
 * I3. A call that fails changed nothing.
 */
#include "space/space_internal.h"

#include "base/assert.h"

/* The slot in which the run lies, NULL when it leaves its segment or that is gone. */
static struct stet_slot *slot_of_run(const struct stet_space *space, struct stet_addr addr,
				     uint32_t blocks)
{
	if (!stet_addr_fits(addr, blocks, space->seg_blocks))
		return NULL;
	return stet_space_find_(space, stet_addr_seg(addr));
}

static int bad_run(struct stet_addr addr, uint32_t blocks, const char *what)
{
	return STET_FAIL(-EUCLEAN, "%" PRIu64 ":%" PRIu32 ": %" PRIu32 " blocks %s",
			 stet_addr_seg(addr), stet_addr_block(addr), blocks, what);
}

static uint32_t dying_in(const struct stet_space *space, const struct stet_slot *slot,
			 uint32_t first, uint32_t blocks)
{
	return slot->dying ? stet_space_count_(space, slot->dying, first, blocks) : 0;
}

/* Held, and not dying: in a place, and wanted. */
static bool all_placed(const struct stet_space *space, const struct stet_slot *slot, uint32_t first,
		       uint32_t blocks)
{
	return stet_space_count_(space, slot->held, first, blocks) == blocks &&
	       dying_in(space, slot, first, blocks) == 0;
}

static void add_held(struct stet_space *space, struct stet_slot *slot, uint32_t first,
		     uint32_t blocks, uint32_t new_blocks)
{
	stet_space_set_(space, slot->held, first, blocks);
	slot->held_blocks += new_blocks;
	space->held_blocks += new_blocks;
}

static void sub_held(struct stet_space *space, struct stet_slot *slot, uint32_t first,
		     uint32_t blocks)
{
	stet_space_clear_(space, slot->held, first, blocks);
	slot->held_blocks -= blocks;
	space->held_blocks -= blocks;
}

void stet_space_hold(struct stet_space *space, struct stet_addr addr, uint32_t blocks)
{
	struct stet_slot *slot = slot_of_run(space, addr, blocks);
	uint32_t first = stet_addr_block(addr);

	STET_ASSERT(slot);
	STET_ASSERT_CMP(stet_space_count_(space, slot->live, first, blocks), ==, 0);
	STET_ASSERT_CMP(stet_space_count_(space, slot->held, first, blocks), ==, 0);
	add_held(space, slot, first, blocks, blocks);
}

int stet_space_hold_checked(struct stet_space *space, struct stet_addr addr, uint32_t blocks)
{
	struct stet_slot *slot = slot_of_run(space, addr, blocks);
	uint32_t first = stet_addr_block(addr);

	if (!slot)
		return bad_run(addr, blocks, "placed where no segment is");
	if (stet_space_count_(space, slot->live, first, blocks) > 0)
		return bad_run(addr, blocks, "placed on live ones");
	if (dying_in(space, slot, first, blocks) > 0)
		return bad_run(addr, blocks, "placed on ones given up"); /* I2 */
	add_held(space, slot, first, blocks,
		 blocks - stet_space_count_(space, slot->held, first, blocks));
	return 0;
}

int stet_space_make_live(struct stet_space *space, struct stet_addr addr, uint32_t blocks)
{
	struct stet_slot *slot = slot_of_run(space, addr, blocks);
	uint32_t first = stet_addr_block(addr);

	if (!slot || !all_placed(space, slot, first, blocks))
		return bad_run(addr, blocks, "named by a root, but not held");
	sub_held(space, slot, first, blocks);
	stet_space_set_(space, slot->live, first, blocks);
	slot->live_blocks += blocks;
	space->live_blocks += blocks;
	stet_space_mark_dirty_(space, slot);
	return 0;
}

int stet_space_free(struct stet_space *space, struct stet_addr addr, uint32_t blocks,
		    uint64_t birth, uint64_t cut)
{
	struct stet_slot *slot = slot_of_run(space, addr, blocks);
	struct stet_space_run run = { .addr = addr, .blocks = blocks, .birth = birth, .cut = cut };
	uint32_t first = stet_addr_block(addr);
	int rc;

	if (!slot || stet_space_count_(space, slot->live, first, blocks) != blocks)
		return bad_run(addr, blocks, "freed, but not live");
	if (blocks == 0)
		return 0;
	rc = stet_space_run_reserve_(space, slot);
	if (rc)
		return rc;
	stet_space_clear_(space, slot->live, first, blocks);
	slot->live_blocks -= blocks;
	space->live_blocks -= blocks;
	add_held(space, slot, first, blocks, blocks);
	stet_space_run_add_(space, slot, &run);
	stet_space_mark_dirty_(space, slot);
	return 0;
}

int stet_space_drop(struct stet_space *space, struct stet_addr addr, uint32_t blocks,
		    uint64_t birth, uint64_t cut)
{
	struct stet_slot *slot = slot_of_run(space, addr, blocks);
	struct stet_space_run run = { .addr = addr, .blocks = blocks, .birth = birth, .cut = cut };
	int rc;

	if (!slot || !all_placed(space, slot, stet_addr_block(addr), blocks))
		return bad_run(addr, blocks, "given up, but not held");
	if (blocks == 0)
		return 0;
	if (cut == 0) {
		stet_space_unhold_(space, slot, stet_addr_block(addr), blocks);
		return 0;
	}
	rc = stet_space_run_reserve_(space, slot);
	if (rc)
		return rc;
	stet_space_run_add_(space, slot, &run);
	return 0;
}

void stet_space_unhold_(struct stet_space *space, struct stet_slot *slot, uint32_t first,
			uint32_t blocks)
{
	STET_ASSERT_CMP(stet_space_count_(space, slot->held, first, blocks), ==, blocks);
	sub_held(space, slot, first, blocks);
	stet_space_settle_(space, slot);
}

bool stet_space_is_live(const struct stet_space *space, struct stet_addr addr)
{
	const struct stet_slot *slot = slot_of_run(space, addr, 1);

	return slot && stet_space_count_(space, slot->live, stet_addr_block(addr), 1) == 1;
}

bool stet_space_is_held(const struct stet_space *space, struct stet_addr addr)
{
	const struct stet_slot *slot = slot_of_run(space, addr, 1);

	return slot && stet_space_count_(space, slot->held, stet_addr_block(addr), 1) == 1;
}
