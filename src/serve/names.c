/* names.c - requests about attributes and names. */
#include "serve/serve_internal.h"

#include <limits.h>

/* Room for a value that the client has room for; 0: it only asks for the length. */
static size_t get_cap(struct stet_serve_call *c)
{
	uint64_t cap = stet_wire_get_u64(&c->in);

	return cap < STET_WIRE_DATA_MAX ? (size_t)cap : STET_WIRE_DATA_MAX;
}

/* --- attributes --- */

int64_t stet_serve_do_statat_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	struct stet_stat st;
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = stet_statat(c->vol, at.txn, at.dir, at.path, flags, &st);
	if (!rc)
		stet_wire_put_stat(&c->out, &st);
	return rc;
}

int64_t stet_serve_do_setattrat_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	struct stet_setattr attr;
	int rc;

	stet_wire_get_setattr(&c->in, &attr);
	rc = stet_serve_ready_(c);
	return rc ? rc : stet_setattrat(c->vol, at.txn, at.dir, at.path, flags, &attr);
}

int64_t stet_serve_do_getxattr_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	const char *name = stet_serve_text_(c);
	size_t cap = get_cap(c);
	int64_t n = stet_serve_ready_(c);

	if (!n)
		n = stet_serve_big_out_(c);
	if (!n)
		n = stet_getxattr(c->vol, at.txn, at.dir, at.path, flags, name, c->big_out, cap);
	if (n > 0 && cap > 0)
		c->out_len = (size_t)n;
	return n;
}

int64_t stet_serve_do_setxattr_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	const char *name = stet_serve_text_(c);
	int rc = stet_serve_ready_(c);

	return rc ? rc
		  : stet_setxattr(c->vol, at.txn, at.dir, at.path, flags, name, c->data,
				  c->data_len);
}

int64_t stet_serve_do_listxattr_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	size_t cap = get_cap(c);
	int64_t n = stet_serve_ready_(c);

	if (!n)
		n = stet_serve_big_out_(c);
	if (!n)
		n = stet_listxattr(c->vol, at.txn, at.dir, at.path, flags, (char *)c->big_out, cap);
	if (n > 0 && cap > 0)
		c->out_len = (size_t)n;
	return n;
}

int64_t stet_serve_do_removexattr_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	const char *name = stet_serve_text_(c);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_removexattr(c->vol, at.txn, at.dir, at.path, flags, name);
}

/* --- names --- */

int64_t stet_serve_do_mkdirat_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t mode = stet_wire_get_u32(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_mkdirat(c->vol, at.txn, at.dir, at.path, mode);
}

int64_t stet_serve_do_mknodat_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t mode = stet_wire_get_u32(&c->in);
	uint64_t rdev = stet_wire_get_u64(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_mknodat(c->vol, at.txn, at.dir, at.path, mode, rdev);
}

int64_t stet_serve_do_symlinkat_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	const char *target = stet_serve_text_(c);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_symlinkat(c->vol, at.txn, target, at.dir, at.path);
}

int64_t stet_serve_do_readlinkat_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	size_t cap = get_cap(c);
	int64_t n = stet_serve_ready_(c);

	if (!n)
		n = stet_serve_big_out_(c);
	if (!n)
		n = stet_readlinkat(c->vol, at.txn, at.dir, at.path, (char *)c->big_out, cap);
	if (n >= 0)
		c->out_len = (size_t)n + 1;
	return n;
}

/* What calls on two paths have. */
struct two {
	struct stet_serve_at from;
	uint64_t to_dir;
	const char *to;
	uint32_t flags;
};

static int get_two(struct stet_serve_call *c, struct two *ret)
{
	ret->from = stet_serve_at_(c);
	ret->to_dir = stet_wire_get_u64(&c->in);
	ret->to = stet_serve_path_(c);
	ret->flags = stet_wire_get_u32(&c->in);
	return stet_serve_ready_(c);
}

int64_t stet_serve_do_linkat_(struct stet_serve_call *c)
{
	struct two t;
	int rc = get_two(c, &t);

	return rc ? rc
		  : stet_linkat(c->vol, t.from.txn, t.from.dir, t.from.path, t.to_dir, t.to,
				t.flags);
}

int64_t stet_serve_do_renameat_(struct stet_serve_call *c)
{
	struct two t;
	int rc = get_two(c, &t);

	return rc ? rc
		  : stet_renameat(c->vol, t.from.txn, t.from.dir, t.from.path, t.to_dir, t.to,
				  t.flags);
}

int64_t stet_serve_do_unlinkat_(struct stet_serve_call *c)
{
	struct stet_serve_at at = stet_serve_at_(c);
	uint32_t flags = stet_wire_get_u32(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_unlinkat(c->vol, at.txn, at.dir, at.path, flags);
}
