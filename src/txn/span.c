/* span.c - a treap of spans, by where they begin.
 *
 * A1. In order by (from, no); a span's weight is random and not less than those below it, so the expected
 *     depth is logarithmic in any order of insertion.
 * A2. `last` of a span is the one at or below it that ends last. So a search leaves out what ends before.
 * A3. `only` of a group is NULL if there is none of it at or below, and MIXED if not all are one owner's. So who
 *     looks for others passes over what is its own, and who looks for its own over what is another's.
 */
#include "txn/span.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

/* --- bounds --- */

int stet_bound_cmp(const struct stet_bound *a, const struct stet_bound *b)
{
	size_t n = a->len < b->len ? a->len : b->len;
	int order;

	if (a->open || b->open)
		return (int)a->open - (int)b->open;
	if (a->head != b->head)
		return a->head < b->head ? -1 : 1;
	order = n > sizeof(a->head) ? memcmp(a->b, b->b, n) : 0;
	return order ? order : (int)a->len - (int)b->len;
}

void stet_bound_number(struct stet_bound *bound, uint64_t number)
{
	*bound = (struct stet_bound){ .head = number };
}

void stet_bound_string(struct stet_bound *bound, const uint8_t *b, size_t len)
{
	*bound = (struct stet_bound){ .b = len > 0 ? b : NULL, .len = (uint16_t)len };
	STET_ASSERT_CMP(len, <=, UINT16_MAX);
	for (size_t i = 0; i < sizeof(bound->head); i++)
		bound->head = bound->head << 8 | (i < len ? b[i] : 0);
}

void stet_bound_release(struct stet_bound *bound)
{
	if (bound->keep && --bound->keep->refs == 0)
		stet_free(bound->keep);
	bound->keep = NULL;
}

void stet_bound_move(struct stet_bound *to, struct stet_bound *from)
{
	struct stet_bound moved = *from;

	from->keep = NULL;
	stet_bound_release(to);
	*to = moved;
}

static int keep_bytes(struct stet_bound *bound)
{
	struct stet_span_bytes *keep;

	if (bound->len == 0)
		return 0;
	keep = stet_alloc(sizeof(*keep) + bound->len);
	if (!keep)
		return STET_FAIL(-ENOMEM, "no memory for a key");
	keep->refs = 1;
	memcpy(keep->b, bound->b, bound->len);
	bound->keep = keep;
	bound->b = keep->b;
	return 0;
}

int stet_bounds_keep(struct stet_bound *from, struct stet_bound *to)
{
	int rc = keep_bytes(to);

	if (rc)
		return rc;
	if (to->keep && from->len > 0 && from->len <= to->len &&
	    memcmp(from->b, to->b, from->len) == 0) {
		from->keep = to->keep; /* one key: the end is right behind it */
		from->b = to->keep->b;
		to->keep->refs++;
		return 0;
	}
	rc = keep_bytes(from);
	if (rc)
		stet_bound_release(to);
	return rc;
}

/* --- the tree --- */

void stet_spans_init(struct stet_spans *spans, uint64_t seed)
{
	*spans = (struct stet_spans){ .random = seed | 1 };
}

static uint64_t next_weight(struct stet_spans *spans)
{
	uint64_t x = spans->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	spans->random = x;
	return x;
}

static bool is_before(const struct stet_span *a, const struct stet_span *b)
{
	int order = stet_bound_cmp(&a->from, &b->from);

	return order ? order < 0 : a->no < b->no;
}

static const char mixed;
#define MIXED ((const void *)&mixed)

static const void *both(const void *a, const void *b) /* A3 */
{
	if (!a || a == b)
		return b;
	return b ? MIXED : a;
}

static void update(struct stet_span *s) /* A2, A3 */
{
	s->last = s;
	for (unsigned g = 0; g < STET_SPAN_GROUPS; g++)
		s->only[g] = s->group == g ? s->owner : NULL;
	for (int i = 0; i < 2; i++) {
		const struct stet_span *c = s->child[i];

		if (!c)
			continue;
		if (stet_bound_cmp(&c->last->to, &s->last->to) > 0)
			s->last = c->last;
		for (unsigned g = 0; g < STET_SPAN_GROUPS; g++)
			s->only[g] = both(s->only[g], c->only[g]);
	}
}

/* Recursion here is as deep as the tree (A1). */
static void split(struct stet_span *s, const struct stet_span *at, struct stet_span **ret_below,
		  struct stet_span **ret_above)
{
	if (!s) {
		*ret_below = *ret_above = NULL;
	} else if (is_before(s, at)) {
		split(s->child[1], at, &s->child[1], ret_above);
		*ret_below = s;
		update(s);
	} else {
		split(s->child[0], at, ret_below, &s->child[0]);
		*ret_above = s;
		update(s);
	}
}

