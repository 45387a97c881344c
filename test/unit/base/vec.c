/* vec.c - the growing array. */
#include "base/vec.h"

#include "unit.h"

struct pair {
	uint32_t a;
	char b;
};

static void pushes_and_pops(void **state)
{
	STET_VEC(struct pair) vec;

	(void)state;
	stet_vec_init(&vec);
	for (uint32_t i = 0; i < 10000; i++) {
		struct pair pair = { i, (char)(i % 100) };

		assert_int_equal(stet_vec_push(&vec, pair), 0);
		assert_true(vec.n <= vec.cap);
	}
	assert_int_equal(vec.n, 10000);
	for (uint32_t i = 0; i < 10000; i++) {
		assert_int_equal(vec.v[i].a, i);
		assert_int_equal(vec.v[i].b, i % 100);
	}
	assert_int_equal(stet_vec_pop(&vec).a, 9999);
	assert_int_equal(vec.n, 9999);
	stet_vec_clear(&vec);
	assert_int_equal(vec.n, 0);
	assert_true(vec.cap > 0);
	stet_vec_release(&vec);
	assert_null(vec.v);
}

static void failing_leaves_it_as_it_was(void **state)
{
	STET_VEC(int) vec = { 0 };
	int evaluated = 0;
	size_t n;

	(void)state;
	stet_mem_fail_after(1);
	assert_int_equal(stet_vec_push(&vec, ++evaluated), -ENOMEM);
	assert_int_equal(evaluated, 0);
	stet_mem_fail_after(3);
	while (stet_vec_push(&vec, ++evaluated) == 0)
		continue;
	n = vec.n;
	assert_int_equal(n, evaluated);
	assert_int_equal(vec.cap, n);
	stet_mem_fail_after(-1);
	assert_int_equal(stet_vec_push(&vec, ++evaluated), 0);
	for (size_t i = 0; i <= n; i++)
		assert_int_equal(vec.v[i], i + 1);
	assert_int_equal(stet_vec_reserve(&vec, SIZE_MAX), -ENOMEM);
	assert_int_equal(stet_vec_reserve(&vec, SIZE_MAX / 4), -ENOMEM);
	assert_int_equal(stet_vec_reserve(&vec, 100000), 0);
	assert_true(vec.cap - vec.n >= 100000);
	stet_vec_release(&vec);
}

static void reserving_nothing_is_fine(void **state)
{
	STET_VEC(int) vec = { 0 };

	(void)state;
	assert_int_equal(stet_vec_reserve(&vec, 0), 0);
	assert_int_equal(vec.n, 0);
	stet_vec_release(&vec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pushes_and_pops),
		cmocka_unit_test(failing_leaves_it_as_it_was),
		cmocka_unit_test(reserving_nothing_is_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
