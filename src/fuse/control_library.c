/* control_library.c - clients of the library on the control socket: programs that open the volume while it is
 * mounted. Their connections count, and end, as all others do (control_server.c, I1, I5, I6); what they ask
 * for is the library's business (stet_ll_serve).
 */
#include "fuse/connection.h"

#include <errno.h>
#include <string.h>
#include <syslog.h>

#define GROUPS_MAX 65536u /* as the kernel's own limit */

/* The groups of the other end, beside its first one. Owned by the caller. */
static int get_groups(int fd, uint32_t **ret, size_t *ret_count)
{
	socklen_t len = 64 * sizeof(gid_t);
	gid_t *groups = NULL;

	_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "handed on as they are");
	for (;;) {
		gid_t *more = realloc(groups, len);

		if (!more) {
			free(groups);
			return -ENOMEM;
		}
		groups = more;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) == 0)
			break;
		if (errno != ERANGE || len > GROUPS_MAX * sizeof(gid_t)) {
			int rc = -errno;

			free(groups);
			return rc;
		}
	}
	*ret = groups;
	*ret_count = len / sizeof(gid_t);
	return 0;
}

/* With uid= or gid= the kernel is told other owners than the volume has, and decides by those: what the library
 * would permit is another thing. */
static bool is_served(const struct stet_fuse_connection *c)
{
	const struct stet_fuse_options *o = c->server->options;

	return c->peer.uid == 0 || !(o->has_uid || o->has_gid);
}

/* --- within a transaction (view.c, I10): its view, referenced --- */

static int enter(void *within, struct stet_txn **ret_txn)
{
	struct stet_fuse_view *view = within;

	if (stet_fuse_view_enter_(view->server, view))
		return -ESTALE;
	*ret_txn = view->txn;
	return 0;
}

static void leave(void *within)
{
	struct stet_fuse_view *view = within;

	stet_fuse_view_leave_(view->server, view);
}

static bool is_ending(void *within)
{
	const struct stet_fuse_view *view = within;

	return view->ending;
}

static void part_begin(void *within)
{
	struct stet_fuse_view *view = within;

	pthread_mutex_lock(&view->server->lock);
	view->joined++;
	pthread_mutex_unlock(&view->server->lock);
}

static void part_end(void *within, bool spoiled)
{
	struct stet_fuse_view *view = within;

	pthread_mutex_lock(&view->server->lock);
	view->joined--;
	view->spoiled = view->spoiled || spoiled;
	pthread_mutex_unlock(&view->server->lock);
}

static void conflict(void *within)
{
	struct stet_fuse_view *view = within;

	(void)!stet_fuse_errno_(view->server, view, -EBUSY);
}

static void told(void *within, const struct stet_ll_touched *touched)
{
	stet_fuse_view_told_(within, touched);
}

static void release(void *within)
{
	struct stet_fuse_view *view = within;

	stet_fuse_view_put_(view->server, view);
}

const struct stet_ll_mount stet_fuse_library_mount_ = {
	.enter = enter,
	.leave = leave,
	.is_ending = is_ending,
	.part_begin = part_begin,
	.part_end = part_end,
	.conflict = conflict,
	.told = told,
	.release = release,
};

/* --- reaching a tree --- */

static bool take_word(struct stet_fuse_control_server *control, const char *word, uid_t uid,
		      bool writable, struct stet_fuse_view *within)
{
	bool taken;

	pthread_mutex_lock(&control->lock);
	taken = control->service &&
		stet_ll_service_reached(control->service, word, uid, writable, within);
	pthread_mutex_unlock(&control->lock);
	return taken;
}

bool stet_fuse_reached_(struct stet_fuse_call *call, const char *name, bool write)
{
	size_t prefix = strlen(STET_LL_REACH_XATTR);
	struct stet_fuse_server *server = call->server;
	struct stet_fuse_view *view = call->view;
	bool is_txn = view->kind == STET_FUSE_TXN;
	bool taken;

	if (strncmp(name, STET_LL_REACH_XATTR, prefix) != 0 || call->node->ino != STET_ROOT ||
	    view->kind == STET_FUSE_OLD || view->is_base)
		return false;
	if (is_txn) {
		pthread_mutex_lock(&server->lock);
		view->refs++;
		pthread_mutex_unlock(&server->lock);
	}
	taken = take_word(server->control, name + prefix, fuse_req_ctx(call->req)->uid,
			  write && !view->read_only && !server->read_only, is_txn ? view : NULL);
	if (is_txn && !taken)
		stet_fuse_view_put_(server, view);
	return taken;
}

/* --- serving --- */

void stet_fuse_serve_library_(struct stet_fuse_connection *c)
{
	struct stet_ll_who who = {
		.uid = c->peer.uid,
		.gid = c->peer.gid,
		.pid = c->peer.pid,
	};
	uint32_t *groups = NULL;
	int rc = get_groups(c->fd, &groups, &who.group_count);

	who.groups = groups;
	if (!rc)
		stet_ll_serve(c->control->service, c->fd, is_served(c) ? &who : NULL);
	else
		stet_fuse_log_(LOG_WARNING, "a program of user %u cannot be served: %s",
			       (unsigned)who.uid, strerror(-rc));
	free(groups);
}
