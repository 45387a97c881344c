/* finder.c - where the inodes that a transaction touches stand, before it and after it.
 *
 * The write-set knows inode numbers and names in directories. Paths are made from those names where the
 * transaction has changed them, and else from the state that it began with.
 *
 * N1. Nothing is read through the transaction: looking at its changes must not make it depend on (or
 *     lock) more than it did itself.
 * N2. Each directory has a path before and one after; they differ below a directory that was renamed.
 *     A place is where a name leads to the directory; following places upwards ends at the root,
 *     within STET_FINDER_DEPTH steps.
 * N3. A removed and an added name of the same inode are one rename.
 * N4. Files do not know their names. Those that were changed and not renamed are found by a walk of the
 *     state that the transaction began with, which ends when the last is found. Before, the names are tried
 *     that others know (a server through which they were changed).
 * N5. A directory is listed once, however many of those in it are looked for.
 */
#include "api/finder.h"

#include "base/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 64
#define FOUND_ALL 2 /* ends the walk; not STET_WALK_SKIP */

/* --- places --- */

struct stet_finder_place *stet_finder_place_(struct stet_finder *f, uint64_t ino)
{
	struct stet_hash_node *node = stet_hash_find(&f->places, ino);

	return node ? stet_container_of(node, struct stet_finder_place, node) : NULL;
}

static int remember(struct stet_finder *f, uint64_t ino, uint64_t dir, uint8_t type,
		    const char *name)
{
	struct stet_finder_place *place = stet_finder_place_(f, ino);
	size_t len = strlen(name);
	int rc;

	if (place)
		return 0;
	place = stet_calloc(1, sizeof(*place) + len + 1);
	if (!place)
		return STET_FAIL(-ENOMEM, "no memory for paths");
	place->dir = dir;
	place->type = type;
	memcpy(place->name, name, len);
	rc = stet_hash_insert(&f->places, ino, &place->node);
	if (rc)
		stet_free(place);
	return rc;
}

struct looking {
	uint64_t ino, dir;
	char after[STET_NAME_MAX + 1];
	struct stet_dir_entry entry[BATCH];
	int count;
};

static int read_parent(struct stet_api_op *op, void *arg)
{
	struct looking *l = arg;
	struct stet_fs_attr attr;
	int rc = stet_api_getattr_(op, l->ino, &attr);

	l->dir = rc ? 0 : attr.parent;
	return rc;
}

static int read_names(struct stet_api_op *op, void *arg)
{
	struct looking *l = arg;

	l->count = stet_api_entries_(op, l->dir, l->after, l->entry, BATCH);
	return l->count < 0 ? l->count : 0;
}

/* N5 */
static int remember_dirs(struct stet_finder *f, const struct looking *l)
{
	int rc = 0;

	for (int i = 0; i < l->count && !rc; i++) {
		if (l->entry[i].type == DT_DIR)
			rc = remember(f, l->entry[i].ino, l->dir, DT_DIR, l->entry[i].name);
	}
	return rc;
}

/* Finds the name of a directory in its parent. -ENOENT: it had none before the transaction. */
static int look_up_dir(struct stet_finder *f, uint64_t ino)
{
	struct looking l = { .ino = ino };
	int rc = stet_api_run_(f->vol, f->view, STET_API_READ, read_parent, NULL, &l);

	if (rc)
		return rc;
	do {
		rc = stet_api_run_(f->vol, f->view, STET_API_READ, read_names, NULL, &l);
		if (!rc)
			rc = remember_dirs(f, &l);
		if (rc)
			return rc;
		if (l.count > 0)
			memcpy(l.after, l.entry[l.count - 1].name, sizeof(l.after));
	} while (l.count == BATCH);
	if (stet_finder_place_(f, ino))
		return 0;
	return STET_FAIL(-ENOENT, "directory %llu has no name", (unsigned long long)ino);
}

/* Makes the changed names findable by inode. */
static int index_names(struct stet_finder *f)
{
	size_t n = f->touched.names.n;
	int rc = stet_vec_reserve(&f->refs, n); /* they must not move once they are linked */

	for (size_t i = 0; i < n && !rc; i++) {
		const struct stet_ll_touched_name *name = &f->touched.names.v[i];
		struct stet_name_ref *ref = &f->refs.v[f->refs.n++];

		if (name->old_ino)
			rc = stet_hash_insert(&f->lost, name->old_ino, &ref->lost);
		if (!rc && name->new_ino)
			rc = stet_hash_insert(&f->given, name->new_ino, &ref->given);
	}
	return rc;
}

/* The change that took a name from the inode (BEFORE) or gave it one (AFTER), or NULL. Of several always
 * the same one. */
