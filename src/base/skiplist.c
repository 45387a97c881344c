/* skiplist.c - ordered map in memory: a skip list with towers of height h at probability 4^-(h-1).
 *
 * A tower is an array of links to the next node of each level; the head is a tower without a node.
 * A search goes right while the next node is below the key, then down a level; what costs is the
 * cache miss of each node it looks at. Therefore: tower, key and 8 bytes of the key are in one
 * allocation and mostly one or two cache lines; the node at which a level stopped is not compared
 * again on the next; the link below is fetched while the node above is compared.
 *
 * I1. Level 0 holds all nodes in strictly rising key order; level l + 1 is a subsequence of l.
 * I2. All links of levels >= height (of the list) are NULL; level height - 1 is not empty,
 *     unless height is 1.
 * I3. prefix of a node is its key's first 8 bytes. Different prefixes order as the keys do; with
 *     equal ones, what the keys share is equal up to byte 8 and the rest decides.
 */
#include "base/skiplist.h"

#include "base/assert.h"
#include "base/endian.h"
#include "base/list.h"
#include "base/mem.h"

#include <stdbool.h>
#include <string.h>

#define PREFIX_BYTES 8

/* A key that is looked for. */
struct wanted {
	const uint8_t *p;
	size_t len;
	uint64_t prefix;
};

static uint64_t prefix_of(const uint8_t *key, size_t len)
{
	uint8_t padded[PREFIX_BYTES] = { 0 };

	if (len >= PREFIX_BYTES)
		return stet_get_be64(key);
	for (size_t i = 0; i < len; i++)
		padded[i] = key[i];
	return stet_get_be64(padded);
}

static struct wanted want(const void *key, size_t len)
{
	return (struct wanted){ .p = key, .len = len, .prefix = prefix_of(key, len) };
}

/* The order of two keys with the same prefix (I3). */
static int compare_rest(const struct stet_skipnode *node, const struct wanted *key)
{
	size_t common = node->key_len < key->len ? node->key_len : key->len;

	if (common > PREFIX_BYTES) {
		int order = memcmp(stet_skipnode_key(node) + PREFIX_BYTES, key->p + PREFIX_BYTES,
				   common - PREFIX_BYTES);

		if (order)
			return order;
	}
	return (node->key_len > key->len) - (node->key_len < key->len);
}

static inline bool is_below(const struct stet_skipnode *node, const struct wanted *key)
{
	if (node->prefix != key->prefix)
		return node->prefix < key->prefix;
	return compare_rest(node, key) < 0;
}

static bool is_equal(const struct stet_skipnode *node, const struct wanted *key)
{
	return node->prefix == key->prefix && node->key_len == key->len &&
	       compare_rest(node, key) == 0;
}

/* The first node >= key, or NULL; fills the path up to the list's height. */
static inline struct stet_skipnode *seek(const struct stet_skiplist *sl, const struct wanted *key,
					 struct stet_skippath *path)
{
	struct stet_skipnode *const *tower = sl->head;
	struct stet_skipnode *stop = NULL; /* known not to be below the key */

	for (unsigned int level = sl->height; level-- > 0;) {
		struct stet_skipnode *next = tower[level];

		while (next != stop) {
			if (level > 0)
				__builtin_prefetch(tower[level - 1]);
			if (!is_below(next, key))
				break;
			tower = next->next;
			next = tower[level];
		}
		stop = next;
		path->tower[level] = tower;
	}
	return stop;
}

/* The link at this level of the path, to be changed: it lies in a node or head we own. */
static struct stet_skipnode **link_at(const struct stet_skippath *path, unsigned int level)
{
	return (struct stet_skipnode **)(uintptr_t)&path->tower[level][level];
}

static size_t node_bytes(const struct stet_skiplist *sl, unsigned int height, size_t len)
{
	return sl->value_bytes + offsetof(struct stet_skipnode, next) +
	       height * sizeof(struct stet_skipnode *) + len;
}

static struct stet_skipnode *node_alloc(const struct stet_skiplist *sl, unsigned int height,
					size_t len)
{
	char *base = stet_alloc(node_bytes(sl, height, len));
	struct stet_skipnode *node;

	if (!base)
		return NULL;
	memset(base, 0, sl->value_bytes);
	node = (struct stet_skipnode *)(base + sl->value_bytes);
	node->value = sl->value_bytes > 0 ? base : NULL;
	return node;
}

