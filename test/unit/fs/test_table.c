/* test_table.c - record tables: single records, order, transactions, values in blocks, reclaim. */
#include "unit.h"

#define TABLE (STET_MODE_TABLE | 0600u)
#define MAX STET_RECORD_SIZE_MAX

static uint8_t big[MAX + 1], back[MAX + 1];
static char list[8192];

static uint64_t make(struct unit *u)
{
	uint64_t ino;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 7 + (i >> 8) + (i >> 16));
	assert_int_equal(unit_make(u, NULL, 1, "t", TABLE, &ino), 0);
	return ino;
}

static void answers(struct unit *u, struct stet_txn *txn, uint64_t t, uint64_t f)
{
	char key[600];

	assert_int_equal(unit_get(u, txn, t, "a", back, 10), -ENOENT);
	assert_int_equal(unit_del(u, txn, t, "a"), -ENOENT);
	assert_int_equal(unit_put(u, txn, t, "a", "1", 1, STET_FS_RECORD_REPLACE), -ENOENT);
	assert_int_equal(unit_put(u, txn, t, "a", "one", 3, STET_FS_RECORD_CREATE), 0);
	assert_int_equal(unit_put(u, txn, t, "a", "two", 3, STET_FS_RECORD_CREATE), -EEXIST);
	assert_int_equal(unit_put(u, txn, t, "a", "two!", 4, STET_FS_RECORD_REPLACE), 0);
	assert_int_equal(unit_put(u, txn, t, "empty", "", 0, 0), 0);
	assert_int_equal(unit_get(u, txn, t, "a", back, 10), 4);
	assert_memory_equal(back, "two!", 4);
	assert_int_equal(unit_get(u, txn, t, "empty", back, 10), 0);
	assert_int_equal(unit_count(u, txn, t), 2);
	assert_int_equal(unit_put(u, txn, t, "b", big, MAX + 1, 0), -E2BIG);
	assert_int_equal(unit_put(u, txn, t, "", "x", 1, 0), -EINVAL);
	memset(key, 'k', sizeof(key));
	key[513] = '\0';
	assert_int_equal(unit_put(u, txn, t, key, "x", 1, 0), -EINVAL);
	key[512] = '\0';
	assert_int_equal(unit_put(u, txn, t, key, "x", 1, 0), 0);
	assert_int_equal(unit_del(u, txn, t, key), 0);
	assert_int_equal(unit_put(u, txn, f, "a", "x", 1, 0), -EINVAL);
	assert_int_equal(unit_get(u, txn, f, "a", back, 1), -EINVAL);
	assert_int_equal(unit_count(u, txn, 1), -EINVAL);
	assert_int_equal(unit_write(u, txn, t, 0, "x", 1), -EINVAL);
	assert_int_equal(unit_truncate(u, txn, t, 0), -EINVAL);
	assert_int_equal(unit_read(u, txn, t, 0, back, 1), -EINVAL);
	assert_int_equal(unit_del(u, txn, t, "a"), 0);
	assert_int_equal(unit_del(u, txn, t, "empty"), 0);
	assert_int_equal(unit_count(u, txn, t), 0);
}

static void test_answers(void **state)
{
	const enum stet_level levels[] = { STET_LEVEL_SNAPSHOT, STET_LEVEL_SERIALIZABLE,
					   STET_LEVEL_LOCKING };
	struct unit *u = unit_create(NULL);
	uint64_t t = make(u), f, fresh;

	(void)state;
	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &f), 0);
	answers(u, NULL, t, f);
	for (size_t i = 0; i < 3; i++) {
		struct stet_txn *txn = unit_begin(u, levels[i]);
		char name[2] = { (char)('0' + i), '\0' };

		answers(u, txn, t, f);
		assert_int_equal(unit_make(u, txn, 1, name, TABLE, &fresh), 0);
		answers(u, txn, fresh, f);
		assert_int_equal(unit_order(u, txn), 0);
	}
	unit_destroy(u);
}

static int keys(struct unit *u, struct stet_txn *txn, uint64_t t, struct stet_fs_limits limits,
		bool reverse, uint32_t step)
{
	return unit_keys(u, txn, t, &limits, reverse, step, list, sizeof(list));
}

#define KEY(text)                  \
	{                          \
		text, strlen(text) \
	}
#define KEYS(want, reverse, ...)                                                                 \
	do {                                                                                     \
		for (uint32_t step = 1; step < 4; step++) {                                      \
			assert_int_equal(keys(u, txn, t, (struct stet_fs_limits){ __VA_ARGS__ }, \
					      reverse, step),                                    \
					 0);                                                     \
			assert_string_equal(list, want);                                         \
		}                                                                                \
	} while (0)

