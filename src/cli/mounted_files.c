/* mounted_files.c - the library's calls on files, through a mount.
 *
 * I1. Only regular files are opened: a device or a FIFO in the volume is never meant itself.
 * I2. A file is reached by a descriptor that was resolved within the volume (nodes.c); what the
 *     system offers only by path is done through /proc/self/fd, which leads to just that file.
 * I3. A table is told from a file by what the daemon gives it (control.h).
 */
#include "cli/mounted_internal.h"

#include "fuse/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NS_PER_S 1000000000

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

/* Closes fd, after a call that returned rc. */
static int done(int fd, int rc)
{
	rc = result(rc);
	close(fd);
	return rc;
}

#define FD_PATH_MAX 32

static const char *fd_path(int fd, char buf[FD_PATH_MAX])
{
	snprintf(buf, FD_PATH_MAX, "/proc/self/fd/%d", fd);
	return buf;
}

static int open_target(struct stet_cli_mounted *m, uint64_t dir, const char *path, bool follow,
		       int *ret_fd)
{
	return stet_cli_nodes_open_(stet_cli_mounted_nodes_(m), dir, path,
				    O_PATH | (follow ? 0 : O_NOFOLLOW), 0, ret_fd);
}

/// Attributes ///

static struct timespec from_ns(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	if (ts.tv_nsec < 0) {
		ts.tv_nsec += NS_PER_S;
		ts.tv_sec--;
	}
	return ts;
}

static void fill(const struct stat *st, struct stet_stat *ret)
{
	*ret = (struct stet_stat){
		.ino = st->st_ino,
		.mode = st->st_mode,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.rdev = (uint64_t)major(st->st_rdev) << 32 | minor(st->st_rdev),
		.size = (uint64_t)st->st_size,
		.blocks = (uint64_t)st->st_blocks,
		.atime_ns = stet_cli_ns_(&st->st_atim),
		.mtime_ns = stet_cli_ns_(&st->st_mtim),
		.ctime_ns = stet_cli_ns_(&st->st_ctim),
	};
}

/* I3 */
static void fill_table(int fd, const struct stat *st, struct stet_stat *ret)
{
	char at[FD_PATH_MAX], text[24];
	ssize_t len;

	if (!S_ISREG(st->st_mode) || st->st_blksize != STET_CONTROL_TABLE_BLKSIZE)
		return;
	len = getxattr(fd_path(fd, at), STET_CONTROL_TABLE_XATTR, text, sizeof(text) - 1);
	if (len <= 0)
		return;
	text[len] = '\0';
	ret->mode = STET_S_IFTABLE | (ret->mode & 07777);
	ret->size = strtoull(text, NULL, 10);
}

int stet_cli_mounted_statat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			     unsigned flags, struct stet_stat *ret)
{
	bool follow = !(flags & STET_AT_NOFOLLOW);
	struct stat st;
	int fd;
	int rc = open_target(m, dir, path, follow, &fd);

	if (rc)
		return rc;
	rc = result(fstat(fd, &st));
	if (!rc) {
		fill(&st, ret);
		fill_table(fd, &st, ret);
		stet_cli_nodes_learn_(stet_cli_mounted_nodes_(m), st.st_ino, dir, path, follow);
	}
	if (!rc && (flags & STET_CLI_AT_ALL))
		rc = stet_cli_mounted_more_(m, st.st_ino, ret); /* while fd keeps it known */
	close(fd);
	return rc;
}

/* The owner first: setting it may clear bits of the mode. */
static int set_attributes(int fd, const struct stet_setattr *set)
{
	const struct timespec times[2] = { from_ns(set->atime_ns), from_ns(set->mtime_ns) };
	char path[FD_PATH_MAX];
	int rc = 0;

	fd_path(fd, path); /* I2 */
	if (set->set & STET_SET_UID)
		rc = result(fchownat(fd, "", set->uid, set->gid, AT_EMPTY_PATH));
	if (!rc && (set->set & STET_SET_MODE))
		rc = result(chmod(path, set->mode));
	if (!rc && (set->set & STET_SET_MTIME))
		rc = result(utimensat(AT_FDCWD, path, times, 0));
	return rc;
}

/* UID stands for UID and GID, MTIME for both times: nobody sets one alone. */
int stet_cli_mounted_setattrat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
				unsigned flags, const struct stet_setattr *set)
{
	int fd;
	int rc = open_target(m, dir, path, !(flags & STET_AT_NOFOLLOW), &fd);

	if (rc)
		return rc;
	rc = set_attributes(fd, set);
	close(fd);
	return rc;
}

ssize_t stet_cli_mounted_readlinkat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
				     char *buf, size_t cap)
{
	ssize_t len;
	int fd;
	int rc = open_target(m, dir, path, false, &fd);

	if (rc)
		return rc;
	len = readlinkat(fd, "", buf, cap);
	if (len < 0)
		len = errno == ENOENT ? -EINVAL : -errno; /* ENOENT: it is no link */
	else if ((size_t)len == cap)
		len = -ERANGE;
	else
		buf[len] = '\0';
	close(fd);
	return len;
}

