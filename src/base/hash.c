/* hash.c - separate chaining in a table of 2^n buckets that grows bucket by bucket.
 *
 * To grow, a table of twice the size becomes `now` and the full one `old`; from then on each
 * insert, find and remove moves some buckets of old, from the first on, until old is empty.
 *
 * I1. A key's nodes are all in one chain: in old when there is an old table and the key's bucket
 *     there is not yet moved, otherwise in now. So every call looks at one chain only.
 * I2. Buckets of old below `moved` are empty.
 * I3. Once grown, the table holds at most a quarter as many nodes as buckets, unless memory for
 *     growing was missing: moving N buckets takes N / MOVE_BUCKETS inserts, but N / 4 inserts
 *     pass before now is full.
 * I4. The new table is not touched when it is made (calloc of fresh pages): there is no pause.
 * I5. Buckets of now below `low` are empty: taking out the first node again and again (to empty
 *     the table) passes each bucket once.
 */
#include "base/hash.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdbool.h>

#define MIN_LOG2_SIZE 2  /* so that a quarter of the size is at least 1 */
#define MAX_LOG2_SIZE 40 /* beyond what memory can hold */
#define MOVE_BUCKETS 8   /* per call; more than 4, for I3 */

static size_t table_size(const struct stet_hash_table *table)
{
	return (size_t)1 << table->log2_size;
}

static struct stet_hash_node **table_bucket(const struct stet_hash_table *table, uint64_t key)
{
	return &table->bucket[key & (table_size(table) - 1)];
}

static bool table_make(struct stet_hash_table *table, unsigned int log2_size)
{
	struct stet_hash_node **bucket;

	if (log2_size > MAX_LOG2_SIZE)
		return false;
	bucket = stet_calloc((size_t)1 << log2_size, sizeof(struct stet_hash_node *));
	if (!bucket)
		return false;
	table->bucket = bucket;
	table->log2_size = log2_size;
	return true;
}

/* The chain that holds all nodes of the key (I1), or NULL when there is no table yet. */
static struct stet_hash_node **chain_of(const struct stet_hash *hash, uint64_t key)
{
	if (!hash->now.bucket)
		return NULL;
	if (hash->old.bucket && (key & (table_size(&hash->old) - 1)) >= hash->moved)
		return table_bucket(&hash->old, key);
	return table_bucket(&hash->now, key);
}

/* A node came into this bucket (I5). */
static void note_used(struct stet_hash *hash, struct stet_hash_node **bucket)
{
	uintptr_t first = (uintptr_t)hash->now.bucket;
	uintptr_t at = (uintptr_t)bucket;
	size_t i;

	if (at < first || at - first >= table_size(&hash->now) * sizeof(*bucket))
		return; /* a bucket of old */
	i = (at - first) / sizeof(*bucket);
	if (i < hash->low)
		hash->low = i;
}

static void move_bucket(struct stet_hash *hash, struct stet_hash_node **bucket)
{
	struct stet_hash_node *node = *bucket;

	*bucket = NULL;
	while (node) {
		struct stet_hash_node *next = node->next;
		struct stet_hash_node **target = table_bucket(&hash->now, node->key);

		node->next = *target;
		*target = node;
		note_used(hash, target);
		node = next;
	}
}

/* Moves up to n buckets of the old table, if there is one. */
static void move_some(struct stet_hash *hash, size_t n)
{
	size_t size;

	if (!hash->old.bucket)
		return;
	size = table_size(&hash->old);
	for (; n > 0 && hash->moved < size; n--) {
		move_bucket(hash, &hash->old.bucket[hash->moved]);
		hash->moved++;
	}
	if (hash->moved == size) {
		stet_free(hash->old.bucket);
		hash->old = (struct stet_hash_table){ 0 };
		hash->moved = 0;
	}
}

/* Starts growing. Without memory the table stays, and is tried again some nodes later. */
static void grow(struct stet_hash *hash)
{
	struct stet_hash_table bigger;

	if (!table_make(&bigger, hash->now.log2_size + 1)) {
		hash->grow_failures++;
		hash->grow_at += table_size(&hash->now) / 8 + 1;
		return;
	}
	hash->old = hash->now;
	hash->now = bigger;
	hash->moved = 0;
	hash->low = table_size(&bigger);
	hash->grow_at = table_size(&bigger) / 4;
}

void stet_hash_init(struct stet_hash *hash, unsigned int initial_log2_size)
{
	STET_ASSERT_CMP(initial_log2_size, <=, MAX_LOG2_SIZE);
	*hash = (struct stet_hash){ .initial_log2_size = initial_log2_size };
	if (initial_log2_size < MIN_LOG2_SIZE)
		hash->initial_log2_size = MIN_LOG2_SIZE;
}

