/* control_server.c - the daemon's side of the control socket.
 *
 * One thread accepts, each connection has a thread of its own; requests on it are done one after
 * the other.
 *
 * I1. A transaction begun on a connection (not detached) is aborted when the connection ends,
 *     however it ends; so its life is the client's.
 * I2. Who the client is, the kernel says (SO_PEERCRED), when it connects. A transaction is for
 *     the uid that began it and for root; shutdown and cleaning for root and our own uid.
 * I3. A transaction is ended by one request only (view.c, I1), also when two connections try.
 * I4. Shutting down refuses while transactions are open: the mount may be busy in other
 *     namespaces (`run`) without umount(2) noticing. While it tries, no transaction begins.
 * I5. Stopping closes all sockets and waits for all threads; a commit in progress is finished
 *     first. Answers under way have a moment to be read.
 * I6. Anyone may connect, so nobody can hold up others: a client that does not read its answers
 *     is given up after a while, and so is one that takes too long to read all of one; users other
 *     than root and us have a limited number of connections and of transactions, each and together
 *     (one may have many numbers). With those, descriptors do not run out for root.
 * I7. A transaction of the mount takes no locks by reading: whoever may read a file could otherwise
 *     keep others from writing it.
 * I8. Half of what a command does is never committed: a transaction that is bound to a connection is
 *     committed by no other one. (Dropped it may be.)
 *
 * Lock: control.lock, for the list of connections; it is held while nothing else is.
 */
#include "fuse/control_internal.h"
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)256 * 1024)
#define BACKLOG 64
#define AGE_STEP_MS 500
#define ROOM_STEP_MS 100
#define END_LOOKS 50u /* for the kernel to let us go, after unmounting */
#define END_LOOK_US 10000
#define NAME_TRIES 16u
#define SEND_TIMEOUT_S 10 /* I6, and those that follow */
#define ANSWER_TIMEOUT_S 120
#define CONNECTIONS_MAX 64u      /* of one user */
#define ALL_CONNECTIONS_MAX 512u /* of all users together, root and us not counted */
#define TRANSACTIONS_MAX 256u    /* of one user, open at a time */
#define ALL_TRANSACTIONS_MAX 4096u
#define PATHS_BYTES_MAX ((size_t)4 << 20) /* of one connection; of one of a user, the next */
#define USER_PATHS_BYTES_MAX ((size_t)256 << 10)
#define STOP_GRACE_S 5                                                                /* I5 */
#define LEVELS (STET_BEGIN_SNAPSHOT | STET_BEGIN_SERIALIZABLE | STET_BEGIN_READ_ONLY) /* I7 */

struct connection {
	/* --- set at start, then constant --- */
	struct stet_fuse_control_server *control;
	struct stet_fuse_server *server;
	int fd;
	struct ucred peer;
	pthread_t thread;

	/* --- of its thread --- */
	int64_t give_up_s;            /* when the answer under way must have been read; monotonic */
	struct stet_fuse_list bound;  /* of bound.link: those begun here */
	struct stet_fuse_list joined; /* of bound.link: those that a command of ours works in */
	struct stet_fuse_wire_in in;
	char *paths; /* owned; for the next request that is about a part; a NUL after each */
	size_t paths_len;

	/* --- under control.lock --- */
	struct stet_fuse_list link;
	bool over; /* the thread is about to end: to be joined */
};

struct stet_fuse_control_server {
	/* --- set at start, then constant --- */
	struct stet_fuse_server *server;
	int listen_fd, record_fd;
	char dir[PATH_MAX];
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char record_path[PATH_MAX];
	pthread_t thread;
	bool has_thread;

	/* --- under lock --- */
	pthread_mutex_t lock;
	struct stet_fuse_list connections;
	bool stopping;

	/* --- atomic --- */
	_Atomic bool no_begin;     /* I4 */
	_Atomic int64_t give_up_s; /* as of a connection, for all of them; I5 */
};

/* A transaction that ends with its connection (I1). */
struct bound {
	struct stet_fuse_list link;
	struct stet_fuse_view *view; /* referenced */
	uint64_t changes;            /* joined: when it was */
};

/* --- answers --- */

static int send_end(struct connection *c, struct stet_fuse_wire head, const char *text)
{
	head.kind = STET_FUSE_WIRE_END;
	return stet_fuse_wire_send_(c->fd, head, text, strlen(text), NULL);
}

static int send_result(struct connection *c, int rc, const char *why)
{
	struct stet_fuse_wire head = { .result = rc };

	if (rc && !why)
		why = stet_error_text()[0] ? stet_error_text() : strerror(-rc);
	return send_end(c, head, rc ? why : "");
}

