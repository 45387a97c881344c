/* runtime.c - where the sockets and records of mounts lie.
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
 *     control.c to check.
 * I3. The order of what the daemon does: lock, write, bind the socket, ... remove the socket,
 *     remove the record, unlock. So with the lock on what the path names, nobody else removes
 *     what is ours. A reader may find a record half written; it lacks its last line, "end", and
 *     does not count.
 */
#include "fuse/control_internal.h"

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
#define RECORD_SUFFIX STET_FUSE_RECORD_SUFFIX
#define SOCKET_SUFFIX STET_FUSE_SOCKET_SUFFIX
#define RECORD_MAX ((size_t)64 * 1024)
#define ENTRIES_MAX \
	4096u /* looked at in one directory: a user may have made many, for root to read */
#define LOCK_TRIES 100u
#define LOCK_PAUSE_US 2000

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

int stet_fuse_runtime_dir_(char *ret, size_t cap)
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

int stet_fuse_runtime_path_(char *ret, size_t cap, const char *dir, uint64_t dev, uint32_t salt,
			    const char *suffix)
{
	return format(ret, cap, "%s/%u-%u-%08x%s", dir, major(dev), minor(dev), salt, suffix);
}

int stet_fuse_volume_identity_(const char *path, uint64_t *ret_dev, uint64_t *ret_ino)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return -errno;
	*ret_dev = S_ISBLK(st.st_mode) ? 0 : st.st_dev;
	*ret_ino = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_ino;
	return 0;
}

/* --- writing --- */

static void put_text(FILE *f, const char *key, const char *text)
{
	fprintf(f, "%s ", key);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c > ' ' && *c < 0x7f && *c != '\\')
			fputc(*c, f);
		else
			fprintf(f, "\\%03o", *c);
	}
	fputc('\n', f);
}

static void put_number(FILE *f, const char *key, uint64_t value)
{
	fprintf(f, "%s %" PRIu64 "\n", key, value);
}

static void put_record(FILE *f, const struct stet_control_mount *m)
{
	put_number(f, "pid", (uint64_t)m->pid);
	put_number(f, "uid", m->uid);
	put_number(f, "read_only", m->read_only);
	put_number(f, "dev", m->dev);
	put_number(f, "since_ns", m->since_ns);
	put_number(f, "volume_dev", m->volume_dev);
	put_number(f, "volume_ino", m->volume_ino);
	put_text(f, "volume", m->volume);
	put_text(f, "dir", m->dir);
	put_text(f, "socket", m->socket);
	fputs("end\n", f); /* I3 */
}

/* 0: locked; -EAGAIN: try again. The one who had it may have removed it before letting go. */
static int try_lock(const char *path, int fd)
{
	struct stat mine, now;

	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(fd, &mine) != 0)
		return -errno;
	if (stat(path, &now) != 0 || mine.st_dev != now.st_dev || mine.st_ino != now.st_ino)
		return -EAGAIN;
	return 0;
}

/* Whoever has the lock is a reader that looks whether it is held, or somebody who sweeps: both are
 * soon gone; or, once in four billion times, another daemon: the caller takes another name. */
static int open_locked(const char *path, int *ret_fd)
{
	for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
		int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
		int rc = fd < 0 ? -errno : try_lock(path, fd);

		if (!rc) {
			*ret_fd = fd;
			return 0;
		}
		if (fd >= 0)
			close(fd);
		if (rc != -EAGAIN)
			return rc;
		usleep(LOCK_PAUSE_US);
	}
	return -EBUSY;
}

int stet_fuse_record_write_(const char *path, const struct stet_control_mount *mount, int *ret_fd)
{
	FILE *f = NULL;
	int fd, copy;
	int rc = open_locked(path, &fd);

	if (rc)
		return rc;
	if (ftruncate(fd, 0) != 0)
		rc = -errno;
	copy = rc ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0); /* the same lock: fd keeps it */
	if (copy >= 0)
		f = fdopen(copy, "w");
	if (f) {
		put_record(f, mount);
		rc = fclose(f) ? -errno : 0;
	} else if (!rc) {
		rc = -errno;
		if (copy >= 0)
			close(copy);
	}
	if (rc)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}

/* --- sweeping --- */

static bool ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* Removes a record whose daemon has died, and its socket. Whoever has just made it and did not
 * lock it yet, sees that it has gone and makes it again. */
static void sweep_one(const char *dir, const char *name)
{
	size_t stem = strlen(name) - strlen(RECORD_SUFFIX);
	char path[PATH_MAX], other[PATH_MAX];
	int fd;

	if (format(path, sizeof(path), "%s/%s", dir, name) != 0 ||
	    format(other, sizeof(other), "%s/%.*s%s", dir, (int)stem, name, SOCKET_SUFFIX) != 0)
		return;
	fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (try_lock(path, fd) == 0) {
		unlink(other);
		unlink(path);
	}
	close(fd);
}

void stet_fuse_runtime_sweep_(const char *dir)
{
	DIR *it = opendir(dir);
	struct dirent *entry;

	if (!it)
		return;
	while ((entry = readdir(it)))
		if (ends_with(entry->d_name, RECORD_SUFFIX))
			sweep_one(dir, entry->d_name);
	closedir(it);
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

static void take_line(struct stet_control_mount *m, const char *key, const char *value)
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
static bool parse(char *text, struct stet_control_mount *ret)
{
	char *save = NULL;

	*ret = (struct stet_control_mount){ 0 };
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
static bool read_record(int dir_fd, const char *name, struct stet_control_mount *ret)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool good = false;
	char *text;
	ssize_t n;

	if (fd < 0)
		return false;
	text = malloc(RECORD_MAX + 1);
	if (text && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		n = read(fd, text, RECORD_MAX);
		if (n > 0) {
			text[n] = 0;
			good = parse(text, ret);
		}
	}
	free(text);
	close(fd);
	return good;
}

/* I2 */
static bool is_believed(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid() || geteuid() == 0;
}

/* The records of one directory. True: fn said stop. */
static bool records_in(const char *path, bool of_root, stet_fuse_record_fn *fn, void *arg)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stet_control_mount *mount;
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
	mount = calloc(1, sizeof(*mount));
	while (mount && !stop && count++ < ENTRIES_MAX && (entry = readdir(dir)))
		if (ends_with(entry->d_name, RECORD_SUFFIX) &&
		    read_record(dirfd(dir), entry->d_name, mount) &&
		    (of_root || st.st_uid == geteuid() || st.st_uid == mount->uid)) /* I2 */
			stop = fn(arg, mount);
	free(mount);
	closedir(dir);
	return stop;
}

/* Root: the directories of all users, below `top`, with names that start with `prefix`. */
static bool records_below(const char *top, const char *prefix, const char *sub,
			  stet_fuse_record_fn *fn, void *arg)
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

bool stet_fuse_records_(stet_fuse_record_fn *fn, void *arg)
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
