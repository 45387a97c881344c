/* state.c - what a transaction remembers besides its write-set, and the locks that operations take.
 *
 * The state hangs on the transaction and is freed with it. PLAIN transactions have none: what they
 * do is checked and published under one hold of the volume's lock.
 *
 * T1. An inode that the transaction created is invisible to all others: it needs no locks, no read
 *     marks and no claims, and its extents are the transaction's own.
 * T2. A claim is kept once for each (inode, kind), so that 300,000 names in one directory cost one.
 * T3. While the transaction has savepoints, every change of it is noted first (undo.c).
 * T4. Whoever changes an inode holds EXISTS S on it. So who must see it unchanged (stat at LOCKING) holds
 *     EXISTS IX: those go together, and keep out all who change anything. The other levels let names be taken
 *     from a file that a transaction is changing, which is refused when it is ordered; at LOCKING nobody may
 *     come in between, so there the changer also holds the names (NAMED) S, and whoever takes one IX.
 */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "fs/fs_internal.h"

#include <string.h>

#define FIRST_TABLE_LOG2 4

/* What of an inode's existence is locked. */
#define EXISTS_ITSELF 0u
#define EXISTS_NAMED 1u

static void free_file(struct fs_file *file)
{
	stet_ranges_release_(&file->mine);
	stet_ranges_release_(&file->lazy);
	stet_vec_release(&file->rests);
	stet_buf_release(&file->append);
	stet_staged_release_(file);
	stet_free(file);
}

static void release(void *user)
{
	struct fs_state *state = user;
	struct stet_list *pos, *tmp;

	if (!state)
		return;
	stet_ranges_release_(&state->created);
	STET_LIST_FOREACH_SAFE(pos, tmp, &state->claim_list)
		stet_free(stet_container_of(pos, struct fs_claim, link));
	STET_LIST_FOREACH_SAFE(pos, tmp, &state->file_list)
		free_file(stet_container_of(pos, struct fs_file, link));
	stet_hash_release(&state->claims);
	stet_hash_release(&state->files);
	stet_vec_release(&state->freed);
	stet_undo_clear_(state);
	stet_free(state);
}

static const struct stet_txn_user_ops user_ops = {
	.release = release,
	.mark = stet_undo_mark_,
	.roll_back = stet_undo_roll_back_,
	.released = stet_undo_released_,
};

struct fs_state *stet_state_(const struct stet_fs_ctx *ctx)
{
	return stet_txn_user(ctx->txn);
}

static bool is_plain(const struct stet_fs_ctx *ctx)
{
	return stet_txn_level(ctx->txn) == STET_LEVEL_PLAIN;
}

static int make(struct stet_fs_ctx *ctx, struct fs_state **ret)
{
	struct fs_state *state = stet_state_(ctx);

	STET_ASSERT(!is_plain(ctx));
	if (!state) {
		state = stet_calloc(1, sizeof(*state));
		if (!state)
			return STET_FAIL(-ENOMEM, "no memory for a transaction's state");
		state->txn = ctx->txn;
		stet_hash_init(&state->claims, FIRST_TABLE_LOG2);
		stet_hash_init(&state->files, FIRST_TABLE_LOG2);
		stet_list_init(&state->claim_list);
		stet_list_init(&state->file_list);
		stet_txn_set_user(ctx->txn, state, &user_ops);
	}
	*ret = state;
	return 0;
}

/* --- created inodes --- */

int stet_state_created_(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_state *state;
	int rc;

	if (is_plain(ctx))
		return 0;
	rc = make(ctx, &state);
	if (rc)
		return rc;
	return stet_ranges_add_(&state->created, ino, ino + 1);
}

bool stet_state_is_created_(const struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_state *state = stet_state_(ctx);

	return state && stet_ranges_has_(&state->created, ino);
}

bool stet_state_direct_(const struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_state *state = stet_state_(ctx);

	return is_plain(ctx) || (state && state->ordering) || stet_state_is_created_(ctx, ino);
}

/* --- claims --- */

static uint64_t claim_key(uint64_t ino, enum stet_claim_kind kind)
{
	return stet_mix64(ino << 3 | (uint64_t)kind);
}

