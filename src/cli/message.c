/* message.c - error lines, the progress line, names on standard output.
 *
 * I1. An error is one line, "stetfs: WHAT: WHY", whatever bytes WHAT has.
 * I2. The progress line is the last line of the terminal, and is wiped before anything else is
 *     written to standard error. It is there only when both outputs do not mix: standard error is a
 *     terminal, and standard output is not, or gets nothing before the work is done.
 */
#include "cli/cli_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define PROGRESS_PERIOD_NS (NS_PER_S / 5)
#define PROGRESS_DELAY_NS (NS_PER_S / 2)

static bool is_status_shown; /* I2 */

static void write_line(const char *what, const char *why)
{
	struct stet_cli_text line = { 0 };

	stet_cli_text_adds_(&line, "stetfs: ");
	stet_cli_escape_(&line, what, false);
	stet_cli_text_adds_(&line, ": ");
	stet_cli_escape_(&line, why, false);
	stet_cli_text_adds_(&line, "\n");
	stet_cli_status_(NULL);
	fflush(stdout);
	fputs(line.s, stderr);
	stet_cli_text_release_(&line);
}

void stet_cli_error_(const char *what, const char *format, ...)
{
	char *why = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&why, format, args) < 0)
		why = NULL;
	va_end(args);
	write_line(what, why ? why : format);
	free(why);
}

static const char *reason(int rc)
{
	switch (-rc) {
	case EUCLEAN:
		return "damaged; \"stetfs check\" tells more";
	case EBUSY:
		return "in use: others are changing it, or have it open for writing";
	case EXDEV:
		return "not in the same volume";
	default:
		return strerror(-rc);
	}
}

int stet_cli_fail_(const char *what, int rc)
{
	write_line(what, rc == -EBUSY ? strerror(EBUSY) : reason(rc));
	return STET_CLI_FAILED;
}

static char *old_origin; /* of an error that was overcome; owned; NULL: none */

void stet_cli_forget_origin_(void)
{
	free(old_origin);
	old_origin = stet_cli_strdup_(stet_error_text());
}

/* For what errors of the library it helps to know what led to them. */
static bool wants_origin(int rc)
{
	return rc == -EIO || rc == -EUCLEAN;
}

/* What cannot be done, of which the library says what it is. */
static bool says_it_all(int rc)
{
	return rc == -EINVAL || rc == -EOPNOTSUPP;
}

const char *stet_cli_origin_(const char *what)
{
	const char *origin = stet_error_text();
	size_t len = strlen(what);

	if (old_origin && strcmp(origin, old_origin) == 0)
		return "";
	return strncmp(origin, what, len) == 0 && strncmp(origin + len, ": ", 2) == 0
		       ? origin + len + 2
		       : origin;
}

int stet_cli_fail_volume_(const char *what, int rc)
{
	const char *origin = stet_cli_origin_(what);

	if (origin[0] && getenv("STETFS_DEBUG"))
		stet_cli_error_(what, "%s (%s: %s)", reason(rc), stet_error_place(), origin);
	else if (says_it_all(rc) && origin[0])
		write_line(what, origin);
	else if (wants_origin(rc) && origin[0])
		stet_cli_error_(what, "%s (%s)", reason(rc), origin);
	else
		write_line(what, reason(rc));
	return STET_CLI_FAILED;
}

/// Progress ///

void stet_cli_status_(const char *line)
{
	if (is_status_shown)
		fputs("\r\033[K", stderr);
	is_status_shown = line != NULL;
	if (line)
		fputs(line, stderr);
	fflush(stderr);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

void stet_cli_progress_(struct stet_cli_progress *progress)
{
	char size[STET_CLI_SIZE_MAX];
	char line[128];
	int64_t now;

	if (progress->next_ns == INT64_MAX)
		return;
	now = now_ns();
	if (progress->next_ns == 0)
		progress->next_ns = isatty(STDERR_FILENO) ? now + PROGRESS_DELAY_NS : INT64_MAX;
	if (now < progress->next_ns)
		return;
	progress->next_ns = now + PROGRESS_PERIOD_NS;
	stet_cli_format_size_(progress->bytes, size);
	if (progress->files == 0)
		snprintf(line, sizeof(line), "%s %s", progress->verb, size);
	else
		snprintf(line, sizeof(line), "%s %llu%s%s", progress->verb,
			 (unsigned long long)progress->files, progress->bytes ? ", " : "",
			 progress->bytes ? size : "");
	stet_cli_status_(line);
}

/// Standard output ///

void stet_cli_print_name_(const char *name)
{
	static int is_terminal = -1;
	struct stet_cli_text text = { 0 };

	if (is_terminal < 0)
		is_terminal = isatty(STDOUT_FILENO);
	if (!is_terminal) {
		fputs(name, stdout);
		return;
	}
	stet_cli_text_adds_(&text, "");
	stet_cli_escape_(&text, name, true);
	fputs(text.s, stdout);
	stet_cli_text_release_(&text);
}

int stet_cli_flush_(int code)
{
	bool failed = ferror(stdout) != 0;

	stet_cli_status_(NULL);
	errno = 0;
	if (fflush(stdout) != 0)
		failed = true;
	if (!failed)
		return code;
	stet_cli_error_("standard output", "%s", errno ? strerror(errno) : "write error");
	return code ? code : STET_CLI_FAILED;
}
