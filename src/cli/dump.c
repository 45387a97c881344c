/* dump.c - `stetfs dump`: the structures of a volume in words, for who wants to know or to repair. */
#include "cli/cli_internal.h"

#include <stdio.h>
#include <string.h>

struct lines {
	struct stet_cli_json json;
};

static int print_line(void *arg, const char *line)
{
	struct lines *l = arg;

	if (l->json.on)
		stet_cli_json_string_(&l->json, NULL, line);
	else
		puts(line);
	return ferror(stdout) ? -1 : 0;
}

static bool is_structure(const char *what)
{
	static const char *const known[] = { "superblock", "slots", "checkpoint", "segments",
					     "log",        "tree",  "items" };

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strcmp(what, known[i]) == 0)
			return true;
	return false;
}

static int run_dump(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct lines l = { 0 };
	const struct stet_cli_option options[] = {
		{ 0, "json", STET_CLI_FLAG, &l.json.on, NULL, "print a JSON array of lines" },
		{ 0 },
	};
	int code, rc;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	if (!is_structure(words->word[1]))
		return stet_cli_misuse_(cmd, "%s: no such structure", words->word[1]);
	stet_cli_json_open_(&l.json, NULL, '[');
	rc = stet_dump(words->word[0], words->word[1], print_line, &l);
	stet_cli_json_close_(&l.json, ']');
	return rc ? stet_cli_fail_open_(words->word[0], rc) : STET_CLI_OK;
}

const struct stet_cli_command stet_cli_dump_ = {
	.name = "dump",
	.synopsis = "VOLUME superblock|slots|checkpoint|segments|log|tree|items [--json]",
	.summary = "Print a structure of a volume",
	.details =
		"superblock, slots and checkpoint can be seen of a volume that cannot be opened.",
	.min_words = 2,
	.max_words = 2,
	.run = run_dump,
};
