/* catalog.c - a check of the whole catalog, item by item, against the rules of fs.h and format.md 15.
 *
 * It knows nothing of what should be in the volume; it tells structural damage from mere difference.
 * One pass in key order collects what each inode says of itself and what the items say of it (object 0
 * with the orphans comes first, an inode before its entries and extents); then both are compared.
 */
#include "model_internal.h"
#include "world.h"

#include "base/hash.h"
#include "format/key.h"
#include "format/value.h"
#include "txn/lock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INO_MAX (UINT64_C(1) << 20)
#define SAID_MAX 6u

struct seen {
	bool inode, orphan, truncating;
	uint8_t dirent_type; /* of a name that leads here */
	uint32_t mode, flags, nlink;
	uint64_t size, subdirs, parent, blocks;
	uint64_t trunc_from; /* truncating: from this block on there may be anything */
	/* counted */
	uint64_t names, entries, dirs, extent_blocks, extent_end;
	uint64_t records, record_blocks;
	uint64_t named_in; /* a directory that has a name for it */
};

struct check {
	struct stet_text *t;
	struct seen *seen;
	uint64_t count;
	uint32_t seg_blocks;
	unsigned said;
};

static void say(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct check *c, const char *fmt, ...)
{
	char line[256];
	va_list args;

	if (c->said++ >= SAID_MAX)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	stet_text_printf(c->t, "  %s\n", line);
}

static struct seen *at(struct check *c, uint64_t ino)
{
	if (ino >= INO_MAX) {
		say(c, "inode number %" PRIu64, ino);
		ino = 0;
	}
	if (ino >= c->count) {
		uint64_t count = ino + 1024;

		c->seen = model_realloc_(c->seen, count * sizeof(*c->seen));
		memset(c->seen + c->count, 0, (count - c->count) * sizeof(*c->seen));
		c->count = count;
	}
	return &c->seen[ino];
}

static void see_inode(struct check *c, uint64_t ino, const struct stet_val *val)
{
	struct seen *s = at(c, ino);
	struct stet_inode i;

	if (stet_inode_decode(val->b, val->bytes, &i)) {
		say(c, "inode %" PRIu64 ": bad value", ino);
		return;
	}
	s->inode = true;
	s->mode = i.mode;
	s->flags = i.flags;
	s->nlink = i.nlink;
	s->size = i.size;
	s->subdirs = i.subdirs;
	s->parent = i.parent;
	s->blocks = i.blocks;
	if (i.flags & (STET_INODE_CTIME_COMMIT | STET_INODE_MTIME_COMMIT | STET_INODE_DATA_COMMIT))
		say(c, "inode %" PRIu64 ": symbols left (flags %x)", ino, i.flags);
}

static void see_dirent(struct check *c, uint64_t dir, const struct stet_val *val)
{
	struct stet_dirent d;
	struct seen *s;

	if (stet_dirent_decode(val->b, val->bytes, &d)) {
		say(c, "directory %" PRIu64 ": bad entry", dir);
		return;
	}
	s = at(c, dir);
	s->entries++;
	s->dirs += d.type == S_IFDIR >> 12;
	s = at(c, d.ino);
	s->names++;
	s->named_in = dir;
	if (s->names > 1 && s->dirent_type != d.type)
		say(c, "inode %" PRIu64 ": names of types %u and %u", d.ino, s->dirent_type,
		    d.type);
	s->dirent_type = d.type;
}

static void see_extent(struct check *c, uint64_t ino, uint64_t first, const struct stet_val *val)
{
	struct seen *s = at(c, ino);
	struct stet_extent e;
	uint64_t count = val->buf_count;

	if (!val->buf) {
		if (stet_extent_decode(val->b, val->bytes, c->seg_blocks, &e)) {
			say(c, "inode %" PRIu64 ": bad extent at %" PRIu64, ino, first);
			return;
		}
		count = e.block_count;
		if (e.birth == 0)
			say(c, "inode %" PRIu64 ": extent at %" PRIu64 " without birth", ino,
			    first);
	}
	if (first < s->extent_end)
		say(c,
		    "inode %" PRIu64 ": extent at %" PRIu64 " overlaps one that ends at %" PRIu64,
		    ino, first, s->extent_end);
	if (s->flags & STET_INODE_INLINE)
		say(c, "inode %" PRIu64 ": inline content and an extent at %" PRIu64, ino, first);
	s->extent_blocks += count;
	s->extent_end = first + count;
}

