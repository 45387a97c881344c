/* layout_check.c - the compiler proves that the structures are what doc/format.md says.
 *
 * I1. All on-disk structures are made of bytes: alignment 1, so no padding the list could miss.
 * I2. Constants that occur on disk never change their value.
 */
#include "format/checkpoint.h"
#include "format/key.h"
#include "format/node.h"
#include "format/segtable.h"
#include "format/summary.h"
#include "format/superblock.h"
#include "format/value.h"

#define STET_SIZE(type, bytes)                                     \
	_Static_assert(sizeof(type) == (bytes), "size of " #type); \
	_Static_assert(_Alignof(type) == 1, "alignment of " #type)
#define STET_AT(type, member, offset) \
	_Static_assert(offsetof(type, member) == (offset), #type "." #member)
#define STET_IS(constant, value) _Static_assert((constant) == (value), #constant)

STET_SIZE(struct stet_superblock_disk, STET_BLOCK_SIZE);
STET_AT(struct stet_superblock_disk, magic, 0x000);
STET_AT(struct stet_superblock_disk, version, 0x008);
STET_AT(struct stet_superblock_disk, copy, 0x00c);
STET_AT(struct stet_superblock_disk, volume_id, 0x010);
STET_AT(struct stet_superblock_disk, uuid, 0x018);
STET_AT(struct stet_superblock_disk, label, 0x028);
STET_AT(struct stet_superblock_disk, feature_compat, 0x068);
STET_AT(struct stet_superblock_disk, feature_ro_compat, 0x070);
STET_AT(struct stet_superblock_disk, feature_incompat, 0x078);
STET_AT(struct stet_superblock_disk, device_blocks, 0x080);
STET_AT(struct stet_superblock_disk, seg_start_block, 0x088);
STET_AT(struct stet_superblock_disk, slot_count, 0x090);
STET_AT(struct stet_superblock_disk, seg_blocks, 0x094);
STET_AT(struct stet_superblock_disk, node_size_bytes, 0x098);
STET_AT(struct stet_superblock_disk, checksum_kind, 0x09c);
STET_AT(struct stet_superblock_disk, compress, 0x09d);
STET_AT(struct stet_superblock_disk, meta_copies, 0x09e);
STET_AT(struct stet_superblock_disk, data_copies, 0x09f);
STET_AT(struct stet_superblock_disk, created_ns, 0x0a0);
STET_AT(struct stet_superblock_disk, reserved, 0x0a8);
STET_AT(struct stet_superblock_disk, check, 0xff8);

STET_SIZE(struct stet_place_disk, 0x10);
STET_AT(struct stet_place_disk, addr, 0x0);
STET_AT(struct stet_place_disk, slot, 0x8);
STET_AT(struct stet_place_disk, pad, 0xc);

STET_SIZE(struct stet_ckpt_slot_disk, STET_BLOCK_SIZE);
STET_AT(struct stet_ckpt_slot_disk, magic, 0x000);
STET_AT(struct stet_ckpt_slot_disk, volume_id, 0x008);
STET_AT(struct stet_ckpt_slot_disk, sequence, 0x010);
STET_AT(struct stet_ckpt_slot_disk, cut, 0x018);
STET_AT(struct stet_ckpt_slot_disk, record, 0x020);
STET_AT(struct stet_ckpt_slot_disk, record_bytes, 0x030);
STET_AT(struct stet_ckpt_slot_disk, pad, 0x034);
STET_AT(struct stet_ckpt_slot_disk, record_check, 0x038);
STET_AT(struct stet_ckpt_slot_disk, reserved, 0x040);
STET_AT(struct stet_ckpt_slot_disk, check, 0xff8);

STET_SIZE(struct stet_table_ptr_disk, 0x10);
STET_AT(struct stet_table_ptr_disk, addr, 0x0);
STET_AT(struct stet_table_ptr_disk, slot, 0x8);
STET_AT(struct stet_table_ptr_disk, crc, 0xc);

STET_SIZE(struct stet_ckpt_record_disk, 0x100);
STET_AT(struct stet_ckpt_record_disk, magic, 0x000);
STET_AT(struct stet_ckpt_record_disk, volume_id, 0x008);
STET_AT(struct stet_ckpt_record_disk, sequence, 0x010);
STET_AT(struct stet_ckpt_record_disk, cut, 0x018);
STET_AT(struct stet_ckpt_record_disk, generation, 0x020);
STET_AT(struct stet_ckpt_record_disk, wall_ns, 0x028);
STET_AT(struct stet_ckpt_record_disk, root, 0x030);
STET_AT(struct stet_ckpt_record_disk, root_level, 0x050);
STET_AT(struct stet_ckpt_record_disk, page_count, 0x054);
STET_AT(struct stet_ckpt_record_disk, chain_next1, 0x058);
STET_AT(struct stet_ckpt_record_disk, chain_next2, 0x068);
STET_AT(struct stet_ckpt_record_disk, chain_check, 0x078);
STET_AT(struct stet_ckpt_record_disk, chain_serial, 0x080);
STET_AT(struct stet_ckpt_record_disk, next_ino, 0x088);
STET_AT(struct stet_ckpt_record_disk, next_seg_id, 0x090);
STET_AT(struct stet_ckpt_record_disk, inode_count, 0x098);
STET_AT(struct stet_ckpt_record_disk, data_blocks, 0x0a0);
STET_AT(struct stet_ckpt_record_disk, node_blocks, 0x0a8);
STET_AT(struct stet_ckpt_record_disk, prev_record, 0x0b0);
STET_AT(struct stet_ckpt_record_disk, prev_bytes, 0x0c0);
STET_AT(struct stet_ckpt_record_disk, pad, 0x0c4);
STET_AT(struct stet_ckpt_record_disk, prev_check, 0x0c8);
STET_AT(struct stet_ckpt_record_disk, reserved, 0x0d0);

STET_SIZE(struct stet_node_ptr_disk, 0x20);
STET_AT(struct stet_node_ptr_disk, addr, 0x00);
STET_AT(struct stet_node_ptr_disk, addr2, 0x08);
STET_AT(struct stet_node_ptr_disk, birth, 0x10);
STET_AT(struct stet_node_ptr_disk, check, 0x18);

STET_SIZE(struct stet_node_disk, 0x40);
STET_AT(struct stet_node_disk, magic, 0x00);
STET_AT(struct stet_node_disk, volume_id, 0x08);
STET_AT(struct stet_node_disk, birth, 0x10);
STET_AT(struct stet_node_disk, check, 0x18);
STET_AT(struct stet_node_disk, tree, 0x20);
STET_AT(struct stet_node_disk, level, 0x24);
STET_AT(struct stet_node_disk, item_count, 0x26);
STET_AT(struct stet_node_disk, items_start, 0x28);
STET_AT(struct stet_node_disk, low_bytes, 0x2a);
STET_AT(struct stet_node_disk, high_bytes, 0x2c);
STET_AT(struct stet_node_disk, prefix_bytes, 0x2e);
STET_AT(struct stet_node_disk, reserved, 0x30);

STET_SIZE(struct stet_table_page_disk, 0x40);
STET_AT(struct stet_table_page_disk, magic, 0x00);
STET_AT(struct stet_table_page_disk, volume_id, 0x08);
STET_AT(struct stet_table_page_disk, sequence, 0x10);
STET_AT(struct stet_table_page_disk, page_no, 0x18);
STET_AT(struct stet_table_page_disk, first_slot, 0x1c);
STET_AT(struct stet_table_page_disk, slot_count, 0x20);
STET_AT(struct stet_table_page_disk, seg_blocks, 0x24);
STET_AT(struct stet_table_page_disk, reserved, 0x28);

STET_SIZE(struct stet_seg_entry_disk, 0x20);
STET_AT(struct stet_seg_entry_disk, id, 0x00);
STET_AT(struct stet_seg_entry_disk, opened, 0x08);
STET_AT(struct stet_seg_entry_disk, last_death, 0x10);
STET_AT(struct stet_seg_entry_disk, live_blocks, 0x18);
STET_AT(struct stet_seg_entry_disk, state, 0x1c);
STET_AT(struct stet_seg_entry_disk, kind, 0x1d);
STET_AT(struct stet_seg_entry_disk, pad, 0x1e);

STET_SIZE(struct stet_pseg_disk, 0xc0);
STET_AT(struct stet_pseg_disk, magic, 0x00);
STET_AT(struct stet_pseg_disk, volume_id, 0x08);
STET_AT(struct stet_pseg_disk, serial, 0x10);
STET_AT(struct stet_pseg_disk, prev_check, 0x18);
STET_AT(struct stet_pseg_disk, generation, 0x20);
STET_AT(struct stet_pseg_disk, durable, 0x28);
STET_AT(struct stet_pseg_disk, self, 0x30);
STET_AT(struct stet_pseg_disk, next1, 0x40);
STET_AT(struct stet_pseg_disk, next2, 0x50);
STET_AT(struct stet_pseg_disk, batch, 0x60);
STET_AT(struct stet_pseg_disk, cut, 0x68);
STET_AT(struct stet_pseg_disk, wall_ns, 0x70);
STET_AT(struct stet_pseg_disk, kind, 0x78);
STET_AT(struct stet_pseg_disk, pad, 0x79);
STET_AT(struct stet_pseg_disk, flags, 0x7a);
STET_AT(struct stet_pseg_disk, summary_blocks, 0x7c);
STET_AT(struct stet_pseg_disk, payload_blocks, 0x7e);
STET_AT(struct stet_pseg_disk, table_bytes, 0x80);
STET_AT(struct stet_pseg_disk, record_bytes, 0x84);
STET_AT(struct stet_pseg_disk, reserved, 0x88);
STET_AT(struct stet_pseg_disk, check, 0xb8);

STET_SIZE(struct stet_payload_disk, 0x18);
STET_AT(struct stet_payload_disk, kind, 0x00);
STET_AT(struct stet_payload_disk, pad, 0x01);
STET_AT(struct stet_payload_disk, block_count, 0x02);
STET_AT(struct stet_payload_disk, pad2, 0x04);
STET_AT(struct stet_payload_disk, owner, 0x08);
STET_AT(struct stet_payload_disk, offset, 0x10);

STET_SIZE(struct stet_record_disk, 0x8);
STET_AT(struct stet_record_disk, type, 0x0);
STET_AT(struct stet_record_disk, pad, 0x1);
STET_AT(struct stet_record_disk, key_bytes, 0x2);
STET_AT(struct stet_record_disk, value_bytes, 0x4);

STET_SIZE(struct stet_run_disk, 0x40);
STET_AT(struct stet_run_disk, root, 0x00);
STET_AT(struct stet_run_disk, root_level, 0x20);
STET_AT(struct stet_run_disk, pad, 0x24);
STET_AT(struct stet_run_disk, serial, 0x28);
STET_AT(struct stet_run_disk, commit_ns, 0x30);
STET_AT(struct stet_run_disk, item_count, 0x38);

STET_SIZE(struct stet_rec_segment_disk, 0xd);
STET_AT(struct stet_rec_segment_disk, id, 0x0);
STET_AT(struct stet_rec_segment_disk, slot, 0x8);
STET_AT(struct stet_rec_segment_disk, kind, 0xc);

STET_SIZE(struct stet_inode_disk, 0xd);
STET_AT(struct stet_inode_disk, mode, 0x0);
STET_AT(struct stet_inode_disk, flags, 0x2);
STET_AT(struct stet_inode_disk, present, 0x3);
STET_AT(struct stet_inode_disk, btime_ns, 0x5);

STET_SIZE(struct stet_extent_disk, 0x20);
STET_AT(struct stet_extent_disk, addr, 0x00);
STET_AT(struct stet_extent_disk, addr2, 0x08);
STET_AT(struct stet_extent_disk, birth, 0x10);
STET_AT(struct stet_extent_disk, block_count, 0x18);
STET_AT(struct stet_extent_disk, phys_blocks, 0x1a);
STET_AT(struct stet_extent_disk, phys_offset, 0x1c);
STET_AT(struct stet_extent_disk, flags, 0x1e);

STET_SIZE(struct stet_dirent_disk, 0x9);
STET_AT(struct stet_dirent_disk, ino, 0x0);
STET_AT(struct stet_dirent_disk, type, 0x8);

STET_SIZE(struct stet_orphan_disk, 0x9);
STET_AT(struct stet_orphan_disk, from_block, 0x0);
STET_AT(struct stet_orphan_disk, flags, 0x8);

/* I2 */
STET_IS(STET_FORMAT_VERSION, 1);
STET_IS(STET_CHECKSUM_CRC32C, 1);
STET_IS(STET_COMPRESS_LZ4, 1);
STET_IS(STET_COMPRESS_ZSTD, 2);
STET_IS(STET_TREE_CATALOG, 1);
STET_IS(STET_TREE_RUN, 2);
STET_IS(STET_KIND_INODE, 1);
STET_IS(STET_KIND_XATTR, 2);
STET_IS(STET_KIND_DIRENT, 3);
STET_IS(STET_KIND_EXTENT, 4);
STET_IS(STET_KIND_RECORD, 5);
STET_IS(STET_KIND_ORPHAN, 16);
STET_IS(STET_KIND_BADBLOCK, 17);
STET_IS(STET_KIND_SNAPSHOT, 18);
STET_IS(STET_KIND_DEADLIST, 19);
STET_IS(STET_KIND_RELOC, 20);
STET_IS(STET_KIND_REFS, 21);
STET_IS(STET_KIND_PREPARED, 22);
STET_IS(STET_MODE_TABLE, 14 << 12);
STET_IS(STET_RECORD_BLOCKS, 256);
STET_IS(STET_NUMBER_UID, 0);
STET_IS(STET_NUMBER_GID, 1);
STET_IS(STET_NUMBER_NLINK, 2);
STET_IS(STET_NUMBER_SIZE, 3);
STET_IS(STET_NUMBER_BLOCKS, 4);
STET_IS(STET_NUMBER_DATA_VERSION, 5);
STET_IS(STET_NUMBER_MTIME, 6);
STET_IS(STET_NUMBER_CTIME, 7);
STET_IS(STET_NUMBER_ATIME, 8);
STET_IS(STET_NUMBER_PARENT, 9);
STET_IS(STET_NUMBER_SUBDIRS, 10);
STET_IS(STET_NUMBER_RDEV, 11);
STET_IS(STET_SEG_FREE, 0);
STET_IS(STET_SEG_OPEN, 1);
STET_IS(STET_SEG_FULL, 2);
STET_IS(STET_SEG_BAD, 3);
STET_IS(STET_SEGK_LOG, 0);
STET_IS(STET_SEGK_NODE, 1);
STET_IS(STET_SEGK_NODE2, 2);
STET_IS(STET_SEGK_COLD, 3);
STET_IS(STET_PSEG_PAYLOAD, 1);
STET_IS(STET_PSEG_RECORDS, 2);
STET_IS(STET_PSEG_COMMIT, 3);
STET_IS(STET_PSEG_CHECKPOINT, 4);
STET_IS(STET_PSEG_IDLE, 5);
STET_IS(STET_PSEG_OFF_CHAIN, 1);
STET_IS(STET_PAYLOAD_DATA, 1);
STET_IS(STET_PAYLOAD_NODE, 2);
STET_IS(STET_PAYLOAD_TABLE, 3);
STET_IS(STET_PAYLOAD_CKPT, 4);
STET_IS(STET_PAYLOAD_XATTR, 5);
STET_IS(STET_REC_PUT, 1);
STET_IS(STET_REC_DEL, 2);
STET_IS(STET_REC_DELETE_RANGE, 3);
STET_IS(STET_REC_PATCH, 4);
STET_IS(STET_REC_RUN, 5);
STET_IS(STET_REC_SEGMENT, 6);
STET_IS(STET_REC_NEXT_INO, 7);
STET_IS(STET_REC_SNAPSHOT, 8);
STET_IS(STET_REC_PREPARED, 9);

/* Limits that other limits rest on. */
_Static_assert(1u << STET_BLOCK_SHIFT == STET_BLOCK_SIZE, "block shift");
_Static_assert(STET_NODE_BLOCKS *STET_BLOCK_SIZE == STET_NODE_SIZE, "node blocks");
_Static_assert(1u << STET_ADDR_BLOCK_BITS == STET_SEG_BLOCKS_MAX, "block bits of an address");
_Static_assert(STET_NUMBER_COUNT <= 16, "each number of an inode has a bit");
_Static_assert(STET_INODE_VALUE_MAX <= STET_VALUE_MAX, "an inode fits an item");
_Static_assert(STET_EXTENT_VALUE_MAX + 5 <= STET_VALUE_MAX, "an extent fits an item");
_Static_assert(STET_XATTR_INLINE_MAX < STET_VALUE_MAX, "an inline xattr fits an item");
_Static_assert(STET_XATTR_SIZE_MAX <= STET_EXTENT_BLOCKS_MAX * STET_BLOCK_SIZE,
	       "an xattr fits one extent");
_Static_assert(STET_ITEM_KEY_MAX + STET_VALUE_MAX + 4 <=
		       (STET_NODE_SIZE - sizeof(struct stet_node_disk) -
			(size_t)2 * STET_ITEM_KEY_MAX) /
			       4,
	       "four items of any size fit a node");
_Static_assert(STET_HEAD_BLOCKS > STET_CKPT_SLOT_BLOCK_1, "the head holds all fixed blocks");
