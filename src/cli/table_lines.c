/* table_lines.c - records as lines of text, one each: what `stetfs table` writes and reads.
 *
 * Two forms, which both hold any bytes:
 *
 *	KEY<TAB>VALUE		\\ \t \n \r stand for a backslash, a tab, a line's end, a carriage return, and
 *				\xHH for a byte; written so are control characters and what is not UTF-8
 *	{"key": "K", "value": "V"}	JSON; what is not UTF-8 is in key64 or value64, in base64
 *
 * L1. What was written is read as the same bytes.
 * L2. What is read must be in the form, to the last byte: nothing is guessed.
 */
#include "cli/table_internal.h"

#include <stdio.h>
#include <string.h>

/// Escapes ///

/* The length of a character that is shown as it is; 0: it is escaped. */
static size_t plain_len(const char *s, size_t len)
{
	uint32_t c = 0;
	size_t n = stet_cli_utf8_(s, len, &c);

	return n == 0 || c < 0x20 || c == '\\' || (c >= 0x7f && c < 0xa0) ? 0 : n;
}

static void put_escaped(char c)
{
	static const char letters[][2] = {
		{ '\\', '\\' }, { '\t', 't' }, { '\n', 'n' }, { '\r', 'r' }
	};

	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (letters[i][0] == c) {
			printf("\\%c", letters[i][1]);
			return;
		}
	}
	printf("\\x%02x", (unsigned char)c);
}

