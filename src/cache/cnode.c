/* cnode.c - tree nodes in memory: found by address, verified, pinned while in use.
 *
 *   created --publish--> findable, pinned <--pin/unpin--> findable, idle --evict--> gone
 *      |                        |
 *      +------- last unpin -----+--- displaced, last unpin ---> gone
 *
 * N1. A findable node's bytes do not change and were verified, or sealed by us (C1).
 * N2. At most one findable node has a given first address. One found there under another check is
 *     not the wanted node (whether the pointer or the entry is the stale one, the device decides):
 *     it is displaced, i.e. no longer findable, and the wanted one is read.
 * N3. A node that is not findable lives exactly as long as its pins.
 */
#include "cache/cache_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static void destroy(struct stet_cnode *node)
{
	struct stet_cache *cache = node->cache;

	STET_ASSERT(!node->findable && !stet_list_linked(&node->entry.list));
	stet_cache_pool_put_(&cache->node_pool, node->bytes);
	STET_ASSERT_CMP(cache->usage.node_bytes, >=, STET_CNODE_BYTES_);
	cache->usage.node_bytes -= STET_CNODE_BYTES_;
	stet_free(node);
}

/* A pinned node with undefined bytes. */
static int create(struct stet_cache *cache, struct stet_cnode **ret)
{
	struct stet_cnode *node;

	stet_cache_need_room_(cache, STET_CNODE_BYTES_);
	node = stet_calloc(1, sizeof(*node));
	if (!node)
		return STET_FAIL(-ENOMEM, "cache: no memory for a node");
	node->bytes = stet_cache_pool_get_(&cache->node_pool);
	if (!node->bytes) {
		stet_free(node);
		return STET_FAIL(-ENOMEM, "cache: no memory for a node");
	}
	node->cache = cache;
	node->entry.kind = STET_CACHE_NODE_;
	stet_list_init(&node->entry.list);
	node->pins = 1;
	cache->pinned_count++;
	cache->usage.node_bytes += STET_CNODE_BYTES_;
	*ret = node;
	return 0;
}

static struct stet_cnode *find(struct stet_cache *cache, struct stet_addr addr)
{
	struct stet_hash_node *h = stet_hash_find(&cache->nodes, stet_mix64(addr.v));

	return h ? stet_container_of(h, struct stet_cnode, hash) : NULL;
}

/* The node is no longer findable; it goes now, or at its last unpin (N3). */
static void displace(struct stet_cnode *node)
{
	stet_hash_remove(&node->cache->nodes, &node->hash);
	node->findable = false;
	stet_cache_clock_del_(node->cache, &node->entry);
	if (node->pins == 0)
		destroy(node);
}

void stet_cnode_evict_(struct stet_cnode *node)
{
	STET_ASSERT_CMP(node->pins, ==, 0);
	displace(node);
}

static int insert(struct stet_cnode *node, const struct stet_node_ptr *ptr)
{
	struct stet_cnode *other = find(node->cache, ptr->addr);
	int rc;

	if (other)
		displace(other); /* N2 */
	rc = stet_hash_insert(&node->cache->nodes, stet_mix64(ptr->addr.v), &node->hash);
	if (rc)
		return rc;
	node->findable = true;
	node->ptr = *ptr;
	stet_node_guide(node->bytes, &node->guide);
	return 0;
}

static bool is_wanted(const struct stet_cnode *node, const struct stet_node_ptr *ptr, uint32_t tree,
		      uint32_t level)
{
	const struct stet_node_disk *head = (const struct stet_node_disk *)node->bytes;

	return node->ptr.check == ptr->check && node->ptr.birth == ptr->birth &&
	       le32_get(head->tree) == tree && le16_get(head->level) == level;
}

static int read_copy(struct stet_cache *cache, struct stet_addr addr,
		     const struct stet_node_ptr *ptr, uint32_t tree, uint32_t level, uint8_t *bytes)
{
	uint64_t off_bytes;
	int rc = stet_space_locate(cache->space, addr, STET_NODE_BLOCKS, &off_bytes);

	if (!rc)
		rc = stet_device_read(cache->device, off_bytes, bytes, STET_NODE_SIZE);
	if (!rc)
		rc = stet_node_verify(bytes, cache->volume_id, tree, level, ptr);
	return rc;
}

/* Whether another copy may help. */
static bool is_bad_copy(int rc)
{
	return rc == -EIO || rc == -EUCLEAN || rc == -ESTALE;
}

