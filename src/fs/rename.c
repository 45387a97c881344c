/* rename.c - moving, replacing and exchanging names.
 *
 * A rename is a list of what each of two names becomes; directories' counts, the parents of what
 * moved and the link of what was replaced follow from it.
 *
 * R1. Nothing moves below itself: checked in what the transaction sees, and claimed for ordering,
 *     when the moves of others count too.
 * R2. Two names of one inode: nothing happens (POSIX).
 * R3. Who moves a directory to another parent holds its PARENT exclusively.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/fs_internal.h"

struct side {
	uint64_t dir;
	struct stet_fs_name name;
	struct stet_dirent there; /* ino 0: no such name */
};

struct rename {
	struct side from, to;
	bool exchange;
};

static bool is_dir(const struct stet_dirent *dirent)
{
	return dirent->ino != 0 && dirent->type == S_IFDIR >> 12;
}

static int check_args(struct stet_fs_ctx *ctx, const struct rename *r, unsigned flags)
{
	int rc = stet_fs_writable_(ctx);

	if (flags & ~(STET_FS_RENAME_NOREPLACE | STET_FS_RENAME_EXCHANGE) ||
	    flags == (STET_FS_RENAME_NOREPLACE | STET_FS_RENAME_EXCHANGE))
		return -EINVAL;
	if (!rc)
		rc = stet_name_check_(r->from.name);
	if (!rc)
		rc = stet_name_check_(r->to.name);
	if (!rc && (stet_name_is_dots_(r->from.name) || stet_name_is_dots_(r->to.name)))
		rc = -EBUSY;
	return rc;
}

static int read_side(struct stet_fs_ctx *ctx, struct side *side)
{
	struct fs_inode dir;
	int rc = stet_inode_dir_(ctx, side->dir, STET_ATTR_EXISTS, &dir);

	return rc ? rc : stet_name_find_(ctx, side->dir, side->name, &side->there);
}

static int read_sides(struct stet_fs_ctx *ctx, struct rename *r, unsigned flags)
{
	int rc = read_side(ctx, &r->from);

	if (!rc)
		rc = read_side(ctx, &r->to);
	if (rc)
		return rc;
	if (r->from.there.ino == 0 || (r->exchange && r->to.there.ino == 0))
		return -ENOENT;
	return (flags & STET_FS_RENAME_NOREPLACE) && r->to.there.ino != 0 ? -EEXIST : 0;
}

/* That `dir` lies below, or (top: the root) does not, is what the caller learns: every step of the way up must
 * stay so. */
static int keep_way(struct stet_fs_ctx *ctx, uint64_t dir, uint64_t top)
{
	struct fs_inode in;

	while (dir != top) { /* stet_dir_is_below_ has been here */
		int rc = stet_fs_read_lock_(ctx, STET_LOCK_ATTR, dir, STET_ATTR_PARENT,
					    STET_LOCK_S);

		if (!rc)
			rc = stet_inode_must_(ctx, dir, STET_ATTR_PARENT, &in);
		if (rc)
			return rc;
		dir = in.i.parent;
	}
	return 0;
}

/* Types and loops, as the transaction sees them. */
static int check_move(struct stet_fs_ctx *ctx, const struct side *from, const struct side *to,
		      bool exchange)
{
	bool loop = false;
	int rc = 0;

	if (is_dir(&from->there) && (from->dir != to->dir || from->there.ino == to->dir))
		rc = stet_dir_is_below_(ctx, to->dir, from->there.ino, &loop);
	if (!rc && loop) {
		rc = keep_way(ctx, to->dir, from->there.ino);
		return rc ? rc : -EINVAL;
	}
	/* Only at LOCKING; elsewhere ordering looks again (R1). */
	if (!rc && is_dir(&from->there) && from->dir != to->dir &&
	    stet_txn_level(ctx->txn) == STET_LEVEL_LOCKING)
		rc = keep_way(ctx, to->dir, STET_ROOT_INO);
	if (rc)
		return rc;
	if (exchange || to->there.ino == 0)
		return 0;
	if (is_dir(&from->there) && !is_dir(&to->there))
		return -ENOTDIR;
	return !is_dir(&from->there) && is_dir(&to->there) ? -EISDIR : 0;
}

/* The inode that moves gets a new ctime, and perhaps a new parent. */
static int lock_moved(struct stet_fs_ctx *ctx, const struct side *from, const struct side *to)
{
	struct fs_inode in;
	struct stet_key key;
	int rc = stet_fs_exists_lock_(ctx, from->there.ino);

	if (!rc)
		rc = stet_inode_must_(ctx, from->there.ino, STET_ATTR_EXISTS, &in);
	if (rc || !is_dir(&from->there) || from->dir == to->dir ||
	    stet_state_is_created_(ctx, from->there.ino))
		return rc;
	rc = stet_fs_lock_(ctx, STET_LOCK_ATTR, from->there.ino, STET_ATTR_PARENT, STET_LOCK_X);
	if (rc)
		return rc;
	stet_key_inode(&key, from->there.ino);
	return stet_txn_unchanged(ctx->txn, &key, STET_ATTR_PARENT);
}

