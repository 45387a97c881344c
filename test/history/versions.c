/* versions.c - the order of the versions of a register and of the elements of a list, and which of them was read.
 *
 * V1. Of two commits that do not overlap in time the earlier one comes first: that is promised. Within a
 *     cluster of commits that do, each version comes right behind the one that its writer has read.
 * V2. If more than one order of a cluster fits, none is taken: it counts as unsure. If none does, somebody wrote
 *     over what he had not seen; then the order in time is kept, and the graph has a cycle.
 * V3. A value that occurs once says which version was read. One that occurs again (a name that was removed,
 *     made and removed) says so together with the time of the reading: at SERIALIZABLE that of the commit,
 *     where values are compared.
 * V4. What was committed before a reader began is in the list that it reads.
 */
#include "check_internal.h"

#include <stdlib.h>
#include <string.h>

#define CLUSTER_MAX 32u
#define SEARCH_MAX 20000u

static const struct hist_txn *txn_of(const struct check *c, const struct version *v)
{
	return c->h->txns.v[v->txn];
}

/* --- clusters --- */

struct search {
	const struct check *c;
	const struct version *v;
	uint32_t n, used, solutions, budget;
	bool any_first; /* what was there before is not known */
	uint32_t order[CLUSTER_MAX], found[CLUSTER_MAX];
};

static bool may_be_next(const struct search *s, uint32_t k, uint64_t before)
{
	if (s->used & (1u << k))
		return false;
	if (s->v[k].has_prev && s->v[k].prev != before && !(s->any_first && s->used == 0))
		return false;
	for (uint32_t i = 0; i < s->n; i++)
		if (i != k && !(s->used & (1u << i)) &&
		    txn_of(s->c, &s->v[i])->commit_ret < txn_of(s->c, &s->v[k])->commit_call)
			return false;
	return true;
}

static void search(struct search *s, uint32_t depth, uint64_t before)
{
	if (depth == s->n) {
		if (s->solutions++ == 0)
			memcpy(s->found, s->order, sizeof(s->found));
		return;
	}
	for (uint32_t k = 0; k < s->n && s->solutions < 2 && s->budget > 0; k++) {
		if (!may_be_next(s, k, before))
			continue;
		s->budget--;
		s->used |= 1u << k;
		s->order[depth] = k;
		search(s, depth + 1, s->v[k].value);
		s->used &= ~(1u << k);
	}
}

/* before: NULL: the first state. */
static void order_cluster(struct check *c, struct version *v, size_t n,
			  const struct version *before)
{
	static const struct version first = { .value = 0 };
	struct version copy[CLUSTER_MAX];
	struct search s = { .c = c,
			    .v = copy,
			    .n = (uint32_t)n,
			    .budget = SEARCH_MAX,
			    .any_first = before && before->unsure };
	uint64_t value = (before ? before : &first)->value;

	if (n <= CLUSTER_MAX - 1) {
		memcpy(copy, v, n * sizeof(*v));
		search(&s, 0, value);
	}
	if (s.solutions > 0) {
		for (size_t i = 0; i < n; i++)
			v[i] = copy[s.found[i]];
	}
	if (s.solutions == 1 && s.budget > 0)
		return;
	if (s.solutions == 0 && s.budget > 0 && n <= CLUSTER_MAX - 1)
		return; /* V2: the graph will tell */
	for (size_t i = 0; i < n; i++)
		v[i].unsure = true;
	c->counts->unsure_versions += n;
}

static const struct check *sort_check; /* for compare; the checker is used by one thread */

static int by_commit(const void *a, const void *b)
{
	const struct hist_txn *x = txn_of(sort_check, a), *y = txn_of(sort_check, b);

	return x->commit_call < y->commit_call ? -1 : x->commit_call > y->commit_call;
}

static const struct reg *sort_reg;

static int by_value(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint64_t x = sort_reg->versions.v[i].value, y = sort_reg->versions.v[k].value;

	if (x != y)
		return x < y ? -1 : 1;
	return i < k ? -1 : i > k;
}

static void index_values(struct reg *r)
{
	for (uint32_t i = 0; i < r->versions.n; i++) {
		hist_push(&r->by_value, i);
		r->zero_repeated = r->zero_repeated || r->versions.v[i].value == 0;
	}
	sort_reg = r;
	if (r->by_value.n > 0)
		qsort(r->by_value.v, r->by_value.n, sizeof(r->by_value.v[0]), by_value);
	for (size_t i = 0; i < r->by_value.n; i++) {
		struct version *v = &r->versions.v[r->by_value.v[i]];

		v->repeated = v->value == 0;
		if (i > 0 && r->versions.v[r->by_value.v[i - 1]].value == v->value)
			v->repeated = r->versions.v[r->by_value.v[i - 1]].repeated = true;
	}
}

