/* walk.c - every question about every inode that the root leads to.
 *
 * W1. A directory is entered once, however many names lead to it; a file with several names is read once.
 * W2. A question is as small as a reader's can be: an attribute, a name, a block of 4 KiB. What fails is asked
 *     again in smaller parts, so that one bad block does not hide its neighbours.
 * W3. Of a file of any claimed size only the beginning, the end, and what lies behind holes is read.
 */
#include "walk.h"

#include "base/hash.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INODES_MAX 20000u
#define NAMES_MAX 100000u
#define XATTRS_MAX 4096u
#define WINDOW (64u << 10)
#define WINDOWS_MAX 32u /* read from the beginning */
#define SEEKS_MAX 16u
#define PIECES 16u

struct walk {
	struct volume *v;
	struct stet_fs_ctx ctx;
	const struct walk_visitor *visitor;
	uint64_t *todo; /* inodes known; asked in this order */
	size_t todo_n;
	uint64_t *seen; /* open addressing; 0 = free */
	size_t names;
	uint8_t buf[WINDOW];
	char list[STET_XATTR_SIZE_MAX];
};

#define SEEN_CAP (4u * INODES_MAX)

static bool is_new(struct walk *w, uint64_t ino)
{
	size_t i = stet_mix64(ino) % SEEN_CAP;

	while (w->seen[i] && w->seen[i] != ino)
		i = (i + 1) % SEEN_CAP;
	if (w->seen[i])
		return false;
	w->seen[i] = ino;
	return true;
}

static void add(struct walk *w, uint64_t ino)
{
	if (ino != 0 && w->todo_n < INODES_MAX && is_new(w, ino)) /* W1 */
		w->todo[w->todo_n++] = ino;
}

/* What came of a question; rc 0: the answer. */
static void tell(struct walk *w, int rc, enum question q, uint64_t ino, uint64_t sub,
		 uint64_t answer)
{
	if (rc == 0 || rc == -ENOENT)
		w->visitor->answer(w->visitor->arg, q, ino, sub, rc ? 0 : answer | 1);
	else
		w->visitor->failed(w->visitor->arg, q, ino, sub, rc);
}

/* --- directories --- */

static void walk_entry(struct walk *w, uint64_t dir, const struct stet_fs_entry *e, uint64_t *list)
{
	uint64_t name = facts_hash(e->name, e->name_len);
	struct stet_dirent d;
	int rc = stet_fs_lookup(&w->ctx, dir, (struct stet_fs_name){ e->name, e->name_len }, &d);

	if (!rc && (d.ino != e->ino || d.type != e->type))
		d.ino = UINT64_MAX; /* the two do not agree: no fact */
	tell(w, rc, ASK_NAME, dir, name, stet_mix64(d.ino) + d.type);
	*list = stet_mix64(*list + name);
	add(w, e->ino);
}

static void walk_dir(struct walk *w, uint64_t ino)
{
	struct stet_fs_entry e;
	struct stet_fs_dir *it;
	uint64_t list = 1;
	int rc = stet_fs_dir_open(&w->ctx, ino, (struct stet_fs_name){ "", 0 }, &it);

	if (!rc) {
		while ((rc = stet_fs_dir_next(it, &e)) == 1 && w->names++ < NAMES_MAX)
			walk_entry(w, ino, &e, &list);
		stet_fs_dir_close(it);
	}
	tell(w, rc, ASK_LIST, ino, 0, list);
}

/* --- files --- */

static int read_at(struct walk *w, uint64_t ino, uint64_t off, size_t len, size_t *ret_len)
{
	struct stet_read_piece *pieces = calloc(PIECES, sizeof(*pieces));
	struct stet_view *pin = NULL;
	size_t done = 0, got = 0, n = 0;
	int rc = 0;

	if (!pieces)
		abort();
	do {
		rc = stet_fs_read_plan(&w->ctx, ino, off + done, len - done, w->buf + done, pieces,
				       PIECES, &n, &got, &pin);
		for (size_t i = 0; i < n && !rc; i++)
			rc = stet_cache_fill(w->v->device, &pieces[i]);
		stet_view_close(pin);
		pin = NULL;
		n = 0;
		done += rc ? 0 : got;
	} while (!rc && got > 0 && done < len);
	free(pieces);
	*ret_len = done;
	return rc;
}

