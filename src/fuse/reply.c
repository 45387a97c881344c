/* reply.c - answers to the kernel: attributes, entries, errors; and how long the kernel may keep
 * them.
 *
 * I1. What an answer says may be kept only if no commit has started or ended to be published
 *     since the call began (same epoch), or none that touches the inodes in question is in
 *     progress. Whether it may, is decided and the answer sent under reply_lock: so every answer
 *     that may be kept was sent before the commit's first invalidation, which drops it, or tells
 *     the state after the commit.
 * I2. In a transaction nothing changes but through the kernel itself; its nodes go stale together.
 * I3. An answer that does not arrive (the request was interrupted) is taken back: the lookup it
 *     gave does not count.
 * I4. st_ino is the inode's number; in a detached transaction it carries the view's tag, so that
 *     cp and diff do not take the two for one file.
 * I5. With uid= or gid= the kernel is told one owner for all files, and decides by that who may do
 *     what. What is made is stored as his too; what there is keeps the owner that the volume says, and
 *     cannot be given to anybody: there would be nothing to see of it.
 * I6. A table is shown as a regular file, which nobody can open (EPERM). Its size is that of what a file with
 *     a byte for each record would have, but never 0: programs that copy trees try to open it, and say so,
 *     instead of making an empty file of it.
 */
#include "fuse/control.h"
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <syslog.h>

/* --- errors --- */

static void complain(struct stet_fuse_server *server, int rc)
{
	if (stet_fuse_may_log_(server))
		stet_fuse_log_(LOG_ERR, "request failed: %s: %s%s%s", strerror(-rc),
			       stet_error_text(), server->options->debug ? ", at " : "",
			       server->options->debug ? stet_error_place() : "");
}

int stet_fuse_errno_(struct stet_fuse_server *server, struct stet_fuse_view *view, int rc)
{
	bool in_txn = view && view->kind == STET_FUSE_TXN;

	switch (rc) {
	case -EBUSY:
	case -EDEADLK:
		stet_fuse_count_(server, conflicts);
		if (in_txn) {
			pthread_mutex_lock(&server->lock);
			view->conflict = true;
			pthread_mutex_unlock(&server->lock);
		}
		return -rc;
	case -EAGAIN: /* the transaction is being ended */
		return in_txn ? ESTALE : -rc;
	case -EIO:
	case -EUCLEAN:
	case -ENOMEM:
		complain(server, rc);
		return -rc;
	default:
		return -rc;
	}
}

void stet_fuse_reply_rc_(struct stet_fuse_call *call, int rc)
{
	fuse_reply_err(call->req, rc ? stet_fuse_errno_(call->server, call->view, rc) : 0);
}

/* --- attributes --- */

static struct timespec timespec_of(int64_t ns)
{
	int64_t s = ns / 1000000000, rest = ns % 1000000000;

	if (rest < 0) {
		s--;
		rest += 1000000000;
	}
	return (struct timespec){ .tv_sec = s, .tv_nsec = (long)rest };
}

/* I4 */
uint64_t stet_fuse_show_ino_(const struct stet_fuse_view *view, uint64_t ino)
{
	return ino | view->tag << 48;
}

/* I6 */
uint32_t stet_fuse_show_mode_(uint32_t mode)
{
	return stet_fuse_is_table_(mode) ? S_IFREG | (mode & 07777) : mode;
}

void stet_fuse_fill_(const struct stet_fuse_server *server, const struct stet_fuse_view *view,
		     const struct stet_stat *st, struct stat *ret)
{
	const struct stet_fuse_options *o = server->options;

	*ret = (struct stat){
		.st_ino = stet_fuse_show_ino_(view, st->ino),
		.st_mode = stet_fuse_show_mode_(st->mode),
		.st_nlink = st->nlink,
		.st_uid = o->has_uid ? o->uid : st->uid, /* I5 */
		.st_gid = o->has_gid ? o->gid : st->gid,
		.st_rdev = makedev((unsigned)(st->rdev >> 32), (unsigned)st->rdev),
		.st_size = (off_t)st->size,
		.st_blksize = 4096,
		.st_blocks = (blkcnt_t)st->blocks,
		.st_atim = timespec_of(st->atime_ns),
		.st_mtim = timespec_of(st->mtime_ns),
		.st_ctim = timespec_of(st->ctime_ns),
	};
	if (!stet_fuse_is_table_(st->mode))
		return;
	ret->st_blksize = STET_CONTROL_TABLE_BLKSIZE;
	if (ret->st_size == 0)
		ret->st_size = 1;
}

