/* fs.h - files and directories over the catalog, by inode number, in transactions.
 *
 * Every call takes a transaction (PLAIN for one operation outside any) and works under the volume's
 * lock. Calls that may wait take a ticket: STET_WAIT means nothing was changed, call again when it
 * fires. `wait` false in the context turns waiting for locks into -EBUSY.
 *
 * F1. Every name leads to an inode that exists; every inode has as many names as nlink says (a
 *     directory one); an inode with nlink 0 has an ORPHAN key.
 * F2. The EXTENTs of a file do not overlap; none lies at or beyond the size (but what a TRUNCATE
 *     orphan still has to free); a file with INLINE content has none.
 * F3. A directory's size is the number of its names, `subdirs` of those the directories; `parent`
 *     leads to the root without a cycle.
 */
#ifndef STET_FS_FS_H
#define STET_FS_FS_H

#include <sys/types.h>

#include "base/error.h"
#include "base/ticket.h"
#include "txn/engine.h"
#include "txn/txn.h"

struct stet_fs;

struct stet_fs_name {
	const char *bytes; /* borrowed for the call */
	size_t len;
};

/* Attribute groups: masks of reads, locks and intents. */
#define STET_ATTR_MODE 0x0001u  /* mode, uid, gid */
#define STET_ATTR_TIMES 0x0002u /* explicit atime, mtime */
#define STET_ATTR_NLINK 0x0004u
#define STET_ATTR_SIZE 0x0008u  /* size, blocks, mtime of files, data_version */
#define STET_ATTR_NAMES 0x0010u /* entries and mtime of a directory */
#define STET_ATTR_EXISTS 0x0020u
#define STET_ATTR_PARENT 0x0040u
#define STET_ATTR_CTIME 0x0080u
#define STET_ATTR_ALL 0x00ffu

struct stet_fs_attr {
	uint64_t ino;
	uint32_t mode, uid, gid, nlink;
	uint64_t size, blocks512, rdev; /* rdev: major << 32 | minor */
	int64_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint64_t parent; /* directories */
	uint64_t data_version;
};

/* --- life --- */
/* The hooks that an engine needs; arg is the fs, set by stet_fs_attach. */
STET_CHECKED int stet_fs_create(struct stet_fs **ret);
void stet_fs_destroy(struct stet_fs *fs);
void stet_fs_hooks(struct stet_fs *fs, struct stet_engine_hooks *ret_hooks);
/* After open: binds the engine (for reclaim and the inode table). */
void stet_fs_attach(struct stet_fs *fs, struct stet_engine *engine);
/* For stet_engine_format: makes the root directory. arg: struct stet_fs_root. */
struct stet_fs_root {
	uint32_t mode, uid, gid;
	int64_t now_ns;
};
STET_CHECKED int stet_fs_fill_root(void *arg, struct stet_txn *txn);

/* --- a call's surroundings --- */
struct stet_fs_ctx {
	struct stet_fs *fs;
	struct stet_txn *txn;
	struct stet_ticket *ticket; /* for STET_WAIT */
	bool wait;                  /* for locks; false: -EBUSY at once */
};

/* --- names --- */
STET_CHECKED int stet_fs_lookup(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
				struct stet_dirent *ret); /* -ENOENT, -ENOTDIR, -ENAMETOOLONG */
struct stet_fs_new {
	uint32_t mode; /* with type bits */
	uint32_t uid, gid;
	uint32_t umask; /* taken from mode unless the directory has a default ACL */
	uint64_t rdev;
	const char *target; /* symlinks */
	size_t target_len;
};
/* Makes any type of inode and its name. -EEXIST, -ENOENT (dir removed), -ENOTDIR, -ENOSPC, ... */
STET_CHECKED int stet_fs_make(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
			      const struct stet_fs_new *what, uint64_t *ret_ino);
/* A regular file without a name (O_TMPFILE): an orphan from the start; the caller holds it open. */
STET_CHECKED int stet_fs_make_unnamed(struct stet_fs_ctx *ctx, const struct stet_fs_new *what,
				      uint64_t *ret_ino);
STET_CHECKED int stet_fs_unlink(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
				uint64_t *ret_ino); /* not directories: -EISDIR */
