/* world_op.c - operations of the model done by the real system, waits and spilling included.
 *
 * A plain operation is a transaction of level PLAIN that is begun, done and ordered in one go; when it must
 * wait it is ended and begun anew. Results are encoded exactly as the model encodes them, so that
 * comparing is memcmp. Reads are planned, then background work may go on, then they are filled: the
 * pinned view must keep the places.
 */
#include "world.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>
#include <sys/stat.h>

#define PIECES 8

static struct stet_fs_name fs_name(struct model_name name)
{
	return (struct stet_fs_name){ name.bytes, name.len };
}

static int do_list(struct stet_fs_ctx *ctx, const struct model_op *op, struct model_result *ret)
{
	struct stet_fs_dir *it;
	struct stet_fs_entry e;
	int rc = stet_fs_dir_open(ctx, op->dir, (struct stet_fs_name){ "", 0 }, &it);

	if (rc)
		return rc;
	while ((rc = stet_fs_dir_next(it, &e)) == 1) {
		model_result_add(ret, &e.ino, sizeof(e.ino));
		model_result_add(ret, &e.type, 1);
		model_result_add(ret, e.name, e.name_len);
		model_result_add(ret, "", 1);
	}
	stet_fs_dir_close(it);
	return rc;
}

static int do_getattr(struct stet_fs_ctx *ctx, const struct model_op *op, struct model_result *ret)
{
	struct stet_fs_attr a;
	struct model_attr out;
	int rc = stet_fs_getattr(ctx, op->ino, &a);

	if (rc)
		return rc;
	memset(&out, 0, sizeof(out));
	out.ino = a.ino;
	out.mode = a.mode;
	out.uid = a.uid;
	out.gid = a.gid;
	out.nlink = a.nlink;
	out.size = a.size;
	out.rdev = a.rdev;
	out.parent = a.parent;
	out.atime_ns = a.atime_ns;
	out.mtime_ns = a.mtime_ns;
	out.ctime_ns = a.ctime_ns;
	out.btime_ns = a.btime_ns;
	model_result_add(ret, &out, sizeof(out));
	return 0;
}

static int read_some(struct world *w, struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off,
		     uint8_t *buf, size_t len, size_t *ret_len)
{
	struct stet_read_piece pieces[PIECES];
	struct stet_view *pin = NULL;
	size_t count = 0;
	int rc = stet_fs_read_plan(ctx, ino, off, len, buf, pieces, PIECES, &count, ret_len, &pin);

	if (rc)
		return rc;
	if (pin && w->engine && off % 3 == 0)
		world_pump(w, off + ino, 3);
	for (size_t k = 0; k < count && !rc; k++)
		rc = stet_cache_fill(w->device, &pieces[k]);
	stet_view_close(pin);
	return rc;
}

static int do_read(struct world *w, struct stet_fs_ctx *ctx, const struct model_op *op,
		   struct model_result *ret)
{
	size_t want = op->len < ret->cap ? (size_t)op->len : ret->cap;
	size_t got = 0;
	int rc;

	do {
		rc = read_some(w, ctx, op->ino, op->off + ret->len, ret->bytes + ret->len,
			       want - ret->len, &got);
		if (!rc)
			ret->len += got;
	} while (!rc && got > 0 && ret->len < want);
	return rc;
}

static struct stet_fs_key fs_key(struct model_name name)
{
	return (struct stet_fs_key){ name.bytes, name.len };
}

/* The value is appended. */
static int read_record(struct world *w, struct stet_fs_ctx *ctx, uint64_t table,
		       const struct stet_fs_record *record, struct model_result *ret)
{
	struct stet_fs_fill fill;
	int rc = record->size > ret->cap - ret->len
			 ? -ERANGE
			 : stet_fs_record_plan(ctx, table, record, ret->bytes + ret->len, &fill);

	if (rc)
		return rc;
	if (fill.pin && w->engine && record->size % 3 == 0)
		world_pump(w, record->size + table, 3);
	for (size_t k = 0; k < fill.count && !rc; k++)
		rc = stet_cache_fill(w->device, &fill.pieces[k]);
	stet_view_close(fill.pin);
	stet_free(fill.pieces);
	ret->len += rc ? 0 : record->size;
	return rc;
}

static int do_record_get(struct world *w, struct stet_fs_ctx *ctx, const struct model_op *op,
			 struct model_result *ret)
{
	struct stet_fs_record record;
	int rc = stet_fs_record_get(ctx, op->ino, fs_key(op->name), model_op_updates(op), &record);

