/* options.c - reads command lines by a table, and writes the help from the same table.
 *
 * Options stand before or after operands: -l, -lR, -o VALUE, -oVALUE, --name, --name VALUE,
 * --name=VALUE. "--" ends them, "-" is an operand. A command that runs another one (last_word)
 * takes no options after its own operands.
 *
 * I1. The operands keep their order; words are moved down within argv, never copied.
 */
#include "cli/cli_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
	const struct stet_cli_command *cmd;
	const struct stet_cli_option *options;
	struct stet_cli_words *words;
	int at;   /* next word to look at */
	int kept; /* operands so far */
	int code;
};

static int usage_code(const struct stet_cli_command *cmd)
{
	return cmd->usage_code ? cmd->usage_code : STET_CLI_USAGE;
}

int stet_cli_misuse_(const struct stet_cli_command *cmd, const char *format, ...)
{
	struct stet_cli_text why = { 0 };
	char *s = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&s, format, args) >= 0)
		stet_cli_text_adds_(&why, s);
	va_end(args);
	free(s);
	stet_cli_error_(cmd->program ? cmd->program : cmd->name, "%s (see \"%s%s --help\")",
			why.s ? why.s : "usage", cmd->program ? "" : "stetfs ",
			cmd->program ? cmd->program : cmd->name);
	stet_cli_text_release_(&why);
	return usage_code(cmd);
}

/// Help ///

static void print_option(const struct stet_cli_option *option)
{
	char left[64];
	int len = 0;

	if (option->letter)
		len = snprintf(left, sizeof(left), "-%c%s", option->letter,
			       option->name ? ", " : "");
	else
		len = snprintf(left, sizeof(left), "    ");
	if (option->name)
		len += snprintf(left + len, sizeof(left) - (size_t)len, "--%s", option->name);
	if (option->meta)
		snprintf(left + len, sizeof(left) - (size_t)len, " %s", option->meta);
	printf("  %-26s %s\n", left, option->help);
}

static void print_help(const struct stet_cli_command *cmd, const struct stet_cli_option *options)
{
	printf("Usage: %s%s %s\n\n%s.\n", cmd->program ? "" : "stetfs ",
	       cmd->program ? cmd->program : cmd->name, cmd->synopsis, cmd->summary);
	if (cmd->details)
		printf("\n%s\n", cmd->details);
	printf("\nOptions:\n");
	for (const struct stet_cli_option *o = options; o->letter || o->name; o++) {
		if (o->help)
			print_option(o);
	}
	printf("  %-26s %s\n", "    --help", "show this");
}

/// Options ///

static bool takes_value(const struct stet_cli_option *option)
{
	return option->kind != STET_CLI_FLAG && option->kind != STET_CLI_IGNORED;
}

/* False, with an error line: the value is none. */
static bool store(struct parser *p, const struct stet_cli_option *option, const char *as_given,
		  const char *value)
{
	switch (option->kind) {
	case STET_CLI_FLAG:
		*(bool *)option->value = true;
		return true;
	case STET_CLI_STRING:
		*(const char **)option->value = value;
		return true;
	case STET_CLI_LIST: {
		struct stet_cli_text *list = option->value;

		stet_cli_text_addf_(list, "%s%s", list->len ? "," : "", value);
		return true;
	}
	case STET_CLI_SIZE:
		if (stet_cli_parse_size_(value, option->value))
			return true;
		p->code = stet_cli_misuse_(p->cmd, "%s: '%s' is not a size", as_given, value);
		return false;
	case STET_CLI_NUMBER:
		if (stet_cli_parse_number_(value, option->value))
			return true;
		p->code = stet_cli_misuse_(p->cmd, "%s: '%s' is not a number", as_given, value);
		return false;
	case STET_CLI_IGNORED:
	case STET_CLI_IGNORED_ARG:
		return true;
	}
	return true;
}

/* The argument of an option: what is glued to it, or else the next word. */
static bool get_value(struct parser *p, const char *as_given, const char *glued, const char **ret)
{
	if (!glued && p->at == p->words->count) {
		p->code = stet_cli_misuse_(p->cmd, "%s needs an argument", as_given);
		return false;
	}
	*ret = glued ? glued : p->words->word[p->at++];
	return true;
}

