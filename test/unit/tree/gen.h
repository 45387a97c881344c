/* gen.h - keys and batches for the tree's tests. */
#ifndef STET_TEST_TREE_GEN_H
#define STET_TEST_TREE_GEN_H

#include "format/key.h"
#include "harness.h"

enum gen_kind {
	GEN_SMALL,     /* short keys, small values */
	GEN_MIXED,     /* all sizes, small ones more often */
	GEN_LARGE,     /* the largest keys and values: four items fill a leaf */
	GEN_LONG_KEYS, /* long keys, neighbours differ late, others early: few children to a node */
	GEN_SHARED,    /* long keys that all differ late: a node holds many */
	GEN_GROUPS,    /* groups of keys that begin alike for long, or not */
	GEN_KINDS,
};

/* The key with this number; the order of keys is the order of numbers. */
void gen_key(enum gen_kind kind, uint64_t n, struct stet_key *ret);
/* A random value of the kind. */
size_t gen_value(enum gen_kind kind, struct stet_random *random, uint8_t value[STET_VALUE_MAX]);
void gen_put(struct entries *batch, enum gen_kind kind, uint64_t n, struct stet_random *random);
void gen_delete(struct entries *batch, enum gen_kind kind, uint64_t n);

#endif
