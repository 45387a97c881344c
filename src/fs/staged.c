/* staged.c - bytes written at LOCKING: kept as bytes until the transaction is ordered.
 *
 * At LOCKING transactions write different bytes of one block, extent or inline file at the same time. So what
 * one of them writes must not be merged with what it finds there, but with what is there when it is ordered.
 *
 * B1. While a transaction has not locked the whole file, what it writes is staged: disjoint pieces, each under
 *     an exclusive lock of just its bytes. No extent of the file is staged, none is cut.
 * B2. To the transaction the pieces lie over the file as it is now: reads, sizes and holes include them.
 * B3. When it is ordered they are written to the file as it is then, by the same code that writes outside of
 *     transactions. Whatever others have made of the bytes between them, and of the layout, stays.
 * B4. Whatever needs more than bytes (truncation, punching, appending after writing) takes the whole file, and
 *     what is staged is written as the transaction sees it (settle). From then on it goes on as at the other
 *     levels (data.c). So it does when much is staged, if nobody else has anything locked in the file; and when
 *     more is staged than is the transaction's share of memory, as soon as it gets the lock.
 * B5. Pieces are added to, not joined: writing many small ones in any order costs no more than they are long.
 * B6. A savepoint takes note of what lay in the bytes that are written after it (and of all, when it is settled).
 */
#include <string.h>

#include "base/assert.h"
#include "base/endian.h"
#include "base/mem.h"
#include "fs/fs_internal.h"

#define KEY_BYTES 8u
#define PIECE_MAX (64u << 10)         /* to which a piece grows by being added to */
#define TRY_BYTES (UINT64_C(1) << 20) /* staged in one file: time to ask for all of it */

struct piece {
	uint32_t len, cap;
	uint8_t b[];
};

static uint64_t start_of(const struct stet_skipnode *node)
{
	return stet_get_be64(stet_skipnode_key(node));
}

static uint64_t end_of(const struct stet_skipnode *node)
{
	return start_of(node) + ((const struct piece *)node->value)->len;
}

static void account(struct stet_fs_ctx *ctx, struct fs_file *file, int64_t bytes)
{
	file->staged_bytes = (uint64_t)((int64_t)file->staged_bytes + bytes);
	stet_txn_hold(ctx->txn, bytes);
}

/* --- the pieces --- */

void stet_staged_init_(struct stet_fs_ctx *ctx, struct fs_file *file)
{
	stet_skiplist_init(&file->staged, stet_engine_random(stet_txn_engine(ctx->txn)), 0);
	file->staged_bytes = 0;
	file->staged_try = TRY_BYTES;
}

static void free_piece(void *arg, struct stet_skipnode *node)
{
	(void)arg;
	stet_free(node->value);
}

void stet_staged_release_(struct fs_file *file)
{
	stet_skiplist_release(&file->staged, free_piece, NULL);
}

void stet_staged_clear_(struct stet_fs_ctx *ctx, struct fs_file *file)
{
	stet_staged_release_(file);
	account(ctx, file, -(int64_t)file->staged_bytes);
}

/* The first piece that ends behind `at`. */
static struct stet_skipnode *first_behind(const struct fs_file *file, uint64_t at)
{
	uint8_t key[KEY_BYTES];
	struct stet_skipnode *node;

	stet_put_be64(key, at);
	node = stet_skiplist_below(&file->staged, key, sizeof(key));
	if (node && end_of(node) > at)
		return node;
	return stet_skiplist_lower_bound(&file->staged, key, sizeof(key));
}

bool stet_staged_next_(const struct fs_file *file, uint64_t at, uint64_t end, uint64_t *ret_lo,
		       uint64_t *ret_hi, const uint8_t **ret_bytes)
{
	struct stet_skipnode *node = file ? first_behind(file, at) : NULL;

	if (!node || start_of(node) >= end)
		return false;
	*ret_lo = start_of(node) > at ? start_of(node) : at;
	*ret_hi = end_of(node) < end ? end_of(node) : end;
	*ret_bytes = ((const struct piece *)node->value)->b + (*ret_lo - start_of(node));
	return true;
}

uint64_t stet_staged_end_(const struct stet_fs_ctx *ctx, uint64_t ino)
{
	static const uint8_t behind[KEY_BYTES + 1] = {
		255, 255, 255, 255, 255, 255, 255, 255, 255
	};
	const struct fs_file *file = stet_state_find_file_(ctx, ino);
	struct stet_skipnode *last =
		file ? stet_skiplist_below(&file->staged, behind, sizeof(behind)) : NULL;

	return last ? end_of(last) : 0;
}

static void drop_piece(struct stet_fs_ctx *ctx, struct fs_file *file, struct stet_skipnode *node)
{
	size_t before = stet_skiplist_bytes(&file->staged);
	const struct piece *p = node->value;

	account(ctx, file, -(int64_t)(sizeof(*p) + p->cap));
	stet_free(node->value);
	stet_skiplist_remove(&file->staged, node);
	account(ctx, file, (int64_t)stet_skiplist_bytes(&file->staged) - (int64_t)before);
}

