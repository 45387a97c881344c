/* revert.c - giving up a part of a transaction, by path.
 *
 * What is chosen is names and inodes; what follows from them (counts, times of directories) goes with them
 * (fs/revert.c). The rest must stand alone, and that is decided here before anything is changed.
 *
 * G1. The two names of a rename are one: whoever chooses one, has chosen both. Where the old name leads to
 *     something else now, there are two changes of one name, and only both together can go or stay.
 * G2. A directory that would not be there may hold nothing that is kept: neither new names in a new one that is
 *     given up, nor old ones that come back to one whose removal is kept.
 * G3. Directories that moved, some of them back, still all lie below the root.
 * G4. An inode is given up when nothing that is kept names it or changes it. One that no path was found for
 *     (another has removed it) counts as one of the others.
 * G5. While this lasts, calls in the transaction give EAGAIN, as while it is committed.
 */
#include "api/finder.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wanted {
	const char *path; /* without slashes around it */
	size_t len;
	bool met;
};

struct part {
	struct stet_finder f;
	struct wanted *wanted;
	size_t wanted_count;
	bool others;
	bool *chosen;   /* of f.touched.names, one by one */
	bool *given_up; /* of f.touched.inos */
	bool *listed;   /* of f.touched.inos: a change is listed for it */
	struct stet_fs_changed_name *name;
	uint64_t *ino;
	size_t ino_count;
	char *why;
	size_t cap;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct part *p, int rc,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (p->cap > 0)
		vsnprintf(p->why, p->cap, format, args);
	va_end(args);
	return STET_FAIL(rc, "a part of a transaction cannot be given up");
}

/* --- choosing --- */

