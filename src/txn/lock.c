/* lock.c - the lock manager. The contract (K1-K4) is in lock.h.
 *
 * Each locked name has a head in a hash table, with its grants (any order) and its waits (a queue).
 *
 * I1. A head exists while it has a grant or a wait. Probes wait on a head only while something is
 *     in their way, and are all told whenever a grant or a wait goes: none is ever left behind.
 * I2. Waits of owners that held the name when they asked (upgrades) stand before all others, and
 *     look at grants only; the others also wait for the conflicting waits before them (K2).
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
 *     release.
 */
#include "txn/lock.h"

#include "base/assert.h"
#include "base/endian.h"
#include "base/hash.h"
#include "base/mem.h"
#include "txn/lone.h"

#define FIRST_TABLE_LOG2 6
#define BIT(mode) (1u << (mode))

struct lock_head {
	struct stet_hash_node node;
	uint64_t object;
	uint64_t sub;
	enum stet_lock_class class;
	struct stet_list grants; /* of lock_grant.of_head */
	struct stet_list waits;  /* of stet_lock_wait.of_head; upgrades first (I2) */
	struct stet_ticket_queue probes;
	struct stet_list changed; /* on stet_locks.changed: something has gone */
};

struct lock_grant {
	struct stet_list of_head;
	struct stet_list of_owner;
	struct stet_lock_owner *owner;
	struct lock_head *head;
	uint64_t from, to;
	enum stet_lock_mode mode;
};

struct stet_lock_wait {
	struct stet_list of_head;
	struct stet_lock_wait *next; /* of the same owner */
	struct lock_head *head;
	struct lock_grant *grant;       /* owned: what it becomes (I5) */
	struct stet_ticket_queue queue; /* holds the caller's ticket, unless that was cancelled */
	struct stet_ticket *ticket;     /* only compared */
	bool upgrade;
	bool *ret_granted; /* set while acquire itself looks on: told here instead of by ticket */
};

struct stet_locks {
	struct stet_hash heads;
	struct stet_lone lone; /* I8 */
	uint64_t lone_count;   /* of them, those without a head */
	uint64_t grant_count;
	uint64_t search_mark;
	struct stet_list changed; /* heads to be worked off (I3) */
	struct stet_list recheck; /* owners from which to search for a cycle (I4) */
	struct stet_ticket_queue granted, victims, probes; /* to be fired (I7) */
};

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
				BIT(STET_LOCK_SIX) | BIT(STET_LOCK_X),
	};

	return covers[a] & BIT(b);
}

/* --- heads --- */

static uint64_t name_hash(const struct stet_lock_name *name)
{
	return stet_mix64(stet_mix64(name->object << 3 | (uint64_t)name->class) ^ name->sub);
}

static struct lock_head *find_head(struct stet_locks *locks, const struct stet_lock_name *name)
{
	struct stet_hash_node *node = stet_hash_find(&locks->heads, name_hash(name));

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
		return -ENOMEM;
	head->object = name->object;
	head->sub = name->sub;
	head->class = name->class;
	stet_list_init(&head->grants);
	stet_list_init(&head->waits);
	stet_list_init(&head->changed);
	stet_ticket_queue_init(&head->probes);
	rc = stet_hash_insert(&locks->heads, name_hash(name), &head->node);
	if (rc) {
		stet_free(head);
		return rc;
	}
	*ret = head;
	return 0;
}

/* Frees the head if nothing keeps it (I1). */
static void trim_head(struct stet_locks *locks, struct lock_head *head)
{
	if (!stet_list_empty(&head->grants) || !stet_list_empty(&head->waits))
		return;
	stet_list_splice_tail(&locks->probes.list, &head->probes.list);
	stet_list_del(&head->changed);
	stet_hash_remove(&locks->heads, &head->node);
	stet_free(head);
}

static void note_changed(struct stet_locks *locks, struct lock_head *head)
{
	if (!stet_list_linked(&head->changed))
		stet_list_add_tail(&locks->changed, &head->changed);
}

