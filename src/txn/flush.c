/* flush.c - from the delta to the log: group commit.
 *
 * F1. A flush takes everything ordered so far as one batch, so what a crash leaves is the state at a
 *     flush boundary. For each key only its newest version is logged.
 * F2. Buffers handed to a group are frozen and referenced until it is finished. Their places are written
 *     into them when the group is built; nobody reads those places while the data is in memory.
 * F3. A failed write gives the places back, puts the keys on the dirty list again, and the next flush
 *     builds the batch anew elsewhere. A failed flush ends the volume's writing (see stet_engine_fail_).
 * F4. A waiter's ticket fires when its serial is at or below durable_cut, or when the volume fails.
 * F5. A key whose newest version is older than what a run of the same batch (or an earlier one) has for it is not
 *     logged: read back, it would be newer than the run; and an extent that is split when it is placed would
 *     have a rest that the run knows nothing of.
 */
#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <stdio.h>
#include <string.h>

#define FLUSH_RETRIES_MAX 8u

int stet_job_create_(struct stet_engine *engine, enum stet_job_kind kind, struct stet_job **ret)
{
	struct stet_job *job = stet_calloc(1, sizeof(*job));

	if (!job)
		return STET_FAIL(-ENOMEM, "no memory for a job");
	job->engine = engine;
	job->kind = kind;
	*ret = job;
	return 0;
}

void stet_job_destroy_(struct stet_job *job)
{
	if (!job)
		return;
	for (size_t i = 0; i < job->nodes.n; i++)
		stet_cnode_unpin(job->nodes.v[i]);
	for (size_t i = 0; i < job->placed.n; i++) {
		job->placed.v[i].buf->frozen--;
		stet_buf_put_(job->engine, job->placed.v[i].buf);
	}
	for (size_t i = 0; i < job->runs.n; i++)
		stet_runref_put_(job->engine, job->runs.v[i]);
	stet_vec_release(&job->nodes);
	stet_vec_release(&job->placed);
	stet_vec_release(&job->runs);
	stet_vec_release(&job->flight);
	stet_free(job);
}

/* --- placing --- */
static uint16_t placed_run(const struct stet_databuf *buf, uint16_t from, uint16_t count)
{
	uint16_t n = 1;

	while (n < count && buf->addr[from + n].v == buf->addr[from].v + n &&
	       stet_addr_seg(buf->addr[from + n]) == stet_addr_seg(buf->addr[from]))
		n++;
	return n;
}

static uint16_t unplaced_run(const struct stet_databuf *buf, uint16_t from, uint16_t count)
{
	uint16_t n = 1;

	while (n < count && stet_addr_is_none(buf->addr[from + n]))
		n++;
	return n;
}

int stet_place_(struct stet_job *job, enum stet_seg_kind head, uint64_t ino, uint64_t block,
		struct stet_databuf *buf, uint16_t from, uint16_t count, uint16_t *ret_run)
{
	struct stet_placed placed = { buf, from, 0 };
	struct stet_addr addr;

	if (!stet_addr_is_none(buf->addr[from])) {
		*ret_run = placed_run(buf, from, count);
		return 0;
	}
	STET_ASSERT(buf->data);
	int rc = stet_vec_reserve(&job->placed, 1);
	if (rc)
		return rc;
	uint16_t want = unplaced_run(buf, from, count);
	const uint8_t *data = buf->data + (size_t)from * STET_BLOCK_SIZE;
	for (uint32_t i = 0; i < want; i++)
		buf->crc[from + i] = stet_crc32c(data + (size_t)i * STET_BLOCK_SIZE,
						 STET_BLOCK_SIZE);
	rc = stet_log_put_payload(job->group, head, STET_PAYLOAD_DATA, ino, block, data,
				  buf->crc + from, want, &addr, &placed.count);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < placed.count; i++)
		buf->addr[from + i] = stet_addr_add(addr, i);
	stet_databuf_get(buf);
	buf->frozen++;
	job->placed.v[job->placed.n++] = placed;
	*ret_run = placed.count;
	return 0;
}

