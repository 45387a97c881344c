/* full.c - the promises about size, through the public library, at any size.
 *
 *	full_test fill DIR MIB ROUNDS      fill to ENOSPC, lose nothing, delete (every second file on odd
 *	                                   rounds), fill again
 *	full_test churn DIR MIB TIMES      files made and taken away until the volume is full, then TIMES one taken
 *	                                   away and two made: it stays usable to the last, is nearly full when it
 *	                                   says so, and has not written many times its size
 *	full_test records DIR MIB TIMES    the same with records of 100 bytes
 *	full_test scattered DIR MIB CACHE_MIB  records of 1000 bytes under keys in no order, each for itself and in
 *	                                   transactions, until the volume is full: what was put is there, and can go
 *	full_test openings DIR MIB RECORDS  the volume is opened, one transaction makes so many small records, and it is
 *	                                   closed, until it is nearly full
 *	full_test data DIR MIB CACHE_MIB   one transaction with so much data
 *	full_test names DIR FILES CACHE_MIB one transaction with so many new files
 *	full_test both DIR MIB FILES CACHE_MIB  one transaction with both
 *	full_test save DIR MIB FILES CACHE_MIB EVERY  the same after a savepoint, with another one after each
 *	                                   EVERY files and MiB, and rolled back to the first
 *	full_test abort DIR MIB FILES CHANGES  what aborting so many changes takes in a volume of that size
 *	full_test queue DIR RECORDS        a table of so many records: all read, or changed as they are read, both ways, and
 *	                                   the first one taken until none is left; cost of each
 *	full_test dir DIR FILES            one directory: create, list, look up, delete; cost per operation
 *
 * Each ends with a check of the volume, and fails (exit 1) on the first difference. All that are told a cache
 * also fail when the peak resident memory passes the cache limit by more than 64 MiB, and 64 bytes for the lock
 * of each new name in a directory that others see.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "stetfs.h"

#define NAME_LOCK_BYTES 64
#define OPENINGS_FULL_PERCENT 60
#define MIB (UINT64_C(1) << 20)

static char image[4096];

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "full_test: %s: %s\n", what, why);
	exit(1);
}

static void need(int rc, const char *what)
{
	if (rc < 0)
		die(what, stet_error_text()[0] ? stet_error_text() : strerror(-rc));
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct stet_volume *make_volume(const char *dir, uint64_t mib, uint64_t cache_mib)
{
	struct stet_mkfs_options mkfs = { .size_bytes = mib * MIB, .force = true };
	struct stet_open_options options = { .cache_bytes = cache_mib * MIB };
	struct stet_volume *vol;

	snprintf(image, sizeof(image), "%s/full.stet", dir);
	unlink(image);
	need(stet_mkfs(image, &mkfs), "mkfs");
	need(stet_open(image, &options, &vol), "open");
	return vol;
}

static int print_problem(void *arg, const struct stet_problem *p)
{
	(void)arg;
	fprintf(stderr, "full_test: check: %s: %s %s (inode %llu)\n", p->id, p->text, p->path,
		(unsigned long long)p->ino);
	return 0;
}

static void finish(struct stet_volume *vol)
{
	need(stet_close(vol), "close");
	int problems = stet_check(image, 0, print_problem, NULL);
	need(problems, "check");
	if (problems > 0)
		die("check", "the volume is not clean");
	unlink(image);
}

/* --- fill --- */
struct filled {
	uint64_t *stamp; /* per file; 0 = not there */
	size_t n, cap;
};

static void content(uint8_t *buf, size_t len, uint64_t stamp)
{
	uint64_t x = stamp * UINT64_C(0x9e3779b97f4a7c15) + 1;

	for (size_t i = 0; i + 8 <= len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(buf + i, &x, 8);
	}
}

static size_t length_of(uint64_t stamp)
{
	static const size_t size[] = { 8, 1000, 4096, 20000, 65536, 300000, 1048576 };

	return size[stamp % 7] & ~(size_t)7;
}

