/* txn.h - transactions: write-sets of typed intents over a view, locks, ordering.
 *
 * A transaction reads its own changes, then its view. Plain operations are transactions of level
 * PLAIN: they read the current state, probe locks instead of holding them, and are ordered by the same
 * call that made them, under one hold of the volume's lock.
 *
 * Protocol of an operation (fs/): lock, reserve, read, then change. Whatever may answer STET_WAIT comes
 * first, so a restart finds nothing changed. An operation that fails after its first change calls
 * stet_txn_doom.
 */
#ifndef STET_TXN_TXN_H
#define STET_TXN_TXN_H

#include "base/text.h"
#include "txn/engine.h"
#include "txn/lock.h"

enum stet_level {
	STET_LEVEL_PLAIN,
	STET_LEVEL_SNAPSHOT,
	STET_LEVEL_SERIALIZABLE,
	STET_LEVEL_LOCKING,
};

/* --- life --- */
/* Before one begins that may change something: 0, or STET_WAIT, with the ticket (N13 of txn.c). */
STET_CHECKED int stet_txn_wait_to_begin(struct stet_engine *engine, struct stet_ticket *ticket);
/* Begin is O(1). read_only: writes give -EROFS. -ENOMEM, -EROFS (volume failed or read-only and not
 * read_only). PLAIN transactions are cheap and may be many. */
STET_CHECKED int stet_txn_begin(struct stet_engine *engine, enum stet_level level, bool read_only,
				struct stet_txn **ret);
/* A read-only SNAPSHOT transaction that reads what `like`, which is not PLAIN, read when it began (at
 * LOCKING: what is current now). -ESTALE: it has lost that (N4 of txn.c); -ENOMEM. */
STET_CHECKED int stet_txn_begin_like(struct stet_txn *like, struct stet_txn **ret);
/* Orders the transaction: validate, merge, give the serial, publish; locks are released. *ret_wait:
 * the serial that must be durable before anybody is told. A transaction that changed nothing gets the
 * highest serial it read. -EBUSY: conflict (ask stet_txn_conflict_text before ending it); -ENOSPC,
 * -EIO, -ENOMEM, -EROFS: nothing was published. STET_WAIT: a spilled commit must first place its
 * rest; perform jobs and call again. The transaction must be ended with stet_txn_end either way. */
STET_CHECKED int stet_txn_order(struct stet_txn *txn, struct stet_ticket *ticket,
				uint64_t *ret_wait);
/* PLAIN: does now what may fail when it is ordered, so that bytes of shared buffers can be changed in place
 * afterwards. What is staged later is prepared when it is ordered, as usual. -ENOMEM, -EIO. */
STET_CHECKED int stet_txn_prepare(struct stet_txn *txn);
/* It only moves what is there: that is no reason to try again whatever failed for want of room. */
void stet_txn_moves(struct stet_txn *txn);
/* Its changes, when ordered, leave so many blocks without use, at once or when they are reclaimed. */
void stet_txn_cuts(struct stet_txn *txn, uint64_t blocks);
/* Ends it: what was not ordered is dropped, early-placed blocks are given back. */
void stet_txn_end(struct stet_txn *txn);
/* A mutant's (STET_MUTANT_EARLY_RELEASE): lets the locks go. */
void stet_txn_mutant_release(struct stet_txn *txn);

enum stet_level stet_txn_level(const struct stet_txn *txn);
struct stet_engine *stet_txn_engine(const struct stet_txn *txn);
uint64_t stet_txn_id(const struct stet_txn *txn);
uint64_t stet_txn_view_serial(const struct stet_txn *txn);
bool stet_txn_is_read_only(const struct stet_txn *txn);
/* LOCKING: data is locked by whole pages of STET_LOCK_PAGE_BYTES. Before the first operation. */
#define STET_LOCK_PAGE_BYTES 4096u
void stet_txn_lock_pages(struct stet_txn *txn);
bool stet_txn_locks_pages(const struct stet_txn *txn);
bool stet_txn_changed(const struct stet_txn *txn); /* has staged anything */
/* From now on only stet_txn_end helps; every call answers -EBUSY (or `why`). */
void stet_txn_doom(struct stet_txn *txn, int why);
bool stet_txn_doomed(const struct stet_txn *txn);
/* Records the conflict (first one stays) and dooms the transaction; returns -EBUSY. subject: what it is
 * about, an item of a name, an inode, or something in it; why: a sentence about "it", constant. */
int stet_txn_conflict(struct stet_txn *txn, const struct stet_key *subject, const char *why);
/* "SUBJECT: WHY", with numbers for inodes; "" = none. Whoever knows paths asks for the parts, which are
 * NULL if there is no conflict, or none with a subject. */
