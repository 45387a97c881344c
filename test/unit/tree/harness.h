/* harness.h - a tree beside a sorted model of it, and the check of everything after each batch. */
#ifndef STET_TEST_TREE_HARNESS_H
#define STET_TEST_TREE_HARNESS_H

#include "../cache/testvol.h"

#include "base/vec.h"
#include "tree/tree.h"

struct entry {
	uint8_t *key; /* owned; the value follows */
	uint16_t key_bytes;
	uint16_t value_bytes;
	bool tombstone;
};

/* Entries in key order, each key once. */
struct entries {
	STET_VEC(struct entry) list;
};

void entries_release(struct entries *e);
/* Sets or replaces; keeps the order. */
void entries_put(struct entries *e, const void *key, size_t key_bytes, const void *value,
		 size_t value_bytes, bool tombstone);
/* The entry with this key, or NULL. */
const struct entry *entries_find(const struct entries *e, const void *key, size_t key_bytes);
/* Index of the first entry with a key >= this. */
size_t entries_lower_bound(const struct entries *e, const void *key, size_t key_bytes);

enum node_state { NODE_NONE, NODE_LIVE, NODE_NEW, NODE_FREED };

struct harness {
	struct testvol vol;
	uint32_t tree;
	bool keep_tombstones;
	bool two_copies;
	bool keep_old; /* the old root must stay readable: checked after each batch */
	uint64_t birth;
	struct stet_root root;
	struct entries model;
	uint8_t *state; /* enum node_state, by block of the device */
	uint64_t live_nodes;
	uint64_t min_bytes;  /* fill of the emptiest node but the root, at the last check */
	uint64_t used_bytes; /* of all leaves */
	uint64_t leaves;
	/* the batch being applied */
	const struct entries *batch;
	size_t next;
	uint8_t *scratch; /* the current change: overwritten by the next call of the source */
	uint64_t written, freed, changed;
	uint64_t calls, fail_at; /* the call of a callback that fails; 0: none */
};

void harness_open(struct harness *h, uint32_t tree, uint64_t limit_bytes);
void harness_close(struct harness *h);

/* Applies and checks everything. max_nodes 0: in one step. */
void harness_apply(struct harness *h, const struct entries *batch, uint32_t max_nodes);
void harness_apply_touched(struct harness *h, const struct entries *batch,
			   const struct stet_touch *touches, size_t touch_count,
			   uint32_t max_nodes);
/* Applies only; on an error all is as before. */
int harness_try(struct harness *h, const struct entries *batch, const struct stet_touch *touches,
		size_t touch_count, uint32_t max_nodes, struct stet_root *ret_root);
/* The tree of `root` is right in itself and holds exactly the model's items. */
void harness_check_root(struct harness *h, const struct stet_root *root,
			const struct entries *model);
/* What harness_try wrote becomes the root. */
void harness_accept(struct harness *h, const struct entries *batch, const struct stet_root *root);

#endif
