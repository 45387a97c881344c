/* test_revert.c - giving up a part of a transaction: by hand, and against what the parts were before.
 *
 * The random test makes a tree, changes it in a transaction, gives up what lies at or below some paths (or the
 * rest), and compares every name and every inode with the tree of before and with that of the transaction: each
 * is as in one of them, as its change was given up or kept. After the commit the volume is checked.
 *
 *	REVERT_RUNS	how many (default 120, and 30 that spill); REVERT_SEED: of the first one
 */
#include "api_unit.h"

#include <stdlib.h>
#include <unistd.h>

#define NAMES_MAX 512
#define PATHS_MAX 4
#define XATTRS 8u

/// By hand ///

static char why[512];

static int revert(struct stet_txn *txn, unsigned flags, const char *path)
{
	return stet_revert(txn, flags, &path, 1, why, sizeof(why));
}

static void begin(struct unit_volume *u, struct stet_txn **ret)
{
	OK(stet_begin(u->vol, STET_BEGIN_SNAPSHOT, ret));
}

static void parts_alone(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *txn;

	unit_write(u->vol, NULL, "edited", "before");
	unit_write(u->vol, NULL, "removed", "kept?");
	unit_write(u->vol, NULL, "moved", "here");
	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "dir", 0755));
	begin(u, &txn);
	unit_write(u->vol, txn, "edited", "after");
	unit_write(u->vol, txn, "dir/new", "new");
	OK(stet_unlinkat(u->vol, txn, STET_ROOT, "removed", 0));
	OK(stet_renameat(u->vol, txn, STET_ROOT, "moved", STET_ROOT, "dir/moved", 0));
	OK(revert(txn, 0, "/removed"));
	unit_expect(u->vol, txn, "removed", "kept?");
	OK(revert(txn, 0, "edited/"));
	unit_expect(u->vol, txn, "edited", "before");
	OK(revert(txn, 0, "moved")); /* the old name stands for both */
	unit_expect(u->vol, txn, "moved", "here");
	unit_expect_none(u->vol, txn, "dir/moved");
	unit_expect(u->vol, txn, "dir/new", "new");
	OK(stet_commit(txn, 0));
	unit_expect(u->vol, NULL, "removed", "kept?");
	unit_expect(u->vol, NULL, "edited", "before");
	unit_expect(u->vol, NULL, "moved", "here");
	unit_expect(u->vol, NULL, "dir/new", "new");
	unit_expect_none(u->vol, NULL, "dir/moved");
}

static int count_change(void *arg, const struct stet_change *change)
{
	(void)change;
	++*(unsigned *)arg;
	return 0;
}

static void nothing_is_left(void **state)
{
	struct unit_volume *u = *state;
	struct stet_stat before, after;
	struct stet_txn *txn;
	unsigned count = 0;

	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "d", 0755));
	unit_write(u->vol, NULL, "d/f", "text");
	OK(stet_statat(u->vol, NULL, STET_ROOT, "d", 0, &before));
	begin(u, &txn);
	unit_write(u->vol, txn, "d/f", "other");
	OK(stet_mkdirat(u->vol, txn, STET_ROOT, "d/e", 0755));
	unit_write(u->vol, txn, "d/e/g", "new");
	OK(revert(txn, 0, "/"));
	OK(stet_changes(txn, count_change, &count));
	assert_int_equal(count, 0);
	unit_expect(u->vol, txn, "d/f", "text");
	unit_write(u->vol, txn, "d/e", "it goes on"); /* a file, where a directory was to be */
	OK(revert(txn, 0, "d/e"));
	OK(stet_commit(txn, 0));
	OK(stet_statat(u->vol, NULL, STET_ROOT, "d", 0, &after));
	assert_memory_equal(&before, &after, sizeof(before));
}

static void others_go(void **state)
{
	struct unit_volume *u = *state;
	const char *two[] = { "/a", "/c" };
	struct stet_txn *txn;

	begin(u, &txn);
	unit_write(u->vol, txn, "a", "1");
	unit_write(u->vol, txn, "b", "2");
	unit_write(u->vol, txn, "c", "3");
	OK(stet_revert(txn, STET_REVERT_OTHERS, two, 2, why, sizeof(why)));
	OK(stet_commit(txn, 0));
	unit_expect(u->vol, NULL, "a", "1");
	unit_expect_none(u->vol, NULL, "b");
	unit_expect(u->vol, NULL, "c", "3");
}

