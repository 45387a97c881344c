/* mounted_internal.h - a volume that a daemon has mounted, used through that mount.
 *
 * The calls have the meaning and the results of the library's of the same name (stetfs.h), in the
 * transaction that stet_cli_mounted_open_ began. Who may do what, the kernel decides.
 */
#ifndef STET_CLI_MOUNTED_INTERNAL_H
#define STET_CLI_MOUNTED_INTERNAL_H

#include "cli/cli_internal.h"

struct stet_cli_mounted;

/// The mount and its transaction (mounted.c) ///

/**
 * Begins a transaction, a read-only one without `write`, with the daemon that has the volume at
 * path. Returns an exit code; -1: no daemon has it.
 */
int stet_cli_mounted_open_(const char *path, bool write, struct stet_cli_mounted **ret);
/** With code 0 commits, else aborts. Returns code, or STET_CLI_FAILED. */
int stet_cli_mounted_close_(struct stet_cli_mounted *m, const char *path, int code);
/** Creation time and data version, which the system's calls do not give. 0 or negative errno. */
int stet_cli_mounted_more_(struct stet_cli_mounted *m, uint64_t ino, struct stet_stat *st);

/// Inode numbers as names (nodes.c) ///

struct stet_cli_nodes;

/** root_fd is borrowed. */
struct stet_cli_nodes *stet_cli_nodes_create_(int root_fd);
void stet_cli_nodes_destroy_(struct stet_cli_nodes *nodes);
struct stet_cli_nodes *stet_cli_mounted_nodes_(const struct stet_cli_mounted *m);

/** Remembers that ino is found at path from dir; follow: where the link leads that is there. */
void stet_cli_nodes_learn_(struct stet_cli_nodes *nodes, uint64_t ino, uint64_t dir,
			   const char *path, bool follow);
/** Forgets it. */
void stet_cli_nodes_forget_(struct stet_cli_nodes *nodes, uint64_t ino);
/** Opens what is at path from dir ("": dir itself) with O_PATH, or with these flags and mode. The
 * caller owns *ret_fd. */
int stet_cli_nodes_open_(struct stet_cli_nodes *nodes, uint64_t dir, const char *path, int flags,
			 mode_t mode, int *ret_fd);
/** Opens the directory that the last component of path is in, with O_PATH; *ret_name is that
 * component, borrowed from path. */
int stet_cli_nodes_parent_(struct stet_cli_nodes *nodes, uint64_t dir, const char *path,
			   int *ret_fd, const char **ret_name);

/// Calls (mounted_files.c) ///

int stet_cli_mounted_statat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			     unsigned flags, struct stet_stat *ret);
int stet_cli_mounted_setattrat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
				unsigned flags, const struct stet_setattr *set);
ssize_t stet_cli_mounted_readlinkat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
				     char *buf, size_t cap);
ssize_t stet_cli_mounted_listxattr_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
				    char *buf, size_t cap);
ssize_t stet_cli_mounted_getxattr_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
				   const char *xattr, void *buf, size_t cap);
int stet_cli_mounted_setxattr_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			       const char *xattr, const void *value, size_t len);
int stet_cli_mounted_openat_(struct stet_cli_mounted *m, uint64_t dir, const char *path, int flags,
			     mode_t mode, int *ret_fd);
int stet_cli_mounted_mkdirat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			      mode_t mode);
int stet_cli_mounted_symlinkat_(struct stet_cli_mounted *m, const char *target, uint64_t dir,
				const char *path);
int stet_cli_mounted_mknodat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			      mode_t mode, uint64_t rdev);
int stet_cli_mounted_linkat_(struct stet_cli_mounted *m, uint64_t from_dir, const char *from,
			     uint64_t to_dir, const char *to);
int stet_cli_mounted_renameat_(struct stet_cli_mounted *m, uint64_t from_dir, const char *from,
			       uint64_t to_dir, const char *to);
int stet_cli_mounted_unlinkat_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			       unsigned flags);

/// Listings (mounted_list.c) ///

struct stet_cli_mounted_dir;

int stet_cli_mounted_dir_open_(struct stet_cli_mounted *m, uint64_t dir,
			       struct stet_cli_mounted_dir **ret);
int stet_cli_mounted_dir_next_(struct stet_cli_mounted_dir *it, struct stet_dir_entry *ret);
void stet_cli_mounted_dir_close_(struct stet_cli_mounted_dir *it);
/** All names; remembers nothing. */
int stet_cli_mounted_list_(struct stet_cli_mounted *m, uint64_t dir, struct stet_cli_names *ret);
int stet_cli_mounted_walk_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			   stet_walk_fn *fn, void *arg);

#endif
