/* table.c - tables of a volume that another process holds: records, cursors.
 *
 * B1. A cursor fetches records in batches. In a transaction what was fetched counts as read, or is locked, so a
 *     batch is no larger than what the cursor has given away so far, as with the library's own; and it is
 *     fetched again if this process may have changed anything in a transaction since.
 */
#include "remote/remote_internal.h"

#include <string.h>

#define BATCH_MAX 64u

/* --- tables --- */

int stet_remote_table_open(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			   const char *path, int flags, mode_t mode, struct stet_table **ret_table)
{
	struct stet_remote_table *table = stet_calloc(1, sizeof(*table));
	struct stet_remote_call c;
	int rc;

	if (!table)
		return STET_FAIL(-ENOMEM, "no memory for a table");
	stet_remote_begin_at_(&c, vol, STET_WIRE_TABLE_OPEN, txn, dir, path);
	stet_wire_put_u32(&c.out, (uint32_t)flags);
	stet_wire_put_u32(&c.out, mode);
	rc = stet_remote_finish_open_(&c, &table->h, &table->ino);
	if (rc)
		stet_free(table);
	else
		*ret_table = (struct stet_table *)(void *)table;
	return rc;
}

void stet_remote_table_close(struct stet_table *handle)
{
	struct stet_remote_table *table = stet_remote_table_(handle);

	stet_remote_close_(&table->h, STET_WIRE_TABLE_CLOSE);
	stet_free(table);
}

uint64_t stet_remote_table_ino(struct stet_table *table)
{
	return stet_remote_table_(table)->ino;
}

/* --- records --- */

static void begin(struct stet_remote_call *c, struct stet_table *table, uint32_t kind,
		  struct stet_txn *txn)
{
	stet_remote_begin_on_(c, &stet_remote_table_(table)->h, kind);
	stet_remote_put_txn_(c, txn);
}

static void put_key(struct stet_remote_call *c, const void *key, size_t len)
{
	if (len > STET_KEY_MAX && !c->rc)
		c->rc = STET_FAIL(-EINVAL, "a key of %zu bytes", len);
	stet_wire_put_blob(&c->out, key, len);
}

ssize_t stet_remote_get(struct stet_table *table, struct stet_txn *txn, const void *key,
			size_t key_len, void *buf, size_t cap, unsigned flags)
{
	struct stet_remote_call c;

	begin(&c, table, STET_WIRE_GET, txn);
	put_key(&c, key, key_len);
	stet_wire_put_u32(&c.out, flags);
	stet_wire_put_u64(&c.out, cap);
	return stet_remote_finish_value_(&c, buf, cap, 0);
}

int stet_remote_put(struct stet_table *table, struct stet_txn *txn, const void *key, size_t key_len,
		    const void *value, size_t value_len, unsigned flags)
{
	struct stet_remote_call c;

	begin(&c, table, STET_WIRE_PUT, txn);
	put_key(&c, key, key_len);
	stet_wire_put_u32(&c.out, flags);
	if (value_len > STET_WIRE_DATA_MAX && !c.rc)
		c.rc = STET_FAIL(-E2BIG, "a value of %zu bytes", value_len);
	c.data = value;
	c.data_len = value_len;
	return (int)stet_remote_finish_(&c);
}

