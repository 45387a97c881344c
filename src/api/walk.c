/* walk.c - walks and scans, made of the public calls: so they work on volumes of this process and others.
 *
 * I1. A walk keeps one open listing per level; the path grows and shrinks with the depth.
 * I2. A walk enters a directory only from its parent, from there once, and its start not again. So it ends,
 *     and what it visits is bounded by the names there are, also when names lead in circles or two lead to one
 *     directory. (A way from parent to child that meets itself has met its start.)
 * I3. What was met is looked at by its number; who may not do that (stet_ll_act_as), by its name. Directories
 *     may always be, by who may reach them.
 */
#include "stetfs.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/vec.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

struct level {
	struct stet_dir *it;
	uint64_t ino;
	size_t path_len;          /* of the directory itself */
	struct stet_hash entered; /* the directories in it that were: struct entered */
};

struct entered {
	struct stet_hash_node node; /* by inode number */
};

struct walking {
	struct stet_volume *vol;
	struct stet_txn *txn;
	bool own_txn; /* nothing changes meanwhile */
	bool by_name; /* I3 */
	uint64_t dir; /* where it starts */
	const char *start;
	unsigned flags;
	stet_walk_fn *fn;
	void *arg;
	struct stet_buf path; /* NUL terminated; len without it */
	STET_VEC(struct level) levels;
};

static int set_path(struct walking *w, size_t parent_len, const char *name)
{
	int rc = 0;

	w->path.len = parent_len;
	if (parent_len > 0)
		rc = stet_buf_append(&w->path, "/", 1);
	if (!rc)
		rc = stet_buf_append(&w->path, name, strlen(name) + 1);
	if (!rc)
		w->path.len--;
	return rc;
}

/* I3 */
static int stat_met(struct walking *w, const struct stet_walk_entry *met, const char *name,
		    struct stet_stat *ret)
{
	int rc = w->by_name ? -EACCES
			    : stet_statat(w->vol, w->txn, met->ino, "", STET_AT_NOFOLLOW, ret);

	if (rc != -EACCES || met->type == DT_DIR)
		return rc;
	w->by_name = true;
	rc = met->depth > 0 ? stet_statat(w->vol, w->txn, met->dir, name, STET_AT_NOFOLLOW, ret)
			    : stet_statat(w->vol, w->txn, w->dir, w->start, STET_AT_NOFOLLOW, ret);
	return !rc && ret->ino != met->ino ? -ENOENT : rc;
}

static int visit(struct walking *w, const struct stet_walk_entry *met, const char *name)
{
	struct stet_walk_entry entry = *met;
	struct stet_stat stat;

	entry.path = (const char *)w->path.p;
	entry.name = name;
	if (w->flags & STET_WALK_STAT) {
		int rc = stat_met(w, met, name, &stat);

		if (rc)
			return rc;
		entry.stat = &stat;
	}
	return w->fn(w->arg, &entry);
}

static int note_entered(struct level *level, uint64_t ino)
{
	struct entered *entered = stet_alloc(sizeof(*entered));
	int rc;

	if (!entered)
		return STET_FAIL(-ENOMEM, "no memory for a walk");
	rc = stet_hash_insert(&level->entered, ino, &entered->node);
	if (rc)
		stet_free(entered);
	return rc;
}

/* I2. 1: it may be entered; 0: not, it was moved meanwhile. */
static int may_enter(struct walking *w, uint64_t ino)
{
	struct level *from = &w->levels.v[w->levels.n - 1];
	struct stet_stat stat;
	int rc = stet_statat(w->vol, w->txn, ino, "", STET_AT_NOFOLLOW, &stat);

	if (rc && rc != -ENOENT)
		return rc;
	if (rc == 0 && stat.parent == from->ino && ino != w->levels.v[0].ino &&
	    !stet_hash_find(&from->entered, ino)) {
		rc = note_entered(from, ino);
		return rc ? rc : 1;
	}
	if (!w->own_txn)
		return 0;
	return STET_FAIL(-EUCLEAN, "directory %llu is named in %llu, which is not its place",
			 (unsigned long long)ino, (unsigned long long)from->ino);
}

static int descend(struct walking *w, uint64_t ino)
{
	struct level level = { .ino = ino, .path_len = w->path.len };
	int rc = w->levels.n > 0 ? may_enter(w, ino) : 1;

	if (rc != 1)
		return rc;
	rc = stet_dir_open(w->vol, w->txn, ino, "", NULL, &level.it);
	if (rc)
		return rc;
	stet_hash_init(&level.entered, 2);
	rc = stet_vec_push(&w->levels, level);
	if (rc)
		stet_dir_close(level.it);
	return rc;
}

