/* checkpoint.c - from the delta to a new tree, in steps.
 *
 * States: FLUSH (the log takes everything up to the cut, every block gets a place) -> APPLY (the tree is
 * rebuilt where the delta changed it; groups of nodes go out in between: NODES) -> TABLE (accounting;
 * table pages and record, flushed; then the slot that names the record, flushed) -> done.
 *
 * C1. The new root is built from the old one and a view at the cut; what is ordered meanwhile stays in
 *     the delta. Readers go on with the old root until the slot is durable.
 * C2. `live` changes once, between APPLY and TABLE, by the net of places that came and went, so the table
 *     written counts exactly what the new root names.
 * C3. A crash before the slot is durable leaves the old checkpoint and its log. A crash after it leaves the
 *     new one. What the older slot needs is released one checkpoint later.
 * C4. A failed write of nodes ends this checkpoint without a trace (its places are dropped); a later one
 *     starts anew. A failed write of the table is tried again elsewhere.
 * C5. Who waits for a checkpoint is told when the tree cannot be read: trying again would not help.
 * C6. What was replaced comes free two checkpoints later. They come early when much was written, beside what is
 *     free: when the next transaction needs the room, its own view would keep it.
 * C7. A checkpoint must have room for all that it writes, before it gives anything back (crowd.c). So one comes before
 *     what has changed would take half of the free segments, the one that is going on counted too; operations wait for it
 *     at three quarters, and a transaction gets no room for more keys than would fit there.
 * C8. When nothing was ordered since the last checkpoint, this one has the same cut, but other nodes, if the cleaner has
 *     moved some. Then "died at this cut" does not say whether a view at it needs a block, so views of the older root
 *     keep all of these.
 */
#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"
#include "txn/ckpt.h"

#include <stdlib.h>
#include <string.h>

#define STEP_NODES 8u
#define STEP_TRIM_KEYS 1024u
#define GROUP_BYTES_MAX (UINT64_C(4) << 20)
#define TABLE_RETRIES_MAX 8u
#define FAILURES_MAX 8u /* checkpoints that fail one after the other */

/* Whether so many blocks are much beside what is free: at least an eighth of it, and 1/32 of the volume. */
static bool is_much(const struct stet_engine *engine, uint64_t blocks,
		    const struct stet_space_usage *u)
{
	uint64_t free_blocks = (uint64_t)u->slots_free * engine->sb.seg_blocks;

	return blocks > u->capacity_blocks / 32 && blocks > free_blocks / 8;
}

bool stet_release_due_(const struct stet_engine *engine)
{
	struct stet_space_usage u;

	if (engine->freed_blocks < engine->sb.seg_blocks)
		return false;
	stet_space_usage(engine->space, &u);
	return u.slots_free <= u.reserve_slots + 2 || is_much(engine, engine->freed_blocks, &u);
}

/* C6 */
static bool accounting_due(const struct stet_engine *engine)
{
	struct stet_space_usage u;

	stet_space_usage(engine->space, &u);
	return is_much(engine, engine->promised, &u);
}

bool stet_ckpt_due_(const struct stet_engine *engine)
{
	if (engine->failed || engine->config.read_only)
		return false;
	if (engine->ckpt_waiters.n > 0 || stet_crowded_(engine, 0, 2) ||
	    engine->delta_bytes > engine->delta_limit_bytes ||
	    engine->unplaced_blocks * STET_BLOCK_SIZE > engine->dirty_limit_bytes ||
	    stet_log_bytes_since(engine->log, engine->chain_serial) > engine->checkpoint_bytes)
		return true;
	return !stet_clean_first_(engine) &&
	       (engine->ckpt_wanted || stet_release_due_(engine) || accounting_due(engine));
}

static void free_touches(struct stet_ckpt *ck)
{
	for (size_t i = 0; i < ck->touches.n; i++) {
		union {
			const uint8_t *in;
			void *out;
		} key = { .in = ck->touches.v[i].key };

		stet_free(key.out);
	}
	stet_vec_release(&ck->touches);
}

static void ckpt_free(struct stet_engine *engine, struct stet_ckpt *ck)
{
	stet_tree_apply_destroy(ck->apply);
	if (ck->merging)
		stet_merge_close_(&ck->merge);
	stet_view_close(ck->view);
	free_touches(ck);
	for (size_t i = 0; i < ck->pages.n; i++)
		stet_free(ck->pages.v[i].bytes);
	stet_vec_release(&ck->pages);
	for (size_t i = 0; i < ck->stale.n; i++)
		stet_free(ck->stale.v[i].bytes);
	stet_vec_release(&ck->stale);
	stet_free(ck->record);
	stet_vec_release(&ck->placed);
	stet_rangeset_release(&ck->node_net);
	stet_rangeset_release(&ck->data_net);
	stet_free(ck);
	engine->ckpt = NULL;
}

