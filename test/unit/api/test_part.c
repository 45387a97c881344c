/* test_part.c - calls of several parts, in a transaction: one that fails on its way has changed nothing, and the
 * transaction goes on; the same where what was changed cannot be placed early. */
#include "api_unit.h"

#include <linux/falloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

#define MIB ((size_t)1 << 20)
#define BLOCK 4096u
#define FILE_MIB 10u
#define LEVELS 3u

static const unsigned level[LEVELS] = { STET_BEGIN_SNAPSHOT, STET_BEGIN_SERIALIZABLE,
					STET_BEGIN_LOCKING };
static uint8_t bytes[FILE_MIB * MIB], back[FILE_MIB * MIB + 1];

static struct stet_file *open_at(struct stet_volume *vol, struct stet_txn *txn, const char *path)
{
	struct stet_file *file;

	OK(stet_openat(vol, txn, STET_ROOT, path, O_RDWR | O_CREAT, 0644, &file));
	return file;
}

static void write_mib(struct stet_volume *vol, const char *path, size_t mib)
{
	struct stet_file *file = open_at(vol, NULL, path);

	for (size_t at = 0; at < mib; at++)
		assert_int_equal(stet_pwrite(file, bytes + at % FILE_MIB * MIB, MIB, at * MIB),
				 MIB);
	stet_file_close(file);
	OK(stet_sync(vol));
}

/* Takes all room but that much. */
static void take_room(struct unit_volume *u, uint64_t but)
{
	struct stet_statfs fs;
	struct stet_file *file = open_at(u->vol, NULL, "most");
	uint64_t end = 0;

	for (unsigned i = 0; i < 4; i++) { /* what comes back with a checkpoint, too */
		OK(stet_sync(u->vol));
		unit_checkpoint(u->local);
		OK(stet_statfs(u->vol, &fs));
		while (fs.avail_bytes > but + MIB + MIB / 4) {
			assert_int_equal(stet_pwrite(file, bytes, MIB, end), MIB);
			end += MIB;
			OK(stet_statfs(u->vol, &fs));
		}
	}
	stet_file_close(file);
}

static void fill(void)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31 + i / 4096);
}

/* The file is as it was made. */
static void expect_whole(struct stet_volume *vol, struct stet_txn *txn, const char *path)
{
	struct stet_file *file;

	OK(stet_openat(vol, txn, STET_ROOT, path, O_RDONLY, 0, &file));
	assert_int_equal(stet_pread(file, back, sizeof(back), 0), sizeof(bytes));
	assert_memory_equal(back, bytes, sizeof(bytes));
	stet_file_close(file);
}

static void limit(struct unit_volume *u, uint64_t staged)
{
	const struct stet_ll_limits limits = { .max_staged_bytes = staged };

	OK(stet_ll_set_limits(u->local, &limits));
}

/* Taking out and putting in move 10 MiB: none of it is done, and the transaction may do something else. */
static void fail_to_shift(struct stet_volume *vol, unsigned flags, int why)
{
	struct stet_txn *txn = unit_begin(vol, flags);
	struct stet_file *file;
	uint64_t before, after;

	unit_write(vol, txn, "before", "kept");
	OK(stet_savepoint(txn, &before));
	file = open_at(vol, txn, "file");
	assert_int_equal(stet_pwrite(file, "x", 1, 5), 1);
	FAILS(why, stet_fallocate(file, FALLOC_FL_INSERT_RANGE, BLOCK, BLOCK));
	FAILS(why, stet_fallocate(file, FALLOC_FL_COLLAPSE_RANGE, BLOCK, BLOCK));
	OK(stet_savepoint(txn, &after));
	assert_int_equal(stet_pread(file, back, sizeof(back), 0), sizeof(bytes));
	assert_int_equal(back[5], 'x');
	OK(stet_rollback_to(txn, before)); /* as numbered before */
	expect_whole(vol, txn, "file");
	assert_int_equal(stet_pwrite(file, bytes, 10, 0), 10);
	stet_file_close(file);
	unit_write(vol, txn, "after", "kept");
	OK(stet_commit(txn, 0));
	unit_expect(vol, NULL, "before", "kept");
	unit_expect(vol, NULL, "after", "kept");
	expect_whole(vol, NULL, "file");
}

static void shifts_stop_at_the_limit(void **state)
{
	struct stet_volume *vol = unit_vol(state);

	fill();
	write_mib(vol, "file", FILE_MIB);
	limit(*state, 4 * MIB);
	for (unsigned l = 0; l < LEVELS; l++)
		fail_to_shift(vol, level[l], -EDQUOT);
	limit(*state, 0);
}

static void shifts_stop_where_room_ends(void **state)
{
	struct stet_volume *vol = unit_vol(state);

	fill();
	write_mib(vol, "file", FILE_MIB);
	take_room(*state, FILE_MIB / 2 * MIB);
	for (unsigned l = 0; l < LEVELS; l++)
		fail_to_shift(vol, level[l], -ENOSPC);
}

/* --- no memory --- */