static int write_file(struct stet_volume *vol, const char *name, uint64_t stamp)
{
	static uint8_t buf[MIB];
	struct stet_file *file;
	size_t len = length_of(stamp);
	int rc = stet_openat(vol, NULL, STET_ROOT, name, O_WRONLY | O_CREAT | O_EXCL, 0644, &file);

	if (rc)
		return rc;
	content(buf, len, stamp);
	ssize_t n = stet_pwrite(file, buf, len, 0);
	stet_file_close(file);
	if (n < 0) {
		need(stet_unlinkat(vol, NULL, STET_ROOT, name, 0), "unlink after a failed write");
		return (int)n;
	}
	return n == (ssize_t)len ? 0 : -EIO;
}

static void verify_file(struct stet_volume *vol, const char *name, uint64_t stamp)
{
	static uint8_t want[MIB], have[MIB];
	struct stet_file *file;
	size_t len = length_of(stamp);

	need(stet_openat(vol, NULL, STET_ROOT, name, O_RDONLY, 0, &file), name);
	ssize_t n = stet_pread(file, have, sizeof(have), 0);
	stet_file_close(file);
	content(want, len, stamp);
	if (n != (ssize_t)len || memcmp(want, have, len) != 0)
		die(name, "content differs");
}

static void name_of(char *out, size_t i)
{
	snprintf(out, 32, "file%07zu", i);
}

static uint64_t fill(struct stet_volume *vol, struct filled *f, uint64_t *stamp)
{
	uint64_t bytes = 0;
	char name[32];
	size_t i = 0;

	for (;;) {
		while (i < f->n && f->stamp[i])
			i++;
		if (i == f->cap) {
			f->cap = f->cap ? 2 * f->cap : 1024;
			f->stamp = realloc(f->stamp, f->cap * sizeof(*f->stamp));
			if (!f->stamp)
				die("fill", "no memory");
		}
		name_of(name, i);
		int rc = write_file(vol, name, *stamp);
		if (rc == -ENOSPC)
			return bytes;
		need(rc, name);
		if (i == f->n)
			f->n++;
		f->stamp[i] = (*stamp)++;
		bytes += length_of(f->stamp[i]);
	}
}

static void delete_files(struct stet_volume *vol, struct filled *f, size_t step)
{
	char name[32];

	for (size_t i = 0; i < f->n; i += step) {
		if (!f->stamp[i])
			continue;
		name_of(name, i);
		need(stet_unlinkat(vol, NULL, STET_ROOT, name, 0), "unlink on a full volume");
		f->stamp[i] = 0;
	}
}

static void verify_all(struct stet_volume *vol, const struct filled *f)
{
	char name[32];

	for (size_t i = 0; i < f->n; i++) {
		if (!f->stamp[i])
			continue;
		name_of(name, i);
		verify_file(vol, name, f->stamp[i]);
	}
}

static void run_fill(const char *dir, uint64_t mib, uint64_t rounds)
{
	struct stet_volume *vol = make_volume(dir, mib, 64);
	struct filled f = { 0 };
	uint64_t stamp = 1;

	for (uint64_t round = 0; round < rounds; round++) {
		double start = now();
		uint64_t bytes = fill(vol, &f, &stamp);

		verify_all(vol, &f);
		printf("round %llu: %.1f MiB more until ENOSPC, %zu files, %.1f s\n",
		       (unsigned long long)round + 1, (double)bytes / (double)MIB, f.n,
		       now() - start);
		fflush(stdout);
		if (bytes < mib * MIB / 8)
			die("fill", "what was deleted does not come back");
		delete_files(vol, &f, round % 2 ? 2 : 1);
		verify_all(vol, &f);
	}
	delete_files(vol, &f, 1);
	free(f.stamp);
	finish(vol);
}

/* --- churn --- */
#define CHURN_WRITTEN_MAX 10u /* times the size of the volume */
#define CHURN_FULL_PERCENT 60u

static uint64_t written_bytes;

static int note_written(void *arg, const char *name, uint64_t value)
{
	(void)arg;
	if (strcmp(name, "device_write_bytes") == 0)
		written_bytes = value;
	return 0;
}

static int add_file(struct stet_volume *vol, const char *name)
{
	static uint8_t buf[6000];
	struct stet_file *file;
	int rc = stet_openat(vol, NULL, STET_ROOT, name, O_WRONLY | O_CREAT | O_EXCL, 0644, &file);

	if (rc)
		return rc;
	ssize_t n = stet_pwrite(file, buf, sizeof(buf), 0);
	stet_file_close(file);
	if (n >= 0)
		return n == (ssize_t)sizeof(buf) ? 0 : -ENOSPC;
	need(stet_unlinkat(vol, NULL, STET_ROOT, name, 0), "unlink after a failed write");
	return (int)n;
}

