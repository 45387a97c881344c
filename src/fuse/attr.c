/* attr.c - requests on attributes, extended attributes, links' targets, and the volume's size.
 *
 * I1. An old version (OLD view) shows its attributes as they were; what is changed through it by
 *     descriptor (chmod, times, xattrs) changes the file as it is now: it is one inode. Its size
 *     cannot be changed. The kernel does not know that the two nodes are one, so it is told that
 *     the current one changed.
 * I2. Attributes that need a meaning which is not kept are refused rather than stored: names that are
 *     neither of users, nor "trusted." or "security.", nor POSIX ACLs, give EOPNOTSUPP, and are not
 *     listed either where the library has stored them. ACLs are enforced by the kernel, which caches
 *     them, and drops them with the attributes of an inode.
 * I3. Who writes to a program, changes its size or its owner, and is not privileged, takes its
 *     set-id bits and its capabilities away, before that is done (setgid without group execute stays
 *     if he is in the group). The kernel goes by the mode that it has, also when it executes: so
 *     before the answer it is told that it has changed.
 * I4. Times lie between the years 1677 and 2262; what is set beyond becomes the nearest one, as with any
 *     file system that has an end of time.
 * I5. Access times are kept, as relatime has it unless asked for all, in the main tree only: a
 *     transaction's reads change nothing, and old versions have had their time. The kernel reads from
 *     its cache without asking; so
 *     who opens a file for reading whose time is due gets none of the cache and asks. Through handles that
 *     write too, those reads count that get here anyway. One look a second is enough for a handle, and
 *     where the change would have to wait it is left out. The kernel asks for the time after each
 *     request to read.
 */
#include "fuse/control.h"
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>

/* I1: where changes go. */
static struct stet_txn *write_txn(const struct stet_fuse_call *call)
{
	return call->view->kind == STET_FUSE_OLD ? NULL : call->txn;
}

/* I1. Attributes only, which waits for nothing: a worker may send it. */
static void tell_current(struct stet_fuse_call *call)
{
	struct stet_fuse_server *server = call->server;
	const struct stet_fuse_node *node;
	uint64_t id;

	if (call->view->kind != STET_FUSE_OLD)
		return;
	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_of_locked_(server, &server->main_view, call->node->ino);
	id = node ? node->id : 0;
	pthread_mutex_unlock(&server->lock);
	if (id)
		stet_fuse_inval_inode_(server, id, false);
}

#define GROUPS_USUAL 64

static bool is_among(gid_t gid, const gid_t *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i] == gid)
			return true;
	return false;
}

/* Is the caller in the file's group, or root? When that cannot be found out, he is not. */
static bool is_of_group(const struct stet_fuse_call *call, const struct stet_stat *st)
{
	const struct stet_fuse_options *o = call->server->options;
	const struct fuse_ctx *ctx = fuse_req_ctx(call->req);
	gid_t gid = o->has_gid ? o->gid : st->gid;
	gid_t usual[GROUPS_USUAL], *more;
	bool found;
	int n;

	if (ctx->uid == 0 || ctx->gid == gid)
		return true;
	n = fuse_req_getgroups(call->req, GROUPS_USUAL, usual);
	if (n <= GROUPS_USUAL)
		return is_among(gid, usual, n);
	more = calloc((size_t)n, sizeof(*more));
	if (!more)
		return false;
	found = is_among(gid, more, fuse_req_getgroups(call->req, n, more));
	free(more);
	return found;
}

/* I3 */
static uint32_t without_privileges(const struct stet_fuse_call *call, const struct stet_stat *st)
{
	uint32_t mode = st->mode & ~(uint32_t)S_ISUID;

	if ((mode & S_ISGID) && ((mode & S_IXGRP) || !is_of_group(call, st)))
		mode &= ~(uint32_t)S_ISGID;
	return mode;
}

#define CAPABILITIES "security.capability"

int stet_fuse_kill_privileges_(struct stet_fuse_call *call)
{
	struct stet_volume *vol = call->server->vol;
	struct stet_txn *txn = write_txn(call); /* I1 */
	struct stet_setattr set = { .set = STET_SET_MODE };
	uint64_t ino = call->node->ino;
	struct stet_stat st;
	uint32_t mode;
	int rc;

	if (!stet_fuse_kills_privileges_())
		return 0;
	rc = stet_ll_getattr(vol, txn, ino, STET_LL_NOWAIT, &st);
	if (rc || S_ISDIR(st.mode))
		return rc;
	mode = without_privileges(call, &st);
	if (mode != st.mode) {
		set.mode = mode & 07777;
		rc = stet_ll_setattr(vol, txn, ino, &set, STET_LL_NOWAIT, &st);
		if (!rc)
			stet_fuse_inval_inode_(call->server, call->node->id, false);
	}
	if (!rc && stet_ll_getxattr(vol, txn, ino, CAPABILITIES, STET_LL_NOWAIT, NULL, 0) > 0)
		rc = stet_ll_removexattr(vol, txn, ino, CAPABILITIES, STET_LL_NOWAIT);
	return rc;
}

