/* pick.c - which segment the cleaner empties next, and what policies see of a segment.
 *
 * I1. Only FULL segments are chosen, and none that roll-forward may still read: moving its blocks
 *     would not free it.
 * I2. A segment without live blocks is not chosen, it goes by itself; nor is a wholly live one,
 *     moving it would free nothing.
 * I3. A segment being cleaned is not chosen again until it is FREE or the cleaner gave it up.
 * I4. Same table and policy, same choice; among equals the lowest slot.
 * I5. While blocks of a segment are dying (the older checkpoint slot or a view still needs them) it is not
 *     chosen: moving the others would take room and free nothing.
 */
#include "space/space_internal.h"

#include "base/assert.h"

#include <string.h>

void stet_space_info(const struct stet_space *space, uint32_t slot, struct stet_seg_info *ret)
{
	const struct stet_slot *s;

	STET_ASSERT_CMP(slot, <, space->slot_count);
	s = &space->slot[slot];
	*ret = (struct stet_seg_info){
		.id = s->id,
		.slot = slot,
		.live_blocks = s->live_blocks,
		.held_blocks = s->held_blocks,
		.state = s->state,
		.kind = s->kind,
		.log_pinned = s->log_pinned,
		.opened = s->opened,
		.last_death = s->last_death,
	};
}

void stet_space_live_bitmap(const struct stet_space *space, uint32_t slot, uint64_t *ret_bitmap)
{
	size_t bytes = space->seg_blocks / 8;

	STET_ASSERT_CMP(slot, <, space->slot_count);
	if (stet_space_mapped_(&space->slot[slot]))
		memcpy(ret_bitmap, space->slot[slot].live, bytes);
	else
		memset(ret_bitmap, 0, bytes);
}

/* The share of the segment that moving its live blocks frees. */
double stet_space_score_greedy(const struct stet_seg_info *seg, uint32_t seg_blocks,
			       uint64_t now_serial)
{
	(void)now_serial;
	return (double)(seg_blocks - seg->live_blocks) / (double)seg_blocks;
}

static bool worth_moving(const struct stet_space *space, const struct stet_slot *slot)
{
	return slot->state == STET_SEG_FULL && !slot->log_pinned &&              /* I1 */
	       slot->live_blocks > 0 && slot->live_blocks < space->seg_blocks && /* I2 */
	       slot->dying_blocks == 0 &&                                        /* I5 */
	       !slot->picked;                                                    /* I3 */
}

int stet_space_pick(struct stet_space *space, stet_space_score_fn *score, uint64_t now_serial,
		    struct stet_seg_info *ret)
{
	struct stet_seg_info best = { .slot = STET_SLOT_NONE };
	double best_value = 0;

	for (uint32_t i = 0; i < space->slot_count; i++) {
		struct stet_seg_info info;
		double value;

		if (!worth_moving(space, &space->slot[i]))
			continue;
		stet_space_info(space, i, &info);
		value = score(&info, space->seg_blocks, now_serial);
		if (value > best_value) {
			best_value = value;
			best = info;
		}
	}
	if (best.slot == STET_SLOT_NONE)
		return -ENOENT;
	space->slot[best.slot].picked = true;
	*ret = best;
	return 0;
}

void stet_space_unpick(struct stet_space *space, uint64_t seg_id)
{
	struct stet_slot *slot = stet_space_find_(space, seg_id);

	if (slot)
		slot->picked = false;
}