const struct stet_ll_touched_name *stet_finder_changed_(struct stet_finder *f, uint64_t ino,
							enum stet_when when)
{
	struct stet_hash_node *node = stet_hash_find(when == STET_BEFORE ? &f->lost : &f->given,
						     ino);
	const struct stet_name_ref *ref;

	if (!node)
		return NULL;
	ref = when == STET_BEFORE ? stet_container_of(node, struct stet_name_ref, lost)
				  : stet_container_of(node, struct stet_name_ref, given);
	return &f->touched.names.v[ref - f->refs.v];
}

/* N2. One step up: in which directory, under which name. */
int stet_finder_dir_place_(struct stet_finder *f, uint64_t ino, enum stet_when when,
			   uint64_t *ret_dir, const char **ret_name)
{
	const struct stet_ll_touched_name *changed = stet_finder_changed_(f, ino, when);
	struct stet_finder_place *place;
	int rc = 0;

	if (changed) {
		*ret_dir = changed->dir;
		*ret_name = changed->name;
		return 0;
	}
	place = stet_finder_place_(f, ino);
	if (!place) {
		rc = look_up_dir(f, ino);
		place = stet_finder_place_(f, ino);
	}
	if (rc)
		return rc;
	*ret_dir = place->dir;
	*ret_name = place->name;
	return 0;
}

/* The path of a name in a directory; the caller owns it. */
int stet_finder_path_(struct stet_finder *f, uint64_t dir, const char *last, enum stet_when when,
		      char **ret)
{
	const char *name[STET_FINDER_DEPTH] = { last };
	struct stet_text text;
	size_t depth = 1;
	int rc;

	for (uint64_t at = dir; at != STET_ROOT; depth++) {
		if (depth == STET_FINDER_DEPTH)
			return STET_FAIL(-ELOOP, "more than %d levels", STET_FINDER_DEPTH);
		rc = stet_finder_dir_place_(f, at, when, &at, &name[depth]);
		if (rc)
			return rc;
	}
	stet_text_init(&text);
	while (depth-- > 0) {
		stet_text_puts(&text, "/");
		stet_text_puts(&text, name[depth]);
	}
	*ret = stet_strdup(stet_text_cstr(&text));
	rc = *ret && !text.truncated ? 0 : STET_FAIL(-ENOMEM, "no memory for a path");
	stet_text_release(&text);
	return rc;
}

/* --- what was touched --- */

unsigned stet_finder_what_(unsigned touched)
{
	unsigned what = 0;

	if (touched & (STET_LL_TOUCHED_DATA | STET_LL_TOUCHED_GROWN))
		what |= STET_CHANGED_DATA;
	if (touched & STET_LL_TOUCHED_XATTR)
		what |= STET_CHANGED_XATTR;
	if (touched & STET_API_TOUCHED_OWNER)
		what |= STET_CHANGED_ATTR;
	/* A time that follows from a change of data or names is not worth a word. */
	if ((touched & STET_API_TOUCHED_MTIME) &&
	    !(touched & (STET_LL_TOUCHED_DATA | STET_LL_TOUCHED_GROWN | STET_LL_TOUCHED_NAMES)))
		what |= STET_CHANGED_ATTR;
	return what;
}

static int by_ino(const void *a, const void *b)
{
	uint64_t x = ((const struct stet_ll_touched_ino *)a)->ino;
	uint64_t y = ((const struct stet_ll_touched_ino *)b)->ino;

	return (x > y) - (x < y);
}

const struct stet_ll_touched_ino *stet_finder_touched_(const struct stet_finder *f, uint64_t ino)
{
	struct stet_ll_touched_ino key = { .ino = ino };

	return f->touched.inos.n
		       ? bsearch(&key, f->touched.inos.v, f->touched.inos.n, sizeof(key), by_ino)
		       : NULL;
}

/* N3: the name that the inode had instead of this one, or NULL. */
const struct stet_ll_touched_name *stet_finder_old_name_(struct stet_finder *f,
							 const struct stet_ll_touched_name *name)
{
	if (stet_finder_changed_(f, name->new_ino, STET_AFTER) != name)
		return NULL;
	return stet_finder_changed_(f, name->new_ino, STET_BEFORE);
}

/* Whether the inode itself is to be listed as changed, at a path that is yet to be found: it is where it was. */
bool stet_finder_is_modified_(struct stet_finder *f, const struct stet_ll_touched_ino *touched)
{
	return !(touched->what & (STET_LL_TOUCHED_NEW | STET_LL_TOUCHED_GONE)) &&
	       stet_finder_what_(touched->what) &&
	       (!stet_finder_changed_(f, touched->ino, STET_AFTER) ||
		!stet_finder_changed_(f, touched->ino, STET_BEFORE));
}

