/* servers.c - who serves which volume: where the sockets and records of daemons lie, and reading them.
 * Writing them is in serve/announce.c.
 *
 *	/run/stetfs/                   of daemons of root
 *	$XDG_RUNTIME_DIR/stetfs/, or /run/user/UID/stetfs/, or /tmp/stetfs-UID/   of users
 *	    MAJOR-MINOR-RANDOM.sock    the device number of the mount, and what tells it from others
 *	    MAJOR-MINOR-RANDOM.mount   the record: lines "key value", odd bytes as \ooo
 *
 * The device number alone would not do: the kernel gives it to the next mount as soon as a file
 * system is unmounted, while its daemon still writes its checkpoint, and has its record.
 *
 * I1. A record counts only while its daemon holds a lock on it; so one left behind by a crash is
 *     not mistaken. The next mount of the same user removes it. Of two that name the same device
 *     number the later one is right.
 * I2. A directory is believed only if it belongs to root or to us, or (when we are root) to
 *     anyone: a user's records concern his own mounts only, so one that gives another uid than the
 *     directory has does not count. Below /run only root makes directories (and in a user
 *     namespace root's files do not look like his). What else a foreign user may claim, is for
 *     see_volume() and fuse/control.c to check.
 * I3. The order of what the daemon does: lock, write, bind the socket, ... remove the socket,
 *     remove the record, unlock. So with the lock on what the path names, nobody else removes
 *     what is ours. A reader may find a record half written; it lacks its last line, "end", and
 *     does not count.
 */
#include "remote/servers.h"

#include "base/error.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define ROOT_DIR "/run/stetfs"
#define RECORD_MAX ((size_t)64 * 1024)
#define ENTRIES_MAX \
	4096u /* looked at in one directory: a user may have made many, for root to read */

/* --- directories --- */

static int format(char *ret, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int format(char *ret, size_t cap, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(ret, cap, fmt, args);
	va_end(args);
	return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int stet_servers_dir(char *ret, size_t cap)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	uid_t uid = geteuid();
	struct stat st;
	char run[64];
	int rc;

	snprintf(run, sizeof(run), "/run/user/%u", (unsigned)uid);
	if (uid == 0)
		rc = format(ret, cap, "%s", ROOT_DIR);
	else if (xdg && xdg[0] == '/' && is_dir(xdg))
		rc = format(ret, cap, "%s/stetfs", xdg);
	else if (is_dir(run))
		rc = format(ret, cap, "%s/stetfs", run);
	else
		rc = format(ret, cap, "/tmp/stetfs-%u", (unsigned)uid);
	if (rc)
		return rc;
	if (mkdir(ret, uid == 0 ? 0755 : 0700) != 0 && errno != EEXIST)
		return -errno;
	if (lstat(ret, &st) != 0)
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == uid ? 0 : -EPERM; /* somebody else's */
}

int stet_servers_path(char *ret, size_t cap, const char *dir, uint64_t dev, uint32_t salt,
		      const char *suffix)
{
	return format(ret, cap, "%s/%u-%u-%08x%s", dir, major(dev), minor(dev), salt, suffix);
}

int stet_servers_identity(const char *path, uint64_t *ret_dev, uint64_t *ret_ino)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return -errno;
	*ret_dev = S_ISBLK(st.st_mode) ? 0 : st.st_dev;
	*ret_ino = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_ino;
	return 0;
}

/* --- reading --- */

static void take_text(char *ret, size_t cap, const char *text)
{
	size_t n = 0;

	while (*text && n + 1 < cap) {
		unsigned c = (unsigned char)*text++;

		if (c == '\\' && strspn(text, "01234567") >= 3) {
			c = (unsigned)(text[0] - '0') << 6 | (unsigned)(text[1] - '0') << 3 |
			    (unsigned)(text[2] - '0');
			text += 3;
		}
		ret[n++] = (char)c;
	}
	ret[n] = 0;
}

static void take_line(struct stet_ll_server *m, const char *key, const char *value)
{
	uint64_t number = strtoull(value, NULL, 10);

	if (strcmp(key, "pid") == 0)
		m->pid = (pid_t)number;
	else if (strcmp(key, "uid") == 0)
		m->uid = (uid_t)number;
	else if (strcmp(key, "read_only") == 0)
		m->read_only = number;
	else if (strcmp(key, "dev") == 0)
		m->dev = number;
	else if (strcmp(key, "since_ns") == 0)
		m->since_ns = number;
	else if (strcmp(key, "volume_dev") == 0)
		m->volume_dev = number;
	else if (strcmp(key, "volume_ino") == 0)
		m->volume_ino = number;
	else if (strcmp(key, "volume") == 0)
		take_text(m->volume, sizeof(m->volume), value);
	else if (strcmp(key, "dir") == 0)
		take_text(m->dir, sizeof(m->dir), value);
	else if (strcmp(key, "socket") == 0)
		take_text(m->socket, sizeof(m->socket), value);
}

