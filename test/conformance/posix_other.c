/* posix_other.c - extended attributes, ACLs, mappings, programs, mounts. */
#include "posix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/xattr.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "acl.h"

/* --- extended attributes --- */

static const struct flag xattr_flags[] = {
	{ "-", 0 }, { "create", XATTR_CREATE }, { "replace", XATTR_REPLACE }, { "bad", 0x40 },
	{ 0 },
};

static int flags_word(struct call *call, size_t n)
{
	return call->count > n ? (int)word_flags(call, n, xattr_flags) : 0;
}

/* setxattr PATH NAME VALUE [FLAGS] */
static void do_setxattr(struct call *call, struct result *ret)
{
	result_call(ret, setxattr(word_text(call, 0), word_text(call, 1), call->words[2].bytes,
				  call->words[2].len, flags_word(call, 3)));
}

static void do_lsetxattr(struct call *call, struct result *ret)
{
	result_call(ret, lsetxattr(word_text(call, 0), word_text(call, 1), call->words[2].bytes,
				   call->words[2].len, flags_word(call, 3)));
}

static void do_fsetxattr(struct call *call, struct result *ret)
{
	result_call(ret, fsetxattr(posix_fd(call, 0), word_text(call, 1), call->words[2].bytes,
				   call->words[2].len, flags_word(call, 3)));
}

/* With a cap of 0 the answer is the length. */
static void result_value(struct result *ret, ssize_t n, size_t cap)
{
	if (n < 0 || cap == 0)
		result_call(ret, n);
	else
		result_text(ret, posix_buffer, (size_t)n);
}

static size_t cap_word(struct call *call, size_t n)
{
	return call->count > n ? (size_t)word_number(call, n) : XATTR_SIZE_MAX;
}

/* getxattr PATH NAME [CAP] */
static void do_getxattr(struct call *call, struct result *ret)
{
	size_t cap = cap_word(call, 2);

	result_value(ret, getxattr(word_text(call, 0), word_text(call, 1), posix_buffer, cap), cap);
}

static void do_lgetxattr(struct call *call, struct result *ret)
{
	size_t cap = cap_word(call, 2);

	result_value(ret, lgetxattr(word_text(call, 0), word_text(call, 1), posix_buffer, cap),
		     cap);
}

static void do_fgetxattr(struct call *call, struct result *ret)
{
	size_t cap = cap_word(call, 2);

	result_value(ret, fgetxattr(posix_fd(call, 0), word_text(call, 1), posix_buffer, cap), cap);
}

static void result_list(struct result *ret, ssize_t n, size_t cap)
{
	static char *names[4096];
	size_t count = 0;

	if (n < 0 || cap == 0) {
		result_call(ret, n);
		return;
	}
	for (char *at = posix_buffer; at < posix_buffer + n; at += strlen(at) + 1)
		if (count < COUNT(names))
			names[count++] = at;
	result_names(ret, names, count);
}

/* listxattr PATH [CAP]: sorted */
static void do_listxattr(struct call *call, struct result *ret)
{
	size_t cap = cap_word(call, 1);

	result_list(ret, listxattr(word_text(call, 0), posix_buffer, cap), cap);
}

static void do_llistxattr(struct call *call, struct result *ret)
{
	size_t cap = cap_word(call, 1);

	result_list(ret, llistxattr(word_text(call, 0), posix_buffer, cap), cap);
}

static void do_flistxattr(struct call *call, struct result *ret)
{
	size_t cap = cap_word(call, 1);

	result_list(ret, flistxattr(posix_fd(call, 0), posix_buffer, cap), cap);
}

static void do_removexattr(struct call *call, struct result *ret)
{
	result_call(ret, removexattr(word_text(call, 0), word_text(call, 1)));
}

static void do_lremovexattr(struct call *call, struct result *ret)
{
	result_call(ret, lremovexattr(word_text(call, 0), word_text(call, 1)));
}

/* --- ACLs --- */

static const char *acl_name(const struct call *call)
{
	return strchr(call->command->name, 'd') ? "system.posix_acl_default"
						: "system.posix_acl_access";
}

