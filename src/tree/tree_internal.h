/* tree_internal.h - paths: what cursors, walks and apply share. */
#ifndef STET_TREE_TREE_INTERNAL_H
#define STET_TREE_TREE_INTERNAL_H

#include "tree/tree.h"

/* path.c. A path is the part of a cursor above and at some level: path[root.level .. level] are
 * pinned, index[l] (l > level) says which child of path[l] is path[l - 1]. The tree must not be
 * empty. After an error the path is shorter, but still one. */

static inline bool stet_tree_is_empty_(const struct stet_root *root)
{
	return stet_addr_is_none(root->ptr.addr);
}

/* To the node of `level` that covers the key. */
STET_CHECKED int stet_tree_path_seek_(struct stet_tree_cursor *cur, uint32_t level, const void *key,
				      size_t key_bytes);
/* To the next or the previous node of `level`; false, and nothing moved, when there is none. */
STET_CHECKED int stet_tree_path_next_(struct stet_tree_cursor *cur, uint32_t level,
				      bool *ret_moved);
STET_CHECKED int stet_tree_path_prev_(struct stet_tree_cursor *cur, uint32_t level,
				      bool *ret_moved);
/* Pins the root, if it is not yet. */
STET_CHECKED int stet_tree_path_top_(struct stet_tree_cursor *cur);
/* Pins child index[level] of path[level] as path[level - 1], which was empty. */
STET_CHECKED int stet_tree_path_down_(struct stet_tree_cursor *cur, uint32_t level);
/* The pointer that names path[level]. */
void stet_tree_path_ptr_(const struct stet_tree_cursor *cur, uint32_t level,
			 struct stet_node_ptr *ret_ptr);

static inline const uint8_t *stet_tree_path_node_(const struct stet_tree_cursor *cur,
						  uint32_t level)
{
	return stet_cnode_bytes(cur->path[level]);
}

#endif
