/* site_host.c - the host's files as a place to copy from or to.
 *
 * I1. Below the starting point no symbolic link is followed: what a tree holds cannot lead a copy
 *     elsewhere, even if somebody changes the tree meanwhile.
 * I2. A file being made can be read by its maker only, until set_attr; set-id bits are given only
 *     to files whose owner is the source's.
 */
#include "cli/site_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define NEW_FILE_MODE 0600u

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

static struct stet_cli_dir host_start(struct stet_cli_site *site)
{
	(void)site;
	return (struct stet_cli_dir){ .fd = AT_FDCWD };
}

static void host_resolve(struct stet_cli_site *site, const char *path, struct stet_cli_text *ret)
{
	char *real = realpath(path, NULL);

	(void)site;
	stet_cli_text_adds_(ret, real ? real : path);
	free(real);
}

static struct timespec from_ns(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	if (ts.tv_nsec < 0) {
		ts.tv_nsec += NS_PER_S;
		ts.tv_sec--;
	}
	return ts;
}

static int host_stat(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		     struct stet_cli_attr *ret)
{
	struct stat st;

	(void)site;
	if (fstatat(dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	*ret = (struct stet_cli_attr){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.mode = st.st_mode,
		.nlink = st.st_nlink,
		.uid = st.st_uid,
		.gid = st.st_gid,
		.rdev = (uint64_t)major(st.st_rdev) << 32 | minor(st.st_rdev),
		.size = (uint64_t)st.st_size,
		.atime_ns = stet_cli_ns_(&st.st_atim),
		.mtime_ns = stet_cli_ns_(&st.st_mtim),
	};
	return 0;
}

static int host_open_dir(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			 struct stet_cli_dir *ret)
{
	int fd = openat(dir.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); /* I1 */

	(void)site;
	if (fd < 0)
		return -errno;
	*ret = (struct stet_cli_dir){ .fd = fd };
	return 0;
}

static void host_close_dir(struct stet_cli_site *site, struct stet_cli_dir dir)
{
	(void)site;
	close(dir.fd);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In the order of names, so that a copy does not depend on the host's directory. */
static int host_list(struct stet_cli_site *site, struct stet_cli_dir dir,
		     struct stet_cli_names *ret)
{
	int fd = openat(dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	DIR *it;
	int rc;

	(void)site;
	if (fd < 0)
		return -errno;
	it = fdopendir(fd);
	if (!it) {
		rc = -errno;
		close(fd);
		return rc;
	}
	while ((errno = 0, entry = readdir(it))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			stet_cli_names_add_(ret, entry->d_name);
	}
	rc = -errno;
	closedir(it);
	if (ret->count)
		qsort(ret->name, ret->count, sizeof(*ret->name), by_name);
	return rc;
}

static int host_readlink(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			 struct stet_cli_text *ret)
{
	char buf[PATH_MAX];
	ssize_t len = readlinkat(dir.fd, name, buf, sizeof(buf));

	(void)site;
	if (len < 0)
		return -errno;
	if ((size_t)len == sizeof(buf))
		return -ENAMETOOLONG;
	stet_cli_text_add_(ret, buf, (size_t)len);
	return 0;
}

/// Data ///

/* O_NONBLOCK: a FIFO that takes a file's place must not hold us up. */
static int open_file(struct stet_cli_dir dir, const char *name, int flags,
		     struct stet_cli_stream *ret)
{
	int fd = openat(dir.fd, name, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW,
			NEW_FILE_MODE);

	if (fd < 0)
		return -errno;
	*ret = (struct stet_cli_stream){ .fd = fd };
	return 0;
}

static int host_open(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		     struct stet_cli_stream *ret)
{
	(void)site;
	return open_file(dir, name, O_RDONLY, ret);
}

static int host_create(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		       struct stet_cli_stream *ret)
{
	(void)site;
	return open_file(dir, name, O_WRONLY | O_CREAT | O_TRUNC, ret);
}

static int host_close(struct stet_cli_stream *stream)
{
	return result(close(stream->fd));
}

static ssize_t host_read(struct stet_cli_stream *stream, void *buf, size_t len, uint64_t off)
{
	for (;;) {
		ssize_t n = pread(stream->fd, buf, len, (off_t)off);

		if (n >= 0)
			return n;
		if (errno != EINTR)
			return -errno;
	}
}

static int host_write(struct stet_cli_stream *stream, const void *buf, size_t len, uint64_t off)
{
	const char *from = buf;

	while (len) {
		ssize_t n = pwrite(stream->fd, from, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		from += n;
		len -= (size_t)n;
		off += (uint64_t)n;
	}
	return 0;
}

static int host_seek(struct stet_cli_stream *stream, uint64_t off, int what, uint64_t *ret_off)
{
	off_t found = lseek(stream->fd, (off_t)off, what == STET_SEEK_DATA ? SEEK_DATA : SEEK_HOLE);

	if (found < 0)
		return -errno;
	*ret_off = (uint64_t)found;
	return 0;
}

static int host_truncate(struct stet_cli_stream *stream, uint64_t size)
{
	return result(ftruncate(stream->fd, (off_t)size));
}

static int host_size(struct stet_cli_stream *stream, uint64_t *ret)
{
	struct stat st;

	if (fstat(stream->fd, &st) != 0)
		return -errno;
	*ret = (uint64_t)st.st_size;
	return 0;
}

/// Names ///

static int host_mkdir(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name)
{
	(void)site;
	return result(mkdirat(dir.fd, name, 0700));
}

static int host_symlink(struct stet_cli_site *site, const char *target, struct stet_cli_dir dir,
			const char *name)
{
	(void)site;
	return result(symlinkat(target, dir.fd, name));
}

static int host_mknod(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		      const struct stet_cli_attr *attr)
{
	dev_t dev = makedev((unsigned)(attr->rdev >> 32), (unsigned)attr->rdev);

	(void)site;
	return result(mknodat(dir.fd, name, (attr->mode & S_IFMT) | NEW_FILE_MODE, dev));
}

static int host_link(struct stet_cli_site *site, const char *path, uint64_t ino,
		     struct stet_cli_dir dir, const char *name)
{
	(void)site;
	(void)ino;
	return result(linkat(AT_FDCWD, path, dir.fd, name, 0));
}

static int host_unlink(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name)
{
	(void)site;
	return result(unlinkat(dir.fd, name, 0));
}

/// Attributes ///

static int host_set_owner(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			  const struct stet_cli_attr *attr)
{
	if (!site->is_root)
		return 0;
	return result(fchownat(dir.fd, name, attr->uid, attr->gid, AT_SYMLINK_NOFOLLOW));
}

static int host_set_attr(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			 const struct stet_cli_attr *attr)
{
	const struct timespec times[2] = { from_ns(attr->atime_ns), from_ns(attr->mtime_ns) };
	uint32_t mode = attr->mode & 07777u;
	struct stat st;

	if (!S_ISLNK(attr->mode)) {
		if (fstatat(dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			return -errno;
		if (S_ISLNK(st.st_mode)) /* I1: chmod would follow */
			return -ELOOP;
		if (st.st_uid != attr->uid && !site->is_root) /* I2 */
			mode &= ~(uint32_t)S_ISUID;
		if (st.st_gid != attr->gid && !site->is_root && !S_ISDIR(attr->mode))
			mode &= ~(uint32_t)S_ISGID;
		if (fchmodat(dir.fd, name, mode, 0) != 0)
			return -errno;
	}
	return result(utimensat(dir.fd, name, times, AT_SYMLINK_NOFOLLOW));
}

/* There are no calls that take a directory; through /proc the last component is not followed. */
static char *xattr_path(struct stet_cli_dir dir, const char *name)
{
	struct stet_cli_text path = { 0 };

	if (dir.fd == AT_FDCWD)
		stet_cli_text_adds_(&path, name);
	else
		stet_cli_text_addf_(&path, "/proc/self/fd/%d/%s", dir.fd, name);
	return path.s;
}

static ssize_t host_list_xattrs(struct stet_cli_site *site, struct stet_cli_dir dir,
				const char *name, char *buf, size_t cap)
{
	char *path = xattr_path(dir, name);
	ssize_t len = llistxattr(path, buf, cap);

	(void)site;
	if (len < 0)
		len = errno == ENOTSUP ? 0 : -errno;
	free(path);
	return len;
}

static ssize_t host_get_xattr(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			      const char *xattr, void *buf, size_t cap)
{
	char *path = xattr_path(dir, name);
	ssize_t len = lgetxattr(path, xattr, buf, cap);

	(void)site;
	if (len < 0)
		len = -errno;
	free(path);
	return len;
}

static int host_set_xattr(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			  const char *xattr, const void *value, size_t len)
{
	char *path = xattr_path(dir, name);
	int rc = result(lsetxattr(path, xattr, value, len, 0));

	(void)site;
	free(path);
	return rc;
}

static const struct stet_cli_site_ops host_ops = {
	.start = host_start,
	.resolve = host_resolve,
	.stat = host_stat,
	.open_dir = host_open_dir,
	.close_dir = host_close_dir,
	.list = host_list,
	.readlink = host_readlink,
	.open = host_open,
	.create = host_create,
	.close = host_close,
	.read = host_read,
	.write = host_write,
	.seek = host_seek,
	.truncate = host_truncate,
	.size = host_size,
	.mkdir = host_mkdir,
	.symlink = host_symlink,
	.mknod = host_mknod,
	.link = host_link,
	.unlink = host_unlink,
	.set_owner = host_set_owner,
	.set_attr = host_set_attr,
	.list_xattrs = host_list_xattrs,
	.get_xattr = host_get_xattr,
	.set_xattr = host_set_xattr,
};

void stet_cli_site_host_(struct stet_cli_site *ret)
{
	*ret = (struct stet_cli_site){ .ops = &host_ops, .is_root = geteuid() == 0 };
}
