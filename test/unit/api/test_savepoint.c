/* test_savepoint.c - savepoints through the public header: what goes back, what stays, who may, and the cost. */
#include "api_unit.h"

#include <dirent.h>
#include <pthread.h>

static const unsigned levels[] = { STET_BEGIN_SNAPSHOT, STET_BEGIN_SERIALIZABLE,
				   STET_BEGIN_LOCKING };

static uint64_t save(struct stet_txn *txn)
{
	uint64_t id = 0;

	OK(stet_savepoint(txn, &id));
	assert_true(id > 0);
	return id;
}

static void append(struct stet_volume *vol, struct stet_txn *txn, const char *path,
		   const char *text)
{
	struct stet_file *file;

	OK(stet_openat(vol, txn, STET_ROOT, path, O_WRONLY, 0, &file));
	assert_int_equal(stet_append(file, text, strlen(text)), strlen(text));
	stet_file_close(file);
}

/* --- what goes back --- */

static void everything_goes_back(void **state)
{
	struct stet_volume *vol = unit_vol(state);

	for (size_t i = 0; i < 3; i++) {
		struct stet_txn *txn;
		uint64_t a, b;
		char value[8];

		unit_write(vol, NULL, "old", "before");
		unit_write(vol, NULL, "gone", "still here");
		OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
		txn = unit_begin(vol, levels[i]);
		unit_write(vol, txn, "one", "1");
		append(vol, txn, "old", ", staged");
		OK(stet_setxattr(vol, txn, STET_ROOT, "old", 0, "user.x", "1", 1));
		a = save(txn);
		append(vol, txn, "old", ", too");
		unit_expect(vol, txn, "old", "before, staged, too");
		unit_write(vol, txn, "old", "now");
		OK(stet_unlinkat(vol, txn, STET_ROOT, "gone", 0));
		OK(stet_unlinkat(vol, txn, STET_ROOT, "d", STET_AT_REMOVEDIR));
		OK(stet_setxattr(vol, txn, STET_ROOT, "old", 0, "user.x", "2", 1));
		OK(stet_renameat(vol, txn, STET_ROOT, "one", STET_ROOT, "two", 0));
		b = save(txn);
		unit_write(vol, txn, "three", "3");
		OK(stet_rollback_to(txn, b));
		unit_expect_none(vol, txn, "three");
		unit_expect(vol, txn, "two", "1");
		unit_expect(vol, txn, "old", "now");
		OK(stet_rollback_to(txn, a));
		FAILS(-ENOENT, stet_rollback_to(txn, b));
		unit_expect(vol, txn, "old", "before, staged");
		unit_expect(vol, txn, "gone", "still here");
		unit_expect(vol, txn, "one", "1");
		unit_expect_none(vol, txn, "two");
		assert_int_equal(stet_getxattr(vol, txn, STET_ROOT, "old", 0, "user.x", value,
					       sizeof(value)),
				 1);
		assert_int_equal(value[0], '1');
		unit_write(vol, txn, "d/f", "kept");
		OK(stet_commit(txn, 0));
		unit_expect(vol, NULL, "old", "before, staged");
		unit_expect(vol, NULL, "one", "1");
		unit_expect(vol, NULL, "d/f", "kept");
		OK(stet_unlinkat(vol, NULL, STET_ROOT, "d/f", 0));
		OK(stet_unlinkat(vol, NULL, STET_ROOT, "d", STET_AT_REMOVEDIR));
		OK(stet_unlinkat(vol, NULL, STET_ROOT, "one", 0));
		OK(stet_unlinkat(vol, NULL, STET_ROOT, "old", 0));
	}
}

/* A buffer that a savepoint needs is not written to. */
static void content_goes_back(void **state)
{
	static char block[3][65536];
	struct stet_volume *vol = unit_vol(state);
	char have[65536];

	memset(block[0], 'a', sizeof(block[0]));
	memset(block[1], 'b', sizeof(block[1]));
	memset(block[2], 'c', sizeof(block[2]));
	for (size_t i = 0; i < 3; i++) {
		struct stet_txn *txn = unit_begin(vol, levels[i]);
		struct stet_file *file;
		uint64_t ids[2];

		OK(stet_openat(vol, txn, STET_ROOT, "f", O_RDWR | O_CREAT, 0644, &file));
		assert_int_equal(stet_pwrite(file, block[0], 65536, 0), 65536);
		ids[0] = save(txn);
		assert_int_equal(stet_pwrite(file, block[1], 5000, 3000), 5000);
		ids[1] = save(txn);
		assert_int_equal(stet_pwrite(file, block[2], 5000, 7000), 5000);
		OK(stet_truncate(file, 100));
		OK(stet_rollback_to(txn, ids[1]));
		assert_int_equal(stet_pread(file, have, 65536, 0), 65536);
		assert_memory_equal(have, block[0], 3000);
		assert_memory_equal(have + 3000, block[1], 5000);
		assert_memory_equal(have + 8000, block[0], 57536);
		OK(stet_rollback_to(txn, ids[0]));
		assert_int_equal(stet_pread(file, have, 65536, 0), 65536);
		assert_memory_equal(have, block[0], 65536);
		stet_file_close(file);
		stet_abort(txn);
	}
}

