/* check.c - walks the whole table and asserts what space.h and the other files promise.
 *
 * The counts are compared with the bits, the states with what is mapped, both heaps with their
 * order, the runs with the dying blocks. Written to be plain, not fast; changes nothing.
 */
#include "space/space_internal.h"

#include "base/assert.h"

struct sums {
	uint64_t live, held, dying;
	uint64_t mapped;
	uint32_t state_n[STET_SEG_BAD + 1];
};

/* S1, S4 */
static void check_bits(const struct stet_space *space, const struct stet_slot *slot)
{
	uint32_t live = 0, held = 0, dying = 0;

	for (uint32_t i = 0; i < space->seg_blocks / 64; i++) {
		uint64_t dying_word = slot->dying ? slot->dying[i] : 0;

		STET_ASSERT_CMP(slot->live[i] & slot->held[i], ==, 0);
		STET_ASSERT_CMP(dying_word & ~slot->held[i], ==, 0);
		live += (uint32_t)__builtin_popcountll(slot->live[i]);
		held += (uint32_t)__builtin_popcountll(slot->held[i]);
		dying += (uint32_t)__builtin_popcountll(dying_word);
	}
	STET_ASSERT_CMP(live, ==, slot->live_blocks);
	STET_ASSERT_CMP(held, ==, slot->held_blocks);
	STET_ASSERT_CMP(dying, ==, slot->dying_blocks);
	STET_ASSERT_CMP(slot->dying != NULL, ==, dying > 0);
}

/* S2, S3, and where FREE slots are. */
static void check_slot(const struct stet_space *space, uint32_t slot_no)
{
	const struct stet_slot *slot = &space->slot[slot_no];
	bool needed = slot->live_blocks > 0 || slot->held_blocks > 0 || slot->log_pinned;

	STET_ASSERT_CMP(slot->id, <, space->next_seg_id);
	STET_ASSERT_CMP(slot->state == STET_SEG_FREE, ==, slot->free_pos != STET_SLOT_NONE);
	if (slot->state == STET_SEG_FREE) {
		STET_ASSERT_CMP(slot->free_pos, <, space->free_n);
		STET_ASSERT_CMP(space->free_heap[slot->free_pos], ==, slot_no);
		STET_ASSERT(!stet_space_mapped_(slot));
	}
	if (slot->state == STET_SEG_OPEN || slot->state == STET_SEG_FULL)
		STET_ASSERT(stet_space_mapped_(slot));
	if (stet_space_mapped_(slot)) {
		STET_ASSERT(stet_space_find_(space, slot->id) == slot);
		STET_ASSERT(needed || space->recovering || slot->state == STET_SEG_OPEN);
		check_bits(space, slot);
	} else {
		STET_ASSERT(!needed && !slot->picked && !slot->dying && !slot->held);
		STET_ASSERT(stet_space_find_(space, slot->id) != slot);
	}
}

static void check_heaps(const struct stet_space *space)
{
	for (uint32_t i = 1; i < space->free_n; i++)
		STET_ASSERT(stet_space_free_before_(space, space->free_heap[(i - 1) / 2],
						    space->free_heap[i]));
	STET_ASSERT_CMP(space->run_heap_n, <=, space->runs.n);
	for (size_t i = 1; i < space->run_heap_n; i++)
		STET_ASSERT_CMP(space->runs.v[(i - 1) / 2].cut, <=, space->runs.v[i].cut);
}

/* The run lies in a segment that there is, wholly dying; returns its blocks. */
static uint32_t check_run(const struct stet_space *space, const struct stet_space_run *run)
{
	const struct stet_slot *slot = stet_space_find_(space, stet_addr_seg(run->addr));

	STET_ASSERT(slot && slot->dying);
	STET_ASSERT(stet_addr_fits(run->addr, run->blocks, space->seg_blocks));
	STET_ASSERT_CMP(stet_space_count_(space, slot->dying, stet_addr_block(run->addr),
					  run->blocks),
			==, run->blocks);
	STET_ASSERT_CMP(run->blocks, >, 0);
	return run->blocks;
}

/* With equal sums, runs that are wholly dying cover each dying block once. */
static void check_runs(const struct stet_space *space, uint64_t dying)
{
	uint64_t waiting = 0, pinned = 0;

	for (size_t i = 0; i < space->run_heap_n; i++)
		waiting += check_run(space, &space->runs.v[i]);
	for (size_t i = space->run_heap_n; i < space->runs.n; i++)
		pinned += check_run(space, &space->runs.v[i]);
	if (space->has_last_run)
		waiting += check_run(space, &space->last_run);
	STET_ASSERT_CMP(waiting + pinned, ==, dying);
	STET_ASSERT_CMP(pinned, ==, space->pinned_blocks);
}

void stet_space_check(const struct stet_space *space)
{
	struct sums sums = { 0 };

	for (uint32_t i = 0; i < space->slot_count; i++) {
		const struct stet_slot *slot = &space->slot[i];

		check_slot(space, i);
		sums.live += slot->live_blocks;
		sums.held += slot->held_blocks;
		sums.dying += slot->dying_blocks;
		sums.mapped += stet_space_mapped_(slot);
		sums.state_n[slot->state]++;
	}
	STET_ASSERT_CMP(sums.live, ==, space->live_blocks);
	STET_ASSERT_CMP(sums.held, ==, space->held_blocks);
	STET_ASSERT_CMP(sums.dying, ==, space->dying_blocks);
	STET_ASSERT_CMP(sums.mapped, ==, stet_hash_count(space->ids));
	for (int i = 0; i <= STET_SEG_BAD; i++)
		STET_ASSERT_CMP(sums.state_n[i], ==, space->state_n[i]);
	STET_ASSERT_CMP(space->free_n, ==, space->state_n[STET_SEG_FREE]);
	STET_ASSERT_CMP(stet_hash_grow_failures(space->ids), ==, 0);
	stet_hash_check(space->ids);
	check_heaps(space);
	check_runs(space, sums.dying);
}
