/* units.c - sizes, numbers and times, read and written. Pure. */
#include "cli/cli_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000

static const char suffixes[] = "KMGTPE";

bool stet_cli_parse_number_(const char *word, uint64_t *ret)
{
	uint64_t value = 0;

	if (!*word)
		return false;
	for (; *word; word++) {
		if (!isdigit((unsigned char)*word))
			return false;
		if (__builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*word - '0'), &value))
			return false;
	}
	*ret = value;
	return true;
}

bool stet_cli_parse_size_(const char *word, uint64_t *ret)
{
	char digits[24];
	size_t len = strspn(word, "0123456789");
	const char *rest = word + len;
	uint64_t value;
	unsigned shift = 0;

	if (len == 0 || len >= sizeof(digits))
		return false;
	memcpy(digits, word, len);
	digits[len] = '\0';
	if (!stet_cli_parse_number_(digits, &value))
		return false;
	if (*rest) {
		const char *found = strchr(suffixes, toupper((unsigned char)*rest));

		if (!found)
			return false;
		shift = 10u * (unsigned)(found - suffixes + 1);
		rest++;
		if (strcmp(rest, "iB") != 0 && strcmp(rest, "B") != 0 && *rest)
			return false;
	}
	if (shift && value > UINT64_MAX >> shift)
		return false;
	*ret = value << shift;
	return true;
}

static void format_scaled(uint64_t bytes, const char *plain, const char *space, const char *tail,
			  char buf[STET_CLI_SIZE_MAX])
{
	double value = (double)bytes;
	int unit = -1;

	while (value >= 1023.95 && suffixes[unit + 1]) {
		value /= 1024;
		unit++;
	}
	if (unit < 0)
		snprintf(buf, STET_CLI_SIZE_MAX, "%u%s", (unsigned)bytes, plain);
	else
		snprintf(buf, STET_CLI_SIZE_MAX, value < 99.95 ? "%.1f%s%c%s" : "%.0f%s%c%s", value,
			 space, suffixes[unit], tail);
}

void stet_cli_format_size_(uint64_t bytes, char buf[STET_CLI_SIZE_MAX])
{
	format_scaled(bytes, " bytes", " ", "iB", buf);
}

void stet_cli_format_short_size_(uint64_t bytes, char buf[STET_CLI_SIZE_MAX])
{
	format_scaled(bytes, "", "", "", buf);
}

int64_t stet_cli_ns_(const struct timespec *ts)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)ts->tv_sec, INT64_C(1000000000), &ns) ||
	    __builtin_add_overflow(ns, (int64_t)ts->tv_nsec, &ns))
		return ts->tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

/* Rounds towards the past, so that the rest is never negative. */
static void split(int64_t time_ns, time_t *ret_s, long *ret_ns)
{
	int64_t s = time_ns / NS_PER_S;
	int64_t ns = time_ns % NS_PER_S;

	if (ns < 0) {
		ns += NS_PER_S;
		s--;
	}
	*ret_s = (time_t)s;
	*ret_ns = (long)ns;
}

void stet_cli_format_utc_(int64_t time_ns, char buf[STET_CLI_TIME_MAX])
{
	struct tm tm;
	time_t s;
	long ns;
	size_t len;

	split(time_ns, &s, &ns);
	gmtime_r(&s, &tm);
	len = strftime(buf, STET_CLI_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + len, STET_CLI_TIME_MAX - len, ".%09ldZ", ns);
}

void stet_cli_format_local_(int64_t time_ns, bool exact, char buf[STET_CLI_TIME_MAX])
{
	struct tm tm;
	time_t s;
	long ns;
	size_t len;

	split(time_ns, &s, &ns);
	localtime_r(&s, &tm);
	if (!exact) {
		strftime(buf, STET_CLI_TIME_MAX, "%Y-%m-%d %H:%M", &tm);
		return;
	}
	len = strftime(buf, STET_CLI_TIME_MAX, "%Y-%m-%d %H:%M:%S", &tm);
	len += (size_t)snprintf(buf + len, STET_CLI_TIME_MAX - len, ".%09ld", ns);
	strftime(buf + len, STET_CLI_TIME_MAX - len, " %z", &tm);
}
