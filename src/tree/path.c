/* path.c - from the root to a node of some level, every step checked.
 *
 * P1. path[l] is pinned for l from root.level down to some level, NULL below; index[l] is the child
 *     of path[l] that path[l - 1] is.
 * P2. A child's low fence equals the key of its item, its high fence the next item's key, or the
 *     parent's high fence; the first item's key is the parent's low fence; the root's fences are
 *     empty (T3). Each step down checks this, so what works on a path may rely on it.
 * Nodes are verified against their pointers by the cache; a fence that does not fit is -EUCLEAN.
 */
#include "tree/tree_internal.h"

#include "base/assert.h"

static void drop_level(struct stet_tree_cursor *cur, uint32_t level)
{
	if (cur->path[level])
		stet_cnode_unpin(cur->path[level]);
	cur->path[level] = NULL;
}

/* P2 for the child at `index` of a node. */
static int check_fences(const uint8_t *node, uint32_t index, const uint8_t *child)
{
	const uint8_t *low, *high, *upper;
	uint32_t low_bytes, high_bytes, upper_bytes;
	bool fits;

	stet_node_low(child, &low, &low_bytes);
	stet_node_high(child, &high, &high_bytes);
	if (stet_node_key_cmp(node, index, low, low_bytes) != 0)
		return STET_FAIL(-EUCLEAN, "tree: level %u: low fence of child %u is not its key",
				 stet_node_level(node), index);
	stet_node_low(node, &low, &low_bytes);
	if (index == 0 && stet_node_key_cmp(node, 0, low, low_bytes) != 0)
		return STET_FAIL(-EUCLEAN, "tree: level %u: first key is not the low fence",
				 stet_node_level(node));
	if (index + 1 < stet_node_count(node)) {
		fits = stet_node_key_cmp(node, index + 1, high, high_bytes) == 0;
	} else {
		stet_node_high(node, &upper, &upper_bytes);
		fits = stet_key_cmp(high, high_bytes, upper, upper_bytes) == 0;
	}
	if (!fits)
		return STET_FAIL(-EUCLEAN, "tree: level %u: high fence of child %u does not fit",
				 stet_node_level(node), index);
	return 0;
}

int stet_tree_path_top_(struct stet_tree_cursor *cur)
{
	const uint8_t *fence;
	uint32_t low_bytes, high_bytes;
	struct stet_cnode *node;
	int rc;

	if (cur->root.level > STET_TREE_LEVEL_MAX)
		return STET_FAIL(-EUCLEAN, "tree: root of level %u", cur->root.level);
	if (cur->path[cur->root.level])
		return 0;
	rc = stet_cache_node(cur->cache, &cur->root.ptr, cur->tree, cur->root.level, &node);
	if (rc)
		return rc;
	stet_node_low(stet_cnode_bytes(node), &fence, &low_bytes);
	stet_node_high(stet_cnode_bytes(node), &fence, &high_bytes);
	if (low_bytes > 0 || high_bytes > 0) {
		stet_cnode_unpin(node);
		return STET_FAIL(-EUCLEAN, "tree: the root does not cover all keys");
	}
	cur->path[cur->root.level] = node;
	return 0;
}

static void child_ptr(const struct stet_tree_cursor *cur, uint32_t level,
		      struct stet_node_ptr *ret_ptr)
{
	struct stet_item item;

	stet_node_item(stet_tree_path_node_(cur, level), cur->index[level], &item);
	stet_node_ptr_decode((const struct stet_node_ptr_disk *)item.value, ret_ptr);
}

void stet_tree_path_ptr_(const struct stet_tree_cursor *cur, uint32_t level,
			 struct stet_node_ptr *ret_ptr)
{
	if (level == cur->root.level)
		*ret_ptr = cur->root.ptr;
	else
		child_ptr(cur, level + 1, ret_ptr);
}

int stet_tree_path_down_(struct stet_tree_cursor *cur, uint32_t level)
{
	const uint8_t *node = stet_tree_path_node_(cur, level);
	struct stet_node_ptr ptr;
	struct stet_cnode *child;
	int rc;

	STET_ASSERT(level > 0 && !cur->path[level - 1]);
	child_ptr(cur, level, &ptr);
	rc = stet_cache_node(cur->cache, &ptr, cur->tree, level - 1, &child);
	if (rc)
		return rc;
	rc = check_fences(node, cur->index[level], stet_cnode_bytes(child));
	if (rc) {
		stet_cnode_unpin(child);
		return rc;
	}
	cur->path[level - 1] = child;
	return 0;
}

