/* xattr.c - extended attributes.
 *
 * A value up to STET_XATTR_INLINE_MAX bytes is the catalog item's. A larger one is cut into chunks,
 * items of their own beside it:
 *
 *   XATTR <name>               2 | le32 size | le64 id
 *   XATTR 01 "." <id> "." <nn> 0 | bytes nn * STET_XATTR_INLINE_MAX and on id: 16 hex digits, nn: 2
 *
 * X1. The id is given by the inode counter, so two values never share chunks: a value is read and
 *     replaced as one, and whoever has the head unchanged has the value unchanged.
 * X2. Names that begin with byte 01 are refused and not listed. They sort before all others.
 * X3. Chunks are deleted with their head; with the inode all go.
 *
 * POSIX ACLs are xattrs with a meaning (acl.h):
 *
 * X4. What the mode says of an access ACL is not looked for in the stored one but in the mode (A2 of acl.c):
 *     chmod need not change the ACL. An access ACL that says no more than a mode is not stored.
 * X5. Setting an access ACL sets the mode, so it takes what chmod takes.
 * X6. What is made in a directory gets an access ACL, and a directory the default one too, by the default
 *     ACL of that directory; without one the umask counts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "fs/acl.h"
#include "fs/fs_internal.h"

#define HIDDEN '\x01'
#define ALL_NAMES 0u /* the lock on the list of names */
#define KEY_HEAD 9u  /* object and kind */

struct value {
	bool exists;
	uint32_t size;
	uint64_t id;         /* of the chunks; 0: the bytes are in `x` */
	struct stet_xattr x; /* borrows from val */
	struct stet_val val;
};

static int check_name(struct stet_fs_name name)
{
	const char *dot;

	if (name.len == 0 || name.len > STET_NAME_MAX)
		return -ERANGE;
	if (memchr(name.bytes, '\0', name.len))
		return -EINVAL;
	dot = memchr(name.bytes, '.', name.len);
	if (!dot || dot == name.bytes || name.bytes[0] == HIDDEN) /* X2 */
		return -EOPNOTSUPP;
	return dot == name.bytes + name.len - 1 ? -EINVAL : 0;
}

static int lock_name(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
		     enum stet_lock_mode mode)
{
	return stet_fs_lock_(ctx, STET_LOCK_XATTR, ino, stet_lock_hash(name.bytes, name.len) | 1,
			     mode);
}

static void chunk_key(struct stet_key *key, uint64_t ino, uint64_t id, unsigned no)
{
	char name[32];
	int n = snprintf(name, sizeof(name), "%c.%016" PRIx64 ".%02x", HIDDEN, id, no);

	STET_ASSERT(n > 0 && (size_t)n < sizeof(name));
	stet_key_xattr(key, ino, name, (size_t)n);
}

static unsigned chunks_of(uint32_t size)
{
	return (size + STET_XATTR_INLINE_MAX - 1) / STET_XATTR_INLINE_MAX;
}

static uint32_t chunk_bytes(uint32_t size, unsigned no)
{
	uint32_t left = size - no * STET_XATTR_INLINE_MAX;

	return left < STET_XATTR_INLINE_MAX ? left : STET_XATTR_INLINE_MAX;
}

/* --- reading --- */

static int decode(struct stet_fs_ctx *ctx, struct value *v, uint64_t ino)
{
	uint32_t seg_blocks = stet_engine_superblock(stet_txn_engine(ctx->txn))->seg_blocks;
	int rc = stet_xattr_decode(v->val.b, v->val.bytes, STET_KIND_XATTR, seg_blocks, &v->x);

	if (rc)
		return rc;
	if (!v->x.data && v->x.chunks == 0)
		return STET_FAIL(-EUCLEAN, "xattr of inode %" PRIu64 ": a form never written", ino);
	v->size = v->x.size_bytes;
	v->id = v->x.data ? 0 : v->x.chunks;
	return 0;
}

