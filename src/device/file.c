/* file.c - a device that is an image file or a block device of the host.
 *
 * I1. What was opened is judged by its descriptor, not by its path, and nothing here waits for a
 *     FIFO's other end.
 * I2. From open to close the descriptor holds a lock that excludes writers from everybody else: an
 *     open-file-description lock (which other opens of this process respect, too), and O_EXCL for
 *     a block device, which also excludes mounts.
 * I3. A file is removed after a failed open only if that open made it and holds its lock.
 * I4. Whatever the host says about a read, write or flush, callers get -EIO, or -ENOSPC from a
 *     write to a full host; so an -EUCLEAN of the host is never taken for one of ours. The text
 *     has the cause.
 *
 * A crash during creation leaves no file, or an empty or sized file of zeros.
 */
#include "device/device.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/text.h"
#include "device/device_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Buffers handed to the kernel in one call; the smallest limit of the systems we run on. */
#define IOV_BATCH 256

/* The kernel moves at most 0x7ffff000 bytes in one call; we stay at a round number below. */
#define MAX_CALL_BYTES ((size_t)1 << 30)

/* How often open tries again when the file comes and goes under its hands. */
#define OPEN_TRIES 8

struct file_device {
	struct stet_device dev;
	/* --- set at open, then constant --- */
	int fd;
	bool is_block;
	/* --- atomic --- */
	atomic_bool size_changed; /* since the last good flush: fdatasync might not be enough */
};

static struct file_device *file_of(struct stet_device *dev)
{
	return stet_container_of(dev, struct file_device, dev);
}

/* I4. cause is an errno value. */
static int host_failed(int cause)
{
	return cause == ENOSPC || cause == EDQUOT || cause == EFBIG ? -ENOSPC : -EIO;
}

/// I/O ///

static int file_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	uint8_t *to = buf;

	while (len_bytes) {
		size_t want = len_bytes < MAX_CALL_BYTES ? len_bytes : MAX_CALL_BYTES;
		ssize_t got = pread(file_of(dev)->fd, to, want, (off_t)off_bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return STET_FAIL(-EIO, "%s: read of %zu bytes at %" PRIu64 ": %s",
					 dev->name, want, off_bytes, strerror(errno));
		if (got == 0)
			return STET_FAIL(-EIO,
					 "%s: read at %" PRIu64 ": the file has become shorter",
					 dev->name, off_bytes);
		to += got;
		off_bytes += (uint64_t)got;
		len_bytes -= (size_t)got;
	}
	return 0;
}

/* A position in a list of buffers. */
struct iov_cursor {
	const struct iovec *iov; /* borrowed */
	int left;                /* items from iov on */
	size_t skip_bytes;       /* of the first one */
};

/* Steps over buffers that are used up, empty ones too. */
static void skip_done(struct iov_cursor *cursor)
{
	while (cursor->left && cursor->skip_bytes == cursor->iov->iov_len) {
		cursor->iov++;
		cursor->left--;
		cursor->skip_bytes = 0;
	}
}

static void advance(struct iov_cursor *cursor, size_t n_bytes)
{
	skip_done(cursor);
	while (n_bytes) {
		size_t here = cursor->iov->iov_len - cursor->skip_bytes;
		size_t n = n_bytes < here ? n_bytes : here;

		cursor->skip_bytes += n;
		n_bytes -= n;
		skip_done(cursor);
	}
}

/* Fills batch with what comes next, bounded in items and bytes; returns the number of items. */
static int next_batch(struct iov_cursor cursor, struct iovec batch[IOV_BATCH])
{
	size_t room = MAX_CALL_BYTES;
	int n = 0;

	for (skip_done(&cursor); cursor.left && n < IOV_BATCH && room; n++) {
		size_t here = cursor.iov->iov_len - cursor.skip_bytes;

		batch[n].iov_base = (uint8_t *)cursor.iov->iov_base + cursor.skip_bytes;
		batch[n].iov_len = here < room ? here : room;
		room -= batch[n].iov_len;
		advance(&cursor, batch[n].iov_len);
	}
	return n;
}