void stet_placed_undo_(struct stet_job *job)
{
	for (size_t i = 0; i < job->placed.n; i++) {
		struct stet_placed *p = &job->placed.v[i];

		for (uint32_t b = p->from; b < (uint32_t)p->from + p->count; b++)
			p->buf->addr[b] = STET_ADDR_NONE;
	}
}

void stet_placed_done_(struct stet_job *job)
{
	for (size_t i = 0; i < job->placed.n; i++) {
		struct stet_databuf *buf = job->placed.v[i].buf;

		if (stet_databuf_placed(buf, 0, buf->block_count))
			stet_databuf_clean(buf);
	}
}

/* --- records --- */
static int put_patch_records(struct stet_job *job, struct stet_dnode *dnode)
{
	const struct stet_version *v = dnode->newest;
	const uint8_t *block = v->buf->data + (size_t)v->from * STET_BLOCK_SIZE;
	uint8_t value[16 + STET_BLOCK_SIZE];
	int rc = 0;

	for (uint32_t i = 0; i < v->patch->count && !rc; i++) {
		uint16_t off = v->patch->range[i].off;
		uint16_t len = v->patch->range[i].len;
		/* The first record carries the base, the others build on it. */
		bool current = v->patch->base_current || i > 0;

		stet_put_le64(value, current               ? STET_PATCH_BASE_CURRENT
				     : v->patch->base_hole ? STET_PATCH_BASE_HOLE
							   : v->patch->base_addr.v);
		stet_put_le32(value + 8, v->patch->base_crc);
		stet_put_le32(value + 12, off);
		memcpy(value + 16, block + off, len);
		rc = stet_log_put_record(job->group, STET_REC_PATCH,
					 stet_skipnode_key(stet_dnode_node_(dnode)),
					 stet_dnode_node_(dnode)->key_len, value, 16u + len);
	}
	return rc;
}

static int put_buf_record(struct stet_job *job, struct stet_dnode *dnode)
{
	const uint8_t *key = stet_skipnode_key(stet_dnode_node_(dnode));
	struct stet_version *v = dnode->newest;
	uint8_t value[STET_EXTENT_VALUE_MAX];
	uint16_t run;

	int rc = stet_place_(job, v->buf->cold ? STET_SEGK_COLD : STET_SEGK_LOG,
			     stet_key_object(key), stet_key_suffix_u64(key), v->buf, v->from,
			     v->count, &run);
	if (!rc && run < v->count)
		rc = stet_delta_split_(job->engine, dnode, run);
	if (rc)
		return rc;
	size_t bytes = stet_version_encode_(v, value);
	return stet_log_put_record(job->group, STET_REC_PUT, key, stet_dnode_node_(dnode)->key_len,
				   value, bytes);
}

static uint32_t patch_bytes(const struct stet_version *v)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < v->patch->count; i++)
		sum += 48u + v->patch->range[i].len;
	return sum;
}

static bool as_patch(const struct stet_job *job, const struct stet_version *v)
{
	return v->patch && !job->checkpoint && patch_bytes(v) < STET_BLOCK_SIZE / 2 &&
	       stet_addr_is_none(v->buf->addr[v->from]);
}

static int put_version(struct stet_job *job, struct stet_dnode *dnode, bool *ret_patch)
{
	const struct stet_version *v = dnode->newest;
	const uint8_t *key = stet_skipnode_key(stet_dnode_node_(dnode));
	size_t key_bytes = stet_dnode_node_(dnode)->key_len;

	*ret_patch = false;
	switch (v->kind) {
	case STET_V_DEL:
		return stet_log_put_record(job->group, STET_REC_DEL, key, key_bytes, NULL, 0);
	case STET_V_BYTES:
		return stet_log_put_record(job->group, STET_REC_PUT, key, key_bytes, v->b,
					   v->bytes);
	case STET_V_BUF:
		if (!as_patch(job, v))
			return put_buf_record(job, dnode);
		*ret_patch = true;
		return put_patch_records(job, dnode);
	case STET_V_INTENT:
	case STET_V_SAME:
		break;
	}
	STET_ASSERT(false); /* X1: the delta holds finals only */
	return -EINVAL;
}

