/* names.c - names in directories: checking, locking, finding; the way up to the root.
 *
 * N1. Two transactions that add or remove names in one directory meet only where names do: each
 *     holds the directory's NAMES shared among changers (IX) and its own NAME exclusively. Whoever
 *     depends on the names as a whole (a listing at LOCKING) takes NAMES S.
 * N2. Whoever changes a name holds EXISTS S on the directory, whoever removes a directory EXISTS X
 *     on it: so no name is added to a directory that is being removed.
 * N3. The directory's inode is changed by intents only (counts and times), never as a whole.
 * N4. "." and ".." are not stored.
 * N5. An operation that fails for what it finds (the name is there, is not there, the directory is
 *     not empty) takes no lock, so a "mkdir -p" gets in nobody's way. Only at LOCKING it must, to
 *     keep what it has found.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

#define DEPTH_MAX (1u << 20) /* directories on a way to the root; more is a cycle */

int stet_name_check_(struct stet_fs_name name)
{
	if (name.len == 0)
		return -ENOENT;
	if (name.len > STET_NAME_MAX)
		return -ENAMETOOLONG;
	if (memchr(name.bytes, '/', name.len) || memchr(name.bytes, '\0', name.len))
		return -EINVAL;
	return 0;
}

bool stet_name_is_dots_(struct stet_fs_name name)
{
	return (name.len == 1 && name.bytes[0] == '.') ||
	       (name.len == 2 && name.bytes[0] == '.' && name.bytes[1] == '.');
}

int stet_name_lock_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name)
{
	struct stet_key key;
	int rc;

	if (stet_state_is_created_(ctx, dir))
		return 0;
	if (!stet_state_claimed_(ctx, dir, STET_CLAIM_DIR)) {
		rc = stet_fs_lock_(ctx, STET_LOCK_EXISTS, dir, 0, STET_LOCK_S);
		if (!rc)
			rc = stet_fs_lock_(ctx, STET_LOCK_NAMES, dir, 0, STET_LOCK_IX);
		stet_key_inode(&key, dir);
		if (!rc)
			rc = stet_txn_unchanged(ctx->txn, &key, STET_ATTR_EXISTS);
		if (rc)
			return rc;
	}
	rc = stet_fs_lock_(ctx, STET_LOCK_NAME, dir, stet_lock_hash(name.bytes, name.len),
			   STET_LOCK_X);
	if (rc)
		return rc;
	stet_key_dirent(&key, dir, name.bytes, name.len);
	return stet_txn_unchanged(ctx->txn, &key, 0);
}

int stet_dirent_get_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
		     struct stet_dirent *ret)
{
	struct stet_key key;
	struct stet_val val;
	int rc = 0;

	stet_key_dirent(&key, dir, name.bytes, name.len);
	if (!stet_state_is_created_(ctx, dir))
		rc = stet_txn_read_key(ctx->txn, &key, 0);
	if (!rc)
		rc = stet_txn_get(ctx->txn, &key, &val);
	if (rc)
		return rc;
	return stet_dirent_decode(val.b, val.bytes, ret);
}

int stet_name_find_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
		    struct stet_dirent *ret)
{
	int rc = 0;

	if (stet_txn_level(ctx->txn) == STET_LEVEL_LOCKING) /* N5 */
		rc = stet_name_lock_(ctx, dir, name);
	if (!rc)
		rc = stet_dirent_get_(ctx, dir, name, ret);
	if (rc == -ENOENT) {
		ret->ino = 0;
		rc = 0;
	}
	return rc;
}

int stet_dirent_put_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name, uint64_t ino,
		     uint8_t type)
{
	const struct stet_dirent dirent = { .ino = ino, .type = type };
	uint8_t value[sizeof(struct stet_dirent_disk)];
	struct stet_key key;
	size_t n = stet_dirent_encode(&dirent, value);

	STET_ASSERT_CMP(n, <=, sizeof(value));
	stet_key_dirent(&key, dir, name.bytes, name.len);
	return stet_txn_put(ctx->txn, &key, value, n);
}

