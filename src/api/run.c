/* run.c - runs one operation: plain or in a transaction, waiting and starting anew where it must.
 *
 * R1. A plain operation is made and ordered under one hold of the lock, so it is atomic and never leaves
 *     anything staged. When it must wait its transaction is ended first: nothing was changed.
 * R2. In a transaction an operation that waits starts anew when its ticket fires; other threads may use
 *     the transaction meanwhile. If the transaction is ended meanwhile, the wait ends with -EAGAIN
 *     (-ESTALE, if it was open for too long, or dropped).
 * R3. After an operation the transaction may have to place data early (spill): other operations in it
 *     wait for that, because the job works on its write-set. Where that cannot be done the operation has been made
 *     all the same; the next one that changes something does it first, waiting for room, or fails.
 * R4. A plain operation that is made for a user (who.c) while there is a watch has to be told: it is a LOCKING
 *     transaction of its own, so it sees what is current, waits as a plain one does, and is published as
 *     transactions are. It locks only what it changes (N10 of txn.c). If it must give way to others it is made again.
 * R5. A call that waits for a lock longer than stet_lock_timeout() says gives the wait up; the transaction, and
 *     what it has locked, stay as they are. Waiting for space is not meant.
 * R6. A transaction whose wait ended with -EDEADLK is doomed: the call failed, and is not made again.
 * R7. In a deadlock a plain operation gives way: it has changed nothing, and is made again. But when it has done so
 *     often, it counts as old as it is; so sooner or later it is the oldest, and others give way.
 * R8. An operation that makes several changes, any of which may be refused or may have to wait, says so before the first
 *     (stet_api_in_parts_): in a transaction those made are taken back then. A call of several operations that must be
 *     made as a whole has the transaction for itself meanwhile (savepoint.c).
 */
#include "api/api_internal.h"

#define TOLD_TRIES 100  /* conflicts */
#define GIVES_WAY_MAX 8 /* R7 */

static void let_go(struct stet_api_op *op)
{
	if (op->held)
		stet_fs_unhold(op->vol->fs, op->held);
	op->held = 0;
}

int stet_api_hold_(struct stet_api_op *op, uint64_t ino)
{
	int rc = stet_fs_hold(op->vol->fs, ino);

	if (!rc)
		op->held = ino;
	else if (op->tx)
		stet_txn_doom(op->ctx.txn, rc); /* what came before cannot be taken back */
	return rc;
}

static int look_afterwards(struct stet_api_op *op, stet_api_op_fn *after, void *arg)
{
	int rc = stet_txn_begin(op->vol->engine, STET_LEVEL_PLAIN, true, &op->ctx.txn);

	if (rc)
		return rc;
	rc = after(op, arg);
	stet_txn_end(op->ctx.txn);
	return rc;
}

/* The end of a plain operation: rc, or what `after` says. */
static int finish_plain(struct stet_api_op *op, int rc, stet_api_op_fn *after, void *arg)
{
	if (!rc && after)
		rc = look_afterwards(op, after, arg);
	if (rc)
		let_go(op);
	return rc;
}

/* R7 */
static uint64_t age_of(const struct stet_api_queuing *q)
{
	return q->gave_way < GIVES_WAY_MAX ? STET_API_PLAIN_AGE + q->id : q->id;
}

static void queue_begin(struct stet_api_op *op)
{
	struct stet_api_queuing *q = op->queuing;

	if (q->id == 0) {
		q->id = stet_txn_id(op->ctx.txn);
		stet_engine_lock_owner(op->vol->engine, &q->owner, age_of(q));
		stet_lock_owner_init(&q->open_owner, op->vol->open_locks, age_of(q));
		stet_lock_owner_pair(&q->owner, &q->open_owner);
		q->owner.plain = q->open_owner.plain = true;
	}
	stet_txn_stand_in(op->ctx.txn, &q->owner);
}

/* Mostly it has never waited. */
static void let_locks_go(struct stet_lock_owner *owner)
{
	if (owner->held_count > 0 || owner->waiting)
		stet_lock_release_all(owner);
}

static void queue_give_way(struct stet_api_queuing *q)
{
	stet_lock_release_all(&q->owner);
	stet_lock_release_all(&q->open_owner);
	q->gave_way++;
	q->owner.age = q->open_owner.age = age_of(q);
}

static void queue_end(struct stet_api_queuing *q)
{
	if (q->id == 0)
		return;
	stet_lock_owner_part(&q->owner);
	let_locks_go(&q->owner);
	let_locks_go(&q->open_owner);
}

