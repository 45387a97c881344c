/* test_acl.c - POSIX ACLs: checking, mode and ACL in step, inheritance, transactions. */
#include "fs/acl.h"
#include "unit.h"

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
#define NO_ID UINT32_MAX

enum { U_OBJ = 1, U = 2, G_OBJ = 4, G = 8, M = 16, O = 32 };

struct entry {
	uint16_t tag, perm;
	uint32_t id;
};

struct acl {
	uint8_t b[STET_FS_ACL_BYTES_MAX + 8];
	size_t len;
};

static void put(struct acl *acl, uint32_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		acl->b[acl->len++] = (uint8_t)(v >> 8 * i);
}

static struct acl acl_of(const struct entry *entries, size_t n)
{
	struct acl acl = { .len = 0 };

	put(&acl, 2, 4);
	for (size_t i = 0; i < n; i++) {
		put(&acl, entries[i].tag, 2);
		put(&acl, entries[i].perm, 2);
		put(&acl, entries[i].id, 4);
	}
	return acl;
}

#define ACL(...)                                      \
	acl_of((const struct entry[]){ __VA_ARGS__ }, \
	       sizeof((const struct entry[]){ __VA_ARGS__ }) / sizeof(struct entry))

static int set(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name,
	       const struct acl *acl, unsigned flags)
{
	return unit_xattr_set(u, txn, ino, name, acl->b, acl->len, flags);
}

static void expect(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name,
		   const struct acl *wanted)
{
	uint8_t got[STET_FS_ACL_BYTES_MAX];

	assert_int_equal(unit_xattr_get(u, txn, ino, name, got, sizeof(got)), wanted->len);
	assert_memory_equal(got, wanted->b, wanted->len);
}

static void expect_none(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name)
{
	uint8_t got[8];

	assert_int_equal(unit_xattr_get(u, txn, ino, name, got, sizeof(got)), -ENODATA);
}

static uint32_t mode_of(struct unit *u, struct stet_txn *txn, uint64_t ino)
{
	struct stet_fs_attr attr;

	assert_int_equal(unit_getattr(u, txn, ino, &attr), 0);
	return attr.mode & 07777;
}

static int chmod_to(struct unit *u, struct stet_txn *txn, uint64_t ino, uint32_t mode)
{
	const struct stet_fs_attr attr = { .mode = mode };

	return unit_setattr(u, txn, ino, STET_FS_SET_MODE, &attr);
}

static uint64_t make(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name,
		     uint32_t mode)
{
	uint64_t ino;

	assert_int_equal(unit_make(u, txn, dir, name, mode, &ino), 0);
	return ino;
}

/* --- what is an ACL --- */

