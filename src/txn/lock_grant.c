/* lock_grant.c - locks that are held: who is in whose way, and taking them up. See lock.c.
 *
 * G1. A grant of a whole name is on the list of its head, and in a table by head and owner: who asks finds its
 *     own there. Of different owners all but IS are of one mode; they stand before those. So the first that
 *     is in somebody's way is among the first few.
 * G2. Grants of one owner with equal mode that touch or overlap are one (I6), so of those that meet a range
 *     only the ends of what they become are new; keys are moved from one to the other, not copied.
 * G3. A grant with a range is in the tree of its head, where those that read (S, IS), IX and the others are told
 *     apart: searching passes over parts in which all is the asker's own, or nothing is. Where many owners lie side
 *     by side that does not help who looks for its own: when that has looked at as many as the asker has grants
 *     at all, it looks at these instead.
 */
#include "txn/lock_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

#define BIT(mode) (1u << (mode))
#define FEW 8u /* grants of an owner */

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

static unsigned group_of(enum stet_lock_mode mode)
{
	if (mode == STET_LOCK_IS || mode == STET_LOCK_S)
		return 0;
	return mode == STET_LOCK_IX ? 1 : 2;
}

/* What a held mode must be, seen from another one. */
typedef bool fits_fn(enum stet_lock_mode held, enum stet_lock_mode mode);

static bool conflicts(enum stet_lock_mode held, enum stet_lock_mode mode)
{
	return !compatible(held, mode);
}

static bool any_mode(enum stet_lock_mode held, enum stet_lock_mode mode)
{
	(void)held;
	(void)mode;
	return true;
}

static bool is_same(enum stet_lock_mode held, enum stet_lock_mode mode)
{
	return held == mode;
}

static bool is_weaker(enum stet_lock_mode held, enum stet_lock_mode mode)
{
	return as_strong(mode, held);
}

/* For those that meet want's range: the groups in which such modes are. */
static struct stet_span_look look_for(const struct lock_grant *want, unsigned whose, fits_fn *fits,
				      enum stet_lock_mode mode)
{
	const struct stet_span *range = stet_lock_span_(want);
	struct stet_span_look look = {
		.from = &range->from, .to = &range->to, .owner = want->owner, .left = SIZE_MAX
	};

	for (int m = 0; m < STET_LOCK_MODES; m++) {
		enum stet_lock_mode held = (enum stet_lock_mode)m;

		if (fits(held, mode))
			look.whose[group_of(held)] |= whose;
	}
	return look;
}

struct each {
	stet_lock_grant_fn *fn;
	void *arg;
	fits_fn *fits;
	enum stet_lock_mode mode;
};

static bool each_span(void *arg, struct stet_span *span)
{
	const struct each *e = arg;
	struct lock_grant *g = grant_of(span);

	return e->fits(g->mode, e->mode) && e->fn(e->arg, g);
}

static struct lock_grant *each_ranged(const struct lock_head *head, struct stet_span_look *look,
				      struct each *e)
{
	struct stet_span *span;

	if (!head->ranges)
		return NULL;
	span = stet_spans_find(&head->ranges->spans, look, each_span, e);
	return span ? grant_of(span) : NULL;
}

/* Those of look->owner only (G3); some perhaps twice. */
static struct lock_grant *each_own(const struct lock_head *head, struct stet_span_look *look,
				   struct each *e)
{
	const struct stet_lock_owner *owner = look->owner;
	struct stet_list *pos;

	if (!head->ranges)
		return NULL;
	if (owner->listed >= FEW) {
		struct lock_grant *found;

		look->left = owner->listed;
		found = each_ranged(head, look, e);
		if (found || look->left > 0)
			return found;
	}
	STET_LIST_FOREACH(pos, &owner->held) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_owner);

		if (g->head == head && !g->whole && stet_span_fits(&ranged(g)->span, look) &&
		    each_span(e, &ranged(g)->span))
			return g;
	}
	return NULL;
}