static void releasing_keeps(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn = unit_begin(vol, 0);
	uint64_t a = save(txn), b, c;

	unit_write(vol, txn, "a", "1");
	b = save(txn);
	unit_write(vol, txn, "a", "2");
	c = save(txn);
	unit_write(vol, txn, "a", "3");
	OK(stet_savepoint_release(txn, b));
	FAILS(-ENOENT, stet_savepoint_release(txn, b));
	FAILS(-ENOENT, stet_rollback_to(txn, c));
	unit_expect(vol, txn, "a", "3");
	assert_true(save(txn) > c); /* numbers do not come again */
	OK(stet_rollback_to(txn, a));
	unit_expect_none(vol, txn, "a");
	OK(stet_savepoint_release(txn, a));
	FAILS(-ENOENT, stet_rollback_to(txn, a));
	FAILS(-EINVAL, stet_rollback_to(NULL, a));
	OK(stet_commit(txn, 0));
}

static int add_record(struct stet_table *table, struct stet_txn *txn, unsigned i, char c,
		      size_t len)
{
	static char value[100000];
	char key[16];

	snprintf(key, sizeof(key), "%05u", i);
	memset(value, c, len);
	return stet_put(table, txn, key, strlen(key), value, len, 0);
}

static void expect_record(struct stet_table *table, struct stet_txn *txn, unsigned i, char c,
			  size_t len)
{
	static char value[100000];
	char key[16];

	snprintf(key, sizeof(key), "%05u", i);
	assert_int_equal(stet_get(table, txn, key, strlen(key), value, sizeof(value), 0), len);
	assert_int_equal(value[0], c);
	assert_int_equal(value[len - 1], c);
}

/* Records need nothing of their own. */
static void records_go_back(void **state)
{
	struct stet_volume *vol = unit_vol(state);

	for (size_t i = 0; i < 3; i++) {
		struct stet_table *table;
		struct stet_txn *txn;
		uint64_t id, count;

		OK(stet_table_open(vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT, 0644, &table));
		OK(add_record(table, NULL, 1, 'a', 10));
		OK(add_record(table, NULL, 2, 'b', 50000));
		txn = unit_begin(vol, levels[i]);
		OK(add_record(table, txn, 3, 'c', 50000));
		id = save(txn);
		OK(add_record(table, txn, 1, 'x', 60000));
		OK(add_record(table, txn, 2, 'y', 20));
		OK(add_record(table, txn, 3, 'z', 70000));
		OK(stet_del(table, txn, "00003", 5));
		OK(add_record(table, txn, 4, 'n', 10));
		OK(stet_rollback_to(txn, id));
		OK(stet_count(table, txn, NULL, &count));
		assert_int_equal(count, 3);
		expect_record(table, txn, 1, 'a', 10);
		expect_record(table, txn, 2, 'b', 50000);
		expect_record(table, txn, 3, 'c', 50000);
		OK(stet_commit(txn, 0));
		OK(stet_count(table, NULL, NULL, &count));
		assert_int_equal(count, 3);
		expect_record(table, NULL, 3, 'c', 50000);
		expect_record(table, NULL, 2, 'b', 50000);
		stet_table_close(table);
		OK(stet_unlinkat(vol, NULL, STET_ROOT, "t", 0));
	}
}

/* --- what stays --- */

static void locks_and_reads_stay(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *one, *two;
	uint64_t id;

	unit_write(vol, NULL, "a", "1");
	unit_write(vol, NULL, "b", "1");
	one = unit_begin(vol, STET_BEGIN_SERIALIZABLE);
	id = save(one);
	unit_expect(vol, one, "b", "1");
	OK(stet_unlinkat(vol, one, STET_ROOT, "a", 0));
	OK(stet_rollback_to(one, id));
	two = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	OK(stet_lock_timeout(two, 20));
	FAILS(-ETIMEDOUT, stet_unlinkat(vol, two, STET_ROOT, "a", 0));
	stet_abort(two);
	unit_write(vol, NULL, "b", "2");
	unit_write(vol, one, "c", "3");
	FAILS(-EBUSY, stet_commit(one, 0)); /* b was read */
	stet_abort(one);
	unit_expect_none(vol, NULL, "c");
}

