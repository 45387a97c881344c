/* lock_wait.c - queues of those who wait for locks, and deadlocks among them. See lock.c.
 *
 * W1. What has gone from a head since its queue was worked off is remembered as one range. A wait that does
 *     not meet it was blocked by something else, which is still there: it is passed over. And once one
 *     that takes all of that range for itself must go on waiting, so must those behind it. So many who
 *     wait for many things of one name, or for one thing, cost little each time something goes.
 * W2. In the search of the graph a wait that takes at least as much for itself, and looks at those
 *     before it, stands for all of them: who is in its own way is in its way, too.
 */
#include "txn/lock_internal.h"

#include "base/assert.h"
#include "base/mem.h"

/* I9 */
static bool node_waits(const struct stet_lock_owner *owner)
{
	return owner->waiting || (owner->peer && owner->peer->waiting);
}

void stet_lock_note_recheck_(struct stet_locks *locks, struct stet_lock_owner *owner)
{
	if (node_waits(owner) && !stet_list_linked(&owner->recheck))
		stet_list_add_tail(&locks->recheck, &owner->recheck);
}

/* --- waits --- */

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

int stet_lock_begin_wait_(struct stet_locks *locks, struct lock_head *head, struct lock_grant *want,
			  bool upgrade, struct stet_ticket *ticket)
{
	struct stet_lock_wait *w = stet_calloc(1, sizeof(*w));
	struct stet_lock_owner *owner = want->owner;
	bool granted = false;
	int rc = STET_WAIT;

	if (!w) {
		stet_lock_free_(want);
		return STET_FAIL(-ENOMEM, "no memory for a lock");
	}
	*w = (struct stet_lock_wait){ .head = head,
				      .grant = want,
				      .ticket = ticket,
				      .upgrade = upgrade,
				      .ret_granted = &granted };
	stet_ticket_queue_init(&w->queue);
	enqueue(head, w);
	stet_lock_note_recheck_(locks, owner);
	stet_lock_settle_(locks);
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

/* Takes the wait out of queue and chain; its memory stays. */
static void unlink_wait(struct stet_lock_wait *w)
{
	struct stet_lock_wait **link = &w->grant->owner->waiting;

	stet_list_del(&w->of_head);
	while (*link != w)
		link = &(*link)->next; /* bounded: it is on the chain */
	*link = w->next;
}

void stet_lock_end_wait_(struct stet_locks *locks, struct stet_lock_wait *w, bool granted,
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
		stet_lock_note_recheck_(locks, w->grant->owner);
		stet_lock_add_(locks, w->head, w->grant);
	} else {
		stet_lock_gone_(locks, w->head, w->grant);
		stet_lock_free_(w->grant);
	}
	stet_free(w);
}

void stet_lock_give_up_(struct stet_locks *locks, struct stet_lock_owner *owner,
			struct stet_ticket_queue *tell)
{
	while (owner->waiting)
		stet_lock_end_wait_(locks, owner->waiting, false, tell);
	stet_list_del(&owner->recheck);
}

/* --- working a queue off --- */

/* What has gone; all of the head if it has no ranges. */
struct gone {
	struct stet_span span;
	bool any, all;
};

static void take_gone(struct lock_head *head, struct gone *ret)
{
	struct lock_ranges *ranges = head->ranges;

	*ret = (struct gone){ .all = !ranges || ranges->all_gone };
	if (!ranges)
		return;
	ret->any = ranges->any_gone;
	ret->span.point = ranges->gone.point;
	stet_bound_move(&ret->span.from, &ranges->gone.from);
	stet_bound_move(&ret->span.to, &ranges->gone.to);
	ranges->any_gone = ranges->all_gone = false;
}

static bool meets(const struct gone *gone, const struct lock_grant *want)
{
	return gone->all || (gone->any && (want->whole ||
					   stet_spans_overlap(&gone->span, stet_lock_span_(want))));
}

