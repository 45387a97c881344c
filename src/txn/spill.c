/* spill.c - transactions larger than their share of memory: steal and spill.
 *
 * P1. Stolen data: whole blocks go to the BULK head before the transaction is ordered. Nothing refers to
 *     them; if it never is ordered they are dropped.
 * P2. A write-set over its share becomes, or is merged into, the transaction's run: an immutable tree of
 *     finals (tombstones kept, times and births of the commit as symbols), written to the BULK head.
 *     Intents stay in memory: they are merged at ordering.
 * P3. Ordering publishes the run by its root, in O(1). The COMMIT that names it is written after a flush, so
 *     recovery finds all of it.
 * P4. The places of data that a run names are the run's own until a checkpoint has made them live (or
 *     not: then they are dropped there).
 *     What savepoints may come back to stays, too (keep.c).
 * P5. One spill at a time for the whole volume; entries stay readable in memory until it is written.
 * P6. A spill that cannot be begun changes nothing, and dooms nothing: the transaction has a write-set over its share,
 *     which may be ordered, or become smaller by going back to a savepoint. Whoever would add to it must spill first.
 */
#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

#define FAILURES_MAX 8u

static uint64_t set_share(const struct stet_engine *engine)
{
	uint64_t bytes = engine->config.spill_bytes;

	return bytes ? bytes : engine->config.cache_bytes / 8;
}

static uint64_t data_share(const struct stet_engine *engine)
{
	uint64_t bytes = engine->config.spill_bytes;

	return bytes ? 2 * bytes : engine->dirty_limit_bytes / 2;
}

/* --- stealing --- */
static int steal_version(struct stet_job *job, const uint8_t *key, const struct stet_version *v)
{
	uint64_t first;
	uint16_t run;
	int rc = 0;

	if (!v || v->kind != STET_V_BUF)
		return 0;
	first = stet_key_suffix_u64(key);
	for (uint16_t done = 0; done < v->count && !rc; done = (uint16_t)(done + run))
		rc = stet_place_(job, STET_SEGK_BULK, stet_key_object(key), first + done, v->buf,
				 (uint16_t)(v->from + done), (uint16_t)(v->count - done), &run);
	return rc;
}

/* What savepoints need is placed as well. */
static int steal(struct stet_job *job)
{
	struct stet_txn *txn = job->txn;
	const struct stet_undo_list *finals = &txn->saves.finals;
	int rc = 0;

	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node && !rc;
	     node = stet_skiplist_next(node))
		rc = steal_version(job, stet_skipnode_key(node), node->value);
	for (size_t i = 0; i < finals->list.n && !rc; i++)
		rc = steal_version(job, finals->list.v[i]->key, finals->list.v[i]->old);
	if (!rc)
		txn->buf_bytes = 0;
	return rc;
}

/* --- the run --- */

/* The entries in key order. An extent whose blocks lie in several places becomes several items; among the
 * keys of those there may be others, of extents that it has replaced. */
struct source {
	struct stet_job *job;
	struct stet_skipnode *node;
	struct stet_version *cut; /* an extent that is being given in pieces; NULL: none */
	struct stet_key key;      /* of its piece that was given last */
	struct stet_key next;     /* of its next piece */
	uint16_t done;            /* blocks of it that were given */
	int64_t items;            /* added, tombstones included */
	uint8_t value[STET_EXTENT_VALUE_MAX];
};

