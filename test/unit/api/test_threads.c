/* test_threads.c - many threads on one volume, one file, one transaction; group commit. */
#include "api_unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 8

struct worker {
	pthread_t thread;
	struct stet_volume *vol;
	struct stet_txn *txn;
	int number;
	int rounds;
	uint64_t retries;
};

static void run(struct unit_volume *u, struct stet_txn *txn, int rounds, void *(*fn)(void *arg),
		struct worker workers[THREADS])
{
	for (int i = 0; i < THREADS; i++) {
		workers[i] =
			(struct worker){ .vol = u->vol, .txn = txn, .number = i, .rounds = rounds };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, fn, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

/* --- plain operations --- */

static void *make_and_remove(void *arg)
{
	struct worker *w = arg;
	char name[32], other[32], text[32];

	for (int i = 0; i < w->rounds; i++) {
		snprintf(name, sizeof(name), "f%d-%d", w->number, i);
		snprintf(other, sizeof(other), "g%d-%d", w->number, i);
		snprintf(text, sizeof(text), "%d %d", w->number, i);
		unit_write(w->vol, NULL, name, text);
		unit_expect(w->vol, NULL, name, text);
		OK(stet_renameat(w->vol, NULL, STET_ROOT, name, STET_ROOT, other, 0));
		if (i % 2)
			OK(stet_unlinkat(w->vol, NULL, STET_ROOT, other, 0));
		if (i % 16 == 0)
			OK(stet_sync(w->vol));
	}
	return NULL;
}

static void plain_operations(void **state)
{
	struct unit_volume *u = *state;
	struct worker workers[THREADS];
	struct stet_stat st;

	run(u, NULL, 60, make_and_remove, workers);
	OK(stet_statat(u->vol, NULL, STET_ROOT, "/", 0, &st));
	assert_int_equal(st.size / 32, THREADS * 30);
	unit_reopen(u, false);
	OK(stet_statat(u->vol, NULL, STET_ROOT, "/", 0, &st));
	assert_int_equal(st.size / 32, THREADS * 30);
}

/* Readers see each block whole, never half of one write and half of another. */
static void *write_blocks(void *arg)
{
	struct worker *w = arg;
	struct stet_file *file;
	unsigned char block[16384], back[16384];

	OK(stet_openat(w->vol, NULL, STET_ROOT, "shared", O_RDWR, 0, &file));
	for (int i = 0; i < w->rounds; i++) {
		memset(block, w->number * 16 + i % 16, sizeof(block));
		assert_int_equal(stet_pwrite(file, block, sizeof(block), 100), sizeof(block));
		assert_int_equal(stet_pread(file, back, sizeof(back), 100), sizeof(back));
		assert_memory_equal(back, back + 1, sizeof(back) - 1);
		if (i % 8 == w->number % 8)
			OK(stet_fsync(file));
	}
	stet_file_close(file);
	return NULL;
}

static void one_file(void **state)
{
	struct unit_volume *u = *state;
	struct worker workers[THREADS];

	unit_write(u->vol, NULL, "shared", "");
	run(u, NULL, 40, write_blocks, workers);
}

/* --- transactions --- */

static void *commit_one(void *arg)
{
	struct worker *w = arg;
	struct stet_txn *txn;
	char name[32];

	for (int i = 0; i < w->rounds; i++) {
		snprintf(name, sizeof(name), "t%d-%d", w->number, i);
		OK(stet_begin(w->vol, 0, &txn));
		unit_write(w->vol, txn, name, "x");
		OK(stet_commit(txn, 0));
	}
	return NULL;
}

/* While a flush takes its time the others gather, and share the next one. All commits are durable when
 * answered. */
static void group_commit(void **state)
{
	struct unit_volume *u = *state;
	struct worker workers[THREADS];
	uint64_t flushes = unit_counter(u->vol, "flushes");
	struct stet_stat st;

	u->wrap->flush_ms = 5;
	run(u, NULL, 25, commit_one, workers);
	u->wrap->flush_ms = 0;
	flushes = unit_counter(u->vol, "flushes") - flushes;
	print_message("%d commits, %llu flushes\n", THREADS * 25, (unsigned long long)flushes);
	assert_true(flushes <= THREADS * 25 / 2);
	unit_reopen(u, true);
	OK(stet_statat(u->vol, NULL, STET_ROOT, "/", 0, &st));
	assert_int_equal(st.size / 32, THREADS * 25);
}

static long read_number(struct stet_volume *vol, struct stet_txn *txn)
{
	struct stet_file *file;
	char buf[32] = { 0 };
	ssize_t n;

	if (stet_openat(vol, txn, STET_ROOT, "counter", O_RDONLY, 0, &file))
		return -1;
	n = stet_pread(file, buf, sizeof(buf) - 1, 0);
	stet_file_close(file);
	return n < 0 ? -1 : strtol(buf, NULL, 10);
}

static int write_number(struct stet_volume *vol, struct stet_txn *txn, long number)
{
	struct stet_file *file;
	char buf[32];
	int len = snprintf(buf, sizeof(buf), "%08ld", number);
	int rc = stet_openat(vol, txn, STET_ROOT, "counter", O_WRONLY, 0, &file);

	if (rc)
		return rc;
	rc = (int)stet_pwrite(file, buf, (size_t)len, 0);
	stet_file_close(file);
	return rc < 0 ? rc : 0;
}

static int count_once(struct stet_volume *vol, unsigned level)
{
	struct stet_txn *txn;
	long number;
	int rc;

	OK(stet_begin(vol, level, &txn));
	number = read_number(vol, txn);
	rc = number < 0 ? -EBUSY : write_number(vol, txn, number + 1);
	if (!rc)
		rc = stet_commit(txn, 0);
	if (rc)
		stet_abort(txn);
	return rc;
}

static const unsigned levels[] = { STET_BEGIN_SNAPSHOT, STET_BEGIN_SERIALIZABLE,
				   STET_BEGIN_LOCKING };

static void *count(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < w->rounds; i++) {
		int rc;

		while ((rc = count_once(w->vol, levels[(w->number + i) % 3])) != 0) {
			assert_true(rc == -EBUSY || rc == -EDEADLK);
			w->retries++;
		}
	}
	return NULL;
}

/* No increment is lost, whatever the levels. */
static void counter(void **state)
{
	struct unit_volume *u = *state;
	struct worker workers[THREADS];
	uint64_t retries = 0;

	unit_write(u->vol, NULL, "counter", "00000000");
	run(u, NULL, 20, count, workers);
	for (int i = 0; i < THREADS; i++)
		retries += workers[i].retries;
	print_message("%llu retries\n", (unsigned long long)retries);
	assert_int_equal(read_number(u->vol, NULL), THREADS * 20);
}

static void *fill(void *arg)
{
	struct worker *w = arg;
	char name[32];

	for (int i = 0; i < w->rounds; i++) {
		snprintf(name, sizeof(name), "s%d-%d", w->number, i);
		unit_write(w->vol, w->txn, name, name);
		unit_expect(w->vol, w->txn, name, name);
	}
	return NULL;
}

static void one_transaction(void **state)
{
	struct unit_volume *u = *state;
	struct worker workers[THREADS];
	struct stet_txn *txn;
	struct stet_stat st;

	OK(stet_begin(u->vol, 0, &txn));
	run(u, txn, 30, fill, workers);
	OK(stet_statat(u->vol, NULL, STET_ROOT, "/", 0, &st));
	assert_int_equal(st.size, 0);
	OK(stet_commit(txn, 0));
	OK(stet_statat(u->vol, NULL, STET_ROOT, "/", 0, &st));
	assert_int_equal(st.size / 32, THREADS * 30);
}

/* --- waiting --- */

static void *write_plain(void *arg)
{
	struct worker *w = arg;

	unit_write(w->vol, NULL, "locked", "plain");
	return NULL;
}

/* A plain write waits for the transaction that has written the file. */
static void plain_waits(void **state)
{
	struct unit_volume *u = *state;
	struct worker w = { .vol = u->vol };
	struct stet_txn *txn;

	unit_write(u->vol, NULL, "locked", "old");
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
	unit_write(u->vol, txn, "locked", "txn");
	assert_int_equal(pthread_create(&w.thread, NULL, write_plain, &w), 0);
	unit_sleep_ms(30);
	unit_expect(u->vol, NULL, "locked", "old");
	OK(stet_commit(txn, 0));
	pthread_join(w.thread, NULL);
	unit_expect(u->vol, NULL, "locked", "plain");
}

static void *write_in_txn(void *arg)
{
	struct worker *w = arg;
	struct stet_file *file;

	OK(stet_openat(w->vol, w->txn, STET_ROOT, "locked", O_WRONLY, 0, &file));
	w->rounds = (int)stet_pwrite(file, "b", 1, 0);
	stet_file_close(file);
	return NULL;
}

/* Ending a transaction lets the calls go that wait inside it. */
static void abort_ends_waits(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *one, *two;
	struct worker w = { .vol = u->vol };

	unit_write(u->vol, NULL, "locked", "old");
	OK(stet_begin(u->vol, STET_BEGIN_LOCKING, &one));
	OK(stet_begin(u->vol, STET_BEGIN_LOCKING, &two));
	unit_write(u->vol, one, "locked", "one");
	w.txn = two;
	assert_int_equal(pthread_create(&w.thread, NULL, write_in_txn, &w), 0);
	unit_sleep_ms(30);
	stet_abort(two);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.rounds, -EAGAIN);
	OK(stet_commit(one, 0));
	unit_expect(u->vol, NULL, "locked", "one");
}

