/* duel.h - the real system and the model, step by step side by side.
 *
 * D1. Without a transaction, an operation gives what the model gives, or is refused because of an open
 *     transaction with which it conflicts.
 * D2. In a transaction, what is read is the model's view plus the own changes. A commit that succeeds adds
 *     the transaction's operations to the current state, where they must still be possible; nothing that
 *     it changed may have been changed by others (SNAPSHOT, SERIALIZABLE), and what it read must be the
 *     same now (SERIALIZABLE, LOCKING).
 *     What is done after a savepoint is as if it had never been once it is rolled back; but others may have
 *     been refused because of it.
 * D3. After a crash the volume is in one of the states in which a flush started, not older than the last
 *     one that was acknowledged.
 */
#ifndef TEST_MODEL_DUEL_H
#define TEST_MODEL_DUEL_H

#include "conflict.h"
#include "step.h"
#include "world.h"

#include "base/vec.h"

/** What a crash may show. */
struct duel_boundary {
	uint64_t cut;
	struct model *state; /* one reference */
	size_t event;        /* of the recorder, when the flush started */
};

/** A state as of a serial. */
struct duel_past {
	uint64_t serial;
	struct model *state; /* one reference */
};

struct duel_ack; /* a commit that is not acknowledged yet */

/** An operation done in a transaction. */
struct duel_done {
	struct model_op op;
	int rc;
	bool changes; /* something, in the model */
	uint64_t ino;
	uint64_t answer; /* hash of the bytes handed out */
};

/** A savepoint: what the transaction was then. */
struct duel_save {
	uint64_t id;
	struct model *state;
	size_t done;
};

struct duel_commit {
	uint64_t no;
	size_t count;
	struct facet *facets; /* owned */
};

struct duel_txn {
	struct stet_txn *txn; /* NULL: not open */
	enum stet_level level;
	bool read_only, doomed;
	bool hopeless;      /* LOCKING: its changes no longer fit what is committed; it must fail */
	struct model *view; /* at begin */
	struct model *state;    /* with the own changes */
	struct model *based_on; /* LOCKING: what state was made from */
	uint64_t begun;         /* commits up to this one are in the view */
	uint64_t first_step;
	STET_VEC(struct duel_done) done;
	STET_VEC(struct facet) facets; /* of what was rolled back too: locks stay */
	STET_VEC(struct duel_save) saves;
	bool blocked; /* waits for a lock, to do: */
	struct step pending;
	struct stet_ticket ticket;
};

struct duel_counts {
	uint64_t steps, ops, changes, refused, commits, conflicts, deadlocks, nospace, expired,
		reopens, kills, compares, waits, acks, saves, rollbacks;
};

struct duel {
	struct world *w;
	struct model *now;
	struct duel_txn txn[STEP_TXNS];
	uint64_t held[STEP_HELD];                  /* 0: nothing */
	STET_VEC(struct duel_boundary) boundaries; /* rising cuts */
	bool keep_boundaries;                      /* those that are over, too */
	bool late_acks; /* commits are acknowledged by whatever flush comes (duel_ack.c) */
	STET_VEC(struct duel_past) past;  /* rising serials */
	STET_VEC(struct duel_ack *) acks; /* owned */
	bool faults;                      /* errors of the device are expected */
	bool memory_faults;               /* -ENOMEM too */
	uint64_t
		fail_allocation; /* not 0: the n-th one, and those after it, of the next operation */
	bool allocation_failed;  /* there were as many */
	uint64_t acked;          /* durable */
	void (*on_ack)(void *arg, uint64_t serial);
	void *on_ack_arg;
	STET_VEC(struct duel_commit) commits; /* what open transactions may conflict with */
	uint64_t commit_no, stamp;
	struct model_result real, model;
	struct stet_text why; /* of the first failure */
	const char *why_fmt;  /* tells kinds of failures apart */
	struct duel_counts counts;
};

/** Makes a volume and opens it. */
int duel_create(const struct world_config *config, struct duel **ret);
/** Takes an open volume that shows `state`. */
void duel_adopt(struct world *take_world, struct model *state, struct duel **ret);
void duel_destroy(struct duel *d); /* NULL: nothing */
/** False: they differ, and d->why says in what. */
bool duel_step(struct duel *d, const struct step *step);
/** Ends transactions, compares everything, settles, reopens and compares again. */
bool duel_finish(struct duel *d);
/** Compares the whole tree and checks all accounting. */
bool duel_compare(struct duel *d);
void duel_state(const struct duel *d, struct step_state *ret);
/** Notes a failure. Returns false. */
bool duel_fail(struct duel *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void duel_print_counts(const struct duel *d, struct stet_text *t);

/* What a step means to somebody who sees m. */
void duel_resolve_(const struct duel *d, const struct model *m, const struct step *s,
		   struct model_op *op);

/* duel_txn.c */
bool duel_begin_(struct duel *d, const struct step *step);
bool duel_commit_(struct duel *d, const struct step *step);
/* SAVE, BACK, RELEASE. */
bool duel_save_(struct duel *d, const struct step *step);
void duel_end_(struct duel *d, struct duel_txn *t);
void duel_end_all_(struct duel *d);
/* Remembers what was committed, as long as transactions are open. */
void duel_note_commit_(struct duel *d, const struct facet *facets, size_t count);
/* Whether an actor (NULL: plain) may be refused what has these facets. */
bool duel_may_refuse_(const struct duel *d, const struct duel_txn *t, const struct facet *facets,
		      size_t count);
bool duel_ack_(struct duel *d, uint64_t serial);
/* duel_ack.c */
/* The state has changed, or is another. */
void duel_note_state_(struct duel *d);
void duel_forget_states_(struct duel *d);
/* The serial whose state explains what the transaction has read; 0: none in particular. */
uint64_t duel_needs_(struct duel *d, const struct duel_txn *t);
/* When `serial` is durable, `need` has been promised to be. */
bool duel_ack_later_(struct duel *d, uint64_t serial, uint64_t need);
/* The engine is gone. */
void duel_forget_acks_(struct duel *d);
bool duel_on_gone_(const struct model *m, const struct model_op *op);
uint64_t duel_answer_(const struct model_op *op, const struct model_result *r);

#endif
