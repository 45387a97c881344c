/* text.h - growing text, for printers.
 *
 * Printing never fails: when memory runs out, the text stays cut there and says so (truncated).
 * All zero is a valid empty text.
 */
#ifndef STET_BASE_TEXT_H
#define STET_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct stet_text {
	char *p;    /* owned; NUL-terminated, or NULL while nothing was appended */
	size_t len; /* without the NUL */
	size_t cap;
	bool truncated; /* sticky: something could not be appended; later appends do nothing */
};

/** Makes an empty text; allocates nothing. */
void stet_text_init(struct stet_text *text);

/** Frees the memory; the text is empty again. NULL is accepted. */
void stet_text_release(struct stet_text *text);

/** Empties the text and keeps the memory; also forgets truncated. */
void stet_text_clear(struct stet_text *text);

/** Appends formatted text. */
void stet_text_printf(struct stet_text *text, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** Appends the string. */
void stet_text_puts(struct stet_text *text, const char *s);

/**
 * Appends a name of any bytes so that it can be shown and told apart: backslash, control
 * characters and what is not valid UTF-8 become \xNN.
 */
void stet_text_name(struct stet_text *text, const void *bytes, size_t len);

/** The text, "" when empty. Borrowed: valid until the next call on it. */
const char *stet_text_cstr(const struct stet_text *text);

/**
 * Copies the string, cut to what cap has room for with its NUL; cap 0: nothing. Returns how long the whole
 * is.
 */
size_t stet_text_copy(const char *s, char *buf, size_t cap);

#endif