static struct stet_span *join(struct stet_span *a, struct stet_span *b)
{
	if (!a || !b)
		return a ? a : b;
	if (a->weight >= b->weight) {
		a->child[1] = join(a->child[1], b);
		update(a);
		return a;
	}
	b->child[0] = join(a, b->child[0]);
	update(b);
	return b;
}

static void add(struct stet_span **link, struct stet_span *span)
{
	struct stet_span *s = *link;

	if (!s || span->weight > s->weight) {
		split(s, span, &span->child[0], &span->child[1]);
		*link = span;
		update(span);
		return;
	}
	add(&s->child[is_before(s, span)], span);
	update(s);
}

void stet_spans_add(struct stet_spans *spans, struct stet_span *span)
{
	STET_DEBUG_ASSERT(stet_bound_cmp(&span->from, &span->to) < 0);
	STET_DEBUG_ASSERT(span->owner && span->group < STET_SPAN_GROUPS);
	span->no = spans->next_no++;
	span->weight = next_weight(spans);
	span->child[0] = span->child[1] = NULL;
	add(&spans->root, span);
	spans->count++;
}

static void remove_from(struct stet_span **link, struct stet_span *span)
{
	struct stet_span *s = *link;

	STET_ASSERT(s);
	if (s == span) {
		*link = join(s->child[0], s->child[1]);
		return;
	}
	remove_from(&s->child[is_before(s, span)], span);
	update(s);
}

void stet_spans_remove(struct stet_spans *spans, struct stet_span *span)
{
	remove_from(&spans->root, span);
	spans->count--;
}

struct search {
	struct stet_span_look *look;
	stet_span_fn *fn;
	void *arg;
};

static bool ends_after(const struct stet_span *s, const struct stet_span_look *look)
{
	return stet_bound_cmp(&s->to, look->from) >= (look->also & STET_SPAN_ENDS_AT_FROM ? 0 : 1);
}

static bool begins_before(const struct stet_span *s, const struct stet_span_look *look)
{
	return stet_bound_cmp(look->to, &s->from) >= (look->also & STET_SPAN_BEGINS_AT_TO ? 0 : 1);
}

bool stet_span_fits(const struct stet_span *span, const struct stet_span_look *look)
{
	unsigned whose = span->owner == look->owner ? STET_SPAN_OWN : STET_SPAN_OTHERS;

	return look->whose[span->group] & whose && ends_after(span, look) &&
	       begins_before(span, look);
}

/* Whether any of those at or below may be one whose owner is looked for (A3). */
static bool may_be_below(const struct stet_span *s, const struct stet_span_look *look)
{
	for (unsigned g = 0; g < STET_SPAN_GROUPS; g++) {
		const void *only = s->only[g];

		if (only && look->whose[g] & STET_SPAN_OWN &&
		    (only == look->owner || only == MIXED))
			return true;
		if (only && look->whose[g] & STET_SPAN_OTHERS && only != look->owner)
			return true;
	}
	return false;
}

static struct stet_span *find(const struct search *q, struct stet_span *s)
{
	while (s && ends_after(s->last, q->look) && may_be_below(s, q->look)) {
		struct stet_span *found;

		if (q->look->left == 0)
			return NULL;
		q->look->left--;
		found = find(q, s->child[0]);
		if (found)
			return found;
		if (!begins_before(s, q->look))
			return NULL;
		if (stet_span_fits(s, q->look) && q->fn(q->arg, s))
			return s;
		s = s->child[1];
	}
	return NULL;
}

struct stet_span *stet_spans_find(const struct stet_spans *spans, struct stet_span_look *look,
				  stet_span_fn *fn, void *arg)
{
	const struct search q = { .look = look, .fn = fn, .arg = arg };

	return find(&q, spans->root);
}

/* Returns how many there are. */
static uint64_t check(const struct stet_span *s)
{
	const void *only[STET_SPAN_GROUPS] = { NULL };
	const struct stet_span *last = s;
	uint64_t count = 1;

	only[s->group] = s->owner;
	for (int i = 0; i < 2; i++) {
		const struct stet_span *c = s->child[i];

		if (!c)
			continue;
		STET_ASSERT_CMP(c->weight, <=, s->weight);
		STET_ASSERT(i == 0 ? is_before(c, s) : is_before(s, c));
		count += check(c);
		if (stet_bound_cmp(&c->last->to, &last->to) > 0)
			last = c->last;
		for (unsigned g = 0; g < STET_SPAN_GROUPS; g++)
			only[g] = both(only[g], c->only[g]);
	}
	STET_ASSERT(stet_bound_cmp(&s->last->to, &last->to) == 0);
	for (unsigned g = 0; g < STET_SPAN_GROUPS; g++)
		STET_ASSERT(only[g] == s->only[g]);
	return count;
}

void stet_spans_check(const struct stet_spans *spans)
{
	STET_ASSERT_CMP(spans->root ? check(spans->root) : 0, ==, spans->count);
}
