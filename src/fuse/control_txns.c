/* control_txns.c - requests about transactions: begin and end, parts, changes, commands within one.
 *
 * Invariants: see control_server.c.
 */
#include "fuse/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM_STEP_MS 100
#define ROOM_TIMEOUT_MS 10000 /* I6 */
#define TRANSACTIONS_MAX 256u /* of one user, open at a time */
#define ALL_TRANSACTIONS_MAX 4096u
#define PATHS_BYTES_MAX ((size_t)4 << 20) /* of one connection; of one of a user, the next */
#define USER_PATHS_BYTES_MAX ((size_t)256 << 10)
#define LEVELS (STET_BEGIN_SNAPSHOT | STET_BEGIN_SERIALIZABLE | STET_BEGIN_READ_ONLY) /* I7 */

/* A transaction that ends with its connection (I1). */
struct bound {
	struct stet_fuse_list link;
	struct stet_fuse_view *view; /* referenced */
	uint64_t changes;            /* joined: when it was */
};

/* --- bound transactions --- */

static int bind_view(struct stet_fuse_connection *c, struct stet_fuse_view *view)
{
	struct bound *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->view = view;
	stet_fuse_list_add(&c->bound, &b->link);
	return 0;
}

static void bound_free(struct stet_fuse_connection *c, struct bound *b)
{
	stet_fuse_list_del(&b->link);
	stet_fuse_view_put_(c->server, b->view);
	free(b);
}

static void unbind(struct stet_fuse_connection *c, const struct stet_fuse_view *view)
{
	for (struct stet_fuse_list *l = c->bound.next; l != &c->bound; l = l->next) {
		struct bound *b = stet_fuse_container_of(l, struct bound, link);

		if (b->view != view)
			continue;
		bound_free(c, b);
		return;
	}
}

static void abort_bound(struct stet_fuse_connection *c)
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

