/* random.h - random numbers as an object (xoshiro256**): the same seed gives the same sequence on
 * every machine. Not for secrets. */
#ifndef STET_BASE_RANDOM_H
#define STET_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct stet_random {
	uint64_t s[4]; /* never all zero */
};

/** Starts the sequence of the seed (any value). */
void stet_random_seed(struct stet_random *random, uint64_t seed);

/** The next 64 random bits. */
uint64_t stet_random_next(struct stet_random *random);

/** A number in 0..n-1, each equally likely; n > 0. */
uint64_t stet_random_below(struct stet_random *random, uint64_t n);

/** Fills buf with random bytes. */
void stet_random_bytes(struct stet_random *random, void *buf, size_t len_bytes);

#endif
