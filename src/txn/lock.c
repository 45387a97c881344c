/* lock.c - the lock manager. The contract (K1-K4) is in lock.h.
 *
 * Each locked name has a head in a hash table, with its grants (those with a range in a tree, lock_grant.c)
 * and its waits (a queue, lock_wait.c).
 *
 * I1. A head exists while it has a grant or a wait. Probes wait on a head only while something is
 *     in their way; they hold nothing, and no place in the queue. Those given up go with the next one.
 * I2. Waits that are upgrades (K2) stand before all others, and look at grants only; the others also wait
 *     for the conflicting waits before them. What is an upgrade is decided when it asks.
 * I3. Whatever can be granted has been granted when a public call returns: settle works a queue off
 *     whenever a grant or a wait of its head has gone.
 * I4. The waits-for graph has no cycle when a public call returns: a cycle appears only when an
 *     owner that waits (perhaps elsewhere) begins to wait or is granted something; settle searches
 *     from it.
 * I5. A wait brings its grant along, so granting cannot fail.
 * I6. Grants of one owner with equal mode that touch or overlap are one. Grants of different modes
 *     stand side by side: S and IX together conflict with exactly what SIX conflicts with.
 * I7. Tickets are fired last, when all is consistent: what they call may come back here.
 * I8. An exclusive lock of a whole name that has no head is a lone one (lone.h). Whoever else asks
 *     for the name makes a head with a grant for the lone owner first; the lone entry stays until
 *     release. It stands for all names of its hash, and is counted until the first of them has a head; so
 *     a hash of which there are heads gets none.
 * I9. Paired owners are one node of one waits-for graph over both managers: that of the first manager stands
 *     for both, its waits are those of both, and as a victim it gives up the waits of both. So a call
 *     settles both managers, and fires the tickets of both; I3, I4 and I7 hold for both together. The marks
 *     of searches are higher than all that either has used.
 */
#include "txn/lock_internal.h"

#include "base/assert.h"
#include "base/endian.h"
#include "base/mem.h"

#define FIRST_TABLE_LOG2 6
#define LONE_BYTES \
	48u /* of a lone lock: in the table, which is never full, and in the list of its owner */

/* --- heads --- */

/* Nobody can say which names meet: what the sub is mixed with must not be known either, or whoever makes many
 * objects chooses for each a sub that makes all their hashes one. */
static uint64_t name_hash(const struct stet_locks *locks, const struct stet_lock_name *name)
{
	uint64_t secret = locks->secret;
	uint64_t h = stet_mix64((name->object << 3 | (uint64_t)name->class) ^ secret);

	h = stet_mix64(h + secret) ^ name->sub;
	return stet_mix64(stet_mix64(h) + secret);
}

static struct lock_head *find_head(struct stet_locks *locks, const struct stet_lock_name *name)
{
	struct stet_hash_node *node = stet_hash_find(&locks->heads, name_hash(locks, name));

	for (; node; node = stet_hash_find_next(node)) {
		struct lock_head *head = stet_container_of(node, struct lock_head, node);

		if (head->object == name->object && head->sub == name->sub &&
		    head->class == name->class)
			return head;
	}
	return NULL;
}

static int make_head(struct stet_locks *locks, const struct stet_lock_name *name,
		     struct lock_head **ret)
{
	struct lock_head *head = stet_calloc(1, sizeof(*head));
	int rc;

	if (!head)
		return STET_FAIL(-ENOMEM, "no memory for a lock");
	head->object = name->object;
	head->sub = name->sub;
	head->class = name->class;
	stet_list_init(&head->wholes);
	stet_list_init(&head->waits);
	stet_list_init(&head->probes);
	stet_list_init(&head->changed);
	rc = stet_hash_insert(&locks->heads, name_hash(locks, name), &head->node);
	if (rc) {
		stet_free(head);
		return rc;
	}
	*ret = head;
	return 0;
}

