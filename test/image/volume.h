/* volume.h - a volume on any device, driven from one thread: opened, changed, flushed, closed. */
#ifndef TEST_IMAGE_VOLUME_H
#define TEST_IMAGE_VOLUME_H

#include "clean/clean.h"
#include "fs/fs.h"
#include "sim/clock.h"
#include "txn/txn.h"

struct volume {
	struct stet_device *device; /* borrowed */
	struct stet_engine *engine;
	struct stet_fs *fs;
	struct sim_clock clock;
	struct stet_cleaner *cleaner; /* NULL: read-only */
	struct stet_ticket reclaim_ticket, clean_ticket;
	uint64_t flushes; /* seen so far */
	/* Called when a flush is done: what is ordered now is what a crash shows from now on. */
	void (*on_flush)(void *arg, struct volume *v);
	void *arg;
};

struct volume_options {
	uint32_t seg_blocks;
	uint8_t meta_copies;
	uint64_t seed;
};

int volume_format(struct stet_device *device, const struct volume_options *options);
enum volume_mode {
	VOLUME_READ,
	VOLUME_PREFIX, /* read, and what of the log is damaged never was */
	VOLUME_WRITE,
};

/** The device stays the caller's. Nothing is left on errors. */
int volume_open(struct stet_device *device, enum volume_mode mode, struct volume *ret);
/** Writes nothing. Transactions must have ended. */
void volume_close(struct volume *v);

/// Background work ///

/** Flushes what is ordered. */
int volume_flush(struct volume *v);
/** Flush and checkpoint. */
int volume_checkpoint(struct volume *v);
/** At most so many steps of background work, reclaim included. */
void volume_pump(struct volume *v, unsigned steps);
/** Asks the cleaner to empty segments, and gives it so many steps. */
void volume_clean(struct volume *v, uint32_t segments, unsigned steps);

/// Operations ///

enum op_kind {
	OP_MAKE,         /* dir, name, mode; data: a link's target. Sets ino. */
	OP_MAKE_UNNAMED, /* mode. Sets ino. */
	OP_LINK,         /* ino, dir, name */
	OP_UNLINK,       /* dir, name */
	OP_RMDIR,        /* dir, name */
	OP_RENAME,       /* dir, name, to_dir, to_name */
	OP_WRITE,        /* ino, off, data */
	OP_APPEND,       /* ino, data */
	OP_TRUNCATE,     /* ino, off */
	OP_PUNCH,        /* ino, off, len */
	OP_XATTR_SET,    /* ino, name, data */
	OP_PUT,          /* ino, name: the key, data */
	OP_DEL,          /* ino, name: the key */
};

struct op {
	enum op_kind kind;
	uint32_t mode;
	uint64_t dir, to_dir, ino, off;
	const char *name, *to_name;
	const void *data;
	size_t len;
};

/** Does op in txn (NULL: plain), waiting for what background work brings. */
int volume_op(struct volume *v, struct stet_txn *txn, struct op *op);
/** Orders a transaction and ends it. */
int volume_commit(struct volume *v, struct stet_txn *txn);

#endif
