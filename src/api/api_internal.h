/* api_internal.h - what the files of this folder share.
 *
 * One mutex per volume guards everything below api/ and all of the handles' state. Operations run
 * whole under one hold of it; what takes long (device I/O, callbacks) happens without.
 *
 * The public handle of a transaction and the object below have the same tag, struct stet_txn. In this
 * folder the handle is called struct stet_tx, so that the compiler tells them apart; likewise struct
 * stet_change, an edit of a tree below, is called struct stet_tx_change.
 */
#ifndef STET_API_INTERNAL_H
#define STET_API_INTERNAL_H

#include "api/local.h"

#define stet_txn stet_tx
#define stet_change stet_tx_change
#include "stetfs.h"
#include "stetfs_lowlevel.h"

#include "api/serving.h"
#undef stet_txn
#undef stet_change

#include "api/volume.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/vec.h"
#include "fs/fs.h"
#include "remote/handle.h"
#include "txn/engine.h"
#include "txn/lock.h"
#include "txn/txn.h"

#include <pthread.h>

/** Rank of the volume's lock: below the devices' own. */
#define STET_API_LOCK_RANK 100

/** Longest atomic write, in bytes: what stet_fs_write takes at once. */
#define STET_API_WRITE_MAX ((size_t)1 << 20)

#define STET_API_PATH_MAX 4096 /* with the NUL */

/// The volume ///

struct stet_api_async;
struct stet_cleaner;

/* How commits share flushes (W5 of wait.c). */
struct stet_api_grouping {
	uint32_t waiting;    /* threads that wait for durability, the leader included */
	uint32_t expected;   /* how many did when the last flush ended */
	bool gathering;      /* a leader waits for others */
	int64_t flush_ns;    /* how long a flush takes, averaged */
	int64_t patience_ns; /* how long a leader waits */
	uint64_t flushes;    /* without patience */
};

struct stet_volume {
	/* --- set at open, then constant --- */
	struct stet_handle head;
	struct stet_mutex lock;
	struct stet_device *device;
	struct stet_engine *engine;
	struct stet_fs *fs;
	struct stet_clock *clock;
	bool keep_device;
	bool read_only;
	bool has_worker;
	uint32_t uid, gid; /* of new files made by path */

	/* --- under lock --- */
	uint64_t
		handles; /* transactions, files, listings, locks: close refuses while there are any */
	struct stet_list txs;           /* of stet_tx.link, oldest first */
	struct stet_list flush_waiters; /* of stet_api_waiter.link: wait for durability */

	struct stet_api_grouping grouping;
	struct stet_cond group_cond; /* of who gathers */

	pthread_t worker;
	struct stet_cond worker_cond;
	int64_t worker_wakes_ns; /* while it sleeps: monotonic deadline; INT64_MIN: it is awake */
	bool worker_kick;        /* run now, whatever the deadline */
	bool stopping;           /* threads end */
	struct stet_ticket reclaim_ticket, clean_ticket; /* what the worker waits for */
	bool reclaim_waits, clean_waits;
	struct stet_cleaner *cleaner;

	struct stet_api_async *async; /* made when first used */

	/* The watch. publishing: a transaction is between BEFORE and AFTER. */
	stet_ll_watch_fn *watch;
	void *watch_arg;
	bool publishing;
	bool told_failed;
	struct stet_cond publish_cond;

	struct stet_ll_limits limits;

	struct stet_locks *open_locks; /* see open_lock.c */
	uint64_t open_lock_age;        /* 0: no open lock was ever asked for */
	struct stet_list open_waits;   /* of stet_ll_wait.link */
};

/** Takes and gives back the volume's lock. */
static inline void stet_api_lock_(struct stet_volume *vol) STET_ACQUIRE(vol->lock);
static inline void stet_api_lock_(struct stet_volume *vol)
{
	stet_mutex_lock(&vol->lock);
}

static inline void stet_api_unlock_(struct stet_volume *vol) STET_RELEASE(vol->lock);
static inline void stet_api_unlock_(struct stet_volume *vol)
{
	stet_mutex_unlock(&vol->lock);
}

/* Checks, for the compiler and at run time, that the lock is held. Functions that are reached through
 * other objects than the volume, and static ones, say so with this. */
