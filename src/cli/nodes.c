/* nodes.c - inode numbers of a mounted volume: which names lead to them.
 *
 * The library's calls take an inode number and a path from there; the system's take a descriptor.
 * So for each number that a command has met, it is remembered where that was.
 *
 * I1. Every path is resolved as if the volume's root were the root of all (RESOLVE_IN_ROOT): no
 *     symbolic link and no ".." leads out of it. What others have mounted below it is not
 *     entered (EXDEV).
 * I2. The tree is a transaction's view, which only this command changes. All the same, what a
 *     name leads to is compared with the number: a node that is another one now is -ENOENT.
 * I3. Only FDS_MAX directories are held open, whatever the tree's depth.
 */
#include "cli/mounted_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_MAX 64u
#define TRIES_MAX 64

struct node {
	uint64_t ino;
	uint64_t dir; /* path is from here */
	bool follow;
	int fd;     /* directories: open with O_PATH; -1: not now */
	char *path; /* owned */
};

struct stet_cli_nodes {
	int root_fd;
	void *tree;                   /* of struct node, by ino */
	struct node *opened[FDS_MAX]; /* those with a descriptor (I3); NULL: free */
	unsigned next;                /* the place that is used next */
};

static int by_ino(const void *a, const void *b)
{
	const struct node *na = a, *nb = b;

	return na->ino < nb->ino ? -1 : na->ino > nb->ino;
}

static struct node *find(const struct stet_cli_nodes *nodes, uint64_t ino)
{
	struct node key = { .ino = ino };
	struct node **found = tfind(&key, &nodes->tree, by_ino);

	return found ? *found : NULL;
}

static void close_node(struct stet_cli_nodes *nodes, struct node *node)
{
	for (unsigned i = 0; node->fd >= 0 && i < FDS_MAX; i++) {
		if (nodes->opened[i] == node)
			nodes->opened[i] = NULL;
	}
	if (node->fd >= 0)
		close(node->fd);
	node->fd = -1;
}

/* Takes over fd (I3). */
static void keep_open(struct stet_cli_nodes *nodes, struct node *node, int fd)
{
	unsigned at = nodes->next;

	if (nodes->opened[at])
		close_node(nodes, nodes->opened[at]);
	node->fd = fd;
	nodes->opened[at] = node;
	nodes->next = (at + 1) % FDS_MAX;
}

struct stet_cli_nodes *stet_cli_nodes_create_(int root_fd)
{
	struct stet_cli_nodes *nodes = stet_cli_alloc_(sizeof(*nodes));

	*nodes = (struct stet_cli_nodes){ .root_fd = root_fd };
	return nodes;
}

static void free_node(void *p)
{
	struct node *node = p;

	if (node->fd >= 0)
		close(node->fd);
	free(node->path);
	free(node);
}

void stet_cli_nodes_destroy_(struct stet_cli_nodes *nodes)
{
	tdestroy(nodes->tree, free_node);
	free(nodes);
}

void stet_cli_nodes_learn_(struct stet_cli_nodes *nodes, uint64_t ino, uint64_t dir,
			   const char *path, bool follow)
{
	struct node *node = find(nodes, ino);

	if (ino == STET_ROOT || !path[0])
		return;
	if (!node) {
		node = stet_cli_alloc_(sizeof(*node));
		*node = (struct node){ .ino = ino, .fd = -1 };
		if (!tsearch(node, &nodes->tree, by_ino))
			abort(); /* no memory */
	} else if (node->dir == dir && node->follow == follow && strcmp(node->path, path) == 0) {
		return;
	}
	close_node(nodes, node);
	free(node->path);
	node->dir = dir;
	node->follow = follow;
	node->path = stet_cli_strdup_(path);
}

void stet_cli_nodes_forget_(struct stet_cli_nodes *nodes, uint64_t ino)
{
	struct node *node = find(nodes, ino);

	if (!node)
		return;
	tdelete(node, &nodes->tree, by_ino);
	close_node(nodes, node);
	free_node(node);
}

/// Opening ///

