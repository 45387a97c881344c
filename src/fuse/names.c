/* names.c - requests on names.
 *
 * I1. Nothing here waits for a lock of a transaction (NOWAIT: EBUSY at once): the kernel holds the
 *     directory meanwhile, and for a rename between directories the whole mount.
 * I2. Every inode that an answer names is held in the same step that found or made it (HOLD); the
 *     hold goes to its node.
 * I3. ".stet" in a root is reserved; it exists in the main tree only.
 * I4. What a directory gives to what is made in it (group, setgid bit, ACL) is the library's business,
 *     and so is the umask, which counts only where there is no default ACL (DONT_MASK).
 * I5. A file that is renamed knows its new name before: a commit that replaces its node meanwhile
 *     must have that name dropped, too. And afterwards: it may be another file by then. (A second
 *     commit cannot come in between: the first waits for the directory, which the kernel holds.)
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* libfuse passes on names of any length. */
static int check_new(const struct stet_fuse_call *call, const char *name)
{
	if (strlen(name) > STET_FUSE_NAME_MAX)
		return -ENAMETOOLONG;
	return stet_fuse_is_reserved_(call->node, name) ? -EPERM : 0; /* I3 */
}

void stet_fuse_op_lookup_(fuse_req_t req, fuse_ino_t dir, const char *name)
{
	struct stet_fuse_call call;
	struct stet_stat st;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, dir, STET_FUSE_ANY))
		return;
	if (call.node->kind != STET_FUSE_NODE_INO ||
	    (call.node->id == STET_FUSE_ID_ROOT && stet_fuse_is_reserved_(call.node, name))) {
		stet_fuse_guard_lookup_(&call, name);
	} else if (strlen(name) > STET_FUSE_NAME_MAX) {
		fuse_reply_err(req, ENAMETOOLONG);
	} else {
		rc = stet_ll_lookup(call.server->vol, call.txn, call.node->ino, name,
				    STET_LL_NOWAIT | STET_LL_HOLD, &st);
		if (rc == -ENOENT)
			stet_fuse_reply_absent_(&call);
		else if (rc)
			stet_fuse_reply_rc_(&call, rc);
		else
			stet_fuse_reply_entry_(&call, name, &st);
	}
	stet_fuse_call_end_(&call);
}

/* --- making --- */

/* I4 */
static void own(const struct stet_fuse_call *call, mode_t mode, struct stet_ll_new *ret)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(call->req);

	ret->mode = mode;
	ret->uid = ctx->uid;
	ret->gid = ctx->gid;
	ret->umask = ctx->umask;
	stet_fuse_own_(call->server, &ret->uid, &ret->gid);
}

/* Makes an inode with a name; it is held. */
static int make(struct stet_fuse_call *call, const char *name, mode_t mode,
		struct stet_ll_new *what, struct stet_stat *ret)
{
	int rc = check_new(call, name);

	own(call, mode, what);
	if (!rc)
		rc = stet_ll_make(call->server->vol, call->txn, call->node->ino, name, what,
				  STET_LL_NOWAIT | STET_LL_HOLD, ret);
	return rc;
}

static void make_and_reply(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode,
			   struct stet_ll_new *what)
{
	struct stet_fuse_call call;
	struct stet_stat st;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, dir, STET_FUSE_NO_GUARDS))
		return;
	rc = make(&call, name, mode, what, &st);
	if (rc)
		stet_fuse_reply_rc_(&call, rc);
	else
		stet_fuse_reply_entry_(&call, name, &st);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_mknod_(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode, dev_t rdev)
{
	struct stet_ll_new what = { 0 };

	if (S_ISCHR(mode) || S_ISBLK(mode))
		what.rdev = (uint64_t)major(rdev) << 32 | minor(rdev);
	make_and_reply(req, dir, name, mode, &what);
}

void stet_fuse_op_mkdir_(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode)
{
	struct stet_ll_new what = { 0 };

	make_and_reply(req, dir, name, S_IFDIR | (mode & 07777), &what);
}

void stet_fuse_op_symlink_(fuse_req_t req, const char *target, fuse_ino_t dir, const char *name)
{
	struct stet_ll_new what = { .target = target };

	make_and_reply(req, dir, name, S_IFLNK | 0777, &what);
}

/* What is opened for writing is locked in the same step: nobody can have come between. */
static int create(struct stet_fuse_call *call, const char *name, mode_t mode, int flags,
		  struct stet_stat *ret, struct stet_ll_lock **ret_lock)
{
	struct stet_ll_new what = { 0 };
	unsigned how = STET_LL_NOWAIT | STET_LL_HOLD;
	int rc;

	mode = S_IFREG | (mode & 07777);
	if ((flags & O_ACCMODE) == O_RDONLY)
		return make(call, name, mode, &what, ret);
	rc = check_new(call, name);
	own(call, mode, &what);
	if (stet_fuse_only_appends_(flags))
		how |= STET_LL_APPEND;
	return rc ? rc
		  : stet_ll_create(call->server->vol, call->txn, call->node->ino, name, &what, how,
				   ret, ret_lock);
}

/* The kernel asks when it knows of no such name, and then asks nobody whether the file may be
 * opened. If a commit has been faster, the file is somebody's, and his permissions count: ESTALE
 * makes the kernel look again, and check them. */
