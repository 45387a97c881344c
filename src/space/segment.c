/* segment.c - the life of a segment in its slot.
 *
 *	FREE --open--> OPEN --close--> FULL --nobody needs it--> FREE
 *	FREE --adopt--> FULL           OPEN, FULL --retire--> BAD (for ever)
 *
 * I1. A segment is needed while it has live or held blocks, or while the log pins it. An OPEN one
 *     stays in any case; a BAD one that nobody needs stays BAD, but its id is gone.
 * I2. While the log is rolled forward, what seems unneeded may be named by the next record: nothing
 *     becomes FREE before stet_space_recovered.
 * I3. A slot that became FREE keeps the id, kind, opened and last_death of its last segment: the
 *     order of reuse and looking back need them.
 * I4. Ids only rise, also within a slot: a lower id than the slot's is history.
 * I5. A new last_death alone does not mark the page dirty. On disk it matters for FREE slots only,
 *     and becoming FREE does mark it; else each checkpoint, giving up the places of the pages that
 *     it replaces, would dirty others.
 */
#include "space/space_internal.h"

#include "base/assert.h"
#include "base/mem.h"

static uint32_t slot_no_of(const struct stet_space *space, const struct stet_slot *slot)
{
	return (uint32_t)(slot - space->slot);
}

void stet_space_mark_dirty_(struct stet_space *space, const struct stet_slot *slot)
{
	space->page[slot_no_of(space, slot) / space->page_entries].dirty = true;
}

int stet_space_alloc_bitmaps_(struct stet_space *space, struct stet_slot *slot)
{
	size_t words = space->seg_blocks / 64;
	uint64_t *bits = stet_calloc(2 * words, sizeof(*bits));

	if (!bits)
		return -ENOMEM;
	slot->live = bits;
	slot->held = bits + words;
	return 0;
}

void stet_space_drop_bitmaps_(struct stet_slot *slot)
{
	stet_free(slot->live);
	stet_free(slot->dying);
	slot->live = NULL;
	slot->held = NULL;
	slot->dying = NULL;
}

void stet_space_set_state_(struct stet_space *space, struct stet_slot *slot,
			   enum stet_seg_state state)
{
	if (slot->state == state)
		return;
	if (slot->state == STET_SEG_FREE)
		stet_space_free_remove_(space, slot_no_of(space, slot));
	space->state_n[slot->state]--;
	slot->state = state;
	space->state_n[state]++;
	if (state == STET_SEG_FREE)
		stet_space_free_add_(space, slot_no_of(space, slot));
	stet_space_mark_dirty_(space, slot);
}

static bool needed(const struct stet_slot *slot)
{
	return slot->live_blocks > 0 || slot->held_blocks > 0 || slot->log_pinned; /* I1 */
}

static void unmap(struct stet_space *space, struct stet_slot *slot)
{
	STET_ASSERT(!needed(slot));
	stet_hash_remove(space->ids, &slot->node);
	stet_space_drop_bitmaps_(slot);
	slot->picked = false;
}

void stet_space_settle_(struct stet_space *space, struct stet_slot *slot)
{
	if (needed(slot) || space->recovering || !stet_space_mapped_(slot)) /* I2 */
		return;
	if (slot->state == STET_SEG_OPEN)
		return;
	unmap(space, slot);
	if (slot->state == STET_SEG_FULL)
		stet_space_set_state_(space, slot, STET_SEG_FREE); /* I3 */
}

/* Puts a new segment into an unmapped slot. -ENOMEM: nothing changed. */
static int start_segment(struct stet_space *space, struct stet_slot *slot, uint64_t id,
			 enum stet_seg_kind kind, uint64_t serial, enum stet_seg_state state)
{
	int rc;

	STET_ASSERT(!stet_space_mapped_(slot));
	STET_ASSERT_CMP(kind, <, STET_SEGK_COUNT);
	rc = stet_space_alloc_bitmaps_(space, slot);
	if (rc)
		return rc;
	rc = stet_hash_insert(space->ids, id, &slot->node);
	STET_ASSERT_CMP(rc, ==, 0); /* space.c, I2 */
	stet_space_set_state_(space, slot, state);
	slot->id = id;
	slot->kind = kind;
	slot->opened = serial;
	slot->last_death = 0;
	stet_space_mark_dirty_(space, slot);
	if (space->next_seg_id <= id)
		space->next_seg_id = id + 1;
	return 0;
}

