/* space.h - the segment table in memory: where segments lie, which blocks are needed, what is free.
 *
 * Every slot of the device is FREE, OPEN, FULL or BAD. A segment has two bitmaps: `live`, the blocks
 * that the newest root names (exactly what a checkpoint writes out), and `held`, the blocks that
 * must not be reused although that root does not name them: placed by the log and not yet in a
 * root, or gone from the root and still needed by the older checkpoint slot or by an open view.
 *
 * S1. live and held are disjoint. live changes only while a checkpoint applies the delta.
 * S2. A FULL segment becomes FREE when live = held = 0 and the log does not pin it; but none does
 *     between stet_space_load_page and stet_space_recovered.
 * S3. Ids rise and are never given twice; an id that is gone maps to nothing.
 * S4. live + held of each segment, and the totals, always equal the bits set.
 * S5. Blocks of the table's own pages and of checkpoint records are only ever held.
 * Not thread-safe: guarded by the volume's lock. Does no I/O.
 */
#ifndef STET_SPACE_SPACE_H
#define STET_SPACE_SPACE_H

#include "base/error.h"
#include "base/text.h"
#include "format/checkpoint.h"
#include "format/segtable.h"
#include "format/superblock.h"
#include "format/types.h"

struct stet_space;

/* A table with every slot FREE and never used. -ENOMEM. The superblock is copied. */
STET_CHECKED int stet_space_create(const struct stet_superblock *sb, struct stet_space **ret);
void stet_space_destroy(struct stet_space *space); /* NULL ok */

/* --- loading: pages from the checkpoint, then segments named by the log --- */
/* Takes one verified page (stet_table_page_verify was called). `ptr` is where it lies. */
STET_CHECKED int stet_space_load_page(struct stet_space *space, uint32_t page_no,
				      const uint8_t *page, const struct stet_table_ptr *ptr);
/* All pages are in: indexes ids (-EUCLEAN: an id twice, or one >= next_seg_id) and holds the block of
 * each page (-EUCLEAN: it lies in no segment, in another slot, or where something else is). */
STET_CHECKED int stet_space_load_done(struct stet_space *space, uint64_t next_seg_id);
/* The log says that segment `id` was opened in `slot`. The slot's former segment must be needed by
 * nobody: no live or held block, no log pin (-EUCLEAN). Idempotent for the same pair. State becomes
 * FULL (closed) unless it is BAD. -ESTALE: a later segment is known to be in that slot; nothing
 * changed, and what the log says of this one is history. -ENOMEM. */
STET_CHECKED int stet_space_adopt(struct stet_space *space, uint64_t id, uint32_t slot,
				  enum stet_seg_kind kind, uint64_t serial);
/* The log goes on in this segment, which it pins: FULL -> OPEN. False: it is gone or BAD. */
bool stet_space_reopen(struct stet_space *space, uint64_t seg_id);
/* Roll-forward is over: OPEN segments that the log does not pin become FULL, FULL ones that nobody
 * needs become FREE. */
void stet_space_recovered(struct stet_space *space);

/* --- places --- */
/* Slot of a segment, STET_SLOT_NONE when the id is gone. O(1). */
uint32_t stet_space_slot(const struct stet_space *space, uint64_t seg_id);
/* Byte offset on the device of `blocks` blocks at addr. -ESTALE: the segment is gone. -EUCLEAN: the
 * run leaves its segment. */
STET_CHECKED int stet_space_locate(const struct stet_space *space, struct stet_addr addr,
				   uint32_t blocks, uint64_t *ret_off_bytes);
uint64_t stet_space_slot_offset(const struct stet_space *space, uint32_t slot);

/* --- segments --- */
/* Opens the FREE slot whose last death is oldest under a new id. `spare`: how many free slots must
 * remain afterwards (ordinary callers leave the reserve; checkpoint and cleaner pass 0). -ENOSPC,
 * -ENOMEM. */
STET_CHECKED int stet_space_open_segment(struct stet_space *space, enum stet_seg_kind kind,
					 uint64_t serial, uint32_t spare, struct stet_place *ret);
void stet_space_close_segment(struct stet_space *space,
			      uint64_t seg_id); /* OPEN -> FULL (or FREE) */
/* A write or flush there failed: BAD from now on; the id lives as long as its blocks are needed. An
 * id that is gone: nothing happens. */
void stet_space_retire(struct stet_space *space, uint64_t seg_id);
/* Roll-forward may read this segment's summaries: it stays. Unpin may free it. The segment must
 * exist (asserted); pins do not count: pinning twice is pinning once. `serial`: when its summaries
 * died. */
void stet_space_log_pin(struct stet_space *space, uint64_t seg_id);
void stet_space_log_unpin(struct stet_space *space, uint64_t seg_id, uint64_t serial);

/* --- blocks --- */
/* The log placed these blocks; no root names them yet. Asserts that they were neither live nor held.*/
void stet_space_hold(struct stet_space *space, struct stet_addr addr, uint32_t blocks);
/* For data read from disk (roll-forward): the same, but -EUCLEAN instead of an assert. Blocks that
 * are already held stay held (a log may name a placed run again), unless they were freed or dropped
 * and await release (-EUCLEAN). */
STET_CHECKED int stet_space_hold_checked(struct stet_space *space, struct stet_addr addr,
					 uint32_t blocks);
/* The root being built names them: held -> live. -EUCLEAN when they were not held, or were dropped. */
STET_CHECKED int stet_space_make_live(struct stet_space *space, struct stet_addr addr,
				      uint32_t blocks);
/* The root being built (cut `cut`) no longer names them: live -> held, until released. `birth`: the
 * serial at which they became visible. -ENOMEM; -EUCLEAN when they were not live. */
