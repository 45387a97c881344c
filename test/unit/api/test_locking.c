/* test_locking.c - LOCKING through the library, with threads: time limits, who waits for whom, pages, bytes
 * that many change at once. */
#include "api_unit.h"

#include <pthread.h>
#include <stdlib.h>

struct caller {
	pthread_t thread;
	struct stet_volume *vol;
	struct stet_txn *txn;
	struct stet_file *file;
	uint64_t off;
	int number;
	ssize_t rc;
	uint64_t retries;
};

static struct stet_txn *begin(struct stet_volume *vol, unsigned flags)
{
	struct stet_txn *txn;

	OK(stet_begin(vol, STET_BEGIN_LOCKING | flags, &txn));
	return txn;
}

static struct stet_file *open_in(struct stet_volume *vol, struct stet_txn *txn, const char *path)
{
	struct stet_file *file;

	OK(stet_openat(vol, txn, STET_ROOT, path, O_RDWR, 0, &file));
	return file;
}

static void commit(struct stet_txn *txn, struct stet_file *file)
{
	stet_file_close(file);
	OK(stet_commit(txn, 0));
}

/* --- time limits --- */

struct seen {
	uint64_t id, waiting_for;
	bool found;
};

static int look(void *arg, const struct stet_txn_entry *entry)
{
	struct seen *seen = arg;

	if (entry->id == seen->id) {
		seen->waiting_for = entry->waiting_for;
		seen->found = true;
	}
	return 0;
}

static uint64_t waiting_for(struct stet_volume *vol, struct stet_txn *txn)
{
	struct seen seen = { .id = stet_transaction_id(txn) };

	OK(stet_txns(vol, look, &seen));
	assert_true(seen.found);
	return seen.waiting_for;
}

static void *write_one(void *arg)
{
	struct caller *c = arg;

	c->rc = stet_pwrite(c->file, "w", 1, c->off);
	return NULL;
}

/* A call gives up in time, has changed nothing, and its transaction goes on; others are not in its way. */
static void timeout(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *one, *two;
	struct stet_file *a, *b;
	int64_t start_ms;
	char text[32];

	unit_write(u->vol, NULL, "f", "....................");
	one = begin(u->vol, 0);
	two = begin(u->vol, 0);
	a = open_in(u->vol, one, "f");
	b = open_in(u->vol, two, "f");
	OK(stet_lock_timeout(two, 60));
	assert_int_equal(stet_pwrite(a, "aaaa", 4, 4), 4);
	start_ms = unit_now_ms();
	FAILS(-ETIMEDOUT, stet_pwrite(b, "bbbb", 4, 6));
	assert_in_range(unit_now_ms() - start_ms, 50, 5000);
	snprintf(text, sizeof(text), "transaction %llu",
		 (unsigned long long)stet_transaction_id(one));
	assert_non_null(strstr(stet_error_text(), text));
	assert_int_equal(waiting_for(u->vol, two), 0);
	assert_int_equal(stet_pwrite(b, "bbbb", 4, 8), 4);
	commit(two, b);
	commit(one, a);
	unit_expect(u->vol, NULL, "f", "....aaaabbbb........");
}

/* Who waits for a lock is told in time without a limit, too; 0 takes the limit away. */
static void no_timeout(void **state)
{
	struct unit_volume *u = *state;
	struct caller c = { .vol = u->vol, .off = 4 };
	struct stet_txn *one;
	struct stet_file *a;

	unit_write(u->vol, NULL, "f", "..........");
	one = begin(u->vol, 0);
	a = open_in(u->vol, one, "f");
	c.txn = begin(u->vol, 0);
	c.file = open_in(u->vol, c.txn, "f");
	OK(stet_lock_timeout(c.txn, 1));
	OK(stet_lock_timeout(c.txn, 0));
	assert_int_equal(stet_pwrite(a, "aaaa", 4, 4), 4);
	assert_int_equal(pthread_create(&c.thread, NULL, write_one, &c), 0);
	while (waiting_for(u->vol, c.txn) == 0)
		unit_sleep_ms(1);
	assert_int_equal(waiting_for(u->vol, c.txn), stet_transaction_id(one));
	assert_int_equal(waiting_for(u->vol, one), 0);
	unit_sleep_ms(20);
	commit(one, a);
	pthread_join(c.thread, NULL);
	assert_int_equal(c.rc, 1);
	assert_int_equal(waiting_for(u->vol, c.txn), 0);
	commit(c.txn, c.file);
	unit_expect(u->vol, NULL, "f", "....waaa..");
}

