/* model_print.c - operations and differences of states as text.
 *
 * A difference names the first few inodes that differ and in what; that is all that is needed to find
 * the operation that went wrong.
 */
#include "model_internal.h"

#include <inttypes.h>
#include <string.h>

#define DIFF_INODES_MAX 8u

static const char *const kind_names[MODEL_KINDS] = {
	[MODEL_LOOKUP] = "lookup",
	[MODEL_LIST] = "list",
	[MODEL_GETATTR] = "getattr",
	[MODEL_READ] = "read",
	[MODEL_READLINK] = "readlink",
	[MODEL_XATTR_GET] = "getxattr",
	[MODEL_XATTR_LIST] = "listxattr",
	[MODEL_RECORD_GET] = "getrecord",
	[MODEL_RECORD_LIST] = "listrecords",
	[MODEL_MAKE] = "make",
	[MODEL_UNLINK] = "unlink",
	[MODEL_RMDIR] = "rmdir",
	[MODEL_LINK] = "link",
	[MODEL_RENAME] = "rename",
	[MODEL_SETATTR] = "setattr",
	[MODEL_XATTR_SET] = "setxattr",
	[MODEL_XATTR_REMOVE] = "removexattr",
	[MODEL_WRITE] = "write",
	[MODEL_APPEND] = "append",
	[MODEL_TRUNCATE] = "truncate",
	[MODEL_PUNCH] = "punch",
	[MODEL_RECORD_PUT] = "putrecord",
	[MODEL_RECORD_DEL] = "delrecord",
};

const char *model_kind_name(enum model_kind kind)
{
	return kind_names[kind];
}

static void print_name(struct stet_text *t, struct model_name name)
{
	if (name.len > 20)
		stet_text_printf(t, "(%zu bytes)", name.len);
	else
		stet_text_name(t, name.bytes, name.len);
}

void model_op_print(struct stet_text *t, const struct model_op *op)
{
	stet_text_printf(t, "%s ino=%" PRIu64, kind_names[op->kind], op->ino);
	if (op->name.len) {
		stet_text_printf(t, " %" PRIu64 "/", op->dir);
		print_name(t, op->name);
	}
	if (op->to_name.len) {
		stet_text_printf(t, " -> %" PRIu64 "/", op->to_dir);
		print_name(t, op->to_name);
	}
	stet_text_printf(t, " off=%" PRIu64 " len=%" PRIu64 " flags=%x mode=%o seed=%" PRIu64,
			 op->off, op->len, op->flags, op->mode, op->seed);
	if (op->new_ino)
		stet_text_printf(t, " new=%" PRIu64, op->new_ino);
}

/* --- differences --- */

struct diff {
	struct stet_text *t;
	const struct model *other;
	bool reverse; /* walking `have`: only what `want` lacks is new */
	unsigned count;
};

static void diff_number(struct stet_text *t, const char *what, uint64_t want, uint64_t have)
{
	if (want != have)
		stet_text_printf(t, " %s: want %" PRIu64 " (%#" PRIx64 "), have %" PRIu64 ";", what,
				 want, want, have);
}

static void diff_entries(struct stet_text *t, const struct model_inode *want,
			 const struct model_inode *have, const char *what)
{
	for (size_t k = 0; k < want->entry_count; k++) {
		const struct model_entry *a = &want->entries[k];
		const struct model_entry *b = model_entry(have, a->name->b, a->name->len);

		if (b && b->ino == a->ino && b->type == a->type)
			continue;
		stet_text_printf(t, " %s name ", what);
		print_name(t, (struct model_name){ (const char *)a->name->b, a->name->len });
		stet_text_printf(t, " -> %" PRIu64 " type %u (there: %" PRIu64 ");", a->ino,
				 a->type, b ? b->ino : 0);
	}
}

static void diff_xattrs(struct stet_text *t, const struct model_inode *want,
			const struct model_inode *have, const char *what)
{
	for (size_t k = 0; k < want->xattr_count; k++) {
		const struct model_xattr *a = &want->xattrs[k];
		const struct model_xattr *b = model_xattr(have, a->name->b, a->name->len);

		if (b && model_hash_equal(a->value->hash, b->value->hash))
			continue;
		stet_text_printf(t, " %s xattr ", what);
		stet_text_name(t, a->name->b, a->name->len);
		stet_text_printf(t, " of %u bytes (there: %d);", a->value->len,
				 b ? (int)b->value->len : -1);
	}
}

