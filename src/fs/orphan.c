/* orphan.c - what is open, and freeing what nobody needs any longer.
 *
 * An ORPHAN key says that an inode has no name left (UNLINKED) or that its extents from some block
 * on are to be freed (TRUNCATE). Whoever makes one tells reclaim; after open all are found by a
 * scan.
 *
 *   made --note--> work --step, step, ...--> done (key deleted, waiters told)
 *                   ^  \--open--> parked
 *                   +---closed-----/
 *
 * O1. An ORPHAN is put by the operation that takes the last name or cuts the file, so a crash at
 *     any point leaves either the name or the orphan, and reclaim may be repeated from any of its
 *     steps.
 * O2. Reclaim keeps away from an inode that is open (held), from an UNLINKED one whose existence
 *     somebody has locked, and from truncating one whose data somebody has locked. So a transaction
 *     that cuts or extends a file counts the same extents at the end as at the beginning.
 * O3. Each step is one plain operation of bounded size. Steps of a truncation move from_block on,
 *     so the key changes with each of them.
 * O4. What an orphan says is checked: an inode that has links is not freed, and no block below the
 *     size, nor any of a table, whose size does not bound them.
 * O5. An inode that is all there is of the file (no extents, attributes, records) goes with its last name,
 *     at once, where reclaim would be free to take it: most files of a tree that is removed are small.
 */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "fs/fs_internal.h"

#define STEP_ITEMS 256u /* catalog items that a step frees */
#define SCAN_ITEMS 256u /* orphans that a step finds */
#define TRIES_MAX 16u   /* orphans that a step looks at when they are busy */
#define FIRST_TABLE_LOG2 6

struct fs_hold {
	struct stet_hash_node node; /* by inode number */
	uint64_t count;
};

struct fs_orphan {
	struct stet_hash_node node;       /* by inode number */
	struct stet_list link;            /* on work or parked */
	struct stet_ticket_queue waiters; /* for its truncation to be done */
	uint64_t ino;
};

/* --- what is open --- */

static struct fs_hold *find_hold(struct stet_fs *fs, uint64_t ino)
{
	struct stet_hash_node *node = stet_hash_find(&fs->held, ino);

	return node ? stet_container_of(node, struct fs_hold, node) : NULL;
}

static struct fs_orphan *find_orphan(struct stet_fs *fs, uint64_t ino)
{
	struct stet_hash_node *node = stet_hash_find(&fs->orphans, ino);

	return node ? stet_container_of(node, struct fs_orphan, node) : NULL;
}

static void to_work(struct stet_fs *fs, struct fs_orphan *orphan)
{
	stet_list_del(&orphan->link);
	stet_list_add_tail(&fs->work, &orphan->link);
}

int stet_fs_hold(struct stet_fs *fs, uint64_t ino)
{
	struct fs_hold *hold = find_hold(fs, ino);
	int rc;

	if (hold) {
		hold->count++;
		return 0;
	}
	hold = stet_calloc(1, sizeof(*hold));
	if (!hold)
		return STET_FAIL(-ENOMEM, "no memory for an open inode");
	hold->count = 1;
	rc = stet_hash_insert(&fs->held, ino, &hold->node);
	if (rc)
		stet_free(hold);
	return rc;
}

void stet_fs_unhold(struct stet_fs *fs, uint64_t ino)
{
	struct fs_hold *hold = find_hold(fs, ino);
	struct fs_orphan *orphan;

	STET_ASSERT(hold);
	if (--hold->count > 0)
		return;
	stet_hash_remove(&fs->held, &hold->node);
	stet_free(hold);
	orphan = find_orphan(fs, ino);
	if (orphan)
		to_work(fs, orphan);
}

uint64_t stet_fs_held_count(const struct stet_fs *fs)
{
	return stet_hash_count(&fs->held);
}

/* --- known orphans --- */

bool stet_orphan_maybe_(struct stet_fs *fs, uint64_t ino)
{
	return !fs->scan_done || find_orphan(fs, ino);
}

static struct fs_orphan *note(struct stet_fs *fs, uint64_t ino)
{
	struct fs_orphan *orphan = find_orphan(fs, ino);

	if (orphan)
		return orphan;
	orphan = stet_calloc(1, sizeof(*orphan));
	if (!orphan)
		return NULL;
	orphan->ino = ino;
	stet_ticket_queue_init(&orphan->waiters);
	if (stet_hash_insert(&fs->orphans, ino, &orphan->node) != 0) {
		stet_free(orphan);
		return NULL;
	}
	stet_list_add_tail(&fs->work, &orphan->link);
	return orphan;
}

