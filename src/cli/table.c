/* table.c - `stetfs table`: the records of a table.
 *
 * T1. What changes a table is one transaction, whatever the number of records: all or nothing. One record alone is changed
 *     by a plain call, which waits for others instead of meeting them.
 * T2. Memory is bounded: records are read and written one by one, and no line may be longer than any record.
 */
#include "cli/table_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All of a record, each byte as \xHH or \u00HH. */
#define LINE_MAX_BYTES (6 * ((size_t)STET_RECORD_MAX + STET_KEY_MAX) + 64)

struct table_cmd {
	const struct stet_cli_command *cmd;
	const struct stet_cli_target *target;
	struct stet_cli_volume v;
	struct stet_table *table;
	char **word; /* behind the name of the action */
	int count;
	/* --- options --- */
	const char *file, *prefix, *from, *to;
	bool escaped, reverse, keys, json;
	uint64_t limit;
	struct stet_cli_text prefix_bytes, from_bytes, to_bytes;
};

struct action {
	const char *name;
	int min_words, max_words;
	bool writes, creates;
	bool with_file, with_bounds, with_form; /* options that it has */
	int (*run)(struct table_cmd *t);
};

static int fail(const struct table_cmd *t, int rc)
{
	char text[512];

	if (rc == -EBUSY && t->v.txn && stet_conflict_text(t->v.txn, text, sizeof(text)) > 0) {
		stet_cli_error_(t->target->word, "conflict: %s", text);
		return STET_CLI_FAILED;
	}
	return stet_cli_fail_volume_(t->target->word, rc);
}

/// Keys and values ///

/* A word of the command line as the bytes that it stands for. Returns an exit code. */
static int take_word(const struct table_cmd *t, const char *word, struct stet_cli_text *ret)
{
	stet_cli_text_adds_(ret, "");
	if (!t->escaped) {
		stet_cli_text_adds_(ret, word);
		return STET_CLI_OK;
	}
	if (stet_cli_table_unescape_(word, strlen(word), ret))
		return STET_CLI_OK;
	return stet_cli_misuse_(t->cmd, "'%s': a backslash that begins no escape", word);
}

static int take_key(const struct table_cmd *t, const char *word, struct stet_cli_text *ret)
{
	int code = take_word(t, word, ret);

	if (!code && (ret->len == 0 || ret->len > STET_KEY_MAX))
		code = stet_cli_misuse_(t->cmd, "a key has 1 to %u bytes", STET_KEY_MAX);
	return code;
}

static int no_record(const struct table_cmd *t, const char *word)
{
	stet_cli_error_(t->target->word, "no record '%s'", word);
	return STET_CLI_FAILED;
}

/// Single records ///

static int get_value(struct table_cmd *t, const struct stet_cli_text *key, const char *word)
{
	char *value = stet_cli_alloc_(STET_RECORD_MAX);
	ssize_t n = stet_get(t->table, t->v.txn, key->s, key->len, value, STET_RECORD_MAX, 0);
	int code = STET_CLI_OK;

	if (n == -ENOENT)
		code = no_record(t, word);
	else if (n < 0)
		code = fail(t, (int)n);
	else if (t->json)
		stet_cli_table_write_(true,
				      &(struct stet_record){ .key = key->s,
							     .key_len = key->len,
							     .value = value,
							     .value_len = (size_t)n },
				      true);
	else
		fwrite(value, 1, (size_t)n, stdout);
	free(value);
	return code;
}

static int run_get(struct table_cmd *t)
{
	struct stet_cli_text key = { 0 };
	int code = take_key(t, t->word[0], &key);

	if (!code)
		code = get_value(t, &key, t->word[0]);
	stet_cli_text_release_(&key);
	return code;
}

/* Reads all of it, one byte more than a value may have at most. */
static int read_value(const struct table_cmd *t, FILE *file, struct stet_cli_text *ret)
{
	char *buf = stet_cli_alloc_((size_t)STET_RECORD_MAX + 1);
	size_t n = fread(buf, 1, (size_t)STET_RECORD_MAX + 1, file);
	int code = ferror(file) ? stet_cli_fail_(t->file, -errno) : STET_CLI_OK;

	stet_cli_text_add_(ret, buf, n);
	free(buf);
	return code;
}

