/* seal.c - the end of a group: records are laid out, serials given, summaries sealed.
 *
 * Records go into the last payload partial segment when its summary has room (a small commit is one
 * write), else into partial segments of their own behind it: RECORDS while more follow, then COMMIT.
 *
 * E1. Serials rise along the chain, and a COMMIT's is above its cut: they are taken here, last.
 * E2. Each summary of the chain holds the check of the one before it, so they are sealed in order.
 * E3. When the device is flushed before a COMMIT is written, the COMMIT says so: its `durable` is the
 *     serial before its own. It exists only if that flush succeeded.
 * E4. A batch's number is one more than the serial before its group in the chain: what a COMMIT says of
 *     lower serials, it says of other groups. Along a chain numbers rise.
 * E5. The records of a batch start with the segments opened since the last COMMIT, so that whoever
 *     rolls forward knows them before it meets their addresses.
 */
#include "log/log_internal.h"

#include <string.h>

#define BIG_BATCH_BYTES (UINT64_C(16) << 20)
#define RECORD_HEADER_BYTES sizeof(struct stet_record_disk)

/* --- records --- */
static int announce(struct stet_log_group *group, struct stet_buf *out)
{
	struct stet_log *log = group->log;
	int rc = 0;

	for (size_t i = 0; i < log->opened.n && !rc; i++) {
		const struct stet_log_opened *opened = &log->opened.v[i];
		struct stet_rec_segment seg = {
			.id = opened->seg_id,
			.slot = opened->slot,
			.kind = (uint8_t)opened->kind,
		};
		struct stet_rec_segment_disk disk;

		if (stet_space_slot(log->space, opened->seg_id) != opened->slot)
			continue; /* gone already */
		stet_rec_segment_encode(&seg, &disk);
		rc = stet_record_append(out, STET_REC_SEGMENT, NULL, 0, &disk, sizeof(disk));
	}
	group->announced = log->opened.n;
	return rc;
}

/* The segments, then the group's records (E5). */
static int gather(struct stet_log_group *group)
{
	struct stet_buf all;
	int rc;

	stet_buf_init(&all);
	rc = stet_buf_reserve(&all, group->records.len + 1); /* not NULL, even when empty */
	if (!rc)
		rc = announce(group, &all);
	if (!rc)
		rc = stet_buf_append(&all, group->records.p, group->records.len);
	if (rc) {
		stet_buf_release(&all);
		return STET_FAIL(rc, "no memory for records");
	}
	stet_buf_release(&group->records);
	group->records = all;
	return 0;
}

/* How many of the bytes are whole records that fit. */
static size_t whole_records(const uint8_t *p, size_t bytes, size_t fit_bytes)
{
	struct stet_record_disk disk;
	size_t pos = 0;
	size_t next = 0;

	while (next < bytes) {
		memcpy(&disk, p + next, sizeof(disk));
		next += RECORD_HEADER_BYTES + le16_get(disk.key_bytes) + le32_get(disk.value_bytes);
		if (next > fit_bytes)
			return pos;
		pos = next;
	}
	return pos;
}

static bool has_room(const struct stet_log_pseg *pseg, size_t record_bytes)
{
	size_t room = (size_t)pseg->header.summary_blocks * STET_BLOCK_SIZE - pseg->summary.len;

	return record_bytes <= room;
}

static int append_records(struct stet_log_pseg *pseg, const uint8_t *p, size_t bytes,
			  enum stet_pseg_kind kind)
{
	int rc = stet_buf_append(&pseg->summary, p, bytes);

	if (rc)
		return STET_FAIL(rc, "no memory for records");
	pseg->header.record_bytes = (uint32_t)bytes;
	pseg->header.kind = kind;
	return 0;
}

/* One partial segment with as many of the records as fit. */
static int put_trailing(struct stet_log_group *group, const uint8_t *p, size_t bytes,
			size_t *ret_taken)
{
	struct stet_log_pseg *pseg;
	size_t room, taken;
	int rc = stet_log_open_pseg_(group, STET_SEGK_LOG, 0, 0);

	if (rc)
		return rc;
	pseg = group->open[STET_SEGK_LOG];
	room = (size_t)stet_log_head_room_(group, STET_SEGK_LOG) * STET_BLOCK_SIZE -
	       STET_LOG_HEADER_BYTES;
	taken = bytes <= room ? bytes : whole_records(p, bytes, room);
	rc = append_records(pseg, p, taken, taken == bytes ? STET_PSEG_COMMIT : STET_PSEG_RECORDS);
	if (rc)
		return rc;
	pseg->header.summary_blocks = (uint16_t)stet_pseg_summary_blocks(0, taken);
	*ret_taken = taken;
	return stet_log_close_chain_(group);
}

static int lay_out_commit(struct stet_log_group *group)
{
	struct stet_log_pseg *pseg = group->open[STET_SEGK_LOG];
	const struct stet_buf *records = &group->records;
	size_t done = 0;
	size_t taken = 0;
	int rc = gather(group);

	if (rc)
		return rc;
	if (pseg && pseg->header.payload_blocks > 0 && has_room(pseg, records->len)) {
		rc = append_records(pseg, records->p, records->len, STET_PSEG_COMMIT);
		return rc ? rc : stet_log_close_chain_(group);
	}
	rc = stet_log_close_pseg_(group, STET_SEGK_LOG);
	if (rc)
		return rc;
	do { /* ends: a segment's last 8 blocks hold at least one record */
		rc = put_trailing(group, records->p + done, records->len - done, &taken);
		done += taken;
	} while (!rc && done < records->len);
	return rc;
}

