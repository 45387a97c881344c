/* fs_internal.h - what the files of fs/ share: inodes and their intents, per-transaction state,
 * locks. */
#ifndef STET_FS_FS_INTERNAL_H
#define STET_FS_FS_INTERNAL_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/skiplist.h"
#include "base/vec.h"
#include "fs/acl.h"
#include "fs/fs.h"

/* Reads only: the mtime itself, whatever changed it (STET_ATTR_SIZE and _NAMES look at what was
 * changed, STET_ATTR_TIMES at what was set). */
#define STET_ATTR_MTIME_ 0x0100u
/* Of a table: how many records it has, whatever else was changed in it. */
#define STET_ATTR_COUNT_ 0x0200u

/* Space that items take in log and tree, for reservations. */
#define STET_META_INODE_ UINT64_C(136) /* without content */
#define STET_META_DIRENT_(name_len) ((uint64_t)(name_len) + 48u)
#define STET_META_EXTENT_ UINT64_C(336)
#define STET_META_EXTENT_HEAD_ 96u /* an extent without its checksums */
#define STET_META_ORPHAN_ UINT64_C(48)
#define STET_META_RECORD_(key_len, value_len) ((uint64_t)(key_len) + (value_len) + 64u)

#define STET_KEY_HEAD 9u /* object and kind: what names and user keys follow */

/* --- the file system of one open volume --- */
struct stet_fs {
	struct stet_engine *engine; /* set by attach, then constant */
	/* --- under the volume's lock --- */
	struct stet_hash held;         /* inode numbers that are open: struct fs_hold of orphan.c */
	struct stet_hash orphans;      /* known orphans: struct fs_orphan of orphan.c */
	struct stet_list work;         /* of them, those to be looked at */
	struct stet_list parked;       /* of them, those that are open */
	bool scan_done;                /* all orphans of the volume are known */
	uint64_t scan_from;            /* else: next inode number to scan from */
	bool no_reclaim;               /* nothing can be written */
	bool reclaim_stuck;            /* the last step could not go on */
	uint64_t hint_ino, hint_first; /* extent written last: only where to look first */
};

/* --- inode.c --- */
struct fs_inode {
	struct stet_inode i; /* inline_data points into val */
	struct stet_val val;
};

enum {
	STET_SET_MODE_ = 0x01, /* permission bits */
	STET_SET_UID_ = 0x02,
	STET_SET_GID_ = 0x04,
	STET_SET_ATIME_ = 0x08,
	STET_SET_MTIME_ = 0x10,
	STET_SET_CTIME_ = 0x20,
	STET_SET_SIZE_ = 0x40,
	STET_SET_PARENT_ = 0x80,
	STET_SET_INLINE_ = 0x100,  /* the content, all of it, is what follows */
	STET_SET_OUTLINE_ = 0x200, /* the content is in extents */
};

/* What a transaction does to an inode: first what is set, then what is added, then what is touched.
 * In memory only; inline_bytes bytes of content follow. */
struct stet_inode_intent {
	uint32_t set; /* STET_SET_* */
	uint32_t mode, uid, gid;
	uint32_t touch; /* STET_INODE_*_COMMIT: these become those of the commit */
	uint32_t inline_bytes;
	int64_t nlink, entries, subdirs, blocks; /* added */
	int64_t atime_ns, mtime_ns, ctime_ns;
	int64_t touch_ns;  /* what touched times look like until the commit */
	uint64_t size;     /* set */
	uint64_t size_min; /* after that: at least */
	uint64_t parent;
};

#define STET_TOUCH_CHANGE_ STET_INODE_CTIME_COMMIT
#define STET_TOUCH_NAMES_ (STET_INODE_CTIME_COMMIT | STET_INODE_MTIME_COMMIT)
#define STET_TOUCH_DATA_ (STET_TOUCH_NAMES_ | STET_INODE_DATA_COMMIT)

STET_CHECKED int stet_inode_merge_(const struct stet_val *base, const void *intent,
				   size_t intent_bytes, const struct stet_stamp *stamp,
				   struct stet_val *ret);
