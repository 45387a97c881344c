/* clock.c - one limit, one clock: who goes when memory is wanted.
 *
 * Second chance: the hand takes the entry at the head of the list; one that was used since the hand
 * last saw it loses its mark and goes to the tail, one that was not is evicted. A new entry starts
 * without the mark at the tail, so that what is used only once does not outlive what is used again.
 *
 * E1. What cannot go now is met at most once per round: a pinned node is taken off the clock (its
 *     last unpin puts it back), a frozen buffer goes to the tail.
 * E2. A search ends after two rounds, so it is bounded also when nothing can go; then the limit is
 *     passed, and counted.
 * E3. What is charged cannot be evicted. However much it is, an eighth of the limit is left to the rest: with
 *     less, what one operation needs would drive out what the next one does.
 */
#include "cache/cache_internal.h"

#include "base/assert.h"

uint64_t stet_cache_used_(const struct stet_cache *cache)
{
	const struct stet_cache_usage *u = &cache->usage;

	return u->node_bytes + u->block_bytes + u->buffer_bytes + u->charged_bytes;
}

void stet_cache_clock_add_(struct stet_cache *cache, struct stet_cache_entry *entry)
{
	STET_ASSERT(!stet_list_linked(&entry->list));
	stet_list_add_tail(&cache->clock, &entry->list);
	cache->clock_count++;
}

void stet_cache_clock_del_(struct stet_cache *cache, struct stet_cache_entry *entry)
{
	if (!stet_list_linked(&entry->list))
		return;
	STET_ASSERT_CMP(cache->clock_count, >, 0);
	stet_list_del(&entry->list);
	cache->clock_count--;
}

static bool is_pinned(const struct stet_cache_entry *entry)
{
	return entry->kind == STET_CACHE_NODE_ &&
	       stet_container_of(entry, const struct stet_cnode, entry)->pins > 0;
}

static bool is_frozen(const struct stet_cache_entry *entry)
{
	return entry->kind == STET_CACHE_BUFFER_ &&
	       stet_container_of(entry, const struct stet_databuf, lru)->frozen > 0;
}

static void evict(struct stet_cache *cache, struct stet_cache_entry *entry)
{
	switch ((enum stet_cache_kind_)entry->kind) {
	case STET_CACHE_NODE_:
		stet_cnode_evict_(stet_container_of(entry, struct stet_cnode, entry));
		break;
	case STET_CACHE_BLOCK_:
		stet_cblock_evict_(cache, stet_container_of(entry, struct stet_cblock_, entry));
		break;
	case STET_CACHE_BUFFER_:
		stet_databuf_give_back_(stet_container_of(entry, struct stet_databuf, lru));
		break;
	}
	cache->usage.evictions++;
}

/* The hand moves over one entry. */
static void tick(struct stet_cache *cache, struct stet_cache_entry *entry)
{
	bool keep = entry->referenced || is_frozen(entry);

	stet_cache_clock_del_(cache, entry);
	if (is_pinned(entry))
		return; /* E1 */
	if (!keep) {
		evict(cache, entry);
		return;
	}
	entry->referenced = false;
	stet_cache_clock_add_(cache, entry);
}

/* E3 */
static uint64_t counted(const struct stet_cache *cache)
{
	const struct stet_cache_usage *u = &cache->usage;
	uint64_t most = u->limit_bytes - u->limit_bytes / 8;

	return u->node_bytes + u->block_bytes + u->buffer_bytes +
	       (u->charged_bytes < most ? u->charged_bytes : most);
}

bool stet_cache_make_room_(struct stet_cache *cache, uint64_t bytes)
{
	size_t visits = 2 * cache->clock_count; /* E2 */

	while (counted(cache) + bytes > cache->usage.limit_bytes && visits-- > 0) {
		struct stet_list *first = stet_list_first(&cache->clock);

		if (!first)
			break;
		tick(cache, stet_container_of(first, struct stet_cache_entry, list));
	}
	return counted(cache) + bytes <= cache->usage.limit_bytes;
}

void stet_cache_need_room_(struct stet_cache *cache, uint64_t bytes)
{
	if (!stet_cache_make_room_(cache, bytes))
		cache->usage.over_limit++;
}
