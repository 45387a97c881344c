/* crowd.c - whether the next checkpoint has room (C7 of checkpoint.c).
 *
 * D1. A checkpoint writes each leaf anew in which a key has changed, and with it the one that is split off, or merged
 *     with it; more nodes than there are, and those that were promised, it does not write. What they replace comes free
 *     two checkpoints later, so all of them need free segments at once, and each head the rest of one.
 * D2. At worst each key lies in another leaf. Only when that would be too much, the leaves are counted, by walking the
 *     changed keys beside the tree; and again only when a quarter more keys have come: those count one leaf each until
 *     then. So what is counted is never too little.
 */
#include "txn/ckpt.h"

#define HEADS 4u       /* that a checkpoint writes to */
#define LEAVES_EACH 2u /* D1 */

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t stet_promised_unplaced_(const struct stet_space_usage *u)
{
	uint64_t placed = u->held_blocks - u->dying_blocks;

	return u->reserved_blocks > placed ? u->reserved_blocks - placed : 0;
}

/* D2: of the keys since the last cut. */
static uint64_t leaves(const struct stet_engine *engine)
{
	return engine->counted_leaves + (engine->new_keys - engine->counted_keys);
}

uint64_t stet_crowd_taken_(struct stet_engine *engine)
{
	uint64_t n = leaves(engine);

	engine->new_keys = engine->counted_keys = engine->counted_leaves = 0;
	return n;
}

void stet_crowd_given_back_(struct stet_engine *engine, uint64_t taken)
{
	engine->new_keys += taken;
}

bool stet_crowded_(const struct stet_engine *engine, uint64_t more_keys, unsigned quarters)
{
	uint64_t leaf_blocks = (uint64_t)LEAVES_EACH * STET_NODE_BLOCKS * engine->sb.meta_copies;
	uint64_t data = engine->data_blocks * engine->sb.data_copies;
	uint64_t going = engine->ckpt ? engine->ckpt->leaves : 0;
	uint64_t next = leaves(engine) + more_keys;
	uint64_t promised, nodes, need, slots;
	struct stet_space_usage u;

	if (going + next == 0)
		return false;
	stet_space_usage(engine->space, &u);
	promised = stet_promised_unplaced_(&u);
	nodes = u.live_blocks > data ? u.live_blocks - data : 0;
	/* What grows is promised; what the one that is going on adds is there for the next one to change. */
	need = promised + lesser(going * leaf_blocks, nodes) +
	       lesser(next * leaf_blocks, nodes + (going ? promised : 0));
	slots = u.slots_free > 2 * HEADS ? u.slots_free - HEADS : u.slots_free / 2;
	return need > slots * engine->sb.seg_blocks * quarters / 4;
}

/* The leaf before, pinned by the cursor; NULL: behind all, so in the last one. */
struct at {
	const struct stet_cnode *leaf;
	bool any;
};

/* 1: the key lies in another leaf than the one before. */
static int next_leaf(struct stet_tree_cursor *cur, const struct stet_skipnode *node, struct at *at)
{
	const struct at before = *at;
	int rc = stet_tree_cursor_seek(cur, stet_skipnode_key(node), node->key_len);

	if (rc)
		return rc;
	*at = (struct at){ cur->valid ? cur->path[0] : NULL, true };
	return !before.any || at->leaf != before.leaf;
}

int stet_crowd_count_(struct stet_engine *engine)
{
	uint64_t cut = engine->ckpt ? engine->ckpt->cut : engine->root->cut;
	struct at at = { .any = false };
	struct stet_tree_cursor cur;
	uint64_t n = 0;
	int rc = 0;

	if (engine->new_keys - engine->counted_keys <= engine->counted_keys / 4)
		return 0; /* D2 */
	stet_tree_cursor_init(&cur, engine->cache, STET_TREE_CATALOG, &engine->root->root);
	for (struct stet_skipnode *node = stet_skiplist_first(&engine->delta); node && rc >= 0;
	     node = stet_skiplist_next(node)) {
		const struct stet_dnode *dnode = node->value;

		if (!dnode->newest || dnode->serial <= cut)
			continue;
		rc = next_leaf(&cur, node, &at);
		n += rc == 1;
	}
	stet_tree_cursor_release(&cur);
	if (rc < 0)
		return rc;
	engine->counted_keys = engine->new_keys;
	engine->counted_leaves = n;
	return 0;
}
