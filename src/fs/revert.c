/* revert.c - a transaction gives up a part of what it changed.
 *
 * The write-set is by key. Names, contents, attributes and xattrs have keys of their own, and go with them. An
 * inode's counts are in one intent with the rest of it, so what a name did to them is taken back here.
 *
 * V1. Of an inode that is given up nothing is left. If it is a directory in which kept names changed, its
 *     counts are staged anew from those: so its times change only if its names do.
 * V2. Of any other inode the intent stays, and what each reverted name did to it is added with the other sign.
 * V3. What was locked, and what was read, stays so: another transaction that has been refused because of it
 *     was refused rightly, and the commit is checked as strictly as before.
 */
#include "fs/fs_internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define NAME_AT 9u /* in a DIRENT key: after object and kind */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool has_ino(const struct stet_fs_part *part, uint64_t ino)
{
	return part->ino_count > 0 &&
	       bsearch(&ino, part->ino, part->ino_count, sizeof(ino), by_number);
}

static int by_name(const void *a, const void *b)
{
	const struct stet_fs_changed_name *x = a, *y = b;
	size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
	int order = (x->dir > y->dir) - (x->dir < y->dir);

	if (order == 0)
		order = memcmp(x->name.bytes, y->name.bytes, len);
	return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static bool is_reverted_name(const struct stet_fs_part *part, const struct stet_key *key)
{
	const struct stet_fs_changed_name wanted = {
		.dir = stet_key_object(key->b),
		.name = { (const char *)key->b + NAME_AT, key->bytes - NAME_AT },
	};
	const struct stet_fs_changed_name *found =
		part->name_count
			? bsearch(&wanted, part->name, part->name_count, sizeof(wanted), by_name)
			: NULL;

	return !found || found->reverted; /* one that is as it was before can go */
}

static bool is_given_up(void *arg, const struct stet_key *key)
{
	const struct stet_fs_part *part = arg;
	uint64_t object = stet_key_object(key->b);

	switch (stet_key_get_kind(key->b)) {
	case STET_KIND_ORPHAN:
		return has_ino(part, stet_key_suffix_u64(key->b));
	case STET_KIND_DIRENT:
		return is_reverted_name(part, key);
	default:
		return has_ino(part, object);
	}
}

static int send_counts(struct stet_fs_ctx *ctx, uint64_t ino, struct stet_inode_intent n)
{
	if (n.nlink == 0 && n.entries == 0 && n.subdirs == 0 && n.set == 0 && n.touch == 0)
		return 0;
	return stet_intent_send_(ctx, ino, &n, NULL);
}

/* V2: the inodes that the name led to, before and now. */
static int revert_targets(struct stet_fs_ctx *ctx, const struct stet_fs_part *part,
			  const struct stet_fs_changed_name *name)
{
	struct stet_inode_intent back = { .nlink = 1 }, away = { .nlink = -1 };
	int rc = 0;

	if (name->old.type == DT_DIR) {
		back.set = STET_SET_PARENT_;
		back.parent = name->dir;
	}
	if (name->now.ino && !has_ino(part, name->now.ino)) {
		rc = send_counts(ctx, name->now.ino, away);
		if (!rc)
			rc = stet_state_claim_(ctx, name->now.ino, STET_CLAIM_UNLINKED);
	}
	if (!rc && name->old.ino && !has_ino(part, name->old.ino))
		rc = send_counts(ctx, name->old.ino, back);
	return rc;
}

/* What a change of a name does to the counts of its directory. */
static void count(struct stet_inode_intent *n, const struct stet_fs_changed_name *name, int sign)
{
	n->entries += sign * ((name->now.ino != 0) - (name->old.ino != 0));
	n->subdirs += sign * ((name->now.ino && name->now.type == DT_DIR) -
			      (name->old.ino && name->old.type == DT_DIR));
}

/* The names from `at` on that are in one directory. *ret_next: the first of the next one. */
static int settle_dir(struct stet_fs_ctx *ctx, const struct stet_fs_part *part, size_t at,
		      size_t *ret_next)
{
	uint64_t dir = part->name[at].dir;
	bool anew = has_ino(part, dir); /* V1 */
	bool kept = false;
	struct stet_inode_intent n = { 0 };

	for (; at < part->name_count && part->name[at].dir == dir; at++) {
		kept = kept || !part->name[at].reverted;
		if (part->name[at].reverted != anew)
			count(&n, &part->name[at], anew ? 1 : -1);
	}
	*ret_next = at;
	if (!anew)
		return send_counts(ctx, dir, n);
	return kept ? stet_dir_count_(ctx, dir, (int)n.entries, (int)n.subdirs) : 0;
}

static int settle_counts(struct stet_fs_ctx *ctx, const struct stet_fs_part *part)
{
	int rc = 0;

	for (size_t i = 0; i < part->name_count && !rc; i++)
		if (part->name[i].reverted)
			rc = revert_targets(ctx, part, &part->name[i]);
	for (size_t i = 0; i < part->name_count && !rc;)
		rc = settle_dir(ctx, part, i, &i);
	return rc;
}

int stet_fs_revert(struct stet_fs_ctx *ctx, const struct stet_fs_part *part)
{
	int rc = stet_fs_writable_(ctx);

	if (!rc)
		rc = stet_txn_give_up(ctx->txn, is_given_up, (void *)(uintptr_t)part);
	if (rc)
		return rc;
	for (size_t i = 0; i < part->ino_count && !rc; i++)
		rc = stet_state_forget_(ctx, part->ino[i]);
	if (!rc)
		rc = settle_counts(ctx, part);
	if (rc)
		stet_txn_doom(ctx->txn, rc);
	return rc;
}
