/* data.c - file data: locking it, reading it, finding holes in it.
 *
 * D1. Who changes data holds EXISTS S on the inode and DATA X on the file: on all of it at SNAPSHOT
 *     and SERIALIZABLE, on the range at LOCKING. An appender holds DATA IX: appenders do not meet.
 * D2. At LOCKING and PLAIN the range is that of the bytes, to the byte; at LOCKING what is written under such a
 *     lock is staged as bytes (staged.c). Truncation and whatever else changes more than bytes takes the
 *     whole file.
 * D3. Beyond the size a file reads as zeros. That costs nothing because the bytes behind the size
 *     in the last block are always zero, and no extent lies behind it but what a truncation has yet
 *     to free: before a file grows, that is finished (pending).
 * D4. A read is planned under the volume's lock and filled without it: memory and holes are
 *     answered at once, the rest are pieces of one run on the device each.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/mem.h"
#include "fs/fs_internal.h"

/* --- locking --- */

int stet_data_begin_(struct stet_fs_ctx *ctx, uint64_t ino, struct fs_data *d)
{
	int rc = stet_fs_writable_(ctx);

	d->ctx = ctx;
	d->ino = ino;
	d->file = NULL;
	d->pending_from = UINT64_MAX;
	d->more_follows = false;
	if (!rc)
		rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, &d->in);
	if (rc)
		return rc;
	if (!S_ISREG(d->in.i.mode))
		return S_ISDIR(d->in.i.mode) ? -EISDIR : -EINVAL;
	if (!stet_state_direct_(ctx, ino))
		rc = stet_state_file_(ctx, ino, &d->file);
	return rc;
}

/* With STET_LOCK_PAGE (stetfs.h) to whole pages. */
static void widen(const struct stet_fs_ctx *ctx, struct stet_lock_name *name)
{
	const uint64_t rest = STET_LOCK_PAGE_BYTES - 1;

	if (!stet_txn_locks_pages(ctx->txn))
		return;
	name->from &= ~rest;
	name->to = name->to > UINT64_MAX - rest ? UINT64_MAX : (name->to + rest) & ~rest;
}

static int lock_range(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t lo, uint64_t hi,
		      enum stet_lock_mode mode)
{
	struct stet_lock_name name = {
		.object = ino, .from = lo, .to = hi, .class = STET_LOCK_DATA
	};

	widen(ctx, &name);
	return stet_txn_lock(ctx->txn, &name, mode, ctx->wait, ctx->ticket);
}

int stet_data_lock_(struct fs_data *d, uint64_t lo, uint64_t hi, enum stet_lock_mode mode)
{
	enum stet_level level = stet_txn_level(d->ctx->txn);
	bool ranged = level == STET_LEVEL_PLAIN || level == STET_LEVEL_LOCKING;
	struct stet_key key;
	int rc = stet_fs_exists_lock_(d->ctx, d->ino);

	if (rc || stet_state_is_created_(d->ctx, d->ino) || (d->file && d->file->locked))
		return rc;
	if (!ranged || (mode == STET_LOCK_X && d->file && d->file->append.len > 0)) {
		lo = 0;
		hi = UINT64_MAX;
	}
	rc = lock_range(d->ctx, d->ino, lo, hi, mode);
	if (rc || mode != STET_LOCK_X)
		return rc;
	stet_key_inode(&key, d->ino);
	rc = stet_txn_unchanged(d->ctx->txn, &key, STET_ATTR_SIZE);
	if (!rc && d->file && lo == 0 && hi == UINT64_MAX)
		d->file->locked = true;
	return rc;
}

int stet_data_block_(struct fs_data *d, uint64_t block, uint8_t *out)
{
	const struct stet_inode *i = &d->in.i;
	struct fs_piece piece;
	struct fs_walk walk;
	int rc;

	memset(out, 0, STET_BLOCK_SIZE);
	if (i->flags & STET_INODE_INLINE) {
		if (block == 0 && i->inline_bytes > 0)
			memcpy(out, i->inline_data, i->inline_bytes);
		return 0;
	}
	rc = stet_walk_open_(d->ctx, d->ino, block, block + 1, &walk);
	if (rc)
		return rc;
	rc = stet_walk_next_(&walk, &piece);
	if (rc == 1)
		rc = stet_extent_read_(d->ctx, &walk.x, piece.shift, out);
	stet_walk_close_(&walk);
	return rc;
}

