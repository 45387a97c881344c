/* duel_txn.c - transactions of a duel: begin, commit, and what commits may meet.
 *
 * V1. A commit is judged by doing the transaction's operations again on the current state: all that changed
 *     something must succeed; at SERIALIZABLE and LOCKING every answer must be what it was.
 * V2. First updater wins: what the transaction changed has the value that it had in the view.
 * V3. Facets of commits are kept while a transaction is open that began before.
 */
#include "duel.h"

#include "base/assert.h"
#include "fs/fs.h"
#include "model_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- acknowledgements --- */

bool duel_ack_(struct duel *d, uint64_t serial)
{
	size_t keep = 0;

	if (serial < d->acked)
		return true;
	d->acked = serial;
	if (d->on_ack)
		d->on_ack(d->on_ack_arg, serial);
	if (d->keep_boundaries)
		return true;
	while (keep + 1 < d->boundaries.n && d->boundaries.v[keep].cut < serial)
		model_put(d->boundaries.v[keep++].state);
	if (keep > 0)
		memmove(d->boundaries.v, d->boundaries.v + keep,
			(d->boundaries.n - keep) * sizeof(d->boundaries.v[0]));
	d->boundaries.n -= keep;
	return true;
}

/* --- what commits meet --- */

static uint64_t oldest_begun(const struct duel *d)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned k = 0; k < STEP_TXNS; k++)
		if (d->txn[k].txn && d->txn[k].begun < oldest)
			oldest = d->txn[k].begun;
	return oldest;
}

void duel_note_commit_(struct duel *d, const struct facet *facets, size_t count)
{
	struct duel_commit c = { ++d->commit_no, count, NULL };
	uint64_t oldest = oldest_begun(d);
	size_t gone = 0;

	while (gone < d->commits.n && d->commits.v[gone].no <= oldest)
		free(d->commits.v[gone++].facets);
	if (gone > 0)
		memmove(d->commits.v, d->commits.v + gone,
			(d->commits.n - gone) * sizeof(d->commits.v[0]));
	d->commits.n -= gone;
	if (oldest == UINT64_MAX || count == 0)
		return;
	c.facets = model_alloc_(count * sizeof(*facets));
	memcpy(c.facets, facets, count * sizeof(*facets));
	STET_ASSERT(stet_vec_push(&d->commits, c) == 0);
}

bool duel_may_refuse_(const struct duel *d, const struct duel_txn *t, const struct facet *facets,
		      size_t count)
{
	for (unsigned k = 0; k < STEP_TXNS; k++) {
		const struct duel_txn *other = &d->txn[k];

		if (other->txn && other != t && other->hopeless)
			return true; /* nobody keeps account of it */
		if (other->txn && other != t &&
		    facets_conflict(facets, count, other->facets.v, other->facets.n))
			return true;
	}
	for (size_t k = 0; t && k < d->commits.n; k++) {
		const struct duel_commit *c = &d->commits.v[k];

		if (c->no > t->begun && facets_conflict(facets, count, c->facets, c->count))
			return true;
	}
	return false;
}

/* --- life --- */

static void cut_saves(struct duel_txn *t, size_t n)
{
	while (t->saves.n > n)
		model_put(stet_vec_pop(&t->saves).state);
}

static void release_txn(struct duel_txn *t)
{
	cut_saves(t, 0);
	stet_vec_release(&t->saves);
	model_put(t->view);
	model_put(t->state);
	model_put(t->based_on);
	stet_vec_release(&t->done);
	stet_vec_release(&t->facets);
	memset(t, 0, sizeof(*t));
}

void duel_end_(struct duel *d, struct duel_txn *t)
{
	(void)d;
	if (!t->txn)
		return;
	stet_ticket_cancel(&t->ticket);
	stet_txn_end(t->txn);
	release_txn(t);
}

void duel_end_all_(struct duel *d)
{
	for (unsigned k = 0; k < STEP_TXNS; k++)
		duel_end_(d, &d->txn[k]);
}

bool duel_begin_(struct duel *d, const struct step *s)
{
	struct duel_txn *t;
	int rc;

	if (!s->actor || d->txn[s->actor - 1].txn)
		return true;
	t = &d->txn[s->actor - 1];
	t->level = (enum stet_level)s->level;
	t->read_only = s->flags & 1;
	rc = stet_txn_begin(d->w->engine, t->level, t->read_only, &t->txn);
	if (rc) {
		t->txn = NULL;
		return d->faults || duel_fail(d, "begin: %d, %s", rc, stet_error_text());
	}
	stet_ticket_init(&t->ticket, NULL, NULL);
	t->view = model_get(d->now);
	t->state = model_get(d->now);
	t->based_on = t->level == STET_LEVEL_LOCKING ? model_get(d->now) : NULL;
	t->begun = d->commit_no;
	t->first_step = d->counts.steps;
	return true;
}

/* --- savepoints --- */

