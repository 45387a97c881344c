/* model_op.c - what each operation does to a state, and what it answers.
 *
 * O1. An operation is done on a copy of the state, which replaces the state only when it succeeds.
 * O2. Errors come in the order in which the real system looks: arguments, then the directory, then the
 *     name, then what it leads to.
 * O3. Times: what is changed gets commit_ns as its ctime, data and directories as their mtime too; atime and
 *     btime of a new inode, and times that are set, are those of the operation.
 */
#include "model_internal.h"

#include "base/random.h"
#include "fs/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct call {
	struct model *m; /* the copy */
	const struct model_op *op;
	int64_t commit_ns;
	uint64_t stamp;
	struct model_result *ret;
};

bool model_kind_reads(enum model_kind kind)
{
	return kind < MODEL_MAKE;
}

bool model_op_updates(const struct model_op *op)
{
	return op->kind == MODEL_RECORD_GET && op->seed % 4 == 0;
}

void model_op_bytes(const struct model_op *op, uint8_t *out, size_t len)
{
	struct stet_random random;

	if (op->kind == MODEL_MAKE) { /* a link's target: no NUL */
		for (size_t k = 0; k < len; k++)
			out[k] = (uint8_t)('a' + (op->seed + k * 7) % 26);
		return;
	}
	if (op->seed % 16 == 0) {
		memset(out, 0, len);
		return;
	}
	stet_random_seed(&random, op->seed);
	stet_random_bytes(&random, out, len);
}

void model_result_add(struct model_result *r, const void *bytes, size_t len)
{
	size_t room = r->cap - r->len;

	len = len < room ? len : room;
	if (len > 0)
		memcpy(r->bytes + r->len, bytes, len);
	r->len += len;
}

/* --- helpers --- */

static bool is_dir(const struct model_inode *i)
{
	return S_ISDIR(i->mode);
}

static int check_name(struct model_name name)
{
	if (name.len == 0)
		return -ENOENT;
	return name.len > STET_NAME_MAX ? -ENAMETOOLONG : 0;
}

static bool is_dots(struct model_name name)
{
	return (name.len == 1 && name.bytes[0] == '.') ||
	       (name.len == 2 && name.bytes[0] == '.' && name.bytes[1] == '.');
}

static int live_dir(const struct call *c, uint64_t ino, const struct model_inode **ret)
{
	*ret = model_find(c->m, ino);
	if (!*ret)
		return -ENOENT;
	if (!is_dir(*ret))
		return -ENOTDIR;
	return (*ret)->nlink == 0 ? -ENOENT : 0;
}

static void touch_dir(struct call *c, uint64_t ino)
{
	struct model_inode *dir = model_edit_(c->m, ino);

	dir->mtime_ns = dir->ctime_ns = c->commit_ns;
	model_seal_(c->m, dir);
}

static void put_entry(struct call *c, uint64_t dir_ino, struct model_name name, uint64_t ino,
		      uint8_t type)
{
	struct model_inode *dir = model_edit_(c->m, dir_ino);

	model_add_entry(dir, name.bytes, name.len, ino, type);
	dir->size++;
	dir->subdirs += type == S_IFDIR >> 12;
	model_seal_(c->m, dir);
	touch_dir(c, dir_ino);
}

static void take_entry(struct call *c, uint64_t dir_ino, struct model_name name)
{
	struct model_inode *dir = model_edit_(c->m, dir_ino);
	uint8_t type = model_entry(dir, name.bytes, name.len)->type;

	model_remove_entry_(dir, name.bytes, name.len);
	dir->size--;
	dir->subdirs -= type == S_IFDIR >> 12;
	model_seal_(c->m, dir);
	touch_dir(c, dir_ino);
}

static void add_link(struct call *c, uint64_t ino, int add)
{
	struct model_inode *inode = model_edit_(c->m, ino);

	inode->nlink = (uint32_t)((int)inode->nlink + add);
	inode->ctime_ns = c->commit_ns;
	model_seal_(c->m, inode);
}

/* --- names --- */

static int do_lookup(struct call *c)
{
	const struct model_inode *dir = model_find(c->m, c->op->dir);
	const struct model_entry *e = NULL;
	int rc = check_name(c->op->name);

	if (rc)
		return rc;
	if (is_dots(c->op->name)) {
		rc = live_dir(c, c->op->dir, &dir);
		if (!rc)
			c->ret->ino = c->op->name.len == 2 ? dir->parent : dir->ino;
		return rc;
	}
	if (dir && is_dir(dir))
		e = model_entry(dir, c->op->name.bytes, c->op->name.len);
	if (e) {
		c->ret->ino = e->ino;
		return 0;
	}
	rc = live_dir(c, c->op->dir, &dir);
	return rc ? rc : -ENOENT;
}

