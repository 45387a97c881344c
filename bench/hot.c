/* hot.c - hot records: many threads, few records, at LOCKING.
 *
 *	bench_hot DIR [SECONDS [THREADS [HOT]]]
 *
 * A transaction reads a record of a table in order to change it (an exclusive lock), puts 100 bytes, and commits; or
 * does so with 100 bytes of a file. Rates, medians of interleaved rounds, in DIR's file system:
 *   own      each thread has a record of its own: nobody waits for a lock
 *   hot      all threads use the same HOT (10) records, each time one at random
 *   hot S    the same, but each reads another record first: locks are shared, upgraded, and deadlocks retried
 * each with the commit answered at once (NOSYNC) and when it is durable.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stetfs.h"
#include "stetfs_lowlevel.h"

#define ROUNDS 5
#define THREADS_MAX 1000
#define RECORD 100u
#define CASES 12

static double seconds = 1;
static int threads = 100, hot = 10;

enum kind { OWN, HOT, HOT_SHARED };

struct run {
	struct stet_volume *vol;
	struct stet_table *table; /* NULL: bytes of ino */
	uint64_t ino;
	enum kind kind;
	unsigned commit_flags;
	_Atomic bool stop;
	_Atomic uint64_t commits, retries;
};

struct worker {
	pthread_t thread;
	struct run *run;
	uint64_t random;
	int number;
};

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_hot: %s: %s\n", what, why);
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t next(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static size_t key_of(char key[32], uint64_t no)
{
	return (size_t)snprintf(key, 32, "account/%08llu", (unsigned long long)no);
}

static ssize_t get(struct run *r, struct stet_txn *txn, uint64_t no, char *buf, unsigned flags)
{
	char key[32];
	size_t len = key_of(key, no);

	return stet_get(r->table, txn, key, len, buf, RECORD, flags);
}

/* 0, or why it must be done again. */
static int change_record(struct worker *w, struct stet_txn *txn)
{
	struct run *r = w->run;
	uint64_t no = r->kind == OWN ? (uint64_t)w->number : next(w) % (uint64_t)hot;
	char record[RECORD], key[32];
	size_t len = key_of(key, no);
	ssize_t n = 0;

	if (r->kind == HOT_SHARED)
		n = get(r, txn, next(w) % (uint64_t)hot, record, 0);
	if (n >= 0)
		n = get(r, txn, no, record, STET_GET_UPDATE);
	if (n < 0)
		return (int)n;
	record[w->random % RECORD]++;
	return stet_put(r->table, txn, key, len, record, RECORD, 0);
}

static int change_bytes(struct worker *w, struct stet_txn *txn)
{
	struct run *r = w->run;
	uint64_t no = r->kind == OWN ? (uint64_t)w->number : next(w) % (uint64_t)hot;
	char record[RECORD], back[RECORD];
	ssize_t n = 0;

	memset(record, 'a' + (int)(w->random % 26), sizeof(record));
	if (r->kind == HOT_SHARED)
		n = stet_ll_read(r->vol, txn, r->ino, next(w) % (uint64_t)hot * RECORD, back,
				 RECORD, 0);
	if (n >= 0)
		n = stet_ll_write(r->vol, txn, r->ino, no * RECORD, record, RECORD, 0);
	if (n >= 0)
		n = stet_ll_read(r->vol, txn, r->ino, no * RECORD, back, RECORD, 0);
	if (n >= 0 && memcmp(record, back, RECORD) != 0)
		die("read", "not what was written");
	return n < 0 ? (int)n : 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct run *r = w->run;

	while (!r->stop) {
		struct stet_txn *txn;
		int rc;

		if (stet_begin(r->vol, STET_BEGIN_LOCKING, &txn))
			die("begin", stet_error_text());
		rc = r->table ? change_record(w, txn) : change_bytes(w, txn);
		if (!rc)
			rc = stet_commit(txn, r->commit_flags);
		if (rc && rc != -EDEADLK)
			die("commit", stet_error_text());
		if (rc)
			stet_abort(txn);
		atomic_fetch_add(rc ? &r->retries : &r->commits, 1);
	}
	return NULL;
}

/* Commits a second. */
static double rate(struct stet_volume *vol, struct stet_table *table, uint64_t ino, enum kind kind,
		   unsigned flags, double *ret_retries)
{
	static struct worker workers[THREADS_MAX];
	struct run r = {
		.vol = vol, .table = table, .ino = ino, .kind = kind, .commit_flags = flags
	};
	double start = now(), took;

	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .run = &r,
					      .random = 88172645463325252u + (uint64_t)i * 7919,
					      .number = i };
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("threads", strerror(errno));
	}
	usleep((useconds_t)(seconds * 1e6));
	r.stop = true;
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	took = now() - start;
	*ret_retries = (double)r.retries / (double)(r.commits ? r.commits : 1);
	return (double)r.commits / took;
}

