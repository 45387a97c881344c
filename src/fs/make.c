/* make.c - new inodes and new names: create, mkdir, symlink, mknod, link.
 *
 * M1. A new inode's number is never given again, so nobody else can know it before the transaction
 *     is ordered: it needs no locks.
 * M2. Times of a new inode are those of the commit (symbols until then).
 * M3. As in all POSIX systems with group inheritance, what is made in a set-group-id directory gets
 *     the directory's group, and a directory made there the bit too.
 * M4. Targets of links that do not fit into the inode lie in one block.
 * M5. The directory's default ACL, else the umask, takes permissions away (xattr.c, X6).
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

static int check_type(const struct stet_fs_new *what)
{
	switch (what->mode & S_IFMT) {
	case S_IFLNK:
		if (what->target_len == 0)
			return -ENOENT;
		if (what->target_len > STET_SYMLINK_MAX)
			return -ENAMETOOLONG;
		return memchr(what->target, '\0', what->target_len) ? -EINVAL : 0;
	case S_IFREG:
	case S_IFDIR:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
	case STET_MODE_TABLE:
		return what->target_len > 0 ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

static int check_new(const struct stet_fs_new *what)
{
	if ((what->mode & ~(uint32_t)(S_IFMT | 07777)) != 0 || what->uid == UINT32_MAX ||
	    what->gid == UINT32_MAX)
		return -EINVAL;
	return check_type(what);
}

static bool has_target_block(const struct stet_fs_new *what)
{
	return what->target_len > STET_INLINE_MAX;
}

static int put_target_block(struct stet_fs_ctx *ctx, uint64_t ino, const struct stet_fs_new *what)
{
	struct stet_databuf *buf;
	struct stet_key key;
	int rc = stet_databuf_create(stet_engine_cache(stet_txn_engine(ctx->txn)), 1, &buf);

	if (rc)
		return rc;
	memcpy(buf->data, what->target, what->target_len);
	stet_key_extent(&key, ino, 0);
	rc = stet_txn_put_buf(ctx->txn, &key, buf, 0, 1, 0);
	stet_databuf_put(buf);
	return rc;
}

static void fill_inode(struct stet_fs_ctx *ctx, const struct stet_inode *dir, uint64_t dir_ino,
		       const struct stet_fs_new *what, struct stet_inode *i)
{
	int64_t now_ns = stet_engine_now(stet_txn_engine(ctx->txn));
	bool device = S_ISCHR(what->mode) || S_ISBLK(what->mode);

	*i = (struct stet_inode){
		.mode = what->mode,
		.uid = what->uid,
		.gid = what->gid,
		.flags = STET_TOUCH_DATA_, /* M2 */
		.nlink = dir ? 1 : 0,
		.size = what->target_len,
		.rdev = device ? what->rdev : 0,
		.atime_ns = now_ns,
		.mtime_ns = now_ns,
		.ctime_ns = now_ns,
		.btime_ns = now_ns,
		.parent = S_ISDIR(what->mode) ? dir_ino : 0,
		.blocks = has_target_block(what) ? 1 : 0,
	};
	if ((S_ISREG(what->mode) || S_ISLNK(what->mode)) && !has_target_block(what)) {
		i->flags |= STET_INODE_INLINE;
		i->inline_bytes = (uint32_t)what->target_len;
		i->inline_data = (const uint8_t *)what->target;
	}
	if (dir && (dir->mode & S_ISGID)) { /* M3 */
		i->gid = dir->gid;
		if (S_ISDIR(what->mode))
			i->mode |= S_ISGID;
	}
}

/* Puts the inode. dir NULL: it gets no name. */
static int put_inode(struct stet_fs_ctx *ctx, const struct stet_inode *dir, uint64_t dir_ino,
		     const struct stet_fs_new *what, uint64_t *ret_ino)
{
	uint64_t ino = stet_engine_next_ino(stet_txn_engine(ctx->txn));
	uint8_t value[STET_INODE_VALUE_MAX];
	struct stet_inode i;
	struct stet_key key;
	int rc;

	fill_inode(ctx, dir, dir_ino, what, &i);
	stet_key_inode(&key, ino);
	rc = stet_txn_put(ctx->txn, &key, value, stet_inode_encode(&i, value));
	if (!rc)
		rc = stet_state_created_(ctx, ino);
	if (!rc && has_target_block(what))
		rc = put_target_block(ctx, ino, what);
	if (!rc)
		*ret_ino = ino;
	return rc;
}

static int reserve_new(struct stet_fs_ctx *ctx, struct stet_fs_name name,
		       const struct stet_fs_new *what, uint64_t more_meta)
{
	uint64_t meta = 2 * STET_META_INODE_ + STET_META_DIRENT_(name.len) + what->target_len +
			more_meta;

	return stet_txn_reserve(ctx->txn, has_target_block(what) ? 1 : 0, meta, false, ctx->ticket);
}

/* What adding a name takes, up to the moment of changing. */
static int add_name_prepare(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
			    struct fs_inode *ret_dir)
{
	struct stet_dirent there;
	int rc = stet_fs_writable_(ctx);

