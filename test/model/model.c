/* model.c - states of the model as persistent tries of shared inodes.
 *
 * P1. A state is a trie from inode number to inode. Tries, inodes and blobs are counted; whoever wants to
 *     change something that has more than one reference copies it first, along the way from the root.
 * P2. A state's hash is the sum of the hashes of its inodes that have a name, so changing one inode
 *     changes the sum by a difference.
 * P3. Pages that are all zero are not kept: a hole and zeros are the same content.
 */
#include "model_internal.h"

#include "base/assert.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FAN_BITS 5u
#define FAN (1u << FAN_BITS)
#define LEVELS 4u

struct trie {
	uint32_t refs;
	void *slot[FAN]; /* struct trie, at the last level struct model_inode */
};

struct model {
	uint32_t refs;
	struct trie *root;
	struct model_hash hash;
	uint64_t inodes, pages;
};

void *model_alloc_(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p)
		abort();
	return p;
}

void *model_realloc_(void *p, size_t bytes)
{
	p = realloc(p, bytes ? bytes : 1);
	if (!p)
		abort();
	return p;
}

/* --- hashes --- */

static void mix(struct model_hash *h, uint64_t v)
{
	h->a = stet_mix64(h->a ^ v) + UINT64_C(0x9e3779b97f4a7c15);
	h->b = (h->b ^ (v * UINT64_C(0xd6e8feb86659fd93))) * UINT64_C(0xff51afd7ed558ccd);
	h->b ^= h->b >> 29;
}

static struct model_hash hash_bytes(const uint8_t *p, size_t len)
{
	struct model_hash h = { len, ~(uint64_t)len };
	uint64_t v;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&v, p, 8);
		mix(&h, v);
	}
	v = 0;
	memcpy(&v, p, len);
	mix(&h, v);
	return h;
}

static void mix_blob(struct model_hash *h, const struct model_blob *blob)
{
	mix(h, blob->hash.a);
	mix(h, blob->hash.b);
}

static struct model_hash hash_inode(const struct model_inode *i)
{
	const uint64_t fields[] = {
		i->ino,
		(uint64_t)i->mode << 32 | i->nlink,
		(uint64_t)i->uid << 32 | i->gid,
		i->size,
		i->rdev,
		i->parent,
		(uint64_t)i->atime_ns,
		(uint64_t)i->mtime_ns,
		(uint64_t)i->ctime_ns,
		(uint64_t)i->btime_ns,
		i->entry_count,
		i->xattr_count,
		i->page_count,
	};
	struct model_hash h = { 1, 2 };

	if (i->nlink == 0)
		return (struct model_hash){ 0, 0 }; /* P2 */
	for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++)
		mix(&h, fields[k]);
	if (i->target)
		mix_blob(&h, i->target);
	for (size_t k = 0; k < i->entry_count; k++) {
		mix_blob(&h, i->entries[k].name);
		mix(&h, i->entries[k].ino << 8 | i->entries[k].type);
	}
	for (size_t k = 0; k < i->xattr_count; k++) {
		mix_blob(&h, i->xattrs[k].name);
		mix_blob(&h, i->xattrs[k].value);
	}
	for (size_t k = 0; k < i->page_count; k++) {
		mix(&h, i->pages[k].no);
		mix_blob(&h, i->pages[k].bytes);
	}
	return h;
}

bool model_hash_equal(struct model_hash a, struct model_hash b)
{
	return a.a == b.a && a.b == b.b;
}

struct model_hash model_state_hash(const struct model *m)
{
	return m->hash;
}

/* --- blobs --- */

struct model_blob *model_blob_(const void *bytes, size_t len)
{
	struct model_blob *blob = model_alloc_(sizeof(*blob) + len);

	blob->refs = 1;
	blob->len = (uint32_t)len;
	if (len > 0)
		memcpy(blob->b, bytes, len);
	blob->hash = hash_bytes(blob->b, len);
	return blob;
}

struct model_blob *model_blob_get_(struct model_blob *blob)
{
	if (blob)
		blob->refs++;
	return blob;
}

void model_blob_put_(struct model_blob *blob)
{
	if (blob && --blob->refs == 0)
		free(blob);
}

/* --- inodes --- */

