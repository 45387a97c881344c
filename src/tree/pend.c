/* pend.c - pending items, and where they are cut into nodes.
 *
 * The items are copies: what they come from (old nodes, the source's changes) need not stay.
 *
 * C1. A cut gives at most STET_TREE_NODE_ROOM bytes, which the builder is sure to take.
 * C2. When there is more than one node's worth, neither side of a cut gets less than a quarter
 *     (STET_TREE_NODE_MIN): an item is smaller than a quarter, half a node is two quarters.
 * C3. All get the same, so that each has room to grow; but if most of what is new lies side by side,
 *     it is taken for a sequence that goes on (a load, a file that grows): up to its end nodes are
 *     filled, and what is left, at least a quarter, has the room.
 */
#include "tree/apply_internal.h"

#include "base/assert.h"

#include <string.h>

#define SEQUENCE_ITEMS 8u                           /* more are not taken for chance */
#define ITEM_OVERHEAD (STET_ITEM_HEADER_BYTES + 2u) /* header, offset */

_Static_assert(ITEM_OVERHEAD + STET_KEY_MAX + STET_VALUE_MAX < STET_TREE_NODE_MIN, "C2");

static uint32_t item_used(const struct stet_tree_pend_item_ *item)
{
	return ITEM_OVERHEAD + item->key_bytes + item->value_bytes;
}

void stet_tree_pend_release_(struct stet_tree_pend_ *pend)
{
	stet_vec_release(&pend->items);
	stet_buf_release(&pend->bytes);
	pend->used_bytes = 0;
	pend->fresh_bytes = 0;
}

int stet_tree_pend_push_(struct stet_tree_pend_ *pend, const struct stet_item *item, bool fresh)
{
	struct stet_tree_pend_item_ entry = {
		.offset = (uint32_t)pend->bytes.len,
		.key_bytes = item->key_bytes,
		.value_bytes = item->value_bytes,
		.tombstone = item->tombstone,
		.fresh = fresh,
	};
	int rc = stet_buf_append(&pend->bytes, item->key, item->key_bytes);

	if (!rc)
		rc = stet_buf_append(&pend->bytes, item->value, item->value_bytes);
	if (!rc)
		rc = stet_vec_push(&pend->items, entry);
	if (rc)
		return STET_FAIL(rc, "tree: no memory for pending items");
	pend->used_bytes += item_used(&entry);
	if (fresh)
		pend->fresh_bytes += item_used(&entry);
	return 0;
}

void stet_tree_pend_item_get_(const struct stet_tree_pend_ *pend, size_t index,
			      struct stet_item *ret_item)
{
	const struct stet_tree_pend_item_ *item = &pend->items.v[index];

	STET_DEBUG_ASSERT(index < pend->items.n);
	ret_item->key = pend->bytes.p + item->offset;
	ret_item->value = ret_item->key + item->key_bytes;
	ret_item->key_bytes = item->key_bytes;
	ret_item->value_bytes = item->value_bytes;
	ret_item->tombstone = item->tombstone;
}

void stet_tree_pend_drop_(struct stet_tree_pend_ *pend, size_t count)
{
	size_t left = pend->items.n - count;
	uint32_t gone_bytes;

	STET_ASSERT_CMP(count, <=, pend->items.n);
	for (size_t i = 0; i < count; i++) {
		pend->used_bytes -= item_used(&pend->items.v[i]);
		if (pend->items.v[i].fresh)
			pend->fresh_bytes -= item_used(&pend->items.v[i]);
	}
	gone_bytes = left > 0 ? pend->items.v[count].offset : (uint32_t)pend->bytes.len;
	if (count == 0)
		return;
	memmove(pend->bytes.p, pend->bytes.p + gone_bytes, pend->bytes.len - gone_bytes);
	pend->bytes.len -= gone_bytes;
	memmove(pend->items.v, pend->items.v + count, left * sizeof(pend->items.v[0]));
	pend->items.n = left;
	for (size_t i = 0; i < left; i++)
		pend->items.v[i].offset -= gone_bytes;
}

size_t stet_tree_pend_full_(const struct stet_tree_pend_ *pend)
{
	uint32_t bytes = 0;
	size_t n = 0;

	while (n < pend->items.n) {
		bytes += item_used(&pend->items.v[n]);
		if (bytes > STET_TREE_NODE_ROOM)
			break;
		n++;
	}
	return n;
}

/* C3: behind which item the sequence goes on, 0: there is none. Most fresh bytes are in one run of
 * neighbours, and it is at the end or long enough not to be chance. */
static size_t sequence_end(const struct stet_tree_pend_ *pend)
{
	uint32_t run_bytes = 0;
	size_t run_items = 0, end = 0;

	for (size_t i = 0; i < pend->items.n; i++) {
		if (!pend->items.v[i].fresh) {
			run_bytes = 0;
			run_items = 0;
			continue;
		}
		run_bytes += item_used(&pend->items.v[i]);
		run_items++;
		if ((run_items >= SEQUENCE_ITEMS || i + 1 == pend->items.n) &&
		    run_bytes >= pend->fresh_bytes - run_bytes)
			end = i + 1;
	}
	return end;
}

/* As many as fit, but not beyond the sequence's end, and a quarter is left for the rest. */
static size_t cut_sequence(const struct stet_tree_pend_ *pend, size_t end)
{
	size_t n = stet_tree_pend_full_(pend);
	uint32_t rest_bytes = 0;

	if (n > end)
		n = end;
	for (size_t i = n; i < pend->items.n; i++)
		rest_bytes += item_used(&pend->items.v[i]);
	while (n > 1 && rest_bytes < STET_TREE_NODE_MIN)
		rest_bytes += item_used(&pend->items.v[--n]);
	return n;
}

/* The boundary nearest to an equal share. */
static size_t cut_even(const struct stet_tree_pend_ *pend)
{
	uint32_t parts = (pend->used_bytes + STET_TREE_NODE_ROOM - 1) / STET_TREE_NODE_ROOM;
	uint32_t target = pend->used_bytes / parts;
	uint32_t bytes = 0;
	size_t n = 0;

	for (; n < pend->items.n; n++) {
		uint32_t with = bytes + item_used(&pend->items.v[n]);

		if (with > STET_TREE_NODE_ROOM)
			break;
		if (with > target && with - target > target - bytes)
			break;
		bytes = with;
		if (bytes >= target) {
			n++;
			break;
		}
	}
	return n;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

size_t stet_tree_pend_cut_(const struct stet_tree_pend_ *pend)
{
	size_t n, end;

	if (pend->used_bytes <= STET_TREE_NODE_ROOM)
		return pend->items.n;
	n = cut_even(pend);
	end = sequence_end(pend);
	if (end > n)
		n = larger(n, cut_sequence(pend, end)); /* C3 */
	STET_ASSERT(n > 0 && n < pend->items.n);
	return n;
}