static void node_free(const struct stet_skiplist *sl, struct stet_skipnode *node)
{
	stet_free((char *)node - sl->value_bytes);
}

static unsigned int random_height(struct stet_skiplist *sl)
{
	uint64_t x = sl->random;
	unsigned int height;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	sl->random = x;
	height = 1 + (unsigned int)__builtin_ctzll(x) / 2; /* x is never 0 */
	return height < STET_SKIPLIST_MAX_HEIGHT ? height : STET_SKIPLIST_MAX_HEIGHT;
}

void stet_skiplist_init(struct stet_skiplist *sl, uint64_t seed, size_t value_bytes)
{
	/* An odd multiplier spreads small seeds; the state must not be 0. */
	uint64_t state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);

	STET_ASSERT_CMP(value_bytes, <=, 4096);
	*sl = (struct stet_skiplist){ .height = 1,
				      .random = state ? state : 1,
				      .value_bytes = (value_bytes + 15u) & ~(size_t)15u };
}

void stet_skiplist_release(struct stet_skiplist *sl,
			   void (*free_value)(void *arg, struct stet_skipnode *node), void *arg)
{
	struct stet_skipnode *node;

	if (!sl)
		return;
	node = sl->head[0];
	while (node) {
		struct stet_skipnode *next = node->next[0];

		if (free_value)
			free_value(arg, node);
		node_free(sl, node);
		node = next;
	}
	*sl = (struct stet_skiplist){ .height = 1,
				      .random = sl->random,
				      .value_bytes = sl->value_bytes };
}

struct stet_skipnode *stet_skiplist_lower_bound(const struct stet_skiplist *sl, const void *key,
						size_t len)
{
	struct wanted wanted = want(key, len);
	struct stet_skippath path;

	return seek(sl, &wanted, &path);
}

struct stet_skipnode *stet_skiplist_find(const struct stet_skiplist *sl, const void *key,
					 size_t len)
{
	struct wanted wanted = want(key, len);
	struct stet_skippath path;
	struct stet_skipnode *node = seek(sl, &wanted, &path);

	return node && is_equal(node, &wanted) ? node : NULL;
}

struct stet_skipnode *stet_skiplist_below(const struct stet_skiplist *sl, const void *key,
					  size_t len)
{
	struct stet_skippath path;

	return stet_skiplist_seek_below(sl, key, len, &path);
}

static struct stet_skipnode *end_of(const struct stet_skiplist *sl,
				    const struct stet_skippath *path)
{
	if (path->tower[0] == sl->head)
		return NULL;
	return stet_container_of(path->tower[0], struct stet_skipnode, next);
}

struct stet_skipnode *stet_skiplist_seek_below(const struct stet_skiplist *sl, const void *key,
					       size_t len, struct stet_skippath *ret)
{
	struct wanted wanted = want(key, len);

	(void)seek(sl, &wanted, ret);
	return end_of(sl, ret);
}

/* The path leads to the node on the levels that it has, and before it on those above. No key is looked at. */
struct stet_skipnode *stet_skiplist_prev(const struct stet_skiplist *sl, struct stet_skippath *path)
{
	const struct stet_skipnode *node = end_of(sl, path);
	struct stet_skipnode *const *tower;

	if (!node)
		return NULL;
	tower = node->height < sl->height ? path->tower[node->height] : sl->head;
	for (unsigned int level = node->height; level-- > 0;) {
		while (tower[level] != node)
			tower = tower[level]->next;
		path->tower[level] = tower;
	}
	return end_of(sl, path);
}

int stet_skiplist_insert(struct stet_skiplist *sl, const void *key, size_t len,
			 struct stet_skipnode **ret)
{
	struct wanted wanted = want(key, len);
	struct stet_skipnode *node;
	unsigned int height;
	struct stet_skippath path;

