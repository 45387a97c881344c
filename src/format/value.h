/* value.h - catalog values: inodes, extents, directory entries, xattrs, orphans. */
#ifndef STET_FORMAT_VALUE_H
#define STET_FORMAT_VALUE_H

#include "base/endian.h"
#include "base/error.h"
#include "base/text.h"
#include "format/key.h"
#include "format/types.h"

/* Inode flags. The *_COMMIT flags are symbols: in memory until ordering, on disk only in runs, where
 * the run's commit time and serial stand for them. */
#define STET_INODE_CTIME_COMMIT 0x0001u
#define STET_INODE_MTIME_COMMIT 0x0002u
#define STET_INODE_INLINE 0x0004u /* content (or link target) lies behind the header, all of it */
#define STET_INODE_DATA_COMMIT 0x0008u /* data_version is the run's serial */
#define STET_INODE_FLAGS_KNOWN                                                   \
	(STET_INODE_CTIME_COMMIT | STET_INODE_MTIME_COMMIT | STET_INODE_INLINE | \
	 STET_INODE_DATA_COMMIT)

/* The type of a table in the mode; what readdir gives for it is the same >> 12. */
#define STET_MODE_TABLE 0160000u
#define STET_MODE_IS_TABLE(mode) (((mode)&0170000u) == STET_MODE_TABLE)

#define STET_NLINK_MAX INT32_MAX
#define STET_SYMLINK_MAX 4095u

/* The fixed part of an inode. Behind it come numbers, then the inline content, which ends the value. */
struct stet_inode_disk {
	le16 mode;     /* 00: S_IFMT and permissions */
	uint8_t flags; /* 02 */
	le16 present;  /* 03: bit n: number n (enum stet_inode_number) is there; it is not 0 */
	le64 btime_ns; /* 05: signed nanoseconds since the epoch */
};

/* The numbers, in their order. A number is 0 where its field is what is usual; it is then left out. Else it is
 * stored 7 bits a byte, the lowest first, with bit 7 set in all bytes but the last, in as few bytes as it
 * takes. So the last byte is never 0, and an inode has one encoding. */
enum stet_inode_number {
	STET_NUMBER_UID,
	STET_NUMBER_GID,   /* xor uid */
	STET_NUMBER_NLINK, /* xor 1 */
	STET_NUMBER_SIZE,  /* xor the number of inline bytes */
	STET_NUMBER_BLOCKS,
	STET_NUMBER_DATA_VERSION,
	STET_NUMBER_MTIME, /* later than btime; for all times: n >= 0 as 2n, n < 0 as -2n - 1 */
	STET_NUMBER_CTIME, /* later than mtime */
	STET_NUMBER_ATIME, /* later than btime */
	STET_NUMBER_PARENT,
	STET_NUMBER_SUBDIRS,
	STET_NUMBER_RDEV,
	STET_NUMBER_COUNT
};

struct stet_inode {
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t flags;
	uint32_t nlink; /* directories: 2 + subdirs is derived; here 1, or 0 when removed */
	uint32_t inline_bytes;
	uint64_t size; /* bytes; directories: entries; tables: records */
	uint64_t rdev; /* devices: major << 32 | minor */
	int64_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint64_t parent;            /* directories: inode number of the parent */
	uint64_t blocks;            /* file blocks mapped by extents */
	uint64_t subdirs;           /* directories: how many entries are directories */
	uint64_t data_version;      /* serial of the last change of content or size */
	const uint8_t *inline_data; /* borrowed; inline_bytes long */
};

#define STET_NUMBER_BYTES_MAX 10u /* of 64 bits; of 32 bits: 5 */
#define STET_INODE_VALUE_MAX \
	(0xdu + 3u * 5u + (STET_NUMBER_COUNT - 3u) * STET_NUMBER_BYTES_MAX + STET_INLINE_MAX)
/* What replacing the symbols by what they stand for can add to the bytes: ctime, mtime, data_version. */
#define STET_INODE_GROWTH_MAX ((size_t)3 * STET_NUMBER_BYTES_MAX)

/* Encodes; returns bytes written (<= STET_INODE_VALUE_MAX). Copies inode->inline_data, which must not lie
 * in `out`. */
size_t stet_inode_encode(const struct stet_inode *inode, uint8_t *out);
/* -EUCLEAN: another encoding than stet_inode_encode's, or type bits, ids, sizes, or inline length out of
 * range. inline_data points into `in`. */
STET_CHECKED int stet_inode_decode(const void *in, size_t len_bytes, struct stet_inode *ret_inode);
void stet_inode_print(struct stet_text *t, const struct stet_inode *inode);

#define STET_EXTENT_COMPRESSED 0x0001u /* reserved */
#define STET_EXTENT_SHARED 0x0002u     /* reserved */

