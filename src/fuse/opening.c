/* opening.c - opening files: the only requests that wait for others, and they wait without a
 * thread.
 *
 * An opening goes through
 *	HELD    a commit that touches the file is being published; goes on when that has ended
 *	LOCKING it is opened for writing and waits for the data lock (stet_ll_open_lock)
 *	done    answered, and freed
 * and may go from LOCKING to HELD, keeping its lock, when the commit that it waited for is the
 * one that is being published.
 *
 * I1. An opening is completed, and counted as a handle of its node, under reply_lock while no
 *     commit touches the file. So a commit sees, once it has marked the file, every handle that
 *     there is, and no more come.
 * I2. The kernel came by a name that led to the node it has; if that was replaced meanwhile
 *     (node.c, I3), the answer is ESTALE and the kernel walks the path again, once. A handle that
 *     was there before is not concerned.
 * I3. Exactly one party ends an opening: who takes it from HELD, or gets the lock's answer.
 *     `parked` and `wait` say under opening_lock which party that will be.
 * I4. INTERRUPT: a parked opening ends with EINTR at once, a wait for a lock is cancelled and
 *     ends so. libfuse calls `interrupted` with the request's own lock held: whoever answers a
 *     request must have taken the callback away before (which waits for it), and never with
 *     opening_lock held.
 * I5. Openings count in node.openings, not as calls: closing a view does not wait for them but
 *     cancels them.
 * I6. server.pending counts everything that has no thread; the session outlives it.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>

struct opening {
	/* --- set at start, then constant --- */
	struct stet_fuse_server *server;
	fuse_req_t req;
	struct stet_fuse_node *node; /* counted in node.openings */
	struct stet_fuse_view *view; /* of the node when the request came; lives as long as it */
	struct fuse_file_info fi;
	bool writes, appends;
	bool fresh; /* nothing from the kernel's cache: attr.c, I5 */

	/* --- of whoever works on it --- */
	struct stet_fuse_handle *handle; /* owned until answered */

	/* --- under opening_lock --- */
	struct stet_fuse_list link; /* server.openings, while HELD or LOCKING */
	bool parked;                /* HELD */
	bool answered;              /* LOCKING: the lock's answer is there */
	struct stet_ll_wait *wait;  /* LOCKING: to cancel it */
	bool interrupted;
	int cancelled; /* why: a negative errno value */
	unsigned refs; /* who works on it, and the request for the lock */
};

static void go_on(struct opening *o);

/* --- handles --- */

struct stet_fuse_handle *stet_fuse_handle_create_(struct stet_fuse_server *server,
						  struct stet_fuse_node *node, int flags)
{
	struct stet_fuse_handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->node = node;
	handle->flags = flags;
	pthread_mutex_lock(&server->lock);
	node->openings++;
	stet_fuse_list_add(&node->open, &handle->link);
	pthread_mutex_unlock(&server->lock);
	return handle;
}

void stet_fuse_handle_destroy_(struct stet_fuse_server *server, struct stet_fuse_handle *handle,
			       bool opened)
{
	struct stet_fuse_node *node = handle->node;

	pthread_mutex_lock(&server->lock);
	stet_fuse_list_del(&handle->link);
	pthread_mutex_unlock(&server->lock);
	stet_ll_close_lock(server->vol, handle->lock);
	stet_fuse_listing_destroy_(handle->listing);
	free(handle);
	if (opened)
		stet_fuse_node_handle_(server, node, -1);
	else
		stet_fuse_node_opening_(server, node, -1);
}

/* --- counting what waits (I6) --- */

void stet_fuse_pending_(struct stet_fuse_server *server, int step)
{
	pthread_mutex_lock(&server->opening_lock);
	server->pending += (uint64_t)(int64_t)step;
	if (server->pending == 0)
		pthread_cond_broadcast(&server->no_pending);
	pthread_mutex_unlock(&server->opening_lock);
}

void stet_fuse_pending_wait_(struct stet_fuse_server *server)
{
	pthread_mutex_lock(&server->opening_lock);
	while (server->pending > 0)
		pthread_cond_wait(&server->no_pending, &server->opening_lock);
	pthread_mutex_unlock(&server->opening_lock);
}

static void put(struct opening *o)
{
	struct stet_fuse_server *server = o->server;
	unsigned refs;

	pthread_mutex_lock(&server->opening_lock);
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): references are beyond the analyzer */
	refs = --o->refs;
	pthread_mutex_unlock(&server->opening_lock);
	if (refs > 0)
		return;
	free(o);
	stet_fuse_pending_(server, -1);
}

