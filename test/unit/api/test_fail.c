/* test_fail.c - no space, no memory, a device that fails to flush. */
#include "api_unit.h"

#include "base/mem.h"

#include <sched.h>
#include <stdlib.h>

/* --- no space --- */

static ssize_t write_some(struct stet_volume *vol, int number)
{
	static char block[1 << 18];
	struct stet_file *file;
	char name[32];
	ssize_t n;
	int rc;

	memset(block, number, sizeof(block));
	snprintf(name, sizeof(name), "f%d", number);
	rc = stet_openat(vol, NULL, STET_ROOT, name, O_WRONLY | O_CREAT, 0644, &file);
	if (rc)
		return rc;
	n = stet_pwrite(file, block, sizeof(block), 0);
	stet_file_close(file);
	return n;
}

/* How many until there is no room. */
static int fill(struct stet_volume *vol)
{
	ssize_t n = 0;
	int i;

	for (i = 0; i < 1000; i++) {
		n = write_some(vol, i);
		if (n < 0)
			break;
	}
	assert_int_equal(n, -ENOSPC);
	OK(stet_sync(vol));
	return i;
}

static void empty(struct stet_volume *vol, int count)
{
	char name[32];

	for (int i = count; i >= 0; i--) {
		snprintf(name, sizeof(name), "f%d", i);
		int rc = stet_unlinkat(vol, NULL, STET_ROOT, name, 0);

		assert_true(rc == 0 || rc == -ENOENT);
	}
}

/* The call that asks is the one that is told; and a full volume can be emptied and filled again. */
static void full_volume(void **state)
{
	struct unit_volume *u = *state;

	for (int round = 0; round < 3; round++) {
		int n = fill(u->vol);

		assert_true(n > 100); /* of 256 that the device has room for */
		empty(u->vol, n);
	}
	OK(stet_sync(u->vol));
	unit_reopen(u, true);
	assert_true(write_some(u->vol, 1) > 0);
}

