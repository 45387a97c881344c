/* build.c - filling a group: payload into partial segments, records into a buffer.
 *
 * Payload gets its address at once, so the size of the summary in front of it is fixed when its partial
 * segment is opened: one block; more when much payload comes. A payload table that would outgrow it
 * closes the partial segment, and the next one is opened right behind.
 *
 * B1. Each head has at most one open partial segment; it starts at the head's `at`.
 * B2. summary + payload of a partial segment lie in one segment.
 * B3. next1 and next2 of one that is closed are final: behind it and the spare, or, at the end of a
 *     segment, the spare and another spare.
 * B4. A call that fails leaves the group such that it can be abandoned, and nothing held for that call.
 */
#include "log/log_internal.h"

#define PAYLOAD_HEADER_BYTES sizeof(struct stet_payload_disk)
#define CRC_BYTES sizeof(le32)
/* More payload than this in a group: large summaries. */
#define SMALL_BLOCKS 64u
/* Runs that large payload is taken to come in. */
#define RUN_BLOCKS STET_EXTENT_BLOCKS_MAX

int stet_log_begin(struct stet_log *log, bool privileged, struct stet_log_group **ret)
{
	struct stet_log_group *group;

	if (atomic_load(&log->dead))
		return STET_FAIL(-EROFS, "the log is dead");
	group = stet_calloc(1, sizeof(*group));
	if (!group)
		return STET_FAIL(-ENOMEM, "no memory for a log group");
	group->log = log;
	group->privileged = privileged;
	*ret = group;
	return 0;
}

static void pseg_destroy(struct stet_log_pseg *pseg)
{
	stet_buf_release(&pseg->summary);
	stet_vec_release(&pseg->memory);
	stet_free(pseg);
}

void stet_log_group_destroy_(struct stet_log_group *group)
{
	for (size_t i = 0; i < group->side.n; i++)
		pseg_destroy(group->side.v[i]);
	for (size_t i = 0; i < group->chain.n; i++)
		pseg_destroy(group->chain.v[i]);
	stet_vec_release(&group->side);
	stet_vec_release(&group->chain);
	stet_vec_release(&group->took);
	stet_buf_release(&group->records);
	stet_free(group);
}

static uint64_t blocks_of(struct stet_log_pseg *const *v, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += stet_log_pseg_blocks_(&v[i]->header);
	return sum;
}

uint64_t stet_log_group_bytes(const struct stet_log_group *group)
{
	return (blocks_of(group->side.v, group->side.n) +
		blocks_of(group->chain.v, group->chain.n)) *
	       STET_BLOCK_SIZE;
}

/* --- opening and closing --- */
static struct stet_log_pseg *pseg_new(struct stet_log_group *group, enum stet_seg_kind head,
				      uint32_t summary_blocks)
{
	struct stet_log_pseg *pseg = stet_calloc(1, sizeof(*pseg));

	if (!pseg)
		return NULL;
	if (stet_vec_reserve(&pseg->memory, 1) ||
	    stet_buf_append_zero(&pseg->summary, STET_LOG_HEADER_BYTES)) {
		pseg_destroy(pseg);
		return NULL;
	}
	pseg->memory.v[pseg->memory.n++] = (struct iovec){ 0 }; /* the summary, once it is sealed */
	pseg->head = head;
	pseg->header = (struct stet_pseg){
		.kind = STET_PSEG_PAYLOAD,
		.flags = (uint16_t)(head == STET_SEGK_LOG ? 0 : STET_PSEG_OFF_CHAIN),
		.self = stet_log_place_(group->head[head].at),
		.summary_blocks = (uint16_t)summary_blocks,
	};
	return pseg;
}

static int add_pseg(struct stet_log_group *group, struct stet_log_pseg *pseg)
{
	int rc = pseg->head == STET_SEGK_LOG ? stet_vec_push(&group->chain, pseg)
					     : stet_vec_push(&group->side, pseg);

	if (rc)
		return rc;
	group->open[pseg->head] = pseg;
	return 0;
}

/* Summary blocks for what is coming, where room blocks are left in the segment. */
static uint32_t summary_for(const struct stet_log_group *group, enum stet_seg_kind head,
			    uint32_t room, uint32_t block_count)
{
	size_t runs = (room + RUN_BLOCKS - 1) / RUN_BLOCKS;

	if (group->put_blocks[head] + block_count <= SMALL_BLOCKS)
		return 1;
	return stet_pseg_summary_blocks(PAYLOAD_HEADER_BYTES * runs + CRC_BYTES * room, 0);
}

