/* base.c - five volumes that between them hold everything the format knows.
 *
 * B1. A base is the device as it is when the process is killed: checkpoints, then batches that only the log
 *     holds, then operations that nothing holds.
 * B2. Every state that a crash could show (one for each flush) is known twice: as the volume answered when it
 *     was whole (facts), and as this file wrote it (shadows). The two are compared when it is built.
 * B3. Everything follows from fixed seeds: a mutation is repeatable by its number.
 */
#include "base.h"

#include "atlas.h"
#include "base/random.h"
#include "sim/image.h"
#include "volume.h"
#include "walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIB (UINT64_C(1) << 20)
#define SHADOWS_MAX 512u
#define FILE_MODE (S_IFREG | 0644)
#define DIR_MODE (S_IFDIR | 0755)
#define TABLE_MODE (STET_MODE_TABLE | 0644)

struct shape {
	const char *name;
	uint64_t size_bytes;
	uint8_t meta_copies;
	bool tall; /* a tree of three levels; a truncation that is not done */
	bool run;  /* the log holds a spilled transaction */
	bool tail; /* batches that only the log holds; else closed cleanly */
	bool idle; /* the last partial segment says that everything before is durable */
};

static const struct shape shapes[BASE_COUNT] = {
	{ "log", 24 * MIB, 2, false, false, true, false },
	{ "run", 24 * MIB, 2, false, true, true, false },
	{ "single", 16 * MIB, 1, false, false, true, true },
	{ "tall", 24 * MIB, 2, true, false, false, false },
	{ "single-run", 20 * MIB, 1, false, true, true, false },
};

struct shadow {
	uint64_t ino;
	uint8_t *bytes;
	size_t len;
};

struct build {
	struct base *base;
	const struct shape *shape;
	struct volume v;
	struct stet_random random;
	struct shadow shadow[SHADOWS_MAX];
	size_t shadow_n;
	struct stet_txn *txn; /* operations go into it; NULL: plain */
	bool learning;        /* flushes are states */
};

static _Noreturn void die(const struct build *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void die(const struct build *b, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "base image \"%s\": ", b->shape->name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, " (%s)\n", stet_error_text());
	exit(1);
}

static void need(const struct build *b, int rc, const char *what)
{
	if (rc)
		die(b, "%s: %d", what, rc);
}

/* --- states (B2) --- */

static void learn(void *arg, enum question q, uint64_t ino, uint64_t sub, uint64_t answer)
{
	struct build *b = arg;

	facts_learn(b->base->facts, b->base->state_count, q, ino, sub, answer);
}

static void failed(void *arg, enum question q, uint64_t ino, uint64_t sub, int rc)
{
	die(arg, "question %d of inode %llu, %llx: %d", q, (unsigned long long)ino,
	    (unsigned long long)sub, rc);
}

static void compare_shadow(const struct build *b, const struct shadow *s)
{
	unsigned state = b->base->state_count;

	for (size_t at = 0; at < s->len; at += STET_BLOCK_SIZE) {
		size_t n = s->len - at < STET_BLOCK_SIZE ? s->len - at : STET_BLOCK_SIZE;
		uint64_t answer = facts_hash(s->bytes + at, n) | 1;

		if (!(facts_states(b->base->facts, ASK_BLOCK, s->ino, at / STET_BLOCK_SIZE,
				   answer) >>
			      state &
		      1))
			die(b, "state %u: inode %llu: block %zu is not what was written", state,
			    (unsigned long long)s->ino, at / STET_BLOCK_SIZE);
	}
}

static void on_flush(void *arg, struct volume *v)
{
	struct build *b = arg;
	struct base *base = b->base;
	const struct walk_visitor visitor = { learn, failed, b };
	uint64_t cut = stet_engine_serial(v->engine);

	if (!b->learning || (base->state_count > 0 && base->cut[base->state_count - 1] == cut))
		return;
	if (base->state_count == FACTS_STATES_MAX)
		die(b, "more states than can be known");
	base->cut[base->state_count] = cut;
	need(b, walk_volume(v, base->inos, base->ino_count, &visitor), "walk");
	for (size_t i = 0; i < b->shadow_n; i++)
		compare_shadow(b, &b->shadow[i]);
	base->state_count++;
}

