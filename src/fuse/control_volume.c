/* control_volume.c - requests about the volume and the mount: state, figures, cleaning, the end.
 *
 * Invariants: see control_server.c.
 */
#include "fuse/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define END_LOOKS 50u /* for the kernel to let us go, after unmounting */
#define END_LOOK_US 10000

/* --- the volume --- */

static int do_statfs(struct stet_fuse_connection *c)
{
	struct stet_fuse_wire head = { .kind = STET_FUSE_WIRE_END };
	struct stet_statfs st;
	int rc = stet_statfs(c->server->vol, &st);

	if (rc)
		return stet_fuse_answer_(c, rc, NULL);
	return stet_fuse_wire_send_(c->fd, head, &st, sizeof(st), NULL);
}

static int send_stat(void *arg, const char *name, uint64_t value)
{
	struct stet_fuse_wire head = { .value = value };
	struct stet_fuse_connection *c = arg;

	return stet_fuse_answer_item_(c, head, name, strlen(name), NULL);
}

static int do_stats(struct stet_fuse_connection *c)
{
	struct stet_fuse_counters *n = &c->server->counters;
	int rc = stet_stats(c->server->vol, send_stat, c);

#define C(name)  \
	if (!rc) \
		rc = send_stat(c, "mount_" #name, n->name);
	STET_FUSE_COUNTERS(C)
#undef C
	return rc == -EPIPE ? rc : stet_fuse_answer_(c, rc, NULL);
}

static int do_clean(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_wire head = { 0 };
	int rc;

	if (!stet_fuse_is_owner_(c))
		return stet_fuse_answer_(c, -EPERM, "the mount belongs to another user");
	rc = stet_clean(c->server->vol, (uint32_t)in->value);
	if (rc < 0)
		return stet_fuse_answer_(c, rc, NULL);
	head.value = (uint64_t)rc;
	return stet_fuse_answer_end_(c, head, "");
}

/* --- shutting down (I4) --- */

#define NAMED_MAX 5u /* so many are named */

/* The open transactions of commands, the oldest first. */
static unsigned list_views(struct stet_fuse_server *server, uint64_t id[NAMED_MAX])
{
	unsigned count = 0;

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
	return count;
}

/* Names them. */
static void name(char *why, size_t cap, const uint64_t id[NAMED_MAX], unsigned count,
		 const char *what_then)
{
	int at = snprintf(why, cap, "transaction%s", count > 1 ? "s" : "");

	for (unsigned i = 0; i < count && i < NAMED_MAX && at > 0 && (size_t)at < cap; i++)
		at += snprintf(why + at, cap - (size_t)at, "%s %llu", i ? "," : "",
			       (unsigned long long)id[i]);
	if (at > 0 && (size_t)at < cap)
		snprintf(why + at, cap - (size_t)at, "%s open; %s",
			 count > NAMED_MAX ? " and others are"
			 : count > 1       ? " are"
					   : " is",
			 what_then);
}

/* Names the open transactions. False: there are none. */
static bool name_open_txns(struct stet_fuse_connection *c, char *why, size_t cap)
{
	uint64_t id[NAMED_MAX];
	unsigned count = list_views(c->server, id);

	if (count > 0) {
		name(why, cap, id, count,
		     "\"stetfs abort DIR NUMBER\" drops one, \"stetfs commit\" keeps it");
		return true;
	}
	count = (unsigned)stet_ll_service_transactions(c->control->service, id, NAMED_MAX);
	if (count > 0)
		name(why, cap, id, count,
		     "programs that use the library have begun them: \"stetfs txns\" names those");
	return count > 0;
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

static int do_shutdown(struct stet_fuse_connection *c, const struct stet_fuse_wire *in)
{
	struct stet_fuse_server *server = c->server;
	bool lazy = in->flags & 1;
	char why[256] = "";
	int rc = 0;
	int sent;

	if (!stet_fuse_is_owner_(c))
		return stet_fuse_answer_(c, -EPERM, "the mount belongs to another user");
	c->control->no_begin = true;
	stet_ll_service_no_begin(c->control->service, true);
	if (!lazy && name_open_txns(c, why, sizeof(why))) {
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
	if (rc) {
		c->control->no_begin = false;
		stet_ll_service_no_begin(c->control->service, false);
	}
	sent = stet_fuse_answer_(c, rc, why);
	if (!rc && !lazy)
		end_soon(server);
	return sent;
}

/* --- all of them --- */

int stet_fuse_request_volume_(struct stet_fuse_connection *c)
{
	const struct stet_fuse_wire *in = &c->in.head;

	switch (in->kind) {
	case STET_FUSE_WIRE_SYNC:
		return stet_fuse_answer_(c, stet_sync(c->server->vol), NULL);
	case STET_FUSE_WIRE_STATFS:
		return do_statfs(c);
	case STET_FUSE_WIRE_STATS:
		return do_stats(c);
	case STET_FUSE_WIRE_CLEAN:
		return do_clean(c, in);
	case STET_FUSE_WIRE_SHUTDOWN:
		return do_shutdown(c, in);
	default:
		return stet_fuse_answer_(c, -EPROTO, "unknown request");
	}
}