	return rc ? rc : read_record(w, ctx, op->ino, &record, ret);
}

struct listing {
	struct world *w;
	struct stet_fs_ctx *ctx;
	uint64_t table;
	struct model_result *ret;
};

static int add_record(void *arg, struct stet_fs_key key, const struct stet_fs_record *record)
{
	struct listing *l = arg;

	model_result_add(l->ret, key.bytes, key.len);
	model_result_add(l->ret, "", 1);
	if (record->size > l->ret->cap - l->ret->len) /* as the model does */
		return STET_FS_RECORD_LAST;
	return read_record(l->w, l->ctx, l->table, record, l->ret);
}

static int do_record_list(struct world *w, struct stet_fs_ctx *ctx, const struct model_op *op,
			  struct model_result *ret)
{
	const struct stet_fs_limits all = { .after_from = false };
	struct listing l = { w, ctx, op->ino, ret };
	struct stet_fs_bounds left;
	int rc = stet_fs_bounds(op->ino, &all, &left);

	while (!rc) {
		rc = stet_fs_record_scan(ctx, op->ino, &left, op->flags & 1,
					 1 + (uint32_t)(op->seed % 7), add_record, &l);
		if (rc != 1)
			return rc;
		rc = 0;
	}
	return rc;
}

static int do_setattr(struct stet_fs_ctx *ctx, const struct model_op *op)
{
	const struct stet_fs_attr attr = {
		.ino = op->ino,
		.mode = op->mode,
		.uid = op->uid,
		.gid = op->gid,
		.size = op->off,
		.atime_ns = op->atime_ns,
		.mtime_ns = op->mtime_ns,
	};

	return stet_fs_setattr(ctx, op->ino, op->flags, &attr);
}

static int do_make(struct world *w, struct stet_fs_ctx *ctx, const struct model_op *op,
		   struct model_result *ret)
{
	struct stet_fs_new what = {
		.mode = op->mode,
		.uid = op->uid,
		.gid = op->gid,
		.rdev = op->rdev,
	};

	if (S_ISLNK(op->mode)) {
		model_op_bytes(op, w->bytes, op->len);
		what.target = (const char *)w->bytes;
		what.target_len = op->len;
	}
	return stet_fs_make(ctx, op->dir, fs_name(op->name), &what, &ret->ino);
}

static int exec_change(struct world *w, struct stet_fs_ctx *ctx, const struct model_op *op,
		       struct model_result *ret)
{
	switch (op->kind) {
	case MODEL_MAKE:
		return do_make(w, ctx, op, ret);
	case MODEL_UNLINK:
		return stet_fs_unlink(ctx, op->dir, fs_name(op->name), &ret->ino);
	case MODEL_RMDIR:
		return stet_fs_rmdir(ctx, op->dir, fs_name(op->name), &ret->ino);
	case MODEL_LINK:
		return stet_fs_link(ctx, op->ino, op->to_dir, fs_name(op->to_name));
	case MODEL_RENAME:
		return stet_fs_rename(ctx, op->dir, fs_name(op->name), op->to_dir,
				      fs_name(op->to_name), op->flags, &ret->ino);
	case MODEL_SETATTR:
		return do_setattr(ctx, op);
	case MODEL_XATTR_SET:
		model_op_bytes(op, w->bytes, op->len);
		return stet_fs_xattr_set(ctx, op->ino, fs_name(op->name), w->bytes, op->len,
					 op->flags);
	case MODEL_XATTR_REMOVE:
		return stet_fs_xattr_remove(ctx, op->ino, fs_name(op->name));
	case MODEL_WRITE:
		model_op_bytes(op, w->bytes, op->len);
		return stet_fs_write(ctx, op->ino, op->off, w->bytes, op->len);
	case MODEL_APPEND:
		model_op_bytes(op, w->bytes, op->len);
		return stet_fs_append(ctx, op->ino, w->bytes, op->len);
	case MODEL_TRUNCATE:
		return stet_fs_truncate(ctx, op->ino, op->off);
	case MODEL_PUNCH:
		return stet_fs_punch(ctx, op->ino, op->off, op->len);
	case MODEL_RECORD_PUT:
		model_op_bytes(op, w->bytes, op->len);
		return stet_fs_record_put(ctx, op->ino, fs_key(op->name), w->bytes, op->len,
					  op->flags);
	case MODEL_RECORD_DEL:
		return stet_fs_record_del(ctx, op->ino, fs_key(op->name));
	default:
		return -EINVAL;
	}
}

