/* file.c - open files.
 *
 * F1. A file holds its inode, so that it lives on when its last name goes, and refers to its
 *     transaction, which it may outlive: calls then give -ESTALE.
 * F2. A file has no position and no other state that changes, so its calls need no lock of its own.
 */
#include "api/api_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#define KNOWN_OPEN \
	(O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_LARGEFILE)

struct stet_file {
	struct stet_handle head;
	struct stet_volume *vol;
	struct stet_tx *tx; /* NULL: plain */
	uint64_t ino;
	bool readable, writable, append;
};

/* --- opening --- */

struct opening {
	struct stet_api_opening by;
	struct stet_file *file;
};

static int check_type(struct stet_api_op *op, struct stet_api_place *place)
{
	uint32_t type;

	if (place->type == DT_UNKNOWN) {
		int rc = stet_fs_get_type(&op->ctx, place->ino, &type);

		if (rc)
			return rc;
		place->type = (uint8_t)IFTODT(type);
	}
	if (place->type == DT_LNK)
		return -ELOOP;
	if (place->type == DT_DIR)
		return -EISDIR;
	if (place->must_be_dir)
		return -ENOTDIR;
	return place->type == DT_REG ? 0 : -ENXIO;
}

static unsigned wanted(const struct opening *o)
{
	return (o->file->readable ? STET_API_MAY_READ : 0) |
	       (o->file->writable ? STET_API_MAY_WRITE : 0);
}

static int use_existing(struct stet_api_op *op, const struct opening *o,
			struct stet_api_place *place)
{
	int rc = check_type(op, place);

	if (!rc)
		rc = stet_api_permit_(op, place->ino, wanted(o));
	if (rc || !(o->by.flags & O_TRUNC) || !o->file->writable)
		return rc;
	rc = stet_api_data_gate_(op, place->ino, false);
	if (!rc)
		rc = stet_api_note_dirty_(op, place->ino, 0);
	if (!rc)
		rc = stet_api_drop_set_ids_(op, place->ino);
	return rc ? rc : stet_fs_truncate(&op->ctx, place->ino, 0);
}

static int open_at(struct stet_api_op *op, void *arg)
{
	struct opening *o = arg;
	struct stet_api_place place;
	bool made;
	int rc = stet_api_find_or_make_(op, &o->by, &place, &made);

	if (!rc && !made)
		rc = use_existing(op, o, &place);
	if (rc)
		return rc;
	o->file->ino = place.ino;
	return stet_api_hold_(op, place.ino);
}

/* Under the same hold of the lock, so the transaction cannot end in between. */
static int opened(struct stet_api_op *op, void *arg)
{
	struct opening *o = arg;

	o->file->tx = stet_api_tx_get_(op->tx);
	op->vol->handles++;
	return 0;
}

int stet_openat(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		int flags, mode_t mode, struct stet_file **ret_file)
{
	int access = flags & O_ACCMODE;
	struct opening o = { .by = { .dir = dir,
				     .path = path,
				     .flags = flags,
				     .mode = S_IFREG | (mode & 07777),
				     .if_slash = -EISDIR } };
	bool changes = flags & (O_CREAT | O_TRUNC);
	int rc;

	if ((flags & ~KNOWN_OPEN) || access == O_ACCMODE)
		return STET_FAIL(-EINVAL, "unknown flags 0x%x", flags);
	o.file = stet_calloc(1, sizeof(*o.file));
	if (!o.file)
		return STET_FAIL(-ENOMEM, "no memory for a file");
	o.file->vol = vol;
	o.file->readable = access != O_WRONLY;
	o.file->writable = access != O_RDONLY;
	o.file->append = flags & O_APPEND;
	rc = stet_api_run_(vol, txn, changes ? 0 : STET_API_READ, open_at, opened, &o);
	if (rc)
		stet_free(o.file);
	else
		*ret_file = o.file;
	return rc;
}

void stet_file_close(struct stet_file *file)
{
	if (!file)
		return;
	stet_api_unhold_(file->vol, file->tx, file->ino);
	stet_free(file);
}

uint64_t stet_file_ino(struct stet_file *file)
{
	return file->ino;
}

/* --- use --- */

static int check_writable(const struct stet_file *file)
{
	int rc = stet_api_check_handle_(file);

	if (rc)
		return rc;
	return file->writable ? 0 : STET_FAIL(-EBADF, "the file is open for reading only");
}

static int check_readable(const struct stet_file *file)
{
	int rc = stet_api_check_handle_(file);

	if (rc)
		return rc;
	return file->readable ? 0 : STET_FAIL(-EBADF, "the file is open for writing only");
}

ssize_t stet_pread(struct stet_file *file, void *buf, size_t len, uint64_t off)
{
	int rc = check_readable(file);

	return rc ? rc : stet_api_read_(file->vol, file->tx, file->ino, off, buf, len, 0);
}

ssize_t stet_pwrite(struct stet_file *file, const void *buf, size_t len, uint64_t off)
{
	int rc = check_writable(file);

	if (rc)
		return rc;
	if (file->append)
		return stet_api_append_(file->vol, file->tx, file->ino, buf, len, 0);
	return stet_api_write_(file->vol, file->tx, file->ino, off, buf, len, 0);
}

ssize_t stet_append(struct stet_file *file, const void *buf, size_t len)
{
	int rc = check_writable(file);

	return rc ? rc : stet_api_append_(file->vol, file->tx, file->ino, buf, len, 0);
}

