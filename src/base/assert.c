/* assert.c - the end of a program that is wrong.
 *
 * Says what was seen, and the thread's latest error as a hint, on stderr; then aborts. Takes no
 * memory and no lock but stdio's.
 */
#include "base/assert.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static _Noreturn void give_up(void)
{
	if (*stet_error_text())
		fprintf(stderr, "latest error: %s\n", stet_error_text());
	abort();
}

static void print_value(const char *side, struct stet_assert_value value)
{
	if (value.is_signed)
		fprintf(stderr, "  %s: %" PRIdMAX "\n", side, (intmax_t)value.bits);
	else
		fprintf(stderr, "  %s: %" PRIu64 " (0x%" PRIx64 ")\n", side, value.bits,
			value.bits);
}

_Noreturn void stet_assert_failed(const char *expr, const char *file, int line, const char *func)
{
	fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, func, expr);
	give_up();
}

_Noreturn void stet_assert_cmp_failed(const char *expr, struct stet_assert_value a,
				      struct stet_assert_value b, const char *file, int line,
				      const char *func)
{
	fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, func, expr);
	print_value("left", a);
	print_value("right", b);
	give_up();
}
