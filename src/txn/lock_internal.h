/* lock_internal.h - what the files of the lock manager share; the theory is in lock.c. */
#ifndef STET_TXN_LOCK_INTERNAL_H
#define STET_TXN_LOCK_INTERNAL_H

#include "base/hash.h"
#include "txn/lock.h"
#include "txn/lone.h"
#include "txn/span.h"

/* What only heads with ranges need. */
struct lock_ranges {
	struct stet_spans spans; /* of lock_ranged.span: the grants with a range */
	struct stet_span gone;   /* I3: what has gone lies within, if anything has */
	bool any_gone, all_gone;
};

struct lock_head {
	struct stet_hash_node node;
	uint64_t object;
	uint64_t sub;
	enum stet_lock_class class;
	struct stet_list wholes; /* of lock_grant.of_head: the grants without a range */
	uint32_t whole_count[STET_LOCK_MODES]; /* of them, by mode */
	struct lock_ranges *ranges;            /* owned; NULL: there are none */
	struct stet_list waits;                /* of stet_lock_wait.of_head; upgrades first (I2) */
	struct stet_list probes;               /* of lock_probe.of_head */
	struct stet_list changed;              /* on stet_locks.changed: something has gone */
};

/* Granted, or asked for. */
struct lock_grant {
	struct stet_list of_head;
	struct stet_list of_owner;
	struct stet_hash_node node;    /* a whole one: of stet_locks.wholes (G1) */
	struct stet_lock_owner *owner; /* NULL: of a probe */
	struct lock_head *head;
	enum stet_lock_mode mode;
	bool whole; /* else it is the first part of a lock_ranged */
};

struct lock_ranged {
	struct lock_grant g;
	struct stet_span span;
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

struct lock_probe {
	struct stet_list of_head;
	struct lock_grant *want;        /* owned */
	struct stet_ticket_queue queue; /* as of a wait */
};

struct stet_locks {
	struct stet_locks *other; /* paired with it (I9); NULL: none */
	bool second;              /* of the pair */
	uint64_t secret;
	struct stet_hash heads;
	struct stet_hash wholes; /* of lock_grant.node; the first table is there */
	struct stet_lone lone;   /* I8 */
	uint64_t lone_count;     /* of them, those without a head */
	uint64_t grant_count;
	uint64_t search_mark;
	struct stet_list changed; /* heads to be worked off (I3) */
	struct stet_list recheck; /* owners from which to search for a cycle (I4) */
	struct stet_ticket_queue granted, victims, probes; /* to be fired (I7) */
};

/* --- lock_grant.c: what is in whose way, and granting --- */
struct lock_request {
	struct lock_ranged r; /* borrows the caller's keys */
	uint8_t point[STET_LOCK_KEY_MAX + 1];
};
/* Returns the part of *r that says what is asked for. */
struct lock_grant *stet_lock_request_(struct lock_request *r, struct stet_lock_owner *owner,
				      const struct stet_lock_name *name, enum stet_lock_mode mode);
/* A copy with keys of its own. */
STET_CHECKED int stet_lock_copy_(const struct lock_grant *want, struct lock_grant **ret);
void stet_lock_free_(struct lock_grant *g);
const struct stet_span *stet_lock_span_(const struct lock_grant *g); /* its bounds */
bool stet_lock_in_the_way_(const struct lock_grant *other, const struct lock_grant *want);
/* Calls fn for the grants of the head that meet want's range, until it says true: that one. */
typedef bool stet_lock_grant_fn(void *arg, struct lock_grant *g);
struct lock_grant *stet_lock_each_(const struct lock_head *head, const struct lock_grant *want,
				   stet_lock_grant_fn *fn, void *arg);
/* The same for those that are in the way of what is wanted. */
struct lock_grant *stet_lock_each_blocker_(const struct lock_head *head,
					   const struct lock_grant *want, stet_lock_grant_fn *fn,
					   void *arg);
struct stet_lock_owner *stet_lock_granted_blocker_(const struct lock_head *head,
						   const struct lock_grant *want);
/* The owner of a conflicting wait before `end` (a member of the queue, or its head: all of it). */
struct stet_lock_owner *stet_lock_queued_blocker_(const struct lock_head *head,
						  const struct stet_list *end,
						  const struct lock_grant *want);
/* K2 */
bool stet_lock_is_upgrade_(const struct lock_head *head, const struct lock_grant *want);
/* Whether the owner's grants, taken together, cover what is wanted in modes at least as strong. */
bool stet_lock_covered_(const struct lock_head *head, const struct lock_grant *want);
/* Takes over g. What the owner holds there and g makes needless or continues goes into g (I6). The
 * head has ranges if g has one. */
void stet_lock_add_(struct stet_locks *locks, struct lock_head *head, struct lock_grant *g);
/* Frees it too. gone: others may get on now. */
void stet_lock_drop_(struct stet_locks *locks, struct lock_grant *g, bool gone);
/* What was granted, or waited for, at this head is there no longer: *g's keys may be taken. */
void stet_lock_gone_(struct stet_locks *locks, struct lock_head *head, struct lock_grant *g);

/* --- lock_wait.c: queues and deadlocks --- */
/* Takes over `want`. STET_WAIT, or 0 or -EDEADLK when breaking a deadlock decided it at once. */
STET_CHECKED int stet_lock_begin_wait_(struct stet_locks *locks, struct lock_head *head,
				       struct lock_grant *want, bool upgrade,
				       struct stet_ticket *ticket);
/* Ends a wait: granted, or given up (its ticket is told through `fire`, NULL: not at all). */
void stet_lock_end_wait_(struct stet_locks *locks, struct stet_lock_wait *w, bool granted,
			 struct stet_ticket_queue *fire);
void stet_lock_give_up_(struct stet_locks *locks, struct stet_lock_owner *owner,
			struct stet_ticket_queue *tell);
void stet_lock_end_probe_(struct lock_probe *p); /* its queue is empty */
/* The one that stands for the pair of owners (I9). */
static inline struct stet_lock_owner *stet_lock_node_(struct stet_lock_owner *owner)
{
	return owner->peer && owner->locks->second ? owner->peer : owner;
}
void stet_lock_note_recheck_(struct stet_locks *locks, struct stet_lock_owner *owner);
/* Restores I3 and I4, in both managers of a pair. */
void stet_lock_settle_(struct stet_locks *locks);
void stet_lock_trim_(struct stet_locks *locks, struct lock_head *head); /* I1 */

#endif
