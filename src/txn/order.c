/* order.c - ordering: validate, merge, give the serial, publish.
 *
 * O1. Everything from the first check to the last publication happens under one hold of the volume's
 *     lock, so ordering is atomic to every reader.
 * O2. Before the first publication everything that can fail has been done: entries are final, keys have
 *     their places in the delta. So a transaction is published whole or not at all.
 * O3. SERIALIZABLE: what was read must have the value now that it had in the view. Values are compared,
 *     not serials: a key that changed and came back is no conflict, and moving a block is none.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

static int compare_key(struct stet_txn *txn, const struct stet_key *key, uint32_t mask, bool *ret)
{
	struct stet_engine *engine = txn->engine;
	struct stet_val then, now;
	int a = stet_read_at_(engine, txn->view->root, txn->view->serial, key, &then);

	if (a && a != -ENOENT)
		return a;
	int b = stet_read_at_(engine, engine->root, engine->serial, key, &now);
	if (b && b != -ENOENT)
		return b;
	*ret = engine->hooks.same(engine->hooks.arg, key, mask, a ? NULL : &then, b ? NULL : &now);
	return 0;
}

static int read_changed(struct stet_txn *txn, const struct stet_key *key)
{
	return stet_txn_conflict(txn, key, "it was read, and another has changed it since");
}

static int validate_keys(struct stet_txn *txn)
{
	for (struct stet_skipnode *node = stet_skiplist_first(&txn->reads); node;
	     node = stet_skiplist_next(node)) {
		struct stet_key key = { .bytes = node->key_len };
		bool same;

		memcpy(key.b, stet_skipnode_key(node), node->key_len);
		int rc = compare_key(txn, &key, (uint32_t)(uintptr_t)node->value, &same);
		if (rc)
			return rc;
		if (!same)
			return read_changed(txn, &key);
	}
	return 0;
}

/* Two streams over the same range, one at the view and one now, must give the same. */
static int compare_streams(struct stet_txn *txn, struct stet_merge *then, struct stet_merge *now)
{
	const struct stet_engine_hooks *hooks = &txn->engine->hooks;
	struct stet_key a_key, b_key;
	struct stet_val a, b;

	for (;;) {
		int x = stet_merge_next_(then, &a_key, &a, NULL);
		int y = x < 0 ? x : stet_merge_next_(now, &b_key, &b, NULL);

		if (x < 0 || y < 0)
			return x < 0 ? x : y;
		if (x == 0 && y == 0)
			return 0;
		if (x != y)
			return read_changed(txn, x ? &a_key : &b_key);
		if (stet_key_cmp(a_key.b, a_key.bytes, b_key.b, b_key.bytes) != 0)
			return read_changed(txn, &a_key);
		if (!hooks->same(hooks->arg, &a_key, UINT32_MAX, &a, &b))
			return read_changed(txn, &a_key);
	}
}

static int validate_range(struct stet_txn *txn, const struct stet_read_range *r)
{
	struct stet_engine *engine = txn->engine;
	struct stet_merge then, now;
	int rc = stet_merge_open_(&then, engine, NULL, txn->view->root, txn->view->serial, &r->from,
				  &r->to);

	if (rc)
		return rc;
	rc = stet_merge_open_(&now, engine, NULL, engine->root, engine->serial, &r->from, &r->to);
	if (!rc) {
		rc = compare_streams(txn, &then, &now);
		stet_merge_close_(&now);
	}
	stet_merge_close_(&then);
	return rc;
}

/* N6 of txn.c */
static int changed_at_all(struct stet_txn *txn)
{
	struct stet_key root;

	stet_key_inode(&root, STET_ROOT_INO);
	return stet_txn_conflict(txn, &root,
				 "more was read than is remembered, and others have changed "
				 "something since");
}

static int validate(struct stet_txn *txn)
{
	int rc;

	if (txn->level != STET_LEVEL_SERIALIZABLE || txn->read_only ||
	    txn->view->serial == txn->engine->serial || stet_mutant_is(STET_MUTANT_NO_VALIDATE))
		return 0;
	if (txn->read_too_much)
		return changed_at_all(txn);
	rc = validate_keys(txn);
	for (size_t i = 0; i < txn->ranges.n && !rc; i++)
		rc = validate_range(txn, &txn->ranges.v[i]);
	return rc;
}

/* X3 of writeset.c */
static int settle_same(struct stet_txn *txn, const struct stet_key *key, const struct stet_val *now)
{
	if (!now)
		return stet_txn_del(txn, key);
	if (now->buf)
		return stet_txn_put_buf(txn, key, now->buf, now->buf_from, now->buf_count,
					now->birth);
	return stet_txn_put(txn, key, now->b, now->bytes);
}

static int settle_intent(struct stet_txn *txn, const struct stet_key *key,
			 const struct stet_version *v, const struct stet_val *now,
			 const struct stet_stamp *stamp)
{
	const struct stet_engine_hooks *hooks = &txn->engine->hooks;
	struct stet_val merged;
	int rc = hooks->merge(hooks->arg, key, now, v->b, v->bytes, stamp, &merged);

	return rc ? rc : stet_txn_put(txn, key, merged.b, merged.bytes);
}

