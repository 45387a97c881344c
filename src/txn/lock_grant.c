/* lock_grant.c - locks that are held: who is in whose way, and taking them up. See lock.c.
 *
 * G1. A grant of a whole name is on the list of its head, one with a range in the tree of the head. The list is
 *     as long as many share the whole, so it is walked only for what is in it: the modes are counted, and what an
 *     owner with few locks holds is looked for among these.
 * G2. Grants of one owner with equal mode that touch or overlap are one (I6), so of those that meet a range
 *     only the ends of what they become are new; keys are moved from one to the other, not copied.
 */
#include "txn/lock_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

#define BIT(mode) (1u << (mode))
#define FEW 32u /* locks of an owner */

/* --- modes --- */

static bool compatible(enum stet_lock_mode a, enum stet_lock_mode b)
{
	static const unsigned with[] = {
		[STET_LOCK_IS] = BIT(STET_LOCK_IS) | BIT(STET_LOCK_IX) | BIT(STET_LOCK_S) |
				 BIT(STET_LOCK_SIX),
		[STET_LOCK_IX] = BIT(STET_LOCK_IS) | BIT(STET_LOCK_IX),
		[STET_LOCK_S] = BIT(STET_LOCK_IS) | BIT(STET_LOCK_S),
		[STET_LOCK_SIX] = BIT(STET_LOCK_IS),
		[STET_LOCK_X] = 0,
		[STET_LOCK_ALIKE] = BIT(STET_LOCK_ALIKE),
	};

	return with[a] & BIT(b);
}

/* Whether holding `a` makes asking for `b` needless. */
static bool as_strong(enum stet_lock_mode a, enum stet_lock_mode b)
{
	static const unsigned covers[] = {
		[STET_LOCK_IS] = BIT(STET_LOCK_IS),
		[STET_LOCK_IX] = BIT(STET_LOCK_IS) | BIT(STET_LOCK_IX),
		[STET_LOCK_S] = BIT(STET_LOCK_IS) | BIT(STET_LOCK_S),
		[STET_LOCK_SIX] = BIT(STET_LOCK_IS) | BIT(STET_LOCK_IX) | BIT(STET_LOCK_S) |
				  BIT(STET_LOCK_SIX),
		[STET_LOCK_X] = BIT(STET_LOCK_IS) | BIT(STET_LOCK_IX) | BIT(STET_LOCK_S) |
				BIT(STET_LOCK_SIX) | BIT(STET_LOCK_X) | BIT(STET_LOCK_ALIKE),
		[STET_LOCK_ALIKE] = BIT(STET_LOCK_ALIKE),
	};

	return covers[a] & BIT(b);
}

/* --- requests --- */

static const struct stet_span everything = { .to = { .open = true } };

const struct stet_span *stet_lock_span_(const struct lock_grant *g)
{
	return g->whole ? &everything : &stet_container_of(g, const struct lock_ranged, g)->span;
}

static struct lock_ranged *ranged(struct lock_grant *g)
{
	STET_DEBUG_ASSERT(!g->whole);
	return stet_container_of(g, struct lock_ranged, g);
}

static struct lock_grant *grant_of(struct stet_span *span)
{
	return &stet_container_of(span, struct lock_ranged, span)->g;
}

static void set_numbers(struct stet_span *span, uint64_t from, uint64_t to)
{
	stet_bound_number(&span->from, from);
	stet_bound_number(&span->to, to);
	span->to.open = to == UINT64_MAX;
	span->point = 0;
}

static void set_keys(struct lock_request *r, const struct stet_lock_name *name)
{
	struct stet_span *span = &r->r.span;
	bool point = name->keys == STET_LOCK_ONE_KEY;

	STET_ASSERT_CMP(name->key_len, <=, STET_LOCK_KEY_MAX);
	STET_ASSERT_CMP(name->key_end_len, <=, STET_LOCK_KEY_MAX);
	stet_bound_string(&span->from, name->key, name->key_len);
	span->point = point ? stet_lock_hash(name->key, name->key_len) | 1 : 0;
	if (point) { /* right behind a key comes the one with a NUL more */
		if (name->key_len > 0)
			memcpy(r->point, name->key, name->key_len);
		r->point[name->key_len] = 0;
		stet_bound_string(&span->to, r->point, (size_t)name->key_len + 1);
	} else if (name->key_end) {
		stet_bound_string(&span->to, name->key_end, name->key_end_len);
	} else {
		span->to = (struct stet_bound){ .open = true };
	}
}

