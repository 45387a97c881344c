/* site_volume.c - a volume as a place to copy from or to, in the transaction of the command, if
 * any. */
#include "cli/site_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* What it is does not matter: nobody sees the file before the commit. */
#define NEW_FILE_MODE 0600u

#define MAX_LINKS 40

static struct stet_cli_dir volume_start(struct stet_cli_site *site)
{
	(void)site;
	return (struct stet_cli_dir){ .fd = -1, .ino = STET_ROOT };
}

static int volume_stat(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		       struct stet_cli_attr *ret)
{
	struct stet_stat st;
	int rc = stet_cli_statat_(site->v, dir.ino, name, STET_AT_NOFOLLOW, &st);

	if (rc)
		return rc;
	*ret = (struct stet_cli_attr){
		.dev = site->v->dev,
		.volume = site->v->ino,
		.ino = st.ino,
		.mode = st.mode,
		.nlink = st.nlink,
		.uid = st.uid,
		.gid = st.gid,
		.rdev = st.rdev,
		.size = st.size,
		.atime_ns = st.atime_ns,
		.mtime_ns = st.mtime_ns,
	};
	return 0;
}

/* Puts the target of a link in the link's place, in the path of it. */
static void replace_last(struct stet_cli_text *path, const char *target)
{
	size_t len = path->len;

	while (len && path->s[len - 1] == '/')
		len--;
	while (len && path->s[len - 1] != '/')
		len--;
	stet_cli_text_cut_(path, target[0] == '/' ? 0 : len);
	stet_cli_text_adds_(path, target);
}

static void volume_resolve(struct stet_cli_site *site, const char *path, struct stet_cli_text *ret)
{
	struct stet_cli_dir root = volume_start(site);
	struct stet_cli_text at = { 0 };
	bool found = false;

	stet_cli_text_adds_(&at, path);
	for (int i = 0; i < MAX_LINKS && !found; i++) {
		struct stet_cli_text target = { 0 };
		struct stet_cli_attr attr;

		if (volume_stat(site, root, at.s, &attr) != 0)
			break;
		found = !S_ISLNK(attr.mode);
		if (!found && stet_cli_readlink_(site->v, attr.ino, &target) == 0)
			replace_last(&at, target.s);
		stet_cli_text_release_(&target);
	}
	stet_cli_text_adds_(ret, found ? at.s : path);
	stet_cli_text_release_(&at);
}

static int volume_open_dir(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			   struct stet_cli_dir *ret)
{
	struct stet_cli_attr attr;
	int rc = volume_stat(site, dir, name, &attr);

	if (rc)
		return rc;
	if (!S_ISDIR(attr.mode))
		return -ENOTDIR;
	*ret = (struct stet_cli_dir){ .fd = -1, .ino = attr.ino };
	return 0;
}

static void volume_close_dir(struct stet_cli_site *site, struct stet_cli_dir dir)
{
	(void)site;
	(void)dir;
}

static int volume_list(struct stet_cli_site *site, struct stet_cli_dir dir,
		       struct stet_cli_names *ret)
{
	return stet_cli_list_(site->v, dir.ino, ret);
}

static int volume_readlink(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			   struct stet_cli_text *ret)
{
	struct stet_cli_attr attr;
	int rc = volume_stat(site, dir, name, &attr);

	return rc ? rc : stet_cli_readlink_(site->v, attr.ino, ret);
}

/// Data ///

static int open_file(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		     int flags, struct stet_cli_stream *ret)
{
	return stet_cli_openat_(site->v, dir.ino, name, flags | O_NOFOLLOW, NEW_FILE_MODE, ret);
}

static int volume_open(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		       struct stet_cli_stream *ret)
{
	return open_file(site, dir, name, O_RDONLY, ret);
}

static int volume_create(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			 struct stet_cli_stream *ret)
{
	return open_file(site, dir, name, O_WRONLY | O_CREAT | O_TRUNC, ret);
}