/* Before something with a range is granted, or queued. */
static int need_ranges(const struct stet_locks *locks, struct lock_head *head)
{
	if (head->ranges)
		return 0;
	head->ranges = stet_calloc(1, sizeof(*head->ranges));
	if (!head->ranges)
		return STET_FAIL(-ENOMEM, "no memory for a lock");
	stet_spans_init(&head->ranges->spans, stet_mix64(head->object ^ locks->secret));
	return 0;
}

static void fire_own(struct stet_locks *locks)
{
	stet_ticket_fire_all(&locks->victims, -EDEADLK);
	stet_ticket_fire_all(&locks->granted, 0);
	stet_ticket_fire_all(&locks->probes, 0);
}

static void fire(struct stet_locks *locks)
{
	struct stet_locks *other = locks->other;

	fire_own(locks);
	if (other)
		fire_own(other);
}

/* --- the manager --- */

int stet_locks_create(uint64_t secret, struct stet_locks **ret)
{
	struct stet_locks *locks = stet_calloc(1, sizeof(*locks));
	struct stet_hash_node node;
	int rc;

	if (!locks)
		return -ENOMEM;
	stet_hash_init(&locks->wholes, FIRST_TABLE_LOG2);
	rc = stet_hash_insert(&locks->wholes, 0, &node); /* so that later none fails */
	if (rc) {
		stet_free(locks);
		return rc;
	}
	stet_hash_remove(&locks->wholes, &node);
	locks->secret = secret;
	stet_hash_init(&locks->heads, FIRST_TABLE_LOG2);
	stet_lone_init(&locks->lone);
	stet_list_init(&locks->changed);
	stet_list_init(&locks->recheck);
	stet_ticket_queue_init(&locks->granted);
	stet_ticket_queue_init(&locks->victims);
	stet_ticket_queue_init(&locks->probes);
	*ret = locks;
	return 0;
}

void stet_locks_destroy(struct stet_locks *locks)
{
	if (!locks)
		return;
	STET_ASSERT_CMP(stet_hash_count(&locks->heads), ==, 0);
	if (locks->other)
		locks->other->other = NULL;
	STET_ASSERT_CMP(stet_hash_count(&locks->wholes), ==, 0);
	stet_hash_release(&locks->heads);
	stet_hash_release(&locks->wholes);
	stet_lone_release(&locks->lone);
	stet_free(locks);
}

void stet_locks_pair(struct stet_locks *a, struct stet_locks *b)
{
	STET_ASSERT(a != b && !a->other && !b->other);
	STET_ASSERT(stet_hash_count(&a->heads) == 0 && stet_hash_count(&b->heads) == 0);
	a->other = b;
	b->other = a;
	b->second = true;
}

void stet_lock_owner_init(struct stet_lock_owner *owner, struct stet_locks *locks, uint64_t age)
{
	*owner = (struct stet_lock_owner){ .locks = locks, .age = age };
	stet_list_init(&owner->held);
	stet_list_init(&owner->recheck);
}

void stet_lock_owner_pair(struct stet_lock_owner *a, struct stet_lock_owner *b)
{
	STET_ASSERT(!a->peer && !b->peer && a->age == b->age && a->locks->other == b->locks);
	STET_ASSERT(!a->waiting && !b->waiting && !a->victim && !b->victim);
	a->peer = b;
	b->peer = a;
}

void stet_lock_owner_part(struct stet_lock_owner *owner)
{
	if (!owner->peer)
		return;
	owner->peer->peer = NULL;
	owner->peer = NULL;
}

/* --- acquiring --- */

struct sole {
	const struct stet_lock_owner *owner;
	bool changes; /* some of its locks are not for reading */
};

static bool is_others(void *arg, struct lock_grant *g)
{
	struct sole *s = arg;

	s->changes = s->changes || (g->mode != STET_LOCK_S && g->mode != STET_LOCK_IS);
	return g->owner != s->owner;
}