static void order(struct unit *u, struct stet_txn *txn, uint64_t t)
{
	KEYS("a/ab/b/ba/bb/c/\xff/\xff\xff/", false, .from = { NULL, 0 });
	KEYS("\xff\xff/\xff/c/bb/ba/b/ab/a/", true, .from = { NULL, 0 });
	KEYS("b/ba/bb/", false, .prefix = KEY("b"));
	KEYS("bb/ba/b/", true, .prefix = KEY("b"));
	KEYS("\xff/\xff\xff/", false, .prefix = KEY("\xff"));
	KEYS("\xff\xff/\xff/", true, .prefix = KEY("\xff"));
	KEYS("", false, .prefix = KEY("d"));
	KEYS("b/ba/", false, .from = KEY("b"), .to = KEY("bb"));
	KEYS("ba/b/", true, .from = KEY("b"), .to = KEY("bb"));
	KEYS("ba/bb/", false, .from = KEY("b"), .to = KEY("bb"), .after_from = true,
	     .with_to = true);
	KEYS("bb/ba/", true, .from = KEY("b"), .to = KEY("bb"), .after_from = true,
	     .with_to = true);
	KEYS("ba/", false, .prefix = KEY("b"), .from = KEY("b"), .to = KEY("bb"),
	     .after_from = true);
	KEYS("", false, .from = KEY("c"), .to = KEY("b"));
	KEYS("", true, .from = KEY("c"), .to = KEY("b"));
	KEYS("", false, .to = KEY(""));
	KEYS("a/ab/b/ba/bb/c/\xff/\xff\xff/", false, .from = KEY(""));
}