static void conflicts_stay(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn;
	struct stet_file *file;
	uint64_t id, other;

	unit_write(vol, NULL, "a", "1");
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	id = save(txn);
	unit_write(vol, NULL, "a", "2");
	OK(stet_openat(vol, txn, STET_ROOT, "a", O_RDWR, 0, &file));
	FAILS(-EBUSY, stet_pwrite(file, "x", 1, 0));
	stet_file_close(file);
	FAILS(-EBUSY, stet_rollback_to(txn, id));
	FAILS(-EBUSY, stet_savepoint(txn, &other));
	FAILS(-EBUSY, stet_savepoint_release(txn, id));
	FAILS(-EBUSY, stet_commit(txn, 0));
	FAILS(-EAGAIN, stet_rollback_to(txn, id));
	stet_abort(txn);
}

/* What was claimed goes: the commit is not refused for what was taken back. */
static void claims_go(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn;
	uint64_t id;

	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	id = save(txn);
	OK(stet_unlinkat(vol, txn, STET_ROOT, "d", STET_AT_REMOVEDIR));
	OK(stet_rollback_to(txn, id));
	unit_write(vol, txn, "d/f", "1");
	OK(stet_commit(txn, 0));
	unit_expect(vol, NULL, "d/f", "1");
}

static void handles_of_what_is_gone(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn = unit_begin(vol, 0);
	uint64_t id = save(txn);
	struct stet_dir_entry entry;
	struct stet_table *table;
	struct stet_file *file;
	struct stet_stat stat;
	struct stet_dir *dir;
	char buf[8];

	OK(stet_openat(vol, txn, STET_ROOT, "f", O_RDWR | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, "abc", 3, 0), 3);
	OK(stet_mkdirat(vol, txn, STET_ROOT, "d", 0755));
	OK(stet_dir_open(vol, txn, STET_ROOT, "d", NULL, &dir));
	OK(stet_table_open(vol, txn, STET_ROOT, "t", O_RDWR | O_CREAT, 0644, &table));
	OK(stet_rollback_to(txn, id));
	unit_write(vol, txn, "other", "xyz"); /* gets another number */
	FAILS(-ENOENT, stet_pread(file, buf, sizeof(buf), 0));
	FAILS(-ENOENT, stet_pwrite(file, "abc", 3, 0));
	FAILS(-ENOENT, stet_append(file, "abc", 3));
	FAILS(-ENOENT, stet_truncate(file, 0));
	FAILS(-ENOENT, stet_file_stat(file, &stat));
	FAILS(-ENOENT, stet_dir_next(dir, &entry));
	FAILS(-ENOENT, stet_put(table, txn, "k", 1, "v", 1, 0));
	FAILS(-ENOENT, stet_get(table, txn, "k", 1, buf, sizeof(buf), 0));
	stet_dir_close(dir);
	stet_file_close(file);
	stet_table_close(table);
	unit_expect(vol, txn, "other", "xyz");
	OK(stet_commit(txn, 0));
}

/* --- others --- */

static void read_only_and_frozen(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn = unit_begin(vol, STET_BEGIN_READ_ONLY);
	uint64_t id = save(txn);

	OK(stet_rollback_to(txn, id));
	OK(stet_savepoint_release(txn, id));
	FAILS(-ENOENT, stet_rollback_to(txn, id));
	OK(stet_commit(txn, 0));
	txn = unit_begin(vol, 0);
	id = save(txn);
	unit_write(vol, txn, "a", "1");
	OK(stet_freeze(txn));
	FAILS(-EROFS, stet_rollback_to(txn, id));
	OK(stet_savepoint_release(txn, id));
	OK(stet_commit(txn, 0));
	unit_expect(vol, NULL, "a", "1");
}

static uint64_t used_bytes;

static int find_used(void *arg, const char *name, uint64_t value)
{
	(void)arg;
	if (strcmp(name, "cache_used_bytes") == 0)
		used_bytes = value;
	return 0;
}

static uint64_t used(struct stet_volume *vol)
{
	OK(stet_stats(vol, find_used, NULL));
	return used_bytes;
}

