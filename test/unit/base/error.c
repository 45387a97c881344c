/* error.c - the ring of failures. */
#include "base/error.h"

#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int fail_here(int n)
{
	return STET_FAIL(-EUCLEAN, "seg %d: summary crc", n);
}

static void text_and_place_are_apart(void **state)
{
	(void)state;
	stet_error_clear();
	assert_string_equal(stet_error_text(), "");
	assert_string_equal(stet_error_place(), "");
	assert_null(stet_error_entry(0));
	assert_int_equal(fail_here(7), -EUCLEAN);
	assert_string_equal(stet_error_text(), "seg 7: summary crc");
	assert_non_null(strstr(stet_error_place(), "error.c:"));
	assert_int_equal(stet_error_entry(0)->err, -EUCLEAN);
}

static void path_is_cut_to_layer_and_file(void **state)
{
	(void)state;
	stet_error_record(-EIO, "../src/log/seg.c", 12, "x");
	assert_string_equal(stet_error_place(), "log/seg.c:12");
	stet_error_record(-EIO, "/home/src/me/src/log/seg.c", 12, "x");
	assert_string_equal(stet_error_place(), "log/seg.c:12");
	stet_error_record(-EIO, "../test/a.c", 1, "x");
	assert_string_equal(stet_error_place(), "test/a.c:1");
}

static void ring_keeps_the_last_eight(void **state)
{
	char want[32];

	(void)state;
	stet_error_clear();
	for (int i = 0; i < 20; i++) {
		(void)fail_here(i);
		for (int back = 0; back < STET_ERROR_RING_SIZE; back++) {
			const struct stet_error_entry *entry = stet_error_entry((size_t)back);

			if (back > i) {
				assert_null(entry);
				continue;
			}
			(void)snprintf(want, sizeof(want), "seg %d: summary crc", i - back);
			assert_string_equal(entry->text, want);
		}
		assert_null(stet_error_entry(STET_ERROR_RING_SIZE));
	}
}

static void latest_text_may_be_an_argument(void **state)
{
	(void)state;
	(void)fail_here(1);
	(void)STET_FAIL(-EIO, "because (%s)", stet_error_text());
	assert_string_equal(stet_error_text(), "because (seg 1: summary crc)");
}

static void long_text_is_cut(void **state)
{
	char text[1000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)STET_FAIL(-EIO, "%s", text);
	assert_int_equal(strlen(stet_error_text()), STET_ERROR_TEXT_SIZE - 1);
	stet_error_record(-EIO, text, 1, "y");
	assert_int_equal(strlen(stet_error_place()), STET_ERROR_PLACE_SIZE - 1);
}

static void errno_is_kept(void **state)
{
	(void)state;
	errno = ENOTDIR;
	(void)fail_here(1);
	assert_int_equal(errno, ENOTDIR);
}

static void *other_thread(void *arg)
{
	*(bool *)arg = stet_error_text()[0] == '\0';
	(void)fail_here(99);
	return NULL;
}

static void threads_have_their_own(void **state)
{
	bool was_empty = false;
	pthread_t thread;

	(void)state;
	(void)fail_here(1);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &was_empty), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(was_empty);
	assert_non_null(strstr(stet_error_text(), "seg 1:"));
}

static void err_is_evaluated_once(void **state)
{
	int calls = 0;

	(void)state;
	assert_int_equal(STET_FAIL(-(++calls), "x"), -1);
	assert_int_equal(calls, 1);
	stet_ignore(STET_WAIT, "only to see that it compiles");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_and_place_are_apart),
		cmocka_unit_test(path_is_cut_to_layer_and_file),
		cmocka_unit_test(ring_keeps_the_last_eight),
		cmocka_unit_test(latest_text_may_be_an_argument),
		cmocka_unit_test(long_text_is_cut),
		cmocka_unit_test(errno_is_kept),
		cmocka_unit_test(threads_have_their_own),
		cmocka_unit_test(err_is_evaluated_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
