/* names.c - making, linking, renaming and removing by path and by inode number. */
#include "api/api_internal.h"

#include "format/types.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define PERMISSIONS 07777u

struct names {
	uint64_t dir, to_dir;
	const char *path, *to;
	unsigned flags;
	struct stet_fs_new what;
	char *buf;
	size_t cap, len;
	uint64_t ino; /* found or made */
	struct stet_stat *stat;
	bool hold;
	bool open; /* what is made, with these flags of stet_ll_open_lock */
	unsigned open_flags;
	struct stet_ll_lock *lock;
};

static unsigned rename_flags(unsigned flags)
{
	return (flags & STET_RENAME_NOREPLACE ? STET_FS_RENAME_NOREPLACE : 0) |
	       (flags & STET_RENAME_EXCHANGE ? STET_FS_RENAME_EXCHANGE : 0);
}

struct stet_fs_new stet_api_new_(const struct stet_volume *vol, uint32_t mode)
{
	struct stet_fs_new what = { .mode = mode };

	const struct stet_ll_who *who = stet_api_who_();

	if (vol) { /* else the operation will say so */
		what.uid = who ? who->uid : vol->uid;
		what.gid = who ? who->gid : vol->gid;
	}
	return what;
}

int stet_api_make_(struct stet_api_op *op, uint64_t dir, const char *name,
		   const struct stet_fs_new *what, uint64_t *ret_ino)
{
	int rc = stet_api_check_new_(dir, name);

	return rc ? rc
		  : stet_fs_make(&op->ctx, dir, stet_api_name_(name, strlen(name)), what, ret_ino);
}

/* As make, if whom it is made for may. */
int stet_api_make_for_(struct stet_api_op *op, const struct stet_api_place *place,
		       const struct stet_fs_new *what, uint64_t *ret_ino)
{
	struct stet_fs_new to = *what;
	int rc = stet_api_permit_make_(op, place->dir, &to);

	return rc ? rc : stet_api_make_(op, place->dir, place->name, &to, ret_ino);
}

int stet_api_readlink_(struct stet_api_op *op, uint64_t ino, char *buf, size_t cap, size_t *ret_len)
{
	char target[STET_API_PATH_MAX];
	size_t len = 0;
	int rc = stet_fs_readlink(&op->ctx, ino, target, sizeof(target) - 1, &len);

	if (rc)
		return rc;
	if (len >= cap)
		return STET_FAIL(-ERANGE, "a link of %zu bytes", len);
	memcpy(buf, target, len);
	buf[len] = 0;
	*ret_len = len;
	return 0;
}

static int check_target(const char *target)
{
	size_t len = strlen(target);

	if (len > STET_SYMLINK_MAX)
		return STET_FAIL(-ENAMETOOLONG, "a link of %zu bytes", len);
	return len == 0 ? STET_FAIL(-ENOENT, "an empty link") : 0;
}

/* --- by path --- */

/* A place where a name may be made. dir_ok: the path may end in a slash. */
static int find_free(struct stet_api_op *op, uint64_t dir, const char *path, bool dir_ok,
		     struct stet_api_place *ret)
{
	int rc = stet_api_resolve_(op, dir, path, false, ret);

	if (rc)
		return rc;
	if (ret->ino != 0)
		return -EEXIST;
	return ret->must_be_dir && !dir_ok ? -ENOENT : 0;
}

static int make_at(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	struct stet_api_place place;
	int rc = find_free(op, n->dir, n->path, S_ISDIR(n->what.mode), &place);

	return rc ? rc : stet_api_make_for_(op, &place, &n->what, &n->ino);
}

int stet_mkdirat(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		 mode_t mode)
{
	struct names n = { .dir = dir,
			   .path = path,
			   .what = stet_api_new_(vol, S_IFDIR | (mode & PERMISSIONS)) };

	return stet_api_run_(vol, txn, 0, make_at, NULL, &n);
}

int stet_mknodat(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		 mode_t mode, uint64_t rdev)
{
	uint32_t type = mode & S_IFMT ? mode & S_IFMT : S_IFREG;
	struct names n = { .dir = dir,
			   .path = path,
			   .what = stet_api_new_(vol, type | (mode & PERMISSIONS)) };

	if (type == S_IFDIR || type == S_IFLNK)
		return STET_FAIL(-EINVAL, "mode 0%o", mode);
	n.what.rdev = type == S_IFCHR || type == S_IFBLK ? rdev : 0;
	return stet_api_run_(vol, txn, 0, make_at, NULL, &n);
}