int stet_space_open_segment(struct stet_space *space, enum stet_seg_kind kind, uint64_t serial,
			    uint32_t spare, struct stet_place *ret)
{
	uint64_t id = space->next_seg_id;
	uint32_t slot_no;
	int rc;

	if (space->free_n <= spare || id > STET_SEG_ID_MAX)
		return -ENOSPC;
	slot_no = space->free_heap[0];
	rc = start_segment(space, &space->slot[slot_no], id, kind, serial, STET_SEG_OPEN);
	if (rc)
		return rc;
	*ret = (struct stet_place){ .addr = stet_addr_make(id, 0), .slot = slot_no };
	return 0;
}

void stet_space_close_segment(struct stet_space *space, uint64_t seg_id)
{
	struct stet_slot *slot = stet_space_find_(space, seg_id);

	if (!slot || slot->state != STET_SEG_OPEN)
		return; /* retired meanwhile */
	stet_space_set_state_(space, slot, STET_SEG_FULL);
	stet_space_settle_(space, slot);
}

void stet_space_retire(struct stet_space *space, uint64_t seg_id)
{
	struct stet_slot *slot = stet_space_find_(space, seg_id);

	if (!slot)
		return;
	stet_space_set_state_(space, slot, STET_SEG_BAD);
	stet_space_settle_(space, slot);
}

void stet_space_log_pin(struct stet_space *space, uint64_t seg_id)
{
	struct stet_slot *slot = stet_space_find_(space, seg_id);

	STET_ASSERT(slot);
	slot->log_pinned = true;
}

void stet_space_log_unpin(struct stet_space *space, uint64_t seg_id, uint64_t serial)
{
	struct stet_slot *slot = stet_space_find_(space, seg_id);

	STET_ASSERT(slot);
	STET_ASSERT(slot->log_pinned);
	slot->log_pinned = false;
	if (slot->last_death < serial)
		slot->last_death = serial; /* its records died; I5 */
	stet_space_settle_(space, slot);
}

/* -EUCLEAN: the log contradicts the table, or itself. */
static int adopt_fail(uint64_t id, uint32_t slot_no, const char *why)
{
	return STET_FAIL(-EUCLEAN, "segment %" PRIu64 " opened in slot %" PRIu32 ": %s", id,
			 slot_no, why);
}

int stet_space_adopt(struct stet_space *space, uint64_t id, uint32_t slot_no,
		     enum stet_seg_kind kind, uint64_t serial)
{
	struct stet_slot *known = stet_space_find_(space, id);
	struct stet_slot *slot;

	if (id == 0 || id > STET_SEG_ID_MAX || slot_no >= space->slot_count ||
	    kind >= STET_SEGK_COUNT)
		return adopt_fail(id, slot_no, "out of range");
	space->recovering = true;
	slot = &space->slot[slot_no];
	if (known) {
		if (known != slot)
			return adopt_fail(id, slot_no, "it lies elsewhere");
		if (slot->state == STET_SEG_OPEN)
			stet_space_set_state_(space, slot, STET_SEG_FULL);
		return 0;
	}
	if (slot->id > id)
		return -ESTALE; /* I4 */
	if (slot->state == STET_SEG_BAD)
		return adopt_fail(id, slot_no, "the slot is bad");
	if (needed(slot))
		return adopt_fail(id, slot_no, "the former segment is in use");
	if (stet_space_mapped_(slot))
		unmap(space, slot);
	return start_segment(space, slot, id, kind, serial, STET_SEG_FULL);
}

bool stet_space_reopen(struct stet_space *space, uint64_t seg_id)
{
	struct stet_slot *slot = stet_space_find_(space, seg_id);

	if (!slot || slot->state == STET_SEG_BAD)
		return false;
	STET_ASSERT(slot->log_pinned);
	stet_space_set_state_(space, slot, STET_SEG_OPEN);
	return true;
}

void stet_space_recovered(struct stet_space *space)
{
	space->recovering = false;
	for (uint32_t i = 0; i < space->slot_count; i++) {
		struct stet_slot *slot = &space->slot[i];

		if (slot->state == STET_SEG_OPEN && !slot->log_pinned) /* the log reopened it */
			stet_space_set_state_(space, slot, STET_SEG_FULL);
		stet_space_settle_(space, slot);
	}
}

uint64_t stet_space_next_seg_id(const struct stet_space *space)
{
	return space->next_seg_id;
}