/* The value's item, a read for SERIALIZABLE. */
static int find(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name, struct value *ret)
{
	struct stet_key key;
	int rc = 0;

	stet_key_xattr(&key, ino, name.bytes, name.len);
	if (!stet_state_is_created_(ctx, ino))
		rc = stet_txn_read_key(ctx->txn, &key, 0);
	if (!rc)
		rc = stet_txn_get(ctx->txn, &key, &ret->val);
	ret->exists = rc == 0;
	if (rc == -ENOENT)
		return 0;
	return rc ? rc : decode(ctx, ret, ino);
}

static int read_chunks(struct stet_fs_ctx *ctx, uint64_t ino, const struct value *v, uint8_t *to)
{
	for (unsigned no = 0; no < chunks_of(v->size); no++) {
		uint32_t n = chunk_bytes(v->size, no);
		struct stet_key key;
		struct stet_val val;
		int rc;

		chunk_key(&key, ino, v->id, no);
		rc = stet_txn_get(ctx->txn, &key, &val);
		if (rc == -ENOENT || (!rc && (val.bytes != n + 1 || val.b[0] != STET_XATTR_INLINE)))
			return STET_FAIL(-EUCLEAN, "xattr of inode %" PRIu64 ": chunk %u", ino, no);
		if (rc)
			return rc;
		memcpy(to + (size_t)no * STET_XATTR_INLINE_MAX, val.b + 1, n);
	}
	return 0;
}

static int read_value(struct stet_fs_ctx *ctx, uint64_t ino, const struct value *v, uint8_t *to)
{
	if (v->id != 0)
		return read_chunks(ctx, ino, v, to);
	if (v->size > 0)
		memcpy(to, v->x.data, v->size);
	return 0;
}

static int check_stored_acl(uint64_t ino, uint8_t *acl, size_t len)
{
	bool empty;

	if (stet_fs_acl_check(acl, len, &empty) != 0 || empty)
		return STET_FAIL(-EUCLEAN, "xattr of inode %" PRIu64 ": no ACL", ino);
	return 0;
}

/* X4 */
static int show_mode(struct stet_fs_ctx *ctx, uint64_t ino, uint8_t *acl, size_t len)
{
	struct fs_inode in;
	int rc = check_stored_acl(ino, acl, len);

	if (!rc)
		rc = stet_fs_read_lock_(ctx, STET_LOCK_ATTR, ino, STET_ATTR_MODE, STET_LOCK_S);
	if (!rc)
		rc = stet_inode_get_(ctx, ino, STET_ATTR_MODE, &in);
	if (!rc)
		stet_acl_set_mode_(acl, len, in.i.mode);
	return rc;
}

int stet_fs_xattr_get(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name, void *buf,
		      size_t cap, size_t *ret_len)
{
	struct fs_inode in;
	struct value v;
	int rc = check_name(name);

	if (!rc && stet_txn_level(ctx->txn) == STET_LEVEL_LOCKING)
		rc = lock_name(ctx, ino, name, STET_LOCK_S);
	if (!rc)
		rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, &in);
	if (!rc)
		rc = find(ctx, ino, name, &v);
	if (rc)
		return rc == -EOPNOTSUPP ? -ENODATA : rc;
	if (!v.exists)
		return -ENODATA;
	if (cap > 0 && v.size > cap)
		return -ERANGE;
	if (cap > 0)
		rc = read_value(ctx, ino, &v, buf);
	if (!rc && cap > 0 && stet_fs_acl_kind(name.bytes, name.len) == STET_FS_ACL_IS_ACCESS)
		rc = show_mode(ctx, ino, buf, v.size);
	if (!rc)
		*ret_len = v.size;
	return rc;
}

/* --- changing --- */

static int del_value(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
		     const struct value *v)
{
	struct stet_key key;
	int rc = 0;

	for (unsigned no = 0; v->id != 0 && no < chunks_of(v->size) && !rc; no++) { /* X3 */
		chunk_key(&key, ino, v->id, no);
		rc = stet_txn_del(ctx->txn, &key);
	}
	stet_key_xattr(&key, ino, name.bytes, name.len);
	return rc ? rc : stet_txn_del(ctx->txn, &key);
}

