/* walk.c - a description of a whole tree, to be compared with a later one. */
#include "names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

struct line {
	char *text;
	uint64_t ino, nlink;
	bool is_dir;
};

struct walk {
	struct line *line;
	size_t count, cap;
	size_t skip; /* bytes of the root's path */
};

/* --- sectors --- */

static uint64_t sum_of(const uint64_t *word)
{
	uint64_t sum = 0;

	for (size_t i = 1; i < SECTOR / 8; i++) {
		struct ex_chance mix = { word[i] ^ sum };

		sum = ex_random(&mix);
	}
	return sum;
}

void sector_make(void *sector, uint64_t seed)
{
	uint64_t word[SECTOR / 8];

	ex_fill(word, seed, 0, sizeof(word));
	word[0] = sum_of(word);
	memcpy(sector, word, sizeof(word));
}

bool sector_is_whole(const void *sector)
{
	static const uint64_t zeros[SECTOR / 8];
	uint64_t word[SECTOR / 8];

	memcpy(word, sector, sizeof(word));
	return memcmp(word, zeros, sizeof(word)) == 0 || word[0] == sum_of(word);
}

/* --- what a line says --- */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t hash_file(const char *path, size_t size)
{
	uint8_t sector[SECTOR];
	uint64_t hash = 0;
	size_t seen = 0;
	int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		ex_fail_errno("open %s", path);
	while ((n = read(fd, sector, SECTOR)) > 0) {
		if (n != SECTOR || !sector_is_whole(sector))
			ex_fail("%s: the sector at %zu is not whole (%zd bytes)", path, seen, n);
		hash = hash_bytes(hash, sector, SECTOR);
		seen += SECTOR;
	}
	if (n < 0)
		ex_fail_errno("read %s", path);
	if (seen != size)
		ex_fail("%s: %zu bytes read, size %zu", path, seen, size);
	close(fd);
	return hash;
}

static uint64_t hash_xattrs(const char *path)
{
	char names[1024], value[256];
	ssize_t len = llistxattr(path, names, sizeof(names));
	uint64_t hash = 0;

	if (len < 0)
		ex_fail_errno("llistxattr %s", path);
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t n = lgetxattr(path, names + at, value, sizeof(value));

		if (n < 0)
			ex_fail_errno("lgetxattr %s %s", path, names + at);
		hash += hash_bytes(hash_bytes(1, names + at, strlen(names + at)), value, (size_t)n);
	}
	return hash;
}

static uint64_t hash_content(const char *path, const struct stat *st)
{
	char target[PATH_MAX];
	ssize_t n;

	if (S_ISREG(st->st_mode))
		return hash_file(path, (size_t)st->st_size);
	if (!S_ISLNK(st->st_mode))
		return 0;
	n = readlink(path, target, sizeof(target));
	if (n != st->st_size)
		ex_fail("%s: target of %zd bytes, size %lld", path, n, (long long)st->st_size);
	return hash_bytes(0, target, (size_t)n);
}

static void add_line(struct walk *walk, const char *path, const char *shown, const struct stat *st)
{
	struct line *line;
	int n;

	if (walk->count == walk->cap) {
		walk->cap = walk->cap ? walk->cap * 2 : 256;
		walk->line = realloc(walk->line, walk->cap * sizeof(*walk->line));
		if (!walk->line)
			ex_fail("no memory");
	}
	line = &walk->line[walk->count++];
	line->ino = st->st_ino;
	line->nlink = st->st_nlink;
	line->is_dir = S_ISDIR(st->st_mode);
	n = asprintf(&line->text,
		     "%s ino %llu mode %o nlink %llu owner %u:%u size %lld rdev %llx mtime "
		     "%lld.%09ld ctime %lld.%09ld xattrs %llx content %llx\n",
		     shown, (unsigned long long)st->st_ino, st->st_mode,
		     (unsigned long long)st->st_nlink, st->st_uid, st->st_gid,
		     (long long)(S_ISDIR(st->st_mode) ? 0 : st->st_size),
		     (unsigned long long)st->st_rdev, (long long)st->st_mtim.tv_sec,
		     st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec,
		     (unsigned long long)hash_xattrs(path),
		     (unsigned long long)hash_content(path, st));
	if (n < 0)
		ex_fail("no memory");
}

/* --- walking --- */

/* path is that of the directory, of len bytes, in a buffer of PATH_MAX; it is as before
 * afterwards. */
static void walk_dir(struct walk *walk, char *path, size_t len, uint64_t nlink)
{
	DIR *dir = opendir(path);
	uint64_t dirs = 0;
	struct dirent *e;

	if (!dir)
		ex_fail_errno("opendir %s", path);
	while ((errno = 0, e = readdir(dir))) {
		struct stat st;
		int n;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		n = snprintf(path + len, PATH_MAX - len, "/%s", e->d_name);
		if (lstat(path, &st) != 0)
			ex_fail_errno("listed, but: stat %s", path);
		if (st.st_ino != e->d_ino || IFTODT(st.st_mode) != e->d_type)
			ex_fail("%s: not the inode or type that is listed", path);
		add_line(walk, path, path + walk->skip, &st);
		dirs += S_ISDIR(st.st_mode);
		if (S_ISDIR(st.st_mode))
			walk_dir(walk, path, len + (size_t)n, st.st_nlink);
	}
	if (errno)
		ex_fail_errno("readdir %s", path);
	closedir(dir);
	path[len] = 0;
	if (nlink != dirs + 2)
		ex_fail("%s: link count %llu with %llu directories", path,
			(unsigned long long)nlink, (unsigned long long)dirs);
}

static int by_ino(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return (x->ino > y->ino) - (x->ino < y->ino);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

/* A file has as many names as it says. */
static void check_links(struct walk *walk)
{
	qsort(walk->line, walk->count, sizeof(*walk->line), by_ino);
	for (size_t i = 0; i < walk->count;) {
		const struct line *line = &walk->line[i];
		size_t n = 1;

		while (i + n < walk->count && line[n].ino == line->ino)
			n++;
		if (n != (line->is_dir ? 1 : line->nlink))
			ex_fail("%zu names, but: %s", n, line->text);
		i += n;
	}
}

char *walk_tree(const char *root, size_t *ret_names)
{
	struct walk walk = { .skip = strlen(root) };
	char path[PATH_MAX];
	size_t size = 1;
	struct stat st;
	char *text, *at;

	if (stat(root, &st) != 0)
		ex_fail_errno("stat %s", root);
	snprintf(path, sizeof(path), "%s", root);
	walk_dir(&walk, path, walk.skip, st.st_nlink);
	check_links(&walk);
	if (walk.count)
		qsort(walk.line, walk.count, sizeof(*walk.line), by_text);
	for (size_t i = 0; i < walk.count; i++)
		size += strlen(walk.line[i].text);
	text = at = malloc(size);
	if (!text)
		ex_fail("no memory");
	*at = 0;
	for (size_t i = 0; i < walk.count; i++) {
		at = stpcpy(at, walk.line[i].text);
		free(walk.line[i].text);
	}
	free(walk.line);
	*ret_names = walk.count;
	return text;
}

void compare_trees(const char *a, const char *b, const char *when)
{
	while (*a || *b) {
		size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");

		if (n != m || memcmp(a, b, n) != 0) {
			printf("  was: %.*s\n  is:  %.*s\n", (int)n, a, (int)m, b);
			ex_fail("the tree is not as it was: %s", when);
		}
		a += n + (a[n] != 0);
		b += m + (b[m] != 0);
	}
}
