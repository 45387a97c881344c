/* inode.c - inodes: intents and how they merge, attributes as users see them.
 *
 * A transaction that changes an inode which it did not create stages what it does, not what comes
 * out (struct stet_inode_intent): so transactions that add names to one directory, or links to one
 * file, do not lose each other's changes, and hold no lock against each other.
 *
 * I1. An intent is applied in the order set, add, touch. combine(a, b) does what a followed by b
 *     does.
 * I2. A touched ctime becomes max(old, commit), a touched mtime the commit's time; an mtime that is
 *     set after it was touched stays as set. Until there is a stamp a flag in the value stands for
 *     "of the commit", and the field holds the time of the operation.
 * I3. What comes out of a merge is a valid inode; if not, the base was bad: -EUCLEAN.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

#define ENTRY_BYTES 32u /* what a directory's size tells for each name */

/* Key and value with what an item costs in a node, or a record in the log. */
_Static_assert(STET_INODE_VALUE_MAX - STET_INLINE_MAX + 9 + 8 <= STET_META_INODE_,
	       "what an inode is promised");
#define SYMBOLS (STET_INODE_CTIME_COMMIT | STET_INODE_MTIME_COMMIT | STET_INODE_DATA_COMMIT)

/* --- merge --- */

static void apply_set(struct stet_inode *i, const struct stet_inode_intent *n,
		      const uint8_t *content)
{
	if (n->set & STET_SET_MODE_)
		i->mode = (i->mode & (uint32_t)S_IFMT) | (n->mode & 07777u);
	if (n->set & STET_SET_UID_)
		i->uid = n->uid;
	if (n->set & STET_SET_GID_)
		i->gid = n->gid;
	if (n->set & STET_SET_ATIME_)
		i->atime_ns = n->atime_ns;
	if (n->set & STET_SET_MTIME_) {
		i->mtime_ns = n->mtime_ns;
		i->flags &= ~STET_INODE_MTIME_COMMIT;
	}
	if (n->set & STET_SET_CTIME_) {
		i->ctime_ns = n->ctime_ns;
		i->flags &= ~STET_INODE_CTIME_COMMIT;
	}
	if (n->set & STET_SET_SIZE_)
		i->size = n->size;
	if (i->size < n->size_min)
		i->size = n->size_min;
	if (n->set & STET_SET_PARENT_)
		i->parent = n->parent;
	if (n->set & STET_SET_INLINE_) {
		i->flags |= STET_INODE_INLINE;
		i->inline_data = content;
		i->inline_bytes = n->inline_bytes;
		i->size = n->inline_bytes;
	}
	if (n->set & STET_SET_OUTLINE_) {
		i->flags &= ~STET_INODE_INLINE;
		i->inline_bytes = 0;
	}
}

/* v + add, which must lie in 0..max. */
static int add_to(uint64_t *v, int64_t add, uint64_t max, const char *what)
{
	uint64_t sum;

	if (add == 0)
		return 0;
	if (add < 0 && (uint64_t)-add > *v)
		return STET_FAIL(-EUCLEAN, "inode: %s %" PRIu64 " and %" PRId64, what, *v, add);
	sum = *v + (uint64_t)add;
	if (add > 0 && (sum < *v || sum > max))
		return STET_FAIL(-EMLINK, "inode: %s %" PRIu64 " and %" PRId64, what, *v, add);
	*v = sum;
	return 0;
}

static int apply_add(struct stet_inode *i, const struct stet_inode_intent *n)
{
	uint64_t nlink = i->nlink;
	int rc = add_to(&nlink, n->nlink, STET_NLINK_MAX, "links");

	if (!rc)
		rc = add_to(&i->size, n->entries, STET_FILE_SIZE_MAX, "names");
	if (!rc)
		rc = add_to(&i->subdirs, n->subdirs, STET_FILE_SIZE_MAX, "subdirectories");
	if (!rc)
		rc = add_to(&i->blocks, n->blocks, STET_FILE_BLOCKS_MAX, "blocks");
	i->nlink = (uint32_t)nlink;
	return rc;
}

