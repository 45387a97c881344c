/* unlink.c - taking names away: unlink, rmdir, and what rename replaces.
 *
 * U1. Taking a name is a small change, however large the inode: with its last name the inode goes when it
 *     is all there is, else it becomes an orphan, which reclaim frees in steps once nobody has it open.
 * U2. Links are counted by intents, so two transactions may take two names of one inode; whether
 *     the last is gone is decided when each is ordered.
 * U3. A directory that is removed is held exclusively (EXISTS X) and must be empty, as the
 *     transaction sees it and again when it is ordered.
 */
#include <inttypes.h>
#include <sys/stat.h>

#include "fs/fs_internal.h"

static bool is_dir(const struct stet_dirent *dirent)
{
	return dirent->type == S_IFDIR >> 12;
}

static int dir_victim_lock(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct stet_key key;
	int rc;

	if (stet_state_is_created_(ctx, ino))
		return 0;
	rc = stet_fs_lock_(ctx, STET_LOCK_EXISTS, ino, 0, STET_LOCK_X);
	if (rc)
		return rc;
	stet_key_inode(&key, ino);
	return stet_txn_unchanged(ctx->txn, &key, STET_ATTR_EXISTS);
}

/* That it is not empty is all that the caller learns, and what must stay so for SERIALIZABLE and
 * LOCKING. */
static int check_empty(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct stet_key key;
	int rc = stet_fs_read_lock_(ctx, STET_LOCK_NAMES, ino, 0, STET_LOCK_S);

	if (!rc)
		rc = stet_dir_empty_(ctx, ino);
	if (rc != -ENOTEMPTY || stet_state_is_created_(ctx, ino))
		return rc;
	stet_key_inode(&key, ino);
	rc = stet_txn_read_key(ctx->txn, &key, STET_ATTR_NAMES);
	return rc ? rc : -ENOTEMPTY;
}

int stet_victim_lock_(struct stet_fs_ctx *ctx, const struct stet_dirent *victim,
		      uint32_t *ret_inline_bytes)
{
	struct fs_inode in;
	int rc = stet_inode_must_(ctx, victim->ino, STET_ATTR_EXISTS, &in);

	if (rc)
		return rc;
	*ret_inline_bytes = in.i.inline_bytes;
	if ((in.i.mode & S_IFMT) >> 12 != victim->type)
		return STET_FAIL(-EUCLEAN, "inode %" PRIu64 " has mode %o and is named as type %u",
				 victim->ino, in.i.mode, victim->type);
	if (in.i.nlink == 0)
		return STET_FAIL(-EUCLEAN, "inode %" PRIu64 " is named and has no links",
				 victim->ino);
	if (is_dir(victim))
		rc = check_empty(ctx, victim->ino);
	if (!rc)
		rc = is_dir(victim) ? dir_victim_lock(ctx, victim->ino)
				    : stet_fs_names_lock_(ctx, victim->ino, true);
	return rc;
}

int stet_victim_drop_(struct stet_fs_ctx *ctx, const struct stet_dirent *victim)
{
	struct stet_inode_intent n;
	int rc;

	stet_intent_init_(ctx, &n, STET_TOUCH_CHANGE_);
	n.nlink = -1;
	rc = stet_intent_send_(ctx, victim->ino, &n, NULL);
	if (!rc)
		rc = stet_state_claim_(ctx, victim->ino,
				       is_dir(victim) ? STET_CLAIM_EMPTY : STET_CLAIM_ALIVE);
	if (rc)
		return rc;
	if (stet_txn_level(ctx->txn) != STET_LEVEL_PLAIN)
		return stet_state_claim_(ctx, victim->ino, STET_CLAIM_UNLINKED);
	return stet_orphan_let_go_(ctx, victim->ino);
}

/* Locks, reads and reserves for taking a name of the wanted kind. */
static int take_prepare(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
			bool want_dir, struct stet_dirent *ret)
{
	struct fs_inode parent;
	uint32_t inline_bytes = 0;
	int rc = stet_inode_dir_(ctx, dir, STET_ATTR_EXISTS, &parent);

	if (!rc)
		rc = stet_name_find_(ctx, dir, name, ret);
	if (rc)
		return rc;
	if (ret->ino == 0)
		return -ENOENT;
	if (want_dir != is_dir(ret))
		return want_dir ? -ENOTDIR : -EISDIR;
	rc = stet_name_lock_(ctx, dir, name);
	if (!rc)
		rc = stet_victim_lock_(ctx, ret, &inline_bytes);
	if (rc)
		return rc;
	return stet_txn_reserve(ctx->txn, 0,
				2 * STET_META_INODE_ + inline_bytes + STET_META_ORPHAN_ +
					STET_META_DIRENT_(name.len),
				true, ctx->ticket);
}

static int take(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name, bool want_dir,
		uint64_t *ret_ino)
{
	struct stet_dirent victim;
	int rc = take_prepare(ctx, dir, name, want_dir, &victim);

	if (rc)
		return rc;
	rc = stet_dirent_del_(ctx, dir, name);
	if (!rc)
		rc = stet_dir_count_(ctx, dir, -1, want_dir ? -1 : 0);
	if (!rc)
		rc = stet_victim_drop_(ctx, &victim);
	if (rc) {
		stet_txn_doom(ctx->txn, rc);
		return rc;
	}
	*ret_ino = victim.ino;
	return 0;
}

int stet_fs_unlink(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
		   uint64_t *ret_ino)
{
	int rc = stet_fs_writable_(ctx);

	if (!rc)
		rc = stet_name_check_(name);
	if (rc)
		return rc;
	if (stet_name_is_dots_(name))
		return -EISDIR;
	return take(ctx, dir, name, false, ret_ino);
}

int stet_fs_rmdir(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
		  uint64_t *ret_ino)
{
	int rc = stet_fs_writable_(ctx);

	if (!rc)
		rc = stet_name_check_(name);
	if (rc)
		return rc;
	if (stet_name_is_dots_(name))
		return name.len == 1 ? -EINVAL : -ENOTEMPTY;
	return take(ctx, dir, name, true, ret_ino);
}
