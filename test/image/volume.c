/* volume.c - a volume on any device, driven from one thread.
 *
 * V1. Jobs are performed and finished as soon as they are started, so between two calls none is in flight.
 * V2. An operation that must wait changed nothing: background work is done until its ticket fires, then it
 *     starts anew. All loops are bounded, whatever the volume holds.
 */
#include "volume.h"

#include <string.h>

#define START_NS INT64_C(1700000000000000000)
#define CACHE_BYTES (UINT64_C(4) << 20) /* the least: transactions spill early */
#define WAIT_STEPS 5000u
#define WAIT_ROUNDS 50u

/* --- life --- */

static void fill_config(struct volume *v, enum volume_mode mode, struct stet_engine_config *ret)
{
	*ret = (struct stet_engine_config){
		.cache_bytes = CACHE_BYTES,
		.seed = 1,
		.read_only = mode != VOLUME_WRITE,
		.accept_prefix = mode == VOLUME_PREFIX,
		.clock = &v->clock.clock,
	};
}

int volume_format(struct stet_device *device, const struct volume_options *options)
{
	uint64_t blocks = device->size_bytes / STET_BLOCK_SIZE;
	const struct stet_superblock sb = {
		.volume_id = options->seed * 2 + 1,
		.label = "mutation test",
		.device_blocks = blocks,
		.seg_start_block = STET_HEAD_BLOCKS,
		.slot_count = (uint32_t)((blocks - 1 - STET_HEAD_BLOCKS) / options->seg_blocks),
		.seg_blocks = options->seg_blocks,
		.meta_copies = options->meta_copies,
		.data_copies = 1,
		.created_ns = START_NS,
	};
	struct stet_fs_root root = { .mode = 0755, .now_ns = START_NS };
	struct stet_engine_config config;
	struct stet_engine_hooks hooks;
	struct volume v = { .device = device };
	int rc = stet_fs_create(&v.fs);

	if (rc)
		return rc;
	sim_clock_init(&v.clock, START_NS);
	fill_config(&v, VOLUME_WRITE, &config);
	stet_fs_hooks(v.fs, &hooks);
	rc = stet_engine_format(device, &sb, &config, stet_fs_fill_root, &root, &hooks);
	stet_fs_destroy(v.fs);
	return rc;
}

int volume_open(struct stet_device *device, enum volume_mode mode, struct volume *ret)
{
	struct stet_engine_config config;
	struct stet_engine_hooks hooks;
	int rc;

	*ret = (struct volume){ .device = device };
	sim_clock_init(&ret->clock, START_NS);
	stet_ticket_init(&ret->reclaim_ticket, NULL, NULL);
	stet_ticket_init(&ret->clean_ticket, NULL, NULL);
	rc = stet_fs_create(&ret->fs);
	if (rc)
		return rc;
	fill_config(ret, mode, &config);
	stet_fs_hooks(ret->fs, &hooks);
	rc = stet_engine_open(device, &config, &hooks, &ret->engine);
	if (rc) {
		stet_fs_destroy(ret->fs);
		return rc;
	}
	stet_fs_attach(ret->fs, ret->engine);
	if (mode != VOLUME_WRITE)
		return 0;
	rc = stet_cleaner_create(ret->fs, ret->engine, NULL, &ret->cleaner);
	if (rc)
		volume_close(ret);
	return rc;
}

void volume_close(struct volume *v)
{
	stet_ticket_cancel(&v->reclaim_ticket);
	stet_ticket_cancel(&v->clean_ticket);
	stet_cleaner_destroy(v->cleaner);
	stet_engine_close(v->engine);
	stet_fs_destroy(v->fs);
}

/* --- background work --- */

static void run_job(struct volume *v, struct stet_job *job)
{
	struct stet_engine_stats stats;

	if (!job)
		return;
	stet_job_perform(job);
	stet_engine_finish(v->engine, job);
	stet_engine_stats(v->engine, &stats);
	if (stats.flushes == v->flushes)
		return;
	v->flushes = stats.flushes;
	if (v->on_flush)
		v->on_flush(v->arg, v);
}