/* setfacl, setdfacl PATH ACL */
static void do_setfacl(struct call *call, struct result *ret)
{
	char value[ACL_BYTES_MAX];
	size_t len;

	if (!acl_parse(word_text(call, 1), value, &len))
		call->bad = "not an ACL";
	else
		result_call(ret, setxattr(word_text(call, 0), acl_name(call), value, len, 0));
}

/* getfacl, getdfacl PATH */
static void do_getfacl(struct call *call, struct result *ret)
{
	ssize_t n = getxattr(word_text(call, 0), acl_name(call), posix_buffer, BUFFER_BYTES / 2);
	char text[ACL_TEXT_MAX];

	if (n < 0) {
		result_call(ret, n);
		return;
	}
	acl_print(posix_buffer, (size_t)n, text);
	result_text(ret, text, strlen(text));
}

/* --- mappings --- */

static struct {
	char *at; /* NULL: none */
	size_t len;
} maps[SLOTS];

static const struct flag map_flags[] = {
	{ "shared", MAP_SHARED },
	{ "private", MAP_PRIVATE },
	{ 0 },
};

static const struct flag protections[] = {
	{ "none", PROT_NONE }, { "r", PROT_READ },
	{ "w", PROT_WRITE },   { "rw", PROT_READ | PROT_WRITE },
	{ "x", PROT_EXEC },    { 0 },
};

/* mmap MAP SLOT PROTECTION FLAGS OFFSET LENGTH */
static void do_mmap(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);
	size_t len = (size_t)word_number(call, 5);
	void *at;

	if (call->bad)
		return;
	at = mmap(NULL, len, (int)word_flags(call, 2, protections),
		  (int)word_flags(call, 3, map_flags), posix_fd(call, 1), word_number(call, 4));
	if (at == MAP_FAILED) {
		result_call(ret, -1);
		return;
	}
	maps[slot].at = at;
	maps[slot].len = len;
}

static sigjmp_buf fault;

static void on_fault(int number)
{
	(void)number;
	siglongjmp(fault, 1);
}

/* Copies; false: SIGBUS or SIGSEGV */
static bool copy_guarded(void *to, const void *from, size_t len)
{
	struct sigaction action = { .sa_handler = on_fault };
	struct sigaction old_bus, old_segv;
	bool ret;

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &old_bus);
	sigaction(SIGSEGV, &action, &old_segv);
	ret = sigsetjmp(fault, 1) == 0;
	if (ret)
		memcpy(to, from, len);
	sigaction(SIGBUS, &old_bus, NULL);
	sigaction(SIGSEGV, &old_segv, NULL);
	return ret;
}

/* peek MAP OFFSET LENGTH */
static void do_peek(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);
	size_t len = (size_t)word_number(call, 2);

	if (!maps[slot].at || len > BUFFER_BYTES)
		call->bad = "no such mapping";
	else if (copy_guarded(posix_buffer, maps[slot].at + word_number(call, 1), len))
		result_text(ret, posix_buffer, len);
	else
		result_error(ret, SIGNALLED);
}

/* poke MAP OFFSET DATA */
static void do_poke(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);

	if (!maps[slot].at)
		call->bad = "no such mapping";
	else if (!copy_guarded(maps[slot].at + word_number(call, 1), call->words[2].bytes,
			       call->words[2].len))
		result_error(ret, SIGNALLED);
}

static const struct flag msync_flags[] = {
	{ "sync", MS_SYNC },
	{ "async", MS_ASYNC },
	{ "invalidate", MS_INVALIDATE },
	{ 0 },
};

/* msync MAP FLAGS */
static void do_msync(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);

	result_call(ret,
		    msync(maps[slot].at, maps[slot].len, (int)word_flags(call, 1, msync_flags)));
}

static void unmap(int slot)
{
	if (maps[slot].at)
		munmap(maps[slot].at, maps[slot].len);
	maps[slot].at = NULL;
}

static void do_munmap(struct call *call, struct result *ret)
{
	(void)ret;
	unmap(word_slot(call, 0));
}

