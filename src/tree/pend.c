/* pend.c - pending items, and where they are cut into nodes.
 *
 * The items are copies, with their keys whole: what they come from (old nodes, the source's changes)
 * need not stay. Sizes are those in a node, where what all keys begin with lies once; so two parts may
 * take much less than what they are cut from. Each item's common_bytes, what its key shares with the one
 * before, make the size of any run of items known as the run grows: the least of them is its prefix.
 *
 * C1. A cut gives at most STET_TREE_NODE_ROOM bytes, which the builder is sure to take.
 * C2. When there is more than one node's worth, neither side of a cut gets less than a quarter
 *     (STET_TREE_NODE_MIN) with its keys whole: an item is smaller than a quarter, and what does not fit
 *     one node is four quarters, for keys take no more room in a node than whole ones.
 * C3. All get the same, so that each has room to grow; but if most of what is new lies side by side,
 *     it is taken for a sequence that goes on (a load, a file that grows): up to its end nodes are
 *     filled, and what is left, at least a quarter, has the room.
 */
#include "tree/apply_internal.h"

#include "base/assert.h"

#include <string.h>

#define SEQUENCE_ITEMS 8u                           /* more are not taken for chance */
#define ITEM_OVERHEAD (STET_ITEM_HEADER_BYTES + 2u) /* header, offset */

_Static_assert(ITEM_OVERHEAD + STET_ITEM_KEY_MAX + STET_VALUE_MAX < STET_TREE_NODE_MIN, "C2");

static uint32_t item_whole(const struct stet_tree_pend_item_ *item)
{
	return ITEM_OVERHEAD + item->key_bytes + item->value_bytes;
}

/* The measure with one more item, a neighbour; common_bytes: of it and the item it lies next to. */
static struct stet_tree_measure_ with(const struct stet_tree_measure_ *m,
				      const struct stet_tree_pend_item_ *item,
				      uint16_t common_bytes)
{
	uint32_t prefix_bytes = common_bytes;

	if (m->items == 0)
		prefix_bytes = item->key_bytes;
	else if (m->prefix_bytes < prefix_bytes)
		prefix_bytes = m->prefix_bytes;
	return (struct stet_tree_measure_){ m->items + 1, m->whole_bytes + item_whole(item),
					    prefix_bytes };
}

/* Measures one more item at the end. */
static void measure(struct stet_tree_pend_ *pend, const struct stet_tree_pend_item_ *item)
{
	struct stet_tree_measure_ more = with(&pend->full, item, item->common_bytes);

	pend->all = with(&pend->all, item, item->common_bytes);
	if (item->fresh)
		pend->fresh_bytes += item_whole(item);
	if (pend->rest.items == 0 && stet_tree_measure_bytes_(&more) <= STET_TREE_NODE_ROOM)
		pend->full = more;
	else
		pend->rest = with(&pend->rest, item, item->common_bytes);
}

static void measure_none(struct stet_tree_pend_ *pend)
{
	pend->all = pend->full = pend->rest = (struct stet_tree_measure_){ 0 };
	pend->fresh_bytes = 0;
}

void stet_tree_pend_release_(struct stet_tree_pend_ *pend)
{
	stet_vec_release(&pend->items);
	stet_buf_release(&pend->bytes);
	measure_none(pend);
}

int stet_tree_pend_push_(struct stet_tree_pend_ *pend, const struct stet_change *item, bool fresh)
{
	struct stet_tree_pend_item_ entry = {
		.offset = (uint32_t)pend->bytes.len,
		.key_bytes = item->key_bytes,
		.value_bytes = item->value_bytes,
		.tombstone = item->tombstone,
		.fresh = fresh,
	};
	struct stet_change before;
	int rc;

	if (pend->items.n > 0) {
		stet_tree_pend_item_get_(pend, pend->items.n - 1, &before);
		entry.common_bytes = (uint16_t)stet_key_common(before.key, before.key_bytes,
							       item->key, item->key_bytes);
	}
	rc = stet_buf_append(&pend->bytes, item->key, item->key_bytes);
	if (!rc)
		rc = stet_buf_append(&pend->bytes, item->value, item->value_bytes);
	if (!rc)
		rc = stet_vec_push(&pend->items, entry);
	if (rc)
		return STET_FAIL(rc, "tree: no memory for pending items");
	measure(pend, &entry);
	return 0;
}

void stet_tree_pend_item_get_(const struct stet_tree_pend_ *pend, size_t index,
			      struct stet_change *ret_item)
{
	const struct stet_tree_pend_item_ *item = &pend->items.v[index];

	STET_DEBUG_ASSERT(index < pend->items.n);
	ret_item->key = pend->bytes.p + item->offset;
	ret_item->value = ret_item->key + item->key_bytes;
	ret_item->key_bytes = item->key_bytes;
	ret_item->value_bytes = item->value_bytes;
	ret_item->tombstone = item->tombstone;
}

