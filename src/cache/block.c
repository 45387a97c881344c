/* block.c - data blocks in memory, each by itself, for small reads.
 *
 * B1. A cached block matches its crc; one found under another crc than the wanted is dropped and
 *     the wanted one read (the device decides which of the two was stale).
 * B2. Keeping a block is a favour: when there is no memory or no room for it, the read succeeds
 *     without.
 * B3. Runs of BYPASS_BLOCKS and more neither fill the cache nor look into it: big reads are as fast
 *     from the device, and would push out what small ones need.
 */
#include "cache/cache_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

#define BYPASS_BLOCKS 16u
#define RUN_BLOCKS STET_EXTENT_BLOCKS_MAX

/* A run of blocks to be read; the crcs are decoded piece by piece. */
struct run {
	struct stet_addr addr;
	struct stet_addr addr2;
	const uint8_t *crcs;
	uint8_t *out;
};

void stet_cblock_evict_(struct stet_cache *cache, struct stet_cblock_ *block)
{
	stet_cache_clock_del_(cache, &block->entry);
	stet_hash_remove(&cache->blocks, &block->hash);
	stet_cache_pool_put_(&cache->block_pool, block->data);
	STET_ASSERT_CMP(cache->usage.block_bytes, >=, STET_CBLOCK_BYTES_);
	cache->usage.block_bytes -= STET_CBLOCK_BYTES_;
	stet_free(block);
}

/* The block at addr, if it is here and has this crc. */
static struct stet_cblock_ *find(struct stet_cache *cache, struct stet_addr addr, uint32_t crc)
{
	struct stet_hash_node *h = stet_hash_find(&cache->blocks, stet_mix64(addr.v));
	struct stet_cblock_ *block = h ? stet_container_of(h, struct stet_cblock_, hash) : NULL;

	if (!block || block->crc == crc)
		return block;
	stet_cblock_evict_(cache, block); /* B1 */
	return NULL;
}

/* Keeps a copy of a block that was just verified and is not here yet (B2). */
static void keep(struct stet_cache *cache, struct stet_addr addr, uint32_t crc, const uint8_t *data)
{
	struct stet_cblock_ *block;

	if (!stet_cache_make_room_(cache, STET_CBLOCK_BYTES_))
		return;
	block = stet_calloc(1, sizeof(*block));
	if (!block)
		return;
	block->data = stet_cache_pool_get_(&cache->block_pool);
	if (!block->data ||
	    stet_hash_insert(&cache->blocks, stet_mix64(addr.v), &block->hash) != 0) {
		stet_cache_pool_put_(&cache->block_pool, block->data);
		stet_free(block);
		return;
	}
	memcpy(block->data, data, STET_BLOCK_SIZE);
	block->addr = addr;
	block->crc = crc;
	block->entry.kind = STET_CACHE_BLOCK_;
	stet_list_init(&block->entry.list);
	stet_cache_clock_add_(cache, &block->entry);
	cache->usage.block_bytes += STET_CBLOCK_BYTES_;
}

static uint32_t crc_at(const struct run *run, uint32_t index)
{
	return stet_get_le32(run->crcs + (size_t)index * 4);
}

static uint64_t locate(struct stet_cache *cache, struct stet_addr addr, uint32_t first,
		       uint32_t count)
{
	uint64_t off_bytes;

	if (stet_addr_is_none(addr) ||
	    stet_space_locate(cache->space, stet_addr_add(addr, first), count, &off_bytes) != 0)
		return UINT64_MAX;
	return off_bytes;
}

/* Reads and verifies blocks first .. first + count - 1 of the run from the device. */
static int read_part(struct stet_cache *cache, const struct run *run, uint32_t first,
		     uint32_t count)
{
	uint32_t crc[RUN_BLOCKS], healed = 0, bad = 0;
	struct stet_addr at;
	int rc;

	STET_ASSERT_CMP(count, <=, RUN_BLOCKS);
	for (uint32_t i = 0; i < count; i++)
		crc[i] = crc_at(run, first + i);
	rc = stet_cache_read_verified_(cache->device, locate(cache, run->addr, first, count),
				       locate(cache, run->addr2, first, count), count, crc,
				       run->out + (size_t)first * STET_BLOCK_SIZE, &healed, &bad);
	if (!rc) {
		cache->usage.healed += healed;
		return 0;
	}
	at = stet_addr_add(run->addr, first + bad);
	return STET_FAIL(rc, "data block %llu:%u: no copy reads right (%s)",
			 (unsigned long long)stet_addr_seg(at), stet_addr_block(at),
			 stet_error_text());
}

/* How many blocks from index `first` on are not in the cache; 0: that one is, and was copied. */
static uint32_t missing(struct stet_cache *cache, const struct run *run, uint32_t first,
			uint32_t count)
{
	uint32_t n = 0;

	while (first + n < count) {
		struct stet_cblock_ *block = find(cache, stet_addr_add(run->addr, first + n),
						  crc_at(run, first + n));

		if (block && n > 0)
			break;
		if (block) {
			memcpy(run->out + (size_t)first * STET_BLOCK_SIZE, block->data,
			       STET_BLOCK_SIZE);
			block->entry.referenced = true;
			cache->usage.block_hits++;
			break;
		}
		n++;
	}
	return n;
}

static int read_small(struct stet_cache *cache, const struct run *run, uint32_t count)
{
	for (uint32_t i = 0; i < count;) {
		uint32_t n = missing(cache, run, i, count);
		int rc;

		if (n == 0) {
			i++;
			continue;
		}
		rc = read_part(cache, run, i, n);
		if (rc)
			return rc;
		cache->usage.block_misses += n;
		for (; n > 0; n--, i++)
			keep(cache, stet_addr_add(run->addr, i), crc_at(run, i),
			     run->out + (size_t)i * STET_BLOCK_SIZE);
	}
	return 0;
}

int stet_cache_read(struct stet_cache *cache, struct stet_addr addr, struct stet_addr addr2,
		    uint16_t block_count, const uint8_t *crcs, uint8_t *out)
{
	struct run run = { .addr = addr, .addr2 = addr2, .crcs = crcs, .out = out };

	if (block_count < BYPASS_BLOCKS)
		return read_small(cache, &run, block_count);
	for (uint32_t i = 0; i < block_count; i += RUN_BLOCKS) {
		uint32_t left = block_count - i;
		int rc = read_part(cache, &run, i, left < RUN_BLOCKS ? left : RUN_BLOCKS);

		if (rc)
			return rc;
	}
	return 0;
}
