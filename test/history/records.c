/* records.c - operations on the records of a table: each is a register, 0 when there is none.
 *
 * A scan reads all keys of its range, those without a record too. How many there are is compared with what a scan in
 * the same transaction has found. The calls know no NOWAIT: where nobody else runs, a transaction waits a
 * millisecond for a lock, and plain operations are left out.
 *
 * Ballast is a table of many records that are always written all together: one register, and more than a transaction
 * keeps in memory where that is small.
 */
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define VALUE_MAX 6000u
#define KEY_BYTES 16u
#define RECORDS_MAX 64u
#define LOCK_WAIT_MS 1u
#define BALLAST_ONE_IN 120u /* operations on records */
#define BALLAST_RECORDS 330u
#define BALLAST_BYTES 1900u

struct records {
	struct stet_table *table, *ballast;
};

static struct stet_table *table_of(const struct actor *a)
{
	return ((const struct records *)a->work->records)->table;
}

bool work_have_records(void)
{
	return true;
}

int work_records_set_up(struct work *w)
{
	struct records *r = hist_alloc(sizeof(*r));
	int rc = stet_table_open(w->vol, NULL, w->dir, "t0", O_RDWR | O_CREAT, 0644, &r->table);

	if (!rc)
		rc = stet_table_open(w->vol, NULL, w->dir, "t1", O_RDWR | O_CREAT, 0644,
				     &r->ballast);
	w->records = r;
	return rc;
}

void work_records_release(struct work *w)
{
	struct records *r = w->records;

	stet_table_close(r->table);
	stet_table_close(r->ballast);
	hist_free(r);
}

int work_records_begin(struct actor *a)
{
	return stet_lock_timeout(a->txn, LOCK_WAIT_MS);
}

static uint64_t record_key(unsigned no)
{
	return work_key(KEY_RECORD, 0, no);
}

/* In the order of the numbers; some are longer than others. */
static size_t key_of(unsigned no, char *key)
{
	return (size_t)snprintf(key, KEY_BYTES, no % 3 ? "r%u" : "r%u/longer", no);
}

/* What is in a value besides its number follows from that. */
static void fill(unsigned char *value, size_t len, uint64_t number)
{
	memset(value, (int)(number % 251), len);
	memcpy(value, &number, sizeof(number));
}

static uint64_t number_of(const unsigned char *value, size_t len)
{
	unsigned char want[VALUE_MAX];
	uint64_t number;

	if (len < sizeof(number) || len > VALUE_MAX)
		return UINT64_C(0xbad) << 48;
	memcpy(&number, value, sizeof(number));
	fill(want, len, number);
	return memcmp(value, want, len) == 0 ? number : UINT64_C(0xbad) << 48;
}

static bool get(struct actor *a, unsigned no, unsigned flags)
{
	unsigned char value[VALUE_MAX];
	char key[KEY_BYTES];
	size_t key_len = key_of(no, key);
	uint64_t call = work_tick(a);
	ssize_t n = stet_get(table_of(a), a->txn, key, key_len, value, sizeof(value), flags);
	uint64_t ret = work_tick(a);

	work_note(a, "get", n);
	if (n < 0 && n != -ENOENT)
		return false;
	hist_log(a->log, HIST_READ, record_key(no), n == -ENOENT ? 0 : number_of(value, (size_t)n),
		 call, ret);
	return true;
}

static size_t some_length(struct actor *a)
{
	switch (work_random(a, 10)) {
	case 0:
		return VALUE_MAX;
	case 1 ... 2:
		return 300;
	default:
		return sizeof(uint64_t);
	}
}

static void put(struct actor *a, unsigned no)
{
	static const unsigned ways[] = { 0, 0, STET_PUT_CREATE, STET_PUT_REPLACE };
	unsigned way = ways[work_random(a, 4)];
	unsigned char value[VALUE_MAX];
	char key[KEY_BYTES];
	size_t len = some_length(a), key_len = key_of(no, key);
	uint64_t number, call, ret;
	int rc;

	number = work_value(a);
	fill(value, len, number);
	call = work_tick(a);
	rc = stet_put(table_of(a), a->txn, key, key_len, value, len, way);
	ret = work_tick(a);
	work_note(a, "put", rc);
	if (rc == -ENOENT || (!rc && way == STET_PUT_CREATE))
		hist_log(a->log, HIST_READ, record_key(no), 0, call, ret);
	if (!rc)
		hist_log(a->log, HIST_WRITE, record_key(no), number, call, ret);
}

static void del(struct actor *a, unsigned no)
{
	char key[KEY_BYTES];
	size_t key_len = key_of(no, key);
	uint64_t call = work_tick(a), ret;
	int rc = stet_del(table_of(a), a->txn, key, key_len);

	ret = work_tick(a);
	work_note(a, "del", rc);
	if (rc == -ENOENT)
		hist_log(a->log, HIST_READ, record_key(no), 0, call, ret);
	else if (!rc)
		hist_log(a->log, HIST_WRITE, record_key(no), 0, call, ret);
}

/* --- scans --- */

struct found {
	uint64_t value[WORK_RECORDS];
	unsigned count;
};

static int add_found(void *arg, const struct stet_record *record)
{
	struct found *found = arg;
	char key[KEY_BYTES];

	found->count++;
	for (unsigned no = 0; no < WORK_RECORDS; no++)
		if (key_of(no, key) == record->key_len &&
		    memcmp(key, record->key, record->key_len) == 0)
			found->value[no] = number_of(record->value, record->value_len);
	return 0;
}

