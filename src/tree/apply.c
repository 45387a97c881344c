/* apply.c - bulk apply, level by level, left to right, in bounded steps.
 *
 *   SEEK --> MERGE --> NODE_END --+--> SEEK         the cluster ends here, or nothing changed
 *    |         ^          |       +--> LEVEL_END    there is no node to the right
 *    |         +----------+ the cluster needs its right neighbour
 *    +--> LEVEL_END --> SEEK (next level) or DONE
 *
 * Level 0 merges changes into leaves; each level leaves a list of edits for the one above.
 *
 * A1. The old root stays as it is (T1); an error at any point leaves new nodes that nobody names.
 * A2. A cluster ends when its pending items fill a quarter of a node (as they would lie in one, their
 *     keys' beginning stored once). Until then it takes in its
 *     right neighbour under the same parent; at the parent's right end, the left neighbour under the
 *     same parent; if there is none (all children of the parent are in the cluster), it goes on
 *     into the next parent; at the end of the level it takes the left neighbour wherever it is.
 * A3. Leaves: a cluster without any items goes on to the right too, so that the next leaf takes over
 *     its keys by a lower low fence. It does not take the left neighbour instead, unless it reached
 *     the end of the level. Above the leaves the fences follow from the items (output.c, O1), so a
 *     cluster without items just ends; the next node at the level, if any, has edits, and continues.
 * A4. A level that is left with a single pointer is not written: its child is the new root, and
 *     what is above it goes.
 */
#include "tree/apply_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

static void start_level(struct stet_tree_apply *a, uint32_t level)
{
	stet_tree_cursor_release(&a->old);
	a->level = level;
	a->next_edit = 0;
	a->open = false;
	a->mark = 0;
	a->last_high.bytes = 0;
	a->state = STET_TREE_SEEK_;
	while (a->next_touch < a->touch_count && a->touches[a->next_touch].level < level)
		a->next_touch++;
}

int stet_tree_apply_create(struct stet_cache *cache, uint64_t volume_id, uint32_t tree,
			   const struct stet_root *root, uint64_t birth, bool keep_tombstones,
			   const struct stet_touch *touches, size_t touch_count,
			   const struct stet_tree_apply_ops *ops, struct stet_tree_apply **ret)
{
	struct stet_tree_apply *a;

	STET_ASSERT(!keep_tombstones || tree == STET_TREE_RUN);
	a = stet_calloc(1, sizeof(*a));
	if (!a)
		return STET_FAIL(-ENOMEM, "tree: no memory to apply changes");
	a->cache = cache;
	a->volume_id = volume_id;
	a->tree = tree;
	a->root = *root;
	a->birth = birth;
	a->keep_tombstones = keep_tombstones;
	a->touches = touches;
	a->touch_count = touches ? touch_count : 0;
	a->ops = *ops;
	stet_tree_cursor_init(&a->old, cache, tree, root);
	start_level(a, 0);
	*ret = a;
	return 0;
}

void stet_tree_apply_destroy(struct stet_tree_apply *a)
{
	if (!a)
		return;
	stet_tree_cursor_release(&a->old);
	if (a->held)
		stet_cnode_unpin(a->held);
	stet_tree_pend_release_(&a->pend);
	stet_tree_pend_release_(&a->spare);
	stet_tree_edits_release_(&a->in);
	stet_tree_edits_release_(&a->out);
	stet_free(a);
}

/* The touch at this level that is due next, or NULL. */
static const struct stet_touch *touch_due(const struct stet_tree_apply *a)
{
	if (a->next_touch >= a->touch_count || a->touches[a->next_touch].level != a->level ||
	    stet_tree_is_empty_(&a->root) || a->level > a->root.level)
		return NULL;
	return &a->touches[a->next_touch];
}

static int seek(struct stet_tree_apply *a)
{
	const struct stet_touch *touch = touch_due(a);
	const uint8_t *key = NULL;
	size_t key_bytes = 0;
	bool have;
	int rc = stet_tree_peek_(a, &have, &key, &key_bytes);

	if (rc)
		return rc;
	if (!have && !touch) {
		a->state = STET_TREE_LEVEL_END_;
		return 0;
	}
	if (touch && (!have || stet_key_cmp(touch->key, touch->key_bytes, key, key_bytes) < 0)) {
		key = touch->key;
		key_bytes = touch->key_bytes;
	}
	if (!stet_tree_is_empty_(&a->root) && a->level <= a->root.level) {
		rc = stet_tree_path_seek_(&a->old, a->level, key, key_bytes);
		if (rc)
			return rc;
	}
	return stet_tree_enter_(a, false);
}

static bool has_right_sibling(const struct stet_tree_apply *a)
{
	uint32_t above = a->level + 1;

	return a->old.index[above] + 1 < stet_node_count(stet_tree_path_node_(&a->old, above));
}

