/* txn_internal.h - what the files of txn/ share: the engine, versions, views, runs, write-sets. */
#ifndef STET_TXN_TXN_INTERNAL_H
#define STET_TXN_TXN_INTERNAL_H

#include "base/list.h"
#include "base/random.h"
#include "base/skiplist.h"
#include "base/vec.h"
#include "txn/engine.h"
#include "txn/lock.h"
#include "txn/rangeset.h"
#include "txn/save.h"
#include "txn/txn.h"

/* --- versions: what a key was given at a serial --- */
enum stet_vkind {
	STET_V_BYTES,  /* a value */
	STET_V_DEL,    /* the key is gone */
	STET_V_BUF,    /* an extent whose blocks lie in a buffer */
	STET_V_INTENT, /* write-sets only: bytes are an intent to merge at ordering */
	STET_V_SAME,   /* write-sets only: as others see the key; hides what the own run has */
};

#define STET_PATCH_RANGES 8u

/* How a one-block buffer differs from what the log can already rebuild. */
struct stet_patch {
	bool base_current; /* base: the block as the key's previous logged version made it */
	bool base_hole;    /* base: zeros */
	struct stet_addr base_addr; /* else: the block at this place */
	uint32_t base_crc;
	uint32_t count;
	struct {
		uint16_t off, len; /* bytes of the block */
	} range[STET_PATCH_RANGES];
};

struct stet_version {
	struct stet_version *older;
	uint64_t serial; /* at which it was ordered; 0 in write-sets */
	enum stet_vkind kind;
	uint16_t bytes;           /* BYTES, INTENT */
	uint16_t from, count;     /* BUF: blocks of buf */
	uint32_t noted;           /* write-sets: the newest savepoint with a record of the key */
	struct stet_databuf *buf; /* BUF: one reference */
	uint64_t birth;           /* BUF; 0 = the serial */
	struct stet_patch *patch; /* BUF: owned; NULL = whole blocks */
	bool spilling;            /* write-sets: part of the run that is being written */
	uint8_t room;             /* bytes of b behind `bytes`, for what symbols turn into */
	uint8_t b[];
};

STET_CHECKED int stet_version_bytes_(enum stet_vkind kind, const void *bytes, size_t len,
				     uint8_t room, struct stet_version **ret);
STET_CHECKED int stet_version_buf_(struct stet_databuf *buf, uint16_t from, uint16_t count,
				   uint64_t birth, struct stet_version **ret);
void stet_version_free_(struct stet_version *v); /* NULL ok; drops the buffer reference */
/* What the key becomes does not depend on what others do. */
bool stet_version_is_final_(const struct stet_version *v);
size_t stet_version_memory_(const struct stet_version *v);
/* Fills *ret from a version that is not DEL. birth/serial symbols stay. */
void stet_version_val_(const struct stet_version *v, struct stet_val *ret);
/* Encodes a BUF whose blocks are placed in one run; returns bytes. */
size_t stet_version_encode_(const struct stet_version *v, uint8_t *out);
size_t stet_val_encode_(const struct stet_val *val, uint8_t *out); /* BUF values likewise */

/* --- the delta --- */
struct stet_dnode { /* the value of a node of engine->delta */
	struct stet_version *newest;
	uint64_t serial;           /* of newest: what readers look at first */
	struct stet_list dirty;    /* on engine->dirty: newest is not in the log */
	struct stet_list unplaced; /* on engine->unplaced: newest is in the log as patches only */
};

static inline struct stet_skipnode *stet_dnode_node_(struct stet_dnode *dnode)
{
	return stet_skipnode_of(dnode, sizeof(*dnode));
}

/* A transaction's changes as a sorted run. */
struct stet_runref {
	uint64_t refs;
	struct stet_run run;
	struct stet_list link; /* on engine->runs, oldest first */
	bool logged;
	bool recovered; /* its data's places are in engine->recovered */
	bool consumed;  /* a root holds it; older views may still read it */
};

/* A checkpoint's tree, perhaps with what came after it lying over it (overlay.c). */
struct stet_rootref {
	uint64_t refs;
	struct stet_root root;
	uint64_t cut;              /* all up to here is in it */
	uint64_t base_cut;         /* all up to here is in the tree */
	bool same_after;           /* a later tree has this base_cut, too: nodes were moved */
	struct stet_overlay *over; /* owned; NULL: cut is base_cut */
};