STET_CHECKED int stet_inode_combine_(struct stet_buf *intent, const void *more, size_t more_bytes);
/* Returns the bytes that the value then has: up to STET_INODE_GROWTH_MAX more. */
size_t stet_inode_resolve_(uint8_t *value, size_t value_bytes, const struct stet_stamp *stamp);
bool stet_inode_same_(uint32_t mask, const struct stet_val *a, const struct stet_val *b);

/* The inode as the transaction sees it; a read for SERIALIZABLE as far as mask goes (0: no read).
 * -ENOENT, -EUCLEAN. */
STET_CHECKED int stet_inode_get_(struct stet_fs_ctx *ctx, uint64_t ino, uint32_t mask,
				 struct fs_inode *ret);
/* As get, of an inode that a name or a parent leads to: its absence is -EUCLEAN. */
STET_CHECKED int stet_inode_must_(struct stet_fs_ctx *ctx, uint64_t ino, uint32_t mask,
				  struct fs_inode *ret);
/* As get, of a directory that lives: -ENOTDIR, -ENOENT. */
STET_CHECKED int stet_inode_dir_(struct stet_fs_ctx *ctx, uint64_t dir, uint32_t mask,
				 struct fs_inode *ret);
/* Starts an intent that touches. */
void stet_intent_init_(struct stet_fs_ctx *ctx, struct stet_inode_intent *intent, uint32_t touch);
/* Stages it. content: intent->inline_bytes of them. */
STET_CHECKED int stet_intent_send_(struct stet_fs_ctx *ctx, uint64_t ino,
				   const struct stet_inode_intent *intent, const uint8_t *content);

/* Takes what changing attributes of these groups (STET_FS_SET_*, not SIZE) needs. */
STET_CHECKED int stet_attr_lock_(struct stet_fs_ctx *ctx, uint64_t ino, unsigned set);

/* --- xattr.c: ACLs --- */
/* What something new gets by its directory's default ACL. */
struct fs_inherited {
	size_t len; /* of both */
	bool is_access, is_default;
	uint8_t access[STET_FS_ACL_BYTES_MAX], acl[STET_FS_ACL_BYTES_MAX];
};
/* Finds that out; what->mode becomes what the inode's will be. Takes locks only. */
STET_CHECKED int stet_acl_inherited_(struct stet_fs_ctx *ctx, uint64_t dir,
				     struct stet_fs_new *what, struct fs_inherited *ret);
/* Space that it takes. */
uint64_t stet_acl_meta_(const struct fs_inherited *inherited);
/* Gives it to the new inode. */
STET_CHECKED int stet_acl_put_(struct stet_fs_ctx *ctx, uint64_t ino,
			       const struct fs_inherited *inherited);

/* --- state.c: what a transaction remembers; nothing at PLAIN --- */
enum stet_claim_kind {
	STET_CLAIM_DIR,      /* the directory lives: a name was added or taken */
	STET_CLAIM_EMPTY,    /* the directory has no names: it was removed */
	STET_CLAIM_GAIN,     /* the inode had a name when it gained another */
	STET_CLAIM_TREE,     /* the directory is not among its ancestors: it was moved */
	STET_CLAIM_ALIVE,    /* the inode has a name: its data, attributes or xattrs changed */
	STET_CLAIM_UNLINKED, /* it may have lost its last name: then its content is unchanged */
	STET_CLAIM_KINDS,
};

struct fs_claim {
	struct stet_hash_node node;
	struct stet_list link; /* in the order of claiming */
	uint64_t ino;
	enum stet_claim_kind kind;
};

/* Sorted, disjoint, not touching ranges of blocks: see ranges.c. */
struct fs_range {
	uint64_t lo, hi;
};
struct fs_chunk {
	STET_VEC(struct fs_range) list;
};
struct fs_ranges {
	STET_VEC(struct fs_chunk) chunks;
	size_t count;
};

