/* version.c - `stetfs version`. */
#include "cli/cli_internal.h"

#include <stdio.h>

static int run_version(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct stet_cli_json json = { 0 };
	const struct stet_cli_option options[] = {
		{ 0, "json", STET_CLI_FLAG, &json.on, NULL, "print JSON" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	if (!json.on) {
		printf("stetfs %s (format %u)\n", stet_version(), stet_format_version());
		return STET_CLI_OK;
	}
	stet_cli_json_open_(&json, NULL, '{');
	stet_cli_json_string_(&json, "version", stet_version());
	stet_cli_json_number_(&json, "format", stet_format_version());
	stet_cli_json_close_(&json, '}');
	return STET_CLI_OK;
}

const struct stet_cli_command stet_cli_version_ = {
	.name = "version",
	.synopsis = "[--json]",
	.summary = "Print the version of the program and of the format that it writes",
	.run = run_version,
};