static int give_piece(struct source *src, struct stet_change *ret)
{
	struct stet_version *v = src->cut;
	struct stet_val piece = { .buf = v->buf,
				  .buf_from = (uint16_t)(v->from + src->done),
				  .buf_count = 1,
				  .birth = v->birth };
	uint64_t ino = stet_key_object(src->key.b);
	uint64_t block = stet_key_suffix_u64(src->key.b);
	const struct stet_addr *addr = &v->buf->addr[piece.buf_from];

	while (src->done + piece.buf_count < v->count &&
	       addr[piece.buf_count].v == addr[0].v + piece.buf_count &&
	       stet_addr_seg(addr[piece.buf_count]) == stet_addr_seg(addr[0]))
		piece.buf_count++;
	*ret = (struct stet_change){
		.key = src->key.b,
		.key_bytes = src->key.bytes,
		.value = src->value,
		.value_bytes = (uint16_t)stet_val_encode_(&piece, src->value),
	};
	src->done = (uint16_t)(src->done + piece.buf_count);
	if (src->done == v->count)
		src->cut = NULL;
	else
		stet_key_extent(&src->next, ino, block + piece.buf_count);
	return 1;
}

/* How the next entry lies to the next piece: below 0 before it. */
static int order(const struct source *src)
{
	return src->node ? stet_key_cmp(stet_skipnode_key(src->node), src->node->key_len,
					src->next.b, src->next.bytes)
			 : 1;
}

static int next_entry(void *arg, struct stet_change *ret)
{
	struct source *src = arg;
	struct stet_version *v;

	while (src->node && !stet_version_is_final_(src->node->value) &&
	       !(src->cut && order(src) >= 0))
		src->node = stet_skiplist_next(src->node);
	if (src->cut && order(src) >= 0) {
		if (order(src) == 0) { /* the piece takes its place */
			((struct stet_version *)src->node->value)->spilling = true;
			src->node = stet_skiplist_next(src->node);
		}
		src->key = src->next;
		return give_piece(src, ret);
	}
	if (!src->node)
		return 0;
	v = src->node->value;
	v->spilling = true;
	if (v->kind == STET_V_BUF) {
		STET_ASSERT(!src->cut); /* extents do not overlap */
		src->cut = v;
		src->done = 0;
		src->key.bytes = src->node->key_len;
		memcpy(src->key.b, stet_skipnode_key(src->node), src->node->key_len);
		src->node = stet_skiplist_next(src->node);
		return give_piece(src, ret);
	}
	*ret = (struct stet_change){
		.key = stet_skipnode_key(src->node),
		.key_bytes = src->node->key_len,
		.value = v->b,
		.value_bytes = v->bytes,
		.tombstone = v->kind == STET_V_DEL,
	};
	src->node = stet_skiplist_next(src->node);
	return 1;
}

int stet_run_node_(struct stet_job *job, struct stet_cnode *node, uint32_t level,
		   struct stet_node_ptr *ptr)
{
	const uint8_t *bytes = stet_cnode_bytes(node);
	uint32_t crcs[STET_NODE_BLOCKS];
	int rc = stet_vec_reserve(&job->nodes, 1);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < STET_NODE_BLOCKS; i++)
		crcs[i] = stet_crc32c(bytes + (size_t)i * STET_BLOCK_SIZE, STET_BLOCK_SIZE);
	ptr->birth = job->run_birth;
	rc = stet_log_put_whole(job->group, STET_SEGK_BULK, STET_PAYLOAD_NODE, STET_TREE_RUN, level,
				bytes, crcs, STET_NODE_BLOCKS, &ptr->addr);
	if (!rc)
		rc = stet_cnode_publish(node, ptr);
	if (rc)
		return rc;
	job->nodes.v[job->nodes.n++] = stet_cnode_pin(node);
	return 0;
}

static int write_node(void *arg, struct stet_cnode *node, uint32_t level, uint64_t check,
		      struct stet_node_ptr *ret_ptr)
{
	struct source *src = arg;
	struct stet_job *job = src->job;
	struct stet_node_ptr ptr = { .check = check };
	int rc = stet_vec_reserve(&job->run_new, 1);

	if (!rc)
		rc = stet_run_node_(job, node, level, &ptr);
	if (rc)
		return rc;
	job->run_new.v[job->run_new.n++] = ptr;
	*ret_ptr = ptr;
	return 0;
}

static int free_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level)
{
	struct source *src = arg;

	(void)level;
	return stet_vec_push(&src->job->run_old, *ptr);
}

