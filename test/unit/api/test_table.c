/* test_table.c - tables by the public interface: handles, records, cursors, transactions. */
#include "api_unit.h"

#include "base/mem.h"

#include <stdlib.h>

static struct stet_table *open_table(struct stet_volume *vol, struct stet_txn *txn,
				     const char *path)
{
	struct stet_table *table;

	OK(stet_table_open(vol, txn, STET_ROOT, path, O_RDWR | O_CREAT, 0644, &table));
	return table;
}

static int put(struct stet_table *table, struct stet_txn *txn, const char *key, const char *value)
{
	return stet_put(table, txn, key, strlen(key), value, strlen(value), 0);
}

static void expect(struct stet_table *table, struct stet_txn *txn, const char *key,
		   const char *value)
{
	char buf[256] = "";
	ssize_t n = stet_get(table, txn, key, strlen(key), buf, sizeof(buf), 0);

	if (!value) {
		FAILS(-ENOENT, n);
		return;
	}
	assert_int_equal(n, strlen(value));
	assert_string_equal(buf, value);
}

static int note(void *arg, const struct stet_record *record)
{
	char *out = arg;

	snprintf(out + strlen(out), 2000 - strlen(out), "%.*s=%.*s ", (int)record->key_len,
		 (const char *)record->key, (int)record->value_len,
		 record->value ? (const char *)record->value : "");
	return 0;
}

static void records(struct stet_table *table, struct stet_txn *txn,
		    const struct stet_bounds *bounds, const char *want)
{
	char out[2000] = "";
	uint64_t count, n = 0;

	OK(stet_scan(table, txn, bounds, note, out));
	assert_string_equal(out, want);
	for (const char *p = out; *p; p++)
		n += *p == ' ';
	OK(stet_count(table, txn, bounds, &count));
	assert_int_equal(count, n);
}

static void handles(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_table *t, *again;
	struct stet_file *file;
	struct stet_stat st;
	char buf[4];

	FAILS(-ENOENT, stet_table_open(vol, NULL, STET_ROOT, "t", O_RDWR, 0, &t));
	FAILS(-EINVAL, stet_table_open(vol, NULL, STET_ROOT, "t", O_WRONLY | O_CREAT, 0644, &t));
	FAILS(-EINVAL,
	      stet_table_open(vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT | O_TRUNC, 0644, &t));
	t = open_table(vol, NULL, "t");
	FAILS(-EEXIST,
	      stet_table_open(vol, NULL, STET_ROOT, "t", O_RDWR | O_CREAT | O_EXCL, 0, &again));
	unit_write(vol, NULL, "file", "x");
	OK(stet_symlinkat(vol, NULL, "t", STET_ROOT, "link"));
	FAILS(-EINVAL, stet_table_open(vol, NULL, STET_ROOT, "file", O_RDONLY, 0, &again));
	FAILS(-EINVAL, stet_table_open(vol, NULL, STET_ROOT, "", O_RDONLY, 0, &again));
	FAILS(-ELOOP,
	      stet_table_open(vol, NULL, STET_ROOT, "link", O_RDONLY | O_NOFOLLOW, 0, &again));
	OK(stet_table_open(vol, NULL, STET_ROOT, "link", O_RDONLY, 0, &again));
	assert_int_equal(stet_table_ino(t), stet_table_ino(again));
	FAILS(-EBADF, put(again, NULL, "a", "1"));
	FAILS(-EBADF, stet_del(again, NULL, "a", 1));
	OK(put(t, NULL, "a", "123"));
	expect(again, NULL, "a", "123");
	assert_int_equal(stet_get(t, NULL, "a", 1, NULL, 0, 0), 3);
	FAILS(-ERANGE, stet_get(t, NULL, "a", 1, buf, 2, 0));
	FAILS(-EINVAL, stet_get(t, NULL, "a", 0, buf, 2, 0));
	FAILS(-EINVAL, stet_get(t, NULL, "a", 1, buf, 4, 0x80));
	FAILS(-EINVAL, stet_put(t, NULL, "a", 1, "x", 1, STET_PUT_CREATE | STET_PUT_REPLACE));
	OK(stet_statat(vol, NULL, STET_ROOT, "t", 0, &st));
	assert_int_equal(st.mode, STET_S_IFTABLE | 0644);
	assert_int_equal(st.size, 1);
	FAILS(-ENXIO, stet_openat(vol, NULL, STET_ROOT, "t", O_RDWR, 0, &file));
	FAILS(-ENXIO, stet_openat(vol, NULL, STET_ROOT, "t", O_RDWR | O_TRUNC, 0, &file));
	FAILS(-EBUSY, stet_close(vol));
	OK(stet_unlinkat(vol, NULL, STET_ROOT, "t", 0));
	expect(again, NULL, "a", "123");
	OK(put(t, NULL, "b", "4"));
	stet_table_close(t);
	expect(again, NULL, "b", "4");
	stet_table_close(again);
	stet_table_close(NULL);
}

