/* check.c - checks a volume that nobody has open: opens it read-only and has check/ look at all of it.
 *
 * What check/ finds names inodes. The paths are found afterwards, by one walk of the tree, which goes as
 * far as the damage lets it: a path is a help, not a promise.
 */
#include "api/api_internal.h"

#include "base/text.h"
#include "check/check.h"

#include <stdlib.h>
#include <string.h>

struct found {
	enum stet_problem_id id;
	uint64_t ino;
	char *detail; /* owned; NULL: none */
	char *path;   /* owned; NULL: not known */
};

struct checking {
	struct stet_volume *vol;
	STET_VEC(struct found) found;
	STET_VEC(size_t) by_ino; /* indexes of found that wait for a path, by inode number */
};

static int note(void *arg, enum stet_problem_id id, uint64_t ino, const char *detail)
{
	struct checking *c = arg;
	struct found found = { .id = id, .ino = ino };
	int rc;

	if (detail && *detail) {
		found.detail = stet_strdup(detail);
		if (!found.detail)
			return STET_FAIL(-ENOMEM, "no memory for a problem");
	}
	rc = stet_vec_push(&c->found, found);
	if (rc)
		stet_free(found.detail);
	return rc;
}

/* --- paths --- */

static int compare_inos(const void *a, const void *b, void *arg)
{
	const struct checking *c = arg;
	uint64_t x = c->found.v[*(const size_t *)a].ino;
	uint64_t y = c->found.v[*(const size_t *)b].ino;

	return (x > y) - (x < y);
}

/* The first of by_ino with an inode number >= ino. */
static size_t lower_bound(const struct checking *c, uint64_t ino)
{
	size_t low = 0, high = c->by_ino.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->found.v[c->by_ino.v[middle]].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int give_path(void *arg, const struct stet_walk_entry *entry)
{
	struct checking *c = arg;
	size_t i = lower_bound(c, entry->ino);

	for (; i < c->by_ino.n && c->found.v[c->by_ino.v[i]].ino == entry->ino; i++) {
		struct found *found = &c->found.v[c->by_ino.v[i]];
		struct stet_text path;

		if (found->path)
			continue;
		stet_text_init(&path);
		stet_text_printf(&path, "/%s", entry->path);
		found->path = stet_strdup(stet_text_cstr(&path));
		stet_text_release(&path);
	}
	return 0;
}

static void find_paths(struct checking *c)
{
	for (size_t i = 0; i < c->found.n; i++)
		if (c->found.v[i].ino && stet_vec_push(&c->by_ino, i))
			return;
	if (c->by_ino.n == 0)
		return;
	qsort_r(c->by_ino.v, c->by_ino.n, sizeof(*c->by_ino.v), compare_inos, c);
	stet_ignore(stet_walk(c->vol, NULL, STET_ROOT, "", STET_WALK_PRE, give_path, c),
		    "the tree may be damaged");
}

/* --- the call --- */

static int report_one(const struct found *found, stet_problem_fn *fn, void *arg)
{
	struct stet_problem problem = {
		.id = stet_check_name(found->id),
		.path = found->path ? found->path : "",
		.ino = found->ino,
	};
	struct stet_text text;
	int rc;

	stet_text_init(&text);
	stet_text_puts(&text, stet_check_text(found->id));
	if (found->detail)
		stet_text_printf(&text, ": %s", found->detail);
	problem.text = stet_text_cstr(&text);
	rc = fn(arg, &problem);
	stet_text_release(&text);
	return rc;
}

static int look(struct checking *c, unsigned flags, stet_problem_fn *fn, void *arg)
{
	struct stet_check_summary summary;
	unsigned below = flags & STET_CHECK_NO_DATA ? STET_CHECK_SKIP_DATA : 0;
	int rc;

	stet_api_lock_(c->vol);
	rc = stet_check_volume(c->vol->fs, c->vol->engine, below, note, c, &summary);
	stet_api_unlock_(c->vol);
	if (rc)
		return rc;
	find_paths(c);
	for (size_t i = 0; i < c->found.n && fn && !rc; i++)
		rc = report_one(&c->found.v[i], fn, arg);
	return rc < 0 ? rc : (int)c->found.n;
}

static void release(struct checking *c)
{
	for (size_t i = 0; i < c->found.n; i++) {
		stet_free(c->found.v[i].detail);
		stet_free(c->found.v[i].path);
	}
	stet_vec_release(&c->found);
	stet_vec_release(&c->by_ino);
}

/* The log or the checkpoint is bad: nothing more can be seen. */
static int report_damaged(stet_problem_fn *fn, void *arg)
{
	struct stet_problem problem = { .id = "DAMAGED", .path = "", .text = stet_error_text() };
	int rc = fn ? fn(arg, &problem) : 0;

	return rc < 0 ? rc : 1;
}

int stet_check(const char *path, unsigned flags, stet_problem_fn *fn, void *arg)
{
	struct stet_open_options options = { .read_only = true, .no_remote = true };
	struct checking c = { .vol = NULL };
	int rc = stet_api_check_flags_(flags, STET_CHECK_NO_DATA);

	if (!rc)
		rc = stet_open(path, &options, &c.vol);
	if (rc == -EUCLEAN)
		return report_damaged(fn, arg);
	if (rc)
		return rc;
	rc = look(&c, flags, fn, arg);
	release(&c);
	stet_ignore(stet_close(c.vol), "it was read-only");
	return rc;
}
