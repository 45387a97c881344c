/* changes.c - what a transaction would change, by path.
 *
 * The write-set knows inode numbers and names in directories. Paths are made from those names where the
 * transaction has changed them, and else from the committed state as of now.
 *
 * C1. Nothing is read through the transaction: looking at its changes must not make it depend on (or
 *     lock) more than it did itself.
 * C2. Each directory has a path before and one after; they differ below a directory that was renamed.
 *     A place is where a name leads to the directory; following places upwards ends at the root,
 *     within MAX_DEPTH steps.
 * C3. A removed and an added name of the same inode are one rename.
 * C4. Files do not know their names. Those that were changed and not renamed are found by a walk of the
 *     committed state, which ends when the last is found.
 */
#include "api/api_internal.h"

#include "base/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 1024
#define BATCH 64
#define FOUND_ALL 2 /* ends the walk; not STET_WALK_SKIP */

enum when { BEFORE, AFTER };

/* One change, with paths of its own. */
struct found {
	enum stet_change_kind kind;
	unsigned what;
	uint64_t ino;
	uint8_t type;
	char *path, *old_path; /* owned */
};

/* Where a name of a directory or a changed file stands in the committed state. */
struct place {
	struct stet_hash_node node; /* key: inode number */
	uint64_t dir;
	uint8_t type;
	char name[STET_NAME_MAX + 1];
};

struct name_ref {
	struct stet_hash_node lost, given;
};

struct finder {
	struct stet_volume *vol;
	struct stet_tx *view; /* the committed state */
	struct stet_api_touched touched;
	struct stet_hash lost,
		given; /* of struct name_ref, by the inode that lost or got the name */
	STET_VEC(struct name_ref) refs; /* of touched.names, one by one */
	struct stet_hash places;        /* of struct place: what was looked up */
	STET_VEC(struct found) found;
};

/* --- places --- */

static struct place *known_place(struct finder *f, uint64_t ino)
{
	struct stet_hash_node *node = stet_hash_find(&f->places, ino);

	return node ? stet_container_of(node, struct place, node) : NULL;
}

static int remember(struct finder *f, uint64_t ino, uint64_t dir, uint8_t type, const char *name)
{
	struct place *place = known_place(f, ino);
	size_t len = strlen(name);
	int rc;

	if (place)
		return 0;
	place = stet_calloc(1, sizeof(*place));
	if (!place)
		return STET_FAIL(-ENOMEM, "no memory for paths");
	place->dir = dir;
	place->type = type;
	memcpy(place->name, name, len < STET_NAME_MAX ? len : STET_NAME_MAX);
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
	int rc = stet_fs_getattr(&op->ctx, l->ino, &attr);

	l->dir = rc ? 0 : attr.parent;
	return rc;
}

static int read_names(struct stet_api_op *op, void *arg)
{
	struct looking *l = arg;

	l->count = stet_api_entries_(op, l->dir, l->after, l->entry, BATCH);
	return l->count < 0 ? l->count : 0;
}

/* Finds the name of a directory in its parent. -ENOENT: it has none in the committed state. */
static int look_up_dir(struct finder *f, uint64_t ino)
{
	struct looking l = { .ino = ino };
	int rc = stet_api_run_(f->vol, f->view, STET_API_READ, read_parent, NULL, &l);

	if (rc)
		return rc;
	do {
		rc = stet_api_run_(f->vol, f->view, STET_API_READ, read_names, NULL, &l);
		if (rc)
			return rc;
		for (int i = 0; i < l.count; i++)
			if (l.entry[i].ino == ino)
				return remember(f, ino, l.dir, DT_DIR, l.entry[i].name);
		if (l.count > 0)
			memcpy(l.after, l.entry[l.count - 1].name, sizeof(l.after));
	} while (l.count == BATCH);
	return STET_FAIL(-ENOENT, "directory %llu has no name", (unsigned long long)ino);
}

/* Makes the changed names findable by inode. */
static int index_names(struct finder *f)
{
	size_t n = f->touched.names.n;
	int rc = stet_vec_reserve(&f->refs, n); /* they must not move once they are linked */

	for (size_t i = 0; i < n && !rc; i++) {
		const struct stet_ll_touched_name *name = &f->touched.names.v[i];
		struct name_ref *ref = &f->refs.v[f->refs.n++];

		if (name->old_ino)
			rc = stet_hash_insert(&f->lost, name->old_ino, &ref->lost);
		if (!rc && name->new_ino)
			rc = stet_hash_insert(&f->given, name->new_ino, &ref->given);
	}
	return rc;
}

