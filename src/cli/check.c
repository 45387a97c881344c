/* check.c - `stetfs check` and fsck.stetfs: verifies a volume that nobody writes to. Writes
 * nothing.
 *
 * Exit codes as fsck(8). A volume that was not closed needs no check: the log is rolled forward
 * when it is opened. So what the system asks for at boot (fsck -a, -p) is answered by trying to
 * open it; only -f, and `check`, read everything.
 */
#include "cli/cli_internal.h"

#include <errno.h>
#include <stdio.h>

enum {
	CHECK_CLEAN = 0,
	CHECK_ERRORS = 4, /* left as they are */
	CHECK_NOT_RUN = 8,
	CHECK_USAGE = 16,
};

struct check {
	const char *path;
	unsigned flags;
	bool quiet;
	uint64_t problems;
	struct stet_cli_json json;
};

static int print_problem(void *arg, const struct stet_problem *problem)
{
	struct check *c = arg;

	c->problems++;
	if (c->json.on) {
		stet_cli_json_open_(&c->json, NULL, '{');
		stet_cli_json_string_(&c->json, "id", problem->id);
		stet_cli_json_string_(&c->json, "text", problem->text);
		if (problem->path[0])
			stet_cli_json_string_(&c->json, "path", problem->path);
		if (problem->ino)
			stet_cli_json_number_(&c->json, "ino", problem->ino);
		stet_cli_json_close_(&c->json, '}');
		return 0;
	}
	printf("%s: ", problem->id);
	if (problem->path[0]) {
		stet_cli_print_name_(problem->path);
		fputs(": ", stdout);
	}
	if (problem->ino)
		printf("inode %llu: ", (unsigned long long)problem->ino);
	stet_cli_print_name_(problem->text);
	putchar('\n');
	return 0;
}

static int fail(const struct check *c, int rc)
{
	stet_cli_fail_open_(c->path, rc);
	/* Damage that forbids to look is damage; all else says nothing about the volume. */
	return rc == -EUCLEAN || rc == -EIO ? CHECK_ERRORS : CHECK_NOT_RUN;
}

static int check_volume(struct check *c)
{
	int rc;

	stet_cli_json_open_(&c->json, NULL, '{');
	stet_cli_json_string_(&c->json, "volume", c->path);
	stet_cli_json_open_(&c->json, "problems", '[');
	rc = stet_check(c->path, c->flags, print_problem, c);
	stet_cli_json_close_(&c->json, ']');
	stet_cli_json_number_(&c->json, "count", c->problems);
	stet_cli_json_bool_(&c->json, "clean", rc == 0);
	stet_cli_json_close_(&c->json, '}');
	if (rc < 0)
		return fail(c, rc);
	if (!c->json.on && !c->quiet) {
		stet_cli_print_name_(c->path);
		if (rc)
			printf(": %d problem%s\n", rc, rc == 1 ? "" : "s");
		else
			puts(": clean");
	}
	return rc ? CHECK_ERRORS : CHECK_CLEAN;
}

static int run_check(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct check c = { 0 };
	bool no_data = false;
	const struct stet_cli_option options[] = {
		{ 0, "no-data", STET_CLI_FLAG, &no_data, NULL, "do not read the files' data" },
		{ 'q', "quiet", STET_CLI_FLAG, &c.quiet, NULL, "print problems only" },
		{ 0, "json", STET_CLI_FLAG, &c.json.on, NULL, "print JSON" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	c.path = words->word[0];
	c.flags = no_data ? STET_CHECK_NO_DATA : 0;
	return check_volume(&c);
}

const struct stet_cli_command stet_cli_check_ = {
	.name = "check",
	.synopsis = "VOLUME [--no-data] [--quiet] [--json]",
	.summary = "Verify a volume that is not mounted",
	.details = "Exit codes: 0 clean, 4 errors (none is mended), 8 could not run, 16 usage.",
	.min_words = 1,
	.max_words = 1,
	.usage_code = CHECK_USAGE,
	.run = run_check,
};

/// fsck.stetfs ///

static int try_to_open(struct check *c)
{
	const struct stet_open_options options = { .read_only = true, .no_remote = true };
	struct stet_volume *vol;
	int rc = stet_open(c->path, &options, &vol);

	if (rc)
		return fail(c, rc);
	stet_close(vol);
	stet_cli_print_name_(c->path);
	puts(": can be mounted");
	return CHECK_CLEAN;
}

static int run_fsck(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct check c = { 0 };
	bool automatic = false;
	bool full = false;
	bool version = false;
	const struct stet_cli_option options[] = {
		{ 'a', NULL, STET_CLI_FLAG, &automatic, NULL,
		  "at boot: only whether it can be mounted" },
		{ 'p', NULL, STET_CLI_FLAG, &automatic, NULL, "the same" },
		{ 'f', NULL, STET_CLI_FLAG, &full, NULL, "check everything, also with -a" },
		{ 'V', NULL, STET_CLI_FLAG, &version, NULL, "print the version" },
		{ 'n', NULL, STET_CLI_IGNORED, NULL, NULL, "change nothing, as always" },
		{ 'y', NULL, STET_CLI_IGNORED, NULL, NULL, "the same: nothing can be mended yet" },
		{ 'v', NULL, STET_CLI_IGNORED, NULL, NULL, NULL },
		{ 'C', NULL, STET_CLI_IGNORED_ARG, NULL, NULL, NULL },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	if (version) {
		printf("fsck.stetfs %s\n", stet_version());
		return CHECK_CLEAN;
	}
	if (words->count == 0)
		return stet_cli_misuse_(cmd, "too few arguments");
	c.path = words->word[0];
	return automatic && !full ? try_to_open(&c) : check_volume(&c);
}

const struct stet_cli_command stet_cli_fsck_ = {
	.name = "check",
	.synopsis = "[-a] [-p] [-n] [-y] [-f] VOLUME",
	.summary = "Verify a volume that is not mounted",
	.details = "Exit codes: 0 clean, 4 errors (none is mended), 8 could not run, 16 usage.",
	.max_words = 1,
	.usage_code = CHECK_USAGE,
	.run = run_fsck,
};
