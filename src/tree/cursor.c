/* cursor.c - reading: one key, or keys in order.
 *
 * A cursor is a path to a leaf and an index in it. While it is valid, the leaf is pinned, so the
 * item's bytes stay; seeking again keeps the part of the path that still covers the key, so seeks
 * that go forwards in small steps cost little.
 */
#include "tree/tree_internal.h"

#include <string.h>

void stet_tree_cursor_init(struct stet_tree_cursor *cur, struct stet_cache *cache, uint32_t tree,
			   const struct stet_root *root)
{
	memset(cur, 0, sizeof(*cur));
	cur->cache = cache;
	cur->tree = tree;
	cur->root = *root;
}

void stet_tree_cursor_release(struct stet_tree_cursor *cur)
{
	for (uint32_t level = 0; level <= STET_TREE_LEVEL_MAX; level++) {
		if (cur->path[level])
			stet_cnode_unpin(cur->path[level]);
		cur->path[level] = NULL;
	}
	cur->valid = false;
}

/* From an index that may be behind the leaf's last item to the next item there is. */
static int settle(struct stet_tree_cursor *cur)
{
	bool moved = true;

	while (cur->index[0] >= stet_node_count(stet_tree_path_node_(cur, 0))) {
		int rc = stet_tree_path_next_(cur, 0, &moved);

		if (rc)
			return rc;
		if (!moved)
			return 0;
		cur->index[0] = 0;
	}
	stet_node_key(stet_tree_path_node_(cur, 0), cur->index[0], &cur->key);
	stet_node_item(stet_tree_path_node_(cur, 0), cur->index[0], &cur->item);
	cur->valid = true;
	return 0;
}

int stet_tree_cursor_seek(struct stet_tree_cursor *cur, const void *key, size_t key_bytes)
{
	bool equal;
	int rc;

	cur->valid = false;
	if (stet_tree_is_empty_(&cur->root))
		return 0;
	rc = stet_tree_path_seek_(cur, 0, key, key_bytes);
	if (rc)
		return rc;
	cur->index[0] = stet_node_search(stet_tree_path_node_(cur, 0),
					 stet_cnode_guide(cur->path[0]), key, key_bytes, &equal);
	return settle(cur);
}

/* The path to the node that covers all keys just below `key`, or the last one. */
static int seek_below(struct stet_tree_cursor *cur, const void *key, size_t key_bytes)
{
	static const uint8_t last[STET_ITEM_KEY_MAX] = { [0 ... STET_ITEM_KEY_MAX - 1] = 0xff };

	return key_bytes ? stet_tree_path_seek_(cur, 0, key, key_bytes)
			 : stet_tree_path_seek_(cur, 0, last, sizeof(last));
}

/* From an index to the last item before it. */
static int settle_below(struct stet_tree_cursor *cur)
{
	bool moved = true;

	while (cur->index[0] == 0) {
		int rc = stet_tree_path_prev_(cur, 0, &moved);

		if (rc || !moved)
			return rc;
		cur->index[0] = stet_node_count(stet_tree_path_node_(cur, 0));
	}
	cur->index[0]--;
	return settle(cur);
}

int stet_tree_cursor_below(struct stet_tree_cursor *cur, const void *key, size_t key_bytes)
{
	bool equal;
	int rc;

	cur->valid = false;
	if (stet_tree_is_empty_(&cur->root))
		return 0;
	rc = seek_below(cur, key, key_bytes);
	if (rc)
		return rc;
	cur->index[0] = stet_node_count(stet_tree_path_node_(cur, 0));
	if (key_bytes)
		cur->index[0] = stet_node_search(stet_tree_path_node_(cur, 0),
						 stet_cnode_guide(cur->path[0]), key, key_bytes,
						 &equal);
	return settle_below(cur);
}

int stet_tree_cursor_next(struct stet_tree_cursor *cur)
{
	if (!cur->valid)
		return 0;
	cur->valid = false;
	cur->index[0]++;
	return settle(cur);
}

int stet_tree_cursor_prev(struct stet_tree_cursor *cur)
{
	if (!cur->valid)
		return 0;
	cur->valid = false;
	return settle_below(cur);
}

int stet_tree_lookup(struct stet_cache *cache, uint32_t tree, const struct stet_root *root,
		     const void *key, size_t key_bytes, struct stet_tree_item *ret)
{
	struct stet_tree_cursor cur;
	bool equal = false;
	uint32_t index;
	int rc;

	if (stet_tree_is_empty_(root))
		return -ENOENT;
	stet_tree_cursor_init(&cur, cache, tree, root);
	rc = stet_tree_path_seek_(&cur, 0, key, key_bytes);
	if (rc)
		goto out;
	index = stet_node_search(stet_tree_path_node_(&cur, 0), stet_cnode_guide(cur.path[0]), key,
				 key_bytes, &equal);
	if (!equal) {
		rc = -ENOENT;
		goto out;
	}
	stet_node_item(stet_tree_path_node_(&cur, 0), index, &ret->item);
	ret->leaf = stet_cnode_pin(cur.path[0]);
out:
	stet_tree_cursor_release(&cur);
	return rc;
}

void stet_tree_item_release(struct stet_tree_item *item)
{
	if (item->leaf)
		stet_cnode_unpin(item->leaf);
	item->leaf = NULL;
}