static FILE *open_input(const char *path)
{
	return strcmp(path, "-") == 0 ? stdin : fopen(path, "rbe");
}

static void close_input(FILE *file)
{
	if (file != stdin)
		fclose(file);
}

static int take_value(const struct table_cmd *t, struct stet_cli_text *ret)
{
	FILE *file;
	int code;

	if (!t->file)
		return take_word(t, t->word[1], ret);
	stet_cli_text_adds_(ret, "");
	file = open_input(t->file);
	if (!file)
		return stet_cli_fail_(t->file, -errno);
	code = read_value(t, file, ret);
	close_input(file);
	return code;
}

static int run_put(struct table_cmd *t)
{
	struct stet_cli_text key = { 0 }, value = { 0 };
	int code, rc;

	if ((t->count == 2) == (t->file != NULL))
		return stet_cli_misuse_(t->cmd, "put: a value, or --file");
	code = take_key(t, t->word[0], &key);
	if (!code)
		code = take_value(t, &value);
	if (!code) {
		rc = stet_put(t->table, t->v.txn, key.s, key.len, value.s, value.len, 0);
		if (rc == -E2BIG) {
			stet_cli_error_(t->target->word, "a value has at most %u bytes",
					STET_RECORD_MAX);
			code = STET_CLI_FAILED;
		} else if (rc) {
			code = fail(t, rc);
		}
	}
	stet_cli_text_release_(&key);
	stet_cli_text_release_(&value);
	return code;
}

static int run_del(struct table_cmd *t)
{
	int code = STET_CLI_OK;

	for (int i = 0; i < t->count && !code; i++) {
		struct stet_cli_text key = { 0 };
		int rc;

		code = take_key(t, t->word[i], &key);
		rc = code ? 0 : stet_del(t->table, t->v.txn, key.s, key.len);
		if (rc)
			code = rc == -ENOENT ? no_record(t, t->word[i]) : fail(t, rc);
		stet_cli_text_release_(&key);
	}
	return code;
}

/* It was made when it was opened. */
static int run_create(struct table_cmd *t)
{
	(void)t;
	return STET_CLI_OK;
}

/// Many records ///

static int take_bounds(struct table_cmd *t, struct stet_bounds *ret)
{
	int code = STET_CLI_OK;

	*ret = (struct stet_bounds){ .reverse = t->reverse, .keys_only = t->keys };
	if (t->prefix)
		code = take_key(t, t->prefix, &t->prefix_bytes);
	if (!code && t->from)
		code = take_key(t, t->from, &t->from_bytes);
	if (!code && t->to)
		code = take_key(t, t->to, &t->to_bytes);
	ret->prefix = t->prefix_bytes.s;
	ret->prefix_len = t->prefix_bytes.len;
	ret->from = t->from_bytes.s;
	ret->from_len = t->from_bytes.len;
	ret->to = t->to_bytes.s;
	ret->to_len = t->to_bytes.len;
	return code;
}

static int run_scan(struct table_cmd *t)
{
	struct stet_bounds bounds;
	struct stet_record record;
	struct stet_cursor *cursor;
	uint64_t n = 0;
	int code = take_bounds(t, &bounds);
	int rc = code ? 0 : stet_cursor_open(t->table, t->v.txn, &bounds, &cursor);

	if (code || rc)
		return code ? code : fail(t, rc);
	while (n < t->limit && (rc = stet_cursor_next(cursor, &record)) == 1) {
		stet_cli_table_write_(t->json, &record, !t->keys);
		n++;
		if (ferror(stdout)) /* told at the end */
			break;
	}
	stet_cursor_close(cursor);
	return rc < 0 ? fail(t, rc) : STET_CLI_OK;
}

static int run_count(struct table_cmd *t)
{
	struct stet_bounds bounds;
	uint64_t n;
	int code = take_bounds(t, &bounds);
	int rc = code ? 0 : stet_count(t->table, t->v.txn, &bounds, &n);

	if (code || rc)
		return code ? code : fail(t, rc);
	printf("%llu\n", (unsigned long long)n);
	return STET_CLI_OK;
}