struct model_inode *model_inode_create(uint64_t ino)
{
	struct model_inode *inode = model_alloc_(sizeof(*inode));

	inode->refs = 1;
	inode->ino = ino;
	return inode;
}

void model_inode_put(struct model_inode *inode)
{
	if (!inode || --inode->refs > 0)
		return;
	for (size_t k = 0; k < inode->entry_count; k++)
		model_blob_put_(inode->entries[k].name);
	for (size_t k = 0; k < inode->xattr_count; k++) {
		model_blob_put_(inode->xattrs[k].name);
		model_blob_put_(inode->xattrs[k].value);
	}
	for (size_t k = 0; k < inode->page_count; k++)
		model_blob_put_(inode->pages[k].bytes);
	model_blob_put_(inode->target);
	free(inode->entries);
	free(inode->xattrs);
	free(inode->pages);
	free(inode);
}

static void *copy_array(const void *v, size_t n, size_t item_bytes)
{
	void *copy = model_alloc_(n * item_bytes);

	if (n > 0)
		memcpy(copy, v, n * item_bytes);
	return copy;
}

static struct model_inode *inode_copy(const struct model_inode *from)
{
	struct model_inode *to = model_alloc_(sizeof(*to));

	*to = *from;
	to->refs = 1;
	to->target = model_blob_get_(from->target);
	to->entries = copy_array(from->entries, from->entry_count, sizeof(*from->entries));
	to->xattrs = copy_array(from->xattrs, from->xattr_count, sizeof(*from->xattrs));
	to->pages = copy_array(from->pages, from->page_count, sizeof(*from->pages));
	for (size_t k = 0; k < to->entry_count; k++)
		model_blob_get_(to->entries[k].name);
	for (size_t k = 0; k < to->xattr_count; k++) {
		model_blob_get_(to->xattrs[k].name);
		model_blob_get_(to->xattrs[k].value);
	}
	for (size_t k = 0; k < to->page_count; k++)
		model_blob_get_(to->pages[k].bytes);
	return to;
}

static int compare_names(const struct model_blob *a, const void *name, size_t len)
{
	size_t n = a->len < len ? a->len : len;
	int order = n ? memcmp(a->b, name, n) : 0;

	return order ? order : (a->len > len) - (a->len < len);
}

/* The first entry not below the name. */
static size_t find_entry(const struct model_inode *dir, const void *name, size_t len)
{
	size_t k = 0;

	while (k < dir->entry_count && compare_names(dir->entries[k].name, name, len) < 0)
		k++;
	return k;
}

const struct model_entry *model_entry(const struct model_inode *dir, const void *name, size_t len)
{
	size_t k = find_entry(dir, name, len);

	return k < dir->entry_count && compare_names(dir->entries[k].name, name, len) == 0
		       ? &dir->entries[k]
		       : NULL;
}

/* Makes a gap of one item at `at` in an array of n. */
#define OPEN_GAP(array, n, at)                                            \
	((array) = model_realloc_((array), ((n) + 1) * sizeof(*(array))), \
	 memmove((array) + (at) + 1, (array) + (at), ((n) - (at)) * sizeof(*(array))), (n)++)
#define CLOSE_GAP(array, n, at) \
	(memmove((array) + (at), (array) + (at) + 1, ((n) - (at)-1) * sizeof(*(array))), (n)--)

void model_add_entry(struct model_inode *dir, const void *name, size_t len, uint64_t ino,
		     uint8_t type)
{
	size_t k = find_entry(dir, name, len);

	OPEN_GAP(dir->entries, dir->entry_count, k);
	dir->entries[k] = (struct model_entry){ model_blob_(name, len), ino, type };
}

bool model_remove_entry_(struct model_inode *dir, const void *name, size_t len)
{
	size_t k = find_entry(dir, name, len);

	if (!model_entry(dir, name, len))
		return false;
	model_blob_put_(dir->entries[k].name);
	CLOSE_GAP(dir->entries, dir->entry_count, k);
	return true;
}

static size_t find_xattr(const struct model_inode *inode, const void *name, size_t len)
{
	size_t k = 0;

	while (k < inode->xattr_count && compare_names(inode->xattrs[k].name, name, len) < 0)
		k++;
	return k;
}

