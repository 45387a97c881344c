/* superblock.h - what a volume is, fixed at mkfs (and at resize).
 *
 * Copies lie in block 0, in block 16 and in the last whole block of the device; each names its own
 * place in `copy`. A reader takes the first that verifies. Checkpoint slots lie in blocks 8 and 24.
 */
#ifndef STET_FORMAT_SUPERBLOCK_H
#define STET_FORMAT_SUPERBLOCK_H

#include "base/endian.h"
#include "base/error.h"
#include "base/text.h"
#include "format/types.h"

#define STET_SB_MAGIC UINT64_C(0x0153467465745300) /* bytes 00 "StetFS" 01 */
#define STET_FORMAT_VERSION 1u
#define STET_SB_BLOCK_0 0u
#define STET_SB_BLOCK_1 16u
#define STET_CKPT_SLOT_BLOCK_0 8u
#define STET_CKPT_SLOT_BLOCK_1 24u
#define STET_HEAD_BLOCKS 32u /* segments never start below this block */

/* Feature bits that version 1 knows. Unknown compat bits are kept, unknown ro_compat bits allow
 * reading only (the caller looks), unknown incompat bits allow nothing. */
#define STET_FEATURE_COMPAT_KNOWN UINT64_C(0)
#define STET_FEATURE_RO_COMPAT_KNOWN UINT64_C(0)
#define STET_FEATURE_INCOMPAT_KNOWN UINT64_C(0)

enum stet_compress { STET_COMPRESS_NONE = 0, STET_COMPRESS_LZ4 = 1, STET_COMPRESS_ZSTD = 2 };
enum stet_checksum_kind { STET_CHECKSUM_CRC32C = 1 };

struct stet_superblock_disk {
	le64 magic;             /* 000 */
	le32 version;           /* 008 */
	le32 copy;              /* 00c: 0, 1 or 2 */
	le64 volume_id;         /* 010: random; every structure of the volume carries it */
	uint8_t uuid[16];       /* 018 */
	uint8_t label[64];      /* 028: NUL padded */
	le64 feature_compat;    /* 068 */
	le64 feature_ro_compat; /* 070 */
	le64 feature_incompat;  /* 078 */
	le64 device_blocks;     /* 080: whole blocks of the device */
	le64 seg_start_block;   /* 088: device block of slot 0 */
	le32 slot_count;        /* 090: segments on the device */
	le32 seg_blocks;        /* 094 */
	le32 node_size_bytes;   /* 098 */
	uint8_t checksum_kind;  /* 09c */
	uint8_t compress;       /* 09d */
	uint8_t meta_copies;    /* 09e: 1 or 2 */
	uint8_t data_copies;    /* 09f: 1 or 2 */
	le64 created_ns;        /* 0a0: wall clock */
	uint8_t reserved[4096 - 0xa8 - 8]; /* 0a8 */
	le64 check;                        /* ff8: crc64 of bytes 000..ff7 */
};

struct stet_superblock {
	uint64_t volume_id;
	uint8_t uuid[16];
	char label[65];
	uint64_t feature_compat, feature_ro_compat, feature_incompat;
	uint64_t device_blocks;
	uint64_t seg_start_block;
	uint32_t slot_count;
	uint32_t seg_blocks;
	uint8_t compress;
	uint8_t meta_copies;
	uint8_t data_copies;
	int64_t created_ns;
};

/* Writes the block image of copy number `copy`. Every byte of *out is set. */
void stet_superblock_encode(const struct stet_superblock *sb, uint32_t copy,
			    struct stet_superblock_disk *out);
/* Checks magic, checksum, version, features and the range of every field, in this order, then
 * decodes. -EINVAL: not a StetFS superblock (wrong magic). -EUCLEAN: damaged. -EOPNOTSUPP: unknown
 * version or incompatible feature (the text names it). */
STET_CHECKED int stet_superblock_decode(const struct stet_superblock_disk *in,
					struct stet_superblock *ret_sb);
void stet_superblock_print(struct stet_text *t, const struct stet_superblock *sb);

#endif
