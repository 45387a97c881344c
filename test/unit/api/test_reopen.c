/* test_reopen.c - what is there after closing, after a crash, in an image file; mkfs and check. */
#include "api_unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- in memory --- */

static void close_keeps_all(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *txn;

	unit_write(u->vol, NULL, "plain", "p");
	OK(stet_begin(u->vol, 0, &txn));
	unit_write(u->vol, txn, "txn", "t");
	OK(stet_commit(txn, STET_COMMIT_NOSYNC));
	unit_reopen(u, false);
	unit_expect(u->vol, NULL, "plain", "p");
	unit_expect(u->vol, NULL, "txn", "t");
}

static void crash_keeps_what_was_answered(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *txn;
	struct stet_file *file;

	OK(stet_begin(u->vol, 0, &txn));
	unit_write(u->vol, txn, "committed", "c");
	OK(stet_commit(txn, 0));
	unit_write(u->vol, NULL, "synced", "s");
	OK(stet_openat(u->vol, NULL, STET_ROOT, "synced", O_RDONLY, 0, &file));
	OK(stet_fsync(file));
	stet_file_close(file);
	unit_write(u->vol, NULL, "lost", "l"); /* the flush interval is far away */
	OK(stet_begin(u->vol, 0, &txn));
	unit_write(u->vol, txn, "open", "o");
	stet_abort(txn);
	unit_reopen(u, true);
	unit_expect(u->vol, NULL, "committed", "c");
	unit_expect(u->vol, NULL, "synced", "s");
	unit_expect_none(u->vol, NULL, "lost");
	unit_expect_none(u->vol, NULL, "open");
	unit_write(u->vol, NULL, "after", "a"); /* and it goes on */
	OK(stet_sync(u->vol));
	unit_reopen(u, true);
	unit_expect(u->vol, NULL, "after", "a");
}

static void orphans_are_reclaimed(void **state)
{
	struct unit_volume *u = *state;
	struct stet_file *file;
	struct stet_stat st;
	uint64_t ino;

	unit_write(u->vol, NULL, "f", "x");
	OK(stet_openat(u->vol, NULL, STET_ROOT, "f", O_RDWR, 0, &file));
	ino = stet_file_ino(file);
	OK(stet_unlinkat(u->vol, NULL, STET_ROOT, "f", 0));
	OK(stet_fsync(file));
	stet_file_close(file);
	unit_reopen(u, true);
	for (int i = 0; i < 2000 && stet_statat(u->vol, NULL, ino, "", 0, &st) == 0; i++)
		unit_sleep_ms(1);
	FAILS(-ENOENT, stet_statat(u->vol, NULL, ino, "", 0, &st));
}

static void flush_interval(void **state)
{
	struct unit_volume *u = *state;
	struct stet_open_options options = { .flush_interval_ms = 30 };
	struct stet_statfs fs = { 0 };
	uint64_t serial;

	unit_close(u);
	unit_open(u, &options);
	unit_write(u->vol, NULL, "f", "x");
	OK(stet_statfs(u->vol, &fs));
	serial = fs.serial;
	for (int i = 0; i < 2000 && fs.durable < serial; i++) {
		unit_sleep_ms(1);
		OK(stet_statfs(u->vol, &fs));
	}
	assert_true(fs.durable >= serial);
}

static void read_only(void **state)
{
	struct unit_volume *u = *state;
	struct stet_open_options options = { .read_only = true };
	struct stet_api_device_options more = { .keep_device = true };
	struct stet_txn *txn;

	unit_write(u->vol, NULL, "f", "x");
	unit_close(u);
	unit_open(u, &options);
	unit_expect(u->vol, NULL, "f", "x");
	FAILS(-EROFS, stet_mkdirat(u->vol, NULL, STET_ROOT, "d", 0755));
	FAILS(-EROFS, stet_begin(u->vol, 0, &txn));
	OK(stet_begin(u->vol, STET_BEGIN_READ_ONLY, &txn));
	unit_expect(u->vol, txn, "f", "x");
	OK(stet_commit(txn, 0));
	OK(stet_sync(u->vol));
	FAILS(-EROFS, stet_clean(u->vol, 1));
	options.read_only = false;
	options.recover_prefix = true;
	struct stet_volume *other;
	FAILS(-EINVAL, stet_api_open_device(u->device, &options, &more, &other));
}

/* --- image files --- */

struct image {
	char path[64];
};

static int set_up_image(void **state)
{
	struct image *image = calloc(1, sizeof(*image));
	int fd;

	assert_non_null(image);
	snprintf(image->path, sizeof(image->path), "/tmp/stet-api-XXXXXX");
	fd = mkstemp(image->path);
	assert_true(fd >= 0);
	close(fd);
	*state = image;
	return 0;
}

static int tear_down_image(void **state)
{
	struct image *image = *state;

	unlink(image->path);
	free(image);
	return 0;
}