/* Gives back the places of nodes that no root will name. */
static void drop_nodes(struct stet_engine *engine, struct stet_ckpt *ck)
{
	for (size_t i = 0; i < ck->placed.n; i++) {
		const struct stet_node_ptr *p = &ck->placed.v[i];

		if (stet_space_is_live(engine->space, p->addr))
			continue;
		stet_ignore(stet_space_drop(engine->space, p->addr, STET_NODE_BLOCKS, p->birth, 0),
			    "without memory the blocks stay held until the next open");
		if (!stet_addr_is_none(p->addr2))
			stet_ignore(stet_space_drop(engine->space, p->addr2, STET_NODE_BLOCKS,
						    p->birth, 0),
				    "as above");
		stet_cache_forget(engine->cache, p);
	}
}

/* The last group of nodes was not written: abandoning gives its places back, so nothing may find the
 * nodes by them any more. */
static void abandon_nodes(struct stet_engine *engine, struct stet_job *job)
{
	struct stet_ckpt *ck = engine->ckpt;
	size_t lost = job->nodes.n;

	if (job->group)
		stet_log_abandon(job->group);
	stet_job_destroy_(job);
	while (lost-- > 0)
		stet_cache_forget(engine->cache, &ck->placed.v[--ck->placed.n]);
}

void stet_ckpt_abort_(struct stet_engine *engine)
{
	struct stet_ckpt *ck = engine->ckpt;

	if (!ck)
		return;
	if (ck->nodes)
		abandon_nodes(engine, ck->nodes);
	ck->nodes = NULL;
	if (!ck->accounted)
		drop_nodes(engine, ck);
	stet_crowd_given_back_(engine, ck->leaves);
	ckpt_free(engine, ck);
	engine->ckpt_wanted = true;
}

/* --- what the apply asks for --- */
static int next_change(void *arg, struct stet_change *ret)
{
	struct stet_engine *engine = arg;
	struct stet_ckpt *ck = engine->ckpt;
	bool gone;
	int rc = stet_merge_next_(&ck->merge, &ck->key, &ck->val, &gone);

	if (rc != 1)
		return rc;
	*ret = (struct stet_change){
		.key = ck->key.b,
		.key_bytes = ck->key.bytes,
		.value = ck->val.b,
		.value_bytes = ck->val.bytes,
		.tombstone = gone,
	};
	if (gone) {
		ret->value_bytes = 0;
	} else if (ck->val.buf) {
		ret->value = ck->value;
		ret->value_bytes = (uint16_t)stet_val_encode_(&ck->val, ck->value);
	}
	return 1;
}

static int nodes_job(struct stet_engine *engine)
{
	struct stet_ckpt *ck = engine->ckpt;
	int rc;

	if (ck->nodes)
		return 0;
	rc = stet_job_create_(engine, STET_JOB_NODES, &ck->nodes);
	if (!rc)
		rc = stet_log_begin(engine->log, true, &ck->nodes->group);
	return rc;
}

static int place_copy(struct stet_engine *engine, enum stet_seg_kind head, const uint8_t *bytes,
		      const uint32_t *crcs, uint32_t level, struct stet_addr *ret)
{
	return stet_log_put_whole(engine->ckpt->nodes->group, head, STET_PAYLOAD_NODE,
				  STET_TREE_CATALOG, level, bytes, crcs, STET_NODE_BLOCKS, ret);
}

static int net_node(struct stet_ckpt *ck, const struct stet_node_ptr *ptr)
{
	int rc = stet_rangeset_add(&ck->node_net, ptr->addr, STET_NODE_BLOCKS, ptr->birth);

	if (!rc && !stet_addr_is_none(ptr->addr2))
		rc = stet_rangeset_add(&ck->node_net, ptr->addr2, STET_NODE_BLOCKS, ptr->birth);
	return rc;
}

static int write_node(void *arg, struct stet_cnode *node, uint32_t level, uint64_t check,
		      struct stet_node_ptr *ret_ptr)
{
	struct stet_engine *engine = arg;
	struct stet_ckpt *ck = engine->ckpt;
	const uint8_t *bytes = stet_cnode_bytes(node);
	struct stet_node_ptr ptr = { .birth = ck->cut, .check = check };
	uint32_t crcs[STET_NODE_BLOCKS];
	int rc = nodes_job(engine);