/* K5. It is asked for once in so many locks, so looking at all of them costs each little. */
static int take_all(struct lock_head *head, struct stet_lock_owner *owner)
{
	struct lock_grant all = { .owner = owner, .mode = STET_LOCK_S, .whole = true };
	struct sole s = { .owner = owner };
	struct lock_grant *g;
	int rc;

	if (!stet_list_empty(&head->waits) || !stet_list_empty(&head->probes) ||
	    stet_lock_each_(head, &all, is_others, &s))
		return 0;
	all.mode = s.changes ? STET_LOCK_X : STET_LOCK_S;
	rc = stet_lock_copy_(&all, &g);
	if (!rc)
		stet_lock_add_(owner->locks, head, g);
	return rc;
}

static int acquire(struct lock_head *head, const struct lock_grant *want, bool wait,
		   struct stet_ticket *ticket, struct stet_lock_owner **ret_blocker)
{
	struct stet_lock_owner *owner = want->owner, *blocker;
	struct stet_locks *locks = owner->locks;
	struct lock_grant *g;
	bool upgrade = false;
	int rc;

	blocker = stet_lock_granted_blocker_(head, want);
	if (blocker || !stet_list_empty(&head->waits))
		upgrade = stet_lock_is_upgrade_(head, want);
	if (!blocker && !upgrade)
		blocker = stet_lock_queued_blocker_(head, &head->waits, want);
	if (blocker && ret_blocker)
		*ret_blocker = blocker;
	if (blocker && !wait)
		return -EBUSY;
	rc = want->whole ? 0 : need_ranges(locks, head);
	if (!rc)
		rc = stet_lock_copy_(want, &g);
	if (rc)
		return rc;
	if (blocker)
		return stet_lock_begin_wait_(locks, head, g, upgrade, ticket);
	stet_lock_add_(locks, head, g);
	if (!want->whole && head->ranges->spans.count % STET_LOCK_ALL_AT == 0)
		stet_ignore(take_all(head, owner), "without memory it goes on key by key (K5)");
	stet_lock_note_recheck_(locks, owner); /* it may be waiting elsewhere */
	stet_lock_settle_(locks);
	return owner->victim ? STET_FAIL(-EDEADLK, "lock: deadlock with another wait") : 0;
}

/* --- lone locks (I8) --- */

static int make_lone(struct stet_lock_owner *owner, const struct stet_lock_name *name)
{
	struct stet_locks *locks = owner->locks;
	int rc;

	if (owner->lone_count == owner->lone_cap) {
		size_t cap = owner->lone_cap ? 2 * owner->lone_cap : 16;
		uint64_t *lone = stet_realloc(owner->lone, cap * sizeof(*lone));

		if (!lone)
			return STET_FAIL(-ENOMEM, "no memory for %zu locks", cap);
		owner->lone = lone;
		owner->lone_cap = cap;
	}
	rc = stet_lone_add(&locks->lone, name_hash(locks, name), owner);
	if (rc)
		return rc;
	owner->lone[owner->lone_count++] = name_hash(locks, name);
	owner->held_count++;
	owner->held_bytes += LONE_BYTES;
	locks->lone_count++;
	return 0;
}

/* Gives a lone lock a head and a grant. */
static int make_real(struct stet_locks *locks, struct stet_lock_owner *owner,
		     const struct stet_lock_name *name)
{
	const struct lock_grant whole = { .owner = owner, .mode = STET_LOCK_X, .whole = true };
	bool counted = !stet_hash_find(&locks->heads, name_hash(locks, name));
	struct lock_head *head;
	struct lock_grant *g;
	int rc = stet_lock_copy_(&whole, &g);

	if (rc)
		return rc;
	rc = make_head(locks, name, &head);
	if (rc) {
		stet_lock_free_(g);
		return rc;
	}
	stet_lock_add_(locks, head, g);
	if (counted) {
		owner->held_count--;
		locks->lone_count--;
	}
	return 0;
}

