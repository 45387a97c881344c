/* perform.c - a group's I/O, and what follows from its outcome.
 *
 *	BUILDING --end--> ENDED --perform--> WRITTEN --complete--> gone
 *	    \---------------\------------> BROKEN --abandon--> gone
 *
 * P1. perform touches the group and the device only, so it needs no lock.
 * P2. Order: what lies off the chain, the chain up to its last, a flush when the last one relies on
 *     it (L3), the last one, a flush when it shall be durable. A fence is flushed by itself.
 * P3. After a flush that failed nothing is written by anybody: the log is dead (L4).
 * P4. A crash anywhere in perform leaves the chain as before or longer, never cut: what it writes lies
 *     behind the last completed partial segment.
 */
#include "log/log_internal.h"

/* --- I/O --- */
static int write_pseg(struct stet_log_group *group, struct stet_log_pseg *pseg)
{
	struct stet_log *log = group->log;
	int rc = stet_device_writev(log->device, stet_log_offset_(&log->sb, pseg->header.self),
				    pseg->memory.v, (int)pseg->memory.n);

	if (rc) {
		group->failure = STET_LOG_WRITE_FAILED;
		/* A host without room says nothing about the place. */
		group->failed = rc == -ENOSPC ? NULL : pseg;
	}
	return rc;
}

static int flush(struct stet_log_group *group)
{
	int rc = stet_device_flush(group->log->device);

	if (rc) {
		group->failure = STET_LOG_FLUSH_FAILED;
		atomic_store(&group->log->dead, true); /* P3 */
	}
	return rc;
}

/* Whether the device is flushed before number i of the chain is written. */
static bool flush_before(const struct stet_log_group *group, size_t i)
{
	return (group->fenced && i == 1) || (group->inner_flush && i == group->chain.n - 1);
}

static int do_all(struct stet_log_group *group, bool want_flush)
{
	int rc = 0;

	for (size_t i = 0; i < group->side.n && !rc; i++)
		rc = write_pseg(group, group->side.v[i]);
	for (size_t i = 0; i < group->chain.n && !rc; i++) {
		if (flush_before(group, i))
			rc = flush(group);
		if (rc)
			return rc;
		group->chain_tried++;
		rc = write_pseg(group, group->chain.v[i]);
	}
	if (!rc && want_flush)
		rc = flush(group);
	return rc;
}

int stet_log_perform(struct stet_log_group *group, bool want_flush)
{
	int rc;

	STET_ASSERT_CMP(group->state, ==, STET_LOG_ENDED);
	if (atomic_load(&group->log->dead)) {
		group->failure = STET_LOG_FLUSH_FAILED; /* another group's (P3) */
		rc = STET_FAIL(-EROFS, "the log is dead");
	} else {
		rc = do_all(group, want_flush);
	}
	group->flushed = want_flush;
	group->error = rc;
	group->state = rc ? STET_LOG_BROKEN : STET_LOG_WRITTEN;
	return rc;
}

enum stet_log_failure stet_log_group_failed(const struct stet_log_group *group)
{
	return group->failure;
}

/* --- success --- */
/* Before the chain's tail moves on. */
static void raise_durable(struct stet_log_group *group)
{
	struct stet_log *log = group->log;
	size_t n = group->chain.n;

	if (group->flushed)
		log->durable = group->chain.v[n - 1]->header.serial;
	else if (group->inner_flush)
		log->durable = n > 1 ? group->chain.v[n - 2]->header.serial : log->tail_serial;
	else if (group->fenced && n > 1)
		log->durable = group->chain.v[0]->header.serial;
}

static void forget_announced(struct stet_log *log, size_t n)
{
	STET_ASSERT_CMP(n, <=, log->opened.n);
	for (size_t i = n; i < log->opened.n; i++)
		log->opened.v[i - n] = log->opened.v[i];
	log->opened.n -= n;
}

void stet_log_complete(struct stet_log_group *group)
{
	struct stet_log *log = group->log;

	STET_ASSERT_CMP(group->state, ==, STET_LOG_WRITTEN);
	if (group->chain.n > 0)
		raise_durable(group);
	for (size_t i = 0; i < group->chain.n; i++)
		stet_log_advance_(log, &group->chain.v[i]->header);
	forget_announced(log, group->announced);
	stet_log_heads_complete_(group);
	stet_log_group_destroy_(group);
}

/* --- failure --- */
/* Gives the blocks back. `later`: a COMMIT that may have reached the device names them. */
static void drop_places(struct stet_log *log, const struct stet_log_pseg *pseg, bool later)
{
	const struct stet_pseg *h = &pseg->header;
	struct stet_addr addr = stet_addr_add(h->self.addr, h->summary_blocks);
	uint64_t cut = later ? log->serial : 0;

	/* Its birth is in no view's reach. */
	if (h->payload_blocks > 0)
		stet_ignore(stet_space_drop(log->space, addr, h->payload_blocks, UINT64_MAX, cut),
			    "without memory they stay held until the next open, which is safe");
}

void stet_log_abandon(struct stet_log_group *group)
{
	struct stet_log *log = group->log;

	STET_ASSERT_CMP(group->state, !=, STET_LOG_WRITTEN);
	/* First: a segment that the head has left already may be gone once its blocks are. */
	if (group->failed)
		stet_space_retire(log->space, stet_addr_seg(group->failed->header.self.addr));
	for (size_t i = 0; i < group->side.n; i++)
		drop_places(log, group->side.v[i], group->chain_tried > 0); /* heads.c, H5 */
	for (size_t i = 0; i < group->chain.n; i++)
		drop_places(log, group->chain.v[i], false);
	stet_log_heads_abandon_(group);
	stet_log_group_destroy_(group);
}