STET_CHECKED int stet_fs_rmdir(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
			       uint64_t *ret_ino); /* -ENOTEMPTY, -ENOTDIR */
STET_CHECKED int stet_fs_link(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t dir,
			      struct stet_fs_name name); /* -EPERM for directories, -EMLINK */
#define STET_FS_RENAME_NOREPLACE 1u
#define STET_FS_RENAME_EXCHANGE 2u
STET_CHECKED int stet_fs_rename(struct stet_fs_ctx *ctx, uint64_t from_dir,
				struct stet_fs_name from_name, uint64_t to_dir,
				struct stet_fs_name to_name, unsigned flags,
				uint64_t *ret_replaced); /* 0 = nothing was replaced */
STET_CHECKED int stet_fs_readlink(struct stet_fs_ctx *ctx, uint64_t ino, char *buf, size_t cap,
				  size_t *ret_len);

/* Entries of a directory in name order, from the first name > after (after.len 0: from the start),
 * without "." and "..". 1 = an entry, 0 = end. */
struct stet_fs_dir;
STET_CHECKED int stet_fs_dir_open(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name after,
				  struct stet_fs_dir **ret);
struct stet_fs_entry {
	uint64_t ino;
	uint8_t type; /* DT_* */
	uint16_t name_len;
	char name[STET_NAME_MAX + 1]; /* NUL terminated */
};
STET_CHECKED int stet_fs_dir_next(struct stet_fs_dir *it, struct stet_fs_entry *ret);
void stet_fs_dir_close(struct stet_fs_dir *it);

/* --- giving up a part of a transaction --- */
/* A name that the transaction has changed. */
struct stet_fs_changed_name {
	uint64_t dir;
	struct stet_fs_name name;
	struct stet_dirent old, now; /* ino 0: none */
	bool reverted;
};
/* What is to be as if the transaction had not touched it. The caller has seen to it that the rest stands
 * alone: an inode that is listed is in no name that is kept; no kept name lies in a directory that would go. */
struct stet_fs_part {
	const struct stet_fs_changed_name *name; /* all changed ones; by directory, then bytes */
	size_t name_count;
	const uint64_t *ino; /* whose content, attributes and xattrs are given up; rising */
	size_t ino_count;
};
/* Not PLAIN, and not while it spills. A failure dooms the transaction; locks stay. */
STET_CHECKED int stet_fs_revert(struct stet_fs_ctx *ctx, const struct stet_fs_part *part);

/* --- attributes --- */
STET_CHECKED int stet_fs_getattr(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_attr *ret);
/* Of the mode only the type, which never changes: nothing else is read, and nothing is locked. */
STET_CHECKED int stet_fs_get_type(struct stet_fs_ctx *ctx, uint64_t ino, uint32_t *ret_mode);
/* Where ".." leads, also of a directory that was removed. -ENOTDIR */
STET_CHECKED int stet_fs_get_parent(struct stet_fs_ctx *ctx, uint64_t dir, uint64_t *ret_ino);
/* Of the attributes only ino, mode, uid and gid: nothing else is read. */
STET_CHECKED int stet_fs_get_owner(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_attr *ret);
#define STET_FS_SET_MODE 0x01u
#define STET_FS_SET_UID 0x02u
#define STET_FS_SET_GID 0x04u
#define STET_FS_SET_SIZE 0x08u
#define STET_FS_SET_ATIME 0x10u
#define STET_FS_SET_MTIME 0x20u
#define STET_FS_SET_CTIME 0x40u
STET_CHECKED int stet_fs_setattr(struct stet_fs_ctx *ctx, uint64_t ino, unsigned set,
				 const struct stet_fs_attr *attr);
/* The inode was read: its atime becomes now if it is old (relatime). Plain; waits for nothing. 1: it
 * did, or with LOOK would; 0: it need not. -EBUSY, -ENOSPC. */
#define STET_FS_ACCESS_ALWAYS 1u /* however old it is */
#define STET_FS_ACCESS_LOOK 2u   /* change nothing */
STET_CHECKED int stet_fs_accessed(struct stet_fs_ctx *ctx, uint64_t ino, unsigned flags);
STET_CHECKED int stet_fs_xattr_get(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
				   void *buf, size_t cap, size_t *ret_len); /* -ENODATA, -ERANGE */
