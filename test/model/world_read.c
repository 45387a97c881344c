/* world_read.c - the whole tree as the real system shows it, as a state of the model.
 *
 * It goes by names from the root, so what has no name is not there; each inode is read once, however many
 * names it has. Reading goes through the same calls as any program's.
 */
#include "model_internal.h"
#include "world.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK ((size_t)64 << 10)
#define SKIP_HOLES_FROM (UINT64_C(1) << 20) /* larger files are read by their data only */

struct reader {
	struct world *w;
	struct stet_fs_ctx ctx;
	struct model *m;
	struct model_result r;
	uint64_t *todo; /* directories to be read */
	size_t todo_count, todo_cap;
	struct stet_ticket ticket;
};

static int read_range(struct reader *rd, struct model_inode *inode, uint64_t off, uint64_t end)
{
	struct stet_read_piece pieces[4];
	int rc = 0;

	while (off < end && !rc) {
		size_t len = end - off < CHUNK ? (size_t)(end - off) : CHUNK;
		struct stet_view *pin = NULL;
		size_t count = 0, got = 0;

		rc = stet_fs_read_plan(&rd->ctx, inode->ino, off, len, rd->r.bytes, pieces, 4,
				       &count, &got, &pin);
		for (size_t k = 0; k < count && !rc; k++)
			rc = stet_cache_fill(rd->w->device, &pieces[k]);
		stet_view_close(pin);
		if (!rc && (got == 0 || got > len))
			rc = STET_FAIL(-EUCLEAN, "a read of %zu bytes gave %zu", len, got);
		if (!rc)
			model_add_bytes(inode, off, rd->r.bytes, got);
		off += got;
	}
	return rc;
}

static int read_data(struct reader *rd, struct model_inode *inode)
{
	uint64_t at = 0;
	int rc = 0;

	if (inode->size < SKIP_HOLES_FROM)
		return read_range(rd, inode, 0, inode->size);
	while (at < inode->size && !rc) {
		uint64_t data, hole = 0;

		rc = stet_fs_seek(&rd->ctx, inode->ino, at, false, &data);
		if (rc == -ENXIO)
			return 0;
		if (!rc)
			rc = stet_fs_seek(&rd->ctx, inode->ino, data, true, &hole);
		if (!rc && (data < at || hole <= data || hole > inode->size))
			rc = STET_FAIL(-EUCLEAN, "seek from %llu: data %llu, hole %llu",
				       (unsigned long long)at, (unsigned long long)data,
				       (unsigned long long)hole);
		if (!rc)
			rc = read_range(rd, inode, data, hole);
		at = hole;
	}
	return rc;
}

static int read_xattrs(struct reader *rd, struct model_inode *inode)
{
	char names[8192];
	size_t len;
	int rc = stet_fs_xattr_list(&rd->ctx, inode->ino, names, sizeof(names), &len);

	for (size_t at = 0; !rc && at < len; at += strlen(names + at) + 1) {
		struct stet_fs_name name = { names + at, strlen(names + at) };
		size_t value_len;

		rc = stet_fs_xattr_get(&rd->ctx, inode->ino, name, rd->r.bytes, rd->r.cap,
				       &value_len);
		if (!rc)
			model_add_xattr(inode, name.bytes, name.len, rd->r.bytes, value_len);
	}
	return rc;
}

struct records {
	struct reader *rd;
	struct model_inode *inode;
};

static int take_record(void *arg, struct stet_fs_key key, const struct stet_fs_record *record)
{
	struct records *r = arg;
	struct stet_fs_fill fill;
	int rc = stet_fs_record_plan(&r->rd->ctx, r->inode->ino, record, r->rd->r.bytes, &fill);

	for (size_t k = 0; k < fill.count && !rc; k++)
		rc = stet_cache_fill(r->rd->w->device, &fill.pieces[k]);
	stet_view_close(fill.pin);
	stet_free(fill.pieces);
	if (!rc)
		model_add_record(r->inode, key.bytes, key.len, r->rd->r.bytes, record->size);
	return rc;
}