/* --- bound transactions --- */

static int bind_view(struct connection *c, struct stet_fuse_view *view)
{
	struct bound *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->view = view;
	stet_fuse_list_add(&c->bound, &b->link);
	return 0;
}

static void bound_free(struct connection *c, struct bound *b)
{
	stet_fuse_list_del(&b->link);
	stet_fuse_view_put_(c->server, b->view);
	free(b);
}

static void unbind(struct connection *c, const struct stet_fuse_view *view)
{
	for (struct stet_fuse_list *l = c->bound.next; l != &c->bound; l = l->next) {
		struct bound *b = stet_fuse_container_of(l, struct bound, link);

		if (b->view != view)
			continue;
		bound_free(c, b);
		return;
	}
}

static void abort_bound(struct connection *c)
{
	while (!stet_fuse_list_empty(&c->bound)) {
		struct bound *b = stet_fuse_container_of(c->bound.next, struct bound, link);
		struct stet_fuse_view_end end;

		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the freed one left the list */
		stet_fuse_view_abort_(c->server, b->view, &end); /* -ENOENT: it has ended */
		bound_free(c, b);
	}
}

/* --- transactions --- */

static bool is_owner(const struct connection *c)
{
	return c->peer.uid == 0 || c->peer.uid == geteuid();
}

/* I6 */
static bool has_too_many(const struct connection *c)
{
	struct stet_fuse_server *server = c->server;
	unsigned count = 0, all = 0;

	if (is_owner(c))
		return false;
	pthread_mutex_lock(&server->lock);
	for (struct stet_fuse_list *l = server->views.next; l != &server->views; l = l->next) {
		const struct stet_fuse_view *view = stet_fuse_container_of(l, struct stet_fuse_view,
									   link);

		if (view->kind != STET_FUSE_TXN || view->is_base || !view->txn)
			continue;
		count += view->uid == c->peer.uid;
		all += view->uid != 0 && view->uid != geteuid();
	}
	pthread_mutex_unlock(&server->lock);
	return count >= TRANSACTIONS_MAX || all >= ALL_TRANSACTIONS_MAX;
}

static const char *why_not_begin(const struct connection *c, const struct stet_fuse_wire *in)
{
	if (c->server->options->no_dot_stet)
		return "mounted with nodotstet: there are no transactions";
	if (in->value & ~(uint64_t)LEVELS) /* I7 */
		return "there is no such kind of transaction";
	return NULL;
}

/* I4: either it sees the transaction, or we see that it is trying. */
static int begin_view(struct connection *c, const struct stet_fuse_view_new *what,
		      struct stet_fuse_view **ret)
{
	struct stet_fuse_view_end end;
	int rc = c->control->no_begin ? -ESHUTDOWN : 0;

	if (!rc)
		rc = stet_fuse_view_begin_(c->server, what, ret);
	if (rc || !c->control->no_begin)
		return rc;
	stet_fuse_view_abort_(c->server, *ret, &end);
	stet_fuse_view_put_(c->server, *ret);
	return -ESHUTDOWN;
}

static int do_begin(struct connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_server *server = c->server;
	struct stet_fuse_wire head = { 0 };
	struct stet_fuse_view_new what = {
		.level = in->value ? (unsigned)in->value : STET_BEGIN_SNAPSHOT,
		.detached = in->flags & STET_CONTROL_DETACHED,
		.uid = c->peer.uid,
		.gid = c->peer.gid,
		.pid = c->peer.pid,
	};
	const char *why = why_not_begin(c, in);
	struct stet_fuse_view *view;
	char root[PATH_MAX + 64];
	int rc;

	if (why)
		return send_result(c, -EOPNOTSUPP, why);
	if (!(what.level & ~STET_BEGIN_READ_ONLY))
		what.level |= STET_BEGIN_SNAPSHOT;
	if (has_too_many(c))
		return send_result(c, -EMFILE, "too many open transactions of this user");
	rc = begin_view(c, &what, &view);
	if (rc)
		return send_result(c, rc, NULL);
	head.id = view->id;
	snprintf(root, sizeof(root), "%s/%s/txn/%llu/root", server->dir, STET_FUSE_DOT_STET,
		 (unsigned long long)view->id);
	if (what.detached) {
		stet_fuse_view_put_(server, view);
	} else if (bind_view(c, view) != 0) {
		struct stet_fuse_view_end end;

		stet_fuse_view_abort_(server, view, &end);
		stet_fuse_view_put_(server, view);
		return send_result(c, -ENOMEM, NULL);
	}
	return send_end(c, head, root);
}

