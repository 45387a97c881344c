/* run_internal.h - starting the command of `stetfs run`, and watching over it. */
#ifndef STET_CLI_RUN_INTERNAL_H
#define STET_CLI_RUN_INTERNAL_H

#include "cli/cli_internal.h"

#include <signal.h>
#include <sys/types.h>

/** The exit codes that are ours, not the command's. */
enum {
	STET_CLI_RUN_DECLINED = 122,      /* --confirm: the answer was no */
	STET_CLI_RUN_NOT_COMMITTED = 123, /* though the command succeeded, or the daemon died */
	STET_CLI_RUN_TIMED_OUT = 124,
	STET_CLI_RUN_NOT_BEGUN = 125,
	STET_CLI_RUN_NOT_EXECUTABLE = 126,
	STET_CLI_RUN_NOT_FOUND = 127,
	STET_CLI_RUN_BY_SIGNAL = 128, /* + its number */
};

#define STET_CLI_NEVER INT64_MAX

/** CLOCK_MONOTONIC. */
int64_t stet_cli_monotonic_ns_(void);

/// Where the command works (enter.c) ///

/** A tree, and the mount in whose place it is to be seen. */
struct stet_cli_view {
	const char *root;  /* the tree; NULL: we see it there already (a run within a run) */
	const char *mount; /* where the mount is */
	uint64_t id;       /* of the transaction: in the command's environment */
	uint64_t dev;      /* st_dev of the mount, by which both are known */
	const char *cwd;   /* where the command starts; if it cannot, at `mount` */
	bool read_only;    /* changes are refused by the kernel, too */
};

enum stet_cli_enter_step {
	STET_CLI_IN_NAMESPACE,
	STET_CLI_IN_USER_NAMESPACE,
	STET_CLI_IN_VIEW,
	STET_CLI_IN_CHDIR,
	STET_CLI_IN_EXEC,
};

/** What went wrong; plain, so that it can be sent through a pipe. */
struct stet_cli_enter_failure {
	enum stet_cli_enter_step step;
	int cause; /* errno */
};

/** In a process of one thread that nobody else needs: from now on it sees the tree. False: see
 * *failure. */
bool stet_cli_enter_view_(const struct stet_cli_view *view, struct stet_cli_enter_failure *failure);
/** The error line. Returns the exit code. */
int stet_cli_tell_enter_failure_(const struct stet_cli_view *view, const char *command,
				 const struct stet_cli_enter_failure *failure);

/// Signals and the terminal (signals.c) ///

/** Those that concern a run: blocked, and read from a descriptor. */
struct stet_cli_signals {
	int fd;
	int tty;      /* our controlling terminal; -1: none */
	sigset_t old; /* mask before */
};

/** 0 or a negative errno value. The dispositions of signals that the caller has us ignore (nohup)
 * are respected. */
int stet_cli_signals_open_(struct stet_cli_signals *s);
void stet_cli_signals_close_(struct stet_cli_signals *s);
/** The next one that has come; 0: none. */
int stet_cli_signals_next_(const struct stet_cli_signals *s);
/** Drops what has come: it was meant for another program, to which we had left the terminal. */
void stet_cli_signals_drop_(int number);
/** Stops us, as the keyboard does, until somebody continues us. False: there is nobody who could, so
 * we were not stopped. */
bool stet_cli_signals_stop_(void);
/** Is it one that asks us to end? */
bool stet_cli_signal_ends_(int number);
bool stet_cli_has_terminal_(const struct stet_cli_signals *s);
void stet_cli_give_terminal_(const struct stet_cli_signals *s, pid_t group);

/// The command (job.c, watch.c) ///

struct stet_cli_job {
	/* --- set by the caller; borrowed --- */
	char **argv; /* NULL terminated */
	struct stet_cli_view view;
	const struct stet_cli_signals *signals;
	int control_fd;      /* readable or hung up: the daemon has gone */
	int64_t deadline_ns; /* monotonic; STET_CLI_NEVER */
	/* --- own --- */
	pid_t pid; /* of the command, and of its process group */
	pid_t guard;
	int guard_fd;
	bool has_terminal; /* the command was given it */
};

/** How it ended. */
struct stet_cli_job_end {
	int code;   /* as a shell tells it */
	int signal; /* that we were told to end by; 0: none */
	bool timed_out;
	bool daemon_gone; /* before the command ended */
};

/** Starts the command in a process group of its own. False: it could not be started; an error line
 * was printed. */
bool stet_cli_job_start_(struct stet_cli_job *job, int *ret_code);
/** Waits for the end of the command and, if it succeeded, of its group. */
void stet_cli_job_wait_(struct stet_cli_job *job, struct stet_cli_job_end *ret);
/** Ends the guard. */
void stet_cli_job_release_(struct stet_cli_job *job);

/// Asking (review.c) ///

struct stet_control;
struct stet_cli_changes;

struct stet_cli_review {
	/* --- set by the caller; borrowed --- */
	const char *dir; /* of the mount */
	struct stet_control *ctl;
	const struct stet_cli_changes *changes; /* of a transaction that is frozen */
	const struct stet_cli_signals *signals; /* with a terminal */
	int64_t deadline_ns;
	/* --- the answer --- */
	bool yes;
	int signal; /* that we were told to end by; 0: none */
	bool timed_out, daemon_gone;
};

/** Shows the changes on the terminal. 0 or a negative errno value. */
int stet_cli_review_show_(const struct stet_cli_review *r);
/** Asks there whether to commit them. */
void stet_cli_review_ask_(struct stet_cli_review *r);

#endif
