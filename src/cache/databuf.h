/* databuf.h - buffers of file data: refcounted, placed once, never changed once somebody can see them.
 *
 * A buffer holds 1..64 blocks. Each block has an address (none until the log has placed it) and, once
 * placed, a crc. When the data is placed and flushed the memory may be given back; what is left then
 * still says where the blocks lie. Not thread-safe (volume's lock), but the bytes of a buffer that is
 * `frozen` may be read without the lock by whoever holds a reference.
 */
#ifndef STET_CACHE_DATABUF_H
#define STET_CACHE_DATABUF_H

#include "base/error.h"
#include "base/list.h"
#include "format/types.h"

struct stet_cache;

/* Part of everything that the cache may evict; its fields are private to cache/. */
struct stet_cache_entry {
	struct stet_list list; /* on the clock, or alone */
	uint8_t kind;
	bool referenced; /* used since the clock's hand last saw it */
};

struct stet_databuf {
	struct stet_cache *cache;
	uint32_t refs;
	uint32_t frozen; /* log groups and readers that use the bytes */
	uint16_t block_count;
	uint8_t *
		data; /* block_count * STET_BLOCK_SIZE bytes, aligned to a block; NULL = given back */
	struct stet_addr *addr; /* one per block */
	struct stet_addr
		*addr2;  /* second copies; NULL when there is one copy (data_copies, stubs) */
	uint32_t *crc;   /* one per block, valid where addr is set */
	uint64_t rooted; /* bit per block: a root names its place; else the buffer owns the place */
	bool cold;       /* the cleaner moves it: placed on the COLD head */
	struct stet_cache_entry lru; /* on the clock: clean buffers with data */
};

/* A buffer with zeroed data, one reference, no addresses. -ENOMEM. Charged to the cache. */
STET_CHECKED int stet_databuf_create(struct stet_cache *cache, uint16_t block_count,
				     struct stet_databuf **ret);
/* A buffer without data for blocks that lie on the device from addr on. crcs: le32 bytes. */
STET_CHECKED int stet_databuf_stub(struct stet_cache *cache, struct stet_addr addr,
				   struct stet_addr addr2, uint16_t block_count,
				   const uint8_t *crcs, struct stet_databuf **ret);
struct stet_databuf *stet_databuf_get(struct stet_databuf *buf);
/* The last put frees the memory (the places stay the caller's affair); not while frozen. NULL ok. */
void stet_databuf_put(struct stet_databuf *buf);
/* All blocks are placed and durable: the data may be evicted from now on. */
void stet_databuf_clean(struct stet_databuf *buf);
bool stet_databuf_placed(const struct stet_databuf *buf, uint16_t from, uint16_t count);

#endif