static int by_bytes(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;
	int order = memcmp(x->path, y->path, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Is it one of the paths, or below one? Each of its own beginnings is looked up. */
static bool is_wanted(struct part *p, const char *path)
{
	bool ret = false;
	size_t len = 0;

	path++; /* of stet_finder_path_: one slash leads */
	for (;;) {
		const struct wanted key = { .path = path, .len = len };
		struct wanted *w = p->wanted_count ? bsearch(&key, p->wanted, p->wanted_count,
							     sizeof(key), by_bytes)
						   : NULL;

		if (w)
			ret = w->met = true;
		if (path[len] == 0)
			return ret;
		len += path[len] == '/';
		len += strcspn(path + len, "/");
	}
}

static int path_of(struct part *p, size_t i, char **ret)
{
	const struct stet_ll_touched_name *name = &p->f.touched.names.v[i];

	return stet_finder_path_(&p->f, name->dir, name->name,
				 name->new_ino ? STET_AFTER : STET_BEFORE, ret);
}

/* G1 */
static int join_rename(struct part *p, size_t i)
{
	const struct stet_ll_touched_name *names = p->f.touched.names.v;
	const struct stet_ll_touched_name *lost = names[i].new_ino
							  ? stet_finder_old_name_(&p->f, &names[i])
							  : NULL;
	char *path = NULL;
	size_t at;
	int rc;

	if (!lost)
		return 0;
	at = (size_t)(lost - names);
	if (p->chosen[i] == p->chosen[at])
		return 0;
	if (!lost->new_ino) {
		p->chosen[i] = p->chosen[at] = true;
		return 0;
	}
	rc = path_of(p, at, &path);
	if (!rc)
		rc = refuse(p, -EINVAL,
			    "%s was given to something else when what it led to was renamed: "
			    "both go, or both stay",
			    path);
	stet_free(path);
	return rc;
}

/* By the path that it is listed with, or the old one (see struct stet_change). */
static int choose_name(struct part *p, size_t i)
{
	const struct stet_ll_touched_name *name = &p->f.touched.names.v[i];
	const struct stet_ll_touched_name *lost = name->new_ino ? stet_finder_old_name_(&p->f, name)
								: NULL;
	char *path;
	int rc = path_of(p, i, &path);

	if (rc)
		return rc;
	p->chosen[i] = is_wanted(p, path);
	stet_free(path);
	if (!lost && !(name->new_ino && name->old_ino))
		return 0;
	if (!lost)
		lost = name;
	rc = stet_finder_path_(&p->f, lost->dir, lost->name, STET_BEFORE, &path);
	if (rc)
		return rc;
	p->chosen[i] |= is_wanted(p, path);
	stet_free(path);
	return 0;
}

static int choose_names(struct part *p)
{
	size_t n = p->f.touched.names.n;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++)
		rc = choose_name(p, i);
	for (size_t i = 0; i < n && !rc; i++)
		rc = join_rename(p, i);
	return rc;
}

static size_t touched_at(const struct part *p, uint64_t ino)
{
	const struct stet_ll_touched_ino *t = stet_finder_touched_(&p->f, ino);

	return t ? (size_t)(t - p->f.touched.inos.v) : SIZE_MAX;
}

static bool name_is_reverted(const struct part *p, size_t i)
{
	return p->chosen[i] != p->others;
}

/* A change of the inode, or of a name of it, stays or goes. */
static void note_inode(struct part *p, uint64_t ino, bool stays)
{
	size_t at = ino ? touched_at(p, ino) : SIZE_MAX;

	if (at == SIZE_MAX)
		return;
	if (!p->listed[at])
		p->given_up[at] = true;
	p->listed[at] = true;
	if (stays)
		p->given_up[at] = false;
}

static int refuse_shared(struct part *p, const char *path)
{
	return refuse(p, -EINVAL,
		      "%s: what was changed in it is shared by another name of the same file, "
		      "which stays",
		      path);
}

/* The path of an inode that is listed as changed, or the old one; *ret NULL: there is none. */
static int modified_path(struct part *p, const struct stet_ll_touched_ino *touched,
			 enum stet_when when, char **ret)
{
	const struct stet_finder_place *place = stet_finder_place_(&p->f, touched->ino);

	*ret = NULL;
	if (touched->ino == STET_ROOT)
		*ret = stet_strdup("/");
	else if (place)
		return stet_finder_path_(&p->f, place->dir, place->name, when, ret);
	else
		return 0;
	return *ret ? 0 : STET_FAIL(-ENOMEM, "no memory for a path");
}

static int choose_content(struct part *p, size_t at, const char *path, const char *old_path)
{
	bool chosen = is_wanted(p, path);
	bool stays;

	chosen = is_wanted(p, old_path) || chosen;
	stays = chosen == p->others;
	if (!stays && p->listed[at] && !p->given_up[at])
		return refuse_shared(p, path);
	note_inode(p, p->f.touched.inos.v[at].ino, stays);
	return 0;
}

static int choose_modified(struct part *p)
{
	int rc = stet_finder_search_(&p->f);

	for (size_t i = 0; i < p->f.touched.inos.n && !rc; i++) {
		const struct stet_ll_touched_ino *touched = &p->f.touched.inos.v[i];
		char *path = NULL, *old_path = NULL;

		if (!stet_finder_is_modified_(&p->f, touched))
			continue;
		rc = modified_path(p, touched, STET_AFTER, &path);
		if (!rc && path)
			rc = modified_path(p, touched, STET_BEFORE, &old_path);
		if (!rc && path)
			rc = choose_content(p, i, path, old_path);
		stet_free(path);
		stet_free(old_path);
	}
	return rc;
}

/* What was changed in a file that was renamed goes with the rename. */
static int check_renamed(struct part *p, size_t i)
{
	const struct stet_ll_touched_name *name = &p->f.touched.names.v[i];
	size_t at = name->new_ino ? touched_at(p, name->new_ino) : SIZE_MAX;
	char *path;
	int rc;

	if (at == SIZE_MAX || p->given_up[at] || !name_is_reverted(p, i) ||
	    !stet_finder_what_(p->f.touched.inos.v[at].what) || !stet_finder_old_name_(&p->f, name))
		return 0;
	rc = path_of(p, i, &path);
	if (rc)
		return rc;
	rc = refuse_shared(p, path);
	stet_free(path);
	return rc;
}

static int choose_inodes(struct part *p)
{
	size_t n = p->f.touched.names.n;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		note_inode(p, p->f.touched.names.v[i].old_ino, !name_is_reverted(p, i));
		note_inode(p, p->f.touched.names.v[i].new_ino, !name_is_reverted(p, i));
	}
	for (size_t i = 0; i < n && !rc; i++)
		rc = check_renamed(p, i);
	return rc ? rc : choose_modified(p);
}

/* G4 */
static int choose(struct part *p)
{
	int rc = choose_names(p);

	if (!rc)
		rc = choose_inodes(p);
	for (size_t i = 0; i < p->f.touched.inos.n && !rc; i++) {
		unsigned what = p->f.touched.inos.v[i].what;

		if (!p->listed[i]) /* of a directory only names may have changed */
			p->given_up[i] = p->others ||
					 !(stet_finder_what_(what) || (what & STET_LL_TOUCHED_NEW));
	}
	for (size_t i = 0; i < p->wanted_count && !rc; i++)
		if (!p->wanted[i].met)
			rc = refuse(p, -ENOENT, "/%.*s: the transaction changed nothing there",
				    (int)p->wanted[i].len, p->wanted[i].path);
	return rc;
}

/* --- whether the rest stands alone --- */