/* A file that the transaction changes and did not create: see data.c. */
struct fs_file {
	struct stet_hash_node node;
	struct stet_list link;
	uint64_t ino;
	bool locked;              /* the whole file's data, and it was unchanged then */
	struct fs_ranges mine;    /* blocks whose content (or absence) is the transaction's */
	STET_VEC(uint64_t) rests; /* first blocks of rests of cut extents that were staged */
	struct fs_ranges lazy;    /* of mine: gone, but what was mapped there is not counted yet */
	uint64_t lazy_from;       /* the lowest of it; UINT64_MAX: none */
	struct stet_buf append;   /* staged, to be written at the end when ordered */
	size_t append_held;       /* memory of it, as the transaction was charged */
	bool moved;               /* rests: the cleaner has moved what they name (E5) */
	uint64_t rollbacks;       /* rests: those of the state when they were found (E5) */
	bool keep_mtime;          /* the mtime was set after what was appended, or staged */
	struct stet_skiplist staged; /* LOCKING: be64 offset -> bytes; see staged.c */
	uint64_t staged_bytes;       /* memory of it */
	uint64_t staged_try;         /* with more than this, all of the file is asked for */
};

/* A value of a table that the transaction has freed and others know: see table.c. */
struct fs_freed {
	uint64_t table, first;
};

/* How to undo what a change did to the state (undo.c). */
enum fs_undo_kind {
	STET_UNDO_CLAIM,      /* a: the kind */
	STET_UNDO_FILE,       /* there was none */
	STET_UNDO_MINE,       /* blocks [a, b) */
	STET_UNDO_LAZY,       /* likewise */
	STET_UNDO_RESTS,      /* there were a */
	STET_UNDO_LAZY_FROM,  /* it was a */
	STET_UNDO_APPENDED,   /* there were a bytes */
	STET_UNDO_SETTLED,    /* there were b bytes */
	STET_UNDO_KEEP_MTIME, /* it was a */
	STET_UNDO_STAGED,     /* what lay in some bytes of the file: bytes, b of them (staged.c) */
	STET_UNDO_FREED,      /* there were a */
};
struct fs_undo {
	enum fs_undo_kind kind;
	uint64_t ino;
	union {
		uint64_t a;
		uint8_t *bytes; /* SETTLED, STAGED: owned */
	};
	uint64_t b;
};

struct fs_state {
	bool ordering;
	STET_VEC(struct fs_undo) undo; /* since the oldest savepoint */
	STET_VEC(struct fs_freed) freed;
	struct stet_txn *txn;     /* whose it is */
	struct fs_ranges created; /* inode numbers */
	struct stet_hash claims;
	struct stet_list claim_list;
	struct stet_hash files;
	struct stet_list file_list;
	uint64_t rollbacks; /* to savepoints */
};

/* The state, or NULL (none yet, or PLAIN). */
struct fs_state *stet_state_(const struct stet_fs_ctx *ctx);
STET_CHECKED int stet_state_created_(struct stet_fs_ctx *ctx, uint64_t ino); /* notes it */
bool stet_state_is_created_(const struct stet_fs_ctx *ctx, uint64_t ino);
/* Once per (ino, kind). Nothing at PLAIN, nor (but UNLINKED) for what the transaction created. */
STET_CHECKED int stet_state_claim_(struct stet_fs_ctx *ctx, uint64_t ino,
				   enum stet_claim_kind kind);
bool stet_state_claimed_(const struct stet_fs_ctx *ctx, uint64_t ino, enum stet_claim_kind kind);
struct fs_file *stet_state_find_file_(const struct stet_fs_ctx *ctx, uint64_t ino);
/* Finds or makes. */
STET_CHECKED int stet_state_file_(struct stet_fs_ctx *ctx, uint64_t ino, struct fs_file **ret);
STET_CHECKED int stet_state_freed_(struct stet_fs_ctx *ctx, uint64_t table, uint64_t first);
/* Drops all that is remembered of an inode. */
STET_CHECKED int stet_state_forget_(struct stet_fs_ctx *ctx, uint64_t ino);
/* Changes go straight to the state that they are merged with: PLAIN, ordering, own inodes. */
bool stet_state_direct_(const struct stet_fs_ctx *ctx, uint64_t ino);