struct lock_grant *stet_lock_each_(const struct lock_head *head, const struct lock_grant *want,
				   stet_lock_grant_fn *fn, void *arg)
{
	struct stet_span_look look = look_for(want, STET_SPAN_OWN | STET_SPAN_OTHERS, any_mode,
					      want->mode);
	struct each e = { fn, arg, any_mode, want->mode };
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &head->wholes) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_head);

		if (fn(arg, g))
			return g;
	}
	return each_ranged(head, &look, &e);
}

/* --- wholes --- */

static uint64_t whole_key(const struct lock_head *head, const struct stet_lock_owner *owner)
{
	uint64_t key = stet_mix64((uint64_t)(uintptr_t)head ^ owner->locks->secret);

	return stet_mix64(key + (uint64_t)(uintptr_t)owner);
}

/* A grant of all of it that the owner has, in a mode that fits. */
static struct lock_grant *find_whole(const struct lock_head *head,
				     const struct stet_lock_owner *owner, fits_fn *fits,
				     enum stet_lock_mode mode)
{
	struct stet_hash_node *node = stet_hash_find(&owner->locks->wholes, whole_key(head, owner));

	for (; node; node = stet_hash_find_next(node)) {
		struct lock_grant *g = stet_container_of(node, struct lock_grant, node);

		if (g->owner == owner && g->head == head && fits(g->mode, mode))
			return g;
	}
	return NULL;
}

/* Whether another one's is in the way. An owner has one of each mode at most (I6). */
static bool whole_blocks(const struct lock_head *head, const struct lock_grant *want)
{
	for (int m = 0; m < STET_LOCK_MODES; m++) {
		enum stet_lock_mode held = (enum stet_lock_mode)m;
		uint32_t count = head->whole_count[m];

		if (count == 0 || compatible(held, want->mode))
			continue;
		if (count > 1 || !want->owner || !find_whole(head, want->owner, is_same, held))
			return true;
	}
	return false;
}

/* --- in the way --- */

struct lock_grant *stet_lock_each_blocker_(const struct lock_head *head,
					   const struct lock_grant *want, stet_lock_grant_fn *fn,
					   void *arg)
{
	struct stet_span_look look = look_for(want, STET_SPAN_OTHERS, conflicts, want->mode);
	struct each e = { fn, arg, conflicts, want->mode };
	bool whole = whole_blocks(head, want);
	struct stet_list *pos;

	for (pos = head->wholes.next; whole && pos != &head->wholes; pos = pos->next) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_head);

		if (g->mode == STET_LOCK_IS && !conflicts(g->mode, want->mode))
			break; /* G1: nor is what comes behind */
		if (g->owner != want->owner && conflicts(g->mode, want->mode) && fn(arg, g))
			return g;
	}
	return each_ranged(head, &look, &e);
}

static bool first_one(void *arg, struct lock_grant *g)
{
	(void)arg;
	(void)g;
	return true;
}