/* The items of `blocks` blocks of new content, of the inode, and of up to two rests of what they
 * cut. */
static uint64_t data_meta(const struct fs_data *d, uint64_t blocks)
{
	uint64_t extents = blocks / stet_extent_max_(d->ctx) + 2;
	uint64_t rests = d->in.i.blocks > 0 ? 2 * STET_META_EXTENT_ : 0;

	return extents * STET_META_EXTENT_HEAD_ + blocks * sizeof(uint32_t) + rests +
	       STET_META_INODE_;
}

int stet_data_reserve_(struct fs_data *d, uint64_t end, uint64_t len, bool privileged)
{
	uint64_t blocks = stet_blocks_(len) + 1; /* it may begin within a block */
	uint64_t meta = data_meta(d, blocks);

	if (d->in.i.size <= STET_INLINE_MAX)
		blocks++; /* content that was inline becomes a block of its own */
	/* What is staged as bytes may meet a file that is in blocks by then. */
	if (d->in.i.size <= STET_INLINE_MAX && end <= STET_INLINE_MAX && d->in.i.blocks == 0 &&
	    !stet_staged_wanted_(d)) {
		uint64_t size = end > d->in.i.size ? end : d->in.i.size;

		blocks = 0;
		/* What is staged may meet a file that has grown meanwhile. */
		meta = STET_META_INODE_ + (d->file ? STET_INLINE_MAX : size);
	}
	return stet_txn_reserve(d->ctx->txn, blocks, meta, privileged, d->ctx->ticket);
}

int stet_data_send_(struct fs_data *d, struct stet_inode_intent *intent, const uint8_t *content)
{
	int rc = stet_intent_send_(d->ctx, d->ino, intent, content);

	return rc ? rc : stet_state_claim_(d->ctx, d->ino, STET_CLAIM_ALIVE);
}

/* --- an earlier truncation --- */

int stet_data_pending_(struct fs_data *d)
{
	struct stet_fs_ctx *ctx = d->ctx;
	struct stet_orphan orphan;
	struct stet_key key;
	uint32_t n;
	int rc;

	if (stet_state_is_created_(ctx, d->ino) || d->in.i.blocks == 0)
		return 0;
	if (!d->file && !stet_orphan_maybe_(ctx->fs, d->ino))
		return 0;
	rc = stet_orphan_get_(ctx, d->ino, &orphan);
	if (rc == -ENOENT || (!rc && !(orphan.flags & STET_ORPHAN_TRUNCATE)))
		return 0;
	if (rc)
		return rc;
	if (d->file) {
		/* Reclaim changes the key with each step, and keeps away from a locked file. */
		stet_key_orphan(&key, d->ino);
		rc = stet_txn_unchanged(ctx->txn, &key, 0);
	} else if (stet_txn_level(ctx->txn) == STET_LEVEL_PLAIN) {
		rc = stet_extent_count_(ctx, d->ino, orphan.from_block, STET_FILE_BLOCKS_MAX,
					STET_TRUNCATE_DIRECT_ + 1, &n);
		if (!rc && n > STET_TRUNCATE_DIRECT_)
			rc = stet_orphan_wait_(ctx->fs, d->ino, ctx->ticket);
	}
	if (!rc)
		d->pending_from = orphan.from_block;
	return rc;
}

/* Cuts the extent that crosses `block`, if one does. */
static int cut_crossing(struct fs_data *d, uint64_t block, uint64_t *ret_removed)
{
	struct fs_piece piece;
	struct fs_walk walk;
	uint64_t end = 0;
	int rc = stet_walk_open_(d->ctx, d->ino, block, block + 1, &walk);

	if (rc)
		return rc;
	rc = stet_walk_next_(&walk, &piece);
	if (rc == 1)
		end = walk.x.first + walk.x.count;
	stet_walk_close_(&walk);
	*ret_removed = 0;
	if (rc == 1)
		rc = stet_extent_cut_(d->ctx, d->ino, block, end, ret_removed);
	return rc;
}

/* Drops everything from `from` on in a file that is not direct, without walking over it. */
static int drop_later(struct fs_data *d, uint64_t from, uint64_t *ret_removed)
{
	uint64_t removed, all = 0, at = from;
	struct fs_range own;
	int rc = cut_crossing(d, from, &all);

	/* The transaction's own extents are in `mine`; cutting a part of it adds nothing to it. */
	while (!rc && stet_ranges_next_(&d->file->mine, at, &own)) {
		rc = stet_extent_cut_(d->ctx, d->ino, own.lo > at ? own.lo : at, own.hi, &removed);
		if (!rc)
			all += removed;
		at = own.hi;
	}
	if (!rc)
		rc = stet_extent_drop_later_(d->ctx, d->file, from);
	if (!rc)
		*ret_removed = all;
	return rc;
}

