/* test_txn.c - transactions: isolation, conflicts, ends, handles that outlive them. */
#include "api_unit.h"

#include <unistd.h>

static void commit_makes_visible(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn = unit_begin(vol, 0);

	unit_write(vol, txn, "a", "one");
	unit_write(vol, txn, "b", "two");
	OK(stet_mkdirat(vol, txn, STET_ROOT, "d", 0755));
	OK(stet_renameat(vol, txn, STET_ROOT, "b", STET_ROOT, "d/b", 0));
	unit_expect(vol, txn, "d/b", "two");
	unit_expect_none(vol, NULL, "a");
	unit_expect_none(vol, NULL, "d");
	OK(stet_commit(txn, 0));
	unit_expect(vol, NULL, "a", "one");
	unit_expect(vol, NULL, "d/b", "two");
}

static void abort_leaves_nothing(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn;

	unit_write(vol, NULL, "a", "old");
	txn = unit_begin(vol, 0);
	unit_write(vol, txn, "a", "new");
	unit_write(vol, txn, "b", "new");
	OK(stet_unlinkat(vol, txn, STET_ROOT, "a", 0));
	unit_expect_none(vol, txn, "a");
	stet_abort(txn);
	unit_expect(vol, NULL, "a", "old");
	unit_expect_none(vol, NULL, "b");
	stet_abort(NULL);
}

static void snapshot_reads_stay(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn;

	unit_write(vol, NULL, "a", "old");
	txn = unit_begin(vol, STET_BEGIN_READ_ONLY);
	unit_write(vol, NULL, "a", "new");
	unit_write(vol, NULL, "b", "new");
	unit_expect(vol, txn, "a", "old");
	unit_expect_none(vol, txn, "b");
	FAILS(-EROFS, stet_mkdirat(vol, txn, STET_ROOT, "d", 0755));
	OK(stet_commit(txn, 0));
}

static void first_updater_wins(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn;
	struct stet_file *file;
	char text[256];
	int rc;

	unit_write(vol, NULL, "a", "old");
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	OK(stet_openat(vol, txn, STET_ROOT, "a", O_RDWR, 0, &file));
	unit_write(vol, NULL, "a", "other");
	rc = (int)stet_pwrite(file, "mine", 4, 0);
	if (rc == 4)
		rc = stet_commit(txn, 0);
	assert_int_equal(rc, -EBUSY);
	assert_true(stet_conflict_text(txn, text, sizeof(text)) > 0);
	assert_true(strlen(text) > 0);
	stet_file_close(file);
	stet_abort(txn);
	unit_expect(vol, NULL, "a", "other");
}

/* Write skew: each reads what the other writes. */
static void serializable_stops_write_skew(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *one, *two;
	char text[64];

	unit_write(vol, NULL, "a", "1");
	unit_write(vol, NULL, "b", "1");
	one = unit_begin(vol, 0);
	two = unit_begin(vol, STET_BEGIN_SERIALIZABLE);
	unit_expect(vol, one, "a", "1");
	unit_expect(vol, two, "b", "1");
	unit_write(vol, one, "b", "0");
	unit_write(vol, two, "a", "0");
	OK(stet_commit(one, 0));
	FAILS(-EBUSY, stet_commit(two, 0));
	assert_true(stet_conflict_text(two, text, sizeof(text)) > 0);
	assert_true(strlen(text) < sizeof(text)); /* cut to fit */
	FAILS(-EAGAIN, stet_mkdirat(vol, two, STET_ROOT, "x", 0755));
	FAILS(-EAGAIN, stet_commit(two, 0));
	stet_abort(two);
	unit_expect(vol, NULL, "a", "1");
	unit_expect(vol, NULL, "b", "0");
}

