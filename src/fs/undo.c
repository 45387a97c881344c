/* undo.c - what goes back with a savepoint of what a transaction remembers besides its write-set.
 *
 * U1. While there is a savepoint, whatever changes the state notes first how to undo it. The notes are undone
 *     in the opposite order.
 * U2. A note that says what the one before it says already, or that continues it, is joined to it, if no
 *     savepoint lies between.
 * U3. `locked` of a file is not undone: locks are not either.
 * U4. Inode numbers rise: what was created after a savepoint has the number that was next then, or a higher one.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "fs/fs_internal.h"

#include <string.h>

/* U2 */
static bool join(struct fs_undo *last, const struct fs_undo *next)
{
	if (last->kind != next->kind || last->ino != next->ino)
		return false;
	switch (next->kind) {
	case STET_UNDO_MINE:
	case STET_UNDO_LAZY:
		if (last->b == next->a)
			last->b = next->b;
		else if (next->b == last->a)
			last->a = next->a;
		else
			return false;
		return true;
	case STET_UNDO_RESTS:
	case STET_UNDO_LAZY_FROM:
	case STET_UNDO_APPENDED:
	case STET_UNDO_KEEP_MTIME:
	case STET_UNDO_FREED:
		return true;
	case STET_UNDO_STAGED:
		return stet_staged_covers_(last, next);
	case STET_UNDO_CLAIM:
	case STET_UNDO_FILE:
	case STET_UNDO_SETTLED:
		break;
	}
	return false;
}

static bool has_bytes(const struct fs_undo *undo)
{
	return undo->kind == STET_UNDO_SETTLED || undo->kind == STET_UNDO_STAGED;
}

static void free_bytes(const struct fs_undo *undo)
{
	if (has_bytes(undo))
		stet_free(undo->bytes);
}

static int64_t held(const struct fs_undo *undo)
{
	return (int64_t)(sizeof(*undo) + (has_bytes(undo) ? undo->b : 0));
}

static void free_note(const struct fs_state *state, const struct fs_undo *undo)
{
	stet_txn_hold(state->txn, -held(undo));
	free_bytes(undo);
}

bool stet_undo_wanted_(const struct stet_fs_ctx *ctx)
{
	return stet_txn_save_mark(ctx->txn) != NULL;
}

int stet_undo_note_(struct stet_fs_ctx *ctx, const struct fs_undo *undo)
{
	const uint64_t *top = stet_txn_save_mark(ctx->txn);
	struct fs_state *state = stet_state_(ctx);

	if (!top)
		return 0;
	if (state->undo.n > top[0] && join(&state->undo.v[state->undo.n - 1], undo)) {
		free_bytes(undo);
		return 0;
	}
	int rc = stet_vec_push(&state->undo, *undo);
	if (rc)
		free_bytes(undo);
	else
		stet_txn_hold(ctx->txn, held(undo));
	return rc;
}

int stet_undo_note_ranges_(struct stet_fs_ctx *ctx, enum fs_undo_kind kind,
			   const struct fs_file *file, uint64_t lo, uint64_t hi)
{
	const struct fs_ranges *ranges = kind == STET_UNDO_MINE ? &file->mine : &file->lazy;
	struct fs_undo undo = { .kind = kind, .ino = file->ino };
	uint64_t at = lo;
	int rc = 0;

	if (!stet_undo_wanted_(ctx))
		return 0;
	while (!rc && stet_ranges_gap_(ranges, &at, hi, &undo.a)) {
		undo.b = at;
		rc = stet_undo_note_(ctx, &undo);
	}
	return rc;
}

int stet_undo_note_append_(struct stet_fs_ctx *ctx, const struct fs_file *file)
{
	struct fs_undo undo = { .kind = STET_UNDO_SETTLED,
				.ino = file->ino,
				.b = file->append.len };

	if (!stet_undo_wanted_(ctx))
		return 0;
	undo.bytes = stet_alloc(file->append.len);
	if (!undo.bytes)
		return STET_FAIL(-ENOMEM, "no memory for a savepoint");
	memcpy(undo.bytes, file->append.p, file->append.len);
	return stet_undo_note_(ctx, &undo);
}

