/* calls.c - the calls that operations are made of: by inode number, or as a program makes them that is not the one
 * that holds the volume. Then nobody waits for nothing (work.h), and what a call does not tell is looked up
 * before it, in the same transaction.
 */
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int open_file(struct actor *a, uint64_t ino, int flags, struct stet_file **ret)
{
	return stet_openat(a->work->vol, a->txn, ino, "", flags, 0, ret);
}

ssize_t work_read(struct actor *a, uint64_t ino, uint64_t off, void *buf, size_t len)
{
	struct stet_file *file;
	ssize_t n;

	if (!a->work->client)
		return stet_ll_read(a->work->vol, a->txn, ino, off, buf, len, a->flags);
	n = open_file(a, ino, O_RDONLY, &file);
	if (n)
		return n;
	n = stet_pread(file, buf, len, off);
	stet_file_close(file);
	return n;
}

ssize_t work_write(struct actor *a, uint64_t ino, uint64_t off, const void *buf, size_t len)
{
	struct stet_file *file;
	ssize_t n;

	if (!a->work->client)
		return stet_ll_write(a->work->vol, a->txn, ino, off, buf, len, a->flags);
	n = open_file(a, ino, O_WRONLY, &file);
	if (n)
		return n;
	n = stet_pwrite(file, buf, len, off);
	stet_file_close(file);
	return n;
}

ssize_t work_append(struct actor *a, uint64_t ino, const void *buf, size_t len)
{
	struct stet_file *file;
	ssize_t n;

	if (!a->work->client)
		return stet_ll_append(a->work->vol, a->txn, ino, buf, len, a->flags);
	n = open_file(a, ino, O_WRONLY, &file);
	if (n)
		return n;
	n = stet_append(file, buf, len);
	stet_file_close(file);
	return n;
}

int work_cut(struct actor *a, uint64_t ino, uint64_t size)
{
	struct stet_file *file;
	int rc;

	if (!a->work->client)
		return stet_ll_truncate(a->work->vol, a->txn, ino, size, a->flags);
	rc = open_file(a, ino, O_WRONLY, &file);
	if (rc)
		return rc;
	rc = stet_truncate(file, size);
	stet_file_close(file);
	return rc;
}

int work_punch(struct actor *a, uint64_t ino, uint64_t off, uint64_t len)
{
	struct stet_file *file;
	int rc;

	if (!a->work->client)
		return stet_ll_fallocate(a->work->vol, a->txn, ino,
					 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len,
					 a->flags);
	rc = open_file(a, ino, O_WRONLY, &file);
	if (rc)
		return rc;
	rc = stet_punch(file, off, len);
	stet_file_close(file);
	return rc;
}

int work_stat(struct actor *a, uint64_t ino, struct stet_stat *ret)
{
	if (!a->work->client)
		return stet_ll_getattr(a->work->vol, a->txn, ino, a->flags, ret);
	return stet_statat(a->work->vol, a->txn, ino, "", 0, ret);
}

int work_set_owner(struct actor *a, uint64_t ino, uint32_t uid)
{
	struct stet_setattr attr = { .set = STET_SET_UID, .uid = uid };

	if (!a->work->client)
		return stet_ll_setattr(a->work->vol, a->txn, ino, &attr, a->flags, NULL);
	return stet_setattrat(a->work->vol, a->txn, ino, "", 0, &attr);
}

ssize_t work_get_xattr(struct actor *a, uint64_t ino, const char *name, void *buf, size_t cap)
{
	if (!a->work->client)
		return stet_ll_getxattr(a->work->vol, a->txn, ino, name, a->flags, buf, cap);
	return stet_getxattr(a->work->vol, a->txn, ino, "", 0, name, buf, cap);
}

int work_set_xattr(struct actor *a, uint64_t ino, const char *name, const void *buf, size_t len)
{
	if (!a->work->client)
		return stet_ll_setxattr(a->work->vol, a->txn, ino, name, buf, len, a->flags);
	return stet_setxattr(a->work->vol, a->txn, ino, "", 0, name, buf, len);
}

/* --- names --- */

