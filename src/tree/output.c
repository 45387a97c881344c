/* output.c - pending items become new nodes.
 *
 * O1. A new leaf's low fence is that of the first old leaf of its cluster, or a separator: the
 *     shortest prefix of its first key that is above the key before. Above the leaves the low fence
 *     is the key of the first item. A new node's high fence is the low fence of the node after it;
 *     so the last new node is held back until that is known.
 * O2. If the next cluster does not begin where the last ended, the held node's high fence is that of
 *     the last consumed node.
 * O3. The held node's put goes to `mark`, before the removes of the cluster that is open: it belongs
 *     to the parent of the last old node before them. A cluster that spans parents puts all its
 *     nodes into the last of them: by O1 the parents' fences follow.
 * O4. Whatever is written becomes part of the new root: a held node that must be merged with its
 *     right neighbour was not yet written.
 */
#include "tree/apply_internal.h"

#include "base/assert.h"

#include <string.h>

/* A full node is cut off when more than this is pending behind it, so that what remains can still be
 * cut well. */
#define REST_MAX (2 * STET_TREE_NODE_ROOM)

int stet_tree_write_held_(struct stet_tree_apply *a, const struct stet_key *high)
{
	struct stet_node_ptr ptr = { .birth = a->birth };
	struct stet_cnode *node = a->held;
	uint64_t check;
	int rc;

	if (!node)
		return 0;
	a->held = NULL;
	check = stet_node_seal(&a->held_builder, a->volume_id, a->birth, a->held_low.b,
			       a->held_low.bytes, high->b, high->bytes);
	ptr.check = check;
	STET_PARANOID(STET_ASSERT(stet_node_verify(stet_cnode_bytes(node), a->volume_id, a->tree,
						   a->level, &ptr) == 0));
	rc = a->ops.write_node(a->ops.arg, node, a->level, check, &ptr);
	stet_cnode_unpin(node);
	a->budget--;
	if (rc)
		return rc;
	STET_ASSERT(!stet_addr_is_none(ptr.addr));
	STET_ASSERT(ptr.check == check && ptr.birth == a->birth);
	rc = stet_tree_edits_insert_(&a->out, a->mark, a->held_low.b, a->held_low.bytes, &ptr);
	return rc;
}

/* The low fence of the node that begins with pending item n, after one that ends before it (O1). */
static void next_low(struct stet_tree_apply *a, size_t n)
{
	size_t common = a->pend.items.v[n].common_bytes;
	struct stet_change first;

	stet_tree_pend_item_get_(&a->pend, n, &first);
	STET_ASSERT_CMP(common, <, first.key_bytes);
	stet_tree_key_set_(&a->low, first.key, common + 1);
}

/* Makes the first n pending items the held node; the one held before is written. */
static int output_node(struct stet_tree_apply *a, size_t n)
{
	struct stet_change item, last;
	struct stet_cnode *node;
	int rc;

	stet_tree_pend_item_get_(&a->pend, 0, &item);
	stet_tree_pend_item_get_(&a->pend, n - 1, &last);
	if (a->level > 0)
		stet_tree_key_set_(&a->low, item.key, item.key_bytes);
	rc = stet_tree_write_held_(a, &a->low);
	if (rc)
		return rc;
	rc = stet_cnode_create(a->cache, &node);
	if (rc)
		return rc;
	a->held = node;
	a->held_low = a->low;
	a->mark = a->out.list.n;
	stet_node_begin(&a->held_builder, stet_cnode_writable(node), a->tree, a->level, item.key,
			stet_key_common(item.key, item.key_bytes, last.key, last.key_bytes));
	for (size_t i = 0; i < n; i++) {
		stet_tree_pend_item_get_(&a->pend, i, &item);
		stet_node_add(&a->held_builder, item.key, item.key_bytes, item.value,
			      item.value_bytes, item.tombstone);
	}
	if (n < a->pend.items.n && a->level == 0)
		next_low(a, n);
	stet_tree_pend_drop_(&a->pend, n);
	return 0;
}

int stet_tree_push_(struct stet_tree_apply *a, const struct stet_change *item, bool fresh)
{
	int rc = stet_tree_pend_push_(&a->pend, item, fresh);

	if (!rc && stet_tree_measure_bytes_(&a->pend.rest) > REST_MAX)
		rc = output_node(a, a->pend.full.items);
	return rc;
}

