/* test_lowlevel.c - by inode number: holds, locks of opens, asynchronous ends, the watch. */
#include "api_unit.h"

#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t make(struct stet_volume *vol, struct stet_txn *txn, const char *name)
{
	struct stet_ll_new what = { .mode = S_IFREG | 0644, .uid = 5, .gid = 6 };
	struct stet_stat st;

	OK(stet_ll_make(vol, txn, STET_ROOT, name, &what, 0, &st));
	assert_int_equal(st.uid, 5);
	assert_int_equal(st.nlink, 1);
	return st.ino;
}

static void names_and_holds(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_ll_new dir = { .mode = S_IFDIR | 0755 };
	uint64_t ino = make(vol, NULL, "f"), gone;
	struct stet_ll_entry entries[8];
	struct stet_stat st;
	char buf[8];

	OK(stet_ll_lookup(vol, NULL, STET_ROOT, "f", STET_LL_HOLD, &st));
	assert_int_equal(st.ino, ino);
	OK(stet_ll_hold(vol, ino));
	assert_int_equal(stet_ll_write(vol, NULL, ino, 0, "abc", 3, 0), 3);
	OK(stet_ll_unlink(vol, NULL, STET_ROOT, "f", 0, &gone));
	assert_int_equal(gone, ino);
	stet_ll_unhold(vol, ino, 1);
	unit_sleep_ms(20);
	assert_int_equal(stet_ll_read(vol, NULL, ino, 0, buf, sizeof(buf), 0), 3);
	stet_ll_unhold(vol, ino, 1);
	for (int i = 0; i < 2000 && stet_ll_getattr(vol, NULL, ino, 0, &st) == 0; i++)
		unit_sleep_ms(1);
	FAILS(-ENOENT, stet_ll_getattr(vol, NULL, ino, 0, &st));

	OK(stet_ll_make(vol, NULL, STET_ROOT, "d", &dir, 0, &st));
	uint64_t d = st.ino;
	OK(stet_ll_lookup(vol, NULL, d, "..", 0, &st));
	assert_int_equal(st.ino, STET_ROOT);
	OK(stet_ll_lookup(vol, NULL, d, ".", 0, &st));
	assert_int_equal(st.ino, d);
	FAILS(-EINVAL, stet_ll_lookup(vol, NULL, d, "a/b", 0, &st));
	FAILS(-EPERM, stet_ll_make(vol, NULL, STET_ROOT, ".stet", &dir, 0, NULL));
	ino = make(vol, NULL, "a");
	OK(stet_ll_link(vol, NULL, ino, d, "b", 0, &st));
	assert_int_equal(st.nlink, 2);
	assert_int_equal(stet_ll_readdir(vol, NULL, STET_ROOT, "", 0, entries, 8), 2);
	assert_string_equal(entries[0].name, "a");
	assert_string_equal(entries[1].name, "d");
	assert_int_equal(stet_ll_readdir(vol, NULL, STET_ROOT, "a", STET_LL_STAT, entries, 8), 1);
	assert_int_equal(entries[0].stat.nlink, 2);
	assert_int_equal(stet_ll_readdir(vol, NULL, STET_ROOT, "d", 0, entries, 8), 0);
}

static void fallocate_modes(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	uint64_t ino = make(vol, NULL, "f");
	struct stet_stat st;
	char buf[10], zero[10] = { 0 };

	OK(stet_ll_fallocate(vol, NULL, ino, 0, 0, 100, 0));
	OK(stet_ll_getattr(vol, NULL, ino, 0, &st));
	assert_int_equal(st.size, 100);
	assert_int_equal(stet_ll_write(vol, NULL, ino, 90, "0123456789", 10, 0), 10);
	OK(stet_ll_fallocate(vol, NULL, ino, FALLOC_FL_ZERO_RANGE, 95, 100, 0));
	OK(stet_ll_getattr(vol, NULL, ino, 0, &st));
	assert_int_equal(st.size, 195);
	assert_int_equal(stet_ll_read(vol, NULL, ino, 90, buf, 10, 0), 10);
	assert_memory_equal(buf, "01234\0\0\0\0\0", 10);
	OK(stet_ll_fallocate(vol, NULL, ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1000,
			     0));
	assert_int_equal(stet_ll_read(vol, NULL, ino, 90, buf, 10, 0), 10);
	assert_memory_equal(buf, zero, 10);
	FAILS(-EOPNOTSUPP, stet_ll_fallocate(vol, NULL, ino, FALLOC_FL_UNSHARE_RANGE, 0, 1, 0));
	FAILS(-EINVAL, stet_ll_fallocate(vol, NULL, ino, 0, 0, 0, 0));
}

