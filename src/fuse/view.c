/* view.c - the life of views.
 *
 *	OPEN ---commit---> CLOSING ---flushed---> CLOSED ---> ENDED ---forgotten---> gone
 *	     ---abort-----------------------------^
 *
 * I1. Whoever moves a view out of OPEN ends it; everybody else gets -ENOENT. So a transaction is
 *     ended once.
 * I2. In CLOSING only pages that the kernel writes back enter (and the flusher's own opens): what
 *     a mapping has accepted is part of the commit. In CLOSED nothing enters.
 * I3. The transaction is ended only when no call is left in the view (node.c, I4); openings are
 *     cancelled first, they hold no call.
 * I4. A page that could not be written back fails the commit: the kernel tells the program only
 *     at the next fsync or close.
 * I5. OLD views are never closed: they go with the last node that sees them.
 * I6. Of a view that has ended the kernel may keep directories and files for as long as it likes. So
 *     their holds are given back before whoever ends it is answered; and the kernel is told that the
 *     guard is gone, which has it forget all that nobody uses. Nobody who looks at a guard waits
 *     for the end of a transaction, so telling it does not either.
 * A crash of the daemon ends all transactions; nothing of them was visible.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG_MAX 0xffefu /* 0xffff and 0xfffe are of the directories below .stet */

/* --- references --- */

bool stet_fuse_view_put_locked_(struct stet_fuse_view *view)
{
	if (--view->refs > 0)
		return false;
	stet_fuse_list_del(&view->link);
	return true;
}

void stet_fuse_view_destroy_(struct stet_fuse_view *view)
{
	stet_abort(view->txn); /* I5; NULL for the others */
	free(view);
}

void stet_fuse_view_put_(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	bool last;

	pthread_mutex_lock(&server->lock);
	last = stet_fuse_view_put_locked_(view);
	pthread_mutex_unlock(&server->lock);
	if (last)
		stet_fuse_view_destroy_(view);
}

struct stet_fuse_view *stet_fuse_view_find_(struct stet_fuse_server *server, uint64_t id)
{
	struct stet_fuse_view *found = NULL;

	pthread_mutex_lock(&server->lock);
	for (struct stet_fuse_list *l = server->views.next; l != &server->views; l = l->next) {
		struct stet_fuse_view *view = stet_fuse_container_of(l, struct stet_fuse_view,
								     link);

		if (view->kind == STET_FUSE_TXN && view->id == id &&
		    view->state == STET_FUSE_OPEN) {
			view->refs++;
			found = view;
			break;
		}
	}
	pthread_mutex_unlock(&server->lock);
	return found;
}

/* --- beginning --- */

static bool tag_is_used_locked(const struct stet_fuse_server *server, uint64_t tag)
{
	for (struct stet_fuse_list *l = server->views.next; l != &server->views; l = l->next)
		if (stet_fuse_container_of(l, struct stet_fuse_view, link)->tag == tag)
			return true;
	return false;
}

static uint64_t next_tag_locked(struct stet_fuse_server *server)
{
	for (unsigned tries = 0; tries < TAG_MAX; tries++) {
		server->next_tag = server->next_tag % TAG_MAX + 1;
		if (!tag_is_used_locked(server, server->next_tag))
			break;
	}
	return server->next_tag;
}

static struct stet_fuse_view *make(struct stet_fuse_server *server, enum stet_fuse_view_kind kind,
				   struct stet_txn *txn)
{
	struct stet_fuse_view *view = calloc(1, sizeof(*view));

	if (!view) {
		stet_abort(txn);
		return NULL;
	}
	view->kind = kind;
	view->txn = txn;
	view->id = stet_transaction_id(txn);
	view->refs = 1;
	view->begun_s = (int64_t)time(NULL);
	stet_fuse_list_init(&view->nodes);
	pthread_mutex_lock(&server->lock);
	view->seq = server->next_seq++;
	pthread_mutex_unlock(&server->lock);
	return view;
}

static void add(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	pthread_mutex_lock(&server->lock);
	if (view->detached)
		view->tag = next_tag_locked(server);
	stet_fuse_list_add(&server->views, &view->link);
	pthread_mutex_unlock(&server->lock);
}

int stet_fuse_view_begin_(struct stet_fuse_server *server, const struct stet_fuse_view_new *what,
			  struct stet_fuse_view **ret)
{
	struct stet_fuse_view *view;
	struct stet_txn *txn;
	int rc = stet_begin(server->vol, what->level, &txn);

	if (rc)
		return rc;
	view = make(server, STET_FUSE_TXN, txn);
	if (!view)
		return -ENOMEM;
	view->detached = what->detached;
	view->read_only = what->level & STET_BEGIN_READ_ONLY;
	view->uid = what->uid;
	view->gid = what->gid;
	view->pid = what->pid;
	view->refs++; /* the caller's; the first one is given back when it has ended */
	add(server, view);
	stet_fuse_count_(server, views_begun);
	*ret = view;
	return 0;
}

int stet_fuse_view_old_(struct stet_fuse_server *server, struct stet_fuse_view **ret)
{
	struct stet_fuse_view *view;
	struct stet_txn *txn;
	int rc = stet_begin(server->vol, STET_BEGIN_READ_ONLY | STET_BEGIN_SNAPSHOT, &txn);

	if (rc)
		return rc;
	view = make(server, STET_FUSE_OLD, txn);
	if (!view)
		return -ENOMEM;
	add(server, view);
	*ret = view;
	return 0;
}

/* --- ending --- */

/* OPEN -> to (I1). False: somebody else ends it. */
static bool leave_open(struct stet_fuse_server *server, struct stet_fuse_view *view,
		       enum stet_fuse_view_state to)
{
	bool mine;