const char *stet_txn_conflict_text(const struct stet_txn *txn);
const struct stet_key *stet_txn_conflict_key(const struct stet_txn *txn);
const char *stet_txn_conflict_why(const struct stet_txn *txn);
struct stet_txn_info {
	uint64_t id, view_serial, locks_held, waiting_for;
	uint64_t staged_bytes; /* in memory, and placed early */
	/* What nobody but old views needs, when the newest checkpoint was made: each block counts for the oldest view. */
	uint64_t pinned_bytes;
	int64_t begun_ns;
	enum stet_level level;
	bool read_only, doomed;
};
uint64_t stet_txn_staged_bytes(const struct stet_txn *txn);
/* What its locks and savepoints take of memory: it is not spilled, and no part of the cache's size. */
uint64_t stet_txn_held_bytes(const struct stet_txn *txn);
void stet_txn_info(const struct stet_txn *txn, struct stet_txn_info *ret);

/* --- locks and reservations (first) --- */
/* PLAIN: probes (but see stand_in). Others: acquires and keeps. wait: STET_WAIT with the ticket queued, else
 * -EBUSY (which does not doom). -EDEADLK dooms. */
STET_CHECKED int stet_txn_lock(struct stet_txn *txn, const struct stet_lock_name *name,
			       enum stet_lock_mode mode, bool wait, struct stet_ticket *ticket);
/* PLAIN: what must be waited for, with wait, is asked for as this owner of the engine's locks, who keeps what
 * he gets; borrowed until stet_txn_end. The operation is made anew with the same owner, who then lets go of all.
 * -EDEADLK dooms nothing: he lets go, and it is made anew. */
void stet_txn_stand_in(struct stet_txn *txn, struct stet_lock_owner *owner);
/* It is a plain operation, and as old as that says in deadlocks. Before its first lock. */
void stet_txn_set_plain(struct stet_txn *txn, uint64_t age);
/* It was chosen to give up in a deadlock, which its ticket was told of: dooms. */
void stet_txn_deadlocked(struct stet_txn *txn);
/* The transaction's owner of locks in the manager that the engine's is paired with; until stet_txn_end. */
void stet_txn_pair_owner(struct stet_txn *txn, struct stet_lock_owner *owner);
/* Whether the ticket waits for a lock (and not for space, say). Giving that up changes nothing else. */
bool stet_txn_waits_for_lock(const struct stet_txn *txn, const struct stet_ticket *ticket);
void stet_txn_cancel_wait(struct stet_txn *txn, const struct stet_ticket *ticket);
/* First updater wins: at SNAPSHOT and SERIALIZABLE, -EBUSY (doomed, with a conflict text) when the key's
 * value differs, as far as mask goes, between the view and now. Call after locking. */
STET_CHECKED int stet_txn_unchanged(struct stet_txn *txn, const struct stet_key *key,
				    uint32_t mask);
/* Reserves space for what the operation will stage: data blocks, and bytes of keys and values.
 * privileged: the operation frees more than it takes. STET_WAIT, -ENOSPC. Unused reservation
 * stays with the transaction. */
STET_CHECKED int stet_txn_reserve(struct stet_txn *txn, uint64_t data_blocks, uint64_t meta_bytes,
				  bool privileged, struct stet_ticket *ticket);

/* --- reading --- */
/* Own changes over the view. Intents on the key are merged in. -ENOENT, -EIO. */
STET_CHECKED int stet_txn_get(struct stet_txn *txn, const struct stet_key *key,
			      struct stet_val *ret);
/* As it was when the transaction began (at LOCKING: as it is), without its own changes. Not PLAIN. -ENOENT,
 * -EIO. */
STET_CHECKED int stet_txn_get_begun(struct stet_txn *txn, const struct stet_key *key,
				    struct stet_val *ret);
/* Remembers a read for validation at SERIALIZABLE (else nothing). mask: as in `same`. */
STET_CHECKED int stet_txn_read_key(struct stet_txn *txn, const struct stet_key *key, uint32_t mask);
STET_CHECKED int stet_txn_read_range(struct stet_txn *txn, const struct stet_key *from,
				     const struct stet_key *to);

/* A merged cursor over [from, to) in key order; sees the transaction's own changes. It stays valid while
 * the transaction changes: it seeks again when it must. */
struct stet_scan;
STET_CHECKED int stet_scan_open(struct stet_txn *txn, const struct stet_key *from,
				const struct stet_key *to, struct stet_scan **ret);
/* From the last key of [from, to) to the first; `to` is not empty. */
STET_CHECKED int stet_scan_open_reverse(struct stet_txn *txn, const struct stet_key *from,
					const struct stet_key *to, struct stet_scan **ret);
/* 1 = an item (key and val filled), 0 = the end, < 0 error. */
STET_CHECKED int stet_scan_next(struct stet_scan *scan, struct stet_key *ret_key,
				struct stet_val *ret_val);
void stet_scan_close(struct stet_scan *scan); /* NULL ok */

/* --- changing (needs the locks that make it final) --- */
STET_CHECKED int stet_txn_put(struct stet_txn *txn, const struct stet_key *key, const void *value,
			      size_t value_bytes);
STET_CHECKED int stet_txn_del(struct stet_txn *txn, const struct stet_key *key);
/* An intent, merged at ordering with what is then current. At PLAIN, or on a value that this
 * transaction itself has put, it is merged at once. */
