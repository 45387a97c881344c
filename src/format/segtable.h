/* segtable.h - pages of the segment table: one entry per device slot.
 *
 * A page is one block: a 64-byte header, then entries of 32 + seg_blocks / 8 bytes. An entry holds
 * the state of the slot, the id of the segment in it, and a bitmap of the blocks that the
 * checkpoint's root (and what the format keeps beside it) needs.
 */
#ifndef STET_FORMAT_SEGTABLE_H
#define STET_FORMAT_SEGTABLE_H

#include "base/endian.h"
#include "base/error.h"
#include "base/text.h"
#include "format/types.h"

#define STET_TABLE_MAGIC UINT64_C(0x656c625474657453) /* "StetTble" */

enum stet_seg_state {
	STET_SEG_FREE = 0, /* may be given out; its id (if any) is dead */
	STET_SEG_OPEN = 1, /* a log head writes in it */
	STET_SEG_FULL = 2, /* closed; has live, held or log blocks */
	STET_SEG_BAD = 3,  /* retired, never used again */
};

enum stet_seg_kind {
	STET_SEGK_LOG = 0,   /* main chain */
	STET_SEGK_NODE = 1,  /* tree nodes, first copy, and table pages */
	STET_SEGK_NODE2 = 2, /* tree nodes, second copy */
	STET_SEGK_COLD = 3,  /* what the cleaner moved */
	STET_SEGK_BULK = 4,  /* what a large transaction places before it is ordered */
	STET_SEGK_COUNT = 5,
};

struct stet_table_page_disk {
	le64 magic;                    /* 00 */
	le64 volume_id;                /* 08 */
	le64 sequence;                 /* 10: checkpoint that wrote it */
	le32 page_no;                  /* 18 */
	le32 first_slot;               /* 1c */
	le32 slot_count;               /* 20: entries in this page */
	le32 seg_blocks;               /* 24 */
	uint8_t reserved[0x40 - 0x28]; /* 28 */
};

struct stet_seg_entry_disk {
	le64 id;          /* 00: 0 = the slot was never used */
	le64 opened;      /* 08: serial when the id was given */
	le64 last_death;  /* 10: serial of the last block's death */
	le32 live_blocks; /* 18: bits set in the bitmap */
	uint8_t state;    /* 1c */
	uint8_t kind;     /* 1d */
	uint8_t pad[2];   /* 1e */
};

struct stet_seg_entry {
	uint64_t id;
	uint64_t opened;
	uint64_t last_death;
	uint32_t live_blocks;
	enum stet_seg_state state;
	enum stet_seg_kind kind;
};

/* Entries that fit one page, and pages for a table. */
uint32_t stet_table_page_entries(uint32_t seg_blocks);
uint32_t stet_table_page_count(uint32_t slot_count, uint32_t seg_blocks);

void stet_table_page_begin(uint8_t page[STET_BLOCK_SIZE], uint64_t volume_id, uint64_t sequence,
			   uint32_t page_no, uint32_t seg_blocks, uint32_t slot_count);
/* bitmap: seg_blocks bits, bit i = bit i % 64 of word i / 64. */
void stet_table_page_put(uint8_t page[STET_BLOCK_SIZE], uint32_t index,
			 const struct stet_seg_entry *entry, const uint64_t *bitmap);
/* Verifies the header and the range of every entry (live_blocks equals the bits set). -EUCLEAN.
 * A page holds no checksum of its own: the caller compares stet_crc32c of the block with the crc of
 * the pointer that named it. */
STET_CHECKED int stet_table_page_verify(const uint8_t page[STET_BLOCK_SIZE], uint64_t volume_id,
					uint32_t page_no, uint32_t seg_blocks, uint32_t slot_count);
void stet_table_page_get(const uint8_t page[STET_BLOCK_SIZE], uint32_t index,
			 struct stet_seg_entry *ret_entry, uint64_t *ret_bitmap);
void stet_seg_entry_print(struct stet_text *t, const struct stet_seg_entry *entry);

#endif
