/* attr.c - attributes and extended attributes, by path and by inode number. */
#include "api/api_internal.h"

#include <string.h>
#include <sys/stat.h>

#define KNOWN_SETS                                                                      \
	(STET_SET_MODE | STET_SET_UID | STET_SET_GID | STET_SET_SIZE | STET_SET_ATIME | \
	 STET_SET_MTIME | STET_SET_ATIME_NOW | STET_SET_MTIME_NOW)

int stet_api_getattr_(struct stet_api_op *op, uint64_t ino, struct stet_fs_attr *ret)
{
	int rc = stet_api_read_gate_(op, ino);

	return rc ? rc : stet_fs_getattr(&op->ctx, ino, ret);
}

int stet_api_stat_(struct stet_api_op *op, uint64_t ino, struct stet_stat *ret)
{
	struct stet_fs_attr attr;
	int rc = stet_api_getattr_(op, ino, &attr);

	if (rc)
		return rc;
	*ret = (struct stet_stat){
		.ino = attr.ino,
		.mode = attr.mode,
		.nlink = attr.nlink,
		.uid = attr.uid,
		.gid = attr.gid,
		.rdev = attr.rdev,
		.size = attr.size,
		.blocks = attr.blocks512,
		.atime_ns = attr.atime_ns,
		.mtime_ns = attr.mtime_ns,
		.ctime_ns = attr.ctime_ns,
		.btime_ns = attr.btime_ns,
		.parent = attr.parent,
		.data_version = attr.data_version,
	};
	return 0;
}

int stet_api_setattr_(struct stet_api_op *op, uint64_t ino, const struct stet_setattr *attr)
{
	int64_t now_ns = stet_clock_wall_ns(op->vol->clock);
	struct stet_fs_attr to = {
		.mode = attr->mode,
		.uid = attr->uid,
		.gid = attr->gid,
		.size = attr->size,
		.atime_ns = attr->set & STET_SET_ATIME_NOW ? now_ns : attr->atime_ns,
		.mtime_ns = attr->set & STET_SET_MTIME_NOW ? now_ns : attr->mtime_ns,
	};
	static const unsigned below[][2] = {
		{ STET_SET_MODE, STET_FS_SET_MODE },
		{ STET_SET_UID, STET_FS_SET_UID },
		{ STET_SET_GID, STET_FS_SET_GID },
		{ STET_SET_SIZE, STET_FS_SET_SIZE },
		{ STET_SET_ATIME, STET_FS_SET_ATIME },
		{ STET_SET_MTIME, STET_FS_SET_MTIME },
		{ STET_SET_ATIME_NOW, STET_FS_SET_ATIME },
		{ STET_SET_MTIME_NOW, STET_FS_SET_MTIME },
	};
	unsigned set = 0;
	int rc = 0;

	if (attr->set & ~KNOWN_SETS)
		return STET_FAIL(-EINVAL, "unknown attributes 0x%x", attr->set);
	if ((attr->set & STET_SET_SIZE) && attr->size > INT64_MAX)
		return STET_FAIL(-EFBIG, "beyond the largest file size");
	for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
		if (attr->set & below[i][0])
			set |= below[i][1];
	if (attr->set & STET_SET_SIZE) {
		rc = stet_api_data_gate_(op, ino, false);
		if (!rc)
			rc = stet_api_note_dirty_(op, ino, attr->size);
	}
	return rc ? rc : stet_fs_setattr(&op->ctx, ino, set, &to);
}

/* --- by path --- */

struct at {
	uint64_t dir;
	const char *path;
	unsigned flags;
	const char *name; /* of an xattr */
	void *buf;
	const void *value;
	size_t len; /* of buf or value */
	size_t got;
	const struct stet_setattr *attr;
	struct stet_stat *stat;
};

static int find(struct stet_api_op *op, const struct at *at, uint64_t *ret_ino)
{
	struct stet_api_place place;
	int rc = stet_api_find_(op, at->dir, at->path, !(at->flags & STET_AT_NOFOLLOW), &place);

	if (!rc)
		*ret_ino = place.ino;
	return rc;
}

static int stat_at(struct stet_api_op *op, void *arg)
{
	struct at *at = arg;
	uint64_t ino;
	int rc = find(op, at, &ino);

	return rc ? rc : stet_api_stat_(op, ino, at->stat);
}

int stet_statat(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		unsigned flags, struct stet_stat *ret)
{
	struct stet_stat stat;
	struct at at = { .dir = dir, .path = path, .flags = flags, .stat = &stat };
	int rc = stet_api_check_flags_(flags, STET_AT_NOFOLLOW);

	if (!rc)
		rc = stet_api_run_(vol, txn, STET_API_READ, stat_at, NULL, &at);
	if (!rc)
		*ret = stat;
	return rc;
}

