/* duel.c - steps: resolving paths, doing an operation on both sides, comparing.
 *
 * U1. The real system goes first: it gives new inode numbers and decides about conflicts. The model then
 *     says whether that was allowed.
 * U2. A refusal (-EBUSY, -EDEADLK) needs a cause; at PLAIN and SNAPSHOT a read is never refused.
 * U3. Times inside a transaction are not final and not compared.
 */
#include "duel.h"

#include "base/assert.h"
#include "base/mem.h"
#include "model_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NO_INO UINT64_C(1000000) /* of what does not exist */
#define FULL_PERCENT 60u         /* with the reserve */
#define AGE_MAX 250u             /* steps that a transaction may last */

bool duel_fail(struct duel *d, const char *fmt, ...)
{
	char line[1024];
	va_list args;

	if (d->why.len > 0)
		return false;
	d->why_fmt = fmt;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	stet_text_puts(&d->why, line);
	return false;
}

/* --- life --- */

static void on_flush(void *arg, uint64_t cut)
{
	struct duel *d = arg;
	struct duel_boundary b = { cut, model_get(d->now),
				   d->w->record ? sim_record_count(d->w->record) : 0 };

	STET_ASSERT(stet_vec_push(&d->boundaries, b) == 0);
}

void duel_adopt(struct world *take_world, struct model *state, struct duel **ret)
{
	struct duel *d = model_alloc_(sizeof(*d));

	d->w = take_world;
	d->real.cap = d->model.cap = WORLD_BYTES_MAX;
	d->real.bytes = model_alloc_(WORLD_BYTES_MAX);
	d->model.bytes = model_alloc_(WORLD_BYTES_MAX);
	d->now = model_get(state);
	d->w->on_flush = on_flush;
	d->w->on_flush_arg = d;
	on_flush(d, stet_engine_serial(d->w->engine));
	*ret = d;
}

int duel_create(const struct world_config *config, struct duel **ret)
{
	struct model *empty;
	struct world *w;
	int rc = world_create(config, &w);

	if (rc)
		return rc;
	rc = world_open(w);
	if (rc) {
		world_destroy(w);
		return rc;
	}
	empty = model_create(0755, stet_engine_now(w->engine));
	duel_adopt(w, empty, ret);
	model_put(empty);
	return 0;
}

void duel_destroy(struct duel *d)
{
	if (!d)
		return;
	duel_end_all_(d);
	world_destroy(d->w);
	duel_forget_acks_(d);
	duel_forget_states_(d);
	stet_vec_release(&d->past);
	stet_vec_release(&d->acks);
	for (size_t k = 0; k < d->boundaries.n; k++)
		model_put(d->boundaries.v[k].state);
	for (size_t k = 0; k < d->commits.n; k++)
		free(d->commits.v[k].facets);
	stet_vec_release(&d->boundaries);
	stet_vec_release(&d->commits);
	model_put(d->now);
	stet_text_release(&d->why);
	free(d->real.bytes);
	free(d->model.bytes);
	free(d);
}

void duel_state(const struct duel *d, struct step_state *ret)
{
	ret->now = d->now;
	for (unsigned k = 0; k < STEP_TXNS; k++) {
		ret->txn[k] = d->txn[k].txn ? d->txn[k].state : NULL;
		ret->doomed[k] = d->txn[k].doomed || d->txn[k].hopeless;
		ret->reads[k] = d->txn[k].txn && d->txn[k].read_only;
		ret->old[k] = d->counts.steps - d->txn[k].first_step > AGE_MAX;
	}
	for (unsigned k = 0; k < STEP_HELD; k++)
		ret->held[k] = d->held[k] != 0;
}

