/* list.c - listings.
 *
 * I1. A listing reads its directory in batches, each from the last name on. A plain one reads them from a
 *     view of its own, so that it shows one state; one in a transaction sees what that does meanwhile.
 * I2. With a glob, names before its literal prefix are not read, and the first name behind it ends
 *     the listing.
 */
#include "api/api_internal.h"

#include <dirent.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#define BATCH 32
#define GLOB_MAX 4096u /* bytes */

struct stet_dir {
	/* --- set at open, then constant --- */
	struct stet_handle head;
	struct stet_volume *vol;
	struct stet_api_reading in;
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
	int rc = stet_api_run_(it->vol, it->in.tx, STET_API_READ, fill_batch, NULL, it);

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
	uint32_t type;
	int rc = 0;

	if (place->type == DT_UNKNOWN)
		rc = stet_fs_get_type(&op->ctx, place->ino, &type);
	if (!rc && place->type == DT_UNKNOWN)
		place->type = (uint8_t)IFTODT(type);
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
	if (filter && filter->glob && strnlen(filter->glob, GLOB_MAX + 1) > GLOB_MAX) {
		free_dir(it);
		return STET_FAIL(-ENAMETOOLONG, "a pattern of more than %u bytes", GLOB_MAX);
	}
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
	rc = stet_api_reading_open_(vol, txn, open_at, &o, &o.it->in); /* I1 */
	if (rc)
		free_dir(o.it);
	else
		*ret_dir = o.it;
	return rc;
}

void stet_dir_close(struct stet_dir *it)
{
	if (!it)
		return;
	stet_api_reading_close_(it->vol, &it->in);
	free_dir(it);
}
