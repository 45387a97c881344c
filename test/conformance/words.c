/* words.c - taking statements apart, and what words stand for.
 *
 * The words of the statement parsed last lie in one arena.
 */
#include "script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define ARENA_BYTES (8u << 20)

const char *script_other;
int64_t script_index = -1;

static char arena[ARENA_BYTES];
static size_t arena_used;

/* --- statements --- */

/* The first `what` outside of quotes, or the end. */
static const char *find_unquoted(const char *text, const char *what)
{
	bool quoted = false;

	for (; *text; text++) {
		if (*text == '\'')
			quoted = !quoted;
		if (!quoted && strncmp(text, what, strlen(what)) == 0)
			break;
	}
	return text;
}

static const char *skip_blanks(const char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

bool script_next(const char **script, char *statement, size_t cap)
{
	const char *from = *script ? skip_blanks(*script) : "";
	const char *end;
	size_t len;

	while (*from == ';')
		from = skip_blanks(from + 1);
	if (!*from)
		return false;
	end = find_unquoted(from, ";");
	*script = end;
	len = (size_t)(end - from);
	while (len && isspace((unsigned char)from[len - 1]))
		len--;
	if (len >= cap)
		len = cap - 1;
	memcpy(statement, from, len);
	statement[len] = 0;
	return true;
}

/* --- words --- */

static bool add_bytes(const char *bytes, size_t len)
{
	if (len >= ARENA_BYTES - arena_used)
		return false;
	memcpy(arena + arena_used, bytes, len);
	arena_used += len;
	return true;
}

static bool add_hex(const char *text, size_t len)
{
	for (size_t i = 0; i + 1 < len; i += 2) {
		char digits[3] = { text[i], text[i + 1], 0 };
		char byte = (char)strtol(digits, NULL, 16);

		if (!add_bytes(&byte, 1))
			return false;
	}
	return len % 2 == 0;
}

/* "x*N", "#00ff*N" */
static bool add_repeated(const char *text, size_t len, const char *star)
{
	bool is_hex = *text == '#';
	char number[32];
	int64_t times;
	size_t n = len - (size_t)(star - text) - 1;

	if (n >= sizeof(number))
		return false;
	memcpy(number, star + 1, n);
	number[n] = 0;
	if (!parse_number(number, &times))
		return false;
	while (times-- > 0)
		if (!(is_hex ? add_hex(text + 1, (size_t)(star - text) - 1)
			     : add_bytes(text, (size_t)(star - text))))
			return false;
	return true;
}

/* The number of a slot; -1: none. */
static int slot_of(const char *digits, size_t len)
{
	int ret = 0;

	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)digits[i]) ||
		    (ret = ret * 10 + digits[i] - '0') >= SLOTS)
			return -1;
	return ret;
}

/* What stands between braces. */
static bool add_braces(struct call *call, const char *text, size_t len)
{
	const struct backend *backend = call->backend;
	const char *star = len ? memrchr(text, '*', len) : NULL;
	const char *value = NULL;
	char number[32];

	if (len == 1 && *text == 'i') {
		snprintf(number, sizeof(number), "%lld", (long long)script_index);
		value = number;
	} else if (len == 5 && memcmp(text, "other", 5) == 0) {
		value = script_other;
	} else if (len == 3 && memcmp(text, "dir", 3) == 0) {
		value = backend->has_processes ? backend->row_dir() : NULL;
	} else if (len > 2 && memcmp(text, "fd", 2) == 0 && slot_of(text + 2, len - 2) >= 0) {
		value = backend->has_processes ? backend->fd_path(slot_of(text + 2, len - 2))
					       : NULL;
	} else if (star) {
		return add_repeated(text, len, star);
	} else if (len && *text == '#') {
		return add_hex(text + 1, len - 1);
	}
	return value && add_bytes(value, strlen(value));
}

/* One word from *text on; moves *text behind it. */
static bool take_word(struct call *call, const char **text, struct word *ret)
{
	const char *at = *text;
	bool quoted = false;
	bool ok = true;

	ret->bytes = arena + arena_used;
	ret->is_quoted = *at == '\'';
	while (ok && *at && (quoted || !isspace((unsigned char)*at))) {
		const char *end;

		if (*at == '\'') {
			quoted = !quoted;
			at++;
		} else if (*at == '{' && (end = strchr(at, '}'))) {
			ok = add_braces(call, at + 1, (size_t)(end - at) - 1);
			at = end + 1;
		} else {
			ok = add_bytes(at++, 1);
		}
	}
	ret->len = (size_t)(arena + arena_used - ret->bytes);
	*text = at;
	return ok && add_bytes("", 1) && !quoted;
}

