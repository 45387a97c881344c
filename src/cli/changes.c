/* changes.c - the changes of a transaction, one a line: a letter, and the path from the root. */
#include "cli/changes_internal.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

static const struct {
	char letter;
	const char *name;
} kinds[] = {
	[STET_CHANGE_ADDED] = { 'A', "added" },       [STET_CHANGE_REMOVED] = { 'D', "removed" },
	[STET_CHANGE_REPLACED] = { 'T', "replaced" }, [STET_CHANGE_RENAMED] = { 'R', "renamed" },
	[STET_CHANGE_MODIFIED] = { 'M', "modified" },
};

static void print_json(struct stet_cli_json *json, const struct stet_change *change)
{
	stet_cli_json_open_(json, NULL, '{');
	stet_cli_json_string_(json, "change", kinds[change->kind].name);
	stet_cli_json_string_(json, "path", change->path);
	if (change->old_path)
		stet_cli_json_string_(json, "old_path", change->old_path);
	stet_cli_json_string_(json, "type", stet_cli_entry_type_name_(change->type));
	stet_cli_json_number_(json, "ino", change->ino);
	stet_cli_json_bool_(json, "data", change->what & STET_CHANGED_DATA);
	stet_cli_json_bool_(json, "attributes", change->what & STET_CHANGED_ATTR);
	stet_cli_json_bool_(json, "xattrs", change->what & STET_CHANGED_XATTR);
	stet_cli_json_close_(json, '}');
}

int stet_cli_print_change_(void *arg, const struct stet_change *change)
{
	struct stet_cli_json *json = arg;

	if ((size_t)change->kind >= sizeof(kinds) / sizeof(*kinds))
		return 0;
	if (json->on) {
		print_json(json, change);
		return 0;
	}
	printf("%c ", kinds[change->kind].letter);
	if (change->old_path) {
		stet_cli_print_name_(change->old_path);
		fputs(" -> ", stdout);
	}
	stet_cli_print_name_(change->path);
	if (change->type == DT_DIR)
		putchar('/');
	putchar('\n');
	return 0;
}
