/* list.c - the intrusive list. */
#include "base/list.h"

#include "unit.h"

struct item {
	int number;
	struct stet_list link;
};

static struct item *item_of(struct stet_list *link)
{
	return stet_container_of(link, struct item, link);
}

static void assert_list(struct stet_list *head, const int *want, int n)
{
	struct stet_list *pos;
	int i = 0;

	STET_LIST_FOREACH(pos, head) {
		assert_true(i < n);
		assert_int_equal(item_of(pos)->number, want[i]);
		assert_ptr_equal(pos->next->prev, pos);
		i++;
	}
	assert_int_equal(i, n);
}

static void add_and_delete(void **state)
{
	struct stet_list head;
	struct item item[4];

	(void)state;
	stet_list_init(&head);
	assert_true(stet_list_empty(&head));
	assert_null(stet_list_first(&head));
	assert_null(stet_list_last(&head));
	for (int i = 0; i < 4; i++) {
		item[i].number = i;
		stet_list_init(&item[i].link);
		assert_false(stet_list_linked(&item[i].link));
	}
	stet_list_add_tail(&head, &item[1].link);
	stet_list_add_tail(&head, &item[2].link);
	stet_list_add_head(&head, &item[0].link);
	stet_list_add_before(&item[2].link, &item[3].link);
	assert_list(&head, (int[]){ 0, 1, 3, 2 }, 4);
	assert_ptr_equal(stet_list_first(&head), &item[0].link);
	assert_ptr_equal(stet_list_last(&head), &item[2].link);
	assert_true(stet_list_linked(&item[3].link));
	stet_list_del(&item[3].link);
	stet_list_del(&item[3].link);
	assert_false(stet_list_linked(&item[3].link));
	assert_list(&head, (int[]){ 0, 1, 2 }, 3);
}

static void deleting_while_walking(void **state)
{
	struct stet_list *pos;
	struct stet_list *tmp;
	struct stet_list head;
	struct item item[10];

	(void)state;
	stet_list_init(&head);
	for (int i = 0; i < 10; i++) {
		item[i].number = i;
		stet_list_add_tail(&head, &item[i].link);
	}
	STET_LIST_FOREACH_SAFE(pos, tmp, &head) {
		if (item_of(pos)->number % 3 != 0)
			stet_list_del(pos);
	}
	assert_list(&head, (int[]){ 0, 3, 6, 9 }, 4);
}

static void splicing(void **state)
{
	struct stet_list a;
	struct stet_list b;
	struct item item[4];

	(void)state;
	stet_list_init(&a);
	stet_list_init(&b);
	for (int i = 0; i < 4; i++) {
		item[i].number = i;
		stet_list_add_tail(i < 2 ? &a : &b, &item[i].link);
	}
	stet_list_splice_tail(&a, &b);
	assert_true(stet_list_empty(&b));
	assert_list(&a, (int[]){ 0, 1, 2, 3 }, 4);
	stet_list_splice_tail(&a, &b);
	assert_list(&a, (int[]){ 0, 1, 2, 3 }, 4);
	stet_list_splice_tail(&b, &a);
	assert_true(stet_list_empty(&a));
	assert_list(&b, (int[]){ 0, 1, 2, 3 }, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add_and_delete),
		cmocka_unit_test(deleting_while_walking),
		cmocka_unit_test(splicing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
