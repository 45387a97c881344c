/* check_internal.h - what the passes of a check share. */
#ifndef STET_CHECK_CHECK_INTERNAL_H
#define STET_CHECK_CHECK_INTERNAL_H

#include "base/vec.h"
#include "check/check.h"

/* What the scan found of one inode; in rising order of number. */
struct stet_check_inode {
	uint64_t ino, size, parent, blocks, subdirs;
	uint64_t found_names, found_subdirs, found_blocks; /* in it */
	uint64_t found_links;                              /* names that lead to it */
	uint64_t last_end; /* first block behind the last extent seen */
	uint64_t extents;
	uint64_t beyond; /* an extent's end beyond the size, 0 = none */
	uint32_t mode, nlink;
	bool has_inline, orphan, truncating;
	enum { UNKNOWN, ON_PATH, REACHED, LOST } reach;
};

struct stet_check_name {
	uint64_t child, dir;
	uint8_t type;
};

struct stet_checker {
	struct stet_fs *fs;
	struct stet_engine *engine;
	unsigned flags;
	stet_check_fn *fn;
	void *arg;
	struct stet_check_summary sum;
	uint64_t **map; /* per slot: blocks that the root needs */
	STET_VEC(struct stet_check_inode) inodes;
	STET_VEC(struct stet_check_name) names;
	STET_VEC(struct stet_check_name) orphans; /* child, type = flags */
	uint8_t *data;                            /* room for one extent */
};

STET_CHECKED int stet_check_report_(struct stet_checker *c, enum stet_problem_id id, uint64_t ino,
				    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
struct stet_check_inode *stet_check_find_(struct stet_checker *c, uint64_t ino);

STET_CHECKED int stet_check_space_(struct stet_checker *c); /* space.c */
STET_CHECKED int stet_check_scan_(struct stet_checker *c);  /* scan.c */
STET_CHECKED int stet_check_names_(struct stet_checker *c); /* names.c */

#endif