/* The transaction of a request, with a reference; or NULL, and it was answered. *ret_rc: of the
 * answer. */
static struct stet_fuse_view *view_of(struct connection *c, uint64_t id, int *ret_rc)
{
	struct stet_fuse_view *view = stet_fuse_view_find_(c->server, id);

	if (!view) {
		*ret_rc = send_result(c, -ENOENT, "there is no such transaction");
	} else if (c->peer.uid != 0 && c->peer.uid != view->uid) { /* I2 */
		stet_fuse_view_put_(c->server, view);
		view = NULL;
		*ret_rc = send_result(c, -EPERM, "the transaction belongs to another user");
	}
	return view;
}

static bool is_bound(const struct connection *c, const struct stet_fuse_view *view)
{
	for (const struct stet_fuse_list *l = c->bound.next; l != &c->bound; l = l->next) {
		if (stet_fuse_container_of(l, struct bound, link)->view == view)
			return true;
	}
	return false;
}

/* --- a part of a transaction --- */

static int do_paths(struct connection *c, const struct stet_fuse_wire_in *in)
{
	size_t max = is_owner(c) ? PATHS_BYTES_MAX : USER_PATHS_BYTES_MAX;
	size_t len = in->head.a_len;
	char *more;

	if (len > max - c->paths_len)
		return send_result(c, -E2BIG, "too many paths");
	if (len == 0 || in->a[len - 1] != 0)
		return send_result(c, -EINVAL, "that is no list of paths");
	more = realloc(c->paths, c->paths_len + len);
	if (!more)
		return send_result(c, -ENOMEM, "no memory");
	memcpy(more + c->paths_len, in->a, len);
	c->paths = more;
	c->paths_len += len;
	return send_result(c, 0, NULL);
}

static void forget_paths(struct connection *c)
{
	free(c->paths);
	c->paths = NULL;
	c->paths_len = 0;
}

/* The paths that were sent, as a list; it borrows them. -EINVAL: there are none. */
static int take_paths(const struct connection *c, struct stet_fuse_part *ret)
{
	const char **path;
	size_t count = 0;

	for (size_t at = 0; at < c->paths_len; at++)
		count += c->paths[at] == 0;
	path = calloc(count + 1, sizeof(*path));
	if (!path)
		return -ENOMEM;
	for (size_t at = 0, i = 0; i < count; at += strlen(c->paths + at) + 1)
		path[i++] = c->paths + at;
	*ret = (struct stet_fuse_part){ path, count };
	return count ? 0 : -EINVAL;
}

static int do_revert(struct connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_view_end end = { 0 };
	struct stet_fuse_part part = { 0 };
	int rc = 0;
	struct stet_fuse_view *view = view_of(c, in->id, &rc);

	if (!view)
		return rc;
	rc = take_paths(c, &part);
	if (!rc)
		rc = stet_fuse_view_revert_(c->server, view, &part, &end);
	free((void *)(uintptr_t)part.path);
	stet_fuse_view_put_(c->server, view);
	return send_result(c, rc == -ENOENT && end.text[0] ? -EINVAL : rc,
			   end.text[0] ? end.text : NULL);
}

static int commit(struct connection *c, const struct stet_fuse_wire *in,
		  struct stet_fuse_view *view, struct stet_fuse_view_end *ret)
{
	unsigned flags = in->flags & ~STET_FUSE_WIRE_ONLY;
	struct stet_fuse_part part = { 0 };
	int rc = in->flags & STET_FUSE_WIRE_ONLY ? take_paths(c, &part) : 0;

	if (!rc)
		rc = stet_fuse_view_commit_(c->server, view, flags, &part, ret);
	free((void *)(uintptr_t)part.path);
	return rc;
}

static int do_end(struct connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_wire head = { 0 };
	struct stet_fuse_view_end end = { 0 };
	int rc = 0;
	struct stet_fuse_view *view = view_of(c, in->id, &rc);

	if (!view)
		return rc;
	if (in->kind == STET_FUSE_WIRE_COMMIT && !view->detached && !is_bound(c, view)) { /* I8 */
		stet_fuse_view_put_(c->server, view);
		return send_result(c, -EPERM,
				   "it belongs to a command that is running, and is ended by that");
	}
	if (in->kind == STET_FUSE_WIRE_COMMIT)
		rc = commit(c, in, view, &end);
	else
		rc = stet_fuse_view_abort_(c->server, view, &end);
	if (rc && rc != -ENOENT) { /* it goes on */
		stet_fuse_view_put_(c->server, view);
		return send_result(c, rc, end.text[0] ? end.text : NULL);
	}
	unbind(c, view);
	stet_fuse_view_put_(c->server, view);
	if (rc)
		return send_result(c, rc, "the transaction is being ended by somebody else");
	head.value = 1; /* it was ended: result is the commit's */
	head.result = end.result;
	head.flags = end.conflict ? STET_FUSE_WIRE_CONFLICT : 0;
	return send_end(c, head, end.text);
}

