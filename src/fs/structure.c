/* structure.c - ordering: what must hold of the tree as a whole when a transaction becomes part of
 * it.
 *
 * Names conflict only where they are the same, but different names can still conflict: a directory
 * is removed while another transaction adds a name to it, two directories move below each other.
 * The operations claim what they rely on; here, with the transaction's changes merged into the
 * current state, every claim is checked. One that does not hold is a conflict that names the inode.
 *
 * S1. A directory in which a name was added or taken lives.
 * S2. A directory that was removed has no names.
 * S3. An inode that gained a name had one: what has lost its last belongs to reclaim.
 * S4. No directory that was moved lies below itself.
 * S5. What was changed has a name: an inode that others have removed may live on while it is open, but
 *     nobody would find the change.
 * S6. What loses its last name has the content that the transaction has seen.
 * Afterwards appends are written at the ends of their files and what was staged at LOCKING where it
 * belongs, changed files and tables are fitted to the current state (extent.c, table.c), and inodes
 * without a name become orphans.
 */
#include <inttypes.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "fs/fs_internal.h"

/* --- claims --- */

static int conflict(struct stet_fs_ctx *ctx, uint64_t ino, const char *why)
{
	struct stet_key key;

	stet_key_inode(&key, ino);
	return stet_txn_conflict(ctx->txn, &key, why);
}

static int lives(struct stet_fs_ctx *ctx, uint64_t ino, bool *ret)
{
	struct fs_inode in;
	int rc = stet_inode_get_(ctx, ino, 0, &in);

	*ret = rc == 0 && in.i.nlink > 0;
	return rc == -ENOENT ? 0 : rc;
}

static int check_dir(struct stet_fs_ctx *ctx, uint64_t ino)
{
	bool ok;
	int rc = lives(ctx, ino, &ok);

	/* What the transaction itself has removed since was there to be removed: names are
	 * locked. */
	if (rc || ok || stet_state_claimed_(ctx, ino, STET_CLAIM_EMPTY))
		return rc;
	return conflict(ctx, ino, "names in it were changed; another removed it");
}

static int check_empty(struct stet_fs_ctx *ctx, uint64_t ino)
{
	int rc = stet_dir_empty_(ctx, ino);

	if (rc != -ENOTEMPTY)
		return rc;
	return conflict(ctx, ino, "it was removed; another added a name to it");
}

/* Whether the inode has a name in the committed state, without what the transaction does. */
static int is_named(struct stet_fs_ctx *ctx, uint64_t ino, bool *ret)
{
	struct stet_inode i = { .nlink = 0 };
	struct stet_key key;
	struct stet_val val;
	int rc;

	stet_key_inode(&key, ino);
	rc = stet_view_get(stet_txn_engine(ctx->txn), NULL, &key, &val);
	if (!rc)
		rc = stet_inode_decode(val.b, val.bytes, &i);
	*ret = !rc && i.nlink > 0;
	return rc == -ENOENT ? 0 : rc;
}

/* The inode as the transaction found it when it began. -ENOENT. */
static int get_begun(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_inode *ret)
{
	struct stet_key key;
	struct stet_val val;
	int rc;

	stet_key_inode(&key, ino);
	rc = stet_txn_get_begun(ctx->txn, &key, &val);
	return rc ? rc : stet_inode_decode(val.b, val.bytes, ret);
}

/* Whether it had lost its last name already when the transaction began: it was open, and still is. */
static int was_nameless(struct stet_fs_ctx *ctx, uint64_t ino, bool *ret)
{
	struct stet_inode i;
	int rc = get_begun(ctx, ino, &i);

	*ret = !rc && i.nlink == 0;
	return rc == -ENOENT ? 0 : rc;
}

static int check_gain(struct stet_fs_ctx *ctx, uint64_t ino)
{
	bool ok;
	int rc = is_named(ctx, ino, &ok);

	return rc || ok ? rc : conflict(ctx, ino, "it was given a name; another took its last");
}

static int check_tree(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_inode in;
	bool loop;
	int rc = stet_inode_get_(ctx, ino, 0, &in);

	if (rc == -ENOENT || (!rc && in.i.nlink == 0))
		return 0; /* removed since, which is claimed elsewhere */
	if (!rc)
		rc = stet_dir_is_below_(ctx, in.i.parent, ino, &loop);
	if (rc || !loop)
		return rc;
	return conflict(ctx, ino, "it would lie below itself: another moved one of its parents");
}

