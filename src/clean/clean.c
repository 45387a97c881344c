/* clean.c - one victim at a time, a few runs a step.
 *
 * States: idle -> (pick) -> moving, with the list of what the victim's summaries say lies there ->
 * (list done) -> two checkpoints are asked for, of which the first frees what was moved and the second
 * releases it -> idle.
 *
 * G1. Owners in summaries are hints: the bitmap decides what is live, and the current state of the file
 *     (stet_fs_move) or the node itself decides whether it still lies here.
 * G2. Moving is a plain operation: it respects locks and is atomic; content and birth stay the same.
 * G3. A victim whose locked files make us wait is given up after the wait; another may be better then.
 * G4. When a round over all candidates freed nothing and nothing is left to pick, the engine is told: who
 *     waits for space gets ENOSPC instead of waiting for ever.
 * G5. A victim is taken only when there is room for what moving it takes, and those taken since the last checkpoint
 *     was asked for, besides all that was promised: they come free two checkpoints later at the earliest, and nodes
 *     that are to be moved are promised by nobody.
 * G6. A segment in which blocks are dying is no victim, but a checkpoint or two may release them: those come
 *     before giving up.
 * G7. On demand, where nobody needs space, a segment is worth it when an eighth of it comes free.
 */
#include "clean/clean.h"

#include "base/assert.h"
#include "base/bitmap.h"
#include "base/mem.h"
#include "base/vec.h"
#include "format/node.h"
#include "format/summary.h"
#include "log/log.h"

#define RUNS_PER_STEP 8u
#define VICTIMS_PER_CHECKPOINT 8u
#define BARREN_ROUNDS_MAX 2u
#define WORTH_PART 8u
#define SPARE_SEGMENTS 4u /* what the log and a checkpoint may open */

struct item {
	enum stet_payload_kind kind;
	uint64_t owner;
	uint64_t offset;
	struct stet_addr addr;
	uint32_t blocks;
};

struct stet_cleaner {
	struct stet_fs *fs;
	struct stet_engine *engine;
	stet_space_score_fn *score;
	uint32_t requested;
	bool moving;
	struct stet_seg_info victim;
	STET_VEC(struct item) items;
	size_t next;
	uint32_t emptied;     /* victims since the last checkpoint was asked for */
	uint64_t cost_blocks; /* what moving what was in them takes */
	uint32_t waiting; /* checkpoints to come: one frees what was moved, the next releases it */
	struct stet_ticket ckpt;
	uint32_t barren; /* G6: rounds without a victim */
	struct stet_clean_stats stats;
};

int stet_cleaner_create(struct stet_fs *fs, struct stet_engine *engine, stet_space_score_fn *score,
			struct stet_cleaner **ret)
{
	struct stet_cleaner *c = stet_calloc(1, sizeof(*c));

	if (!c)
		return STET_FAIL(-ENOMEM, "no memory for the cleaner");
	c->fs = fs;
	c->engine = engine;
	c->score = score ? score : stet_space_score_greedy;
	stet_vec_init(&c->items);
	stet_ticket_init(&c->ckpt, NULL, NULL);
	stet_engine_set_cleaner(engine, true);
	*ret = c;
	return 0;
}

void stet_cleaner_destroy(struct stet_cleaner *cleaner)
{
	if (!cleaner)
		return;
	STET_ASSERT(!cleaner->waiting || cleaner->ckpt.fired);
	stet_engine_set_cleaner(cleaner->engine, false);
	stet_vec_release(&cleaner->items);
	stet_free(cleaner);
}

void stet_cleaner_request(struct stet_cleaner *cleaner, uint32_t segments)
{
	cleaner->requested += segments;
}

static uint32_t wanted(const struct stet_cleaner *c)
{
	struct stet_engine_pressure p;

	stet_engine_pressure(c->engine, &p);
	return p.want_segments > c->requested ? p.want_segments : c->requested;
}

bool stet_cleaner_wants_work(const struct stet_cleaner *cleaner)
{
	if (cleaner->waiting && !cleaner->ckpt.fired)
		return false;
	return cleaner->moving || wanted(cleaner) > 0;
}

void stet_clean_stats(const struct stet_cleaner *cleaner, struct stet_clean_stats *ret)
{
	*ret = cleaner->stats;
}

/* --- what lies in the victim --- */
static int list_pseg(void *arg, const struct stet_pseg *pseg, const uint8_t *summary)
{
	struct stet_cleaner *c = arg;
	struct stet_payload p;
	uint32_t pos = 0;
	uint32_t first = 0;

	while (stet_payload_next(summary, pseg, &pos, &first, &p)) {
		struct item item = {
			.kind = p.kind,
			.owner = p.owner,
			.offset = p.offset,
			.addr = stet_addr_add(pseg->self.addr,
					      pseg->summary_blocks + p.first_block),
			.blocks = p.block_count,
		};
		int rc = stet_vec_push(&c->items, item);

		if (rc)
			return rc;
	}
	return 0;
}