/* Whether the head's segment has room; else moves it on, until it has. */
static int make_room(struct stet_log_group *group, enum stet_seg_kind head, uint32_t need,
		     uint32_t block_count, uint32_t *ret_summary)
{
	for (;;) {
		uint32_t room = stet_log_head_room_(group, head);
		uint32_t summary = summary_for(group, head, room, block_count);
		int rc;

		if (room >= STET_LOG_TAIL_BLOCKS && room >= summary + need) {
			*ret_summary = summary;
			return 0;
		}
		if (room == group->log->sb.seg_blocks)
			return STET_FAIL(-ENOSPC, "log: %u blocks exceed a segment", need);
		rc = stet_log_next_segment_(group, head);
		if (rc)
			return rc;
	}
}

static int open_at(struct stet_log_group *group, enum stet_seg_kind head, uint32_t summary_blocks)
{
	struct stet_log_pseg *pseg = pseg_new(group, head, summary_blocks);
	int rc;

	if (!pseg)
		return STET_FAIL(-ENOMEM, "no memory for a partial segment");
	rc = add_pseg(group, pseg);
	if (rc)
		pseg_destroy(pseg);
	return rc;
}

/* heads.c, H5: what an abandoned group may have left is outdated before anything covers it. */
static int put_fence(struct stet_log_group *group)
{
	int rc = stet_log_ensure_spare_(group);

	if (rc || !group->log->fence || group->fenced)
		return rc;
	rc = open_at(group, STET_SEGK_LOG, 1);
	if (!rc)
		rc = stet_log_close_chain_(group);
	group->fenced = rc == 0;
	return rc;
}

int stet_log_open_pseg_(struct stet_log_group *group, enum stet_seg_kind head, uint32_t need,
			uint32_t block_count)
{
	uint32_t summary = 1;
	int rc = stet_log_use_head_(group, head);

	STET_ASSERT(!group->open[head]); /* B1 */
	if (!rc && head == STET_SEGK_LOG)
		rc = put_fence(group);
	if (!rc)
		rc = make_room(group, head, need, block_count, &summary);
	return rc ? rc : open_at(group, head, summary);
}

int stet_log_close_chain_(struct stet_log_group *group)
{
	struct stet_log_head *head = &group->head[STET_SEGK_LOG];
	struct stet_log_pseg *pseg = group->open[STET_SEGK_LOG];
	uint32_t end = head->at.block + stet_log_pseg_blocks_(&pseg->header);
	int rc = 0;

	STET_ASSERT_CMP(end, <=, group->log->sb.seg_blocks); /* B2 */
	if (group->log->sb.seg_blocks - end < STET_LOG_TAIL_BLOCKS)
		rc = stet_log_next_segment_(group, STET_SEGK_LOG);
	else
		head->at.block = end;
	if (rc)
		return rc;
	pseg->header.next1 = stet_log_place_(head->at); /* B3 */
	pseg->header.next2 = stet_log_place_(head->spare);
	group->open[STET_SEGK_LOG] = NULL;
	return 0;
}

/* Takes the open partial segment, which is empty, off the end of its list. */
static void forget_empty(struct stet_log_group *group, enum stet_seg_kind head)
{
	struct stet_log_pseg *pseg = group->open[head];
	size_t kept = 0;

	group->open[head] = NULL;
	if (head == STET_SEGK_LOG) {
		STET_ASSERT(group->chain.v[group->chain.n - 1] == pseg);
		group->chain.n--;
	} else {
		for (size_t i = 0; i < group->side.n; i++)
			if (group->side.v[i] != pseg)
				group->side.v[kept++] = group->side.v[i];
		group->side.n = kept;
	}
	pseg_destroy(pseg);
}

int stet_log_close_pseg_(struct stet_log_group *group, enum stet_seg_kind head)
{
	struct stet_log_pseg *pseg = group->open[head];

	if (!pseg)
		return 0;
	if (pseg->header.payload_blocks == 0) {
		forget_empty(group, head);
		return 0;
	}
	if (head == STET_SEGK_LOG)
		return stet_log_close_chain_(group);
	group->head[head].at.block += stet_log_pseg_blocks_(&pseg->header);
	STET_ASSERT_CMP(group->head[head].at.block, <=, group->log->sb.seg_blocks); /* B2 */
	group->open[head] = NULL;
	return 0;
}

/* --- payload --- */
/* Blocks of one entry that the summary's rest holds. */
static uint32_t table_room(const struct stet_log_pseg *pseg)
{
	size_t bytes = (size_t)pseg->header.summary_blocks * STET_BLOCK_SIZE - pseg->summary.len;

	return bytes < PAYLOAD_HEADER_BYTES
		       ? 0
		       : (uint32_t)((bytes - PAYLOAD_HEADER_BYTES) / CRC_BYTES);
}