/* F5 */
static int is_superseded(struct stet_engine *engine, struct stet_dnode *dnode, bool *ret)
{
	const struct stet_skipnode *node = stet_dnode_node_(dnode);
	struct stet_list *pos;
	int rc = -ENOENT;

	for (pos = engine->runs.prev; pos != &engine->runs && rc == -ENOENT; pos = pos->prev) {
		const struct stet_run *run = &stet_container_of(pos, struct stet_runref, link)->run;
		const struct stet_root root = { run->root, run->root_level };
		struct stet_tree_item item;

		if (run->serial <= dnode->newest->serial)
			break;
		rc = stet_tree_lookup(engine->cache, STET_TREE_RUN, &root, stet_skipnode_key(node),
				      node->key_len, &item);
		if (!rc)
			stet_tree_item_release(&item);
	}
	*ret = rc == 0;
	return rc == -ENOENT ? 0 : rc;
}

static int put_dirty(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	struct stet_list *pos;

	while ((pos = stet_list_first(&engine->dirty))) {
		struct stet_dnode *dnode = stet_container_of(pos, struct stet_dnode, dirty);
		struct stet_flight flight = { dnode, dnode->newest->serial, false };
		bool superseded;
		int rc = stet_vec_reserve(&job->flight, 1);

		if (!rc)
			rc = is_superseded(engine, dnode, &superseded);
		if (!rc && !superseded)
			rc = put_version(job, dnode, &flight.patch);
		if (rc)
			return rc;
		stet_list_del(&dnode->dirty);
		job->flight.v[job->flight.n++] = flight;
	}
	return 0;
}

/* Blocks that the log knows as patches get their places: the next root will name them. */
static int place_patched(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	struct stet_list *pos, *tmp;

	STET_LIST_FOREACH_SAFE(pos, tmp, &engine->unplaced) {
		struct stet_dnode *dnode = stet_container_of(pos, struct stet_dnode, unplaced);
		const uint8_t *key = stet_skipnode_key(stet_dnode_node_(dnode));
		struct stet_version *v = dnode->newest;
		struct stet_flight flight = { dnode, v->serial, true };
		uint16_t run;
		int rc = stet_vec_reserve(&job->flight, 1);

		if (!rc)
			rc = stet_place_(job, STET_SEGK_LOG, stet_key_object(key),
					 stet_key_suffix_u64(key), v->buf, v->from, v->count, &run);
		if (rc)
			return rc;
		STET_ASSERT_CMP(run, ==, v->count);
		stet_delta_placed_(engine, dnode);
		job->flight.v[job->flight.n++] = flight;
	}
	return 0;
}

static int put_runs(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->runs) {
		struct stet_runref *ref = stet_container_of(pos, struct stet_runref, link);
		struct stet_run_disk disk;

		if (ref->logged)
			continue;
		int rc = stet_vec_reserve(&job->runs, 1);
		if (rc)
			return rc;
		stet_run_encode(&ref->run, &disk);
		rc = stet_log_put_record(job->group, STET_REC_RUN, NULL, 0, &disk, sizeof(disk));
		if (rc)
			return rc;
		ref->refs++;
		ref->logged = true;
		job->runs.v[job->runs.n++] = ref;
	}
	return 0;
}

static int put_high_water(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	le64 value = le64_make(engine->next_ino);

	if (engine->next_ino == engine->logged_next_ino)
		return 0;
	return stet_log_put_record(job->group, STET_REC_NEXT_INO, NULL, 0, &value, sizeof(value));
}

static bool anything_to_flush(const struct stet_engine *engine, bool checkpoint)
{
	if (!stet_list_empty(&engine->dirty) || (checkpoint && !stet_list_empty(&engine->unplaced)))
		return true;
	const struct stet_list *last = engine->runs.prev;
	return last != &engine->runs && !stet_container_of(last, struct stet_runref, link)->logged;
}