/* A name without a head: 0 = held by the owner alone now, 1 = ask the heads. */
static int try_lone(const struct lock_grant *want, const struct stet_lock_name *name)
{
	struct stet_lock_owner *owner = want->owner;
	struct stet_locks *locks = owner->locks;
	uint64_t hash = name_hash(locks, name);
	struct stet_lock_owner *holder = stet_lone_find(&locks->lone, hash);
	int rc;

	if (holder == owner)
		return 0;
	if (holder) {
		rc = make_real(locks, holder, name);
		return rc ? rc : 1;
	}
	if (want->mode != STET_LOCK_X || !want->whole || stet_hash_find(&locks->heads, hash))
		return 1;
	return make_lone(owner, name);
}

static void release_lone(struct stet_lock_owner *owner)
{
	struct stet_locks *locks = owner->locks;

	for (size_t i = 0; i < owner->lone_count; i++)
		stet_lone_remove(&locks->lone, owner->lone[i]);
	STET_ASSERT_CMP(owner->held_bytes, ==, owner->lone_count * LONE_BYTES);
	locks->lone_count -= owner->held_count; /* what is left are the lone ones */
	owner->held_count = 0;
	owner->held_bytes = 0;
	stet_free(owner->lone);
	owner->lone = NULL;
	owner->lone_count = 0;
	owner->lone_cap = 0;
}

int stet_lock_acquire(struct stet_lock_owner *owner, const struct stet_lock_name *name,
		      enum stet_lock_mode mode, bool wait, struct stet_ticket *ticket,
		      struct stet_lock_owner **ret_blocker)
{
	struct stet_locks *locks = owner->locks;
	struct lock_head *head = find_head(locks, name);
	struct lock_request request;
	struct lock_grant *want = stet_lock_request_(&request, owner, name, mode);
	int rc;

	STET_ASSERT(!wait || ticket);
	if (head && stet_lock_covered_(head, want))
		return 0;
	if (owner->victim)
		return STET_FAIL(-EDEADLK, "lock: the owner has given up in a deadlock");
	if (!head) {
		rc = try_lone(want, name);
		if (rc <= 0)
			return rc;
		head = find_head(locks, name);
	}
	if (!head) {
		rc = make_head(locks, name, &head);
		if (rc)
			return rc;
	}
	rc = acquire(head, want, wait, ticket, ret_blocker);
	if (rc && rc != STET_WAIT) {
		/* The head may be gone already: it is looked up again rather than remembered. */
		head = find_head(locks, name);
		if (head)
			stet_lock_trim_(locks, head);
	}
	fire(locks);
	return rc;
}

/* Nobody tells of a ticket that was cancelled (I1). There are few probes: they are for work in the background. */
static void drop_cancelled(struct lock_head *head)
{
	struct stet_list *pos, *tmp;

	STET_LIST_FOREACH_SAFE(pos, tmp, &head->probes) {
		struct lock_probe *p = stet_container_of(pos, struct lock_probe, of_head);

		if (stet_ticket_queue_empty(&p->queue))
			stet_lock_end_probe_(p);
	}
}

static int queue_probe(const struct stet_locks *locks, struct lock_head *head,
		       const struct lock_grant *want, struct stet_ticket *ticket)
{
	struct lock_probe *p;
	int rc = want->whole ? 0 : need_ranges(locks, head);

	if (rc)
		return rc;
	drop_cancelled(head);
	p = stet_calloc(1, sizeof(*p));
	if (!p)
		return STET_FAIL(-ENOMEM, "no memory for a wait");
	rc = stet_lock_copy_(want, &p->want);
	if (rc) {
		stet_free(p);
		return rc;
	}
	stet_ticket_queue_init(&p->queue);
	stet_list_init(&p->of_head);
	stet_list_add_tail(&head->probes, &p->of_head);
	stet_ticket_enqueue(&p->queue, ticket);
	return STET_WAIT;
}

int stet_lock_probe(struct stet_locks *locks, struct stet_lock_owner *owner,
		    const struct stet_lock_name *name, enum stet_lock_mode mode, bool wait,
		    struct stet_ticket *ticket, struct stet_lock_owner **ret_blocker)
{
	struct lock_head *head = find_head(locks, name);
	struct lock_request request;
	struct lock_grant *want = stet_lock_request_(&request, owner, name, mode);
	struct stet_lock_owner *blocker;