struct lock_grant *stet_lock_request_(struct lock_request *r, struct stet_lock_owner *owner,
				      const struct stet_lock_name *name, enum stet_lock_mode mode)
{
	struct stet_span *span = &r->r.span;

	r->r.g = (struct lock_grant){ .owner = owner, .mode = mode };
	if (name->keys == STET_LOCK_NO_KEYS)
		set_numbers(span, name->from, name->to);
	else
		set_keys(r, name);
	STET_ASSERT(stet_bound_cmp(&span->from, &span->to) < 0);
	r->r.g.whole = span->to.open && span->from.head == 0 && span->from.len == 0;
	return &r->r.g;
}

int stet_lock_copy_(const struct lock_grant *want, struct lock_grant **ret)
{
	struct lock_grant *g = stet_calloc(1,
					   want->whole ? sizeof(*g) : sizeof(struct lock_ranged));

	if (!g)
		return STET_FAIL(-ENOMEM, "no memory for a lock");
	*g = (struct lock_grant){ .owner = want->owner, .mode = want->mode, .whole = want->whole };
	stet_list_init(&g->of_head);
	stet_list_init(&g->of_owner);
	if (!g->whole) {
		struct stet_span *span = &ranged(g)->span;

		span->from = stet_lock_span_(want)->from;
		span->to = stet_lock_span_(want)->to;
		span->point = stet_lock_span_(want)->point;
		int rc = stet_bounds_keep(&span->from, &span->to);
		if (rc) {
			stet_free(g);
			return rc;
		}
	}
	*ret = g;
	return 0;
}

void stet_lock_free_(struct lock_grant *g)
{
	if (!g->whole) {
		stet_bound_release(&ranged(g)->span.from);
		stet_bound_release(&ranged(g)->span.to);
	}
	stet_free(g);
}

/* --- conflicts --- */

bool stet_lock_in_the_way_(const struct lock_grant *other, const struct lock_grant *want)
{
	if (other->owner == want->owner || compatible(other->mode, want->mode))
		return false;
	if (other->whole || want->whole)
		return true;
	return stet_spans_overlap(stet_lock_span_(want), stet_lock_span_(other));
}

struct each {
	stet_lock_grant_fn *fn;
	void *arg;
};

static bool each_span(void *arg, struct stet_span *span)
{
	const struct each *e = arg;

	return e->fn(e->arg, grant_of(span));
}

static struct lock_grant *each_ranged(const struct lock_head *head, const struct lock_grant *want,
				      stet_lock_grant_fn *fn, void *arg)
{
	const struct stet_span *range = stet_lock_span_(want);
	struct each e = { fn, arg };
	struct stet_span *span;

	if (!head->ranges)
		return NULL;
	span = stet_spans_find(&head->ranges->spans, &range->from, &range->to, 0, each_span, &e);
	return span ? grant_of(span) : NULL;
}

struct lock_grant *stet_lock_each_(const struct lock_head *head, const struct lock_grant *want,
				   stet_lock_grant_fn *fn, void *arg)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &head->wholes) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_head);

		if (fn(arg, g))
			return g;
	}
	return each_ranged(head, want, fn, arg);
}

static bool is_blocker(void *arg, struct lock_grant *g)
{
	const struct lock_grant *want = arg;

	return g->owner != want->owner && !compatible(g->mode, want->mode);
}

struct stet_lock_owner *stet_lock_granted_blocker_(const struct lock_head *head,
						   const struct lock_grant *want)
{
	void *arg = (void *)(uintptr_t)want;
	bool whole = false;
	struct lock_grant *g;

	for (int mode = 0; mode < STET_LOCK_MODES; mode++)
		whole = whole || (head->whole_count[mode] > 0 &&
				  !compatible((enum stet_lock_mode)mode, want->mode));
	g = whole ? stet_lock_each_(head, want, is_blocker, arg)
		  : each_ranged(head, want, is_blocker, arg);
	return g ? g->owner : NULL;
}

struct stet_lock_owner *stet_lock_queued_blocker_(const struct lock_head *head,
						  const struct stet_list *end,
						  const struct lock_grant *want)
{
	for (struct stet_list *pos = head->waits.next; pos != end; pos = pos->next) {
		struct stet_lock_wait *w = stet_container_of(pos, struct stet_lock_wait, of_head);

		if (stet_lock_in_the_way_(w->grant, want))
			return w->grant->owner;
	}
	return NULL;
}