static void note_recheck(struct stet_locks *locks, struct stet_lock_owner *owner)
{
	if (owner->waiting && !stet_list_linked(&owner->recheck))
		stet_list_add_tail(&locks->recheck, &owner->recheck);
}

/* --- conflicts --- */

static bool in_the_way(const struct lock_grant *other, const struct stet_lock_owner *owner,
		       uint64_t from, uint64_t to, enum stet_lock_mode mode)
{
	return other->owner != owner && other->from < to && from < other->to &&
	       !compatible(other->mode, mode);
}

static struct stet_lock_owner *granted_blocker(const struct lock_head *head,
					       const struct lock_grant *want)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &head->grants) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_head);

		if (in_the_way(g, want->owner, want->from, want->to, want->mode))
			return g->owner;
	}
	return NULL;
}

/* The owner of a conflicting wait before `end` (a member of the queue, or its head: all of it). */
static struct stet_lock_owner *queued_blocker(const struct lock_head *head,
					      const struct stet_list *end,
					      const struct lock_grant *want)
{
	for (struct stet_list *pos = head->waits.next; pos != end; pos = pos->next) {
		struct stet_lock_wait *w = stet_container_of(pos, struct stet_lock_wait, of_head);

		if (in_the_way(w->grant, want->owner, want->from, want->to, want->mode))
			return w->grant->owner;
	}
	return NULL;
}

static bool holds_name(const struct lock_head *head, const struct stet_lock_owner *owner)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &head->grants) {
		if (stet_container_of(pos, struct lock_grant, of_head)->owner == owner)
			return true;
	}
	return false;
}

/* Whether the owner's grants, taken together, cover [from, to) in a mode at least as strong. Each
 * round moves forward, so there are at most as many as there are grants. */
static bool covered(const struct lock_head *head, const struct stet_lock_owner *owner,
		    uint64_t from, uint64_t to, enum stet_lock_mode mode)
{
	bool moved = true;

	while (from < to && moved) {
		struct stet_list *pos;

		moved = false;
		STET_LIST_FOREACH(pos, &head->grants) {
			struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_head);

			if (g->owner == owner && as_strong(g->mode, mode) && g->from <= from &&
			    g->to > from) {
				from = g->to;
				moved = true;
			}
		}
	}
	return from >= to;
}

/* --- granting --- */

static void drop_grant(struct stet_locks *locks, struct lock_grant *g)
{
	stet_list_del(&g->of_head);
	stet_list_del(&g->of_owner);
	g->owner->held_count--;
	locks->grant_count--;
	stet_free(g);
}

/* Takes over g. What the owner holds there and g makes needless or continues goes into g (I6). */
static void add_grant(struct stet_locks *locks, struct lock_head *head, struct lock_grant *g)
{
	struct stet_list *pos, *tmp;
	bool grew = true;

	while (grew) {
		grew = false;
		STET_LIST_FOREACH_SAFE(pos, tmp, &head->grants) {
			struct lock_grant *old = stet_container_of(pos, struct lock_grant, of_head);
			bool inside = g->from <= old->from && old->to <= g->to;
			bool touching = old->from <= g->to && g->from <= old->to;

			if (old->owner != g->owner || !touching)
				continue;
			if (old->mode == g->mode) {
				g->from = old->from < g->from ? old->from : g->from;
				g->to = old->to > g->to ? old->to : g->to;
				grew = true;
			} else if (!inside || !as_strong(g->mode, old->mode)) {
				continue;
			}
			drop_grant(locks, old);
		}
	}
	g->head = head;
	stet_list_add_tail(&head->grants, &g->of_head);
	stet_list_add_tail(&g->owner->held, &g->of_owner);
	g->owner->held_count++;
	locks->grant_count++;
}

/* Takes the wait out of queue and chain; its memory stays. */
static void unlink_wait(struct stet_lock_wait *w)
{
	struct stet_lock_wait **link = &w->grant->owner->waiting;

	stet_list_del(&w->of_head);
	while (*link != w)
		link = &(*link)->next; /* bounded: it is on the chain */
	*link = w->next;
}

