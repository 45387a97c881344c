/* write.c - writing file data.
 *
 * A write is planned, then applied. The plan is a list of parts in block order; making it reads and
 * verifies the old content of edges and allocates all buffers, so that what can fail does so while
 * nothing has changed.
 *
 *   INLINE   the file is small enough to live in its inode: no parts, the content is replaced
 *   PLACE bytes of a buffer that nobody else can see: changed in place, perhaps with blocks added
 *   GROWN such a buffer, moved to a larger one with room to spare PATCH less than half of a block
 *   that others have written: logged as its bytes NEW blocks in a new buffer
 *
 * W1. No extent crosses a multiple of stet_extent_max_ blocks, so a file that is written in small
 *     pieces ends up in the same extents as one that is written at once.
 * W2. Bytes of a buffer behind what was written are zero. Room to spare is cleared when it is
 *     taken, for an extent may have been cut shorter.
 * W3. Bytes are copied into PLACE buffers last, when everything else has succeeded; at PLAIN also what
 *     ordering will need, for such a buffer may be the committed state's; and not at all where the
 *     operation may still fail afterwards.
 */
#include <string.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

#define PATCH_MAX (STET_BLOCK_SIZE / 2)
#define PARTS_MAX 24u /* a megabyte, 16 blocks at a time, and edges */
#define GROW_MIN 8u   /* blocks of room that a buffer is given when it first grows */
#define NO_BLOCK UINT64_MAX
#define STREAM_BYTES (64u << 10) /* a file that grew beyond this by appending gets full buffers */

enum part_kind { PART_PLACE, PART_GROWN, PART_PATCH, PART_NEW };

struct part {
	enum part_kind kind;
	uint64_t first;           /* block of the extent */
	uint16_t had;             /* blocks of it before: PLACE, GROWN */
	uint16_t count;           /* and after */
	uint16_t from;            /* in buf */
	struct stet_databuf *buf; /* one reference, but for PLACE */
	uint64_t off;             /* PLACE, PATCH: bytes of the file that are copied to buf */
	uint32_t len;
};

struct write {
	struct fs_data *d;
	uint64_t off, end;
	const uint8_t *data;
	bool leave_inline; /* the content moves from the inode to block 0 */
	struct part part[PARTS_MAX];
	size_t n;
	uint64_t asked; /* see find_extent */
	int answer;
	uint16_t shift;
	struct fs_walk walk;
};

static void release_parts(struct write *w)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->part[i].kind != PART_PLACE)
			stet_databuf_put(w->part[i].buf);
	}
}

static struct part *add_part(struct write *w, enum part_kind kind, uint64_t first, uint16_t count)
{
	STET_ASSERT_CMP(w->n, <, PARTS_MAX);
	w->part[w->n] = (struct part){ .kind = kind, .first = first, .count = count };
	return &w->part[w->n++];
}

static int new_buf(struct write *w, uint16_t blocks, struct stet_databuf **ret)
{
	struct stet_cache *cache = stet_engine_cache(stet_txn_engine(w->d->ctx->txn));

	return stet_databuf_create(cache, blocks, ret);
}

static uint64_t bytes_of(uint64_t block)
{
	return block << STET_BLOCK_SHIFT;
}

/* The end of the extent that may hold the block (W1). */
static uint64_t boundary(const struct write *w, uint64_t block)
{
	uint64_t max = stet_extent_max_(w->d->ctx);

	return block / max * max + max;
}

/* Copies what the write holds for blocks [first, first + count) to `to`, where they lie. */
static void copy_data(const struct write *w, uint64_t first, uint16_t count, uint8_t *to)
{
	uint64_t lo = bytes_of(first), hi = bytes_of(first + count);
	uint64_t from = w->off > lo ? w->off : lo;
	uint64_t until = w->end < hi ? w->end : hi;

	if (from < until)
		memcpy(to + (from - lo), w->data + (from - w->off), until - from);
}

/* --- the old content of edges --- */

/* The extent that maps the block: 1 (in w->walk, from block w->shift of it), 0 = a hole. The answer
 * for the block asked last is kept. */
static int find_extent(struct write *w, uint64_t block)
{
	struct fs_piece piece;
	int rc;

	if (w->asked == block)
		return w->answer;
	w->asked = NO_BLOCK;
	rc = stet_walk_open_(w->d->ctx, w->d->ino, block, block + 1, &w->walk);
	if (rc)
		return rc;
	rc = stet_walk_next_(&w->walk, &piece);
	stet_walk_close_(&w->walk);
	if (rc < 0)
		return rc;
	w->asked = block;
	w->answer = rc;
	w->shift = rc == 1 ? piece.shift : 0;
	return rc;
}

