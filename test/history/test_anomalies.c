/* test_anomalies.c - the anomalies by name: which level allows which, as doc/transactions.md says in section 2.
 *
 *	test_anomalies NAME	that one, on files, names and records, at each level
 *
 * An anomaly that is forbidden must not happen in any of its scripts; one that is allowed must happen.
 * After it the volume is closed and checked.
 */
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SNAPSHOT_ALLOWS 1u
#define SERIALIZABLE_ALLOWS 2u
#define LOCKING_ALLOWS 4u
#define SCRIPTS_MAX 4u

#define FILES (1u << SCRIPT_FILES)
#define NAMES (1u << SCRIPT_NAMES)
#define RECORDS (1u << SCRIPT_RECORDS)
#define ALL (FILES | NAMES | RECORDS)

typedef bool happened_fn(const struct script *s);

/* --- whether it happened --- */

static bool committed(const struct script *s, unsigned t)
{
	return s->end[t] == SCRIPT_COMMITTED;
}

static bool both(const struct script *s)
{
	return committed(s, 1) && committed(s, 2);
}

static bool saw(const struct script *s, unsigned step, uint64_t value)
{
	return s->steps[step].done && s->steps[step].value == value;
}

static bool before(const struct script *s, unsigned a, unsigned b)
{
	return s->steps[a].done && (!s->steps[b].done || s->steps[a].at < s->steps[b].at);
}

static bool mixed(const struct script *s)
{
	return both(s) && s->x != s->y;
}

static bool saw_uncommitted(const struct script *s)
{
	return saw(s, 1, 1) && before(s, 1, 2);
}

static bool saw_one(const struct script *s)
{
	return saw(s, 1, 1);
}

static bool saw_each_other(const struct script *s)
{
	return both(s) && saw(s, 2, 2) && saw(s, 3, 1);
}

static bool saw_of(const struct script *s, unsigned txn, char x, uint64_t value)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->steps[i].txn == txn && s->steps[i].words[1][0] == x && saw(s, i, value))
			return true;
	return false;
}

/* 3 has seen 1 without 2, and 4 has seen 2 without 1. */
static bool forked(const struct script *s)
{
	return saw_of(s, 3, 'x', 1) && saw_of(s, 3, 'y', SCRIPT_INITIAL) && saw_of(s, 4, 'y', 2) &&
	       saw_of(s, 4, 'x', SCRIPT_INITIAL);
}

static bool overwrote_unseen(const struct script *s)
{
	return both(s) && saw(s, 0, SCRIPT_INITIAL) && saw(s, 1, SCRIPT_INITIAL);
}

static bool reads_differ(const struct script *s)
{
	return s->steps[0].done && s->steps[3].done && s->steps[0].value != s->steps[3].value;
}

static bool saw_half(const struct script *s)
{
	return saw(s, 0, SCRIPT_INITIAL) && saw(s, 4, 2);
}

static bool skewed(const struct script *s)
{
	return both(s) && saw(s, 0, SCRIPT_INITIAL) && saw(s, 1, SCRIPT_INITIAL) &&
	       saw(s, 2, SCRIPT_INITIAL) && saw(s, 3, SCRIPT_INITIAL);
}

static bool lists_skewed(const struct script *s)
{
	return both(s) && saw(s, 0, 0) && saw(s, 1, 0);
}

/* 2 has seen nothing of 1, and 3 all of 1 and nothing of 2: there is no order of the three. */
static bool no_order(const struct script *s)
{
	return both(s) && committed(s, 3) && saw(s, 1, SCRIPT_INITIAL) &&
	       saw(s, 6, SCRIPT_INITIAL) && saw(s, 7, 1);
}

static bool saw_stale(const struct script *s)
{
	return committed(s, 1) && s->steps[3].done && s->steps[3].value != 1;
}

static unsigned commit_of(const struct script *s, unsigned t)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->steps[i].txn == t && strcmp(s->steps[i].words[0], "commit") == 0)
			return s->steps[i].at;
	return 0;
}

/* What the first removed was there for the second all the same. */
static bool after_removal(const struct script *s)
{
	return both(s) && commit_of(s, 1) < commit_of(s, 2);
}