const struct model_xattr *model_xattr(const struct model_inode *inode, const void *name, size_t len)
{
	size_t k = find_xattr(inode, name, len);

	return k < inode->xattr_count && compare_names(inode->xattrs[k].name, name, len) == 0
		       ? &inode->xattrs[k]
		       : NULL;
}

void model_add_xattr(struct model_inode *inode, const void *name, size_t len, const void *value,
		     size_t value_len)
{
	size_t k = find_xattr(inode, name, len);

	OPEN_GAP(inode->xattrs, inode->xattr_count, k);
	inode->xattrs[k] = (struct model_xattr){ model_blob_(name, len),
						 model_blob_(value, value_len) };
}

bool model_remove_xattr_(struct model_inode *inode, const void *name, size_t len)
{
	size_t k = find_xattr(inode, name, len);

	if (!model_xattr(inode, name, len))
		return false;
	model_blob_put_(inode->xattrs[k].name);
	model_blob_put_(inode->xattrs[k].value);
	CLOSE_GAP(inode->xattrs, inode->xattr_count, k);
	return true;
}

/* The name that stands for a record. */
static size_t mark_key(const void *key, size_t len, uint8_t name[1 + STET_RECORD_KEY_MAX])
{
	name[0] = MODEL_RECORD_MARK;
	memcpy(name + 1, key, len);
	return len + 1;
}

const struct model_xattr *model_record(const struct model_inode *inode, const void *key, size_t len)
{
	uint8_t name[1 + STET_RECORD_KEY_MAX];

	return model_xattr(inode, name, mark_key(key, len, name));
}

void model_add_record(struct model_inode *inode, const void *key, size_t len, const void *value,
		      size_t value_len)
{
	uint8_t name[1 + STET_RECORD_KEY_MAX];

	model_add_xattr(inode, name, mark_key(key, len, name), value, value_len);
}

bool model_remove_record_(struct model_inode *inode, const void *key, size_t len)
{
	uint8_t name[1 + STET_RECORD_KEY_MAX];

	return model_remove_xattr_(inode, name, mark_key(key, len, name));
}

void model_set_target(struct model_inode *inode, const void *target, size_t len)
{
	model_blob_put_(inode->target);
	inode->target = model_blob_(target, len);
}

/* --- content --- */