STET_CHECKED int stet_txn_intent(struct stet_txn *txn, const struct stet_key *key,
				 const void *intent, size_t intent_bytes);
/* Blocks from..from + count of buf become the extent at key (an EXTENT key; the caller has removed
 * or cut what overlapped). Takes a reference. birth 0: new content; else content that only moves or
 * is cut down keeps its birth. */
STET_CHECKED int stet_txn_put_buf(struct stet_txn *txn, const struct stet_key *key,
				  struct stet_databuf *buf, uint16_t from, uint16_t count,
				  uint64_t birth);
/* As put_buf with one block, of which only [offset, offset + len) differs from the block that the
 * file had before: logged as its bytes. */
STET_CHECKED int stet_txn_put_patch(struct stet_txn *txn, const struct stet_key *key,
				    struct stet_databuf *buf, uint16_t from, uint32_t offset,
				    uint32_t len);
/** Told the key of each entry that is put into the write-set; must not use the transaction. */
typedef void stet_txn_put_fn(void *arg, const struct stet_key *key);
/** From now on fn is told; NULL: nobody. What is rolled back is not told. */
void stet_txn_tell_puts(struct stet_txn *txn, stet_txn_put_fn *fn, void *arg);
/* Whether the extent at key is this transaction's own unplaced buffer that nobody else can see: its
 * bytes may then be changed in place through *ret_buf (call put_buf or put_patch again afterwards). */
bool stet_txn_own_buf(struct stet_txn *txn, const struct stet_key *key,
		      struct stet_databuf **ret_buf, uint16_t *ret_from, uint16_t *ret_count);

/* The transaction gives up its changes to the keys that fn picks: they are again as others see them. What it
 * locked stays locked. Its savepoints are gone. Any failure dooms it. Only while it does not spill; not PLAIN. */
typedef bool stet_txn_key_fn(void *arg, const struct stet_key *key);
STET_CHECKED int stet_txn_give_up(struct stet_txn *txn, stet_txn_key_fn *fn, void *arg);

/* --- savepoints: not PLAIN, and only while it does not spill --- */
/* Marks what was done so far; O(1). Ids rise from 1. -EOVERFLOW, -ENOMEM, what it was doomed with. */
STET_CHECKED int stet_txn_savepoint(struct stet_txn *txn, uint64_t *ret_savepoint);
/* What was done since the savepoint is undone; later ones are gone, it stays. Locks and reads stay. -ENOENT, or
 * what it was doomed with; any other failure dooms it. */
STET_CHECKED int stet_txn_rollback_to(struct stet_txn *txn, uint64_t savepoint);
/* The savepoint and later ones are forgotten; what was done stays. -ENOENT, or what it was doomed with. */
STET_CHECKED int stet_txn_savepoint_release(struct stet_txn *txn, uint64_t savepoint);

/* --- room for the layer above: structural claims and staged appends hang here --- */
#define STET_TXN_MARKS 2u
struct stet_txn_user_ops {
	void (*release)(void *user);
	/* A savepoint: what it takes to come back. What was marked before there was a user is zeros. The first of
	 * the marks is another one when there is more to take back, besides the write-set. */
	void (*mark)(void *user, uint64_t mark[STET_TXN_MARKS]);
	/* Back to it; failing dooms the transaction. */
	int (*roll_back)(void *user, const uint64_t mark[STET_TXN_MARKS]);
	/* The savepoint with `first`, and all later ones, are gone; the newest is that with `top`, NULL: none. */
	void (*released)(void *user, const uint64_t first[STET_TXN_MARKS],
			 const uint64_t top[STET_TXN_MARKS]);
};
void stet_txn_set_user(struct stet_txn *txn, void *user, const struct stet_txn_user_ops *ops);
void *stet_txn_user(const struct stet_txn *txn);
/* What hangs there takes so many bytes more (less) of memory. Forgotten at the end. */
void stet_txn_hold(struct stet_txn *txn, int64_t bytes);
bool stet_txn_holds_much(const struct stet_txn *txn); /* more than its share */
/* The newest savepoint's mark, NULL: there is none. */
const uint64_t *stet_txn_save_mark(const struct stet_txn *txn);

/* The transaction has staged more than its share: place data early, spill its write-set. Returns 1 with a
 * job to perform (then finish), 0 when it is within its share. Called between operations. A failure changes nothing;
 * before more is staged it is to be tried again. */
STET_CHECKED int stet_txn_spill(struct stet_txn *txn, struct stet_job **ret);
/* After it gave -ENOSPC. 0: there is room now, it may be tried again; STET_WAIT; -ENOSPC. */
STET_CHECKED int stet_txn_spill_room(struct stet_txn *txn, struct stet_ticket *ticket);

/* Calls fn for each key that the transaction changed, in key order (diff). old_val / new_val NULL: absent. */
typedef int stet_txn_change_fn(void *arg, const struct stet_key *key,
			       const struct stet_val *old_val, const struct stet_val *new_val);
STET_CHECKED int stet_txn_changes(struct stet_txn *txn, stet_txn_change_fn *fn, void *arg);

#endif