void stet_orphan_note_(struct stet_fs *fs, uint64_t ino)
{
	if (note(fs, ino))
		return;
	/* Without memory to remember it: look for it again later. */
	fs->scan_done = false;
	fs->scan_from = 0;
}

static void forget(struct stet_fs *fs, struct fs_orphan *orphan, int result)
{
	struct stet_ticket_queue waiters;

	stet_ticket_queue_init(&waiters);
	stet_list_splice_tail(&waiters.list, &orphan->waiters.list);
	stet_hash_remove(&fs->orphans, &orphan->node);
	stet_list_del(&orphan->link);
	stet_free(orphan);
	stet_ticket_fire_all(&waiters, result);
}

void stet_orphan_release_(struct stet_fs *fs)
{
	struct stet_hash_node *node;

	while ((node = stet_hash_first(&fs->orphans)))
		forget(fs, stet_container_of(node, struct fs_orphan, node), -EIO);
	while ((node = stet_hash_first(&fs->held))) {
		stet_hash_remove(&fs->held, node);
		stet_free(stet_container_of(node, struct fs_hold, node));
	}
	stet_hash_release(&fs->orphans);
	stet_hash_release(&fs->held);
}

void stet_orphan_init_(struct stet_fs *fs)
{
	stet_hash_init(&fs->held, FIRST_TABLE_LOG2);
	stet_hash_init(&fs->orphans, FIRST_TABLE_LOG2);
	stet_list_init(&fs->work);
	stet_list_init(&fs->parked);
}

int stet_orphan_wait_(struct stet_fs *fs, uint64_t ino, struct stet_ticket *ticket)
{
	struct fs_orphan *orphan = note(fs, ino);

	if (!orphan)
		return STET_FAIL(-ENOMEM, "no memory for an orphan");
	if (!ticket)
		return -EBUSY;
	stet_ticket_enqueue(&orphan->waiters, ticket);
	return STET_WAIT;
}

/* --- the key --- */

int stet_orphan_get_(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_orphan *ret)
{
	struct stet_key key;
	struct stet_val val;
	int rc;

	stet_key_orphan(&key, ino);
	rc = stet_txn_get(ctx->txn, &key, &val);
	return rc ? rc : stet_orphan_decode(val.b, val.bytes, ret);
}

static int put_orphan(struct stet_fs_ctx *ctx, uint64_t ino, const struct stet_orphan *orphan)
{
	uint8_t value[sizeof(struct stet_orphan_disk)];
	struct stet_key key;

	stet_key_orphan(&key, ino);
	if (orphan->flags == 0)
		return stet_txn_del(ctx->txn, &key);
	return stet_txn_put(ctx->txn, &key, value, stet_orphan_encode(orphan, value));
}

int stet_orphan_mark_(struct stet_fs_ctx *ctx, uint64_t ino, uint8_t flags, uint64_t from_block)
{
	struct stet_orphan orphan;
	struct fs_inode in;
	int rc = stet_orphan_get_(ctx, ino, &orphan);

	if (rc == -ENOENT)
		orphan = (struct stet_orphan){ 0 };
	else if (rc)
		return rc;
	rc = stet_inode_get_(ctx, ino, 0, &in);
	if (rc)
		return rc;
	stet_txn_cuts(ctx->txn, in.i.blocks); /* soon, at most */
	if (flags & STET_ORPHAN_TRUNCATE) {
		if (!(orphan.flags & STET_ORPHAN_TRUNCATE) || from_block < orphan.from_block)
			orphan.from_block = from_block;
	}
	orphan.flags |= flags;
	rc = put_orphan(ctx, ino, &orphan);
	if (!rc)
		stet_orphan_note_(ctx->fs, ino);
	return rc;
}

int stet_orphan_unmark_(struct stet_fs_ctx *ctx, uint64_t ino, uint8_t flags)
{
	struct stet_orphan orphan;
	int rc = stet_orphan_get_(ctx, ino, &orphan);

	if (rc == -ENOENT || (!rc && !(orphan.flags & flags)))
		return 0;
	if (rc)
		return rc;
	orphan.flags &= (uint8_t)~flags;
	if (flags & STET_ORPHAN_TRUNCATE)
		orphan.from_block = 0;
	return put_orphan(ctx, ino, &orphan);
}