int stet_truncate(struct stet_file *file, uint64_t size)
{
	int rc = check_writable(file);

	return rc ? rc : stet_api_truncate_(file->vol, file->tx, file->ino, size, 0);
}

int stet_punch(struct stet_file *file, uint64_t off, uint64_t len)
{
	int rc = check_writable(file);

	return rc ? rc : stet_api_punch_(file->vol, file->tx, file->ino, off, len, 0);
}

int stet_fallocate(struct stet_file *file, int mode, uint64_t off, uint64_t len)
{
	int rc = check_writable(file);

	return rc ? rc : stet_ll_fallocate(file->vol, file->tx, file->ino, mode, off, len, 0);
}

int stet_fsync(struct stet_file *file)
{
	int rc = stet_api_check_handle_(file);

	return rc ? rc : stet_ll_fsync(file->vol, file->tx);
}

int stet_seek(struct stet_file *file, uint64_t off, int what, uint64_t *ret_off)
{
	int rc = stet_api_check_handle_(file);

	return rc ? rc : stet_api_seek_(file->vol, file->tx, file->ino, off, what, 0, ret_off);
}

static int stat_file(struct stet_api_op *op, void *arg)
{
	struct stet_stat *stat = arg;

	return stet_api_stat_(op, stat->ino, stat);
}

int stet_file_stat(struct stet_file *file, struct stet_stat *ret)
{
	struct stet_stat stat;
	int rc = stet_api_check_handle_(file);

	if (rc)
		return rc;
	stat.ino = file->ino;
	rc = stet_api_run_(file->vol, file->tx, STET_API_READ, stat_file, NULL, &stat);
	if (!rc)
		*ret = stat;
	return rc;
}

/* --- copying --- */

struct copy {
	struct stet_file *from, *to;
	uint64_t from_off, to_off, len; /* what is still to be done */
	uint8_t *buf;
};

static void copied(struct copy *c, uint64_t n)
{
	c->from_off += n;
	c->to_off += n;
	c->len -= n;
}

/* A hole stays one: what the target has there goes, and its size grows over it. */
static int copy_hole(struct copy *c, uint64_t len)
{
	struct stet_stat stat;
	int rc = stet_file_stat(c->to, &stat);

	if (!rc && c->to_off < stat.size)
		rc = stet_punch(c->to, c->to_off, len);
	if (!rc && c->to_off + len > stat.size)
		rc = stet_truncate(c->to, c->to_off + len);
	if (!rc)
		copied(c, len);
	return rc;
}

static int copy_data(struct copy *c, uint64_t len)
{
	uint64_t room = STET_API_WRITE_MAX - c->to_off % STET_API_WRITE_MAX;
	ssize_t n;

	len = len < room ? len : room;
	n = stet_pread(c->from, c->buf, (size_t)len, c->from_off);
	if (n > 0)
		n = stet_api_write_(c->to->vol, c->to->tx, c->to->ino, c->to_off, c->buf, (size_t)n,
				    0);
	if (n < 0)
		return (int)n;
	if (n == 0)
		c->len = 0; /* the file was cut meanwhile */
	else
		copied(c, (uint64_t)n);
	return 0;
}

static int copy_some(struct copy *c)
{
	uint64_t data;
	int rc = stet_seek(c->from, c->from_off, STET_SEEK_DATA, &data);

	if (rc == -ENXIO)
		return copy_hole(c, c->len);
	if (rc)
		return rc;
	if (data > c->from_off) {
		uint64_t hole = data - c->from_off;

		return copy_hole(c, hole < c->len ? hole : c->len);
	}
	uint64_t end;
	rc = stet_seek(c->from, c->from_off, STET_SEEK_HOLE, &end);
	if (rc)
		return rc;
	uint64_t len = end - c->from_off;
	return copy_data(c, len < c->len ? len : c->len);
}

static int check_copy(struct copy *c)
{
	struct stet_stat stat;
	int rc = check_readable(c->from);

	if (!rc)
		rc = check_writable(c->to);
	if (!rc && c->from->vol != c->to->vol)
		rc = STET_FAIL(-EXDEV, "the files are of different volumes");
	if (!rc)
		rc = stet_file_stat(c->from, &stat);
	if (rc)
		return rc;
	if (c->from_off >= stat.size)
		c->len = 0;
	else if (c->len > stat.size - c->from_off)
		c->len = stat.size - c->from_off;
	if (c->to_off > INT64_MAX || c->len > INT64_MAX - c->to_off)
		return STET_FAIL(-EFBIG, "beyond the largest file size");
	if (c->from->ino == c->to->ino && c->from_off < c->to_off + c->len &&
	    c->to_off < c->from_off + c->len)
		return STET_FAIL(-EINVAL, "the ranges overlap");
	return 0;
}

int64_t stet_copy_range(struct stet_file *from, uint64_t from_off, struct stet_file *to,
			uint64_t to_off, uint64_t len)
{
	struct copy c = {
		.from = from, .from_off = from_off, .to = to, .to_off = to_off, .len = len
	};
	int rc = check_copy(&c);

	if (rc || c.len == 0)
		return rc;
	c.buf = stet_alloc(STET_API_WRITE_MAX);
	if (!c.buf)
		return STET_FAIL(-ENOMEM, "no memory to copy");
	while (c.len > 0 && !rc)
		rc = copy_some(&c);
	stet_free(c.buf);
	return rc && c.to_off == to_off ? rc : (int64_t)(c.to_off - to_off);
}
