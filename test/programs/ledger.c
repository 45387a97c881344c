/* ledger.c - programs that must not lose a cent: a bank, TPC-B, and settings saved to several files.
 *
 *	ledger make VOLUME             makes what the others need, where it is missing
 *	ledger run VOLUME LOG THREADS  works until it is killed; what was answered is a line of LOG
 *	ledger verify VOLUME LOG       the totals hold, and all of LOG is there
 *	ledger step DIR ID             one transaction of each kind by plain system calls, in the tree at DIR
 *	ledger look DIR LOG            as verify, of what step does
 *
 * VOLUME is an image, or mounted: then the work is the daemon's. What is kept:
 *   bank      a table of accounts; a transfer changes two of them; their sum never changes
 *   tpcb      tables of accounts, tellers and branches, and a history that is a file: a deposit changes a
 *             record of each and appends to the file; the four sums are equal
 *   settings  three files that all hold the number of the save that wrote them
 * Each transaction also puts its number into a table `done` (of step: makes a file done/ID).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stetfs.h"

#define ACCOUNTS 50u
#define TELLERS 10u
#define BRANCHES 3u
#define START 1000
#define SETTINGS 3

static const char *const settings[SETTINGS] = { "settings/net", "settings/users", "settings/mail" };

enum table { BANK, ACCOUNT, TELLER, BRANCH, DONE, TABLES };

static const char *const table_name[TABLES] = { "bank", "account", "teller", "branch", "done" };
static const unsigned table_rows[TABLES] = { ACCOUNTS, ACCOUNTS, TELLERS, BRANCHES, 0 };

struct deposit { /* a line of the history */
	int64_t delta;
	uint64_t id;
};

struct ledger {
	struct stet_volume *vol;
	struct stet_table *table[TABLES];
};

static _Noreturn void die(const char *what, long rc)
{
	const char *text = stet_error_text();

	fprintf(stderr, "ledger: %s: %s\n", what, *text ? text : strerror((int)-rc));
	exit(1);
}

static void must(const char *what, long rc)
{
	if (rc < 0)
		die(what, rc);
}

static _Noreturn void wrong(const char *what, long long a, long long b)
{
	fprintf(stderr, "ledger: %s: %lld and %lld\n", what, a, b);
	exit(3);
}

/* --- records --- */

static int row(struct ledger *l, struct stet_txn *txn, enum table t, unsigned key, int64_t *ret)
{
	const uint32_t bytes = __builtin_bswap32(key);
	ssize_t n = stet_get(l->table[t], txn, &bytes, sizeof(bytes), ret, sizeof(*ret),
			     STET_GET_UPDATE);

	return n < 0 ? (int)n : n == sizeof(*ret) ? 0 : -EUCLEAN;
}

static int set_row(struct ledger *l, struct stet_txn *txn, enum table t, unsigned key,
		   int64_t value)
{
	const uint32_t bytes = __builtin_bswap32(key);

	return stet_put(l->table[t], txn, &bytes, sizeof(bytes), &value, sizeof(value), 0);
}

static int add_to_row(struct ledger *l, struct stet_txn *txn, enum table t, unsigned key,
		      int64_t delta)
{
	int64_t value;
	int rc = row(l, txn, t, key, &value);

	return rc ? rc : set_row(l, txn, t, key, value + delta);
}

static int note_done(struct ledger *l, struct stet_txn *txn, uint64_t id)
{
	return stet_put(l->table[DONE], txn, &id, sizeof(id), "", 0, STET_PUT_CREATE);
}

/* --- making --- */

static void make_table(struct ledger *l, struct stet_txn *txn, enum table t)
{
	uint64_t count;

	must(table_name[t], stet_table_open(l->vol, txn, STET_ROOT, table_name[t], O_RDWR | O_CREAT,
					    0644, &l->table[t]));
	must("count", stet_count(l->table[t], txn, NULL, &count));
	for (unsigned key = 0; key < table_rows[t] && count == 0; key++)
		must("put", set_row(l, txn, t, key, t == BANK ? START : 0));
}

static int put_file(struct stet_volume *vol, struct stet_txn *txn, const char *path, uint64_t value)
{
	struct stet_file *file;
	int rc = stet_openat(vol, txn, STET_ROOT, path, O_WRONLY | O_CREAT, 0644, &file);

	if (rc)
		return rc;
	ssize_t n = stet_pwrite(file, &value, sizeof(value), 0);
	stet_file_close(file);
	return n < 0 ? (int)n : 0;
}