/* Two transactions make different names in one directory: no conflict. */
static void names_commute(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *one = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	struct stet_txn *two = unit_begin(vol, STET_BEGIN_SNAPSHOT);

	unit_write(vol, one, "a", "1");
	unit_write(vol, two, "b", "2");
	unit_write(vol, NULL, "c", "3");
	OK(stet_commit(one, 0));
	OK(stet_commit(two, STET_COMMIT_NOSYNC));
	unit_expect(vol, NULL, "a", "1");
	unit_expect(vol, NULL, "b", "2");
	unit_expect(vol, NULL, "c", "3");
}

static void appends_commute(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn[2];
	struct stet_stat st;

	unit_write(vol, NULL, "log", "0;");
	for (int i = 0; i < 2; i++) {
		struct stet_file *file;

		txn[i] = unit_begin(vol, STET_BEGIN_SNAPSHOT);
		OK(stet_openat(vol, txn[i], STET_ROOT, "log", O_WRONLY | O_APPEND, 0, &file));
		assert_int_equal(stet_append(file, "12;", 3), 3);
		stet_file_close(file);
	}
	OK(stet_commit(txn[0], 0));
	OK(stet_commit(txn[1], 0));
	OK(stet_statat(vol, NULL, STET_ROOT, "log", 0, &st));
	assert_int_equal(st.size, 8);
	unit_expect(vol, NULL, "log", "0;12;12;");
}

static void handles_outlive_their_transaction(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn = unit_begin(vol, 0);
	struct stet_dir_entry entry;
	struct stet_file *file;
	struct stet_dir *it;
	char buf[4];

	unit_write(vol, txn, "a", "x");
	OK(stet_openat(vol, txn, STET_ROOT, "a", O_RDWR, 0, &file));
	OK(stet_dir_open(vol, txn, STET_ROOT, "", NULL, &it));
	OK(stet_commit(txn, 0));
	FAILS(-ESTALE, stet_pread(file, buf, 1, 0));
	FAILS(-ESTALE, stet_pwrite(file, buf, 1, 0));
	FAILS(-ESTALE, stet_fsync(file));
	FAILS(-ESTALE, stet_dir_next(it, &entry));
	stet_file_close(file);
	stet_dir_close(it);
}

static int collect(void *arg, const struct stet_txn_entry *entry)
{
	struct stet_txn_entry *list = arg;
	size_t i = 0;

	while (list[i].id)
		i++;
	list[i] = *entry;
	return 0;
}

/* What others delete stays while somebody may still read it: txns says who is to blame. */
static void pinned(void **state)
{
	struct unit_volume *u = *state;
	struct stet_volume *vol = u->vol;
	struct stet_txn_entry list[4] = { 0 };
	static char big[1 << 20];
	struct stet_file *file;

	OK(stet_openat(vol, NULL, STET_ROOT, "big", O_WRONLY | O_CREAT, 0644, &file));
	assert_int_equal(stet_pwrite(file, big, sizeof(big), 0), sizeof(big));
	stet_file_close(file);
	unit_checkpoint(u->local);
	struct stet_txn *older = unit_begin(vol, STET_BEGIN_READ_ONLY);
	struct stet_txn *newer = unit_begin(vol, STET_BEGIN_READ_ONLY);

	OK(stet_unlinkat(vol, NULL, STET_ROOT, "big", 0));
	for (int i = 0; i < 4; i++) {
		unit_write(vol, NULL, "other", "x");
		unit_checkpoint(u->local);
	}
	OK(stet_txns(vol, collect, list));
	assert_true(list[0].pinned_bytes >= sizeof(big));
	assert_true(list[1].pinned_bytes < sizeof(big));
	stet_abort(older);
	unit_write(vol, NULL, "other", "y");
	unit_checkpoint(u->local);
	memset(list, 0, sizeof(list));
	OK(stet_txns(vol, collect, list));
	assert_int_equal(list[0].id, stet_transaction_id(newer));
	assert_true(list[0].pinned_bytes >= sizeof(big));
	stet_abort(newer);
}

