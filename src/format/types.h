/* types.h - the units of the format: blocks, addresses, serials.
 *
 * A block is 4 KiB, the unit of layout and of data checksums. A node is 16 KiB. A segment is a
 * power of two between 64 and 4096 blocks. An address names a block as (segment id, block in the
 * segment); segment ids are given in sequence and never reused, so a stale address finds nothing
 * rather than another's data. A serial is the 64-bit number that orders everything in the log.
 */
#ifndef STET_FORMAT_TYPES_H
#define STET_FORMAT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STET_BLOCK_SIZE 4096u
#define STET_BLOCK_SHIFT 12
#define STET_NODE_SIZE 16384u
#define STET_NODE_BLOCKS 4u
#define STET_SEG_BLOCKS_MIN 64u
#define STET_SEG_BLOCKS_MAX 4096u
#define STET_ADDR_BLOCK_BITS 12
#define STET_EXTENT_BLOCKS_MAX 64u
#define STET_INLINE_MAX 2048u
#define STET_NAME_MAX 255u
#define STET_XATTR_SIZE_MAX 65536u
#define STET_RECORD_KEY_MAX 512u
#define STET_ITEM_KEY_MAX (8u + 1u + STET_RECORD_KEY_MAX)
#define STET_VALUE_MAX 3200u /* an item stays below a quarter of a node */
#define STET_FILE_SIZE_MAX INT64_MAX
/* File blocks are numbered 0 .. STET_FILE_BLOCKS_MAX - 1. */
#define STET_FILE_BLOCKS_MAX (UINT64_C(1) << (63 - STET_BLOCK_SHIFT))
/* Blocks of a device: byte offsets stay within int64_t. */
#define STET_DEVICE_BLOCKS_MAX (UINT64_C(1) << (63 - STET_BLOCK_SHIFT))
/* Segment ids: 1 .. STET_SEG_ID_MAX, what an address can hold. */
#define STET_SEG_ID_MAX ((UINT64_C(1) << (64 - STET_ADDR_BLOCK_BITS)) - 1)
/* A volume whose serials, generations, checkpoint sequences or inode numbers have come so far is not opened for
 * writing: counting on must never wrap. */
#define STET_COUNTER_END (UINT64_C(1) << 63)
#define STET_ROOT_INO UINT64_C(1)
#define STET_SLOT_NONE UINT32_MAX

/* An address: segment id << 12 | block in the segment. Zero is "none" (id 0 is never given). */
struct stet_addr {
	uint64_t v;
};

#define STET_ADDR_NONE ((struct stet_addr){ 0 })

static inline struct stet_addr stet_addr_make(uint64_t seg_id, uint32_t block)
{
	return (struct stet_addr){ seg_id << STET_ADDR_BLOCK_BITS | block };
}

static inline uint64_t stet_addr_seg(struct stet_addr a)
{
	return a.v >> STET_ADDR_BLOCK_BITS;
}

static inline uint32_t stet_addr_block(struct stet_addr a)
{
	return (uint32_t)(a.v & (STET_SEG_BLOCKS_MAX - 1));
}

static inline bool stet_addr_is_none(struct stet_addr a)
{
	return a.v == 0;
}

/* Whether it names `blocks` blocks that lie in one segment of seg_blocks (false for "none"). */
static inline bool stet_addr_fits(struct stet_addr a, uint32_t blocks, uint32_t seg_blocks)
{
	return stet_addr_seg(a) != 0 && blocks <= seg_blocks &&
	       stet_addr_block(a) <= seg_blocks - blocks;
}

static inline struct stet_addr stet_addr_add(struct stet_addr a, uint32_t blocks)
{
	return (struct stet_addr){ a.v + blocks };
}

#endif