static int check_alive(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_inode in;
	bool ok, nameless;
	int rc = is_named(ctx, ino, &ok);

	/* At LOCKING nobody took a name since the change (T4 of state.c): it had none then, but was open. */
	if (!rc && !ok && stet_txn_level(ctx->txn) == STET_LEVEL_LOCKING) {
		ok = stet_inode_get_(ctx, ino, 0, &in) == 0;
	} else if (!rc && !ok) {
		rc = was_nameless(ctx, ino, &nameless);
		ok = !rc && nameless && stet_inode_get_(ctx, ino, 0, &in) == 0;
	}
	return rc || ok ? rc : conflict(ctx, ino, "it was changed; another removed it");
}

/* With the last name goes the content: nobody's that the transaction has not seen. */
static int check_last(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct stet_key key;
	bool named;
	int rc = lives(ctx, ino, &named);

	if (rc || named || stet_state_is_created_(ctx, ino))
		return rc;
	stet_key_inode(&key, ino);
	return stet_txn_unchanged(ctx->txn, &key, STET_ATTR_SIZE);
}

static int check_claim(struct stet_fs_ctx *ctx, const struct fs_claim *claim)
{
	switch (claim->kind) {
	case STET_CLAIM_DIR:
		return check_dir(ctx, claim->ino); /* S1 */
	case STET_CLAIM_EMPTY:
		return check_empty(ctx, claim->ino); /* S2 */
	case STET_CLAIM_GAIN:
		return check_gain(ctx, claim->ino); /* S3 */
	case STET_CLAIM_TREE:
		return check_tree(ctx, claim->ino); /* S4 */
	case STET_CLAIM_ALIVE:
		return check_alive(ctx, claim->ino); /* S5 */
	case STET_CLAIM_UNLINKED:
		return check_last(ctx, claim->ino); /* S6 */
	case STET_CLAIM_KINDS:
		break;
	}
	return 0;
}

static int check_claims(struct stet_fs_ctx *ctx, struct fs_state *state)
{
	struct stet_list *pos;
	int rc;

	if (stet_mutant_is(STET_MUTANT_NO_STRUCTURE))
		return 0;
	STET_LIST_FOREACH(pos, &state->claim_list) {
		rc = check_claim(ctx, stet_container_of(pos, struct fs_claim, link));
		if (rc)
			return rc;
	}
	return 0;
}

/* --- what comes of them --- */

static int make_orphans(struct stet_fs_ctx *ctx, struct fs_state *state)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &state->claim_list) {
		const struct fs_claim *claim = stet_container_of(pos, struct fs_claim, link);
		int rc;

		if (claim->kind != STET_CLAIM_UNLINKED)
			continue;
		rc = stet_orphan_let_go_(ctx, claim->ino);
		if (rc)
			return rc;
	}
	return 0;
}

/* A mutant's. */
static int size_as_of_begin(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t *ret_bytes)
{
	struct stet_inode i;
	int rc = get_begun(ctx, ino, &i);

	if (!rc)
		*ret_bytes = i.size;
	return rc == -ENOENT ? 0 : rc;
}

static int write_append(struct stet_fs_ctx *ctx, struct fs_file *file)
{
	struct stet_inode_intent n = { .set = STET_SET_MTIME_ };
	struct fs_data d = { .ctx = ctx, .ino = file->ino, .pending_from = UINT64_MAX };
	int rc = stet_inode_get_(ctx, file->ino, 0, &d.in);

	if (!rc && stet_mutant_is(STET_MUTANT_NO_APPEND_MERGE))
		rc = size_as_of_begin(ctx, file->ino, &d.in.i.size);
	if (!rc)
		rc = stet_data_pending_(&d);
	if (rc)
		return rc;
	if (file->append.len > STET_FILE_SIZE_MAX - d.in.i.size)
		return STET_FAIL(-EFBIG, "inode %" PRIu64 ": an append beyond the largest size",
				 file->ino);
	n.mtime_ns = d.in.i.mtime_ns;
	rc = stet_data_write_(&d, d.in.i.size, file->append.p, file->append.len);
	if (!rc && file->keep_mtime)
		rc = stet_intent_send_(ctx, file->ino, &n, NULL);
	if (!rc)
		stet_append_clear_(ctx, file);
	return rc;
}

