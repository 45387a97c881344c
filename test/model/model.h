/* model.h - a plain file system in memory: the oracle that the real one is compared with.
 *
 * A model is one state of a whole tree. It is persistent: copying one costs nothing, and changing a
 * copy makes new nodes only along the way to what changed. So every flush boundary, every
 * transaction's view and the current state can be kept side by side.
 *
 * An operation is a struct model_op, with inode numbers as the real system gave them. Its result is
 * the errno that the real system must answer and the bytes that it must hand out.
 */
#ifndef TEST_MODEL_MODEL_H
#define TEST_MODEL_MODEL_H

#include "base/text.h"
#include "format/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** 128 bits that tell two contents apart. */
struct model_hash {
	uint64_t a, b;
};

/** Bytes that are shared and never change. */
struct model_blob {
	uint32_t refs;
	uint32_t len;
	struct model_hash hash;
	uint8_t b[];
};

struct model_entry {
	struct model_blob *name;
	uint64_t ino;
	uint8_t type; /* as DT_* */
};

/* Of a table also its records, whose names are byte 02 and the key. */
struct model_xattr {
	struct model_blob *name, *value;
};
#define MODEL_RECORD_MARK 2

struct model_page {
	uint64_t no;
	struct model_blob *bytes; /* STET_BLOCK_SIZE of them, not all zero */
};

/** All arrays are sorted: entries and xattrs by the bytes of their names, pages by number. */
struct model_inode {
	uint32_t refs;
	uint32_t mode, uid, gid, nlink; /* directories: 1, or 0 when removed */
	uint32_t subdirs;
	uint64_t ino, size, rdev, parent;
	int64_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint64_t version; /* changes with every change of the data; not compared */
	uint64_t shrunk;  /* changes with every truncation or hole; not compared */
	struct model_hash hash;
	struct model_blob *target;
	struct model_entry *entries;
	struct model_xattr *xattrs;
	struct model_page *pages;
	size_t entry_count, xattr_count, page_count;
};

struct model;

/// States ///

/** A tree that is only the root. */
struct model *model_create(uint32_t mode, int64_t now_ns);
/** A state without even a root, to be filled with model_adopt. */
struct model *model_create_empty(void);
struct model *model_get(struct model *m);
void model_put(struct model *m); /* NULL: nothing */
/** The inode, or NULL. Borrowed: valid as long as the model is held and not changed. */
const struct model_inode *model_find(const struct model *m, uint64_t ino);
/** The hash of everything that has a name. */
struct model_hash model_state_hash(const struct model *m);
bool model_hash_equal(struct model_hash a, struct model_hash b);
/** How many inodes and pages there are. */
void model_counts(const struct model *m, uint64_t *ret_inodes, uint64_t *ret_pages);
/** Calls fn for every inode by rising number, until it returns something but 0. */
int model_walk(const struct model *m, int (*fn)(void *arg, const struct model_inode *inode),
	       void *arg);
/** Says what differs between two states, in a few lines. */
void model_diff(struct stet_text *t, const struct model *want, const struct model *have);

const struct model_entry *model_entry(const struct model_inode *dir, const void *name, size_t len);
const struct model_xattr *model_xattr(const struct model_inode *inode, const void *name,
				      size_t len);
const struct model_xattr *model_record(const struct model_inode *inode, const void *key,
				       size_t len);

/// Building a state from another source ///

/** An inode of its own, to be filled and then adopted. */
struct model_inode *model_inode_create(uint64_t ino);
void model_inode_put(struct model_inode *inode);
void model_add_entry(struct model_inode *dir, const void *name, size_t len, uint64_t ino,
		     uint8_t type);
void model_add_xattr(struct model_inode *inode, const void *name, size_t len, const void *value,
		     size_t value_len);
void model_add_record(struct model_inode *inode, const void *key, size_t len, const void *value,
		      size_t value_len);
