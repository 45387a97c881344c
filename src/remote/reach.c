/* reach.c - a client shows that it reaches a mount. See reach.h. */
#include "remote/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
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
static int check(int fd, uint64_t dev)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stx) != 0)
		return STET_FAIL(-EACCES, "its mount cannot be reached: %s", strerror(errno));
	if (makedev(stx.stx_dev_major, stx.stx_dev_minor) != dev || !S_ISDIR(stx.stx_mode))
		return STET_FAIL(-EACCES, "the mount is not visible here: something else is there");
	return 0;
}

/* R2 */
static int check_foreign(int fd)
{
	uint64_t node;
	int rc = get_node(fd, &node);

	if (!rc && node != FUSE_ROOT)
		rc = STET_FAIL(-EOPNOTSUPP, "root does not work in a transaction of a mount "
					    "that belongs to another user");
	return rc;
}

int stet_reach_open(const struct stet_ll_server *server, int *ret)
{
	bool is_foreign = server->uid != 0 && server->uid != geteuid();
	int fd, rc;

	*ret = -1;
	if (!server->dir[0])
		return 0;
	fd = open(server->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return STET_FAIL(-EACCES, "its mount, %s, cannot be reached: %s", server->dir,
				 strerror(errno));
	rc = check(fd, server->dev);
	if (!rc && is_foreign)
		rc = check_foreign(fd);
	if (!rc && !is_foreign)
		*ret = fd;
	else
		close(fd);
	return rc;
}

int stet_reach_show(int fd, const char *word, bool write)
{
	char path[32]; /* of a descriptor that the calls for open files do not take */
	char name[256];
	int n = snprintf(name, sizeof(name), "%s%s", STET_LL_REACH_XATTR, word);

	if (fd < 0)
		return STET_FAIL(-EACCES, "its mount belongs to another user");
	if (n < 0 || (size_t)n >= sizeof(name))
		return STET_FAIL(-EPROTO, "not the answer that was expected");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write && setxattr(path, name, "", 0, 0) == 0)
		return 0;
	if (getxattr(path, name, NULL, 0) >= 0)
		return 0;
	return STET_FAIL(-EACCES, "its mount cannot be asked: %s", strerror(errno));
}
