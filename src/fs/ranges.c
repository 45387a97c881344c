/* ranges.c - sets of numbers (blocks, inodes), as sorted ranges, of any number.
 *
 * R1. Ranges are sorted, disjoint and do not touch each other.
 * R2. They lie in chunks of up to CHUNK_MAX, none of which is empty: so putting one in between costs little
 *     however many there are.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "fs/fs_internal.h"

#include <string.h>

#define CHUNK_MAX 256u

struct spot {
	size_t chunk, index;
};

void stet_ranges_release_(struct fs_ranges *r)
{
	for (size_t i = 0; i < r->chunks.n; i++)
		stet_vec_release(&r->chunks.v[i].list);
	stet_vec_release(&r->chunks);
	r->count = 0;
}

/* The first range that ends at or behind `at`. */
static struct spot lower(const struct fs_ranges *r, uint64_t at)
{
	size_t lo = 0, hi = r->chunks.n;
	struct spot spot;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct fs_chunk *chunk = &r->chunks.v[mid];

		if (chunk->list.v[chunk->list.n - 1].hi < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	spot.chunk = lo;
	spot.index = 0;
	if (lo == r->chunks.n)
		return spot;
	hi = r->chunks.v[lo].list.n;
	while (spot.index < hi) {
		size_t mid = spot.index + (hi - spot.index) / 2;

		if (r->chunks.v[lo].list.v[mid].hi < at)
			spot.index = mid + 1;
		else
			hi = mid;
	}
	return spot;
}

/* NULL at the end. */
static struct fs_range *range_at(const struct fs_ranges *r, const struct spot *spot)
{
	return spot->chunk < r->chunks.n ? &r->chunks.v[spot->chunk].list.v[spot->index] : NULL;
}

static void forward(const struct fs_ranges *r, struct spot *spot)
{
	if (++spot->index < r->chunks.v[spot->chunk].list.n)
		return;
	spot->chunk++;
	spot->index = 0;
}

/* Afterwards the spot is that of the next range. */
static void erase(struct fs_ranges *r, struct spot *spot)
{
	struct fs_chunk *chunk = &r->chunks.v[spot->chunk];

	chunk->list.n--;
	r->count--;
	memmove(&chunk->list.v[spot->index], &chunk->list.v[spot->index + 1],
		(chunk->list.n - spot->index) * sizeof(chunk->list.v[0]));
	if (chunk->list.n == 0) {
		stet_vec_release(&chunk->list);
		r->chunks.n--;
		memmove(chunk, chunk + 1, (r->chunks.n - spot->chunk) * sizeof(*chunk));
		spot->index = 0;
	} else if (spot->index == chunk->list.n) {
		spot->chunk++;
		spot->index = 0;
	}
}

static int new_chunk(struct fs_ranges *r, size_t at)
{
	int rc = stet_vec_reserve(&r->chunks, 1);

	if (rc)
		return rc;
	memmove(&r->chunks.v[at + 1], &r->chunks.v[at],
		(r->chunks.n - at) * sizeof(r->chunks.v[0]));
	r->chunks.v[at] = (struct fs_chunk){ .list = { 0 } };
	r->chunks.n++;
	return 0;
}

/* Moves the upper half of a full chunk into one of its own. */
static int split(struct fs_ranges *r, size_t at)
{
	size_t half = r->chunks.v[at].list.n / 2;
	struct fs_chunk upper = { .list = { 0 } };
	int rc = stet_vec_reserve(&upper.list, CHUNK_MAX - half);

	if (!rc)
		rc = new_chunk(r, at + 1);
	if (rc) {
		stet_vec_release(&upper.list);
		return rc;
	}
	upper.list.n = r->chunks.v[at].list.n - half;
	memcpy(upper.list.v, &r->chunks.v[at].list.v[half], upper.list.n * sizeof(upper.list.v[0]));
	r->chunks.v[at].list.n = half;
	r->chunks.v[at + 1] = upper;
	return 0;
}

/* Puts a range in, before the spot. */
static int insert(struct fs_ranges *r, struct spot spot, struct fs_range range)
{
	struct fs_chunk *chunk;
	int rc = 0;

	if (r->chunks.n == 0)
		rc = new_chunk(r, 0);
	if (!rc && spot.chunk == r->chunks.n) { /* behind the last one */
		spot.chunk = r->chunks.n - 1;
		spot.index = r->chunks.v[spot.chunk].list.n;
	}
	if (!rc && r->chunks.v[spot.chunk].list.n == CHUNK_MAX) {
		rc = split(r, spot.chunk);
		if (!rc && spot.index > r->chunks.v[spot.chunk].list.n) {
			spot.index -= r->chunks.v[spot.chunk].list.n;
			spot.chunk++;
		}
	}
	if (rc)
		return rc;
	chunk = &r->chunks.v[spot.chunk];
	rc = stet_vec_reserve(&chunk->list, 1);
	if (rc) {
		if (chunk->list.n == 0) /* R2 */
			stet_ranges_release_(r);
		return rc;
	}
	memmove(&chunk->list.v[spot.index + 1], &chunk->list.v[spot.index],
		(chunk->list.n - spot.index) * sizeof(chunk->list.v[0]));
	chunk->list.v[spot.index] = range;
	chunk->list.n++;
	r->count++;
	return 0;
}

int stet_ranges_add_(struct fs_ranges *r, uint64_t lo, uint64_t hi)
{
	struct spot spot = lower(r, lo);
	struct fs_range *range = range_at(r, &spot);

	if (lo >= hi)
		return 0;
	if (!range || range->lo > hi)
		return insert(r, spot, (struct fs_range){ lo, hi });
	/* It becomes the union with all that it then touches. */
	struct spot next = spot;
	if (range->lo < lo)
		lo = range->lo;
	if (range->hi > hi)
		hi = range->hi;
	forward(r, &next);
	while ((range = range_at(r, &next)) && range->lo <= hi) {
		if (range->hi > hi)
			hi = range->hi;
		erase(r, &next);
	}
	*range_at(r, &spot) = (struct fs_range){ lo, hi };
	return 0;
}

int stet_ranges_take_(struct fs_ranges *r, uint64_t lo, uint64_t hi)
{
	struct spot spot = lower(r, lo + 1);
	struct fs_range *range = range_at(r, &spot);
	uint64_t end;

	STET_ASSERT(lo < hi && range && range->lo <= lo && range->hi >= hi);
	end = range->hi;
	if (range->lo == lo && end == hi) {
		erase(r, &spot);
	} else if (range->lo == lo) {
		range->lo = hi;
	} else {
		range->hi = lo;
		if (end > hi) {
			int rc;

			forward(r, &spot);
			rc = insert(r, spot, (struct fs_range){ hi, end });
			if (rc)
				return rc;
		}
	}
	return 0;
}

bool stet_ranges_gap_(const struct fs_ranges *r, uint64_t *at, uint64_t end, uint64_t *ret_lo)
{
	struct spot spot = lower(r, *at);
	const struct fs_range *range;
	uint64_t lo = *at;

	/* Ranges do not touch (R1), so at most one step is needed. */
	while ((range = range_at(r, &spot)) && range->lo <= lo) {
		if (range->hi > lo)
			lo = range->hi;
		forward(r, &spot);
	}
	if (lo >= end)
		return false;
	*ret_lo = lo;
	*at = range && range->lo < end ? range->lo : end;
	return true;
}

bool stet_ranges_next_(const struct fs_ranges *r, uint64_t at, struct fs_range *ret)
{
	struct spot spot = lower(r, at + 1);
	const struct fs_range *range = range_at(r, &spot);

	if (range)
		*ret = *range;
	return range != NULL;
}

bool stet_ranges_has_(const struct fs_ranges *r, uint64_t at)
{
	struct fs_range range;

	return stet_ranges_next_(r, at, &range) && range.lo <= at;
}
