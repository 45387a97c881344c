/* list.c - listings and walks.
 *
 * I1. A listing reads its directory in batches, each from the last name on. A plain one reads them from a
 *     view of its own, so that it shows one state; one in a transaction sees what that does meanwhile.
 * I2. With a glob, names before its literal prefix are not read, and the first name behind it ends
 *     the listing.
 * I3. A walk keeps one open listing per level; the path grows and shrinks with the depth.
 * I4. A walk enters a directory only from its parent, from there once, and its start not again. So it ends,
 *     and what it visits is bounded by the names there are, also when names lead in circles or two lead to one
 *     directory. (A way from parent to child that meets itself has met its start.)
 */
#include "api/api_internal.h"

#include "base/buf.h"
#include "base/hash.h"

#include <dirent.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#define BATCH 32

struct stet_dir {
	/* --- set at open, then constant --- */
	struct stet_volume *vol;
	struct stet_tx *tx;
	bool own_tx; /* tx is a view made for this listing */
	uint64_t dir;
	uint32_t types;
	char *glob;        /* owned, or NULL */
	size_t prefix_len; /* of glob */

	struct stet_mutex lock;
	/* --- under lock --- */
	char after[STET_NAME_MAX + 1]; /* the last name read */
	bool at_end;
	size_t next, count; /* of batch */
	struct stet_dir_entry batch[BATCH];
};

/* --- reading entries --- */

int stet_api_entries_(struct stet_api_op *op, uint64_t dir, const char *after,
		      struct stet_dir_entry *entries, size_t cap)
{
	struct stet_fs_dir *it;
	struct stet_fs_entry found;
	size_t n = 0;
	int rc = stet_fs_dir_open(&op->ctx, dir, stet_api_name_(after, strlen(after)), &it);

	if (rc)
		return rc;
	while (n < cap && (rc = stet_fs_dir_next(it, &found)) == 1) {
		entries[n].ino = found.ino;
		entries[n].type = found.type;
		memcpy(entries[n].name, found.name, found.name_len);
		entries[n].name[found.name_len] = 0;
		n++;
	}
	stet_fs_dir_close(it);
	return rc < 0 ? rc : (int)n;
}

/* --- listings --- */

static size_t literal_prefix(const char *glob)
{
	return strcspn(glob, "*?[\\");
}

/* The last possible name before all that begin with the prefix (I2). */
static void start_at(char after[STET_NAME_MAX + 1], const char *prefix, size_t len)
{
	if (len == 0 || len > STET_NAME_MAX)
		return;
	memset(after, 0xff, STET_NAME_MAX);
	after[STET_NAME_MAX] = 0;
	memcpy(after, prefix, len);
	after[len - 1]--; /* NUL: then the name ends before it */
}

static int fill_batch(struct stet_api_op *op, void *arg)
{
	struct stet_dir *it = arg;
	int n = stet_api_entries_(op, it->dir, it->after, it->batch, BATCH);

	if (n < 0)
		return n;
	it->next = 0;
	it->count = (size_t)n;
	return 0;
}

static int refill(struct stet_dir *it)
{
	int rc = stet_api_run_(it->vol, it->tx, STET_API_READ, fill_batch, NULL, it);

	if (rc)
		return rc;
	it->at_end = it->count < BATCH;
	if (it->count > 0)
		memcpy(it->after, it->batch[it->count - 1].name, sizeof(it->after));
	return 0;
}

static bool is_wanted(const struct stet_dir *it, const struct stet_dir_entry *entry)
{
	if (it->types && !(it->types & STET_TYPE_BIT(entry->type)))
		return false;
	return !it->glob || fnmatch(it->glob, entry->name, 0) == 0;
}