static bool reclaim(struct volume *v)
{
	if (!stet_fs_wants_reclaim(v->fs))
		return false;
	stet_ticket_cancel(&v->reclaim_ticket);
	stet_ticket_init(&v->reclaim_ticket, NULL, NULL);
	return stet_fs_reclaim_step(v->fs, &v->reclaim_ticket) == 1;
}

/* Nobody else can make room: who waits for it is told. */
static bool give_up_space(struct volume *v)
{
	struct stet_engine_pressure pressure;

	stet_engine_pressure(v->engine, &pressure);
	if (!pressure.waiters)
		return false;
	stet_engine_cleaned(v->engine, false);
	return true;
}

/* One thing that may help whoever waits. */
static bool work(struct volume *v, bool reclaiming)
{
	struct stet_job *job = NULL;
	int rc = stet_engine_step(v->engine, &job);

	run_job(v, job);
	if (rc == 1 || job)
		return true;
	if (reclaiming && reclaim(v))
		return true;
	rc = stet_engine_flush_start(v->engine, &job);
	if (!rc && job) {
		run_job(v, job);
		return true;
	}
	return give_up_space(v);
}

int volume_flush(struct volume *v)
{
	struct stet_job *job = NULL;
	int rc = stet_engine_flush_start(v->engine, &job);

	run_job(v, job);
	return rc;
}

int volume_checkpoint(struct volume *v)
{
	int rc = volume_flush(v);

	return rc ? rc : stet_engine_settle(v->engine);
}

void volume_pump(struct volume *v, unsigned steps)
{
	for (unsigned i = 0; i < steps; i++) {
		sim_clock_advance(&v->clock, INT64_C(1000000000));
		if (!work(v, true))
			return;
	}
}

void volume_clean(struct volume *v, uint32_t segments, unsigned steps)
{
	stet_cleaner_request(v->cleaner, segments);
	for (unsigned i = 0; i < steps; i++) {
		int rc;

		stet_ticket_cancel(&v->clean_ticket);
		stet_ticket_init(&v->clean_ticket, NULL, NULL);
		rc = stet_clean_step(v->cleaner, &v->clean_ticket);
		if (rc != 1 && !work(v, false))
			break;
	}
	/* What it asked for is finished, one way or another: it must not wait when it is destroyed. */
	for (unsigned i = 0; i < WAIT_STEPS && work(v, false); i++)
		;
}

static bool await(struct volume *v, const struct stet_ticket *ticket)
{
	for (unsigned i = 0; i < WAIT_STEPS && !ticket->fired; i++)
		if (!work(v, true))
			break;
	return ticket->fired;
}

/* --- operations --- */

static int make(struct stet_fs_ctx *ctx, struct op *op)
{
	const struct stet_fs_new what = {
		.mode = op->mode,
		.uid = 1000,
		.gid = 1000,
		.target = op->data,
		.target_len = op->len,
	};

	if (op->kind == OP_MAKE_UNNAMED)
		return stet_fs_make_unnamed(ctx, &what, &op->ino);
	return stet_fs_make(ctx, op->dir, (struct stet_fs_name){ op->name, strlen(op->name) },
			    &what, &op->ino);
}