/// Names ///

static int volume_mkdir(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name)
{
	return stet_cli_mkdirat_(site->v, dir.ino, name, 0700);
}

static int volume_symlink(struct stet_cli_site *site, const char *target, struct stet_cli_dir dir,
			  const char *name)
{
	return stet_cli_symlinkat_(site->v, target, dir.ino, name);
}

static int volume_mknod(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			const struct stet_cli_attr *attr)
{
	return stet_cli_mknodat_(site->v, dir.ino, name, (attr->mode & S_IFMT) | NEW_FILE_MODE,
				 attr->rdev);
}

static int volume_link(struct stet_cli_site *site, const char *path, uint64_t ino,
		       struct stet_cli_dir dir, const char *name)
{
	(void)path;
	return stet_cli_linkat_(site->v, ino, "", dir.ino, name);
}

static int volume_unlink(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name)
{
	return stet_cli_unlinkat_(site->v, dir.ino, name, 0);
}

/// Attributes ///

/* The API does not ask who may do what; we keep to what the host's cp would do. */
static int volume_set_owner(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			    const struct stet_cli_attr *attr)
{
	const struct stet_setattr set = {
		.set = STET_SET_UID | STET_SET_GID,
		.uid = attr->uid,
		.gid = attr->gid,
	};

	if (!site->is_root)
		return 0;
	return stet_cli_setattrat_(site->v, dir.ino, name, STET_AT_NOFOLLOW, &set);
}

static int volume_set_attr(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			   const struct stet_cli_attr *attr)
{
	const struct stet_setattr set = {
		.set = STET_SET_ATIME | STET_SET_MTIME | (S_ISLNK(attr->mode) ? 0 : STET_SET_MODE),
		.mode = attr->mode & 07777u,
		.atime_ns = attr->atime_ns,
		.mtime_ns = attr->mtime_ns,
	};

	return stet_cli_setattrat_(site->v, dir.ino, name, STET_AT_NOFOLLOW, &set);
}

static ssize_t volume_list_xattrs(struct stet_cli_site *site, struct stet_cli_dir dir,
				  const char *name, char *buf, size_t cap)
{
	return stet_cli_listxattr_(site->v, dir.ino, name, buf, cap);
}

static ssize_t volume_get_xattr(struct stet_cli_site *site, struct stet_cli_dir dir,
				const char *name, const char *xattr, void *buf, size_t cap)
{
	return stet_cli_getxattr_(site->v, dir.ino, name, xattr, buf, cap);
}

static int volume_set_xattr(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			    const char *xattr, const void *value, size_t len)
{
	return stet_cli_setxattr_(site->v, dir.ino, name, xattr, value, len);
}

static const struct stet_cli_site_ops volume_ops = {
	.start = volume_start,
	.resolve = volume_resolve,
	.stat = volume_stat,
	.open_dir = volume_open_dir,
	.close_dir = volume_close_dir,
	.list = volume_list,
	.readlink = volume_readlink,
	.open = volume_open,
	.create = volume_create,
	.close = stet_cli_stream_close_,
	.read = stet_cli_stream_read_,
	.write = stet_cli_stream_write_,
	.seek = stet_cli_stream_seek_,
	.truncate = stet_cli_stream_truncate_,
	.size = stet_cli_stream_size_,
	.mkdir = volume_mkdir,
	.symlink = volume_symlink,
	.mknod = volume_mknod,
	.link = volume_link,
	.unlink = volume_unlink,
	.set_owner = volume_set_owner,
	.set_attr = volume_set_attr,
	.list_xattrs = volume_list_xattrs,
	.get_xattr = volume_get_xattr,
	.set_xattr = volume_set_xattr,
};

void stet_cli_site_volume_(struct stet_cli_volume *v, struct stet_cli_site *ret)
{
	*ret = (struct stet_cli_site){
		.ops = &volume_ops,
		.v = v,
		.is_root = geteuid() == 0,
	};
}
