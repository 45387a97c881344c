/* view.c - the life of views.
 *
 *	OPEN ---commit---> CLOSING ---flushed---> CLOSED ---> ENDED ---forgotten---> gone
 *	     ---abort-----------------------------^   |
 *	     <--the part to commit does not stand alone
 *	     <--> PAUSED, while a part of it is given up
 *
 * I1. Whoever moves a view out of OPEN ends it, or moves it back; everybody else gets -ENOENT. So a
 *     transaction is ended once.
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
 * I7. PAUSED asks nothing of the kernel, and lasts as long as the library needs to take a write-set apart: calls
 *     wait in their threads. What was mapped and changed before has been written back when it begins.
 * I8. What a transaction began with is a view of its own, made when somebody looks at it. Nobody but
 *     who ends the transaction ends it, when no call is left there; so a call in the transaction's
 *     guard may use it.
 * I9. A command within a command's transaction promises, like any other, all or nothing. If it fails,
 *     half of what it did is there, and cannot be told from the rest: so the transaction can only be
 *     dropped, unless it did nothing. While such a command works there is no commit either.
 * I10. A client of the library within it (control_library.c) is at work there as a command is: its calls count as
 *     calls, its transactions as commands. What it changes the kernel is told, before the client is answered.
 * A crash of the daemon ends all transactions; nothing of them was visible.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define TAG_MAX 0xffefu /* 0xffff and 0xfffe are of the directories below .stet */