int stet_symlinkat(struct stet_volume *vol, struct stet_tx *txn, const char *target, uint64_t dir,
		   const char *path)
{
	struct names n = { .dir = dir, .path = path, .what = stet_api_new_(vol, S_IFLNK | 0777) };
	int rc = check_target(target);

	n.what.target = target;
	n.what.target_len = strlen(target);
	return rc ? rc : stet_api_run_(vol, txn, 0, make_at, NULL, &n);
}

static int readlink_at(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	struct stet_api_place place;
	int rc = stet_api_find_(op, n->dir, n->path, false, &place);

	return rc ? rc : stet_api_readlink_(op, place.ino, n->buf, n->cap, &n->len);
}

ssize_t stet_readlinkat(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir,
			const char *path, char *buf, size_t cap)
{
	struct names n = { .dir = dir, .path = path, .buf = buf, .cap = cap };
	int rc = stet_api_run_(vol, txn, STET_API_READ, readlink_at, NULL, &n);

	return rc ? rc : (ssize_t)n.len;
}

static int link_at(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	struct stet_api_place from, to;
	int rc = stet_api_find_(op, n->dir, n->path, n->flags & STET_AT_FOLLOW, &from);

	if (!rc)
		rc = find_free(op, n->to_dir, n->to, false, &to);
	if (!rc)
		rc = stet_api_check_new_(to.dir, to.name);
	if (!rc)
		rc = stet_api_permit_link_(op, from.ino);
	if (!rc)
		rc = stet_api_permit_names_(op, to.dir);
	return rc ? rc
		  : stet_fs_link(&op->ctx, from.ino, to.dir, stet_api_name_(to.name, to.name_len));
}

int stet_linkat(struct stet_volume *vol, struct stet_tx *txn, uint64_t from_dir, const char *from,
		uint64_t to_dir, const char *to, unsigned flags)
{
	struct names n = {
		.dir = from_dir, .path = from, .to_dir = to_dir, .to = to, .flags = flags
	};
	int rc = stet_api_check_flags_(flags, STET_AT_FOLLOW);

	return rc ? rc : stet_api_run_(vol, txn, 0, link_at, NULL, &n);
}

/* A name that exists and can be taken away. */
static int check_name(const struct stet_api_place *place, const char *path)
{
	int rc = stet_api_check_found_(place);

	if (rc || place->name_len > 0)
		return rc;
	if (place->ino == STET_ROOT_INO)
		return STET_FAIL(-EBUSY, "the root has no name");
	return STET_FAIL(-EINVAL, "\"%s\" does not end in a name", path);
}

static int find_name(struct stet_api_op *op, uint64_t dir, const char *path,
		     struct stet_api_place *ret)
{
	int rc = stet_api_resolve_(op, dir, path, false, ret);

	return rc ? rc : check_name(ret, path);
}

/* With a slash behind the new name: what gets that name must be a directory; in an exchange, what has it
 * (which must be there at all, as is seen later). */
static bool must_be_dir(const struct names *n, const struct stet_api_place *from,
			const struct stet_api_place *to)
{
	const struct stet_api_place *which = n->flags & STET_RENAME_EXCHANGE ? to : from;

	return to->must_be_dir && which->ino != 0 && which->type != DT_DIR;
}

static int permit_rename(struct stet_api_op *op, const struct names *n,
			 const struct stet_api_place *from, const struct stet_api_place *to)
{
	int rc;

	if (from->ino == to->ino)
		return 0; /* nothing happens */
	rc = stet_api_permit_removal_(op, from->dir, from->ino);
	if (!rc && to->ino)
		rc = stet_api_permit_removal_(op, to->dir, to->ino);
	else if (!rc)
		rc = stet_api_permit_names_(op, to->dir);
	if (rc || (to->ino && !(n->flags & STET_RENAME_EXCHANGE) &&
		   (from->type == DT_DIR) != (to->type == DT_DIR)))
		return rc; /* it will fail for that */
	rc = stet_api_permit_move_(op, from->dir, to->dir, from->ino);
	if (!rc && to->ino && (n->flags & STET_RENAME_EXCHANGE))
		rc = stet_api_permit_move_(op, to->dir, from->dir, to->ino);
	return rc;
}

static int rename_at(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	struct stet_api_place from, to;
	uint64_t replaced;
	/* Both ways first: what is in their way comes before what is not at their ends. */
	int rc = stet_api_resolve_(op, n->dir, n->path, false, &from);

	if (!rc)
		rc = stet_api_resolve_(op, n->to_dir, n->to, false, &to);
	if (!rc)
		rc = check_name(&from, n->path);
	if (rc)
		return rc;
	if (to.name_len == 0)
		return to.ino == STET_ROOT_INO ? -EBUSY : -EINVAL;
	if (must_be_dir(n, &from, &to))
		return -ENOTDIR;
	rc = stet_api_check_new_(to.dir, to.name);
	if (!rc)
		rc = permit_rename(op, n, &from, &to);
	if (rc)
		return rc;
	return stet_fs_rename(&op->ctx, from.dir, stet_api_name_(from.name, from.name_len), to.dir,
			      stet_api_name_(to.name, to.name_len), rename_flags(n->flags),
			      &replaced);
}