static int file_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
		       int iov_count)
{
	struct iov_cursor cursor = { .iov = iov, .left = iov_count };
	struct iovec batch[IOV_BATCH];
	int n;

	while ((n = next_batch(cursor, batch)) > 0) {
		ssize_t done = pwritev(file_of(dev)->fd, batch, n, (off_t)off_bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return STET_FAIL(host_failed(errno), "%s: write at %" PRIu64 ": %s",
					 dev->name, off_bytes, strerror(errno));
		if (done == 0)
			return STET_FAIL(-EIO, "%s: write at %" PRIu64 " does nothing", dev->name,
					 off_bytes);
		advance(&cursor, (size_t)done);
		off_bytes += (uint64_t)done;
	}
	return 0;
}

static int file_flush(struct stet_device *dev)
{
	struct file_device *file = file_of(dev);
	bool whole = atomic_exchange(&file->size_changed, false);
	int rc;

	do {
		rc = whole ? fsync(file->fd) : fdatasync(file->fd);
	} while (rc < 0 && errno == EINTR);
	if (!rc)
		return 0;
	rc = STET_FAIL(-EIO, "%s: flush: %s", dev->name, strerror(errno));
	if (whole)
		atomic_store(&file->size_changed, true);
	return rc;
}

/* Discards whole sectors inside the range only; BLKDISCARD takes no others. */
static int discard_block(struct file_device *file, uint64_t off_bytes, uint64_t len_bytes)
{
	int sector_bytes = 0;
	uint64_t mask;
	uint64_t range[2];

	if (ioctl(file->fd, BLKSSZGET, &sector_bytes) < 0 || sector_bytes <= 0)
		return -1;
	mask = (uint64_t)sector_bytes - 1;
	range[0] = (off_bytes + mask) & ~mask;
	range[1] = (off_bytes + len_bytes) & ~mask;
	if (range[1] <= range[0])
		return 0;
	range[1] -= range[0];
	return ioctl(file->fd, BLKDISCARD, range);
}

static int file_discard(struct stet_device *dev, uint64_t off_bytes, uint64_t len_bytes)
{
	struct file_device *file = file_of(dev);
	int rc;

	do {
		if (file->is_block)
			rc = discard_block(file, off_bytes, len_bytes);
		else
			rc = fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				       (off_t)off_bytes, (off_t)len_bytes);
	} while (rc < 0 && errno == EINTR);
	if (!rc || errno == EOPNOTSUPP || errno == ENOSYS || errno == ENOTTY)
		return 0;
	return STET_FAIL(-EIO, "%s: discard of %" PRIu64 " bytes at %" PRIu64 ": %s", dev->name,
			 len_bytes, off_bytes, strerror(errno));
}

