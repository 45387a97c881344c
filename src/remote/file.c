/* file.c - files and listings of a volume that another process holds. */
#include "remote/remote_internal.h"

#include <fcntl.h>
#include <limits.h>

/* --- files --- */

int stet_remote_openat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
		       const char *path, int flags, mode_t mode, struct stet_file **ret_file)
{
	struct stet_remote_file *file = stet_calloc(1, sizeof(*file));
	struct stet_remote_call c;
	int rc;

	if (!file)
		return STET_FAIL(-ENOMEM, "no memory for a file");
	file->append = flags & O_APPEND;
	stet_remote_begin_at_(&c, vol, STET_WIRE_OPENAT, txn, dir, path);
	stet_wire_put_u32(&c.out, (uint32_t)flags);
	stet_wire_put_u32(&c.out, mode);
	rc = stet_remote_finish_open_(&c, &file->h, &file->ino);
	if (rc)
		stet_free(file);
	else
		*ret_file = (struct stet_file *)(void *)file;
	return rc;
}

/* Begins a call on a file. */
static void begin(struct stet_remote_call *c, struct stet_file *file, uint32_t kind)
{
	stet_remote_begin_on_(c, &stet_remote_file_(file)->h, kind);
}

void stet_remote_file_close(struct stet_file *handle)
{
	struct stet_remote_file *file = stet_remote_file_(handle);

	stet_remote_close_(&file->h, STET_WIRE_FILE_CLOSE);
	stet_free(file);
}

uint64_t stet_remote_file_ino(struct stet_file *file)
{
	return stet_remote_file_(file)->ino;
}

ssize_t stet_remote_pread(struct stet_file *file, void *buf, size_t len, uint64_t off)
{
	struct stet_remote_call c;
	int64_t rc;

	if (len > SSIZE_MAX)
		len = SSIZE_MAX;
	begin(&c, file, STET_WIRE_PREAD);
	stet_wire_put_u64(&c.out, len);
	stet_wire_put_u64(&c.out, off);
	c.to = buf;
	c.to_cap = len;
	rc = stet_remote_do_(&c);
	if (rc >= 0 && (uint64_t)rc != c.to_len)
		c.in.bad = true;
	return stet_remote_end_(&c, rc);
}

/* A piece of a write; the server takes it as a whole or not at all. */
static int64_t write_piece(struct stet_file *file, bool append, const void *data, size_t len,
			   uint64_t off)
{
	struct stet_remote_call c;

	begin(&c, file, append ? STET_WIRE_APPEND : STET_WIRE_PWRITE);
	if (!append)
		stet_wire_put_u64(&c.out, off);
	c.data = data;
	c.data_len = len;
	return stet_remote_finish_(&c);
}

/* Cut as the library cuts what is written in its own process. */
static ssize_t write_pieces(struct stet_file *file, bool append, const uint8_t *data, size_t len,
			    uint64_t off)
{
	size_t done = 0;

	do {
		size_t room = STET_WIRE_PIECE_MAX - (size_t)((off + done) % STET_WIRE_PIECE_MAX);
		size_t piece = len - done < room ? len - done : room;
		int64_t rc = write_piece(file, append, data + done, piece, off + done);

		if (rc < 0)
			return done > 0 ? (ssize_t)done : (ssize_t)rc;
		done += piece;
	} while (done < len);
	return (ssize_t)done;
}

ssize_t stet_remote_append(struct stet_file *file, const void *buf, size_t len)
{
	if (len > SSIZE_MAX)
		return STET_FAIL(-EINVAL, "%zu bytes at once", len);
	return write_pieces(file, true, buf, len, 0);
}

ssize_t stet_remote_pwrite(struct stet_file *file, const void *buf, size_t len, uint64_t off)
{
	if (stet_remote_file_(file)->append)
		return stet_remote_append(file, buf, len);
	if (off > INT64_MAX || len > INT64_MAX - off)
		return STET_FAIL(-EFBIG, "beyond the largest file size");
	return write_pieces(file, false, buf, len, off);
}

