/* bitmap.h - bits in an array of 64-bit words; bit i is bit i % 64 of word i / 64.
 *
 * The bitmap borrows the words. All positions are asserted to lie inside it; ranges may be empty.
 */
#ifndef STET_BASE_BITMAP_H
#define STET_BASE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** How many words hold n bits. */
#define STET_BITMAP_WORDS(n_bits) (((n_bits) + 63) / 64)

struct stet_bitmap {
	uint64_t *word; /* borrowed */
	size_t n_bits;
};

/** Makes a bitmap over the words, which stay the caller's and must outlive it; changes no bit. */
void stet_bitmap_init(struct stet_bitmap *map, uint64_t *word, size_t n_bits);

/** Sets bit i to 1. */
void stet_bitmap_set(struct stet_bitmap *map, size_t i);

/** Sets bit i to 0. */
void stet_bitmap_clear(struct stet_bitmap *map, size_t i);

/** True when bit i is 1. */
bool stet_bitmap_test(const struct stet_bitmap *map, size_t i);

/** Sets the n bits from first on to 1. */
void stet_bitmap_set_range(struct stet_bitmap *map, size_t first, size_t n);

/** Sets the n bits from first on to 0. */
void stet_bitmap_clear_range(struct stet_bitmap *map, size_t first, size_t n);

/** How many of the n bits from first on are 1. */
size_t stet_bitmap_count_range(const struct stet_bitmap *map, size_t first, size_t n);

/** The first 0 at or after from (<= n_bits); n_bits when there is none. */
size_t stet_bitmap_find_next_zero(const struct stet_bitmap *map, size_t from);

/** The first 1 at or after from (<= n_bits); n_bits when there is none. */
size_t stet_bitmap_find_next_one(const struct stet_bitmap *map, size_t from);

#endif