/* Where nothing is done between them they cost nothing; each of them is one nevertheless. */
static void savepoints_without_changes(struct stet_volume *vol, struct stet_txn *txn)
{
	uint64_t first = save(txn), id = first, before = used(vol);

	for (unsigned i = 1; i < 20000; i++) {
		id = save(txn);
		assert_int_equal(id, first + i);
	}
	assert_in_range(used(vol), before, before + 200000); /* others use the cache, too */
	FAILS(-ENOENT, stet_rollback_to(txn, id + 1));
	OK(stet_rollback_to(txn, id));
	OK(stet_rollback_to(txn, first + 100));
	FAILS(-ENOENT, stet_rollback_to(txn, first + 101));
	FAILS(-ENOENT, stet_savepoint_release(txn, id));
	assert_int_equal(save(txn), id + 1); /* numbers are not used again */
	OK(stet_rollback_to(txn, id + 1));
	OK(stet_rollback_to(txn, first + 100));
	FAILS(-ENOENT, stet_rollback_to(txn, id + 1));
	OK(stet_savepoint_release(txn, first + 50));
	FAILS(-ENOENT, stet_rollback_to(txn, first + 50));
	FAILS(-ENOENT, stet_savepoint_release(txn, first + 100));
	OK(stet_rollback_to(txn, first + 49));
	OK(stet_savepoint_release(txn, first));
	FAILS(-ENOENT, stet_savepoint_release(txn, first));
}

static void free_savepoints(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn = unit_begin(vol, STET_BEGIN_READ_ONLY);

	savepoints_without_changes(vol, txn);
	stet_abort(txn);
	txn = unit_begin(vol, 0);
	unit_write(vol, txn, "a", "1");
	savepoints_without_changes(vol, txn);
	OK(stet_commit(txn, 0));
	unit_expect(vol, NULL, "a", "1");
}

/* What was done after several savepoints of one position goes back to each of them, and is kept by those before one
 * that is released. */
static void several_in_one_position(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn = unit_begin(vol, 0);
	uint64_t a, b, c, d, e;

	unit_write(vol, txn, "f", "0");
	a = save(txn);
	b = save(txn);
	c = save(txn);
	append(vol, txn, "f", "1");
	d = save(txn);
	e = save(txn);
	append(vol, txn, "f", "2");
	unit_write(vol, txn, "new", "");
	OK(stet_rollback_to(txn, e));
	unit_expect(vol, txn, "f", "01");
	append(vol, txn, "f", "3");
	OK(stet_savepoint_release(txn, e));
	OK(stet_rollback_to(txn, d));
	unit_expect(vol, txn, "f", "01");
	append(vol, txn, "f", "4");
	OK(stet_savepoint_release(txn, c)); /* a and b stay, and what was done is theirs */
	FAILS(-ENOENT, stet_rollback_to(txn, d));
	unit_expect(vol, txn, "f", "014");
	OK(stet_rollback_to(txn, b));
	unit_expect(vol, txn, "f", "0");
	append(vol, txn, "f", "5");
	OK(stet_rollback_to(txn, a));
	unit_expect(vol, txn, "f", "0");
	OK(stet_commit(txn, 0));
	unit_expect(vol, NULL, "f", "0");
}

static int count_change(void *arg, const struct stet_change *change)
{
	unsigned *n = arg;

	(void)change;
	(*n)++;
	return 0;
}

static void changes_and_revert(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	const char *path = "/a";
	struct stet_txn *txn;
	unsigned n = 0;
	char why[100];
	uint64_t id;

	unit_write(vol, NULL, "old", "1");
	txn = unit_begin(vol, 0);
	unit_write(vol, txn, "a", "1");
	id = save(txn);
	append(vol, txn, "old", "2");
	unit_write(vol, txn, "b", "1");
	OK(stet_rollback_to(txn, id));
	OK(stet_changes(txn, count_change, &n));
	assert_int_equal(n, 1);
	OK(stet_revert(txn, 0, &path, 1, why, sizeof(why)));
	FAILS(-ENOENT, stet_rollback_to(txn, id));
	n = 0;
	OK(stet_changes(txn, count_change, &n));
	assert_int_equal(n, 0);
	OK(stet_commit(txn, 0));
}

struct worker {
	struct stet_volume *vol;
	struct stet_txn *txn;
	_Atomic bool stop;
	unsigned torn;
};