static bool keeps_access_times(const struct stet_fuse_server *server,
			       const struct stet_fuse_node *node, const struct stet_fuse_view *view,
			       int flags)
{
	const struct stet_fuse_options *o = server->options;

	return view->kind == STET_FUSE_MAIN && !server->read_only && !(flags & O_NOATIME) &&
	       !o->no_atime && !(o->no_diratime && node->type == S_IFDIR);
}

static unsigned how_access(const struct stet_fuse_server *server)
{
	return server->options->strict_atime ? STET_LL_ACCESS_ALWAYS : 0;
}

bool stet_fuse_wants_reads_(struct stet_fuse_server *server, const struct stet_fuse_node *node,
			    const struct stet_fuse_view *view, int flags)
{
	return (flags & O_ACCMODE) == O_RDONLY && keeps_access_times(server, node, view, flags) &&
	       stet_ll_accessed(server->vol, node->ino, STET_LL_ACCESS_LOOK | how_access(server)) ==
		       1;
}

void stet_fuse_accessed_(struct stet_fuse_call *call, struct stet_fuse_handle *handle)
{
	struct stet_fuse_server *server = call->server;
	struct timespec now;

	if (!keeps_access_times(server, call->node, call->view, handle ? handle->flags : 0))
		return;
	if (handle) {
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
		if (handle->accessed_s == now.tv_sec)
			return;
		handle->accessed_s = now.tv_sec;
	}
	/* It is read anyway. */
	(void)!stet_ll_accessed(server->vol, call->node->ino, how_access(server));
}

void stet_fuse_op_getattr_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct stet_fuse_call call;
	struct stet_stat st;
	int rc;

	(void)fi;
	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_ANY))
		return;
	if (call.node->kind != STET_FUSE_NODE_INO) {
		stet_fuse_guard_getattr_(&call);
	} else {
		rc = stet_ll_getattr(call.server->vol, call.txn, call.node->ino, STET_LL_NOWAIT,
				     &st);
		if (rc)
			stet_fuse_reply_rc_(&call, rc);
		else
			stet_fuse_reply_attr_(&call, &st);
	}
	stet_fuse_call_end_(&call);
}

/* I4 */
static int64_t ns_of(struct timespec ts)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)ts.tv_sec, INT64_C(1000000000), &ns) ||
	    __builtin_add_overflow(ns, (int64_t)ts.tv_nsec, &ns))
		return ts.tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

static struct stet_setattr wanted(const struct stat *attr, int to_set)
{
	static const struct {
		int fuse;
		unsigned stet;
	} bits[] = {
		{ FUSE_SET_ATTR_MODE, STET_SET_MODE },
		{ FUSE_SET_ATTR_UID, STET_SET_UID },
		{ FUSE_SET_ATTR_GID, STET_SET_GID },
		{ FUSE_SET_ATTR_SIZE, STET_SET_SIZE },
		{ FUSE_SET_ATTR_ATIME, STET_SET_ATIME },
		{ FUSE_SET_ATTR_MTIME, STET_SET_MTIME },
		{ FUSE_SET_ATTR_ATIME_NOW, STET_SET_ATIME_NOW },
		{ FUSE_SET_ATTR_MTIME_NOW, STET_SET_MTIME_NOW },
	};
	struct stet_setattr ret = {
		.mode = attr->st_mode & 07777,
		.uid = attr->st_uid,
		.gid = attr->st_gid,
		.size = (uint64_t)attr->st_size,
		.atime_ns = ns_of(attr->st_atim),
		.mtime_ns = ns_of(attr->st_mtim),
	};

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (to_set & bits[i].fuse)
			ret.set |= bits[i].stet;
	if (ret.set & STET_SET_ATIME_NOW)
		ret.set &= ~STET_SET_ATIME;
	if (ret.set & STET_SET_MTIME_NOW)
		ret.set &= ~STET_SET_MTIME;
	return ret;
}

void stet_fuse_op_setattr_(fuse_req_t req, fuse_ino_t id, struct stat *attr, int to_set,
			   struct fuse_file_info *fi)
{
	struct stet_setattr set = wanted(attr, to_set);
	struct stet_fuse_call call;
	struct stet_stat st;
	bool is_old;
	int rc;

