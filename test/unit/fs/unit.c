/* unit.c - a small volume in memory, and a check of everything in it. */
#include "unit.h"

#include <inttypes.h>

#include "base/mem.h"
#include "format/value.h"

#define RETRIES_MAX 1000

char unit_conflict[256];
int64_t unit_fail_after;

/* --- life --- */

static void open_volume(struct unit *u)
{
	struct stet_engine_hooks hooks;
	int rc;

	assert_int_equal(stet_fs_create(&u->fs), 0);
	stet_fs_hooks(u->fs, &hooks);
	rc = stet_engine_open(u->device, &u->config, &hooks, &u->engine);
	if (rc)
		fail_msg("open: %d %s", rc, stet_error_text());
	stet_fs_attach(u->fs, u->engine);
}

struct unit *unit_create(const struct unit_options *options)
{
	const struct unit_options o = options ? *options : (struct unit_options){ 0 };
	uint64_t size = o.size_bytes ? o.size_bytes : UINT64_C(64) << 20;
	struct stet_fs_root root = { .mode = 0755, .uid = 1, .gid = 2, .now_ns = UNIT_START_NS };
	struct unit *u = calloc(1, sizeof(*u));
	struct stet_engine_hooks hooks;
	int rc;

	assert_non_null(u);
	sim_clock_init(&u->clock, UNIT_START_NS);
	u->config = (struct stet_engine_config){ .spill_bytes = o.spill_bytes,
						 .cache_bytes = o.cache_bytes ? o.cache_bytes
									      : 16u << 20,
						 .seed = 1,
						 .clock = &u->clock.clock };
	u->sb = (struct stet_superblock){
		.volume_id = 77,
		.device_blocks = size / STET_BLOCK_SIZE,
		.seg_start_block = STET_HEAD_BLOCKS,
		.seg_blocks = o.seg_blocks ? o.seg_blocks : 64,
		.meta_copies = 1,
		.data_copies = o.data_copies ? o.data_copies : 1,
	};
	u->sb.slot_count =
		(uint32_t)((u->sb.device_blocks - 1 - STET_HEAD_BLOCKS) / u->sb.seg_blocks);
	assert_int_equal(stet_device_open_memory(size, &u->device), 0);
	assert_int_equal(stet_fs_create(&u->fs), 0);
	stet_fs_hooks(u->fs, &hooks);
	rc = stet_engine_format(u->device, &u->sb, &u->config, stet_fs_fill_root, &root, &hooks);
	if (rc)
		fail_msg("format: %d %s", rc, stet_error_text());
	stet_fs_destroy(u->fs);
	open_volume(u);
	return u;
}

static void close_volume(struct unit *u)
{
	stet_engine_close(u->engine);
	stet_fs_destroy(u->fs);
}

void unit_destroy(struct unit *u)
{
	unit_check(u);
	unit_idle(u);
	unit_check(u);
	close_volume(u);
	stet_device_close(u->device);
	free(u);
}

static void perform(struct unit *u, struct stet_job *job)
{
	if (!job)
		return;
	stet_job_perform(job);
	stet_engine_finish(u->engine, job);
}

/* One step of background work; false when there is none. */
static bool work(struct unit *u)
{
	struct stet_job *job = NULL;
	int rc = stet_engine_step(u->engine, &job);

	perform(u, job);
	if (rc < 0)
		fail_msg("step: %d %s", rc, stet_error_text());
	if (rc == 1 || job)
		return true;
	if (!stet_fs_wants_reclaim(u->fs))
		return false;
	rc = stet_fs_reclaim_step(u->fs, NULL);
	if (rc < 0 && rc != -EUCLEAN)
		fail_msg("reclaim: %d %s", rc, stet_error_text());
	return rc == 1;
}

void unit_flush(struct unit *u, bool checkpoint)
{
	struct stet_job *job = NULL;
	int rc = stet_engine_flush_start(u->engine, &job);

	if (rc)
		fail_msg("flush: %d %s", rc, stet_error_text());
	perform(u, job);
	if (checkpoint && (rc = stet_engine_settle(u->engine)) != 0)
		fail_msg("settle: %d %s", rc, stet_error_text());
}

