/* harness.c - see harness.h. */
#include "harness.h"

/* --- entries --- */

void entries_release(struct entries *e)
{
	for (size_t i = 0; i < e->list.n; i++)
		free(e->list.v[i].key);
	stet_vec_release(&e->list);
}

size_t entries_lower_bound(const struct entries *e, const void *key, size_t key_bytes)
{
	size_t low = 0, high = e->list.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct entry *m = &e->list.v[mid];

		if (stet_key_cmp(m->key, m->key_bytes, key, key_bytes) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct entry *entries_find(const struct entries *e, const void *key, size_t key_bytes)
{
	size_t at = entries_lower_bound(e, key, key_bytes);

	if (at < e->list.n &&
	    stet_key_cmp(e->list.v[at].key, e->list.v[at].key_bytes, key, key_bytes) == 0)
		return &e->list.v[at];
	return NULL;
}

void entries_put(struct entries *e, const void *key, size_t key_bytes, const void *value,
		 size_t value_bytes, bool tombstone)
{
	size_t at = entries_lower_bound(e, key, key_bytes);
	struct entry entry = {
		.key = malloc(key_bytes + value_bytes + 1),
		.key_bytes = (uint16_t)key_bytes,
		.value_bytes = (uint16_t)value_bytes,
		.tombstone = tombstone,
	};

	assert_non_null(entry.key);
	memcpy(entry.key, key, key_bytes);
	if (value_bytes > 0)
		memcpy(entry.key + key_bytes, value, value_bytes);
	if (at < e->list.n &&
	    stet_key_cmp(e->list.v[at].key, e->list.v[at].key_bytes, key, key_bytes) == 0) {
		free(e->list.v[at].key);
		e->list.v[at] = entry;
		return;
	}
	assert_int_equal(stet_vec_push(&e->list, entry), 0);
	memmove(&e->list.v[at + 1], &e->list.v[at], (e->list.n - 1 - at) * sizeof(entry));
	e->list.v[at] = entry;
}

static bool same_value(const struct entry *a, const struct entry *b)
{
	return a->tombstone == b->tombstone && a->value_bytes == b->value_bytes &&
	       memcmp(a->key + a->key_bytes, b->key + b->key_bytes, a->value_bytes) == 0;
}

static void append_copy(struct entries *e, const struct entry *from)
{
	size_t bytes = (size_t)from->key_bytes + from->value_bytes;
	struct entry *to;

	assert_int_equal(stet_vec_reserve(&e->list, 1), 0);
	to = &e->list.v[e->list.n++];
	*to = *from;
	to->key = malloc(bytes + 1);
	assert_non_null(to->key);
	memcpy(to->key, from->key, bytes);
}

/* What the model becomes; a linear merge. */
static struct entries merge(const struct harness *h, const struct entries *model,
			    const struct entries *batch)
{
	struct entries result = { 0 };
	size_t i = 0, j = 0;

	while (i < model->list.n || j < batch->list.n) {
		const struct entry *from;
		int c = i >= model->list.n ? 1 : -1;

		if (i < model->list.n && j < batch->list.n)
			c = stet_key_cmp(model->list.v[i].key, model->list.v[i].key_bytes,
					 batch->list.v[j].key, batch->list.v[j].key_bytes);
		from = c < 0 ? &model->list.v[i] : &batch->list.v[j];
		i += c <= 0;
		j += c >= 0;
		if (from->tombstone && !h->keep_tombstones)
			continue;
		append_copy(&result, from);
	}
	return result;
}

static uint64_t count_differences(const struct harness *h, const struct entries *batch)
{
	uint64_t n = 0;

	for (size_t i = 0; i < batch->list.n; i++) {
		const struct entry *e = &batch->list.v[i];
		const struct entry *old = entries_find(&h->model, e->key, e->key_bytes);

		if (!old)
			n += !e->tombstone || h->keep_tombstones;
		else
			n += !same_value(old, e);
	}
	return n;
}

/* --- callbacks --- */

static uint64_t block_of(struct stet_addr addr)
{
	return testvol_offset(addr) / STET_BLOCK_SIZE;
}

static bool fails(struct harness *h)
{
	return ++h->calls == h->fail_at;
}

static int source_next(void *arg, struct stet_change *ret)
{
	struct harness *h = arg;
	const struct entry *e;

	if (fails(h))
		return -ENODATA;
	free(h->scratch); /* whoever still looks there is found by the sanitizer */
	h->scratch = NULL;
	if (h->next == h->batch->list.n)
		return 0;
	e = &h->batch->list.v[h->next++];
	h->scratch = malloc((size_t)e->key_bytes + e->value_bytes + 1);
	assert_non_null(h->scratch);
	memcpy(h->scratch, e->key, (size_t)e->key_bytes + e->value_bytes);
	*ret = (struct stet_change){
		.key = h->scratch,
		.value = h->scratch + e->key_bytes,
		.key_bytes = e->key_bytes,
		.value_bytes = e->value_bytes,
		.tombstone = e->tombstone,
	};
	return 1;
}

static int write_node(void *arg, struct stet_cnode *node, uint32_t level, uint64_t check,
		      struct stet_node_ptr *ret_ptr)
{
	struct harness *h = arg;
	const uint8_t *bytes = stet_cnode_bytes(node);

	if (fails(h))
		return -ENOSPC;
	ret_ptr->check = check;
	ret_ptr->birth = h->birth;
	ret_ptr->addr = testvol_place(&h->vol, STET_NODE_BLOCKS);
	ret_ptr->addr2 = STET_ADDR_NONE;
	testvol_write(&h->vol, ret_ptr->addr, bytes, STET_NODE_BLOCKS);
	if (h->two_copies) {
		ret_ptr->addr2 = testvol_place(&h->vol, STET_NODE_BLOCKS);
		testvol_write(&h->vol, ret_ptr->addr2, bytes, STET_NODE_BLOCKS);
	}
	assert_int_equal(stet_node_verify(bytes, TESTVOL_ID, h->tree, level, ret_ptr), 0);
	h->state[block_of(ret_ptr->addr)] = NODE_NEW;
	h->written++;
	return stet_cnode_publish(node, ret_ptr);
}

static int free_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level)
{
	struct harness *h = arg;
	struct stet_cnode *node;

	if (fails(h))
		return -EUCLEAN;
	assert_int_equal(h->state[block_of(ptr->addr)], NODE_LIVE);
	h->state[block_of(ptr->addr)] = NODE_FREED;
	h->freed++;
	if (h->fail_at == 0) {
		assert_int_equal(stet_cache_node(h->vol.cache, ptr, h->tree, level, &node), 0);
		stet_cnode_unpin(node);
	}
	return 0;
}

static int changed(void *arg, const void *key, size_t key_bytes, const struct stet_item *old_item,
		   const struct stet_change *new_item)
{
	struct harness *h = arg;
	const struct entry *old = entries_find(&h->model, key, key_bytes);
	const struct entry *e = entries_find(h->batch, key, key_bytes);

	if (fails(h))
		return -EIO;
	assert_non_null(e);
	assert_int_equal(old != NULL, old_item != NULL);
	if (old && old_item) {
		assert_int_equal(old_item->tombstone, old->tombstone);
		assert_int_equal(old_item->value_bytes, old->value_bytes);
		assert_memory_equal(old_item->value, old->key + old->key_bytes, old->value_bytes);
	}
	assert_int_equal(new_item != NULL, !e->tombstone || h->keep_tombstones);
	if (new_item) {
		assert_int_equal(new_item->value_bytes, e->value_bytes);
		assert_memory_equal(new_item->value, e->key + e->key_bytes, e->value_bytes);
	}
	h->changed++;
	return 0;
}

/* --- checks --- */

struct checker {
	struct harness *h;
	const struct stet_root *root;
	const struct entries *model;
	size_t next; /* entry of the model */
	uint64_t nodes;
	uint8_t *seen; /* by block; NULL: the node states do not matter */
};

/* What the items take; *ret_whole: with their keys whole. */
static uint64_t node_used(const uint8_t *node, uint64_t *ret_whole)
{
	const struct stet_node_disk *head = (const struct stet_node_disk *)node;
	uint64_t prefix_bytes = le16_get(head->prefix_bytes);
	uint32_t count = stet_node_count(node);
	struct stet_item item;
	struct stet_key key;

	*ret_whole = 0;
	for (uint32_t i = 0; i < count; i++) {
		stet_node_item(node, i, &item);
		stet_node_key(node, i, &key);
		*ret_whole += 4u + key.bytes + item.value_bytes;
	}
	return count > 0 ? *ret_whole - (count - 1) * prefix_bytes : 0;
}

static int check_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level,
		      const uint8_t *node)
{
	struct checker *c = arg;
	uint64_t whole_bytes;
	uint64_t used = node_used(node, &whole_bytes);
	struct stet_item item;
	struct stet_key key;

	assert_int_equal(stet_node_verify(node, TESTVOL_ID, c->h->tree, level, ptr), 0);
	assert_true(used <= STET_TREE_NODE_ROOM);
	c->nodes++;
	if (level < c->root->level && whole_bytes < c->h->min_bytes)
		c->h->min_bytes = whole_bytes;
	if (level == c->root->level)
		assert_true(level == 0 ? stet_node_count(node) > 0 : stet_node_count(node) > 1);
	if (c->seen) {
		assert_int_equal(c->seen[block_of(ptr->addr)], 0);
		c->seen[block_of(ptr->addr)] = 1;
	}
	if (level > 0)
		return 0;
	c->h->leaves++;
	c->h->used_bytes += used;
	for (uint32_t i = 0; i < stet_node_count(node); i++) {
		const struct entry *e = &c->model->list.v[c->next++];

		assert_true(c->next <= c->model->list.n);
		stet_node_item(node, i, &item);
		stet_node_key(node, i, &key);
		assert_int_equal(key.bytes, e->key_bytes);
		assert_memory_equal(key.b, e->key, e->key_bytes);
		assert_int_equal(item.tombstone, e->tombstone);
		assert_int_equal(item.value_bytes, e->value_bytes);
		assert_memory_equal(item.value, e->key + e->key_bytes, e->value_bytes);
	}
	return 0;
}