/* Ends a wait: granted, or given up (its ticket is told through `fire`, NULL: not at all). */
static void end_wait(struct stet_locks *locks, struct stet_lock_wait *w, bool granted,
		     struct stet_ticket_queue *fire)
{
	unlink_wait(w);
	if (fire)
		stet_list_splice_tail(&fire->list, &w->queue.list);
	else
		stet_list_del(&w->queue.list);
	if (w->ret_granted)
		*w->ret_granted = granted;
	if (granted) {
		note_recheck(locks, w->grant->owner);
		add_grant(locks, w->head, w->grant);
	} else {
		stet_free(w->grant);
	}
	stet_free(w);
}

/* Grants what can be granted, in the order of the queue (I3). */
static void work_queue(struct stet_locks *locks, struct lock_head *head)
{
	struct stet_list *pos, *tmp;

	STET_LIST_FOREACH_SAFE(pos, tmp, &head->waits) {
		struct stet_lock_wait *w = stet_container_of(pos, struct stet_lock_wait, of_head);

		if (granted_blocker(head, w->grant))
			continue;
		if (!w->upgrade && queued_blocker(head, pos, w->grant))
			continue;
		end_wait(locks, w, true, &locks->granted);
	}
	stet_list_splice_tail(&locks->probes.list, &head->probes.list);
}

static void fire(struct stet_locks *locks)
{
	stet_ticket_fire_all(&locks->victims, -EDEADLK);
	stet_ticket_fire_all(&locks->granted, 0);
	stet_ticket_fire_all(&locks->probes, 0);
}

/* --- deadlocks --- */

struct search {
	struct stet_lock_owner *start;
	struct stet_lock_owner *todo; /* found, not looked at yet; by search_next */
	struct stet_lock_owner *last; /* waits for start: the end of the cycle */
	uint64_t mark;
};

static void search_edge(struct search *s, struct stet_lock_owner *from, struct stet_lock_owner *to)
{
	if (to == s->start) {
		s->last = from;
	} else if (to->waiting && to->search_mark != s->mark) {
		to->search_mark = s->mark;
		to->search_parent = from;
		to->search_next = s->todo;
		s->todo = to;
	}
}

/* All that the wait waits for: exactly what work_queue looks at (I2). */
static void search_wait(struct search *s, struct stet_lock_wait *w)
{
	const struct lock_grant *want = w->grant;
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &w->head->grants) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_head);

		if (in_the_way(g, want->owner, want->from, want->to, want->mode))
			search_edge(s, want->owner, g->owner);
	}
	if (w->upgrade)
		return;
	for (pos = w->head->waits.next; pos != &w->of_head; pos = pos->next) {
		struct lock_grant *g =
			stet_container_of(pos, struct stet_lock_wait, of_head)->grant;

		if (in_the_way(g, want->owner, want->from, want->to, want->mode))
			search_edge(s, want->owner, g->owner);
	}
}

/* The youngest owner of a cycle through `start`, or NULL. */
static struct stet_lock_owner *find_victim(struct stet_locks *locks, struct stet_lock_owner *start)
{
	struct search s = { .start = start, .todo = start, .mark = ++locks->search_mark };
	struct stet_lock_owner *victim = start;

	start->search_next = NULL;
	while (s.todo && !s.last) {
		struct stet_lock_owner *owner = s.todo;

		s.todo = owner->search_next;
		for (struct stet_lock_wait *w = owner->waiting; w && !s.last; w = w->next)
			search_wait(&s, w);
	}
	if (!s.last)
		return NULL;
	for (struct stet_lock_owner *o = s.last; o != start; o = o->search_parent) {
		if (o->age > victim->age)
			victim = o;
	}
	return victim;
}

