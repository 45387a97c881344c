/* script.c - fault scripts as text: see fault.h.
 *
 * I1. parse(print(script)) is script, and print(parse(text)) is text up to defaults written out.
 * I2. A rule that was parsed makes sense: its fault goes with its call, its range is not empty.
 */
#include "base/assert.h"
#include "sim/fault.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const call_word[] = {
	[SIM_CALL_READ] = "read",       [SIM_CALL_WRITE] = "write", [SIM_CALL_FLUSH] = "flush",
	[SIM_CALL_DISCARD] = "discard", [SIM_CALL_ANY] = "any",
};

struct kind_info {
	const char *word;
	unsigned int calls; /* bit n: goes with call n; SIM_CALL_ANY is one of them */
	bool has_arg;
	uint64_t default_arg;
};

static const struct kind_info kind_info[] = {
#define X(constant, word, calls, has_arg, default_arg) { word, calls, has_arg, default_arg },
	SIM_FAULT_KINDS(X)
#undef X
};

struct parser {
	const char *start;
	const char *at;
};

static int syntax(const struct parser *parser, const char *what)
{
	return STET_FAIL(-EINVAL, "fault script \"%s\", character %zu: %s", parser->start,
			 (size_t)(parser->at - parser->start) + 1, what);
}

static bool accept(struct parser *parser, char c)
{
	if (*parser->at != c)
		return false;
	parser->at++;
	return true;
}

/* True when the letters here are exactly the word; steps over it then. */
static bool accept_word(struct parser *parser, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(parser->at, word, n) != 0 || isalpha((unsigned char)parser->at[n]))
		return false;
	parser->at += n;
	return true;
}

static int parse_number(struct parser *parser, uint64_t *ret)
{
	uint64_t value = 0;

	if (!isdigit((unsigned char)*parser->at))
		return syntax(parser, "a number is wanted");
	while (isdigit((unsigned char)*parser->at)) {
		uint64_t digit = (uint64_t)(*parser->at - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return syntax(parser, "the number is too large");
		value = value * 10 + digit;
		parser->at++;
	}
	*ret = value;
	return 0;
}

static int parse_call(struct parser *parser, enum sim_fault_call *ret)
{
	for (int i = 0; i <= SIM_CALL_ANY; i++) {
		if (accept_word(parser, call_word[i])) {
			*ret = (enum sim_fault_call)i;
			return 0;
		}
	}
	return syntax(parser, "read, write, flush, discard or any is wanted");
}

/* "#N+" */
static int parse_nth(struct parser *parser, struct sim_fault_rule *rule)
{
	int rc;

	if (!accept(parser, '#'))
		return 0;
	rc = parse_number(parser, &rule->nth);
	if (rc)
		return rc;
	if (!rule->nth)
		return syntax(parser, "calls are counted from 1");
	rule->sticky = accept(parser, '+');
	return 0;
}

/* "@first-end" */
static int parse_range(struct parser *parser, struct sim_fault_rule *rule)
{
	int rc;

	if (!accept(parser, '@'))
		return 0;
	if (rule->call == SIM_CALL_FLUSH)
		return syntax(parser, "a flush has no range");
	rule->has_range = true;
	rc = parse_number(parser, &rule->first_bytes);
	if (!rc && !accept(parser, '-'))
		return syntax(parser, "- is wanted");
	if (!rc)
		rc = parse_number(parser, &rule->end_bytes);
	if (!rc && rule->end_bytes <= rule->first_bytes)
		return syntax(parser, "the range is empty");
	return rc;
}

/* ":fault=argument" */
static int parse_fault(struct parser *parser, struct sim_fault_rule *rule)
{
	int kind = 0;

	if (!accept(parser, ':'))
		return syntax(parser, ": and a fault are wanted");
	while (kind < SIM_FAULT_KIND_COUNT && !accept_word(parser, kind_info[kind].word))
		kind++;
	if (kind == SIM_FAULT_KIND_COUNT)
		return syntax(parser, "no such fault");
	if (!(kind_info[kind].calls >> rule->call & 1))
		return syntax(parser, "the fault does not go with the call");
	rule->kind = (enum sim_fault_kind)kind;
	rule->arg = kind_info[kind].default_arg;
	if (!accept(parser, '='))
		return 0;
	if (!kind_info[kind].has_arg)
		return syntax(parser, "the fault has no argument");
	return parse_number(parser, &rule->arg);
}

static int parse_rule(struct parser *parser, struct sim_fault_rule *rule)
{
	int rc;

	memset(rule, 0, sizeof(*rule));
	rc = parse_call(parser, &rule->call);
	if (!rc)
		rc = parse_nth(parser, rule);
	if (!rc)
		rc = parse_range(parser, rule);
	if (!rc)
		rc = parse_fault(parser, rule);
	return rc;
}

int sim_fault_script_parse(const char *text, struct sim_fault_script *ret)
{
	struct sim_fault_script script = { .count = 0 };
	struct parser parser = { .start = text, .at = text };

	while (*parser.at) {
		int rc;

		if (script.count == SIM_FAULT_MAX_RULES)
			return syntax(&parser, "too many rules");
		rc = parse_rule(&parser, &script.rule[script.count]);
		if (rc)
			return rc;
		script.count++;
		if (*parser.at && (!accept(&parser, ',') || !*parser.at))
			return syntax(&parser, "another rule or the end is wanted");
	}
	*ret = script;
	return 0;
}

static void print_rule(struct stet_text *text, const struct sim_fault_rule *rule)
{
	const struct kind_info *info = &kind_info[rule->kind];

	stet_text_puts(text, call_word[rule->call]);
	if (rule->nth)
		stet_text_printf(text, "#%" PRIu64 "%s", rule->nth, rule->sticky ? "+" : "");
	if (rule->has_range)
		stet_text_printf(text, "@%" PRIu64 "-%" PRIu64, rule->first_bytes, rule->end_bytes);
	stet_text_printf(text, ":%s", info->word);
	if (info->has_arg && rule->arg != info->default_arg)
		stet_text_printf(text, "=%" PRIu64, rule->arg);
}

void sim_fault_script_print(struct stet_text *text, const struct sim_fault_script *script)
{
	for (size_t i = 0; i < script->count; i++) {
		if (i)
			stet_text_puts(text, ",");
		print_rule(text, &script->rule[i]);
	}
}
