/* skiplist.c - random operations against a sorted array. */
#include "base/skiplist.h"

#include "base/mem.h"
#include "base/random.h"

#include "unit.h"

#include <string.h>

#define MAX_KEYS 1500
#define MAX_KEY_BYTES 24

struct model_key {
	uint8_t bytes[MAX_KEY_BYTES];
	size_t len;
	void *value;
};

struct model {
	struct model_key key[MAX_KEYS];
	size_t n;
};

static int compare(const struct model_key *key, const uint8_t *bytes, size_t len)
{
	size_t common = key->len < len ? key->len : len;
	int order = memcmp(key->bytes, bytes, common);

	if (order)
		return order;
	return (key->len > len) - (key->len < len);
}

/* The place of the first key >= the one given. */
static size_t model_lower(const struct model *model, const uint8_t *bytes, size_t len)
{
	size_t i = 0;

	while (i < model->n && compare(&model->key[i], bytes, len) < 0)
		i++;
	return i;
}

static bool model_has(const struct model *model, size_t i, const uint8_t *bytes, size_t len)
{
	return i < model->n && compare(&model->key[i], bytes, len) == 0;
}

static void model_insert(struct model *model, size_t i, const uint8_t *bytes, size_t len,
			 void *value)
{
	assert_true(model->n < MAX_KEYS);
	memmove(&model->key[i + 1], &model->key[i], (model->n - i) * sizeof(model->key[0]));
	memcpy(model->key[i].bytes, bytes, len);
	model->key[i].len = len;
	model->key[i].value = value;
	model->n++;
}

static void model_remove(struct model *model, size_t i)
{
	model->n--;
	memmove(&model->key[i], &model->key[i + 1], (model->n - i) * sizeof(model->key[0]));
}

static void assert_node(const struct stet_skipnode *node, const struct model *model, size_t i)
{
	if (i >= model->n) {
		assert_null(node);
		return;
	}
	assert_non_null(node);
	assert_int_equal(node->key_len, model->key[i].len);
	assert_memory_equal(stet_skipnode_key(node), model->key[i].bytes, node->key_len);
	assert_ptr_equal(node->value, model->key[i].value);
}

static void assert_same(const struct stet_skiplist *sl, const struct model *model)
{
	const struct stet_skipnode *node = stet_skiplist_first(sl);

	stet_skiplist_check(sl);
	assert_int_equal(stet_skiplist_count(sl), model->n);
	for (size_t i = 0; i < model->n; i++) {
		assert_node(node, model, i);
		node = stet_skiplist_next(node);
	}
	assert_null(node);
}

