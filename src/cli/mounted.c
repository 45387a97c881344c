/* mounted.c - a volume that is mounted: its daemon, and a transaction with it.
 *
 * I1. The transaction lives as long as our connection: a command that is killed leaves nothing.
 *     Also what only reads works in one, a read-only one: it sees one state, however long it
 *     takes.
 * I2. The tree is the transaction's view, MOUNT/.stet/txn/ID/root, and nothing is resolved above
 *     that root (nodes.c). That it is the daemon's is shown by its device number: where the
 *     mount is not to be seen, or hidden under another one, the command refuses.
 * I3. Within `stetfs run` the tree is that of its transaction, and the command is a part of it: what a
 *     command that changes something has done is committed with the rest, or, where it failed half
 *     way, dropped with the rest.
 * I4. The umask was applied by the command, as for the library.
 */
#include "cli/mounted_internal.h"

#include "fuse/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct stet_cli_mounted {
	struct stet_control *ctl;
	uint64_t id;    /* of the transaction */
	bool is_within; /* it is somebody else's (I3) */
	bool is_joined; /* and we have said that we change something */
	int root_fd;
	struct stet_cli_nodes *nodes;
	mode_t umask; /* to be restored */
};

struct stet_cli_nodes *stet_cli_mounted_nodes_(const struct stet_cli_mounted *m)
{
	return m->nodes;
}

int stet_cli_mounted_more_(struct stet_cli_mounted *m, uint64_t ino, struct stet_stat *st)
{
	return stet_control_more(m->ctl, m->id, ino, &st->btime_ns, &st->data_version);
}

/// Opening ///

/* I2. Returns an exit code. */
static int open_root(const struct stet_control *ctl, const char *path, const char *root,
		     int *ret_fd)
{
	const struct stet_ll_server *mount = stet_control_info(ctl);
	int fd = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc = fd < 0 ? -errno : 0;
	struct stat st;

	if (!rc && fstat(fd, &st) != 0)
		rc = -errno;
	if (!rc && st.st_dev == mount->dev) {
		*ret_fd = fd;
		return STET_CLI_OK;
	}
	if (fd >= 0)
		close(fd);
	if (rc == -EACCES || rc == -EPERM)
		stet_cli_error_(path, "mounted at %s: %s", mount->dir, strerror(-rc));
	else
		stet_cli_error_(path, "mounted at %s, which cannot be reached from here",
				mount->dir);
	return STET_CLI_FAILED;
}

static void destroy(struct stet_cli_mounted *m)
{
	if (m->nodes)
		stet_cli_nodes_destroy_(m->nodes);
	if (m->root_fd >= 0)
		close(m->root_fd);
	stet_control_close(m->ctl);
	free(m);
}

/* I3. Returns an exit code. */
static int join(struct stet_cli_mounted *m, const char *path, bool write)
{
	const char *dir = stet_control_info(m->ctl)->dir;
	int rc = write ? stet_control_join(m->ctl, m->id) : 0;
	int code;

	if (rc)
		return stet_cli_fail_control_(m->ctl, path, rc);
	m->is_within = true;
	m->is_joined = write;
	code = open_root(m->ctl, path, dir, &m->root_fd);
	if (!code)
		m->nodes = stet_cli_nodes_create_(m->root_fd);
	return code;
}

static int begin(struct stet_cli_mounted *m, const char *path, bool write)
{
	unsigned level = STET_BEGIN_SNAPSHOT | (write ? 0 : STET_BEGIN_READ_ONLY);
	struct stet_control_begun begun;
	int code;
	int rc;

	m->id = stet_control_inside(stet_control_info(m->ctl)->dir);
	if (m->id)
		return join(m, path, write);
	rc = stet_control_begin(m->ctl, level, 0, &begun);
	if (rc)
		return stet_cli_fail_control_(m->ctl, path, rc);
	m->id = begun.id;
	code = open_root(m->ctl, path, begun.root, &m->root_fd);
	if (!code)
		m->nodes = stet_cli_nodes_create_(m->root_fd);
	return code;
}

int stet_cli_mounted_open_(const char *path, bool write, struct stet_cli_mounted **ret)
{
	struct stet_cli_mounted *m;
	struct stet_control *ctl;
	int rc = stet_control_open_volume(path, &ctl);
	int code;

	if (rc == -ENOENT || rc == -ECONNREFUSED)
		return -1;
	if (rc) {
		stet_cli_error_(path, "in use: mounted: %s", strerror(-rc));
		return STET_CLI_FAILED;
	}
	m = stet_cli_alloc_(sizeof(*m));
	*m = (struct stet_cli_mounted){ .ctl = ctl, .root_fd = -1 };
	code = begin(m, path, write);
	if (code) {
		destroy(m);
		return code;
	}
	m->umask = umask(0);       /* I4 */
	stet_cli_forget_origin_(); /* that the library could not open it */
	*ret = m;
	return STET_CLI_OK;
}

/// Closing ///

static int commit(struct stet_cli_mounted *m, const char *path)
{
	struct stet_control_end end = { 0 };
	int rc = m->is_within ? 0 : stet_control_commit(m->ctl, m->id, 0, &end);

	if (rc == -EPIPE)
		stet_cli_error_(path, "the daemon of the mount has gone; whether the change is "
				      "there shows when the volume is opened again");
	else if (rc)
		stet_cli_fail_control_(m->ctl, path, rc);
	else if (end.result && end.conflict)
		stet_cli_error_(path, "conflict: %s", end.text);
	else if (end.result)
		stet_cli_error_(path, "the commit failed: %s", end.text);
	return rc || end.result ? STET_CLI_FAILED : STET_CLI_OK;
}

int stet_cli_mounted_close_(struct stet_cli_mounted *m, const char *path, int code)
{
	umask(m->umask);
	/* What holds the view open would only get stale. */
	stet_cli_nodes_destroy_(m->nodes);
	m->nodes = NULL;
	if (code == STET_CLI_OK)
		code = commit(m, path);
	if (m->is_joined && stet_control_quit(m->ctl, m->id, code != 0) != 0 && code == 0)
		code = stet_cli_fail_control_(m->ctl, path, -EPIPE);
	destroy(m); /* I1 */
	return code;
}
