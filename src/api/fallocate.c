/* fallocate.c - ranges of a file: growing it, holes, zeros, and taking ranges out or putting them in.
 *
 * L1. No space is set aside (a log writes elsewhere anyway), but who asks for more than could be written
 *     now is told so.
 * L2. Taking a range out (collapse) and putting one in (insert) move what lies behind it. The log says
 *     of each block whose it is, and where in the file; so moving is copying, holes excepted. It is
 *     done in a transaction, the caller's, which it has for itself meanwhile, or one of its own: a crash or a failure
 *     leaves all of it or nothing.
 * L3. The first change takes the whole file's lock; what is to be moved is looked up after that. In the caller's
 *     transaction it is taken before: who has a transaction for himself does not wait for locks, because whoever
 *     holds them might be about to do something in it.
 * L4. A piece is moved when what lay at its target has been moved: downwards from the front, upwards
 *     from the end.
 */
#include "api/api_internal.h"

#include <linux/falloc.h>
#include <sys/stat.h>

#include "base/vec.h"

#define RETRIES_MAX 100                  /* somebody else's change came first */
#define WINDOW_BYTES (UINT64_C(1) << 28) /* of a file, whose pieces are listed at a time */

static int check_regular(struct stet_api_op *op, uint64_t ino, struct stet_fs_attr *ret)
{
	int rc = stet_api_getattr_(op, ino, ret);

	if (!rc && !S_ISREG(ret->mode))
		rc = S_ISDIR(ret->mode) ? -EISDIR : -EINVAL;
	return rc;
}

/* --- growing, zeroing --- */

struct growing {
	uint64_t ino, size, len, have_blocks, punch_off, punch_len;
};

static int stat_file(struct stet_api_op *op, void *arg)
{
	struct growing *g = arg;
	struct stet_fs_attr attr;
	int rc = check_regular(op, g->ino, &attr);

	if (!rc)
		g->have_blocks = attr.blocks512 / (STET_BLOCK_SIZE / 512);
	return rc;
}

/* L1: a promise that is given back at once. Blocks that the file has may lie in the range. */
static int promise(struct stet_api_op *op, void *arg)
{
	const struct growing *g = arg;
	uint64_t blocks = g->len / STET_BLOCK_SIZE;

	if (blocks <= g->have_blocks)
		return 0;
	return stet_txn_reserve(op->ctx.txn, blocks - g->have_blocks, 0, false, op->ctx.ticket);
}

static int check_room(struct stet_volume *vol, struct stet_tx *tx, unsigned flags,
		      struct growing *g)
{
	int rc = stet_api_run_(vol, tx, flags | STET_API_READ, stat_file, NULL, g);

	return rc ? rc : stet_api_run_(vol, NULL, flags, promise, NULL, g);
}

/* Grows the file over the range and zeroes what it had there. */
static int grow_and_zero(struct stet_api_op *op, void *arg)
{
	const struct growing *g = arg;
	struct stet_fs_attr attr;
	bool grows;
	int rc = stet_api_data_gate_(op, g->ino, false);

	if (!rc)
		rc = check_regular(op, g->ino, &attr);
	if (!rc)
		rc = stet_api_note_dirty_(op, g->ino, g->punch_len ? g->punch_off : attr.size);
	if (!rc)
		rc = stet_api_drop_set_ids_(op, g->ino);
	if (rc)
		return rc;
	grows = g->size > attr.size;
	if (grows && g->punch_len)
		rc = stet_api_in_parts_(op);
	if (!rc && grows)
		rc = stet_fs_truncate(&op->ctx, g->ino, g->size);
	if (!rc && g->punch_len)
		rc = stet_fs_punch(&op->ctx, g->ino, g->punch_off, g->punch_len);
	return rc;
}

/* --- moving (L2) --- */

struct segment {
	uint64_t from, to; /* data */
};

struct shift {
	struct stet_volume *vol;
	struct stet_tx *tx;
	uint64_t ino, off, len, size;
	unsigned flags;
	bool insert;
	uint8_t *buf; /* STET_API_WRITE_MAX */
	uint64_t end; /* insert: of what is still to be moved */
	STET_VEC(struct segment) segments;
};

static int stat_inode(struct stet_api_op *op, void *arg)
{
	struct shift *s = arg;
	struct stet_fs_attr attr;
	int rc = check_regular(op, s->ino, &attr);

	s->size = rc ? 0 : attr.size;
	return rc;
}

