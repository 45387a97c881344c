/* changes_internal.h - what a transaction changed, and how it ended, for people and programs. */
#ifndef STET_CLI_CHANGES_INTERNAL_H
#define STET_CLI_CHANGES_INTERNAL_H

#include "cli/cli_internal.h"

struct stet_control_end;

/** A stet_changes_fn; arg: struct stet_cli_json, with an array open when it is on. */
int stet_cli_print_change_(void *arg, const struct stet_change *change);

/** The error line of a commit that was refused. Returns STET_CLI_FAILED. */
int stet_cli_fail_commit_(const char *what, const struct stet_control_end *end);

#endif
