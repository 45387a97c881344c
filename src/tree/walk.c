/* walk.c - every node of a root, parents before children, left to right.
 *
 * Only one path is pinned at a time. Fences are checked on the way down (path.c, P2).
 */
#include "tree/tree_internal.h"

static int visit(struct stet_tree_cursor *cur, uint32_t level, stet_tree_visit_fn *fn, void *arg)
{
	struct stet_node_ptr ptr;

	stet_tree_path_ptr_(cur, level, &ptr);
	return fn(arg, &ptr, level, stet_tree_path_node_(cur, level));
}

/* Goes on at child index[*level] of the node of *level, or higher up: the next child above `after` is pinned,
 * and *level is its. False: there is none. */
static int next_child(struct stet_tree_cursor *cur, uint64_t after, uint32_t *level,
		      bool *ret_found)
{
	struct stet_node_ptr ptr;

	for (;;) { /* bounded: each round passes a child, or leaves a node */
		if (*level == 0 ||
		    cur->index[*level] >= stet_node_count(stet_tree_path_node_(cur, *level))) {
			if (*level == cur->root.level) {
				*ret_found = false;
				return 0;
			}
			stet_cnode_unpin(cur->path[*level]);
			cur->path[*level] = NULL;
			cur->index[++*level]++;
			continue;
		}
		stet_tree_path_ptr_(cur, *level - 1, &ptr);
		if (ptr.addr.v > after)
			break;
		cur->index[*level]++;
	}
	*ret_found = true;
	return stet_tree_path_down_(cur, (*level)--);
}

int stet_tree_walk_above(struct stet_cache *cache, uint32_t tree, const struct stet_root *root,
			 uint64_t after, stet_tree_visit_fn *fn, void *arg)
{
	struct stet_tree_cursor cur;
	uint32_t level = root->level;
	bool more = true;
	int rc;

	if (stet_tree_is_empty_(root) || root->ptr.addr.v <= after)
		return 0;
	stet_tree_cursor_init(&cur, cache, tree, root);
	rc = stet_tree_path_top_(&cur); /* refuses a level that no tree has */
	while (!rc && more) {
		rc = visit(&cur, level, fn, arg);
		cur.index[level] = 0;
		if (!rc)
			rc = next_child(&cur, after, &level, &more);
	}
	stet_tree_cursor_release(&cur);
	return rc;
}

int stet_tree_walk(struct stet_cache *cache, uint32_t tree, const struct stet_root *root,
		   stet_tree_visit_fn *fn, void *arg)
{
	return stet_tree_walk_above(cache, tree, root, 0, fn, arg);
}