static int put_inline(struct stet_fs_ctx *ctx, const struct stet_key *key, const uint8_t *bytes,
		      uint32_t size)
{
	uint8_t value[1 + STET_XATTR_INLINE_MAX];

	value[0] = STET_XATTR_INLINE;
	if (size > 0)
		memcpy(value + 1, bytes, size);
	return stet_txn_put(ctx->txn, key, value, 1 + (size_t)size);
}

static int put_value(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
		     const uint8_t *bytes, uint32_t size)
{
	struct stet_xattr head = { .size_bytes = size };
	uint8_t coded[STET_XATTR_CHUNKED_BYTES];
	struct stet_key key, chunk;
	int rc = 0;

	stet_key_xattr(&key, ino, name.bytes, name.len);
	if (size <= STET_XATTR_INLINE_MAX)
		return put_inline(ctx, &key, bytes, size);
	head.chunks = stet_engine_next_ino(stet_txn_engine(ctx->txn)); /* X1 */
	for (unsigned no = 0; no < chunks_of(size) && !rc; no++) {
		chunk_key(&chunk, ino, head.chunks, no);
		rc = put_inline(ctx, &chunk, bytes + (size_t)no * STET_XATTR_INLINE_MAX,
				chunk_bytes(size, no));
	}
	return rc ? rc : stet_txn_put(ctx->txn, &key, coded, stet_xattr_encode(&head, coded));
}

static int lock_for_change(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name)
{
	struct stet_key key;
	int rc = stet_fs_exists_lock_(ctx, ino);

	if (!rc)
		rc = stet_fs_lock_(ctx, STET_LOCK_XATTR, ino, ALL_NAMES, STET_LOCK_IX);
	if (!rc)
		rc = lock_name(ctx, ino, name, STET_LOCK_X);
	if (rc || stet_state_is_created_(ctx, ino))
		return rc;
	stet_key_xattr(&key, ino, name.bytes, name.len);
	return stet_txn_unchanged(ctx->txn, &key, 0);
}

/* Reads, locks and reserves; tells what is there now. As with names, what fails for what it finds
 * takes no lock, but at LOCKING. */
static int change_prepare(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
			  size_t new_size, unsigned flags, struct value *ret)
{
	bool locking = stet_txn_level(ctx->txn) == STET_LEVEL_LOCKING;
	struct fs_inode in;
	uint64_t meta;
	int rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, &in);

	if (!rc && locking)
		rc = lock_for_change(ctx, ino, name);
	if (!rc)
		rc = find(ctx, ino, name, ret);
	if (!rc && (flags & STET_FS_XATTR_CREATE) && ret->exists)
		rc = -EEXIST;
	if (!rc && (flags & STET_FS_XATTR_REPLACE) && !ret->exists)
		rc = -ENODATA;
	if (!rc && !locking)
		rc = lock_for_change(ctx, ino, name);
	if (rc)
		return rc;
	meta = STET_META_INODE_ + in.val.bytes + new_size + STET_META_DIRENT_(name.len) +
	       UINT64_C(64) * (chunks_of((uint32_t)new_size) +
			       (ret->exists && ret->id != 0 ? chunks_of(ret->size) : 0));
	return stet_txn_reserve(ctx->txn, 0, meta, new_size == 0, ctx->ticket);
}

/* The ctime, and with `mode` the permissions. */
static int touch(struct stet_fs_ctx *ctx, uint64_t ino, const uint32_t *mode)
{
	struct stet_inode_intent n;
	int rc;

	stet_intent_init_(ctx, &n, STET_TOUCH_CHANGE_);
	if (mode) {
		n.set = STET_SET_MODE_;
		n.mode = *mode;
	}
	rc = stet_intent_send_(ctx, ino, &n, NULL);
	return rc ? rc : stet_state_claim_(ctx, ino, STET_CLAIM_ALIVE);
}

/* Replaces the value; value NULL: there is none then. */
static int replace_value(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
			 const struct value *old, const uint8_t *value, size_t len)
{
	int rc = 0;

	if (old->exists && (!value || old->id != 0))
		rc = del_value(ctx, ino, name, old);
	if (!rc && value)
		rc = put_value(ctx, ino, name, value, (uint32_t)len);
	return rc;
}

/* --- ACLs --- */

