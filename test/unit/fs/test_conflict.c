/* test_conflict.c - what conflicts between transactions, and what does not: locks, first updater
 * wins, reads of SERIALIZABLE, structure. Each case is two transactions (or one and a plain
 * operation). */
#include "unit.h"

#define S STET_LEVEL_SNAPSHOT
#define Z STET_LEVEL_SERIALIZABLE
#define L STET_LEVEL_LOCKING

static uint64_t make(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name,
		     uint32_t mode)
{
	uint64_t ino = 0;
	int rc = unit_make(u, txn, dir, name, mode, &ino);

	if (rc)
		fail_msg("make %s: %d %s", name, rc, stet_error_text());
	return ino;
}

#define FILE_MODE (S_IFREG | 0600)
#define DIR_MODE (S_IFDIR | 0700)

/* Names meet only where they are the same. */
static void test_names(void **state)
{
	struct unit *u = unit_create(NULL);
	struct stet_txn *x = unit_begin(u, S), *y = unit_begin(u, S);
	uint64_t ino;

	(void)state;
	make(u, x, 1, "a", FILE_MODE);
	make(u, y, 1, "b", FILE_MODE);
	assert_int_equal(unit_make(u, y, 1, "a", FILE_MODE, &ino), -EBUSY);
	assert_false(stet_txn_doomed(y)); /* a lock that is not had dooms nobody */
	assert_int_equal(unit_make(u, NULL, 1, "a", FILE_MODE, &ino), -EBUSY);
	make(u, NULL, 1, "c", FILE_MODE);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_make(u, y, 1, "a", FILE_MODE, &ino), -EBUSY); /* first updater won */
	assert_true(stet_txn_doomed(y));
	assert_string_not_equal(stet_txn_conflict_text(y), "");
	unit_end(y);
	assert_int_equal(unit_lookup(u, NULL, 1, "b", &ino), -ENOENT);
	/* What fails for what it finds takes no lock. */
	x = unit_begin(u, S);
	assert_int_equal(unit_make(u, x, 1, "a", DIR_MODE, &ino), -EEXIST);
	assert_int_equal(unit_unlink(u, x, 1, "zz"), -ENOENT);
	assert_int_equal(unit_unlink(u, NULL, 1, "a"), 0);
	make(u, NULL, 1, "zz", FILE_MODE);
	assert_int_equal(unit_order(u, x), 0);
	unit_destroy(u);
}

/* Counts and times commute; attributes of one group do not. */
static void test_attributes(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f", FILE_MODE);
	struct stet_txn *x = unit_begin(u, S), *y = unit_begin(u, S);
	struct stet_fs_attr set = { .mode = 0644, .atime_ns = 7 }, attr;

	(void)state;
	assert_int_equal(unit_link(u, x, f, 1, "f1"), 0);
	assert_int_equal(unit_link(u, y, f, 1, "f2"), 0);
	assert_int_equal(unit_setattr(u, x, f, STET_FS_SET_MODE, &set), 0);
	assert_int_equal(unit_setattr(u, y, f, STET_FS_SET_ATIME, &set), 0);
	set.mode = 0600;
	assert_int_equal(unit_setattr(u, y, f, STET_FS_SET_MODE, &set), -EBUSY);
	assert_int_equal(unit_write(u, y, f, 0, "data", 4), 0);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_getattr(u, y, f, &attr), 0);
	assert_int_equal(attr.nlink, 2); /* of its own; the other's is not in its view */
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_getattr(u, NULL, f, &attr), 0);
	assert_int_equal(attr.nlink, 3);
	assert_int_equal(attr.mode, S_IFREG | 0644);
	assert_int_equal(attr.atime_ns, 7);
	assert_int_equal(attr.size, 4);
	x = unit_begin(u, S);
	set.mode = 0640;
	assert_int_equal(unit_setattr(u, NULL, f, STET_FS_SET_MODE, &set), 0);
	assert_int_equal(unit_setattr(u, x, f, STET_FS_SET_MODE, &set), -EBUSY);
	assert_true(stet_txn_doomed(x));
	unit_end(x);
	unit_destroy(u);
}