/* --- the table --- */

static const struct anomaly {
	const char *name;
	unsigned kinds; /* 0: the scripts are about trees, with the set-up */
	const char *set_up;
	happened_fn *happened;
	unsigned allowed;
	const char *scripts[SCRIPTS_MAX];
} anomalies[] = {
	{ "dirty_write",
	  ALL,
	  NULL,
	  mixed,
	  0,
	  { "1 write x 1; 2 write x 2; 2 write y 2; 2 commit; 1 write y 1; 1 commit",
	    "1 write x 1; 2 write y 2; 2 write x 2; 1 write y 1; 1 commit; 2 commit" } },
	{ "dirty_read",
	  ALL,
	  NULL,
	  saw_uncommitted,
	  0,
	  { "1 write x 1; 2 read x; 1 commit; 2 commit",
	    "1 write x 1; 2 scan x; 1 commit; 2 commit" } },
	{ "aborted_read",
	  ALL,
	  NULL,
	  saw_one,
	  0,
	  { "1 write x 1; 2 read x; 1 abort; 2 commit",
	    "1 write x 1; 2 scan x; 1 abort; 2 commit" } },
	{ "intermediate_read",
	  ALL,
	  NULL,
	  saw_one,
	  0,
	  { "1 write x 1; 2 read x; 1 write x 3; 1 commit; 2 commit",
	    "1 write x 1; 2 scan x; 1 write x 3; 1 commit; 2 commit" } },
	{ "circular_information_flow",
	  ALL,
	  NULL,
	  saw_each_other,
	  0,
	  { "1 write x 1; 2 write y 2; 1 read y; 2 read x; 1 commit; 2 commit",
	    "1 write x 1; 2 write y 2; 1 scan y; 2 scan x; 2 commit; 1 commit" } },
	{ "long_fork",
	  ALL,
	  NULL,
	  forked,
	  0,
	  { "1 write x 1; 2 write y 2; 4 begin; 1 commit; 3 begin; 3 read x; 3 read y; 4 read x; 2 "
	    "commit; "
	    "4 read y; 3 commit; 4 commit",
	    "1 write x 1; 2 write y 2; 3r begin; 4r begin; 3r read y; 4r read x; 1 commit; 2 "
	    "commit; "
	    "3r read x; 4r read y; 3r commit; 4r commit" } },
	{ "lost_update",
	  ALL,
	  NULL,
	  overwrote_unseen,
	  0,
	  { "1 read x; 2 read x; 1 write x 1; 1 commit; 2 write x 2; 2 commit",
	    "1 read x; 2 read x; 1 write x 1; 2 write x 2; 1 commit; 2 commit",
	    "1 read x; 2 read x; 2 write x 2; 1 write x 1; 1 commit; 2 commit" } },
	{ "lost_update_by_cursor",
	  ALL,
	  NULL,
	  overwrote_unseen,
	  0,
	  { "1 scan x; 2 scan x; 1 write x 1; 1 commit; 2 write x 2; 2 commit",
	    "1 scan x; 2 read x; 2 write x 2; 2 commit; 1 write x 1; 1 commit" } },
	{ "non_repeatable_read",
	  ALL,
	  NULL,
	  reads_differ,
	  0,
	  { "1 read x; 2 write x 2; 2 commit; 1 read x; 1 commit",
	    "1 scan x; 2 write x 2; 2 commit; 1 read x; 1 commit" } },
	{ "phantom",
	  ALL,
	  NULL,
	  reads_differ,
	  0,
	  { "1 list; 2 insert; 2 commit; 1 list; 1 commit" } },
	{ "read_skew",
	  ALL,
	  NULL,
	  saw_half,
	  0,
	  { "1 read x; 2 write x 2; 2 write y 2; 2 commit; 1 read y; 1 commit",
	    "1 scan x; 2 write x 2; 2 write y 2; 2 commit; 1 scan y; 1 commit" } },
	{ "write_skew",
	  ALL,
	  NULL,
	  skewed,
	  SNAPSHOT_ALLOWS,
	  { "1 read x; 1 read y; 2 read x; 2 read y; 1 write x 1; 2 write y 2; 1 commit; 2 commit",
	    "1 read x; 1 read y; 2 scan x; 2 scan y; 1 write x 1; 1 commit; 2 write y 2; 2 "
	    "commit" } },
	{ "write_skew_by_phantom",
	  ALL,
	  NULL,
	  lists_skewed,
	  SNAPSHOT_ALLOWS,
	  { "1 list; 2 list; 1 insert; 2 insert; 1 commit; 2 commit",
	    "1 list; 2 list; 1 insert; 1 commit; 2 insert; 2 commit" } },
	{ "read_only_anomaly",
	  ALL,
	  NULL,
	  no_order,
	  SNAPSHOT_ALLOWS,
	  { "2 read x; 2 read y; 1 read y; 1 write y 1; 1 commit; 3r begin; 3r read x; 3r read y; "
	    "3r commit; 2 write x 2; 2 commit" } },
	{ "stale_read",
	  ALL,
	  NULL,
	  saw_stale,
	  0,
	  { "1 write x 1; 1 commit; 2 begin; 2 read x; 2 commit",
	    "1 write x 1; 1 commit; 2r begin; 2r scan x; 2r commit" } },
	/* of trees: what makes sense by itself, but not together */
	{ "two_parents",
	  0,
	  "mkdir d; mkdir a; mkdir b",
	  both,
	  0,
	  { "1 rename d a/d; 2 rename d b/d; 1 commit; 2 commit",
	    "1 rename d a/d; 1 commit; 2 rename d b/d; 2 commit" } },
	{ "cycle_of_directories",
	  0,
	  "mkdir a; mkdir b; mkdir a/c; mkdir b/d",
	  both,
	  0,
	  { "1 rename a b/e; 2 rename b a/e; 1 commit; 2 commit",
	    "1 rename a b/d/e; 2 rename b a/c/e; 2 commit; 1 commit",
	    "1 rename a b/d/e; 1 commit; 2 rename b a/c/e; 2 commit" } },
	{ "name_in_removed_directory",
	  0,
	  "mkdir d; create f",
	  both,
	  0,
	  { "1 rmdir d; 2 create d/f; 1 commit; 2 commit",
	    "1 rmdir d; 2 mkdir d/e; 2 commit; 1 commit",
	    "1 rmdir d; 2 rename f d/f; 1 commit; 2 commit",
	    "1 rmdir d; 1 commit; 2 link f d/f; 2 commit" } },
	{ "rmdir_against_create",
	  0,
	  "mkdir d",
	  both,
	  0,
	  { "2 create d/f; 1 rmdir d; 2 commit; 1 commit",
	    "2 create d/f; 1 rmdir d; 1 commit; 2 commit",
	    "2 mkdir d/e; 2 commit; 1 rmdir d; 1 commit" } },
	{ "link_to_removed_file",
	  0,
	  "create f",
	  after_removal,
	  0,
	  { "1 unlink f; 1 commit; 2 link f g; 2 commit",
	    "2 stat f; 1 unlink f; 1 commit; 2 link f g; 2 commit" } },
	{ "change_to_removed_file",
	  0,
	  "create f",
	  after_removal,
	  0,
	  { "1 unlink f; 1 commit; 2 put f; 2 commit",
	    "2 stat f; 1 unlink f; 1 commit; 2 put f; 2 commit" } },
	{ "one_name_twice",
	  0,
	  "mkdir d",
	  both,
	  0,
	  { "1 create d/f; 2 create d/f; 1 commit; 2 commit",
	    "1 create d/f; 2 mkdir d/f; 2 commit; 1 commit",
	    "1 mkdir d/f; 1 commit; 2 create d/f; 2 commit" } },
	{ "removed_twice",
	  0,
	  "mkdir d; create f",
	  both,
	  0,
	  { "1 unlink f; 2 unlink f; 1 commit; 2 commit",
	    "1 rmdir d; 2 rmdir d; 2 commit; 1 commit",
	    "1 rename f g; 2 unlink f; 1 commit; 2 commit" } },
};

