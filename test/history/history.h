/* history.h - what transactions did and saw, and whether the levels that they ran at allow it.
 *
 * Objects are registers, which begin with the value 0, and lists, which begin empty. An operation is logged
 * with what it saw. Who writes a register knows what it replaced if it has read it in the same transaction;
 * elements of lists are unique. So the order of the versions follows from the data and from real time
 * (versions.c), and is not what the system under test says it is.
 *
 * Verdict. Each transaction has a moment at which it began and one at which it committed; what it saw and
 * wrote says which moments must come before which others (edges.c). A history is allowed if and only if
 * that has no cycle:
 *	SNAPSHOT       reads as of its begin; what it wrote nobody else has written in between
 *	SERIALIZABLE   the same, and what it read is the same at its commit
 *	LOCKING, PLAIN everything is as of the commit
 * Of transactions that are all serializable the moments of commit are thus an order in which they might
 * have run one after the other. What was acknowledged comes before what was started later (strict).
 */
#ifndef TEST_HISTORY_HISTORY_H
#define TEST_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* --- arrays that grow --- */
#define HIST_VEC(type)         \
	struct {               \
		type *v;       \
		size_t n, cap; \
	}
void *hist_grow(void *v, size_t *cap, size_t need, size_t size);
#define hist_push(vec, item)                                                             \
	((vec)->v = hist_grow((vec)->v, &(vec)->cap, (vec)->n + 1, sizeof((vec)->v[0])), \
	 (vec)->v[(vec)->n++] = (item))
#define hist_vec_free(vec) (hist_free((vec)->v), (vec)->v = NULL, (vec)->n = (vec)->cap = 0)
void *hist_alloc(size_t bytes); /* zeros; ends the program when there is no memory */
void hist_free(void *p);

/* --- histories --- */
enum hist_level { HIST_PLAIN, HIST_SNAPSHOT, HIST_SERIALIZABLE, HIST_LOCKING };

enum hist_kind {
	HIST_READ,   /* of a register */
	HIST_FOUND,  /* a register as a structural check found it: at the commit, at every level */
	HIST_WRITE,  /* of a register */
	HIST_APPEND, /* an element of a list; where it lands is decided at the commit */
	HIST_LIST,   /* reads a list */
	HIST_LENGTH, /* reads how many elements a list has: value */
	HIST_UNDONE, /* was written, and taken back: nobody else may see it */
	HIST_NOTHING,
};

struct hist_op {
	enum hist_kind kind;
	uint64_t key;
	uint64_t value;
	uint64_t call, ret; /* ticks of one clock */
	uint64_t *list;     /* LIST: `value` elements; owned */
};

enum hist_outcome { HIST_OPEN, HIST_COMMITTED, HIST_ABORTED };

struct hist_txn {
	uint64_t id;
	enum hist_level level;
	bool read_only;
	enum hist_outcome outcome;
	uint64_t begin_call, begin_ret, commit_call, commit_ret;
	HIST_VEC(struct hist_op) ops;
};

struct history {
	HIST_VEC(struct hist_txn *) txns; /* owned */
	/* A key for people; NULL: numbers. */
	void (*print_key)(FILE *out, uint64_t key);
};

struct hist_txn *hist_txn_new(uint64_t id, enum hist_level level);
void hist_log(struct hist_txn *txn, enum hist_kind kind, uint64_t key, uint64_t value,
	      uint64_t call, uint64_t ret);
/* Copies the elements. */
void hist_log_list(struct hist_txn *txn, uint64_t key, const uint64_t *list, size_t n,
		   uint64_t call, uint64_t ret);
/* What was written from operation `from` on is taken back. What was read there stays, unless it was of that. */
void hist_undo(struct hist_txn *txn, size_t from);
void hist_release(struct history *h);
void hist_print_key(FILE *out, const struct history *h, uint64_t key);
void hist_print_txn(FILE *out, const struct history *h, const struct hist_txn *txn);
const char *hist_level_name(enum hist_level level);

/* --- the verdict --- */
#define HIST_ANOMALIES(X)                                                                     \
	X(INTERNAL, "a transaction does not see its own writes")                              \
	X(NON_REPEATABLE, "non-repeatable read")                                              \
	X(ABORTED_READ, "aborted read (G1a)")                                                 \
	X(INTERMEDIATE_READ, "intermediate read (G1b)")                                       \
	X(UNKNOWN_VALUE, "a value that nobody has written")                                   \
	X(NOT_CURRENT, "a value that was not current when it was read")                       \
	X(TORN_LIST, "a list whose elements changed, or lie apart")                           \
	X(LOST_ELEMENT, "an element of a committed append is missing")                        \
	X(LOST_UPDATE, "lost update")                                                         \
	X(WRITE_CYCLE, "dirty write (G0)")                                                    \
	X(DEPENDENCY_CYCLE, "circular information flow (G1c)")                                \
	X(SINGLE, "read skew (G-single)")                                                     \
	X(NONADJACENT, "a cycle without two anti-dependencies in a row (G-nonadjacent)")      \
	X(WRITE_SKEW, "write skew (G2)")                                                      \
	X(REAL_TIME, "at odds with real time: something is older than what was acknowledged " \
		     "before")

enum hist_anomaly {
	HIST_NONE,
#define X(id, text) HIST_##id,
	HIST_ANOMALIES(X)
#undef X
};
const char *hist_anomaly_name(enum hist_anomaly anomaly);

struct hist_counts {
	uint64_t txns, committed, ops, edges;
	uint64_t reads, unsure_reads;       /* of which version it was could not be said */
	uint64_t versions, unsure_versions; /* the same of their order */
};

/* The first anomaly found, which is printed to out (NULL: not) with the transactions concerned; adds to
 * *counts. */
enum hist_anomaly hist_check(const struct history *h, FILE *out, struct hist_counts *counts);

#endif
