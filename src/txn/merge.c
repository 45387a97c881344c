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
 * M6. A scan may go backwards: from the end of its range to the beginning. Each source then stands at its last key
 *     below the last one returned; all else is the same.
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

/* --- the direction (M6) --- */

static const struct stet_key *start_of(const struct stet_merge *m)
{
	return m->reverse ? &m->to : &m->from;
}

static bool is_before(const struct stet_merge *m, const uint8_t *a, size_t a_bytes,
		      const uint8_t *b, size_t b_bytes)
{
	int order = stet_key_cmp(a, a_bytes, b, b_bytes);

	return m->reverse ? order > 0 : order < 0;
}

static bool is_past_end(const struct stet_merge *m, const uint8_t *key, size_t bytes)
{
	if (m->reverse)
		return stet_key_cmp(key, bytes, m->from.b, m->from.bytes) < 0;
	return m->to.bytes && stet_key_cmp(key, bytes, m->to.b, m->to.bytes) >= 0;
}

/* Whether a source that goes on at `at` has this key still before it. */
static bool is_reached_from(const struct stet_merge *m, const struct stet_key *at,
			    const uint8_t *key, size_t bytes)
{
	int order = stet_key_cmp(key, bytes, at->b, at->bytes);

	return m->reverse ? order < 0 : order >= 0;
}

static struct stet_skipnode *seek_node(const struct stet_merge *m, const struct stet_skiplist *sl,
				       const struct stet_key *at, struct stet_skippath *path)
{
	if (m->reverse)
		return stet_skiplist_seek_below(sl, at->b, at->bytes, path);
	return stet_skiplist_lower_bound(sl, at->b, at->bytes);
}

static struct stet_skipnode *step_node(const struct stet_merge *m, const struct stet_skiplist *sl,
				       const struct stet_skipnode *node, struct stet_skippath *path)
{
	return m->reverse ? stet_skiplist_prev(sl, path) : stet_skiplist_next(node);
}

static int seek_cursor(const struct stet_merge *m, struct stet_tree_cursor *cur,
		       const struct stet_key *at)
{
	return m->reverse ? stet_tree_cursor_below(cur, at->b, at->bytes)
			  : stet_tree_cursor_seek(cur, at->b, at->bytes);
}

static int step_cursor(const struct stet_merge *m, struct stet_tree_cursor *cur)
{
	return m->reverse ? stet_tree_cursor_prev(cur) : stet_tree_cursor_next(cur);
}

/* --- the sources --- */

/* The first node of a list behind the last key returned (or at the start of the range). */
static struct stet_skipnode *behind(const struct stet_merge *m, const struct stet_skiplist *sl,
				    struct stet_skippath *path)
{
	const struct stet_key *at = m->started ? &m->last : start_of(m);
	struct stet_skipnode *node = seek_node(m, sl, at, path);

	if (node && m->started &&
	    stet_key_cmp(stet_skipnode_key(node), node->key_len, at->b, at->bytes) == 0)
		node = step_node(m, sl, node, path);
	return node;
}

static int seek_cursors(struct stet_merge *m)
{
	int rc = 0;

	if (m->with_tree) {
		stet_tree_cursor_init(&m->tree, m->engine->cache, STET_TREE_CATALOG,
				      &m->root->root);
		m->tree_open = true;
		rc = seek_cursor(m, &m->tree, start_of(m));
	}
	for (size_t i = 0; i < m->runs.n && !rc; i++)
		rc = seek_cursor(m, &m->runs.v[i].cur, start_of(m));
	return rc;
}

static int refresh(struct stet_merge *m)
{
	int rc = 0;

	if (!m->started)
		rc = seek_cursors(m);
	if (m->txn && (!m->started || m->own_changes != m->txn->set_changes)) {
		m->own = behind(m, &m->txn->set, &m->own_path);
		m->own_changes = m->txn->set_changes;
	}
	if (!m->own_only && (!m->started || m->delta_changes != m->engine->delta_changes)) {
		m->delta = behind(m, &m->engine->delta, &m->delta_path);
		m->delta_changes = m->engine->delta_changes;
	}
	return rc;
}

struct pick {
	const uint8_t *key;
	size_t bytes;
};

static void offer(const struct stet_merge *m, struct pick *p, const uint8_t *key, size_t bytes)
{
	if (!p->key || is_before(m, key, bytes, p->key, p->bytes)) {
		p->key = key;
		p->bytes = bytes;
	}
}

/* M4 */
static void skip_invisible(struct stet_merge *m, const struct pick *limit)
{
	struct stet_skipnode *node = m->delta;

	while (node && !stet_delta_find_(node->value, m->root->cut, m->serial) &&
	       !is_past_end(m, stet_skipnode_key(node), node->key_len) &&
	       (!limit->key ||
		is_before(m, stet_skipnode_key(node), node->key_len, limit->key, limit->bytes))) {
		stet_passed_key_(&m->passed, node->value, m->serial);
		node = step_node(m, &m->engine->delta, node, &m->delta_path);
		m->engine->stats.invisible++;
	}
	m->delta = node;
}