struct churn {
	struct stet_volume *vol;
	struct stet_table *table; /* NULL: files */
	uint64_t next;            /* number of what is made next */
	uint64_t full;            /* how often there was no room */
	uint8_t *there;
	uint64_t cap;
};

static void churn_add(struct churn *c)
{
	static const char value[100];
	char name[32];
	int rc;

	if (c->next == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 4096;
		c->there = realloc(c->there, c->cap);
		if (!c->there)
			die("churn", "no memory");
	}
	name_of(name, c->next);
	rc = c->table ? stet_put(c->table, NULL, name, strlen(name), value, sizeof(value), 0)
		      : add_file(c->vol, name);
	if (rc == -ENOSPC)
		c->full++;
	else
		need(rc, name);
	c->there[c->next++] = rc == 0;
}

static void churn_take(struct churn *c, uint64_t i)
{
	char name[32];

	if (!c->there[i])
		return;
	name_of(name, i);
	need(c->table ? stet_del(c->table, NULL, name, strlen(name))
		      : stet_unlinkat(c->vol, NULL, STET_ROOT, name, 0),
	     "take away on a full volume");
	c->there[i] = 0;
}

static void churn_until_full(struct churn *c)
{
	while (!c->full) {
		churn_add(c);
		if (c->next % 7 == 3 && c->next > 20)
			churn_take(c, c->next - 15);
	}
}

/* Takes one away and makes two, so most of the time there is no room. */
static void churn_when_full(struct churn *c, uint64_t times)
{
	uint64_t x = 88172645463325252;
	uint64_t n = c->next;

	for (uint64_t i = 0; i < times; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		churn_take(c, x % n);
		if (i % 8 == 0)
			need(stet_sync(c->vol), "sync");
		churn_add(c);
		churn_add(c);
	}
}

static void run_churn(const char *dir, uint64_t mib, uint64_t times, bool records)
{
	struct churn c = { .vol = make_volume(dir, mib, 64) };
	struct stet_statfs fs;

	if (records)
		need(stet_table_open(c.vol, NULL, STET_ROOT, "table", O_RDWR | O_CREAT, 0644,
				     &c.table),
		     "table");
	churn_until_full(&c);
	need(stet_statfs(c.vol, &fs), "statfs");
	printf("full after %llu: %llu of %llu KiB live, %llu kept back, %u of %u segments free\n",
	       (unsigned long long)c.next, (unsigned long long)fs.live_bytes / 1024,
	       (unsigned long long)fs.capacity_bytes / 1024,
	       (unsigned long long)fs.reserve_bytes / 1024, fs.segments_free, fs.segments);
	if (fs.live_bytes * 100 < (fs.capacity_bytes - fs.reserve_bytes) * CHURN_FULL_PERCENT)
		die("churn", "the volume says that it is full too early");
	churn_when_full(&c, times);
	need(stet_stats(c.vol, note_written, NULL), "stats");
	printf("%llu more, %llu without room; %llu MiB written\n", 2 * (unsigned long long)times,
	       (unsigned long long)c.full, (unsigned long long)(written_bytes / MIB));
	if (written_bytes > CHURN_WRITTEN_MAX * mib * MIB)
		die("churn", "too much was written");
	for (uint64_t i = 0; i < c.next; i++)
		churn_take(&c, i);
	if (c.table)
		stet_table_close(c.table);
	free(c.there);
	finish(c.vol);
}

/* --- scattered keys: each lies in another leaf --- */
#define SCATTERED_STEP 2654435761u /* odd: no key comes twice */

static int put_scattered(struct stet_table *table, struct stet_txn *txn, uint32_t i)
{
	static char value[1000];
	char key[16];

	snprintf(key, sizeof(key), "%08x", i * SCATTERED_STEP);
	return stet_put(table, txn, key, 8, value, sizeof(value), 0);
}

