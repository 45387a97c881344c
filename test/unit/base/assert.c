/* assert.c - assertions hold or abort, and say why. */
#include "base/assert.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

static void fail_plain(void *arg)
{
	STET_ASSERT(arg == NULL);
}

static void fail_compare(void *arg)
{
	size_t live = *(size_t *)arg;
	size_t size = 5;

	STET_ASSERT_CMP(live, <=, size);
}

static void true_ones_do_nothing(void **state)
{
	size_t five = 5;
	int minus = -1;
	int evaluated = 0;

	(void)state;
	STET_ASSERT(five);
	STET_ASSERT_CMP(five, ==, 5);
	STET_ASSERT_CMP(minus, <, 0);
	STET_ASSERT_CMP(state, !=, NULL);
	STET_ASSERT_CMP(++evaluated, ==, 1);
	STET_DEBUG_ASSERT(five == 5);
	STET_PARANOID(STET_ASSERT(five == 5));
	assert_int_equal(evaluated, 1);
}

static void false_ones_abort(void **state)
{
	size_t live = 6;

	(void)state;
	assert_true(unit_aborts(fail_plain, &live));
	assert_false(unit_aborts(fail_plain, NULL));
	assert_true(unit_aborts(fail_compare, &live));
	live = 5;
	assert_false(unit_aborts(fail_compare, &live));
}

/* Runs fn in a child and returns what it wrote to stderr. */
static void stderr_of(void (*fn)(void *arg), void *arg, char *text, size_t size)
{
	size_t len = 0;
	ssize_t got;
	int fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)signal(SIGABRT, SIG_DFL);
		(void)dup2(fd[1], STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	(void)close(fd[1]);
	while (len < size - 1 && (got = read(fd[0], text + len, size - 1 - len)) > 0)
		len += (size_t)got;
	text[len] = '\0';
	(void)close(fd[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void fail_signed(void *arg)
{
	long value = *(long *)arg;

	STET_ASSERT_CMP(value, >, -3);
}

static void both_values_are_printed(void **state)
{
	size_t live = 1234567;
	long value = -77;
	char text[1000];

	(void)state;
	stderr_of(fail_compare, &live, text, sizeof(text));
	assert_non_null(strstr(text, "assert.c:"));
	assert_non_null(strstr(text, "fail_compare: assertion failed: live <= size"));
	assert_non_null(strstr(text, "left: 1234567 (0x12d687)"));
	assert_non_null(strstr(text, "right: 5 (0x5)"));
	stderr_of(fail_signed, &value, text, sizeof(text));
	assert_non_null(strstr(text, "left: -77\n"));
	assert_non_null(strstr(text, "right: -3\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(true_ones_do_nothing),
		cmocka_unit_test(false_ones_abort),
		cmocka_unit_test(both_values_are_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
