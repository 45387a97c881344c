/* format_test.h - what the unit tests of format/ share: bit flips, mutations, exact buffers. */
#ifndef STET_TEST_FORMAT_TEST_H
#define STET_TEST_FORMAT_TEST_H

#include "base/endian.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "format/types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TEST_VOLUME UINT64_C(0x1122334455667788)

/** Memory of exactly that size, so that a sanitizer sees each byte read too far. */
static inline uint8_t *exact(size_t bytes)
{
	uint8_t *p = malloc(bytes ? bytes : 1);

	assert_non_null(p);
	return p;
}

/** Asserts that accepts() refuses the buffer with any one bit flipped; the buffer is unchanged. */
static inline void assert_flips_found(uint8_t *buf, size_t len_bytes,
				      int (*verify)(const uint8_t *buf, void *arg), void *arg)
{
	assert_int_equal(verify(buf, arg), 0);
	for (size_t bit = 0; bit < len_bytes * 8; bit++) {
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (verify(buf, arg) == 0)
			fail_msg("flip of bit %zu not found", bit);
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(verify(buf, arg), 0);
}

/** A number that tends to break things, in the range of a field of that many bytes. */
static inline uint64_t nasty(struct stet_random *random, unsigned int width_bytes)
{
	static const uint64_t edge[] = { 0,     1,     2,         3,         4,     7,     8,
					 9,     12,    13,        16,        17,    24,    32,
					 63,    64,    65,        255,       256,   511,   512,
					 521,   522,   2047,      2048,      2049,  3200,  3201,
					 4095,  4096,  4097,      16383,     16384, 32767, 32768,
					 65535, 65536, INT32_MAX, UINT32_MAX };
	uint64_t v;

	switch (stet_random_below(random, 4)) {
	case 0:
		v = edge[stet_random_below(random, sizeof(edge) / sizeof(edge[0]))];
		break;
	case 1: /* near the top */
		v = UINT64_MAX - stet_random_below(random, 20);
		break;
	case 2: /* powers of two, give or take one */
		v = (UINT64_C(1) << stet_random_below(random, 64)) + stet_random_below(random, 3) -
		    1;
		break;
	default:
		v = stet_random_next(random);
		break;
	}
	return width_bytes == 8 ? v : v & ((UINT64_C(1) << 8 * width_bytes) - 1);
}

/** Overwrites a number of 1, 2, 4 or 8 bytes somewhere in the first len_bytes (at least 8). */
static inline void mutate(struct stet_random *random, uint8_t *buf, size_t len_bytes)
{
	unsigned int width = 1u << stet_random_below(random, 4);
	size_t at = stet_random_below(random, (len_bytes - width) / width + 1) * width;
	uint64_t v = nasty(random, width);

	for (unsigned int i = 0; i < width; i++)
		buf[at + i] = (uint8_t)(v >> 8 * i);
}

/** Asserts that the text holds the word, and releases the text. */
static inline void assert_prints(struct stet_text *t, const char *word)
{
	if (!strstr(stet_text_cstr(t), word))
		fail_msg("no \"%s\" in \"%s\"", word, stet_text_cstr(t));
	stet_text_release(t);
}

#endif
