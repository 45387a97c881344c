/* overlay.c - views that outlive the delta's share of memory.
 *
 * A view keeps in memory what the delta held when it was opened, though newer checkpoints have it long since
 * (W1 of view.c). Many old views would keep much. So, once a checkpoint is done and the delta is still
 * over its share, the oldest view's part of it, everything between its root's cut and its serial, is
 * written as a sorted run that lies over its root, and forgotten in memory.
 *
 * Y1. An overlay is volatile: nothing on disk names it. Its nodes are held in space until its root goes.
 * Y2. Only views whose serial the newest root has reached: everything newest in their part has its place.
 *     What was superseded before it got one is placed now; no batch of the log can name it.
 * Y3. Buffers whose places no root owns are referenced, so that the places stay (V2 of version.c).
 * Y4. A view that is being read through an open scan waits: the scan reads the delta.
 * Y5. Where it cannot be done (no space, no memory, writes that fail again and again) the oldest transaction
 *     loses its view, also one that writes (N4 of txn.c). Only when none has one to lose the delta stays
 *     over its share until the next checkpoint.
 */
#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

#define FAILURES_MAX 8u /* writes that fail one after the other */

struct stet_overlay {
	struct stet_run run;
	STET_VEC(struct stet_node_ptr) nodes;
	STET_VEC(struct stet_databuf *) bufs; /* one reference each (Y3) */
	uint64_t reserved;                    /* blocks */
};

struct item {
	struct stet_key key;
	struct stet_val val;
	bool gone;
};

/* An extent that lies in several places becomes several items. What the merge gives within its blocks are
 * tombstones of what it covers: they come in between, or a piece takes their place. */
struct source {
	struct stet_job *job;
	struct stet_merge merge;
	struct item slot[2];
	struct item *now, *ahead; /* ahead: what follows, if it was read already */
	bool have_ahead;
	uint64_t first;        /* of an extent: its first file block */
	uint16_t done;         /* blocks of it that were given */
	bool pending;          /* more of it is to come */
	struct stet_key piece; /* key of what comes of it next */
	uint8_t value[STET_EXTENT_VALUE_MAX];
};

void stet_overlay_free_(struct stet_engine *engine, struct stet_overlay *over)
{
	if (!over)
		return;
	for (size_t i = 0; i < over->nodes.n; i++) {
		stet_ignore(stet_space_drop(engine->space, over->nodes.v[i].addr, STET_NODE_BLOCKS,
					    0, 0),
			    "released at once: needs no memory");
		stet_cache_forget(engine->cache, &over->nodes.v[i]);
	}
	for (size_t i = 0; i < over->bufs.n; i++)
		stet_buf_put_(engine, over->bufs.v[i]);
	stet_space_unreserve(engine->space, over->reserved);
	stet_vec_release(&over->nodes);
	stet_vec_release(&over->bufs);
	stet_free(over);
}

const struct stet_run *stet_overlay_run_(const struct stet_overlay *over)
{
	return &over->run;
}

/* --- what goes into it --- */
/* Y3 */
static int reference(struct source *src)
{
	const struct stet_val *val = &src->now->val;
	uint16_t n = 0;
	int rc;

	while (n < val->buf_count && val->buf->rooted >> (val->buf_from + n) & 1)
		n++;
	if (n == val->buf_count)
		return 0;
	rc = stet_vec_push(&src->job->overlay->bufs, val->buf);
	if (!rc)
		stet_databuf_get(val->buf);
	return rc;
}

static int give_piece(struct source *src, struct stet_change *ret)
{
	const struct stet_val *val = &src->now->val;
	struct stet_val piece = *val;
	uint64_t ino = stet_key_object(src->now->key.b);
	int rc = src->done == 0 ? reference(src) : 0;

	piece.buf_from = (uint16_t)(val->buf_from + src->done);
	piece.buf_count = (uint16_t)(val->buf_count - src->done);
	stet_key_extent(&src->now->key, ino, src->first + src->done);
	if (!rc)
		rc = stet_place_(src->job, STET_SEGK_BULK, ino, src->first + src->done, piece.buf,
				 piece.buf_from, piece.buf_count, &piece.buf_count);
	if (rc)
		return rc;
	src->done = (uint16_t)(src->done + piece.buf_count);
	src->pending = src->done < val->buf_count;
	if (src->pending)
		stet_key_extent(&src->piece, ino, src->first + src->done);
	*ret = (struct stet_change){
		.key = src->now->key.b,
		.key_bytes = src->now->key.bytes,
		.value = src->value,
		.value_bytes = (uint16_t)stet_val_encode_(&piece, src->value),
	};
	return 1;
}

