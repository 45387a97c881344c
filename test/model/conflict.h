/* conflict.h - which operations may be refused because of which others.
 *
 * A facet is a part of an inode that an operation depends on or changes. Two operations of different
 * transactions may be told apart by -EBUSY only if they have facets that conflict: so the oracle
 * accepts no refusal without a cause, and lets the real system choose where there is one.
 */
#ifndef TEST_MODEL_CONFLICT_H
#define TEST_MODEL_CONFLICT_H

#include "model.h"

#include "txn/txn.h"

#define FACETS_MAX 16

enum facet_kind {
	FACET_EXISTS,
	FACET_NAME, /* ino: the directory; sub: hash of the name */
	FACET_DIR,  /* all names of it */
	FACET_DATA,
	FACET_MODE,
	FACET_TIMES,
	FACET_NLINK,
	FACET_PARENT,
	FACET_XATTR,   /* sub: hash of the name */
	FACET_RECORD,  /* sub: hash of the key */
	FACET_RECORDS, /* all of them */
	FACET_ANY,     /* everything of the inode */
	FACET_TREE,    /* ino 0: which directory is below which */
};
enum facet_mode {
	FACET_READ,
	FACET_SHARE, /* must stay */
	FACET_ADD,   /* changes that commute with each other */
	FACET_WRITE,
};

struct facet {
	uint64_t ino, sub;
	uint8_t kind, mode;
};

/** The facets of an operation in a state (before it is done); how many. big_append: an append that needs
 * the file for itself. */
size_t facets_of(const struct model *m, enum stet_level level, const struct model_op *op,
		 bool big_append, struct facet ret[FACETS_MAX]);
bool facets_conflict(const struct facet *a, size_t a_count, const struct facet *b, size_t b_count);
bool facet_list_has(const struct facet *list, size_t count, uint64_t ino, enum facet_kind kind,
		    enum facet_mode mode);

#endif
