/* rangeset.c - the net of many run additions, by a sweep over sorted edges.
 *
 * R1. Each run contributes two edges, its start and its end; between two neighbouring edges the
 *     coverage is constant. Sorting makes the net O(n log n) whatever the order of additions.
 * R2. The birth reported for a stretch covered once is that of the run that covers it.
 */
#include "txn/rangeset.h"

#include <stdlib.h>

#include "base/assert.h"

struct edge {
	uint64_t at;
	uint64_t birth;
	bool opens;
};

void stet_rangeset_init(struct stet_rangeset *set)
{
	stet_vec_init(&set->list);
}

void stet_rangeset_release(struct stet_rangeset *set)
{
	stet_vec_release(&set->list);
}

void stet_rangeset_clear(struct stet_rangeset *set)
{
	stet_vec_clear(&set->list);
}

int stet_rangeset_add(struct stet_rangeset *set, struct stet_addr addr, uint32_t blocks,
		      uint64_t birth)
{
	struct stet_range range = { addr, blocks, birth };

	STET_ASSERT_CMP(blocks, >, 0);
	if (set->list.n > 0) {
		struct stet_range *last = &set->list.v[set->list.n - 1];

		if (last->addr.v + last->blocks == addr.v && last->birth == birth &&
		    stet_addr_seg(last->addr) == stet_addr_seg(addr)) {
			last->blocks += blocks;
			return 0;
		}
	}
	return stet_vec_push(&set->list, range);
}

static int edge_cmp(const void *a, const void *b)
{
	const struct edge *x = a;
	const struct edge *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (int)x->opens - (int)y->opens;
}

static struct edge *sorted_edges(const struct stet_rangeset *set)
{
	struct edge *edges = stet_calloc(2 * set->list.n, sizeof(*edges));

	if (!edges)
		return NULL;
	for (size_t i = 0; i < set->list.n; i++) {
		const struct stet_range *r = &set->list.v[i];

		edges[2 * i] = (struct edge){ r->addr.v, r->birth, true };
		edges[2 * i + 1] = (struct edge){ r->addr.v + r->blocks, r->birth, false };
	}
	qsort(edges, 2 * set->list.n, sizeof(*edges), edge_cmp);
	return edges;
}

int stet_rangeset_net(struct stet_rangeset *set, stet_rangeset_fn *fn, void *arg)
{
	size_t n = 2 * set->list.n;
	uint64_t depth = 0;
	uint64_t birth = 0;
	int rc = 0;

	if (n == 0)
		return 0;
	struct edge *edges = sorted_edges(set);
	if (!edges)
		return STET_FAIL(-ENOMEM, "no memory to net %zu block runs", set->list.n);
	for (size_t i = 0; i + 1 < n && !rc; i++) {
		if (edges[i].opens) {
			depth++;
			birth += edges[i].birth;
		} else {
			depth--;
			birth -= edges[i].birth;
		}
		uint64_t len = edges[i + 1].at - edges[i].at;
		if (depth % 2 == 1 && len > 0)
			rc = fn(arg, (struct stet_addr){ edges[i].at }, (uint32_t)len, birth);
	}
	stet_free(edges);
	return rc;
}
