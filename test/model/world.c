/* world.c - life of a simulated volume, and its background work.
 *
 * W1. One thread; the volume's lock is not needed. Jobs are started, performed and finished in random
 *     order, so that flushes, checkpoints, reclaim and cleaning overlap with operations as they would
 *     with threads.
 * W2. Every start of a flush is noticed: only what was ordered by then can be what a crash shows.
 * W3. Waiting is working: a ticket that background work cannot fire waits for a lock.
 */
#include "world.h"

#include "base/assert.h"
#include "base/mem.h"
#include "format/superblock.h"

#include <stdlib.h>
#include <string.h>

#define START_NS INT64_C(1700000000000000000)
#define AWAIT_ROUNDS 20000u

/* --- life --- */

uint64_t world_volume_id(const struct world_config *config)
{
	return config->seed * 2 + 1;
}

static void fill_superblock(const struct world_config *config, struct stet_superblock *sb)
{
	memset(sb, 0, sizeof(*sb));
	sb->volume_id = world_volume_id(config);
	sb->device_blocks = config->size_bytes / STET_BLOCK_SIZE;
	sb->seg_start_block = STET_HEAD_BLOCKS;
	sb->seg_blocks = config->seg_blocks;
	sb->slot_count = (uint32_t)((sb->device_blocks - 1 - STET_HEAD_BLOCKS) / sb->seg_blocks);
	sb->meta_copies = config->meta_copies;
	sb->data_copies = 1;
	sb->created_ns = START_NS;
}

static void fill_config(struct world *w, struct stet_engine_config *ret)
{
	*ret = (struct stet_engine_config){
		.cache_bytes = w->config.cache_bytes,
		.checkpoint_bytes = w->config.checkpoint_bytes,
		.delta_bytes = w->config.delta_bytes,
		.spill_bytes = w->config.spill_bytes,
		.seed = w->config.seed,
		.clock = &w->clock.clock,
	};
}

static int format(struct world *w)
{
	struct stet_superblock sb;
	struct stet_engine_config config;
	struct stet_engine_hooks hooks;
	struct stet_fs_root root = { .mode = 0755, .now_ns = START_NS };
	struct stet_fs *fs;
	int rc = stet_fs_create(&fs);

	if (rc)
		return rc;
	fill_superblock(&w->config, &sb);
	fill_config(w, &config);
	stet_fs_hooks(fs, &hooks);
	rc = stet_engine_format(w->device, &sb, &config, stet_fs_fill_root, &root, &hooks);
	stet_fs_destroy(fs);
	return rc;
}

static int stack_devices(struct world *w)
{
	int rc = 0;

	w->device = w->base;
	if (w->config.record)
		rc = sim_record_create(w->base, &w->record);
	if (!rc && w->record)
		w->device = sim_record_device(w->record);
	if (!rc && w->config.fault)
		rc = sim_fault_create(w->device, w->config.seed, &w->fault);
	if (!rc && w->fault)
		w->device = sim_fault_device(w->fault);
	return rc;
}

static struct world *world_alloc(const struct world_config *config)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->config = *config;
	w->bytes = malloc(WORLD_BYTES_MAX);
	if (!w->bytes)
		abort();
	sim_clock_init(&w->clock, START_NS);
	stet_random_seed(&w->pump, config->seed);
	return w;
}

int world_create(const struct world_config *config, struct world **ret)
{
	struct world *w = world_alloc(config);
	int rc = sim_image_create(config->size_bytes, &w->base);

	w->device = w->base;
	if (!rc)
		rc = format(w);
	if (!rc)
		rc = stack_devices(w);
	if (rc)
		world_destroy(w);
	else
		*ret = w;
	return rc;
}

int world_create_on(const struct world_config *config, struct stet_device *image,
		    struct world **ret)
{
	struct world *w = world_alloc(config);
	int rc = sim_image_copy(image, &w->base);

	if (!rc)
		rc = stack_devices(w);
	if (rc)
		world_destroy(w);
	else
		*ret = w;
	return rc;
}

void world_destroy(struct world *w)
{
	if (!w)
		return;
	world_close(w);
	sim_fault_destroy(w->fault);
	sim_record_destroy(w->record);
	stet_device_close(w->base);
	free(w->bytes);
	free(w);
}

