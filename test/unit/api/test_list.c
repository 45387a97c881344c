/* test_list.c - listings, globs, walks, and what a transaction changes. */
#include "api_unit.h"

#include <dirent.h>
#include <stdio.h>

/* The names of a listing, each followed by a space. */
static void list(struct stet_volume *vol, struct stet_txn *txn, const char *path,
		 const struct stet_dir_filter *filter, char *out, size_t cap)
{
	struct stet_dir_entry entry;
	struct stet_dir *it;
	size_t len = 0;
	int rc;

	OK(stet_dir_open(vol, txn, STET_ROOT, path, filter, &it));
	out[0] = 0;
	while ((rc = stet_dir_next(it, &entry)) == 1)
		len += (size_t)snprintf(out + len, cap - len, "%s ", entry.name);
	OK(rc);
	FAILS(0, stet_dir_next(it, &entry)); /* stays at the end */
	stet_dir_close(it);
}

static void filters(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_dir_filter filter = { 0 };
	char out[256];

	unit_write(vol, NULL, "inc.c", "");
	unit_write(vol, NULL, "inc.h", "");
	unit_write(vol, NULL, "inb", "");
	unit_write(vol, NULL, "ind", "");
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "inc", 0755));
	OK(stet_symlinkat(vol, NULL, "x", STET_ROOT, "link"));
	list(vol, NULL, "", NULL, out, sizeof(out));
	assert_string_equal(out, "inb inc inc.c inc.h ind link ");
	filter.glob = "inc*";
	list(vol, NULL, "/", &filter, out, sizeof(out));
	assert_string_equal(out, "inc inc.c inc.h ");
	filter.glob = "inc";
	list(vol, NULL, "/", &filter, out, sizeof(out));
	assert_string_equal(out, "inc ");
	filter.glob = "*.[ch]";
	list(vol, NULL, "/", &filter, out, sizeof(out));
	assert_string_equal(out, "inc.c inc.h ");
	filter = (struct stet_dir_filter){ .types = STET_TYPE_BIT(DT_DIR) | STET_TYPE_BIT(DT_LNK) };
	list(vol, NULL, "/", &filter, out, sizeof(out));
	assert_string_equal(out, "inc link ");
	struct stet_dir *it;
	FAILS(-ENOTDIR, stet_dir_open(vol, NULL, STET_ROOT, "inb", NULL, &it));
	FAILS(-ENOENT, stet_dir_open(vol, NULL, STET_ROOT, "no", NULL, &it));
}

/* A plain listing shows one state, though it is read in batches. */
static void listing_is_one_state(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_dir_entry entry;
	struct stet_dir *it;
	char name[32];
	int n = 0, rc;

	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "f%04d", i);
		unit_write(vol, NULL, name, "");
	}
	OK(stet_dir_open(vol, NULL, STET_ROOT, "", NULL, &it));
	assert_int_equal(stet_dir_next(it, &entry), 1);
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "f%04d", i);
		OK(stet_unlinkat(vol, NULL, STET_ROOT, name, 0));
	}
	for (n = 1; (rc = stet_dir_next(it, &entry)) == 1; n++) {
		snprintf(name, sizeof(name), "f%04d", n);
		assert_string_equal(entry.name, name);
	}
	OK(rc);
	assert_int_equal(n, 500);
	stet_dir_close(it);
}

struct walked {
	char text[1024];
	size_t len;
	const char *skip, *stop;
};

static int note(void *arg, const struct stet_walk_entry *e)
{
	struct walked *w = arg;

	w->len += (size_t)snprintf(w->text + w->len, sizeof(w->text) - w->len, "%s%s ", e->path,
				   e->post ? "!" : "");
	if (e->stat)
		assert_int_equal(e->stat->ino, e->ino);
	if (w->stop && strcmp(e->path, w->stop) == 0)
		return 42;
	return w->skip && strcmp(e->name, w->skip) == 0 ? STET_WALK_SKIP : 0;
}

static void walks(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct walked w = { .len = 0 };

	OK(stet_mkdirat(vol, NULL, STET_ROOT, "a", 0755));
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "a/b", 0755));
	unit_write(vol, NULL, "a/b/f", "");
	unit_write(vol, NULL, "a/c", "");
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	OK(stet_walk(vol, NULL, STET_ROOT, "/", STET_WALK_PRE | STET_WALK_POST, note, &w));
	assert_string_equal(w.text, " a a/b a/b/f a/b! a/c a! d d! ! ");
	w = (struct walked){ .skip = "b" };
	OK(stet_walk(vol, NULL, STET_ROOT, "a", STET_WALK_PRE | STET_WALK_STAT, note, &w));
	assert_string_equal(w.text, " b c ");
	w = (struct walked){ .stop = "b/f" };
	FAILS(42, stet_walk(vol, NULL, STET_ROOT, "a", STET_WALK_POST, note, &w));
	assert_string_equal(w.text, "b/f ");
	w = (struct walked){ .len = 0 };
	OK(stet_walk(vol, NULL, STET_ROOT, "a/c", STET_WALK_PRE, note, &w));
	assert_string_equal(w.text, " ");
	FAILS(-EINVAL, stet_walk(vol, NULL, STET_ROOT, "/", 0, note, &w));
}