/* --- ends --- */

/* The callback is gone, or this is the callback. Takes over a reference. */
static void fail(struct opening *o, int rc)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): references are beyond the analyzer */
	fuse_req_t req = o->req;
	int err = stet_fuse_errno_(o->server, o->view, rc);

	stet_fuse_handle_destroy_(o->server, o->handle, false);
	o->handle = NULL;
	fuse_reply_err(req, err);
	put(o);
}

/* Under server.lock: may the node be opened by a kernel that saw it as of view? (I2) */
static int may_open_locked(const struct opening *o)
{
	if (o->node->view != o->view)
		return -ESTALE;
	switch (o->view->state) {
	case STET_FUSE_OPEN:
	case STET_FUSE_PAUSED:
		return 0;
	case STET_FUSE_CLOSING:
		return o->view->flusher == fuse_req_ctx(o->req)->pid ? 0 : -ESTALE;
	case STET_FUSE_CLOSED:
	case STET_FUSE_ENDED:
		break;
	}
	return -ESTALE;
}

static bool is_held_up_locked(const struct opening *o)
{
	return o->view->kind == STET_FUSE_MAIN &&
	       stet_fuse_touches_locked_(o->server, o->node->ino);
}

static void count_handle_locked(struct stet_fuse_node *node)
{
	node->openings--;
	node->handles++;
	node->view->handles++;
}

/* I1. 1: answered; 0: it must be parked; negative: it fails. */
static int try_complete(struct opening *o)
{
	struct stet_fuse_server *server = o->server;
	struct stet_fuse_handle *handle = o->handle;
	bool lost = false;
	int rc = 0;

	pthread_rwlock_rdlock(&server->reply_lock);
	if (!is_held_up_locked(o)) {
		pthread_mutex_lock(&server->lock);
		rc = may_open_locked(o);
		if (!rc) {
			count_handle_locked(o->node);
			rc = 1;
		}
		pthread_mutex_unlock(&server->lock);
		if (rc == 1) {
			o->fi.fh = (uint64_t)(uintptr_t)handle;
			o->fi.keep_cache = !o->fresh;
			o->handle = NULL;
			lost = fuse_reply_open(o->req, &o->fi) != 0;
		}
	}
	pthread_rwlock_unlock(&server->reply_lock);
	if (lost) /* nobody will close it */
		stet_fuse_handle_destroy_(server, handle, true);
	return rc;
}

/* --- INTERRUPT (I4) --- */

static void interrupted(fuse_req_t req, void *arg)
{
	struct opening *o = arg;
	struct stet_fuse_server *server = o->server;
	bool mine;

	(void)req;
	stet_fuse_count_(server, opens_interrupted);
	pthread_mutex_lock(&server->opening_lock);
	o->interrupted = true;
	mine = o->parked;
	if (mine) {
		o->parked = false;
		stet_fuse_list_del(&o->link);
	} else if (o->wait && !o->answered) {
		stet_ll_open_lock_cancel(server->vol, o->wait);
	}
	pthread_mutex_unlock(&server->opening_lock);
	if (mine)
		fail(o, -EINTR);
}

static void take_callback(const struct opening *o)
{
	fuse_req_interrupt_func(o->req, NULL, NULL);
}

/* --- HELD --- */

/* True: it waits, and somebody else goes on with it: o may be gone. */
static bool park(struct opening *o)
{
	struct stet_fuse_server *server = o->server;
	bool parked;

	fuse_req_interrupt_func(o->req, interrupted, o); /* may call it at once */
	pthread_mutex_lock(&server->opening_lock);
	pthread_rwlock_rdlock(&server->reply_lock);
	parked = !o->interrupted && is_held_up_locked(o);
	if (parked) {
		o->parked = true;
		stet_fuse_list_add(&server->openings, &o->link);
	}
	pthread_rwlock_unlock(&server->reply_lock);
	pthread_mutex_unlock(&server->opening_lock);
	if (parked)
		stet_fuse_count_(server, opens_parked);
	else
		take_callback(o);
	return parked;
}

/* The last step, with the lock if one is needed. */
static void complete(struct opening *o)
{
	int rc = try_complete(o);

	while (rc == 0) {
		if (park(o))
			return;
		rc = o->interrupted ? -EINTR : try_complete(o);
	}
	if (rc < 0)
		fail(o, rc);
	else
		put(o);
}

/* I3. The first that is parked, which is then the caller's; NULL: none. */
static struct opening *take_parked(struct stet_fuse_server *server)
{
	struct opening *found = NULL;