void duel_print_counts(const struct duel *d, struct stet_text *t)
{
	const struct duel_counts *c = &d->counts;
	const struct world_totals *w = &d->w->totals;

	stet_text_printf(t,
			 "%" PRIu64 " steps: %" PRIu64 " ops (%" PRIu64 " changes), %" PRIu64
			 " refused, %" PRIu64 " commits, %" PRIu64 " conflicts, %" PRIu64
			 " deadlocks, %" PRIu64 " waits, %" PRIu64 " ENOSPC, %" PRIu64
			 " expired, %" PRIu64 " reopens, %" PRIu64 " kills, %" PRIu64
			 " savepoints, %" PRIu64 " rolled back, %" PRIu64 " compares; %" PRIu64
			 " flushes, %" PRIu64 " checkpoints, %" PRIu64 " spills, %" PRIu64
			 " overlays, %" PRIu64 " segments cleaned",
			 c->steps, c->ops, c->changes, c->refused, c->commits, c->conflicts,
			 c->deadlocks, c->waits, c->nospace, c->expired, c->reopens, c->kills,
			 c->saves, c->rollbacks, c->compares, w->flushes, w->checkpoints, w->spills,
			 w->overlays, w->cleaned);
}

/* --- resolving --- */

static uint64_t walk_path(const struct model *m, const struct step_path *p, unsigned n)
{
	const struct model_inode *at = model_find(m, STET_ROOT_INO);

	for (unsigned k = 0; at && k < n; k++) {
		struct model_name name = step_name(p->name[k]);
		const struct model_entry *e = S_ISDIR(at->mode)
						      ? model_entry(at, name.bytes, name.len)
						      : NULL;

		at = e ? model_find(m, e->ino) : NULL;
	}
	return at ? at->ino : 0;
}

/* The inode at the first n names, as the actor sees it, else as others do, else one that is not. */
static uint64_t resolve(const struct duel *d, const struct model *m, const struct step_path *p,
			unsigned n)
{
	uint64_t ino = 0;

	if (p->held && d->held[p->held - 1])
		return d->held[p->held - 1];
	ino = walk_path(m, p, n);
	if (!ino)
		ino = walk_path(d->now, p, n);
	return ino ? ino : NO_INO;
}

static void resolve_name(const struct duel *d, const struct model *m, const struct step_path *p,
			 uint64_t *ret_dir, struct model_name *ret_name)
{
	struct step_path at = *p;

	at.held = 0;
	*ret_dir = resolve(d, m, &at, p->n ? p->n - 1u : 0);
	*ret_name = p->n ? step_name(p->name[p->n - 1]) : (struct model_name){ ".", 1 };
}

static bool by_name(uint8_t kind)
{
	return kind == MODEL_LOOKUP || kind == MODEL_MAKE || kind == MODEL_UNLINK ||
	       kind == MODEL_RMDIR || kind == MODEL_RENAME;
}

void duel_resolve_(const struct duel *d, const struct model *m, const struct step *s,
		   struct model_op *op)
{
	*op = (struct model_op){
		.kind = (enum model_kind)s->kind,
		.flags = s->flags,
		.mode = s->mode,
		.uid = s->uid,
		.gid = s->uid + 1,
		.rdev = s->seed % 1000,
		.off = s->off,
		.len = s->len,
		.seed = s->seed,
		.now_ns = stet_engine_now(d->w->engine),
	};
	op->atime_ns = op->now_ns - (int64_t)(s->seed % 1000000);
	op->mtime_ns = op->now_ns - (int64_t)(s->seed % 999983);
	if (by_name(s->kind))
		resolve_name(d, m, &s->a, &op->dir, &op->name);
	else if (s->kind == MODEL_LIST)
		op->dir = resolve(d, m, &s->a, s->a.n);
	else
		op->ino = resolve(d, m, &s->a, s->a.n);
	if (s->kind == MODEL_RENAME || s->kind == MODEL_LINK)
		resolve_name(d, m, &s->b, &op->to_dir, &op->to_name);
	if (s->kind == MODEL_XATTR_GET || s->kind == MODEL_XATTR_SET ||
	    s->kind == MODEL_XATTR_REMOVE)
		op->name = step_xattr_name(s->xattr);
	if (s->kind == MODEL_RECORD_GET || s->kind == MODEL_RECORD_PUT ||
	    s->kind == MODEL_RECORD_DEL)
		op->name = step_key(s->xattr);
}

/* --- comparing one operation --- */

uint64_t duel_answer_(const struct model_op *op, const struct model_result *r)
{
	uint64_t h = r->len;

	if (op->kind == MODEL_GETATTR)
		return 0; /* U3 */
	for (size_t k = 0; k < r->len; k++)
		h = (h ^ r->bytes[k]) * UINT64_C(0x100000001b3);
	return h;
}

