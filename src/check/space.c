/* space.c - the tree's nodes, and the segment table against what the root names.
 *
 * The table's live bitmaps must be exactly the blocks of the root's nodes (all copies) and of the extents
 * in its leaves. What only the log or the table itself needs is held, not live; of that, only what the
 * current state's extents name is looked at: each block must be theirs alone.
 */
#include "space/space.h"
#include "base/bitmap.h"
#include "base/mem.h"
#include "check/check_internal.h"
#include "format/key.h"
#include "format/node.h"
#include "format/value.h"

/* What is kept of each block: bitmaps, and the sets of them that functions take. */
enum { MAP_ROOT, MAP_NODE, MAP_TREE, MAP_LOG, MAPS };
#define ROOT (1u << MAP_ROOT) /* the root needs it */
#define NODE (1u << MAP_NODE) /* for a node */
#define TREE \
	(1u << MAP_TREE)    /* an extent of the current state names it, which the root holds too */
#define LOG (1u << MAP_LOG) /* one that only the log holds does */

static uint32_t map_words(const struct stet_checker *c)
{
	return stet_engine_superblock(c->engine)->seg_blocks / 64;
}

/* The maps of a slot, one behind the other. */
static uint64_t *slot_maps(struct stet_checker *c, uint32_t slot)
{
	if (!c->map[slot])
		c->map[slot] = stet_calloc((size_t)MAPS * map_words(c), sizeof(uint64_t));
	return c->map[slot];
}

/* Notes that blocks are in use, in the maps `as`; none of them may be in one of the maps `against`. */
static int use(struct stet_checker *c, struct stet_addr addr, uint32_t blocks, uint64_t ino,
	       unsigned as, unsigned against)
{
	uint32_t seg_blocks = stet_engine_superblock(c->engine)->seg_blocks;
	uint32_t slot = stet_space_slot(stet_engine_space(c->engine), stet_addr_seg(addr));
	uint32_t first = stet_addr_block(addr);

	if (slot == STET_SLOT_NONE || first + blocks > seg_blocks)
		return stet_check_report_(c, STET_PROBLEM_BLOCK_OUTSIDE, ino,
					  "%u blocks at %llu:%u", blocks,
					  (unsigned long long)stet_addr_seg(addr), first);
	uint64_t *maps = slot_maps(c, slot);
	if (!maps)
		return STET_FAIL(-ENOMEM, "no memory for a segment's bitmaps");
	for (uint32_t b = first; b < first + blocks; b++) {
		uint64_t bit = UINT64_C(1) << b % 64;
		uint64_t there = 0;
		int rc = 0;

		for (unsigned m = 0; m < MAPS; m++) {
			uint64_t *word = &maps[m * map_words(c) + b / 64];

			if (against >> m & 1)
				there |= *word & bit;
			if (as >> m & 1)
				*word |= bit;
		}
		if (there)
			rc = stet_check_report_(c, STET_PROBLEM_BLOCK_TWICE, ino, "block %llu:%u",
						(unsigned long long)stet_addr_seg(addr), b);
		if (rc)
			return rc;
	}
	return 0;
}

int stet_check_extent_(struct stet_checker *c, const struct stet_extent *e, bool logged,
		       uint64_t ino)
{
	unsigned as = logged ? LOG : TREE;
	/* What the root holds was compared with the root's when its nodes were visited. */
	unsigned against = logged ? NODE | TREE | LOG : LOG;
	int rc;

	if (!logged &&
	    stet_space_slot(stet_engine_space(c->engine), stet_addr_seg(e->addr)) == STET_SLOT_NONE)
		return 0;
	rc = use(c, e->addr, e->phys_blocks, ino, as, against);
	if (!rc && !stet_addr_is_none(e->addr2))
		rc = use(c, e->addr2, e->phys_blocks, ino, as, against);
	return rc;
}

/* Each copy is read from the device: the cache would pass over a bad one. */
static int check_copy(struct stet_checker *c, const struct stet_node_ptr *ptr,
		      struct stet_addr addr, uint32_t level)
{
	uint64_t off;
	int rc = stet_space_locate(stet_engine_space(c->engine), addr, STET_NODE_BLOCKS, &off);