static int try_plain(struct stet_api_op *op, bool read_only, stet_api_op_fn *fn, void *arg)
{
	uint64_t serial;
	int rc = stet_txn_begin(op->vol->engine, STET_LEVEL_PLAIN, read_only, &op->ctx.txn);

	if (rc)
		return rc;
	if (!read_only)
		queue_begin(op);
	rc = fn(op, arg);
	if (!rc && !read_only)
		rc = stet_txn_order(op->ctx.txn, op->ctx.ticket, &serial);
	stet_txn_end(op->ctx.txn);
	return rc;
}

/* Who waits for room keeps nobody waiting meanwhile: what makes room may need these locks. */
static int wait_plain(struct stet_api_op *op, struct stet_api_waiter *w)
{
	struct stet_api_queuing *q = op->queuing;

	stet_api_assert_locked_(op->vol);
	w->for_lock = q->id && (stet_lock_waits(&q->owner, &w->ticket) ||
				stet_lock_waits(&q->open_owner, &w->ticket));
	if (!w->for_lock && q->id) {
		let_locks_go(&q->owner);
		let_locks_go(&q->open_owner);
	}
	return stet_api_wait_op_(op->vol, w, INT64_MAX);
}

static int run_plain(struct stet_api_op *op, struct stet_api_waiter *w, unsigned flags,
		     stet_api_op_fn *fn, stet_api_op_fn *after, void *arg)
{
	struct stet_api_queuing queuing = { .id = 0 };
	bool again = true;
	int rc = 0;

	stet_api_assert_locked_(op->vol);
	op->queuing = &queuing;
	while (again) {
		rc = try_plain(op, flags & STET_API_READ, fn, arg);
		again = rc == STET_WAIT || rc == -EDEADLK;
		if (!again)
			break;
		let_go(op);
		if (rc == STET_WAIT)
			rc = wait_plain(op, w);
		again = !rc || rc == -EDEADLK;
		if (rc == -EDEADLK)
			queue_give_way(&queuing);
		stet_api_waiter_rearm_(w);
	}
	queue_end(&queuing);
	op->queuing = NULL;
	return finish_plain(op, rc, after, arg);
}

static bool waits_for_lock(const struct stet_tx *tx, const struct stet_api_waiter *w)
{
	return stet_txn_waits_for_lock(tx->txn, &w->ticket) ||
	       stet_lock_waits(&tx->open_owner, &w->ticket);
}

/* R5. The time of the call's first wait counts. */
static int64_t deadline_of(const struct stet_tx *tx, const struct stet_api_waiter *w,
			   int64_t *since_ns)
{
	int64_t now_ns = stet_clock_mono_ns(stet_api_real_clock_());

	if (*since_ns == 0)
		*since_ns = now_ns;
	if (tx->lock_timeout_ms == 0 || !w->for_lock)
		return INT64_MAX;
	return *since_ns + (int64_t)tx->lock_timeout_ms * 1000000;
}

/* The time is over, or nobody wants the answer any more. */
static int gave_up(struct stet_tx *tx, struct stet_api_waiter *w, int rc)
{
	uint64_t by = stet_api_waiting_for_(tx);

	stet_txn_cancel_wait(tx->txn, &w->ticket);
	stet_lock_cancel_ticket(&tx->open_owner, &w->ticket);
	if (rc == -EINTR)
		return rc;
	if (by)
		return STET_FAIL(-ETIMEDOUT, "still locked by transaction %llu after %u ms",
				 (unsigned long long)by, tx->lock_timeout_ms);
	return STET_FAIL(-ETIMEDOUT, "still locked after %u ms", tx->lock_timeout_ms);
}

static int wait_in_tx(struct stet_tx *tx, struct stet_api_waiter *w, int64_t *since_ns)
{
	int64_t deadline_ns;
	int rc;

	stet_api_assert_locked_(tx->vol);
	stet_list_add_tail(&tx->waiters, &w->link);
	w->for_lock = waits_for_lock(tx, w);
	deadline_ns = deadline_of(tx, w, since_ns);
	rc = stet_api_wait_op_(tx->vol, w, deadline_ns);
	stet_list_del(&w->link);
	if (rc == -ETIMEDOUT || rc == -EINTR)
		rc = gave_up(tx, w, rc);
	if (rc == -EDEADLK) {
		if (!stet_api_tx_usable_(tx))
			stet_txn_deadlocked(tx->txn);
		rc = STET_FAIL(-EDEADLK, "deadlock, the youngest of the cycle gives up");
	}
	if (!rc || (rc == -EAGAIN && tx->state == STET_API_TX_EXPIRED))
		rc = stet_api_tx_usable_(tx);
	stet_api_waiter_rearm_(w);
	return rc;
}