/* What a transaction that has ended held is there again for whoever needs it. */
static void room_comes_back(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	static char mib[1 << 20];
	struct stet_file *file;
	ssize_t n = 0;

	OK(stet_openat(vol, NULL, STET_ROOT, "big", O_WRONLY | O_CREAT, 0644, &file));
	for (uint64_t i = 0; i < 28; i++)
		assert_int_equal(stet_pwrite(file, mib, sizeof(mib), i << 20), sizeof(mib));
	struct stet_txn *txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);

	unit_write(vol, txn, "other", "so that it is not taken for a reader");
	for (uint64_t i = 0; i < 200 && n >= 0; i++) /* the old blocks are its view's */
		n = stet_pwrite(file, mib, sizeof(mib), i % 28 << 20);
	assert_int_equal(n, -ENOSPC);
	stet_abort(txn);
	for (uint64_t i = 0; i < 40; i++)
		assert_int_equal(stet_pwrite(file, mib, sizeof(mib), i % 28 << 20), sizeof(mib));
	stet_file_close(file);
}

/* A transaction that has only read loses its view before anybody is refused room. */
static void readers_give_way(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	static char mib[1 << 20];
	struct stet_file *file;
	struct stet_stat st;

	OK(stet_openat(vol, NULL, STET_ROOT, "big", O_WRONLY | O_CREAT, 0644, &file));
	for (uint64_t i = 0; i < 28; i++)
		assert_int_equal(stet_pwrite(file, mib, sizeof(mib), i << 20), sizeof(mib));
	struct stet_txn *txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);

	OK(stet_statat(vol, txn, STET_ROOT, "big", 0, &st));
	for (uint64_t i = 0; i < 80; i++)
		assert_int_equal(stet_pwrite(file, mib, sizeof(mib), i % 28 << 20), sizeof(mib));
	FAILS(-ESTALE, stet_mkdirat(vol, txn, STET_ROOT, "d", 0755));
	stet_abort(txn);
	stet_file_close(file);
}

static void limits(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_ll_limits some = { .max_age_ms = 100, .max_staged_bytes = 64 << 10 };
	struct stet_ll_who who = { .uid = 12, .gid = 13, .pid = 14 };
	struct stet_txn_entry list[4] = { 0 };
	static char big[128 << 10];
	struct stet_file *file;
	struct stet_txn *ours, *his, *waits;

	if (unit_is_remote())
		skip(); /* it acts for a user in its own thread */
	ours = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	OK(stet_openat(vol, ours, STET_ROOT, "f", O_WRONLY | O_CREAT, 0644, &file));
	OK(stet_ll_set_limits(vol, &some));
	assert_int_equal(stet_pwrite(file, big, sizeof(big), 0), sizeof(big));
	FAILS(-EDQUOT, stet_pwrite(file, big, 1, 0));
	FAILS(-EDQUOT, stet_mkdirat(vol, ours, STET_ROOT, "d", 0755));
	stet_ll_act_as(&who);
	his = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	stet_ll_act_as(NULL);
	OK(stet_mkdirat(vol, his, STET_ROOT, "e", 0755));
	OK(stet_txns(vol, collect, list));
	assert_int_equal(list[1].uid, 12);
	assert_int_equal(list[1].pid, 14);
	assert_true(list[1].for_user);
	assert_false(list[0].for_user);
	assert_int_equal(list[0].uid, geteuid());
	/* Its lock goes with it, so who waits is let through. */
	waits = unit_begin(vol, STET_BEGIN_LOCKING);
	OK(stet_mkdirat(vol, waits, STET_ROOT, "e", 0755));
	FAILS(-ESTALE, stet_mkdirat(vol, his, STET_ROOT, "g", 0755));
	FAILS(-ESTALE, stet_commit(his, 0));
	stet_abort(his);
	OK(stet_commit(waits, 0));
	/* So it does after a commit that was refused. */
	stet_ll_act_as(&who);
	his = unit_begin(vol, STET_BEGIN_SERIALIZABLE);
	stet_ll_act_as(NULL);
	OK(stet_mkdirat(vol, his, STET_ROOT, "h", 0755));
	unit_expect_none(vol, his, "i");
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "i", 0755));
	FAILS(-EBUSY, stet_commit(his, 0));
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "h", 0755)); /* waits for it */
	stet_abort(his);
	unit_sleep_ms(150);
	stet_file_close(file);
	OK(stet_commit(ours, 0));
}

