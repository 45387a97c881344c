/* test_table_mix.c - tables and threads, for the sanitizers: scans both ways, counts, changes, savepoints, in one
 * transaction that all share and in many that lock what they read or do not.
 */
#include "api_unit.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 4
#define KEYS 30       /* of each thread, in the shared transaction */
#define LONGEST 24000 /* longer than what is kept beside the key */
#define ACCOUNTS 6
#define START 1000

struct worker {
	pthread_t thread;
	struct stet_volume *vol;
	struct stet_table *table;
	struct stet_txn *txn; /* shared; NULL: each begins his own */
	unsigned number, rounds, seed;
	uint64_t retries;
};

static unsigned below(struct worker *w, unsigned n)
{
	return (unsigned)rand_r(&w->seed) % n;
}

static void run(struct stet_volume *vol, struct stet_table *table, struct stet_txn *txn,
		unsigned rounds, void *(*fn)(void *arg))
{
	struct worker workers[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .vol = vol,
					      .table = table,
					      .txn = txn,
					      .number = i,
					      .rounds = rounds,
					      .seed = i + 1 };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, fn, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

/* --- one transaction --- */

struct seen {
	unsigned count;
	bool reverse;
	char last[16];
};

/* In order, and each value whole. */
static int see(void *arg, const struct stet_record *record)
{
	struct seen *seen = arg;
	const unsigned char *value = record->value;
	char key[16] = "";

	assert_true(record->key_len < sizeof(key));
	memcpy(key, record->key, record->key_len);
	if (seen->count++ > 0)
		assert_true(seen->reverse ? strcmp(key, seen->last) < 0
					  : strcmp(key, seen->last) > 0);
	memcpy(seen->last, key, sizeof(key));
	for (size_t i = 1; i < record->value_len; i += 97)
		assert_int_equal(value[i], value[0]);
	return 0;
}

static unsigned scan(struct stet_table *table, struct stet_txn *txn, bool reverse)
{
	struct stet_bounds bounds = { .reverse = reverse };
	struct seen seen = { .reverse = reverse };

	OK(stet_scan(table, txn, &bounds, see, &seen));
	return seen.count;
}

/* As far as another call of the transaction lets it. */
static void walk(struct worker *w)
{
	struct seen seen = { .reverse = w->number % 2 };
	struct stet_bounds bounds = { .reverse = seen.reverse };
	struct stet_cursor *cursor;
	struct stet_record record;
	int rc;

	OK(stet_cursor_open(w->table, w->txn, &bounds, &cursor));
	while ((rc = stet_cursor_next(cursor, &record)) == 1)
		see(&seen, &record);
	stet_cursor_close(cursor);
	OK(rc);
}

static void put_one(struct worker *w)
{
	unsigned char value[LONGEST];
	size_t len = below(w, 2) ? below(w, 100) : below(w, LONGEST);
	char key[16];
	int key_len = snprintf(key, sizeof(key), "%u-%03u", w->number, below(w, KEYS));

	memset(value, (int)below(w, 256), sizeof(value));
	OK(stet_put(w->table, w->txn, key, (size_t)key_len, value, len, 0));
}

static void del_one(struct worker *w)
{
	char key[16];
	int key_len = snprintf(key, sizeof(key), "%u-%03u", w->number, below(w, KEYS));
	int rc = stet_del(w->table, w->txn, key, (size_t)key_len);

	assert_true(rc == 0 || rc == -ENOENT);
}

/* Another thread may go back to an older one meanwhile. */
static void go_back(struct worker *w)
{
	uint64_t id;
	int rc;

	OK(stet_savepoint(w->txn, &id));
	put_one(w);
	del_one(w);
	rc = below(w, 2) ? stet_rollback_to(w->txn, id) : stet_savepoint_release(w->txn, id);
	assert_true(rc == 0 || rc == -ENOENT);
}

static void *share(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < w->rounds; i++) {
		uint64_t count;

		switch (below(w, 8)) {
		case 0:
			go_back(w);
			break;
		case 1:
			scan(w->table, w->txn, below(w, 2));
			break;
		case 2:
			walk(w);
			break;
		case 3:
			OK(stet_count(w->table, w->txn, NULL, &count));
			assert_true(count <= THREADS * KEYS);
			break;
		case 4:
			del_one(w);
			break;
		default:
			put_one(w);
			break;
		}
	}
	return NULL;
}