/* Transactions of ever more records until one finds no room: that one is committed as far as it came. */
static uint32_t put_in_transactions(struct stet_volume *vol, struct stet_table *table, uint32_t n)
{
	int rc = 0;

	for (uint32_t many = 100; !rc; many *= 2) {
		struct stet_txn *txn;

		need(stet_begin(vol, 0, &txn), "begin");
		for (uint32_t i = 0; i < many && !rc; i++) {
			rc = put_scattered(table, txn, n);
			n += rc == 0;
		}
		if (rc != -ENOSPC)
			need(rc, "put");
		need(stet_commit(txn, 0), "commit");
	}
	return n;
}

static void run_scattered(const char *dir, uint64_t mib, uint64_t cache_mib)
{
	for (int in_txns = 0; in_txns < 2; in_txns++) {
		struct stet_volume *vol = make_volume(dir, mib, cache_mib);
		struct stet_table *table;
		struct stet_statfs fs;
		uint64_t count;
		uint32_t n = 0;
		int rc = 0;

		need(stet_table_open(vol, NULL, STET_ROOT, "table", O_RDWR | O_CREAT, 0644, &table),
		     "table");
		if (in_txns)
			n = put_in_transactions(vol, table, n);
		else
			while ((rc = put_scattered(table, NULL, n)) == 0)
				n++;
		if (rc != -ENOSPC)
			need(rc, "put");
		need(stet_count(table, NULL, NULL, &count), "count");
		need(stet_statfs(vol, &fs), "statfs");
		printf("%s: full after %u, %llu of %llu KiB live\n",
		       in_txns ? "in transactions" : "each for itself", n,
		       (unsigned long long)fs.live_bytes / 1024,
		       (unsigned long long)fs.capacity_bytes / 1024);
		if (count != n)
			die("scattered", "the count differs");
		stet_table_close(table);
		need(stet_unlinkat(vol, NULL, STET_ROOT, "table", 0), "unlink on a full volume");
		finish(vol);
	}
}

/* --- short lives: nobody cleans between them --- */
static int open_and_put(const char *path, uint32_t first, uint64_t many)
{
	static const char value[30];
	struct stet_volume *vol;
	struct stet_table *table;
	struct stet_txn *txn;
	char key[16];
	int rc = 0;

	need(stet_open(path, NULL, &vol), "open");
	need(stet_table_open(vol, NULL, STET_ROOT, "table", O_RDWR | O_CREAT, 0644, &table),
	     "table");
	need(stet_begin(vol, 0, &txn), "begin");
	for (uint64_t i = 0; i < many && !rc; i++) {
		snprintf(key, sizeof(key), "%08llx", (unsigned long long)(first + i));
		rc = stet_put(table, txn, key, 8, value, sizeof(value), 0);
	}
	if (!rc)
		rc = stet_commit(txn, 0);
	if (rc)
		stet_abort(txn);
	stet_table_close(table);
	need(stet_close(vol), "close");
	return rc;
}

static void run_openings(const char *dir, uint64_t mib, uint64_t many)
{
	struct stet_volume *vol = make_volume(dir, mib, 64);
	struct stet_statfs fs;
	uint32_t n = 0;
	int rc;

	need(stet_close(vol), "close");
	while ((rc = open_and_put(image, n, many)) == 0)
		n += (uint32_t)many;
	if (rc != -ENOSPC)
		need(rc, "put");
	need(stet_open(image, NULL, &vol), "open");
	need(stet_statfs(vol, &fs), "statfs");
	printf("full after %u records: %llu of %llu KiB live, %llu kept back\n", n,
	       (unsigned long long)fs.live_bytes / 1024,
	       (unsigned long long)fs.capacity_bytes / 1024,
	       (unsigned long long)fs.reserve_bytes / 1024);
	if (fs.live_bytes * 100 < (fs.capacity_bytes - fs.reserve_bytes) * OPENINGS_FULL_PERCENT)
		die("openings", "the volume says that it is full too early");
	finish(vol);
}

/* --- large transactions --- */
static void check_memory(uint64_t cache_mib, uint64_t names)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("peak resident memory %.1f MiB, cache limit %llu MiB\n",
	       (double)usage.ru_maxrss / 1024, (unsigned long long)cache_mib);
	if ((uint64_t)usage.ru_maxrss > (cache_mib + 64) * 1024 + names * NAME_LOCK_BYTES / 1024)
		die("memory", "the peak passes the cache limit by more than 64 MiB and the locks");
}

