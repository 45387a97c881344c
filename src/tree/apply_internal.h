/* apply_internal.h - the state of a bulk apply, shared by the files that work on it.
 *
 *   apply.c   the levels: which old node is worked on next, when a cluster ends
 *   merge.c   one old node and its changes
 *   output.c  pending items become new nodes
 *   pend.c    the pending items, and where they are cut
 *   edits.c   what the level above is told
 *
 * The words: an old node is *consumed* when its items go into the pending ones, because something
 * in it changes, it is touched, or a neighbour needs it; all others stay as they are. A *cluster* is
 * a run of neighbouring consumed nodes whose items are cut into new nodes together.
 */
#ifndef STET_TREE_APPLY_INTERNAL_H
#define STET_TREE_APPLY_INTERNAL_H

#include "base/buf.h"
#include "base/vec.h"
#include "tree/tree_internal.h"

/* --- pend.c --- */

/* Neighbouring items, and what they would take in one node: what all their keys begin with lies there
 * once. */
struct stet_tree_measure_ {
	uint32_t items;
	uint32_t whole_bytes;  /* with all keys whole */
	uint32_t prefix_bytes; /* what all keys begin with */
};

static inline uint32_t stet_tree_measure_bytes_(const struct stet_tree_measure_ *m)
{
	return m->items > 0 ? m->whole_bytes - (m->items - 1) * m->prefix_bytes : 0;
}

struct stet_tree_pend_item_ {
	uint32_t offset; /* of the key in bytes; the value follows */
	uint16_t key_bytes;
	uint16_t value_bytes;
	uint16_t common_bytes; /* what its key and the one before begin with; not of the first */
	bool tombstone;
	bool fresh; /* its key was not there before */
};

/* Items in rising key order, as copies; an item is given as the change that puts it. */
struct stet_tree_pend_ {
	STET_VEC(struct stet_tree_pend_item_) items;
	struct stet_buf bytes;
	struct stet_tree_measure_ all;
	struct stet_tree_measure_ full; /* the first ones, as many as fit one node */
	struct stet_tree_measure_ rest; /* those behind them */
	uint32_t fresh_bytes;           /* of all, whole: of fresh ones */
};
void stet_tree_pend_release_(struct stet_tree_pend_ *pend);
STET_CHECKED int stet_tree_pend_push_(struct stet_tree_pend_ *pend, const struct stet_change *item,
				      bool fresh);
/* Borrowed until the pending items change. */
void stet_tree_pend_item_get_(const struct stet_tree_pend_ *pend, size_t index,
			      struct stet_change *ret_item);
/* What all would take in one node. */
uint32_t stet_tree_pend_used_(const struct stet_tree_pend_ *pend);
/* Forgets the first `count` items. */
void stet_tree_pend_drop_(struct stet_tree_pend_ *pend, size_t count);
/* How many of the first items go into the next node when no more will come. */
size_t stet_tree_pend_cut_(const struct stet_tree_pend_ *pend);

/* --- edits.c --- */
/* "The child with this low fence is gone", or "a new child, in the place of those just gone". A put
 * belongs to the same parent as the last remove before it, whatever its key. */
struct stet_tree_edit_ {
	size_t key_offset;
	uint16_t key_bytes;
	bool put;
	struct stet_node_ptr ptr;
};

struct stet_tree_edits_ {
	STET_VEC(struct stet_tree_edit_) list;
	struct stet_buf keys;
};
void stet_tree_edits_release_(struct stet_tree_edits_ *edits);
void stet_tree_edits_clear_(struct stet_tree_edits_ *edits);
/* Inserts before position `at`. ptr NULL: gone. */
STET_CHECKED int stet_tree_edits_insert_(struct stet_tree_edits_ *edits, size_t at, const void *key,
					 size_t key_bytes, const struct stet_node_ptr *ptr);
const uint8_t *stet_tree_edits_key_(const struct stet_tree_edits_ *edits, size_t at);

/* --- the apply --- */
enum stet_tree_state_ {
	STET_TREE_SEEK_,      /* find the next old node that has work */
	STET_TREE_MERGE_,     /* merge it with its changes */
	STET_TREE_NODE_END_,  /* decide whether the cluster ends with it */
	STET_TREE_LEVEL_END_, /* nothing left at this level */
	STET_TREE_DONE_,
};