static const struct model_blob *page_at(const struct model_inode *inode, uint64_t no)
{
	for (size_t k = 0; k < inode->page_count; k++)
		if (inode->pages[k].no == no)
			return inode->pages[k].bytes;
	return NULL;
}

static void diff_page(struct stet_text *t, uint64_t no, const struct model_blob *want,
		      const struct model_blob *have)
{
	static const uint8_t zeros[STET_BLOCK_SIZE];
	const uint8_t *a = want ? want->b : zeros, *b = have ? have->b : zeros;
	size_t from = 0, to = STET_BLOCK_SIZE;

	while (from < to && a[from] == b[from])
		from++;
	while (to > from && a[to - 1] == b[to - 1])
		to--;
	if (from < to)
		stet_text_printf(t,
				 " page %" PRIu64
				 "%s%s: bytes %zu..%zu, first want %02x have %02x;",
				 no, want ? "" : " (want zeros)", have ? "" : " (have zeros)", from,
				 to, a[from], b[from]);
}

static void diff_pages(struct stet_text *t, const struct model_inode *want,
		       const struct model_inode *have)
{
	for (size_t k = 0; k < want->page_count; k++)
		diff_page(t, want->pages[k].no, want->pages[k].bytes,
			  page_at(have, want->pages[k].no));
	for (size_t k = 0; k < have->page_count; k++)
		if (!page_at(want, have->pages[k].no))
			diff_page(t, have->pages[k].no, NULL, have->pages[k].bytes);
}

static void diff_inode(struct stet_text *t, const struct model_inode *want,
		       const struct model_inode *have)
{
	stet_text_printf(t, "  inode %" PRIu64 ":", want->ino);
	diff_number(t, "mode", want->mode, have->mode);
	diff_number(t, "uid", want->uid, have->uid);
	diff_number(t, "gid", want->gid, have->gid);
	diff_number(t, "nlink", want->nlink, have->nlink);
	diff_number(t, "subdirs", want->subdirs, have->subdirs);
	diff_number(t, "size", want->size, have->size);
	diff_number(t, "rdev", want->rdev, have->rdev);
	diff_number(t, "parent", want->parent, have->parent);
	diff_number(t, "atime", (uint64_t)want->atime_ns, (uint64_t)have->atime_ns);
	diff_number(t, "mtime", (uint64_t)want->mtime_ns, (uint64_t)have->mtime_ns);
	diff_number(t, "ctime", (uint64_t)want->ctime_ns, (uint64_t)have->ctime_ns);
	diff_number(t, "btime", (uint64_t)want->btime_ns, (uint64_t)have->btime_ns);
	if ((want->target ? want->target->hash.a : 0) != (have->target ? have->target->hash.a : 0))
		stet_text_puts(t, " target;");
	diff_entries(t, want, have, "want");
	diff_entries(t, have, want, "have");
	diff_xattrs(t, want, have, "want");
	diff_xattrs(t, have, want, "have");
	diff_pages(t, want, have);
	stet_text_puts(t, "\n");
}

static int diff_one(void *arg, const struct model_inode *inode)
{
	struct diff *d = arg;
	const struct model_inode *other = model_find(d->other, inode->ino);

	if (inode->nlink == 0 || (d->reverse && other && other->nlink > 0))
		return 0;
	if (other && model_hash_equal(other->hash, inode->hash))
		return 0;
	if (d->count++ >= DIFF_INODES_MAX)
		return 1;
	if (!other || other->nlink == 0)
		stet_text_printf(d->t, "  inode %" PRIu64 " (mode %o, size %" PRIu64 "): %s\n",
				 inode->ino, inode->mode, inode->size,
				 d->reverse ? "should not be there" : "is missing");
	else
		diff_inode(d->t, inode, other);
	return 0;
}

void model_diff(struct stet_text *t, const struct model *want, const struct model *have)
{
	struct diff forward = { t, have, false, 0 }, back = { t, want, true, 0 };

	if (model_walk(want, diff_one, &forward) || model_walk(have, diff_one, &back))
		stet_text_puts(t, "  ...\n");
	else if (forward.count + back.count == 0)
		stet_text_puts(t, "  (no difference)\n");
}
