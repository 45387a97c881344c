/* first.c - the first figures: durable small transactions, a blob, a sequential stream.
 *
 *	bench_first DIR [SECONDS]
 *
 * Works, in DIR's file system, interleaved over rounds so that a noisy machine hits all alike; medians:
 *   raw      4 KiB pwrite + fdatasync of a preallocated file, one thread: the floor of a durable answer
 *   stetfs-N a transaction changes one 100-byte record in each of three files (100,000, 1,000 and 100
 *            records), durable at commit; N threads; conflicts are retried and only commits count
 *   sqlite-N the same three records as rows; WAL, synchronous=FULL, a connection a thread
 *   blob     bytes written to the device per byte of a 1 MiB file committed
 *   seq      1 MiB writes to one file, then fsync, as a share of raw 1 MiB O_DIRECT writes
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "stetfs.h"

#define ROUNDS 5
#define THREADS_MAX 8
#define RECORD 100
#define MIB (UINT64_C(1) << 20)
#define SEQ_MIB 512

static const uint64_t records[3] = { 100000, 1000, 100 };
static const char *const names[3] = { "account", "teller", "branch" };
static char dir[2048];
static double seconds = 2;

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_first: %s: %s\n", what, why);
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void path_in(char *out, size_t cap, const char *name)
{
	snprintf(out, cap, "%s/%s", dir, name);
}

static int cmp_double(const void *a, const void *b)
{
	const double *x = a;
	const double *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), cmp_double);
	return v[n / 2];
}

static uint64_t counter(struct stet_volume *vol, const char *name);

/* --- raw --- */
static double raw_rate(void)
{
	static char block[4096];
	char path[4096];
	double end;
	long n = 0;

	path_in(path, sizeof(path), "bench.raw");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		die(path, strerror(errno));
	for (int i = 0; i < 4096; i++)
		if (pwrite(fd, block, sizeof(block), (off_t)i * 4096) != 4096)
			die(path, strerror(errno));
	fsync(fd);
	double start = now();
	for (end = start + seconds; now() < end; n++) {
		if (pwrite(fd, block, sizeof(block), (off_t)(n % 4096) * 4096) != 4096 ||
		    fdatasync(fd))
			die(path, strerror(errno));
	}
	double rate = (double)n / (now() - start);
	close(fd);
	unlink(path);
	return rate;
}

/* --- stetfs --- */
struct worker {
	struct stet_volume *vol;
	sqlite3 *db;
	unsigned seed;
	long commits, retries;
	double end;
};

static uint64_t pick(struct worker *w, int f)
{
	return (uint64_t)rand_r(&w->seed) % records[f];
}

static int change_records(struct worker *w, struct stet_txn *txn)
{
	char record[RECORD];
	int rc = 0;

	for (int f = 0; f < 3 && !rc; f++) {
		struct stet_file *file;
		uint64_t at = pick(w, f) * RECORD;

		rc = stet_openat(w->vol, txn, STET_ROOT, names[f], O_RDWR, 0, &file);
		if (rc)
			return rc;
		ssize_t n = stet_pread(file, record, RECORD, at);
		if (n == RECORD) {
			record[0]++;
			n = stet_pwrite(file, record, RECORD, at);
		}
		rc = n < 0 ? (int)n : 0;
		stet_file_close(file);
	}
	return rc;
}

static void *stet_worker(void *arg)
{
	struct worker *w = arg;

	while (now() < w->end) {
		struct stet_txn *txn;
		int rc = stet_begin(w->vol, STET_BEGIN_LOCKING, &txn);

		if (rc)
			die("begin", stet_error_text());
		rc = change_records(w, txn);
		if (!rc)
			rc = stet_commit(txn, 0);
		if (!rc) {
			w->commits++;
			continue;
		}
		if (rc != -EBUSY && rc != -EDEADLK)
			die("transaction", stet_error_text());
		w->retries++;
		stet_abort(txn);
	}
	return NULL;
}

static void make_file(struct stet_volume *vol, const char *name, uint64_t bytes)
{
	static char zero[1 << 20];
	struct stet_file *file;
	int rc = stet_openat(vol, NULL, STET_ROOT, name, O_RDWR | O_CREAT, 0644, &file);

	if (rc)
		die(name, stet_error_text());
	for (uint64_t off = 0; off < bytes; off += sizeof(zero)) {
		uint64_t len = bytes - off < sizeof(zero) ? bytes - off : sizeof(zero);

		if (stet_pwrite(file, zero, len, off) < 0)
			die(name, stet_error_text());
	}
	stet_file_close(file);
}

static struct stet_volume *open_volume(void)
{
	struct stet_mkfs_options mkfs = { .size_bytes = 2048 * MIB, .force = true };
	struct stet_volume *vol;
	char path[4096];