/* A2 */
static int node_end(struct stet_tree_apply *a)
{
	size_t count = a->pend.items.n;
	bool moved;
	int rc;

	a->state = STET_TREE_SEEK_;
	if (!a->consumed || (a->level > 0 && count == 0 && !stet_tree_at_top_(a)))
		return 0; /* A3 */
	if (stet_tree_at_top_(a)) {
		a->state = STET_TREE_LEVEL_END_;
		return 0;
	}
	if (stet_tree_pend_used_(&a->pend) >= STET_TREE_NODE_MIN)
		return stet_tree_cluster_close_(a);
	if (!has_right_sibling(a) && count > 0 && a->first_index > 0) {
		rc = stet_tree_absorb_left_(a);
		return rc ? rc : stet_tree_cluster_close_(a);
	}
	rc = stet_tree_path_next_(&a->old, a->level, &moved);
	if (rc)
		return rc;
	if (moved)
		return stet_tree_enter_(a, true);
	a->state = STET_TREE_LEVEL_END_;
	return 0;
}

/* The cluster that is open when the level ends. */
static int close_last(struct stet_tree_apply *a)
{
	bool alone = !a->held && a->run_low.bytes == 0;
	struct stet_change item;
	int rc = 0;

	if (a->level > 0 && a->pend.items.n == 0) {
		STET_ASSERT(a->held || alone); /* A3: what is left of it was consumed */
		a->open = false;
		return 0;
	}
	if (!alone && !stet_tree_at_top_(a) && stet_tree_pend_used_(&a->pend) < STET_TREE_NODE_MIN)
		rc = stet_tree_absorb_left_(a);
	if (rc)
		return rc;
	if (alone && a->level > 0 && a->pend.items.n == 1) { /* A4 */
		stet_tree_pend_item_get_(&a->pend, 0, &item);
		stet_node_ptr_decode((const struct stet_node_ptr_disk *)item.value, &a->result.ptr);
		a->result.level = a->level - 1;
		a->collapsed = true;
		stet_tree_pend_drop_(&a->pend, 1);
		a->open = false;
		return 0;
	}
	return stet_tree_cluster_close_(a);
}

/* The new root, if it is known now; otherwise there is another level to make. */
static bool root_is_known(struct stet_tree_apply *a, bool any_consumed)
{
	if (!stet_tree_at_top_(a)) {
		if (a->out.list.n > 0 || a->next_touch < a->touch_count)
			return false;
		a->result = a->root;
		return true;
	}
	if (!any_consumed) {
		a->result = a->root;
		return true;
	}
	if (a->out.list.n > 1)
		return false;
	if (a->out.list.n == 1) {
		a->result.ptr = a->out.list.v[0].ptr;
		a->result.level = a->level;
	} else if (!a->collapsed) {
		a->result.ptr = (struct stet_node_ptr){ .addr = STET_ADDR_NONE };
		a->result.level = 0;
	}
	return true;
}

static int level_end(struct stet_tree_apply *a)
{
	bool any = a->open || a->held;
	struct stet_tree_edits_ in = a->in;
	int rc = 0;

	if (a->open)
		rc = close_last(a);
	if (!rc)
		rc = stet_tree_write_held_(a, &a->last_high);
	if (rc)
		return rc;
	if (root_is_known(a, any)) {
		stet_tree_cursor_release(&a->old);
		a->state = STET_TREE_DONE_;
		return 0;
	}
	if (a->level == STET_TREE_LEVEL_MAX)
		return STET_FAIL(-EFBIG, "tree: more than %u levels", STET_TREE_LEVEL_MAX + 1);
	a->in = a->out;
	a->out = in;
	stet_tree_edits_clear_(&a->out);
	start_level(a, a->level + 1);
	return 0;
}

static int work(struct stet_tree_apply *a)
{
	switch (a->state) {
	case STET_TREE_SEEK_:
		return seek(a);
	case STET_TREE_MERGE_:
		return stet_tree_merge_(a);
	case STET_TREE_NODE_END_:
		return node_end(a);
	case STET_TREE_LEVEL_END_:
		return level_end(a);
	case STET_TREE_DONE_:
		break;
	}
	return 0;
}

int stet_tree_apply_step(struct stet_tree_apply *a, uint32_t max_nodes)
{
	a->budget = max_nodes > 0 ? max_nodes : 1;
	while (!a->error && a->state != STET_TREE_DONE_ && a->budget > 0)
		a->error = work(a);
	if (a->error)
		return a->error;
	return a->state != STET_TREE_DONE_;
}

void stet_tree_apply_root(const struct stet_tree_apply *a, struct stet_root *ret_root)
{
	STET_ASSERT(a->state == STET_TREE_DONE_ && !a->error);
	*ret_root = a->result;
}
