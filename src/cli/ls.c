/* ls.c - `stetfs ls`: lists directories, in the order of the names' bytes.
 *
 * All names are listed, those with a dot too: nothing in a volume is hidden from the tool that
 * shows what is in it. Names and types come from the directory; attributes are read only for the
 * long form.
 */
#include "cli/table_internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct ls {
	bool is_long, recursive, directory, human, numeric;
	struct stet_cli_json json;
	/* --- while one operand is listed --- */
	bool with_header; /* "PATH:" before each directory */
	bool printed;     /* something: a blank line before the next header */
	struct stet_cli_volume *v;
	struct stet_cli_text path; /* of the directory, as printed */
	int code;
};

struct item {
	char *name;   /* owned */
	char *target; /* of a link, in the long form; owned */
	uint64_t ino;
	uint8_t type; /* DT_ */
	struct stet_stat st;
};

struct items {
	struct item *item;
	size_t count, cap;
};

/// Reading ///

static struct item *add_item(struct items *items)
{
	if (items->count == items->cap) {
		items->cap = items->cap ? items->cap * 2 : 64;
		items->item = stet_cli_realloc_(items->item, items->cap * sizeof(*items->item));
	}
	items->item[items->count] = (struct item){ 0 };
	return &items->item[items->count++];
}

static void release_items(struct items *items)
{
	for (size_t i = 0; i < items->count; i++) {
		free(items->item[i].name);
		free(items->item[i].target);
	}
	free(items->item);
}

/* What the long form needs. */
static int read_details(struct ls *ls, struct item *item)
{
	struct stet_cli_text target = { 0 };
	int rc = stet_cli_statat_(ls->v, item->ino, "",
				  STET_AT_NOFOLLOW | (ls->json.on ? STET_CLI_AT_ALL : 0),
				  &item->st);

	if (!rc && (item->st.mode & S_IFMT) == STET_S_IFTABLE)
		item->type = STET_DT_TABLE; /* a mount shows it as a file */
	if (rc || item->type != DT_LNK)
		return rc;
	rc = stet_cli_readlink_(ls->v, item->ino, &target);
	item->target = target.s;
	return rc;
}

static void fail_item(struct ls *ls, const char *name, int rc)
{
	struct stet_cli_text path = { 0 };

	stet_cli_text_adds_(&path, ls->path.s);
	stet_cli_text_join_(&path, name);
	ls->code = stet_cli_fail_volume_(path.s, rc);
	stet_cli_text_release_(&path);
}

static int read_items(struct ls *ls, uint64_t dir, struct items *items)
{
	struct stet_dir_entry entry;
	struct stet_cli_listing it;
	int rc = stet_cli_dir_open_(ls->v, dir, &it);

	if (rc)
		return rc;
	while ((rc = stet_cli_dir_next_(&it, &entry)) == 1) {
		struct item *item = add_item(items);

		item->name = stet_cli_strdup_(entry.name);
		item->ino = entry.ino;
		item->type = entry.type;
		rc = ls->is_long   ? read_details(ls, item)
		     : ls->json.on ? stet_cli_true_type_(ls->v, item->ino, &item->type)
				   : 0;
		if (!rc)
			continue;
		fail_item(ls, item->name, rc);
		free(item->name);
		free(item->target);
		items->count--;
	}
	stet_cli_dir_close_(&it);
	return rc;
}

/// Printing ///

struct widths {
	int nlink, user, group, size;
};

static void format_size(const struct ls *ls, const struct stet_stat *st,
			char buf[STET_CLI_SIZE_MAX])
{
	if (S_ISCHR(st->mode) || S_ISBLK(st->mode))
		snprintf(buf, STET_CLI_SIZE_MAX, "%u, %u", (uint32_t)(st->rdev >> 32),
			 (uint32_t)st->rdev);
	else if (ls->human)
		stet_cli_format_short_size_(st->size, buf);
	else
		snprintf(buf, STET_CLI_SIZE_MAX, "%" PRIu64, st->size);
}

