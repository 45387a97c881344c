/* scan.c - the current state, key by key: is each item well formed, and right beside its neighbours?
 *
 * Keys come in order of the inode number, and of an inode first its attributes, then xattrs, names,
 * extents, records. So one pass needs to remember only the inode at hand; what concerns other inodes (names) is
 * collected for names.c.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "check/check_internal.h"
#include "format/key.h"
#include "format/value.h"
#include "txn/txn.h"

/* What only runs may hold: the scan has it resolved. */
#define SYMBOLS (STET_INODE_CTIME_COMMIT | STET_INODE_MTIME_COMMIT | STET_INODE_DATA_COMMIT)

static struct stet_check_inode *current(struct stet_checker *c, uint64_t ino)
{
	if (c->inodes.n == 0)
		return NULL;
	struct stet_check_inode *last = &c->inodes.v[c->inodes.n - 1];
	return last->ino == ino ? last : NULL;
}

static int scan_inode(struct stet_checker *c, uint64_t ino, const struct stet_val *val)
{
	struct stet_inode in;
	struct stet_check_inode info = { .ino = ino };

	if (stet_inode_decode(val->b, val->bytes, &in))
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino, "%s", stet_error_text());
	if (in.flags & SYMBOLS) {
		int rc = stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino, "flags %#x", in.flags);

		if (rc)
			return rc;
	}
	info.size = in.size;
	info.parent = in.parent;
	info.blocks = in.blocks;
	info.subdirs = in.subdirs;
	info.mode = in.mode;
	info.nlink = in.nlink;
	info.has_inline = (in.flags & STET_INODE_INLINE) != 0;
	c->sum.inodes++;
	c->sum.directories += S_ISDIR(in.mode);
	return stet_vec_push(&c->inodes, info);
}

static int scan_dirent(struct stet_checker *c, uint64_t dir, const struct stet_val *val)
{
	struct stet_check_inode *info = current(c, dir);
	struct stet_dirent d;
	struct stet_check_name name;

	if (stet_dirent_decode(val->b, val->bytes, &d))
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, dir, "%s", stet_error_text());
	if (!info)
		return stet_check_report_(c, STET_PROBLEM_NO_INODE, dir, "a name of a directory");
	if (!S_ISDIR(info->mode))
		return stet_check_report_(c, STET_PROBLEM_NAME_NOT_DIR, dir, "mode %o", info->mode);
	info->found_names++;
	c->sum.names++;
	name = (struct stet_check_name){ .child = d.ino, .dir = dir, .type = d.type };
	return stet_vec_push(&c->names, name);
}

/* 0: the copy is right; 1: it is not. */
static int read_copy(struct stet_checker *c, const struct stet_extent *e, struct stet_addr addr)
{
	int rc = stet_cache_read(stet_engine_cache(c->engine), addr, STET_ADDR_NONE, e->block_count,
				 e->crcs, c->data);

	return rc == 0 || rc == -ENOMEM ? rc : 1;
}

/* Of a link the block that was read is the target. */
static int check_target(struct stet_checker *c, uint64_t ino)
{
	const struct stet_check_inode *info = current(c, ino);

	if (!S_ISLNK(info->mode) || info->size > STET_SYMLINK_MAX ||
	    !memchr(c->data, '\0', info->size))
		return 0;
	return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino, "a link with a NUL in its target");
}

static int read_extent(struct stet_checker *c, uint64_t ino, uint64_t first,
		       const struct stet_extent *e)
{
	enum stet_problem_id problem = STET_PROBLEM_DATA_UNREADABLE;
	int first_copy, second_copy = 1;

	if (c->flags & STET_CHECK_SKIP_DATA)
		return 0;
	first_copy = read_copy(c, e, e->addr);
	if (first_copy >= 0 && !stet_addr_is_none(e->addr2)) {
		second_copy = read_copy(c, e, e->addr2);
		if (first_copy + second_copy < 2)
			problem = STET_PROBLEM_DATA_COPY;
	}
	if (first_copy < 0 || second_copy < 0)
		return first_copy < 0 ? first_copy : second_copy;
	if (first_copy == 0 && (second_copy == 0 || stet_addr_is_none(e->addr2)))
		return check_target(c, ino);
	return stet_check_report_(c, problem, ino, "blocks %llu..%llu: %s",
				  (unsigned long long)first,
				  (unsigned long long)(first + e->block_count - 1),
				  stet_error_text());
}

