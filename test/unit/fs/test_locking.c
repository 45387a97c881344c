/* test_locking.c - the level LOCKING: what is read stays as it was read, what is written is written to the
 * byte, and nobody is refused when he commits. Nothing waits here: who would have to gets -EBUSY. */
#include "unit.h"

#define L STET_LEVEL_LOCKING
#define FILE_MODE (S_IFREG | 0600)
#define DIR_MODE (S_IFDIR | 0700)

static uint64_t make(struct unit *u, uint64_t dir, const char *name, uint32_t mode)
{
	uint64_t ino = 0;

	assert_int_equal(unit_make(u, NULL, dir, name, mode, &ino), 0);
	return ino;
}

static void fill(struct unit *u, uint64_t f, uint64_t off, char with, size_t len)
{
	char *buf = malloc(len);

	assert_non_null(buf);
	memset(buf, with, len);
	assert_int_equal(unit_write(u, NULL, f, off, buf, len), 0);
	free(buf);
}

static void expect(struct unit *u, struct stet_txn *txn, uint64_t f, uint64_t off, const char *text)
{
	size_t len = strlen(text);
	char buf[64] = "";

	assert_true(len < sizeof(buf));
	assert_int_equal(unit_read(u, txn, f, off, buf, len), len);
	assert_string_equal(buf, text);
}

/* --- bytes --- */

/* Two write in one block, in one extent, in one inline file; a plain writer in between. */
static void test_bytes(void **state)
{
	static const uint64_t sizes[] = { 40, 1500, BLOCK, 5 * BLOCK, 40 * BLOCK };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct unit *u = unit_create(NULL);
		uint64_t f = make(u, 1, "f", FILE_MODE), at = sizes[i] / 2;
		struct stet_txn *x, *y;
		char buf[64];

		fill(u, f, 0, '.', sizes[i]);
		if (i % 2)
			unit_flush(u, true);
		x = unit_begin(u, L);
		y = unit_begin(u, L);
		assert_int_equal(unit_write(u, x, f, at, "xx", 2), 0);
		assert_int_equal(unit_write(u, y, f, at + 2, "yy", 2), 0);
		assert_int_equal(unit_write(u, y, f, at + 1, "y", 1), -EBUSY);
		assert_int_equal(unit_write(u, NULL, f, at + 3, "p", 1), -EBUSY);
		assert_int_equal(unit_write(u, NULL, f, at + 4, "pp", 2), 0);
		expect(u, x, f, at - 1, ".xx");
		assert_int_equal(unit_read(u, x, f, at + 2, buf, 1), -EBUSY);
		expect(u, x, f, at + 4, "pp.");
		assert_int_equal(unit_write(u, x, f, at + 8, "x", 1), 0);
		assert_int_equal(unit_order(u, y), 0);
		expect(u, x, f, at - 1, ".xxyypp..x."); /* what is current, under its own */
		if (i % 2 == 0)
			unit_flush(u, true);
		assert_int_equal(unit_write(u, NULL, f, 0, "P", 1), 0);
		assert_int_equal(unit_order(u, x), 0);
		expect(u, NULL, f, at - 1, ".xxyypp..x.");
		expect(u, NULL, f, 0, "P.");
		unit_reopen(u);
		expect(u, NULL, f, at - 1, ".xxyypp..x.");
		unit_destroy(u);
	}
}

/* Both write behind the end, or one inside and one far behind: inline content becomes blocks. */
static void test_growing(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, 1, "f", FILE_MODE);
	struct stet_txn *x, *y;
	struct stet_fs_attr attr;
	uint64_t off;
	char buf[16];

	(void)state;
	fill(u, f, 0, '.', 100);
	x = unit_begin(u, L);
	y = unit_begin(u, L);
	assert_int_equal(unit_write(u, x, f, 90000, "far", 3), 0);
	assert_int_equal(unit_write(u, y, f, 10, "near", 4), 0);
	assert_int_equal(unit_read(u, x, f, 89999, buf, 16), 4);
	assert_memory_equal(buf, "\0far", 4);
	assert_int_equal(unit_getattr(u, x, f, &attr), -EBUSY);
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_getattr(u, x, f, &attr), 0);
	assert_int_equal(attr.size, 90003);
	assert_int_equal(unit_order(u, x), 0);
	expect(u, NULL, f, 9, ".near.");
	expect(u, NULL, f, 90000, "far");
	assert_int_equal(unit_getattr(u, NULL, f, &attr), 0);
	assert_int_equal(attr.size, 90003);
	assert_int_equal(unit_seek(u, NULL, f, 5000, false, &off), 0);
	assert_int_equal(off, 90003 / BLOCK * BLOCK);
	unit_destroy(u);
}

