/* statx.c - the STATX request (protocol 7.39), which libfuse 3.14 does not know: it tells the time of
 * creation.
 *
 * I1. The request begins as GETATTR does, and is made one before libfuse sees it; the answer to that is
 *     made one to STATX on its way out. Both happen in one thread (session.c, I4), which GETATTR does
 *     not leave.
 * I2. What has no time of creation (the directories above the views) is answered without.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#define OP_STATX 52u

/* As in <linux/fuse.h> since 7.39. */
struct statx_in {
	uint32_t getattr_flags, reserved;
	uint64_t fh;
	uint32_t sx_flags, sx_mask;
};

struct statx_time {
	int64_t s;
	uint32_t ns;
	int32_t reserved;
};

struct statx_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec, flags;
	uint64_t spare[2];
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, spare0;
	uint64_t ino, size, blocks, attributes_mask;
	struct statx_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spare2[14];
};

_Static_assert(sizeof(struct statx_in) == 24, "statx_in");
_Static_assert(sizeof(struct statx_out) == 288, "statx_out");

/* The STATX request that this thread works on. */
static _Thread_local struct {
	uint64_t unique; /* 0: none */
	bool has_btime;
	struct timespec btime;
} asked;

size_t stet_fuse_statx_request_(char *buf, size_t len)
{
	const size_t more = sizeof(struct statx_in) - sizeof(struct fuse_getattr_in);
	struct fuse_in_header in;

	asked.unique = 0;
	if (len < sizeof(in))
		return len;
	memcpy(&in, buf, sizeof(in));
	if (in.opcode != OP_STATX || len < sizeof(in) + sizeof(struct statx_in))
		return len;
	asked.unique = in.unique;
	asked.has_btime = false;
	in.opcode = FUSE_GETATTR;
	in.len -= (uint32_t)more;
	memcpy(buf, &in, sizeof(in));
	return len - more;
}

void stet_fuse_statx_btime_(struct timespec btime)
{
	asked.has_btime = true;
	asked.btime = btime;
}

static void fill(const struct fuse_attr_out *from, struct statx_out *to)
{
	const struct fuse_attr *a = &from->attr;

	*to = (struct statx_out){
		.attr_valid = from->attr_valid,
		.attr_valid_nsec = from->attr_valid_nsec,
		.mask = STATX_BASIC_STATS | (asked.has_btime ? STATX_BTIME : 0),
		.blksize = a->blksize,
		.nlink = a->nlink,
		.uid = a->uid,
		.gid = a->gid,
		.mode = (uint16_t)a->mode,
		.ino = a->ino,
		.size = a->size,
		.blocks = a->blocks,
		.atime = { .s = (int64_t)a->atime, .ns = a->atimensec },
		.ctime = { .s = (int64_t)a->ctime, .ns = a->ctimensec },
		.mtime = { .s = (int64_t)a->mtime, .ns = a->mtimensec },
		/* As the kernel packs it: 12 bits and 20. */
		.rdev_major = a->rdev >> 8 & 0xfff,
		.rdev_minor = (a->rdev & 0xff) | (a->rdev >> 12 & 0xfff00),
	};
	if (asked.has_btime) {
		to->btime.s = asked.btime.tv_sec;
		to->btime.ns = (uint32_t)asked.btime.tv_nsec;
	}
}

bool stet_fuse_statx_reply_(int fd, const struct iovec *iov, int count, ssize_t *ret)
{
	struct fuse_out_header out;
	struct fuse_attr_out attr;
	struct statx_out statx;
	struct iovec changed[2] = { { .iov_base = &out, .iov_len = sizeof(out) },
				    { .iov_base = &statx, .iov_len = sizeof(statx) } };

	if (asked.unique == 0 || count != 2 || iov[0].iov_len != sizeof(out) ||
	    iov[1].iov_len != sizeof(attr))
		return false;
	memcpy(&out, iov[0].iov_base, sizeof(out));
	if (out.unique != asked.unique || out.error != 0)
		return false;
	memcpy(&attr, iov[1].iov_base, sizeof(attr));
	fill(&attr, &statx);
	out.len = sizeof(out) + sizeof(statx);
	asked.unique = 0;
	*ret = writev(fd, changed, 2);
	return true;
}