/* O5: nothing but the inode itself, which nobody has open, or locked, or is freeing. */
static int is_bare(struct stet_fs_ctx *ctx, const struct fs_inode *in, uint64_t ino, bool *ret)
{
	const struct stet_lock_name exists = { .object = ino,
					       .to = UINT64_MAX,
					       .class = STET_LOCK_EXISTS };
	struct stet_key from, to, key;
	struct stet_scan *scan;
	struct stet_val val;
	int rc;

	*ret = false;
	if (in->i.blocks > 0 || find_hold(ctx->fs, ino) || stet_orphan_maybe_(ctx->fs, ino))
		return 0;
	if (!stet_state_is_created_(ctx, ino) &&
	    stet_txn_lock(ctx->txn, &exists, STET_LOCK_X, false, NULL))
		return 0; /* also without memory for the lock: reclaim comes to it */
	stet_key_kind(&from, ino, STET_KIND_INODE + 1);
	stet_key_kind(&to, ino + 1, 0);
	rc = stet_scan_open(ctx->txn, &from, &to, &scan);
	if (rc)
		return rc;
	rc = stet_scan_next(scan, &key, &val);
	*ret = rc == 0;
	stet_scan_close(scan);
	return rc < 0 ? rc : 0;
}

int stet_orphan_let_go_(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_inode in;
	struct stet_key key;
	bool bare;
	int rc = stet_inode_get_(ctx, ino, 0, &in);

	if (rc || in.i.nlink > 0)
		return rc;
	rc = is_bare(ctx, &in, ino, &bare);
	if (rc)
		return rc;
	stet_key_inode(&key, ino);
	return bare ? stet_txn_del(ctx->txn, &key)
		    : stet_orphan_mark_(ctx, ino, STET_ORPHAN_UNLINKED, 0);
}

/* --- reclaim --- */

static int add_blocks(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t removed)
{
	struct stet_inode_intent n = { .blocks = -(int64_t)removed };

	return removed == 0 ? 0 : stet_intent_send_(ctx, ino, &n, NULL);
}

/* Deletes items of one kind while there is budget. */
static int delete_kind(struct stet_fs_ctx *ctx, uint64_t ino, uint8_t kind, uint32_t *budget)
{
	struct stet_key from, to, key;
	struct stet_scan *scan;
	struct stet_val val;
	int rc;

	stet_key_kind(&from, ino, kind);
	stet_key_kind(&to, ino, (uint8_t)(kind + 1));
	rc = stet_scan_open(ctx->txn, &from, &to, &scan);
	if (rc)
		return rc;
	while (*budget > 0 && (rc = stet_scan_next(scan, &key, &val)) == 1) {
		rc = stet_txn_del(ctx->txn, &key);
		if (rc)
			break;
		(*budget)--;
	}
	stet_scan_close(scan);
	return rc < 0 ? rc : 0;
}

/* The end of the budget's last extent from `from` on; STET_FILE_BLOCKS_MAX: that is all of them. */
static int step_end(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t from, uint32_t *budget,
		    uint64_t *ret)
{
	struct fs_piece piece;
	struct fs_walk walk;
	int rc = stet_walk_open_(ctx, ino, from, STET_FILE_BLOCKS_MAX, &walk);

	if (rc)
		return rc;
	*ret = STET_FILE_BLOCKS_MAX;
	while ((rc = stet_walk_next_(&walk, &piece)) == 1) {
		if (*budget == 0)
			break;
		(*budget)--;
		*ret = piece.first + piece.count;
	}
	stet_walk_close_(&walk);
	if (rc == 0)
		*ret = STET_FILE_BLOCKS_MAX;
	return rc < 0 ? rc : 0;
}

static int free_inode(struct stet_fs_ctx *ctx, uint64_t ino, bool exists, uint32_t *budget)
{
	struct stet_key key;
	uint64_t end, removed;
	int rc = step_end(ctx, ino, 0, budget, &end);

	if (!rc)
		rc = stet_extent_cut_(ctx, ino, 0, end, &removed);
	if (!rc)
		rc = delete_kind(ctx, ino, STET_KIND_XATTR, budget);
	if (!rc)
		rc = delete_kind(ctx, ino, STET_KIND_RECORD, budget);
	if (rc)
		return rc;
	if (*budget == 0)
		return exists ? add_blocks(ctx, ino, removed) : 0;
	stet_key_inode(&key, ino);
	rc = exists ? stet_txn_del(ctx->txn, &key) : 0;
	stet_key_orphan(&key, ino);
	return rc ? rc : stet_txn_del(ctx->txn, &key);
}

