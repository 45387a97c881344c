/* path.c - resolves paths, component by component, inside the volume.
 *
 * P1. The walk stands on an inode `at` of type `type`, with `rest` still to go. Each step takes one
 *     component off the rest. A link that is followed puts its target in front of the rest; at most
 *     STET_API_MAX_LINKS of them, so the walk ends.
 * P2. The last component is looked up but need not exist: then ino is 0, and dir and name say where it
 *     would be. A path that ends in ".", ".." or "/" has no name to give.
 *     Of the empty path, which is `dir` itself, not even the type is read.
 * P3. Everything read is read through the transaction, so what a path depended on is validated or locked
 *     like any other read.
 */
#include "api/api_internal.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define RESERVED_NAME ".stet"

struct walk {
	struct stet_api_op *op;
	uint64_t at;
	uint8_t type;
	bool follow;
	unsigned links;
	const char *rest;
	char buf[2][STET_API_PATH_MAX]; /* the rest lies in one of them once a link was met */
	unsigned next_buf;
};

struct component {
	const char *name;
	size_t len;
	bool last;  /* nothing but slashes behind it */
	bool slash; /* a slash behind it */
};

static bool is_dot(const struct component *c)
{
	return c->len == 1 && c->name[0] == '.';
}

static bool is_dot_dot(const struct component *c)
{
	return c->len == 2 && c->name[0] == '.' && c->name[1] == '.';
}

static const char *skip_slashes(const char *p)
{
	while (*p == '/')
		p++;
	return p;
}

/* Takes the next component off the rest; false at the end. */
static bool take(struct walk *w, struct component *ret)
{
	const char *p = skip_slashes(w->rest);
	size_t len = strcspn(p, "/");

	if (len == 0)
		return false;
	ret->name = p;
	ret->len = len;
	ret->slash = p[len] == '/';
	w->rest = p + len;
	ret->last = *skip_slashes(w->rest) == 0;
	return true;
}

static int load_type(struct walk *w)
{
	uint32_t type;
	int rc;

	if (w->type != DT_UNKNOWN)
		return 0;
	rc = stet_fs_get_type(&w->op->ctx, w->at, &type);
	if (!rc)
		w->type = (uint8_t)IFTODT(type);
	return rc;
}

static void stand_on(struct walk *w, uint64_t ino, uint8_t type)
{
	w->at = ino;
	w->type = type;
}

static int go_up(struct walk *w)
{
	uint64_t up;
	int rc = stet_fs_get_parent(&w->op->ctx, w->at, &up);

	if (rc)
		return rc;
	rc = stet_api_permit_(w->op, w->at, STET_API_MAY_SEARCH);
	if (rc)
		return rc;
	if (w->at != STET_ROOT_INO)
		stand_on(w, up, DT_DIR);
	return 0;
}

/* P1: the link's target comes in front of the rest. */
static int follow_link(struct walk *w, uint64_t ino)
{
	char *buf = w->buf[w->next_buf];
	size_t rest_len = strlen(w->rest);
	size_t len = 0;
	int rc;

	if (++w->links > STET_API_MAX_LINKS)
		return STET_FAIL(-ELOOP, "more than %d symbolic links", STET_API_MAX_LINKS);
	rc = stet_fs_readlink(&w->op->ctx, ino, buf, STET_API_PATH_MAX - 1, &len);
	if (rc)
		return rc;
	if (len + rest_len >= STET_API_PATH_MAX)
		return STET_FAIL(-ENAMETOOLONG, "the path is too long with its links");
	memcpy(buf + len, w->rest, rest_len + 1); /* the rest begins with a slash or is empty */
	w->rest = buf;
	w->next_buf ^= 1;
	if (buf[0] == '/')
		stand_on(w, STET_ROOT_INO, DT_DIR);
	return 0;
}

static void give_nameless(const struct walk *w, struct stet_api_place *ret)
{
	*ret = (struct stet_api_place){ .ino = w->at, .type = w->type };
}

static int step_dots(struct walk *w, const struct component *c)
{
	if (is_dot_dot(c))
		return go_up(w);
	int rc = load_type(w);

	if (!rc && w->type != DT_DIR)
		rc = -ENOTDIR;
	return rc ? rc : stet_api_permit_(w->op, w->at, STET_API_MAY_SEARCH);
}

/* 1: *ret is the answer; 0: go on. */
static int step_name(struct walk *w, const struct component *c, struct stet_api_place *ret)
{
	struct stet_dirent found = { 0 };
	int rc;

	if (c->len > STET_NAME_MAX)
		return STET_FAIL(-ENAMETOOLONG, "a name of %zu bytes", c->len);
	rc = stet_api_permit_(w->op, w->at, STET_API_MAY_SEARCH);
	if (rc)
		return rc;
	rc = stet_fs_lookup(&w->op->ctx, w->at, stet_api_name_(c->name, c->len), &found);
	if (rc && !(rc == -ENOENT && c->last))
		return rc;
	if (!rc && found.type == DT_LNK && (!c->last || w->follow || c->slash))
		return follow_link(w, found.ino);
	if (!c->last) {
		stand_on(w, found.ino, found.type);
		return found.type == DT_DIR ? 0 : -ENOTDIR;
	}
	*ret = (struct stet_api_place){
		.dir = w->at,
		.ino = found.ino,
		.type = found.type,
		.must_be_dir = c->slash,
		.name_len = c->len,
	};
	memcpy(ret->name, c->name, c->len);
	return 1;
}

int stet_api_resolve_(struct stet_api_op *op, uint64_t dir, const char *path, bool follow,
		      struct stet_api_place *ret)
{
	struct walk w = { .op = op, .at = dir, .follow = follow, .rest = path };
	struct component c;
	int rc = 0;

	if (strlen(path) >= STET_API_PATH_MAX)
		return STET_FAIL(-ENAMETOOLONG, "a path of more than %d bytes",
				 STET_API_PATH_MAX - 1);
	if (path[0] == '/')
		stand_on(&w, STET_ROOT_INO, DT_DIR);
	else
		rc = stet_api_permit_start_(op, dir);
	while (!rc && take(&w, &c))
		rc = is_dot(&c) || is_dot_dot(&c) ? step_dots(&w, &c) : step_name(&w, &c, ret);
	if (rc == 1)
		return 0;
	if (!rc)
		give_nameless(&w, ret);
	return rc;
}

int stet_api_check_found_(const struct stet_api_place *place)
{
	if (place->ino == 0)
		return -ENOENT;
	return place->must_be_dir && place->type != DT_DIR ? -ENOTDIR : 0;
}

int stet_api_find_(struct stet_api_op *op, uint64_t dir, const char *path, bool follow,
		   struct stet_api_place *ret)
{
	int rc = stet_api_resolve_(op, dir, path, follow, ret);

	return rc ? rc : stet_api_check_found_(ret);
}

int stet_api_check_name_(const char *name)
{
	size_t len = strlen(name);

	if (len > STET_NAME_MAX)
		return STET_FAIL(-ENAMETOOLONG, "a name of %zu bytes", len);
	if (len == 0 || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return STET_FAIL(-EINVAL, "\"%s\" is not a name", name);
	return 0;
}

int stet_api_check_new_(uint64_t dir, const char *name)
{
	int rc = stet_api_check_name_(name);

	if (!rc && dir == STET_ROOT_INO && strcmp(name, RESERVED_NAME) == 0)
		return STET_FAIL(-EPERM, "\"%s\" in the root is reserved", name);
	return rc;
}