static void run_data(const char *dir, uint64_t mib, uint64_t cache_mib)
{
	struct stet_volume *vol = make_volume(dir, mib * 2 + 256, cache_mib);
	static uint8_t buf[MIB], have[MIB];
	struct stet_file *file;
	struct stet_txn *txn;
	double start = now();

	need(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn), "begin");
	need(stet_openat(vol, txn, STET_ROOT, "big", O_RDWR | O_CREAT, 0644, &file), "create");
	for (uint64_t i = 0; i < mib; i++) {
		content(buf, sizeof(buf), i + 1);
		need((int)stet_pwrite(file, buf, sizeof(buf), i * MIB), "write");
	}
	stet_file_close(file);
	need(stet_commit(txn, 0), "commit");
	printf("%llu MiB in one transaction: %.1f s\n", (unsigned long long)mib, now() - start);
	check_memory(cache_mib, 0);
	need(stet_openat(vol, NULL, STET_ROOT, "big", O_RDONLY, 0, &file), "open");
	for (uint64_t i = 0; i < mib; i++) {
		content(buf, sizeof(buf), i + 1);
		need((int)stet_pread(file, have, sizeof(have), i * MIB), "read");
		if (memcmp(buf, have, sizeof(buf)) != 0)
			die("big", "content differs");
	}
	stet_file_close(file);
	check_memory(cache_mib, 0);
	finish(vol);
}

static void make_files(struct stet_volume *vol, struct stet_txn *txn, uint64_t files)
{
	char name[32];

	for (uint64_t i = 0; i < files; i++) {
		struct stet_file *file;

		name_of(name, i);
		need(stet_openat(vol, txn, STET_ROOT, name, O_RDWR | O_CREAT | O_EXCL, 0644, &file),
		     name);
		if (i % 16 == 0)
			need((int)stet_pwrite(file, name, strlen(name), 0), name);
		stet_file_close(file);
	}
}

static void look_up(struct stet_volume *vol, uint64_t files, uint64_t step)
{
	char name[32];

	for (uint64_t i = 0; i < files; i += step) {
		struct stet_stat st;
		size_t want;

		name_of(name, i * UINT64_C(7919) % files);
		need(stet_statat(vol, NULL, STET_ROOT, name, 0, &st), name);
		want = (i * UINT64_C(7919) % files) % 16 == 0 ? strlen(name) : 0;
		if (st.size != want)
			die(name, "size differs");
	}
}

static uint64_t list(struct stet_volume *vol)
{
	struct stet_dir_entry entry;
	struct stet_dir *it;
	uint64_t n = 0;
	int rc;

	need(stet_dir_open(vol, NULL, STET_ROOT, "", NULL, &it), "list");
	while ((rc = stet_dir_next(it, &entry)) == 1)
		n++;
	need(rc, "list");
	stet_dir_close(it);
	return n;
}

static void run_names(const char *dir, uint64_t files, uint64_t cache_mib)
{
	struct stet_volume *vol = make_volume(dir, 256 + files / 200, cache_mib);
	struct stet_txn *txn;
	double start = now();

	need(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn), "begin");
	make_files(vol, txn, files);
	if (list(vol) != 0)
		die("names", "visible before the commit");
	need(stet_commit(txn, 0), "commit");
	printf("%llu new files in one transaction: %.1f s\n", (unsigned long long)files,
	       now() - start);
	check_memory(cache_mib, 0);
	if (list(vol) != files)
		die("names", "the count differs");
	look_up(vol, files, 101);
	check_memory(cache_mib, 0);
	finish(vol);
}

/* --- both --- */
static void write_big(struct stet_volume *vol, struct stet_txn *txn, uint64_t mib, uint64_t every)
{
	static uint8_t buf[MIB];
	struct stet_file *file;
	uint64_t id;

	need(stet_openat(vol, txn, STET_ROOT, "big", O_RDWR | O_CREAT, 0644, &file), "create");
	for (uint64_t i = 0; i < mib; i++) {
		if (every && i % every == 0)
			need(stet_savepoint(txn, &id), "savepoint");
		content(buf, sizeof(buf), i + 1);
		need((int)stet_pwrite(file, buf, sizeof(buf), i * MIB), "write");
	}
	stet_file_close(file);
}

