/* find.c - `stetfs find`: paths below a starting point, by name and type.
 *
 * I1. A path is printed as the starting point was given, with what lies below it behind a slash.
 * I2. Names and types come from the directories: no attributes are read (but on a mount, where types are
 *     asked for: it shows tables as files).
 */
#include "cli/table_internal.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

struct find {
	const char *name; /* glob; NULL: all */
	uint32_t types;   /* STET_TYPE_BITs; 0: all */
	bool print0;
	struct stet_cli_json json;
	struct stet_cli_text path;
	const struct stet_cli_target *target;
	struct stet_cli_volume *v;
};

/* As find(1): the starting point is matched by its own last component, the root as "/". */
static bool matches_name(const struct find *find, const struct stet_walk_entry *entry)
{
	struct stet_cli_text start = { 0 };
	const char *name;
	size_t len;
	bool matches;

	if (!find->name)
		return true;
	if (entry->depth > 0)
		return fnmatch(find->name, entry->name, 0) == 0;
	name = stet_cli_basename_(find->target->path, &len);
	stet_cli_text_add_(&start, len ? name : "/", len ? len : 1);
	matches = fnmatch(find->name, start.s, 0) == 0;
	stet_cli_text_release_(&start);
	return matches;
}

static void print_path(const struct find *find)
{
	if (find->print0) {
		fwrite(find->path.s, 1, find->path.len + 1, stdout);
		return;
	}
	stet_cli_print_name_(find->path.s);
	putchar('\n');
}

static int visit(void *arg, const struct stet_walk_entry *entry)
{
	struct find *find = arg;
	uint8_t type = entry->type;
	int rc = find->types || find->json.on ? stet_cli_true_type_(find->v, entry->ino, &type) : 0;

	if (rc)
		return rc;
	if (find->types && !(find->types & STET_TYPE_BIT(type)))
		return 0;
	if (!matches_name(find, entry))
		return 0;
	stet_cli_text_cut_(&find->path, 0);
	stet_cli_text_adds_(&find->path, find->target->word);
	if (entry->path[0])
		stet_cli_text_join_(&find->path, entry->path);
	if (!find->json.on) {
		print_path(find);
		return 0;
	}
	stet_cli_json_open_(&find->json, NULL, '{');
	stet_cli_json_string_(&find->json, "path", find->path.s);
	stet_cli_json_string_(&find->json, "type", stet_cli_entry_type_name_(type));
	stet_cli_json_number_(&find->json, "ino", entry->ino);
	stet_cli_json_close_(&find->json, '}');
	return 0;
}

static int find_one(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *target)
{
	struct find *find = arg;
	int rc;

	find->target = target;
	find->v = v;
	rc = stet_cli_walk_(v, STET_ROOT, target->path, visit, find);
	return rc ? stet_cli_fail_volume_(target->word, rc) : STET_CLI_OK;
}

static bool parse_types(const char *word, uint32_t *ret)
{
	static const char letters[] = "fdlpsbct";
	static const uint8_t types[] = { DT_REG,  DT_DIR, DT_LNK, DT_FIFO,
					 DT_SOCK, DT_BLK, DT_CHR, STET_DT_TABLE };

	for (; *word; word++) {
		const char *found = strchr(letters, *word);

		if (*word == ',')
			continue;
		if (!found)
			return false;
		*ret |= STET_TYPE_BIT(types[found - letters]);
	}
	return *ret != 0;
}

static int run_find(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct find find = { 0 };
	const char *type = NULL;
	const struct stet_cli_option options[] = {
		{ 0, "name", STET_CLI_STRING, &find.name, "GLOB",
		  "only names that match (also: -name)" },
		{ 0, "type", STET_CLI_STRING, &type, "LETTERS",
		  "only these: f d l p s b c t (also: -type)" },
		{ 0, "print0", STET_CLI_FLAG, &find.print0, NULL,
		  "end paths with NUL (also: -print0)" },
		{ 0, "json", STET_CLI_FLAG, &find.json.on, NULL, "print JSON" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	if (type && !parse_types(type, &find.types))
		return stet_cli_misuse_(cmd, "-type: '%s' is not made of fdlpsbct", type);
	stet_cli_json_open_(&find.json, NULL, '[');
	code = stet_cli_read_each_(cmd, words, find_one, &find);
	stet_cli_json_close_(&find.json, ']');
	stet_cli_text_release_(&find.path);
	return code;
}

const struct stet_cli_command stet_cli_find_ = {
	.name = "find",
	.synopsis = "VOLUME[:/path]... [-name GLOB] [-type fdlpsbct] [-print0] [--json]",
	.summary = "Print the paths below a starting point",
	.min_words = 1,
	.max_words = STET_CLI_NO_LIMIT,
	.single_dash = true,
	.volume_words = true,
	.run = run_find,
};
