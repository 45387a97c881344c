/* touched.c - what a transaction touches, in the words of the public header.
 *
 * The keys of its write-set come in order: of each inode first INODE, then XATTRs, DIRENTs, EXTENTs, RECORDs. So
 * what becomes of the inode and its old size are known when the rest arrives.
 *
 * Whether data was added or changed cannot be seen from the keys alone (the last block of a file is
 * rewritten by an append). So while there is a watch, each change of data notes its lowest offset
 * with the transaction (stet_api_note_dirty_); without a note it counts as changed.
 */
#include "api/api_internal.h"

#include "format/value.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct collector {
	struct stet_tx *tx;
	struct stet_api_touched *out;
};

/* The entry of the inode, which is the last one if it exists already (keys rise). */
static int entry_of(struct stet_api_touched *out, uint64_t ino, struct stet_ll_touched_ino **ret)
{
	struct stet_ll_touched_ino fresh = { .ino = ino };
	int rc = 0;

	if (out->inos.n == 0 || out->inos.v[out->inos.n - 1].ino != ino) {
		out->old_size = 0;
		rc = stet_vec_push(&out->inos, fresh);
	}
	if (!rc)
		*ret = &out->inos.v[out->inos.n - 1];
	return rc;
}

/* DATA when a byte below the old size may have changed, else GROWN. */
static unsigned data_change(const struct collector *c, uint64_t ino)
{
	struct stet_hash_node *node = stet_hash_find(&c->tx->dirty, ino);
	uint64_t from = 0;

	if (node)
		from = stet_container_of(node, struct stet_api_dirty, node)->from;
	return from < c->out->old_size ? STET_LL_TOUCHED_DATA : STET_LL_TOUCHED_GROWN;
}

static bool attributes_differ(const struct stet_inode *a, const struct stet_inode *b)
{
	return a->mode != b->mode || a->uid != b->uid || a->gid != b->gid || a->nlink != b->nlink ||
	       a->atime_ns != b->atime_ns || a->mtime_ns != b->mtime_ns || a->size != b->size ||
	       a->parent != b->parent;
}

static unsigned our_bits(const struct stet_inode *a, const struct stet_inode *b)
{
	bool owner = a->mode != b->mode || a->uid != b->uid || a->gid != b->gid ||
		     a->atime_ns != b->atime_ns;

	return (owner ? STET_API_TOUCHED_OWNER : 0) |
	       (a->mtime_ns != b->mtime_ns ? STET_API_TOUCHED_MTIME : 0);
}

static unsigned inode_change(const struct collector *c, uint64_t ino, const struct stet_inode *a,
			     const struct stet_inode *b)
{
	unsigned what = (attributes_differ(a, b) ? STET_LL_TOUCHED_ATTR : 0) | our_bits(a, b);
	uint32_t common = a->inline_bytes < b->inline_bytes ? a->inline_bytes : b->inline_bytes;

	if (a->nlink > 0 && b->nlink == 0)
		what |= STET_LL_TOUCHED_GONE;
	if ((a->mode & S_IFMT) != S_IFREG)
		return what;
	if (b->size < a->size || (common && memcmp(a->inline_data, b->inline_data, common) != 0))
		what |= STET_LL_TOUCHED_DATA;
	else if (b->size > a->size)
		what |= data_change(c, ino);
	return what;
}

static struct stet_change_attr attr_of(const struct stet_inode *inode)
{
	if (!inode || inode->nlink == 0)
		return (struct stet_change_attr){ 0 };
	return (struct stet_change_attr){
		.size = inode->size,
		.mode = inode->mode,
		.uid = inode->uid,
		.gid = inode->gid,
		.nlink = inode->nlink,
	};
}

static int add_inode(struct collector *c, uint64_t ino, const struct stet_val *old_val,
		     const struct stet_val *new_val)
{
	struct stet_ll_touched_ino *entry;
	struct stet_inode a, b;
	int rc = entry_of(c->out, ino, &entry);

	if (!rc && old_val)
		rc = stet_inode_decode(old_val->b, old_val->bytes, &a);
	if (!rc && new_val)
		rc = stet_inode_decode(new_val->b, new_val->bytes, &b);
	if (rc)
		return rc;
	c->out->old_size = old_val ? a.size : 0;
	if (!old_val)
		entry->what |= STET_LL_TOUCHED_NEW;
	if (!new_val)
		entry->what |= STET_LL_TOUCHED_GONE;
	if (old_val && new_val)
		entry->what |= inode_change(c, ino, &a, &b);
	return stet_vec_push(&c->out->attrs, ((struct stet_api_attrs){
						     .ino = ino,
						     .before = attr_of(old_val ? &a : NULL),
						     .after = attr_of(new_val ? &b : NULL),
					     }));
}

static int add_name(struct collector *c, const struct stet_key *key, const struct stet_val *old_val,
		    const struct stet_val *new_val)
{
	struct stet_ll_touched_name name = { .dir = stet_key_object(key->b) };
	struct stet_dirent a = { 0 }, b = { 0 };
	size_t len = key->bytes - STET_API_NAME_AT;
	char *copy;
	int rc = old_val ? stet_dirent_decode(old_val->b, old_val->bytes, &a) : 0;

	if (!rc && new_val)
		rc = stet_dirent_decode(new_val->b, new_val->bytes, &b);
	if (rc || a.ino == b.ino)
		return rc;
	copy = stet_alloc(len + 1);
	if (!copy)
		return STET_FAIL(-ENOMEM, "no memory to list changes");
	memcpy(copy, key->b + STET_API_NAME_AT, len);
	copy[len] = 0;
	name.old_ino = a.ino;
	name.new_ino = b.ino;
	name.name = copy;
	rc = stet_vec_push(&c->out->types, ((struct stet_api_types){ a.type, b.type }));
	if (!rc)
		rc = stet_vec_push(&c->out->names, name);
	if (rc)
		stet_free(copy);
	return rc;
}

