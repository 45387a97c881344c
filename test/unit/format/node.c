/* node.c - tree nodes: builder against a sorted model, search, flips, hostile contents. */
#include "format/node.h"

#include "base/crc.h"
#include "format/key.h"
#include "format/value.h"

#include "format_test.h"

#define MODEL_MAX 3000

struct model_item {
	uint8_t key[STET_ITEM_KEY_MAX];
	size_t key_bytes;
	uint8_t value[64];
	size_t value_bytes;
	bool tombstone;
};

static struct model_item model[MODEL_MAX];
static size_t shared_bytes; /* what all keys begin with: the same byte so many times */
static bool alike;          /* only two values of a byte, one of them zero: keys differ late */

static int model_cmp(const void *a, const void *b)
{
	const struct model_item *x = a;
	const struct model_item *y = b;

	for (size_t i = 0; i < x->key_bytes && i < y->key_bytes; i++)
		if (x->key[i] != y->key[i])
			return x->key[i] < y->key[i] ? -1 : 1;
	return (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

/* Keys that share more, around the 8 bytes that search compares at once. */
static void random_key(struct stet_random *random, struct model_item *item)
{
	size_t own_bytes = stet_random_below(random, 20);

	memset(item->key, 0x7f, shared_bytes);
	item->key_bytes = shared_bytes + own_bytes;
	for (size_t i = 0; i < own_bytes; i++)
		item->key[shared_bytes + i] =
			(uint8_t)(stet_random_below(random, i < 7 || alike ? 2 : 200) * 0x7f);
}

/* One that may leave what the others share. */
static void random_needle(struct stet_random *random, struct model_item *item)
{
	random_key(random, item);
	if (stet_random_below(random, 3) == 0)
		item->key_bytes = stet_random_below(random, item->key_bytes + 1);
	if (item->key_bytes > 0 && stet_random_below(random, 3) == 0)
		item->key[stet_random_below(random, item->key_bytes)] ^= 0xff;
}

/* Fills model with n sorted items of distinct keys; returns how many those are. */
static uint32_t random_model(struct stet_random *random, uint32_t n, uint32_t tree, uint32_t level)
{
	uint32_t distinct = 0;

	alike = stet_random_below(random, 2);
	shared_bytes = stet_random_below(random, 3)
			       ? stet_random_below(random, 20)
			       : stet_random_below(random, STET_ITEM_KEY_MAX - 19);
	for (uint32_t i = 0; i < n; i++) {
		random_key(random, &model[i]);
		model[i].tombstone = tree == STET_TREE_RUN && level == 0 &&
				     stet_random_below(random, 3) == 0;
		model[i].value_bytes = model[i].tombstone ? 0 : stet_random_below(random, 64);
		stet_random_bytes(random, model[i].value, sizeof(model[i].value));
		if (level > 0) {
			struct stet_node_ptr ptr = {
				.addr = stet_addr_make(stet_random_below(random, 1000) + 1, 60),
				.addr2 = stet_addr_make(stet_random_below(random, 1000) + 1, 64),
				.birth = stet_random_next(random),
				.check = stet_random_next(random),
			};

			stet_node_ptr_encode(&ptr, (struct stet_node_ptr_disk *)model[i].value);
			model[i].value_bytes = sizeof(struct stet_node_ptr_disk);
		}
	}
	qsort(model, n, sizeof(model[0]), model_cmp);
	for (uint32_t i = 0; i < n; i++)
		if (distinct == 0 || model_cmp(&model[distinct - 1], &model[i]) != 0)
			model[distinct++] = model[i];
	return distinct;
}

static size_t model_common(uint32_t i, uint32_t j)
{
	size_t n = 0;

	while (n < model[i].key_bytes && n < model[j].key_bytes &&
	       model[i].key[n] == model[j].key[n])
		n++;
	assert_int_equal(stet_key_common(model[i].key, model[i].key_bytes, model[j].key,
					 model[j].key_bytes),
			 n);
	return n;
}

/* How many of the model's first n items fit a node; *ret_used: what they take. */
static uint32_t model_fits(uint32_t n, size_t *ret_used)
{
	const size_t room = STET_NODE_SIZE - sizeof(struct stet_node_disk) - 2 * STET_ITEM_KEY_MAX;
	size_t whole_bytes = 0;
	uint32_t i = 0;

	for (*ret_used = 0; i < n; i++) {
		whole_bytes += 4 + model[i].key_bytes + model[i].value_bytes;
		if (whole_bytes - i * model_common(0, i) > room)
			break;
		*ret_used = whole_bytes - i * model_common(0, i);
	}
	return i;
}

/* Builds a node of as much of the model as fits; returns how many items. */
static uint32_t build(uint8_t *node, uint32_t n, uint32_t tree, uint32_t level,
		      struct stet_node_ptr *ret_ptr)
{
	struct stet_node_builder b;
	size_t used;
	uint32_t i = model_fits(n, &used);

	stet_node_begin(&b, node, tree, level, model[0].key, i > 0 ? model_common(0, i - 1) : 0);
	for (uint32_t k = 0; k < i; k++)
		stet_node_add(&b, model[k].key, model[k].key_bytes, model[k].value,
			      model[k].value_bytes, model[k].tombstone);
	assert_int_equal(stet_node_used(&b), used);
	ret_ptr->addr = stet_addr_make(1, 0);
	ret_ptr->addr2 = STET_ADDR_NONE;
	ret_ptr->birth = 99;
	if (i < n)
		ret_ptr->check = stet_node_seal(&b, TEST_VOLUME, 99, model[0].key,
						model[0].key_bytes, model[i].key,
						model[i].key_bytes);
	else
		ret_ptr->check = stet_node_seal(&b, TEST_VOLUME, 99, NULL, 0, NULL, 0);
	return i;
}

static void assert_search(const uint8_t *node, uint32_t n, const struct model_item *needle)
{
	struct stet_node_guide guide;
	uint32_t expect = 0;
	bool equal = false;

	while (expect < n && model_cmp(&model[expect], needle) < 0)
		expect++;
	assert_int_equal(stet_node_search(node, NULL, needle->key, needle->key_bytes, &equal),
			 expect);
	assert_int_equal(equal, expect < n && model_cmp(&model[expect], needle) == 0);
	stet_node_guide(node, &guide);
	assert_int_equal(stet_node_search(node, &guide, needle->key, needle->key_bytes, &equal),
			 expect);
	assert_int_equal(equal, expect < n && model_cmp(&model[expect], needle) == 0);
}

static void assert_key_cmp(const uint8_t *node, uint32_t i, const struct model_item *needle)
{
	assert_int_equal(stet_node_key_cmp(node, i, needle->key, needle->key_bytes),
			 model_cmp(&model[i], needle));
}

static void against_a_sorted_model(void **state)
{
	uint8_t *node = exact(STET_NODE_SIZE);
	struct stet_random random;
	struct stet_node_ptr ptr;

	(void)state;
	stet_random_seed(&random, 1);
	for (int round = 0; round < 200; round++) {
		uint32_t level = round % 3 == 2 ? 1 + (uint32_t)round % 15 : 0;
		uint32_t tree = round % 2 ? STET_TREE_RUN : STET_TREE_CATALOG;
		uint32_t want = (uint32_t)stet_random_below(&random, round < 20 ? 1000 : 40) + 1;
		uint32_t n = build(node, random_model(&random, want, tree, level), tree, level,
				   &ptr);

		assert_int_equal(stet_node_verify(node, TEST_VOLUME, tree, level, &ptr), 0);
		assert_int_equal(stet_node_count(node), n);
		assert_int_equal(stet_node_level(node), level);
		for (uint32_t i = 0; i < n; i++) {
			struct stet_item item;
			struct stet_key key;

			stet_node_key(node, i, &key);
			assert_int_equal(key.bytes, model[i].key_bytes);
			assert_memory_equal(key.b, model[i].key, key.bytes);
			stet_node_item(node, i, &item);
			assert_int_equal(item.value_bytes, model[i].value_bytes);
			assert_memory_equal(item.value, model[i].value, item.value_bytes);
			assert_int_equal(item.tombstone, model[i].tombstone);
			assert_search(node, n, &model[i]);
		}
		for (int i = 0; i < 50; i++) {
			struct model_item needle;

			random_needle(&random, &needle);
			assert_search(node, n, &needle);
			assert_key_cmp(node, (uint32_t)stet_random_below(&random, n), &needle);
		}
	}
	free(node);
}

static void node_ptr_round_trip(void **state)
{
	struct stet_node_ptr ptr = { { 0x1111 }, { 0x2222 }, 3, UINT64_MAX };
	struct stet_node_ptr back;
	struct stet_node_ptr_disk disk;

	(void)state;
	stet_node_ptr_encode(&ptr, &disk);
	stet_node_ptr_decode(&disk, &back);
	assert_memory_equal(&ptr, &back, sizeof(ptr));
}

static void boundary_sizes(void **state)
{
	static uint8_t key[STET_ITEM_KEY_MAX];
	static uint8_t value[STET_VALUE_MAX];
	uint8_t *node = exact(STET_NODE_SIZE);
	struct stet_node_builder b;
	uint32_t n = 0;

	(void)state;
	stet_node_begin(&b, node, STET_TREE_CATALOG, 0, NULL, 0);
	assert_int_equal(stet_node_used(&b), 0);
	assert_false(stet_node_fits(&b, STET_ITEM_KEY_MAX + 1, 0));
	assert_false(stet_node_fits(&b, 0, STET_VALUE_MAX + 1));
	stet_node_seal(&b, TEST_VOLUME, 1, NULL, 0, NULL, 0);
	assert_int_equal(stet_node_verify(node, TEST_VOLUME, STET_TREE_CATALOG, 0, NULL), 0);

	stet_node_begin(&b, node, STET_TREE_CATALOG, 0, NULL, 0); /* items of the largest size */
	for (; stet_node_fits(&b, sizeof(key), sizeof(value)); n++) {
		key[0] = (uint8_t)(n + 1);
		stet_node_add(&b, key, sizeof(key), value, sizeof(value), false);
	}
	assert_int_equal(n, 4);
	assert_int_equal(stet_node_used(&b), 4 * (4 + STET_ITEM_KEY_MAX + STET_VALUE_MAX));
	key[0] = 0xff;
	memset(value, 0, sizeof(value));
	stet_node_seal(&b, TEST_VOLUME, 1, value, STET_ITEM_KEY_MAX, key, STET_ITEM_KEY_MAX);
	assert_int_equal(stet_node_verify(node, TEST_VOLUME, STET_TREE_CATALOG, 0, NULL), 0);

	memset(key, 0, sizeof(key)); /* as many items as possible, all keys of the largest size */
	stet_node_begin(&b, node, STET_TREE_CATALOG, 0, key, STET_ITEM_KEY_MAX - 2);
	for (n = 0; stet_node_fits(&b, STET_ITEM_KEY_MAX, 0); n++) {
		stet_put_be16(key + STET_ITEM_KEY_MAX - 2, (uint16_t)n);
		stet_node_add(&b, key, STET_ITEM_KEY_MAX, NULL, 0, false);
	}
	assert_true(n > 2400);
	memset(key, 0xff, sizeof(key));
	stet_node_seal(&b, TEST_VOLUME, 1, "\0", 1, key, STET_ITEM_KEY_MAX);
	assert_int_equal(stet_node_verify(node, TEST_VOLUME, STET_TREE_CATALOG, 0, NULL), 0);
	free(node);
}

static int verify_leaf(const uint8_t *node, void *arg)
{
	return stet_node_verify(node, TEST_VOLUME, STET_TREE_CATALOG, 0, arg);
}

static void every_flip_is_found(void **state)
{
	uint8_t *node = exact(STET_NODE_SIZE);
	struct stet_random random;
	struct stet_node_ptr ptr;

	(void)state;
	stet_random_seed(&random, 2);
	build(node, random_model(&random, 300, STET_TREE_CATALOG, 0), STET_TREE_CATALOG, 0, &ptr);
	assert_flips_found(node, STET_NODE_SIZE, verify_leaf, &ptr);
	assert_flips_found(node, 256, verify_leaf, NULL);
	free(node);
}

static void another_node_is_refused(void **state)
{
	uint8_t *node = exact(STET_NODE_SIZE);
	struct stet_random random;
	struct stet_node_ptr ptr;
	struct stet_node_ptr other;

	(void)state;
	stet_random_seed(&random, 3);
	build(node, random_model(&random, 30, STET_TREE_RUN, 0), STET_TREE_RUN, 0, &ptr);
	assert_int_equal(stet_node_verify(node, TEST_VOLUME, STET_TREE_RUN, 0, &ptr), 0);
	assert_int_equal(stet_node_verify(node, TEST_VOLUME + 1, STET_TREE_RUN, 0, &ptr), -EUCLEAN);
	assert_int_equal(stet_node_verify(node, TEST_VOLUME, STET_TREE_CATALOG, 0, &ptr), -EUCLEAN);
	assert_int_equal(stet_node_verify(node, TEST_VOLUME, STET_TREE_RUN, 1, &ptr), -EUCLEAN);
	other = ptr;
	other.check++;
	assert_int_equal(stet_node_verify(node, TEST_VOLUME, STET_TREE_RUN, 0, &other), -EUCLEAN);
	other = ptr;
	other.birth++;
	assert_int_equal(stet_node_verify(node, TEST_VOLUME, STET_TREE_RUN, 0, &other), -EUCLEAN);
	free(node);
}

static void fix_check(uint8_t *node)
{
	struct stet_node_disk *h = (struct stet_node_disk *)node;

	h->check = le64_make(0);
	h->check = le64_make(stet_crc64(node, STET_NODE_SIZE));
}

/* Everything that upper layers do with a verified node. */
static void use(const uint8_t *node)
{
	const uint8_t *key;
	struct stet_text t = { .p = NULL };
	struct stet_item item;
	struct stet_key k;
	struct stet_node_guide guide;
	uint32_t bytes;
	bool equal;

	stet_node_guide(node, &guide);
	for (uint32_t i = 0; i < stet_node_count(node); i++) {
		stet_node_item(node, i, &item);
		stet_node_key(node, i, &k);
		assert_true(k.bytes <= STET_ITEM_KEY_MAX);
		assert_int_equal(stet_node_key_cmp(node, i, k.b, k.bytes), 0);
		assert_int_equal(stet_node_search(node, &guide, k.b, k.bytes, &equal), i);
		assert_true(equal);
		if (stet_node_level(node) == 0 &&
		    stet_item_verify(k.b, k.bytes, item.value, item.value_bytes, 64))
			continue;
	}
	stet_node_low(node, &key, &bytes);
	stet_node_search(node, &guide, key, bytes, &equal);
	stet_node_high(node, &key, &bytes);
	stet_node_search(node, &guide, key, bytes, &equal);
	stet_node_print(&t, node);
	stet_text_release(&t);
}

static void hostile_nodes_stay_in_bounds(void **state)
{
	uint8_t *good = exact(STET_NODE_SIZE);
	uint8_t *node = exact(STET_NODE_SIZE);
	struct stet_random random;
	struct stet_node_ptr ptr;
	uint32_t accepted = 0;

	(void)state;
	stet_random_seed(&random, 4);
	for (int i = 0; i < 30000; i++) {
		uint32_t level = (uint32_t)i / 100 % 2;
		uint32_t tree = i / 200 % 2 ? STET_TREE_RUN : STET_TREE_CATALOG;

		if (i % 100 == 0)
			build(good, random_model(&random, (uint32_t)i / 100 % 50 + 1, tree, level),
			      tree, level, &ptr);
		memcpy(node, good, STET_NODE_SIZE);
		for (uint64_t n = stet_random_below(&random, 3) + 1; n > 0; n--) {
			uint32_t start = le16_get(((struct stet_node_disk *)good)->items_start) &
					 ~7u;

			if (stet_random_below(&random, 4) == 0) /* fields */
				mutate(&random, node + 0x20, 0x20);
			else if (stet_random_below(&random, 2)) /* and the offset table */
				mutate(&random, node + 0x20, 0x20 + stet_node_count(good) * 2 + 8);
			else /* items */
				mutate(&random, node + start, STET_NODE_SIZE - start);
		}
		fix_check(node);
		int rc = stet_node_verify(node, TEST_VOLUME, tree, level, NULL);

		assert_true(rc == 0 || rc == -EUCLEAN);
		if (rc == 0) {
			use(node);
			accepted++;
		}
	}
	assert_true(accepted > 0);
	free(good);
	free(node);
}

/* One field each, set to what is just wrong. */
static void header_field_limits(void **state)
{
	uint8_t *node = exact(STET_NODE_SIZE);
	struct stet_node_disk *h = (struct stet_node_disk *)node;
	struct stet_node_builder b;

	(void)state;
	stet_node_begin(&b, node, STET_TREE_CATALOG, 0, "key", 3);
	stet_node_add(&b, "key1", 4, "v", 1, false);
	stet_node_add(&b, "key2", 4, "v", 1, false);
	stet_node_seal(&b, TEST_VOLUME, 1, "a", 1, "z", 1);
	struct stet_node_disk good = *h;

#define REFUSED(field, value)                                        \
	do {                                                         \
		*h = good;                                           \
		h->field = value;                                    \
		fix_check(node);                                     \
		assert_int_equal(verify_leaf(node, NULL), -EUCLEAN); \
	} while (0)
	REFUSED(item_count, le16_make(UINT16_MAX));
	REFUSED(items_start, le16_make(STET_NODE_SIZE + 1));
	REFUSED(items_start, le16_make(0x41));
	REFUSED(items_start, le16_make(STET_NODE_SIZE));
	REFUSED(item_count, le16_make(1));
	REFUSED(item_count, le16_make(3));
	REFUSED(items_start, le16_make((uint16_t)(le16_get(good.items_start) - 1)));
	REFUSED(items_start, le16_make((uint16_t)(le16_get(good.items_start) + 1)));
	REFUSED(low_bytes, le16_make(0));
	REFUSED(low_bytes, le16_make(2));
	REFUSED(low_bytes, le16_make(STET_ITEM_KEY_MAX + 1));
	REFUSED(high_bytes, le16_make(0));
	REFUSED(high_bytes, le16_make(UINT16_MAX));
	REFUSED(prefix_bytes, le16_make(0));
	REFUSED(prefix_bytes, le16_make(5)); /* into an item: its suffix does not fit */
	REFUSED(prefix_bytes, le16_make(STET_ITEM_KEY_MAX + 1));
	REFUSED(prefix_bytes, le16_make(UINT16_MAX));
	REFUSED(level, le16_make(1));
	REFUSED(tree, le32_make(3));
#undef REFUSED
	free(node);
}

/* Builds a node that breaks rule number `what` only by what it contains. */
static int verify_breaking(int what)
{
	uint8_t *node = exact(STET_NODE_SIZE);
	uint32_t level = what == 0 || what == 1 || what == 2;
	struct stet_node_ptr_disk value = { 0 };
	struct stet_node_ptr ptr = { .addr = stet_addr_make(3, 4092) };
	struct stet_node_builder b;
	int rc;

	stet_node_begin(&b, node, STET_TREE_CATALOG, level, "m",
			what == 1 || what == 2 || what > 5);
	if (what == 1)
		ptr.addr = stet_addr_make(3, 4093); /* would leave the segment */
	if (what == 2)
		ptr.addr2 = ptr.addr;
	stet_node_ptr_encode(&ptr, &value);
	if (what != 0) /* 0: no items above the leaves */
		stet_node_add(&b, "m", 1, &value, sizeof(value), false);
	if (what == 3)
		stet_node_add(&b, "m", 1, &value, sizeof(value), false); /* equal keys */
	if (what == 4)
		stet_node_add(&b, "a", 1, &value, sizeof(value), false);
	if (what == 5)
		stet_node_add(&b, "n", 1, NULL, 0, true); /* tombstone in the catalog */
	stet_node_seal(&b, TEST_VOLUME, 1, what == 6 ? "n" : "b", 1, what == 7 ? "m" : "x", 1);
	rc = stet_node_verify(node, TEST_VOLUME, STET_TREE_CATALOG, level, NULL);
	free(node);
	return rc;
}

/* An item that hides in the value of another would let a node unfold to many times its size. */
static void items_that_overlap_are_refused(void **state)
{
	static const uint8_t inner[] = { 1, 0, 'z' };
	uint8_t *node = exact(STET_NODE_SIZE);
	uint8_t value[300] = { 0 };
	struct stet_node_builder b;

	(void)state;
	memcpy(value, inner, sizeof(inner));
	stet_node_begin(&b, node, STET_TREE_CATALOG, 0, NULL, 0);
	stet_node_add(&b, "a", 1, value, sizeof(value), false);
	stet_put_le16(node + sizeof(struct stet_node_disk) + 2,
		      (uint16_t)(b.items_start + STET_ITEM_HEADER_BYTES + 1));
	b.item_count = 2;
	stet_node_seal(&b, TEST_VOLUME, 1, NULL, 0, NULL, 0);
	assert_int_equal(verify_leaf(node, NULL), -EUCLEAN);
	free(node);
}

/* A leaf of one or two keys with that prefix. */
static int verify_prefix_of(const char *prefix, const char *one, const char *two)
{
	uint8_t *node = exact(STET_NODE_SIZE);
	struct stet_node_builder b;
	int rc;

	stet_node_begin(&b, node, STET_TREE_CATALOG, 0, prefix, strlen(prefix));
	if (one)
		stet_node_add(&b, one, strlen(one), "v", 1, false);
	if (two)
		stet_node_add(&b, two, strlen(two), "v", 1, false);
	stet_node_seal(&b, TEST_VOLUME, 1, NULL, 0, NULL, 0);
	rc = verify_leaf(node, NULL);
	free(node);
	return rc;
}

static void the_prefix_is_the_longest(void **state)
{
	(void)state;
	assert_int_equal(verify_prefix_of("ab", "abc", "abd"), 0);
	assert_int_equal(verify_prefix_of("a", "abc", "abd"), -EUCLEAN);
	assert_int_equal(verify_prefix_of("", "abc", "abd"), -EUCLEAN);
	assert_int_equal(verify_prefix_of("", "a", "b"), 0);
	assert_int_equal(verify_prefix_of("ab", "ab", "abd"), 0);
	assert_int_equal(verify_prefix_of("a", "ab", "abd"), -EUCLEAN);
	assert_int_equal(verify_prefix_of("abc", "abc", NULL), 0);
	assert_int_equal(verify_prefix_of("ab", "abc", NULL), -EUCLEAN);
	assert_int_equal(verify_prefix_of("", "abc", NULL), -EUCLEAN);
	assert_int_equal(verify_prefix_of("", "", NULL), 0);
	assert_int_equal(verify_prefix_of("", NULL, NULL), 0);
	assert_int_equal(verify_prefix_of("a", NULL, NULL), -EUCLEAN);
}

/* A prefix and a suffix that are each short enough, but not together. */
static void long_keys_are_refused(void **state)
{
	static const size_t prefix_bytes[] = { 1, 200, 221, 222, 300, STET_ITEM_KEY_MAX };
	uint8_t *node = exact(STET_NODE_SIZE);
	uint8_t key[STET_ITEM_KEY_MAX] = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(prefix_bytes) / sizeof(prefix_bytes[0]); i++) {
		int expect = prefix_bytes[i] + 300 <= STET_ITEM_KEY_MAX ? 0 : -EUCLEAN;
		struct stet_node_builder b;

		stet_node_begin(&b, node, STET_TREE_CATALOG, 0, key, prefix_bytes[i]);
		b.prefix_bytes = 0; /* what is added now are suffixes */
		stet_node_add(&b, "\0", 1, "v", 1, false);
		key[0] = 1;
		stet_node_add(&b, key, 300, "v", 1, false);
		key[0] = 0;
		stet_node_seal(&b, TEST_VOLUME, 1, NULL, 0, NULL, 0);
		assert_int_equal(verify_leaf(node, NULL), expect);
	}
	free(node);
}

static void content_rules(void **state)
{
	(void)state;
	for (int what = 0; what < 8; what++)
		assert_int_equal(verify_breaking(what), -EUCLEAN);
	assert_int_equal(verify_breaking(8), 0);
}

static void printing(void **state)
{
	uint8_t *node = exact(STET_NODE_SIZE);
	struct stet_text t = { .p = NULL };
	struct stet_dirent dirent = { .ino = 42, .type = 8 };
	struct stet_node_builder b;
	struct stet_key k;
	uint8_t value[16];

	(void)state;
	stet_key_inode(&k, 1);
	stet_node_begin(&b, node, STET_TREE_RUN, 0, k.b, 7);
	stet_key_dirent(&k, 1, "passwd", 6);
	stet_node_add(&b, k.b, k.bytes, value, stet_dirent_encode(&dirent, value), false);
	stet_key_inode(&k, 2);
	stet_node_add(&b, k.b, k.bytes, NULL, 0, true);
	stet_node_seal(&b, TEST_VOLUME, 1, NULL, 0, NULL, 0);
	stet_node_print(&t, node);
	assert_non_null(strstr(stet_text_cstr(&t), "1 dirent passwd: inode 42"));
	assert_prints(&t, "2 inode: (deleted)");
	free(node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(against_a_sorted_model),
		cmocka_unit_test(node_ptr_round_trip),
		cmocka_unit_test(boundary_sizes),
		cmocka_unit_test(every_flip_is_found),
		cmocka_unit_test(another_node_is_refused),
		cmocka_unit_test(hostile_nodes_stay_in_bounds),
		cmocka_unit_test(header_field_limits),
		cmocka_unit_test(items_that_overlap_are_refused),
		cmocka_unit_test(the_prefix_is_the_longest),
		cmocka_unit_test(long_keys_are_refused),
		cmocka_unit_test(content_rules),
		cmocka_unit_test(printing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
