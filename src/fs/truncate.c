/* truncate.c - setting the size, and punching holes.
 *
 * Z1. A file that shrinks has its last block zeroed behind the new size, so that growing again
 *     shows zeros (D3 of data.c).
 * Z2. Up to STET_TRUNCATE_DIRECT_ extents are freed at once. More are left: a PLAIN truncation
 *     makes an ORPHAN that reclaim works off, a transaction remembers the place and does so when it
 *     is ordered.
 * Z3. The size changes last, in one intent with the count of blocks.
 */
#include <string.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

static const uint8_t zeros[STET_BLOCK_SIZE];

static int is_mapped(struct fs_data *d, uint64_t block, bool *ret)
{
	uint32_t n;
	int rc = stet_extent_count_(d->ctx, d->ino, block, block + 1, 1, &n);

	if (!rc)
		*ret = n > 0;
	return rc;
}

/* Zeroes [off, end), which lies in one block, unless that is a hole. */
static int zero_within(struct fs_data *d, uint64_t off, uint64_t end)
{
	bool mapped;
	int rc;

	if (off >= end)
		return 0;
	STET_ASSERT_CMP(end - off, <=, STET_BLOCK_SIZE);
	rc = is_mapped(d, off >> STET_BLOCK_SHIFT, &mapped);
	if (rc || !mapped)
		return rc;
	d->more_follows = true;
	return stet_data_write_(d, off, zeros, end - off);
}

/* The content stays inline; zeros in [zero_off, zero_end). */
static int set_inline(struct fs_data *d, uint64_t size, uint64_t zero_off, uint64_t zero_end)
{
	uint8_t content[STET_INLINE_MAX] = { 0 };
	struct stet_inode_intent n;

	memcpy(content, d->in.i.inline_data,
	       d->in.i.inline_bytes < size ? d->in.i.inline_bytes : size);
	if (zero_off < zero_end)
		memset(content + zero_off, 0, zero_end - zero_off);
	stet_intent_init_(d->ctx, &n, STET_TOUCH_DATA_);
	n.set = STET_SET_INLINE_;
	n.inline_bytes = (uint32_t)size;
	return stet_data_send_(d, &n, content);
}

/* Moves inline content to block 0, unless there is none. */
static int leave_inline(struct fs_data *d, struct stet_inode_intent *n)
{
	struct stet_cache *cache = stet_engine_cache(stet_txn_engine(d->ctx->txn));
	struct stet_databuf *buf;
	struct stet_key key;
	uint64_t removed;
	int rc;

	n->set |= STET_SET_OUTLINE_;
	if (d->in.i.inline_bytes == 0)
		return 0;
	rc = stet_databuf_create(cache, 1, &buf);
	if (rc)
		return rc;
	memcpy(buf->data, d->in.i.inline_data, d->in.i.inline_bytes);
	rc = stet_extent_cut_(d->ctx, d->ino, 0, 1, &removed); /* makes it the transaction's */
	stet_key_extent(&key, d->ino, 0);
	if (!rc)
		rc = stet_txn_put_buf(d->ctx->txn, &key, buf, 0, 1, 0);
	stet_databuf_put(buf);
	n->blocks = 1;
	return rc;
}

/* Changes of extents that go with the new size. */
static int resize(struct fs_data *d, uint64_t size, struct stet_inode_intent *n)
{
	uint64_t old = d->in.i.size, removed = 0, tail_end;
	int rc;

	if (d->in.i.flags & STET_INODE_INLINE)
		return leave_inline(d, n);
	rc = stet_data_finish_pending_(d, &removed);
	n->blocks -= (int64_t)removed;
	if (rc || size >= old)
		return rc;
	tail_end = stet_blocks_(size) << STET_BLOCK_SHIFT;
	rc = zero_within(d, size, tail_end < old ? tail_end : old); /* Z1 */
	if (!rc)
		rc = stet_data_free_from_(d, stet_blocks_(size), &removed);
	if (!rc)
		n->blocks -= (int64_t)removed;
	return rc;
}