/* I6 */
static bool has_too_many(const struct stet_fuse_connection *c)
{
	struct stet_fuse_server *server = c->server;
	unsigned count = 0, all = 0;

	if (stet_fuse_is_owner_(c))
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

static const char *why_not_begin(const struct stet_fuse_connection *c,
				 const struct stet_fuse_wire *in)
{
	if (c->server->options->no_dot_stet)
		return "mounted with nodotstet: there are no transactions";
	if (in->value & ~(uint64_t)LEVELS) /* I7 */
		return "there is no such kind of transaction";
	return NULL;
}

/* I4: either it sees the transaction, or we see that it is trying. */
static int begin_view(struct stet_fuse_connection *c, const struct stet_fuse_view_new *what,
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

static int do_begin(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
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
		return stet_fuse_answer_(c, -EOPNOTSUPP, why);
	if (!(what.level & ~STET_BEGIN_READ_ONLY))
		what.level |= STET_BEGIN_SNAPSHOT;
	if (has_too_many(c))
		return stet_fuse_answer_(c, -EMFILE, "too many open transactions of this user");
	rc = begin_view(c, &what, &view);
	if (rc)
		return stet_fuse_answer_(c, rc, NULL);
	head.id = view->id;
	snprintf(root, sizeof(root), "%s/%s/txn/%llu/root", server->dir, STET_FUSE_DOT_STET,
		 (unsigned long long)view->id);
	if (what.detached) {
		stet_fuse_view_put_(server, view);
	} else if (bind_view(c, view) != 0) {
		struct stet_fuse_view_end end;

		stet_fuse_view_abort_(server, view, &end);
		stet_fuse_view_put_(server, view);
		return stet_fuse_answer_(c, -ENOMEM, NULL);
	}
	return stet_fuse_answer_end_(c, head, root);
}

static int see_id(void *arg, const struct stet_txn_entry *entry)
{
	const uint64_t *id = arg;

	return entry->id == *id;
}

static int refuse_unknown(struct stet_fuse_connection *c, uint64_t id)
{
	if (stet_txns(c->server->vol, see_id, &id) == 1)
		return stet_fuse_answer_(c, -ENOENT,
					 "it belongs to a program that uses the library, "
					 "which alone can commit it");
	return stet_fuse_answer_(c, -ENOENT, "there is no such transaction");
}

/* The transaction of a request, with a reference; or NULL, and it was answered. *ret_rc: of the
 * answer. */
static struct stet_fuse_view *view_of(struct stet_fuse_connection *c, uint64_t id, int *ret_rc)
{
	struct stet_fuse_view *view = stet_fuse_view_find_(c->server, id);

	if (!view) {
		*ret_rc = refuse_unknown(c, id);
	} else if (c->peer.uid != 0 && c->peer.uid != view->uid) { /* I2 */
		stet_fuse_view_put_(c->server, view);
		view = NULL;
		*ret_rc = stet_fuse_answer_(c, -EPERM, "the transaction belongs to another user");
	}
	return view;
}

static bool is_bound(const struct stet_fuse_connection *c, const struct stet_fuse_view *view)
{
	for (const struct stet_fuse_list *l = c->bound.next; l != &c->bound; l = l->next) {
		if (stet_fuse_container_of(l, struct bound, link)->view == view)
			return true;
	}
	return false;
}

/* I8 */
static const char running[] = "it belongs to a command that is running, and is ended by that";

static bool is_running_elsewhere(const struct stet_fuse_connection *c,
				 const struct stet_fuse_view *view)
{
	return !view->detached && !is_bound(c, view);
}

/* --- a part of a transaction --- */

static int do_paths(struct stet_fuse_connection *c, const struct stet_fuse_wire_in *in)
{
	size_t max = stet_fuse_is_owner_(c) ? PATHS_BYTES_MAX : USER_PATHS_BYTES_MAX;
	size_t len = in->head.a_len;
	char *more;

	if (len > max - c->paths_len)
		return stet_fuse_answer_(c, -E2BIG, "too many paths");
	if (len == 0 || in->a[len - 1] != 0)
		return stet_fuse_answer_(c, -EINVAL, "that is no list of paths");
	more = realloc(c->paths, c->paths_len + len);
	if (!more)
		return stet_fuse_answer_(c, -ENOMEM, "no memory");
	memcpy(more + c->paths_len, in->a, len);
	c->paths = more;
	c->paths_len += len;
	return stet_fuse_answer_(c, 0, NULL);
}

static void forget_paths(struct stet_fuse_connection *c)
{
	free(c->paths);
	c->paths = NULL;
	c->paths_len = 0;
}

/* The paths that were sent, as a list; it borrows them. -EINVAL: there are none. */
static int take_paths(const struct stet_fuse_connection *c, struct stet_fuse_part *ret)
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

static int do_revert(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_view_end end = { 0 };
	struct stet_fuse_part part = { 0 };
	int rc = 0;
	struct stet_fuse_view *view = view_of(c, in->id, &rc);

	if (!view)
		return rc;
	if (is_running_elsewhere(c, view)) {
		stet_fuse_view_put_(c->server, view);
		return stet_fuse_answer_(c, -EPERM, running);
	}
	rc = take_paths(c, &part);
	if (!rc)
		rc = stet_fuse_view_revert_(c->server, view, &part, &end);
	free((void *)(uintptr_t)part.path);
	stet_fuse_view_put_(c->server, view);
	return stet_fuse_answer_(c, rc == -ENOENT && end.text[0] ? -EINVAL : rc,
				 end.text[0] ? end.text : NULL);
}

static int commit(struct stet_fuse_connection *c, const struct stet_fuse_wire *in,
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

/* A transaction that a program has begun by the library can be dropped, not committed, by its number. */
static bool is_client_s(struct stet_fuse_connection *c, const struct stet_fuse_wire *in,
			int *ret_rc)
{
	const struct stet_ll_who who = { .uid = c->peer.uid,
					 .gid = c->peer.gid,
					 .pid = c->peer.pid };
	struct stet_fuse_view *view = stet_fuse_view_find_(c->server, in->id);
	int rc;

	if (view)
		stet_fuse_view_put_(c->server, view);
	if (view || in->kind != STET_FUSE_WIRE_ABORT)
		return false;
	rc = stet_ll_end_transaction(c->server->vol, in->id, &who);
	if (rc == -ENOENT)
		return false;
	*ret_rc = stet_fuse_answer_(c, rc, rc ? stet_error_text() : NULL);
	return true;
}

static int do_end(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_wire head = { 0 };
	struct stet_fuse_view_end end = { 0 };
	struct stet_fuse_view *view;
	int rc = 0;

	if (is_client_s(c, in, &rc))
		return rc;
	view = view_of(c, in->id, &rc);

	if (!view)
		return rc;
	if (in->kind == STET_FUSE_WIRE_COMMIT && is_running_elsewhere(c, view)) {
		stet_fuse_view_put_(c->server, view);
		return stet_fuse_answer_(c, -EPERM, running);
	}
	if (in->kind == STET_FUSE_WIRE_COMMIT)
		rc = commit(c, in, view, &end);
	else
		rc = stet_fuse_view_abort_(c->server, view, &end);
	if (rc && rc != -ENOENT) { /* it goes on */
		stet_fuse_view_put_(c->server, view);
		return stet_fuse_answer_(c, rc, end.text[0] ? end.text : NULL);
	}
	unbind(c, view);
	stet_fuse_view_put_(c->server, view);
	if (rc)
		return stet_fuse_answer_(c, rc, "the transaction is being ended by somebody else");
	head.value = 1; /* it was ended: result is the commit's */
	head.result = end.result;
	head.flags = end.conflict ? STET_FUSE_WIRE_CONFLICT : 0;
	return stet_fuse_answer_end_(c, head, end.text);
}

/* The changes of a view being sent. */
struct sending {
	struct stet_fuse_connection *c;
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
	int64_t until_ms = stet_fuse_now_ms_() + ROOM_TIMEOUT_MS;

	do {
		if (is_being_ended(s) || stet_fuse_now_ms_() > until_ms)
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
		.old_type = change->old_type,
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
	return stet_fuse_answer_item_(s->c, head, s->buf, sizeof(fixed) + len, change->old_path);
}

static int do_changes(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
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
	return rc == -EPIPE ? rc : stet_fuse_answer_(c, rc, NULL);
}

static int do_freeze(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
{
	int rc = 0;
	struct stet_fuse_view *view = view_of(c, in->id, &rc);

	if (!view)
		return rc;
	rc = stet_fuse_view_freeze_(c->server, view);
	stet_fuse_view_put_(c->server, view);
	return stet_fuse_answer_(c, rc, NULL);
}

/* --- commands within a transaction (view.c, I9) --- */

static int do_join(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
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
		return stet_fuse_answer_(c, rc, NULL);
	}
	b->view = view;
	stet_fuse_list_add(&c->joined, &b->link);
	return stet_fuse_answer_(c, 0, NULL);
}

static void quit(struct stet_fuse_connection *c, struct bound *b, bool failed)
{
	stet_fuse_view_quit_(c->server, b->view, b->changes, failed);
	bound_free(c, b);
}

static int do_quit(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
{
	for (struct stet_fuse_list *l = c->joined.next; l != &c->joined; l = l->next) {
		struct bound *b = stet_fuse_container_of(l, struct bound, link);

		if (b->view->id != in->id)
			continue;
		quit(c, b, in->flags & 1);
		return stet_fuse_answer_(c, 0, NULL);
	}
	return stet_fuse_answer_(c, -ENOENT, "it was not joined");
}

/* Who dies without a word has failed. */
static void quit_joined(struct stet_fuse_connection *c)
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

static int do_more(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
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
		return stet_fuse_answer_(c, rc, NULL);
	head.id = (uint64_t)st.btime_ns;
	head.value = st.data_version;
	return stet_fuse_answer_end_(c, head, "");
}

static void describe(struct stet_fuse_server *server, const struct stet_txn_entry *entry,
		     struct stet_control_txn *ret)
{
	struct stet_fuse_view *view = stet_fuse_view_find_(server, entry->id);

	*ret = (struct stet_control_txn){ .entry = *entry, .uid = entry->uid, .pid = entry->pid };
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
	struct stet_fuse_connection *c = arg;
	struct stet_control_txn txn;

	describe(c->server, entry, &txn);
	return stet_fuse_answer_item_(c, (struct stet_fuse_wire){ 0 }, &txn, sizeof(txn), NULL);
}

static int do_txns(struct stet_fuse_connection *c)
{
	int rc = stet_txns(c->server->vol, send_txn, c);

	return rc == -EPIPE ? rc : stet_fuse_answer_(c, rc, NULL);
}

/* --- all of them --- */

int stet_fuse_request_txn_(struct stet_fuse_connection *c)
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
	default:
		return stet_fuse_answer_(c, -EPROTO, "unknown request");
	}
}

void stet_fuse_txns_leave_(struct stet_fuse_connection *c)
{
	quit_joined(c);
	abort_bound(c); /* I1 */
	forget_paths(c);
}
