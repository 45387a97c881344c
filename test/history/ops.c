/* ops.c - operations on cells, lists and extended attributes, and the choice among all there are.
 *
 * A call that failed has changed nothing and shown nothing: it is not logged, but for those answers that say
 * what is there (no such attribute, no such name).
 */
#include "work.h"

#include <errno.h>
#include <string.h>

#define LIST_BYTES (64u << 10)

uint64_t work_random(struct actor *a, uint64_t below)
{
	uint64_t x = a->random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (x ^ (x >> 31)) % below;
}

uint64_t work_tick(struct actor *a)
{
	return atomic_fetch_add(&a->work->clock, 1) + 1;
}

uint64_t work_value(struct actor *a)
{
	return a->log->id << 12 | (a->log->ops.n + 1);
}

static bool expected(const struct actor *a, int64_t rc)
{
	static const int errors[] = { EBUSY,   EDEADLK, ENOENT, EEXIST, ENOTEMPTY,
				      ENODATA, ESTALE,  EISDIR, ENOTDIR };

	(void)a;
	for (size_t k = 0; k < sizeof(errors) / sizeof(errors[0]); k++)
		if (rc == -errors[k])
			return true;
	return rc >= 0;
}

void work_note(struct actor *a, const char *what, int64_t rc)
{
	a->totals.operations++;
	a->totals.busy += rc == -EBUSY;
	a->totals.deadlocks += rc == -EDEADLK;
	if (rc == -EBUSY || rc == -EDEADLK || rc == -ESTALE || rc == -ETIMEDOUT)
		a->refused = true;
	if (expected(a, rc) || a->error || rc == -ETIMEDOUT)
		return;
	a->error = (int)rc;
	a->what = what;
	snprintf(a->why, sizeof(a->why), "%s", stet_error_text());
	atomic_store(&a->work->failed, true);
}

/* --- cells --- */

struct cell {
	uint64_t value, check;
};

static uint64_t check_of(uint64_t value)
{
	return value * UINT64_C(0x9e3779b97f4a7c15);
}

/* Cells [at, at + n) with one read. A torn one is logged as a value that nobody wrote. */
static bool read_cells(struct actor *a, unsigned file, unsigned at, unsigned n)
{
	const struct work_cells *c = &work_cells[file];
	unsigned char buf[WORK_CELLS_MAX * 4096];
	size_t len = (size_t)(n - 1) * c->stride + sizeof(struct cell);
	uint64_t call = work_tick(a);
	ssize_t got = work_read(a, a->work->cells[file], at * c->stride, buf, len);
	uint64_t ret = work_tick(a);

	work_note(a, "reading cells", got);
	if (got < 0)
		return false;
	memset(buf + got, 0, len - (size_t)got);
	for (unsigned k = 0; k < n; k++) {
		struct cell cell;

		memcpy(&cell, buf + k * c->stride, sizeof(cell));
		if (check_of(cell.value) != cell.check)
			cell.value = UINT64_C(0xbad) << 48;
		hist_log(a->log, HIST_READ, work_key(KEY_CELL, file, at + k), cell.value, call,
			 ret);
	}
	return true;
}

static void write_cell(struct actor *a, unsigned file, unsigned at)
{
	struct cell cell = { .value = work_value(a) };
	uint64_t call = work_tick(a);
	ssize_t put;

	cell.check = check_of(cell.value);
	put = work_write(a, a->work->cells[file], at * work_cells[file].stride, &cell,
			 sizeof(cell));
	work_note(a, "writing a cell", put);
	if (put == (ssize_t)sizeof(cell))
		hist_log(a->log, HIST_WRITE, work_key(KEY_CELL, file, at), cell.value, call,
			 work_tick(a));
}

static void cells_read(struct actor *a)
{
	unsigned file = (unsigned)work_random(a, WORK_CELL_FILES);
	unsigned at = (unsigned)work_random(a, work_cells[file].count);
	unsigned n = 1 + (unsigned)work_random(a, 3);

	if (n > work_cells[file].count - at)
		n = work_cells[file].count - at;
	read_cells(a, file, at, n);
}

/* A hole, or the end of the file: cells [at, at + n) are 0. */
static void clear_cells(struct actor *a, unsigned file, unsigned at, unsigned n)
{
	const struct work_cells *c = &work_cells[file];
	bool cut = at + n == c->count;
	uint64_t call = work_tick(a), ret;
	int rc = cut ? work_cut(a, a->work->cells[file], at * c->stride)
		     : work_punch(a, a->work->cells[file], at * c->stride, n * c->stride);

	ret = work_tick(a);
	work_note(a, "clearing cells", rc);
	for (unsigned k = at; k < at + n && !rc; k++)
		hist_log(a->log, HIST_WRITE, work_key(KEY_CELL, file, k), 0, call, ret);
}

/* Mostly what was read is written over. */
static void cells_change(struct actor *a)
{
	unsigned file = (unsigned)work_random(a, WORK_CELL_FILES);
	unsigned at = (unsigned)work_random(a, work_cells[file].count);

	if (a->txn && work_random(a, 12) == 0) {
		unsigned n = 1 + (unsigned)work_random(a, work_cells[file].count - at);

		if (read_cells(a, file, at, n))
			clear_cells(a, file, at, n);
		return;
	}

	if (a->txn && work_random(a, 8) > 0 && !read_cells(a, file, at, 1))
		return;
	write_cell(a, file, at);
}

