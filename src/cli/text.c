/* text.c - memory, strings that grow, and what may be shown on a terminal.
 *
 * I1. What escape makes is one line of printable text: no byte of a name reaches a terminal as a
 *     control character, in no encoding, and no character turns the direction of what follows.
 */
#include "cli/cli_internal.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Memory ///

static void *must(void *p)
{
	if (p)
		return p;
	fputs("stetfs: out of memory\n", stderr);
	exit(STET_CLI_FAILED);
}

void *stet_cli_alloc_(size_t size)
{
	return must(calloc(1, size ? size : 1));
}

void *stet_cli_realloc_(void *old, size_t size)
{
	return must(realloc(old, size));
}

char *stet_cli_strdup_(const char *s)
{
	return must(strdup(s));
}

/// Text ///

static void make_room(struct stet_cli_text *text, size_t more)
{
	size_t need = text->len + more + 1;

	if (need <= text->cap)
		return;
	text->cap = need < 64 ? 64 : need + need / 2;
	text->s = stet_cli_realloc_(text->s, text->cap);
}

void stet_cli_text_add_(struct stet_cli_text *text, const char *bytes, size_t len)
{
	make_room(text, len);
	if (len)
		memcpy(text->s + text->len, bytes, len);
	text->len += len;
	text->s[text->len] = '\0';
}

void stet_cli_text_adds_(struct stet_cli_text *text, const char *s)
{
	stet_cli_text_add_(text, s, strlen(s));
}

static void add_formatted(struct stet_cli_text *text, const char *format, va_list args)
{
	char *s = NULL;

	if (vasprintf(&s, format, args) < 0)
		must(NULL);
	stet_cli_text_adds_(text, s);
	free(s);
}

void stet_cli_text_addf_(struct stet_cli_text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_formatted(text, format, args);
	va_end(args);
}

void stet_cli_text_join_(struct stet_cli_text *text, const char *name)
{
	if (text->len && text->s[text->len - 1] != '/')
		stet_cli_text_add_(text, "/", 1);
	stet_cli_text_adds_(text, name);
}

void stet_cli_text_cut_(struct stet_cli_text *text, size_t len)
{
	if (!text->s)
		return;
	text->len = len;
	text->s[len] = '\0';
}

void stet_cli_text_release_(struct stet_cli_text *text)
{
	free(text->s);
	*text = (struct stet_cli_text){ 0 };
}

/// Characters ///

size_t stet_cli_utf8_(const char *s, size_t len, uint32_t *ret_char)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *byte = (const unsigned char *)s;
	size_t n = 0;
	uint32_t c;

	if (len == 0)
		return 0;
	if (byte[0] < 0x80) {
		*ret_char = byte[0];
		return 1;
	}
	n = byte[0] >= 0xf0 ? 4 : byte[0] >= 0xe0 ? 3 : 2;
	if (byte[0] < 0xc2 || byte[0] > 0xf4 || n > len)
		return 0;
	c = byte[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (byte[i] & 0x3fu);
	}
	if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret_char = c;
	return n;
}

/* I1. */
static bool may_be_shown(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	if (c < 0x80)
		return true;
	if ((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e))
		return false;
	if ((c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb))
		return false;
	if (c == 0x061c || c == 0x00ad || (c & 0xfffe) == 0xfffe || c >= 0xe0000)
		return false;
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static void escape_byte(struct stet_cli_text *text, unsigned char byte)
{
	static const char letters[] = "abtnvfr"; /* from 7 on */

	if (byte >= '\a' && byte <= '\r')
		stet_cli_text_addf_(text, "\\%c", letters[byte - '\a']);
	else
		stet_cli_text_addf_(text, "\\%03o", byte);
}

void stet_cli_escape_(struct stet_cli_text *text, const char *s, bool also_backslash)
{
	size_t left = strlen(s);

	while (left) {
		uint32_t c = 0;
		size_t n = stet_cli_utf8_(s, left, &c);
		bool shown = n && may_be_shown(c);

		if (shown && also_backslash && c == '\\')
			stet_cli_text_add_(text, "\\", 1);
		if (shown)
			stet_cli_text_add_(text, s, n);
		if (n == 0)
			n = 1;
		for (size_t i = 0; i < n && !shown; i++)
			escape_byte(text, (unsigned char)s[i]);
		s += n;
		left -= n;
	}
}

/// Names ///

const char *stet_cli_basename_(const char *path, size_t *ret_len)
{
	size_t end = strlen(path);
	size_t start;

	while (end && path[end - 1] == '/')
		end--;
	for (start = end; start && path[start - 1] != '/';)
		start--;
	*ret_len = end - start;
	return path + start;
}

void stet_cli_names_add_(struct stet_cli_names *names, const char *name)
{
	if (names->count == names->cap) {
		names->cap = names->cap ? names->cap * 2 : 16;
		names->name = stet_cli_realloc_(names->name, names->cap * sizeof(*names->name));
	}
	names->name[names->count++] = stet_cli_strdup_(name);
}

void stet_cli_names_release_(struct stet_cli_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct stet_cli_names){ 0 };
}