/* For undo.c. */
struct fs_file *stet_state_file_of_(struct fs_state *state, uint64_t ino);
void stet_state_drop_file_(struct stet_fs_ctx *ctx, struct fs_state *state, struct fs_file *file);
void stet_state_drop_claim_(struct fs_state *state, uint64_t ino, enum stet_claim_kind kind);

/* --- undo.c: before the state is changed --- */
bool stet_undo_wanted_(const struct stet_fs_ctx *ctx); /* there is a savepoint */
/* Takes undo->bytes. Nothing without a savepoint. */
STET_CHECKED int stet_undo_note_(struct stet_fs_ctx *ctx, const struct fs_undo *undo);
/* MINE, LAZY: what of [lo, hi) is not in it yet. */
STET_CHECKED int stet_undo_note_ranges_(struct stet_fs_ctx *ctx, enum fs_undo_kind kind,
					const struct fs_file *file, uint64_t lo, uint64_t hi);
/* What is appended is about to be settled. */
STET_CHECKED int stet_undo_note_append_(struct stet_fs_ctx *ctx, const struct fs_file *file);
void stet_undo_clear_(struct fs_state *state);
/* Of stet_txn_user_ops. */
void stet_undo_mark_(void *user, uint64_t mark[STET_TXN_MARKS]);
STET_CHECKED int stet_undo_roll_back_(void *user, const uint64_t mark[STET_TXN_MARKS]);
void stet_undo_released_(void *user, const uint64_t first[STET_TXN_MARKS],
			 const uint64_t top[STET_TXN_MARKS]);

/* --- ranges.c --- */
void stet_ranges_release_(struct fs_ranges *r);
STET_CHECKED int stet_ranges_add_(struct fs_ranges *r, uint64_t lo, uint64_t hi);
/* Takes out [lo, hi), which lies in one range. -ENOMEM: the range now ends at lo. */
STET_CHECKED int stet_ranges_take_(struct fs_ranges *r, uint64_t lo, uint64_t hi);
bool stet_ranges_has_(const struct fs_ranges *r, uint64_t at);
/* The first part of [*at, end) outside the ranges: false = none. *at becomes its end. */
bool stet_ranges_gap_(const struct fs_ranges *r, uint64_t *at, uint64_t end, uint64_t *ret_lo);
/* The first range that ends behind `at`: false = none. */
bool stet_ranges_next_(const struct fs_ranges *r, uint64_t at, struct fs_range *ret);

/* --- locks (state.c) --- */
STET_CHECKED int stet_fs_lock_(struct stet_fs_ctx *ctx, enum stet_lock_class class, uint64_t object,
			       uint64_t sub, enum stet_lock_mode mode);
/* As lock, for a reader: only at LOCKING. */
STET_CHECKED int stet_fs_read_lock_(struct stet_fs_ctx *ctx, enum stet_lock_class class,
				    uint64_t object, uint64_t sub, enum stet_lock_mode mode);
/* A change to the inode is about to come: it must stay. */
STET_CHECKED int stet_fs_exists_lock_(struct stet_fs_ctx *ctx, uint64_t ino);
/* The inode, which is no directory, is about to gain a name, or lose one. */
STET_CHECKED int stet_fs_names_lock_(struct stet_fs_ctx *ctx, uint64_t ino, bool leaves);
/* At LOCKING: nothing of the inode changes (what stat shows). */
STET_CHECKED int stet_fs_still_lock_(struct stet_fs_ctx *ctx, uint64_t ino);
/* -EROFS for read-only transactions; whatever the transaction was doomed with. */
STET_CHECKED int stet_fs_writable_(const struct stet_fs_ctx *ctx);

/* --- table.c --- */
/* As stet_inode_get_, of a table: -EINVAL. */
STET_CHECKED int stet_table_get_(struct stet_fs_ctx *ctx, uint64_t table, uint32_t mask,
				 struct fs_inode *ret);
/* Locks a record, S or X; and, at LOCKING only, all records there are or may be in [from, to), S. */
STET_CHECKED int stet_record_lock_(struct stet_fs_ctx *ctx, uint64_t table,
				   const struct stet_key *key, enum stet_lock_mode mode);
