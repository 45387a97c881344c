/* test_files.c - files, names and attributes by path, outside transactions. */
#include "api_unit.h"

#include <dirent.h>
#include <stdlib.h>

static void write_and_read(void **state)
{
	struct stet_volume *vol = unit_vol(state);

	OK(stet_mkdirat(vol, NULL, STET_ROOT, "a", 0755));
	unit_write(vol, NULL, "a/b.txt", "hello");
	unit_expect(vol, NULL, "/a/b.txt", "hello");
	unit_expect(vol, NULL, "a/../a/./b.txt", "hello");
	unit_expect(vol, NULL, "../a//b.txt", "hello");
	FAILS(-ENOTDIR, stet_mkdirat(vol, NULL, STET_ROOT, "a/b.txt/c", 0755));
	FAILS(-EEXIST, stet_mkdirat(vol, NULL, STET_ROOT, "a", 0755));
	FAILS(-EEXIST, stet_mkdirat(vol, NULL, STET_ROOT, "a/", 0755));
	FAILS(-EEXIST, stet_mkdirat(vol, NULL, STET_ROOT, "/", 0755));
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d/", 0755));
	unit_expect(vol, NULL, "d/../a/b.txt", "hello");
}

static void open_flags(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_file *file;
	char buf[8];

	FAILS(-ENOENT, stet_openat(vol, NULL, STET_ROOT, "f", O_RDONLY, 0, &file));
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_WRONLY | O_CREAT | O_EXCL, 0600, &file));
	FAILS(-EBADF, stet_pread(file, buf, 1, 0));
	stet_file_close(file);
	FAILS(-EEXIST,
	      stet_openat(vol, NULL, STET_ROOT, "f", O_WRONLY | O_CREAT | O_EXCL, 0600, &file));
	unit_write(vol, NULL, "f", "12345");
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_RDONLY, 0, &file));
	FAILS(-EBADF, stet_pwrite(file, buf, 1, 0));
	FAILS(-EBADF, stet_truncate(file, 0));
	stet_file_close(file);
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_WRONLY | O_APPEND, 0, &file));
	assert_int_equal(stet_pwrite(file, "67", 2, 0), 2);
	assert_int_equal(stet_append(file, "8", 1), 1);
	stet_file_close(file);
	unit_expect(vol, NULL, "f", "12345678");
	FAILS(-EISDIR, stet_openat(vol, NULL, STET_ROOT, "/", O_RDONLY, 0, &file));
	FAILS(-ENOTDIR, stet_openat(vol, NULL, STET_ROOT, "f/", O_RDONLY, 0, &file));
	FAILS(-EINVAL, stet_openat(vol, NULL, STET_ROOT, "f", O_ACCMODE, 0, &file));
	OK(stet_mknodat(vol, NULL, STET_ROOT, "p", S_IFIFO | 0600, 0));
	FAILS(-ENXIO, stet_openat(vol, NULL, STET_ROOT, "p", O_RDONLY, 0, &file));
}

