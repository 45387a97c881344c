/* test_hostile.c - a catalog that no operation of ours would make: every answer is an error or
 * plain data, never a crash, and nothing is freed that is in use. */
#include "unit.h"

#include "base/endian.h"

static void put(struct unit *u, const struct stet_key *key, const void *value, size_t n)
{
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_PLAIN);
	uint64_t wait;

	if (value)
		assert_int_equal(stet_txn_put(txn, key, value, n), 0);
	else
		assert_int_equal(stet_txn_del(txn, key), 0);
	assert_int_equal(stet_txn_order(txn, NULL, &wait), 0);
	stet_txn_end(txn);
}

static void put_dirent(struct unit *u, uint64_t dir, const char *name, uint64_t ino, uint8_t type)
{
	const struct stet_dirent dirent = { .ino = ino, .type = type };
	uint8_t value[16];
	struct stet_key key;

	stet_key_dirent(&key, dir, name, strlen(name));
	put(u, &key, value, stet_dirent_encode(&dirent, value));
}

static void put_inode(struct unit *u, uint64_t ino, const struct stet_inode *i)
{
	uint8_t value[STET_INODE_VALUE_MAX];
	struct stet_key key;

	stet_key_inode(&key, ino);
	put(u, &key, value, stet_inode_encode(i, value));
}

/* Closes without the check of the catalog. */
static void close_bad(struct unit *u)
{
	stet_engine_close(u->engine);
	stet_fs_destroy(u->fs);
	stet_device_close(u->device);
	free(u);
}

static void test_names(void **state)
{
	struct unit *u = unit_create(NULL);
	const uint8_t dir = S_IFDIR >> 12, reg = S_IFREG >> 12;
	uint64_t ino, d, f;
	char text[128];
	struct stet_key key;

	(void)state;
	assert_int_equal(unit_make(u, NULL, 1, "d", S_IFDIR | 0700, &d), 0);
	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &f), 0);
	put_dirent(u, 1, "missing", 1000, reg);
	put_dirent(u, 1, "missing dir", 1001, dir);
	put_dirent(u, 1, "wrong type", f, dir);
	put_dirent(u, 1, "wrong type 2", d, reg);
	assert_int_equal(unit_unlink(u, NULL, 1, "missing"), -EUCLEAN);
	assert_int_equal(unit_rmdir(u, NULL, 1, "missing dir"), -EUCLEAN);
	assert_int_equal(unit_rmdir(u, NULL, 1, "wrong type"), -EUCLEAN);
	assert_int_equal(unit_unlink(u, NULL, 1, "wrong type 2"), -EUCLEAN);
	assert_int_equal(unit_rename(u, NULL, 1, "missing", 1, "m", 0), -EUCLEAN);
	assert_int_equal(unit_rename(u, NULL, 1, "f", 1, "missing", 0), -EUCLEAN);
	assert_int_equal(unit_rename(u, NULL, 1, "d", 1001, "x", 0), -ENOENT);
	assert_int_equal(unit_make(u, NULL, 1001, "x", S_IFREG | 0600, NULL), -ENOENT);
	stet_key_dirent(&key, 1, "short", 5);
	put(u, &key, "abc", 3);
	assert_int_equal(unit_lookup(u, NULL, 1, "short", &ino), -EUCLEAN);
	assert_int_equal(unit_list(u, NULL, 1, text, sizeof(text)), -EUCLEAN);
	put(u, &key, NULL, 0);
	key.b[key.bytes - 1] = '/';
	put(u, &key, "abc", 3);
	assert_int_equal(unit_list(u, NULL, 1, text, sizeof(text)), -EUCLEAN);
	close_bad(u);
}

/* Parents that form a cycle, are missing, or are files. */
static void test_parents(void **state)
{
	struct unit *u = unit_create(NULL);
	struct stet_inode i = { .mode = S_IFDIR | 0700, .nlink = 1, .size = 1, .subdirs = 1 };
	uint64_t a, b, f;

	(void)state;
	assert_int_equal(unit_make(u, NULL, 1, "a", S_IFDIR | 0700, &a), 0);
	assert_int_equal(unit_make(u, NULL, a, "b", S_IFDIR | 0700, &b), 0);
	assert_int_equal(unit_make(u, NULL, 1, "m", S_IFDIR | 0700, NULL), 0);
	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &f), 0);
	i.parent = b;
	put_inode(u, a, &i);
	assert_int_equal(unit_rename(u, NULL, 1, "m", b, "m", 0), -EUCLEAN);
	i.parent = f;
	put_inode(u, a, &i);
	assert_int_equal(unit_rename(u, NULL, 1, "m", b, "m", 0), -EUCLEAN);
	i.parent = 4711;
	put_inode(u, a, &i);
	assert_int_equal(unit_rename(u, NULL, 1, "m", b, "m", 0), -EUCLEAN);
	close_bad(u);
}

