/* test_check.c - what the checker says of catalogs that no operation of ours would make, item by item.
 *
 * Each test makes a sound volume, changes it below fs/, and names the problems that must then be found, all of
 * them and no others.
 */
#include "../fs/unit.h"

#include "base/endian.h"
#include "check/check.h"

struct found {
	bool is[STET_PROBLEM_COUNT];
	char text[1024];
	size_t len;
};

static int note(void *arg, enum stet_problem_id id, uint64_t ino, const char *detail)
{
	struct found *f = arg;
	int n = snprintf(f->text + f->len, sizeof(f->text) - f->len, "\n%s %llu: %s",
			 stet_check_name(id), (unsigned long long)ino, detail);

	f->is[id] = true;
	if (n > 0 && f->len + (size_t)n < sizeof(f->text))
		f->len += (size_t)n;
	return 0;
}

/* want: problems, ended by STET_PROBLEM_COUNT. */
static void expect(struct unit *u, const enum stet_problem_id *want)
{
	struct stet_check_summary sum;
	struct found f = { .len = 0 };
	bool wanted[STET_PROBLEM_COUNT] = { false };

	assert_int_equal(stet_check_volume(u->fs, u->engine, 0, note, &f, &sum), 0);
	for (; *want != STET_PROBLEM_COUNT; want++)
		wanted[*want] = true;
	for (int i = 0; i < STET_PROBLEM_COUNT; i++)
		if (wanted[i] != f.is[i])
			fail_msg("%s: wanted %d, found %d:%s",
				 stet_check_name((enum stet_problem_id)i), wanted[i], f.is[i],
				 f.text);
}

#define EXPECT(u, ...) expect(u, (const enum stet_problem_id[]){ __VA_ARGS__, STET_PROBLEM_COUNT })
#define EXPECT_SOUND(u) expect(u, (const enum stet_problem_id[]){ STET_PROBLEM_COUNT })

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

static void get(struct unit *u, const struct stet_key *key, struct stet_val *ret)
{
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_PLAIN);

	assert_int_equal(stet_txn_get(txn, key, ret), 0);
	stet_txn_end(txn);
}

/* The first key of the kind. */
static void first_key(struct unit *u, uint64_t ino, uint8_t kind, struct stet_key *ret)
{
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_PLAIN);
	struct stet_key from, to;
	struct stet_scan *scan;
	struct stet_val val;

	stet_key_kind(&from, ino, kind);
	stet_key_kind(&to, ino, (uint8_t)(kind + 1));
	assert_int_equal(stet_scan_open(txn, &from, &to, &scan), 0);
	assert_int_equal(stet_scan_next(scan, ret, &val), 1);
	stet_scan_close(scan);
	stet_txn_end(txn);
}

/* Closes without the unit's own check of the catalog. */
static void close_bad(struct unit *u)
{
	stet_engine_close(u->engine);
	stet_fs_destroy(u->fs);
	stet_device_close(u->device);
	free(u);
}

static uint64_t make_file(struct unit *u, const char *name, size_t len)
{
	static uint8_t bytes[100000];
	uint64_t ino;

	memset(bytes, name[0], sizeof(bytes));
	assert_int_equal(unit_make(u, NULL, STET_ROOT_INO, name, S_IFREG | 0600, &ino), 0);
	assert_int_equal(unit_write(u, NULL, ino, 0, bytes, len), 0);
	return ino;
}

/* --- values of attributes in parts --- */

static struct unit *with_large_value(uint64_t *ret_ino)
{
	static const uint8_t value[9000];
	struct unit *u = unit_create(NULL);

	*ret_ino = make_file(u, "file", 10);
	assert_int_equal(unit_xattr_set(u, NULL, *ret_ino, "user.large", value, sizeof(value), 0),
			 0);
	EXPECT_SOUND(u);
	unit_flush(u, true);
	EXPECT_SOUND(u);
	return u;
}

static void test_part_missing(void **state)
{
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_large_value(&ino);

	(void)state;
	first_key(u, ino, STET_KIND_XATTR, &key);
	put(u, &key, NULL, 0);
	EXPECT(u, STET_PROBLEM_XATTR_VALUE);
	close_bad(u);
}

