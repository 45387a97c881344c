/* engine.c - a volume as a whole: format, open, close, background steps, questions.
 *
 * E1. Background work is one state machine asked for its next step (stet_engine_step). It never blocks:
 *     I/O leaves as a job, and what the job's end changes is done in stet_engine_finish.
 * E2. The log's last header cannot say that it is durable itself. When the volume goes idle an empty one
 *     follows that does, so that damage to what was acknowledged last is not taken for a torn tail.
 * E3. Memory: delta and write-sets are charged to the cache. Operations wait (stet_txn_reserve) when the
 *     delta or the unlogged data passes twice its limit, until a flush or checkpoint has made room.
 */
#include "txn/engine.h"

#include "base/assert.h"
#include "base/mem.h"
#include "format/superblock.h"
#include "txn/ckpt.h"

#include <string.h>

#define CHECKPOINT_BYTES_MAX (UINT64_C(64) << 20)
#define CHECKPOINT_BYTES_MIN (UINT64_C(1) << 20)
#define CACHE_BYTES_MIN (UINT64_C(4) << 20)
#define FLUSH_INTERVAL_NS INT64_C(5000000000)
#define IDLE_NS INT64_C(1000000000) /* without a flush: the volume is idle */

static uint64_t volume_bytes(const struct stet_superblock *sb)
{
	return (uint64_t)sb->slot_count * sb->seg_blocks * STET_BLOCK_SIZE;
}

static uint64_t clamp(uint64_t v, uint64_t low, uint64_t high)
{
	return v < low ? low : v > high ? high : v;
}

static void set_limits(struct stet_engine *engine)
{
	uint64_t volume = volume_bytes(&engine->sb);
	struct stet_engine_config *c = &engine->config;

	if (c->cache_bytes < CACHE_BYTES_MIN)
		c->cache_bytes = CACHE_BYTES_MIN;
	if (c->flush_interval_ns <= 0)
		c->flush_interval_ns = FLUSH_INTERVAL_NS;
	engine->checkpoint_bytes = c->checkpoint_bytes ? c->checkpoint_bytes
						       : clamp(volume / 32, CHECKPOINT_BYTES_MIN,
							       CHECKPOINT_BYTES_MAX);
	engine->dirty_limit_bytes = clamp(volume / 32, UINT64_C(1) << 18, c->cache_bytes / 4);
	engine->delta_limit_bytes = c->delta_bytes ? c->delta_bytes : c->cache_bytes / 4;
	engine->extent_blocks_max = (uint16_t)clamp(engine->sb.seg_blocks / 4, 1,
						    STET_EXTENT_BLOCKS_MAX);
}

static void init_lists(struct stet_engine *engine)
{
	stet_list_init(&engine->dirty);
	stet_list_init(&engine->unplaced);
	stet_list_init(&engine->runs);
	stet_list_init(&engine->views);
	stet_list_init(&engine->txns);
	stet_ticket_queue_init(&engine->space_waiters);
	stet_ticket_queue_init(&engine->reclaim_waiters);
	engine->begun_with = UINT32_MAX;
	stet_rangeset_init(&engine->recovered);
	stet_vec_init(&engine->waiters);
	stet_vec_init(&engine->ckpt_waiters);
	stet_vec_init(&engine->touches);
	stet_vec_init(&engine->touched_pages);
}

static int engine_create(struct stet_device *device, const struct stet_superblock *sb,
			 const struct stet_engine_config *config,
			 const struct stet_engine_hooks *hooks, struct stet_engine **ret)
{
	struct stet_engine *engine = stet_calloc(1, sizeof(*engine));

	if (!engine)
		return STET_FAIL(-ENOMEM, "no memory for a volume");
	engine->device = device;
	engine->sb = *sb;
	engine->config = *config;
	engine->hooks = *hooks;
	engine->next_ino = STET_ROOT_INO + 1; /* the root has its number from `fill` */
	engine->next_txn_id = 1;
	init_lists(engine);
	set_limits(engine);
	stet_random_seed(&engine->random, config->seed);
	stet_skiplist_init(&engine->delta, stet_engine_random(engine), sizeof(struct stet_dnode));
	engine->root = stet_calloc(1, sizeof(*engine->root));
	int rc = engine->root ? stet_locks_create(stet_engine_random(engine), &engine->locks)
			      : STET_FAIL(-ENOMEM, "no memory for a volume");
	if (engine->root)
		engine->root->refs = 1;
	if (rc) {
		stet_engine_close(engine);
		return rc;
	}
	*ret = engine;
	return 0;
}