static int read_records(struct reader *rd, struct model_inode *inode)
{
	const struct stet_fs_limits all = { .after_from = false };
	struct records r = { rd, inode };
	struct stet_fs_bounds left;
	int rc = stet_fs_bounds(inode->ino, &all, &left);

	while (!rc) {
		rc = stet_fs_record_scan(&rd->ctx, inode->ino, &left, false, 100, take_record, &r);
		if (rc != 1)
			return rc;
		rc = 0;
	}
	return rc;
}

static void take_attr(struct model_inode *inode, const struct stet_fs_attr *a)
{
	bool dir = S_ISDIR(a->mode);

	inode->mode = a->mode;
	inode->uid = a->uid;
	inode->gid = a->gid;
	inode->nlink = dir ? 1 : a->nlink;
	inode->subdirs = dir ? a->nlink - 2 : 0;
	inode->size = dir ? a->size / 32 : a->size;
	inode->rdev = a->rdev;
	inode->parent = a->parent;
	inode->atime_ns = a->atime_ns;
	inode->mtime_ns = a->mtime_ns;
	inode->ctime_ns = a->ctime_ns;
	inode->btime_ns = a->btime_ns;
}

static void push_dir(struct reader *rd, uint64_t ino)
{
	if (rd->todo_count == rd->todo_cap) {
		rd->todo_cap = rd->todo_cap ? 2 * rd->todo_cap : 64;
		rd->todo = model_realloc_(rd->todo, rd->todo_cap * sizeof(*rd->todo));
	}
	rd->todo[rd->todo_count++] = ino;
}

/* The inode without its entries. */
static int read_inode(struct reader *rd, uint64_t ino)
{
	struct model_inode *inode = model_inode_create(ino);
	struct stet_fs_attr a;
	int rc = stet_fs_getattr(&rd->ctx, ino, &a);

	if (!rc)
		take_attr(inode, &a);
	if (!rc && S_ISREG(a.mode))
		rc = read_data(rd, inode);
	if (!rc && S_ISLNK(a.mode)) {
		rc = stet_fs_readlink(&rd->ctx, ino, (char *)rd->r.bytes, rd->r.cap, &rd->r.len);
		if (!rc)
			model_set_target(inode, rd->r.bytes, rd->r.len);
	}
	if (!rc)
		rc = read_xattrs(rd, inode);
	if (!rc && STET_MODE_IS_TABLE(a.mode))
		rc = read_records(rd, inode);
	if (rc) {
		model_inode_put(inode);
		return rc;
	}
	model_adopt(rd->m, inode);
	if (S_ISDIR(a.mode))
		push_dir(rd, ino);
	return 0;
}

static int read_dir(struct reader *rd, uint64_t ino)
{
	struct stet_fs_dir *it;
	struct stet_fs_entry e;
	int rc = stet_fs_dir_open(&rd->ctx, ino, (struct stet_fs_name){ "", 0 }, &it);

	if (rc)
		return rc;
	while ((rc = stet_fs_dir_next(it, &e)) == 1) {
		struct model_inode *dir = model_edit_(rd->m, ino);

		model_add_entry(dir, e.name, e.name_len, e.ino, e.type);
		model_seal_(rd->m, dir);
		if (model_find(rd->m, e.ino))
			continue;
		rc = read_inode(rd, e.ino);
		if (rc)
			break;
	}
	stet_fs_dir_close(it);
	return rc;
}

int world_read_tree(struct world *w, struct stet_txn *txn, struct model **ret)
{
	struct reader rd = { .w = w, .ctx = { .fs = w->fs, .txn = txn, .ticket = &rd.ticket } };
	int rc = 0;

	rd.r.cap = WORLD_BYTES_MAX;
	rd.r.bytes = model_alloc_(rd.r.cap);
	rd.m = model_create_empty();
	stet_ticket_init(&rd.ticket, NULL, NULL);
	if (!txn)
		rc = stet_txn_begin(w->engine, STET_LEVEL_PLAIN, true, &rd.ctx.txn);
	if (!rc)
		rc = read_inode(&rd, STET_ROOT_INO);
	while (!rc && rd.todo_count > 0)
		rc = read_dir(&rd, rd.todo[--rd.todo_count]);
	if (!txn)
		stet_txn_end(rd.ctx.txn);
	free(rd.todo);
	free(rd.r.bytes);
	if (rc)
		model_put(rd.m);
	else
		*ret = rd.m;
	return rc;
}