static bool save(struct duel *d, struct duel_txn *t)
{
	struct duel_save s = { .done = t->done.n };
	int rc = stet_txn_savepoint(t->txn, &s.id);

	if (rc)
		return t->doomed || duel_fail(d, "savepoint: %d, %s", rc, stet_error_text());
	s.state = model_get(t->state);
	STET_ASSERT(stet_vec_push(&t->saves, s) == 0);
	d->counts.saves++;
	return true;
}

static bool release_save(struct duel *d, struct duel_txn *t, size_t at)
{
	uint64_t id = t->saves.v[at].id;
	int rc = stet_txn_savepoint_release(t->txn, id);

	if (rc)
		return t->doomed || duel_fail(d, "release: %d, %s", rc, stet_error_text());
	cut_saves(t, at);
	rc = stet_txn_savepoint_release(t->txn, id);
	return rc == -ENOENT || duel_fail(d, "a savepoint is released twice: %d", rc);
}

static bool roll_back(struct duel *d, struct duel_txn *t, size_t at)
{
	const struct duel_save *s = &t->saves.v[at];
	int rc = stet_txn_rollback_to(t->txn, s->id);

	if (rc && d->faults)
		t->doomed = true;
	if (rc || t->doomed)
		return (rc && t->doomed) || duel_fail(d, "T%d: rollback: %d, %s",
						      (int)(t - d->txn) + 1, rc, stet_error_text());
	model_put(t->state);
	t->state = model_get(s->state);
	t->done.n = s->done;
	cut_saves(t, at + 1);
	model_put(t->based_on); /* LOCKING: made anew from what is committed */
	t->based_on = NULL;
	t->hopeless = false;
	d->counts.rollbacks++;
	return true;
}

bool duel_save_(struct duel *d, const struct step *s)
{
	struct duel_txn *t = s->actor ? &d->txn[s->actor - 1] : NULL;
	size_t at;

	if (!t || !t->txn)
		return true;
	t->doomed = t->doomed || stet_txn_doomed(t->txn);
	if (s->kind == STEP_SAVE)
		return save(d, t);
	if (t->saves.n == 0)
		return true;
	at = s->slot < t->saves.n ? t->saves.n - 1 - s->slot : 0;
	if (s->kind == STEP_BACK && !roll_back(d, t, at))
		return false;
	if (t->doomed || (s->kind == STEP_BACK && !s->flags))
		return true;
	return release_save(d, t, at);
}

/* --- V2 --- */

static uint64_t entry_ino(const struct model *m, uint64_t dir_ino, struct model_name name)
{
	const struct model_inode *dir = model_find(m, dir_ino);
	const struct model_entry *e = dir ? model_entry(dir, name.bytes, name.len) : NULL;

	return e ? e->ino : 0;
}

static bool same_content(const struct model_inode *a, const struct model_inode *b)
{
	if (a->size != b->size || a->page_count != b->page_count)
		return false;
	for (size_t k = 0; k < a->page_count; k++)
		if (a->pages[k].no != b->pages[k].no ||
		    !model_hash_equal(a->pages[k].bytes->hash, b->pages[k].bytes->hash))
			return false;
	return true;
}

static bool same_xattr(const struct model_inode *a, const struct model_inode *b,
		       struct model_name name)
{
	const struct model_xattr *x = model_xattr(a, name.bytes, name.len);
	const struct model_xattr *y = model_xattr(b, name.bytes, name.len);

	return x && y ? model_hash_equal(x->value->hash, y->value->hash) : !x && !y;
}

static bool same_record(const struct model_inode *a, const struct model_inode *b,
			struct model_name key)
{
	const struct model_xattr *x = model_record(a, key.bytes, key.len);
	const struct model_xattr *y = model_record(b, key.bytes, key.len);

	return x && y ? model_hash_equal(x->value->hash, y->value->hash) : !x && !y;
}

static bool unchanged_inode(const struct duel *d, const struct duel_txn *t,
			    const struct model_op *op)
{
	const struct model_inode *a = model_find(t->view, op->ino);
	const struct model_inode *b = model_find(d->now, op->ino);
	const unsigned owner = STET_FS_SET_MODE | STET_FS_SET_UID | STET_FS_SET_GID;

	if (!a)
		return true; /* of its own */
	if (!b || b->nlink == 0)
		return true; /* it lost its last name: nobody sees what is done to it */
	switch (op->kind) {
	case MODEL_WRITE:
	case MODEL_TRUNCATE:
	case MODEL_PUNCH:
		return same_content(a, b);
	case MODEL_RECORD_PUT:
	case MODEL_RECORD_DEL:
		return same_record(a, b, op->name);
	case MODEL_XATTR_SET:
	case MODEL_XATTR_REMOVE:
		return same_xattr(a, b, op->name);
	case MODEL_SETATTR:
		if ((op->flags & STET_FS_SET_SIZE) && !same_content(a, b))
			return false;
		return !(op->flags & owner) ||
		       (a->mode == b->mode && a->uid == b->uid && a->gid == b->gid);
	default:
		return true;
	}
}