/* What would not stand alone is refused, with a reason, and nothing has happened. */
static void refusals(void **state)
{
	struct unit_volume *u = *state;
	struct stet_txn *txn;

	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "old", 0755));
	unit_write(u->vol, NULL, "old/f", "f");
	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "p", 0755));
	OK(stet_mkdirat(u->vol, NULL, STET_ROOT, "p/q", 0755));
	unit_write(u->vol, NULL, "x", "x");
	unit_write(u->vol, NULL, "linked", "1");
	begin(u, &txn);
	OK(stet_mkdirat(u->vol, txn, STET_ROOT, "new", 0755));
	unit_write(u->vol, txn, "new/f", "f");
	FAILS(-EINVAL, revert(txn, STET_REVERT_OTHERS, "new/f"));
	assert_string_equal(why, "/new/f: needs its directory, which is new and would be dropped");
	OK(stet_unlinkat(u->vol, txn, STET_ROOT, "old/f", 0));
	OK(stet_unlinkat(u->vol, txn, STET_ROOT, "old", STET_AT_REMOVEDIR));
	FAILS(-EINVAL, revert(txn, 0, "old/f"));
	assert_string_equal(why, "/old/f: cannot come back: its directory would stay removed");
	OK(stet_renameat(u->vol, txn, STET_ROOT, "p/q", STET_ROOT, "q", 0));
	OK(stet_renameat(u->vol, txn, STET_ROOT, "p", STET_ROOT, "q/p", 0));
	FAILS(-EINVAL, revert(txn, STET_REVERT_OTHERS, "q/p"));
	assert_string_equal(why, "/q: would lie below itself");
	OK(revert(txn, 0, "/q/p")); /* alone it can go back */
	OK(revert(txn, 0, "/q"));
	OK(stet_renameat(u->vol, txn, STET_ROOT, "x", STET_ROOT, "y", 0));
	unit_write(u->vol, txn, "x", "another");
	FAILS(-EINVAL, revert(txn, 0, "y"));
	FAILS(-EINVAL, revert(txn, STET_REVERT_OTHERS, "y"));
	unit_write(u->vol, txn, "linked", "2");
	OK(stet_linkat(u->vol, txn, STET_ROOT, "linked", STET_ROOT, "more", 0));
	FAILS(-EINVAL, revert(txn, 0, "linked"));
	FAILS(-ENOENT, revert(txn, 0, "nowhere"));
	assert_string_equal(why, "/nowhere: the transaction changed nothing there");
	OK(stet_commit(txn, 0));
	unit_expect(u->vol, NULL, "new/f", "f");
	unit_expect(u->vol, NULL, "y", "x");
	unit_expect(u->vol, NULL, "x", "another");
	unit_expect(u->vol, NULL, "more", "2");
	unit_expect_none(u->vol, NULL, "old");
	assert_true(unit_exists(u->vol, NULL, "p/q"));
	begin(u, &txn);
	stet_abort(txn);
	OK(stet_begin(u->vol, STET_BEGIN_READ_ONLY, &txn));
	FAILS(-EROFS, revert(txn, 0, "/"));
	stet_abort(txn);
	FAILS(-EINVAL, revert(NULL, 0, "/"));
}

/* The link of a file can go while what was changed in it stays. */
static void link_apart(void **state)
{
	struct unit_volume *u = *state;
	struct stet_stat st;
	struct stet_txn *txn;

	unit_write(u->vol, NULL, "f", "1");
	begin(u, &txn);
	unit_write(u->vol, txn, "f", "2");
	OK(stet_linkat(u->vol, txn, STET_ROOT, "f", STET_ROOT, "g", 0));
	OK(revert(txn, 0, "g"));
	OK(stet_commit(txn, 0));
	unit_expect(u->vol, NULL, "f", "2");
	unit_expect_none(u->vol, NULL, "g");
	OK(stet_statat(u->vol, NULL, STET_ROOT, "f", 0, &st));
	assert_int_equal(st.nlink, 1);
}