	STET_ASSERT(!wait || (ticket && !owner));
	if (head && owner && stet_lock_covered_(head, want))
		return 0;
	if (!head) {
		struct stet_lock_owner *holder = stet_lone_find(&locks->lone,
								name_hash(locks, name));
		int rc = holder && holder != owner ? make_real(locks, holder, name) : 0;

		if (!holder || holder == owner || rc)
			return rc;
		head = find_head(locks, name);
	}
	blocker = stet_lock_granted_blocker_(head, want);
	if (!blocker)
		blocker = stet_lock_queued_blocker_(head, &head->waits, want);
	if (!blocker)
		return 0;
	if (ret_blocker)
		*ret_blocker = blocker;
	return wait ? queue_probe(locks, head, want, ticket) : -EBUSY;
}

/* --- letting go --- */

void stet_lock_cancel(struct stet_lock_owner *owner)
{
	stet_lock_give_up_(owner->locks, owner, NULL);
	stet_lock_settle_(owner->locks);
	fire(owner->locks);
}

static struct stet_lock_wait *find_wait(const struct stet_lock_owner *owner,
					const struct stet_ticket *ticket)
{
	struct stet_lock_wait *w = owner->waiting;

	while (w && w->ticket != ticket)
		w = w->next;
	return w;
}

void stet_lock_cancel_ticket(struct stet_lock_owner *owner, const struct stet_ticket *ticket)
{
	struct stet_lock_wait *w = find_wait(owner, ticket);

	if (!w)
		return;
	stet_lock_end_wait_(owner->locks, w, false, NULL);
	stet_lock_settle_(owner->locks);
	fire(owner->locks);
}

void stet_lock_release_all(struct stet_lock_owner *owner)
{
	struct stet_locks *locks = owner->locks;
	struct stet_list *pos;

	stet_lock_give_up_(locks, owner, NULL);
	while ((pos = stet_list_first(&owner->held)))
		stet_lock_drop_(locks, stet_container_of(pos, struct lock_grant, of_owner), true);
	release_lone(owner);
	owner->victim = false;
	stet_lock_settle_(locks);
	fire(locks);
}

/* --- looking --- */

bool stet_lock_held(const struct stet_lock_owner *owner, const struct stet_lock_name *name,
		    enum stet_lock_mode mode)
{
	struct lock_head *head = find_head(owner->locks, name);
	struct lock_request request;

	if (stet_lone_find(&owner->locks->lone, name_hash(owner->locks, name)) == owner)
		return true;
	return head && stet_lock_covered_(
			       head, stet_lock_request_(&request,
							(struct stet_lock_owner *)(uintptr_t)owner,
							name, mode));
}

bool stet_lock_waits(const struct stet_lock_owner *owner, const struct stet_ticket *ticket)
{
	return find_wait(owner, ticket) != NULL;
}

struct stet_lock_owner *stet_lock_waiting_for(const struct stet_lock_owner *owner)
{
	const struct stet_lock_wait *w = owner->waiting;
	struct stet_lock_owner *blocker;

	if (!w)
		return NULL;
	blocker = stet_lock_granted_blocker_(w->head, w->grant);
	return blocker ? blocker : stet_lock_queued_blocker_(w->head, &w->of_head, w->grant);
}

uint64_t stet_locks_count(const struct stet_locks *locks)
{
	return locks->grant_count + locks->lone_count;
}

uint64_t stet_lock_hash(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	uint64_t h = stet_mix64(len + 1);

	for (; len >= 8; p += 8, len -= 8)
		h = stet_mix64(h ^ stet_get_le64(p)) + UINT64_C(0x9e3779b97f4a7c15);
	for (; len > 0; p++, len--)
		h = stet_mix64(h ^ *p) + UINT64_C(0x9e3779b97f4a7c15);
	return h;
}

struct checking {
	const struct lock_head *head;
	uint64_t grants;
	uint32_t whole[STET_LOCK_MODES];
};