static void tell_blocks(struct walk *w, uint64_t ino, uint64_t off, size_t len)
{
	for (size_t at = 0; at < len; at += STET_BLOCK_SIZE) {
		size_t n = len - at < STET_BLOCK_SIZE ? len - at : STET_BLOCK_SIZE;

		tell(w, 0, ASK_BLOCK, ino, (off + at) >> STET_BLOCK_SHIFT,
		     facts_hash(w->buf + at, n));
	}
}

/* Reads the window at off, a multiple of the block size. */
static void walk_window(struct walk *w, uint64_t ino, uint64_t off)
{
	size_t len;
	int rc = read_at(w, ino, off, WINDOW, &len);

	if (!rc) {
		tell_blocks(w, ino, off, len);
		return;
	}
	for (size_t at = 0; at < WINDOW; at += STET_BLOCK_SIZE) { /* W2 */
		rc = read_at(w, ino, off + at, STET_BLOCK_SIZE, &len);
		if (rc)
			tell(w, rc, ASK_BLOCK, ino, (off + at) >> STET_BLOCK_SHIFT, 0);
		else
			tell_blocks(w, ino, off + at, len);
	}
}

/* W3 */
static void walk_file(struct walk *w, uint64_t ino, uint64_t size)
{
	uint64_t off = 0;

	for (unsigned i = 0; i < WINDOWS_MAX && off < size; i++, off += WINDOW)
		walk_window(w, ino, off);
	for (unsigned i = 0; i < SEEKS_MAX && off < size; i++, off += WINDOW) {
		if (stet_fs_seek(&w->ctx, ino, off, false, &off) != 0)
			break;
		off &= ~(uint64_t)(STET_BLOCK_SIZE - 1);
		walk_window(w, ino, off);
	}
	if (off < size)
		walk_window(w, ino, (size - 1) & ~(uint64_t)(WINDOW - 1));
}

static void walk_link(struct walk *w, uint64_t ino)
{
	size_t len = 0;
	int rc = stet_fs_readlink(&w->ctx, ino, (char *)w->buf, WINDOW, &len);

	tell(w, rc, ASK_TARGET, ino, 0, rc ? 0 : facts_hash(w->buf, len));
}

/* --- attributes --- */

static void walk_xattrs(struct walk *w, uint64_t ino)
{
	size_t len = 0;
	int rc = stet_fs_xattr_list(&w->ctx, ino, w->list, sizeof(w->list), &len);
	unsigned count = 0;

	tell(w, rc, ASK_XATTRS, ino, 0, rc ? 0 : facts_hash(w->list, len));
	if (rc)
		return;
	for (size_t at = 0; at < len && count < XATTRS_MAX; count++) {
		size_t n = strnlen(w->list + at, len - at);
		size_t got = 0;

		rc = stet_fs_xattr_get(&w->ctx, ino, (struct stet_fs_name){ w->list + at, n },
				       w->buf, WINDOW, &got);
		tell(w, rc, ASK_XATTR, ino, facts_hash(w->list + at, n),
		     rc ? 0 : facts_hash(w->buf, got));
		at += n + 1;
	}
}

/* --- tables --- */

struct keys {
	struct walk *w;
	uint64_t ino, list, count;
};