int stet_dirent_del_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name)
{
	struct stet_key key;

	stet_key_dirent(&key, dir, name.bytes, name.len);
	return stet_txn_del(ctx->txn, &key);
}

int stet_dir_count_(struct stet_fs_ctx *ctx, uint64_t dir, int names, int subdirs)
{
	struct stet_inode_intent n;
	int rc;

	stet_intent_init_(ctx, &n, STET_TOUCH_NAMES_);
	n.entries = names;
	n.subdirs = subdirs;
	rc = stet_intent_send_(ctx, dir, &n, NULL);
	return rc ? rc : stet_state_claim_(ctx, dir, STET_CLAIM_DIR);
}

int stet_dir_empty_(struct stet_fs_ctx *ctx, uint64_t dir)
{
	struct stet_key from, to, key;
	struct stet_scan *scan;
	struct stet_val val;
	int rc;

	stet_key_kind(&from, dir, STET_KIND_DIRENT);
	stet_key_kind(&to, dir, STET_KIND_DIRENT + 1);
	rc = stet_scan_open(ctx->txn, &from, &to, &scan);
	if (rc)
		return rc;
	rc = stet_scan_next(scan, &key, &val);
	stet_scan_close(scan);
	return rc == 1 ? -ENOTEMPTY : rc;
}

int stet_dir_is_below_(struct stet_fs_ctx *ctx, uint64_t dir, uint64_t below, bool *ret)
{
	struct fs_inode in;
	uint64_t at = dir;
	uint64_t mark = 0; /* passed; meeting it again is a cycle */

	for (uint32_t steps = 0; steps < DEPTH_MAX && at != mark; steps++) {
		if ((steps & (steps - 1)) == 0)
			mark = at;
		if (at == below) {
			*ret = true;
			return 0;
		}
		if (at == STET_ROOT_INO) {
			*ret = false;
			return 0;
		}
		int rc = stet_inode_must_(ctx, at, 0, &in);
		if (rc)
			return rc;
		if (!S_ISDIR(in.i.mode))
			return STET_FAIL(-EUCLEAN, "inode %" PRIu64 " is a parent and no directory",
					 at);
		at = in.i.parent;
	}
	return STET_FAIL(-EUCLEAN, "directory %" PRIu64 ": its parents do not lead to the root",
			 dir);
}

/* --- lookup --- */

/* "." and ".." */
static int lookup_dots(struct stet_fs_ctx *ctx, uint64_t dir, size_t len, struct stet_dirent *ret)
{
	struct fs_inode in;
	int rc = 0;

	if (len == 2)
		rc = stet_fs_read_lock_(ctx, STET_LOCK_ATTR, dir, STET_ATTR_PARENT, STET_LOCK_S);
	if (!rc)
		rc = stet_inode_dir_(ctx, dir, STET_ATTR_EXISTS | (len == 2 ? STET_ATTR_PARENT : 0),
				     &in);
	if (rc)
		return rc;
	*ret = (struct stet_dirent){ .ino = len == 2 ? in.i.parent : dir, .type = S_IFDIR >> 12 };
	return 0;
}

int stet_fs_lookup(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
		   struct stet_dirent *ret)
{
	struct fs_inode in;
	int rc = stet_name_check_(name);

	if (rc)
		return rc;
	if (stet_name_is_dots_(name))
		return lookup_dots(ctx, dir, name.len, ret);
	rc = stet_fs_read_lock_(ctx, STET_LOCK_NAMES, dir, 0, STET_LOCK_IS);
	if (!rc)
		rc = stet_fs_read_lock_(ctx, STET_LOCK_NAME, dir,
					stet_lock_hash(name.bytes, name.len), STET_LOCK_S);
	if (!rc)
		rc = stet_dirent_get_(ctx, dir, name, ret);
	if (rc != -ENOENT)
		return rc; /* a name that is there proves its directory */
	rc = stet_inode_dir_(ctx, dir, STET_ATTR_EXISTS, &in);
	return rc ? rc : -ENOENT;
}
