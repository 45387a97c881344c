/* last.c - the last key below another: reading backwards, one key at a time.
 *
 * L1. Every source that merge.c reads is asked for its last key below; the highest of them is looked up as any
 *     key is (read.c). If it turns out to be gone, the next one is looked for below it.
 * L2. Keys of the delta that hold nothing for this point are passed no further than the best of the others.
 * L3. Gaps (gap.c) are jumped over, and noted, as merge.c does (M5).
 */
#include "txn/txn_internal.h"

struct search {
	struct stet_txn *txn;
	const struct stet_rootref *root;
	uint64_t serial;
	const struct stet_key *from;
	struct stet_key before;    /* for what the transaction has of its own */
	struct stet_key committed; /* for all others: that, or below a gap */
	struct stet_key best;      /* bytes 0: none yet */
	struct stet_passed passed;
};

static bool is_better(const struct search *s, const uint8_t *key, size_t bytes)
{
	if (stet_key_cmp(key, bytes, s->from->b, s->from->bytes) < 0)
		return false;
	return s->best.bytes == 0 || stet_key_cmp(key, bytes, s->best.b, s->best.bytes) > 0;
}

static void offer(struct search *s, const uint8_t *key, size_t bytes)
{
	if (!is_better(s, key, bytes))
		return;
	memcpy(s->best.b, key, bytes);
	s->best.bytes = (uint16_t)bytes;
}

static int ask_tree(struct search *s, uint32_t kind, const struct stet_root *root,
		    const struct stet_key *before)
{
	struct stet_tree_cursor cur;
	int rc;

	stet_tree_cursor_init(&cur, s->txn->engine->cache, kind, root);
	rc = stet_tree_cursor_below(&cur, before->b, before->bytes);
	if (!rc && cur.valid)
		offer(s, cur.key.b, cur.key.bytes);
	stet_tree_cursor_release(&cur);
	return rc;
}

static int ask_run(struct search *s, const struct stet_run *run, const struct stet_key *before)
{
	const struct stet_root root = { run->root, run->root_level };

	return ask_tree(s, STET_TREE_RUN, &root, before);
}

static int ask_runs(struct search *s)
{
	struct stet_engine *engine = s->txn->engine;
	int rc = s->txn->have_run ? ask_run(s, &s->txn->run, &s->before) : 0;

	for (struct stet_list *pos = engine->runs.prev; pos != &engine->runs && !rc;
	     pos = pos->prev) {
		const struct stet_runref *ref = stet_container_of(pos, struct stet_runref, link);

		if (ref->run.serial <= s->serial && ref->run.serial > s->root->cut)
			rc = ask_run(s, &ref->run, &s->committed);
	}
	if (!rc && s->root->over)
		rc = ask_run(s, stet_overlay_run_(s->root->over), &s->committed);
	return rc;
}

/* L2 */
static void ask_delta(struct search *s)
{
	struct stet_engine *engine = s->txn->engine;
	const struct stet_skipnode *node = stet_skiplist_below(&engine->delta, s->committed.b,
							       s->committed.bytes);

	while (node && is_better(s, stet_skipnode_key(node), node->key_len) &&
	       !stet_delta_find_(node->value, s->root->cut, s->serial)) {
		stet_passed_key_(&s->passed, node->value, s->serial);
		node = stet_skiplist_below(&engine->delta, stet_skipnode_key(node), node->key_len);
		engine->stats.invisible++;
	}
	if (node)
		offer(s, stet_skipnode_key(node), node->key_len);
}

static int ask_all(struct search *s)
{
	const struct stet_skipnode *own = stet_skiplist_below(&s->txn->set, s->before.b,
							      s->before.bytes);
	int rc;

	s->best.bytes = 0;
	if (own)
		offer(s, stet_skipnode_key(own), own->key_len);
	rc = ask_runs(s);
	if (!rc)
		rc = ask_tree(s, STET_TREE_CATALOG, &s->root->root, &s->committed);
	if (!rc)
		ask_delta(s);
	return rc;
}

/* L3 */
static void jump_gaps(struct search *s)
{
	struct stet_txn *txn = s->txn;
	struct stet_key from;

	while (stet_gaps_own_(txn) && stet_gap_before_(&txn->gaps, &s->before, 0, &from)) {
		stet_passed_gap_(&s->passed, true);
		stet_key_copy(&s->before, &from);
	}
	stet_key_copy(&s->committed, &s->before);
	if (stet_gap_before_(&txn->engine->gaps, &s->before, s->serial, &from)) {
		stet_passed_gap_(&s->passed, false);
		stet_key_copy(&s->committed, &from);
	}
}

/* The best is not there. */
static int pass(struct search *s)
{
	struct stet_txn *txn = s->txn;
	struct stet_val none;
	int rc = stet_set_run_get_(txn, &s->best, &none);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (rc != -ENOENT || stet_skiplist_find(&txn->set, s->best.b, s->best.bytes))
		s->passed.unsure = true;
	stet_passed_key_(&s->passed, stet_delta_node_(txn->engine, s->best.b, s->best.bytes),
			 s->serial);
	s->passed.keys++;
	txn->engine->stats.passed++;
	stet_key_copy(&s->before, &s->best);
	return 0;
}

static void end_passing(struct search *s)
{
	struct stet_key from;

	if (s->passed.keys == 0)
		return;
	stet_key_copy(&from, s->best.bytes > 0 ? &s->best : s->from);
	if (s->best.bytes > 0 && !stet_key_step(&from))
		return;
	stet_passed_note_(&s->passed, s->txn->engine, s->txn, s->serial, &from, &s->passed.from);
}

int stet_txn_last(struct stet_txn *txn, const struct stet_key *from, const struct stet_key *before,
		  struct stet_key *ret_key, struct stet_val *ret_val)
{
	bool in_view = txn->view && !txn->ordering && txn->level != STET_LEVEL_LOCKING;
	struct search s = {
		.txn = txn,
		.root = in_view ? txn->view->root : txn->engine->root,
		.serial = in_view ? txn->view->serial : stet_read_serial_(txn->engine),
		.from = from,
	};
	int rc;

	if (txn->doomed)
		return txn->doomed;
	stet_key_copy(&s.before, before);
	stet_key_copy(&s.passed.from, before);
	for (;;) { /* bounded: each round looks below the one before */
		jump_gaps(&s);
		rc = ask_all(&s);
		if (!rc && s.best.bytes == 0)
			end_passing(&s);
		if (rc || s.best.bytes == 0)
			return rc;
		rc = stet_txn_get(txn, &s.best, ret_val);
		if (rc == -ENOENT)
			rc = pass(&s);
		else
			break;
		if (rc)
			return rc;
	}
	if (rc)
		return rc;
	end_passing(&s);
	stet_key_copy(ret_key, &s.best);
	return 1;
}
