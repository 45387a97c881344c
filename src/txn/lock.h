/* lock.h - the lock manager: named locks with modes and ranges, and the waits-for graph.
 *
 * K1. A lock is (object, class, sub) with a range of numbers (bytes of a file) or of keys (records of a
 *     table; one key is a range too); requests conflict when the names are equal, the ranges overlap, the
 *     owners differ and the modes are incompatible. A range of keys holds those that do not exist, too.
 * K2. Waiting is a ticket in the queue of the name; grants are first come, first served among those that
 *     conflict. Only an upgrade passes the queue: its owner holds a part of what it asks for, or something
 *     that a wait in its way waits for (queueing behind that would be a deadlock for sure). Owners that hold
 *     nothing yet cannot pass, so an exclusive waiter is not starved.
 * K3. At the moment of waiting the waits-for graph is searched; of a cycle the youngest owner
 *     (highest age number) gives up with -EDEADLK: the requester itself, or a waiter, whose tickets
 *     fire so. From then on it gets -EDEADLK for whatever it does not hold yet, until release_all.
 * K4. Locks are kept until release_all of the owner (strict two-phase locking).
 *     Two managers can be paired, and owners in them that belong to one transaction: the search knows both,
 *     and such two owners wait, and give up, as one.
 * K5. An owner that has got STET_LOCK_ALL_AT locks within one name, where nobody else has or wants any, is given
 *     all of it instead: so what one owner locks takes bounded memory, unless others are in it.
 */
#ifndef STET_TXN_LOCK_H
#define STET_TXN_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "base/ticket.h"

enum stet_lock_mode {
	STET_LOCK_IS,
	STET_LOCK_IX,
	STET_LOCK_S,
	STET_LOCK_SIX,
	STET_LOCK_X,
	STET_LOCK_ALIKE, /* goes with its like only */
};
#define STET_LOCK_MODES 6

enum stet_lock_class {
	STET_LOCK_EXISTS = 1, /* object lives: S to add a name or change it, X to remove it */
	STET_LOCK_NAME = 2,   /* sub: hash of the name; object: directory */
	STET_LOCK_NAMES = 3,  /* the directory's names as a whole */
	STET_LOCK_DATA = 4,   /* range: bytes */
	STET_LOCK_ATTR = 5,   /* sub: attribute group */
	STET_LOCK_XATTR = 6,  /* sub: hash of the name */
	STET_LOCK_RECORD = 7, /* range: keys; sub: 0 */
};

enum stet_lock_keys {
	STET_LOCK_NO_KEYS, /* the range is that of numbers */
	STET_LOCK_ONE_KEY,
	STET_LOCK_KEY_RANGE,
};

#define STET_LOCK_KEY_MAX 1024u /* bytes of a key */
#define STET_LOCK_ALL_AT 32768u /* K5 */

struct stet_lock_name {
	uint64_t object;
	uint64_t sub;
	uint64_t from, to; /* 0, UINT64_MAX: all of it; with keys these values, too */
	enum stet_lock_class class;
	enum stet_lock_keys keys;
	const uint8_t *key;     /* the (first) key; borrowed during the call */
	const uint8_t *key_end; /* KEY_RANGE: the first behind it; NULL: to the last */
	uint16_t key_len, key_end_len;
};

/* One record, whether it exists or not. */
static inline struct stet_lock_name stet_lock_record(uint64_t table, const void *key, size_t len)
{
	return (struct stet_lock_name){ .object = table,
					.to = UINT64_MAX,
					.class = STET_LOCK_RECORD,
					.keys = STET_LOCK_ONE_KEY,
					.key = (const uint8_t *)key,
					.key_len = (uint16_t)len };
}

/* The records from one key (len 0: from the first) to before another (end NULL: to the last). */
static inline struct stet_lock_name stet_lock_records(uint64_t table, const void *key, size_t len,
						      const void *end, size_t end_len)
{
	return (struct stet_lock_name){ .object = table,
					.to = UINT64_MAX,
					.class = STET_LOCK_RECORD,
					.keys = STET_LOCK_KEY_RANGE,
					.key = (const uint8_t *)key,
					.key_len = (uint16_t)len,
					.key_end = (const uint8_t *)end,
					.key_end_len = (uint16_t)end_len };
}