/* Few different bytes, so that keys are often equal or prefixes of each other. */
static size_t random_key(struct stet_random *random, uint8_t *bytes, size_t max_len)
{
	static const uint8_t alphabet[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	size_t len = stet_random_below(random, max_len + 1);

	for (size_t i = 0; i < len; i++)
		bytes[i] = alphabet[stet_random_below(random, sizeof(alphabet))];
	return len;
}

/* Backwards from below a key, some of the way. */
static void walk_back(const struct stet_skiplist *sl, const struct model *model, const uint8_t *key,
		      size_t len, size_t steps)
{
	struct stet_skippath path;
	struct stet_skipnode *node = stet_skiplist_seek_below(sl, key, len, &path);
	size_t i = model_lower(model, key, len);

	for (; steps > 0 && i > 0; steps--, i--) {
		assert_node(node, model, i - 1);
		node = stet_skiplist_prev(sl, &path);
	}
	assert_node(node, model, i > 0 ? i - 1 : model->n);
	if (i == 0)
		assert_null(stet_skiplist_prev(sl, &path));
}

static void step(struct stet_skiplist *sl, struct model *model, struct stet_random *random,
		 size_t max_len)
{
	uint8_t key[MAX_KEY_BYTES];
	size_t len = random_key(random, key, max_len);
	size_t i = model_lower(model, key, len);
	bool has = model_has(model, i, key, len);
	void *value = (void *)(uintptr_t)stet_random_below(random, 1000000);
	struct stet_skipnode *node = stet_skiplist_lower_bound(sl, key, len);

	assert_node(node, model, i);
	assert_node(stet_skiplist_below(sl, key, len), model, i > 0 ? i - 1 : model->n);
	assert_ptr_equal(stet_skiplist_find(sl, key, len), has ? node : NULL);
	walk_back(sl, model, key, len, stet_random_below(random, 16));
	if (stet_random_below(random, 5) < 3 && (has || model->n < MAX_KEYS)) {
		assert_int_equal(stet_skiplist_insert(sl, key, len, &node), has ? -EEXIST : 0);
		if (!has) {
			assert_null(node->value);
			node->value = value;
			model_insert(model, i, key, len, value);
		}
		assert_node(node, model, i);
	} else if (node) {
		stet_skiplist_remove(sl, node);
		model_remove(model, i);
	}
}

static void count_value(void *arg, struct stet_skipnode *node)
{
	struct model *model = arg;

	assert_node(node, model, 0);
	model_remove(model, 0);
}

static void random_run(uint64_t seed, size_t max_len)
{
	static struct model model;
	struct stet_random random;
	struct stet_skiplist sl;

	model.n = 0;
	stet_random_seed(&random, seed);
	stet_skiplist_init(&sl, seed, 0);
	for (int i = 0; i < 8000; i++) {
		step(&sl, &model, &random, max_len);
		if (i % 200 == 0) {
			assert_same(&sl, &model);
			walk_back(&sl, &model, (const uint8_t *)"\xff\xff\xff\xff\xff", 5,
				  SIZE_MAX);
		}
	}
	assert_same(&sl, &model);
	stet_skiplist_release(&sl, count_value, &model);
	assert_int_equal(model.n, 0);
	assert_same(&sl, &model);
	assert_int_equal(stet_skiplist_bytes(&sl), 0);
	stet_skiplist_release(&sl, NULL, NULL);
	stet_skiplist_release(NULL, NULL, NULL);
}

static void random_operations(void **state)
{
	(void)state;
	random_run(1, 3);
	random_run(2, 9); /* around the cached prefix */
	random_run(3, MAX_KEY_BYTES);
	random_run(UINT64_MAX, 5);
}

struct sweep {
	struct model *model;
	struct stet_random random;
	size_t at;
};

static bool keep_some(void *arg, struct stet_skipnode *node)
{
	struct sweep *s = arg;

	assert_node(node, s->model, s->at);
	assert_int_equal(*(uint64_t *)node->value, 0);
	assert_ptr_equal(stet_skipnode_of(node->value, 24), node);
	if (stet_random_below(&s->random, 3) > 0) {
		s->at++;
		return true;
	}
	model_remove(s->model, s->at);
	return false;
}

/* In parts, in a list whose nodes have values of their own. */
static void sweeping(void **state)
{
	static struct model model;
	struct stet_skipnode *node = NULL;
	uint8_t key[MAX_KEY_BYTES];
	struct sweep s = { .model = &model };
	struct stet_skiplist sl;

	(void)state;
	stet_random_seed(&s.random, 5);
	stet_skiplist_init(&sl, 5, 24);
	for (int round = 0; round < 60; round++) {
		size_t len = 0;

		while (model.n < MAX_KEYS / 2) {
			size_t bytes = random_key(&s.random, key, 9);

			if (stet_skiplist_insert(&sl, key, bytes, &node) == 0)
				model_insert(&model, model_lower(&model, key, bytes), key, bytes,
					     node->value);
		}
		s.at = 0;
		do {
			size_t most = (size_t)stet_random_below(&s.random, 40) + 1;

			node = stet_skiplist_sweep(&sl, key, len, most, keep_some, &s);
			if (node)
				memcpy(key, stet_skipnode_key(node), len = node->key_len);
			stet_skiplist_check(&sl);
		} while (node);
		assert_int_equal(s.at, model.n);
		assert_same(&sl, &model);
	}
	stet_skiplist_release(&sl, NULL, NULL);
}

static void failing_leaves_it_as_it_was(void **state)
{
	struct stet_skipnode *node = NULL;
	struct stet_skiplist sl;

	(void)state;
	stet_skiplist_init(&sl, 7, 0);
	assert_int_equal(stet_skiplist_insert(&sl, "b", 1, &node), 0);
	node->value = &sl;
	for (int i = 0; i < 100; i++) { /* all heights */
		stet_mem_fail_after(1);
		assert_int_equal(stet_skiplist_insert(&sl, "a", 1, &node), -ENOMEM);
		assert_int_equal(stet_skiplist_insert(&sl, "b", 1, &node), -EEXIST);
		assert_ptr_equal(node->value, &sl);
		stet_skiplist_check(&sl);
	}
	stet_mem_fail_after(-1);
	assert_int_equal(stet_skiplist_count(&sl), 1);
	stet_skiplist_release(&sl, NULL, NULL);
}

static void key_lengths_have_a_limit(void **state)
{
	static uint8_t key[STET_SKIPLIST_MAX_KEY_BYTES + 1];
	struct stet_skipnode *node = NULL;
	struct stet_skiplist sl;

	(void)state;
	stet_skiplist_init(&sl, 7, 0);
	assert_int_equal(stet_skiplist_insert(&sl, key, sizeof(key), &node), -EINVAL);
	assert_int_equal(stet_skiplist_insert(&sl, key, sizeof(key) - 1, &node), 0);
	assert_int_equal(stet_skiplist_insert(&sl, NULL, 0, &node), 0);
	assert_ptr_equal(stet_skiplist_first(&sl), node);
	assert_ptr_equal(stet_skiplist_find(&sl, "", 0), node);
	assert_int_equal(stet_skiplist_count(&sl), 2);
	stet_skiplist_check(&sl);
	stet_skiplist_release(&sl, NULL, NULL);
}

static void heights_are_as_planned(void **state)
{
	struct stet_skipnode *node = NULL;
	struct stet_skiplist sl;
	size_t higher = 0;
	uint8_t key[4];

	(void)state;
	stet_skiplist_init(&sl, 0, 0);
	for (uint32_t i = 0; i < 40000; i++) {
		memcpy(key, &i, sizeof(key));
		assert_int_equal(stet_skiplist_insert(&sl, key, sizeof(key), &node), 0);
		higher += node->height > 1;
	}
	assert_true(higher > 9000 && higher < 11000); /* a quarter */
	stet_skiplist_check(&sl);
	stet_skiplist_release(&sl, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations),
		cmocka_unit_test(sweeping),
		cmocka_unit_test(failing_leaves_it_as_it_was),
		cmocka_unit_test(key_lengths_have_a_limit),
		cmocka_unit_test(heights_are_as_planned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