/* Turns intents, and what was given up, into finals on the current state. */
static int settle(struct stet_txn *txn, const struct stet_stamp *stamp)
{
	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node;
	     node = stet_skiplist_next(node)) {
		struct stet_version *v = node->value;
		struct stet_key key = { .bytes = node->key_len };
		struct stet_val now;

		if (stet_version_is_final_(v))
			continue;
		memcpy(key.b, stet_skipnode_key(node), node->key_len);
		int rc = stet_mutant_is(STET_MUTANT_NO_MERGE) && txn->view
				 ? stet_txn_get_begun(txn, &key, &now)
				 : stet_read_at_(txn->engine, txn->engine->root,
						 txn->engine->serial, &key, &now);
		if (rc && rc != -ENOENT)
			return rc;
		rc = v->kind == STET_V_SAME ? settle_same(txn, &key, rc ? NULL : &now)
					    : settle_intent(txn, &key, v, rc ? NULL : &now, stamp);
		if (rc)
			return rc;
	}
	return 0;
}

/* If the extent `val` has a block `i`, notes where that lies. */
static int take_base(const struct stet_engine *engine, const struct stet_val *val, uint64_t i,
		     struct stet_patch *patch)
{
	struct stet_extent e;

	if (val->buf) {
		if (i >= val->buf_count)
			return 0;
		patch->base_hole = false;
		patch->base_addr = val->buf->addr[val->buf_from + i];
		patch->base_crc = val->buf->crc[val->buf_from + i];
		return 0;
	}
	int rc = stet_extent_decode(val->b, val->bytes, engine->sb.seg_blocks, &e);
	if (rc || i >= e.block_count)
		return rc;
	patch->base_hole = false;
	patch->base_addr = stet_addr_add(e.addr, (uint32_t)i);
	patch->base_crc = stet_get_le32(e.crcs + 4 * i);
	return 0;
}

/* The block lies within an extent that begins before it, or in none. */
static int search_base(struct stet_engine *engine, uint64_t ino, uint64_t block,
		       struct stet_patch *patch)
{
	uint64_t first = block >= STET_EXTENT_BLOCKS_MAX ? block - STET_EXTENT_BLOCKS_MAX + 1 : 0;
	struct stet_key from, to, at;
	struct stet_merge m;
	struct stet_val val;

	stet_key_extent(&from, ino, first);
	stet_key_extent(&to, ino, block);
	int rc = stet_merge_open_(&m, engine, NULL, engine->root, engine->serial, &from, &to);
	if (rc)
		return rc;
	while ((rc = stet_merge_next_(&m, &at, &val, NULL)) == 1) {
		rc = take_base(engine, &val, block - stet_key_suffix_u64(at.b), patch);
		if (rc)
			break;
	}
	stet_merge_close_(&m);
	return rc;
}

/* What the log needs to rebuild a patched block: where its base lies now. */
static int find_base(struct stet_engine *engine, const uint8_t *key, struct stet_patch *patch)
{
	uint64_t ino = stet_key_object(key);
	uint64_t block = stet_key_suffix_u64(key);
	struct stet_key exact;
	struct stet_val val;

	patch->base_hole = true;
	stet_key_extent(&exact, ino, block);
	int rc = stet_read_at_(engine, engine->root, engine->serial, &exact, &val);
	if (rc == 0)
		return take_base(engine, &val, 0, patch);
	return rc == -ENOENT ? search_base(engine, ino, block, patch) : rc;
}

/* A patch whose base is an unplaced block under another key (or none at all) is logged whole. */
static int prepare_patch(struct stet_engine *engine, const struct stet_skipnode *node,
			 struct stet_version *v)
{
	const uint8_t *key = stet_skipnode_key(node);
	struct stet_dnode *dnode = stet_delta_node_(engine, key, node->key_len);

	if (!v->patch)
		return 0;
	int rc = find_base(engine, key, v->patch);
	if (rc)
		return rc;
	bool same_key = dnode && dnode->newest && dnode->newest->kind == STET_V_BUF &&
			dnode->newest->count == 1 &&
			dnode->newest->serial > engine->root->cut; /* else see join_patch */
	if (!v->patch->base_hole && stet_addr_is_none(v->patch->base_addr) && !same_key) {
		stet_free(v->patch);
		v->patch = NULL;
	}
	return 0;
}

int stet_txn_prepare(struct stet_txn *txn)
{
	if (txn->prepared)
		return 0;
	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node;
	     node = stet_skiplist_next(node)) {
		int rc = prepare_patch(txn->engine, node, node->value);

		if (!rc)
			rc = stet_delta_prepare_(txn->engine, stet_skipnode_key(node),
						 node->key_len);
		if (rc)
			return rc;
	}
	txn->prepared = true;
	return 0;
}

