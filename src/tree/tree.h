/* tree.h - a copy-on-write B+tree over the node cache: lookup, cursors, bulk apply.
 *
 * T1. A node that a root names never changes. Apply writes new nodes and says which old ones left.
 * T2. Apply works level by level, left to right, on sorted changes, in bounded steps; memory is
 *     bounded by one path, a few nodes' items, and the lists of edits (by changed nodes).
 * T3. All leaves have the same depth; every node but the root is at least a quarter full after a
 *     change next to it, if its keys are counted whole; fences equal the separators above.
 * Not thread-safe: guarded by the volume's lock.
 */
#ifndef STET_TREE_TREE_H
#define STET_TREE_TREE_H

#include "base/error.h"
#include "cache/cache.h"
#include "format/node.h"

/* What the items of a node may take, their offsets and the prefix included, so that any two fences
 * still fit; and what those of any node but the root take at least (T3). */
#define STET_TREE_NODE_ROOM \
	(STET_NODE_SIZE - (uint32_t)sizeof(struct stet_node_disk) - 2u * STET_ITEM_KEY_MAX)
#define STET_TREE_NODE_MIN (STET_TREE_NODE_ROOM / 4u)

struct stet_root {
	struct stet_node_ptr ptr; /* addr none: empty */
	uint32_t level;           /* of the root node */
};

/* An item with the leaf that holds it pinned. */
struct stet_tree_item {
	struct stet_cnode *leaf; /* owned; release with stet_tree_item_release */
	struct stet_item item;
};
/* -ENOENT: no such key. -EIO. */
STET_CHECKED int stet_tree_lookup(struct stet_cache *cache, uint32_t tree,
				  const struct stet_root *root, const void *key, size_t key_bytes,
				  struct stet_tree_item *ret);
void stet_tree_item_release(struct stet_tree_item *item);

struct stet_tree_cursor {
	struct stet_cache *cache;
	uint32_t tree;
	struct stet_root root;
	struct stet_cnode *path[STET_TREE_LEVEL_MAX + 1];
	uint32_t index[STET_TREE_LEVEL_MAX + 1];
	bool valid;
	/* --- when valid, until the next call --- */
	struct stet_key key;
	struct stet_item item; /* borrowed from the pinned leaf */
};
void stet_tree_cursor_init(struct stet_tree_cursor *cur, struct stet_cache *cache, uint32_t tree,
			   const struct stet_root *root);
/* To the first item >= key (NULL, 0: the first); cur->valid tells whether there is one. After an
 * error it is not valid, and may be used on. Cheap when it moves forwards by little. */
STET_CHECKED int stet_tree_cursor_seek(struct stet_tree_cursor *cur, const void *key,
				       size_t key_bytes);
/* To the last item < key (NULL, 0: the last of all). */
STET_CHECKED int stet_tree_cursor_below(struct stet_tree_cursor *cur, const void *key,
					size_t key_bytes);
/* From a valid one to the item behind it, or before it. */
STET_CHECKED int stet_tree_cursor_next(struct stet_tree_cursor *cur);
STET_CHECKED int stet_tree_cursor_prev(struct stet_tree_cursor *cur);
/* Where the leaf ends that covers the key: the first key that it does not cover; empty: it is the last. The leaf
 * itself is not read. The cursor is not valid after it, but goes on from where it is. -EIO, -EUCLEAN, -ENOMEM. */
STET_CHECKED int stet_tree_cursor_leaf_end(struct stet_tree_cursor *cur, const void *key,
					   size_t key_bytes, struct stet_key *ret_end);
void stet_tree_cursor_release(struct stet_tree_cursor *cur);

/* --- bulk apply --- */
struct stet_change {
	const uint8_t *key; /* borrowed until the next call of the source */
	const uint8_t *value;
	uint16_t key_bytes;
	uint16_t value_bytes;
	bool tombstone; /* removes the key; kept as an item when keep_tombstones */
};
/* A node that must be rewritten although nothing in it changed (its place is being cleaned). */
struct stet_touch {
	uint32_t level;
	uint16_t key_bytes;
	const uint8_t *key; /* any key in the node; borrowed until apply is destroyed */
};
struct stet_tree_apply_ops {
	/* The next change, in strictly rising key order (asserted, as are the limits of key and
	 * value); 1 = one was given, 0 = no more, < 0 = error. */
	int (*next)(void *arg, struct stet_change *ret);
	/* Places a sealed node; *ret_ptr comes with birth and check, the callee sets the addresses. It
	 * pins what it needs (stet_cnode_pin), publishes it and writes it out later. Whatever was
	 * placed is part of the new root, unless the apply fails: then the caller drops it. */
	int (*write_node)(void *arg, struct stet_cnode *node, uint32_t level, uint64_t check,
			  struct stet_node_ptr *ret_ptr);
	/* The new root does not name this node any more. The node may still be pinned. */
	int (*free_node)(void *arg, const struct stet_node_ptr *ptr, uint32_t level);
	/* A key's item changes: old NULL = it was not there, new NULL = it is removed (a tombstone that
	 * is kept comes as new). Not called when the item is the same byte for byte, nor when what is
	 * not there is removed. In key order; both borrowed for the call. */
	int (*changed)(void *arg, const void *key, size_t key_bytes,
		       const struct stet_item *old_item, const struct stet_change *new_item);
	void *arg;
};
struct stet_tree_apply;
/* touches: sorted by (level, key); may be NULL; those of levels that the root does not have are
 * ignored. birth: written into every new node. keep_tombstones: trees of kind STET_TREE_RUN only. */
STET_CHECKED int stet_tree_apply_create(struct stet_cache *cache, uint64_t volume_id, uint32_t tree,
					const struct stet_root *root, uint64_t birth,
					bool keep_tombstones, const struct stet_touch *touches,
					size_t touch_count, const struct stet_tree_apply_ops *ops,
					struct stet_tree_apply **ret);
/* Works on about max_nodes nodes (128 changes count as one). 1 = more to do, 0 = done, < 0 = error, a
 * callback's own included: the old root is intact, and every further step gives the same error. */
STET_CHECKED int stet_tree_apply_step(struct stet_tree_apply *apply, uint32_t max_nodes);
/* After 0: the new root; the old one, untouched, when nothing made a difference. */
void stet_tree_apply_root(const struct stet_tree_apply *apply, struct stet_root *ret_root);
void stet_tree_apply_destroy(struct stet_tree_apply *apply); /* NULL ok */

/* Visits every node of a root, parents first, left to right: for check, dump and the accounting
 * tests. Ends at the visitor's first result other than 0, and returns it. */
typedef int stet_tree_visit_fn(void *arg, const struct stet_node_ptr *ptr, uint32_t level,
			       const uint8_t *node);
STET_CHECKED int stet_tree_walk(struct stet_cache *cache, uint32_t tree,
				const struct stet_root *root, stet_tree_visit_fn *fn, void *arg);
/* The same of the nodes that lie above an address, without reading others. Only for trees whose nodes are written
 * at rising addresses: below a node that lies no higher, none does. */
STET_CHECKED int stet_tree_walk_above(struct stet_cache *cache, uint32_t tree,
				      const struct stet_root *root, uint64_t after,
				      stet_tree_visit_fn *fn, void *arg);

#endif