/* Data: one writer at a time, and none on what another has written since. */
static void test_data(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f", FILE_MODE);
	struct stet_txn *x, *y;
	char buf[8];

	(void)state;
	assert_int_equal(unit_write(u, NULL, f, 0, "one", 3), 0);
	x = unit_begin(u, S);
	y = unit_begin(u, S);
	assert_int_equal(unit_write(u, x, f, 0, "two", 3), 0);
	assert_int_equal(unit_write(u, y, f, 100, "three", 5), -EBUSY);
	assert_int_equal(unit_truncate(u, NULL, f, 0), -EBUSY);
	assert_int_equal(unit_read(u, y, f, 0, buf, 3), 3);
	assert_memory_equal(buf, "one", 3);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_read(u, y, f, 0, buf, 3), 3);
	assert_memory_equal(buf, "one", 3);                /* its view, for ever */
	assert_int_equal(unit_append(u, y, f, "!", 1), 0); /* commutes */
	assert_int_equal(unit_write(u, y, f, 0, "x", 1), -EBUSY);
	assert_true(stet_txn_doomed(y));
	unit_end(y);
	unit_destroy(u);
}

/* SERIALIZABLE: what was read must be the same at ordering, and nothing else. */
struct read_case {
	const char *what;
	int (*read)(struct unit *u, struct stet_txn *txn, uint64_t f, uint64_t d);
	int (*change)(struct unit *u, uint64_t f, uint64_t d);
	bool conflict;
};

static int read_data(struct unit *u, struct stet_txn *txn, uint64_t f, uint64_t d)
{
	char buf[4];

	(void)d;
	return (int)unit_read(u, txn, f, 0, buf, 4) < 0;
}

static int read_attr(struct unit *u, struct stet_txn *txn, uint64_t f, uint64_t d)
{
	struct stet_fs_attr attr;

	(void)d;
	return unit_getattr(u, txn, f, &attr);
}

static int read_absent(struct unit *u, struct stet_txn *txn, uint64_t f, uint64_t d)
{
	(void)f;
	return unit_lookup(u, txn, d, "new", NULL) == -ENOENT ? 0 : 1;
}

static int read_list(struct unit *u, struct stet_txn *txn, uint64_t f, uint64_t d)
{
	char text[64];

	(void)f;
	return unit_list(u, txn, d, text, sizeof(text));
}

static int read_xattrs(struct unit *u, struct stet_txn *txn, uint64_t f, uint64_t d)
{
	char text[64];

	(void)d;
	return unit_xattr_list(u, txn, f, text, sizeof(text)) < 0;
}

static int write_data(struct unit *u, uint64_t f, uint64_t d)
{
	(void)d;
	return unit_write(u, NULL, f, 0, "new!", 4);
}

static int set_atime(struct unit *u, uint64_t f, uint64_t d)
{
	const struct stet_fs_attr set = { .atime_ns = 42 };

	(void)d;
	return unit_setattr(u, NULL, f, STET_FS_SET_ATIME | STET_FS_SET_CTIME, &set);
}

static int set_mode(struct unit *u, uint64_t f, uint64_t d)
{
	const struct stet_fs_attr set = { .mode = 0666 };

	(void)d;
	return unit_setattr(u, NULL, f, STET_FS_SET_MODE, &set);
}

static int add_name(struct unit *u, uint64_t f, uint64_t d)
{
	(void)f;
	return unit_make(u, NULL, d, "new", FILE_MODE, NULL);
}

static int add_other(struct unit *u, uint64_t f, uint64_t d)
{
	(void)f;
	return unit_make(u, NULL, d, "other", FILE_MODE, NULL);
}

static int add_xattr(struct unit *u, uint64_t f, uint64_t d)
{
	(void)d;
	return unit_xattr_set(u, NULL, f, "user.x", "1", 1, 0);
}

