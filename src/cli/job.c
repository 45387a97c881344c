/* job.c - a command in a process group of its own, where it sees a transaction's tree.
 *
 * J1. The command sees the tree in place of the mount, and nothing else of the system differs for
 *     it (enter.c).
 * J2. Its process group does not outlive us: a guard, in a session of its own, holds the reading
 *     end of a pipe whose only writing end is ours. An end of file without a word means that we
 *     were killed. The guard holds nothing else open: not our connection, whose end must end the
 *     transaction. The command starts only when the guard is there.
 * J3. Whether the command could be executed is told through a pipe that a successful exec closes.
 * J4. What of its group outlives the command becomes our child (subreaper), so that it can be
 *     waited for, and no number of a process or a group is used that others may have by now.
 */
#include "cli/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/// Pipes ///

struct pipe {
	int read_fd, write_fd;
};

static int pipe_open(struct pipe *ret)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	ret->read_fd = fds[0];
	ret->write_fd = fds[1];
	return 0;
}

static void pipe_close(const struct pipe *p)
{
	if (p->read_fd >= 0)
		close(p->read_fd);
	if (p->write_fd >= 0)
		close(p->write_fd);
}

static ssize_t read_all(int fd, void *buf, size_t len)
{
	ssize_t n;

	do {
		n = read(fd, buf, len);
	} while (n < 0 && errno == EINTR);
	return n;
}

static void wait_for(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/// The child ///

/* execvp(3) says EACCES as soon as a directory of PATH cannot be searched. As for a shell, a command
 * that is in none of the others is not found. */
static int exec_cause(const char *command, int cause)
{
	const char *path = getenv("PATH");
	struct stet_cli_text file = { 0 };

	if (cause != EACCES || strchr(command, '/') || !path)
		return cause;
	for (;;) {
		size_t len = strcspn(path, ":");

		stet_cli_text_cut_(&file, 0);
		stet_cli_text_add_(&file, len ? path : ".", len ? len : 1);
		stet_cli_text_join_(&file, command);
		if (access(file.s, F_OK) == 0)
			return EACCES;
		if (!path[len])
			return ENOENT;
		path += len + 1;
	}
}

/* failed: where to tell what went wrong; go: a byte when it may start. */
__attribute__((noreturn)) static void be_command(const struct stet_cli_job *job,
						 const struct pipe *failed, const struct pipe *go)
{
	struct stet_cli_enter_failure failure = { .step = STET_CLI_IN_EXEC };
	char word;

	setpgid(0, 0);
	close(go->write_fd);
	if (read_all(go->read_fd, &word, 1) != 1) /* J2 */
		_exit(STET_CLI_RUN_NOT_BEGUN);
	if (stet_cli_enter_view_(&job->view, &failure)) {
		sigprocmask(SIG_SETMASK, &job->signals->old, NULL);
		execvp(job->argv[0], job->argv);
		failure.cause = exec_cause(job->argv[0], errno);
	}
	(void)!write(failed->write_fd, &failure, sizeof(failure));
	_exit(STET_CLI_RUN_NOT_BEGUN);
}

/// The guard ///

/* J2. */
__attribute__((noreturn)) static void be_guard(pid_t group, int fd)
{
	char word;

	setsid();
	if (dup2(fd, STDIN_FILENO) < 0)
		_exit(1);
	close_range(STDIN_FILENO + 1, ~0u, 0);
	if (read_all(STDIN_FILENO, &word, 1) == 0)
		kill(-group, SIGKILL);
	_exit(0);
}

static int start_guard(struct stet_cli_job *job)
{
	struct pipe p = { -1, -1 };
	int rc = pipe_open(&p);

	if (rc)
		return rc;
	job->guard = fork();
	if (job->guard == 0) {
		close(p.write_fd);
		be_guard(job->pid, p.read_fd);
	}
	rc = job->guard < 0 ? -errno : 0;
	close(p.read_fd);
	if (rc)
		close(p.write_fd);
	else
		job->guard_fd = p.write_fd;
	return rc;
}

void stet_cli_job_release_(struct stet_cli_job *job)
{
	(void)!write(job->guard_fd, "", 1);
	close(job->guard_fd);
	wait_for(job->guard);
}

/// Starting ///

/* Forks the command, which waits for our word, and the guard. */
static int start_both(struct stet_cli_job *job, const struct pipe *failed, const struct pipe *go)
{
	int rc;

	prctl(PR_SET_CHILD_SUBREAPER, 1); /* J4 */
	fflush(NULL);
	job->pid = fork();
	if (job->pid < 0)
		return -errno;
	if (job->pid == 0)
		be_command(job, failed, go);
	setpgid(job->pid, job->pid); /* whoever comes first */
	rc = start_guard(job);
	if (rc) {
		kill(job->pid, SIGKILL);
		wait_for(job->pid);
	}
	return rc;
}

/* J3: 0, or the code to end with. */
static int await_exec(struct stet_cli_job *job, int fd)
{
	struct stet_cli_enter_failure failure;

	if (read_all(fd, &failure, sizeof(failure)) != (ssize_t)sizeof(failure))
		return STET_CLI_OK;
	wait_for(job->pid);
	return stet_cli_tell_enter_failure_(&job->view, job->argv[0], &failure);
}

bool stet_cli_job_start_(struct stet_cli_job *job, int *ret_code)
{
	struct pipe failed = { -1, -1 };
	struct pipe go = { -1, -1 };
	int rc = pipe_open(&failed);

	if (!rc)
		rc = pipe_open(&go);
	if (!rc)
		rc = start_both(job, &failed, &go);
	if (!rc) {
		(void)!write(go.write_fd, "", 1);
		close(failed.write_fd);
		failed.write_fd = -1;
		*ret_code = await_exec(job, failed.read_fd);
		if (*ret_code)
			stet_cli_job_release_(job);
	} else {
		stet_cli_fail_("run", rc);
		*ret_code = STET_CLI_RUN_NOT_BEGUN;
	}
	pipe_close(&failed);
	pipe_close(&go);
	return *ret_code == STET_CLI_OK;
}
