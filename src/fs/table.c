/* table.c - record tables: one record at a time.
 *
 * A table is an inode of a type of its own. Its records are catalog items, RECORD <key>; its size counts them. A
 * value up to STET_RECORD_INLINE_MAX bytes is in its item. A larger one lies in the table's file blocks
 * n * STET_RECORD_BLOCKS on, as a file's data lies in its blocks, where n is given by the inode counter.
 *
 * B1. So two values, even of different times, never share a block number: a value is written once and replaced as
 *     one, and whoever has the record unchanged has its bytes unchanged. Nothing is ever patched.
 * B2. A value is mapped whole by extents; where it is not, reading it gives -EUCLEAN, never zeros.
 * B3. The extents of a value go with it. Those that the transaction sees are deleted at once; but the log may have
 *     split one meanwhile, so whoever frees a value that others know notes it, and looks again when it is
 *     ordered (table_settle). The note counts only if the first extent is still deleted then: what the
 *     transaction has taken back since stays.
 * B4. The counts (records, blocks) are added to by intents: changes of different records do not meet. What a record
 *     is when its transaction is ordered is what the transaction saw: it is locked, and unchanged.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

/* Space that the items of a value's extents take in log and tree. */
#define EXTENTS_META(blocks) \
	(((uint64_t)(blocks) / 16 + 2) * STET_META_EXTENT_HEAD_ + (uint64_t)(blocks) * sizeof(le32))

/* --- locks --- */

static int lock_records(struct stet_fs_ctx *ctx, const struct stet_lock_name *name,
			enum stet_lock_mode mode)
{
	if (stet_state_is_created_(ctx, name->object))
		return 0;
	return stet_txn_lock(ctx->txn, name, mode, ctx->wait, ctx->ticket);
}

int stet_record_lock_(struct stet_fs_ctx *ctx, uint64_t table, const struct stet_key *key,
		      enum stet_lock_mode mode)
{
	const struct stet_lock_name name = stet_lock_record(table, key->b + STET_KEY_HEAD,
							    key->bytes - STET_KEY_HEAD);

	return lock_records(ctx, &name, mode);
}

int stet_record_range_lock_(struct stet_fs_ctx *ctx, uint64_t table, const struct stet_key *from,
			    const struct stet_key *to, enum stet_lock_mode mode)
{
	bool to_end = stet_key_get_kind(to->b) != STET_KIND_RECORD;
	const struct stet_lock_name name = stet_lock_records(
		table, from->b + STET_KEY_HEAD, from->bytes - STET_KEY_HEAD,
		to_end ? NULL : to->b + STET_KEY_HEAD, to_end ? 0 : to->bytes - STET_KEY_HEAD);

	if (stet_txn_level(ctx->txn) != STET_LEVEL_LOCKING ||
	    stet_key_cmp(from->b, from->bytes, to->b, to->bytes) >= 0)
		return 0;
	return lock_records(ctx, &name, mode);
}

/* --- looking --- */

int stet_table_get_(struct stet_fs_ctx *ctx, uint64_t table, uint32_t mask, struct fs_inode *ret)
{
	int rc = stet_inode_get_(ctx, table, mask, ret);

	if (!rc && !STET_MODE_IS_TABLE(ret->i.mode))
		return STET_FAIL(-EINVAL, "inode %" PRIu64 " is not a table", table);
	return rc;
}

static int make_key(struct stet_key *key, uint64_t table, struct stet_fs_key name)
{
	if (name.len == 0 || name.len > STET_RECORD_KEY_MAX)
		return STET_FAIL(-EINVAL, "a key of %zu bytes", name.len);
	stet_key_record(key, table, name.bytes, name.len);
	return 0;
}

int stet_record_decode_(struct stet_fs_ctx *ctx, const struct stet_val *val,
			struct stet_fs_record *ret)
{
	uint32_t seg_blocks = stet_engine_superblock(stet_txn_engine(ctx->txn))->seg_blocks;
	struct stet_xattr x;
	int rc = stet_xattr_decode(val->b, val->bytes, STET_KIND_RECORD, seg_blocks, &x);

	if (rc)
		return rc;
	if (!x.data && x.chunks == 0)
		return STET_FAIL(-EUCLEAN, "a record of a form never written");
	ret->data = x.data;
	ret->size = x.size_bytes;
	ret->first = x.data ? 0 : x.chunks;
	return 0;
}

