/* gen.c - see gen.h. */
#include "gen.h"

void gen_key(enum gen_kind kind, uint64_t n, struct stet_key *ret)
{
	size_t pad = 0;
	uint64_t mix = n * UINT64_C(0x9e3779b97f4a7c15);

	if (kind == GEN_MIXED)
		pad = (mix >> 40) % 16 ? (mix >> 50) % 40 : STET_RECORD_KEY_MAX - 7;
	else if (kind == GEN_LARGE)
		pad = STET_ITEM_KEY_MAX - 8;
	if (kind == GEN_LONG_KEYS || kind == GEN_SHARED || kind == GEN_GROUPS) {
		uint64_t group = kind == GEN_SHARED ? 0 : n / (kind == GEN_GROUPS ? 64 : 16);
		size_t end = STET_ITEM_KEY_MAX - 8;

		if (kind == GEN_GROUPS)
			end = 8 + group * 97 % 480;
		memset(ret->b, 'x', end);
		stet_put_be64(ret->b, group);
		stet_put_be64(ret->b + end, n);
		ret->bytes = (uint16_t)(end + 8);
		return;
	}
	stet_put_be64(ret->b, n);
	memset(ret->b + 8, (int)(mix >> 56), pad);
	ret->bytes = (uint16_t)(8 + pad);
}

size_t gen_value(enum gen_kind kind, struct stet_random *random, uint8_t value[STET_VALUE_MAX])
{
	size_t bytes = (size_t)stet_random_below(random, 100);

	if (kind == GEN_LARGE)
		bytes = STET_VALUE_MAX - stet_random_below(random, 2) * 1000;
	else if (kind >= GEN_LONG_KEYS)
		bytes = (size_t)stet_random_below(random, 10);
	else if (kind == GEN_MIXED && stet_random_below(random, 8) == 0)
		bytes = (size_t)stet_random_below(random, STET_VALUE_MAX + 1);
	stet_random_bytes(random, value, bytes);
	return bytes;
}

void gen_put(struct entries *batch, enum gen_kind kind, uint64_t n, struct stet_random *random)
{
	uint8_t value[STET_VALUE_MAX];
	size_t bytes = gen_value(kind, random, value);
	struct stet_key key;

	gen_key(kind, n, &key);
	entries_put(batch, key.b, key.bytes, value, bytes, false);
}

void gen_delete(struct entries *batch, enum gen_kind kind, uint64_t n)
{
	struct stet_key key;

	gen_key(kind, n, &key);
	entries_put(batch, key.b, key.bytes, NULL, 0, true);
}
