/* vec.c - the growing of vectors, by half, so that pushing costs O(1) on average. */
#include "base/vec.h"

#include "base/assert.h"

#define MIN_CAP_ITEMS 8

void *stet_vec_grow(void *p, size_t n, size_t extra, size_t *cap, size_t item_bytes)
{
	size_t need;
	size_t want;
	size_t size_bytes;
	void *grown;

	STET_ASSERT_CMP(n, <=, *cap);
	if (p && extra <= *cap - n)
		return p;
	if (__builtin_add_overflow(n, extra, &need))
		return NULL;
	want = *cap + *cap / 2;
	if (want < need)
		want = need;
	if (want < MIN_CAP_ITEMS)
		want = MIN_CAP_ITEMS;
	if (__builtin_mul_overflow(want, item_bytes, &size_bytes))
		return NULL;
	grown = stet_realloc(p, size_bytes);
	if (grown)
		*cap = want;
	return grown;
}