/* As relatime: only when it is not newer than the last change; ctime stays; locks are respected. */
static void access_times(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	uint64_t ino = make(vol, NULL, "f");
	struct stet_setattr old = { .set = STET_SET_ATIME, .atime_ns = 1 };
	struct stet_stat before, st;
	struct stet_txn *txn;

	OK(stet_ll_setattr(vol, NULL, ino, &old, 0, &before));
	assert_int_equal(stet_ll_accessed(vol, ino, STET_LL_ACCESS_LOOK), 1);
	OK(stet_ll_getattr(vol, NULL, ino, 0, &st));
	assert_int_equal(st.atime_ns, 1);
	assert_int_equal(stet_ll_accessed(vol, ino, 0), 1);
	OK(stet_ll_getattr(vol, NULL, ino, 0, &st));
	assert_true(st.atime_ns >= before.ctime_ns);
	assert_int_equal(st.ctime_ns, before.ctime_ns);
	assert_int_equal(st.mtime_ns, before.mtime_ns);
	unit_sleep_ms(2);
	assert_int_equal(stet_ll_accessed(vol, ino, 0), st.atime_ns <= st.ctime_ns);
	assert_int_equal(stet_ll_accessed(vol, ino, STET_LL_ACCESS_ALWAYS), 1);
	OK(stet_begin(vol, 0, &txn));
	OK(stet_ll_setattr(vol, txn, ino, &old, 0, NULL));
	OK(stet_ll_setattr(vol, NULL, unit_ino(vol, NULL, ""), &old, 0, NULL));
	assert_int_equal(stet_ll_accessed(vol, ino, 0), 0);
	assert_int_equal(stet_ll_accessed(vol, STET_ROOT, 0), 1);
	OK(stet_commit(txn, 0));
	assert_int_equal(stet_ll_accessed(vol, ino, 0), 1);
	FAILS(-ENOENT, stet_ll_accessed(vol, 999, 0));
}

/* --- locks of opens --- */

struct answer {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool done;
	int result;
	struct stet_ll_lock *lock;
};

#define ANSWER                                                                       \
	{                                                                            \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER \
	}

static void answer_lock(void *arg, int result, struct stet_ll_lock *lock)
{
	struct answer *a = arg;

	pthread_mutex_lock(&a->mutex);
	assert_false(a->done);
	a->done = true;
	a->result = result;
	a->lock = lock;
	pthread_cond_signal(&a->cond);
	pthread_mutex_unlock(&a->mutex);
}

static void answer_done(void *arg, int result)
{
	answer_lock(arg, result, NULL);
}

static int wait_answer(struct answer *a)
{
	pthread_mutex_lock(&a->mutex);
	while (!a->done)
		pthread_cond_wait(&a->cond, &a->mutex);
	pthread_mutex_unlock(&a->mutex);
	return a->result;
}

static int lock_now(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino, unsigned flags,
		    struct stet_ll_lock **ret)
{
	return stet_ll_open_lock(vol, txn, ino, flags | STET_LL_NOWAIT, 0, NULL, NULL, ret, NULL);
}