int stet_data_finish_pending_(struct fs_data *d, uint64_t *ret_removed)
{
	int rc;

	*ret_removed = 0;
	if (d->pending_from == UINT64_MAX)
		return 0;
	if (d->file) {
		rc = drop_later(d, d->pending_from, ret_removed);
	} else {
		rc = stet_extent_cut_(d->ctx, d->ino, d->pending_from, STET_FILE_BLOCKS_MAX,
				      ret_removed);
		if (!rc)
			rc = stet_orphan_unmark_(d->ctx, d->ino, STET_ORPHAN_TRUNCATE);
	}
	d->pending_from = UINT64_MAX;
	return rc;
}

int stet_data_free_from_(struct fs_data *d, uint64_t from, uint64_t *ret_removed)
{
	uint32_t n;
	int rc = stet_extent_count_(d->ctx, d->ino, from, STET_FILE_BLOCKS_MAX,
				    STET_TRUNCATE_DIRECT_ + 1, &n);

	if (rc)
		return rc;
	if (n <= STET_TRUNCATE_DIRECT_ ||
	    (!d->file && stet_txn_level(d->ctx->txn) != STET_LEVEL_PLAIN)) {
		rc = stet_extent_cut_(d->ctx, d->ino, from, STET_FILE_BLOCKS_MAX, ret_removed);
		if (!rc && !d->file && stet_orphan_maybe_(d->ctx->fs, d->ino))
			rc = stet_orphan_unmark_(d->ctx, d->ino, STET_ORPHAN_TRUNCATE);
		return rc;
	}
	if (d->file)
		return drop_later(d, from, ret_removed);
	rc = cut_crossing(d, from, ret_removed);
	return rc ? rc : stet_orphan_mark_(d->ctx, d->ino, STET_ORPHAN_TRUNCATE, from);
}

/* --- reading --- */

struct plan {
	struct stet_fs_ctx *ctx;
	uint64_t off; /* where buf begins */
	uint64_t at;  /* filled or planned up to here */
	uint64_t end;
	uint8_t *buf;
	struct stet_read_piece *pieces;
	size_t cap, n;
};

static void fill_zero(struct plan *p, uint64_t to)
{
	if (to > p->at) {
		memset(p->buf + (p->at - p->off), 0, to - p->at);
		p->at = to;
	}
}

static void fill_bytes(struct plan *p, const uint8_t *from, uint64_t len)
{
	memcpy(p->buf + (p->at - p->off), from, len);
	p->at += len;
}

/* A run of blocks on the device, of which the file's block `first` is the first. */
struct run {
	struct stet_addr addr, addr2;
	uint64_t first;
	uint16_t count;
};

/* Byte on the device, UINT64_MAX when it lies nowhere. */
static uint64_t off_of(const struct plan *p, struct stet_addr addr, uint16_t count)
{
	uint64_t off;

	if (stet_addr_is_none(addr) ||
	    stet_space_locate(stet_engine_space(stet_txn_engine(p->ctx->txn)), addr, count, &off))
		return UINT64_MAX;
	return off;
}

/* One copy that lies somewhere is enough. */
static int locate(struct plan *p, const struct run *run, struct stet_read_piece *piece)
{
	piece->device_off = off_of(p, run->addr, run->count);
	piece->device_off2 = off_of(p, run->addr2, run->count);
	if (piece->device_off == UINT64_MAX && piece->device_off2 == UINT64_MAX)
		return STET_FAIL(-EIO, "block %" PRIu64 " of a file: its segment is gone",
				 run->first);
	return 0;
}

/* Plans [p->at, to), which lies within the run. */
static int plan_run(struct plan *p, const struct run *run, uint64_t to,
		    struct stet_read_piece **ret)
{
	struct stet_read_piece *piece = &p->pieces[p->n];
	int rc = locate(p, run, piece);

	if (rc)
		return rc;
	piece->buf = NULL;
	piece->buf_offset_bytes = 0;
	piece->skip_bytes = (uint32_t)(p->at - (run->first << STET_BLOCK_SHIFT));
	piece->len_bytes = (uint32_t)(to - p->at);
	piece->block_count = run->count;
	piece->out = p->buf + (p->at - p->off);
	p->n++;
	p->at = to;
	*ret = piece;
	return 0;
}