/* Who may read or write a file may do so with a table. */
static void permissions(void **state)
{
	if (unit_is_remote())
		skip(); /* it acts for a user in its own thread */

	struct stet_volume *vol = unit_vol(state);
	struct stet_ll_who who = { .uid = 1000, .gid = 1000 };
	struct stet_table *t = open_table(vol, NULL, "t");
	const struct stet_setattr mode = { .set = STET_SET_MODE, .mode = 0604 };

	stet_table_close(t);
	OK(stet_setattrat(vol, NULL, STET_ROOT, "t", 0, &mode));
	stet_ll_act_as(&who);
	FAILS(-EACCES, stet_table_open(vol, NULL, STET_ROOT, "t", O_RDWR, 0, &t));
	FAILS(-EACCES, stet_table_open(vol, NULL, STET_ROOT, "u", O_RDWR | O_CREAT, 0644, &t));
	OK(stet_table_open(vol, NULL, STET_ROOT, "t", O_RDONLY, 0, &t));
	expect(t, NULL, "k", NULL);
	stet_ll_act_as(NULL);
	stet_table_close(t);
}

/* Records and files are one transaction. */
static void together(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_table *t = open_table(vol, NULL, "t"), *fresh;
	struct stet_txn *txn;

	OK(put(t, NULL, "k", "old"));
	OK(stet_begin(vol, 0, &txn));
	unit_write(vol, txn, "file", "content");
	OK(put(t, txn, "k", "new"));
	expect(t, txn, "k", "new");
	expect(t, NULL, "k", "old");
	fresh = open_table(vol, txn, "fresh");
	OK(put(fresh, txn, "k", "fresh"));
	FAILS(-ENOENT, put(fresh, NULL, "k", "x"));
	stet_abort(txn);
	expect(t, NULL, "k", "old");
	FAILS(-ENOENT, put(fresh, NULL, "k", "x"));
	stet_table_close(fresh);
	unit_expect_none(vol, NULL, "file");
	OK(stet_begin(vol, 0, &txn));
	unit_write(vol, txn, "file", "content");
	OK(put(t, txn, "k", "new"));
	OK(stet_commit(txn, 0));
	stet_table_close(t);
	unit_reopen(*state, true);
	vol = unit_vol(state);
	OK(stet_table_open(vol, NULL, STET_ROOT, "t", O_RDONLY, 0, &t));
	expect(t, NULL, "k", "new");
	unit_expect(vol, NULL, "file", "content");
	stet_table_close(t);
}

