/* run_internal.h - starting the command of `stetfs run`, and watching over it. */
#ifndef STET_CLI_RUN_INTERNAL_H
#define STET_CLI_RUN_INTERNAL_H

#include "cli/cli_internal.h"

#include <signal.h>
#include <sys/types.h>

/** What to run, and where. */
struct stet_cli_job {
	/* --- set by the caller; borrowed --- */
	char **argv;       /* NULL terminated */
	const char *root;  /* the tree that the command shall see */
	const char *mount; /* in place of this directory */
	const char *cwd;   /* where it starts */
	sigset_t mask;     /* its signal mask */
	int control_fd;    /* readable or hung up: the daemon has gone */
	/* --- own --- */
	pid_t pid; /* of the command, and of its process group */
	pid_t guard;
	int guard_fd;
	int signals; /* descriptor for signals */
	int tty;     /* the terminal whose foreground we had; -1: none */
};

/** How it ended. */
struct stet_cli_job_end {
	int code;         /* as a shell tells it; 125, 126, 127: it never ran */
	int signal;       /* that we were told to end by; 0: none */
	bool daemon_gone; /* before the command ended */
};

/**
 * Starts the command in a process group and a mount namespace of its own. The signals HUP, INT,
 * TERM and CHLD must be blocked. False: it could not be started; an error line was printed.
 */
bool stet_cli_job_start_(struct stet_cli_job *job, int *ret_code);
/** Waits for the end of the command; signals go to its group. */
void stet_cli_job_wait_(struct stet_cli_job *job, struct stet_cli_job_end *ret);

#endif