static void test_inodes(void **state)
{
	struct unit *u = unit_create(NULL);
	struct stet_inode i = { .mode = S_IFDIR | 0700, .nlink = 1, .parent = 1 };
	struct stet_fs_attr attr;
	uint8_t value[STET_INODE_VALUE_MAX];
	struct stet_key key;
	struct stet_txn *txn;
	uint64_t d, f;

	(void)state;
	/* Counts that would go below zero. */
	assert_int_equal(unit_make(u, NULL, 1, "d", S_IFDIR | 0700, &d), 0);
	assert_int_equal(unit_make(u, NULL, d, "x", S_IFREG | 0600, &f), 0);
	put_inode(u, d, &i);
	assert_int_equal(unit_unlink(u, NULL, d, "x"), -EUCLEAN);
	txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(unit_unlink(u, txn, d, "x"), 0); /* an intent: found out when merged */
	assert_int_equal(unit_getattr(u, txn, d, &attr), -EUCLEAN);
	assert_int_equal(unit_order(u, txn), -EUCLEAN);
	/* A damaged inode. */
	stet_key_inode(&key, f);
	memset(value, 0xff, sizeof(value));
	put(u, &key, value, 200);
	assert_int_equal(unit_getattr(u, NULL, f, &attr), -EUCLEAN);
	assert_int_equal(unit_write(u, NULL, f, 0, "x", 1), -EUCLEAN);
	assert_int_equal(unit_read(u, NULL, f, 0, value, 1), -EUCLEAN);
	assert_int_equal(unit_link(u, NULL, f, 1, "l"), -EUCLEAN);
	assert_int_equal(unit_xattr_list(u, NULL, f, NULL, 0), -EUCLEAN);
	put(u, &key, value, 1);
	assert_int_equal(unit_getattr(u, NULL, f, &attr), -EUCLEAN);
	close_bad(u);
}

static void test_extents(void **state)
{
	struct unit *u = unit_create(NULL);
	const uint8_t crcs[4 * 64] = { 0 };
	struct stet_extent e = { .addr = stet_addr_make(1, 8),
				 .birth = 1,
				 .block_count = 4,
				 .phys_blocks = 4,
				 .crcs = crcs };
	uint8_t value[STET_EXTENT_VALUE_MAX], buf[64];
	struct stet_key key;
	uint64_t f, got;

	(void)state;
	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &f), 0);
	assert_int_equal(unit_truncate(u, NULL, f, 100 * BLOCK), 0);
	stet_key_extent(&key, f, 0);
	put(u, &key, "bad", 3);
	assert_int_equal(unit_read(u, NULL, f, 0, buf, 10), -EUCLEAN);
	assert_int_equal(unit_write(u, NULL, f, 0, "x", 1), -EUCLEAN);
	assert_int_equal(unit_truncate(u, NULL, f, 1), -EUCLEAN);
	assert_int_equal(unit_punch(u, NULL, f, 0, 1 << 20), -EUCLEAN);
	assert_int_equal(unit_seek(u, NULL, f, 0, true, &got), -EUCLEAN);
	/* Right in form, wrong in content. */
	put(u, &key, value, stet_extent_encode(&e, value));
	assert_int_equal(unit_read(u, NULL, f, 0, buf, 10), -EIO);
	assert_int_equal(unit_write(u, NULL, f, 0, "x", 1), -EIO); /* verified first */
	e.addr = stet_addr_make(123456, 0);
	put(u, &key, value, stet_extent_encode(&e, value));
	assert_int_equal(unit_read(u, NULL, f, 0, buf, 10), -EIO);
	/* Overlapping extents: some order, no crash. */
	e.addr = stet_addr_make(1, 8);
	stet_key_extent(&key, f, 2);
	put(u, &key, value, stet_extent_encode(&e, value));
	assert_true(unit_read(u, NULL, f, 0, buf, 10) < 0);
	assert_int_equal(unit_seek(u, NULL, f, 0, true, &got), 0);
	assert_int_equal(got, 6 * BLOCK);
	close_bad(u);
}

/* Orphans that are none: nothing in use is freed. */
static void test_orphans(void **state)
{
	struct unit *u = unit_create(NULL);
	struct stet_orphan o = { .flags = STET_ORPHAN_UNLINKED };
	uint8_t value[16];
	struct stet_key key;
	char block[STET_BLOCK_SIZE] = "content";
	uint64_t f, d;

	(void)state;
	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &f), 0);
	assert_int_equal(unit_write(u, NULL, f, 0, block, sizeof(block)), 0);
	assert_int_equal(unit_make(u, NULL, 1, "d", S_IFDIR | 0700, &d), 0);
	assert_int_equal(unit_make(u, NULL, d, "x", S_IFREG | 0700, NULL), 0);
	stet_key_orphan(&key, f);
	put(u, &key, value, stet_orphan_encode(&o, value));
	unit_reopen(u);
	unit_idle(u);
	unit_check(u);
	o = (struct stet_orphan){ .flags = STET_ORPHAN_TRUNCATE, .from_block = 0 };
	put(u, &key, value, stet_orphan_encode(&o, value));
	stet_key_orphan(&key, 999);
	put(u, &key, value, stet_orphan_encode(&o, value));
	unit_reopen(u);
	unit_idle(u);
	unit_check(u);
	assert_int_equal(unit_read(u, NULL, f, 0, block, sizeof(block)), sizeof(block));
	assert_string_equal(block, "content");
	stet_key_orphan(&key, d);
	unit_reopen(u);
	put(u, &key, "?", 1);
	for (int i = 0; i < 10; i++) {
		int rc = stet_fs_reclaim_step(u->fs, NULL);

		assert_true(rc == 0 || rc == 1 || rc == -EUCLEAN);
	}
	assert_false(stet_fs_wants_reclaim(u->fs));
	close_bad(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),   cmocka_unit_test(test_parents),
		cmocka_unit_test(test_inodes),  cmocka_unit_test(test_extents),
		cmocka_unit_test(test_orphans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