struct stet_locks; /* the manager */

/* One per transaction; embedded there. */
struct stet_lock_owner {
	struct stet_locks *locks;
	uint64_t age;          /* higher = younger */
	struct stet_list held; /* of this owner's grants */
	size_t listed;         /* how many are on it */
	uint64_t held_count;
	uint64_t held_bytes; /* of memory, about */
	uint64_t *lone;      /* owned: keys of this owner's lone locks (lone.h) */
	size_t lone_count, lone_cap;
	struct stet_lock_wait
		*waiting; /* chain: one per operation that waits (threads may share one) */
	bool victim;      /* gave up in a deadlock (K3) */
	bool plain;       /* of an operation outside any transaction, while it waits */
	struct stet_lock_owner *peer; /* the same one's in the other manager; NULL: none */
	/* the search of the waits-for graph */
	struct stet_list recheck; /* on the manager's list of owners that may have closed a cycle */
	uint64_t search_mark;
	struct stet_lock_owner *search_parent, *search_next;
};

/* secret: what who chooses names and keys must not know: the shape of the tables depends on it. */
STET_CHECKED int stet_locks_create(uint64_t secret, struct stet_locks **ret);
void stet_locks_destroy(struct stet_locks *locks);
/* Deadlocks through both are found from now on; both under one lock. Neither is paired, or in use, yet. */
void stet_locks_pair(struct stet_locks *a, struct stet_locks *b);
void stet_lock_owner_init(struct stet_lock_owner *owner, struct stet_locks *locks, uint64_t age);
/* Of one age, in paired managers, fresh. They must be parted before one of them goes. */
void stet_lock_owner_pair(struct stet_lock_owner *a, struct stet_lock_owner *b);
void stet_lock_owner_part(struct stet_lock_owner *owner); /* paired or not */

/* 0: granted (or held already in a mode at least as strong). STET_WAIT: queued; the ticket fires
 * with 0 when granted (the lock is then held), or -EDEADLK, or is cancelled by stet_lock_cancel.
 * wait false: -EBUSY instead of queuing. -EDEADLK, -ENOMEM. *ret_blocker (may be NULL): an owner in
 * the way. */
STET_CHECKED int stet_lock_acquire(struct stet_lock_owner *owner, const struct stet_lock_name *name,
				   enum stet_lock_mode mode, bool wait, struct stet_ticket *ticket,
				   struct stet_lock_owner **ret_blocker);
/* Would acquire be granted at once to the owner, or (NULL) to somebody who holds nothing? 0, or -EBUSY with
 * the blocker; or, with wait, STET_WAIT with the ticket queued (it fires when the answer has become 0; nothing
 * is granted). For plain operations, which hold their locks for no time. Who waits so has no place in the
 * queue: that is for work in the background, and without an owner only. */
STET_CHECKED int stet_lock_probe(struct stet_locks *locks, struct stet_lock_owner *owner,
				 const struct stet_lock_name *name, enum stet_lock_mode mode,
				 bool wait, struct stet_ticket *ticket,
				 struct stet_lock_owner **ret_blocker);
/* The owner gives up waiting (interrupt, time-out) altogether, or with this ticket only. A probe's
 * ticket is cancelled with stet_ticket_cancel alone. */
void stet_lock_cancel(struct stet_lock_owner *owner);
void stet_lock_cancel_ticket(struct stet_lock_owner *owner, const struct stet_ticket *ticket);
void stet_lock_release_all(struct stet_lock_owner *owner);
/* Whether the ticket waits for a lock of the owner; somebody that the owner waits for (NULL: it does not). */
bool stet_lock_waits(const struct stet_lock_owner *owner, const struct stet_ticket *ticket);
struct stet_lock_owner *stet_lock_waiting_for(const struct stet_lock_owner *owner);
bool stet_lock_held(const struct stet_lock_owner *owner, const struct stet_lock_name *name,
		    enum stet_lock_mode mode);
uint64_t stet_locks_count(const struct stet_locks *locks);
/* For the sub of names and keys. Two names with one hash only share a lock. */
uint64_t stet_lock_hash(const void *bytes, size_t len);
/* Asserts the invariants of lock.c; walks everything. */
void stet_locks_check(struct stet_locks *locks);

#endif
