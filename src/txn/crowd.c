/* crowd.c - whether the next checkpoint has room (C7 of checkpoint.c).
 *
 * D1. A checkpoint writes each leaf anew in which a key has changed, and with it the one that is split off, or merged
 *     with it; more nodes than there are, and those that were promised, it does not write. What they replace comes free
 *     two checkpoints later, so all of them need free segments at once, and each head the rest of one.
 * D2. At worst each key lies in another leaf. Only when that would be too much, the leaves are counted, by walking the
 *     changed keys beside the lowest nodes but the leaves; and again only when a sixteenth more keys have come: those count
 *     one leaf each until then. So what is counted is never too little. The same for a transaction, whose keys are not published yet: what it
 *     adds beyond the leaves that there are is promised.
 * D3. Who finds too little says how many segments would do, if the volume can have so many free: the cleaner goes on until
 *     there are.
 */
#include "txn/ckpt.h"

#define HEADS 4u       /* that a checkpoint writes to */
#define LEAVES_EACH 2u /* D1 */
#define RECOUNT 16u    /* D2 */

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
	return engine->run_leaves + engine->counted_leaves +
	       (engine->new_keys - engine->counted_keys);
}

uint64_t stet_crowd_taken_(struct stet_engine *engine)
{
	uint64_t n = leaves(engine);

	engine->new_keys = engine->counted_keys = engine->counted_leaves = 0;
	engine->run_leaves = 0;
	return n;
}

void stet_crowd_given_back_(struct stet_engine *engine, uint64_t taken)
{
	engine->new_keys += taken;
}

/* D1: blocks of free segments, for what has changed and so many leaves more. */
static uint64_t needed(const struct stet_engine *engine, uint64_t more_leaves,
		       const struct stet_space_usage *u)
{
	uint64_t leaf_blocks = (uint64_t)LEAVES_EACH * STET_NODE_BLOCKS * engine->sb.meta_copies;
	uint64_t data = engine->data_blocks * engine->sb.data_copies;
	uint64_t going = engine->ckpt ? engine->ckpt->leaves : 0;
	uint64_t next = leaves(engine) + more_leaves;
	uint64_t promised = stet_promised_unplaced_(u);
	uint64_t nodes = u->live_blocks > data ? u->live_blocks - data : 0;

	if (going + next == 0)
		return 0;
	/* What grows is promised; what the one that is going on adds is there for the next one to change. */
	return promised + lesser(going * leaf_blocks, nodes) +
	       lesser(next * leaf_blocks, nodes + (going ? promised : 0));
}

bool stet_crowded_(const struct stet_engine *engine, uint64_t more_leaves, unsigned quarters)
{
	struct stet_space_usage u;
	uint64_t need, slots;

	stet_space_usage(engine->space, &u);
	need = needed(engine, more_leaves, &u);
	slots = u.slots_free > 2 * HEADS ? u.slots_free - HEADS : u.slots_free / 2;
	return need > slots * engine->sb.seg_blocks * quarters / 4;
}

uint64_t stet_crowd_wants_(const struct stet_engine *engine, uint64_t more_leaves)
{
	uint32_t seg_blocks = engine->sb.seg_blocks;
	struct stet_space_usage u;
	uint64_t need, slots;

	stet_space_usage(engine->space, &u);
	need = needed(engine, more_leaves, &u);
	slots = HEADS + 1 + need * 4 / 3 / seg_blocks;
	if (slots < 2 * HEADS + 1)
		slots = 2 * HEADS + 1;
	return slots + u.live_blocks / seg_blocks < u.slots_total ? slots : 0;
}

/* Counting the leaves of the tree in which keys lie that come in order. */
struct counting {
	struct stet_tree_cursor cur;
	struct stet_key end; /* of the leaf before */
	uint64_t n;
};

static void counting_begin(const struct stet_engine *engine, struct counting *c)
{
	c->n = 0;
	stet_tree_cursor_init(&c->cur, engine->cache, STET_TREE_CATALOG, &engine->root->root);
}

static bool is_in_leaf_before(const struct counting *c, const void *key, size_t key_bytes)
{
	if (c->n == 0)
		return false;
	return c->end.bytes == 0 || stet_key_cmp(key, key_bytes, c->end.b, c->end.bytes) < 0;
}

static int count(struct counting *c, const void *key, size_t key_bytes)
{
	int rc = 0;

	if (is_in_leaf_before(c, key, key_bytes))
		return 0;
	rc = stet_tree_cursor_leaf_end(&c->cur, key, key_bytes, &c->end);
	c->n += !rc;
	return rc;
}

