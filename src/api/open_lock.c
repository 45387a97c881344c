/* open_lock.c - data locks of files that a server has opened for writing, or a transaction reads at LOCKING.
 *
 * The locks of the engine are held by transactions and cover what they have changed. A server needs
 * more: a file that may be written without its knowledge is locked as a whole from its opening on, also
 * by opens outside any transaction. These locks are a set of their own, one per file:
 *
 *                          IS      S       IX      X       ALIKE
 *	plain, append    IS   yes     yes     yes
 *	plain            S    yes     yes
 *	txn, append      IX   yes             yes
 *	txn              X
 *	LOCKING, reads   ALIKE                                yes
 *
 * O1. Owners are the transaction (until it ends), or the plain open itself (until it is closed).
 * O2. Plain changes of data ask, without holding, for what a plain open would hold (the gate); so they
 *     respect a transaction's open even before that has written.
 * O3. Once a server takes open locks, its transactions' changes of data take them too, opened or not.
 *     A program that takes none keeps the byte ranges of the engine.
 * O4. A transaction's lock is granted only if the data is what the transaction sees; so a write that
 *     open(2) has allowed is not refused later (first updater wins, moved to the open).
 * O5. A wait is linked (volume.open_waits) until it is granted, cancelled, or its time is over; who
 *     unlinks it completes it.
 * O6. Who gives up lets others through that were queued behind him: they are unlinked, too. So whoever
 *     goes through the list begins again after each.
 * O8. What LOCKING reads of a file, its size and times included, nobody has open for writing: a write(2), or a
 *     store through a mapping, could not be refused any more. This lock is asked for before all others of the
 *     call: who waits for a program must not be in its way.
 * O9. A plain open that must give way in a deadlock asks again: it holds nothing, so nobody waits for it then.
 * O7. These locks are paired with those of the engine (lock.h), and so are a transaction's two owners: a deadlock
 *     through both is found, and the transaction that gives up is doomed, whichever kind it waits for.
 */
#include "api/api_internal.h"

#include "format/key.h"

#include <sys/stat.h>

struct stet_ll_lock {
	struct stet_lock_owner owner;
};

struct stet_ll_wait {
	struct stet_api_request req;
	struct stet_list link; /* O5 */
	struct stet_ticket ticket;
	struct stet_volume *vol;
	struct stet_tx *tx;        /* referenced, or NULL */
	struct stet_ll_lock *lock; /* plain: owned until handed over */
	uint64_t ino;
	bool append;
	int64_t deadline_ns; /* INT64_MAX: none */
	stet_ll_lock_fn *on_done;
	void *arg;
};

static struct stet_lock_name name_of(uint64_t ino)
{
	return (struct stet_lock_name){ .object = ino, .to = UINT64_MAX, .class = STET_LOCK_DATA };
}

static enum stet_lock_mode mode_of(const struct stet_tx *tx, bool append)
{
	if (tx)
		return append ? STET_LOCK_IX : STET_LOCK_X;
	return append ? STET_LOCK_IS : STET_LOCK_S;
}

/* Says who is in the way. */
static int busy(struct stet_volume *vol, const struct stet_tx *tx, uint64_t ino, bool append)
{
	struct stet_lock_name name = name_of(ino);
	struct stet_lock_owner *blocker = NULL;
	int rc = stet_lock_probe(vol->open_locks, NULL, &name, mode_of(tx, append), false, NULL,
				 &blocker);

	if (rc == -EBUSY && blocker && !blocker->plain)
		return STET_FAIL(-EBUSY, "inode %llu is locked by transaction %llu",
				 (unsigned long long)ino, (unsigned long long)blocker->age);
	return STET_FAIL(-EBUSY, "inode %llu is open for writing", (unsigned long long)ino);
}

/* O4 */
static int check_granted(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino, bool append,
			 int rc)
{
	struct stet_key key;

	if (rc == -EBUSY)
		return busy(vol, tx, ino, append);
	if (!tx)
		return rc;
	if (!rc)
		rc = stet_api_tx_usable_(tx);
	if (rc == -EDEADLK && tx->txn) /* it may have ended before this is told */
		stet_txn_deadlocked(tx->txn);
	if (rc || append)
		return rc;
	stet_key_inode(&key, ino);
	return stet_txn_unchanged(tx->txn, &key, STET_ATTR_SIZE);
}

/* O2. Whoever only waits for a lock is not in the way: the plain open that this belongs to may be what
 * they wait for. */