static int add_key(void *arg, const struct stet_key *key, const struct stet_val *old_val,
		   const struct stet_val *new_val)
{
	struct collector *c = arg;
	uint64_t ino = stet_key_object(key->b);
	struct stet_ll_touched_ino *entry;
	uint8_t kind = stet_key_get_kind(key->b);
	int rc;

	if (ino == 0 || (!old_val && !new_val))
		return 0;
	if (kind == STET_KIND_INODE)
		return add_inode(c, ino, old_val, new_val);
	rc = entry_of(c->out, ino, &entry);
	if (rc)
		return rc;
	if (kind == STET_KIND_XATTR)
		entry->what |= STET_LL_TOUCHED_XATTR;
	else if (kind == STET_KIND_RECORD)
		entry->what |= STET_LL_TOUCHED_DATA;
	else if (kind == STET_KIND_EXTENT)
		entry->what |= data_change(c, ino);
	else if (kind == STET_KIND_DIRENT) {
		entry->what |= STET_LL_TOUCHED_NAMES;
		rc = add_name(c, key, old_val, new_val);
	}
	return rc;
}

static int by_ino(const void *a, const void *b)
{
	uint64_t x = ((const struct stet_ll_touched_ino *)a)->ino;
	uint64_t y = ((const struct stet_ll_touched_ino *)b)->ino;

	return (x > y) - (x < y);
}

static int by_attrs_ino(const void *a, const void *b)
{
	uint64_t x = ((const struct stet_api_attrs *)a)->ino;
	uint64_t y = ((const struct stet_api_attrs *)b)->ino;

	return (x > y) - (x < y);
}

/* Attributes of an inode whose own key has not changed. */
static int add_attrs(struct collector *c, uint64_t ino, uint64_t staged)
{
	struct stet_api_attrs attrs = { .ino = ino };
	struct stet_inode inode;
	struct stet_key key;
	struct stet_val val;
	int rc;

	stet_key_inode(&key, ino);
	rc = stet_txn_get(c->tx->txn, &key, &val);
	if (!rc)
		rc = stet_inode_decode(val.b, val.bytes, &inode);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	attrs.before = attrs.after = attr_of(&inode);
	attrs.after.size += staged;
	return stet_vec_push(&c->out->attrs, attrs);
}

struct staging {
	struct collector *c;
	size_t known, known_inos;
};

/* Appends, and bytes, that are staged until ordering have no keys yet. */
static int note_staged(const struct staging *s, uint64_t ino, unsigned what)
{
	struct stet_api_touched *out = s->c->out;
	struct stet_ll_touched_ino entry = { .ino = ino, .what = what | STET_LL_TOUCHED_ATTR };
	struct stet_ll_touched_ino *found =
		s->known_inos ? bsearch(&entry, out->inos.v, s->known_inos, sizeof(entry), by_ino)
			      : NULL;

	if (!found)
		return stet_vec_push(&out->inos, entry);
	if (what & STET_LL_TOUCHED_DATA)
		found->what |= STET_LL_TOUCHED_DATA;
	else if (!(found->what & (STET_LL_TOUCHED_DATA | STET_LL_TOUCHED_NEW)))
		found->what |= entry.what;
	return 0;
}

/* What is staged is part of the size. */
static int add_staged(void *arg, uint64_t ino, uint64_t more, bool changed)
{
	const struct staging *s = arg;
	int rc = note_staged(s, ino, changed ? STET_LL_TOUCHED_DATA : STET_LL_TOUCHED_GROWN);
	struct stet_api_attrs key = { .ino = ino };
	struct stet_api_attrs *found = s->known ? bsearch(&key, s->c->out->attrs.v, s->known,
							  sizeof(key), by_attrs_ino)
						: NULL;

	if (rc)
		return rc;
	if (!found)
		return add_attrs(s->c, ino, more);
	if (found->after.mode)
		found->after.size += more;
	return 0;
}

static int add_sizes(struct collector *c)
{
	struct stet_fs_ctx ctx = { .fs = c->tx->vol->fs, .txn = c->tx->txn };
	struct staging s = { .c = c, .known = c->out->attrs.n, .known_inos = c->out->inos.n };
	int rc = stet_fs_each_staged(&ctx, add_staged, &s);

	if (c->out->inos.n > s.known_inos)
		qsort(c->out->inos.v, c->out->inos.n, sizeof(*c->out->inos.v), by_ino);
	if (c->out->attrs.n > s.known)
		qsort(c->out->attrs.v, c->out->attrs.n, sizeof(*c->out->attrs.v), by_attrs_ino);
	return rc;
}

const struct stet_api_attrs *stet_api_attrs_of_(const struct stet_api_touched *touched,
						uint64_t ino)
{
	struct stet_api_attrs key = { .ino = ino };

	return touched->attrs.n ? bsearch(&key, touched->attrs.v, touched->attrs.n, sizeof(key),
					  by_attrs_ino)
				: NULL;
}

int stet_api_touched_collect_(struct stet_tx *tx, struct stet_api_touched *ret)
{
	struct collector c = { .tx = tx, .out = ret };
	int rc = stet_txn_changes(tx->txn, add_key, &c);

	return rc ? rc : add_sizes(&c);
}

void stet_api_touched_release_(struct stet_api_touched *touched)
{
	for (size_t i = 0; i < touched->names.n; i++)
		stet_free((void *)(uintptr_t)touched->names.v[i].name);
	stet_vec_release(&touched->names);
	stet_vec_release(&touched->types);
	stet_vec_release(&touched->inos);
	stet_vec_release(&touched->attrs);
}