static void symbolic_links(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_file *file;
	char buf[64];

	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	unit_write(vol, NULL, "d/f", "data");
	OK(stet_symlinkat(vol, NULL, "/d/f", STET_ROOT, "abs"));
	OK(stet_symlinkat(vol, NULL, "../d/f", STET_ROOT, "d/rel"));
	OK(stet_symlinkat(vol, NULL, "d", STET_ROOT, "dir"));
	OK(stet_symlinkat(vol, NULL, "loop", STET_ROOT, "loop"));
	unit_expect(vol, NULL, "abs", "data");
	unit_expect(vol, NULL, "d/rel", "data");
	unit_expect(vol, NULL, "dir/f", "data");
	unit_expect(vol, NULL, "dir/../dir/rel", "data");
	assert_int_equal(stet_readlinkat(vol, NULL, STET_ROOT, "dir", buf, sizeof(buf)), 1);
	assert_string_equal(buf, "d");
	FAILS(-EINVAL, stet_readlinkat(vol, NULL, STET_ROOT, "dir/", buf, sizeof(buf)));
	FAILS(-ERANGE, stet_readlinkat(vol, NULL, STET_ROOT, "abs", buf, 4));
	FAILS(-ELOOP, stet_openat(vol, NULL, STET_ROOT, "loop", O_RDONLY, 0, &file));
	FAILS(-ELOOP, stet_openat(vol, NULL, STET_ROOT, "abs", O_RDONLY | O_NOFOLLOW, 0, &file));
	OK(stet_symlinkat(vol, NULL, "d/made", STET_ROOT, "to-be"));
	unit_write(vol, NULL, "to-be", "made through a link");
	unit_expect(vol, NULL, "d/made", "made through a link");
	OK(stet_unlinkat(vol, NULL, STET_ROOT, "abs", 0));
	unit_expect(vol, NULL, "d/f", "data");
	/* A chain of 40 is followed, one of 41 is not. */
	for (int i = 0; i <= 40; i++) {
		char name[16], target[16];

		snprintf(name, sizeof(name), "l%d", i);
		snprintf(target, sizeof(target), "l%d", i + 1);
		OK(stet_symlinkat(vol, NULL, i == 40 ? "d/f" : target, STET_ROOT, name));
	}
	unit_expect(vol, NULL, "l1", "data");
	FAILS(-ELOOP, stet_openat(vol, NULL, STET_ROOT, "l0", O_RDONLY, 0, &file));
}

static void names(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_stat st;

	unit_write(vol, NULL, "f", "x");
	OK(stet_linkat(vol, NULL, STET_ROOT, "f", STET_ROOT, "g", 0));
	OK(stet_statat(vol, NULL, STET_ROOT, "g", 0, &st));
	assert_int_equal(st.nlink, 2);
	OK(stet_renameat(vol, NULL, STET_ROOT, "g", STET_ROOT, "h", 0));
	unit_expect_none(vol, NULL, "g");
	unit_write(vol, NULL, "i", "y");
	FAILS(-EEXIST,
	      stet_renameat(vol, NULL, STET_ROOT, "h", STET_ROOT, "i", STET_RENAME_NOREPLACE));
	OK(stet_renameat(vol, NULL, STET_ROOT, "h", STET_ROOT, "i", STET_RENAME_EXCHANGE));
	unit_expect(vol, NULL, "i", "x");
	unit_expect(vol, NULL, "h", "y");
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d/e", 0755));
	FAILS(-EINVAL, stet_renameat(vol, NULL, STET_ROOT, "d", STET_ROOT, "d/e/f", 0));
	FAILS(-ENOTDIR, stet_renameat(vol, NULL, STET_ROOT, "h", STET_ROOT, "d/", 0));
	FAILS(-ENOTDIR,
	      stet_renameat(vol, NULL, STET_ROOT, "d", STET_ROOT, "h/", STET_RENAME_EXCHANGE));
	FAILS(-ENOENT,
	      stet_renameat(vol, NULL, STET_ROOT, "h", STET_ROOT, "x/", STET_RENAME_EXCHANGE));
	OK(stet_renameat(vol, NULL, STET_ROOT, "h", STET_ROOT, "d/", STET_RENAME_EXCHANGE));
	OK(stet_renameat(vol, NULL, STET_ROOT, "h/", STET_ROOT, "d", STET_RENAME_EXCHANGE));
	FAILS(-ENOTEMPTY, stet_unlinkat(vol, NULL, STET_ROOT, "d", STET_AT_REMOVEDIR));
	FAILS(-EISDIR, stet_unlinkat(vol, NULL, STET_ROOT, "d/e", 0));
	FAILS(-ENOTDIR, stet_unlinkat(vol, NULL, STET_ROOT, "f", STET_AT_REMOVEDIR));
	OK(stet_unlinkat(vol, NULL, STET_ROOT, "d/e/", STET_AT_REMOVEDIR));
	OK(stet_unlinkat(vol, NULL, STET_ROOT, "d", STET_AT_REMOVEDIR));
	FAILS(-EBUSY, stet_unlinkat(vol, NULL, STET_ROOT, "/", STET_AT_REMOVEDIR));
	FAILS(-EPERM, stet_mkdirat(vol, NULL, STET_ROOT, ".stet", 0755));
	FAILS(-EPERM, stet_renameat(vol, NULL, STET_ROOT, "f", STET_ROOT, ".stet", 0));
	FAILS(-EINVAL, stet_unlinkat(vol, NULL, STET_ROOT, "f", 0x100));
}