static void open_ledger(struct ledger *l, const char *path, bool make)
{
	struct stet_txn *txn;

	must(path, stet_open(path, NULL, &l->vol));
	must("begin", stet_begin(l->vol, 0, &txn));
	for (enum table t = 0; t < TABLES; t++)
		make_table(l, txn, t);
	int rc = make ? stet_mkdirat(l->vol, txn, STET_ROOT, "settings", 0755) : -EEXIST;
	if (rc != -EEXIST)
		must("mkdir", rc);
	for (int i = 0; i < SETTINGS && !rc; i++)
		must("put", put_file(l->vol, txn, settings[i], 0));
	must("commit", stet_commit(txn, 0));
}

static void close_ledger(struct ledger *l)
{
	for (enum table t = 0; t < TABLES; t++)
		stet_table_close(l->table[t]);
	must("close", stet_close(l->vol));
}

/* --- the three transactions --- */

static int transfer(struct ledger *l, struct stet_txn *txn, unsigned *seed, uint64_t id)
{
	unsigned from = (unsigned)rand_r(seed) % ACCOUNTS;
	unsigned to = (from + 1 + (unsigned)rand_r(seed) % (ACCOUNTS - 1)) % ACCOUNTS;
	int64_t amount = rand_r(seed) % 100;
	int rc = add_to_row(l, txn, BANK, from, -amount);

	(void)id;
	return rc ? rc : add_to_row(l, txn, BANK, to, amount);
}

static int deposit(struct ledger *l, struct stet_txn *txn, unsigned *seed, uint64_t id)
{
	struct deposit line = { .delta = rand_r(seed) % 1000 - 500, .id = id };
	struct stet_file *file;
	int rc = add_to_row(l, txn, ACCOUNT, (unsigned)rand_r(seed) % ACCOUNTS, line.delta);

	if (!rc)
		rc = add_to_row(l, txn, TELLER, (unsigned)rand_r(seed) % TELLERS, line.delta);
	if (!rc)
		rc = add_to_row(l, txn, BRANCH, (unsigned)rand_r(seed) % BRANCHES, line.delta);
	if (!rc)
		rc = stet_openat(l->vol, txn, STET_ROOT, "history", O_WRONLY | O_CREAT, 0644,
				 &file);
	if (rc)
		return rc;
	ssize_t n = stet_append(file, &line, sizeof(line));
	stet_file_close(file);
	return n < 0 ? (int)n : 0;
}

static int save(struct ledger *l, struct stet_txn *txn, unsigned *seed, uint64_t id)
{
	int rc = 0;

	(void)seed;
	for (int i = 0; i < SETTINGS && !rc; i++)
		rc = put_file(l->vol, txn, settings[i], id);
	return rc;
}

struct clerk {
	struct ledger *ledger;
	int log;
	unsigned seed;
	pthread_t thread;
};

static void *work(void *arg)
{
	static int (*const kind[])(struct ledger *, struct stet_txn *, unsigned *,
				   uint64_t) = { transfer, deposit, save };
	static const unsigned level[] = { STET_BEGIN_SERIALIZABLE, STET_BEGIN_LOCKING };
	struct clerk *c = arg;

	for (;;) {
		uint64_t id = (uint64_t)getpid() << 40 | (uint64_t)c->seed << 32 |
			      (uint64_t)rand_r(&c->seed);
		int (*fn)(struct ledger *, struct stet_txn *, unsigned *,
			  uint64_t) = kind[(unsigned)rand_r(&c->seed) % 3];
		struct stet_txn *txn;
		char line[32];
		int rc = stet_begin(c->ledger->vol, level[rand_r(&c->seed) & 1], &txn);

		must("begin", rc);
		rc = fn(c->ledger, txn, &c->seed, id);
		if (!rc)
			rc = note_done(c->ledger, txn, id);
		if (!rc)
			rc = stet_commit(txn, 0);
		if (rc)
			stet_abort(txn);
		if (rc == -EBUSY || rc == -EDEADLK || rc == -EEXIST)
			continue; /* again, with another number */
		must("transaction", rc);
		int len = snprintf(line, sizeof(line), "%" PRIu64 "\n", id);
		if (write(c->log, line, (size_t)len) != len)
			die("log", -errno);
	}
	return NULL;
}

