/* test_orphan.c - files that are open without a name, reclaim in steps, truncations that are worked
 * off. */
#include "unit.h"

#define SPARSE 600 /* single blocks, one extent each */

static uint64_t make(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name)
{
	uint64_t ino = 0;

	assert_int_equal(unit_make(u, txn, dir, name, S_IFREG | 0600, &ino), 0);
	return ino;
}

/* A file of many extents: every other block has one. */
static uint64_t make_sparse(struct unit *u, const char *name)
{
	uint64_t ino = make(u, NULL, 1, name);
	char block[STET_BLOCK_SIZE];

	memset(block, 's', sizeof(block));
	for (uint64_t i = 0; i < SPARSE; i++)
		assert_int_equal(unit_write(u, NULL, ino, i * 2 * BLOCK, block, sizeof(block)), 0);
	return ino;
}

static uint64_t blocks_of(struct unit *u, struct stet_txn *txn, uint64_t ino)
{
	struct stet_fs_attr attr;

	assert_int_equal(unit_getattr(u, txn, ino, &attr), 0);
	return attr.blocks512 / 8;
}

static bool exists(struct unit *u, uint64_t ino)
{
	struct stet_fs_attr attr;

	return unit_getattr(u, NULL, ino, &attr) == 0;
}

static uint64_t catalog_items(struct unit *u)
{
	struct stet_key from = { .bytes = 1 }, to = { .bytes = 8 }, key;
	struct stet_scan *scan;
	struct stet_txn *txn;
	struct stet_val val;
	uint64_t n = 0;

	memset(to.b, 0xff, 8);
	assert_int_equal(stet_txn_begin(u->engine, STET_LEVEL_PLAIN, true, &txn), 0);
	assert_int_equal(stet_scan_open(txn, &from, &to, &scan), 0);
	while (stet_scan_next(scan, &key, &val) == 1)
		n++;
	stet_scan_close(scan);
	stet_txn_end(txn);
	return n;
}

static void test_open(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f"), g;
	char buf[8];

	(void)state;
	assert_int_equal(unit_write(u, NULL, f, 0, "alive", 5), 0);
	assert_int_equal(stet_fs_hold(u->fs, f), 0);
	assert_int_equal(stet_fs_hold(u->fs, f), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "f"), 0);
	unit_idle(u);
	assert_int_equal(unit_read(u, NULL, f, 0, buf, 5), 5);
	assert_memory_equal(buf, "alive", 5);
	assert_int_equal(unit_write(u, NULL, f, 5, "!", 1), 0);
	stet_fs_unhold(u->fs, f);
	unit_idle(u);
	assert_true(exists(u, f));
	stet_fs_unhold(u->fs, f);
	assert_int_equal(stet_fs_held_count(u->fs), 0);
	unit_idle(u);
	assert_false(exists(u, f));
	/* Open at a crash: found by the scan after it. */
	g = make(u, NULL, 1, "g");
	assert_int_equal(stet_fs_hold(u->fs, g), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "g"), 0);
	unit_idle(u);
	unit_reopen(u);
	assert_true(exists(u, g));
	unit_idle(u);
	assert_false(exists(u, g));
	assert_int_equal(catalog_items(u), 1);
	unit_destroy(u);
}

static void test_large(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make_sparse(u, "f");
	int steps = 0;

	(void)state;
	unit_flush(u, true);
	assert_int_equal(unit_xattr_set(u, NULL, f, "user.a", "1", 1, 0), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "f"), 0);
	while (stet_fs_wants_reclaim(u->fs)) {
		assert_int_equal(stet_fs_reclaim_step(u->fs, NULL), 1);
		unit_check(u);
		steps++;
		if (steps == 3)
			unit_reopen(u); /* goes on where it was */
	}
	assert_true(steps >= 3 && steps < 10);
	assert_int_equal(catalog_items(u), 1);
	unit_destroy(u);
}

/* Truncating many extents: at once for the size, in steps for the space; growing meanwhile
 * waits. */
static void test_truncate(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make_sparse(u, "f"), got;
	char buf[STET_BLOCK_SIZE];

	(void)state;
	unit_flush(u, true);
	assert_int_equal(unit_truncate(u, NULL, f, 5 * BLOCK), 0);
	assert_true(blocks_of(u, NULL, f) > 100);
	unit_check(u);
	unit_reopen(u);
	unit_check(u);
	u->waits = 0;
	assert_int_equal(unit_write(u, NULL, f, 100 * BLOCK, "x", 1), 0);
	assert_true(u->waits > 0);
	assert_int_equal(blocks_of(u, NULL, f), 4);
	assert_int_equal(unit_seek(u, NULL, f, 5 * BLOCK, false, &got), 0);
	assert_int_equal(got, 100 * BLOCK);
	assert_int_equal(unit_read(u, NULL, f, 6 * BLOCK, buf, sizeof(buf)), sizeof(buf));
	for (size_t i = 0; i < sizeof(buf); i++)
		assert_int_equal(buf[i], 0);
	unit_destroy(u);
}

