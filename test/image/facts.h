/* facts.h - what is known of a volume: in which of its states which question has which answer.
 *
 * A state is what was visible at the end of a flush. A fact is a question (of which inode, which entry, which
 * block) with an answer, both as numbers, and the set of states in which it holds.
 */
#ifndef TEST_IMAGE_FACTS_H
#define TEST_IMAGE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACTS_STATES_MAX 64u

enum question {
	ASK_ATTR,   /* ino: attributes */
	ASK_LIST,   /* ino: all names of a directory */
	ASK_NAME,   /* ino, name: the inode it leads to */
	ASK_TARGET, /* ino: where a link leads */
	ASK_BLOCK,  /* ino, block: content */
	ASK_XATTRS, /* ino: all names of attributes */
	ASK_XATTR,  /* ino, name: value */
	ASK_KEYS,   /* ino: all keys of a table, and how many */
	ASK_RECORD, /* ino, key: value */
};

struct facts;

struct facts *facts_create(void);
void facts_destroy(struct facts *f);
/** The answer holds in the state. */
void facts_learn(struct facts *f, unsigned state, enum question q, uint64_t ino, uint64_t sub,
		 uint64_t answer);
/** The states in which it does. */
uint64_t facts_states(const struct facts *f, enum question q, uint64_t ino, uint64_t sub,
		      uint64_t answer);
size_t facts_count(const struct facts *f);

/** Any bytes as a number. */
uint64_t facts_hash(const void *bytes, size_t len);

#endif