static void verify_big(struct stet_volume *vol, uint64_t mib)
{
	static uint8_t buf[MIB], have[MIB];
	struct stet_file *file;

	need(stet_openat(vol, NULL, STET_ROOT, "big", O_RDONLY, 0, &file), "open");
	for (uint64_t i = 0; i < mib; i++) {
		content(buf, sizeof(buf), i + 1);
		need((int)stet_pread(file, have, sizeof(have), i * MIB), "read");
		if (memcmp(buf, have, sizeof(buf)) != 0)
			die("big", "content differs");
	}
	stet_file_close(file);
}

static void run_both(const char *dir, uint64_t mib, uint64_t files, uint64_t cache_mib)
{
	struct stet_volume *vol = make_volume(dir, mib * 2 + 256 + files / 200, cache_mib);
	struct stet_txn *txn;
	double start = now();

	need(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn), "begin");
	write_big(vol, txn, mib, 0);
	make_files(vol, txn, files);
	printf("%llu MiB and %llu new files staged: %.1f s\n", (unsigned long long)mib,
	       (unsigned long long)files, now() - start);
	check_memory(cache_mib, files);
	need(stet_commit(txn, 0), "commit");
	printf("committed: %.1f s\n", now() - start);
	check_memory(cache_mib, files);
	if (list(vol) != files + 1)
		die("both", "the count differs");
	look_up(vol, files, 101);
	verify_big(vol, mib);
	check_memory(cache_mib, files);
	finish(vol);
}

/* --- savepoints --- */
static uint64_t avail_mib(struct stet_volume *vol)
{
	struct stet_statfs st;

	need(stet_statfs(vol, &st), "statfs");
	return st.avail_bytes / MIB;
}

static void make_saved_files(struct stet_volume *vol, struct stet_txn *txn, uint64_t files,
			     uint64_t every)
{
	char name[32];
	uint64_t id;

	for (uint64_t i = 0; i < files; i++) {
		struct stet_file *file;

		if (every && i % every == 0)
			need(stet_savepoint(txn, &id), "savepoint");
		name_of(name, i);
		need(stet_openat(vol, txn, STET_ROOT, name, O_RDWR | O_CREAT | O_EXCL, 0644, &file),
		     name);
		stet_file_close(file);
	}
}

static void run_save(const char *dir, uint64_t mib, uint64_t files, uint64_t cache_mib,
		     uint64_t every)
{
	struct stet_volume *vol = make_volume(dir, mib * 2 + 256 + files / 100, cache_mib);
	uint64_t before, first;
	struct stet_txn *txn;
	double start, t[2];

	need(write_file(vol, "before", 3), "write");
	need(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn), "begin");
	need(write_file(vol, "other", 5), "write");
	before = avail_mib(vol);
	need(stet_savepoint(txn, &first), "savepoint");
	start = now();
	write_big(vol, txn, mib, every);
	make_saved_files(vol, txn, files, every);
	t[0] = now() - start;
	uint64_t full = avail_mib(vol);
	start = now();
	need(stet_rollback_to(txn, first), "rollback");
	t[1] = now() - start;
	printf("%llu MiB and %llu new files after a savepoint, another each %llu: %.1f s; rolled "
	       "back in %.2f s\navailable: %llu MiB, %llu MiB, %llu MiB\n",
	       (unsigned long long)mib, (unsigned long long)files, (unsigned long long)every, t[0],
	       t[1], (unsigned long long)before, (unsigned long long)full,
	       (unsigned long long)avail_mib(vol));
	if (avail_mib(vol) + 1 + every < before)
		die("save", "the space does not come back");
	make_files(vol, txn, 10);
	need(stet_commit(txn, 0), "commit");
	if (list(vol) != 12)
		die("save", "the count differs");
	look_up(vol, 10, 1);
	if (cache_mib > 0)
		check_memory(cache_mib, 0);
	finish(vol);
}

/* --- aborting --- */
static uint64_t read_nodes;