static int refuse_name(struct part *p, size_t i, const char *format)
{
	char *path;
	int rc = path_of(p, i, &path);

	if (rc)
		return rc;
	rc = refuse(p, -EINVAL, "%s: %s", path, format);
	stet_free(path);
	return rc;
}

/* G2 */
static int check_directory(struct part *p, size_t i)
{
	const struct stet_ll_touched_name *name = &p->f.touched.names.v[i];
	size_t at = touched_at(p, name->dir);
	unsigned what = at == SIZE_MAX ? 0 : p->f.touched.inos.v[at].what;

	if (at == SIZE_MAX)
		return 0;
	if (!name_is_reverted(p, i) && (what & STET_LL_TOUCHED_NEW) && p->given_up[at])
		return refuse_name(p, i, "needs its directory, which is new and would be dropped");
	if (name_is_reverted(p, i) && name->old_ino && (what & STET_LL_TOUCHED_GONE) &&
	    !p->given_up[at])
		return refuse_name(p, i, "cannot come back: its directory would stay removed");
	return 0;
}

/* One step up from a directory, as it would then be. */
static int parent_then(struct part *p, uint64_t ino, uint64_t *ret)
{
	const struct stet_ll_touched_name *given = stet_finder_changed_(&p->f, ino, STET_AFTER);
	bool back = given && name_is_reverted(p, (size_t)(given - p->f.touched.names.v));
	const char *name;

	return stet_finder_dir_place_(&p->f, ino, back ? STET_BEFORE : STET_AFTER, ret, &name);
}

/* G3 */
static int check_loop(struct part *p, size_t i)
{
	const struct stet_ll_touched_name *name = &p->f.touched.names.v[i];
	uint64_t at = name->new_ino;
	int rc = 0;

	if (p->f.touched.types.v[i].new_type != DT_DIR || !name->new_ino ||
	    !stet_finder_old_name_(&p->f, name))
		return 0;
	for (unsigned depth = 0; at != STET_ROOT && !rc; depth++) {
		rc = parent_then(p, at, &at);
		if (!rc && (at == name->new_ino || depth == STET_FINDER_DEPTH))
			return refuse_name(p, i, "would lie below itself");
	}
	return rc;
}

static int check(struct part *p)
{
	int rc = 0;

	for (size_t i = 0; i < p->f.touched.names.n && !rc; i++)
		rc = check_directory(p, i);
	for (size_t i = 0; i < p->f.touched.names.n && !rc; i++)
		rc = check_loop(p, i);
	return rc;
}

/* --- giving up --- */

static void forget_dirty(struct stet_tx *tx, uint64_t ino)
{
	struct stet_hash_node *node = stet_hash_find(&tx->dirty, ino);

	if (!node)
		return;
	stet_hash_remove(&tx->dirty, node);
	stet_free(stet_container_of(node, struct stet_api_dirty, node));
}

static void fill_part(struct part *p)
{
	for (size_t i = 0; i < p->f.touched.names.n; i++) {
		const struct stet_ll_touched_name *name = &p->f.touched.names.v[i];
		const struct stet_api_types *types = &p->f.touched.types.v[i];

		p->name[i] = (struct stet_fs_changed_name){
			.dir = name->dir,
			.name = { name->name, strlen(name->name) },
			.old = { .ino = name->old_ino, .type = types->old_type },
			.now = { .ino = name->new_ino, .type = types->new_type },
			.reverted = name_is_reverted(p, i),
		};
	}
	for (size_t i = 0; i < p->f.touched.inos.n; i++)
		if (p->given_up[i])
			p->ino[p->ino_count++] = p->f.touched.inos.v[i].ino;
}

static int apply(struct part *p, struct stet_tx *tx)
{
	const struct stet_fs_part part = {
		.name = p->name,
		.name_count = p->f.touched.names.n,
		.ino = p->ino,
		.ino_count = p->ino_count,
	};
	struct stet_fs_ctx ctx = { .fs = tx->vol->fs, .txn = tx->txn };
	int rc;

	stet_api_lock_(tx->vol);
	rc = stet_fs_revert(&ctx, &part);
	tx->changes++;
	for (size_t i = 0; i < p->ino_count && !rc; i++)
		forget_dirty(tx, p->ino[i]);
	stet_api_unlock_(tx->vol);
	return rc;
}

static int allocate(struct part *p)
{
	size_t names = p->f.touched.names.n, inos = p->f.touched.inos.n;

	p->chosen = stet_calloc(names + 1, sizeof(*p->chosen));
	p->name = stet_calloc(names + 1, sizeof(*p->name));
	p->given_up = stet_calloc(inos + 1, sizeof(*p->given_up));
	p->listed = stet_calloc(inos + 1, sizeof(*p->listed));
	p->ino = stet_calloc(inos + 1, sizeof(*p->ino));
	return p->chosen && p->name && p->given_up && p->listed && p->ino
		       ? 0
		       : STET_FAIL(-ENOMEM, "no memory to take a transaction apart");
}