static void test_part_of_another_length(void **state)
{
	static const uint8_t part[100];
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_large_value(&ino);

	(void)state;
	first_key(u, ino, STET_KIND_XATTR, &key);
	put(u, &key, part, sizeof(part));
	EXPECT(u, STET_PROBLEM_XATTR_VALUE);
	close_bad(u);
}

static void test_parts_left_over(void **state)
{
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_large_value(&ino);

	(void)state;
	stet_key_xattr(&key, ino, "user.large", 10);
	put(u, &key, NULL, 0);
	EXPECT(u, STET_PROBLEM_XATTR_LEFTOVER);
	close_bad(u);
}

/* --- tables --- */

static struct unit *with_table(uint64_t *ret_ino)
{
	static const uint8_t value[300000];
	struct unit *u = unit_create(NULL);

	assert_int_equal(unit_make(u, NULL, STET_ROOT_INO, "t", STET_MODE_TABLE | 0600, ret_ino),
			 0);
	assert_int_equal(unit_put(u, NULL, *ret_ino, "small", "1", 1, 0), 0);
	assert_int_equal(unit_put(u, NULL, *ret_ino, "large", value, sizeof(value), 0), 0);
	assert_int_equal(unit_put(u, NULL, *ret_ino, "other", value, 5000, 0), 0);
	EXPECT_SOUND(u);
	unit_flush(u, true);
	EXPECT_SOUND(u);
	return u;
}

static void record_key(struct stet_key *key, uint64_t table, const char *name)
{
	stet_key_record(key, table, name, strlen(name));
}

static void test_record_gone(void **state)
{
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_table(&ino);

	(void)state;
	record_key(&key, ino, "small");
	put(u, &key, NULL, 0);
	EXPECT(u, STET_PROBLEM_TABLE_COUNT);
	close_bad(u);
	u = with_table(&ino);
	record_key(&key, ino, "large");
	put(u, &key, NULL, 0);
	EXPECT(u, STET_PROBLEM_TABLE_COUNT, STET_PROBLEM_RECORD_LEFTOVER);
	close_bad(u);
}

static void test_record_blocks_gone(void **state)
{
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_table(&ino);

	(void)state;
	first_key(u, ino, STET_KIND_EXTENT, &key);
	put(u, &key, NULL, 0);
	EXPECT(u, STET_PROBLEM_BLOCK_COUNT, STET_PROBLEM_RECORD_VALUE);
	assert_int_equal(unit_get(u, NULL, ino, "large", NULL, 0), -EUCLEAN);
	assert_int_equal(unit_del(u, NULL, ino, "large"), -EUCLEAN);
	close_bad(u);
}

static void test_record_blocks_shared(void **state)
{
	struct stet_val val;
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_table(&ino);

	(void)state;
	record_key(&key, ino, "large");
	get(u, &key, &val);
	record_key(&key, ino, "small");
	put(u, &key, val.b, val.bytes);
	EXPECT(u, STET_PROBLEM_RECORD_VALUE);
	record_key(&key, ino, "large");
	stet_put_le32(val.b + 1, 5000); /* not what there is */
	put(u, &key, val.b, val.bytes);
	EXPECT(u, STET_PROBLEM_RECORD_VALUE);
	close_bad(u);
}

static void test_record_bad(void **state)
{
	const uint8_t unknown[] = { 9, 1, 2 };
	const uint8_t value[] = { 0, 'x' };
	struct stet_key key;
	uint64_t ino, file;
	struct unit *u = with_table(&ino);

	(void)state;
	record_key(&key, ino, "small");
	put(u, &key, unknown, sizeof(unknown));
	EXPECT(u, STET_PROBLEM_ITEM_BAD, STET_PROBLEM_TABLE_COUNT);
	close_bad(u);
	u = with_table(&ino);
	file = make_file(u, "file", 5000);
	record_key(&key, file, "small");
	put(u, &key, value, sizeof(value));
	EXPECT(u, STET_PROBLEM_RECORD_NOT_TABLE);
	put(u, &key, NULL, 0);
	record_key(&key, file + 1000, "small");
	put(u, &key, value, sizeof(value));
	EXPECT(u, STET_PROBLEM_NO_INODE);
	close_bad(u);
}