static int truncate_apply(struct fs_data *d, uint64_t size)
{
	struct stet_inode_intent n;
	int rc;

	if ((d->in.i.flags & STET_INODE_INLINE) && size <= STET_INLINE_MAX)
		return set_inline(d, size, 0, 0);
	stet_intent_init_(d->ctx, &n, STET_TOUCH_DATA_);
	rc = resize(d, size, &n);
	n.set |= STET_SET_SIZE_; /* Z3 */
	n.size = size;
	return rc ? rc : stet_data_send_(d, &n, NULL);
}

int stet_fs_truncate(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t size)
{
	struct fs_data d;
	bool shrinks;
	int rc = stet_data_begin_(ctx, ino, &d);

	if (rc)
		return rc;
	if (size > STET_FILE_SIZE_MAX)
		return -EFBIG;
	rc = stet_data_lock_(&d, 0, UINT64_MAX, STET_LOCK_X);
	shrinks = size <= d.in.i.size;
	/* A plain truncation that shrinks adds to what is pending and need not wait for it. */
	if (!rc && (d.file || !shrinks))
		rc = stet_data_pending_(&d);
	if (!rc)
		rc = stet_data_reserve_(&d, size, 1, shrinks);
	if (!rc)
		rc = stet_data_settle_(&d);
	if (!rc)
		rc = stet_inode_get_(ctx, ino, 0, &d.in);
	if (rc)
		return rc;
	rc = truncate_apply(&d, size);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}

int stet_fs_lock_all(struct stet_fs_ctx *ctx, uint64_t ino, bool with_mode)
{
	struct fs_data d;
	int rc = stet_data_begin_(ctx, ino, &d);

	if (!rc)
		rc = stet_data_lock_(&d, 0, UINT64_MAX, STET_LOCK_X);
	return rc || !with_mode ? rc : stet_attr_lock_(ctx, ino, STET_FS_SET_MODE);
}

/* --- holes --- */

static int punch_extents(struct fs_data *d, uint64_t off, uint64_t end)
{
	uint64_t size = d->in.i.size;
	uint64_t lo = stet_blocks_(off);
	uint64_t hi = end == size ? stet_blocks_(end) : end >> STET_BLOCK_SHIFT;
	struct stet_inode_intent n;
	uint64_t removed = 0, edge;
	int rc;

	edge = lo << STET_BLOCK_SHIFT;
	rc = zero_within(d, off, edge < end ? edge : end);
	edge = hi << STET_BLOCK_SHIFT;
	if (!rc && hi >= lo && edge < end)
		rc = zero_within(d, edge, end);
	if (!rc && lo < hi)
		rc = stet_extent_cut_(d->ctx, d->ino, lo, hi, &removed);
	if (rc)
		return rc;
	stet_intent_init_(d->ctx, &n, STET_TOUCH_DATA_);
	n.blocks = -(int64_t)removed;
	return stet_data_send_(d, &n, NULL);
}

int stet_fs_punch(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, uint64_t len)
{
	struct fs_data d;
	uint64_t end;
	int rc = stet_data_begin_(ctx, ino, &d);

	if (rc)
		return rc;
	if (len == 0 || off > STET_FILE_SIZE_MAX)
		return -EINVAL;
	end = len > STET_FILE_SIZE_MAX - off ? STET_FILE_SIZE_MAX : off + len;
	rc = stet_data_lock_(&d, d.file ? 0 : off, d.file ? UINT64_MAX : end, STET_LOCK_X);
	if (!rc && stet_staged_end_(ctx, ino) > d.in.i.size)
		rc = stet_data_pending_(&d);
	if (!rc)
		rc = stet_data_reserve_(&d, d.in.i.size, UINT64_C(2) * STET_BLOCK_SIZE, true);
	if (!rc)
		rc = stet_data_settle_(&d);
	if (!rc)
		rc = stet_inode_get_(ctx, ino, 0, &d.in);
	if (rc)
		return rc;
	if (end > d.in.i.size)
		end = d.in.i.size;
	if (off >= end)
		return 0;
	rc = d.in.i.flags & STET_INODE_INLINE ? set_inline(&d, d.in.i.size, off, end)
					      : punch_extents(&d, off, end);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}