static void test_checking(void **state)
{
	static const struct {
		struct entry e[6];
		size_t n;
		int rc;
	} cases[] = {
		{ { { U_OBJ, 7, 1 }, { G_OBJ, 5, 2 }, { O, 0, 3 } }, 3, 0 },
		{ { { U_OBJ, 7, 1 }, { G_OBJ, 5, 2 }, { M, 7, 0 }, { O, 0, 3 } }, 4, 0 },
		{ { { U_OBJ, 7, 0 },
		    { U, 7, 0 },
		    { U, 1, 9 },
		    { G_OBJ, 5, 0 },
		    { M, 7, 0 },
		    { O, 0, 0 } },
		  6,
		  0 },
		{ { { 0 } }, 0, 0 },
		{ { { U_OBJ, 7, 0 }, { G_OBJ, 5, 0 } }, 2, -EINVAL }, /* no others */
		{ { { G_OBJ, 5, 0 }, { O, 0, 0 } }, 2, -EINVAL },     /* no owner */
		{ { { U_OBJ, 7, 0 }, { O, 0, 0 } }, 2, -EINVAL },     /* no group */
		{ { { U_OBJ, 7, 0 }, { U, 7, 5 }, { G_OBJ, 5, 0 }, { O, 0, 0 } },
		  4,
		  -EINVAL }, /* no mask */
		{ { { U_OBJ, 7, 0 }, { G_OBJ, 5, 0 }, { G, 7, 5 }, { O, 0, 0 } },
		  4,
		  -EINVAL },                                                       /* no mask */
		{ { { G_OBJ, 5, 0 }, { U_OBJ, 7, 0 }, { O, 0, 0 } }, 3, -EINVAL }, /* order */
		{ { { U_OBJ, 7, 0 }, { U_OBJ, 7, 0 }, { G_OBJ, 5, 0 }, { O, 0, 0 } },
		  4,
		  -EINVAL }, /* twice */
		{ { { U_OBJ, 7, 0 }, { G_OBJ, 5, 0 }, { O, 0, 0 }, { O, 0, 0 } }, 4, -EINVAL },
		{ { { U_OBJ, 8, 0 }, { G_OBJ, 5, 0 }, { O, 0, 0 } }, 3, -EINVAL }, /* bits */
		{ { { U_OBJ, 7, 0 }, { G_OBJ, 5, 0 }, { 3, 0, 0 }, { O, 0, 0 } },
		  4,
		  -EINVAL }, /* tag */
		{ { { U_OBJ, 7, 0 }, { G_OBJ, 5, 0 }, { O, 0, 0 }, { 64, 0, 0 } }, 4, -EINVAL },
		{ { { U_OBJ, 7, 0 }, { U, 7, NO_ID }, { G_OBJ, 5, 0 }, { M, 7, 0 }, { O, 0, 0 } },
		  5,
		  -EINVAL },
	};
	struct acl acl;
	bool empty;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		acl = acl_of(cases[i].e, cases[i].n);
		assert_int_equal(stet_fs_acl_check(acl.b, acl.len, &empty), cases[i].rc);
		if (cases[i].rc == 0)
			assert_int_equal(empty, cases[i].n == 0);
	}
	acl = ACL({ U_OBJ, 7, 1 }, { U, 7, 1 }, { G_OBJ, 5, 1 }, { M, 7, 1 }, { O, 0, 1 });
	for (size_t len = 1; len < acl.len; len++)
		assert_int_equal(stet_fs_acl_check(acl.b, len, &empty), len == 4 ? 0 : -EINVAL);
	assert_int_equal(stet_fs_acl_check(acl.b, acl.len, &empty), 0);
	const struct acl canonical = ACL({ U_OBJ, 7, NO_ID }, { U, 7, 1 }, { G_OBJ, 5, NO_ID },
					 { M, 7, NO_ID }, { O, 0, NO_ID });
	assert_memory_equal(acl.b, canonical.b, acl.len);
	acl.b[0] = 1;
	assert_int_equal(stet_fs_acl_check(acl.b, acl.len, &empty), -EOPNOTSUPP);
	assert_int_equal(stet_fs_acl_check(acl.b, 0, &empty), 0);
	assert_true(empty);
}

/* --- mode and ACL --- */

static void test_in_step(void **state)
{
	const struct acl named = ACL({ U_OBJ, 6, NO_ID }, { U, 7, 1000 }, { G_OBJ, 4, NO_ID },
				     { M, 7, NO_ID }, { O, 1, NO_ID });
	const struct acl narrow = ACL({ U_OBJ, 5, NO_ID }, { U, 7, 1000 }, { G_OBJ, 4, NO_ID },
				      { M, 2, NO_ID }, { O, 0, NO_ID });
	const struct acl plain = ACL({ U_OBJ, 7, 0 }, { G_OBJ, 3, 0 }, { O, 2, 0 });
	const struct acl masked = ACL({ U_OBJ, 6, NO_ID }, { G_OBJ, 6, NO_ID }, { M, 4, NO_ID },
				      { O, 0, NO_ID });
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f", S_IFREG | 02755);

	(void)state;
	assert_int_equal(set(u, NULL, f, ACCESS, &named, 0), 0);
	assert_int_equal(mode_of(u, NULL, f), 02671);
	expect(u, NULL, f, ACCESS, &named);
	assert_int_equal(chmod_to(u, NULL, f, 0520), 0);
	expect(u, NULL, f, ACCESS, &narrow);
	unit_reopen(u);
	expect(u, NULL, f, ACCESS, &narrow);
	assert_int_equal(chmod_to(u, NULL, f, 02671), 0);
	expect(u, NULL, f, ACCESS, &named);
	assert_int_equal(set(u, NULL, f, ACCESS, &named, STET_FS_XATTR_KILL_SGID), 0);
	assert_int_equal(mode_of(u, NULL, f), 0671);
	assert_int_equal(set(u, NULL, f, ACCESS, &plain, 0), 0);
	assert_int_equal(mode_of(u, NULL, f), 0732);
	expect_none(u, NULL, f, ACCESS);
	assert_int_equal(set(u, NULL, f, ACCESS, &masked, 0), 0);
	assert_int_equal(mode_of(u, NULL, f), 0640);
	expect(u, NULL, f, ACCESS, &masked);
	assert_int_equal(unit_xattr_remove(u, NULL, f, ACCESS), 0);
	assert_int_equal(mode_of(u, NULL, f), 0640);
	expect_none(u, NULL, f, ACCESS);
	assert_int_equal(unit_xattr_remove(u, NULL, f, ACCESS), 0);
	unit_destroy(u);
}