struct load {
	struct table_cmd *t;
	const char *name;
	FILE *file;
	struct stet_cli_record record;
	char *line;
	uint64_t number;
	struct stet_cli_progress progress;
};

static int fail_line(const struct load *l, const char *why)
{
	stet_cli_error_(l->name, "line %llu: %s", (unsigned long long)l->number, why);
	return STET_CLI_FAILED;
}

/* 1: a line, without its end; 0: there are no more; -1: it is too long. */
static int read_line(struct load *l, size_t *ret_len)
{
	size_t len = 0;
	int c;

	while ((c = getc_unlocked(l->file)) != EOF && c != '\n') {
		if (len == LINE_MAX_BYTES) /* T2 */
			return -1;
		l->line[len++] = (char)c;
	}
	*ret_len = len;
	return len > 0 || c == '\n';
}

static int load_line(struct load *l, size_t len)
{
	const struct stet_cli_record *r = &l->record;
	const char *why = stet_cli_table_parse_(l->t->json, l->line, len, &l->record);
	int rc;

	if (why)
		return fail_line(l, why);
	rc = stet_put(l->t->table, l->t->v.txn, r->key.s, r->key.len, r->value.s, r->value.len, 0);
	if (rc)
		return fail(l->t, rc);
	l->progress.files++;
	stet_cli_progress_(&l->progress);
	return STET_CLI_OK;
}

static int load_lines(struct load *l)
{
	int code = STET_CLI_OK, more = 1;
	size_t len = 0;

	while (!code && more == 1) {
		l->number++;
		more = read_line(l, &len);
		if (more < 0)
			code = fail_line(l, "too long");
		else if (ferror(l->file))
			code = stet_cli_fail_(l->name, -errno);
		else if (more == 1)
			code = load_line(l, len);
	}
	return code;
}

static int run_load(struct table_cmd *t)
{
	struct load l = {
		.t = t,
		.name = t->count > 0 ? t->word[0] : "-",
		.progress = { .verb = "loaded" },
	};
	int code;

	l.file = open_input(l.name);
	if (!l.file)
		return stet_cli_fail_(l.name, -errno);
	if (l.file == stdin)
		l.name = "standard input";
	l.line = stet_cli_alloc_(LINE_MAX_BYTES);
	code = load_lines(&l);
	free(l.line);
	close_input(l.file);
	stet_cli_text_release_(&l.record.key);
	stet_cli_text_release_(&l.record.value);
	return code;
}

static const struct action actions[] = {
	{ "create", 0, 0, true, true, false, false, false, run_create },
	{ "get", 1, 1, false, false, false, false, true, run_get },
	{ "put", 1, 2, true, false, true, false, false, run_put },
	{ "del", 1, STET_CLI_NO_LIMIT, true, false, false, false, false, run_del },
	{ "scan", 0, 0, false, false, false, true, true, run_scan },
	{ "count", 0, 0, false, false, false, true, false, run_count },
	{ "dump", 0, 0, false, false, false, false, true, run_scan },
	{ "load", 0, 1, true, true, false, false, true, run_load },
};

static const struct action *find_action(const char *name)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	return NULL;
}

/// The command ///

/* An option that the action has no use for is a mistake. Returns an exit code. */
static int check_options(const struct table_cmd *t, const struct action *a)
{
	bool bounds = t->prefix || t->from || t->to;
	bool order = t->reverse || t->keys || t->limit != UINT64_MAX;

	if (t->count < a->min_words ||
	    (a->max_words != STET_CLI_NO_LIMIT && t->count > a->max_words))
		return stet_cli_misuse_(t->cmd, "%s: %s", a->name,
					t->count < a->min_words ? "a key is missing"
								: "too many words");
	if ((t->file && !a->with_file) || (bounds && !a->with_bounds) ||
	    (order && a->run != run_scan) || (t->json && !a->with_form))
		return stet_cli_misuse_(t->cmd, "%s: an option that is not for this", a->name);
	return STET_CLI_OK;
}

