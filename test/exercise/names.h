/* names.h - what the parts of the namespace exerciser share: random operations on names
 * (name_ops.c), and a description of a whole tree (walk.c).
 */
#ifndef STET_EXERCISE_NAMES_H
#define STET_EXERCISE_NAMES_H

#include "exercise.h"

/// Operations ///

#define NAME_OPS(O) \
	O(create)   \
	O(open)     \
	O(write)    \
	O(truncate) \
	O(mkdir)    \
	O(mknod)    \
	O(symlink)  \
	O(link)     \
	O(unlink)   \
	O(rmdir)    \
	O(rename)   \
	O(chmod)    \
	O(setxattr) \
	O(rmxattr)  \
	O(stat)     \
	O(readdir)

enum name_op {
#define O(name) NAME_OP_##name,
	NAME_OPS(O)
#undef O
		NAME_OP_COUNT,
};

extern const char *const name_op_names[NAME_OP_COUNT];

#define ERRNO_MAX 134

/* How often each ended how. */
struct name_tally {
	_Atomic uint64_t count[NAME_OP_COUNT][ERRNO_MAX];
};

struct name_worker {
	struct ex_chance chance;
	char root[PATH_MAX];
	bool in_txn; /* what a transaction may get besides, is allowed */
	bool doomed; /* it met a conflict: whatever it does may fail with EBUSY */
	struct name_tally *tally;
};

/* One operation; fails for an errno value that it may not give. */
void name_step(struct name_worker *w);

/// The tree ///

#define SECTOR 512u

/* A sector that says by itself whether it is whole. */
void sector_make(void *sector, uint64_t seed);
bool sector_is_whole(const void *sector);

/* Describes all that there is below root, a line for each name, sorted. Fails where link counts
 * are wrong or a sector of a file is not whole. The caller frees it. */
char *walk_tree(const char *root, size_t *ret_names);
/* Says where two descriptions differ and fails. */
void compare_trees(const char *a, const char *b, const char *when);

#endif