/* The limit counts for the open locks of a server, too, and for names. */
static void timeout_of_names(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *one = begin(u->vol, 0), *two = begin(u->vol, 0);

	OK(stet_lock_timeout(two, 20));
	OK(stet_mkdirat(u->vol, one, STET_ROOT, "d", 0755));
	FAILS(-ETIMEDOUT, stet_mkdirat(u->vol, two, STET_ROOT, "d", 0755));
	OK(stet_mkdirat(u->vol, two, STET_ROOT, "e", 0755));
	OK(stet_commit(one, 0));
	FAILS(-EEXIST, stet_mkdirat(u->vol, two, STET_ROOT, "d", 0755));
	OK(stet_commit(two, 0));
	assert_true(unit_exists(u->vol, NULL, "d") && unit_exists(u->vol, NULL, "e"));
}

/* --- pages --- */

static void pages(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *one, *two;
	struct stet_file *a, *b;
	struct stet_txn *bad;

	unit_write(u->vol, NULL, "f", "....................");
	FAILS(-EINVAL, stet_begin(u->vol, STET_LOCK_PAGE, &bad));
	FAILS(-EINVAL, stet_begin(u->vol, STET_BEGIN_SNAPSHOT | STET_LOCK_PAGE, &bad));
	one = begin(u->vol, STET_LOCK_PAGE);
	two = begin(u->vol, 0);
	a = open_in(u->vol, one, "f");
	b = open_in(u->vol, two, "f");
	OK(stet_lock_timeout(two, 10));
	assert_int_equal(stet_pwrite(a, "a", 1, 0), 1);
	FAILS(-ETIMEDOUT, stet_pwrite(b, "b", 1, 10));
	assert_int_equal(stet_pwrite(b, "b", 1, 4096), 1);
	commit(one, a);
	assert_int_equal(stet_pwrite(b, "b", 1, 10), 1);
	commit(two, b);
}

/* --- no more than what was asked --- */

static struct stet_table *open_table(struct stet_volume *vol, struct stet_txn *txn)
{
	struct stet_table *table;

	OK(stet_table_open(vol, txn, STET_ROOT, "t", O_RDWR | O_CREAT, 0600, &table));
	return table;
}

/* Opening a table reads nothing of its records, nor of their number. */
static void open_table_reads_little(void **state)
{
	static const unsigned levels[] = { STET_BEGIN_SERIALIZABLE, STET_BEGIN_LOCKING };
	struct unit_volume *u = *state;
	struct stet_table *table = open_table(u->vol, NULL), *again;
	struct stet_txn *txn;
	char buf[8];

	OK(stet_put(table, NULL, "a", 1, "1", 1, 0));
	for (size_t i = 0; i < 2; i++) {
		OK(stet_begin(u->vol, levels[i], &txn));
		again = open_table(u->vol, txn);
		assert_int_equal(stet_get(again, txn, "a", 1, buf, sizeof(buf), 0), 1);
		OK(stet_put(again, txn, "b", 1, "2", 1, 0));
		OK(stet_put(table, NULL, i ? "d" : "c", 1, "3", 1, 0));
		stet_table_close(again);
		OK(stet_commit(txn, 0));
	}
	stet_table_close(table);
}