static void see_record(struct check *c, uint64_t ino, const struct stet_val *val)
{
	struct seen *s = at(c, ino);
	struct stet_xattr x;

	s->records++;
	if (!STET_MODE_IS_TABLE(s->mode))
		say(c, "inode %" PRIu64 ": a record, mode %o", ino, s->mode);
	if (stet_xattr_decode(val->b, val->bytes, STET_KIND_RECORD, c->seg_blocks, &x) ||
	    (!x.data && !x.chunks))
		say(c, "table %" PRIu64 ": bad record", ino);
	else if (!x.data)
		s->record_blocks += (x.size_bytes + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;
}

static void see_orphan(struct check *c, uint64_t ino, const struct stet_val *val)
{
	struct seen *s = at(c, ino);
	struct stet_orphan o;

	if (stet_orphan_decode(val->b, val->bytes, &o)) {
		say(c, "orphan %" PRIu64 ": bad value", ino);
		return;
	}
	s->orphan = o.flags & STET_ORPHAN_UNLINKED;
	s->truncating = o.flags & STET_ORPHAN_TRUNCATE;
	s->trunc_from = o.from_block;
}

static void see(struct check *c, const struct stet_key *key, const struct stet_val *val)
{
	uint64_t object = stet_key_object(key->b);

	if (stet_key_verify(key->b, key->bytes)) {
		say(c, "object %" PRIu64 ": bad key", object);
		return;
	}
	if (object != 0 && !at(c, object)->inode && stet_key_get_kind(key->b) != STET_KIND_INODE)
		say(c, "object %" PRIu64 ": items without an inode", object);
	switch (stet_key_get_kind(key->b)) {
	case STET_KIND_INODE:
		see_inode(c, object, val);
		break;
	case STET_KIND_DIRENT:
		see_dirent(c, object, val);
		break;
	case STET_KIND_EXTENT:
		see_extent(c, object, stet_key_suffix_u64(key->b), val);
		break;
	case STET_KIND_RECORD:
		see_record(c, object, val);
		break;
	case STET_KIND_ORPHAN:
		see_orphan(c, stet_key_suffix_u64(key->b), val);
		break;
	default:
		break;
	}
}

/* --- comparing --- */

static bool leads_to_root(const struct check *c, uint64_t ino)
{
	for (uint64_t steps = 0; steps <= c->count; steps++) {
		if (ino == STET_ROOT_INO)
			return true;
		if (ino >= c->count || !c->seen[ino].inode)
			return false;
		ino = c->seen[ino].parent;
	}
	return false;
}

static void check_dir(struct check *c, uint64_t ino, const struct seen *s)
{
	if (s->entries != s->size || s->dirs != s->subdirs)
		say(c,
		    "directory %" PRIu64 ": %" PRIu64 " names and %" PRIu64
		    " directories, says %" PRIu64 " and %" PRIu64,
		    ino, s->entries, s->dirs, s->size, s->subdirs);
	if (s->nlink == 0 && s->entries > 0)
		say(c, "directory %" PRIu64 ": removed, with %" PRIu64 " names", ino, s->entries);
	if (s->nlink == 0)
		return;
	if (ino != STET_ROOT_INO && s->named_in != s->parent)
		say(c, "directory %" PRIu64 ": parent %" PRIu64 ", named in %" PRIu64, ino,
		    s->parent, s->named_in);
	if (!leads_to_root(c, ino))
		say(c, "directory %" PRIu64 ": its parents do not lead to the root", ino);
}

static void check_file(struct check *c, uint64_t ino, const struct seen *s)
{
	uint64_t end = (s->size + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;

	if (s->blocks != s->extent_blocks)
		say(c, "inode %" PRIu64 ": %" PRIu64 " blocks in extents, says %" PRIu64, ino,
		    s->extent_blocks, s->blocks);
	if (s->extent_end > end && !s->truncating && s->nlink > 0)
		say(c, "inode %" PRIu64 ": extents up to block %" PRIu64 ", size %" PRIu64, ino,
		    s->extent_end, s->size);
}

static void check_table(struct check *c, uint64_t ino, const struct seen *s)
{
	if (s->blocks != s->extent_blocks)
		say(c, "table %" PRIu64 ": %" PRIu64 " blocks in extents, says %" PRIu64, ino,
		    s->extent_blocks, s->blocks);
	if (s->nlink == 0)
		return; /* some may be gone */
	if (s->size != s->records || s->blocks != s->record_blocks)
		say(c,
		    "table %" PRIu64 ": %" PRIu64 " records with %" PRIu64 " blocks, says %" PRIu64
		    " and %" PRIu64,
		    ino, s->records, s->record_blocks, s->size, s->blocks);
}

static void check_inode(struct check *c, uint64_t ino, const struct seen *s)
{
	uint64_t names = ino == STET_ROOT_INO ? 1 : s->names;

	if (!s->inode) {
		if (s->names > 0)
			say(c, "inode %" PRIu64 " is named in %" PRIu64 " and missing", ino,
			    s->named_in);
		if (s->orphan)
			say(c, "orphan %" PRIu64 " is missing", ino);
		return;
	}
	if (s->nlink != names)
		say(c, "inode %" PRIu64 ": %" PRIu64 " names, link count %u", ino, names, s->nlink);
	if (s->nlink == 0 && !s->orphan)
		say(c, "inode %" PRIu64 ": no links and no orphan", ino);
	if (s->nlink > 0 && s->orphan)
		say(c, "inode %" PRIu64 ": an orphan with %u links", ino, s->nlink);
	if (s->names > 0 && s->dirent_type != (s->mode & S_IFMT) >> 12)
		say(c, "inode %" PRIu64 ": mode %o, named as type %u", ino, s->mode,
		    s->dirent_type);
	if (S_ISDIR(s->mode))
		check_dir(c, ino, s);
	else if (STET_MODE_IS_TABLE(s->mode))
		check_table(c, ino, s);
	else
		check_file(c, ino, s);
}

/* What a scan gave, in whatever order. */
struct given {
	uint64_t items, sum;
};

static void add_given(struct given *g, const struct stet_key *key, const struct stet_val *val)
{
	g->items++;
	g->sum += stet_mix64(stet_lock_hash(key->b, key->bytes) ^ stet_lock_hash(val->b, val->bytes)
									  << 1);
}

static int scan_forwards(struct stet_txn *txn, const struct stet_key *to, struct check *c,
			 struct given *g)
{
	const struct stet_key from = { 0 };
	struct stet_scan *scan;
	struct stet_key key;
	struct stet_val val;
	int rc = stet_scan_open(txn, &from, to, &scan);

	if (rc)
		return rc;
	while ((rc = stet_scan_next(scan, &key, &val)) == 1) {
		see(c, &key, &val);
		add_given(g, &key, &val);
	}
	stet_scan_close(scan);
	return rc;
}

static int scan_backwards(struct stet_txn *txn, const struct stet_key *to, struct check *c,
			  struct given *g)
{
	const struct stet_key from = { 0 };
	struct stet_scan *scan;
	struct stet_key key, last;
	struct stet_val val;
	int rc = stet_scan_open_reverse(txn, &from, to, &scan);

	if (rc)
		return rc;
	stet_key_copy(&last, to);
	while ((rc = stet_scan_next(scan, &key, &val)) == 1) {
		if (stet_key_cmp(key.b, key.bytes, last.b, last.bytes) >= 0)
			say(c, "backwards: keys out of order");
		stet_key_copy(&last, &key);
		add_given(g, &key, &val);
	}
	stet_scan_close(scan);
	return rc;
}

static int scan_all(struct world *w, struct check *c)
{
	struct given there = { 0 }, back = { 0 };
	struct stet_key to = { .bytes = 9 };
	struct stet_txn *txn;
	int rc = stet_txn_begin(w->engine, STET_LEVEL_PLAIN, true, &txn);

	if (rc)
		return rc;
	memset(to.b, 0xff, 9);
	rc = scan_forwards(txn, &to, c, &there);
	if (!rc)
		rc = scan_backwards(txn, &to, c, &back);
	if (!rc && (there.items != back.items || there.sum != back.sum))
		say(c, "forwards %" PRIu64 " items, backwards %" PRIu64 ", or others", there.items,
		    back.items);
	stet_txn_end(txn);
	return rc;
}

int world_check_catalog(struct world *w, struct stet_text *t)
{
	struct check c = { .t = t, .seg_blocks = w->config.seg_blocks };
	int rc = scan_all(w, &c);

	if (rc)
		stet_text_printf(t, "  the scan fails: %s\n", stet_error_text());
	for (uint64_t ino = 1; ino < c.count && !rc; ino++)
		check_inode(&c, ino, &c.seen[ino]);
	free(c.seen);
	return rc ? rc : c.said ? -EUCLEAN : 0;
}