static int setattr_at(struct stet_api_op *op, void *arg)
{
	struct at *at = arg;
	uint64_t ino;
	int rc = find(op, at, &ino);

	if (rc)
		return rc;
	struct stet_setattr to = *at->attr;
	rc = stet_api_permit_setattr_(op, ino, &to);
	return rc ? rc : stet_api_setattr_(op, ino, &to);
}

int stet_setattrat(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		   unsigned flags, const struct stet_setattr *attr)
{
	struct at at = { .dir = dir, .path = path, .flags = flags, .attr = attr };
	int rc = stet_api_check_flags_(flags, STET_AT_NOFOLLOW);

	return rc ? rc : stet_api_run_(vol, txn, 0, setattr_at, NULL, &at);
}

static int getxattr_at(struct stet_api_op *op, void *arg)
{
	struct at *at = arg;
	uint64_t ino;
	int rc = find(op, at, &ino);

	if (!rc)
		rc = stet_api_permit_xattr_(op, ino, at->name, false, NULL);
	return rc ? rc
		  : stet_fs_xattr_get(&op->ctx, ino, stet_api_name_(at->name, strlen(at->name)),
				      at->buf, at->len, &at->got);
}

ssize_t stet_getxattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		      unsigned flags, const char *name, void *buf, size_t cap)
{
	struct at at = {
		.dir = dir, .path = path, .flags = flags, .name = name, .buf = buf, .len = cap
	};
	int rc = stet_api_check_flags_(flags, STET_AT_NOFOLLOW);

	if (!rc)
		rc = stet_api_run_(vol, txn, STET_API_READ, getxattr_at, NULL, &at);
	return rc ? rc : (ssize_t)at.got;
}

static unsigned xattr_flags(unsigned flags)
{
	return (flags & STET_XATTR_CREATE ? STET_FS_XATTR_CREATE : 0) |
	       (flags & STET_XATTR_REPLACE ? STET_FS_XATTR_REPLACE : 0);
}

static int setxattr_at(struct stet_api_op *op, void *arg)
{
	struct at *at = arg;
	bool kill_sgid = at->flags & STET_LL_KILL_SGID;
	uint64_t ino;
	int rc = find(op, at, &ino);

	if (!rc)
		rc = stet_api_permit_xattr_(op, ino, at->name, true, &kill_sgid);
	return rc ? rc
		  : stet_fs_xattr_set(&op->ctx, ino, stet_api_name_(at->name, strlen(at->name)),
				      at->value, at->len,
				      xattr_flags(at->flags) |
					      (kill_sgid ? STET_FS_XATTR_KILL_SGID : 0));
}

int stet_setxattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		  unsigned flags, const char *name, const void *value, size_t len)
{
	struct at at = {
		.dir = dir, .path = path, .flags = flags, .name = name, .value = value, .len = len
	};
	int rc = stet_api_check_flags_(flags,
				       STET_AT_NOFOLLOW | STET_XATTR_CREATE | STET_XATTR_REPLACE);

	return rc ? rc : stet_api_run_(vol, txn, 0, setxattr_at, NULL, &at);
}

static int listxattr_at(struct stet_api_op *op, void *arg)
{
	struct at *at = arg;
	uint64_t ino;
	int rc = find(op, at, &ino);

	return rc ? rc : stet_fs_xattr_list(&op->ctx, ino, at->buf, at->len, &at->got);
}

ssize_t stet_listxattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		       unsigned flags, char *buf, size_t cap)
{
	struct at at = { .dir = dir, .path = path, .flags = flags, .buf = buf, .len = cap };
	int rc = stet_api_check_flags_(flags, STET_AT_NOFOLLOW);

	if (!rc)
		rc = stet_api_run_(vol, txn, STET_API_READ, listxattr_at, NULL, &at);
	return rc ? rc : (ssize_t)at.got;
}

static int removexattr_at(struct stet_api_op *op, void *arg)
{
	struct at *at = arg;
	uint64_t ino;
	int rc = find(op, at, &ino);

	if (!rc)
		rc = stet_api_permit_xattr_(op, ino, at->name, true, NULL);
	return rc ? rc
		  : stet_fs_xattr_remove(&op->ctx, ino, stet_api_name_(at->name, strlen(at->name)));
}

