/* posix_list.c - directory streams. */
#include "posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 100000

static DIR *dirs[SLOTS];
static long places[26];

static void set_dir(int slot, DIR *dir)
{
	if (dirs[slot])
		closedir(dirs[slot]);
	dirs[slot] = dir;
}

static DIR *dir_word(struct call *call, size_t n)
{
	DIR *ret = dirs[word_slot(call, n)];

	if (!ret)
		call->bad = "no open directory";
	return ret;
}

static DIR *open_place(struct place at)
{
	int fd = openat(at.dir, *at.path ? at.path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *ret = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !ret)
		close(fd);
	return ret;
}

/* opendir STREAM PATH */
static void do_opendir(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);
	struct place at = posix_place(call, 1);
	DIR *dir = at.dir == AT_FDCWD ? opendir(at.path) : open_place(at);

	if (!dir)
		result_call(ret, -1);
	else
		set_dir(slot, dir);
}

static void do_closedir(struct call *call, struct result *ret)
{
	(void)ret;
	set_dir(word_slot(call, 0), NULL);
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void add_name(char **names, size_t *count, const char *name)
{
	if (*count < NAMES_MAX && (names[*count] = strdup(name)))
		(*count)++;
}

/* The rest of a stream, without dots; at most `most` names. The stream's order does not show. */
static void take_names(DIR *dir, size_t most, struct result *ret)
{
	char **names = calloc(NAMES_MAX, sizeof(*names));
	struct dirent *entry;
	size_t count = 0;

	if (!names) {
		result_error(ret, ENOMEM);
		return;
	}
	errno = 0;
	while (count < most && (entry = readdir(dir)))
		if (!is_dots(entry->d_name))
			add_name(names, &count, entry->d_name);
	if (errno)
		result_call(ret, -1);
	else
		result_names(ret, names, count);
	while (count)
		free(names[--count]);
	free(names);
}

/* list PATH: its names without dots, sorted */
static void do_list(struct call *call, struct result *ret)
{
	DIR *dir = open_place(posix_place(call, 0));

	if (!dir) {
		result_call(ret, -1);
		return;
	}
	take_names(dir, NAMES_MAX, ret);
	closedir(dir);
}

/* rest STREAM: the names that are left, without dots, sorted */
static void do_rest(struct call *call, struct result *ret)
{
	DIR *dir = dir_word(call, 0);

	if (dir)
		take_names(dir, NAMES_MAX, ret);
}

/* readdir STREAM N: the next N names, without dots, sorted */
static void do_readdir(struct call *call, struct result *ret)
{
	DIR *dir = dir_word(call, 0);

	if (dir)
		take_names(dir, (size_t)word_number(call, 1), ret);
}

/* restcount STREAM: how many names are left, without dots */
static void do_restcount(struct call *call, struct result *ret)
{
	DIR *dir = dir_word(call, 0);
	struct dirent *entry;
	int64_t count = 0;

	if (!dir)
		return;
	errno = 0;
	while ((entry = readdir(dir)))
		count += !is_dots(entry->d_name);
	result_call(ret, errno ? -1 : count);
}

static int place_word(struct call *call, size_t n)
{
	char letter = word_text(call, n)[0];

	if (letter < 'A' || letter > 'Z')
		call->bad = "places are A to Z";
	return call->bad ? 0 : letter - 'A';
}

/* telldir STREAM LETTER */
static void do_telldir(struct call *call, struct result *ret)
{
	DIR *dir = dir_word(call, 0);

	if (!dir)
		return;
	places[place_word(call, 1)] = telldir(dir);
	(void)ret;
}

static void do_seekdir(struct call *call, struct result *ret)
{
	DIR *dir = dir_word(call, 0);

	if (dir)
		seekdir(dir, places[place_word(call, 1)]);
	(void)ret;
}

static void do_rewinddir(struct call *call, struct result *ret)
{
	DIR *dir = dir_word(call, 0);

	if (dir)
		rewinddir(dir);
	(void)ret;
}

static const struct flag types[] = {
	{ "reg", DT_REG },   { "dir", DT_DIR }, { "lnk", DT_LNK }, { "fifo", DT_FIFO },
	{ "sock", DT_SOCK }, { "chr", DT_CHR }, { "blk", DT_BLK }, { 0 },
};

/* entry DIRECTORY NAME TYPE: the listing has it once, of this type, and with the inode that lstat says
 * (but "..") */
static void do_entry(struct call *call, struct result *ret)
{
	struct place at = posix_place(call, 0);
	const char *name = word_text(call, 1);
	int64_t type = word_flags(call, 2, types);
	DIR *dir = open_place(at);
	struct dirent *entry;
	struct stat st;
	int count = 0;

	if (!dir || fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		result_call(ret, -1);
		if (dir)
			closedir(dir);
		return;
	}
	while (!ret->error && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, name) != 0)
			continue;
		count++;
		if (entry->d_type != type)
			result_failed(ret, "its type is %d", entry->d_type);
		else if (entry->d_ino != st.st_ino && strcmp(name, "..") != 0)
			result_failed(ret, "d_ino is %llu, st_ino %llu",
				      (unsigned long long)entry->d_ino,
				      (unsigned long long)st.st_ino);
	}
	closedir(dir);
	if (!ret->error && count != 1)
		result_failed(ret, "it is there %d times", count);
}

void posix_list_end_row(void)
{
	for (int i = 0; i < SLOTS; i++)
		set_dir(i, NULL);
}

const struct command posix_list_commands[] = {
	{ "opendir", 2, 2, do_opendir, NULL },
	{ "closedir", 1, 1, do_closedir, NULL },
	{ "list", 1, 1, do_list, NULL },
	{ "rest", 1, 1, do_rest, NULL },
	{ "readdir", 2, 2, do_readdir, NULL },
	{ "restcount", 1, 1, do_restcount, NULL },
	{ "telldir", 2, 2, do_telldir, NULL },
	{ "seekdir", 2, 2, do_seekdir, NULL },
	{ "rewinddir", 1, 1, do_rewinddir, NULL },
	{ "entry", 3, 3, do_entry, NULL },
	{ 0 },
};
