/* transaction.c - the handles of transactions: begin, commit, abort.
 *
 * T1. States: OPEN -> COMMITTING -> ENDED, or -> FAILED -> ENDED; OPEN -> ENDED by abort; OPEN or FAILED ->
 *     EXPIRED -> ENDED. Only in OPEN do calls in it run; txn is NULL exactly in ENDED, in EXPIRED, and in FAILED after it
 *     was ordered.
 * T2. The object lives while somebody refers to it: the handle, files and listings opened in it, calls in
 *     progress. So calls that wait may find it ended, but never gone.
 * T3. Between BEFORE and AFTER of the watch no other watched transaction is published.
 * T4. Nobody performs a job of the transaction when it is ended (spilling is waited for).
 */
#include "api/api_internal.h"

#include "base/text.h"

#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define BEGIN_LEVELS (STET_BEGIN_SNAPSHOT | STET_BEGIN_SERIALIZABLE | STET_BEGIN_LOCKING)

/* --- life --- */

struct stet_tx *stet_api_tx_get_(struct stet_tx *tx)
{
	if (tx)
		tx->refs++;
	return tx;
}

static void forget_dirty(struct stet_tx *tx)
{
	struct stet_hash_node *node;

	while ((node = stet_hash_first(&tx->dirty))) {
		stet_hash_remove(&tx->dirty, node);
		stet_free(stet_container_of(node, struct stet_api_dirty, node));
	}
	stet_hash_release(&tx->dirty);
}

void stet_api_tx_put_(struct stet_tx *tx)
{
	if (!tx || --tx->refs > 0)
		return;
	STET_ASSERT(!tx->txn); /* T1 */
	stet_cond_destroy(&tx->turn);
	forget_dirty(tx);
	stet_free(tx);
}

int stet_api_tx_usable_(const struct stet_tx *tx)
{
	switch (tx->state) {
	case STET_API_TX_OPEN:
		return 0;
	case STET_API_TX_ENDED:
		return STET_FAIL(-ESTALE, "the transaction has ended");
	case STET_API_TX_EXPIRED:
		return STET_FAIL(-ESTALE, "the transaction was ended: it was open for too long, or "
					  "somebody dropped it");
	case STET_API_TX_COMMITTING:
	case STET_API_TX_FAILED:
		break;
	}
	return STET_FAIL(-EAGAIN, "the transaction is being committed");
}

/* --- for serve/ --- */

void stet_api_txn_pin(struct stet_tx *txn)
{
	stet_api_lock_(txn->vol);
	stet_api_tx_get_(txn);
	stet_api_unlock_(txn->vol);
}

void stet_api_txn_unpin(struct stet_tx *txn)
{
	struct stet_volume *vol = txn->vol;

	stet_api_lock_(vol);
	stet_api_tx_put_(txn);
	stet_api_unlock_(vol);
}

unsigned stet_api_txn_flags(const struct stet_tx *txn)
{
	return txn->flags;
}

bool stet_api_txn_has_ended(struct stet_tx *txn)
{
	bool ended;

	stet_api_lock_(txn->vol);
	ended = txn->state == STET_API_TX_ENDED;
	stet_api_unlock_(txn->vol);
	return ended;
}

/* --- begin --- */

/* 0 or -EINVAL; *ret_flags with the level filled in. */
static int choose_level(unsigned flags, unsigned *ret_flags, enum stet_level *ret_level)
{
	unsigned level = flags & BEGIN_LEVELS;

	int rc = stet_api_check_flags_(flags, BEGIN_LEVELS | STET_BEGIN_READ_ONLY | STET_LOCK_PAGE);

	if (rc)
		return rc;
	if (level == 0)
		level = flags & STET_BEGIN_READ_ONLY ? STET_BEGIN_SNAPSHOT
						     : STET_BEGIN_SERIALIZABLE;
	if (level == STET_BEGIN_SNAPSHOT)
		*ret_level = STET_LEVEL_SNAPSHOT;
	else if (level == STET_BEGIN_SERIALIZABLE)
		*ret_level = STET_LEVEL_SERIALIZABLE;
	else if (level == STET_BEGIN_LOCKING)
		*ret_level = STET_LEVEL_LOCKING;
	else
		return STET_FAIL(-EINVAL, "more than one level");
	if ((flags & STET_LOCK_PAGE) && level != STET_BEGIN_LOCKING)
		return STET_FAIL(-EINVAL, "pages are locked at the level LOCKING only");
	*ret_flags = level | (flags & (STET_BEGIN_READ_ONLY | STET_LOCK_PAGE));
	return 0;
}

