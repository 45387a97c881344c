/* names.c - attributes and names in a volume that another process holds. */
#include "remote/remote_internal.h"

/* --- attributes --- */

int stet_remote_statat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
		       const char *path, unsigned flags, struct stet_stat *ret)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_STATAT, txn, dir, path);
	stet_wire_put_u32(&c.out, flags);
	return stet_remote_finish_stat_(&c, ret);
}

int stet_remote_setattrat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			  const char *path, unsigned flags, const struct stet_setattr *attr)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_SETATTRAT, txn, dir, path);
	stet_wire_put_u32(&c.out, flags);
	stet_wire_put_setattr(&c.out, attr);
	return (int)stet_remote_finish_(&c);
}

ssize_t stet_remote_getxattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			     const char *path, unsigned flags, const char *name, void *buf,
			     size_t cap)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_GETXATTR, txn, dir, path);
	stet_wire_put_u32(&c.out, flags);
	stet_wire_put_text(&c.out, name);
	stet_wire_put_u64(&c.out, cap);
	return stet_remote_finish_value_(&c, buf, cap, 0);
}

int stet_remote_setxattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			 const char *path, unsigned flags, const char *name, const void *value,
			 size_t len)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_SETXATTR, txn, dir, path);
	if (!c.rc && len > STET_WIRE_DATA_MAX)
		c.rc = STET_FAIL(-E2BIG, "a value of %zu bytes", len);
	stet_wire_put_u32(&c.out, flags);
	stet_wire_put_text(&c.out, name);
	c.data = value;
	c.data_len = len;
	return (int)stet_remote_finish_(&c);
}

ssize_t stet_remote_listxattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			      const char *path, unsigned flags, char *buf, size_t cap)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_LISTXATTR, txn, dir, path);
	stet_wire_put_u32(&c.out, flags);
	stet_wire_put_u64(&c.out, cap);
	return stet_remote_finish_value_(&c, buf, cap, 0);
}

int stet_remote_removexattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			    const char *path, unsigned flags, const char *name)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_REMOVEXATTR, txn, dir, path);
	stet_wire_put_u32(&c.out, flags);
	stet_wire_put_text(&c.out, name);
	return (int)stet_remote_finish_(&c);
}

/* --- names --- */

int stet_remote_mkdirat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			const char *path, mode_t mode)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_MKDIRAT, txn, dir, path);
	stet_wire_put_u32(&c.out, mode);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_mknodat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			const char *path, mode_t mode, uint64_t rdev)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_MKNODAT, txn, dir, path);
	stet_wire_put_u32(&c.out, mode);
	stet_wire_put_u64(&c.out, rdev);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_symlinkat(struct stet_volume *vol, struct stet_txn *txn, const char *target,
			  uint64_t dir, const char *path)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_SYMLINKAT, txn, dir, path);
	stet_wire_put_text(&c.out, target);
	return (int)stet_remote_finish_(&c);
}

ssize_t stet_remote_readlinkat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			       const char *path, char *buf, size_t cap)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_READLINKAT, txn, dir, path);
	stet_wire_put_u64(&c.out, cap);
	return stet_remote_finish_value_(&c, buf, cap, 1);
}

static int two_paths(struct stet_volume *vol, uint32_t kind, struct stet_txn *txn,
		     uint64_t from_dir, const char *from, uint64_t to_dir, const char *to,
		     unsigned flags)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, kind, txn, from_dir, from);
	stet_remote_put_path_(&c, to_dir, to);
	stet_wire_put_u32(&c.out, flags);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_linkat(struct stet_volume *vol, struct stet_txn *txn, uint64_t from_dir,
		       const char *from, uint64_t to_dir, const char *to, unsigned flags)
{
	return two_paths(vol, STET_WIRE_LINKAT, txn, from_dir, from, to_dir, to, flags);
}

int stet_remote_renameat(struct stet_volume *vol, struct stet_txn *txn, uint64_t from_dir,
			 const char *from, uint64_t to_dir, const char *to, unsigned flags)
{
	return two_paths(vol, STET_WIRE_RENAMEAT, txn, from_dir, from, to_dir, to, flags);
}

int stet_remote_unlinkat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			 const char *path, unsigned flags)
{
	struct stet_remote_call c;

	stet_remote_begin_at_(&c, vol, STET_WIRE_UNLINKAT, txn, dir, path);
	stet_wire_put_u32(&c.out, flags);
	return (int)stet_remote_finish_(&c);
}
