/* writeset.c - what a transaction has staged: one entry per key, newest change only.
 *
 * X1. PUT, DEL and BUF entries are final: the locks taken before them guarantee that ordering finds the
 *     key as the transaction saw it. INTENT entries are merged at ordering with what is then current.
 * X2. An entry supersedes what the transaction's own run holds for the key.
 * X3. A SAME entry stands over a key of the run that was given up again. It becomes what is then current at
 *     ordering: the cleaner may have moved it meanwhile.
 * X4. set_bytes and buf_bytes are what the entries hold in memory. final_bytes and buf_bytes decide when to
 *     spill: a spill takes them to 0, so it never asks for another one by itself.
 * X5. Intents are for keys that no run holds, so none meets a SAME entry.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

#define NODE_BYTES 64u /* about what an entry takes besides its version */

static uint64_t unplaced_bytes(const struct stet_version *v)
{
	if (v->kind != STET_V_BUF || stet_databuf_placed(v->buf, v->from, v->count))
		return 0;
	return (uint64_t)v->count * STET_BLOCK_SIZE;
}

static void account(struct stet_txn *txn, const struct stet_version *v, bool add)
{
	uint64_t bytes = stet_version_memory_(v);
	uint64_t data = unplaced_bytes(v);
	uint64_t final = stet_version_is_final_(v) ? bytes + NODE_BYTES : 0;

	txn->final_bytes = add ? txn->final_bytes + final : txn->final_bytes - final;
	txn->set_bytes = add ? txn->set_bytes + bytes : txn->set_bytes - bytes;
	stet_cache_charge(txn->engine->cache, add ? (int64_t)bytes : -(int64_t)bytes);
	if (add)
		txn->buf_bytes += data;
	else
		txn->buf_bytes -= data < txn->buf_bytes ? data : txn->buf_bytes;
}

static void drop_entry(struct stet_txn *txn, struct stet_version *v)
{
	account(txn, v, false);
	if (v->buf)
		stet_buf_put_(txn->engine, v->buf);
	v->buf = NULL;
	stet_version_free_(v);
}

struct stet_version *stet_set_find_(struct stet_txn *txn, const void *key, size_t key_bytes)
{
	struct stet_skipnode *node = stet_skiplist_find(&txn->set, key, key_bytes);

	return node ? node->value : NULL;
}

int stet_set_put_(struct stet_txn *txn, const struct stet_key *key, struct stet_version *v)
{
	struct stet_skipnode *node;
	size_t before = stet_skiplist_bytes(&txn->set);
	int rc = stet_skiplist_insert(&txn->set, key->b, key->bytes, &node);

	if (rc && rc != -EEXIST) {
		if (v->buf)
			stet_buf_put_(txn->engine, v->buf);
		v->buf = NULL;
		stet_version_free_(v);
		return rc;
	}
	if (rc == -EEXIST)
		drop_entry(txn, node->value);
	else
		txn->set_changes++;
	node->value = v;
	txn->prepared = false;
	account(txn, v, true);
	uint64_t grown = stet_skiplist_bytes(&txn->set) - before;
	txn->set_bytes += grown;
	stet_cache_charge(txn->engine->cache, (int64_t)grown);
	return 0;
}

/* Takes an entry out of the set. */
static void remove_entry(struct stet_txn *txn, struct stet_skipnode *node)
{
	size_t bytes = stet_skiplist_bytes(&txn->set);

	drop_entry(txn, node->value);
	stet_skiplist_remove(&txn->set, node);
	bytes -= stet_skiplist_bytes(&txn->set);
	txn->set_bytes -= bytes;
	stet_cache_charge(txn->engine->cache, -(int64_t)bytes);
	txn->set_changes++;
}

static void free_entry(void *arg, struct stet_skipnode *node)
{
	drop_entry(arg, node->value);
}

void stet_set_clear_(struct stet_txn *txn)
{
	stet_skiplist_release(&txn->set, free_entry, txn);
	stet_skiplist_init(&txn->set, stet_engine_random(txn->engine), 0);
	stet_cache_charge(txn->engine->cache, -(int64_t)txn->set_bytes);
	txn->set_bytes = 0;
	txn->final_bytes = 0;
	txn->buf_bytes = 0;
	txn->set_changes++;
}