static void test_refused(void **state)
{
	const struct acl named = ACL({ U_OBJ, 6, 0 }, { U, 7, 1000 }, { G_OBJ, 4, 0 }, { M, 7, 0 },
				     { O, 1, 0 });
	const struct acl bad = ACL({ U_OBJ, 6, 0 });
	const struct acl empty = { .b = { 2 }, .len = 4 };
	struct acl large = { .len = 0 };
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f", S_IFREG | 0644), l;

	(void)state;
	assert_int_equal(unit_symlink(u, NULL, 1, "l", "f", 1, &l), 0);
	assert_int_equal(set(u, NULL, l, ACCESS, &named, 0), -EOPNOTSUPP);
	assert_int_equal(set(u, NULL, l, DEFAULT, &named, 0), -EOPNOTSUPP);
	assert_int_equal(set(u, NULL, f, DEFAULT, &named, 0), -EACCES);
	assert_int_equal(set(u, NULL, f, DEFAULT, &empty, 0), 0);
	assert_int_equal(set(u, NULL, f, ACCESS, &bad, 0), -EINVAL);
	assert_int_equal(mode_of(u, NULL, f), 0644);
	put(&large, 2, 4);
	for (unsigned i = 0; i < 512; i++) {
		put(&large, i == 0 ? U_OBJ : i < 509 ? U : i == 509 ? G_OBJ : i == 510 ? M : O, 2);
		put(&large, 7, 2);
		put(&large, i, 4);
	}
	assert_int_equal(unit_xattr_set(u, NULL, f, ACCESS, large.b, large.len, 0), -E2BIG);
	memmove(large.b + 12, large.b + 20, large.len - 20); /* 511 are not too many */
	assert_int_equal(unit_xattr_set(u, NULL, f, ACCESS, large.b, large.len - 8, 0), 0);
	assert_int_equal(mode_of(u, NULL, f), 0777);
	assert_int_equal(unit_xattr_get(u, NULL, f, ACCESS, large.b, sizeof(large.b)), 4092);
	assert_int_equal(set(u, NULL, f, ACCESS, &named, 0), 0);
	unit_destroy(u);
}

/* --- inheritance --- */

static uint64_t make_masked(struct unit *u, uint64_t dir, const char *name, uint32_t mode)
{
	const struct stet_fs_new what = { .mode = mode, .umask = 077 };
	struct stet_txn *txn;
	struct stet_fs_ctx ctx = { .fs = u->fs, .wait = true };
	struct stet_ticket ticket;
	uint64_t ino;

	stet_ticket_init(&ticket, NULL, NULL);
	assert_int_equal(stet_txn_begin(u->engine, STET_LEVEL_PLAIN, false, &txn), 0);
	ctx.txn = txn;
	ctx.ticket = &ticket;
	assert_int_equal(stet_fs_make(&ctx, dir, unit_name(name), &what, &ino), 0);
	assert_int_equal(unit_order(u, txn), 0);
	return ino;
}