ssize_t stet_cli_mounted_listxattr_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
				    char *buf, size_t cap)
{
	char at[FD_PATH_MAX];
	ssize_t len;
	int fd;
	int rc = open_target(m, dir, path, false, &fd);

	if (rc)
		return rc;
	len = listxattr(fd_path(fd, at), buf, cap);
	if (len < 0)
		len = -errno;
	close(fd);
	return len;
}

ssize_t stet_cli_mounted_getxattr_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
				   const char *xattr, void *buf, size_t cap)
{
	char at[FD_PATH_MAX];
	ssize_t len;
	int fd;
	int rc = open_target(m, dir, path, false, &fd);

	if (rc)
		return rc;
	len = getxattr(fd_path(fd, at), xattr, buf, cap);
	if (len < 0)
		len = -errno;
	close(fd);
	return len;
}

int stet_cli_mounted_setxattr_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			       const char *xattr, const void *value, size_t len)
{
	char at[FD_PATH_MAX];
	int fd;
	int rc = open_target(m, dir, path, false, &fd);

	return rc ? rc : done(fd, setxattr(fd_path(fd, at), xattr, value, len, 0));
}

/// Data ///

/* I1, I2. Of what is there already; takes over fd. */
static int reopen(int fd, int flags, int *ret_fd)
{
	char at[FD_PATH_MAX];
	struct stat st;
	int found;
	int rc = result(fstat(fd, &st));

	if (!rc && S_ISLNK(st.st_mode))
		rc = -ELOOP;
	else if (!rc && S_ISDIR(st.st_mode))
		rc = -EISDIR;
	else if (!rc && !S_ISREG(st.st_mode))
		rc = -ENXIO;
	if (rc) {
		close(fd);
		return rc;
	}
	found = open(fd_path(fd, at), (flags & ~(O_CREAT | O_NOFOLLOW)) | O_CLOEXEC);
	if (found < 0)
		return done(fd, found);
	close(fd);
	*ret_fd = found;
	return 0;
}

int stet_cli_mounted_openat_(struct stet_cli_mounted *m, uint64_t dir, const char *path, int flags,
			     mode_t mode, int *ret_fd)
{
	int fd;
	int rc = open_target(m, dir, path, !(flags & O_NOFOLLOW), &fd);

	if (rc == 0)
		return reopen(fd, flags, ret_fd);
	if (rc != -ENOENT || !(flags & O_CREAT))
		return rc;
	return stet_cli_nodes_open_(stet_cli_mounted_nodes_(m), dir, path, flags, mode, ret_fd);
}

/// Names ///

static int open_parent(struct stet_cli_mounted *m, uint64_t dir, const char *path, int *ret_fd,
		       const char **ret_name)
{
	return stet_cli_nodes_parent_(stet_cli_mounted_nodes_(m), dir, path, ret_fd, ret_name);
}

int stet_cli_mounted_mkdirat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			      mode_t mode)
{
	const char *name;
	int fd;
	int rc = open_parent(m, dir, path, &fd, &name);

	return rc ? rc : done(fd, mkdirat(fd, name, mode));
}

int stet_cli_mounted_symlinkat_(struct stet_cli_mounted *m, const char *target, uint64_t dir,
				const char *path)
{
	const char *name;
	int fd;
	int rc = open_parent(m, dir, path, &fd, &name);

	return rc ? rc : done(fd, symlinkat(target, fd, name));
}

int stet_cli_mounted_mknodat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			      mode_t mode, uint64_t rdev)
{
	dev_t dev = makedev((unsigned)(rdev >> 32), (unsigned)rdev);
	const char *name;
	int fd;
	int rc = open_parent(m, dir, path, &fd, &name);

	return rc ? rc : done(fd, mknodat(fd, name, mode, dev));
}

int stet_cli_mounted_linkat_(struct stet_cli_mounted *m, uint64_t from_dir, const char *from,
			     uint64_t to_dir, const char *to)
{
	char at[FD_PATH_MAX];
	const char *name;
	int from_fd, fd;
	int rc = open_target(m, from_dir, from, false, &from_fd);

	if (rc)
		return rc;
	rc = open_parent(m, to_dir, to, &fd, &name);
	if (!rc)
		rc = done(fd, linkat(AT_FDCWD, fd_path(from_fd, at), fd, name, AT_SYMLINK_FOLLOW));
	close(from_fd);
	return rc;
}

int stet_cli_mounted_renameat_(struct stet_cli_mounted *m, uint64_t from_dir, const char *from,
			       uint64_t to_dir, const char *to)
{
	const char *from_name, *name;
	int from_fd, fd;
	int rc = open_parent(m, from_dir, from, &from_fd, &from_name);

	if (rc)
		return rc;
	rc = open_parent(m, to_dir, to, &fd, &name);
	if (!rc)
		rc = done(fd, renameat(from_fd, from_name, fd, name));
	close(from_fd);
	return rc;
}

int stet_cli_mounted_unlinkat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			       unsigned flags)
{
	const char *name;
	int fd;
	int rc = open_parent(m, dir, path, &fd, &name);

	return rc ? rc : done(fd, unlinkat(fd, name, flags & STET_AT_REMOVEDIR ? AT_REMOVEDIR : 0));
}