static int64_t now_s(void)
{
	return stet_fuse_now_ms_() / 1000;
}

/* I6 */
static int send_item(struct connection *c, struct stet_fuse_wire head, const void *a, size_t a_len,
		     const char *b)
{
	if (now_s() > c->give_up_s || now_s() > c->control->give_up_s)
		return -EPIPE;
	head.kind = STET_FUSE_WIRE_ITEM;
	return stet_fuse_wire_send_(c->fd, head, a, a_len, b);
}

/* The changes of a view being sent. */
struct sending {
	struct connection *c;
	struct stet_fuse_view *view;
	char *buf; /* of STET_FUSE_WIRE_TEXT_MAX */
};

/* Whoever ends the transaction waits for us, and not for who reads slowly (I6). */
static bool is_being_ended(const struct sending *s)
{
	bool ended;

	pthread_mutex_lock(&s->c->server->lock);
	ended = s->view->state != STET_FUSE_OPEN;
	pthread_mutex_unlock(&s->c->server->lock);
	return ended;
}

/* A send that blocks would wait until most of what was sent has been read. */
static int wait_for_room(const struct sending *s)
{
	struct pollfd p = { .fd = s->c->fd, .events = POLLOUT };
	int64_t until_s = now_s() + SEND_TIMEOUT_S;

	do {
		if (is_being_ended(s) || now_s() > until_s)
			return -EPIPE;
	} while (poll(&p, 1, ROOM_STEP_MS) == 0);
	return 0;
}

static int send_change(void *arg, const struct stet_change *change)
{
	const struct sending *s = arg;
	struct stet_fuse_wire head = { 0 };
	const struct stet_fuse_wire_change fixed = {
		.ino = change->ino,
		.replaced_ino = change->replaced_ino,
		.kind = change->kind,
		.what = change->what,
		.type = change->type,
		.before = change->before,
		.after = change->after,
		.replaced = change->replaced,
	};
	size_t len = strlen(change->path);
	int rc = wait_for_room(s);

	if (rc)
		return rc;
	if (sizeof(fixed) + len > STET_FUSE_WIRE_TEXT_MAX)
		return -EMSGSIZE;
	memcpy(s->buf, &fixed, sizeof(fixed));
	memcpy(s->buf + sizeof(fixed), change->path, len);
	return send_item(s->c, head, s->buf, sizeof(fixed) + len, change->old_path);
}

static int do_changes(struct connection *c, const struct stet_fuse_wire *in)
{
	int rc = 0;
	struct stet_fuse_view *view = view_of(c, in->id, &rc);
	struct sending s = { .c = c, .view = view };

	if (!view)
		return rc;
	s.buf = malloc(STET_FUSE_WIRE_TEXT_MAX);
	rc = s.buf ? stet_fuse_view_changes_(c->server, view, send_change, &s) : -ENOMEM;
	free(s.buf);
	stet_fuse_view_put_(c->server, view);
	return rc == -EPIPE ? rc : send_result(c, rc, NULL);
}

static int do_freeze(struct connection *c, const struct stet_fuse_wire *in)
{
	int rc = 0;
	struct stet_fuse_view *view = view_of(c, in->id, &rc);

	if (!view)
		return rc;
	rc = stet_fuse_view_freeze_(c->server, view);
	stet_fuse_view_put_(c->server, view);
	return send_result(c, rc, NULL);
}

/* --- commands within a transaction (view.c, I9) --- */

static int do_join(struct connection *c, const struct stet_fuse_wire *in)
{
	int rc = 0;
	struct stet_fuse_view *view = view_of(c, in->id, &rc);
	struct bound *b;

	if (!view)
		return rc;
	b = calloc(1, sizeof(*b));
	rc = b ? stet_fuse_view_join_(c->server, view, &b->changes) : -ENOMEM;
	if (rc) {
		stet_fuse_view_put_(c->server, view);
		free(b);
		return send_result(c, rc, NULL);
	}
	b->view = view;
	stet_fuse_list_add(&c->joined, &b->link);
	return send_result(c, 0, NULL);
}

static void quit(struct connection *c, struct bound *b, bool failed)
{
	stet_fuse_view_quit_(c->server, b->view, b->changes, failed);
	bound_free(c, b);
}

