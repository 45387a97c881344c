/* changes_internal.h - what a transaction changed, and how it ended, for people and programs. */
#ifndef STET_CLI_CHANGES_INTERNAL_H
#define STET_CLI_CHANGES_INTERNAL_H

#include "cli/cli_internal.h"

#include <signal.h>
#include <stdio.h>

struct stet_control;
struct stet_control_end;

/** The error line of a commit that was refused. Returns STET_CLI_FAILED. */
int stet_cli_fail_commit_(const char *what, const struct stet_control_end *end);

/// The changes (changes.c) ///

/** All changes of a transaction, in the order of paths; all zero: none. */
struct stet_cli_changes {
	struct stet_change *change; /* paths are owned */
	size_t count, cap;
	uint64_t id;
};

/** 0, or as stet_control_changes. Released by the other in any case. */
int stet_cli_changes_load_(struct stet_control *ctl, uint64_t id, struct stet_cli_changes *ret);
void stet_cli_changes_release_(struct stet_cli_changes *changes);
/** All of it as JSON. */
void stet_cli_changes_json_(const struct stet_cli_changes *changes);

/// In words (summary.c) ///

/**
 * Prints what was deleted and what changed its type, then the rest, a line each, and totals.
 * brief: what was deleted or added below a directory that was, is told in one line with it; of what
 * was renamed, added or changed some lines are left out where there are many; then `more` is said,
 * how to see all.
 */
void stet_cli_summary_(const struct stet_cli_changes *changes, FILE *out, bool brief,
		       const char *more);

/// As a patch (patch.c) ///

/** The trees of a transaction: how it began, and how it is. */
struct stet_cli_trees {
	int base_fd, root_fd;
};

/** Opens those of a transaction of the mount at dir. Returns an exit code. */
int stet_cli_trees_open_(const char *dir, uint64_t id, struct stet_cli_trees *ret);
void stet_cli_trees_close_(struct stet_cli_trees *trees);
/**
 * Prints the changes of files in the form of git(1), which patch(1) understands too. visible:
 * control characters in them are made so. Returns an exit code.
 */
int stet_cli_patch_(const struct stet_cli_changes *changes, const struct stet_cli_trees *trees,
		    FILE *out, bool visible);

/// The pager (pager.c) ///

struct stet_cli_pager {
	FILE *out; /* to be written to; closed by stet_cli_pager_close_ */
	pid_t pid; /* 0: there is none, and out is the terminal itself */
	void (*old_pipe)(int), (*old_int)(int);
};

/**
 * Starts the user's pager in front of a terminal, if he has one. mask: its signal mask; NULL: ours.
 * Signals of the keyboard are the pager's until it is closed.
 */
void stet_cli_pager_open_(int tty, const sigset_t *mask, struct stet_cli_pager *ret);
/** Waits until it has ended. */
void stet_cli_pager_close_(struct stet_cli_pager *pager);

#endif