/// At random ///

struct name {
	uint64_t dir, ino;
	char name[16];
};

struct object {
	uint64_t ino, hash; /* of content, mode and an attribute; not of counts and times */
	uint32_t type;
};

struct tree {
	struct name name[NAMES_MAX];
	struct object object[NAMES_MAX];
	size_t names, objects;
};

struct change {
	enum stet_change_kind kind;
	uint64_t ino;
	char path[256], old_path[256];
	bool reverted;
};

struct world {
	char image[64];
	struct stet_volume *vol;
	unsigned seed;
	struct tree before, within, after;
	struct change change[NAMES_MAX];
	size_t changes;
	char path[PATHS_MAX][256];
	size_t paths;
	bool others;
	uint64_t spills;
};

static unsigned pick(struct world *w, unsigned below)
{
	return (unsigned)rand_r(&w->seed) % below;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t hash_of(struct world *w, struct stet_txn *txn, const char *path,
			const struct stet_stat *st)
{
	uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), &st->mode, sizeof(st->mode));
	struct stet_file *file;
	char buf[8192];
	ssize_t n;

	for (unsigned i = 0; i < XATTRS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "user.%u", i);
		n = stet_getxattr(w->vol, txn, STET_ROOT, path, 0, name, buf, sizeof(buf));
		hash = n > 0 ? mix(hash, buf, (size_t)n) : hash;
	}
	if (!S_ISREG(st->mode))
		return hash;
	OK(stet_openat(w->vol, txn, STET_ROOT, path, O_RDONLY, 0, &file));
	for (uint64_t off = 0; (n = stet_pread(file, buf, sizeof(buf), off)) > 0;
	     off += (uint64_t)n)
		hash = mix(hash, buf, (size_t)n);
	assert_int_equal(n, 0);
	stet_file_close(file);
	return hash;
}

static struct object *find_object(struct tree *tree, uint64_t ino)
{
	for (size_t i = 0; i < tree->objects; i++)
		if (tree->object[i].ino == ino)
			return &tree->object[i];
	return NULL;
}

static uint64_t find_name(const struct tree *tree, uint64_t dir, const char *name)
{
	for (size_t i = 0; i < tree->names; i++)
		if (tree->name[i].dir == dir && strcmp(tree->name[i].name, name) == 0)
			return tree->name[i].ino;
	return 0;
}

struct looking {
	struct world *w;
	struct stet_txn *txn;
	struct tree *tree;
};

static int look(void *arg, const struct stet_walk_entry *entry)
{
	struct looking *l = arg;
	struct tree *tree = l->tree;
	struct name *name = &tree->name[tree->names];

	assert_true(tree->names < NAMES_MAX);
	if (entry->depth > 0) {
		name->dir = entry->dir;
		name->ino = entry->ino;
		snprintf(name->name, sizeof(name->name), "%s", entry->name);
		tree->names++;
	}
	if (!find_object(tree, entry->ino))
		tree->object[tree->objects++] = (struct object){
			.ino = entry->ino,
			.hash = hash_of(l->w, l->txn, entry->path, entry->stat),
			.type = entry->stat->mode & S_IFMT,
		};
	return 0;
}

static void look_at(struct world *w, struct stet_txn *txn, struct tree *ret)
{
	struct looking l = { .w = w, .txn = txn, .tree = ret };

	ret->names = ret->objects = 0;
	OK(stet_walk(w->vol, txn, STET_ROOT, "", STET_WALK_PRE | STET_WALK_STAT, look, &l));
}

static void random_path(struct world *w, char ret[64])
{
	unsigned depth = 1 + pick(w, 3);
	size_t len = 0;

	for (unsigned i = 0; i < depth; i++)
		len += (size_t)snprintf(ret + len, 64 - len, "%s%c", i ? "/" : "",
					'a' + (char)pick(w, 5));
}