static int exec(struct world *w, struct stet_fs_ctx *ctx, const struct model_op *op,
		struct model_result *ret)
{
	struct stet_dirent dirent;
	int rc;

	ret->ino = 0;
	ret->len = 0;
	switch (op->kind) {
	case MODEL_LOOKUP:
		rc = stet_fs_lookup(ctx, op->dir, fs_name(op->name), &dirent);
		ret->ino = rc ? 0 : dirent.ino;
		return rc;
	case MODEL_LIST:
		return do_list(ctx, op, ret);
	case MODEL_GETATTR:
		return do_getattr(ctx, op, ret);
	case MODEL_READ:
		return do_read(w, ctx, op, ret);
	case MODEL_READLINK:
		return stet_fs_readlink(ctx, op->ino, (char *)ret->bytes, ret->cap, &ret->len);
	case MODEL_XATTR_GET:
		return stet_fs_xattr_get(ctx, op->ino, fs_name(op->name), ret->bytes, ret->cap,
					 &ret->len);
	case MODEL_XATTR_LIST:
		return stet_fs_xattr_list(ctx, op->ino, (char *)ret->bytes, ret->cap, &ret->len);
	case MODEL_RECORD_GET:
		return do_record_get(w, ctx, op, ret);
	case MODEL_RECORD_LIST:
		return do_record_list(w, ctx, op, ret);
	default:
		return exec_change(w, ctx, op, ret);
	}
}

static int try_plain(struct world *w, const struct model_op *op, bool wait,
		     struct stet_ticket *ticket, struct model_result *ret)
{
	struct stet_fs_ctx ctx = { .fs = w->fs, .ticket = ticket, .wait = wait };
	bool reads = model_kind_reads(op->kind);
	uint64_t serial;
	int rc = stet_txn_begin(w->engine, STET_LEVEL_PLAIN, reads, &ctx.txn);

	if (rc)
		return rc;
	rc = exec(w, &ctx, op, ret);
	if (!rc && !reads)
		rc = stet_txn_order(ctx.txn, ticket, &serial);
	stet_txn_end(ctx.txn);
	return rc;
}

static int spill(struct world *w, struct stet_txn *txn)
{
	struct stet_job *job = NULL;
	int rc;

	while ((rc = stet_txn_spill(txn, &job)) == 1) {
		stet_job_perform(job);
		world_pump(w, stet_engine_serial(w->engine), 4);
		stet_engine_finish(w->engine, job);
	}
	if (rc)
		stet_txn_doom(txn, rc);
	return rc;
}

static int try_in(struct world *w, struct stet_txn *txn, const struct model_op *op, bool wait,
		  struct stet_ticket *ticket, struct model_result *ret)
{
	struct stet_fs_ctx ctx = { .fs = w->fs, .txn = txn, .ticket = ticket, .wait = wait };
	int rc = exec(w, &ctx, op, ret);

	if (!rc && !model_kind_reads(op->kind))
		rc = spill(w, txn);
	return rc;
}

int world_op(struct world *w, struct stet_txn *txn, const struct model_op *op, bool wait,
	     struct stet_ticket *ticket, struct model_result *ret)
{
	int rc;

	for (;;) {
		stet_ticket_init(ticket, NULL, NULL);
		rc = txn ? try_in(w, txn, op, wait, ticket, ret)
			 : try_plain(w, op, wait, ticket, ret);
		if (rc != STET_WAIT || !world_await(w, ticket))
			break;
		if (ticket->result) {
			rc = ticket->result;
			break;
		}
	}
	if (rc != STET_WAIT)
		stet_ticket_cancel(ticket);
	ret->rc = rc;
	return rc;
}

int world_commit(struct world *w, struct stet_txn *txn, uint64_t *ret_serial)
{
	struct stet_ticket ticket;
	int rc;

	do {
		stet_ticket_init(&ticket, NULL, NULL);
		rc = stet_txn_order(txn, &ticket, ret_serial);
		if (rc == STET_WAIT && !world_await(w, &ticket)) {
			int spilled = spill(w, txn);

			rc = spilled ? spilled : STET_WAIT;
		}
		stet_ticket_cancel(&ticket);
	} while (rc == STET_WAIT);
	stet_txn_end(txn);
	return rc;
}