struct stet_view {
	struct stet_engine *engine;
	struct stet_rootref *root;
	uint64_t serial;
	struct stet_list link;       /* on engine->views, rising serial */
	uint32_t scans;              /* open ones that read at it */
	uint64_t pinned_blocks;      /* see struct stet_txn_info */
	struct stet_job *overlaying; /* in flight, or NULL */
};

enum stet_ckpt_state {
	STET_CKPT_IDLE,
	STET_CKPT_FLUSH, /* the flush that makes the cut is in flight */
	STET_CKPT_APPLY, /* the tree is being built */
	STET_CKPT_NODES, /* a group of nodes is in flight */
	STET_CKPT_TABLE, /* table, record and slot are in flight */
};

struct stet_ckpt; /* checkpoint.c */

enum stet_job_kind {
	STET_JOB_FLUSH,
	STET_JOB_NODES,
	STET_JOB_TABLE,
	STET_JOB_BULK,
	STET_JOB_OVERLAY,
};

struct stet_flight {
	struct stet_dnode *dnode;
	uint64_t serial; /* of the version that was written */
	bool patch;      /* written as patches */
};

struct stet_placed { /* blocks of a buffer that a group placed */
	struct stet_databuf *buf;
	uint16_t from, count;
};

struct stet_job {
	struct stet_engine *engine;
	enum stet_job_kind kind;
	struct stet_log_group *group;
	bool flush; /* perform ends with a device flush */
	int rc;     /* of perform */
	/* FLUSH */
	uint64_t cut;
	uint64_t bulk_writes;
	uint64_t next_ino; /* as it is logged */
	bool checkpoint;   /* makes the cut of the checkpoint in progress */
	bool idle;         /* publishes `durable` only */
	STET_VEC(struct stet_flight) flight;
	STET_VEC(struct stet_placed) placed; /* FLUSH and BULK: one reference each, frozen */
	STET_VEC(struct stet_runref *) runs;
	/* TABLE */
	struct stet_ckpt_slot slot;
	/* NODES, BULK, OVERLAY */
	STET_VEC(struct stet_cnode *) nodes; /* pinned */
	/* OVERLAY */
	struct stet_overlay *overlay;
	struct stet_view *view; /* NULL: closed meanwhile */
	/* BULK */
	struct stet_txn *txn;
	bool with_run;      /* the write-set goes into `run` */
	uint64_t run_birth; /* of its new nodes; OVERLAY too */
	struct stet_run run;
	STET_VEC(struct stet_node_ptr) run_new, run_old; /* nodes that came and went */
	struct stet_rangeset run_data;                   /* places; birth 1 = of the old run */
	struct stet_point *point, *point_before;         /* to be kept for savepoints; NULL: none */
	STET_VEC(struct stet_node_ptr) out_new;          /* nodes of what is swapped out */
	uint64_t out_reserved;                           /* blocks for them */
};

STET_CHECKED int stet_job_create_(struct stet_engine *engine, enum stet_job_kind kind,
				  struct stet_job **ret);
void stet_job_destroy_(struct stet_job *job);

/* gap.c */
struct stet_gap;
struct stet_gaps {
	struct stet_gap *v; /* owned; NULL: none yet */
	unsigned n, next;
};

struct stet_engine {
	/* --- set at open, then constant --- */
	struct stet_device *device;
	struct stet_superblock sb;
	struct stet_engine_config config;
	struct stet_engine_hooks hooks;
	uint64_t checkpoint_bytes;
	uint64_t dirty_limit_bytes; /* min(cache / 2, volume / 32) */
	uint64_t delta_limit_bytes; /* by default cache / 4 */
	uint64_t reads_bytes;       /* of all transactions' reads */
	uint16_t extent_blocks_max;

	/* --- under the volume's lock --- */
	struct stet_space *space;
	struct stet_log *log;
	struct stet_cache *cache;
	struct stet_locks *locks;
	struct stet_random random;
	uint64_t serial; /* last operation ordered */
	uint64_t next_ino, logged_next_ino;
	uint64_t next_txn_id;
	bool failed; /* a flush failed: reads at durable_cut, no writes */

