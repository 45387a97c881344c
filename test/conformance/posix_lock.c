/* posix_lock.c - locks and leases. */
#include "posix.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const struct flag flock_kinds[] = {
	{ "sh", LOCK_SH }, { "ex", LOCK_EX }, { "un", LOCK_UN }, { "nb", LOCK_NB }, { 0 },
};

/* flock SLOT KIND */
static void do_flock(struct call *call, struct result *ret)
{
	result_call(ret, flock(posix_fd(call, 0), (int)word_flags(call, 1, flock_kinds)));
}

static const struct flag lock_kinds[] = {
	{ "rd", F_RDLCK },
	{ "wr", F_WRLCK },
	{ "un", F_UNLCK },
	{ 0 },
};

static const char *kind_name(short kind)
{
	for (const struct flag *flag = lock_kinds; flag->name; flag++)
		if (flag->value == kind)
			return flag->name;
	return "?";
}

/* SLOT KIND START LENGTH [set|cur|end] */
static struct flock lock_words(struct call *call)
{
	static const struct flag whences[] = {
		{ "set", SEEK_SET },
		{ "cur", SEEK_CUR },
		{ "end", SEEK_END },
		{ 0 },
	};

	return (struct flock){
		.l_type = (short)word_flags(call, 1, lock_kinds),
		.l_whence = call->count > 4 ? (short)word_flags(call, 4, whences) : SEEK_SET,
		.l_start = word_number(call, 2),
		.l_len = word_number(call, 3),
	};
}

/* lock, lockw (waits), olock, olockw (of the open file) */
static void do_lock(struct call *call, struct result *ret)
{
	bool waits = strchr(call->command->name + 1, 'w');
	bool of_file = call->command->name[0] == 'o';
	struct flock lock = lock_words(call);
	int how = of_file ? (waits ? F_OFD_SETLKW : F_OFD_SETLK) : (waits ? F_SETLKW : F_SETLK);

	result_call(ret, fcntl(posix_fd(call, 0), how, &lock));
}

/* getlk, ogetlk: 'un', or the lock in the way: 'KIND START LENGTH' */
static void do_getlk(struct call *call, struct result *ret)
{
	struct flock lock = lock_words(call);
	char text[80];

	if (fcntl(posix_fd(call, 0), call->command->name[0] == 'o' ? F_OFD_GETLK : F_GETLK,
		  &lock) != 0) {
		result_call(ret, -1);
		return;
	}
	if (lock.l_type == F_UNLCK)
		snprintf(text, sizeof(text), "un");
	else
		snprintf(text, sizeof(text), "%s %lld %lld", kind_name(lock.l_type),
			 (long long)lock.l_start, (long long)lock.l_len);
	result_text(ret, text, strlen(text));
}

/* lease SLOT KIND */
static void do_lease(struct call *call, struct result *ret)
{
	result_call(ret,
		    fcntl(posix_fd(call, 0), F_SETLEASE, (int)word_flags(call, 1, lock_kinds)));
}

const struct command posix_lock_commands[] = {
	{ "flock", 2, 2, do_flock, NULL },
	{ "lock", 4, 5, do_lock, NULL },
	{ "lockw", 4, 5, do_lock, NULL },
	{ "olock", 4, 5, do_lock, NULL },
	{ "olockw", 4, 5, do_lock, NULL },
	{ "getlk", 4, 5, do_getlk, NULL },
	{ "ogetlk", 4, 5, do_getlk, NULL },
	{ "lease", 2, 2, do_lease, NULL },
	{ 0 },
};
