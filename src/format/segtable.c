/* segtable.c - pages of the segment table: build, verify, read.
 *
 * I1. An entry's live_blocks is the number of bits set in its bitmap.
 * I2. A FREE slot has no live block; OPEN and FULL ones hold a segment (id not 0).
 * I3. Which slots a page describes follows from its number alone.
 */
#include "format/segtable.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

#define HEADER_BYTES ((uint32_t)sizeof(struct stet_table_page_disk))
#define ENTRY_HEADER_BYTES ((uint32_t)sizeof(struct stet_seg_entry_disk))

static uint32_t entry_bytes(uint32_t seg_blocks)
{
	return ENTRY_HEADER_BYTES + seg_blocks / 8;
}

static const struct stet_table_page_disk *header(const uint8_t *page)
{
	return (const struct stet_table_page_disk *)page;
}

static const struct stet_seg_entry_disk *entry_at(const uint8_t *page, uint32_t index)
{
	uint32_t seg_blocks = le32_get(header(page)->seg_blocks);

	return (const struct stet_seg_entry_disk *)(page + HEADER_BYTES +
						    (size_t)index * entry_bytes(seg_blocks));
}

static const uint8_t *bitmap_of(const struct stet_seg_entry_disk *entry)
{
	return (const uint8_t *)entry + ENTRY_HEADER_BYTES;
}

uint32_t stet_table_page_entries(uint32_t seg_blocks)
{
	return (STET_BLOCK_SIZE - HEADER_BYTES) / entry_bytes(seg_blocks);
}

uint32_t stet_table_page_count(uint32_t slot_count, uint32_t seg_blocks)
{
	uint32_t entries = stet_table_page_entries(seg_blocks);

	return slot_count / entries + (slot_count % entries != 0);
}

/* I3. page_no < stet_table_page_count(): the product is below slot_count. */
static uint32_t slots_of_page(uint32_t page_no, uint32_t seg_blocks, uint32_t slot_count)
{
	uint32_t entries = stet_table_page_entries(seg_blocks);
	uint32_t left = slot_count - page_no * entries;

	return left < entries ? left : entries;
}

void stet_table_page_begin(uint8_t page[STET_BLOCK_SIZE], uint64_t volume_id, uint64_t sequence,
			   uint32_t page_no, uint32_t seg_blocks, uint32_t slot_count)
{
	struct stet_table_page_disk *h = (struct stet_table_page_disk *)page;

	STET_ASSERT_CMP(page_no, <, stet_table_page_count(slot_count, seg_blocks));
	memset(page, 0, STET_BLOCK_SIZE);
	h->magic = le64_make(STET_TABLE_MAGIC);
	h->volume_id = le64_make(volume_id);
	h->sequence = le64_make(sequence);
	h->page_no = le32_make(page_no);
	h->first_slot = le32_make(page_no * stet_table_page_entries(seg_blocks));
	h->slot_count = le32_make(slots_of_page(page_no, seg_blocks, slot_count));
	h->seg_blocks = le32_make(seg_blocks);
}

void stet_table_page_put(uint8_t page[STET_BLOCK_SIZE], uint32_t index,
			 const struct stet_seg_entry *entry, const uint64_t *bitmap)
{
	uint32_t seg_blocks = le32_get(header(page)->seg_blocks);
	uint8_t *out;
	struct stet_seg_entry_disk disk = {
		.id = le64_make(entry->id),
		.opened = le64_make(entry->opened),
		.last_death = le64_make(entry->last_death),
		.live_blocks = le32_make(entry->live_blocks),
		.state = (uint8_t)entry->state,
		.kind = (uint8_t)entry->kind,
	};

	STET_ASSERT_CMP(index, <, le32_get(header(page)->slot_count));
	out = page + HEADER_BYTES + (size_t)index * entry_bytes(seg_blocks);
	memcpy(out, &disk, sizeof(disk));
	for (uint32_t i = 0; i < seg_blocks / 64; i++)
		stet_put_le64(out + ENTRY_HEADER_BYTES + (size_t)i * 8, bitmap[i]);
}

