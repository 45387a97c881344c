/* merge.c - one ordered stream out of write-set, runs, delta and tree.
 *
 * M1. Sources by precedence: the transaction's own entries, its own run, then whichever of delta and
 *     committed runs has the higher serial (the delta on a tie), then what lies over the tree, then the tree.
 * M2. A merge stays valid while keys come and go: a source whose structure changed is sought again
 *     behind the last key returned.
 * M3. An INTENT among the own entries is merged with what lies below it; SAME is what lies below the own run.
 * M4. Keys of the delta that hold nothing for this point are passed no further than the next key of another
 *     source, or the end of the range: there may be very many, and each call begins anew behind the last.
 * M5. A merge for reading jumps over gaps (gap.c): over those of the engine with all sources but the transaction's
 *     own, over the transaction's with all; and notes as a gap what it has passed.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

static int merge_init(struct stet_merge *m, struct stet_engine *engine, struct stet_txn *txn,
		      struct stet_rootref *root, uint64_t serial)
{
	memset(m, 0, sizeof(*m));
	m->engine = engine;
	m->txn = txn;
	m->root = root;
	m->serial = serial;
	root->refs++;
	stet_vec_init(&m->runs);
	return 0;
}

static int add_run(struct stet_merge *m, struct stet_runref *ref, const struct stet_run *run)
{
	struct stet_root root = { run->root, run->root_level };
	struct stet_merge_run r = { .ref = ref, .run = *run };
	int rc = stet_vec_push(&m->runs, r);

	if (rc)
		return rc;
	if (ref)
		ref->refs++;
	stet_tree_cursor_init(&m->runs.v[m->runs.n - 1].cur, m->engine->cache, STET_TREE_RUN,
			      &root);
	return 0;
}

static int add_runs(struct stet_merge *m)
{
	int rc = 0;

	if (m->txn && m->txn->have_run)
		rc = add_run(m, NULL, &m->txn->run);
	if (m->own_only)
		return rc;
	for (struct stet_list *pos = m->engine->runs.prev; pos != &m->engine->runs && !rc;
	     pos = pos->prev) {
		struct stet_runref *ref = stet_container_of(pos, struct stet_runref, link);

		if (ref->run.serial <= m->serial && ref->run.serial > m->root->cut)
			rc = add_run(m, ref, &ref->run);
	}
	/* Nothing newer can be visible with it: its root's cut is the serial that is read at. */
	if (!rc && m->root->over)
		rc = add_run(m, NULL, stet_overlay_run_(m->root->over));
	return rc;
}

static int merge_start(struct stet_merge *m)
{
	int rc = add_runs(m);

	if (rc)
		stet_merge_close_(m);
	return rc;
}

int stet_merge_open_(struct stet_merge *m, struct stet_engine *engine, struct stet_txn *txn,
		     struct stet_rootref *root, uint64_t serial, const struct stet_key *from,
		     const struct stet_key *to)
{
	stet_ignore(merge_init(m, engine, txn, root, serial), "cannot fail");
	m->with_tree = true;
	stet_key_copy(&m->from, from);
	stet_key_copy(&m->to, to);
	return merge_start(m);
}

int stet_merge_open_changes_(struct stet_merge *m, struct stet_engine *engine,
			     struct stet_rootref *root, uint64_t serial)
{
	stet_ignore(merge_init(m, engine, NULL, root, serial), "cannot fail");
	return merge_start(m);
}

int stet_merge_open_own_(struct stet_merge *m, struct stet_txn *txn)
{
	stet_ignore(merge_init(m, txn->engine, txn, txn->engine->root, 0), "cannot fail");
	m->own_only = true;
	return merge_start(m);
}

void stet_merge_close_(struct stet_merge *m)
{
	for (size_t i = 0; i < m->runs.n; i++) {
		stet_tree_cursor_release(&m->runs.v[i].cur);
		if (m->runs.v[i].ref)
			stet_runref_put_(m->engine, m->runs.v[i].ref);
	}
	stet_vec_release(&m->runs);
	if (m->tree_open)
		stet_tree_cursor_release(&m->tree);
	m->tree_open = false;
	if (m->root)
		stet_rootref_put_(m->engine, m->root);
	m->root = NULL;
}

/* The first node of a list behind the last key returned (or at the start of the range). */
static struct stet_skipnode *behind(const struct stet_merge *m, const struct stet_skiplist *sl)
{
	const struct stet_key *at = m->started ? &m->last : &m->from;
	struct stet_skipnode *node = stet_skiplist_lower_bound(sl, at->b, at->bytes);

