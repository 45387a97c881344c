/* log.h - segments as a log: heads, partial segments, checkpoint slots, roll-forward.
 *
 * A *group* is what one write-and-flush makes: payload on any heads, records on the main chain. It is
 * built under the volume's lock, performed without it, and completed under it again. Nothing about a
 * group is visible in the log's state until it completes, so a failed write is retried elsewhere by
 * abandoning the group and building it anew.
 *
 * L1. The chain: each partial segment of the main head lies at next1 or next2 of its predecessor.
 * L2. next2 is always the start of another, empty segment that the log keeps open.
 * L3. Payload outside the chain is flushed before a COMMIT that names it is written; so is a batch of
 *     more than 16 MiB before its COMMIT.
 * L4. A flush that failed is never retried: the log is dead until reopened.
 */
#ifndef STET_LOG_LOG_H
#define STET_LOG_LOG_H

#include "base/error.h"
#include "device/device.h"
#include "format/checkpoint.h"
#include "format/summary.h"
#include "format/superblock.h"
#include "space/space.h"

struct stet_log;
struct stet_log_group;

/* The caller keeps device and space alive. The log starts without a position: format or recover. */
STET_CHECKED int stet_log_create(struct stet_device *device, struct stet_space *space,
				 const struct stet_superblock *sb, struct stet_log **ret);
void stet_log_destroy(struct stet_log *log); /* NULL ok */

/* A new volume: opens the first two chain segments; generation 1. -ENOSPC. */
STET_CHECKED int stet_log_format(struct stet_log *log);

/* Gives the next serial of the volume's one counter; and the last one given. */
uint64_t stet_log_next_serial(struct stet_log *log);
uint64_t stet_log_last_serial(const struct stet_log *log);
/* Bytes of headers, payload tables and records since open, without what fills their last blocks. */
uint64_t stet_log_summary_bytes(const struct stet_log *log);
/* Highest serial whose partial segment is known to be flushed. */
uint64_t stet_log_durable(const struct stet_log *log);

/* --- a group --- */
/* After an error of put or end only stet_log_abandon is possible. */
/* `privileged`: may take segments of the reserve. Two groups may be open at once only if they use
 * different heads. -EROFS: the log is dead. -ENOMEM. */
STET_CHECKED int stet_log_begin(struct stet_log *log, bool privileged, struct stet_log_group **ret);
/* Places up to block_count blocks on the head of `head`; *ret_blocks (>= 1) of them lie in one run at
 * *ret_addr and are held in `space`; the caller comes back for the rest. data: borrowed until the
 * group is destroyed; must not change until then. -ENOSPC, -ENOMEM. */
STET_CHECKED int stet_log_put_payload(struct stet_log_group *group, enum stet_seg_kind head,
				      enum stet_payload_kind kind, uint64_t owner, uint64_t offset,
				      const uint8_t *data, const uint32_t *crcs,
				      uint16_t block_count, struct stet_addr *ret_addr,
				      uint16_t *ret_blocks);
/* As put_payload, but all blocks in one run or -ENOSPC (nodes). */
STET_CHECKED int stet_log_put_whole(struct stet_log_group *group, enum stet_seg_kind head,
				    enum stet_payload_kind kind, uint64_t owner, uint64_t offset,
				    const uint8_t *data, const uint32_t *crcs, uint16_t block_count,
				    struct stet_addr *ret_addr);
/* Appends a record to the group's batch (copied). */
STET_CHECKED int stet_log_put_record(struct stet_log_group *group, enum stet_record_type type,
				     const void *key, size_t key_bytes, const void *value,
				     size_t value_bytes);
/* Closes the group. kind COMMIT: the batch counts once this is durable, `cut` is its highest
 * operation serial. PAYLOAD: no records were put. CHECKPOINT, IDLE likewise. flush_first: whatever
 * the group names outside itself must be flushed before its last partial segment is written.
 * SEGMENT records for every segment opened since the last COMMIT are added by the log. */
STET_CHECKED int stet_log_end(struct stet_log_group *group, enum stet_pseg_kind kind, uint64_t cut,
			      int64_t wall_ns, bool flush_first);
/* The I/O; call WITHOUT the volume's lock; may run beside everything else. `flush`: make it durable.
 * Returns 0, or the error; stet_log_group_failed tells what failed. */
