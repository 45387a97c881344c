/* script.c - performing statements, and judging what they gave. */
#include "script.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* `repeat N statement`: the rest is performed N times, with {i} counting. */
static bool is_repeat(const char *statement, int64_t *ret_count, const char **ret_inner)
{
	char number[32];
	size_t len;

	if (strncmp(statement, "repeat ", 7) != 0)
		return false;
	statement += 7;
	len = strcspn(statement, " ");
	if (len >= sizeof(number))
		return false;
	memcpy(number, statement, len);
	number[len] = 0;
	*ret_inner = statement + len;
	while (isspace((unsigned char)**ret_inner))
		(*ret_inner)++;
	return parse_number(number, ret_count);
}

void script_perform_here(struct call *call, const char *statement, struct result *ret)
{
	if (call->who && !user_become(*call->who)) {
		call->bad = "no such user";
		return;
	}
	if (strcmp(call->command->name, "wait") == 0)
		agent_wait((int)word_number(call, 0), ret);
	else
		call->command->run(call, ret);
	(void)statement;
	if (call->who)
		user_be_root();
}

static void perform_once(struct call *call, const char *statement, struct result *ret)
{
	if (call->agent)
		agent_perform(call->backend, call, statement, ret);
	else
		script_perform_here(call, statement, ret);
}

/* The results of all but the last must be what is wanted of each. */
static void perform_repeated(const struct backend *backend, struct call *call, int64_t count,
			     const char *inner, struct result *ret)
{
	for (script_index = 0; script_index < count; script_index++) {
		result_release(ret);
		if (!script_parse(backend, inner, call))
			break;
		perform_once(call, inner, ret);
		if (call->bad || (script_index + 1 < count && !script_is_wanted(ret, call->want)))
			break;
	}
	script_index = -1;
}

void script_perform(const struct backend *backend, struct call *call, const char *statement,
		    struct result *ret)
{
	const char *inner;
	int64_t count;

	memset(ret, 0, sizeof(*ret));
	if (is_repeat(statement, &count, &inner))
		perform_repeated(backend, call, count, inner, ret);
	else if (script_parse(backend, statement, call))
		perform_once(call, statement, ret);
}

void script_end_row(void)
{
	agent_end_all();
}

/* --- judging --- */

/* A quoted text with braces, compared without building it twice: parsed as a word of its own. */
static bool is_wanted_text(const struct result *got, const char *want)
{
	static const struct command any[] = { { "is", 1, 1, NULL, NULL }, { 0 } };
	static const struct backend plain = { .commands = any };
	char *statement;
	struct call call;
	bool ret;

	if (asprintf(&statement, "is %s", want) < 0)
		return false;
	ret = got->has_text && script_parse(&plain, statement, &call) &&
	      call.words[0].len == got->len &&
	      memcmp(call.words[0].bytes, got->text, got->len) == 0;
	free(statement);
	return ret;
}

bool script_is_wanted(const struct result *got, const char *want)
{
	int64_t number;

	if (!want || strcmp(want, "ok") == 0)
		return got->error == 0;
	if (strcmp(want, "SIGBUS") == 0)
		return got->error == SIGNALLED;
	if (*want == 'E' && error_number(want))
		return got->error == error_number(want);
	if (got->error)
		return false;
	if (*want == '\'')
		return is_wanted_text(got, want);
	if (*want == '>')
		return parse_number(want + 1, &number) && !got->has_text && got->value > number;
	return parse_number(want, &number) && !got->has_text && got->value == number;
}

void script_show(const struct result *result, char *buf, size_t cap)
{
	size_t used = 0;

	if (result->error == SIGNALLED && !result->has_text) {
		snprintf(buf, cap, "SIGBUS");
	} else if (result->error && !result->has_text) {
		snprintf(buf, cap, "%s", error_name(result->error));
	} else if (!result->has_text) {
		snprintf(buf, cap, "%lld", (long long)result->value);
	} else {
		used += (size_t)snprintf(buf, cap, "'");
		for (size_t i = 0; i < result->len && used + 8 < cap; i++) {
			unsigned char c = (unsigned char)result->text[i];

			used += (size_t)snprintf(buf + used, cap - used,
						 isprint(c) ? "%c" : "{#%02x}", c);
		}
		snprintf(buf + used, cap - used, "'");
	}
}

/* --- what a backend can do --- */

bool script_fits(const struct backend *backend, const char *script, const char **ret_why)
{
	char statement[STATEMENT_MAX];
	const char *inner;
	struct call call;
	int64_t count;

	while (script_next(&script, statement, sizeof(statement))) {
		const char *text = is_repeat(statement, &count, &inner) ? inner : statement;

		if (strstr(text, "{other}") && !script_other) {
			*ret_why = "there is no other file system";
			return false;
		}
		if (backend->has_processes)
			continue;
		if (text[0] == '@' || (isalpha((unsigned char)text[0]) && text[1] == ':'))
			*ret_why = "it has no users and no processes";
		else if (strstr(text, "{fd") || strstr(text, "{dir}") || strstr(text, "{other}"))
			*ret_why = "it has no paths of the host";
		else if (!script_parse(backend, text, &call))
			*ret_why = "it has no such call";
		else if (call.command->fits && !call.command->fits(&call))
			*ret_why = "its call has no such option";
		else
			continue;
		return false;
	}
	return true;
}