/* The threads of volumes that are opened from now on, too: they take turns, so who does not wait comes first. */
static void on_one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)sched_getcpu(), &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* Who asks for room while what was deleted is being reclaimed waits for it, also right after opening. */
static void emptied_before_opening(void **state)
{
	struct unit_volume *u = *state;
	cpu_set_t before;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	on_one_cpu();
	unit_reopen(u, false);
	for (int round = 0; round < 20; round++) {
		int n = fill(u->vol);

		empty(u->vol, n);
		if (round % 2 == 0)
			OK(stet_sync(u->vol));
		unit_reopen(u, round % 2 == 0);
		for (int i = 0; i < n / 2; i++)
			assert_true(write_some(u->vol, i) > 0);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* A transaction that writes its files again and again, or in small pieces, needs what they hold in the end. */
static void small_writes_in_a_transaction(void **state)
{
	struct unit_volume *u = *state;
	struct stet_file *file;
	struct stet_txn *txn;
	char piece[512];

	memset(piece, 'x', sizeof(piece));
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(stet_openat(u->vol, txn, STET_ROOT, "pieces", O_RDWR | O_CREAT, 0644, &file));
	for (uint64_t off = 0; off < (uint64_t)16 << 20; off += sizeof(piece))
		assert_int_equal(stet_pwrite(file, piece, sizeof(piece), off), sizeof(piece));
	for (unsigned i = 0; i < 20000; i++)
		assert_int_equal(stet_pwrite(file, piece, 100, i % 16 * 4096), 100);
	stet_file_close(file);
	for (unsigned i = 0; i < 3000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%u", i % 100);
		unit_write(u->vol, txn, name, "again");
	}
	OK(stet_commit(txn, 0));
	unit_expect(u->vol, NULL, "n99", "again");
	unit_reopen(u, true);
	unit_expect(u->vol, NULL, "n0", "again");
}

/* Filled and emptied in transactions: who writes is told that there is no room, and is not ended for it. */
static void full_by_transactions(void **state)
{
	struct unit_volume *u = *state;
	static char data[64 << 10];
	struct stet_file *file;
	struct stet_txn *txn;
	char name[32];
	int rc = 0;
	int n = 0;

	for (; !rc; n++) {
		snprintf(name, sizeof(name), "f%d", n);
		OK(stet_begin(u->vol, 0, &txn));
		rc = stet_openat(u->vol, txn, STET_ROOT, name, O_WRONLY | O_CREAT, 0644, &file);
		if (!rc) {
			ssize_t done = stet_pwrite(file, data, sizeof(data), 0);

			rc = done < 0 ? (int)done : 0;
			stet_file_close(file);
		}
		if (!rc)
			rc = stet_commit(txn, 0);
		if (rc)
			stet_abort(txn);
		assert_true(n < 2000);
	}
	assert_int_equal(rc, -ENOSPC);
	assert_true(n > 100);
	OK(stet_begin(u->vol, 0, &txn));
	for (int i = 0; i < n - 1; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(stet_unlinkat(u->vol, txn, STET_ROOT, name, 0));
	}
	OK(stet_commit(txn, 0));
}

/* The host has no room for what a transaction places early: it is told, after some tries. */
static void no_room_for_a_spill(void **state)
{
	struct unit_volume *u = *state;
	static char data[1 << 20];
	struct stet_file *file;
	struct stet_txn *txn;
	ssize_t n = 0;

	unit_write(u->vol, NULL, "before", "durable");
	OK(stet_sync(u->vol));
	u->wrap->no_room = true;
	OK(stet_begin(u->vol, 0, &txn));
	OK(stet_openat(u->vol, txn, STET_ROOT, "big", O_WRONLY | O_CREAT, 0644, &file));
	for (uint64_t i = 0; i < 30 && n >= 0; i++)
		n = stet_pwrite(file, data, sizeof(data), i << 20);
	assert_int_equal(n, -ENOSPC);
	stet_file_close(file);
	stet_abort(txn);
	u->wrap->no_room = false;
	unit_write(u->vol, NULL, "after", "too");
	unit_reopen(u, false);
	unit_expect(u->vol, NULL, "before", "durable");
	unit_expect(u->vol, NULL, "after", "too");
}

/* --- no memory --- */

static int op_files(struct stet_volume *vol)
{
	struct stet_file *file;
	char buf[16];
	ssize_t n;
	int rc = stet_openat(vol, NULL, STET_ROOT, "d/file", O_RDWR | O_CREAT, 0644, &file);

	if (rc)
		return rc;
	n = stet_pwrite(file, "text", 4, 5000);
	if (n >= 0)
		n = stet_pread(file, buf, sizeof(buf), 4990);
	if (n >= 0)
		n = stet_fsync(file);
	stet_file_close(file);
	if (n >= 0)
		rc = stet_unlinkat(vol, NULL, STET_ROOT, "d/file", 0);
	return n < 0 ? (int)n : rc;
}

static int ignore_change(void *arg, const struct stet_change *change)
{
	(void)arg;
	(void)change;
	return 0;
}

static int op_txn(struct stet_volume *vol)
{
	struct stet_txn *txn;
	int rc = stet_begin(vol, 0, &txn);

	if (rc)
		return rc;
	rc = stet_mkdirat(vol, txn, STET_ROOT, "d/new", 0755);
	if (!rc)
		rc = stet_renameat(vol, txn, STET_ROOT, "d/new", STET_ROOT, "d/newer", 0);
	if (!rc)
		rc = stet_changes(txn, ignore_change, NULL);
	if (!rc)
		rc = stet_unlinkat(vol, txn, STET_ROOT, "d/newer", STET_AT_REMOVEDIR);
	if (!rc)
		rc = stet_symlinkat(vol, txn, "x", STET_ROOT, "d/link");
	if (!rc)
		rc = stet_commit(txn, 0);
	if (rc)
		stet_abort(txn);
	else
		rc = stet_unlinkat(vol, NULL, STET_ROOT, "d/link", 0);
	return rc;
}

static int ignore_entry(void *arg, const struct stet_walk_entry *entry)
{
	(void)arg;
	(void)entry;
	return 0;
}

static int op_lists(struct stet_volume *vol)
{
	struct stet_dir_filter filter = { .glob = "d*" };
	struct stet_dir_entry entry;
	struct stet_dir *it;
	int rc = stet_dir_open(vol, NULL, STET_ROOT, "", &filter, &it);

	if (rc)
		return rc;
	while ((rc = stet_dir_next(it, &entry)) == 1)
		;
	stet_dir_close(it);
	if (!rc)
		rc = stet_walk(vol, NULL, STET_ROOT, "", STET_WALK_PRE | STET_WALK_STAT,
			       ignore_entry, NULL);
	return rc;
}

static int op_locks(struct stet_volume *vol)
{
	struct stet_ll_lock *lock;
	int rc = stet_ll_open_lock(vol, NULL, 77, STET_LL_NOWAIT, 0, NULL, NULL, &lock, NULL);

	if (rc)
		return rc;
	stet_ll_close_lock(vol, lock);
	rc = stet_ll_hold(vol, 77);
	if (!rc)
		stet_ll_unhold(vol, 77, 1);
	return rc;
}

/* Each allocation of an operation fails once: the error is -ENOMEM, nothing leaks, and the volume goes on.
 * A commit that could not be made durable for want of memory says -EIO. */
static void no_memory(void **state)
{
	struct unit_volume *u = *state;
	int (*const ops[])(struct stet_volume *) = { op_files, op_txn, op_lists, op_locks };
	const size_t count = unit_is_remote() ? 3 : 4; /* the last one goes by inode numbers */

	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "d", 0755));
	for (size_t i = 0; i < count; i++) {
		int rc = -ENOMEM;
		int64_t n;

		for (n = 1; rc && n < 2000; n++) {
			stet_mem_fail_after(n);
			rc = ops[i](u->vol);
			stet_mem_fail_after(-1);
			if (rc != 0 && rc != -ENOMEM && rc != -EIO)
				fail_msg("op %zu, allocation %lld: %d: %s", i, (long long)n, rc,
					 stet_error_text());
			/* What the failed one left is in the way of nobody but itself. */
			stet_ignore(stet_unlinkat(u->vol, NULL, STET_ROOT, "d/file", 0), "");
			stet_ignore(stet_unlinkat(u->vol, NULL, STET_ROOT, "d/link", 0), "");
		}
		OK(rc);
		print_message("op %zu: %lld allocations\n", i, (long long)n - 2);
	}
	unit_reopen(u, false);
	OK(op_files(u->vol));
}

