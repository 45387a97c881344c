/* file.c - requests on the content of files.
 *
 * I1. Nothing here waits for a lock: who may write has locked the file when it opened it
 *     (opening.c).
 * I2. The node id says which file, not the handle: pages of a mapping come with any handle of the
 *     file.
 * I3. Writes with O_APPEND append wherever the end is now. The kernel's idea of the end may be
 *     old after a commit that appended; it finds out with the next look at the attributes.
 * I4. In a transaction fsync is answered at once: durability is the commit's.
 * I5. An old version (OLD view) is only read.
 * I6. An fsync that waits has no thread. It is not interrupted: the flush ends by itself, and the
 *     kernel sends INTERRUPT for any signal, and for what io_uring has to do, where no program
 *     expects fsync(2) to fail.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define COPY_MAX (16u << 20) /* bytes copied by one request: the caller comes again */
#define COPY_PIECE STET_FUSE_WRITE_MAX

void stet_fuse_op_open_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct stet_fuse_call call;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_ANY))
		return;
	stet_fuse_open_(&call, fi);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_release_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct stet_fuse_server *server = fuse_req_userdata(req);

	(void)id;
	stet_fuse_handle_destroy_(server, stet_fuse_handle_of_(fi), true);
	fuse_reply_err(req, 0);
}

void stet_fuse_op_read_(fuse_req_t req, fuse_ino_t id, size_t len, off_t off,
			struct fuse_file_info *fi)
{
	struct stet_fuse_call call;
	char *buf;
	ssize_t n;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_NO_GUARDS))
		return;
	buf = malloc(len ? len : 1);
	n = buf ? stet_ll_read(call.server->vol, call.txn, call.node->ino, (uint64_t)off, buf, len,
			       STET_LL_NOWAIT)
		: -ENOMEM;
	if (n > 0)
		stet_fuse_accessed_(&call, stet_fuse_handle_of_(fi));
	if (n < 0)
		stet_fuse_reply_rc_(&call, (int)n);
	else
		fuse_reply_buf(req, buf, (size_t)n);
	free(buf);
	stet_fuse_call_end_(&call);
}

static void note_writeback(struct stet_fuse_call *call, int rc)
{
	if (call->view->kind != STET_FUSE_TXN)
		return;
	pthread_mutex_lock(&call->server->lock);
	if (!call->view->write_error)
		call->view->write_error = rc;
	pthread_mutex_unlock(&call->server->lock);
}

void stet_fuse_op_write_(fuse_req_t req, fuse_ino_t id, const char *buf, size_t len, off_t off,
			 struct fuse_file_info *fi)
{
	enum stet_fuse_access access = fi->writepage ? STET_FUSE_WRITEBACK : STET_FUSE_NO_GUARDS;
	struct stet_fuse_call call;
	ssize_t n;

	if (!stet_fuse_call_begin_(&call, req, id, access))
		return;
	n = call.view->kind == STET_FUSE_OLD ? -ESTALE /* I5 */
					     : stet_fuse_kill_privileges_(&call);
	if (n < 0)
		; /* it stays as it is */
	else if ((fi->flags & O_APPEND) && !fi->writepage)
		n = stet_ll_append(call.server->vol, call.txn, call.node->ino, buf, len,
				   STET_LL_NOWAIT); /* I3 */
	else
		n = stet_ll_write(call.server->vol, call.txn, call.node->ino, (uint64_t)off, buf,
				  len, STET_LL_NOWAIT);
	if (n < 0 && fi->writepage)
		note_writeback(&call, (int)n);
	if (n > 0 && call.view->kind == STET_FUSE_MAIN)
		stet_fuse_note_write_(call.server, call.node->ino, (uint64_t)off + (uint64_t)n);
	if (n < 0)
		stet_fuse_reply_rc_(&call, (int)n);
	else
		fuse_reply_write(req, (size_t)n);
	stet_fuse_call_end_(&call);
}

/* --- fsync (I6) --- */

struct syncing {
	struct stet_fuse_server *server;
	fuse_req_t req;
};

static void synced(void *arg, int result)
{
	struct syncing *sync = arg;
	struct stet_fuse_server *server = sync->server;

	fuse_reply_err(sync->req, result ? stet_fuse_errno_(server, NULL, result) : 0);
	free(sync);
	stet_fuse_pending_(server, -1);
}

static void sync_later(struct stet_fuse_call *call)
{
	struct stet_fuse_server *server = call->server;
	struct syncing *sync = calloc(1, sizeof(*sync));
	int rc;

	if (!sync) {
		stet_fuse_reply_rc_(call, -ENOMEM);
		return;
	}
	sync->server = server;
	sync->req = call->req;
	stet_fuse_pending_(server, 1);
	rc = stet_ll_fsync_async(server->vol, NULL, synced, sync);
	if (rc)
		synced(sync, rc);
}

/* Files and directories: what is made durable is everything done so far. */
void stet_fuse_op_fsync_(fuse_req_t req, fuse_ino_t id, int data_only, struct fuse_file_info *fi)
{
	struct stet_fuse_call call;

	(void)data_only;
	(void)fi;
	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_WRITEBACK))
		return;
	if (call.view->kind == STET_FUSE_TXN) /* I4 */
		fuse_reply_err(req, 0);
	else
		sync_later(&call);
	stet_fuse_call_end_(&call);
}