static int do_list(struct call *c)
{
	const struct model_inode *dir = model_find(c->m, c->op->dir);

	if (!dir)
		return -ENOENT;
	if (!is_dir(dir))
		return -ENOTDIR;
	for (size_t k = 0; k < dir->entry_count; k++) {
		const struct model_entry *e = &dir->entries[k];

		model_result_add(c->ret, &e->ino, sizeof(e->ino));
		model_result_add(c->ret, &e->type, 1);
		model_result_add(c->ret, e->name->b, e->name->len);
		model_result_add(c->ret, "", 1);
	}
	return 0;
}

static int check_make(const struct model_op *op)
{
	if (S_ISLNK(op->mode) && op->len == 0)
		return -ENOENT;
	return S_ISLNK(op->mode) && op->len > 4095 ? -ENAMETOOLONG : 0;
}

static struct model_inode *new_inode(const struct call *c, const struct model_inode *dir)
{
	const struct model_op *op = c->op;
	struct model_inode *inode = model_inode_create(op->new_ino);
	uint8_t target[4096];

	inode->mode = op->mode;
	inode->uid = op->uid;
	inode->gid = op->gid;
	inode->nlink = 1;
	inode->rdev = S_ISCHR(op->mode) || S_ISBLK(op->mode) ? op->rdev : 0;
	inode->parent = S_ISDIR(op->mode) ? op->dir : 0;
	inode->atime_ns = inode->btime_ns = op->now_ns;
	inode->mtime_ns = inode->ctime_ns = c->commit_ns;
	inode->version = c->stamp;
	if (S_ISLNK(op->mode)) {
		model_op_bytes(op, target, op->len);
		model_set_target(inode, target, op->len);
		inode->size = op->len;
	}
	if ((dir->mode & S_ISGID) && !(op->flags & MODEL_INHERITED)) {
		inode->gid = dir->gid;
		inode->mode |= S_ISDIR(op->mode) ? S_ISGID : 0;
	}
	return inode;
}

/* What adding a name needs. */
static int check_add(const struct call *c, const struct model_inode **ret_dir)
{
	const struct model_op *op = c->op;
	uint64_t dir = op->kind == MODEL_LINK ? op->to_dir : op->dir;
	struct model_name name = op->kind == MODEL_LINK ? op->to_name : op->name;
	int rc = check_name(name);

	if (!rc && is_dots(name))
		rc = -EEXIST;
	if (!rc)
		rc = live_dir(c, dir, ret_dir);
	if (!rc && model_entry(*ret_dir, name.bytes, name.len))
		rc = -EEXIST;
	return rc;
}

static int do_make(struct call *c)
{
	const struct model_op *op = c->op;
	const struct model_inode *dir;
	int rc = check_make(op);

	if (!rc)
		rc = check_add(c, &dir);
	if (rc)
		return rc;
	model_adopt(c->m, new_inode(c, dir));
	put_entry(c, op->dir, op->name, op->new_ino, (uint8_t)((op->mode & S_IFMT) >> 12));
	c->ret->ino = op->new_ino;
	return 0;
}

static int do_link(struct call *c)
{
	const struct model_op *op = c->op;
	const struct model_inode *inode = model_find(c->m, op->ino);
	const struct model_inode *dir;
	uint8_t type;
	int rc;

	if (!inode)
		return -ENOENT;
	if (is_dir(inode))
		return -EPERM;
	if (inode->nlink == 0 && !(op->flags & MODEL_ORDERED))
		return -ENOENT;
	type = (uint8_t)((inode->mode & S_IFMT) >> 12);
	rc = check_add(c, &dir);
	if (rc)
		return rc;
	put_entry(c, op->to_dir, op->to_name, op->ino, type);
	add_link(c, op->ino, 1);
	return 0;
}