/* Whether such an inode can have ACLs; *mode becomes its mode. */
static int check_acl_owner(struct stet_fs_ctx *ctx, uint64_t ino, uint32_t *mode)
{
	struct fs_inode in;
	int rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, &in);

	if (rc)
		return rc;
	if (S_ISLNK(in.i.mode))
		return -EOPNOTSUPP;
	*mode = in.i.mode;
	return 0;
}

/* An empty ACL removes what is there. */
static int set_acl(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
		   const void *value, size_t len, unsigned flags)
{
	enum stet_fs_acl_kind kind = stet_fs_acl_kind(name.bytes, name.len);
	bool is_access = kind == STET_FS_ACL_IS_ACCESS, drop;
	uint8_t acl[STET_FS_ACL_BYTES_MAX];
	struct value old;
	uint32_t mode;
	int rc;

	if (len > sizeof(acl))
		return -E2BIG;
	if (len > 0)
		memcpy(acl, value, len);
	rc = stet_fs_acl_check(acl, len, &drop);
	if (!rc)
		rc = check_acl_owner(ctx, ino, &mode);
	if (!rc && kind == STET_FS_ACL_IS_DEFAULT && !drop && !S_ISDIR(mode))
		rc = -EACCES;
	if (!rc && is_access)
		rc = stet_attr_lock_(ctx, ino, STET_FS_SET_MODE); /* X5 */
	if (!rc)
		rc = change_prepare(ctx, ino, name, len, flags, &old);
	if (!rc)
		rc = check_acl_owner(ctx, ino, &mode); /* under the lock */
	if (rc || (drop && !old.exists))
		return rc;
	if (is_access && !drop)
		drop = stet_acl_to_mode_(acl, len, &mode);
	if (flags & STET_FS_XATTR_KILL_SGID)
		mode &= ~(uint32_t)S_ISGID;
	rc = replace_value(ctx, ino, name, &old, drop ? NULL : acl, len);
	if (!rc)
		rc = touch(ctx, ino, is_access ? &mode : NULL);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}

static int get_default_acl(struct stet_fs_ctx *ctx, uint64_t dir, uint8_t *acl, size_t *ret_len)
{
	struct stet_fs_name name = { STET_FS_ACL_DEFAULT, sizeof(STET_FS_ACL_DEFAULT) - 1 };
	struct value v;
	int rc = 0;

	if (stet_txn_level(ctx->txn) == STET_LEVEL_LOCKING)
		rc = lock_name(ctx, dir, name, STET_LOCK_S);
	if (!rc)
		rc = find(ctx, dir, name, &v);
	*ret_len = 0;
	if (rc || !v.exists)
		return rc;
	if (v.size > STET_FS_ACL_BYTES_MAX)
		return STET_FAIL(-EUCLEAN, "xattr of inode %" PRIu64 ": no ACL", dir);
	rc = read_value(ctx, dir, &v, acl);
	if (!rc)
		rc = check_stored_acl(dir, acl, v.size);
	if (!rc)
		*ret_len = v.size;
	return rc;
}

int stet_acl_inherited_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_new *what,
			struct fs_inherited *ret)
{
	int rc;

	ret->len = 0;
	ret->is_access = false;
	ret->is_default = false;
	if (S_ISLNK(what->mode))
		return 0;
	rc = get_default_acl(ctx, dir, ret->acl, &ret->len);
	if (rc)
		return rc;
	if (ret->len == 0) {
		what->mode &= ~(what->umask & 0777u);
		return 0;
	}
	memcpy(ret->access, ret->acl, ret->len);
	ret->is_access = !stet_acl_inherit_(ret->access, ret->len, &what->mode);
	ret->is_default = S_ISDIR(what->mode);
	return 0;
}

uint64_t stet_acl_meta_(const struct fs_inherited *inherited)
{
	uint64_t each = inherited->len + STET_META_DIRENT_(sizeof(STET_FS_ACL_DEFAULT)) +
			UINT64_C(64) * chunks_of((uint32_t)inherited->len);

	return (inherited->is_access ? each : 0) + (inherited->is_default ? each : 0);
}