static struct fs_claim *find_claim(struct fs_state *state, uint64_t ino, enum stet_claim_kind kind)
{
	struct stet_hash_node *node = stet_hash_find(&state->claims, claim_key(ino, kind));

	for (; node; node = stet_hash_find_next(node)) {
		struct fs_claim *claim = stet_container_of(node, struct fs_claim, node);

		if (claim->ino == ino && claim->kind == kind)
			return claim;
	}
	return NULL;
}

bool stet_state_claimed_(const struct stet_fs_ctx *ctx, uint64_t ino, enum stet_claim_kind kind)
{
	struct fs_state *state = stet_state_(ctx);

	return state && find_claim(state, ino, kind);
}

int stet_state_claim_(struct stet_fs_ctx *ctx, uint64_t ino, enum stet_claim_kind kind)
{
	struct fs_claim *claim;
	struct fs_state *state;
	int rc;

	if (is_plain(ctx))
		return 0;
	rc = make(ctx, &state);
	if (rc)
		return rc;
	if (find_claim(state, ino, kind)) /* T2 */
		return 0;
	if (kind != STET_CLAIM_UNLINKED && stet_state_is_created_(ctx, ino)) /* T1 */
		return 0;
	claim = stet_calloc(1, sizeof(*claim));
	if (!claim)
		return STET_FAIL(-ENOMEM, "no memory for a transaction's state");
	claim->ino = ino;
	claim->kind = kind;
	rc = stet_hash_insert(&state->claims, claim_key(ino, kind), &claim->node);
	if (rc) {
		stet_free(claim);
		return rc;
	}
	stet_list_add_tail(&state->claim_list, &claim->link);
	rc = stet_undo_note_(
		ctx, &(struct fs_undo){ .kind = STET_UNDO_CLAIM, .ino = ino, .a = (uint64_t)kind });
	if (rc)
		stet_state_drop_claim_(state, ino, kind);
	return rc;
}

/* --- files --- */

struct fs_file *stet_state_file_of_(struct fs_state *state, uint64_t ino)
{
	struct stet_hash_node *node = state ? stet_hash_find(&state->files, ino) : NULL;

	return node ? stet_container_of(node, struct fs_file, node) : NULL;
}

struct fs_file *stet_state_find_file_(const struct stet_fs_ctx *ctx, uint64_t ino)
{
	return stet_state_file_of_(stet_state_(ctx), ino);
}

int stet_state_file_(struct stet_fs_ctx *ctx, uint64_t ino, struct fs_file **ret)
{
	struct fs_file *file = stet_state_find_file_(ctx, ino);
	struct fs_state *state;
	int rc;

	if (file) {
		*ret = file;
		return 0;
	}
	rc = make(ctx, &state);
	if (rc)
		return rc;
	file = stet_calloc(1, sizeof(*file));
	if (!file)
		return STET_FAIL(-ENOMEM, "no memory for a transaction's state");
	file->ino = ino;
	file->lazy_from = UINT64_MAX;
	stet_staged_init_(ctx, file);
	rc = stet_hash_insert(&state->files, ino, &file->node);
	if (rc) {
		stet_free(file);
		return rc;
	}
	stet_list_add_tail(&state->file_list, &file->link);
	rc = stet_undo_note_(ctx, &(struct fs_undo){ .kind = STET_UNDO_FILE, .ino = ino });
	if (rc)
		stet_state_drop_file_(ctx, state, file);
	else
		*ret = file;
	return rc;
}

/* --- tables --- */

int stet_state_freed_(struct stet_fs_ctx *ctx, uint64_t table, uint64_t first)
{
	struct fs_state *state;
	int rc = make(ctx, &state);

	if (!rc)
		rc = stet_undo_note_(ctx, &(struct fs_undo){ .kind = STET_UNDO_FREED,
							     .a = state->freed.n });
	return rc ? rc : stet_vec_push(&state->freed, ((struct fs_freed){ table, first }));
}

/* --- forgetting --- */