/* The thread of the younger transaction waits, is chosen, and aborts it; so the older one gets on. */
static void *wait_and_abort(void *arg)
{
	struct worker *w = arg;

	write_in_txn(w);
	stet_abort(w->txn);
	return NULL;
}

static void deadlock(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *one, *two;
	struct worker w = { .vol = u->vol };
	struct stet_file *file;

	unit_write(u->vol, NULL, "locked", "1");
	unit_write(u->vol, NULL, "other", "1");
	OK(stet_begin(u->vol, STET_BEGIN_LOCKING, &one));
	OK(stet_begin(u->vol, STET_BEGIN_LOCKING, &two));
	unit_write(u->vol, one, "locked", "one");
	unit_write(u->vol, two, "other", "two");
	OK(stet_openat(u->vol, one, STET_ROOT, "other", O_WRONLY, 0, &file));
	w.txn = two;
	assert_int_equal(pthread_create(&w.thread, NULL, wait_and_abort, &w), 0);
	unit_sleep_ms(30);
	assert_int_equal(stet_pwrite(file, "3", 1, 0), 1);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.rounds, -EDEADLK);
	stet_file_close(file);
	OK(stet_commit(one, 0));
	unit_expect(u->vol, NULL, "locked", "one");
	unit_expect(u->vol, NULL, "other", "3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(plain_operations, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(one_file, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(group_commit, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(counter, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(one_transaction, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(plain_waits, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(abort_ends_waits, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(deadlock, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/threads", tests, NULL, NULL);
}