STET_CHECKED int stet_space_free(struct stet_space *space, struct stet_addr addr, uint32_t blocks,
				 uint64_t birth, uint64_t cut);
/* Held blocks that no root will ever name (superseded before the checkpoint, aborted): held until
 * released. cut 0: nobody can need them, released at once. -ENOMEM (not with cut 0); -EUCLEAN when
 * they were not held, or were dropped before. */
STET_CHECKED int stet_space_drop(struct stet_space *space, struct stet_addr addr, uint32_t blocks,
				 uint64_t birth, uint64_t cut);
/* Releases every freed or dropped run with cut <= older_cut that no view pins. `pinned(arg, birth,
 * cut)`: whether an open view may still read a block born at `birth` that left at `cut`; it must not
 * call the table. pinned NULL: no view is open. older_cut never declines. */
typedef bool stet_space_pinned_fn(void *arg, uint64_t birth, uint64_t cut, uint32_t blocks);
void stet_space_release(struct stet_space *space, uint64_t older_cut, stet_space_pinned_fn *pinned,
			void *arg);
/* The same when the newest checkpoint has the older one's cut, as nothing was ordered between them: what was
 * freed or dropped at that cut since the last release is still the older one's, and stays until the next. */
void stet_space_release_same(struct stet_space *space, uint64_t older_cut,
			     stet_space_pinned_fn *pinned, void *arg);
bool stet_space_is_live(const struct stet_space *space, struct stet_addr addr);
bool stet_space_is_held(const struct stet_space *space, struct stet_addr addr);

/* --- admission: blocks promised to what is accepted but not yet live --- */
enum stet_space_class {
	STET_SPACE_NORMAL,     /* leaves the reserve alone */
	STET_SPACE_PRIVILEGED, /* deleting, aborting, cleaning, checkpoints: may use the reserve */
};
/* -ENOSPC when live + pinned + reserved + blocks would exceed the class's limit. */
STET_CHECKED int stet_space_reserve(struct stet_space *space, uint64_t blocks,
				    enum stet_space_class class);
void stet_space_unreserve(struct stet_space *space, uint64_t blocks);

struct stet_space_usage {
	uint64_t capacity_blocks; /* slots that are not BAD */
	uint64_t reserve_blocks;  /* kept for deleting and cleaning: 10 % + 4 MiB at most */
	uint64_t live_blocks;
	uint64_t held_blocks;
	uint64_t dying_blocks;    /* of held: freed or dropped, wait for their release */
	uint64_t pinned_blocks;   /* of held: kept by views at the last release */
	uint64_t reserved_blocks; /* admission */
	uint32_t slots_free, slots_open, slots_full, slots_bad, slots_total;
	uint32_t reserve_slots; /* slots that ordinary opens leave free */
};
void stet_space_usage(const struct stet_space *space, struct stet_space_usage *ret);

/* --- cleaning --- */
struct stet_seg_info {
	uint64_t id;
	uint32_t slot;
	uint32_t live_blocks, held_blocks;
	enum stet_seg_state state;
	enum stet_seg_kind kind;
	bool log_pinned;
	uint64_t opened, last_death;
};
/* A policy: the worth of cleaning a segment; 0 = do not. Pure. */
typedef double stet_space_score_fn(const struct stet_seg_info *seg, uint32_t seg_blocks,
				   uint64_t now_serial);
double stet_space_score_greedy(const struct stet_seg_info *seg, uint32_t seg_blocks,
			       uint64_t now_serial);
/* The best FULL, unpinned segment with live blocks and not wholly live that is not already marked as
 * being cleaned; marks it. -ENOENT: none is worth it. */
STET_CHECKED int stet_space_pick(struct stet_space *space, stet_space_score_fn *score,
				 uint64_t now_serial, struct stet_seg_info *ret);
/* The cleaner gives the segment up: it may be picked again. An id that is gone: nothing happens. */
void stet_space_unpick(struct stet_space *space, uint64_t seg_id);
void stet_space_info(const struct stet_space *space, uint32_t slot, struct stet_seg_info *ret);
/* Copies the live bitmap of a slot (seg_blocks bits; zeros when it holds no segment). */
void stet_space_live_bitmap(const struct stet_space *space, uint32_t slot, uint64_t *ret_bitmap);

/* --- writing the table: called by the checkpoint when the root is final --- */
uint32_t stet_space_page_count(const struct stet_space *space);
/* Whether an entry changed since it was encoded. (last_death alone does not count: on disk it matters
 * for FREE slots only, and becoming FREE counts.) */
bool stet_space_page_dirty(const struct stet_space *space, uint32_t page_no);
/* Where the page lies now (addr none: never written). */
struct stet_table_ptr stet_space_page_ptr(const struct stet_space *space, uint32_t page_no);
/* The page's new place; the caller holds it and drops the old one with the checkpoint's cut (S5). */
void stet_space_page_placed(struct stet_space *space, uint32_t page_no,
			    const struct stet_table_ptr *ptr);
/* Serialises a page as of now and clears its dirty mark. */
void stet_space_page_encode(struct stet_space *space, uint32_t page_no, uint64_t sequence,
			    uint8_t page[STET_BLOCK_SIZE]);
/* What page_encode gave did not reach the device: the page counts as dirty again. */
void stet_space_page_redirty(struct stet_space *space, uint32_t page_no);
uint64_t stet_space_next_seg_id(const struct stet_space *space);

/* Walks everything and compares all counts with the bitmaps (S1-S4). Asserts. For tests. */
void stet_space_check(const struct stet_space *space);

#endif