int world_open(struct world *w)
{
	struct stet_engine_config config;
	struct stet_engine_hooks hooks;
	int rc = stet_fs_create(&w->fs);

	if (rc)
		return rc;
	fill_config(w, &config);
	stet_fs_hooks(w->fs, &hooks);
	rc = stet_engine_open(w->device, &config, &hooks, &w->engine);
	if (rc) {
		stet_fs_destroy(w->fs);
		w->fs = NULL;
		w->engine = NULL;
		return rc;
	}
	stet_fs_attach(w->fs, w->engine);
	w->background_rc = 0;
	w->reclaim_waits = w->clean_waits = w->cleaned = false;
	stet_ticket_init(&w->reclaim_ticket, NULL, NULL);
	stet_ticket_init(&w->clean_ticket, NULL, NULL);
#ifdef STET_HAVE_CLEAN
	rc = stet_cleaner_create(w->fs, w->engine, NULL, &w->cleaner);
#endif
	return rc;
}

static void add_totals(struct world *w)
{
	struct stet_engine_stats stats;

	stet_engine_stats(w->engine, &stats);
	w->totals.flushes += stats.flushes;
	w->totals.checkpoints += stats.checkpoints;
	w->totals.spills += stats.spills;
	w->totals.overlays += stats.overlays;
#ifdef STET_HAVE_CLEAN
	struct stet_clean_stats clean_stats;

	stet_clean_stats(w->cleaner, &clean_stats);
	w->totals.cleaned += clean_stats.victims;
#endif
}

void world_close(struct world *w)
{
	if (!w->engine)
		return;
	if (w->cleaned) /* it may wait for a checkpoint, and must not be left waiting */
		stet_ignore(world_settle(w), "a failed volume has told it");
	world_drain(w);
	add_totals(w);
	stet_ticket_cancel(&w->reclaim_ticket);
	stet_ticket_cancel(&w->clean_ticket);
#ifdef STET_HAVE_CLEAN
	stet_cleaner_destroy(w->cleaner);
	w->cleaner = NULL;
#endif
	stet_engine_close(w->engine);
	stet_fs_destroy(w->fs);
	w->engine = NULL;
	w->fs = NULL;
}

int world_kill(struct world *w)
{
	void (*on_flush)(void *arg, uint64_t cut) = w->on_flush;
	struct stet_device *image;
	int rc = sim_image_copy(w->base, &image);

	STET_ASSERT(!w->record);
	if (rc)
		return rc;
	w->on_flush = NULL; /* what happens to the old device from now on is never seen */
	world_close(w);
	w->on_flush = on_flush;
	sim_fault_destroy(w->fault);
	w->fault = NULL;
	stet_device_close(w->base);
	w->base = image;
	rc = stack_devices(w);
	return rc ? rc : world_open(w);
}

/* --- jobs --- */

bool world_failed(const struct world *w)
{
	struct stet_engine_stats stats;

	stet_engine_stats(w->engine, &stats);
	return stats.failed;
}

static struct world_job *free_job(struct world *w)
{
	for (unsigned k = 0; k < WORLD_JOBS; k++)
		if (!w->jobs[k].job)
			return &w->jobs[k];
	return NULL;
}

static void note_background(struct world *w, int rc)
{
	if (rc < 0 && rc != STET_WAIT && !w->background_rc)
		w->background_rc = rc;
}

/* Starts a job: a step of the engine, or a flush. True: something was done. */
static bool start(struct world *w, bool flush)
{
	struct world_job *slot = free_job(w);
	bool before = stet_engine_flushing(w->engine);
	struct stet_job *job = NULL;
	int rc;

	if (!slot)
		return false;
	rc = flush ? stet_engine_flush_start(w->engine, &job) : stet_engine_step(w->engine, &job);
	note_background(w, rc);
	if (!before && stet_engine_flushing(w->engine) && w->on_flush)
		w->on_flush(w->on_flush_arg, stet_engine_serial(w->engine)); /* W2 */
	if (job)
		*slot = (struct world_job){ job, false };
	return job || rc == 1;
}

static bool perform(struct world *w, unsigned k)
{
	if (!w->jobs[k].job || w->jobs[k].performed)
		return false;
	stet_job_perform(w->jobs[k].job);
	w->jobs[k].performed = true;
	return true;
}

static bool finish(struct world *w, unsigned k)
{
	struct stet_job *job = w->jobs[k].job;

	if (!job || !w->jobs[k].performed)
		return false;
	w->jobs[k] = (struct world_job){ NULL, false };
	stet_engine_finish(w->engine, job);
	return true;
}

void world_drain(struct world *w)
{
	for (unsigned k = 0; k < WORLD_JOBS; k++)
		perform(w, k);
	for (unsigned k = 0; k < WORLD_JOBS; k++)
		finish(w, k);
}

/* --- steps of others --- */