static void who_excludes_whom(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	uint64_t ino = make(vol, NULL, "f");
	struct stet_ll_lock *a, *b, *none = NULL;
	struct stet_txn *one, *two;

	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &one));
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &two));
	OK(lock_now(vol, NULL, ino, 0, &a));
	OK(lock_now(vol, NULL, ino, STET_LL_APPEND, &b));
	FAILS(-EBUSY, lock_now(vol, one, ino, 0, NULL));
	FAILS(-EBUSY, lock_now(vol, one, ino, STET_LL_APPEND, NULL));
	stet_ll_close_lock(vol, a);
	OK(lock_now(vol, one, ino, STET_LL_APPEND, NULL));
	OK(lock_now(vol, two, ino, STET_LL_APPEND, NULL));
	FAILS(-EBUSY, lock_now(vol, one, ino, 0, NULL));
	FAILS(-EBUSY, lock_now(vol, NULL, ino, 0, &a));
	stet_ll_close_lock(vol, b);
	stet_abort(two);
	OK(lock_now(vol, one, ino, 0, &none));
	assert_null(none);
	FAILS(-EBUSY, lock_now(vol, NULL, ino, STET_LL_APPEND, &a));
	assert_non_null(strstr(stet_error_text(), "transaction"));
	/* A plain change by path respects it, although nothing was written. */
	FAILS(-EBUSY, stet_ll_truncate(vol, NULL, ino, 0, STET_LL_NOWAIT));
	FAILS(-EBUSY, stet_ll_write(vol, NULL, ino, 0, "x", 1, STET_LL_NOWAIT));
	assert_int_equal(stet_ll_write(vol, one, ino, 0, "x", 1, STET_LL_NOWAIT), 1);
	OK(stet_commit(one, 0));
	OK(lock_now(vol, NULL, ino, 0, &a));
	stet_ll_close_lock(vol, a);
	stet_ll_close_lock(vol, NULL);
}

/* What open(2) allowed is not refused later: the open itself finds that the file has changed. */
static void open_finds_newer_data(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	uint64_t ino = make(vol, NULL, "f");
	struct stet_txn *txn;

	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	assert_int_equal(stet_ll_write(vol, NULL, ino, 0, "x", 1, 0), 1);
	FAILS(-EBUSY, lock_now(vol, txn, ino, 0, NULL));
	stet_abort(txn);
}

static void waits_time_out(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	uint64_t ino = make(vol, NULL, "f");
	struct answer granted = ANSWER, late = ANSWER, cancelled = ANSWER, ended = ANSWER;
	struct stet_ll_lock *lock;
	struct stet_ll_wait *wait;
	struct stet_txn *txn, *other;
	int64_t start;

	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &other));
	OK(lock_now(vol, txn, ino, 0, NULL));
	start = unit_now_ms();
	FAILS(-EBUSY, stet_ll_open_lock(vol, NULL, ino, 0, 30, NULL, NULL, &lock, NULL));
	assert_true(unit_now_ms() - start >= 29);
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, NULL, ino, 0, 30, answer_lock, &late, &lock, NULL));
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, NULL, ino, 0, 0, answer_lock, &cancelled, &lock, &wait));
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, other, ino, 0, 0, answer_lock, &ended, NULL, NULL));
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, NULL, ino, 0, 5000, answer_lock, &granted, &lock, NULL));
	stet_ll_open_lock_cancel(vol, wait);
	assert_int_equal(wait_answer(&cancelled), -EINTR);
	assert_int_equal(wait_answer(&late), -EBUSY);
	stet_abort(other);
	assert_int_equal(wait_answer(&ended), -EAGAIN);
	assert_false(granted.done);
	stet_abort(txn);
	assert_int_equal(wait_answer(&granted), 0);
	stet_ll_close_lock(vol, granted.lock);
	OK(stet_ll_open_lock(vol, NULL, ino, 0, 5000, answer_lock, &granted, &lock, NULL));
	stet_ll_close_lock(vol, lock);
}

/* Who gives up is followed in the queue by one who can then have the lock: in the list of waits that
 * is the next one, which went while the list was gone through. */
static void who_gives_up_lets_others_through(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	uint64_t ino = make(vol, NULL, "f");
	struct answer late = ANSWER, ended = ANSWER, granted[2] = { ANSWER, ANSWER };
	struct stet_ll_lock *held, *none;
	struct stet_txn *txn;

	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(lock_now(vol, NULL, ino, 0, &held));
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, txn, ino, 0, 300, answer_lock, &late, NULL, NULL));
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, NULL, ino, 0, 9000, answer_lock, &granted[0], &none, NULL));
	assert_int_equal(wait_answer(&late), -EBUSY);
	assert_int_equal(wait_answer(&granted[0]), 0);
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, txn, ino, 0, 0, answer_lock, &ended, NULL, NULL));
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, NULL, ino, 0, 9000, answer_lock, &granted[1], &none, NULL));
	stet_abort(txn);
	assert_int_equal(wait_answer(&ended), -EAGAIN);
	assert_int_equal(wait_answer(&granted[1]), 0);
	stet_ll_close_lock(vol, granted[0].lock);
	stet_ll_close_lock(vol, granted[1].lock);
	stet_ll_close_lock(vol, held);
}