/* A transaction cuts a large file, and grows it again or not. */
static void truncate_in_txn(enum stet_level level, bool grow, bool keep)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make_sparse(u, "f");
	struct stet_txn *txn;
	char buf[4096];

	unit_flush(u, true);
	txn = unit_begin(u, level);
	assert_int_equal(unit_write(u, txn, f, 700 * BLOCK, "mine", 4), 0);
	assert_int_equal(unit_truncate(u, txn, f, 3 * BLOCK + 10), 0);
	unit_flush(u, true);
	if (grow) {
		assert_int_equal(unit_write(u, txn, f, 500 * BLOCK, "again", 5), 0);
		assert_int_equal(unit_read(u, txn, f, 400 * BLOCK, buf, 4096), 4096);
		assert_int_equal(buf[0], 0);
		assert_int_equal(unit_read(u, txn, f, 500 * BLOCK, buf, 4096), 5);
		assert_memory_equal(buf, "again", 5);
	}
	if (!keep) {
		unit_end(txn);
		assert_int_equal(blocks_of(u, NULL, f), SPARSE);
		unit_destroy(u);
		return;
	}
	assert_int_equal(unit_order(u, txn), 0);
	unit_check(u);
	unit_idle(u);
	assert_int_equal(blocks_of(u, NULL, f), grow ? 3 : 2);
	unit_destroy(u);
}

static void test_truncate_txn(void **state)
{
	const enum stet_level levels[] = { STET_LEVEL_SNAPSHOT, STET_LEVEL_SERIALIZABLE,
					   STET_LEVEL_LOCKING };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		truncate_in_txn(levels[i], false, true);
		truncate_in_txn(levels[i], true, true);
		truncate_in_txn(levels[i], true, false);
	}
}

/* A transaction that began while a truncation is worked off, and changes the file. */
static void test_pending_txn(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make_sparse(u, "f"), g = make_sparse(u, "g");
	struct stet_txn *x, *y;

	(void)state;
	assert_int_equal(unit_truncate(u, NULL, f, 0), 0);
	assert_int_equal(unit_truncate(u, NULL, g, 0), 0);
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	y = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(unit_write(u, x, f, 50 * BLOCK, "x", 1), 0);
	unit_idle(u); /* keeps away from f, finishes g */
	unit_check(u);
	assert_int_equal(unit_write(u, y, g, 50 * BLOCK, "y", 1), -EBUSY);
	unit_end(y);
	assert_int_equal(unit_order(u, x), 0);
	unit_check(u);
	unit_idle(u);
	assert_int_equal(blocks_of(u, NULL, f), 1);
	assert_int_equal(blocks_of(u, NULL, g), 0);
	assert_int_equal(unit_write(u, NULL, g, 0, "small", 5), 0); /* inline again */
	assert_int_equal(blocks_of(u, NULL, g), 0);
	unit_destroy(u);
}

/* Reclaim waits for who holds the inode's existence, and is told when it may go on. */
static void test_wait(void **state)
{
	struct unit *u = unit_create(NULL);
	uint64_t f = make(u, NULL, 1, "f");
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	struct stet_ticket ticket;
	int rc;

	(void)state;
	assert_int_equal(unit_write(u, txn, f, 0, "x", 1), 0);
	assert_int_equal(unit_unlink(u, NULL, 1, "f"), 0);
	stet_ticket_init(&ticket, NULL, NULL);
	while ((rc = stet_fs_reclaim_step(u->fs, &ticket)) == 1)
		continue;
	assert_int_equal(rc, STET_WAIT);
	assert_false(ticket.fired);
	assert_int_equal(unit_order(u, txn), -EBUSY);
	assert_true(ticket.fired);
	unit_idle(u);
	assert_false(exists(u, f));
	unit_destroy(u);
}

/* O_TMPFILE: an orphan from the start. */
static void test_unnamed(void **state)
{
	const struct stet_fs_new what = { .mode = S_IFREG | 0600 };
	struct unit *u = unit_create(NULL);
	struct stet_fs_ctx ctx = { .fs = u->fs, .txn = unit_begin(u, STET_LEVEL_PLAIN) };
	struct stet_txn *txn;
	uint64_t ino, wait, in_txn;

	(void)state;
	assert_int_equal(stet_fs_make_unnamed(&ctx, &what, &ino), 0);
	assert_int_equal(stet_fs_hold(u->fs, ino), 0);
	assert_int_equal(stet_txn_order(ctx.txn, NULL, &wait), 0);
	unit_end(ctx.txn);
	assert_int_equal(unit_write(u, NULL, ino, 0, "tmp", 3), 0);
	unit_idle(u);
	assert_true(exists(u, ino));
	assert_int_equal(unit_link(u, NULL, ino, 1, "name"), -ENOENT);
	stet_fs_unhold(u->fs, ino);
	unit_idle(u);
	assert_false(exists(u, ino));
	txn = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	ctx.txn = txn;
	assert_int_equal(stet_fs_make_unnamed(&ctx, &what, &in_txn), 0);
	assert_int_equal(unit_write(u, txn, in_txn, 0, "tmp", 3), 0);
	assert_int_equal(unit_order(u, txn), 0);
	unit_check(u);
	unit_idle(u);
	assert_false(exists(u, in_txn));
	unit_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),        cmocka_unit_test(test_large),
		cmocka_unit_test(test_truncate),    cmocka_unit_test(test_truncate_txn),
		cmocka_unit_test(test_pending_txn), cmocka_unit_test(test_wait),
		cmocka_unit_test(test_unnamed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