static inline void stet_api_assert_locked_(const struct stet_volume *vol)
	STET_ASSERTS_HELD(vol->lock);
static inline void stet_api_assert_locked_(const struct stet_volume *vol)
{
	stet_assert_held(&vol->lock);
}

/* -EINVAL for a NULL handle; -EOPNOTSUPP for one that calls by inode number cannot use. */
static inline int stet_api_check_handle_(const void *handle)
{
	if (stet_handle_is_remote(handle))
		return STET_FAIL(-EOPNOTSUPP, "another process holds the volume");
	return handle ? 0 : STET_FAIL(-EINVAL, "a NULL handle");
}

/* -EINVAL for flag bits that are not known. */
STET_CHECKED static inline int stet_api_check_flags_(unsigned flags, unsigned known)
{
	return flags & ~known ? STET_FAIL(-EINVAL, "unknown flags 0x%x", flags & ~known) : 0;
}

/* The real clock (clock.c). */
struct stet_clock *stet_api_real_clock_(void);

/// Waiting (wait.c) ///

struct stet_api_waiter {
	struct stet_ticket ticket;
	struct stet_cond cond;
	struct stet_list link; /* volume.flush_waiters, or stet_tx.waiters */
	bool poked;            /* look again although the ticket has not fired */
	bool cancelled;        /* give up: the transaction was ended */
	bool counted;          /* in volume.grouping.waiting */
	bool for_lock; /* it waits for other transactions only, not for work of the worker */
};

void stet_api_waiter_init_(struct stet_api_waiter *w);
/* The ticket must have fired or be cancelled (which this does). */
void stet_api_waiter_release_(struct stet_api_waiter *w);
/* A fresh ticket for the next try. */
void stet_api_waiter_rearm_(struct stet_api_waiter *w);
/* Waits until the ticket has fired. 0: try again; the ticket's error; -EAGAIN: cancelled. */
STET_CHECKED int stet_api_wait_(struct stet_volume *vol, struct stet_api_waiter *w)
	STET_REQUIRES(vol->lock);
/* As wait; -ETIMEDOUT: the time (INT64_MAX: none) has come first. */
STET_CHECKED int stet_api_wait_until_(struct stet_volume *vol, struct stet_api_waiter *w,
				      int64_t deadline_ns) STET_REQUIRES(vol->lock);
/* The same for what an operation waits for. -EINTR: given up (serving.h). Like -ETIMEDOUT: the caller takes
 * the ticket away from whatever it waits for. */
STET_CHECKED int stet_api_wait_op_(struct stet_volume *vol, struct stet_api_waiter *w,
				   int64_t deadline_ns) STET_REQUIRES(vol->lock);
/* Performs a job without the lock and finishes it; wakes who may want to start the next. */
void stet_api_run_job_(struct stet_volume *vol, struct stet_job *job) STET_REQUIRES(vol->lock);
/* Returns when everything up to serial is durable, flushing itself if nobody else does. */
STET_CHECKED int stet_api_make_durable_(struct stet_volume *vol, uint64_t serial)
	STET_REQUIRES(vol->lock);
/* One attempt to lead a flush: true when a job was run. */
bool stet_api_lead_flush_(struct stet_volume *vol) STET_REQUIRES(vol->lock);
/* Returns when a checkpoint holds everything up to now. */
STET_CHECKED int stet_api_checkpoint_(struct stet_volume *vol) STET_REQUIRES(vol->lock);

/// The background thread (worker.c) ///

STET_CHECKED int stet_api_worker_start_(struct stet_volume *vol);
void stet_api_worker_stop_(struct stet_volume *vol);
/* Wakes the worker if there is work for it, or (force) anyway. */
void stet_api_worker_kick_(struct stet_volume *vol, bool force) STET_REQUIRES(vol->lock);

/* One step of the engine's background work. 1: something was done; 0: nothing to do; < 0. */
STET_CHECKED int stet_api_step_engine_(struct stet_volume *vol) STET_REQUIRES(vol->lock);

/// Cleaning (clean.c) ///