static void forget_times(const struct model_op *op, struct model_result *r)
{
	struct model_attr attr;

	if (op->kind != MODEL_GETATTR || r->rc || r->len != sizeof(attr))
		return;
	memcpy(&attr, r->bytes, sizeof(attr));
	attr.mtime_ns = attr.ctime_ns = 0;
	memcpy(r->bytes, &attr, sizeof(attr));
}

static bool same_answer(struct duel *d, const struct model_op *op, bool in_txn)
{
	if (in_txn) {
		forget_times(op, &d->real);
		forget_times(op, &d->model);
	}
	if (d->real.rc != d->model.rc)
		return false;
	if (d->real.rc)
		return true;
	return d->real.ino == d->model.ino && d->real.len == d->model.len &&
	       memcmp(d->real.bytes, d->model.bytes, d->real.len) == 0;
}

static bool differs(struct duel *d, const struct model_op *op, const struct duel_txn *t)
{
	struct stet_text text;
	size_t k = 0;

	stet_text_init(&text);
	if (t)
		stet_text_printf(&text, "T%d: ", (int)(t - d->txn) + 1);
	model_op_print(&text, op);
	while (k < d->real.len && k < d->model.len && d->real.bytes[k] == d->model.bytes[k])
		k++;
	duel_fail(d,
		  "%s: the system says %d (ino %" PRIu64 ", %zu bytes), the model %d (ino %" PRIu64
		  ", %zu bytes), equal up to byte %zu; last error: %s",
		  stet_text_cstr(&text), d->real.rc, d->real.ino, d->real.len, d->model.rc,
		  d->model.ino, d->model.len, k, stet_error_text());
	if (op->kind == MODEL_GETATTR && !d->real.rc && !d->model.rc) {
		struct model_attr a, b;

		memcpy(&a, d->real.bytes, sizeof(a));
		memcpy(&b, d->model.bytes, sizeof(b));
		stet_text_printf(&d->why,
				 "\n  have mode %o uid %u gid %u nlink %u size %" PRIu64
				 " parent %" PRIu64 " m %" PRId64 " c %" PRId64
				 "\n  want mode %o uid %u gid %u nlink %u size %" PRIu64
				 " parent %" PRIu64 " m %" PRId64 " c %" PRId64,
				 a.mode, a.uid, a.gid, a.nlink, a.size, a.parent, a.mtime_ns,
				 a.ctime_ns, b.mode, b.uid, b.gid, b.nlink, b.size, b.parent,
				 b.mtime_ns, b.ctime_ns);
	}
	stet_text_release(&text);
	return false;
}

/* --- one operation --- */

/* world_op, with memory running out if that is wanted. */
static int real_op(struct duel *d, struct stet_txn *txn, const struct model_op *op, bool wait,
		   struct stet_ticket *ticket)
{
	int rc;

	if (d->fail_allocation)
		stet_mem_fail_after((int64_t)d->fail_allocation);
	rc = world_op(d->w, txn, op, wait, ticket, &d->real);
	if (d->fail_allocation) {
		d->allocation_failed = stet_mem_count() >= d->fail_allocation;
		stet_mem_fail_after(-1);
	}
	return rc;
}

static bool big_append(const struct duel_txn *t, const struct model_op *op)
{
	uint64_t sum = op->len;

	if (op->kind != MODEL_APPEND || !t)
		return false;
	for (size_t k = 0; k < t->done.n; k++) {
		const struct model_op *o = &t->done.v[k].op;

		if (t->done.v[k].rc == 0 && o->ino == op->ino && o->kind == MODEL_APPEND)
			sum += o->len;
	}
	return sum > (64u << 10) ||
	       facet_list_has(t->facets.v, t->facets.n, op->ino, FACET_DATA, FACET_WRITE);
}

/* LOCKING: the own changes on what is committed now. Different names can still conflict, which is found
 * when the transaction is ordered; what it reads until then does not matter. */
static void refresh(struct duel *d, struct duel_txn *t)
{
	if (t->level != STET_LEVEL_LOCKING || t->based_on == d->now)
		return;
	model_put(t->state);
	model_put(t->based_on);
	t->state = model_get(d->now);
	t->based_on = model_get(d->now);
	for (size_t k = 0; k < t->done.n; k++) {
		if (!t->done.v[k].changes || duel_on_gone_(t->state, &t->done.v[k].op))
			continue;
		model_apply(&t->state, &t->done.v[k].op, t->done.v[k].op.now_ns, ++d->stamp,
			    &d->model);
		t->hopeless = t->hopeless || d->model.rc != 0;
	}
}