static int next_locked(struct stet_dir *it, struct stet_dir_entry *ret)
{
	for (;;) { /* bounded: each round takes a name */
		if (it->next == it->count) {
			int rc = it->at_end ? 0 : refill(it);

			if (rc || it->next == it->count)
				return rc;
		}
		const struct stet_dir_entry *entry = &it->batch[it->next++];
		if (it->prefix_len && strncmp(entry->name, it->glob, it->prefix_len) > 0) {
			it->at_end = true; /* I2 */
			it->next = it->count;
			return 0;
		}
		if (is_wanted(it, entry)) {
			*ret = *entry;
			return 1;
		}
	}
}

int stet_dir_next(struct stet_dir *it, struct stet_dir_entry *ret)
{
	int rc = stet_api_check_handle_(it);

	if (rc)
		return rc;
	stet_mutex_lock(&it->lock);
	rc = next_locked(it, ret);
	stet_mutex_unlock(&it->lock);
	return rc;
}

static int load_type(struct stet_api_op *op, struct stet_api_place *place)
{
	struct stet_fs_attr attr;
	int rc = 0;

	if (place->type == DT_UNKNOWN)
		rc = stet_fs_getattr(&op->ctx, place->ino, &attr);
	if (!rc && place->type == DT_UNKNOWN)
		place->type = (uint8_t)IFTODT(attr.mode);
	return rc;
}

struct opening {
	struct stet_dir *it;
	uint64_t dir;
	const char *path;
};

static int open_at(struct stet_api_op *op, void *arg)
{
	struct opening *o = arg;
	struct stet_api_place place;
	int rc = stet_api_find_(op, o->dir, o->path, true, &place);

	if (!rc)
		rc = load_type(op, &place);
	if (!rc && place.type != DT_DIR)
		rc = -ENOTDIR;
	if (!rc)
		rc = stet_api_permit_(op, place.ino, STET_API_MAY_READ);
	o->it->dir = place.ino;
	return rc;
}

/* Under the same hold of the lock, so the transaction cannot end in between. */
static int opened(struct stet_api_op *op, void *arg)
{
	(void)arg;
	stet_api_tx_get_(op->tx);
	op->vol->handles++;
	return 0;
}

static void free_dir(struct stet_dir *it)
{
	stet_mutex_destroy(&it->lock);
	stet_free(it->glob);
	stet_free(it);
}

static int new_dir(struct stet_volume *vol, const struct stet_dir_filter *filter,
		   struct stet_dir **ret)
{
	struct stet_dir *it = stet_calloc(1, sizeof(*it));

	if (!it)
		return STET_FAIL(-ENOMEM, "no memory for a listing");
	stet_mutex_init(&it->lock, STET_API_LOCK_RANK - 1, "listing");
	it->vol = vol;
	it->types = filter ? filter->types : 0;
	if (filter && filter->glob) {
		it->glob = stet_strdup(filter->glob);
		if (!it->glob) {
			free_dir(it);
			return STET_FAIL(-ENOMEM, "no memory for a listing");
		}
		it->prefix_len = literal_prefix(it->glob);
		start_at(it->after, it->glob, it->prefix_len);
	}
	*ret = it;
	return 0;
}

int stet_dir_open(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
		  const struct stet_dir_filter *filter, struct stet_dir **ret_dir)
{
	struct opening o = { .dir = dir, .path = path };
	int rc = stet_api_check_handle_(vol);

	if (!rc)
		rc = new_dir(vol, filter, &o.it);
	if (rc)
		return rc;
	o.it->tx = txn;
	if (!txn) {
		o.it->own_tx = true; /* I1 */
		rc = stet_api_view_begin_(vol, &o.it->tx);
	}
	if (rc) {
		free_dir(o.it);
		return rc;
	}
	rc = stet_api_run_(vol, o.it->tx, STET_API_READ, open_at, opened, &o);
	if (rc) {
		if (o.it->own_tx)
			stet_api_view_end_(o.it->tx);
		free_dir(o.it);
		return rc;
	}
	*ret_dir = o.it;
	return 0;
}

void stet_dir_close(struct stet_dir *it)
{
	if (!it)
		return;
	struct stet_volume *vol = it->vol;

	if (it->own_tx)
		stet_api_view_end_(it->tx);
	stet_api_lock_(vol);
	stet_api_tx_put_(it->tx);
	vol->handles--;
	stet_api_unlock_(vol);
	free_dir(it);
}

