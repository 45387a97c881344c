/* ln.c - `stetfs ln`: hard and symbolic links. */
#include "cli/cli_internal.h"

#include <errno.h>
#include <string.h>

/* arg: the text of a symbolic link. */
static int link_symbolic(void *arg, struct stet_cli_volume *v,
			 const struct stet_cli_target *targets, int count)
{
	struct stet_cli_text path = { 0 };
	int rc = stet_cli_destination_(v, targets[0].path, arg, &path);

	(void)count;
	if (!rc)
		rc = stet_cli_symlinkat_(v, arg, STET_ROOT, path.s);
	stet_cli_text_release_(&path);
	return rc ? stet_cli_fail_volume_(targets[0].word, rc) : STET_CLI_OK;
}

static int link_hard(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *targets,
		     int count)
{
	struct stet_cli_text path = { 0 };
	int rc = stet_cli_destination_(v, targets[1].path, targets[0].path, &path);

	(void)arg;
	(void)count;
	if (!rc)
		rc = stet_cli_linkat_(v, STET_ROOT, targets[0].path, STET_ROOT, path.s);
	stet_cli_text_release_(&path);
	if (rc == -EPERM) {
		stet_cli_error_(targets[0].word, "a directory cannot have a second name");
		return STET_CLI_FAILED;
	}
	return rc ? stet_cli_fail_volume_(targets[rc == -EEXIST].word, rc) : STET_CLI_OK;
}

static int run_ln(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	bool symbolic = false;
	const struct stet_cli_option options[] = {
		{ 's', "symbolic", STET_CLI_FLAG, &symbolic, NULL, "make a symbolic link" },
		{ 0 },
	};
	struct stet_cli_words last;
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	if (!symbolic)
		return stet_cli_change_(cmd, words, link_hard, NULL);
	last = (struct stet_cli_words){ .word = words->word + 1, .count = 1 };
	return stet_cli_change_(cmd, &last, link_symbolic, words->word[0]);
}

const struct stet_cli_command stet_cli_ln_ = {
	.name = "ln",
	.synopsis = "VOLUME:/file VOLUME:/name | -s TARGET VOLUME:/name",
	.summary = "Make a link to a file",
	.details =
		"With -s a symbolic link, whose TARGET is taken as it is. When VOLUME:/name is a "
		"directory, the link\ngoes into it under the last part of the target's name.",
	.min_words = 2,
	.max_words = 2,
	.run = run_ln,
};