static bool refused(const struct duel *d, int rc)
{
	return rc == -EBUSY || rc == -EDEADLK || rc == -ENOSPC || rc == -ESTALE ||
	       (d->faults && (rc == -EIO || rc == -EROFS)) || (d->memory_faults && rc == -ENOMEM);
}

/* No room may be said only when much of it is in use, or promised, or held by what is being read, or bad. */
static bool really_full(const struct duel *d, const struct model_op *op)
{
	struct stet_space_usage u;

	stet_space_usage(stet_engine_space(d->w->engine), &u);
	if (u.slots_bad > u.slots_total / 2)
		return true; /* what is left is the reserve's */
	return (u.live_blocks + u.held_blocks + u.reserved_blocks + op->len / STET_BLOCK_SIZE +
		u.reserve_blocks) *
		       100 >=
	       u.capacity_blocks * FULL_PERCENT;
}

/* The system refuses: may it? */
static bool judge_refusal(struct duel *d, const struct model_op *op, struct duel_txn *t,
			  const struct facet *facets, size_t count)
{
	if (t)
		t->doomed = stet_txn_doomed(t->txn);
	d->counts.refused++;
	d->counts.nospace += d->real.rc == -ENOSPC;
	d->counts.deadlocks += d->real.rc == -EDEADLK;
	if (d->real.rc == -ENOSPC && !really_full(d, op)) {
		struct stet_space_usage u;

		differs(d, op, t);
		stet_space_usage(stet_engine_space(d->w->engine), &u);
		stet_text_printf(&d->why,
				 "\n  of %" PRIu64 " blocks are live %" PRIu64 ", held %" PRIu64
				 ", pinned %" PRIu64 ", reserved %" PRIu64
				 "; free segments %u of %u",
				 u.capacity_blocks, u.live_blocks, u.held_blocks, u.pinned_blocks,
				 u.reserved_blocks, u.slots_free, u.slots_total);
		return false;
	}
	d->counts.expired += d->real.rc == -ESTALE;
	if (d->real.rc == -ESTALE) /* its view was given up: space ran short */
		return (t && t->doomed) || differs(d, op, t);
	if (d->real.rc != -EBUSY && d->real.rc != -EDEADLK)
		return true;
	if (duel_may_refuse_(d, t, facets, count))
		return true;
	return differs(d, op, t);
}

/* What a new inode has from its directory it has for good, whatever becomes of the directory. */
static void keep_inherited(const struct duel_txn *t, struct model_op *op)
{
	const struct model_inode *made = model_find(t->state, op->new_ino);

	if (op->kind != MODEL_MAKE || !made)
		return;
	op->mode = made->mode;
	op->gid = made->gid;
	op->flags = MODEL_INHERITED;
}

/* same: the tree is as before. A rename between two names of one inode does nothing. */
static void note_done(struct duel *d, struct duel_txn *t, const struct model_op *op, bool same)
{
	bool changes = d->real.rc == 0 && !model_kind_reads(op->kind) &&
		       !(op->kind == MODEL_RENAME && same);
	struct duel_done done = { *op, d->real.rc, changes, d->real.ino,
				  duel_answer_(op, &d->real) };

	STET_ASSERT(stet_vec_push(&t->done, done) == 0);
}

static bool plain(struct duel *d, const struct step *s)
{
	struct facet facets[FACETS_MAX];
	struct model *next = model_get(d->now);
	struct stet_ticket ticket;
	struct model_op op;
	size_t count;
	bool ok = true;

	duel_resolve_(d, d->now, s, &op);
	count = facets_of(d->now, STET_LEVEL_PLAIN, &op, false, facets);
	if (real_op(d, NULL, &op, s->wait, &ticket) == STET_WAIT) {
		stet_ticket_cancel(&ticket); /* waiting for a transaction is as good as refused */
		d->counts.waits++;
		d->real.rc = -EBUSY;
	}
	op.new_ino = d->real.ino;
	model_apply(&next, &op, op.now_ns, ++d->stamp, &d->model);
	d->counts.ops++;
	if (!same_answer(d, &op, false)) {
		ok = refused(d, d->real.rc) ? judge_refusal(d, &op, NULL, facets, count)
					    : differs(d, &op, NULL);
	} else if (!d->real.rc && !model_kind_reads(op.kind)) {
		model_put(d->now);
		d->now = model_get(next);
		if (op.kind == MODEL_MAKE)
			facets[count++] = (struct facet){ op.new_ino, 0, FACET_EXISTS,
							  FACET_WRITE };
		duel_note_commit_(d, facets, count);
		duel_note_state_(d);
		d->counts.changes++;
	}
	model_put(next);
	return ok;
}

