/* append.c - writing at the end, wherever that will be.
 *
 * A PLAIN append is a write at the current end. A transaction stages what it appends, up to a limit
 * for each file, and writes it when it is ordered, at the end as it is then: so transactions that
 * append to one log file do not meet.
 *
 * A1. An appender holds DATA IX: appenders go together; who writes, truncates or (at LOCKING) reads
 *     the file holds X or S and keeps them out. Without it a writer's size and extents could be
 *     published over an append that was ordered after they were staged. At LOCKING, and PLAIN, it is held from
 *     the size on only: nobody else makes that smaller, and what lies before it is not looked at.
 * A2. Once the transaction changes the file in another way, or stages more than the limit, or more in all files
 *     than is its share of memory, it takes the whole file (X), and what was staged is written at the end that it sees
 *     (settle). From then on its appends are writes.
 * A3. What is staged is part of the file to the transaction itself: reads and sizes include it.
 */
#include <string.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

#define STAGED_MAX (64u << 10)

void stet_append_account_(struct stet_fs_ctx *ctx, struct fs_file *file)
{
	stet_txn_hold(ctx->txn, (int64_t)file->append.cap - (int64_t)file->append_held);
	file->append_held = file->append.cap;
}

void stet_append_clear_(struct stet_fs_ctx *ctx, struct fs_file *file)
{
	stet_buf_release(&file->append);
	stet_append_account_(ctx, file);
}

size_t stet_append_staged_(const struct stet_fs_ctx *ctx, uint64_t ino, const uint8_t **ret)
{
	const struct fs_file *file = stet_state_find_file_(ctx, ino);

	*ret = file ? file->append.p : NULL;
	return file ? file->append.len : 0;
}

int stet_fs_each_staged(const struct stet_fs_ctx *ctx, stet_fs_staged_fn *fn, void *arg)
{
	struct fs_state *state = stet_state_(ctx);
	struct stet_list *pos;
	int rc = 0;

	if (!state)
		return 0;
	STET_LIST_FOREACH(pos, &state->file_list) {
		const struct fs_file *file = stet_container_of(pos, struct fs_file, link);
		uint64_t end = stet_staged_end_(ctx, file->ino), lo, hi;
		const uint8_t *bytes;
		struct fs_inode in;

		if (file->append.len > 0)
			rc = fn(arg, file->ino, file->append.len, false);
		else if (end > 0)
			rc = stet_inode_get_((struct stet_fs_ctx *)(uintptr_t)ctx, file->ino, 0,
					     &in);
		if (!rc && end > 0)
			rc = fn(arg, file->ino, end > in.i.size ? end - in.i.size : 0,
				stet_staged_next_(file, 0, in.i.size, &lo, &hi, &bytes));
		if (rc)
			break;
	}
	return rc;
}

int stet_data_settle_(struct fs_data *d)
{
	int rc = d->file ? stet_staged_settle_(d) : 0;

	if (rc || !d->file || d->file->append.len == 0)
		return rc;
	rc = stet_inode_get_(d->ctx, d->ino, 0, &d->in);
	if (!rc)
		rc = stet_undo_note_append_(d->ctx, d->file);
	if (!rc)
		rc = stet_data_write_(d, d->in.i.size, d->file->append.p, d->file->append.len);
	if (!rc)
		stet_append_clear_(d->ctx, d->file);
	return rc;
}

static int check_size(const struct fs_data *d, size_t len)
{
	size_t staged = d->file ? d->file->append.len : 0;
	uint64_t end = stet_staged_end_(d->ctx, d->ino);
	uint64_t size = end > d->in.i.size ? end : d->in.i.size;

	return len + staged > STET_FILE_SIZE_MAX - size ? -EFBIG : 0;
}

/* Writes at the end that the transaction sees. */
static int append_now(struct fs_data *d, const void *data, size_t len)
{
	bool plain = stet_txn_level(d->ctx->txn) == STET_LEVEL_PLAIN;
	int rc = stet_data_lock_(d, plain ? d->in.i.size : 0, UINT64_MAX,
				 plain ? STET_LOCK_IX : STET_LOCK_X);

	if (!rc)
		rc = stet_data_pending_(d);
	if (!rc)
		rc = stet_data_reserve_(d, d->in.i.size + len, len, false);
	if (!rc)
		rc = stet_data_settle_(d);
	if (!rc)
		rc = stet_inode_get_(d->ctx, d->ino, 0, &d->in);
	return rc ? rc : stet_data_write_(d, d->in.i.size, data, len);
}

static int note_staging(struct fs_data *d)
{
	const struct fs_file *file = d->file;
	int rc = stet_undo_note_(d->ctx, &(struct fs_undo){ .kind = STET_UNDO_APPENDED,
							    .ino = d->ino,
							    .a = file->append.len });

	if (!rc && file->keep_mtime)
		rc = stet_undo_note_(d->ctx, &(struct fs_undo){ .kind = STET_UNDO_KEEP_MTIME,
								.ino = d->ino,
								.a = 1 });
	return rc;
}

static int stage(struct fs_data *d, const void *data, size_t len)
{
	bool ranged = stet_txn_level(d->ctx->txn) == STET_LEVEL_LOCKING;
	int rc = stet_data_lock_(d, ranged ? d->in.i.size : 0, UINT64_MAX, STET_LOCK_IX); /* A1 */

	if (!rc)
		rc = stet_data_reserve_(d, d->in.i.size + d->file->append.len + len, len, false);
	if (!rc)
		rc = stet_state_claim_(d->ctx, d->ino, STET_CLAIM_ALIVE);
	if (!rc)
		rc = note_staging(d);
	if (!rc)
		rc = stet_buf_append(&d->file->append, data, len);
	stet_append_account_(d->ctx, d->file);
	if (!rc)
		d->file->keep_mtime = false;
	return rc;
}

int stet_fs_append(struct stet_fs_ctx *ctx, uint64_t ino, const void *data, size_t len)
{
	struct fs_data d;
	int rc = stet_data_begin_(ctx, ino, &d);

	if (!rc)
		rc = check_size(&d, len);
	if (rc || len == 0)
		return rc;
	if (len > STET_WRITE_MAX_)
		return -EINVAL;
	if (d.file && !d.file->locked && d.file->append.len + len <= STAGED_MAX &&
	    stet_skiplist_count(&d.file->staged) == 0 && !stet_txn_holds_much(ctx->txn))
		return stage(&d, data, len);
	return append_now(&d, data, len);
}