static void fill_order(struct unit *u, struct stet_txn *txn, uint64_t t)
{
	const char *const all[] = { "ba", "a", "\xff\xff", "b", "bb", "ab", "\xff", "c", "x", "0" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_int_equal(unit_put(u, txn, t, all[i], big, i, 0), 0);
	assert_int_equal(unit_del(u, txn, t, "x"), 0);
	assert_int_equal(unit_del(u, txn, t, "0"), 0);
}

/* In the delta, in the tree, and in a transaction over them. */
static void test_order(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t t = make(u), other;
	struct stet_txn *txn = NULL;

	(void)state;
	assert_int_equal(unit_make(u, NULL, 1, "other", TABLE, &other), 0);
	assert_int_equal(unit_put(u, NULL, other, "z", "z", 1, 0), 0);
	fill_order(u, NULL, t);
	order(u, NULL, t);
	unit_idle(u);
	order(u, NULL, t);
	for (int i = 0; i < 2; i++) {
		txn = unit_begin(u, i ? STET_LEVEL_LOCKING : STET_LEVEL_SERIALIZABLE);
		order(u, txn, t);
		assert_int_equal(unit_del(u, txn, t, "b"), 0);
		assert_int_equal(unit_put(u, txn, t, "bab", "", 0, 0), 0);
		KEYS("a/ab/ba/bab/bb/c/\xff/\xff\xff/", false, .from = { NULL, 0 });
		KEYS("\xff\xff/\xff/c/bb/bab/ba/ab/a/", true, .from = { NULL, 0 });
		assert_int_equal(unit_count(u, txn, t), 8);
		unit_end(txn);
	}
	txn = NULL;
	order(u, NULL, t);
	unit_destroy(u);
}

/* A key of the greatest length has a key behind it, too. */
static void test_longest(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t t = make(u);
	struct stet_fs_limits limits = { .after_from = true };
	char key[513], next[513];

	(void)state;
	memset(key, '\xff', 512);
	key[0] = 'a';
	key[512] = '\0';
	limits.from = (struct stet_fs_key){ key, 512 };
	assert_int_equal(unit_put(u, NULL, t, key, "v", 1, 0), 0);
	assert_int_equal(unit_put(u, NULL, t, "b", "v", 1, 0), 0);
	assert_int_equal(unit_keys(u, NULL, t, &limits, false, 1, list, sizeof(list)), 0);
	assert_string_equal(list, "b/");
	memset(next, '\xff', 512);
	next[512] = '\0';
	limits.from = (struct stet_fs_key){ next, 512 };
	assert_int_equal(unit_put(u, NULL, t, next, "v", 1, 0), 0);
	assert_int_equal(unit_keys(u, NULL, t, &limits, false, 1, list, sizeof(list)), 0);
	assert_string_equal(list, "");
	unit_destroy(u);
}

static void expect(struct unit *u, struct stet_txn *txn, uint64_t t, const char *key, size_t shift,
		   size_t size)
{
	assert_int_equal(unit_get(u, txn, t, key, back, sizeof(back)), size);
	assert_memory_equal(back, big + shift, size);
}

/* Values around the limits, through the log, the tree and the cleaner's moves. */
static void test_large(void **state)
{
	const size_t sizes[] = { 3198, 3199, 3200, 4096, 4097, 300000, MAX - 16, MAX - 7 };
	struct unit *u = unit_create(NULL);
	uint64_t t = make(u);
	struct stet_fs_attr attr;
	char key[8];

	(void)state;
	for (size_t round = 0; round < 3; round++) {
		for (size_t i = 0; i < 8; i++) {
			(void)snprintf(key, sizeof(key), "k%zu", i);
			assert_int_equal(unit_put(u, NULL, t, key, big + round,
						  sizes[(i + round) % 8], 0),
					 0);
		}
		if (round == 1)
			unit_reopen(u);
		for (size_t i = 0; i < 8; i++) {
			(void)snprintf(key, sizeof(key), "k%zu", i);
			expect(u, NULL, t, key, round, sizes[(i + round) % 8]);
		}
		unit_flush(u, true);
		unit_check(u);
	}
	assert_int_equal(unit_getattr(u, NULL, t, &attr), 0);
	assert_int_equal(attr.size, 8);
	assert_int_equal(attr.blocks512, (1 + 1 + 2 + 74 + 256 + 256) * 8);
	for (size_t i = 0; i < 8; i++) {
		(void)snprintf(key, sizeof(key), "k%zu", i);
		assert_int_equal(unit_del(u, NULL, t, key), 0);
	}
	assert_int_equal(unit_getattr(u, NULL, t, &attr), 0);
	assert_int_equal(attr.blocks512, 0);
	unit_destroy(u);
}

/* Values that were split in the log while a transaction that replaces them was open; one of its own that it
 * replaces again; and one that it gives up. */
static void test_replace(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t t = make(u);

	(void)state;
	for (size_t i = 0; i < 12; i++) {
		const char key[2] = { (char)('a' + i), '\0' };

		assert_int_equal(unit_put(u, NULL, t, key, big + i, 250000, 0), 0);
	}
	struct stet_txn *x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	struct stet_txn *y = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	for (size_t i = 0; i < 12; i++) {
		const char key[2] = { (char)('a' + i), '\0' };

		if (i % 3 == 0)
			assert_int_equal(unit_del(u, x, t, key), 0);
		else if (i % 3 == 1)
			assert_int_equal(unit_put(u, x, t, key, big, 100000, 0), 0);
		else
			assert_int_equal(unit_put(u, y, t, key, big, 100000, 0), 0);
	}
	assert_int_equal(unit_put(u, x, t, "b", big + 1, 200000, 0), 0);
	assert_int_equal(unit_put(u, x, t, "new", big, 200000, 0), 0);
	assert_int_equal(unit_del(u, x, t, "new"), 0);
	unit_idle(u); /* the extents get their places: some are split at the ends of segments */
	assert_int_equal(unit_order(u, x), 0);
	unit_check(u);
	unit_end(y);
	unit_check(u);
	assert_int_equal(unit_count(u, NULL, t), 8);
	expect(u, NULL, t, "b", 1, 200000);
	expect(u, NULL, t, "c", 2, 250000);
	expect(u, NULL, t, "e", 0, 100000);
	unit_reopen(u);
	expect(u, NULL, t, "f", 5, 250000);
	unit_destroy(u);
}

/* Different keys do not meet; the same key does; counts add up. */
static void test_conflicts(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t t = make(u);
	struct stet_txn *x, *y;

	(void)state;
	assert_int_equal(unit_put(u, NULL, t, "k", "v", 1, 0), 0);
	x = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	y = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	assert_int_equal(unit_put(u, x, t, "x", "v", 1, 0), 0);
	assert_int_equal(unit_put(u, y, t, "y", "v", 1, 0), 0);
	assert_int_equal(unit_put(u, y, t, "x", "v", 1, 0), -EBUSY); /* locked */
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_count(u, NULL, t), 3);
	/* First updater wins. */
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(unit_put(u, NULL, t, "k", "w", 1, 0), 0);
	assert_int_equal(unit_get(u, x, t, "k", back, 1), 1);
	assert_int_equal(back[0], 'v');
	assert_int_equal(unit_put(u, x, t, "k", "z", 1, 0), -EBUSY);
	unit_end(x);
	/* What was read must stay, also that there was nothing; a count; a range. */
	const struct stet_fs_limits some = { .prefix = { "p", 1 } };

	for (int what = 0; what < 4; what++) {
		for (int change = 0; change < 2; change++) {
			x = unit_begin(u, STET_LEVEL_SERIALIZABLE);
			if (what == 0)
				assert_int_equal(unit_get(u, x, t, "p1", back, 1), -ENOENT);
			else if (what == 1)
				assert_true(unit_count(u, x, t) > 0);
			else
				assert_int_equal(unit_keys(u, x, t, &some, what == 2, 2, list,
							   sizeof(list)),
						 0);
			assert_int_equal(unit_put(u, x, t, "mine", "v", 1, 0), 0);
			if (change)
				assert_int_equal(unit_put(u, NULL, t, "p1", "v", 1, 0), 0);
			else
				assert_int_equal(unit_put(u, NULL, t, "k", "another", 7, 0), 0);
			assert_int_equal(unit_order(u, x), change ? -EBUSY : 0);
			if (change)
				assert_int_equal(unit_del(u, NULL, t, "p1"), 0);
		}
	}
	unit_destroy(u);
}