static int do_quit(struct connection *c, const struct stet_fuse_wire *in)
{
	for (struct stet_fuse_list *l = c->joined.next; l != &c->joined; l = l->next) {
		struct bound *b = stet_fuse_container_of(l, struct bound, link);

		if (b->view->id != in->id)
			continue;
		quit(c, b, in->flags & 1);
		return send_result(c, 0, NULL);
	}
	return send_result(c, -ENOENT, "it was not joined");
}

/* Who dies without a word has failed. */
static void quit_joined(struct connection *c)
{
	while (!stet_fuse_list_empty(&c->joined))
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the freed one left the list */
		quit(c, stet_fuse_container_of(c->joined.next, struct bound, link), true);
}

/* Of a node that the kernel has in this view: who opened the guard has reached it. */
static int get_more(struct stet_fuse_server *server, struct stet_fuse_view *view, uint64_t ino,
		    struct stet_stat *ret)
{
	const struct stet_fuse_node *node;
	bool known;
	int rc = stet_fuse_view_enter_(server, view);

	if (rc)
		return rc;
	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_of_locked_(server, view, ino);
	known = node && node->kind == STET_FUSE_NODE_INO;
	pthread_mutex_unlock(&server->lock);
	rc = known ? stet_ll_getattr(server->vol, view->txn, ino, STET_LL_NOWAIT, ret) : -ENOENT;
	stet_fuse_view_leave_(server, view);
	return rc;
}

static int do_more(struct connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_wire head = { 0 };
	struct stet_stat st;
	int rc = 0;
	struct stet_fuse_view *view = view_of(c, in->id, &rc);

	if (!view)
		return rc;
	rc = get_more(c->server, view, in->value, &st);
	stet_fuse_view_put_(c->server, view);
	if (rc)
		return send_result(c, rc, NULL);
	head.id = (uint64_t)st.btime_ns;
	head.value = st.data_version;
	return send_end(c, head, "");
}

static void describe(struct stet_fuse_server *server, const struct stet_txn_entry *entry,
		     struct stet_control_txn *ret)
{
	struct stet_fuse_view *view = stet_fuse_view_find_(server, entry->id);

	*ret = (struct stet_control_txn){ .entry = *entry };
	if (!view)
		return;
	ret->is_view = true;
	ret->detached = view->detached;
	ret->uid = view->uid;
	ret->pid = view->pid;
	pthread_mutex_lock(&server->lock);
	ret->conflict = view->conflict;
	ret->files = view->handles;
	pthread_mutex_unlock(&server->lock);
	stet_fuse_view_put_(server, view);
}

static int send_txn(void *arg, const struct stet_txn_entry *entry)
{
	struct connection *c = arg;
	struct stet_control_txn txn;

	describe(c->server, entry, &txn);
	return send_item(c, (struct stet_fuse_wire){ 0 }, &txn, sizeof(txn), NULL);
}

static int do_txns(struct connection *c)
{
	int rc = stet_txns(c->server->vol, send_txn, c);

	return rc == -EPIPE ? rc : send_result(c, rc, NULL);
}

/* --- the volume --- */

static int do_statfs(struct connection *c)
{
	struct stet_fuse_wire head = { .kind = STET_FUSE_WIRE_END };
	struct stet_statfs st;
	int rc = stet_statfs(c->server->vol, &st);

	if (rc)
		return send_result(c, rc, NULL);
	return stet_fuse_wire_send_(c->fd, head, &st, sizeof(st), NULL);
}

static int send_stat(void *arg, const char *name, uint64_t value)
{
	struct stet_fuse_wire head = { .value = value };
	struct connection *c = arg;

	return send_item(c, head, name, strlen(name), NULL);
}

