/* test_span.c - the tree of spans against a plain array. */
#include "txn/span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/random.h"

#define SPANS 400

struct item {
	struct stet_span span;
	char from[24], to[24];
	bool in, met;
};

static struct item items[SPANS];
static const char owners[3];

static int cmp(const char *a, const char *b)
{
	return strcmp(a, b);
}

/* Few letters, and a common beginning that is longer than the head of a bound. */
static void random_key(struct stet_random *rnd, char key[24])
{
	size_t n = 0;

	if (stet_random_below(rnd, 2))
		n = (size_t)sprintf(key, "a-common-beginning");
	for (uint64_t more = stet_random_below(rnd, 5); more > 0; more--)
		key[n++] = (char)('a' + stet_random_below(rnd, 3));
	key[n] = 0;
}

static void set_bounds(struct stet_span *span, const char *from, const char *to)
{
	stet_bound_string(&span->from, (const uint8_t *)from, strlen(from));
	stet_bound_string(&span->to, (const uint8_t *)to, strlen(to));
}

static void random_span(struct stet_random *rnd, char from[24], char to[24])
{
	do {
		random_key(rnd, from);
		random_key(rnd, to);
	} while (cmp(from, to) >= 0);
}

static bool note_met(void *arg, struct stet_span *span)
{
	struct item *item = stet_container_of(span, struct item, span);
	int *left = arg;

	assert_true(item->in && !item->met);
	item->met = true;
	return --*left == 0;
}

/* What the array says of an item. */
static bool should_meet(const struct item *item, const char *from, const char *to,
			const struct stet_span_look *look)
{
	int ends = look->also & STET_SPAN_ENDS_AT_FROM ? 0 : 1;
	int begins = look->also & STET_SPAN_BEGINS_AT_TO ? 0 : -1;
	bool own = item->span.owner == look->owner;

	return item->in && cmp(item->to, from) >= ends && cmp(item->from, to) <= begins &&
	       look->whose[item->span.group] & (own ? STET_SPAN_OWN : STET_SPAN_OTHERS);
}

static void compare(struct stet_spans *spans, struct stet_random *rnd)
{
	struct stet_span q;
	char from[24], to[24];
	struct stet_span_look look = { .from = &q.from,
				       .to = &q.to,
				       .owner = &owners[stet_random_below(rnd, 3)],
				       .also = (unsigned)stet_random_below(rnd, 4),
				       .whose = { (unsigned)stet_random_below(rnd, 4),
						  (unsigned)stet_random_below(rnd, 4),
						  (unsigned)stet_random_below(rnd, 4) },
				       .left = SIZE_MAX };
	int left = -1;

	random_span(rnd, from, to);
	if ((look.also & STET_SPAN_BEGINS_AT_TO) && stet_random_below(rnd, 2))
		strcpy(to, from);
	set_bounds(&q, from, to);
	for (int i = 0; i < SPANS; i++)
		items[i].met = false;
	assert_null(stet_spans_find(spans, &look, note_met, &left));
	for (int i = 0; i < SPANS; i++)
		assert_int_equal(items[i].met, should_meet(&items[i], from, to, &look));
	assert_true(look.left > 0);
	look.left = (size_t)stet_random_below(rnd, 16); /* some are left out only if that is told */
	for (int i = 0; i < SPANS; i++)
		items[i].met = false;
	assert_null(stet_spans_find(spans, &look, note_met, &left));
	for (int i = 0; i < SPANS; i++) {
		bool should = should_meet(&items[i], from, to, &look);

		assert_true(look.left > 0 ? items[i].met == should : items[i].met <= should);
	}
	look.left = SIZE_MAX;
	left = 1;
	for (int i = 0; i < SPANS; i++)
		items[i].met = false;
	struct stet_span *first = stet_spans_find(spans, &look, note_met, &left);
	for (int i = 0; i < SPANS; i++) { /* the first that says so is the first in order */
		if (first && should_meet(&items[i], from, to, &look))
			assert_true(stet_bound_cmp(&first->from, &items[i].span.from) <= 0);
	}
}

static void test_random(void **state)
{
	struct stet_random rnd;
	struct stet_spans spans;

	(void)state;
	stet_random_seed(&rnd, 11);
	stet_spans_init(&spans, 5);
	for (int step = 0; step < 20000; step++) {
		struct item *item = &items[stet_random_below(&rnd, SPANS)];

		if (item->in) {
			stet_spans_remove(&spans, &item->span);
		} else {
			random_span(&rnd, item->from, item->to);
			set_bounds(&item->span, item->from, item->to);
			/* mostly one's own, as long stretches are to be passed over */
			item->span.owner = &owners[stet_random_below(&rnd, 9) / 4];
			item->span.group = (unsigned)stet_random_below(&rnd, STET_SPAN_GROUPS);
			stet_spans_add(&spans, &item->span);
		}
		item->in = !item->in;
		if (step % 10 == 0)
			compare(&spans, &rnd);
		if (step % 100 == 0)
			stet_spans_check(&spans);
	}
}

/* Bounds: numbers, strings, and what lies behind everything. */
static void test_order(void **state)
{
	static const char *const rising[] = { "",          "a",        "ab", "abcdefgh",
					      "abcdefghi", "abcdefgi", "b" };
	struct stet_bound a, b, end = { .open = true };

	(void)state;
	for (size_t i = 0; i < sizeof(rising) / sizeof(rising[0]); i++) {
		stet_bound_string(&a, (const uint8_t *)rising[i], strlen(rising[i]));
		assert_true(stet_bound_cmp(&a, &end) < 0 && stet_bound_cmp(&end, &a) > 0);
		for (size_t k = 0; k < sizeof(rising) / sizeof(rising[0]); k++) {
			stet_bound_string(&b, (const uint8_t *)rising[k], strlen(rising[k]));
			assert_int_equal(stet_bound_cmp(&a, &b) < 0, i < k);
			assert_int_equal(stet_bound_cmp(&a, &b) == 0, i == k);
		}
	}
	stet_bound_string(&a, (const uint8_t *)"a", 1);
	stet_bound_string(&b, (const uint8_t *)"a\0", 2);
	assert_true(stet_bound_cmp(&a, &b) < 0);
	stet_bound_number(&a, 7);
	stet_bound_number(&b, 8);
	assert_true(stet_bound_cmp(&a, &b) < 0 && stet_bound_cmp(&a, &a) == 0);
}

/* What is kept is a copy; one for both where one begins the other. The empty one, from which a scan of all
 * begins, needs none. */
static void test_keep(void **state)
{
	static const char *const lower[] = { "", "k", "key", "other" };
	char to_bytes[] = "key";

	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		char from_bytes[8];
		struct stet_bound from, to;

		strcpy(from_bytes, lower[k]);
		stet_bound_string(&from, (const uint8_t *)from_bytes, strlen(from_bytes));
		stet_bound_string(&to, (const uint8_t *)to_bytes, strlen(to_bytes));
		assert_int_equal(stet_bounds_keep(&from, &to), 0);
		assert_int_equal(from.keep == to.keep, k == 1 || k == 2);
		assert_int_equal(from.keep == NULL, k == 0);
		memset(from_bytes, 'x', sizeof(from_bytes));
		if (from.len > 0)
			assert_memory_equal(from.b, lower[k], from.len);
		assert_memory_equal(to.b, "key", 3);
		stet_bound_release(&from);
		stet_bound_release(&to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random),
					    cmocka_unit_test(test_order),
					    cmocka_unit_test(test_keep) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
