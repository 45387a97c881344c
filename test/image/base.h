/* base.h - the volumes that mutations start from, with all that is known of them. */
#ifndef TEST_IMAGE_BASE_H
#define TEST_IMAGE_BASE_H

#include "device/device.h"
#include "facts.h"

struct atlas;

#define BASE_COUNT 5u
#define BASE_INOS_MAX 8u

struct base {
	const char *name;
	struct stet_device *device; /* an image; never changed */
	struct facts *facts;
	/* The flush states, in order; cut: the last operation that each holds. */
	unsigned state_count;
	uint64_t cut[FACTS_STATES_MAX];
	/* Inodes without a name, and those of which something is to be freed. */
	uint64_t inos[BASE_INOS_MAX];
	size_t ino_count;
	/* What operations on mutated images are tried on; they lie in the root directory. */
	uint64_t victim_ino; /* the file "victim", to be unlinked */
	uint64_t target_ino; /* the file "target", to be written to */
	uint64_t ino_end;    /* numbers below are given */
	struct atlas *atlas;
};

/** Number no of BASE_COUNT. Ends the program on any failure: what follows would be meaningless. */
struct base *base_build(unsigned no);
void base_destroy(struct base *base);

#endif