/* Fills a zeroed block with what the file holds there. */
static int read_base(struct write *w, uint64_t block, uint8_t *to)
{
	const struct stet_inode *i = &w->d->in.i;
	int rc;

	if (bytes_of(block) >= i->size)
		return 0;
	if (i->flags & STET_INODE_INLINE) {
		if (block == 0 && i->inline_bytes > 0)
			memcpy(to, i->inline_data, i->inline_bytes);
		return 0;
	}
	rc = find_extent(w, block);
	return rc == 1 ? stet_extent_read_(w->d->ctx, &w->walk.x, w->shift, to) : rc;
}

static bool covers(const struct write *w, uint64_t block)
{
	return w->off <= bytes_of(block) && w->end >= bytes_of(block + 1);
}

/* --- parts --- */

/* Blocks of room for a new buffer: with spare ones when the file is being appended to. */
static uint16_t room_for(const struct write *w, uint64_t first, uint16_t count)
{
	uint64_t most = boundary(w, first) - first;
	uint64_t room = count;

	if (w->off == w->d->in.i.size && w->off > 0 && first + count == stet_blocks_(w->end))
		room = w->off >= STREAM_BYTES ? most : 2u * (uint64_t)count;
	return (uint16_t)(room < most ? room : most);
}

static int plan_new(struct write *w, uint64_t first, uint64_t to)
{
	while (first < to) {
		uint64_t end = boundary(w, first) < to ? boundary(w, first) : to;
		uint16_t count = (uint16_t)(end - first);
		struct part *part;
		struct stet_databuf *buf;
		int rc = new_buf(w, room_for(w, first, count), &buf);

		if (rc)
			return rc;
		part = add_part(w, PART_NEW, first, count);
		part->buf = buf;
		if (!covers(w, first))
			rc = read_base(w, first, buf->data);
		if (!rc && count > 1 && !covers(w, end - 1))
			rc = read_base(w, end - 1, buf->data + bytes_of(count - 1u));
		if (rc)
			return rc;
		copy_data(w, first, count, buf->data);
		first = end;
	}
	return 0;
}

/* 1 = planned; 0 = this block is not for patching. */
static int plan_patch(struct write *w, uint64_t block)
{
	uint64_t lo = bytes_of(block), hi = bytes_of(block + 1);
	uint64_t off = w->off > lo ? w->off : lo;
	uint64_t end = w->end < hi ? w->end : hi;
	struct stet_databuf *buf;
	struct part *part;
	int rc;

	if (end - off > PATCH_MAX || lo >= w->d->in.i.size)
		return 0;
	rc = find_extent(w, block);
	if (rc != 1)
		return rc;
	if (w->walk.x.birth == 0)
		return 0; /* the log has no base for it but what this transaction holds */
	rc = new_buf(w, 1, &buf);
	if (rc)
		return rc;
	part = add_part(w, PART_PATCH, block, 1);
	part->buf = buf;
	part->off = off;
	part->len = (uint32_t)(end - off);
	if (!w->d->file && w->walk.x.count == 1)
		part->had = 1; /* its key stays: nothing to cut */
	rc = stet_extent_read_(w->d->ctx, &w->walk.x, w->shift, buf->data);
	if (rc)
		return rc;
	copy_data(w, block, 1, buf->data);
	return 1;
}

/* Patches, if the rest of the write is one or two small edges of blocks that are there. */
static int plan_patches(struct write *w, uint64_t first, uint64_t to)
{
	size_t before = w->n;
	int rc = 1;

	if (to - first > 2 || (w->d->in.i.flags & STET_INODE_INLINE))
		return 0;
	for (uint64_t block = first; block < to && rc == 1; block++)
		rc = plan_patch(w, block);
	if (rc == 0) {
		while (w->n > before)
			stet_databuf_put(w->part[--w->n].buf);
	}
	return rc;
}

/* A larger buffer with the old one's blocks, and the write's. */
static int plan_grown(struct write *w, struct part *part)
{
	struct stet_databuf *old = part->buf, *buf;
	uint64_t most = boundary(w, part->first) - part->first;
	uint64_t room = 2u * (uint64_t)part->count;
	int rc;

	if (room < GROW_MIN)
		room = GROW_MIN;
	rc = new_buf(w, (uint16_t)(room < most ? room : most), &buf);
	if (rc)
		return rc;
	memcpy(buf->data, old->data + bytes_of(part->from), bytes_of(part->had));
	copy_data(w, part->first, part->count, buf->data);
	part->kind = PART_GROWN;
	part->buf = buf;
	part->from = 0;
	return 0;
}