static void test_table_truncated(void **state)
{
	const struct stet_orphan orphan = { .flags = STET_ORPHAN_TRUNCATE, .from_block = 100 };
	uint8_t value[sizeof(struct stet_orphan_disk)];
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_table(&ino);

	(void)state;
	stet_key_orphan(&key, ino);
	put(u, &key, value, stet_orphan_encode(&orphan, value));
	EXPECT(u, STET_PROBLEM_ORPHAN_WRONG);
	unit_reopen(u);
	unit_idle(u); /* reclaim takes nothing of it */
	EXPECT_SOUND(u);
	unit_destroy(u);
}

static void test_no_acl(void **state)
{
	static const uint8_t others_only[] = { 0, 2, 0, 0, 0, 32, 0, 7, 0, 0xff, 0xff, 0xff, 0xff };
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_large_value(&ino);

	(void)state;
	stet_key_xattr(&key, ino, "system.posix_acl_access", 23);
	put(u, &key, others_only, sizeof(others_only));
	EXPECT(u, STET_PROBLEM_ACL_BAD);
	close_bad(u);
}

static void test_default_acl_of_a_file(void **state)
{
	static const uint8_t acl[] = { 0,    2,    0,    0, 0, 1,    0,    7,    0,    0xff,
				       0xff, 0xff, 0xff, 4, 0, 5,    0,    0xff, 0xff, 0xff,
				       0xff, 32,   0,    5, 0, 0xff, 0xff, 0xff, 0xff };
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_large_value(&ino);

	(void)state;
	stet_key_xattr(&key, ino, "system.posix_acl_default", 24);
	put(u, &key, acl, sizeof(acl));
	EXPECT(u, STET_PROBLEM_ACL_BAD);
	close_bad(u);
}

/* Two attributes with one value's parts. */
static void test_parts_shared(void **state)
{
	struct stet_val val;
	struct stet_key key;
	uint64_t ino;
	struct unit *u = with_large_value(&ino);

	(void)state;
	stet_key_xattr(&key, ino, "user.large", 10);
	get(u, &key, &val);
	stet_key_xattr(&key, ino, "user.other", 10);
	put(u, &key, val.b, val.bytes);
	EXPECT(u, STET_PROBLEM_XATTR_VALUE);
	close_bad(u);
}

/* --- blocks --- */

/* Both files in extents that a root holds; *ret_a, *ret_b: the keys of their first ones. */
static struct unit *with_two_files(struct stet_key *ret_a, struct stet_key *ret_b)
{
	struct unit *u = unit_create(NULL);
	uint64_t a = make_file(u, "a", 40000);
	uint64_t b = make_file(u, "b", 40000);

	unit_flush(u, true);
	unit_reopen(u);
	EXPECT_SOUND(u);
	first_key(u, a, STET_KIND_EXTENT, ret_a);
	first_key(u, b, STET_KIND_EXTENT, ret_b);
	return u;
}

/* In the log's extents and in the root's. */
static void test_blocks_shared(void **state)
{
	struct stet_key a, b;
	struct unit *u = with_two_files(&a, &b);
	struct stet_val val;

	(void)state;
	get(u, &a, &val);
	put(u, &b, val.b, val.bytes);
	EXPECT(u, STET_PROBLEM_BLOCK_TWICE);
	put(u, &a, val.b, val.bytes);
	EXPECT(u, STET_PROBLEM_BLOCK_TWICE);
	close_bad(u);
}

static void test_blocks_of_a_node(void **state)
{
	struct stet_key a, b;
	struct unit *u = with_two_files(&a, &b);
	struct stet_root root;
	struct stet_val val;
	uint64_t cut;

	(void)state;
	stet_engine_root(u->engine, &root, &cut);
	get(u, &a, &val);
	stet_put_le64(val.b, root.ptr.addr.v);
	put(u, &a, val.b, val.bytes);
	EXPECT(u, STET_PROBLEM_BLOCK_TWICE, STET_PROBLEM_DATA_UNREADABLE);
	close_bad(u);
}

