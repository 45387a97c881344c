/* cursor.c - cursors: the records of a table in order.
 *
 * C1. A cursor reads its table in batches. A plain one reads them from a view of its own, so that it shows one
 *     state; one in a transaction drops what it has read ahead when anything was changed in that since.
 * C2. In a transaction what was read ahead counts as read (SERIALIZABLE) or is locked (LOCKING). So a batch is no
 *     larger than what the cursor has given away so far: the first is one record.
 * C3. A value that lies in blocks is a batch of its own: at most one is in memory.
 */
#include "api/api_internal.h"

#include "base/buf.h"

#include <string.h>

#define BATCH_RECORDS 64u
#define BATCH_BYTES (64u << 10)

struct item {
	uint32_t key_off, value_off, value_len; /* in buf */
	uint16_t key_len;
};

struct stet_cursor {
	/* --- set at open, then constant --- */
	struct stet_handle head;
	struct stet_table *table;
	struct stet_api_reading in;
	bool reverse, keys_only;
	struct stet_fs_bounds all;

	struct stet_mutex lock;
	/* --- under lock --- */
	struct stet_fs_bounds left;   /* behind the batch */
	struct stet_fs_bounds before; /* what was left before it */
	bool at_end;                  /* nothing is left behind it */
	uint64_t given;               /* records, since what was read ahead was read in vain */
	uint64_t changes;             /* of in.tx, when the batch was read */
	size_t next, count;           /* of item */
	struct item item[BATCH_RECORDS];
	struct stet_buf buf; /* their keys and values */
	struct stet_fs_fill fill;
};

/* --- a batch --- */

static int add(struct stet_cursor *c, const void *bytes, size_t len, uint32_t *ret_off)
{
	*ret_off = (uint32_t)c->buf.len;
	return len > 0 ? stet_buf_append(&c->buf, bytes, len) : 0;
}

struct batch {
	struct stet_api_op *op;
	struct stet_cursor *c;
};

/* C3 */
static int add_outline(struct batch *b, const struct stet_fs_record *record, struct item *item)
{
	struct stet_cursor *c = b->c;
	int rc = stet_buf_append_zero(&c->buf, record->size);

	if (rc)
		return rc;
	return stet_fs_record_plan(&b->op->ctx, c->table->ino, record, c->buf.p + item->value_off,
				   &c->fill);
}

static int add_record(void *arg, struct stet_fs_key name, const struct stet_fs_record *record)
{
	struct batch *b = arg;
	struct stet_cursor *c = b->c;
	struct item *item = &c->item[c->count];
	bool outline = !c->keys_only && !record->data;
	int rc;

	if (c->count > 0 && (outline || c->buf.len >= BATCH_BYTES))
		return STET_FS_RECORD_BEFORE;
	*item = (struct item){ .key_len = (uint16_t)name.len };
	rc = add(c, name.bytes, name.len, &item->key_off);
	item->value_off = (uint32_t)c->buf.len;
	item->value_len = c->keys_only ? 0 : record->size;
	if (!rc && outline)
		rc = add_outline(b, record, item);
	else if (!rc && !c->keys_only)
		rc = add(c, record->data, record->size, &item->value_off);
	if (rc)
		return rc;
	c->count++;
	return outline ? STET_FS_RECORD_LAST : STET_FS_RECORD_NEXT;
}

static void clear_batch(struct stet_cursor *c)
{
	stet_buf_clear(&c->buf);
	c->next = c->count = 0;
}

/* C2 */
static uint32_t batch_size(const struct stet_cursor *c)
{
	if (c->in.is_own || c->given >= BATCH_RECORDS)
		return BATCH_RECORDS;
	return c->given > 0 ? (uint32_t)c->given : 1;
}

static int fill_batch(struct stet_api_op *op, void *arg)
{
	struct stet_cursor *c = arg;
	struct batch b = { op, c };
	struct stet_fs_bounds left = c->left;
	int rc;

	clear_batch(c);
	rc = stet_fs_record_scan(&op->ctx, c->table->ino, &left, c->reverse, batch_size(c),
				 add_record, &b);
	if (rc != 0 && rc != 1) {
		stet_view_close(c->fill.pin);
		stet_free(c->fill.pieces);
		c->fill = (struct stet_fs_fill){ 0 };
		c->count = 0;
		return rc;
	}
	c->before = c->left;
	c->left = left;
	c->at_end = rc == 0;
	c->changes = c->in.tx->changes;
	return 0;
}