/* Replaces the symbols by what they stand for. */
static void resolve(struct stet_inode *i, const struct stet_stamp *stamp)
{
	if ((i->flags & STET_INODE_CTIME_COMMIT) && i->ctime_ns < stamp->now_ns)
		i->ctime_ns = stamp->now_ns;
	if (i->flags & STET_INODE_MTIME_COMMIT)
		i->mtime_ns = stamp->now_ns;
	if (i->flags & STET_INODE_DATA_COMMIT)
		i->data_version = stamp->serial;
	i->flags &= ~(uint32_t)SYMBOLS;
}

static void apply_touch(struct stet_inode *i, const struct stet_inode_intent *n)
{
	if ((n->touch & STET_INODE_CTIME_COMMIT) && i->ctime_ns < n->touch_ns)
		i->ctime_ns = n->touch_ns;
	if (n->touch & STET_INODE_MTIME_COMMIT)
		i->mtime_ns = n->touch_ns;
	i->flags |= n->touch;
}

/* The fixed part of an intent; its content lies behind. */
static int intent_load(const void *bytes, size_t n, struct stet_inode_intent *ret)
{
	STET_ASSERT_CMP(n, >=, sizeof(*ret));
	memcpy(ret, bytes, sizeof(*ret));
	STET_ASSERT_CMP(n, ==, sizeof(*ret) + ret->inline_bytes);
	return 0;
}

int stet_inode_merge_(const struct stet_val *base, const void *intent, size_t intent_bytes,
		      const struct stet_stamp *stamp, struct stet_val *ret)
{
	struct stet_inode_intent n;
	struct stet_inode i, check;
	int rc;

	if (!base)
		return STET_FAIL(-ENOENT, "inode: it is gone");
	rc = intent_load(intent, intent_bytes, &n);
	if (!rc)
		rc = stet_inode_decode(base->b, base->bytes, &i);
	if (rc)
		return rc;
	apply_set(&i, &n, (const uint8_t *)intent + sizeof(n));
	rc = apply_add(&i, &n);
	if (rc)
		return rc;
	apply_touch(&i, &n);
	if (stamp)
		resolve(&i, stamp);
	ret->serial = base->serial;
	ret->buf = NULL;
	ret->bytes = (uint16_t)stet_inode_encode(&i, ret->b);
	return stet_inode_decode(ret->b, ret->bytes, &check); /* I3 */
}

/* --- combine --- */

static void combine_set(struct stet_inode_intent *a, const struct stet_inode_intent *b)
{
	if (b->set & STET_SET_MODE_)
		a->mode = b->mode;
	if (b->set & STET_SET_UID_)
		a->uid = b->uid;
	if (b->set & STET_SET_GID_)
		a->gid = b->gid;
	if (b->set & STET_SET_ATIME_)
		a->atime_ns = b->atime_ns;
	if (b->set & STET_SET_MTIME_) {
		a->mtime_ns = b->mtime_ns;
		a->touch &= ~STET_INODE_MTIME_COMMIT;
	}
	if (b->set & STET_SET_CTIME_) {
		a->ctime_ns = b->ctime_ns;
		a->touch &= ~STET_INODE_CTIME_COMMIT;
	}
	if (b->set & STET_SET_SIZE_) {
		a->size = b->size;
		a->size_min = 0;
	}
	if (a->size_min < b->size_min)
		a->size_min = b->size_min;
	if (b->set & STET_SET_PARENT_)
		a->parent = b->parent;
	if (b->set & STET_SET_INLINE_) {
		a->set &= ~(uint32_t)(STET_SET_OUTLINE_ | STET_SET_SIZE_);
		a->size_min = 0;
	}
	if (b->set & STET_SET_OUTLINE_) {
		if (a->set & STET_SET_INLINE_ && !(b->set & STET_SET_SIZE_)) {
			/* The size that the content had stays, content or not. */
			a->set |= STET_SET_SIZE_;
			a->size = a->inline_bytes;
		}
		a->set &= ~(uint32_t)STET_SET_INLINE_;
	}
	a->set |= b->set;
}