	struct stet_skiplist delta; /* key -> struct stet_dnode */
	bool trimming;              /* the newest checkpoint's keys are being taken out */
	struct stet_key trim_from;  /* the next key to look at */
	uint64_t delta_changes;     /* rises whenever a node comes or goes */
	uint64_t delta_bytes;
	struct stet_list dirty, unplaced;
	uint64_t unplaced_blocks; /* of the keys on `unplaced` */
	uint64_t dirty_bytes;     /* unplaced data and values not in the log */
	int64_t dirty_since_ns;   /* monotonic; 0 = nothing dirty */
	struct stet_list runs;
	struct stet_rootref *root; /* newest checkpoint */
	struct stet_list views;
	struct stet_list txns;
	uint64_t txn_count, view_count;

	uint64_t durable_cut;      /* operations up to here are durable */
	struct stet_job *flushing; /* in flight, or NULL */
	uint64_t flush_cut;        /* of the flush in flight, else durable_cut */
	STET_VEC(struct stet_waiter) waiters;
	uint64_t flush_retries;
	bool release_wanted; /* a view has gone that held blocks back: the next checkpoint releases them */
	uint32_t most_free, in_vain; /* N8 of txn.c: segments, and checkpoints */
	uint64_t vain_live;          /* blocks, when in_vain was 0 */
	uint64_t cut_blocks;         /* taken out of files, since that was a relief (N8) */
	uint64_t new_keys;           /* of the delta, since the last cut */
	uint64_t run_leaves;         /* in which the keys of runs lie, since then */
	uint64_t counted_keys,
		counted_leaves; /* D2 of crowd.c: so many of them, and the leaves that they lie in */
	bool led;               /* see stet_engine_led */
	int64_t flushed_ns;     /* monotonic: when the last flush ended */
	bool idle_published;    /* the log's last header says that everything is durable */

	struct stet_ckpt *ckpt; /* in progress, or NULL */
	bool ckpt_wanted;
	uint32_t ckpt_failures; /* since the last that was completed */
	STET_VEC(struct stet_waiter) ckpt_waiters;
	uint64_t ckpt_sequence;                    /* of the newest durable checkpoint */
	uint64_t chain_serial, older_chain_serial; /* where the slots' roll-forwards start */
	uint64_t older_cut;
	struct stet_place record_place; /* of the newest record */
	uint32_t record_bytes;
	uint64_t record_check;
	uint64_t inode_count, node_blocks, data_blocks;
	uint64_t freed_blocks; /* by the newest checkpoint: the next one releases them */
	STET_VEC(struct stet_touch) touches; /* keys owned */
	STET_VEC(uint32_t) touched_pages;
	struct stet_rangeset recovered; /* held by roll-forward until the first checkpoint */

	uint64_t promised;      /* reserved by ordered operations since the cut */
	uint64_t promised_ckpt; /* reserved by operations up to the cut in progress */
	uint64_t promise_carry; /* bytes of items that do not fill a block yet */
	struct stet_gaps gaps;
	unsigned locking_gaps; /* transactions at LOCKING that have some */
	struct stet_ticket_queue space_waiters;
	struct stet_ticket_queue reclaim_waiters; /* for room that the hook `reclaims` promises */
	uint64_t
		wanted_slots; /* free segments that some of space_waiters wait for (D3 of crowd.c) */
	uint32_t
		begun_with; /* N13 of txn.c: free segments when cleaning was in vain; else UINT32_MAX */
	bool has_cleaner;
	bool clean_turn;           /* N9 of txn.c: the cleaner comes before the next checkpoint */
	bool clean_hopeless;       /* the cleaner found nothing to do since the last change */
	uint32_t bulk_failures;    /* since a spill succeeded */
	uint32_t overlay_failures; /* since an overlay, or a checkpoint, succeeded */
	bool bulk_busy;
	uint64_t bulk_writes; /* BULK groups performed and perhaps not flushed */
	uint64_t bulk_flushed;
	struct stet_txn *plain; /* a spare PLAIN transaction */
	struct stet_engine_stats stats;
};

#define STET_IN_VAIN_MAX 6u
#define STET_RELIEF_BLOCKS 64u /* as many as a checkpoint of a small volume takes */