int stet_api_check_begin(unsigned flags)
{
	enum stet_level level;
	unsigned all;

	return choose_level(flags, &all, &level);
}

/* The handle of a transaction that was begun; ends it on failure. */
static int make(struct stet_volume *vol, struct stet_txn *txn, unsigned flags, bool internal,
		struct stet_tx **ret) STET_REQUIRES(vol->lock);
static int make(struct stet_volume *vol, struct stet_txn *txn, unsigned flags, bool internal,
		struct stet_tx **ret)
{
	const struct stet_ll_who *who = internal ? NULL : stet_api_who_();
	struct stet_tx *tx = stet_calloc(1, sizeof(*tx));

	if (!tx) {
		stet_txn_end(txn);
		return STET_FAIL(-ENOMEM, "no memory for a transaction");
	}
	tx->txn = txn;
	tx->vol = vol;
	tx->id = stet_txn_id(tx->txn);
	tx->flags = flags;
	tx->internal = internal;
	tx->for_user = who;
	tx->uid = tx->holder = who ? who->uid : vol->uid;
	tx->pid = who ? who->pid : getpid();
	tx->begun_ns = stet_clock_mono_ns(stet_api_real_clock_());
	tx->refs = 1;
	stet_list_add_tail(&vol->txs, &tx->link);
	stet_list_init(&tx->waiters);
	stet_cond_init(&tx->turn);
	stet_hash_init(&tx->dirty, 4);
	stet_lock_owner_init(&tx->open_owner, vol->open_locks, tx->id);
	stet_txn_pair_owner(tx->txn, &tx->open_owner);
	vol->handles += !internal;
	if (tx->for_user && vol->limits.max_age_ms)
		stet_api_worker_kick_(vol, true);
	*ret = tx;
	return 0;
}

int stet_api_begin_(struct stet_volume *vol, unsigned flags, bool internal, struct stet_tx **ret)
{
	enum stet_level level;
	struct stet_txn *txn;
	int rc = choose_level(flags, &flags, &level);

	if (!rc && level == STET_LEVEL_LOCKING && !internal)
		rc = stet_api_permit_locking_(vol);
	if (!rc)
		rc = stet_txn_begin(vol->engine, level, flags & STET_BEGIN_READ_ONLY, &txn);
	if (!rc && (flags & STET_LOCK_PAGE))
		stet_txn_lock_pages(txn);
	return rc ? rc : make(vol, txn, flags, internal, ret);
}

/* What tx saw when it began. */
static int begin_like(struct stet_tx *tx, bool internal, struct stet_tx **ret)
{
	const unsigned flags = STET_BEGIN_SNAPSHOT | STET_BEGIN_READ_ONLY;
	struct stet_txn *txn;
	int rc;

	stet_api_assert_locked_(tx->vol);
	if (!tx->txn)
		return STET_FAIL(-ESTALE, "the transaction has ended");
	rc = stet_txn_begin_like(tx->txn, &txn);
	return rc ? rc : make(tx->vol, txn, flags, internal, ret);
}

/* Ends what lies below; waiting calls are let go. */
static void end_below(struct stet_tx *tx)
{
	struct stet_list *pos;

	stet_api_assert_locked_(tx->vol);
	while (tx->spilling) /* T4 */
		stet_cond_wait(&tx->turn, &tx->vol->lock);
	stet_api_open_waits_end_(tx);
	stet_lock_release_all(&tx->open_owner);
	stet_txn_end(tx->txn);
	tx->txn = NULL;
	STET_LIST_FOREACH(pos, &tx->waiters) {
		struct stet_api_waiter *w = stet_container_of(pos, struct stet_api_waiter, link);

		stet_ticket_cancel(&w->ticket);
		w->cancelled = true;
		stet_cond_signal(&w->cond);
	}
}

void stet_api_end_(struct stet_tx *tx)
{
	tx->state = STET_API_TX_ENDED;
	if (tx->txn)
		end_below(tx);
	stet_list_del(&tx->link);
	tx->vol->handles -= !tx->internal;
	stet_api_tx_put_(tx);
}

