/* save.h - savepoints of a transaction: what is remembered to come back to them. */
#ifndef STET_TXN_SAVE_H
#define STET_TXN_SAVE_H

#include "base/vec.h"
#include "format/summary.h"
#include "tree/tree.h"
#include "txn/rangeset.h"

struct stet_job;
struct stet_txn;
struct stet_version;

#define STET_SAVE_MARKS 2u /* STET_TXN_MARKS */

/* What the write-set had for a key before its first change since a savepoint. */
struct stet_undo {
	struct stet_version *old; /* owned; NULL: nothing */
	uint16_t key_bytes;
	uint8_t key[];
};

struct stet_undo_list {
	STET_VEC(struct stet_undo *) list;
};

/* Savepoints between which nothing was done: they are one position, with the ids from id to last. */
struct stet_save {
	uint32_t id, last;
	uint32_t interval;       /* spills of the write-set before it */
	uint32_t finals, others; /* undo records before it */
	uint64_t promised;
	uint64_t mark[STET_SAVE_MARKS]; /* of the layer above */
};

/* The state right after a spill, kept while a savepoint was taken in the interval that the spill ended, or in
 * the next one. */
struct stet_point {
	uint32_t interval; /* that ended with it; 0: the beginning, without a run */
	bool have_run;
	struct stet_run run;
	uint64_t run_nodes, run_blocks;
	uint64_t
		mark; /* everything of ours that lies at or below this address was placed by then */
	STET_VEC(struct stet_addr) lost_nodes; /* of the run, that no newer run names */
	struct stet_rangeset lost;             /* places of data, likewise */
	/* What the spill took out of memory, for the savepoints of its interval. */
	struct stet_root out;
	STET_VEC(struct stet_addr) out_nodes;
	struct stet_rangeset owned; /* places of data that only undo records of it name */
};

struct stet_saves {
	STET_VEC(struct stet_save)
	stack; /* ids, intervals and positions rise; no two are one position */
	uint32_t last_id;
	uint32_t interval;
	struct stet_undo_list finals; /* of this interval: what was, or became, final */
	struct stet_undo_list others;
	STET_VEC(struct stet_point *) points; /* intervals and marks rise */
	uint64_t mark,
		run_mark; /* the highest address that was placed; the same when the run was made */
	uint64_t kept_nodes, kept_blocks; /* blocks that only points need: of runs' nodes; others */
};

/* --- save.c --- */
static inline struct stet_save *stet_save_top_(struct stet_saves *saves)
{
	return saves->stack.n ? &saves->stack.v[saves->stack.n - 1] : NULL;
}

/* A savepoint was taken since the last spill. */
static inline bool stet_save_in_interval_(struct stet_saves *saves)
{
	const struct stet_save *top = stet_save_top_(saves);

	return top && top->interval == saves->interval;
}

/* The key is about to get `next` instead of `old` (NULL: none). *ret_kept: `old` is remembered, and no longer
 * the caller's. */
STET_CHECKED int stet_save_note_(struct stet_txn *txn, const struct stet_key *key,
				 struct stet_version *old, struct stet_version *next,
				 bool *ret_kept);
/* The content of a version is needed by a savepoint: it must not be changed in place. */
bool stet_save_needs_(struct stet_txn *txn, const struct stet_version *v);
/* Takes `old`, on failure too. */
STET_CHECKED int stet_undo_push_(struct stet_txn *txn, struct stet_undo_list *records, bool final,
				 const struct stet_key *key, struct stet_version *old);
/* Frees the records from `from` on. */
void stet_undo_free_(struct stet_txn *txn, struct stet_undo_list *records, size_t from, bool final);
/* Forgets all savepoints; what was done stays. */
void stet_save_release_all_(struct stet_txn *txn);

/* --- keep.c: what points keep --- */
/* Gives back, or keeps for the newest point that needs it, what the run has lost. */
void stet_keep_lost_node_(struct stet_txn *txn, const struct stet_node_ptr *ptr);
void stet_keep_lost_data_(struct stet_txn *txn, struct stet_addr addr, uint32_t blocks);
/* Drops the points of intervals above this one, newest first; UINT32_MAX: all of them. */
void stet_keep_trim_(struct stet_txn *txn, uint32_t interval);
void stet_point_free_(struct stet_txn *txn, struct stet_point *point);
struct stet_point *stet_keep_find_(struct stet_txn *txn, uint32_t interval);
/* The points of a spill that ends an interval with savepoints: made before; the older one is there before the
 * old run loses anything, the newer one when the new run is the transaction's. */
STET_CHECKED int stet_keep_prepare_(struct stet_job *job);
void stet_keep_before_(struct stet_job *job);
void stet_keep_after_(struct stet_job *job);
/* The run is again what it was at the point: what is newer goes, but for the places in `taken`. Points above
 * it go. */
STET_CHECKED int stet_keep_restore_(struct stet_txn *txn, struct stet_point *to,
				    const struct stet_rangeset *taken);

/* --- swap.c: a write-set and its undo records on the device --- */
/* Writes them with the job's group, as job->point's. */
STET_CHECKED int stet_swap_out_(struct stet_job *job);
/* They have been written, and the entries' places are the run's: the records leave memory. */
void stet_swap_done_(struct stet_job *job);
/* Brings them back, into a set without finals. *taken: places that will be the buffers' again. */
STET_CHECKED int stet_swap_in_(struct stet_txn *txn, const struct stet_point *point,
			       struct stet_rangeset *taken);
/* Now they are. */
void stet_swap_unroot_(struct stet_txn *txn);

#endif