static int wait_turn(struct stet_tx *tx, bool inside)
{
	stet_api_assert_locked_(tx->vol);
	while (tx->spilling || (tx->alone && !inside))
		stet_cond_wait(&tx->turn, &tx->vol->lock);
	return stet_api_tx_usable_(tx);
}

int stet_api_wait_turn_(struct stet_tx *tx)
{
	return wait_turn(tx, false);
}

/* As stet_api_run_ has the flags. */
static int wait_open(struct stet_tx *tx, unsigned flags)
{
	int rc = wait_turn(tx, flags & STET_API_INSIDE);

	if (!rc && tx->frozen && !(flags & STET_API_READ))
		rc = STET_FAIL(-EROFS, "the transaction takes no more changes");
	return rc;
}

int stet_api_wait_whole_(struct stet_tx *tx)
{
	int rc;

	stet_api_assert_locked_(tx->vol);
	stet_api_tx_get_(tx);
	while (tx->alone)
		stet_cond_wait(&tx->turn, &tx->vol->lock);
	rc = stet_api_tx_usable_(tx);
	stet_api_tx_put_(tx);
	return rc;
}

int stet_api_wait_turn_to_change_(struct stet_tx *tx)
{
	return wait_open(tx, 0);
}

/* R3 */
static int spill(struct stet_tx *tx)
{
	struct stet_job *job = NULL;
	int rc;

	stet_api_assert_locked_(tx->vol);
	if (tx->spilling || stet_api_tx_usable_(tx) || stet_txn_doomed(tx->txn))
		return 0;
	tx->spilling = true;
	while ((rc = stet_txn_spill(tx->txn, &job)) == 1)
		stet_api_run_job_(tx->vol, job);
	tx->spilling = false;
	tx->must_spill = rc != 0;
	stet_cond_broadcast(&tx->turn);
	return rc;
}

/* R3 */
static int spill_first(struct stet_api_op *op)
{
	int rc = spill(op->tx);

	if (rc != -ENOSPC)
		return rc;
	rc = stet_txn_spill_room(op->tx->txn, op->ctx.ticket);
	return rc ? rc : spill(op->tx);
}

/* What comes before an operation. STET_WAIT, too. */
static int get_ready(struct stet_api_op *op, unsigned flags)
{
	bool changes = !(flags & STET_API_READ);
	struct stet_tx *tx = op->tx;
	int rc = wait_open(tx, flags);

	if (!rc && changes && tx->must_spill) {
		rc = spill_first(op);
		if (!rc)
			rc = wait_open(tx, flags); /* others had the lock meanwhile */
	}
	if (!rc && (changes || (tx->flags & STET_BEGIN_LOCKING)))
		rc = stet_api_check_limits_(tx);
	if (!rc && changes)
		rc = stet_api_part_changes_(tx, op->part);
	return rc;
}

/* --- several changes at once (R8) --- */

int stet_api_in_parts_(struct stet_api_op *op)
{
	if (!op->tx || op->parts)
		return 0;
	return stet_txn_savepoint(op->ctx.txn, &op->parts);
}

/* The end of the operation. A transaction that is doomed has nothing to take back. */
static int end_parts(struct stet_api_op *op, int rc)
{
	if (op->parts && !stet_txn_doomed(op->ctx.txn)) {
		if (rc)
			stet_ignore(stet_txn_rollback_to(op->ctx.txn, op->parts),
				    "it dooms the transaction then");
		if (!stet_txn_doomed(op->ctx.txn))
			stet_ignore(stet_txn_savepoint_release(op->ctx.txn, op->parts),
				    "it is there");
	}
	op->parts = 0;
	return rc;
}

/* At LOCKING looking may have to wait, too. */
static int look_in_tx(struct stet_api_op *op, struct stet_api_waiter *w, unsigned flags,
		      stet_api_op_fn *after, void *arg, int64_t *since_ns)
{
	int rc;

	while ((rc = after(op, arg)) == STET_WAIT) {
		rc = wait_in_tx(op->tx, w, since_ns);
		if (!rc)
			rc = wait_turn(op->tx, flags & STET_API_INSIDE);
		if (rc)
			return rc;
	}
	return rc;
}

