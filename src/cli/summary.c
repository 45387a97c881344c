/* summary.c - the changes of a transaction for people.
 *
 * M1. What is lost comes first, and all of it is told: what was deleted (also by a rename over it),
 *     and what became something of another type. Everything below a directory that was deleted
 *     went with it, so one line may stand for all of that.
 * M2. Every line is one line of printable text, whatever names the volume holds: no name can look
 *     like another line, or reach a terminal as anything but text.
 */
#include "cli/changes_internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BRIEF_LINES 20u /* of each of the groups that may be cut short */

enum group { DELETED, RETYPED, RENAMED, ADDED, MODIFIED, GROUPS };

static const struct {
	char letter;
	const char *name;
} groups[GROUPS] = {
	[DELETED] = { 'D', "deleted" },  [RETYPED] = { 'T', "of another type" },
	[RENAMED] = { 'R', "renamed" },  [ADDED] = { 'A', "added" },
	[MODIFIED] = { 'M', "changed" },
};

struct line {
	const struct stet_change *change;
	enum group group;
	const char *path; /* of what is told; borrowed */
};

struct summary {
	struct line *line;
	size_t count;
	size_t total[GROUPS];
	uint64_t grown_bytes, shrunk_bytes;
	FILE *out;
	bool brief;
	struct stet_cli_text text; /* the line being made */
};

/// What to tell ///

/* The name led to something of another type, whatever has become of that. */
static bool is_retyped(const struct stet_change *change)
{
	return change->old_type && change->old_type != change->type;
}

static enum group group_of(const struct stet_change *change)
{
	switch (change->kind) {
	case STET_CHANGE_ADDED:
		return ADDED;
	case STET_CHANGE_REMOVED:
		return DELETED;
	case STET_CHANGE_RENAMED:
		return RENAMED;
	case STET_CHANGE_REPLACED: /* by a file of the same type: as if that had been changed */
		return is_retyped(change) ? RETYPED : MODIFIED;
	case STET_CHANGE_MODIFIED:
		break;
	}
	return MODIFIED;
}

static uint64_t size_of(const struct stet_change_attr *attr)
{
	return S_ISREG(attr->mode) ? attr->size : 0;
}

static void count_bytes(struct summary *s, uint64_t before, uint64_t after)
{
	if (after > before)
		s->grown_bytes += after - before;
	else
		s->shrunk_bytes += before - after;
}

/* A name came or went, and the file was and is there: what became of that is told elsewhere. */
static bool is_one_of_several(const struct stet_change *change)
{
	return (change->kind == STET_CHANGE_ADDED || change->kind == STET_CHANGE_REMOVED) &&
	       change->before.mode && change->after.mode;
}

static void add_line(struct summary *s, const struct stet_change *change, enum group group)
{
	s->line[s->count++] = (struct line){ change, group, change->path };
	s->total[group]++;
}

static void sort_in(struct summary *s, const struct stet_cli_changes *changes)
{
	s->line = stet_cli_alloc_((2 * changes->count + 1) * sizeof(*s->line));
	for (size_t i = 0; i < changes->count; i++) {
		const struct stet_change *change = &changes->change[i];

		add_line(s, change, group_of(change));
		if (change->kind == STET_CHANGE_RENAMED && change->replaced_ino)
			add_line(s, change, DELETED); /* M1 */
		else if (change->kind == STET_CHANGE_RENAMED && is_retyped(change))
			add_line(s, change, RETYPED); /* M1: what was there was renamed itself */
		if (!is_one_of_several(change))
			count_bytes(s, size_of(&change->before) + size_of(&change->replaced),
				    size_of(&change->after));
	}
}

/* By group, then path; "/" before any other character, so that what lies below a directory follows
 * it. */
static int compare(const void *a, const void *b)
{
	const struct line *x = a;
	const struct line *y = b;
	const unsigned char *p = (const unsigned char *)x->path;
	const unsigned char *q = (const unsigned char *)y->path;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	while (*p && *p == *q) {
		p++;
		q++;
	}
	if (*p == *q || !*p || !*q)
		return (*p > *q) - (*p < *q);
	if (*p == '/' || *q == '/')
		return *p == '/' ? -1 : 1;
	return *p < *q ? -1 : 1;
}

/// Details ///

static void add_detail(struct summary *s, const char *text)
{
	stet_cli_text_adds_(&s->text, s->text.len && s->text.s[s->text.len - 1] == '(' ? "" : ", ");
	stet_cli_text_adds_(&s->text, text);
}

static void add_size(struct summary *s, const struct stet_change_attr *attr)
{
	char size[STET_CLI_SIZE_MAX];

	if (S_ISREG(attr->mode)) {
		stet_cli_format_size_(attr->size, size);
		add_detail(s, size);
	} else if (attr->mode && !S_ISDIR(attr->mode)) {
		add_detail(s, stet_cli_type_name_(attr->mode));
	}
}