/* --- files --- */

struct search {
	struct stet_finder *finder;
	size_t missing;
};

/* The transaction has given it to something else, or taken it away. */
static bool is_changed_name(const struct stet_finder *f, uint64_t dir, const char *name)
{
	size_t low = 0, high = f->touched.names.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct stet_ll_touched_name *at = &f->touched.names.v[mid];
		int order = (at->dir > dir) - (at->dir < dir);

		if (order == 0)
			order = strcmp(at->name, name);
		if (order == 0)
			return true;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

static int meet(void *arg, const struct stet_walk_entry *entry)
{
	struct search *s = arg;
	const struct stet_ll_touched_ino *touched = stet_finder_touched_(s->finder, entry->ino);
	int rc;

	if (!touched || entry->depth == 0 || !stet_finder_is_modified_(s->finder, touched) ||
	    stet_finder_place_(s->finder, entry->ino) ||
	    is_changed_name(s->finder, entry->dir, entry->name))
		return 0;
	rc = remember(s->finder, entry->ino, entry->dir, entry->type, entry->name);
	if (rc)
		return rc;
	return --s->missing == 0 ? FOUND_ALL : 0;
}

struct trying {
	struct stet_ll_name name;
	struct stet_dirent found;
};

static int look_up(struct stet_api_op *op, void *arg)
{
	struct trying *t = arg;

	return stet_fs_lookup(&op->ctx, t->name.dir,
			      stet_api_name_(t->name.name, strlen(t->name.name)), &t->found);
}

/* Tries the names that others know. */
static int ask_others(struct stet_finder *f, uint64_t ino)
{
	struct trying t;

	for (unsigned at = 0; f->names && f->names(f->names_arg, ino, at, &t.name); at++) {
		int rc = is_changed_name(f, t.name.dir, t.name.name)
				 ? -ENOENT
				 : stet_api_run_(f->vol, f->view, STET_API_READ, look_up, NULL, &t);

		if (!rc && t.found.ino == ino)
			return remember(f, ino, t.name.dir, t.found.type, t.name.name);
		if (rc == -EIO || rc == -EUCLEAN || rc == -ENOMEM || rc == -ESTALE)
			return rc; /* anything else: it is no such name */
	}
	return 0;
}

/* N4 */
int stet_finder_search_(struct stet_finder *f)
{
	struct search s = { .finder = f };
	int rc = 0;

	for (size_t i = 0; i < f->touched.inos.n && !rc; i++) {
		const struct stet_ll_touched_ino *touched = &f->touched.inos.v[i];

		if (touched->ino == STET_ROOT || !stet_finder_is_modified_(f, touched) ||
		    stet_finder_place_(f, touched->ino))
			continue;
		rc = ask_others(f, touched->ino);
		s.missing += !stet_finder_place_(f, touched->ino);
	}
	if (rc || s.missing == 0)
		return rc;
	rc = stet_walk(f->vol, f->view, STET_ROOT, "", STET_WALK_PRE, meet, &s);
	return rc == FOUND_ALL ? 0 : rc;
}

/* --- life --- */

static void init(struct stet_finder *f, struct stet_volume *vol)
{
	*f = (struct stet_finder){ .vol = vol };
	stet_hash_init(&f->places, 6);
	stet_hash_init(&f->lost, 6);
	stet_hash_init(&f->given, 6);
}

int stet_finder_open_committed_(struct stet_finder *f, struct stet_volume *vol)
{
	init(f, vol);
	return stet_api_view_begin_(vol, &f->view);
}

int stet_finder_open_(struct stet_finder *f, struct stet_tx *txn, bool claimed)
{
	int rc;

	init(f, txn->vol);
	rc = stet_api_view_like_(txn, &f->view);
	if (!rc) {
		stet_api_lock_(f->vol);
		rc = claimed ? 0 : stet_api_wait_whole_(txn);
		if (!rc)
			rc = stet_api_touched_collect_(txn, &f->touched);
		stet_api_unlock_(f->vol);
	}
	return rc ? rc : index_names(f);
}

void stet_finder_close_(struct stet_finder *f)
{
	struct stet_hash_node *node;

	while ((node = stet_hash_first(&f->places))) {
		stet_hash_remove(&f->places, node);
		stet_free(stet_container_of(node, struct stet_finder_place, node));
	}
	stet_hash_release(&f->places);
	stet_hash_release(&f->lost);
	stet_hash_release(&f->given);
	stet_vec_release(&f->refs);
	stet_api_touched_release_(&f->touched);
	if (f->view)
		stet_api_view_end_(f->view);
}