static bool doomed_op(struct duel *d, struct duel_txn *t, const struct model_op *op)
{
	struct stet_ticket ticket;
	int rc = world_op(d->w, t->txn, op, false, &ticket, &d->real);

	if (rc == 0 && t->doomed && !model_kind_reads(op->kind))
		return duel_fail(d, "a doomed transaction accepted %s", model_kind_name(op->kind));
	return true;
}

static void keep_facets(struct duel_txn *t, const struct facet *facets, size_t count)
{
	for (size_t k = 0; k < count; k++)
		STET_ASSERT(stet_vec_push(&t->facets, facets[k]) == 0);
}

/* Who has looked for the number before it was given meets what is made. */
static void note_made(struct duel_txn *t, const struct model_op *op, int rc)
{
	const struct facet made = { op->new_ino, 0, FACET_EXISTS, FACET_WRITE };

	if (op->kind == MODEL_MAKE && rc == 0)
		keep_facets(t, &made, 1);
}

static bool in_txn(struct duel *d, struct duel_txn *t, const struct step *s)
{
	struct facet facets[FACETS_MAX];
	struct model_hash before;
	enum stet_level level;
	struct model_op op;
	size_t count;
	int rc;

	refresh(d, t);
	duel_resolve_(d, t->state, s, &op);
	if (t->doomed || t->hopeless)
		return doomed_op(d, t, &op);
	/* A read-only SERIALIZABLE one is at its place at begin: it validates nothing. */
	level = t->read_only && t->level == STET_LEVEL_SERIALIZABLE ? STET_LEVEL_SNAPSHOT
								    : t->level;
	count = facets_of(t->state, level, &op, big_append(t, &op), facets);
	rc = real_op(d, t->txn, &op, s->wait, &t->ticket);
	keep_facets(t, facets, count);
	t->blocked = rc == STET_WAIT;
	if (t->blocked) {
		t->pending = *s;
		d->counts.waits++;
		return duel_may_refuse_(d, t, facets, count) || differs(d, &op, t);
	}
	op.new_ino = d->real.ino;
	d->counts.ops++;
	if (t->read_only && !model_kind_reads(op.kind))
		return rc < 0 || differs(d, &op, t);
	if (refused(d, rc) && !(rc == -EBUSY && op.kind == MODEL_RENAME && !t->doomed &&
				!duel_may_refuse_(d, t, facets, count)))
		return judge_refusal(d, &op, t, facets, count);
	before = model_state_hash(t->state);
	model_apply(&t->state, &op, op.now_ns, ++d->stamp, &d->model);
	if (!same_answer(d, &op, true))
		return differs(d, &op, t);
	d->counts.changes += !rc && !model_kind_reads(op.kind);
	note_made(t, &op, rc);
	keep_inherited(t, &op);
	note_done(d, t, &op, model_hash_equal(before, model_state_hash(t->state)));
	return true;
}

/* --- other steps --- */

static bool hold(struct duel *d, const struct step *s)
{
	uint64_t ino = resolve(d, d->now, &s->a, s->a.n);

	if (d->held[s->slot] || !model_find(d->now, ino) || model_find(d->now, ino)->nlink == 0)
		return true;
	if (stet_fs_hold(d->w->fs, ino))
		return duel_fail(d, "hold: %s", stet_error_text());
	d->held[s->slot] = ino;
	return true;
}

static bool is_held(const struct duel *d, uint64_t ino)
{
	for (unsigned k = 0; k < STEP_HELD; k++)
		if (d->held[k] == ino)
			return true;
	return false;
}

