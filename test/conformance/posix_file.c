/* posix_file.c - opening, and the content of files. */
#include "posix.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/falloc.h>
#include <linux/fs.h>

static const struct flag open_flags[] = {
	{ "rd", O_RDONLY },
	{ "wr", O_WRONLY },
	{ "rw", O_RDWR },
	{ "3", O_ACCMODE },
	{ "creat", O_CREAT },
	{ "excl", O_EXCL },
	{ "trunc", O_TRUNC },
	{ "append", O_APPEND },
	{ "nonblock", O_NONBLOCK },
	{ "sync", O_SYNC },
	{ "dsync", O_DSYNC },
	{ "direct", O_DIRECT },
	{ "directory", O_DIRECTORY },
	{ "nofollow", O_NOFOLLOW },
	{ "noatime", O_NOATIME },
	{ "path", O_PATH },
	{ "tmpfile", O_TMPFILE },
	{ "cloexec", O_CLOEXEC },
	{ 0 },
};

/* open SLOT PATH FLAGS [MODE] */
static void do_open(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);
	struct place at = posix_place(call, 1);
	int flags = (int)word_flags(call, 2, open_flags);
	mode_t mode = call->count > 3 ? word_octal(call, 3) : 0666;
	int fd;

	if (call->bad)
		return;
	fd = openat(at.dir, at.path, flags | O_CLOEXEC, mode);
	result_call(ret, fd);
	if (fd >= 0) {
		posix_set_fd(slot, fd);
		ret->value = 0;
	}
}

static void do_close(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);

	result_call(ret, close(posix_fd(call, 0)));
	posix_set_fd(slot, -1);
}

/* dup SLOT TO-SLOT */
static void do_dup(struct call *call, struct result *ret)
{
	int fd = dup(posix_fd(call, 0));

	result_call(ret, fd);
	if (fd >= 0) {
		posix_set_fd(word_slot(call, 1), fd);
		ret->value = 0;
	}
}

/* getfl SLOT FLAGS: are these status flags set? */
static void do_getfl(struct call *call, struct result *ret)
{
	int flags = fcntl(posix_fd(call, 0), F_GETFL);
	int64_t wanted = word_flags(call, 1, open_flags);

	result_call(ret, flags < 0 ? -1 : (flags & wanted) == wanted);
}

/* setfl SLOT FLAGS */
static void do_setfl(struct call *call, struct result *ret)
{
	result_call(ret, fcntl(posix_fd(call, 0), F_SETFL, (int)word_flags(call, 1, open_flags)));
}

/* put PATH [DATA] [MODE]: a file with this content. */
static void do_put(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);
	mode_t mode = call->count > 2 ? word_octal(call, 2) : 0644;
	int fd = openat(at.dir, at.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	result_call(ret, fd);
	if (fd < 0)
		return;
	ret->value = 0;
	if (call->count > 1)
		result_call(ret, write(fd, call->words[1].bytes, call->words[1].len));
	close(fd);
}

static size_t length(struct call *call, size_t n)
{
	int64_t len = word_number(call, n);

	if (len < 0 || len > BUFFER_BYTES)
		call->bad = "too long";
	return call->bad ? 0 : (size_t)len;
}

static void result_read(struct result *ret, ssize_t n)
{
	if (n < 0)
		result_call(ret, n);
	else
		result_text(ret, posix_buffer, (size_t)n);
}

static void do_read(struct call *call, struct result *ret)
{
	result_read(ret, read(posix_fd(call, 0), posix_buffer, length(call, 1)));
}

/* pread SLOT OFFSET LENGTH */
static void do_pread(struct call *call, struct result *ret)
{
	result_read(ret,
		    pread(posix_fd(call, 0), posix_buffer, length(call, 2), word_number(call, 1)));
}

/* Data words go through the aligned buffer: O_DIRECT wants that. */
static const char *data(struct call *call, size_t n, size_t *ret_len)
{
	*ret_len = 0;
	if (n >= call->count || call->words[n].len > BUFFER_BYTES) {
		call->bad = "no data";
		return posix_buffer;
	}
	memcpy(posix_buffer, call->words[n].bytes, call->words[n].len);
	*ret_len = call->words[n].len;
	return posix_buffer;
}

static void do_write(struct call *call, struct result *ret)
{
	size_t len;
	const char *buf = data(call, 1, &len);

	result_call(ret, write(posix_fd(call, 0), buf, len));
}