/* I1. A rename elsewhere may disturb a path with "..": -EAGAIN, which passes. */
static int open_below(int dir_fd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
	};
	long fd = -1;

	for (int i = 0; i < TRIES_MAX; i++) {
		fd = syscall(SYS_openat2, dir_fd, path[0] ? path : ".", &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

/* I2. */
static int check_node(int fd, const struct node *node, bool *ret_is_dir)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	*ret_is_dir = S_ISDIR(st.st_mode);
	return st.st_ino == node->ino ? 0 : -ENOENT;
}

/* Opens the node from the descriptor of its directory, and keeps a directory open. *ret_fd is the
 * caller's, unless it was kept. */
static int open_node(struct stet_cli_nodes *nodes, int dir_fd, struct node *node, int *ret_fd)
{
	int fd = open_below(dir_fd, node->path, O_PATH | (node->follow ? 0 : O_NOFOLLOW), 0);
	bool is_dir = false;
	int rc;

	if (fd < 0)
		return fd;
	rc = check_node(fd, node, &is_dir);
	if (rc) {
		close(fd);
		return rc;
	}
	if (is_dir)
		keep_open(nodes, node, fd);
	*ret_fd = fd;
	return 0;
}

/* The chain of nodes from ino up to one that is open, or the root. */
static size_t chain_of(struct stet_cli_nodes *nodes, uint64_t ino, struct node ***ret)
{
	struct node **chain = NULL;
	size_t count = 0;

	while (ino != STET_ROOT && count <= STET_CLI_DEPTH_MAX + 1) {
		struct node *node = find(nodes, ino);

		chain = stet_cli_realloc_(chain, (count + 1) * sizeof(*chain));
		chain[count++] = node; /* NULL: not known */
		if (!node || node->fd >= 0)
			break;
		ino = node->dir;
	}
	*ret = chain;
	return count;
}

/* A descriptor of the inode itself; *ret_own: the caller closes it. */
static int open_ino(struct stet_cli_nodes *nodes, uint64_t ino, int *ret_fd, bool *ret_own)
{
	struct node **chain;
	size_t i = chain_of(nodes, ino, &chain);
	int fd = nodes->root_fd;
	int rc = 0;

	if (i && !chain[i - 1])
		rc = -ENOENT;
	else if (i && chain[i - 1]->fd >= 0)
		fd = chain[--i]->fd;
	else if (i && chain[i - 1]->dir != STET_ROOT)
		rc = -ELOOP; /* too deep */
	*ret_own = false;
	while (!rc && i > 0) {
		struct node *node = chain[--i];

		rc = open_node(nodes, fd, node, &fd);
		*ret_own = !rc && node->fd < 0;
		if (!rc && node->fd < 0 && i > 0) {
			close(fd); /* no directory: nothing lies below */
			rc = -ENOTDIR;
		}
	}
	free(chain);
	if (!rc)
		*ret_fd = fd;
	return rc;
}

int stet_cli_nodes_open_(struct stet_cli_nodes *nodes, uint64_t dir, const char *path, int flags,
			 mode_t mode, int *ret_fd)
{
	bool own = false;
	int fd, found;
	int rc = open_ino(nodes, dir, &fd, &own);

	if (rc)
		return rc;
	if (path[0])
		found = open_below(fd, path, flags, mode);
	else
		found = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* O_PATH, as asked */
	if (found < 0 && !path[0])
		found = -errno;
	if (own)
		close(fd);
	if (found < 0)
		return found;
	*ret_fd = found;
	return 0;
}

int stet_cli_nodes_parent_(struct stet_cli_nodes *nodes, uint64_t dir, const char *path,
			   int *ret_fd, const char **ret_name)
{
	size_t end = strlen(path);
	char *above;
	int rc;

	while (end && path[end - 1] == '/')
		end--;
	while (end && path[end - 1] != '/')
		end--;
	above = stet_cli_strdup_(path);
	above[end] = '\0';
	rc = stet_cli_nodes_open_(nodes, dir, above, O_PATH | O_DIRECTORY, 0, ret_fd);
	free(above);
	*ret_name = path[end] ? path + end : ".";
	return rc;
}