int stet_inode_combine_(struct stet_buf *intent, const void *more, size_t more_bytes)
{
	struct stet_inode_intent a, b;
	int rc = intent_load(intent->p, intent->len, &a);

	if (!rc)
		rc = intent_load(more, more_bytes, &b);
	if (!rc && b.inline_bytes > a.inline_bytes)
		rc = stet_buf_reserve(intent, b.inline_bytes - a.inline_bytes);
	if (rc)
		return rc;
	combine_set(&a, &b);
	a.nlink += b.nlink;
	a.entries += b.entries;
	a.subdirs += b.subdirs;
	a.blocks += b.blocks;
	a.touch |= b.touch;
	a.touch_ns = b.touch ? b.touch_ns : a.touch_ns;
	if (b.set & STET_SET_INLINE_) {
		a.inline_bytes = b.inline_bytes;
		if (b.inline_bytes > 0)
			memcpy(intent->p + sizeof(a), (const uint8_t *)more + sizeof(b),
			       b.inline_bytes);
	} else if (!(a.set & STET_SET_INLINE_)) {
		a.inline_bytes = 0;
	}
	memcpy(intent->p, &a, sizeof(a));
	intent->len = sizeof(a) + a.inline_bytes;
	return 0;
}

size_t stet_inode_resolve_(uint8_t *value, size_t value_bytes, const struct stet_stamp *stamp)
{
	uint8_t final[STET_INODE_VALUE_MAX];
	struct stet_inode i;

	/* Not an inode: whoever reads it will find out. */
	if (stet_inode_decode(value, value_bytes, &i) != 0 || !(i.flags & SYMBOLS))
		return value_bytes;
	resolve(&i, stamp);
	size_t n = stet_inode_encode(&i, final);
	STET_ASSERT_CMP(n, <=, value_bytes + STET_INODE_GROWTH_MAX);
	memcpy(value, final, n);
	return n;
}

/* --- same --- */

static bool same_data(const struct stet_inode *a, const struct stet_inode *b)
{
	return a->data_version == b->data_version && a->size == b->size &&
	       (a->flags & STET_INODE_DATA_COMMIT) == (b->flags & STET_INODE_DATA_COMMIT);
}

/* The times that were set, as far as that can be told from those that were touched. Not the atime: readers
 * change it, and must not be in anybody's way. */
static bool same_times(const struct stet_inode *a, const struct stet_inode *b)
{
	return S_ISDIR(a->mode) || !same_data(a, b) || a->mtime_ns == b->mtime_ns;
}

bool stet_inode_same_(uint32_t mask, const struct stet_val *a, const struct stet_val *b)
{
	struct stet_inode x, y;
	bool dir;

	if (!a || !b)
		return !a && !b;
	if (stet_inode_decode(a->b, a->bytes, &x) || stet_inode_decode(b->b, b->bytes, &y))
		return a->bytes == b->bytes && memcmp(a->b, b->b, a->bytes) == 0;
	dir = S_ISDIR(x.mode);
	if ((mask & STET_ATTR_EXISTS) && (x.nlink > 0) != (y.nlink > 0))
		return false;
	if ((mask & STET_ATTR_MODE) && (x.mode != y.mode || x.uid != y.uid || x.gid != y.gid))
		return false;
	if ((mask & STET_ATTR_TIMES) && !same_times(&x, &y))
		return false;
	if ((mask & STET_ATTR_NLINK) && x.nlink != y.nlink)
		return false;
	if ((mask & STET_ATTR_SIZE) && !dir && !same_data(&x, &y))
		return false;
	if ((mask & STET_ATTR_NAMES) && dir &&
	    (x.size != y.size || x.subdirs != y.subdirs || x.mtime_ns != y.mtime_ns))
		return false;
	if ((mask & STET_ATTR_COUNT_) && x.size != y.size)
		return false;
	if ((mask & STET_ATTR_PARENT) && x.parent != y.parent)
		return false;
	if ((mask & STET_ATTR_CTIME) && x.ctime_ns != y.ctime_ns)
		return false;
	return !(mask & STET_ATTR_MTIME_) || x.mtime_ns == y.mtime_ns;
}

