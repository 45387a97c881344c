/* holder.c - who has an image open, for the error text when its lock is taken.
 *
 * A lock of an open file description tells no process. But /proc says of each process that we may
 * look at (our own; all of them for root) which files it has open, and beside each descriptor which
 * locks it holds.
 *
 * H1. Only a help for people: whatever cannot be read is passed over, and nothing is decided by it.
 * H2. Others' files may be of file systems that do not answer, and are not asked (DONT_SYNC).
 */
#include "device/device_internal.h"

#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define COMMAND_MAX 80 /* bytes of a command line that are shown */

static bool is_number(const char *name)
{
	return isdigit((unsigned char)name[0]);
}

/* Is it the file or device that st describes? */
static bool is_same(const struct stat *st, const struct statx *other)
{
	if (S_ISBLK(st->st_mode) && S_ISBLK(other->stx_mode))
		return st->st_rdev == makedev(other->stx_rdev_major, other->stx_rdev_minor);
	return st->st_dev == makedev(other->stx_dev_major, other->stx_dev_minor) &&
	       st->st_ino == other->stx_ino;
}

static bool holds_lock(const char *pid, const char *fd)
{
	char path[64];
	char line[256];
	bool found = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/fdinfo/%.16s", pid, fd);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, "lock:", 5) == 0;
	if (f)
		(void)fclose(f);
	return found;
}

static bool has_open(const char *pid, const struct stat *st)
{
	char path[64];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		struct statx other;

		found = is_number(entry->d_name) &&
			statx(dirfd(dir), entry->d_name, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO,
			      &other) == 0 && /* H2 */
			is_same(st, &other) &&
			holds_lock(pid, entry->d_name);
	}
	(void)closedir(dir);
	return found;
}

/* The words of its command line, as far as they fit into one line of text. */
static void print_command(struct stet_text *ret, const char *pid)
{
	char path[64];
	char command[COMMAND_MAX + 1];
	size_t len;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/cmdline", pid);
	f = fopen(path, "re");
	if (!f)
		return;
	len = fread(command, 1, COMMAND_MAX, f);
	(void)fclose(f);
	while (len > 0 && command[len - 1] == 0)
		len--;
	for (size_t i = 0; i < len; i++) {
		if (command[i] == 0)
			command[i] = ' ';
		else if (iscntrl((unsigned char)command[i]))
			command[i] = '?';
	}
	command[len] = 0;
	if (len > 0)
		stet_text_printf(ret, " (%s)", command);
}

bool stet_device_find_holder_(const struct stat *st, struct stet_text *ret)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		if (!is_number(entry->d_name) || !has_open(entry->d_name, st))
			continue;
		found = true;
		if (atol(entry->d_name) == (long)getpid()) {
			stet_text_puts(ret, "open already in this process");
			continue;
		}
		stet_text_printf(ret, "in use by process %.16s", entry->d_name);
		print_command(ret, entry->d_name);
	}
	(void)closedir(dir);
	return found;
}