static int add_extent(struct stet_job *job, const uint8_t *value, size_t bytes, uint64_t mark)
{
	struct stet_extent e;
	int rc = stet_extent_decode(value, bytes, job->engine->sb.seg_blocks, &e);

	/* What existed before the transaction (it has a birth) is none of the run's business. */
	if (rc || e.birth != 0)
		return rc;
	return stet_rangeset_add(&job->run_data, e.addr, e.phys_blocks, mark);
}

static int changed(void *arg, const void *key, size_t key_bytes, const struct stet_item *old_item,
		   const struct stet_change *new_item)
{
	struct source *src = arg;
	int rc = 0;

	(void)key_bytes;
	src->items += (new_item ? 1 : 0) - (old_item ? 1 : 0);
	if (stet_key_get_kind(key) != STET_KIND_EXTENT)
		return 0;
	if (old_item && !old_item->tombstone)
		rc = add_extent(src->job, old_item->value, old_item->value_bytes, 1);
	if (!rc && new_item && !new_item->tombstone)
		rc = add_extent(src->job, new_item->value, new_item->value_bytes, 0);
	return rc;
}

static int build_run(struct stet_job *job)
{
	struct stet_txn *txn = job->txn;
	struct source src = { .job = job, .node = stet_skiplist_first(&txn->set) };
	const struct stet_tree_apply_ops ops = { next_entry, write_node, free_node, changed, &src };
	struct stet_root root = { 0 };
	struct stet_tree_apply *apply;

	if (txn->have_run)
		root = (struct stet_root){ txn->run.root, txn->run.root_level };
	int rc = stet_tree_apply_create(job->engine->cache, job->engine->sb.volume_id,
					STET_TREE_RUN, &root, job->run_birth, true, NULL, 0, &ops,
					&apply);
	if (rc)
		return rc;
	do {
		rc = stet_tree_apply_step(apply, UINT32_MAX);
	} while (rc == 1);
	if (!rc) {
		stet_tree_apply_root(apply, &root);
		job->run = txn->run;
		job->run.root = root.ptr;
		job->run.root_level = root.level;
		job->run.item_count = (txn->have_run ? txn->run.item_count : 0) +
				      (uint64_t)src.items;
		job->with_run = true;
	}
	stet_tree_apply_destroy(apply);
	return rc;
}

/* --- the job --- */
static void unmark(struct stet_txn *txn)
{
	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node;
	     node = stet_skiplist_next(node))
		((struct stet_version *)node->value)->spilling = false;
}

static void free_bulk(struct stet_job *job)
{
	stet_vec_release(&job->run_new);
	stet_vec_release(&job->run_old);
	stet_vec_release(&job->out_new);
	stet_rangeset_release(&job->run_data);
	stet_point_free_(job->txn, job->point_before);
	stet_point_free_(job->txn, job->point);
	stet_job_destroy_(job);
}

static uint64_t unplaced(const struct stet_version *v)
{
	if (!v || v->kind != STET_V_BUF || stet_databuf_placed(v->buf, v->from, v->count))
		return 0;
	return (uint64_t)v->count * STET_BLOCK_SIZE;
}

static uint64_t unplaced_in(const struct stet_txn *txn)
{
	const struct stet_undo_list *finals = &txn->saves.finals;
	uint64_t sum = 0;

	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node;
	     node = stet_skiplist_next(node))
		sum += unplaced(node->value);
	for (size_t i = 0; i < finals->list.n; i++)
		sum += unplaced(finals->list.v[i]->old);
	return sum;
}

static void forget_nodes(struct stet_engine *engine, const struct stet_node_ptr *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		stet_cache_forget(engine->cache, &nodes[i]);
}