	if (node && m->started &&
	    stet_key_cmp(stet_skipnode_key(node), node->key_len, at->b, at->bytes) == 0)
		node = stet_skiplist_next(node);
	return node;
}

static int seek_cursors(struct stet_merge *m)
{
	int rc = 0;

	if (m->with_tree) {
		stet_tree_cursor_init(&m->tree, m->engine->cache, STET_TREE_CATALOG,
				      &m->root->root);
		m->tree_open = true;
		rc = stet_tree_cursor_seek(&m->tree, m->from.b, m->from.bytes);
	}
	for (size_t i = 0; i < m->runs.n && !rc; i++)
		rc = stet_tree_cursor_seek(&m->runs.v[i].cur, m->from.b, m->from.bytes);
	return rc;
}

static int refresh(struct stet_merge *m)
{
	int rc = 0;

	if (!m->started)
		rc = seek_cursors(m);
	if (m->txn && (!m->started || m->own_changes != m->txn->set_changes)) {
		m->own = behind(m, &m->txn->set);
		m->own_changes = m->txn->set_changes;
	}
	if (!m->own_only && (!m->started || m->delta_changes != m->engine->delta_changes)) {
		m->delta = behind(m, &m->engine->delta);
		m->delta_changes = m->engine->delta_changes;
	}
	return rc;
}

struct pick {
	const uint8_t *key;
	size_t bytes;
};

static void lower(struct pick *p, const uint8_t *key, size_t bytes)
{
	if (!p->key || stet_key_cmp(key, bytes, p->key, p->bytes) < 0) {
		p->key = key;
		p->bytes = bytes;
	}
}

/* M4 */
static void skip_invisible(struct stet_merge *m, const struct pick *limit)
{
	struct stet_skipnode *node = m->delta;

	while (node && !stet_delta_find_(node->value, m->root->cut, m->serial) &&
	       (!limit->key || stet_key_cmp(stet_skipnode_key(node), node->key_len, limit->key,
					    limit->bytes) < 0)) {
		stet_passed_key_(&m->passed, node->value, m->serial);
		node = stet_skiplist_next(node);
		m->engine->stats.invisible++;
	}
	m->delta = node;
}

/* The lowest key of all sources. */
static bool lowest(struct stet_merge *m, struct stet_key *ret)
{
	struct pick p = { NULL, 0 };

	if (m->own)
		lower(&p, stet_skipnode_key(m->own), m->own->key_len);
	for (size_t i = 0; i < m->runs.n; i++) {
		const struct stet_tree_cursor *cur = &m->runs.v[i].cur;

		if (cur->valid)
			lower(&p, cur->key.b, cur->key.bytes);
	}
	if (m->tree_open && m->tree.valid)
		lower(&p, m->tree.key.b, m->tree.key.bytes);
	if (m->delta) {
		const struct pick end = { m->to.b, m->to.bytes };

		skip_invisible(m, p.key ? &p : m->to.bytes ? &end : &p);
	}
	if (m->delta)
		lower(&p, stet_skipnode_key(m->delta), m->delta->key_len);
	if (!p.key || (m->to.bytes && stet_key_cmp(p.key, p.bytes, m->to.b, m->to.bytes) >= 0))
		return false;
	memcpy(ret->b, p.key, p.bytes);
	ret->bytes = (uint16_t)p.bytes;
	return true;
}

static bool at_node(const struct stet_skipnode *node, const struct stet_key *key)
{
	return node && node->key_len == key->bytes &&
	       memcmp(stet_skipnode_key(node), key->b, key->bytes) == 0;
}

static bool at_cursor(const struct stet_tree_cursor *cur, const struct stet_key *key)
{
	return cur->valid && cur->key.bytes == key->bytes &&
	       memcmp(cur->key.b, key->b, key->bytes) == 0;
}

static int take_run(struct stet_merge *m, const struct stet_merge_run *r,
		    const struct stet_key *key, struct stet_val *val)
{
	if (r->cur.item.tombstone)
		return 1;
	stet_item_val_(&r->cur.item, val);
	if (r->ref)
		stet_run_resolve_(m->engine, &r->run, key->b, key->bytes, val);
	return 0;
}

/* The value below the transaction's own entries: 0, 1 = gone, -ENOENT = not there at all. */
static int value_below(struct stet_merge *m, const struct stet_key *key, bool own_run,
		       struct stet_val *val)
{
	size_t first = !own_run && m->txn && m->txn->have_run ? 1 : 0;
	struct stet_version *v = NULL;

