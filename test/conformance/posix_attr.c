/* posix_attr.c - attributes, access. */
#include "posix.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* --- looking --- */

static bool look_at(struct place at, int flags, struct facts *ret_facts, struct result *ret)
{
	struct statx st;

	if (statx(at.dir, at.path, flags, STATX_BASIC_STATS | STATX_BTIME, &st) != 0) {
		result_call(ret, -1);
		return false;
	}
	facts_of_statx(&st, ret_facts);
	return true;
}

static bool look(struct call *call, int flags, struct facts *ret_facts, struct result *ret)
{
	struct place at = posix_place(call, call->command->name[0] == 'n' ? 1 : 0);

	if (call->bad)
		return false;
	if (!*at.path && at.dir != AT_FDCWD)
		flags |= AT_EMPTY_PATH;
	return look_at(at, flags, ret_facts, ret);
}

/* is PATH CHECK...: stat */
static void do_is(struct call *call, struct result *ret)
{
	struct facts facts;

	if (look(call, 0, &facts, ret))
		facts_check(call, 1, &facts, ret);
}

/* isl PATH CHECK...: lstat */
static void do_isl(struct call *call, struct result *ret)
{
	struct facts facts;

	if (look(call, AT_SYMLINK_NOFOLLOW, &facts, ret))
		facts_check(call, 1, &facts, ret);
}

/* isf SLOT CHECK...: fstat */
static void do_isf(struct call *call, struct result *ret)
{
	struct place at = { posix_fd(call, 0), "" };
	struct facts facts;

	if (look_at(at, AT_EMPTY_PATH, &facts, ret))
		facts_check(call, 1, &facts, ret);
}

/* note LETTER PATH: remembers what lstat tells */
static void do_note(struct call *call, struct result *ret)
{
	struct facts facts;

	if (look(call, AT_SYMLINK_NOFOLLOW, &facts, ret))
		facts_note(call, word_text(call, 0)[0], &facts);
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* tick: time has gone on for every clock that a file system may use, also the coarse one */
static void do_tick(struct call *call, struct result *ret)
{
	struct timespec a_while = { 0, 1000000 }, then, now;

	(void)call;
	(void)ret;
	clock_gettime(CLOCK_REALTIME, &then);
	do {
		nanosleep(&a_while, NULL);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (!is_later(&now, &then));
}

/* --- changing --- */

static void do_umask(struct call *call, struct result *ret)
{
	umask(word_octal(call, 0));
	(void)ret;
}

static void do_chmod(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);

	result_call(ret, fchmodat(at.dir, at.path, word_octal(call, 1), 0));
}

/* lchmod PATH MODE: fchmodat2 with NOFOLLOW */
static void do_lchmod(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);

	result_call(ret, syscall(SYS_fchmodat2, at.dir, at.path, word_octal(call, 1),
				 AT_SYMLINK_NOFOLLOW));
}

static void do_fchmod(struct call *call, struct result *ret)
{
	result_call(ret, fchmod(posix_fd(call, 0), word_octal(call, 1)));
}

/* "-": as it is */
static unsigned id(struct call *call, size_t n)
{
	return word_is(call, n, "-") ? (unsigned)-1 : (unsigned)word_number(call, n);
}

/* chown PATH UID GID */
static void do_chown(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);
	int flags = !*at.path && at.dir != AT_FDCWD ? AT_EMPTY_PATH : 0;

	result_call(ret, fchownat(at.dir, at.path, id(call, 1), id(call, 2), flags));
}

static void do_lchown(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);

	result_call(ret, fchownat(at.dir, at.path, id(call, 1), id(call, 2), AT_SYMLINK_NOFOLLOW));
}

static void do_fchown(struct call *call, struct result *ret)
{
	result_call(ret, fchown(posix_fd(call, 0), id(call, 1), id(call, 2)));
}

/* SECONDS[.NS], now, omit; `bad` has an impossible count of nanoseconds */
static struct timespec time_word(struct call *call, size_t n)
{
	struct timespec ret = { 0 };
	int64_t ns;

	if (word_is(call, n, "now")) {
		ret.tv_nsec = UTIME_NOW;
	} else if (word_is(call, n, "omit")) {
		ret.tv_nsec = UTIME_OMIT;
	} else if (word_is(call, n, "bad")) {
		ret.tv_nsec = 1000000000;
	} else if (facts_parse_time(word_text(call, n), &ns)) {
		ret.tv_nsec = ns % 1000000000;
		ret.tv_sec = ns / 1000000000;
		if (ret.tv_nsec < 0) {
			ret.tv_nsec += 1000000000;
			ret.tv_sec--;
		}
	} else {
		call->bad = "not a time";
	}
	return ret;
}

