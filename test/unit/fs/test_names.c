/* test_names.c - names: every operation's answers, counts and times; then random operations of one
 * transaction at a time against a tree in arrays. */
#include "unit.h"

#include <inttypes.h>

static uint64_t make(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name,
		     uint32_t mode)
{
	uint64_t ino = 0;
	int rc = unit_make(u, txn, dir, name, mode, &ino);

	if (rc)
		fail_msg("make %s: %d %s", name, rc, stet_error_text());
	return ino;
}

static struct stet_fs_attr attr_of(struct unit *u, struct stet_txn *txn, uint64_t ino)
{
	struct stet_fs_attr attr;

	assert_int_equal(unit_getattr(u, txn, ino, &attr), 0);
	return attr;
}

static void names_check(struct unit *u, struct stet_txn *txn)
{
	char text[512], name[300];
	uint64_t d, f, ino;

	d = make(u, txn, 1, "d", S_IFDIR | 0755);
	f = make(u, txn, d, "f", S_IFREG | 0644);
	assert_int_equal(attr_of(u, txn, 1).nlink, 3);
	assert_int_equal(attr_of(u, txn, d).nlink, 2);
	assert_int_equal(attr_of(u, txn, d).parent, 1);
	assert_int_equal(attr_of(u, txn, f).nlink, 1);
	assert_int_equal(unit_lookup(u, txn, d, "f", &ino), 0);
	assert_int_equal(ino, f);
	assert_int_equal(unit_lookup(u, txn, d, ".", &ino), 0);
	assert_int_equal(ino, d);
	assert_int_equal(unit_lookup(u, txn, d, "..", &ino), 0);
	assert_int_equal(ino, 1);
	assert_int_equal(unit_lookup(u, txn, d, "g", NULL), -ENOENT);
	assert_int_equal(unit_lookup(u, txn, f, "g", NULL), -ENOTDIR);
	assert_int_equal(unit_lookup(u, txn, 12345, "g", NULL), -ENOENT);
	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	make(u, txn, d, name, S_IFREG | 0600);
	assert_int_equal(unit_unlink(u, txn, d, name), 0);
	name[255] = 'n';
	name[256] = '\0';
	assert_int_equal(unit_make(u, txn, d, name, S_IFREG | 0600, NULL), -ENAMETOOLONG);
	assert_int_equal(unit_lookup(u, txn, d, name, NULL), -ENAMETOOLONG);
	assert_int_equal(unit_make(u, txn, d, "a/b", S_IFREG | 0600, NULL), -EINVAL);
	assert_int_equal(unit_make(u, txn, d, "", S_IFREG | 0600, NULL), -ENOENT);
	assert_int_equal(unit_make(u, txn, d, ".", S_IFREG | 0600, NULL), -EEXIST);
	assert_int_equal(unit_make(u, txn, d, "f", S_IFREG | 0600, NULL), -EEXIST);
	assert_int_equal(unit_make(u, txn, f, "x", S_IFREG | 0600, NULL), -ENOTDIR);
	assert_int_equal(unit_make(u, txn, d, "x", 0600, NULL), -EINVAL);
	assert_int_equal(unit_unlink(u, txn, d, "x"), -ENOENT);
	assert_int_equal(unit_unlink(u, txn, 1, "d"), -EISDIR);
	assert_int_equal(unit_unlink(u, txn, 1, "."), -EISDIR);
	assert_int_equal(unit_rmdir(u, txn, d, "f"), -ENOTDIR);
	assert_int_equal(unit_rmdir(u, txn, 1, "d"), -ENOTEMPTY);
	assert_int_equal(unit_rmdir(u, txn, d, "."), -EINVAL);
	assert_int_equal(unit_rmdir(u, txn, d, ".."), -ENOTEMPTY);
	assert_int_equal(unit_link(u, txn, d, 1, "dd"), -EPERM);
	assert_int_equal(unit_link(u, txn, f, d, "f"), -EEXIST);
	assert_int_equal(unit_link(u, txn, f, d, "g"), 0);
	assert_int_equal(attr_of(u, txn, f).nlink, 2);
	assert_int_equal(unit_list(u, txn, d, text, sizeof(text)), 0);
	assert_string_equal(text, "f/g/");
	assert_int_equal(unit_unlink(u, txn, d, "f"), 0);
	assert_int_equal(unit_unlink(u, txn, d, "g"), 0);
	assert_int_equal(attr_of(u, txn, f).nlink, 0);
	assert_int_equal(unit_link(u, txn, f, d, "h"), -ENOENT);
	assert_int_equal(unit_rmdir(u, txn, 1, "d"), 0);
	assert_int_equal(attr_of(u, txn, 1).nlink, 2);
	assert_int_equal(attr_of(u, txn, d).nlink, 0);
	assert_int_equal(unit_make(u, txn, d, "late", S_IFREG | 0600, NULL), -ENOENT);
	assert_int_equal(unit_list(u, txn, d, text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

static void renames_check(struct unit *u, struct stet_txn *txn)
{
	uint64_t a = make(u, txn, 1, "a", S_IFDIR | 0755);
	uint64_t b = make(u, txn, a, "b", S_IFDIR | 0755);
	uint64_t c = make(u, txn, 1, "c", S_IFDIR | 0755);
	uint64_t f = make(u, txn, a, "f", S_IFREG | 0644);
	uint64_t g = make(u, txn, c, "g", S_IFREG | 0644);
	uint64_t ino;

	assert_int_equal(unit_rename(u, txn, 1, "a", b, "x", 0), -EINVAL);
	assert_int_equal(unit_rename(u, txn, 1, "a", a, "x", 0), -EINVAL);
	assert_int_equal(unit_rename(u, txn, a, "b", 1, "a", 0), -ENOTEMPTY);
	assert_int_equal(unit_rename(u, txn, a, "f", c, "g", STET_FS_RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(unit_rename(u, txn, a, "f", 1, "c", 0), -EISDIR);
	assert_int_equal(unit_rename(u, txn, a, "b", c, "g", 0), -ENOTDIR);
	assert_int_equal(unit_rename(u, txn, a, "zz", c, "g", 0), -ENOENT);
	assert_int_equal(unit_rename(u, txn, a, "f", c, "zz", STET_FS_RENAME_EXCHANGE), -ENOENT);
	assert_int_equal(unit_rename(u, txn, a, ".", c, "zz", 0), -EBUSY);
	assert_int_equal(unit_rename(u, txn, a, "f", c, "z", 8), -EINVAL);
	assert_int_equal(unit_rename(u, txn, a, "f", a, "f", 0), 0);
	assert_int_equal(unit_link(u, txn, f, c, "f2"), 0);
	assert_int_equal(unit_rename(u, txn, a, "f", c, "f2", 0), 0); /* one inode: nothing */
	assert_int_equal(unit_lookup(u, txn, a, "f", &ino), 0);
	assert_int_equal(unit_unlink(u, txn, c, "f2"), 0);
	assert_int_equal(unit_rename(u, txn, a, "f", c, "g", 0), 0);
	assert_int_equal(attr_of(u, txn, g).nlink, 0);
	assert_int_equal(attr_of(u, txn, f).nlink, 1);
	assert_int_equal(unit_lookup(u, txn, a, "f", &ino), -ENOENT);
	assert_int_equal(unit_rename(u, txn, a, "b", c, "b", 0), 0);
	assert_int_equal(attr_of(u, txn, a).nlink, 2);
	assert_int_equal(attr_of(u, txn, c).nlink, 3);
	assert_int_equal(attr_of(u, txn, b).parent, c);
	assert_int_equal(unit_rename(u, txn, 1, "a", c, "g", STET_FS_RENAME_EXCHANGE), 0);
	assert_int_equal(attr_of(u, txn, a).parent, c);
	assert_int_equal(attr_of(u, txn, 1).nlink, 3);
	assert_int_equal(attr_of(u, txn, c).nlink, 4);
	assert_int_equal(unit_rename(u, txn, 1, "c", c, "b", STET_FS_RENAME_EXCHANGE), -EINVAL);
	assert_int_equal(unit_rename(u, txn, c, "a", c, "b", 0), -ENOENT);
	assert_int_equal(unit_rename(u, txn, c, "g", c, "b", 0),
			 0); /* a directory by an empty one */
	assert_int_equal(attr_of(u, txn, b).nlink, 0);
	assert_int_equal(attr_of(u, txn, c).nlink, 3);
	assert_int_equal(unit_rmdir(u, txn, c, "b"), 0);
	assert_int_equal(unit_rmdir(u, txn, 1, "c"), 0);
	assert_int_equal(unit_unlink(u, txn, 1, "a"), 0);
}

static void test_answers(void **state)
{
	const enum stet_level levels[] = { STET_LEVEL_SNAPSHOT, STET_LEVEL_SERIALIZABLE,
					   STET_LEVEL_LOCKING };
	struct unit *u = unit_create(NULL);
	struct stet_txn *txn;

	(void)state;
	names_check(u, NULL);
	renames_check(u, NULL);
	for (size_t i = 0; i < 3; i++) {
		txn = unit_begin(u, levels[i]);
		names_check(u, txn);
		renames_check(u, txn);
		assert_int_equal(unit_order(u, txn), 0);
		unit_check(u);
	}
	unit_destroy(u);
}

/* Types, devices, set-group-id inheritance, targets of all lengths. */
static void test_make(void **state)
{
	const struct stet_fs_new device = { .mode = S_IFCHR | 0600, .rdev = UINT64_C(5) << 32 | 9 };
	struct unit *u = unit_create(NULL);
	struct stet_fs_ctx ctx = { .fs = u->fs };
	const size_t lengths[] = { 1, 100, 2048, 2049, 4095 };
	char target[5000], back[5000], name[16];
	struct stet_fs_attr set = { .mode = 02755, .gid = 99 };
	uint64_t d, ino, wait;
	size_t len;

	(void)state;
	d = make(u, NULL, 1, "sgid", S_IFDIR | 0755);
	assert_int_equal(unit_setattr(u, NULL, d, STET_FS_SET_MODE | STET_FS_SET_GID, &set), 0);
	ino = make(u, NULL, d, "sub", S_IFDIR | 0700);
	assert_int_equal(attr_of(u, NULL, ino).gid, 99);
	assert_int_equal(attr_of(u, NULL, ino).mode, S_IFDIR | 02700);
	ino = make(u, NULL, d, "file", S_IFREG | 0700);
	assert_int_equal(attr_of(u, NULL, ino).gid, 99);
	assert_int_equal(attr_of(u, NULL, ino).mode, S_IFREG | 0700);
	memset(target, 't', sizeof(target));
	for (size_t i = 0; i < 5; i++) {
		(void)snprintf(name, sizeof(name), "l%zu", i);
		assert_int_equal(unit_symlink(u, NULL, 1, name, target, lengths[i], &ino), 0);
		ctx.txn = unit_begin(u, STET_LEVEL_PLAIN);
		assert_int_equal(stet_fs_readlink(&ctx, ino, back, sizeof(back), &len), 0);
		assert_int_equal(len, lengths[i]);
		assert_memory_equal(back, target, len);
		unit_end(ctx.txn);
		assert_int_equal(attr_of(u, NULL, ino).size, lengths[i]);
	}
	assert_int_equal(unit_symlink(u, NULL, 1, "l9", target, 4096, &ino), -ENAMETOOLONG);
	assert_int_equal(unit_symlink(u, NULL, 1, "l9", target, 0, &ino), -ENOENT);
	ctx.txn = unit_begin(u, STET_LEVEL_PLAIN);
	assert_int_equal(stet_fs_make(&ctx, 1, unit_name("dev"), &device, &ino), 0);
	assert_int_equal(stet_txn_order(ctx.txn, NULL, &wait), 0);
	unit_end(ctx.txn);
	assert_int_equal(attr_of(u, NULL, ino).rdev, device.rdev);
	unit_reopen(u);
	assert_int_equal(unit_lookup(u, NULL, 1, "l4", &ino), 0);
	ctx = (struct stet_fs_ctx){ .fs = u->fs, .txn = unit_begin(u, STET_LEVEL_PLAIN) };
	assert_int_equal(stet_fs_readlink(&ctx, ino, back, sizeof(back), &len), 0);
	assert_int_equal(len, 4095);
	assert_memory_equal(back, target, len);
	unit_end(ctx.txn);
	unit_destroy(u);
}

/* Times inside a transaction are the operation's, outside the commit's; explicit ones stay. */
static void test_times(void **state)
{
	struct unit *u = unit_create(NULL);
	const int64_t t0 = UNIT_START_NS;
	struct stet_fs_attr set = { .mtime_ns = 5, .atime_ns = 6 };
	struct stet_txn *txn;
	uint64_t f, g;

	(void)state;
	sim_clock_advance(&u->clock, 1000);
	txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	f = make(u, txn, 1, "f", S_IFREG | 0600);
	g = make(u, txn, 1, "g", S_IFREG | 0600);
	assert_int_equal(unit_setattr(u, txn, g, STET_FS_SET_MTIME | STET_FS_SET_ATIME, &set), 0);
	assert_int_equal(attr_of(u, txn, f).mtime_ns, t0 + 1000);
	assert_int_equal(attr_of(u, txn, 1).mtime_ns, t0 + 1000);
	assert_int_equal(attr_of(u, NULL, 1).mtime_ns, t0);
	sim_clock_advance(&u->clock, 1000);
	assert_int_equal(unit_order(u, txn), 0);
	assert_int_equal(attr_of(u, NULL, f).mtime_ns, t0 + 2000);
	assert_int_equal(attr_of(u, NULL, f).ctime_ns, t0 + 2000);
	assert_int_equal(attr_of(u, NULL, f).btime_ns, t0 + 1000);
	assert_int_equal(attr_of(u, NULL, 1).mtime_ns, t0 + 2000);
	assert_int_equal(attr_of(u, NULL, g).mtime_ns, 5);
	assert_int_equal(attr_of(u, NULL, g).atime_ns, 6);
	assert_int_equal(attr_of(u, NULL, g).ctime_ns, t0 + 2000);
	/* A directory whose time is set after names were added keeps it; ctime tells of the
	 * commit. */
	txn = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	assert_int_equal(unit_unlink(u, txn, 1, "f"), 0);
	assert_int_equal(unit_setattr(u, txn, 1, STET_FS_SET_MTIME, &set), 0);
	sim_clock_advance(&u->clock, 1000);
	assert_int_equal(unit_order(u, txn), 0);
	assert_int_equal(attr_of(u, NULL, 1).mtime_ns, 5);
	assert_int_equal(attr_of(u, NULL, 1).ctime_ns, t0 + 3000);
	assert_true(attr_of(u, NULL, g).data_version > 0);
	unit_destroy(u);
}

/* 300 names in one directory, from several transactions that are open together. */
static void test_many(void **state)
{
	struct unit *u = unit_create(NULL);
	struct stet_txn *txn[3];
	char name[32];

	(void)state;
	for (int t = 0; t < 3; t++)
		txn[t] = unit_begin(u, t == 0 ? STET_LEVEL_LOCKING : STET_LEVEL_SNAPSHOT);
	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "n%03d", i);
		make(u, txn[i % 3], 1, name, i % 5 == 0 ? S_IFDIR | 0700 : S_IFREG | 0600);
	}
	for (int t = 0; t < 3; t++) {
		assert_int_equal(unit_order(u, txn[t]), 0);
		unit_check(u);
	}
	assert_int_equal(attr_of(u, NULL, 1).nlink, 62);
	assert_int_equal(attr_of(u, NULL, 1).size, 300 * 32);
	unit_reopen(u);
	assert_int_equal(attr_of(u, NULL, 1).nlink, 62);
	unit_destroy(u);
}

/* --- random trees --- */

#define NODES 24

struct node {
	uint64_t ino;
	int parent; /* -1: not there */
	bool dir;
	char name[8];
};

struct tree {
	struct node node[NODES]; /* 0: the root */
};

static bool is_below(const struct tree *t, int at, int below)
{
	for (; at > 0; at = t->node[at].parent) {
		if (at == below)
			return true;
	}
	return below == 0;
}

static int child(const struct tree *t, int parent, const char *name)
{
	for (int i = 1; i < NODES; i++) {
		if (t->node[i].parent == parent && strcmp(t->node[i].name, name) == 0)
			return i;
	}
	return -1;
}

static bool is_empty(const struct tree *t, int dir)
{
	for (int i = 1; i < NODES; i++) {
		if (t->node[i].parent == dir)
			return false;
	}
	return true;
}

static int random_dir(const struct tree *t, struct stet_random *rnd)
{
	int i = (int)stet_random_below(rnd, NODES);

	return t->node[i].parent >= 0 && t->node[i].dir ? i : 0;
}

static void random_name(struct stet_random *rnd, char *name)
{
	(void)snprintf(name, 8, "%c", (char)('a' + (char)stet_random_below(rnd, 4)));
}

static void tree_make(struct tree *t, struct unit *u, struct stet_txn *txn, struct stet_random *rnd)
{
	int dir = random_dir(t, rnd), free_node = -1;
	bool is_dir = stet_random_below(rnd, 2);
	char name[8];
	uint64_t ino;
	int rc;

	for (int i = 1; i < NODES; i++) {
		if (t->node[i].parent < 0)
			free_node = i;
	}
	if (free_node < 0)
		return;
	random_name(rnd, name);
	rc = unit_make(u, txn, t->node[dir].ino, name, (is_dir ? S_IFDIR : S_IFREG) | 0700, &ino);
	if (child(t, dir, name) >= 0) {
		assert_int_equal(rc, -EEXIST);
		return;
	}
	assert_int_equal(rc, 0);
	t->node[free_node] = (struct node){ .ino = ino, .parent = dir, .dir = is_dir };
	memcpy(t->node[free_node].name, name, sizeof(name));
}

static void tree_remove(struct tree *t, struct unit *u, struct stet_txn *txn,
			struct stet_random *rnd)
{
	int dir = random_dir(t, rnd), at;
	bool want_dir = stet_random_below(rnd, 2);
	char name[8];
	int rc;

	random_name(rnd, name);
	at = child(t, dir, name);
	rc = want_dir ? unit_rmdir(u, txn, t->node[dir].ino, name)
		      : unit_unlink(u, txn, t->node[dir].ino, name);
	if (at < 0)
		assert_int_equal(rc, -ENOENT);
	else if (t->node[at].dir != want_dir)
		assert_int_equal(rc, want_dir ? -ENOTDIR : -EISDIR);
	else if (want_dir && !is_empty(t, at))
		assert_int_equal(rc, -ENOTEMPTY);
	else
		assert_int_equal(rc, 0);
	if (rc == 0)
		t->node[at].parent = -1;
}

static int expect_rename(const struct tree *t, int from, int to_dir, int to, unsigned flags)
{
	bool exchange = flags & STET_FS_RENAME_EXCHANGE;

	if (from < 0 || (exchange && to < 0))
		return -ENOENT;
	if ((flags & STET_FS_RENAME_NOREPLACE) && to >= 0)
		return -EEXIST;
	if (from == to)
		return 0;
	if (t->node[from].dir && is_below(t, to_dir, from))
		return -EINVAL;
	if (exchange)
		return t->node[to].dir && is_below(t, t->node[from].parent, to) ? -EINVAL : 0;
	if (to < 0)
		return 0;
	if (t->node[from].dir != t->node[to].dir)
		return t->node[from].dir ? -ENOTDIR : -EISDIR;
	return t->node[to].dir && !is_empty(t, to) ? -ENOTEMPTY : 0;
}

static void tree_rename(struct tree *t, struct unit *u, struct stet_txn *txn,
			struct stet_random *rnd)
{
	const unsigned kinds[] = { 0, 0, STET_FS_RENAME_NOREPLACE, STET_FS_RENAME_EXCHANGE };
	int from_dir = random_dir(t, rnd), to_dir = random_dir(t, rnd), from, to, want, rc;
	unsigned flags = kinds[stet_random_below(rnd, 4)];
	char a[8], b[8];

	random_name(rnd, a);
	random_name(rnd, b);
	from = child(t, from_dir, a);
	to = child(t, to_dir, b);
	want = expect_rename(t, from, to_dir, to, flags);
	rc = unit_rename(u, txn, t->node[from_dir].ino, a, t->node[to_dir].ino, b, flags);
	assert_int_equal(rc, want);
	if (rc || from == to)
		return;
	if (flags & STET_FS_RENAME_EXCHANGE) {
		t->node[to].parent = from_dir;
		memcpy(t->node[to].name, a, sizeof(a));
	} else if (to >= 0) {
		t->node[to].parent = -1;
	}
	t->node[from].parent = to_dir;
	memcpy(t->node[from].name, b, sizeof(b));
}

static void tree_compare(const struct tree *t, struct unit *u, struct stet_txn *txn)
{
	char text[512];
	uint64_t ino;

	for (int i = 1; i < NODES; i++) {
		const struct node *n = &t->node[i];

		if (n->parent < 0)
			continue;
		assert_int_equal(unit_lookup(u, txn, t->node[n->parent].ino, n->name, &ino), 0);
		assert_int_equal(ino, n->ino);
	}
	for (int i = 0; i < NODES; i++) {
		size_t len = 0;

		if (t->node[i].parent < 0 || !t->node[i].dir)
			continue;
		for (int k = 1; k < NODES; k++) {
			if (t->node[k].parent == i)
				len += strlen(t->node[k].name) + 1;
		}
		assert_int_equal(unit_list(u, txn, t->node[i].ino, text, sizeof(text)), 0);
		assert_int_equal(strlen(text), len);
		assert_int_equal(attr_of(u, txn, t->node[i].ino).size, len / 2 * 32);
	}
}

static void tree_run(uint64_t seed, enum stet_level level)
{
	struct unit *u = unit_create(NULL);
	struct tree committed = { 0 }, t;
	struct stet_random rnd;

	stet_random_seed(&rnd, seed);
	for (int i = 1; i < NODES; i++)
		committed.node[i].parent = -1;
	committed.node[0] = (struct node){ .ino = 1, .dir = true };
	for (int round = 0; round < 12; round++) {
		struct stet_txn *txn = level == STET_LEVEL_PLAIN ? NULL : unit_begin(u, level);

		t = committed;
		for (uint64_t i = 1 + stet_random_below(&rnd, 40); i > 0; i--) {
			uint64_t dice = stet_random_below(&rnd, 10);

			if (dice < 4)
				tree_make(&t, u, txn, &rnd);
			else if (dice < 6)
				tree_remove(&t, u, txn, &rnd);
			else
				tree_rename(&t, u, txn, &rnd);
		}
		tree_compare(&t, u, txn);
		if (txn && stet_random_below(&rnd, 4) == 0) {
			unit_end(txn);
		} else {
			if (txn)
				assert_int_equal(unit_order(u, txn), 0);
			committed = t;
		}
		tree_compare(&committed, u, NULL);
		unit_check(u);
		if (stet_random_below(&rnd, 3) == 0)
			unit_idle(u);
		if (stet_random_below(&rnd, 4) == 0)
			unit_reopen(u);
	}
	tree_compare(&committed, u, NULL);
	unit_destroy(u);
}

static void test_trees(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		tree_run(seed, STET_LEVEL_PLAIN);
		tree_run(seed + 10, STET_LEVEL_SNAPSHOT);
		tree_run(seed + 20, STET_LEVEL_SERIALIZABLE);
		tree_run(seed + 30, STET_LEVEL_LOCKING);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_make),
		cmocka_unit_test(test_times),   cmocka_unit_test(test_many),
		cmocka_unit_test(test_trees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