static int put_piece(struct stet_fs_ctx *ctx, struct fs_file *file, uint64_t off,
		     const uint8_t *data, size_t len)
{
	size_t before = stet_skiplist_bytes(&file->staged);
	struct piece *p = stet_alloc(sizeof(*p) + len);
	struct stet_skipnode *node;
	uint8_t key[KEY_BYTES];
	int rc;

	if (!p)
		return STET_FAIL(-ENOMEM, "no memory for %zu bytes", len);
	p->len = p->cap = (uint32_t)len;
	memcpy(p->b, data, len);
	stet_put_be64(key, off);
	rc = stet_skiplist_insert(&file->staged, key, sizeof(key), &node);
	if (rc) {
		stet_free(p);
		return rc;
	}
	node->value = p;
	account(ctx, file,
		(int64_t)(sizeof(*p) + len + stet_skiplist_bytes(&file->staged) - before));
	return 0;
}

/* Behind what the piece holds. */
static int add_to_piece(struct stet_fs_ctx *ctx, struct fs_file *file, struct stet_skipnode *node,
			const uint8_t *data, size_t len)
{
	struct piece *p = node->value;

	if (p->len + len > p->cap) {
		size_t cap = 2 * (p->len + len);
		struct piece *grown = stet_realloc(p, sizeof(*p) + cap);

		if (!grown)
			return STET_FAIL(-ENOMEM, "no memory for %zu bytes", cap);
		account(ctx, file, (int64_t)(cap - grown->cap));
		grown->cap = (uint32_t)cap;
		node->value = p = grown;
	}
	memcpy(p->b + p->len, data, len);
	p->len += (uint32_t)len;
	return 0;
}

/* Takes [off, end) out of the pieces. */
static int carve(struct stet_fs_ctx *ctx, struct fs_file *file, uint64_t off, uint64_t end)
{
	struct stet_skipnode *node;
	int rc = 0;

	while (!rc && (node = first_behind(file, off)) && start_of(node) < end) {
		struct piece *p = node->value;
		uint64_t start = start_of(node), stop = end_of(node);

		if (stop > end)
			rc = put_piece(ctx, file, end, p->b + (end - start), stop - end);
		if (rc)
			break;
		if (start < off)
			p->len = (uint32_t)(off - start);
		else
			drop_piece(ctx, file, node);
	}
	return rc;
}

/* --- savepoints (B6): the range, then what lay in it: offset, length, bytes --- */
#define NOTE_HEAD 16u
#define NOTE_PIECE 12u

static size_t note_size(const struct fs_file *file, uint64_t lo, uint64_t hi)
{
	uint64_t at = lo, from, to;
	const uint8_t *bytes;
	size_t size = NOTE_HEAD;

	while (at < hi && stet_staged_next_(file, at, hi, &from, &to, &bytes)) {
		size += NOTE_PIECE + (size_t)(to - from);
		at = to;
	}
	return size;
}

static int note(struct stet_fs_ctx *ctx, const struct fs_file *file, uint64_t lo, uint64_t hi)
{
	struct fs_undo undo = { .kind = STET_UNDO_STAGED, .ino = file->ino };
	uint64_t at = lo, from, to;
	const uint8_t *bytes;
	uint8_t *p;

	if (!stet_undo_wanted_(ctx))
		return 0;
	undo.b = note_size(file, lo, hi);
	undo.bytes = p = stet_alloc(undo.b);
	if (!p)
		return STET_FAIL(-ENOMEM, "no memory for a savepoint");
	stet_put_le64(p, lo);
	stet_put_le64(p + 8, hi);
	p += NOTE_HEAD;
	while (at < hi && stet_staged_next_(file, at, hi, &from, &to, &bytes)) {
		stet_put_le64(p, from);
		stet_put_le32(p + 8, (uint32_t)(to - from));
		memcpy(p + NOTE_PIECE, bytes, (size_t)(to - from));
		p += NOTE_PIECE + (to - from);
		at = to;
	}
	return stet_undo_note_(ctx, &undo);
}

bool stet_staged_covers_(const struct fs_undo *last, const struct fs_undo *next)
{
	return stet_get_le64(last->bytes) <= stet_get_le64(next->bytes) &&
	       stet_get_le64(last->bytes + 8) >= stet_get_le64(next->bytes + 8);
}

int stet_staged_undo_(struct stet_fs_ctx *ctx, struct fs_file *file, const struct fs_undo *undo)
{
	const uint8_t *p = undo->bytes + NOTE_HEAD, *end = undo->bytes + undo->b;
	int rc = carve(ctx, file, stet_get_le64(undo->bytes), stet_get_le64(undo->bytes + 8));

	while (p < end && !rc) {
		uint32_t len = stet_get_le32(p + 8);

		rc = put_piece(ctx, file, stet_get_le64(p), p + NOTE_PIECE, len);
		p += NOTE_PIECE + len;
	}
	return rc;
}

