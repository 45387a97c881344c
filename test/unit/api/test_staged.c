/* test_staged.c - what a transaction stages outside of its write-set: appends, and bytes at LOCKING; and what it
 * keeps of the files of others. */
#include "api_unit.h"

#include "base/mem.h"

#define APPEND_BYTES ((size_t)60 << 10)
#define FILES 8

static char bytes[1 << 20];

static void name_of(char *name, unsigned i)
{
	snprintf(name, 32, "f%u", i);
}

static void make_files(struct stet_volume *vol)
{
	char name[32];

	for (unsigned i = 0; i < FILES; i++) {
		name_of(name, i);
		unit_write(vol, NULL, name, "x");
	}
}

static void append_to_files(struct stet_volume *vol, struct stet_txn *txn)
{
	struct stet_file *file;
	char name[32];

	for (unsigned i = 0; i < FILES; i++) {
		name_of(name, i);
		OK(stet_openat(vol, txn, STET_ROOT, name, O_RDWR, 0, &file));
		assert_int_equal(stet_append(file, bytes, APPEND_BYTES), APPEND_BYTES);
		stet_file_close(file);
	}
}

static int take_staged(void *arg, const struct stet_txn_entry *entry)
{
	*(uint64_t *)arg = entry->staged_bytes;
	return 0;
}

/* They are in memory, so they count. */
static void appends_are_charged(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_file *file;
	struct stet_txn *txn;
	uint64_t staged, id;

	make_files(vol);
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	append_to_files(vol, txn);
	OK(stet_txns(vol, take_staged, &staged));
	assert_true(staged >= FILES * APPEND_BYTES);
	OK(stet_savepoint(txn, &id));
	OK(stet_openat(vol, txn, STET_ROOT, "f0", O_RDWR, 0, &file));
	assert_int_equal(stet_pwrite(file, "y", 1, 0), 1); /* settles it */
	stet_file_close(file);
	OK(stet_rollback_to(txn, id));
	OK(stet_txns(vol, take_staged, &staged));
	assert_true(staged >= FILES * APPEND_BYTES);
	OK(stet_commit(txn, 0));
}

/* More than its share of memory is not kept, however many files it is for. */
static void appends_are_bounded(void **state)
{
	const struct stet_open_options small = { .cache_bytes = 4 << 20 };
	struct unit_volume *u = *state;
	struct stet_file *file;
	struct stet_txn *txn;
	char name[32];
	struct stet_stat st;

	unit_close(u);
	unit_open(u, &small);
	for (unsigned i = 0; i < 200; i++) {
		name_of(name, i);
		unit_write(u->vol, NULL, name, "x");
	}
	txn = unit_begin(u->vol, STET_BEGIN_SNAPSHOT);
	for (unsigned i = 0; i < 200; i++) {
		name_of(name, i);
		OK(stet_openat(u->vol, txn, STET_ROOT, name, O_RDWR, 0, &file));
		assert_int_equal(stet_append(file, bytes, APPEND_BYTES), APPEND_BYTES);
		stet_file_close(file);
		assert_true(unit_counter(u->vol, "cache_used_bytes") < UINT64_C(8) << 20);
	}
	OK(stet_commit(txn, 0));
	for (unsigned i = 0; i < 200; i++) {
		name_of(name, i);
		OK(stet_statat(u->vol, NULL, STET_ROOT, name, 0, &st));
		assert_int_equal(st.size, APPEND_BYTES + 1);
	}
}

/* Who has appended has written: others that need room do not end it as a reader. */
static void who_appends_is_no_reader(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_file *file;
	struct stet_txn *txn;
	ssize_t n = 0;

	make_files(vol);
	OK(stet_openat(vol, NULL, STET_ROOT, "big", O_WRONLY | O_CREAT, 0644, &file));
	for (uint64_t i = 0; i < 28; i++)
		assert_int_equal(stet_pwrite(file, bytes, sizeof(bytes), i << 20), sizeof(bytes));
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	append_to_files(vol, txn);
	for (uint64_t i = 0; i < 200 && n >= 0; i++) /* the old blocks are its view's */
		n = stet_pwrite(file, bytes, sizeof(bytes), i % 28 << 20);
	assert_int_equal(n, -ENOSPC);
	OK(stet_commit(txn, 0));
	stet_file_close(file);
}