int work_find(struct actor *a, uint64_t dir, const char *name, uint64_t *ret_ino)
{
	struct stet_stat st;
	int rc = a->work->client
			 ? stet_statat(a->work->vol, a->txn, dir, name, STET_AT_NOFOLLOW, &st)
			 : stet_ll_lookup(a->work->vol, a->txn, dir, name, a->flags, &st);

	if (!rc)
		*ret_ino = st.ino;
	return rc;
}

static int make_file(struct actor *a, uint64_t dir, const char *name, uint64_t *ret_ino)
{
	struct stet_file *file;
	struct stet_stat st;
	int rc = stet_openat(a->work->vol, a->txn, dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644,
			     &file);

	if (rc)
		return rc;
	rc = stet_file_stat(file, &st);
	stet_file_close(file);
	if (!rc)
		*ret_ino = st.ino;
	else if (a->txn)
		a->spoiled = true; /* it is there, and nobody knows which it is */
	return rc;
}

int work_make(struct actor *a, uint64_t dir, const char *name, bool is_dir, uint64_t *ret_ino)
{
	const struct stet_ll_new what = { .mode = is_dir ? S_IFDIR | 0755 : S_IFREG | 0644 };
	struct stet_stat st;
	int rc;

	if (!a->work->client) {
		rc = stet_ll_make(a->work->vol, a->txn, dir, name, &what, a->flags, &st);
		if (!rc)
			*ret_ino = st.ino;
		return rc;
	}
	if (!is_dir)
		return make_file(a, dir, name, ret_ino);
	rc = stet_mkdirat(a->work->vol, a->txn, dir, name, 0755);
	if (rc)
		return rc;
	rc = work_find(a, dir, name, ret_ino);
	if (rc && a->txn)
		a->spoiled = true;
	return rc;
}

int work_remove(struct actor *a, uint64_t dir, const char *name, bool is_dir, uint64_t *ret_ino)
{
	int rc;

	if (!a->work->client)
		return is_dir ? stet_ll_rmdir(a->work->vol, a->txn, dir, name, a->flags, ret_ino)
			      : stet_ll_unlink(a->work->vol, a->txn, dir, name, a->flags, ret_ino);
	rc = work_find(a, dir, name, ret_ino);
	if (rc)
		return rc;
	return stet_unlinkat(a->work->vol, a->txn, dir, name, is_dir ? STET_AT_REMOVEDIR : 0);
}

int work_rename(struct actor *a, uint64_t from_dir, const char *from, uint64_t to_dir,
		const char *to, uint64_t there, uint64_t *ret_gone)
{
	int rc;

	if (!a->work->client)
		return stet_ll_rename(a->work->vol, a->txn, from_dir, from, to_dir, to, a->flags,
				      ret_gone);
	rc = stet_renameat(a->work->vol, a->txn, from_dir, from, to_dir, to, 0);
	if (!rc)
		*ret_gone = there;
	return rc;
}

int work_link(struct actor *a, uint64_t from_dir, const char *from, uint64_t ino, uint64_t to_dir,
	      const char *to)
{
	if (!a->work->client)
		return stet_ll_link(a->work->vol, a->txn, ino, to_dir, to, a->flags, NULL);
	return stet_linkat(a->work->vol, a->txn, from_dir, from, to_dir, to, 0);
}

int work_list(struct actor *a, uint64_t dir, struct stet_ll_entry *entries, int cap)
{
	struct stet_dir_entry e;
	struct stet_dir *listing;
	int n = 0, rc;

	if (!a->work->client)
		return stet_ll_readdir(a->work->vol, a->txn, dir, "", a->flags, entries,
				       (size_t)cap);
	rc = stet_dir_open(a->work->vol, a->txn, dir, "", NULL, &listing);
	if (rc)
		return rc;
	while (n < cap && (rc = stet_dir_next(listing, &e)) == 1) {
		entries[n].stat.ino = e.ino;
		memcpy(entries[n].name, e.name, sizeof(e.name));
		n++;
	}
	stet_dir_close(listing);
	return rc < 0 ? rc : n;
}