void stet_engine_pair_locks(struct stet_engine *engine, struct stet_locks *locks)
{
	stet_locks_pair(engine->locks, locks);
}

void stet_engine_lock_owner(struct stet_engine *engine, struct stet_lock_owner *owner, uint64_t age)
{
	stet_lock_owner_init(owner, engine->locks, age);
}

static void free_runs(struct stet_engine *engine)
{
	struct stet_list *pos;

	while ((pos = stet_list_first(&engine->runs))) {
		stet_list_del(pos);
		stet_runref_put_(engine, stet_container_of(pos, struct stet_runref, link));
	}
}

static void free_touches(struct stet_engine *engine)
{
	for (size_t i = 0; i < engine->touches.n; i++) {
		union {
			const uint8_t *in;
			void *out;
		} key = { .in = engine->touches.v[i].key };

		stet_free(key.out);
	}
	stet_vec_release(&engine->touches);
}

void stet_engine_close(struct stet_engine *engine)
{
	if (!engine)
		return;
	STET_ASSERT(stet_list_empty(&engine->txns));
	STET_ASSERT(!engine->flushing);
	stet_ckpt_abort_(engine);
	STET_ASSERT(stet_list_empty(&engine->views));
	if (engine->trimming) /* what the root has is not given back */
		stet_delta_trim_step_(engine, SIZE_MAX);
	stet_delta_release_(engine);
	free_runs(engine);
	free_touches(engine);
	stet_gaps_clear_(&engine->gaps);
	stet_vec_release(&engine->touched_pages);
	stet_vec_release(&engine->waiters);
	stet_vec_release(&engine->ckpt_waiters);
	stet_rangeset_release(&engine->recovered);
	if (engine->root)
		stet_rootref_put_(engine, engine->root);
	stet_locks_destroy(engine->locks);
	stet_cache_destroy(engine->cache);
	stet_log_destroy(engine->log);
	stet_space_destroy(engine->space);
	stet_free(engine);
}

/* --- format --- */
static uint64_t superblock_place(const struct stet_superblock *sb, uint32_t copy)
{
	const uint64_t block[3] = { STET_SB_BLOCK_0, STET_SB_BLOCK_1, sb->device_blocks - 1 };

	return block[copy] * STET_BLOCK_SIZE;
}

static int write_head(struct stet_device *device, const struct stet_superblock *sb, bool blank)
{
	struct stet_superblock_disk disk;
	int rc = 0;

	for (uint32_t copy = 0; copy < 3 && !rc; copy++) {
		if (blank)
			memset(&disk, 0, sizeof(disk));
		else
			stet_superblock_encode(sb, copy, &disk);
		rc = stet_device_write(device, superblock_place(sb, copy), &disk, sizeof(disk));
	}
	memset(&disk, 0, sizeof(disk));
	if (!rc && blank)
		rc = stet_device_write(device, STET_CKPT_SLOT_BLOCK_0 * (uint64_t)STET_BLOCK_SIZE,
				       &disk, sizeof(disk));
	if (!rc && blank)
		rc = stet_device_write(device, STET_CKPT_SLOT_BLOCK_1 * (uint64_t)STET_BLOCK_SIZE,
				       &disk, sizeof(disk));
	return rc ? rc : stet_device_flush(device);
}

static int fill_volume(struct stet_engine *engine, int (*fill)(void *arg, struct stet_txn *txn),
		       void *fill_arg)
{
	struct stet_txn *txn;
	uint64_t wait;
	int rc = stet_txn_begin(engine, STET_LEVEL_PLAIN, false, &txn);

	if (rc)
		return rc;
	rc = fill(fill_arg, txn);
	if (!rc)
		rc = stet_txn_order(txn, NULL, &wait);
	stet_txn_end(txn);
	return rc;
}

