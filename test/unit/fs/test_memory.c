/* test_memory.c - every allocation of every operation fails once: the operation fails as a whole,
 * the volume goes on, and nothing is lost. */
#include "unit.h"

#include "base/mem.h"

static uint8_t data[300 << 10];

struct fixture {
	struct unit *u;
	uint64_t d, f, small, sparse;
};

static void prepare(struct fixture *x)
{
	x->u = unit_create(NULL);
	assert_int_equal(unit_make(x->u, NULL, 1, "d", S_IFDIR | 0700, &x->d), 0);
	assert_int_equal(unit_make(x->u, NULL, 1, "f", S_IFREG | 0600, &x->f), 0);
	assert_int_equal(unit_make(x->u, NULL, x->d, "small", S_IFREG | 0600, &x->small), 0);
	assert_int_equal(unit_make(x->u, NULL, 1, "sparse", S_IFREG | 0600, &x->sparse), 0);
	memset(data, 'd', sizeof(data));
	assert_int_equal(unit_write(x->u, NULL, x->f, 0, data, sizeof(data)), 0);
	assert_int_equal(unit_write(x->u, NULL, x->small, 0, "small", 5), 0);
	assert_int_equal(unit_xattr_set(x->u, NULL, x->f, "user.big", data, 5000, 0), 0);
	for (uint64_t i = 0; i < 300; i++)
		assert_int_equal(unit_write(x->u, NULL, x->sparse, i << 13, data, 4096), 0);
	unit_flush(x->u, true);
}

static int op(struct fixture *x, struct stet_txn *txn, int which)
{
	struct stet_fs_attr set = { .mode = 0640 };

	switch (which) {
	case 0:
		return unit_make(x->u, txn, x->d, "new", S_IFREG | 0600, NULL);
	case 1:
		return unit_unlink(x->u, txn, x->d, "small");
	case 2:
		return unit_rename(x->u, txn, 1, "f", x->d, "small", 0);
	case 3:
		return unit_rename(x->u, txn, 1, "f", x->d, "small", STET_FS_RENAME_EXCHANGE);
	case 4:
		return unit_link(x->u, txn, x->f, x->d, "link");
	case 5:
		return unit_write(x->u, txn, x->f, 1000, data, 100000);
	case 6:
		return unit_write(x->u, txn, x->f, 5000, "patch", 5);
	case 7:
		return unit_write(x->u, txn, x->small, 3000, data, 3000);
	case 8:
		return unit_append(x->u, txn, x->f, data, 10000);
	case 9:
		return unit_truncate(x->u, txn, x->f, 10001);
	case 10:
		return unit_truncate(x->u, txn, x->sparse, 0);
	case 11:
		return unit_punch(x->u, txn, x->f, 5000, 100000);
	case 12:
		return unit_xattr_set(x->u, txn, x->f, "user.big", data, 9000, 0);
	case 13:
		return unit_xattr_remove(x->u, txn, x->f, "user.big");
	case 14:
		return unit_setattr(x->u, txn, x->f, STET_FS_SET_MODE, &set);
	case 15:
		return unit_truncate(x->u, txn, x->f, 1 << 20);
	default:
		return -ENOSYS;
	}
}

#define OPS 16
#define TRIES_MAX 2000

/* A plain operation whose n-th allocation fails changes nothing. */
static void test_plain(void **state)
{
	struct stet_fs_attr before, after;
	struct fixture x;

	(void)state;
	for (int which = 0; which < OPS; which++) {
		int rc = -ENOMEM;

		prepare(&x);
		for (int64_t n = 1; rc && n < TRIES_MAX; n++) {
			assert_int_equal(unit_getattr(x.u, NULL, x.f, &before), 0);
			unit_fail_after = n;
			rc = op(&x, NULL, which);
			unit_fail_after = 0;
			if (rc != 0 && rc != -ENOMEM)
				fail_msg("operation %d, allocation %d: %d", which, (int)n, rc);
			if (rc == 0)
				continue;
			assert_int_equal(unit_getattr(x.u, NULL, x.f, &after), 0);
			assert_memory_equal(&before, &after, sizeof(after));
			unit_check(x.u);
		}
		assert_int_equal(rc, 0);
		unit_check(x.u);
		unit_idle(x.u);
		unit_destroy(x.u);
	}
}

/* In a transaction it may doom the transaction, no more. */
static void test_txn(void **state)
{
	struct fixture x;

	(void)state;
	for (int which = 0; which < OPS; which++) {
		int rc = -ENOMEM;

		prepare(&x);
		for (int64_t n = 1; rc && n < TRIES_MAX; n++) {
			struct stet_txn *txn = unit_begin(x.u, STET_LEVEL_SERIALIZABLE);

			unit_fail_after = n;
			rc = op(&x, txn, which);
			if (rc)
				unit_end(txn);
			else
				rc = unit_order(x.u, txn);
			unit_fail_after = 0;
			if (rc != 0 && rc != -ENOMEM)
				fail_msg("operation %d, allocation %d: %d", which, (int)n, rc);
			unit_check(x.u);
		}
		assert_int_equal(rc, 0);
		unit_idle(x.u);
		unit_destroy(x.u);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_txn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