/* Holes, to who has staged bytes in them. */
static void test_staged_holes(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, 1, "f", FILE_MODE), off;
	struct stet_txn *x;

	(void)state;
	assert_int_equal(unit_truncate(u, NULL, f, 100 * BLOCK), 0);
	fill(u, f, 50 * BLOCK, '.', BLOCK);
	x = unit_begin(u, L);
	assert_int_equal(unit_write(u, x, f, 20 * BLOCK + 7, "x", 1), 0);
	assert_int_equal(unit_write(u, x, f, 51 * BLOCK + 7, "x", 1), 0);
	assert_int_equal(unit_write(u, x, f, 200 * BLOCK, "x", 1), 0);
	assert_int_equal(unit_seek(u, x, f, 0, false, &off), 0);
	assert_int_equal(off, 20 * BLOCK);
	assert_int_equal(unit_seek(u, x, f, 20 * BLOCK + 5, true, &off), 0);
	assert_int_equal(off, 21 * BLOCK);
	assert_int_equal(unit_seek(u, x, f, 21 * BLOCK, false, &off), 0);
	assert_int_equal(off, 50 * BLOCK);
	assert_int_equal(unit_seek(u, x, f, 50 * BLOCK, true, &off), 0);
	assert_int_equal(off, 52 * BLOCK);
	assert_int_equal(unit_seek(u, x, f, 52 * BLOCK, false, &off), 0);
	assert_int_equal(off, 200 * BLOCK);
	assert_int_equal(unit_seek(u, x, f, 200 * BLOCK, true, &off), 0);
	assert_int_equal(off, 200 * BLOCK + 1);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_seek(u, NULL, f, 50 * BLOCK, true, &off), 0);
	assert_int_equal(off, 52 * BLOCK);
	unit_destroy(u);
}

/* Whole pages, where that was asked for. */
static void test_pages(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, 1, "f", FILE_MODE);
	struct stet_txn *x, *y;
	char buf[4];

	(void)state;
	fill(u, f, 0, '.', 4 * BLOCK);
	x = unit_begin(u, L);
	y = unit_begin(u, L);
	stet_txn_lock_pages(x);
	assert_int_equal(unit_write(u, x, f, BLOCK + 10, "x", 1), 0);
	assert_int_equal(unit_write(u, y, f, BLOCK, "y", 1), -EBUSY);
	assert_int_equal(unit_write(u, y, f, 2 * BLOCK - 1, "y", 1), -EBUSY);
	assert_int_equal(unit_write(u, NULL, f, 2 * BLOCK - 1, "p", 1), -EBUSY);
	assert_int_equal(unit_write(u, y, f, 2 * BLOCK, "y", 1), 0);
	assert_int_equal(unit_write(u, y, f, BLOCK - 1, "y", 1), 0);
	assert_int_equal(unit_read(u, x, f, 0, buf, 1), -EBUSY);
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_order(u, x), 0);
	expect(u, NULL, f, BLOCK - 1, "y.");
	expect(u, NULL, f, BLOCK + 9, ".x.");
	unit_destroy(u);
}

/* Truncation, holes and appends after bytes were staged, in one transaction. */
static void test_then_more(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, 1, "f", FILE_MODE), g = make(u, 1, "g", FILE_MODE);
	uint64_t h = make(u, 1, "h", FILE_MODE);
	struct stet_txn *x = unit_begin(u, L), *y = unit_begin(u, L);
	struct stet_fs_attr attr;

	(void)state;
	fill(u, f, 0, '.', 3 * BLOCK);
	fill(u, g, 0, '.', 100);
	fill(u, h, 0, '.', 3 * BLOCK);
	assert_int_equal(unit_write(u, x, f, BLOCK, "one", 3), 0);
	assert_int_equal(unit_write(u, y, f, 7, "y", 1), 0);
	assert_int_equal(unit_truncate(u, x, f, BLOCK + 2), -EBUSY); /* that is all of it */
	assert_int_equal(unit_append(u, x, f, "end", 3), -EBUSY);
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_truncate(u, x, f, BLOCK + 2), 0);
	expect(u, x, f, BLOCK - 1, ".on");
	assert_int_equal(unit_append(u, x, f, "end", 3), 0);
	assert_int_equal(unit_write(u, x, g, 50, "two", 3), 0);
	assert_int_equal(unit_append(u, x, g, "end", 3), 0);
	assert_int_equal(unit_write(u, x, h, BLOCK + 5, "three", 5), 0);
	assert_int_equal(unit_punch(u, x, h, BLOCK + 7, BLOCK), 0);
	assert_int_equal(unit_order(u, x), 0);
	expect(u, NULL, f, BLOCK - 1, ".onend");
	expect(u, NULL, f, 6, ".y.");
	expect(u, NULL, g, 49, ".two.");
	expect(u, NULL, g, 99, ".end");
	expect(u, NULL, h, BLOCK + 4, ".th");
	expect(u, NULL, h, 2 * BLOCK + 7, ".");
	assert_int_equal(unit_getattr(u, NULL, f, &attr), 0);
	assert_int_equal(attr.size, BLOCK + 5);
	unit_destroy(u);
}

