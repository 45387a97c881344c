/* files.h - what the parts of the file exerciser share: operations and what they do to the model
 * (model.c), and the ways to read and write (engine.c).
 */
#ifndef STET_EXERCISE_FILES_H
#define STET_EXERCISE_FILES_H

#include "exercise.h"

#define FILES 3
#define FILE_MAX (256u * EX_KIB)
#define PIECES_MAX 8

/// The model ///

/* What a file holds. Above size all bytes are 0. */
struct content {
	uint8_t *byte; /* FILE_MAX of them */
	size_t size;
};

struct state {
	struct content file[FILES];
};

enum op_kind {
	OP_WRITE, /* data from the seed; also appends and stores through a mapping */
	OP_BATCH, /* several of these at once, in any order */
	OP_TRUNCATE,
	OP_PUNCH,
	OP_ZERO,
	OP_ALLOCATE,
	OP_COLLAPSE,
	OP_INSERT,
	OP_COPY,
};

struct piece {
	size_t off, len;
};

/* An operation that changes a file. The pieces of a batch are done in any order. */
struct op {
	enum op_kind kind;
	unsigned file, from_file;
	size_t off, len, from_off;
	bool keep_size;
	uint64_t seed;
	unsigned pieces; /* OP_BATCH */
	struct piece piece[PIECES_MAX];
};

void state_init(struct state *state);
void state_copy(struct state *to, const struct state *from);
void model_apply(struct state *state, const struct op *op);
bool content_equal(const struct content *a, const struct content *b);
bool state_equal(const struct state *a, const struct state *b);
/* Is it what may be there when only a part of the pieces of op was done, in `before`? */
bool is_partly(const struct state *before, const struct op *op, const struct state *seen);

/// Ways to read and write ///

enum engine_kind {
	ENGINE_PLAIN,
	ENGINE_AIO,
	ENGINE_URING,
};

struct request {
	bool write;
	int fd;
	void *buf;
	size_t len;
	size_t off;
	ssize_t result; /* bytes, or a negative errno value */
};

void engine_init(enum engine_kind kind);
/* Does them, all at once where the engine can; returns when all are done. */
void engine_run(struct request *request, size_t count);

#endif