struct stet_tree_apply {
	/* --- set at create, then constant --- */
	struct stet_cache *cache; /* borrowed */
	uint64_t volume_id;
	uint32_t tree;
	struct stet_root root; /* the old one */
	uint64_t birth;
	bool keep_tombstones;
	const struct stet_touch *touches; /* borrowed */
	size_t touch_count;
	struct stet_tree_apply_ops ops;
	/* --- where it is --- */
	enum stet_tree_state_ state;
	int error;      /* sticky */
	int64_t budget; /* nodes left in this step */
	uint32_t level;
	struct stet_tree_cursor old; /* path to the old node being worked on */
	size_t next_touch;
	struct stet_root result; /* valid when done */
	bool collapsed;          /* result is a single child, found below the old root's level */
	/* --- the next change (level 0) or edit (above) --- */
	bool have_change;
	bool no_more_changes;
	uint64_t change_count;
	struct stet_change change;
	struct stet_key change_key; /* copy: the source's order is asserted */
	struct stet_tree_edits_ in;
	size_t next_edit;
	/* --- the old node being merged (none: as if there were an empty one that covers all) --- */
	uint32_t merged; /* items before this one are dealt with */
	bool consumed;
	/* --- the cluster --- */
	bool open;
	uint32_t first_index;    /* in the current parent: of its first old node */
	struct stet_key run_low; /* low fence of its first old node */
	struct stet_key low;     /* low fence of its next new node (leaves only) */
	size_t mark;             /* position in `out` where the held node's put belongs */
	struct stet_tree_pend_ pend;
	struct stet_tree_pend_ spare; /* for putting items in front */
	/* --- the last old node consumed at this level --- */
	struct stet_key last_high; /* its high fence */
	/* --- the last new node, not yet written: its high fence is not known --- */
	struct stet_cnode *held; /* owned */
	struct stet_node_builder held_builder;
	struct stet_key held_low;
	/* --- for the next level --- */
	struct stet_tree_edits_ out;
};

static inline void stet_tree_key_set_(struct stet_key *k, const void *key, size_t key_bytes)
{
	k->bytes = (uint16_t)key_bytes;
	if (key_bytes > 0)
		memcpy(k->b, key, key_bytes);
}

/* Whether nothing is above the current level in the old tree. */
static inline bool stet_tree_at_top_(const struct stet_tree_apply *a)
{
	return stet_tree_is_empty_(&a->root) || a->level >= a->root.level;
}

/* The old node being worked on, NULL when there is none. */
static inline const uint8_t *stet_tree_old_node_(const struct stet_tree_apply *a)
{
	if (stet_tree_is_empty_(&a->root) || a->level > a->root.level)
		return NULL;
	return stet_tree_path_node_(&a->old, a->level);
}

/* An item of a node as the change that puts it; borrowed from the node and from *key. */
static inline void stet_tree_old_item_(const uint8_t *node, uint32_t index, struct stet_key *key,
				       struct stet_change *ret_item)
{
	struct stet_item item;

	stet_node_key(node, index, key);
	stet_node_item(node, index, &item);
	*ret_item = (struct stet_change){ key->b, item.value, key->bytes, item.value_bytes,
					  item.tombstone };
}

/* merge.c */
/* Whether there is a next change at this level; its key. */
STET_CHECKED int stet_tree_peek_(struct stet_tree_apply *a, bool *ret_have, const uint8_t **ret_key,
				 size_t *ret_key_bytes);
/* Starts on the old node of the path; `forced`: consume it whatever there is to do. */
STET_CHECKED int stet_tree_enter_(struct stet_tree_apply *a, bool forced);
/* Merges the node's changes; leaves STET_TREE_MERGE_ when all are in. */
STET_CHECKED int stet_tree_merge_(struct stet_tree_apply *a);

/* output.c */
STET_CHECKED int stet_tree_push_(struct stet_tree_apply *a, const struct stet_change *item,
				 bool fresh);
/* Opens a cluster at an old node (NULL: none), unless one that it continues is open. */
STET_CHECKED int stet_tree_cluster_open_(struct stet_tree_apply *a, const uint8_t *node);
/* Cuts all pending items into new nodes. */
STET_CHECKED int stet_tree_cluster_close_(struct stet_tree_apply *a);
/* Puts the items of the left neighbour in front: of the held node, or of the old node before the
 * cluster, which is consumed. */
STET_CHECKED int stet_tree_absorb_left_(struct stet_tree_apply *a);
/* Writes the held node, if any. */
STET_CHECKED int stet_tree_write_held_(struct stet_tree_apply *a, const struct stet_key *high);

#endif