/* --- walks --- */

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
	struct stet_tx *tx;
	bool own_tx; /* nothing changes meanwhile */
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

static int stat_ino(struct stet_api_op *op, void *arg)
{
	struct stet_stat *stat = arg;

	return stet_api_stat_(op, stat->ino, stat);
}

struct named {
	uint64_t dir; /* 0: none */
	struct stet_stat *stat;
};

static int stat_named(struct stet_api_op *op, void *arg)
{
	struct named *named = arg;
	int rc = named->dir ? stet_api_permit_(op, named->dir, STET_API_MAY_SEARCH) : 0;

	return rc ? rc : stat_ino(op, named->stat);
}

static int visit(struct walking *w, const struct stet_walk_entry *met, const char *name)
{
	struct stet_stat stat = { .ino = met->ino };
	struct stet_walk_entry entry = *met;

	entry.path = (const char *)w->path.p;
	entry.name = name;
	if (w->flags & STET_WALK_STAT) {
		struct named named = { .dir = met->dir, .stat = &stat };
		int rc = stet_api_run_(w->vol, w->tx, STET_API_READ, stat_named, NULL, &named);

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

/* I4. 1: it may be entered; 0: not, it was moved meanwhile. */
static int may_enter(struct walking *w, uint64_t ino)
{
	struct level *from = &w->levels.v[w->levels.n - 1];
	struct stet_stat stat = { .ino = ino };
	int rc = stet_api_run_(w->vol, w->tx, STET_API_READ, stat_ino, NULL, &stat);

	if (rc && rc != -ENOENT)
		return rc;
	if (rc == 0 && stat.parent == from->ino && ino != w->levels.v[0].ino &&
	    !stet_hash_find(&from->entered, ino)) {
		rc = note_entered(from, ino);
		return rc ? rc : 1;
	}
	if (!w->own_tx)
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
	rc = stet_dir_open(w->vol, w->tx, ino, "", NULL, &level.it);
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

struct start {
	uint64_t dir;
	const char *path;
	struct stet_api_place place;
};

static int find_start(struct stet_api_op *op, void *arg)
{
	struct start *start = arg;
	int rc = stet_api_find_(op, start->dir, start->path, false, &start->place);

	return rc ? rc : load_type(op, &start->place);
}

static int walk_in(struct walking *w, uint64_t dir, const char *path)
{
	struct start start = { .dir = dir, .path = path };
	struct stet_walk_entry entry = { .depth = 0 };
	int rc = stet_api_run_(w->vol, w->tx, STET_API_READ, find_start, NULL, &start);

	if (!rc)
		rc = set_path(w, 0, "");
	if (rc)
		return rc;
	entry.ino = start.place.ino;
	entry.type = start.place.type;
	rc = meet(w, &entry, "");
	while (!rc && w->levels.n > 0)
		rc = step(w);
	return rc;
}

int stet_walk(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *path,
	      unsigned flags, stet_walk_fn *fn, void *arg)
{
	struct walking w = {
		.vol = vol, .tx = txn, .own_tx = !txn, .flags = flags, .fn = fn, .arg = arg
	};
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	if ((flags & ~(STET_WALK_PRE | STET_WALK_POST | STET_WALK_STAT)) ||
	    !(flags & (STET_WALK_PRE | STET_WALK_POST)))
		return STET_FAIL(-EINVAL, "walk: flags 0x%x", flags);
	if (!txn)
		rc = stet_api_view_begin_(vol, &w.tx);
	if (rc)
		return rc;
	rc = walk_in(&w, dir, path);
	while (w.levels.n > 0) {
		struct level level = stet_vec_pop(&w.levels);

		close_level(&level);
	}
	stet_vec_release(&w.levels);
	stet_buf_release(&w.path);
	if (!txn)
		stet_api_view_end_(w.tx);
	return rc;
}