#define MANY 8000 /* more than the limits of these tests let pass */

/* Names that are not there. How many could be looked up before the limit. */
static unsigned look_up_many(struct stet_volume *vol, struct stet_txn *txn)
{
	struct stet_stat st;
	char name[32];

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "none%u", i);
		int rc = stet_statat(vol, txn, STET_ROOT, name, 0, &st);

		if (rc == -EDQUOT)
			return i;
		assert_int_equal(rc, -ENOENT);
	}
	return MANY;
}

static unsigned make_many(struct stet_volume *vol, struct stet_txn *txn, char first)
{
	char name[32];

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "%c%u", first, i);
		int rc = stet_mknodat(vol, txn, STET_ROOT, name, S_IFIFO | 0600, 0);

		if (rc == -EDQUOT)
			return i;
		OK(rc);
	}
	return MANY;
}

static unsigned save_many(struct stet_volume *vol, struct stet_txn *txn)
{
	uint64_t id;

	OK(stet_mkdirat(vol, txn, STET_ROOT, "changes", 0755));
	for (unsigned i = 0; i < MANY; i++) {
		struct stet_setattr attr = { .set = STET_SET_MODE, .mode = i & 0777 };
		int rc = stet_setattrat(vol, txn, STET_ROOT, "changes", 0, &attr);

		if (!rc)
			rc = stet_savepoint(txn, &id);
		if (rc == -EDQUOT)
			return i;
		OK(rc);
	}
	return MANY;
}

/* Locks, by reading too, and savepoints count as what is staged does. */
static void locks_are_limited(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_ll_limits some = { .max_staged_bytes = 512 << 10 };
	struct stet_txn *txn;
	unsigned n;

	if (unit_is_remote())
		skip(); /* limits are set by the serving side */
	OK(stet_ll_set_limits(vol, &some));
	txn = unit_begin(vol, STET_BEGIN_LOCKING | STET_BEGIN_READ_ONLY);
	n = look_up_many(vol, txn);
	assert_in_range(n, 1000, MANY - 1);
	assert_non_null(strstr(stet_error_text(), "locks"));
	OK(stet_commit(txn, 0));
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT | STET_BEGIN_READ_ONLY); /* locks nothing */
	assert_int_equal(look_up_many(vol, txn), MANY);
	stet_abort(txn);
	txn = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	assert_in_range(save_many(vol, txn), 1000, MANY - 1);
	stet_abort(txn);
}

/* All transactions of one user together; others, and who runs it all, are not concerned. */
static void what_a_user_may_hold(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_ll_limits some = { .max_held_bytes = 256 << 10 };
	struct stet_ll_who who = { .uid = geteuid() + 12, .gid = 13, .pid = 14 };
	struct stet_txn *one, *two, *of_another, *ours;
	unsigned n, m;

	if (unit_is_remote())
		skip();
	OK(stet_ll_set_limits(vol, &some));
	stet_ll_act_as(&who);
	one = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	stet_ll_act_as(NULL);
	two = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	stet_ll_set_user(two, who.uid);
	of_another = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	stet_ll_set_user(of_another, who.uid + 1);
	ours = unit_begin(vol, STET_BEGIN_SNAPSHOT);

	n = make_many(vol, one, 'a');
	assert_in_range(n, 2000, MANY - 1);
	m = make_many(vol, two, 'b');
	assert_in_range(m, 0, 2000);
	assert_non_null(strstr(stet_error_text(), "user"));
	assert_in_range(make_many(vol, of_another, 'c'), 2000, MANY - 1);
	FAILS(-EDQUOT, stet_mkdirat(vol, one, STET_ROOT, "d", 0755));
	OK(stet_commit(one, 0)); /* it may be committed, and then there is room again */
	assert_in_range(make_many(vol, two, 'd'), 2000, MANY - 1);
	assert_int_equal(make_many(vol, ours, 'e'), MANY);
	stet_abort(two);
	stet_abort(of_another);
	stet_abort(ours);
}

