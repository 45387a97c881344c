/* tree.c - `stetfs tree`: a directory and all below it, drawn.
 *
 * One entry is read ahead, because the last one of a directory is drawn differently; so a tree of
 * any size needs only as much memory as it is deep.
 */
#include "cli/cli_internal.h"

#include <dirent.h>
#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct tree {
	struct stet_cli_json json;
	const char *branch, *last_branch, *pass, *last_pass;
	/* --- while one operand is shown --- */
	struct stet_cli_volume *v;
	struct stet_cli_text prefix, path;
	uint64_t dirs, files;
	int code;
};

static void choose_lines(struct tree *t)
{
	bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;

	t->branch = utf8 ? "├── " : "|-- ";
	t->last_branch = utf8 ? "└── " : "`-- ";
	t->pass = utf8 ? "│   " : "|   ";
	t->last_pass = "    ";
}

static void print_target(struct tree *t, uint64_t ino)
{
	struct stet_cli_text target = { 0 };

	if (stet_cli_readlink_(t->v, ino, &target) == 0) {
		fputs(" -> ", stdout);
		stet_cli_print_name_(target.s);
	}
	stet_cli_text_release_(&target);
}

static void json_entry(struct tree *t, const char *name, uint8_t type, uint64_t ino)
{
	struct stet_cli_text target = { 0 };

	stet_cli_json_open_(&t->json, NULL, '{');
	stet_cli_json_string_(&t->json, "name", name);
	stet_cli_json_string_(&t->json, "type", stet_cli_entry_type_name_(type));
	stet_cli_json_number_(&t->json, "ino", ino);
	if (t->json.on && type == DT_LNK && stet_cli_readlink_(t->v, ino, &target) == 0)
		stet_cli_json_string_(&t->json, "target", target.s);
	stet_cli_text_release_(&target);
}

static void show_dir(struct tree *t, uint64_t dir, unsigned depth);

static void show_entry(struct tree *t, const struct stet_dir_entry *entry, bool last,
		       unsigned depth)
{
	size_t prefix_len = t->prefix.len;
	size_t path_len = t->path.len;

	if (!t->json.on) {
		fputs(t->prefix.s, stdout);
		fputs(last ? t->last_branch : t->branch, stdout);
		stet_cli_print_name_(entry->name);
		if (entry->type == DT_LNK)
			print_target(t, entry->ino);
		putchar('\n');
	}
	json_entry(t, entry->name, entry->type, entry->ino);
	if (entry->type == DT_DIR) {
		t->dirs++;
		stet_cli_text_adds_(&t->prefix, last ? t->last_pass : t->pass);
		stet_cli_text_join_(&t->path, entry->name);
		show_dir(t, entry->ino, depth + 1);
		stet_cli_text_cut_(&t->prefix, prefix_len);
		stet_cli_text_cut_(&t->path, path_len);
	} else {
		t->files++;
	}
	stet_cli_json_close_(&t->json, '}');
}

static int show_entries(struct tree *t, struct stet_cli_listing *it, unsigned depth)
{
	struct stet_dir_entry entry[2];
	unsigned now = 0;
	int more = stet_cli_dir_next_(it, &entry[now]);

	while (more == 1) {
		more = stet_cli_dir_next_(it, &entry[now ^ 1]);
		show_entry(t, &entry[now], more != 1, depth);
		now ^= 1;
	}
	return more;
}

static void show_dir(struct tree *t, uint64_t dir, unsigned depth)
{
	struct stet_cli_listing it = { 0 };
	int rc = depth < STET_CLI_DEPTH_MAX ? 0 : -ELOOP;

	stet_cli_json_open_(&t->json, "contents", '[');
	if (!rc)
		rc = stet_cli_dir_open_(t->v, dir, &it);
	if (!rc)
		rc = show_entries(t, &it, depth);
	stet_cli_dir_close_(&it);
	stet_cli_json_close_(&t->json, ']');
	if (rc)
		t->code = stet_cli_fail_volume_(t->path.s, rc);
}

static int tree_one(void *arg, struct stet_cli_volume *v, const struct stet_cli_target *target)
{
	struct tree *t = arg;
	struct stet_stat st;
	int rc = stet_cli_statat_(v, STET_ROOT, target->path, 0, &st);

	if (rc)
		return stet_cli_fail_volume_(target->word, rc);
	t->v = v;
	t->code = STET_CLI_OK;
	t->dirs = t->files = 0;
	stet_cli_text_cut_(&t->path, 0);
	stet_cli_text_adds_(&t->path, target->word);
	stet_cli_text_adds_(&t->prefix, "");
	json_entry(t, target->word, (uint8_t)IFTODT(st.mode), st.ino);
	if (!t->json.on) {
		stet_cli_print_name_(target->word);
		putchar('\n');
	}
	if (S_ISDIR(st.mode))
		show_dir(t, st.ino, 0);
	stet_cli_json_close_(&t->json, '}');
	if (!t->json.on)
		printf("\n%llu director%s, %llu file%s\n", (unsigned long long)t->dirs,
		       t->dirs == 1 ? "y" : "ies", (unsigned long long)t->files,
		       t->files == 1 ? "" : "s");
	return t->code;
}

static int run_tree(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct tree t = { 0 };
	const struct stet_cli_option options[] = {
		{ 0, "json", STET_CLI_FLAG, &t.json.on, NULL, "print JSON" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	choose_lines(&t);
	stet_cli_json_open_(&t.json, NULL, '[');
	code = stet_cli_read_each_(cmd, words, tree_one, &t);
	stet_cli_json_close_(&t.json, ']');
	stet_cli_text_release_(&t.prefix);
	stet_cli_text_release_(&t.path);
	return code;
}

const struct stet_cli_command stet_cli_tree_ = {
	.name = "tree",
	.synopsis = "[--json] VOLUME[:/path]...",
	.summary = "Draw directories and all below them",
	.min_words = 1,
	.max_words = STET_CLI_NO_LIMIT,
	.volume_words = true,
	.run = run_tree,
};
