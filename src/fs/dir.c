/* dir.c - listings of directories, and where symbolic links lead.
 *
 * L1. A listing is a range of the catalog: names come in byte order, each once, as the transaction
 *     saw them when the listing was opened (its own changes as they are).
 * L2. At LOCKING nobody adds or takes a name while somebody who listed the directory is not
 *     ordered; at SERIALIZABLE the range must be the same when the reader is ordered.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/mem.h"
#include "fs/fs_internal.h"

struct stet_fs_dir {
	struct stet_scan *scan;
};

/* The key right behind that of the name. */
static void key_behind(struct stet_key *key, uint64_t dir, struct stet_fs_name after)
{
	stet_key_dirent(key, dir, after.bytes, after.len);
	if (after.len > 0)
		key->b[key->bytes++] = 0;
}

int stet_fs_dir_open(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name after,
		     struct stet_fs_dir **ret)
{
	struct stet_key from, to;
	struct stet_fs_dir *it;
	struct fs_inode in;
	int rc = after.len > STET_NAME_MAX ? -ENAMETOOLONG : 0;

	in.i = (struct stet_inode){ .nlink = 1 };
	if (!rc)
		rc = stet_fs_read_lock_(ctx, STET_LOCK_NAMES, dir, 0, STET_LOCK_S);
	if (!rc)
		rc = stet_fs_read_lock_(ctx, STET_LOCK_EXISTS, dir, 0, STET_LOCK_IS);
	if (!rc)
		rc = stet_inode_dir_(ctx, dir, STET_ATTR_EXISTS, &in);
	/* A directory that was removed while it is open is empty, not gone. */
	if (rc == -ENOENT && in.i.nlink == 0 && S_ISDIR(in.i.mode))
		rc = 0;
	if (rc)
		return rc;
	key_behind(&from, dir, after);
	stet_key_kind(&to, dir, STET_KIND_DIRENT + 1);
	if (!stet_state_is_created_(ctx, dir))
		rc = stet_txn_read_range(ctx->txn, &from, &to);
	if (rc)
		return rc;
	it = stet_calloc(1, sizeof(*it));
	if (!it)
		return STET_FAIL(-ENOMEM, "no memory for a listing");
	rc = stet_scan_open(ctx->txn, &from, &to, &it->scan);
	if (rc) {
		stet_free(it);
		return rc;
	}
	*ret = it;
	return 0;
}

int stet_fs_dir_next(struct stet_fs_dir *it, struct stet_fs_entry *ret)
{
	const size_t head = 9; /* object and kind */
	struct stet_dirent dirent;
	struct stet_key key;
	struct stet_val val;
	int rc = stet_scan_next(it->scan, &key, &val);

	if (rc != 1)
		return rc;
	rc = stet_key_verify(key.b, key.bytes);
	if (!rc)
		rc = stet_dirent_decode(val.b, val.bytes, &dirent);
	if (rc)
		return rc;
	ret->ino = dirent.ino;
	ret->type = dirent.type;
	ret->name_len = (uint16_t)(key.bytes - head);
	memcpy(ret->name, key.b + head, ret->name_len);
	ret->name[ret->name_len] = '\0';
	return 1;
}

void stet_fs_dir_close(struct stet_fs_dir *it)
{
	if (!it)
		return;
	stet_scan_close(it->scan);
	stet_free(it);
}

/* --- symbolic links --- */

static int read_target_block(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t size, uint8_t *block)
{
	struct fs_piece piece;
	struct fs_walk walk;
	int rc = stet_walk_open_(ctx, ino, 0, 1, &walk);

	if (rc)
		return rc;
	rc = stet_walk_next_(&walk, &piece);
	if (rc == 1)
		rc = stet_extent_read_(ctx, &walk.x, piece.shift, block);
	else if (rc == 0)
		rc = STET_FAIL(-EUCLEAN, "link %" PRIu64 ": its target is missing", ino);
	stet_walk_close_(&walk);
	if (!rc && memchr(block, '\0', size))
		rc = STET_FAIL(-EUCLEAN, "link %" PRIu64 ": NUL in its target", ino);
	return rc;
}

int stet_fs_readlink(struct stet_fs_ctx *ctx, uint64_t ino, char *buf, size_t cap, size_t *ret_len)
{
	uint8_t block[STET_BLOCK_SIZE];
	struct fs_inode in;
	const uint8_t *target;
	int rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, &in);

	if (rc)
		return rc;
	if (!S_ISLNK(in.i.mode))
		return -EINVAL;
	target = in.i.inline_data;
	if (!(in.i.flags & STET_INODE_INLINE)) {
		rc = read_target_block(ctx, ino, in.i.size, block);
		if (rc)
			return rc;
		target = block;
	}
	*ret_len = in.i.size < cap ? in.i.size : cap;
	memcpy(buf, target, *ret_len);
	return 0;
}
