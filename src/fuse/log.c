/* log.c - messages of the daemon: to syslog; in the foreground to standard error.
 *
 * Set up once before there are threads; then only the limit changes, which is atomic.
 *
 * I1. A message is one line, whatever the names in it: control characters and what is no text are
 *     shown as \n or \ooo, as the commands do.
 * I2. Where standard error goes to the journal, each line starts with its priority, "<3>": see
 *     sd-daemon(3). The journal says itself who wrote it.
 * I3. What any user can cause again and again is logged through the limit: so many lines in a while,
 *     then how many were left out.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES ((size_t)6 * 1024) /* two paths, and what is said of them */
#define LIMIT_PERIOD_S 10
#define LIMIT_LINES 20u

static enum { TO_STDERR, TO_JOURNAL, TO_SYSLOG } target = TO_STDERR;

/* --- text (I1) --- */

/* The length of the UTF-8 character at s that may be shown, 0 when there is none. */
static size_t shown_length(const unsigned char *s)
{
	size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	uint32_t c;

	if (s[0] < 0x80)
		return s[0] >= ' ' && s[0] != 0x7f;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	c = s[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if (c < 0xa0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || (n == 3 && c < 0x800) ||
	    (n == 4 && c < 0x10000))
		return 0; /* 0x80 .. 0x9f are control characters too */
	return n;
}

static size_t escape_byte(char *ret, size_t cap, unsigned char byte)
{
	static const char letters[] = "abtnvfr"; /* from 7 on */

	if (byte >= '\a' && byte <= '\r')
		return (size_t)snprintf(ret, cap, "\\%c", letters[byte - '\a']);
	return (size_t)snprintf(ret, cap, "\\%03o", byte);
}

void stet_fuse_escape_(char *ret, size_t cap, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t at = 0;

	while (*s && at + 5 < cap) { /* the longest, and the NUL */
		size_t n = shown_length(s);

		if (n == 0) {
			at += escape_byte(ret + at, cap - at, *s++);
			continue;
		}
		memcpy(ret + at, s, n);
		at += n;
		s += n;
	}
	ret[at] = 0;
}

/* --- where it goes --- */

/* What libfuse says while it mounts, is what we tell our caller: NULL when it is not mounting. */
static char *mount_why;
static size_t mount_why_cap;

void stet_fuse_log_catch_(char *why, size_t cap)
{
	mount_why = why;
	mount_why_cap = cap;
}

static void from_libfuse(enum fuse_log_level level, const char *format, va_list args)
{
	const char *text;
	char line[1024];

	vsnprintf(line, sizeof(line), format, args);
	line[strcspn(line, "\n")] = 0;
	text = strncmp(line, "fuse: ", 6) == 0 ? line + 6 : line;
	if (mount_why)
		snprintf(mount_why, mount_why_cap, "%s", text);
	else
		stet_fuse_log_((int)level, "%s", line); /* its levels are syslog's */
}

/* I2 */
static bool is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uint64_t dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%" SCNu64 ":%" SCNu64, &dev, &ino) == 2 &&
	       fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void stet_fuse_log_open_(bool foreground)
{
	if (!foreground) {
		target = TO_SYSLOG;
		openlog("stetfs", LOG_PID, LOG_DAEMON);
	} else {
		target = is_journal(STDERR_FILENO) ? TO_JOURNAL : TO_STDERR;
	}
	fuse_set_log_func(from_libfuse);
}

void stet_fuse_log_(int priority, const char *format, ...)
{
	char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	stet_fuse_escape_(line, sizeof(line), text);
	switch (target) {
	case TO_STDERR:
		fprintf(stderr, "stetfs: %s\n", line);
		break;
	case TO_JOURNAL:
		fprintf(stderr, "<%d>%s\n", LOG_PRI(priority), line);
		break;
	case TO_SYSLOG:
		syslog(priority, "%s", line);
		break;
	}
}

/* --- the limit (I3) --- */

bool stet_fuse_may_log_(struct stet_fuse_server *server)
{
	struct timespec now;
	int64_t began;
	uint64_t n;

	clock_gettime(CLOCK_MONOTONIC, &now);
	began = atomic_load(&server->log_began_s);
	if (now.tv_sec - began >= LIMIT_PERIOD_S &&
	    atomic_compare_exchange_strong(&server->log_began_s, &began, now.tv_sec)) {
		n = atomic_exchange(&server->log_lines, 0);
		if (n > LIMIT_LINES)
			stet_fuse_log_(LOG_WARNING, "%llu more lines of this kind were left out",
				       (unsigned long long)(n - LIMIT_LINES));
	}
	return atomic_fetch_add(&server->log_lines, 1) < LIMIT_LINES;
}

/* --- explanations --- */

int stet_fuse_why_(char *why, size_t cap, int rc, const char *format, ...)
{
	va_list args;

	if (cap == 0)
		return rc;
	va_start(args, format);
	vsnprintf(why, cap, format, args);
	va_end(args);
	return rc;
}
