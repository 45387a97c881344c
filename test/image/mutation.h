/* mutation.h - one mutated image: what was done to it, and what may therefore be expected of it. */
#ifndef TEST_IMAGE_MUTATION_H
#define TEST_IMAGE_MUTATION_H

#include "atlas.h"
#include "base.h"

struct mutation {
	const struct base *base;
	struct stet_random random;
	struct stet_device *image;  /* a copy of the base's; owned */
	struct stet_device *device; /* what is to be opened: the image, or a part of it; owned */
	struct patient patient;
	uint8_t *touched; /* bit per block that differs, or cannot be read */
	bool fixed;       /* checksums were made right */
	bool lessened;    /* what is written cannot all be read back */
	bool free;        /* what is read may differ, and nobody can tell */
	char what[512];   /* for people */
	size_t what_len;
};

/** The base and the kind of change follow from the seed. */
struct mutation *mutation_create(struct base *const bases[], uint64_t seed);
void mutation_destroy(struct mutation *m);

/// For the files that change ///

uint64_t mutation_pick(struct mutation *m, uint64_t n); /* 0 .. n - 1; 0 for n = 0 */
bool mutation_chance(struct mutation *m, unsigned percent);
void mutation_note(struct mutation *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Writes to the image, and notes which blocks changed. */
void mutation_write(struct mutation *m, uint64_t off, const void *bytes, size_t len);
void mutation_read(struct mutation *m, uint64_t off, void *bytes, size_t len);
/** The device ends at size_bytes (claims), and cannot be read from readable_bytes on. */
void mutation_lessen(struct mutation *m, uint64_t size_bytes, uint64_t readable_bytes);
/** A live part of the kind; false: there is none. */
bool mutation_part(struct mutation *m, enum part_kind kind, uint32_t *ret);

void mutate_raw(struct mutation *m);     /* raw.c */
void mutate_hostile(struct mutation *m); /* hostile.c */

/* Changes part of the kinds of structure; each tells whether it found something to change. */
bool mutate_item(struct mutation *m);   /* items.c */
bool mutate_header(struct mutation *m); /* headers.c */
/** An integer of `width` bytes at p becomes another one, chosen to hurt. */
void mutate_int(struct mutation *m, uint8_t *p, unsigned width, const char *name);
/** Some address: of a node, of data, of a table page, in a segment that is not there, ... */
struct stet_addr mutate_addr(struct mutation *m);

#endif