STET_CHECKED int stet_api_clean_open_(struct stet_volume *vol) STET_REQUIRES(vol->lock);
void stet_api_clean_close_(struct stet_volume *vol);
bool stet_api_clean_wanted_(const struct stet_volume *vol);
/* As stet_clean_step. */
STET_CHECKED int stet_api_clean_step_(struct stet_volume *vol, struct stet_ticket *ticket);

/// Transactions (transaction.c) ///

/* Adds what an item is about, by its path (whereis.c). Without the volume's lock. False: no path is found,
 * and nothing was added. */
bool stet_api_where_(struct stet_volume *vol, const struct stet_key *key, struct stet_text *ret);

enum stet_api_tx_state {
	STET_API_TX_OPEN,
	STET_API_TX_COMMITTING, /* calls give -EAGAIN */
	STET_API_TX_FAILED,     /* commit failed: only abort is left */
	STET_API_TX_EXPIRED, /* it was open for too long, or dropped: likewise, and nothing is left of it */
	STET_API_TX_ENDED, /* the public handle is gone; kept for files that name it */
};

/* What a transaction did to the data of one inode (for the watch). */
struct stet_api_dirty {
	struct stet_hash_node node; /* key: inode number */
	uint64_t from;              /* lowest offset that was changed; UINT64_MAX: appends only */
};

struct stet_tx {
	/* --- set at begin, then constant --- */
	struct stet_handle head;
	struct stet_volume *vol;
	uint64_t id;
	unsigned flags; /* STET_BEGIN_ */
	bool internal;  /* nobody's handle: of a listing or a long read */
	bool for_user;  /* begun for a user (who.c) */
	uint32_t uid;   /* whose it is */
	int32_t pid;
	int64_t begun_ns; /* monotonic */

	/* --- under the volume's lock --- */
	struct stet_txn *txn; /* NULL once ended */
	enum stet_api_tx_state state;
	uint32_t refs;            /* the handle, files and listings in it, calls in progress */
	struct stet_list link;    /* volume.txs */
	struct stet_list waiters; /* of stet_api_waiter.link: calls in it that wait */
	bool spilling;            /* a call performs a job of txn */
	bool must_spill;          /* before anything else is changed */
	bool alone;               /* a call of several operations has it for itself */
	bool frozen;              /* it takes no more changes */
	uint64_t changes;         /* operations that may have changed something */
	struct stet_cond turn;    /* spilling has ended, or what was alone */
	struct stet_hash dirty;   /* of stet_api_dirty; kept while there is a watch */
	struct stet_lock_owner open_owner; /* data locks of opens; see open_lock.c */
	uint32_t lock_timeout_ms;          /* 0: calls wait for locks for ever */
	uint32_t holder;                   /* the user as whose its memory counts */
	uint64_t held_seen;                /* with more, what all of his hold is counted */
};

/* Before a call that stages or locks more: -EDQUOT. */
STET_CHECKED int stet_api_check_limits_(struct stet_tx *tx);
/* Ends transactions that are too old; returns when the next one will be (monotonic ns, INT64_MAX: none). */
int64_t stet_api_txs_expire_(struct stet_volume *vol) STET_REQUIRES(vol->lock);
STET_CHECKED int stet_api_begin_(struct stet_volume *vol, unsigned flags, bool internal,
				 struct stet_tx **ret) STET_REQUIRES(vol->lock);
/* Who is in the way of what tx waits for: the id of a transaction; 0: nobody, or no transaction. */
uint64_t stet_api_waiting_for_(const struct stet_tx *tx);
/* Ends the transaction below and everything it holds; files may still refer to tx. */
void stet_api_end_(struct stet_tx *tx);
/* The committed state as of now, as a read-only transaction of our own. Without the lock. */
STET_CHECKED int stet_api_view_begin_(struct stet_volume *vol, struct stet_tx **ret);
/* The same of the state that tx began with. -ESTALE. */
STET_CHECKED int stet_api_view_like_(struct stet_tx *tx, struct stet_tx **ret);
void stet_api_view_end_(struct stet_tx *view);
struct stet_tx *stet_api_tx_get_(struct stet_tx *tx);
void stet_api_tx_put_(struct stet_tx *tx); /* NULL ok */
/* 0, -ESTALE, -EAGAIN. */
STET_CHECKED int stet_api_tx_usable_(const struct stet_tx *tx);
/* Publishes (with the watch) and releases; -> COMMITTING must have been set. *ret_serial: what must
 * be durable before the commit is answered. */