/* Appending goes along with writing before the end. */
static void test_append(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, 1, "f", FILE_MODE);
	struct stet_txn *x = unit_begin(u, L), *y = unit_begin(u, L), *z = unit_begin(u, L);
	char buf[16];

	(void)state;
	fill(u, f, 0, '.', 10);
	assert_int_equal(unit_append(u, x, f, "x", 1), 0);
	assert_int_equal(unit_append(u, y, f, "y", 1), 0);
	assert_int_equal(unit_append(u, x, f, "X", 1), 0);
	assert_int_equal(unit_write(u, z, f, 4, "z", 1), 0);
	assert_int_equal(unit_read(u, z, f, 0, buf, 4), 4);
	assert_int_equal(unit_read(u, z, f, 0, buf, 11), -EBUSY); /* it would see the end */
	assert_int_equal(unit_write(u, z, f, 10, "z", 1), -EBUSY);
	assert_int_equal(unit_append(u, NULL, f, "p", 1), 0);
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_order(u, z), 0);
	assert_int_equal(unit_order(u, x), 0);
	expect(u, NULL, f, 0, "....z.....pyxX");
	unit_destroy(u);
}

/* Much staged: all of the file is taken, but only when nobody else has any of it. */
static void test_escalation(void **state)
{
	const size_t piece = 64 << 10;
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, 1, "f", FILE_MODE);
	struct stet_txn *x = unit_begin(u, L), *y = unit_begin(u, L);
	char *bytes = malloc(piece), *buf = malloc(piece);

	(void)state;
	assert_true(bytes && buf);
	fill(u, f, 0, '.', 64 << 10);
	assert_int_equal(unit_write(u, y, f, 5, "y", 1), 0);
	for (uint64_t i = 1; i <= 24; i++) { /* 1.5 MiB: it asks, and goes on without */
		memset(bytes, (int)('a' + i), piece);
		assert_int_equal(unit_write(u, x, f, i * piece + i, bytes, piece), 0);
	}
	assert_int_equal(unit_write(u, y, f, 10, "y", 1), 0);
	assert_int_equal(unit_order(u, y), 0);
	y = unit_begin(u, L);
	assert_int_equal(unit_write(u, y, f, 20, "z", 1), 0);
	assert_int_equal(unit_order(u, y), 0);
	for (uint64_t i = 25; i <= 40; i++) { /* over its share of memory: now it must have all */
		memset(bytes, (int)('a' + i % 26), piece);
		assert_int_equal(unit_write(u, x, f, i * piece + i, bytes, piece), 0);
	}
	y = unit_begin(u, L);
	assert_int_equal(unit_write(u, y, f, 30, "z", 1), -EBUSY);
	unit_end(y);
	assert_int_equal(unit_write(u, x, f, 1, "x", 1), 0);
	assert_int_equal(unit_order(u, x), 0);
	expect(u, NULL, f, 0, ".x...y....y.........z.");
	for (uint64_t i = 2; i <= 40; i++) {
		memset(bytes, (int)(i < 25 ? 'a' + i : 'a' + i % 26), piece);
		assert_int_equal(unit_read(u, NULL, f, i * piece + i, buf, piece), piece);
		assert_memory_equal(buf, bytes, piece);
	}
	free(bytes);
	free(buf);
	unit_destroy(u);
}

/* --- removal --- */