static size_t find_page(const struct model_inode *inode, uint64_t no)
{
	size_t lo = 0, hi = inode->page_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (inode->pages[mid].no < no)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static const struct model_blob *get_page(const struct model_inode *inode, uint64_t no)
{
	size_t k = find_page(inode, no);

	return k < inode->page_count && inode->pages[k].no == no ? inode->pages[k].bytes : NULL;
}

static void put_page(struct model_inode *inode, uint64_t no, const uint8_t *bytes)
{
	static const uint8_t zeros[STET_BLOCK_SIZE];
	size_t k = find_page(inode, no);
	bool there = k < inode->page_count && inode->pages[k].no == no;
	bool zero = memcmp(bytes, zeros, sizeof(zeros)) == 0;

	if (there)
		model_blob_put_(inode->pages[k].bytes);
	if (zero) { /* P3 */
		if (there)
			CLOSE_GAP(inode->pages, inode->page_count, k);
		return;
	}
	if (!there)
		OPEN_GAP(inode->pages, inode->page_count, k);
	inode->pages[k] = (struct model_page){ no, model_blob_(bytes, STET_BLOCK_SIZE) };
}

/* bytes NULL: zeros. */
static void overlay(struct model_inode *inode, uint64_t off, const uint8_t *bytes, size_t len)
{
	uint8_t block[STET_BLOCK_SIZE];

	while (len > 0) {
		uint64_t no = off / STET_BLOCK_SIZE;
		size_t at = (size_t)(off % STET_BLOCK_SIZE);
		size_t n = STET_BLOCK_SIZE - at < len ? STET_BLOCK_SIZE - at : len;
		const struct model_blob *old = get_page(inode, no);

		if (old)
			memcpy(block, old->b, sizeof(block));
		else
			memset(block, 0, sizeof(block));
		if (bytes)
			memcpy(block + at, bytes, n);
		else
			memset(block + at, 0, n);
		if (old || bytes)
			put_page(inode, no, block);
		off += n;
		len -= n;
		bytes = bytes ? bytes + n : NULL;
	}
}

void model_add_bytes(struct model_inode *inode, uint64_t off, const uint8_t *bytes, size_t len)
{
	overlay(inode, off, bytes, len);
}

void model_zero_(struct model_inode *inode, uint64_t off, uint64_t end)
{
	uint64_t first = (off + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;
	uint64_t last = end / STET_BLOCK_SIZE;

	if (off >= end)
		return;
	if (first > last) {
		overlay(inode, off, NULL, (size_t)(end - off));
		return;
	}
	overlay(inode, off, NULL, (size_t)(first * STET_BLOCK_SIZE - off));
	overlay(inode, last * STET_BLOCK_SIZE, NULL, (size_t)(end - last * STET_BLOCK_SIZE));
	for (size_t k = find_page(inode, first); k < inode->page_count;) {
		if (inode->pages[k].no >= last)
			break;
		model_blob_put_(inode->pages[k].bytes);
		CLOSE_GAP(inode->pages, inode->page_count, k);
	}
}

void model_read_(const struct model_inode *inode, uint64_t off, uint8_t *out, size_t len)
{
	while (len > 0) {
		size_t at = (size_t)(off % STET_BLOCK_SIZE);
		size_t n = STET_BLOCK_SIZE - at < len ? STET_BLOCK_SIZE - at : len;
		const struct model_blob *page = get_page(inode, off / STET_BLOCK_SIZE);

		if (page)
			memcpy(out, page->b + at, n);
		else
			memset(out, 0, n);
		off += n;
		out += n;
		len -= n;
	}
}

/* --- tries --- */

static unsigned slot_of(uint64_t ino, unsigned level)
{
	return (unsigned)(ino >> (FAN_BITS * (LEVELS - 1 - level))) & (FAN - 1);
}

static void trie_put(struct trie *t, unsigned level)
{
	if (!t || --t->refs > 0)
		return;
	for (unsigned k = 0; k < FAN; k++) {
		if (level + 1 < LEVELS)
			trie_put(t->slot[k], level + 1);
		else
			model_inode_put(t->slot[k]);
	}
	free(t);
}

/* The node in *at, not shared with anybody (P1). */
static struct trie *trie_own(struct trie **at, unsigned level)
{
	struct trie *old = *at;
	struct trie *copy;

	if (old && old->refs == 1)
		return old;
	copy = model_alloc_(sizeof(*copy));
	copy->refs = 1;
	for (unsigned k = 0; old && k < FAN; k++) {
		copy->slot[k] = old->slot[k];
		if (!copy->slot[k])
			continue;
		if (level + 1 < LEVELS)
			((struct trie *)copy->slot[k])->refs++;
		else
			((struct model_inode *)copy->slot[k])->refs++;
	}
	trie_put(old, level);
	*at = copy;
	return copy;
}

/* The slot of an inode in a trie that is not shared. */
static struct model_inode **own_slot(struct model *m, uint64_t ino)
{
	struct trie *t = trie_own(&m->root, 0);

	STET_ASSERT_CMP(ino, <, UINT64_C(1) << (FAN_BITS * LEVELS));
	for (unsigned level = 0; level + 1 < LEVELS; level++) {
		void **slot = &t->slot[slot_of(ino, level)];
		struct trie *child = *slot;

		t = trie_own(&child, level + 1);
		*slot = t;
	}
	return (struct model_inode **)&t->slot[slot_of(ino, LEVELS - 1)];
}

const struct model_inode *model_find(const struct model *m, uint64_t ino)
{
	const struct trie *t = m->root;

	if (ino >= UINT64_C(1) << (FAN_BITS * LEVELS))
		return NULL;
	for (unsigned level = 0; t && level + 1 < LEVELS; level++)
		t = t->slot[slot_of(ino, level)];
	return t ? t->slot[slot_of(ino, LEVELS - 1)] : NULL;
}

static int walk(const struct trie *t, unsigned level,
		int (*fn)(void *arg, const struct model_inode *inode), void *arg)
{
	int rc = 0;

	for (unsigned k = 0; t && k < FAN && !rc; k++) {
		if (!t->slot[k])
			continue;
		rc = level + 1 < LEVELS ? walk(t->slot[k], level + 1, fn, arg)
					: fn(arg, t->slot[k]);
	}
	return rc;
}

int model_walk(const struct model *m, int (*fn)(void *arg, const struct model_inode *inode),
	       void *arg)
{
	return walk(m->root, 0, fn, arg);
}

/* --- states --- */

struct model *model_create_empty(void)
{
	struct model *m = model_alloc_(sizeof(*m));

	m->refs = 1;
	return m;
}

struct model *model_create(uint32_t mode, int64_t now_ns)
{
	struct model *m = model_create_empty();
	struct model_inode *root = model_inode_create(STET_ROOT_INO);

	root->mode = S_IFDIR | mode;
	root->nlink = 1;
	root->parent = STET_ROOT_INO;
	root->atime_ns = root->mtime_ns = root->ctime_ns = root->btime_ns = now_ns;
	model_adopt(m, root);
	return m;
}

struct model *model_copy_(const struct model *m)
{
	struct model *copy = model_alloc_(sizeof(*copy));

	*copy = *m;
	copy->refs = 1;
	if (copy->root)
		copy->root->refs++;
	return copy;
}

struct model *model_get(struct model *m)
{
	m->refs++;
	return m;
}

void model_put(struct model *m)
{
	if (!m || --m->refs > 0)
		return;
	trie_put(m->root, 0);
	free(m);
}

static void take_out(struct model *m, const struct model_inode *inode)
{
	m->hash.a -= inode->hash.a;
	m->hash.b -= inode->hash.b;
	m->pages -= inode->page_count;
}

void model_seal_(struct model *m, struct model_inode *inode)
{
	inode->hash = hash_inode(inode);
	m->hash.a += inode->hash.a;
	m->hash.b += inode->hash.b;
	m->pages += inode->page_count;
}

struct model_inode *model_edit_(struct model *m, uint64_t ino)
{
	struct model_inode **slot;

	STET_ASSERT_CMP(m->refs, ==, 1);
	slot = own_slot(m, ino);
	STET_ASSERT(*slot);
	if ((*slot)->refs > 1) {
		struct model_inode *copy = inode_copy(*slot);

		model_inode_put(*slot);
		*slot = copy;
	}
	take_out(m, *slot);
	return *slot;
}

void model_adopt(struct model *m, struct model_inode *take_inode)
{
	struct model_inode **slot = own_slot(m, take_inode->ino);

	if (*slot) {
		take_out(m, *slot);
		model_inode_put(*slot);
	} else {
		m->inodes++;
	}
	*slot = take_inode;
	model_seal_(m, take_inode);
}

void model_drop_(struct model *m, uint64_t ino)
{
	struct model_inode **slot = own_slot(m, ino);

	STET_ASSERT(*slot);
	take_out(m, *slot);
	model_inode_put(*slot);
	*slot = NULL;
	m->inodes--;
}

void model_counts(const struct model *m, uint64_t *ret_inodes, uint64_t *ret_pages)
{
	*ret_inodes = m->inodes;
	*ret_pages = m->pages;
}

/* --- reclaim --- */

void model_reclaim(struct model **m, uint64_t ino)
{
	const struct model_inode *inode = model_find(*m, ino);
	struct model *next;

	if (!inode || inode->nlink > 0)
		return;
	next = model_copy_(*m);
	model_drop_(next, ino);
	model_put(*m);
	*m = next;
}

struct nameless {
	uint64_t ino[4096];
	size_t count;
};

static int note_nameless(void *arg, const struct model_inode *inode)
{
	struct nameless *list = arg;

	if (inode->nlink == 0 && list->count < sizeof(list->ino) / sizeof(list->ino[0]))
		list->ino[list->count++] = inode->ino;
	return 0;
}

void model_reclaim_all(struct model **m)
{
	struct nameless *list = model_alloc_(sizeof(*list));

	do {
		list->count = 0;
		model_walk(*m, note_nameless, list);
		for (size_t k = 0; k < list->count; k++)
			model_reclaim(m, list->ino[k]);
	} while (list->count > 0);
	free(list);
}
