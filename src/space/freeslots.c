/* freeslots.c - which FREE slot is used next: a heap of slot numbers.
 *
 * I1. Slots that were never used come first, in the order of the device; then the one whose last
 *     death is oldest, so that history reaches back as far as space allows.
 * I2. No slot in the heap is used before its parent; free_pos of each is its index.
 * I3. What decides the order does not change while a slot is in the heap.
 */
#include "space/space_internal.h"

#include "base/assert.h"

bool stet_space_free_before_(const struct stet_space *space, uint32_t a, uint32_t b)
{
	const struct stet_slot *sa = &space->slot[a];
	const struct stet_slot *sb = &space->slot[b];

	if ((sa->id == 0) != (sb->id == 0))
		return sa->id == 0;
	if (sa->last_death != sb->last_death)
		return sa->last_death < sb->last_death;
	return a < b;
}

static void put(struct stet_space *space, uint32_t pos, uint32_t slot_no)
{
	space->free_heap[pos] = slot_no;
	space->slot[slot_no].free_pos = pos;
}

static void sift_up(struct stet_space *space, uint32_t pos, uint32_t slot_no)
{
	while (pos > 0) {
		uint32_t parent = (pos - 1) / 2;

		if (!stet_space_free_before_(space, slot_no, space->free_heap[parent]))
			break;
		put(space, pos, space->free_heap[parent]);
		pos = parent;
	}
	put(space, pos, slot_no);
}

static void sift_down(struct stet_space *space, uint32_t pos, uint32_t slot_no)
{
	for (;;) {
		uint32_t child = 2 * pos + 1;

		if (child >= space->free_n)
			break;
		if (child + 1 < space->free_n &&
		    stet_space_free_before_(space, space->free_heap[child + 1],
					    space->free_heap[child]))
			child++;
		if (!stet_space_free_before_(space, space->free_heap[child], slot_no))
			break;
		put(space, pos, space->free_heap[child]);
		pos = child;
	}
	put(space, pos, slot_no);
}

void stet_space_free_add_(struct stet_space *space, uint32_t slot_no)
{
	STET_ASSERT_CMP(space->free_n, <, space->slot_count);
	sift_up(space, space->free_n++, slot_no);
}

void stet_space_free_remove_(struct stet_space *space, uint32_t slot_no)
{
	uint32_t pos = space->slot[slot_no].free_pos;
	uint32_t last;

	STET_ASSERT_CMP(pos, <, space->free_n);
	STET_ASSERT_CMP(space->free_heap[pos], ==, slot_no);
	last = space->free_heap[--space->free_n];
	space->slot[slot_no].free_pos = STET_SLOT_NONE;
	if (last == slot_no)
		return;
	if (pos > 0 && stet_space_free_before_(space, last, space->free_heap[(pos - 1) / 2]))
		sift_up(space, pos, last);
	else
		sift_down(space, pos, last);
}