/* --- the other kinds --- */
static int lay_out_plain(struct stet_log_group *group, enum stet_pseg_kind kind)
{
	struct stet_log_pseg *pseg = group->open[STET_SEGK_LOG];
	int rc;

	STET_ASSERT_CMP(group->records.len, ==, 0);
	if (kind == STET_PSEG_IDLE) {
		STET_ASSERT(!pseg && group->side.n == 0);
		rc = stet_log_open_pseg_(group, STET_SEGK_LOG, 0, 0);
		if (rc)
			return rc;
		group->open[STET_SEGK_LOG]->header.kind = kind;
		return stet_log_close_chain_(group);
	}
	if (kind == STET_PSEG_CHECKPOINT) {
		STET_ASSERT(pseg && pseg->header.payload_blocks > 0);
		pseg->header.kind = kind;
	}
	return stet_log_close_pseg_(group, STET_SEGK_LOG);
}

/* --- sealing --- */
static void flushes(struct stet_log_group *group, bool flush_first)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < group->chain.n; i++)
		bytes += (uint64_t)stet_log_pseg_blocks_(&group->chain.v[i]->header) *
			 STET_BLOCK_SIZE;
	group->inner_flush = group->chain.n > 0 &&
			     (group->side.n > 0 || flush_first || bytes > BIG_BATCH_BYTES);
}

static int reserve_summary(struct stet_log_pseg *pseg)
{
	size_t bytes = (size_t)pseg->header.summary_blocks * STET_BLOCK_SIZE;
	int rc = stet_buf_reserve(&pseg->summary, bytes - pseg->summary.len);

	if (rc)
		return STET_FAIL(rc, "no memory for a summary");
	pseg->header.table_bytes =
		(uint32_t)(pseg->summary.len - STET_LOG_HEADER_BYTES - pseg->header.record_bytes);
	return 0;
}

static void seal(struct stet_log *log, struct stet_log_pseg *pseg)
{
	struct stet_pseg *h = &pseg->header;

	log->summary_bytes += pseg->summary.len;
	h->check = stet_pseg_seal(pseg->summary.p, h, log->sb.volume_id);
	pseg->summary.len = (size_t)h->summary_blocks * STET_BLOCK_SIZE;
	pseg->memory.v[0] = (struct iovec){ pseg->summary.p, pseg->summary.len };
}

static void seal_chain(struct stet_log_group *group, uint64_t cut, int64_t wall_ns)
{
	struct stet_log *log = group->log;
	uint64_t prev_serial = log->tail_serial;
	uint64_t prev_check = log->tail_check;
	uint64_t batch = log->tail_serial + 1; /* E4 */

	for (size_t i = 0; i < group->chain.n; i++) {
		struct stet_pseg *h = &group->chain.v[i]->header;

		h->serial = stet_log_next_serial(log); /* E1 */
		if (h->kind == STET_PSEG_COMMIT || h->kind == STET_PSEG_RECORDS)
			h->batch = batch;
		if (h->kind == STET_PSEG_COMMIT)
			h->cut = cut;
		h->wall_ns = wall_ns;
		h->generation = log->generation;
		h->durable = log->durable;
		if (h->kind == STET_PSEG_COMMIT && group->inner_flush)
			h->durable = prev_serial; /* E3 */
		h->prev_check = prev_check;       /* E2 */
		seal(log, group->chain.v[i]);
		prev_check = h->check;
		prev_serial = h->serial;
	}
}

static void seal_side(struct stet_log_group *group, int64_t wall_ns)
{
	for (size_t i = 0; i < group->side.n; i++) {
		struct stet_pseg *h = &group->side.v[i]->header;

		h->serial = stet_log_next_serial(group->log);
		h->wall_ns = wall_ns;
		h->generation = group->log->generation;
		h->durable = group->log->durable;
		seal(group->log, group->side.v[i]);
	}
}

static int lay_out(struct stet_log_group *group, enum stet_pseg_kind kind)
{
	int rc = 0;

	for (enum stet_seg_kind head = 0; head < STET_SEGK_COUNT && !rc; head++)
		if (head != STET_SEGK_LOG)
			rc = stet_log_close_pseg_(group, head);
	if (rc)
		return rc;
	rc = kind == STET_PSEG_COMMIT ? lay_out_commit(group) : lay_out_plain(group, kind);
	for (size_t i = 0; i < group->side.n && !rc; i++)
		rc = reserve_summary(group->side.v[i]);
	for (size_t i = 0; i < group->chain.n && !rc; i++)
		rc = reserve_summary(group->chain.v[i]);
	return rc;
}

int stet_log_end(struct stet_log_group *group, enum stet_pseg_kind kind, uint64_t cut,
		 int64_t wall_ns, bool flush_first)
{
	int rc;

	STET_ASSERT_CMP(group->state, ==, STET_LOG_BUILDING);
	STET_ASSERT_CMP(kind, !=, STET_PSEG_RECORDS);
	STET_ASSERT_CMP(cut, <=, group->log->serial);
	rc = lay_out(group, kind);
	if (rc)
		return rc;
	flushes(group, flush_first);
	seal_side(group, wall_ns);
	seal_chain(group, cut, wall_ns);
	group->state = STET_LOG_ENDED;
	return 0;
}