static int add_run(struct stet_txn *txn, const struct stet_stamp *stamp)
{
	struct stet_engine *engine = txn->engine;
	struct stet_runref *ref;

	if (!txn->have_run)
		return 0;
	ref = stet_calloc(1, sizeof(*ref));
	if (!ref)
		return STET_FAIL(-ENOMEM, "no memory for a run");
	ref->refs = 1;
	ref->run = txn->run;
	ref->run.serial = stamp->serial;
	ref->run.commit_ns = stamp->now_ns;
	stet_crowd_publish_(txn);
	stet_gaps_forget_all_(engine); /* it may hold keys in any of them */
	stet_list_add_tail(&engine->runs, &ref->link);
	if (engine->dirty_since_ns == 0)
		engine->dirty_since_ns = engine->config.clock->mono_ns(engine->config.clock);
	txn->have_run = false;
	return 0;
}

/* The bytes that the value gains or loses are its room's (O2). */
static void resolve(struct stet_engine *engine, const struct stet_skipnode *node,
		    struct stet_version *v, const struct stet_stamp *stamp)
{
	size_t all = (size_t)v->bytes + v->room;
	size_t bytes = engine->hooks.resolve(engine->hooks.arg, stet_skipnode_key(node),
					     node->key_len, v->b, v->bytes, stamp);

	STET_ASSERT_CMP(bytes, <=, all);
	STET_ASSERT_CMP(all - bytes, <=, UINT8_MAX);
	v->bytes = (uint16_t)bytes;
	v->room = (uint8_t)(all - bytes);
}

static void publish_one(struct stet_txn *txn, struct stet_skipnode *node,
			const struct stet_stamp *stamp)
{
	struct stet_engine *engine = txn->engine;
	struct stet_version *v = node->value;
	uint64_t bytes = stet_version_memory_(v);

	if (v->kind == STET_V_BYTES && engine->hooks.resolve)
		resolve(engine, node, v, stamp);
	txn->set_bytes -= bytes;
	stet_cache_charge(engine->cache, -(int64_t)bytes);
	node->value = NULL;
	int rc = stet_delta_publish_(engine, stet_skipnode_key(node), node->key_len, v,
				     stamp->serial, false);
	STET_ASSERT_CMP(rc, ==, 0); /* O2: stet_txn_prepare made the node */
}

static void publish(struct stet_txn *txn, const struct stet_stamp *stamp)
{
	struct stet_engine *engine = txn->engine;

	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node;
	     node = stet_skiplist_next(node))
		publish_one(txn, node, stamp);
	stet_cache_charge(engine->cache, -(int64_t)txn->set_bytes);
	stet_skiplist_release(&txn->set, NULL, NULL);
	stet_skiplist_init(&txn->set, stamp->serial, 0);
	txn->set_bytes = 0;
	txn->final_bytes = 0;
	txn->buf_bytes = 0;
	txn->set_blocks = 0;
	engine->serial = stamp->serial;
	engine->promised += txn->promised;
	txn->promised = 0;
	engine->cut_blocks += txn->cut_blocks;
	if (engine->cut_blocks >= STET_RELIEF_BLOCKS) { /* N8 */
		engine->cut_blocks = 0;
		engine->in_vain = 0;
	}
	if (!txn->moves)
		engine->clean_hopeless = false;
	engine->stats.commits++;
}

int stet_txn_order(struct stet_txn *txn, struct stet_ticket *ticket, uint64_t *ret_wait)
{
	struct stet_engine *engine = txn->engine;
	struct stet_stamp stamp;
	int rc;

	if (txn->doomed)
		return txn->doomed;
	if (txn->spilling) {
		if (ticket)
			stet_ticket_enqueue(&txn->spill_waiters, ticket);
		return STET_WAIT;
	}
	STET_ASSERT(!txn->ordered);
	if (engine->failed && !txn->read_only)
		return stet_engine_refuse_(engine);
	stet_save_release_all_(txn); /* nothing is given back from here on but by ending it */
	stamp.now_ns = stet_engine_now(engine);
	stamp.serial = stet_log_last_serial(engine->log) + 1;
	rc = txn->level == STET_LEVEL_PLAIN ? 0 : validate(txn);
	txn->ordering = true;
	if (!rc && !txn->read_only && engine->hooks.order)
		rc = engine->hooks.order(engine->hooks.arg, txn, &stamp);
	if (!rc && stet_txn_changed(txn)) {
		rc = settle(txn, &stamp);
		if (!rc)
			rc = stet_txn_prepare(txn);
		if (!rc)
			rc = add_run(txn, &stamp);
		if (!rc) {
			uint64_t given = stet_log_next_serial(engine->log);

			STET_ASSERT_CMP(given, ==, stamp.serial);
			publish(txn, &stamp);
			*ret_wait = stamp.serial > txn->read_max ? stamp.serial : txn->read_max;
		}
	} else if (!rc) {
		*ret_wait = stet_mutant_is(STET_MUTANT_NO_READ_WAIT) ? 0 : txn->read_max;
	}
	txn->ordering = false;
	if (rc) {
		stet_txn_doom(txn, rc);
		return rc;
	}
	txn->ordered = true;
	stet_lock_release_all(&txn->owner);
	return 0;
}
