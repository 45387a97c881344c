/* keep.c - what savepoints need of earlier runs.
 *
 * A spill makes a new run out of the old one, copying what it changes. While a savepoint may come back to the
 * old one, what only that names must stay: it is put on the list of a point. A point is the state after a
 * spill.
 *
 * K1. There is a point for interval n while a savepoint was taken in n (its records and entries were swapped
 *     out at the end of n, over the run of point n - 1, and share places with the run of n) or in n + 1 (it
 *     comes back to the run of n).
 * K2. Places come in rising order: segments' ids rise, and the BULK head goes forwards. So of what any run of the
 *     transaction names, its oldest run that names it can be told from the address: a point's run names exactly
 *     what lies at or below its mark, of what a newer one names or has lost.
 *     Nothing that was placed before a mark enters a run after it: a spill takes in all there is; what then
 *     still has a place is named only by what was swapped out, and that comes back with the point's end.
 * K3. What a run lost is on the list of the newest point whose run names it; when that goes, it passes to the
 *     next older one, or is given back.
 * K4. Points are few: at most two for each spill, and none between spills that no savepoint lies between.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

static void drop_now(struct stet_txn *txn, struct stet_addr addr, uint32_t blocks)
{
	stet_ignore(stet_space_drop(txn->engine->space, addr, blocks, 0, 0),
		    "released at once: needs no memory");
}

/* The newest of the first `n` points whose run names it, NULL: none. */
static struct stet_point *needs(struct stet_saves *saves, size_t n, uint64_t addr)
{
	if (stet_mutant_is(STET_MUTANT_SAVE_NO_KEEP))
		return NULL;
	for (size_t i = n; i > 0; i--)
		if (addr <= saves->points.v[i - 1]->mark)
			return saves->points.v[i - 1];
	return NULL;
}

static void lose_node(struct stet_txn *txn, size_t points, struct stet_addr addr)
{
	struct stet_point *point = needs(&txn->saves, points, addr.v);

	if (point && !stet_vec_push(&point->lost_nodes, addr)) {
		txn->saves.kept_nodes += STET_NODE_BLOCKS;
		return;
	}
	if (!point)
		drop_now(txn, addr, STET_NODE_BLOCKS);
	/* Else: without memory the blocks stay held until the next open. */
}

/* A run of blocks may go across a mark. */
static void lose_data(struct stet_txn *txn, size_t points, struct stet_addr addr, uint32_t blocks)
{
	while (blocks > 0) {
		struct stet_point *point = needs(&txn->saves, points, addr.v);
		uint32_t n = blocks;

		if (point && addr.v + blocks - 1 > point->mark)
			n = (uint32_t)(point->mark - addr.v) + 1;
		if (!point)
			drop_now(txn, addr, n);
		else if (!stet_rangeset_add(&point->lost, addr, n, 0))
			txn->saves.kept_blocks += n;
		addr = stet_addr_add(addr, n);
		blocks -= n;
	}
}

void stet_keep_lost_node_(struct stet_txn *txn, const struct stet_node_ptr *ptr)
{
	stet_cache_forget(txn->engine->cache, ptr);
	lose_node(txn, txn->saves.points.n, ptr->addr);
}

void stet_keep_lost_data_(struct stet_txn *txn, struct stet_addr addr, uint32_t blocks)
{
	lose_data(txn, txn->saves.points.n, addr, blocks);
}

/* --- points --- */

void stet_point_free_(struct stet_txn *txn, struct stet_point *point)
{
	(void)txn;
	if (!point)
		return;
	stet_vec_release(&point->lost_nodes);
	stet_vec_release(&point->out_nodes);
	stet_rangeset_release(&point->lost);
	stet_rangeset_release(&point->owned);
	stet_free(point);
}

struct stet_point *stet_keep_find_(struct stet_txn *txn, uint32_t interval)
{
	struct stet_saves *saves = &txn->saves;
	size_t lo = 0, hi = saves->points.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (saves->points.v[mid]->interval < interval)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < saves->points.n && saves->points.v[lo]->interval == interval
		       ? saves->points.v[lo]
		       : NULL;
}

static uint64_t blocks_in(const struct stet_rangeset *set)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < set->list.n; i++)
		sum += set->list.v[i].blocks;
	return sum;
}

