/* name_ops.c - random operations on names in a small tree, so that several processes meet.
 *
 * Any name may be a file, a directory, a link or something special at any moment. So almost
 * everything may fail; but only in the ways that the table allows.
 */
#include "names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NAMES 7u
#define DEPTH 4u
#define FILE_SECTORS 64u

const char *const name_op_names[NAME_OP_COUNT] = {
#define O(name) #name,
	NAME_OPS(O)
#undef O
};

/* Beside ENOENT, ENOTDIR and ELOOP, which any path may meet, and EBUSY, which any change may. */
static const int allowed[NAME_OP_COUNT][6] = {
	[NAME_OP_create] = { EEXIST, EISDIR },
	[NAME_OP_open] = { EISDIR, ENXIO, EACCES },
	[NAME_OP_write] = { EISDIR, ENXIO, EACCES },
	[NAME_OP_truncate] = { EISDIR, EINVAL, EACCES },
	[NAME_OP_mkdir] = { EEXIST },
	[NAME_OP_mknod] = { EEXIST },
	[NAME_OP_symlink] = { EEXIST },
	[NAME_OP_link] = { EEXIST, EPERM },
	[NAME_OP_unlink] = { EISDIR },
	[NAME_OP_rmdir] = { ENOTEMPTY },
	[NAME_OP_rename] = { EEXIST, ENOTEMPTY, EISDIR, EINVAL },
	[NAME_OP_chmod] = { 0 },
	[NAME_OP_setxattr] = { EPERM, EEXIST },
	[NAME_OP_rmxattr] = { EPERM, ENODATA },
	[NAME_OP_stat] = { 0 },
	[NAME_OP_readdir] = { 0 },
};

static bool changes(enum name_op op)
{
	return op != NAME_OP_stat && op != NAME_OP_readdir;
}

static bool is_allowed(const struct name_worker *w, enum name_op op, int err)
{
	if (err == ENOENT || err == ENOTDIR || err == ELOOP)
		return true;
	if (err == EBUSY && (changes(op) || w->doomed))
		return true;
	/* The kernel itself, for a directory that a commit has moved, looked up at its new place while
	 * its old parent, where somebody still uses it, or a rename is in progress: it tries twice.
	 * It must be rare (names.c). */
	if (err == ESTALE && !w->in_txn)
		return true;
	if (err == EDEADLK && w->in_txn && changes(op))
		return true;
	for (size_t i = 0; i < 6; i++)
		if (err && allowed[op][i] == err)
			return true;
	return false;
}

/* What became of a call that returned rc. */
static void done(struct name_worker *w, enum name_op op, int rc, const char *path)
{
	int err = rc < 0 ? errno : 0;

	if (err && !is_allowed(w, op, err)) {
		errno = err;
		ex_fail_errno("%s %s%s", name_op_names[op], path,
			      w->in_txn ? " in a transaction" : "");
	}
	if (err == EBUSY || err == EDEADLK)
		w->doomed = w->in_txn;
	if (w->tally && err < ERRNO_MAX)
		w->tally->count[op][err]++;
}

static const char *any_path(struct name_worker *w, char *buf)
{
	unsigned depth = 1 + (unsigned)ex_below(&w->chance, DEPTH);
	int n = snprintf(buf, PATH_MAX, "%s", w->root);

	for (unsigned i = 0; i < depth; i++)
		n += snprintf(buf + n, PATH_MAX - (size_t)n, "/n%llu",
			      (unsigned long long)ex_below(&w->chance, NAMES));
	return buf;
}

static off_t any_sector(struct name_worker *w)
{
	return (off_t)(ex_below(&w->chance, FILE_SECTORS) * SECTOR);
}

/* --- files --- */

static int write_some(struct name_worker *w, int fd)
{
	uint8_t buf[8 * SECTOR];
	size_t count = 1 + ex_below(&w->chance, 8);

	for (size_t i = 0; i < count; i++)
		sector_make(buf + i * SECTOR, ex_random(&w->chance));
	if (ex_percent(&w->chance, 20) && fsync(fd) != 0)
		return -1;
	return (int)pwrite(fd, buf, count * SECTOR, any_sector(w));
}

static void do_create(struct name_worker *w)
{
	char path[PATH_MAX];
	int flags = O_WRONLY | O_CREAT | O_EXCL | (ex_percent(&w->chance, 20) ? O_APPEND : 0);
	int fd = open(any_path(w, path), flags, 0644);

	done(w, NAME_OP_create, fd, path);
	if (fd < 0)
		return;
	if (ex_percent(&w->chance, 60))
		done(w, NAME_OP_write, write_some(w, fd), path);
	close(fd);
}

