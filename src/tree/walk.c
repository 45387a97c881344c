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

/* Unpins what has no more children, from `level` up; the next child to visit is then
 * index[*ret_level] of the lowest node left. Returns whether there is one. */
static bool climb(struct stet_tree_cursor *cur, uint32_t level, uint32_t *ret_level)
{
	while (level < cur->root.level) {
		stet_cnode_unpin(cur->path[level]);
		cur->path[level] = NULL;
		level++;
		cur->index[level]++;
		if (cur->index[level] < stet_node_count(stet_tree_path_node_(cur, level))) {
			*ret_level = level;
			return true;
		}
	}
	return false;
}

int stet_tree_walk(struct stet_cache *cache, uint32_t tree, const struct stet_root *root,
		   stet_tree_visit_fn *fn, void *arg)
{
	struct stet_tree_cursor cur;
	uint32_t level = root->level;
	bool more = level > 0;
	int rc;

	if (stet_tree_is_empty_(root))
		return 0;
	stet_tree_cursor_init(&cur, cache, tree, root);
	rc = stet_tree_path_top_(&cur);
	if (!rc)
		rc = visit(&cur, level, fn, arg);
	while (!rc && more) {
		rc = stet_tree_path_down_(&cur, level);
		if (rc)
			break;
		level--;
		cur.index[level] = 0;
		rc = visit(&cur, level, fn, arg);
		if (!rc && level == 0)
			more = climb(&cur, level, &level);
	}
	stet_tree_cursor_release(&cur);
	return rc;
}