static uint64_t run_end(const struct plan *p, const struct run *run)
{
	uint64_t end = (run->first + run->count) << STET_BLOCK_SHIFT;

	return end < p->end ? end : p->end;
}

/* Blocks of a buffer whose data was given back: each has its own address. */
static int plan_placed(struct plan *p, const struct fs_extent *x, const struct fs_piece *piece)
{
	const struct stet_databuf *buf = x->val.buf;
	uint32_t i = (uint32_t)x->val.buf_from + piece->shift;

	for (uint16_t done = 0; done < piece->count && p->n < p->cap;) {
		struct run run = { .addr = buf->addr[i],
				   .addr2 = buf->addr2 ? buf->addr2[i] : STET_ADDR_NONE,
				   .first = piece->first + done };
		struct stet_read_piece *out;
		int rc;

		do {
			run.count++;
		} while (done + run.count < piece->count &&
			 buf->addr[i + run.count].v == stet_addr_add(run.addr, run.count).v &&
			 stet_addr_block(buf->addr[i + run.count]) != 0 &&
			 (!buf->addr2 ||
			  buf->addr2[i + run.count].v == stet_addr_add(run.addr2, run.count).v));
		rc = plan_run(p, &run, run_end(p, &run), &out);
		if (rc)
			return rc;
		for (uint16_t k = 0; k < run.count; k++)
			out->crc[k] = buf->crc[i + k];
		done = (uint16_t)(done + run.count);
		i += run.count;
	}
	return 0;
}

static int plan_extent(struct plan *p, const struct fs_extent *x, const struct fs_piece *piece)
{
	struct run run = { .addr = stet_addr_add(x->e.addr, piece->shift),
			   .addr2 = STET_ADDR_NONE,
			   .first = piece->first,
			   .count = piece->count };
	struct stet_read_piece *out;
	int rc;

	if (!stet_addr_is_none(x->e.addr2))
		run.addr2 = stet_addr_add(x->e.addr2, piece->shift);
	rc = plan_run(p, &run, run_end(p, &run), &out);
	if (rc)
		return rc;
	for (uint16_t k = 0; k < run.count; k++)
		out->crc[k] = stet_get_le32(x->e.crcs + sizeof(le32) * ((size_t)piece->shift + k));
	return 0;
}

static int plan_piece(struct plan *p, const struct fs_extent *x, const struct fs_piece *piece)
{
	const struct stet_databuf *buf = x->val.buf;
	uint64_t start = piece->first << STET_BLOCK_SHIFT;
	uint64_t end = (piece->first + piece->count) << STET_BLOCK_SHIFT;

	fill_zero(p, start < p->end ? start : p->end);
	if (buf && buf->data) {
		uint64_t shift = (uint64_t)x->val.buf_from + piece->shift;

		fill_bytes(p, buf->data + (shift << STET_BLOCK_SHIFT) + (p->at - start),
			   (end < p->end ? end : p->end) - p->at);
		return 0;
	}
	if (p->n == p->cap)
		return 0;
	return buf ? plan_placed(p, x, piece) : plan_extent(p, x, piece);
}

/* Opens the walk over the blocks of what is still to be planned. */
static int walk_plan(const struct plan *p, uint64_t ino, struct fs_walk *ret)
{
	return stet_walk_open_(p->ctx, ino, p->at >> STET_BLOCK_SHIFT, stet_blocks_(p->end), ret);
}

/* Plans up to the size of what is in extents. Stops early when there are no more pieces. */
static int plan_extents(struct plan *p, uint64_t ino)
{
	struct fs_piece piece;
	struct fs_walk walk;
	int rc = walk_plan(p, ino, &walk);

	if (rc)
		return rc;
	while ((rc = stet_walk_next_(&walk, &piece)) == 1) {
		uint64_t reached = (piece.first + piece.count) << STET_BLOCK_SHIFT;

		rc = plan_piece(p, &walk.x, &piece);
		if (rc)
			break;
		if (p->at < reached && p->at < p->end) {
			p->end = p->at; /* out of pieces */
			break;
		}
	}
	stet_walk_close_(&walk);
	if (!rc)
		fill_zero(p, p->end);
	return rc;
}