static bool is_next_to_last(const struct stet_tree_apply *a, const uint8_t *low, uint32_t low_bytes)
{
	return low_bytes > 0 &&
	       stet_key_cmp(low, low_bytes, a->last_high.b, a->last_high.bytes) == 0;
}

int stet_tree_cluster_open_(struct stet_tree_apply *a, const uint8_t *node)
{
	const uint8_t *low = NULL;
	uint32_t low_bytes = 0;
	uint32_t index = stet_tree_at_top_(a) ? 0 : a->old.index[a->level + 1];
	int rc;

	if (node)
		stet_node_low(node, &low, &low_bytes);
	if (a->open && is_next_to_last(a, low, low_bytes)) {
		if (index == 0)
			a->first_index = 0; /* on to the next parent */
		return 0;
	}
	STET_ASSERT(!a->open); /* a level that lost nodes goes on right behind them */
	if (a->held && !is_next_to_last(a, low, low_bytes)) {
		rc = stet_tree_write_held_(a, &a->last_high); /* O2 */
		if (rc)
			return rc;
	}
	a->open = true;
	a->mark = a->out.list.n;
	a->first_index = index;
	stet_tree_key_set_(&a->run_low, low, low_bytes);
	stet_tree_key_set_(&a->low, low, low_bytes);
	return 0;
}

int stet_tree_cluster_close_(struct stet_tree_apply *a)
{
	while (a->pend.items.n > 0) {
		int rc = output_node(a, stet_tree_pend_cut_(&a->pend));

		if (rc)
			return rc;
	}
	a->open = false;
	return 0;
}

/* Puts all items of a node in front of the pending ones. */
static int put_in_front(struct stet_tree_apply *a, const uint8_t *node)
{
	struct stet_tree_pend_ pend = a->spare;
	struct stet_change item;
	struct stet_key key;
	const uint8_t *low;
	uint32_t low_bytes;
	int rc = 0;

	a->spare = a->pend;
	a->pend = pend;
	STET_ASSERT_CMP(a->pend.items.n, ==, 0);
	for (uint32_t i = 0; i < stet_node_count(node) && !rc; i++) {
		stet_tree_old_item_(node, i, &key, &item);
		rc = stet_tree_pend_push_(&a->pend, &item, false);
	}
	for (size_t i = 0; i < a->spare.items.n && !rc; i++) {
		stet_tree_pend_item_get_(&a->spare, i, &item);
		rc = stet_tree_pend_push_(&a->pend, &item, a->spare.items.v[i].fresh);
	}
	stet_tree_pend_drop_(&a->spare, a->spare.items.n);
	stet_node_low(node, &low, &low_bytes);
	stet_tree_key_set_(&a->low, low, low_bytes);
	return rc;
}

static int absorb_held(struct stet_tree_apply *a)
{
	struct stet_cnode *node = a->held;
	int rc;

	a->held = NULL;
	/* Sealed only to be read. */
	(void)stet_node_seal(&a->held_builder, a->volume_id, a->birth, a->held_low.b,
			     a->held_low.bytes, NULL, 0);
	rc = put_in_front(a, stet_cnode_bytes(node));
	stet_cnode_unpin(node);
	return rc;
}

int stet_tree_absorb_left_(struct stet_tree_apply *a)
{
	struct stet_tree_cursor cur;
	struct stet_node_ptr ptr;
	bool moved;
	int rc;

	if (a->held)
		return absorb_held(a);
	stet_tree_cursor_init(&cur, a->cache, a->tree, &a->root);
	rc = stet_tree_path_seek_(&cur, a->level, a->run_low.b, a->run_low.bytes);
	if (!rc)
		rc = stet_tree_path_prev_(&cur, a->level, &moved);
	if (rc)
		goto out;
	STET_ASSERT(moved);
	a->budget--;
	rc = put_in_front(a, stet_tree_path_node_(&cur, a->level));
	if (rc)
		goto out;
	rc = stet_tree_edits_insert_(&a->out, a->mark, a->low.b, a->low.bytes, NULL);
	if (rc)
		goto out;
	stet_tree_path_ptr_(&cur, a->level, &ptr);
	rc = a->ops.free_node(a->ops.arg, &ptr, a->level);
out:
	stet_tree_cursor_release(&cur);
	return rc;
}