static void image_file(void **state)
{
	const char *path = ((struct image *)*state)->path;
	struct stet_mkfs_options mkfs = { .label = "test", .root_mode = 0700 };
	struct stet_volume *vol, *other;
	struct stet_statfs fs;
	struct stet_stat st;

	FAILS(-EINVAL, stet_mkfs(path, NULL)); /* no size */
	mkfs.size_bytes = (uint64_t)1 << 20;
	FAILS(-ENOSPC, stet_mkfs(path, &mkfs));
	mkfs.size_bytes = (uint64_t)32 << 20;
	mkfs.data_copies = 2;
	FAILS(-EOPNOTSUPP, stet_mkfs(path, &mkfs)); /* rather than one copy in silence */
	mkfs.data_copies = 0;
	OK(stet_mkfs(path, &mkfs));
	FAILS(-EEXIST, stet_mkfs(path, &mkfs));
	OK(stet_open(path, NULL, &vol));
	FAILS(-EBUSY, stet_open(path, NULL, &other));
	mkfs.force = true;
	FAILS(-EBUSY, stet_mkfs(path, &mkfs));
	OK(stet_statfs(vol, &fs));
	assert_string_equal(fs.label, "test");
	assert_int_equal(fs.data_copies, 1);
	OK(stet_statat(vol, NULL, STET_ROOT, "/", 0, &st));
	assert_int_equal(st.mode, S_IFDIR | 0700);
	unit_write(vol, NULL, "f", "in a file");
	OK(stet_close(vol));
	OK(stet_open(path, NULL, &vol));
	unit_expect(vol, NULL, "f", "in a file");
	OK(stet_close(vol));
	OK(stet_mkfs(path, &mkfs)); /* force */
	OK(stet_open(path, NULL, &vol));
	unit_expect_none(vol, NULL, "f");
	OK(stet_close(vol));
	OK(stet_close(NULL));
}

static void no_volume(void **state)
{
	const char *path = ((struct image *)*state)->path;
	struct stet_volume *vol;

	FAILS(-EINVAL, stet_open(path, NULL, &vol));
	assert_int_equal(truncate(path, 32 << 20), 0);
	FAILS(-EINVAL, stet_open(path, NULL, &vol));
	assert_true(strlen(stet_error_text()) > 0);
	FAILS(-ENOENT, stet_open("/tmp/there/is/no/such/file", NULL, &vol));
	FAILS(-EINVAL, stet_check(path, 0, NULL, NULL));
}

static int print_problem(void *arg, const struct stet_problem *problem)
{
	int *count = arg;

	print_message("%s %s: %s\n", problem->id, problem->path, problem->text);
	(*count)++;
	return 0;
}

static void check_clean_volume(void **state)
{
	const char *path = ((struct image *)*state)->path;
	struct stet_mkfs_options mkfs = { .size_bytes = (uint64_t)32 << 20 };
	struct stet_volume *vol;
	struct stet_file *file;
	char name[32], block[8192];
	int count = 0;

	memset(block, 'z', sizeof(block));
	OK(stet_mkfs(path, &mkfs));
	OK(stet_open(path, NULL, &vol));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		OK(stet_mkdirat(vol, NULL, STET_ROOT, name, 0755));
		snprintf(name, sizeof(name), "d%d/f", i);
		OK(stet_openat(vol, NULL, STET_ROOT, name, O_WRONLY | O_CREAT, 0644, &file));
		assert_int_equal(stet_pwrite(file, block, sizeof(block), 100), sizeof(block));
		stet_file_close(file);
	}
	OK(stet_linkat(vol, NULL, STET_ROOT, "d1/f", STET_ROOT, "link", 0));
	OK(stet_symlinkat(vol, NULL, "d1/f", STET_ROOT, "sym"));
	OK(stet_setxattr(vol, NULL, STET_ROOT, "d2", 0, "user.x", "1", 1));
	FAILS(-EBUSY, stet_check(path, 0, print_problem, &count));
	OK(stet_close(vol));
	FAILS(0, stet_check(path, 0, print_problem, &count));
	assert_int_equal(count, 0);
}

/* Finds the block of z's in the file and spoils it. */
static void spoil(const char *path)
{
	FILE *f = fopen(path, "r+b");
	char block[4096];
	long off = 0;

	assert_non_null(f);
	for (; fread(block, 1, sizeof(block), f) == sizeof(block); off += (long)sizeof(block)) {
		if (block[0] != 'z' || memcmp(block, block + 1, sizeof(block) - 1) != 0)
			continue;
		block[100] ^= 1;
		assert_int_equal(fseek(f, off, SEEK_SET), 0);
		assert_int_equal(fwrite(block, 1, sizeof(block), f), sizeof(block));
		fclose(f);
		return;
	}
	fail_msg("the data was not found");
}

static int expect_data(void *arg, const struct stet_problem *problem)
{
	(void)arg;
	assert_string_equal(problem->id, "DATA_UNREADABLE");
	assert_string_equal(problem->path, "/f");
	return 0;
}

static void check_finds_bad_data(void **state)
{
	const char *path = ((struct image *)*state)->path;
	struct stet_mkfs_options mkfs = { .size_bytes = (uint64_t)32 << 20 };
	struct stet_volume *vol;
	struct stet_file *file;
	char block[8192];

	memset(block, 'z', sizeof(block));
	OK(stet_mkfs(path, &mkfs));
	OK(stet_open(path, NULL, &vol));
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_WRONLY | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, block, sizeof(block), 0), sizeof(block));
	stet_file_close(file);
	OK(stet_close(vol));
	spoil(path);
	FAILS(1, stet_check(path, 0, expect_data, NULL));
	FAILS(0, stet_check(path, STET_CHECK_NO_DATA, expect_data, NULL));
	OK(stet_open(path, NULL, &vol));
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_RDONLY, 0, &file));
	FAILS(-EIO, stet_pread(file, block, sizeof(block), 0)); /* never wrong data */
	stet_file_close(file);
	OK(stet_close(vol));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(close_keeps_all, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(crash_keeps_what_was_answered, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(orphans_are_reclaimed, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(flush_interval, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(read_only, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(image_file, set_up_image, tear_down_image),
		cmocka_unit_test_setup_teardown(no_volume, set_up_image, tear_down_image),
		cmocka_unit_test_setup_teardown(check_clean_volume, set_up_image, tear_down_image),
		cmocka_unit_test_setup_teardown(check_finds_bad_data, set_up_image,
						tear_down_image),
	};

	return cmocka_run_group_tests_name("api/reopen", tests, NULL, NULL);
}
