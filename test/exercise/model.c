/* model.c - what operations on a file do, in memory; and what a crash may leave of one. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

void state_init(struct state *state)
{
	for (size_t i = 0; i < FILES; i++) {
		state->file[i].byte = calloc(1, FILE_MAX);
		state->file[i].size = 0;
		if (!state->file[i].byte)
			ex_fail("no memory");
	}
}

static void content_copy(struct content *to, const struct content *from)
{
	memcpy(to->byte, from->byte, FILE_MAX);
	to->size = from->size;
}

void state_copy(struct state *to, const struct state *from)
{
	for (size_t i = 0; i < FILES; i++)
		content_copy(&to->file[i], &from->file[i]);
}

static void write_bytes(struct content *c, uint64_t seed, size_t off, size_t len)
{
	ex_fill(c->byte + off, seed, off, len);
	if (off + len > c->size)
		c->size = off + len;
}

static void resize(struct content *c, size_t size)
{
	if (size < c->size)
		memset(c->byte + size, 0, c->size - size);
	c->size = size;
}

static void zero(struct content *c, const struct op *op)
{
	if (!op->keep_size && op->off + op->len > c->size)
		c->size = op->off + op->len;
	if (op->off < c->size)
		memset(c->byte + op->off, 0,
		       op->off + op->len < c->size ? op->len : c->size - op->off);
}

static void collapse(struct content *c, const struct op *op)
{
	size_t rest = c->size - op->off - op->len;

	memmove(c->byte + op->off, c->byte + op->off + op->len, rest);
	resize(c, c->size - op->len);
}

static void insert(struct content *c, const struct op *op)
{
	memmove(c->byte + op->off + op->len, c->byte + op->off, c->size - op->off);
	memset(c->byte + op->off, 0, op->len);
	c->size += op->len;
}

static void copy(struct state *state, const struct op *op)
{
	struct content *to = &state->file[op->file];
	const struct content *from = &state->file[op->from_file];

	memmove(to->byte + op->off, from->byte + op->from_off, op->len);
	if (op->off + op->len > to->size)
		to->size = op->off + op->len;
}

void model_apply(struct state *state, const struct op *op)
{
	struct content *c = &state->file[op->file];

	switch (op->kind) {
	case OP_WRITE:
		write_bytes(c, op->seed, op->off, op->len);
		break;
	case OP_BATCH:
		for (unsigned i = 0; i < op->pieces; i++)
			write_bytes(c, op->seed, op->piece[i].off, op->piece[i].len);
		break;
	case OP_TRUNCATE:
		resize(c, op->len);
		break;
	case OP_PUNCH:
	case OP_ZERO:
		zero(c, op);
		break;
	case OP_ALLOCATE:
		if (!op->keep_size && op->off + op->len > c->size)
			c->size = op->off + op->len;
		break;
	case OP_COLLAPSE:
		collapse(c, op);
		break;
	case OP_INSERT:
		insert(c, op);
		break;
	case OP_COPY:
		copy(state, op);
		break;
	}
}

bool content_equal(const struct content *a, const struct content *b)
{
	return a->size == b->size && memcmp(a->byte, b->byte, a->size) == 0;
}

bool state_equal(const struct state *a, const struct state *b)
{
	for (size_t i = 0; i < FILES; i++)
		if (!content_equal(&a->file[i], &b->file[i]))
			return false;
	return true;
}

/* --- parts --- */

/* True: it was done, and is put into c as well. */
static bool take(struct content *c, uint64_t seed, size_t off, size_t len,
		 const struct content *seen)
{
	uint8_t wanted[PAGE];

	ex_fill(wanted, seed, off, len);
	if (off + len > seen->size || memcmp(wanted, seen->byte + off, len) != 0)
		return false;
	memcpy(c->byte + off, wanted, len);
	if (off + len > c->size)
		c->size = off + len;
	return true;
}

/* The kernel sends a write in parts that end with pages, one after the other: whenever a page that it
 * writes in part is not in its cache. */
static void take_piece(struct content *c, uint64_t seed, struct piece piece,
		       const struct content *seen)
{
	size_t off = piece.off, end = piece.off + piece.len;

	while (off < end) {
		size_t next = off / PAGE * PAGE + PAGE;

		if (next > end)
			next = end;
		if (!take(c, seed, off, next - off, seen))
			return;
		off = next;
	}
}

bool is_partly(const struct state *before, const struct op *op, const struct state *seen)
{
	const struct content *c = &seen->file[op->file];
	struct state state;
	bool same;

	if (op->kind != OP_BATCH && op->kind != OP_WRITE)
		return false;
	state_init(&state);
	state_copy(&state, before);
	if (op->kind == OP_WRITE)
		take_piece(&state.file[op->file], op->seed, (struct piece){ op->off, op->len }, c);
	for (unsigned i = 0; i < op->pieces; i++)
		take_piece(&state.file[op->file], op->seed, op->piece[i], c);
	same = state_equal(&state, seen);
	for (size_t i = 0; i < FILES; i++)
		free(state.file[i].byte);
	return same;
}
