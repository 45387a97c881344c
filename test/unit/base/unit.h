/* unit.h - what every unit test of base/ includes: cmocka with the headers it wants before it. */
#ifndef STET_TEST_UNIT_H
#define STET_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/** True when fn(arg) ends its process by abort(). Its stderr is not shown. */
static inline bool unit_aborts(void (*fn)(void *arg), void *arg)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)signal(SIGABRT, SIG_DFL); /* cmocka's handlers are not meant for us */
		(void)close(STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