static bool unchanged(const struct duel *d, const struct duel_txn *t, const struct model_op *op)
{
	switch (op->kind) {
	case MODEL_RENAME:
		if (entry_ino(t->view, op->to_dir, op->to_name) !=
		    entry_ino(d->now, op->to_dir, op->to_name))
			return false;
		/* fall through */
	case MODEL_MAKE:
	case MODEL_UNLINK:
	case MODEL_RMDIR:
		return entry_ino(t->view, op->dir, op->name) ==
		       entry_ino(d->now, op->dir, op->name);
	case MODEL_LINK:
		return entry_ino(t->view, op->to_dir, op->to_name) ==
		       entry_ino(d->now, op->to_dir, op->to_name);
	default:
		return unchanged_inode(d, t, op);
	}
}

static bool bad_commit(struct duel *d, const struct duel_txn *t, const struct duel_done *done,
		       const char *what)
{
	struct stet_text text;

	stet_text_init(&text);
	model_op_print(&text, &done->op);
	duel_fail(d, "T%d committed: %s: %s (then %d, now %d)", (int)(t - d->txn) + 1,
		  stet_text_cstr(&text), what, done->rc, d->model.rc);
	stet_text_release(&text);
	return false;
}

/* An operation by number on what has been removed and forgotten meanwhile: allowed, and without effect. */
bool duel_on_gone_(const struct model *m, const struct model_op *op)
{
	uint64_t ino = op->kind == MODEL_LIST ? op->dir : op->ino;

	return ino && op->kind != MODEL_LINK && !model_find(m, ino);
}

/* V1, V2; on success the changes are in the current state. */
static bool apply_commit(struct duel *d, struct duel_txn *t)
{
	int64_t now_ns = stet_engine_now(d->w->engine);
	bool strict = t->level != STET_LEVEL_SNAPSHOT && !t->read_only;
	struct model *next = model_get(d->now);
	bool ok = true;

	for (size_t k = 0; k < t->done.n && ok; k++) {
		struct duel_done *done = &t->done.v[k];
		if ((!done->changes && !strict) || duel_on_gone_(next, &done->op))
			continue;
		if (done->changes && t->level != STET_LEVEL_LOCKING && !unchanged(d, t, &done->op))
			ok = bad_commit(d, t, done, "what it changed was changed by another");
		if (!ok)
			break;
		if (done->op.kind == MODEL_LINK && done->changes) {
			/* It had a name when the transaction was ordered. */
			const struct model_inode *inode = model_find(d->now, done->op.ino);

			if (!inode || inode->nlink > 0)
				done->op.flags |= MODEL_ORDERED;
		}
		model_apply(&next, &done->op, now_ns, ++d->stamp, &d->model);
		if (done->rc < 0 && d->model.rc < 0)
			continue; /* in vain then and now */
		if (d->model.rc != done->rc || (strict && d->model.ino != done->ino))
			ok = bad_commit(d, t, done, "it would not do the same now");
		else if (strict && !done->rc && duel_answer_(&done->op, &d->model) != done->answer)
			ok = bad_commit(d, t, done, "it would read something else now");
	}
	model_put(d->now);
	d->now = next;
	return ok;
}

static bool judge_failure(struct duel *d, struct duel_txn *t, int rc, bool was_doomed)
{
	d->counts.conflicts++;
	if (was_doomed || rc == -ESTALE || (d->faults && (rc == -EIO || rc == -EROFS)))
		return true;
	if (rc == -EBUSY && duel_may_refuse_(d, t, t->facets.v, t->facets.n))
		return true;
	return duel_fail(d, "T%d: commit fails without a cause: %d, %s", (int)(t - d->txn) + 1, rc,
			 stet_error_text());
}

bool duel_commit_(struct duel *d, const struct step *s)
{
	struct duel_txn *t = s->actor ? &d->txn[s->actor - 1] : NULL;
	struct stet_txn *txn;
	uint64_t serial = 0, need, before;
	bool ok;
	int rc;

	if (!t || !t->txn)
		return true;
	txn = t->txn;
	need = d->late_acks ? duel_needs_(d, t) : 0;
	before = stet_engine_serial(d->w->engine);
	rc = world_commit(d->w, txn, &serial);
	if (rc) {
		ok = judge_failure(d, t, rc, t->doomed);
	} else if (t->doomed) {
		ok = duel_fail(d, "T%u was doomed and committed", s->actor);
	} else {
		if (stet_engine_serial(d->w->engine) > before && !t->read_only)
			need = stet_engine_serial(d->w->engine);
		ok = apply_commit(d, t);
		duel_note_state_(d);
		d->counts.commits++;
		t->txn = NULL; /* for the list of commits: it is no longer open */
		duel_note_commit_(d, t->facets.v, t->facets.n);
	}
	release_txn(t);
	if (ok && !rc && (s->flags & 1) && d->late_acks)
		return duel_ack_later_(d, serial, need);
	if (ok && !rc && (s->flags & 1)) {
		rc = world_durable(d->w, serial);
		if (rc)
			return d->faults || duel_fail(d, "commit: not durable: %d", rc);
		return duel_ack_(d, serial);
	}
	return ok;
}