/* Two names are made together, by one call; both are there or neither. */
static void *look(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&w->stop)) {
		struct stet_dir_entry entry;
		struct stet_dir *dir;
		unsigned n = 0;

		OK(stet_dir_open(w->vol, w->txn, STET_ROOT, "", NULL, &dir));
		while (stet_dir_next(dir, &entry) == 1)
			n++;
		stet_dir_close(dir);
		w->torn += n != 2 && n != 22; /* one batch of a listing is one call */
	}
	return NULL;
}

static void atomic_to_other_threads(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct worker w = { .vol = vol };
	pthread_t thread;
	uint64_t id;
	char name[8];

	unit_write(vol, NULL, "x", "1");
	unit_write(vol, NULL, "y", "1");
	w.txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "n%02u", i);
		unit_write(vol, w.txn, name, "1");
	}
	for (unsigned round = 0; round < 100; round++) {
		id = save(w.txn);
		for (unsigned i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "n%02u", i);
			OK(stet_unlinkat(vol, w.txn, STET_ROOT, name, 0));
		}
		atomic_store(&w.stop, false);
		pthread_create(&thread, NULL, look, &w);
		OK(stet_rollback_to(w.txn, id));
		atomic_store(&w.stop, true);
		pthread_join(thread, NULL);
	}
	assert_int_equal(w.torn, 0);
	stet_abort(w.txn);
}

/* --- cost --- */

/* One for each operation, fifty thousand of them; the odd ones are released. */
static void very_many(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	const unsigned count = 50000;
	struct stet_txn *txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	int64_t first, second, start;
	uint64_t ids[2] = { 0 }, id;
	struct stet_table *table;
	unsigned half;

	OK(stet_table_open(vol, txn, STET_ROOT, "t", O_RDWR | O_CREAT, 0644, &table));
	start = unit_now_ms();
	first = 0;
	for (half = 0; half < 2; half++) {
		for (unsigned i = 0; i < count / 2; i++) {
			id = save(txn);
			if (i == 0)
				ids[half] = id;
			OK(add_record(table, txn, i % 1000, (char)('a' + half), 20));
			if (i % 2)
				OK(stet_savepoint_release(txn, id));
		}
		if (half == 0)
			first = unit_now_ms() - start;
		start = unit_now_ms();
	}
	second = unit_now_ms() - start;
	assert_true(second <= 20 * (first + 50)); /* square it would be far more */
	OK(stet_rollback_to(txn, ids[1]));
	expect_record(table, txn, 999, 'a', 20);
	OK(stet_rollback_to(txn, ids[0]));
	OK(stet_count(table, txn, NULL, &id));
	assert_int_equal(id, 0);
	stet_table_close(table);
	stet_abort(txn);
}

/* A file of others, written in very many places in falling and rising order, with a savepoint before each. */
static void very_many_ranges(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	const unsigned count = 4000;
	struct stet_txn *txn;
	struct stet_file *file;
	uint64_t first = 0;
	char c;

	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_RDWR | O_CREAT, 0644, &file));
	OK(stet_truncate(file, (uint64_t)count * 4 * 4096));
	stet_file_close(file);
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	OK(stet_openat(vol, txn, STET_ROOT, "f", O_RDWR, 0, &file));
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t at = (uint64_t)(i % 2 ? i : count - i) * 3 * 4096;
		uint64_t id = save(txn);

		if (i == 0)
			first = id;
		assert_int_equal(stet_pwrite(file, "x", 1, at), 1);
	}
	for (unsigned i = 0; i < count; i++) {
		uint64_t id = save(txn);

		OK(stet_punch(file, (uint64_t)(i % 2 ? i : count - i) * 2 * 4096, 4096));
		if (i == count / 2)
			OK(stet_savepoint_release(txn, id));
	}
	assert_int_equal(stet_pread(file, &c, 1, 3 * 4096), 1);
	OK(stet_rollback_to(txn, first));
	assert_int_equal(stet_pread(file, &c, 1, 3 * 4096), 1);
	assert_int_equal(c, 0);
	stet_file_close(file);
	OK(stet_commit(txn, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, unit_set_up, unit_tear_down)
		T(everything_goes_back),
		T(content_goes_back),
		T(releasing_keeps),
		T(records_go_back),
		T(locks_and_reads_stay),
		T(conflicts_stay),
		T(claims_go),
		T(handles_of_what_is_gone),
		T(read_only_and_frozen),
		T(free_savepoints),
		T(several_in_one_position),
		T(changes_and_revert),
		T(atomic_to_other_threads),
		T(very_many),
		T(very_many_ranges),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