/* As ext4: in whole blocks; what is taken out ends before the end of the file. */
static int check_shift(struct shift *s)
{
	int rc = stet_api_run_(s->vol, s->tx, s->flags | STET_API_READ, stat_inode, NULL, s);

	if (rc)
		return rc;
	if ((s->off | s->len) % STET_BLOCK_SIZE != 0)
		return STET_FAIL(-EINVAL, "fallocate: not in whole blocks");
	if (s->insert && s->len > INT64_MAX - s->size)
		return STET_FAIL(-EFBIG, "beyond the largest file size");
	if (s->off >= s->size || (!s->insert && s->len >= s->size - s->off))
		return STET_FAIL(-EINVAL, "fallocate: at or beyond the end of the file");
	return 0;
}

/* The first piece of data in [at, end): 1; 0: there is none. */
static int next_segment(struct shift *s, uint64_t at, uint64_t end, struct segment *ret)
{
	int rc = stet_api_seek_(s->vol, s->tx, s->ino, at, STET_SEEK_DATA, s->flags, &ret->from);

	if (rc == -ENXIO)
		return 0;
	if (rc || ret->from >= end)
		return rc;
	rc = stet_api_seek_(s->vol, s->tx, s->ino, ret->from, STET_SEEK_HOLE, s->flags, &ret->to);
	if (rc)
		return rc;
	if (ret->to > end)
		ret->to = end;
	return 1;
}

static uint64_t target(const struct shift *s, uint64_t at)
{
	return s->insert ? at + s->len : at - s->len;
}