/* Going up a path reads where ".." leads, and nothing else of the directory. */
static void up_reads_little(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *one = begin(u->vol, 0), *two = begin(u->vol, 0);
	struct stet_stat st;

	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "d", 0755));
	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "d/e", 0755));
	OK(stet_lock_timeout(two, 50));
	unit_write(u->vol, NULL, "f", "f");
	assert_true(unit_exists(u->vol, one, "d/e/../.."));
	OK(stet_statat(u->vol, one, unit_ino(u->vol, NULL, "d"), "../f", 0, &st));
	OK(stet_mkdirat(u->vol, two, STET_ROOT, "d/e/new", 0755));
	FAILS(-ETIMEDOUT,
	      stet_renameat(u->vol, two, STET_ROOT, "d/e", STET_ROOT, "e", 0)); /* this would */
	OK(stet_commit(two, 0));
	OK(stet_commit(one, 0));
}

/* --- many at once --- */

#define ACCOUNTS 12
#define THREADS 8
#define WIDTH 9 /* digits of a balance */
#define START 1000

/* 0 or what went wrong. */
static int read_balance(struct stet_file *file, int no, long *ret)
{
	char text[WIDTH + 1] = "";
	ssize_t n = stet_pread(file, text, WIDTH, (uint64_t)no * WIDTH);

	if (n < 0)
		return (int)n;
	assert_int_equal(n, WIDTH);
	*ret = strtol(text, NULL, 10);
	return 0;
}

static int write_balance(struct stet_file *file, int no, long balance)
{
	char text[32];
	ssize_t n;

	snprintf(text, sizeof(text), "%0*ld", WIDTH, balance);
	n = stet_pwrite(file, text, WIDTH, (uint64_t)no * WIDTH);
	return n < 0 ? (int)n : 0;
}

static int transfer(struct stet_file *file, int from, int to)
{
	long a, b;
	int rc = read_balance(file, from, &a);

	if (!rc)
		rc = read_balance(file, to, &b);
	if (!rc)
		rc = write_balance(file, from, a - 1);
	return rc ? rc : write_balance(file, to, b + 1);
}

static void *transfers(void *arg)
{
	struct caller *c = arg;

	for (int i = 0; i < 60; i++) {
		int from = (c->number + i) % ACCOUNTS, to = (from + 1 + i % 5) % ACCOUNTS;
		int rc;

		do {
			struct stet_txn *txn = begin(c->vol, i % 7 ? 0 : STET_LOCK_PAGE);
			struct stet_file *file = open_in(c->vol, txn, "accounts");

			rc = transfer(file, from, to);
			stet_file_close(file);
			if (!rc)
				rc = stet_commit(txn, i % 3 ? STET_COMMIT_NOSYNC : 0);
			if (rc) {
				char why[200] = "";

				assert_true(stet_conflict_text(txn, why, sizeof(why)) > 0);
				assert_non_null(strstr(why, "deadlock"));
				stet_abort(txn);
			}
			assert_true(rc == 0 || rc == -EDEADLK); /* nothing else is in the way */
			c->retries += rc != 0;
		} while (rc);
	}
	return NULL;
}

/* Balances of one small file, some hundred transfers by threads: none is lost. */
static void accounts(void **state)
{
	struct unit_volume *u = *state;
	struct caller callers[THREADS] = { 0 };
	char text[ACCOUNTS * WIDTH + 1];
	struct stet_file *file;
	uint64_t retries = 0;
	long sum = 0, all = 0;

	for (int k = 0; k < ACCOUNTS; k++)
		snprintf(text + k * WIDTH, WIDTH + 1, "%0*d", WIDTH, START);
	unit_write(u->vol, NULL, "accounts", text);
	for (int t = 0; t < THREADS; t++) {
		callers[t].vol = u->vol;
		callers[t].number = t;
		assert_int_equal(pthread_create(&callers[t].thread, NULL, transfers, &callers[t]),
				 0);
	}
	for (int t = 0; t < THREADS; t++) {
		pthread_join(callers[t].thread, NULL);
		retries += callers[t].retries;
	}
	print_message("%llu retries\n", (unsigned long long)retries);
	file = open_in(u->vol, NULL, "accounts");
	for (int k = 0; k < ACCOUNTS; k++) {
		OK(read_balance(file, k, &sum));
		all += sum;
	}
	stet_file_close(file);
	assert_int_equal(all, ACCOUNTS * START);
}