void stet_set_spilled_(struct stet_txn *txn)
{
	struct stet_skipnode *node = stet_skiplist_first(&txn->set);

	while (node) {
		struct stet_skipnode *next = stet_skiplist_next(node);
		struct stet_version *v = node->value;

		if (v->spilling) {
			for (uint32_t i = v->from; v->buf && i < (uint32_t)v->from + v->count; i++)
				v->buf->rooted |= UINT64_C(1) << i;
			remove_entry(txn, node);
		}
		node = next;
	}
}

int stet_set_split_(struct stet_txn *txn, struct stet_skipnode *node, uint16_t blocks)
{
	struct stet_version *v = node->value;
	const uint8_t *at = stet_skipnode_key(node);
	struct stet_version *rest;
	struct stet_key key;

	STET_ASSERT_CMP(blocks, <, v->count);
	int rc = stet_version_buf_(v->buf, (uint16_t)(v->from + blocks),
				   (uint16_t)(v->count - blocks), v->birth, &rest);
	if (rc)
		return rc;
	account(txn, v, false);
	v->count = blocks;
	account(txn, v, true);
	stet_key_extent(&key, stet_key_object(at), stet_key_suffix_u64(at) + blocks);
	return stet_set_put_(txn, &key, rest);
}

static int writable(const struct stet_txn *txn)
{
	if (txn->doomed)
		return txn->doomed;
	if (txn->read_only)
		return STET_FAIL(-EROFS, "the transaction is read-only");
	return 0;
}

int stet_txn_put(struct stet_txn *txn, const struct stet_key *key, const void *value,
		 size_t value_bytes)
{
	bool grows = stet_key_get_kind(key->b) ==
		     STET_KIND_INODE; /* when its symbols are resolved */
	struct stet_version *v;
	int rc = writable(txn);

	if (rc)
		return rc;
	STET_ASSERT_CMP(value_bytes, <=, STET_VALUE_MAX);
	rc = stet_version_bytes_(STET_V_BYTES, value, value_bytes,
				 grows ? STET_INODE_GROWTH_MAX : 0, &v);
	return rc ? rc : stet_set_put_(txn, key, v);
}

int stet_txn_del(struct stet_txn *txn, const struct stet_key *key)
{
	struct stet_version *v;
	int rc = writable(txn);

	if (rc)
		return rc;
	rc = stet_version_bytes_(STET_V_DEL, NULL, 0, 0, &v);
	return rc ? rc : stet_set_put_(txn, key, v);
}

int stet_txn_put_buf(struct stet_txn *txn, const struct stet_key *key, struct stet_databuf *buf,
		     uint16_t from, uint16_t count, uint64_t birth)
{
	struct stet_version *v;
	int rc = writable(txn);

	if (rc)
		return rc;
	rc = stet_version_buf_(buf, from, count, birth, &v);
	return rc ? rc : stet_set_put_(txn, key, v);
}

/* Adds a range to a patch, joined with one it touches; false = no room, log the block whole. */
static bool add_range(struct stet_patch *patch, uint32_t offset, uint32_t len)
{
	for (uint32_t i = 0; i < patch->count; i++) {
		uint32_t from = patch->range[i].off;
		uint32_t to = from + patch->range[i].len;

		if (offset > to || offset + len < from)
			continue;
		from = offset < from ? offset : from;
		to = offset + len > to ? offset + len : to;
		patch->range[i].off = (uint16_t)from;
		patch->range[i].len = (uint16_t)(to - from);
		return true;
	}
	if (patch->count == STET_PATCH_RANGES)
		return false;
	patch->range[patch->count].off = (uint16_t)offset;
	patch->range[patch->count].len = (uint16_t)len;
	patch->count++;
	return true;
}