/* Undoes what building the batch did to the delta: the keys wait for the next flush. */
static void take_back(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;

	stet_placed_undo_(job);
	for (size_t i = 0; i < job->runs.n; i++)
		job->runs.v[i]->logged = false;
	for (size_t i = 0; i < job->flight.n; i++) {
		struct stet_dnode *dnode = job->flight.v[i].dnode;
		struct stet_version *v = dnode->newest;

		if (v->serial != job->flight.v[i].serial && v->patch) {
			stet_free(v->patch); /* its base did not reach the log */
			v->patch = NULL;
		}
		if (!stet_list_linked(&dnode->dirty))
			stet_list_add_tail(&engine->dirty, &dnode->dirty);
	}
	engine->dirty_bytes += STET_BLOCK_SIZE;
	if (engine->dirty_since_ns == 0)
		engine->dirty_since_ns = engine->config.clock->mono_ns(engine->config.clock);
}

static int build(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	int rc = stet_log_begin(engine->log, true, &job->group);

	if (rc)
		return rc;
	rc = put_high_water(job);
	if (!rc)
		rc = put_runs(job);
	if (!rc)
		rc = put_dirty(job);
	if (!rc && job->checkpoint)
		rc = place_patched(job);
	if (!rc)
		rc = stet_log_end(job->group, STET_PSEG_COMMIT, job->cut, stet_engine_now(engine),
				  engine->bulk_writes > engine->bulk_flushed);
	return rc;
}

/* Trying again would not help where the log itself has no place. Every accepted operation reserved its
 * room; what is short is the log's own. */
static int cannot_go_on(struct stet_engine *engine, int rc)
{
	if (rc != -ENOSPC && rc != -EROFS)
		return rc;
	stet_engine_fail_(engine, rc == -ENOSPC ? "the log found no free segment"
						: "neither place for the log's next write is good");
	return -EIO;
}

int stet_flush_start_(struct stet_engine *engine, bool checkpoint, struct stet_job **ret)
{
	struct stet_job *job;

	*ret = NULL;
	if (engine->flushing)
		return -EAGAIN;
	if (engine->failed)
		return stet_engine_refuse_(engine);
	if (!anything_to_flush(engine, checkpoint))
		return 0;
	int rc = stet_job_create_(engine, STET_JOB_FLUSH, &job);
	if (rc)
		return rc;
	job->flush = !stet_mutant_is(STET_MUTANT_NO_FLUSH);
	job->cut = engine->serial;
	job->checkpoint = checkpoint;
	job->bulk_writes = engine->bulk_writes;
	job->next_ino = engine->next_ino;
	rc = build(job);
	if (rc) {
		if (job->group)
			stet_log_abandon(job->group);
		take_back(job);
		stet_job_destroy_(job);
		return cannot_go_on(engine, rc);
	}
	engine->dirty_bytes = 0;
	engine->dirty_since_ns = 0;
	engine->flushing = job;
	engine->flush_cut = job->cut;
	engine->idle_published = false;
	*ret = job;
	return 0;
}

int stet_engine_flush_start(struct stet_engine *engine, struct stet_job **ret)
{
	int rc = stet_flush_start_(engine, false, ret);

	return rc == -EAGAIN ? 0 : rc;
}

int stet_flush_idle_(struct stet_engine *engine, struct stet_job **ret)
{
	struct stet_job *job;
	int rc = stet_job_create_(engine, STET_JOB_FLUSH, &job);

	*ret = NULL;
	if (rc)
		return rc;
	job->flush = true;
	job->idle = true;
	job->cut = engine->durable_cut;
	job->bulk_writes = engine->bulk_flushed;
	job->next_ino = engine->logged_next_ino;
	rc = stet_log_begin(engine->log, true, &job->group);
	if (!rc)
		rc = stet_log_end(job->group, STET_PSEG_IDLE, 0, stet_engine_now(engine), false);
	if (rc) {
		if (job->group)
			stet_log_abandon(job->group);
		stet_job_destroy_(job);
		engine->idle_published =
			true; /* not worth any trouble: the next commit says it too */
		return rc == -ENOSPC ? 0 : rc;
	}
	engine->flushing = job;
	engine->flush_cut = job->cut;
	*ret = job;
	return 0;
}

bool stet_engine_flushing(const struct stet_engine *engine)
{
	return engine->flushing != NULL;
}

