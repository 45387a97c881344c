/* script.h - the language of the rows.
 *
 *   script     statement { ";" statement }
 *   statement  [ "@" agent ["&"] ] [ who ":" ] command { word } [ "=>" want ]
 *   word       bytes without blanks, or 'quoted'. In both, braces stand for something else:
 *              {x*N}  x, N times      {#00ff} {#00ff*N}  these bytes      {i}  count of `repeat`
 *              {fdN}  /proc/self/fd/ of slot N
 *              {dir}  the row's directory, absolute       {other}  a directory elsewhere (EXDEV)
 *   want       EXXX    it fails with that errno        N       it gives that number
 *              >N      more than that                  'text'  it gives that text
 *              ok      it succeeds
 *   who        one letter: the user that performs it (subjects in user.c); nobody named: root
 *   agent      1 to 3: another process performs it, forked from this one at its first use in the
 *              row. With & nobody waits; `wait AGENT` then gives the result.
 *   numbers    decimal or 0x..., with K, M, G, T behind; max is 2^63-1; max-5, 1M+1
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "conformance.h"

#include <sys/types.h>

#define WORDS_MAX 40

struct word {
	char *bytes; /* a NUL follows */
	size_t len;
	bool is_quoted;
};

/* What a command gave. */
struct result {
	int64_t value;
	int error;     /* an errno value, SIGNALLED, or 0 */
	bool has_text; /* then text[0..len) is the answer */
	size_t len;
	char *text; /* owned: result_release */
};

#define SIGNALLED 10000 /* result.error: the access gave SIGBUS or SIGSEGV */

struct backend;

/* One statement being performed. */
struct call {
	const struct backend *backend;
	const struct command *command;
	size_t count;                 /* of words, without the command's name */
	struct word words[WORDS_MAX]; /* [0] is the first argument */
	int agent;                    /* 0: this process */
	bool waits_not;
	const char *who; /* NULL: root */
	const char *want;
	const char *bad; /* the row itself is wrong: why */
};

typedef void command_fn(struct call *call, struct result *ret);
/* Can the backend do this call, as far as its words tell? */
typedef bool command_fits_fn(struct call *call);

struct command {
	const char *name;
	size_t min, max; /* count of words */
	command_fn *run;
	command_fits_fn *fits; /* NULL: always */
};

struct backend {
	const struct command *commands; /* ends with a NULL name */
	bool has_processes;             /* users, agents, paths of the host */
	const char *(*row_dir)(void);   /* {dir} */
	const char *(*fd_path)(int slot);
};

/* The path behind {other}; NULL: there is none, and rows with it are left out. */
extern const char *script_other;

/// Scripts ///

/* Splits off the next statement: *script moves behind it. False at the end. */
bool script_next(const char **script, char *statement, size_t cap);

/* Takes a statement apart. The call's words are valid until the next parse. False: call->bad. */
bool script_parse(const struct backend *backend, const char *statement, struct call *ret);

/* Performs a parsed statement (agents and users included). */
void script_perform(const struct backend *backend, struct call *call, const char *statement,
		    struct result *ret);

/* Does a result fit what is wanted? want NULL: success is. */
bool script_is_wanted(const struct result *got, const char *want);

/* Can the backend perform all of the script? If not, *ret_why says what it lacks. */
bool script_fits(const struct backend *backend, const char *script, const char **ret_why);

/* As text for people: `ENOENT`, `3`, `'text'`. */
void script_show(const struct result *result, char *buf, size_t cap);

/* The row is over: agents end. */
void script_end_row(void);

/// Words ///

/* Word n as what it stands for; sets call->bad when it does not. */
const char *word_text(struct call *call, size_t n);
int64_t word_number(struct call *call, size_t n);
mode_t word_octal(struct call *call, size_t n);
/* A slot, 0..SLOTS-1. */
int word_slot(struct call *call, size_t n);
bool word_is(const struct call *call, size_t n, const char *text);
bool parse_number(const char *text, int64_t *ret);

/* A name of flags joined by '|', looked up in a table that ends with a NULL name. */
struct flag {
	const char *name;
	int64_t value;
};
int64_t word_flags(struct call *call, size_t n, const struct flag *flags);
bool find_flags(const char *text, const struct flag *flags, int64_t *ret);

/// Results ///

/* rc as system calls return it: -1 and errno, or a value. */
void result_call(struct result *ret, int64_t rc);
void result_error(struct result *ret, int error);
void result_text(struct result *ret, const void *text, size_t len);
void result_release(struct result *result);
/* A failed check: the text says how. */
__attribute__((format(printf, 2, 3))) void result_failed(struct result *ret, const char *format,
							 ...);
/* Names, sorted, joined by commas. */
void result_names(struct result *ret, char **names, size_t count);

#define SLOTS 16
#define STATEMENT_MAX 4096

/* errno values and their names. */
const char *error_name(int error);
int error_number(const char *name); /* 0: no such name */

#endif
