/* facts.c - facts in a table: open addressing by a hash of question and answer.
 *
 * F1. Two facts with one hash of 64 bits are taken for the same. With some thousand facts that does not
 *     happen; if it did, a wrong answer would be missed, never a right one refused.
 * F2. The table is at most half full.
 */
#include "facts.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/hash.h"

#include <stdlib.h>

struct fact {
	uint64_t hash;   /* 0 = free */
	uint64_t states; /* bit per state */
};

struct facts {
	struct fact *v;
	size_t n, cap; /* cap: a power of two */
};

static void *zeroed(size_t n, size_t size_bytes)
{
	void *p = calloc(n, size_bytes);

	if (!p)
		abort();
	return p;
}

struct facts *facts_create(void)
{
	struct facts *f = zeroed(1, sizeof(*f));

	f->cap = 1024;
	f->v = zeroed(f->cap, sizeof(*f->v));
	return f;
}

void facts_destroy(struct facts *f)
{
	if (f)
		free(f->v);
	free(f);
}

uint64_t facts_hash(const void *bytes, size_t len)
{
	return stet_mix64(stet_crc64(bytes, len) + len);
}

static uint64_t hash_of(enum question q, uint64_t ino, uint64_t sub, uint64_t answer)
{
	uint64_t h = stet_mix64(ino + 1);

	h = stet_mix64(h + sub + (uint64_t)q * 1000003);
	h = stet_mix64(h ^ answer);
	return h ? h : 1;
}

/* Where the hash is, or belongs. */
static struct fact *slot_of(const struct facts *f, uint64_t hash)
{
	size_t i = hash & (f->cap - 1);

	while (f->v[i].hash && f->v[i].hash != hash)
		i = (i + 1) & (f->cap - 1);
	return &f->v[i];
}

static void grow(struct facts *f)
{
	struct facts bigger = { .cap = f->cap * 2, .n = f->n };

	bigger.v = zeroed(bigger.cap, sizeof(*bigger.v));
	for (size_t i = 0; i < f->cap; i++)
		if (f->v[i].hash)
			*slot_of(&bigger, f->v[i].hash) = f->v[i];
	free(f->v);
	*f = bigger;
}

void facts_learn(struct facts *f, unsigned state, enum question q, uint64_t ino, uint64_t sub,
		 uint64_t answer)
{
	uint64_t hash = hash_of(q, ino, sub, answer);
	struct fact *fact = slot_of(f, hash);

	STET_ASSERT_CMP(state, <, FACTS_STATES_MAX);
	if (!fact->hash) {
		fact->hash = hash;
		f->n++;
	}
	fact->states |= UINT64_C(1) << state;
	if (f->n * 2 > f->cap) /* F2 */
		grow(f);
}

uint64_t facts_states(const struct facts *f, enum question q, uint64_t ino, uint64_t sub,
		      uint64_t answer)
{
	return slot_of(f, hash_of(q, ino, sub, answer))->states;
}

size_t facts_count(const struct facts *f)
{
	return f->n;
}