static void give_up(struct stet_locks *locks, struct stet_lock_owner *owner,
		    struct stet_ticket_queue *tell)
{
	while (owner->waiting) {
		note_changed(locks, owner->waiting->head);
		end_wait(locks, owner->waiting, false, tell);
	}
	stet_list_del(&owner->recheck);
}

/* Restores I3 and I4. It ends: each round works off one head, or looks at one owner; new rounds
 * come only from a wait that ended. */
static void settle(struct stet_locks *locks)
{
	struct stet_list *pos;

	for (;;) {
		if ((pos = stet_list_first(&locks->changed))) {
			struct lock_head *head = stet_container_of(pos, struct lock_head, changed);

			stet_list_del(&head->changed);
			work_queue(locks, head);
			trim_head(locks, head);
		} else if ((pos = stet_list_first(&locks->recheck))) {
			struct stet_lock_owner *owner =
				stet_container_of(pos, struct stet_lock_owner, recheck);
			struct stet_lock_owner *victim = find_victim(locks, owner);

			if (!victim) {
				stet_list_del(&owner->recheck);
				continue;
			}
			victim->victim = true;
			give_up(locks, victim, &locks->victims);
		} else {
			return;
		}
	}
}

/* --- the manager --- */

int stet_locks_create(struct stet_locks **ret)
{
	struct stet_locks *locks = stet_calloc(1, sizeof(*locks));

	if (!locks)
		return -ENOMEM;
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
	stet_hash_release(&locks->heads);
	stet_lone_release(&locks->lone);
	stet_free(locks);
}

void stet_lock_owner_init(struct stet_lock_owner *owner, struct stet_locks *locks, uint64_t age)
{
	*owner = (struct stet_lock_owner){ .locks = locks, .age = age };
	stet_list_init(&owner->held);
	stet_list_init(&owner->recheck);
}

/* --- acquiring --- */

/* Queues the wait behind all others, an upgrade before the first that is none (I2). */
static void enqueue(struct lock_head *head, struct stet_lock_wait *w)
{
	struct stet_list *pos = &head->waits;

	if (w->upgrade) {
		pos = head->waits.next;
		while (pos != &head->waits &&
		       stet_container_of(pos, struct stet_lock_wait, of_head)->upgrade)
			pos = pos->next;
	}
	stet_list_add_before(pos, &w->of_head);
	w->next = w->grant->owner->waiting;
	w->grant->owner->waiting = w;
}

/* Takes over `want`. STET_WAIT, or 0 or -EDEADLK when breaking a deadlock decided it at once. */
static int begin_wait(struct stet_locks *locks, struct lock_head *head, struct lock_grant *want,
		      bool upgrade, struct stet_ticket *ticket)
{
	struct stet_lock_wait *w = stet_calloc(1, sizeof(*w));
	struct stet_lock_owner *owner = want->owner;
	bool granted = false;
	int rc = STET_WAIT;

	if (!w) {
		stet_free(want);
		return -ENOMEM;
	}
	*w = (struct stet_lock_wait){ .head = head,
				      .grant = want,
				      .ticket = ticket,
				      .upgrade = upgrade,
				      .ret_granted = &granted };
	stet_ticket_queue_init(&w->queue);
	enqueue(head, w);
	note_recheck(locks, owner);
	settle(locks);
	if (owner->victim) {
		rc = STET_FAIL(-EDEADLK, "lock: deadlock, the youngest of the cycle gives up");
	} else if (granted) {
		rc = 0;
	} else {
		w->ret_granted = NULL;
		stet_ticket_enqueue(&w->queue, ticket);
	}
	return rc;
}

static int new_grant(struct stet_lock_owner *owner, const struct stet_lock_name *name,
		     enum stet_lock_mode mode, struct lock_grant **ret)
{
	struct lock_grant *g = stet_calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->owner = owner;
	g->from = name->from;
	g->to = name->to;
	g->mode = mode;
	stet_list_init(&g->of_head);
	stet_list_init(&g->of_owner);
	*ret = g;
	return 0;
}

