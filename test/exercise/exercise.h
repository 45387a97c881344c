/* exercise.h - what the exercisers share: chance, a volume with its mount, failing with a line that
 * runs it again.
 *
 * Environment of all:
 *   STETFS          the program (required)
 *   EXERCISE_SEED   (the time)
 *   EXERCISE_DIR    where the volume and its mount are made (/tmp)
 *   EXERCISE_KEEP   keep them after a failure, and say where they are
 *   EXERCISE_LIMIT  seconds until the run is given up as hanging (300)
 */
#ifndef STET_EXERCISE_H
#define STET_EXERCISE_H

#include "fuse/control.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EX_SKIP 77
#define EX_KIB 1024u
#define EX_NS_PER_S 1000000000

/// Chance ///

struct ex_chance {
	uint64_t state;
};

uint64_t ex_random(struct ex_chance *chance);
/* 0 .. bound - 1; bound 0 counts as 1. */
uint64_t ex_below(struct ex_chance *chance, uint64_t bound);
/* With this many chances in a hundred. */
bool ex_percent(struct ex_chance *chance, unsigned percent);

/* Bytes that depend on the seed and on their place in the file. */
void ex_fill(void *buf, uint64_t seed, uint64_t off, size_t len);

/// Time and parameters ///

int64_t ex_now_ns(void);
void ex_sleep_ms(unsigned ms);
uint64_t ex_env(const char *name, uint64_t otherwise);
/* EXERCISE_SEED, or the time. */
uint64_t ex_seed(void);

/// Failing ///

/* Called once by the first failure, to say more. */
extern void (*ex_on_failure)(void);
/* Says what and how to run it again, clears the mount away and exits with 1. In a child only its
 * process ends. */
_Noreturn void ex_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with the text of errno. */
_Noreturn void ex_fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// A volume and its mount ///

struct ex_mount {
	char folder[64];
	char image[80];
	char dir[80];
	char size[16];
	char options[64]; /* of the mount; "" none */
	pid_t daemon;     /* 0: not mounted */
};

/* The one of this program. */
extern struct ex_mount ex_mount;

/* Checks the environment (exits with SKIP), prints `again`, the command that repeats the run;
 * makes and mounts a volume and starts the watch over the time. */
void ex_start(const char *size, const char *options, const char *again, ...)
	__attribute__((format(printf, 3, 4)));
/* Unmounts, checks the volume and removes everything. */
void ex_finish(void);
/* Runs the program; its exit code. Words end with NULL. */
int ex_stetfs(const char *word, ...) __attribute__((sentinel));
void ex_do_mount(void);
void ex_umount(void);
void ex_check(void);
/* kill -9, and clears the dead mount away. */
void ex_kill(void);
/* The two halves of it. */
void ex_kill_only(void);
void ex_clear_dead(void);
/* A path below the mount, in one of a few buffers of the calling thread. */
const char *ex_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// Transactions ///

/* A connection to the daemon. */
struct stet_control *ex_connect(void);
void ex_begin(struct stet_control *ctl, unsigned flags, struct stet_control_begun *ret);
/* The result of the commit; what could not be asked is a failure. */
int ex_commit(struct stet_control *ctl, uint64_t id, struct stet_control_end *ret);
void ex_abort(struct stet_control *ctl, uint64_t id);
/* A counter of `stetfs stats`. */
uint64_t ex_counter(const char *name);

/// Children ///

/* Waits for all and fails if one did not exit with 0. */
void ex_wait_all(const pid_t *pid, size_t count, const char *what);

#endif
