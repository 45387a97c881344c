/* delta.c - what was committed since the checkpoint: versioned entries in key order.
 *
 * D1. For each key the versions are a chain, newest first, of falling serials. A reader at (cut, serial)
 *     takes the newest with cut < version <= serial; older ones are in its tree.
 * D2. A version is kept while somebody may read it: the newest state, an open view, the durable state
 *     (what a failed flush falls back to), or the cut of the flush in flight.
 * D3. A key whose newest version is not in the log is on the dirty list, or named by the flush in flight.
 * D4. When a checkpoint has become the root, what it holds is trimmed in steps. Versions at or below the root's
 *     cut that are still there meanwhile are read by nobody new (D1); their places are the root's, which is
 *     noted before anything can free them (mark_rooted).
 * D5. delta_bytes is the memory of all nodes and versions, and is charged to the cache.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

static void charge(struct stet_engine *engine, int64_t bytes)
{
	engine->delta_bytes = (uint64_t)((int64_t)engine->delta_bytes + bytes);
	stet_cache_charge(engine->cache, bytes);
}

static void free_version(struct stet_engine *engine, struct stet_version *v)
{
	charge(engine, -(int64_t)stet_version_memory_(v));
	if (v->buf)
		stet_buf_put_(engine, v->buf);
	v->buf = NULL;
	stet_version_free_(v);
}

static bool in_span(uint64_t at, uint64_t serial, uint64_t next_serial)
{
	return serial <= at && at < next_serial;
}

bool stet_delta_needed_(const struct stet_engine *engine, uint64_t serial, uint64_t next_serial)
{
	struct stet_list *pos;

	if (in_span(engine->durable_cut, serial, next_serial) ||
	    in_span(engine->flush_cut, serial, next_serial))
		return true;
	STET_LIST_FOREACH(pos, &engine->views) {
		struct stet_view *view = stet_container_of(pos, struct stet_view, link);

		if (in_span(view->serial, serial, next_serial) && view->root->cut < serial)
			return true;
	}
	return false;
}

struct stet_dnode *stet_delta_node_(struct stet_engine *engine, const void *key, size_t key_bytes)
{
	struct stet_skipnode *node = stet_skiplist_find(&engine->delta, key, key_bytes);

	return node ? node->value : NULL;
}

struct stet_version *stet_delta_find_(const struct stet_dnode *dnode, uint64_t cut, uint64_t serial)
{
	struct stet_version *v = dnode->newest;

	if (dnode->serial <= serial)
		return v && dnode->serial > cut ? v : NULL;
	while (v && v->serial > serial)
		v = v->older;
	return v && v->serial > cut ? v : NULL;
}

int stet_delta_prepare_(struct stet_engine *engine, const void *key, size_t key_bytes)
{
	struct stet_skipnode *node;
	size_t before = stet_skiplist_bytes(&engine->delta);
	int rc = stet_skiplist_insert(&engine->delta, key, key_bytes, &node);

	if (rc == -EEXIST)
		return 0;
	if (rc)
		return rc;
	struct stet_dnode *dnode = node->value;
	stet_list_init(&dnode->dirty);
	stet_list_init(&dnode->unplaced);
	engine->delta_changes++;
	engine->new_keys++;
	charge(engine, (int64_t)(stet_skiplist_bytes(&engine->delta) - before));
	return 0;
}

/* V2: the newest root has what was newest at its cut. */
static void mark_rooted(struct stet_engine *engine, struct stet_dnode *dnode)
{
	struct stet_version *v = stet_delta_find_(dnode, 0, engine->root->cut);

	if (!v || v->kind != STET_V_BUF)
		return;
	for (uint32_t i = v->from; i < (uint32_t)v->from + v->count; i++)
		v->buf->rooted |= UINT64_C(1) << i;
}

