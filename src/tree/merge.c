/* merge.c - one old node and its changes.
 *
 * M1. A leaf is consumed at its first change that makes a difference; until then nothing of it was
 *     copied, and if none does, it stays as it is. Above the leaves every edit makes a difference.
 * M2. Consuming a node frees it, tells the level above, and counts its touches as done.
 * M3. An edit's key is the low fence of an old child, so it is found (path.c, P2).
 */
#include "tree/apply_internal.h"

#include "base/assert.h"

#include <string.h>

#define CHANGES_PER_NODE 128 /* changes that cost as much as one node, for the budget */

/* Gets the next change from the source, if it was not got yet. */
static int fetch(struct stet_tree_apply *a)
{
	struct stet_change *c = &a->change;
	int rc;

	if (a->have_change || a->no_more_changes)
		return 0;
	rc = a->ops.next(a->ops.arg, c);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		a->no_more_changes = true;
		return 0;
	}
	STET_ASSERT(c->key_bytes > 0 && c->key_bytes <= STET_ITEM_KEY_MAX);
	STET_ASSERT_CMP(c->value_bytes, <=, STET_VALUE_MAX);
	STET_ASSERT(!c->tombstone || c->value_bytes == 0);
	STET_ASSERT(stet_key_cmp(a->change_key.b, a->change_key.bytes, c->key, c->key_bytes) < 0);
	stet_tree_key_set_(&a->change_key, c->key, c->key_bytes);
	a->have_change = true;
	if (++a->change_count % CHANGES_PER_NODE == 0)
		a->budget--;
	return 0;
}

int stet_tree_peek_(struct stet_tree_apply *a, bool *ret_have, const uint8_t **ret_key,
		    size_t *ret_key_bytes)
{
	int rc;

	if (a->level > 0) {
		*ret_have = a->next_edit < a->in.list.n;
		if (*ret_have) {
			*ret_key = stet_tree_edits_key_(&a->in, a->next_edit);
			*ret_key_bytes = a->in.list.v[a->next_edit].key_bytes;
		}
		return 0;
	}
	rc = fetch(a);
	if (rc)
		return rc;
	*ret_have = a->have_change;
	*ret_key = a->change.key;
	*ret_key_bytes = a->change.key_bytes;
	return 0;
}

/* Whether a key, which is not below the old node, lies in it. */
static bool is_inside(const uint8_t *node, const void *key, size_t key_bytes)
{
	const uint8_t *high;
	uint32_t high_bytes;

	if (!node)
		return true;
	stet_node_high(node, &high, &high_bytes);
	return high_bytes == 0 || stet_key_cmp(key, key_bytes, high, high_bytes) < 0;
}

/* Takes the touches that lie in the old node; whether there were any. */
static bool take_touches(struct stet_tree_apply *a, const uint8_t *node)
{
	bool any = false;

	while (a->next_touch < a->touch_count) {
		const struct stet_touch *touch = &a->touches[a->next_touch];

		if (touch->level != a->level || !is_inside(node, touch->key, touch->key_bytes))
			break;
		a->next_touch++;
		any = true;
	}
	return any;
}

/* M2 */
static int consume(struct stet_tree_apply *a)
{
	const uint8_t *node = stet_tree_old_node_(a);
	const uint8_t *fence;
	struct stet_node_ptr ptr;
	uint32_t bytes;
	int rc;

	if (a->consumed)
		return 0;
	a->consumed = true;
	rc = stet_tree_cluster_open_(a, node);
	if (rc)
		return rc;
	if (!node) {
		a->last_high.bytes = 0;
		return 0;
	}
	stet_node_high(node, &fence, &bytes);
	stet_tree_key_set_(&a->last_high, fence, bytes);
	stet_node_low(node, &fence, &bytes);
	if (a->level < a->root.level) {
		rc = stet_tree_edits_insert_(&a->out, a->out.list.n, fence, bytes, NULL);
		if (rc)
			return rc;
	}
	stet_tree_path_ptr_(&a->old, a->level, &ptr);
	return a->ops.free_node(a->ops.arg, &ptr, a->level);
}

int stet_tree_enter_(struct stet_tree_apply *a, bool forced)
{
	a->merged = 0;
	a->consumed = false;
	a->state = STET_TREE_MERGE_;
	a->budget--;
	if (take_touches(a, stet_tree_old_node_(a)) || forced)
		return consume(a);
	return 0;
}