int stet_remote_del(struct stet_table *table, struct stet_txn *txn, const void *key, size_t key_len)
{
	struct stet_remote_call c;

	begin(&c, table, STET_WIRE_DEL, txn);
	put_key(&c, key, key_len);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_count(struct stet_table *table, struct stet_txn *txn,
		      const struct stet_bounds *bounds, uint64_t *ret_count)
{
	struct stet_remote_call c;

	begin(&c, table, STET_WIRE_COUNT, txn);
	stet_wire_put_bounds(&c.out, bounds);
	return stet_remote_finish_number_(&c, ret_count);
}

/* --- cursors --- */

static void free_cursor(struct stet_remote_cursor *cursor)
{
	stet_mutex_destroy(&cursor->lock);
	stet_buf_release(&cursor->buf);
	stet_free(cursor);
}

int stet_remote_cursor_open(struct stet_table *table, struct stet_txn *txn,
			    const struct stet_bounds *bounds, struct stet_cursor **ret_cursor)
{
	struct stet_remote_cursor *cursor = stet_calloc(1, sizeof(*cursor));
	struct stet_remote_call c;
	int rc;

	if (!cursor)
		return STET_FAIL(-ENOMEM, "no memory for a cursor");
	cursor->in_txn = txn;
	cursor->more = true;
	stet_mutex_init(&cursor->lock, STET_REMOTE_LISTING_RANK, "cursor");
	begin(&c, table, STET_WIRE_CURSOR_OPEN, txn);
	stet_wire_put_bounds(&c.out, bounds);
	rc = stet_remote_finish_open_(&c, &cursor->h, NULL);
	if (rc)
		free_cursor(cursor);
	else
		*ret_cursor = (struct stet_cursor *)(void *)cursor;
	return rc;
}

static int64_t seek_locked(struct stet_remote_cursor *cursor, const void *key, size_t len)
{
	struct stet_remote_call c;

	stet_assert_held(&cursor->lock);
	stet_remote_begin_on_(&c, &cursor->h, STET_WIRE_CURSOR_SEEK);
	put_key(&c, key, len);
	return stet_remote_finish_(&c);
}

static int64_t fetch_locked(struct stet_remote_cursor *cursor)
{
	uint32_t max = BATCH_MAX;
	struct stet_remote_call c;
	int64_t rc;

	stet_assert_held(&cursor->lock);
	if (cursor->in_txn && cursor->given < BATCH_MAX) /* B1 */
		max = cursor->given > 0 ? (uint32_t)cursor->given : 1;
	cursor->count = 0;
	cursor->changes = cursor->h.vol->changes;
	stet_buf_clear(&cursor->buf);
	stet_remote_begin_on_(&c, &cursor->h, STET_WIRE_CURSOR_NEXT);
	stet_wire_put_u32(&c.out, max);
	c.list = &cursor->buf;
	rc = stet_remote_do_(&c);
	if (rc >= 0)
		cursor->more = stet_wire_get_u32(&c.in) != 0;
	rc = stet_remote_end_(&c, rc);
	if (rc > 0) {
		cursor->count = (uint64_t)rc;
		cursor->in = (struct stet_wire_in){ .p = cursor->buf.p, .left = cursor->buf.len };
	}
	return rc;
}

/* The next record of the batch, or of the next batch. 1, 0, or why not. */
static int64_t next_locked(struct stet_remote_cursor *cursor, struct stet_record *ret)
{
	int64_t rc = 1;

	stet_assert_held(&cursor->lock);
	if (cursor->count == 0)
		rc = cursor->more || cursor->changes != cursor->h.vol->changes
			     ? fetch_locked(cursor)
			     : 0;
	if (rc <= 0)
		return rc;
	stet_wire_get_record(&cursor->in, ret);
	cursor->count--;
	if (cursor->in.bad || ret->key_len > sizeof(cursor->last)) {
		cursor->count = 0;
		return STET_FAIL(-EPROTO, "not the answer that was expected");
	}
	return 1;
}

/* B1. Goes back to behind the last record that was given away. */
static int64_t go_back_locked(struct stet_remote_cursor *cursor, bool *ret_skip)
{
	stet_assert_held(&cursor->lock);
	*ret_skip = false;
	if (!cursor->in_txn || cursor->count == 0 || cursor->changes == cursor->h.vol->changes)
		return 0;
	cursor->count = 0;
	cursor->given = 0; /* as the library does: what was read ahead was read in vain */
	cursor->more = true;
	*ret_skip = true;
	return seek_locked(cursor, cursor->last, cursor->last_len);
}

int stet_remote_cursor_next(struct stet_cursor *handle, struct stet_record *ret)
{
	struct stet_remote_cursor *cursor = stet_remote_cursor_(handle);
	struct stet_record record;
	bool skip;
	int64_t rc;

	stet_mutex_lock(&cursor->lock);
	rc = go_back_locked(cursor, &skip);
	if (!rc)
		rc = next_locked(cursor, &record);
	if (rc == 1 && skip && record.key_len == cursor->last_len &&
	    memcmp(record.key, cursor->last, record.key_len) == 0)
		rc = next_locked(cursor, &record);
	if (rc == 1) {
		memcpy(cursor->last, record.key, record.key_len);
		cursor->last_len = record.key_len;
		cursor->given++;
		*ret = record;
	}
	stet_mutex_unlock(&cursor->lock);
	return (int)rc;
}

int stet_remote_cursor_seek(struct stet_cursor *handle, const void *key, size_t key_len)
{
	struct stet_remote_cursor *cursor = stet_remote_cursor_(handle);
	int64_t rc;

	stet_mutex_lock(&cursor->lock);
	rc = seek_locked(cursor, key, key_len);
	if (!rc) {
		cursor->count = 0;
		cursor->more = true;
	}
	stet_mutex_unlock(&cursor->lock);
	return (int)rc;
}

void stet_remote_cursor_close(struct stet_cursor *handle)
{
	struct stet_remote_cursor *cursor = stet_remote_cursor_(handle);

	stet_remote_close_(&cursor->h, STET_WIRE_CURSOR_CLOSE);
	free_cursor(cursor);
}
