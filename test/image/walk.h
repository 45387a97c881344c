/* walk.h - asks a volume everything that can be asked, within bounds. */
#ifndef TEST_IMAGE_WALK_H
#define TEST_IMAGE_WALK_H

#include "facts.h"
#include "volume.h"

/** Called for each answer, and for each question that failed with rc (-ENOENT counts as an answer, of 0). */
struct walk_visitor {
	void (*answer)(void *arg, enum question q, uint64_t ino, uint64_t sub, uint64_t answer);
	void (*failed)(void *arg, enum question q, uint64_t ino, uint64_t sub, int rc);
	void *arg;
};

/**
 * From the root and from the given inodes (which need no name) on. Bounded whatever the volume holds: in
 * directories, names, attributes and bytes read. 0, or -ENOMEM and the like.
 */
int walk_volume(struct volume *v, const uint64_t *inos, size_t n,
		const struct walk_visitor *visitor);

#endif