static void test_removal(void **state)
{
	static const enum stet_level levels[] = { STET_LEVEL_SNAPSHOT, STET_LEVEL_SERIALIZABLE, L };
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, 1, "f", FILE_MODE), g = make(u, 1, "g", FILE_MODE), ino;
	struct stet_txn *x = unit_begin(u, L), *y;
	struct stet_fs_attr attr = { .mode = 0640 };

	(void)state;
	assert_int_equal(unit_link(u, NULL, f, 1, "f2"), 0);
	assert_int_equal(unit_write(u, x, f, 0, "x", 1), 0);
	assert_int_equal(unit_setattr(u, x, g, STET_FS_SET_MODE, &attr), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "f"), -EBUSY);
	assert_int_equal(unit_rename(u, NULL, 1, "g", 1, "f2", 0), -EBUSY);
	for (size_t i = 0; i < 3; i++) {
		y = unit_begin(u, levels[i]);
		assert_int_equal(unit_unlink(u, y, 1, "f"), -EBUSY);
		assert_int_equal(unit_unlink(u, y, 1, "g"), -EBUSY);
		assert_false(stet_txn_doomed(y));
		unit_end(y);
	}
	assert_int_equal(unit_order(u, x), 0);
	/* The other way round. */
	x = unit_begin(u, L);
	y = unit_begin(u, L);
	assert_int_equal(unit_unlink(u, x, 1, "f"), 0);
	assert_int_equal(unit_write(u, y, f, 0, "y", 1), -EBUSY);
	assert_int_equal(unit_unlink(u, y, 1, "f2"), 0); /* two take one name each */
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_lookup(u, NULL, 1, "f2", &ino), -ENOENT);
	unit_destroy(u);
}

/* A file that has lost its name while it is open is written on. */
static void test_nameless(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, 1, "f", FILE_MODE);
	struct stet_txn *x = unit_begin(u, L);

	(void)state;
	assert_int_equal(stet_fs_hold(u->fs, f), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "f"), 0);
	assert_int_equal(unit_write(u, x, f, 0, "x", 1), 0);
	assert_int_equal(unit_order(u, x), 0);
	expect(u, NULL, f, 0, "x");
	stet_fs_unhold(u->fs, f);
	unit_destroy(u);
}

/* --- what was read stays --- */

struct place {
	struct unit *u;
	uint64_t d, sub, f, link, t;
};

static void make_place(struct place *p)
{
	p->u = unit_create(NULL);
	p->d = make(p->u, 1, "d", DIR_MODE);
	p->sub = make(p->u, p->d, "sub", DIR_MODE);
	p->f = make(p->u, p->d, "f", FILE_MODE);
	fill(p->u, p->f, 0, '.', 100);
	assert_int_equal(unit_truncate(p->u, NULL, p->f, 20 * BLOCK), 0);
	assert_int_equal(unit_xattr_set(p->u, NULL, p->f, "user.a", "1", 1, 0), 0);
	assert_int_equal(unit_symlink(p->u, NULL, p->d, "s", "target", 6, &p->link), 0);
	p->t = make(p->u, p->d, "t", 0160600);
	assert_int_equal(unit_put(p->u, NULL, p->t, "b", "1", 1, 0), 0);
	assert_int_equal(unit_put(p->u, NULL, p->t, "d", "1", 1, 0), 0);
	assert_int_equal(unit_put(p->u, NULL, p->t, "f", "1", 1, 0), 0);
}

static const struct stet_fs_attr new_attr = { .mode = 02755, .atime_ns = 5, .mtime_ns = 6 };

#define READ(name, call)                                                        \
	static int name(struct place *p, struct stet_txn *x)                    \
	{                                                                       \
		char buf[512];                                                  \
		struct stet_fs_attr attr;                                       \
		uint64_t v = 0;                                                 \
		(void)buf;                                                      \
		(void)attr;                                                     \
		(void)v;                                                        \
		int64_t rc = call;                                              \
		return rc == -ENOENT || rc == -ENODATA || rc > 0 ? 0 : (int)rc; \
	}
#define CHANGE(name, call)               \
	static int name(struct place *p) \
	{                                \
		int rc = call;           \
		return rc;               \
	}

