/* skiplist.h - ordered map from byte strings to values, in memory.
 *
 * Keys are ordered by memcmp; a key that is a prefix of another comes first. Each node is one
 * allocation holding tower and key. Not thread-safe; reading is read-only.
 */
#ifndef STET_BASE_SKIPLIST_H
#define STET_BASE_SKIPLIST_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define STET_SKIPLIST_MAX_HEIGHT 16
#define STET_SKIPLIST_MAX_KEY_BYTES UINT16_MAX

/** One entry. Only value is the user's; the rest is private, the key follows the tower. */
struct stet_skipnode {
	void *value;                  /* the user's; NULL in a new node */
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
	size_t count;
	size_t bytes;
};

/** Makes an empty list; allocates nothing. The seed decides the shape, not the content. */
void stet_skiplist_init(struct stet_skiplist *sl, uint64_t seed);

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

/** Takes out and frees the node, which must be in this list; its value is the caller's affair. */
void stet_skiplist_remove(struct stet_skiplist *sl, struct stet_skipnode *node);

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
