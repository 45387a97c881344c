/* conflict.c - facets of operations.
 *
 * C1. Reads have facets only where reads can be refused or refuse others: at LOCKING (locks) and
 *     SERIALIZABLE (validation).
 * C2. What can end an inode conflicts with everything on it: removing a directory, or taking a name that
 *     may be the last.
 * C3. Appends commute with each other, link counts and times of directories commute with everything but
 *     reading them.
 */
#include "conflict.h"

#include "fs/fs.h"

#include <sys/stat.h>

struct list {
	struct facet *v;
	size_t n;
	bool reads; /* C1 */
};

static uint64_t hash_name(struct model_name name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t k = 0; k < name.len; k++)
		h = (h ^ (uint8_t)name.bytes[k]) * UINT64_C(0x100000001b3);
	return h;
}

static void add(struct list *l, uint64_t ino, enum facet_kind kind, enum facet_mode mode,
		uint64_t sub)
{
	if (mode == FACET_READ && !l->reads)
		return;
	if (l->n < FACETS_MAX)
		l->v[l->n++] = (struct facet){ ino, sub, (uint8_t)kind, (uint8_t)mode };
}

static const struct model_entry *find_entry(const struct model *m, uint64_t dir_ino,
					    struct model_name name)
{
	const struct model_inode *dir = model_find(m, dir_ino);

	return dir && S_ISDIR(dir->mode) ? model_entry(dir, name.bytes, name.len) : NULL;
}

static void change_name(struct list *l, uint64_t dir, struct model_name name)
{
	add(l, dir, FACET_EXISTS, FACET_SHARE, 0);
	add(l, dir, FACET_NAME, FACET_WRITE, hash_name(name));
	add(l, dir, FACET_MODE, FACET_READ, 0);
}

static void drop_inode(struct list *l, const struct model_entry *e)
{
	if (!e)
		return;
	add(l, e->ino, FACET_EXISTS, FACET_WRITE, 0); /* C2 */
	add(l, e->ino, FACET_NLINK, FACET_ADD, 0);
}

static void move_inode(struct list *l, const struct model_entry *e, bool other_dir)
{
	if (!e)
		return;
	add(l, e->ino, FACET_EXISTS, FACET_SHARE, 0);
	add(l, e->ino, FACET_NLINK, FACET_ADD, 0); /* its ctime */
	if (e->type != S_IFDIR >> 12 || !other_dir)
		return;
	add(l, e->ino, FACET_PARENT, FACET_WRITE, 0);
	add(l, 0, FACET_TREE, FACET_WRITE, 0);
}

static void rename_facets(struct list *l, const struct model *m, const struct model_op *op)
{
	const struct model_entry *from = find_entry(m, op->dir, op->name);
	const struct model_entry *to = find_entry(m, op->to_dir, op->to_name);

	change_name(l, op->dir, op->name);
	change_name(l, op->to_dir, op->to_name);
	move_inode(l, from, op->dir != op->to_dir);
	if (op->flags & STET_FS_RENAME_EXCHANGE)
		move_inode(l, to, op->dir != op->to_dir);
	else
		drop_inode(l, to);
}

static void setattr_facets(struct list *l, const struct model_op *op)
{
	add(l, op->ino, FACET_EXISTS, FACET_SHARE, 0);
	if (op->flags & (STET_FS_SET_MODE | STET_FS_SET_UID | STET_FS_SET_GID))
		add(l, op->ino, FACET_MODE, FACET_WRITE, 0);
	if (op->flags & (STET_FS_SET_ATIME | STET_FS_SET_MTIME))
		add(l, op->ino, FACET_TIMES, FACET_WRITE, 0);
	if (op->flags & STET_FS_SET_SIZE)
		add(l, op->ino, FACET_DATA, FACET_WRITE, 0);
}

static void read_facets(struct list *l, const struct model_op *op)
{
	switch (op->kind) {
	case MODEL_LOOKUP:
		add(l, op->dir, FACET_EXISTS, FACET_READ, 0);
		add(l, op->dir, FACET_PARENT, FACET_READ, 0);
		add(l, op->dir, FACET_NAME, FACET_READ, hash_name(op->name));
		break;
	case MODEL_LIST:
		add(l, op->dir, FACET_EXISTS, FACET_READ, 0);
		add(l, op->dir, FACET_DIR, FACET_READ, 0);
		break;
	case MODEL_READ:
		add(l, op->ino, FACET_EXISTS, FACET_READ, 0);
		add(l, op->ino, FACET_DATA, FACET_READ, 0);
		break;
	case MODEL_RECORD_GET:
		add(l, op->ino, FACET_EXISTS, FACET_READ, 0);
		add(l, op->ino, FACET_RECORD, FACET_READ, hash_name(op->name));
		break;
	case MODEL_RECORD_LIST:
		add(l, op->ino, FACET_EXISTS, FACET_READ, 0);
		add(l, op->ino, FACET_RECORDS, FACET_READ, 0);
		break;
	case MODEL_READLINK:
		add(l, op->ino, FACET_EXISTS, FACET_READ, 0);
		break;
	default:
		add(l, op->ino, FACET_ANY, FACET_READ, 0);
		break;
	}
}