static bool own_buf(struct write *w, uint64_t first, struct part *ret)
{
	struct stet_key key;

	stet_key_extent(&key, w->d->ino, first);
	if (!stet_txn_own_buf(w->d->ctx->txn, &key, &ret->buf, &ret->from, &ret->had))
		return false;
	ret->first = first;
	return true;
}

/* The extent of a private buffer that holds the block, or ends right before it: 1, else 0. */
static int find_own(struct write *w, uint64_t block, struct part *ret)
{
	const struct stet_fs *fs = w->d->ctx->fs;
	int rc;

	if (fs->hint_ino == w->d->ino && fs->hint_first <= block &&
	    own_buf(w, fs->hint_first, ret) && block <= ret->first + ret->had)
		return 1;
	rc = find_extent(w, block);
	if (rc == 0 && block > 0)
		rc = find_extent(w, block - 1);
	if (rc != 1)
		return rc;
	return own_buf(w, w->walk.x.first, ret) && ret->first + ret->had >= block;
}

/* Whether nothing is mapped in [lo, hi). */
static int is_hole(struct write *w, uint64_t lo, uint64_t hi, bool *ret)
{
	uint32_t mapped;
	int rc;

	if (bytes_of(lo) >= w->d->in.i.size && w->d->pending_from == UINT64_MAX) {
		*ret = true;
		return 0;
	}
	rc = stet_extent_count_(w->d->ctx, w->d->ino, lo, hi, 1, &mapped);
	if (!rc)
		*ret = mapped == 0;
	return rc;
}

/* Changes in place what can be, from *first on; *first becomes the next block. */
static int plan_place(struct write *w, uint64_t *first, uint64_t to)
{
	struct part own = { .kind = PART_PLACE };
	uint64_t end, had_end;
	bool hole = true;
	int rc = find_own(w, *first, &own);

	if (rc != 1)
		return rc;
	had_end = own.first + own.had;
	end = boundary(w, own.first) > had_end ? boundary(w, own.first) : had_end;
	if (end > to)
		end = to;
	if (end > had_end) {
		rc = is_hole(w, had_end, end, &hole);
		if (rc)
			return rc;
		if (!hole)
			end = had_end;
	}
	if (end <= *first)
		return 0;
	own.count = (uint16_t)((end > had_end ? end : had_end) - own.first);
	own.off = w->off > bytes_of(*first) ? w->off : bytes_of(*first);
	own.len = (uint32_t)((w->end < bytes_of(end) ? w->end : bytes_of(end)) - own.off);
	if ((uint32_t)own.from + own.count > own.buf->block_count) {
		rc = plan_grown(w, &own);
		if (rc)
			return rc;
	}
	*add_part(w, own.kind, own.first, own.count) = own;
	*first = end;
	return 0;
}

static int plan(struct write *w)
{
	uint64_t first = w->off >> STET_BLOCK_SHIFT, to = stet_blocks_(w->end);
	int rc;

	if (w->d->in.i.flags & STET_INODE_INLINE) {
		w->leave_inline = true;
		if (first > 0 && w->d->in.i.inline_bytes > 0) {
			rc = plan_new(w, 0, 1);
			if (rc)
				return rc;
		}
	} else if (!w->d->more_follows || stet_txn_level(w->d->ctx->txn) != STET_LEVEL_PLAIN) {
		rc = plan_place(w, &first, to);
		if (rc || first >= to)
			return rc;
	}
	rc = plan_patches(w, first, to);
	return rc ? (rc < 0 ? rc : 0) : plan_new(w, first, to);
}

/* --- applying --- */

static int apply_part(struct write *w, const struct part *part, int64_t *blocks)
{
	struct fs_data *d = w->d;
	struct stet_key key;
	uint64_t lo = part->first + part->had, end = part->first + part->count, removed;
	int rc = stet_extent_cut_(d->ctx, d->ino, lo, end, &removed);

	if (rc)
		return rc;
	STET_DEBUG_ASSERT(part->count >= part->had);
	*blocks += (int64_t)part->count - part->had - (int64_t)removed;
	stet_key_extent(&key, d->ino, part->first);
	if (part->kind == PART_PATCH || (part->kind == PART_PLACE && part->count == 1))
		return stet_txn_put_patch(d->ctx->txn, &key, part->buf, part->from,
					  (uint32_t)(part->off - bytes_of(part->first)), part->len);
	return stet_txn_put_buf(d->ctx->txn, &key, part->buf, part->from, part->count, 0);
}