static int insert(struct stet_fs_ctx *ctx, struct fs_file *file, uint64_t off, const uint8_t *data,
		  size_t len)
{
	struct stet_skipnode *node = first_behind(file, off);
	uint8_t key[KEY_BYTES];
	int rc = note(ctx, file, off, off + len);

	if (rc)
		return rc;
	if (node && start_of(node) <= off && end_of(node) >= off + len) {
		memcpy(((struct piece *)node->value)->b + (off - start_of(node)), data, len);
		return 0;
	}
	rc = carve(ctx, file, off, off + len);
	if (rc)
		return rc;
	stet_put_be64(key, off);
	node = stet_skiplist_below(&file->staged, key, sizeof(key));
	if (node && end_of(node) == off && off + len - start_of(node) <= PIECE_MAX)
		return add_to_piece(ctx, file, node, data, len);
	return put_piece(ctx, file, off, data, len);
}

/* --- writing --- */

bool stet_staged_wanted_(const struct fs_data *d)
{
	return d->file && stet_txn_level(d->ctx->txn) == STET_LEVEL_LOCKING && !d->file->locked &&
	       d->file->append.len == 0 && !stet_txn_holds_much(d->ctx->txn);
}

/* B4: all of it, if that takes no waiting. */
static int try_all(struct fs_data *d)
{
	struct stet_fs_ctx *ctx = d->ctx;
	bool wait = ctx->wait;
	int rc;

	d->file->staged_try = 2 * d->file->staged_bytes;
	ctx->wait = false;
	rc = stet_data_lock_(d, 0, UINT64_MAX, STET_LOCK_X);
	ctx->wait = wait;
	if (rc)
		return rc == -EBUSY ? 0 : rc;
	rc = stet_data_pending_(d);
	return rc ? rc : stet_staged_settle_(d);
}

/* The mutant that stages whole blocks, with what is there now, as if nobody else changed them. */
static int stage_blocks(struct fs_data *d, uint64_t off, size_t len)
{
	uint64_t end = d->in.i.size < off + len ? d->in.i.size : off + len;
	uint8_t bytes[STET_BLOCK_SIZE];
	int rc = 0;

	for (uint64_t block = off >> STET_BLOCK_SHIFT; block < stet_blocks_(end) && !rc; block++) {
		uint64_t lo = block << STET_BLOCK_SHIFT;
		uint64_t size = d->in.i.size - lo < sizeof(bytes) ? d->in.i.size - lo
								  : sizeof(bytes);

		rc = stet_data_block_(d, block, bytes);
		if (!rc)
			rc = insert(d->ctx, d->file, lo, bytes, size);
	}
	return rc;
}

static int stage(struct fs_data *d, uint64_t off, const uint8_t *data, size_t len)
{
	struct stet_inode_intent n;
	int rc = 0;

	if (stet_mutant_is(STET_MUTANT_NO_BYTE_MERGE))
		rc = stage_blocks(d, off, len);
	if (!rc)
		rc = insert(d->ctx, d->file, off, data, len);
	if (rc)
		return rc;
	if (d->file->keep_mtime)
		rc = stet_undo_note_(d->ctx, &(struct fs_undo){ .kind = STET_UNDO_KEEP_MTIME,
								.ino = d->ino,
								.a = 1 });
	if (rc)
		return rc;
	d->file->keep_mtime = false;
	stet_intent_init_(d->ctx, &n, STET_TOUCH_DATA_);
	return stet_data_send_(d, &n, NULL);
}

int stet_staged_write_(struct fs_data *d, uint64_t off, const uint8_t *data, size_t len)
{
	int rc = stet_data_lock_(d, off, off + len, STET_LOCK_X);

	if (!rc)
		rc = stet_data_reserve_(d, off + len, len, false);
	if (rc)
		return rc;
	rc = stage(d, off, data, len);
	if (!rc && d->file->staged_bytes > d->file->staged_try)
		rc = try_all(d);
	if (rc)
		stet_txn_doom(d->ctx->txn, rc);
	return rc;
}

/* B3, or B4. */
int stet_staged_settle_(struct fs_data *d)
{
	struct fs_file *file = stet_state_find_file_(d->ctx, d->ino);
	int rc = 0;

	if (!file || stet_skiplist_count(&file->staged) == 0)
		return 0;
	rc = note(d->ctx, file, 0, UINT64_MAX);
	for (struct stet_skipnode *node = stet_skiplist_first(&file->staged); node && !rc;
	     node = stet_skiplist_next(node)) {
		const struct piece *p = node->value;

		rc = stet_data_write_(d, start_of(node), p->b, p->len);
	}
	if (!rc)
		stet_staged_clear_(d->ctx, file);
	return rc;
}

void stet_staged_need_(const struct fs_file *file, uint64_t *ret_blocks, uint64_t *ret_bytes)
{
	uint64_t counted = 0; /* blocks below */

	*ret_blocks = 0;
	for (struct stet_skipnode *node = stet_skiplist_first(&file->staged); node;
	     node = stet_skiplist_next(node)) {
		uint64_t lo = start_of(node) >> STET_BLOCK_SHIFT, hi = stet_blocks_(end_of(node));

		*ret_blocks += hi - (lo > counted ? lo : counted < hi ? counted : hi);
		counted = hi;
	}
	*ret_bytes = *ret_blocks * 2 * STET_META_EXTENT_;
}