/* Growing and clearing are one: after each allocation that fails, the file is as it was or the whole transaction is
 * lost. */
static void growing_without_memory(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	unsigned kept = 0;
	int rc = -ENOMEM;

	if (unit_is_remote())
		return; /* others allocate, too */
	fill();
	write_mib(vol, "file", FILE_MIB);
	for (int64_t at = 1; rc; at++) {
		struct stet_txn *txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
		struct stet_file *file = open_at(vol, txn, "file");

		assert_true(at < 1000);
		stet_mem_fail_after(at);
		rc = stet_fallocate(file, FALLOC_FL_ZERO_RANGE, 5 * MIB, FILE_MIB * MIB);
		stet_mem_fail_after(-1);
		stet_file_close(file);
		if (rc && stet_commit(txn, 0) == 0)
			kept++;
		else
			stet_abort(txn);
		expect_whole(vol, NULL, "file");
	}
	assert_true(kept > 0);
}

/* --- who writes is no owner --- */

/* A write that is refused leaves the set-user-id bit, which a write takes away. */
static void refused_writes_change_no_mode(void **state)
{
	struct unit_volume *u = *state;
	const struct stet_ll_who who = { .uid = 1000, .gid = 1000 };
	struct stet_setattr attr = { .set = STET_SET_MODE | STET_SET_UID,
				     .mode = 04777,
				     .uid = 1000 };
	struct stet_file *file;
	struct stet_txn *txn;
	struct stet_stat after;
	ssize_t refused, written;

	fill();
	write_mib(u->local, "file", 1);
	OK(stet_setattrat(u->local, NULL, STET_ROOT, "file", 0, &attr));
	attr.set = STET_SET_MODE;
	OK(stet_setattrat(u->local, NULL, STET_ROOT, "file", 0, &attr));
	take_room(u, 0);
	txn = unit_begin(u->local, STET_BEGIN_SNAPSHOT);
	file = open_at(u->local, txn, "file");
	stet_ll_act_as(&who);
	refused = stet_pwrite(file, bytes, MIB, FILE_MIB * MIB);
	OK(stet_file_stat(file, &after));
	written = stet_pwrite(file, "x", 1, 0);
	stet_ll_act_as(NULL);
	FAILS(-ENOSPC, refused);
	assert_int_equal(after.mode & 07777, 04777);
	assert_int_equal(written, 1);
	OK(stet_file_stat(file, &after));
	assert_int_equal(after.mode & 07777, 0777);
	stet_file_close(file);
	stet_abort(txn);
}

/* --- others in the transaction --- */

#define WRITES 2000u

struct other {
	struct stet_volume *vol;
	struct stet_txn *txn;
	_Atomic bool ready;
};

static void *write_beside(void *arg)
{
	struct other *o = arg;
	struct stet_file *file = open_at(o->vol, o->txn, "beside");

	o->ready = true;
	for (uint32_t i = 0; i < WRITES; i++)
		assert_int_equal(stet_pwrite(file, &i, sizeof(i), i * sizeof(i)), sizeof(i));
	stet_file_close(file);
	return NULL;
}

/* What is taken back is what the call has done, not what others did meanwhile. */
static void others_lose_nothing(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_file *file;
	struct other o = { .vol = vol };
	pthread_t thread;
	uint32_t value;

	fill();
	write_mib(vol, "file", FILE_MIB);
	limit(*state, 4 * MIB);
	o.txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	file = open_at(vol, o.txn, "file");
	assert_int_equal(pthread_create(&thread, NULL, write_beside, &o), 0);
	while (!o.ready)
		unit_sleep_ms(1);
	for (unsigned i = 0; i < 4; i++)
		FAILS(-EDQUOT, stet_fallocate(file, FALLOC_FL_INSERT_RANGE, BLOCK, BLOCK));
	pthread_join(thread, NULL);
	stet_file_close(file);
	expect_whole(vol, o.txn, "file");
	OK(stet_commit(o.txn, 0));
	file = open_at(vol, NULL, "beside");
	for (uint32_t i = 0; i < WRITES; i++) {
		assert_int_equal(stet_pread(file, &value, sizeof(value), i * sizeof(i)),
				 sizeof(value));
		assert_int_equal(value, i);
	}
	stet_file_close(file);
}

/* --- who waits for locks has it for himself not yet --- */

struct waiter {
	struct stet_file *file;
	_Atomic int rc;
};

static void *insert_beside(void *arg)
{
	struct waiter *w = arg;

	w->rc = stet_fallocate(w->file, FALLOC_FL_INSERT_RANGE, BLOCK, BLOCK);
	return NULL;
}

struct waits {
	uint64_t id;
	bool waits;
};

static int look(void *arg, const struct stet_txn_entry *entry)
{
	struct waits *w = arg;

	w->waits = w->waits || (entry->id == w->id && entry->waiting_for != 0);
	return 0;
}