static void give_up(struct stet_cleaner *c)
{
	c->moving = false;
	stet_vec_clear(&c->items);
	stet_space_unpick(stet_engine_space(c->engine), c->victim.id);
}

/* What moving it takes: a node is written with its other copy. */
static uint64_t cost_blocks(const struct stet_seg_info *victim)
{
	bool nodes = victim->kind == STET_SEGK_NODE || victim->kind == STET_SEGK_NODE2;

	return (uint64_t)victim->live_blocks * (nodes ? 2 : 1);
}

/* G5 */
static bool affordable(const struct stet_cleaner *c)
{
	uint32_t seg_blocks = stet_engine_superblock(c->engine)->seg_blocks;
	struct stet_space_usage u;

	stet_space_usage(stet_engine_space(c->engine), &u);
	return (uint64_t)u.slots_free * seg_blocks >= u.reserved_blocks + c->cost_blocks +
							      cost_blocks(&c->victim) +
							      (uint64_t)SPARE_SEGMENTS * seg_blocks;
}

/* G7 */
static bool worth_it(const struct stet_cleaner *c)
{
	uint32_t seg_blocks = stet_engine_superblock(c->engine)->seg_blocks;
	struct stet_engine_pressure p;

	stet_engine_pressure(c->engine, &p);
	return p.want_segments > 0 || seg_blocks - c->victim.live_blocks >= seg_blocks / WORTH_PART;
}

static int pick(struct stet_cleaner *c)
{
	int rc = stet_space_pick(stet_engine_space(c->engine), c->score,
				 stet_engine_serial(c->engine), &c->victim);

	if (rc)
		return rc;
	if (!affordable(c) || !worth_it(c)) {
		stet_space_unpick(stet_engine_space(c->engine), c->victim.id);
		return -ENOENT;
	}
	c->moving = true;
	c->next = 0;
	stet_vec_clear(&c->items);
	rc = stet_log_scan_segment(stet_engine_log(c->engine), c->victim.id, list_pseg, c);
	if (rc) {
		c->stats.skipped++;
		give_up(c);
	}
	return rc;
}

/* --- moving --- */
static int move_data(struct stet_cleaner *c, const struct item *item, uint32_t at,
		     struct stet_ticket *ticket, uint32_t *ret_moved)
{
	struct stet_fs_ctx ctx = { .fs = c->fs, .ticket = ticket, .wait = true };
	uint64_t wait_serial;
	int rc = stet_txn_begin(c->engine, STET_LEVEL_PLAIN, false, &ctx.txn);

	if (rc)
		return rc;
	rc = stet_fs_move(&ctx, item->owner, item->offset + at, stet_addr_add(item->addr, at),
			  ret_moved);
	if (!rc && stet_txn_changed(ctx.txn))
		rc = stet_txn_order(ctx.txn, ticket, &wait_serial);
	stet_txn_end(ctx.txn);
	return rc;
}

/* Moves what is live of a run of data, extent by extent. */
static int move_run(struct stet_cleaner *c, const struct item *item, struct stet_ticket *ticket)
{
	struct stet_space *space = stet_engine_space(c->engine);

	for (uint32_t i = 0; i < item->blocks;) {
		uint32_t moved = 0;
		int rc = 0;

		if (stet_space_is_live(space, stet_addr_add(item->addr, i)))
			rc = move_data(c, item, i, ticket, &moved);
		if (rc)
			return rc;
		c->stats.moved_blocks += moved;
		i += moved ? moved : 1;
	}
	return 0;
}

/* The node says itself where in the tree it is; the next checkpoint writes it anew. */
static int touch_node(struct stet_cleaner *c, const struct item *item, uint32_t at)
{
	struct stet_engine *engine = c->engine;
	struct stet_addr addr = stet_addr_add(item->addr, at);
	uint8_t *node = stet_alloc_aligned(STET_BLOCK_SIZE, STET_NODE_SIZE);
	const uint8_t *low;
	uint32_t low_bytes;
	uint64_t off;

	if (!node)
		return STET_FAIL(-ENOMEM, "no memory for a node");
	int rc = stet_space_locate(stet_engine_space(engine), addr, STET_NODE_BLOCKS, &off);
	if (!rc)
		rc = stet_device_read(stet_engine_device(engine), off, node, STET_NODE_SIZE);
	if (!rc)
		rc = stet_node_verify(node, stet_engine_superblock(engine)->volume_id,
				      STET_TREE_CATALOG, (uint32_t)item->offset, NULL);
	if (!rc) {
		stet_node_low(node, &low, &low_bytes);
		rc = stet_engine_touch_node(engine, (uint32_t)item->offset, low, low_bytes);
		c->stats.touched_nodes++;
	}
	stet_free(node);
	return rc;
}