int stet_engine_format(struct stet_device *device, const struct stet_superblock *sb,
		       const struct stet_engine_config *config,
		       int (*fill)(void *arg, struct stet_txn *txn), void *fill_arg,
		       const struct stet_engine_hooks *hooks)
{
	struct stet_engine *engine;
	int rc = write_head(device, sb, true);

	if (!rc)
		rc = engine_create(device, sb, config, hooks, &engine);
	if (rc)
		return rc;
	rc = stet_space_create(sb, &engine->space);
	if (!rc)
		rc = stet_log_create(device, engine->space, sb, &engine->log);
	if (!rc)
		rc = stet_cache_create(device, engine->space, sb, engine->config.cache_bytes,
				       &engine->cache);
	if (!rc)
		rc = stet_log_format(engine->log);
	if (!rc)
		rc = fill_volume(engine, fill, fill_arg);
	if (!rc)
		rc = stet_engine_settle(engine);
	stet_engine_close(engine);
	return rc ? rc : write_head(device, sb, false);
}

/* --- open --- */
int stet_engine_read_superblock(struct stet_device *device, struct stet_superblock *ret_sb)
{
	struct stet_superblock_disk disk;
	uint64_t last = device->size_bytes / STET_BLOCK_SIZE;
	const uint64_t block[3] = { STET_SB_BLOCK_0, STET_SB_BLOCK_1, last ? last - 1 : 0 };
	int first = 0;

	if (last < STET_HEAD_BLOCKS)
		return STET_FAIL(-EINVAL, "too small to be a StetFS volume");
	for (uint32_t copy = 0; copy < 3; copy++) {
		int rc = stet_device_read(device, block[copy] * STET_BLOCK_SIZE, &disk,
					  sizeof(disk));

		if (!rc)
			rc = stet_superblock_decode(&disk, ret_sb);
		if (!rc && ret_sb->device_blocks > last)
			return STET_FAIL(-EUCLEAN,
					 "the volume has %llu blocks but the device only %llu",
					 (unsigned long long)ret_sb->device_blocks,
					 (unsigned long long)last);
		if (!rc)
			return 0;
		/* A damaged copy says more than a place where none was found. */
		if (first == 0 || (first == -EINVAL && rc != -EINVAL))
			first = rc;
	}
	return first;
}

int stet_engine_open(struct stet_device *device, const struct stet_engine_config *config,
		     const struct stet_engine_hooks *hooks, struct stet_engine **ret)
{
	struct stet_superblock sb;
	struct stet_engine *engine;
	int rc = stet_engine_read_superblock(device, &sb);

	if (!rc && !config->read_only && (sb.feature_ro_compat & ~STET_FEATURE_RO_COMPAT_KNOWN))
		rc = STET_FAIL(-EOPNOTSUPP, "unknown features %#llx: can only be read",
			       (unsigned long long)sb.feature_ro_compat);
	if (!rc)
		rc = engine_create(device, &sb, config, hooks, &engine);
	if (rc)
		return rc;
	rc = stet_recover_(engine);
	if (!rc && !config->read_only)
		rc = stet_engine_settle(engine);
	if (!rc && engine->failed)
		rc = STET_FAIL(-EIO, "recovery could not write its checkpoint");
	if (rc) {
		stet_engine_close(engine);
		return rc;
	}
	*ret = engine;
	return 0;
}

/* --- jobs --- */
void stet_job_perform(struct stet_job *job)
{
	job->rc = stet_log_perform(job->group, job->flush);
	if (!job->rc && job->kind == STET_JOB_TABLE)
		job->rc = stet_log_write_slot(job->engine->log, &job->slot);
}

void stet_engine_finish(struct stet_engine *engine, struct stet_job *job)
{
	switch (job->kind) {
	case STET_JOB_FLUSH:
		stet_flush_finish_(job);
		break;
	case STET_JOB_NODES:
	case STET_JOB_TABLE:
		stet_ckpt_finish_(job);
		break;
	case STET_JOB_BULK:
		stet_spill_finish_(job);
		break;
	case STET_JOB_OVERLAY:
		stet_overlay_finish_(job);
		break;
	}
	stet_space_kick_(engine);
}

static bool waiting_for_flush(const struct stet_engine *engine)
{
	return (engine->waiters.n > 0 && !engine->led) ||
	       engine->dirty_bytes > engine->dirty_limit_bytes;
}

static bool flush_due(const struct stet_engine *engine)
{
	int64_t now = engine->config.clock->mono_ns(engine->config.clock);

	return waiting_for_flush(engine) ||
	       (engine->dirty_since_ns != 0 &&
		now - engine->dirty_since_ns >= engine->config.flush_interval_ns);
}