static void test_reads(void **state)
{
	static const struct read_case cases[] = {
		{ "data by write", read_data, write_data, true },
		{ "data by chmod", read_data, set_mode, false },
		{ "data by atime", read_data, set_atime, false },
		{ "attributes by write", read_attr, write_data, true },
		{ "attributes by chmod", read_attr, set_mode, true },
		{ "absent name by it", read_absent, add_name, true },
		{ "absent name by another", read_absent, add_other, false },
		{ "listing by a name", read_list, add_other, true },
		{ "listing by data", read_list, write_data, false },
		{ "xattr names by one", read_xattrs, add_xattr, true },
		{ "data by xattr", read_data, add_xattr, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct read_case *c = &cases[i];
		struct unit *u = unit_create(NULL);
		uint64_t d = make(u, NULL, 1, "d", DIR_MODE);
		uint64_t f = make(u, NULL, d, "f", FILE_MODE);
		struct stet_txn *x, *y;
		int rc;

		assert_int_equal(unit_write(u, NULL, f, 0, "old.", 4), 0);
		x = unit_begin(u, Z);
		y = unit_begin(u, S);
		assert_int_equal(c->read(u, x, f, d), 0);
		assert_int_equal(c->read(u, y, f, d), 0);
		make(u, x, 1, "x", FILE_MODE);
		make(u, y, 1, "y", FILE_MODE);
		assert_int_equal(c->change(u, f, d), 0);
		assert_int_equal(unit_order(u, y), 0); /* SNAPSHOT does not mind */
		rc = unit_order(u, x);
		if (rc != (c->conflict ? -EBUSY : 0))
			fail_msg("%s: %d", c->what, rc);
		if (c->conflict)
			assert_string_not_equal(unit_conflict, "");
		unit_destroy(u);
	}
}

/* Two serializable transactions that each read what the other writes: one must go (write skew). */
static void test_skew(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t a = make(u, NULL, 1, "a", FILE_MODE), b = make(u, NULL, 1, "b", FILE_MODE);
	struct stet_txn *x = unit_begin(u, Z), *y = unit_begin(u, Z);
	char buf[4];

	(void)state;
	assert_int_equal(unit_read(u, x, a, 0, buf, 1), 0);
	assert_int_equal(unit_read(u, y, b, 0, buf, 1), 0);
	assert_int_equal(unit_write(u, x, b, 0, "1", 1), 0);
	assert_int_equal(unit_write(u, y, a, 0, "1", 1), 0);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_order(u, y), -EBUSY);
	unit_destroy(u);
}

/* A directory is removed while another adds a name: locks at first, then the claims. */
static void test_rmdir(void **state)
{
	struct unit *u = unit_create(NULL);
	struct stet_txn *x, *y;
	uint64_t d;

	(void)state;
	d = make(u, NULL, 1, "d", DIR_MODE);
	x = unit_begin(u, S);
	y = unit_begin(u, S);
	make(u, x, d, "f", FILE_MODE);
	assert_int_equal(unit_rmdir(u, y, 1, "d"), -EBUSY);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_rmdir(u, y, 1, "d"), 0); /* empty in its view */
	assert_int_equal(unit_order(u, y), -EBUSY);
	assert_non_null(strstr(unit_conflict, "added a name"));
	y = unit_begin(u, S);
	assert_int_equal(unit_unlink(u, NULL, d, "f"), 0);
	unit_end(y);
	x = unit_begin(u, S);
	y = unit_begin(u, S);
	assert_int_equal(unit_rmdir(u, x, 1, "d"), 0);
	assert_int_equal(unit_make(u, y, d, "g", FILE_MODE, NULL), -EBUSY);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_make(u, y, d, "g", FILE_MODE, NULL), -EBUSY); /* first updater */
	assert_true(stet_txn_doomed(y));
	unit_end(y);
	unit_destroy(u);
}

/* Two directories move below each other. */
static void test_loop(void **state)
{
	const enum stet_level levels[] = { S, Z, L };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct unit *u = unit_create(NULL);
		uint64_t a = make(u, NULL, 1, "a", DIR_MODE), b = make(u, NULL, 1, "b", DIR_MODE);
		uint64_t a1 = make(u, NULL, a, "a1", DIR_MODE);
		uint64_t b1 = make(u, NULL, b, "b1", DIR_MODE);
		struct stet_txn *x = unit_begin(u, levels[i]), *y = unit_begin(u, levels[i]);
		int rc;

		assert_int_equal(unit_rename(u, x, 1, "a", b1, "in", 0), 0);
		rc = unit_rename(u, y, 1, "b", a1, "in", 0);
		assert_int_equal(rc, levels[i] == L ? -EBUSY : 0);
		assert_int_equal(unit_order(u, x), 0);
		if (levels[i] ==
		    L) { /* the way up was locked: it would have waited, and then seen */
			assert_int_equal(unit_rename(u, y, 1, "b", a1, "in", 0), -EINVAL);
			assert_int_equal(unit_order(u, y), 0);
		} else {
			assert_int_equal(unit_order(u, y), -EBUSY);
		}
		if (levels[i] == S)
			assert_non_null(strstr(unit_conflict, "below itself"));
		unit_destroy(u);
	}
}

/* A name is added to an inode that loses its last; an inode is changed that loses its last. */
static void test_gone(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f", FILE_MODE);
	struct stet_txn *x = unit_begin(u, S), *y;

	(void)state;
	assert_int_equal(unit_link(u, x, f, 1, "g"), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "f"), 0);
	unit_idle(u); /* reclaim waits for the transaction */
	assert_int_equal(unit_order(u, x), -EBUSY);
	assert_non_null(strstr(unit_conflict, "took its last"));
	f = make(u, NULL, 1, "f", FILE_MODE);
	x = unit_begin(u, S);
	y = unit_begin(u, S);
	assert_int_equal(unit_write(u, x, f, 0, "x", 1), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "f"), 0);
	unit_idle(u);
	assert_int_equal(unit_order(u, x), -EBUSY); /* the first updater wins, also by removing */
	assert_non_null(strstr(unit_conflict, "another removed it"));
	unit_idle(u);
	assert_int_equal(unit_write(u, y, f, 0, "y", 1), -EBUSY);
	unit_end(y);
	unit_destroy(u);
}