static int refill(struct stet_cursor *c)
{
	struct stet_volume *vol = c->table->vol;
	int rc;

	do { /* bounded: a batch without records is at the end */
		rc = stet_api_run_(vol, c->in.tx, STET_API_READ, fill_batch, NULL, c);
		rc = stet_api_fill_(vol, &c->fill, rc);
	} while (!rc && c->count == 0 && !c->at_end);
	if (rc)
		clear_batch(c);
	return rc;
}

/* C1: what was read ahead is read again if the transaction has changed anything. */
static int check_batch(struct stet_cursor *c)
{
	struct stet_volume *vol = c->table->vol;
	bool stale;
	int rc;

	if (c->in.is_own)
		return 0;
	stet_api_lock_(vol);
	rc = stet_api_tx_usable_(c->in.tx);
	stale = c->in.tx->changes != c->changes;
	stet_api_unlock_(vol);
	if (rc || !stale || (c->count == 0 && !c->at_end))
		return rc;
	c->left = c->before;
	if (c->next > 0) {
		const struct item *last = &c->item[c->next - 1];
		const struct stet_fs_key key = { c->buf.p + last->key_off, last->key_len };

		stet_fs_bounds_pass(&c->left, c->table->ino, key, c->reverse);
	}
	c->at_end = false;
	c->given = 0; /* it goes on like that, perhaps: then reading ahead is in vain */
	clear_batch(c);
	return 0;
}

static int next_locked(struct stet_cursor *c, struct stet_record *ret)
{
	const struct item *item;
	int rc = check_batch(c);

	if (!rc && c->next == c->count && !c->at_end)
		rc = refill(c);
	if (rc || c->next == c->count)
		return rc;
	item = &c->item[c->next++];
	c->given++;
	*ret = (struct stet_record){
		.key = c->buf.p + item->key_off,
		.key_len = item->key_len,
		.value = c->keys_only ? NULL : c->buf.p + item->value_off,
		.value_len = item->value_len,
	};
	return 1;
}

int stet_cursor_next(struct stet_cursor *cursor, struct stet_record *ret)
{
	int rc = stet_api_check_handle_(cursor);

	if (rc)
		return rc;
	stet_mutex_lock(&cursor->lock);
	rc = next_locked(cursor, ret);
	stet_mutex_unlock(&cursor->lock);
	return rc;
}

int stet_cursor_seek(struct stet_cursor *cursor, const void *key, size_t key_len)
{
	const struct stet_fs_key at = { key, key_len };
	struct stet_fs_bounds left;
	int rc = stet_api_check_handle_(cursor);

	if (rc)
		return rc;
	stet_mutex_lock(&cursor->lock);
	left = cursor->all;
	rc = stet_fs_bounds_seek(&left, cursor->table->ino, at, cursor->reverse);
	if (!rc) {
		cursor->left = left;
		cursor->at_end = false;
		clear_batch(cursor);
	}
	stet_mutex_unlock(&cursor->lock);
	return rc;
}

/* --- life --- */

/* That the table is there. */
static int look(struct stet_api_op *op, void *arg)
{
	const struct stet_cursor *c = arg;
	struct stet_fs_bounds none = { .from = c->all.from, .to = c->all.from };

	return stet_fs_record_scan(&op->ctx, c->table->ino, &none, false, 0, add_record, NULL);
}

static void free_cursor(struct stet_cursor *c)
{
	stet_mutex_destroy(&c->lock);
	stet_buf_release(&c->buf);
	stet_free(c);
}

int stet_cursor_open(struct stet_table *table, struct stet_tx *txn,
		     const struct stet_bounds *bounds, struct stet_cursor **ret_cursor)
{
	struct stet_cursor *c;
	int rc = stet_api_check_handle_(table);

	if (rc)
		return rc;
	c = stet_calloc(1, sizeof(*c));
	if (!c)
		return STET_FAIL(-ENOMEM, "no memory for a cursor");
	c->table = table;
	c->reverse = bounds && bounds->reverse;
	c->keys_only = bounds && bounds->keys_only;
	stet_mutex_init(&c->lock, STET_API_LOCK_RANK - 1, "cursor");
	stet_buf_init(&c->buf);
	rc = stet_api_bounds_(table, bounds, &c->all);
	c->left = c->all;
	if (!rc)
		rc = stet_api_reading_open_(table->vol, txn, look, c, &c->in);
	if (rc)
		free_cursor(c);
	else
		*ret_cursor = c;
	return rc;
}

void stet_cursor_close(struct stet_cursor *cursor)
{
	if (!cursor)
		return;
	stet_api_reading_close_(cursor->table->vol, &cursor->in);
	free_cursor(cursor);
}
