/* test_touch.c - nodes rewritten because their place is being cleaned: these and their ancestors,
 * nothing else. */
#include "gen.h"

#define LIMIT (32u << 20)

struct node {
	struct stet_node_ptr ptr;
	uint32_t level;
	struct stet_key low;
	struct stet_key high;
	bool expected;
};

struct nodes {
	STET_VEC(struct node) list;
};

static int collect(void *arg, const struct stet_node_ptr *ptr, uint32_t level, const uint8_t *node)
{
	struct nodes *nodes = arg;
	struct node n = { .ptr = *ptr, .level = level };
	const uint8_t *key;
	uint32_t bytes;

	stet_node_low(node, &key, &bytes);
	n.low.bytes = (uint16_t)bytes;
	memcpy(n.low.b, key, bytes);
	stet_node_high(node, &key, &bytes);
	n.high.bytes = (uint16_t)bytes;
	memcpy(n.high.b, key, bytes);
	assert_int_equal(stet_vec_push(&nodes->list, n), 0);
	return 0;
}

static bool covers(const struct node *n, const struct stet_key *key)
{
	return stet_key_cmp(n->low.b, n->low.bytes, key->b, key->bytes) <= 0 &&
	       (n->high.bytes == 0 ||
		stet_key_cmp(key->b, key->bytes, n->high.b, n->high.bytes) < 0);
}

static int compare(const void *a, const void *b)
{
	const struct stet_touch *x = a, *y = b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	return stet_key_cmp(x->key, x->key_bytes, y->key, y->key_bytes);
}

static bool is_freed(const struct harness *h, const struct node *n)
{
	return h->state[testvol_offset(n->ptr.addr) / STET_BLOCK_SIZE] == NODE_FREED;
}

static void load(struct harness *h, enum gen_kind kind, uint64_t count, struct stet_random *random)
{
	struct entries batch = { 0 };

	for (uint64_t n = 0; n < count; n++)
		gen_put(&batch, kind, n, random);
	harness_apply(h, &batch, 0);
	entries_release(&batch);
}

/* Touches about one node of `out_of`; level < 0: any level. Fills touches and expectations. */
static size_t choose(struct nodes *nodes, struct stet_touch *touches, uint64_t out_of, int level,
		     struct stet_random *random)
{
	size_t count = 0;

	for (size_t i = 0; i < nodes->list.n; i++) {
		struct node *n = &nodes->list.v[i];

		if ((level >= 0 && n->level != (uint32_t)level) ||
		    stet_random_below(random, out_of) != 0)
			continue;
		touches[count++] = (struct stet_touch){
			.level = n->level,
			.key = n->low.b,
			.key_bytes = n->low.bytes,
		};
		for (size_t j = 0; j < nodes->list.n; j++) {
			struct node *m = &nodes->list.v[j];

			if (m->level >= n->level && covers(m, &n->low))
				m->expected = true;
		}
	}
	qsort(touches, count, sizeof(*touches), compare);
	return count;
}

static void test_touches_alone(void **state)
{
	struct entries none = { 0 };
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 30);
	for (int i = 0; i < 24; i++) {
		struct nodes nodes = { 0 };
		struct stet_touch *touches;
		struct stet_root root;
		struct harness h;
		uint64_t expected = 0;
		size_t count;

		harness_open(&h, STET_TREE_CATALOG, LIMIT);
		load(&h, GEN_LONG_KEYS, 2000, &random);
		assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &h.root, collect, &nodes), 0);
		touches = calloc(nodes.list.n, sizeof(*touches));
		assert_non_null(touches);
		count = choose(&nodes, touches, 1 + (uint64_t)i % 5 * 7, i % 4 - 1, &random);
		assert_int_equal(harness_try(&h, &none, touches, count, (uint32_t)i % 3, &root), 0);
		for (size_t j = 0; j < nodes.list.n; j++) {
			assert_int_equal(is_freed(&h, &nodes.list.v[j]), nodes.list.v[j].expected);
			expected += nodes.list.v[j].expected;
		}
		assert_int_equal(h.written, expected);
		assert_int_equal(h.changed, 0);
		harness_accept(&h, &none, &root);
		free(touches);
		stet_vec_release(&nodes.list);
		harness_close(&h);
	}
}

/* With changes at the same time: all that was touched is rewritten, and the model holds. */
static void test_touches_with_changes(void **state)
{
	struct stet_random random;
	struct harness h;

	(void)state;
	stet_random_seed(&random, 31);
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	load(&h, GEN_LONG_KEYS, 1500, &random);
	for (int i = 0; i < 40; i++) {
		struct entries batch = { 0 };
		struct nodes nodes = { 0 };
		struct stet_touch *touches;
		struct stet_root root;
		size_t count;

		assert_int_equal(stet_tree_walk(h.vol.cache, h.tree, &h.root, collect, &nodes), 0);
		touches = calloc(nodes.list.n + 1, sizeof(*touches));
		assert_non_null(touches);
		count = choose(&nodes, touches, 6, -1, &random);
		for (uint64_t j = stet_random_below(&random, 400); j > 0; j--) {
			uint64_t n = stet_random_below(&random, 2000);

			if (stet_random_below(&random, 10) < (i < 20 ? 3u : 7u))
				gen_put(&batch, GEN_LONG_KEYS, n, &random);
			else
				gen_delete(&batch, GEN_LONG_KEYS, n);
		}
		assert_int_equal(harness_try(&h, &batch, touches, count, 1, &root), 0);
		for (size_t j = 0; j < nodes.list.n; j++)
			assert_true(!nodes.list.v[j].expected || is_freed(&h, &nodes.list.v[j]));
		harness_accept(&h, &batch, &root);
		free(touches);
		stet_vec_release(&nodes.list);
		entries_release(&batch);
	}
	harness_close(&h);
}

/* Touches of levels that are not there, and in an empty tree, do nothing. */
static void test_touches_of_nothing(void **state)
{
	const uint8_t key[] = { 1 };
	struct stet_touch touches[] = {
		{ .level = 0, .key = key, .key_bytes = 1 },
		{ .level = 7, .key = key, .key_bytes = 1 },
	};
	struct entries none = { 0 };
	struct stet_random random;
	struct harness h;

	(void)state;
	stet_random_seed(&random, 32);
	harness_open(&h, STET_TREE_CATALOG, LIMIT);
	harness_apply_touched(&h, &none, touches, 2, 0);
	load(&h, GEN_SMALL, 1000, &random);
	harness_apply_touched(&h, &none, touches + 1, 1, 0);
	assert_int_equal(h.written, 0);
	harness_apply_touched(&h, &none, touches, 2, 0);
	assert_int_equal(h.written, h.root.level + 1);
	harness_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_touches_alone),
		cmocka_unit_test(test_touches_with_changes),
		cmocka_unit_test(test_touches_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