	if (!rc)
		rc = stet_name_check_(name);
	if (!rc && stet_name_is_dots_(name))
		rc = -EEXIST;
	if (!rc)
		rc = stet_inode_dir_(ctx, dir, STET_ATTR_EXISTS | STET_ATTR_MODE, ret_dir);
	if (!rc)
		rc = stet_name_find_(ctx, dir, name, &there);
	if (!rc && there.ino != 0)
		rc = -EEXIST;
	return rc ? rc : stet_name_lock_(ctx, dir, name);
}

int stet_fs_make(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
		 const struct stet_fs_new *what, uint64_t *ret_ino)
{
	struct stet_fs_new new = *what;
	struct fs_inherited inherited;
	struct fs_inode parent;
	uint64_t ino = 0;
	int rc = check_new(what);

	if (!rc)
		rc = add_name_prepare(ctx, dir, name, &parent);
	if (!rc) /* M3: that the bit is not set is read, too */
		rc = stet_fs_read_lock_(ctx, STET_LOCK_ATTR, dir, STET_ATTR_MODE, STET_LOCK_S);
	if (!rc)
		rc = stet_acl_inherited_(ctx, dir, &new, &inherited); /* M5 */
	if (!rc)
		rc = reserve_new(ctx, name, &new, stet_acl_meta_(&inherited));
	if (rc)
		return rc;
	rc = put_inode(ctx, &parent.i, dir, &new, &ino);
	if (!rc)
		rc = stet_acl_put_(ctx, ino, &inherited);
	if (!rc)
		rc = stet_dirent_put_(ctx, dir, name, ino, (uint8_t)((what->mode & S_IFMT) >> 12));
	if (!rc)
		rc = stet_dir_count_(ctx, dir, 1, S_ISDIR(what->mode) ? 1 : 0);
	if (rc) {
		stet_txn_doom(ctx->txn, rc);
		return rc;
	}
	*ret_ino = ino;
	return 0;
}

int stet_fs_make_unnamed(struct stet_fs_ctx *ctx, const struct stet_fs_new *what, uint64_t *ret_ino)
{
	const struct stet_fs_name none = { NULL, 0 };
	uint64_t ino = 0;
	int rc = stet_fs_writable_(ctx);

	if (!rc)
		rc = S_ISREG(what->mode) ? check_new(what) : -EINVAL;
	if (!rc)
		rc = reserve_new(ctx, none, what, 0);
	if (rc)
		return rc;
	rc = put_inode(ctx, NULL, 0, what, &ino);
	if (!rc)
		rc = stet_txn_level(ctx->txn) == STET_LEVEL_PLAIN
			     ? stet_orphan_mark_(ctx, ino, STET_ORPHAN_UNLINKED, 0)
			     : stet_state_claim_(ctx, ino, STET_CLAIM_UNLINKED);
	if (rc) {
		stet_txn_doom(ctx->txn, rc);
		return rc;
	}
	*ret_ino = ino;
	return 0;
}

/* --- link --- */

static int link_prepare(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t dir,
			struct stet_fs_name name, struct fs_inode *in)
{
	struct fs_inode parent;
	int rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, in);

	if (rc)
		return rc;
	if (S_ISDIR(in->i.mode))
		return -EPERM;
	if (in->i.nlink == 0)
		return -ENOENT;
	if (in->i.nlink >= STET_NLINK_MAX) {
		rc = stet_fs_still_lock_(ctx, ino);
		return rc ? rc : -EMLINK;
	}
	rc = add_name_prepare(ctx, dir, name, &parent);
	if (!rc)
		rc = stet_fs_names_lock_(ctx, ino, false);
	if (!rc)
		rc = stet_txn_reserve(ctx->txn, 0,
				      2 * STET_META_INODE_ + in->val.bytes +
					      STET_META_DIRENT_(name.len),
				      false, ctx->ticket);
	return rc;
}

int stet_fs_link(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t dir, struct stet_fs_name name)
{
	struct stet_inode_intent n;
	struct fs_inode in;
	int rc = link_prepare(ctx, ino, dir, name, &in);

	if (rc)
		return rc;
	stet_intent_init_(ctx, &n, STET_TOUCH_CHANGE_);
	n.nlink = 1;
	rc = stet_intent_send_(ctx, ino, &n, NULL);
	if (!rc)
		rc = stet_state_claim_(ctx, ino, STET_CLAIM_GAIN);
	if (!rc)
		rc = stet_dirent_put_(ctx, dir, name, ino, (uint8_t)((in.i.mode & S_IFMT) >> 12));
	if (!rc)
		rc = stet_dir_count_(ctx, dir, 1, 0);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}

int stet_fs_fill_root(void *arg, struct stet_txn *txn)
{
	const struct stet_fs_root *root = arg;
	const struct stet_inode i = {
		.mode = S_IFDIR | (root->mode & 07777u),
		.uid = root->uid,
		.gid = root->gid,
		.nlink = 1,
		.atime_ns = root->now_ns,
		.mtime_ns = root->now_ns,
		.ctime_ns = root->now_ns,
		.btime_ns = root->now_ns,
		.parent = STET_ROOT_INO,
	};
	uint8_t value[STET_INODE_VALUE_MAX];
	struct stet_key key;

	stet_key_inode(&key, STET_ROOT_INO);
	return stet_txn_put(txn, &key, value, stet_inode_encode(&i, value));
}