	if (!rc)
		rc = stet_vec_reserve(&ck->placed, 1);
	if (!rc)
		rc = stet_vec_reserve(&ck->nodes->nodes, 1);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < STET_NODE_BLOCKS; i++)
		crcs[i] = stet_crc32c(bytes + (size_t)i * STET_BLOCK_SIZE, STET_BLOCK_SIZE);
	rc = place_copy(engine, STET_SEGK_NODE, bytes, crcs, level, &ptr.addr);
	if (!rc && engine->sb.meta_copies > 1)
		rc = place_copy(engine, STET_SEGK_NODE2, bytes, crcs, level, &ptr.addr2);
	if (!rc)
		rc = stet_cnode_publish(node, &ptr);
	if (rc)
		return rc;
	ck->nodes->nodes.v[ck->nodes->nodes.n++] = stet_cnode_pin(node);
	ck->placed.v[ck->placed.n++] = ptr;
	*ret_ptr = ptr;
	return net_node(ck, &ptr);
}

static int free_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level)
{
	struct stet_engine *engine = arg;

	(void)level;
	return net_node(engine->ckpt, ptr);
}

static int extent_places(struct stet_engine *engine, const uint8_t *value, size_t bytes, int sign)
{
	struct stet_ckpt *ck = engine->ckpt;
	struct stet_extent e;
	int rc = stet_extent_decode(value, bytes, engine->sb.seg_blocks, &e);

	if (rc)
		return rc;
	ck->data_change += sign * (int64_t)e.phys_blocks;
	rc = stet_rangeset_add(&ck->data_net, e.addr, e.phys_blocks, e.birth);
	if (!rc && !stet_addr_is_none(e.addr2))
		rc = stet_rangeset_add(&ck->data_net, e.addr2, e.phys_blocks, e.birth);
	return rc;
}

static int item_changed(void *arg, const void *key, size_t key_bytes,
			const struct stet_item *old_item, const struct stet_change *new_item)
{
	struct stet_engine *engine = arg;
	int rc = 0;

	(void)key_bytes;
	if (stet_key_get_kind(key) == STET_KIND_INODE) {
		engine->ckpt->inode_change += (new_item ? 1 : 0) - (old_item ? 1 : 0);
		return 0;
	}
	if (stet_key_get_kind(key) != STET_KIND_EXTENT)
		return 0;
	if (old_item)
		rc = extent_places(engine, old_item->value, old_item->value_bytes, -1);
	if (!rc && new_item)
		rc = extent_places(engine, new_item->value, new_item->value_bytes, 1);
	return rc;
}

/* --- accounting --- */
static int account_run(void *arg, struct stet_addr addr, uint32_t blocks, uint64_t birth)
{
	struct stet_engine *engine = arg;

	if (stet_space_is_live(engine->space, addr)) {
		engine->ckpt->freed_blocks += blocks;
		return stet_space_free(engine->space, addr, blocks, birth, engine->ckpt->cut);
	}
	return stet_space_make_live(engine->space, addr, blocks);
}

static int account(struct stet_engine *engine)
{
	struct stet_ckpt *ck = engine->ckpt;
	int rc = stet_rangeset_net(&ck->node_net, account_run, engine);

	if (!rc)
		rc = stet_rangeset_net(&ck->data_net, account_run, engine);
	if (rc)
		return rc;
	ck->accounted = true;
	drop_nodes(engine, ck); /* those that came and went in the same apply */
	return 0;
}

/* --- steps --- */
static int touch_cmp(const void *a, const void *b)
{
	const struct stet_touch *x = a;
	const struct stet_touch *y = b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	return stet_key_cmp(x->key, x->key_bytes, y->key, y->key_bytes);
}

static void take_touches(struct stet_engine *engine, struct stet_ckpt *ck)
{
	ck->touches.v = engine->touches.v;
	ck->touches.n = engine->touches.n;
	ck->touches.cap = engine->touches.cap;
	stet_vec_init(&engine->touches);
	if (ck->touches.n > 1)
		qsort(ck->touches.v, ck->touches.n, sizeof(*ck->touches.v), touch_cmp);
}

static int view_at_cut(struct stet_engine *engine, struct stet_ckpt *ck)
{
	int rc = stet_view_open(engine, &ck->view);

	if (!rc)
		ck->view->serial = ck->cut;
	return rc;
}