void unit_idle(struct unit *u)
{
	for (int i = 0; i < 100000 && work(u); i++)
		continue;
	unit_flush(u, true);
}

void unit_reopen(struct unit *u)
{
	unit_flush(u, false);
	close_volume(u);
	open_volume(u);
}

/* --- transactions --- */

struct stet_txn *unit_begin(struct unit *u, enum stet_level level)
{
	struct stet_txn *txn;
	int rc = stet_txn_begin(u->engine, level, false, &txn);

	if (rc)
		fail_msg("begin: %d %s", rc, stet_error_text());
	return txn;
}

int unit_order(struct unit *u, struct stet_txn *txn)
{
	uint64_t wait;
	int rc;

	(void)u;
	if (unit_fail_after > 0)
		stet_mem_fail_after(unit_fail_after);
	rc = stet_txn_order(txn, NULL, &wait);
	stet_mem_fail_after(-1);
	(void)snprintf(unit_conflict, sizeof(unit_conflict), "%s", stet_txn_conflict_text(txn));
	stet_txn_end(txn);
	return rc;
}

void unit_end(struct stet_txn *txn)
{
	stet_txn_end(txn);
}

void unit_spill(struct unit *u, struct stet_txn *txn)
{
	struct stet_job *job;
	int rc;

	while ((rc = stet_txn_spill(txn, &job)) == 1)
		perform(u, job);
	if (rc)
		fail_msg("spill: %d %s", rc, stet_error_text());
}

struct call {
	struct unit *u;
	struct stet_fs_ctx ctx;
	struct stet_ticket ticket;
	bool plain;
	int retries;
};

static void call_begin(struct call *c, struct unit *u, struct stet_txn *txn)
{
	*c = (struct call){ .u = u, .plain = txn == NULL };
	stet_ticket_init(&c->ticket, NULL, NULL);
	c->ctx = (struct stet_fs_ctx){
		.fs = u->fs,
		.txn = txn ? txn : unit_begin(u, STET_LEVEL_PLAIN),
		.ticket = &c->ticket,
		.wait = false,
	};
	if (unit_fail_after > 0)
		stet_mem_fail_after(unit_fail_after);
}

/* Whether the operation is to be called again; else it is done (plain: ordered), with *rc its
 * result. */
static bool call_again(struct call *c, int *rc)
{
	uint64_t wait;

	if (*rc == STET_WAIT && c->retries++ < RETRIES_MAX) {
		c->u->waits++;
		for (int i = 0; i < RETRIES_MAX && !c->ticket.fired; i++) {
			if (!work(c->u))
				break;
		}
		stet_ticket_cancel(&c->ticket);
		if (!c->ticket.fired)
			unit_flush(c->u, true);
		stet_ticket_init(&c->ticket, NULL, NULL);
		if (c->plain) {
			stet_txn_end(c->ctx.txn);
			c->ctx.txn = unit_begin(c->u, STET_LEVEL_PLAIN);
		}
		return true;
	}
	stet_ticket_cancel(&c->ticket);
	if (c->plain) {
		if (*rc >= 0) {
			int order = stet_txn_order(c->ctx.txn, NULL, &wait);

			if (order)
				*rc = order;
		}
		stet_mem_fail_after(-1);
		stet_txn_end(c->ctx.txn);
	}
	stet_mem_fail_after(-1);
	return false;
}

#define CALL(u, txn, expression)               \
	do {                                   \
		struct call c;                 \
		int rc;                        \
                                               \
		call_begin(&c, u, txn);        \
		do {                           \
			rc = (expression);     \
		} while (call_again(&c, &rc)); \
		return rc;                     \
	} while (0)

struct stet_fs_name unit_name(const char *name)
{
	return (struct stet_fs_name){ name, strlen(name) };
}

int unit_make(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name, uint32_t mode,
	      uint64_t *ret_ino)
{
	const struct stet_fs_new what = { .mode = mode, .uid = 10, .gid = 20 };
	uint64_t ino;

	CALL(u, txn, stet_fs_make(&c.ctx, dir, unit_name(name), &what, ret_ino ? ret_ino : &ino));
}

int unit_symlink(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name,
		 const char *target, size_t len, uint64_t *ret_ino)
{
	const struct stet_fs_new what = { .mode = S_IFLNK | 0777,
					  .target = target,
					  .target_len = len };

	CALL(u, txn, stet_fs_make(&c.ctx, dir, unit_name(name), &what, ret_ino));
}

