/* table.c - tables: opening them, one record at a time, counting.
 *
 * T1. A table handle holds its inode, so that it lives on when its last name goes. It belongs to no transaction:
 *     each call says in which one it works. What its opener may do, is asked when it is opened, as with files.
 * T2. A value that lies in blocks is planned under the lock and filled without it, as file data is.
 */
#include "api/api_internal.h"

#include "cache/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#define KNOWN_OPEN (O_ACCMODE | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_LARGEFILE)
#define COUNT_STEP 1024u /* records counted under one hold of the lock */

_Static_assert(STET_KEY_MAX == STET_RECORD_KEY_MAX, "the key of a record");
_Static_assert(STET_RECORD_MAX == STET_RECORD_SIZE_MAX, "the value of a record");
_Static_assert(STET_S_IFTABLE == STET_MODE_TABLE && STET_DT_TABLE == STET_MODE_TABLE >> 12,
	       "the type of a table");

/* --- opening --- */

struct opening {
	struct stet_api_opening by;
	struct stet_table *table;
};

static int use_existing(struct stet_api_op *op, const struct opening *o,
			const struct stet_api_place *place)
{
	uint32_t type;
	int rc = stet_fs_get_type(&op->ctx, place->ino, &type);

	if (rc)
		return rc;
	if (S_ISLNK(type))
		return -ELOOP;
	if (!STET_MODE_IS_TABLE(type) || place->must_be_dir)
		return STET_FAIL(-EINVAL, "%s: not a table", o->by.path);
	return stet_api_permit_(op, place->ino,
				STET_API_MAY_READ | (o->table->writable ? STET_API_MAY_WRITE : 0));
}

static int open_at(struct stet_api_op *op, void *arg)
{
	struct opening *o = arg;
	struct stet_api_place place;
	bool made;
	int rc = stet_api_find_or_make_(op, &o->by, &place, &made);

	if (!rc && !made)
		rc = use_existing(op, o, &place);
	if (rc)
		return rc;
	o->table->ino = place.ino;
	return stet_api_hold_(op, place.ino);
}

static int opened(struct stet_api_op *op, void *arg)
{
	(void)arg;
	op->vol->handles++;
	return 0;
}

int stet_table_open(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		    int flags, mode_t mode, struct stet_table **ret_table)
{
	int access = flags & O_ACCMODE;
	struct opening o = { .by = { .dir = dir,
				     .path = path,
				     .flags = flags,
				     .mode = STET_MODE_TABLE | (mode & 07777),
				     .if_slash = -EINVAL } };
	int rc;

	if ((flags & ~KNOWN_OPEN) || (access != O_RDONLY && access != O_RDWR))
		return STET_FAIL(-EINVAL, "unknown flags 0x%x", flags);
	o.table = stet_calloc(1, sizeof(*o.table));
	if (!o.table)
		return STET_FAIL(-ENOMEM, "no memory for a table");
	o.table->vol = vol;
	o.table->writable = access == O_RDWR;
	rc = stet_api_run_(vol, txn, flags & O_CREAT ? 0 : STET_API_READ, open_at, opened, &o);
	if (rc)
		stet_free(o.table);
	else
		*ret_table = o.table;
	return rc;
}

void stet_table_close(struct stet_table *table)
{
	if (!table)
		return;
	stet_api_unhold_(table->vol, NULL, table->ino);
	stet_free(table);
}

uint64_t stet_table_ino(struct stet_table *table)
{
	return table->ino;
}

/* --- records --- */

struct access {
	struct stet_table *table;
	struct stet_fs_key key;
	unsigned flags;
	/* of get */
	uint8_t *buf;
	size_t cap, len;
	struct stet_fs_fill fill;
	/* of put */
	const void *value;
};

int stet_api_fill_(struct stet_volume *vol, struct stet_fs_fill *fill, int rc)
{
	for (size_t i = 0; i < fill->count && !rc; i++)
		rc = stet_cache_fill(vol->device, &fill->pieces[i]);
	stet_free(fill->pieces);
	if (fill->pin) {
		stet_api_lock_(vol);
		stet_view_close(fill->pin);
		stet_api_unlock_(vol);
	}
	*fill = (struct stet_fs_fill){ 0 };
	return rc;
}

static int get(struct stet_api_op *op, void *arg)
{
	struct access *a = arg;
	struct stet_fs_record record;
	int rc = stet_fs_record_get(&op->ctx, a->table->ino, a->key, a->flags & STET_GET_UPDATE,
				    &record);

	if (rc)
		return rc;
	a->len = record.size;
	if (a->cap == 0)
		return 0;
	if (record.size > a->cap)
		return -ERANGE;
	return stet_fs_record_plan(&op->ctx, a->table->ino, &record, a->buf, &a->fill);
}

