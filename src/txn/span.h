/* span.h - spans [from, to) of an ordered set, in a tree that finds those which overlap a given one.
 *
 * The set is that of numbers or that of byte strings (ordered by memcmp, a prefix first); the spans of one
 * tree are all of one set. They may overlap and be equal. A tree allocates nothing. Not thread-safe: guarded
 * by the volume's lock.
 */
#ifndef STET_TXN_SPAN_H
#define STET_TXN_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Bytes that several bounds share. */
struct stet_span_bytes {
	uint32_t refs;
	uint8_t b[];
};

struct stet_bound {
	uint64_t head;                /* a number; of a string the first 8 bytes, as a number */
	const uint8_t *b;             /* a string: its bytes; numbers, and the empty one: NULL */
	struct stet_span_bytes *keep; /* b lies in it: one reference; NULL: b is the caller's */
	uint16_t len;                 /* of b */
	bool open;                    /* behind everything */
};

#define STET_SPAN_GROUPS 3

struct stet_span {
	struct stet_bound from, to; /* from < to */
	uint64_t point;             /* not 0: it is one string alone, of which this is a hash */
	const void *owner;          /* whose it is; not NULL */
	unsigned group;
	/* private to span.c while it is in a tree */
	struct stet_span *child[2];
	const void *only[STET_SPAN_GROUPS]; /* whose those of the group at or below are */
	const struct stet_span *last;       /* which of those below, and itself, ends last */
	uint64_t no;
	uint64_t weight;
};

struct stet_spans {
	struct stet_span *root;
	uint64_t count;
	uint64_t random; /* xorshift state */
	uint64_t next_no;
};

/* Makes an empty tree; the seed decides its shape only. */
void stet_spans_init(struct stet_spans *spans, uint64_t seed);
void stet_spans_add(struct stet_spans *spans, struct stet_span *span);
void stet_spans_remove(struct stet_spans *spans, struct stet_span *span); /* it is in */

/* What else than overlapping counts as being met. */
#define STET_SPAN_ENDS_AT_FROM 1u
#define STET_SPAN_BEGINS_AT_TO 2u

/* Whose spans are looked for, in each group. Where only others lie, however many, they are passed at once. */
#define STET_SPAN_OWN 1u
#define STET_SPAN_OTHERS 2u
struct stet_span_look {
	const struct stet_bound *from, *to;
	const void *owner;
	unsigned also;
	unsigned whose[STET_SPAN_GROUPS];
	size_t left; /* so many may still be looked at; 0 after searching: it may have ended early */
};

/* Whether it is one of those that are looked for. With BEGINS_AT_TO from and to may be equal: those that hold
 * that point. */
bool stet_span_fits(const struct stet_span *span, const struct stet_span_look *look);
/* The first such span, by `from` and age, for which fn says true; NULL: none. One that ended early may have left
 * some out. */
typedef bool stet_span_fn(void *arg, struct stet_span *span);
struct stet_span *stet_spans_find(const struct stet_spans *spans, struct stet_span_look *look,
				  stet_span_fn *fn, void *arg);

int stet_bound_cmp(const struct stet_bound *a, const struct stet_bound *b);
static inline bool stet_spans_overlap(const struct stet_span *a, const struct stet_span *b)
{
	if (a->point && b->point && a->point != b->point)
		return false;
	return stet_bound_cmp(&a->from, &b->to) < 0 && stet_bound_cmp(&b->from, &a->to) < 0;
}
void stet_bound_number(struct stet_bound *bound, uint64_t number);
/* b stays the caller's. */
void stet_bound_string(struct stet_bound *bound, const uint8_t *b, size_t len);
void stet_bound_release(struct stet_bound *bound);
/* What `from` held is *to's now; *to is released before. */
void stet_bound_move(struct stet_bound *to, struct stet_bound *from);
/* Gives both ends bytes of their own. -ENOMEM: nothing was changed. */
STET_CHECKED int stet_bounds_keep(struct stet_bound *from, struct stet_bound *to);

/* Asserts the order of the tree; walks all of it. */
void stet_spans_check(const struct stet_spans *spans);

#endif