/* Whether nobody else can get anything of what has gone before this one (W1). */
static bool takes_all(const struct gone *gone, const struct stet_lock_wait *w)
{
	const struct stet_span *span = stet_lock_span_(w->grant);

	if (w->upgrade || w->grant->mode != STET_LOCK_X || w->next || w->grant->owner->waiting != w)
		return false;
	return w->grant->whole ||
	       (!gone->all && stet_bound_cmp(&span->from, &gone->span.from) <= 0 &&
		stet_bound_cmp(&gone->span.to, &span->to) <= 0);
}

void stet_lock_end_probe_(struct lock_probe *p)
{
	stet_list_del(&p->of_head);
	stet_lock_free_(p->want);
	stet_free(p);
}

static void work_probes(struct stet_locks *locks, struct lock_head *head, const struct gone *gone)
{
	struct stet_list *pos, *tmp;

	STET_LIST_FOREACH_SAFE(pos, tmp, &head->probes) {
		struct lock_probe *p = stet_container_of(pos, struct lock_probe, of_head);

		if (!stet_ticket_queue_empty(&p->queue) &&
		    (!meets(gone, p->want) || stet_lock_granted_blocker_(head, p->want) ||
		     stet_lock_queued_blocker_(head, &head->waits, p->want)))
			continue;
		stet_list_splice_tail(&locks->probes.list, &p->queue.list);
		stet_lock_end_probe_(p);
	}
}

/* Grants what can be granted, in the order of the queue (I3). */
static void work_queue(struct stet_locks *locks, struct lock_head *head)
{
	struct stet_list *pos, *tmp;
	struct gone gone;

	take_gone(head, &gone);
	STET_LIST_FOREACH_SAFE(pos, tmp, &head->waits) {
		struct stet_lock_wait *w = stet_container_of(pos, struct stet_lock_wait, of_head);

		if (!meets(&gone, w->grant))
			continue;
		if (!stet_lock_granted_blocker_(head, w->grant) &&
		    (w->upgrade || !stet_lock_queued_blocker_(head, pos, w->grant)))
			stet_lock_end_wait_(locks, w, true, &locks->granted);
		else if (takes_all(&gone, w))
			break;
	}
	work_probes(locks, head, &gone);
	stet_bound_release(&gone.span.from);
	stet_bound_release(&gone.span.to);
}

void stet_lock_trim_(struct stet_locks *locks, struct lock_head *head)
{
	if (!stet_list_empty(&head->wholes) || !stet_list_empty(&head->waits) ||
	    (head->ranges && head->ranges->spans.root))
		return;
	STET_ASSERT(stet_list_empty(&head->probes)); /* I1 */
	if (head->ranges) {
		stet_bound_release(&head->ranges->gone.from);
		stet_bound_release(&head->ranges->gone.to);
		stet_free(head->ranges);
	}
	stet_list_del(&head->changed);
	stet_hash_remove(&locks->heads, &head->node);
	stet_free(head);
}

/* --- deadlocks --- */

/* Owners are those that stand for their pair, if they have a peer (I9). */
struct search {
	struct stet_lock_owner *start;
	struct stet_lock_owner *todo; /* found, not looked at yet; by search_next */
	struct stet_lock_owner *last; /* waits for start: the end of the cycle */
	uint64_t mark;
};

static void search_edge(struct search *s, struct stet_lock_owner *from, struct stet_lock_owner *to)
{
	from = stet_lock_node_(from);
	to = stet_lock_node_(to);
	if (to == s->start) {
		s->last = from;
	} else if (node_waits(to) && to->search_mark != s->mark) {
		to->search_mark = s->mark;
		to->search_parent = from;
		to->search_next = s->todo;
		s->todo = to;
	}
}

struct edges {
	struct search *s;
	struct stet_lock_owner *from;
};

static bool grant_edge(void *arg, struct lock_grant *g)
{
	const struct edges *e = arg;

	search_edge(e->s, e->from, g->owner);
	return e->s->last != NULL;
}