static void listing(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn_entry list[4] = { 0 };
	struct stet_txn *one = unit_begin(vol, STET_BEGIN_SNAPSHOT);
	struct stet_txn *two = unit_begin(vol, STET_BEGIN_READ_ONLY);

	unit_write(vol, one, "a", "x");
	OK(stet_txns(vol, collect, list));
	assert_int_equal(list[0].id, stet_transaction_id(one));
	assert_int_equal(list[1].id, stet_transaction_id(two));
	assert_int_equal(list[2].id, 0);
	assert_int_equal(list[0].flags, STET_BEGIN_SNAPSHOT);
	assert_int_equal(list[1].flags, STET_BEGIN_SNAPSHOT | STET_BEGIN_READ_ONLY);
	assert_true(list[0].staged_bytes > 0);
	FAILS(-EBUSY, stet_close(vol));
	stet_abort(one);
	stet_abort(two);
	FAILS(-EINVAL, stet_begin(vol, STET_BEGIN_SNAPSHOT | STET_BEGIN_LOCKING, &one));
	FAILS(-EINVAL, stet_begin(vol, 0x8000, &one));
}

/* More than a transaction's share of memory: it spills, and is still whole. */
static void large_transaction(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *txn = unit_begin(u->vol, 0);
	struct stet_file *file;
	static char chunk[1 << 20];
	char name[32], back[64];

	for (int i = 0; i < 20; i++) {
		memset(chunk, 'a' + i, sizeof(chunk));
		snprintf(name, sizeof(name), "f%d", i);
		OK(stet_openat(u->vol, txn, STET_ROOT, name, O_WRONLY | O_CREAT, 0644, &file));
		assert_int_equal(stet_pwrite(file, chunk, sizeof(chunk), 0), sizeof(chunk));
		stet_file_close(file);
	}
	unit_expect_none(u->vol, NULL, "f0");
	OK(stet_commit(txn, 0));
	unit_reopen(u, true);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(stet_openat(u->vol, NULL, STET_ROOT, name, O_RDONLY, 0, &file));
		assert_int_equal(stet_pread(file, back, sizeof(back), (1 << 20) - 64), 64);
		assert_int_equal(back[0], 'a' + i);
		assert_int_equal(back[63], 'a' + i);
		stet_file_close(file);
	}
}

/* What a transaction takes away stays in memory; it does not spill for that again and again. */
static void many_unlinks(void **state)
{
	struct unit_volume *u = *state;
	struct stet_open_options options = { .cache_bytes = 4 << 20 };
	struct stet_txn *txn;
	char name[32];

	unit_close(u);
	unit_open(u, &options);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		unit_write(u->vol, NULL, name, name);
	}
	txn = unit_begin(u->vol, 0);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		OK(stet_unlinkat(u->vol, txn, STET_ROOT, name, 0));
	}
	assert_true(unit_counter(u->vol, "spills") < 50);
	OK(stet_commit(txn, 0));
	unit_expect_none(u->vol, NULL, "f0");
	unit_expect_none(u->vol, NULL, "f4999");
}

/* Transactions that stay open while much changes: each keeps its state, and none slows the others down. */
static void old_views(void **state)
{
	struct unit_volume *u = *state;
	struct stet_open_options options = { .cache_bytes = 4 << 20 };
	struct stet_txn *txn[8];
	char name[32], text[32];

	unit_close(u);
	unit_open(u, &options);
	for (int t = 0; t < 8; t++) {
		for (int i = 0; i < 2500; i++) {
			snprintf(name, sizeof(name), "f%d", i);
			snprintf(text, sizeof(text), "%d of %d", i, t);
			unit_write(u->vol, NULL, name, text);
		}
		txn[t] = unit_begin(u->vol, 0);
	}
	assert_true(unit_counter(u->vol, "checkpoints") < 200);
	for (int t = 0; t < 8; t++) {
		for (int i = 0; i < 2500; i += 13) {
			snprintf(name, sizeof(name), "f%d", i);
			snprintf(text, sizeof(text), "%d of %d", i, t);
			unit_expect(u->vol, txn[t], name, text);
		}
		stet_abort(txn[t]);
	}
}

