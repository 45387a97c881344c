/* vec.h - a growing array of any type.
 *
 *	STET_VEC(uint64_t) addrs;
 *
 *	stet_vec_init(&addrs);
 *	rc = stet_vec_push(&addrs, addr);
 *	for (size_t i = 0; i < addrs.n; i++)
 *		use(addrs.v[i]);
 *	stet_vec_release(&addrs);
 *
 * All zero is a valid empty vector. The macros evaluate their vec argument more than once, other
 * arguments once. Pushing may move the items: pointers to them do not survive it.
 */
#ifndef STET_BASE_VEC_H
#define STET_BASE_VEC_H

#include "base/error.h"
#include "base/mem.h"

#include <stddef.h>

/** The anonymous struct type of a vector: v the items, n their count, cap the room. */
#define STET_VEC(type)      \
	struct {            \
		type *v;    \
		size_t n;   \
		size_t cap; \
	}

/** Makes an empty vector; allocates nothing. */
#define stet_vec_init(vec) ((void)((vec)->v = NULL, (vec)->n = 0, (vec)->cap = 0))

/** Frees the items' memory (not what the items point to); the vector is empty again. */
#define stet_vec_release(vec) (stet_free((vec)->v), stet_vec_init(vec))

/** Forgets all items and keeps the memory. */
#define stet_vec_clear(vec) ((void)((vec)->n = 0))

/** Makes room for `extra` more items. 0 or -ENOMEM (the vector stays as it was). */
#define stet_vec_reserve(vec, extra)                                                        \
	__extension__({                                                                     \
		void *stet_vec_p_ = stet_vec_grow((vec)->v, (vec)->n, (extra), &(vec)->cap, \
						  sizeof(*(vec)->v));                       \
		if (stet_vec_p_)                                                            \
			(vec)->v = stet_vec_p_;                                             \
		stet_vec_result(stet_vec_p_ ? 0 : -ENOMEM);                                 \
	})

/** Appends the item. 0 or -ENOMEM (the vector stays as it was, item is not evaluated). */
#define stet_vec_push(vec, item)                             \
	__extension__({                                      \
		int stet_vec_rc_ = stet_vec_reserve(vec, 1); \
		if (!stet_vec_rc_) {                         \
			(vec)->v[(vec)->n] = (item);         \
			(vec)->n++;                          \
		}                                            \
		stet_vec_result(stet_vec_rc_);               \
	})

/** Removes and returns the last item; the vector must not be empty. */
#define stet_vec_pop(vec) ((vec)->v[--(vec)->n])

/**
 * What stet_vec_reserve calls: the array with room for n + extra items (p itself when that is
 * enough), *cap updated; NULL on failure, with p and *cap untouched.
 */
STET_CHECKED void *stet_vec_grow(void *p, size_t n, size_t extra, size_t *cap, size_t item_bytes);

/** Passes rc through, so that the result of the macros must be used. */
STET_CHECKED static inline int stet_vec_result(int rc)
{
	return rc;
}

#endif
