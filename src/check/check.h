/* check.h - everything that must hold of a volume, looked at from outside.
 *
 * Works on an engine that was opened (read-only, so that nothing is written). Problems are reported one by
 * one; the check goes on behind each of them. Memory: about 100 bytes an inode and 24 bytes a name.
 */
#ifndef STET_CHECK_CHECK_H
#define STET_CHECK_CHECK_H

#include "base/error.h"
#include "fs/fs.h"
#include "txn/engine.h"

/* What may be found: P(name, text). The names are stable. */
#define STET_CHECK_PROBLEMS(P)                                                         \
	P(NODE_UNREADABLE, "a tree node cannot be read right from any copy")           \
	P(NODE_COPY, "one copy of a tree node is bad")                                 \
	P(BLOCK_TWICE, "a block belongs to two owners")                                \
	P(BLOCK_OUTSIDE, "an address leads outside the segments")                      \
	P(LIVE_MISSING, "a block in use is not marked as live in the segment table")   \
	P(LIVE_EXTRA, "a block marked as live in the segment table belongs to nobody") \
	P(ITEM_BAD, "a catalog item is malformed")                                     \
	P(DATA_UNREADABLE, "file data cannot be read right from any copy")             \
	P(XATTR_VALUE, "an attribute's value is not whole")                            \
	P(XATTR_LEFTOVER, "a part of an attribute's value belongs to nobody")          \
	P(ACL_BAD, "an attribute that is named as an ACL is none")                     \
	P(DATA_COPY, "one copy of file data is bad")                                   \
	P(NO_INODE, "content or attributes without an inode")                          \
	P(ROOT_BAD, "the root directory is missing or not a directory")                \
	P(NAME_DANGLING, "a name leads to an inode that does not exist")               \
	P(NAME_TYPE, "a name says another type than its inode")                        \
	P(NAME_NOT_DIR, "names in an inode that is not a directory")                   \
	P(LINK_COUNT, "the link count is not the number of names")                     \
	P(ORPHAN_MISSING, "an inode without names is not on the orphan list")          \
	P(ORPHAN_WRONG, "an orphan entry for an inode that has names or is missing")   \
	P(DIR_PARENT, "a directory's parent is not the one that names it")             \
	P(DIR_SIZE, "a directory's entry count is wrong")                              \
	P(DIR_SUBDIRS, "a directory's count of subdirectories is wrong")               \
	P(UNREACHABLE, "no path from the root leads here")                             \
	P(EXTENT_OVERLAP, "two extents of a file overlap")                             \
	P(EXTENT_BEYOND, "an extent lies beyond the end of its file")                  \
	P(EXTENT_INLINE, "a file with inline content has extents")                     \
	P(BLOCK_COUNT, "the inode's count of blocks is wrong")                         \
	P(RECORD_NOT_TABLE, "a record in an inode that is not a table")                \
	P(RECORD_VALUE, "a record's value is not whole")                               \
	P(RECORD_LEFTOVER, "blocks of a table belong to no record")                    \
	P(TABLE_COUNT, "a table's count of records is wrong")

#define STET_CHECK_ENUM_(name, text) STET_PROBLEM_##name,
enum stet_problem_id { STET_CHECK_PROBLEMS(STET_CHECK_ENUM_) STET_PROBLEM_COUNT };
#undef STET_CHECK_ENUM_

const char *stet_check_name(enum stet_problem_id id); /* "LINK_COUNT" */
const char *stet_check_text(enum stet_problem_id id);

/* ino 0: none. detail: what exactly, for people; valid during the call. Non-zero stops the check. */
typedef int stet_check_fn(void *arg, enum stet_problem_id id, uint64_t ino, const char *detail);

#define STET_CHECK_SKIP_DATA 0x1u /* file content is not read */

struct stet_check_summary {
	uint64_t inodes, directories, names, extents, data_blocks, nodes, orphans, problems;
	uint64_t records; /* of tables */
};

/* 0, whatever was reported; what fn returned to stop; -ENOMEM; -EIO: the tree's root cannot be read. */
STET_CHECKED int stet_check_volume(struct stet_fs *fs, struct stet_engine *engine, unsigned flags,
				   stet_check_fn *fn, void *arg, struct stet_check_summary *ret);

#endif
