/* job.c - a command in a process group and a mount namespace of its own.
 *
 * J1. The command sees `root` in place of the mount, and nothing else of the system differs for it.
 * J2. While it runs, it has the terminal, if we had it; when it is stopped, so are we.
 * J3. Its process group does not outlive us: a guard, in a session of its own, holds the reading
 *     end of a pipe whose only writing end is ours. An end of file without a word means that we
 *     were killed. The guard holds nothing else open: not our connection, whose end must end the
 *     transaction.
 * J4. Whether the command could be executed is told through a pipe that a successful exec closes.
 */
#include "cli/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	NOT_BEGUN = 125,
	NOT_EXECUTABLE = 126,
	NOT_FOUND = 127,
	BY_SIGNAL = 128,
};

/* How long a group has, between being asked to end and being killed. */
#define GRACE_MS 2000
#define STEP_MS 20

/* What the child tells when it fails. */
struct failure {
	enum { IN_NAMESPACE, IN_BIND, IN_CHDIR, IN_EXEC } step;
	int cause; /* errno */
};

/// The child ///

static int enter_view(const struct stet_cli_job *job, struct failure *failure)
{
	failure->step = IN_NAMESPACE;
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return -1;
	failure->step = IN_BIND;
	if (mount(job->root, job->mount, NULL, MS_BIND, NULL) != 0)
		return -1;
	failure->step = IN_CHDIR;
	return chdir(job->cwd);
}