STET_CHECKED int stet_log_perform(struct stet_log_group *group, bool flush);
enum stet_log_failure { STET_LOG_OK, STET_LOG_WRITE_FAILED, STET_LOG_FLUSH_FAILED };
enum stet_log_failure stet_log_group_failed(const struct stet_log_group *group);
/* After a successful perform: the chain moves on, durable rises if it flushed. Destroys the group. */
void stet_log_complete(struct stet_log_group *group);
/* After a failed write, or instead of performing: gives all its places back (dropped in space);
 * after WRITE_FAILED the segment that failed is retired (not when the error is -ENOSPC: the host of an
 * image has no room) and its head moves to another; after FLUSH_FAILED the log is dead (L4), and also
 * when both places that the end of the chain names have failed. A COMMIT whose write failed may still
 * have landed: a crash before the next group is durable may show it, whole. Destroys the group. */
void stet_log_abandon(struct stet_log_group *group);
/* Bytes that the group writes to the device, summaries included. */
uint64_t stet_log_group_bytes(const struct stet_log_group *group);
/* Whether the next ordinary COMMIT would find a segment (else: clean first). */
bool stet_log_has_room(const struct stet_log *log, uint64_t blocks);

/* --- checkpoints --- */
/* Where roll-forward from now on would start: fills the chain_ fields and the generation of a record
 * at the cut. Call it while no group that uses the chain is between end and complete. */
void stet_log_position(const struct stet_log *log, struct stet_ckpt_record *rec);
/* Writes a slot (no lock needed; one at a time) and flushes. sequence parity chooses the place. */
STET_CHECKED int stet_log_write_slot(struct stet_log *log, const struct stet_ckpt_slot *slot);
/* Reads both slots; rc[i] is stet_ckpt_slot_decode's answer for slot i, or the read's error. */
void stet_log_read_slots(struct stet_device *device, uint64_t volume_id,
			 struct stet_ckpt_slot slot[2], int rc[2]);
/* Reads and verifies the record that a slot names; *ret_bytes is malloced (stet_free). */
STET_CHECKED int stet_log_read_record(struct stet_device *device, const struct stet_superblock *sb,
				      const struct stet_ckpt_slot *slot, uint8_t **ret_bytes,
				      struct stet_ckpt_record *ret_rec);
/* The older slot now starts roll-forward after this serial: chain segments that lie wholly before it
 * are unpinned. */
void stet_log_trim(struct stet_log *log, uint64_t chain_serial);
/* Bytes written to the chain since the position recorded by the newest checkpoint: 0 if that is the
 * position now, else at most 64 KiB too many. */
uint64_t stet_log_bytes_since(const struct stet_log *log, uint64_t chain_serial);

/* --- roll-forward --- */
struct stet_log_visitor {
	/* A record of a batch that counts, in order; cut is the batch's serial. SEGMENT records are the
	 * log's own and not shown. */
	int (*record)(void *arg, uint64_t cut, int64_t wall_ns, const struct stet_log_record *rec);
	/* The batch is complete. */
	int (*batch_end)(void *arg, uint64_t cut, int64_t wall_ns);
	void *arg;
};
struct stet_log_recovery {
	uint64_t batches, records, psegs, bytes;
	bool torn_tail; /* something beyond the end did not count */
	bool corrupt;   /* a partial segment at or below `durable` is bad */
};
/* Walks the chain from the record's start, adopts and pins segments, delivers batches that count,
 * and leaves the log positioned behind the last partial segment that counts, under a new generation.
 * Writes nothing. The caller then calls stet_space_recovered, and makes all of it durable (a flush,
 * and a checkpoint) before it acknowledges anything. -EUCLEAN: corruption at or below `durable`; -EIO:
 * something that may belong to the log cannot be read (accept_prefix stops at either). A visitor's
 * error ends it. After an error the log and the space are only good for destroying. */
STET_CHECKED int stet_log_recover(struct stet_log *log, const struct stet_ckpt_record *rec,
				  const struct stet_log_visitor *visitor, bool accept_prefix,
				  struct stet_log_recovery *ret);

/* --- reading a segment's summaries (cleaner, dump, scan) --- */
typedef int stet_log_pseg_fn(void *arg, const struct stet_pseg *pseg, const uint8_t *summary);
/* Calls fn for each verified partial segment whose self address lies in the segment, in the order of
 * places; what is between them (left by an abandoned write, or unreadable) is stepped over block by
 * block. fn's first result that is not 0 ends it and is returned. Else the first error of reading is, at
 * the end. `summary` is borrowed for the call. -ESTALE: the segment is gone. */
STET_CHECKED int stet_log_scan_segment(struct stet_log *log, uint64_t seg_id, stet_log_pseg_fn *fn,
				       void *arg);

#endif