/* What was swapped out goes. */
static void drop_swapped(struct stet_txn *txn, struct stet_point *point, bool data)
{
	for (size_t i = 0; i < point->out_nodes.n; i++)
		drop_now(txn, point->out_nodes.v[i], STET_NODE_BLOCKS);
	for (size_t i = 0; i < point->owned.list.n && data; i++)
		drop_now(txn, point->owned.list.v[i].addr, point->owned.list.v[i].blocks);
	txn->saves.kept_blocks -= point->out_nodes.n * STET_NODE_BLOCKS + blocks_in(&point->owned);
	stet_vec_release(&point->out_nodes);
	stet_rangeset_clear(&point->owned);
}

static void uncount_lost(struct stet_txn *txn, const struct stet_point *point)
{
	txn->saves.kept_nodes -= point->lost_nodes.n * STET_NODE_BLOCKS;
	txn->saves.kept_blocks -= blocks_in(&point->lost);
}

void stet_keep_trim_(struct stet_txn *txn, uint32_t interval)
{
	struct stet_saves *saves = &txn->saves;
	bool all = interval == UINT32_MAX; /* point 0 too */

	while (saves->points.n > 0) {
		size_t n = saves->points.n - 1;
		struct stet_point *point = saves->points.v[n];

		if (!all && point->interval <= interval)
			break;
		uncount_lost(txn, point);
		saves->points.n = n; /* K3 */
		for (size_t i = 0; i < point->lost_nodes.n; i++)
			lose_node(txn, n, point->lost_nodes.v[i]);
		for (size_t i = 0; i < point->lost.list.n; i++)
			lose_data(txn, n, point->lost.list.v[i].addr, point->lost.list.v[i].blocks);
		drop_swapped(txn, point, true);
		stet_point_free_(txn, point);
	}
	if (saves->points.n == 0)
		stet_vec_release(&saves->points);
}

static int make_point(struct stet_txn *txn, uint32_t interval, struct stet_point **ret)
{
	struct stet_point *point = stet_calloc(1, sizeof(*point));

	if (!point)
		return STET_FAIL(-ENOMEM, "no memory to keep a savepoint");
	point->interval = interval;
	point->have_run = txn->have_run;
	point->run = txn->run;
	point->run_nodes = txn->run_nodes;
	point->run_blocks = txn->run_blocks;
	point->mark = txn->saves.run_mark;
	stet_rangeset_init(&point->lost);
	stet_rangeset_init(&point->owned);
	*ret = point;
	return 0;
}

int stet_keep_prepare_(struct stet_job *job)
{
	struct stet_txn *txn = job->txn;
	uint32_t interval = txn->saves.interval;
	int rc = stet_vec_reserve(&txn->saves.points, 2);

	if (!rc && !stet_keep_find_(txn, interval - 1))
		rc = make_point(txn, interval - 1, &job->point_before);
	if (!rc)
		rc = make_point(txn, interval, &job->point);
	return rc;
}

static void push_point(struct stet_saves *saves, struct stet_point **point)
{
	if (*point)
		saves->points.v[saves->points.n++] = *point; /* there is room: prepared */
	*point = NULL;
}

void stet_keep_before_(struct stet_job *job)
{
	push_point(&job->txn->saves, &job->point_before);
}

void stet_keep_after_(struct stet_job *job)
{
	struct stet_txn *txn = job->txn;
	struct stet_point *point = job->point;

	txn->saves.run_mark = txn->saves.mark;
	txn->saves.interval++;
	if (!point)
		return;
	point->have_run = true;
	point->run = txn->run;
	point->run_nodes = txn->run_nodes;
	point->run_blocks = txn->run_blocks;
	point->mark = txn->saves.mark;
	txn->saves.kept_blocks += point->out_nodes.n * STET_NODE_BLOCKS + blocks_in(&point->owned);
	push_point(&txn->saves, &job->point);
}

/* --- going back to a point --- */
struct dying {
	struct stet_txn *txn;
	uint64_t mark;             /* of the point */
	struct stet_rangeset data; /* and what is taken: so the net is what goes */
	STET_VEC(struct stet_addr) nodes;
};

static int die_data(struct dying *d, struct stet_addr addr, uint32_t blocks)
{
	uint64_t end = addr.v + blocks;

	if (addr.v <= d->mark)
		addr.v = end <= d->mark + 1 ? end : d->mark + 1;
	return addr.v < end ? stet_rangeset_add(&d->data, addr, (uint32_t)(end - addr.v), 0) : 0;
}