	if (at_node(m->delta, key))
		v = stet_delta_find_(m->delta->value, m->root->cut, m->serial);
	for (size_t i = first; i < m->runs.n; i++) {
		const struct stet_merge_run *r = &m->runs.v[i];

		if (at_cursor(&r->cur, key) && (!r->ref || !v || r->run.serial > v->serial))
			return take_run(m, r, key, val);
	}
	if (v) {
		if (v->kind == STET_V_DEL)
			return 1;
		stet_version_val_(v, val);
		return 0;
	}
	if (m->tree_open && at_cursor(&m->tree, key)) {
		stet_item_val_(&m->tree.item, val);
		return 0;
	}
	return -ENOENT;
}

static int merge_intent(struct stet_merge *m, const struct stet_key *key,
			const struct stet_version *v, int below, struct stet_val *val)
{
	struct stet_val base = *val;

	return m->engine->hooks.merge(m->engine->hooks.arg, key, below == 0 ? &base : NULL, v->b,
				      v->bytes, NULL, val);
}

static int value_at(struct stet_merge *m, const struct stet_key *key, struct stet_val *val)
{
	if (!at_node(m->own, key))
		return value_below(m, key, true, val);
	const struct stet_version *v = m->own->value;
	if (v->kind == STET_V_DEL)
		return 1;
	if (stet_version_is_final_(v)) {
		stet_version_val_(v, val);
		return 0;
	}
	if (m->own_only)
		return 0; /* the key is what counts: what becomes of it is read with it */
	int below = value_below(m, key, v->kind != STET_V_SAME, val);
	if (v->kind == STET_V_SAME || (below < 0 && below != -ENOENT))
		return below;
	return merge_intent(m, key, v, below, val);
}

static int advance(struct stet_merge *m, const struct stet_key *key)
{
	int rc = 0;

	if (at_node(m->own, key))
		m->own = stet_skiplist_next(m->own);
	if (at_node(m->delta, key))
		m->delta = stet_skiplist_next(m->delta);
	for (size_t i = 0; i < m->runs.n && !rc; i++)
		if (at_cursor(&m->runs.v[i].cur, key))
			rc = stet_tree_cursor_next(&m->runs.v[i].cur);
	if (!rc && m->tree_open && at_cursor(&m->tree, key))
		rc = stet_tree_cursor_next(&m->tree);
	stet_key_copy(&m->last, key);
	m->started = true;
	return rc;
}

/* --- gaps (M5) --- */

static bool uses_gaps(const struct stet_merge *m)
{
	return m->with_tree && (m->engine->gaps.n > 0 || (m->txn && m->txn->gaps.n > 0));
}

/* Where the next key is looked for; false: no key says it. */
static bool position(const struct stet_merge *m, struct stet_key *ret)
{
	stet_key_copy(ret, m->started ? &m->last : &m->from);
	return m->started ? stet_key_step(ret) : ret->bytes > 0;
}

static int seek_forward(struct stet_tree_cursor *cur, const struct stet_key *to)
{
	if (!cur->valid || stet_key_cmp(cur->key.b, cur->key.bytes, to->b, to->bytes) >= 0)
		return 0;
	return stet_tree_cursor_seek(cur, to->b, to->bytes);
}

static struct stet_skipnode *node_forward(const struct stet_skiplist *sl,
					  struct stet_skipnode *node, const struct stet_key *to)
{
	if (!node || stet_key_cmp(stet_skipnode_key(node), node->key_len, to->b, to->bytes) >= 0)
		return node;
	return stet_skiplist_lower_bound(sl, to->b, to->bytes);
}

static int jump(struct stet_merge *m, const struct stet_key *to, bool own)
{
	size_t first = !own && m->txn && m->txn->have_run ? 1 : 0;
	int rc = m->tree_open ? seek_forward(&m->tree, to) : 0;

	m->delta = node_forward(&m->engine->delta, m->delta, to);
	for (size_t i = first; i < m->runs.n && !rc; i++)
		rc = seek_forward(&m->runs.v[i].cur, to);
	if (own)
		m->own = node_forward(&m->txn->set, m->own, to);
	return rc;
}

/* What is passed begins here, if nothing was passed before. */
static void begin_passing(struct stet_merge *m)
{
	if (m->passed.keys == 0 && !position(m, &m->passed.from))
		m->passed.from.bytes = 0; /* is not noted */
}

