/* control_library.c - clients of the library on the control socket: programs that open the volume while it is
 * mounted. Their connections count, and end, as all others do (control_server.c, I1, I5, I6); what they ask
 * for is the library's business (stet_ll_serve).
 */
#include "fuse/connection.h"

#include <errno.h>
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
