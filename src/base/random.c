/* random.c - xoshiro256** (Blackman and Vigna), seeded by splitmix64 so that any seed is good. */
#include "base/random.h"

#include "base/assert.h"

static uint64_t rotate_left(uint64_t x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void stet_random_seed(struct stet_random *random, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		random->s[i] = splitmix(&seed);
}

uint64_t stet_random_next(struct stet_random *random)
{
	uint64_t *s = random->s;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

uint64_t stet_random_below(struct stet_random *random, uint64_t n)
{
	uint64_t skip;
	uint64_t x;

	STET_ASSERT_CMP(n, >, 0);
	skip = -n % n; /* 2^64 mod n: without the lowest that many, all remainders are as many */
	do {
		x = stet_random_next(random);
	} while (x < skip); /* at least half of all x end the loop */
	return x % n;
}

void stet_random_bytes(struct stet_random *random, void *buf, size_t len_bytes)
{
	uint8_t *p = buf;

	while (len_bytes > 0) {
		uint64_t x = stet_random_next(random);
		size_t n = len_bytes < sizeof(x) ? len_bytes : sizeof(x);

		for (size_t i = 0; i < n; i++)
			p[i] = (uint8_t)(x >> (8 * i)); /* same on every machine */
		p += n;
		len_bytes -= n;
	}
}
