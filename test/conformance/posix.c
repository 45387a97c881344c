/* posix.c - the row's place among system calls: its directory, descriptors, buffer. */
#include "posix.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

char *posix_buffer;

static int fds[SLOTS];
static char row_dir[PATH_MAX];

static const char *dir_of_row(void)
{
	return row_dir;
}

static const char *path_of_fd(int slot)
{
	static char path[64];

	if (slot < 0 || slot >= SLOTS)
		return NULL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[slot]);
	return path;
}

/* --- words --- */

int posix_fd(struct call *call, size_t n)
{
	return fds[word_slot(call, n)];
}

void posix_set_fd(int slot, int fd)
{
	if (fds[slot] >= 0)
		close(fds[slot]);
	fds[slot] = fd;
}

struct place posix_place(struct call *call, size_t n)
{
	struct place ret = { AT_FDCWD, word_text(call, n) };

	if (ret.path[0] == '<' && ret.path[1] >= '0' && ret.path[1] <= '9' && ret.path[2] == '>') {
		ret.dir = fds[ret.path[1] - '0'];
		ret.path += 3;
	}
	return ret;
}

/* --- rows --- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

bool posix_begin_row(const char *dir, bool is_new)
{
	static bool is_started;

	if (!is_started) {
		memset(fds, -1, sizeof(fds));
		posix_buffer = aligned_alloc(4096, BUFFER_BYTES);
		if (!posix_buffer)
			return false;
		is_started = true;
	}
	umask(022);
	if (is_new) {
		if (mkdir(dir, 0777) != 0 &&
		    (errno != EEXIST || nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 ||
		     mkdir(dir, 0777) != 0))
			return false;
		if (chmod(dir, 0777) != 0)
			return false;
	}
	return chdir(dir) == 0 && getcwd(row_dir, sizeof(row_dir));
}

void posix_end_row(void)
{
	struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };

	posix_list_end_row();
	posix_other_end_row();
	for (int i = 0; i < SLOTS; i++)
		posix_set_fd(i, -1);
	setrlimit(RLIMIT_FSIZE, &none);
	if (chdir("/") != 0)
		perror("/");
}

/* --- the commands together --- */

static struct command all_commands[128];

__attribute__((constructor)) static void gather(void)
{
	const struct command *const groups[] = {
		posix_file_commands, posix_name_commands, posix_attr_commands,
		posix_lock_commands, posix_list_commands, posix_other_commands,
	};
	size_t used = 0;

	for (size_t i = 0; i < COUNT(groups); i++)
		for (const struct command *c = groups[i]; c->name; c++)
			if (used + 1 < COUNT(all_commands))
				all_commands[used++] = *c;
}

const struct backend posix_backend = {
	.commands = all_commands,
	.has_processes = true,
	.row_dir = dir_of_row,
	.fd_path = path_of_fd,
};