STET_CHECKED int stet_api_publish_(struct stet_tx *tx, uint64_t *ret_serial);
/* Calls the watch, which there is, without the lock. */
void stet_api_tell_(struct stet_volume *vol, enum stet_ll_phase phase,
		    const struct stet_ll_touched *touched) STET_REQUIRES(vol->lock);

/// Running operations (run.c) ///

/* Who waits for locks, and keeps them, on behalf of a plain operation: of the engine's, and of opens'. */
struct stet_api_queuing {
	uint64_t id;       /* 0: not begun */
	unsigned gave_way; /* in deadlocks */
	struct stet_lock_owner owner, open_owner;
};

/* An operation: locks, reserves, reads, changes, through fs/. May be called again from the start after
 * STET_WAIT. */
struct stet_api_op {
	struct stet_fs_ctx ctx;
	const struct stet_ll_who *who; /* whom it is made for; NULL: the program itself */
	struct stet_volume *vol;
	struct stet_tx *tx;
	struct stet_api_queuing *queuing; /* plain operations; NULL: none */
	uint64_t held;  /* inode held on behalf of the caller; let go if the operation fails */
	uint64_t parts; /* savepoint before its changes (stet_api_in_parts_); 0: none */
	struct stet_api_told *told; /* what it changes is noted there (told.c); NULL: nobody asks */
	struct stet_api_part *part; /* of tx, that it is in (part.c); NULL: none */
};
typedef int stet_api_op_fn(struct stet_api_op *op, void *arg);

#define STET_API_READ 0x10000u   /* changes nothing */
#define STET_API_INSIDE 0x20000u /* part of a call that has the transaction for itself */

/* In an operation: it changes data from `from` on. */
STET_CHECKED int stet_api_note_dirty_(struct stet_api_op *op, uint64_t ino, uint64_t from);

/* In an operation, last: holds the inode for the caller. */
STET_CHECKED int stet_api_hold_(struct stet_api_op *op, uint64_t ino);

/* In an operation, before the first of several changes: if it fails or must wait, they are taken back. A plain
 * operation needs no such thing. */
STET_CHECKED int stet_api_in_parts_(struct stet_api_op *op);

/* Runs fn in tx, or as a plain operation; then (may be NULL) `after`, which sees what fn did, under the
 * same hold of the lock. flags: STET_LL_NOWAIT, STET_API_READ, STET_API_INSIDE. */
STET_CHECKED int stet_api_run_(struct stet_volume *vol, struct stet_tx *tx, unsigned flags,
			       stet_api_op_fn *fn, stet_api_op_fn *after, void *arg);

/// What operations in a transaction change: told to who serves others (told.c), parts (part.c) ///

#define STET_API_NAME_AT 9u /* in a DIRENT key: after object and kind */

/* Whether this thread wants to be told. */
bool stet_api_wants_told_(void);
/* Around each try of the operation: what it puts into the write-set is noted. */
void stet_api_told_begin_(struct stet_api_op *op);
void stet_api_told_end_(struct stet_api_op *op);
/* Tells what was noted, and releases it. Without the volume's lock. */
void stet_api_told_send_(struct stet_api_told *told);

/* The part of the transaction in which this thread is at work, or NULL. */
struct stet_api_part *stet_api_part_of_(const struct stet_tx *tx);
/* Something was changed in the transaction, by the part (NULL: by none). */
void stet_api_changed_(struct stet_tx *tx, struct stet_api_part *part);
/* Before an operation of a part (NULL ok) that changes something; where the transaction is open, and not spilling.
 * -ESTALE: it has ended; as stet_txn_savepoint. */
STET_CHECKED int stet_api_part_changes_(struct stet_tx *tx, struct stet_api_part *part);

/// Permissions (who.c): in an operation ///

/* Whom this thread acts for, or NULL. */
const struct stet_ll_who *stet_api_who_(void);

#define STET_API_MAY_READ 4u
#define STET_API_MAY_WRITE 2u
#define STET_API_MAY_SEARCH 1u /* or execute */