#define STET_FS_XATTR_CREATE 1u
#define STET_FS_XATTR_REPLACE 2u
#define STET_FS_XATTR_KILL_SGID 4u /* an access ACL: clears the set-group-id bit */
/* POSIX ACLs: see xattr.c. -EOPNOTSUPP: of a symbolic link, or a name without namespace; -EACCES: a
 * default ACL of what is no directory. */
STET_CHECKED int stet_fs_xattr_set(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_fs_name name,
				   const void *value, size_t len, unsigned flags);
STET_CHECKED int stet_fs_xattr_remove(struct stet_fs_ctx *ctx, uint64_t ino,
				      struct stet_fs_name name);
/* Names with NUL after each, as listxattr(2). cap 0: only the length. -ERANGE. */
STET_CHECKED int stet_fs_xattr_list(struct stet_fs_ctx *ctx, uint64_t ino, char *buf, size_t cap,
				    size_t *ret_len);

/* --- data --- */
/* Plans a read of [off, off + len): pieces cut at the size, in order, with `out` set into buf.
 * Holes and memory are filled at once (their pieces are left out). *ret_len: bytes to be answered.
 * The pieces are filled with stet_cache_fill without the lock while the view stays pinned (pin:
 * closed by the caller with stet_view_close after filling; NULL when no piece needs the device).
 * Frozen buffers are never among the pieces. cap: room in pieces; a longer read is cut short
 * there. */
STET_CHECKED int stet_fs_read_plan(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, size_t len,
				   uint8_t *buf, struct stet_read_piece *pieces, size_t cap,
				   size_t *ret_pieces, size_t *ret_len, struct stet_view **ret_pin);
/* Writes len bytes; all or nothing for len <= 1 MiB (the API cuts larger ones). -EFBIG, -ENOSPC. */
STET_CHECKED int stet_fs_write(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off,
			       const void *data, size_t len);
/* At the end of the file as it is when ordered; up to 64 KiB per file and transaction stay staged.
 * Appenders share the file's data (DATA IX) and keep writers out. len <= 1 MiB. */
STET_CHECKED int stet_fs_append(struct stet_fs_ctx *ctx, uint64_t ino, const void *data,
				size_t len);
/* Calls fn for each file with data that is not written before the transaction is ordered; non-zero stops and
 * is returned. more: by so much the size grows; changed: bytes below it change, too. */
typedef int stet_fs_staged_fn(void *arg, uint64_t ino, uint64_t more, bool changed);
STET_CHECKED int stet_fs_each_staged(const struct stet_fs_ctx *ctx, stet_fs_staged_fn *fn,
				     void *arg);
STET_CHECKED int stet_fs_truncate(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t size);
/* Takes the locks for any change of the file's data, and of its mode; changes nothing. */
STET_CHECKED int stet_fs_lock_all(struct stet_fs_ctx *ctx, uint64_t ino, bool with_mode);
/* Frees whole blocks in the range, zeroes the edges; the size stays. */
STET_CHECKED int stet_fs_punch(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, uint64_t len);
/* Next data (hole false) or hole at or after off; -ENXIO beyond the end. */
STET_CHECKED int stet_fs_seek(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t off, bool hole,
			      uint64_t *ret_off);

/* --- record tables --- */
/* Their inodes have the type STET_MODE_TABLE; all of these give -EINVAL for another inode, and for a key of 0
 * or more than STET_RECORD_KEY_MAX bytes. */
struct stet_fs_key {
	const void *bytes; /* borrowed for the call */
	size_t len;
};
/* A record as it was found. */
struct stet_fs_record {
	const uint8_t *data; /* its value, in val; NULL: it lies in blocks */
	uint32_t size;       /* of the value */
	uint64_t first;      /* of those blocks */
	struct stet_val val;
};
/* update: it is going to be changed. -ENOENT */
STET_CHECKED int stet_fs_record_get(struct stet_fs_ctx *ctx, uint64_t table,
				    struct stet_fs_key name, bool update,
				    struct stet_fs_record *ret);
