/* summary.h - partial segments: the log's unit of writing.
 *
 * A partial segment is a summary (header, payload table, records; whole blocks) followed by its
 * payload blocks. Every head writes them. Those of the main head form a chain: each carries the
 * check of the one before it and two candidate places for the one after it. Those of other heads
 * (kind PAYLOAD, `off_chain`) have prev_check, next1 and next2 zero.
 *
 *   block 0                          block summary_blocks
 *   | header | payload table | records | zero pad | payload block 0 | payload block 1 | ...
 *
 * The payload table is a sequence of entries, each followed by its blocks' crc32c (le32 each).
 * Records are a sequence of headers, each followed by key bytes and value bytes, unaligned.
 * Records of one batch may lie in several partial segments of the chain (kind RECORDS, then COMMIT);
 * they count only when a COMMIT with the same batch number follows; a new batch number drops what
 * an older, uncommitted batch left.
 */
#ifndef STET_FORMAT_SUMMARY_H
#define STET_FORMAT_SUMMARY_H

#include "base/buf.h"
#include "base/endian.h"
#include "base/error.h"
#include "base/text.h"
#include "format/checkpoint.h"
#include "format/types.h"

#define STET_SUMMARY_MAGIC UINT64_C(0x6765535074657453) /* "StetPSeg" */

enum stet_pseg_kind {
	STET_PSEG_PAYLOAD = 1,    /* payload only: early-placed data, nodes, table pages */
	STET_PSEG_RECORDS = 2,    /* records of a batch whose COMMIT comes later */
	STET_PSEG_COMMIT = 3,     /* the last records of a batch; the batch counts from here */
	STET_PSEG_CHECKPOINT = 4, /* payload is a checkpoint record */
	STET_PSEG_IDLE = 5,       /* empty: publishes `durable` */
};

#define STET_PSEG_OFF_CHAIN 0x0001u

struct stet_pseg_disk {
	le64 magic;      /* 00 */
	le64 volume_id;  /* 08 */
	le64 serial;     /* 10: this partial segment's own place in the order */
	le64 prev_check; /* 18: `check` of the previous one in the chain */
	le64 generation; /* 20: open generation; of two valid candidates the higher wins */
	le64 durable;    /* 28: highest serial known to be flushed when this was written */
	struct stet_place_disk self;  /* 30 */
	struct stet_place_disk next1; /* 40 */
	struct stet_place_disk next2; /* 50 */
	le64 batch;                   /* 60: batch number of RECORDS and COMMIT, else 0 */
	le64 cut;            /* 68: COMMIT: highest operation serial of the batch, else 0 */
	le64 wall_ns;        /* 70 */
	uint8_t kind;        /* 78 */
	uint8_t pad;         /* 79 */
	le16 flags;          /* 7a */
	le16 summary_blocks; /* 7c */
	le16 payload_blocks; /* 7e */
	le32 table_bytes;    /* 80 */
	le32 record_bytes;   /* 84 */
	uint8_t reserved[0xb8 - 0x88]; /* 88 */
	le64 check;                    /* b8: crc64 of all summary blocks, this field as zero */
};

struct stet_pseg {
	uint64_t serial;
	uint64_t prev_check;
	uint64_t generation;
	uint64_t durable;
	struct stet_place self, next1, next2;
	uint64_t batch;
	uint64_t cut;
	int64_t wall_ns;
	enum stet_pseg_kind kind;
	uint16_t flags;
	uint16_t summary_blocks;
	uint16_t payload_blocks;
	uint32_t table_bytes;
	uint32_t record_bytes;
	uint64_t check;
};

enum stet_payload_kind {
	STET_PAYLOAD_DATA = 1,  /* owner: inode number; offset: first file block */
	STET_PAYLOAD_NODE = 2,  /* owner: tree (1 catalog, 2 run); offset: level */
	STET_PAYLOAD_TABLE = 3, /* owner: 0; offset: page number */
	STET_PAYLOAD_CKPT = 4,  /* owner: 0; offset: checkpoint sequence */
	STET_PAYLOAD_XATTR = 5, /* xattr or record value; owner: inode number; offset: 0 */
};

struct stet_payload_disk {
	uint8_t kind;     /* 00 */
	uint8_t pad;      /* 01 */
	le16 block_count; /* 02 */
	le32 pad2;        /* 04 */
	le64 owner;       /* 08 */
	le64 offset;      /* 10 */
			  /* le32 crc[block_count] */
};

struct stet_payload {
	enum stet_payload_kind kind;
	uint16_t block_count;
	uint64_t owner;
	uint64_t offset;
	uint32_t first_block; /* of the payload area; filled by the iterator */
	const uint8_t *crcs;  /* borrowed: le32 each, lies in the summary */
};

/* The base of a PATCH: the address of a block (with its crc), or one of these. */
#define STET_PATCH_BASE_CURRENT UINT64_C(0) /* the block as it is before this record */
#define STET_PATCH_BASE_HOLE UINT64_C(1)    /* zeros */

