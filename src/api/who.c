/* who.c - calls that are made for a user: what POSIX lets him do.
 *
 * H1. Whom a thread acts for is its own; an operation takes it along when it begins (op->who). NULL is the
 *     program itself, which may do everything; so may user 0.
 * H2. What a decision rests on (mode, owner, ACL, a directory's parent) is read in the operation itself, so it
 *     is of the state that the operation sees, and is validated or locked like any other read.
 * H3. A path starts in the root, or in a directory from which every step up to the root may be searched: a
 *     number alone opens no door. Open files and tables are not asked again.
 * H4. Writing to a file takes its set-id bits away, unless by user 0.
 * H5. Who may only read keeps nobody from writing: so other users than 0 and the program's own have no level
 *     LOCKING, at which readers lock.
 */
#include "api/api_internal.h"

#include "fs/acl.h"
#include "stetfs_lowlevel.h"

#include <string.h>
#include <sys/stat.h>

#define READ STET_API_MAY_READ
#define WRITE STET_API_MAY_WRITE
#define SEARCH STET_API_MAY_SEARCH

/* Without group execution the bit means something else. */
#define SET_GID (S_ISGID | S_IXGRP)

static _Thread_local const struct stet_ll_who *acting;

void stet_ll_act_as(const struct stet_ll_who *who)
{
	acting = who;
}

const struct stet_ll_who *stet_api_who_(void)
{
	return acting;
}

/* --- deciding --- */

static bool is_root(const struct stet_ll_who *who)
{
	return !who || who->uid == 0;
}

static bool in_group(const struct stet_ll_who *who, uint32_t gid)
{
	if (who->gid == gid)
		return true;
	for (size_t i = 0; i < who->group_count; i++)
		if (who->groups[i] == gid)
			return true;
	return false;
}

static bool in_group_fn(const void *arg, uint32_t gid)
{
	return in_group(arg, gid);
}

/* 1: the ACL has decided, *ret_may; 0: there is none. */
static int ask_acl(struct stet_api_op *op, const struct stet_fs_attr *attr, unsigned want,
		   bool *ret_may)
{
	uint8_t acl[STET_FS_ACL_BYTES_MAX];
	size_t len = 0;
	int rc;

	if (S_ISLNK(attr->mode) || !(attr->mode & S_IRWXG))
		return 0; /* Linux does not ask an ACL whose mask grants nothing */
	rc = stet_fs_xattr_get(&op->ctx, attr->ino,
			       stet_api_name_(STET_FS_ACL_ACCESS, strlen(STET_FS_ACL_ACCESS)), acl,
			       sizeof(acl), &len);
	if (rc == -ENODATA)
		return 0;
	if (rc)
		return rc;
	*ret_may = stet_fs_acl_permits(acl, len, attr->mode,
				       &(struct stet_fs_acl_user){ .uid = op->who->uid,
								   .in_group = in_group_fn,
								   .arg = op->who },
				       attr->gid, want);
	return 1;
}

static int permit(struct stet_api_op *op, const struct stet_fs_attr *attr, unsigned want)
{
	bool may;
	int rc = 0;

	if (attr->uid == op->who->uid) {
		may = (attr->mode >> 6 & want) == want;
	} else {
		rc = ask_acl(op, attr, want, &may);
		if (rc < 0)
			return rc;
		if (rc == 0)
			may = (attr->mode >> (in_group(op->who, attr->gid) ? 3 : 0) & want) == want;
	}
	return may ? 0
		   : STET_FAIL(-EACCES, "user %u has no permission for inode %llu", op->who->uid,
			       (unsigned long long)attr->ino);
}

int stet_api_permit_(struct stet_api_op *op, uint64_t ino, unsigned want)
{
	struct stet_fs_attr attr;
	int rc;

	if (is_root(op->who))
		return 0;
	rc = stet_fs_get_owner(&op->ctx, ino, &attr);
	return rc ? rc : permit(op, &attr, want);
}

/* H3 */
int stet_api_permit_start_(struct stet_api_op *op, uint64_t dir)
{
	struct stet_dirent up = { .ino = 0 };
	struct stet_fs_attr attr;
	uint64_t mark = 0;
	int rc;

	if (is_root(op->who) || dir == STET_ROOT_INO)
		return 0;
	rc = stet_fs_get_owner(&op->ctx, dir, &attr);
	if (!rc && !S_ISDIR(attr.mode))
		rc = STET_FAIL(-EACCES, "only user 0 may name a file by its number");
	for (uint64_t steps = 0; !rc && dir != STET_ROOT_INO && dir != mark; steps++) {
		if ((steps & (steps - 1)) == 0)
			mark = dir; /* meeting it again is a cycle */
		rc = stet_fs_lookup(&op->ctx, dir, stet_api_name_("..", 2), &up);
		dir = up.ino;
		if (!rc)
			rc = stet_api_permit_(op, dir, SEARCH);
	}
	if (!rc && dir != STET_ROOT_INO)
		rc = STET_FAIL(-EUCLEAN, "the parents of a directory do not lead to the root");
	return rc;
}