/* Copies the old items before index `end` that are not dealt with yet. */
static int copy_until(struct stet_tree_apply *a, uint32_t end)
{
	const uint8_t *node = stet_tree_old_node_(a);
	struct stet_change item;
	struct stet_key key;
	int rc;

	for (; a->merged < end; a->merged++) {
		stet_tree_old_item_(node, a->merged, &key, &item);
		rc = stet_tree_push_(a, &item, false);
		if (rc)
			return rc;
	}
	return 0;
}

static bool makes_difference(const struct stet_tree_apply *a, const struct stet_item *old)
{
	const struct stet_change *c = &a->change;

	if (!old)
		return !c->tombstone || a->keep_tombstones;
	if (c->tombstone)
		return !a->keep_tombstones || !old->tombstone;
	return old->tombstone || old->value_bytes != c->value_bytes ||
	       (c->value_bytes > 0 && memcmp(old->value, c->value, c->value_bytes) != 0);
}

static int merge_change(struct stet_tree_apply *a)
{
	const uint8_t *node = stet_tree_old_node_(a);
	const struct stet_change *c = &a->change;
	struct stet_item old_item;
	struct stet_item *old = NULL;
	bool equal = false, kept = !c->tombstone || a->keep_tombstones;
	uint32_t index = 0;
	int rc;

	if (node)
		index = stet_node_search(node, NULL, c->key, c->key_bytes, &equal);
	if (equal) {
		stet_node_item(node, index, &old_item);
		old = &old_item;
	}
	if (!makes_difference(a, old))
		return 0;
	rc = a->ops.changed(a->ops.arg, c->key, c->key_bytes, old, kept ? c : NULL);
	if (!rc)
		rc = consume(a); /* M1 */
	if (!rc)
		rc = copy_until(a, index);
	if (rc)
		return rc;
	if (equal)
		a->merged++;
	return kept ? stet_tree_push_(a, c, !equal) : 0;
}

static int merge_edit(struct stet_tree_apply *a)
{
	const struct stet_tree_edit_ *edit = &a->in.list.v[a->next_edit];
	const uint8_t *key = stet_tree_edits_key_(&a->in, a->next_edit);
	struct stet_node_ptr_disk value;
	struct stet_change item = {
		.key = key,
		.value = (const uint8_t *)&value,
		.key_bytes = edit->key_bytes,
		.value_bytes = sizeof(value),
	};
	uint32_t index;
	bool equal;
	int rc = consume(a);

	if (rc)
		return rc;
	if (edit->put) {
		const struct stet_tree_edit_ *before = a->next_edit > 0 ? edit - 1 : NULL;
		bool replaces = before && !before->put &&
				stet_key_cmp(stet_tree_edits_key_(&a->in, a->next_edit - 1),
					     before->key_bytes, key, edit->key_bytes) == 0;

		stet_node_ptr_encode(&edit->ptr, &value);
		return stet_tree_push_(a, &item, !replaces);
	}
	index = stet_node_search(stet_tree_old_node_(a), NULL, key, edit->key_bytes, &equal);
	STET_ASSERT(equal && index >= a->merged); /* M3 */
	rc = copy_until(a, index);
	a->merged++;
	return rc;
}

/* Whether the next change belongs to the old node. */
static int is_ours(struct stet_tree_apply *a, bool *ret)
{
	const uint8_t *key = NULL;
	size_t key_bytes = 0;
	bool have;
	int rc = stet_tree_peek_(a, &have, &key, &key_bytes);

	if (rc)
		return rc;
	if (have && a->level > 0 && a->in.list.v[a->next_edit].put)
		*ret = true; /* behind a remove that was ours */
	else
		*ret = have && is_inside(stet_tree_old_node_(a), key, key_bytes);
	return 0;
}

int stet_tree_merge_(struct stet_tree_apply *a)
{
	const uint8_t *node = stet_tree_old_node_(a);
	bool ours;
	int rc;

	for (;;) {
		rc = is_ours(a, &ours);
		if (rc)
			return rc;
		if (!ours)
			break;
		rc = a->level > 0 ? merge_edit(a) : merge_change(a);
		if (rc)
			return rc;
		if (a->level > 0)
			a->next_edit++;
		else
			a->have_change = false;
		if (a->budget <= 0)
			return 0;
	}
	if (a->consumed && node) {
		rc = copy_until(a, stet_node_count(node));
		if (rc)
			return rc;
	}
	a->state = STET_TREE_NODE_END_;
	return 0;
}