/* B3 of staged.c */
static int write_staged(struct stet_fs_ctx *ctx, struct fs_file *file)
{
	struct stet_inode_intent n = { .set = STET_SET_MTIME_ };
	struct fs_data d = { .ctx = ctx, .ino = file->ino, .pending_from = UINT64_MAX };
	int rc = stet_inode_get_(ctx, file->ino, 0, &d.in);

	if (!rc && stet_staged_end_(ctx, file->ino) > d.in.i.size)
		rc = stet_data_pending_(&d);
	if (rc)
		return rc;
	n.mtime_ns = d.in.i.mtime_ns;
	rc = stet_staged_settle_(&d);
	if (!rc && file->keep_mtime)
		rc = stet_intent_send_(ctx, file->ino, &n, NULL);
	return rc;
}

static int fit_file(struct stet_fs_ctx *ctx, struct fs_file *file)
{
	struct stet_inode_intent n = { 0 };
	struct fs_inode in;
	bool lazily;
	uint64_t removed;
	int rc = stet_inode_get_(ctx, file->ino, 0, &in);

	if (rc)
		return rc;
	/* What was cut off and not overwritten since may stay for reclaim. */
	lazily = file->lazy.count > 0 && stet_blocks_(in.i.size) <= file->lazy_from;
	rc = stet_extent_rebase_(ctx, file, lazily, &removed);
	if (rc || file->lazy.count == 0)
		return rc;
	if (lazily)
		return stet_orphan_mark_(ctx, file->ino, STET_ORPHAN_TRUNCATE, file->lazy_from);
	n.blocks = -(int64_t)removed;
	if (removed > 0)
		rc = stet_intent_send_(ctx, file->ino, &n, NULL);
	return rc ? rc : stet_orphan_unmark_(ctx, file->ino, STET_ORPHAN_TRUNCATE);
}

static int settle_files(struct stet_fs_ctx *ctx, struct fs_state *state)
{
	struct stet_list *pos;
	int rc = 0;

	STET_LIST_FOREACH(pos, &state->file_list) {
		struct fs_file *file = stet_container_of(pos, struct fs_file, link);

		if (file->mine.count > 0)
			rc = fit_file(ctx, file);
		if (!rc && stet_skiplist_count(&file->staged) > 0)
			rc = write_staged(ctx, file);
		if (!rc && file->append.len > 0)
			rc = write_append(ctx, file);
		if (rc)
			return rc;
	}
	return 0;
}

static int settle_tables(struct stet_fs_ctx *ctx, const struct fs_state *state)
{
	int rc = 0;

	for (size_t i = 0; i < state->freed.n && !rc; i++)
		rc = stet_table_settle_(ctx, &state->freed.v[i]);
	return rc;
}

int stet_fs_order_(void *arg, struct stet_txn *txn, const struct stet_stamp *stamp)
{
	struct stet_fs_ctx ctx = { .fs = arg, .txn = txn };
	struct fs_state *state = stet_state_(&ctx);
	int rc;

	(void)stamp;
	if (!state)
		return 0;
	state->ordering = true;
	rc = check_claims(&ctx, state);
	if (!rc)
		rc = settle_files(&ctx, state);
	if (!rc)
		rc = settle_tables(&ctx, state);
	if (!rc)
		rc = make_orphans(&ctx, state);
	state->ordering = false;
	return rc;
}

/* Appends, the cut ends of what was there before, and marks of orphans. */
void stet_fs_staged_(void *arg, struct stet_txn *txn, uint64_t *ret_blocks, uint64_t *ret_bytes)
{
	const struct stet_fs_ctx ctx = { .fs = arg, .txn = txn };
	const struct fs_state *state = stet_state_(&ctx);
	struct stet_list *pos;

	*ret_blocks = *ret_bytes = 0;
	if (!state)
		return;
	STET_LIST_FOREACH(pos, &state->file_list) {
		const struct fs_file *file = stet_container_of(pos, struct fs_file, link);
		uint64_t ends = 2 * (uint64_t)(file->mine.count + file->lazy.count + 1);
		uint64_t blocks, bytes;

		stet_staged_need_(file, &blocks, &bytes);
		*ret_blocks += stet_blocks_(file->append.len) + blocks + 2;
		*ret_bytes += bytes + ends * STET_META_EXTENT_ + STET_META_INODE_ +
			      STET_META_ORPHAN_ + STET_INLINE_MAX;
	}
	*ret_bytes += state->freed.n * STET_META_ORPHAN_;
	STET_LIST_FOREACH(pos, &state->claim_list)
		*ret_bytes += STET_META_ORPHAN_;
}