static void close_level(struct level *level)
{
	struct stet_hash_node *node;

	while ((node = stet_hash_first(&level->entered))) {
		stet_hash_remove(&level->entered, node);
		stet_free(stet_container_of(node, struct entered, node));
	}
	stet_hash_release(&level->entered);
	stet_dir_close(level->it);
}

/* Visits what was met, and goes into it when it is a directory. */
static int meet(struct walking *w, const struct stet_walk_entry *entry, const char *name)
{
	bool is_dir = entry->type == DT_DIR;
	int rc = 0;

	if (!is_dir || (w->flags & STET_WALK_PRE))
		rc = visit(w, entry, name);
	if (is_dir && rc == 0)
		return descend(w, entry->ino);
	return rc == STET_WALK_SKIP ? 0 : rc;
}

static const char *last_name(const struct walking *w)
{
	const char *path = (const char *)w->path.p;
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int leave(struct walking *w)
{
	struct level level = stet_vec_pop(&w->levels);
	struct stet_walk_entry entry = {
		.ino = level.ino,
		.dir = w->levels.n ? w->levels.v[w->levels.n - 1].ino : 0,
		.depth = (uint32_t)w->levels.n,
		.type = DT_DIR,
		.post = true,
	};

	close_level(&level);
	w->path.len = level.path_len;
	w->path.p[level.path_len] = 0;
	return w->flags & STET_WALK_POST ? visit(w, &entry, last_name(w)) : 0;
}

static int step(struct walking *w)
{
	const struct level *top = &w->levels.v[w->levels.n - 1];
	struct stet_dir_entry found = { .ino = 0 };
	struct stet_walk_entry entry = { .dir = top->ino, .depth = (uint32_t)w->levels.n };
	int rc = stet_dir_next(top->it, &found);

	if (rc == 0)
		return leave(w);
	if (rc == 1)
		rc = set_path(w, top->path_len, found.name);
	if (rc)
		return rc;
	entry.ino = found.ino;
	entry.type = found.type;
	return meet(w, &entry, found.name);
}

static int walk_in(struct walking *w)
{
	struct stet_walk_entry entry = { .depth = 0 };
	struct stet_stat stat;
	int rc = stet_statat(w->vol, w->txn, w->dir, w->start, STET_AT_NOFOLLOW, &stat);

	if (!rc)
		rc = set_path(w, 0, "");
	if (rc)
		return rc;
	entry.ino = stat.ino;
	entry.type = (uint8_t)IFTODT(stat.mode);
	rc = meet(w, &entry, "");
	while (!rc && w->levels.n > 0)
		rc = step(w);
	return rc;
}

int stet_walk(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,
	      unsigned flags, stet_walk_fn *fn, void *arg)
{
	struct walking w = {
		.vol = vol,
		.txn = txn,
		.own_txn = !txn,
		.dir = dir,
		.start = path,
		.flags = flags,
		.fn = fn,
		.arg = arg,
	};
	int rc = 0;

	if ((flags & ~(STET_WALK_PRE | STET_WALK_POST | STET_WALK_STAT)) ||
	    !(flags & (STET_WALK_PRE | STET_WALK_POST)))
		return STET_FAIL(-EINVAL, "walk: flags 0x%x", flags);
	if (!txn)
		rc = stet_begin(vol, STET_BEGIN_READ_ONLY, &w.txn);
	if (rc)
		return rc;
	rc = walk_in(&w);
	while (w.levels.n > 0) {
		struct level level = stet_vec_pop(&w.levels);

		close_level(&level);
	}
	stet_vec_release(&w.levels);
	stet_buf_release(&w.path);
	if (!txn)
		stet_abort(w.txn);
	return rc;
}

/* --- records --- */

int stet_scan(struct stet_table *table, struct stet_txn *txn, const struct stet_bounds *bounds,
	      stet_scan_fn *fn, void *arg)
{
	struct stet_record record;
	struct stet_cursor *cursor;
	int rc = stet_cursor_open(table, txn, bounds, &cursor);

	if (rc)
		return rc;
	while ((rc = stet_cursor_next(cursor, &record)) == 1) {
		rc = fn(arg, &record);
		if (rc)
			break;
	}
	stet_cursor_close(cursor);
	return rc;
}