static void put_text(const char *s, size_t len)
{
	while (len > 0) {
		size_t n = plain_len(s, len);

		if (n > 0)
			fwrite(s, 1, n, stdout);
		else
			put_escaped(*s);
		n = n ? n : 1;
		s += n;
		len -= n;
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that an escape of n bytes at s stands for; *ret_len: its length. False: it is none. */
static bool unescape(const char *s, size_t n, char *ret, size_t *ret_len)
{
	static const char from[] = "\\tnr", to[] = "\\\t\n\r";
	const char *found = n > 1 && s[1] ? strchr(from, s[1]) : NULL;

	*ret_len = 2;
	if (found) {
		*ret = to[found - from];
		return true;
	}
	if (n < 4 || s[1] != 'x' || hex_digit(s[2]) < 0 || hex_digit(s[3]) < 0)
		return false;
	*ret_len = 4;
	*ret = (char)(hex_digit(s[2]) << 4 | hex_digit(s[3]));
	return true;
}

bool stet_cli_table_unescape_(const char *s, size_t len, struct stet_cli_text *ret)
{
	while (len > 0) {
		const char *end = memchr(s, '\\', len);
		size_t plain = end ? (size_t)(end - s) : len, n = 0;
		char c;

		stet_cli_text_add_(ret, s, plain);
		if (end && !unescape(end, len - plain, &c, &n))
			return false;
		if (end)
			stet_cli_text_add_(ret, &c, 1);
		s += plain + n;
		len -= plain + n;
	}
	return true;
}

static const char *parse_text(const char *line, size_t len, struct stet_cli_record *ret)
{
	const char *tab = memchr(line, '\t', len);

	if (!tab)
		return "no tab between key and value";
	if (memchr(tab + 1, '\t', len - (size_t)(tab + 1 - line)))
		return "more than one tab";
	if (!stet_cli_table_unescape_(line, (size_t)(tab - line), &ret->key) ||
	    !stet_cli_table_unescape_(tab + 1, len - (size_t)(tab + 1 - line), &ret->value))
		return "a backslash that begins no escape";
	return NULL;
}

/// Base64 ///

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;

	for (size_t i = 0; i < len; i += 3) {
		size_t n = len - i < 3 ? len - i : 3;
		uint32_t v = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
			     (n > 2 ? p[i + 2] : 0);

		for (size_t k = 0; k < 4; k++)
			putchar(k <= n ? digits[v >> (18 - 6 * k) & 63] : '=');
	}
}

/* One group of four. */
static bool take_group(const char *s, bool last, struct stet_cli_text *ret)
{
	size_t n = s[3] != '=' ? 3 : s[2] != '=' ? 2 : 1;
	uint32_t v = 0;
	char bytes[3];

	if (n < 3 && !last)
		return false;
	for (size_t k = 0; k < 4; k++) {
		const char *found = k <= n && s[k] ? strchr(digits, s[k]) : NULL;

		if (k <= n && !found)
			return false;
		v = v << 6 | (k <= n ? (uint32_t)(found - digits) : 0);
	}
	if ((n == 1 && (v & 0xffff)) || (n == 2 && (v & 0xff)))
		return false;
	bytes[0] = (char)(v >> 16);
	bytes[1] = (char)(v >> 8);
	bytes[2] = (char)v;
	stet_cli_text_add_(ret, bytes, n);
	return true;
}

static bool take_base64(const struct stet_cli_text *from, struct stet_cli_text *ret)
{
	if (from->len % 4)
		return false;
	for (size_t i = 0; i < from->len; i += 4)
		if (!take_group(from->s + i, i + 4 == from->len, ret))
			return false;
	return true;
}

/// JSON ///

static bool is_utf8(const char *s, size_t len)
{
	while (len > 0) {
		uint32_t c;
		size_t n = stet_cli_utf8_(s, len, &c);

		if (n == 0)
			return false;
		s += n;
		len -= n;
	}
	return true;
}

static void put_json_string(const char *s, size_t len)
{
	putchar('"');
	while (len > 0) {
		uint32_t c = 0;
		size_t n = stet_cli_utf8_(s, len, &c);

		if (c == '"' || c == '\\')
			printf("\\%c", (int)c);
		else if (c < 0x20 || (c >= 0x7f && c < 0xa0))
			printf("\\u%04x", c);
		else
			fwrite(s, 1, n, stdout);
		s += n;
		len -= n;
	}
	putchar('"');
}

static void put_member(const char *name, const char *s, size_t len)
{
	if (is_utf8(s, len)) {
		printf("\"%s\": ", name);
		put_json_string(s, len);
		return;
	}
	printf("\"%s64\": \"", name);
	put_base64(s, len);
	putchar('"');
}

struct scanner {
	const char *at, *end;
};

static void skip_space(struct scanner *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r'))
		s->at++;
}

static bool take(struct scanner *s, char c)
{
	skip_space(s);
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

static bool take_hex4(struct scanner *s, uint32_t *ret)
{
	*ret = 0;
	for (int i = 0; i < 4; i++, s->at++) {
		if (s->at == s->end || hex_digit(*s->at) < 0)
			return false;
		*ret = *ret << 4 | (uint32_t)hex_digit(*s->at);
	}
	return true;
}

static void add_char(struct stet_cli_text *text, uint32_t c)
{
	char b[4] = { (char)c };
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n; n > 1 && i-- > 0; c >>= 6)
		b[i] = (char)(i > 0 ? 0x80 | (c & 0x3f) : (0xf00u >> n & 0xff) | c);
	stet_cli_text_add_(text, b, n);
}

/* What follows \u; a pair of surrogates is one character. */
static bool take_unicode(struct scanner *s, struct stet_cli_text *ret)
{
	uint32_t c, low;

	if (!take_hex4(s, &c) || (c >= 0xdc00 && c < 0xe000))
		return false;
	if (c >= 0xd800 && c < 0xdc00) {
		if (s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u')
			return false;
		s->at += 2;
		if (!take_hex4(s, &low) || low < 0xdc00 || low >= 0xe000)
			return false;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	add_char(ret, c);
	return true;
}

static bool take_json_escape(struct scanner *s, struct stet_cli_text *ret)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *found;

	if (s->at == s->end)
		return false;
	if (*s->at == 'u') {
		s->at++;
		return take_unicode(s, ret);
	}
	found = *s->at ? strchr(from, *s->at) : NULL;
	if (!found)
		return false;
	s->at++;
	stet_cli_text_add_(ret, &to[found - from], 1);
	return true;
}

static bool take_string(struct scanner *s, struct stet_cli_text *ret)
{
	stet_cli_text_adds_(ret, "");
	if (!take(s, '"'))
		return false;
	while (s->at < s->end && *s->at != '"') {
		uint32_t c = 0;
		size_t n = stet_cli_utf8_(s->at, (size_t)(s->end - s->at), &c);

		if (n == 0 || c < 0x20)
			return false;
		s->at += n;
		if (c != '\\')
			stet_cli_text_add_(ret, s->at - n, n);
		else if (!take_json_escape(s, ret))
			return false;
	}
	return take(s, '"');
}

/* A member "NAME" or "NAME64" of those that are wanted, each once. */
static const char *take_member(struct scanner *s, struct stet_cli_record *ret, bool seen[2])
{
	static const char *const names[] = { "key", "value" };
	struct stet_cli_text *const texts[] = { &ret->key, &ret->value };
	struct stet_cli_text name = { 0 }, text = { 0 };
	const char *why = "not JSON";

	if (take_string(s, &name) && take(s, ':')) {
		why = "a member that is neither key, value, key64 nor value64";
		for (size_t i = 0; i < 2; i++) {
			size_t len = strlen(names[i]);
			bool coded = strcmp(name.s + (name.len > len ? len : 0), "64") == 0;

			if (strncmp(name.s, names[i], len) != 0 || (name.len != len && !coded))
				continue;
			why = seen[i]                  ? "a member twice"
			      : !take_string(s, &text) ? "a value that is not a string"
			      : coded && !take_base64(&text, texts[i]) ? "not base64"
								       : NULL;
			if (!why && !coded)
				stet_cli_text_add_(texts[i], text.s, text.len);
			seen[i] = true;
			break;
		}
	}
	stet_cli_text_release_(&name);
	stet_cli_text_release_(&text);
	return why;
}

static const char *parse_json(const char *line, size_t len, struct stet_cli_record *ret)
{
	struct scanner s = { line, line + len };
	bool seen[2] = { false, false };
	const char *why;

	if (!take(&s, '{'))
		return "not a JSON object";
	do {
		why = take_member(&s, ret, seen);
		if (why)
			return why;
	} while (take(&s, ','));
	if (!take(&s, '}'))
		return "not JSON";
	skip_space(&s);
	if (s.at != s.end)
		return "more behind the object";
	return seen[0] && seen[1] ? NULL : "no key, or no value";
}

/// Lines ///

void stet_cli_table_write_(bool json, const struct stet_record *record, bool with_value)
{
	const char *key = record->key, *value = record->value;

	if (json) {
		putchar('{');
		put_member("key", key, record->key_len);
		if (with_value) {
			fputs(", ", stdout);
			put_member("value", value, record->value_len);
		}
		fputs("}\n", stdout);
		return;
	}
	put_text(key, record->key_len);
	if (with_value) {
		putchar('\t');
		put_text(value, record->value_len);
	}
	putchar('\n');
}

const char *stet_cli_table_parse_(bool json, const char *line, size_t len,
				  struct stet_cli_record *ret)
{
	const char *why;

	stet_cli_text_cut_(&ret->key, 0);
	stet_cli_text_cut_(&ret->value, 0);
	why = json ? parse_json(line, len, ret) : parse_text(line, len, ret);
	if (!why && ret->key.len == 0)
		why = "an empty key";
	if (!why && ret->key.len > STET_KEY_MAX)
		why = "the key is too long";
	if (!why && ret->value.len > STET_RECORD_MAX)
		why = "the value is too long";
	return why;
}
