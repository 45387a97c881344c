/* pager.c - the user's pager: $STETFS_PAGER, else $PAGER, else less(1) if there is one.
 *
 * P1. The pager may be left before it was given everything: then writing fails, and nobody minds.
 * P2. Keys that send signals are meant for it, not for us.
 */
#include "cli/changes_internal.h"

#include "cli/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *choose(void)
{
	const char *pager = getenv("STETFS_PAGER");

	if (!pager)
		pager = getenv("PAGER");
	if (!pager)
		pager = access("/usr/bin/less", X_OK) == 0 || access("/bin/less", X_OK) == 0
				? "less"
				: "";
	return strcmp(pager, "cat") == 0 ? "" : pager;
}

__attribute__((noreturn)) static void be_pager(const char *command, int in, int tty,
					       const sigset_t *mask)
{
	dup2(in, STDIN_FILENO);
	dup2(tty, STDOUT_FILENO);
	if (mask)
		sigprocmask(SIG_SETMASK, mask, NULL);
	setenv("LESS", "FRX", 0);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

void stet_cli_pager_open_(int tty, const sigset_t *mask, struct stet_cli_pager *ret)
{
	const char *command = choose();
	int fds[2] = { -1, -1 };
	int fd = -1;

	*ret = (struct stet_cli_pager){ .pid = 0 };
	fflush(NULL);
	if (command[0] && pipe2(fds, O_CLOEXEC) == 0) {
		ret->pid = fork();
		if (ret->pid == 0)
			be_pager(command, fds[0], tty, mask);
		close(fds[0]);
		fd = fds[1];
		if (ret->pid < 0) {
			close(fd);
			ret->pid = 0;
		}
	}
	if (ret->pid == 0)
		fd = fcntl(tty, F_DUPFD_CLOEXEC, 0);
	ret->out = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!ret->out) {
		stet_cli_fail_("terminal", -errno);
		exit(STET_CLI_FAILED);
	}
	ret->old_pipe = signal(SIGPIPE, SIG_IGN); /* P1 */
	ret->old_int = SIG_ERR;
	if (ret->pid && !mask)
		ret->old_int = signal(SIGINT, SIG_IGN); /* P2 */
}

void stet_cli_pager_close_(struct stet_cli_pager *pager)
{
	fclose(pager->out);
	while (pager->pid && waitpid(pager->pid, NULL, 0) < 0 && errno == EINTR)
		;
	signal(SIGPIPE, pager->old_pipe);
	if (pager->pid)
		stet_cli_signals_drop_(SIGINT); /* P2 */
	if (pager->old_int != SIG_ERR)
		signal(SIGINT, pager->old_int);
}