READ(r_lookup, unit_lookup(p->u, x, p->d, "f", &v))
READ(r_absent, unit_lookup(p->u, x, p->d, "new", &v))
READ(r_dotdot, unit_lookup(p->u, x, p->sub, "..", &v))
READ(r_list, unit_list(p->u, x, p->d, buf, sizeof(buf)))
READ(r_list_sub, unit_list(p->u, x, p->sub, buf, sizeof(buf)))
READ(r_stat, unit_getattr(p->u, x, p->f, &attr))
READ(r_stat_dir, unit_getattr(p->u, x, p->d, &attr))
READ(r_stat_sub, unit_getattr(p->u, x, p->sub, &attr))
READ(r_bytes, unit_read(p->u, x, p->f, 10, buf, 20))
READ(r_end, unit_read(p->u, x, p->f, 20 * BLOCK - 10, buf, 20))
READ(r_data, unit_seek(p->u, x, p->f, BLOCK + 100, false, &v) == -ENXIO ? 0 : -1)
READ(r_hole, unit_seek(p->u, x, p->f, 10, true, &v))
READ(r_xattr, unit_xattr_get(p->u, x, p->f, "user.a", buf, 8))
READ(r_no_xattr, unit_xattr_get(p->u, x, p->f, "user.b", buf, 8))
READ(r_xattrs, unit_xattr_list(p->u, x, p->f, buf, sizeof(buf)))
READ(r_exists, unit_make(p->u, x, p->d, "f", FILE_MODE, &v) == -EEXIST ? 0 : -1)
READ(r_not_empty, unit_rmdir(p->u, x, 1, "d") == -ENOTEMPTY ? 0 : -1)
READ(r_below, unit_rename(p->u, x, 1, "d", p->sub, "x", 0) == -EINVAL ? 0 : -1)
READ(r_mode, unit_make(p->u, x, p->d, "mine", FILE_MODE, &v))

CHANGE(c_make, unit_make(p->u, NULL, p->d, "new", FILE_MODE, NULL))
CHANGE(c_make_sub, unit_make(p->u, NULL, p->sub, "new", FILE_MODE, NULL))
CHANGE(c_unlink, unit_unlink(p->u, NULL, p->d, "f"))
CHANGE(c_unlink_s, unit_unlink(p->u, NULL, p->d, "s"))
CHANGE(c_rename, unit_rename(p->u, NULL, p->d, "f", 1, "f", 0))
CHANGE(c_rename_in, unit_rename(p->u, NULL, p->d, "f", p->d, "f2", 0))
CHANGE(c_replace, unit_rename(p->u, NULL, p->d, "s", p->d, "f", 0))
CHANGE(c_move_sub, unit_rename(p->u, NULL, p->d, "sub", 1, "sub", 0))
CHANGE(c_rmdir, unit_rmdir(p->u, NULL, p->d, "sub"))
CHANGE(c_link, unit_link(p->u, NULL, p->f, 1, "f2"))
CHANGE(c_write, unit_write(p->u, NULL, p->f, 15, "new", 3))
CHANGE(c_write_before, unit_write(p->u, NULL, p->f, 0, "n", 1))
CHANGE(c_write_far, unit_write(p->u, NULL, p->f, 19 * BLOCK, "new", 3))
CHANGE(c_write_hole, unit_write(p->u, NULL, p->f, BLOCK + 10, "new", 3))
CHANGE(c_append, unit_append(p->u, NULL, p->f, "new", 3))
CHANGE(c_grow, unit_truncate(p->u, NULL, p->f, 21 * BLOCK))
CHANGE(c_cut, unit_truncate(p->u, NULL, p->f, 5))
CHANGE(c_punch, unit_punch(p->u, NULL, p->f, 0, BLOCK))
CHANGE(c_chmod, unit_setattr(p->u, NULL, p->f, STET_FS_SET_MODE, &new_attr))
CHANGE(c_chmod_dir, unit_setattr(p->u, NULL, p->d, STET_FS_SET_MODE, &new_attr))
CHANGE(c_utime, unit_setattr(p->u, NULL, p->f, STET_FS_SET_MTIME, &new_attr))
CHANGE(c_xattr, unit_xattr_set(p->u, NULL, p->f, "user.a", "2", 1, 0))
CHANGE(c_xattr_new, unit_xattr_set(p->u, NULL, p->f, "user.b", "2", 1, 0))
CHANGE(c_xattr_dir, unit_xattr_set(p->u, NULL, p->d, "user.b", "2", 1, 0))
CHANGE(c_xattr_gone, unit_xattr_remove(p->u, NULL, p->f, "user.a"))