void stet_state_drop_claim_(struct fs_state *state, uint64_t ino, enum stet_claim_kind kind)
{
	struct fs_claim *claim = find_claim(state, ino, kind);

	if (!claim)
		return;
	stet_hash_remove(&state->claims, &claim->node);
	stet_list_del(&claim->link);
	stet_free(claim);
}

void stet_state_drop_file_(struct stet_fs_ctx *ctx, struct fs_state *state, struct fs_file *file)
{
	stet_staged_clear_(ctx, file);
	stet_append_clear_(ctx, file);
	stet_hash_remove(&state->files, &file->node);
	stet_list_del(&file->link);
	free_file(file);
}

/* There are no savepoints: the write-set has given up something. */
int stet_state_forget_(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_state *state = stet_state_(ctx);
	struct fs_file *file = stet_state_find_file_(ctx, ino);
	int rc = 0;

	if (!state)
		return 0;
	STET_ASSERT(!stet_undo_wanted_(ctx));
	for (unsigned kind = 0; kind < STET_CLAIM_KINDS; kind++)
		stet_state_drop_claim_(state, ino, (enum stet_claim_kind)kind);
	if (file)
		stet_state_drop_file_(ctx, state, file);
	if (stet_ranges_has_(&state->created, ino))
		rc = stet_ranges_take_(&state->created, ino, ino + 1);
	return rc;
}

/* --- locks --- */

int stet_fs_lock_(struct stet_fs_ctx *ctx, enum stet_lock_class class, uint64_t object,
		  uint64_t sub, enum stet_lock_mode mode)
{
	const struct stet_lock_name name = { .object = object,
					     .sub = sub,
					     .from = 0,
					     .to = UINT64_MAX,
					     .class = class };

	if (stet_state_is_created_(ctx, object)) /* T1 */
		return 0;
	return stet_txn_lock(ctx->txn, &name, mode, ctx->wait, ctx->ticket);
}

int stet_fs_read_lock_(struct stet_fs_ctx *ctx, enum stet_lock_class class, uint64_t object,
		       uint64_t sub, enum stet_lock_mode mode)
{
	if (stet_txn_level(ctx->txn) != STET_LEVEL_LOCKING)
		return 0;
	return stet_fs_lock_(ctx, class, object, sub, mode);
}

/* At LOCKING what was claimed says nothing about NAMED. */
static int exists_lock(struct stet_fs_ctx *ctx, uint64_t ino, bool named)
{
	struct stet_key key;
	int rc;

	if (stet_state_is_created_(ctx, ino))
		return 0;
	if (stet_txn_level(ctx->txn) != STET_LEVEL_LOCKING &&
	    stet_state_claimed_(ctx, ino, STET_CLAIM_ALIVE))
		return 0;
	rc = stet_fs_lock_(ctx, STET_LOCK_EXISTS, ino, EXISTS_ITSELF, STET_LOCK_S);
	if (!rc && named)
		rc = stet_fs_read_lock_(ctx, STET_LOCK_EXISTS, ino, EXISTS_NAMED, STET_LOCK_S);
	if (rc)
		return rc;
	stet_key_inode(&key, ino);
	return stet_txn_unchanged(ctx->txn, &key, 0);
}

int stet_fs_exists_lock_(struct stet_fs_ctx *ctx, uint64_t ino)
{
	return exists_lock(ctx, ino, true);
}

int stet_fs_names_lock_(struct stet_fs_ctx *ctx, uint64_t ino, bool leaves)
{
	int rc = exists_lock(ctx, ino, false);

	if (!rc && leaves)
		rc = stet_fs_lock_(ctx, STET_LOCK_EXISTS, ino, EXISTS_NAMED, STET_LOCK_IX);
	return rc;
}

int stet_fs_still_lock_(struct stet_fs_ctx *ctx, uint64_t ino)
{
	return stet_fs_read_lock_(ctx, STET_LOCK_EXISTS, ino, EXISTS_ITSELF, STET_LOCK_IX);
}

int stet_fs_writable_(const struct stet_fs_ctx *ctx)
{
	if (stet_txn_is_read_only(ctx->txn))
		return STET_FAIL(-EROFS, "the transaction is read-only");
	return 0;
}
