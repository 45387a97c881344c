/* conformance.h - a table of calls and what they must give, run on several file systems.
 *
 * A row is a set-up, one call, what the call must give, and checks afterwards. All are statements of
 * a small language (script.h) whose words perform real system calls, or calls of the library, in a
 * directory that is the row's own. So each row can be run alone.
 *
 * What a row wants is what the standard and the manual pages say; ext4 proves it. Where a target must
 * differ, the row says on which, what it gives there instead, and why (reasons.h).
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where rows are run. */
enum target {
	MOUNT = 1,   /* the main tree of a mounted volume */
	VIEW = 2,    /* the tree of a transaction of that mount */
	LIBRARY = 4, /* libstetfs, without a mount */
	EXT4 = 8,    /* the proof of what is wanted */
	TMPFS = 16,  /* the proof of what ext4 cannot do */
	FUSE = MOUNT | VIEW,
	STETFS = FUSE | LIBRARY,
	KERNEL = EXT4 | TMPFS,
};

enum reason {
	NO_REASON,
#define REASON(name, text) name,
#include "reasons.h"
#undef REASON
	REASONS
};

/* On these targets the call gives `want` instead (NULL: the row is left out), for this reason; then
 * the checks of `after` are made instead of the row's. */
struct difference {
	unsigned targets;
	const char *want;
	enum reason reason;
	const char *after;
};

#define DIFFERENCES_MAX 3

struct row {
	const char *name;  /* AREA/WHAT */
	const char *setup; /* each statement must succeed, or give what stands behind its => */
	const char *call;  /* one statement */
	const char *want;  /* what it gives */
	const char *after; /* as setup */
	struct difference differences[DIFFERENCES_MAX];
};

/* Differences, as the last part of a row: ON(FUSE, "EOPNOTSUPP", NO_COLLAPSE), or BOTH(ONE(...), ONE(...)). */
/* clang-format off */
#define ONE(...) { __VA_ARGS__ }
#define ON(...) { ONE(__VA_ARGS__) }
#define BOTH(one, other) { one, other }
/* clang-format on */

/* Rows that are computed: next() fills in *ret (whose strings it owns until its next call) for n = 0, 1
 * ... and returns false when there are no more. */
typedef bool next_row_fn(size_t n, struct row *ret);

struct table {
	const char *name;
	const struct row *rows;
	size_t count;
	next_row_fn *next; /* in addition to rows; may be NULL */
	bool is_read_only; /* the call is made after the file system was made read-only */
};

extern const struct table *const tables[]; /* ends with NULL */

/* Text that lives as long as the program: for rows that are computed. */
__attribute__((format(printf, 1, 2))) const char *text_of(const char *format, ...);
/* Keeps memory of malloc as that. */
const char *text_kept(char *text);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