static int do_stats(struct connection *c)
{
	struct stet_fuse_counters *n = &c->server->counters;
	int rc = stet_stats(c->server->vol, send_stat, c);

#define C(name)  \
	if (!rc) \
		rc = send_stat(c, "mount_" #name, n->name);
	STET_FUSE_COUNTERS(C)
#undef C
	return rc == -EPIPE ? rc : send_result(c, rc, NULL);
}

static int do_clean(struct connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_wire head = { 0 };
	int rc;

	if (!is_owner(c))
		return send_result(c, -EPERM, "the mount belongs to another user");
	rc = stet_clean(c->server->vol, (uint32_t)in->value);
	if (rc < 0)
		return send_result(c, rc, NULL);
	head.value = (uint64_t)rc;
	return send_end(c, head, "");
}

/* --- shutting down (I4) --- */

#define NAMED_MAX 5u /* so many are named */

/* Names the open transactions, the oldest first. False: there are none. */
static bool name_open_views(struct stet_fuse_server *server, char *why, size_t cap)
{
	uint64_t id[NAMED_MAX];
	unsigned count = 0;
	int at;

	pthread_mutex_lock(&server->lock);
	for (struct stet_fuse_list *l = server->views.next; l != &server->views; l = l->next) {
		const struct stet_fuse_view *view = stet_fuse_container_of(l, struct stet_fuse_view,
									   link);

		if (view->kind != STET_FUSE_TXN || view->is_base || view->state == STET_FUSE_ENDED)
			continue;
		if (count < NAMED_MAX)
			id[count] = view->id;
		count++;
	}
	pthread_mutex_unlock(&server->lock);
	if (count == 0)
		return false;
	at = snprintf(why, cap, "transaction%s", count > 1 ? "s" : "");
	for (unsigned i = 0; i < count && i < NAMED_MAX && at > 0 && (size_t)at < cap; i++)
		at += snprintf(why + at, cap - (size_t)at, "%s %llu", i ? "," : "",
			       (unsigned long long)id[i]);
	if (at > 0 && (size_t)at < cap)
		snprintf(why + at, cap - (size_t)at,
			 "%s open; \"stetfs abort DIR NUMBER\" drops one, \"stetfs commit\" keeps "
			 "it",
			 count > NAMED_MAX ? " and others are"
			 : count > 1       ? " are"
					   : " is");
	return true;
}

/* Are files open, in whatever mount namespace? What is left of transactions that have ended is of no
 * use to anybody. */
static bool is_used(struct stet_fuse_server *server)
{
	bool used;

	pthread_mutex_lock(&server->lock);
	used = server->main_view.handles > 0;
	for (struct stet_fuse_list *l = server->views.next; l != &server->views && !used;
	     l = l->next) {
		const struct stet_fuse_view *view = stet_fuse_container_of(l, struct stet_fuse_view,
									   link);

		used = view->state != STET_FUSE_ENDED && view->handles > 0;
	}
	pthread_mutex_unlock(&server->lock);
	return used;
}

/* The mount is out of the tree. But every mount namespace that was made meanwhile (a container, a
 * `run` on another volume) may have a copy of it, which keeps the kernel from letting us go: for
 * as long as it lasts, used or not. */
static void end_soon(struct stet_fuse_server *server)
{
	for (unsigned i = 0; i < END_LOOKS; i++) {
		if (fuse_session_exited(server->session))
			return;
		usleep(END_LOOK_US);
	}
	if (!is_used(server))
		stet_fuse_session_stop_(server);
}

static int do_shutdown(struct connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_server *server = c->server;
	bool lazy = in->flags & 1;
	char why[256] = "";
	int rc = 0;
	int sent;

	if (!is_owner(c))
		return send_result(c, -EPERM, "the mount belongs to another user");
	c->control->no_begin = true;
	if (!lazy && name_open_views(server, why, sizeof(why))) {
		rc = -EBUSY;
	} else {
		rc = stet_fuse_take_out_(server, lazy);
		if (rc == -EBUSY)
			snprintf(why, sizeof(why),
				 "in use: some process has files open there, or "
				 "works in one of its directories");
		else if (rc)
			snprintf(why, sizeof(why), "%s", strerror(-rc));
	}
	if (rc)
		c->control->no_begin = false;
	sent = send_result(c, rc, why);
	if (!rc && !lazy)
		end_soon(server);
	return sent;
}

/* --- connections --- */

/* < 0: the connection is over. */
static int answer(struct connection *c)
{
	const struct stet_fuse_wire *in = &c->in.head;
	int rc;

	switch (in->kind) {
	case STET_FUSE_WIRE_BEGIN:
		return do_begin(c, in);
	case STET_FUSE_WIRE_PATHS:
		return do_paths(c, &c->in);
	case STET_FUSE_WIRE_REVERT:
		rc = do_revert(c, in);
		forget_paths(c);
		return rc;
	case STET_FUSE_WIRE_COMMIT:
	case STET_FUSE_WIRE_ABORT:
		rc = do_end(c, in);
		forget_paths(c);
		return rc;
	case STET_FUSE_WIRE_CHANGES:
		return do_changes(c, in);
	case STET_FUSE_WIRE_MORE:
		return do_more(c, in);
	case STET_FUSE_WIRE_FREEZE:
		return do_freeze(c, in);
	case STET_FUSE_WIRE_JOIN:
		return do_join(c, in);
	case STET_FUSE_WIRE_QUIT:
		return do_quit(c, in);
	case STET_FUSE_WIRE_TXNS:
		return do_txns(c);
	case STET_FUSE_WIRE_SYNC:
		return send_result(c, stet_sync(c->server->vol), NULL);
	case STET_FUSE_WIRE_STATFS:
		return do_statfs(c);
	case STET_FUSE_WIRE_STATS:
		return do_stats(c);
	case STET_FUSE_WIRE_CLEAN:
		return do_clean(c, in);
	case STET_FUSE_WIRE_SHUTDOWN:
		return do_shutdown(c, in);
	default:
		return send_result(c, -EPROTO, "unknown request");
	}
}

static void *serve_connection(void *arg)
{
	struct connection *c = arg;
	int rc = stet_fuse_wire_init_(&c->in);

	while (!rc) {
		rc = stet_fuse_wire_receive_(c->fd, &c->in);
		if (rc == -EPROTO)
			send_result(c, rc, "the daemon is of another version");
		c->give_up_s = now_s() + ANSWER_TIMEOUT_S;
		if (!rc)
			rc = answer(c);
	}
	quit_joined(c);
	abort_bound(c);             /* I1 */
	shutdown(c->fd, SHUT_RDWR); /* it is closed when it is reaped */
	stet_fuse_wire_release_(&c->in);
	forget_paths(c);
	pthread_mutex_lock(&c->control->lock);
	c->over = true;
	pthread_mutex_unlock(&c->control->lock);
	return NULL;
}

static void free_connection(struct connection *c)
{
	close(c->fd);
	free(c);
}

/* Joins the threads that are over; all: every one. */
static void reap(struct stet_fuse_control_server *control, bool all)
{
	for (;;) {
		struct connection *c = NULL;

		pthread_mutex_lock(&control->lock);
		for (struct stet_fuse_list *l = control->connections.next;
		     l != &control->connections && !c; l = l->next) {
			c = stet_fuse_container_of(l, struct connection, link);
			if (!all && !c->over)
				c = NULL;
		}
		if (c)
			stet_fuse_list_del(&c->link);
		pthread_mutex_unlock(&control->lock);
		if (!c)
			return;
		pthread_join(c->thread, NULL);
		free_connection(c);
	}
}

static int start_thread(pthread_t *ret, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(ret, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return -rc;
}

/* I6. Under control.lock. */
static bool is_one_too_many_locked(const struct connection *c)
{
	const struct stet_fuse_list *list = &c->control->connections;
	unsigned count = 0, all = 0;

	for (const struct stet_fuse_list *l = list->next; l != list && !is_owner(c); l = l->next) {
		const struct connection *other = stet_fuse_container_of(l, struct connection, link);

		if (other->over)
			continue;
		count += other->peer.uid == c->peer.uid;
		all += !is_owner(other);
	}
	return count >= CONNECTIONS_MAX || all >= ALL_CONNECTIONS_MAX;
}

static void start_connection(struct stet_fuse_control_server *control, int fd)
{
	const struct timeval send_timeout = { .tv_sec = SEND_TIMEOUT_S };
	struct connection *c = calloc(1, sizeof(*c));
	socklen_t len = sizeof(c->peer);
	bool started = false;

	if (!c) {
		close(fd);
		return;
	}
	c->control = control;
	c->server = control->server;
	c->fd = fd;
	stet_fuse_list_init(&c->bound);
	stet_fuse_list_init(&c->joined);
	stet_fuse_list_init(&c->link);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &len) == 0 && /* I2 */
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof(send_timeout)) == 0) {
		pthread_mutex_lock(&control->lock);
		started = !control->stopping && !is_one_too_many_locked(c) &&
			  start_thread(&c->thread, serve_connection, c) == 0;
		if (started)
			stet_fuse_list_add(&control->connections, &c->link);
		pthread_mutex_unlock(&control->lock);
	}
	if (!started)
		free_connection(c);
}