static void order_reg(struct check *c, struct reg *r)
{
	uint32_t cluster = 0;

	sort_check = c;
	if (r->versions.n > 0)
		qsort(r->versions.v, r->versions.n, sizeof(r->versions.v[0]), by_commit);
	for (size_t i = 0, end; i < r->versions.n; i = end) {
		uint64_t ret = txn_of(c, &r->versions.v[i])->commit_ret;

		for (end = i + 1; end < r->versions.n; end++) {
			const struct hist_txn *t = txn_of(c, &r->versions.v[end]);

			if (t->commit_call > ret)
				break;
			if (t->commit_ret > ret)
				ret = t->commit_ret;
		}
		if (end - i > 1)
			order_cluster(c, &r->versions.v[i], end - i,
				      i > 0 ? &r->versions.v[i - 1] : NULL);
		for (size_t k = i; k < end; k++)
			r->versions.v[k].cluster = cluster;
		cluster++;
	}
	index_values(r);
}

void check_order_versions(struct check *c)
{
	for (size_t i = 0; i < c->regs.n; i++)
		order_reg(c, &c->regs.v[i]);
}

/* --- which version was read --- */

struct window {
	uint64_t from, to;
};

static struct window reading_window(const struct check *c, const struct seen *s)
{
	const struct hist_txn *txn = c->h->txns.v[s->txn];
	bool at_commit = s->found;

	if (txn->level == HIST_SERIALIZABLE && !txn->read_only && txn->outcome == HIST_COMMITTED)
		at_commit = true; /* V3 */
	if (at_commit)
		return (struct window){ txn->commit_call, txn->commit_ret };
	if (txn->level == HIST_SNAPSHOT || txn->level == HIST_SERIALIZABLE)
		return (struct window){ txn->begin_call, txn->begin_ret };
	return (struct window){ s->call, s->ret };
}

/* When version i (-1: the first state) may have been the current one. */
static struct window visible_window(const struct check *c, const struct reg *r, int64_t i)
{
	struct window w = { 0, UINT64_MAX };
	size_t next = (size_t)(i + 1);

	if (i >= 0)
		w.from = txn_of(c, &r->versions.v[i])->commit_call;
	/* It may be the last of its cluster. */
	while (i >= 0 && r->versions.v[i].unsure && next < r->versions.n &&
	       r->versions.v[next].cluster == r->versions.v[i].cluster)
		next++;
	if (next >= r->versions.n)
		return w;
	w.to = txn_of(c, &r->versions.v[next])->commit_ret;
	for (size_t k = next; k < r->versions.n && r->versions.v[k].unsure &&
			      r->versions.v[k].cluster == r->versions.v[next].cluster;
	     k++)
		if (txn_of(c, &r->versions.v[k])->commit_ret > w.to)
			w.to = txn_of(c, &r->versions.v[k])->commit_ret;
	return w;
}

static bool visible(const struct check *c, const struct reg *r, const struct seen *s, int64_t i)
{
	struct window w = reading_window(c, s), v = visible_window(c, r, i);

	return v.from <= w.to && v.to >= w.from;
}

static enum hist_anomaly not_written(struct check *c, const struct reg *r, const struct seen *s)
{
	for (size_t i = 0; i < c->dirty.n; i++) {
		const struct dirty *d = &c->dirty.v[i];

		if (d->key == r->key && d->value == s->value && d->txn != s->txn)
			return check_report(c,
					    d->aborted ? HIST_ABORTED_READ : HIST_INTERMEDIATE_READ,
					    r->key, s->value, s->txn, d->txn);
	}
	return check_report(c, HIST_UNKNOWN_VALUE, r->key, s->value, s->txn, s->txn);
}

