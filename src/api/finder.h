/* finder.h - where the inodes that a transaction touches stand (finder.c). */
#ifndef STET_API_FINDER_H
#define STET_API_FINDER_H

#include "api/api_internal.h"

#define STET_FINDER_DEPTH 1024 /* of directories */

enum stet_when { STET_BEFORE, STET_AFTER };

/* Where a name of a directory or a changed file stood when the transaction began. */
struct stet_finder_place {
	struct stet_hash_node node; /* key: inode number */
	uint64_t dir;
	uint8_t type;
	char name[];
};

struct stet_name_ref {
	struct stet_hash_node lost, given;
};

struct stet_finder {
	struct stet_volume *vol;
	struct stet_tx *view; /* what the transaction began with */
	struct stet_api_touched touched;
	struct stet_hash lost,
		given; /* of struct stet_name_ref, by the inode that lost or got the name */
	STET_VEC(struct stet_name_ref) refs; /* of touched.names, one by one */
	stet_ll_names_fn *names;             /* what others know of names; NULL: nothing */
	void *names_arg;
	struct stet_hash places; /* of struct stet_finder_place: what was looked up */
};

/* Collects what the transaction touches. Closed by the other in any case. Without the volume's lock. claimed:
 * the caller has seen to it that the transaction stays and that no call runs in it. */
STET_CHECKED int stet_finder_open_(struct stet_finder *f, struct stet_tx *txn, bool claimed);
/* To ask for paths in the committed state only. */
STET_CHECKED int stet_finder_open_committed_(struct stet_finder *f, struct stet_volume *vol);
void stet_finder_close_(struct stet_finder *f);

/* What is known of an inode's place; NULL: nothing. Files: after a search. */
struct stet_finder_place *stet_finder_place_(struct stet_finder *f, uint64_t ino);
/* Finds the places of the changed files that were not renamed. */
STET_CHECKED int stet_finder_search_(struct stet_finder *f);
/* The change that took a name from the inode (BEFORE) or gave it one (AFTER), or NULL. Of several always
 * the same one. */
const struct stet_ll_touched_name *stet_finder_changed_(struct stet_finder *f, uint64_t ino,
							enum stet_when when);
/* The name that the inode had instead of this one, or NULL: then it is no rename. */
const struct stet_ll_touched_name *stet_finder_old_name_(struct stet_finder *f,
							 const struct stet_ll_touched_name *name);
/* One step up from a directory: in which one it is, under which name. */
STET_CHECKED int stet_finder_dir_place_(struct stet_finder *f, uint64_t ino, enum stet_when when,
					uint64_t *ret_dir, const char **ret_name);
/* The path of a name in a directory; the caller owns it. */
STET_CHECKED int stet_finder_path_(struct stet_finder *f, uint64_t dir, const char *last,
				   enum stet_when when, char **ret);
/* NULL: it is not touched. */
const struct stet_ll_touched_ino *stet_finder_touched_(const struct stet_finder *f, uint64_t ino);
/* In the words of struct stet_change. */
unsigned stet_finder_what_(unsigned touched);
/* Whether the inode itself is listed as changed, at a path that is yet to be found. */
bool stet_finder_is_modified_(struct stet_finder *f, const struct stet_ll_touched_ino *touched);

#endif
