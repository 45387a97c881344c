/* cli_internal.h - what the files of this folder share.
 *
 * How results travel: a function that returns "an exit code" has printed its error line itself; 0
 * (STET_CLI_OK) means go on. A function that returns 0 or a negative errno value has printed
 * nothing.
 *
 * Memory: the allocating functions end the program when there is none. That is safe at any moment:
 * a transaction that was not committed is gone, a volume that was not closed needs no check.
 */
#ifndef STET_CLI_CLI_INTERNAL_H
#define STET_CLI_CLI_INTERNAL_H

#include "stetfs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum {
	STET_CLI_OK = 0,
	STET_CLI_FAILED = 1,
	STET_CLI_USAGE = 2,
};

/** How deep directories may lie within each other for commands that go down. */
#define STET_CLI_DEPTH_MAX 4096

/// Text (text.c) ///

void *stet_cli_alloc_(size_t size);
void *stet_cli_realloc_(void *old, size_t size);
char *stet_cli_strdup_(const char *s);

/** A string that grows; all zero: empty. s is NUL terminated once something was added. */
struct stet_cli_text {
	char *s;
	size_t len, cap;
};

void stet_cli_text_add_(struct stet_cli_text *text, const char *bytes, size_t len);
void stet_cli_text_adds_(struct stet_cli_text *text, const char *s);
void stet_cli_text_addf_(struct stet_cli_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** Adds a component to a path, with a slash between. */
void stet_cli_text_join_(struct stet_cli_text *text, const char *name);
void stet_cli_text_cut_(struct stet_cli_text *text, size_t len);
void stet_cli_text_release_(struct stet_cli_text *text);

/** The length of the UTF-8 character at s, 0 when there is none; *ret_char: it. */
size_t stet_cli_utf8_(const char *s, size_t len, uint32_t *ret_char);
/** Adds s as a terminal may show it: control characters and what is not text as \ooo. */
void stet_cli_escape_(struct stet_cli_text *text, const char *s, bool also_backslash);

/** The last component of a path, slashes at the end left out; *ret_len 0: the path is "/" or "". */
const char *stet_cli_basename_(const char *path, size_t *ret_len);

/** The names of a directory; all zero: empty. */
struct stet_cli_names {
	char **name; /* each owned */
	size_t count, cap;
};

void stet_cli_names_add_(struct stet_cli_names *names, const char *name);
void stet_cli_names_release_(struct stet_cli_names *names);

/// Messages (message.c) ///

/** "stetfs: WHAT: WHY", in one line whatever they contain. */
void stet_cli_error_(const char *what, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** The same with the text of rc, a negative errno value. Returns STET_CLI_FAILED. */
int stet_cli_fail_(const char *what, int rc);
/** As fail, after a call into the library failed: says more where that helps. */
int stet_cli_fail_volume_(const char *what, int rc);
/** What the library says about its latest error, without the name of what it was about; "" if that says
 * nothing. */
const char *stet_cli_origin_(const char *what);
/** The library's latest error was overcome: it explains none that follows. */
void stet_cli_forget_origin_(void);
/** A progress line on the terminal, NULL: none any more. Does nothing without a terminal. */
void stet_cli_status_(const char *line);
/** Names on standard output: escaped on a terminal, else as they are. */
void stet_cli_print_name_(const char *name);
/** STET_CLI_FAILED, with an error line, when standard output could not take it all; else code. */
int stet_cli_flush_(int code);

/** What long work tells: "VERB 12, 3.4 MiB", or one of the two numbers. */
struct stet_cli_progress {
	const char *verb;
	uint64_t files, bytes;
	int64_t next_ns;
};

/** Shows it, now and then. */
void stet_cli_progress_(struct stet_cli_progress *progress);

/// Numbers and times (units.c) ///

/** A size with an optional suffix K, M, G or T. */
bool stet_cli_parse_size_(const char *word, uint64_t *ret);
bool stet_cli_parse_number_(const char *word, uint64_t *ret);
/** A size for people: "1.5 MiB". */
#define STET_CLI_SIZE_MAX 24
void stet_cli_format_size_(uint64_t bytes, char buf[STET_CLI_SIZE_MAX]);
/** The same as short as ls -h: "1.5M". */
void stet_cli_format_short_size_(uint64_t bytes, char buf[STET_CLI_SIZE_MAX]);
/** A time as the library has it, which ends in the years 1677 and 2262: beyond, the nearest one. */
int64_t stet_cli_ns_(const struct timespec *ts);
#define STET_CLI_TIME_MAX 64
/** ISO 8601 in UTC with all its digits, for programs. */
void stet_cli_format_utc_(int64_t time_ns, char buf[STET_CLI_TIME_MAX]);
/** Local time; exact: with all its digits and the zone. */
void stet_cli_format_local_(int64_t time_ns, bool exact, char buf[STET_CLI_TIME_MAX]);

/// Modes (mode.c) ///

/**
 * What chmod(1) with this word would make of mode (with its type); mask: the umask, which counts
 * where nobody is named. False: the word is none, *ret is unchanged.
 */
bool stet_cli_change_mode_(const char *word, uint32_t mode, uint32_t mask, uint32_t *ret);

/// Command lines (options.c) ///

enum stet_cli_kind {
	STET_CLI_FLAG,        /* bool: set */
	STET_CLI_STRING,      /* const char *: borrowed from argv */
	STET_CLI_LIST,        /* struct stet_cli_text: all that were given, commas between */
	STET_CLI_SIZE,        /* uint64_t, with suffixes */
	STET_CLI_NUMBER,      /* uint64_t */
	STET_CLI_IGNORED,     /* accepted for the sake of other tools; no value */
	STET_CLI_IGNORED_ARG, /* the same, with one */
};

/** One option. Lists of them end with all zero. */
struct stet_cli_option {
	char letter;      /* 0: none */
	const char *name; /* without the dashes; NULL: none */
	enum stet_cli_kind kind;
	void *value;      /* of the kind; untouched when the option is not given */
	const char *meta; /* what its argument is called in the help */
	const char *help; /* NULL: not shown */
};

/** What is left of the command line. */
struct stet_cli_words {
	char **word;
	int count;
};

#define STET_CLI_NO_LIMIT (-1)

struct stet_cli_command {
	const char *name;
	const char *program;  /* the name it was called by, as mount.stetfs; NULL: "stetfs NAME" */
	const char *synopsis; /* what follows the name */
	const char *summary;  /* one line */
	const char *details;  /* more of them, or NULL */
	int min_words, max_words;
	int usage_code;    /* 0: STET_CLI_USAGE */
	bool single_dash;  /* -name is an option too */
	bool mode_words;   /* -rw is a word, not options */
	bool volume_words; /* VOLUME alone is VOLUME:/ */
	int last_word;     /* options end after so many words; 0: they may stand anywhere */
	int (*run)(const struct stet_cli_command *cmd, struct stet_cli_words *words);
};

/**
 * Reads the options out of words and leaves the operands there. True: go on. False: *ret_code is
 * the exit code; help was printed, or what is wrong.
 */
bool stet_cli_parse_(const struct stet_cli_command *cmd, const struct stet_cli_option *options,
		     struct stet_cli_words *words, int *ret_code);
/** An error of usage in words of its own. Returns the exit code. */
int stet_cli_misuse_(const struct stet_cli_command *cmd, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/// JSON (json.c) ///

/** A value being written to standard output. */
struct stet_cli_json {
	bool on;    /* false: all calls do nothing */
	bool begun; /* the innermost value has members already */
	unsigned depth;
};

/** key NULL: in an array, or at the top. bracket: '{' or '['. */
void stet_cli_json_open_(struct stet_cli_json *json, const char *key, char bracket);
/** bracket: '}' or ']', whichever fits. */
void stet_cli_json_close_(struct stet_cli_json *json, char bracket);
/** Bytes that are not UTF-8 are replaced, and then a member KEY_hex has them all. */
void stet_cli_json_string_(struct stet_cli_json *json, const char *key, const char *s);
void stet_cli_json_number_(struct stet_cli_json *json, const char *key, uint64_t value);
void stet_cli_json_bool_(struct stet_cli_json *json, const char *key, bool value);
void stet_cli_json_time_(struct stet_cli_json *json, const char *key, int64_t time_ns);

/// Volumes (volume.c) ///

/** An operand VOLUME:/path, cut at its first ":/". */
struct stet_cli_target {
	char *volume;     /* owned */
	const char *path; /* with its slash; borrowed from word */
	const char *word; /* as given; borrowed */
};

bool stet_cli_target_parse_(const char *word, struct stet_cli_target *ret);
/** The error of usage for a word that is none. Returns the exit code. */
int stet_cli_misuse_target_(const struct stet_cli_command *cmd, const char *word);
void stet_cli_target_release_(struct stet_cli_target *target);

struct stet_cli_mounted;

/** An open volume, and the transaction that a command's changes are made in. */
struct stet_cli_volume {
	char *path; /* owned */
	struct stet_volume *vol;
	struct stet_txn *txn;             /* NULL: none */
	struct stet_cli_mounted *mounted; /* a daemon has it; then vol and txn are NULL */
	dev_t dev;                        /* of the image file */
	ino_t ino;
};

/** Opens for reading, or for writing, by the library. Returns an exit code. */
int stet_cli_open_(const char *path, bool write, struct stet_cli_volume *ret);
/** The same; if a daemon has it, through that, by the library still. */
int stet_cli_open_shared_(const char *path, bool write, struct stet_cli_volume *ret);
/** Opens for reading; through its mount, if a daemon has it. Returns an exit code. */
int stet_cli_open_read_(const char *path, struct stet_cli_volume *ret);
/** The error line of a volume that cannot be used. Returns STET_CLI_FAILED. */
int stet_cli_fail_open_(const char *path, int rc);
/** Opens for writing and begins the one transaction of the command; through its mount, if a daemon
 * has it. Returns an exit code. */
int stet_cli_open_change_(const char *path, struct stet_cli_volume *ret);
/**
 * With code 0 commits, else aborts; closes the volume. Returns code, or STET_CLI_FAILED when what
 * should be there is not.
 */
int stet_cli_close_(struct stet_cli_volume *v, int code);
/** Do both paths lead to the same file? */
bool stet_cli_same_volume_(const char *a, const char *b);

/** Called for each operand of a command that only reads. Returns an exit code. */
typedef int stet_cli_read_fn(void *arg, struct stet_cli_volume *v,
			     const struct stet_cli_target *target);
/** Calls fn for each operand; goes on when one fails. Returns the exit code. */
int stet_cli_read_each_(const struct stet_cli_command *cmd, const struct stet_cli_words *words,
			stet_cli_read_fn *fn, void *arg);

/** Called with all operands of a command that changes a volume. Returns an exit code. */
typedef int stet_cli_change_fn(void *arg, struct stet_cli_volume *v,
			       const struct stet_cli_target *targets, int count);
/** Calls fn in a transaction, which is committed when fn returns 0. Returns the exit code. */
int stet_cli_change_(const struct stet_cli_command *cmd, const struct stet_cli_words *words,
		     stet_cli_change_fn *fn, void *arg);

/** Where a file goes that is put at target: there, or into the directory that target is, under the
 * name of source. The path is added to *ret_path. Returns 0 or a negative errno value. */
int stet_cli_destination_(struct stet_cli_volume *v, const char *path, const char *source,
			  struct stet_cli_text *ret_path);

/// Files of a volume (files.c) ///

/* As the library's calls of the same name, in the command's transaction; those on extended
 * attributes do not follow a link that is named last. */

/** A flag of stet_cli_statat_: btime and data_version are wanted too. */
#define STET_CLI_AT_ALL 0x10000u

int stet_cli_statat_(struct stet_cli_volume *v, uint64_t dir, const char *path, unsigned flags,
		     struct stet_stat *ret);
/** UID and GID are set together or not at all, so are both times. */
int stet_cli_setattrat_(struct stet_cli_volume *v, uint64_t dir, const char *path, unsigned flags,
			const struct stet_setattr *set);
ssize_t stet_cli_readlinkat_(struct stet_cli_volume *v, uint64_t dir, const char *path, char *buf,
			     size_t cap);
ssize_t stet_cli_listxattr_(struct stet_cli_volume *v, uint64_t dir, const char *path, char *buf,
			    size_t cap);
ssize_t stet_cli_getxattr_(struct stet_cli_volume *v, uint64_t dir, const char *path,
			   const char *xattr, void *buf, size_t cap);
int stet_cli_setxattr_(struct stet_cli_volume *v, uint64_t dir, const char *path, const char *xattr,
		       const void *value, size_t len);

/** An open file: of a volume by the library, or a descriptor. */
struct stet_cli_stream {
	int fd;
	struct stet_file *file; /* NULL: it is fd */
};

int stet_cli_openat_(struct stet_cli_volume *v, uint64_t dir, const char *path, int flags,
		     mode_t mode, struct stet_cli_stream *ret);
int stet_cli_stream_close_(struct stet_cli_stream *stream);
ssize_t stet_cli_stream_read_(struct stet_cli_stream *stream, void *buf, size_t len, uint64_t off);
/** Writes all of it. */
int stet_cli_stream_write_(struct stet_cli_stream *stream, const void *buf, size_t len,
			   uint64_t off);
int stet_cli_stream_seek_(struct stet_cli_stream *stream, uint64_t off, int what,
			  uint64_t *ret_off);
int stet_cli_stream_truncate_(struct stet_cli_stream *stream, uint64_t size);
int stet_cli_stream_size_(struct stet_cli_stream *stream, uint64_t *ret);

int stet_cli_mkdirat_(struct stet_cli_volume *v, uint64_t dir, const char *path, mode_t mode);
int stet_cli_symlinkat_(struct stet_cli_volume *v, const char *target, uint64_t dir,
			const char *path);
int stet_cli_mknodat_(struct stet_cli_volume *v, uint64_t dir, const char *path, mode_t mode,
		      uint64_t rdev);
int stet_cli_linkat_(struct stet_cli_volume *v, uint64_t from_dir, const char *from,
		     uint64_t to_dir, const char *to);
int stet_cli_renameat_(struct stet_cli_volume *v, uint64_t from_dir, const char *from,
		       uint64_t to_dir, const char *to);
int stet_cli_unlinkat_(struct stet_cli_volume *v, uint64_t dir, const char *path, unsigned flags);

/** A directory being listed, in the order of the names' bytes. */
struct stet_cli_listing {
	struct stet_dir *dir;
	struct stet_cli_mounted_dir *mounted;
};

int stet_cli_dir_open_(struct stet_cli_volume *v, uint64_t dir, struct stet_cli_listing *ret);
/** 1: an entry, of which the number may be used until the next but one; 0: no more. */
int stet_cli_dir_next_(struct stet_cli_listing *it, struct stet_dir_entry *ret);
void stet_cli_dir_close_(struct stet_cli_listing *it);
/** Reads all names of a directory. 0 or a negative errno value. */
int stet_cli_list_(struct stet_cli_volume *v, uint64_t dir, struct stet_cli_names *ret);
/** With STET_WALK_PRE. */
int stet_cli_walk_(struct stet_cli_volume *v, uint64_t dir, const char *path, stet_walk_fn *fn,
		   void *arg);

/// Volumes and mounts (place.c) ///

struct stet_control;

/** An operand VOLUME|DIR: a volume that is ours now, or the daemon that has it. */
struct stet_cli_place {
	struct stet_control *ctl; /* NULL: it is v */
	struct stet_cli_volume v;
	const char *word; /* as given; borrowed */
};

/** Opens it; write: as for stet_cli_open_. Returns an exit code. */
int stet_cli_place_open_(const char *word, bool write, struct stet_cli_place *ret);
/** As stet_cli_close_. */
int stet_cli_place_close_(struct stet_cli_place *place, int code);
/** Connects to the mount at dir. Returns an exit code. */
int stet_cli_connect_(const char *dir, struct stet_control **ret);
/** The error line of a call that failed. Returns STET_CLI_FAILED. */
int stet_cli_fail_control_(const struct stet_control *ctl, const char *what, int rc);
/** "mounted at DIR (process N)" is added to *ret if a daemon has the volume at path. */
bool stet_cli_find_holder_(const char *path, struct stet_cli_text *ret);

/// Attributes (attr.c) ///

/** "file", "directory", ... */
const char *stet_cli_type_name_(uint32_t mode);
/** The same of a d_type of readdir(3). */
const char *stet_cli_entry_type_name_(uint8_t type);
/** "-rw-r--r--" */
#define STET_CLI_MODE_MAX 11
void stet_cli_format_mode_(uint32_t mode, char buf[STET_CLI_MODE_MAX]);
/** The name of a user or group here, else the number. */
#define STET_CLI_OWNER_MAX 64
void stet_cli_format_user_(uint32_t uid, char buf[STET_CLI_OWNER_MAX]);
void stet_cli_format_group_(uint32_t gid, char buf[STET_CLI_OWNER_MAX]);
/** Members of the object that is open. */
void stet_cli_json_stat_(struct stet_cli_json *json, const struct stet_stat *st);
/** The target of a symbolic link. */
int stet_cli_readlink_(struct stet_cli_volume *v, uint64_t ino, struct stet_cli_text *ret);

/// The commands, one file each ///

extern const struct stet_cli_command stet_cli_abort_;
extern const struct stet_cli_command stet_cli_begin_;
extern const struct stet_cli_command stet_cli_cat_;
extern const struct stet_cli_command stet_cli_check_;
extern const struct stet_cli_command stet_cli_chmod_;
extern const struct stet_cli_command stet_cli_clean_;
extern const struct stet_cli_command stet_cli_commit_;
extern const struct stet_cli_command stet_cli_cp_;
extern const struct stet_cli_command stet_cli_diff_;
extern const struct stet_cli_command stet_cli_dump_;
extern const struct stet_cli_command stet_cli_find_;
extern const struct stet_cli_command stet_cli_fsck_;
extern const struct stet_cli_command stet_cli_ln_;
extern const struct stet_cli_command stet_cli_ls_;
extern const struct stet_cli_command stet_cli_mkdir_;
extern const struct stet_cli_command stet_cli_mkfs_;
extern const struct stet_cli_command stet_cli_mount_;
extern const struct stet_cli_command stet_cli_mount_helper_; /* mount.stetfs, mount.fuse.stetfs */
extern const struct stet_cli_command stet_cli_mv_;
extern const struct stet_cli_command stet_cli_put_;
extern const struct stet_cli_command stet_cli_rm_;
extern const struct stet_cli_command stet_cli_run_;
extern const struct stet_cli_command stet_cli_stat_;
extern const struct stet_cli_command stet_cli_stats_;
extern const struct stet_cli_command stet_cli_sync_;
extern const struct stet_cli_command stet_cli_table_;
extern const struct stet_cli_command stet_cli_tree_;
extern const struct stet_cli_command stet_cli_txns_;
extern const struct stet_cli_command stet_cli_umount_;
extern const struct stet_cli_command stet_cli_version_;

#endif