static void one_transaction(void **state)
{
	static const unsigned levels[] = { STET_BEGIN_SNAPSHOT, STET_BEGIN_SERIALIZABLE,
					   STET_BEGIN_LOCKING };
	struct unit_volume *u = *state;
	const struct stet_open_options small = { .cache_bytes = (uint64_t)4 << 20 }; /* it spills */
	struct stet_table *table;

	unit_close(u);
	unit_open(u, &small);
	OK(stet_table_open(u->vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT, 0600, &table));
	for (size_t i = 0; i < 3; i++) {
		struct stet_txn *txn;
		uint64_t count;
		unsigned before;

		OK(stet_begin(u->vol, levels[i], &txn));
		run(u->vol, table, txn, 150, share);
		before = scan(table, txn, false);
		assert_int_equal(scan(table, txn, true), before);
		OK(stet_count(table, txn, NULL, &count));
		assert_int_equal(count, before);
		OK(stet_commit(txn, 0));
		assert_int_equal(scan(table, NULL, false), before);
	}
	assert_true(unit_counter(u->vol, "spills") > 0);
	stet_table_close(table);
}

/* --- many --- */

static int add_up(void *arg, const struct stet_record *record)
{
	long *sum = arg, value;

	assert_int_equal(record->value_len, sizeof(value));
	memcpy(&value, record->value, sizeof(value));
	*sum += value;
	return 0;
}

static int check_sum(struct stet_table *table, struct stet_txn *txn, bool reverse)
{
	struct stet_bounds bounds = { .reverse = reverse };
	long sum = 0;
	int rc = stet_scan(table, txn, &bounds, add_up, &sum);

	if (!rc)
		assert_int_equal(sum, ACCOUNTS * START);
	return rc;
}

static int change(struct stet_table *table, struct stet_txn *txn, unsigned no, long by)
{
	char key = (char)('a' + no);
	long value;
	ssize_t n = stet_get(table, txn, &key, 1, &value, sizeof(value), STET_GET_UPDATE);

	if (n < 0)
		return (int)n;
	assert_int_equal(n, sizeof(value));
	value += by;
	return stet_put(table, txn, &key, 1, &value, sizeof(value), 0);
}

static int transfer(struct worker *w, struct stet_txn *txn)
{
	unsigned from = below(w, ACCOUNTS), to = (from + 1) % ACCOUNTS;
	uint64_t id;
	int rc = 0;

	if (below(w, 4) == 0)
		rc = check_sum(w->table, txn, below(w, 2));
	if (!rc)
		rc = change(w->table, txn, from, -7);
	if (!rc)
		rc = stet_savepoint(txn, &id);
	if (!rc)
		rc = change(w->table, txn, below(w, ACCOUNTS), 1);
	if (!rc)
		rc = stet_rollback_to(txn, id);
	return rc ? rc : change(w->table, txn, to, 7);
}

static void *transfers(void *arg)
{
	static const unsigned levels[] = { STET_BEGIN_LOCKING, STET_BEGIN_SNAPSHOT,
					   STET_BEGIN_SERIALIZABLE };
	struct worker *w = arg;

	for (unsigned i = 0; i < w->rounds; i++) {
		int rc;

		do {
			struct stet_txn *txn;

			OK(stet_begin(w->vol, levels[below(w, 3)], &txn));
			rc = transfer(w, txn);
			if (!rc)
				rc = stet_commit(txn, STET_COMMIT_NOSYNC);
			if (rc)
				stet_abort(txn);
			assert_true(rc == 0 || rc == -EBUSY || rc == -EDEADLK);
			w->retries += rc != 0;
		} while (rc);
		if (i % 8 == 0)
			OK(check_sum(w->table, NULL, below(w, 2)));
	}
	return NULL;
}

static void many_transactions(void **state)
{
	struct unit_volume *u = *state;
	struct stet_table *table;
	long value = START;

	OK(stet_table_open(u->vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT, 0600, &table));
	for (char key = 'a'; key < 'a' + ACCOUNTS; key++)
		OK(stet_put(table, NULL, &key, 1, &value, sizeof(value), 0));
	run(u->vol, table, NULL, 60, transfers);
	OK(check_sum(table, NULL, false));
	stet_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_transaction, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(many_transactions, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/table_mix", tests, NULL, NULL);
}
