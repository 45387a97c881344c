/* watch.c - waiting for a command: its end, our signals, the time limit, the daemon.
 *
 * W1. When the command has succeeded, what it has started in its process group is waited for: it
 *     belongs to the same transaction, which must not end in the middle of it. Whatever has left
 *     the group (a daemon) is not.
 * W2. When the command has failed, or is told to end, nothing of the transaction will stay: then the
 *     group is told to end as well; in the second case it is killed when its time is up.
 * W3. The terminal stays with us and our group (a pipeline), so that its keys reach us, until the
 *     command wants it: it is stopped by the kernel then, gets the terminal, and goes on.
 * W4. When the command is stopped, so are we, and both go on together: so the shell that we were
 *     started from can stop, continue, and put us in the background.
 */
#include "cli/run_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define GRACE_NS (5000 * NS_PER_MS)  /* between being told to end and being killed */
#define NOTICE_NS (2000 * NS_PER_MS) /* after which we say what we wait for */
#define LOOK_NS (20 * NS_PER_MS)     /* between looks whether somebody is left */

struct watch {
	struct stet_cli_job *job;
	struct stet_cli_job_end end;
	bool ended;        /* the command itself */
	bool ending;       /* it was told to end (W2) */
	int64_t kill_ns;   /* when its group will be killed */
	int64_t notice_ns; /* when we tell what we wait for */
};

int64_t stet_cli_monotonic_ns_(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 * NS_PER_MS + ts.tv_nsec;
}

static void tell_group(struct watch *w, int number)
{
	kill(-w->job->pid, number);
	kill(-w->job->pid, SIGCONT);
}

static void start_ending(struct watch *w, int number)
{
	tell_group(w, number);
	if (w->ended)
		tell_group(w, SIGTERM); /* not every member minds every signal */
	if (w->ending)
		return;
	w->ending = true;
	w->kill_ns = stet_cli_monotonic_ns_() + GRACE_NS;
}

/// Stopping and the terminal ///

static void give(struct watch *w)
{
	stet_cli_give_terminal_(w->job->signals, w->job->pid);
	w->job->has_terminal = true;
}

static void take_back(struct watch *w)
{
	if (w->job->has_terminal)
		stet_cli_give_terminal_(w->job->signals, getpgrp());
	w->job->has_terminal = false;
}

/* W4. Where no shell could continue us, the kernel does not let us be stopped. Then the command goes on
 * too, unless it was stopped by somebody (SIGSTOP), who will know why; and if it is not to have the
 * terminal, it is told that it has none, as the kernel does. */
static void stop_with_it(struct watch *w, int number)
{
	bool had_terminal = w->job->has_terminal;
	bool wants_terminal = number == SIGTTIN || number == SIGTTOU;

	take_back(w);
	if (!stet_cli_signals_stop_()) {
		if (number == SIGSTOP)
			return;
		if (wants_terminal)
			kill(-w->job->pid, SIGHUP);
	}
	if (had_terminal && stet_cli_has_terminal_(w->job->signals))
		give(w);
	kill(-w->job->pid, SIGCONT);
}

static void stopped(struct watch *w, int number)
{
	bool wants_terminal = number == SIGTTIN || number == SIGTTOU;

	if (wants_terminal && stet_cli_has_terminal_(w->job->signals)) { /* W3 */
		give(w);
		kill(-w->job->pid, SIGCONT);
	} else {
		stop_with_it(w, number);
	}
}

static void take_signals(struct watch *w)
{
	int number;

	while ((number = stet_cli_signals_next_(w->job->signals)) != 0) {
		if (stet_cli_signal_ends_(number)) {
			w->end.signal = number;
			start_ending(w, number);
		} else if (number == SIGTSTP) {
			kill(-w->job->pid, SIGTSTP);
			stet_cli_signals_stop_();
			kill(-w->job->pid, SIGCONT);
		} else if (number == SIGCONT) {
			kill(-w->job->pid, SIGCONT);
		}
	}
}

