/* copy.c - copies files and trees between two sites, with all that belongs to them.
 *
 * I1. A file is copied with its type, permissions, times, extended attributes, holes and, by root,
 *     its owner; files with several names among what is copied have them in the copy, too.
 * I2. Nothing is followed on the way down: a link is copied as a link, and one that stands where a
 *     file is to go is replaced, not written through.
 * I3. A file is written in place when there is one already with one name, as cp(1) does; otherwise
 *     it is made anew. A directory is filled. Neither takes the place of the other.
 * I4. A directory gets its attributes after what it holds, for filling it changes them, and may
 *     need permissions that it is not to have in the end. One that was there before, at the
 *     starting point, keeps its own.
 * I5. The images of the volumes at work are neither read nor written: a volume does not fit into
 *     itself.
 * I6. A table is copied record by record, between volumes; there is nothing on the host that it could be.
 *
 * With `stop`, the first error ends it: the target is a transaction, and nothing of it will be
 * seen. Else each error is told, the rest is copied, and a file that broke off is removed if it
 * was made here.
 */
#include "cli/site_internal.h"
#include "cli/table_internal.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK_BYTES ((size_t)1 << 20)

/* A file with more than one name that was copied. */
struct link {
	uint64_t dev, volume, ino; /* of the source: the key */
	uint64_t to_ino;
	char *to_path; /* owned */
};

/* A file, where it is and where it goes. */
struct spot {
	struct stet_cli_dir from_dir, to_dir;
	const char *from_name, *to_name;
	unsigned depth;
	struct stet_cli_attr from;
	bool exists; /* the target */
	struct stet_cli_attr to;
};

/// Errors ///

static int note(struct stet_cli_copy *c, int code)
{
	if (!c->code)
		c->code = code;
	return code;
}

static int fail_at(struct stet_cli_copy *c, const struct stet_cli_site *site, const char *path,
		   int rc)
{
	return note(c, site->v ? stet_cli_fail_volume_(path, rc) : stet_cli_fail_(path, rc));
}

static int fail_from(struct stet_cli_copy *c, int rc)
{
	return fail_at(c, c->from, c->from_path.s, rc);
}

static int fail_to(struct stet_cli_copy *c, int rc)
{
	return fail_at(c, c->to, c->to_path.s, rc);
}

static int refuse(struct stet_cli_copy *c, const char *path, const char *why)
{
	stet_cli_error_(path, "%s", why);
	return note(c, STET_CLI_FAILED);
}

/// Extended attributes ///

/* Those that belong to the file for its users; the others only if the target takes them. */
static bool matters(const char *xattr)
{
	return strncmp(xattr, "user.", 5) == 0 || strncmp(xattr, "system.posix_acl_", 17) == 0;
}

static bool is_unsupported(ssize_t rc)
{
	return rc == -EOPNOTSUPP || rc == -EPERM || rc == -EACCES;
}

static int fail_xattr(struct stet_cli_copy *c, const char *path, const char *xattr, int rc)
{
	stet_cli_error_(path, "extended attribute %s: %s", xattr, strerror(-rc));
	return note(c, STET_CLI_FAILED);
}

static int copy_xattr(struct stet_cli_copy *c, const struct spot *s, const char *xattr)
{
	ssize_t len = c->from->ops->get_xattr(c->from, s->from_dir, s->from_name, xattr, c->buf,
					      CHUNK_BYTES);
	int rc;

	if (len == -ENODATA || (len < 0 && !matters(xattr)))
		return STET_CLI_OK;
	if (len == -EOPNOTSUPP && !c->stop) { /* listed, but not given out */
		c->xattrs_lost = true;
		return STET_CLI_OK;
	}
	if (len < 0)
		return fail_xattr(c, c->from_path.s, xattr, (int)len);
	rc = c->to->ops->set_xattr(c->to, s->to_dir, s->to_name, xattr, c->buf, (size_t)len);
	if (rc == 0 || (is_unsupported(rc) && !matters(xattr)))
		return STET_CLI_OK;
	if (is_unsupported(rc) && !c->stop) {
		c->xattrs_lost = true;
		return STET_CLI_OK;
	}
	return fail_xattr(c, c->to_path.s, xattr, rc);
}