static int give_up(struct part *p, struct stet_tx *tx)
{
	int rc = stet_finder_open_(&p->f, tx, true);

	if (!rc)
		rc = allocate(p);
	if (!rc)
		rc = choose(p);
	if (!rc)
		rc = check(p);
	if (!rc) {
		fill_part(p);
		rc = apply(p, tx);
	}
	return rc;
}

static void release(struct part *p)
{
	stet_finder_close_(&p->f);
	stet_free(p->chosen);
	stet_free(p->name);
	stet_free(p->given_up);
	stet_free(p->listed);
	stet_free(p->ino);
}

/* --- the call --- */

static int take_paths(struct part *p, const char *const *paths, size_t count)
{
	p->wanted = stet_calloc(count + 1, sizeof(*p->wanted));
	if (!p->wanted)
		return STET_FAIL(-ENOMEM, "no memory for %zu paths", count);
	for (size_t i = 0; i < count; i++) {
		struct wanted *w = &p->wanted[i];

		w->path = paths[i] + strspn(paths[i], "/");
		w->len = strlen(w->path);
		while (w->len > 0 && w->path[w->len - 1] == '/')
			w->len--;
	}
	qsort(p->wanted, count, sizeof(*p->wanted), by_bytes);
	for (size_t i = 0; i < count; i++) /* the same one twice */
		if (p->wanted_count == 0 ||
		    by_bytes(&p->wanted[p->wanted_count - 1], &p->wanted[i]) != 0)
			p->wanted[p->wanted_count++] = p->wanted[i];
	return 0;
}

/* G5 */
static int claim(struct stet_tx *tx)
{
	int rc;

	stet_api_lock_(tx->vol);
	rc = stet_api_wait_turn_to_change_(tx);
	if (!rc)
		tx->state = STET_API_TX_COMMITTING;
	stet_api_unlock_(tx->vol);
	return rc;
}

static void unclaim(struct stet_tx *tx)
{
	stet_api_lock_(tx->vol);
	tx->state = STET_API_TX_OPEN;
	stet_api_unlock_(tx->vol);
}

/* The names that were given up, and all inodes that the transaction touched. */
static void tell(struct part *p, struct stet_tx *tx, stet_ll_told_fn *fn, void *arg)
{
	struct stet_ll_touched_name *names = p->f.touched.names.v;
	struct stet_ll_touched touched = {
		.txn_id = tx->id,
		.ino = p->f.touched.inos.v,
		.ino_count = p->f.touched.inos.n,
		.name = names,
	};

	for (size_t i = 0; i < p->f.touched.names.n; i++) {
		struct stet_ll_touched_name name = names[i];

		if (!name_is_reverted(p, i))
			continue;
		names[i] = names[touched.name_count]; /* the list is freed as a whole */
		names[touched.name_count] = (struct stet_ll_touched_name){
			.dir = name.dir,
			.name = name.name,
			.old_ino = name.new_ino,
			.new_ino = name.old_ino,
		};
		touched.name_count++;
	}
	for (size_t i = 0; i < p->f.touched.inos.n; i++)
		p->f.touched.inos.v[i].what &= ~STET_API_TOUCHED_OURS;
	fn(arg, &touched);
}

int stet_ll_revert(struct stet_tx *txn, unsigned flags, const char *const *paths, size_t count,
		   char *why, size_t cap, stet_ll_told_fn *fn, void *arg)
{
	struct part p = { .others = flags & STET_REVERT_OTHERS, .why = why, .cap = cap };
	int rc;

	stet_error_clear();
	rc = stet_api_check_handle_(txn);
	if (cap > 0)
		why[0] = 0;
	if (!rc)
		rc = stet_api_check_flags_(flags, STET_REVERT_OTHERS);
	if (!rc && !paths && count > 0)
		rc = STET_FAIL(-EINVAL, "no paths");
	if (!rc && (txn->flags & STET_BEGIN_READ_ONLY))
		rc = STET_FAIL(-EROFS, "the transaction is read-only");
	if (!rc)
		rc = take_paths(&p, paths, count);
	if (!rc)
		rc = claim(txn);
	if (!rc) {
		rc = give_up(&p, txn);
		if (!rc && fn)
			tell(&p, txn, fn, arg);
		unclaim(txn);
		release(&p);
	}
	stet_free(p.wanted);
	return rc;
}

int stet_revert(struct stet_tx *txn, unsigned flags, const char *const *paths, size_t count,
		char *why, size_t cap)
{
	return stet_ll_revert(txn, flags, paths, count, why, cap, NULL, NULL);
}