static int run_in_tx(struct stet_api_op *op, struct stet_api_waiter *w, unsigned flags,
		     stet_api_op_fn *fn, stet_api_op_fn *after, void *arg)
{
	struct stet_tx *tx = op->tx;
	bool changes = !(flags & STET_API_READ);
	int64_t since_ns = 0;
	int rc;

	do {
		rc = get_ready(op, flags);
		if (!rc) {
			op->ctx.txn = tx->txn;
			stet_api_told_begin_(op);
			rc = end_parts(op, fn(op, arg));
			stet_api_told_end_(op);
		}
		if (rc == STET_WAIT) {
			let_go(op);
			rc = wait_in_tx(tx, w, &since_ns);
			if (!rc)
				rc = STET_WAIT;
		}
	} while (rc == STET_WAIT);
	if (!rc && after)
		rc = look_in_tx(op, w, flags, after, arg, &since_ns);
	if (rc)
		let_go(op);
	if (!rc && changes) {
		stet_api_changed_(tx, op->part);
		stet_ignore(spill(tx), "R3");
	}
	return rc;
}

/* R4 */
static int try_told(struct stet_api_op *op, struct stet_api_waiter *w, unsigned flags,
		    stet_api_op_fn *fn, void *arg, struct stet_api_queuing *q)
{
	struct stet_volume *vol = op->vol;
	uint64_t serial;
	int rc;

	stet_api_assert_locked_(vol);
	rc = stet_api_begin_(vol, STET_BEGIN_LOCKING, true, &op->tx);
	if (rc)
		return rc;
	if (q->id == 0)
		q->id = op->tx->id;
	stet_txn_set_plain(op->tx->txn, age_of(q));
	op->tx->open_owner.age = age_of(q);
	op->tx->open_owner.plain = true;
	rc = run_in_tx(op, w, flags, fn, NULL, arg);
	if (!rc) {
		op->tx->state = STET_API_TX_COMMITTING;
		rc = stet_api_publish_(op->tx, &serial);
	}
	stet_api_end_(op->tx);
	op->tx = NULL;
	if (rc)
		let_go(op);
	return rc;
}

static int run_told(struct stet_api_op *op, struct stet_api_waiter *w, unsigned flags,
		    stet_api_op_fn *fn, stet_api_op_fn *after, void *arg)
{
	struct stet_api_queuing queuing = { .id = 0 }; /* its owners are the transaction's */
	unsigned conflicts = 0;
	bool again = true;
	int rc = 0;

	stet_api_assert_locked_(op->vol);
	while (again) {
		rc = try_told(op, w, flags, fn, arg, &queuing);
		conflicts += rc == -EBUSY;
		queuing.gave_way += rc == -EDEADLK;
		again = rc == -EDEADLK ||
			(rc == -EBUSY && !(flags & STET_LL_NOWAIT) && conflicts < TOLD_TRIES);
		stet_api_waiter_rearm_(w);
	}
	return finish_plain(op, rc, after, arg);
}

int stet_api_run_(struct stet_volume *vol, struct stet_tx *tx, unsigned flags, stet_api_op_fn *fn,
		  stet_api_op_fn *after, void *arg)
{
	struct stet_api_waiter w;
	struct stet_api_told told;
	struct stet_api_op op = {
		.ctx = { .fs = vol ? vol->fs : NULL,
			 .ticket = &w.ticket,
			 .wait = !(flags & STET_LL_NOWAIT) },
		.who = stet_api_who_(),
		.vol = vol,
		.tx = tx,
	};
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_error_clear();
	if (tx && tx->vol != vol)
		return STET_FAIL(-EINVAL, "the transaction is of another volume");
	if (tx && !(flags & STET_API_READ) && stet_api_wants_told_()) {
		stet_api_told_init(&told, tx->id);
		op.told = &told;
	}
	op.part = stet_api_part_of_(tx);
	stet_api_lock_(vol);
	stet_api_waiter_init_(&w);
	if (tx) {
		stet_api_tx_get_(tx);
		rc = run_in_tx(&op, &w, flags, fn, after, arg);
		stet_api_tx_put_(tx);
	} else if (op.who && vol->watch && !(flags & STET_API_READ)) {
		rc = run_told(&op, &w, flags, fn, after, arg);
	} else {
		rc = run_plain(&op, &w, flags, fn, after, arg);
	}
	stet_api_waiter_release_(&w);
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
	if (op.told)
		stet_api_told_send_(op.told);
	return rc;
}