static int touch_nodes(struct stet_cleaner *c, const struct item *item)
{
	for (uint32_t i = 0; i < item->blocks; i += STET_NODE_BLOCKS) {
		if (item->owner != STET_TREE_CATALOG ||
		    !stet_space_is_live(stet_engine_space(c->engine), stet_addr_add(item->addr, i)))
			continue;
		int rc = touch_node(c, item, i);
		if (rc)
			return rc;
	}
	return 0;
}

static int move_item(struct stet_cleaner *c, const struct item *item, struct stet_ticket *ticket)
{
	switch (item->kind) {
	case STET_PAYLOAD_DATA:
	case STET_PAYLOAD_XATTR:
		return move_run(c, item, ticket);
	case STET_PAYLOAD_NODE:
		return touch_nodes(c, item);
	case STET_PAYLOAD_TABLE:
		if (item->offset >= stet_space_page_count(stet_engine_space(c->engine)))
			return STET_FAIL(-EUCLEAN,
					 "a summary names a table page that is not there");
		if (stet_space_page_ptr(stet_engine_space(c->engine), (uint32_t)item->offset)
			    .addr.v == item->addr.v)
			return stet_engine_touch_page(c->engine, (uint32_t)item->offset);
		return 0;
	case STET_PAYLOAD_CKPT:
		return 0; /* every checkpoint writes its own */
	}
	return 0;
}

static int ask_checkpoint(struct stet_cleaner *c, uint32_t checkpoints)
{
	c->emptied = 0;
	c->cost_blocks = 0;
	c->waiting = checkpoints;
	stet_ticket_init(&c->ckpt, NULL, NULL);
	int rc = stet_engine_checkpoint(c->engine, &c->ckpt);
	if (rc)
		c->waiting = 0;
	return rc ? rc : 1;
}

static int checkpointed(struct stet_cleaner *c)
{
	if (c->ckpt.result == 0 && c->waiting > 1)
		return ask_checkpoint(c, c->waiting - 1);
	c->waiting = 0;
	stet_engine_cleaned(c->engine, c->ckpt.result == 0);
	return 1;
}

static int victim_done(struct stet_cleaner *c)
{
	c->moving = false;
	c->emptied++;
	c->cost_blocks += cost_blocks(&c->victim);
	c->stats.victims++;
	if (c->requested > 0)
		c->requested--;
	stet_vec_clear(&c->items);
	return c->emptied >= VICTIMS_PER_CHECKPOINT || wanted(c) <= c->emptied
		       ? ask_checkpoint(c, 2)
		       : 1;
}

static int move_step(struct stet_cleaner *c, struct stet_ticket *ticket)
{
	for (uint32_t n = 0; n < RUNS_PER_STEP && c->next < c->items.n; n++) {
		int rc = move_item(c, &c->items.v[c->next], ticket);

		if (rc == STET_WAIT)
			return rc;
		if (rc) {
			c->stats.skipped++; /* unreadable, or locked for good: G3 */
			give_up(c);
			return 1;
		}
		c->next++;
	}
	return c->next < c->items.n ? 1 : victim_done(c);
}

/* G6 */
static bool checkpoint_may_help(struct stet_cleaner *c)
{
	struct stet_space_usage u;

	stet_space_usage(stet_engine_space(c->engine), &u);
	if (u.dying_blocks <= u.pinned_blocks || c->barren >= BARREN_ROUNDS_MAX)
		return false;
	c->barren++;
	return true;
}

int stet_clean_step(struct stet_cleaner *cleaner, struct stet_ticket *ticket)
{
	if (cleaner->waiting)
		return cleaner->ckpt.fired ? checkpointed(cleaner) : 0;
	if (cleaner->moving)
		return move_step(cleaner, ticket);
	if (wanted(cleaner) == 0)
		return 0;
	int rc = pick(cleaner);
	if (!rc)
		cleaner->barren = 0;
	if (rc != -ENOENT)
		return rc ? rc : 1;
	cleaner->requested = 0;
	if (cleaner->emptied > 0 || checkpoint_may_help(cleaner))
		return ask_checkpoint(cleaner, 2);
	cleaner->barren = 0;
	stet_engine_cleaned(cleaner->engine, false); /* G4 */
	return 0;
}