/* --- reading and staging --- */

int stet_inode_get_(struct stet_fs_ctx *ctx, uint64_t ino, uint32_t mask, struct fs_inode *ret)
{
	struct stet_key key;
	int rc = 0;

	stet_key_inode(&key, ino);
	if (mask && !stet_state_is_created_(ctx, ino))
		rc = stet_txn_read_key(ctx->txn, &key, mask);
	if (!rc)
		rc = stet_txn_get(ctx->txn, &key, &ret->val);
	if (rc)
		return rc;
	return stet_inode_decode(ret->val.b, ret->val.bytes, &ret->i);
}

int stet_inode_must_(struct stet_fs_ctx *ctx, uint64_t ino, uint32_t mask, struct fs_inode *ret)
{
	int rc = stet_inode_get_(ctx, ino, mask, ret);

	if (rc == -ENOENT)
		return STET_FAIL(-EUCLEAN, "inode %" PRIu64 " is named but missing", ino);
	return rc;
}

int stet_inode_dir_(struct stet_fs_ctx *ctx, uint64_t dir, uint32_t mask, struct fs_inode *ret)
{
	int rc = stet_inode_get_(ctx, dir, mask, ret);

	if (rc)
		return rc;
	if (!S_ISDIR(ret->i.mode))
		return -ENOTDIR;
	return ret->i.nlink == 0 ? -ENOENT : 0;
}

void stet_intent_init_(struct stet_fs_ctx *ctx, struct stet_inode_intent *intent, uint32_t touch)
{
	*intent = (struct stet_inode_intent){
		.touch = touch,
		.touch_ns = stet_engine_now(stet_txn_engine(ctx->txn)),
	};
}

int stet_intent_send_(struct stet_fs_ctx *ctx, uint64_t ino, const struct stet_inode_intent *intent,
		      const uint8_t *content)
{
	uint8_t bytes[sizeof(*intent) + STET_INLINE_MAX];
	struct stet_key key;

	STET_ASSERT_CMP(intent->inline_bytes, <=, STET_INLINE_MAX);
	memcpy(bytes, intent, sizeof(*intent));
	if (intent->inline_bytes > 0 && content)
		memcpy(bytes + sizeof(*intent), content, intent->inline_bytes);
	stet_key_inode(&key, ino);
	return stet_txn_intent(ctx->txn, &key, bytes, sizeof(*intent) + intent->inline_bytes);
}

/* --- attributes --- */

static void fill_attr(const struct stet_inode *i, struct stet_fs_attr *ret)
{
	bool dir = S_ISDIR(i->mode);

	*ret = (struct stet_fs_attr){
		.mode = i->mode,
		.uid = i->uid,
		.gid = i->gid,
		.nlink = i->nlink,
		.size = i->size,
		.blocks512 = i->blocks * (STET_BLOCK_SIZE / 512),
		.rdev = i->rdev,
		.atime_ns = i->atime_ns,
		.mtime_ns = i->mtime_ns,
		.ctime_ns = i->ctime_ns,
		.btime_ns = i->btime_ns,
		.parent = i->parent,
		.data_version = i->data_version,
	};
	if (!dir)
		return;
	ret->size = i->size > INT64_MAX / ENTRY_BYTES ? INT64_MAX : i->size * ENTRY_BYTES;
	if (i->nlink > 0)
		ret->nlink = i->subdirs > UINT32_MAX - 2 ? UINT32_MAX : (uint32_t)i->subdirs + 2;
}