static int acquire(struct stet_lock_owner *owner, struct lock_head *head,
		   const struct stet_lock_name *name, enum stet_lock_mode mode, bool wait,
		   struct stet_ticket *ticket, struct stet_lock_owner **ret_blocker)
{
	struct stet_locks *locks = owner->locks;
	bool upgrade = holds_name(head, owner);
	struct stet_lock_owner *blocker;
	struct lock_grant *want;
	int rc = new_grant(owner, name, mode, &want);

	if (rc)
		return rc;
	blocker = granted_blocker(head, want);
	if (!blocker && !upgrade)
		blocker = queued_blocker(head, &head->waits, want);
	if (!blocker) {
		add_grant(locks, head, want);
		note_recheck(locks, owner); /* it may be waiting elsewhere */
		settle(locks);
		return owner->victim ? -EDEADLK : 0;
	}
	if (ret_blocker)
		*ret_blocker = blocker;
	if (!wait) {
		stet_free(want);
		return -EBUSY;
	}
	return begin_wait(locks, head, want, upgrade, ticket);
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
	rc = stet_lone_add(&locks->lone, name_hash(name), owner);
	if (rc)
		return rc;
	owner->lone[owner->lone_count++] = name_hash(name);
	owner->held_count++;
	locks->lone_count++;
	return 0;
}

/* Gives a lone lock a head and a grant. */
static int make_real(struct stet_locks *locks, struct stet_lock_owner *owner,
		     const struct stet_lock_name *name)
{
	const struct stet_lock_name whole = { .from = 0, .to = UINT64_MAX };
	struct lock_head *head;
	struct lock_grant *g;
	int rc = new_grant(owner, &whole, STET_LOCK_X, &g);

	if (rc)
		return rc;
	rc = make_head(locks, name, &head);
	if (rc) {
		stet_free(g);
		return rc;
	}
	add_grant(locks, head, g);
	owner->held_count--; /* counted as a lone one before */
	locks->lone_count--;
	return 0;
}

/* A name without a head: 0 = held by the owner alone now, 1 = ask the heads. */
static int try_lone(struct stet_lock_owner *owner, const struct stet_lock_name *name,
		    enum stet_lock_mode mode)
{
	struct stet_locks *locks = owner->locks;
	struct stet_lock_owner *holder = stet_lone_find(&locks->lone, name_hash(name));
	int rc;

	if (holder == owner)
		return 0;
	if (holder) {
		rc = make_real(locks, holder, name);
		return rc ? rc : 1;
	}
	if (mode != STET_LOCK_X || name->from != 0 || name->to != UINT64_MAX)
		return 1;
	return make_lone(owner, name);
}

static void release_lone(struct stet_lock_owner *owner)
{
	struct stet_locks *locks = owner->locks;

	for (size_t i = 0; i < owner->lone_count; i++)
		stet_lone_remove(&locks->lone, owner->lone[i]);
	locks->lone_count -= owner->held_count; /* what is left are the lone ones */
	owner->held_count = 0;
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
	int rc;

	STET_ASSERT_CMP(name->from, <, name->to);
	STET_ASSERT(!wait || ticket);
	if (head && covered(head, owner, name->from, name->to, mode))
		return 0;
	if (owner->victim)
		return STET_FAIL(-EDEADLK, "lock: the owner has given up in a deadlock");
	if (!head) {
		rc = try_lone(owner, name, mode);
		if (rc <= 0)
			return rc;
		head = find_head(locks, name);
	}
	if (!head) {
		rc = make_head(locks, name, &head);
		if (rc)
			return rc;
	}
	rc = acquire(owner, head, name, mode, wait, ticket, ret_blocker);
	/* The head may be gone already: it is looked up again rather than remembered. */
	head = find_head(locks, name);
	if (head)
		trim_head(locks, head);
	fire(locks);
	return rc;
}

int stet_lock_probe(struct stet_locks *locks, const struct stet_lock_name *name,
		    enum stet_lock_mode mode, bool wait, struct stet_ticket *ticket,
		    struct stet_lock_owner **ret_blocker)
{
	const struct lock_grant want = { .from = name->from, .to = name->to, .mode = mode };
	struct lock_head *head = find_head(locks, name);
	struct stet_lock_owner *blocker;