static int note_change(void *arg, const struct stet_change *c)
{
	static const char *const kinds[] = { "+", "-", "=", ">", "~" };
	struct walked *w = arg;

	w->len += (size_t)snprintf(w->text + w->len, sizeof(w->text) - w->len, "%s%s%s%s%s ",
				   kinds[c->kind], c->path, c->old_path ? "<" : "",
				   c->old_path ? c->old_path : "",
				   c->what & STET_CHANGED_DATA ? "*" : "");
	return 0;
}

static void changes(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct walked w = { .len = 0 };
	struct stet_setattr attr = { .set = STET_SET_MODE, .mode = 0700 };
	struct stet_txn *txn;

	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d/e", 0755));
	unit_write(vol, NULL, "d/e/deep", "1");
	unit_write(vol, NULL, "gone", "1");
	unit_write(vol, NULL, "mode", "1");
	unit_write(vol, NULL, "moved", "1");
	unit_write(vol, NULL, "same", "1");
	OK(stet_begin(vol, 0, &txn));
	OK(stet_changes(txn, note_change, &w));
	assert_string_equal(w.text, "");
	unit_write(vol, txn, "d/new", "2");
	unit_write(vol, txn, "d/e/deep", "2");
	OK(stet_unlinkat(vol, txn, STET_ROOT, "gone", 0));
	OK(stet_setattrat(vol, txn, STET_ROOT, "mode", 0, &attr));
	OK(stet_renameat(vol, txn, STET_ROOT, "moved", STET_ROOT, "d/e/there", 0));
	OK(stet_changes(txn, note_change, &w));
	assert_string_equal(w.text, "~/d/e/deep* >/d/e/there</moved +/d/new -/gone ~/mode ");
	OK(stet_renameat(vol, txn, STET_ROOT, "d", STET_ROOT, "dd", 0));
	w = (struct walked){ .len = 0 };
	OK(stet_changes(txn, note_change, &w));
	assert_string_equal(w.text,
			    ">/dd</d ~/dd/e/deep</d/e/deep* >/dd/e/there</moved +/dd/new -/gone "
			    "~/mode ");
	stet_abort(txn);
}

/* The attributes of what is changed, and what it replaces. */
static int note_attrs(void *arg, const struct stet_change *c)
{
	struct walked *w = arg;

	w->len += (size_t)snprintf(w->text + w->len, sizeof(w->text) - w->len, "%s %llu-%llu %o-%o",
				   c->path, (unsigned long long)c->before.size,
				   (unsigned long long)c->after.size, c->before.mode,
				   c->after.mode);
	if (c->replaced_ino)
		w->len += (size_t)snprintf(w->text + w->len, sizeof(w->text) - w->len, " (%llu %o)",
					   (unsigned long long)c->replaced.size, c->replaced.mode);
	w->len += (size_t)snprintf(w->text + w->len, sizeof(w->text) - w->len, "; ");
	return 0;
}

static void append_in(struct stet_volume *vol, struct stet_txn *txn, const char *path,
		      const char *text)
{
	struct stet_file *file;

	OK(stet_openat(vol, txn, STET_ROOT, path, O_WRONLY | O_APPEND, 0, &file));
	assert_int_equal(stet_append(file, text, strlen(text)), strlen(text));
	stet_file_close(file);
}

static void changes_with_attributes(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_setattr attr = { .set = STET_SET_MODE, .mode = 0700 };
	struct walked w = { .len = 0 };
	struct stet_txn *txn;

	unit_write(vol, NULL, "appended", "12345");
	unit_write(vol, NULL, "both", "12345");
	unit_write(vol, NULL, "gone", "123");
	unit_write(vol, NULL, "mode", "1");
	unit_write(vol, NULL, "moved", "12");
	unit_write(vol, NULL, "over", "1234");
	unit_write(vol, NULL, "typed", "123456");
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	append_in(vol, txn, "appended", "678");
	append_in(vol, txn, "both", "678");
	OK(stet_setattrat(vol, txn, STET_ROOT, "both", 0, &attr));
	OK(stet_unlinkat(vol, txn, STET_ROOT, "gone", 0));
	OK(stet_setattrat(vol, txn, STET_ROOT, "mode", 0, &attr));
	OK(stet_renameat(vol, txn, STET_ROOT, "moved", STET_ROOT, "over", 0));
	unit_write(vol, txn, "new", "1234567");
	append_in(vol, txn, "new", "8");
	OK(stet_unlinkat(vol, txn, STET_ROOT, "typed", 0));
	OK(stet_symlinkat(vol, txn, "x", STET_ROOT, "typed"));
	OK(stet_changes(txn, note_attrs, &w));
	assert_string_equal(w.text, "/appended 5-8 100644-100644; /both 5-8 100644-100700; "
				    "/gone 3-0 100644-0; /mode 1-1 100644-100700; "
				    "/new 0-8 0-100644; /over 2-2 100644-100644 (4 100644); "
				    "/typed 0-1 0-120777 (6 100644); ");
	stet_abort(txn);
}

