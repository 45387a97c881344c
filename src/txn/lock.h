/* lock.h - the lock manager: named locks with modes and ranges, and the waits-for graph.
 *
 * K1. A lock is (object, class, sub) with a range [from, to); requests conflict when the names are
 *     equal, the ranges overlap, the owners differ and the modes are incompatible.
 * K2. Waiting is a ticket in the queue of the name; grants are first come, first served, but an
 *     owner that already holds the name may pass the queue (upgrade). An exclusive waiter is not
 *     starved.
 * K3. At the moment of waiting the waits-for graph is searched; of a cycle the youngest owner
 *     (highest age number) gives up with -EDEADLK: the requester itself, or a waiter, whose tickets
 *     fire so. From then on it gets -EDEADLK for whatever it does not hold yet, until release_all.
 * K4. Locks are kept until release_all of the owner (strict two-phase locking).
 */
#ifndef STET_TXN_LOCK_H
#define STET_TXN_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "base/ticket.h"

enum stet_lock_mode { STET_LOCK_IS, STET_LOCK_IX, STET_LOCK_S, STET_LOCK_SIX, STET_LOCK_X };

enum stet_lock_class {
	STET_LOCK_EXISTS = 1, /* object lives: S to add a name or change it, X to remove it */
	STET_LOCK_NAME = 2,   /* sub: hash of the name; object: directory */
	STET_LOCK_NAMES = 3,  /* the directory's names as a whole */
	STET_LOCK_DATA = 4,   /* range: bytes */
	STET_LOCK_ATTR = 5,   /* sub: attribute group */
	STET_LOCK_XATTR = 6,  /* sub: hash of the name */
	STET_LOCK_RECORD = 7, /* sub: hash of the key */
};

struct stet_lock_name {
	uint64_t object;
	uint64_t sub;
	uint64_t from, to; /* 0, UINT64_MAX: all of it */
	enum stet_lock_class class;
};

struct stet_locks; /* the manager */

/* One per transaction; embedded there. */
struct stet_lock_owner {
	struct stet_locks *locks;
	uint64_t age;          /* higher = younger */
	struct stet_list held; /* of this owner's grants */
	uint64_t held_count;
	uint64_t *lone; /* owned: keys of this owner's lone locks (lone.h) */
	size_t lone_count, lone_cap;
	struct stet_lock_wait
		*waiting; /* chain: one per operation that waits (threads may share one) */
	bool victim;      /* gave up in a deadlock (K3) */
	/* the search of the waits-for graph */
	struct stet_list recheck; /* on the manager's list of owners that may have closed a cycle */
	uint64_t search_mark;
	struct stet_lock_owner *search_parent, *search_next;
};

STET_CHECKED int stet_locks_create(struct stet_locks **ret);
void stet_locks_destroy(struct stet_locks *locks);
void stet_lock_owner_init(struct stet_lock_owner *owner, struct stet_locks *locks, uint64_t age);

/* 0: granted (or held already in a mode at least as strong). STET_WAIT: queued; the ticket fires
 * with 0 when granted (the lock is then held), or -EDEADLK, or is cancelled by stet_lock_cancel.
 * wait false: -EBUSY instead of queuing. -EDEADLK, -ENOMEM. *ret_blocker (may be NULL): an owner in
 * the way. */
STET_CHECKED int stet_lock_acquire(struct stet_lock_owner *owner, const struct stet_lock_name *name,
				   enum stet_lock_mode mode, bool wait, struct stet_ticket *ticket,
				   struct stet_lock_owner **ret_blocker);
/* Would acquire be granted at once to somebody who holds nothing? 0, or -EBUSY with the blocker;
 * or, with wait, STET_WAIT with the ticket queued (it fires when asking again makes sense; nothing
 * is granted). For plain operations, which hold their locks for no time. */
STET_CHECKED int stet_lock_probe(struct stet_locks *locks, const struct stet_lock_name *name,
				 enum stet_lock_mode mode, bool wait, struct stet_ticket *ticket,
				 struct stet_lock_owner **ret_blocker);
/* The owner gives up waiting (interrupt, time-out) altogether, or with this ticket only. A probe's
 * ticket is cancelled with stet_ticket_cancel alone. */
void stet_lock_cancel(struct stet_lock_owner *owner);
void stet_lock_cancel_ticket(struct stet_lock_owner *owner, const struct stet_ticket *ticket);
void stet_lock_release_all(struct stet_lock_owner *owner);
bool stet_lock_held(const struct stet_lock_owner *owner, const struct stet_lock_name *name,
		    enum stet_lock_mode mode);
uint64_t stet_locks_count(const struct stet_locks *locks);
/* For the sub of names and keys. Two names with one hash only share a lock. */
uint64_t stet_lock_hash(const void *bytes, size_t len);
/* Asserts the invariants of lock.c; walks everything. */
void stet_locks_check(struct stet_locks *locks);

#endif