	path_in(path, sizeof(path), "bench.stet");
	unlink(path);
	if (stet_mkfs(path, &mkfs) || stet_open(path, NULL, &vol))
		die(path, stet_error_text());
	for (int f = 0; f < 3; f++)
		make_file(vol, names[f], records[f] * RECORD);
	if (stet_sync(vol))
		die("sync", stet_error_text());
	return vol;
}

static double run_threads(void *(*fn)(void *), struct worker *w, int n)
{
	pthread_t thread[THREADS_MAX];
	double start = now();
	long commits = 0;

	for (int i = 0; i < n; i++) {
		w[i].end = start + seconds;
		if (pthread_create(&thread[i], NULL, fn, &w[i]))
			die("thread", "cannot be made");
	}
	for (int i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		commits += w[i].commits;
	}
	return (double)commits / (now() - start);
}

static double stet_rate(struct stet_volume *vol, int threads, double *ret_bytes)
{
	struct worker w[THREADS_MAX];
	uint64_t bytes = counter(vol, "device_write_bytes");
	long commits = 0;

	memset(w, 0, sizeof(w));
	for (int i = 0; i < threads; i++) {
		w[i].vol = vol;
		w[i].seed = (unsigned)i + 1;
	}
	double rate = run_threads(stet_worker, w, threads);
	for (int i = 0; i < threads; i++)
		commits += w[i].commits;
	*ret_bytes = (double)(counter(vol, "device_write_bytes") - bytes) / (double)commits;
	return rate;
}

/* --- sqlite --- */
static void sql(sqlite3 *db, const char *text)
{
	char *error = NULL;

	if (sqlite3_exec(db, text, NULL, NULL, &error))
		die(text, error ? error : "failed");
}

static sqlite3 *open_db(void)
{
	char path[4096];
	sqlite3 *db;

	path_in(path, sizeof(path), "bench.db");
	if (sqlite3_open(path, &db))
		die(path, "cannot be opened");
	sqlite3_busy_timeout(db, 10000);
	sql(db, "pragma journal_mode=wal");
	sql(db, "pragma synchronous=full");
	return db;
}

static void fill_db(sqlite3 *db)
{
	char text[256];

	for (int f = 0; f < 3; f++) {
		snprintf(text, sizeof(text), "create table %s(id integer primary key, v blob)",
			 names[f]);
		sql(db, text);
		snprintf(text, sizeof(text),
			 "with recursive n(i) as (select 0 union all select i+1 from n where "
			 "i+1<%llu) insert into %s select i, zeroblob(100) from n",
			 (unsigned long long)records[f], names[f]);
		sql(db, text);
	}
}

static void *sqlite_worker(void *arg)
{
	struct worker *w = arg;
	char text[256];

	w->db = open_db();
	while (now() < w->end) {
		sql(w->db, "begin immediate");
		for (int f = 0; f < 3; f++) {
			snprintf(text, sizeof(text),
				 "update %s set v=randomblob(100) where id=%llu", names[f],
				 (unsigned long long)pick(w, f));
			sql(w->db, text);
		}
		sql(w->db, "commit");
		w->commits++;
	}
	sqlite3_close(w->db);
	return NULL;
}

static double sqlite_rate(int threads)
{
	struct worker w[THREADS_MAX];

	memset(w, 0, sizeof(w));
	for (int i = 0; i < threads; i++)
		w[i].seed = (unsigned)i + 1;
	return run_threads(sqlite_worker, w, threads);
}

static void remove_db(void)
{
	static const char *const parts[] = { "bench.db", "bench.db-wal", "bench.db-shm" };
	char path[4096];

	for (int i = 0; i < 3; i++) {
		path_in(path, sizeof(path), parts[i]);
		unlink(path);
	}
}

/* --- blobs and streams --- */
struct find {
	const char *name;
	uint64_t value;
};

static int found(void *arg, const char *name, uint64_t value)
{
	struct find *f = arg;

	if (strcmp(name, f->name) == 0)
		f->value = value;
	return 0;
}

static uint64_t counter(struct stet_volume *vol, const char *name)
{
	struct find f = { name, 0 };

	(void)stet_stats(vol, found, &f);
	return f.value;
}

static double blob_bytes(struct stet_volume *vol)
{
	static char blob[1 << 20];
	uint64_t before, written = 0;
	char name[32];

	for (int i = 0; i < 20; i++) {
		struct stet_file *file;
		struct stet_txn *txn;

		memset(blob, i + 1, sizeof(blob));
		snprintf(name, sizeof(name), "blob%d", i);
		before = counter(vol, "device_write_bytes");
		if (stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn) ||
		    stet_openat(vol, txn, STET_ROOT, name, O_RDWR | O_CREAT, 0644, &file) ||
		    stet_pwrite(file, blob, sizeof(blob), 0) < 0)
			die(name, stet_error_text());
		stet_file_close(file);
		if (stet_commit(txn, 0))
			die(name, stet_error_text());
		written += counter(vol, "device_write_bytes") - before;
	}
	return (double)written / (20.0 * (double)MIB);
}