static int write_some(struct world *w, struct stet_txn *txn, const char *path)
{
	static char block[40000];
	struct stet_file *file;
	int how = (int)pick(w, 4);
	ssize_t n;
	int rc = stet_openat(w->vol, txn, STET_ROOT, path, O_WRONLY | O_CREAT, 0644, &file);

	if (rc)
		return rc;
	memset(block, 'a' + (char)pick(w, 26), sizeof(block));
	if (how == 0)
		n = stet_append(file, block, 1 + pick(w, 3000));
	else if (how == 1)
		n = stet_truncate(file, pick(w, 20000));
	else
		n = stet_pwrite(file, block, 1 + pick(w, how == 2 ? 100 : sizeof(block)),
				pick(w, 30000));
	assert_true(n >= 0);
	stet_file_close(file);
	return 0;
}

static int set_xattrs(struct world *w, struct stet_txn *txn, const char *path)
{
	char name[16], value[3000];
	int rc = 0;

	memset(value, 'a' + (char)pick(w, 26), sizeof(value));
	for (unsigned i = 0; i < XATTRS && !rc; i++) {
		snprintf(name, sizeof(name), "user.%u", i);
		rc = stet_setxattr(w->vol, txn, STET_ROOT, path, 0, name, value,
				   1 + pick(w, sizeof(value)));
	}
	return rc;
}

static int change_one(struct world *w, struct stet_txn *txn)
{
	struct stet_setattr set = { .set = STET_SET_MODE, .mode = 0600 + pick(w, 64) };
	char path[64], to[64];

	random_path(w, path);
	random_path(w, to);
	switch (pick(w, 12)) {
	case 0:
	case 1:
		return stet_mkdirat(w->vol, txn, STET_ROOT, path, 0755);
	case 2:
	case 3:
		return stet_unlinkat(w->vol, txn, STET_ROOT, path,
				     pick(w, 3) ? 0 : STET_AT_REMOVEDIR);
	case 4:
	case 5:
		return stet_renameat(w->vol, txn, STET_ROOT, path, STET_ROOT, to,
				     pick(w, 4) ? 0 : STET_RENAME_EXCHANGE);
	case 6:
		return stet_linkat(w->vol, txn, STET_ROOT, path, STET_ROOT, to, 0);
	case 7:
		return stet_setattrat(w->vol, txn, STET_ROOT, path, 0, &set);
	case 8:
		return set_xattrs(w, txn, path);
	default:
		return write_some(w, txn, path);
	}
}

static void change_many(struct world *w, struct stet_txn *txn, unsigned count)
{
	while (count-- > 0) {
		int rc = change_one(w, txn);

		if (rc && rc != -ENOENT && rc != -EEXIST && rc != -ENOTDIR && rc != -EISDIR &&
		    rc != -ENOTEMPTY && rc != -EINVAL && rc != -EPERM)
			OK(rc);
	}
}

static int note_change(void *arg, const struct stet_change *change)
{
	struct world *w = arg;
	struct change *c = &w->change[w->changes++];

	assert_true(w->changes <= NAMES_MAX);
	c->kind = change->kind;
	c->ino = change->ino;
	snprintf(c->path, sizeof(c->path), "%s", change->path);
	snprintf(c->old_path, sizeof(c->old_path), "%s", change->old_path ? change->old_path : "");
	return 0;
}

static bool is_below(const char *path, const char *at)
{
	size_t len = strcmp(at, "/") == 0 ? 0 : strlen(at);

	return *path && strncmp(path, at, len) == 0 && (path[len] == 0 || path[len] == '/');
}

static void choose(struct world *w)
{
	w->paths = 1 + pick(w, PATHS_MAX);
	w->others = pick(w, 2);
	for (size_t i = 0; i < w->paths; i++) {
		const struct change *c = &w->change[pick(w, (unsigned)w->changes)];
		bool old = c->kind == STET_CHANGE_RENAMED && pick(w, 2);
		char *last;

		snprintf(w->path[i], sizeof(w->path[i]), "%s", old ? c->old_path : c->path);
		last = strrchr(w->path[i], '/');
		if (pick(w, 4) == 0 && last > w->path[i])
			*last = 0;
	}
	for (size_t k = 0; k < w->changes; k++) {
		struct change *c = &w->change[k];
		bool chosen = false;

		for (size_t i = 0; i < w->paths; i++)
			chosen = chosen || is_below(c->path, w->path[i]) ||
				 is_below(c->old_path, w->path[i]);
		c->reverted = chosen != w->others;
	}
}