/* What is read without end is not remembered without end: then any change by others is in the way. */
static void reads_are_bounded(void **state)
{
	if (unit_is_remote())
		skip(); /* takes long, and is no matter of the connection */

	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *few = unit_begin(vol, STET_BEGIN_SERIALIZABLE);
	struct stet_txn *many = unit_begin(vol, STET_BEGIN_SERIALIZABLE);
	struct stet_txn *alone;
	struct stet_stat st;
	char name[32], text[256];

	for (unsigned i = 0; i < 400000; i++) {
		snprintf(name, sizeof(name), "name-%u", i);
		FAILS(-ENOENT, stet_statat(vol, many, STET_ROOT, name, 0, &st));
		if (i < 100)
			FAILS(-ENOENT, stet_statat(vol, few, STET_ROOT, name, 0, &st));
	}
	OK(stet_mkdirat(vol, few, STET_ROOT, "few", 0755));
	OK(stet_mkdirat(vol, many, STET_ROOT, "many", 0755));
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "unrelated", 0755));
	OK(stet_commit(few, 0));
	FAILS(-EBUSY, stet_commit(many, 0));
	stet_conflict_text(many, text, sizeof(text));
	assert_non_null(strstr(text, "more was read than is remembered"));
	stet_abort(many);
	alone = unit_begin(vol, STET_BEGIN_SERIALIZABLE);
	for (unsigned i = 0; i < 400000; i++) {
		snprintf(name, sizeof(name), "name-%u", i);
		FAILS(-ENOENT, stet_statat(vol, alone, STET_ROOT, name, 0, &st));
	}
	OK(stet_mkdirat(vol, alone, STET_ROOT, "alone", 0755));
	OK(stet_commit(alone, 0));
}

/// Lost updates by way of names ///

/* What one writes, another removes or replaces, both from the same state: whoever is second is refused,
 * though the inode lives on, held open. */
static void change_and_remove(struct unit_volume *u, bool change_first, bool replace, bool plain)
{
	struct stet_txn *changer, *remover = NULL;
	uint64_t ino;

	unit_write(u->vol, NULL, "f", "before");
	ino = unit_ino(u->vol, NULL, "f");
	OK(stet_ll_hold(u->local, ino));
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &changer));
	if (!plain)
		OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &remover));
	unit_write(u->vol, changer, "f", "changed");
	if (replace) {
		unit_write(u->vol, remover, "new", "replaced");
		OK(stet_renameat(u->vol, remover, STET_ROOT, "new", STET_ROOT, "f", 0));
	} else {
		OK(stet_unlinkat(u->vol, remover, STET_ROOT, "f", 0));
	}
	if (change_first) {
		OK(stet_commit(changer, 0));
		FAILS(-EBUSY, stet_commit(remover, 0));
		stet_abort(remover);
		unit_expect(u->vol, NULL, "f", "changed");
	} else {
		if (!plain)
			OK(stet_commit(remover, 0));
		FAILS(-EBUSY, stet_commit(changer, 0));
		stet_abort(changer);
		if (replace)
			unit_expect(u->vol, NULL, "f", "replaced");
		else
			unit_expect_none(u->vol, NULL, "f");
	}
	stet_ll_unhold(u->local, ino, 1);
}

static void no_update_is_lost(void **state)
{
	struct unit_volume *u = *state;

	for (unsigned i = 0; i < 4; i++)
		change_and_remove(u, i & 1, i & 2, false);
	change_and_remove(u, false, false, true);
	change_and_remove(u, false, true, true);
}

