/* cache.c - the cache as a whole: its life, what it counts, what must hold.
 *
 * The parts: cnode.c (nodes), block.c (data blocks), databuf.c (buffers), clock.c (who goes),
 * pool.c (pages), fill.c (verified reads from the device). The limit covers all of them and what
 * others charge. Nothing here survives a crash or needs to: the cache holds no state of its own,
 * only copies of what the device holds and buffers whose owners know what to do with them.
 */
#include "cache/cache_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#define HASH_LOG2_INITIAL 8

int stet_cache_create(struct stet_device *device, struct stet_space *space,
		      const struct stet_superblock *sb, uint64_t limit_bytes,
		      struct stet_cache **ret)
{
	struct stet_cache *cache = stet_calloc(1, sizeof(*cache));

	if (!cache)
		return STET_FAIL(-ENOMEM, "cache: no memory");
	cache->device = device;
	cache->space = space;
	cache->volume_id = sb->volume_id;
	cache->data_copies = sb->data_copies;
	cache->usage.limit_bytes = limit_bytes;
	stet_hash_init(&cache->nodes, HASH_LOG2_INITIAL);
	stet_hash_init(&cache->blocks, HASH_LOG2_INITIAL);
	stet_list_init(&cache->clock);
	stet_cache_pool_init_(&cache->node_pool, STET_NODE_SIZE);
	stet_cache_pool_init_(&cache->block_pool, STET_BLOCK_SIZE);
	*ret = cache;
	return 0;
}

/* Everything that can go goes; what remains is somebody's mistake. */
static void evict_all(struct stet_cache *cache)
{
	struct stet_hash_node *next;

	for (struct stet_hash_node *h = stet_hash_first(&cache->nodes); h; h = next) {
		next = stet_hash_next(&cache->nodes, h);
		stet_cnode_evict_(stet_container_of(h, struct stet_cnode, hash));
	}
	for (struct stet_hash_node *h = stet_hash_first(&cache->blocks); h; h = next) {
		next = stet_hash_next(&cache->blocks, h);
		stet_cblock_evict_(cache, stet_container_of(h, struct stet_cblock_, hash));
	}
	STET_ASSERT_CMP(cache->usage.node_bytes, ==, 0);
	STET_ASSERT_CMP(cache->usage.block_bytes, ==, 0);
	STET_ASSERT_CMP(cache->usage.buffer_bytes, ==, 0);
}

void stet_cache_destroy(struct stet_cache *cache)
{
	if (!cache)
		return;
	STET_ASSERT_CMP(cache->pinned_count, ==, 0);
	evict_all(cache);
	stet_hash_release(&cache->nodes);
	stet_hash_release(&cache->blocks);
	stet_cache_pool_release_(&cache->node_pool);
	stet_cache_pool_release_(&cache->block_pool);
	stet_free(cache);
}

void stet_cache_charge(struct stet_cache *cache, int64_t bytes)
{
	if (bytes >= 0) {
		stet_cache_need_room_(cache, (uint64_t)bytes);
		cache->usage.charged_bytes += (uint64_t)bytes;
	} else {
		uint64_t less = (uint64_t)0 - (uint64_t)bytes;

		STET_ASSERT_CMP(cache->usage.charged_bytes, >=, less);
		cache->usage.charged_bytes -= less;
	}
}

void stet_cache_usage(const struct stet_cache *cache, struct stet_cache_usage *ret)
{
	*ret = cache->usage;
	ret->used_bytes = stet_cache_used_(cache);
}

void stet_cache_usage_print(struct stet_text *t, const struct stet_cache_usage *usage)
{
#define PRINT(name) \
	stet_text_printf(t, "%s%s=%llu", t->len ? " " : "", #name, (unsigned long long)usage->name)
	PRINT(limit_bytes);
	PRINT(used_bytes);
	PRINT(node_bytes);
	PRINT(block_bytes);
	PRINT(buffer_bytes);
	PRINT(charged_bytes);
	PRINT(node_hits);
	PRINT(node_misses);
	PRINT(block_hits);
	PRINT(block_misses);
	PRINT(evictions);
	PRINT(healed);
	PRINT(over_limit);
#undef PRINT
}

/* Checks the entries on the clock against K2; counts the nodes and blocks among them. */
static void check_clock(const struct stet_cache *cache, size_t *ret_nodes, size_t *ret_blocks)
{
	size_t count = 0;
	struct stet_list *pos;

	*ret_nodes = 0;
	*ret_blocks = 0;
	STET_LIST_FOREACH(pos, &cache->clock) {
		struct stet_cache_entry *entry = stet_container_of(pos, struct stet_cache_entry,
								   list);

		count++;
		if (entry->kind == STET_CACHE_NODE_) {
			STET_ASSERT(stet_container_of(entry, struct stet_cnode, entry)->findable);
			(*ret_nodes)++;
		} else if (entry->kind == STET_CACHE_BLOCK_) {
			(*ret_blocks)++;
		} else {
			STET_ASSERT_CMP(entry->kind, ==, STET_CACHE_BUFFER_);
			STET_ASSERT(stet_container_of(entry, struct stet_databuf, lru)->data);
		}
	}
	STET_ASSERT_CMP(count, ==, cache->clock_count);
}

void stet_cache_check(struct stet_cache *cache)
{
	size_t on_clock, blocks, pinned_off = 0;

	check_clock(cache, &on_clock, &blocks);
	for (struct stet_hash_node *h = stet_hash_first(&cache->nodes); h;
	     h = stet_hash_next(&cache->nodes, h)) {
		struct stet_cnode *node = stet_container_of(h, struct stet_cnode, hash);

		STET_ASSERT(node->findable);
		STET_ASSERT_CMP(node->hash.key, ==, stet_mix64(node->ptr.addr.v));
		if (!stet_list_linked(&node->entry.list)) {
			STET_ASSERT_CMP(node->pins, >, 0);
			pinned_off++;
		}
	}
	STET_ASSERT_CMP(on_clock + pinned_off, ==, stet_hash_count(&cache->nodes));
	STET_ASSERT_CMP(blocks, ==, stet_hash_count(&cache->blocks));
	STET_ASSERT_CMP(cache->usage.block_bytes, ==, blocks * STET_CBLOCK_BYTES_);
	STET_ASSERT_CMP(cache->usage.node_bytes % STET_CNODE_BYTES_, ==, 0);
	STET_ASSERT_CMP(cache->usage.node_bytes / STET_CNODE_BYTES_, >=,
			stet_hash_count(&cache->nodes));
}
