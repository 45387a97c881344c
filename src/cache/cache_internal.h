/* cache_internal.h - what the files of cache/ share.
 *
 * K1. Every node, block and buffer is counted in exactly one of node_bytes, block_bytes and
 *     buffer_bytes, from its allocation to its release.
 * K2. On the clock are: findable nodes (a pinned one may be missing and comes back when it is
 *     unpinned), all blocks, and clean buffers with data. Nothing else.
 */
#ifndef STET_CACHE_CACHE_INTERNAL_H
#define STET_CACHE_CACHE_INTERNAL_H

#include "base/hash.h"
#include "cache/cache.h"

enum stet_cache_kind_ {
	STET_CACHE_NODE_ = 1,
	STET_CACHE_BLOCK_ = 2,
	STET_CACHE_BUFFER_ = 3,
};

#define STET_CACHE_POOL_MAX_ 32u /* idle pages kept of each size; not counted as used */

/* Pages of one size, aligned to a block. */
struct stet_cache_pool_ {
	size_t page_bytes;
	uint32_t idle_count;
	uint8_t *idle[STET_CACHE_POOL_MAX_]; /* owned */
};

struct stet_cache {
	/* --- set at create, then constant --- */
	struct stet_device *device; /* borrowed */
	struct stet_space *space;   /* borrowed */
	uint64_t volume_id;
	uint32_t data_copies;
	/* --- guarded by the volume's lock --- */
	struct stet_cache_usage usage; /* used_bytes is filled in when asked */
	struct stet_hash nodes;        /* by stet_mix64 of the first address */
	struct stet_hash blocks;       /* likewise */
	struct stet_list clock;        /* the hand is at the head */
	size_t clock_count;
	uint64_t pinned_count; /* nodes with pins, findable or not */
	struct stet_cache_pool_ node_pool;
	struct stet_cache_pool_ block_pool;
};

struct stet_cnode {
	struct stet_cache_entry entry;
	struct stet_hash_node hash;
	struct stet_cache *cache;
	uint8_t *bytes; /* owned: a page of node_pool */
	uint32_t pins;
	bool findable; /* in cache->nodes; ptr is valid */
	struct stet_node_ptr ptr;
	struct stet_node_guide guide; /* valid when findable */
};

struct stet_cblock_ {
	struct stet_cache_entry entry;
	struct stet_hash_node hash;
	struct stet_addr addr;
	uint32_t crc;
	uint8_t *data; /* owned: a page of block_pool */
};

#define STET_CNODE_BYTES_ (STET_NODE_SIZE + sizeof(struct stet_cnode))
#define STET_CBLOCK_BYTES_ (STET_BLOCK_SIZE + sizeof(struct stet_cblock_))

/* pool.c. A page with undefined bytes, or NULL. */
void stet_cache_pool_init_(struct stet_cache_pool_ *pool, size_t page_bytes);
void stet_cache_pool_release_(struct stet_cache_pool_ *pool);
__attribute__((warn_unused_result)) uint8_t *stet_cache_pool_get_(struct stet_cache_pool_ *pool);
void stet_cache_pool_put_(struct stet_cache_pool_ *pool, uint8_t *page);

/* clock.c */
uint64_t stet_cache_used_(const struct stet_cache *cache);
void stet_cache_clock_add_(struct stet_cache *cache, struct stet_cache_entry *entry);
void stet_cache_clock_del_(struct stet_cache *cache, struct stet_cache_entry *entry);
/* Evicts until `bytes` more fit below the limit; whether they do. */
bool stet_cache_make_room_(struct stet_cache *cache, uint64_t bytes);
/* The same for what must come in anyway: counts when it does not fit. */
void stet_cache_need_room_(struct stet_cache *cache, uint64_t bytes);

/* The releasing halves of eviction: uncount and free an entry that the clock has let go. */
void stet_cnode_evict_(struct stet_cnode *node);
void stet_cblock_evict_(struct stet_cache *cache, struct stet_cblock_ *block);
void stet_databuf_give_back_(struct stet_databuf *buf);

/* fill.c. Reads `count` blocks and verifies each, from the first copy where it is right, else from
 * the second (UINT64_MAX: there is none, or it cannot be located). *ret_healed: blocks that the
 * second copy gave. -EIO: *ret_bad is the index of the first block that no copy gave right. */
STET_CHECKED int stet_cache_read_verified_(struct stet_device *device, uint64_t off_bytes,
					   uint64_t off2_bytes, uint32_t count, const uint32_t *crc,
					   uint8_t *out, uint32_t *ret_healed, uint32_t *ret_bad);

#endif
