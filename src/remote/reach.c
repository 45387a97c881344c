/* reach.c - proving, and checking, that a client reaches a mount. See reach.h. */
#include "remote/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FUSE_ROOT 1u   /* node number of every FUSE mount's root */
#define HANDLE_WORDS 3 /* of a FUSE handle: node number (high, low), generation */

/* AT_HANDLE_FID: enough where handles cannot be opened. */
#define HANDLE_FID 0x200

/* The node number of a file of a FUSE mount, as the kernel keeps it. st_ino would not do: the roots of a
 * transaction's tree and of the mount have the same. */
static int get_node(int fd, uint64_t *ret)
{
	union {
		struct file_handle handle;
		uint8_t space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u;
	uint32_t words[HANDLE_WORDS];
	int mount_id;
	int rc;

	u.handle.handle_bytes = MAX_HANDLE_SZ;
	rc = name_to_handle_at(fd, "", &u.handle, &mount_id, AT_EMPTY_PATH);
	if (rc != 0 && errno == EOPNOTSUPP) {
		u.handle.handle_bytes = MAX_HANDLE_SZ;
		rc = name_to_handle_at(fd, "", &u.handle, &mount_id, AT_EMPTY_PATH | HANDLE_FID);
	}
	if (rc != 0)
		return STET_FAIL(-EACCES, "the kernel gives no handle of the mount's root: %s",
				 strerror(errno));
	if (u.handle.handle_bytes < sizeof(words))
		return STET_FAIL(-EACCES, "the handle of the mount's root is too short");
	memcpy(words, u.handle.f_handle, sizeof(words));
	*ret = (uint64_t)words[0] << 32 | words[1];
	return 0;
}

/* R1 */
int stet_reach_check(int fd, uint64_t dev)
{
	struct statx stx;
	uint64_t node;
	int rc;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stx) != 0)
		return STET_FAIL(-EACCES, "its mount cannot be reached: %s", strerror(errno));
	if (makedev(stx.stx_dev_major, stx.stx_dev_minor) != dev || !S_ISDIR(stx.stx_mode))
		return STET_FAIL(-EACCES, "the mount is not visible here: something else is there");
	rc = get_node(fd, &node);
	if (!rc && node != FUSE_ROOT)
		rc = STET_FAIL(
			-EOPNOTSUPP,
			"inside a transaction of `stetfs run` the library cannot be used yet");
	return rc;
}

int stet_reach_open(const struct stet_ll_server *server, int *ret)
{
	int fd, rc;

	*ret = -1;
	if (!server->dir[0])
		return 0;
	fd = open(server->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return STET_FAIL(-EACCES, "its mount, %s, cannot be reached: %s", server->dir,
				 strerror(errno));
	rc = stet_reach_check(fd, server->dev);
	if (!rc && (server->uid == 0 || server->uid == geteuid()))
		*ret = fd;
	else
		close(fd); /* R2 */
	return rc;
}