static void print_world(const struct world *w)
{
	for (size_t i = 0; i < w->paths; i++)
		print_error("%s %s\n", w->others ? "all but" : "without", w->path[i]);
	for (size_t i = 0; i < w->changes; i++)
		print_error("%d %s %s%s%s (inode %llu)\n", w->change[i].kind,
			    w->change[i].reverted ? "given up" : "kept", w->change[i].old_path,
			    w->change[i].old_path[0] ? " -> " : "", w->change[i].path,
			    (unsigned long long)w->change[i].ino);
}

/* Resolves all but the last component. */
static uint64_t dir_of(const struct tree *tree, const char *path, const char **ret_last)
{
	uint64_t dir = STET_ROOT;
	const char *at = path + 1, *slash;

	while ((slash = strchr(at, '/'))) {
		char name[16];

		snprintf(name, sizeof(name), "%.*s", (int)(slash - at), at);
		dir = find_name(tree, dir, name);
		at = slash + 1;
	}
	*ret_last = at;
	return dir;
}

static bool has_changed(const struct world *w, uint64_t dir, const char *name)
{
	return find_name(&w->before, dir, name) != find_name(&w->within, dir, name);
}

/* The name is as it was before, or as in the transaction. */
static void expect_name(struct world *w, const struct tree *where, const char *path, bool reverted)
{
	const char *name;
	uint64_t dir = dir_of(where, path, &name);
	uint64_t want = find_name(reverted ? &w->before : &w->within, dir, name);
	uint64_t have = find_name(&w->after, dir, name);

	if (have == want)
		return;
	print_world(w);
	print_error("%s: leads to %llu, not %llu (%s)\n", path, (unsigned long long)have,
		    (unsigned long long)want, reverted ? "given up" : "kept");
	fail();
}

static void expect_content(struct world *w, const char *path, uint64_t ino, bool reverted)
{
	const struct object *want = find_object(reverted ? &w->before : &w->within, ino);
	const struct object *have = find_object(&w->after, ino);

	if (!have) /* its name was what mattered */
		return;
	if (want && have->hash == want->hash)
		return;
	print_world(w);
	print_error("%s: the content of %llu is not as it was %s\n", path, (unsigned long long)ino,
		    reverted ? "before" : "in the transaction");
	fail();
}

static void expect_all(struct world *w)
{
	for (size_t i = 0; i < w->changes; i++) {
		const struct change *c = &w->change[i];

		switch (c->kind) {
		case STET_CHANGE_REMOVED:
			expect_name(w, &w->before, c->path, c->reverted);
			break;
		case STET_CHANGE_RENAMED:
			expect_name(w, &w->before, c->old_path, c->reverted);
			expect_name(w, &w->within, c->path, c->reverted);
			expect_content(w, c->path, c->ino, c->reverted);
			break;
		case STET_CHANGE_ADDED:
		case STET_CHANGE_REPLACED:
			expect_name(w, &w->within, c->path, c->reverted);
			break;
		case STET_CHANGE_MODIFIED:
			expect_content(w, c->path, c->ino, c->reverted);
			break;
		}
	}
	/* And nothing else has changed. */
	for (size_t i = 0; i < w->after.names; i++) {
		const struct name *n = &w->after.name[i];

		if (!has_changed(w, n->dir, n->name))
			assert_int_equal(n->ino, find_name(&w->before, n->dir, n->name));
	}
	for (size_t i = 0; i < w->before.names; i++) {
		const struct name *n = &w->before.name[i];

		if (!has_changed(w, n->dir, n->name))
			assert_int_equal(n->ino, find_name(&w->after, n->dir, n->name));
	}
}

static void expect_same(const struct tree *a, const struct tree *b)
{
	assert_int_equal(a->names, b->names);
	assert_int_equal(a->objects, b->objects);
	assert_memory_equal(a->name, b->name, a->names * sizeof(*a->name));
	for (size_t i = 0; i < a->objects; i++) {
		assert_int_equal(a->object[i].ino, b->object[i].ino);
		assert_int_equal(a->object[i].hash, b->object[i].hash);
	}
}