/* --- operations with shadows --- */

static struct shadow *shadow_of(struct build *b, uint64_t ino)
{
	for (size_t i = 0; i < b->shadow_n; i++)
		if (b->shadow[i].ino == ino)
			return &b->shadow[i];
	if (b->shadow_n == SHADOWS_MAX)
		die(b, "too many files");
	b->shadow[b->shadow_n] = (struct shadow){ .ino = ino };
	return &b->shadow[b->shadow_n++];
}

static void shadow_resize(struct build *b, struct shadow *s, size_t len)
{
	uint8_t *bytes = realloc(s->bytes, len ? len : 1);

	if (!bytes)
		die(b, "no memory");
	if (len > s->len)
		memset(bytes + s->len, 0, len - s->len);
	s->bytes = bytes;
	s->len = len;
}

static uint64_t make(struct build *b, uint64_t dir, uint32_t mode, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static uint64_t make(struct build *b, uint64_t dir, uint32_t mode, const char *fmt, ...)
{
	char name[STET_NAME_MAX + 1];
	struct op op = { .kind = OP_MAKE, .dir = dir, .mode = mode, .name = name };
	va_list args;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	need(b, volume_op(&b->v, b->txn, &op), name);
	if (S_ISREG(mode))
		shadow_of(b, op.ino);
	return op.ino;
}

static void write_at(struct build *b, uint64_t ino, uint64_t off, size_t len)
{
	struct shadow *s = shadow_of(b, ino);
	struct op op = { .kind = OP_WRITE, .ino = ino, .off = off, .len = len };

	if (off + len > s->len)
		shadow_resize(b, s, (size_t)off + len);
	stet_random_bytes(&b->random, s->bytes + off, len);
	op.data = s->bytes + off;
	need(b, volume_op(&b->v, b->txn, &op), "write");
}

static void truncate_to(struct build *b, uint64_t ino, size_t size)
{
	struct op op = { .kind = OP_TRUNCATE, .ino = ino, .off = size };

	need(b, volume_op(&b->v, b->txn, &op), "truncate");
	shadow_resize(b, shadow_of(b, ino), size);
}

static void punch(struct build *b, uint64_t ino, uint64_t off, size_t len)
{
	struct shadow *s = shadow_of(b, ino);
	struct op op = { .kind = OP_PUNCH, .ino = ino, .off = off, .len = len };

	need(b, volume_op(&b->v, b->txn, &op), "punch");
	memset(s->bytes + off, 0, len);
}

static void unlink_file(struct build *b, uint64_t dir, const char *name, uint64_t ino)
{
	struct op op = { .kind = OP_UNLINK, .dir = dir, .name = name };
	struct shadow *s = shadow_of(b, ino);

	need(b, volume_op(&b->v, b->txn, &op), name);
	free(s->bytes);
	*s = b->shadow[--b->shadow_n];
}

static void xattr(struct build *b, uint64_t ino, const char *name, size_t len)
{
	static uint8_t value[STET_XATTR_SIZE_MAX];
	struct op op = {
		.kind = OP_XATTR_SET, .ino = ino, .name = name, .data = value, .len = len
	};

	stet_random_bytes(&b->random, value, len);
	need(b, volume_op(&b->v, b->txn, &op), name);
}

static void put(struct build *b, uint64_t ino, const char *key, size_t len)
{
	static uint8_t value[STET_RECORD_SIZE_MAX];
	struct op op = { .kind = OP_PUT, .ino = ino, .name = key, .data = value, .len = len };

	stet_random_bytes(&b->random, value, len);
	need(b, volume_op(&b->v, b->txn, &op), key);
}

static void del(struct build *b, uint64_t ino, const char *key)
{
	struct op op = { .kind = OP_DEL, .ino = ino, .name = key };

	need(b, volume_op(&b->v, b->txn, &op), key);
}

static void symlink_to(struct build *b, uint64_t dir, const char *name, size_t len)
{
	char target[STET_SYMLINK_MAX];
	struct op op = { .kind = OP_MAKE,
			 .dir = dir,
			 .mode = S_IFLNK | 0777,
			 .name = name,
			 .data = target,
			 .len = len };

	for (size_t i = 0; i < len; i++)
		target[i] = (char)('a' + stet_random_below(&b->random, 26));
	need(b, volume_op(&b->v, b->txn, &op), name);
}

static void link_to(struct build *b, uint64_t ino, uint64_t dir, const char *name)
{
	struct op op = { .kind = OP_LINK, .ino = ino, .dir = dir, .name = name };

	need(b, volume_op(&b->v, b->txn, &op), name);
}

static void rename_to(struct build *b, uint64_t dir, const char *name, uint64_t to_dir,
		      const char *to_name)
{
	struct op op = {
		.kind = OP_RENAME, .dir = dir, .name = name, .to_dir = to_dir, .to_name = to_name
	};

	need(b, volume_op(&b->v, b->txn, &op), name);
}

static void flush(struct build *b)
{
	sim_clock_advance(&b->v.clock, 1000000007);
	need(b, volume_flush(&b->v), "flush");
}

static void checkpoint(struct build *b)
{
	sim_clock_advance(&b->v.clock, 1000000007);
	need(b, volume_checkpoint(&b->v), "checkpoint");
}

/* --- contents --- */

struct tree {
	uint64_t a, b, c; /* /a, /a/b, /a/b/c */
	uint64_t big, left, right, many;
	uint64_t small[24];
	uint64_t table, other; /* /a/table, /a/b/other */
};

static void make_names(struct build *b, struct tree *t)
{
	t->a = make(b, STET_ROOT_INO, DIR_MODE, "a");
	t->b = make(b, t->a, DIR_MODE, "b");
	t->c = make(b, t->b, DIR_MODE, "c");
	make(b, t->c, DIR_MODE, "empty");
	make(b, t->c, S_IFIFO | 0600, "pipe");
	make(b, t->c, S_IFSOCK | 0600, "socket");
	b->base->victim_ino = make(b, STET_ROOT_INO, FILE_MODE, "victim");
	b->base->target_ino = make(b, STET_ROOT_INO, FILE_MODE, "target");
	for (unsigned i = 0; i < 24; i++) {
		t->small[i] = make(b, t->a, FILE_MODE, "small%02u", i);
		if (i > 0)
			write_at(b, t->small[i], 0, i * 80);
	}
	symlink_to(b, STET_ROOT_INO, "short", 12);
	symlink_to(b, t->b, "long", 3000);
	link_to(b, t->small[3], t->c, "other name");
	link_to(b, t->small[3], STET_ROOT_INO, "third name");
	make(b, t->b, FILE_MODE, "%0255d", 7);
}

static void make_data(struct build *b, struct tree *t)
{
	t->big = make(b, t->b, FILE_MODE, "big");
	t->left = make(b, t->b, FILE_MODE, "left");
	t->right = make(b, t->b, FILE_MODE, "right");
	t->many = make(b, t->c, FILE_MODE, "many");
	write_at(b, b->base->victim_ino, 0, 30000);
	write_at(b, b->base->target_ino, 0, 50000);
	write_at(b, t->big, 0, 300000);
	write_at(b, t->big, 400000, 20001); /* behind a hole */
	flush(b);
	for (unsigned i = 0; i < 8; i++) {
		write_at(b, t->left, (uint64_t)i * 8192, 8192);
		write_at(b, t->right, (uint64_t)(7 - i) * 8192, 8192);
		write_at(b, t->many, (uint64_t)i * 12288, 4096);
		flush(b);
	}
}

static void make_tables(struct build *b, struct tree *t)
{
	char key[16];

	t->table = make(b, t->a, TABLE_MODE, "table");
	t->other = make(b, t->b, TABLE_MODE, "other");
	make(b, t->c, TABLE_MODE, "no records");
	for (unsigned i = 0; i < 30; i++) {
		snprintf(key, sizeof(key), "key%02u", i);
		put(b, t->table, key, i * 7);
		if (i % 10 == 0)
			put(b, t->other, key, 4000 + i * 5000);
	}
	put(b, t->table, "large", 290000);
	put(b, t->table, "nearly", STET_RECORD_INLINE_MAX);
}

static void make_xattrs(struct build *b, struct tree *t)
{
	xattr(b, t->a, "user.small", 10);
	xattr(b, t->big, "user.large", 40000);
	xattr(b, t->big, "user.empty", 0);
	xattr(b, t->small[5], "user.block", 5000);
	xattr(b, t->small[5], "security.thing", 2048);
}

static void make_tall(struct build *b, struct tree *t)
{
	char name[STET_NAME_MAX + 1];

	for (unsigned i = 0; i < 5; i++) {
		for (unsigned k = 0; k < 64; k++) {
			snprintf(name, sizeof(name), "user.%0250u", k);
			xattr(b, t->small[i], name, 2000);
		}
		checkpoint(b);
	}
}

/* So many extents that a truncation leaves them to be freed in steps. */
static void make_truncated(struct build *b, struct tree *t)
{
	uint64_t file = make(b, t->c, FILE_MODE, "truncated");

	for (unsigned i = 0; i < 300; i++) {
		write_at(b, file, (uint64_t)i * 2 * STET_BLOCK_SIZE, STET_BLOCK_SIZE);
		if (i % 50 == 0)
			flush(b);
	}
	flush(b);
	truncate_to(b, file, 5000);
	b->base->inos[b->base->ino_count++] = file;
}

/* Inodes without a name: one that never had one, one that lost it while open. */
static void make_orphans(struct build *b, struct tree *t)
{
	struct op op = { .kind = OP_MAKE_UNNAMED, .mode = FILE_MODE };
	struct base *base = b->base;
	uint64_t file = make(b, t->b, FILE_MODE, "open");

	need(b, stet_fs_hold(b->v.fs, file), "hold");
	write_at(b, file, 0, 9000);
	need(b, volume_op(&b->v, NULL, &op), "unnamed");
	need(b, stet_fs_hold(b->v.fs, op.ino), "hold");
	write_at(b, op.ino, 0, 10000);
	base->inos[base->ino_count++] = file;
	base->inos[base->ino_count++] = op.ino;
	op = (struct op){ .kind = OP_UNLINK, .dir = t->b, .name = "open" };
	need(b, volume_op(&b->v, NULL, &op), "unlink");
}

static void change(struct build *b, struct tree *t)
{
	write_at(b, t->big, 100000, 50000);
	write_at(b, t->left, 10, 100);
	truncate_to(b, t->right, 20000);
	punch(b, t->many, 24576, 4096);
	unlink_file(b, t->a, "small07", t->small[7]);
	rename_to(b, t->a, "small08", t->c, "moved");
	xattr(b, t->big, "user.large", 30000);
	write_at(b, t->small[9], 500, 3000); /* no longer inline */
	put(b, t->table, "key03", 9000);
	put(b, t->other, "key10", 10);
	del(b, t->table, "key05");
}

/* Batches that only the log holds: new names, new data, patches of what is there. */
static void make_tail(struct build *b, struct tree *t)
{
	uint64_t dir = make(b, STET_ROOT_INO, DIR_MODE, "late");
	uint64_t file = make(b, dir, FILE_MODE, "file");

	write_at(b, file, 0, 20000);
	write_at(b, t->big, 5000, 30); /* patches */
	write_at(b, t->big, 405000, 30);
	flush(b);
	write_at(b, t->big, 5010, 300); /* a patch of a patch */
	write_at(b, file, 100, 50);
	write_at(b, t->many, 8000, 500); /* half in a hole */
	xattr(b, file, "user.late", 9000);
	put(b, t->table, "late", 30);
	put(b, t->table, "large", 70000);
	del(b, t->other, "key20");
	flush(b);
	rename_to(b, STET_ROOT_INO, "late", t->c, "later");
	unlink_file(b, t->a, "small11", t->small[11]);
	write_at(b, t->small[12], 0, 40);
	flush(b);
	write_at(b, t->left, 0, 60000);
	truncate_to(b, t->big, 410000);
	make(b, t->a, FILE_MODE, "last but one");
	flush(b);
}

/* A transaction that outgrows its memory: its changes are written as a run before the commit. */
static void make_run(struct build *b, struct tree *t)
{
	uint64_t dir = make(b, t->a, DIR_MODE, "run");
	uint64_t file;

	flush(b); /* shadows run ahead of the volume until the commit: no state may come between */
	need(b, stet_txn_begin(b->v.engine, STET_LEVEL_SNAPSHOT, false, &b->txn), "begin");
	for (unsigned i = 0; i < 300; i++)
		write_at(b, make(b, dir, FILE_MODE, "r%03u", i), 0, 1900);
	file = make(b, dir, FILE_MODE, "data");
	for (unsigned i = 0; i < 10; i++)
		write_at(b, file, (uint64_t)i * 100000, 100000);
	write_at(b, t->big, 200000, 40000);
	unlink_file(b, t->a, "small15", t->small[15]);
	put(b, t->table, "run", 200);
	put(b, t->table, "run large", 100000);
	del(b, t->table, "key07");
	need(b, volume_commit(&b->v, b->txn), "commit");
	b->txn = NULL;
	flush(b);
	write_at(b, file, 5, 5);
	write_at(b, make(b, dir, FILE_MODE, "after"), 0, 100);
	flush(b);
}

static void fill(struct build *b)
{
	struct tree t = { 0 };

	make_names(b, &t);
	make_data(b, &t);
	make_tables(b, &t);
	checkpoint(b);
	make_xattrs(b, &t);
	if (b->shape->tall) {
		make_tall(b, &t);
		make_truncated(b, &t);
	}
	make_orphans(b, &t);
	checkpoint(b);
	change(b, &t);
	b->learning = true;
	checkpoint(b);
	write_at(b, t.small[2], 0, 200);
	flush(b);
	write_at(b, t.big, 50000, 60);
	checkpoint(b);
	if (b->shape->run)
		make_run(b, &t);
	if (b->shape->tail)
		make_tail(b, &t);
	if (b->shape->idle)
		flush(b);
	if (!b->shape->tail)
		checkpoint(b);
	b->learning = false;
	b->base->ino_end = make(b, t.a, FILE_MODE, "never flushed"); /* B1 */
}

/* --- life --- */

static void release(struct build *b)
{
	for (size_t i = 0; i < b->shadow_n; i++)
		free(b->shadow[i].bytes);
	free(b);
}

struct base *base_build(unsigned no)
{
	struct build *b = calloc(1, sizeof(*b));
	struct base *base = calloc(1, sizeof(*base));
	struct volume_options options = { .seg_blocks = 64, .seed = no + 1 };
	struct stet_device *device;

	if (!b || !base)
		abort();
	b->base = base;
	b->shape = &shapes[no];
	base->name = b->shape->name;
	base->facts = facts_create();
	options.meta_copies = b->shape->meta_copies;
	stet_random_seed(&b->random, no + 1);
	need(b, sim_image_create(b->shape->size_bytes, &device), "image");
	need(b, volume_format(device, &options), "format");
	need(b, volume_open(device, VOLUME_WRITE, &b->v), "open");
	b->v.on_flush = on_flush;
	b->v.arg = b;
	fill(b);
	need(b, sim_image_copy(device, &base->device), "copy");
	volume_close(&b->v);
	stet_device_close(device);
	base->atlas = atlas_create(base->device);
	release(b);
	return base;
}

void base_destroy(struct base *base)
{
	atlas_destroy(base->atlas);
	facts_destroy(base->facts);
	stet_device_close(base->device);
	free(base);
}