int stet_acl_put_(struct stet_fs_ctx *ctx, uint64_t ino, const struct fs_inherited *inherited)
{
	static const struct stet_fs_name access = { STET_FS_ACL_ACCESS,
						    sizeof(STET_FS_ACL_ACCESS) - 1 };
	static const struct stet_fs_name dflt = { STET_FS_ACL_DEFAULT,
						  sizeof(STET_FS_ACL_DEFAULT) - 1 };
	uint32_t len = (uint32_t)inherited->len;
	int rc = 0;

	if (inherited->is_access)
		rc = put_value(ctx, ino, access, inherited->access, len);
	if (!rc && inherited->is_default)
		rc = put_value(ctx, ino, dflt, inherited->acl, len);
	return rc;
}

/* --- setting and removing --- */

int stet_fs_xattr_set(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
		      const void *value, size_t len, unsigned flags)
{
	struct value old;
	int rc = stet_fs_writable_(ctx);

	if (flags & ~(STET_FS_XATTR_CREATE | STET_FS_XATTR_REPLACE | STET_FS_XATTR_KILL_SGID))
		return -EINVAL;
	if (!rc)
		rc = check_name(name);
	if (!rc && len > STET_XATTR_SIZE_MAX)
		rc = -E2BIG;
	if (!rc && stet_fs_acl_kind(name.bytes, name.len) != STET_FS_ACL_NONE)
		return set_acl(ctx, ino, name, value, len, flags);
	if (!rc)
		rc = change_prepare(ctx, ino, name, len, flags, &old);
	if (rc)
		return rc;
	rc = replace_value(ctx, ino, name, &old, value ? value : "", len);
	if (!rc)
		rc = touch(ctx, ino, NULL);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}

int stet_fs_xattr_remove(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name)
{
	struct value old;
	int rc = stet_fs_writable_(ctx);

	if (!rc)
		rc = check_name(name);
	if (!rc && stet_fs_acl_kind(name.bytes, name.len) != STET_FS_ACL_NONE)
		return set_acl(ctx, ino, name, NULL, 0, 0);
	if (!rc)
		rc = change_prepare(ctx, ino, name, 0, STET_FS_XATTR_REPLACE, &old);
	if (rc)
		return rc;
	rc = del_value(ctx, ino, name, &old);
	if (!rc)
		rc = touch(ctx, ino, NULL);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}

/* --- listing --- */

static int list_names(struct stet_scan *scan, char *buf, size_t cap, size_t *ret_len)
{
	struct stet_key key;
	struct stet_val val;
	size_t len = 0;
	int rc;

	while ((rc = stet_scan_next(scan, &key, &val)) == 1) {
		size_t n;

		if (key.bytes <= KEY_HEAD)
			return STET_FAIL(-EUCLEAN, "xattr without a name");
		n = key.bytes - KEY_HEAD;
		if (cap > 0 && n + 1 > cap - len)
			return -ERANGE;
		if (cap > 0) {
			memcpy(buf + len, key.b + KEY_HEAD, n);
			buf[len + n] = '\0';
		}
		len += n + 1;
	}
	if (!rc)
		*ret_len = len;
	return rc;
}

int stet_fs_xattr_list(struct stet_fs_ctx *ctx, uint64_t ino, char *buf, size_t cap,
		       size_t *ret_len)
{
	const char first = HIDDEN + 1; /* X2 */
	struct stet_key from, to;
	struct stet_scan *scan;
	struct fs_inode in;
	int rc = stet_fs_read_lock_(ctx, STET_LOCK_XATTR, ino, ALL_NAMES, STET_LOCK_S);

	if (!rc)
		rc = stet_inode_get_(ctx, ino, STET_ATTR_EXISTS, &in);
	if (rc)
		return rc;
	stet_key_xattr(&from, ino, &first, 1);
	stet_key_kind(&to, ino, STET_KIND_XATTR + 1);
	if (!stet_state_is_created_(ctx, ino))
		rc = stet_txn_read_range(ctx->txn, &from, &to);
	if (!rc)
		rc = stet_scan_open(ctx->txn, &from, &to, &scan);
	if (rc)
		return rc;
	rc = list_names(scan, buf, cap, ret_len);
	stet_scan_close(scan);
	return rc;
}
