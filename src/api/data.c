/* data.c - file data by inode number.
 *
 * D1. A read is planned under the lock and filled without it; a pin keeps the places until then.
 * D2. A plain read that needs more than one plan reads from a view, so that it shows one state.
 * D3. A write is one operation per MiB of the file; each is atomic (more than that does not fit into
 *     what a plain operation may stage). Where one fails, the call answers what was written before, in a
 *     transaction, too, which goes on.
 */
#include "api/api_internal.h"

#include "cache/cache.h"

#include <limits.h>

#define READ_PIECES 24

/* --- reading --- */

struct plan {
	uint64_t ino, off;
	size_t len;
	uint8_t *buf;
	size_t pieces, done;
	struct stet_view *pin;
	struct stet_read_piece piece[READ_PIECES];
};

static int make_plan(struct stet_api_op *op, void *arg)
{
	struct plan *p = arg;
	int rc = stet_api_read_gate_(op, p->ino);

	if (rc)
		return rc;
	return stet_fs_read_plan(&op->ctx, p->ino, p->off, p->len, p->buf, p->piece, READ_PIECES,
				 &p->pieces, &p->done, &p->pin);
}

/* One plan, made and filled. *ret_cut: it was cut short because the pieces ran out. */
static int read_some(struct stet_volume *vol, struct stet_tx *tx, unsigned flags, struct plan *p,
		     bool *ret_cut)
{
	int rc;

	p->pieces = 0;
	p->done = 0;
	p->pin = NULL;
	rc = stet_api_run_(vol, tx, flags | STET_API_READ, make_plan, NULL, p);
	for (size_t i = 0; i < p->pieces && !rc; i++)
		rc = stet_cache_fill(vol->device, &p->piece[i]);
	if (p->pin) {
		stet_api_lock_(vol);
		stet_view_close(p->pin);
		stet_api_unlock_(vol);
	}
	*ret_cut = !rc && p->done > 0 && p->done < p->len && p->pieces == READ_PIECES;
	return rc;
}

static ssize_t read_all(struct stet_volume *vol, struct stet_tx *tx, unsigned flags, struct plan *p)
{
	size_t done = 0;
	bool more = true;

	while (more) {
		int rc = read_some(vol, tx, flags, p, &more);

		if (rc)
			return rc;
		done += p->done;
		p->off += p->done;
		p->buf += p->done;
		p->len -= p->done;
	}
	return (ssize_t)done;
}

/* D2 */
static ssize_t read_view(struct stet_volume *vol, unsigned flags, struct plan *p)
{
	struct stet_tx *view;
	ssize_t n = stet_api_view_begin_(vol, &view);

	if (n)
		return n;
	n = read_all(vol, view, flags, p);
	stet_api_view_end_(view);
	return n;
}

ssize_t stet_api_read_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino, uint64_t off,
		       void *buf, size_t len, unsigned flags)
{
	struct plan p;
	bool cut;
	int rc;

	if (len > SSIZE_MAX)
		len = SSIZE_MAX;
	p.ino = ino;
	p.off = off;
	p.len = len;
	p.buf = buf;
	if (tx)
		return read_all(vol, tx, flags, &p);
	rc = read_some(vol, NULL, flags, &p, &cut);
	if (rc)
		return rc;
	return cut ? read_view(vol, flags, &p) : (ssize_t)p.done;
}

/* --- writing --- */

struct piece {
	uint64_t ino, off;
	const uint8_t *data;
	size_t len;
};

static int write_piece(struct stet_api_op *op, void *arg)
{
	const struct piece *p = arg;
	int rc = stet_api_data_gate_(op, p->ino, false);

	if (!rc)
		rc = stet_api_note_dirty_(op, p->ino, p->off);
	if (!rc)
		rc = stet_api_drop_set_ids_(op, p->ino);
	if (!rc)
		rc = stet_fs_write(&op->ctx, p->ino, p->off, p->data, p->len);
	return rc;
}

static int append_piece(struct stet_api_op *op, void *arg)
{
	const struct piece *p = arg;
	int rc = stet_api_data_gate_(op, p->ino, true);

	if (!rc)
		rc = stet_api_note_dirty_(op, p->ino, UINT64_MAX);
	if (!rc)
		rc = stet_api_drop_set_ids_(op, p->ino);
	if (!rc)
		rc = stet_fs_append(&op->ctx, p->ino, p->data, p->len);
	return rc;
}