static void attributes(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_setattr attr = { .set = STET_SET_MODE | STET_SET_UID | STET_SET_SIZE |
					    STET_SET_MTIME,
				     .mode = 0640,
				     .uid = 12,
				     .size = 3,
				     .mtime_ns = 1234567890123456789 };
	struct stet_stat st;

	unit_write(vol, NULL, "f", "abcdef");
	OK(stet_setattrat(vol, NULL, STET_ROOT, "f", 0, &attr));
	OK(stet_statat(vol, NULL, STET_ROOT, "f", 0, &st));
	assert_int_equal(st.mode, S_IFREG | 0640);
	assert_int_equal(st.uid, 12);
	assert_int_equal(st.size, 3);
	assert_true(st.mtime_ns == 1234567890123456789);
	assert_true(st.ctime_ns > 0 && st.btime_ns > 0);
	unit_expect(vol, NULL, "f", "abc");
	OK(stet_statat(vol, NULL, st.ino, "", 0, &st)); /* the inode itself */
	assert_int_equal(st.size, 3);
	OK(stet_statat(vol, NULL, STET_ROOT, "", 0, &st));
	assert_true(S_ISDIR(st.mode));
	assert_int_equal(st.ino, STET_ROOT);
}

static void xattrs(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	char big[20000], back[20000], names[64];

	memset(big, 'x', sizeof(big));
	unit_write(vol, NULL, "f", "x");
	OK(stet_setxattr(vol, NULL, STET_ROOT, "f", 0, "user.a", "1", 1));
	OK(stet_setxattr(vol, NULL, STET_ROOT, "f", 0, "user.big", big, sizeof(big)));
	FAILS(-EEXIST,
	      stet_setxattr(vol, NULL, STET_ROOT, "f", STET_XATTR_CREATE, "user.a", "2", 1));
	FAILS(-ENODATA,
	      stet_setxattr(vol, NULL, STET_ROOT, "f", STET_XATTR_REPLACE, "user.b", "2", 1));
	assert_int_equal(stet_getxattr(vol, NULL, STET_ROOT, "f", 0, "user.big", NULL, 0),
			 sizeof(big));
	assert_int_equal(stet_getxattr(vol, NULL, STET_ROOT, "f", 0, "user.big", back,
				       sizeof(back)),
			 sizeof(back));
	assert_memory_equal(big, back, sizeof(big));
	FAILS(-ERANGE, stet_getxattr(vol, NULL, STET_ROOT, "f", 0, "user.big", back, 5));
	FAILS(-ENODATA, stet_getxattr(vol, NULL, STET_ROOT, "f", 0, "user.no", back, 5));
	assert_int_equal(stet_listxattr(vol, NULL, STET_ROOT, "f", 0, names, sizeof(names)), 16);
	assert_memory_equal(names, "user.a\0user.big\0", 16);
	OK(stet_removexattr(vol, NULL, STET_ROOT, "f", 0, "user.a"));
	assert_int_equal(stet_listxattr(vol, NULL, STET_ROOT, "f", 0, names, sizeof(names)), 9);
}

static void unlinked_but_open(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_file *file;
	struct stet_stat st;
	char buf[8];

	unit_write(vol, NULL, "f", "still");
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_RDWR, 0, &file));
	OK(stet_unlinkat(vol, NULL, STET_ROOT, "f", 0));
	unit_sleep_ms(20); /* reclaim has its chance */
	assert_int_equal(stet_pread(file, buf, sizeof(buf), 0), 5);
	assert_int_equal(stet_pwrite(file, "here", 4, 0), 4);
	OK(stet_file_stat(file, &st));
	assert_int_equal(st.nlink, 0);
	uint64_t ino = stet_file_ino(file);
	stet_file_close(file);
	for (int i = 0; i < 2000 && stet_statat(vol, NULL, ino, "", 0, &st) != -ENOENT; i++)
		unit_sleep_ms(1);
	FAILS(-ENOENT, stet_statat(vol, NULL, ino, "", 0, &st));
}

