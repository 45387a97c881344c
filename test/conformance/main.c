/* main.c - runs the rows on one target.
 *
 *	conformance PLACE --target TARGET [--only PATTERN]... [--except PATTERN] [--phase PHASE]
 *		[--other DIR] [--times]
 *	conformance --list | --differences
 *
 * --times prints the rows that take a quarter of a second.
 *
 * PLACE is a directory of the target, or the image of a volume (library). A row's directory lies below it
 * and stays; it is made anew when the row is run again. PATTERN as fnmatch(3).
 *
 * Most tables are run at once. Those of what a read-only file system refuses take two runs: PHASE
 * `prepare` makes the set-up of their rows, `read-only` the rest, after somebody made it read-only.
 *
 * Every row that fails is printed with the command that runs it alone. The last line counts. Status 0:
 * none failed; 1: some did; 2: wrong usage; 3: there is no such row; 77: cannot be run here.
 */
#include "conformance.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "library.h"
#include "posix.h"
#include "script.h"

#define STATEMENT_SECONDS 60
#define ONLY_MAX 64
#define NO_SUCH_ROW 3

static const struct {
	const char *name;
	unsigned target;
} targets[] = {
	{ "mount", MOUNT }, { "view", VIEW },   { "library", LIBRARY },
	{ "ext4", EXT4 },   { "tmpfs", TMPFS },
};

static const char *const reason_names[REASONS] = {
	[NO_REASON] = "NO_REASON",
#define REASON(name, text) [name] = #name,
#include "reasons.h"
#undef REASON
};

static const char *const reason_texts[REASONS] = {
	[NO_REASON] = "no reason",
#define REASON(name, text) [name] = text,
#include "reasons.h"
#undef REASON
};

enum phase { ALL, PREPARE, READ_ONLY };

static struct {
	const char *program;
	const char *place;
	const char *target_name; /* "" : none */
	unsigned target;
	const char *only[ONLY_MAX];
	const char *except; /* NULL: none */
	size_t only_count;
	enum phase phase;
	bool lists, lists_differences, shows_times;
	const struct backend *backend;
} run;

static struct {
	size_t passed, failed, unfit, different, left_out[REASONS];
} counts;

/* Strings that live as long as the program, in reach of who looks for leaks. */
static struct {
	char **texts;
	size_t count, cap;
} kept;

const char *text_kept(char *text)
{
	if (kept.count == kept.cap) {
		kept.cap = kept.cap * 2 + 64;
		kept.texts = realloc(kept.texts, kept.cap * sizeof(*kept.texts));
		if (!kept.texts)
			abort();
	}
	kept.texts[kept.count++] = text;
	return text;
}

const char *text_of(const char *format, ...)
{
	va_list args;
	char *text;
	int len;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0)
		abort();
	return text_kept(text);
}

/* --- one row --- */

static void complain(const struct row *row, const char *what, const char *statement,
		     const char *got, const char *want)
{
	printf("FAIL %s: %s `%.300s`: got %s, want %s\n", row->name, what, statement, got, want);
	if (row->setup && *row->setup)
		printf("    set-up: %.600s\n", row->setup);
	printf("    call: %.300s\n    alone: %s %s --target %s --only '%s'%s%s\n", row->call,
	       run.program, run.place, run.target_name, row->name, script_other ? " --other " : "",
	       script_other ? script_other : "");
}

/* One statement; want NULL: its own. */
static bool perform(const struct row *row, const char *what, const char *statement,
		    const char *want)
{
	struct result result;
	struct call call;
	char got[512], wanted[STATEMENT_MAX];
	bool ret;

	alarm(STATEMENT_SECONDS);
	script_perform(run.backend, &call, statement, &result);
	alarm(0);
	if (call.bad) {
		complain(row, what, statement, call.bad, "a statement");
		result_release(&result);
		return false;
	}
	if (!want)
		want = call.want;
	script_show(&result, got, sizeof(got));
	/* Judging parses, which drops the call's words. */
	snprintf(wanted, sizeof(wanted), "%s", want ? want : "ok");
	ret = script_is_wanted(&result, wanted);
	if (!ret)
		complain(row, what, statement, got, wanted);
	result_release(&result);
	return ret;
}

static bool perform_all(const struct row *row, const char *what, const char *script)
{
	char statement[STATEMENT_MAX];

	while (script_next(&script, statement, sizeof(statement)))
		if (!perform(row, what, statement, NULL))
			return false;
	return true;
}