static bool is_own(void *arg, struct lock_grant *g)
{
	return g->owner == arg;
}

struct waits_for {
	const struct lock_grant *wait;
	const struct stet_lock_owner *owner;
};

static bool keeps_waiting(void *arg, struct lock_grant *g)
{
	const struct waits_for *q = arg;

	return g->owner == q->owner && !compatible(g->mode, q->wait->mode);
}

typedef bool fits_fn(enum stet_lock_mode held, enum stet_lock_mode mode);

static bool any_mode(enum stet_lock_mode held, enum stet_lock_mode mode)
{
	(void)held;
	(void)mode;
	return true;
}

static bool is_weaker(enum stet_lock_mode held, enum stet_lock_mode mode)
{
	return as_strong(mode, held);
}

/* A grant of all of it that the owner has, in a mode that fits. Looks at the shorter of two lists. */
static struct lock_grant *find_whole(const struct lock_head *head,
				     const struct stet_lock_owner *owner, fits_fn *fits,
				     enum stet_lock_mode mode)
{
	bool by_owner = owner->held_count < FEW;
	const struct stet_list *list = by_owner ? &owner->held : &head->wholes;
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, list) {
		struct lock_grant *g = by_owner
					       ? stet_container_of(pos, struct lock_grant, of_owner)
					       : stet_container_of(pos, struct lock_grant, of_head);

		if (g->whole && g->owner == owner && g->head == head && fits(g->mode, mode))
			return g;
	}
	return NULL;
}

/* As far as that is found out at once. */
static bool holds_nothing(const struct lock_head *head, const struct stet_lock_owner *owner)
{
	const struct stet_list *pos;

	if (owner->held_count >= FEW)
		return false;
	STET_LIST_FOREACH(pos, &owner->held) {
		if (stet_container_of(pos, const struct lock_grant, of_owner)->head == head)
			return false;
	}
	return true;
}

bool stet_lock_is_upgrade_(const struct lock_head *head, const struct lock_grant *want)
{
	struct stet_list *pos;

	if (find_whole(head, want->owner, any_mode, want->mode) ||
	    each_ranged(head, want, is_own, want->owner))
		return true;
	if (holds_nothing(head, want->owner))
		return false;
	STET_LIST_FOREACH(pos, &head->waits) {
		struct stet_lock_wait *w = stet_container_of(pos, struct stet_lock_wait, of_head);
		struct waits_for q = { w->grant, want->owner };

		if (stet_lock_in_the_way_(w->grant, want) &&
		    stet_lock_each_(head, w->grant, keeps_waiting, &q))
			return true;
	}
	return false;
}

struct reach {
	const struct lock_grant *want;
	const struct stet_bound *to; /* NULL: none yet */
};

static bool reach_on(void *arg, struct stet_span *span)
{
	struct reach *r = arg;
	const struct lock_grant *g = grant_of(span);

	if (g->owner == r->want->owner && as_strong(g->mode, r->want->mode) &&
	    (!r->to || stet_bound_cmp(&span->to, r->to) > 0))
		r->to = &span->to;
	return false;
}

/* Each round moves forward, so there are at most as many as there are grants. */
bool stet_lock_covered_(const struct lock_head *head, const struct lock_grant *want)
{
	const struct stet_span *range = stet_lock_span_(want);
	const struct stet_bound *at = &range->from;

	if (find_whole(head, want->owner, as_strong, want->mode))
		return true;
	while (head->ranges) {
		struct reach r = { want, NULL };

		stet_spans_find(&head->ranges->spans, at, at, STET_SPAN_BEGINS_AT_TO, reach_on, &r);
		if (!r.to)
			return false;
		if (stet_bound_cmp(r.to, &range->to) >= 0)
			return true;
		at = r.to;
	}
	return false;
}

/* --- granting --- */

/* What a grant takes; a head is counted with each that has all of its name, as there is mostly one. */
static uint64_t bytes_of(const struct lock_grant *g)
{
	const struct stet_span *span = stet_lock_span_(g);

	if (g->whole)
		return sizeof(*g) + sizeof(struct lock_head);
	return sizeof(struct lock_ranged) + span->from.len + span->to.len;
}

