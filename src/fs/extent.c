/* extent.c - which blocks of a file lie where: walking, cutting, and fitting changes to the current
 * state.
 *
 * An EXTENT's key is its first block; no two overlap (F2). What one transaction sees of a file is
 * not what is there when it is ordered: the log may have split an extent where a segment ended, the
 * cleaner may have moved one. Neither changes content, so neither is a conflict; but a rest that
 * was cut from an extent in an old view must not bring old places back, and an extent that was
 * split must not shine through where the transaction wrote. Therefore, for files that others see
 * (fs_file):
 *
 * E1. `mine` holds the blocks that the transaction has given content or taken it from. There only
 *     its own extents count (birth 0).
 * E2. Of an extent of others that is cut the rests are staged, for the transaction to see (its own
 *     new extent may have the same key); their keys are in `rests`. So whatever extent of others
 *     overlaps `mine` later is a piece that was split off below: its content outside `mine` is in a
 *     rest, and it is passed over. The locks see to it that the content of a rest cannot change.
 * E3. At ordering every rest is replaced by what is then current there, and every current extent is
 *     cut to what lies outside `mine` (rebase). So in the end cutting works on the current places.
 * E4. A walk gives each block at most once: a piece split off below may also lie within a rest.
 * E5. A transaction at LOCKING has no view that keeps the places which its rests name. So before it reads a file
 *     of which the cleaner has moved something, its rests are given the current places. Going back to a savepoint
 *     brings old ones back, so that counts as moving.
 * Files that are direct (PLAIN, ordering, own inodes) have no `mine`: cutting changes the keys for
 * good.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

#define EXTENT_KEY_BYTES 17u
#define LOOK_BACK (STET_EXTENT_BLOCKS_MAX - 1) /* keys of extents that may reach a block */

uint16_t stet_extent_max_(const struct stet_fs_ctx *ctx)
{
	uint32_t quarter = stet_engine_superblock(stet_txn_engine(ctx->txn))->seg_blocks / 4;

	return (uint16_t)(quarter < STET_EXTENT_BLOCKS_MAX ? quarter : STET_EXTENT_BLOCKS_MAX);
}

int stet_extent_load_(const struct stet_key *key, uint32_t seg_blocks, struct fs_extent *x)
{
	int rc;

	if (key->bytes != EXTENT_KEY_BYTES)
		return STET_FAIL(-EUCLEAN, "extent: key of %u bytes", key->bytes);
	x->first = stet_key_suffix_u64(key->b);
	if (x->val.buf) {
		x->count = x->val.buf_count;
		x->birth = x->val.birth;
	} else {
		rc = stet_extent_decode(x->val.b, x->val.bytes, seg_blocks, &x->e);
		if (rc)
			return rc;
		x->count = x->e.block_count;
		x->birth = x->e.birth;
	}
	if (x->first >= STET_FILE_BLOCKS_MAX || x->count > STET_FILE_BLOCKS_MAX - x->first)
		return STET_FAIL(-EUCLEAN, "extent: %u blocks from %" PRIu64, x->count, x->first);
	return 0;
}

static int open_scan(struct stet_txn *txn, uint64_t ino, uint64_t lo, uint64_t hi, uint64_t before,
		     struct stet_scan **ret)
{
	struct stet_key from, to;

	stet_key_extent(&from, ino, lo > before ? lo - before : 0);
	stet_key_extent(&to, ino, hi);
	return stet_scan_open(txn, &from, &to, ret);
}

/* The next extent that reaches beyond lo. 1, 0 = none. */
static int next_extent(struct stet_scan *scan, uint32_t seg_blocks, uint64_t lo,
		       struct fs_extent *x)
{
	struct stet_key key;
	int rc;

	while ((rc = stet_scan_next(scan, &key, &x->val)) == 1) {
		rc = stet_extent_load_(&key, seg_blocks, x);
		if (rc)
			return rc;
		if (x->first + x->count > lo)
			return 1;
	}
	return rc;
}

/* E1, E2: whether the extent counts. */
static bool is_visible(const struct fs_file *file, const struct fs_extent *x)
{
	uint64_t end = x->first + x->count, at = x->first, lo;

	if (!file || x->birth == 0)
		return true;
	return stet_ranges_gap_(&file->mine, &at, end, &lo) && lo == x->first && at == end;
}

/* --- walking --- */