static int copy_xattrs(struct stet_cli_copy *c, const struct spot *s)
{
	ssize_t len = c->from->ops->list_xattrs(c->from, s->from_dir, s->from_name, c->buf,
						CHUNK_BYTES);
	int code = STET_CLI_OK;
	char *names;

	if (len == 0 || is_unsupported(len))
		return STET_CLI_OK;
	if (len < 0)
		return fail_from(c, (int)len);
	names = stet_cli_alloc_((size_t)len + 1);
	memcpy(names, c->buf, (size_t)len);
	for (const char *at = names; at < names + len && !code; at += strlen(at) + 1)
		code = copy_xattr(c, s, at);
	free(names);
	return code;
}

static int copy_attributes(struct stet_cli_copy *c, const struct spot *s)
{
	int rc = c->to->ops->set_owner(c->to, s->to_dir, s->to_name, &s->from);
	int code;

	if (rc)
		return fail_to(c, rc);
	code = copy_xattrs(c, s);
	if (code)
		return code;
	rc = c->to->ops->set_attr(c->to, s->to_dir, s->to_name, &s->from);
	return rc ? fail_to(c, rc) : STET_CLI_OK;
}

/// Data ///

struct streams {
	struct stet_cli_stream from, to;
	uint64_t end; /* of what was written */
};

/* Copies [off, end), or up to the end of the file: *ret_eof. */
static int copy_range(struct stet_cli_copy *c, struct streams *st, uint64_t off, uint64_t end,
		      bool *ret_eof)
{
	while (off < end) {
		size_t want = end - off < CHUNK_BYTES ? (size_t)(end - off) : CHUNK_BYTES;
		ssize_t n = c->from->ops->read(&st->from, c->buf, want, off);
		int rc;

		if (n < 0)
			return fail_from(c, (int)n);
		if (n == 0) {
			*ret_eof = true;
			return STET_CLI_OK;
		}
		rc = c->to->ops->write(&st->to, c->buf, (size_t)n, off);
		if (rc)
			return fail_to(c, rc);
		off += (uint64_t)n;
		st->end = off;
		c->progress.bytes += (uint64_t)n;
		stet_cli_progress_(&c->progress);
	}
	return STET_CLI_OK;
}

/* The next stretch of data at or after off; false: there is none. Where holes cannot be found, all
 * is data. */
static bool next_data(struct stet_cli_copy *c, struct streams *st, uint64_t off, uint64_t *ret_off,
		      uint64_t *ret_end)
{
	int rc = c->from->ops->seek(&st->from, off, STET_SEEK_DATA, ret_off);

	if (rc == -ENXIO)
		return false;
	if (rc)
		*ret_off = off;
	if (rc || c->from->ops->seek(&st->from, *ret_off, STET_SEEK_HOLE, ret_end) != 0)
		*ret_end = UINT64_MAX;
	return true;
}

static int copy_stream(struct stet_cli_copy *c, struct streams *st)
{
	uint64_t off = 0;
	uint64_t end = 0;
	uint64_t size;
	bool eof = false;
	int rc;

	while (!eof && next_data(c, st, end, &off, &end)) {
		int code = copy_range(c, st, off, end, &eof);

		if (code)
			return code;
	}
	rc = c->from->ops->size(&st->from, &size);
	if (rc)
		return fail_from(c, rc);
	if (size <= st->end)
		return STET_CLI_OK;
	rc = c->to->ops->truncate(&st->to, size);
	return rc ? fail_to(c, rc) : STET_CLI_OK;
}