static void check_owner(const struct stet_lock_owner *owner)
{
	const struct stet_lock_owner *peer = owner->peer;

	STET_ASSERT(!owner->waiting || !owner->victim);
	STET_ASSERT(!stet_list_linked(&owner->recheck)); /* I4 */
	if (!peer)
		return;
	STET_ASSERT(peer->peer == owner && peer->age == owner->age); /* I9 */
	STET_ASSERT(peer->locks == owner->locks->other && peer->locks->other == owner->locks);
}

static void check_grant(struct checking *c, struct lock_grant *g)
{
	check_owner(g->owner);
	STET_ASSERT(g->head == c->head);
	STET_ASSERT(!stet_lock_granted_blocker_(c->head, g)); /* K1 */
	c->whole[g->mode] += g->whole;
	c->grants++;
}

static bool check_span(void *arg, struct stet_span *span)
{
	check_grant(arg, &stet_container_of(span, struct lock_ranged, span)->g);
	return false;
}

/* G1: the order of the list. */
static void check_wholes(struct checking *c)
{
	bool shared_seen = false;
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &c->head->wholes) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_head);

		check_grant(c, g);
		STET_ASSERT(g->mode == STET_LOCK_IS || !shared_seen);
		shared_seen = shared_seen || g->mode == STET_LOCK_IS;
	}
	for (int mode = 0; mode < STET_LOCK_MODES; mode++)
		STET_ASSERT_CMP(c->whole[mode], ==, c->head->whole_count[mode]);
}

static void check_ranges(struct checking *c)
{
	const struct lock_grant all = { .whole = true };
	struct stet_span_look look = { .from = &stet_lock_span_(&all)->from,
				       .to = &stet_lock_span_(&all)->to,
				       .left = SIZE_MAX };

	for (int group = 0; group < STET_SPAN_GROUPS; group++)
		look.whose[group] = STET_SPAN_OTHERS;
	stet_spans_check(&c->head->ranges->spans);
	stet_spans_find(&c->head->ranges->spans, &look, check_span, c);
}

/* Adds to *wholes how many grants of it all there are; returns how many of all kinds. */
static uint64_t check_head(struct lock_head *head, uint64_t *wholes)
{
	struct checking c = { .head = head };
	struct stet_list *pos;
	bool plain_seen = false;

	STET_ASSERT(!stet_list_linked(&head->changed)); /* I3 */
	check_wholes(&c);
	*wholes += c.grants;
	if (head->ranges)
		check_ranges(&c);
	STET_ASSERT(c.grants > 0 || !stet_list_empty(&head->waits)); /* I1 */
	STET_LIST_FOREACH(pos, &head->waits) {
		struct stet_lock_wait *w = stet_container_of(pos, struct stet_lock_wait, of_head);

		check_owner(w->grant->owner);
		STET_ASSERT(!w->upgrade || !plain_seen); /* I2 */
		plain_seen = plain_seen || !w->upgrade;
		STET_ASSERT(
			stet_lock_granted_blocker_(head, w->grant) ||
			(!w->upgrade && stet_lock_queued_blocker_(head, pos, w->grant))); /* I3 */
	}
	STET_LIST_FOREACH(pos, &head->probes) {
		struct lock_probe *p = stet_container_of(pos, struct lock_probe, of_head);

		STET_ASSERT(stet_lock_granted_blocker_(head, p->want) || /* I1 */
			    stet_lock_queued_blocker_(head, &head->waits, p->want));
	}
	return c.grants;
}

void stet_locks_check(struct stet_locks *locks)
{
	struct stet_hash_node *node;
	uint64_t grants = 0, wholes = 0;

	for (node = stet_hash_first(&locks->heads); node;
	     node = stet_hash_next(&locks->heads, node))
		grants += check_head(stet_container_of(node, struct lock_head, node), &wholes);
	STET_ASSERT_CMP(grants, ==, locks->grant_count);
	STET_ASSERT_CMP(wholes, ==, stet_hash_count(&locks->wholes));
	STET_ASSERT(stet_list_empty(&locks->changed) && stet_list_empty(&locks->recheck));
}