	STET_ASSERT_CMP(name->from, <, name->to);
	STET_ASSERT(!wait || ticket);
	if (!head) {
		struct stet_lock_owner *holder = stet_lone_find(&locks->lone, name_hash(name));
		int rc = holder ? make_real(locks, holder, name) : 0;

		if (!holder || rc)
			return rc;
		head = find_head(locks, name);
	}
	blocker = granted_blocker(head, &want);
	if (!blocker)
		blocker = queued_blocker(head, &head->waits, &want);
	if (!blocker)
		return 0;
	if (ret_blocker)
		*ret_blocker = blocker;
	if (!wait)
		return -EBUSY;
	stet_ticket_enqueue(&head->probes, ticket);
	return STET_WAIT;
}

/* --- letting go --- */

void stet_lock_cancel(struct stet_lock_owner *owner)
{
	give_up(owner->locks, owner, NULL);
	settle(owner->locks);
	fire(owner->locks);
}

void stet_lock_cancel_ticket(struct stet_lock_owner *owner, const struct stet_ticket *ticket)
{
	struct stet_lock_wait *w = owner->waiting;

	while (w && w->ticket != ticket)
		w = w->next;
	if (!w)
		return;
	note_changed(owner->locks, w->head);
	end_wait(owner->locks, w, false, NULL);
	settle(owner->locks);
	fire(owner->locks);
}

void stet_lock_release_all(struct stet_lock_owner *owner)
{
	struct stet_locks *locks = owner->locks;
	struct stet_list *pos;

	give_up(locks, owner, NULL);
	while ((pos = stet_list_first(&owner->held))) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_owner);

		note_changed(locks, g->head);
		drop_grant(locks, g);
	}
	release_lone(owner);
	owner->victim = false;
	settle(locks);
	fire(locks);
}

/* --- looking --- */

bool stet_lock_held(const struct stet_lock_owner *owner, const struct stet_lock_name *name,
		    enum stet_lock_mode mode)
{
	struct lock_head *head = find_head(owner->locks, name);

	if (stet_lone_find(&owner->locks->lone, name_hash(name)) == owner)
		return true;
	return head && covered(head, owner, name->from, name->to, mode);
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

static uint64_t check_head(struct lock_head *head)
{
	struct stet_list *pos;
	bool plain_seen = false;
	uint64_t grants = 0;

	STET_ASSERT(!stet_list_empty(&head->grants) || !stet_list_empty(&head->waits)); /* I1 */
	STET_ASSERT(!stet_list_linked(&head->changed));                                 /* I3 */
	STET_LIST_FOREACH(pos, &head->grants) {
		struct lock_grant *g = stet_container_of(pos, struct lock_grant, of_head);

		STET_ASSERT(g->head == head);
		STET_ASSERT(!granted_blocker(head, g)); /* K1 */
		grants++;
	}
	STET_LIST_FOREACH(pos, &head->waits) {
		struct stet_lock_wait *w = stet_container_of(pos, struct stet_lock_wait, of_head);

		STET_ASSERT(!w->upgrade || !plain_seen); /* I2 */
		plain_seen = plain_seen || !w->upgrade;
		STET_ASSERT(granted_blocker(head, w->grant) ||
			    (!w->upgrade && queued_blocker(head, pos, w->grant))); /* I3 */
	}
	return grants;
}

void stet_locks_check(struct stet_locks *locks)
{
	struct stet_hash_node *node;
	uint64_t grants = 0;

	for (node = stet_hash_first(&locks->heads); node;
	     node = stet_hash_next(&locks->heads, node))
		grants += check_head(stet_container_of(node, struct lock_head, node));
	STET_ASSERT_CMP(grants, ==, locks->grant_count);
	STET_ASSERT(stet_list_empty(&locks->changed) && stet_list_empty(&locks->recheck));
}