static int do_take(struct call *c, bool want_dir)
{
	const struct model_op *op = c->op;
	const struct model_inode *dir;
	const struct model_entry *e;
	int rc = check_name(op->name);

	if (rc)
		return rc;
	if (is_dots(op->name))
		return !want_dir ? -EISDIR : op->name.len == 1 ? -EINVAL : -ENOTEMPTY;
	rc = live_dir(c, op->dir, &dir);
	if (rc)
		return rc;
	e = model_entry(dir, op->name.bytes, op->name.len);
	if (!e)
		return -ENOENT;
	if (want_dir != (e->type == S_IFDIR >> 12))
		return want_dir ? -ENOTDIR : -EISDIR;
	if (want_dir && model_find(c->m, e->ino)->entry_count > 0)
		return -ENOTEMPTY;
	c->ret->ino = e->ino;
	take_entry(c, op->dir, op->name);
	add_link(c, c->ret->ino, -1);
	return 0;
}

/* --- rename --- */

static bool is_below(const struct call *c, uint64_t dir, uint64_t below)
{
	while (dir != below && dir != STET_ROOT_INO)
		dir = model_find(c->m, dir)->parent;
	return dir == below;
}

static int rename_args(const struct model_op *op)
{
	int rc;

	if (op->flags == (STET_FS_RENAME_NOREPLACE | STET_FS_RENAME_EXCHANGE))
		return -EINVAL;
	rc = check_name(op->name);
	if (!rc)
		rc = check_name(op->to_name);
	if (!rc && (is_dots(op->name) || is_dots(op->to_name)))
		rc = -EBUSY;
	return rc;
}

struct side {
	uint64_t dir, ino;
	uint8_t type;
};

/* Both directories come first, as on the way of any path. */
static int rename_sides(const struct call *c, struct side *from, struct side *to)
{
	const struct model_op *op = c->op;
	const struct model_inode *from_dir, *to_dir;
	const struct model_entry *e;
	int rc = live_dir(c, op->dir, &from_dir);

	if (!rc)
		rc = live_dir(c, op->to_dir, &to_dir);
	if (rc)
		return rc;
	e = model_entry(from_dir, op->name.bytes, op->name.len);
	if (!e)
		return -ENOENT;
	*from = (struct side){ op->dir, e->ino, e->type };
	e = model_entry(to_dir, op->to_name.bytes, op->to_name.len);
	*to = (struct side){ op->to_dir, e ? e->ino : 0, e ? e->type : 0 };
	return e || !(op->flags & STET_FS_RENAME_EXCHANGE) ? 0 : -ENOENT;
}

static int rename_move(const struct call *c, const struct side *from, const struct side *to,
		       bool exchange)
{
	bool from_dir = from->type == S_IFDIR >> 12, to_dir = to->type == S_IFDIR >> 12;

	if (from_dir && (from->dir != to->dir || from->ino == to->dir) &&
	    is_below(c, to->dir, from->ino))
		return -EINVAL;
	if (exchange || to->ino == 0)
		return 0;
	if (from_dir != to_dir)
		return from_dir ? -ENOTDIR : -EISDIR;
	return 0;
}

static void move_inode(struct call *c, const struct side *from, uint64_t to_dir)
{
	struct model_inode *inode = model_edit_(c->m, from->ino);

	inode->ctime_ns = c->commit_ns;
	if (is_dir(inode))
		inode->parent = to_dir;
	model_seal_(c->m, inode);
}

static void rename_apply(struct call *c, const struct side *from, const struct side *to,
			 bool exchange)
{
	const struct model_op *op = c->op;

	take_entry(c, op->dir, op->name);
	if (to->ino)
		take_entry(c, op->to_dir, op->to_name);
	put_entry(c, op->to_dir, op->to_name, from->ino, from->type);
	move_inode(c, from, op->to_dir);
	if (exchange) {
		put_entry(c, op->dir, op->name, to->ino, to->type);
		move_inode(c, to, op->dir);
	} else if (to->ino) {
		add_link(c, to->ino, -1);
	}
}

static int do_rename(struct call *c)
{
	const struct model_op *op = c->op;
	bool exchange = op->flags & STET_FS_RENAME_EXCHANGE;
	struct side from, to;
	int rc = rename_args(op);

	if (!rc)
		rc = rename_sides(c, &from, &to);
	if (rc)
		return rc;
	if ((op->flags & STET_FS_RENAME_NOREPLACE) && to.ino)
		return -EEXIST;
	if (to.ino == from.ino)
		return 0;
	rc = rename_move(c, &from, &to, exchange);
	if (!rc && exchange)
		rc = rename_move(c, &to, &from, true);
	if (!rc && !exchange && to.ino && to.type == S_IFDIR >> 12 &&
	    model_find(c->m, to.ino)->entry_count > 0)
		rc = -ENOTEMPTY;
	if (rc)
		return rc;
	rename_apply(c, &from, &to, exchange);
	c->ret->ino = exchange ? 0 : to.ino;
	return 0;
}