int stet_api_view_begin_(struct stet_volume *vol, struct stet_tx **ret)
{
	int rc;

	stet_api_lock_(vol);
	rc = stet_api_begin_(vol, STET_BEGIN_READ_ONLY, true, ret);
	stet_api_unlock_(vol);
	return rc;
}

int stet_api_view_like_(struct stet_tx *tx, struct stet_tx **ret)
{
	int rc;

	stet_api_lock_(tx->vol);
	rc = begin_like(tx, true, ret);
	stet_api_unlock_(tx->vol);
	return rc;
}

void stet_api_view_end_(struct stet_tx *view)
{
	struct stet_volume *vol = view->vol;

	stet_api_lock_(vol);
	stet_api_end_(view);
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
}

/* Until there is some room, as far as waiting helps. -EINTR: given up (serving.h). */
static int wait_to_begin(struct stet_volume *vol) STET_REQUIRES(vol->lock);
static int wait_to_begin(struct stet_volume *vol)
{
	struct stet_api_waiter w;
	int rc = 0;

	stet_api_waiter_init_(&w);
	while (!rc && stet_txn_wait_to_begin(vol->engine, &w.ticket) == STET_WAIT) {
		rc = stet_api_wait_op_(vol, &w, INT64_MAX);
		stet_api_waiter_rearm_(&w);
	}
	stet_api_waiter_release_(&w);
	return rc == -EINTR ? rc : 0; /* what else there is, begin says itself */
}

int stet_begin(struct stet_volume *vol, unsigned flags, struct stet_tx **ret_txn)
{
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_error_clear();
	stet_api_lock_(vol);
	if (!(flags & STET_BEGIN_READ_ONLY))
		rc = wait_to_begin(vol);
	if (!rc)
		rc = stet_api_begin_(vol, flags, false, ret_txn);
	stet_api_unlock_(vol);
	return rc;
}

int stet_begin_base(struct stet_tx *txn, struct stet_tx **ret_txn)
{
	int rc = stet_api_check_handle_(txn);

	if (rc)
		return rc;
	stet_error_clear();
	stet_api_lock_(txn->vol);
	rc = stet_api_tx_usable_(txn);
	if (!rc)
		rc = begin_like(txn, false, ret_txn);
	stet_api_unlock_(txn->vol);
	return rc;
}

int stet_ll_set_limits(struct stet_volume *vol, const struct stet_ll_limits *limits)
{
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_api_lock_(vol);
	vol->limits = *limits;
	stet_api_worker_kick_(vol, true);
	stet_api_unlock_(vol);
	return 0;
}

void stet_ll_set_user(struct stet_tx *txn, uint32_t uid)
{
	stet_api_lock_(txn->vol);
	txn->holder = uid;
	stet_api_unlock_(txn->vol);
}

static uint64_t held_bytes(const struct stet_tx *tx)
{
	return tx->txn ? stet_txn_held_bytes(tx->txn) + tx->open_owner.held_bytes : 0;
}

static int check_staged(const struct stet_tx *tx)
{
	uint64_t most = tx->vol->limits.max_staged_bytes, staged;

	if (most == 0)
		return 0;
	staged = stet_txn_staged_bytes(tx->txn);
	if (staged >= most)
		return STET_FAIL(-EDQUOT,
				 "the transaction has staged %llu bytes, as much as one may",
				 (unsigned long long)most);
	if (staged + held_bytes(tx) >= most)
		return STET_FAIL(-EDQUOT,
				 "what the transaction has staged, its locks and savepoints take "
				 "%llu bytes, as much as one may",
				 (unsigned long long)most);
	return 0;
}

/* The sum is made anew only when this one has grown by so much. */
#define HELD_STEP (UINT64_C(64) << 10)