/* Larger than a plan of pieces and than one atomic write. */
static void large_files(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_file *file;
	size_t len = ((size_t)5 << 20) + 12345;
	uint32_t *data = malloc(len), *back = malloc(len);

	assert_non_null(data);
	assert_non_null(back);
	for (size_t i = 0; i < len / 4; i++)
		data[i] = (uint32_t)(i * 2654435761u);
	OK(stet_openat(vol, NULL, STET_ROOT, "big", O_RDWR | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, data, len, 77), len);
	assert_int_equal(stet_pread(file, back, len, 77), len);
	assert_memory_equal(data, back, len / 4 * 4);
	OK(stet_fsync(file));
	OK(stet_sync(vol));
	memset(back, 0, len);
	assert_int_equal(stet_pread(file, back, len + 100, 77), len);
	assert_memory_equal(data, back, len / 4 * 4);
	/* Every other block rewritten: many small pieces. */
	for (size_t off = 0; off + 4096 <= len; off += 8192)
		assert_int_equal(stet_pwrite(file, (char *)data + off, 4096, off + 77), 4096);
	OK(stet_fsync(file));
	assert_int_equal(stet_pread(file, back, len, 77), len);
	assert_memory_equal(data, back, len / 4 * 4);
	assert_int_equal(stet_pread(file, back, 10, len + 77), 0);
	stet_file_close(file);
	free(data);
	free(back);
}

static void holes(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_file *file, *copy;
	char block[4096], back[4096], zero[4096] = { 0 };
	uint64_t off;
	struct stet_stat st;

	memset(block, 'b', sizeof(block));
	OK(stet_openat(vol, NULL, STET_ROOT, "h", O_RDWR | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, block, sizeof(block), 40960), sizeof(block));
	OK(stet_truncate(file, 100000));
	OK(stet_seek(file, 0, STET_SEEK_DATA, &off));
	assert_int_equal(off, 40960);
	OK(stet_seek(file, 40960, STET_SEEK_HOLE, &off));
	assert_int_equal(off, 45056);
	FAILS(-ENXIO, stet_seek(file, 50000, STET_SEEK_DATA, &off));
	FAILS(-ENXIO, stet_seek(file, 100000, STET_SEEK_HOLE, &off));
	OK(stet_openat(vol, NULL, STET_ROOT, "c", O_RDWR | O_CREAT, 0644, &copy));
	assert_int_equal(stet_pwrite(copy, block, sizeof(block), 0), sizeof(block));
	assert_int_equal(stet_copy_range(file, 0, copy, 0, UINT64_MAX / 4), 100000);
	OK(stet_file_stat(copy, &st));
	assert_int_equal(st.size, 100000);
	OK(stet_seek(copy, 0, STET_SEEK_DATA, &off));
	assert_int_equal(off, 40960);
	assert_int_equal(stet_pread(copy, back, sizeof(back), 40960), sizeof(back));
	assert_memory_equal(block, back, sizeof(back));
	OK(stet_punch(copy, 40960, 4096));
	assert_int_equal(stet_pread(copy, back, sizeof(back), 40960), sizeof(back));
	assert_memory_equal(zero, back, sizeof(back));
	FAILS(-EINVAL, stet_copy_range(file, 0, file, 4096, 8192));
	FAILS(-EFBIG, stet_pwrite(file, block, 10, INT64_MAX));
	stet_file_close(copy);
	stet_file_close(file);
}

