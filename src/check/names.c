/* names.c - links, parents, counts, and whether the root leads everywhere.
 *
 * Names are joined with inodes by number (binary search). Reachability of directories follows parents, each
 * directory once: a chain ends at the root (reached), at something known, or in itself (a loop: lost).
 */
#include <dirent.h>
#include <sys/stat.h>

#include "check/check_internal.h"
#include "format/value.h"

static uint8_t type_of(uint32_t mode)
{
	return (uint8_t)((mode & S_IFMT) >> 12);
}

static int join_name(struct stet_checker *c, const struct stet_check_name *name)
{
	struct stet_check_inode *child = stet_check_find_(c, name->child);
	struct stet_check_inode *dir = stet_check_find_(c, name->dir);
	int rc = 0;

	if (!child)
		return stet_check_report_(c, STET_PROBLEM_NAME_DANGLING, name->dir, "to inode %llu",
					  (unsigned long long)name->child);
	child->found_links++;
	if (type_of(child->mode) != name->type)
		rc = stet_check_report_(c, STET_PROBLEM_NAME_TYPE, name->child, "type %u, mode %o",
					name->type, child->mode);
	if (!S_ISDIR(child->mode))
		return rc;
	if (dir)
		dir->found_subdirs++;
	if (!rc && child->parent != name->dir)
		rc = stet_check_report_(c, STET_PROBLEM_DIR_PARENT, name->child,
					"parent %llu, named in %llu",
					(unsigned long long)child->parent,
					(unsigned long long)name->dir);
	return rc;
}

static int join_orphan(struct stet_checker *c, const struct stet_check_name *o)
{
	struct stet_check_inode *info = stet_check_find_(c, o->child);

	if (!info)
		return stet_check_report_(c, STET_PROBLEM_ORPHAN_WRONG, o->child, "no such inode");
	info->orphan = (o->type & STET_ORPHAN_UNLINKED) != 0;
	info->truncating = (o->type & STET_ORPHAN_TRUNCATE) != 0;
	if (info->truncating && STET_MODE_IS_TABLE(info->mode))
		return stet_check_report_(c, STET_PROBLEM_ORPHAN_WRONG, o->child,
					  "a table to be truncated");
	if (info->orphan && info->nlink > 0)
		return stet_check_report_(c, STET_PROBLEM_ORPHAN_WRONG, o->child, "link count %u",
					  info->nlink);
	return 0;
}

/* Whether the directory's chain of parents ends at the root; bounded by the number of inodes. */
static bool dir_reached(struct stet_checker *c, struct stet_check_inode *dir)
{
	struct stet_check_inode *at = dir;
	bool reached;

	while (at && at->reach == UNKNOWN && at->ino != STET_ROOT_INO && S_ISDIR(at->mode)) {
		at->reach = ON_PATH;
		at = stet_check_find_(c, at->parent);
	}
	reached = at && (at->ino == STET_ROOT_INO || at->reach == REACHED);
	at = dir;
	while (at && at->reach == ON_PATH) {
		at->reach = reached ? REACHED : LOST;
		at = stet_check_find_(c, at->parent);
	}
	return reached;
}

static int check_dir(struct stet_checker *c, struct stet_check_inode *info)
{
	int rc = 0;

	if (info->size != info->found_names)
		rc = stet_check_report_(c, STET_PROBLEM_DIR_SIZE, info->ino, "says %llu, has %llu",
					(unsigned long long)info->size,
					(unsigned long long)info->found_names);
	if (!rc && info->subdirs != info->found_subdirs)
		rc = stet_check_report_(c, STET_PROBLEM_DIR_SUBDIRS, info->ino,
					"says %llu, has %llu", (unsigned long long)info->subdirs,
					(unsigned long long)info->found_subdirs);
	if (!rc && info->nlink > 0 && info->ino != STET_ROOT_INO && !dir_reached(c, info))
		rc = stet_check_report_(c, STET_PROBLEM_UNREACHABLE, info->ino, "directory");
	return rc;
}

static int check_file(struct stet_checker *c, const struct stet_check_inode *info)
{
	int rc = 0;

	if (info->beyond && !info->truncating && !info->orphan)
		rc = stet_check_report_(c, STET_PROBLEM_EXTENT_BEYOND, info->ino,
					"block %llu, size %llu", (unsigned long long)info->beyond,
					(unsigned long long)info->size);
	if (!rc && info->blocks != info->found_blocks)
		rc = stet_check_report_(c, STET_PROBLEM_BLOCK_COUNT, info->ino,
					"says %llu, has %llu", (unsigned long long)info->blocks,
					(unsigned long long)info->found_blocks);
	return rc;
}

static int check_table(struct stet_checker *c, const struct stet_check_inode *info)
{
	if (info->nlink == 0 || info->size == info->found_records)
		return 0; /* of one that is being reclaimed some are gone */
	return stet_check_report_(c, STET_PROBLEM_TABLE_COUNT, info->ino, "says %llu, has %llu",
				  (unsigned long long)info->size,
				  (unsigned long long)info->found_records);
}

static int check_links(struct stet_checker *c, const struct stet_check_inode *info)
{
	uint64_t want = info->found_links + (info->ino == STET_ROOT_INO ? 1 : 0);

	if (info->nlink != want)
		return stet_check_report_(c, STET_PROBLEM_LINK_COUNT, info->ino,
					  "says %u, has %llu", info->nlink,
					  (unsigned long long)want);
	if (info->nlink == 0 && !info->orphan)
		return stet_check_report_(c, STET_PROBLEM_ORPHAN_MISSING, info->ino,
					  "link count 0");
	return 0;
}

int stet_check_names_(struct stet_checker *c)
{
	const struct stet_check_inode *root = stet_check_find_(c, STET_ROOT_INO);
	int rc = 0;

	if (!root || !S_ISDIR(root->mode))
		rc = stet_check_report_(c, STET_PROBLEM_ROOT_BAD, STET_ROOT_INO, "inode 1");
	else if (root->parent != STET_ROOT_INO)
		rc = stet_check_report_(c, STET_PROBLEM_DIR_PARENT, STET_ROOT_INO,
					"parent %llu, is the root",
					(unsigned long long)root->parent);
	for (size_t i = 0; i < c->names.n && !rc; i++)
		rc = join_name(c, &c->names.v[i]);
	for (size_t i = 0; i < c->orphans.n && !rc; i++)
		rc = join_orphan(c, &c->orphans.v[i]);
	for (size_t i = 0; i < c->inodes.n && !rc; i++) {
		struct stet_check_inode *info = &c->inodes.v[i];

		rc = check_links(c, info);
		if (!rc)
			rc = S_ISDIR(info->mode) ? check_dir(c, info) : check_file(c, info);
		if (!rc && STET_MODE_IS_TABLE(info->mode))
			rc = check_table(c, info);
	}
	return rc;
}