static int die_leaf(struct dying *d, const uint8_t *node)
{
	uint32_t seg_blocks = d->txn->engine->sb.seg_blocks;
	int rc = 0;

	for (uint32_t i = 0; i < stet_node_count(node) && !rc; i++) {
		struct stet_item item;
		struct stet_extent e;
		struct stet_key key;

		stet_node_key(node, i, &key);
		stet_node_item(node, i, &item);
		if (item.tombstone || stet_key_get_kind(key.b) != STET_KIND_EXTENT)
			continue;
		rc = stet_extent_decode(item.value, item.value_bytes, seg_blocks, &e);
		if (!rc && e.birth == 0)
			rc = die_data(d, e.addr, e.phys_blocks);
	}
	return rc;
}

static int die_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level, const uint8_t *node)
{
	struct dying *d = arg;
	int rc = level == 0 ? die_leaf(d, node) : 0;

	return rc ? rc : stet_vec_push(&d->nodes, ptr->addr);
}

/* What a point above has kept for itself, or swapped out. */
static int die_point(struct dying *d, const struct stet_point *point)
{
	int rc = 0;

	for (size_t i = 0; i < point->lost_nodes.n && !rc; i++)
		if (point->lost_nodes.v[i].v > d->mark)
			rc = stet_vec_push(&d->nodes, point->lost_nodes.v[i]);
	for (size_t i = 0; i < point->lost.list.n && !rc; i++)
		rc = die_data(d, point->lost.list.v[i].addr, point->lost.list.v[i].blocks);
	for (size_t i = 0; i < point->owned.list.n && !rc; i++)
		rc = die_data(d, point->owned.list.v[i].addr, point->owned.list.v[i].blocks);
	return rc;
}

static int collect_dying(struct dying *d, const struct stet_point *to,
			 const struct stet_rangeset *taken)
{
	struct stet_txn *txn = d->txn;
	struct stet_root root = { txn->run.root, txn->run.root_level };
	int rc = 0;

	if (txn->have_run)
		rc = stet_tree_walk_above(txn->engine->cache, STET_TREE_RUN, &root, to->mark,
					  die_node, d);
	for (size_t i = txn->saves.points.n; i > 0 && txn->saves.points.v[i - 1] != to && !rc; i--)
		rc = die_point(d, txn->saves.points.v[i - 1]);
	for (size_t i = 0; i < taken->list.n && !rc; i++)
		rc = stet_rangeset_add(&d->data, taken->list.v[i].addr, taken->list.v[i].blocks, 0);
	return rc;
}

static int drop_range(void *arg, struct stet_addr addr, uint32_t blocks, uint64_t birth)
{
	(void)birth;
	drop_now(arg, addr, blocks);
	return 0;
}

/* From here on nothing fails but for want of memory, and then places stay held until the next open. */
static void bury(struct dying *d, struct stet_point *to)
{
	struct stet_txn *txn = d->txn;
	struct stet_saves *saves = &txn->saves;

	for (size_t i = 0; i < d->nodes.n; i++)
		drop_now(txn, d->nodes.v[i], STET_NODE_BLOCKS);
	stet_ignore(stet_rangeset_net(&d->data, drop_range, txn),
		    "without memory the blocks stay held until the next open");
	while (saves->points.v[saves->points.n - 1] != to) {
		struct stet_point *point = saves->points.v[--saves->points.n];

		uncount_lost(txn, point);
		drop_swapped(txn, point, false);
		stet_point_free_(txn, point);
	}
	uncount_lost(txn, to); /* its run has it again */
	stet_vec_release(&to->lost_nodes);
	stet_rangeset_clear(&to->lost);
}

int stet_keep_restore_(struct stet_txn *txn, struct stet_point *to,
		       const struct stet_rangeset *taken)
{
	struct dying d = { .txn = txn, .mark = to->mark };
	int rc;

	stet_rangeset_init(&d.data);
	rc = collect_dying(&d, to, taken);
	if (!rc) {
		bury(&d, to);
		txn->have_run = to->have_run;
		txn->run = to->run;
		txn->run_nodes = to->run_nodes;
		txn->run_blocks = to->run_blocks;
		txn->saves.run_mark = to->mark;
		if (to->out_nodes.n == 0) { /* K1: nothing comes back to it */
			txn->saves.points.n--;
			stet_point_free_(txn, to);
		}
	}
	stet_rangeset_release(&d.data);
	stet_vec_release(&d.nodes);
	return rc;
}