uint32_t stet_tree_pend_used_(const struct stet_tree_pend_ *pend)
{
	return stet_tree_measure_bytes_(&pend->all);
}

void stet_tree_pend_drop_(struct stet_tree_pend_ *pend, size_t count)
{
	size_t left = pend->items.n - count;
	uint32_t gone_bytes;

	STET_ASSERT_CMP(count, <=, pend->items.n);
	if (count == 0)
		return;
	gone_bytes = left > 0 ? pend->items.v[count].offset : (uint32_t)pend->bytes.len;
	memmove(pend->bytes.p, pend->bytes.p + gone_bytes, pend->bytes.len - gone_bytes);
	pend->bytes.len -= gone_bytes;
	memmove(pend->items.v, pend->items.v + count, left * sizeof(pend->items.v[0]));
	pend->items.n = left;
	measure_none(pend);
	for (size_t i = 0; i < left; i++) {
		pend->items.v[i].offset -= gone_bytes;
		measure(pend, &pend->items.v[i]);
	}
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
		run_bytes += item_whole(&pend->items.v[i]);
		run_items++;
		if ((run_items >= SEQUENCE_ITEMS || i + 1 == pend->items.n) &&
		    run_bytes >= pend->fresh_bytes - run_bytes)
			end = i + 1;
	}
	return end;
}

/* The measure of the last items, with one more in front. */
static struct stet_tree_measure_ right_with(const struct stet_tree_pend_ *pend,
					    const struct stet_tree_measure_ *right)
{
	size_t i = pend->items.n - right->items; /* what it begins with, if anything */

	return with(right, &pend->items.v[i - 1],
		    i < pend->items.n ? pend->items.v[i].common_bytes : 0);
}

/* As many as fit, but not beyond the sequence's end, and a quarter is left for the rest. */
static size_t cut_sequence(const struct stet_tree_pend_ *pend, size_t end)
{
	size_t n = pend->full.items < end ? pend->full.items : end;
	struct stet_tree_measure_ right = { 0 };

	while (right.items < pend->items.n - n)
		right = right_with(pend, &right);
	while (n > 1 && stet_tree_measure_bytes_(&right) < STET_TREE_NODE_MIN) {
		right = right_with(pend, &right);
		n--;
	}
	return n;
}

/* How many nodes there will be, if each is filled. */
static uint32_t count_parts(const struct stet_tree_pend_ *pend)
{
	struct stet_tree_measure_ part = { 0 };
	uint32_t parts = 1;

	for (size_t i = 0; i < pend->items.n; i++) {
		const struct stet_tree_pend_item_ *item = &pend->items.v[i];

		part = with(&part, item, item->common_bytes);
		if (stet_tree_measure_bytes_(&part) > STET_TREE_NODE_ROOM) {
			part = with(&(struct stet_tree_measure_){ 0 }, item, 0);
			parts++;
		}
	}
	return parts;
}

/* An equal share: two parts grow towards each other, item by item, each time the one that is then the
 * smaller; the right one stands for all other nodes. So the larger of two is as small as can be, and both
 * fit if any cut makes them fit. */
static size_t cut_even(const struct stet_tree_pend_ *pend)
{
	uint64_t others = count_parts(pend) - 1;
	struct stet_tree_measure_ left = { 0 }, right = { 0 };

	while (left.items + right.items < pend->items.n) {
		const struct stet_tree_pend_item_ *item = &pend->items.v[left.items];
		struct stet_tree_measure_ l = with(&left, item, item->common_bytes);
		struct stet_tree_measure_ r = right_with(pend, &right);
		uint32_t l_bytes = stet_tree_measure_bytes_(&l);

		if (l_bytes <= STET_TREE_NODE_ROOM &&
		    others * l_bytes <= stet_tree_measure_bytes_(&r))
			left = l;
		else
			right = r;
	}
	return left.items;
}

/* C2: moves a cut so that both sides have enough. */
static size_t with_minimum(const struct stet_tree_pend_ *pend, size_t n)
{
	uint32_t left_bytes = 0;

	for (size_t i = 0; i < n; i++)
		left_bytes += item_whole(&pend->items.v[i]);
	while (left_bytes < STET_TREE_NODE_MIN)
		left_bytes += item_whole(&pend->items.v[n++]);
	while (pend->all.whole_bytes - left_bytes < STET_TREE_NODE_MIN)
		left_bytes -= item_whole(&pend->items.v[--n]);
	return n;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

size_t stet_tree_pend_cut_(const struct stet_tree_pend_ *pend)
{
	size_t n, end;

	if (stet_tree_pend_used_(pend) <= STET_TREE_NODE_ROOM)
		return pend->items.n;
	n = cut_even(pend);
	end = sequence_end(pend);
	if (end > n)
		n = larger(n, cut_sequence(pend, end)); /* C3 */
	n = with_minimum(pend, n);
	STET_ASSERT(n > 0 && n < pend->items.n);
	return n;
}
