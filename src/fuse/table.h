/* table.h - lists and hash tables whose links lie in the objects themselves (this layer sees no
 * other).
 *
 * A table never owns what is in it. Not locked: the caller's business.
 */
#ifndef STET_FUSE_TABLE_H
#define STET_FUSE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define stet_fuse_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/// Lists: rings with a head; an element that is in none points to itself ///

struct stet_fuse_list {
	struct stet_fuse_list *next, *prev;
};

static inline void stet_fuse_list_init(struct stet_fuse_list *l)
{
	l->next = l->prev = l;
}

static inline bool stet_fuse_list_empty(const struct stet_fuse_list *l)
{
	return l->next == l;
}

static inline void stet_fuse_list_add(struct stet_fuse_list *head, struct stet_fuse_list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void stet_fuse_list_del(struct stet_fuse_list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	stet_fuse_list_init(l);
}

/// Hash tables: chains, at most as many elements as slots ///

struct stet_fuse_link {
	struct stet_fuse_link *next;
	uint64_t hash;
};

struct stet_fuse_table {
	struct stet_fuse_link **slot;
	size_t mask, count; /* slots - 1; elements */
};

/** Spreads the bits of a key (the finisher of MurmurHash3). */
static inline uint64_t stet_fuse_mix(uint64_t key)
{
	key ^= key >> 33;
	key *= UINT64_C(0xff51afd7ed558ccd);
	key ^= key >> 33;
	key *= UINT64_C(0xc4ceb9fe1a85ec53);
	return key ^ key >> 33;
}

/** False: no memory. */
static inline bool stet_fuse_table_init(struct stet_fuse_table *t)
{
	t->slot = calloc(256, sizeof(struct stet_fuse_link *));
	t->mask = 255;
	t->count = 0;
	return t->slot;
}

static inline void stet_fuse_table_release(struct stet_fuse_table *t)
{
	free(t->slot);
	t->slot = NULL;
}

/** The first of the chain for this hash; go on with ->next and compare the hash, then the key. */
static inline struct stet_fuse_link *stet_fuse_table_chain(const struct stet_fuse_table *t,
							   uint64_t hash)
{
	return t->slot[hash & t->mask];
}

/* Doubles the slots; without memory the chains just get longer. */
static inline void stet_fuse_table_grow(struct stet_fuse_table *t)
{
	size_t slots = (t->mask + 1) * 2;
	struct stet_fuse_link **slot = calloc(slots, sizeof(struct stet_fuse_link *));

	if (!slot)
		return;
	for (size_t i = 0; i <= t->mask; i++) {
		struct stet_fuse_link *l = t->slot[i];

		while (l) {
			struct stet_fuse_link *next = l->next;
			struct stet_fuse_link **head = &slot[l->hash & (slots - 1)];

			l->next = *head;
			*head = l;
			l = next;
		}
	}
	free(t->slot);
	t->slot = slot;
	t->mask = slots - 1;
}

static inline void stet_fuse_table_add(struct stet_fuse_table *t, struct stet_fuse_link *l,
				       uint64_t hash)
{
	struct stet_fuse_link **head;

	if (t->count > t->mask)
		stet_fuse_table_grow(t);
	head = &t->slot[hash & t->mask];
	l->hash = hash;
	l->next = *head;
	*head = l;
	t->count++;
}

/** l must be in it. */
static inline void stet_fuse_table_del(struct stet_fuse_table *t, struct stet_fuse_link *l)
{
	struct stet_fuse_link **at = &t->slot[l->hash & t->mask];

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	t->count--;
}

#endif