/* Whether whom this thread acts for may lock what he reads. */
STET_CHECKED int stet_api_permit_locking_(const struct stet_volume *vol);
/* Each gives 0 or -EACCES or -EPERM, and takes locks only. Whether he has these permissions for an inode. */
STET_CHECKED int stet_api_permit_(struct stet_api_op *op, uint64_t ino, unsigned want);
/* A path may begin there. */
STET_CHECKED int stet_api_permit_start_(struct stet_api_op *op, uint64_t dir);
/* Names may be made in a directory. */
STET_CHECKED int stet_api_permit_names_(struct stet_api_op *op, uint64_t dir);
/* The name that leads to ino may be taken away. */
STET_CHECKED int stet_api_permit_removal_(struct stet_api_op *op, uint64_t dir, uint64_t ino);
STET_CHECKED int stet_api_permit_move_(struct stet_api_op *op, uint64_t from_dir, uint64_t to_dir,
				       uint64_t ino);
STET_CHECKED int stet_api_permit_link_(struct stet_api_op *op, uint64_t ino);
/* Something new; its mode may lose a bit. */
STET_CHECKED int stet_api_permit_make_(struct stet_api_op *op, uint64_t dir,
				       struct stet_fs_new *what);
/* Adds what follows for the mode from what is asked for. */
STET_CHECKED int stet_api_permit_setattr_(struct stet_api_op *op, uint64_t ino,
					  struct stet_setattr *attr);
/* *ret_kill_sgid (may be NULL), unchanged unless true: changing an access ACL takes the set-group-id bit. */
STET_CHECKED int stet_api_permit_xattr_(struct stet_api_op *op, uint64_t ino, const char *name,
					bool change, bool *ret_kill_sgid);
/* The data of a file is about to change. */
STET_CHECKED int stet_api_drop_set_ids_(struct stet_api_op *op, uint64_t ino);
/* Takes all locks for that, whatever changes. */
STET_CHECKED int stet_api_lock_all_(struct stet_api_op *op, uint64_t ino);

/* Waits while a call in the transaction performs a job of it, or has it for itself. 0: it is open; -ESTALE, -EAGAIN. */
STET_CHECKED int stet_api_wait_turn_(struct stet_tx *tx);
/* The same for what changes something. -EROFS: it is frozen. */
STET_CHECKED int stet_api_wait_turn_to_change_(struct stet_tx *tx);
/* Before it may be ended or frozen: waits for the end of a call that has it for itself. -ESTALE, -EAGAIN. */
STET_CHECKED int stet_api_wait_whole_(struct stet_tx *tx);

/* A call of several operations that are made as a whole: between begin and end, which are made without the lock,
 * they run with STET_API_INSIDE, and no other call of anybody in the transaction. If rc says that the call has failed,
 * all of it is taken back. Returns rc. */
STET_CHECKED int stet_api_alone_begin_(struct stet_tx *tx, uint64_t *ret_savepoint);
STET_CHECKED int stet_api_alone_end_(struct stet_tx *tx, uint64_t savepoint, int rc);

/// Paths (path.c) ///

struct stet_api_place {
	uint64_t dir;     /* that holds the name */
	uint64_t ino;     /* 0: there is no such name */
	uint8_t type;     /* DT_; DT_UNKNOWN: of the empty path */
	bool must_be_dir; /* the path ends in a slash */
	size_t name_len;  /* 0: the path ends in ".", "..", "/" or is empty */
	char name[STET_NAME_MAX + 1];
};

#define STET_API_MAX_LINKS 40

/* Resolves up to the last component, which need not exist; follow: a link there is followed. */
STET_CHECKED int stet_api_resolve_(struct stet_api_op *op, uint64_t dir, const char *path,
				   bool follow, struct stet_api_place *ret);
/* As resolve, but it must exist (and be a directory if the path says so). */
STET_CHECKED int stet_api_find_(struct stet_api_op *op, uint64_t dir, const char *path, bool follow,
				struct stet_api_place *ret);