static void bounds(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_table *t = open_table(vol, NULL, "t");
	struct stet_bounds b = { 0 };

	for (const char *key = "cbxa"; *key; key++)
		OK(stet_put(t, NULL, key, 1, key, 1, 0));
	OK(put(t, NULL, "bb", ""));
	records(t, NULL, NULL, "a=a b=b bb= c=c x=x ");
	b.reverse = true;
	records(t, NULL, &b, "x=x c=c bb= b=b a=a ");
	b.keys_only = true;
	records(t, NULL, &b, "x= c= bb= b= a= ");
	b = (struct stet_bounds){ .prefix = "b", .prefix_len = 1 };
	records(t, NULL, &b, "b=b bb= ");
	b = (struct stet_bounds){ .from = "b", .from_len = 1, .to = "x", .to_len = 1 };
	records(t, NULL, &b, "b=b bb= c=c ");
	b.after_from = b.with_to = true;
	records(t, NULL, &b, "bb= c=c x=x ");
	stet_table_close(t);
}

/* A plain cursor shows one state; one in a transaction shows what that does meanwhile. */
static void cursors(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_table *t = open_table(vol, NULL, "t");
	struct stet_record record;
	struct stet_cursor *c;
	struct stet_txn *txn;
	char key[16];

	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "%04d", i);
		OK(put(t, NULL, key, key));
	}
	OK(stet_cursor_open(t, NULL, NULL, &c));
	for (int i = 0; i < 300; i++) {
		assert_int_equal(stet_cursor_next(c, &record), 1);
		snprintf(key, sizeof(key), "%04d", i);
		assert_memory_equal(record.key, key, 4);
		assert_memory_equal(record.value, key, 4);
		if (i == 0)
			for (int k = 0; k < 300; k += 2) {
				snprintf(key, sizeof(key), "%04d", k);
				OK(stet_del(t, NULL, key, 4));
			}
	}
	FAILS(0, stet_cursor_next(c, &record));
	FAILS(0, stet_cursor_next(c, &record));
	OK(stet_cursor_seek(c, "0100", 4));
	assert_int_equal(stet_cursor_next(c, &record), 1);
	assert_memory_equal(record.key, "0100", 4);
	FAILS(-EINVAL, stet_cursor_seek(c, "", 0));
	stet_cursor_close(c);
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	for (int reverse = 0; reverse < 2; reverse++) {
		const struct stet_bounds b = { .reverse = reverse };
		int seen = 0;

		for (int k = 0; k < 300; k += 2) {
			snprintf(key, sizeof(key), "%04d", k);
			OK(put(t, txn, key, ""));
		}
		OK(stet_cursor_open(t, txn, &b, &c));
		while (stet_cursor_next(c, &record) == 1) { /* deletes what it has seen */
			memcpy(key, record.key, 4);
			OK(stet_del(t, txn, key, 4));
			if (++seen == 100)
				OK(put(t, txn, reverse ? "-999" : "9999", "late"));
		}
		assert_int_equal(seen, reverse ? 151 : 301);
		FAILS(0, stet_cursor_next(c, &record));
		OK(put(t, txn, reverse ? "!" : "~", "more")); /* behind the end */
		assert_int_equal(stet_cursor_next(c, &record), 1);
		FAILS(0, stet_cursor_next(c, &record));
		stet_cursor_close(c);
		OK(stet_del(t, txn, reverse ? "!" : "~", 1));
	}
	OK(stet_cursor_open(t, txn, NULL, &c));
	stet_abort(txn);
	FAILS(-ESTALE, stet_cursor_next(c, &record));
	stet_cursor_close(c);
	stet_table_close(t);
}

/* What a transaction has not asked for does not conflict, but for a little read ahead. */
static void conflicts(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_table *t = open_table(vol, NULL, "dir-less");
	struct stet_record record;
	struct stet_cursor *c;
	struct stet_txn *txn;
	char text[256];

	for (const char *key = "abcdefgh"; *key; key++)
		OK(stet_put(t, NULL, key, 1, key, 1, 0));
	for (int i = 0; i < 2; i++) {
		OK(stet_begin(vol, STET_BEGIN_SERIALIZABLE, &txn));
		OK(stet_cursor_open(t, txn, NULL, &c));
		assert_int_equal(stet_cursor_next(c, &record), 1);
		stet_cursor_close(c);
		OK(put(t, txn, "mine", "x"));
		OK(put(t, NULL, i ? "Z" : "b", "changed")); /* before the first one: a phantom */
		if (i)
			FAILS(-EBUSY, stet_commit(txn, 0));
		else
			OK(stet_commit(txn, 0));
		if (i)
			stet_abort(txn);
	}
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(put(t, NULL, "a\xff", "theirs"));
	FAILS(-EBUSY, put(t, txn, "a\xff", "mine"));
	assert_true(stet_conflict_text(txn, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "the record a\\xff of table /dir-less"));
	stet_abort(txn);
	stet_table_close(t);
}