static const struct stet_cli_option *find_name(const struct parser *p, const char *name, size_t len)
{
	for (const struct stet_cli_option *o = p->options; o->letter || o->name; o++) {
		if (o->name && strlen(o->name) == len && memcmp(o->name, name, len) == 0)
			return o;
	}
	return NULL;
}

/* word: "--name" or, with single_dash, "-name"; name: behind the dashes. */
static bool read_long(struct parser *p, const char *word, const char *name)
{
	size_t len = strcspn(name, "=");
	const char *glued = name[len] ? name + len + 1 : NULL;
	const struct stet_cli_option *option = find_name(p, name, len);
	const char *value = NULL;
	char as_given[64];

	if (!option && strcmp(name, "help") == 0) {
		print_help(p->cmd, p->options);
		p->code = STET_CLI_OK;
		return false;
	}
	snprintf(as_given, sizeof(as_given), "%.*s", (int)(name - word) + (int)len, word);
	if (!option || (glued && !takes_value(option))) {
		p->code = stet_cli_misuse_(
			p->cmd, option ? "%s takes no argument" : "unknown option %s", as_given);
		return false;
	}
	if (takes_value(option) && !get_value(p, as_given, glued, &value))
		return false;
	return store(p, option, as_given, value);
}

static const struct stet_cli_option *find_letter(const struct parser *p, char letter)
{
	for (const struct stet_cli_option *o = p->options; o->letter || o->name; o++) {
		if (o->letter == letter)
			return o;
	}
	return NULL;
}

/* "-lR", "-oVALUE". */
static bool read_letters(struct parser *p, const char *word)
{
	for (const char *letter = word + 1; *letter; letter++) {
		const struct stet_cli_option *option = find_letter(p, *letter);
		const char as_given[] = { '-', *letter, '\0' };
		const char *value = NULL;

		if (!option) {
			p->code = stet_cli_misuse_(p->cmd, "unknown option %s", as_given);
			return false;
		}
		if (!takes_value(option)) {
			store(p, option, as_given, NULL);
			continue;
		}
		return get_value(p, as_given, letter[1] ? letter + 1 : NULL, &value) &&
		       store(p, option, as_given, value);
	}
	return true;
}

/// Words ///

static bool is_mode(const char *word)
{
	return word[1] && strspn(word + 1, "rwxXstugo,+-=0123456789") == strlen(word + 1);
}

static bool read_word(struct parser *p, char *word)
{
	bool is_option = word[0] == '-' && word[1];

	if (is_option && word[1] == '-')
		return read_long(p, word, word + 2);
	if (is_option && p->cmd->single_dash && find_name(p, word + 1, strcspn(word + 1, "=")))
		return read_long(p, word, word + 1);
	if (is_option && !(p->cmd->mode_words && !find_letter(p, word[1]) && is_mode(word)))
		return read_letters(p, word);
	p->words->word[p->kept++] = word;
	return true;
}

static void keep_rest(struct parser *p)
{
	while (p->at < p->words->count)
		p->words->word[p->kept++] = p->words->word[p->at++];
}

static bool check_count(struct parser *p)
{
	const struct stet_cli_command *cmd = p->cmd;

	if (p->kept < cmd->min_words)
		p->code = stet_cli_misuse_(cmd, "too few arguments");
	else if (cmd->max_words != STET_CLI_NO_LIMIT && p->kept > cmd->max_words)
		p->code = stet_cli_misuse_(cmd, "too many arguments, from '%s' on",
					   p->words->word[cmd->max_words]);
	else
		return true;
	return false;
}

bool stet_cli_parse_(const struct stet_cli_command *cmd, const struct stet_cli_option *options,
		     struct stet_cli_words *words, int *ret_code)
{
	struct parser p = { .cmd = cmd, .options = options, .words = words };
	bool going = true;

	while (going && p.at < words->count) {
		char *word = words->word[p.at++];
		bool ended = strcmp(word, "--") == 0;

		if (!ended)
			going = read_word(&p, word);
		if (ended || (cmd->last_word && p.kept == cmd->last_word))
			keep_rest(&p);
	}
	if (going)
		going = check_count(&p);
	words->count = p.kept;
	if (!going)
		*ret_code = p.code;
	return going;
}
