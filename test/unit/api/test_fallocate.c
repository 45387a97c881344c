/* test_fallocate.c - ranges: growing, taking out and putting in, against a copy in memory, with a map of
 * what was ever written: a hole must stay one. */
#include "api_unit.h"

#include <linux/falloc.h>
#include <stdlib.h>

#include "base/random.h"

#define BLOCK 4096u
#define MAX_BLOCKS 900u
#define MAX_BYTES (MAX_BLOCKS * BLOCK)

struct model {
	size_t size;
	uint8_t bytes[MAX_BYTES];
	bool data[MAX_BLOCKS];
};

struct run {
	struct stet_volume *vol;
	struct stet_file *file;
	struct stet_random random;
	struct model now, committed;
};

static uint64_t below(struct run *r, uint64_t n)
{
	return stet_random_below(&r->random, n);
}

static size_t blocks_of(size_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK;
}

static void compare(struct run *r)
{
	static uint8_t back[MAX_BYTES + 1];
	struct stet_stat st;
	uint64_t at = 0, from, to;
	ssize_t n = stet_pread(r->file, back, sizeof(back), 0);

	assert_int_equal(n, r->now.size);
	assert_memory_equal(back, r->now.bytes, r->now.size);
	OK(stet_file_stat(r->file, &st));
	assert_int_equal(st.size, r->now.size);
	/* Where we have a hole it has one. */
	while (at < r->now.size && stet_seek(r->file, at, STET_SEEK_DATA, &from) == 0) {
		OK(stet_seek(r->file, from, STET_SEEK_HOLE, &to));
		for (uint64_t b = from / BLOCK; b < blocks_of(to); b++)
			if (!r->now.data[b])
				fail_msg("block %u of %zu bytes should be a hole", (unsigned)b,
					 r->now.size);
		at = to;
	}
}

static void do_write(struct run *r)
{
	static uint8_t data[64 * BLOCK];
	size_t off = below(r, r->now.size + 20 * BLOCK), len = 1 + below(r, sizeof(data) - 1);

	if (off + len > MAX_BYTES)
		return;
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)stet_random_next(&r->random);
	assert_int_equal(stet_pwrite(r->file, data, len, off), len);
	memcpy(r->now.bytes + off, data, len);
	for (size_t b = off / BLOCK; b < blocks_of(off + len); b++)
		r->now.data[b] = true;
	if (off + len > r->now.size)
		r->now.size = off + len;
}

static void do_truncate(struct run *r)
{
	size_t size = 1 + below(r, MAX_BYTES);

	OK(stet_truncate(r->file, size));
	if (size < r->now.size) {
		memset(r->now.bytes + size, 0, MAX_BYTES - size);
		memset(r->now.data + blocks_of(size), 0, MAX_BLOCKS - blocks_of(size));
	}
	r->now.size = size;
}

static void do_punch(struct run *r)
{
	size_t first = below(r, MAX_BLOCKS), count = 1 + below(r, MAX_BLOCKS - first);

	OK(stet_punch(r->file, first * BLOCK, count * BLOCK));
	memset(r->now.bytes + first * BLOCK, 0, count * BLOCK);
	memset(r->now.data + first, 0, count);
}

static void do_collapse(struct run *r)
{
	size_t blocks = blocks_of(r->now.size);
	size_t first = below(r, blocks + 2), count = 1 + below(r, blocks / 4 + 2);
	int rc = stet_fallocate(r->file, FALLOC_FL_COLLAPSE_RANGE, first * BLOCK, count * BLOCK);

	if ((first + count) * BLOCK >= r->now.size) {
		assert_int_equal(rc, -EINVAL);
		return;
	}
	assert_int_equal(rc, 0);
	memmove(r->now.bytes + first * BLOCK, r->now.bytes + (first + count) * BLOCK,
		MAX_BYTES - (first + count) * BLOCK);
	memset(r->now.bytes + MAX_BYTES - count * BLOCK, 0, count * BLOCK);
	memmove(r->now.data + first, r->now.data + first + count, MAX_BLOCKS - first - count);
	memset(r->now.data + MAX_BLOCKS - count, 0, count);
	r->now.size -= count * BLOCK;
}

