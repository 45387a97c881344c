/* hash.h - hash table keyed by uint64_t, woven into its members, growing without a pause.
 *
 * The hash is the low bits of the key: sequential keys (inode numbers, segment numbers) spread
 * perfectly and neighbours share cache lines. Keys that are not sequential (addresses, multiples
 * of a power of two) must be put through stet_mix64 first.
 * A key may occur more than once. Not thread-safe; finding moves buckets too, so it is no
 * read-only operation.
 */
#ifndef STET_BASE_HASH_H
#define STET_BASE_HASH_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/** Part of each member. key is set by stet_hash_insert and must stay while it is in the table. */
struct stet_hash_node {
	uint64_t key;
	struct stet_hash_node *next;
};

/** An array of 2^log2_size chains. */
struct stet_hash_table {
	struct stet_hash_node **bucket; /* owned; NULL: there is no such table */
	unsigned int log2_size;
};

/** Fields are private to hash.c. */
struct stet_hash {
	struct stet_hash_table now; /* the only table, or the one being filled */
	struct stet_hash_table old; /* the table being emptied, if any */
	size_t moved;               /* buckets of old below this are empty and stay so */
	size_t count;
	size_t low;             /* buckets of now below this are empty */
	size_t grow_at;         /* grow when count would exceed this */
	uint64_t grow_failures; /* how often there was no memory to grow */
	unsigned int initial_log2_size;
};

/** Makes an empty table of 2^initial_log2_size buckets; allocates nothing yet. */
void stet_hash_init(struct stet_hash *hash, unsigned int initial_log2_size);

/** Frees the table's own memory, not its members (they may still be in). NULL is accepted. */
void stet_hash_release(struct stet_hash *hash);

/**
 * Adds the node, whose memory stays the caller's, under key. Equal keys are allowed.
 * -ENOMEM only when there is no first table yet; failing to grow is tolerated and counted.
 */
STET_CHECKED int stet_hash_insert(struct stet_hash *hash, uint64_t key,
				  struct stet_hash_node *node);

/** A node with that key, or NULL. Borrowed: it is the inserter's. */
struct stet_hash_node *stet_hash_find(struct stet_hash *hash, uint64_t key);

/**
 * The next node with the same key, or NULL; in no particular order. Complete only when there was
 * no other call on the table since stet_hash_find.
 */
struct stet_hash_node *stet_hash_find_next(const struct stet_hash_node *node);

/** Takes out the node, which must be in. */
void stet_hash_remove(struct stet_hash *hash, struct stet_hash_node *node);

/** How many nodes are in. */
size_t stet_hash_count(const struct stet_hash *hash);

/** How often growing failed for want of memory. */
uint64_t stet_hash_grow_failures(const struct stet_hash *hash);

/**
 * Walk over all nodes, in no particular order: first and next return NULL at the end. Between two
 * steps nothing may be inserted; nodes may be removed (take next before removing the current).
 */
struct stet_hash_node *stet_hash_first(struct stet_hash *hash);
struct stet_hash_node *stet_hash_next(struct stet_hash *hash, const struct stet_hash_node *node);

/** Asserts the invariants of hash.c; walks everything. */
void stet_hash_check(const struct stet_hash *hash);

/** Mixes all bits of x into all bits of the result (one to one). */
static inline uint64_t stet_mix64(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;
	return x;
}

#endif