int stet_fs_getattr(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_attr *ret)
{
	const uint32_t mask = (STET_ATTR_ALL & ~STET_ATTR_TIMES) | STET_ATTR_MTIME_;
	struct fs_inode in;
	const uint8_t *staged;
	int rc = stet_fs_still_lock_(ctx, ino);

	if (!rc)
		rc = stet_inode_get_(ctx, ino, mask, &in);
	if (rc)
		return rc;
	fill_attr(&in.i, ret);
	ret->ino = ino;
	if (S_ISREG(in.i.mode)) {
		uint64_t end = stet_staged_end_(ctx, ino);

		ret->size = end > ret->size ? end : ret->size;
		ret->size += stet_append_staged_(ctx, ino, &staged);
	}
	return 0;
}

int stet_fs_get_type(struct stet_fs_ctx *ctx, uint64_t ino, uint32_t *ret_mode)
{
	struct fs_inode in;
	int rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, &in);

	if (!rc)
		*ret_mode = in.i.mode & (uint32_t)S_IFMT;
	return rc;
}

int stet_fs_get_parent(struct stet_fs_ctx *ctx, uint64_t dir, uint64_t *ret_ino)
{
	struct fs_inode in;
	int rc = stet_fs_read_lock_(ctx, STET_LOCK_ATTR, dir, STET_ATTR_PARENT, STET_LOCK_S);

	if (!rc)
		rc = stet_inode_get_(ctx, dir, STET_ATTR_EXISTS | STET_ATTR_PARENT, &in);
	if (rc)
		return rc;
	if (!S_ISDIR(in.i.mode))
		return -ENOTDIR;
	*ret_ino = in.i.parent;
	return 0;
}

int stet_fs_get_owner(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_attr *ret)
{
	struct fs_inode in;
	int rc = stet_fs_read_lock_(ctx, STET_LOCK_ATTR, ino, STET_ATTR_MODE, STET_LOCK_S);

	if (!rc)
		rc = stet_inode_get_(ctx, ino, STET_ATTR_MODE, &in);
	if (rc)
		return rc;
	*ret = (struct stet_fs_attr){
		.ino = ino, .mode = in.i.mode, .uid = in.i.uid, .gid = in.i.gid
	};
	return 0;
}

int stet_attr_lock_(struct stet_fs_ctx *ctx, uint64_t ino, unsigned set)
{
	const unsigned owner = STET_FS_SET_MODE | STET_FS_SET_UID | STET_FS_SET_GID;
	const unsigned times = STET_FS_SET_ATIME | STET_FS_SET_MTIME | STET_FS_SET_CTIME;
	uint32_t mask = 0;
	struct stet_key key;
	int rc = stet_fs_exists_lock_(ctx, ino);

	if (!rc && (set & owner)) {
		rc = stet_fs_lock_(ctx, STET_LOCK_ATTR, ino, STET_ATTR_MODE, STET_LOCK_X);
		mask |= STET_ATTR_MODE;
	}
	if (!rc && (set & times)) {
		rc = stet_fs_lock_(ctx, STET_LOCK_ATTR, ino, STET_ATTR_TIMES, STET_LOCK_X);
		mask |= STET_ATTR_TIMES;
	}
	if (rc || stet_state_is_created_(ctx, ino))
		return rc;
	stet_key_inode(&key, ino);
	return stet_txn_unchanged(ctx->txn, &key, mask);
}

static void setattr_intent(struct stet_fs_ctx *ctx, unsigned set, const struct stet_fs_attr *attr,
			   struct stet_inode_intent *n)
{
	static const struct {
		unsigned from, to;
	} bits[] = {
		{ STET_FS_SET_MODE, STET_SET_MODE_ },   { STET_FS_SET_UID, STET_SET_UID_ },
		{ STET_FS_SET_GID, STET_SET_GID_ },     { STET_FS_SET_ATIME, STET_SET_ATIME_ },
		{ STET_FS_SET_MTIME, STET_SET_MTIME_ }, { STET_FS_SET_CTIME, STET_SET_CTIME_ },
	};

