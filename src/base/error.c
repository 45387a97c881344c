/* error.c - the ring of failures that each thread remembers.
 *
 * I1. Entry number i (counted from 0 since the last clear) is in slot i % STET_ERROR_RING_SIZE; so
 *     the text of the latest failure may be an argument of the next one.
 * I2. Recording allocates nothing and keeps errno.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
	struct stet_error_entry slot[STET_ERROR_RING_SIZE];
	size_t n; /* failures since the last clear */
} ring;

/* "layer/file.c" of a path the compiler was given, wherever the build was started. */
static const char *short_path(const char *file)
{
	const char *found = file;

	for (const char *p = strstr(file, "src/"); p; p = strstr(p + 1, "src/"))
		found = p + strlen("src/");
	while (strncmp(found, "../", 3) == 0)
		found += 3;
	return found;
}

void stet_error_record(int err, const char *file, int line, const char *fmt, ...)
{
	struct stet_error_entry *entry = &ring.slot[ring.n % STET_ERROR_RING_SIZE];
	int saved_errno = errno;
	va_list args;

	entry->err = err;
	(void)snprintf(entry->place, sizeof(entry->place), "%s:%d", short_path(file), line);
	va_start(args, fmt);
	(void)vsnprintf(entry->text, sizeof(entry->text), fmt, args);
	va_end(args);
	ring.n++;
	errno = saved_errno;
}

void stet_error_note(int err, const char *place, const char *text)
{
	struct stet_error_entry *entry = &ring.slot[ring.n % STET_ERROR_RING_SIZE];
	int saved_errno = errno;

	entry->err = err;
	(void)snprintf(entry->place, sizeof(entry->place), "%s", place);
	(void)snprintf(entry->text, sizeof(entry->text), "%s", text);
	ring.n++;
	errno = saved_errno;
}

const struct stet_error_entry *stet_error_entry(size_t back)
{
	if (back >= ring.n || back >= STET_ERROR_RING_SIZE)
		return NULL;
	return &ring.slot[(ring.n - 1 - back) % STET_ERROR_RING_SIZE];
}

const char *stet_error_text(void)
{
	const struct stet_error_entry *entry = stet_error_entry(0);

	return entry ? entry->text : "";
}

const char *stet_error_place(void)
{
	const struct stet_error_entry *entry = stet_error_entry(0);

	return entry ? entry->place : "";
}

void stet_error_clear(void)
{
	ring.n = 0;
}