	(void)fi;
	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_NO_GUARDS))
		return;
	is_old = call.view->kind == STET_FUSE_OLD;
	rc = stet_fuse_check_owner_(call.server, &set);
	if (!rc && is_old && (set.set & STET_SET_SIZE))
		rc = -ESTALE; /* I1 */
	if (!rc && (set.set & STET_SET_SIZE) && stet_fuse_is_table_(call.node->type))
		rc = -EPERM;
	if (!rc && !(set.set & STET_SET_MODE))
		rc = stet_fuse_kill_privileges_(&call);
	if (!rc)
		rc = stet_ll_setattr(call.server->vol, write_txn(&call), call.node->ino, &set,
				     STET_LL_NOWAIT, &st);
	if (!rc && is_old) {
		tell_current(&call);
		rc = stet_ll_getattr(call.server->vol, call.txn, call.node->ino, STET_LL_NOWAIT,
				     &st);
	}
	if (rc)
		stet_fuse_reply_rc_(&call, rc);
	else
		stet_fuse_reply_attr_(&call, &st);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_readlink_(fuse_req_t req, fuse_ino_t id)
{
	struct stet_fuse_call call;
	char target[PATH_MAX];
	ssize_t n;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_NO_GUARDS))
		return;
	n = stet_ll_readlink(call.server->vol, call.txn, call.node->ino, STET_LL_NOWAIT, target,
			     sizeof(target));
	if (n >= 0)
		stet_fuse_accessed_(&call, NULL);
	if (n < 0)
		stet_fuse_reply_rc_(&call, (int)n);
	else
		fuse_reply_readlink(req, target);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_statfs_(fuse_req_t req, fuse_ino_t id)
{
	struct stet_fuse_server *server = fuse_req_userdata(req);
	struct stet_statfs st;
	int rc = stet_statfs(server->vol, &st);

	(void)id;
	if (rc) {
		fuse_reply_err(req, -rc);
		return;
	}
	uint64_t used = st.live_bytes + st.held_bytes + st.reserved_bytes;
	uint64_t free_bytes = st.capacity_bytes > used ? st.capacity_bytes - used : 0;

	/* What was reserved for what is held already would count twice. */
	if (free_bytes < st.avail_bytes)
		free_bytes = st.avail_bytes;
	struct statvfs out = {
		.f_bsize = st.block_bytes,
		.f_frsize = st.block_bytes,
		.f_blocks = st.capacity_bytes / st.block_bytes,
		.f_bfree = free_bytes / st.block_bytes,
		.f_bavail = st.avail_bytes / st.block_bytes,
		.f_namemax = st.name_max,
	};
	/* f_files and its like stay 0, as where inodes have no limit of their own: they take space
	 * like everything else. */
	fuse_reply_statfs(req, &out);
}

/* --- extended attributes --- */

/* I2 */
static bool is_kept(const char *name)
{
	static const char *const spaces[] = { "user.", "trusted.", "security." };

	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
		if (strncmp(name, spaces[i], strlen(spaces[i])) == 0)
			return true;
	return strcmp(name, "system.posix_acl_access") == 0 ||
	       strcmp(name, "system.posix_acl_default") == 0;
}

/* I6 */
static bool is_table_name(const struct stet_fuse_call *call, const char *name)
{
	return call->node->kind == STET_FUSE_NODE_INO && stet_fuse_is_table_(call->node->type) &&
	       strcmp(name, STET_CONTROL_TABLE_XATTR) == 0;
}

static ssize_t get_count(struct stet_fuse_call *call, char *buf, size_t cap)
{
	struct stet_stat st;
	char text[24];
	int rc = stet_ll_getattr(call->server->vol, call->txn, call->node->ino, STET_LL_NOWAIT,
				 &st);
	int len;

	if (rc)
		return rc;
	len = snprintf(text, sizeof(text), "%llu", (unsigned long long)st.size);
	if (cap > 0 && (size_t)len > cap)
		return -ERANGE;
	if (cap > 0)
		memcpy(buf, text, (size_t)len);
	return len;
}