static int note_counter(void *arg, const char *name, uint64_t value)
{
	(void)arg;
	if (strcmp(name, "node_misses") == 0)
		read_nodes = value;
	return 0;
}

static void run_abort(const char *dir, uint64_t mib, uint64_t files, uint64_t changes)
{
	struct stet_volume *vol = make_volume(dir, mib, 64);
	struct stet_txn *txn;
	char name[32];
	double start;

	make_files(vol, NULL, files);
	need(stet_sync(vol), "sync");
	need(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn), "begin");
	for (uint64_t i = 0; i < changes; i++) {
		struct stet_file *file;

		snprintf(name, sizeof(name), "new%07llu", (unsigned long long)i);
		need(stet_openat(vol, txn, STET_ROOT, name, O_RDWR | O_CREAT | O_EXCL, 0644, &file),
		     name);
		stet_file_close(file);
	}
	need(stet_stats(vol, note_counter, NULL), "stats");
	uint64_t nodes = read_nodes;
	start = now();
	stet_abort(txn);
	double t = now() - start;
	need(stet_stats(vol, note_counter, NULL), "stats");
	printf("%llu MiB with %llu files: %llu changes aborted in %.3f ms, %llu nodes read\n",
	       (unsigned long long)mib, (unsigned long long)files, (unsigned long long)changes,
	       t * 1e3, (unsigned long long)(read_nodes - nodes));
	if (list(vol) != files)
		die("abort", "the count differs");
	finish(vol);
}

/* --- one large directory --- */
static void run_dir(const char *dir, uint64_t files)
{
	struct stet_volume *vol = make_volume(dir, 256 + files / 200, 64);
	uint64_t looks = files < 100000 ? files : 100000;
	double start, busy;
	char name[32];
	double t[5];

	start = now();
	make_files(vol, NULL, files);
	need(stet_sync(vol), "sync");
	t[0] = now();
	if (list(vol) != files) /* beside the last checkpoint of what was made */
		die("dir", "the count differs");
	t[1] = now();
	busy = t[1] - t[0];
	if (list(vol) != files)
		die("dir", "the count differs");
	t[2] = now();
	look_up(vol, files, files / looks);
	t[3] = now();
	for (uint64_t i = 0; i < files; i++) {
		name_of(name, i);
		need(stet_unlinkat(vol, NULL, STET_ROOT, name, 0), name);
	}
	need(stet_sync(vol), "sync");
	t[4] = now();
	printf("%llu files, us per operation: create %.2f  list %.3f (at once %.3f)  look up %.2f  "
	       "delete %.2f\n",
	       (unsigned long long)files, (t[0] - start) * 1e6 / (double)files,
	       (t[2] - t[1]) * 1e6 / (double)files, busy * 1e6 / (double)files,
	       (t[3] - t[2]) * 1e6 / (double)looks, (t[4] - t[3]) * 1e6 / (double)files);
	finish(vol);
}

/* --- a queue --- */
static void take_first(struct stet_table *table, struct stet_txn *txn)
{
	struct stet_cursor *cursor;
	struct stet_record record;

	need(stet_cursor_open(table, txn, NULL, &cursor), "cursor");
	if (stet_cursor_next(cursor, &record) != 1)
		die("queue", "a record is missing");
	need(stet_del(table, txn, record.key, record.key_len), "take");
	stet_cursor_close(cursor);
}

static double take_all(struct stet_volume *vol, struct stet_table *table, uint64_t records,
		       unsigned flags, bool each)
{
	double start = now();
	struct stet_txn *txn;

	if (!each)
		need(stet_begin(vol, flags, &txn), "begin");
	for (uint64_t i = 0; i < records; i++) {
		if (each)
			need(stet_begin(vol, flags, &txn), "begin");
		take_first(table, txn);
		if (each)
			need(stet_commit(txn, STET_COMMIT_NOSYNC), "commit");
	}
	if (!each)
		need(stet_commit(txn, STET_COMMIT_NOSYNC), "commit");
	return (now() - start) * 1e6 / (double)records;
}