/* NULL when changes go straight through. */
static struct fs_file *file_of(const struct stet_fs_ctx *ctx, uint64_t ino)
{
	return stet_state_direct_(ctx, ino) ? NULL : stet_state_find_file_(ctx, ino);
}

/* A walk often begins where an extent does, and ends in it: then one look-up does. */
static int renew_rests(struct stet_fs_ctx *ctx, uint64_t ino);

int stet_walk_open_(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t lo, uint64_t hi,
		    struct fs_walk *ret)
{
	struct stet_key key;
	int rc;

	ret->ctx = ctx;
	ret->ino = ino;
	ret->scan = NULL;
	ret->ready = false;
	ret->file = file_of(ctx, ino);
	ret->seg_blocks = stet_engine_superblock(stet_txn_engine(ctx->txn))->seg_blocks;
	ret->at = lo;
	ret->hi = hi;
	if (lo >= hi)
		return 0;
	rc = ret->file ? renew_rests(ctx, ino) : 0;
	if (rc)
		return rc;
	stet_key_extent(&key, ino, lo);
	rc = stet_txn_get(ctx->txn, &key, &ret->x.val);
	if (rc == -ENOENT)
		return 0;
	if (!rc)
		rc = stet_extent_load_(&key, ret->seg_blocks, &ret->x);
	ret->ready = !rc && is_visible(ret->file, &ret->x);
	return rc;
}

static int walk_extent(struct fs_walk *w)
{
	int rc = 0;

	if (w->ready) {
		w->ready = false;
		return 1;
	}
	if (!w->scan)
		rc = open_scan(w->ctx->txn, w->ino, w->at, w->hi, LOOK_BACK, &w->scan);
	while (!rc && (rc = next_extent(w->scan, w->seg_blocks, w->at, &w->x)) == 1) {
		if (is_visible(w->file, &w->x))
			return 1;
		rc = 0;
	}
	return rc;
}

int stet_walk_next_(struct fs_walk *w, struct fs_piece *ret)
{
	uint64_t end;
	int rc;

	if (w->at >= w->hi)
		return 0;
	rc = walk_extent(w);
	if (rc != 1)
		return rc;
	end = w->x.first + w->x.count;
	ret->first = w->at > w->x.first ? w->at : w->x.first; /* E4 */
	w->at = end < w->hi ? end : w->hi;
	ret->count = (uint16_t)(w->at - ret->first);
	ret->shift = (uint16_t)(ret->first - w->x.first);
	return 1;
}

void stet_walk_close_(struct fs_walk *w)
{
	stet_scan_close(w->scan);
	w->scan = NULL;
}

int stet_extent_count_(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t lo, uint64_t hi,
		       uint32_t most, uint32_t *ret)
{
	struct fs_piece piece;
	struct fs_walk walk;
	uint32_t n = 0;
	int rc = stet_walk_open_(ctx, ino, lo, hi, &walk);

	if (rc)
		return rc;
	while (n < most && (rc = stet_walk_next_(&walk, &piece)) == 1)
		n++;
	stet_walk_close_(&walk);
	if (rc < 0)
		return rc;
	*ret = n;
	return 0;
}

int stet_extent_read_(struct stet_fs_ctx *ctx, const struct fs_extent *x, uint16_t shift,
		      uint8_t *out)
{
	struct stet_cache *cache = stet_engine_cache(stet_txn_engine(ctx->txn));
	const struct stet_databuf *buf = x->val.buf;
	uint8_t crc[sizeof(le32)];
	uint32_t i;

	if (!buf)
		return stet_cache_read(cache, stet_addr_add(x->e.addr, shift),
				       stet_addr_is_none(x->e.addr2)
					       ? STET_ADDR_NONE
					       : stet_addr_add(x->e.addr2, shift),
				       1, x->e.crcs + sizeof(le32) * shift, out);
	i = (uint32_t)x->val.buf_from + shift;
	if (buf->data) {
		memcpy(out, buf->data + (size_t)i * STET_BLOCK_SIZE, STET_BLOCK_SIZE);
		return 0;
	}
	stet_put_le32(crc, buf->crc[i]);
	return stet_cache_read(cache, buf->addr[i], buf->addr2 ? buf->addr2[i] : STET_ADDR_NONE, 1,
			       crc, out);
}

/* --- cutting --- */