/* crowd.c */
/* Whether what a checkpoint would write now, and so many leaves more, is more than so many quarters of what is free. */
bool stet_crowded_(const struct stet_engine *engine, uint64_t more_leaves, unsigned quarters);
/* How many free segments it takes not to be crowded at three quarters; 0: the volume never has so many. */
uint64_t stet_crowd_wants_(const struct stet_engine *engine, uint64_t more_leaves);
/* The leaves that the transaction will change; and counts them, as below. */
uint64_t stet_crowd_of_(const struct stet_txn *txn);
STET_CHECKED int stet_crowd_count_of_(struct stet_txn *txn);
/* It was counted, and has a key more. */
void stet_crowd_note_(struct stet_txn *txn, const struct stet_key *key);
void stet_crowd_release_(struct stet_txn *txn);
/* Its run is about to be published, which takes no keys of the delta. */
void stet_crowd_publish_(struct stet_txn *txn);
/* Counts exactly, if it is time to: then fewer may turn out to be needed. -EIO, -EUCLEAN, -ENOMEM. */
STET_CHECKED int stet_crowd_count_(struct stet_engine *engine);
/* A checkpoint begins: the leaves that it writes; it is given up. */
uint64_t stet_crowd_taken_(struct stet_engine *engine);
void stet_crowd_given_back_(struct stet_engine *engine, uint64_t taken);
/* What was promised and has no place yet: that in no root yet needs no segment any more. */
uint64_t stet_promised_unplaced_(const struct stet_space_usage *u);
/* N8 of txn.c: the next checkpoint gives something back, so it is worth to wait. */
void stet_room_comes_back_(struct stet_engine *engine);
/* N9 of txn.c */
bool stet_clean_first_(const struct stet_engine *engine);

struct stet_waiter {
	uint64_t serial;
	struct stet_ticket *ticket;
};

/* delta.c */
/* Gives a key a new version at a serial. Takes the version. `logged`: it is in the log already. -ENOMEM
 * leaves the version with the caller. */
STET_CHECKED int stet_delta_publish_(struct stet_engine *engine, const void *key, size_t key_bytes,
				     struct stet_version *v, uint64_t serial, bool logged);
/* Makes sure that publishing this key cannot fail for memory. */
STET_CHECKED int stet_delta_prepare_(struct stet_engine *engine, const void *key, size_t key_bytes);
struct stet_version *stet_delta_find_(const struct stet_dnode *dnode, uint64_t cut,
				      uint64_t serial);
struct stet_dnode *stet_delta_node_(struct stet_engine *engine, const void *key, size_t key_bytes);
/* The extent entry at `dnode` is split after `blocks`: the rest becomes an entry of its own. */
STET_CHECKED int stet_delta_split_(struct stet_engine *engine, struct stet_dnode *dnode,
				   uint16_t blocks);
/* Versions that the newest root holds and no view needs are to go; the step looks at so many keys. */
void stet_delta_trim_(struct stet_engine *engine);
void stet_delta_trim_step_(struct stet_engine *engine, size_t keys);
void stet_delta_release_(struct stet_engine *engine);
/* Puts a key on, and takes it off, the list of blocks that the log holds as patches only. */
void stet_delta_unplaced_(struct stet_engine *engine, struct stet_dnode *dnode);
void stet_delta_placed_(struct stet_engine *engine, struct stet_dnode *dnode);
/* Frees older versions of the chain that nobody needs (D2). */
void stet_delta_prune_(struct stet_engine *engine, struct stet_dnode *dnode);
bool stet_delta_needed_(const struct stet_engine *engine, uint64_t serial, uint64_t next_serial);
/* A buffer's blocks that no root names are given back when its last reference goes. */
void stet_buf_put_(struct stet_engine *engine, struct stet_databuf *buf);
/* The same; nobody needs the blocks once everything up to cut is in a root (0: at once). */
void stet_buf_put_at_(struct stet_engine *engine, struct stet_databuf *buf, uint64_t cut);

/* read.c: one key in (root, runs, delta) at a serial */
STET_CHECKED int stet_read_at_(struct stet_engine *engine, const struct stet_rootref *root,
			       uint64_t serial, const struct stet_key *key, struct stet_val *ret);