/* Of a file with several names: what is changed, added and removed is told of each. */
static void changes_of_many_names(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct walked w = { .len = 0 };
	struct stet_txn *txn;

	unit_write(vol, NULL, "a", "1");
	OK(stet_linkat(vol, NULL, STET_ROOT, "a", STET_ROOT, "b", 0));
	unit_write(vol, NULL, "c", "1");
	unit_write(vol, NULL, "e", "1");
	OK(stet_linkat(vol, NULL, STET_ROOT, "e", STET_ROOT, "f", 0));
	OK(stet_begin(vol, 0, &txn));
	unit_write(vol, txn, "a", "12");
	OK(stet_unlinkat(vol, txn, STET_ROOT, "a", 0));
	unit_write(vol, txn, "c", "12");
	OK(stet_linkat(vol, txn, STET_ROOT, "c", STET_ROOT, "d", 0));
	OK(stet_renameat(vol, txn, STET_ROOT, "e", STET_ROOT, "g", 0));
	unit_write(vol, txn, "f", "12");
	OK(stet_changes(txn, note_change, &w));
	assert_string_equal(w.text, "-/a ~/b* ~/c* +/d >/g</e* ");
	stet_abort(txn);
}

struct knowledge {
	const char *name;
	unsigned asked;
};

static bool know(void *arg, uint64_t ino, unsigned at, struct stet_ll_name *ret)
{
	struct knowledge *k = arg;

	(void)ino;
	k->asked++;
	if (at > 1)
		return false;
	/* The first is wrong. */
	ret->dir = at == 0 ? 12345 : STET_ROOT;
	snprintf(ret->name, sizeof(ret->name), "%s", k->name);
	return true;
}

/* Names that others know spare the walk when they are right, and do no harm when they are not. */
static void changes_with_known_names(void **state)
{
	static const char *const known[] = { "right", "wrong", "absent", "lost", "d/right" };
	struct stet_volume *vol = unit_vol(state);

	if (unit_is_remote())
		skip(); /* only the server knows of names */
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	unit_write(vol, NULL, "right", "1");
	unit_write(vol, NULL, "wrong", "1");
	unit_write(vol, NULL, "lost", "1");
	OK(stet_linkat(vol, NULL, STET_ROOT, "right", STET_ROOT, "lost2", 0));
	for (size_t i = 0; i < 5; i++) {
		struct knowledge k = { .name = known[i] };
		struct walked w = { .len = 0 };
		struct stet_txn *txn;

		OK(stet_begin(vol, 0, &txn));
		unit_write(vol, txn, "right", "12");
		OK(stet_unlinkat(vol, txn, STET_ROOT, "lost2", 0));
		OK(stet_ll_changes(txn, know, &k, note_change, &w));
		assert_string_equal(w.text, "-/lost2 ~/right* ");
		assert_int_equal(k.asked, i == 0 ? 2 : 3);
		stet_abort(txn);
	}
}

static void read_whole(struct stet_volume *vol, struct stet_txn *txn, const char *path, char *ret,
		       size_t cap)
{
	struct stet_file *file;
	ssize_t n;

	OK(stet_openat(vol, txn, STET_ROOT, path, O_RDONLY, 0, &file));
	n = stet_pread(file, ret, cap - 1, 0);
	assert_true(n >= 0);
	ret[n] = 0;
	stet_file_close(file);
}

/* What a transaction changes is told against the state that it began with, and that can be read,
 * whatever others have done meanwhile. */
static void changes_since_begin(void **state)
{
	struct stet_volume *vol = unit_vol(state);
	struct stet_txn *txn, *base;
	struct walked w = { .len = 0 };
	char text[32];

	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	unit_write(vol, NULL, "d/f", "old");
	unit_write(vol, NULL, "other", "old");
	OK(stet_begin(vol, 0, &txn));
	OK(stet_renameat(vol, NULL, STET_ROOT, "d", STET_ROOT, "e", 0));
	unit_write(vol, NULL, "other", "now");
	unit_write(vol, txn, "d/f", "mine");
	OK(stet_begin_base(txn, &base));
	OK(stet_changes(txn, note_change, &w));
	assert_string_equal(w.text, "~/d/f* ");
	read_whole(vol, base, "d/f", text, sizeof(text));
	assert_string_equal(text, "old");
	read_whole(vol, base, "other", text, sizeof(text));
	assert_string_equal(text, "old");
	read_whole(vol, NULL, "other", text, sizeof(text));
	assert_string_equal(text, "now");
	FAILS(-EROFS, stet_unlinkat(vol, base, STET_ROOT, "other", 0));
	stet_abort(txn);
	read_whole(vol, base, "d/f", text, sizeof(text));
	assert_string_equal(text, "old");
	OK(stet_commit(base, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(filters, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(listing_is_one_state, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(walks, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(changes, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(changes_with_attributes, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(changes_of_many_names, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(changes_with_known_names, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(changes_since_begin, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/list", tests, NULL, NULL);
}