	if (len > STET_SKIPLIST_MAX_KEY_BYTES)
		return STET_FAIL(-EINVAL, "key of %zu bytes", len);
	node = seek(sl, &wanted, &path);
	if (node && is_equal(node, &wanted)) {
		*ret = node;
		return -EEXIST;
	}
	height = random_height(sl);
	node = node_alloc(sl, height, len);
	if (!node)
		return -ENOMEM;
	node->prefix = wanted.prefix;
	node->key_len = (uint16_t)len;
	node->height = (uint8_t)height;
	if (len > 0)
		memcpy(&node->next[height], key, len);
	for (; sl->height < height; sl->height++)
		path.tower[sl->height] = sl->head;
	for (unsigned int level = 0; level < height; level++) {
		struct stet_skipnode **link = link_at(&path, level);

		node->next[level] = *link;
		*link = node;
	}
	sl->count++;
	sl->bytes += node_bytes(sl, height, len);
	*ret = node;
	return 0;
}

/* The node comes right after the path. */
static void take_out(struct stet_skiplist *sl, const struct stet_skippath *path,
		     struct stet_skipnode *node)
{
	for (unsigned int level = 0; level < node->height; level++) {
		struct stet_skipnode **link = link_at(path, level);

		STET_DEBUG_ASSERT(*link == node);
		*link = node->next[level];
	}
	sl->count--;
	sl->bytes -= node_bytes(sl, node->height, node->key_len);
	node_free(sl, node);
}

static void lower_height(struct stet_skiplist *sl)
{
	while (sl->height > 1 && !sl->head[sl->height - 1]) /* I2 */
		sl->height--;
}

void stet_skiplist_remove(struct stet_skiplist *sl, struct stet_skipnode *node)
{
	struct wanted wanted = { stet_skipnode_key(node), node->key_len, node->prefix };
	struct stet_skippath path;
	struct stet_skipnode *found = seek(sl, &wanted, &path);

	STET_ASSERT(found == node);
	take_out(sl, &path, node);
	lower_height(sl);
}

struct stet_skipnode *stet_skiplist_sweep(struct stet_skiplist *sl, const void *key, size_t len,
					  size_t most,
					  bool (*keep)(void *arg, struct stet_skipnode *node),
					  void *arg)
{
	struct wanted wanted = want(key, len);
	struct stet_skippath path;
	struct stet_skipnode *node = seek(sl, &wanted, &path);

	for (; node && most > 0; most--) {
		struct stet_skipnode *next = node->next[0];

		if (keep(arg, node)) {
			for (unsigned int level = 0; level < node->height; level++)
				path.tower[level] = node->next;
		} else {
			take_out(sl, &path, node);
		}
		node = next;
	}
	lower_height(sl);
	return node;
}

/* I1: each link of the node at a level leads to the next node that is as high as that. */
static void check_links(const struct stet_skiplist *sl, const struct stet_skipnode *node,
			struct stet_skipnode *const *expected[])
{
	STET_ASSERT_CMP(node->height, >=, 1);
	STET_ASSERT_CMP(node->height, <=, sl->height);
	for (unsigned int level = 0; level < node->height; level++) {
		STET_ASSERT(*expected[level] == node);
		expected[level] = &node->next[level];
	}
}

void stet_skiplist_check(const struct stet_skiplist *sl)
{
	struct stet_skipnode *const *expected[STET_SKIPLIST_MAX_HEIGHT];
	const struct stet_skipnode *last = NULL;
	size_t count = 0;
	size_t bytes = 0;

	for (unsigned int level = 0; level < STET_SKIPLIST_MAX_HEIGHT; level++)
		expected[level] = &sl->head[level];
	for (const struct stet_skipnode *node = sl->head[0]; node; node = node->next[0]) {
		struct wanted key = want(stet_skipnode_key(node), node->key_len);

		STET_ASSERT_CMP(node->prefix, ==, key.prefix); /* I3 */
		STET_ASSERT(!last || is_below(last, &key));    /* I1 */
		check_links(sl, node, expected);
		last = node;
		count++;
		bytes += node_bytes(sl, node->height, node->key_len);
	}
	for (unsigned int level = 0; level < STET_SKIPLIST_MAX_HEIGHT; level++)
		STET_ASSERT(!*expected[level]);
	STET_ASSERT(sl->height == 1 || sl->head[sl->height - 1]); /* I2 */
	STET_ASSERT_CMP(count, ==, sl->count);
	STET_ASSERT_CMP(bytes, ==, sl->bytes);
}