	stet_intent_init_(ctx, n, set & STET_FS_SET_CTIME ? 0 : STET_TOUCH_CHANGE_);
	for (size_t k = 0; k < sizeof(bits) / sizeof(bits[0]); k++) {
		if (set & bits[k].from)
			n->set |= bits[k].to;
	}
	n->mode = attr->mode;
	n->uid = attr->uid;
	n->gid = attr->gid;
	n->atime_ns = attr->atime_ns;
	n->mtime_ns = attr->mtime_ns;
	n->ctime_ns = attr->ctime_ns;
}

static int setattr_prepare(struct stet_fs_ctx *ctx, uint64_t ino, unsigned set,
			   const struct stet_fs_attr *attr)
{
	struct fs_inode in;
	int rc = stet_fs_writable_(ctx);

	if (rc)
		return rc;
	if (((set & STET_FS_SET_UID) && attr->uid == UINT32_MAX) ||
	    ((set & STET_FS_SET_GID) && attr->gid == UINT32_MAX))
		return -EINVAL;
	rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, &in);
	if (!rc)
		rc = stet_attr_lock_(ctx, ino, set);
	if (!rc)
		rc = stet_txn_reserve(ctx->txn, 0, STET_META_INODE_ + in.val.bytes, false,
				      ctx->ticket);
	return rc;
}

int stet_fs_setattr(struct stet_fs_ctx *ctx, uint64_t ino, unsigned set,
		    const struct stet_fs_attr *attr)
{
	struct stet_inode_intent n;
	int rc = setattr_prepare(ctx, ino, set, attr);

	/* truncate takes all that it needs before it changes anything, so its WAIT comes in
	 * time. */
	if (!rc && (set & STET_FS_SET_SIZE))
		rc = stet_fs_truncate(ctx, ino, attr->size);
	if (rc || !(set & ~STET_FS_SET_SIZE))
		return rc;
	setattr_intent(ctx, set, attr, &n);
	struct fs_file *file = stet_state_find_file_(ctx, ino);
	if (file && (set & STET_FS_SET_MTIME)) {
		rc = stet_undo_note_(ctx, &(struct fs_undo){ .kind = STET_UNDO_KEEP_MTIME,
							     .ino = ino,
							     .a = file->keep_mtime });
		file->keep_mtime = file->append.len > 0 || stet_skiplist_count(&file->staged) > 0;
	}
	if (!rc)
		rc = stet_intent_send_(ctx, ino, &n, NULL);
	if (!rc)
		rc = stet_state_claim_(ctx, ino, STET_CLAIM_ALIVE);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}

/* --- atime --- */

/* Whether the atime is older than a day, or than the last change: as relatime has it. */
static bool is_atime_old(const struct stet_inode *i, int64_t now_ns)
{
	const int64_t day_ns = INT64_C(86400) * 1000000000;

	return i->atime_ns <= i->mtime_ns || i->atime_ns <= i->ctime_ns ||
	       (now_ns > INT64_MIN + day_ns && i->atime_ns <= now_ns - day_ns);
}

int stet_fs_accessed(struct stet_fs_ctx *ctx, uint64_t ino, unsigned flags)
{
	struct stet_inode_intent n;
	struct fs_inode in;
	int rc = stet_fs_writable_(ctx);

	stet_intent_init_(ctx, &n, 0);
	n.set = STET_SET_ATIME_;
	n.atime_ns = stet_engine_now(stet_txn_engine(ctx->txn));
	if (!rc)
		rc = stet_inode_get_(ctx, ino, 0, &in);
	if (rc || in.i.nlink == 0)
		return rc;
	if (!(flags & STET_FS_ACCESS_ALWAYS) && !is_atime_old(&in.i, n.atime_ns))
		return 0;
	if (flags & STET_FS_ACCESS_LOOK)
		return 1;
	rc = stet_attr_lock_(ctx, ino, STET_FS_SET_ATIME);
	if (!rc)
		rc = stet_txn_reserve(ctx->txn, 0, STET_META_INODE_ + in.val.bytes, false, NULL);
	if (!rc)
		rc = stet_intent_send_(ctx, ino, &n, NULL);
	return rc ? rc : 1;
}