static int check_held(struct stet_tx *tx)
{
	uint64_t most = tx->vol->limits.max_held_bytes, sum = 0;
	struct stet_list *pos;

	if (most == 0 || tx->holder == 0 || tx->holder == tx->vol->uid ||
	    held_bytes(tx) < tx->held_seen)
		return 0;
	STET_LIST_FOREACH(pos, &tx->vol->txs) {
		const struct stet_tx *other = stet_container_of(pos, struct stet_tx, link);

		if (other->holder == tx->holder)
			sum += held_bytes(other);
	}
	if (sum >= most)
		return STET_FAIL(-EDQUOT,
				 "locks and savepoints of user %u take %llu bytes, as much as one "
				 "user's may",
				 (unsigned)tx->holder, (unsigned long long)most);
	tx->held_seen = held_bytes(tx) + HELD_STEP;
	return 0;
}

int stet_api_check_limits_(struct stet_tx *tx)
{
	int rc;

	stet_api_assert_locked_(tx->vol);
	rc = check_staged(tx);
	return rc ? rc : check_held(tx);
}

/* What it has open gives -ESTALE from now on. */
static void expire(struct stet_tx *tx)
{
	stet_api_assert_locked_(tx->vol);
	tx->state = STET_API_TX_EXPIRED;
	if (tx->txn)
		end_below(tx);
}

int64_t stet_api_txs_expire_(struct stet_volume *vol)
{
	int64_t max_ns = vol->limits.max_age_ms > INT64_MAX / NS_PER_MS / 2
				 ? INT64_MAX / 2
				 : (int64_t)vol->limits.max_age_ms * NS_PER_MS;
	int64_t now_ns = stet_clock_mono_ns(stet_api_real_clock_());
	struct stet_list *pos, *tmp;

	if (max_ns == 0)
		return INT64_MAX;
	STET_LIST_FOREACH_SAFE(pos, tmp, &vol->txs) { /* oldest first */
		struct stet_tx *tx = stet_container_of(pos, struct stet_tx, link);

		if (!tx->for_user ||
		    (tx->state != STET_API_TX_OPEN && tx->state != STET_API_TX_FAILED))
			continue;
		if (tx->begun_ns + max_ns > now_ns)
			return tx->begun_ns + max_ns;
		if (tx->spilling)
			return now_ns; /* the end of that wakes the worker */
		expire(tx);
	}
	return INT64_MAX;
}

int stet_ll_end_transaction(struct stet_volume *vol, uint64_t id, const struct stet_ll_who *who)
{
	struct stet_tx *found = NULL;
	struct stet_list *pos;
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_error_clear();
	stet_api_lock_(vol);
	STET_LIST_FOREACH(pos, &vol->txs) {
		struct stet_tx *tx = stet_container_of(pos, struct stet_tx, link);

		if (tx->id == id && tx->for_user && !tx->internal)
			found = tx;
	}
	if (!found)
		rc = STET_FAIL(-ENOENT, "there is no such transaction");
	else if (who && who->uid != 0 && who->uid != found->uid)
		rc = STET_FAIL(-EPERM, "the transaction belongs to another user");
	else if (found->spilling ||
		 (found->state != STET_API_TX_OPEN && found->state != STET_API_TX_FAILED))
		rc = STET_FAIL(-EBUSY, "the transaction is being ended, or places data just now");
	else
		expire(found);
	stet_api_unlock_(vol);
	return rc;
}

void stet_abort(struct stet_tx *txn)
{
	if (!txn)
		return;
	struct stet_volume *vol = txn->vol;

	stet_api_lock_(vol);
	STET_ASSERT(txn->state == STET_API_TX_OPEN || txn->state == STET_API_TX_FAILED ||
		    txn->state == STET_API_TX_EXPIRED);
	stet_api_end_(txn);
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
}

int stet_freeze(struct stet_tx *txn)
{
	int rc = stet_api_check_handle_(txn);
	struct stet_volume *vol;

	if (rc)
		return rc;
	vol = txn->vol;
	stet_error_clear();
	stet_api_lock_(vol);
	rc = stet_api_wait_whole_(txn);
	if (!rc)
		txn->frozen = true;
	stet_api_unlock_(vol);
	return rc;
}

/* --- commit --- */