/* Stages blocks [pos, pos + count) of the extent as one of its own. */
static int put_part(struct stet_txn *txn, uint64_t ino, const struct fs_extent *x, uint64_t pos,
		    uint16_t count)
{
	uint16_t shift = (uint16_t)(pos - x->first);
	uint8_t value[STET_EXTENT_VALUE_MAX];
	struct stet_extent part;
	struct stet_key key;

	stet_key_extent(&key, ino, pos);
	if (x->val.buf)
		return stet_txn_put_buf(txn, &key, x->val.buf, (uint16_t)(x->val.buf_from + shift),
					count, x->birth);
	part = x->e;
	part.addr = stet_addr_add(part.addr, shift);
	if (!stet_addr_is_none(part.addr2))
		part.addr2 = stet_addr_add(part.addr2, shift);
	part.block_count = count;
	part.phys_blocks = count;
	part.crcs += sizeof(le32) * shift;
	return stet_txn_put(txn, &key, value, stet_extent_encode(&part, value));
}

static int del_key(struct stet_txn *txn, uint64_t ino, uint64_t first)
{
	struct stet_key key;

	stet_key_extent(&key, ino, first);
	return stet_txn_del(txn, &key);
}

/* E2 */
static int note_rest(struct stet_fs_ctx *ctx, struct fs_file *file, uint64_t first)
{
	int rc = stet_undo_note_(ctx, &(struct fs_undo){ .kind = STET_UNDO_RESTS,
							 .ino = file->ino,
							 .a = file->rests.n });

	return rc ? rc : stet_vec_push(&file->rests, first);
}

/* Leaves of the extent what lies outside `gone`. The key of the extent itself is changed last:
 * until then it holds the reference to the buffer. keep_key: something else has taken that key. */
static int keep_parts(struct stet_fs_ctx *ctx, uint64_t ino, const struct fs_extent *x,
		      const struct fs_ranges *gone, struct fs_file *file, bool keep_key)
{
	struct stet_txn *txn = ctx->txn;
	uint64_t end = x->first + x->count, at = x->first, lo;
	uint16_t at_key = 0;
	int rc = 0;

	while (!rc && stet_ranges_gap_(gone, &at, end, &lo)) {
		if (lo == x->first)
			at_key = (uint16_t)(at - lo);
		else
			rc = put_part(txn, ino, x, lo, (uint16_t)(at - lo));
		if (!rc && file && x->birth != 0)
			rc = note_rest(ctx, file, lo);
	}
	if (rc)
		return rc;
	if (at_key > 0)
		return put_part(txn, ino, x, x->first, at_key);
	return keep_key ? 0 : del_key(txn, ino, x->first);
}

/* How far back from lo an extent may begin that reaches it: not at all when one begins there, and
 * extents do not overlap (which E2 allows for files that are not direct). */
static int look_back(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t lo, uint64_t *ret)
{
	struct stet_key key;
	struct stet_val val;
	int rc;

	*ret = LOOK_BACK;
	if (!stet_state_direct_(ctx, ino))
		return 0;
	stet_key_extent(&key, ino, lo);
	rc = stet_txn_get(ctx->txn, &key, &val);
	if (rc == 0)
		*ret = 0;
	return rc == -ENOENT ? 0 : rc;
}

int stet_extent_cut_(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t lo, uint64_t hi,
		     uint64_t *ret_removed)
{
	uint32_t seg_blocks = stet_engine_superblock(stet_txn_engine(ctx->txn))->seg_blocks;
	struct fs_file *file = file_of(ctx, ino);
	struct fs_range only = { lo, hi };
	struct fs_chunk chunk = { .list = { .v = &only, .n = 1, .cap = 1 } };
	const struct fs_ranges gone = { .chunks = { .v = &chunk, .n = 1, .cap = 1 }, .count = 1 };
	uint64_t removed = 0, counted = lo, before;
	struct stet_scan *scan;
	struct fs_extent x;
	int rc;

	if (lo >= hi) {
		*ret_removed = 0;
		return 0;
	}
	rc = look_back(ctx, ino, lo, &before);
	if (!rc)
		rc = open_scan(ctx->txn, ino, lo, hi, before, &scan);
	if (rc)
		return rc;
	while ((rc = next_extent(scan, seg_blocks, lo, &x)) == 1) {
		uint64_t from = x.first > counted ? x.first : counted;
		uint64_t end = x.first + x.count < hi ? x.first + x.count : hi;

		if (!is_visible(file, &x))
			continue;
		if (end > from) { /* E4 */
			removed += end - from;
			counted = end;
		}
		rc = keep_parts(ctx, ino, &x, &gone, file, false);
		if (rc)
			break;
	}
	stet_scan_close(scan);
	if (!rc && file)
		rc = stet_undo_note_ranges_(ctx, STET_UNDO_MINE, file, lo, hi);
	if (!rc && file)
		rc = stet_ranges_add_(&file->mine, lo, hi);
	if (!rc) {
		*ret_removed = removed;
		stet_txn_cuts(ctx->txn, removed);
	}
	return rc;
}