static int verify_header(const struct stet_table_page_disk *h, uint64_t volume_id, uint32_t page_no,
			 uint32_t seg_blocks, uint32_t slot_count)
{
	if (page_no >= stet_table_page_count(slot_count, seg_blocks))
		return STET_FAIL(-EUCLEAN, "segment table: page %" PRIu32 " of %" PRIu32, page_no,
				 stet_table_page_count(slot_count, seg_blocks));
	if (le64_get(h->magic) != STET_TABLE_MAGIC || le64_get(h->volume_id) != volume_id)
		return STET_FAIL(-EUCLEAN, "segment table: no page %" PRIu32 " here", page_no);
	if (le32_get(h->page_no) != page_no || le32_get(h->seg_blocks) != seg_blocks ||
	    le32_get(h->first_slot) != page_no * stet_table_page_entries(seg_blocks) ||
	    le32_get(h->slot_count) != slots_of_page(page_no, seg_blocks, slot_count))
		return STET_FAIL(-EUCLEAN, "segment table: page %" PRIu32 ": bad header", page_no);
	return 0;
}

static uint32_t count_bits(const uint8_t *bitmap, uint32_t seg_blocks)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < seg_blocks / 64; i++)
		n += (uint32_t)__builtin_popcountll(stet_get_le64(bitmap + (size_t)i * 8));
	return n;
}

static int verify_entry(const struct stet_seg_entry_disk *entry, uint32_t slot, uint32_t seg_blocks)
{
	uint64_t id = le64_get(entry->id);
	uint32_t live = le32_get(entry->live_blocks);

	if (entry->state > STET_SEG_BAD || entry->kind >= STET_SEGK_COUNT)
		return STET_FAIL(-EUCLEAN, "segment table: slot %" PRIu32 ": state %u kind %u",
				 slot, entry->state, entry->kind);
	if (id > STET_SEG_ID_MAX)
		return STET_FAIL(-EUCLEAN, "segment table: slot %" PRIu32 ": id %" PRIu64, slot,
				 id);
	if (live != count_bits(bitmap_of(entry), seg_blocks)) /* I1 */
		return STET_FAIL(-EUCLEAN, "segment table: slot %" PRIu32 ": %" PRIu32 " live",
				 slot, live);
	if ((live > 0 && (entry->state == STET_SEG_FREE || id == 0)) ||
	    (id == 0 && (entry->state == STET_SEG_OPEN || entry->state == STET_SEG_FULL)))
		return STET_FAIL(-EUCLEAN,
				 "segment table: slot %" PRIu32 ": state %u, id %" PRIu64
				 ", %" PRIu32 " live",
				 slot, entry->state, id, live); /* I2 */
	return 0;
}

int stet_table_page_verify(const uint8_t page[STET_BLOCK_SIZE], uint64_t volume_id,
			   uint32_t page_no, uint32_t seg_blocks, uint32_t slot_count)
{
	const struct stet_table_page_disk *h = header(page);
	int rc;

	rc = verify_header(h, volume_id, page_no, seg_blocks, slot_count);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < le32_get(h->slot_count); i++) {
		rc = verify_entry(entry_at(page, i), le32_get(h->first_slot) + i, seg_blocks);
		if (rc)
			return rc;
	}
	return 0;
}

void stet_table_page_get(const uint8_t page[STET_BLOCK_SIZE], uint32_t index,
			 struct stet_seg_entry *ret_entry, uint64_t *ret_bitmap)
{
	const struct stet_seg_entry_disk *in = entry_at(page, index);
	uint32_t seg_blocks = le32_get(header(page)->seg_blocks);

	STET_ASSERT_CMP(index, <, le32_get(header(page)->slot_count));
	*ret_entry = (struct stet_seg_entry){
		.id = le64_get(in->id),
		.opened = le64_get(in->opened),
		.last_death = le64_get(in->last_death),
		.live_blocks = le32_get(in->live_blocks),
		.state = (enum stet_seg_state)in->state,
		.kind = (enum stet_seg_kind)in->kind,
	};
	for (uint32_t i = 0; i < seg_blocks / 64; i++)
		ret_bitmap[i] = stet_get_le64(bitmap_of(in) + (size_t)i * 8);
}

void stet_seg_entry_print(struct stet_text *t, const struct stet_seg_entry *entry)
{
	static const char *const state_name[] = { "free", "open", "full", "bad" };
	static const char *const kind_name[] = { "log", "node", "node2", "cold", "bulk" };

	stet_text_printf(t,
			 "segment %" PRIu64 " %s %s live %" PRIu32 " opened %" PRIu64
			 " last death %" PRIu64,
			 entry->id, entry->state <= STET_SEG_BAD ? state_name[entry->state] : "?",
			 entry->kind < STET_SEGK_COUNT ? kind_name[entry->kind] : "?",
			 entry->live_blocks, entry->opened, entry->last_death);
}