static int copy_file(struct stet_cli_copy *c, const struct spot *s)
{
	struct streams st = { 0 };
	int rc = c->from->ops->open(c->from, s->from_dir, s->from_name, &st.from);
	int code;

	if (rc)
		return fail_from(c, rc);
	rc = c->to->ops->create(c->to, s->to_dir, s->to_name, &st.to);
	if (rc) {
		c->from->ops->close(&st.from);
		return fail_to(c, rc);
	}
	code = copy_stream(c, &st);
	c->from->ops->close(&st.from);
	rc = c->to->ops->close(&st.to);
	if (rc && !code)
		code = fail_to(c, rc);
	if (code && !c->stop && !s->exists)
		c->to->ops->unlink(c->to, s->to_dir, s->to_name);
	return code;
}

static int copy_link(struct stet_cli_copy *c, const struct spot *s)
{
	struct stet_cli_text target = { 0 };
	int rc = c->from->ops->readlink(c->from, s->from_dir, s->from_name, &target);

	if (rc)
		return fail_from(c, rc);
	rc = c->to->ops->symlink(c->to, target.s, s->to_dir, s->to_name);
	stet_cli_text_release_(&target);
	return rc ? fail_to(c, rc) : STET_CLI_OK;
}

static int copy_special(struct stet_cli_copy *c, const struct spot *s)
{
	int rc = c->to->ops->mknod(c->to, s->to_dir, s->to_name, &s->from);

	return rc ? fail_to(c, rc) : STET_CLI_OK;
}

static bool has_records(const struct stet_cli_site *site)
{
	return site->v && !site->v->mounted;
}

static int copy_table(struct stet_cli_copy *c, const struct spot *s)
{
	const struct stet_cli_table_end from = { c->from->v, s->from_dir.ino, s->from_name };
	const struct stet_cli_table_end to = { c->to->v, s->to_dir.ino, s->to_name };
	bool at_target;
	int rc;

	if (!c->to->v)
		return refuse(
			c, c->from_path.s,
			"is a table, not a file: \"stetfs table ... dump\" writes its records");
	if (!has_records(c->from) || !has_records(c->to))
		return refuse(c, c->from_path.s,
			      "is a table, which is not copied while the volume is mounted");
	rc = stet_cli_table_copy_(&from, &to, &c->progress, &at_target);
	if (rc)
		return at_target ? fail_to(c, rc) : fail_from(c, rc);
	return STET_CLI_OK;
}

/// Files with several names ///

static int by_identity(const void *a, const void *b)
{
	const struct link *la = a, *lb = b;

	if (la->dev != lb->dev)
		return la->dev < lb->dev ? -1 : 1;
	if (la->volume != lb->volume)
		return la->volume < lb->volume ? -1 : 1;
	return la->ino < lb->ino ? -1 : la->ino > lb->ino;
}

static const struct link *find_link(const struct stet_cli_copy *c, const struct stet_cli_attr *attr)
{
	struct link key = { .dev = attr->dev, .volume = attr->volume, .ino = attr->ino };
	struct link **found = attr->nlink > 1 ? tfind(&key, &c->links, by_identity) : NULL;

	return found ? *found : NULL;
}

static int remember_link(struct stet_cli_copy *c, const struct spot *s)
{
	struct stet_cli_attr to;
	struct link *link;
	int rc;

	if (s->from.nlink < 2)
		return STET_CLI_OK;
	rc = c->to->ops->stat(c->to, s->to_dir, s->to_name, &to);
	if (rc)
		return fail_to(c, rc);
	link = stet_cli_alloc_(sizeof(*link));
	*link = (struct link){
		.dev = s->from.dev,
		.volume = s->from.volume,
		.ino = s->from.ino,
		.to_ino = to.ino,
		.to_path = stet_cli_strdup_(c->to_path.s),
	};
	if (!tsearch(link, &c->links, by_identity))
		return fail_to(c, -ENOMEM);
	return STET_CLI_OK;
}

static void free_link(void *p)
{
	struct link *link = p;

	free(link->to_path);
	free(link);
}

/// One file ///