static int exec(struct stet_fs_ctx *ctx, struct op *op)
{
	struct stet_fs_name name = { op->name, op->name ? strlen(op->name) : 0 };
	struct stet_fs_name to = { op->to_name, op->to_name ? strlen(op->to_name) : 0 };
	uint64_t gone;

	switch (op->kind) {
	case OP_MAKE:
	case OP_MAKE_UNNAMED:
		return make(ctx, op);
	case OP_LINK:
		return stet_fs_link(ctx, op->ino, op->dir, name);
	case OP_UNLINK:
		return stet_fs_unlink(ctx, op->dir, name, &gone);
	case OP_RMDIR:
		return stet_fs_rmdir(ctx, op->dir, name, &gone);
	case OP_RENAME:
		return stet_fs_rename(ctx, op->dir, name, op->to_dir, to, 0, &gone);
	case OP_WRITE:
		return stet_fs_write(ctx, op->ino, op->off, op->data, op->len);
	case OP_APPEND:
		return stet_fs_append(ctx, op->ino, op->data, op->len);
	case OP_TRUNCATE:
		return stet_fs_truncate(ctx, op->ino, op->off);
	case OP_PUNCH:
		return stet_fs_punch(ctx, op->ino, op->off, op->len);
	case OP_PUT:
		return stet_fs_record_put(ctx, op->ino,
					  (struct stet_fs_key){ op->name, strlen(op->name) },
					  op->data, op->len, 0);
	case OP_DEL:
		return stet_fs_record_del(ctx, op->ino,
					  (struct stet_fs_key){ op->name, strlen(op->name) });
	case OP_XATTR_SET:
		return stet_fs_xattr_set(ctx, op->ino, name, op->data, op->len, 0);
	}
	return -EINVAL;
}

static int try_plain(struct volume *v, struct op *op, struct stet_ticket *ticket)
{
	struct stet_fs_ctx ctx = { .fs = v->fs, .ticket = ticket, .wait = true };
	uint64_t serial;
	int rc = stet_txn_begin(v->engine, STET_LEVEL_PLAIN, false, &ctx.txn);

	if (rc)
		return rc;
	rc = exec(&ctx, op);
	if (!rc)
		rc = stet_txn_order(ctx.txn, ticket, &serial);
	stet_txn_end(ctx.txn);
	return rc;
}

static int spill(struct volume *v, struct stet_txn *txn)
{
	struct stet_job *job = NULL;
	int rc = 1;

	for (unsigned i = 0; i < WAIT_STEPS && rc == 1; i++) {
		rc = stet_txn_spill(txn, &job);
		if (rc == 1)
			run_job(v, job);
	}
	return rc;
}

static int try_in(struct volume *v, struct stet_txn *txn, struct op *op, struct stet_ticket *ticket)
{
	struct stet_fs_ctx ctx = { .fs = v->fs, .txn = txn, .ticket = ticket, .wait = true };
	int rc = exec(&ctx, op);

	return rc ? rc : spill(v, txn);
}

int volume_op(struct volume *v, struct stet_txn *txn, struct op *op)
{
	int rc = STET_WAIT;

	for (unsigned i = 0; i < WAIT_ROUNDS && rc == STET_WAIT; i++) {
		struct stet_ticket ticket;
		bool go_on = true;

		stet_ticket_init(&ticket, NULL, NULL);
		rc = txn ? try_in(v, txn, op, &ticket) : try_plain(v, op, &ticket);
		if (rc == STET_WAIT)
			go_on = await(v, &ticket);
		if (ticket.fired && ticket.result)
			rc = ticket.result;
		stet_ticket_cancel(&ticket);
		if (!go_on)
			return -ETIMEDOUT;
	}
	return rc;
}

int volume_commit(struct volume *v, struct stet_txn *txn)
{
	uint64_t serial;
	int rc = STET_WAIT;

	for (unsigned i = 0; i < WAIT_ROUNDS && rc == STET_WAIT; i++) {
		struct stet_ticket ticket;

		stet_ticket_init(&ticket, NULL, NULL);
		rc = stet_txn_order(txn, &ticket, &serial);
		if (rc == STET_WAIT && !await(v, &ticket)) {
			int spilled = spill(v, txn);

			rc = spilled ? spilled : rc;
		}
		stet_ticket_cancel(&ticket);
	}
	stet_txn_end(txn);
	return rc;
}
