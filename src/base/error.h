/* error.h - how every fallible function reports failure.
 *
 * A fallible function returns int: 0, or a negative errno value. -EUCLEAN means that bytes on disk
 * are wrong, -EIO that the device failed, STET_WAIT that the operation changed nothing and must be
 * restarted when its ticket fires. Values come back through ret_x parameters, on success only.
 * The place where an error is born notes itself with STET_FAIL; those who pass it on do not.
 */
#ifndef STET_BASE_ERROR_H
#define STET_BASE_ERROR_H

#include <errno.h>
#include <stddef.h>

/** Put before the prototype of a fallible function: its result must be used. */
#define STET_CHECKED __attribute__((warn_unused_result))

/** The operation changed nothing and must wait on its ticket (see base/ticket.h). */
#define STET_WAIT (-EINPROGRESS)

/** How many failures each thread remembers, and how long the text of one may be (with the NUL). */
#define STET_ERROR_RING_SIZE 8
#define STET_ERROR_TEXT_SIZE 256
#define STET_ERROR_PLACE_SIZE 64

/** One remembered failure. */
struct stet_error_entry {
	int err;                           /* the negative errno value */
	char text[STET_ERROR_TEXT_SIZE];   /* what, for people; cut when too long */
	char place[STET_ERROR_PLACE_SIZE]; /* "layer/file.c:line", for us */
};

/**
 * Notes a failure and is an expression of type int with the value err:
 * `return STET_FAIL(-EUCLEAN, "seg %u: summary crc", seg_no);`. err is evaluated once.
 */
#define STET_FAIL(err, ...)                                                         \
	__extension__({                                                             \
		int stet_fail_err_ = (err);                                         \
		stet_error_record(stet_fail_err_, __FILE__, __LINE__, __VA_ARGS__); \
		stet_fail_err_;                                                     \
	})

/** What STET_FAIL calls. Keeps errno as it is; never fails. */
void stet_error_record(int err, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/** Notes a failure that was born elsewhere, with its place. Keeps errno; never fails. */
void stet_error_note(int err, const char *place, const char *text);

/**
 * The text of this thread's latest failure, "" when none.
 * Borrowed: valid until this thread's next STET_FAIL or stet_error_clear.
 */
const char *stet_error_text(void);
/** Where it was noted: "layer/file.c:line", "" when none. Borrowed in the same way. */
const char *stet_error_place(void);

/**
 * The failure that happened `back` failures before the latest (0: the latest), or NULL when the
 * ring does not reach so far back. Borrowed as with stet_error_text.
 */
const struct stet_error_entry *stet_error_entry(size_t back);

/** Forgets all failures of this thread. */
void stet_error_clear(void);

/** Ignores a result on purpose; why is for the reader. */
static inline void stet_ignore(int rc, const char *why)
{
	(void)rc;
	(void)why;
}

#endif