/* True: it is whole. */
static bool parse(char *text, struct stet_ll_server *ret)
{
	char *save = NULL;

	*ret = (struct stet_ll_server){ 0 };
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *space = strchr(line, ' ');

		if (strcmp(line, "end") == 0)
			return true;
		if (!space)
			return false;
		*space = 0;
		take_line(ret, line, space + 1);
	}
	return false;
}

/* True: *ret is the record of a living daemon (I1). */
static bool read_record(int dir_fd, const char *name, struct stet_ll_server *ret)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool good = false;
	char *text;
	ssize_t n;

	if (fd < 0)
		return false;
	text = stet_alloc(RECORD_MAX + 1);
	if (text && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		n = read(fd, text, RECORD_MAX);
		if (n > 0) {
			text[n] = 0;
			good = parse(text, ret);
		}
	}
	stet_free(text);
	close(fd);
	return good;
}

/* I2 */
static bool is_believed(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid() || geteuid() == 0;
}

/* The records of one directory. True: fn said stop. */
static bool records_in(const char *path, bool of_root, stet_ll_server_fn *fn, void *arg)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stet_ll_server *mount;
	struct dirent *entry;
	unsigned count = 0;
	bool stop = false;
	struct stat st;
	DIR *dir;

	if (fd < 0)
		return false;
	dir = fstat(fd, &st) == 0 && (of_root || is_believed(&st)) ? fdopendir(fd) : NULL;
	if (!dir) {
		close(fd);
		return false;
	}
	mount = stet_calloc(1, sizeof(*mount));
	while (mount && !stop && count++ < ENTRIES_MAX && (entry = readdir(dir)))
		if (stet_servers_is_record(entry->d_name) &&
		    read_record(dirfd(dir), entry->d_name, mount) &&
		    (of_root || st.st_uid == geteuid() || st.st_uid == mount->uid)) /* I2 */
			stop = fn(arg, mount);
	stet_free(mount);
	closedir(dir);
	return stop;
}

/* Root: the directories of all users, below `top`, with names that start with `prefix`. */
static bool records_below(const char *top, const char *prefix, const char *sub,
			  stet_ll_server_fn *fn, void *arg)
{
	DIR *dir = opendir(top);
	struct dirent *entry;
	char path[PATH_MAX];
	bool stop = false;

	if (!dir)
		return false;
	while (!stop && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' &&
		    strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
		    format(path, sizeof(path), "%s/%s%s", top, entry->d_name, sub) == 0)
			stop = records_in(path, false, fn, arg);
	closedir(dir);
	return stop;
}

bool stet_ll_servers(stet_ll_server_fn *fn, void *arg)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	unsigned uid = (unsigned)geteuid();
	char path[PATH_MAX];

	if (records_in(ROOT_DIR, true, fn, arg))
		return true;
	if (xdg && format(path, sizeof(path), "%s/stetfs", xdg) == 0 &&
	    records_in(path, false, fn, arg))
		return true;
	if (uid == 0)
		return records_below("/run/user", "", "/stetfs", fn, arg) ||
		       records_below("/tmp", "stetfs-", "", fn, arg);
	snprintf(path, sizeof(path), "/run/user/%u/stetfs", uid);
	if (records_in(path, false, fn, arg))
		return true;
	snprintf(path, sizeof(path), "/tmp/stetfs-%u", uid);
	return records_in(path, false, fn, arg);
}

/* --- finding --- */

struct wanted {
	uint64_t dev, ino;
	uid_t owner; /* of the image */
	bool found;
	struct stet_ll_server *ret;
};

/* Of two the later one: the other is ending. Root believes of what a user has written only what is about an
 * image that is his (I2), so that he can lead root nowhere but to what is his. */
static bool see_volume(void *arg, const struct stet_ll_server *server)
{
	bool is_foreign = server->uid != 0 && server->uid != geteuid();
	struct wanted *w = arg;

	if (server->volume_dev != w->dev || server->volume_ino != w->ino ||
	    (is_foreign && server->uid != w->owner) ||
	    (w->found && w->ret->since_ns > server->since_ns))
		return false;
	*w->ret = *server;
	w->found = true;
	return false;
}

int stet_ll_find_server(const char *path, struct stet_ll_server *ret)
{
	struct wanted w = { .ret = ret };
	struct stat st;
	int rc = stet_servers_identity(path, &w.dev, &w.ino);

	if (!rc && stat(path, &st) != 0)
		rc = -errno;
	if (rc)
		return rc;
	w.owner = st.st_uid;
	stet_ll_servers(see_volume, &w);
	return w.found ? 0 : -ENOENT;
}