static int start_apply(struct stet_engine *engine)
{
	const struct stet_tree_apply_ops ops = {
		.next = next_change,
		.write_node = write_node,
		.free_node = free_node,
		.changed = item_changed,
		.arg = engine,
	};
	struct stet_ckpt *ck = engine->ckpt;
	int rc = view_at_cut(engine, ck);

	stet_log_position(engine->log, &ck->rec);
	ck->chain_serial = ck->rec.chain_serial;
	take_touches(engine, ck);
	if (!rc)
		rc = stet_merge_open_changes_(&ck->merge, engine, engine->root, ck->cut);
	if (rc)
		return rc;
	ck->merging = true;
	rc = stet_tree_apply_create(engine->cache, engine->sb.volume_id, STET_TREE_CATALOG,
				    &engine->root->root, ck->cut, false, ck->touches.v,
				    ck->touches.n, &ops, &ck->apply);
	ck->state = STET_CKPT_APPLY;
	return rc;
}

static void promise_cut(struct stet_engine *engine)
{
	engine->promised_ckpt += engine->promised;
	engine->promised = 0;
}

static int ckpt_start(struct stet_engine *engine, struct stet_job **ret)
{
	struct stet_ckpt *ck;
	int rc;

	if (engine->flushing)
		return 0;
	ck = stet_calloc(1, sizeof(*ck));
	if (!ck)
		return STET_FAIL(-ENOMEM, "no memory for a checkpoint");
	stet_rangeset_init(&ck->node_net);
	stet_rangeset_init(&ck->data_net);
	engine->ckpt = ck;
	engine->ckpt_wanted = false;
	engine->freed_blocks = 0;
	ck->leaves = stet_crowd_taken_(engine);
	ck->state = STET_CKPT_FLUSH;
	ck->cut = engine->serial;
	rc = stet_flush_start_(engine, true, ret);
	if (rc) {
		stet_ckpt_abort_(engine);
		return rc;
	}
	promise_cut(engine);
	if (*ret)
		return 1;
	rc = start_apply(engine); /* the log had everything already */
	if (rc)
		stet_ckpt_abort_(engine);
	return rc ? rc : 1;
}

/* C5 */
static void tell_hopeless(struct stet_engine *engine, int rc)
{
	if (rc == -EUCLEAN || rc == -EIO)
		stet_waiters_fire_(engine, true, UINT64_MAX, rc);
}

void stet_ckpt_flushed_(struct stet_engine *engine, struct stet_job *job, bool ok)
{
	int rc = -EIO;

	if (!engine->ckpt)
		return;
	STET_ASSERT(engine->ckpt->state == STET_CKPT_FLUSH);
	if (ok) {
		STET_ASSERT_CMP(job->cut, ==, engine->ckpt->cut);
		rc = start_apply(engine);
		tell_hopeless(engine, rc);
	}
	if (rc)
		stet_ckpt_abort_(engine);
}

/* The nodes collected so far go out. */
static int send_nodes(struct stet_engine *engine, struct stet_job **ret)
{
	struct stet_ckpt *ck = engine->ckpt;
	int rc = stet_log_end(ck->nodes->group, STET_PSEG_PAYLOAD, 0, stet_engine_now(engine),
			      false);

	if (rc)
		return rc;
	*ret = ck->nodes;
	ck->nodes = NULL;
	ck->state = STET_CKPT_NODES;
	return 1;
}

static int apply_step(struct stet_engine *engine, struct stet_job **ret)
{
	struct stet_ckpt *ck = engine->ckpt;
	int rc = stet_tree_apply_step(ck->apply, STEP_NODES);

	if (rc < 0)
		return rc;
	if (rc == 0) {
		stet_tree_apply_root(ck->apply, &ck->new_root);
		stet_tree_apply_destroy(ck->apply);
		ck->apply = NULL;
	}
	if (ck->nodes && (rc == 0 || stet_log_group_bytes(ck->nodes->group) > GROUP_BYTES_MAX))
		return send_nodes(engine, ret);
	return 1;
}

static int table_step(struct stet_engine *engine, struct stet_job **ret)
{
	if (!engine->ckpt->accounted) {
		int rc = account(engine);

		if (rc) {
			stet_engine_fail_(engine, "the space accounting does not add up");
			return rc;
		}
	}
	return stet_ckpt_table_start_(engine, ret);
}

