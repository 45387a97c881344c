/* edges.c - which moments must come before which others.
 *
 *	wr  who reads a version comes behind the commit of who wrote it: with its begin, if it reads as of that
 *	ww  a version comes behind the one before; where the first updater wins, already the begin of its writer
 *	rw  who reads a version comes before the commit of who replaced it: at SNAPSHOT with its begin, else with
 *	    its commit, where the read is made sure of
 *	time  what was over when the other began comes before it
 * Appends to a list do not exclude each other: they go by their commits.
 */
#include "check_internal.h"

#include <stdlib.h>

bool check_is_point(const struct hist_txn *txn)
{
	if (txn->level == HIST_PLAIN || txn->level == HIST_LOCKING)
		return true;
	return txn->read_only || txn->outcome != HIST_COMMITTED;
}

uint32_t check_begin_node(const struct check *c, uint32_t txn)
{
	return check_is_point(c->h->txns.v[txn]) ? 2 * txn + 1 : 2 * txn;
}

uint32_t check_commit_node(const struct check *c, uint32_t txn)
{
	(void)c;
	return 2 * txn + 1;
}

static bool reads_as_of_begin(const struct hist_txn *txn)
{
	return txn->level == HIST_SNAPSHOT || txn->level == HIST_SERIALIZABLE;
}

static void add(struct check *c, uint32_t from, uint32_t to, enum edge_kind kind, uint64_t key,
		uint64_t value)
{
	if (from != to)
		graph_add(&c->graph, from, to, kind, key, value);
}

static void wr(struct check *c, uint32_t writer, uint32_t reader, bool begin, uint64_t key,
	       uint64_t value)
{
	if (writer != reader)
		add(c, check_commit_node(c, writer),
		    begin ? check_begin_node(c, reader) : check_commit_node(c, reader), EDGE_WR,
		    key, value);
}

static void rw(struct check *c, uint32_t reader, uint32_t writer, bool found, uint64_t key,
	       uint64_t value)
{
	const struct hist_txn *txn = c->h->txns.v[reader];
	bool begin = txn->level == HIST_SNAPSHOT && !found;

	if (writer != reader)
		add(c, begin ? check_begin_node(c, reader) : check_commit_node(c, reader),
		    check_commit_node(c, writer), EDGE_RW, key, value);
}

/* --- registers --- */

static void ww(struct check *c, const struct reg *r, const struct version *a,
	       const struct version *b)
{
	bool first_updater = reads_as_of_begin(c->h->txns.v[b->txn]) && !a->repeated;

	add(c, check_commit_node(c, a->txn),
	    first_updater ? check_begin_node(c, b->txn) : check_commit_node(c, b->txn), EDGE_WW,
	    r->key, b->value);
}

static size_t cluster_end(const struct reg *r, size_t i)
{
	size_t end = i;

	while (end < r->versions.n && r->versions.v[end].cluster == r->versions.v[i].cluster)
		end++;
	return end;
}

/* All of one cluster come before all of the next; within a sure one each before the next. */
static void reg_ww(struct check *c, const struct reg *r)
{
	for (size_t i = 0, end; i < r->versions.n; i = end) {
		end = cluster_end(r, i);
		for (size_t k = i; k + 1 < end && !r->versions.v[i].unsure; k++)
			ww(c, r, &r->versions.v[k], &r->versions.v[k + 1]);
		if (end == r->versions.n)
			return;
		size_t from = r->versions.v[i].unsure ? i : end - 1;
		size_t to = r->versions.v[end].unsure ? cluster_end(r, end) : end + 1;
		for (size_t a = from; a < end; a++)
			for (size_t b = end; b < to; b++)
				ww(c, r, &r->versions.v[a], &r->versions.v[b]);
	}
}

static enum hist_anomaly reg_seen(struct check *c, const struct reg *r, const struct seen *s)
{
	const struct hist_txn *txn = c->h->txns.v[s->txn];
	bool exact;
	int64_t i;
	enum hist_anomaly a = check_resolve(c, r, s, &i, &exact);
	size_t next, to;