static void test_inheritance(void **state)
{
	const struct acl dflt = ACL({ U_OBJ, 7, NO_ID }, { U, 7, 1000 }, { G_OBJ, 5, NO_ID },
				    { M, 7, NO_ID }, { O, 5, NO_ID });
	const struct acl of_file = ACL({ U_OBJ, 6, NO_ID }, { U, 7, 1000 }, { G_OBJ, 5, NO_ID },
				       { M, 4, NO_ID }, { O, 0, NO_ID });
	const struct acl plain = ACL({ U_OBJ, 7, NO_ID }, { G_OBJ, 5, NO_ID }, { O, 0, NO_ID });
	struct unit *u = unit_create(NULL);
	uint64_t d = make(u, NULL, 1, "d", S_IFDIR | 0755), f, s, l;

	(void)state;
	assert_int_equal(mode_of(u, NULL, make_masked(u, d, "a", S_IFREG | 0666)), 0600);
	assert_int_equal(set(u, NULL, d, DEFAULT, &dflt, 0), 0);
	assert_int_equal(mode_of(u, NULL, d), 0755);
	f = make(u, NULL, d, "f", S_IFREG | 0640);
	assert_int_equal(mode_of(u, NULL, f), 0640);
	expect(u, NULL, f, ACCESS, &of_file);
	expect_none(u, NULL, f, DEFAULT);
	assert_int_equal(mode_of(u, NULL, make_masked(u, d, "g", S_IFREG | 0666)), 0664);
	s = make(u, NULL, d, "s", S_IFDIR | 0777);
	assert_int_equal(mode_of(u, NULL, s), 0775);
	expect(u, NULL, s, ACCESS, &dflt);
	expect(u, NULL, s, DEFAULT, &dflt);
	assert_int_equal(unit_symlink(u, NULL, d, "l", "f", 1, &l), 0);
	assert_int_equal(mode_of(u, NULL, l), 0777);
	expect_none(u, NULL, l, ACCESS);
	assert_int_equal(mode_of(u, NULL, make(u, NULL, s, "p", S_IFIFO | 0600)), 0600);
	assert_int_equal(set(u, NULL, d, DEFAULT, &plain, 0), 0); /* kept, though it is one */
	expect(u, NULL, d, DEFAULT, &plain);
	f = make(u, NULL, d, "h", S_IFREG | 0666);
	assert_int_equal(mode_of(u, NULL, f), 0640);
	expect_none(u, NULL, f, ACCESS);
	assert_int_equal(unit_xattr_remove(u, NULL, d, DEFAULT), 0);
	assert_int_equal(mode_of(u, NULL, make_masked(u, d, "i", S_IFREG | 0666)), 0600);
	unit_destroy(u);
}

/* --- transactions --- */

static void test_conflicts(void **state)
{
	const struct acl named = ACL({ U_OBJ, 6, NO_ID }, { U, 7, 1000 }, { G_OBJ, 4, NO_ID },
				     { M, 7, NO_ID }, { O, 1, NO_ID });
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f", S_IFREG | 0644),
		 d = make(u, NULL, 1, "d", S_IFDIR | 0755);
	struct stet_txn *x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	struct stet_txn *y = unit_begin(u, STET_LEVEL_SNAPSHOT);

	(void)state;
	/* Both change what the mode says. */
	assert_int_equal(set(u, x, f, ACCESS, &named, 0), 0);
	assert_int_equal(mode_of(u, x, f), 0671);
	assert_int_equal(mode_of(u, NULL, f), 0644);
	expect_none(u, NULL, f, ACCESS);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(chmod_to(u, y, f, 0600), -EBUSY);
	unit_end(y);
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	y = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(chmod_to(u, x, f, 0600), 0);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(set(u, y, f, ACCESS, &named, 0), -EBUSY);
	unit_end(y);
	/* What was read of the ACL is in the mode. */
	x = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	assert_int_equal(unit_xattr_get(u, x, f, ACCESS, (uint8_t[100]){ 0 }, 100), named.len);
	make(u, x, 1, "other", S_IFREG | 0600);
	assert_int_equal(chmod_to(u, NULL, f, 0640), 0);
	assert_int_equal(unit_order(u, x), -EBUSY);
	/* What is made depends on the default ACL. */
	x = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	make(u, x, d, "n", S_IFREG | 0600);
	assert_int_equal(set(u, NULL, d, DEFAULT, &named, 0), 0);
	assert_int_equal(unit_order(u, x), -EBUSY);
	/* A default ACL is not the mode's business. */
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(unit_xattr_remove(u, x, d, DEFAULT), 0);
	assert_int_equal(chmod_to(u, NULL, d, 0700), 0);
	assert_int_equal(unit_order(u, x), 0);
	expect_none(u, NULL, d, DEFAULT);
	unit_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_checking),  cmocka_unit_test(test_in_step),
		cmocka_unit_test(test_refused),   cmocka_unit_test(test_inheritance),
		cmocka_unit_test(test_conflicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