/* One step of freeing an inode without names. *ret_done: nothing is left. */
static int step_unlinked(struct stet_fs_ctx *ctx, uint64_t ino, bool *ret_done)
{
	uint32_t budget = STEP_ITEMS;
	struct fs_inode in;
	int rc = stet_inode_get_(ctx, ino, 0, &in);
	bool exists = rc == 0;

	if (rc && rc != -ENOENT)
		return rc;
	if (exists && in.i.nlink > 0) { /* O4 */
		*ret_done = true;
		return stet_orphan_unmark_(ctx, ino, STET_ORPHAN_UNLINKED);
	}
	rc = stet_dir_empty_(ctx, ino);
	if (rc == -ENOTEMPTY)
		return STET_FAIL(-EUCLEAN, "directory %" PRIu64 " was removed and has names", ino);
	if (!rc)
		rc = free_inode(ctx, ino, exists, &budget);
	*ret_done = budget > 0;
	return rc;
}

static int step_truncate(struct stet_fs_ctx *ctx, uint64_t ino, const struct stet_orphan *orphan,
			 bool *ret_done)
{
	struct stet_orphan next = *orphan;
	uint32_t budget = STEP_ITEMS;
	struct fs_inode in;
	uint64_t end, removed = 0;
	int rc = stet_inode_get_(ctx, ino, 0, &in);

	*ret_done = true;
	if (rc && rc != -ENOENT)
		return rc;
	if (rc == 0 && !STET_MODE_IS_TABLE(in.i.mode) &&
	    orphan->from_block >= stet_blocks_(in.i.size)) { /* O4 */
		rc = step_end(ctx, ino, orphan->from_block, &budget, &end);
		if (!rc)
			rc = stet_extent_cut_(ctx, ino, orphan->from_block, end, &removed);
		if (!rc)
			rc = add_blocks(ctx, ino, removed);
		if (rc)
			return rc;
		*ret_done = end == STET_FILE_BLOCKS_MAX;
		next.from_block = end;
	}
	if (!*ret_done)
		return put_orphan(ctx, ino, &next); /* O3 */
	return stet_orphan_unmark_(ctx, ino, STET_ORPHAN_TRUNCATE);
}

/* O2 */
static int step_lock(struct stet_fs_ctx *ctx, uint64_t ino, const struct stet_orphan *orphan)
{
	bool unlinked = orphan->flags & STET_ORPHAN_UNLINKED;
	int rc = stet_fs_lock_(ctx, unlinked ? STET_LOCK_EXISTS : STET_LOCK_DATA, ino, 0,
			       STET_LOCK_X);

	if (!rc && !unlinked) /* it changes the count of blocks, which somebody may have seen */
		rc = stet_fs_lock_(ctx, STET_LOCK_EXISTS, ino, 0, STET_LOCK_S);
	if (!rc)
		rc = stet_txn_reserve(ctx->txn, 0, STEP_ITEMS * STET_META_ORPHAN_, true,
				      ctx->ticket);
	return rc;
}

static int step(struct stet_fs_ctx *ctx, uint64_t ino, bool *ret_done)
{
	bool held = find_hold(ctx->fs, ino) != NULL;
	struct stet_orphan orphan;
	int rc = stet_orphan_get_(ctx, ino, &orphan);

	if (rc == -ENOENT) {
		*ret_done = true;
		return 0;
	}
	if (rc)
		return rc;
	if (held)
		orphan.flags &= (uint8_t)~STET_ORPHAN_UNLINKED;
	if (orphan.flags == 0)
		return -ETXTBSY; /* open: to be parked */
	rc = step_lock(ctx, ino, &orphan);
	if (rc)
		return rc;
	if (orphan.flags & STET_ORPHAN_UNLINKED)
		return step_unlinked(ctx, ino, ret_done);
	rc = stet_orphan_get_(ctx, ino, &orphan);
	if (!rc)
		rc = step_truncate(ctx, ino, &orphan, ret_done);
	if (!rc && *ret_done && (orphan.flags & STET_ORPHAN_UNLINKED))
		*ret_done = false; /* the truncation is done, the rest waits for the last close */
	return rc;
}