/* --- running --- */

static const struct {
	unsigned flag, bit;
	const char *name;
} levels[] = {
	{ STET_BEGIN_SNAPSHOT, SNAPSHOT_ALLOWS, "SNAPSHOT" },
	{ STET_BEGIN_SERIALIZABLE, SERIALIZABLE_ALLOWS, "SERIALIZABLE" },
	{ STET_BEGIN_LOCKING, LOCKING_ALLOWS, "LOCKING" },
};
static const char *const kind_names[] = { "files", "names", "records" };

static const char *end_name(enum script_end end)
{
	static const char *const names[] = { "-", "open", "committed", "refused", "aborted" };

	return names[end];
}

static void print_script(const struct script *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct script_step *step = &s->steps[i];

		printf("    T%u %s %s %s: ", step->txn, step->words[0], step->words[1],
		       step->words[2]);
		if (step->done)
			printf("done as number %u, saw %llu\n", step->at,
			       (unsigned long long)step->value);
		else
			printf("not done\n");
	}
	for (unsigned t = 1; t <= SCRIPT_TXNS; t++)
		printf("    T%u %s\n", t, end_name(s->end[t]));
	printf("    afterwards x %llu, y %llu\n", (unsigned long long)s->x,
	       (unsigned long long)s->y);
}