/* Until somebody comes; meanwhile what is too old is dropped. */
static void wait_for_somebody(struct stet_fuse_control_server *control)
{
	struct pollfd p = { .fd = control->listen_fd, .events = POLLIN };
	int64_t max_ms = control->server->options->max_age_ms;

	if (!max_ms)
		return;
	do {
		stet_fuse_views_expire_(control->server, stet_fuse_now_ms_() - max_ms);
	} while (poll(&p, 1, AGE_STEP_MS) == 0);
}

static void *accept_connections(void *arg)
{
	struct stet_fuse_control_server *control = arg;

	for (;;) {
		int fd;

		wait_for_somebody(control);
		fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0) {
			start_connection(control, fd);
			reap(control, false);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
			usleep(10000);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return NULL; /* I5: shut down */
		}
	}
}

/* --- start and stop --- */

static int listen_at(struct stet_fuse_control_server *control)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	control->listen_fd = fd;
	if (fd < 0)
		return -errno;
	memcpy(addr.sun_path, control->socket_path, sizeof(addr.sun_path));
	unlink(control->socket_path); /* nobody's: we hold the record's lock */
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    chmod(control->socket_path, control->server->shared ? 0666 : 0600) != 0 ||
	    listen(fd, BACKLOG) != 0)
		return -errno;
	return 0;
}