static int read_record(struct walk *w, uint64_t ino, const struct stet_fs_record *record,
		       uint64_t *ret_answer)
{
	uint8_t *value = malloc(record->size ? record->size : 1);
	struct stet_fs_fill fill = { 0 };
	int rc;

	if (!value)
		abort();
	rc = stet_fs_record_plan(&w->ctx, ino, record, value, &fill);
	for (size_t i = 0; i < fill.count && !rc; i++)
		rc = stet_cache_fill(w->v->device, &fill.pieces[i]);
	stet_view_close(fill.pin);
	stet_free(fill.pieces);
	*ret_answer = rc ? 0 : facts_hash(value, record->size);
	free(value);
	return rc;
}

static int walk_record(void *arg, struct stet_fs_key key, const struct stet_fs_record *record)
{
	struct keys *k = arg;
	uint64_t name = facts_hash(key.bytes, key.len), answer;
	int rc = read_record(k->w, k->ino, record, &answer);

	tell(k->w, rc, ASK_RECORD, k->ino, name, answer);
	k->list = stet_mix64(k->list + name);
	k->count++;
	return k->w->names++ < NAMES_MAX ? STET_FS_RECORD_NEXT : STET_FS_RECORD_LAST;
}

static void walk_table(struct walk *w, uint64_t ino)
{
	const struct stet_fs_limits all = { .after_from = false };
	struct keys k = { .w = w, .ino = ino, .list = 1 };
	struct stet_fs_bounds left;
	uint64_t count = 0;
	int rc = stet_fs_bounds(ino, &all, &left);

	if (!rc)
		rc = stet_fs_record_scan(&w->ctx, ino, &left, false, NAMES_MAX, walk_record, &k);
	if (rc >= 0)
		rc = stet_fs_record_count(&w->ctx, ino, &count);
	tell(w, rc, ASK_KEYS, ino, 0, k.list);
}

static uint64_t hash_attr(const struct stet_fs_attr *a)
{
	const uint64_t fields[] = {
		a->ino,
		(uint64_t)a->mode << 32 | a->nlink,
		(uint64_t)a->uid << 32 | a->gid,
		a->size,
		a->blocks512,
		a->rdev,
		(uint64_t)a->atime_ns,
		(uint64_t)a->mtime_ns,
		(uint64_t)a->ctime_ns,
		(uint64_t)a->btime_ns,
		a->parent,
		a->data_version,
	};

	return facts_hash(fields, sizeof(fields));
}

static void walk_inode(struct walk *w, uint64_t ino)
{
	struct stet_fs_attr attr;
	int rc = stet_fs_getattr(&w->ctx, ino, &attr);

	tell(w, rc, ASK_ATTR, ino, 0, rc ? 0 : hash_attr(&attr));
	if (rc)
		return;
	walk_xattrs(w, ino);
	switch (attr.mode & S_IFMT) {
	case S_IFDIR:
		walk_dir(w, ino);
		break;
	case S_IFREG:
		walk_file(w, ino, attr.size);
		break;
	case S_IFLNK:
		walk_link(w, ino);
		break;
	case STET_MODE_TABLE:
		walk_table(w, ino);
		break;
	default:
		break;
	}
}

int walk_volume(struct volume *v, const uint64_t *inos, size_t n,
		const struct walk_visitor *visitor)
{
	struct walk *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		abort();
	w->todo = calloc(INODES_MAX, sizeof(*w->todo));
	w->seen = calloc(SEEN_CAP, sizeof(*w->seen));
	if (!w->todo || !w->seen)
		abort();
	w->v = v;
	w->visitor = visitor;
	w->ctx = (struct stet_fs_ctx){ .fs = v->fs };
	rc = stet_txn_begin(v->engine, STET_LEVEL_SNAPSHOT, true, &w->ctx.txn);
	if (!rc) {
		add(w, STET_ROOT_INO);
		for (size_t i = 0; i < n; i++)
			add(w, inos[i]);
		for (size_t i = 0; i < w->todo_n; i++)
			walk_inode(w, w->todo[i]);
		stet_txn_end(w->ctx.txn);
	}
	free(w->seen);
	free(w->todo);
	free(w);
	return rc;
}
