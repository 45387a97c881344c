/* changes.c - what a transaction would change, by path. */
#include "api/finder.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* One change, with paths of its own. */
struct found {
	enum stet_change_kind kind;
	unsigned what;
	uint64_t ino;
	uint8_t type, old_type;
	char *path, *old_path; /* owned */
	struct stet_change_attr before, after;
	uint64_t replaced_ino;
	struct stet_change_attr replaced;
};

struct lister {
	struct stet_finder f;
	STET_VEC(struct found) found;
};

static int push(struct lister *l, struct found *found, int rc)
{
	const struct stet_api_attrs *attrs = stet_api_attrs_of_(&l->f.touched, found->ino);

	if (attrs) {
		found->before = attrs->before;
		found->after = attrs->after;
	}
	if (!rc)
		rc = stet_vec_push(&l->found, *found);
	if (rc) {
		stet_free(found->path);
		stet_free(found->old_path);
	}
	return rc;
}

static int add_removed(struct lister *l, const struct stet_ll_touched_name *name, uint8_t type)
{
	struct found found = {
		.kind = STET_CHANGE_REMOVED, .ino = name->old_ino, .type = type, .old_type = type
	};

	return push(l, &found,
		    stet_finder_path_(&l->f, name->dir, name->name, STET_BEFORE, &found.path));
}

/* The path that a name had before, if that was another one. */
static int set_old_path(struct lister *l, uint64_t dir, const char *name, struct found *found)
{
	int rc = stet_finder_path_(&l->f, dir, name, STET_BEFORE, &found->old_path);

	if (!rc && strcmp(found->old_path, found->path) == 0) {
		stet_free(found->old_path);
		found->old_path = NULL;
	}
	return rc;
}

/* What the name led to, if it is nowhere else now because of this transaction. */
static void set_replaced(struct lister *l, const struct stet_ll_touched_name *name,
			 struct found *found)
{
	const struct stet_api_attrs *attrs = stet_api_attrs_of_(&l->f.touched, name->old_ino);

	if (!name->old_ino || stet_finder_changed_(&l->f, name->old_ino, STET_AFTER))
		return;
	found->replaced_ino = name->old_ino;
	if (attrs)
		found->replaced = attrs->before;
}

static int add_given(struct lister *l, const struct stet_ll_touched_name *name,
		     const struct stet_api_types *types)
{
	const struct stet_ll_touched_name *lost = stet_finder_old_name_(&l->f, name);
	const struct stet_ll_touched_ino *touched = stet_finder_touched_(&l->f, name->new_ino);
	struct found found = {
		.kind = name->old_ino ? STET_CHANGE_REPLACED : STET_CHANGE_ADDED,
		.ino = name->new_ino,
		.type = types->new_type,
		.old_type = name->old_ino ? types->old_type : 0,
	};
	int rc = stet_finder_path_(&l->f, name->dir, name->name, STET_AFTER, &found.path);

	set_replaced(l, name, &found);
	if (!rc && lost) {
		found.kind = STET_CHANGE_RENAMED;
		found.what = touched ? stet_finder_what_(touched->what) : 0;
		rc = set_old_path(l, lost->dir, lost->name, &found);
	} else if (!rc && name->old_ino) {
		rc = set_old_path(l, name->dir, name->name, &found);
	}
	return push(l, &found, rc);
}

static int add_names(struct lister *l)
{
	int rc = 0;

	for (size_t i = 0; i < l->f.touched.names.n && !rc; i++) {
		const struct stet_ll_touched_name *name = &l->f.touched.names.v[i];
		const struct stet_api_types *types = &l->f.touched.types.v[i];

		if (name->new_ino)
			rc = add_given(l, name, types);
		else if (!stet_finder_changed_(&l->f, name->old_ino, STET_AFTER) ||
			 stet_finder_changed_(&l->f, name->old_ino, STET_BEFORE) !=
				 name) /* else it is a rename */
			rc = add_removed(l, name, types->old_type);
	}
	return rc;
}

static int add_modified(struct lister *l)
{
	int rc = stet_finder_search_(&l->f);

	for (size_t i = 0; i < l->f.touched.inos.n && !rc; i++) {
		const struct stet_ll_touched_ino *touched = &l->f.touched.inos.v[i];
		struct stet_finder_place *place = stet_finder_place_(&l->f, touched->ino);
		struct found found = { .kind = STET_CHANGE_MODIFIED,
				       .what = stet_finder_what_(touched->what),
				       .ino = touched->ino,
				       .type = place ? place->type : DT_DIR };

		found.old_type = found.type;
		if (!stet_finder_is_modified_(&l->f, touched))
			continue;
		if (touched->ino == STET_ROOT) {
			found.path = stet_strdup("/");
			rc = found.path ? 0 : -ENOMEM;
		} else if (place) {
			rc = stet_finder_path_(&l->f, place->dir, place->name, STET_AFTER,
					       &found.path);
			if (!rc)
				rc = set_old_path(l, place->dir, place->name, &found);
		} else {
			continue; /* without a name from the start: nobody sees it */
		}
		rc = push(l, &found, rc);
	}
	return rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

static int report(struct lister *l, stet_changes_fn *fn, void *arg)
{
	int rc = 0;

	if (l->found.n > 0)
		qsort(l->found.v, l->found.n, sizeof(*l->found.v), by_path);
	for (size_t i = 0; i < l->found.n && !rc; i++) {
		const struct found *found = &l->found.v[i];
		struct stet_tx_change change = {
			.kind = found->kind,
			.what = found->what,
			.ino = found->ino,
			.type = found->type,
			.old_type = found->old_type,
			.path = found->path,
			.old_path = found->old_path,
			.before = found->before,
			.after = found->after,
			.replaced_ino = found->replaced_ino,
			.replaced = found->replaced,
		};

		rc = fn(arg, &change);
	}
	return rc;
}

static void release(struct lister *l)
{
	for (size_t i = 0; i < l->found.n; i++) {
		stet_free(l->found.v[i].path);
		stet_free(l->found.v[i].old_path);
	}
	stet_vec_release(&l->found);
	stet_finder_close_(&l->f);
}

int stet_changes(struct stet_tx *txn, stet_changes_fn *fn, void *arg)
{
	return stet_ll_changes(txn, NULL, NULL, fn, arg);
}

int stet_ll_changes(struct stet_tx *txn, stet_ll_names_fn *names, void *names_arg,
		    stet_changes_fn *fn, void *arg)
{
	struct lister l = { 0 };
	int rc = stet_api_check_handle_(txn);

	if (rc)
		return rc;
	rc = stet_finder_open_(&l.f, txn, false);
	l.f.names = names;
	l.f.names_arg = names_arg;
	if (!rc)
		rc = add_names(&l);
	if (!rc)
		rc = add_modified(&l);
	if (!rc)
		rc = report(&l, fn, arg);
	release(&l);
	return rc;
}