uint64_t stet_read_serial_(const struct stet_engine *engine); /* of the current committed state */
void stet_item_val_(const struct stet_item *item, struct stet_val *ret);
/* Turns a run's value into a final one. */
void stet_run_resolve_(struct stet_engine *engine, const struct stet_run *run, const uint8_t *key,
		       size_t key_bytes, struct stet_val *val);

/* view.c */
/* Another one of the same state. */
STET_CHECKED int stet_view_like_(struct stet_view *view, struct stet_view **ret);
void stet_rootref_put_(struct stet_engine *engine, struct stet_rootref *root);
void stet_runref_put_(struct stet_engine *engine, struct stet_runref *run);

/* gap.c: ranges of keys in which nothing lives */
void stet_gaps_clear_(struct stet_gaps *gaps);
/* A gap in which `at` lies: where it ends. */
bool stet_gap_behind_(const struct stet_gaps *gaps, const struct stet_key *at, uint64_t serial,
		      struct stet_key *ret_to);
/* A gap in which the keys right below `before` lie: where it begins. */
bool stet_gap_before_(const struct stet_gaps *gaps, const struct stet_key *before, uint64_t serial,
		      struct stet_key *ret_from);
void stet_gap_note_(struct stet_gaps *gaps, const struct stet_key *from, const struct stet_key *to,
		    uint64_t serial);
void stet_gap_break_(struct stet_gaps *gaps, const struct stet_key *key);

/* What a scan has passed without finding anything: when it was much, it is noted as a gap. */
struct stet_passed {
	struct stet_key from; /* where it began; backwards: above it */
	unsigned keys;
	bool unsure;     /* of the committed state alone it cannot be said (G1 of gap.c) */
	uint64_t serial; /* since when it can */
};
void stet_passed_key_(struct stet_passed *p, const struct stet_dnode *dnode, uint64_t serial);
void stet_passed_gap_(struct stet_passed *p, bool own);
/* Nothing lives in [from, to), as read at the serial; txn NULL: of nobody's. */
void stet_passed_note_(const struct stet_passed *p, struct stet_engine *engine,
		       struct stet_txn *txn, uint64_t serial, const struct stet_key *from,
		       const struct stet_key *to);
/* The key lives in the committed state from this serial on. */
void stet_gaps_lives_(struct stet_engine *engine, const struct stet_key *key, uint64_t serial);
/* Of one transaction; of all that see the committed state. */
void stet_gaps_forget_(struct stet_txn *txn);
void stet_gaps_forget_all_(struct stet_engine *engine);
/* Whether its own gaps may be used. */
bool stet_gaps_own_(const struct stet_txn *txn);

/* merge.c: a merged iterator over delta, runs, tree (and a write-set) */
struct stet_merge {
	struct stet_engine *engine;
	struct stet_txn *txn;      /* own changes on top, or NULL */
	struct stet_rootref *root; /* one reference */
	uint64_t serial;
	bool with_tree;       /* false: only what came after the root (checkpoint) */
	bool own_only;        /* only the transaction's own changes */
	struct stet_key last; /* last key returned (bytes 0: none) */
	struct stet_key to;   /* exclusive end, bytes 0 = none */
	struct stet_key from;
	bool started;
	bool reverse;
	struct stet_passed passed;
	/* candidates */
	struct stet_skipnode *own, *delta;
	struct stet_skippath own_path, delta_path; /* to them, backwards */
	uint64_t own_changes, delta_changes;
	struct stet_tree_cursor tree;
	bool tree_open;
	STET_VEC(struct stet_merge_run) runs; /* newest first; the transaction's own first */
};
struct stet_merge_run {
	struct stet_runref *ref; /* NULL: the transaction's own run */
	struct stet_run run;
	struct stet_tree_cursor cur;
};
STET_CHECKED int stet_merge_open_(struct stet_merge *m, struct stet_engine *engine,
				  struct stet_txn *txn, struct stet_rootref *root, uint64_t serial,
				  const struct stet_key *from, const struct stet_key *to);
/* Only what is newer than the root, tombstones included. */
STET_CHECKED int stet_merge_open_changes_(struct stet_merge *m, struct stet_engine *engine,
					  struct stet_rootref *root, uint64_t serial);
