/* facts.h - what stat tells, checked and compared with what it told before.
 *
 * A check is a word FIELD OP VALUE, OP one of = ! < >. FIELD: type mode nlink uid gid size blocks ino dev
 * rdev atime mtime ctime btime. VALUE: a number (mode: octal), a time (SECONDS or SECONDS.NANOSECONDS), `now`
 * (within a minute), a letter (the same field as noted there), another field's name, or a type (reg dir
 * lnk fifo sock chr blk).
 */
#ifndef FACTS_H
#define FACTS_H

#include "script.h"

struct statx;

enum fact {
	FACT_TYPE,
	FACT_MODE,
	FACT_NLINK,
	FACT_UID,
	FACT_GID,
	FACT_SIZE,
	FACT_BLOCKS,
	FACT_INO,
	FACT_DEV,
	FACT_RDEV,
	FACT_ATIME,
	FACT_MTIME,
	FACT_CTIME,
	FACT_BTIME, /* of creation; 0: not told */
	FACTS,
};

struct facts {
	int64_t value[FACTS]; /* times in nanoseconds */
};

void facts_of_statx(const struct statx *st, struct facts *ret);

/* All words from `first` on must hold; ret is a failure that says which does not. */
void facts_check(struct call *call, size_t first, const struct facts *facts, struct result *ret);

/* Notes 'A' .. 'Z'. */
void facts_note(struct call *call, char letter, const struct facts *facts);

/* SECONDS[.NANOSECONDS] */
bool facts_parse_time(const char *text, int64_t *ret_ns);

#endif
