/* servers.h - where the sockets and records of those who serve volumes lie. */
#ifndef STET_REMOTE_SERVERS_H
#define STET_REMOTE_SERVERS_H

#include "base/error.h"
#include "stetfs_lowlevel.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STET_SERVERS_RECORD ".mount"
#define STET_SERVERS_SOCKET ".sock"

/** Is that the name of a record? */
static inline bool stet_servers_is_record(const char *name)
{
	size_t len = strlen(name), n = strlen(STET_SERVERS_RECORD);

	return len >= n && strcmp(name + len - n, STET_SERVERS_RECORD) == 0;
}

/** The directory for our own sockets and records, made when missing. -ENAMETOOLONG and as mkdir(2). */
STET_CHECKED int stet_servers_dir(char *ret, size_t cap);
/** "DIR/MAJOR-MINOR-SALT.SUFFIX". -ENAMETOOLONG. */
STET_CHECKED int stet_servers_path(char *ret, size_t cap, const char *dir, uint64_t dev,
				   uint32_t salt, const char *suffix);
/** What identifies a volume. As stat(2). */
STET_CHECKED int stet_servers_identity(const char *path, uint64_t *ret_dev, uint64_t *ret_ino);

#endif