/* One plain operation on one orphan. 0, STET_WAIT, -EBUSY (locked), -ETXTBSY (open), an error. */
static int reclaim_one(struct stet_fs *fs, uint64_t ino, bool wait, struct stet_ticket *ticket,
		       bool *ret_done)
{
	struct stet_fs_ctx ctx = { .fs = fs, .ticket = ticket, .wait = wait };
	uint64_t serial;
	int rc = stet_txn_begin(fs->engine, STET_LEVEL_PLAIN, false, &ctx.txn);

	if (rc)
		return rc;
	*ret_done = false;
	rc = step(&ctx, ino, ret_done);
	if (!rc)
		rc = stet_txn_order(ctx.txn, ticket, &serial);
	stet_txn_end(ctx.txn);
	return rc;
}

/* Finds orphans of the volume, some at a time. */
static int scan_step(struct stet_fs *fs)
{
	struct stet_key from, to, key;
	struct stet_scan *scan = NULL;
	struct stet_txn *txn;
	struct stet_val val;
	uint32_t n = 0;
	int rc = stet_txn_begin(fs->engine, STET_LEVEL_PLAIN, true, &txn);

	if (rc)
		return rc;
	stet_key_orphan(&from, fs->scan_from);
	stet_key_kind(&to, 0, STET_KIND_ORPHAN + 1);
	rc = stet_scan_open(txn, &from, &to, &scan);
	while (!rc && n++ < SCAN_ITEMS && (rc = stet_scan_next(scan, &key, &val)) == 1) {
		uint64_t ino = stet_key_suffix_u64(key.b);

		rc = note(fs, ino) ? 0 : -ENOMEM;
		if (!rc)
			fs->scan_from = ino + 1;
	}
	if (!rc && n <= SCAN_ITEMS)
		fs->scan_done = true;
	stet_scan_close(scan);
	stet_txn_end(txn);
	return rc < 0 ? rc : 1;
}

/* What became of the first orphan of the work list. 1 = progress, 0 = try another. */
static int conclude(struct stet_fs *fs, struct fs_orphan *orphan, int rc, bool done)
{
	switch (rc) {
	case 0:
		if (done)
			forget(fs, orphan, 0);
		else
			stet_ticket_fire_all(&orphan->waiters, 0);
		return 1;
	case -ETXTBSY:
		stet_list_del(&orphan->link);
		stet_list_add_tail(&fs->parked, &orphan->link);
		stet_ticket_fire_all(&orphan->waiters, 0);
		return 0;
	case -EBUSY:
		to_work(fs, orphan);
		return 0;
	case -EUCLEAN:
	case -EIO:
		forget(fs, orphan, rc); /* until the volume is opened again */
		return rc;
	case -EROFS:
		fs->no_reclaim = true;
		return 0;
	default:
		return rc;
	}
}

static int reclaim_step(struct stet_fs *fs, struct stet_ticket *ticket)
{
	bool done = false;
	int rc = 0;

	if (!fs->scan_done)
		return scan_step(fs);
	for (uint32_t tries = 0; tries < TRIES_MAX && !rc && !fs->no_reclaim; tries++) {
		struct stet_list *first = stet_list_first(&fs->work);
		struct fs_orphan *orphan;

		if (!first)
			return 0;
		orphan = stet_container_of(first, struct fs_orphan, link);
		rc = reclaim_one(fs, orphan->ino, false, ticket, &done);
		rc = conclude(fs, orphan, rc, done);
	}
	if (rc || !ticket || fs->no_reclaim)
		return rc;
	/* All that were tried are locked, or open: wait for the first that is left. */
	struct stet_list *first = stet_list_first(&fs->work);
	if (!first)
		return 0;
	struct fs_orphan *orphan = stet_container_of(first, struct fs_orphan, link);
	rc = reclaim_one(fs, orphan->ino, true, ticket, &done);
	return rc == STET_WAIT ? rc : conclude(fs, orphan, rc, done);
}

int stet_fs_reclaim_step(struct stet_fs *fs, struct stet_ticket *ticket)
{
	int rc;

	if (!fs->engine)
		return 0;
	rc = reclaim_step(fs, ticket);
	fs->reclaim_stuck = rc != 1 && stet_fs_wants_reclaim(fs); /* it waits, or it failed */
	if (!stet_fs_reclaims_(fs))
		stet_engine_reclaimed(fs->engine);
	return rc;
}

bool stet_fs_reclaims_(void *arg)
{
	const struct stet_fs *fs = arg;

	return stet_fs_wants_reclaim(fs) && !fs->reclaim_stuck;
}

bool stet_fs_wants_reclaim(const struct stet_fs *fs)
{
	return fs->engine && !fs->no_reclaim && (!fs->scan_done || !stet_list_empty(&fs->work));
}