int stet_removexattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		     unsigned flags, const char *name)
{
	struct at at = { .dir = dir, .path = path, .flags = flags, .name = name };
	int rc = stet_api_check_flags_(flags, STET_AT_NOFOLLOW);

	return rc ? rc : stet_api_run_(vol, txn, 0, removexattr_at, NULL, &at);
}

/* --- by inode number --- */

static int ll_stat(struct stet_api_op *op, void *arg)
{
	struct at *at = arg;
	int rc = stet_api_stat_(op, at->dir, at->stat);

	if (!rc && (at->flags & STET_LL_HOLD))
		rc = stet_fs_hold(op->vol->fs, at->dir);
	return rc;
}

int stet_ll_getattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, unsigned flags,
		    struct stet_stat *ret)
{
	struct stet_stat stat;
	struct at at = { .dir = ino, .flags = flags, .stat = &stat };
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT | STET_LL_HOLD);

	if (!rc)
		rc = stet_api_run_(vol, txn, flags | STET_API_READ, ll_stat, NULL, &at);
	if (!rc)
		*ret = stat;
	return rc;
}

static int ll_setattr(struct stet_api_op *op, void *arg)
{
	struct at *at = arg;

	return stet_api_setattr_(op, at->dir, at->attr);
}

int stet_ll_setattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino,
		    const struct stet_setattr *attr, unsigned flags, struct stet_stat *ret)
{
	struct stet_stat stat;
	struct at at = { .dir = ino, .attr = attr, .stat = &stat };
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	if (!rc)
		rc = stet_api_run_(vol, txn, flags, ll_setattr, ret ? ll_stat : NULL, &at);
	if (!rc && ret)
		*ret = stat;
	return rc;
}

struct access {
	uint64_t ino;
	unsigned flags;
	bool is_due;
};

static int ll_accessed(struct stet_api_op *op, void *arg)
{
	struct access *a = arg;
	int rc;

	op->ctx.ticket = NULL;
	rc = stet_fs_accessed(&op->ctx, a->ino, a->flags);
	a->is_due = rc == 1;
	return rc < 0 ? rc : 0;
}

int stet_ll_accessed(struct stet_volume *vol, uint64_t ino, unsigned flags)
{
	_Static_assert(STET_LL_ACCESS_ALWAYS == STET_FS_ACCESS_ALWAYS &&
			       STET_LL_ACCESS_LOOK == STET_FS_ACCESS_LOOK,
		       "flags are handed down");
	struct access a = { .ino = ino, .flags = flags };
	int rc = stet_api_check_flags_(flags, STET_LL_ACCESS_ALWAYS | STET_LL_ACCESS_LOOK);

	if (!rc)
		rc = stet_api_run_(vol, NULL, STET_LL_NOWAIT, ll_accessed, NULL, &a);
	switch (rc) {
	case 0:
		return a.is_due;
	case -EBUSY:
	case -ENOSPC:
	case -EROFS:
		return 0;
	default:
		return rc;
	}
}

/* The empty path is the inode itself. */
static struct at at_ino(uint64_t ino, unsigned flags, const char *name)
{
	return (struct at){ .dir = ino, .path = "", .flags = flags, .name = name };
}

ssize_t stet_ll_getxattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino,
			 const char *name, unsigned flags, void *buf, size_t cap)
{
	struct at at = at_ino(ino, 0, name);
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	at.buf = buf;
	at.len = cap;
	if (!rc)
		rc = stet_api_run_(vol, txn, flags | STET_API_READ, getxattr_at, NULL, &at);
	return rc ? rc : (ssize_t)at.got;
}

int stet_ll_setxattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, const char *name,
		     const void *value, size_t len, unsigned flags)
{
	struct at at = at_ino(ino, flags, name);
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT | STET_LL_KILL_SGID |
						      STET_XATTR_CREATE | STET_XATTR_REPLACE);

	at.value = value;
	at.len = len;
	return rc ? rc : stet_api_run_(vol, txn, flags, setxattr_at, NULL, &at);
}

ssize_t stet_ll_listxattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino,
			  unsigned flags, char *buf, size_t cap)
{
	struct at at = at_ino(ino, 0, NULL);
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	at.buf = buf;
	at.len = cap;
	if (!rc)
		rc = stet_api_run_(vol, txn, flags | STET_API_READ, listxattr_at, NULL, &at);
	return rc ? rc : (ssize_t)at.got;
}

int stet_ll_removexattr(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino,
			const char *name, unsigned flags)
{
	struct at at = at_ino(ino, 0, name);
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	return rc ? rc : stet_api_run_(vol, txn, flags, removexattr_at, NULL, &at);
}
