/* heads.c - where each head writes next, and the segments that heads take and leave.
 *
 * A group works on copies of the heads it uses; completing it makes them the log's. Only what must be
 * known to others at once is shared: segments that were opened stay so, and each is queued to be
 * announced by the next COMMIT.
 *
 * H1. A head that a group uses is used by no other group.
 * H2. log->head[LOG].at is next1 or next2 of the last completed partial segment of the chain; its
 *     spare is the other one, or none while `fence` is set.
 * H3. Every segment of the chain is pinned from opening, and is in log->pins.
 * H4. Abandoning cannot fail: room in pool, pins and opened is reserved when a segment is taken.
 * H5. What an abandoned group was trying to write may have reached the device, the COMMIT too, even if
 *     its write was reported as failed. Until something newer is durable in the chain, a crash may
 *     bring it back, so it must stay whole until then. Therefore the next group starts with a fence:
 *     an empty partial segment, flushed before anything else of the chain is written. Recovery finds
 *     the old group as it was left or the fence, which has the higher serial. What the old group placed
 *     off the chain is kept until both checkpoint slots are past it.
 */
#include "log/log_internal.h"

/* How far below the reserve an ordinary group may go to keep the chain alive. */
#define CHAIN_DIP_SLOTS 2u

int stet_log_use_head_(struct stet_log_group *group, enum stet_seg_kind head)
{
	struct stet_log *log = group->log;

	STET_ASSERT_CMP(head, <, STET_SEGK_COUNT);
	if (group->uses[head])
		return 0;
	STET_ASSERT(!log->owner[head]); /* H1 */
	if (head == STET_SEGK_LOG && log->head[head].at.seg_id == 0)
		return STET_FAIL(-EROFS, "the log has no place to go on");
	log->owner[head] = group;
	group->uses[head] = true;
	group->head[head] = log->head[head];
	return 0;
}

uint32_t stet_log_head_room_(const struct stet_log_group *group, enum stet_seg_kind head)
{
	const struct stet_log_spot *at = &group->head[head].at;

	return at->seg_id == 0 ? 0 : group->log->sb.seg_blocks - at->block;
}

/* --- taking segments --- */
static int reserve_room(struct stet_log_group *group)
{
	struct stet_log *log = group->log;
	int rc = stet_vec_reserve(&log->opened, 1);

	if (!rc)
		rc = stet_vec_reserve(&log->pins, 1);
	if (!rc)
		rc = stet_vec_reserve(&log->pool, group->took.n + 1);
	if (!rc)
		rc = stet_vec_reserve(&group->took, 1);
	return rc;
}

static int open_new(struct stet_log_group *group, enum stet_seg_kind head, struct stet_place *ret)
{
	struct stet_log *log = group->log;
	struct stet_space_usage usage;
	uint32_t spare = 0;
	int rc;

	if (!group->privileged) {
		stet_space_usage(log->space, &usage);
		spare = usage.reserve_slots;
	}
	rc = stet_space_open_segment(log->space, head, log->serial, spare, ret);
	if (rc == -ENOSPC && head == STET_SEGK_LOG && spare > 0 && !group->dipped) {
		spare = spare > CHAIN_DIP_SLOTS ? spare - CHAIN_DIP_SLOTS : 0;
		rc = stet_space_open_segment(log->space, head, log->serial, spare, ret);
		group->dipped = rc == 0;
	}
	return rc == -ENOSPC ? STET_FAIL(-ENOSPC, "no free segment for the log") : rc;
}

static int take_segment(struct stet_log_group *group, enum stet_seg_kind head,
			struct stet_log_spot *ret)
{
	struct stet_log *log = group->log;
	struct stet_place place;
	int rc = reserve_room(group); /* H4 */

	if (rc)
		return rc;
	if (head == STET_SEGK_LOG && log->pool.n > 0) {
		*ret = stet_vec_pop(&log->pool);
		group->took.v[group->took.n++] = *ret;
		return 0;
	}
	rc = open_new(group, head, &place);
	if (rc)
		return rc;
	*ret = stet_log_spot_(place);
	log->opened.v[log->opened.n++] = (struct stet_log_opened){ ret->seg_id, ret->slot, head };
	if (head == STET_SEGK_LOG) {
		stet_log_pin_(log, ret->seg_id); /* H3 */
		group->took.v[group->took.n++] = *ret;
	}
	return 0;
}

int stet_log_ensure_spare_(struct stet_log_group *group)
{
	struct stet_log_head *head = &group->head[STET_SEGK_LOG];

	return head->spare.seg_id != 0 ? 0 : take_segment(group, STET_SEGK_LOG, &head->spare);
}