/* -ENOENT */
static int find(struct stet_fs_ctx *ctx, const struct stet_key *key, struct stet_fs_record *ret)
{
	int rc = stet_txn_get(ctx->txn, key, &ret->val);

	return rc ? rc : stet_record_decode_(ctx, &ret->val, ret);
}

static int note_read(struct stet_fs_ctx *ctx, uint64_t table, const struct stet_key *key)
{
	return stet_state_is_created_(ctx, table) ? 0 : stet_txn_read_key(ctx->txn, key, 0);
}

int stet_fs_record_get(struct stet_fs_ctx *ctx, uint64_t table, struct stet_fs_key name,
		       bool update, struct stet_fs_record *ret)
{
	struct fs_inode in;
	struct stet_key key;
	int rc = make_key(&key, table, name);

	if (!rc)
		rc = stet_table_get_(ctx, table, STET_ATTR_EXISTS, &in);
	if (!rc && stet_txn_level(ctx->txn) == STET_LEVEL_LOCKING)
		rc = stet_record_lock_(ctx, table, &key, update ? STET_LOCK_X : STET_LOCK_S);
	if (!rc)
		rc = note_read(ctx, table, &key);
	return rc ? rc : find(ctx, &key, ret);
}

int stet_fs_record_plan(struct stet_fs_ctx *ctx, uint64_t table,
			const struct stet_fs_record *record, uint8_t *buf, struct stet_fs_fill *ret)
{
	*ret = (struct stet_fs_fill){ 0 };
	if (record->data) {
		if (record->size > 0)
			memcpy(buf, record->data, record->size);
		return 0;
	}
	return stet_data_plan_whole_(ctx, table, record->first, record->size, buf, ret);
}

int stet_fs_record_count(struct stet_fs_ctx *ctx, uint64_t table, uint64_t *ret)
{
	struct stet_key from, to;
	struct fs_inode in;
	int rc;

	stet_key_kind(&from, table, STET_KIND_RECORD);
	stet_key_kind(&to, table, STET_KIND_RECORD + 1);
	rc = stet_record_range_lock_(ctx, table, &from, &to, STET_LOCK_S);
	if (!rc)
		rc = stet_table_get_(ctx, table, STET_ATTR_EXISTS | STET_ATTR_COUNT_, &in);
	if (!rc)
		*ret = in.i.size;
	return rc;
}

/* --- values in blocks --- */

/* Deletes what the transaction sees of a value's extents. *ret_blocks: how many they map; *ret_others: whether
 * others know one of them. */
static int delete_extents(struct stet_fs_ctx *ctx, uint64_t table, uint64_t first,
			  uint64_t *ret_blocks, bool *ret_others)
{
	uint32_t seg_blocks = stet_engine_superblock(stet_txn_engine(ctx->txn))->seg_blocks;
	struct stet_key from, to, key;
	struct stet_scan *scan;
	struct fs_extent x;
	int rc;

	*ret_blocks = 0;
	*ret_others = false;
	stet_key_extent(&from, table, first);
	stet_key_extent(&to, table, first + STET_RECORD_BLOCKS);
	rc = stet_scan_open(ctx->txn, &from, &to, &scan);
	if (rc)
		return rc;
	while ((rc = stet_scan_next(scan, &key, &x.val)) == 1) {
		rc = stet_extent_load_(&key, seg_blocks, &x);
		if (rc)
			break;
		*ret_blocks += x.count;
		*ret_others = *ret_others || x.birth != 0;
		rc = stet_txn_del(ctx->txn, &key);
		if (rc)
			break;
	}
	stet_scan_close(scan);
	return rc;
}

/* The blocks of a value that goes. */
static int free_value(struct stet_fs_ctx *ctx, uint64_t table, const struct stet_fs_record *record)
{
	uint64_t blocks;
	bool others;
	int rc = delete_extents(ctx, table, record->first, &blocks, &others);

	if (rc)
		return rc;
	if (blocks != stet_blocks_(record->size))
		return STET_FAIL(-EUCLEAN, "table %" PRIu64 ": %" PRIu64 " blocks of a value of %u",
				 table, blocks, record->size);
	if (!others || stet_state_direct_(ctx, table))
		return 0;
	return stet_state_freed_(ctx, table, record->first); /* B3 */
}