static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static void do_open(struct name_worker *w)
{
	char path[PATH_MAX];
	uint8_t buf[4 * SECTOR];
	bool writes = ex_percent(&w->chance, 60);
	int flags = O_NONBLOCK | (writes ? O_RDWR : O_RDONLY);
	int fd;

	if (writes && ex_percent(&w->chance, 20))
		flags |= O_CREAT;
	if (writes && ex_percent(&w->chance, 10))
		flags |= O_TRUNC;
	fd = open(any_path(w, path), flags, 0644);
	done(w, NAME_OP_open, fd, path);
	if (fd < 0)
		return;
	if (is_regular(fd) && writes)
		done(w, NAME_OP_write, write_some(w, fd), path);
	else if (is_regular(fd))
		done(w, NAME_OP_open, (int)pread(fd, buf, sizeof(buf), any_sector(w)), path);
	close(fd);
}

static void do_truncate(struct name_worker *w)
{
	char path[PATH_MAX];

	done(w, NAME_OP_truncate, truncate(any_path(w, path), any_sector(w)), path);
}

/* --- names --- */

static void do_mkdir(struct name_worker *w)
{
	char path[PATH_MAX];

	done(w, NAME_OP_mkdir, mkdir(any_path(w, path), 0755), path);
}

static void do_mknod(struct name_worker *w)
{
	static const mode_t types[] = { S_IFIFO, S_IFSOCK, S_IFCHR, S_IFREG };
	mode_t type = types[ex_below(&w->chance, 4)];
	char path[PATH_MAX];

	done(w, NAME_OP_mknod, mknod(any_path(w, path), type | 0644, makedev(1, 3)), path);
}

static void do_symlink(struct name_worker *w)
{
	char path[PATH_MAX], target[64];

	/* Never "..": it must not lead out of the root. */
	snprintf(target, sizeof(target), "n%llu%s", (unsigned long long)ex_below(&w->chance, NAMES),
		 ex_percent(&w->chance, 50) ? "/n1" : "");
	done(w, NAME_OP_symlink, symlink(target, any_path(w, path)), path);
}

static void do_link(struct name_worker *w)
{
	char path[PATH_MAX], other[PATH_MAX];

	any_path(w, other);
	done(w, NAME_OP_link, link(other, any_path(w, path)), path);
}

static void do_unlink(struct name_worker *w)
{
	char path[PATH_MAX];

	done(w, NAME_OP_unlink, unlink(any_path(w, path)), path);
}

static void do_rmdir(struct name_worker *w)
{
	char path[PATH_MAX];

	done(w, NAME_OP_rmdir, rmdir(any_path(w, path)), path);
}

static void do_rename(struct name_worker *w)
{
	static const unsigned flags[] = { 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE };
	char path[PATH_MAX], other[PATH_MAX];

	any_path(w, other);
	done(w, NAME_OP_rename,
	     renameat2(AT_FDCWD, other, AT_FDCWD, any_path(w, path),
		       flags[ex_below(&w->chance, 4)]),
	     path);
}

/* --- attributes and looking --- */

static void do_chmod(struct name_worker *w)
{
	char path[PATH_MAX];

	done(w, NAME_OP_chmod, chmod(any_path(w, path), 0700 | (mode_t)ex_below(&w->chance, 0100)),
	     path);
}

static void do_setxattr(struct name_worker *w)
{
	static const char *const names[] = { "user.a", "user.b", "trusted.c" };
	char path[PATH_MAX], value[200];
	size_t len = ex_below(&w->chance, sizeof(value));

	ex_fill(value, ex_random(&w->chance), 0, len);
	done(w, NAME_OP_setxattr,
	     lsetxattr(any_path(w, path), names[ex_below(&w->chance, 3)], value, len,
		       ex_percent(&w->chance, 20) ? XATTR_CREATE : 0),
	     path);
}

static void do_rmxattr(struct name_worker *w)
{
	char path[PATH_MAX];

	done(w, NAME_OP_rmxattr, lremovexattr(any_path(w, path), "user.a"), path);
}

static void do_stat(struct name_worker *w)
{
	char path[PATH_MAX];
	struct stat st;

	done(w, NAME_OP_stat, lstat(any_path(w, path), &st), path);
}

static void do_readdir(struct name_worker *w)
{
	char path[PATH_MAX];
	DIR *dir = opendir(any_path(w, path));

	done(w, NAME_OP_readdir, dir ? 0 : -1, path);
	if (!dir)
		return;
	errno = 0;
	while (readdir(dir))
		;
	done(w, NAME_OP_readdir, errno ? -1 : 0, path);
	closedir(dir);
}

void name_step(struct name_worker *w)
{
	static const struct {
		void (*step)(struct name_worker *w);
		unsigned weight;
	} steps[] = {
		{ do_create, 12 }, { do_open, 14 },   { do_truncate, 4 }, { do_mkdir, 12 },
		{ do_mknod, 4 },   { do_symlink, 4 }, { do_link, 6 },     { do_unlink, 8 },
		{ do_rmdir, 5 },   { do_rename, 14 }, { do_chmod, 3 },    { do_setxattr, 4 },
		{ do_rmxattr, 2 }, { do_stat, 5 },    { do_readdir, 3 },
	};
	unsigned dice = (unsigned)ex_below(&w->chance, 100);

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (dice < steps[i].weight) {
			steps[i].step(w);
			return;
		}
		dice -= steps[i].weight;
	}
}