static int tell(void *arg, const struct stet_problem *problem)
{
	(void)arg;
	print_error("%s: %s (inode %llu, %s)\n", problem->id, problem->text,
		    (unsigned long long)problem->ino, problem->path);
	return 0;
}

static void open_world(struct world *w, bool small)
{
	struct stet_open_options options = { .cache_bytes = small ? 1 : 0,
					     .checkpoint_bytes = small ? 1 << 20 : 0 };

	OK(stet_open(w->image, &options, &w->vol));
}

/* True: a part was given up. */
static bool give_up(struct world *w, struct stet_txn *txn)
{
	const char *paths[PATHS_MAX];
	int rc;

	w->changes = 0;
	OK(stet_changes(txn, note_change, w));
	if (w->changes == 0)
		return false;
	choose(w);
	for (size_t i = 0; i < w->paths; i++)
		paths[i] = w->path[i];
	why[0] = 0;
	rc = stet_revert(txn, w->others ? STET_REVERT_OTHERS : 0, paths, w->paths, why,
			 sizeof(why));
	if (rc != -EINVAL)
		OK(rc);
	assert_int_equal(rc == 0, why[0] == 0);
	look_at(w, txn, &w->after);
	if (rc)
		expect_same(&w->within, &w->after);
	else
		expect_all(w);
	return rc == 0;
}

static unsigned run_once(struct world *w, unsigned seed, bool small)
{
	struct stet_mkfs_options options = { .size_bytes = 32 << 20, .force = true };
	unsigned given_up = 0;

	w->seed = seed;
	OK(stet_mkfs(w->image, &options));
	open_world(w, small);
	change_many(w, NULL, 60);
	for (unsigned round = 0; round < 3; round++) {
		struct stet_txn *txn;

		look_at(w, NULL, &w->before);
		OK(stet_begin(w->vol, STET_BEGIN_SNAPSHOT, &txn));
		change_many(w, txn, small ? 2000 : 20);
		look_at(w, txn, &w->within);
		given_up += give_up(w, txn);
		if (small)
			OK(stet_sync(w->vol));
		if (pick(w, 2) && small)
			assert_true(stet_clean(w->vol, 4) >= 0);
		if (pick(w, 3) == 0)
			change_many(w, txn, 5);
		look_at(w, txn, &w->within);
		OK(stet_commit(txn, 0));
		look_at(w, NULL, &w->after);
		expect_same(&w->within, &w->after);
	}
	w->spills += unit_counter(w->vol, "spills");
	OK(stet_close(w->vol));
	assert_int_equal(stet_check(w->image, 0, tell, NULL), 0);
	return given_up;
}

static void at_random(bool small)
{
	const char *runs = getenv("REVERT_RUNS"), *seed = getenv("REVERT_SEED");
	unsigned count = runs ? (unsigned)atoi(runs) : small ? 30 : 120;
	unsigned first = seed ? (unsigned)atoi(seed) : 1;
	struct world *w = calloc(1, sizeof(*w));
	unsigned given_up = 0;
	int fd;

	assert_non_null(w);
	snprintf(w->image, sizeof(w->image), "/tmp/stet-revert.XXXXXX");
	fd = mkstemp(w->image);
	assert_true(fd >= 0);
	close(fd);
	for (unsigned i = 0; i < count; i++) {
		print_message("REVERT_SEED=%u REVERT_RUNS=1%s\n", first + i,
			      small ? " (small cache)" : "");
		given_up += run_once(w, first + i, small);
	}
	assert_true(given_up * 2 > count); /* most are not refused */
	assert_int_equal(w->spills > 0, small);
	unlink(w->image);
	free(w);
}

static void random_parts(void **state)
{
	(void)state;
	if (unit_is_remote())
		skip(); /* it has a volume of its own */
	at_random(false);
}

static void random_parts_spilled(void **state)
{
	(void)state;
	if (unit_is_remote())
		skip();
	at_random(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(parts_alone, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(nothing_is_left, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(others_go, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(refusals, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(link_apart, unit_set_up, unit_tear_down),
		cmocka_unit_test(random_parts),
		cmocka_unit_test(random_parts_spilled),
	};

	return cmocka_run_group_tests_name("revert", tests, NULL, NULL);
}