/* The first key of all sources. */
static bool first_key(struct stet_merge *m, struct stet_key *ret)
{
	struct pick p = { NULL, 0 };

	if (m->own)
		offer(m, &p, stet_skipnode_key(m->own), m->own->key_len);
	for (size_t i = 0; i < m->runs.n; i++) {
		const struct stet_tree_cursor *cur = &m->runs.v[i].cur;

		if (cur->valid)
			offer(m, &p, cur->key.b, cur->key.bytes);
	}
	if (m->tree_open && m->tree.valid)
		offer(m, &p, m->tree.key.b, m->tree.key.bytes);
	skip_invisible(m, &p);
	if (m->delta)
		offer(m, &p, stet_skipnode_key(m->delta), m->delta->key_len);
	if (!p.key || is_past_end(m, p.key, p.bytes))
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
		m->own = step_node(m, &m->txn->set, m->own, &m->own_path);
	if (at_node(m->delta, key))
		m->delta = step_node(m, &m->engine->delta, m->delta, &m->delta_path);
	for (size_t i = 0; i < m->runs.n && !rc; i++)
		if (at_cursor(&m->runs.v[i].cur, key))
			rc = step_cursor(m, &m->runs.v[i].cur);
	if (!rc && m->tree_open && at_cursor(&m->tree, key))
		rc = step_cursor(m, &m->tree);
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
	stet_key_copy(ret, m->started ? &m->last : start_of(m));
	return m->started && !m->reverse ? stet_key_step(ret) : ret->bytes > 0;
}

static int jump_cursor(const struct stet_merge *m, struct stet_tree_cursor *cur,
		       const struct stet_key *to)
{
	if (!cur->valid || is_reached_from(m, to, cur->key.b, cur->key.bytes))
		return 0;
	return seek_cursor(m, cur, to);
}

static struct stet_skipnode *jump_node(const struct stet_merge *m, const struct stet_skiplist *sl,
				       struct stet_skipnode *node, struct stet_skippath *path,
				       const struct stet_key *to)
{
	if (!node || is_reached_from(m, to, stet_skipnode_key(node), node->key_len))
		return node;
	return seek_node(m, sl, to, path);
}

static int jump(struct stet_merge *m, const struct stet_key *to, bool own)
{
	size_t first = !own && m->txn && m->txn->have_run ? 1 : 0;
	int rc = m->tree_open ? jump_cursor(m, &m->tree, to) : 0;

	m->delta = jump_node(m, &m->engine->delta, m->delta, &m->delta_path, to);
	for (size_t i = first; i < m->runs.n && !rc; i++)
		rc = jump_cursor(m, &m->runs.v[i].cur, to);
	if (own)
		m->own = jump_node(m, &m->txn->set, m->own, &m->own_path, to);
	return rc;
}

/* What is passed begins here, if nothing was passed before. */
static void begin_passing(struct stet_merge *m)
{
	if (m->passed.keys == 0 && !position(m, &m->passed.from))
		m->passed.from.bytes = 0; /* is not noted */
}

static bool find_gap(const struct stet_merge *m, const struct stet_gaps *gaps,
		     const struct stet_key *at, uint64_t serial, struct stet_key *ret_to)
{
	return m->reverse ? stet_gap_before_(gaps, at, serial, ret_to)
			  : stet_gap_behind_(gaps, at, serial, ret_to);
}

static int jump_gaps(struct stet_merge *m)
{
	struct stet_key at, to;
	int rc = 0;

	if (!uses_gaps(m) || !position(m, &at))
		return 0;
	if (find_gap(m, &m->engine->gaps, &at, m->serial, &to)) {
		begin_passing(m);
		stet_passed_gap_(&m->passed, false);
		rc = jump(m, &to, false);
	}
	while (!rc && stet_gaps_own_(m->txn) && find_gap(m, &m->txn->gaps, &at, 0, &to)) {
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

/* What was passed ends before this key, or (NULL) with the range. */
static void end_passing(const struct stet_merge *m, const struct stet_key *at)
{
	const struct stet_key *end = at ? at : m->reverse ? &m->from : &m->to;
	struct stet_key low;

	if (m->passed.keys == 0)
		return;
	if (!m->reverse) {
		stet_passed_note_(&m->passed, m->engine, m->txn, m->serial, &m->passed.from, end);
		return;
	}
	stet_key_copy(&low, end);
	if (at && !stet_key_step(&low))
		return;
	stet_passed_note_(&m->passed, m->engine, m->txn, m->serial, &low, &m->passed.from);
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
		if (!first_key(m, ret_key)) {
			end_passing(m, NULL);
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

int stet_scan_open_reverse(struct stet_txn *txn, const struct stet_key *from,
			   const struct stet_key *to, struct stet_scan **ret)
{
	int rc;

	STET_ASSERT_CMP(to->bytes, >, 0);
	rc = stet_scan_open(txn, from, to, ret);
	if (!rc)
		(*ret)->m.reverse = true; /* nothing was sought yet */
	return rc;
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
