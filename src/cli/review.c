/* review.c - what a command has changed, shown before it is committed; and the question whether to.
 *
 * V1. The transaction is frozen first: what is shown is what is committed.
 * V2. Only an answer typed after the question counts, on our terminal and nowhere else: what a pipe
 *     or an impatient finger has left to be read answers nothing. Anything but yes is no.
 */
#include "cli/run_internal.h"

#include "cli/changes_internal.h"
#include "fuse/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define ANSWER_MAX 64
#define NS_PER_MS INT64_C(1000000)

static const char question[] = "Commit these changes? [y]es, [n]o, show the [d]iff, [l]ist all: ";

/// The terminal ///

static void say(const struct stet_cli_review *r, const char *text)
{
	(void)!write(r->signals->tty, text, strlen(text));
}

/* True: the question is answered by a signal, or goes on. */
static bool take_signals(struct stet_cli_review *r, bool *ret_again)
{
	int number;

	while ((number = stet_cli_signals_next_(r->signals)) != 0) {
		if (stet_cli_signal_ends_(number)) {
			r->signal = number;
			return true;
		}
		if (number == SIGTSTP)
			stet_cli_signals_stop_();
		if (number == SIGTSTP || number == SIGCONT)
			*ret_again = true;
	}
	return false;
}

static int poll_ms(const struct stet_cli_review *r)
{
	int64_t left = r->deadline_ns == STET_CLI_NEVER ? STET_CLI_NEVER
							: r->deadline_ns - stet_cli_monotonic_ns_();

	if (left == STET_CLI_NEVER)
		return -1;
	return left <= 0 ? 0 : left > 60000 * NS_PER_MS ? 60000 : (int)(left / NS_PER_MS) + 1;
}

enum state { GOT_LINE, GOT_END, ASK_AGAIN, OVER };

/* Reads a line into buf. */
static enum state read_line(struct stet_cli_review *r, char buf[ANSWER_MAX])
{
	struct pollfd fds[3] = {
		{ .fd = r->signals->tty, .events = POLLIN },
		{ .fd = r->signals->fd, .events = POLLIN },
		{ .fd = stet_control_fd(r->ctl), .events = POLLRDHUP },
	};
	bool again = false;
	ssize_t n;

	for (;;) {
		int count = poll(fds, 3, poll_ms(r));

		if (take_signals(r, &again))
			return OVER;
		if (again)
			return ASK_AGAIN;
		if (count >= 0 && (fds[2].revents & (POLLRDHUP | POLLHUP | POLLERR))) {
			r->daemon_gone = true;
			return OVER;
		}
		if (stet_cli_monotonic_ns_() >= r->deadline_ns) {
			r->timed_out = true;
			return OVER;
		}
		if (count <= 0 || !fds[0].revents)
			continue;
		n = read(r->signals->tty, buf, ANSWER_MAX - 1);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return GOT_END;
		buf[n] = '\0';
		return GOT_LINE;
	}
}

/// Answers ///

static void show(struct stet_cli_review *r, bool patch)
{
	struct stet_cli_trees trees;
	struct stet_cli_pager pager;

	if (patch && stet_cli_trees_open_(r->dir, r->changes->id, &trees))
		return;
	stet_cli_pager_open_(r->signals->tty, &r->signals->old, &pager);
	if (patch) {
		stet_cli_patch_(r->changes, &trees, pager.out, true);
		stet_cli_trees_close_(&trees);
	} else {
		stet_cli_summary_(r->changes, pager.out, false, "");
	}
	stet_cli_pager_close_(&pager);
}

static bool is_answer(const char *line, const char *word)
{
	size_t len = strcspn(line, "\r\n");

	return len == strlen(word) && strncasecmp(line, word, len) == 0;
}

/* True: that was the answer. */
static bool take_answer(struct stet_cli_review *r, const char *line)
{
	if (is_answer(line, "y") || is_answer(line, "yes")) {
		r->yes = true;
		return true;
	}
	if (is_answer(line, "d") || is_answer(line, "diff"))
		show(r, true);
	else if (is_answer(line, "l") || is_answer(line, "list"))
		show(r, false);
	else
		return true;
	return false;
}

void stet_cli_review_ask_(struct stet_cli_review *r)
{
	char line[ANSWER_MAX];
	bool answered = false;

	while (!answered) {
		tcflush(r->signals->tty, TCIFLUSH); /* V2 */
		say(r, question);
		switch (read_line(r, line)) {
		case GOT_LINE:
			answered = take_answer(r, line);
			break;
		case ASK_AGAIN:
			say(r, "\n");
			break;
		case GOT_END:
		case OVER:
			say(r, "\n");
			answered = true;
			break;
		}
	}
}

int stet_cli_review_show_(const struct stet_cli_review *r)
{
	int fd = dup(r->signals->tty);
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!out) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	fflush(NULL);
	stet_cli_summary_(r->changes, out, true, "l: list all");
	fclose(out);
	return 0;
}
