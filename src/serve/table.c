/* table.c - requests about tables and their records. */
#include "serve/serve_internal.h"

#include <fcntl.h>

#define BATCH_MAX 64u
#define BATCH_BYTES ((size_t)64 << 10) /* with this many no further record is taken */

_Static_assert(BATCH_BYTES + STET_KEY_MAX + STET_RECORD_MAX + 64 <= STET_WIRE_DATA_MAX,
	       "a batch that ends in the largest record is a message");

int64_t stet_serve_do_table_open_(struct stet_serve_call *c)
{
	struct stet_serve_handle h = { .kind = STET_SERVE_TABLE };
	struct stet_serve_open o;
	uint64_t ino = 0;
	int rc = stet_serve_get_open_(c, O_CREAT, &o);

	if (rc)
		return rc;
	rc = stet_table_open(c->vol, o.at.txn, o.at.dir, o.at.path, o.flags, o.mode, &h.table);
	if (!rc)
		ino = stet_table_ino(h.table);
	rc = stet_serve_opened_(c, &h, rc);
	if (!rc)
		stet_wire_put_u64(&c->out, ino);
	return rc;
}

int64_t stet_serve_do_table_close_(struct stet_serve_call *c)
{
	return stet_serve_drop_(c, STET_SERVE_TABLE);
}

int64_t stet_serve_do_cursor_close_(struct stet_serve_call *c)
{
	return stet_serve_drop_(c, STET_SERVE_CURSOR);
}

/* --- records --- */

struct key {
	const void *bytes;
	size_t len;
};

static struct key get_key(struct stet_serve_call *c)
{
	struct key key;

	key.bytes = stet_wire_get_blob(&c->in, &key.len);
	return key;
}

int64_t stet_serve_do_get_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TABLE);
	struct stet_txn *txn = stet_serve_txn_(c);
	struct key key = get_key(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	uint64_t cap = stet_wire_get_u64(&c->in);
	int64_t n = stet_serve_ready_(c);

	if (!n)
		n = stet_serve_big_out_(c);
	if (n)
		return n;
	n = stet_get(h->table, txn, key.bytes, key.len, c->big_out,
		     cap < STET_WIRE_DATA_MAX ? (size_t)cap : STET_WIRE_DATA_MAX, flags);
	if (n > 0 && cap > 0)
		c->out_len = (size_t)n;
	return n;
}

int64_t stet_serve_do_put_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TABLE);
	struct stet_txn *txn = stet_serve_txn_(c);
	struct key key = get_key(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_put(h->table, txn, key.bytes, key.len, c->data, c->data_len, flags);
}

int64_t stet_serve_do_del_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TABLE);
	struct stet_txn *txn = stet_serve_txn_(c);
	struct key key = get_key(c);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_del(h->table, txn, key.bytes, key.len);
}

int64_t stet_serve_do_count_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TABLE);
	struct stet_txn *txn = stet_serve_txn_(c);
	struct stet_bounds bounds;
	uint64_t count;
	int rc;

	stet_wire_get_bounds(&c->in, &bounds);
	rc = stet_serve_ready_(c);
	if (!rc)
		rc = stet_count(h->table, txn, &bounds, &count);
	if (!rc)
		stet_wire_put_u64(&c->out, count);
	return rc;
}

/* --- cursors --- */

int64_t stet_serve_do_cursor_open_(struct stet_serve_call *c)
{
	struct stet_serve_handle *above = stet_serve_handle_(c, STET_SERVE_TABLE);
	struct stet_txn *txn = stet_serve_txn_(c);
	struct stet_serve_handle h = { .kind = STET_SERVE_CURSOR, .is_view = true, .above = above };
	struct stet_bounds bounds;
	int rc;

	stet_wire_get_bounds(&c->in, &bounds);
	rc = stet_serve_ready_(c);
	if (!rc)
		rc = stet_serve_admit_(c->session, h.is_view);
	if (rc)
		return rc;
	rc = stet_cursor_open(above->table, txn, &bounds, &h.cursor);
	return stet_serve_opened_(c, &h, rc);
}

static int64_t take_batch(struct stet_serve_call *c, struct stet_cursor *cursor, uint32_t max)
{
	struct stet_wire_out list = { .p = c->big_out, .cap = STET_WIRE_DATA_MAX };
	struct stet_record record;
	int64_t count = 0;
	int rc = 1;

	while (count < max && list.len < BATCH_BYTES &&
	       (rc = stet_cursor_next(cursor, &record)) == 1) {
		stet_wire_put_record(&list, &record);
		count++;
	}
	if (rc < 0 && count == 0)
		return rc;
	stet_wire_put_u32(&c->out, rc != 0); /* after a failure the next request meets it again */
	c->out_len = list.len;
	return count;
}

/* A record is good until the next call on its cursor: so there is one at a time, also where the client has it
 * otherwise. */
int64_t stet_serve_do_cursor_next_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_CURSOR);
	uint32_t max = stet_wire_get_u32(&c->in);
	int64_t count = stet_serve_ready_(c);

	if (!count)
		count = stet_serve_big_out_(c);
	if (count)
		return count;
	stet_serve_ending_begin_(c->session, h, true);
	count = take_batch(c, h->cursor, max < BATCH_MAX ? max : BATCH_MAX);
	stet_serve_ending_end_(c->session, h);
	return count;
}

int64_t stet_serve_do_cursor_seek_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_CURSOR);
	struct key key = get_key(c);
	int rc = stet_serve_ready_(c);

	if (rc)
		return rc;
	stet_serve_ending_begin_(c->session, h, true);
	rc = stet_cursor_seek(h->cursor, key.bytes, key.len);
	stet_serve_ending_end_(c->session, h);
	return rc;
}