static int copy_piece(struct shift *s, uint64_t from, uint64_t to)
{
	size_t len = (size_t)(to - from);
	size_t done = 0;
	ssize_t n = stet_api_read_(s->vol, s->tx, s->ino, from, s->buf, len, s->flags);

	if (n >= 0 && (size_t)n != len)
		return STET_FAIL(-EIO, "fallocate: the file was cut");
	while (n >= 0 &&
	       done < len) { /* a write may stop short, and says why when it is asked for the rest */
		n = stet_api_write_(s->vol, s->tx, s->ino, target(s, from) + done, s->buf + done,
				    len - done, s->flags);
		done += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? (int)n : 0;
}

/* L4. Pieces are cut at multiples of the largest one. */
static int copy_segment(struct shift *s, const struct segment *seg)
{
	uint64_t from = seg->from, to = seg->to;
	int rc = 0;

	while (!rc && from < to) {
		if (s->insert) {
			uint64_t cut = (to - 1) / STET_API_WRITE_MAX * STET_API_WRITE_MAX;

			cut = cut > from ? cut : from;
			rc = copy_piece(s, cut, to);
			to = cut;
		} else {
			uint64_t cut = (from / STET_API_WRITE_MAX + 1) * STET_API_WRITE_MAX;

			cut = cut < to ? cut : to;
			rc = copy_piece(s, from, cut);
			from = cut;
		}
	}
	return rc;
}

static int punch(struct shift *s, uint64_t from, uint64_t to)
{
	return from < to ? stet_api_punch_(s->vol, s->tx, s->ino, from, to - from, s->flags) : 0;
}

static int collapse(struct shift *s)
{
	uint64_t at = s->off + s->len;
	struct segment seg;
	int rc = punch(s, s->off, at); /* L3 */
	int found = 0;

	while (!rc && (found = next_segment(s, at, s->size, &seg)) == 1) {
		rc = punch(s, target(s, at), target(s, seg.from));
		if (!rc)
			rc = copy_segment(s, &seg);
		at = seg.to;
	}
	rc = rc ? rc : found;
	if (!rc) /* behind the last of them is a hole; the file is longer than that still */
		rc = punch(s, target(s, at),
			   (s->size - s->len + STET_BLOCK_SIZE - 1) &
				   ~(uint64_t)(STET_BLOCK_SIZE - 1));
	return rc ? rc : stet_api_truncate_(s->vol, s->tx, s->ino, s->size - s->len, s->flags);
}

/* The pieces of a window, the last one first. */
static int insert_window(struct shift *s, uint64_t lo, uint64_t hi)
{
	struct segment seg;
	int rc;

	s->segments.n = 0;
	while ((rc = next_segment(s, lo, hi, &seg)) == 1) {
		rc = stet_vec_push(&s->segments, seg);
		if (rc)
			return rc;
		lo = seg.to;
	}
	for (size_t i = s->segments.n; i-- > 0 && !rc;) {
		seg = s->segments.v[i];
		rc = punch(s, target(s, seg.to), target(s, s->end));
		if (!rc)
			rc = copy_segment(s, &seg);
		s->end = seg.from;
	}
	return rc;
}

/* L4. What is moved lands above all that is still to be moved, so that is found as it was. Halves without data are
 * passed over: a sparse file may be very long. */
static int insert_below(struct shift *s, uint64_t lo, uint64_t hi)
{
	uint64_t middle = lo + (hi - lo) / 2 / STET_BLOCK_SIZE * STET_BLOCK_SIZE;
	struct segment seg;
	int rc;

	if (hi - lo <= WINDOW_BYTES)
		return insert_window(s, lo, hi);
	rc = next_segment(s, lo, hi, &seg);
	if (rc != 1)
		return rc;
	rc = insert_below(s, middle, hi);
	return rc ? rc : insert_below(s, lo, middle);
}

static int insert(struct shift *s)
{
	int rc = stet_api_truncate_(s->vol, s->tx, s->ino, s->size + s->len, s->flags); /* L3 */

	s->end = s->size;
	if (!rc)
		rc = insert_below(s, s->off, s->size);
	if (!rc)
		rc = punch(s, target(s, s->off), target(s, s->end));
	return rc ? rc : punch(s, s->off, s->off + s->len);
}

static int shift_in(struct shift *s)
{
	int rc = check_shift(s);

	if (rc)
		return rc;
	return s->insert ? insert(s) : collapse(s);
}

static int lock_all(struct stet_api_op *op, void *arg)
{
	const struct shift *s = arg;

	return stet_api_lock_all_(op, s->ino);
}

/* In the caller's transaction. */
static int shift_inside(struct shift *s)
{
	uint64_t before;
	int rc = check_shift(s);

	if (!rc)
		rc = stet_api_run_(s->vol, s->tx, s->flags, lock_all, NULL, s);
	if (!rc)
		rc = stet_api_alone_begin_(s->tx, &before);
	if (rc)
		return rc;
	s->flags |= STET_API_INSIDE;
	return stet_api_alone_end_(s->tx, before, shift_in(s));
}

/* In a transaction of its own. */
static int shift_alone(struct shift *s)
{
	int rc = -EBUSY;

	for (int i = 0; i < RETRIES_MAX && rc == -EBUSY; i++) {
		rc = stet_begin(s->vol, STET_BEGIN_SNAPSHOT, &s->tx);
		if (rc)
			return rc;
		rc = shift_in(s);
		if (!rc)
			rc = stet_commit(s->tx, STET_COMMIT_NOSYNC);
		if (rc)
			stet_abort(s->tx);
		if (s->flags & STET_LL_NOWAIT)
			break;
	}
	return rc;
}

static int shift_range(struct stet_volume *vol, struct stet_tx *tx, struct shift *s)
{
	int rc;

	s->vol = vol;
	s->tx = tx;
	s->buf = stet_alloc(STET_API_WRITE_MAX);
	if (!s->buf)
		return STET_FAIL(-ENOMEM, "no memory");
	rc = tx ? shift_inside(s) : shift_alone(s);
	stet_vec_release(&s->segments);
	stet_free(s->buf);
	return rc;
}

/* --- the calls --- */

int stet_ll_fallocate(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, int mode,
		      uint64_t off, uint64_t len, unsigned flags)
{
	struct growing g = { .ino = ino, .len = len };
	struct shift s = { .ino = ino, .off = off, .len = len, .flags = flags };
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	if (!rc && len == 0)
		rc = STET_FAIL(-EINVAL, "fallocate: nothing");
	if (!rc && (off > INT64_MAX || len > INT64_MAX - off))
		rc = STET_FAIL(-EFBIG, "beyond the largest file size");
	if (rc)
		return rc;
	switch (mode) {
	case 0:
		g.size = off + len;
		rc = check_room(vol, txn, flags, &g);
		break;
	case FALLOC_FL_KEEP_SIZE:
		return check_room(vol, txn, flags, &g);
	case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
	case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
		return stet_api_punch_(vol, txn, ino, off, len, flags);
	case FALLOC_FL_ZERO_RANGE:
		g.size = off + len;
		g.punch_off = off;
		g.punch_len = len;
		break;
	case FALLOC_FL_COLLAPSE_RANGE:
	case FALLOC_FL_INSERT_RANGE:
		s.insert = mode == FALLOC_FL_INSERT_RANGE;
		return shift_range(vol, txn, &s);
	default:
		return STET_FAIL(-EOPNOTSUPP, "fallocate: mode 0x%x", (unsigned)mode);
	}
	return rc ? rc : stet_api_run_(vol, txn, flags, grow_and_zero, NULL, &g);
}
