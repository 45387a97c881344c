/* release.c - runs that no root names any more, waiting until nobody can need them.
 *
 * A run waits for two things, in this order: that the older checkpoint slot reaches its cut, then
 * that no view reads it. One array holds both kinds:
 *
 *	runs:  | 0 .. run_heap_n: a heap, lowest cut first | the rest: kept by views only |
 *
 * so that moving a run from the first kind to the second takes no memory, and releasing cannot fail.
 * The run added last is kept apart: the next one often continues it (frees come in key order, and
 * what was written together lies together).
 *
 * I1. runs has room for last_run at any time.
 * I2. The runs' blocks are exactly the dying blocks, each in one run.
 * I3. pinned_blocks is the sum of the second kind.
 * Cost: a release looks at the runs that it releases and at those that views keep, not at others.
 */
#include "space/space_internal.h"

#include "base/assert.h"
#include "base/mem.h"

/* Puts the run into the heap, whose hole is at pos. */
static void sift_up(struct stet_space_run *heap, size_t pos, const struct stet_space_run *run)
{
	while (pos > 0 && run->cut < heap[(pos - 1) / 2].cut) {
		heap[pos] = heap[(pos - 1) / 2];
		pos = (pos - 1) / 2;
	}
	heap[pos] = *run;
}

/* Puts the run into the heap of n, whose hole is at the top. */
static void sift_down(struct stet_space_run *heap, size_t n, const struct stet_space_run *run)
{
	size_t pos = 0;

	for (;;) {
		size_t child = 2 * pos + 1;

		if (child >= n)
			break;
		if (child + 1 < n && heap[child + 1].cut < heap[child].cut)
			child++;
		if (heap[child].cut >= run->cut)
			break;
		heap[pos] = heap[child];
		pos = child;
	}
	heap[pos] = *run;
}

/* Puts the run that was kept apart into the heap. */
static void push_last(struct stet_space *space)
{
	struct stet_space_run last = space->last_run;

	if (!space->has_last_run)
		return;
	space->has_last_run = false;
	STET_ASSERT_CMP(space->runs.n, <, space->runs.cap); /* I1 */
	if (space->run_heap_n < space->runs.n) /* the first of the second kind makes place */
		space->runs.v[space->runs.n] = space->runs.v[space->run_heap_n];
	space->runs.n++;
	sift_up(space->runs.v, space->run_heap_n++, &last);
}

/* Moves the run with the lowest cut out of the heap, to be the first of the second kind. */
static void pop_lowest(struct stet_space *space)
{
	struct stet_space_run *heap = space->runs.v;
	struct stet_space_run lowest = heap[0];
	struct stet_space_run tail = heap[--space->run_heap_n];

	if (space->run_heap_n > 0)
		sift_down(heap, space->run_heap_n, &tail);
	heap[space->run_heap_n] = lowest;
}

int stet_space_run_reserve_(struct stet_space *space, struct stet_slot *slot)
{
	int rc = stet_vec_reserve(&space->runs, 2); /* last_run, and the one that replaces it */

	if (rc)
		return rc;
	if (!slot->dying) {
		slot->dying = stet_calloc(space->seg_blocks / 64, sizeof(*slot->dying));
		if (!slot->dying)
			return -ENOMEM;
	}
	return 0;
}

/* Whether b lies behind a and shares its fate. */
static bool continues(const struct stet_space_run *a, const struct stet_space_run *b)
{
	return a->birth == b->birth && a->cut == b->cut && a->epoch == b->epoch &&
	       stet_addr_seg(a->addr) == stet_addr_seg(b->addr) &&
	       stet_addr_block(a->addr) + a->blocks == stet_addr_block(b->addr);
}

void stet_space_run_add_(struct stet_space *space, struct stet_slot *slot,
			 const struct stet_space_run *added)
{
	struct stet_space_run *last = &space->last_run;
	struct stet_space_run tagged = *added;
	const struct stet_space_run *run = &tagged;

	tagged.epoch = space->epoch;

	stet_space_set_(space, slot->dying, stet_addr_block(run->addr), run->blocks);
	slot->dying_blocks += run->blocks;
	space->dying_blocks += run->blocks;
	if (slot->last_death < run->cut)
		slot->last_death = run->cut;
	if (space->has_last_run && continues(last, run)) {
		last->blocks += run->blocks;
		return;
	}
	if (space->has_last_run && continues(run, last)) {
		last->addr = run->addr;
		last->blocks += run->blocks;
		return;
	}
	push_last(space);
	*last = *run;
	space->has_last_run = true;
}

static void release_run(struct stet_space *space, const struct stet_space_run *run)
{
	struct stet_slot *slot = stet_space_find_(space, stet_addr_seg(run->addr));
	uint32_t first = stet_addr_block(run->addr);

	STET_ASSERT(slot);
	STET_ASSERT_CMP(stet_space_count_(space, slot->dying, first, run->blocks), ==, run->blocks);
	stet_space_clear_(space, slot->dying, first, run->blocks);
	slot->dying_blocks -= run->blocks;
	space->dying_blocks -= run->blocks;
	if (slot->dying_blocks == 0) {
		stet_free(slot->dying);
		slot->dying = NULL;
	}
	stet_space_unhold_(space, slot, first, run->blocks); /* may be the end of the segment */
}

/* Releases the run at index i of the second kind unless a view needs it; whether it did. */
static bool try_release(struct stet_space *space, size_t i, stet_space_pinned_fn *pinned, void *arg)
{
	struct stet_space_run run = space->runs.v[i];

	if (pinned && pinned(arg, run.birth, run.cut, run.blocks))
		return false;
	space->runs.v[i] = space->runs.v[--space->runs.n];
	release_run(space, &run);
	return true;
}

/* keep: the cut at which what was added since the last release stays; 0: none. It waits as if for a view. */
static void release(struct stet_space *space, uint64_t older_cut, uint64_t keep,
		    stet_space_pinned_fn *pinned, void *arg)
{
	size_t i;

	push_last(space);
	space->pinned_blocks = 0;
	for (i = space->run_heap_n; i < space->runs.n;) {
		uint32_t blocks = space->runs.v[i].blocks;

		if (try_release(space, i, pinned, arg))
			continue;
		space->pinned_blocks += blocks;
		i++;
	}
	while (space->run_heap_n > 0 && space->runs.v[0].cut <= older_cut) {
		uint32_t blocks = space->runs.v[0].blocks;
		bool stays = keep && space->runs.v[0].cut == keep &&
			     space->runs.v[0].epoch == space->epoch;

		pop_lowest(space);
		if (stays || !try_release(space, space->run_heap_n, pinned, arg))
			space->pinned_blocks += blocks; /* I3 */
	}
	space->epoch++;
}

void stet_space_release(struct stet_space *space, uint64_t older_cut, stet_space_pinned_fn *pinned,
			void *arg)
{
	release(space, older_cut, 0, pinned, arg);
}

void stet_space_release_same(struct stet_space *space, uint64_t older_cut,
			     stet_space_pinned_fn *pinned, void *arg)
{
	release(space, older_cut, older_cut, pinned, arg);
}