static int scan_by_cursor(struct actor *a, const struct stet_bounds *bounds, struct found *found)
{
	struct stet_cursor *cursor;
	struct stet_record record;
	int rc = stet_cursor_open(table_of(a), a->txn, bounds, &cursor);

	if (rc)
		return rc;
	while ((rc = stet_cursor_next(cursor, &record)) == 1 && found->count < RECORDS_MAX)
		add_found(found, &record);
	stet_cursor_close(cursor);
	return rc;
}

static void wrong_count(struct actor *a, uint64_t count, const struct found *found)
{
	a->error = -EBADMSG;
	a->what = "count";
	snprintf(a->why, sizeof(a->why), "T%llu counts %llu records and scans %u",
		 (unsigned long long)a->log->id, (unsigned long long)count, found->count);
	atomic_store(&a->work->failed, true);
}

/* Numbers [from, to), and what is counted there. */
static bool scan(struct actor *a, unsigned from, unsigned to)
{
	char from_key[KEY_BYTES], to_key[KEY_BYTES];
	struct stet_bounds bounds = { .reverse = work_random(a, 2) };
	struct found found = { .count = 0 };
	uint64_t call, ret, count;
	int rc;

	if (from > 0) {
		bounds.from = from_key;
		bounds.from_len = key_of(from, from_key);
	}
	if (to < WORK_RECORDS) {
		bounds.to = to_key;
		bounds.to_len = key_of(to, to_key);
	}
	call = work_tick(a);
	rc = work_random(a, 2) ? stet_scan(table_of(a), a->txn, &bounds, add_found, &found)
			       : scan_by_cursor(a, &bounds, &found);
	ret = work_tick(a);
	work_note(a, "scan", rc);
	if (rc)
		return false;
	for (unsigned no = from; no < to; no++)
		hist_log(a->log, HIST_READ, record_key(no), found.value[no], call, ret);
	if (!a->txn || work_random(a, 2))
		return true;
	bool all = from == 0 && to == WORK_RECORDS;
	rc = stet_count(table_of(a), a->txn, all ? NULL : &bounds, &count);
	work_note(a, "count", rc);
	if (!rc && count != found.count)
		wrong_count(a, count, &found);
	return !rc;
}

static bool scan_some(struct actor *a)
{
	unsigned from = (unsigned)work_random(a, WORK_RECORDS);

	if (work_random(a, 3) == 0)
		return scan(a, 0, WORK_RECORDS);
	return scan(a, from, from + 1 + (unsigned)work_random(a, WORK_RECORDS - from));
}

/* --- ballast --- */

static void ballast_write(struct actor *a)
{
	const struct records *r = a->work->records;
	unsigned char value[BALLAST_BYTES];
	uint64_t number = work_value(a), call = work_tick(a);
	char key[KEY_BYTES];
	int rc = 0;

	fill(value, sizeof(value), number);
	for (unsigned k = 0; k < BALLAST_RECORDS && !rc; k++) {
		size_t key_len = (size_t)snprintf(key, sizeof(key), "b%u", k);

		rc = stet_put(r->ballast, a->txn, key, key_len, value, sizeof(value), 0);
		work_note(a, "put of ballast", rc);
		a->spoiled = rc && k > 0; /* with half of it nothing may be committed */
	}
	if (!rc)
		hist_log(a->log, HIST_WRITE, work_key(KEY_BALLAST, 0, 0), number, call,
			 work_tick(a));
}

struct ballast {
	unsigned count;
	uint64_t number;
};

static int add_ballast(void *arg, const struct stet_record *record)
{
	struct ballast *b = arg;
	uint64_t number = number_of(record->value, record->value_len);

	if (b->count++ == 0)
		b->number = number;
	else if (b->number != number)
		b->number = UINT64_C(0xbad) << 48;
	return 0;
}

static void ballast_read(struct actor *a)
{
	const struct records *r = a->work->records;
	struct ballast b = { 0 };
	uint64_t call = work_tick(a);
	int rc = stet_scan(r->ballast, a->txn, NULL, add_ballast, &b);
	uint64_t ret = work_tick(a);

	work_note(a, "scan of ballast", rc);
	if (rc)
		return;
	if (b.count != 0 && b.count != BALLAST_RECORDS)
		b.number = UINT64_C(0xbad) << 48;
	hist_log(a->log, HIST_READ, work_key(KEY_BALLAST, 0, 0), b.number, call, ret);
}

/* --- choosing --- */

static bool alone(const struct actor *a)
{
	return !a->txn && a->flags;
}

void work_record_op(struct actor *a)
{
	unsigned no = (unsigned)work_random(a, WORK_RECORDS);

	if (alone(a))
		return;
	if (a->txn && work_random(a, BALLAST_ONE_IN) == 0) {
		ballast_write(a);
		return;
	}
	if (a->txn && work_random(a, 8) > 0 && !get(a, no, work_random(a, 2) ? STET_GET_UPDATE : 0))
		return;
	if (work_random(a, 3) == 0)
		del(a, no);
	else
		put(a, no);
}

void work_record_read(struct actor *a)
{
	if (alone(a))
		return;
	if (work_random(a, BALLAST_ONE_IN) == 0)
		ballast_read(a);
	else if (work_random(a, 2))
		get(a, (unsigned)work_random(a, WORK_RECORDS), 0);
	else
		scan_some(a);
}

void work_read_records(struct actor *a)
{
	scan(a, 0, WORK_RECORDS);
	ballast_read(a);
}