static bool begin_row(const struct row *row)
{
	bool is_new = run.phase != READ_ONLY;
	char name[256];
	bool ret;

	snprintf(name, sizeof(name), "%s", row->name);
	for (char *at = name; *at; at++)
		if (*at == '/')
			*at = '.';
	if (run.target == LIBRARY)
		ret = library_begin_row(name, is_new);
	else
		ret = posix_begin_row(text_of("%s/%s", run.place, name), is_new);
	if (!ret)
		complain(row, "its directory", name, strerror(errno), "a new one");
	return ret;
}

static void end_row(void)
{
	script_end_row();
	if (run.target == LIBRARY)
		library_end_row();
	else
		posix_end_row();
}

static const struct difference *find_difference(const struct row *row)
{
	for (size_t i = 0; i < DIFFERENCES_MAX; i++)
		if (row->differences[i].targets & run.target)
			return &row->differences[i];
	return NULL;
}

static bool fits(const struct row *row, const char *after)
{
	const char *why;

	return script_fits(run.backend, row->setup, &why) &&
	       script_fits(run.backend, row->call, &why) && script_fits(run.backend, after, &why);
}

static void run_row(const struct row *row)
{
	const struct difference *differs = find_difference(row);
	const char *after = differs ? differs->after : row->after;
	const char *want = differs ? differs->want : row->want;
	bool ok;

	if (differs && !differs->want) {
		counts.left_out[differs->reason]++;
		return;
	}
	if (!fits(row, after)) {
		counts.unfit++;
		return;
	}
	ok = begin_row(row);
	if (ok && run.phase != READ_ONLY)
		ok = perform_all(row, "set-up", row->setup);
	if (ok && run.phase != PREPARE)
		ok = perform(row, "call", row->call, want) && perform_all(row, "afterwards", after);
	end_row();
	counts.different += differs != NULL;
	if (ok)
		counts.passed++;
	else
		counts.failed++;
}

/* --- all rows --- */

