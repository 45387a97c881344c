/* node.h - tree nodes: 16 KiB, self-describing, verified as a whole.
 *
 *   | header 64 | offset of each item, le16 | free | high, low | items, the last first | prefix |
 *
 * Behind the free bytes nothing lies between: an item ends where the one before it in key order begins.
 * What the keys of all items begin with, the prefix, is stored once; of one item it is the whole key.
 * An item is: le16 suffix bytes (bit 15: tombstone), suffix (the rest of the key), value. In a leaf the
 * value is the catalog value; above, a struct stet_node_ptr_disk, and the key is the child's low fence
 * (the first item of the leftmost node of a level may have an empty key: minus infinity).
 * A node covers the keys in [low, high); an empty high fence is plus infinity.
 */
#ifndef STET_FORMAT_NODE_H
#define STET_FORMAT_NODE_H

#include "base/endian.h"
#include "base/error.h"
#include "base/text.h"
#include "format/key.h"
#include "format/types.h"

#define STET_NODE_MAGIC UINT64_C(0x65646f4e74657453) /* "StetNode" */
#define STET_TREE_CATALOG 1u
#define STET_TREE_RUN 2u
#define STET_TREE_LEVEL_MAX 15u

struct stet_node_ptr_disk {
	le64 addr;  /* 00 */
	le64 addr2; /* 08: second copy, 0 = none */
	le64 birth; /* 10: cut serial of the checkpoint that first holds it */
	le64 check; /* 18: crc64 of the node's 16 KiB with its check field as zero */
};

struct stet_node_ptr {
	struct stet_addr addr;
	struct stet_addr addr2;
	uint64_t birth;
	uint64_t check;
};

struct stet_node_disk {
	le64 magic;                    /* 00 */
	le64 volume_id;                /* 08 */
	le64 birth;                    /* 10 */
	le64 check;                    /* 18 */
	le32 tree;                     /* 20 */
	le16 level;                    /* 24: 0 = leaf */
	le16 item_count;               /* 26 */
	le16 items_start;              /* 28: offset of the lowest byte behind the free ones */
	le16 low_bytes;                /* 2a: of the low fence */
	le16 high_bytes;               /* 2c: 0 = plus infinity */
	le16 prefix_bytes;             /* 2e */
	uint8_t reserved[0x40 - 0x30]; /* 30 */
				       /* le16 offset[item_count] */
};

#define STET_ITEM_HEADER_BYTES 2u
#define STET_ITEM_TOMBSTONE 0x8000u

/* What an item says of its key. */
struct stet_item {
	const uint8_t *value; /* borrowed: lies in the node */
	uint16_t value_bytes;
	bool tombstone;
};

void stet_node_ptr_encode(const struct stet_node_ptr *ptr, struct stet_node_ptr_disk *out);
void stet_node_ptr_decode(const struct stet_node_ptr_disk *in, struct stet_node_ptr *ret_ptr);

/* Builder: begin, add items in rising key order, then seal. */
struct stet_node_builder {
	uint8_t *node; /* STET_NODE_SIZE bytes, owned by the caller */
	uint32_t item_count;
	uint32_t items_start;
	uint32_t prefix_bytes;
};
/* prefix: exactly what the keys to come begin with, the first and the last (stet_key_common). */
void stet_node_begin(struct stet_node_builder *b, uint8_t *node, uint32_t tree, uint32_t level,
		     const void *prefix, size_t prefix_bytes);
/* Whether an item of this size fits while fences of up to STET_ITEM_KEY_MAX each still do. */
bool stet_node_fits(const struct stet_node_builder *b, size_t key_bytes, size_t value_bytes);
/* key: whole, with the prefix. The item must fit. A tombstone has no value, and occurs only in leaves
 * of runs. */
void stet_node_add(struct stet_node_builder *b, const void *key, size_t key_bytes,
		   const void *value, size_t value_bytes, bool tombstone);
/* Bytes in use by items, offsets and the prefix so far (fences not counted). */
uint32_t stet_node_used(const struct stet_node_builder *b);
/* Sets the fences, birth and check; returns the check. low_bytes 0 = minus infinity,
 * high_bytes 0 = plus infinity. */
uint64_t stet_node_seal(struct stet_node_builder *b, uint64_t volume_id, uint64_t birth,
			const void *low, size_t low_bytes, const void *high, size_t high_bytes);

/* Verifies magic, volume, check (against the node's own and expect->check), birth (expect->birth),
 * tree, level, item bounds, a prefix that is the longest, strict key order, fences around all items,
 * no overlap; above the leaves also every child pointer. What a leaf's keys and values say is for
 * stet_item_verify. expect NULL: a scan that knows no pointer. -EUCLEAN. */
STET_CHECKED int stet_node_verify(const uint8_t *node, uint64_t volume_id, uint32_t tree,
				  uint32_t level, const struct stet_node_ptr *expect);
/* All below want a node that verified, or one just sealed. */
uint32_t stet_node_count(const uint8_t *node);
uint32_t stet_node_level(const uint8_t *node);
void stet_node_item(const uint8_t *node, uint32_t index, struct stet_item *ret_item);
/* The item's whole key. */
void stet_node_key(const uint8_t *node, uint32_t index, struct stet_key *ret_key);
/* stet_key_cmp of the item's key and the given one. */
int stet_node_key_cmp(const uint8_t *node, uint32_t index, const void *key, size_t key_bytes);
/* Signposts into a node, held beside it in memory: the beginnings of keys evenly spread over it. A search by
 * them looks at few of the node's cache lines, and what is not in the processor's caches is what it costs. */
#define STET_NODE_SIGNS 31u
struct stet_node_guide {
	uint64_t head[STET_NODE_SIGNS]; /* first 8 bytes of the suffix, big-endian, zero-padded */
	uint16_t index[STET_NODE_SIGNS];
	uint16_t count; /* 0: none, also for nodes of few items */
};
void stet_node_guide(const uint8_t *node, struct stet_node_guide *ret);
/* Index of the first item with key >= given key (item_count if none); *ret_equal if it is equal. guide: of
 * this node, or NULL. */
uint32_t stet_node_search(const uint8_t *node, const struct stet_node_guide *guide, const void *key,
			  size_t key_bytes, bool *ret_equal);
void stet_node_low(const uint8_t *node, const uint8_t **ret_key, uint32_t *ret_bytes);
void stet_node_high(const uint8_t *node, const uint8_t **ret_key, uint32_t *ret_bytes);
void stet_node_print(struct stet_text *t, const uint8_t *node);

/* memcmp order; a proper prefix is smaller. */
int stet_key_cmp(const void *a, size_t a_bytes, const void *b, size_t b_bytes);
/* How many bytes both begin with. */
size_t stet_key_common(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

#endif