/* I1, I2 */
static double timeout_locked(const struct stet_fuse_call *call, uint64_t ino)
{
	struct stet_fuse_server *server = call->server;

	switch (call->view->kind) {
	case STET_FUSE_MAIN:
		break;
	case STET_FUSE_TXN:
		return STET_FUSE_VIEW_TIMEOUT_S;
	case STET_FUSE_OLD:
		return 0;
	}
	if (call->epoch != atomic_load(&server->epoch) || stet_fuse_touches_locked_(server, ino) ||
	    stet_fuse_touches_locked_(server, call->node->ino))
		return 0;
	return STET_FUSE_MAIN_TIMEOUT_S;
}

/* publish.c, I6 */
static void limit_size_locked(const struct stet_fuse_call *call, uint64_t ino, struct stat *attr)
{
	if (call->view->kind == STET_FUSE_MAIN && S_ISREG(attr->st_mode) &&
	    attr->st_blksize != STET_CONTROL_TABLE_BLKSIZE)
		attr->st_size = (off_t)stet_fuse_size_locked_(call->server, ino,
							      (uint64_t)attr->st_size);
}

void stet_fuse_own_(const struct stet_fuse_server *server, uint32_t *uid, uint32_t *gid)
{
	const struct stet_fuse_options *o = server->options;

	if (o->has_uid)
		*uid = o->uid;
	if (o->has_gid)
		*gid = o->gid;
}

int stet_fuse_check_owner_(const struct stet_fuse_server *server, struct stet_setattr *set)
{
	const struct stet_fuse_options *o = server->options;

	if (((set->set & STET_SET_UID) && o->has_uid && set->uid != o->uid) ||
	    ((set->set & STET_SET_GID) && o->has_gid && set->gid != o->gid))
		return -EPERM;
	if (o->has_uid)
		set->set &= ~STET_SET_UID;
	if (o->has_gid)
		set->set &= ~STET_SET_GID;
	return 0;
}

void stet_fuse_reply_attr_(struct stet_fuse_call *call, const struct stet_stat *st)
{
	struct stat attr;

	stet_fuse_fill_(call->server, call->view, st, &attr);
	stet_fuse_statx_btime_(timespec_of(st->btime_ns));
	pthread_rwlock_rdlock(&call->server->reply_lock);
	limit_size_locked(call, st->ino, &attr);
	fuse_reply_attr(call->req, &attr, timeout_locked(call, st->ino));
	pthread_rwlock_unlock(&call->server->reply_lock);
}

/* --- entries --- */

int stet_fuse_entry_(struct stet_fuse_call *call, const char *name, const struct stet_stat *st,
		     struct fuse_entry_param *ret)
{
	struct stet_fuse_node *node;
	int rc = stet_fuse_node_look_(call->server, call->view, st->ino, st->mode, &node);

	if (rc)
		return rc;
	stet_fuse_node_name_(call->server, node, call->node->id, name);
	*ret = (struct fuse_entry_param){ .ino = node->id, .generation = STET_FUSE_GENERATION };
	stet_fuse_fill_(call->server, call->view, st, &ret->attr);
	return 0;
}

void stet_fuse_timeouts_locked_(struct stet_fuse_call *call, struct fuse_entry_param *entry,
				uint64_t ino)
{
	struct stet_fuse_node *node;
	bool nameless;

	limit_size_locked(call, ino, &entry->attr);
	entry->attr_timeout = entry->entry_timeout = timeout_locked(call, ino);
	pthread_mutex_lock(&call->server->lock);
	node = stet_fuse_node_find_locked_(call->server, entry->ino);
	nameless = !node || node->replaced || node->names_overflow;
	pthread_mutex_unlock(&call->server->lock);
	if (nameless)
		entry->entry_timeout = entry->attr_timeout = 0;
}

void stet_fuse_reply_entry_(struct stet_fuse_call *call, const char *name,
			    const struct stet_stat *st)
{
	struct stet_fuse_server *server = call->server;
	struct fuse_entry_param entry;
	int rc = stet_fuse_entry_(call, name, st, &entry);

	if (rc) {
		stet_fuse_reply_rc_(call, rc);
		return;
	}
	pthread_rwlock_rdlock(&server->reply_lock);
	stet_fuse_timeouts_locked_(call, &entry, st->ino);
	rc = fuse_reply_entry(call->req, &entry);
	pthread_rwlock_unlock(&server->reply_lock);
	if (rc)
		stet_fuse_node_forget_(server, entry.ino, 1); /* I3 */
}

/* There is no such name, and the kernel may remember that. */
void stet_fuse_reply_absent_(struct stet_fuse_call *call)
{
	struct fuse_entry_param entry = { 0 };

	pthread_rwlock_rdlock(&call->server->reply_lock);
	entry.entry_timeout = timeout_locked(call, call->node->ino);
	fuse_reply_entry(call->req, &entry);
	pthread_rwlock_unlock(&call->server->reply_lock);
}