/* What a transaction has promised when it has made many files besides. */
static uint64_t promised_with_names(struct stet_volume *vol, bool appends)
{
	struct stet_statfs before, after;
	struct stet_txn *txn;
	char name[32];

	OK(stet_sync(vol));
	OK(stet_statfs(vol, &before));
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	if (appends)
		append_to_files(vol, txn);
	OK(stet_mkdirat(vol, txn, STET_ROOT, "d", 0755));
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "d/%08u", i);
		OK(stet_mkdirat(vol, txn, STET_ROOT, name, 0755));
	}
	OK(stet_statfs(vol, &after));
	stet_abort(txn);
	return after.reserved_bytes - before.reserved_bytes;
}

/* A spill gives back what was promised too much, and not what is staged elsewhere. */
static void appends_stay_promised(void **state)
{
	const struct stet_open_options small = { .cache_bytes = 4 << 20 };
	struct unit_volume *u = *state;
	uint64_t with, without;

	unit_close(u);
	unit_open(u, &small);
	make_files(u->vol);
	without = promised_with_names(u->vol, false);
	with = promised_with_names(u->vol, true);
	assert_true(with >= without + FILES * APPEND_BYTES);
}

/* --- rests --- */

static void write_mib(struct stet_volume *vol, const char *name, unsigned mib)
{
	struct stet_file *file;

	OK(stet_openat(vol, NULL, STET_ROOT, name, O_RDWR | O_CREAT, 0644, &file));
	for (uint64_t i = 0; i < mib; i++)
		assert_int_equal(stet_pwrite(file, bytes, sizeof(bytes), i << 20), sizeof(bytes));
	stet_file_close(file);
	OK(stet_sync(vol));
}

/* Both slots, and the log behind them, forget what was before. */
static void checkpoints(struct unit_volume *u)
{
	for (unsigned i = 0; i < 4; i++) {
		unit_write(u->vol, NULL, "other", "x");
		unit_checkpoint(u->local);
	}
}

/* The file lies alone in its segments, which are worth cleaning then. */
static void make_lonely(struct unit_volume *u)
{
	struct stet_file *file;

	write_mib(u->vol, "junk0", 3);
	OK(stet_openat(u->vol, NULL, STET_ROOT, "file", O_RDWR | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, bytes, 100 << 10, 0), 100 << 10);
	stet_file_close(file);
	write_mib(u->vol, "junk1", 3);
	OK(stet_unlinkat(u->vol, NULL, STET_ROOT, "junk0", 0));
	OK(stet_unlinkat(u->vol, NULL, STET_ROOT, "junk1", 0));
	checkpoints(u);
}

static void clean_all(struct unit_volume *u)
{
	uint64_t moved = unit_counter(u->vol, "moved_blocks");

	stet_ignore(stet_clean(u->vol, 60), "how many does not matter");
	assert_true(unit_counter(u->vol, "moved_blocks") > moved);
	checkpoints(u);
}

static void expect_bytes(struct stet_file *file, uint64_t lo, uint64_t hi)
{
	static char have[100 << 10];

	assert_int_equal(stet_pread(file, have, hi - lo, lo), hi - lo);
	assert_memory_equal(have, bytes + lo, hi - lo);
}

/* A transaction that has cut a file reads the rests also when they were moved: at LOCKING, too, where it has no
 * view that keeps the old places; and again after going back to a savepoint. */
static void rests_are_followed(void **state)
{
	static const unsigned level[] = { STET_BEGIN_SNAPSHOT, STET_BEGIN_LOCKING };
	struct unit_volume *u = *state;
	struct stet_file *file;
	struct stet_txn *txn;
	uint64_t id;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 31 + i / 4096);
	for (unsigned l = 0; l < 2; l++) {
		make_lonely(u);
		txn = unit_begin(u->vol, level[l]);
		OK(stet_openat(u->vol, txn, STET_ROOT, "file", O_RDWR, 0, &file));
		OK(stet_punch(file, 40 << 10, 8 << 10));
		OK(stet_savepoint(txn, &id));
		clean_all(u);
		expect_bytes(file, 0, 40 << 10);
		OK(stet_punch(file, 80 << 10, 4 << 10));
		expect_bytes(file, 48 << 10, 80 << 10);
		OK(stet_rollback_to(txn, id));
		expect_bytes(file, 0, 40 << 10);
		expect_bytes(file, 48 << 10, 100 << 10);
		assert_int_equal(stet_pwrite(file, bytes + 5000, 2, 5000), 2);
		OK(stet_commit(txn, 0));
		stet_file_close(file);
		OK(stet_openat(u->vol, NULL, STET_ROOT, "file", O_RDONLY, 0, &file));
		expect_bytes(file, 0, 40 << 10);
		expect_bytes(file, 48 << 10, 100 << 10);
		stet_file_close(file);
	}
}