static double stet_seq(struct stet_volume *vol)
{
	static char chunk[1 << 20];
	struct stet_file *file;

	memset(chunk, 7, sizeof(chunk));
	if (stet_openat(vol, NULL, STET_ROOT, "seq", O_RDWR | O_CREAT | O_TRUNC, 0644, &file))
		die("seq", stet_error_text());
	double start = now();
	for (uint64_t i = 0; i < SEQ_MIB; i++)
		if (stet_pwrite(file, chunk, sizeof(chunk), i * MIB) < 0)
			die("seq", stet_error_text());
	if (stet_fsync(file))
		die("seq", stet_error_text());
	double rate = SEQ_MIB / (now() - start);
	stet_file_close(file);
	if (stet_unlinkat(vol, NULL, STET_ROOT, "seq", 0) || stet_sync(vol))
		die("seq", stet_error_text());
	return rate;
}

static double raw_seq(void)
{
	char path[4096];
	void *chunk;

	path_in(path, sizeof(path), "bench.raw");
	if (posix_memalign(&chunk, 4096, MIB))
		die("raw", "no memory");
	memset(chunk, 7, MIB);
	int fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	if (fd < 0)
		die(path, strerror(errno));
	for (int pass = 0; pass < 2; pass++) {
		double start = now();

		for (uint64_t i = 0; i < SEQ_MIB; i++)
			if (pwrite(fd, chunk, MIB, (off_t)(i * MIB)) != (ssize_t)MIB)
				die(path, strerror(errno));
		fdatasync(fd);
		if (pass == 1) {
			double rate = SEQ_MIB / (now() - start);

			close(fd);
			unlink(path);
			free(chunk);
			return rate;
		}
	}
	return 0;
}

struct figures {
	double raw[ROUNDS], stet1[ROUNDS], stet8[ROUNDS], sql1[ROUNDS], sql8[ROUNDS];
	double seq[ROUNDS], rawseq[ROUNDS], txn_bytes[ROUNDS];
};

static void measure(struct figures *f, struct stet_volume *vol)
{
	double ignored;

	for (int i = 0; i < ROUNDS; i++) {
		f->raw[i] = raw_rate();
		f->stet1[i] = stet_rate(vol, 1, &f->txn_bytes[i]);
		f->sql1[i] = sqlite_rate(1);
		f->stet8[i] = stet_rate(vol, 8, &ignored);
		f->sql8[i] = sqlite_rate(8);
		f->rawseq[i] = raw_seq();
		f->seq[i] = stet_seq(vol);
	}
}

static void report(struct figures *f, double blob)
{
	double raw = median(f->raw, ROUNDS);
	double sql1 = median(f->sql1, ROUNDS);
	double sql8 = median(f->sql8, ROUNDS);
	double s1 = median(f->stet1, ROUNDS);
	double s8 = median(f->stet8, ROUNDS);
	double seq = median(f->seq, ROUNDS);
	double rawseq = median(f->rawseq, ROUNDS);

	printf("raw 4 KiB write + fdatasync     %9.0f /s\n", raw);
	printf("stetfs, 1 thread                %9.0f /s   %5.2f of raw  %5.2f of sqlite\n", s1,
	       s1 / raw, s1 / sql1);
	printf("sqlite WAL FULL, 1 thread       %9.0f /s   %5.2f of raw\n", sql1, sql1 / raw);
	printf("stetfs, 8 threads               %9.0f /s   %5.2f of raw  %5.2f of sqlite\n", s8,
	       s8 / raw, s8 / sql8);
	printf("sqlite WAL FULL, 8 threads      %9.0f /s   %5.2f of raw\n", sql8, sql8 / raw);
	printf("device bytes a transaction      %9.0f      (1 thread)\n",
	       median(f->txn_bytes, ROUNDS));
	printf("device bytes a byte of a 1 MiB file committed %.3f\n", blob);
	printf("sequential write                %9.0f MiB/s %5.2f of raw (%.0f MiB/s)\n", seq,
	       seq / rawseq, rawseq);
}

int main(int argc, char **argv)
{
	static struct figures f;
	char path[4096];

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: bench_first DIR [SECONDS]\n");
		return 2;
	}
	snprintf(dir, sizeof(dir), "%s", argv[1]);
	if (argc == 3)
		seconds = strtod(argv[2], NULL);
	remove_db();
	struct stet_volume *vol = open_volume();
	sqlite3 *db = open_db();
	fill_db(db);
	sqlite3_close(db);
	double blob = blob_bytes(vol);
	measure(&f, vol);
	report(&f, blob);
	if (stet_close(vol))
		die("close", stet_error_text());
	path_in(path, sizeof(path), "bench.stet");
	unlink(path);
	remove_db();
	return 0;
}