/* What the file has without staged appends, to the transaction. */
static uint64_t size_of(const struct stet_fs_ctx *ctx, uint64_t ino, const struct stet_inode *i)
{
	uint64_t staged = stet_staged_end_(ctx, ino);

	return staged > i->size ? staged : i->size;
}

/* At LOCKING a reader keeps its range from changing; one that saw the end, the file from
 * growing. */
static int read_lock(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, uint64_t len,
		     uint64_t size)
{
	bool at_end = off >= size || len > size - off;

	if (stet_txn_level(ctx->txn) != STET_LEVEL_LOCKING || stet_state_is_created_(ctx, ino))
		return 0;
	return lock_range(ctx, ino, off, at_end ? UINT64_MAX : off + len, STET_LOCK_S);
}

static int read_begin(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, uint64_t len,
		      struct fs_inode *in)
{
	struct stet_key key;
	int rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, in);

	if (rc)
		return rc;
	if (!S_ISREG(in->i.mode)) /* which depends on nothing else of it */
		return S_ISDIR(in->i.mode) ? -EISDIR : -EINVAL;
	if (off > STET_FILE_SIZE_MAX)
		return -EINVAL;
	stet_key_inode(&key, ino);
	rc = stet_txn_read_key(ctx->txn, &key, STET_ATTR_SIZE);
	if (rc)
		return rc;
	return len == 0 ? 0 : read_lock(ctx, ino, off, len, size_of(ctx, ino, &in->i));
}

/* What is there without what is staged, up to `to`; behind the size zeros. */
static int plan_current(struct plan *p, uint64_t ino, const struct stet_inode *i, uint64_t to)
{
	uint64_t end = to < i->size ? to : i->size;
	int rc = 0;

	p->end = end;
	if (p->at < end && (i->flags & STET_INODE_INLINE))
		fill_bytes(p, i->inline_data + p->at, end - p->at);
	else if (p->at < end)
		rc = plan_extents(p, ino);
	if (rc || p->at < end)
		return rc;
	p->end = to;
	fill_zero(p, to);
	return 0;
}

/* What the file holds up to its size, with what is staged over it, then what was appended and waits for
 * ordering. */
static int plan_file(struct plan *p, uint64_t ino, const struct stet_inode *i, uint64_t end,
		     const uint8_t *appended)
{
	const struct fs_file *file = stet_state_find_file_(p->ctx, ino);
	uint64_t size = size_of(p->ctx, ino, i);
	uint64_t stop = end < size ? end : size;

	while (p->at < stop) {
		const uint8_t *bytes = NULL;
		uint64_t lo = stop, hi = stop;

		if (!stet_staged_next_(file, p->at, stop, &lo, &hi, &bytes))
			lo = stop;
		int rc = plan_current(p, ino, i, lo);
		if (rc || p->at < lo)
			return rc; /* out of pieces */
		p->end = hi;
		if (bytes)
			fill_bytes(p, bytes, hi - lo);
	}
	p->end = end;
	if (p->at < end)
		fill_bytes(p, appended + (p->at - size), end - p->at);
	return 0;
}

int stet_fs_read_plan(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, size_t len, uint8_t *buf,
		      struct stet_read_piece *pieces, size_t cap, size_t *ret_pieces,
		      size_t *ret_len, struct stet_view **ret_pin)
{
	struct plan p = {
		.ctx = ctx, .off = off, .at = off, .buf = buf, .pieces = pieces, .cap = cap
	};
	struct stet_view *pin = NULL;
	const uint8_t *appended;
	struct fs_inode in;
	uint64_t total;
	int rc = read_begin(ctx, ino, off, len, &in);

	if (rc)
		return rc;
	total = size_of(ctx, ino, &in.i) + stet_append_staged_(ctx, ino, &appended);
	if (off < total)
		rc = plan_file(&p, ino, &in.i, len < total - off ? off + len : total, appended);
	if (!rc && p.n > 0)
		rc = stet_view_open(stet_txn_engine(ctx->txn), &pin);
	if (rc)
		return rc;
	*ret_pieces = p.n;
	*ret_len = (size_t)(p.at - off);
	*ret_pin = pin;
	return 0;
}

/* --- what has no holes --- */