/* --- deadlocks through both kinds of locks --- */

struct waits {
	uint64_t id, waiting_for;
};

static int look_at_waits(void *arg, const struct stet_txn_entry *entry)
{
	struct waits *waits = arg;

	if (entry->id == waits->id)
		waits->waiting_for = entry->waiting_for;
	return 0;
}

static uint64_t waiting_for(struct stet_volume *vol, struct stet_txn *txn)
{
	struct waits waits = { .id = stet_transaction_id(txn) };

	OK(stet_txns(vol, look_at_waits, &waits));
	return waits.waiting_for;
}

/* A call of a transaction that may wait, in a thread. */
struct call {
	pthread_t thread;
	struct stet_volume *vol;
	struct stet_txn *txn;
	struct stet_table *table; /* NULL: it writes the file */
	uint64_t ino;
	_Atomic bool done;
	long rc;
};

static void *run_call(void *arg)
{
	struct call *c = arg;
	char buf[8];

	if (c->table)
		c->rc = stet_get(c->table, c->txn, "r", 1, buf, sizeof(buf), STET_GET_UPDATE);
	else
		c->rc = stet_ll_write(c->vol, c->txn, c->ino, 0, "x", 1, 0);
	c->done = true;
	return NULL;
}

static void start_call(struct call *c)
{
	pthread_create(&c->thread, NULL, run_call, c);
	while (!c->done && waiting_for(c->vol, c->txn) == 0)
		unit_sleep_ms(1);
}

static bool ends_soon(const struct call *c)
{
	int64_t until_ms = unit_now_ms() + 5000;

	while (!c->done && unit_now_ms() < until_ms)
		unit_sleep_ms(1);
	return c->done;
}

/* One waits for a record, the other for the data of a file; both kinds of victims, and both orders. */
static void deadlock_of_both_kinds(struct stet_volume *vol, bool reader_is_young, bool reader_first)
{
	struct call reader = { .vol = vol }, writer = { .vol = vol };
	struct call *young = reader_is_young ? &reader : &writer;
	struct call *old = reader_is_young ? &writer : &reader;
	bool ended;

	OK(stet_begin(vol, STET_BEGIN_LOCKING, &old->txn));
	OK(stet_begin(vol, STET_BEGIN_LOCKING, &young->txn));
	writer.ino = unit_ino(vol, NULL, "f");
	OK(stet_table_open(vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT, 0600, &reader.table));
	assert_int_equal(stet_ll_write(vol, reader.txn, writer.ino, 0, "x", 1, 0), 1);
	OK(stet_put(reader.table, writer.txn, "r", 1, "2", 1, 0));
	start_call(reader_first ? &reader : &writer);
	start_call(reader_first ? &writer : &reader);
	ended = ends_soon(young);
	if (ended)
		FAILS(-EDEADLK, stet_ll_write(vol, young->txn, writer.ino, 0, "y", 1, 0));
	stet_abort(young->txn); /* ends what still waits */
	pthread_join(young->thread, NULL);
	pthread_join(old->thread, NULL);
	assert_true(ended);
	assert_int_equal(young->rc, -EDEADLK);
	assert_int_equal(old->rc, 1);
	OK(stet_commit(old->txn, 0));
	stet_table_close(reader.table);
}

static void deadlocks_of_both_kinds(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	uint64_t ino = make(vol, NULL, "f");
	struct stet_table *table;
	struct stet_ll_lock *lock;

	OK(lock_now(vol, NULL, ino, 0, &lock)); /* from now on changes of data take these locks */
	stet_ll_close_lock(vol, lock);
	OK(stet_table_open(vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT, 0600, &table));
	OK(stet_put(table, NULL, "r", 1, "1", 1, 0));
	stet_table_close(table);
	for (int i = 0; i < 4; i++)
		deadlock_of_both_kinds(vol, i & 1, i & 2);
}