enum stet_record_type {
	STET_REC_PUT = 1,          /* key, value: the key's new value */
	STET_REC_DEL = 2,          /* key */
	STET_REC_DELETE_RANGE = 3, /* key = first, value = end; reserved, refused by version 1 */
	STET_REC_PATCH = 4, /* key of an EXTENT block; value: base, crc, offset, bytes; see below */
	STET_REC_RUN = 5,   /* value: struct stet_run_disk: a sorted run as a tree */
	STET_REC_SEGMENT = 6,  /* value: le64 id, le32 slot, u8 kind: a segment was opened */
	STET_REC_NEXT_INO = 7, /* value: le64: high-water mark of inode numbers */
	STET_REC_SNAPSHOT = 8, /* reserved */
	STET_REC_PREPARED = 9, /* reserved */
};

struct stet_record_disk {
	uint8_t type;     /* 00 */
	uint8_t pad;      /* 01 */
	le16 key_bytes;   /* 02 */
	le32 value_bytes; /* 04 */
};

/* Value of a SEGMENT record. */
struct stet_rec_segment_disk {
	le64 id;      /* 00 */
	le32 slot;    /* 08 */
	uint8_t kind; /* 0c: enum stet_seg_kind */
};

struct stet_rec_segment {
	uint64_t id;
	uint32_t slot;
	uint8_t kind;
};

/* A PATCH record's value: le64 base, le32 crc of the base, le32 offset in the block; then the bytes,
 * at most to the end of the block. */
#define STET_PATCH_HEADER_BYTES 16u
#define STET_PATCH_VALUE_MAX (STET_PATCH_HEADER_BYTES + STET_BLOCK_SIZE)

struct stet_log_record {
	enum stet_record_type type;
	uint16_t key_bytes;
	uint32_t value_bytes;
	const uint8_t *key; /* borrowed: lies in the summary */
	const uint8_t *value;
};

/* A run: a tree of one transaction's changes. Its values may hold symbols (birth 0, times "of the
 * commit") that the record's serial and commit time resolve. Deletions are items with the
 * tombstone flag. */
struct stet_run_disk {
	struct stet_node_ptr_disk root; /* 00 */
	le32 root_level;                /* 20 */
	le32 pad;                       /* 24 */
	le64 serial;                    /* 28: the transaction's ordering serial */
	le64 commit_ns;                 /* 30: its commit time */
	le64 item_count;                /* 38 */
};

/* Header codec. `summary` holds summary_blocks * STET_BLOCK_SIZE bytes; seal fills the header
 * from *pseg, zeroes the pad behind the records and returns the check (also stored). */
uint64_t stet_pseg_seal(uint8_t *summary, const struct stet_pseg *pseg, uint64_t volume_id);
/* Decodes and range-checks the header found in one block; the check covers all summary blocks
 * and is verified by stet_pseg_verify. -ENOENT: no summary here (magic or volume id differ).
 * -EUCLEAN: damaged. seg_blocks bounds every size. */
STET_CHECKED int stet_pseg_decode(const uint8_t *block, uint64_t volume_id, uint32_t seg_blocks,
				  struct stet_pseg *ret_pseg);
/* Verifies the whole summary: check, payload table and every record within bounds. Keys and values
 * of the records are for stet_record_verify, called by whoever applies them. -EUCLEAN. */
STET_CHECKED int stet_pseg_verify(const uint8_t *summary, const struct stet_pseg *pseg);

/* Appends to a growing payload table / record area (plain byte buffers that the log later lays
 * out behind the header). 0 or -ENOMEM. */
STET_CHECKED int stet_payload_append(struct stet_buf *table, enum stet_payload_kind kind,
				     uint64_t owner, uint64_t offset, const uint32_t *crcs,
				     uint16_t block_count);
STET_CHECKED int stet_record_append(struct stet_buf *records, enum stet_record_type type,
				    const void *key, size_t key_bytes, const void *value,
				    size_t value_bytes);

/* Iterators over a verified summary: *pos starts at 0; true while an item was returned. */
bool stet_payload_next(const uint8_t *summary, const struct stet_pseg *pseg, uint32_t *pos,
		       uint32_t *first_block, struct stet_payload *ret);
bool stet_record_next(const uint8_t *summary, const struct stet_pseg *pseg, uint32_t *pos,
		      struct stet_log_record *ret);

/* Verifies key and value of a record that a verified summary holds, by its type. -EUCLEAN. */
STET_CHECKED int stet_record_verify(const struct stet_log_record *rec, uint32_t seg_blocks);
void stet_rec_segment_encode(const struct stet_rec_segment *seg, struct stet_rec_segment_disk *out);
STET_CHECKED int stet_rec_segment_decode(const void *in, size_t len_bytes,
					 struct stet_rec_segment *ret_seg);

/* Blocks that a summary with these areas takes. */
uint32_t stet_pseg_summary_blocks(size_t table_bytes, size_t record_bytes);
void stet_pseg_print(struct stet_text *t, const struct stet_pseg *pseg);
void stet_record_print(struct stet_text *t, const struct stet_log_record *rec);

struct stet_run {
	struct stet_node_ptr root;
	uint32_t root_level;
	uint64_t serial;
	int64_t commit_ns;
	uint64_t item_count;
};
void stet_run_encode(const struct stet_run *run, struct stet_run_disk *out);
STET_CHECKED int stet_run_decode(const void *in, size_t len_bytes, struct stet_run *ret_run);

#endif