/* Nothing was written: nodes are forgotten, buffers lose their places, the entries stay. */
static void undo(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	struct stet_txn *txn = job->txn;
	STET_VEC(struct stet_node_ptr) run = { job->run_new.v, job->run_new.n, job->run_new.cap };
	STET_VEC(struct stet_node_ptr) out = { job->out_new.v, job->out_new.n, job->out_new.cap };

	stet_vec_init(&job->run_new);
	stet_vec_init(&job->out_new);
	if (job->group)
		stet_log_abandon(job->group);
	stet_placed_undo_(job);
	unmark(txn);
	txn->buf_bytes = unplaced_in(txn);
	stet_space_unreserve(engine->space, job->out_reserved);
	txn->promised -= job->out_reserved;
	free_bulk(job);
	forget_nodes(engine, run.v, run.n); /* no longer pinned */
	forget_nodes(engine, out.v, out.n);
	stet_vec_release(&run);
	stet_vec_release(&out);
}

static bool is_over(const struct stet_txn *txn)
{
	return !txn->doomed && txn->level != STET_LEVEL_PLAIN &&
	       (txn->final_bytes > set_share(txn->engine) ||
		txn->buf_bytes > data_share(txn->engine));
}

int stet_txn_spill_room(struct stet_txn *txn, struct stet_ticket *ticket)
{
	uint32_t copies = txn->engine->sb.data_copies;
	uint64_t blocks = txn->spill_lacks > 0 ? (txn->spill_lacks + copies - 1) / copies : 1;
	int rc = stet_txn_reserve(txn, blocks, 0, false, ticket);

	if (rc)
		return rc;
	stet_space_unreserve(txn->engine->space, blocks * copies);
	txn->promised -= blocks * copies;
	return 0;
}

int stet_txn_spill(struct stet_txn *txn, struct stet_job **ret)
{
	struct stet_engine *engine = txn->engine;
	bool set_full = txn->final_bytes > set_share(engine);
	struct stet_job *job;

	*ret = NULL;
	txn->spill_lacks = 0;
	if (engine->bulk_busy || !is_over(txn))
		return 0;
	int rc = stet_job_create_(engine, STET_JOB_BULK, &job);
	if (rc)
		return rc;
	job->txn = txn;
	job->run_birth = stet_log_last_serial(engine->log);
	stet_rangeset_init(&job->run_data);
	rc = stet_log_begin(engine->log, false, &job->group);
	if (!rc)
		rc = steal(job);
	if (!rc && set_full)
		rc = build_run(job);
	if (!rc && set_full && stet_save_in_interval_(&txn->saves)) {
		rc = stet_keep_prepare_(job);
		if (!rc)
			rc = stet_swap_out_(job);
	}
	if (!rc)
		rc = stet_log_end(job->group, STET_PSEG_PAYLOAD, 0, stet_engine_now(engine), false);
	if (rc) { /* P6 */
		undo(job);
		return rc;
	}
	engine->bulk_busy = true;
	engine->stats.spills++;
	txn->spilling = job;
	*ret = job;
	return 1;
}

static int net_data(void *arg, struct stet_addr addr, uint32_t blocks, uint64_t birth)
{
	struct stet_txn *txn = arg;

	if (birth == 0) {
		txn->run_blocks += blocks;
		return 0;
	}
	txn->run_blocks -= blocks;
	stet_keep_lost_data_(txn, addr, blocks);
	return 0;
}

static void raise_mark(struct stet_txn *txn, struct stet_addr addr, uint32_t blocks)
{
	if (addr.v + blocks - 1 > txn->saves.mark)
		txn->saves.mark = addr.v + blocks - 1;
}

/* K2 of keep.c */
static void mark_places(const struct stet_job *job)
{
	for (size_t i = 0; i < job->placed.n; i++) {
		const struct stet_placed *p = &job->placed.v[i];

		raise_mark(job->txn, p->buf->addr[p->from], p->count);
	}
	for (size_t i = 0; i < job->run_new.n; i++)
		raise_mark(job->txn, job->run_new.v[i].addr, STET_NODE_BLOCKS);
	for (size_t i = 0; i < job->out_new.n; i++)
		raise_mark(job->txn, job->out_new.v[i].addr, STET_NODE_BLOCKS);
}