/* What is still to be read from the device: as of stet_fs_read_plan. */
struct stet_fs_fill {
	struct stet_read_piece *pieces; /* owned: stet_free; NULL: none */
	size_t count;
	struct stet_view *pin; /* owned: stet_view_close after filling; NULL without pieces */
};
/* Plans the reading of a record, found in the same operation, into its size bytes of buf. */
STET_CHECKED int stet_fs_record_plan(struct stet_fs_ctx *ctx, uint64_t table,
				     const struct stet_fs_record *record, uint8_t *buf,
				     struct stet_fs_fill *ret);
#define STET_FS_RECORD_CREATE 1u  /* -EEXIST when it exists */
#define STET_FS_RECORD_REPLACE 2u /* -ENOENT when it does not */
/* -E2BIG: more than STET_RECORD_SIZE_MAX bytes. */
STET_CHECKED int stet_fs_record_put(struct stet_fs_ctx *ctx, uint64_t table,
				    struct stet_fs_key name, const void *value, size_t len,
				    unsigned flags);
STET_CHECKED int stet_fs_record_del(struct stet_fs_ctx *ctx, uint64_t table,
				    struct stet_fs_key name); /* -ENOENT */
STET_CHECKED int stet_fs_record_count(struct stet_fs_ctx *ctx, uint64_t table, uint64_t *ret);

/* Which records: all but what is said. A key's bytes NULL: no such limit. */
struct stet_fs_limits {
	struct stet_fs_key prefix, from, to;
	bool after_from, with_to;
	bool update; /* see stet_fs_bounds */
};
/* The same as a range of catalog keys. */
struct stet_fs_bounds {
	struct stet_key from, to;
	bool update; /* at LOCKING: what is scanned is locked exclusively */
};
STET_CHECKED int stet_fs_bounds(uint64_t table, const struct stet_fs_limits *limits,
				struct stet_fs_bounds *ret);
/* What is left of the bounds behind a key (reverse: before it). */
void stet_fs_bounds_pass(struct stet_fs_bounds *bounds, uint64_t table, struct stet_fs_key key,
			 bool reverse);
/* What of the bounds is at or behind a key (reverse: at or before it). -EINVAL */
STET_CHECKED int stet_fs_bounds_seek(struct stet_fs_bounds *bounds, uint64_t table,
				     struct stet_fs_key key, bool reverse);
/* Takes a record: go on; enough; or it is not taken, and the step ends before it. < 0: an error. */
#define STET_FS_RECORD_NEXT 0
#define STET_FS_RECORD_LAST 1
#define STET_FS_RECORD_BEFORE 2
typedef int stet_fs_record_fn(void *arg, struct stet_fs_key name,
			      const struct stet_fs_record *record);
/* Calls fn for at most so many records from the beginning (reverse: the end) of what is left, and takes from that
 * what it has passed. 1: there may be more; 0: that was all; STET_WAIT: what fn was given does not count. */
STET_CHECKED int stet_fs_record_scan(struct stet_fs_ctx *ctx, uint64_t table,
				     struct stet_fs_bounds *left, bool reverse, uint32_t most,
				     stet_fs_record_fn *fn, void *arg);

/* --- the inode table: what is open --- */
/* While an inode is held open, reclaim leaves it alone. Table: separate chaining, low bits of the
 * number, load factor <= 0.25 (base/hash.h). */
STET_CHECKED int stet_fs_hold(struct stet_fs *fs, uint64_t ino);
void stet_fs_unhold(struct stet_fs *fs, uint64_t ino);
uint64_t stet_fs_held_count(const struct stet_fs *fs);
/* A step of orphan reclaim: frees a bounded number of extents of one orphan as one plain operation.
 * 1 = did something, 0 = nothing can be reclaimed now, STET_WAIT, < 0. */
STET_CHECKED int stet_fs_reclaim_step(struct stet_fs *fs, struct stet_ticket *ticket);
bool stet_fs_wants_reclaim(const struct stet_fs *fs);

/* --- for the cleaner --- */
/* If block `block` of `ino` now lies at `addr` in the current state, stages the whole extent's part
 * in that segment to be written to a new place, birth and checksums unchanged (plain operation,
 * COLD head). *ret_moved: blocks staged. */
STET_CHECKED int stet_fs_move(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t block,
			      struct stet_addr addr, uint32_t *ret_moved);

#endif