static void options(void **state)
{
	struct unit_volume *u = *state;
	struct stet_mkfs_options bad = { .segment_bytes = 12345 };
	struct stet_statfs fs;
	struct stet_file *file;

	FAILS(-EINVAL, stet_api_format_device(u->device, &bad, NULL));
	bad = (struct stet_mkfs_options){ .meta_copies = 3 };
	FAILS(-EINVAL, stet_api_format_device(u->device, &bad, NULL));
	OK(stet_statfs(u->vol, &fs));
	assert_int_equal(fs.block_bytes, 4096);
	assert_true(fs.capacity_bytes > UNIT_DEVICE_BYTES / 2);
	assert_true(fs.avail_bytes > 0 && fs.avail_bytes < fs.capacity_bytes);
	assert_false(fs.failed);
	OK(stet_openat(u->vol, NULL, STET_ROOT, "f", O_WRONLY | O_CREAT, 0644, &file));
	FAILS(-EBUSY, stet_close(u->vol)); /* a file is open */
	stet_file_close(file);
	assert_true(strlen(stet_version()) > 0);
}

static void null_handles(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn;
	struct stet_file *file;
	struct stet_dir *it;
	struct stet_dir_entry entry;
	struct stet_statfs fs;
	struct stet_stat st;
	char buf[4];

	FAILS(-EINVAL, stet_begin(NULL, 0, &txn));
	FAILS(-EINVAL, stet_commit(NULL, 0));
	stet_abort(NULL);
	FAILS(-EINVAL, stet_changes(NULL, NULL, NULL));
	FAILS(-EINVAL, stet_openat(NULL, NULL, STET_ROOT, "f", O_RDONLY, 0, &file));
	FAILS(-EINVAL, stet_statat(NULL, NULL, STET_ROOT, "f", 0, &st));
	FAILS(-EINVAL, stet_mkdirat(NULL, NULL, STET_ROOT, "f", 0700));
	FAILS(-EINVAL, stet_unlinkat(NULL, NULL, STET_ROOT, "f", 0));
	FAILS(-EINVAL, stet_getxattr(NULL, NULL, STET_ROOT, "f", 0, "user.a", buf, 4));
	FAILS(-EINVAL, stet_dir_open(NULL, NULL, STET_ROOT, "", NULL, &it));
	FAILS(-EINVAL, stet_dir_next(NULL, &entry));
	stet_dir_close(NULL);
	FAILS(-EINVAL, stet_pread(NULL, buf, 4, 0));
	FAILS(-EINVAL, stet_pwrite(NULL, buf, 4, 0));
	FAILS(-EINVAL, stet_append(NULL, buf, 4));
	FAILS(-EINVAL, stet_truncate(NULL, 0));
	FAILS(-EINVAL, stet_punch(NULL, 0, 1));
	FAILS(-EINVAL, stet_fsync(NULL));
	FAILS(-EINVAL, stet_file_stat(NULL, &st));
	stet_file_close(NULL);
	FAILS(-EINVAL, stet_sync(NULL));
	FAILS(-EINVAL, stet_statfs(NULL, &fs));
	FAILS(-EINVAL, stet_stats(NULL, NULL, NULL));
	FAILS(-EINVAL, stet_clean(NULL, 1));
	OK(stet_sync(vol));
}

/* Cleaning on demand, as long as there is something to clean: that ends, and finds it all again. */
static void clean_to_the_end(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	static char text[4000];
	char name[32];
	int rounds = 0;

	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 1200; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		unit_write(vol, NULL, name, text);
		if (i % 50 == 0)
			OK(stet_sync(vol));
	}
	OK(stet_sync(vol));
	for (int i = 0; i < 1200; i += 2) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(stet_unlinkat(vol, NULL, STET_ROOT, name, 0));
	}
	OK(stet_sync(vol));
	/* What was deleted is freed in the background. */
	while (stet_clean(vol, 4) == 0 && rounds++ < 2000)
		unit_sleep_ms(1);
	assert_true(rounds < 2000);
	rounds = 0;
	for (int rc = 1; rc > 0; rounds++) {
		rc = stet_clean(vol, 4);
		assert_true(rc >= 0);
		assert_true(rounds < 40);
	}
	for (int i = 1; i < 1200; i += 2) {
		snprintf(name, sizeof(name), "f%d", i);
		unit_expect(vol, NULL, name, text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(write_and_read, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(open_flags, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(symbolic_links, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(names, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(attributes, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(xattrs, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(unlinked_but_open, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(large_files, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(holes, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(options, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(null_handles, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(clean_to_the_end, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/files", tests, NULL, NULL);
}