/* Only the transaction's own staged changes, tombstones included. */
STET_CHECKED int stet_merge_open_own_(struct stet_merge *m, struct stet_txn *txn);
/* 1 = an item; *ret_version NULL: it is a tombstone (only when those are wanted). */
STET_CHECKED int stet_merge_next_(struct stet_merge *m, struct stet_key *ret_key,
				  struct stet_val *ret_val, bool *ret_gone);
void stet_merge_close_(struct stet_merge *m);

/* --- transactions --- */
/* D2 of crowd.c: what was counted of the keys that a transaction changes. */
struct stet_crowd {
	uint64_t cut; /* of the root in whose tree */
	uint64_t keys, leaves;
	bool has_last;
	struct stet_key low,
		end; /* the last leaf, from the first key in it that counts; end empty: no end */
};

struct stet_txn {
	struct stet_engine *engine;
	uint64_t id;
	enum stet_level level;
	bool read_only;
	int doomed;    /* 0 or the error */
	bool ordering; /* reads see the current state */
	bool ordered;
	bool moves;             /* it only moves what is there (the cleaner) */
	bool prepared;          /* every entry of `set` is ready to be published */
	struct stet_view *view; /* not PLAIN */
	struct stet_lock_owner owner;
	struct stet_lock_owner *stand_in; /* N2; borrowed, NULL: none */
	struct stet_list link;            /* on engine->txns */
	int64_t begun_ns;
	uint64_t read_max; /* highest serial read */

	struct stet_skiplist set; /* key -> struct stet_version */
	uint64_t set_changes;
	uint64_t set_bytes;   /* memory of the entries */
	uint64_t final_bytes; /* of these, what a spill takes away: all but intents */
	uint64_t buf_bytes;   /* unplaced data */
	uint64_t set_blocks;  /* data, also what was placed early */
	bool have_run;
	struct stet_run run;            /* what was spilled */
	uint64_t run_nodes, run_blocks; /* in it; data blocks that are new with it */
	struct stet_job *spilling;      /* in flight, or NULL */
	uint64_t spill_lacks;           /* blocks of which the last try of a spill had no promise */
	bool ended;                     /* stet_txn_end came while spilling */
	struct stet_ticket_queue spill_waiters;
	struct stet_saves saves;
	bool asked;               /* for room: it is about to write (N4) */
	uint64_t cut_blocks;      /* taken out of files */
	uint64_t promised;        /* blocks reserved */
	uint64_t counted;         /* what it was found to need when that was last counted */
	struct stet_crowd *crowd; /* owned; NULL: never counted */

	struct stet_gaps gaps;
	struct stet_skiplist reads; /* serializable: key -> mask */
	STET_VEC(struct stet_read_range) ranges;
	uint64_t reads_bytes;
	bool read_too_much; /* to be remembered: whatever others have changed, counts as read (N6) */

	struct stet_text conflict;
	struct stet_key *conflict_key; /* owned; NULL: none */
	const char *conflict_why;
	stet_txn_put_fn *told; /* of each entry; NULL: nobody */
	void *told_arg;
	void *user;
	const struct stet_txn_user_ops *user_ops; /* of user; NULL: there is none */
	uint64_t user_bytes;
	bool lock_pages;
};
struct stet_read_range {
	struct stet_key from, to;
};

/* writeset.c */
void stet_set_clear_(struct stet_txn *txn);
/* The places of the entries that `spilling` marks are the run's now; spilled drops these entries. */
void stet_set_rooted_(struct stet_txn *txn);
void stet_set_spilled_(struct stet_txn *txn);
/* Puts the key back to what it had (NULL: nothing). Takes `old`, which is accounted for, but on failure. */
STET_CHECKED int stet_set_restore_(struct stet_txn *txn, const struct stet_key *key,
				   struct stet_version *old);
void stet_set_drop_finals_(struct stet_txn *txn);
/* Counts a version in or out; drop frees it too. */
void stet_set_account_(struct stet_txn *txn, const struct stet_version *v, bool add);
void stet_set_drop_version_(struct stet_txn *txn, struct stet_version *v);
struct stet_version *stet_set_find_(struct stet_txn *txn, const void *key, size_t key_bytes);
STET_CHECKED int stet_set_put_(struct stet_txn *txn, const struct stet_key *key,
			       struct stet_version *v);