/* The change that took a name from the inode (BEFORE) or gave it one (AFTER), or NULL. Of several always
 * the same one. */
static const struct stet_ll_touched_name *changed_name(struct finder *f, uint64_t ino,
						       enum when when)
{
	struct stet_hash_node *node = stet_hash_find(when == BEFORE ? &f->lost : &f->given, ino);
	const struct name_ref *ref;

	if (!node)
		return NULL;
	ref = when == BEFORE ? stet_container_of(node, struct name_ref, lost)
			     : stet_container_of(node, struct name_ref, given);
	return &f->touched.names.v[ref - f->refs.v];
}

/* C2. One step up: in which directory, under which name. */
static int place_of_dir(struct finder *f, uint64_t ino, enum when when, uint64_t *ret_dir,
			const char **ret_name)
{
	const struct stet_ll_touched_name *changed = changed_name(f, ino, when);
	struct place *place;
	int rc = 0;

	if (changed) {
		*ret_dir = changed->dir;
		*ret_name = changed->name;
		return 0;
	}
	place = known_place(f, ino);
	if (!place) {
		rc = look_up_dir(f, ino);
		place = known_place(f, ino);
	}
	if (rc)
		return rc;
	*ret_dir = place->dir;
	*ret_name = place->name;
	return 0;
}