/* pwrite SLOT OFFSET DATA */
static void do_pwrite(struct call *call, struct result *ret)
{
	size_t len;
	const char *buf = data(call, 2, &len);

	result_call(ret, pwrite(posix_fd(call, 0), buf, len, word_number(call, 1)));
}

/* misaligned SLOT OFFSET LENGTH: pwrite from an address that is not aligned. */
static void do_misaligned(struct call *call, struct result *ret)
{
	result_call(ret, pwrite(posix_fd(call, 0), posix_buffer + 1, length(call, 2),
				word_number(call, 1)));
}

static const struct flag rwf_flags[] = {
	{ "-", 0 },
	{ "append", RWF_APPEND },
	{ "dsync", RWF_DSYNC },
	{ "sync", RWF_SYNC },
	{ "nowait", RWF_NOWAIT },
	{ "hipri", RWF_HIPRI },
	{ 0 },
};

/* pwritev2 SLOT OFFSET FLAGS DATA...; offset -1: the file's own */
static void do_pwritev2(struct call *call, struct result *ret)
{
	struct iovec iov[WORDS_MAX];
	int count = 0;

	for (size_t i = 3; i < call->count; i++, count++)
		iov[count] = (struct iovec){ call->words[i].bytes, call->words[i].len };
	result_call(ret, pwritev2(posix_fd(call, 0), iov, count, word_number(call, 1),
				  (int)word_flags(call, 2, rwf_flags)));
}

/* preadv SLOT OFFSET LENGTH... */
static void do_preadv(struct call *call, struct result *ret)
{
	struct iovec iov[WORDS_MAX];
	char *at = posix_buffer;
	int count = 0;

	for (size_t i = 2; i < call->count; i++, count++) {
		iov[count] = (struct iovec){ at, length(call, i) };
		at += iov[count].iov_len;
	}
	result_read(ret, preadv(posix_fd(call, 0), iov, count, word_number(call, 1)));
}

static void do_writev(struct call *call, struct result *ret)
{
	struct iovec iov[WORDS_MAX];
	int count = 0;

	for (size_t i = 1; i < call->count; i++, count++)
		iov[count] = (struct iovec){ call->words[i].bytes, call->words[i].len };
	result_call(ret, writev(posix_fd(call, 0), iov, count));
}

static const struct flag whences[] = {
	{ "set", SEEK_SET },
	{ "cur", SEEK_CUR },
	{ "end", SEEK_END },
	{ "data", SEEK_DATA },
	{ "hole", SEEK_HOLE },
	{ "bad", 99 },
	{ 0 },
};

/* seek SLOT OFFSET WHENCE */
static void do_seek(struct call *call, struct result *ret)
{
	result_call(ret, lseek(posix_fd(call, 0), word_number(call, 1),
			       (int)word_flags(call, 2, whences)));
}

static void do_ftruncate(struct call *call, struct result *ret)
{
	result_call(ret, ftruncate(posix_fd(call, 0), word_number(call, 1)));
}

static void do_truncate(struct call *call, struct result *ret)
{
	result_call(ret, truncate(posix_place(call, 0).path, word_number(call, 1)));
}

static const struct flag fallocate_modes[] = {
	{ "-", 0 },
	{ "keep", FALLOC_FL_KEEP_SIZE },
	{ "punch", FALLOC_FL_PUNCH_HOLE },
	{ "zero", FALLOC_FL_ZERO_RANGE },
	{ "collapse", FALLOC_FL_COLLAPSE_RANGE },
	{ "insert", FALLOC_FL_INSERT_RANGE },
	{ "unshare", FALLOC_FL_UNSHARE_RANGE },
	{ "bad", 0x4000 },
	{ 0 },
};

/* fallocate SLOT MODE OFFSET LENGTH */
static void do_fallocate(struct call *call, struct result *ret)
{
	result_call(ret, fallocate(posix_fd(call, 0), (int)word_flags(call, 1, fallocate_modes),
				   word_number(call, 2), word_number(call, 3)));
}

/* An offset that may be "-": the file's own. */
static off_t *offset(struct call *call, size_t n, off_t *room)
{
	if (word_is(call, n, "-"))
		return NULL;
	*room = word_number(call, n);
	return room;
}

/* copy FROM OFFSET TO OFFSET LENGTH [FLAGS] */
static void do_copy(struct call *call, struct result *ret)
{
	off_t from, to;

	result_call(ret,
		    copy_file_range(posix_fd(call, 0), offset(call, 1, &from), posix_fd(call, 2),
				    offset(call, 3, &to), (size_t)word_number(call, 4),
				    call->count > 5 ? (unsigned)word_number(call, 5) : 0));
}

