/* engine.h - one open volume: the delta over the checkpoint's tree, views, flushes, checkpoints.
 *
 * The log is a sequence of committed write-sets, the tree is its checkpoint, and a view is (a root, a
 * serial). All calls are made under the volume's lock unless they say otherwise; none of them starts
 * a thread or sleeps. What must wait returns STET_WAIT with a ticket queued; I/O that may take long
 * is handed out as a job: start it under the lock, perform it without, finish it under the lock.
 */
#ifndef STET_TXN_ENGINE_H
#define STET_TXN_ENGINE_H

#include "base/clock.h"
#include "base/error.h"
#include "base/ticket.h"
#include "cache/cache.h"
#include "format/key.h"
#include "format/value.h"
#include "log/log.h"
#include "space/space.h"
#include "tree/tree.h"

struct stet_engine;
struct stet_txn;
struct stet_view;
struct stet_job;

struct stet_engine_config {
	uint64_t cache_bytes;      /* memory limit of cache, delta and write-sets together */
	int64_t flush_interval_ns; /* plain operations reach the log at latest after this */
	uint64_t checkpoint_bytes; /* log bytes between checkpoints; 0 = by the volume's size */
	uint64_t delta_bytes;      /* the delta's share of cache_bytes; 0 = a quarter */
	uint64_t
		spill_bytes; /* of a write-set that spills; 0 = by cache_bytes; half of what its data may take */
	uint64_t seed;      /* for the containers' private randomness */
	bool read_only;     /* nothing is written, not even by recovery */
	bool accept_prefix; /* recovery=prefix: show what lies before a corruption (read-only) */
	struct stet_clock *clock; /* borrowed until close */
};

/* A value as read: bytes, or (EXTENT keys only) blocks of a buffer. */
struct stet_val {
	uint16_t bytes;  /* of b; 0 when buf is set */
	uint64_t serial; /* at which it was ordered; 0 = from the tree */
	/* An EXTENT in memory: blocks from..from + count of buf. Borrowed from the transaction or
	 * delta until the volume's lock is released; take a reference to keep it. */
	struct stet_databuf *buf;
	uint16_t buf_from;
	uint16_t buf_count;
	uint64_t birth; /* of buf; 0 = this transaction */
	uint8_t b[STET_VALUE_MAX];
};

/* When and under which number a transaction is ordered. */
struct stet_stamp {
	int64_t now_ns;
	uint64_t serial;
};

/* What the layer above registers. All are called under the lock. */
struct stet_engine_hooks {
	/* Merges an intent into a base value (NULL: the key is absent). stamp NULL: the transaction is
	 * not ordered yet, times "of the commit" stay symbols. -ENOENT: the intent needs a base. */
	int (*merge)(void *arg, const struct stet_key *key, const struct stet_val *base,
		     const void *intent, size_t intent_bytes, const struct stet_stamp *stamp,
		     struct stet_val *ret);
	/* Adds a later intent to an earlier one for the same key. */
	int (*combine)(void *arg, const struct stet_key *key, struct stet_buf *intent,
		       const void *more, size_t more_bytes);
	/* Turns symbols in a value into finals, in place, and returns how many bytes it then has; an
	 * INODE may become longer, by STET_INODE_GROWTH_MAX at most. Called for what a run holds, and
	 * for every value of a transaction when it is ordered. */
	size_t (*resolve)(void *arg, const uint8_t *key, size_t key_bytes, uint8_t *value,
			  size_t value_bytes, const struct stet_stamp *stamp);
	/* Whether two values of a key are the same as far as `mask` goes; either may be NULL. */
	bool (*same)(void *arg, const struct stet_key *key, uint32_t mask, const struct stet_val *a,
		     const struct stet_val *b);
	/* At ordering, with the transaction reading the current state: applies what was staged
	 * unordered (appends), then makes the structural checks. A conflict is reported with
	 * stet_txn_conflict. */
	int (*order)(void *arg, struct stet_txn *txn, const struct stet_stamp *stamp);
	/* At most what ordering adds to the write-set: data blocks, and bytes of keys and values. */
	void (*staged)(void *arg, struct stet_txn *txn, uint64_t *ret_blocks, uint64_t *ret_bytes);
	/* Whether what was deleted is being reclaimed, and does not wait for anybody: then it is worth to wait for room,
	 * and stet_engine_reclaimed tells when that is no longer so. NULL: never. */
	bool (*reclaims)(void *arg);
	void *arg;
};

/* --- life --- */
/* Writes a new, empty volume: superblocks, first checkpoint with whatever `fill` puts in (the root
 * directory). The device is at least 16 MiB. -ENOSPC, -EIO, -ENOMEM. */