/* Keys of [b, e), both ways, in one step or several. */
static int scan(struct place *p, struct stet_txn *x, bool reverse, uint32_t step)
{
	const struct stet_fs_limits limits = { .from = { "b", 1 }, .to = { "e", 1 } };
	char keys[64];
	int rc = unit_keys(p->u, x, p->t, &limits, reverse, step, keys, sizeof(keys));

	if (!rc)
		assert_string_equal(keys, reverse ? "d/b/" : "b/d/");
	return rc;
}

READ(r_get, unit_get(p->u, x, p->t, "b", buf, 8))
READ(r_no_record, unit_get(p->u, x, p->t, "c", buf, 8))
READ(r_scan, scan(p, x, false, 10))
READ(r_scan_steps, scan(p, x, false, 1))
READ(r_scan_back, scan(p, x, true, 1))
READ(r_count, unit_count(p->u, x, p->t) == 3 ? 0 : -1)
READ(r_stat_table, unit_getattr(p->u, x, p->t, &attr))
READ(r_put_there, unit_put(p->u, x, p->t, "b", "2", 1, STET_FS_RECORD_CREATE) == -EEXIST ? 0 : -1)

CHANGE(c_put_a, unit_put(p->u, NULL, p->t, "a", "2", 1, 0))
CHANGE(c_put_b, unit_put(p->u, NULL, p->t, "b", "2", 1, 0))
CHANGE(c_put_bb, unit_put(p->u, NULL, p->t, "bb", "2", 1, 0))
CHANGE(c_put_c, unit_put(p->u, NULL, p->t, "c", "2", 1, 0))
CHANGE(c_put_dz, unit_put(p->u, NULL, p->t, "dz", "2", 1, 0))
CHANGE(c_put_e, unit_put(p->u, NULL, p->t, "e", "2", 1, 0))
CHANGE(c_del_b, unit_del(p->u, NULL, p->t, "b"))
CHANGE(c_del_d, unit_del(p->u, NULL, p->t, "d"))
CHANGE(c_del_f, unit_del(p->u, NULL, p->t, "f"))

typedef int read_fn(struct place *p, struct stet_txn *x);
typedef int change_fn(struct place *p);

static const struct {
	const char *name;
	read_fn *read;
	change_fn *stopped[10]; /* by the read */
	change_fn *free[10];    /* not in its way */
} reads[] = {
	{ "lookup",
	  r_lookup,
	  { c_unlink, c_rename, c_rename_in, c_replace },
	  { c_make, c_unlink_s, c_write, c_chmod } },
	{ "absent", r_absent, { c_make }, { c_unlink, c_write } },
	{ "..", r_dotdot, { c_move_sub }, { c_make, c_make_sub } },
	{ "list",
	  r_list,
	  { c_make, c_unlink, c_rename, c_rename_in, c_rmdir, c_move_sub },
	  { c_write, c_make_sub, c_chmod_dir } },
	{ "list of an empty one", r_list_sub, { c_make_sub, c_rmdir }, { c_make } },
	{ "stat",
	  r_stat,
	  { c_write, c_write_far, c_append, c_grow, c_cut, c_chmod, c_utime, c_xattr, c_link,
	    c_unlink },
	  { c_make, c_unlink_s } },
	{ "stat (2)",
	  r_stat,
	  { c_rename, c_rename_in, c_replace, c_punch, c_xattr_new, c_xattr_gone },
	  { c_make_sub } },
	{ "stat of a directory",
	  r_stat_dir,
	  { c_make, c_unlink, c_rename_in, c_chmod_dir, c_xattr_dir, c_move_sub },
	  { c_write, c_make_sub } },
	{ "stat of another",
	  r_stat_sub,
	  { c_make_sub, c_rmdir, c_move_sub },
	  { c_make, c_unlink } },
	{ "bytes",
	  r_bytes,
	  { c_write, c_cut, c_grow, c_punch },
	  { c_write_before, c_write_far, c_append, c_chmod, c_unlink } },
	{ "the end", r_end, { c_append, c_cut, c_grow }, { c_write, c_write_far } },
	{ "data", r_data, { c_write_hole, c_write_far, c_append, c_grow, c_cut }, { c_write } },
	{ "hole", r_hole, { c_write_hole, c_write_before, c_punch, c_cut }, { c_chmod } },
	{ "xattr", r_xattr, { c_xattr, c_xattr_gone }, { c_xattr_new, c_write } },
	{ "no xattr", r_no_xattr, { c_xattr_new }, { c_xattr, c_write } },
	{ "xattrs", r_xattrs, { c_xattr, c_xattr_new, c_xattr_gone }, { c_write, c_chmod } },
	{ "exists", r_exists, { c_unlink, c_rename }, { c_write, c_make } },
	{ "not empty", r_not_empty, { c_unlink, c_make }, { c_write, c_make_sub } },
	{ "below", r_below, { c_move_sub }, { c_write, c_make } },
	{ "record", r_get, { c_put_b, c_del_b }, { c_put_a, c_put_bb, c_put_c, c_del_d } },
	{ "no record", r_no_record, { c_put_c }, { c_put_b, c_put_bb, c_del_d } },
	{ "scan",
	  r_scan,
	  { c_put_b, c_put_bb, c_put_c, c_put_dz, c_del_b, c_del_d },
	  { c_put_a, c_put_e, c_del_f } },
	{ "scan in steps",
	  r_scan_steps,
	  { c_put_b, c_put_bb, c_put_c, c_put_dz, c_del_b, c_del_d },
	  { c_put_a, c_put_e, c_del_f } },
	{ "scan backwards",
	  r_scan_back,
	  { c_put_b, c_put_bb, c_put_c, c_put_dz, c_del_b, c_del_d },
	  { c_put_a, c_put_e, c_del_f } },
	{ "count", r_count, { c_put_a, c_put_e, c_del_f, c_put_b }, { c_write, c_make } },
	{ "stat of a table", r_stat_table, { c_put_a, c_put_b, c_del_f }, { c_write, c_make } },
	{ "record that is there", r_put_there, { c_put_b, c_del_b }, { c_put_a, c_put_c } },
	{ "mode of the directory", r_mode, { c_chmod_dir }, { c_make, c_unlink } },
};