/* The value of a key in the transaction's own run: 0, -ENOENT, or 1 for a tombstone. */
STET_CHECKED int stet_set_run_get_(struct stet_txn *txn, const struct stet_key *key,
				   struct stet_val *ret);

/* spill.c */
void stet_spill_abort_(struct stet_txn *txn);
/* The newest root holds everything of the run that is still needed: gives back the rest. */
STET_CHECKED int stet_spill_consumed_(struct stet_engine *engine, const struct stet_runref *ref);
void stet_spill_finish_(struct stet_job *job);
/* A node of a run goes to the BULK head; its address and birth are set in *ptr. */
STET_CHECKED int stet_run_node_(struct stet_job *job, struct stet_cnode *node, uint32_t level,
				struct stet_node_ptr *ptr);

/* overlay.c */
bool stet_overlay_due_(const struct stet_engine *engine);
/* Starts one, or expires a view. 1 = progress; *ret may be a job. */
STET_CHECKED int stet_overlay_step_(struct stet_engine *engine, struct stet_job **ret);
void stet_overlay_finish_(struct stet_job *job);
void stet_overlay_free_(struct stet_engine *engine, struct stet_overlay *over); /* NULL ok */
const struct stet_run *stet_overlay_run_(const struct stet_overlay *over);

/* flush.c */
void stet_flush_finish_(struct stet_job *job);
/* checkpoint: also places what the log holds only as patches. *ret NULL: nothing to flush. -EAGAIN: a
 * flush is in flight. */
STET_CHECKED int stet_flush_start_(struct stet_engine *engine, bool checkpoint,
				   struct stet_job **ret);
/* Makes the first blocks of buf[from, from + count) lie in one run of the device, placing them with the
 * job's group if they have no place yet; *ret_run of them do. ino, block: whose they are. */
STET_CHECKED int stet_place_(struct stet_job *job, enum stet_seg_kind head, uint64_t ino,
			     uint64_t block, struct stet_databuf *buf, uint16_t from,
			     uint16_t count, uint16_t *ret_run);
void stet_placed_undo_(struct stet_job *job);
void stet_placed_done_(struct stet_job *job);
void stet_engine_fail_(struct stet_engine *engine, const char *why);
/* -EROFS, with the reason why the volume failed. */
STET_CHECKED int stet_engine_refuse_(const struct stet_engine *engine);

/* checkpoint.c */
STET_CHECKED int stet_ckpt_step_(struct stet_engine *engine, struct stet_job **ret);
void stet_ckpt_finish_(struct stet_job *job);
void stet_ckpt_flushed_(struct stet_engine *engine, struct stet_job *job, bool ok);
void stet_ckpt_abort_(struct stet_engine *engine);
/* Slots are short and the newest checkpoint freed at least a segment: another one releases it. */
bool stet_release_due_(const struct stet_engine *engine);
/* N4 of txn.c; writers: also of transactions that write; except: not of this one (NULL: of any). True: the next
 * checkpoint will release something. */
bool stet_txn_expire_oldest_(struct stet_engine *engine, bool writers,
			     const struct stet_txn *except);
bool stet_ckpt_due_(const struct stet_engine *engine);

/* recover.c */
/* Loads the newest checkpoint that can be read and rolls forward. */
STET_CHECKED int stet_recover_(struct stet_engine *engine);

/* txn.c */
/* N5. True: something was given back of what was promised. */
bool stet_txn_give_back_(struct stet_txn *txn);
/* Operations reserve for the worst; what is not needed goes back. True: there was something. */
bool stet_txn_shrink_promise_(struct stet_txn *txn);
/* Whether, beside the reserve and `spare`, no free segments would be left when everything that was accepted
 * has been written; *ret_missing (may be NULL): how many are missing. */
bool stet_short_of_slots_(const struct stet_engine *engine, uint32_t spare, uint64_t *ret_missing);

/* engine.c */
void stet_space_kick_(struct stet_engine *engine);
/* An empty partial segment that says that everything is durable. *ret NULL: not now. */
STET_CHECKED int stet_flush_idle_(struct stet_engine *engine, struct stet_job **ret);
void stet_waiters_fire_(struct stet_engine *engine, bool ckpt, uint64_t up_to, int result);

#endif
