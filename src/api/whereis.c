/* whereis.c - what a conflict is about, by its path: for people.
 *
 * W1. Paths are those of the committed state as of now, which nobody's transaction depends on. What
 *     another has removed meanwhile has none, and is told by its number.
 * W2. A directory leads to its path. A file does not: it is looked for among the first WALK_MAX names
 *     of the volume, and of a larger one perhaps not found. So asking takes a limited time.
 */
#include "api/finder.h"

#include "base/text.h"
#include "format/key.h"

#include <string.h>

#define WALK_MAX 100000u
#define ENDED 2 /* the walk; not STET_WALK_SKIP */

struct meeting {
	uint64_t ino;
	unsigned left;
	char *path; /* owned */
};

static int meet(void *arg, const struct stet_walk_entry *entry)
{
	struct meeting *m = arg;
	size_t size = strlen(entry->path) + 1;

	if (entry->ino == m->ino) {
		m->path = stet_calloc(1, size + 1);
		if (m->path) {
			m->path[0] = '/'; /* it starts at the root, without it */
			memcpy(m->path + 1, entry->path, size);
		}
		return ENDED;
	}
	return --m->left == 0 ? ENDED : 0;
}

/* The path of an inode, owned by the caller; NULL: it is not found. */
static char *find_inode(struct stet_finder *f, uint64_t ino)
{
	struct meeting m = { .ino = ino, .left = WALK_MAX };
	const char *name;
	char *path = NULL;
	uint64_t dir;

	if (ino == STET_ROOT)
		return stet_strdup("/");
	if (stet_finder_dir_place_(f, ino, STET_BEFORE, &dir, &name) == 0 &&
	    stet_finder_path_(f, dir, name, STET_BEFORE, &path) == 0)
		return path;
	if (stet_walk(f->vol, f->view, STET_ROOT, "", STET_WALK_PRE, meet, &m) < 0) {
		stet_free(m.path);
		return NULL;
	}
	return m.path;
}

static char *find_name(struct stet_finder *f, uint64_t dir, const void *name, size_t len)
{
	char text[STET_NAME_MAX + 1] = "";
	char *path = NULL;

	memcpy(text, name, len < STET_NAME_MAX ? len : STET_NAME_MAX);
	return stet_finder_path_(f, dir, text, STET_BEFORE, &path) == 0 ? path : NULL;
}

static void print(struct stet_text *ret, const char *before, const char *path)
{
	stet_text_puts(ret, before);
	stet_text_name(ret, path, strlen(path));
}

bool stet_api_where_(struct stet_volume *vol, const struct stet_key *key, struct stet_text *ret)
{
	const size_t head = sizeof(uint64_t) + 1; /* what a name follows */
	uint8_t kind = stet_key_get_kind(key->b);
	uint64_t ino = stet_key_object(key->b);
	struct stet_finder f;
	char *path = NULL;

	if (stet_finder_open_committed_(&f, vol) == 0)
		path = kind == STET_KIND_DIRENT
			       ? find_name(&f, ino, key->b + head, key->bytes - head)
			       : find_inode(&f, ino);
	stet_finder_close_(&f);
	if (!path)
		return false;
	if (kind == STET_KIND_RECORD) {
		stet_text_puts(ret, "the record ");
		stet_text_name(ret, key->b + head, key->bytes - head);
		print(ret, " of table ", path);
	} else if (kind == STET_KIND_XATTR) {
		stet_text_name(ret, key->b + head, key->bytes - head);
		print(ret, " of ", path);
	} else {
		print(ret, kind == STET_KIND_DIRENT ? "the name " : "", path);
	}
	stet_free(path);
	return !ret->truncated;
}