/* What LOCKING reads of a file is not open for writing; by others it is read. */
static void reads_exclude_opens(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	uint64_t ino = make(vol, NULL, "f");
	struct stet_txn *one, *two, *snapshot;
	struct stet_ll_lock *lock;
	struct stet_stat st;
	uint64_t off;
	char buf[4];

	OK(lock_now(vol, NULL, ino, 0, &lock));
	OK(stet_begin(vol, STET_BEGIN_LOCKING, &one));
	OK(stet_begin(vol, STET_BEGIN_LOCKING, &two));
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &snapshot));
	FAILS(-EBUSY, stet_ll_read(vol, one, ino, 0, buf, 4, STET_LL_NOWAIT));
	FAILS(-EBUSY, stet_ll_getattr(vol, one, ino, STET_LL_NOWAIT, &st));
	FAILS(-EBUSY, stet_ll_seek(vol, one, ino, 0, STET_SEEK_HOLE, STET_LL_NOWAIT, &off));
	OK(stet_lock_timeout(one, 30));
	FAILS(-ETIMEDOUT, stet_ll_read(vol, one, ino, 0, buf, 4, 0));
	/* Who waited is not in the way of what the open allows. */
	assert_int_equal(stet_ll_write(vol, NULL, ino, 0, "x", 1, STET_LL_NOWAIT), 1);
	assert_int_equal(stet_ll_read(vol, snapshot, ino, 0, buf, 4, STET_LL_NOWAIT), 0);
	stet_ll_close_lock(vol, lock);

	assert_int_equal(stet_ll_read(vol, one, ino, 0, buf, 4, STET_LL_NOWAIT), 1);
	OK(stet_ll_getattr(vol, two, ino, STET_LL_NOWAIT, &st));
	FAILS(-EBUSY, lock_now(vol, NULL, ino, 0, &lock));
	FAILS(-EBUSY, lock_now(vol, NULL, ino, STET_LL_APPEND, &lock));
	FAILS(-EBUSY, lock_now(vol, snapshot, ino, 0, NULL));
	FAILS(-EBUSY, stet_ll_write(vol, one, ino, 0, "y", 1, STET_LL_NOWAIT));
	OK(stet_commit(two, 0));
	assert_int_equal(stet_ll_write(vol, one, ino, 0, "y", 1, STET_LL_NOWAIT), 1);
	OK(stet_commit(one, 0));
	stet_abort(snapshot);
	OK(lock_now(vol, NULL, ino, 0, &lock));
	stet_ll_close_lock(vol, lock);
}

static void *set_times(void *arg)
{
	struct stet_setattr attr = { .set = STET_SET_MTIME, .mtime_ns = 5 };
	struct call *c = arg;
	struct stet_stat st;

	c->rc = stet_ll_setattr(c->vol, c->txn, c->ino, &attr, 0, &st);
	c->done = true;
	return NULL;
}

/* At LOCKING a change and what it then tells are two steps: each waits. */
static void looking_afterwards_waits(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct call c = { .vol = vol, .ino = make(vol, NULL, "f") };
	struct stet_txn *other;

	OK(stet_begin(vol, STET_BEGIN_LOCKING, &other));
	OK(stet_begin(vol, STET_BEGIN_LOCKING, &c.txn));
	OK(stet_ll_setxattr(vol, other, c.ino, "user.x", "1", 1, 0));
	pthread_create(&c.thread, NULL, set_times, &c);
	while (!c.done && waiting_for(vol, c.txn) == 0)
		unit_sleep_ms(1);
	OK(stet_commit(other, 0));
	pthread_join(c.thread, NULL);
	assert_int_equal(c.rc, 0);
	OK(stet_commit(c.txn, 0));
}

static void *read_file(void *arg)
{
	struct call *c = arg;
	char buf[8];

	c->rc = stet_ll_read(c->vol, c->txn, c->ino, 0, buf, sizeof(buf), 0);
	c->done = true;
	return NULL;
}

/* An open waits for a reader of the file, who waits for a second one, who comes to read the file behind the open:
 * the open gives way, and is told nothing of it. */