/* The path of a name in a directory; the caller owns it. */
static int make_path(struct finder *f, uint64_t dir, const char *last, enum when when, char **ret)
{
	const char *name[MAX_DEPTH] = { last };
	struct stet_text text;
	size_t depth = 1;
	int rc;

	for (uint64_t at = dir; at != STET_ROOT; depth++) {
		if (depth == MAX_DEPTH)
			return STET_FAIL(-ELOOP, "more than %d levels", MAX_DEPTH);
		rc = place_of_dir(f, at, when, &at, &name[depth]);
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

/* --- changes --- */

static unsigned public_what(unsigned touched)
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

static const struct stet_ll_touched_ino *touched_ino(const struct finder *f, uint64_t ino)
{
	struct stet_ll_touched_ino key = { .ino = ino };

	return f->touched.inos.n
		       ? bsearch(&key, f->touched.inos.v, f->touched.inos.n, sizeof(key), by_ino)
		       : NULL;
}

static int push(struct finder *f, struct found *found, int rc)
{
	if (!rc)
		rc = stet_vec_push(&f->found, *found);
	if (rc) {
		stet_free(found->path);
		stet_free(found->old_path);
	}
	return rc;
}

static int add_removed(struct finder *f, const struct stet_ll_touched_name *name, uint8_t type)
{
	struct found found = { .kind = STET_CHANGE_REMOVED, .ino = name->old_ino, .type = type };

	return push(f, &found, make_path(f, name->dir, name->name, BEFORE, &found.path));
}

/* C3: the name that the inode had instead of this one, or NULL. */
static const struct stet_ll_touched_name *old_name(struct finder *f,
						   const struct stet_ll_touched_name *name)
{
	if (changed_name(f, name->new_ino, AFTER) != name)
		return NULL;
	return changed_name(f, name->new_ino, BEFORE);
}

static int add_given(struct finder *f, const struct stet_ll_touched_name *name, uint8_t type)
{
	const struct stet_ll_touched_name *lost = old_name(f, name);
	const struct stet_ll_touched_ino *touched = touched_ino(f, name->new_ino);
	struct found found = {
		.kind = name->old_ino ? STET_CHANGE_REPLACED : STET_CHANGE_ADDED,
		.ino = name->new_ino,
		.type = type,
	};
	int rc = make_path(f, name->dir, name->name, AFTER, &found.path);

	if (!rc && lost) {
		found.kind = STET_CHANGE_RENAMED;
		found.what = touched ? public_what(touched->what) : 0;
		rc = make_path(f, lost->dir, lost->name, BEFORE, &found.old_path);
	}
	return push(f, &found, rc);
}

static int add_names(struct finder *f)
{
	int rc = 0;

	for (size_t i = 0; i < f->touched.names.n && !rc; i++) {
		const struct stet_ll_touched_name *name = &f->touched.names.v[i];
		const struct stet_api_types *types = &f->touched.types.v[i];

		if (name->new_ino)
			rc = add_given(f, name, types->new_type);
		else if (!changed_name(f, name->old_ino, AFTER) ||
			 changed_name(f, name->old_ino, BEFORE) != name) /* else it is a rename */
			rc = add_removed(f, name, types->old_type);
	}
	return rc;
}

/* Whether the inode itself is to be listed as changed, at a path that is yet to be found. */
static bool is_modified(struct finder *f, const struct stet_ll_touched_ino *touched)
{
	return !(touched->what & (STET_LL_TOUCHED_NEW | STET_LL_TOUCHED_GONE)) &&
	       public_what(touched->what) && !changed_name(f, touched->ino, AFTER);
}

struct search {
	struct finder *finder;
	size_t missing;
};

static int meet(void *arg, const struct stet_walk_entry *entry)
{
	struct search *s = arg;
	const struct stet_ll_touched_ino *touched = touched_ino(s->finder, entry->ino);
	int rc;

	if (!touched || entry->depth == 0 || !is_modified(s->finder, touched) ||
	    known_place(s->finder, entry->ino))
		return 0;
	rc = remember(s->finder, entry->ino, entry->dir, entry->type, entry->name);
	if (rc)
		return rc;
	return --s->missing == 0 ? FOUND_ALL : 0;
}

/* C4 */
static int search_files(struct finder *f)
{
	struct search s = { .finder = f };
	int rc;

	for (size_t i = 0; i < f->touched.inos.n; i++) {
		const struct stet_ll_touched_ino *touched = &f->touched.inos.v[i];

		if (touched->ino != STET_ROOT && is_modified(f, touched) &&
		    !known_place(f, touched->ino))
			s.missing++;
	}
	if (s.missing == 0)
		return 0;
	rc = stet_walk(f->vol, f->view, STET_ROOT, "", STET_WALK_PRE, meet, &s);
	return rc == FOUND_ALL ? 0 : rc;
}

static int add_modified(struct finder *f)
{
	int rc = search_files(f);

	for (size_t i = 0; i < f->touched.inos.n && !rc; i++) {
		const struct stet_ll_touched_ino *touched = &f->touched.inos.v[i];
		struct place *place = known_place(f, touched->ino);
		struct found found = { .kind = STET_CHANGE_MODIFIED,
				       .what = public_what(touched->what),
				       .ino = touched->ino,
				       .type = place ? place->type : DT_DIR };

		if (!is_modified(f, touched))
			continue;
		if (touched->ino == STET_ROOT) {
			found.path = stet_strdup("/");
			rc = found.path ? 0 : -ENOMEM;
		} else if (place) {
			rc = make_path(f, place->dir, place->name, AFTER, &found.path);
		} else {
			continue; /* removed by another meanwhile: this cannot be committed */
		}
		rc = push(f, &found, rc);
	}
	return rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

static int report(struct finder *f, stet_changes_fn *fn, void *arg)
{
	int rc = 0;

	if (f->found.n > 0)
		qsort(f->found.v, f->found.n, sizeof(*f->found.v), by_path);
	for (size_t i = 0; i < f->found.n && !rc; i++) {
		const struct found *found = &f->found.v[i];
		struct stet_tx_change change = {
			.kind = found->kind,
			.what = found->what,
			.ino = found->ino,
			.type = found->type,
			.path = found->path,
			.old_path = found->old_path,
		};

		rc = fn(arg, &change);
	}
	return rc;
}

static void release(struct finder *f)
{
	struct stet_hash_node *node;

	for (size_t i = 0; i < f->found.n; i++) {
		stet_free(f->found.v[i].path);
		stet_free(f->found.v[i].old_path);
	}
	stet_vec_release(&f->found);
	while ((node = stet_hash_first(&f->places))) {
		stet_hash_remove(&f->places, node);
		stet_free(stet_container_of(node, struct place, node));
	}
	stet_hash_release(&f->places);
	stet_hash_release(&f->lost);
	stet_hash_release(&f->given);
	stet_vec_release(&f->refs);
	stet_api_touched_release_(&f->touched);
	if (f->view)
		stet_api_view_end_(f->view);
}

int stet_changes(struct stet_tx *txn, stet_changes_fn *fn, void *arg)
{
	struct finder f = { .vol = txn ? txn->vol : NULL };
	int rc = stet_api_check_handle_(txn);

	if (rc)
		return rc;
	stet_hash_init(&f.places, 6);
	stet_hash_init(&f.lost, 6);
	stet_hash_init(&f.given, 6);
	rc = stet_api_view_begin_(f.vol, &f.view);
	if (!rc) {
		stet_api_lock_(f.vol);
		rc = stet_api_tx_usable_(txn);
		if (!rc)
			rc = stet_api_touched_collect_(txn, &f.touched);
		stet_api_unlock_(f.vol);
	}
	if (!rc)
		rc = index_names(&f);
	if (!rc)
		rc = add_names(&f);
	if (!rc)
		rc = add_modified(&f);
	if (!rc)
		rc = report(&f, fn, arg);
	release(&f);
	return rc;
}