/* Goes through all in a transaction, and puts each again if it is to be changed. */
static double go_through(struct stet_volume *vol, struct stet_table *table, uint64_t records,
			 bool reverse, bool changes)
{
	const struct stet_bounds bounds = { .reverse = reverse };
	struct stet_cursor *cursor;
	struct stet_record record;
	struct stet_txn *txn;
	double start = now();
	uint64_t n = 0;
	char key[32];

	need(stet_begin(vol, 0, &txn), "begin");
	need(stet_cursor_open(table, txn, &bounds, &cursor), "cursor");
	while (stet_cursor_next(cursor, &record) == 1) {
		name_of(key, reverse ? records - 1 - n : n);
		if (changes)
			need(stet_put(table, txn, key, strlen(key), "x", 1, 0), "put");
		n++;
	}
	stet_cursor_close(cursor);
	if (n != records)
		die("queue", "the count differs");
	stet_abort(txn);
	return (now() - start) * 1e6 / (double)records;
}

static void run_queue(const char *dir, uint64_t records)
{
	struct stet_volume *vol = make_volume(dir, 256 + records / 500, 64);
	static const unsigned flags[3] = { 0, STET_BEGIN_LOCKING, 0 };
	static const char value[100];
	struct stet_table *table;
	struct stet_txn *txn;
	uint64_t left;
	double t[3], through[4];

	need(stet_table_open(vol, NULL, STET_ROOT, "queue", O_RDWR | O_CREAT, 0644, &table),
	     "table");
	for (int round = 0; round < 3; round++) {
		need(stet_begin(vol, 0, &txn), "begin");
		for (uint64_t i = 0; i < records; i++) {
			char key[32];

			name_of(key, i);
			need(stet_put(table, txn, key, strlen(key), value, sizeof(value), 0),
			     "put");
		}
		need(stet_commit(txn, 0), "commit");
		for (int i = 0; i < 4 && round == 0; i++)
			through[i] = go_through(vol, table, records, i & 1, i & 2);
		t[round] = take_all(vol, table, records, flags[round], round == 2);
	}
	need(stet_count(table, NULL, NULL, &left), "count");
	if (left != 0)
		die("queue", "records are left");
	printf("%llu records, us for one: read %.2f, backwards %.2f; changed %.2f, backwards %.2f; "
	       "the first one taken in one transaction %.2f, at LOCKING %.2f, in one for each "
	       "%.2f\n",
	       (unsigned long long)records, through[0], through[1], through[2], through[3], t[0],
	       t[1], t[2]);
	stet_table_close(table);
	finish(vol);
}

int main(int argc, char **argv)
{
	uint64_t a = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t b = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;

	if (argc == 5 && strcmp(argv[1], "fill") == 0)
		run_fill(argv[2], a, b);
	else if (argc == 5 && (strcmp(argv[1], "churn") == 0 || strcmp(argv[1], "records") == 0))
		run_churn(argv[2], a, b, argv[1][0] == 'r');
	else if (argc == 5 && strcmp(argv[1], "scattered") == 0)
		run_scattered(argv[2], a, b);
	else if (argc == 5 && strcmp(argv[1], "openings") == 0 && b > 0)
		run_openings(argv[2], a, b);
	else if (argc == 5 && strcmp(argv[1], "data") == 0)
		run_data(argv[2], a, b);
	else if (argc == 5 && strcmp(argv[1], "names") == 0)
		run_names(argv[2], a, b);
	else if (argc == 6 && strcmp(argv[1], "both") == 0)
		run_both(argv[2], a, b, strtoull(argv[5], NULL, 10));
	else if (argc == 7 && strcmp(argv[1], "save") == 0)
		run_save(argv[2], a, b, strtoull(argv[5], NULL, 10), strtoull(argv[6], NULL, 10));
	else if (argc == 6 && strcmp(argv[1], "abort") == 0)
		run_abort(argv[2], a, b, strtoull(argv[5], NULL, 10));
	else if (argc == 4 && strcmp(argv[1], "queue") == 0 && a > 0)
		run_queue(argv[2], a);
	else if (argc == 4 && strcmp(argv[1], "dir") == 0 && a > 0)
		run_dir(argv[2], a);
	else {
		fprintf(stderr,
			"usage: full_test fill|churn|records|scattered|openings|data|names DIR N N "
			"| both DIR "
			"N N N | save "
			"DIR N N N "
			"N | abort DIR N N N | dir|queue DIR N\n");
		return 2;
	}
	return 0;
}