static bool covers(const uint8_t *node, const void *key, size_t key_bytes)
{
	const uint8_t *fence;
	uint32_t bytes;

	stet_node_low(node, &fence, &bytes);
	if (stet_key_cmp(key, key_bytes, fence, bytes) < 0)
		return false;
	stet_node_high(node, &fence, &bytes);
	return bytes == 0 || stet_key_cmp(key, key_bytes, fence, bytes) < 0;
}

/* Which child covers the key; the node does. */
static int child_for(const struct stet_cnode *cnode, const void *key, size_t key_bytes,
		     uint32_t *ret_index)
{
	const uint8_t *node = stet_cnode_bytes(cnode);
	bool equal;
	uint32_t index = stet_node_search(node, stet_cnode_guide(cnode), key, key_bytes, &equal);

	if (!equal && index == 0)
		return STET_FAIL(-EUCLEAN, "tree: level %u: no child for a key inside the fences",
				 stet_node_level(node));
	*ret_index = equal ? index : index - 1;
	return 0;
}

int stet_tree_path_seek_(struct stet_tree_cursor *cur, uint32_t level, const void *key,
			 size_t key_bytes)
{
	uint32_t at = level;
	int rc = stet_tree_path_top_(cur);

	if (rc)
		return rc;
	while (at < cur->root.level &&
	       !(cur->path[at] && covers(stet_tree_path_node_(cur, at), key, key_bytes)))
		drop_level(cur, at++);
	for (; at > level; at--) {
		rc = child_for(cur->path[at], key, key_bytes, &cur->index[at]);
		if (!rc)
			rc = stet_tree_path_down_(cur, at);
		if (rc)
			return rc;
	}
	return 0;
}

int stet_tree_cursor_leaf_end(struct stet_tree_cursor *cur, const void *key, size_t key_bytes,
			      struct stet_key *ret_end)
{
	const uint8_t *node, *high;
	uint32_t index, bytes;
	int rc;

	cur->valid = false;
	ret_end->bytes = 0;
	if (stet_tree_is_empty_(&cur->root) || cur->root.level == 0)
		return 0;
	rc = stet_tree_path_seek_(cur, 1, key, key_bytes);
	if (!rc)
		rc = child_for(cur->path[1], key, key_bytes, &index);
	if (rc)
		return rc;
	node = stet_tree_path_node_(cur, 1);
	if (index + 1 < stet_node_count(node)) {
		stet_node_key(node, index + 1, ret_end);
		return 0;
	}
	stet_node_high(node, &high, &bytes);
	ret_end->bytes = (uint16_t)bytes;
	memcpy(ret_end->b, high, bytes);
	return 0;
}

int stet_tree_path_next_(struct stet_tree_cursor *cur, uint32_t level, bool *ret_moved)
{
	uint32_t at = level + 1;
	int rc = 0;

	while (at <= cur->root.level &&
	       cur->index[at] + 1 >= stet_node_count(stet_tree_path_node_(cur, at)))
		at++;
	*ret_moved = at <= cur->root.level;
	if (!*ret_moved)
		return 0;
	for (uint32_t l = level; l < at; l++)
		drop_level(cur, l);
	cur->index[at]++;
	for (; at > level && !rc; at--) {
		rc = stet_tree_path_down_(cur, at);
		cur->index[at - 1] = 0;
	}
	return rc;
}

int stet_tree_path_prev_(struct stet_tree_cursor *cur, uint32_t level, bool *ret_moved)
{
	uint32_t at = level + 1;
	int rc = 0;

	while (at <= cur->root.level && cur->index[at] == 0)
		at++;
	*ret_moved = at <= cur->root.level;
	if (!*ret_moved)
		return 0;
	for (uint32_t l = level; l < at; l++)
		drop_level(cur, l);
	cur->index[at]--;
	for (; at > level && !rc; at--) {
		rc = stet_tree_path_down_(cur, at);
		if (!rc)
			cur->index[at - 1] = stet_node_count(stet_tree_path_node_(cur, at - 1)) - 1;
	}
	return rc;
}