static int owner_only(struct stet_api_op *op, const struct stet_fs_attr *attr)
{
	if (is_root(op->who) || op->who->uid == attr->uid)
		return 0;
	return STET_FAIL(-EPERM, "user %u does not own inode %llu", op->who->uid,
			 (unsigned long long)attr->ino);
}

/* H5 */
int stet_api_permit_locking_(const struct stet_volume *vol)
{
	if (is_root(acting) || acting->uid == vol->uid)
		return 0;
	return STET_FAIL(-EPERM,
			 "user %u may not lock what he reads: level LOCKING is for user 0 "
			 "and whose program this is",
			 acting->uid);
}

/* --- names --- */

int stet_api_permit_names_(struct stet_api_op *op, uint64_t dir)
{
	return stet_api_permit_(op, dir, WRITE | SEARCH);
}

int stet_api_permit_removal_(struct stet_api_op *op, uint64_t dir, uint64_t ino)
{
	struct stet_fs_attr in, what;
	int rc = stet_api_permit_names_(op, dir);

	if (rc || is_root(op->who))
		return rc;
	rc = stet_fs_get_owner(&op->ctx, dir, &in);
	if (rc || !(in.mode & S_ISVTX) || in.uid == op->who->uid)
		return rc;
	rc = stet_fs_get_owner(&op->ctx, ino, &what);
	return rc ? rc : owner_only(op, &what);
}

/* What moves to another directory has its ".." changed. */
int stet_api_permit_move_(struct stet_api_op *op, uint64_t from_dir, uint64_t to_dir, uint64_t ino)
{
	struct stet_fs_attr attr;
	int rc;

	if (is_root(op->who) || from_dir == to_dir)
		return 0;
	rc = stet_fs_get_owner(&op->ctx, ino, &attr);
	return rc || !S_ISDIR(attr.mode) ? rc : permit(op, &attr, WRITE);
}

/* A table is one to the kernel. */
static bool is_file(const struct stet_fs_attr *attr)
{
	return S_ISREG(attr->mode) || STET_MODE_IS_TABLE(attr->mode);
}

/* As Linux's protected_hardlinks. */
int stet_api_permit_link_(struct stet_api_op *op, uint64_t ino)
{
	struct stet_fs_attr attr;
	int rc;

	if (is_root(op->who))
		return 0;
	rc = stet_fs_get_owner(&op->ctx, ino, &attr);
	if (rc || attr.uid == op->who->uid)
		return rc;
	if (!is_file(&attr) || (attr.mode & S_ISUID) || (attr.mode & SET_GID) == SET_GID ||
	    permit(op, &attr, READ | WRITE))
		return STET_FAIL(-EPERM, "user %u may not link inode %llu", op->who->uid,
				 (unsigned long long)ino);
	return 0;
}

int stet_api_permit_make_(struct stet_api_op *op, uint64_t dir, struct stet_fs_new *what)
{
	struct stet_fs_attr in;
	int rc = stet_api_permit_names_(op, dir);

	if (rc || is_root(op->who))
		return rc;
	if (S_ISCHR(what->mode) || S_ISBLK(what->mode))
		return STET_FAIL(-EPERM, "only user 0 makes devices");
	if (S_ISDIR(what->mode) || (what->mode & SET_GID) != SET_GID)
		return 0;
	rc = stet_fs_get_owner(&op->ctx, dir, &in);
	if (!rc && (in.mode & S_ISGID) && !in_group(op->who, in.gid))
		what->mode &= ~(uint32_t)S_ISGID;
	return rc;
}

/* --- attributes --- */

static int permit_owner_change(struct stet_api_op *op, const struct stet_fs_attr *is,
			       const struct stet_setattr *to)
{
	bool uid = (to->set & STET_SET_UID) && to->uid != is->uid;
	bool gid = (to->set & STET_SET_GID) && to->gid != is->gid;
	int rc = owner_only(op, is);

	if (rc || is_root(op->who))
		return rc;
	if (uid || (gid && !in_group(op->who, to->gid)))
		return STET_FAIL(-EPERM, "user %u may not give inode %llu away", op->who->uid,
				 (unsigned long long)is->ino);
	return 0;
}

static int permit_times(struct stet_api_op *op, const struct stet_fs_attr *is,
			const struct stet_setattr *to)
{
	if (is_root(op->who) || op->who->uid == is->uid)
		return 0;
	if (to->set & (STET_SET_ATIME | STET_SET_MTIME))
		return owner_only(op, is);
	return permit(op, is, WRITE);
}