int unit_lookup(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name,
		uint64_t *ret_ino)
{
	struct stet_dirent dirent = { 0 };
	struct call c;
	int rc;

	call_begin(&c, u, txn);
	do {
		rc = stet_fs_lookup(&c.ctx, dir, unit_name(name), &dirent);
	} while (call_again(&c, &rc));
	if (!rc && ret_ino)
		*ret_ino = dirent.ino;
	return rc;
}

int unit_unlink(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name)
{
	uint64_t ino;

	CALL(u, txn, stet_fs_unlink(&c.ctx, dir, unit_name(name), &ino));
}

int unit_rmdir(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name)
{
	uint64_t ino;

	CALL(u, txn, stet_fs_rmdir(&c.ctx, dir, unit_name(name), &ino));
}

int unit_link(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t dir, const char *name)
{
	CALL(u, txn, stet_fs_link(&c.ctx, ino, dir, unit_name(name)));
}

int unit_rename(struct unit *u, struct stet_txn *txn, uint64_t from_dir, const char *from,
		uint64_t to_dir, const char *to, unsigned flags)
{
	uint64_t replaced;

	CALL(u, txn,
	     stet_fs_rename(&c.ctx, from_dir, unit_name(from), to_dir, unit_name(to), flags,
			    &replaced));
}

int unit_write(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off, const void *data,
	       size_t len)
{
	CALL(u, txn, stet_fs_write(&c.ctx, ino, off, data, len));
}

int unit_append(struct unit *u, struct stet_txn *txn, uint64_t ino, const void *data, size_t len)
{
	CALL(u, txn, stet_fs_append(&c.ctx, ino, data, len));
}

int unit_truncate(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t size)
{
	CALL(u, txn, stet_fs_truncate(&c.ctx, ino, size));
}

int unit_punch(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off, uint64_t len)
{
	CALL(u, txn, stet_fs_punch(&c.ctx, ino, off, len));
}

/* One read, perhaps cut short. */
static int64_t read_some(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off,
			 uint8_t *buf, size_t len)
{
	static struct stet_read_piece pieces[3]; /* few: to see reads that are cut short */
	struct stet_view *pin = NULL;
	size_t count = 0, got = 0;
	struct call c;
	int rc;

	memset(buf, 0xa5, len);
	call_begin(&c, u, txn);
	do {
		rc = stet_fs_read_plan(&c.ctx, ino, off, len, buf, pieces, 3, &count, &got, &pin);
	} while (call_again(&c, &rc));
	for (size_t i = 0; i < count && !rc; i++)
		rc = stet_cache_fill(u->device, &pieces[i]);
	stet_view_close(pin);
	return rc ? rc : (int64_t)got;
}

