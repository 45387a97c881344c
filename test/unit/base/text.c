/* text.c - growing text, and names of any bytes. */
#include "base/text.h"

#include "base/mem.h"

#include "unit.h"

#include <string.h>

static void printing_appends(void **state)
{
	struct stet_text text;

	(void)state;
	stet_text_init(&text);
	assert_string_equal(stet_text_cstr(&text), "");
	stet_text_printf(&text, "%s=%d", "a", 1);
	stet_text_puts(&text, ", ");
	stet_text_printf(&text, "%0500d", 0);
	assert_int_equal(text.len, 3 + 2 + 500);
	assert_memory_equal(stet_text_cstr(&text), "a=1, 000", 8);
	assert_int_equal(strlen(stet_text_cstr(&text)), text.len);
	assert_false(text.truncated);
	stet_text_clear(&text);
	assert_string_equal(stet_text_cstr(&text), "");
	stet_text_release(&text);
	stet_text_release(&text);
	stet_text_release(NULL);
}

static void failing_cuts_and_sticks(void **state)
{
	struct stet_text text;

	(void)state;
	stet_text_init(&text);
	stet_mem_fail_after(1);
	stet_text_puts(&text, "abc");
	assert_true(text.truncated);
	assert_string_equal(stet_text_cstr(&text), "");
	stet_mem_fail_after(-1);
	stet_text_puts(&text, "abc");
	assert_string_equal(stet_text_cstr(&text), "");
	stet_text_clear(&text);
	stet_text_puts(&text, "abc");
	stet_mem_fail_after(1);
	stet_text_printf(&text, "%0500d", 0);
	stet_text_puts(&text, "d");
	stet_text_name(&text, "e", 1);
	stet_mem_fail_after(-1);
	assert_string_equal(stet_text_cstr(&text), "abc");
	assert_true(text.truncated);
	stet_text_release(&text);
}

static void names_are_escaped(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *want;
	} cases[] = {
		{ "plain name.txt", 14, "plain name.txt" },
		{ "", 0, "" },
		{ "a\\b", 3, "a\\x5cb" },
		{ "a\nb\x7f\0", 5, "a\\x0ab\\x7f\\x00" },
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		  "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "\xc2\x85", 2, "\\xc2\\x85" },          /* C1 control */
		{ "\xc0\xaf", 2, "\\xc0\\xaf" },          /* overlong */
		{ "\xe0\x80\xaf", 3, "\\xe0\\x80\\xaf" }, /* overlong */
		{ "\xed\xa0\x80", 3, "\\xed\\xa0\\x80" }, /* surrogate */
		{ "\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80" },
		{ "\xe2\x82", 2, "\\xe2\\x82" }, /* cut short */
		{ "\xe2\x82z", 3, "\\xe2\\x82z" },
		{ "\x80\xff", 2, "\\x80\\xff" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stet_text text;

		stet_text_init(&text);
		stet_text_name(&text, cases[i].bytes, cases[i].len);
		assert_string_equal(stet_text_cstr(&text), cases[i].want);
		stet_text_release(&text);
	}
}

static void copies_are_cut(void **state)
{
	char buf[5] = "....";

	(void)state;
	assert_int_equal(stet_text_copy("abcdef", buf, 0), 6);
	assert_string_equal(buf, "....");
	assert_int_equal(stet_text_copy("abcdef", buf, 4), 6);
	assert_memory_equal(buf, "abc\0", 5);
	assert_int_equal(stet_text_copy("abcd", buf, 5), 4);
	assert_string_equal(buf, "abcd");
	assert_int_equal(stet_text_copy("", buf, 1), 0);
	assert_string_equal(buf, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(printing_appends),
		cmocka_unit_test(failing_cuts_and_sticks),
		cmocka_unit_test(names_are_escaped),
		cmocka_unit_test(copies_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