/* --- long writes --- */
#define LONG_MIB 40u

/* Writes more than there is room for: some of it is written, the rest is refused, for this reason. */
static void write_too_much(struct stet_volume *vol, struct stet_txn *txn, int why)
{
	static char much[LONG_MIB << 20];
	struct stet_file *file;
	ssize_t done;

	OK(stet_openat(vol, txn, STET_ROOT, "much", O_RDWR | O_CREAT, 0644, &file));
	done = stet_pwrite(file, much, sizeof(much), 0);
	assert_true(done > 0 && done < (ssize_t)sizeof(much));
	FAILS(why, stet_pwrite(file, much, sizeof(much) - (size_t)done, (uint64_t)done));
	stet_file_close(file);
}

/* What was unlinked is reclaimed behind the call. */
static void wait_for_room(struct unit_volume *u)
{
	struct stet_statfs fs;

	for (unsigned i = 0; i < 1000; i++) {
		checkpoints(u);
		OK(stet_statfs(u->vol, &fs));
		if (fs.avail_bytes > UINT64_C(25) << 20)
			return;
		unit_sleep_ms(5);
	}
	fail_msg("the room does not come back");
}

/* A transaction goes on after a write that did not fit, without it or with what was freed for it. */
static void long_writes_end_where_room_ends(void **state)
{
	static const unsigned level[] = { STET_BEGIN_SNAPSHOT, STET_BEGIN_SERIALIZABLE,
					  STET_BEGIN_LOCKING };
	struct stet_volume *vol = unit_vol(state);

	write_mib(vol, "most", 20);
	for (unsigned l = 0; l < 3; l++) {
		wait_for_room(*state);
		struct stet_txn *txn = unit_begin(vol, level[l]);
		uint64_t id;

		unit_write(vol, txn, "before", "kept");
		OK(stet_savepoint(txn, &id));
		write_too_much(vol, txn, -ENOSPC);
		OK(stet_rollback_to(txn, id));
		unit_expect_none(vol, txn, "much");
		write_too_much(vol, txn, -ENOSPC);
		OK(stet_unlinkat(vol, txn, STET_ROOT, "much", 0));
		unit_write(vol, txn, "after", "kept");
		OK(stet_commit(txn, 0));
		unit_expect(vol, NULL, "before", "kept");
		unit_expect(vol, NULL, "after", "kept");
		unit_expect_none(vol, NULL, "much");
	}
}

static void long_writes_end_where_the_limit_is(void **state)
{
	struct unit_volume *u = *state;
	struct stet_ll_limits some = { .max_staged_bytes = 4 << 20 };
	struct stet_txn *txn;
	uint64_t id;

	OK(stet_ll_set_limits(u->local, &some));
	txn = unit_begin(u->vol, STET_BEGIN_SNAPSHOT);
	unit_write(u->vol, txn, "before", "kept");
	OK(stet_savepoint(txn, &id));
	write_too_much(u->vol, txn, -EDQUOT);
	OK(stet_rollback_to(txn, id));
	unit_write(u->vol, txn, "after", "kept");
	OK(stet_commit(txn, 0));
	unit_expect(u->vol, NULL, "after", "kept");
	unit_expect_none(u->vol, NULL, "much");
}

/* --- no memory --- */

/* Each allocation of the first change of a file fails once: going back to a savepoint is possible. */
static void going_back_without_memory(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	ssize_t n = -ENOMEM;

	unit_write(vol, NULL, "file", "hello");
	for (int64_t at = 1; n < 0; at++) {
		struct stet_txn *txn = unit_begin(vol, STET_BEGIN_LOCKING);
		struct stet_file *file;
		uint64_t id;

		assert_true(at < 1000);
		OK(stet_savepoint(txn, &id));
		OK(stet_openat(vol, txn, STET_ROOT, "file", O_RDWR, 0, &file));
		stet_mem_fail_after(at);
		n = stet_pwrite(file, "xx", 2, 1);
		stet_mem_fail_after(-1);
		assert_true(n == 2 || n == -ENOMEM);
		int rc = stet_rollback_to(txn, id);
		assert_true(rc == 0 || rc == -ENOMEM); /* it may have failed for good */
		stet_file_close(file);
		stet_abort(txn);
		unit_expect(vol, NULL, "file", "hello");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(appends_are_charged, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(appends_are_bounded, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(who_appends_is_no_reader, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(appends_stay_promised, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(rests_are_followed, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(long_writes_end_where_room_ends, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(long_writes_end_where_the_limit_is, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(going_back_without_memory, unit_set_up,
						unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/staged", tests, NULL, NULL);
}
