/* files.c - a command's calls on the files of its volume: by the library, or, where a daemon has
 * the volume mounted, through that mount. So the commands need not know which.
 */
#include "cli/mounted_internal.h"
#include "cli/site_internal.h"

#include <errno.h>
#include <fcntl.h>

int stet_cli_statat_(struct stet_cli_volume *v, uint64_t dir, const char *path, unsigned flags,
		     struct stet_stat *ret)
{
	return v->mounted ? stet_cli_mounted_statat_(v->mounted, dir, path, flags, ret)
			  : stet_statat(v->vol, v->txn, dir, path, flags & ~STET_CLI_AT_ALL, ret);
}

int stet_cli_setattrat_(struct stet_cli_volume *v, uint64_t dir, const char *path, unsigned flags,
			const struct stet_setattr *set)
{
	return v->mounted ? stet_cli_mounted_setattrat_(v->mounted, dir, path, flags, set)
			  : stet_setattrat(v->vol, v->txn, dir, path, flags, set);
}

ssize_t stet_cli_readlinkat_(struct stet_cli_volume *v, uint64_t dir, const char *path, char *buf,
			     size_t cap)
{
	return v->mounted ? stet_cli_mounted_readlinkat_(v->mounted, dir, path, buf, cap)
			  : stet_readlinkat(v->vol, v->txn, dir, path, buf, cap);
}

ssize_t stet_cli_listxattr_(struct stet_cli_volume *v, uint64_t dir, const char *path, char *buf,
			    size_t cap)
{
	return v->mounted ? stet_cli_mounted_listxattr_(v->mounted, dir, path, buf, cap)
			  : stet_listxattr(v->vol, v->txn, dir, path, STET_AT_NOFOLLOW, buf, cap);
}

ssize_t stet_cli_getxattr_(struct stet_cli_volume *v, uint64_t dir, const char *path,
			   const char *xattr, void *buf, size_t cap)
{
	return v->mounted ? stet_cli_mounted_getxattr_(v->mounted, dir, path, xattr, buf, cap)
			  : stet_getxattr(v->vol, v->txn, dir, path, STET_AT_NOFOLLOW, xattr, buf,
					  cap);
}

int stet_cli_setxattr_(struct stet_cli_volume *v, uint64_t dir, const char *path, const char *xattr,
		       const void *value, size_t len)
{
	return v->mounted ? stet_cli_mounted_setxattr_(v->mounted, dir, path, xattr, value, len)
			  : stet_setxattr(v->vol, v->txn, dir, path, STET_AT_NOFOLLOW, xattr, value,
					  len);
}

/// Data ///

int stet_cli_openat_(struct stet_cli_volume *v, uint64_t dir, const char *path, int flags,
		     mode_t mode, struct stet_cli_stream *ret)
{
	struct stet_cli_stream stream = { .fd = -1 };
	int rc = v->mounted
			 ? stet_cli_mounted_openat_(v->mounted, dir, path, flags, mode, &stream.fd)
			 : stet_openat(v->vol, v->txn, dir, path, flags, mode, &stream.file);

	if (!rc)
		*ret = stream;
	return rc;
}

/* A descriptor is read and written as the host's. */
static const struct stet_cli_site_ops *host(void)
{
	struct stet_cli_site site;

	stet_cli_site_host_(&site);
	return site.ops;
}

int stet_cli_stream_close_(struct stet_cli_stream *stream)
{
	if (!stream->file)
		return host()->close(stream);
	stet_file_close(stream->file);
	return 0;
}

ssize_t stet_cli_stream_read_(struct stet_cli_stream *stream, void *buf, size_t len, uint64_t off)
{
	return stream->file ? stet_pread(stream->file, buf, len, off)
			    : host()->read(stream, buf, len, off);
}

int stet_cli_stream_write_(struct stet_cli_stream *stream, const void *buf, size_t len,
			   uint64_t off)
{
	ssize_t n;

	if (!stream->file)
		return host()->write(stream, buf, len, off);
	for (size_t done = 0; done < len; done += (size_t)n) { /* a long one may stop short */
		n = stet_pwrite(stream->file, (const char *)buf + done, len - done, off + done);
		if (n < 0)
			return (int)n;
	}
	return 0;
}

int stet_cli_stream_seek_(struct stet_cli_stream *stream, uint64_t off, int what, uint64_t *ret_off)
{
	return stream->file ? stet_seek(stream->file, off, what, ret_off)
			    : host()->seek(stream, off, what, ret_off);
}