/* --- programs and limits --- */

/* run PATH: the exit status of the program */
static void do_run(struct call *call, struct result *ret)
{
	const char *path = word_text(call, 0);
	int fd[2], error, status;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
		result_call(ret, -1);
		return;
	}
	if (pid == 0) {
		int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);

		if (quiet >= 0)
			dup2(quiet, STDERR_FILENO); /* what a shell says of it does not matter */
		execl(path, path, (char *)NULL);
		error = errno;
		_exit(write(fd[1], &error, sizeof(error)) == sizeof(error) ? 127 : 126);
	}
	close(fd[1]);
	if (read(fd[0], &error, sizeof(error)) == sizeof(error))
		result_error(ret, error);
	close(fd[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!ret->error)
		ret->value = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* fsize LIMIT: of this process; the signal is ignored */
static void do_fsize(struct call *call, struct result *ret)
{
	struct rlimit limit = { (rlim_t)word_number(call, 0), RLIM_INFINITY };

	result_call(ret, setrlimit(RLIMIT_FSIZE, &limit));
}

/* --- mounts --- */

static char mounted[4][PATH_MAX];
static size_t mounts;

/* mount FROM TO: the one directory over the other */
static void do_mount(struct call *call, struct result *ret)
{
	const char *to = word_text(call, 1);

	if (mounts == COUNT(mounted)) {
		call->bad = "too many mounts";
		return;
	}
	result_call(ret, mount(word_text(call, 0), to, NULL, MS_BIND, NULL));
	if (!ret->error)
		snprintf(mounted[mounts++], PATH_MAX, "%s", to);
}

static void do_umount(struct call *call, struct result *ret)
{
	result_call(ret, umount2(word_text(call, 0), MNT_DETACH));
	if (!ret->error)
		mounts--;
}

void posix_other_end_row(void)
{
	for (int i = 0; i < SLOTS; i++)
		unmap(i);
	if (mounts && chdir(posix_backend.row_dir()) != 0)
		perror("chdir");
	while (mounts)
		umount2(mounted[--mounts], MNT_DETACH);
}

/* wait AGENT: performed by the language itself */
static void do_wait(struct call *call, struct result *ret)
{
	(void)ret;
	call->bad = "not here";
}

const struct command posix_other_commands[] = {
	{ "setxattr", 3, 4, do_setxattr, NULL },
	{ "lsetxattr", 3, 4, do_lsetxattr, NULL },
	{ "fsetxattr", 3, 4, do_fsetxattr, NULL },
	{ "getxattr", 2, 3, do_getxattr, NULL },
	{ "lgetxattr", 2, 3, do_lgetxattr, NULL },
	{ "fgetxattr", 2, 3, do_fgetxattr, NULL },
	{ "listxattr", 1, 2, do_listxattr, NULL },
	{ "llistxattr", 1, 2, do_llistxattr, NULL },
	{ "flistxattr", 1, 2, do_flistxattr, NULL },
	{ "removexattr", 2, 2, do_removexattr, NULL },
	{ "lremovexattr", 2, 2, do_lremovexattr, NULL },
	{ "setfacl", 2, 2, do_setfacl, NULL },
	{ "setdfacl", 2, 2, do_setfacl, NULL },
	{ "getfacl", 1, 1, do_getfacl, NULL },
	{ "getdfacl", 1, 1, do_getfacl, NULL },
	{ "mmap", 6, 6, do_mmap, NULL },
	{ "peek", 3, 3, do_peek, NULL },
	{ "poke", 3, 3, do_poke, NULL },
	{ "msync", 2, 2, do_msync, NULL },
	{ "munmap", 1, 1, do_munmap, NULL },
	{ "run", 1, 1, do_run, NULL },
	{ "fsize", 1, 1, do_fsize, NULL },
	{ "mount", 2, 2, do_mount, NULL },
	{ "umount", 1, 1, do_umount, NULL },
	{ "wait", 1, 1, do_wait, NULL },
	{ 0 },
};
