/* announce.c - records that say who serves a volume: writing and removing them.
 *
 * Reading them is in remote/servers.c; the invariants I1 to I3, which both keep, are there.
 */
#include "base/mem.h"
#include "remote/servers.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_TRIES 16u
#define LOCK_TRIES 100u
#define LOCK_PAUSE_US 2000

struct stet_ll_announced {
	int fd; /* of the record, locked */
	char socket[sizeof(((struct stet_ll_server *)0)->socket)];
	char record[PATH_MAX];
};

/* --- the record --- */

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

static void put_record(FILE *f, const struct stet_ll_server *m)
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

/* Writes the record and keeps it locked: that says that we live. -EBUSY: another one has it. *ret_fd: to be
 * kept open till the end. */
static int write_record(const char *path, const struct stet_ll_server *server, int *ret_fd)
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
		put_record(f, server);
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

/* Removes a record whose daemon has died, and its socket. Whoever has just made it and did not
 * lock it yet, sees that it has gone and makes it again. */
static void sweep_one(const char *dir, const char *name)
{
	size_t stem = strlen(name) - strlen(STET_SERVERS_RECORD);
	char path[PATH_MAX], other[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path) ||
	    snprintf(other, sizeof(other), "%s/%.*s%s", dir, (int)stem, name,
		     STET_SERVERS_SOCKET) >= (int)sizeof(other))
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

/* What those who died have left in our directory. */
static void sweep(const char *dir)
{
	DIR *it = opendir(dir);
	struct dirent *entry;

	if (!it)
		return;
	while ((entry = readdir(it)))
		if (stet_servers_is_record(entry->d_name))
			sweep_one(dir, entry->d_name);
	closedir(it);
}

/* --- the calls --- */

/* A name that nobody else has, and the record under it. */
static int claim_name(const char *dir, struct stet_ll_server *server, struct stet_ll_announced *a)
{
	int rc = -EBUSY;

	for (unsigned tries = 0; rc == -EBUSY && tries < NAME_TRIES; tries++) {
		uint32_t salt;

		if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
			return -errno;
		rc = stet_servers_path(server->socket, sizeof(server->socket), dir, server->dev,
				       salt, STET_SERVERS_SOCKET);
		if (!rc)
			rc = stet_servers_path(a->record, sizeof(a->record), dir, server->dev, salt,
					       STET_SERVERS_RECORD);
		if (!rc)
			rc = write_record(a->record, server, &a->fd);
	}
	return rc;
}

int stet_ll_announce(struct stet_ll_server *server, struct stet_ll_announced **ret)
{
	struct stet_ll_announced *a = stet_calloc(1, sizeof(*a));
	char dir[PATH_MAX] = "";
	int rc;

	stet_error_clear();
	if (!a)
		return STET_FAIL(-ENOMEM, "no memory for a record");
	a->fd = -1;
	server->pid = getpid();
	server->uid = geteuid();
	rc = stet_servers_identity(server->volume, &server->volume_dev, &server->volume_ino);
	if (!rc)
		rc = stet_servers_dir(dir, sizeof(dir));
	if (!rc) {
		sweep(dir);
		rc = claim_name(dir, server, a);
	}
	if (rc) {
		stet_free(a);
		return STET_FAIL(rc, "%s: %s", dir, strerror(-rc));
	}
	memcpy(a->socket, server->socket, sizeof(a->socket));
	unlink(a->socket); /* nobody's: we hold the record's lock */
	*ret = a;
	return 0;
}

void stet_ll_announce_end(struct stet_ll_announced *announced)
{
	if (!announced)
		return;
	unlink(announced->socket);
	unlink(announced->record);
	close(announced->fd);
	stet_free(announced);
}