static void give_terminal(const struct stet_cli_job *job, pid_t group)
{
	sigset_t block, old;

	if (job->tty < 0)
		return;
	sigemptyset(&block);
	sigaddset(&block, SIGTTOU);
	sigprocmask(SIG_BLOCK, &block, &old);
	tcsetpgrp(job->tty, group);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

__attribute__((noreturn)) static void be_command(const struct stet_cli_job *job, int pipe_fd)
{
	struct failure failure = { 0 };

	setpgid(0, 0);
	give_terminal(job, getpid());
	if (enter_view(job, &failure) == 0) {
		failure.step = IN_EXEC;
		setenv("PWD", job->cwd, 1);
		sigprocmask(SIG_SETMASK, &job->mask, NULL);
		execvp(job->argv[0], job->argv);
	}
	failure.cause = errno;
	(void)!write(pipe_fd, &failure, sizeof(failure));
	_exit(NOT_BEGUN);
}

/// The guard ///

/* J3. */
__attribute__((noreturn)) static void be_guard(pid_t group, int pipe_fd)
{
	char word;
	ssize_t n;

	setsid();
	if (dup2(pipe_fd, STDIN_FILENO) < 0)
		_exit(1);
	close_range(STDIN_FILENO + 1, ~0u, 0);
	do {
		n = read(STDIN_FILENO, &word, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		kill(-group, SIGKILL);
	_exit(0);
}

static int start_guard(struct stet_cli_job *job)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	job->guard = fork();
	if (job->guard == 0) {
		close(fds[1]);
		be_guard(job->pid, fds[0]);
	}
	close(fds[0]);
	if (job->guard < 0) {
		close(fds[1]);
		return -errno;
	}
	job->guard_fd = fds[1];
	return 0;
}

static void end_guard(struct stet_cli_job *job)
{
	(void)!write(job->guard_fd, "", 1);
	close(job->guard_fd);
	while (waitpid(job->guard, NULL, 0) < 0 && errno == EINTR)
		;
}

/// Starting ///

static int tell_failure(const struct stet_cli_job *job, const struct failure *failure)
{
	const char *cause = strerror(failure->cause);

	switch (failure->step) {
	case IN_NAMESPACE:
		stet_cli_error_("run", "no mount namespace: %s", cause);
		return NOT_BEGUN;
	case IN_BIND:
		stet_cli_error_(job->mount, "the transaction's view cannot be mounted there: %s",
				cause);
		return NOT_BEGUN;
	case IN_CHDIR:
		stet_cli_error_(job->cwd, "%s", cause);
		return NOT_BEGUN;
	case IN_EXEC:
		break;
	}
	stet_cli_error_(job->argv[0], "%s", cause);
	return failure->cause == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}

static int wait_status(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* J4: 0, or the code to end with. */
static int await_exec(struct stet_cli_job *job, int pipe_fd)
{
	struct failure failure;
	ssize_t n;

	do {
		n = read(pipe_fd, &failure, sizeof(failure));
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(failure))
		return STET_CLI_OK;
	wait_status(job->pid);
	give_terminal(job, getpgrp());
	return tell_failure(job, &failure);
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Forks the command; *ret_fd: where it tells a failure. */
static int start_command(struct stet_cli_job *job, int *ret_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	fflush(NULL);
	job->pid = fork();
	if (job->pid == 0)
		be_command(job, fds[1]);
	close(fds[1]);
	if (job->pid < 0) {
		close(fds[0]);
		return -errno;
	}
	setpgid(job->pid, job->pid); /* whoever comes first */
	*ret_fd = fds[0];
	return 0;
}

bool stet_cli_job_start_(struct stet_cli_job *job, int *ret_code)
{
	int fd = -1;
	int rc;

	job->tty = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() ? STDIN_FILENO : -1;
	job->signals = open_signals();
	rc = job->signals < 0 ? -errno : start_command(job, &fd);
	if (!rc) {
		rc = start_guard(job);
		if (rc) {
			kill(-job->pid, SIGKILL);
			wait_status(job->pid);
			close(fd);
		}
	}
	if (rc) {
		stet_cli_fail_("run", rc);
		close(job->signals);
		*ret_code = NOT_BEGUN;
		return false;
	}
	*ret_code = await_exec(job, fd);
	close(fd);
	if (*ret_code == STET_CLI_OK)
		return true;
	end_guard(job);
	close(job->signals);
	return false;
}

/// Waiting ///

/* J2. */
static void stop_with_it(struct stet_cli_job *job)
{
	give_terminal(job, getpgrp());
	raise(SIGSTOP);
	give_terminal(job, job->pid);
	kill(-job->pid, SIGCONT);
}

/* True: the command has ended; *ret_code is its code. */
static bool reap(struct stet_cli_job *job, int *ret_code)
{
	int status;

	while (waitpid(job->pid, &status, WNOHANG | WUNTRACED) == job->pid) {
		if (WIFSTOPPED(status)) {
			stop_with_it(job);
			continue;
		}
		*ret_code = WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status)
						: WEXITSTATUS(status);
		return true;
	}
	return false;
}

static void pass_signals(struct stet_cli_job *job, struct stet_cli_job_end *end)
{
	struct signalfd_siginfo info;

	while (read(job->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int number = (int)info.ssi_signo;

		if (number == SIGCHLD)
			continue;
		end->signal = number;
		kill(-job->pid, number);
		kill(-job->pid, SIGCONT);
	}
}

/* Ends the group of a transaction that is gone: it is asked to, and killed when its time is up. */
static void end_group(struct stet_cli_job *job, struct stet_cli_job_end *end)
{
	const struct timespec pause = { .tv_nsec = STEP_MS * 1000000L };
	bool ended = false;

	kill(-job->pid, SIGTERM);
	kill(-job->pid, SIGCONT);
	for (int waited_ms = 0; waited_ms < GRACE_MS; waited_ms += STEP_MS) {
		pass_signals(job, end);
		ended = ended || reap(job, &end->code);
		if (ended && kill(-job->pid, 0) != 0)
			return; /* the others of the group too */
		nanosleep(&pause, NULL);
	}
	kill(-job->pid, SIGKILL);
	if (ended)
		return;
	wait_status(job->pid);
	end->code = BY_SIGNAL + SIGKILL;
}

void stet_cli_job_wait_(struct stet_cli_job *job, struct stet_cli_job_end *ret)
{
	struct stet_cli_job_end end = { 0 };
	struct pollfd fds[2] = {
		{ .fd = job->signals, .events = POLLIN },
		{ .fd = job->control_fd, .events = POLLRDHUP },
	};

	while (!reap(job, &end.code)) {
		if (poll(fds, 2, -1) < 0)
			continue;
		pass_signals(job, &end);
		if (fds[1].revents & (POLLRDHUP | POLLHUP | POLLERR)) {
			end.daemon_gone = true;
			end_group(job, &end);
			break;
		}
	}
	give_terminal(job, getpgrp());
	end_guard(job);
	close(job->signals);
	*ret = end;
}