int64_t unit_read(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off, void *buf,
		  size_t len)
{
	size_t done = 0;

	while (done < len) {
		int64_t n = read_some(u, txn, ino, off + done, (uint8_t *)buf + done, len - done);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (int64_t)done;
}

int unit_seek(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off, bool hole,
	      uint64_t *ret)
{
	CALL(u, txn, stet_fs_seek(&c.ctx, ino, off, hole, ret));
}

int unit_getattr(struct unit *u, struct stet_txn *txn, uint64_t ino, struct stet_fs_attr *ret)
{
	CALL(u, txn, stet_fs_getattr(&c.ctx, ino, ret));
}

int unit_setattr(struct unit *u, struct stet_txn *txn, uint64_t ino, unsigned set,
		 const struct stet_fs_attr *attr)
{
	CALL(u, txn, stet_fs_setattr(&c.ctx, ino, set, attr));
}

int unit_xattr_set(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name,
		   const void *value, size_t len, unsigned flags)
{
	CALL(u, txn, stet_fs_xattr_set(&c.ctx, ino, unit_name(name), value, len, flags));
}

int unit_xattr_remove(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name)
{
	CALL(u, txn, stet_fs_xattr_remove(&c.ctx, ino, unit_name(name)));
}

int64_t unit_xattr_get(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name,
		       void *buf, size_t cap)
{
	struct call c;
	size_t len = 0;
	int rc;

	call_begin(&c, u, txn);
	do {
		rc = stet_fs_xattr_get(&c.ctx, ino, unit_name(name), buf, cap, &len);
	} while (call_again(&c, &rc));
	return rc ? rc : (int64_t)len;
}

int64_t unit_xattr_list(struct unit *u, struct stet_txn *txn, uint64_t ino, char *buf, size_t cap)
{
	struct call c;
	size_t len = 0;
	int rc;

	call_begin(&c, u, txn);
	do {
		rc = stet_fs_xattr_list(&c.ctx, ino, buf, cap, &len);
	} while (call_again(&c, &rc));
	return rc ? rc : (int64_t)len;
}

static int list(struct stet_fs_ctx *ctx, uint64_t dir, char *buf, size_t cap)
{
	struct stet_fs_entry entry;
	struct stet_fs_dir *it;
	size_t len = 0;
	int rc = stet_fs_dir_open(ctx, dir, (struct stet_fs_name){ "", 0 }, &it);

	if (rc)
		return rc;
	buf[0] = '\0';
	while ((rc = stet_fs_dir_next(it, &entry)) == 1) {
		assert_true(len + entry.name_len + 2 < cap);
		len += (size_t)snprintf(buf + len, cap - len, "%s/", entry.name);
	}
	stet_fs_dir_close(it);
	return rc;
}

int unit_list(struct unit *u, struct stet_txn *txn, uint64_t dir, char *buf, size_t cap)
{
	CALL(u, txn, list(&c.ctx, dir, buf, cap));
}

/* --- tables --- */

static struct stet_fs_key key_of(const char *key)
{
	return (struct stet_fs_key){ key, strlen(key) };
}

int unit_put(struct unit *u, struct stet_txn *txn, uint64_t table, const char *key,
	     const void *value, size_t len, unsigned flags)
{
	CALL(u, txn, stet_fs_record_put(&c.ctx, table, key_of(key), value, len, flags));
}

int unit_del(struct unit *u, struct stet_txn *txn, uint64_t table, const char *key)
{
	CALL(u, txn, stet_fs_record_del(&c.ctx, table, key_of(key)));
}

static int get(struct stet_fs_ctx *ctx, uint64_t table, const char *key,
	       struct stet_fs_record *record, uint8_t *buf, struct stet_fs_fill *fill)
{
	int rc = stet_fs_record_get(ctx, table, key_of(key), false, record);

	return rc ? rc : stet_fs_record_plan(ctx, table, record, buf, fill);
}

int64_t unit_get(struct unit *u, struct stet_txn *txn, uint64_t table, const char *key, void *buf,
		 size_t cap)
{
	uint8_t *value = malloc(STET_RECORD_SIZE_MAX);
	struct stet_fs_fill fill = { 0 };
	struct stet_fs_record record;
	struct call c;
	int rc;

	assert_non_null(value);
	memset(value, 0xa5, STET_RECORD_SIZE_MAX);
	call_begin(&c, u, txn);
	do {
		rc = get(&c.ctx, table, key, &record, value, &fill);
	} while (call_again(&c, &rc));
	for (size_t i = 0; i < fill.count && !rc; i++)
		rc = stet_cache_fill(u->device, &fill.pieces[i]);
	stet_view_close(fill.pin);
	stet_free(fill.pieces);
	if (!rc)
		memcpy(buf, value, record.size < cap ? record.size : cap);
	free(value);
	return rc ? rc : (int64_t)record.size;
}

int64_t unit_count(struct unit *u, struct stet_txn *txn, uint64_t table)
{
	uint64_t count = 0;
	struct call c;
	int rc;

	call_begin(&c, u, txn);
	do {
		rc = stet_fs_record_count(&c.ctx, table, &count);
	} while (call_again(&c, &rc));
	return rc ? rc : (int64_t)count;
}

struct keys {
	char *buf;
	size_t cap, len;
};

static int add_key(void *arg, struct stet_fs_key name, const struct stet_fs_record *record)
{
	struct keys *k = arg;

	(void)record;
	assert_true(k->len + name.len + 2 < k->cap);
	memcpy(k->buf + k->len, name.bytes, name.len);
	k->len += name.len;
	k->buf[k->len++] = '/';
	k->buf[k->len] = '\0';
	return STET_FS_RECORD_NEXT;
}

int unit_keys(struct unit *u, struct stet_txn *txn, uint64_t table,
	      const struct stet_fs_limits *limits, bool reverse, uint32_t step, char *buf,
	      size_t cap)
{
	const struct stet_fs_limits all = { .from = { NULL, 0 } };
	struct keys k = { buf, cap, 0 };
	struct stet_fs_bounds left;
	struct call c;
	int rc = stet_fs_bounds(table, limits ? limits : &all, &left);

	buf[0] = '\0';
	while (!rc) {
		call_begin(&c, u, txn);
		do {
			rc = stet_fs_record_scan(&c.ctx, table, &left, reverse, step, add_key, &k);
		} while (call_again(&c, &rc));
		if (rc == 0)
			return 0;
		rc = rc == 1 ? 0 : rc;
	}
	return rc;
}

/* --- the check --- */

#define CHECK_MAX 4096

struct seen {
	uint64_t ino;
	struct stet_inode i;
	bool exists, orphan;
	uint8_t orphan_flags;
	uint64_t orphan_from;
	uint64_t names; /* that lead to it */
	uint64_t entries, subdirs, blocks, extent_end;
	uint64_t records, record_blocks; /* of a table */
};

struct check {
	struct unit *u;
	struct seen seen[CHECK_MAX];
	size_t n;
};

static struct seen *see(struct check *c, uint64_t ino)
{
	for (size_t k = c->n; k > 0; k--) {
		if (c->seen[k - 1].ino == ino)
			return &c->seen[k - 1];
	}
	assert_true(c->n < CHECK_MAX);
	c->seen[c->n] = (struct seen){ .ino = ino };
	return &c->seen[c->n++];
}

static void check_extent(struct seen *s, const struct stet_key *key, const struct stet_val *val,
			 uint32_t seg_blocks)
{
	uint64_t first = stet_key_suffix_u64(key->b);
	struct stet_extent e;
	uint64_t count = val->buf_count;

	if (!val->buf) {
		assert_int_equal(stet_extent_decode(val->b, val->bytes, seg_blocks, &e), 0);
		assert_true(e.birth != 0);
		count = e.block_count;
	}
	if (first < s->extent_end)
		fail_msg("inode %" PRIu64 ": extents overlap at block %" PRIu64, s->ino, first);
	s->extent_end = first + count;
	s->blocks += count;
}

/* A value in blocks: each of them is mapped. */
static void check_record(struct check *c, struct seen *s, const struct stet_val *val)
{
	struct stet_xattr x;
	uint64_t blocks, mapped = 0;
	struct stet_key from, to, key;
	struct stet_scan *scan;
	struct stet_txn *txn;
	struct stet_val extent;

	assert_int_equal(stet_xattr_decode(val->b, val->bytes, STET_KIND_RECORD,
					   c->u->sb.seg_blocks, &x),
			 0);
	assert_true(STET_MODE_IS_TABLE(s->i.mode));
	s->records++;
	if (x.data)
		return;
	assert_true(x.chunks != 0);
	blocks = (x.size_bytes + BLOCK - 1) / BLOCK;
	s->record_blocks += blocks;
	if (s->i.nlink == 0)
		return;
	stet_key_extent(&from, s->ino, x.chunks);
	stet_key_extent(&to, s->ino, x.chunks + blocks);
	assert_int_equal(stet_txn_begin(c->u->engine, STET_LEVEL_PLAIN, true, &txn), 0);
	assert_int_equal(stet_scan_open(txn, &from, &to, &scan), 0);
	while (stet_scan_next(scan, &key, &extent) == 1) {
		struct stet_extent e = { .block_count = extent.buf_count };

		if (!extent.buf)
			assert_int_equal(stet_extent_decode(extent.b, extent.bytes,
							    c->u->sb.seg_blocks, &e),
					 0);
		mapped += e.block_count;
	}
	stet_scan_close(scan);
	stet_txn_end(txn);
	assert_int_equal(mapped, blocks);
}

static void check_item(struct check *c, const struct stet_key *key, const struct stet_val *val)
{
	uint64_t object = stet_key_object(key->b);
	struct stet_orphan orphan;
	struct stet_dirent dirent;
	struct seen *s;

	switch (stet_key_get_kind(key->b)) {
	case STET_KIND_INODE:
		s = see(c, object);
		s->exists = true;
		assert_int_equal(stet_inode_decode(val->b, val->bytes, &s->i), 0);
		assert_int_equal(s->i.flags & ~STET_INODE_INLINE, 0); /* no symbols */
		break;
	case STET_KIND_DIRENT:
		assert_int_equal(stet_dirent_decode(val->b, val->bytes, &dirent), 0);
		see(c, object)->entries++;
		if (dirent.type == S_IFDIR >> 12)
			see(c, object)->subdirs++;
		see(c, dirent.ino)->names++;
		break;
	case STET_KIND_EXTENT:
		check_extent(see(c, object), key, val, c->u->sb.seg_blocks);
		break;
	case STET_KIND_RECORD:
		check_record(c, see(c, object), val);
		break;
	case STET_KIND_ORPHAN:
		assert_int_equal(stet_orphan_decode(val->b, val->bytes, &orphan), 0);
		s = see(c, stet_key_suffix_u64(key->b));
		s->orphan = true;
		s->orphan_flags = orphan.flags;
		s->orphan_from = orphan.from_block;
		break;
	default:
		break;
	}
}

static void check_seen(struct check *c, const struct seen *s)
{
	uint64_t size_blocks = (s->i.size + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;
	bool truncating = s->orphan_flags & (STET_ORPHAN_TRUNCATE | STET_ORPHAN_UNLINKED);

	if (!s->exists)
		fail_msg("inode %" PRIu64 " is missing", s->ino);
	if (s->ino != STET_ROOT_INO)
		assert_int_equal(s->names, s->i.nlink);
	assert_int_equal(s->i.nlink == 0, s->orphan_flags & STET_ORPHAN_UNLINKED);
	assert_int_equal(s->blocks, s->i.blocks);
	if (S_ISDIR(s->i.mode)) {
		assert_int_equal(s->entries, s->i.size);
		assert_int_equal(s->subdirs, s->i.subdirs);
		if (s->i.nlink > 0)
			assert_true(see(c, s->i.parent)->exists);
		return;
	}
	if (STET_MODE_IS_TABLE(s->i.mode)) {
		if (s->i.nlink > 0) {
			assert_int_equal(s->records, s->i.size);
			assert_int_equal(s->record_blocks, s->blocks);
		}
		return;
	}
	if (s->i.flags & STET_INODE_INLINE)
		assert_int_equal(s->blocks, 0);
	if (s->extent_end > size_blocks && !truncating)
		fail_msg("inode %" PRIu64 ": blocks up to %" PRIu64 " and size %" PRIu64, s->ino,
			 s->extent_end, s->i.size);
	if (s->orphan_flags == STET_ORPHAN_TRUNCATE)
		assert_true(s->orphan_from >= size_blocks);
}

static void check_parents(struct check *c)
{
	for (size_t k = 0; k < c->n; k++) {
		const struct seen *s = &c->seen[k];

		if (!S_ISDIR(s->i.mode) || s->i.nlink == 0)
			continue;
		for (size_t steps = 0; s->ino != STET_ROOT_INO; steps++) {
			assert_true(steps < c->n);
			s = see(c, s->i.parent);
		}
	}
}

void unit_check(struct unit *u)
{
	struct check *c = calloc(1, sizeof(*c));
	struct stet_key from = { .bytes = 1 }, to = { .bytes = 8 }, key;
	struct stet_scan *scan;
	struct stet_txn *txn;
	struct stet_val val;
	int rc;

	assert_non_null(c);
	c->u = u;
	memset(to.b, 0xff, 8);
	assert_int_equal(stet_txn_begin(u->engine, STET_LEVEL_PLAIN, true, &txn), 0);
	assert_int_equal(stet_scan_open(txn, &from, &to, &scan), 0);
	while ((rc = stet_scan_next(scan, &key, &val)) == 1)
		check_item(c, &key, &val);
	assert_int_equal(rc, 0);
	for (size_t k = 0; k < c->n; k++)
		check_seen(c, &c->seen[k]);
	check_parents(c);
	stet_scan_close(scan);
	stet_txn_end(txn);
	free(c);
}
