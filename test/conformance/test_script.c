/* test_script.c - the language of the rows: what words stand for, and that the judge can say no. */
#include "facts.h"
#include "internal.h"
#include "script.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* --- a backend that only gives back what it was told --- */

static void give_text(struct call *call, struct result *ret)
{
	result_text(ret, call->words[0].bytes, call->words[0].len);
}

static void give_number(struct call *call, struct result *ret)
{
	ret->value = word_number(call, 0);
}

static void give_error(struct call *call, struct result *ret)
{
	result_error(ret, error_number(word_text(call, 0)));
}

static bool fits_small(struct call *call)
{
	return word_number(call, 0) < 10;
}

static const struct command commands[] = {
	{ "text", 1, 1, give_text, NULL },
	{ "number", 1, 1, give_number, fits_small },
	{ "error", 1, 1, give_error, NULL },
	{ 0 },
};

static const struct backend backend = { .commands = commands };

static bool gives(const char *statement, const char *want)
{
	struct result result;
	struct call call;
	bool ret;

	script_perform(&backend, &call, statement, &result);
	ret = !call.bad && script_is_wanted(&result, want);
	result_release(&result);
	return ret;
}

static void words(void **state)
{
	(void)state;
	assert_true(gives("text abc", "'abc'"));
	assert_true(gives("text 'a b;c'", "'a b;c'"));
	assert_true(gives("text {x*5}", "'xxxxx'"));
	assert_true(gives("text {#00ff*2}", "'{#00ff00ff}'"));
	assert_true(gives("text a{#41}{b*2}", "'aAbb'"));
	assert_true(gives("text ''", "''"));
	assert_true(gives("text {y*300000}", "'{y*300000}'"));
	assert_true(gives("number 0x10", "16"));
	assert_true(gives("number 2K", "2048"));
	assert_true(gives("number max-1", "9223372036854775806"));
	assert_true(gives("number 1M+1", "1048577"));
	assert_true(gives("repeat 3 number {i}", "2"));
}

static void bad_words(void **state)
{
	(void)state;
	assert_false(gives("number x", "0"));
	assert_false(gives("number", "0"));
	assert_false(gives("number 1 2", "1"));
	assert_false(gives("nothing", "0"));
	assert_false(gives("text 'open", "'open'"));
	assert_false(gives("text {#0}", "'{#0}'"));
	assert_false(gives("text {unknown}", "'{unknown}'"));
}

static void judging(void **state)
{
	(void)state;
	assert_true(gives("number 3", "3"));
	assert_false(gives("number 3", "4"));
	assert_true(gives("number 3", ">2"));
	assert_false(gives("number 3", ">3"));
	assert_true(gives("number 3", "ok"));
	assert_true(gives("error ENOENT", "ENOENT"));
	assert_false(gives("error ENOENT", "EACCES"));
	assert_false(gives("error ENOENT", "ok"));
	assert_false(gives("error ENOENT", "0"));
	assert_false(gives("error ENOENT", "''"));
	assert_false(gives("number 0", "ENOENT"));
	assert_false(gives("number 0", "''"));
	assert_false(gives("text abc", "'abd'"));
	assert_false(gives("text abc", "'ab'"));
	assert_false(gives("text abc", "0"));
	assert_false(gives("text abc", "SIGBUS"));
	assert_false(gives("repeat 3 number {i} => 0", "2")); /* the second gives 1 */
}

static void scripts(void **state)
{
	const char *script = " number 1 ;; text 'a;b' => 'a;b';number 2";
	const char *why;
	char statement[STATEMENT_MAX];

	(void)state;
	assert_true(script_next(&script, statement, sizeof(statement)));
	assert_string_equal(statement, "number 1");
	assert_true(script_next(&script, statement, sizeof(statement)));
	assert_string_equal(statement, "text 'a;b' => 'a;b'");
	assert_true(script_next(&script, statement, sizeof(statement)));
	assert_string_equal(statement, "number 2");
	assert_false(script_next(&script, statement, sizeof(statement)));
	assert_true(script_fits(&backend, "number 1; text x", &why));
	assert_false(script_fits(&backend, "number 1; number 10", &why));
	assert_false(script_fits(&backend, "number 1; other x", &why));
	assert_false(script_fits(&backend, "a: number 1", &why));
	assert_false(script_fits(&backend, "@1 number 1", &why));
	assert_false(script_fits(&backend, "text {dir}/x", &why));
}

/* --- facts --- */

static bool holds(const struct statx *st, const char *check)
{
	struct call call = { .backend = &backend, .count = 1 };
	struct result result = { 0 };
	struct facts facts;
	bool ret;

	call.words[0].bytes = (char *)(uintptr_t)check;
	call.words[0].len = strlen(check);
	facts_of_statx(st, &facts);
	facts_check(&call, 0, &facts, &result);
	ret = !call.bad && !result.error;
	result_release(&result);
	return ret;
}

static void facts(void **state)
{
	struct statx st = { .stx_mode = S_IFREG | 0640, .stx_nlink = 2, .stx_size = 100 };
	struct call call = { 0 };
	struct facts noted;

	(void)state;
	st.stx_mtime.tv_sec = 5;
	st.stx_mtime.tv_nsec = 250000000;
	st.stx_ctime.tv_sec = 6;
	assert_true(holds(&st, "mode=640"));
	assert_false(holds(&st, "mode=644"));
	assert_true(holds(&st, "type=reg"));
	assert_false(holds(&st, "type=dir"));
	assert_true(holds(&st, "size>99"));
	assert_false(holds(&st, "size>100"));
	assert_true(holds(&st, "mtime=5.25"));
	assert_false(holds(&st, "mtime=5.250000001"));
	assert_true(holds(&st, "ctime>mtime"));
	assert_false(holds(&st, "mtime=now"));
	assert_false(holds(&st, "colour=red"));
	facts_of_statx(&st, &noted);
	facts_note(&call, 'A', &noted);
	assert_true(holds(&st, "nlink=A"));
	st.stx_nlink++;
	assert_false(holds(&st, "nlink=A"));
	assert_true(holds(&st, "nlink>A"));
	assert_true(holds(&st, "nlink!A"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words),   cmocka_unit_test(bad_words), cmocka_unit_test(judging),
		cmocka_unit_test(scripts), cmocka_unit_test(facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