static void opens_give_way(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct call first = { .vol = vol }, second = { .vol = vol };
	struct answer opened = ANSWER;
	struct stet_ll_lock *none;
	struct stet_table *table;

	OK(stet_table_open(vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT, 0600, &table));
	OK(stet_put(table, NULL, "r", 1, "1", 1, 0));
	first.ino = second.ino = make(vol, NULL, "f");
	first.table = table;
	OK(lock_now(vol, NULL, first.ino, 0, &none)); /* from now on these locks are taken */
	stet_ll_close_lock(vol, none);
	OK(stet_begin(vol, STET_BEGIN_LOCKING, &first.txn));
	OK(stet_begin(vol, STET_BEGIN_LOCKING, &second.txn));
	read_file(&first);
	assert_int_equal(first.rc, 0);
	first.done = false;
	OK(stet_put(table, second.txn, "r", 1, "2", 1, 0));
	FAILS(-EINPROGRESS,
	      stet_ll_open_lock(vol, NULL, first.ino, 0, 9000, answer_lock, &opened, &none, NULL));
	start_call(&first);
	pthread_create(&second.thread, NULL, read_file, &second);
	pthread_join(second.thread, NULL);
	assert_int_equal(second.rc, 0);
	assert_false(opened.done);
	OK(stet_commit(second.txn, 0));
	pthread_join(first.thread, NULL);
	assert_int_equal(first.rc, 1);
	OK(stet_commit(first.txn, 0));
	assert_int_equal(wait_answer(&opened), 0);
	stet_ll_close_lock(vol, opened.lock);
	stet_table_close(table);
}

static void what_is_created_is_locked(void **state)
{
	const struct stet_ll_new what = { .mode = S_IFREG | 0644 };
	struct stet_volume *vol = unit_vol(state);
	struct stet_ll_lock *lock, *other;
	struct stet_txn *txn;
	struct stet_stat st;

	OK(stet_ll_create(vol, NULL, STET_ROOT, "a", &what, STET_LL_NOWAIT, &st, &lock));
	assert_non_null(lock);
	assert_int_equal(st.mode, what.mode);
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	FAILS(-EBUSY, lock_now(vol, txn, st.ino, 0, NULL));
	FAILS(-EBUSY, lock_now(vol, txn, st.ino, STET_LL_APPEND, NULL));
	FAILS(-EEXIST, stet_ll_create(vol, NULL, STET_ROOT, "a", &what, 0, &st, &other));
	stet_ll_close_lock(vol, lock);
	OK(lock_now(vol, txn, st.ino, 0, NULL));

	OK(stet_ll_create(vol, NULL, STET_ROOT, "b", &what, STET_LL_APPEND, &st, &lock));
	stet_abort(txn);
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(lock_now(vol, txn, st.ino, STET_LL_APPEND, NULL));
	FAILS(-EBUSY, lock_now(vol, txn, st.ino, 0, NULL));
	stet_ll_close_lock(vol, lock);

	OK(stet_ll_create(vol, txn, STET_ROOT, "c", &what, 0, &st, &lock));
	assert_null(lock);
	OK(stet_commit(txn, 0));
}

/* --- asynchronous ends --- */

static void commits_and_fsyncs(void **state)
{
	struct unit_volume *u = *state;
	struct answer commit[4] = { ANSWER, ANSWER, ANSWER, ANSWER }, fsync = ANSWER,
		      conflict = ANSWER;
	struct stet_txn *txn[4], *loser;
	char name[8];

	unit_write(u->vol, NULL, "c", "0");
	OK(stet_begin(u->vol, 0, &loser));
	unit_expect(u->vol, loser, "c", "0");
	unit_write(u->vol, loser, "d", "1");
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(stet_begin(u->vol, 0, &txn[i]));
		unit_write(u->vol, txn[i], name, name);
		OK(stet_ll_commit(txn[i], 0, answer_done, &commit[i]));
	}
	unit_write(u->vol, NULL, "c", "1");
	OK(stet_ll_fsync_async(u->vol, NULL, answer_done, &fsync));
	OK(stet_ll_commit(loser, 0, answer_done, &conflict));
	FAILS(-EBUSY, wait_answer(&conflict));
	FAILS(-EAGAIN, stet_ll_commit(loser, 0, answer_done, &conflict));
	assert_true(stet_conflict_text(loser, NULL, 0) > 0);
	stet_abort(loser);
	for (int i = 0; i < 4; i++)
		OK(wait_answer(&commit[i]));
	OK(wait_answer(&fsync));
	unit_reopen(u, true);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		unit_expect(u->vol, NULL, name, name);
	}
	unit_expect(u->vol, NULL, "c", "1");
}