static int give_item(const struct item *item, struct stet_change *ret)
{
	*ret = (struct stet_change){
		.key = item->key.b,
		.key_bytes = item->key.bytes,
		.value = item->val.b,
		.value_bytes = item->gone ? 0 : item->val.bytes,
		.tombstone = item->gone,
	};
	return 1;
}

/* Reads one more, unless there is one. 0: there is none. */
static int read_ahead(struct source *src)
{
	struct item *a = src->ahead;
	int rc = src->have_ahead ? 1 : stet_merge_next_(&src->merge, &a->key, &a->val, &a->gone);

	if (rc >= 0)
		src->have_ahead = rc == 1;
	return rc;
}

static int next_change(void *arg, struct stet_change *ret)
{
	struct source *src = arg;
	int rc = read_ahead(src);

	if (rc < 0)
		return rc;
	if (src->pending) {
		const struct stet_key *k = &src->ahead->key;
		int order = rc == 1 ? stet_key_cmp(k->b, k->bytes, src->piece.b, src->piece.bytes)
				    : 1;

		STET_ASSERT(order > 0 || src->ahead->gone); /* extents do not overlap */
		if (order <= 0)
			src->have_ahead = false;
		return order < 0 ? give_item(src->ahead, ret) : give_piece(src, ret);
	}
	if (rc == 0)
		return 0;
	struct item *free_slot = src->now;
	src->now = src->ahead;
	src->ahead = free_slot;
	src->have_ahead = false;
	if (src->now->gone || !src->now->val.buf)
		return give_item(src->now, ret);
	src->first = stet_key_suffix_u64(src->now->key.b);
	src->done = 0;
	return give_piece(src, ret);
}

static int write_node(void *arg, struct stet_cnode *node, uint32_t level, uint64_t check,
		      struct stet_node_ptr *ret_ptr)
{
	struct source *src = arg;
	struct stet_overlay *over = src->job->overlay;
	struct stet_node_ptr ptr = { .check = check };
	int rc = stet_vec_reserve(&over->nodes, 1);

	if (!rc)
		rc = stet_run_node_(src->job, node, level, &ptr);
	if (rc)
		return rc;
	over->nodes.v[over->nodes.n++] = ptr;
	*ret_ptr = ptr;
	return 0;
}

static int free_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level)
{
	(void)arg;
	(void)ptr;
	(void)level;
	return 0; /* there was no tree before */
}

static int changed(void *arg, const void *key, size_t key_bytes, const struct stet_item *old_item,
		   const struct stet_change *new_item)
{
	struct source *src = arg;

	(void)key;
	(void)key_bytes;
	(void)old_item;
	src->job->overlay->run.item_count += new_item != NULL;
	return 0;
}

static int build(struct source *src)
{
	struct stet_job *job = src->job;
	const struct stet_tree_apply_ops ops = { next_change, write_node, free_node, changed, src };
	struct stet_root root = { 0 };
	struct stet_tree_apply *apply;
	int rc = stet_tree_apply_create(job->engine->cache, job->engine->sb.volume_id,
					STET_TREE_RUN, &root, job->run_birth, true, NULL, 0, &ops,
					&apply);

	if (rc)
		return rc;
	do {
		rc = stet_tree_apply_step(apply, UINT32_MAX);
	} while (rc == 1);
	if (!rc)
		stet_tree_apply_root(apply, &root);
	stet_tree_apply_destroy(apply);
	job->overlay->run.root = root.ptr;
	job->overlay->run.root_level = root.level;
	return rc;
}

static int reserve(struct stet_job *job)
{
	struct stet_overlay *over = job->overlay;
	uint64_t blocks = over->nodes.n * STET_NODE_BLOCKS;
	int rc;

	for (size_t i = 0; i < job->placed.n; i++)
		blocks += job->placed.v[i].count;
	rc = stet_space_reserve(job->engine->space, blocks, STET_SPACE_NORMAL);
	if (!rc)
		over->reserved = blocks;
	return rc;
}

/* --- the job --- */

/* Nothing was written. The places go first, with the group; then nobody gives them back again. */
static void undo(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	struct stet_overlay *over = job->overlay;

	if (job->group)
		stet_log_abandon(job->group);
	stet_placed_undo_(job);
	if (job->view)
		job->view->overlaying = NULL;
	stet_job_destroy_(job);
	for (size_t i = 0; i < over->nodes.n; i++)
		stet_cache_forget(engine->cache, &over->nodes.v[i]);
	over->nodes.n = 0;
	stet_overlay_free_(engine, over);
}