static void copy_in_place(const struct write *w, const struct part *part)
{
	uint8_t *to = part->buf->data + bytes_of(part->from);

	if (part->count > part->had) /* W2 */
		memset(to + bytes_of(part->had), 0, bytes_of((uint64_t)part->count - part->had));
	memcpy(to + (part->off - bytes_of(part->first)), w->data + (part->off - w->off), part->len);
}

static int apply(struct write *w)
{
	struct stet_inode_intent n;
	uint64_t removed;
	int64_t blocks = 0;
	int rc = stet_data_finish_pending_(w->d, &removed);

	blocks -= rc ? 0 : (int64_t)removed;
	for (size_t i = 0; i < w->n && !rc; i++)
		rc = apply_part(w, &w->part[i], &blocks);
	if (rc)
		return rc;
	stet_intent_init_(w->d->ctx, &n, STET_TOUCH_DATA_);
	n.size_min = w->end;
	n.blocks = blocks;
	if (w->leave_inline)
		n.set = STET_SET_OUTLINE_;
	rc = stet_data_send_(w->d, &n, NULL);
	if (w->n > 0) {
		w->d->ctx->fs->hint_ino = w->d->ino;
		w->d->ctx->fs->hint_first = w->part[w->n - 1].first;
	}
	if (!rc && stet_txn_level(w->d->ctx->txn) == STET_LEVEL_PLAIN)
		rc = stet_txn_prepare(w->d->ctx->txn);
	for (size_t i = 0; i < w->n && !rc; i++) {
		if (w->part[i].kind == PART_PLACE)
			copy_in_place(w, &w->part[i]); /* W3 */
	}
	return rc;
}

/* --- inline --- */

static bool stays_inline(const struct write *w)
{
	const struct stet_inode *i = &w->d->in.i;

	if (w->end > STET_INLINE_MAX || w->d->pending_from != UINT64_MAX)
		return false;
	return (i->flags & STET_INODE_INLINE) || (i->size == 0 && i->blocks == 0);
}

static int write_inline(struct write *w)
{
	const struct stet_inode *i = &w->d->in.i;
	uint8_t content[STET_INLINE_MAX] = { 0 };
	struct stet_inode_intent n;

	if (i->inline_bytes > 0)
		memcpy(content, i->inline_data, i->inline_bytes);
	memcpy(content + w->off, w->data, w->end - w->off);
	stet_intent_init_(w->d->ctx, &n, STET_TOUCH_DATA_);
	n.set = STET_SET_INLINE_;
	n.inline_bytes = (uint32_t)(w->end > i->inline_bytes ? w->end : i->inline_bytes);
	return stet_data_send_(w->d, &n, content);
}

int stet_data_write_(struct fs_data *d, uint64_t off, const uint8_t *data, size_t len)
{
	struct write w;
	int rc = stet_inode_get_(d->ctx, d->ino, 0, &d->in);

	if (rc || len == 0)
		return rc;
	w.d = d;
	w.off = off;
	w.end = off + len;
	w.data = data;
	w.leave_inline = false;
	w.n = 0;
	w.asked = NO_BLOCK;
	if (stays_inline(&w)) {
		rc = write_inline(&w);
	} else {
		rc = plan(&w);
		if (rc) {
			release_parts(&w);
			return rc;
		}
		rc = apply(&w);
		release_parts(&w);
	}
	if (rc)
		stet_txn_doom(d->ctx->txn, rc);
	return rc;
}

int stet_fs_write(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, const void *data, size_t len)
{
	struct fs_data d;
	int rc = stet_data_begin_(ctx, ino, &d);

	if (rc || len == 0)
		return rc;
	if (len > STET_WRITE_MAX_)
		return -EINVAL;
	if (off > STET_FILE_SIZE_MAX || len > STET_FILE_SIZE_MAX - off)
		return -EFBIG;
	if (stet_staged_wanted_(&d))
		return stet_staged_write_(&d, off, data, len);
	rc = stet_data_lock_(&d, d.file ? 0 : off, d.file ? UINT64_MAX : off + len, STET_LOCK_X);
	if (!rc && (off + len > d.in.i.size || stet_staged_end_(ctx, ino) > d.in.i.size))
		rc = stet_data_pending_(&d);
	if (!rc)
		rc = stet_data_reserve_(&d, off + len, len, false);
	if (!rc)
		rc = stet_data_settle_(&d);
	return rc ? rc : stet_data_write_(&d, off, data, len);
}