	pthread_mutex_lock(&server->opening_lock);
	for (struct stet_fuse_list *l = server->openings.next; l != &server->openings && !found;
	     l = l->next) {
		struct opening *o = stet_fuse_container_of(l, struct opening, link);

		if (o->parked)
			found = o;
	}
	if (found) {
		found->parked = false;
		stet_fuse_list_del(&found->link);
	}
	pthread_mutex_unlock(&server->opening_lock);
	return found;
}

void stet_fuse_openings_resume_(struct stet_fuse_server *server)
{
	struct opening *o;

	while ((o = take_parked(server))) {
		take_callback(o);
		go_on(o);
	}
}

void stet_fuse_openings_cancel_(struct stet_fuse_server *server, const struct stet_fuse_view *view)
{
	pthread_mutex_lock(&server->opening_lock);
	for (struct stet_fuse_list *l = server->openings.next; l != &server->openings;
	     l = l->next) {
		struct opening *o = stet_fuse_container_of(l, struct opening, link);

		if ((view && o->view != view) || o->answered)
			continue;
		o->cancelled = -ESTALE;
		if (o->wait)
			stet_ll_open_lock_cancel(server->vol, o->wait);
	}
	pthread_mutex_unlock(&server->opening_lock);
}

/* --- LOCKING --- */

/* Who has it, the library says; by which name it was opened, we may know. */
static void log_busy(const struct opening *o)
{
	char name[STET_FUSE_NAME_MAX + 1] = "a file";

	if (!stet_fuse_may_log_(o->server))
		return;
	pthread_mutex_lock(&o->server->lock);
	if (o->node->names)
		snprintf(name, sizeof(name), "%s", o->node->names->name);
	pthread_mutex_unlock(&o->server->lock);
	stet_fuse_log_(LOG_INFO, "%s was not opened for writing: %s", name, stet_error_text());
}

/* From a thread of the library. Has a reference of its own. */
static void lock_answered(void *arg, int result, struct stet_ll_lock *lock)
{
	struct opening *o = arg;
	struct stet_fuse_server *server = o->server;

	pthread_mutex_lock(&server->opening_lock);
	o->answered = true;
	o->wait = NULL;
	stet_fuse_list_del(&o->link);
	if (result == -EINTR && o->cancelled)
		result = o->cancelled;
	pthread_mutex_unlock(&server->opening_lock);
	take_callback(o);
	o->handle->lock = lock;
	if (result == -EBUSY)
		log_busy(o);
	if (result)
		fail(o, result);
	else
		complete(o);
}

/* The lock will be answered later: makes that known, unless it was already. */
static void lock_started(struct opening *o, struct stet_ll_wait *wait)
{
	struct stet_fuse_server *server = o->server;

	pthread_mutex_lock(&server->opening_lock);
	if (!o->answered) {
		o->wait = wait;
		stet_fuse_list_add(&server->openings, &o->link);
		if (o->interrupted)
			stet_ll_open_lock_cancel(server->vol, wait);
	}
	pthread_mutex_unlock(&server->opening_lock);
	put(o);
}

static void lock_and_complete(struct opening *o)
{
	struct stet_fuse_server *server = o->server;
	struct stet_ll_lock *lock = NULL;
	struct stet_ll_wait *wait = NULL;
	int rc;

	pthread_mutex_lock(&server->opening_lock);
	o->refs++;
	pthread_mutex_unlock(&server->opening_lock);
	fuse_req_interrupt_func(o->req, interrupted, o);
	rc = stet_ll_open_lock(server->vol, o->view->txn, o->node->ino,
			       o->appends ? STET_LL_APPEND : 0, server->lock_timeout_ms,
			       lock_answered, o, &lock, &wait);
	if (rc == -EINPROGRESS) {
		lock_started(o, wait);
		return;
	}
	take_callback(o);
	o->handle->lock = lock;
	put(o); /* not the last: the request for the lock is over */
	/* NOLINTBEGIN(clang-analyzer-unix.Malloc): as it says */
	if (rc)
		fail(o, rc);
	else
		complete(o);
	/* NOLINTEND(clang-analyzer-unix.Malloc) */
}

/* --- OPEN --- */

/* After a commit: the node may have been replaced, and then its file must not be locked. */
static void go_on(struct opening *o)
{
	int rc;

	pthread_mutex_lock(&o->server->lock);
	rc = may_open_locked(o);
	pthread_mutex_unlock(&o->server->lock);
	if (rc)
		fail(o, rc);
	else if (o->writes && !o->handle->lock)
		lock_and_complete(o);
	else
		complete(o);
}

