/* posix_name.c - making, moving and removing names. */
#include "posix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

/* mkdir PATH [MODE] */
static void do_mkdir(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);

	result_call(ret, mkdirat(at.dir, at.path, call->count > 1 ? word_octal(call, 1) : 0755));
}

static void do_rmdir(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);

	result_call(ret, unlinkat(at.dir, at.path, AT_REMOVEDIR));
}

static void do_unlink(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);

	result_call(ret, unlinkat(at.dir, at.path, 0));
}

static const struct flag types[] = {
	{ "reg", S_IFREG },   { "fifo", S_IFIFO },
	{ "sock", S_IFSOCK }, { "chr", S_IFCHR },
	{ "blk", S_IFBLK },   { "dir", S_IFDIR },
	{ "lnk", S_IFLNK },   { "none", 0 },
	{ "bad", S_IFMT },    { 0 },
};

/* mknod PATH TYPE [MODE] [MAJOR MINOR] */
static void do_mknod(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);
	mode_t mode = call->count > 2 ? word_octal(call, 2) : 0644;
	dev_t dev = call->count > 4 ? makedev((unsigned)word_number(call, 3),
					      (unsigned)word_number(call, 4))
				    : 0;

	result_call(ret, mknodat(at.dir, at.path, mode | (mode_t)word_flags(call, 1, types), dev));
}

/* mkfifo PATH [MODE] */
static void do_mkfifo(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);

	result_call(ret, mkfifoat(at.dir, at.path, call->count > 1 ? word_octal(call, 1) : 0644));
}

/* bind PATH: a socket */
static void do_bind(struct call *call, struct result *ret)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = word_text(call, 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	result_call(ret, fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof(address)));
	if (fd >= 0)
		close(fd);
}

/* symlink TARGET PATH */
static void do_symlink(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 1);

	result_call(ret, symlinkat(word_text(call, 0), at.dir, at.path));
}

/* readlink PATH [CAP] */
static void do_readlink(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);
	size_t cap = call->count > 1 ? (size_t)word_number(call, 1) : PATH_MAX;
	ssize_t n = readlinkat(at.dir, at.path, posix_buffer, cap);

	if (n < 0)
		result_call(ret, n);
	else
		result_text(ret, posix_buffer, (size_t)n);
}

static const struct flag link_flags[] = {
	{ "-", 0 }, { "follow", AT_SYMLINK_FOLLOW }, { "empty", AT_EMPTY_PATH }, { "bad", 0x8000 },
	{ 0 },
};

/* link FROM TO [FLAGS] */
static void do_link(struct call *call, struct result *ret)
{
	struct place from = posix_place(call, 0);
	struct place to = posix_place(call, 1);
	int flags = call->count > 2 ? (int)word_flags(call, 2, link_flags) : 0;

	result_call(ret, linkat(from.dir, from.path, to.dir, to.path, flags));
}

static const struct flag rename_flags[] = {
	{ "-", 0 },
	{ "noreplace", RENAME_NOREPLACE },
	{ "exchange", RENAME_EXCHANGE },
	{ "whiteout", RENAME_WHITEOUT },
	{ "bad", 0x80 },
	{ 0 },
};

/* rename FROM TO [FLAGS] */
static void do_rename(struct call *call, struct result *ret)
{
	struct place from = posix_place(call, 0);
	struct place to = posix_place(call, 1);
	unsigned flags = call->count > 2 ? (unsigned)word_flags(call, 2, rename_flags) : 0;

	result_call(ret, renameat2(from.dir, from.path, to.dir, to.path, flags));
}

static void do_chdir(struct call *call, struct result *ret)
{
	result_call(ret, chdir(word_text(call, 0)));
}

static void do_fchdir(struct call *call, struct result *ret)
{
	result_call(ret, fchdir(posix_fd(call, 0)));
}

/* cwd: the working directory, below the row's */
static void do_cwd(struct call *call, struct result *ret)
{
	const char *row = call->backend->row_dir();
	char path[PATH_MAX];

	if (!getcwd(path, sizeof(path)))
		result_call(ret, -1);
	else if (strncmp(path, row, strlen(row)) == 0)
		result_text(ret, path + strlen(row), strlen(path + strlen(row)));
	else
		result_text(ret, path, strlen(path));
}

/* missing PATH: there is no such name */
static void do_missing(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);
	struct stat st;

	if (fstatat(at.dir, at.path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		result_failed(ret, "%s is there", at.path);
	else if (errno != ENOENT)
		result_call(ret, -1);
}

const struct command posix_name_commands[] = {
	{ "mkdir", 1, 2, do_mkdir, NULL },
	{ "rmdir", 1, 1, do_rmdir, NULL },
	{ "unlink", 1, 1, do_unlink, NULL },
	{ "mknod", 2, 5, do_mknod, NULL },
	{ "mkfifo", 1, 2, do_mkfifo, NULL },
	{ "bind", 1, 1, do_bind, NULL },
	{ "symlink", 2, 2, do_symlink, NULL },
	{ "readlink", 1, 2, do_readlink, NULL },
	{ "link", 2, 3, do_link, NULL },
	{ "rename", 2, 3, do_rename, NULL },
	{ "chdir", 1, 1, do_chdir, NULL },
	{ "fchdir", 1, 1, do_fchdir, NULL },
	{ "cwd", 0, 0, do_cwd, NULL },
	{ "missing", 1, 1, do_missing, NULL },
	{ 0 },
};