static int jump_gaps(struct stet_merge *m)
{
	struct stet_key at, to;
	int rc = 0;

	if (!uses_gaps(m) || !position(m, &at))
		return 0;
	if (stet_gap_behind_(&m->engine->gaps, &at, m->serial, &to)) {
		begin_passing(m);
		stet_passed_gap_(&m->passed, false);
		rc = jump(m, &to, false);
	}
	while (!rc && stet_gaps_own_(m->txn) && stet_gap_behind_(&m->txn->gaps, &at, 0, &to)) {
		begin_passing(m);
		stet_passed_gap_(&m->passed, true);
		rc = jump(m, &to, true);
		stet_key_copy(&at, &to);
	}
	return rc;
}

/* The key is not there. */
static void pass(struct stet_merge *m, const struct stet_key *key)
{
	bool own = at_node(m->own, key) ||
		   (m->txn && m->txn->have_run && at_cursor(&m->runs.v[0].cur, key));

	begin_passing(m);
	m->passed.keys++;
	m->passed.unsure = m->passed.unsure || own;
	stet_passed_key_(&m->passed, at_node(m->delta, key) ? m->delta->value : NULL, m->serial);
	m->engine->stats.passed++;
}

static void end_passing(struct stet_merge *m, const struct stet_key *to)
{
	stet_passed_note_(&m->passed, m->engine, m->txn, m->serial, &m->passed.from, to);
}

static int next(struct stet_merge *m, struct stet_key *ret_key, struct stet_val *ret_val,
		bool *ret_gone)
{
	for (;;) {
		int rc = refresh(m);

		if (!rc)
			rc = jump_gaps(m);
		if (rc)
			return rc;
		if (!lowest(m, ret_key)) {
			end_passing(m, &m->to);
			return 0;
		}
		int found = value_at(m, ret_key, ret_val);
		if (found < 0 && found != -ENOENT)
			return found;
		if (found == 0 || (found == 1 && !m->with_tree)) {
			end_passing(m, ret_key);
			if (ret_gone)
				*ret_gone = found == 1;
			rc = advance(m, ret_key);
			return rc ? rc : 1;
		}
		if (m->with_tree)
			pass(m, ret_key);
		rc = advance(m, ret_key);
		if (rc)
			return rc;
	}
}

int stet_merge_next_(struct stet_merge *m, struct stet_key *ret_key, struct stet_val *ret_val,
		     bool *ret_gone)
{
	m->passed.keys = 0;
	m->passed.unsure = false;
	m->passed.serial = 0;
	return next(m, ret_key, ret_val, ret_gone);
}

/* --- the scan that fs/ uses --- */
struct stet_scan {
	struct stet_merge m;
	struct stet_view *view; /* of its own, for PLAIN */
	struct stet_view
		*at; /* that, or the transaction's: it stays as it is while the scan is open */
	struct stet_txn *txn;
};

int stet_scan_open(struct stet_txn *txn, const struct stet_key *from, const struct stet_key *to,
		   struct stet_scan **ret)
{
	struct stet_scan *scan = stet_calloc(1, sizeof(*scan));
	struct stet_view *view = txn->view;
	int rc = 0;

	if (!scan)
		return STET_FAIL(-ENOMEM, "no memory for a scan");
	scan->txn = txn;
	if (!view || txn->ordering || txn->level == STET_LEVEL_LOCKING) {
		rc = stet_view_open(txn->engine, &scan->view);
		view = scan->view;
	}
	if (!rc)
		rc = stet_merge_open_(&scan->m, txn->engine, txn, view->root, view->serial, from,
				      to);
	if (rc) {
		stet_view_close(scan->view);
		stet_free(scan);
		return rc;
	}
	scan->at = view;
	view->scans++;
	*ret = scan;
	return 0;
}

int stet_scan_next(struct stet_scan *scan, struct stet_key *ret_key, struct stet_val *ret_val)
{
	int rc = scan->txn->doomed ? scan->txn->doomed
				   : stet_merge_next_(&scan->m, ret_key, ret_val, NULL);

	if (rc == 1 && ret_val->serial > scan->txn->read_max)
		scan->txn->read_max = ret_val->serial;
	return rc;
}

void stet_scan_close(struct stet_scan *scan)
{
	if (!scan)
		return;
	stet_merge_close_(&scan->m);
	scan->at->scans--;
	stet_view_close(scan->view);
	stet_free(scan);
}