static void run(const char *volume, const char *log, int threads)
{
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	struct clerk *clerks = calloc((size_t)threads, sizeof(*clerks));
	struct ledger l;

	if (fd < 0 || !clerks)
		die(log, -errno);
	open_ledger(&l, volume, false);
	for (int i = 0; i < threads; i++) {
		clerks[i] = (struct clerk){ .ledger = &l, .log = fd };
		clerks[i].seed = (unsigned)getpid() * 31u + (unsigned)i;
		if (pthread_create(&clerks[i].thread, NULL, work, &clerks[i]))
			die("pthread_create", -EAGAIN);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(clerks[i].thread, NULL);
}

/* --- looking --- */

static int64_t sum_of(struct ledger *l, struct stet_txn *txn, enum table t)
{
	int64_t sum = 0, value;

	for (unsigned key = 0; key < table_rows[t]; key++) {
		must("get", row(l, txn, t, key, &value));
		sum += value;
	}
	return sum;
}

static int64_t sum_of_history(struct ledger *l, struct stet_txn *txn)
{
	struct deposit line;
	struct stet_file *file;
	int64_t sum = 0;
	ssize_t n;
	int rc = stet_openat(l->vol, txn, STET_ROOT, "history", O_RDONLY, 0, &file);

	if (rc == -ENOENT)
		return 0;
	must("history", rc);
	for (uint64_t off = 0; (n = stet_pread(file, &line, sizeof(line), off)) > 0;
	     off += sizeof(line)) {
		if (n != sizeof(line))
			wrong("a torn line of the history", n, sizeof(line));
		sum += line.delta;
	}
	must("history", n);
	stet_file_close(file);
	return sum;
}

static void verify_settings(struct ledger *l, struct stet_txn *txn)
{
	uint64_t value[SETTINGS] = { 0 };
	struct stet_file *file;

	for (int i = 0; i < SETTINGS; i++) {
		must(settings[i],
		     stet_openat(l->vol, txn, STET_ROOT, settings[i], O_RDONLY, 0, &file));
		must(settings[i], stet_pread(file, &value[i], sizeof(value[i]), 0));
		stet_file_close(file);
		if (value[i] != value[0])
			wrong("settings of two saves", (long long)value[0], (long long)value[i]);
	}
}

typedef bool is_done_fn(void *arg, uint64_t id);

static unsigned long verify_log(const char *log, is_done_fn *is_done, void *arg)
{
	FILE *file = fopen(log, "r");
	unsigned long lines = 0;
	uint64_t id;
	char end;

	/* The last line may have been cut off by the kill. */
	while (file && fscanf(file, "%" SCNu64 "%c", &id, &end) == 2 && end == '\n') {
		if (!is_done(arg, id))
			wrong("answered, and not there", (long long)id, (long long)lines);
		lines++;
	}
	if (file)
		fclose(file);
	return lines;
}

struct look {
	struct ledger *ledger;
	struct stet_txn *txn;
};

static bool has_record(void *arg, uint64_t id)
{
	struct look *look = arg;
	ssize_t n = stet_get(look->ledger->table[DONE], look->txn, &id, sizeof(id), NULL, 0, 0);

	if (n != -ENOENT)
		must("done", n);
	return n >= 0;
}

static void verify(const char *volume, const char *log)
{
	struct stet_txn *txn;
	struct ledger l;
	int64_t sum;

	open_ledger(&l, volume, false);
	must("begin", stet_begin(l.vol, STET_BEGIN_READ_ONLY, &txn));
	sum = sum_of(&l, txn, BANK);
	if (sum != (int64_t)ACCOUNTS * START)
		wrong("the bank", sum, (int64_t)ACCOUNTS * START);
	sum = sum_of(&l, txn, ACCOUNT);
	if (sum_of(&l, txn, TELLER) != sum || sum_of(&l, txn, BRANCH) != sum)
		wrong("accounts, and tellers or branches", sum, sum_of(&l, txn, TELLER));
	if (sum_of_history(&l, txn) != sum)
		wrong("accounts and history", sum, sum_of_history(&l, txn));
	verify_settings(&l, txn);
	struct look look = { .ledger = &l, .txn = txn };
	printf("%lu\n", verify_log(log, has_record, &look));
	stet_abort(txn);
	close_ledger(&l);
}

/* --- the same by system calls --- */

static int open_in(const char *dir, const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, flags | O_CLOEXEC, 0644);
	if (fd < 0)
		die(path, -errno);
	return fd;
}