void stet_hash_release(struct stet_hash *hash)
{
	if (!hash)
		return;
	stet_free(hash->now.bucket);
	stet_free(hash->old.bucket);
	stet_hash_init(hash, hash->initial_log2_size);
}

int stet_hash_insert(struct stet_hash *hash, uint64_t key, struct stet_hash_node *node)
{
	struct stet_hash_node **chain;

	if (!hash->now.bucket) {
		if (!table_make(&hash->now, hash->initial_log2_size))
			return -ENOMEM;
		hash->grow_at = table_size(&hash->now) / 4;
	}
	if (hash->count >= hash->grow_at && !hash->old.bucket)
		grow(hash);
	move_some(hash, MOVE_BUCKETS);
	chain = chain_of(hash, key);
	node->key = key;
	node->next = *chain;
	*chain = node;
	note_used(hash, chain);
	hash->count++;
	return 0;
}

struct stet_hash_node *stet_hash_find(struct stet_hash *hash, uint64_t key)
{
	struct stet_hash_node **chain;
	struct stet_hash_node *node;

	move_some(hash, MOVE_BUCKETS);
	chain = chain_of(hash, key);
	node = chain ? *chain : NULL;
	while (node && node->key != key)
		node = node->next;
	return node;
}

struct stet_hash_node *stet_hash_find_next(const struct stet_hash_node *node)
{
	struct stet_hash_node *next = node->next;

	while (next && next->key != node->key)
		next = next->next;
	return next;
}

void stet_hash_remove(struct stet_hash *hash, struct stet_hash_node *node)
{
	struct stet_hash_node **link;

	move_some(hash, MOVE_BUCKETS);
	link = chain_of(hash, node->key);
	STET_ASSERT(link);
	while (*link != node) {
		STET_ASSERT(*link);
		link = &(*link)->next;
	}
	*link = node->next;
	node->next = NULL;
	hash->count--;
}

size_t stet_hash_count(const struct stet_hash *hash)
{
	return hash->count;
}

uint64_t stet_hash_grow_failures(const struct stet_hash *hash)
{
	return hash->grow_failures;
}

/* The first node in bucket i of now, or the buckets after it. */
static struct stet_hash_node *first_from(const struct stet_hash *hash, size_t i)
{
	size_t size = table_size(&hash->now);

	for (; i < size; i++) {
		if (hash->now.bucket[i])
			return hash->now.bucket[i];
	}
	return NULL;
}

struct stet_hash_node *stet_hash_first(struct stet_hash *hash)
{
	/* With one table only, removing moves nothing and the walk stays in order. */
	move_some(hash, SIZE_MAX);
	if (!hash->now.bucket)
		return NULL;
	while (hash->low < table_size(&hash->now) && !hash->now.bucket[hash->low])
		hash->low++;
	return first_from(hash, hash->low);
}

struct stet_hash_node *stet_hash_next(struct stet_hash *hash, const struct stet_hash_node *node)
{
	STET_ASSERT(!hash->old.bucket);
	if (node->next)
		return node->next;
	return first_from(hash, (node->key & (table_size(&hash->now) - 1)) + 1);
}

/* Counts the nodes of the table and asserts I1 for each. */
static size_t check_table(const struct stet_hash *hash, const struct stet_hash_table *table)
{
	size_t count = 0;

	if (!table->bucket)
		return 0;
	for (size_t i = 0; i < table_size(table); i++) {
		for (const struct stet_hash_node *node = table->bucket[i]; node;
		     node = node->next) {
			STET_ASSERT(chain_of(hash, node->key) == &table->bucket[i]);
			count++;
			STET_ASSERT_CMP(count, <=, hash->count);
		}
	}
	return count;
}

void stet_hash_check(const struct stet_hash *hash)
{
	size_t count = check_table(hash, &hash->now) + check_table(hash, &hash->old);

	STET_ASSERT_CMP(count, ==, hash->count);
	for (size_t i = 0; hash->old.bucket && i < hash->moved; i++)
		STET_ASSERT(!hash->old.bucket[i]); /* I2 */
	for (size_t i = 0; hash->now.bucket && i < hash->low && i < table_size(&hash->now); i++)
		STET_ASSERT(!hash->now.bucket[i]); /* I5 */
	if (hash->grow_failures == 0 && hash->now.bucket)
		STET_ASSERT_CMP(hash->count, <=, table_size(&hash->now) / 4); /* I3 */
}