/* D3 */
static ssize_t write_pieces(struct stet_volume *vol, struct stet_tx *tx, unsigned flags,
			    stet_api_op_fn *fn, struct piece *p, size_t len)
{
	size_t done = 0;

	if (len > SSIZE_MAX)
		return STET_FAIL(-EINVAL, "%zu bytes at once", len);
	while (done < len) {
		size_t room = STET_API_WRITE_MAX - (size_t)(p->off % STET_API_WRITE_MAX);
		int rc;

		p->len = len - done < room ? len - done : room;
		rc = stet_api_run_(vol, tx, flags, fn, NULL, p);
		if (rc)
			return done > 0 ? (ssize_t)done : rc;
		done += p->len;
		p->data += p->len;
		p->off += p->len;
	}
	return (ssize_t)done;
}

ssize_t stet_api_write_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino, uint64_t off,
			const void *buf, size_t len, unsigned flags)
{
	struct piece p = { .ino = ino, .off = off, .data = buf };

	if (off > INT64_MAX || len > INT64_MAX - off)
		return STET_FAIL(-EFBIG, "beyond the largest file size");
	return write_pieces(vol, tx, flags, write_piece, &p, len);
}

ssize_t stet_api_append_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino, const void *buf,
			 size_t len, unsigned flags)
{
	struct piece p = { .ino = ino, .data = buf };

	return write_pieces(vol, tx, flags, append_piece, &p, len);
}

struct range {
	uint64_t ino, off, len;
	int what;
	uint64_t found;
};

static int truncate_to(struct stet_api_op *op, void *arg)
{
	const struct range *r = arg;
	int rc = stet_api_data_gate_(op, r->ino, false);

	if (!rc)
		rc = stet_api_note_dirty_(op, r->ino, r->off);
	if (!rc)
		rc = stet_api_drop_set_ids_(op, r->ino);
	if (!rc)
		rc = stet_fs_truncate(&op->ctx, r->ino, r->off);
	return rc;
}

int stet_api_truncate_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino, uint64_t size,
		       unsigned flags)
{
	struct range r = { .ino = ino, .off = size };

	if (size > INT64_MAX)
		return STET_FAIL(-EFBIG, "beyond the largest file size");
	return stet_api_run_(vol, tx, flags, truncate_to, NULL, &r);
}

static int punch_range(struct stet_api_op *op, void *arg)
{
	const struct range *r = arg;
	int rc = stet_api_data_gate_(op, r->ino, false);

	if (!rc)
		rc = stet_api_note_dirty_(op, r->ino, r->off);
	if (!rc)
		rc = stet_api_drop_set_ids_(op, r->ino);
	if (!rc)
		rc = stet_fs_punch(&op->ctx, r->ino, r->off, r->len);
	return rc;
}

int stet_api_punch_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino, uint64_t off,
		    uint64_t len, unsigned flags)
{
	struct range r = { .ino = ino, .off = off, .len = len };

	if (off > INT64_MAX || len > INT64_MAX - off)
		return STET_FAIL(-EFBIG, "beyond the largest file size");
	return stet_api_run_(vol, tx, flags, punch_range, NULL, &r);
}

static int seek_from(struct stet_api_op *op, void *arg)
{
	struct range *r = arg;
	int rc = stet_api_read_gate_(op, r->ino);

	if (rc)
		return rc;
	return stet_fs_seek(&op->ctx, r->ino, r->off, r->what == STET_SEEK_HOLE, &r->found);
}

int stet_api_seek_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino, uint64_t off,
		   int what, unsigned flags, uint64_t *ret_off)
{
	struct range r = { .ino = ino, .off = off, .what = what };
	int rc;

	if (what != STET_SEEK_DATA && what != STET_SEEK_HOLE)
		return STET_FAIL(-EINVAL, "seek: %d", what);
	rc = stet_api_run_(vol, tx, flags | STET_API_READ, seek_from, NULL, &r);
	if (!rc)
		*ret_off = r.found;
	return rc;
}

int stet_api_sync_(struct stet_volume *vol)
{
	int rc = 0;

	stet_error_clear();
	stet_api_lock_(vol);
	if (!vol->read_only)
		rc = stet_api_make_durable_(vol, stet_engine_serial(vol->engine));
	stet_api_unlock_(vol);
	return rc;
}