static int plan_whole(struct plan *p, uint64_t ino)
{
	struct fs_piece piece;
	struct fs_walk walk;
	int rc = walk_plan(p, ino, &walk);

	if (rc)
		return rc;
	while ((rc = stet_walk_next_(&walk, &piece)) == 1 &&
	       piece.first << STET_BLOCK_SHIFT == p->at) {
		rc = plan_piece(p, &walk.x, &piece);
		if (rc)
			break;
	}
	stet_walk_close_(&walk);
	if (rc < 0 || p->at == p->end)
		return rc;
	return STET_FAIL(-EUCLEAN, "table %" PRIu64 ": block %" PRIu64 " of a value is missing",
			 ino, p->at >> STET_BLOCK_SHIFT);
}

int stet_data_plan_whole_(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t first, uint32_t size,
			  uint8_t *buf, struct stet_fs_fill *ret)
{
	struct plan p = {
		.ctx = ctx,
		.off = first << STET_BLOCK_SHIFT,
		.at = first << STET_BLOCK_SHIFT,
		.end = (first << STET_BLOCK_SHIFT) + size,
		.buf = buf,
		.cap = (size_t)stet_blocks_(size), /* each piece has a block at least */
	};
	struct stet_view *pin = NULL;
	int rc;

	p.pieces = stet_alloc(p.cap * sizeof(*p.pieces));
	if (!p.pieces)
		return STET_FAIL(-ENOMEM, "no memory to read %u bytes", size);
	rc = plan_whole(&p, ino);
	if (!rc && p.n > 0)
		rc = stet_view_open(stet_txn_engine(ctx->txn), &pin);
	if (rc || p.n == 0) {
		stet_free(p.pieces);
		p.pieces = NULL;
	}
	if (!rc)
		*ret = (struct stet_fs_fill){ .pieces = p.pieces, .count = p.n, .pin = pin };
	return rc;
}

/* --- holes --- */

/* The next mapped (hole: unmapped) block at or after `from`, below `to`; `to` when there is
 * none. */
static int find_block(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t from, uint64_t to, bool hole,
		      uint64_t *ret)
{
	struct fs_piece piece;
	struct fs_walk walk;
	uint64_t at = from;
	int rc = stet_walk_open_(ctx, ino, from, to, &walk);

	if (rc)
		return rc;
	while ((rc = stet_walk_next_(&walk, &piece)) == 1) {
		if (!hole || piece.first > at)
			break;
		at = piece.first + piece.count;
	}
	stet_walk_close_(&walk);
	if (rc < 0)
		return rc;
	*ret = hole ? at : rc == 1 ? piece.first : to;
	return 0;
}

/* As find_block, with what is staged. */
static int find_with_staged(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t from, uint64_t to,
			    bool hole, uint64_t *ret)
{
	const struct fs_file *file = stet_state_find_file_(ctx, ino);
	uint64_t lo, hi, at = from;
	const uint8_t *bytes;
	int rc;

	for (;;) {
		bool staged;

		rc = find_block(ctx, ino, at, to, hole, &at);
		if (rc || (hole && at >= to))
			break;
		staged = stet_staged_next_(file, (hole ? at : from) << STET_BLOCK_SHIFT,
					   (hole ? at + 1 : at) << STET_BLOCK_SHIFT, &lo, &hi,
					   &bytes);
		if (!staged)
			break;
		if (!hole) {
			at = lo >> STET_BLOCK_SHIFT;
			break;
		}
		at++;
	}
	if (!rc)
		*ret = at;
	return rc;
}

int stet_fs_seek(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, bool hole, uint64_t *ret_off)
{
	const uint64_t in_block = off &
				  (STET_BLOCK_SIZE - 1); /* what is a hole depends on it, too */
	const uint8_t *appended;
	struct fs_inode in;
	uint64_t size, total, block, at;
	int rc = read_begin(ctx, ino, off - in_block, UINT64_MAX, &in);

	if (rc)
		return rc;
	size = size_of(ctx, ino, &in.i);
	total = size + stet_append_staged_(ctx, ino, &appended);
	if (off >= total)
		return -ENXIO;
	if ((in.i.flags & STET_INODE_INLINE) || off >= size) {
		*ret_off = hole ? total : off;
		return 0;
	}
	rc = find_with_staged(ctx, ino, off >> STET_BLOCK_SHIFT, stet_blocks_(size), hole, &block);
	if (rc)
		return rc;
	at = block << STET_BLOCK_SHIFT;
	if (at < off)
		at = off;
	if (at >= size) {
		/* Behind the extents comes what was appended, if anything: data up to the end. */
		if (!hole && total == size)
			return -ENXIO;
		at = hole ? total : size;
	}
	*ret_off = at;
	return 0;
}
