/* lone.h - exclusive locks that nobody else asked for, 16 bytes each.
 *
 * A transaction may change hundreds of thousands of names; almost none of them is ever asked for by another.
 * Such locks are kept as (hash of the name, owner) in an open table. Whoever else asks for a name that is
 * in here first makes a real lock of it (lock.c); the entry stays, so two names of equal hash both stay
 * protected. Not thread-safe: guarded by the volume's lock.
 */
#ifndef STET_TXN_LONE_H
#define STET_TXN_LONE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct stet_lock_owner;

struct stet_lone_entry {
	uint64_t key;
	struct stet_lock_owner *owner; /* NULL: the place is free */
};

struct stet_lone {
	struct stet_lone_entry *entry; /* owned; cap of them, a power of two */
	size_t cap, n;
};

void stet_lone_init(struct stet_lone *lone);
void stet_lone_release(struct stet_lone *lone); /* must be empty */
/* The owner of a name with this hash, or NULL. */
struct stet_lock_owner *stet_lone_find(const struct stet_lone *lone, uint64_t key);
/* The key must not be in. -ENOMEM. */
STET_CHECKED int stet_lone_add(struct stet_lone *lone, uint64_t key, struct stet_lock_owner *owner);
/* The key must be in. */
void stet_lone_remove(struct stet_lone *lone, uint64_t key);

#endif