static void do_insert(struct run *r)
{
	size_t blocks = blocks_of(r->now.size);
	size_t first = below(r, blocks + 2), count = 1 + below(r, blocks / 4 + 2);
	int rc;

	if (blocks + count > MAX_BLOCKS)
		return;
	rc = stet_fallocate(r->file, FALLOC_FL_INSERT_RANGE, first * BLOCK, count * BLOCK);
	if (first * BLOCK >= r->now.size) {
		assert_int_equal(rc, -EINVAL);
		return;
	}
	assert_int_equal(rc, 0);
	memmove(r->now.bytes + (first + count) * BLOCK, r->now.bytes + first * BLOCK,
		MAX_BYTES - (first + count) * BLOCK);
	memset(r->now.bytes + first * BLOCK, 0, count * BLOCK);
	memmove(r->now.data + first + count, r->now.data + first, MAX_BLOCKS - first - count);
	memset(r->now.data + first, 0, count);
	r->now.size += count * BLOCK;
}

/* Files that lie in their inode have no holes: it is never that small. */
static void step(struct run *r)
{
	while (r->now.size < BLOCK)
		do_write(r);
	switch (below(r, 8)) {
	case 0:
	case 1:
	case 2:
		do_write(r);
		break;
	case 3:
		if (below(r, 4) == 0)
			do_truncate(r);
		break;
	case 4:
		do_punch(r);
		break;
	case 5:
	case 6:
		do_collapse(r);
		break;
	default:
		do_insert(r);
	}
	compare(r);
}

static void open_file(struct run *r, struct stet_txn *txn)
{
	OK(stet_openat(r->vol, txn, STET_ROOT, "f", O_RDWR | O_CREAT, 0644, &r->file));
}

static void random_plain(void **state)
{
	struct unit_volume *u = *state;
	struct run *r = calloc(1, sizeof(*r));

	r->vol = u->vol;
	stet_random_seed(&r->random, 41);
	open_file(r, NULL);
	for (int i = 0; i < 400; i++) {
		step(r);
		if (i % 100 == 99) {
			stet_file_close(r->file);
			unit_reopen(u, false);
			r->vol = u->vol;
			open_file(r, NULL);
			compare(r);
		}
	}
	stet_file_close(r->file);
	free(r);
}

static void random_transactions(void **state)
{
	struct unit_volume *u = *state;
	struct run *r = calloc(1, sizeof(*r));
	struct stet_txn *txn;

	r->vol = u->vol;
	stet_random_seed(&r->random, 42);
	for (int round = 0; round < 60; round++) {
		r->committed = r->now;
		OK(stet_begin(r->vol, 0, &txn));
		open_file(r, txn);
		for (int i = 0; i < 6; i++)
			step(r);
		stet_file_close(r->file);
		if (below(r, 3) == 0) {
			stet_abort(txn);
			r->now = r->committed;
		} else {
			OK(stet_commit(txn, STET_COMMIT_NOSYNC));
		}
		open_file(r, NULL);
		compare(r);
		stet_file_close(r->file);
	}
	free(r);
}

/* What a crash finds is the file before or after. */
static void crash(void **state)
{
	struct unit_volume *u = *state;
	struct run *r = calloc(1, sizeof(*r));

	r->vol = u->vol;
	stet_random_seed(&r->random, 43);
	open_file(r, NULL);
	for (int i = 0; i < 20; i++)
		do_write(r);
	OK(stet_fsync(r->file));
	OK(stet_fallocate(r->file, FALLOC_FL_INSERT_RANGE, 0, BLOCK)); /* not flushed */
	stet_file_close(r->file);
	unit_reopen(u, true);
	r->vol = u->vol;
	open_file(r, NULL);
	compare(r);
	for (int i = 0; i < 10; i++) {
		do_insert(r);
		do_collapse(r);
	}
	OK(stet_fsync(r->file));
	stet_file_close(r->file);
	unit_reopen(u, true);
	r->vol = u->vol;
	open_file(r, NULL);
	compare(r);
	stet_file_close(r->file);
	free(r);
}