static int plain_gate(struct stet_api_op *op, const struct stet_lock_name *name, bool append)
{
	struct stet_volume *vol = op->vol;
	enum stet_lock_mode mode = mode_of(NULL, append);
	struct stet_lock_owner *blocker = NULL;
	struct stet_lock_owner *owner = op->queuing ? &op->queuing->open_owner : NULL;
	int rc = stet_lock_probe(vol->open_locks, owner, name, mode, false, NULL, &blocker);

	if (rc != -EBUSY || !blocker)
		return rc;
	if (!stet_lock_held(blocker, name, STET_LOCK_ALIKE) &&
	    (append || !stet_lock_held(blocker, name, STET_LOCK_IX)))
		return 0;
	if (!op->ctx.wait || !owner)
		return STET_FAIL(-EBUSY, "inode %llu is locked by transaction %llu",
				 (unsigned long long)name->object,
				 (unsigned long long)blocker->age);
	return stet_lock_acquire(owner, name, mode, true, op->ctx.ticket, NULL);
}

/* In op->tx. */
static int acquire_in(struct stet_api_op *op, const struct stet_lock_name *name,
		      enum stet_lock_mode mode)
{
	int rc = stet_lock_acquire(&op->tx->open_owner, name, mode, op->ctx.wait, op->ctx.ticket,
				   NULL);

	if (rc == -EDEADLK)
		stet_txn_deadlocked(op->tx->txn);
	return rc;
}

int stet_api_data_gate_(struct stet_api_op *op, uint64_t ino, bool append)
{
	struct stet_lock_name name = name_of(ino);

	if (op->vol->open_lock_age == 0) /* O3 */
		return 0;
	return op->tx ? acquire_in(op, &name, mode_of(op->tx, append))
		      : plain_gate(op, &name, append);
}

int stet_api_read_gate_(struct stet_api_op *op, uint64_t ino)
{
	struct stet_lock_name name = name_of(ino);
	uint32_t type;

	if (op->vol->open_lock_age == 0 || !op->tx || !(op->tx->flags & STET_BEGIN_LOCKING))
		return 0;
	if (stet_fs_get_type(&op->ctx, ino, &type) || type != S_IFREG)
		return 0; /* what is wrong with it, the read says */
	return acquire_in(op, &name, STET_LOCK_ALIKE);
}

static void destroy_lock(struct stet_ll_lock *lock)
{
	if (!lock)
		return;
	stet_lock_release_all(&lock->owner);
	stet_free(lock);
}

/* --- waiting without a thread --- */

static struct stet_lock_owner *owner_of(struct stet_ll_wait *w)
{
	return w->tx ? &w->tx->open_owner : &w->lock->owner;
}

static void granted(struct stet_ticket *ticket, void *arg);

/* O9 */
static int ask_again(struct stet_ll_wait *w)
{
	struct stet_lock_name name = name_of(w->ino);

	stet_lock_release_all(&w->lock->owner);
	stet_ticket_init(&w->ticket, granted, w);
	return stet_lock_acquire(&w->lock->owner, &name, mode_of(NULL, w->append), true, &w->ticket,
				 NULL);
}

static void finish(struct stet_ll_wait *w, int result)
{
	stet_api_assert_locked_(w->vol);
	stet_list_del(&w->link);
	stet_api_async_complete_(w->vol, &w->req, result);
}

static void granted(struct stet_ticket *ticket, void *arg)
{
	struct stet_ll_wait *w = arg;
	int rc = ticket->result;

	if (rc == -EDEADLK && !w->tx)
		rc = ask_again(w);
	if (rc != STET_WAIT)
		finish(w, rc);
}

static void give_up(struct stet_ll_wait *w, int why)
{
	stet_lock_cancel_ticket(owner_of(w), &w->ticket);
	stet_ticket_cancel(&w->ticket);
	finish(w, why);
}

/* Called by the completing thread. */
static void complete(struct stet_api_request *req, int result)
{
	struct stet_ll_wait *w = stet_container_of(req, struct stet_ll_wait, req);
	struct stet_volume *vol = w->vol;

	stet_api_lock_(vol);
	result = check_granted(vol, w->tx, w->ino, w->append, result);
	if (result) {
		destroy_lock(w->lock);
		w->lock = NULL;
	}
	if (result || w->tx)
		vol->handles--;
	stet_api_tx_put_(w->tx);
	stet_api_unlock_(vol);
	w->on_done(w->arg, result, w->lock);
	stet_free(w);
}

