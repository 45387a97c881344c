/* log_unit.h - a volume of segments with a log, and a model of what its log holds.
 *
 * The model knows every batch that was tried, by a number that is its wall_ns. A batch holds random
 * records and payload on the main and the cold head. What roll-forward delivers is compared with it.
 */
#ifndef STET_TEST_LOG_UNIT_H
#define STET_TEST_LOG_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/vec.h"
#include "device/device.h"
#include "log/log.h"
#include "space/space.h"

#define LT_VOLUME_ID UINT64_C(0x5e7f51061234abcd)

struct lt_run {
	struct stet_addr addr;
	uint16_t blocks;
	uint32_t crc; /* of all its bytes */
};

struct lt_batch {
	uint64_t no; /* its wall_ns */
	uint64_t cut;
	uint64_t after;          /* number of the batch completed before it was tried; 0: none */
	struct stet_buf records; /* as in the log */
	STET_VEC(struct lt_run) runs;
};

/* What a checkpoint holds. */
struct lt_ckpt {
	struct stet_ckpt_record rec;
	uint64_t last_batch; /* completed before it */
	uint64_t alive_from; /* payload of batches below this number is deleted */
	STET_VEC(uint8_t *) pages;
	STET_VEC(struct stet_table_ptr) ptrs;
};

struct lt_model {
	STET_VEC(struct lt_batch *) tried; /* tried.v[no - 1] */
	STET_VEC(uint64_t) order;          /* numbers of the completed ones */
};

struct lt_vol {
	struct stet_device *device; /* borrowed */
	struct stet_superblock sb;
	struct stet_space *space;
	struct stet_log *log;
	struct lt_model *model;
	struct stet_random random;
	uint64_t alive_from; /* as of the newest checkpoint */
	STET_VEC(struct lt_ckpt *) ckpts;
	/* while mounting */
	STET_VEC(uint64_t) seen;
	struct stet_buf seen_records;
};

/* A group being made, and its memory. */
struct lt_group {
	struct stet_log_group *group;
	struct lt_batch *batch; /* borrowed from the model; NULL: a group without COMMIT */
	STET_VEC(uint8_t *) memory;
};

void lt_model_init(struct lt_model *model);
void lt_model_release(struct lt_model *model);

struct stet_superblock lt_sb(uint32_t slot_count, uint32_t seg_blocks);
static inline uint64_t lt_device_bytes(const struct stet_superblock *sb)
{
	return sb->device_blocks * STET_BLOCK_SIZE;
}

/* A new volume on the device, with its first checkpoint. */
void lt_mkfs(struct lt_vol *vol, struct stet_device *device, const struct stet_superblock *sb,
	     struct lt_model *model, uint64_t seed);
/* Opens the volume at the checkpoint; vol->seen is what was delivered. Returns recover's result; after
 * an error only lt_close is possible. */
int lt_mount(struct lt_vol *vol, struct stet_device *device, const struct stet_superblock *sb,
	     struct lt_model *model, const struct lt_ckpt *ckpt, bool accept_prefix, uint64_t seed,
	     struct stet_log_recovery *ret);
void lt_close(struct lt_vol *vol);

/* Fills a COMMIT group with up to max_blocks of payload and some records. Returns the first error. */
int lt_fill(struct lt_vol *vol, struct lt_group *g, uint32_t max_blocks, uint32_t max_records);
int lt_begin_commit(struct lt_vol *vol, struct lt_group *g, bool privileged);
int lt_end_commit(struct lt_vol *vol, struct lt_group *g);
void lt_complete(struct lt_vol *vol, struct lt_group *g);
void lt_abandon(struct lt_vol *vol, struct lt_group *g);
/* All of it, with a flush; asserts success. */
void lt_commit(struct lt_vol *vol, uint32_t max_blocks, uint32_t max_records);
/* One run of payload from the group's own memory. */
int lt_put(struct lt_vol *vol, struct lt_group *g, enum stet_seg_kind head,
	   enum stet_payload_kind kind, uint16_t blocks, bool whole);

/* Checkpoints: deletes the payload of the oldest batches while more than keep_blocks are alive. The
 * two newest are kept. */
void lt_checkpoint(struct lt_vol *vol, uint64_t keep_blocks);
struct lt_ckpt *lt_newest(const struct lt_vol *vol);
void lt_ckpt_free(struct lt_ckpt *ckpt);
struct lt_ckpt *lt_ckpt_copy(const struct lt_ckpt *ckpt);

/* Asserts that what was delivered is what completed after the checkpoint, at least up to batch `acked`,
 * and all its payload is there. tail_ok: a batch that was tried right behind may be there too. */
void lt_check_seen(struct lt_vol *vol, const struct lt_ckpt *ckpt, uint64_t acked, bool tail_ok);
/* The model forgets what was completed but not delivered. */
void lt_adopt_seen(struct lt_vol *vol, const struct lt_ckpt *ckpt);

#endif