/* What the change does to the set-id bits. */
static void adjust_set_ids(struct stet_api_op *op, const struct stet_fs_attr *is,
			   struct stet_setattr *to)
{
	uint32_t mode = to->set & STET_SET_MODE ? to->mode : is->mode;
	uint32_t gid = to->set & STET_SET_GID ? to->gid : is->gid;
	uint32_t before = mode;

	if (to->set & STET_SET_MODE) {
		if (!is_root(op->who) && !in_group(op->who, gid))
			mode &= ~(uint32_t)S_ISGID;
	} else if (!S_ISDIR(is->mode) && ((to->set & (STET_SET_UID | STET_SET_GID)) ||
					  ((to->set & STET_SET_SIZE) && !is_root(op->who)))) {
		mode &= ~(uint32_t)S_ISUID;
		if ((mode & S_IXGRP) || (!is_root(op->who) && !in_group(op->who, is->gid)))
			mode &= ~(uint32_t)S_ISGID;
	}
	if (mode == before)
		return;
	to->set |= STET_SET_MODE;
	to->mode = mode & 07777;
}

int stet_api_permit_setattr_(struct stet_api_op *op, uint64_t ino, struct stet_setattr *attr)
{
	const unsigned times = STET_SET_ATIME | STET_SET_MTIME | STET_SET_ATIME_NOW |
			       STET_SET_MTIME_NOW;
	struct stet_fs_attr is;
	int rc;

	if (!op->who)
		return 0;
	rc = stet_fs_get_owner(&op->ctx, ino, &is);
	if (!rc && (attr->set & STET_SET_MODE))
		rc = owner_only(op, &is);
	if (!rc && (attr->set & (STET_SET_UID | STET_SET_GID)))
		rc = permit_owner_change(op, &is, attr);
	if (!rc && (attr->set & STET_SET_SIZE) && !is_root(op->who))
		rc = S_ISDIR(is.mode) ? -EISDIR : permit(op, &is, WRITE);
	if (!rc && (attr->set & times))
		rc = permit_times(op, &is, attr);
	if (!rc)
		adjust_set_ids(op, &is, attr);
	return rc;
}

/* 1: a change of the data changes the mode to this, too; 0: it does not; < 0. */
static int mode_after_change(struct stet_api_op *op, uint64_t ino, uint32_t *ret)
{
	struct stet_setattr to = { .set = STET_SET_SIZE };
	struct stet_fs_attr is;
	int rc;

	if (is_root(op->who))
		return 0;
	rc = stet_fs_get_owner(&op->ctx, ino, &is);
	if (rc)
		return rc;
	adjust_set_ids(op, &is, &to);
	*ret = to.mode;
	return to.set & STET_SET_MODE ? 1 : 0;
}

/* H4 */
int stet_api_drop_set_ids_(struct stet_api_op *op, uint64_t ino)
{
	struct stet_fs_attr to = { 0 };
	int rc = mode_after_change(op, ino, &to.mode);

	if (rc != 1)
		return rc;
	rc = stet_api_in_parts_(op);
	return rc ? rc : stet_fs_setattr(&op->ctx, ino, STET_FS_SET_MODE, &to);
}

int stet_api_lock_all_(struct stet_api_op *op, uint64_t ino)
{
	uint32_t mode;
	int rc = stet_api_data_gate_(op, ino, false);

	if (!rc)
		rc = mode_after_change(op, ino, &mode);
	return rc < 0 ? rc : stet_fs_lock_all(&op->ctx, ino, rc == 1);
}

/* --- extended attributes --- */

static bool begins_with(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static int permit_user_xattr(struct stet_api_op *op, const struct stet_fs_attr *attr, bool change)
{
	bool sticky = S_ISDIR(attr->mode) && (attr->mode & S_ISVTX);

	if (!is_file(attr) && !S_ISDIR(attr->mode))
		return change ? STET_FAIL(-EPERM, "user attributes of a special file") : -ENODATA;
	if (change && sticky) {
		int rc = owner_only(op, attr);

		if (rc)
			return rc;
	}
	return permit(op, attr, change ? WRITE : READ);
}

int stet_api_permit_xattr_(struct stet_api_op *op, uint64_t ino, const char *name, bool change,
			   bool *ret_kill_sgid)
{
	struct stet_fs_attr attr;
	int rc;

	if (is_root(op->who))
		return 0;
	rc = stet_fs_get_owner(&op->ctx, ino, &attr);
	if (rc)
		return rc;
	if (begins_with(name, "user."))
		return permit_user_xattr(op, &attr, change);
	if (ret_kill_sgid)
		*ret_kill_sgid = !in_group(op->who, attr.gid);
	if (begins_with(name, "system."))
		return change ? owner_only(op, &attr) : 0;
	if (!change)
		return begins_with(name, "trusted.") ? -ENODATA : 0;
	return STET_FAIL(-EPERM, "only user 0 may change %s", name);
}