/* T1 */
static bool is_single(const struct table_cmd *t, const struct action *a)
{
	return a->run == run_put || a->run == run_create || (a->run == run_del && t->count == 1);
}

/* Opens the volume, begins the transaction, opens the table. Returns an exit code. */
static int open_all(struct table_cmd *t, const struct action *a)
{
	int flags = a->writes ? O_RDWR : O_RDONLY;
	int code = stet_cli_open_shared_(t->target->volume, a->writes, &t->v);
	mode_t mask;
	int rc = 0;

	if (code)
		return code;
	if (a->creates)
		flags |= a->run == run_create ? O_CREAT | O_EXCL : O_CREAT;
	mask = umask(0);
	umask(mask);
	if (a->writes && !is_single(t, a))
		rc = stet_begin(t->v.vol, STET_BEGIN_SNAPSHOT, &t->v.txn); /* T1 */
	if (rc)
		t->v.txn = NULL;
	else
		rc = stet_table_open(t->v.vol, t->v.txn, STET_ROOT, t->target->path, flags,
				     0666 & ~mask, &t->table);
	if (!rc)
		return STET_CLI_OK;
	if (rc == -EINVAL) {
		stet_cli_error_(t->target->word, "is not a table");
		code = STET_CLI_FAILED;
	} else {
		code = fail(t, rc);
	}
	return stet_cli_close_(&t->v, code);
}

static int run_action(struct table_cmd *t, const struct action *a)
{
	int code = check_options(t, a);

	if (!code)
		code = open_all(t, a);
	if (code)
		return code;
	code = a->run(t);
	stet_table_close(t->table);
	return stet_cli_close_(&t->v, code);
}

static int run_table(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct table_cmd t = { .cmd = cmd, .limit = UINT64_MAX };
	const struct stet_cli_option options[] = {
		{ 0, "prefix", STET_CLI_STRING, &t.prefix, "KEY", "only keys that begin with it" },
		{ 0, "from", STET_CLI_STRING, &t.from, "KEY", "and not before this one" },
		{ 0, "to", STET_CLI_STRING, &t.to, "KEY", "and before this one" },
		{ 'r', "reverse", STET_CLI_FLAG, &t.reverse, NULL, "scan, dump: by falling keys" },
		{ 'n', "limit", STET_CLI_NUMBER, &t.limit, "COUNT", "scan, dump: at most so many" },
		{ 'k', "keys", STET_CLI_FLAG, &t.keys, NULL, "scan, dump: keys only" },
		{ 'f', "file", STET_CLI_STRING, &t.file, "FILE",
		  "put: the value is in this file (-: standard input)" },
		{ 'e', "escaped", STET_CLI_FLAG, &t.escaped, NULL,
		  "keys and values given here have escapes, as in lines" },
		{ 0, "json", STET_CLI_FLAG, &t.json, NULL, "lines are JSON" },
		{ 0 },
	};
	struct stet_cli_target target;
	const struct action *action;
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	action = find_action(words->word[1]);
	if (!action)
		return stet_cli_misuse_(cmd, "'%s' is nothing that can be done", words->word[1]);
	if (!stet_cli_target_parse_(words->word[0], &target))
		return stet_cli_misuse_target_(cmd, words->word[0]);
	t.target = &target;
	t.word = words->word + 2;
	t.count = words->count - 2;
	code = run_action(&t, action);
	stet_cli_text_release_(&t.prefix_bytes);
	stet_cli_text_release_(&t.from_bytes);
	stet_cli_text_release_(&t.to_bytes);
	stet_cli_target_release_(&target);
	return code;
}

const struct stet_cli_command stet_cli_table_ = {
	.name = "table",
	.synopsis = "VOLUME:/path create | get KEY | put KEY [VALUE] | del KEY... |\n"
		    "           scan | count | dump | load [FILE]",
	.summary = "Read and change the records of a table",
	.details =
		"Records are written and read as lines, KEY, a tab, VALUE, with \\\\ \\t \\n \\r "
		"and \\xHH for what a line\ncannot hold; or with --json as objects. What changes a "
		"table is one transaction: all or nothing.",
	.min_words = 2,
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_table,
};