static int step(struct stet_engine *engine, struct stet_job **ret)
{
	struct stet_ckpt *ck = engine->ckpt;
	int rc = 0;

	*ret = NULL;
	if (engine->trimming) {
		stet_delta_trim_step_(engine, STEP_TRIM_KEYS);
		stet_space_kick_(engine);
		return 1;
	}
	if (stet_overlay_due_(engine) && (!ck || ck->state == STET_CKPT_APPLY))
		return stet_overlay_step_(engine, ret);
	if (!ck && stet_crowded_(engine, 0, 2))
		rc = stet_crowd_count_(engine);
	if (!ck && !rc)
		return stet_ckpt_due_(engine) ? ckpt_start(engine, ret) : 0;
	if (!ck)
		return rc;
	if (ck->state != STET_CKPT_APPLY)
		return 0; /* its job is in flight */
	rc = ck->apply ? apply_step(engine, ret) : table_step(engine, ret);
	if (rc < 0)
		stet_ckpt_abort_(engine);
	return rc;
}

/* C4: a later one starts anew, but not for ever. */
static void count_failure(struct stet_engine *engine)
{
	if (++engine->ckpt_failures >= FAILURES_MAX)
		stet_engine_fail_(engine, "one checkpoint after the other fails");
}

int stet_ckpt_step_(struct stet_engine *engine, struct stet_job **ret)
{
	int rc = step(engine, ret);

	if (rc < 0)
		tell_hopeless(engine, rc);
	if (rc == -ENOSPC)
		count_failure(engine);
	return rc;
}

/* --- completion --- */
static void count_pinned_anew(struct stet_engine *engine)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->views)
		stet_container_of(pos, struct stet_view, link)->pinned_blocks = 0;
}

/* Whether the tree may name what died at the cut. C8 */
static bool reads_older_than(const struct stet_rootref *root, uint64_t cut)
{
	return root->base_cut < cut || (root->base_cut == cut && root->same_after);
}

/* C8 */
static void note_same_cut(struct stet_engine *engine, uint64_t cut)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->views) {
		struct stet_rootref *root = stet_container_of(pos, struct stet_view, link)->root;

		root->same_after = root->same_after || root->base_cut == cut;
	}
}

/* Counts the blocks for the oldest view that needs them. */
static bool pinned_by_view(void *arg, uint64_t birth, uint64_t cut, uint32_t blocks)
{
	struct stet_engine *engine = arg;
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->views) {
		struct stet_view *view = stet_container_of(pos, struct stet_view, link);

		if (reads_older_than(view->root, cut) && birth <= view->serial) {
			view->pinned_blocks += blocks;
			return true;
		}
	}
	return false;
}

static bool run_needed(const struct stet_engine *engine, uint64_t serial)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->views) {
		struct stet_view *view = stet_container_of(pos, struct stet_view, link);

		if (view->root->cut < serial && serial <= view->serial)
			return true;
	}
	return false;
}

/* Runs that the new root holds: their places are settled at once, older views may read them on. */
static void consume_runs(struct stet_engine *engine, uint64_t cut)
{
	struct stet_list *pos, *tmp;

	STET_LIST_FOREACH_SAFE(pos, tmp, &engine->runs) {
		struct stet_runref *ref = stet_container_of(pos, struct stet_runref, link);

		if (ref->run.serial > cut)
			break;
		if (!ref->consumed)
			stet_ignore(stet_spill_consumed_(engine, ref),
				    "what it could not give back stays held until the next open");
		ref->consumed = true;
		if (run_needed(engine, ref->run.serial))
			continue;
		stet_list_del(&ref->link);
		stet_runref_put_(engine, ref);
	}
}

static int drop_recovered(void *arg, struct stet_addr addr, uint32_t blocks, uint64_t birth)
{
	struct stet_engine *engine = arg;

	for (uint32_t i = 0; i < blocks; i++) {
		struct stet_addr a = stet_addr_add(addr, i);

		if (stet_space_is_live(engine->space, a))
			continue;
		int rc = stet_space_drop(engine->space, a, 1, birth, engine->root->cut);
		if (rc)
			return rc;
	}
	return 0;
}

static int new_rootref(struct stet_engine *engine, const struct stet_ckpt *ck)
{
	struct stet_rootref *root = stet_calloc(1, sizeof(*root));

	if (!root)
		return STET_FAIL(-ENOMEM, "no memory for a root");
	root->refs = 1;
	root->root = ck->new_root;
	root->cut = ck->cut;
	root->base_cut = ck->cut;
	stet_rootref_put_(engine, engine->root);
	engine->root = root;
	return 0;
}