/* Two transactions take the two names of one inode: the second to be ordered makes the orphan. */
static void test_two_unlinks(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f", FILE_MODE);
	struct stet_fs_attr attr;
	struct stet_txn *x, *y;

	(void)state;
	assert_int_equal(unit_link(u, NULL, f, 1, "g"), 0);
	x = unit_begin(u, S);
	y = unit_begin(u, S);
	assert_int_equal(unit_unlink(u, x, 1, "f"), 0);
	assert_int_equal(unit_unlink(u, y, 1, "g"), 0);
	assert_int_equal(unit_getattr(u, y, f, &attr), 0);
	assert_int_equal(attr.nlink, 1);
	assert_int_equal(unit_order(u, x), 0);
	unit_check(u);
	assert_int_equal(unit_order(u, y), 0);
	unit_check(u);
	unit_idle(u);
	assert_int_equal(unit_getattr(u, NULL, f, &attr), -ENOENT);
	unit_destroy(u);
}

/* LOCKING: readers keep writers out, ranges that do not overlap do not meet, listings see no
 * phantoms. */
static void test_locking(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f", FILE_MODE), d = make(u, NULL, 1, "d", DIR_MODE);
	static char zero[64 << 10];
	struct stet_txn *x, *y;
	char text[64];

	(void)state;
	for (uint64_t off = 0; off < 1 << 20; off += sizeof(zero))
		assert_int_equal(unit_write(u, NULL, f, off, zero, sizeof(zero)), 0);
	x = unit_begin(u, L);
	y = unit_begin(u, L);
	assert_int_equal(unit_write(u, x, f, 0, "x", 1), 0);
	assert_int_equal(unit_write(u, y, f, 512 << 10, "y", 1), 0);
	assert_int_equal(unit_write(u, NULL, f, 768 << 10, "p", 1), 0);
	assert_int_equal(unit_read(u, y, f, 768 << 10, text, 1), 1);
	assert_int_equal(text[0], 'p'); /* the current state */
	assert_int_equal(unit_write(u, NULL, f, 768 << 10, "q", 1), -EBUSY);
	assert_int_equal(unit_read(u, y, f, 0, text, 1), -EBUSY);
	assert_int_equal(unit_list(u, y, d, text, sizeof(text)), 0);
	assert_int_equal(unit_make(u, x, d, "n", FILE_MODE, NULL), -EBUSY);
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_make(u, x, d, "n", FILE_MODE, NULL), 0);
	assert_int_equal(unit_read(u, x, f, 512 << 10, text, 1), 1);
	assert_int_equal(text[0], 'y');
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_read(u, NULL, f, 0, text, 1), 1);
	assert_int_equal(text[0], 'x');
	unit_check(u);
	/* A listing shows what was committed since the transaction began. */
	x = unit_begin(u, L);
	make(u, NULL, d, "o", FILE_MODE);
	assert_int_equal(unit_list(u, x, d, text, sizeof(text)), 0);
	assert_string_equal(text, "n/o/");
	unit_end(x);
	unit_destroy(u);
}

/* 3000 names in one directory cost one claim each kind, and few locks for what is created
 * inside. */
static void test_locks_few(void **state)
{
	struct unit *u = unit_create(NULL);
	struct stet_txn *x = unit_begin(u, Z);
	struct stet_txn_info info;
	char name[32];
	uint64_t d = make(u, x, 1, "d", DIR_MODE);

	(void)state;
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		uint64_t f = make(u, x, d, name, FILE_MODE);

		assert_int_equal(unit_write(u, x, f, 0, "data", 4), 0);
	}
	stet_txn_info(x, &info);
	assert_true(info.locks_held <= 4);
	assert_int_equal(unit_order(u, x), 0);
	unit_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),       cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_data),        cmocka_unit_test(test_reads),
		cmocka_unit_test(test_skew),        cmocka_unit_test(test_rmdir),
		cmocka_unit_test(test_loop),        cmocka_unit_test(test_gone),
		cmocka_unit_test(test_two_unlinks), cmocka_unit_test(test_locking),
		cmocka_unit_test(test_locks_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