void stet_fuse_op_getxattr_(fuse_req_t req, fuse_ino_t id, const char *name, size_t cap)
{
	struct stet_fuse_call call;
	void *buf = NULL;
	ssize_t n;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_ANY))
		return;
	if (call.node->kind != STET_FUSE_NODE_INO)
		n = -ENODATA;
	else if (stet_fuse_reached_(&call, name, false))
		n = 0;
	else if (!is_kept(name))
		n = -EOPNOTSUPP;
	else if (cap && !(buf = malloc(cap)))
		n = -ENOMEM;
	else if (is_table_name(&call, name))
		n = get_count(&call, buf, cap);
	else
		n = stet_ll_getxattr(call.server->vol, call.txn, call.node->ino, name,
				     STET_LL_NOWAIT, buf, cap);
	if (n < 0)
		stet_fuse_reply_rc_(&call, (int)n);
	else if (cap)
		fuse_reply_buf(req, buf, (size_t)n);
	else
		fuse_reply_xattr(req, (size_t)n);
	free(buf);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_setxattr_(fuse_req_t req, fuse_ino_t id, const char *name, const char *value,
			    size_t len, int flags)
{
	struct stet_fuse_call call;
	unsigned how = STET_LL_NOWAIT;
	int rc = -EOPNOTSUPP;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_NO_GUARDS))
		return;
	if (flags & XATTR_CREATE)
		how |= STET_XATTR_CREATE;
	if (flags & XATTR_REPLACE)
		how |= STET_XATTR_REPLACE;
	if (stet_fuse_kills_privileges_())
		how |= STET_LL_KILL_SGID;
	if (stet_fuse_reached_(&call, name, true)) {
		stet_fuse_reply_rc_(&call, 0); /* nothing has changed */
		stet_fuse_call_end_(&call);
		return;
	}
	if (is_table_name(&call, name))
		rc = -EPERM;
	else if (is_kept(name))
		rc = stet_ll_setxattr(call.server->vol, write_txn(&call), call.node->ino, name,
				      value, len, how);
	if (!rc)
		tell_current(&call);
	stet_fuse_reply_rc_(&call, rc);
	stet_fuse_call_end_(&call);
}

/* Leaves out what is not given out (I2), and for users the names in "trusted.", which they may not read.
 * Returns the length of the rest. */
static size_t hide(char *names, size_t len, bool root)
{
	size_t kept = 0;

	for (size_t at = 0; at < len;) {
		size_t n = strlen(names + at) + 1;

		if (is_kept(names + at) && (root || strncmp(names + at, "trusted.", 8) != 0)) {
			memmove(names + kept, names + at, n);
			kept += n;
		}
		at += n;
	}
	return kept;
}

/* All names, in memory of the caller's; of a table with one more (I6). */
static ssize_t list_all(struct stet_fuse_call *call, char **ret)
{
	bool is_table = stet_fuse_is_table_(call->node->type);
	size_t more = is_table ? sizeof(STET_CONTROL_TABLE_XATTR) : 0, len = 0;
	struct stet_volume *vol = call->server->vol;
	uint64_t ino = call->node->ino;
	ssize_t n;

	do { /* it may grow in between */
		free(*ret);
		*ret = NULL;
		n = stet_ll_listxattr(vol, call->txn, ino, STET_LL_NOWAIT, NULL, 0);
		if (n < 0 || (n == 0 && !is_table))
			return n;
		*ret = malloc((size_t)n + more);
		if (!*ret)
			return -ENOMEM;
		if (n > 0)
			n = stet_ll_listxattr(vol, call->txn, ino, STET_LL_NOWAIT, *ret, (size_t)n);
	} while (n == -ERANGE);
	if (n < 0)
		return n;
	len = hide(*ret, (size_t)n, fuse_req_ctx(call->req)->uid == 0);
	if (is_table)
		memcpy(*ret + len, STET_CONTROL_TABLE_XATTR, more);
	return (ssize_t)(len + more);
}

void stet_fuse_op_listxattr_(fuse_req_t req, fuse_ino_t id, size_t cap)
{
	struct stet_fuse_call call;
	char *buf = NULL;
	ssize_t n = 0;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_ANY))
		return;
	if (call.node->kind == STET_FUSE_NODE_INO)
		n = list_all(&call, &buf);
	if (n > 0 && cap && (size_t)n > cap)
		n = -ERANGE;
	if (n < 0)
		stet_fuse_reply_rc_(&call, (int)n);
	else if (cap)
		fuse_reply_buf(req, buf, (size_t)n);
	else
		fuse_reply_xattr(req, (size_t)n);
	free(buf);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_removexattr_(fuse_req_t req, fuse_ino_t id, const char *name)
{
	struct stet_fuse_call call;
	int rc = -EOPNOTSUPP;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_NO_GUARDS))
		return;
	if (is_table_name(&call, name))
		rc = -EPERM;
	else if (is_kept(name))
		rc = stet_ll_removexattr(call.server->vol, write_txn(&call), call.node->ino, name,
					 STET_LL_NOWAIT);
	if (!rc)
		tell_current(&call);
	stet_fuse_reply_rc_(&call, rc);
	stet_fuse_call_end_(&call);
}