static int prepare(struct stet_fs_ctx *ctx, struct rename *r)
{
	uint64_t meta = 4 * (STET_META_INODE_ + STET_INLINE_MAX / 2) + STET_META_ORPHAN_ +
			2 * STET_META_DIRENT_(r->from.name.len + r->to.name.len);
	uint32_t content = 0; /* within what is reserved anyway */
	int rc = check_move(ctx, &r->from, &r->to, r->exchange);

	if (!rc && r->exchange)
		rc = check_move(ctx, &r->to, &r->from, true);
	if (!rc)
		rc = stet_name_lock_(ctx, r->from.dir, r->from.name);
	if (!rc)
		rc = stet_name_lock_(ctx, r->to.dir, r->to.name);
	if (!rc)
		rc = lock_moved(ctx, &r->from, &r->to);
	if (!rc && r->exchange)
		rc = lock_moved(ctx, &r->to, &r->from);
	if (!rc && !r->exchange && r->to.there.ino != 0)
		rc = stet_victim_lock_(ctx, &r->to.there, &content);
	if (!rc)
		rc = stet_txn_reserve(ctx->txn, 0, meta, false, ctx->ticket);
	return rc;
}

/* What `from` named is now named by `to`. */
static int move(struct stet_fs_ctx *ctx, const struct side *from, const struct side *to)
{
	struct stet_inode_intent n;
	bool reparent = is_dir(&from->there) && from->dir != to->dir;
	int rc = stet_dirent_put_(ctx, to->dir, to->name, from->there.ino, from->there.type);

	if (rc)
		return rc;
	stet_intent_init_(ctx, &n, STET_TOUCH_CHANGE_);
	if (reparent) {
		n.set = STET_SET_PARENT_;
		n.parent = to->dir;
	}
	rc = stet_intent_send_(ctx, from->there.ino, &n, NULL);
	if (!rc)
		rc = stet_state_claim_(ctx, from->there.ino, STET_CLAIM_ALIVE);
	if (!rc && reparent)
		rc = stet_state_claim_(ctx, from->there.ino, STET_CLAIM_TREE); /* R1 */
	return rc;
}

/* Names and subdirectories that the directories of the two sides gain. */
static int count_names(struct stet_fs_ctx *ctx, const struct rename *r)
{
	int moved = is_dir(&r->from.there), there = is_dir(&r->to.there);
	int to_names = r->exchange || r->to.there.ino != 0 ? 0 : 1;
	int from_names = r->exchange ? 0 : -1;
	int from_subdirs = (r->exchange ? there : 0) - moved;
	int to_subdirs = moved - there;
	int rc;

	if (r->from.dir == r->to.dir)
		return stet_dir_count_(ctx, r->from.dir, from_names + to_names,
				       from_subdirs + to_subdirs);
	rc = stet_dir_count_(ctx, r->from.dir, from_names, from_subdirs);
	return rc ? rc : stet_dir_count_(ctx, r->to.dir, to_names, to_subdirs);
}

static int apply(struct stet_fs_ctx *ctx, const struct rename *r)
{
	int rc = move(ctx, &r->from, &r->to);

	if (!rc)
		rc = r->exchange ? move(ctx, &r->to, &r->from)
				 : stet_dirent_del_(ctx, r->from.dir, r->from.name);
	if (!rc)
		rc = count_names(ctx, r);
	if (!rc && !r->exchange && r->to.there.ino != 0)
		rc = stet_victim_drop_(ctx, &r->to.there);
	return rc;
}

int stet_fs_rename(struct stet_fs_ctx *ctx, uint64_t from_dir, struct stet_fs_name from_name,
		   uint64_t to_dir, struct stet_fs_name to_name, unsigned flags,
		   uint64_t *ret_replaced)
{
	struct rename r = {
		.from = { .dir = from_dir, .name = from_name },
		.to = { .dir = to_dir, .name = to_name },
		.exchange = flags & STET_FS_RENAME_EXCHANGE,
	};
	int rc = check_args(ctx, &r, flags);

	if (!rc)
		rc = read_sides(ctx, &r, flags);
	if (rc)
		return rc;
	if (r.to.there.ino == r.from.there.ino) { /* R2 */
		*ret_replaced = 0;
		return 0;
	}
	rc = prepare(ctx, &r);
	if (rc)
		return rc;
	rc = apply(ctx, &r);
	if (rc) {
		stet_txn_doom(ctx->txn, rc);
		return rc;
	}
	*ret_replaced = r.exchange ? 0 : r.to.there.ino;
	return 0;
}
