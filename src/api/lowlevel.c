/* lowlevel.c - the rest of the calls by inode number: holds, data, listing, fsync, the watch. */
#include "api/api_internal.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

/* --- holds --- */

int stet_ll_hold(struct stet_volume *vol, uint64_t ino)
{
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_api_lock_(vol);
	rc = stet_fs_hold(vol->fs, ino);
	stet_api_unlock_(vol);
	return rc;
}

void stet_ll_unhold(struct stet_volume *vol, uint64_t ino, uint64_t count)
{
	if (stet_api_check_handle_(vol))
		return;
	stet_api_lock_(vol);
	for (uint64_t i = 0; i < count; i++)
		stet_fs_unhold(vol->fs, ino);
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
}

/* --- data --- */

ssize_t stet_ll_read(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, uint64_t off,
		     void *buf, size_t len, unsigned flags)
{
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	return rc ? rc : stet_api_read_(vol, txn, ino, off, buf, len, flags);
}

ssize_t stet_ll_write(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, uint64_t off,
		      const void *buf, size_t len, unsigned flags)
{
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	return rc ? rc : stet_api_write_(vol, txn, ino, off, buf, len, flags);
}

ssize_t stet_ll_append(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, const void *buf,
		       size_t len, unsigned flags)
{
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	return rc ? rc : stet_api_append_(vol, txn, ino, buf, len, flags);
}

int stet_ll_truncate(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, uint64_t size,
		     unsigned flags)
{
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	return rc ? rc : stet_api_truncate_(vol, txn, ino, size, flags);
}

int stet_ll_seek(struct stet_volume *vol, struct stet_tx *txn, uint64_t ino, uint64_t off, int what,
		 unsigned flags, uint64_t *ret_off)
{
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT);

	return rc ? rc : stet_api_seek_(vol, txn, ino, off, what, flags, ret_off);
}

/* --- durability --- */

int stet_ll_fsync(struct stet_volume *vol, struct stet_tx *txn)
{
	int rc = stet_api_check_handle_(vol);

	if (rc || !txn)
		return rc ? rc : stet_api_sync_(vol);
	stet_api_lock_(vol);
	rc = stet_api_tx_usable_(txn);
	stet_api_unlock_(vol);
	return rc;
}

/* --- listing --- */

struct listing {
	uint64_t dir;
	const char *after;
	unsigned flags;
	struct stet_ll_entry *entries;
	size_t cap, count;
};

static void let_go(struct stet_api_op *op, const struct listing *l, size_t n)
{
	for (size_t i = 0; i < n; i++)
		stet_fs_unhold(op->vol->fs, l->entries[i].stat.ino);
}

static int add_stats(struct stet_api_op *op, struct listing *l)
{
	for (size_t i = 0; i < l->count; i++) {
		struct stet_stat *stat = &l->entries[i].stat;
		int rc = stet_api_stat_(op, stat->ino, stat);

		if (!rc && (l->flags & STET_LL_HOLD))
			rc = stet_fs_hold(op->vol->fs, stat->ino);
		if (rc) {
			if (l->flags & STET_LL_HOLD)
				let_go(op, l, i);
			return rc;
		}
	}
	return 0;
}

static int read_dir(struct stet_api_op *op, void *arg)
{
	struct listing *l = arg;
	struct stet_fs_dir *it;
	struct stet_fs_entry found;
	int rc = stet_fs_dir_open(&op->ctx, l->dir, stet_api_name_(l->after, strlen(l->after)),
				  &it);

	if (rc)
		return rc;
	l->count = 0;
	while (l->count < l->cap && (rc = stet_fs_dir_next(it, &found)) == 1) {
		struct stet_ll_entry *entry = &l->entries[l->count++];

		entry->stat = (struct stet_stat){ .ino = found.ino,
						  .mode = (uint32_t)DTTOIF(found.type) };
		memcpy(entry->name, found.name, found.name_len);
		entry->name[found.name_len] = 0;
	}
	stet_fs_dir_close(it);
	if (rc < 0)
		return rc;
	return l->flags & STET_LL_STAT ? add_stats(op, l) : 0;
}

int stet_ll_readdir(struct stet_volume *vol, struct stet_tx *txn, uint64_t dir, const char *after,
		    unsigned flags, struct stet_ll_entry *entries, size_t cap)
{
	struct listing l = { .dir = dir,
			     .after = after,
			     .flags = flags,
			     .entries = entries,
			     .cap = cap < INT32_MAX ? cap : INT32_MAX };
	int rc = stet_api_check_flags_(flags, STET_LL_NOWAIT | STET_LL_STAT | STET_LL_HOLD);

	if (!rc && (flags & STET_LL_HOLD) && !(flags & STET_LL_STAT))
		rc = STET_FAIL(-EINVAL, "readdir: HOLD without STAT");
	if (!rc)
		rc = stet_api_run_(vol, txn, flags | STET_API_READ, read_dir, NULL, &l);
	return rc ? rc : (int)l.count;
}

/* --- the watch --- */

int stet_ll_watch(struct stet_volume *vol, stet_ll_watch_fn *fn, void *arg)
{
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_api_lock_(vol);
	if (fn && vol->watch) {
		rc = STET_FAIL(-EBUSY, "there is a watch already");
	} else {
		while (vol->publishing)
			stet_cond_wait(&vol->publish_cond, &vol->lock);
		vol->watch = fn;
		vol->watch_arg = arg;
	}
	stet_api_unlock_(vol);
	return rc;
}
