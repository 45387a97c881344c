/* log_internal.h - what the files of the log share. */
#ifndef STET_LOG_LOG_INTERNAL_H
#define STET_LOG_LOG_INTERNAL_H

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/vec.h"
#include "log/log.h"

#include <inttypes.h>
#include <stdatomic.h>

/* A segment with fewer blocks left than this is left behind. */
#define STET_LOG_TAIL_BLOCKS 8u

#define STET_LOG_HEADER_BYTES sizeof(struct stet_pseg_disk)

/* Where something may be written: a block of a segment. seg_id 0: nowhere. */
struct stet_log_spot {
	uint64_t seg_id;
	uint32_t slot;
	uint32_t block; /* may equal the segment's size: full */
};

struct stet_log_head {
	struct stet_log_spot at;    /* where its next partial segment goes */
	struct stet_log_spot spare; /* the main head's other candidate (L2) */
};

/* A segment that waits to be written as a SEGMENT record. */
struct stet_log_opened {
	uint64_t seg_id;
	uint32_t slot;
	enum stet_seg_kind kind;
};

/* A segment pinned for roll-forward. */
struct stet_log_pin {
	uint64_t seg_id;
	uint64_t last_serial; /* of its last completed partial segment; 0: none yet */
};

/* How many bytes the chain had taken when it reached a serial. */
struct stet_log_mark {
	uint64_t serial;
	uint64_t chain_bytes;
};

struct stet_log {
	/* --- set at creation, then constant --- */
	struct stet_device *device; /* borrowed */
	struct stet_space *space;   /* borrowed */
	struct stet_superblock sb;
	/* --- atomic --- */
	_Atomic bool dead; /* L4 */
	/* --- under the volume's lock --- */
	uint64_t serial; /* the last one given */
	uint64_t durable;
	uint64_t generation;
	uint64_t summary_bytes; /* written, see log.h */
	/* the last completed partial segment of the chain, and what it names */
	uint64_t tail_serial;
	uint64_t tail_check;
	struct stet_place next1, next2;
	struct stet_log_head head[STET_SEGK_COUNT];
	struct stet_log_group *owner[STET_SEGK_COUNT]; /* borrowed: the open group that uses it */
	bool fence; /* the next chain group starts with an empty partial segment, flushed */
	uint64_t chain_bytes;
	STET_VEC(struct stet_log_spot) pool; /* empty open segments of the main head */
	STET_VEC(struct stet_log_opened) opened;
	STET_VEC(struct stet_log_pin) pins;
	STET_VEC(struct stet_log_mark) marks;
};

/* A partial segment being built. */
struct stet_log_pseg {
	struct stet_pseg header;
	enum stet_seg_kind head;
	struct stet_buf summary;       /* room for the header, the payload table, then records */
	STET_VEC(struct iovec) memory; /* [0] the summary, then the caller's payload */
};

enum stet_log_group_state { STET_LOG_BUILDING, STET_LOG_ENDED, STET_LOG_WRITTEN, STET_LOG_BROKEN };

struct stet_log_group {
	struct stet_log *log; /* borrowed */
	bool privileged;
	bool dipped; /* has taken its segment of the reserve */
	bool uses[STET_SEGK_COUNT];
	enum stet_log_group_state state;
	struct stet_log_head head[STET_SEGK_COUNT];  /* as if the group were complete */
	struct stet_log_pseg *open[STET_SEGK_COUNT]; /* borrowed from side or chain */
	uint64_t put_blocks[STET_SEGK_COUNT];
	STET_VEC(struct stet_log_pseg *) side;  /* owned; off the chain */
	STET_VEC(struct stet_log_pseg *) chain; /* owned; in its order */
	STET_VEC(struct stet_log_spot) took;    /* segments that it took for the chain */
	struct stet_buf records;
	size_t announced;   /* entries of log->opened that its records hold */
	bool fenced;        /* chain.v[0] is a fence */
	bool inner_flush;   /* before the last of the chain */
	bool flushed;       /* perform ended with a flush */
	size_t chain_tried; /* how many of the chain were handed to the device */
	enum stet_log_failure failure;
	int error;
	struct stet_log_pseg *failed; /* borrowed: its write failed; NULL: none */
};

/* --- spots and places --- */
static inline struct stet_place stet_log_place_(struct stet_log_spot spot)
{
	if (spot.seg_id == 0)
		return (struct stet_place){ .addr = STET_ADDR_NONE };
	return (struct stet_place){
		.addr = stet_addr_make(spot.seg_id, spot.block),
		.slot = spot.slot,
	};
}