static void set_times(struct call *call, int flags, struct result *ret)
{
	struct timespec times[2] = { time_word(call, 1), time_word(call, 2) };
	struct place at = posix_place(call, 0);

	if (!call->bad)
		result_call(ret, utimensat(at.dir, at.path, times, flags));
}

/* utimens PATH ATIME MTIME */
static void do_utimens(struct call *call, struct result *ret)
{
	set_times(call, 0, ret);
}

static void do_lutimens(struct call *call, struct result *ret)
{
	set_times(call, AT_SYMLINK_NOFOLLOW, ret);
}

static void do_futimens(struct call *call, struct result *ret)
{
	struct timespec times[2] = { time_word(call, 1), time_word(call, 2) };

	if (!call->bad)
		result_call(ret, futimens(posix_fd(call, 0), times));
}

/* touch PATH: utimensat with no times */
static void do_touch(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);

	result_call(ret, utimensat(at.dir, at.path, NULL, 0));
}

/* --- asking --- */

static const struct flag access_modes[] = {
	{ "f", F_OK }, { "r", R_OK },   { "w", W_OK },
	{ "x", X_OK }, { "bad", 0x80 }, { "rwx", R_OK | W_OK | X_OK },
	{ 0 },
};

static const struct flag access_flags[] = {
	{ "-", 0 },
	{ "eaccess", AT_EACCESS },
	{ "nofollow", AT_SYMLINK_NOFOLLOW },
	{ "bad", 0x8000 },
	{ 0 },
};

/* access PATH MODES [FLAGS]; the call itself, as libc does AT_EACCESS by its own */
static void do_access(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);
	int mode = (int)word_flags(call, 1, access_modes);
	int flags = call->count > 2 ? (int)word_flags(call, 2, access_flags) : 0;

	result_call(ret, syscall(SYS_faccessat2, at.dir, at.path, mode, flags));
}

/* statfs PATH: checks what must hold for every file system */
static void do_statfs(struct call *call, struct result *ret)
{
	struct statvfs st;

	if (statvfs(word_text(call, 0), &st) != 0)
		result_call(ret, -1);
	else if (st.f_namemax != 255)
		result_failed(ret, "f_namemax is %lu", st.f_namemax);
	else if (!st.f_bsize || !st.f_frsize || st.f_frsize > st.f_bsize)
		result_failed(ret, "f_bsize %lu, f_frsize %lu", st.f_bsize, st.f_frsize);
	else if (st.f_bfree > st.f_blocks || st.f_bavail > st.f_bfree || !st.f_blocks)
		result_failed(ret, "f_blocks %llu, f_bfree %llu, f_bavail %llu",
			      (unsigned long long)st.f_blocks, (unsigned long long)st.f_bfree,
			      (unsigned long long)st.f_bavail);
	else if (st.f_ffree > st.f_files || st.f_favail > st.f_ffree)
		result_failed(ret, "f_files %llu, f_ffree %llu", (unsigned long long)st.f_files,
			      (unsigned long long)st.f_ffree);
}

const struct command posix_attr_commands[] = {
	{ "is", 1, WORDS_MAX, do_is, NULL },
	{ "isl", 1, WORDS_MAX, do_isl, NULL },
	{ "isf", 1, WORDS_MAX, do_isf, NULL },
	{ "note", 2, 2, do_note, NULL },
	{ "tick", 0, 0, do_tick, NULL },
	{ "umask", 1, 1, do_umask, NULL },
	{ "chmod", 2, 2, do_chmod, NULL },
	{ "lchmod", 2, 2, do_lchmod, NULL },
	{ "fchmod", 2, 2, do_fchmod, NULL },
	{ "chown", 3, 3, do_chown, NULL },
	{ "lchown", 3, 3, do_lchown, NULL },
	{ "fchown", 3, 3, do_fchown, NULL },
	{ "utimens", 3, 3, do_utimens, NULL },
	{ "lutimens", 3, 3, do_lutimens, NULL },
	{ "futimens", 3, 3, do_futimens, NULL },
	{ "touch", 1, 1, do_touch, NULL },
	{ "access", 2, 3, do_access, NULL },
	{ "statfs", 1, 1, do_statfs, NULL },
	{ 0 },
};