	pthread_mutex_lock(&server->lock);
	mine = view->state == STET_FUSE_OPEN;
	if (mine) {
		view->state = to;
		view->flusher = to == STET_FUSE_CLOSING ? gettid() : 0;
	}
	pthread_mutex_unlock(&server->lock);
	return mine;
}

/* Waits until nobody works in it (I3); then it is in state `to`. */
static void drain(struct stet_fuse_server *server, struct stet_fuse_view *view,
		  enum stet_fuse_view_state to)
{
	pthread_mutex_lock(&server->lock);
	view->state = to;
	if (to != STET_FUSE_CLOSING)
		view->flusher = 0;
	while (view->calls > 0)
		pthread_cond_wait(&server->drained, &server->lock);
	pthread_mutex_unlock(&server->lock);
}

/* I6 */
static void forget(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	char name[24];

	stet_fuse_nodes_let_go_(server, view);
	snprintf(name, sizeof(name), "%llu", (unsigned long long)view->id);
	stet_fuse_inval_name_(server, STET_FUSE_ID_TXNS, name);
}

static void ended(struct stet_fuse_server *server, struct stet_fuse_view *view,
		  struct stet_fuse_view_end *ret)
{
	pthread_mutex_lock(&server->lock);
	view->txn = NULL;
	view->state = STET_FUSE_ENDED;
	if (ret->result == -EBUSY || ret->result == -EDEADLK)
		view->conflict = true;
	ret->conflict = view->conflict;
	pthread_mutex_unlock(&server->lock);
	stet_fuse_drop_view_(server, view);
	forget(server, view);
	stet_fuse_view_put_(server, view); /* the first reference */
}

/* Waiting for a commit. */
struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	int result;
};

static void committed(void *arg, int result)
{
	struct waiting *w = arg;

	pthread_mutex_lock(&w->lock);
	w->done = true;
	w->result = result;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static int commit_and_wait(struct stet_txn *txn, unsigned flags)
{
	struct waiting w = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };
	int rc = stet_ll_commit(txn, flags, committed, &w);

	if (rc)
		return rc;
	pthread_mutex_lock(&w.lock);
	while (!w.done)
		pthread_cond_wait(&w.cond, &w.lock);
	pthread_mutex_unlock(&w.lock);
	return w.result;
}

static void explain(struct stet_txn *txn, struct stet_fuse_view_end *ret)
{
	if (stet_conflict_text(txn, ret->text, sizeof(ret->text)) == 0)
		snprintf(ret->text, sizeof(ret->text), "%s", strerror(-ret->result));
}

int stet_fuse_view_commit_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			   unsigned flags, struct stet_fuse_view_end *ret)
{
	*ret = (struct stet_fuse_view_end){ 0 };
	if (!leave_open(server, view, STET_FUSE_CLOSING))
		return -ENOENT;
	stet_fuse_openings_cancel_(server, view);
	drain(server, view, STET_FUSE_CLOSING);
	stet_fuse_flush_view_(server, view); /* I2 */
	drain(server, view, STET_FUSE_CLOSED);
	ret->result = view->write_error; /* nobody is left who writes it; I4 */
	if (ret->result)
		snprintf(ret->text, sizeof(ret->text),
			 "data of a mapped file could not be written: %s", strerror(-ret->result));
	else
		ret->result = commit_and_wait(view->txn, flags);
	if (ret->result) {
		if (!ret->text[0])
			explain(view->txn, ret);
		stet_abort(view->txn);
	} else {
		stet_fuse_count_(server, views_committed);
	}
	ended(server, view, ret);
	return 0;
}

int stet_fuse_view_abort_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			  struct stet_fuse_view_end *ret)
{
	*ret = (struct stet_fuse_view_end){ 0 };
	if (!leave_open(server, view, STET_FUSE_CLOSED))
		return -ENOENT;
	stet_fuse_openings_cancel_(server, view);
	drain(server, view, STET_FUSE_CLOSED);
	stet_conflict_text(view->txn, ret->text, sizeof(ret->text));
	stet_abort(view->txn);
	stet_fuse_count_(server, views_aborted);
	ended(server, view, ret);
	return 0;
}

/* With the mount and all connections gone. OLD views go with their nodes. */
void stet_fuse_views_end_(struct stet_fuse_server *server)
{
	struct stet_fuse_list *l = server->views.next;

	while (l != &server->views) {
		struct stet_fuse_view *view = stet_fuse_container_of(l, struct stet_fuse_view,
								     link);

		l = l->next;
		if (!view->txn)
			continue;
		stet_abort(view->txn);
		view->txn = NULL;
		if (view->kind == STET_FUSE_TXN) {
			view->state = STET_FUSE_ENDED;
			stet_fuse_view_put_(server, view);
		}
	}
}

/* --- looking --- */

int stet_fuse_view_enter_(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	bool entered;

	pthread_mutex_lock(&server->lock);
	entered = view->state == STET_FUSE_OPEN;
	if (entered)
		view->calls++;
	pthread_mutex_unlock(&server->lock);
	return entered ? 0 : -ENOENT;
}

void stet_fuse_view_leave_(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	pthread_mutex_lock(&server->lock);
	if (--view->calls == 0)
		pthread_cond_broadcast(&server->drained);
	pthread_mutex_unlock(&server->lock);
}

int stet_fuse_view_changes_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			    stet_changes_fn *fn, void *arg)
{
	int rc = stet_fuse_view_enter_(server, view);

	if (rc)
		return rc;
	stet_fuse_flush_view_(server, view);
	rc = stet_changes(view->txn, fn, arg);
	stet_fuse_view_leave_(server, view);
	return rc;
}