	if (a)
		return a;
	c->counts->reads++;
	if (i == -2) {
		c->counts->unsure_reads++;
		return HIST_NONE;
	}
	if (i >= 0)
		wr(c, r->versions.v[i].txn, s->txn, exact && !s->found && reads_as_of_begin(txn),
		   r->key, s->value);
	next = (size_t)(i + 1);
	if (next >= r->versions.n)
		return HIST_NONE;
	if (i >= 0 && r->versions.v[i].unsure)
		next = cluster_end(r, (size_t)i);
	if (next >= r->versions.n)
		return HIST_NONE;
	to = r->versions.v[next].unsure ? cluster_end(r, next) : next + 1;
	for (size_t k = next; k < to; k++)
		rw(c, s->txn, r->versions.v[k].txn, s->found, r->key, r->versions.v[k].value);
	return HIST_NONE;
}

/* --- lists --- */

static void list_edges(struct check *c, const struct reg *r)
{
	size_t known = 0;

	while (known < r->elements.n && r->elements.v[known].at != SIZE_MAX)
		known++;
	for (size_t i = 0; i + 1 < known; i++)
		add(c, check_commit_node(c, r->elements.v[i].txn),
		    check_commit_node(c, r->elements.v[i + 1].txn), EDGE_WW, r->key,
		    r->elements.v[i + 1].value);
	for (size_t k = 0; k < r->seen.n; k++) {
		const struct seen *s = &r->seen.v[k];

		c->counts->reads++;
		if (s->value > known) {
			c->counts->unsure_reads++;
			continue;
		}
		if (s->value > 0)
			wr(c, r->elements.v[s->value - 1].txn, s->txn,
			   reads_as_of_begin(c->h->txns.v[s->txn]), r->key,
			   r->elements.v[s->value - 1].value);
		if (s->value < known)
			rw(c, s->txn, r->elements.v[s->value].txn, false, r->key,
			   r->elements.v[s->value].value);
	}
}

/* --- real time --- */

struct moment {
	uint64_t call, ret;
	uint32_t node;
};

static int by_ret(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	return x->ret < y->ret ? -1 : x->ret > y->ret;
}

static size_t over_before(const struct moment *m, size_t n, uint64_t call)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (m[mid].ret < call)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static size_t moments_of(const struct check *c, struct moment *ret)
{
	size_t n = 0;

	for (uint32_t t = 0; t < c->h->txns.n; t++) {
		const struct hist_txn *txn = c->h->txns.v[t];
		const struct moment begin = { txn->begin_call, txn->begin_ret, 2 * t };
		const struct moment commit = { txn->commit_call, txn->commit_ret, 2 * t + 1 };

		if (txn->outcome == HIST_OPEN)
			continue;
		ret[n] = commit;
		if (check_is_point(txn) && reads_as_of_begin(txn)) {
			ret[n] = begin;
			ret[n].node = 2 * t + 1;
		}
		n++;
		if (!check_is_point(txn))
			ret[n++] = begin;
	}
	return n;
}

/* A node for each moment that is over: after all that were over before. */
void check_time_edges(struct check *c)
{
	uint32_t first = 2 * (uint32_t)c->h->txns.n;
	struct moment *m = hist_alloc(2 * c->h->txns.n * sizeof(*m));
	size_t n = moments_of(c, m);

	qsort(m, n, sizeof(*m), by_ret);
	for (size_t i = 0; i < n; i++) {
		size_t over = over_before(m, n, m[i].call);

		graph_add(&c->graph, m[i].node, first + (uint32_t)i, EDGE_TIME, 0, 0);
		if (i + 1 < n)
			graph_add(&c->graph, first + (uint32_t)i, first + (uint32_t)i + 1,
				  EDGE_TIME, 0, 0);
		if (over > 0)
			graph_add(&c->graph, first + (uint32_t)over - 1, m[i].node, EDGE_TIME, 0,
				  0);
	}
	hist_free(m);
}

enum hist_anomaly check_edges(struct check *c)
{
	enum hist_anomaly a = HIST_NONE;

	graph_init(&c->graph, 4 * (uint32_t)c->h->txns.n);
	for (uint32_t t = 0; t < c->h->txns.n; t++)
		if (c->h->txns.v[t]->outcome != HIST_OPEN)
			add(c, check_begin_node(c, t), check_commit_node(c, t), EDGE_SELF, 0, 0);
	for (size_t i = 0; i < c->regs.n && !a; i++) {
		const struct reg *r = &c->regs.v[i];
		bool is_list = r->elements.n > 0;

		if (is_list)
			list_edges(c, r);
		else
			reg_ww(c, r);
		for (size_t k = 0; k < r->seen.n && !a && !is_list; k++)
			a = reg_seen(c, r, &r->seen.v[k]);
	}
	return a;
}
