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
 * X6. An entry that is replaced may be needed by a savepoint, which then takes it over (B1 of save.c).
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

void stet_set_account_(struct stet_txn *txn, const struct stet_version *v, bool add)
{
	uint64_t bytes = stet_version_memory_(v);
	uint64_t data = unplaced_bytes(v);
	uint64_t final = stet_version_is_final_(v) ? bytes + NODE_BYTES : 0;
	uint64_t blocks = v->kind == STET_V_BUF ? v->count : 0;

	txn->final_bytes = add ? txn->final_bytes + final : txn->final_bytes - final;
	txn->set_bytes = add ? txn->set_bytes + bytes : txn->set_bytes - bytes;
	stet_cache_charge(txn->engine->cache, add ? (int64_t)bytes : -(int64_t)bytes);
	txn->set_blocks = add ? txn->set_blocks + blocks : txn->set_blocks - blocks;
	if (add)
		txn->buf_bytes += data;
	else
		txn->buf_bytes -= data < txn->buf_bytes ? data : txn->buf_bytes;
}

/* What was never published nobody can need. */
static void put_buf(struct stet_txn *txn, struct stet_version *v)
{
	bool ours = v->birth == 0 && txn->level != STET_LEVEL_PLAIN;

	stet_buf_put_at_(txn->engine, v->buf, ours ? 0 : txn->engine->serial);
}

void stet_set_drop_version_(struct stet_txn *txn, struct stet_version *v)
{
	stet_set_account_(txn, v, false);
	if (v->buf)
		put_buf(txn, v);
	v->buf = NULL;
	stet_version_free_(v);
}

struct stet_version *stet_set_find_(struct stet_txn *txn, const void *key, size_t key_bytes)
{
	struct stet_skipnode *node = stet_skiplist_find(&txn->set, key, key_bytes);

	return node ? node->value : NULL;
}

static void count_nodes(struct stet_txn *txn, size_t before)
{
	int64_t grown = (int64_t)stet_skiplist_bytes(&txn->set) - (int64_t)before;

	txn->set_bytes += (uint64_t)grown;
	stet_cache_charge(txn->engine->cache, grown);
}

/* The node of a key, made if there is none. */
static int node_of(struct stet_txn *txn, const struct stet_key *key, struct stet_skipnode **ret)
{
	size_t before = stet_skiplist_bytes(&txn->set);
	int rc = stet_skiplist_insert(&txn->set, key->b, key->bytes, ret);

	if (rc == -EEXIST)
		return 0;
	if (rc)
		return rc;
	txn->set_changes++;
	count_nodes(txn, before);
	if (txn->crowd)
		stet_crowd_note_(txn, key);
	return 0;
}

static void drop_node(struct stet_txn *txn, struct stet_skipnode *node)
{
	size_t before = stet_skiplist_bytes(&txn->set);

	stet_skiplist_remove(&txn->set, node);
	txn->set_changes++;
	count_nodes(txn, before);
}

int stet_set_put_(struct stet_txn *txn, const struct stet_key *key, struct stet_version *v)
{
	struct stet_skipnode *node;
	bool kept = false;
	int rc = node_of(txn, key, &node);

	if (!rc) {
		rc = stet_save_note_(txn, key, node->value, v, &kept);
		if (rc && !node->value)
			drop_node(txn, node);
	}
	if (rc) {
		if (v->buf)
			stet_buf_put_(txn->engine, v->buf);
		v->buf = NULL;
		stet_version_free_(v);
		return rc;
	}
	if (node->value && !kept)
		stet_set_drop_version_(txn, node->value);
	node->value = v;
	txn->prepared = false;
	if (v->kind != STET_V_DEL && txn->gaps.n > 0)
		stet_gap_break_(&txn->gaps, key);
	stet_set_account_(txn, v, true);
	if (txn->told)
		txn->told(txn->told_arg, key);
	return 0;
}

void stet_txn_tell_puts(struct stet_txn *txn, stet_txn_put_fn *fn, void *arg)
{
	txn->told = fn;
	txn->told_arg = arg;
}

/* Takes an entry out of the set. */
static void remove_entry(struct stet_txn *txn, struct stet_skipnode *node)
{
	stet_set_drop_version_(txn, node->value);
	drop_node(txn, node);
}

int stet_set_restore_(struct stet_txn *txn, const struct stet_key *key, struct stet_version *old)
{
	struct stet_skipnode *node;
	int rc;

	if (!old) {
		node = stet_skiplist_find(&txn->set, key->b, key->bytes);
		if (node)
			remove_entry(txn, node);
		return 0;
	}
	rc = node_of(txn, key, &node);
	if (rc)
		return rc;
	if (node->value)
		stet_set_drop_version_(txn, node->value);
	node->value = old;
	return 0;
}

void stet_set_drop_finals_(struct stet_txn *txn)
{
	struct stet_skipnode *node = stet_skiplist_first(&txn->set);

	while (node) {
		struct stet_skipnode *next = stet_skiplist_next(node);

		if (stet_version_is_final_(node->value))
			remove_entry(txn, node);
		node = next;
	}
}

static void free_entry(void *arg, struct stet_skipnode *node)
{
	stet_set_drop_version_(arg, node->value);
}

void stet_set_clear_(struct stet_txn *txn)
{
	stet_skiplist_release(&txn->set, free_entry, txn);
	stet_skiplist_init(&txn->set, stet_engine_random(txn->engine), 0);
	stet_cache_charge(txn->engine->cache, -(int64_t)txn->set_bytes);
	txn->set_bytes = 0;
	txn->final_bytes = 0;
	txn->buf_bytes = 0;
	STET_DEBUG_ASSERT(txn->set_blocks == 0);
	txn->set_changes++;
}

void stet_set_rooted_(struct stet_txn *txn)
{
	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node;
	     node = stet_skiplist_next(node)) {
		struct stet_version *v = node->value;

		/* What was there before the transaction is somebody else's. */
		if (!v->spilling || !v->buf || v->birth != 0)
			continue;
		for (uint32_t i = v->from; i < (uint32_t)v->from + v->count; i++)
			v->buf->rooted |= UINT64_C(1) << i;
	}
}

/* A key of the run that was given up has been given a piece of an entry: savepoints must know it. */
static void note_same(struct stet_txn *txn, struct stet_skipnode *node)
{
	struct stet_key key = { .bytes = node->key_len };
	struct stet_version none = { .kind = STET_V_DEL };
	struct stet_version *old = node->value;
	bool kept;

	memcpy(key.b, stet_skipnode_key(node), node->key_len);
	old->spilling = false;
	int rc = stet_save_note_(txn, &key, old, &none, &kept);
	if (rc)
		stet_txn_doom(txn, rc);
	if (rc || !kept)
		stet_set_drop_version_(txn, old);
}

void stet_set_spilled_(struct stet_txn *txn)
{
	struct stet_skipnode *node = stet_skiplist_first(&txn->set);

	stet_gaps_forget_(txn); /* what was split where a segment ended has more keys now */
	while (node) {
		struct stet_skipnode *next = stet_skiplist_next(node);
		struct stet_version *v = node->value;

		if (v->spilling && v->kind == STET_V_SAME) {
			note_same(txn, node);
			drop_node(txn, node);
		} else if (v->spilling) {
			remove_entry(txn, node);
		}
		node = next;
	}
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
	if (stet_save_needs_(txn, v)) /* B2 of save.c */
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
/* That a key is absent raises read_max by nothing: what takes a key away changes its inode as well, and whoever says that
 * it is absent has read that. Scans rely on the same. */
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
	stet_save_release_all_(txn);
	stet_gaps_forget_(txn);
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