static void take_run(struct stet_job *job)
{
	struct stet_txn *txn = job->txn;

	stet_keep_before_(job);
	txn->run = job->run;
	txn->have_run = true;
	for (size_t i = 0; i < job->run_old.n; i++)
		stet_keep_lost_node_(txn, &job->run_old.v[i]);
	txn->run_nodes += job->run_new.n - job->run_old.n;
	stet_ignore(stet_rangeset_net(&job->run_data, net_data, txn),
		    "without memory the blocks stay held until the next open");
	stet_set_rooted_(txn);
	if (job->point)
		stet_swap_done_(job);
	stet_set_spilled_(txn);
	stet_keep_after_(job);
	stet_txn_shrink_promise_(txn); /* the run shows what it will really need */
}

static void spilled(struct stet_job *job)
{
	stet_log_complete(job->group);
	job->engine->bulk_writes++;
	stet_placed_done_(job);
	mark_places(job);
	if (job->with_run)
		take_run(job);
	free_bulk(job);
}

void stet_spill_finish_(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	struct stet_txn *txn = job->txn;

	int rc = job->rc;

	engine->bulk_busy = false;
	txn->spilling = NULL;
	engine->bulk_failures = rc ? engine->bulk_failures + 1 : 0;
	if (rc == 0)
		spilled(job);
	else
		undo(job); /* the next spill goes elsewhere */
	if (engine->bulk_failures > FAILURES_MAX)
		stet_txn_doom(txn, rc); /* there is no better place */
	stet_ticket_fire_all(&txn->spill_waiters, 0);
	if (txn->ended)
		stet_txn_end(txn);
}

/* --- giving a run's places back --- */
struct drop {
	struct stet_engine *engine;
	uint64_t cut;
	bool data;
};

static int drop_item(const struct drop *d, const struct stet_key *key, const struct stet_item *item)
{
	struct stet_extent e;

	if (item->tombstone || stet_key_get_kind(key->b) != STET_KIND_EXTENT)
		return 0;
	int rc = stet_extent_decode(item->value, item->value_bytes, d->engine->sb.seg_blocks, &e);
	for (uint32_t i = 0; i < e.phys_blocks && !rc; i++) {
		struct stet_addr addr = stet_addr_add(e.addr, i);

		/* Content that was only cut down or moved was born before: it is a root's. */
		if (e.birth == 0 && !stet_space_is_live(d->engine->space, addr))
			rc = stet_space_drop(d->engine->space, addr, 1, 0, d->cut);
	}
	return rc;
}

static int drop_visit(void *arg, const struct stet_node_ptr *ptr, uint32_t level,
		      const uint8_t *node)
{
	const struct drop *d = arg;
	int rc = 0;

	if (level == 0 && d->data) {
		for (uint32_t i = 0; i < stet_node_count(node) && !rc; i++) {
			struct stet_item item;
			struct stet_key key;

			stet_node_key(node, i, &key);
			stet_node_item(node, i, &item);
			rc = drop_item(d, &key, &item);
		}
	}
	if (!rc)
		rc = stet_space_drop(d->engine->space, ptr->addr, STET_NODE_BLOCKS, 0, d->cut);
	return rc;
}

static int drop_run(struct stet_engine *engine, const struct stet_run *run, uint64_t cut, bool data)
{
	struct stet_root root = { run->root, run->root_level };
	struct drop d = { engine, cut, data };

	return stet_tree_walk(engine->cache, STET_TREE_RUN, &root, drop_visit, &d);
}

int stet_spill_consumed_(struct stet_engine *engine, const struct stet_runref *ref)
{
	return drop_run(engine, &ref->run, engine->root->cut, !ref->recovered);
}

void stet_spill_abort_(struct stet_txn *txn)
{
	if (!txn->have_run)
		return;
	stet_ignore(drop_run(txn->engine, &txn->run, 0, true),
		    "what it could not give back stays held until the next open");
	txn->have_run = false;
}