static bool wants_write(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY;
}

bool stet_fuse_only_appends_(int flags)
{
	return (flags & O_ACCMODE) == O_WRONLY && (flags & O_APPEND);
}

static struct opening *create(struct stet_fuse_call *call, const struct fuse_file_info *fi)
{
	struct opening *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->handle = stet_fuse_handle_create_(call->server, call->node, fi->flags);
	if (!o->handle) {
		free(o);
		return NULL;
	}
	o->server = call->server;
	o->req = call->req;
	o->node = call->node;
	o->view = call->view;
	o->fi = *fi;
	o->writes = wants_write(fi->flags);
	o->appends = stet_fuse_only_appends_(fi->flags);
	o->fresh = stet_fuse_wants_reads_(call->server, call->node, call->view, fi->flags);
	o->refs = 1;
	stet_fuse_list_init(&o->link);
	stet_fuse_pending_(call->server, 1);
	return o;
}

void stet_fuse_open_(struct stet_fuse_call *call, const struct fuse_file_info *fi)
{
	struct opening *o = NULL;
	int rc = 0;

	if (call->node->kind != STET_FUSE_NODE_INO || call->node->type == S_IFDIR)
		rc = -EISDIR;
	else if (stet_fuse_is_table_(call->node->type))
		rc = -EPERM;
	else if (wants_write(fi->flags) && call->view->read_only)
		rc = -EROFS;
	else if (wants_write(fi->flags) && call->view->kind == STET_FUSE_OLD)
		rc = -ESTALE;
	else if (!(o = create(call, fi)))
		rc = -ENOMEM;
	if (rc)
		stet_fuse_reply_rc_(call, rc);
	else if (o->writes)
		lock_and_complete(o);
	else
		complete(o);
}

/* --- CREATE --- */

/* Answers; 0, or a negative errno value if it could not be opened, -EINTR if it was opened in
 * vain. */
static int reply_created(struct stet_fuse_call *call, struct fuse_entry_param *entry, uint64_t ino,
			 struct stet_fuse_handle *handle, struct fuse_file_info *fi)
{
	struct stet_fuse_server *server = call->server;
	int rc = 0;

	pthread_rwlock_rdlock(&server->reply_lock);
	/* Being changed by a commit already: the kernel looks again. But what is locked since it was
	 * made, keeps its data. */
	if (!handle->lock && call->view->kind == STET_FUSE_MAIN &&
	    stet_fuse_touches_locked_(server, ino))
		rc = -ESTALE;
	pthread_mutex_lock(&server->lock);
	if (handle->node->view != call->view)
		rc = -ESTALE; /* I2: it was, and that was published */
	if (!rc)
		count_handle_locked(handle->node);
	pthread_mutex_unlock(&server->lock);
	if (!rc) {
		stet_fuse_timeouts_locked_(call, entry, ino);
		fi->fh = (uint64_t)(uintptr_t)handle;
		fi->keep_cache = 1;
		if (fuse_reply_create(call->req, entry, fi))
			rc = -EINTR;
	}
	pthread_rwlock_unlock(&server->reply_lock);
	return rc;
}

void stet_fuse_open_created_(struct stet_fuse_call *call, const char *name,
			     const struct stet_stat *st, const struct fuse_file_info *fi,
			     struct stet_ll_lock *lock)
{
	struct stet_fuse_server *server = call->server;
	struct fuse_file_info opened = *fi;
	struct stet_fuse_handle *handle = NULL;
	struct fuse_entry_param entry;
	struct stet_fuse_node *node;
	int rc = stet_fuse_entry_(call, name, st, &entry);

	if (rc) {
		stet_fuse_reply_rc_(call, rc);
		stet_ll_close_lock(server->vol, lock);
		return;
	}
	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_find_locked_(server, entry.ino); /* looked up: it is there */
	pthread_mutex_unlock(&server->lock);
	handle = stet_fuse_handle_create_(server, node, fi->flags);
	if (handle) {
		handle->lock = lock;
		rc = reply_created(call, &entry, st->ino, handle, &opened);
	} else {
		stet_ll_close_lock(server->vol, lock);
		rc = -ENOMEM;
	}
	if (!rc)
		return;
	if (rc != -EINTR)
		stet_fuse_reply_rc_(call, rc);
	if (handle)
		stet_fuse_handle_destroy_(server, handle, rc == -EINTR);
	stet_fuse_node_forget_(server, entry.ino, 1);
}