/* Whether what was resolved exists, and is a directory if the path says so. -ENOENT, -ENOTDIR. */
STET_CHECKED int stet_api_check_found_(const struct stet_api_place *place);
/* -EINVAL or -ENAMETOOLONG unless it is one component; -EPERM for the reserved one. */
STET_CHECKED int stet_api_check_name_(const char *name);
STET_CHECKED int stet_api_check_new_(uint64_t dir, const char *name);
static inline struct stet_fs_name stet_api_name_(const char *s, size_t len)
{
	return (struct stet_fs_name){ .bytes = s, .len = len };
}

/// Names, by inode number (names.c): in an operation ///

/* The identity and permissions of a new inode made by path. */
struct stet_fs_new stet_api_new_(const struct stet_volume *vol, uint32_t mode);
STET_CHECKED int stet_api_make_(struct stet_api_op *op, uint64_t dir, const char *name,
				const struct stet_fs_new *what, uint64_t *ret_ino);
STET_CHECKED int stet_api_make_for_(struct stet_api_op *op, const struct stet_api_place *place,
				    const struct stet_fs_new *what, uint64_t *ret_ino);
/* A file or a table is opened by a path, with flags of open(2). */
struct stet_api_opening {
	uint64_t dir;
	const char *path;
	int flags;
	uint32_t mode; /* of what is made, with its type */
	int if_slash; /* the error, if nothing has the name, and the path says that it is a directory */
};
/* Finds it, or makes it: what is found is not looked at. -ENOENT, -EEXIST, if_slash. */
STET_CHECKED int stet_api_find_or_make_(struct stet_api_op *op, const struct stet_api_opening *o,
					struct stet_api_place *ret, bool *ret_made);
/* Its handle, which holds it, closes. tx: of the handle; NULL ok. */
void stet_api_unhold_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino);
/* What a listing or a cursor reads in. */
struct stet_api_reading {
	struct stet_tx *tx;
	bool is_own; /* a view made for it, as it is in no transaction */
};
/* txn: NULL makes a view. fn is run in it first; then there is one more handle. */
STET_CHECKED int stet_api_reading_open_(struct stet_volume *vol, struct stet_tx *txn,
					stet_api_op_fn *fn, void *arg,
					struct stet_api_reading *ret);
void stet_api_reading_close_(struct stet_volume *vol, const struct stet_api_reading *in);
/* Copies the target with its NUL. -ERANGE. */
STET_CHECKED int stet_api_readlink_(struct stet_api_op *op, uint64_t ino, char *buf, size_t cap,
				    size_t *ret_len);

/// Data (data.c), attributes (attr.c), by inode number ///

STET_CHECKED ssize_t stet_api_read_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino,
				    uint64_t off, void *buf, size_t len, unsigned flags);
STET_CHECKED ssize_t stet_api_write_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino,
				     uint64_t off, const void *buf, size_t len, unsigned flags);
STET_CHECKED ssize_t stet_api_append_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino,
				      const void *buf, size_t len, unsigned flags);
STET_CHECKED int stet_api_truncate_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino,
				    uint64_t size, unsigned flags);
STET_CHECKED int stet_api_punch_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino,
				 uint64_t off, uint64_t len, unsigned flags);
STET_CHECKED int stet_api_seek_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino,
				uint64_t off, int what, unsigned flags, uint64_t *ret_off);
STET_CHECKED int stet_api_sync_(struct stet_volume *vol);

/* In an operation: fills in the public form. */
STET_CHECKED int stet_api_stat_(struct stet_api_op *op, uint64_t ino, struct stet_stat *ret);
/* In an operation: applies the public form. */
STET_CHECKED int stet_api_setattr_(struct stet_api_op *op, uint64_t ino,
				   const struct stet_setattr *attr);

/// Listing (list.c) ///

/* In an operation: entries from the first name > after on. Returns how many. */
STET_CHECKED int stet_api_entries_(struct stet_api_op *op, uint64_t dir, const char *after,
				   struct stet_dir_entry *entries, size_t cap);

/// Tables (table.c) ///

struct stet_table {
	struct stet_handle head;
	/* --- set at open, then constant --- */
	struct stet_volume *vol;
	uint64_t ino;
	bool writable;
};