void stet_delta_prune_(struct stet_engine *engine, struct stet_dnode *dnode)
{
	struct stet_version *v = dnode->newest;

	if (engine->trimming)
		mark_rooted(engine, dnode); /* D4 */
	while (v->older) {
		struct stet_version *old = v->older;

		if (stet_delta_needed_(engine, old->serial, v->serial)) {
			v = old;
			continue;
		}
		v->older = old->older;
		free_version(engine, old);
	}
}

/* How a new one-block buffer relates to what the log knows of the block: the base of its patch. */
static void join_patch(const struct stet_engine *engine, struct stet_dnode *dnode,
		       struct stet_version *v)
{
	struct stet_version *prev = dnode->newest;

	if (!v->patch || !prev || prev->kind != STET_V_BUF || prev->count != v->count)
		return;
	if (prev->serial <= engine->root->cut)
		return; /* kept for an older view: what the block is now, the root knows */
	if (!stet_list_linked(&dnode->dirty)) {
		if (!stet_databuf_placed(prev->buf, prev->from, 1)) {
			v->patch->base_current = true;
			v->patch->base_hole = false;
		}
		return;
	}
	/* The block's last version never reached the log: one record must carry both changes. */
	bool fits = prev->patch && prev->patch->count + v->patch->count <= STET_PATCH_RANGES;
	if (!fits) {
		stet_free(v->patch);
		v->patch = NULL;
		return;
	}
	struct stet_patch *both = v->patch;
	for (uint32_t i = 0; i < prev->patch->count; i++)
		both->range[both->count++] = prev->patch->range[i];
	both->base_current = prev->patch->base_current;
	both->base_hole = prev->patch->base_hole;
	both->base_addr = prev->patch->base_addr;
	both->base_crc = prev->patch->base_crc;
}

static uint64_t dirty_weight(const struct stet_version *v)
{
	if (v->kind != STET_V_BUF)
		return v->bytes + 64u;
	return stet_databuf_placed(v->buf, v->from, v->count)
		       ? 96u
		       : (uint64_t)v->count * STET_BLOCK_SIZE;
}

int stet_delta_publish_(struct stet_engine *engine, const void *key, size_t key_bytes,
			struct stet_version *v, uint64_t serial, bool logged)
{
	int rc = stet_delta_prepare_(engine, key, key_bytes);

	if (rc)
		return rc;
	struct stet_dnode *dnode = stet_delta_node_(engine, key, key_bytes);
	if (v->kind != STET_V_DEL && (engine->gaps.n > 0 || !stet_list_empty(&engine->txns))) {
		struct stet_key lives = { .bytes = (uint16_t)key_bytes };

		memcpy(lives.b, key, key_bytes);
		stet_gaps_lives_(engine, &lives, serial);
	}
	STET_DEBUG_ASSERT(!dnode->newest || dnode->serial <= serial);
	v->serial = serial;
	join_patch(engine, dnode, v);
	v->older = dnode->newest;
	dnode->newest = v;
	dnode->serial = serial;
	charge(engine, (int64_t)stet_version_memory_(v));
	if (v->older && v->older->serial == serial) {
		struct stet_version *same = v->older;

		v->older = same->older;
		free_version(engine, same);
	}
	stet_delta_placed_(engine, dnode);
	if (!logged) {
		if (!stet_list_linked(&dnode->dirty))
			stet_list_add_tail(&engine->dirty, &dnode->dirty);
		engine->dirty_bytes += dirty_weight(v);
		if (engine->dirty_since_ns == 0)
			engine->dirty_since_ns =
				engine->config.clock->mono_ns(engine->config.clock);
	}
	stet_delta_prune_(engine, dnode);
	return 0;
}

void stet_delta_unplaced_(struct stet_engine *engine, struct stet_dnode *dnode)
{
	if (stet_list_linked(&dnode->unplaced))
		return;
	stet_list_add_tail(&engine->unplaced, &dnode->unplaced);
	engine->unplaced_blocks++;
}

