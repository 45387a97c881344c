/* space_internal.h - the table's memory, and what the files of this folder share.
 *
 * A slot is *mapped* when its segment can be named: its id is in `ids` and it has bitmaps. OPEN and
 * FULL slots are mapped, FREE ones are not, BAD ones are as long as somebody needs their blocks.
 */
#ifndef STET_SPACE_SPACE_INTERNAL_H
#define STET_SPACE_SPACE_INTERNAL_H

#include "base/bitmap.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/vec.h"
#include "space/space.h"

#include <inttypes.h>

#define STET_SPACE_WORDS_MAX (STET_SEG_BLOCKS_MAX / 64)

struct stet_slot {
	struct stet_hash_node node; /* in ids while mapped */
	uint64_t id;                /* of the segment, or of the last one; 0: never used */
	uint64_t opened;
	uint64_t last_death; /* 0: nothing that anybody saw has died */
	uint64_t *live;      /* owned; NULL: not mapped */
	uint64_t *held;      /* behind live, in the same memory */
	uint64_t *dying;     /* owned; of held: those in `runs`. NULL: none */
	uint32_t live_blocks, held_blocks, dying_blocks;
	uint32_t free_pos; /* index in free_heap; STET_SLOT_NONE when not FREE */
	enum stet_seg_state state;
	enum stet_seg_kind kind;
	bool log_pinned;
	bool picked; /* being cleaned */
};

/* Blocks that wait to be released. */
struct stet_space_run {
	struct stet_addr addr;
	uint32_t blocks;
	uint64_t birth;
	uint64_t cut;
	uint64_t epoch; /* of the space when it was added */
};

struct stet_space_page {
	struct stet_table_ptr ptr;
	bool loaded;
	bool dirty;
};

struct stet_space {
	/* --- set at create, then constant --- */
	uint64_t volume_id;
	uint64_t seg_start_block;
	uint32_t slot_count;
	uint32_t seg_blocks;
	uint32_t page_count;
	uint32_t page_entries;
	/* --- guarded by the volume's lock --- */
	struct stet_slot *slot;       /* owned; slot_count */
	struct stet_space_page *page; /* owned; page_count */
	struct stet_hash *ids;        /* owned; never grows, so finding in it changes nothing */
	uint32_t *free_heap;          /* owned; slot_count: FREE slots, the next to be used first */
	uint32_t free_n;
	uint32_t state_n[STET_SEG_BAD + 1]; /* slots by state */
	uint64_t next_seg_id;
	bool recovering; /* from the first page loaded to stet_space_recovered */
	uint64_t live_blocks, held_blocks, dying_blocks, pinned_blocks, reserved_blocks;
	STET_VEC(struct stet_space_run) runs; /* see release.c */
	size_t run_heap_n;
	uint64_t epoch; /* how often runs were released */
	struct stet_space_run last_run;
	bool has_last_run;
};

static inline bool stet_space_mapped_(const struct stet_slot *slot)
{
	return slot->live != NULL;
}

static inline struct stet_bitmap stet_space_map_(const struct stet_space *space, uint64_t *words)
{
	struct stet_bitmap map;

	stet_bitmap_init(&map, words, space->seg_blocks);
	return map;
}

static inline uint32_t stet_space_count_(const struct stet_space *space, uint64_t *words,
					 uint32_t first, uint32_t n)
{
	struct stet_bitmap map = stet_space_map_(space, words);

	return (uint32_t)stet_bitmap_count_range(&map, first, n);
}

static inline void stet_space_set_(const struct stet_space *space, uint64_t *words, uint32_t first,
				   uint32_t n)
{
	struct stet_bitmap map = stet_space_map_(space, words);

	stet_bitmap_set_range(&map, first, n);
}

static inline void stet_space_clear_(const struct stet_space *space, uint64_t *words,
				     uint32_t first, uint32_t n)
{
	struct stet_bitmap map = stet_space_map_(space, words);

	stet_bitmap_clear_range(&map, first, n);
}

/* --- freeslots.c --- */
/* The slot's state, id and last_death are final until it is removed again. */
void stet_space_free_add_(struct stet_space *space, uint32_t slot_no);
void stet_space_free_remove_(struct stet_space *space, uint32_t slot_no);
/* Which of two FREE slots is used first. */
bool stet_space_free_before_(const struct stet_space *space, uint32_t a, uint32_t b);

/* --- segment.c --- */
/* Gives the slot its bitmaps, all zero, without naming it yet. -ENOMEM: nothing changed. */
STET_CHECKED int stet_space_alloc_bitmaps_(struct stet_space *space, struct stet_slot *slot);
void stet_space_drop_bitmaps_(struct stet_slot *slot);
/* Changes the state, the counts and the heap of FREE slots; marks the page dirty. */
void stet_space_set_state_(struct stet_space *space, struct stet_slot *slot,
			   enum stet_seg_state state);
/* S2: a segment that nobody needs any more goes. Call after taking away a reason to keep it. */
void stet_space_settle_(struct stet_space *space, struct stet_slot *slot);
void stet_space_mark_dirty_(struct stet_space *space, const struct stet_slot *slot);
/* The slot of a mapped segment, NULL when the id is gone. */
struct stet_slot *stet_space_find_(const struct stet_space *space, uint64_t seg_id);

/* --- blocks.c --- */
/* Held blocks become free; they are in no run. */
void stet_space_unhold_(struct stet_space *space, struct stet_slot *slot, uint32_t first,
			uint32_t blocks);

/* --- release.c --- */
/* Makes sure that the next stet_space_run_add_ for this slot finds memory. */
STET_CHECKED int stet_space_run_reserve_(struct stet_space *space, struct stet_slot *slot);
/* The run's blocks are held, and in no run yet. */
void stet_space_run_add_(struct stet_space *space, struct stet_slot *slot,
			 const struct stet_space_run *run);

#endif