ssize_t stet_get(struct stet_table *table, struct stet_tx *txn, const void *key, size_t key_len,
		 void *buf, size_t cap, unsigned flags)
{
	struct access a = {
		.table = table, .key = { key, key_len }, .flags = flags, .buf = buf, .cap = cap
	};
	int rc = stet_api_check_handle_(table);

	if (!rc)
		rc = stet_api_check_flags_(flags, STET_GET_UPDATE);
	if (rc)
		return rc;
	rc = stet_api_run_(table->vol, txn, STET_API_READ, get, NULL, &a);
	rc = stet_api_fill_(table->vol, &a.fill, rc); /* T2 */
	return rc ? rc : (ssize_t)a.len;
}

static int check_writable(const struct stet_table *table)
{
	int rc = stet_api_check_handle_(table);

	if (rc)
		return rc;
	return table->writable ? 0 : STET_FAIL(-EBADF, "the table is open for reading only");
}

static int put(struct stet_api_op *op, void *arg)
{
	const struct access *a = arg;
	unsigned flags = (a->flags & STET_PUT_CREATE ? STET_FS_RECORD_CREATE : 0) |
			 (a->flags & STET_PUT_REPLACE ? STET_FS_RECORD_REPLACE : 0);

	return stet_fs_record_put(&op->ctx, a->table->ino, a->key, a->value, a->len, flags);
}

int stet_put(struct stet_table *table, struct stet_tx *txn, const void *key, size_t key_len,
	     const void *value, size_t value_len, unsigned flags)
{
	struct access a = { .table = table,
			    .key = { key, key_len },
			    .flags = flags,
			    .value = value,
			    .len = value_len };
	int rc = check_writable(table);

	if (!rc)
		rc = stet_api_check_flags_(flags, STET_PUT_CREATE | STET_PUT_REPLACE);
	return rc ? rc : stet_api_run_(table->vol, txn, 0, put, NULL, &a);
}

static int del(struct stet_api_op *op, void *arg)
{
	const struct access *a = arg;

	return stet_fs_record_del(&op->ctx, a->table->ino, a->key);
}

int stet_del(struct stet_table *table, struct stet_tx *txn, const void *key, size_t key_len)
{
	struct access a = { .table = table, .key = { key, key_len } };
	int rc = check_writable(table);

	return rc ? rc : stet_api_run_(table->vol, txn, 0, del, NULL, &a);
}

/* --- counting --- */

int stet_api_bounds_(const struct stet_table *table, const struct stet_bounds *bounds,
		     struct stet_fs_bounds *ret)
{
	static const struct stet_bounds all;
	const struct stet_bounds *b = bounds ? bounds : &all;
	const struct stet_fs_limits limits = {
		.prefix = { b->prefix, b->prefix ? b->prefix_len : 0 },
		.from = { b->from, b->from_len },
		.to = { b->to, b->to_len },
		.after_from = b->after_from,
		.with_to = b->with_to,
		.update = b->update,
	};

	return stet_fs_bounds(table->ino, &limits, ret);
}

struct counting {
	struct stet_table *table;
	struct stet_fs_bounds left;
	uint64_t count;
	bool more;
};

static int count_all(struct stet_api_op *op, void *arg)
{
	struct counting *c = arg;

	return stet_fs_record_count(&op->ctx, c->table->ino, &c->count);
}

static int count_one(void *arg, struct stet_fs_key name, const struct stet_fs_record *record)
{
	uint64_t *n = arg;

	(void)name;
	(void)record;
	++*n;
	return STET_FS_RECORD_NEXT;
}

static int count_some(struct stet_api_op *op, void *arg)
{
	struct counting *c = arg;
	uint64_t n = 0;
	int rc = stet_fs_record_scan(&op->ctx, c->table->ino, &c->left, false, COUNT_STEP,
				     count_one, &n);

	if (rc != 0 && rc != 1)
		return rc;
	c->count += n;
	c->more = rc == 1;
	return 0;
}

static int count_within(struct counting *c, struct stet_tx *txn)
{
	struct stet_volume *vol = c->table->vol;
	struct stet_tx *view = txn;
	int rc = txn ? 0 : stet_api_view_begin_(vol, &view);

	if (rc)
		return rc;
	do {
		rc = stet_api_run_(vol, view, STET_API_READ, count_some, NULL, c);
	} while (!rc && c->more);
	if (!txn)
		stet_api_view_end_(view);
	return rc;
}

int stet_count(struct stet_table *table, struct stet_tx *txn, const struct stet_bounds *bounds,
	       uint64_t *ret_count)
{
	struct counting c = { .table = table };
	int rc = stet_api_check_handle_(table);

	if (!rc)
		rc = stet_api_bounds_(table, bounds, &c.left);
	if (rc)
		return rc;
	if (!bounds || (!bounds->prefix_len && !bounds->from && !bounds->to))
		rc = stet_api_run_(table->vol, txn, STET_API_READ, count_all, NULL, &c);
	else
		rc = count_within(&c, txn);
	if (!rc)
		*ret_count = c.count;
	return rc;
}