/* sendfile OUT IN OFFSET LENGTH */
static void do_sendfile(struct call *call, struct result *ret)
{
	off_t from;

	result_call(ret, sendfile(posix_fd(call, 0), posix_fd(call, 1), offset(call, 2, &from),
				  (size_t)word_number(call, 3)));
}

/* splice IN OFFSET OUT OFFSET LENGTH, through a pipe */
static void do_splice(struct call *call, struct result *ret)
{
	off_t from, to;
	ssize_t n;
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) != 0) {
		result_call(ret, -1);
		return;
	}
	n = splice(posix_fd(call, 0), offset(call, 1, &from), fd[1], NULL,
		   (size_t)word_number(call, 4), 0);
	if (n > 0)
		n = splice(fd[0], NULL, posix_fd(call, 2), offset(call, 3, &to), (size_t)n, 0);
	result_call(ret, n);
	close(fd[0]);
	close(fd[1]);
}

static const struct flag sync_kinds[] = {
	{ "all", 0 }, { "data", 1 }, { "fs", 2 }, { "range", 3 }, { 0 },
};

/* fsync SLOT [all|data|fs|range] */
static void do_fsync(struct call *call, struct result *ret)
{
	int fd = posix_fd(call, 0);
	int64_t kind = call->count > 1 ? word_flags(call, 1, sync_kinds) : 0;

	if (kind == 3)
		result_call(ret, sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
	else if (kind == 2)
		result_call(ret, syncfs(fd));
	else
		result_call(ret, kind ? fdatasync(fd) : fsync(fd));
}

/* clone TO FROM: FICLONE */
static void do_clone(struct call *call, struct result *ret)
{
	result_call(ret, ioctl(posix_fd(call, 0), FICLONE, posix_fd(call, 1)));
}

static const struct flag advices[] = {
	{ "normal", POSIX_FADV_NORMAL },
	{ "dontneed", POSIX_FADV_DONTNEED },
	{ "willneed", POSIX_FADV_WILLNEED },
	{ "sequential", POSIX_FADV_SEQUENTIAL },
	{ 0 },
};

/* fadvise SLOT OFFSET LENGTH ADVICE; it returns what others leave in errno */
static void do_fadvise(struct call *call, struct result *ret)
{
	result_error(ret, posix_fadvise(posix_fd(call, 0), word_number(call, 1),
					word_number(call, 2), (int)word_flags(call, 3, advices)));
}

/* text PATH: its content */
static void do_text(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);
	int fd = openat(at.dir, at.path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n = 0;

	if (fd < 0) {
		result_call(ret, -1);
		return;
	}
	while (used < BUFFER_BYTES && (n = read(fd, posix_buffer + used, BUFFER_BYTES - used)) > 0)
		used += (size_t)n;
	if (n < 0)
		result_call(ret, n);
	else
		result_text(ret, posix_buffer, used);
	close(fd);
}

const struct command posix_file_commands[] = {
	{ "open", 3, 4, do_open, NULL },
	{ "close", 1, 1, do_close, NULL },
	{ "dup", 2, 2, do_dup, NULL },
	{ "getfl", 2, 2, do_getfl, NULL },
	{ "setfl", 2, 2, do_setfl, NULL },
	{ "put", 1, 3, do_put, NULL },
	{ "read", 2, 2, do_read, NULL },
	{ "pread", 3, 3, do_pread, NULL },
	{ "write", 2, 2, do_write, NULL },
	{ "pwrite", 3, 3, do_pwrite, NULL },
	{ "misaligned", 3, 3, do_misaligned, NULL },
	{ "pwritev2", 3, WORDS_MAX, do_pwritev2, NULL },
	{ "preadv", 3, WORDS_MAX, do_preadv, NULL },
	{ "writev", 1, WORDS_MAX, do_writev, NULL },
	{ "seek", 3, 3, do_seek, NULL },
	{ "ftruncate", 2, 2, do_ftruncate, NULL },
	{ "truncate", 2, 2, do_truncate, NULL },
	{ "fallocate", 4, 4, do_fallocate, NULL },
	{ "copy", 5, 6, do_copy, NULL },
	{ "sendfile", 4, 4, do_sendfile, NULL },
	{ "splice", 5, 5, do_splice, NULL },
	{ "fsync", 1, 2, do_fsync, NULL },
	{ "clone", 2, 2, do_clone, NULL },
	{ "fadvise", 4, 4, do_fadvise, NULL },
	{ "text", 1, 1, do_text, NULL },
	{ 0 },
};