/* W2 */
static bool stands_for_all(const struct stet_lock_wait *w, const struct lock_grant *want)
{
	const struct stet_span *by = stet_lock_span_(w->grant), *span = stet_lock_span_(want);

	if (w->upgrade || w->grant->mode != STET_LOCK_X)
		return false;
	return w->grant->whole || (!want->whole && stet_bound_cmp(&by->from, &span->from) <= 0 &&
				   stet_bound_cmp(&span->to, &by->to) <= 0);
}

/* All that the wait waits for: what work_queue looks at (I2). */
static void search_wait(struct search *s, struct stet_lock_wait *w)
{
	const struct lock_grant *want = w->grant;
	struct edges e = { s, want->owner };

	stet_lock_each_blocker_(w->head, want, grant_edge, &e);
	if (w->upgrade)
		return;
	for (struct stet_list *pos = w->of_head.prev; pos != &w->head->waits && !s->last;
	     pos = pos->prev) {
		struct stet_lock_wait *before = stet_container_of(pos, struct stet_lock_wait,
								  of_head);

		if (!stet_lock_in_the_way_(before->grant, want))
			continue;
		search_edge(s, want->owner, before->grant->owner);
		if (stands_for_all(before, want))
			return;
	}
}

static void search_owner(struct search *s, const struct stet_lock_owner *owner)
{
	for (struct stet_lock_wait *w = owner->waiting; w && !s->last; w = w->next)
		search_wait(s, w);
}

static uint64_t next_mark(struct stet_locks *locks)
{
	struct stet_locks *other = locks->other;

	locks->search_mark++;
	if (other && other->search_mark >= locks->search_mark)
		locks->search_mark = other->search_mark + 1;
	return locks->search_mark;
}

/* The youngest owner of a cycle through `start`, or NULL. */
static struct stet_lock_owner *find_victim(struct stet_locks *locks, struct stet_lock_owner *start)
{
	struct search s = { .mark = next_mark(locks) };
	struct stet_lock_owner *victim;

	start = stet_lock_node_(start);
	s.start = s.todo = victim = start;
	start->search_next = NULL;
	while (s.todo && !s.last) {
		struct stet_lock_owner *owner = s.todo;

		s.todo = owner->search_next;
		search_owner(&s, owner);
		if (owner->peer)
			search_owner(&s, owner->peer);
	}
	if (!s.last)
		return NULL;
	for (struct stet_lock_owner *o = s.last; o != start; o = o->search_parent) {
		if (o->age > victim->age)
			victim = o;
	}
	return victim;
}

static void make_victim(struct stet_lock_owner *owner)
{
	struct stet_locks *locks = owner->locks;
	struct stet_locks *first = locks->second && locks->other ? locks->other : locks;

	owner->victim = true;
	stet_lock_give_up_(locks, owner, &first->victims); /* in the order of all victims */
}

static bool work_one(struct stet_locks *locks)
{
	struct stet_list *pos = stet_list_first(&locks->changed);
	struct lock_head *head;

	if (!pos)
		return false;
	head = stet_container_of(pos, struct lock_head, changed);
	stet_list_del(&head->changed);
	work_queue(locks, head);
	stet_lock_trim_(locks, head);
	return true;
}

static bool search_one(struct stet_locks *locks)
{
	struct stet_list *pos = stet_list_first(&locks->recheck);
	struct stet_lock_owner *owner, *victim;

	if (!pos)
		return false;
	owner = stet_container_of(pos, struct stet_lock_owner, recheck);
	victim = find_victim(locks, owner);
	if (!victim) {
		stet_list_del(&owner->recheck);
		return true;
	}
	make_victim(victim);
	if (victim->peer)
		make_victim(victim->peer);
	return true;
}

/* It ends: each round works off one head, or looks at one owner; new rounds come only from a wait that
 * ended. */
void stet_lock_settle_(struct stet_locks *locks)
{
	struct stet_locks *other = locks->other;

	while (work_one(locks) || (other && work_one(other)) || search_one(locks) ||
	       (other && search_one(other)))
		;
}