/* "@2&" and "a:" in front. */
static const char *take_prefixes(const char *text, struct call *ret)
{
	if (text[0] == '@' && isdigit((unsigned char)text[1])) {
		ret->agent = text[1] - '0';
		text += 2;
		if (*text == '&') {
			ret->waits_not = true;
			text++;
		}
		text = skip_blanks(text);
	}
	if (isalpha((unsigned char)text[0]) && text[1] == ':') {
		ret->who = text;
		text = skip_blanks(text + 2);
	}
	return text;
}

static const struct command *find_command(const struct backend *backend, const struct word *name)
{
	for (const struct command *c = backend->commands; c->name; c++)
		if (strcmp(c->name, name->bytes) == 0)
			return c;
	return NULL;
}

/* What stands behind "=>", as it is. */
static bool parse_want(const char *text, struct call *ret)
{
	struct word want = { .bytes = arena + arena_used };

	text = skip_blanks(text + 2);
	want.len = strlen(text);
	if (!add_bytes(text, want.len + 1))
		return false;
	ret->want = want.bytes;
	return true;
}

bool script_parse(const struct backend *backend, const char *statement, struct call *ret)
{
	const char *text = statement;
	const char *end = find_unquoted(statement, "=>");
	struct word name;

	memset(ret, 0, sizeof(*ret));
	ret->backend = backend;
	arena_used = 0;
	text = take_prefixes(text, ret);
	if (!take_word(ret, &text, &name)) {
		ret->bad = "bad word";
		return false;
	}
	ret->command = find_command(backend, &name);
	for (text = skip_blanks(text); *text && text < end; text = skip_blanks(text)) {
		if (ret->count == WORDS_MAX || !take_word(ret, &text, &ret->words[ret->count])) {
			ret->bad = "bad word";
			return false;
		}
		ret->count++;
	}
	if (*end && !parse_want(end, ret))
		ret->bad = "want too long";
	else if (!ret->command)
		ret->bad = "no such command";
	else if (ret->count < ret->command->min || ret->count > ret->command->max)
		ret->bad = "wrong count of words";
	return !ret->bad;
}

/* --- what words stand for --- */

const char *word_text(struct call *call, size_t n)
{
	if (n >= call->count) {
		call->bad = "a word is missing";
		return "";
	}
	return call->words[n].bytes;
}

bool word_is(const struct call *call, size_t n, const char *text)
{
	return n < call->count && strcmp(call->words[n].bytes, text) == 0;
}

static bool parse_suffix(char **end, int64_t *value)
{
	static const char suffixes[] = "KMGT";
	const char *at = **end ? strchr(suffixes, **end) : NULL;

	if (at) {
		*value *= INT64_C(1) << (10 * (at - suffixes + 1));
		(*end)++;
	}
	return true;
}

bool parse_number(const char *text, int64_t *ret)
{
	int64_t value;
	char *end;

	if (strncmp(text, "max", 3) == 0) {
		value = INT64_MAX;
		end = (char *)(uintptr_t)text + 3;
	} else {
		value = strtoll(text, &end, 0);
		if (end == text)
			return false;
		parse_suffix(&end, &value);
	}
	if (*end == '+' || *end == '-') {
		char *more;
		int64_t add = strtoll(end, &more, 0);

		if (more == end)
			return false;
		parse_suffix(&more, &add);
		value += add;
		end = more;
	}
	*ret = value;
	return *end == 0;
}

int64_t word_number(struct call *call, size_t n)
{
	int64_t ret = 0;

	if (!parse_number(word_text(call, n), &ret))
		call->bad = "not a number";
	return ret;
}

mode_t word_octal(struct call *call, size_t n)
{
	const char *text = word_text(call, n);
	char *end;
	unsigned long ret = strtoul(text, &end, 8);

	if (end == text || *end)
		call->bad = "not an octal number";
	return (mode_t)ret;
}

int word_slot(struct call *call, size_t n)
{
	int64_t ret = word_number(call, n);

	if (ret < 0 || ret >= SLOTS)
		call->bad = "no such slot";
	return call->bad ? 0 : (int)ret;
}

bool find_flags(const char *text, const struct flag *flags, int64_t *ret)
{
	*ret = 0;
	while (*text) {
		size_t len = strcspn(text, "|");
		const struct flag *flag = flags;

		while (flag->name &&
		       (strlen(flag->name) != len || memcmp(flag->name, text, len) != 0))
			flag++;
		if (!flag->name)
			return false;
		*ret |= flag->value;
		text += len;
		if (*text == '|')
			text++;
	}
	return true;
}

int64_t word_flags(struct call *call, size_t n, const struct flag *flags)
{
	int64_t ret = 0;

	if (!find_flags(word_text(call, n), flags, &ret))
		call->bad = "no such flag";
	return ret;
}
