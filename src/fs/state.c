/* state.c - what a transaction remembers besides its write-set, and the locks that operations take.
 *
 * The state hangs on the transaction and is freed with it. PLAIN transactions have none: what they
 * do is checked and published under one hold of the volume's lock.
 *
 * T1. An inode that the transaction created is invisible to all others: it needs no locks, no read
 *     marks and no claims, and its extents are the transaction's own.
 * T2. A claim is kept once for each (inode, kind), so that 300,000 names in one directory cost one.
 * T3. Ranges are sorted, disjoint and do not touch each other.
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

struct fs_created {
	struct stet_hash_node node;
};

#define FIRST_TABLE_LOG2 4

/* What of an inode's existence is locked. */
#define EXISTS_ITSELF 0u
#define EXISTS_NAMED 1u

static void free_nodes(struct stet_hash *hash)
{
	struct stet_hash_node *node = stet_hash_first(hash);

	while (node) {
		struct stet_hash_node *next = stet_hash_next(hash, node);

		stet_hash_remove(hash, node);
		stet_free(stet_container_of(node, struct fs_created, node));
		node = next;
	}
	stet_hash_release(hash);
}

static void free_file(struct fs_file *file)
{
	stet_vec_release(&file->mine.list);
	stet_vec_release(&file->lazy.list);
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
	free_nodes(&state->created);
	STET_LIST_FOREACH_SAFE(pos, tmp, &state->claim_list)
		stet_free(stet_container_of(pos, struct fs_claim, link));
	STET_LIST_FOREACH_SAFE(pos, tmp, &state->file_list)
		free_file(stet_container_of(pos, struct fs_file, link));
	stet_hash_release(&state->claims);
	stet_hash_release(&state->files);
	stet_vec_release(&state->freed);
	stet_free(state);
}

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
		stet_hash_init(&state->created, FIRST_TABLE_LOG2);
		stet_hash_init(&state->claims, FIRST_TABLE_LOG2);
		stet_hash_init(&state->files, FIRST_TABLE_LOG2);
		stet_list_init(&state->claim_list);
		stet_list_init(&state->file_list);
		stet_txn_set_user(ctx->txn, state, release);
	}
	*ret = state;
	return 0;
}

/* --- created inodes --- */

int stet_state_created_(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_created *made;
	struct fs_state *state;
	int rc;

	if (is_plain(ctx))
		return 0;
	rc = make(ctx, &state);
	if (rc)
		return rc;
	made = stet_calloc(1, sizeof(*made));
	if (!made)
		return STET_FAIL(-ENOMEM, "no memory for a transaction's state");
	rc = stet_hash_insert(&state->created, ino, &made->node);
	if (rc)
		stet_free(made);
	return rc;
}

bool stet_state_is_created_(const struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_state *state = stet_state_(ctx);

	return state && stet_hash_find(&state->created, ino);
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
	return 0;
}

/* --- files --- */

struct fs_file *stet_state_find_file_(const struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_state *state = stet_state_(ctx);
	struct stet_hash_node *node = state ? stet_hash_find(&state->files, ino) : NULL;

	return node ? stet_container_of(node, struct fs_file, node) : NULL;
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
	stet_staged_init_(file);
	rc = stet_hash_insert(&state->files, ino, &file->node);
	if (rc) {
		stet_free(file);
		return rc;
	}
	stet_list_add_tail(&state->file_list, &file->link);
	*ret = file;
	return 0;
}

/* --- tables --- */

int stet_state_freed_(struct stet_fs_ctx *ctx, uint64_t table, uint64_t first)
{
	struct fs_state *state;
	int rc = make(ctx, &state);

	return rc ? rc : stet_vec_push(&state->freed, ((struct fs_freed){ table, first }));
}

/* --- forgetting --- */

static void forget_claim(struct fs_state *state, uint64_t ino, enum stet_claim_kind kind)
{
	struct fs_claim *claim = find_claim(state, ino, kind);

	if (!claim)
		return;
	stet_hash_remove(&state->claims, &claim->node);
	stet_list_del(&claim->link);
	stet_free(claim);
}

void stet_state_forget_(struct stet_fs_ctx *ctx, uint64_t ino)
{
	struct fs_state *state = stet_state_(ctx);
	struct fs_file *file = stet_state_find_file_(ctx, ino);
	struct stet_hash_node *made;

	if (!state)
		return;
	for (unsigned kind = 0; kind < STET_CLAIM_KINDS; kind++)
		forget_claim(state, ino, (enum stet_claim_kind)kind);
	if (file) {
		stet_hash_remove(&state->files, &file->node);
		stet_list_del(&file->link);
		stet_staged_clear_(ctx, file);
		free_file(file);
	}
	made = stet_hash_find(&state->created, ino);
	if (made) {
		stet_hash_remove(&state->created, made);
		stet_free(stet_container_of(made, struct fs_created, node));
	}
}

/* --- ranges --- */

/* The first range that ends at or behind `at` (n when there is none). */
static size_t lower(const struct fs_ranges *r, uint64_t at)
{
	size_t lo = 0, hi = r->list.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->list.v[mid].hi < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int stet_ranges_add_(struct fs_ranges *r, uint64_t lo, uint64_t hi)
{
	size_t from = lower(r, lo);
	size_t to = from;
	int rc;

	if (lo >= hi)
		return 0;
	for (; to < r->list.n && r->list.v[to].lo <= hi; to++) {
		if (r->list.v[to].lo < lo)
			lo = r->list.v[to].lo;
		if (r->list.v[to].hi > hi)
			hi = r->list.v[to].hi;
	}
	if (to == from) {
		rc = stet_vec_reserve(&r->list, 1);
		if (rc)
			return rc;
		memmove(&r->list.v[from + 1], &r->list.v[from],
			(r->list.n - from) * sizeof(r->list.v[0]));
		r->list.n++;
	} else if (to - from > 1) {
		memmove(&r->list.v[from + 1], &r->list.v[to],
			(r->list.n - to) * sizeof(r->list.v[0]));
		r->list.n -= to - from - 1;
	}
	r->list.v[from] = (struct fs_range){ lo, hi };
	return 0;
}

bool stet_ranges_gap_(const struct fs_ranges *r, uint64_t *at, uint64_t end, uint64_t *ret_lo)
{
	size_t i = lower(r, *at);
	uint64_t lo = *at;

	/* Ranges do not touch (T3), so at most one step is needed. */
	for (; i < r->list.n && r->list.v[i].lo <= lo; i++) {
		if (r->list.v[i].hi > lo)
			lo = r->list.v[i].hi;
	}
	if (lo >= end)
		return false;
	*ret_lo = lo;
	*at = i < r->list.n && r->list.v[i].lo < end ? r->list.v[i].lo : end;
	return true;
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
