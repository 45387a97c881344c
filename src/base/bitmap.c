/* bitmap.c - bits in words; whole words at a time where a range allows it.
 *
 * A range is walked as pieces of one word each, with a mask of the bits meant. Bits behind n_bits
 * in the last word are never looked at nor changed.
 */
#include "base/bitmap.h"

#include "base/assert.h"

#define WORD_BITS 64

/* One word's share of a range. */
struct piece {
	size_t word;
	uint64_t mask;
	size_t n; /* bits in mask */
};

static struct piece piece_of(size_t first, size_t n)
{
	size_t bit = first % WORD_BITS;
	size_t len = WORD_BITS - bit < n ? WORD_BITS - bit : n;

	return (struct piece){ .word = first / WORD_BITS,
			       .mask = (UINT64_MAX >> (WORD_BITS - len)) << bit,
			       .n = len };
}

static void assert_range(const struct stet_bitmap *map, size_t first, size_t n)
{
	STET_ASSERT_CMP(first, <=, map->n_bits);
	STET_ASSERT_CMP(n, <=, map->n_bits - first);
}

static uint64_t bit_mask(size_t i)
{
	return UINT64_C(1) << (i % WORD_BITS);
}

void stet_bitmap_init(struct stet_bitmap *map, uint64_t *word, size_t n_bits)
{
	map->word = word;
	map->n_bits = n_bits;
}

void stet_bitmap_set(struct stet_bitmap *map, size_t i)
{
	STET_ASSERT_CMP(i, <, map->n_bits);
	map->word[i / WORD_BITS] |= bit_mask(i);
}

void stet_bitmap_clear(struct stet_bitmap *map, size_t i)
{
	STET_ASSERT_CMP(i, <, map->n_bits);
	map->word[i / WORD_BITS] &= ~bit_mask(i);
}

bool stet_bitmap_test(const struct stet_bitmap *map, size_t i)
{
	STET_ASSERT_CMP(i, <, map->n_bits);
	return map->word[i / WORD_BITS] & bit_mask(i);
}

void stet_bitmap_set_range(struct stet_bitmap *map, size_t first, size_t n)
{
	assert_range(map, first, n);
	while (n > 0) {
		struct piece piece = piece_of(first, n);

		map->word[piece.word] |= piece.mask;
		first += piece.n;
		n -= piece.n;
	}
}

void stet_bitmap_clear_range(struct stet_bitmap *map, size_t first, size_t n)
{
	assert_range(map, first, n);
	while (n > 0) {
		struct piece piece = piece_of(first, n);

		map->word[piece.word] &= ~piece.mask;
		first += piece.n;
		n -= piece.n;
	}
}

size_t stet_bitmap_count_range(const struct stet_bitmap *map, size_t first, size_t n)
{
	size_t count = 0;

	assert_range(map, first, n);
	while (n > 0) {
		struct piece piece = piece_of(first, n);

		count += (size_t)__builtin_popcountll(map->word[piece.word] & piece.mask);
		first += piece.n;
		n -= piece.n;
	}
	return count;
}

/* The first 1 at or after from in the words, each xor-ed with flip. */
static size_t find_next(const struct stet_bitmap *map, size_t from, uint64_t flip)
{
	STET_ASSERT_CMP(from, <=, map->n_bits);
	while (from < map->n_bits) {
		struct piece piece = piece_of(from, map->n_bits - from);
		uint64_t found = (map->word[piece.word] ^ flip) & piece.mask;

		if (found)
			return piece.word * WORD_BITS + (size_t)__builtin_ctzll(found);
		from += piece.n;
	}
	return map->n_bits;
}

size_t stet_bitmap_find_next_zero(const struct stet_bitmap *map, size_t from)
{
	return find_next(map, from, UINT64_MAX);
}

size_t stet_bitmap_find_next_one(const struct stet_bitmap *map, size_t from)
{
	return find_next(map, from, 0);
}