/* All scripts of an anomaly, on one kind, at one level. */
static bool run_one(struct stet_volume *vol, const struct anomaly *a, enum script_kind kind,
		    unsigned level)
{
	bool allowed = a->allowed & levels[level].bit, ok = true;

	for (unsigned k = 0; k < SCRIPTS_MAX && a->scripts[k]; k++) {
		struct script s;
		bool happened;

		if (script_run(vol, a->set_up, a->scripts[k], kind, levels[level].flag, &s)) {
			printf("%s: script %u cannot be run: %s\n", a->name, k + 1,
			       stet_error_text());
			return false;
		}
		happened = a->happened(&s);
		printf("%s, %s, %s, script %u: %s\n", a->name,
		       a->kinds ? kind_names[kind] : "trees", levels[level].name, k + 1,
		       happened ? "happens" : "does not happen");
		if (happened == allowed)
			continue;
		printf("  it must%s:\n", allowed ? "" : " not");
		print_script(&s);
		ok = false;
	}
	return ok;
}

static bool run_anomaly(struct stet_volume *vol, const struct anomaly *a)
{
	unsigned kinds = a->kinds ? a->kinds : FILES;
	bool ok = true;

	for (unsigned kind = 0; kind < SCRIPT_KINDS; kind++)
		for (unsigned level = 0; level < 3; level++)
			if ((kinds >> kind & 1) && script_has((enum script_kind)kind))
				ok = run_one(vol, a, (enum script_kind)kind, level) && ok;
	return ok;
}

static int print_problem(void *arg, const struct stet_problem *problem)
{
	(void)arg;
	printf("check: %s: %s\n", problem->id, problem->text);
	return 0;
}

static bool run_named(struct stet_volume *vol, const char *name, unsigned *ret_run)
{
	bool ok = true;

	for (size_t k = 0; k < sizeof(anomalies) / sizeof(anomalies[0]); k++) {
		if (name && strcmp(name, anomalies[k].name) != 0)
			continue;
		ok = run_anomaly(vol, &anomalies[k]) && ok;
		++*ret_run;
	}
	return ok;
}

int main(int argc, char **argv)
{
	const struct stet_mkfs_options options = { .size_bytes = UINT64_C(32) << 20,
						   .force = true };
	struct stet_volume *vol;
	unsigned run = 0;
	char path[64];
	bool ok;

	snprintf(path, sizeof(path), "anomalies.%d", (int)getpid());
	if (stet_mkfs(path, &options) || stet_open(path, NULL, &vol)) {
		fprintf(stderr, "%s: %s\n", path, stet_error_text());
		return 1;
	}
	ok = run_named(vol, argc > 1 ? argv[1] : NULL, &run);
	if (stet_close(vol) || stet_check(path, 0, print_problem, NULL) != 0) {
		printf("the volume is damaged: %s\n", stet_error_text());
		ok = false;
	}
	unlink(path);
	return ok && run > 0 ? 0 : 1;
}