STET_CHECKED int stet_engine_format(struct stet_device *device, const struct stet_superblock *sb,
				    const struct stet_engine_config *config,
				    int (*fill)(void *arg, struct stet_txn *txn), void *fill_arg,
				    const struct stet_engine_hooks *hooks);
/* Reads the superblock (first copy that verifies). */
STET_CHECKED int stet_engine_read_superblock(struct stet_device *device,
					     struct stet_superblock *ret_sb);
/* Loads the newest checkpoint, rolls forward, and (unless read-only) checkpoints. The device stays the
 * caller's. -EUCLEAN, -EIO, -EINVAL, -EOPNOTSUPP, -ENOMEM. */
STET_CHECKED int stet_engine_open(struct stet_device *device,
				  const struct stet_engine_config *config,
				  const struct stet_engine_hooks *hooks, struct stet_engine **ret);
/* Deadlocks through both its locks and these are found (lock.h). Before there is any transaction. */
struct stet_locks;
void stet_engine_pair_locks(struct stet_engine *engine, struct stet_locks *locks);
/* An owner of its locks that is no transaction's. It must have let go of all before the engine closes. */
struct stet_lock_owner;
void stet_engine_lock_owner(struct stet_engine *engine, struct stet_lock_owner *owner,
			    uint64_t age);
/* Frees everything; writes nothing (flush and checkpoint first). Open transactions must be gone. */
void stet_engine_close(struct stet_engine *engine);

struct stet_cache *stet_engine_cache(struct stet_engine *engine);
struct stet_space *stet_engine_space(struct stet_engine *engine);
struct stet_log *stet_engine_log(struct stet_engine *engine);
struct stet_device *stet_engine_device(struct stet_engine *engine);
const struct stet_superblock *stet_engine_superblock(const struct stet_engine *engine);
int64_t stet_engine_now(struct stet_engine *engine); /* wall clock, ns */
uint64_t stet_engine_random(struct stet_engine *engine);

/* Gives the next inode number; never given again (the log carries the high-water mark). */
uint64_t stet_engine_next_ino(struct stet_engine *engine);
uint64_t stet_engine_peek_ino(const struct stet_engine *engine); /* what that will give */

/* --- views --- */
/* The committed state as of now, kept until closed. -ENOMEM. */
STET_CHECKED int stet_view_open(struct stet_engine *engine, struct stet_view **ret);
void stet_view_close(struct stet_view *view); /* NULL ok */
uint64_t stet_view_serial(const struct stet_view *view);
/* The value of a key in the view (view NULL: the current committed state). -ENOENT, -EIO. */
STET_CHECKED int stet_view_get(struct stet_engine *engine, struct stet_view *view,
			       const struct stet_key *key, struct stet_val *ret);

/* --- jobs --- */
/* Starts a flush of everything ordered so far; *ret NULL when there is nothing to flush or a flush is
 * in flight. A failed write is retried elsewhere by the next flush; a failed flush makes the volume
 * FAILED (-EIO for the waiters, EROFS for writers from then on). */
STET_CHECKED int stet_engine_flush_start(struct stet_engine *engine, struct stet_job **ret);
bool stet_engine_flushing(const struct stet_engine *engine);
/* A step of background work: checkpoints when one is due or asked for, releases, timed flushes. 1 =
 * something was done (call again), 0 = nothing to do now. *ret: a job to perform, or NULL. */
STET_CHECKED int stet_engine_step(struct stet_engine *engine, struct stet_job **ret);
void stet_job_perform(struct stet_job *job);                               /* without the lock */
void stet_engine_finish(struct stet_engine *engine, struct stet_job *job); /* frees the job */
/* Who waits for durability starts the flushes: steps leave those to him. */
void stet_engine_led(struct stet_engine *engine, bool on);
/* When the next timed work is due (monotonic ns), INT64_MAX = none. */
int64_t stet_engine_deadline(const struct stet_engine *engine);
/* Whether the background worker should run now, ahead of the deadline. */
bool stet_engine_wants_work(const struct stet_engine *engine);

/* 0: everything up to serial is durable. STET_WAIT: the ticket fires when it is (result 0) or when the
 * volume failed (-EIO). Somebody must run flush jobs. */
STET_CHECKED int stet_engine_durable(struct stet_engine *engine, uint64_t serial,
				     struct stet_ticket *ticket);
uint64_t stet_engine_serial(const struct stet_engine *engine); /* last operation ordered */
/* Asks for a checkpoint; the ticket (may be NULL) fires when one whose cut includes everything up to
 * now is durable. */
STET_CHECKED int stet_engine_checkpoint(struct stet_engine *engine, struct stet_ticket *ticket);
/* Runs jobs to the end in the caller's thread (mkfs, tests, close): flush, then a checkpoint. */
STET_CHECKED int stet_engine_settle(struct stet_engine *engine);