static void unlink_grant(struct stet_locks *locks, struct lock_grant *g)
{
	if (g->whole) {
		stet_list_del(&g->of_head);
		g->head->whole_count[g->mode]--;
	} else {
		stet_spans_remove(&g->head->ranges->spans, &ranged(g)->span);
	}
	stet_list_del(&g->of_owner);
	g->owner->held_bytes -= bytes_of(g);
	g->owner->held_count--;
	locks->grant_count--;
}

void stet_lock_drop_(struct stet_locks *locks, struct lock_grant *g, bool gone)
{
	unlink_grant(locks, g);
	if (gone)
		stet_lock_gone_(locks, g->head, g);
	stet_lock_free_(g);
}

struct needless {
	struct lock_grant *g;
	struct stet_list list; /* of lock_grant.of_head */
};

static bool collect_needless(void *arg, struct stet_span *span)
{
	struct needless *n = arg;
	struct lock_grant *old = grant_of(span);
	const struct stet_span *by = stet_lock_span_(n->g);
	bool inside = stet_bound_cmp(&by->from, &span->from) <= 0 &&
		      stet_bound_cmp(&span->to, &by->to) <= 0;

	if (old->owner == n->g->owner &&
	    (old->mode == n->g->mode || (inside && as_strong(n->g->mode, old->mode))))
		stet_list_add_tail(&n->list, &old->of_head);
	return false;
}

/* What continues g is joined to it (G2). */
static void join(struct lock_grant *g, struct lock_grant *old)
{
	struct stet_span *a = &ranged(g)->span, *b = &ranged(old)->span;

	a->point = 0;
	if (stet_bound_cmp(&b->from, &a->from) < 0)
		stet_bound_move(&a->from, &b->from);
	if (stet_bound_cmp(&b->to, &a->to) > 0)
		stet_bound_move(&a->to, &b->to);
}

static void take_needless(struct stet_locks *locks, struct lock_head *head, struct lock_grant *g)
{
	const struct stet_span *range = stet_lock_span_(g);
	struct needless n = { .g = g };
	struct lock_grant *whole;
	struct stet_list *pos;

	stet_list_init(&n.list);
	while (g->whole && (whole = find_whole(head, g->owner, is_weaker, g->mode)))
		stet_lock_drop_(locks, whole, false);
	if (!head->ranges)
		return;
	stet_spans_find(&head->ranges->spans, &range->from, &range->to,
			STET_SPAN_ENDS_AT_FROM | STET_SPAN_BEGINS_AT_TO, collect_needless, &n);
	while ((pos = stet_list_first(&n.list))) {
		struct lock_grant *old = stet_container_of(pos, struct lock_grant, of_head);

		stet_list_del(pos);
		unlink_grant(locks, old);
		if (!g->whole && old->mode == g->mode)
			join(g, old);
		stet_lock_free_(old);
	}
}

void stet_lock_add_(struct stet_locks *locks, struct lock_head *head, struct lock_grant *g)
{
	take_needless(locks, head, g);
	g->head = head;
	if (g->whole) {
		stet_list_add_tail(&head->wholes, &g->of_head);
		head->whole_count[g->mode]++;
	} else {
		stet_spans_add(&head->ranges->spans, &ranged(g)->span);
	}
	stet_list_add_tail(&g->owner->held, &g->of_owner);
	g->owner->held_bytes += bytes_of(g);
	g->owner->held_count++;
	locks->grant_count++;
}

void stet_lock_gone_(struct stet_locks *locks, struct lock_head *head, struct lock_grant *g)
{
	struct lock_ranges *ranges = head->ranges;
	struct stet_span *span, *gone;

	if (!stet_list_linked(&head->changed))
		stet_list_add_tail(&locks->changed, &head->changed);
	if (!ranges || (stet_list_empty(&head->waits) && stet_list_empty(&head->probes)))
		return;
	if (g->whole) {
		ranges->all_gone = true;
		return;
	}
	span = &ranged(g)->span;
	gone = &ranges->gone;
	gone->point = ranges->any_gone ? 0 : span->point;
	if (!ranges->any_gone || stet_bound_cmp(&span->from, &gone->from) < 0)
		stet_bound_move(&gone->from, &span->from);
	if (!ranges->any_gone || stet_bound_cmp(&span->to, &gone->to) > 0)
		stet_bound_move(&gone->to, &span->to);
	ranges->any_gone = true;
}
