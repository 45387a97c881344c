/* table.c - the segment table to and from its pages.
 *
 * A checkpoint places the dirty pages, then encodes them: what it writes is the table as of then,
 * its own places included. A load takes all pages in any order, then indexes them.
 *
 * I1. A page's block and a checkpoint record's blocks are only held, never live: the table that is
 *     written does not count itself. So loading holds the pages' blocks again, once all are known.
 * I2. A page is dirty when an entry differs from what was encoded last, except for last_death
 *     (segment.c, I5).
 * I3. After load_done every slot that is not FREE and ever held a segment is mapped, needed or not:
 *     the log may name it. stet_space_recovered sorts them out.
 */
#include "space/space_internal.h"

#include "base/assert.h"

#include <string.h>

static uint32_t first_slot(const struct stet_space *space, uint32_t page_no)
{
	return page_no * space->page_entries;
}

static uint32_t end_slot(const struct stet_space *space, uint32_t page_no)
{
	uint32_t first = first_slot(space, page_no);
	uint32_t left = space->slot_count - first;

	return first + (left < space->page_entries ? left : space->page_entries);
}

/* -ENOMEM: the table is only good for destroying. */
static int load_entry(struct stet_space *space, uint32_t slot_no,
		      const struct stet_seg_entry *entry, const uint64_t *bitmap)
{
	struct stet_slot *slot = &space->slot[slot_no];

	stet_space_free_remove_(space, slot_no);
	slot->id = entry->id;
	slot->kind = entry->kind;
	slot->opened = entry->opened;
	slot->last_death = entry->last_death;
	stet_space_free_add_(space, slot_no);
	stet_space_set_state_(space, slot, entry->state);
	if (entry->state == STET_SEG_FREE || entry->id == 0)
		return 0;
	if (stet_space_alloc_bitmaps_(space, slot))
		return -ENOMEM;
	memcpy(slot->live, bitmap, space->seg_blocks / 8);
	slot->live_blocks = entry->live_blocks;
	space->live_blocks += entry->live_blocks;
	return 0;
}

int stet_space_load_page(struct stet_space *space, uint32_t page_no, const uint8_t *page,
			 const struct stet_table_ptr *ptr)
{
	STET_ASSERT_CMP(page_no, <, space->page_count);
	STET_ASSERT(!space->page[page_no].loaded);
	space->recovering = true;
	space->page[page_no] = (struct stet_space_page){ .ptr = *ptr, .loaded = true };
	for (uint32_t i = first_slot(space, page_no); i < end_slot(space, page_no); i++) {
		uint64_t bitmap[STET_SPACE_WORDS_MAX];
		struct stet_seg_entry entry;
		int rc;

		stet_table_page_get(page, i - first_slot(space, page_no), &entry, bitmap);
		rc = load_entry(space, i, &entry, bitmap);
		if (rc)
			return rc;
	}
	space->page[page_no].dirty = false;
	return 0;
}

static int index_slot(struct stet_space *space, struct stet_slot *slot)
{
	if (slot->id >= space->next_seg_id)
		return STET_FAIL(-EUCLEAN, "segment table: id %" PRIu64 " was never given",
				 slot->id);
	if (!stet_space_mapped_(slot))
		return 0;
	if (stet_space_find_(space, slot->id))
		return STET_FAIL(-EUCLEAN, "segment table: id %" PRIu64 " twice", slot->id);
	return stet_hash_insert(space->ids, slot->id, &slot->node);
}

/* I1 */
static int hold_page(struct stet_space *space, uint32_t page_no)
{
	const struct stet_table_ptr *ptr = &space->page[page_no].ptr;
	uint64_t held_blocks = space->held_blocks;
	int rc;

	if (ptr->slot != stet_space_slot(space, stet_addr_seg(ptr->addr)))
		return STET_FAIL(-EUCLEAN, "segment table: page %" PRIu32 ": not in slot %" PRIu32,
				 page_no, ptr->slot);
	rc = stet_space_hold_checked(space, ptr->addr, 1);
	if (rc)
		return rc;
	if (space->held_blocks == held_blocks)
		return STET_FAIL(-EUCLEAN, "segment table: page %" PRIu32 " on another", page_no);
	return 0;
}

int stet_space_load_done(struct stet_space *space, uint64_t next_seg_id)
{
	int rc = 0;

	if (next_seg_id == 0 || next_seg_id > STET_SEG_ID_MAX + 1)
		return STET_FAIL(-EUCLEAN, "segment table: next id %" PRIu64, next_seg_id);
	space->recovering = true;
	space->next_seg_id = next_seg_id;
	for (uint32_t i = 0; i < space->slot_count; i++) {
		rc = index_slot(space, &space->slot[i]);
		if (rc)
			return rc;
	}
	for (uint32_t i = 0; i < space->page_count; i++) {
		if (space->page[i].loaded)
			rc = hold_page(space, i);
		if (rc)
			return rc;
	}
	return 0;
}

uint32_t stet_space_page_count(const struct stet_space *space)
{
	return space->page_count;
}

bool stet_space_page_dirty(const struct stet_space *space, uint32_t page_no)
{
	STET_ASSERT_CMP(page_no, <, space->page_count);
	return space->page[page_no].dirty;
}

struct stet_table_ptr stet_space_page_ptr(const struct stet_space *space, uint32_t page_no)
{
	STET_ASSERT_CMP(page_no, <, space->page_count);
	return space->page[page_no].ptr;
}

void stet_space_page_placed(struct stet_space *space, uint32_t page_no,
			    const struct stet_table_ptr *ptr)
{
	STET_ASSERT_CMP(page_no, <, space->page_count);
	space->page[page_no].ptr = *ptr;
}

void stet_space_page_encode(struct stet_space *space, uint32_t page_no, uint64_t sequence,
			    uint8_t page[STET_BLOCK_SIZE])
{
	static const uint64_t none_live[STET_SPACE_WORDS_MAX];

	STET_ASSERT_CMP(page_no, <, space->page_count);
	stet_table_page_begin(page, space->volume_id, sequence, page_no, space->seg_blocks,
			      space->slot_count);
	for (uint32_t i = first_slot(space, page_no); i < end_slot(space, page_no); i++) {
		const struct stet_slot *slot = &space->slot[i];
		struct stet_seg_entry entry = {
			.id = slot->id,
			.opened = slot->opened,
			.last_death = slot->last_death,
			.live_blocks = slot->live_blocks,
			.state = slot->state,
			.kind = slot->kind,
		};

		stet_table_page_put(page, i - first_slot(space, page_no), &entry,
				    stet_space_mapped_(slot) ? slot->live : none_live);
	}
	space->page[page_no].dirty = false; /* I2 */
}

void stet_space_page_redirty(struct stet_space *space, uint32_t page_no)
{
	STET_ASSERT_CMP(page_no, <, space->page_count);
	space->page[page_no].dirty = true;
}