/* Fills what was planned, without the lock, and gives back what the plan holds. */
STET_CHECKED int stet_api_fill_(struct stet_volume *vol, struct stet_fs_fill *fill, int rc);
/* The public bounds (NULL: all) as those below. -EINVAL */
STET_CHECKED int stet_api_bounds_(const struct stet_table *table, const struct stet_bounds *bounds,
				  struct stet_fs_bounds *ret);

/// What a transaction touches (touched.c) ///

/* Bits of stet_ll_touched_ino.what for our own use; see changes.c. */
#define STET_API_TOUCHED_OWNER 0x1000u /* mode, owner, access time */
#define STET_API_TOUCHED_MTIME 0x2000u
#define STET_API_TOUCHED_OURS (STET_API_TOUCHED_OWNER | STET_API_TOUCHED_MTIME)

struct stet_api_types {
	uint8_t old_type, new_type; /* DT_ */
};

/* An inode before and after; see struct stet_change. */
struct stet_api_attrs {
	uint64_t ino;
	struct stet_change_attr before, after;
};

struct stet_api_touched {
	STET_VEC(struct stet_ll_touched_ino) inos;
	STET_VEC(struct stet_ll_touched_name) names; /* name: owned by this */
	STET_VEC(struct stet_api_types) types;       /* of names, one by one */
	STET_VEC(struct stet_api_attrs) attrs;       /* by rising number, each once */
	uint64_t old_size;                           /* of the inode being collected */
};

/* All that the transaction has changed, by rising keys. */
STET_CHECKED int stet_api_touched_collect_(struct stet_tx *tx, struct stet_api_touched *ret);
void stet_api_touched_release_(struct stet_api_touched *touched);
/* NULL: nothing of the inode itself has changed. Borrowed from touched. */
const struct stet_api_attrs *stet_api_attrs_of_(const struct stet_api_touched *touched,
						uint64_t ino);

/// Open locks (open_lock.c) ///

/* The age of a transaction's owner is its id, that of a plain lock's owner lies above all of them. */
#define STET_API_PLAIN_AGE (UINT64_MAX / 2)

/* In an operation, first: a change of data that transactions' opens must not have locked. append: goes
 * along with theirs for appending. */
STET_CHECKED int stet_api_data_gate_(struct stet_api_op *op, uint64_t ino, bool append);

/* The same, of what is read at LOCKING of a file's data or of what stat shows. */
STET_CHECKED int stet_api_read_gate_(struct stet_api_op *op, uint64_t ino);
/* stet_fs_getattr behind that gate. */
STET_CHECKED int stet_api_getattr_(struct stet_api_op *op, uint64_t ino, struct stet_fs_attr *ret);

/* In the step that has made the inode: opens it for writing. flags: APPEND. */
STET_CHECKED int stet_api_open_made_(struct stet_api_op *op, uint64_t ino, unsigned flags,
				     struct stet_ll_lock **ret_lock);

/* Ends all waits in tx, which has ended: -EAGAIN. */
void stet_api_open_waits_end_(struct stet_tx *tx);

/// Asynchronous completion (async.c) ///

/* A request that is completed by a thread of the library. */
struct stet_api_request {
	struct stet_list link;
	void (*complete)(struct stet_api_request *req, int result); /* without the lock; frees it */
	int result;
};

/* Starts the threads if they are not running. */
STET_CHECKED int stet_api_async_start_(struct stet_volume *vol) STET_REQUIRES(vol->lock);
void stet_api_async_stop_(struct stet_volume *vol); /* waits for all requests */
/* From now on stet_close waits for this request. */
void stet_api_async_accept_(struct stet_volume *vol) STET_REQUIRES(vol->lock);
/* Has complete called by the completing thread. */
void stet_api_async_complete_(struct stet_volume *vol, struct stet_api_request *req, int result)
	STET_REQUIRES(vol->lock);
/* Wakes the completing thread: a flush has ended, or a time-out was set. */
void stet_api_async_poke_(struct stet_volume *vol) STET_REQUIRES(vol->lock);
/* Ends open locks whose time is over; when the next one is (INT64_MAX: none). */
int64_t stet_api_open_waits_expire_(struct stet_volume *vol) STET_REQUIRES(vol->lock);

#endif
