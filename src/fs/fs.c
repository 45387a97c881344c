/* fs.c - the file system of one open volume, and what it registers with the engine.
 *
 * The hooks give meaning to catalog values: how intents on inodes merge, which values are the same
 * to a reader, and what "of the commit" turns into. They keep nothing; all state is the
 * transaction's (state.c) or the volume's (orphan.c).
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "fs/fs_internal.h"

int stet_fs_create(struct stet_fs **ret)
{
	struct stet_fs *fs = stet_calloc(1, sizeof(*fs));

	if (!fs)
		return STET_FAIL(-ENOMEM, "no memory for a file system");
	stet_orphan_init_(fs);
	*ret = fs;
	return 0;
}

void stet_fs_destroy(struct stet_fs *fs)
{
	if (!fs)
		return;
	stet_orphan_release_(fs);
	stet_free(fs);
}

void stet_fs_attach(struct stet_fs *fs, struct stet_engine *engine)
{
	fs->engine = engine;
}

/* --- hooks --- */

static int hook_merge(void *arg, const struct stet_key *key, const struct stet_val *base,
		      const void *intent, size_t intent_bytes, const struct stet_stamp *stamp,
		      struct stet_val *ret)
{
	(void)arg;
	STET_ASSERT_CMP(stet_key_get_kind(key->b), ==, STET_KIND_INODE);
	return stet_inode_merge_(base, intent, intent_bytes, stamp, ret);
}

static int hook_combine(void *arg, const struct stet_key *key, struct stet_buf *intent,
			const void *more, size_t more_bytes)
{
	(void)arg;
	STET_ASSERT_CMP(stet_key_get_kind(key->b), ==, STET_KIND_INODE);
	return stet_inode_combine_(intent, more, more_bytes);
}

static size_t hook_resolve(void *arg, const uint8_t *key, size_t key_bytes, uint8_t *value,
			   size_t value_bytes, const struct stet_stamp *stamp)
{
	struct stet_extent_disk *extent = (struct stet_extent_disk *)value;

	(void)arg;
	(void)key_bytes;
	switch (stet_key_get_kind(key)) {
	case STET_KIND_INODE:
		return stet_inode_resolve_(value, value_bytes, stamp);
	case STET_KIND_EXTENT:
		if (value_bytes >= sizeof(*extent) && le64_get(extent->birth) == 0)
			extent->birth = le64_make(stamp->serial);
		return value_bytes;
	default:
		return value_bytes;
	}
}

/* Content that became visible at one serial is one content; only how it is cut may differ. */
static bool same_extent(const struct stet_key *key, const struct stet_val *a,
			const struct stet_val *b)
{
	struct fs_extent x = { .val = *a }, y = { .val = *b };

	if (stet_extent_load_(key, STET_SEG_BLOCKS_MAX, &x) ||
	    stet_extent_load_(key, STET_SEG_BLOCKS_MAX, &y))
		return a->bytes == b->bytes && memcmp(a->b, b->b, a->bytes) == 0;
	if (x.birth != y.birth || x.count != y.count)
		return false;
	return x.val.buf || y.val.buf ||
	       memcmp(x.e.crcs, y.e.crcs, sizeof(le32) * (size_t)x.count) == 0;
}

static bool hook_same(void *arg, const struct stet_key *key, uint32_t mask,
		      const struct stet_val *a, const struct stet_val *b)
{
	uint8_t kind = stet_key_get_kind(key->b);

	(void)arg;
	if (kind == STET_KIND_INODE)
		return stet_inode_same_(mask, a, b);
	if (!a || !b)
		return !a && !b;
	if (kind == STET_KIND_EXTENT)
		return same_extent(key, a, b);
	return a->bytes == b->bytes && memcmp(a->b, b->b, a->bytes) == 0;
}

void stet_fs_hooks(struct stet_fs *fs, struct stet_engine_hooks *ret_hooks)
{
	*ret_hooks = (struct stet_engine_hooks){
		.merge = hook_merge,
		.combine = hook_combine,
		.resolve = hook_resolve,
		.same = hook_same,
		.order = stet_fs_order_,
		.staged = stet_fs_staged_,
		.reclaims = stet_fs_reclaims_,
		.arg = fs,
	};
}