static void add_sizes(struct summary *s, uint64_t before, uint64_t after)
{
	char from[STET_CLI_SIZE_MAX], to[STET_CLI_SIZE_MAX], both[3 * STET_CLI_SIZE_MAX];

	stet_cli_format_size_(before, from);
	stet_cli_format_size_(after, to);
	if (before == after)
		snprintf(both, sizeof(both), "content, %s as before", to);
	else if (strcmp(from, to) == 0 || (before < 1024 && after < 1024))
		snprintf(both, sizeof(both), "%llu -> %llu bytes", (unsigned long long)before,
			 (unsigned long long)after);
	else
		snprintf(both, sizeof(both), "%s -> %s", from, to);
	add_detail(s, both);
}

static void add_records(struct summary *s, const struct stet_change_attr *before,
			const struct stet_change_attr *after)
{
	char text[64];

	if (before->size == after->size)
		snprintf(text, sizeof(text), "records, %llu as before",
			 (unsigned long long)after->size);
	else
		snprintf(text, sizeof(text), "%llu -> %llu records",
			 (unsigned long long)before->size, (unsigned long long)after->size);
	add_detail(s, text);
}

static void add_owner(struct summary *s, const struct stet_change_attr *a,
		      const struct stet_change_attr *b)
{
	char user[2][STET_CLI_OWNER_MAX], group[2][STET_CLI_OWNER_MAX];
	struct stet_cli_text text = { 0 };

	stet_cli_format_user_(a->uid, user[0]);
	stet_cli_format_group_(a->gid, group[0]);
	stet_cli_format_user_(b->uid, user[1]);
	stet_cli_format_group_(b->gid, group[1]);
	stet_cli_text_addf_(&text, "owner %s:%s -> %s:%s", user[0], group[0], user[1], group[1]);
	add_detail(s, text.s);
	stet_cli_text_release_(&text);
}

/* What else differs between two states of a file. */
static void add_attributes(struct summary *s, const struct stet_change_attr *a,
			   const struct stet_change_attr *b, unsigned what)
{
	char modes[32];

	if (!a->mode || !b->mode)
		return;
	if ((a->mode ^ b->mode) & 07777) {
		snprintf(modes, sizeof(modes), "mode %04o -> %04o", a->mode & 07777u,
			 b->mode & 07777u);
		add_detail(s, modes);
	}
	if (a->uid != b->uid || a->gid != b->gid)
		add_owner(s, a, b);
	if (what & STET_CHANGED_XATTR)
		add_detail(s, "extended attributes");
	if ((what & STET_CHANGED_ATTR) && a->mode == b->mode && a->uid == b->uid &&
	    a->gid == b->gid)
		add_detail(s, "times");
}

/* A new file that gives its owner's rights away is worth a word. */
static void add_set_id(struct summary *s, const struct stet_change_attr *attr)
{
	char mode[32];

	if (!S_ISREG(attr->mode) || !(attr->mode & (S_ISUID | S_ISGID)))
		return;
	snprintf(mode, sizeof(mode), "mode %04o", attr->mode & 07777u);
	add_detail(s, mode);
}

static void add_new(struct summary *s, const struct stet_change_attr *attr)
{
	add_size(s, attr);
	add_set_id(s, attr);
}

static void add_types(struct summary *s, const struct stet_change *change)
{
	struct stet_cli_text text = { 0 };

	stet_cli_text_addf_(&text, "%s -> %s", stet_cli_entry_type_name_(change->old_type),
			    stet_cli_entry_type_name_(change->type));
	add_detail(s, text.s);
	if (!change->replaced_ino) {
		stet_cli_text_cut_(&text, 0);
		stet_cli_text_addf_(&text, "the %s was renamed",
				    stet_cli_entry_type_name_(change->old_type));
		if (change->type == DT_REG)
			add_size(s, &change->after);
		add_detail(s, text.s);
	} else if (change->old_type == DT_REG || change->type == DT_REG) {
		add_sizes(s, size_of(&change->replaced), size_of(&change->after));
	}
	stet_cli_text_release_(&text);
	add_set_id(s, &change->after);
}

static void add_modified(struct summary *s, const struct stet_change *change)
{
	const struct stet_change_attr *old = &change->before;

	if (change->kind == STET_CHANGE_REPLACED) {
		old = &change->replaced;
		add_detail(s, "replaced");
	}
	if ((change->after.mode & S_IFMT) == STET_S_IFTABLE && (change->what & STET_CHANGED_DATA))
		add_records(s, old, &change->after);
	if (S_ISREG(change->after.mode) &&
	    (change->kind == STET_CHANGE_REPLACED || (change->what & STET_CHANGED_DATA)))
		add_sizes(s, size_of(old), size_of(&change->after));
	add_attributes(s, old, &change->after, change->what);
}