/* A row must say what it is, what it wants, and why it differs where it does. */
static bool is_sound(const struct row *row)
{
	if (!row->name || !strchr(row->name, '/') || !row->call || !row->want)
		return false;
	for (size_t i = 0; i < DIFFERENCES_MAX; i++)
		if ((row->differences[i].targets != 0) != (row->differences[i].reason != NO_REASON))
			return false;
	return true;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct {
	const char **names;
	size_t count, cap;
} seen;

static void note_name(const char *name)
{
	if (seen.count == seen.cap) {
		seen.cap = seen.cap * 2 + 64;
		seen.names = realloc(seen.names, seen.cap * sizeof(*seen.names));
		if (!seen.names)
			abort();
	}
	seen.names[seen.count++] = name;
}

/* No two rows have one name (they would have one directory). */
static void complain_about_twins(void)
{
	if (seen.count)
		qsort(seen.names, seen.count, sizeof(*seen.names), compare_names);
	for (size_t i = 1; i < seen.count; i++)
		if (strcmp(seen.names[i - 1], seen.names[i]) == 0) {
			printf("FAIL %s: two rows have this name\n", seen.names[i]);
			counts.failed++;
		}
}

static void list_row(const struct row *row)
{
	if (run.lists)
		printf("%s\n", row->name);
	for (size_t i = 0; run.lists_differences && i < DIFFERENCES_MAX; i++) {
		const struct difference *differs = &row->differences[i];

		if (!differs->targets)
			continue;
		printf("%s: %s, on", row->name, row->want);
		for (size_t t = 0; t < COUNT(targets); t++)
			if (differs->targets & targets[t].target)
				printf(" %s", targets[t].name);
		printf(" %s: %s\n", differs->want ? differs->want : "left out",
		       reason_texts[differs->reason]);
	}
}

static bool is_chosen(const struct row *row)
{
	if (run.except && fnmatch(run.except, row->name, 0) == 0)
		return false;
	for (size_t i = 0; i < run.only_count; i++)
		if (fnmatch(run.only[i], row->name, 0) == 0)
			return true;
	return run.only_count == 0;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#define SLOW_S 0.25

static void run_timed(const struct row *row)
{
	double began = now_s();

	run_row(row);
	if (run.shows_times && now_s() - began > SLOW_S)
		printf("%s: %.2f s\n", row->name, now_s() - began);
}

static void visit(const struct row *row)
{
	if (!is_chosen(row))
		return;
	if (!is_sound(row)) {
		printf("FAIL %s: the row itself is not complete\n", row->name);
		counts.failed++;
		return;
	}
	note_name(row->name);
	if (run.lists || run.lists_differences)
		list_row(row);
	else
		run_timed(row);
}

static void visit_all(void)
{
	struct row row;

	for (size_t t = 0; tables[t]; t++) {
		const struct table *table = tables[t];

		if (run.place && table->is_read_only != (run.phase != ALL))
			continue;
		for (size_t i = 0; i < table->count; i++)
			visit(&table->rows[i]);
		for (size_t i = 0; table->next && table->next(i, &row); i++)
			visit(&row);
	}
	complain_about_twins();
}

static void report(void)
{
	for (int i = 0; i < REASONS; i++)
		if (counts.left_out[i])
			printf("%zu left out: %s (%s)\n", counts.left_out[i], reason_texts[i],
			       reason_names[i]);
	if (counts.unfit)
		printf("%zu left out: %s\n", counts.unfit,
		       run.target == LIBRARY ? "the library has no such call, user or process"
					     : "no --other file system");
	printf("%s%s: %zu rows passed (%zu of them with an explained difference), %zu failed\n",
	       run.target_name,
	       run.phase == ALL       ? ""
	       : run.phase == PREPARE ? " (prepared)"
				      : " (read-only)",
	       counts.passed, counts.different, counts.failed);
}

/* --- start --- */

static void on_alarm(int number)
{
	(void)number; /* only ends a call that waits: EINTR */
}

static void prepare_process(void)
{
	struct sigaction alarmed = { .sa_handler = on_alarm };

	sigemptyset(&alarmed.sa_mask);
	sigaction(SIGALRM, &alarmed, NULL);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0) {
		perror("a mount namespace of its own");
		exit(77);
	}
}

static int usage(void)
{
	fprintf(stderr,
		"usage: conformance PLACE --target mount|view|library|ext4|tmpfs\n"
		"           [--only PATTERN]... [--except PATTERN] [--phase prepare|read-only]\n"
		"           [--other DIR] [--times]\n"
		"       conformance --list | --differences [--only PATTERN]...\n");
	return 2;
}

static bool choose_target(const char *name)
{
	for (size_t i = 0; i < COUNT(targets); i++)
		if (strcmp(targets[i].name, name) == 0) {
			run.target = targets[i].target;
			run.target_name = name;
			return true;
		}
	return false;
}

static bool choose_phase(const char *name)
{
	run.phase = strcmp(name, "prepare") == 0 ? PREPARE : READ_ONLY;
	return run.phase == PREPARE || strcmp(name, "read-only") == 0;
}

static bool parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "target", required_argument, NULL, 't' },
		{ "only", required_argument, NULL, 'o' },
		{ "except", required_argument, NULL, 'e' },
		{ "phase", required_argument, NULL, 'p' },
		{ "other", required_argument, NULL, 'x' },
		{ "times", no_argument, NULL, 's' },
		{ "list", no_argument, NULL, 'l' },
		{ "differences", no_argument, NULL, 'd' },
		{ 0 },
	};
	bool ok = true;
	int c;

	run.program = argv[0];
	run.target_name = "";
	while (ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 't')
			ok = choose_target(optarg);
		else if (c == 'o' && run.only_count < ONLY_MAX)
			run.only[run.only_count++] = optarg;
		else if (c == 'e')
			run.except = optarg;
		else if (c == 'p')
			ok = choose_phase(optarg);
		else if (c == 'x')
			script_other = optarg;
		else if (c == 's')
			run.shows_times = true;
		else if (c == 'l')
			run.lists = true;
		else if (c == 'd')
			run.lists_differences = true;
		else
			ok = false;
	}
	if (!ok)
		return false;
	if (run.lists || run.lists_differences)
		return optind == argc;
	run.place = optind + 1 == argc ? argv[optind] : NULL;
	return run.place && run.target;
}

int main(int argc, char **argv)
{
	if (!parse_options(argc, argv))
		return usage();
	if (!run.place) {
		visit_all();
		return 0;
	}
	if (geteuid() != 0) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	prepare_process();
	run.backend = run.target == LIBRARY ? &library_backend : &posix_backend;
	if (run.target == LIBRARY && !library_open(run.place, run.phase == READ_ONLY))
		return 1;
	visit_all();
	if (run.target == LIBRARY && !library_close())
		return 1;
	report();
	if (counts.passed + counts.failed == 0) {
		printf("no such row\n");
		return NO_SUCH_ROW;
	}
	return counts.failed ? 1 : 0;
}
