/* lone.c - an open-addressing table with linear probing.
 *
 * Z1. At most half of the places are taken, so probes are short; keys are already mixed (lock.c).
 * Z2. No tombstones: removal moves later entries of the same run back, so a table that was large once
 *     does not stay slow. It shrinks to nothing when it is empty.
 */
#include "txn/lone.h"

#include "base/assert.h"
#include "base/mem.h"

#define FIRST_CAP 64u

void stet_lone_init(struct stet_lone *lone)
{
	*lone = (struct stet_lone){ 0 };
}

void stet_lone_release(struct stet_lone *lone)
{
	STET_ASSERT_CMP(lone->n, ==, 0);
	stet_free(lone->entry);
	stet_lone_init(lone);
}

static size_t place_of(const struct stet_lone *lone, uint64_t key)
{
	size_t i = (size_t)key & (lone->cap - 1);

	while (lone->entry[i].owner && lone->entry[i].key != key)
		i = (i + 1) & (lone->cap - 1);
	return i;
}

struct stet_lock_owner *stet_lone_find(const struct stet_lone *lone, uint64_t key)
{
	return lone->n > 0 ? lone->entry[place_of(lone, key)].owner : NULL;
}

static int grow(struct stet_lone *lone)
{
	struct stet_lone bigger = { .cap = lone->cap ? 2 * lone->cap : FIRST_CAP, .n = lone->n };

	bigger.entry = stet_calloc(bigger.cap, sizeof(*bigger.entry));
	if (!bigger.entry)
		return STET_FAIL(-ENOMEM, "no memory for %zu locks", bigger.cap);
	for (size_t i = 0; i < lone->cap; i++)
		if (lone->entry[i].owner)
			bigger.entry[place_of(&bigger, lone->entry[i].key)] = lone->entry[i];
	stet_free(lone->entry);
	*lone = bigger;
	return 0;
}

int stet_lone_add(struct stet_lone *lone, uint64_t key, struct stet_lock_owner *owner)
{
	if (2 * (lone->n + 1) > lone->cap) { /* Z1 */
		int rc = grow(lone);

		if (rc)
			return rc;
	}
	size_t i = place_of(lone, key);
	STET_ASSERT(!lone->entry[i].owner);
	lone->entry[i] = (struct stet_lone_entry){ key, owner };
	lone->n++;
	return 0;
}

void stet_lone_remove(struct stet_lone *lone, uint64_t key)
{
	size_t mask = lone->cap - 1;
	size_t hole = place_of(lone, key);

	STET_ASSERT(lone->entry[hole].owner);
	for (size_t i = (hole + 1) & mask; lone->entry[i].owner; i = (i + 1) & mask) {
		size_t home = (size_t)lone->entry[i].key & mask;

		/* Z2: it may move back unless its home lies behind the hole. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			lone->entry[hole] = lone->entry[i];
			hole = i;
		}
	}
	lone->entry[hole].owner = NULL;
	if (--lone->n == 0)
		stet_lone_release(lone);
}
