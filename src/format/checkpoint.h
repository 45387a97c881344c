/* checkpoint.h - checkpoint slots and checkpoint records.
 *
 * A slot is one block that names the newest checkpoint record written through it; the two slots are
 * written in turn. Because the segment table is reached through the record, whatever must be read
 * before the table is loaded is named with the device slot of its segment beside its address.
 */
#ifndef STET_FORMAT_CHECKPOINT_H
#define STET_FORMAT_CHECKPOINT_H

#include "base/endian.h"
#include "base/error.h"
#include "base/text.h"
#include "format/node.h"
#include "format/types.h"

#define STET_SLOT_MAGIC UINT64_C(0x746f6c5374657453) /* "StetSlot" */
#define STET_CKPT_MAGIC UINT64_C(0x74706b4374657453) /* "StetCkpt" */

/* An address together with the slot its segment lies in. */
struct stet_place_disk {
	le64 addr; /* 00 */
	le32 slot; /* 08 */
	le32 pad;  /* 0c */
};

struct stet_place {
	struct stet_addr addr;
	uint32_t slot;
};

struct stet_ckpt_slot_disk {
	le64 magic;     /* 000 */
	le64 volume_id; /* 008 */
	le64 sequence;  /* 010: number of the checkpoint; the higher of two valid slots wins */
	le64 cut;       /* 018: serial up to which the checkpoint's root holds everything */
	struct stet_place_disk record;     /* 020 */
	le32 record_bytes;                 /* 030 */
	le32 pad;                          /* 034 */
	le64 record_check;                 /* 038: crc64 of the record's bytes */
	uint8_t reserved[4096 - 0x40 - 8]; /* 040 */
	le64 check;                        /* ff8: crc64 of bytes 000..ff7 */
};

struct stet_ckpt_slot {
	uint64_t sequence;
	uint64_t cut;
	struct stet_place record;
	uint32_t record_bytes;
	uint64_t record_check;
};

void stet_ckpt_slot_encode(const struct stet_ckpt_slot *slot, uint64_t volume_id,
			   struct stet_ckpt_slot_disk *out);
/* -ENOENT: an all-zero block (never written). -EUCLEAN: damaged or another volume's. */
STET_CHECKED int stet_ckpt_slot_decode(const struct stet_ckpt_slot_disk *in, uint64_t volume_id,
				       struct stet_ckpt_slot *ret_slot);

/* Names one page of the segment table. */
struct stet_table_ptr_disk {
	le64 addr; /* 00 */
	le32 slot; /* 08 */
	le32 crc;  /* 0c: crc32c of the page */
};

struct stet_table_ptr {
	struct stet_addr addr;
	uint32_t slot;
	uint32_t crc;
};

/* The record: this header, then page_count table pointers. */
struct stet_ckpt_record_disk {
	le64 magic;                         /* 000 */
	le64 volume_id;                     /* 008 */
	le64 sequence;                      /* 010 */
	le64 cut;                           /* 018 */
	le64 generation;                    /* 020: open generation of the writer */
	le64 wall_ns;                       /* 028 */
	struct stet_node_ptr_disk root;     /* 030: 32 bytes; addr 0 = empty tree */
	le32 root_level;                    /* 050 */
	le32 page_count;                    /* 054 */
	struct stet_place_disk chain_next1; /* 058: where roll-forward starts */
	struct stet_place_disk chain_next2; /* 068 */
	le64 chain_check;  /* 078: check of the last summary before roll-forward starts */
	le64 chain_serial; /* 080: its serial */
	le64 next_ino;     /* 088: high-water mark of inode numbers */
	le64 next_seg_id;  /* 090 */
	le64 inode_count;  /* 098 */
	le64 data_blocks;  /* 0a0: blocks of file content the root names */
	le64 node_blocks;  /* 0a8: blocks of nodes the root names, all copies */
	struct stet_place_disk prev_record; /* 0b0: predecessor; addr 0 = none */
	le32 prev_bytes;                    /* 0c0 */
	le32 pad;                           /* 0c4 */
	le64 prev_check;                    /* 0c8 */
	uint8_t reserved[0x100 - 0xd0];     /* 0d0 */
};

struct stet_ckpt_record {
	uint64_t sequence;
	uint64_t cut;
	uint64_t generation;
	int64_t wall_ns;
	struct stet_node_ptr root;
	uint32_t root_level;
	uint32_t page_count;
	struct stet_place chain_next1, chain_next2;
	uint64_t chain_check;
	uint64_t chain_serial;
	uint64_t next_ino;
	uint64_t next_seg_id;
	uint64_t inode_count;
	uint64_t data_blocks;
	uint64_t node_blocks;
	struct stet_place prev_record;
	uint32_t prev_bytes;
	uint64_t prev_check;
};

/* A record is written as the payload of one partial segment: this leaves room for its summary. */
#define STET_CKPT_RECORD_BYTES_MAX(seg_blocks) (((size_t)(seg_blocks)-8) * STET_BLOCK_SIZE)

/* Bytes of a record that names page_count table pages. */
size_t stet_ckpt_record_bytes(uint32_t page_count);
/* Encodes into `out`, which holds stet_ckpt_record_bytes(rec->page_count). */
void stet_ckpt_record_encode(const struct stet_ckpt_record *rec, uint64_t volume_id,
			     const struct stet_table_ptr *pages, uint8_t *out);
/* Checks the range of every field and page pointer, then decodes; page pointers are read with
 * stet_ckpt_record_page. -EUCLEAN. The record holds no checksum of its own: the caller compares
 * stet_crc64 of its bytes with the record_check (slot) or prev_check (later record) that named it,
 * or, when it was found in the log, has verified its payload blocks. */
STET_CHECKED int stet_ckpt_record_decode(const uint8_t *in, size_t len_bytes, uint64_t volume_id,
					 struct stet_ckpt_record *ret_rec);
struct stet_table_ptr stet_ckpt_record_page(const uint8_t *in, uint32_t page_no);
void stet_ckpt_record_print(struct stet_text *t, const struct stet_ckpt_record *rec);

#endif