static void answers(void **state)
{
	struct unit_volume *u = *state;
	struct stet_file *file, *reader;
	char text[10000] = "x";
	struct stet_stat st;

	OK(stet_openat(u->vol, NULL, STET_ROOT, "f", O_RDWR | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, text, sizeof(text), 0), sizeof(text));
	FAILS(-EINVAL, stet_fallocate(file, 0, 0, 0));
	FAILS(-EINVAL, stet_fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 1, 4096));
	FAILS(-EINVAL, stet_fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4095));
	FAILS(-EINVAL, stet_fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 4096, 8192));
	FAILS(-EINVAL, stet_fallocate(file, FALLOC_FL_INSERT_RANGE, 12288, 4096));
	FAILS(-EFBIG, stet_fallocate(file, FALLOC_FL_INSERT_RANGE, 0, INT64_MAX / 4096 * 4096));
	FAILS(-EOPNOTSUPP,
	      stet_fallocate(file, FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	FAILS(-EFBIG, stet_fallocate(file, 0, INT64_MAX, 1));
	FAILS(-ENOSPC, stet_fallocate(file, 0, 0, UNIT_DEVICE_BYTES));
	FAILS(-ENOSPC, stet_fallocate(file, FALLOC_FL_KEEP_SIZE, 1 << 20, UNIT_DEVICE_BYTES));
	OK(stet_fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 1 << 20));
	OK(stet_file_stat(file, &st));
	assert_int_equal(st.size, sizeof(text));
	OK(stet_fallocate(file, 0, 0, 1 << 20));
	OK(stet_file_stat(file, &st));
	assert_int_equal(st.size, 1 << 20);
	OK(stet_openat(u->vol, NULL, STET_ROOT, "f", O_RDONLY, 0, &reader));
	FAILS(-EBADF, stet_fallocate(reader, 0, 0, 10));
	stet_file_close(reader);
	stet_file_close(file);
	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "d", 0755));
	uint64_t ino = unit_ino(u->vol, NULL, "d");
	FAILS(-EISDIR, stet_ll_fallocate(u->local, NULL, ino, 0, 0, 10, 0));
	FAILS(-EISDIR, stet_ll_fallocate(u->local, NULL, ino, FALLOC_FL_KEEP_SIZE, 0, 10, 0));
	FAILS(-EISDIR, stet_ll_fallocate(u->local, NULL, ino, FALLOC_FL_INSERT_RANGE, 0, 4096, 0));
}