static size_t first_with(const struct reg *r, uint64_t value)
{
	size_t lo = 0, hi = r->by_value.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (r->versions.v[r->by_value.v[mid]].value < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The version right before the reader's own, if it has one and that fits. */
static bool before_own(const struct reg *r, const struct seen *s, int64_t *ret)
{
	for (size_t k = 0; k < r->versions.n; k++) {
		if (r->versions.v[k].txn != s->txn)
			continue;
		*ret = (int64_t)k - 1;
		if (k == 0)
			return s->value == 0;
		return !r->versions.v[k].unsure && r->versions.v[k - 1].value == s->value;
	}
	return false;
}

enum hist_anomaly check_resolve(struct check *c, const struct reg *r, const struct seen *s,
				int64_t *ret, bool *ret_exact)
{
	size_t at = first_with(r, s->value);
	size_t n = s->value == 0, fits = 0;
	int64_t last = -1;

	*ret = -2;
	*ret_exact = true;
	for (size_t k = at; k < r->by_value.n; k++, n++) {
		if (r->versions.v[r->by_value.v[k]].value != s->value)
			break;
		last = r->by_value.v[k];
	}
	if (n == 0)
		return not_written(c, r, s);
	if (n == 1) {
		*ret = last;
		return HIST_NONE;
	}
	*ret_exact = c->h->txns.v[s->txn]->level != HIST_SERIALIZABLE;
	if (before_own(r, s, ret)) {
		*ret_exact = false;
		return HIST_NONE;
	}
	*ret = -2;
	if (s->value == 0 && visible(c, r, s, -1)) {
		*ret = -1;
		fits++;
	}
	for (size_t k = at; k < r->by_value.n && fits < 2; k++) {
		if (r->versions.v[r->by_value.v[k]].value != s->value)
			break;
		if (!visible(c, r, s, r->by_value.v[k]))
			continue;
		*ret = r->by_value.v[k];
		fits++;
	}
	if (fits == 0)
		return check_report(c, HIST_NOT_CURRENT, r->key, s->value, s->txn, s->txn);
	if (fits > 1)
		*ret = -2;
	return HIST_NONE;
}

/* --- lists --- */

static int element_by_value(const void *a, const void *b)
{
	const struct element *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value;
}

static int element_by_place(const void *a, const void *b)
{
	const struct element *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static const struct seen *longest(const struct reg *r)
{
	const struct seen *best = NULL;

	for (size_t i = 0; i < r->seen.n; i++)
		if (r->seen.v[i].list && (!best || r->seen.v[i].value > best->value))
			best = &r->seen.v[i];
	return best;
}

static enum hist_anomaly place_elements(struct check *c, struct reg *r, const struct seen *best)
{
	if (r->elements.n > 0)
		qsort(r->elements.v, r->elements.n, sizeof(r->elements.v[0]), element_by_value);
	for (size_t i = 0; best && i < best->value; i++) {
		struct element want = { .value = best->list[i] };
		struct element *e = r->elements.n ? bsearch(&want, r->elements.v, r->elements.n,
							    sizeof(want), element_by_value)
						  : NULL;
		struct seen s = *best;

		s.value = want.value;
		if (!e)
			return not_written(c, r, &s);
		if (e->at != SIZE_MAX)
			return check_report(c, HIST_TORN_LIST, r->key, want.value, best->txn,
					    e->txn);
		e->at = i;
	}
	if (r->elements.n > 0)
		qsort(r->elements.v, r->elements.n, sizeof(r->elements.v[0]), element_by_place);
	return HIST_NONE;
}

/* Elements of one transaction lie together; what has been read is the beginning of the longest. */
static enum hist_anomaly check_shape(struct check *c, struct reg *r, const struct seen *best)
{
	for (size_t i = 2; i < r->elements.n && r->elements.v[i].at != SIZE_MAX; i++) {
		if (r->elements.v[i].txn == r->elements.v[i - 1].txn)
			continue;
		for (size_t k = 0; k + 1 < i; k++)
			if (r->elements.v[k].txn == r->elements.v[i].txn)
				return check_report(c, HIST_TORN_LIST, r->key,
						    r->elements.v[i].value, best->txn,
						    r->elements.v[i].txn);
	}
	for (size_t i = 0; best && i < r->seen.n; i++) {
		const struct seen *s = &r->seen.v[i];

		if (s->list && s->value > 0 &&
		    memcmp(s->list, best->list, s->value * sizeof(s->list[0])) != 0)
			return check_report(c, HIST_TORN_LIST, r->key, s->value, s->txn, best->txn);
	}
	return HIST_NONE;
}

/* V4 */
static enum hist_anomaly check_lost(struct check *c, struct reg *r)
{
	for (size_t i = 0; i < r->elements.n; i++) {
		const struct hist_txn *writer = c->h->txns.v[r->elements.v[i].txn];

		for (size_t k = 0; k < r->seen.n && r->elements.v[i].at == SIZE_MAX; k++)
			if (writer->commit_ret < c->h->txns.v[r->seen.v[k].txn]->begin_call)
				return check_report(c, HIST_LOST_ELEMENT, r->key,
						    r->elements.v[i].value, r->seen.v[k].txn,
						    r->elements.v[i].txn);
	}
	return HIST_NONE;
}

enum hist_anomaly check_order_lists(struct check *c)
{
	enum hist_anomaly a = HIST_NONE;

	for (size_t i = 0; i < c->regs.n && !a; i++) {
		struct reg *r = &c->regs.v[i];
		const struct seen *best;

		best = longest(r);
		if (r->elements.n == 0 && !best)
			continue;
		a = place_elements(c, r, best);
		if (!a)
			a = check_shape(c, r, best);
		if (!a)
			a = check_lost(c, r);
	}
	return a;
}
