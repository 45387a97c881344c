/* text.c - growing text that never fails, only stays short.
 *
 * I1. Once something was appended, p is NUL-terminated at len and len < cap.
 * I2. What is cut is cut at the end: after a failure (truncated) nothing more is appended.
 */
#include "base/text.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MIN_CAP_BYTES 128

void stet_text_init(struct stet_text *text)
{
	*text = (struct stet_text){ 0 };
}

void stet_text_release(struct stet_text *text)
{
	if (!text)
		return;
	stet_free(text->p);
	stet_text_init(text);
}

void stet_text_clear(struct stet_text *text)
{
	text->len = 0;
	text->truncated = false;
	if (text->p)
		text->p[0] = '\0';
}

/* Makes room for n more characters and the NUL; false (and truncated) when there is none. */
static bool make_room(struct stet_text *text, size_t n)
{
	size_t need;
	size_t cap;
	char *p;

	if (text->truncated)
		return false;
	if (__builtin_add_overflow(text->len, n, &need) || __builtin_add_overflow(need, 1, &need)) {
		text->truncated = true;
		return false;
	}
	if (need <= text->cap)
		return true;
	cap = text->cap + text->cap / 2;
	if (cap < need)
		cap = need;
	if (cap < MIN_CAP_BYTES)
		cap = MIN_CAP_BYTES;
	p = stet_realloc(text->p, cap);
	if (!p) {
		text->truncated = true;
		return false;
	}
	text->p = p;
	text->cap = cap;
	return true;
}

static void append(struct stet_text *text, const void *p, size_t n)
{
	if (!make_room(text, n))
		return;
	memcpy(text->p + text->len, p, n);
	text->len += n;
	text->p[text->len] = '\0';
}

void stet_text_printf(struct stet_text *text, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0) {
		text->truncated = true;
		return;
	}
	if (!make_room(text, (size_t)n))
		return;
	va_start(args, fmt);
	(void)vsnprintf(text->p + text->len, (size_t)n + 1, fmt, args);
	va_end(args);
	text->len += (size_t)n;
}

void stet_text_puts(struct stet_text *text, const char *s)
{
	append(text, s, strlen(s));
}

/* What the first byte of a UTF-8 character says: its length and the lowest code point of that
 * length; length 0 when no character starts so. */
static size_t utf8_len(uint8_t first, uint32_t *ret_lowest)
{
	static const struct {
		uint8_t mask;
		uint8_t bits;
		uint32_t lowest;
	} kinds[] = {
		{ 0x80, 0x00, 0 },
		{ 0xe0, 0xc0, 0x80 },
		{ 0xf0, 0xe0, 0x800 },
		{ 0xf8, 0xf0, 0x10000 },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if ((first & kinds[i].mask) == kinds[i].bits) {
			*ret_lowest = kinds[i].lowest;
			return i + 1;
		}
	}
	return 0;
}

/* The length of the printable UTF-8 character at p, or 0 when there is none. */
static size_t printable_len(const uint8_t *p, size_t len)
{
	uint32_t lowest = 0;
	size_t n = utf8_len(p[0], &lowest);
	uint32_t code;

	if (n == 0 || n > len)
		return 0;
	if (n == 1)
		return p[0] >= 0x20 && p[0] != 0x7f && p[0] != '\\';
	code = p[0] & (0x7fU >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < lowest || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;            /* overlong, too high, surrogate */
	return code >= 0xa0 ? n : 0; /* C1 controls */
}

void stet_text_name(struct stet_text *text, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	while (len > 0 && !text->truncated) {
		size_t n = printable_len(p, len);

		if (n > 0) {
			append(text, p, n);
		} else {
			n = 1;
			stet_text_printf(text, "\\x%02x", p[0]);
		}
		p += n;
		len -= n;
	}
}

const char *stet_text_cstr(const struct stet_text *text)
{
	return text->p ? text->p : "";
}

size_t stet_text_copy(const char *s, char *buf, size_t cap)
{
	size_t len = strlen(s);

	if (cap > 0) {
		size_t n = len < cap ? len : cap - 1;

		memcpy(buf, s, n);
		buf[n] = 0;
	}
	return len;
}