static void stopped(size_t i, size_t k)
{
	struct place p;
	struct stet_txn *x;
	int rc;

	make_place(&p);
	x = unit_begin(p.u, L);
	rc = reads[i].read(&p, x);
	if (rc)
		fail_msg("%s: %d", reads[i].name, rc);
	rc = reads[i].stopped[k](&p);
	if (rc != -EBUSY)
		fail_msg("%s: change %zu came in between: %d", reads[i].name, k, rc);
	assert_int_equal(reads[i].read == r_mode ? 0 : reads[i].read(&p, x), 0);
	assert_int_equal(unit_order(p.u, x), 0);
	rc = reads[i].stopped[k](&p);
	if (rc)
		fail_msg("%s: change %zu afterwards: %d", reads[i].name, k, rc);
	unit_destroy(p.u);
}

static void not_stopped(size_t i, size_t k)
{
	struct place p;
	struct stet_txn *x;
	int rc;

	make_place(&p);
	x = unit_begin(p.u, L);
	assert_int_equal(reads[i].read(&p, x), 0);
	rc = reads[i].free[k](&p);
	if (rc)
		fail_msg("%s stops change %zu, which is none of its business: %d", reads[i].name, k,
			 rc);
	assert_int_equal(unit_order(p.u, x), 0);
	unit_destroy(p.u);
}

static void test_repeatable(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
		for (size_t k = 0; k < 10 && reads[i].stopped[k]; k++)
			stopped(i, k);
		for (size_t k = 0; k < 10 && reads[i].free[k]; k++)
			not_stopped(i, k);
	}
}

static bool tries_to_change(int (*read)(struct place *, struct stet_txn *))
{
	return read == r_exists || read == r_not_empty || read == r_below || read == r_put_there ||
	       read == r_mode;
}

/* Who only reads hinders nobody who only reads. */
static void test_readers(void **state)
{
	struct place p;

	(void)state;
	make_place(&p);
	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
		for (size_t k = 0; k < sizeof(reads) / sizeof(reads[0]); k++) {
			struct stet_txn *x, *y;

			if (tries_to_change(reads[i].read) || tries_to_change(reads[k].read))
				continue;
			x = unit_begin(p.u, L);
			y = unit_begin(p.u, L);
			assert_int_equal(reads[i].read(&p, x), 0);
			if (reads[k].read(&p, y))
				fail_msg("%s stops %s", reads[i].name, reads[k].name);
			assert_int_equal(unit_order(p.u, x), 0);
			assert_int_equal(unit_order(p.u, y), 0);
		}
	unit_destroy(p.u);
}

/* --- at random --- */

#define TXNS 4
#define SPACE 12000u /* bytes of the file that are written */
#define PIECES 64

struct written {
	uint32_t off, len;
	char with;
};