/* E2. When it is to be said that everything is durable; INT64_MAX: it has been. */
static int64_t idle_deadline(const struct stet_engine *engine)
{
	if (engine->idle_published || engine->durable_cut <= engine->root->cut ||
	    !stet_list_empty(&engine->dirty) || engine->flushing || engine->ckpt)
		return INT64_MAX;
	return engine->flushed_ns + IDLE_NS;
}

void stet_engine_led(struct stet_engine *engine, bool on)
{
	engine->led = on;
}

int stet_engine_step(struct stet_engine *engine, struct stet_job **ret)
{
	int rc;

	*ret = NULL;
	if (engine->failed || engine->config.read_only)
		return 0;
	rc = stet_ckpt_step_(engine, ret);
	if (rc)
		return rc;
	if (flush_due(engine)) {
		rc = stet_engine_flush_start(engine, ret);
		return rc ? rc : *ret != NULL;
	}
	if (engine->config.clock->mono_ns(engine->config.clock) >= idle_deadline(engine)) {
		rc = stet_flush_idle_(engine, ret);
		return rc ? rc : *ret != NULL;
	}
	return 0;
}

int64_t stet_engine_deadline(const struct stet_engine *engine)
{
	if (engine->failed || engine->config.read_only)
		return INT64_MAX;
	if (engine->dirty_since_ns == 0)
		return idle_deadline(engine);
	return engine->dirty_since_ns + engine->config.flush_interval_ns;
}

bool stet_engine_wants_work(const struct stet_engine *engine)
{
	if (engine->failed || engine->config.read_only)
		return false;
	if (engine->trimming || stet_overlay_due_(engine))
		return true;
	if (engine->ckpt)
		return engine->ckpt->state == STET_CKPT_APPLY;
	return (!engine->flushing && (stet_ckpt_due_(engine) || waiting_for_flush(engine)));
}

int stet_engine_checkpoint(struct stet_engine *engine, struct stet_ticket *ticket)
{
	struct stet_waiter waiter = { engine->serial, ticket };

	if (engine->failed)
		return stet_engine_refuse_(engine);
	if (engine->config.read_only)
		return STET_FAIL(-EROFS, "the volume is open read-only");
	if (!ticket) {
		engine->ckpt_wanted = true;
		return 0;
	}
	return stet_vec_push(&engine->ckpt_waiters, waiter);
}

int stet_engine_settle(struct stet_engine *engine)
{
	struct stet_ticket ticket;

	stet_ticket_init(&ticket, NULL, NULL);
	int rc = stet_engine_checkpoint(engine, &ticket);
	while (!rc && !ticket.fired) {
		struct stet_job *job;

		rc = stet_engine_step(engine, &job);
		if (rc < 0)
			break;
		rc = 0;
		if (job) {
			stet_job_perform(job);
			stet_engine_finish(engine, job);
		}
	}
	if (!ticket.fired) {
		for (size_t i = 0; i < engine->ckpt_waiters.n; i++)
			if (engine->ckpt_waiters.v[i].ticket == &ticket)
				engine->ckpt_waiters.v[i] =
					engine->ckpt_waiters.v[--engine->ckpt_waiters.n];
	}
	return rc ? rc : ticket.result;
}

/* --- space --- */
void stet_space_kick_(struct stet_engine *engine)
{
	engine->wanted_slots = 0; /* they ask again */
	if (!stet_ticket_queue_empty(&engine->space_waiters))
		stet_ticket_fire_all(&engine->space_waiters, 0);
	stet_engine_reclaimed(engine);
}

/* What one operation may ask for at once. */
#define OPERATION_BYTES_MAX (UINT64_C(1) << 20)

void stet_engine_set_cleaner(struct stet_engine *engine, bool present)
{
	engine->has_cleaner = present;
	engine->clean_turn = false;
}

/* Those that are not there yet. */
static uint64_t wanted_slots(const struct stet_engine *engine)
{
	struct stet_space_usage u;

	stet_space_usage(engine->space, &u);
	return engine->wanted_slots > u.slots_free ? engine->wanted_slots - u.slots_free : 0;
}