static int write_record(struct stet_fuse_control_server *control)
{
	const struct stet_fuse_server *server = control->server;
	struct stet_control_mount *mount = calloc(1, sizeof(*mount));
	struct timespec now;
	int rc;

	if (!mount)
		return -ENOMEM;
	clock_gettime(CLOCK_BOOTTIME, &now);
	mount->since_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	mount->pid = getpid();
	mount->uid = geteuid();
	mount->read_only = server->read_only;
	mount->dev = server->dev;
	memcpy(mount->dir, server->dir, sizeof(mount->dir));
	memcpy(mount->volume, server->volume, sizeof(mount->volume));
	memcpy(mount->socket, control->socket_path, sizeof(mount->socket));
	rc = stet_fuse_volume_identity_(server->volume, &mount->volume_dev, &mount->volume_ino);
	if (!rc)
		rc = stet_fuse_record_write_(control->record_path, mount, &control->record_fd);
	free(mount);
	return rc;
}

/* A name that no other mount has, and the record under it. */
static int claim_name(struct stet_fuse_control_server *control)
{
	uint64_t dev = control->server->dev;
	int rc = -EBUSY;

	for (unsigned tries = 0; rc == -EBUSY && tries < NAME_TRIES; tries++) {
		uint32_t salt;

		if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
			return -errno;
		rc = stet_fuse_runtime_path_(control->socket_path, sizeof(control->socket_path),
					     control->dir, dev, salt, STET_FUSE_SOCKET_SUFFIX);
		if (!rc)
			rc = stet_fuse_runtime_path_(control->record_path,
						     sizeof(control->record_path), control->dir,
						     dev, salt, STET_FUSE_RECORD_SUFFIX);
		if (!rc)
			rc = write_record(control);
	}
	return rc;
}

static int start(struct stet_fuse_control_server *control)
{
	int rc = stet_fuse_runtime_dir_(control->dir, sizeof(control->dir));

	if (!rc) {
		stet_fuse_runtime_sweep_(control->dir);
		rc = claim_name(control);
	}
	if (!rc)
		rc = listen_at(control);
	if (!rc)
		rc = start_thread(&control->thread, accept_connections, control);
	control->has_thread = !rc;
	return rc;
}

int stet_fuse_control_start_(struct stet_fuse_server *server, char *why, size_t cap)
{
	struct stet_fuse_control_server *control = calloc(1, sizeof(*control));
	int rc;

	if (!control)
		return stet_fuse_why_(why, cap, -ENOMEM, "no memory");
	server->control = control;
	control->server = server;
	control->listen_fd = control->record_fd = -1;
	control->give_up_s = INT64_MAX;
	pthread_mutex_init(&control->lock, NULL);
	stet_fuse_list_init(&control->connections);
	rc = start(control);
	if (rc)
		return stet_fuse_why_(why, cap, rc, "control socket in %s: %s", control->dir,
				      strerror(-rc));
	return 0;
}

/* I5 */
void stet_fuse_control_stop_(struct stet_fuse_server *server)
{
	struct stet_fuse_control_server *control = server->control;

	if (!control || !control->has_thread)
		return;
	pthread_mutex_lock(&control->lock);
	control->stopping = true;
	control->give_up_s = now_s() + STOP_GRACE_S;
	shutdown(control->listen_fd, SHUT_RDWR);
	for (struct stet_fuse_list *l = control->connections.next; l != &control->connections;
	     l = l->next)
		shutdown(stet_fuse_container_of(l, struct connection, link)->fd,
			 SHUT_RD); /* answers still go */
	pthread_mutex_unlock(&control->lock);
	pthread_join(control->thread, NULL);
	reap(control, true);
	control->has_thread = false;
}

void stet_fuse_control_remove_(struct stet_fuse_server *server)
{
	struct stet_fuse_control_server *control = server->control;

	if (!control)
		return;
	if (control->record_fd >= 0) { /* else they are not ours */
		unlink(control->socket_path);
		unlink(control->record_path);
		close(control->record_fd);
	}
	if (control->listen_fd >= 0)
		close(control->listen_fd);
	pthread_mutex_destroy(&control->lock);
	free(control);
	server->control = NULL;
}
