/* log.c - making a log, its counters, and a new volume's first position.
 *
 * A log has no position before stet_log_format or stet_log_recover: next1 names no place, and no
 * group can use the chain.
 */
#include "log/log_internal.h"

int stet_log_create(struct stet_device *device, struct stet_space *space,
		    const struct stet_superblock *sb, struct stet_log **ret)
{
	struct stet_log *log = stet_calloc(1, sizeof(*log));

	if (!log)
		return STET_FAIL(-ENOMEM, "no memory for a log");
	log->device = device;
	log->space = space;
	log->sb = *sb;
	*ret = log;
	return 0;
}

void stet_log_destroy(struct stet_log *log)
{
	if (!log)
		return;
	for (enum stet_seg_kind head = 0; head < STET_SEGK_COUNT; head++)
		STET_ASSERT(!log->owner[head]);
	stet_vec_release(&log->pool);
	stet_vec_release(&log->opened);
	stet_vec_release(&log->pins);
	stet_vec_release(&log->marks);
	stet_free(log);
}

/* Opens the segment of a new volume that has nothing else. */
static int open_first(struct stet_log *log, struct stet_log_spot *ret)
{
	struct stet_place place;
	int rc = stet_vec_reserve(&log->pins, 1);

	if (!rc)
		rc = stet_vec_reserve(&log->opened, 1);
	if (!rc)
		rc = stet_space_open_segment(log->space, STET_SEGK_LOG, 0, 0, &place);
	if (rc)
		return rc;
	*ret = stet_log_spot_(place);
	stet_log_pin_(log, ret->seg_id);
	log->opened.v[log->opened.n++] = (struct stet_log_opened){ ret->seg_id, ret->slot,
								   STET_SEGK_LOG };
	return 0;
}

int stet_log_format(struct stet_log *log)
{
	struct stet_log_head *head = &log->head[STET_SEGK_LOG];
	int rc;

	STET_ASSERT_CMP(log->generation, ==, 0);
	rc = open_first(log, &head->at);
	if (!rc)
		rc = open_first(log, &head->spare);
	if (rc)
		return rc;
	log->next1 = stet_log_place_(head->at);
	log->next2 = stet_log_place_(head->spare);
	log->generation = 1;
	return 0;
}

uint64_t stet_log_next_serial(struct stet_log *log)
{
	return ++log->serial;
}

uint64_t stet_log_summary_bytes(const struct stet_log *log)
{
	return log->summary_bytes;
}

uint64_t stet_log_last_serial(const struct stet_log *log)
{
	return log->serial;
}

uint64_t stet_log_durable(const struct stet_log *log)
{
	return log->durable;
}

/* An estimate on the safe side: it counts a 64th of each segment, and its end, for summaries. */
bool stet_log_has_room(const struct stet_log *log, uint64_t blocks)
{
	const struct stet_log_spot *at = &log->head[STET_SEGK_LOG].at;
	uint32_t usable = log->sb.seg_blocks - log->sb.seg_blocks / 64 - STET_LOG_TAIL_BLOCKS;
	uint32_t left = at->seg_id != 0 ? log->sb.seg_blocks - at->block : 0;
	struct stet_space_usage usage;
	uint64_t segments;

	left = left > STET_LOG_TAIL_BLOCKS ? left - STET_LOG_TAIL_BLOCKS : 0;
	if (blocks < left)
		return true;
	segments = (blocks - left) / usable + 1;
	stet_space_usage(log->space, &usage);
	return usage.slots_free >= usage.reserve_slots + segments;
}