void stet_engine_pressure(const struct stet_engine *engine, struct stet_engine_pressure *ret)
{
	uint32_t spare = 2;
	uint64_t missing;

	ret->waiters = !stet_ticket_queue_empty(&engine->space_waiters);
	if (ret->waiters)
		spare += OPERATION_BYTES_MAX / STET_BLOCK_SIZE / engine->sb.seg_blocks;
	stet_short_of_slots_(engine, spare, &missing);
	if (ret->waiters && wanted_slots(engine) > missing)
		missing = wanted_slots(engine);
	if (engine->failed || engine->config.read_only || engine->in_vain >= STET_IN_VAIN_MAX)
		missing = 0;
	if (engine->ckpt ||
	    (!stet_clean_first_(engine) && (stet_release_due_(engine) || engine->ckpt_wanted)))
		missing = 0; /* the checkpoint may do: ask again after it */
	ret->want_segments = (uint32_t)missing;
}

void stet_engine_cleaned(struct stet_engine *engine, bool progress)
{
	if (!progress && stet_short_of_slots_(engine, 0, NULL) &&
	    stet_txn_expire_oldest_(engine, false, NULL))
		progress = engine->ckpt_wanted = true;
	engine->clean_hopeless = !progress;
	engine->clean_turn = false;
	if (!progress)
		stet_space_kick_(engine);
}

void stet_engine_reclaimed(struct stet_engine *engine)
{
	if (!stet_ticket_queue_empty(&engine->reclaim_waiters))
		stet_ticket_fire_all(&engine->reclaim_waiters, 0);
}

int stet_engine_touch_node(struct stet_engine *engine, uint32_t level, const void *key,
			   size_t key_bytes)
{
	struct stet_touch touch = { .level = level, .key_bytes = (uint16_t)key_bytes };
	uint8_t *copy = stet_memdup(key, key_bytes ? key_bytes : 1);

	if (!copy)
		return STET_FAIL(-ENOMEM, "no memory for a node to be moved");
	touch.key = copy;
	int rc = stet_vec_push(&engine->touches, touch);
	if (rc)
		stet_free(copy);
	return rc;
}

int stet_engine_touch_page(struct stet_engine *engine, uint32_t page_no)
{
	return stet_vec_push(&engine->touched_pages, page_no);
}

/* --- questions --- */
void stet_engine_each_txn(struct stet_engine *engine, stet_engine_txn_fn *fn, void *arg)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->txns)
		fn(arg, stet_container_of(pos, struct stet_txn, link));
}

void stet_engine_root(const struct stet_engine *engine, struct stet_root *ret_root,
		      uint64_t *ret_cut)
{
	*ret_root = engine->root->root;
	*ret_cut = engine->root->cut;
}

struct stet_cache *stet_engine_cache(struct stet_engine *engine)
{
	return engine->cache;
}

struct stet_space *stet_engine_space(struct stet_engine *engine)
{
	return engine->space;
}

struct stet_log *stet_engine_log(struct stet_engine *engine)
{
	return engine->log;
}

struct stet_device *stet_engine_device(struct stet_engine *engine)
{
	return engine->device;
}

const struct stet_superblock *stet_engine_superblock(const struct stet_engine *engine)
{
	return &engine->sb;
}

int64_t stet_engine_now(struct stet_engine *engine)
{
	return engine->config.clock->wall_ns(engine->config.clock);
}

uint64_t stet_engine_random(struct stet_engine *engine)
{
	return stet_random_next(&engine->random);
}

uint64_t stet_engine_peek_ino(const struct stet_engine *engine)
{
	return engine->next_ino;
}

uint64_t stet_engine_next_ino(struct stet_engine *engine)
{
	return engine->next_ino++;
}

uint64_t stet_engine_serial(const struct stet_engine *engine)
{
	return engine->serial;
}

void stet_engine_stats(const struct stet_engine *engine, struct stet_engine_stats *ret)
{
	*ret = engine->stats;
	ret->serial = engine->serial;
	ret->durable = engine->durable_cut;
	ret->cut = engine->root->cut;
	ret->log_bytes = stet_log_summary_bytes(engine->log);
	ret->delta_keys = stet_skiplist_count(&engine->delta);
	ret->delta_bytes = engine->delta_bytes;
	ret->dirty_bytes = engine->dirty_bytes;
	ret->views = engine->view_count;
	ret->txns = engine->txn_count;
}