static void large(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_table *t = open_table(vol, NULL, "t");
	char *big = malloc(STET_RECORD_MAX + 1), *back = malloc(STET_RECORD_MAX);
	struct stet_record record;
	struct stet_cursor *c;

	for (size_t i = 0; i < STET_RECORD_MAX + 1; i++)
		big[i] = (char)(i * 13 + (i >> 9));
	FAILS(-E2BIG, stet_put(t, NULL, "k", 1, big, STET_RECORD_MAX + 1, 0));
	OK(stet_put(t, NULL, "k1", 2, big, STET_RECORD_MAX, 0));
	OK(stet_put(t, NULL, "k2", 2, "small", 5, 0));
	OK(stet_put(t, NULL, "k3", 2, big + 1, 100000, 0));
	for (int round = 0; round < 3; round++) {
		assert_int_equal(stet_get(t, NULL, "k1", 2, back, STET_RECORD_MAX, 0),
				 STET_RECORD_MAX);
		assert_memory_equal(back, big, STET_RECORD_MAX);
		OK(stet_cursor_open(t, NULL, NULL, &c));
		assert_int_equal(stet_cursor_next(c, &record), 1);
		assert_memory_equal(record.value, big, STET_RECORD_MAX);
		assert_int_equal(stet_cursor_next(c, &record), 1);
		assert_memory_equal(record.value, "small", 5);
		assert_int_equal(stet_cursor_next(c, &record), 1);
		assert_int_equal(record.value_len, 100000);
		assert_memory_equal(record.value, big + 1, 100000);
		FAILS(0, stet_cursor_next(c, &record));
		stet_cursor_close(c);
		stet_table_close(t);
		unit_reopen(*state, round == 1);
		vol = unit_vol(state);
		t = open_table(vol, NULL, "t");
		if (round == 0)
			OK(stet_sync(vol));
	}
	stet_table_close(t);
	free(big);
	free(back);
}