void stet_delta_placed_(struct stet_engine *engine, struct stet_dnode *dnode)
{
	if (!stet_list_linked(&dnode->unplaced))
		return;
	stet_list_del(&dnode->unplaced);
	engine->unplaced_blocks--;
}

int stet_delta_split_(struct stet_engine *engine, struct stet_dnode *dnode, uint16_t blocks)
{
	struct stet_version *v = dnode->newest;
	const uint8_t *key = stet_skipnode_key(stet_dnode_node_(dnode));
	struct stet_version *rest;
	struct stet_key rest_key;

	STET_ASSERT_CMP(blocks, <, v->count);
	int rc = stet_version_buf_(v->buf, (uint16_t)(v->from + blocks),
				   (uint16_t)(v->count - blocks), v->birth, &rest);
	if (rc)
		return rc;
	stet_key_extent(&rest_key, stet_key_object(key), stet_key_suffix_u64(key) + blocks);
	rc = stet_delta_publish_(engine, rest_key.b, rest_key.bytes, rest, v->serial, false);
	if (rc) {
		stet_databuf_put(rest->buf);
		rest->buf = NULL;
		stet_version_free_(rest);
		return rc;
	}
	v->count = blocks;
	return 0;
}

/* Whether a view on an older root reads this version (the newest root holds it). */
static bool old_view_needs(const struct stet_engine *engine, uint64_t serial, uint64_t next_serial)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->views) {
		struct stet_view *view = stet_container_of(pos, struct stet_view, link);

		if (view->root->cut < serial && in_span(view->serial, serial, next_serial))
			return true;
	}
	return false;
}

/* What the newest root has is no longer the delta's, unless an older view reads it here. False: nothing of
 * the key is left. */
static bool trim_node(void *arg, struct stet_skipnode *node)
{
	struct stet_engine *engine = arg;
	struct stet_dnode *dnode = node->value;
	struct stet_version **link = &dnode->newest;
	uint64_t next_serial = UINT64_MAX;

	mark_rooted(engine, dnode);
	while (*link) {
		struct stet_version *v = *link;
		bool keep = v->serial > engine->root->cut
				    ? next_serial == UINT64_MAX ||
					      stet_delta_needed_(engine, v->serial, next_serial)
				    : old_view_needs(engine, v->serial, next_serial);

		next_serial = v->serial;
		if (keep) {
			link = &v->older;
			continue;
		}
		*link = v->older;
		free_version(engine, v);
	}
	if (dnode->newest) {
		dnode->serial = dnode->newest->serial;
		return true;
	}
	STET_ASSERT(!stet_list_linked(&dnode->dirty));
	stet_delta_placed_(engine, dnode);
	engine->delta_changes++;
	return false;
}

void stet_delta_trim_(struct stet_engine *engine)
{
	engine->trimming = true;
	engine->trim_from.bytes = 0;
}

void stet_delta_trim_step_(struct stet_engine *engine, size_t keys)
{
	size_t before = stet_skiplist_bytes(&engine->delta);
	struct stet_skipnode *next = stet_skiplist_sweep(&engine->delta, engine->trim_from.b,
							 engine->trim_from.bytes, keys, trim_node,
							 engine);

	charge(engine, -(int64_t)(before - stet_skiplist_bytes(&engine->delta)));
	engine->trimming = next != NULL;
	if (!next)
		return;
	engine->trim_from.bytes = next->key_len;
	memcpy(engine->trim_from.b, stet_skipnode_key(next), next->key_len);
}

static void free_dnode(void *arg, struct stet_skipnode *node)
{
	struct stet_engine *engine = arg;
	struct stet_dnode *dnode = node->value;

	while (dnode->newest) {
		struct stet_version *v = dnode->newest;

		dnode->newest = v->older;
		free_version(engine, v);
	}
	stet_list_del(&dnode->dirty);
	stet_list_del(&dnode->unplaced);
}

void stet_delta_release_(struct stet_engine *engine)
{
	stet_skiplist_release(&engine->delta, free_dnode, engine);
}