/* --- a flush fails --- */

struct seen {
	_Atomic int failed;
};

static void watch(void *arg, enum stet_ll_phase phase, const struct stet_ll_touched *touched)
{
	struct seen *seen = arg;

	(void)touched;
	if (phase == STET_LL_FAILED)
		seen->failed++;
}

static void failed_flush(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *txn, *open;
	struct seen seen = { 0 };
	struct stet_statfs fs;

	OK(stet_ll_watch(u->local, watch, &seen));
	unit_write(u->vol, NULL, "before", "durable");
	OK(stet_sync(u->vol));
	OK(stet_begin(u->vol, 0, &open));
	unit_write(u->vol, open, "open", "x");
	unit_write(u->vol, NULL, "plain", "x");
	OK(stet_begin(u->vol, 0, &txn));
	unit_write(u->vol, txn, "after", "x");
	u->wrap->fail_flush = true;
	FAILS(-EIO, stet_commit(txn, 0));
	assert_true(strlen(stet_error_text()) > 0);
	FAILS(-EAGAIN, stet_commit(txn, 0));
	stet_abort(txn);
	u->wrap->fail_flush = false; /* too late */
	OK(stet_statfs(u->vol, &fs));
	assert_true(fs.failed);
	assert_non_null(strstr(fs.failure, "a flush of the log failed"));
	unit_expect(u->vol, NULL, "before", "durable");
	unit_expect_none(u->vol, NULL, "plain");
	unit_expect_none(u->vol, NULL, "after");
	FAILS(-EROFS, stet_mkdirat(u->vol, NULL, STET_ROOT, "d", 0755));
	FAILS(-EROFS, stet_begin(u->vol, 0, &txn));
	assert_non_null(strstr(stet_error_text(), "a flush of the log failed"));
	assert_int_not_equal(stet_commit(open, 0), 0);
	stet_abort(open);
	for (int i = 0; i < 2000 && seen.failed == 0; i++)
		unit_sleep_ms(1);
	assert_int_equal(seen.failed, 1);
	OK(stet_ll_watch(u->local, NULL, NULL));
	assert_int_not_equal(unit_try_close(u), 0); /* says that it could not keep all */
	unit_open(u, NULL);
	unit_expect(u->vol, NULL, "before", "durable");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(full_volume, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(emptied_before_opening, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(small_writes_in_a_transaction, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(full_by_transactions, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(no_room_for_a_spill, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(no_memory, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(failed_flush, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/fail", tests, NULL, NULL);
}