/* --- attributes --- */

void model_attr_of(const struct model_inode *i, struct model_attr *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ino = i->ino;
	ret->mode = i->mode;
	ret->uid = i->uid;
	ret->gid = i->gid;
	ret->nlink = is_dir(i) && i->nlink > 0 ? i->subdirs + 2 : i->nlink;
	ret->size = is_dir(i) ? i->size * 32 : i->size;
	ret->rdev = i->rdev;
	ret->parent = i->parent;
	ret->atime_ns = i->atime_ns;
	ret->mtime_ns = i->mtime_ns;
	ret->ctime_ns = i->ctime_ns;
	ret->btime_ns = i->btime_ns;
}

static int do_getattr(struct call *c)
{
	const struct model_inode *inode = model_find(c->m, c->op->ino);
	struct model_attr attr;

	if (!inode)
		return -ENOENT;
	model_attr_of(inode, &attr);
	model_result_add(c->ret, &attr, sizeof(attr));
	return 0;
}

static int do_readlink(struct call *c)
{
	const struct model_inode *inode = model_find(c->m, c->op->ino);

	if (!inode)
		return -ENOENT;
	if (!S_ISLNK(inode->mode))
		return -EINVAL;
	model_result_add(c->ret, inode->target->b, inode->target->len);
	return 0;
}

static int data_of(const struct call *c, const struct model_inode **ret)
{
	*ret = model_find(c->m, c->op->ino);
	if (!*ret)
		return -ENOENT;
	if (is_dir(*ret))
		return -EISDIR;
	return S_ISREG((*ret)->mode) ? 0 : -EINVAL;
}

static void touch_data(struct call *c, struct model_inode *inode)
{
	inode->mtime_ns = inode->ctime_ns = c->commit_ns;
	inode->version = c->stamp;
}

static int set_size(struct call *c, uint64_t size)
{
	const struct model_inode *there;
	struct model_inode *inode;
	int rc = data_of(c, &there);

	if (rc)
		return rc;
	if (size > STET_FILE_SIZE_MAX)
		return -EFBIG;
	inode = model_edit_(c->m, c->op->ino);
	if (size < inode->size)
		model_zero_(inode, size, inode->size + STET_BLOCK_SIZE);
	inode->shrunk = c->stamp;
	inode->size = size;
	touch_data(c, inode);
	model_seal_(c->m, inode);
	return 0;
}

static int do_setattr(struct call *c)
{
	const struct model_op *op = c->op;
	struct model_inode *inode;

	if (!model_find(c->m, op->ino))
		return -ENOENT;
	if (op->flags & STET_FS_SET_SIZE) {
		int rc = set_size(c, op->off);

		if (rc)
			return rc;
	}
	if (!(op->flags & ~STET_FS_SET_SIZE))
		return 0;
	inode = model_edit_(c->m, op->ino);
	if (op->flags & STET_FS_SET_MODE)
		inode->mode = (inode->mode & S_IFMT) | (op->mode & 07777u);
	if (op->flags & STET_FS_SET_UID)
		inode->uid = op->uid;
	if (op->flags & STET_FS_SET_GID)
		inode->gid = op->gid;
	if (op->flags & STET_FS_SET_ATIME)
		inode->atime_ns = op->atime_ns;
	if (op->flags & STET_FS_SET_MTIME)
		inode->mtime_ns = op->mtime_ns;
	inode->ctime_ns = c->commit_ns;
	model_seal_(c->m, inode);
	return 0;
}

/* --- records --- */

static int table_of(const struct call *c, const struct model_inode **ret)
{
	size_t len = c->op->name.len;

	if (c->op->kind != MODEL_RECORD_LIST && (len == 0 || len > STET_RECORD_KEY_MAX))
		return -EINVAL;
	*ret = model_find(c->m, c->op->ino);
	if (!*ret)
		return -ENOENT;
	return STET_MODE_IS_TABLE((*ret)->mode) ? 0 : -EINVAL;
}

static int do_record_get(struct call *c)
{
	const struct model_inode *table;
	const struct model_xattr *x;
	int rc = table_of(c, &table);

	if (rc)
		return rc;
	x = model_record(table, c->op->name.bytes, c->op->name.len);
	if (!x)
		return -ENOENT;
	model_result_add(c->ret, x->value->b, x->value->len);
	return 0;
}