static int job_build(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	struct stet_view *view = job->view;
	struct source *src = stet_calloc(1, sizeof(*src));
	int rc;

	if (!src)
		return STET_FAIL(-ENOMEM, "no memory for an overlay");
	src->job = job;
	src->now = &src->slot[0];
	src->ahead = &src->slot[1];
	rc = stet_log_begin(engine->log, false, &job->group);
	if (!rc)
		rc = stet_merge_open_changes_(&src->merge, engine, view->root, view->serial);
	if (!rc) {
		rc = build(src);
		stet_merge_close_(&src->merge);
	}
	stet_free(src);
	if (!rc)
		rc = reserve(job);
	if (!rc)
		rc = stet_log_end(job->group, STET_PSEG_PAYLOAD, 0, stet_engine_now(engine), false);
	return rc;
}

static int start(struct stet_engine *engine, struct stet_view *view, struct stet_job **ret)
{
	struct stet_overlay *over = stet_calloc(1, sizeof(*over));
	struct stet_job *job;
	int rc;

	if (!over)
		return STET_FAIL(-ENOMEM, "no memory for an overlay");
	rc = stet_job_create_(engine, STET_JOB_OVERLAY, &job);
	if (rc) {
		stet_free(over);
		return rc;
	}
	over->run.serial = view->serial;
	job->overlay = over;
	job->view = view;
	job->run_birth = stet_log_last_serial(engine->log);
	rc = job_build(job);
	if (rc) {
		undo(job);
		return rc;
	}
	view->overlaying = job;
	engine->bulk_busy = true;
	*ret = job;
	return 0;
}

static int rebase(struct stet_engine *engine, struct stet_view *view, struct stet_overlay *over)
{
	struct stet_rootref *root = stet_calloc(1, sizeof(*root));

	if (!root)
		return STET_FAIL(-ENOMEM, "no memory for a root");
	*root = (struct stet_rootref){ .refs = 1,
				       .root = view->root->root,
				       .cut = view->serial,
				       .base_cut = view->root->base_cut,
				       .same_after = view->root->same_after,
				       .over = over };
	stet_rootref_put_(engine, view->root);
	view->root = root;
	return 0;
}

/* Y5. Where nobody has a view to lose, none is tried until a checkpoint has got through. */
static void give_up(struct stet_engine *engine)
{
	if (stet_txn_expire_oldest_(engine, true, NULL))
		stet_delta_trim_(engine);
	else
		engine->overlay_failures = FAILURES_MAX + 1;
}

void stet_overlay_finish_(struct stet_job *job)
{
	struct stet_engine *engine = job->engine;
	struct stet_overlay *over = job->overlay;
	struct stet_view *view = job->view;

	engine->bulk_busy = false;
	if (job->rc) {
		undo(job);
		if (++engine->overlay_failures >
		    FAILURES_MAX) /* else the next one goes elsewhere */
			give_up(engine);
		return;
	}
	engine->overlay_failures = 0;
	stet_log_complete(job->group);
	stet_placed_done_(job);
	stet_job_destroy_(job);
	if (view)
		view->overlaying = NULL;
	if (!view || view->scans > 0 || rebase(engine, view, over)) {
		stet_overlay_free_(engine, over);
		return;
	}
	engine->stats.overlays++;
	stet_delta_trim_(engine);
}

/* --- which view --- */

/* Whether the view keeps something in memory that could lie on the device (Y2, Y4). */
static bool is_candidate(const struct stet_engine *engine, const struct stet_view *view)
{
	return view->root->cut < view->serial && view->serial <= engine->root->cut &&
	       view->scans == 0 && !view->overlaying;
}

bool stet_overlay_due_(const struct stet_engine *engine)
{
	struct stet_list *pos;

	if (engine->delta_bytes <= engine->delta_limit_bytes || engine->trimming ||
	    engine->bulk_busy || engine->failed || engine->overlay_failures > FAILURES_MAX)
		return false;
	STET_LIST_FOREACH(pos, &engine->views) {
		if (is_candidate(engine, stet_container_of(pos, struct stet_view, link)))
			return true;
	}
	return false;
}

int stet_overlay_step_(struct stet_engine *engine, struct stet_job **ret)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->views) {
		struct stet_view *view = stet_container_of(pos, struct stet_view, link);

		if (!is_candidate(engine, view))
			continue;
		if (start(engine, view, ret))
			give_up(engine);
		return 1;
	}
	return 0;
}