static int place_extent(struct stet_checker *c, struct stet_check_inode *info, uint64_t first,
			uint32_t blocks)
{
	int rc = 0;

	if (info->extents > 0 && first < info->last_end)
		rc = stet_check_report_(c, STET_PROBLEM_EXTENT_OVERLAP, info->ino, "block %llu",
					(unsigned long long)first);
	info->extents++;
	info->last_end = first + blocks;
	info->found_blocks += blocks;
	if (!rc && STET_MODE_IS_TABLE(info->mode))
		return stet_check_table_extent_(c, first, blocks);
	uint64_t end_block = (info->size + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;
	if (first + blocks > end_block)
		info->beyond = first + blocks;
	if (!rc && info->has_inline)
		rc = stet_check_report_(c, STET_PROBLEM_EXTENT_INLINE, info->ino, "block %llu",
					(unsigned long long)first);
	return rc;
}

static int scan_extent(struct stet_checker *c, const struct stet_key *key,
		       const struct stet_val *val)
{
	uint32_t seg_blocks = stet_engine_superblock(c->engine)->seg_blocks;
	uint64_t ino = stet_key_object(key->b);
	uint64_t first = stet_key_suffix_u64(key->b);
	struct stet_check_inode *info = current(c, ino);
	uint32_t blocks = val->buf_count;
	struct stet_extent e;

	if (!val->buf) {
		if (stet_item_verify(key->b, key->bytes, val->b, val->bytes, seg_blocks) ||
		    stet_extent_decode(val->b, val->bytes, seg_blocks, &e))
			return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino, "%s",
						  stet_error_text());
		blocks = e.block_count;
	}
	if (!info)
		return stet_check_report_(c, STET_PROBLEM_NO_INODE, ino, "an extent");
	c->sum.extents++;
	c->sum.data_blocks += blocks;
	int rc = place_extent(c, info, first, blocks);
	if (rc || val->buf)
		return rc; /* in memory: rebuilt from the log, which was verified */
	rc = stet_check_extent_(c, &e, val->serial != 0, ino);
	return rc ? rc : read_extent(c, ino, first, &e);
}

static int scan_orphan(struct stet_checker *c, const struct stet_key *key,
		       const struct stet_val *val)
{
	struct stet_check_name o = { .child = stet_key_suffix_u64(key->b) };
	struct stet_orphan orphan;

	if (stet_orphan_decode(val->b, val->bytes, &orphan))
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, o.child, "%s",
					  stet_error_text());
	o.type = orphan.flags;
	c->sum.orphans++;
	return stet_vec_push(&c->orphans, o);
}

static int scan_xattr(struct stet_checker *c, const struct stet_key *key,
		      const struct stet_val *val)
{
	uint64_t ino = stet_key_object(key->b);

	if (!current(c, ino))
		return stet_check_report_(c, STET_PROBLEM_NO_INODE, ino, "an attribute");
	return stet_check_xattr_(c, ino, key, val);
}

static int end_inode(struct stet_checker *c)
{
	int rc = stet_check_xattrs_end_(c);

	return rc ? rc : stet_check_records_end_(c);
}

static int scan_item(struct stet_checker *c, const struct stet_key *key, const struct stet_val *val)
{
	uint64_t ino = stet_key_object(key->b);

	if (stet_key_verify(key->b, key->bytes))
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, 0, "%s", stet_error_text());
	if ((c->values.n > 0 || c->blocks.n > 0) && !current(c, ino)) {
		int rc = end_inode(c);

		if (rc)
			return rc;
	}
	switch (stet_key_get_kind(key->b)) {
	case STET_KIND_INODE:
		return scan_inode(c, ino, val);
	case STET_KIND_XATTR:
		return scan_xattr(c, key, val);
	case STET_KIND_DIRENT:
		return scan_dirent(c, ino, val);
	case STET_KIND_EXTENT:
		return scan_extent(c, key, val);
	case STET_KIND_RECORD:
		return stet_check_record_(c, ino, key, val);
	case STET_KIND_ORPHAN:
		return scan_orphan(c, key, val);
	default:
		break;
	}
	if (!val->buf && stet_item_verify(key->b, key->bytes, val->b, val->bytes,
					  stet_engine_superblock(c->engine)->seg_blocks))
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino, "%s", stet_error_text());
	if (ino != 0 && !current(c, ino))
		return stet_check_report_(c, STET_PROBLEM_NO_INODE, ino, "an attribute");
	return 0;
}

int stet_check_scan_(struct stet_checker *c)
{
	struct stet_key from = { .bytes = 0 };
	struct stet_key to = { .bytes = 0 };
	struct stet_key key;
	struct stet_val *val = stet_alloc(sizeof(*val));
	struct stet_txn *txn;
	struct stet_scan *scan;
	int rc;

	if (!val)
		return STET_FAIL(-ENOMEM, "no memory for a check");
	rc = stet_txn_begin(c->engine, STET_LEVEL_PLAIN, true, &txn);
	if (rc) {
		stet_free(val);
		return rc;
	}
	rc = stet_scan_open(txn, &from, &to, &scan);
	if (!rc) {
		while ((rc = stet_scan_next(scan, &key, val)) == 1) {
			rc = scan_item(c, &key, val);
			if (rc)
				break;
		}
		stet_scan_close(scan);
	}
	if (!rc)
		rc = end_inode(c);
	stet_txn_end(txn);
	stet_free(val);
	if (rc == -EIO || rc == -EUCLEAN)
		return stet_check_report_(c, STET_PROBLEM_NODE_UNREADABLE, 0, "%s",
					  stet_error_text());
	return rc;
}