static bool reclaim(struct world *w)
{
	int rc;

	if ((w->reclaim_waits && !w->reclaim_ticket.fired) || !stet_fs_wants_reclaim(w->fs))
		return false;
	stet_ticket_cancel(&w->reclaim_ticket);
	stet_ticket_init(&w->reclaim_ticket, NULL, NULL);
	rc = stet_fs_reclaim_step(w->fs, &w->reclaim_ticket);
	w->reclaim_waits = rc == STET_WAIT;
	note_background(w, rc);
	return rc == 1;
}

#ifdef STET_HAVE_CLEAN
static bool clean(struct world *w, bool unasked)
{
	struct stet_engine_pressure pressure;
	int rc;

	stet_engine_pressure(w->engine, &pressure);
	if ((w->clean_waits && !w->clean_ticket.fired) ||
	    (!unasked && pressure.want_segments == 0 && !stet_cleaner_wants_work(w->cleaner)))
		return false;
	stet_ticket_cancel(&w->clean_ticket);
	stet_ticket_init(&w->clean_ticket, NULL, NULL);
	w->cleaned = true;
	rc = stet_clean_step(w->cleaner, &w->clean_ticket);
	w->clean_waits = rc == STET_WAIT;
	note_background(w, rc);
	return rc == 1;
}
#else
static bool clean(struct world *w, bool unasked)
{
	(void)w;
	(void)unasked;
	return false;
}
#endif

/* Where nobody cleans, who waits for room is told; the cleaner tells them itself. */
static bool give_up_space(struct world *w)
{
#ifdef STET_HAVE_CLEAN
	(void)w;
	return false;
#else
	struct stet_engine_pressure pressure;

	stet_engine_pressure(w->engine, &pressure);
	if (!pressure.waiters)
		return false;
	stet_engine_cleaned(w->engine, false);
	return true;
#endif
}

void world_pump(struct world *w, uint64_t seed, unsigned actions)
{
	stet_random_seed(&w->pump, seed);
	for (unsigned i = 0; i < actions; i++) {
		unsigned k = (unsigned)stet_random_below(&w->pump, WORLD_JOBS);

		switch (stet_random_below(&w->pump, 24)) {
		case 0 ... 6:
			start(w, false);
			break;
		case 7:
			start(w, true);
			break;
		case 8 ... 12:
			perform(w, k);
			break;
		case 13 ... 17:
			finish(w, k);
			break;
		case 18 ... 20:
			reclaim(w);
			break;
		case 21:
			clean(w, stet_random_below(&w->pump, 4) == 0);
			break;
		case 22:
			sim_clock_advance(&w->clock,
					  (int64_t)stet_random_below(&w->pump, 6000) * 1000000);
			break;
		default:
			if (stet_random_below(&w->pump, 6) == 0)
				stet_ignore(stet_engine_checkpoint(w->engine, NULL),
					    "may be FAILED");
			break;
		}
	}
}

/* One thing that may help whoever waits. */
static bool work(struct world *w)
{
	bool done = false;

	for (unsigned k = 0; k < WORLD_JOBS; k++)
		done = perform(w, k) || done;
	for (unsigned k = 0; k < WORLD_JOBS; k++)
		done = finish(w, k) || done;
	done = start(w, false) || done;
	if (!done)
		done = reclaim(w);
	return done || clean(w, false);
}

bool world_await(struct world *w, struct stet_ticket *ticket)
{
	for (unsigned i = 0; i < AWAIT_ROUNDS && !ticket->fired; i++) {
		/* Twice: what comes last may have given work to what comes first. */
		if (!work(w) && !work(w) && !give_up_space(w))
			break;
	}
	return ticket->fired;
}

int world_durable(struct world *w, uint64_t serial)
{
	struct stet_ticket ticket;
	int rc;

	stet_ticket_init(&ticket, NULL, NULL);
	rc = stet_engine_durable(w->engine, serial, &ticket);
	for (unsigned i = 0; rc == STET_WAIT && i < AWAIT_ROUNDS; i++) {
		if (ticket.fired)
			rc = ticket.result;
		else if (!work(w))
			start(w, true);
	}
	stet_ticket_cancel(&ticket);
	return rc;
}

int world_settle(struct world *w)
{
	struct stet_ticket ticket;
	int rc;

	stet_ticket_init(&ticket, NULL, NULL);
	rc = stet_engine_checkpoint(w->engine, &ticket);
	if (rc)
		return rc;
	while (!ticket.fired && work(w))
		;
	world_drain(w);
	if (!ticket.fired)
		return world_failed(w) ? -EIO : -ETIMEDOUT;
	return ticket.result;
}
