/* ckpt.h - the checkpoint in progress: shared by checkpoint.c and ckpt_table.c. */
#ifndef STET_TXN_CKPT_H
#define STET_TXN_CKPT_H

#include "txn/txn_internal.h"

/* A table page on its way to a new place. */
struct stet_ckpt_page {
	uint32_t page_no;
	struct stet_table_ptr ptr;
	uint8_t *bytes; /* owned, one block */
};

struct stet_ckpt_stale {
	struct stet_addr addr;
	uint8_t *bytes; /* owned; the group still writes them */
};

struct stet_ckpt {
	enum stet_ckpt_state state;
	uint64_t cut;
	uint64_t leaves; /* that it writes anew, at most (crowd.c) */
	uint64_t chain_serial;
	struct stet_ckpt_record rec;
	struct stet_view *view; /* at the cut, on the old root */
	struct stet_merge merge;
	bool merging;
	struct stet_tree_apply *apply;
	struct stet_root new_root;
	struct stet_job *nodes;                /* being filled, or NULL */
	STET_VEC(struct stet_node_ptr) placed; /* nodes written */
	struct stet_rangeset node_net;         /* places of nodes that came or went */
	struct stet_rangeset data_net;         /* places of data that came or went */
	STET_VEC(struct stet_touch) touches;   /* taken from the engine; keys owned */
	uint8_t value[STET_VALUE_MAX];         /* of the change being applied */
	struct stet_key key;
	struct stet_val val;
	int64_t inode_change, data_change;
	uint64_t freed_blocks; /* by the new root */
	bool accounted;        /* space shows the new root */
	STET_VEC(struct stet_ckpt_page) pages;
	uint8_t *record; /* owned: whole blocks */
	uint32_t record_bytes;
	struct stet_place record_place;
	STET_VEC(struct stet_ckpt_stale) stale; /* records placed by this group, then rewritten */
	uint32_t table_retries;
};

static inline uint32_t stet_ckpt_record_blocks_(uint32_t bytes)
{
	return (bytes + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;
}

/* ckpt_table.c */
STET_CHECKED int stet_ckpt_table_start_(struct stet_engine *engine, struct stet_job **ret);
void stet_ckpt_table_done_(struct stet_engine *engine);
void stet_ckpt_table_undo_(struct stet_engine *engine);

#endif
