/* check_internal.h - what the steps of the checker share: keys with their versions and reads, the graph. */
#ifndef TEST_HISTORY_CHECK_INTERNAL_H
#define TEST_HISTORY_CHECK_INTERNAL_H

#include "history.h"

/* What one transaction left in a register. */
struct version {
	uint32_t txn;
	uint64_t value;
	bool has_prev; /* it had read the register before */
	uint64_t prev;
	bool repeated;    /* another version of the register has the same value */
	uint32_t cluster; /* of versions whose commits overlap in time */
	bool unsure;      /* more than one order of its cluster would explain all */
};

/* What a transaction saw of others' writes; each register and list once. */
struct seen {
	uint32_t txn, op;
	uint64_t value; /* of a list: how many elements of others */
	uint64_t *list; /* borrowed from the operation; NULL: not a list, or its length only */
	bool found;     /* HIST_FOUND */
	uint64_t call, ret;
};

struct element {
	uint32_t txn;
	uint64_t value;
	size_t at; /* in the longest list; SIZE_MAX: nobody has read it */
};

struct reg {
	uint64_t key;
	HIST_VEC(struct version) versions; /* in order, after versions.c */
	HIST_VEC(uint32_t) by_value;       /* indices into versions */
	HIST_VEC(struct seen) seen;
	HIST_VEC(struct element) elements; /* of a list: in order, after lists_order */
	bool zero_repeated;                /* a version has the value that all begin with */
	/* of the transaction that is being collected */
	uint32_t stamp;
	bool own, ext;
	uint64_t own_value, ext_value;
	size_t own_count; /* elements */
};

/* A write that nobody else may see. */
struct dirty {
	uint64_t key, value;
	uint32_t txn;
	bool aborted; /* else intermediate */
};

enum edge_kind { EDGE_WW, EDGE_WR, EDGE_RW, EDGE_TIME, EDGE_SELF };

struct edge {
	uint32_t from, to; /* nodes */
	enum edge_kind kind;
	uint64_t key, value;
	uint32_t next; /* of the same `from`; UINT32_MAX: none */
};

struct graph {
	uint32_t nodes;
	HIST_VEC(struct edge) edges;
	uint32_t *first; /* edge of a node */
};

struct check {
	const struct history *h;
	FILE *out; /* or NULL */
	struct hist_counts *counts;
	HIST_VEC(struct reg) regs;
	uint32_t *table; /* hash of keys: index into regs + 1 */
	size_t table_size;
	HIST_VEC(struct dirty) dirty;
	struct graph graph;
};

/* The begin and the commit of a transaction; the same node where it happens at one moment. */
uint32_t check_begin_node(const struct check *c, uint32_t txn);
uint32_t check_commit_node(const struct check *c, uint32_t txn);
/* It takes part: committed, or it only read as of its begin. */
bool check_is_point(const struct hist_txn *txn);

/* Prints what is wrong; returns the anomaly. */
enum hist_anomaly check_report(struct check *c, enum hist_anomaly anomaly, uint64_t key,
			       uint64_t value, uint32_t txn, uint32_t other);

/* collect.c */
enum hist_anomaly check_collect(struct check *c);
/* versions.c */
void check_order_versions(struct check *c);
enum hist_anomaly check_order_lists(struct check *c);
/* The version that was read: -1 the initial one; -2: not sure. *ret_exact: it follows from the value alone,
 * or from when it was read. */
enum hist_anomaly check_resolve(struct check *c, const struct reg *r, const struct seen *s,
				int64_t *ret, bool *ret_exact);
/* edges.c */
enum hist_anomaly check_edges(struct check *c); /* those that follow from the data */
void check_time_edges(struct check *c);         /* the others */
/* graph.c */
void graph_init(struct graph *g, uint32_t nodes);
void graph_add(struct graph *g, uint32_t from, uint32_t to, enum edge_kind kind, uint64_t key,
	       uint64_t value);
void graph_release(struct graph *g);
/* A short cycle: its edges in order; false: there is none. */
struct cycle {
	HIST_VEC(uint32_t) edges;
};
bool graph_cycle(struct graph *g, struct cycle *ret);

#endif
