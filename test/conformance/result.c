/* result.c - results, and the names of errno values. */
#include "script.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int error;
} errors[] = {
#define E(name)             \
	{                   \
#name, name \
	}
	E(E2BIG),      E(EACCES), E(EAGAIN),     E(EBADF),   E(EBUSY),        E(ECHILD),
	E(EDEADLK),    E(EDOM),   E(EEXIST),     E(EFAULT),  E(EFBIG),        E(EINTR),
	E(EINVAL),     E(EIO),    E(EISDIR),     E(ELOOP),   E(EMFILE),       E(EMLINK),
	E(ENODATA),    E(ENODEV), E(ENOENT),     E(ENOEXEC), E(ENAMETOOLONG), E(ENOLCK),
	E(ENOMEM),     E(ENOSPC), E(ENOSYS),     E(ENOTDIR), E(ENOTEMPTY),    E(ENOTSUP),
	E(ENOTTY),     E(ENXIO),  E(EPERM),      E(EPIPE),   E(ERANGE),       E(EROFS),
	E(ESPIPE),     E(ESTALE), E(ETXTBSY),    E(EUCLEAN), E(EXDEV),        E(EOVERFLOW),
	E(EOPNOTSUPP), E(ETIME),  E(EADDRINUSE), E(EDQUOT),
#undef E
};

const char *error_name(int error)
{
	static char unknown[32];

	if (error == EOPNOTSUPP)
		return "EOPNOTSUPP";
	for (size_t i = 0; i < COUNT(errors); i++)
		if (errors[i].error == error)
			return errors[i].name;
	snprintf(unknown, sizeof(unknown), "errno %d", error);
	return unknown;
}

int error_number(const char *name)
{
	for (size_t i = 0; i < COUNT(errors); i++)
		if (strcmp(errors[i].name, name) == 0)
			return errors[i].error;
	return 0;
}

void result_call(struct result *ret, int64_t rc)
{
	if (rc < 0)
		ret->error = errno;
	else
		ret->value = rc;
}

void result_error(struct result *ret, int error)
{
	ret->error = error;
}

void result_text(struct result *ret, const void *text, size_t len)
{
	ret->text = malloc(len + 1);
	if (!ret->text) {
		ret->error = ENOMEM;
		return;
	}
	memcpy(ret->text, text, len);
	ret->text[len] = 0;
	ret->len = len;
	ret->has_text = true;
}

void result_failed(struct result *ret, const char *format, ...)
{
	char *text;
	va_list args;
	int len;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	ret->error = EDOM; /* no call gives that */
	if (len < 0)
		return;
	result_text(ret, text, (size_t)len);
	free(text);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void result_names(struct result *ret, char **names, size_t count)
{
	size_t len = 0;
	char *text;

	if (count)
		qsort(names, count, sizeof(*names), compare);
	for (size_t i = 0; i < count; i++)
		len += strlen(names[i]) + 1;
	text = calloc(1, len + 1);
	if (!text) {
		ret->error = ENOMEM;
		return;
	}
	for (size_t i = 0, at = 0; i < count; i++)
		at += (size_t)sprintf(text + at, "%s%s", i ? "," : "", names[i]);
	result_text(ret, text, strlen(text));
	free(text);
}

void result_release(struct result *result)
{
	free(result->text);
	memset(result, 0, sizeof(*result));
}