void stet_fuse_op_create_(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode,
			  struct fuse_file_info *fi)
{
	struct stet_ll_lock *lock = NULL;
	struct stet_fuse_call call;
	struct stet_stat st;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, dir, STET_FUSE_NO_GUARDS))
		return;
	rc = create(&call, name, mode, fi->flags, &st, &lock);
	if (rc == -EEXIST && !(fi->flags & O_EXCL))
		rc = -ESTALE;
	if (rc)
		stet_fuse_reply_rc_(&call, rc);
	else
		stet_fuse_open_created_(&call, name, &st, fi, lock);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_link_(fuse_req_t req, fuse_ino_t id, fuse_ino_t new_dir, const char *new_name)
{
	struct stet_fuse_node *node = NULL;
	struct stet_fuse_call call;
	struct stet_stat st;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, new_dir, STET_FUSE_NO_GUARDS))
		return;
	rc = check_new(&call, new_name);
	if (!rc)
		rc = stet_fuse_call_second_(&call, id, &node);
	if (!rc)
		rc = stet_ll_link(call.server->vol, call.txn, node->ino, call.node->ino, new_name,
				  STET_LL_NOWAIT | STET_LL_HOLD, &st);
	if (rc)
		stet_fuse_reply_rc_(&call, rc);
	else
		stet_fuse_reply_entry_(&call, new_name, &st);
	if (node)
		stet_fuse_call_release_second_(&call, node);
	stet_fuse_call_end_(&call);
}

/* --- removing and renaming --- */

void stet_fuse_op_unlink_(fuse_req_t req, fuse_ino_t dir, const char *name)
{
	struct stet_fuse_call call;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, dir, STET_FUSE_NO_GUARDS))
		return;
	rc = check_new(&call, name);
	if (!rc)
		rc = stet_ll_unlink(call.server->vol, call.txn, call.node->ino, name,
				    STET_LL_NOWAIT, NULL);
	stet_fuse_reply_rc_(&call, rc);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_rmdir_(fuse_req_t req, fuse_ino_t dir, const char *name)
{
	struct stet_fuse_call call;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, dir, STET_FUSE_NO_GUARDS))
		return;
	rc = check_new(&call, name);
	if (!rc)
		rc = stet_ll_rmdir(call.server->vol, call.txn, call.node->ino, name, STET_LL_NOWAIT,
				   NULL);
	stet_fuse_reply_rc_(&call, rc);
	stet_fuse_call_end_(&call);
}

/* The kernel moves what it knows to the new name by itself; so the node of what `name` leads to must
 * know that name. */
static void note_name(struct stet_fuse_call *call, const struct stet_fuse_node *dir,
		      const char *name, const struct stet_fuse_node *new_dir, const char *new_name)
{
	struct stet_fuse_server *server = call->server;
	struct stet_fuse_node *node;
	struct stet_stat st;

	if (call->view->kind != STET_FUSE_MAIN ||
	    stet_ll_lookup(server->vol, NULL, dir->ino, name, STET_LL_NOWAIT, &st) != 0)
		return;
	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_of_locked_(server, call->view, st.ino);
	if (node)
		node->calls++;
	pthread_mutex_unlock(&server->lock);
	if (!node)
		return;
	stet_fuse_node_name_(server, node, new_dir->id, new_name);
	stet_fuse_call_release_second_(call, node);
}

/* I5 */
static int do_rename(struct stet_fuse_call *call, const char *name, const struct stet_fuse_node *to,
		     const char *new_name, unsigned flags)
{
	bool both = flags & STET_RENAME_EXCHANGE;
	int rc;

	note_name(call, call->node, name, to, new_name);
	if (both)
		note_name(call, to, new_name, call->node, name);
	rc = stet_ll_rename(call->server->vol, call->txn, call->node->ino, name, to->ino, new_name,
			    flags | STET_LL_NOWAIT, NULL);
	if (rc)
		return rc;
	note_name(call, to, new_name, to, new_name);
	if (both)
		note_name(call, call->node, name, call->node, name);
	return 0;
}

static unsigned rename_flags(unsigned flags)
{
	return (flags & RENAME_NOREPLACE ? STET_RENAME_NOREPLACE : 0) |
	       (flags & RENAME_EXCHANGE ? STET_RENAME_EXCHANGE : 0);
}

static int check_rename(const struct stet_fuse_call *call, const char *name, unsigned flags)
{
	const unsigned known = RENAME_NOREPLACE | RENAME_EXCHANGE;

	return flags & ~known || flags == known ? -EINVAL : check_new(call, name);
}

void stet_fuse_op_rename_(fuse_req_t req, fuse_ino_t dir, const char *name, fuse_ino_t new_dir,
			  const char *new_name, unsigned flags)
{
	struct stet_fuse_node *to = NULL;
	struct stet_fuse_call call;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, dir, STET_FUSE_NO_GUARDS))
		return;
	rc = check_rename(&call, name, flags);
	if (!rc)
		rc = stet_fuse_call_second_(&call, new_dir, &to);
	if (!rc && strlen(new_name) > STET_FUSE_NAME_MAX)
		rc = -ENAMETOOLONG;
	if (!rc && stet_fuse_is_reserved_(to, new_name))
		rc = -EPERM;
	if (!rc)
		rc = do_rename(&call, name, to, new_name, rename_flags(flags));
	stet_fuse_reply_rc_(&call, rc);
	if (to)
		stet_fuse_call_release_second_(&call, to);
	stet_fuse_call_end_(&call);
}