int stet_txn_put_patch(struct stet_txn *txn, const struct stet_key *key, struct stet_databuf *buf,
		       uint16_t from, uint32_t offset, uint32_t len)
{
	const struct stet_version *prev = stet_set_find_(txn, key->b, key->bytes);
	struct stet_patch *patch;
	struct stet_version *v;
	int rc = writable(txn);

	if (rc)
		return rc;
	STET_ASSERT_CMP(offset + len, <=, STET_BLOCK_SIZE);
	/* What this transaction wrote whole before stays whole. */
	if (prev && prev->kind == STET_V_BUF && !prev->patch)
		return stet_txn_put_buf(txn, key, buf, from, 1, 0);
	patch = stet_calloc(1, sizeof(*patch));
	if (!patch)
		return STET_FAIL(-ENOMEM, "no memory for a patch");
	if (prev && prev->kind == STET_V_BUF && prev->count == 1)
		*patch = *prev->patch;
	rc = stet_version_buf_(buf, from, 1, 0, &v);
	if (rc) {
		stet_free(patch);
		return rc;
	}
	if (add_range(patch, offset, len))
		v->patch = patch;
	else
		stet_free(patch);
	return stet_set_put_(txn, key, v);
}

/* The value that this transaction itself has put for a key: 0, -ENOENT (it has not), 1 (it is gone). */
static int own_value(struct stet_txn *txn, const struct stet_key *key, struct stet_val *ret)
{
	const struct stet_version *v = stet_set_find_(txn, key->b, key->bytes);

	if (!v)
		return stet_set_run_get_(txn, key, ret);
	if (v->kind == STET_V_DEL)
		return 1;
	if (!stet_version_is_final_(v))
		return -ENOENT;
	stet_version_val_(v, ret);
	return 0;
}

static int put_intent(struct stet_txn *txn, const struct stet_key *key, const void *intent,
		      size_t intent_bytes)
{
	const struct stet_engine_hooks *hooks = &txn->engine->hooks;
	struct stet_version *prev = stet_set_find_(txn, key->b, key->bytes);
	struct stet_buf all;
	struct stet_version *v;
	int rc;

	STET_ASSERT(!prev || prev->kind == STET_V_INTENT); /* X5 */
	stet_buf_init(&all);
	rc = prev ? stet_buf_append(&all, prev->b, prev->bytes)
		  : stet_buf_append(&all, intent, intent_bytes);
	if (!rc && prev)
		rc = hooks->combine(hooks->arg, key, &all, intent, intent_bytes);
	if (!rc)
		rc = stet_version_bytes_(STET_V_INTENT, all.p, all.len, 0, &v);
	stet_buf_release(&all);
	return rc ? rc : stet_set_put_(txn, key, v);
}

int stet_txn_intent(struct stet_txn *txn, const struct stet_key *key, const void *intent,
		    size_t intent_bytes)
{
	const struct stet_engine_hooks *hooks = &txn->engine->hooks;
	struct stet_val base, merged;
	int rc = writable(txn);

	if (rc)
		return rc;
	rc = own_value(txn, key, &base);
	if (rc == -ENOENT && txn->level == STET_LEVEL_PLAIN)
		rc = stet_txn_get(txn, key, &base);
	else if (rc == -ENOENT)
		return put_intent(txn, key, intent, intent_bytes);
	if (rc == 1 || rc == -ENOENT)
		return STET_FAIL(-ENOENT, "an intent on a key that is gone");
	if (rc)
		return rc;
	rc = hooks->merge(hooks->arg, key, &base, intent, intent_bytes, NULL, &merged);
	return rc ? rc : stet_txn_put(txn, key, merged.b, merged.bytes);
}

bool stet_txn_own_buf(struct stet_txn *txn, const struct stet_key *key,
		      struct stet_databuf **ret_buf, uint16_t *ret_from, uint16_t *ret_count)
{
	const struct stet_version *v = stet_set_find_(txn, key->b, key->bytes);
	struct stet_engine *engine = txn->engine;

	if (!v && txn->level == STET_LEVEL_PLAIN) {
		/* The committed state's newest buffer, if nobody but the newest state sees it. */
		struct stet_dnode *dnode = stet_delta_node_(engine, key->b, key->bytes);

		if (!dnode || !stet_list_linked(&dnode->dirty) || dnode->newest->older ||
		    stet_delta_needed_(engine, dnode->newest->serial, UINT64_MAX))
			return false;
		v = dnode->newest;
	}
	if (!v || v->kind != STET_V_BUF || !v->buf->data || v->buf->frozen > 0 || v->buf->refs != 1)
		return false;
	for (uint32_t i = 0; i < v->buf->block_count; i++)
		if (!stet_addr_is_none(v->buf->addr[i]))
			return false;
	*ret_buf = v->buf;
	*ret_from = v->from;
	*ret_count = v->count;
	return true;
}

