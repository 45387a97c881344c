/* test_xattr.c - extended attributes: names, sizes, chunks, transactions. */
#include "unit.h"

static uint8_t big[STET_XATTR_SIZE_MAX], back[STET_XATTR_SIZE_MAX + 1];

static uint64_t make(struct unit *u)
{
	uint64_t ino;

	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &ino), 0);
	return ino;
}

static void answers(struct unit *u, struct stet_txn *txn, uint64_t f)
{
	char list[64], name[300];

	assert_int_equal(unit_xattr_get(u, txn, f, "user.a", back, 10), -ENODATA);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.a", "one", 3, STET_FS_XATTR_REPLACE),
			 -ENODATA);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.a", "one", 3, STET_FS_XATTR_CREATE), 0);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.a", "two", 3, STET_FS_XATTR_CREATE),
			 -EEXIST);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.a", "two!", 4, STET_FS_XATTR_REPLACE), 0);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.empty", "", 0, 0), 0);
	assert_int_equal(unit_xattr_get(u, txn, f, "user.a", back, 0), 4);
	assert_int_equal(unit_xattr_get(u, txn, f, "user.a", back, 3), -ERANGE);
	assert_int_equal(unit_xattr_get(u, txn, f, "user.a", back, 4), 4);
	assert_memory_equal(back, "two!", 4);
	assert_int_equal(unit_xattr_get(u, txn, f, "user.empty", back, 4), 0);
	assert_int_equal(unit_xattr_list(u, txn, f, list, 0), 18);
	assert_int_equal(unit_xattr_list(u, txn, f, list, 17), -ERANGE);
	assert_int_equal(unit_xattr_list(u, txn, f, list, sizeof(list)), 18);
	assert_memory_equal(list, "user.a\0user.empty", 18);
	assert_int_equal(unit_xattr_set(u, txn, f, "nodot", "x", 1, 0), -EOPNOTSUPP);
	assert_int_equal(unit_xattr_set(u, txn, f, "\x01.x", "x", 1, 0), -EOPNOTSUPP);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.", "x", 1, 0), -EINVAL);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.a", "x", 1,
					STET_FS_XATTR_CREATE | STET_FS_XATTR_REPLACE),
			 -EEXIST);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.none", "x", 1,
					STET_FS_XATTR_CREATE | STET_FS_XATTR_REPLACE),
			 -ENODATA);
	assert_int_equal(unit_xattr_set(u, txn, f, "user.b", big, sizeof(big) + 1, 0), -E2BIG);
	memset(name, 'n', sizeof(name));
	memcpy(name, "user.", 5);
	name[256] = '\0';
	assert_int_equal(unit_xattr_set(u, txn, f, name, "x", 1, 0), -ERANGE);
	assert_int_equal(unit_xattr_remove(u, txn, f, "user.b"), -ENODATA);
	assert_int_equal(unit_xattr_remove(u, txn, f, "user.a"), 0);
	assert_int_equal(unit_xattr_remove(u, txn, f, "user.empty"), 0);
	assert_int_equal(unit_xattr_list(u, txn, f, list, sizeof(list)), 0);
	assert_int_equal(unit_xattr_get(u, txn, 999, "user.a", back, 10), -ENOENT);
}

static void test_answers(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u);
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_LOCKING);

	(void)state;
	answers(u, txn, f);
	assert_int_equal(unit_order(u, txn), 0);
	txn = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	answers(u, txn, f);
	assert_int_equal(unit_order(u, txn), 0);
	answers(u, NULL, f);
	unit_destroy(u);
}

/* Values around the limits, through the log and the tree. */
static void test_large(void **state)
{
	const size_t sizes[] = { 1, 2047, 2048, 2049, 4096, 4097, 40000, 65536 };
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u);
	char name[32];

	(void)state;
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 7 + (i >> 8));
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 8; i++) {
			(void)snprintf(name, sizeof(name), "user.x%zu", i);
			assert_int_equal(
				unit_xattr_set(u, NULL, f, name, big + round,
					       sizes[(i + (size_t)round) % 8] -
						       (size_t)round *
							       (sizes[(i + (size_t)round) % 8] > 3),
					       0),
				0);
		}
		if (round == 1)
			unit_reopen(u);
		for (size_t i = 0; i < 8; i++) {
			size_t want = sizes[(i + (size_t)round) % 8] -
				      (size_t)round * (sizes[(i + (size_t)round) % 8] > 3);

			(void)snprintf(name, sizeof(name), "user.x%zu", i);
			assert_int_equal(unit_xattr_get(u, NULL, f, name, back, sizeof(back)),
					 want);
			assert_memory_equal(back, big + round, want);
		}
		assert_int_equal(unit_xattr_list(u, NULL, f, NULL, 0), 8 * 8);
		unit_flush(u, true);
	}
	assert_int_equal(unit_unlink(u, NULL, 1, "f"), 0);
	unit_destroy(u);
}

/* A large value is read as of the view, replaced as one, and dropped with its transaction. */
static void test_views(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u);
	struct stet_txn *x, *y;

	(void)state;
	memset(big, 'o', sizeof(big));
	assert_int_equal(unit_xattr_set(u, NULL, f, "user.v", big, 10000, 0), 0);
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	y = unit_begin(u, STET_LEVEL_SNAPSHOT);
	memset(big, 'n', sizeof(big));
	assert_int_equal(unit_xattr_set(u, x, f, "user.v", big, 9000, 0), 0);
	assert_int_equal(unit_xattr_set(u, y, f, "user.v", big, 9000, 0), -EBUSY);
	assert_int_equal(unit_xattr_set(u, y, f, "user.w", big, 9000, 0), 0);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_xattr_get(u, y, f, "user.v", back, sizeof(back)), 10000);
	assert_int_equal(back[9999], 'o');
	unit_end(y);
	assert_int_equal(unit_xattr_get(u, NULL, f, "user.v", back, sizeof(back)), 9000);
	assert_int_equal(back[8999], 'n');
	assert_int_equal(unit_xattr_get(u, NULL, f, "user.w", back, sizeof(back)), -ENODATA);
	unit_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_views),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