/* Attributes too; and what was nameless from the start may be changed by who has it open. */
static void removed_before_and_after(void **state)
{
	struct unit_volume *u = *state;
	struct stet_setattr set = { .set = STET_SET_MODE, .mode = 0600 };
	struct stet_txn *txn;
	uint64_t ino;

	if (unit_is_remote())
		skip(); /* it changes by inode number, in a transaction */
	unit_write(u->vol, NULL, "f", "text");
	ino = unit_ino(u->vol, NULL, "f");
	OK(stet_ll_hold(u->local, ino));
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(stet_ll_setattr(u->vol, txn, ino, &set, 0, NULL));
	OK(stet_unlinkat(u->vol, NULL, STET_ROOT, "f", 0));
	FAILS(-EBUSY, stet_commit(txn, 0));
	stet_abort(txn);
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(stet_ll_setattr(u->vol, txn, ino, &set, 0, NULL));
	OK(stet_commit(txn, 0));
	stet_ll_unhold(u->local, ino, 1);
}

/* One of two names may go whatever happens to the content, which the other name keeps. */
static void one_of_two_names(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *txn;

	unit_write(u->vol, NULL, "f", "text");
	OK(stet_linkat(u->vol, NULL, STET_ROOT, "f", STET_ROOT, "g", 0));
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(stet_unlinkat(u->vol, txn, STET_ROOT, "f", 0));
	unit_write(u->vol, NULL, "g", "changed");
	OK(stet_commit(txn, 0));
	unit_expect_none(u->vol, NULL, "f");
	unit_expect(u->vol, NULL, "g", "changed");
}

/* --- what is moved under a view --- */

#define RECORDS 6000u

static void put_records(struct stet_table *table, unsigned step)
{
	static const char value[1000];
	char key[16];

	for (unsigned i = 0; i < RECORDS; i += step) {
		snprintf(key, sizeof(key), "%08u", i);
		OK(stet_put(table, NULL, key, 8, value, sizeof(value), 0));
	}
}

static void count_records(struct stet_table *table, struct stet_txn *txn)
{
	struct stet_cursor *cursor;
	struct stet_record record;
	unsigned n = 0;
	int rc;

	OK(stet_cursor_open(table, txn, NULL, &cursor));
	while ((rc = stet_cursor_next(cursor, &record)) == 1)
		n++;
	OK(rc);
	assert_int_equal(n, RECORDS);
	stet_cursor_close(cursor);
}

/* The cleaner moves nodes, and checkpoints come, though nothing was changed since the transaction began: what it reads
 * is not used again. */
static void moved_nodes_stay_for_views(void **state)
{
	const struct stet_open_options small = { .cache_bytes = 4 << 20 };
	struct unit_volume *u = *state;
	struct stet_table *table;
	struct stet_txn *txn;

	unit_close(u);
	unit_open(u, &small);
	OK(stet_table_open(u->vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT, 0644, &table));
	put_records(table, 1);
	unit_checkpoint(u->local);
	put_records(table, 100); /* leaves dead nodes between those that live */
	unit_checkpoint(u->local);
	unit_checkpoint(u->local);
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, &txn));
	for (unsigned i = 0; i < 6; i++) {
		stet_ignore(stet_clean(u->vol, 60), "how many does not matter");
		unit_checkpoint(u->local);
	}
	count_records(table, txn);
	stet_abort(txn);
	count_records(table, NULL);
	stet_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(commit_makes_visible, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(abort_leaves_nothing, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(snapshot_reads_stay, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(first_updater_wins, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(serializable_stops_write_skew, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(names_commute, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(appends_commute, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(handles_outlive_their_transaction, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(pinned, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(room_comes_back, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(readers_give_way, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(limits, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(locks_are_limited, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(what_a_user_may_hold, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(listing, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(large_transaction, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(many_unlinks, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(old_views, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(reads_are_bounded, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(no_update_is_lost, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(removed_before_and_after, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(one_of_two_names, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(moved_nodes_stay_for_views, unit_set_up,
						unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/txn", tests, NULL, NULL);
}