/* Key and value of each, a zero after the key; without the value where that does not fit. */
static int do_record_list(struct call *c)
{
	const struct model_inode *table;
	int rc = table_of(c, &table);

	for (size_t k = 0; !rc && k < table->xattr_count; k++) {
		size_t at = c->op->flags & 1 ? table->xattr_count - 1 - k : k;
		const struct model_xattr *x = &table->xattrs[at];

		if (x->name->b[0] != MODEL_RECORD_MARK)
			continue;
		model_result_add(c->ret, x->name->b + 1, x->name->len - 1);
		model_result_add(c->ret, "", 1);
		if (x->value->len <= c->ret->cap - c->ret->len)
			model_result_add(c->ret, x->value->b, x->value->len);
	}
	return rc;
}

static int do_record_put(struct call *c)
{
	const struct model_op *op = c->op;
	const struct model_inode *there;
	struct model_inode *table;
	uint8_t *value;
	bool have;
	int rc = op->len > STET_RECORD_SIZE_MAX ? -E2BIG : table_of(c, &there);

	if (rc)
		return rc;
	have = model_record(there, op->name.bytes, op->name.len);
	if (have && (op->flags & STET_FS_RECORD_CREATE))
		return -EEXIST;
	if (!have && (op->flags & STET_FS_RECORD_REPLACE))
		return -ENOENT;
	value = model_alloc_(op->len);
	model_op_bytes(op, value, op->len);
	table = model_edit_(c->m, op->ino);
	model_remove_record_(table, op->name.bytes, op->name.len);
	model_add_record(table, op->name.bytes, op->name.len, value, op->len);
	table->size += !have;
	touch_data(c, table);
	model_seal_(c->m, table);
	free(value);
	return 0;
}

static int do_record_del(struct call *c)
{
	const struct model_op *op = c->op;
	const struct model_inode *there;
	struct model_inode *table;
	int rc = table_of(c, &there);

	if (rc)
		return rc;
	if (!model_record(there, op->name.bytes, op->name.len))
		return -ENOENT;
	table = model_edit_(c->m, op->ino);
	model_remove_record_(table, op->name.bytes, op->name.len);
	table->size--;
	touch_data(c, table);
	model_seal_(c->m, table);
	return 0;
}

/* --- xattrs --- */

static int do_xattr_get(struct call *c)
{
	const struct model_inode *inode = model_find(c->m, c->op->ino);
	const struct model_xattr *x;

	if (!inode)
		return -ENOENT;
	x = model_xattr(inode, c->op->name.bytes, c->op->name.len);
	if (!x)
		return -ENODATA;
	model_result_add(c->ret, x->value->b, x->value->len);
	return 0;
}

static int do_xattr_list(struct call *c)
{
	const struct model_inode *inode = model_find(c->m, c->op->ino);

	if (!inode)
		return -ENOENT;
	for (size_t k = 0; k < inode->xattr_count; k++) {
		if (inode->xattrs[k].name->b[0] == MODEL_RECORD_MARK)
			continue;
		model_result_add(c->ret, inode->xattrs[k].name->b, inode->xattrs[k].name->len);
		model_result_add(c->ret, "", 1);
	}
	return 0;
}

static int do_xattr_set(struct call *c)
{
	const struct model_op *op = c->op;
	const struct model_inode *there = model_find(c->m, op->ino);
	struct model_inode *inode;
	uint8_t *value;
	bool have;

	if (!there)
		return -ENOENT;
	have = model_xattr(there, op->name.bytes, op->name.len);
	if (have && (op->flags & STET_FS_XATTR_CREATE))
		return -EEXIST;
	if (!have && (op->flags & STET_FS_XATTR_REPLACE))
		return -ENODATA;
	value = model_alloc_(op->len);
	model_op_bytes(op, value, op->len);
	inode = model_edit_(c->m, op->ino);
	model_remove_xattr_(inode, op->name.bytes, op->name.len);
	model_add_xattr(inode, op->name.bytes, op->name.len, value, op->len);
	inode->ctime_ns = c->commit_ns;
	model_seal_(c->m, inode);
	free(value);
	return 0;
}

static int do_xattr_remove(struct call *c)
{
	const struct model_op *op = c->op;
	const struct model_inode *there = model_find(c->m, op->ino);
	struct model_inode *inode;

	if (!there)
		return -ENOENT;
	if (!model_xattr(there, op->name.bytes, op->name.len))
		return -ENODATA;
	inode = model_edit_(c->m, op->ino);
	model_remove_xattr_(inode, op->name.bytes, op->name.len);
	inode->ctime_ns = c->commit_ns;
	model_seal_(c->m, inode);
	return 0;
}