int stet_api_note_dirty_(struct stet_api_op *op, uint64_t ino, uint64_t from)
{
	struct stet_tx *tx = op->tx;
	struct stet_hash_node *node;
	struct stet_api_dirty *dirty;
	int rc;

	if (op->told)
		stet_api_told_ino(op->told, ino); /* appends have no keys yet */
	if (!tx || !tx->vol->watch)
		return 0;
	node = stet_hash_find(&tx->dirty, ino);
	if (node) {
		dirty = stet_container_of(node, struct stet_api_dirty, node);
		if (from < dirty->from)
			dirty->from = from;
		return 0;
	}
	dirty = stet_calloc(1, sizeof(*dirty));
	if (!dirty)
		return STET_FAIL(-ENOMEM, "no memory to note a change");
	dirty->from = from;
	rc = stet_hash_insert(&tx->dirty, ino, &dirty->node);
	if (rc)
		stet_free(dirty);
	return rc;
}

/* A mutant's: whoever waits for the lock may have it now. */
static void let_others(struct stet_volume *vol) STET_REQUIRES(vol->lock);
static void let_others(struct stet_volume *vol)
{
	stet_api_unlock_(vol);
	stet_api_lock_(vol);
}

/* Orders; performs what a spilled write-set still has to place. */
static int order(struct stet_tx *tx, uint64_t *ret_serial)
{
	struct stet_volume *vol = tx->vol;
	struct stet_api_waiter w;
	int rc;

	stet_api_assert_locked_(vol);
	if (stet_mutant_is(STET_MUTANT_EARLY_RELEASE)) {
		stet_txn_mutant_release(tx->txn);
		let_others(vol);
	}
	stet_api_waiter_init_(&w);
	while ((rc = stet_txn_order(tx->txn, &w.ticket, ret_serial)) == STET_WAIT) {
		struct stet_job *job = NULL;

		rc = stet_txn_spill(tx->txn, &job);
		if (rc == 1) {
			stet_api_run_job_(vol, job);
			rc = 0;
		} else if (!rc) {
			rc = stet_api_wait_(vol, &w);
		}
		if (rc)
			break;
		stet_api_waiter_rearm_(&w);
	}
	stet_api_waiter_release_(&w);
	return rc;
}

void stet_api_tell_(struct stet_volume *vol, enum stet_ll_phase phase,
		    const struct stet_ll_touched *touched)
{
	stet_ll_watch_fn *fn = vol->watch;
	void *arg = vol->watch_arg;

	stet_api_unlock_(vol);
	fn(arg, phase, touched);
	stet_api_lock_(vol);
}

/* T3 */
static int order_watched(struct stet_tx *tx, uint64_t *ret_serial)
{
	struct stet_volume *vol = tx->vol;
	struct stet_api_touched list = { 0 };
	int rc = stet_api_touched_collect_(tx, &list);

	stet_api_assert_locked_(vol);
	if (!rc) {
		struct stet_ll_touched touched = {
			.txn_id = tx->id,
			.ino = list.inos.v,
			.ino_count = list.inos.n,
			.name = list.names.v,
			.name_count = list.names.n,
		};

		for (size_t i = 0; i < list.inos.n; i++)
			list.inos.v[i].what &= ~STET_API_TOUCHED_OURS;
		vol->publishing = true;
		stet_api_tell_(vol, STET_LL_BEFORE, &touched);
		rc = order(tx, ret_serial);
		touched.result = rc;
		stet_api_tell_(vol, STET_LL_AFTER, &touched);
		vol->publishing = false;
		stet_cond_broadcast(&vol->publish_cond);
	}
	stet_api_touched_release_(&list);
	return rc;
}

int stet_api_publish_(struct stet_tx *tx, uint64_t *ret_serial)
{
	struct stet_volume *vol = tx->vol;
	bool watched = vol->watch && !(tx->flags & STET_BEGIN_READ_ONLY);
	int rc;

	stet_api_assert_locked_(vol);
	while (tx->spilling)
		stet_cond_wait(&tx->turn, &vol->lock);
	while (watched && vol->publishing)
		stet_cond_wait(&vol->publish_cond, &vol->lock);
	rc = watched && vol->watch ? order_watched(tx, ret_serial) : order(tx, ret_serial);
	if (!rc)
		end_below(tx);
	return rc;
}

