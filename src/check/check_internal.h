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
	uint64_t found_records;                            /* of a table */
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

/* A value of an attribute of the inode at hand, as far as its parts were seen. */
struct stet_check_value {
	uint64_t id, bytes;
	uint32_t parts;
	bool broken, taken;
};

/* The blocks of a value of the table at hand, as far as its extents were seen. */
struct stet_check_blocks {
	uint64_t number; /* the first of them is that times STET_RECORD_BLOCKS */
	uint32_t blocks;
	bool broken, taken;
};

struct stet_checker {
	struct stet_fs *fs;
	struct stet_engine *engine;
	unsigned flags;
	stet_check_fn *fn;
	void *arg;
	struct stet_check_summary sum;
	uint64_t **map; /* per slot: bitmaps of its blocks, see space.c */
	STET_VEC(struct stet_check_inode) inodes;
	STET_VEC(struct stet_check_name) names;
	STET_VEC(struct stet_check_name) orphans; /* child, type = flags */
	STET_VEC(struct stet_check_value) values;
	STET_VEC(struct stet_check_blocks) blocks;
	uint8_t *data; /* room for one extent */
};

STET_CHECKED int stet_check_report_(struct stet_checker *c, enum stet_problem_id id, uint64_t ino,
				    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
struct stet_check_inode *stet_check_find_(struct stet_checker *c, uint64_t ino);

/* xattr.c: an XATTR item of the inode at hand; and the end of that inode's. */
STET_CHECKED int stet_check_xattr_(struct stet_checker *c, uint64_t ino, const struct stet_key *key,
				   const struct stet_val *val);
STET_CHECKED int stet_check_xattrs_end_(struct stet_checker *c);

/* table.c: an extent of the table at hand; a record; and the end of that inode's. */
STET_CHECKED int stet_check_table_extent_(struct stet_checker *c, uint64_t first, uint32_t blocks);
STET_CHECKED int stet_check_record_(struct stet_checker *c, uint64_t ino,
				    const struct stet_key *key, const struct stet_val *val);
STET_CHECKED int stet_check_records_end_(struct stet_checker *c);

STET_CHECKED int stet_check_space_(struct stet_checker *c); /* space.c */
/* space.c: an extent of the current state; logged: which only the log holds. */
STET_CHECKED int stet_check_extent_(struct stet_checker *c, const struct stet_extent *e,
				    bool logged, uint64_t ino);
STET_CHECKED int stet_check_scan_(struct stet_checker *c);  /* scan.c */
STET_CHECKED int stet_check_names_(struct stet_checker *c); /* names.c */

#endif