static void add_details(struct summary *s, const struct line *line)
{
	const struct stet_change *change = line->change;

	switch (line->group) {
	case DELETED:
		if (change->kind == STET_CHANGE_RENAMED) {
			add_size(s, &change->replaced);
			add_detail(s, "overwritten by a rename");
		} else {
			add_size(s, &change->before);
			if (is_one_of_several(change))
				add_detail(s, "one of several names");
		}
		break;
	case RETYPED:
		add_types(s, change);
		break;
	case ADDED:
		add_new(s, &change->after);
		if (is_one_of_several(change))
			add_detail(s, "another name of an older file");
		break;
	case RENAMED:
	case MODIFIED:
	case GROUPS:
		add_modified(s, change);
		break;
	}
}

/// Lines ///

static bool is_dir(const struct line *line)
{
	if (line->group == DELETED && line->change->kind == STET_CHANGE_RENAMED)
		return S_ISDIR(line->change->replaced.mode);
	return line->change->type == DT_DIR;
}

static void add_name(struct summary *s, const char *path, bool dir)
{
	stet_cli_escape_(&s->text, path, true);
	if (dir && strcmp(path, "/") != 0)
		stet_cli_text_adds_(&s->text, "/");
}

/* How many of the following lines tell what lies below this one's directory; *ret_bytes: in files. */
static size_t count_below(const struct summary *s, size_t at, uint64_t *ret_bytes)
{
	const struct line *line = &s->line[at];
	size_t len = strlen(line->path);
	size_t next = at + 1;

	*ret_bytes = 0;
	while (next < s->count && s->line[next].group == line->group &&
	       strncmp(s->line[next].path, line->path, len) == 0 &&
	       s->line[next].path[len] == '/') {
		const struct stet_change *change = s->line[next].change;

		*ret_bytes += size_of(line->group == ADDED ? &change->after : &change->before);
		next++;
	}
	return next - at - 1;
}

static void add_below(struct summary *s, size_t count, uint64_t bytes)
{
	char size[STET_CLI_SIZE_MAX], text[96];

	stet_cli_format_size_(bytes, size);
	snprintf(text, sizeof(text), "and %zu below it, %s", count, size);
	add_detail(s, text);
}

/* Prints a line; returns how many it stands for. */
static size_t print_line(struct summary *s, size_t at)
{
	const struct line *line = &s->line[at];
	bool collapses = s->brief && is_dir(line) &&
			 (line->group == DELETED || line->group == ADDED);
	size_t start;
	uint64_t bytes = 0;
	size_t below = collapses ? count_below(s, at, &bytes) : 0;

	stet_cli_text_cut_(&s->text, 0);
	stet_cli_text_addf_(&s->text, "%c ", groups[line->group].letter);
	if (line->group == RENAMED) {
		const char *old = line->change->old_path;

		add_name(s, old ? old : line->path, is_dir(line));
		stet_cli_text_adds_(&s->text, " -> ");
	}
	add_name(s, line->path, is_dir(line));
	start = s->text.len;
	stet_cli_text_adds_(&s->text, "  (");
	add_details(s, line);
	if (below)
		add_below(s, below, bytes);
	if (s->text.len == start + 3)
		stet_cli_text_cut_(&s->text, start);
	else
		stet_cli_text_adds_(&s->text, ")");
	fprintf(s->out, "%s\n", s->text.s);
	return 1 + below;
}

static void print_lines(struct summary *s, const char *more)
{
	size_t at = 0;

	while (at < s->count) {
		enum group group = s->line[at].group;
		bool may_cut = s->brief && group != DELETED && group != RETYPED; /* M1 */
		size_t shown = 0;
		size_t left = 0;

		while (at < s->count && s->line[at].group == group) {
			if (may_cut && shown >= BRIEF_LINES) {
				left++;
				at++;
			} else {
				at += print_line(s, at);
				shown++;
			}
		}
		if (left)
			fprintf(s->out, "%c ... %zu more (%s)\n", groups[group].letter, left, more);
	}
}

static void print_totals(const struct summary *s)
{
	char grown[STET_CLI_SIZE_MAX], shrunk[STET_CLI_SIZE_MAX];
	bool any = false;

	for (unsigned group = 0; group < GROUPS; group++) {
		if (!s->total[group])
			continue;
		fprintf(s->out, "%s%zu %s", any ? ", " : "", s->total[group], groups[group].name);
		any = true;
	}
	if (!any) {
		fputs("no changes\n", s->out);
		return;
	}
	stet_cli_format_size_(s->grown_bytes, grown);
	stet_cli_format_size_(s->shrunk_bytes, shrunk);
	if (s->grown_bytes || s->shrunk_bytes)
		fprintf(s->out, "; +%s, -%s", grown, shrunk);
	fputc('\n', s->out);
}

void stet_cli_summary_(const struct stet_cli_changes *changes, FILE *out, bool brief,
		       const char *more)
{
	struct summary s = { .out = out, .brief = brief };

	sort_in(&s, changes);
	if (s.count)
		qsort(s.line, s.count, sizeof(*s.line), compare);
	print_lines(&s, more);
	print_totals(&s);
	stet_cli_text_release_(&s.text);
	free(s.line);
}
