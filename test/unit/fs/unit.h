/* unit.h - a small volume in memory for the tests of fs/, and short forms of what they do with it.
 *
 * Everything runs in one thread: jobs are performed at once. An operation that must wait is retried
 * while background work makes progress.
 */
#ifndef TEST_UNIT_FS_UNIT_H
#define TEST_UNIT_FS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/random.h"
#include "fs/fs.h"
#include "sim/clock.h"

struct unit {
	struct stet_device *device;
	struct stet_superblock sb;
	struct stet_engine_config config;
	struct stet_engine *engine;
	struct stet_fs *fs;
	struct sim_clock clock;
	uint64_t waits; /* how often something had to wait */
};

#define BLOCK ((uint64_t)STET_BLOCK_SIZE)
#define UNIT_START_NS INT64_C(1700000000000000000)

struct unit_options {
	uint64_t size_bytes;  /* 0: 64 MiB */
	uint32_t seg_blocks;  /* 0: 64 */
	uint8_t data_copies;  /* 0: 1 */
	uint64_t cache_bytes; /* 0: 16 MiB; the less, the sooner transactions spill */
	uint64_t spill_bytes; /* 0: by that */
};

/** Makes and opens a volume; asserts that all goes well. */
struct unit *unit_create(const struct unit_options *options);
/** Checks the whole catalog, closes and frees. */
void unit_destroy(struct unit *u);
/** Flushes, closes and opens again. */
void unit_reopen(struct unit *u);
/** Flushes what is ordered, and with `checkpoint` writes a checkpoint. */
void unit_flush(struct unit *u, bool checkpoint);
/** Background work until there is none. */
void unit_idle(struct unit *u);
/** Asserts F1-F3 of fs.h and the counts of every inode, in the current state. */
void unit_check(struct unit *u);

struct stet_txn *unit_begin(struct unit *u, enum stet_level level);
/** Orders and ends the transaction; the result of ordering. conflict: text of at most cap bytes. */
int unit_order(struct unit *u, struct stet_txn *txn);
extern char unit_conflict[256]; /* of the last unit_order */
void unit_end(struct stet_txn *txn);
/** Places and spills what the transaction has staged over its share. */
void unit_spill(struct unit *u, struct stet_txn *txn);

/// Operations: in a transaction, or plain when txn is NULL. Their results are the operations'. ///

/** Not 0: that allocation of each operation (when plain, its ordering too) and later ones fail. */
extern int64_t unit_fail_after;

struct stet_fs_name unit_name(const char *name);
int unit_make(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name, uint32_t mode,
	      uint64_t *ret_ino);
int unit_symlink(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name,
		 const char *target, size_t len, uint64_t *ret_ino);
int unit_lookup(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name,
		uint64_t *ret_ino);
int unit_unlink(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name);
int unit_rmdir(struct unit *u, struct stet_txn *txn, uint64_t dir, const char *name);
int unit_link(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t dir, const char *name);
int unit_rename(struct unit *u, struct stet_txn *txn, uint64_t from_dir, const char *from,
		uint64_t to_dir, const char *to, unsigned flags);
int unit_write(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off, const void *data,
	       size_t len);
int unit_append(struct unit *u, struct stet_txn *txn, uint64_t ino, const void *data, size_t len);
int unit_truncate(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t size);
int unit_punch(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off, uint64_t len);
/** Bytes read, or an error. */
int64_t unit_read(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off, void *buf,
		  size_t len);
int unit_seek(struct unit *u, struct stet_txn *txn, uint64_t ino, uint64_t off, bool hole,
	      uint64_t *ret);
int unit_getattr(struct unit *u, struct stet_txn *txn, uint64_t ino, struct stet_fs_attr *ret);
int unit_setattr(struct unit *u, struct stet_txn *txn, uint64_t ino, unsigned set,
		 const struct stet_fs_attr *attr);
int unit_xattr_set(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name,
		   const void *value, size_t len, unsigned flags);
int unit_xattr_remove(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name);
/** Bytes, or an error. */
int64_t unit_xattr_get(struct unit *u, struct stet_txn *txn, uint64_t ino, const char *name,
		       void *buf, size_t cap);
int64_t unit_xattr_list(struct unit *u, struct stet_txn *txn, uint64_t ino, char *buf, size_t cap);
int unit_put(struct unit *u, struct stet_txn *txn, uint64_t table, const char *key,
	     const void *value, size_t len, unsigned flags);
int unit_del(struct unit *u, struct stet_txn *txn, uint64_t table, const char *key);
/** Bytes, or an error; at most cap are copied. */
int64_t unit_get(struct unit *u, struct stet_txn *txn, uint64_t table, const char *key, void *buf,
		 size_t cap);
int64_t unit_count(struct unit *u, struct stet_txn *txn, uint64_t table);
/** The keys within the limits, each followed by a slash; `step` of them at once. */
int unit_keys(struct unit *u, struct stet_txn *txn, uint64_t table,
	      const struct stet_fs_limits *limits, bool reverse, uint32_t step, char *buf,
	      size_t cap);
/** The names of a directory, each followed by a slash. */
int unit_list(struct unit *u, struct stet_txn *txn, uint64_t dir, char *buf, size_t cap);

#endif