struct stet_extent_disk {
	le64 addr;        /* 00 */
	le64 addr2;       /* 08: second copy, 0 = none */
	le64 birth;       /* 10: serial; 0 in runs: the run's serial */
	le16 block_count; /* 18: 1..64 file blocks */
	le16 phys_blocks; /* 1a: blocks on the device (= block_count unless compressed) */
	le16 phys_offset; /* 1c: reserved for compressed extents, 0 */
	le16 flags;       /* 1e */
			  /* le32 crc[phys_blocks] */
};

struct stet_extent {
	struct stet_addr addr;
	struct stet_addr addr2;
	uint64_t birth;
	uint16_t block_count;
	uint16_t phys_blocks;
	uint16_t phys_offset;
	uint16_t flags;
	const uint8_t *crcs; /* borrowed: le32 each, phys_blocks of them */
};

#define STET_EXTENT_VALUE_MAX (0x20u + 4u * STET_EXTENT_BLOCKS_MAX)

size_t stet_extent_encode(const struct stet_extent *extent, uint8_t *out);
/* seg_blocks bounds addr + phys_blocks within one segment. -EUCLEAN. */
STET_CHECKED int stet_extent_decode(const void *in, size_t len_bytes, uint32_t seg_blocks,
				    struct stet_extent *ret_extent);
void stet_extent_print(struct stet_text *t, const struct stet_extent *extent);

struct stet_dirent_disk {
	le64 ino;     /* 00 */
	uint8_t type; /* 08: as DT_* of readdir(3) */
};

struct stet_dirent {
	uint64_t ino;
	uint8_t type;
};

size_t stet_dirent_encode(const struct stet_dirent *dirent, uint8_t *out);
STET_CHECKED int stet_dirent_decode(const void *in, size_t len_bytes,
				    struct stet_dirent *ret_dirent);

/* An xattr value: one byte (0 = the bytes follow; 1 = le32 size, then an extent follows; 2 = le32 size,
 * then le64 id of the items that hold the bytes). The value of a RECORD item has the same form, with
 * other limits; there form 2 has the first of the table's file blocks that hold the bytes. Nobody writes
 * form 1. */
#define STET_XATTR_INLINE 0u
#define STET_XATTR_OUTLINE 1u
#define STET_XATTR_CHUNKED 2u
#define STET_XATTR_CHUNKED_BYTES 13u
#define STET_XATTR_INLINE_MAX 2048u
#define STET_RECORD_INLINE_MAX (STET_VALUE_MAX - 1u)
#define STET_RECORD_SIZE_MAX (1u << 20)
#define STET_RECORD_BLOCKS \
	(STET_RECORD_SIZE_MAX / STET_BLOCK_SIZE) /* numbers that a value is given */

struct stet_xattr {
	const uint8_t *data; /* borrowed: size_bytes of them; NULL: out of line */
	uint32_t size_bytes;
	uint64_t
		chunks; /* not 0: the id of the chunks, the first of the blocks, that hold size_bytes */
	struct stet_extent
		extent; /* else out of line: holds size_bytes, block_count of them whole */
};

/* Encodes; returns bytes written (<= STET_VALUE_MAX when inline, else 5 + an extent's). */
size_t stet_xattr_encode(const struct stet_xattr *xattr, uint8_t *out);
/* kind: STET_KIND_XATTR or STET_KIND_RECORD, for the limits. -EUCLEAN. */
STET_CHECKED int stet_xattr_decode(const void *in, size_t len_bytes, uint8_t kind,
				   uint32_t seg_blocks, struct stet_xattr *ret_xattr);

/* An orphan: what is still to be freed of an inode. */
#define STET_ORPHAN_UNLINKED 0x01u /* link count 0: the whole inode goes once it is closed */
#define STET_ORPHAN_TRUNCATE 0x02u /* extents at or beyond from_block go */

struct stet_orphan_disk {
	le64 from_block; /* 00 */
	uint8_t flags;   /* 08 */
};

struct stet_orphan {
	uint64_t from_block;
	uint8_t flags;
};

size_t stet_orphan_encode(const struct stet_orphan *orphan, uint8_t *out);
STET_CHECKED int stet_orphan_decode(const void *in, size_t len_bytes,
				    struct stet_orphan *ret_orphan);

/* Verifies key and value of any catalog item by its key's kind. What only runs may hold (times "of
 * the commit", birth 0) passes. -EUCLEAN. */
STET_CHECKED int stet_item_verify(const void *key, size_t key_bytes, const void *value,
				  size_t value_bytes, uint32_t seg_blocks);
void stet_value_print(struct stet_text *t, const void *key, size_t key_bytes, const void *value,
		      size_t value_bytes);

#endif