/* O6. The first one of tx (NULL: of any) whose time is over; NULL: none. */
static struct stet_ll_wait *first_over(struct stet_volume *vol, const struct stet_tx *tx,
				       int64_t now_ns)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &vol->open_waits) {
		struct stet_ll_wait *w = stet_container_of(pos, struct stet_ll_wait, link);

		if (tx ? w->tx == tx : w->deadline_ns <= now_ns)
			return w;
	}
	return NULL;
}

void stet_api_open_waits_end_(struct stet_tx *tx)
{
	struct stet_ll_wait *w;

	while ((w = first_over(tx->vol, tx, 0)))
		give_up(w, -EAGAIN);
}

int64_t stet_api_open_waits_expire_(struct stet_volume *vol)
{
	int64_t now_ns = stet_clock_mono_ns(stet_api_real_clock_());
	int64_t next_ns = INT64_MAX;
	struct stet_ll_wait *w;
	struct stet_list *pos;

	while ((w = first_over(vol, NULL, now_ns)))
		give_up(w, -EBUSY);
	STET_LIST_FOREACH(pos, &vol->open_waits) {
		w = stet_container_of(pos, struct stet_ll_wait, link);
		if (w->deadline_ns < next_ns)
			next_ns = w->deadline_ns;
	}
	return next_ns;
}

void stet_ll_open_lock_cancel(struct stet_volume *vol, struct stet_ll_wait *wait)
{
	stet_api_lock_(vol);
	if (stet_list_linked(&wait->link)) /* O5 */
		give_up(wait, -EINTR);
	stet_api_unlock_(vol);
}

/* --- the call --- */

struct asking {
	struct stet_volume *vol;
	struct stet_tx *tx;
	struct stet_ll_lock *lock;
	uint64_t ino;
	unsigned flags;
	int64_t deadline_ns;
	stet_ll_lock_fn *on_done;
	void *arg;
};

static int acquire(struct asking *q, struct stet_ticket *ticket)
{
	struct stet_lock_name name = name_of(q->ino);

	return stet_lock_acquire(q->tx ? &q->tx->open_owner : &q->lock->owner, &name,
				 mode_of(q->tx, q->flags & STET_LL_APPEND),
				 !(q->flags & STET_LL_NOWAIT), ticket, NULL);
}

static int wait_here(struct asking *q, struct stet_api_waiter *w)
{
	struct stet_volume *vol = q->vol;
	bool in_time = true;

	stet_api_assert_locked_(vol);
	if (q->tx)
		stet_list_add_tail(&q->tx->waiters, &w->link);
	while (!w->ticket.fired && !w->cancelled && in_time) {
		if (q->deadline_ns == INT64_MAX)
			stet_cond_wait(&w->cond, &vol->lock);
		else
			in_time = stet_cond_timedwait(&w->cond, &vol->lock, q->deadline_ns);
	}
	stet_list_del(&w->link);
	if (w->cancelled)
		return STET_FAIL(-EAGAIN, "the transaction was ended while a call waited in it");
	if (w->ticket.fired)
		return w->ticket.result;
	stet_lock_cancel_ticket(q->tx ? &q->tx->open_owner : &q->lock->owner, &w->ticket);
	return -EBUSY;
}

static int ask_here(struct asking *q)
{
	struct stet_api_waiter w;
	int rc;

	stet_api_assert_locked_(q->vol);
	stet_api_waiter_init_(&w);
	stet_api_tx_get_(q->tx);
	rc = acquire(q, &w.ticket);
	if (rc == STET_WAIT)
		rc = wait_here(q, &w);
	while (rc == -EDEADLK && !q->tx) { /* O9 */
		stet_lock_release_all(&q->lock->owner);
		stet_api_waiter_rearm_(&w);
		rc = acquire(q, &w.ticket);
		if (rc == STET_WAIT)
			rc = wait_here(q, &w);
	}
	rc = check_granted(q->vol, q->tx, q->ino, q->flags & STET_LL_APPEND, rc);
	stet_api_tx_put_(q->tx);
	stet_api_waiter_release_(&w);
	return rc;
}