int stet_crowd_count_(struct stet_engine *engine)
{
	uint64_t cut = engine->ckpt ? engine->ckpt->cut : engine->root->cut;
	struct counting c;
	int rc = 0;

	if (engine->new_keys - engine->counted_keys <= engine->counted_keys / RECOUNT)
		return 0; /* D2 */
	counting_begin(engine, &c);
	for (struct stet_skipnode *node = stet_skiplist_first(&engine->delta); node && !rc;
	     node = stet_skiplist_next(node)) {
		const struct stet_dnode *dnode = node->value;

		if (dnode->newest && dnode->serial > cut)
			rc = count(&c, stet_skipnode_key(node), node->key_len);
	}
	stet_tree_cursor_release(&c.cur);
	if (rc)
		return rc;
	engine->counted_keys = engine->new_keys;
	engine->counted_leaves = c.n;
	return 0;
}

/* --- of a transaction --- */

static int count_set(const struct stet_txn *txn, struct stet_crowd *crowd)
{
	struct counting c;
	int rc = 0;

	counting_begin(txn->engine, &c);
	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node && !rc;
	     node = stet_skiplist_next(node)) {
		uint64_t before = c.n;

		rc = count(&c, stet_skipnode_key(node), node->key_len);
		if (c.n == before)
			continue;
		crowd->low.bytes = node->key_len;
		memcpy(crowd->low.b, stet_skipnode_key(node), node->key_len);
	}
	stet_tree_cursor_release(&c.cur);
	crowd->has_last = c.n > 0;
	if (crowd->has_last)
		stet_key_copy(&crowd->end, &c.end);
	crowd->leaves = c.n;
	return rc;
}

static int count_run(const struct stet_txn *txn, struct stet_crowd *crowd)
{
	struct stet_root root = { txn->run.root, txn->run.root_level };
	struct stet_tree_cursor run;
	struct counting c;
	int rc;

	counting_begin(txn->engine, &c);
	stet_tree_cursor_init(&run, txn->engine->cache, STET_TREE_RUN, &root);
	rc = stet_tree_cursor_seek(&run, "", 0);
	while (!rc && run.valid) {
		rc = count(&c, run.key.b, run.key.bytes);
		if (!rc)
			rc = stet_tree_cursor_next(&run);
	}
	stet_tree_cursor_release(&run);
	stet_tree_cursor_release(&c.cur);
	crowd->leaves += c.n;
	return rc;
}

static uint64_t keys_of(const struct stet_txn *txn)
{
	return stet_skiplist_count(&txn->set) + (txn->have_run ? txn->run.item_count : 0);
}

/* NULL: it was not counted, or in another tree than there is now. */
static const struct stet_crowd *crowd_of(const struct stet_txn *txn)
{
	return txn->crowd && txn->crowd->cut == txn->engine->root->cut ? txn->crowd : NULL;
}

uint64_t stet_crowd_of_(const struct stet_txn *txn)
{
	const struct stet_crowd *crowd = crowd_of(txn);
	uint64_t keys = keys_of(txn);

	if (txn->level == STET_LEVEL_PLAIN)
		return 0; /* published at once */
	if (!crowd)
		return keys;
	/* After it went back to a savepoint it may have fewer. */
	return crowd->keys < keys ? crowd->leaves + (keys - crowd->keys)
				  : lesser(keys, crowd->leaves);
}

int stet_crowd_count_of_(struct stet_txn *txn)
{
	const struct stet_crowd *crowd = crowd_of(txn);
	uint64_t keys = keys_of(txn);
	int rc;

	if (keys == 0 || (crowd && keys <= crowd->keys + crowd->keys / RECOUNT))
		return 0; /* D2 */
	if (!txn->crowd)
		txn->crowd = stet_calloc(1, sizeof(*txn->crowd));
	if (!txn->crowd)
		return STET_FAIL(-ENOMEM, "no memory to count leaves");
	txn->crowd->keys = UINT64_MAX; /* of no use until it is done */
	rc = count_set(txn, txn->crowd);
	if (!rc && txn->have_run)
		rc = count_run(txn, txn->crowd);
	if (rc) {
		stet_crowd_release_(txn);
		return rc;
	}
	txn->crowd->keys = keys;
	txn->crowd->cut = txn->engine->root->cut;
	return 0;
}

/* What comes in order mostly lies in the leaf that was the last. */
void stet_crowd_note_(struct stet_txn *txn, const struct stet_key *key)
{
	struct stet_crowd *crowd = txn->crowd;

	if (crowd->has_last &&
	    stet_key_cmp(key->b, key->bytes, crowd->low.b, crowd->low.bytes) >= 0 &&
	    (crowd->end.bytes == 0 ||
	     stet_key_cmp(key->b, key->bytes, crowd->end.b, crowd->end.bytes) < 0))
		crowd->keys++;
}

void stet_crowd_release_(struct stet_txn *txn)
{
	stet_free(txn->crowd);
	txn->crowd = NULL;
}

void stet_crowd_publish_(struct stet_txn *txn)
{
	struct stet_engine *engine = txn->engine;

	if (txn->have_run)
		engine->run_leaves += stet_crowd_of_(txn);
}