/* Record `key` of a file of numbers grows by delta. */
static void add_in_file(const char *dir, const char *name, unsigned key, int64_t delta)
{
	int fd = open_in(dir, name, O_RDWR | O_CREAT);
	off_t at = (off_t)(key * sizeof(int64_t));
	int64_t value = 0;

	if (pread(fd, &value, sizeof(value), at) < 0)
		die(name, -errno);
	value += delta;
	if (pwrite(fd, &value, sizeof(value), at) != sizeof(value) || close(fd))
		die(name, -errno);
}

static void replace_file(const char *dir, const char *name, uint64_t value)
{
	char from[4096], to[4096];
	int fd = open_in(dir, "new", O_WRONLY | O_CREAT | O_TRUNC);

	snprintf(from, sizeof(from), "%s/new", dir);
	snprintf(to, sizeof(to), "%s/%s", dir, name);
	if (write(fd, &value, sizeof(value)) != sizeof(value) || close(fd) || rename(from, to))
		die(name, -errno);
}

static void step(const char *dir, uint64_t id)
{
	unsigned seed = (unsigned)id;
	struct deposit line = { .delta = rand_r(&seed) % 1000 - 500, .id = id };
	char name[64];

	add_in_file(dir, "bank", (unsigned)rand_r(&seed) % ACCOUNTS, line.delta);
	add_in_file(dir, "bank", (unsigned)rand_r(&seed) % ACCOUNTS, -line.delta);
	add_in_file(dir, "account", (unsigned)rand_r(&seed) % ACCOUNTS, line.delta);
	add_in_file(dir, "teller", (unsigned)rand_r(&seed) % TELLERS, line.delta);
	add_in_file(dir, "branch", (unsigned)rand_r(&seed) % BRANCHES, line.delta);
	int fd = open_in(dir, "history", O_WRONLY | O_CREAT | O_APPEND);
	if (write(fd, &line, sizeof(line)) != sizeof(line) || close(fd))
		die("history", -errno);
	replace_file(dir, "net", id);
	replace_file(dir, "users", id);
	snprintf(name, sizeof(name), "done-%" PRIu64, id);
	if (close(open_in(dir, name, O_WRONLY | O_CREAT | O_EXCL)))
		die(name, -errno);
}

/* Every `every`th number of a file, from the first on. */
static int64_t sum_of_file(const char *dir, const char *name, int every)
{
	int fd = open_in(dir, name, O_RDONLY);
	int64_t sum = 0, value[2];
	ssize_t n;

	while ((n = read(fd, value, sizeof(value[0]) * (size_t)every)) > 0) {
		if ((size_t)n != sizeof(value[0]) * (size_t)every)
			wrong(name, n, every);
		sum += value[0];
	}
	if (n < 0 || close(fd))
		die(name, -errno);
	return sum;
}

static bool has_file(void *arg, uint64_t id)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s/done-%" PRIu64, (const char *)arg, id);
	return stat(path, &st) == 0;
}

static void look(char *dir, const char *log)
{
	int64_t sum;

	if (!has_file(dir, 0)) {
		printf("0\n"); /* nothing was done yet */
		return;
	}
	sum = sum_of_file(dir, "bank", 1);
	if (sum != 0)
		wrong("the bank", sum, 0);
	sum = sum_of_file(dir, "account", 1);
	if (sum_of_file(dir, "teller", 1) != sum || sum_of_file(dir, "branch", 1) != sum ||
	    sum_of_file(dir, "history", 2) != sum)
		wrong("accounts and the others", sum, sum_of_file(dir, "history", 2));
	if (sum_of_file(dir, "net", 1) != sum_of_file(dir, "users", 1))
		wrong("settings", sum_of_file(dir, "net", 1), sum_of_file(dir, "users", 1));
	printf("%lu\n", verify_log(log, has_file, dir));
}

int main(int argc, char **argv)
{
	struct ledger l;

	if (argc == 3 && strcmp(argv[1], "make") == 0) {
		open_ledger(&l, argv[2], true);
		close_ledger(&l);
	} else if (argc == 5 && strcmp(argv[1], "run") == 0) {
		run(argv[2], argv[3], atoi(argv[4]));
	} else if (argc == 4 && strcmp(argv[1], "verify") == 0) {
		verify(argv[2], argv[3]);
	} else if (argc == 4 && strcmp(argv[1], "step") == 0) {
		step(argv[2], strtoull(argv[3], NULL, 10));
	} else if (argc == 4 && strcmp(argv[1], "look") == 0) {
		look(argv[2], argv[3]);
	} else {
		fprintf(stderr, "usage: ledger make|run|verify|step|look ...\n");
		return 2;
	}
	return 0;
}