int stet_extent_drop_later_(struct stet_fs_ctx *ctx, struct fs_file *file, uint64_t lo)
{
	uint64_t at = lo, from;
	int rc = 0;

	while (!rc && stet_ranges_gap_(&file->mine, &at, STET_FILE_BLOCKS_MAX, &from)) {
		rc = stet_undo_note_ranges_(ctx, STET_UNDO_LAZY, file, from, at);
		if (!rc)
			rc = stet_ranges_add_(&file->lazy, from, at);
	}
	if (!rc)
		rc = stet_undo_note_ranges_(ctx, STET_UNDO_MINE, file, lo, STET_FILE_BLOCKS_MAX);
	if (!rc)
		rc = stet_ranges_add_(&file->mine, lo, STET_FILE_BLOCKS_MAX);
	if (rc || lo >= file->lazy_from)
		return rc;
	rc = stet_undo_note_(ctx, &(struct fs_undo){ .kind = STET_UNDO_LAZY_FROM,
						     .ino = file->ino,
						     .a = file->lazy_from });
	if (!rc)
		file->lazy_from = lo;
	return rc;
}

/* --- rebase (E3) --- */

struct rebase {
	struct stet_fs_ctx *ctx;
	struct fs_file *file;
	struct stet_txn *now;         /* reads the current committed state */
	const struct fs_ranges *gone; /* what is cut out of it */
	uint32_t seg_blocks;
	uint64_t removed, counted; /* blocks, among those below `counted` */
};

/* Whether the transaction has content of its own under this key. */
static int has_own(struct rebase *r, uint64_t first, bool *ret)
{
	struct stet_key key;
	struct fs_extent x;
	int rc;

	stet_key_extent(&key, r->file->ino, first);
	rc = stet_txn_get(r->ctx->txn, &key, &x.val);
	if (rc == -ENOENT) {
		*ret = false;
		return 0;
	}
	if (!rc)
		rc = stet_extent_load_(&key, r->seg_blocks, &x);
	if (!rc)
		*ret = x.birth == 0;
	return rc;
}

static bool is_inside(const struct fs_ranges *ranges, uint64_t block)
{
	uint64_t at = block, lo;

	return !stet_ranges_gap_(ranges, &at, block + 1, &lo);
}

/* Gives the rest, if it is one still, the places where its blocks are now; it may have been split there. */
static int renew_rest(struct stet_fs_ctx *ctx, struct fs_file *file, struct stet_txn *now,
		      uint64_t first)
{
	uint32_t seg_blocks = stet_engine_superblock(stet_txn_engine(now))->seg_blocks;
	struct fs_extent rest, x;
	struct stet_scan *scan;
	struct stet_key key;
	uint64_t at, end;
	int rc;

	if (is_inside(&file->mine, first))
		return 0; /* overwritten since */
	stet_key_extent(&key, file->ino, first);
	rc = stet_txn_get(ctx->txn, &key, &rest.val);
	if (!rc)
		rc = stet_extent_load_(&key, seg_blocks, &rest);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	end = rest.first + rest.count;
	rc = open_scan(now, file->ino, first, end, LOOK_BACK, &scan);
	for (at = first; !rc && at < end && (rc = next_extent(scan, seg_blocks, at, &x)) == 1;) {
		uint64_t from = x.first > at ? x.first : at;
		uint64_t to = x.first + x.count < end ? x.first + x.count : end;

		rc = put_part(ctx->txn, file->ino, &x, from, (uint16_t)(to - from));
		if (!rc && from != first)
			rc = note_rest(ctx, file, from);
		at = to;
	}
	stet_scan_close(scan);
	return rc < 0 ? rc : 0;
}