static int by_string(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Is it one that an earlier operand has just made? */
static bool is_fresh(struct stet_cli_copy *c, const struct spot *s)
{
	return s->depth == 0 && tfind(c->to_path.s, &c->made, by_string);
}

/* Named by hand, it was not meant to be replaced: /dev/null. */
static bool is_device(const struct stet_cli_copy *c, const struct spot *s)
{
	return s->depth == 0 && !c->to->v && !S_ISREG(s->to.mode) && !S_ISLNK(s->to.mode);
}

/* I3: makes room where the target cannot be written in place. */
static int clear_target(struct stet_cli_copy *c, struct spot *s, bool always)
{
	int rc;

	if (!s->exists)
		return STET_CLI_OK;
	if (S_ISDIR(s->to.mode))
		return refuse(c, c->to_path.s, "is a directory, not replaced by a file");
	if ((s->to.mode & S_IFMT) == STET_S_IFTABLE && (s->from.mode & S_IFMT) != STET_S_IFTABLE)
		return refuse(c, c->to_path.s, "is a table, not replaced by a file");
	if (is_device(c, s))
		return refuse(c, c->to_path.s, "is a device, FIFO or socket, not replaced");
	if (is_fresh(c, s))
		return refuse(c, c->to_path.s,
			      "was just made, by another operand of the same name");
	if (!always && S_ISREG(s->from.mode) && S_ISREG(s->to.mode) && s->to.nlink == 1)
		return STET_CLI_OK;
	rc = c->to->ops->unlink(c->to, s->to_dir, s->to_name);
	s->exists = false;
	return rc ? fail_to(c, rc) : STET_CLI_OK;
}

static int copy_other(struct stet_cli_copy *c, struct spot *s)
{
	const struct link *link = find_link(c, &s->from);
	int code = clear_target(c, s, link != NULL);
	int rc;

	if (code)
		return code;
	c->progress.files++;
	stet_cli_progress_(&c->progress);
	if (link) {
		rc = c->to->ops->link(c->to, link->to_path, link->to_ino, s->to_dir, s->to_name);
		return rc ? fail_to(c, rc) : STET_CLI_OK;
	}
	if (S_ISREG(s->from.mode))
		code = copy_file(c, s);
	else if (S_ISLNK(s->from.mode))
		code = copy_link(c, s);
	else if ((s->from.mode & S_IFMT) == STET_S_IFTABLE)
		code = copy_table(c, s);
	else
		code = copy_special(c, s);
	if (!code)
		code = copy_attributes(c, s);
	if (!code)
		code = remember_link(c, s);
	if (!code && s->depth == 0 && !tsearch(stet_cli_strdup_(c->to_path.s), &c->made, by_string))
		code = fail_to(c, -ENOMEM);
	return code;
}

/// Directories ///

static int copy_at(struct stet_cli_copy *c, struct spot *s);

static int copy_contents(struct stet_cli_copy *c, struct stet_cli_dir from, struct stet_cli_dir to,
			 unsigned depth)
{
	struct stet_cli_names names = { 0 };
	size_t from_len = c->from_path.len;
	size_t to_len = c->to_path.len;
	int rc = c->from->ops->list(c->from, from, &names);
	int code = rc ? fail_from(c, rc) : STET_CLI_OK;

	for (size_t i = 0; i < names.count && !(code && c->stop); i++) {
		struct spot s = {
			.from_dir = from,
			.to_dir = to,
			.from_name = names.name[i],
			.to_name = names.name[i],
			.depth = depth,
		};

		stet_cli_text_join_(&c->from_path, names.name[i]);
		stet_cli_text_join_(&c->to_path, names.name[i]);
		code = copy_at(c, &s);
		stet_cli_text_cut_(&c->from_path, from_len);
		stet_cli_text_cut_(&c->to_path, to_len);
	}
	stet_cli_names_release_(&names);
	return c->stop ? code : STET_CLI_OK;
}

static bool is_same_site(const struct stet_cli_copy *c)
{
	return c->from->v && c->from->v == c->to->v;
}

/* Opens both directories and copies what is in them. */
static int descend(struct stet_cli_copy *c, const struct spot *s)
{
	struct stet_cli_dir from, to;
	int rc = c->from->ops->open_dir(c->from, s->from_dir, s->from_name, &from);
	int code;

	if (rc)
		return fail_from(c, rc);
	rc = c->to->ops->open_dir(c->to, s->to_dir, s->to_name, &to);
	if (rc) {
		c->from->ops->close_dir(c->from, from);
		return fail_to(c, rc);
	}
	if (s->depth == 0)
		c->top_ino = to.ino;
	code = copy_contents(c, from, to, s->depth + 1);
	c->to->ops->close_dir(c->to, to);
	c->from->ops->close_dir(c->from, from);
	return code;
}

static int copy_dir(struct stet_cli_copy *c, struct spot *s)
{
	bool made = !s->exists;
	int code;
	int rc;

	if (!c->recursive)
		return refuse(c, c->from_path.s, "is a directory; -r copies it");
	if (s->depth >= STET_CLI_DEPTH_MAX)
		return refuse(c, c->from_path.s, "lies too deep");
	if (s->exists && !S_ISDIR(s->to.mode))
		return refuse(c, c->to_path.s, "is not a directory, not replaced by one");
	if (is_same_site(c) && s->from.ino == c->top_ino && s->depth > 0)
		return refuse(c, c->from_path.s, "cannot be copied into itself");
	if (made) {
		rc = c->to->ops->mkdir(c->to, s->to_dir, s->to_name);
		if (rc)
			return fail_to(c, rc);
	}
	c->progress.files++;
	code = descend(c, s);
	if (code || (!made && s->depth == 0)) /* I4 */
		return code;
	return copy_attributes(c, s);
}

/// Anything ///

/* I5. */
static bool is_image(const struct stet_cli_copy *c, const struct stet_cli_site *site,
		     const struct stet_cli_attr *attr)
{
	const struct stet_cli_volume *volumes[2] = { c->from->v, c->to->v };

	for (unsigned i = 0; i < 2 && !site->v; i++) {
		if (volumes[i] && volumes[i]->dev == attr->dev && volumes[i]->ino == attr->ino)
			return true;
	}
	return false;
}

static int copy_at(struct stet_cli_copy *c, struct spot *s)
{
	int rc = c->from->ops->stat(c->from, s->from_dir, s->from_name, &s->from);

	if (rc)
		return fail_from(c, rc);
	rc = c->to->ops->stat(c->to, s->to_dir, s->to_name, &s->to);
	if (rc && rc != -ENOENT)
		return fail_to(c, rc);
	s->exists = rc == 0;
	if (is_image(c, c->from, &s->from))
		return refuse(c, c->from_path.s, "is the volume itself");
	if (s->exists && is_image(c, c->to, &s->to))
		return refuse(c, c->to_path.s, "is the volume itself");
	if (s->exists && is_same_site(c) && s->from.ino == s->to.ino)
		return refuse(c, c->to_path.s, "is the same file");
	return S_ISDIR(s->from.mode) ? copy_dir(c, s) : copy_other(c, s);
}

int stet_cli_copy_(struct stet_cli_copy *c, const char *from_path, const char *from_word,
		   const char *to_path, const char *to_word)
{
	struct spot s = {
		.from_dir = c->from->ops->start(c->from),
		.to_dir = c->to->ops->start(c->to),
		.from_name = from_path,
		.to_name = to_path,
	};

	if (!c->buf)
		c->buf = stet_cli_alloc_(CHUNK_BYTES);
	c->progress.verb = "copied";
	c->top_ino = 0;
	stet_cli_text_cut_(&c->from_path, 0);
	stet_cli_text_adds_(&c->from_path, from_word);
	stet_cli_text_cut_(&c->to_path, 0);
	stet_cli_text_adds_(&c->to_path, to_word);
	return copy_at(c, &s);
}

void stet_cli_copy_release_(struct stet_cli_copy *c)
{
	tdestroy(c->links, free_link);
	tdestroy(c->made, free);
	stet_cli_text_release_(&c->from_path);
	stet_cli_text_release_(&c->to_path);
	free(c->buf);
}