/* --- reading --- */
static int read_below(struct stet_txn *txn, const struct stet_key *key, struct stet_val *ret)
{
	struct stet_engine *engine = txn->engine;
	int rc;

	if (txn->view && !txn->ordering && txn->level != STET_LEVEL_LOCKING &&
	    !stet_mutant_is(STET_MUTANT_READ_CURRENT))
		rc = stet_read_at_(engine, txn->view->root, txn->view->serial, key, ret);
	else
		rc = stet_read_at_(engine, engine->root, stet_read_serial_(engine), key, ret);
	if (!rc && ret->serial > txn->read_max)
		txn->read_max = ret->serial;
	return rc;
}

static int read_under_intent(struct stet_txn *txn, const struct stet_key *key, struct stet_val *ret)
{
	int rc = stet_set_run_get_(txn, key, ret);

	if (rc == -ENOENT)
		return read_below(txn, key, ret);
	return rc == 1 ? -ENOENT : rc;
}

int stet_txn_get(struct stet_txn *txn, const struct stet_key *key, struct stet_val *ret)
{
	const struct stet_version *v = stet_set_find_(txn, key->b, key->bytes);
	struct stet_val base;

	if (txn->doomed)
		return txn->doomed;
	if (!v)
		return read_under_intent(txn, key, ret);
	if (v->kind == STET_V_DEL)
		return -ENOENT;
	if (v->kind == STET_V_SAME)
		return read_below(txn, key, ret);
	if (v->kind != STET_V_INTENT) {
		stet_version_val_(v, ret);
		return 0;
	}
	int rc = read_under_intent(txn, key, &base);
	if (rc && rc != -ENOENT)
		return rc;
	return txn->engine->hooks.merge(txn->engine->hooks.arg, key, rc ? NULL : &base, v->b,
					v->bytes, NULL, ret);
}

/* --- giving up --- */

/* What nobody else has can be deleted: that is final, and may go into the run. Not so an extent: when what
 * lies before it is placed, it may be split there. */
static int hide_key(struct stet_txn *txn, const struct stet_key *key)
{
	struct stet_version *v;
	struct stet_val val;
	int rc = read_below(txn, key, &val);

	if (rc == -ENOENT && stet_key_get_kind(key->b) != STET_KIND_EXTENT)
		return stet_txn_del(txn, key);
	if (!rc || rc == -ENOENT)
		rc = stet_version_bytes_(STET_V_SAME, NULL, 0, 0, &v);
	return rc ? rc : stet_set_put_(txn, key, v);
}

/* X3 */
static int hide_in_run(struct stet_txn *txn, stet_txn_key_fn *fn, void *arg)
{
	struct stet_root root = { txn->run.root, txn->run.root_level };
	struct stet_tree_cursor cur;
	int rc;

	stet_tree_cursor_init(&cur, txn->engine->cache, STET_TREE_RUN, &root);
	rc = stet_tree_cursor_seek(&cur, "", 0);
	while (!rc && cur.valid) {
		struct stet_key key = { .bytes = cur.key.bytes };

		memcpy(key.b, cur.key.b, cur.key.bytes);
		if (fn(arg, &key))
			rc = hide_key(txn, &key);
		if (!rc)
			rc = stet_tree_cursor_next(&cur);
	}
	stet_tree_cursor_release(&cur);
	return rc;
}

int stet_txn_give_up(struct stet_txn *txn, stet_txn_key_fn *fn, void *arg)
{
	struct stet_skipnode *node = stet_skiplist_first(&txn->set);
	int rc = writable(txn);

	STET_ASSERT(!txn->spilling && txn->level != STET_LEVEL_PLAIN);
	if (rc)
		return rc;
	while (node) {
		struct stet_skipnode *next = stet_skiplist_next(node);
		struct stet_key key = { .bytes = node->key_len };

		memcpy(key.b, stet_skipnode_key(node), node->key_len);
		if (fn(arg, &key))
			remove_entry(txn, node);
		node = next;
	}
	rc = txn->have_run ? hide_in_run(txn, fn, arg) : 0;
	if (rc)
		stet_txn_doom(txn, rc);
	return rc;
}