/* --- an exclusive waiter gets its turn --- */

static _Atomic bool stop_reading;
static _Atomic int reading; /* who have done so once */

static void *read_on_and_on(void *arg)
{
	struct caller *c = arg;

	while (!stop_reading) {
		struct stet_txn *txn = begin(c->vol, 0);
		struct stet_file *file = open_in(c->vol, txn, "f");
		char buf[4];

		assert_int_equal(stet_pread(file, buf, 4, 2), 4);
		unit_sleep_ms(2);
		commit(txn, file);
		if (c->retries++ == 0)
			reading++;
	}
	return NULL;
}

/* Some readers always have it; still the writer comes to it soon. */
static void no_starving(void **state)
{
	struct unit_volume *u = *state;
	struct caller readers[THREADS] = { 0 };

	unit_write(u->vol, NULL, "f", "..........");
	stop_reading = false;
	reading = 0;
	for (int t = 0; t < THREADS; t++) {
		readers[t].vol = u->vol;
		assert_int_equal(
			pthread_create(&readers[t].thread, NULL, read_on_and_on, &readers[t]), 0);
	}
	while (reading < THREADS)
		unit_sleep_ms(1);
	for (int i = 0; i < 10; i++) {
		struct stet_txn *txn = begin(u->vol, 0);
		struct stet_file *file = open_in(u->vol, txn, "f");

		OK(stet_lock_timeout(txn, 30000));
		assert_int_equal(stet_pwrite(file, "w", 1, 3), 1);
		commit(txn, file);
	}
	stop_reading = true;
	for (int t = 0; t < THREADS; t++) {
		pthread_join(readers[t].thread, NULL);
	}
	unit_expect(u->vol, NULL, "f", "...w......");
}

/* --- so does a change outside any transaction --- */

#define READERS 24
#define PATIENCE_MS 20000

enum what { A_RECORD, AN_INODE, A_NAME, BYTES, ALL_THINGS };

static _Atomic enum what what_to_read;
static _Atomic bool too_late;

static int read_one(struct caller *c, struct stet_txn *txn, struct stet_table *table)
{
	struct stet_stat st;
	struct stet_file *file;
	char buf[4];
	ssize_t n = 0;

	switch ((enum what)what_to_read) {
	case A_RECORD:
		n = stet_get(table, txn, "hot", 3, buf, 1, 0);
		break;
	case AN_INODE:
		n = stet_statat(c->vol, txn, STET_ROOT, "d/f", 0, &st);
		break;
	case A_NAME:
		n = stet_statat(c->vol, txn, STET_ROOT, "e", 0, &st);
		break;
	case BYTES:
	case ALL_THINGS:
		n = stet_openat(c->vol, txn, STET_ROOT, "d/f", O_RDONLY, 0, &file);
		if (n)
			break;
		n = stet_pread(file, buf, 4, 2);
		stet_file_close(file);
		break;
	}
	return n < 0 ? (int)n : 0;
}

static void *read_in_turns(void *arg)
{
	int64_t until_ms = unit_now_ms() + PATIENCE_MS;
	struct caller *c = arg;
	struct stet_table *table;

	OK(stet_table_open(c->vol, NULL, STET_ROOT, "t", O_RDONLY, 0, &table));
	while (!stop_reading && !too_late) {
		struct stet_txn *txn = begin(c->vol, 0);
		int rc = read_one(c, txn, table);

		assert_true(rc == 0 || rc == -ENOENT || rc == -EDEADLK);
		unit_sleep_ms(2);
		stet_abort(txn);
		if (c->retries++ == 3)
			reading++;
		if (unit_now_ms() > until_ms)
			too_late = true;
	}
	stet_table_close(table);
	return NULL;
}

