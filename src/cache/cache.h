/* cache.h - verified blocks and nodes in memory; the one door through which upper layers read.
 *
 * C1. What the cache hands out was verified: nodes by their pointer's check, blocks by their crc.
 * C2. Entries are found by address, never by (inode, page); an address is never given twice, so no
 *     entry is ever stale.
 * C3. Everything large in memory is charged here; clean entries go (second chance) before the limit
 *     is passed. Pinned nodes and dirty buffers cannot go: their owners keep them bounded.
 * Not thread-safe: guarded by the volume's lock.
 */
#ifndef STET_CACHE_CACHE_H
#define STET_CACHE_CACHE_H

#include "base/error.h"
#include "cache/databuf.h"
#include "device/device.h"
#include "format/node.h"
#include "format/superblock.h"
#include "space/space.h"

struct stet_cache;
struct stet_cnode; /* a node in the cache, pinned */

STET_CHECKED int stet_cache_create(struct stet_device *device, struct stet_space *space,
				   const struct stet_superblock *sb, uint64_t limit_bytes,
				   struct stet_cache **ret);
/* Asserts that no node is pinned and no buffer left. NULL ok. */
void stet_cache_destroy(struct stet_cache *cache);

/* Charges and gives back memory that others hold (delta, write-sets); evicts to stay below the
 * limit. Never fails. */
void stet_cache_charge(struct stet_cache *cache, int64_t bytes);
struct stet_cache_usage {
	uint64_t limit_bytes, used_bytes; /* used = nodes + blocks + buffers + charged */
	uint64_t node_bytes, block_bytes, buffer_bytes, charged_bytes;
	uint64_t node_hits, node_misses, block_hits, block_misses, evictions, healed;
	uint64_t over_limit; /* how often something came in although nothing could go */
};
void stet_cache_usage(const struct stet_cache *cache, struct stet_cache_usage *ret);
void stet_cache_usage_print(struct stet_text *t, const struct stet_cache_usage *usage);
/* Walks everything and compares it with the counts. Asserts. For tests. */
void stet_cache_check(struct stet_cache *cache);

/* --- nodes --- */
/* The node at ptr, verified and pinned. A copy that is bad or unreadable is passed over for the
 * second one. -EIO: neither could be read right. -ENOMEM. */
STET_CHECKED int stet_cache_node(struct stet_cache *cache, const struct stet_node_ptr *ptr,
				 uint32_t tree, uint32_t level, struct stet_cnode **ret);
const uint8_t *stet_cnode_bytes(const struct stet_cnode *node); /* valid while pinned */
const struct stet_node_guide *stet_cnode_guide(
	const struct stet_cnode *node); /* likewise; may be NULL */
struct stet_cnode *stet_cnode_pin(struct stet_cnode *node);
void stet_cnode_unpin(struct stet_cnode *node);
/* A new node that is about to be written: a zeroed, pinned page of STET_NODE_SIZE, not yet findable. */
STET_CHECKED int stet_cnode_create(struct stet_cache *cache, struct stet_cnode **ret);
uint8_t *stet_cnode_writable(struct stet_cnode *node); /* only before publish */
/* It was sealed and placed at ptr: findable from now on, and unchangeable. Placed anew (the group was
 * abandoned): published again, findable there only. */
STET_CHECKED int stet_cnode_publish(struct stet_cnode *node, const struct stet_node_ptr *ptr);
/* The node at ptr is no longer part of any root: forget it if unpinned (a pinned one is evicted in
 * its turn). */
void stet_cache_forget(struct stet_cache *cache, const struct stet_node_ptr *ptr);

/* --- data blocks --- */
/* Reads and verifies block_count blocks at addr into out. crcs: le32 each. Small reads are kept in
 * the cache; runs of 16 blocks and more pass it by. -EIO naming the first bad block: no copy could
 * be read right. */
STET_CHECKED int stet_cache_read(struct stet_cache *cache, struct stet_addr addr,
				 struct stet_addr addr2, uint16_t block_count, const uint8_t *crcs,
				 uint8_t *out);

/* --- data without the volume's lock: a planned read --- */
/* The pieces are planned under the lock, filled without it (device only; the caller keeps a view
 * open, so the places stay), and each verified. */
struct stet_read_piece {
	uint64_t device_off, device_off2; /* bytes; UINT64_MAX: there is no such copy */
	struct stet_databuf *buf;         /* frozen buffer to copy from instead, or NULL */
	uint32_t
		buf_offset_bytes; /* of the wanted bytes in it; skip and block_count do not count */
	uint32_t skip_bytes;      /* of the first block */
	uint32_t len_bytes;       /* wanted */
	uint16_t block_count;     /* to read and verify; 0 = a hole */
	uint8_t *out;
	uint32_t crc[STET_EXTENT_BLOCKS_MAX];
};
/* -EIO: not readable right from any copy. Thread-safe. */
STET_CHECKED int stet_cache_fill(struct stet_device *device, const struct stet_read_piece *piece);

#endif