int stet_remote_truncate(struct stet_file *file, uint64_t size)
{
	struct stet_remote_call c;

	begin(&c, file, STET_WIRE_TRUNCATE);
	stet_wire_put_u64(&c.out, size);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_punch(struct stet_file *file, uint64_t off, uint64_t len)
{
	struct stet_remote_call c;

	begin(&c, file, STET_WIRE_PUNCH);
	stet_wire_put_u64(&c.out, off);
	stet_wire_put_u64(&c.out, len);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_fallocate(struct stet_file *file, int mode, uint64_t off, uint64_t len)
{
	struct stet_remote_call c;

	begin(&c, file, STET_WIRE_FALLOCATE);
	stet_wire_put_u32(&c.out, (uint32_t)mode);
	stet_wire_put_u64(&c.out, off);
	stet_wire_put_u64(&c.out, len);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_fsync(struct stet_file *file)
{
	struct stet_remote_call c;

	begin(&c, file, STET_WIRE_FSYNC);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_seek(struct stet_file *file, uint64_t off, int what, uint64_t *ret_off)
{
	struct stet_remote_call c;

	begin(&c, file, STET_WIRE_SEEK);
	stet_wire_put_u64(&c.out, off);
	stet_wire_put_u32(&c.out, (uint32_t)what);
	return stet_remote_finish_number_(&c, ret_off);
}

int64_t stet_remote_copy_range(struct stet_file *from, uint64_t from_off, struct stet_file *to,
			       uint64_t to_off, uint64_t len)
{
	struct stet_remote_call c;

	if (stet_remote_file_(from)->h.vol != stet_remote_file_(to)->h.vol)
		return STET_FAIL(-EXDEV, "the files are of different volumes");
	begin(&c, from, STET_WIRE_COPY_RANGE);
	stet_wire_put_u64(&c.out, from_off);
	stet_wire_put_u64(&c.out, stet_remote_file_(to)->h.id);
	stet_wire_put_u64(&c.out, to_off);
	stet_wire_put_u64(&c.out, len);
	return stet_remote_finish_(&c);
}

int stet_remote_file_stat(struct stet_file *file, struct stet_stat *ret)
{
	struct stet_remote_call c;

	begin(&c, file, STET_WIRE_FILE_STAT);
	return stet_remote_finish_stat_(&c, ret);
}

/* --- listings --- */

static void free_dir(struct stet_remote_dir *it)
{
	stet_mutex_destroy(&it->lock);
	stet_free(it);
}

int stet_remote_dir_open(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			 const char *path, const struct stet_dir_filter *filter,
			 struct stet_dir **ret_dir)
{
	const char *glob = filter && filter->glob ? filter->glob : "";
	struct stet_remote_dir *it = stet_calloc(1, sizeof(*it));
	struct stet_remote_call c;
	int rc;

	if (!it)
		return STET_FAIL(-ENOMEM, "no memory for a listing");
	it->result = 1;
	stet_mutex_init(&it->lock, STET_REMOTE_LISTING_RANK, "listing");
	stet_remote_begin_at_(&c, vol, STET_WIRE_DIR_OPEN, txn, dir, path);
	stet_wire_put_u32(&c.out, filter ? filter->types : 0);
	stet_wire_put_u32(&c.out, filter && filter->glob);
	stet_wire_put_text(&c.out, glob);
	rc = stet_remote_finish_open_(&c, &it->h, NULL);
	if (rc)
		free_dir(it);
	else
		*ret_dir = (struct stet_dir *)(void *)it;
	return rc;
}

static int64_t fetch_locked(struct stet_remote_dir *it)
{
	struct stet_remote_call c;
	int64_t rc;

	stet_assert_held(&it->lock);
	it->next = it->count = 0;
	stet_remote_begin_on_(&c, &it->h, STET_WIRE_DIR_NEXT);
	rc = stet_remote_do_(&c);
	if (rc >= 0) {
		it->result = stet_wire_get_u32(&c.in) != 0;
		for (int64_t i = 0; i < rc && i < STET_WIRE_BATCH; i++)
			stet_wire_get_entry(&c.in, &it->batch[i]);
	}
	if (rc > STET_WIRE_BATCH)
		c.in.bad = true;
	rc = stet_remote_end_(&c, rc);
	if (rc > 0)
		it->count = (size_t)rc;
	return rc;
}

int stet_remote_dir_next(struct stet_dir *handle, struct stet_dir_entry *ret)
{
	struct stet_remote_dir *it = stet_remote_dir_(handle);
	int64_t rc = 1;

	stet_mutex_lock(&it->lock);
	if (it->next == it->count)
		rc = it->result ? fetch_locked(it) : 0;
	if (rc > 0)
		*ret = it->batch[it->next++];
	stet_mutex_unlock(&it->lock);
	return rc > 0 ? 1 : (int)rc;
}

void stet_remote_dir_close(struct stet_dir *handle)
{
	struct stet_remote_dir *it = stet_remote_dir_(handle);

	stet_remote_close_(&it->h, STET_WIRE_DIR_CLOSE);
	free_dir(it);
}