/* An inode that has no name and is open nowhere may be reclaimed at any time. */
static void unhold(struct duel *d, const struct step *s)
{
	uint64_t ino = d->held[s->slot];
	const struct facet gone = { ino, 0, FACET_EXISTS, FACET_WRITE };
	const struct model_inode *inode;

	if (!ino)
		return;
	d->held[s->slot] = 0;
	stet_fs_unhold(d->w->fs, ino);
	inode = model_find(d->now, ino);
	if (!inode || inode->nlink > 0 || is_held(d, ino))
		return;
	model_reclaim(&d->now, ino);
	duel_note_commit_(d, &gone, 1);
}

/* What lost its last name and is not open is gone, as far as anybody can tell. */
static int find_gone(void *arg, const struct model_inode *inode)
{
	struct duel *d = arg;

	return inode->nlink == 0 && !is_held(d, inode->ino) ? (int)inode->ino : 0;
}

static void drop_gone(struct duel *d)
{
	int ino;

	while ((ino = model_walk(d->now, find_gone, d)))
		model_reclaim(&d->now, (uint64_t)ino);
}

bool duel_compare(struct duel *d)
{
	struct model *have;
	struct stet_text t;
	int rc;

	d->counts.compares++;
	rc = world_read_tree(d->w, NULL, &have);
	if (rc)
		return duel_fail(d, "reading the tree: %d, %s", rc, stet_error_text());
	stet_text_init(&t);
	if (!model_hash_equal(model_state_hash(d->now), model_state_hash(have))) {
		model_diff(&t, d->now, have);
		duel_fail(d, "the trees differ:\n%s", stet_text_cstr(&t));
	}
	model_put(have);
	if (!d->why.len && world_check_catalog(d->w, &t))
		duel_fail(d, "the catalog is damaged:\n%s", stet_text_cstr(&t));
	stet_text_release(&t);
	stet_space_check(stet_engine_space(d->w->engine));
	stet_cache_check(stet_engine_cache(d->w->engine));
	if (!d->faults && d->w->background_rc && d->w->background_rc != -ENOSPC)
		duel_fail(d, "background work failed: %d, %s", d->w->background_rc,
			  stet_error_text());
	return d->why.len == 0;
}

/* Compares what a transaction sees. */
static bool compare_view(struct duel *d, const struct step *s)
{
	struct duel_txn *t = &d->txn[s->actor - 1];
	struct model *have, *want;
	struct stet_text text;
	int rc;

	if (!t->txn || t->level != STET_LEVEL_SNAPSHOT || stet_txn_doomed(t->txn) || t->done.n > 0)
		return duel_compare(d);
	rc = world_read_tree(d->w, t->txn, &have);
	if (rc)
		return duel_fail(d, "T%u: reading the tree: %d, %s", s->actor, rc,
				 stet_error_text());
	want = t->state;
	if (!model_hash_equal(model_state_hash(want), model_state_hash(have))) {
		stet_text_init(&text);
		model_diff(&text, want, have);
		duel_fail(d, "T%u sees another tree:\n%s", s->actor, stet_text_cstr(&text));
		stet_text_release(&text);
	}
	model_put(have);
	return d->why.len == 0;
}

/* The volume was opened again: nothing is held any more. */
static void reopened(struct duel *d)
{
	memset(d->held, 0, sizeof(d->held));
	model_reclaim_all(&d->now);
	duel_forget_states_(d);
}

static bool reopen(struct duel *d)
{
	int rc;

	duel_end_all_(d);
	d->counts.reopens++;
	rc = world_settle(d->w);
	if (rc)
		return d->faults || duel_fail(d, "settling: %d, %s", rc, stet_error_text());
	duel_ack_(d, stet_engine_serial(d->w->engine));
	world_close(d->w);
	duel_forget_acks_(d);
	rc = world_open(d->w);
	if (rc)
		return duel_fail(d, "opening: %d, %s", rc, stet_error_text());
	reopened(d);
	return duel_compare(d);
}