static int fail_unreadable(const struct stet_node_ptr *ptr, const char *why1, const char *why2)
{
	return STET_FAIL(-EIO, "node %llu:%u (%s); second copy %llu:%u (%s)",
			 (unsigned long long)stet_addr_seg(ptr->addr), stet_addr_block(ptr->addr),
			 why1, (unsigned long long)stet_addr_seg(ptr->addr2),
			 stet_addr_block(ptr->addr2), why2);
}

/* The text of the latest failure, short enough that two of them fit into one text. */
static void copy_reason(char *why, size_t size_bytes)
{
	(void)snprintf(why, size_bytes, "%s", stet_error_text());
}

static int read_node(struct stet_cache *cache, const struct stet_node_ptr *ptr, uint32_t tree,
		     uint32_t level, uint8_t *bytes)
{
	char why1[90], why2[90] = "none";
	int rc;

	rc = read_copy(cache, ptr->addr, ptr, tree, level, bytes);
	if (!is_bad_copy(rc))
		return rc;
	copy_reason(why1, sizeof(why1));
	if (!stet_addr_is_none(ptr->addr2)) {
		rc = read_copy(cache, ptr->addr2, ptr, tree, level, bytes);
		if (!rc)
			cache->usage.healed++;
		if (!is_bad_copy(rc))
			return rc;
		copy_reason(why2, sizeof(why2));
	}
	return fail_unreadable(ptr, why1, why2);
}

int stet_cache_node(struct stet_cache *cache, const struct stet_node_ptr *ptr, uint32_t tree,
		    uint32_t level, struct stet_cnode **ret)
{
	struct stet_cnode *node;
	int rc;

	if (stet_addr_is_none(ptr->addr))
		return STET_FAIL(-EUCLEAN, "node pointer without an address");
	node = find(cache, ptr->addr);
	if (node && is_wanted(node, ptr, tree, level)) {
		cache->usage.node_hits++;
		*ret = stet_cnode_pin(node);
		return 0;
	}
	cache->usage.node_misses++;
	rc = create(cache, &node);
	if (rc)
		return rc;
	rc = read_node(cache, ptr, tree, level, node->bytes);
	if (!rc)
		rc = insert(node, ptr);
	if (rc) {
		stet_cnode_unpin(node);
		return rc;
	}
	*ret = node;
	return 0;
}

const uint8_t *stet_cnode_bytes(const struct stet_cnode *node)
{
	STET_DEBUG_ASSERT(node->pins > 0);
	return node->bytes;
}

const struct stet_node_guide *stet_cnode_guide(const struct stet_cnode *node)
{
	STET_DEBUG_ASSERT(node->pins > 0);
	return node->findable ? &node->guide : NULL;
}

struct stet_cnode *stet_cnode_pin(struct stet_cnode *node)
{
	if (node->pins++ == 0)
		node->cache->pinned_count++;
	node->entry.referenced = true;
	return node;
}

void stet_cnode_unpin(struct stet_cnode *node)
{
	struct stet_cache *cache = node->cache;

	STET_ASSERT_CMP(node->pins, >, 0);
	if (--node->pins > 0)
		return;
	cache->pinned_count--;
	if (!node->findable) {
		destroy(node); /* N3 */
		return;
	}
	if (!stet_list_linked(&node->entry.list))
		stet_cache_clock_add_(cache, &node->entry);
	if (stet_cache_used_(cache) > cache->usage.limit_bytes) /* or, with E3, may be */
		(void)stet_cache_make_room_(cache, 0);
}

int stet_cnode_create(struct stet_cache *cache, struct stet_cnode **ret)
{
	struct stet_cnode *node;
	int rc = create(cache, &node);

	if (rc)
		return rc;
	memset(node->bytes, 0, STET_NODE_SIZE);
	*ret = node;
	return 0;
}

uint8_t *stet_cnode_writable(struct stet_cnode *node)
{
	STET_ASSERT(!node->findable); /* N1 */
	STET_ASSERT_CMP(node->pins, >, 0);
	return node->bytes;
}

int stet_cnode_publish(struct stet_cnode *node, const struct stet_node_ptr *ptr)
{
	STET_ASSERT_CMP(node->pins, >, 0);
	STET_ASSERT(!stet_addr_is_none(ptr->addr));
	if (node->findable) {
		if (node->ptr.addr.v == ptr->addr.v) {
			node->ptr = *ptr;
			return 0;
		}
		displace(node); /* it was placed anew */
	}
	return insert(node, ptr);
}

void stet_cache_forget(struct stet_cache *cache, const struct stet_node_ptr *ptr)
{
	struct stet_cnode *node = find(cache, ptr->addr);

	if (node && node->ptr.check == ptr->check && node->pins == 0)
		displace(node);
}