/* --- the watch --- */

struct seen {
	struct stet_volume *vol;
	char text[1024];
	size_t len;
	bool visible_before, visible_after;
};

static void watch(void *arg, enum stet_ll_phase phase, const struct stet_ll_touched *touched)
{
	struct seen *seen = arg;

	if (phase == STET_LL_AFTER) {
		seen->visible_after = unit_exists(seen->vol, NULL, "new");
		assert_int_equal(touched->result, 0);
		return;
	}
	assert_int_equal(phase, STET_LL_BEFORE);
	seen->visible_before = unit_exists(seen->vol, NULL, "new");
	for (size_t i = 0; i < touched->ino_count; i++)
		seen->len += (size_t)snprintf(seen->text + seen->len,
					      sizeof(seen->text) - seen->len, "%llu:%x ",
					      (unsigned long long)touched->ino[i].ino,
					      touched->ino[i].what);
	for (size_t i = 0; i < touched->name_count; i++)
		seen->len += (size_t)snprintf(seen->text + seen->len,
					      sizeof(seen->text) - seen->len, "%llu/%s:%llu>%llu ",
					      (unsigned long long)touched->name[i].dir,
					      touched->name[i].name,
					      (unsigned long long)touched->name[i].old_ino,
					      (unsigned long long)touched->name[i].new_ino);
}

static unsigned what_of(const struct seen *seen, uint64_t ino)
{
	char key[32];
	const char *at;

	snprintf(key, sizeof(key), "%llu:", (unsigned long long)ino);
	at = strstr(seen->text, key);
	assert_non_null(at);
	return (unsigned)strtoul(at + strlen(key), NULL, 16);
}

static void watched(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct seen seen = { .vol = vol };
	uint64_t changed = make(vol, NULL, "file-changed"), grown = make(vol, NULL, "file-grown"),
		 gone = make(vol, NULL, "file-gone"), fresh;
	struct stet_txn *txn;
	char expect[64];

	assert_int_equal(stet_ll_write(vol, NULL, changed, 0, "0123456789", 10, 0), 10);
	assert_int_equal(stet_ll_write(vol, NULL, grown, 0, "0123456789", 10, 0), 10);
	OK(stet_ll_watch(vol, watch, &seen));
	FAILS(-EBUSY, stet_ll_watch(vol, watch, &seen));
	OK(stet_begin(vol, 0, &txn));
	assert_int_equal(stet_ll_write(vol, txn, changed, 5, "x", 1, 0), 1);
	assert_int_equal(stet_ll_append(vol, txn, grown, "x", 1, 0), 1);
	OK(stet_ll_unlink(vol, txn, STET_ROOT, "file-gone", 0, NULL));
	fresh = make(vol, txn, "new");
	OK(stet_commit(txn, 0));
	assert_false(seen.visible_before);
	assert_true(seen.visible_after);
	print_message("%s\n", seen.text);
	assert_true(what_of(&seen, changed) & STET_LL_TOUCHED_DATA);
	assert_true(what_of(&seen, grown) & STET_LL_TOUCHED_GROWN);
	assert_false(what_of(&seen, grown) & STET_LL_TOUCHED_DATA);
	assert_true(what_of(&seen, gone) & STET_LL_TOUCHED_GONE);
	assert_true(what_of(&seen, fresh) & STET_LL_TOUCHED_NEW);
	assert_true(what_of(&seen, STET_ROOT) & STET_LL_TOUCHED_NAMES);
	snprintf(expect, sizeof(expect), "1/file-gone:%llu>0 1/new:0>%llu ",
		 (unsigned long long)gone, (unsigned long long)fresh);
	assert_non_null(strstr(seen.text, expect));
	OK(stet_ll_watch(vol, NULL, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_and_holds, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(fallocate_modes, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(access_times, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(who_excludes_whom, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(open_finds_newer_data, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(who_gives_up_lets_others_through, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(deadlocks_of_both_kinds, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(looking_afterwards_waits, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(reads_exclude_opens, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(opens_give_way, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(what_is_created_is_locked, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(waits_time_out, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(commits_and_fsyncs, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(watched, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/lowlevel", tests, NULL, NULL);
}