static void format_owners(const struct ls *ls, const struct stet_stat *st,
			  char user[STET_CLI_OWNER_MAX], char group[STET_CLI_OWNER_MAX])
{
	if (ls->numeric) {
		snprintf(user, STET_CLI_OWNER_MAX, "%u", st->uid);
		snprintf(group, STET_CLI_OWNER_MAX, "%u", st->gid);
		return;
	}
	stet_cli_format_user_(st->uid, user);
	stet_cli_format_group_(st->gid, group);
}

static void widen(int *width, const char *text)
{
	int len = (int)strlen(text);

	if (len > *width)
		*width = len;
}

static struct widths measure(const struct ls *ls, const struct items *items)
{
	char user[STET_CLI_OWNER_MAX], group[STET_CLI_OWNER_MAX];
	char number[STET_CLI_SIZE_MAX];
	struct widths w = { 0 };

	for (size_t i = 0; i < items->count && ls->is_long; i++) {
		const struct stet_stat *st = &items->item[i].st;

		format_owners(ls, st, user, group);
		widen(&w.user, user);
		widen(&w.group, group);
		format_size(ls, st, number);
		widen(&w.size, number);
		snprintf(number, sizeof(number), "%u", st->nlink);
		widen(&w.nlink, number);
	}
	return w;
}

static void print_long(const struct ls *ls, const struct item *item, const struct widths *w)
{
	char user[STET_CLI_OWNER_MAX], group[STET_CLI_OWNER_MAX];
	char size[STET_CLI_SIZE_MAX];
	char mode[STET_CLI_MODE_MAX];
	char time[STET_CLI_TIME_MAX];

	stet_cli_format_mode_(item->st.mode, mode);
	format_owners(ls, &item->st, user, group);
	format_size(ls, &item->st, size);
	stet_cli_format_local_(item->st.mtime_ns, false, time);
	printf("%s %*u %-*s %-*s %*s %s ", mode, w->nlink, item->st.nlink, w->user, user, w->group,
	       group, w->size, size, time);
	stet_cli_print_name_(item->name);
	if (item->target) {
		fputs(" -> ", stdout);
		stet_cli_print_name_(item->target);
	}
	putchar('\n');
}

/* The last component of an operand, "/" for the root. */
static void add_own_name(struct stet_cli_text *name, const char *word)
{
	size_t len;
	const char *last = stet_cli_basename_(strstr(word, ":/") + 1, &len);

	stet_cli_text_add_(name, len ? last : "/", len ? len : 1);
}

static void print_json(struct ls *ls, const struct item *item, bool in_directory)
{
	size_t len = ls->path.len;
	struct stet_cli_text name = { 0 };

	if (in_directory) {
		stet_cli_text_join_(&ls->path, item->name);
		stet_cli_text_adds_(&name, item->name);
	} else {
		add_own_name(&name, item->name);
	}
	stet_cli_json_open_(&ls->json, NULL, '{');
	stet_cli_json_string_(&ls->json, "path", ls->path.s);
	stet_cli_json_string_(&ls->json, "name", name.s);
	stet_cli_json_string_(&ls->json, "type", stet_cli_entry_type_name_(item->type));
	stet_cli_json_number_(&ls->json, "ino", item->ino);
	if (ls->is_long)
		stet_cli_json_stat_(&ls->json, &item->st);
	if (item->target)
		stet_cli_json_string_(&ls->json, "target", item->target);
	stet_cli_json_close_(&ls->json, '}');
	stet_cli_text_cut_(&ls->path, len);
	stet_cli_text_release_(&name);
}

static void print_items(struct ls *ls, const struct items *items, bool in_directory)
{
	struct widths w = measure(ls, items);

	for (size_t i = 0; i < items->count; i++) {
		const struct item *item = &items->item[i];

		ls->printed = true;
		if (ls->json.on) {
			print_json(ls, item, in_directory);
		} else if (ls->is_long) {
			print_long(ls, item, &w);
		} else {
			stet_cli_print_name_(item->name);
			putchar('\n');
		}
	}
}

static void print_header(struct ls *ls)
{
	if (!ls->with_header || ls->json.on)
		return;
	if (ls->printed)
		putchar('\n');
	stet_cli_print_name_(ls->path.s);
	fputs(":\n", stdout);
	ls->printed = true;
}