/* --- lists --- */

static void list_append(struct actor *a)
{
	unsigned no = (unsigned)work_random(a, WORK_LISTS);
	uint64_t value = work_value(a), call = work_tick(a);
	ssize_t put = work_append(a, a->work->lists[no], &value, sizeof(value));

	work_note(a, "appending", put);
	if (put == (ssize_t)sizeof(value))
		hist_log(a->log, HIST_APPEND, work_key(KEY_LIST, no, 0), value, call, work_tick(a));
}

static void list_read(struct actor *a, unsigned no)
{
	uint64_t *list = hist_alloc(LIST_BYTES);
	uint64_t call = work_tick(a);
	ssize_t got = work_read(a, a->work->lists[no], 0, list, LIST_BYTES);

	work_note(a, "reading a list", got);
	if (got >= 0)
		hist_log_list(a->log, work_key(KEY_LIST, no, 0), list, (size_t)got / sizeof(*list),
			      call, work_tick(a));
	hist_free(list);
}

static void list_length(struct actor *a)
{
	unsigned no = (unsigned)work_random(a, WORK_LISTS);
	uint64_t call = work_tick(a);
	struct stet_stat st;
	int rc = work_stat(a, a->work->lists[no], &st);

	work_note(a, "the size of a list", rc);
	if (!rc)
		hist_log(a->log, HIST_LENGTH, work_key(KEY_LIST, no, 0), st.size / sizeof(uint64_t),
			 call, work_tick(a));
}

/* --- extended attributes --- */

static bool xattr_read(struct actor *a, unsigned no)
{
	uint64_t value = 0, call = work_tick(a);
	ssize_t got = work_get_xattr(a, a->work->cells[0], work_xattr(no), &value, sizeof(value));

	work_note(a, "reading an xattr", got);
	if (got < 0 && got != -ENODATA)
		return false;
	hist_log(a->log, HIST_READ, work_key(KEY_XATTR, 0, no), got < 0 ? 0 : value, call,
		 work_tick(a));
	return true;
}

static void xattr_change(struct actor *a)
{
	unsigned no = (unsigned)work_random(a, WORK_XATTRS);
	uint64_t value, call;
	int rc;

	if (a->txn && work_random(a, 8) > 0 && !xattr_read(a, no))
		return;
	value = work_value(a);
	call = work_tick(a);
	rc = work_set_xattr(a, a->work->cells[0], work_xattr(no), &value, sizeof(value));
	work_note(a, "setting an xattr", rc);
	if (!rc)
		hist_log(a->log, HIST_WRITE, work_key(KEY_XATTR, 0, no), value, call, work_tick(a));
}

/* --- owners: the user's number is the value --- */

static bool owner_read(struct actor *a)
{
	uint64_t call = work_tick(a);
	struct stet_stat st;
	int rc = work_stat(a, a->work->cells[0], &st);

	work_note(a, "the owner", rc);
	if (!rc)
		hist_log(a->log, HIST_READ, work_key(KEY_OWNER, 0, 0), st.uid, call, work_tick(a));
	return !rc;
}

static void owner_change(struct actor *a)
{
	uint64_t call;
	uint32_t uid;
	int rc;

	if (a->txn && work_random(a, 8) > 0 && !owner_read(a))
		return;
	uid = (uint32_t)work_value(a);
	call = work_tick(a);
	rc = work_set_owner(a, a->work->cells[0], uid);
	work_note(a, "a new owner", rc);
	if (!rc)
		hist_log(a->log, HIST_WRITE, work_key(KEY_OWNER, 0, 0), uid, call, work_tick(a));
}

/* --- choosing --- */

static void change(struct actor *a)
{
	switch (work_random(a, work_have_records() ? 12 : 9)) {
	case 0 ... 2:
		cells_change(a);
		break;
	case 3:
		list_append(a);
		break;
	case 4:
		if (work_random(a, 3) == 0)
			owner_change(a);
		else
			xattr_change(a);
		break;
	case 5 ... 8:
		work_name_op(a);
		break;
	default:
		work_record_op(a);
		break;
	}
}

static void look(struct actor *a)
{
	switch (work_random(a, work_have_records() ? 9 : 7)) {
	case 0 ... 1:
		cells_read(a);
		break;
	case 2:
		list_read(a, (unsigned)work_random(a, WORK_LISTS));
		break;
	case 3:
		list_length(a);
		break;
	case 4:
		if (work_random(a, 3) == 0)
			owner_read(a);
		else
			xattr_read(a, (unsigned)work_random(a, WORK_XATTRS));
		break;
	case 5 ... 6:
		work_name_read(a);
		break;
	default:
		work_record_read(a);
		break;
	}
}

void work_op(struct actor *a)
{
	if (a->log->read_only || work_random(a, 2) == 0)
		look(a);
	else
		change(a);
}

void work_read_all(struct actor *a)
{
	for (unsigned k = 0; k < WORK_CELL_FILES; k++)
		read_cells(a, k, 0, work_cells[k].count);
	for (unsigned k = 0; k < WORK_LISTS; k++)
		list_read(a, k);
	for (unsigned k = 0; k < WORK_XATTRS; k++)
		xattr_read(a, k);
	owner_read(a);
	work_read_names(a);
	work_read_records(a);
}