int64_t stet_fuse_now_ms_(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

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

static struct stet_fuse_view *find_locked(struct stet_fuse_server *server, uint64_t id)
{
	for (struct stet_fuse_list *l = server->views.next; l != &server->views; l = l->next) {
		struct stet_fuse_view *view = stet_fuse_container_of(l, struct stet_fuse_view,
								     link);

		if (view->kind == STET_FUSE_TXN && !view->is_base && view->id == id &&
		    (view->state == STET_FUSE_OPEN || view->state == STET_FUSE_PAUSED))
			return view;
	}
	return NULL;
}

struct stet_fuse_view *stet_fuse_view_find_(struct stet_fuse_server *server, uint64_t id)
{
	struct stet_fuse_view *found;

	pthread_mutex_lock(&server->lock);
	while ((found = find_locked(server, id)) && found->state == STET_FUSE_PAUSED)
		pthread_cond_wait(&server->drained, &server->lock); /* I7 */
	if (found)
		found->refs++;
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
	view->server = server;
	view->kind = kind;
	view->txn = txn;
	view->id = stet_transaction_id(txn);
	view->refs = 1;
	view->begun_s = (int64_t)time(NULL);
	view->begun_ms = stet_fuse_now_ms_();
	stet_fuse_list_init(&view->nodes);
	pthread_mutex_lock(&server->lock);
	view->seq = server->next_seq++;
	pthread_mutex_unlock(&server->lock);
	return view;
}

static void add(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	pthread_mutex_lock(&server->lock);
	if (view->detached || view->is_base)
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
	stet_ll_set_user(txn, what->uid);
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

/* I8 */
static struct stet_fuse_view *known_base(struct stet_fuse_server *server,
					 const struct stet_fuse_view *view)
{
	struct stet_fuse_view *base;

	pthread_mutex_lock(&server->lock);
	base = view->base;
	pthread_mutex_unlock(&server->lock);
	return base;
}

static int make_base(struct stet_fuse_server *server, struct stet_fuse_view *view,
		     struct stet_fuse_view **ret)
{
	struct stet_fuse_view *base;
	struct stet_txn *txn;
	int rc = stet_begin_base(view->txn, &txn);

	if (rc)
		return rc;
	base = make(server, STET_FUSE_TXN, txn);
	if (!base)
		return -ENOMEM;
	base->is_base = base->read_only = true;
	base->uid = view->uid;
	base->gid = view->gid;
	add(server, base);
	*ret = base;
	return 0;
}

int stet_fuse_view_base_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			 struct stet_fuse_view **ret)
{
	struct stet_fuse_view *base = NULL;
	struct stet_fuse_view *mine = NULL;
	int rc = 0;

	*ret = known_base(server, view);
	if (!*ret)
		rc = make_base(server, view, &mine);
	if (*ret || rc)
		return rc;
	pthread_mutex_lock(&server->lock);
	base = view->base;
	if (!base)
		view->base = mine;
	pthread_mutex_unlock(&server->lock);
	if (base)
		stet_fuse_view_put_(server, mine); /* somebody was faster; nobody has seen ours */
	*ret = base ? base : mine;
	return 0;
}

/* --- ending --- */

/* OPEN -> to (I1). False: somebody else ends it. */
static bool leave_open(struct stet_fuse_server *server, struct stet_fuse_view *view,
		       enum stet_fuse_view_state to)
{
	bool mine;

	pthread_mutex_lock(&server->lock);
	while (view->state == STET_FUSE_PAUSED)
		pthread_cond_wait(&server->drained, &server->lock);
	mine = view->state == STET_FUSE_OPEN;
	if (mine) {
		view->state = to;
		view->ending = true;
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

/* I8 */
static void end_base(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	struct stet_fuse_view *base = known_base(server, view);

	if (!base)
		return;
	leave_open(server, base, STET_FUSE_CLOSED);
	stet_fuse_openings_cancel_(server, base);
	drain(server, base, STET_FUSE_CLOSED);
	stet_abort(base->txn);
	pthread_mutex_lock(&server->lock);
	view->base = NULL;
	base->txn = NULL;
	base->state = STET_FUSE_ENDED;
	pthread_mutex_unlock(&server->lock);
	stet_fuse_drop_view_(server, base);
	stet_fuse_nodes_let_go_(server, base);
	stet_fuse_view_put_(server, base);
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
	end_base(server, view);
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

static void reopen(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	pthread_mutex_lock(&server->lock);
	view->state = STET_FUSE_OPEN;
	view->ending = false;
	pthread_cond_broadcast(&server->drained);
	pthread_mutex_unlock(&server->lock);
}

/* What the kernel has of a view and must forget. */
struct stale {
	struct stet_fuse_server *server;
	struct stet_fuse_view *view;
	struct stet_fuse_ids inodes, dirs; /* dirs: of names, one by one */
	char **name;                       /* owned */
	bool all_of_it;                    /* all that could be noted */
};

static uint64_t id_in_view(const struct stale *s, uint64_t ino)
{
	struct stet_fuse_node *node;
	uint64_t id;

	pthread_mutex_lock(&s->server->lock);
	node = stet_fuse_node_of_locked_(s->server, s->view, ino);
	id = node ? node->id : 0;
	pthread_mutex_unlock(&s->server->lock);
	return id;
}

static bool note_name(struct stale *s, uint64_t dir_id, const char *name)
{
	s->name[s->dirs.count] = strdup(name);
	return s->name[s->dirs.count] && stet_fuse_ids_add_(&s->dirs, dir_id);
}

static void note_stale(void *arg, const struct stet_ll_touched *touched)
{
	struct stale *s = arg;

	s->name = calloc(touched->name_count + 1, sizeof(*s->name));
	s->all_of_it = s->name != NULL;
	for (size_t i = 0; i < touched->ino_count && s->all_of_it; i++) {
		uint64_t id = id_in_view(s, touched->ino[i].ino);

		s->all_of_it = !id || stet_fuse_ids_add_(&s->inodes, id);
	}
	for (size_t i = 0; i < touched->name_count && s->all_of_it; i++) {
		uint64_t id = id_in_view(s, touched->name[i].dir);

		s->all_of_it = !id || note_name(s, id, touched->name[i].name);
	}
}

static void forget_stale(struct stale *s)
{
	for (size_t i = 0; i < s->inodes.count; i++)
		stet_fuse_inval_inode_(s->server, s->inodes.id[i], true);
	for (size_t i = 0; i < s->dirs.count; i++)
		stet_fuse_inval_name_(s->server, s->dirs.id[i], s->name[i]);
	for (size_t i = 0; s->name && s->name[i]; i++)
		free(s->name[i]);
	free(s->name);
	stet_fuse_ids_release_(&s->inodes);
	stet_fuse_ids_release_(&s->dirs);
}

/* Whoever reads what the kernel still has, would go on from what is no more: that is never committed. */
static void spoil(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	pthread_mutex_lock(&server->lock);
	if (!view->write_error)
		view->write_error = -ENOMEM;
	pthread_mutex_unlock(&server->lock);
}

static int refuse_to_go_on(struct stet_fuse_server *server, struct stet_fuse_view *view,
			   struct stet_fuse_view_end *ret)
{
	spoil(server, view);
	snprintf(ret->text, sizeof(ret->text),
		 "no memory to have the kernel forget it: the transaction can only be dropped");
	return -ENOMEM;
}

/* I7 */
int stet_fuse_view_revert_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			   const struct stet_fuse_part *part, struct stet_fuse_view_end *ret)
{
	struct stale stale = { .server = server, .view = view, .all_of_it = true };
	int rc;

	*ret = (struct stet_fuse_view_end){ 0 };
	rc = stet_fuse_view_enter_(server, view);
	if (rc)
		return rc;
	stet_fuse_flush_view_(server, view);
	stet_fuse_view_leave_(server, view);
	if (!leave_open(server, view, STET_FUSE_PAUSED))
		return -ENOENT;
	drain(server, view, STET_FUSE_PAUSED);
	rc = stet_ll_revert(view->txn, 0, part->path, part->count, ret->text, sizeof(ret->text),
			    note_stale, &stale);
	reopen(server, view);
	forget_stale(&stale); /* in PAUSED the kernel would wait for calls that wait */
	return stale.all_of_it ? rc : refuse_to_go_on(server, view, ret);
}

/* The caller holds on to the view, and has no call in it: requests that the kernel must have answered first may wait
 * for those (I3, I7). */
void stet_fuse_view_told_(struct stet_fuse_view *view, const struct stet_ll_touched *touched)
{
	struct stale stale = { .server = view->server, .view = view };

	note_stale(&stale, touched);
	forget_stale(&stale);
	if (touched->result || !stale.all_of_it)
		spoil(view->server, view);
}

/* With the view CLOSED. False: the view is open again. */
static bool keep_part(struct stet_fuse_server *server, struct stet_fuse_view *view,
		      const struct stet_fuse_part *part, struct stet_fuse_view_end *ret)
{
	ret->result = stet_revert(view->txn, STET_REVERT_OTHERS, part->path, part->count, ret->text,
				  sizeof(ret->text));
	if (ret->result != -EINVAL && ret->result != -ENOENT)
		return true;
	reopen(server, view);
	return false;
}

/* I9 */
static void look_if_whole(struct stet_fuse_server *server, const struct stet_fuse_view *view,
			  struct stet_fuse_view_end *ret)
{
	const char *why = NULL;

	pthread_mutex_lock(&server->lock);
	if (view->spoiled)
		why = "a command within it failed half way";
	else if (view->joined > 0)
		why = "a command within it is still running";
	pthread_mutex_unlock(&server->lock);
	if (!why)
		return;
	ret->result = -ECANCELED;
	snprintf(ret->text, sizeof(ret->text), "%s", why);
}

int stet_fuse_view_commit_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			   unsigned flags, const struct stet_fuse_part *part,
			   struct stet_fuse_view_end *ret)
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
		look_if_whole(server, view, ret);
	if (!ret->result && part->count > 0 && !keep_part(server, view, part, ret))
		return -EINVAL;
	if (!ret->result)
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

/* The oldest one begun before; referenced. */
static struct stet_fuse_view *find_expired(struct stet_fuse_server *server, int64_t before_ms)
{
	struct stet_fuse_view *found = NULL;

	pthread_mutex_lock(&server->lock);
	for (struct stet_fuse_list *l = server->views.next; l != &server->views; l = l->next) {
		struct stet_fuse_view *view = stet_fuse_container_of(l, struct stet_fuse_view,
								     link);

		if (view->kind == STET_FUSE_TXN && view->detached &&
		    view->state == STET_FUSE_OPEN && view->begun_ms < before_ms &&
		    (!found || view->begun_ms < found->begun_ms))
			found = view;
	}
	if (found)
		found->refs++;
	pthread_mutex_unlock(&server->lock);
	return found;
}

void stet_fuse_views_expire_(struct stet_fuse_server *server, int64_t before_ms)
{
	struct stet_fuse_view *view;

	while ((view = find_expired(server, before_ms))) {
		struct stet_fuse_view_end end;
		uint64_t id = view->id;

		if (stet_fuse_view_abort_(server, view, &end) == 0)
			stet_fuse_log_(LOG_NOTICE,
				       "transaction %llu of user %u was too old: dropped",
				       (unsigned long long)id, (unsigned)view->uid);
		stet_fuse_view_put_(server, view);
	}
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
			stet_fuse_log_(LOG_WARNING, "transaction %llu was open, and is dropped",
				       (unsigned long long)view->id);
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
	while (view->state == STET_FUSE_PAUSED)
		pthread_cond_wait(&server->drained, &server->lock);
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

struct knowing {
	struct stet_fuse_server *server;
	struct stet_fuse_view *view;
};

static bool known_name(void *arg, uint64_t ino, unsigned at, struct stet_ll_name *ret)
{
	const struct knowing *k = arg;

	return stet_fuse_node_known_name_(k->server, k->view, ino, at, ret);
}

int stet_fuse_view_changes_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			    stet_changes_fn *fn, void *arg)
{
	struct knowing k = { server, view };
	int rc = stet_fuse_view_enter_(server, view);

	if (rc)
		return rc;
	stet_fuse_flush_view_(server, view);
	rc = stet_ll_changes(view->txn, known_name, &k, fn, arg);
	stet_fuse_view_leave_(server, view);
	return rc;
}

/* What mappings hold comes first; what they get later arrives too late, and fails the commit (I4). */
int stet_fuse_view_freeze_(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	int rc = stet_fuse_view_enter_(server, view);

	if (rc)
		return rc;
	stet_fuse_flush_view_(server, view);
	rc = stet_freeze(view->txn);
	stet_fuse_view_leave_(server, view);
	return rc;
}

/* --- commands within it (I9) --- */

struct counting {
	uint64_t id, changes;
};

static int count_changes(void *arg, const struct stet_txn_entry *entry)
{
	struct counting *c = arg;

	if (entry->id == c->id)
		c->changes = entry->changes;
	return entry->id == c->id;
}

/* -ENOENT: it is not open. */
static int changes_so_far(struct stet_fuse_server *server, struct stet_fuse_view *view,
			  uint64_t *ret)
{
	struct counting c = { .id = view->id };
	int rc = stet_fuse_view_enter_(server, view);

	if (rc)
		return rc;
	stet_fuse_flush_view_(server, view);
	rc = stet_txns(server->vol, count_changes, &c);
	stet_fuse_view_leave_(server, view);
	*ret = c.changes;
	return rc == 1 ? 0 : -ENOENT;
}

int stet_fuse_view_join_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			 uint64_t *ret_changes)
{
	int rc = changes_so_far(server, view, ret_changes);

	if (rc)
		return rc;
	pthread_mutex_lock(&server->lock);
	view->joined++;
	pthread_mutex_unlock(&server->lock);
	return 0;
}

void stet_fuse_view_quit_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			  uint64_t changes, bool failed)
{
	uint64_t now = 0;
	bool spoils = failed && (changes_so_far(server, view, &now) || now != changes);

	pthread_mutex_lock(&server->lock);
	view->joined--;
	view->spoiled = view->spoiled || spoils;
	pthread_mutex_unlock(&server->lock);
}