/* B3 */
int stet_table_settle_(struct stet_fs_ctx *ctx, const struct fs_freed *freed)
{
	struct stet_key head;
	struct stet_val val;
	uint64_t blocks;
	bool others;
	int rc;

	stet_key_extent(&head, freed->table, freed->first);
	rc = stet_txn_get(ctx->txn, &head, &val);
	if (rc != -ENOENT)
		return rc;
	return delete_extents(ctx, freed->table, freed->first, &blocks, &others);
}

/* A value's blocks, in buffers. */
struct outline {
	uint64_t first;
	size_t n;
	uint16_t most; /* blocks of an extent */
	struct stet_databuf *buf[STET_RECORD_BLOCKS];
};

static void release_outline(struct outline *o)
{
	while (o->n > 0)
		stet_databuf_put(o->buf[--o->n]);
}

/* All that may fail for memory, before anything is changed. */
static int fill_outline(struct stet_fs_ctx *ctx, const uint8_t *value, size_t len,
			struct outline *o)
{
	struct stet_cache *cache = stet_engine_cache(stet_txn_engine(ctx->txn));
	size_t step;
	int rc = 0;

	o->n = 0;
	o->most = stet_extent_max_(ctx);
	step = (size_t)o->most << STET_BLOCK_SHIFT;
	for (size_t at = 0; at < len && !rc; at += step) {
		size_t n = len - at < step ? len - at : step;

		rc = stet_databuf_create(cache, (uint16_t)stet_blocks_(n), &o->buf[o->n]);
		if (!rc)
			memcpy(o->buf[o->n++]->data, value + at, n);
	}
	if (rc)
		release_outline(o);
	return rc;
}

/* B1 */
static int number_outline(struct stet_fs_ctx *ctx, struct outline *o)
{
	uint64_t number = stet_engine_next_ino(stet_txn_engine(ctx->txn));

	if (number >= STET_FILE_BLOCKS_MAX / STET_RECORD_BLOCKS)
		return STET_FAIL(-ENOSPC, "no more numbers for values");
	o->first = number * STET_RECORD_BLOCKS;
	return 0;
}

static int put_outline(struct stet_fs_ctx *ctx, uint64_t table, const struct outline *o)
{
	struct stet_key key;
	int rc = 0;

	for (size_t i = 0; i < o->n && !rc; i++) {
		stet_key_extent(&key, table, o->first + i * o->most);
		rc = stet_txn_put_buf(ctx->txn, &key, o->buf[i], 0, o->buf[i]->block_count, 0);
	}
	return rc;
}

/* --- changing --- */

struct change {
	uint64_t table;
	struct stet_key key;
	bool exists;
	struct stet_fs_record old;
};

static uint64_t old_blocks(const struct change *c)
{
	return c->exists && !c->old.data ? stet_blocks_(c->old.size) : 0;
}

static int lock_for_change(struct stet_fs_ctx *ctx, const struct change *c)
{
	int rc = stet_fs_exists_lock_(ctx, c->table);

	if (!rc)
		rc = stet_record_lock_(ctx, c->table, &c->key, STET_LOCK_X);
	if (rc || stet_state_is_created_(ctx, c->table))
		return rc;
	return stet_txn_unchanged(ctx->txn, &c->key, 0);
}

static int find_old(struct stet_fs_ctx *ctx, unsigned flags, struct change *c)
{
	int rc = 0, refusal = 0;

	if (flags & (STET_FS_RECORD_CREATE | STET_FS_RECORD_REPLACE))
		rc = note_read(ctx, c->table, &c->key);
	if (!rc)
		rc = find(ctx, &c->key, &c->old);
	c->exists = rc == 0;
	if (rc && rc != -ENOENT)
		return rc;
	if (c->exists && (flags & STET_FS_RECORD_CREATE))
		refusal = -EEXIST;
	if (!c->exists && (flags & STET_FS_RECORD_REPLACE))
		refusal = -ENOENT;
	return refusal;
}

