/* graph.c - a directed graph, its strongly connected parts (Tarjan), and a short cycle in one of them. */
#include "check_internal.h"

#include <string.h>

#define NONE UINT32_MAX
#define STARTS_MAX 400u /* nodes from which a cycle is looked for */

void graph_init(struct graph *g, uint32_t nodes)
{
	memset(g, 0, sizeof(*g));
	g->nodes = nodes;
	g->first = hist_alloc(nodes * sizeof(*g->first));
	memset(g->first, 0xff, nodes * sizeof(*g->first));
}

void graph_add(struct graph *g, uint32_t from, uint32_t to, enum edge_kind kind, uint64_t key,
	       uint64_t value)
{
	const struct edge e = { from, to, kind, key, value, g->first[from] };

	hist_push(&g->edges, e);
	g->first[from] = (uint32_t)g->edges.n - 1;
}

void graph_release(struct graph *g)
{
	hist_vec_free(&g->edges);
	hist_free(g->first);
	memset(g, 0, sizeof(*g));
}

/* --- strongly connected parts --- */

struct tarjan {
	uint32_t *index, *low, *part; /* of nodes; index 0: not seen; part NONE: not closed */
	uint32_t *stack, *path, *edge;
	uint32_t stack_n, path_n, next;
};

static void enter(struct graph *g, struct tarjan *t, uint32_t node)
{
	t->index[node] = t->low[node] = ++t->next;
	t->stack[t->stack_n++] = node;
	t->path[t->path_n++] = node;
	t->edge[node] = g->first[node];
}

/* All below the node was seen. True: it closes a part of more than one node. */
static bool leave(struct tarjan *t, uint32_t node)
{
	uint32_t n = 0, at;

	t->path_n--;
	if (t->path_n > 0 && t->low[node] < t->low[t->path[t->path_n - 1]])
		t->low[t->path[t->path_n - 1]] = t->low[node];
	if (t->low[node] != t->index[node])
		return false;
	do {
		at = t->stack[--t->stack_n];
		t->part[at] = node;
		n++;
	} while (at != node);
	return n > 1;
}

static bool explore(struct graph *g, struct tarjan *t, uint32_t root, uint32_t *ret_part)
{
	enter(g, t, root);
	while (t->path_n > 0) {
		uint32_t node = t->path[t->path_n - 1];
		uint32_t e = t->edge[node];

		if (e == NONE) {
			if (leave(t, node)) {
				*ret_part = node;
				return true;
			}
			continue;
		}
		t->edge[node] = g->edges.v[e].next;
		uint32_t to = g->edges.v[e].to;
		if (t->index[to] == 0)
			enter(g, t, to);
		else if (t->part[to] == NONE && t->index[to] < t->low[node])
			t->low[node] = t->index[to];
	}
	return false;
}

/* --- a short cycle --- */

struct bfs {
	uint32_t *from; /* the edge that led to a node; NONE: not reached */
	uint32_t *queue;
	uint32_t *dist;
};

/* What a cycle is short in: edges that are not only time passing. */
static uint32_t weight(const struct edge *e)
{
	return e->kind != EDGE_TIME;
}

/* From `start` back to it within the part, by a search in rings of equal weight. Returns its weight. */
static uint32_t walk_back(struct graph *g, const struct tarjan *t, struct bfs *b, uint32_t part,
			  uint32_t start, uint32_t limit)
{
	uint32_t best = NONE, head = g->nodes * 2, tail = head;

	memset(b->dist, 0xff, g->nodes * sizeof(*b->dist));
	b->dist[start] = 0;
	b->queue[tail++] = start;
	while (head < tail) {
		uint32_t node = b->queue[head++];

		if (b->dist[node] >= limit)
			break;
		for (uint32_t e = g->first[node]; e != NONE; e = g->edges.v[e].next) {
			const struct edge *x = &g->edges.v[e];
			uint32_t d = b->dist[node] + weight(x);

			if (t->part[x->to] != part)
				continue;
			if (x->to == start && d < best) {
				best = d;
				b->from[start] = e;
			} else if (x->to != start && d < b->dist[x->to] && head > 0 &&
				   tail < g->nodes * 4) {
				b->dist[x->to] = d;
				b->from[x->to] = e;
				if (weight(x) == 0)
					b->queue[--head] = x->to;
				else
					b->queue[tail++] = x->to;
			}
		}
	}
	return best;
}

static void collect(const struct graph *g, const struct bfs *b, uint32_t start, struct cycle *ret)
{
	uint32_t node = start;

	ret->edges.n = 0;
	do {
		hist_push(&ret->edges, b->from[node]);
		node = g->edges.v[b->from[node]].from;
	} while (node != start && ret->edges.n < g->nodes);
	for (size_t i = 0; i < ret->edges.n / 2; i++) {
		uint32_t e = ret->edges.v[i];

		ret->edges.v[i] = ret->edges.v[ret->edges.n - 1 - i];
		ret->edges.v[ret->edges.n - 1 - i] = e;
	}
}

static void shortest(struct graph *g, const struct tarjan *t, uint32_t part, struct cycle *ret)
{
	struct bfs b = {
		.from = hist_alloc(g->nodes * sizeof(uint32_t)),
		.queue = hist_alloc(4 * (size_t)g->nodes * sizeof(uint32_t)),
		.dist = hist_alloc(g->nodes * sizeof(uint32_t)),
	};
	uint32_t best = NONE, starts = 0;

	for (uint32_t node = 0; node < g->nodes && starts < STARTS_MAX; node++) {
		uint32_t w;

		if (t->part[node] != part)
			continue;
		starts++;
		w = walk_back(g, t, &b, part, node, best);
		if (w < best) {
			best = w;
			collect(g, &b, node, ret);
		}
	}
	hist_free(b.from);
	hist_free(b.queue);
	hist_free(b.dist);
}

bool graph_cycle(struct graph *g, struct cycle *ret)
{
	uint32_t *all = hist_alloc(6 * (size_t)g->nodes * sizeof(uint32_t));
	struct tarjan t = {
		.index = all,
		.low = all + g->nodes,
		.part = all + 2 * (size_t)g->nodes,
		.stack = all + 3 * (size_t)g->nodes,
		.path = all + 4 * (size_t)g->nodes,
		.edge = all + 5 * (size_t)g->nodes,
	};
	bool found = false;
	uint32_t part = NONE;

	memset(t.part, 0xff, g->nodes * sizeof(uint32_t));
	for (uint32_t node = 0; node < g->nodes && !found; node++)
		if (t.index[node] == 0)
			found = explore(g, &t, node, &part);
	if (found)
		shortest(g, &t, part, ret);
	hist_free(all);
	return found;
}