int stet_log_next_segment_(struct stet_log_group *group, enum stet_seg_kind head)
{
	struct stet_log_head *h = &group->head[head];
	struct stet_log_spot fresh;
	int rc = take_segment(group, head, &fresh);

	if (rc)
		return rc;
	if (head == STET_SEGK_LOG) {
		STET_ASSERT_CMP(h->spare.seg_id, !=, 0);
		h->at = h->spare;
		h->spare = fresh;
		return 0;
	}
	if (h->at.seg_id != 0)
		stet_space_close_segment(group->log->space, h->at.seg_id);
	h->at = fresh;
	return 0;
}

/* --- completing --- */
/* A segment that the chain has left. */
static void leave(struct stet_log *log, uint64_t seg_id)
{
	const struct stet_log_head *head = &log->head[STET_SEGK_LOG];

	if (seg_id != 0 && seg_id != head->at.seg_id && seg_id != head->spare.seg_id)
		stet_space_close_segment(log->space, seg_id);
}

/* An empty segment that the chain does not need. */
static void give_back(struct stet_log *log, uint64_t seg_id)
{
	stet_space_close_segment(log->space, seg_id);
	stet_log_unpin_(log, seg_id);
}

static void complete_chain(struct stet_log_group *group)
{
	struct stet_log *log = group->log;
	struct stet_log_head before = log->head[STET_SEGK_LOG];

	log->head[STET_SEGK_LOG] = group->head[STET_SEGK_LOG];
	leave(log, before.at.seg_id);
	leave(log, before.spare.seg_id);
	for (size_t i = 0; i < group->took.n; i++)
		leave(log, group->took.v[i].seg_id);
	while (log->pool.n > 1)
		give_back(log, stet_vec_pop(&log->pool).seg_id);
	if (group->fenced && (group->flushed || group->chain.n > 1))
		log->fence = false;
}

void stet_log_heads_complete_(struct stet_log_group *group)
{
	struct stet_log *log = group->log;

	for (enum stet_seg_kind head = 0; head < STET_SEGK_COUNT; head++) {
		if (!group->uses[head])
			continue;
		if (head == STET_SEGK_LOG)
			complete_chain(group);
		else
			log->head[head] = group->head[head];
		log->owner[head] = NULL;
	}
}

/* --- abandoning --- */
static bool has_failed(const struct stet_log_group *group, enum stet_seg_kind head, uint64_t seg_id)
{
	return group->failed && group->failed->head == head &&
	       stet_addr_seg(group->failed->header.self.addr) == seg_id;
}

static void abandon_side(struct stet_log_group *group, enum stet_seg_kind head)
{
	struct stet_log *log = group->log;
	struct stet_log_spot before = log->head[head].at;
	struct stet_log_spot now = group->head[head].at;

	/* Nothing is there, unless the device was asked to write it (H5). */
	if (group->state != STET_LOG_BROKEN)
		now.block = now.seg_id == before.seg_id ? before.block : 0;
	if (has_failed(group, head, now.seg_id))
		now = (struct stet_log_spot){ 0 };
	log->head[head].at = now;
}

static void keep_or_give_back(struct stet_log_group *group, uint64_t failed_seg)
{
	struct stet_log *log = group->log;
	size_t keep = group->chain_tried > 0 ? SIZE_MAX : 1; /* H5 */

	for (size_t i = 0; i < group->took.n; i++) {
		struct stet_log_spot spot = group->took.v[i];

		if (spot.seg_id == failed_seg)
			continue;
		if (log->pool.n < keep)
			log->pool.v[log->pool.n++] = spot;
		else
			give_back(log, spot.seg_id);
	}
}

static void abandon_chain(struct stet_log_group *group, uint64_t failed_seg)
{
	struct stet_log *log = group->log;
	struct stet_log_head *head = &log->head[STET_SEGK_LOG];
	struct stet_log_spot none = { 0 };

	keep_or_give_back(group, failed_seg);
	if (group->chain_tried == 0)
		return;
	log->fence = true; /* H5 */
	if (head->at.seg_id == failed_seg) {
		head->at = head->spare; /* none: both places that are named are bad */
		head->spare = none;
	} else if (head->spare.seg_id == failed_seg) {
		head->spare = none;
	}
}

void stet_log_heads_abandon_(struct stet_log_group *group)
{
	struct stet_log *log = group->log;
	uint64_t failed_seg = 0;
	struct stet_log_pin *pin;

	if (group->failed)
		failed_seg = stet_addr_seg(group->failed->header.self.addr);
	for (enum stet_seg_kind head = 0; head < STET_SEGK_COUNT; head++) {
		if (!group->uses[head])
			continue;
		if (head == STET_SEGK_LOG)
			abandon_chain(group, failed_seg);
		else
			abandon_side(group, head);
		log->owner[head] = NULL;
	}
	pin = stet_log_pin_find_(log, failed_seg);
	if (pin && pin->last_serial == 0)
		stet_log_unpin_(log, failed_seg);
	if (group->uses[STET_SEGK_LOG] && log->head[STET_SEGK_LOG].at.seg_id == 0)
		atomic_store(&log->dead, true);
}