/* What goes back with a savepoint: small and large values, the number of records, what cursors show. */
static void savepoints(void **state)
{
	if (unit_is_remote())
		skip(); /* there are none yet */

	struct stet_volume *vol = unit_vol(state);
	struct stet_table *t = open_table(vol, NULL, "t");
	char *big = calloc(2, 500000), *back = malloc(500000);
	struct stet_record record;
	uint64_t first, second;
	struct stet_cursor *c;
	struct stet_txn *txn;

	memset(big, 'a', 500000);
	memset(big + 500000, 'b', 500000);
	OK(stet_put(t, NULL, "big", 3, big, 500000, 0));
	OK(put(t, NULL, "gone", "1"));
	OK(put(t, NULL, "new", "1"));
	for (int round = 0; round < 2; round++) {
		OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
		OK(put(t, txn, "mine", "1"));
		OK(stet_cursor_open(t, txn, NULL, &c));
		OK(stet_savepoint(txn, &first));
		OK(stet_put(t, txn, "big", 3, big + 500000, 500000, 0));
		OK(stet_del(t, txn, "gone", 4));
		OK(put(t, txn, "middle", "2"));
		OK(stet_savepoint(txn, &second));
		OK(stet_del(t, txn, "big", 3));
		OK(stet_put(t, txn, "mine", 4, big, 300000, 0));
		OK(put(t, txn, "new", "3"));
		assert_int_equal(stet_cursor_next(c, &record), 1);
		assert_memory_equal(record.key, "middle", 6);
		OK(stet_rollback_to(txn, second));
		records(t, txn, &(struct stet_bounds){ .keys_only = true },
			"big= middle= mine= new= ");
		assert_int_equal(stet_get(t, txn, "big", 3, back, 500000, 0), 500000);
		assert_memory_equal(back, big + 500000, 500000);
		assert_int_equal(stet_cursor_next(c, &record), 1);
		assert_memory_equal(record.value, "1", 1);
		OK(stet_rollback_to(txn, first));
		records(t, txn, &(struct stet_bounds){ .keys_only = true },
			"big= gone= mine= new= ");
		assert_int_equal(stet_get(t, txn, "big", 3, back, 500000, 0), 500000);
		assert_memory_equal(back, big, 500000);
		expect(t, txn, "mine", "1");
		assert_int_equal(stet_cursor_next(c, &record), 1);
		assert_memory_equal(record.key, "new", 3);
		FAILS(0, stet_cursor_next(c, &record));
		stet_cursor_close(c);
		if (round == 0)
			stet_abort(txn);
	}
	OK(stet_savepoint_release(txn, first));
	OK(stet_commit(txn, 0));
	stet_table_close(t);
	unit_reopen(*state, false);
	vol = unit_vol(state);
	t = open_table(vol, NULL, "t");
	records(t, NULL, &(struct stet_bounds){ .keys_only = true }, "big= gone= mine= new= ");
	assert_int_equal(stet_get(t, NULL, "big", 3, back, 500000, 0), 500000);
	assert_memory_equal(back, big, 500000);
	stet_table_close(t);
	free(big);
	free(back);
}

struct met {
	unsigned what;
	enum stet_change_kind kind;
	char path[64];
	int n;
	uint64_t before, after;
};

static int meet(void *arg, const struct stet_change *change)
{
	struct met *met = arg;

	met->what = change->what;
	met->kind = change->kind;
	met->before = change->before.size;
	met->after = change->after.size;
	snprintf(met->path, sizeof(met->path), "%s", change->path);
	met->n++;
	return 0;
}

static void changes(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_table *t = open_table(vol, NULL, "t");
	const char *paths[] = { "/t" };
	struct met met = { 0 };
	struct stet_txn *txn;
	char why[200];

	OK(put(t, NULL, "k", "old"));
	OK(stet_begin(vol, 0, &txn));
	OK(put(t, txn, "k", "new"));
	OK(put(t, txn, "l", "new"));
	unit_write(vol, txn, "zfile", "1");
	OK(stet_changes(txn, meet, &met));
	assert_int_equal(met.n, 2);
	met = (struct met){ 0 };
	OK(stet_revert(txn, 0, paths, 1, why, sizeof(why)));
	OK(stet_changes(txn, meet, &met));
	assert_int_equal(met.n, 1);
	assert_string_equal(met.path, "/zfile");
	expect(t, txn, "k", "old");
	expect(t, txn, "l", NULL);
	records(t, txn, NULL, "k=old ");
	OK(put(t, txn, "m", "late"));
	OK(stet_revert(txn, STET_REVERT_OTHERS, paths, 1, why, sizeof(why)));
	met = (struct met){ 0 };
	OK(stet_changes(txn, meet, &met));
	assert_int_equal(met.n, 1);
	assert_int_equal(met.kind, STET_CHANGE_MODIFIED);
	assert_true(met.what & STET_CHANGED_DATA);
	assert_int_equal(met.before, 1);
	assert_int_equal(met.after, 2);
	assert_string_equal(met.path, "/t");
	OK(stet_commit(txn, 0));
	records(t, NULL, NULL, "k=old m=late ");
	stet_table_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(handles, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(permissions, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(together, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(bounds, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(cursors, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(conflicts, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(large, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(savepoints, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(changes, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