/* A transaction that has the file keeps a plain one out; what it has changed since is a conflict. */
static void conflicts(void **state)
{
	struct unit_volume *u = *state;
	struct stet_file *file, *mine;
	struct stet_txn *txn;
	char text[10000] = "x";

	OK(stet_openat(u->vol, NULL, STET_ROOT, "f", O_RDWR | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, text, sizeof(text), 0), sizeof(text));
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(stet_openat(u->vol, txn, STET_ROOT, "f", O_RDWR, 0, &mine));
	OK(stet_fallocate(file, FALLOC_FL_INSERT_RANGE, 0, 4096));
	FAILS(-EBUSY, stet_fallocate(mine, FALLOC_FL_INSERT_RANGE, 0, 4096));
	stet_file_close(mine);
	stet_abort(txn);
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(stet_openat(u->vol, txn, STET_ROOT, "f", O_RDWR, 0, &mine));
	OK(stet_fallocate(mine, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
	uint64_t ino = stet_file_ino(file);
	FAILS(-EBUSY, stet_ll_fallocate(u->local, NULL, ino, FALLOC_FL_COLLAPSE_RANGE, 0, 4096,
					STET_LL_NOWAIT));
	stet_file_close(mine);
	OK(stet_commit(txn, 0));
	assert_int_equal(stet_pread(file, text, 1, 0), 1);
	assert_int_equal(text[0], 'x');
	stet_file_close(file);
}

/* Pieces all over a file of a pebibyte, more than are looked at at a time, move up and down again. */
static void far_apart(void **state)
{
	struct unit_volume *u = *state;
	const uint64_t step = UINT64_C(1) << 42, by = 5 * 4096, pieces = 256;
	struct stet_file *file;
	struct stet_stat st;
	char buf[32];

	OK(stet_openat(u->vol, NULL, STET_ROOT, "far", O_RDWR | O_CREAT, 0644, &file));
	for (uint64_t i = 0; i < pieces; i++)
		assert_int_equal(stet_pwrite(file, &i, sizeof(i), i * step + i % 7), sizeof(i));
	OK(stet_file_stat(file, &st));
	OK(stet_fallocate(file, FALLOC_FL_INSERT_RANGE, 4096, by));
	for (uint64_t i = 0; i < pieces; i++) {
		uint64_t at = i * step + i % 7;

		assert_int_equal(stet_pread(file, buf, sizeof(i), i ? at + by : at), sizeof(i));
		assert_memory_equal(buf, &i, sizeof(i));
	}
	OK(stet_fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 4096, by));
	for (uint64_t i = 0; i < pieces; i++) {
		assert_int_equal(stet_pread(file, buf, sizeof(i), i * step + i % 7), sizeof(i));
		assert_memory_equal(buf, &i, sizeof(i));
	}
	struct stet_stat now;
	OK(stet_file_stat(file, &now));
	assert_int_equal(now.size, st.size);
	assert_int_equal(now.blocks, st.blocks);
	stet_file_close(file);
}

/* --- no room --- */

#define MIB ((size_t)1 << 20)
#define MOVED_MIB 10u

/* Takes room until there is not enough to write the file a second time. */
static void take_room(struct unit_volume *u, const uint8_t *bytes)
{
	struct stet_file *most;
	struct stet_statfs fs;
	uint64_t end = 0;

	OK(stet_openat(u->vol, NULL, STET_ROOT, "most", O_RDWR | O_CREAT, 0644, &most));
	for (unsigned i = 0; i < 4; i++) { /* what comes back with a checkpoint, too */
		unit_checkpoint(u->local);
		OK(stet_statfs(u->vol, &fs));
		while (fs.avail_bytes > MOVED_MIB / 2 * MIB + MIB) {
			assert_int_equal(stet_pwrite(most, bytes, MIB, end), MIB);
			end += MIB;
			OK(stet_statfs(u->vol, &fs));
		}
	}
	stet_file_close(most);
}

static void expect_bytes(struct stet_file *file, const uint8_t *bytes, uint8_t *back)
{
	assert_int_equal(stet_pread(file, back, MOVED_MIB * MIB + 1, 0), MOVED_MIB * MIB);
	assert_memory_equal(back, bytes, MOVED_MIB * MIB);
}

/* Where there is no room to move all of it, nothing is moved, and that is said. */
static void no_room_to_move(void **state)
{
	static const int mode[] = { FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE };
	struct unit_volume *u = *state;
	uint8_t *bytes = malloc(MOVED_MIB * MIB), *back = malloc(MOVED_MIB * MIB + 1);
	struct stet_file *file, *inside;
	struct stet_txn *txn;

	assert_non_null(bytes);
	assert_non_null(back);
	for (size_t i = 0; i < MOVED_MIB * MIB; i++)
		bytes[i] = (uint8_t)(i * 31 + i / BLOCK);
	OK(stet_openat(u->vol, NULL, STET_ROOT, "moved", O_RDWR | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, bytes, MOVED_MIB * MIB, 0), MOVED_MIB * MIB);
	take_room(u, bytes);
	for (unsigned i = 0; i < 2; i++) {
		FAILS(-ENOSPC, stet_fallocate(file, mode[i], BLOCK, BLOCK));
		expect_bytes(file, bytes, back);
		OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
		OK(stet_openat(u->vol, txn, STET_ROOT, "moved", O_RDWR, 0, &inside));
		FAILS(-ENOSPC, stet_fallocate(inside, mode[i], BLOCK, BLOCK));
		stet_file_close(inside);
		stet_abort(txn);
		expect_bytes(file, bytes, back);
	}
	stet_file_close(file);
	free(bytes);
	free(back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answers, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(conflicts, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(random_plain, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(random_transactions, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(crash, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(far_apart, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(no_room_to_move, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/fallocate", tests, NULL, NULL);
}