STET_CHECKED int stet_record_range_lock_(struct stet_fs_ctx *ctx, uint64_t table,
					 const struct stet_key *from, const struct stet_key *to,
					 enum stet_lock_mode mode);
/* From val to the rest, which borrows from val. */
STET_CHECKED int stet_record_decode_(struct stet_fs_ctx *ctx, const struct stet_val *val,
				     struct stet_fs_record *ret);
/* At ordering: what is left of a value that was freed goes. */
STET_CHECKED int stet_table_settle_(struct stet_fs_ctx *ctx, const struct fs_freed *freed);

/* --- names.c --- */
/* What changing one name takes: locks, and that the name and the directory are as the view says. */
STET_CHECKED int stet_name_lock_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name);
/* -ENOENT (empty), -ENAMETOOLONG, -EINVAL ('/' or NUL in it). */
STET_CHECKED int stet_name_check_(struct stet_fs_name name);
bool stet_name_is_dots_(struct stet_fs_name name); /* "." or ".." */
/* The name as the transaction sees it, a read for SERIALIZABLE. -ENOENT, -EUCLEAN. */
STET_CHECKED int stet_dirent_get_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
				  struct stet_dirent *ret);
/* What an operation that is about to change the name finds there: ino 0 = nothing. */
STET_CHECKED int stet_name_find_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
				 struct stet_dirent *ret);
STET_CHECKED int stet_dirent_put_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name,
				  uint64_t ino, uint8_t type);
STET_CHECKED int stet_dirent_del_(struct stet_fs_ctx *ctx, uint64_t dir, struct stet_fs_name name);
/* The directory gains (loses) names and subdirectories; it is claimed to live. */
STET_CHECKED int stet_dir_count_(struct stet_fs_ctx *ctx, uint64_t dir, int names, int subdirs);
/* 0, or -ENOTEMPTY. */
STET_CHECKED int stet_dir_empty_(struct stet_fs_ctx *ctx, uint64_t dir);
/* Whether `dir` lies at or below `below`. -EUCLEAN: the chain does not end at the root. */
STET_CHECKED int stet_dir_is_below_(struct stet_fs_ctx *ctx, uint64_t dir, uint64_t below,
				    bool *ret);

/* --- unlink.c --- */
/* What taking a name from an inode takes: locks; of a directory, that it is empty. */
STET_CHECKED int stet_victim_lock_(struct stet_fs_ctx *ctx, const struct stet_dirent *victim,
				   uint32_t *ret_inline_bytes);
/* The inode has lost a name. */
STET_CHECKED int stet_victim_drop_(struct stet_fs_ctx *ctx, const struct stet_dirent *victim);

/* --- extents (extent.c) --- */
struct fs_extent {
	uint64_t first;
	uint16_t count;
	uint64_t birth;       /* 0: of this transaction */
	struct stet_extent e; /* when val.buf is NULL; crcs point into val */
	struct stet_val val;
};

/* A walk over the mapped blocks of [lo, hi), in order, none twice. */
struct fs_walk {
	struct stet_fs_ctx *ctx;
	uint64_t ino;
	struct stet_scan *scan;     /* opened when it is needed */
	bool ready;                 /* x is the next extent */
	const struct fs_file *file; /* NULL: direct */
	uint32_t seg_blocks;
	uint64_t at, hi;
	struct fs_extent x; /* the extent of the current piece */
};
struct fs_piece {
	uint64_t first;
	uint16_t count;
	uint16_t shift; /* from the extent's first block */
};
STET_CHECKED int stet_walk_open_(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t lo, uint64_t hi,
				 struct fs_walk *ret);
STET_CHECKED int stet_walk_next_(struct fs_walk *w, struct fs_piece *ret); /* 1, 0 = end */
void stet_walk_close_(struct fs_walk *w);
STET_CHECKED int stet_extent_load_(const struct stet_key *key, uint32_t seg_blocks,
				   struct fs_extent *x); /* from x->val */
