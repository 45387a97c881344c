/* check.c - the verdict on a history: what single operations show, then a cycle of moments, named and printed. */
#include "check_internal.h"

#include <inttypes.h>
#include <string.h>

#define VERSIONS_MAX 6u
#define PRINTED_MAX 6u /* transactions of a cycle that are printed whole */

/* What the key held before and at the end of the transaction. */
static void print_versions(const struct check *c, uint64_t key, const struct hist_txn *reader)
{
	for (size_t i = 0; i < c->regs.n; i++) {
		const struct reg *r = &c->regs.v[i];
		size_t end = 0;

		while (end < r->versions.n &&
		       c->h->txns.v[r->versions.v[end].txn]->commit_call <= reader->commit_ret)
			end++;
		for (size_t k = end > VERSIONS_MAX ? end - VERSIONS_MAX : 0;
		     k < end && r->key == key; k++) {
			const struct version *v = &r->versions.v[k];
			const struct hist_txn *txn = c->h->txns.v[v->txn];

			fprintf(c->out,
				"  T%" PRIu64 " %s committed it as %" PRIx64 " in [%" PRIu64
				", %" PRIu64 "]\n",
				txn->id, hist_level_name(txn->level), v->value, txn->commit_call,
				txn->commit_ret);
		}
	}
}

enum hist_anomaly check_report(struct check *c, enum hist_anomaly anomaly, uint64_t key,
			       uint64_t value, uint32_t txn, uint32_t other)
{
	if (!c->out)
		return anomaly;
	fprintf(c->out, "%s: ", hist_anomaly_name(anomaly));
	hist_print_key(c->out, c->h, key);
	fprintf(c->out, ", value %" PRIx64 ", T%" PRIu64 "\n", value, c->h->txns.v[txn]->id);
	hist_print_txn(c->out, c->h, c->h->txns.v[txn]);
	if (other != txn)
		hist_print_txn(c->out, c->h, c->h->txns.v[other]);
	print_versions(c, key, c->h->txns.v[txn]);
	return anomaly;
}

/* --- cycles --- */

static uint32_t txn_of(uint32_t node)
{
	return node / 2;
}

static bool is_time(const struct check *c, uint32_t node)
{
	return node >= 2 * c->h->txns.n;
}

/* Which anomaly a cycle is: by its anti-dependencies, and whether two follow each other. What lies between two
 * moments of one transaction does not part them. */
static enum hist_anomaly name_cycle(const struct check *c, const struct cycle *cycle)
{
	unsigned rw = 0, wr = 0, adjacent = 0;
	bool same_key = true, last_rw = false, first_rw = false, first = true;
	uint64_t key = c->graph.edges.v[cycle->edges.v[0]].key;

	for (size_t i = 0; i < cycle->edges.n; i++) {
		const struct edge *e = &c->graph.edges.v[cycle->edges.v[i]];

		if (e->kind == EDGE_TIME)
			return HIST_REAL_TIME;
		if (e->kind == EDGE_SELF)
			continue;
		if (first)
			first_rw = e->kind == EDGE_RW;
		else if (last_rw && e->kind == EDGE_RW)
			adjacent++;
		first = false;
		last_rw = e->kind == EDGE_RW;
		rw += e->kind == EDGE_RW;
		wr += e->kind == EDGE_WR;
		same_key = same_key && (key == 0 || key == e->key);
		key = e->key;
	}
	adjacent += last_rw && first_rw && rw > 1;
	if (rw == 0)
		return wr == 0 ? HIST_WRITE_CYCLE : HIST_DEPENDENCY_CYCLE;
	if (rw == 1)
		return same_key && wr == 0 ? HIST_LOST_UPDATE : HIST_SINGLE;
	return adjacent ? HIST_WRITE_SKEW : HIST_NONADJACENT;
}