/* D3: finds which boundary the volume shows, and goes on from there. */
static bool find_boundary(struct duel *d)
{
	struct model *have;
	int rc = world_read_tree(d->w, NULL, &have);
	bool found = false;

	if (rc)
		return duel_fail(d, "reading after a kill: %d, %s", rc, stet_error_text());
	for (size_t k = d->boundaries.n; k-- > 0 && !found;) {
		struct duel_boundary *b = &d->boundaries.v[k];

		if (b->cut < d->acked)
			break;
		found = model_hash_equal(model_state_hash(b->state), model_state_hash(have));
		if (found) {
			model_put(d->now);
			d->now = model_get(b->state);
		}
	}
	if (!found) {
		struct stet_text t;

		stet_text_init(&t);
		model_diff(&t, d->boundaries.v[d->boundaries.n - 1].state, have);
		duel_fail(d,
			  "killed: no state since serial %" PRIu64
			  " is this one; the last (%" PRIu64 ") differs in:\n%s",
			  d->acked, d->boundaries.v[d->boundaries.n - 1].cut, stet_text_cstr(&t));
		stet_text_release(&t);
	}
	model_put(have);
	return found;
}

static bool kill_it(struct duel *d)
{
	int rc;

	duel_end_all_(d);
	d->counts.kills++;
	rc = world_kill(d->w);
	duel_forget_acks_(d);
	if (rc)
		return duel_fail(d, "opening after a kill: %d, %s", rc, stet_error_text());
	if (!find_boundary(d))
		return false;
	reopened(d);
	for (size_t k = 0; k < d->boundaries.n; k++)
		model_put(d->boundaries.v[k].state);
	stet_vec_clear(&d->boundaries);
	on_flush(d, stet_engine_serial(d->w->engine));
	d->acked = 0;
	duel_ack_(d, stet_engine_serial(d->w->engine));
	return duel_compare(d);
}

static bool sync_it(struct duel *d)
{
	uint64_t serial = stet_engine_serial(d->w->engine);
	int rc = world_durable(d->w, serial);

	if (rc)
		return d->faults || duel_fail(d, "sync: %d, %s", rc, stet_error_text());
	return duel_ack_(d, serial);
}

static bool other_step(struct duel *d, const struct step *s)
{
	switch (s->kind) {
	case STEP_BEGIN:
		return duel_begin_(d, s);
	case STEP_COMMIT:
		return duel_commit_(d, s);
	case STEP_ABORT:
		if (s->actor)
			duel_end_(d, &d->txn[s->actor - 1]);
		return true;
	case STEP_SAVE:
	case STEP_BACK:
	case STEP_RELEASE:
		return duel_save_(d, s);
	case STEP_SYNC:
		return sync_it(d);
	case STEP_CHECKPOINT:
		stet_ignore(stet_engine_checkpoint(d->w->engine, NULL), "may be FAILED");
		return true;
	case STEP_REOPEN:
		return reopen(d);
	case STEP_KILL:
		return kill_it(d);
	case STEP_HOLD:
		return hold(d, s);
	case STEP_UNHOLD:
		unhold(d, s);
		return true;
	case STEP_COMPARE:
		return s->actor ? compare_view(d, s) : duel_compare(d);
	default:
		return true;
	}
}

/* Those that waited for a lock, and got it or were told otherwise. */
static bool resume(struct duel *d)
{
	for (unsigned k = 0; k < STEP_TXNS; k++) {
		struct duel_txn *t = &d->txn[k];

		if (!t->txn || !t->blocked || !t->ticket.fired)
			continue;
		t->blocked = false;
		if (!in_txn(d, t, &t->pending))
			return false;
	}
	return true;
}

bool duel_step(struct duel *d, const struct step *s)
{
	struct duel_txn *t = s->actor ? &d->txn[s->actor - 1] : NULL;
	bool ok;

	d->counts.steps++;
	if (t && t->txn && t->blocked && s->kind != STEP_ABORT)
		ok = true; /* it waits */
	else if (s->kind >= MODEL_KINDS)
		ok = other_step(d, s);
	else if (t && t->txn)
		ok = in_txn(d, t, s);
	else
		ok = plain(d, s);
	if (ok)
		ok = resume(d);
	drop_gone(d);
	duel_note_state_(d);
	if (ok && s->pump)
		world_pump(d->w, s->pump_seed, s->pump);
	return ok && resume(d);
}

bool duel_finish(struct duel *d)
{
	duel_end_all_(d);
	return duel_compare(d) && reopen(d);
}