static int cmp_double(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void measure(struct stet_volume *vol, struct stet_table *table, uint64_t ino)
{
	static const char *const names[] = { "own", "hot", "hot S" };
	double rates[CASES][ROUNDS], retries[CASES];

	for (int round = 0; round < ROUNDS; round++) {
		for (int c = 0; c < CASES; c++)
			rates[c][round] = rate(vol, c < CASES / 2 ? table : NULL, ino,
					       (enum kind)(c % 3),
					       c / 3 % 2 ? 0 : STET_COMMIT_NOSYNC, &retries[c]);
	}
	printf("%d threads, %d hot records\n", threads, hot);
	for (int c = 0; c < CASES; c++) {
		double own;

		qsort(rates[c], ROUNDS, sizeof(double), cmp_double);
		own = rates[c - c % 3][ROUNDS / 2];
		printf("%-7s %-6s %-8s %9.0f /s   %5.2f of own   %.3f retries\n",
		       c < CASES / 2 ? "records" : "bytes", names[c % 3],
		       c / 3 % 2 ? "durable" : "NOSYNC", rates[c][ROUNDS / 2],
		       rates[c][ROUNDS / 2] / own, retries[c]);
	}
}

static struct stet_table *make_table(struct stet_volume *vol)
{
	static const char zeros[RECORD];
	struct stet_table *table;
	char key[32];

	if (stet_table_open(vol, NULL, STET_ROOT, "table", O_RDWR | O_CREAT, 0600, &table))
		die("table", stet_error_text());
	for (uint64_t no = 0; no < THREADS_MAX; no++) {
		size_t len = key_of(key, no);

		if (stet_put(table, NULL, key, len, zeros, RECORD, 0))
			die("put", stet_error_text());
	}
	return table;
}

int main(int argc, char **argv)
{
	struct stet_mkfs_options options = { .size_bytes = UINT64_C(512) << 20, .force = true };
	static char zeros[THREADS_MAX * RECORD];
	struct stet_volume *vol;
	struct stet_table *table;
	struct stet_file *file;
	char path[4096];

	if (argc < 2 || argc > 5) {
		fprintf(stderr, "usage: bench_hot DIR [SECONDS [THREADS [HOT]]]\n");
		return 2;
	}
	seconds = argc > 2 ? strtod(argv[2], NULL) : seconds;
	threads = argc > 3 ? atoi(argv[3]) : threads;
	hot = argc > 4 ? atoi(argv[4]) : hot;
	if (threads < 1 || threads > THREADS_MAX || hot < 1 || hot > THREADS_MAX)
		die("arguments", "1 to 1000 threads and records");
	snprintf(path, sizeof(path), "%s/bench-hot.stet", argv[1]);
	if (stet_mkfs(path, &options) || stet_open(path, NULL, &vol))
		die(path, stet_error_text());
	if (stet_openat(vol, NULL, STET_ROOT, "records", O_RDWR | O_CREAT, 0600, &file) ||
	    stet_pwrite(file, zeros, sizeof(zeros), 0) != (ssize_t)sizeof(zeros))
		die("records", stet_error_text());
	table = make_table(vol);
	measure(vol, table, stet_file_ino(file));
	stet_table_close(table);
	stet_file_close(file);
	if (stet_close(vol))
		die("close", stet_error_text());
	unlink(path);
	return 0;
}