static void walk(struct harness *h, struct checker *c)
{
	h->min_bytes = UINT64_MAX;
	h->leaves = 0;
	h->used_bytes = 0;
	assert_int_equal(stet_tree_walk(h->vol.cache, h->tree, c->root, check_node, c), 0);
	assert_int_equal(c->next, c->model->list.n);
	assert_true(h->min_bytes >= STET_TREE_NODE_MIN); /* T3 */
	assert_int_equal(stet_addr_is_none(c->root->ptr.addr), c->model->list.n == 0);
}

void harness_check_root(struct harness *h, const struct stet_root *root,
			const struct entries *model)
{
	struct checker c = { .h = h, .root = root, .model = model };

	walk(h, &c);
}

/* Every node of the old root is in the new one or was freed; every written one is in the new. */
static void check_balance(struct harness *h, const struct stet_root *root,
			  const struct entries *model)
{
	struct checker c = { .h = h, .root = root, .model = model };

	c.seen = calloc(h->vol.next_block, 1);
	assert_non_null(c.seen);
	walk(h, &c);
	for (uint64_t b = 0; b < h->vol.next_block; b++) {
		bool should = h->state[b] == NODE_LIVE || h->state[b] == NODE_NEW;

		assert_int_equal(c.seen[b], should);
		h->state[b] = should ? NODE_LIVE : NODE_NONE;
	}
	free(c.seen);
	assert_int_equal(c.nodes, h->live_nodes + h->written - h->freed);
	h->live_nodes = c.nodes;
}