void model_add_bytes(struct model_inode *inode, uint64_t off, const uint8_t *bytes, size_t len);
void model_set_target(struct model_inode *inode, const void *target, size_t len);
/** Takes the inode; one with the same number is replaced. *m must not be shared. */
void model_adopt(struct model *m, struct model_inode *take_inode);

/// Operations ///

enum model_kind {
	/* reading */
	MODEL_LOOKUP,
	MODEL_LIST,
	MODEL_GETATTR,
	MODEL_READ,
	MODEL_READLINK,
	MODEL_XATTR_GET,
	MODEL_XATTR_LIST,
	MODEL_RECORD_GET,
	MODEL_RECORD_LIST, /* flags 1: backwards */
	/* changing */
	MODEL_MAKE,
	MODEL_UNLINK,
	MODEL_RMDIR,
	MODEL_LINK,
	MODEL_RENAME,
	MODEL_SETATTR,
	MODEL_XATTR_SET,
	MODEL_XATTR_REMOVE,
	MODEL_WRITE,
	MODEL_APPEND,
	MODEL_TRUNCATE,
	MODEL_PUNCH,
	MODEL_RECORD_PUT,
	MODEL_RECORD_DEL,
	MODEL_KINDS,
};

struct model_name {
	const char *bytes; /* borrowed: lives as long as the op */
	size_t len;
};

/** MAKE: mode and gid are final, whatever the directory says. */
#define MODEL_INHERITED 1u
/** LINK: done again when it is ordered, where only the sum of names counts. */
#define MODEL_ORDERED 0x100u

/** Set and flag bits are those of fs.h. */
struct model_op {
	enum model_kind kind;
	uint64_t ino; /* of what is read or changed; LINK: of what gets a name */
	uint64_t dir, to_dir;
	struct model_name name, to_name; /* XATTR: name; RECORD: key */
	unsigned flags;                  /* RENAME, XATTR_SET, RECORD_PUT; SETATTR: what is set */
	uint32_t mode, uid, gid;
	uint64_t rdev;
	uint64_t off, len;
	uint64_t seed; /* of the bytes that are written, as target, xattr value or data */
	int64_t atime_ns, mtime_ns;
	int64_t now_ns;   /* when it was done */
	uint64_t new_ino; /* MAKE: as the real system gave it */
};

/** Room for results; bytes is the caller's. */
struct model_result {
	int rc;
	uint64_t ino; /* LOOKUP, MAKE, UNLINK, RMDIR; RENAME: what was replaced */
	size_t len;   /* of bytes */
	uint8_t *bytes;
	size_t cap;
};

bool model_kind_reads(enum model_kind kind);
/** RECORD_GET: what it reads is said to be changed next. */
bool model_op_updates(const struct model_op *op);
const char *model_kind_name(enum model_kind kind);
void model_op_print(struct stet_text *t, const struct model_op *op);
/** The bytes that an op writes; len of them. */
void model_op_bytes(const struct model_op *op, uint8_t *out, size_t len);

/**
 * Does op on *m; when it succeeds *m becomes the new state. commit_ns: the time that changed inodes
 * get (a plain operation: op->now_ns). stamp: a number that rises with every change.
 */
void model_apply(struct model **m, const struct model_op *op, int64_t commit_ns, uint64_t stamp,
		 struct model_result *ret);
/** Forgets an inode that has no name and is not open. */
void model_reclaim(struct model **m, uint64_t ino);
/** Forgets all inodes without a name. */
void model_reclaim_all(struct model **m);

/** What MODEL_GETATTR hands out, encoded so that it can be compared as bytes. */
struct model_attr {
	uint64_t ino, size, rdev, parent;
	int64_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint32_t mode, uid, gid, nlink;
};
/** with_times false: ctime and mtime are left out (inside a transaction they are not final). */
void model_attr_of(const struct model_inode *inode, struct model_attr *ret);
/** Appends to bytes; what does not fit is cut (the comparison fails then anyway). */
void model_result_add(struct model_result *r, const void *bytes, size_t len);

#endif
