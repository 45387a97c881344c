/* command.c - which command is meant: by the first word, or by the name of the program.
 *
 * mkfs.stetfs, fsck.stetfs, mount.stetfs and mount.fuse.stetfs are what mkfs(8), fsck(8), mount(8)
 * and fstab(5) call; they are links to the same program.
 */
#include "cli/cli.h"

#include "cli/cli_internal.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static const struct stet_cli_command *const commands[] = {
	&stet_cli_mkfs_,  &stet_cli_mount_,  &stet_cli_umount_,  &stet_cli_sync_,  &stet_cli_run_,
	&stet_cli_begin_, &stet_cli_commit_, &stet_cli_abort_,   &stet_cli_diff_,  &stet_cli_txns_,
	&stet_cli_ls_,    &stet_cli_tree_,   &stet_cli_find_,    &stet_cli_stat_,  &stet_cli_cat_,
	&stet_cli_put_,   &stet_cli_cp_,     &stet_cli_mv_,      &stet_cli_ln_,    &stet_cli_mkdir_,
	&stet_cli_rm_,    &stet_cli_chmod_,  &stet_cli_check_,   &stet_cli_clean_, &stet_cli_stats_,
	&stet_cli_dump_,  &stet_cli_table_,  &stet_cli_version_,
};

static const struct {
	const char *program;
	const struct stet_cli_command *command;
} aliases[] = {
	{ "mkfs.stetfs", &stet_cli_mkfs_ },
	{ "fsck.stetfs", &stet_cli_fsck_ },
	{ "mount.stetfs", &stet_cli_mount_helper_ },
	{ "mount.fuse.stetfs", &stet_cli_mount_helper_ },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void print_commands(FILE *file)
{
	fputs("Usage: stetfs COMMAND [OPTION...] [ARGUMENT...]\n\nCommands:\n", file);
	for (size_t i = 0; i < COUNT(commands); i++)
		fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n\"stetfs COMMAND --help\" tells more. VOLUME is an image file or a block device; "
	      "VOLUME:/path\nis a file in it, without a mount.\n",
	      file);
}

/* False: it is none. */
static bool find_alias(const char *program, struct stet_cli_command *ret)
{
	for (size_t i = 0; i < COUNT(aliases); i++) {
		if (strcmp(aliases[i].program, program) == 0) {
			*ret = *aliases[i].command;
			ret->program = aliases[i].program;
			return true;
		}
	}
	return false;
}

static const struct stet_cli_command *find_command(const char *name)
{
	for (size_t i = 0; i < COUNT(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static int run(const struct stet_cli_command *cmd, char **word, int count)
{
	struct stet_cli_words words = { .word = word, .count = count };

	return stet_cli_flush_(cmd->run(cmd, &words));
}

static int help(char **word, int count)
{
	const struct stet_cli_command *cmd = count > 0 ? find_command(word[0]) : NULL;
	char option[] = "--help";
	char *words[] = { option };

	if (cmd)
		return run(cmd, words, 1);
	if (count > 0) {
		stet_cli_error_(word[0], "no such command (see \"stetfs --help\")");
		return STET_CLI_USAGE;
	}
	print_commands(stdout);
	return stet_cli_flush_(STET_CLI_OK);
}

int stet_cli_main(int argc, char **argv)
{
	const struct stet_cli_command *cmd;
	struct stet_cli_command alias;
	size_t len;

	setlocale(LC_ALL, "");
	if (argc < 1)
		return STET_CLI_USAGE;
	if (find_alias(stet_cli_basename_(argv[0], &len), &alias))
		return run(&alias, argv + 1, argc - 1);
	if (argc < 2) {
		print_commands(stderr);
		return STET_CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0)
		return help(argv + 2, argc - 2);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return run(&stet_cli_version_, argv + 2, argc - 2);
	cmd = find_command(argv[1]);
	if (cmd)
		return run(cmd, argv + 2, argc - 2);
	stet_cli_error_(argv[1], "no such command (see \"stetfs --help\")");
	return STET_CLI_USAGE;
}