int stet_renameat(struct stet_volume *vol, struct stet_tx *txn, uint64_t from_dir, const char *from,
		  uint64_t to_dir, const char *to, unsigned flags)
{
	struct names n = {
		.dir = from_dir, .path = from, .to_dir = to_dir, .to = to, .flags = flags
	};
	int rc = stet_api_check_flags_(flags, STET_RENAME_NOREPLACE | STET_RENAME_EXCHANGE);

	return rc ? rc : stet_api_run_(vol, txn, 0, rename_at, NULL, &n);
}

static int unlink_at(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	struct stet_api_place place;
	int rc = find_name(op, n->dir, n->path, &place);
	struct stet_fs_name name = stet_api_name_(place.name, place.name_len);

	if (!rc)
		rc = stet_api_permit_removal_(op, place.dir, place.ino);
	if (rc)
		return rc;
	if (n->flags & STET_AT_REMOVEDIR)
		return stet_fs_rmdir(&op->ctx, place.dir, name, &n->ino);
	return stet_fs_unlink(&op->ctx, place.dir, name, &n->ino);
}

int stet_unlinkat(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		  unsigned flags)
{
	struct names n = { .dir = dir, .path = path, .flags = flags };
	int rc = stet_api_check_flags_(flags, STET_AT_REMOVEDIR);

	return rc ? rc : stet_api_run_(vol, txn, 0, unlink_at, NULL, &n);
}

/* --- by inode number --- */

static int ll_find(struct stet_api_op *op, struct names *n)
{
	struct stet_dirent found;
	uint32_t type;
	int rc;

	if (strcmp(n->path, ".") == 0) {
		rc = stet_fs_get_type(&op->ctx, n->dir, &type);
		if (!rc && !S_ISDIR(type))
			rc = -ENOTDIR;
		if (!rc)
			n->ino = n->dir;
		return rc;
	}
	if (strcmp(n->path, "..") == 0)
		return stet_fs_get_parent(&op->ctx, n->dir, &n->ino);
	rc = stet_api_check_name_(n->path);
	if (!rc)
		rc = stet_fs_lookup(&op->ctx, n->dir, stet_api_name_(n->path, strlen(n->path)),
				    &found);
	if (!rc)
		n->ino = found.ino;
	return rc;
}

static int ll_lookup(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	int rc = ll_find(op, n);

	if (!rc)
		rc = stet_api_stat_(op, n->ino, n->stat);
	if (!rc && n->hold)
		rc = stet_api_hold_(op, n->ino);
	return rc;
}

int stet_ll_lookup(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *name,
		   unsigned flags, struct stet_stat *ret)
{
	struct stet_stat stat;
	struct names n = { .dir = dir, .path = name, .stat = &stat, .hold = flags & STET_LL_HOLD };
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT | STET_LL_HOLD);

	if (!rc)
		rc = stet_api_run_(vol, txn, flags | STET_API_READ, ll_lookup, NULL, &n);
	if (!rc)
		*ret = stat;
	return rc;
}

static int ll_stat(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;

	return stet_api_stat_(op, n->ino, n->stat);
}

static int ll_make(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	int rc = stet_api_make_(op, n->dir, n->path, &n->what, &n->ino);

	if (!rc && n->hold)
		rc = stet_api_hold_(op, n->ino);
	return rc;
}

/* Nobody else has seen it: there is no hold of the volume's lock in between. */
static int ll_made(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	int rc = n->stat ? ll_stat(op, arg) : 0;

	if (!rc && n->open)
		rc = stet_api_open_made_(op, n->ino, n->open_flags, &n->lock);
	return rc;
}

static int make(struct stet_volume *vol, struct stet_tx *txn, struct names *n,
		const struct stet_ll_new *what, unsigned flags)
{
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT | STET_LL_HOLD);

	n->hold = flags & STET_LL_HOLD;
	n->what = (struct stet_fs_new){
		.mode = what->mode,
		.uid = what->uid,
		.gid = what->gid,
		.umask = what->umask,
		.rdev = what->rdev,
	};
	if (!rc && S_ISLNK(what->mode)) {
		rc = what->target ? check_target(what->target)
				  : STET_FAIL(-EINVAL, "a link without a target");
		n->what.target = what->target;
		n->what.target_len = what->target ? strlen(what->target) : 0;
	}
	if (!rc)
		rc = stet_api_run_(vol, txn, flags, ll_make, ll_made, n);
	return rc;
}

