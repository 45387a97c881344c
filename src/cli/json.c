/* json.c - writes JSON to standard output as it goes, so that a listing of any length needs no
 * memory.
 *
 * I1. What is written is one valid JSON text in UTF-8, also when a command fails in the middle:
 *     commands close what they opened before they return.
 * I2. Strings of the volume are bytes. Those that are not UTF-8 are shown with U+FFFD in place of
 *     the wrong bytes, and the member KEY_hex beside them has the bytes exactly.
 * I3. Times are strings (ISO 8601, UTC, nanoseconds): as numbers they would lose digits in most
 *     readers.
 *
 * The members of a command are its interface: new ones may be added, none changes its meaning.
 */
#include "cli/cli_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_string(const char *s)
{
	size_t left = strlen(s);

	putchar('"');
	while (left) {
		uint32_t c = 0;
		size_t n = stet_cli_utf8_(s, left, &c);

		if (n == 0)
			fputs("\xef\xbf\xbd", stdout); /* I2 */
		else if (c == '"' || c == '\\')
			printf("\\%c", (int)c);
		else if (c < 0x20 || c == 0x7f)
			printf("\\u%04x", c);
		else
			fwrite(s, 1, n, stdout);
		if (n == 0)
			n = 1;
		s += n;
		left -= n;
	}
	putchar('"');
}

static void begin_value(struct stet_cli_json *json, const char *key)
{
	if (json->begun)
		putchar(',');
	/* A line for each member of the outermost value, and for each item of a list in it. */
	if (json->depth == 1 || (json->depth == 2 && !key))
		putchar('\n');
	else if (json->begun)
		putchar(' ');
	json->begun = true;
	if (!key)
		return;
	put_string(key);
	fputs(": ", stdout);
}

void stet_cli_json_open_(struct stet_cli_json *json, const char *key, char bracket)
{
	if (!json->on)
		return;
	begin_value(json, key);
	putchar(bracket);
	json->depth++;
	json->begun = false;
}

void stet_cli_json_close_(struct stet_cli_json *json, char bracket)
{
	if (!json->on)
		return;
	json->depth--;
	if (json->depth == 0 && json->begun)
		putchar('\n');
	putchar(bracket);
	if (json->depth == 0)
		putchar('\n');
	json->begun = true;
}

static bool is_utf8(const char *s)
{
	size_t left = strlen(s);

	while (left) {
		uint32_t c;
		size_t n = stet_cli_utf8_(s, left, &c);

		if (n == 0)
			return false;
		s += n;
		left -= n;
	}
	return true;
}

void stet_cli_json_string_(struct stet_cli_json *json, const char *key, const char *s)
{
	if (!json->on)
		return;
	begin_value(json, key);
	put_string(s);
	if (!key || is_utf8(s))
		return;
	printf(", \"%s_hex\": \"", key);
	for (; *s; s++)
		printf("%02x", (unsigned char)*s);
	putchar('"');
}

void stet_cli_json_number_(struct stet_cli_json *json, const char *key, uint64_t value)
{
	if (!json->on)
		return;
	begin_value(json, key);
	printf("%" PRIu64, value);
}

void stet_cli_json_bool_(struct stet_cli_json *json, const char *key, bool value)
{
	if (!json->on)
		return;
	begin_value(json, key);
	fputs(value ? "true" : "false", stdout);
}

void stet_cli_json_time_(struct stet_cli_json *json, const char *key, int64_t time_ns)
{
	char buf[STET_CLI_TIME_MAX];

	stet_cli_format_utc_(time_ns, buf);
	stet_cli_json_string_(json, key, buf);
}
