/* isolation.h - the things that commits change and readers look at (objects.c).
 *
 * A version is the number of a commit. Which objects commit number v changes is decided by the
 * seed alone, so everybody can tell which version of an object belongs to the state after commit
 * v; version 0 is what was made before the first.
 */
#ifndef STET_EXERCISE_ISOLATION_H
#define STET_EXERCISE_ISOLATION_H

#include "exercise.h"

enum object_kind {
	OBJECT_WRITTEN,   /* a file, overwritten in place */
	OBJECT_TRUNCATED, /* the same, emptied before */
	OBJECT_LINKED,    /* the same, with two names */
	OBJECT_REPLACED,  /* a file, replaced by rename */
	OBJECT_LOG,       /* a file that grows by a record */
	OBJECT_XATTR,     /* a file with an extended attribute, and a mode */
	OBJECT_SYMLINK,   /* replaced by rename */
	OBJECT_SWAPPED,   /* a file in one of two directories that change places */
	OBJECT_SET,       /* a directory whose names are all others each time */
	OBJECT_BIG_SET,   /* the same, with more names than one listing holds; rarely changed */
};

#define OBJECTS 14u

struct object {
	const char *name;
	enum object_kind kind;
	unsigned one_in; /* it is changed by one commit in so many */
};

extern const struct object objects[OBJECTS];

#define CONTENT_MAX (80u * EX_KIB)
#define RECORD 32u /* bytes of a record of the log */

void objects_init(uint64_t seed);
bool changes_at(unsigned object, uint64_t version);
/* The version of the object in the state after commit `version`. */
uint64_t version_in(unsigned object, uint64_t version);
/* The first commit after `version` that changes it; `limit` if none before that. */
uint64_t next_change(unsigned object, uint64_t version, uint64_t limit);

/* Makes version `version` of the object below root. */
void object_make(const char *root, unsigned object, uint64_t version);

/* A file's content in a version, in a buffer of CONTENT_MAX; its size. */
size_t content_of(unsigned object, uint64_t version, uint8_t *ret);
size_t size_of(unsigned object, uint64_t version);
/* The version of a content, which is whole; else fails, with `how`. */
uint64_t content_version(unsigned object, const uint8_t *content, size_t size, const char *how);

/* Looks at it below root, as a system's calls show it; its version, of all that was seen of it.
 * Fails if it is not whole, or not there. */
uint64_t object_look(const char *root, unsigned object, struct ex_chance *chance);
/* The same in parts, with pauses in between. */
uint64_t object_look_slowly(const char *root, unsigned object, struct ex_chance *chance);
/* The same from a directory that was opened before. */
uint64_t object_look_at(int dir, unsigned object);

#endif