struct shadow {
	struct unit *u;
	uint64_t f;
	struct stet_txn *txn[TXNS];
	struct written wrote[TXNS][PIECES];
	size_t n[TXNS];
	char now[SPACE];
	uint32_t size;
};

static void put(char *bytes, uint32_t *size, const struct written *w)
{
	memset(bytes + w->off, w->with, w->len);
	if (*size < w->off + w->len)
		*size = w->off + w->len;
}

/* What a transaction sees where nobody else has written: the current state under its own. */
static void compare(struct shadow *s, int t, uint32_t off, uint32_t len)
{
	char mine[SPACE], buf[SPACE];
	uint32_t size = s->size;
	int64_t n;

	memcpy(mine, s->now, sizeof(mine));
	for (size_t k = 0; t >= 0 && k < s->n[t]; k++)
		put(mine, &size, &s->wrote[t][k]);
	n = unit_read(s->u, t >= 0 ? s->txn[t] : NULL, s->f, off, buf, len);
	if (n == -EBUSY && t >= 0)
		return;
	assert_int_equal(n, off >= size ? 0 : off + len < size ? len : size - off);
	assert_memory_equal(buf, mine + off, (size_t)n);
}

static void write_at(struct shadow *s, int t, const struct written *w)
{
	char bytes[2000];
	int rc;

	memset(bytes, w->with, w->len);
	rc = unit_write(s->u, t >= 0 ? s->txn[t] : NULL, s->f, w->off, bytes, w->len);
	if (rc == -EBUSY)
		return;
	assert_int_equal(rc, 0);
	if (t < 0)
		put(s->now, &s->size, w);
	else
		s->wrote[t][s->n[t]++] = *w;
}

static void end_one(struct shadow *s, int t, bool commit)
{
	if (commit) {
		assert_int_equal(unit_order(s->u, s->txn[t]), 0); /* nobody is refused here */
		for (size_t k = 0; k < s->n[t]; k++)
			put(s->now, &s->size, &s->wrote[t][k]);
	} else {
		unit_end(s->txn[t]);
	}
	s->txn[t] = NULL;
	s->n[t] = 0;
}

static void step(struct shadow *s, struct stet_random *rnd)
{
	int t = (int)stet_random_below(rnd, TXNS + 1) - 1;
	uint64_t dice = stet_random_below(rnd, 100);
	uint32_t most = stet_random_below(rnd, 8) ? 60 : 2000;
	struct written w = { .len = 1 + (uint32_t)stet_random_below(rnd, most),
			     .with = (char)('a' + stet_random_below(rnd, 26)) };

	w.off = (uint32_t)stet_random_below(rnd, stet_random_below(rnd, 3) ? 3000 : SPACE - w.len);
	if (t >= 0 && !s->txn[t]) {
		s->txn[t] = unit_begin(s->u, L);
		if (stet_random_below(rnd, 4) == 0)
			stet_txn_lock_pages(s->txn[t]);
	}
	if (t >= 0 && (dice < 12 || s->n[t] == PIECES))
		end_one(s, t, dice < 9);
	else if (dice < 70)
		write_at(s, t, &w);
	else if (dice < 90)
		compare(s, t, w.off, w.len);
	else if (dice < 94)
		unit_flush(s->u, dice < 92);
}

static void test_random(void **state)
{
	const char *rounds = getenv("STET_TEST_ROUNDS");
	uint64_t seeds = rounds ? strtoull(rounds, NULL, 10) : 40;

	(void)state;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		static struct shadow s;
		struct stet_random rnd;

		memset(&s, 0, sizeof(s));
		stet_random_seed(&rnd, seed);
		s.u = unit_create(NULL);
		s.f = make(s.u, 1, "f", FILE_MODE);
		for (int k = 0; k < 400; k++)
			step(&s, &rnd);
		for (int t = 0; t < TXNS; t++) {
			if (s.txn[t])
				end_one(&s, t, t % 2);
		}
		compare(&s, -1, 0, SPACE);
		unit_reopen(s.u);
		compare(&s, -1, 0, SPACE);
		unit_destroy(s.u);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),        cmocka_unit_test(test_growing),
		cmocka_unit_test(test_staged_holes), cmocka_unit_test(test_pages),
		cmocka_unit_test(test_then_more),    cmocka_unit_test(test_append),
		cmocka_unit_test(test_escalation),   cmocka_unit_test(test_removal),
		cmocka_unit_test(test_nameless),     cmocka_unit_test(test_repeatable),
		cmocka_unit_test(test_readers),      cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
