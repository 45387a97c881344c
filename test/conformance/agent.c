/* agent.c - statements performed by other processes.
 *
 * An agent is forked at its first use in a row, so it has the descriptors of that moment. It takes
 * statements from a socket and answers each with its result; it ends when the socket does.
 */
#include "script.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

#define AGENTS 4

static struct {
	pid_t pid; /* 0: not there */
	int fd;
} agents[AGENTS];

struct answer {
	int64_t value;
	int error;
	int has_text;
	size_t len;
};

static bool read_all(int fd, void *buf, size_t len)
{
	char *at = buf;

	while (len) {
		ssize_t n = read(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static bool send_all(int fd, const void *buf, size_t len)
{
	const char *at = buf;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static void answer_one(const struct backend *backend, int fd, const char *statement)
{
	struct answer answer = { 0 };
	struct result result = { 0 };
	struct call call;

	if (script_parse(backend, statement, &call)) {
		alarm(10);
		script_perform_here(&call, statement, &result);
		alarm(0);
	}
	if (call.bad) {
		result_release(&result);
		result_failed(&result, "bad statement: %s", call.bad);
	}
	answer.value = result.value;
	answer.error = result.error;
	answer.has_text = result.has_text;
	answer.len = result.len;
	if (!send_all(fd, &answer, sizeof(answer)) || !send_all(fd, result.text, result.len))
		_exit(1);
	result_release(&result);
}

static void serve(const struct backend *backend, int fd)
{
	char statement[STATEMENT_MAX];
	size_t len;

	while (read_all(fd, &len, sizeof(len)) && len < sizeof(statement) &&
	       read_all(fd, statement, len)) {
		statement[len] = 0;
		answer_one(backend, fd, statement);
	}
	_exit(0);
}

static bool start(const struct backend *backend, int n)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		return false;
	agents[n].pid = fork();
	if (agents[n].pid == 0) {
		for (int i = 0; i < AGENTS; i++)
			if (i != n && agents[i].pid)
				close(agents[i].fd);
		close(fds[0]);
		serve(backend, fds[1]);
	}
	close(fds[1]);
	agents[n].fd = fds[0];
	if (agents[n].pid > 0)
		return true;
	agents[n].pid = 0;
	close(fds[0]);
	return false;
}

static const char *without_prefix(const char *statement)
{
	statement += 2;
	if (*statement == '&')
		statement++;
	while (*statement == ' ')
		statement++;
	return statement;
}

void agent_wait(int n, struct result *ret)
{
	struct answer answer;

	if (n <= 0 || n >= AGENTS || !agents[n].pid ||
	    !read_all(agents[n].fd, &answer, sizeof(answer))) {
		result_failed(ret, "agent %d does not answer", n);
		return;
	}
	ret->value = answer.value;
	ret->error = answer.error;
	if (!answer.has_text)
		return;
	ret->text = calloc(1, answer.len + 1);
	if (ret->text && read_all(agents[n].fd, ret->text, answer.len)) {
		ret->has_text = true;
		ret->len = answer.len;
	}
}

void agent_perform(const struct backend *backend, struct call *call, const char *statement,
		   struct result *ret)
{
	const char *text = without_prefix(statement);
	size_t len = strlen(text);
	int n = call->agent;

	if (n >= AGENTS || (!agents[n].pid && !start(backend, n)) ||
	    !send_all(agents[n].fd, &len, sizeof(len)) || !send_all(agents[n].fd, text, len)) {
		call->bad = "no such agent";
		return;
	}
	if (!call->waits_not)
		agent_wait(n, ret);
}

void agent_end_all(void)
{
	for (int n = 1; n < AGENTS; n++) {
		if (!agents[n].pid)
			continue;
		close(agents[n].fd);
		kill(agents[n].pid, SIGKILL);
		while (waitpid(agents[n].pid, NULL, 0) < 0 && errno == EINTR)
			;
		agents[n].pid = 0;
	}
}