/* --- data --- */

static int do_read(struct call *c)
{
	const struct model_op *op = c->op;
	const struct model_inode *inode;
	uint64_t left;
	int rc = data_of(c, &inode);

	if (rc)
		return rc;
	left = op->off < inode->size ? inode->size - op->off : 0;
	c->ret->len = (size_t)(left < op->len ? left : op->len);
	if (c->ret->len > c->ret->cap)
		c->ret->len = c->ret->cap;
	model_read_(inode, op->off, c->ret->bytes, c->ret->len);
	return 0;
}

static int put_bytes(struct call *c, uint64_t off)
{
	struct model_inode *inode;
	uint8_t *bytes;

	if (off > STET_FILE_SIZE_MAX || c->op->len > STET_FILE_SIZE_MAX - off)
		return -EFBIG;
	if (c->op->len == 0)
		return 0;
	bytes = model_alloc_(c->op->len);
	model_op_bytes(c->op, bytes, c->op->len);
	inode = model_edit_(c->m, c->op->ino);
	model_add_bytes(inode, off, bytes, c->op->len);
	if (inode->size < off + c->op->len)
		inode->size = off + c->op->len;
	touch_data(c, inode);
	model_seal_(c->m, inode);
	free(bytes);
	return 0;
}

static int do_write(struct call *c)
{
	const struct model_inode *inode;
	int rc = data_of(c, &inode);

	return rc ? rc : put_bytes(c, c->op->kind == MODEL_APPEND ? inode->size : c->op->off);
}

static int do_punch(struct call *c)
{
	const struct model_op *op = c->op;
	const struct model_inode *there;
	struct model_inode *inode;
	int rc = data_of(c, &there);
	uint64_t end = op->off + op->len;

	if (rc)
		return rc;
	if (op->off >= there->size)
		return 0;
	inode = model_edit_(c->m, op->ino);
	model_zero_(inode, op->off, end < inode->size ? end : inode->size);
	inode->shrunk = c->stamp;
	touch_data(c, inode);
	model_seal_(c->m, inode);
	return 0;
}

/* --- all of them --- */

static int dispatch(struct call *c)
{
	switch (c->op->kind) {
	case MODEL_LOOKUP:
		return do_lookup(c);
	case MODEL_LIST:
		return do_list(c);
	case MODEL_GETATTR:
		return do_getattr(c);
	case MODEL_READ:
		return do_read(c);
	case MODEL_READLINK:
		return do_readlink(c);
	case MODEL_XATTR_GET:
		return do_xattr_get(c);
	case MODEL_XATTR_LIST:
		return do_xattr_list(c);
	case MODEL_MAKE:
		return do_make(c);
	case MODEL_UNLINK:
		return do_take(c, false);
	case MODEL_RMDIR:
		return do_take(c, true);
	case MODEL_LINK:
		return do_link(c);
	case MODEL_RENAME:
		return do_rename(c);
	case MODEL_SETATTR:
		return do_setattr(c);
	case MODEL_XATTR_SET:
		return do_xattr_set(c);
	case MODEL_XATTR_REMOVE:
		return do_xattr_remove(c);
	case MODEL_RECORD_GET:
		return do_record_get(c);
	case MODEL_RECORD_LIST:
		return do_record_list(c);
	case MODEL_RECORD_PUT:
		return do_record_put(c);
	case MODEL_RECORD_DEL:
		return do_record_del(c);
	case MODEL_WRITE:
	case MODEL_APPEND:
		return do_write(c);
	case MODEL_TRUNCATE:
		return set_size(c, c->op->off);
	case MODEL_PUNCH:
		return do_punch(c);
	case MODEL_KINDS:
		break;
	}
	return -EINVAL;
}

void model_apply(struct model **m, const struct model_op *op, int64_t commit_ns, uint64_t stamp,
		 struct model_result *ret)
{
	struct call c = { model_copy_(*m), op, commit_ns, stamp, ret };

	ret->ino = 0;
	ret->len = 0;
	ret->rc = dispatch(&c);
	if (ret->rc || model_kind_reads(op->kind)) { /* O1 */
		model_put(c.m);
		return;
	}
	model_put(*m);
	*m = c.m;
}
