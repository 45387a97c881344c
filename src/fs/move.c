/* move.c - giving data a new place: the cleaner's way of emptying a segment.
 *
 * V1. Moving changes no content: birth and checksums stay, so no reader and no transaction notices.
 *     Transactions that hold a cut of the extent fit it to the new place when they are ordered; those that
 *     have no view, which would keep the old place, before they read it (E5 of extent.c).
 * V2. What is moved is verified on the way; what cannot be read right is not moved (-EIO).
 * V3. Of an extent only the blocks in the segment of `addr` are moved.
 */
#include <inttypes.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

static bool lies_at(const struct fs_extent *x, uint16_t k, struct stet_addr addr)
{
	const struct stet_databuf *buf = x->val.buf;
	uint32_t i = (uint32_t)x->val.buf_from + k;

	if (!buf)
		return stet_addr_add(x->e.addr, k).v == addr.v ||
		       (!stet_addr_is_none(x->e.addr2) && stet_addr_add(x->e.addr2, k).v == addr.v);
	return buf->addr[i].v == addr.v || (buf->addr2 && buf->addr2[i].v == addr.v);
}

static bool in_segment(const struct fs_extent *x, uint16_t k, uint64_t seg_id)
{
	const struct stet_databuf *buf = x->val.buf;
	uint32_t i = (uint32_t)x->val.buf_from + k;

	if (!buf) /* an extent lies in one segment */
		return true;
	return stet_addr_seg(buf->addr[i]) == seg_id ||
	       (buf->addr2 && stet_addr_seg(buf->addr2[i]) == seg_id);
}

/* The extent that maps the block now: 1, 0 = none. */
static int find(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t block, struct fs_walk *walk,
		uint16_t *ret_k)
{
	struct fs_piece piece;
	int rc;

	if (block >= STET_FILE_BLOCKS_MAX)
		return 0;
	rc = stet_walk_open_(ctx, ino, block, block + 1, walk);
	if (rc)
		return rc;
	rc = stet_walk_next_(walk, &piece);
	stet_walk_close_(walk);
	if (rc == 1)
		*ret_k = piece.shift;
	return rc;
}

/* Reads blocks [from, from + count) of the extent. */
static int read_blocks(struct stet_fs_ctx *ctx, const struct fs_extent *x, uint16_t from,
		       uint16_t count, uint8_t *to)
{
	struct stet_cache *cache = stet_engine_cache(stet_txn_engine(ctx->txn));
	int rc = 0;

	if (!x->val.buf)
		return stet_cache_read(cache, stet_addr_add(x->e.addr, from),
				       stet_addr_is_none(x->e.addr2)
					       ? STET_ADDR_NONE
					       : stet_addr_add(x->e.addr2, from),
				       count, x->e.crcs + sizeof(le32) * from, to);
	for (uint16_t k = 0; k < count && !rc; k++)
		rc = stet_extent_read_(ctx, x, (uint16_t)(from + k),
				       to + (size_t)k * STET_BLOCK_SIZE);
	return rc;
}

static int stage(struct stet_fs_ctx *ctx, uint64_t ino, const struct fs_extent *x, uint16_t from,
		 struct stet_databuf *buf)
{
	uint64_t lo = x->first + from, removed;
	struct stet_key key;
	int rc = 0;

	if (buf->block_count < x->count)
		rc = stet_extent_cut_(ctx, ino, lo, lo + buf->block_count, &removed);
	stet_key_extent(&key, ino, lo);
	if (!rc)
		rc = stet_txn_put_buf(ctx->txn, &key, buf, 0, buf->block_count, x->birth);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}

static void note_moved(void *arg, struct stet_txn *txn)
{
	const uint64_t *ino = arg;
	struct fs_file *file = stet_txn_level(txn) == STET_LEVEL_LOCKING
				       ? stet_state_file_of_(stet_txn_user(txn), *ino)
				       : NULL;

	if (file)
		file->moved = true;
}

int stet_fs_move(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t block, struct stet_addr addr,
		 uint32_t *ret_moved)
{
	struct stet_cache *cache = stet_engine_cache(stet_txn_engine(ctx->txn));
	struct stet_databuf *buf;
	struct fs_walk walk;
	uint16_t k = 0, from, end;
	int rc;

	STET_ASSERT_CMP(stet_txn_level(ctx->txn), ==, STET_LEVEL_PLAIN);
	*ret_moved = 0;
	stet_txn_moves(ctx->txn);
	rc = find(ctx, ino, block, &walk, &k);
	if (rc != 1 || !lies_at(&walk.x, k, addr))
		return rc < 0 ? rc : 0;
	for (from = k; from > 0 && in_segment(&walk.x, (uint16_t)(from - 1), stet_addr_seg(addr));)
		from--;
	for (end = k; end < walk.x.count && in_segment(&walk.x, end, stet_addr_seg(addr));)
		end++;
	rc = stet_txn_reserve(ctx->txn, (uint64_t)end - from, 3 * STET_META_EXTENT_, true,
			      ctx->ticket);
	if (!rc)
		rc = stet_databuf_create(cache, (uint16_t)(end - from), &buf);
	if (rc)
		return rc;
	buf->cold = true;
	rc = read_blocks(ctx, &walk.x, from, (uint16_t)(end - from), buf->data);
	if (!rc)
		rc = stage(ctx, ino, &walk.x, from, buf);
	stet_databuf_put(buf);
	stet_engine_each_txn(stet_txn_engine(ctx->txn), note_moved, &ino);
	if (!rc)
		*ret_moved = (uint32_t)(end - from);
	return rc;
}
