/* atlas.h - where every structure of an image lies, and which checksums cover it.
 *
 * A *part* is a structure that has a checksum, in itself or in what names it. A *ref* is such a naming: the
 * holder keeps a checksum of the target. A *patient* is a copy of a base that is being changed: parts are
 * loaded, changed and stored, and in the end all checksums up the chain are made right again.
 */
#ifndef TEST_IMAGE_ATLAS_H
#define TEST_IMAGE_ATLAS_H

#include "base/random.h"
#include "base/vec.h"
#include "format/checkpoint.h"
#include "format/key.h"
#include "format/node.h"
#include "format/segtable.h"
#include "format/summary.h"
#include "format/superblock.h"
#include "format/value.h"

struct stet_device;

enum part_kind {
	PART_SUPERBLOCK,
	PART_SLOT,
	PART_RECORD,
	PART_PAGE,
	PART_NODE,
	PART_SUMMARY,
	PART_DATA, /* one block of file content */
	PART_KINDS
};

#define PART_BYTES_MAX (STET_SEG_BLOCKS_MIN * STET_BLOCK_SIZE)

struct part {
	enum part_kind kind;
	uint64_t off, off2; /* bytes on the device; off2: a second copy, or 0 */
	uint32_t len;
	uint32_t tree, level;  /* nodes */
	uint64_t serial;       /* summaries; of records and slots the checkpoint's sequence */
	struct stet_addr addr; /* nodes, data */
	bool chain;            /* summaries: on the chain */
	bool live;             /* reached from a slot, or needed to roll forward */
};

enum ref_kind {
	REF_BLOCK_CRC, /* le32: crc32c of one of the target's blocks */
	REF_POINTER,   /* le64 birth, le64 check: of a node */
	REF_RECORD,    /* le64: crc64 of a record */
	REF_CHECK,     /* le64: check of a summary */
};

struct ref {
	uint32_t target, holder; /* parts */
	enum ref_kind kind;
	uint32_t at;    /* byte of the holder */
	uint32_t block; /* REF_BLOCK_CRC: which of the target's */
	bool second;    /* REF_BLOCK_CRC: of the target's second copy */
};

/* An item of the catalog, in a leaf or in a record of the log. */
struct item_place {
	uint32_t part;
	uint32_t key_at, value_at; /* bytes of the part; key_at in a node: the suffix */
	uint16_t key_bytes;        /* with the node's prefix */
	uint16_t prefix_bytes;     /* in a node */
	uint32_t value_bytes;
	uint8_t kind;  /* enum stet_kind; 0: an item above the leaves */
	uint8_t rec;   /* enum stet_record_type; 0: in a node */
	uint32_t head; /* where the item (or record) begins */
};

struct atlas {
	struct stet_superblock sb;
	uint64_t size_bytes;
	uint8_t *bytes; /* of the whole image */
	STET_VEC(struct part) parts;
	STET_VEC(struct ref) refs; /* sorted by target */
	STET_VEC(struct item_place) items;
	STET_VEC(uint32_t) order;             /* parts, each before the holders of its refs */
	STET_VEC(uint32_t) chain;             /* summaries on the chain, in order */
	STET_VEC(struct stet_place) segments; /* where each lies: block 0 */
	uint32_t *kind_first[PART_KINDS];     /* the live parts of each kind */
	uint32_t kind_n[PART_KINDS];
};

struct atlas *atlas_create(struct stet_device *device);
void atlas_destroy(struct atlas *a);
/** UINT64_MAX: it lies nowhere. */
uint64_t atlas_offset(const struct atlas *a, struct stet_addr addr);
/** The item's whole key. */
void atlas_key(const struct atlas *a, const struct item_place *item, struct stet_key *ret);

struct patient {
	const struct atlas *atlas;
	struct stet_device *device; /* a copy of the base's; borrowed */
	bool *dirty;                /* per part */
};

void patient_init(struct patient *p, const struct atlas *a, struct stet_device *device);
void patient_release(struct patient *p);
/** buf: part.len bytes. */
void patient_load(struct patient *p, uint32_t part, uint8_t *buf);
/** Both copies. */
void patient_store(struct patient *p, uint32_t part, const uint8_t *buf);
/** Makes the checksums of what was stored right, and those of all that names it. */
void patient_reseal(struct patient *p);

#endif