/// The ends of processes ///

/* W2, first part. */
static void command_ended(struct watch *w, int status)
{
	w->ended = true;
	w->end.code = WIFSIGNALED(status) ? STET_CLI_RUN_BY_SIGNAL + WTERMSIG(status)
					  : WEXITSTATUS(status);
	w->notice_ns = stet_cli_monotonic_ns_() + NOTICE_NS;
	take_back(w);
	if (w->end.code || w->ending)
		tell_group(w, SIGTERM);
	else
		kill(-w->job->pid, SIGCONT); /* who was stopped has nobody left to continue him */
}

/* Somebody of its group was stopped (the command itself: W4). Left alone after the command's end, it
 * would stay so: it is treated as the kernel treats those whom nobody can continue. */
static void member_stopped(struct watch *w, pid_t pid, int number)
{
	if (!w->ended && pid == w->job->pid) {
		stopped(w, number);
	} else if (w->ended) {
		kill(pid, SIGHUP);
		kill(pid, SIGCONT);
	}
}

/* True: there is nobody left to wait for. */
static bool reap(struct watch *w)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-w->job->pid, &status, WNOHANG | WUNTRACED)) > 0) {
		if (WIFSTOPPED(status))
			member_stopped(w, pid, WSTOPSIG(status));
		else if (pid == w->job->pid)
			command_ended(w, status);
	}
	if (!w->ended)
		return false;
	return pid < 0 || (w->end.code && !w->ending); /* W1, W2 */
}

/* Orphans of other groups that have ended. */
static void reap_others(const struct watch *w)
{
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 ||
		    info.si_pid == w->job->guard || info.si_pid == w->job->pid)
			return;
		if (getpgid(info.si_pid) == w->job->pid)
			return;
		waitpid(info.si_pid, NULL, WNOHANG);
	}
}

/// Waiting ///

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int poll_ms(const struct watch *w)
{
	int64_t until = w->ending ? w->kill_ns : w->job->deadline_ns;
	int64_t now = stet_cli_monotonic_ns_();

	if (w->ended)
		until = earlier(until, now + LOOK_NS); /* nobody tells who leaves the group */
	if (until == STET_CLI_NEVER)
		return -1;
	return until <= now ? 0 : (int)earlier((until - now) / NS_PER_MS + 1, INT64_C(60000));
}

static void watch_time(struct watch *w)
{
	int64_t now = stet_cli_monotonic_ns_();

	if (!w->ending && now >= w->job->deadline_ns) {
		w->end.timed_out = true;
		start_ending(w, SIGTERM);
	} else if (w->ending && now >= w->kill_ns) {
		kill(-w->job->pid, SIGKILL);
		w->kill_ns = STET_CLI_NEVER;
	}
	if (w->ended && !w->ending && now >= w->notice_ns) {
		stet_cli_error_("run",
				"%s has ended; waiting for what it left running in process group "
				"%ld (interrupt: drop the changes)",
				w->job->argv[0], (long)w->job->pid);
		w->notice_ns = STET_CLI_NEVER;
	}
}

void stet_cli_job_wait_(struct stet_cli_job *job, struct stet_cli_job_end *ret)
{
	struct watch w = { .job = job, .kill_ns = STET_CLI_NEVER, .notice_ns = STET_CLI_NEVER };
	struct pollfd fds[2] = {
		{ .fd = job->signals->fd, .events = POLLIN },
		{ .fd = job->control_fd, .events = POLLRDHUP },
	};

	while (!reap(&w)) {
		if (poll(fds, 2, poll_ms(&w)) < 0)
			continue;
		take_signals(&w);
		reap_others(&w);
		if (fds[1].revents & (POLLRDHUP | POLLHUP | POLLERR)) {
			w.end.daemon_gone = true;
			fds[1].fd = -1;
			start_ending(&w, SIGTERM);
		}
		watch_time(&w);
	}
	take_back(&w);
	*ret = w.end;
}