/* The blocks of [lo, hi) are mapped no longer. *ret_removed: how many were. In a file that is not
 * direct they become the transaction's. */
STET_CHECKED int stet_extent_cut_(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t lo, uint64_t hi,
				  uint64_t *ret_removed);
/* How many extents have blocks in [lo, hi), counting no further than `most`. */
STET_CHECKED int stet_extent_count_(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t lo, uint64_t hi,
				    uint32_t most, uint32_t *ret);
/* Copies block `shift` of an extent, verified. -EIO. */
STET_CHECKED int stet_extent_read_(struct stet_fs_ctx *ctx, const struct fs_extent *x,
				   uint16_t shift, uint8_t *out);
uint16_t stet_extent_max_(const struct stet_fs_ctx *ctx);
/* As cut, of all from lo on (where no extent is cut in two) and without looking: they are counted,
 * and freed, when the transaction is ordered. */
STET_CHECKED int stet_extent_drop_later_(struct stet_fs_ctx *ctx, struct fs_file *file,
					 uint64_t lo);
/* At ordering: makes what was staged for the file fit the current state. lazily: what was dropped
 * for later is left to reclaim; else *ret_removed is how many blocks were mapped there. */
STET_CHECKED int stet_extent_rebase_(struct stet_fs_ctx *ctx, struct fs_file *file, bool lazily,
				     uint64_t *ret_removed);

/* --- data.c, write.c, append.c --- */
#define STET_WRITE_MAX_ (1u << 20)
#define STET_TRUNCATE_DIRECT_ 256u /* extents that one operation frees itself */

/* A file whose data is about to change. */
struct fs_data {
	struct stet_fs_ctx *ctx;
	uint64_t ino;
	struct fs_inode in;
	struct fs_file *file;  /* NULL: direct */
	uint64_t pending_from; /* an earlier truncation has yet to free blocks from here on */
	bool more_follows;     /* the operation may still fail after a write (W3 of write.c) */
};
/* Reads the inode. -EISDIR, -EINVAL (no regular file), -EROFS. */
STET_CHECKED int stet_data_begin_(struct stet_fs_ctx *ctx, uint64_t ino, struct fs_data *d);
/* Locks bytes [lo, hi) for changing; the whole file unless at LOCKING and PLAIN, and if an append is
 * staged. */
STET_CHECKED int stet_data_lock_(struct fs_data *d, uint64_t lo, uint64_t hi,
				 enum stet_lock_mode mode);
/* Looks for an earlier truncation that is not done: before the file grows or is cut. With many
 * extents left, a PLAIN transaction waits for reclaim: STET_WAIT. */
STET_CHECKED int stet_data_pending_(struct fs_data *d);
/* Frees blocks from `from` on; many are only marked, for reclaim or for ordering. *ret_removed:
 * blocks. */
STET_CHECKED int stet_data_free_from_(struct fs_data *d, uint64_t from, uint64_t *ret_removed);
/* Changes begin: frees what is pending. *ret_removed: blocks. */
STET_CHECKED int stet_data_finish_pending_(struct fs_data *d, uint64_t *ret_removed);
/* Promises space for writing len bytes at once, up to the file offset end. */
STET_CHECKED int stet_data_reserve_(struct fs_data *d, uint64_t end, uint64_t len, bool privileged);
/* The change itself; what can fail for what is there (-EIO) fails before anything is changed. Reads
 * the inode anew. */
STET_CHECKED int stet_data_write_(struct fs_data *d, uint64_t off, const uint8_t *data, size_t len);
/* Plans a read of size bytes from block `first` on, all of which must be mapped: else -EUCLEAN. */
STET_CHECKED int stet_data_plan_whole_(struct stet_fs_ctx *ctx, uint64_t ino, uint64_t first,
				       uint32_t size, uint8_t *buf, struct stet_fs_fill *ret);
/* Stages what happened to the inode, and the claim. */
STET_CHECKED int stet_data_send_(struct fs_data *d, struct stet_inode_intent *intent,
				 const uint8_t *content);