/* Calls fn for each open transaction but PLAIN ones. */
typedef void stet_engine_txn_fn(void *arg, struct stet_txn *txn);
void stet_engine_each_txn(struct stet_engine *engine, stet_engine_txn_fn *fn, void *arg);

/* Space is short: how many segments the cleaner should free now (0 = none), and whether waiters
 * depend on it. The cleaner reports progress; when it can do nothing, waiting reservations fail. */
struct stet_engine_pressure {
	uint32_t want_segments;
	bool waiters;
};
void stet_engine_pressure(const struct stet_engine *engine, struct stet_engine_pressure *ret);
/* Whether somebody answers the pressure: while segments are short, he and the checkpoints take turns. */
void stet_engine_set_cleaner(struct stet_engine *engine, bool present);
void stet_engine_cleaned(struct stet_engine *engine, bool progress);
void stet_engine_reclaimed(struct stet_engine *engine);
/* Asks the next checkpoint to rewrite the node of this level that contains key (cleaner). */
STET_CHECKED int stet_engine_touch_node(struct stet_engine *engine, uint32_t level, const void *key,
					size_t key_bytes);
/* Asks the next checkpoint to rewrite a table page (cleaner). */
STET_CHECKED int stet_engine_touch_page(struct stet_engine *engine, uint32_t page_no);
/* The root of the newest checkpoint and its cut (cleaner, check). */
void stet_engine_root(const struct stet_engine *engine, struct stet_root *ret_root,
		      uint64_t *ret_cut);

struct stet_engine_stats {
	uint64_t serial, durable, cut; /* cut: of the newest checkpoint */
	uint64_t delta_keys, delta_bytes, dirty_bytes;
	uint64_t flushes, checkpoints, commits, conflicts, deadlocks, waits, spills, overlays;
	uint64_t log_bytes; /* see stet_log_summary_bytes */
	uint64_t
		invisible; /* keys of the delta that scans passed because they were of another time */
	uint64_t passed;   /* keys that scans passed because they were deleted */
	uint64_t views, txns;
	uint64_t recovered_batches;
	bool failed, torn_tail;
	char failure[STET_ERROR_TEXT_SIZE]; /* why it failed; "" when it did not */
};
void stet_engine_stats(const struct stet_engine *engine, struct stet_engine_stats *ret);

/* --- mutants: switches of the test-only build (STET_MUTANTS), else constant --- */
enum stet_mutant {
	STET_MUTANT_NONE,
	STET_MUTANT_NO_FLUSH,         /* answers before the flush */
	STET_MUTANT_NO_LOCK,          /* locks always granted */
	STET_MUTANT_NO_STRUCTURE,     /* structural checks pass */
	STET_MUTANT_NO_VALIDATE,      /* serializable validation passes */
	STET_MUTANT_NO_FIRST_UPDATER, /* writes to what others changed pass */
	STET_MUTANT_EARLY_REUSE,      /* freed blocks are released at once */
	STET_MUTANT_NO_RANGE_LOCK, /* locks of ranges are always granted; those of whole names not */
	STET_MUTANT_NO_BYTE_MERGE, /* bytes staged at LOCKING bring along the rest of their blocks */
	STET_MUTANT_NO_READ_LOCK,  /* LOCKING: readers lock nothing */
	STET_MUTANT_NO_NAMES_LOCK,   /* LOCKING: who lists a directory does not lock its names */
	STET_MUTANT_EARLY_RELEASE,   /* locks are released before what they guard is published */
	STET_MUTANT_NO_RANGE,        /* SERIALIZABLE: what was listed is not validated */
	STET_MUTANT_NO_KEY,          /* SERIALIZABLE: what was read by its key is not validated */
	STET_MUTANT_NO_MERGE,        /* intents are merged with what the transaction had read */
	STET_MUTANT_NO_APPEND_MERGE, /* appends are written at the end as of begin */
	STET_MUTANT_READ_CURRENT, /* SNAPSHOT, SERIALIZABLE: single keys are read as they are now */
	STET_MUTANT_NO_READ_WAIT, /* a commit does not wait for what the transaction has read */
	STET_MUTANT_ANSWER_ALL,   /* a flush answers also those who came after its cut */
	STET_MUTANT_SAVE_IN_PLACE, /* what a savepoint needs of a buffer is changed in place */
	STET_MUTANT_SAVE_NO_KEEP,  /* what savepoints need of earlier runs is given back */
	STET_MUTANT_SAVE_NO_STATE, /* what is remembered besides the write-set is not rolled back */
};
void stet_mutant_set(enum stet_mutant mutant); /* no-op without STET_MUTANTS */
bool stet_mutant_is(enum stet_mutant mutant);

#endif