static int ask_async(struct asking *q, struct stet_ll_wait **ret_wait)
{
	struct stet_volume *vol = q->vol;
	struct stet_ll_wait *w;
	int rc;

	stet_api_assert_locked_(vol);
	rc = stet_api_async_start_(vol);
	if (rc)
		return rc;
	w = stet_calloc(1, sizeof(*w));
	if (!w)
		return STET_FAIL(-ENOMEM, "no memory for a request");
	stet_ticket_init(&w->ticket, granted, w);
	stet_list_init(&w->link);
	stet_list_init(&w->req.link);
	rc = acquire(q, &w->ticket);
	if (rc != STET_WAIT) {
		stet_free(w);
		return check_granted(q->vol, q->tx, q->ino, q->flags & STET_LL_APPEND, rc);
	}
	w->req.complete = complete;
	w->vol = vol;
	w->tx = stet_api_tx_get_(q->tx);
	w->lock = q->lock;
	w->ino = q->ino;
	w->append = q->flags & STET_LL_APPEND;
	w->deadline_ns = q->deadline_ns;
	w->on_done = q->on_done;
	w->arg = q->arg;
	stet_list_add_tail(&vol->open_waits, &w->link);
	stet_api_async_accept_(vol);
	stet_api_async_poke_(vol); /* the deadline may be its next */
	if (ret_wait)
		*ret_wait = w;
	return STET_WAIT;
}

static int make_lock(struct stet_volume *vol, struct stet_ll_lock **ret)
{
	struct stet_ll_lock *lock = stet_calloc(1, sizeof(*lock));

	if (!lock)
		return STET_FAIL(-ENOMEM, "no memory for a lock");
	stet_lock_owner_init(&lock->owner, vol->open_locks,
			     STET_API_PLAIN_AGE + vol->open_lock_age);
	lock->owner.plain = true;
	*ret = lock;
	return 0;
}

static int ask(struct asking *q, struct stet_ll_lock **ret_lock, struct stet_ll_wait **ret_wait)
{
	struct stet_volume *vol = q->vol;
	int rc = q->tx ? stet_api_tx_usable_(q->tx) : 0;

	stet_api_assert_locked_(vol);
	vol->open_lock_age++;
	if (!rc && !q->tx)
		rc = make_lock(vol, &q->lock);
	if (rc)
		return rc;
	vol->handles++;
	rc = q->on_done ? ask_async(q, ret_wait) : ask_here(q);
	if (rc == STET_WAIT)
		return rc;
	if (rc || q->tx)
		vol->handles--;
	if (rc)
		destroy_lock(q->lock);
	else if (ret_lock)
		*ret_lock = q->lock;
	return rc;
}

int stet_api_open_made_(struct stet_api_op *op, uint64_t ino, unsigned flags,
			struct stet_ll_lock **ret_lock)
{
	struct asking q = {
		.vol = op->vol,
		.tx = op->tx,
		.ino = ino,
		.flags = flags | STET_LL_NOWAIT,
		.deadline_ns = INT64_MAX,
	};

	return ask(&q, ret_lock, NULL);
}

int stet_ll_open_lock(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, unsigned flags,
		      uint32_t timeout_ms, stet_ll_lock_fn *on_done, void *arg,
		      struct stet_ll_lock **ret_lock, struct stet_ll_wait **ret_wait)
{
	struct asking q = {
		.vol = vol,
		.tx = txn,
		.ino = ino,
		.flags = flags,
		.deadline_ns = INT64_MAX,
		.on_done = on_done,
		.arg = arg,
	};
	int rc;

	stet_error_clear();
	rc = stet_api_check_handle_(vol);
	if (rc)
		return rc;
	if ((flags & ~(STET_LL_NOWAIT | STET_LL_APPEND)) || (!txn && !on_done && !ret_lock))
		return STET_FAIL(-EINVAL, "open lock: flags 0x%x", flags);
	if (timeout_ms)
		q.deadline_ns = stet_clock_mono_ns(stet_api_real_clock_()) +
				(int64_t)timeout_ms * 1000000;
	stet_api_lock_(vol);
	rc = ask(&q, ret_lock, ret_wait);
	stet_api_unlock_(vol);
	return rc;
}

int stet_api_use_open_locks(struct stet_volume *vol, bool use)
{
	int rc = stet_api_check_handle_(vol);

	if (rc || !use)
		return rc;
	stet_api_lock_(vol);
	vol->open_lock_age++;
	stet_api_unlock_(vol);
	return 0;
}

void stet_ll_close_lock(struct stet_volume *vol, struct stet_ll_lock *lock)
{
	if (!lock)
		return;
	stet_api_lock_(vol);
	destroy_lock(lock);
	vol->handles--;
	stet_api_unlock_(vol);
}