/* Copies a block as the transaction sees it, without what is staged. */
STET_CHECKED int stet_data_block_(struct fs_data *d, uint64_t block, uint8_t *out);
/* Writes what is staged, after the whole file was locked. */
STET_CHECKED int stet_data_settle_(struct fs_data *d);
/* What is staged; borrowed until the transaction's next change of the file. */
/* The transaction is charged with the memory of what is staged. */
void stet_append_account_(struct stet_fs_ctx *ctx, struct fs_file *file);
void stet_append_clear_(struct stet_fs_ctx *ctx, struct fs_file *file);
size_t stet_append_staged_(const struct stet_fs_ctx *ctx, uint64_t ino, const uint8_t **ret);

/* --- staged.c: bytes written at LOCKING --- */
void stet_staged_init_(struct stet_fs_ctx *ctx, struct fs_file *file);
void stet_staged_release_(struct fs_file *file);
void stet_staged_clear_(struct stet_fs_ctx *ctx, struct fs_file *file);
/* For undo.c: whether the one note makes the other one needless; to undo one. */
bool stet_staged_covers_(const struct fs_undo *last, const struct fs_undo *next);
STET_CHECKED int stet_staged_undo_(struct stet_fs_ctx *ctx, struct fs_file *file,
				   const struct fs_undo *undo);
/* Whether a write is to be staged (B1): the file is not locked as a whole, and need not be. */
bool stet_staged_wanted_(const struct fs_data *d);
/* The write: locks, reserves, stages. */
STET_CHECKED int stet_staged_write_(struct fs_data *d, uint64_t off, const uint8_t *data,
				    size_t len);
/* Writes what is staged to the file as the transaction sees it. */
STET_CHECKED int stet_staged_settle_(struct fs_data *d);
/* The first staged bytes within [at, end), borrowed until the next change; false: none. file may be NULL. */
bool stet_staged_next_(const struct fs_file *file, uint64_t at, uint64_t end, uint64_t *ret_lo,
		       uint64_t *ret_hi, const uint8_t **ret_bytes);
/* Where the last of them ends; 0: there are none. */
uint64_t stet_staged_end_(const struct stet_fs_ctx *ctx, uint64_t ino);
/* What ordering will make of them, at most. */
void stet_staged_need_(const struct fs_file *file, uint64_t *ret_blocks, uint64_t *ret_bytes);

static inline uint64_t stet_blocks_(uint64_t bytes)
{
	return (bytes >> STET_BLOCK_SHIFT) + ((bytes & (STET_BLOCK_SIZE - 1)) != 0);
}

/* --- orphan.c --- */
/* Whether the inode may be an orphan now. */
bool stet_orphan_maybe_(struct stet_fs *fs, uint64_t ino);
/* An orphan was made: reclaim looks at it. */
void stet_orphan_note_(struct stet_fs *fs, uint64_t ino);
/* Stages the ORPHAN key. -ENOENT */
STET_CHECKED int stet_orphan_get_(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_orphan *ret);
STET_CHECKED int stet_orphan_mark_(struct stet_fs_ctx *ctx, uint64_t ino, uint8_t flags,
				   uint64_t from_block);
STET_CHECKED int stet_orphan_unmark_(struct stet_fs_ctx *ctx, uint64_t ino, uint8_t flags);
/* Queues the ticket until reclaim has finished with the inode. */
STET_CHECKED int stet_orphan_wait_(struct stet_fs *fs, uint64_t ino, struct stet_ticket *ticket);
/* The inode may have lost its last name: if so it goes, or becomes an orphan. At PLAIN and at ordering. */
STET_CHECKED int stet_orphan_let_go_(struct stet_fs_ctx *ctx, uint64_t ino);
void stet_orphan_init_(struct stet_fs *fs);
void stet_orphan_release_(struct stet_fs *fs);

/* --- structure.c --- */
STET_CHECKED int stet_fs_order_(void *arg, struct stet_txn *txn, const struct stet_stamp *stamp);
bool stet_fs_reclaims_(void *arg); /* the hook of engine.h */
void stet_fs_staged_(void *arg, struct stet_txn *txn, uint64_t *ret_blocks, uint64_t *ret_bytes);

#endif
