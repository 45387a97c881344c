/* pool.c - pages of one size, aligned to a block.
 *
 * Nodes and blocks come and go at the rate of cache misses; a few idle pages of each size spare the
 * allocator most of that. What is idle is bounded (STET_CACHE_POOL_MAX_) and not counted as used.
 */
#include "cache/cache_internal.h"

#include "base/mem.h"

void stet_cache_pool_init_(struct stet_cache_pool_ *pool, size_t page_bytes)
{
	pool->page_bytes = page_bytes;
	pool->idle_count = 0;
}

void stet_cache_pool_release_(struct stet_cache_pool_ *pool)
{
	while (pool->idle_count > 0)
		stet_free(pool->idle[--pool->idle_count]);
}

uint8_t *stet_cache_pool_get_(struct stet_cache_pool_ *pool)
{
	if (pool->idle_count > 0)
		return pool->idle[--pool->idle_count];
	return stet_alloc_aligned(STET_BLOCK_SIZE, pool->page_bytes);
}

void stet_cache_pool_put_(struct stet_cache_pool_ *pool, uint8_t *page)
{
	if (page && pool->idle_count < STET_CACHE_POOL_MAX_)
		pool->idle[pool->idle_count++] = page;
	else
		stet_free(page);
}