static void change_one(struct stet_volume *vol, struct stet_table *table, struct stet_file *file)
{
	struct stet_setattr attr = { .set = STET_SET_MODE, .mode = 0600 };

	switch ((enum what)what_to_read) {
	case A_RECORD:
		OK(stet_put(table, NULL, "hot", 3, "1", 1, 0));
		break;
	case AN_INODE:
		OK(stet_setattrat(vol, NULL, STET_ROOT, "d/f", 0, &attr));
		break;
	case A_NAME:
		OK(stet_mkdirat(vol, NULL, STET_ROOT, "e", 0755));
		OK(stet_unlinkat(vol, NULL, STET_ROOT, "e", STET_AT_REMOVEDIR));
		break;
	case BYTES:
	case ALL_THINGS:
		assert_int_equal(stet_pwrite(file, "w", 1, 3), 1);
		OK(stet_renameat(vol, NULL, STET_ROOT, "d/f", STET_ROOT, "d/g", 0));
		OK(stet_renameat(vol, NULL, STET_ROOT, "d/g", STET_ROOT, "d/f", 0));
		break;
	}
}

/* Some readers always have what is changed. */
static void no_starving_of_plain_changes(void **state)
{
	struct unit_volume *u = *state;
	struct caller readers[READERS] = { 0 };
	struct stet_table *table;
	struct stet_file *file;

	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "d", 0755));
	unit_write(u->vol, NULL, "d/f", "..........");
	OK(stet_table_open(u->vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT, 0600, &table));
	OK(stet_put(table, NULL, "hot", 3, "0", 1, 0));
	file = open_in(u->vol, NULL, "d/f");
	too_late = false;
	for (int what = 0; what < ALL_THINGS; what++) {
		what_to_read = (enum what)what;
		stop_reading = false;
		reading = 0;
		for (int t = 0; t < READERS; t++) {
			readers[t] = (struct caller){ .vol = u->vol };
			assert_int_equal(pthread_create(&readers[t].thread, NULL, read_in_turns,
							&readers[t]),
					 0);
		}
		while (reading < READERS && !too_late)
			unit_sleep_ms(1);
		for (int i = 0; i < 5; i++)
			change_one(u->vol, table, file);
		stop_reading = true;
		for (int t = 0; t < READERS; t++)
			pthread_join(readers[t].thread, NULL);
		assert_false(too_late);
	}
	stet_file_close(file);
	stet_table_close(table);
	unit_expect(u->vol, NULL, "d/f", "...w......");
}

static int look_up(struct stet_volume *vol, struct stet_txn *txn, const char *name)
{
	struct stet_stat st;

	return stet_statat(vol, txn, STET_ROOT, name, 0, &st);
}

static void *rename_a_to_b(void *arg)
{
	struct caller *c = arg;

	c->rc = stet_renameat(c->vol, NULL, STET_ROOT, "a", STET_ROOT, "b", 0);
	return NULL;
}

/* A rename outside any transaction got the one name and waits for the other, whose holder asks for the first: the
 * rename gives way, and nobody sees that. */
static void plain_changes_give_way(void **state)
{
	struct unit_volume *u = *state;
	struct caller plain = { .vol = u->vol };
	struct stet_txn *first = begin(u->vol, 0), *second;

	unit_write(u->vol, NULL, "a", "a");
	OK(look_up(u->vol, first, "a"));
	assert_int_equal(pthread_create(&plain.thread, NULL, rename_a_to_b, &plain), 0);
	unit_sleep_ms(50);
	second = begin(u->vol, 0);
	FAILS(-ENOENT, look_up(u->vol, second, "b"));
	OK(stet_commit(first, 0)); /* now it has the name a */
	unit_sleep_ms(50);
	OK(look_up(u->vol, second, "a"));
	OK(stet_commit(second, 0));
	pthread_join(plain.thread, NULL);
	assert_int_equal(plain.rc, 0);
	OK(look_up(u->vol, NULL, "b"));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, unit_set_up, unit_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(timeout),
		TEST(no_timeout),
		TEST(timeout_of_names),
		TEST(pages),
		TEST(open_table_reads_little),
		TEST(up_reads_little),
		TEST(accounts),
		TEST(no_starving),
		TEST(no_starving_of_plain_changes),
		TEST(plain_changes_give_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
