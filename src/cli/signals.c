/* signals.c - the signals of a run, and its terminal.
 *
 * S1. A signal that our caller has us ignore (nohup, a background job of a script) stays ignored:
 *     one that is blocked would be told by the descriptor all the same, so it is left out.
 * S2. What is given to the terminal is given only by whoever has it: a job that was put in the
 *     background takes it from nobody.
 */
#include "cli/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

#define ENDING_COUNT (sizeof(ending) / sizeof(*ending))

bool stet_cli_signal_ends_(int number)
{
	for (size_t i = 0; i < ENDING_COUNT; i++) {
		if (ending[i] == number)
			return true;
	}
	return false;
}

static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int stet_cli_signals_open_(struct stet_cli_signals *s)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ENDING_COUNT; i++) {
		if (!is_ignored(ending[i])) /* S1 */
			sigaddset(&set, ending[i]);
	}
	if (!is_ignored(SIGTSTP))
		sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGCONT);
	sigaddset(&set, SIGCHLD);
	signal(SIGCHLD, SIG_DFL); /* else the end of the command would be lost */
	s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd < 0)
		return -errno;
	s->tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	sigprocmask(SIG_BLOCK, &set, &s->old);
	return 0;
}

void stet_cli_signals_close_(struct stet_cli_signals *s)
{
	sigprocmask(SIG_SETMASK, &s->old, NULL);
	if (s->tty >= 0)
		close(s->tty);
	close(s->fd);
}

int stet_cli_signals_next_(const struct stet_cli_signals *s)
{
	struct signalfd_siginfo info;

	if (read(s->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}

void stet_cli_signals_drop_(int number)
{
	const struct timespec now = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	while (sigtimedwait(&set, NULL, &now) == number)
		;
}

/* SIGTSTP, unlike SIGSTOP, does not stop a group that nobody could continue. Who was continued has
 * got SIGCONT, which is blocked. */
bool stet_cli_signals_stop_(void)
{
	sigset_t set, old;

	stet_cli_signals_drop_(SIGCONT);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
	sigpending(&set);
	return sigismember(&set, SIGCONT) == 1;
}

bool stet_cli_has_terminal_(const struct stet_cli_signals *s)
{
	return s->tty >= 0 && tcgetpgrp(s->tty) == getpgrp();
}

void stet_cli_give_terminal_(const struct stet_cli_signals *s, pid_t group)
{
	sigset_t block, old;

	if (s->tty < 0)
		return;
	sigemptyset(&block);
	sigaddset(&block, SIGTTOU);
	sigprocmask(SIG_BLOCK, &block, &old);
	tcsetpgrp(s->tty, group);
	sigprocmask(SIG_SETMASK, &old, NULL);
}
