/* file.c - requests about files and listings. */
#include "serve/serve_internal.h"

#include <fcntl.h>

/* --- files --- */

int64_t stet_serve_do_openat_(struct stet_serve_call *c)
{
	struct stet_serve_handle h = { .kind = STET_SERVE_FILE };
	struct stet_serve_open o;
	uint64_t ino = 0;
	int rc = stet_serve_get_open_(c, O_CREAT | O_TRUNC, &o);

	if (rc)
		return rc;
	h.of = o.at.txn;
	rc = stet_openat(c->vol, o.at.txn, o.at.dir, o.at.path, o.flags, o.mode, &h.file);
	if (!rc)
		ino = stet_file_ino(h.file);
	rc = stet_serve_opened_(c, &h, rc);
	if (!rc)
		stet_wire_put_u64(&c->out, ino);
	return rc;
}

int64_t stet_serve_do_file_close_(struct stet_serve_call *c)
{
	return stet_serve_drop_(c, STET_SERVE_FILE);
}

/* More than fits one message: in pieces, plain ones from one state. */
static int64_t read_long(struct stet_serve_call *c, struct stet_serve_handle *h, uint64_t off,
			 uint64_t len)
{
	struct stet_txn *view = NULL;
	uint64_t done = 0;
	ssize_t n = 1;
	int rc = h->of ? 0 : stet_begin(c->vol, STET_BEGIN_READ_ONLY, &view);

	if (rc)
		return rc;
	while (done < len && n > 0) {
		size_t piece = len - done < STET_WIRE_PIECE_MAX ? (size_t)(len - done)
								: STET_WIRE_PIECE_MAX;

		if (view)
			n = stet_ll_read(c->vol, view, stet_file_ino(h->file), off + done,
					 c->big_out, piece, 0);
		else
			n = stet_pread(h->file, c->big_out, piece, off + done);
		if (n > 0) {
			rc = stet_serve_part_(c, (size_t)n);
			done += (uint64_t)n;
		}
		if (rc || n < (ssize_t)piece)
			break;
	}
	stet_abort(view);
	if (rc)
		return rc;
	return n < 0 ? n : (int64_t)done;
}

int64_t stet_serve_do_pread_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	uint64_t len = stet_wire_get_u64(&c->in);
	uint64_t off = stet_wire_get_u64(&c->in);
	int64_t n = stet_serve_ready_(c);

	if (!n)
		n = stet_serve_big_out_(c);
	if (n)
		return n;
	if (len > STET_WIRE_PIECE_MAX) {
		n = stet_pread(h->file, c->big_out, 0, off); /* may it be read? */
		return n < 0 ? n : read_long(c, h, off, len < INT64_MAX ? len : INT64_MAX);
	}
	n = stet_pread(h->file, c->big_out, (size_t)len, off);
	if (n > 0)
		c->out_len = (size_t)n;
	return n;
}

int64_t stet_serve_do_pwrite_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	uint64_t off = stet_wire_get_u64(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_pwrite(h->file, c->data, c->data_len, off);
}

int64_t stet_serve_do_append_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_append(h->file, c->data, c->data_len);
}

int64_t stet_serve_do_truncate_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	uint64_t size = stet_wire_get_u64(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_truncate(h->file, size);
}

int64_t stet_serve_do_punch_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	uint64_t off = stet_wire_get_u64(&c->in);
	uint64_t len = stet_wire_get_u64(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_punch(h->file, off, len);
}

int64_t stet_serve_do_fallocate_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	int mode = (int)stet_wire_get_u32(&c->in);
	uint64_t off = stet_wire_get_u64(&c->in);
	uint64_t len = stet_wire_get_u64(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_fallocate(h->file, mode, off, len);
}

int64_t stet_serve_do_fsync_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_fsync(h->file);
}

int64_t stet_serve_do_seek_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	uint64_t off = stet_wire_get_u64(&c->in);
	int what = (int)stet_wire_get_u32(&c->in);
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = stet_seek(h->file, off, what, &off);
	if (!rc)
		stet_wire_put_u64(&c->out, off);
	return rc;
}

int64_t stet_serve_do_copy_range_(struct stet_serve_call *c)
{
	struct stet_serve_handle *from = stet_serve_handle_(c, STET_SERVE_FILE);
	uint64_t from_off = stet_wire_get_u64(&c->in);
	struct stet_serve_handle *to = stet_serve_handle_(c, STET_SERVE_FILE);
	uint64_t to_off = stet_wire_get_u64(&c->in);
	uint64_t len = stet_wire_get_u64(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_copy_range(from->file, from_off, to->file, to_off, len);
}

int64_t stet_serve_do_file_stat_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_FILE);
	struct stet_stat st;
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = stet_file_stat(h->file, &st);
	if (!rc)
		stet_wire_put_stat(&c->out, &st);
	return rc;
}

/* --- listings --- */

int64_t stet_serve_do_dir_open_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	struct stet_serve_handle h = { .kind = STET_SERVE_DIR, .is_view = true };
	struct stet_dir_filter filter = { .types = stet_wire_get_u32(&c->in) };
	bool has_glob = stet_wire_get_u32(&c->in);
	const char *glob = stet_serve_text_(c);
	int rc = stet_serve_ready_(c);

	if (has_glob)
		filter.glob = glob;
	if (!rc)
		rc = stet_serve_admit_(c->session, h.is_view);
	if (rc)
		return rc;
	rc = stet_dir_open(c->vol, at.txn, at.dir, at.path, &filter, &h.dir);
	return stet_serve_opened_(c, &h, rc);
}

int64_t stet_serve_do_dir_next_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_DIR);
	struct stet_dir_entry entry;
	int64_t count = 0;
	size_t more_at = c->out.len;
	int rc = stet_serve_ready_(c);

	if (rc)
		return rc;
	stet_wire_put_u32(&c->out, 1);
	while (count < STET_WIRE_BATCH && (rc = stet_dir_next(h->dir, &entry)) == 1) {
		stet_wire_put_entry(&c->out, &entry);
		count++;
	}
	if (rc < 0 && count == 0) {
		c->out.len = more_at;
		return rc;
	}
	if (count < STET_WIRE_BATCH &&
	    rc == 0) /* after a failure the next request meets it again */
		c->out.p[more_at] = 0;
	return count;
}

int64_t stet_serve_do_dir_close_(struct stet_serve_call *c)
{
	return stet_serve_drop_(c, STET_SERVE_DIR);
}
