/* skiplist.h - ordered map from byte strings to values, in memory.
 *
 * Keys are ordered by memcmp; a key that is a prefix of another comes first. Each node is one
 * allocation holding tower and key. Not thread-safe; reading is read-only.
 */
#ifndef STET_BASE_SKIPLIST_H
#define STET_BASE_SKIPLIST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STET_SKIPLIST_MAX_HEIGHT 16
#define STET_SKIPLIST_MAX_KEY_BYTES UINT16_MAX

/**
 * One entry. Only value is the user's; the rest is private, the key follows the tower. Where the list has
 * values of its own they lie before this, in the same allocation.
 */
struct stet_skipnode {
	void *value;                  /* the user's; in a new node NULL, or the node's own value */
	uint64_t prefix;              /* first 8 bytes of the key, big-endian, zero-padded */
	uint16_t key_len;             /* in bytes */
	uint8_t height;               /* 1..STET_SKIPLIST_MAX_HEIGHT */
	struct stet_skipnode *next[]; /* height of them */
};

/** Fields are private to skiplist.c. */
struct stet_skiplist {
	struct stet_skipnode *head[STET_SKIPLIST_MAX_HEIGHT];
	unsigned int height; /* levels in use, at least 1 */
	uint64_t random;     /* xorshift state, never 0 */
	size_t value_bytes;  /* of each node's own value, a multiple of 16 */
	size_t count;
	size_t bytes;
};

/** A way to a node: for each level the last tower before a key. Private, but the caller's. */
struct stet_skippath {
	struct stet_skipnode *const *tower[STET_SKIPLIST_MAX_HEIGHT];
};

/**
 * Makes an empty list; allocates nothing. The seed decides the shape, not the content. value_bytes: 0, or
 * each new node gets a value of so many zero bytes (at most 4096), which lives and goes with it.
 */
void stet_skiplist_init(struct stet_skiplist *sl, uint64_t seed, size_t value_bytes);

/**
 * Frees all nodes, in key order, after calling free_value (if not NULL) for each; the list is
 * empty afterwards and may be used on. sl may be NULL.
 */
void stet_skiplist_release(struct stet_skiplist *sl,
			   void (*free_value)(void *arg, struct stet_skipnode *node), void *arg);

/** The node with exactly this key, or NULL. Borrowed: valid until it is removed. */
struct stet_skipnode *stet_skiplist_find(const struct stet_skiplist *sl, const void *key,
					 size_t len);

/** The first node with a key >= this one, or NULL. Borrowed: valid until it is removed. */
struct stet_skipnode *stet_skiplist_lower_bound(const struct stet_skiplist *sl, const void *key,
						size_t len);

/** The last node with a key < this one, or NULL. Borrowed: valid until it is removed. */
struct stet_skipnode *stet_skiplist_below(const struct stet_skiplist *sl, const void *key,
					  size_t len);

/** As below; and remembers the way, which is good until a node is added or removed. */
struct stet_skipnode *stet_skiplist_seek_below(const struct stet_skiplist *sl, const void *key,
					       size_t len, struct stet_skippath *ret);

/** The node before the one that was found last on this way, at little cost; NULL: there is none. */
struct stet_skipnode *stet_skiplist_prev(const struct stet_skiplist *sl,
					 struct stet_skippath *path);

/** The node with the lowest key, or NULL. Borrowed: valid until it is removed. */
static inline struct stet_skipnode *stet_skiplist_first(const struct stet_skiplist *sl)
{
	return sl->head[0];
}

/** The node after this one in key order, or NULL. Borrowed: valid until it is removed. */
static inline struct stet_skipnode *stet_skiplist_next(const struct stet_skipnode *node)
{
	return node->next[0];
}

/**
 * Adds a node with a copy of the key and value NULL. 0; -EEXIST with the node that has the key
 * already (*ret is set then too); -ENOMEM; -EINVAL when len exceeds STET_SKIPLIST_MAX_KEY_BYTES.
 * *ret is borrowed: valid until it is removed.
 */
STET_CHECKED int stet_skiplist_insert(struct stet_skiplist *sl, const void *key, size_t len,
				      struct stet_skipnode **ret);

/** Takes out and frees the node, which must be in this list; what its value holds is the caller's affair. */
void stet_skiplist_remove(struct stet_skiplist *sl, struct stet_skipnode *node);

/**
 * Asks keep about up to `most` nodes with keys >= this one, in key order; takes out and frees those for which
 * it says false, at the cost of the walk alone. keep must not change the list. The node at which to go on
 * (by its key) is returned, NULL when the end was reached.
 */
struct stet_skipnode *stet_skiplist_sweep(struct stet_skiplist *sl, const void *key, size_t len,
					  size_t most,
					  bool (*keep)(void *arg, struct stet_skipnode *node),
					  void *arg);

/** The node whose own value this is. */
static inline struct stet_skipnode *stet_skipnode_of(void *value, size_t value_bytes)
{
	return (struct stet_skipnode *)((char *)value + ((value_bytes + 15u) & ~(size_t)15u));
}

/** The key of the node, key_len bytes. Borrowed: valid as long as the node. */
static inline const uint8_t *stet_skipnode_key(const struct stet_skipnode *node)
{
	return (const uint8_t *)&node->next[node->height];
}

/** How many nodes there are. */
static inline size_t stet_skiplist_count(const struct stet_skiplist *sl)
{
	return sl->count;
}

/** Memory used by the nodes, in bytes. */
static inline size_t stet_skiplist_bytes(const struct stet_skiplist *sl)
{
	return sl->bytes;
}

/** Asserts the invariants of skiplist.c; walks everything. */
void stet_skiplist_check(const struct stet_skiplist *sl);

#endif