/* Reads, locks and reserves. As with names, what fails for what it finds takes no lock, but at LOCKING. */
static int change_prepare(struct stet_fs_ctx *ctx, uint64_t table, struct stet_fs_key name,
			  unsigned flags, bool removes, size_t new_size, struct change *c)
{
	bool locking = stet_txn_level(ctx->txn) == STET_LEVEL_LOCKING;
	bool outline = new_size > STET_RECORD_INLINE_MAX;
	uint64_t blocks = outline ? stet_blocks_(new_size) : 0;
	struct fs_inode in;
	uint64_t meta;
	int rc = stet_fs_writable_(ctx);

	c->table = table;
	if (!rc)
		rc = make_key(&c->key, table, name);
	if (!rc)
		rc = stet_table_get_(ctx, table, STET_ATTR_EXISTS, &in);
	if (!rc && locking)
		rc = lock_for_change(ctx, c);
	if (!rc)
		rc = find_old(ctx, flags, c);
	if (!rc && !locking)
		rc = lock_for_change(ctx, c);
	if (rc)
		return rc;
	meta = STET_META_INODE_ + STET_META_RECORD_(name.len, outline ? 0 : new_size);
	if (outline)
		meta += EXTENTS_META(blocks);
	if (old_blocks(c) > 0)
		meta += EXTENTS_META(old_blocks(c));
	return stet_txn_reserve(ctx->txn, blocks, meta, removes, ctx->ticket);
}

/* The counts, the times, and that the table was changed. */
static int touch(struct stet_fs_ctx *ctx, uint64_t table, int64_t records, int64_t blocks)
{
	struct stet_inode_intent n;
	int rc;

	stet_intent_init_(ctx, &n, STET_TOUCH_DATA_);
	n.entries = records;
	n.blocks = blocks;
	rc = stet_intent_send_(ctx, table, &n, NULL);
	return rc ? rc : stet_state_claim_(ctx, table, STET_CLAIM_ALIVE);
}

static int put_inline(struct stet_fs_ctx *ctx, const struct change *c, const uint8_t *value,
		      size_t len)
{
	uint8_t coded[STET_VALUE_MAX];

	coded[0] = STET_XATTR_INLINE;
	if (len > 0)
		memcpy(coded + 1, value, len);
	return stet_txn_put(ctx->txn, &c->key, coded, 1 + len);
}

static int put_head(struct stet_fs_ctx *ctx, const struct change *c, const struct outline *o,
		    size_t len)
{
	const struct stet_xattr x = { .size_bytes = (uint32_t)len, .chunks = o->first };
	uint8_t coded[STET_XATTR_CHUNKED_BYTES];

	return stet_txn_put(ctx->txn, &c->key, coded, stet_xattr_encode(&x, coded));
}

static int apply_put(struct stet_fs_ctx *ctx, const struct change *c, const struct outline *o,
		     const uint8_t *value, size_t len)
{
	int64_t blocks = -(int64_t)old_blocks(c);
	int rc = 0;

	if (old_blocks(c) > 0)
		rc = free_value(ctx, c->table, &c->old);
	if (!rc && o->n > 0) {
		blocks += (int64_t)stet_blocks_(len);
		rc = put_outline(ctx, c->table, o);
		if (!rc)
			rc = put_head(ctx, c, o, len);
	} else if (!rc) {
		rc = put_inline(ctx, c, value, len);
	}
	if (!rc)
		rc = touch(ctx, c->table, c->exists ? 0 : 1, blocks);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}

int stet_fs_record_put(struct stet_fs_ctx *ctx, uint64_t table, struct stet_fs_key name,
		       const void *value, size_t len, unsigned flags)
{
	struct outline o = { .n = 0 };
	struct change c;
	int rc;

	if (flags & ~(STET_FS_RECORD_CREATE | STET_FS_RECORD_REPLACE) ||
	    flags == (STET_FS_RECORD_CREATE | STET_FS_RECORD_REPLACE))
		return STET_FAIL(-EINVAL, "a record either is there or not: flags %x", flags);
	if (len > STET_RECORD_SIZE_MAX)
		return STET_FAIL(-E2BIG, "a value of %zu bytes", len);
	rc = change_prepare(ctx, table, name, flags, false, len, &c);
	if (!rc && len > STET_RECORD_INLINE_MAX)
		rc = fill_outline(ctx, value, len, &o);
	if (!rc && o.n > 0)
		rc = number_outline(ctx, &o);
	if (!rc)
		rc = apply_put(ctx, &c, &o, value, len);
	release_outline(&o);
	return rc;
}

int stet_fs_record_del(struct stet_fs_ctx *ctx, uint64_t table, struct stet_fs_key name)
{
	struct change c;
	int rc = change_prepare(ctx, table, name, STET_FS_RECORD_REPLACE, true, 0, &c);

	if (rc)
		return rc;
	if (old_blocks(&c) > 0)
		rc = free_value(ctx, table, &c.old);
	if (!rc)
		rc = stet_txn_del(ctx->txn, &c.key);
	if (!rc)
		rc = touch(ctx, table, -1, -(int64_t)old_blocks(&c));
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}