/* How many of block_count blocks the open partial segment takes in one run. */
static uint32_t takes(const struct stet_log_group *group, const struct stet_log_pseg *pseg,
		      uint32_t block_count)
{
	uint32_t n = stet_log_head_room_(group, pseg->head) - stet_log_pseg_blocks_(&pseg->header);

	n = n < block_count ? n : block_count;
	return n;
}

/* Makes the head have an open partial segment that takes `need` blocks in one run; *ret_n is how
 * many of block_count it takes. */
static int prepare(struct stet_log_group *group, enum stet_seg_kind head, uint32_t need,
		   uint32_t block_count, uint32_t *ret_n)
{
	struct stet_log_pseg *pseg = group->open[head];
	uint32_t n;
	int rc;

	if (pseg) {
		n = takes(group, pseg, block_count);
		if (n >= need && n <= table_room(pseg)) {
			*ret_n = n;
			return 0;
		}
	}
	rc = stet_log_close_pseg_(group, head);
	if (!rc)
		rc = stet_log_open_pseg_(group, head, need, block_count);
	if (rc)
		return rc;
	pseg = group->open[head];
	n = takes(group, pseg, block_count);
	n = n < table_room(pseg) ? n : table_room(pseg);
	STET_ASSERT_CMP(n, >=, need);
	*ret_n = n;
	return 0;
}

/* Adds the run to the memory to be written; one that continues the last one extends it. */
static void add_memory(struct stet_log_pseg *pseg, const uint8_t *data, size_t bytes)
{
	struct iovec *last = &pseg->memory.v[pseg->memory.n - 1];
	union {
		const uint8_t *in;
		void *out;
	} base = { .in = data }; /* writev does not write to it */

	if (pseg->memory.n > 1 && (uint8_t *)last->iov_base + last->iov_len == data)
		last->iov_len += bytes;
	else
		pseg->memory.v[pseg->memory.n++] = (struct iovec){ base.out, bytes };
}

static int put(struct stet_log_group *group, enum stet_seg_kind head,
	       const struct stet_payload *what, const uint8_t *data, const uint32_t *crcs,
	       uint32_t need, struct stet_addr *ret_addr, uint16_t *ret_blocks)
{
	struct stet_log_pseg *pseg;
	struct stet_addr addr;
	uint32_t n;
	int rc;

	STET_ASSERT_CMP(group->state, ==, STET_LOG_BUILDING);
	STET_ASSERT_CMP(what->block_count, >, 0);
	rc = prepare(group, head, need, what->block_count, &n);
	if (rc)
		return rc;
	pseg = group->open[head];
	rc = stet_vec_reserve(&pseg->memory, 1);
	if (!rc)
		rc = stet_payload_append(&pseg->summary, what->kind, what->owner, what->offset,
					 crcs, (uint16_t)n);
	if (rc)
		return STET_FAIL(rc, "no memory for a payload table");
	addr = stet_addr_add(pseg->header.self.addr, stet_log_pseg_blocks_(&pseg->header));
	stet_space_hold(group->log->space, addr, n);
	add_memory(pseg, data, (size_t)n * STET_BLOCK_SIZE);
	pseg->header.payload_blocks = (uint16_t)(pseg->header.payload_blocks + n);
	group->put_blocks[head] += n;
	*ret_addr = addr;
	*ret_blocks = (uint16_t)n;
	return 0;
}

int stet_log_put_payload(struct stet_log_group *group, enum stet_seg_kind head,
			 enum stet_payload_kind kind, uint64_t owner, uint64_t offset,
			 const uint8_t *data, const uint32_t *crcs, uint16_t block_count,
			 struct stet_addr *ret_addr, uint16_t *ret_blocks)
{
	struct stet_payload what = {
		.kind = kind,
		.owner = owner,
		.offset = offset,
		.block_count = block_count,
	};

	return put(group, head, &what, data, crcs, 1, ret_addr, ret_blocks);
}

int stet_log_put_whole(struct stet_log_group *group, enum stet_seg_kind head,
		       enum stet_payload_kind kind, uint64_t owner, uint64_t offset,
		       const uint8_t *data, const uint32_t *crcs, uint16_t block_count,
		       struct stet_addr *ret_addr)
{
	struct stet_payload what = {
		.kind = kind,
		.owner = owner,
		.offset = offset,
		.block_count = block_count,
	};
	uint16_t n;

	return put(group, head, &what, data, crcs, block_count, ret_addr, &n);
}

int stet_log_put_record(struct stet_log_group *group, enum stet_record_type type, const void *key,
			size_t key_bytes, const void *value, size_t value_bytes)
{
	STET_ASSERT_CMP(group->state, ==, STET_LOG_BUILDING);
	return stet_record_append(&group->records, type, key, key_bytes, value, value_bytes);
}
