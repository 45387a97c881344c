/* read.c - one key at one point: delta over runs over tree.
 *
 * A reader's point is (root, serial). The newest version in (root.cut, serial] wins, whether the delta or
 * a committed run holds it (on a tie the delta: what was left in memory when a write-set spilled is
 * newer than what was spilled); else what lies over the root's tree, else the tree answers.
 */
#include "base/assert.h"
#include "txn/txn_internal.h"

#include <string.h>

uint64_t stet_read_serial_(const struct stet_engine *engine)
{
	return engine->failed ? engine->durable_cut : engine->serial;
}

void stet_item_val_(const struct stet_item *item, struct stet_val *ret)
{
	ret->buf = NULL;
	ret->serial = 0;
	ret->bytes = item->value_bytes;
	memcpy(ret->b, item->value, item->value_bytes);
}

void stet_run_resolve_(struct stet_engine *engine, const struct stet_run *run, const uint8_t *key,
		       size_t key_bytes, struct stet_val *val)
{
	struct stet_stamp stamp = { run->commit_ns, run->serial };

	val->serial = run->serial;
	if (engine->hooks.resolve)
		val->bytes = (uint16_t)engine->hooks.resolve(engine->hooks.arg, key, key_bytes,
							     val->b, val->bytes, &stamp);
}

/* 0, -ENOENT (the run does not hold the key), 1 (it holds a tombstone). Symbols stay. */
static int run_get_raw(struct stet_engine *engine, const struct stet_run *run,
		       const struct stet_key *key, struct stet_val *ret)
{
	struct stet_root root = { run->root, run->root_level };
	struct stet_tree_item item;
	int rc = stet_tree_lookup(engine->cache, STET_TREE_RUN, &root, key->b, key->bytes, &item);

	if (rc)
		return rc;
	if (item.item.tombstone)
		rc = 1;
	else
		stet_item_val_(&item.item, ret);
	stet_tree_item_release(&item);
	return rc;
}

static int run_get(struct stet_engine *engine, const struct stet_run *run,
		   const struct stet_key *key, struct stet_val *ret)
{
	int rc = run_get_raw(engine, run, key, ret);

	if (!rc)
		stet_run_resolve_(engine, run, key->b, key->bytes, ret);
	return rc;
}

static int runs_get(struct stet_engine *engine, uint64_t above, uint64_t serial,
		    const struct stet_key *key, struct stet_val *ret)
{
	for (struct stet_list *pos = engine->runs.prev; pos != &engine->runs; pos = pos->prev) {
		struct stet_runref *ref = stet_container_of(pos, struct stet_runref, link);

		if (ref->run.serial > serial)
			continue;
		if (ref->run.serial <= above)
			break;
		int rc = run_get(engine, &ref->run, key, ret);
		if (rc != -ENOENT)
			return rc;
	}
	return -ENOENT;
}

static int tree_get(struct stet_engine *engine, const struct stet_rootref *root,
		    const struct stet_key *key, struct stet_val *ret)
{
	struct stet_tree_item item;
	int rc = stet_tree_lookup(engine->cache, STET_TREE_CATALOG, &root->root, key->b, key->bytes,
				  &item);

	if (rc)
		return rc;
	stet_item_val_(&item.item, ret);
	stet_tree_item_release(&item);
	return 0;
}

int stet_read_at_(struct stet_engine *engine, const struct stet_rootref *root, uint64_t serial,
		  const struct stet_key *key, struct stet_val *ret)
{
	struct stet_dnode *dnode = stet_delta_node_(engine, key->b, key->bytes);
	struct stet_version *v = dnode ? stet_delta_find_(dnode, root->cut, serial) : NULL;

	if (!stet_list_empty(&engine->runs)) {
		uint64_t above = v ? v->serial : root->cut;
		int rc = runs_get(engine, above, serial, key, ret);

		if (rc == 1)
			return -ENOENT;
		if (rc != -ENOENT)
			return rc;
	}
	if (v) {
		if (v->kind == STET_V_DEL)
			return -ENOENT;
		stet_version_val_(v, ret);
		return 0;
	}
	if (root->over) {
		int rc = run_get_raw(engine, stet_overlay_run_(root->over), key, ret);

		if (rc != -ENOENT)
			return rc == 1 ? -ENOENT : rc;
	}
	return tree_get(engine, root, key, ret);
}

int stet_set_run_get_(struct stet_txn *txn, const struct stet_key *key, struct stet_val *ret)
{
	return txn->have_run ? run_get_raw(txn->engine, &txn->run, key, ret) : -ENOENT;
}