/* --- life --- */

void harness_open(struct harness *h, uint32_t tree, uint64_t limit_bytes)
{
	memset(h, 0, sizeof(*h));
	testvol_open(&h->vol, 1, limit_bytes);
	h->tree = tree;
	h->birth = 100;
	h->keep_old = true;
	h->state = calloc((size_t)TESTVOL_SEGS * TESTVOL_SEG_BLOCKS, 1);
	assert_non_null(h->state);
}

void harness_close(struct harness *h)
{
	entries_release(&h->model);
	free(h->state);
	free(h->scratch);
	testvol_close(&h->vol);
}

static void undo(struct harness *h)
{
	for (uint64_t b = 0; b < h->vol.next_block; b++) {
		if (h->state[b] == NODE_NEW)
			h->state[b] = NODE_NONE;
		if (h->state[b] == NODE_FREED)
			h->state[b] = NODE_LIVE;
	}
}

int harness_try(struct harness *h, const struct entries *batch, const struct stet_touch *touches,
		size_t touch_count, uint32_t max_nodes, struct stet_root *ret_root)
{
	struct stet_tree_apply_ops ops = {
		.next = source_next,
		.write_node = write_node,
		.free_node = free_node,
		.changed = changed,
		.arg = h,
	};
	struct stet_tree_apply *apply;
	int rc;

	h->batch = batch;
	h->next = 0;
	h->written = h->freed = h->changed = h->calls = 0;
	rc = stet_tree_apply_create(h->vol.cache, TESTVOL_ID, h->tree, &h->root, h->birth,
				    h->keep_tombstones, touches, touch_count, &ops, &apply);
	if (rc)
		return rc;
	do {
		uint64_t before = h->written + h->freed;

		rc = stet_tree_apply_step(apply, max_nodes ? max_nodes : UINT32_MAX);
		if (max_nodes)
			assert_true(h->written + h->freed - before <= 2 * (uint64_t)max_nodes + 10);
	} while (rc == 1);
	if (rc)
		assert_int_equal(stet_tree_apply_step(apply, 1), rc); /* it stays failed */
	else
		stet_tree_apply_root(apply, ret_root);
	stet_tree_apply_destroy(apply);
	if (rc)
		undo(h);
	return rc;
}

void harness_accept(struct harness *h, const struct entries *batch, const struct stet_root *root)
{
	struct entries model = merge(h, &h->model, batch);

	assert_int_equal(h->changed, count_differences(h, batch));
	if (h->keep_old)
		harness_check_root(h, &h->root, &h->model); /* T1 */
	check_balance(h, root, &model);
	stet_cache_check(h->vol.cache);
	entries_release(&h->model);
	h->model = model;
	h->root = *root;
	h->birth++;
}

void harness_apply_touched(struct harness *h, const struct entries *batch,
			   const struct stet_touch *touches, size_t touch_count, uint32_t max_nodes)
{
	struct stet_root root;

	assert_int_equal(harness_try(h, batch, touches, touch_count, max_nodes, &root), 0);
	harness_accept(h, batch, &root);
}

void harness_apply(struct harness *h, const struct entries *batch, uint32_t max_nodes)
{
	harness_apply_touched(h, batch, NULL, 0, max_nodes);
}
