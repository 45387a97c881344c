/* bytes.c - how many bytes a change costs.
 *
 *	bench_bytes FILE
 *
 * On a volume in FILE, one thread, each commit durable, per committed change:
 *   logged   bytes of headers, records and patches: what does not depend on who else commits
 *   written  bytes to the device, with the rounding to whole blocks, checkpoints included
 * and for large ones the bytes written per byte of content.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stetfs.h"

#define CHANGES 20000u
#define ROWS 100000u
#define RECORD 100u
#define LARGE_COUNT 64u
#define LARGE ((size_t)1 << 20)

struct counters {
	uint64_t log_bytes, device_write_bytes;
};

static struct stet_volume *vol;
static struct stet_table *table;
static uint8_t large[LARGE];

static void must(const char *what, long rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "bench_bytes: %s: %s\n", what,
		*stet_error_text() ? stet_error_text() : strerror((int)-rc));
	exit(1);
}

static int take(void *arg, const char *name, uint64_t value)
{
	struct counters *c = arg;

	if (strcmp(name, "log_bytes") == 0)
		c->log_bytes = value;
	if (strcmp(name, "device_write_bytes") == 0)
		c->device_write_bytes = value;
	return 0;
}

static struct counters counters(void)
{
	struct counters c = { 0 };

	must("stats", stet_stats(vol, take, &c));
	return c;
}

static void put_row(struct stet_txn *txn, uint32_t row, int filler)
{
	const uint32_t key = __builtin_bswap32(row);
	uint8_t value[RECORD];

	memset(value, filler, sizeof(value));
	must("put", stet_put(table, txn, &key, sizeof(key), value, sizeof(value), 0));
}

static void write_at(struct stet_txn *txn, const char *name, const void *data, size_t len,
		     uint64_t off)
{
	struct stet_file *file;

	must(name, stet_openat(vol, txn, STET_ROOT, name, O_WRONLY | O_CREAT, 0644, &file));
	must("write", stet_pwrite(file, data, len, off));
	stet_file_close(file);
}

/* One change in a transaction; i: which one. */
typedef void change_fn(struct stet_txn *txn, uint32_t i);

static void change_row(struct stet_txn *txn, uint32_t i)
{
	put_row(txn, (uint32_t)((uint64_t)i * 7919 % ROWS), (int)i);
}

static void change_three_rows(struct stet_txn *txn, uint32_t i)
{
	put_row(txn, (uint32_t)((uint64_t)i * 7919 % ROWS), (int)i);
	put_row(txn, i % 1000, (int)i);
	put_row(txn, i % 100, (int)i);
}

static void change_file(struct stet_txn *txn, uint32_t i)
{
	uint8_t value[RECORD];

	memset(value, (int)i, sizeof(value));
	write_at(txn, "rows", value, sizeof(value), (uint64_t)i * 7919 % ROWS * RECORD);
}

static void make_file(struct stet_txn *txn, uint32_t i)
{
	char name[32];

	snprintf(name, sizeof(name), "small-%u", i);
	write_at(txn, name, large, RECORD, 0);
}

static void make_large_file(struct stet_txn *txn, uint32_t i)
{
	char name[32];

	snprintf(name, sizeof(name), "large-%u", i);
	write_at(txn, name, large, sizeof(large), 0);
}

static void put_large(struct stet_txn *txn, uint32_t i)
{
	const uint32_t key = __builtin_bswap32(ROWS + i);

	must("put", stet_put(table, txn, &key, sizeof(key), large, sizeof(large), 0));
}

static void measure(const char *what, change_fn *fn, uint32_t count, size_t content)
{
	struct counters before = counters(), after;
	struct stet_txn *txn;

	for (uint32_t i = 0; i < count; i++) {
		must("begin", stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
		fn(txn, i);
		must("commit", stet_commit(txn, 0));
	}
	after = counters();
	double logged = (double)(after.log_bytes - before.log_bytes) / count;
	double written = (double)(after.device_write_bytes - before.device_write_bytes) / count;

	if (content < LARGE)
		printf("%-46s %8.0f %10.0f\n", what, logged, written);
	else
		printf("%-46s %8.0f %10.0f  %.3f a byte\n", what, logged, written,
		       written / (double)content);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct stet_mkfs_options options = { .size_bytes = (uint64_t)4 << 30, .force = true };
	uint8_t row[RECORD] = { 0 };
	struct stet_txn *txn;

	if (argc != 2) {
		fprintf(stderr, "usage: bench_bytes FILE\n");
		return 2;
	}
	must(argv[1], stet_mkfs(argv[1], &options));
	must(argv[1], stet_open(argv[1], NULL, &vol));
	must("table",
	     stet_table_open(vol, NULL, STET_ROOT, "rows-table", O_RDWR | O_CREAT, 0644, &table));
	must("begin", stet_begin(vol, 0, &txn));
	for (uint32_t i = 0; i < ROWS; i++) {
		put_row(txn, i, 0);
		if (i % 1000 == 0)
			write_at(txn, "rows", row, sizeof(row), (uint64_t)i * RECORD);
	}
	must("commit", stet_commit(txn, 0));
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (uint8_t)(i * 2654435761u >> 13);
	printf("%-46s %8s %10s\n", "bytes a commit", "logged", "written");
	measure("a record of 100 bytes is changed", change_row, CHANGES, RECORD);
	measure("three records of 100 bytes", change_three_rows, CHANGES, 3 * RECORD);
	measure("100 bytes in a file are changed", change_file, CHANGES, RECORD);
	measure("a file of 100 bytes is made", make_file, CHANGES, RECORD);
	measure("a file of 1 MiB is made", make_large_file, LARGE_COUNT, sizeof(large));
	measure("a record of 1 MiB is put", put_large, LARGE_COUNT, sizeof(large));
	stet_table_close(table);
	must("close", stet_close(vol));
	return unlink(argv[1]) != 0;
}