int stet_commit(struct stet_tx *txn, unsigned flags)
{
	struct stet_volume *vol = txn ? txn->vol : NULL;
	uint64_t serial = 0;
	int rc;

	stet_error_clear();
	rc = stet_api_check_handle_(txn);
	if (!rc)
		rc = stet_api_check_flags_(flags, STET_COMMIT_NOSYNC);
	if (rc)
		return rc;
	stet_api_lock_(vol);
	rc = stet_api_wait_whole_(txn);
	if (!rc) {
		txn->state = STET_API_TX_COMMITTING;
		rc = stet_api_publish_(txn, &serial);
		if (!rc && !(flags & STET_COMMIT_NOSYNC))
			rc = stet_api_make_durable_(vol, serial);
		if (!rc)
			stet_api_end_(txn);
		else
			txn->state = STET_API_TX_FAILED;
	}
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
	return rc;
}

/* --- looking --- */

/* The subject of a conflict, copied; false: there is none. The caller holds the volume's lock. */
static bool get_subject(const struct stet_tx *tx, struct stet_key *ret, const char **ret_why)
{
	const struct stet_key *key = tx->txn ? stet_txn_conflict_key(tx->txn) : NULL;

	if (!key)
		return false;
	stet_key_copy(ret, key);
	*ret_why = stet_txn_conflict_why(tx->txn);
	return true;
}

size_t stet_conflict_text(struct stet_tx *txn, char *buf, size_t cap)
{
	struct stet_text text;
	struct stet_key key;
	const char *why;
	size_t len;
	bool found;

	stet_text_init(&text);
	stet_api_lock_(txn->vol);
	found = get_subject(txn, &key, &why);
	stet_api_unlock_(txn->vol);
	if (found)
		found = stet_api_where_(txn->vol, &key, &text);
	if (found)
		stet_text_printf(&text, ": %s", why);
	if (found && !text.truncated) {
		len = stet_text_copy(stet_text_cstr(&text), buf, cap);
	} else {
		stet_api_lock_(txn->vol);
		len = stet_text_copy(txn->txn ? stet_txn_conflict_text(txn->txn) : "", buf, cap);
		stet_api_unlock_(txn->vol);
	}
	stet_text_release(&text);
	return len;
}

uint64_t stet_transaction_id(struct stet_tx *txn)
{
	return txn->id;
}

uint64_t stet_api_waiting_for_(const struct stet_tx *tx)
{
	const struct stet_lock_owner *blocker = stet_lock_waiting_for(&tx->open_owner);
	struct stet_txn_info info;

	stet_txn_info(tx->txn, &info);
	if (info.waiting_for || !blocker || blocker->plain)
		return info.waiting_for;
	return blocker->age;
}

int stet_lock_timeout(struct stet_tx *txn, uint32_t timeout_ms)
{
	int rc = stet_api_check_handle_(txn);

	if (rc)
		return rc;
	stet_error_clear();
	stet_api_lock_(txn->vol);
	rc = stet_api_tx_usable_(txn);
	if (!rc)
		txn->lock_timeout_ms = timeout_ms;
	stet_api_unlock_(txn->vol);
	return rc;
}

static void describe(const struct stet_tx *tx, struct stet_txn_entry *ret)
{
	struct stet_txn_info info;

	stet_txn_info(tx->txn, &info);
	*ret = (struct stet_txn_entry){
		.id = tx->id,
		.flags = tx->flags,
		.begun_ns = info.begun_ns,
		.view_serial = info.view_serial,
		.locks = info.locks_held,
		.staged_bytes = info.staged_bytes,
		.pinned_bytes = info.pinned_bytes,
		.waiting_for = stet_api_waiting_for_(tx),
		.uid = tx->uid,
		.pid = tx->pid,
		.for_user = tx->for_user,
		.changes = tx->changes,
		.doomed = info.doomed,
	};
}

int stet_txns(struct stet_volume *vol, stet_txns_fn *fn, void *arg)
{
	STET_VEC(struct stet_txn_entry) entries;
	struct stet_list *pos;
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_vec_init(&entries);
	stet_api_lock_(vol);
	STET_LIST_FOREACH(pos, &vol->txs) {
		const struct stet_tx *tx = stet_container_of(pos, struct stet_tx, link);
		struct stet_txn_entry entry;

		if (tx->internal || !tx->txn)
			continue;
		describe(tx, &entry);
		rc = stet_vec_push(&entries, entry);
		if (rc)
			break;
	}
	stet_api_unlock_(vol);
	for (size_t i = 0; i < entries.n && !rc; i++)
		rc = fn(arg, &entries.v[i]);
	stet_vec_release(&entries);
	return rc;
}