/* A table that is gone while its records were changed, and one whose records changed while it goes. */
static void test_unlink(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t t = make(u);
	struct stet_txn *x;
	char key[16];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(unit_put(u, NULL, t, key, big, i % 10 ? 20 : 5000, 0), 0);
	}
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(unit_put(u, x, t, "x", "v", 1, 0), 0);
	assert_int_equal(unit_link(u, NULL, t, 1, "t2"), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "t"), 0);
	assert_int_equal(unit_order(u, x), 0); /* it still has a name */
	assert_int_equal(unit_rename(u, NULL, 1, "t2", 1, "t", 0), 0);
	assert_int_equal(unit_del(u, NULL, t, "x"), 0);
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(unit_unlink(u, x, 1, "t"), 0);
	assert_int_equal(unit_put(u, NULL, t, "5", "v", 1, 0), 0);
	assert_int_equal(unit_order(u, x), -EBUSY);
	assert_int_equal(stet_fs_hold(u->fs, t), 0);
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(unit_put(u, x, t, "x", "v", 1, 0), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "t"), 0);
	assert_int_equal(unit_order(u, x), -EBUSY);
	unit_idle(u);
	assert_int_equal(unit_count(u, NULL, t), 1000);
	assert_int_equal(unit_put(u, NULL, t, "5", "v2", 2, 0), 0);
	stet_fs_unhold(u->fs, t);
	unit_idle(u);
	assert_int_equal(unit_count(u, NULL, t), -ENOENT);
	unit_destroy(u);
}

/* A transaction larger than memory. */
static void test_spill(void **state)
{
	const struct unit_options options = { .size_bytes = 256u << 20, .cache_bytes = 8u << 20 };
	struct unit *u = unit_create(&options);
	uint64_t t = make(u), fresh;
	struct stet_txn *x = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	char key[16];

	(void)state;
	assert_int_equal(unit_put(u, NULL, t, "500", big, MAX, 0), 0);
	unit_end(x);
	x = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	assert_int_equal(unit_make(u, x, 1, "fresh", TABLE, &fresh), 0);
	for (int i = 0; i < 2000; i++) {
		uint64_t to = i % 2 ? t : fresh;

		(void)snprintf(key, sizeof(key), "%d", i / 2);
		assert_int_equal(unit_put(u, x, to, key, big + i, i % 50 ? 1000 : 500000, 0), 0);
		unit_spill(u, x);
	}
	for (int i = 0; i < 1000; i += 3) {
		(void)snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(unit_del(u, x, i % 2 ? t : fresh, key), 0);
		unit_spill(u, x);
	}
	assert_int_equal(unit_count(u, x, fresh), 1000 - 167);
	expect(u, x, fresh, "25", 50, 500000);
	assert_int_equal(unit_order(u, x), 0);
	print_message("A\n");
	unit_check(u);
	print_message("B\n");
	unit_reopen(u);
	print_message("C\n");
	unit_check(u);
	expect(u, NULL, fresh, "25", 50, 500000);
	assert_int_equal(unit_count(u, NULL, t), 1000 - 167);
	unit_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_order),
		cmocka_unit_test(test_longest), cmocka_unit_test(test_large),
		cmocka_unit_test(test_replace), cmocka_unit_test(test_conflicts),
		cmocka_unit_test(test_unlink),  cmocka_unit_test(test_spill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