int stet_engine_durable(struct stet_engine *engine, uint64_t serial, struct stet_ticket *ticket)
{
	struct stet_waiter waiter = { serial, ticket };

	if (serial <= engine->durable_cut || stet_mutant_is(STET_MUTANT_NO_FLUSH))
		return 0;
	if (engine->failed)
		return STET_FAIL(-EIO, "the volume failed before this became durable");
	if (!ticket)
		return STET_WAIT;
	int rc = stet_vec_push(&engine->waiters, waiter);
	return rc ? rc : STET_WAIT;
}

void stet_waiters_fire_(struct stet_engine *engine, bool ckpt, uint64_t up_to, int result)
{
	size_t kept = 0;
	size_t n = ckpt ? engine->ckpt_waiters.n : engine->waiters.n;
	struct stet_waiter *v = ckpt ? engine->ckpt_waiters.v : engine->waiters.v;

	for (size_t i = 0; i < n; i++) {
		if (v[i].serial <= up_to || stet_mutant_is(STET_MUTANT_ANSWER_ALL))
			stet_ticket_fire(v[i].ticket, result);
		else
			v[kept++] = v[i];
	}
	if (ckpt)
		engine->ckpt_waiters.n = kept;
	else
		engine->waiters.n = kept;
}

/* The volume falls back to its last durable state; nothing more is written. */
void stet_engine_fail_(struct stet_engine *engine, const char *why)
{
	const char *cause = stet_error_text(); /* what this thread met last led here */
	struct stet_list *pos;

	if (engine->failed)
		return;
	engine->failed = true;
	engine->stats.failed = true;
	(void)snprintf(engine->stats.failure, sizeof(engine->stats.failure), "%s%s%s%s", why,
		       cause[0] ? " (" : "", cause, cause[0] ? ")" : "");
	stet_ignore(STET_FAIL(-EIO, "the volume is read-only from now on: %s",
			      engine->stats.failure),
		    "recorded");
	STET_LIST_FOREACH(pos, &engine->txns)
		stet_txn_doom(stet_container_of(pos, struct stet_txn, link), -EIO);
	stet_waiters_fire_(engine, false, UINT64_MAX, -EIO);
	stet_waiters_fire_(engine, true, UINT64_MAX, -EIO);
	stet_ticket_fire_all(&engine->space_waiters, -EIO);
	stet_ticket_fire_all(&engine->reclaim_waiters, -EIO);
}

int stet_engine_refuse_(const struct stet_engine *engine)
{
	return STET_FAIL(-EROFS, "the volume failed: %s", engine->stats.failure);
}

static void flushed(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;

	stet_log_complete(job->group);
	engine->durable_cut = job->cut;
	engine->bulk_flushed = job->bulk_writes;
	engine->logged_next_ino = job->next_ino;
	engine->flush_retries = 0;
	engine->stats.flushes++;
	stet_placed_done_(job);
	for (size_t i = 0; i < job->flight.n; i++) {
		struct stet_flight *f = &job->flight.v[i];

		if (f->patch && !job->checkpoint && f->dnode->newest->serial == f->serial)
			stet_delta_unplaced_(engine, f->dnode);
		stet_delta_prune_(engine, f->dnode);
	}
	if (job->idle)
		engine->idle_published = true;
	stet_waiters_fire_(engine, false, engine->durable_cut, 0);
}

void stet_flush_finish_(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	bool ok = job->rc == 0;

	engine->flushing = NULL;
	engine->flushed_ns = engine->config.clock->mono_ns(engine->config.clock);
	if (ok) {
		flushed(job);
	} else {
		bool fatal = stet_log_group_failed(job->group) == STET_LOG_FLUSH_FAILED ||
			     ++engine->flush_retries > FLUSH_RETRIES_MAX;

		stet_log_abandon(job->group);
		engine->flush_cut = engine->durable_cut;
		if (fatal)
			stet_engine_fail_(engine, "a flush of the log failed");
		if (!job->idle)
			take_back(job);
	}
	if (job->checkpoint)
		stet_ckpt_flushed_(engine, job, ok);
	stet_job_destroy_(job);
}