static void data_facets(struct list *l, const struct model_op *op, bool big_append)
{
	bool append = op->kind == MODEL_APPEND && !big_append;

	add(l, op->ino, FACET_EXISTS, FACET_SHARE, 0);
	add(l, op->ino, FACET_DATA, append ? FACET_ADD : FACET_WRITE, 0);
}

size_t facets_of(const struct model *m, enum stet_level level, const struct model_op *op,
		 bool big_append, struct facet ret[FACETS_MAX])
{
	struct list l = { ret, 0, level == STET_LEVEL_SERIALIZABLE || level == STET_LEVEL_LOCKING };

	switch (op->kind) {
	case MODEL_MAKE:
		change_name(&l, op->dir, op->name);
		break;
	case MODEL_UNLINK:
	case MODEL_RMDIR:
		change_name(&l, op->dir, op->name);
		drop_inode(&l, find_entry(m, op->dir, op->name));
		break;
	case MODEL_LINK:
		change_name(&l, op->to_dir, op->to_name);
		add(&l, op->ino, FACET_EXISTS, FACET_SHARE, 0);
		add(&l, op->ino, FACET_NLINK, FACET_ADD, 0);
		break;
	case MODEL_RENAME:
		rename_facets(&l, m, op);
		break;
	case MODEL_SETATTR:
		setattr_facets(&l, op);
		break;
	case MODEL_XATTR_SET:
	case MODEL_XATTR_REMOVE:
		add(&l, op->ino, FACET_EXISTS, FACET_SHARE, 0);
		add(&l, op->ino, FACET_XATTR, FACET_WRITE, hash_name(op->name));
		break;
	case MODEL_RECORD_PUT:
	case MODEL_RECORD_DEL:
		add(&l, op->ino, FACET_EXISTS, FACET_SHARE, 0);
		add(&l, op->ino, FACET_RECORD, FACET_WRITE, hash_name(op->name));
		break;
	case MODEL_RECORD_GET:
		read_facets(&l, op);
		if (level == STET_LEVEL_LOCKING && model_op_updates(op))
			add(&l, op->ino, FACET_RECORD, FACET_WRITE, hash_name(op->name));
		break;
	case MODEL_WRITE:
	case MODEL_APPEND:
	case MODEL_TRUNCATE:
	case MODEL_PUNCH:
		data_facets(&l, op, big_append);
		break;
	default:
		read_facets(&l, op);
		break;
	}
	return l.n;
}

static bool one_way(const struct facet *a, const struct facet *b)
{
	if (a->kind == FACET_EXISTS && a->mode == FACET_WRITE)
		return true; /* C2 */
	if (a->kind == FACET_ANY)
		return b->mode == FACET_WRITE || b->mode == FACET_ADD;
	if (a->kind == FACET_RECORDS && b->kind == FACET_RECORD)
		return b->mode == FACET_WRITE;
	return a->kind == FACET_DIR && b->kind == FACET_NAME && b->mode == FACET_WRITE;
}

static bool conflict(const struct facet *a, const struct facet *b)
{
	uint8_t low = a->mode < b->mode ? a->mode : b->mode;
	uint8_t high = a->mode < b->mode ? b->mode : a->mode;

	if (a->ino != b->ino)
		return false;
	if (one_way(a, b) || one_way(b, a))
		return true;
	if (a->kind != b->kind || a->sub != b->sub)
		return false;
	return high == FACET_WRITE || (high == FACET_ADD && low == FACET_READ);
}

bool facets_conflict(const struct facet *a, size_t a_count, const struct facet *b, size_t b_count)
{
	for (size_t i = 0; i < a_count; i++)
		for (size_t k = 0; k < b_count; k++)
			if (conflict(&a[i], &b[k]))
				return true;
	return false;
}

bool facet_list_has(const struct facet *list, size_t count, uint64_t ino, enum facet_kind kind,
		    enum facet_mode mode)
{
	for (size_t k = 0; k < count; k++)
		if (list[k].ino == ino && list[k].kind == kind && list[k].mode == mode)
			return true;
	return false;
}