/* A second copy in a segment that is not there: told, and read around. */
static void test_second_copy_gone(void **state)
{
	struct stet_key a, b;
	struct unit *u = with_two_files(&a, &b);
	struct stet_val val;
	uint8_t buf[40000];

	(void)state;
	get(u, &a, &val);
	stet_put_le64(val.b + 8, stet_addr_make(1000000, 0).v);
	put(u, &a, val.b, val.bytes);
	EXPECT(u, STET_PROBLEM_BLOCK_OUTSIDE, STET_PROBLEM_DATA_COPY);
	assert_int_equal(unit_read(u, NULL, stet_key_object(a.b), 0, buf, sizeof(buf)),
			 sizeof(buf));
	assert_int_equal(buf[0], 'a');
	/* And the first one gone, the second one right. */
	memcpy(val.b + 8, val.b, 8);
	stet_put_le64(val.b, stet_addr_make(1000000, 0).v);
	put(u, &a, val.b, val.bytes);
	EXPECT(u, STET_PROBLEM_BLOCK_OUTSIDE, STET_PROBLEM_DATA_COPY);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(unit_read(u, NULL, stet_key_object(a.b), 0, buf, sizeof(buf)),
			 sizeof(buf));
	assert_int_equal(buf[39999], 'a');
	close_bad(u);
}

/* --- inodes --- */

static void get_inode(struct unit *u, uint64_t ino, struct stet_inode *ret)
{
	struct stet_val val;
	struct stet_key key;

	stet_key_inode(&key, ino);
	get(u, &key, &val);
	assert_int_equal(stet_inode_decode(val.b, val.bytes, ret), 0);
	assert_int_equal(ret->inline_bytes, 0);
}

static void put_inode(struct unit *u, uint64_t ino, const struct stet_inode *inode)
{
	uint8_t value[STET_INODE_VALUE_MAX];
	struct stet_key key;

	stet_key_inode(&key, ino);
	put(u, &key, value, stet_inode_encode(inode, value));
}

static void test_root_parent(void **state)
{
	struct unit *u = unit_create(NULL);
	struct stet_inode root;

	(void)state;
	assert_int_equal(unit_make(u, NULL, STET_ROOT_INO, "dir", S_IFDIR | 0700, NULL), 0);
	get_inode(u, STET_ROOT_INO, &root);
	assert_int_equal(unit_lookup(u, NULL, STET_ROOT_INO, "dir", &root.parent), 0);
	put_inode(u, STET_ROOT_INO, &root);
	EXPECT(u, STET_PROBLEM_DIR_PARENT);
	close_bad(u);
}

/* Reclaim keeps the count right, so it is right in orphans too. */
static void test_orphan_blocks(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t ino = make_file(u, "file", 40000);
	struct stet_inode inode;

	(void)state;
	assert_int_equal(stet_fs_hold(u->fs, ino), 0);
	assert_int_equal(unit_unlink(u, NULL, STET_ROOT_INO, "file"), 0);
	EXPECT_SOUND(u);
	get_inode(u, ino, &inode);
	inode.blocks = 3;
	put_inode(u, ino, &inode);
	EXPECT(u, STET_PROBLEM_BLOCK_COUNT);
	close_bad(u);
}

/* The target lies in a block, behind which there is nothing but NUL. */
static void test_target_too_long(void **state)
{
	char target[STET_SYMLINK_MAX - 1];
	struct unit *u = unit_create(NULL);
	struct stet_inode inode;
	uint64_t ino;

	(void)state;
	memset(target, 't', sizeof(target));
	assert_int_equal(unit_symlink(u, NULL, STET_ROOT_INO, "link", target, sizeof(target), &ino),
			 0);
	unit_flush(u, true);
	unit_reopen(u);
	EXPECT_SOUND(u);
	get_inode(u, ino, &inode);
	assert_int_equal(inode.size, sizeof(target));
	inode.size++;
	put_inode(u, ino, &inode);
	EXPECT(u, STET_PROBLEM_ITEM_BAD);
	close_bad(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_part_missing),
		cmocka_unit_test(test_part_of_another_length),
		cmocka_unit_test(test_parts_left_over),
		cmocka_unit_test(test_record_gone),
		cmocka_unit_test(test_record_blocks_gone),
		cmocka_unit_test(test_record_blocks_shared),
		cmocka_unit_test(test_record_bad),
		cmocka_unit_test(test_table_truncated),
		cmocka_unit_test(test_no_acl),
		cmocka_unit_test(test_default_acl_of_a_file),
		cmocka_unit_test(test_parts_shared),
		cmocka_unit_test(test_blocks_shared),
		cmocka_unit_test(test_blocks_of_a_node),
		cmocka_unit_test(test_second_copy_gone),
		cmocka_unit_test(test_root_parent),
		cmocka_unit_test(test_orphan_blocks),
		cmocka_unit_test(test_target_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
