/* mounted_list.c - listings of directories, and walks, through a mount.
 *
 * I1. A directory is read as a whole when it is opened, and put in the order of the names' bytes:
 *     so no descriptor is held on the way down, and the order is the library's.
 * I2. Directories are remembered (nodes.c), for somebody may go down; of the rest only the last
 *     two that were given out, which is what callers may still ask about.
 */
#include "cli/mounted_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct entry {
	uint64_t ino;
	uint8_t type;
	char *name; /* owned */
};

struct stet_cli_mounted_dir {
	struct stet_cli_nodes *nodes;
	uint64_t dir;
	struct entry *entry;
	size_t count, cap, at;
	uint64_t leaf[2]; /* given out, no directories; 0: none */
};

static void add_entry(struct stet_cli_mounted_dir *it, const struct dirent *d)
{
	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return;
	if (it->count == it->cap) {
		it->cap = it->cap ? it->cap * 2 : 32;
		it->entry = stet_cli_realloc_(it->entry, it->cap * sizeof(*it->entry));
	}
	it->entry[it->count++] = (struct entry){
		.ino = d->d_ino,
		.type = d->d_type,
		.name = stet_cli_strdup_(d->d_name),
	};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int read_all(struct stet_cli_mounted_dir *it, int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;
	DIR *dir;
	int rc;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		rc = -errno;
		close(fd);
		return rc;
	}
	while ((errno = 0, d = readdir(dir)))
		add_entry(it, d);
	rc = -errno;
	closedir(dir);
	if (it->count)
		qsort(it->entry, it->count, sizeof(*it->entry), by_name);
	return rc;
}

int stet_cli_mounted_dir_open_(struct stet_cli_mounted *m, uint64_t dir,
			       struct stet_cli_mounted_dir **ret)
{
	struct stet_cli_mounted_dir *it = stet_cli_alloc_(sizeof(*it));
	int fd;
	int rc;

	*it = (struct stet_cli_mounted_dir){ .nodes = stet_cli_mounted_nodes_(m), .dir = dir };
	rc = stet_cli_nodes_open_(it->nodes, dir, "", O_PATH, 0, &fd);
	if (!rc) {
		rc = read_all(it, fd);
		close(fd);
	}
	if (rc)
		stet_cli_mounted_dir_close_(it);
	else
		*ret = it;
	return rc;
}

/* I2 */
static void remember(struct stet_cli_mounted_dir *it, const struct entry *e)
{
	uint64_t oldest = it->leaf[1];

	stet_cli_nodes_learn_(it->nodes, e->ino, it->dir, e->name, false);
	if (e->type == DT_DIR)
		return;
	if (oldest && oldest != it->leaf[0] && oldest != e->ino)
		stet_cli_nodes_forget_(it->nodes, oldest);
	it->leaf[1] = it->leaf[0];
	it->leaf[0] = e->ino;
}

int stet_cli_mounted_dir_next_(struct stet_cli_mounted_dir *it, struct stet_dir_entry *ret)
{
	const struct entry *e;

	if (it->at == it->count)
		return 0;
	e = &it->entry[it->at++];
	remember(it, e);
	ret->ino = e->ino;
	ret->type = e->type;
	snprintf(ret->name, sizeof(ret->name), "%s", e->name);
	return 1;
}

int stet_cli_mounted_list_(struct stet_cli_mounted *m, uint64_t dir, struct stet_cli_names *ret)
{
	struct stet_cli_mounted_dir *it;
	int rc = stet_cli_mounted_dir_open_(m, dir, &it);

	if (rc)
		return rc;
	for (size_t i = 0; i < it->count; i++)
		stet_cli_names_add_(ret, it->entry[i].name);
	stet_cli_mounted_dir_close_(it);
	return 0;
}

void stet_cli_mounted_dir_close_(struct stet_cli_mounted_dir *it)
{
	if (!it)
		return;
	for (size_t i = 0; i < it->count; i++)
		free(it->entry[i].name);
	free(it->entry);
	free(it);
}

/// Walking ///

struct walk {
	struct stet_cli_mounted *m;
	stet_walk_fn *fn;
	void *arg;
	struct stet_cli_text path;
};

static int walk_dir(struct walk *w, uint64_t dir, uint32_t depth);

static int visit(struct walk *w, uint64_t dir, const struct stet_dir_entry *entry, uint32_t depth)
{
	size_t len = w->path.len;
	struct stet_walk_entry e = {
		.ino = entry->ino,
		.dir = dir,
		.depth = depth,
		.type = entry->type,
	};
	int rc;

	if (len)
		stet_cli_text_add_(&w->path, "/", 1);
	e.name = entry->name;
	stet_cli_text_adds_(&w->path, entry->name);
	e.path = w->path.s;
	rc = w->fn(w->arg, &e);
	if (!rc && entry->type == DT_DIR)
		rc = walk_dir(w, entry->ino, depth);
	else if (rc == STET_WALK_SKIP && entry->type == DT_DIR)
		rc = 0;
	stet_cli_text_cut_(&w->path, len);
	return rc;
}

static int walk_dir(struct walk *w, uint64_t dir, uint32_t depth)
{
	struct stet_cli_mounted_dir *it;
	struct stet_dir_entry entry;
	int rc = depth < STET_CLI_DEPTH_MAX ? stet_cli_mounted_dir_open_(w->m, dir, &it) : -ELOOP;

	if (rc)
		return rc;
	while (!rc && stet_cli_mounted_dir_next_(it, &entry) == 1)
		rc = visit(w, dir, &entry, depth + 1);
	stet_cli_mounted_dir_close_(it);
	return rc;
}

/* As stet_walk with STET_WALK_PRE. */
int stet_cli_mounted_walk_(struct stet_cli_mounted *m, uint64_t dir, const char *path,
			   stet_walk_fn *fn, void *arg)
{
	struct walk w = { .m = m, .fn = fn, .arg = arg };
	struct stet_walk_entry e = { .path = "", .name = "" };
	struct stet_stat st;
	int rc = stet_cli_mounted_statat_(m, dir, path, STET_AT_NOFOLLOW, &st);

	if (rc)
		return rc;
	e.ino = st.ino;
	e.type = (uint8_t)IFTODT(st.mode);
	stet_cli_text_adds_(&w.path, "");
	rc = fn(arg, &e);
	if (!rc && e.type == DT_DIR)
		rc = walk_dir(&w, st.ino, 0);
	else if (rc == STET_WALK_SKIP)
		rc = 0;
	stet_cli_text_release_(&w.path);
	return rc;
}