static void count_checkpoint(struct stet_engine *engine, const struct stet_ckpt *ck)
{
	engine->older_cut = engine->root->cut;
	engine->older_chain_serial = engine->chain_serial;
	engine->chain_serial = ck->chain_serial;
	engine->ckpt_sequence = ck->rec.sequence;
	engine->inode_count = ck->rec.inode_count;
	engine->data_blocks = ck->rec.data_blocks;
	engine->node_blocks = ck->rec.node_blocks;
	engine->freed_blocks = ck->freed_blocks;
	engine->stats.checkpoints++;
	engine->ckpt_failures = 0;
	engine->overlay_failures = 0;
	stet_space_unreserve(engine->space, engine->promised_ckpt);
	engine->promised_ckpt = 0;
}

/* N8 of txn.c */
static void note_gain(struct stet_engine *engine)
{
	struct stet_space_usage u;

	stet_space_usage(engine->space, &u);
	if (u.slots_free > engine->most_free ||
	    u.live_blocks + STET_RELIEF_BLOCKS <= engine->vain_live) {
		engine->most_free = u.slots_free;
		engine->vain_live = u.live_blocks;
		engine->in_vain = 0;
	} else if (engine->in_vain < STET_IN_VAIN_MAX) {
		engine->in_vain++;
	}
	engine->clean_hopeless = engine->in_vain == STET_IN_VAIN_MAX;
	engine->clean_turn = engine->has_cleaner && stet_short_of_slots_(engine, 0, NULL);
}

static void complete(struct stet_engine *engine)
{
	struct stet_ckpt *ck = engine->ckpt;
	uint64_t cut = ck->cut;
	bool same = cut == engine->root->cut && !stet_mutant_is(STET_MUTANT_EARLY_REUSE);

	stet_ckpt_table_done_(engine);
	count_checkpoint(engine, ck);
	note_same_cut(engine, cut);
	int rc = new_rootref(engine, ck);
	ckpt_free(engine, ck);
	if (rc) {
		stet_engine_fail_(engine, "out of memory at the end of a checkpoint");
		return;
	}
	stet_log_trim(engine->log, engine->older_chain_serial);
	consume_runs(engine, cut);
	stet_delta_trim_(engine);
	stet_ignore(stet_rangeset_net(&engine->recovered, drop_recovered, engine),
		    "what it could not give back stays held until the next open");
	stet_rangeset_clear(&engine->recovered);
	count_pinned_anew(engine);
	engine->release_wanted = false;
	if (same)
		stet_space_release_same(engine->space, cut, pinned_by_view, engine);
	else
		stet_space_release(engine->space,
				   stet_mutant_is(STET_MUTANT_EARLY_REUSE) ? cut
									   : engine->older_cut,
				   pinned_by_view, engine);
	note_gain(engine);
	stet_waiters_fire_(engine, true, cut, 0);
	stet_space_kick_(engine);
}

static void nodes_finish(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;

	if (job->rc) {
		bool fatal = stet_log_group_failed(job->group) == STET_LOG_FLUSH_FAILED;

		abandon_nodes(engine, job);
		stet_ckpt_abort_(engine);
		if (fatal)
			stet_engine_fail_(engine, "a flush of tree nodes failed");
		count_failure(engine);
		return;
	}
	stet_log_complete(job->group);
	stet_job_destroy_(job);
	engine->ckpt->state = STET_CKPT_APPLY;
}

static void table_finish(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	bool retry = job->rc && stet_log_group_failed(job->group) == STET_LOG_WRITE_FAILED &&
		     ++engine->ckpt->table_retries < TABLE_RETRIES_MAX;

	if (job->rc) {
		bool written = stet_log_group_failed(job->group) == STET_LOG_OK;

		if (written)
			stet_log_complete(job->group); /* only the slot failed */
		else
			stet_log_abandon(job->group);
		stet_job_destroy_(job);
		if (retry) {
			stet_ckpt_table_undo_(engine);
			engine->ckpt->state = STET_CKPT_APPLY;
			return;
		}
		ckpt_free(engine, engine->ckpt);
		stet_engine_fail_(engine, "a checkpoint could not be written");
		return;
	}
	stet_log_complete(job->group);
	stet_job_destroy_(job);
	complete(engine);
}

void stet_ckpt_finish_(struct stet_job *job)
{
	if (job->kind == STET_JOB_NODES)
		nodes_finish(job);
	else
		table_finish(job);
}