	if (!rc)
		rc = stet_device_read(stet_engine_device(c->engine), off, c->data, STET_NODE_SIZE);
	if (!rc)
		rc = stet_node_verify(c->data, stet_engine_superblock(c->engine)->volume_id,
				      STET_TREE_CATALOG, level, ptr);
	if (rc == -ENOMEM)
		return rc;
	return rc ? stet_check_report_(c, STET_PROBLEM_NODE_COPY, 0, "node at %llu:%u",
				       (unsigned long long)stet_addr_seg(addr),
				       stet_addr_block(addr))
		  : 0;
}

static int use_item(struct stet_checker *c, const struct stet_key *key,
		    const struct stet_item *item)
{
	struct stet_extent e;

	if (stet_key_verify(key->b, key->bytes) || stet_key_get_kind(key->b) != STET_KIND_EXTENT ||
	    stet_extent_decode(item->value, item->value_bytes,
			       stet_engine_superblock(c->engine)->seg_blocks, &e))
		return 0; /* the scan reports what is malformed */
	uint64_t ino = stet_key_object(key->b);
	int rc = use(c, e.addr, e.phys_blocks, ino, ROOT, ROOT);
	if (!rc && !stet_addr_is_none(e.addr2))
		rc = use(c, e.addr2, e.phys_blocks, ino, ROOT, ROOT);
	return rc;
}

static int visit(void *arg, const struct stet_node_ptr *ptr, uint32_t level, const uint8_t *node)
{
	struct stet_checker *c = arg;
	int rc = use(c, ptr->addr, STET_NODE_BLOCKS, 0, ROOT | NODE, ROOT);

	c->sum.nodes++;
	if (!rc)
		rc = check_copy(c, ptr, ptr->addr, level);
	if (!rc && !stet_addr_is_none(ptr->addr2))
		rc = use(c, ptr->addr2, STET_NODE_BLOCKS, 0, ROOT | NODE, ROOT);
	if (!rc && !stet_addr_is_none(ptr->addr2))
		rc = check_copy(c, ptr, ptr->addr2, level);
	for (uint32_t i = 0; level == 0 && i < stet_node_count(node) && !rc; i++) {
		struct stet_item item;
		struct stet_key key;

		stet_node_key(node, i, &key);
		stet_node_item(node, i, &item);
		rc = use_item(c, &key, &item);
	}
	return rc;
}

static int compare_slot(struct stet_checker *c, uint32_t slot)
{
	uint32_t seg_blocks = stet_engine_superblock(c->engine)->seg_blocks;
	uint64_t live[STET_SEG_BLOCKS_MAX / 64] = { 0 };
	uint64_t missing = 0;
	uint64_t extra = 0;
	int rc = 0;

	stet_space_live_bitmap(stet_engine_space(c->engine), slot, live);
	for (uint32_t w = 0; w < seg_blocks / 64; w++) {
		uint64_t used = c->map[slot] ? c->map[slot][MAP_ROOT * map_words(c) + w] : 0;

		missing += (uint64_t)__builtin_popcountll(used & ~live[w]);
		extra += (uint64_t)__builtin_popcountll(live[w] & ~used);
	}
	if (missing)
		rc = stet_check_report_(c, STET_PROBLEM_LIVE_MISSING, 0, "%llu blocks in slot %u",
					(unsigned long long)missing, slot);
	if (!rc && extra)
		rc = stet_check_report_(c, STET_PROBLEM_LIVE_EXTRA, 0, "%llu blocks in slot %u",
					(unsigned long long)extra, slot);
	return rc;
}

int stet_check_space_(struct stet_checker *c)
{
	struct stet_root root;
	uint64_t cut;
	int rc;

	stet_engine_root(c->engine, &root, &cut);
	rc = stet_tree_walk(stet_engine_cache(c->engine), STET_TREE_CATALOG, &root, visit, c);
	if (rc == -EIO || rc == -EUCLEAN)
		return stet_check_report_(c, STET_PROBLEM_NODE_UNREADABLE, 0, "%s",
					  stet_error_text());
	for (uint32_t slot = 0; slot < stet_engine_superblock(c->engine)->slot_count && !rc; slot++)
		rc = compare_slot(c, slot);
	return rc;
}