int stet_cli_stream_truncate_(struct stet_cli_stream *stream, uint64_t size)
{
	return stream->file ? stet_truncate(stream->file, size) : host()->truncate(stream, size);
}

int stet_cli_stream_size_(struct stet_cli_stream *stream, uint64_t *ret)
{
	struct stet_stat st;
	int rc;

	if (!stream->file)
		return host()->size(stream, ret);
	rc = stet_file_stat(stream->file, &st);
	if (!rc)
		*ret = st.size;
	return rc;
}

/// Names ///

int stet_cli_mkdirat_(struct stet_cli_volume *v, uint64_t dir, const char *path, mode_t mode)
{
	return v->mounted ? stet_cli_mounted_mkdirat_(v->mounted, dir, path, mode)
			  : stet_mkdirat(v->vol, v->txn, dir, path, mode);
}

int stet_cli_symlinkat_(struct stet_cli_volume *v, const char *target, uint64_t dir,
			const char *path)
{
	return v->mounted ? stet_cli_mounted_symlinkat_(v->mounted, target, dir, path)
			  : stet_symlinkat(v->vol, v->txn, target, dir, path);
}

int stet_cli_mknodat_(struct stet_cli_volume *v, uint64_t dir, const char *path, mode_t mode,
		      uint64_t rdev)
{
	return v->mounted ? stet_cli_mounted_mknodat_(v->mounted, dir, path, mode, rdev)
			  : stet_mknodat(v->vol, v->txn, dir, path, mode, rdev);
}

int stet_cli_linkat_(struct stet_cli_volume *v, uint64_t from_dir, const char *from,
		     uint64_t to_dir, const char *to)
{
	return v->mounted ? stet_cli_mounted_linkat_(v->mounted, from_dir, from, to_dir, to)
			  : stet_linkat(v->vol, v->txn, from_dir, from, to_dir, to, 0);
}

int stet_cli_renameat_(struct stet_cli_volume *v, uint64_t from_dir, const char *from,
		       uint64_t to_dir, const char *to)
{
	return v->mounted ? stet_cli_mounted_renameat_(v->mounted, from_dir, from, to_dir, to)
			  : stet_renameat(v->vol, v->txn, from_dir, from, to_dir, to, 0);
}

int stet_cli_unlinkat_(struct stet_cli_volume *v, uint64_t dir, const char *path, unsigned flags)
{
	return v->mounted ? stet_cli_mounted_unlinkat_(v->mounted, dir, path, flags)
			  : stet_unlinkat(v->vol, v->txn, dir, path, flags);
}

/// Listings ///

int stet_cli_dir_open_(struct stet_cli_volume *v, uint64_t dir, struct stet_cli_listing *ret)
{
	*ret = (struct stet_cli_listing){ 0 };
	return v->mounted ? stet_cli_mounted_dir_open_(v->mounted, dir, &ret->mounted)
			  : stet_dir_open(v->vol, v->txn, dir, "", NULL, &ret->dir);
}

int stet_cli_dir_next_(struct stet_cli_listing *it, struct stet_dir_entry *ret)
{
	return it->mounted ? stet_cli_mounted_dir_next_(it->mounted, ret)
			   : stet_dir_next(it->dir, ret);
}

void stet_cli_dir_close_(struct stet_cli_listing *it)
{
	stet_dir_close(it->dir);
	stet_cli_mounted_dir_close_(it->mounted);
	*it = (struct stet_cli_listing){ 0 };
}

int stet_cli_list_(struct stet_cli_volume *v, uint64_t dir, struct stet_cli_names *ret)
{
	struct stet_cli_listing it;
	struct stet_dir_entry entry;
	int rc;

	if (v->mounted)
		return stet_cli_mounted_list_(v->mounted, dir, ret);
	rc = stet_cli_dir_open_(v, dir, &it);
	if (rc)
		return rc;
	while ((rc = stet_cli_dir_next_(&it, &entry)) == 1)
		stet_cli_names_add_(ret, entry.name);
	stet_cli_dir_close_(&it);
	return rc;
}

int stet_cli_walk_(struct stet_cli_volume *v, uint64_t dir, const char *path, stet_walk_fn *fn,
		   void *arg)
{
	return v->mounted ? stet_cli_mounted_walk_(v->mounted, dir, path, fn, arg)
			  : stet_walk(v->vol, v->txn, dir, path, STET_WALK_PRE, fn, arg);
}