void stet_undo_clear_(struct fs_state *state)
{
	for (size_t i = 0; i < state->undo.n; i++)
		free_note(state, &state->undo.v[i]);
	stet_vec_release(&state->undo);
}

/* --- with savepoints --- */

void stet_undo_mark_(void *user, uint64_t mark[STET_TXN_MARKS])
{
	const struct fs_state *state = user;

	mark[0] = state->undo.n;
	mark[1] = stet_engine_peek_ino(stet_txn_engine(state->txn)); /* U4 */
}

void stet_undo_released_(void *user, const uint64_t first[STET_TXN_MARKS],
			 const uint64_t top[STET_TXN_MARKS])
{
	struct fs_state *state = user;
	size_t n = first[0];

	if (!top) {
		stet_undo_clear_(state);
		return;
	}
	for (size_t i = n; i < state->undo.n; i++) {
		if (n > top[0] && join(&state->undo.v[n - 1], &state->undo.v[i]))
			free_note(state, &state->undo.v[i]);
		else
			state->undo.v[n++] = state->undo.v[i];
	}
	state->undo.n = n;
}

static int undo_file(struct fs_state *state, struct fs_undo *undo)
{
	struct stet_fs_ctx ctx = { .txn = state->txn };
	struct fs_file *file = stet_state_file_of_(state, undo->ino);
	int rc;

	STET_ASSERT(file);
	switch (undo->kind) {
	case STET_UNDO_FILE:
		stet_state_drop_file_(&ctx, state, file);
		break;
	case STET_UNDO_STAGED:
		return stet_staged_undo_(&ctx, file, undo);
	case STET_UNDO_MINE:
		return stet_ranges_take_(&file->mine, undo->a, undo->b);
	case STET_UNDO_LAZY:
		return stet_ranges_take_(&file->lazy, undo->a, undo->b);
	case STET_UNDO_RESTS:
		file->rests.n = undo->a;
		break;
	case STET_UNDO_LAZY_FROM:
		file->lazy_from = undo->a;
		break;
	case STET_UNDO_APPENDED:
		STET_ASSERT_CMP(undo->a, <=, file->append.len);
		file->append.len = undo->a;
		break;
	case STET_UNDO_SETTLED:
		STET_ASSERT_CMP(file->append.len, ==, 0);
		rc = stet_buf_append(&file->append, undo->bytes, undo->b);
		stet_append_account_(&ctx, file);
		return rc;
	case STET_UNDO_KEEP_MTIME:
		file->keep_mtime = undo->a;
		break;
	case STET_UNDO_CLAIM:
	case STET_UNDO_FREED:
		break;
	}
	return 0;
}

int stet_undo_roll_back_(void *user, const uint64_t mark[STET_TXN_MARKS])
{
	struct fs_state *state = user;
	struct fs_range made;
	int rc = 0;

	state->rollbacks++;
	while (!rc && stet_ranges_next_(&state->created, mark[1], &made)) /* U4 */
		rc = stet_ranges_take_(&state->created, made.lo > mark[1] ? made.lo : mark[1],
				       made.hi);
	while (state->undo.n > mark[0] && !rc) {
		struct fs_undo undo = stet_vec_pop(&state->undo);

		if (stet_mutant_is(STET_MUTANT_SAVE_NO_STATE))
			rc = 0;
		else if (undo.kind == STET_UNDO_CLAIM)
			stet_state_drop_claim_(state, undo.ino, (enum stet_claim_kind)undo.a);
		else if (undo.kind == STET_UNDO_FREED)
			state->freed.n = undo.a;
		else
			rc = undo_file(state, &undo);
		free_note(state, &undo);
	}
	return rc;
}