int stet_ll_make(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *name,
		 const struct stet_ll_new *what, unsigned flags, struct stet_stat *ret)
{
	struct stet_stat stat;
	struct names n = { .dir = dir, .path = name, .stat = ret ? &stat : NULL };
	int rc = make(vol, txn, &n, what, flags);

	if (!rc && ret)
		*ret = stat;
	return rc;
}

int stet_ll_create(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *name,
		   const struct stet_ll_new *what, unsigned flags, struct stet_stat *ret,
		   struct stet_ll_lock **ret_lock)
{
	struct stet_stat stat;
	struct names n = {
		.dir = dir,
		.path = name,
		.stat = &stat,
		.open = true,
		.open_flags = flags & STET_LL_APPEND,
	};
	int rc = make(vol, txn, &n, what, flags & ~STET_LL_APPEND);

	if (rc)
		return rc;
	*ret = stat;
	*ret_lock = n.lock;
	return 0;
}

static int ll_unlink(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;

	return stet_fs_unlink(&op->ctx, n->dir, stet_api_name_(n->path, strlen(n->path)), &n->ino);
}

static int ll_rmdir(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;

	return stet_fs_rmdir(&op->ctx, n->dir, stet_api_name_(n->path, strlen(n->path)), &n->ino);
}

static int ll_remove(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *name,
		     unsigned flags, stet_api_op_fn *fn, uint64_t *ret_ino)
{
	struct names n = { .dir = dir, .path = name };
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	if (!rc)
		rc = stet_api_check_name_(name);
	if (!rc)
		rc = stet_api_run_(vol, txn, flags, fn, NULL, &n);
	if (!rc && ret_ino)
		*ret_ino = n.ino;
	return rc;
}

int stet_ll_unlink(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *name,
		   unsigned flags, uint64_t *ret_ino)
{
	return ll_remove(vol, txn, dir, name, flags, ll_unlink, ret_ino);
}

int stet_ll_rmdir(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *name,
		  unsigned flags, uint64_t *ret_ino)
{
	return ll_remove(vol, txn, dir, name, flags, ll_rmdir, ret_ino);
}

static int ll_rename(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;

	return stet_fs_rename(&op->ctx, n->dir, stet_api_name_(n->path, strlen(n->path)), n->to_dir,
			      stet_api_name_(n->to, strlen(n->to)), rename_flags(n->flags),
			      &n->ino);
}

int stet_ll_rename(struct stet_volume *vol, struct stet_tx *txn, uint64_t from_dir,
		   const char *from_name, uint64_t to_dir, const char *to_name, unsigned flags,
		   uint64_t *ret_replaced)
{
	struct names n = {
		.dir = from_dir, .path = from_name, .to_dir = to_dir, .to = to_name, .flags = flags
	};
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT | STET_RENAME_NOREPLACE |
						      STET_RENAME_EXCHANGE);

	if (!rc)
		rc = stet_api_check_name_(from_name);
	if (!rc)
		rc = stet_api_check_new_(to_dir, to_name);
	if (!rc)
		rc = stet_api_run_(vol, txn, flags, ll_rename, NULL, &n);
	if (!rc && ret_replaced)
		*ret_replaced = n.ino;
	return rc;
}

static int ll_link(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;
	int rc = stet_fs_link(&op->ctx, n->ino, n->dir, stet_api_name_(n->path, strlen(n->path)));

	if (!rc && n->hold)
		rc = stet_api_hold_(op, n->ino);
	return rc;
}

int stet_ll_link(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, uint64_t dir,
		 const char *name, unsigned flags, struct stet_stat *ret)
{
	struct stet_stat stat;
	struct names n = {
		.dir = dir, .path = name, .ino = ino, .stat = &stat, .hold = flags & STET_LL_HOLD
	};
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT | STET_LL_HOLD);

	if (!rc)
		rc = stet_api_check_new_(dir, name);
	if (!rc)
		rc = stet_api_run_(vol, txn, flags, ll_link, ret ? ll_stat : NULL, &n);
	if (!rc && ret)
		*ret = stat;
	return rc;
}

static int ll_readlink(struct stet_api_op *op, void *arg)
{
	struct names *n = arg;

	return stet_api_readlink_(op, n->ino, n->buf, n->cap, &n->len);
}

ssize_t stet_ll_readlink(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, unsigned flags,
			 char *buf, size_t cap)
{
	struct names n = { .ino = ino, .buf = buf, .cap = cap };
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	if (!rc)
		rc = stet_api_run_(vol, txn, flags | STET_API_READ, ll_readlink, NULL, &n);
	return rc ? rc : (ssize_t)n.len;
}
