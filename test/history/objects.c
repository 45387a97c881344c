/* objects.c - what a round works on, and how its parts are named. */
#include "work.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* Eight in a block and some in the next; one in each block; and so few that they lie in the inode. The last two
 * grow as they are written. */
const struct work_cells work_cells[WORK_CELL_FILES] = {
	{ 12, 512, 12 * 512 },
	{ 4, 4096, 0 },
	{ 6, 16, 0 },
};

const char *work_name(unsigned no)
{
	static const char *const names[WORK_NAMES] = { "n0", "n1", "n2", "n3", "d0", "d1" };

	return names[no];
}

const char *work_xattr(unsigned no)
{
	static const char *const names[WORK_XATTRS] = { "user.a", "user.b" };

	return names[no];
}

void work_print_key(FILE *out, uint64_t key)
{
	uint64_t a = (key >> 16) & UINT64_C(0xffffffffff), b = key & 0xffff;

	switch ((enum work_key)(key >> 56)) {
	case KEY_CELL:
		fprintf(out, "cell %" PRIu64 " of c%" PRIu64, b, a);
		break;
	case KEY_LIST:
		fprintf(out, "l%" PRIu64, a);
		break;
	case KEY_NAME:
		fprintf(out, "name %s in %" PRIx64, work_name((unsigned)b), a);
		break;
	case KEY_DIR:
		fprintf(out, "directory %" PRIx64, a);
		break;
	case KEY_CONTENT:
		fprintf(out, "content of %" PRIx64, a);
		break;
	case KEY_OWNER:
		fprintf(out, "owner of c%" PRIu64, a);
		break;
	case KEY_XATTR:
		fprintf(out, "%s", work_xattr((unsigned)b));
		break;
	case KEY_BALLAST:
		fprintf(out, "ballast");
		break;
	case KEY_RECORD:
		fprintf(out, "record %" PRIu64, b);
		break;
	}
}

static int make_file(struct actor *a, const char *kind, unsigned no, uint64_t size, uint64_t *ret)
{
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "%s%u", kind, no);
	rc = work_make(a, a->work->dir, name, false, ret);
	if (!rc && size > 0)
		rc = work_cut(a, *ret, size);
	return rc;
}

int work_set_up(struct work *w)
{
	struct actor nobody_else = { .work = w }, *a = &nobody_else;
	char name[32];
	int rc;

	snprintf(name, sizeof(name), "round%016" PRIx64, w->plan->seed);
	rc = work_make(a, STET_ROOT, name, true, &w->dir);
	for (unsigned k = 0; k < WORK_CELL_FILES && !rc; k++)
		rc = make_file(a, "c", k, work_cells[k].size, &w->cells[k]);
	for (unsigned k = 0; k < WORK_LISTS && !rc; k++)
		rc = make_file(a, "l", k, 0, &w->lists[k]);
	return rc ? rc : work_records_set_up(w);
}
