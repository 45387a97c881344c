/* log.c - messages of the daemon: to syslog, or in the foreground to standard error.
 *
 * Set up once before there are threads; then only read.
 */
#include "fuse/fuse_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

static bool to_stderr = true;

static void from_libfuse(enum fuse_log_level level, const char *format, va_list args)
{
	char line[1024];

	vsnprintf(line, sizeof(line), format, args);
	line[strcspn(line, "\n")] = 0;
	stet_fuse_log_((int)level, "%s", line); /* its levels are syslog's */
}

void stet_fuse_log_open_(bool foreground)
{
	to_stderr = foreground;
	if (!foreground)
		openlog("stetfs", LOG_PID, LOG_DAEMON);
	fuse_set_log_func(from_libfuse);
}

void stet_fuse_log_(int priority, const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (to_stderr)
		fprintf(stderr, "stetfs: %s\n", line);
	else
		syslog(priority, "%s", line);
}

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