/* --- space and holes --- */

void stet_fuse_op_fallocate_(fuse_req_t req, fuse_ino_t id, int mode, off_t off, off_t len,
			     struct fuse_file_info *fi)
{
	const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	struct stet_fuse_call call;
	int rc = -ESTALE;

	(void)fi;
	if (mode & ~known) { /* the kernel passes on no others; they could wait (I1) */
		fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_NO_GUARDS))
		return;
	if (call.view->kind != STET_FUSE_OLD) /* I5 */
		rc = stet_fuse_kill_privileges_(&call);
	if (!rc)
		rc = stet_ll_fallocate(call.server->vol, call.txn, call.node->ino, mode,
				       (uint64_t)off, (uint64_t)len, STET_LL_NOWAIT);
	stet_fuse_reply_rc_(&call, rc);
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_lseek_(fuse_req_t req, fuse_ino_t id, off_t off, int whence,
			 struct fuse_file_info *fi)
{
	struct stet_fuse_call call;
	uint64_t found = 0;
	int rc = -EINVAL;

	(void)fi;
	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_NO_GUARDS))
		return;
	if (off < 0)
		rc = -ENXIO;
	else if (whence == SEEK_DATA || whence == SEEK_HOLE)
		rc = stet_ll_seek(call.server->vol, call.txn, call.node->ino, (uint64_t)off,
				  whence == SEEK_DATA ? STET_SEEK_DATA : STET_SEEK_HOLE,
				  STET_LL_NOWAIT, &found);
	if (rc)
		stet_fuse_reply_rc_(&call, rc);
	else
		fuse_reply_lseek(req, (off_t)found);
	stet_fuse_call_end_(&call);
}

/* --- copying inside the daemon --- */

struct copying {
	struct stet_fuse_call *from, *to;
	uint64_t from_off, to_off;
	char *buf;
};

/* Copies up to len bytes. Returns how many; 0 at the end of the source. */
static ssize_t copy_piece(const struct copying *c, size_t len)
{
	ssize_t n = stet_ll_read(c->from->server->vol, c->from->txn, c->from->node->ino,
				 c->from_off, c->buf, len, STET_LL_NOWAIT);

	if (n <= 0)
		return n;
	return stet_ll_write(c->to->server->vol, c->to->txn, c->to->node->ino, c->to_off, c->buf,
			     (size_t)n, STET_LL_NOWAIT);
}

static ssize_t copy(struct copying *c, size_t len)
{
	size_t done = 0;
	ssize_t n = 0;

	while (done < len) {
		size_t want = len - done < COPY_PIECE ? len - done : COPY_PIECE;

		n = copy_piece(c, want);
		if (n <= 0)
			break;
		done += (size_t)n;
		c->from_off += (uint64_t)n;
		c->to_off += (uint64_t)n;
	}
	if (c->to->view->kind == STET_FUSE_MAIN)
		stet_fuse_note_write_(c->to->server, c->to->node->ino, c->to_off);
	return done || n >= 0 ? (ssize_t)done : n;
}

/* A copy reads, of which the kernel does not think: its idea of the access time is dropped. */
static void note_copied_from(struct stet_fuse_call *from, struct stet_fuse_handle *handle)
{
	if (!stet_fuse_wants_reads_(from->server, from->node, from->view, handle->flags))
		return;
	stet_fuse_accessed_(from, handle);
	stet_fuse_inval_inode_(from->server, from->node->id, false);
}

static void copy_and_reply(struct stet_fuse_call *from, struct stet_fuse_handle *from_handle,
			   off_t from_off, struct stet_fuse_call *to, off_t to_off, size_t len)
{
	struct copying c = {
		.from = from,
		.to = to,
		.from_off = (uint64_t)from_off,
		.to_off = (uint64_t)to_off,
	};
	ssize_t n = -ESTALE;

	if (to->view->kind != STET_FUSE_OLD) /* I5 */
		n = stet_fuse_kill_privileges_(to);
	if (n == 0) {
		c.buf = malloc(COPY_PIECE);
		n = c.buf ? copy(&c, len < COPY_MAX ? len : COPY_MAX) : -ENOMEM;
	}
	if (n > 0)
		note_copied_from(from, from_handle);
	if (n < 0)
		stet_fuse_reply_rc_(to, (int)n);
	else
		fuse_reply_write(to->req, (size_t)n);
	free(c.buf);
}

void stet_fuse_op_copy_file_range_(fuse_req_t req, fuse_ino_t from_id, off_t from_off,
				   struct fuse_file_info *from_fi, fuse_ino_t to_id, off_t to_off,
				   struct fuse_file_info *to_fi, size_t len, int flags)
{
	struct stet_fuse_call from, to;

	(void)to_fi;
	if (flags) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	if (!stet_fuse_call_begin_(&from, req, from_id, STET_FUSE_NO_GUARDS))
		return;
	if (stet_fuse_call_begin_(&to, req, to_id, STET_FUSE_NO_GUARDS)) {
		copy_and_reply(&from, stet_fuse_handle_of_(from_fi), from_off, &to, to_off, len);
		stet_fuse_call_end_(&to);
	}
	stet_fuse_call_end_(&from);
}
