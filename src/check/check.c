/* check.c - the passes of a check, and how problems are reported.
 *
 * Three passes: the root's nodes and what they name against the segment table (space.c); the current state,
 * key by key, with its data (scan.c); names, links and reachability, from what the scan collected
 * (names.c). A problem never ends a pass; only the caller, or memory, does.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "check/check_internal.h"

#define NAME_(name, text) #name,
#define TEXT_(name, text) text,
static const char *const problem_name[] = { STET_CHECK_PROBLEMS(NAME_) };
static const char *const problem_text[] = { STET_CHECK_PROBLEMS(TEXT_) };

const char *stet_check_name(enum stet_problem_id id)
{
	return problem_name[id];
}

const char *stet_check_text(enum stet_problem_id id)
{
	return problem_text[id];
}

int stet_check_report_(struct stet_checker *c, enum stet_problem_id id, uint64_t ino,
		       const char *fmt, ...)
{
	char detail[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(detail, sizeof(detail), fmt, args);
	va_end(args);
	c->sum.problems++;
	return c->fn ? c->fn(c->arg, id, ino, detail) : 0;
}

struct stet_check_inode *stet_check_find_(struct stet_checker *c, uint64_t ino)
{
	size_t low = 0;
	size_t high = c->inodes.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->inodes.v[mid].ino < ino)
			low = mid + 1;
		else
			high = mid;
	}
	return low < c->inodes.n && c->inodes.v[low].ino == ino ? &c->inodes.v[low] : NULL;
}

static void release(struct stet_checker *c)
{
	uint32_t slots = stet_engine_superblock(c->engine)->slot_count;

	for (uint32_t i = 0; c->map && i < slots; i++)
		stet_free(c->map[i]);
	stet_free(c->map);
	stet_free(c->data);
	stet_vec_release(&c->inodes);
	stet_vec_release(&c->names);
	stet_vec_release(&c->orphans);
	stet_vec_release(&c->values);
	stet_vec_release(&c->blocks);
}

int stet_check_volume(struct stet_fs *fs, struct stet_engine *engine, unsigned flags,
		      stet_check_fn *fn, void *arg, struct stet_check_summary *ret)
{
	struct stet_checker c = {
		.fs = fs,
		.engine = engine,
		.flags = flags,
		.fn = fn,
		.arg = arg,
	};
	int rc = 0;

	c.map = stet_calloc(stet_engine_superblock(engine)->slot_count, sizeof(*c.map));
	c.data = stet_alloc_aligned(STET_BLOCK_SIZE,
				    (size_t)STET_EXTENT_BLOCKS_MAX * STET_BLOCK_SIZE);
	if (!c.map || !c.data)
		rc = STET_FAIL(-ENOMEM, "no memory for a check");
	if (!rc)
		rc = stet_check_space_(&c);
	if (!rc)
		rc = stet_check_scan_(&c);
	if (!rc)
		rc = stet_check_names_(&c);
	if (!rc)
		*ret = c.sum;
	release(&c);
	return rc;
}