static void print_edge(const struct check *c, const struct edge *e)
{
	static const char *const middle[] = { " wrote ", " wrote ", " read " };
	uint64_t from = c->h->txns.v[txn_of(e->from)]->id, to = c->h->txns.v[txn_of(e->to)]->id;

	fprintf(c->out, "  T%" PRIu64 " before T%" PRIu64 ": T%" PRIu64 "%s", from, to, from,
		middle[e->kind]);
	hist_print_key(c->out, c->h, e->key);
	if (e->kind == EDGE_WW)
		fprintf(c->out, ", then T%" PRIu64 " did", to);
	else if (e->kind == EDGE_WR)
		fprintf(c->out, ", which T%" PRIu64 " read", to);
	else
		fprintf(c->out, " without what T%" PRIu64 " wrote", to);
	fprintf(c->out, " (%" PRIx64 ")\n", e->value);
}

static void print_edges(const struct check *c, const struct cycle *cycle)
{
	uint32_t since = UINT32_MAX;

	/* A run of time may begin in the middle: start behind one. */
	size_t n = cycle->edges.n, start = 0;
	while (start < n && is_time(c, c->graph.edges.v[cycle->edges.v[start]].from))
		start++;
	for (size_t i = 0; i < n; i++) {
		const struct edge *e = &c->graph.edges.v[cycle->edges.v[(start + i) % n]];

		if (e->kind == EDGE_SELF)
			continue;
		if (e->kind != EDGE_TIME) {
			print_edge(c, e);
			continue;
		}
		if (!is_time(c, e->from))
			since = e->from;
		if (!is_time(c, e->to) && since != UINT32_MAX && txn_of(since) != txn_of(e->to))
			fprintf(c->out, "  T%" PRIu64 " before T%" PRIu64 ": by real time\n",
				c->h->txns.v[txn_of(since)]->id, c->h->txns.v[txn_of(e->to)]->id);
	}
}

static void print_cycle(const struct check *c, const struct cycle *cycle, enum hist_anomaly name)
{
	uint32_t printed[PRINTED_MAX];
	unsigned n = 0;

	if (!c->out)
		return;
	fprintf(c->out, "%s: a cycle\n", hist_anomaly_name(name));
	print_edges(c, cycle);
	for (size_t i = 0; i < cycle->edges.n && n < PRINTED_MAX; i++) {
		uint32_t node = c->graph.edges.v[cycle->edges.v[i]].from;
		bool known = is_time(c, node);

		for (unsigned k = 0; k < n; k++)
			known = known || printed[k] == txn_of(node);
		if (known)
			continue;
		printed[n++] = txn_of(node);
		hist_print_txn(c->out, c->h, c->h->txns.v[txn_of(node)]);
	}
}

static enum hist_anomaly find_cycle(struct check *c)
{
	struct cycle cycle = { { 0 } };
	enum hist_anomaly name = HIST_NONE;

	if (graph_cycle(&c->graph, &cycle)) {
		name = name_cycle(c, &cycle);
		print_cycle(c, &cycle, name);
	}
	hist_vec_free(&cycle.edges);
	return name;
}

static void release(struct check *c)
{
	for (size_t i = 0; i < c->regs.n; i++) {
		hist_vec_free(&c->regs.v[i].versions);
		hist_vec_free(&c->regs.v[i].by_value);
		hist_vec_free(&c->regs.v[i].seen);
		hist_vec_free(&c->regs.v[i].elements);
	}
	hist_vec_free(&c->regs);
	hist_free(c->table);
	hist_vec_free(&c->dirty);
	graph_release(&c->graph);
}

enum hist_anomaly hist_check(const struct history *h, FILE *out, struct hist_counts *counts)
{
	struct check c = { .h = h, .out = out, .counts = counts };
	enum hist_anomaly a = check_collect(&c);

	if (!a) {
		check_order_versions(&c);
		a = check_order_lists(&c);
	}
	if (!a)
		a = check_edges(&c);
	if (!a)
		a = find_cycle(&c);
	if (!a) { /* so what the data show by themselves is named first */
		check_time_edges(&c);
		a = find_cycle(&c);
	}
	counts->edges += c.graph.edges.n;
	release(&c);
	return a;
}