/* E5 */
static int renew_rests(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_file *file = stet_state_find_file_(ctx, ino);
	struct fs_state *state = stet_state_(ctx);
	size_t n = file->rests.n;
	struct stet_txn *now;
	int rc;

	if (stet_txn_level(ctx->txn) != STET_LEVEL_LOCKING || n == 0 ||
	    (!file->moved && file->rollbacks == state->rollbacks))
		return 0;
	rc = stet_txn_begin(stet_txn_engine(ctx->txn), STET_LEVEL_PLAIN, true, &now);
	if (rc)
		return rc;
	for (size_t i = 0; i < n && !rc; i++)
		rc = renew_rest(ctx, file, now, file->rests.v[i]);
	stet_txn_end(now);
	if (rc)
		return rc;
	file->moved = false;
	file->rollbacks = state->rollbacks;
	return 0;
}

/* What was staged as a rest becomes what is current under its key; nothing, if nothing is. */
static int refresh_rest(struct rebase *r, uint64_t first)
{
	struct stet_key key;
	struct fs_extent x;
	int rc;

	if (is_inside(&r->file->mine, first))
		return 0; /* overwritten since */
	stet_key_extent(&key, r->file->ino, first);
	rc = stet_txn_get(r->now, &key, &x.val);
	if (rc == -ENOENT)
		return stet_txn_del(r->ctx->txn, &key);
	if (!rc)
		rc = stet_extent_load_(&key, r->seg_blocks, &x);
	return rc ? rc : put_part(r->ctx->txn, r->file->ino, &x, first, x.count);
}

static uint64_t lazy_blocks(const struct fs_file *file, const struct fs_extent *x)
{
	uint64_t at = x->first, end = x->first + x->count, lo, outside = 0;

	while (stet_ranges_gap_(&file->lazy, &at, end, &lo))
		outside += at - lo;
	return x->count - outside;
}

/* Cuts what is current in one range. */
static int cut_current(struct rebase *r, const struct fs_range *range)
{
	struct stet_scan *scan;
	struct fs_extent x;
	bool own;
	int rc = open_scan(r->now, r->file->ino, range->lo, range->hi, LOOK_BACK, &scan);

	if (rc)
		return rc;
	while ((rc = next_extent(scan, r->seg_blocks, range->lo, &x)) == 1) {
		if (x.first + x.count > r->counted) { /* else an earlier range has met it */
			r->removed += lazy_blocks(r->file, &x);
			r->counted = x.first + x.count;
		}
		rc = has_own(r, x.first, &own);
		if (!rc)
			rc = keep_parts(r->ctx, r->file->ino, &x, r->gone, NULL, own);
		if (rc)
			break;
	}
	stet_scan_close(scan);
	return rc;
}

/* mine without lazy. */
static int without_lazy(const struct fs_file *file, struct fs_ranges *ret)
{
	struct fs_range mine;
	uint64_t at;
	int rc = 0;

	for (at = 0; !rc && stet_ranges_next_(&file->mine, at, &mine); at = mine.hi) {
		uint64_t end = mine.lo, lo;

		while (!rc && stet_ranges_gap_(&file->lazy, &end, mine.hi, &lo))
			rc = stet_ranges_add_(ret, lo, end);
	}
	return rc;
}

int stet_extent_rebase_(struct stet_fs_ctx *ctx, struct fs_file *file, bool lazily,
			uint64_t *ret_removed)
{
	struct stet_engine *engine = stet_txn_engine(ctx->txn);
	struct fs_ranges eager = { .count = 0 };
	struct fs_range range;
	uint64_t at;
	struct rebase r = {
		.ctx = ctx,
		.file = file,
		.gone = lazily ? &eager : &file->mine,
		.seg_blocks = stet_engine_superblock(engine)->seg_blocks,
	};
	int rc = lazily ? without_lazy(file, &eager) : 0;

	if (!rc)
		rc = stet_txn_begin(engine, STET_LEVEL_PLAIN, true, &r.now);
	if (rc) {
		stet_ranges_release_(&eager);
		return rc;
	}
	for (size_t i = 0; i < file->rests.n && !rc; i++)
		rc = refresh_rest(&r, file->rests.v[i]);
	for (at = 0; !rc && stet_ranges_next_(r.gone, at, &range); at = range.hi)
		rc = cut_current(&r, &range);
	stet_txn_end(r.now);
	stet_ranges_release_(&eager);
	if (!rc) {
		*ret_removed = lazily ? 0 : r.removed;
		stet_txn_cuts(ctx->txn, r.removed);
	}
	return rc;
}