struct stet_lock_owner *stet_lock_granted_blocker_(const struct lock_head *head,
						   const struct lock_grant *want)
{
	struct lock_grant *g = stet_lock_each_blocker_(head, want, first_one, NULL);

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

/* Whether the owner has something with a range that meets that of `range`, in a mode that fits its mode. */
static bool holds_ranged(const struct lock_head *head, const struct lock_grant *range,
			 struct stet_lock_owner *owner, fits_fn *fits)
{
	struct stet_span_look look = look_for(range, STET_SPAN_OWN, fits, range->mode);
	struct each e = { first_one, NULL, fits, range->mode };

	look.owner = owner;
	return each_own(head, &look, &e);
}

bool stet_lock_is_upgrade_(const struct lock_head *head, const struct lock_grant *want)
{
	const struct lock_grant all = { .whole = true };
	struct stet_lock_owner *owner = want->owner;
	struct stet_list *pos;

	if (find_whole(head, owner, any_mode, want->mode) ||
	    holds_ranged(head, want, owner, any_mode))
		return true;
	if (!holds_ranged(head, &all, owner, any_mode))
		return false;
	STET_LIST_FOREACH(pos, &head->waits) {
		struct stet_lock_wait *w = stet_container_of(pos, struct stet_lock_wait, of_head);

		if (stet_lock_in_the_way_(w->grant, want) &&
		    holds_ranged(head, w->grant, owner, conflicts))
			return true;
	}
	return false;
}

static bool reach_on(void *arg, struct lock_grant *g)
{
	const struct stet_bound **to = arg, *end = &ranged(g)->span.to;

	if (!*to || stet_bound_cmp(end, *to) > 0)
		*to = end;
	return false;
}

/* Each round moves forward, so there are at most as many as the owner has grants. */
bool stet_lock_covered_(const struct lock_head *head, const struct lock_grant *want)
{
	struct stet_span_look look = look_for(want, STET_SPAN_OWN, as_strong, want->mode);
	const struct stet_bound *end = look.to, *to;
	struct each e = { reach_on, &to, as_strong, want->mode };

	if (find_whole(head, want->owner, as_strong, want->mode))
		return true;
	look.also = STET_SPAN_BEGINS_AT_TO;
	for (;;) {
		look.to = look.from;
		to = NULL;
		each_own(head, &look, &e);
		if (!to)
			return false;
		if (stet_bound_cmp(to, end) >= 0)
			return true;
		look.from = to;
	}
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
		stet_hash_remove(&locks->wholes, &g->node);
		g->head->whole_count[g->mode]--;
	} else {
		stet_spans_remove(&g->head->ranges->spans, &ranged(g)->span);
	}
	stet_list_del(&g->of_owner);
	g->owner->held_bytes -= bytes_of(g);
	g->owner->held_count--;
	g->owner->listed--;
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

static bool is_taken_up(enum stet_lock_mode held, enum stet_lock_mode mode)
{
	return held == mode || as_strong(mode, held);
}

static bool collect_needless(void *arg, struct lock_grant *old)
{
	struct needless *n = arg;
	const struct stet_span *by = stet_lock_span_(n->g), *span = stet_lock_span_(old);

	if (stet_list_linked(&old->of_head))
		return false;
	if (old->mode == n->g->mode || (stet_bound_cmp(&by->from, &span->from) <= 0 &&
					stet_bound_cmp(&span->to, &by->to) <= 0))
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
	struct stet_span_look look = look_for(g, STET_SPAN_OWN, is_taken_up, g->mode);
	struct needless n = { .g = g };
	struct each e = { collect_needless, &n, is_taken_up, g->mode };
	struct lock_grant *whole;
	struct stet_list *pos;

	stet_list_init(&n.list);
	while (g->whole && (whole = find_whole(head, g->owner, is_weaker, g->mode)))
		stet_lock_drop_(locks, whole, false);
	look.also = STET_SPAN_ENDS_AT_FROM | STET_SPAN_BEGINS_AT_TO;
	each_own(head, &look, &e);
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
		int rc = stet_hash_insert(&locks->wholes, whole_key(head, g->owner), &g->node);

		STET_ASSERT_CMP(rc, ==, 0); /* its first table is there */
		if (g->mode == STET_LOCK_IS)
			stet_list_add_tail(&head->wholes, &g->of_head);
		else
			stet_list_add_head(&head->wholes, &g->of_head); /* G1 */
		head->whole_count[g->mode]++;
	} else {
		ranged(g)->span.owner = g->owner;
		ranged(g)->span.group = group_of(g->mode);
		stet_spans_add(&head->ranges->spans, &ranged(g)->span);
	}
	stet_list_add_tail(&g->owner->held, &g->of_owner);
	g->owner->held_bytes += bytes_of(g);
	g->owner->held_count++;
	g->owner->listed++;
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