/* Another transaction has the file; whoever ends it does something in the waiting one first. */
static void go_on_while_it_waits(struct stet_volume *vol, unsigned flags)
{
	struct stet_txn *txn = unit_begin(vol, flags), *other = unit_begin(vol, flags);
	struct waits waits = { .id = stet_transaction_id(txn) };
	struct stet_file *file = open_at(vol, other, "file");
	struct waiter w = { .file = open_at(vol, txn, "file"), .rc = 1 };
	pthread_t thread;

	assert_int_equal(stet_pwrite(file, "x", 1, 0), 1);
	assert_int_equal(pthread_create(&thread, NULL, insert_beside, &w), 0);
	while (!waits.waits) {
		OK(stet_txns(vol, look, &waits));
		unit_sleep_ms(1);
	}
	unit_write(vol, txn, "beside", "kept");
	assert_int_equal(w.rc, 1);
	stet_file_close(file);
	stet_abort(other);
	pthread_join(thread, NULL);
	assert_int_equal(w.rc, 0);
	stet_file_close(w.file);
	unit_expect(vol, txn, "beside", "kept");
	stet_abort(txn);
}

static void others_go_on_while_it_waits(void **state)
{
	struct stet_volume *vol = unit_vol(state);

	fill();
	write_mib(vol, "file", FILE_MIB);
	for (unsigned l = 0; l < LEVELS; l++)
		go_on_while_it_waits(vol, level[l]);
}

/* --- what savepoints need --- */

#define RECORD_BYTES 1000u
#define RECORDS 8000u

static void key_of(uint32_t i, char *key)
{
	snprintf(key, 16, "%08x", i);
}

static int put(struct stet_table *table, struct stet_txn *txn, uint32_t i)
{
	char key[16];

	key_of(i, key);
	return stet_put(table, txn, key, 8, bytes + i % MIB, RECORD_BYTES, 0);
}

/* Deletes with a savepoint before each 100. Returns how far it came. */
static uint32_t del_some(struct stet_table *table, struct stet_txn *txn, uint32_t from, uint32_t to,
			 bool save)
{
	uint64_t id;
	char key[16];

	for (uint32_t i = from; i < to; i++) {
		int rc;

		if (save && i % 100 == 0)
			OK(stet_savepoint(txn, &id));
		key_of(i, key);
		rc = stet_del(table, txn, key, 8);
		if (rc) {
			assert_int_equal(rc, -ENOSPC);
			return i;
		}
	}
	return to;
}

static void expect_count(struct stet_table *table, struct stet_txn *txn, uint32_t count)
{
	uint64_t n, seen = 0;
	struct stet_cursor *cursor;
	struct stet_record record;
	int rc;

	OK(stet_count(table, txn, NULL, &n));
	assert_int_equal(n, count);
	OK(stet_cursor_open(table, txn, NULL, &cursor));
	while ((rc = stet_cursor_next(cursor, &record)) == 1)
		seen++;
	OK(rc);
	assert_int_equal(seen, count);
	stet_cursor_close(cursor);
}

/* Deleting is possible on a full volume, but what savepoints keep needs room: without it the call fails, and going
 * back, forgetting the savepoints and going on, and committing are possible. */
static void savepoints_without_room(void **state)
{
	const struct stet_open_options small = { .cache_bytes = 4 * MIB };
	struct unit_volume *u = *state;
	const uint32_t count = RECORDS, half = 500;
	uint32_t done = 0;
	struct stet_table *table;
	struct stet_txn *txn;
	uint64_t first, id;

	fill();
	unit_close(u);
	unit_open(u, &small);
	OK(stet_table_open(u->vol, NULL, STET_ROOT, "table", O_RDWR | O_CREAT, 0644, &table));
	for (uint32_t i = 0; i < RECORDS; i++)
		OK(put(table, NULL, i));
	take_room(u, 0);
	for (unsigned l = 0; l < LEVELS; l++) {
		txn = unit_begin(u->vol, level[l]);
		OK(stet_savepoint(txn, &first));
		done = del_some(table, txn, 0, half, true);
		assert_int_equal(done, half);
		OK(stet_savepoint(txn, &id));
		done = del_some(table, txn, half, count, true);
		assert_true(done < count);
		expect_count(table, txn, count - done);
		OK(stet_rollback_to(txn, id));
		expect_count(table, txn, count - half);
		assert_int_equal(del_some(table, txn, half, half + 10, false), half + 10);
		done = del_some(table, txn, half + 10, count, true);
		assert_true(done < count);
		if (l + 1 == LEVELS) { /* with what could not be placed */
			OK(stet_commit(txn, 0));
			break;
		}
		OK(stet_savepoint_release(txn, first));
		assert_int_equal(del_some(table, txn, done, done + 20, false), done + 20);
		expect_count(table, txn, count - done - 20);
		stet_abort(txn);
	}
	expect_count(table, NULL, count - done);
	stet_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shifts_stop_at_the_limit, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(shifts_stop_where_room_ends, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(growing_without_memory, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(refused_writes_change_no_mode, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(others_lose_nothing, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(others_go_on_while_it_waits, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(savepoints_without_room, unit_set_up,
						unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/part", tests, NULL, NULL);
}