static inline struct stet_log_spot stet_log_spot_(struct stet_place place)
{
	return (struct stet_log_spot){
		.seg_id = stet_addr_seg(place.addr),
		.slot = place.slot,
		.block = stet_addr_block(place.addr),
	};
}

static inline bool stet_log_place_valid_(const struct stet_superblock *sb, struct stet_place place,
					 uint32_t blocks)
{
	return place.slot < sb->slot_count && stet_addr_fits(place.addr, blocks, sb->seg_blocks);
}

/* The place must be valid. */
static inline uint64_t stet_log_offset_(const struct stet_superblock *sb, struct stet_place place)
{
	uint64_t block = sb->seg_start_block + (uint64_t)place.slot * sb->seg_blocks +
			 stet_addr_block(place.addr);

	return block * STET_BLOCK_SIZE;
}

static inline uint32_t stet_log_pseg_blocks_(const struct stet_pseg *pseg)
{
	return (uint32_t)pseg->summary_blocks + pseg->payload_blocks;
}

/* --- heads.c --- */
/* Makes the head the group's until it completes or is abandoned. -EROFS: the chain cannot go on. */
STET_CHECKED int stet_log_use_head_(struct stet_log_group *group, enum stet_seg_kind head);
/* Blocks left in the head's segment. */
uint32_t stet_log_head_room_(const struct stet_log_group *group, enum stet_seg_kind head);
/* Leaves the head's segment for another one. -ENOSPC, -ENOMEM: nothing changed. */
STET_CHECKED int stet_log_next_segment_(struct stet_log_group *group, enum stet_seg_kind head);
/* Makes sure that the main head has a spare. -ENOSPC, -ENOMEM. */
STET_CHECKED int stet_log_ensure_spare_(struct stet_log_group *group);
/* Completion: the group's heads become the log's. */
void stet_log_heads_complete_(struct stet_log_group *group);
/* Abandoning: the log's heads as before the group, except where something was written. */
void stet_log_heads_abandon_(struct stet_log_group *group);

/* --- chain.c --- */
/* The entry of a pinned segment, or NULL. Valid until the next pin or unpin. */
struct stet_log_pin *stet_log_pin_find_(struct stet_log *log, uint64_t seg_id);
/* Pins it. Room was reserved in log->pins. */
void stet_log_pin_(struct stet_log *log, uint64_t seg_id);
void stet_log_unpin_(struct stet_log *log, uint64_t seg_id);
/* A partial segment of the chain is complete. */
void stet_log_advance_(struct stet_log *log, const struct stet_pseg *pseg);

/* --- build.c --- */
/* Opens a partial segment on the head with room for `need` blocks of payload of the block_count that
 * are coming (both 0: none). -ENOSPC, -ENOMEM, -EROFS. */
STET_CHECKED int stet_log_open_pseg_(struct stet_log_group *group, enum stet_seg_kind head,
				     uint32_t need, uint32_t block_count);
/* Closes the head's open partial segment, if any; an empty one is forgotten. -ENOSPC, -ENOMEM. */
STET_CHECKED int stet_log_close_pseg_(struct stet_log_group *group, enum stet_seg_kind head);
/* The same for one that is written though it has no payload. */
STET_CHECKED int stet_log_close_chain_(struct stet_log_group *group);
void stet_log_group_destroy_(struct stet_log_group *group);

/* --- walk.c --- */
/* A position in the chain: between a partial segment and the one after it. */
struct stet_log_walk {
	struct stet_place next1, next2;
	uint64_t check;
	uint64_t serial;
	uint64_t generation;
};

struct stet_log_found {
	struct stet_pseg pseg;
	struct stet_buf summary; /* verified */
	struct stet_buf other;   /* the losing candidate's */
};

/* Steps over the next partial segment. -ENOENT: the chain ends here. Other errors: a candidate could
 * not be read, and the other one is not valid. The walk moves on success only. */
STET_CHECKED int stet_log_step_(struct stet_log *log, struct stet_log_walk *walk,
				struct stet_log_found *found);
/* Whether something that was to be the next partial segment lies there, but does not verify. */
bool stet_log_torn_(struct stet_log *log, const struct stet_log_walk *walk);
void stet_log_found_release_(struct stet_log_found *found);
/* Reads the payload and compares it with the table. -EUCLEAN: it differs. */
STET_CHECKED int stet_log_verify_payload_(struct stet_log *log, const struct stet_pseg *pseg,
					  const uint8_t *summary);

/* --- scan.c --- */
/* As stet_log_scan_segment for any segment, from a block on. */
STET_CHECKED int stet_log_scan_(struct stet_log *log, struct stet_place from, stet_log_pseg_fn *fn,
				void *arg);

#endif