static int set_size(struct file_device *file, const char *name, uint64_t size_bytes)
{
	int rc;

	if (size_bytes > INT64_MAX)
		return STET_FAIL(-EINVAL, "%s: size %" PRIu64 " is too large", name, size_bytes);
	do {
		rc = ftruncate(file->fd, (off_t)size_bytes);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return STET_FAIL(host_failed(errno), "%s: set size to %" PRIu64 ": %s", name,
				 size_bytes, strerror(errno));
	atomic_store(&file->size_changed, true);
	return 0;
}

static int file_resize(struct stet_device *dev, uint64_t size_bytes)
{
	struct file_device *file = file_of(dev);
	int rc;

	if (file->is_block)
		return STET_FAIL(-EOPNOTSUPP, "%s: the size of a block device cannot be changed",
				 dev->name);
	rc = set_size(file, dev->name, size_bytes);
	if (!rc)
		dev->size_bytes = size_bytes;
	return rc;
}

static void file_close(struct stet_device *dev)
{
	struct file_device *file = file_of(dev);

	close(file->fd); /* the locks go with it; nothing unflushed is promised */
	stet_device_release(dev);
	stet_free(file);
}

static const struct stet_device_ops file_ops = {
	.read = file_read,
	.writev = file_writev,
	.flush = file_flush,
	.discard = file_discard,
	.resize = file_resize,
	.close = file_close,
};

/// Opening ///

/* Whoever had it may have let go while he was looked for: then nobody is found, and it is tried once
 * more. */
static int busy(const char *path, const struct stat *st, bool *ret_found)
{
	struct stet_text who;
	int rc;

	stet_text_init(&who);
	*ret_found = stet_device_find_holder_(st, &who);
	if (!*ret_found)
		stet_text_puts(&who, "in use by another process");
	rc = STET_FAIL(-EBUSY, "%s: %s", path, stet_text_cstr(&who));
	stet_text_release(&who);
	return rc;
}

static int open_failed(const char *path, int cause)
{
	struct stat st;
	bool found;

	if (cause == EBUSY && stat(path, &st) == 0)
		return busy(path, &st, &found);
	if (cause == EUCLEAN) /* I4 */
		return STET_FAIL(-EIO, "%s: open: %s", path, strerror(cause));
	return STET_FAIL(-cause, "%s: open: %s", path, strerror(cause));
}

/* -1 with errno when it fails. */
static int open_retry(const char *path, int flags, mode_t mode)
{
	int fd;

	do {
		fd = open(path, flags, mode);
	} while (fd < 0 && errno == EINTR);
	return fd;
}

/* O_EXCL, if the path leads to a block device that we want to change; a hint, checked later. */
static int exclusive_flag(const char *path, unsigned int flags)
{
	struct stat st;

	if (flags & STET_DEVICE_READ_ONLY || stat(path, &st) < 0)
		return 0;
	return S_ISBLK(st.st_mode) ? O_EXCL : 0;
}

/* Opens the path, making a file if that is wanted; *created tells which. */
static int open_path(const char *path, unsigned int flags, int *ret_fd, bool *created,
		     bool *exclusive)
{
	/* O_NONBLOCK: opening a FIFO must not wait for its other end (I1). */
	int common = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

	for (int try = 0; try < OPEN_TRIES; try++) {
		if (flags & STET_DEVICE_CREATE) {
			*ret_fd = open_retry(path, common | O_RDWR | O_CREAT | O_EXCL, 0666);
			*created = *ret_fd >= 0;
			if (*created)
				return 0;
			if (errno != EEXIST || flags & STET_DEVICE_EXCL)
				return open_failed(path, errno);
		}
		int excl = exclusive_flag(path, flags);
		int mode = flags & STET_DEVICE_READ_ONLY ? O_RDONLY : O_RDWR;

		*exclusive = excl != 0;
		*ret_fd = open_retry(path, common | mode | excl, 0);
		if (*ret_fd >= 0)
			return 0;
		if (errno != ENOENT || !(flags & STET_DEVICE_CREATE))
			return open_failed(path, errno);
	}
	return open_failed(path, ENOENT); /* comes and goes, or a link to nothing */
}

/* I1: decides on the descriptor what it is. */
static int check_kind(struct file_device *file, const char *path, const struct stat *st,
		      bool read_only, bool exclusive)
{
	file->is_block = S_ISBLK(st->st_mode);
	if (file->is_block && !read_only && !exclusive)
		return STET_FAIL(-EBUSY, "%s: was replaced while it was opened", path);
	if (file->is_block || S_ISREG(st->st_mode))
		return 0;
	if (S_ISDIR(st->st_mode))
		return STET_FAIL(-EISDIR, "%s: is a directory", path);
	return STET_FAIL(-EINVAL, "%s: neither a regular file nor a block device", path);
}

/* I2. */
static int take_lock(struct file_device *file, const char *path, const struct stat *st,
		     bool read_only)
{
	struct flock want = { .l_type = read_only ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };
	bool found = false;
	int rc = 0;

	for (int tries = 0; tries < 2 && !found; tries++) {
		int done;

		do {
			done = fcntl(file->fd, F_OFD_SETLK, &want);
		} while (done < 0 && errno == EINTR);
		if (!done)
			return 0;
		if (errno != EAGAIN && errno != EACCES)
			return STET_FAIL(-errno, "%s: lock: %s", path, strerror(errno));
		rc = busy(path, st, &found);
	}
	return rc;
}

static int find_size(struct file_device *file, const char *path, uint64_t *ret_bytes)
{
	struct stat st;

	if (file->is_block) {
		if (ioctl(file->fd, BLKGETSIZE64, ret_bytes) < 0)
			return STET_FAIL(-EIO, "%s: size: %s", path, strerror(errno));
		return 0;
	}
	/* Again, now that nobody else can change it. */
	if (fstat(file->fd, &st) < 0)
		return STET_FAIL(-EIO, "%s: stat: %s", path, strerror(errno));
	*ret_bytes = (uint64_t)st.st_size;
	return 0;
}

/* Makes the new name durable. A directory that cannot be opened or synced as such is let be. */
static int sync_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir = stet_strdup(slash ? path : ".");
	int fd;
	int rc = 0;

	if (!dir)
		return STET_FAIL(-ENOMEM, "%s: no memory", path);
	if (slash)
		dir[slash == path ? 1 : slash - path] = '\0';
	fd = open_retry(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	stet_free(dir);
	if (fd < 0)
		return 0;
	if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
		rc = STET_FAIL(-EIO, "%s: flush of its directory: %s", path, strerror(errno));
	close(fd);
	return rc;
}

/* What comes after the lock: the size, and the rest of creation. */
static int finish_open(struct file_device *file, const char *path, unsigned int flags,
		       uint64_t create_size_bytes, bool created)
{
	uint64_t size_bytes;
	int rc = find_size(file, path, &size_bytes);

	if (rc)
		return rc;
	if (flags & STET_DEVICE_CREATE && !file->is_block && size_bytes == 0) {
		rc = set_size(file, path, create_size_bytes);
		size_bytes = create_size_bytes;
	}
	if (!rc && created)
		rc = sync_parent(path);
	if (rc)
		return rc;
	return stet_device_init(&file->dev, &file_ops, size_bytes, flags & STET_DEVICE_READ_ONLY,
				path);
}

/* Fills file, whose fd is open. */
static int set_up(struct file_device *file, const char *path, unsigned int flags,
		  uint64_t create_size_bytes, bool created, bool exclusive)
{
	bool read_only = flags & STET_DEVICE_READ_ONLY;
	struct stat st;
	int rc;

	if (fstat(file->fd, &st) < 0)
		return STET_FAIL(-EIO, "%s: stat: %s", path, strerror(errno));
	rc = check_kind(file, path, &st, read_only, exclusive);
	if (!rc)
		rc = take_lock(file, path, &st, read_only);
	if (rc)
		return rc;
	rc = finish_open(file, path, flags, create_size_bytes, created);
	if (rc && created)
		unlink(path); /* I3 */
	return rc;
}

int stet_device_open_file(const char *path, unsigned int flags, uint64_t create_size_bytes,
			  struct stet_device **ret)
{
	const unsigned int known = STET_DEVICE_READ_ONLY | STET_DEVICE_CREATE | STET_DEVICE_EXCL;
	struct file_device *file;
	bool created = false;
	bool exclusive = false;
	int rc;

	if (flags & ~known || (flags & STET_DEVICE_READ_ONLY && flags & STET_DEVICE_CREATE))
		return STET_FAIL(-EINVAL, "%s: open flags %#x", path, flags);
	file = stet_calloc(1, sizeof(*file));
	if (!file)
		return STET_FAIL(-ENOMEM, "%s: no memory", path);
	rc = open_path(path, flags, &file->fd, &created, &exclusive);
	if (rc) {
		stet_free(file);
		return rc;
	}
	rc = set_up(file, path, flags, create_size_bytes, created, exclusive);
	if (rc) {
		close(file->fd);
		stet_free(file);
		return rc;
	}
	*ret = &file->dev;
	return 0;
}