/// Going down ///

static void list_dir(struct ls *ls, uint64_t dir, unsigned depth)
{
	struct items items = { 0 };
	size_t len = ls->path.len;
	int rc;

	print_header(ls);
	rc = depth < STET_CLI_DEPTH_MAX ? read_items(ls, dir, &items) : -ELOOP;
	print_items(ls, &items, true);
	if (rc)
		ls->code = stet_cli_fail_volume_(ls->path.s, rc);
	for (size_t i = 0; i < items.count && ls->recursive; i++) {
		if (items.item[i].type != DT_DIR)
			continue;
		stet_cli_text_join_(&ls->path, items.item[i].name);
		list_dir(ls, items.item[i].ino, depth + 1);
		stet_cli_text_cut_(&ls->path, len);
	}
	release_items(&items);
}

static int list_itself(struct ls *ls, const struct stet_stat *st, const char *word)
{
	struct items items = { 0 };
	struct item *item = add_item(&items);
	int rc = 0;

	item->name = stet_cli_strdup_(word);
	item->ino = st->ino;
	item->type = (uint8_t)IFTODT(st->mode);
	if (ls->is_long)
		rc = read_details(ls, item);
	if (!rc)
		print_items(ls, &items, false);
	release_items(&items);
	return rc;
}

/* As ls(1): the long form shows a link itself, and so does a link that leads nowhere. */
static int stat_operand(struct ls *ls, const char *path, struct stet_stat *ret)
{
	bool follow = !ls->is_long && !ls->directory;
	int rc = stet_cli_statat_(ls->v, STET_ROOT, path, follow ? 0 : STET_AT_NOFOLLOW, ret);

	if (rc == -ENOENT && follow)
		rc = stet_cli_statat_(ls->v, STET_ROOT, path, STET_AT_NOFOLLOW, ret);
	return rc;
}

static int ls_one(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *target)
{
	struct ls *ls = arg;
	struct stet_stat st;
	int rc;

	ls->v = v;
	ls->code = STET_CLI_OK;
	stet_cli_text_cut_(&ls->path, 0);
	stet_cli_text_adds_(&ls->path, target->word);
	rc = stat_operand(ls, target->path, &st);
	if (!rc && (ls->directory || !S_ISDIR(st.mode)))
		rc = list_itself(ls, &st, target->word);
	else if (!rc)
		list_dir(ls, st.ino, 0);
	return rc ? stet_cli_fail_volume_(target->word, rc) : ls->code;
}

static int run_ls(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct ls ls = { 0 };
	bool all = false;
	const struct stet_cli_option options[] = {
		{ 'l', "long", STET_CLI_FLAG, &ls.is_long, NULL, "attributes too" },
		{ 'R', "recursive", STET_CLI_FLAG, &ls.recursive, NULL, "go down directories" },
		{ 'd', "directory", STET_CLI_FLAG, &ls.directory, NULL,
		  "directories themselves, not what they hold" },
		{ 'h', "human", STET_CLI_FLAG, &ls.human, NULL, "sizes as 1.5M" },
		{ 'n', "numeric", STET_CLI_FLAG, &ls.numeric, NULL, "owners as numbers" },
		{ 'a', "all", STET_CLI_FLAG, &all, NULL, "does nothing: all names are listed" },
		{ 0, "json", STET_CLI_FLAG, &ls.json.on, NULL, "print JSON" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	ls.with_header = words->count > 1 || ls.recursive;
	stet_cli_json_open_(&ls.json, NULL, '[');
	code = stet_cli_read_each_(cmd, words, ls_one, &ls);
	stet_cli_json_close_(&ls.json, ']');
	stet_cli_text_release_(&ls.path);
	return code;
}

const struct stet_cli_command stet_cli_ls_ = {
	.name = "ls",
	.synopsis = "[-l] [-R] [-d] [-h] [-n] [--json] VOLUME[:/path]...",
	.summary = "List directories",
	.min_words = 1,
	.max_words = STET_CLI_NO_LIMIT,
	.volume_words = true,
	.run = run_ls,
};
