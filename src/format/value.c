/* value.c - catalog values: encode, verify and decode, print.
 *
 * I1. A decoded value is in range in every field, so that arithmetic on its sizes, counts and
 *     addresses cannot wrap, and everything its pointers borrow lies in the value.
 * I2. Encoding what was decoded gives the same bytes: a value has one encoding, and no room for more.
 * I3. A value and its key agree (stet_item_verify): an extent ends within the largest file.
 */
#include "format/value.h"

#include "base/assert.h"
#include "format/format_internal.h"

#include <string.h>
#include <sys/stat.h>

/* --- inodes --- */

/* How much later t is than base, as a number: small when they are near, either way round. */
static uint64_t time_to_number(int64_t t, int64_t base)
{
	uint64_t d = (uint64_t)t - (uint64_t)base;

	return d << 1 ^ (0 - (d >> 63));
}

static int64_t time_from_number(uint64_t n, int64_t base)
{
	return (int64_t)((uint64_t)base + (n >> 1 ^ (0 - (n & 1))));
}

static uint8_t *put_number(uint8_t *p, uint64_t n)
{
	for (; n > 0x7f; n >>= 7)
		*p++ = (uint8_t)(n | 0x80);
	*p++ = (uint8_t)n;
	return p;
}

/* Returns the byte behind it; NULL: it is cut off, too long, or ends in a byte of 0. */
static const uint8_t *get_number(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	uint64_t n = 0;

	for (unsigned shift = 0; p < end; shift += 7) {
		uint8_t byte = *p++;

		if (shift == 63 && byte > 1)
			return NULL;
		n |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		*ret = n;
		return byte == 0 ? NULL : p;
	}
	return NULL;
}

size_t stet_inode_encode(const struct stet_inode *inode, uint8_t *out)
{
	const uint64_t numbers[STET_NUMBER_COUNT] = {
		[STET_NUMBER_UID] = inode->uid,
		[STET_NUMBER_GID] = inode->gid ^ inode->uid,
		[STET_NUMBER_NLINK] = inode->nlink ^ 1,
		[STET_NUMBER_SIZE] = inode->size ^ inode->inline_bytes,
		[STET_NUMBER_BLOCKS] = inode->blocks,
		[STET_NUMBER_DATA_VERSION] = inode->data_version,
		[STET_NUMBER_MTIME] = time_to_number(inode->mtime_ns, inode->btime_ns),
		[STET_NUMBER_CTIME] = time_to_number(inode->ctime_ns, inode->mtime_ns),
		[STET_NUMBER_ATIME] = time_to_number(inode->atime_ns, inode->btime_ns),
		[STET_NUMBER_PARENT] = inode->parent,
		[STET_NUMBER_SUBDIRS] = inode->subdirs,
		[STET_NUMBER_RDEV] = inode->rdev,
	};
	struct stet_inode_disk disk = {
		.mode = le16_make((uint16_t)inode->mode),
		.flags = (uint8_t)inode->flags,
		.btime_ns = le64_make((uint64_t)inode->btime_ns),
	};
	uint8_t *p = out + sizeof(disk);
	uint32_t present = 0;

	STET_ASSERT_CMP(inode->mode, <=, UINT16_MAX);
	STET_ASSERT_CMP(inode->flags, <=, UINT8_MAX);
	STET_ASSERT_CMP(inode->inline_bytes, <=, STET_INLINE_MAX);
	for (uint32_t i = 0; i < STET_NUMBER_COUNT; i++) {
		if (numbers[i] == 0)
			continue;
		present |= 1u << i;
		p = put_number(p, numbers[i]);
	}
	disk.present = le16_make((uint16_t)present);
	memcpy(out, &disk, sizeof(disk));
	if (inode->inline_bytes > 0)
		memcpy(p, inode->inline_data, inode->inline_bytes);
	return (size_t)(p - out) + inode->inline_bytes;
}

/* False: the numbers are not well formed, or more content follows than may. */
static bool inode_get(const uint8_t *in, size_t len_bytes, struct stet_inode *inode)
{
	const struct stet_inode_disk *disk = (const struct stet_inode_disk *)in;
	const uint8_t *p = in + sizeof(*disk), *end = in + len_bytes;
	uint64_t n[STET_NUMBER_COUNT] = { 0 };
	uint32_t present = le16_get(disk->present);

	if (present >> STET_NUMBER_COUNT != 0)
		return false;
	for (; present != 0; present &= present - 1) {
		p = get_number(p, end, &n[__builtin_ctz(present)]);
		if (!p)
			return false;
	}
	if ((n[STET_NUMBER_UID] | n[STET_NUMBER_GID] | n[STET_NUMBER_NLINK]) > UINT32_MAX ||
	    (size_t)(end - p) > STET_INLINE_MAX)
		return false;
	*inode = (struct stet_inode){
		.mode = le16_get(disk->mode),
		.uid = (uint32_t)n[STET_NUMBER_UID],
		.gid = (uint32_t)(n[STET_NUMBER_GID] ^ n[STET_NUMBER_UID]),
		.flags = disk->flags,
		.nlink = (uint32_t)n[STET_NUMBER_NLINK] ^ 1,
		.inline_bytes = (uint32_t)(end - p),
		.size = n[STET_NUMBER_SIZE] ^ (uint64_t)(end - p),
		.rdev = n[STET_NUMBER_RDEV],
		.btime_ns = (int64_t)le64_get(disk->btime_ns),
		.parent = n[STET_NUMBER_PARENT],
		.blocks = n[STET_NUMBER_BLOCKS],
		.subdirs = n[STET_NUMBER_SUBDIRS],
		.data_version = n[STET_NUMBER_DATA_VERSION],
		.inline_data = p,
	};
	inode->mtime_ns = time_from_number(n[STET_NUMBER_MTIME], inode->btime_ns);
	inode->ctime_ns = time_from_number(n[STET_NUMBER_CTIME], inode->mtime_ns);
	inode->atime_ns = time_from_number(n[STET_NUMBER_ATIME], inode->btime_ns);
	return true;
}

static bool inode_inline_valid(const struct stet_inode *inode)
{
	if (!(inode->flags & STET_INODE_INLINE))
		return inode->inline_bytes == 0;
	return (S_ISREG(inode->mode) || S_ISLNK(inode->mode)) &&
	       inode->inline_bytes == inode->size && inode->blocks == 0;
}

static bool symlink_valid(const struct stet_inode *inode)
{
	if (inode->size == 0 || inode->size > STET_SYMLINK_MAX)
		return false;
	if (!(inode->flags & STET_INODE_INLINE))
		return inode->blocks > 0;
	return !memchr(inode->inline_data, '\0', inode->inline_bytes);
}

/* What the type of the inode allows in the other fields. */
static bool inode_type_valid(const struct stet_inode *inode)
{
	bool dir = S_ISDIR(inode->mode);

	if (!dir && (inode->parent != 0 || inode->subdirs != 0))
		return false;
	if (!S_ISCHR(inode->mode) && !S_ISBLK(inode->mode) && inode->rdev != 0)
		return false;
	switch (inode->mode & S_IFMT) {
	case S_IFREG:
	case STET_MODE_TABLE:
		return inode->size <= STET_FILE_SIZE_MAX && inode->blocks <= STET_FILE_BLOCKS_MAX;
	case S_IFDIR:
		return inode->size <= STET_FILE_SIZE_MAX && inode->blocks == 0 &&
		       inode->nlink <= 1 && inode->parent != 0 && inode->subdirs <= inode->size;
	case S_IFLNK:
		return inode->blocks <= 1 && symlink_valid(inode);
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return inode->size == 0 && inode->blocks == 0;
	default:
		return false;
	}
}

int stet_inode_decode(const void *in, size_t len_bytes, struct stet_inode *ret_inode)
{
	struct stet_inode inode;

	if (len_bytes < sizeof(struct stet_inode_disk))
		return STET_FAIL(-EUCLEAN, "inode: %zu bytes", len_bytes);
	if (!inode_get(in, len_bytes, &inode))
		return STET_FAIL(-EUCLEAN, "inode: numbers %#x in %zu bytes",
				 stet_get_le16((const uint8_t *)in +
					       offsetof(struct stet_inode_disk, present)),
				 len_bytes);
	if (inode.flags & ~STET_INODE_FLAGS_KNOWN)
		return STET_FAIL(-EUCLEAN, "inode: flags %#" PRIx32, inode.flags);
	if (inode.uid == UINT32_MAX || inode.gid == UINT32_MAX || inode.nlink > STET_NLINK_MAX)
		return STET_FAIL(-EUCLEAN, "inode: uid %" PRIu32 " gid %" PRIu32 " links %" PRIu32,
				 inode.uid, inode.gid, inode.nlink);
	if (!inode_inline_valid(&inode))
		return STET_FAIL(-EUCLEAN,
				 "inode: %" PRIu32 " inline bytes of size %" PRIu64 " in %zu",
				 inode.inline_bytes, inode.size, len_bytes);
	if (!inode_type_valid(&inode))
		return STET_FAIL(-EUCLEAN,
				 "inode: mode %" PRIo32 " with size %" PRIu64 " blocks %" PRIu64
				 " parent %" PRIu64,
				 inode.mode, inode.size, inode.blocks, inode.parent);
	*ret_inode = inode;
	return 0;
}

void stet_inode_print(struct stet_text *t, const struct stet_inode *inode)
{
	stet_text_printf(t,
			 "mode %" PRIo32 " uid %" PRIu32 " gid %" PRIu32 " links %" PRIu32
			 " size %" PRIu64 " blocks %" PRIu64 " version %" PRIu64,
			 inode->mode, inode->uid, inode->gid, inode->nlink, inode->size,
			 inode->blocks, inode->data_version);
	if (S_ISDIR(inode->mode))
		stet_text_printf(t, " parent %" PRIu64 " subdirs %" PRIu64, inode->parent,
				 inode->subdirs);
	if (S_ISCHR(inode->mode) || S_ISBLK(inode->mode))
		stet_text_printf(t, " device %" PRIu64 ":%" PRIu64, inode->rdev >> 32,
				 inode->rdev & UINT32_MAX);
	stet_text_printf(t,
			 " atime %" PRId64 " mtime %" PRId64 " ctime %" PRId64 " btime %" PRId64
			 " flags %#" PRIx32,
			 inode->atime_ns, inode->mtime_ns, inode->ctime_ns, inode->btime_ns,
			 inode->flags);
	if (S_ISLNK(inode->mode) && inode->inline_bytes > 0) {
		stet_text_puts(t, " target ");
		stet_text_name(t, inode->inline_data, inode->inline_bytes);
	} else if (inode->inline_bytes > 0) {
		stet_text_printf(t, " inline %" PRIu32, inode->inline_bytes);
	}
}

/* --- extents --- */

size_t stet_extent_encode(const struct stet_extent *extent, uint8_t *out)
{
	size_t crc_bytes = sizeof(le32) * (size_t)extent->phys_blocks;
	struct stet_extent_disk disk = {
		.addr = le64_make(extent->addr.v),
		.addr2 = le64_make(extent->addr2.v),
		.birth = le64_make(extent->birth),
		.block_count = le16_make(extent->block_count),
		.phys_blocks = le16_make(extent->phys_blocks),
		.phys_offset = le16_make(extent->phys_offset),
		.flags = le16_make(extent->flags),
	};

	STET_ASSERT_CMP(extent->phys_blocks, <=, STET_EXTENT_BLOCKS_MAX);
	memcpy(out, &disk, sizeof(disk));
	memmove(out + sizeof(disk), extent->crcs, crc_bytes);
	return sizeof(disk) + crc_bytes;
}

int stet_extent_decode(const void *in, size_t len_bytes, uint32_t seg_blocks,
		       struct stet_extent *ret_extent)
{
	const struct stet_extent_disk *disk = in;
	struct stet_extent e;

	if (len_bytes < sizeof(*disk))
		return STET_FAIL(-EUCLEAN, "extent: %zu bytes", len_bytes);
	e = (struct stet_extent){
		.addr = { le64_get(disk->addr) },
		.addr2 = { le64_get(disk->addr2) },
		.birth = le64_get(disk->birth),
		.block_count = le16_get(disk->block_count),
		.phys_blocks = le16_get(disk->phys_blocks),
		.phys_offset = le16_get(disk->phys_offset),
		.flags = le16_get(disk->flags),
		.crcs = (const uint8_t *)(disk + 1),
	};
	if (e.flags != 0 || e.phys_offset != 0)
		return STET_FAIL(-EUCLEAN, "extent: flags %#x offset %u", e.flags, e.phys_offset);
	if (e.block_count == 0 || e.block_count > STET_EXTENT_BLOCKS_MAX ||
	    e.phys_blocks != e.block_count ||
	    len_bytes != sizeof(*disk) + sizeof(le32) * (size_t)e.phys_blocks)
		return STET_FAIL(-EUCLEAN, "extent: %u blocks, %u on disk, in %zu bytes",
				 e.block_count, e.phys_blocks, len_bytes);
	if (!stet_addr_fits(e.addr, e.phys_blocks, seg_blocks) ||
	    (!stet_addr_is_none(e.addr2) &&
	     (e.addr2.v == e.addr.v || !stet_addr_fits(e.addr2, e.phys_blocks, seg_blocks))))
		return STET_FAIL(-EUCLEAN,
				 "extent: %u blocks at " STET_ADDR_FMT " and " STET_ADDR_FMT,
				 e.phys_blocks, STET_ADDR_ARG(e.addr), STET_ADDR_ARG(e.addr2));
	*ret_extent = e;
	return 0;
}

void stet_extent_print(struct stet_text *t, const struct stet_extent *extent)
{
	stet_text_printf(t, "%u blocks at " STET_ADDR_FMT, extent->block_count,
			 STET_ADDR_ARG(extent->addr));
	if (!stet_addr_is_none(extent->addr2))
		stet_text_printf(t, " and " STET_ADDR_FMT, STET_ADDR_ARG(extent->addr2));
	stet_text_printf(t, " birth %" PRIu64, extent->birth);
	if (extent->flags != 0 || extent->phys_blocks != extent->block_count)
		stet_text_printf(t, " flags %#x on disk %u+%u", extent->flags, extent->phys_offset,
				 extent->phys_blocks);
}

/* --- directory entries --- */

static bool dirent_type_valid(uint8_t type)
{
	/* DT_x is S_IFx >> 12: these eight. */
	return type == S_IFIFO >> 12 || type == S_IFCHR >> 12 || type == S_IFDIR >> 12 ||
	       type == S_IFBLK >> 12 || type == S_IFREG >> 12 || type == S_IFLNK >> 12 ||
	       type == S_IFSOCK >> 12 || type == STET_MODE_TABLE >> 12;
}

size_t stet_dirent_encode(const struct stet_dirent *dirent, uint8_t *out)
{
	struct stet_dirent_disk disk = { .ino = le64_make(dirent->ino), .type = dirent->type };

	memcpy(out, &disk, sizeof(disk));
	return sizeof(disk);
}

int stet_dirent_decode(const void *in, size_t len_bytes, struct stet_dirent *ret_dirent)
{
	const struct stet_dirent_disk *disk = in;

	if (len_bytes != sizeof(*disk))
		return STET_FAIL(-EUCLEAN, "dirent: %zu bytes", len_bytes);
	if (le64_get(disk->ino) == 0 || !dirent_type_valid(disk->type))
		return STET_FAIL(-EUCLEAN, "dirent: inode %" PRIu64 " type %u", le64_get(disk->ino),
				 disk->type);
	*ret_dirent = (struct stet_dirent){ .ino = le64_get(disk->ino), .type = disk->type };
	return 0;
}

/* --- xattrs and records --- */

#define OUTLINE_HEADER_BYTES 5u

static uint32_t inline_max(uint8_t kind)
{
	return kind == STET_KIND_XATTR ? STET_XATTR_INLINE_MAX : STET_RECORD_INLINE_MAX;
}

static uint32_t size_max(uint8_t kind)
{
	return kind == STET_KIND_XATTR ? STET_XATTR_SIZE_MAX : STET_RECORD_SIZE_MAX;
}

static uint32_t blocks_of(uint32_t size_bytes)
{
	return (size_bytes + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;
}

size_t stet_xattr_encode(const struct stet_xattr *xattr, uint8_t *out)
{
	if (xattr->chunks) {
		out[0] = STET_XATTR_CHUNKED;
		stet_put_le32(out + 1, xattr->size_bytes);
		stet_put_le64(out + 5, xattr->chunks);
		return STET_XATTR_CHUNKED_BYTES;
	}
	if (!xattr->data) {
		out[0] = STET_XATTR_OUTLINE;
		stet_put_le32(out + 1, xattr->size_bytes);
		return OUTLINE_HEADER_BYTES +
		       stet_extent_encode(&xattr->extent, out + OUTLINE_HEADER_BYTES);
	}
	STET_ASSERT_CMP(xattr->size_bytes, <=, STET_RECORD_INLINE_MAX);
	out[0] = STET_XATTR_INLINE;
	memmove(out + 1, xattr->data, xattr->size_bytes);
	return 1 + (size_t)xattr->size_bytes;
}

static int outline_decode(const uint8_t *p, size_t len_bytes, uint8_t kind, uint32_t seg_blocks,
			  struct stet_xattr *ret_xattr)
{
	struct stet_xattr x = { .data = NULL };
	int rc;

	if (len_bytes < OUTLINE_HEADER_BYTES)
		return STET_FAIL(-EUCLEAN, "xattr: %zu bytes", len_bytes);
	x.size_bytes = stet_get_le32(p + 1);
	rc = stet_extent_decode(p + OUTLINE_HEADER_BYTES, len_bytes - OUTLINE_HEADER_BYTES,
				seg_blocks, &x.extent);
	if (rc)
		return rc;
	if (x.size_bytes == 0 || x.size_bytes > size_max(kind) ||
	    blocks_of(x.size_bytes) != x.extent.block_count)
		return STET_FAIL(-EUCLEAN, "xattr: %" PRIu32 " bytes in %u blocks", x.size_bytes,
				 x.extent.block_count);
	*ret_xattr = x;
	return 0;
}

static int chunked_decode(const uint8_t *p, size_t len_bytes, uint8_t kind,
			  struct stet_xattr *ret_xattr)
{
	struct stet_xattr x = { .data = NULL };

	if (len_bytes != STET_XATTR_CHUNKED_BYTES)
		return STET_FAIL(-EUCLEAN, "xattr: %zu bytes, in chunks", len_bytes);
	x.size_bytes = stet_get_le32(p + 1);
	x.chunks = stet_get_le64(p + 5);
	if (x.chunks == 0 || x.size_bytes <= inline_max(kind) || x.size_bytes > size_max(kind))
		return STET_FAIL(-EUCLEAN, "xattr: %" PRIu32 " bytes in chunks", x.size_bytes);
	if (kind == STET_KIND_RECORD &&
	    (x.chunks % STET_RECORD_BLOCKS != 0 || x.chunks >= STET_FILE_BLOCKS_MAX))
		return STET_FAIL(-EUCLEAN, "record: bytes from block %" PRIu64, x.chunks);
	*ret_xattr = x;
	return 0;
}

int stet_xattr_decode(const void *in, size_t len_bytes, uint8_t kind, uint32_t seg_blocks,
		      struct stet_xattr *ret_xattr)
{
	const uint8_t *p = in;

	if (len_bytes == 0 || p[0] > STET_XATTR_CHUNKED)
		return STET_FAIL(-EUCLEAN, "xattr: %zu bytes, unknown form", len_bytes);
	if (p[0] == STET_XATTR_CHUNKED)
		return chunked_decode(p, len_bytes, kind, ret_xattr);
	if (p[0] == STET_XATTR_OUTLINE)
		return outline_decode(p, len_bytes, kind, seg_blocks, ret_xattr);
	if (len_bytes - 1 > inline_max(kind))
		return STET_FAIL(-EUCLEAN, "xattr: %zu bytes inline", len_bytes - 1);
	*ret_xattr = (struct stet_xattr){ .data = p + 1, .size_bytes = (uint32_t)(len_bytes - 1) };
	return 0;
}

/* --- orphans --- */

size_t stet_orphan_encode(const struct stet_orphan *orphan, uint8_t *out)
{
	struct stet_orphan_disk disk = {
		.from_block = le64_make(orphan->from_block),
		.flags = orphan->flags,
	};

	memcpy(out, &disk, sizeof(disk));
	return sizeof(disk);
}

int stet_orphan_decode(const void *in, size_t len_bytes, struct stet_orphan *ret_orphan)
{
	const struct stet_orphan_disk *disk = in;

	if (len_bytes != sizeof(*disk))
		return STET_FAIL(-EUCLEAN, "orphan: %zu bytes", len_bytes);
	if (disk->flags == 0 ||
	    (disk->flags & ~(STET_ORPHAN_UNLINKED | STET_ORPHAN_TRUNCATE)) != 0 ||
	    le64_get(disk->from_block) > STET_FILE_BLOCKS_MAX)
		return STET_FAIL(-EUCLEAN, "orphan: flags %#x from block %" PRIu64, disk->flags,
				 le64_get(disk->from_block));
	*ret_orphan = (struct stet_orphan){
		.from_block = le64_get(disk->from_block),
		.flags = disk->flags,
	};
	return 0;
}

/* --- any item --- */

static int verify_extent_item(const void *key, const void *value, size_t value_bytes,
			      uint32_t seg_blocks)
{
	uint64_t first = stet_key_suffix_u64(key);
	struct stet_extent extent;
	int rc;

	rc = stet_extent_decode(value, value_bytes, seg_blocks, &extent);
	if (rc)
		return rc;
	if (extent.block_count > STET_FILE_BLOCKS_MAX - first) /* I3 */
		return STET_FAIL(-EUCLEAN, "extent: %u blocks from %" PRIu64, extent.block_count,
				 first);
	return 0;
}

int stet_item_verify(const void *key, size_t key_bytes, const void *value, size_t value_bytes,
		     uint32_t seg_blocks)
{
	struct stet_inode inode;
	struct stet_xattr xattr;
	struct stet_dirent dirent;
	struct stet_orphan orphan;
	int rc;

	rc = stet_key_verify(key, key_bytes);
	if (rc)
		return rc;
	if (value_bytes > STET_VALUE_MAX)
		return STET_FAIL(-EUCLEAN, "item: value of %zu bytes", value_bytes);
	switch (stet_key_get_kind(key)) {
	case STET_KIND_INODE:
		return stet_inode_decode(value, value_bytes, &inode);
	case STET_KIND_XATTR:
	case STET_KIND_RECORD:
		return stet_xattr_decode(value, value_bytes, stet_key_get_kind(key), seg_blocks,
					 &xattr);
	case STET_KIND_DIRENT:
		return stet_dirent_decode(value, value_bytes, &dirent);
	case STET_KIND_EXTENT:
		return verify_extent_item(key, value, value_bytes, seg_blocks);
	case STET_KIND_ORPHAN:
		return stet_orphan_decode(value, value_bytes, &orphan);
	default: /* BADBLOCK: what stet_key_verify lets through besides */
		if (value_bytes > 0)
			return STET_FAIL(-EUCLEAN, "item: value of %zu bytes", value_bytes);
		return 0;
	}
}

static void print_xattr(struct stet_text *t, uint8_t kind, const struct stet_xattr *xattr)
{
	stet_text_printf(t, "%" PRIu32 " bytes", xattr->size_bytes);
	if (xattr->data) {
		stet_text_puts(t, " ");
		stet_text_name(t, xattr->data, xattr->size_bytes);
	} else if (xattr->chunks && kind == STET_KIND_RECORD) {
		stet_text_printf(t, " from block %" PRIu64, xattr->chunks);
	} else if (xattr->chunks) {
		stet_text_printf(t, ", chunks %016" PRIx64, xattr->chunks);
	} else {
		stet_text_puts(t, ", ");
		stet_extent_print(t, &xattr->extent);
	}
}

static void print_decoded(struct stet_text *t, uint8_t kind, const void *value, size_t value_bytes)
{
	struct stet_inode inode;
	struct stet_xattr xattr;
	struct stet_dirent dirent;
	struct stet_extent extent;
	struct stet_orphan orphan;

	if (kind == STET_KIND_INODE && !stet_inode_decode(value, value_bytes, &inode))
		stet_inode_print(t, &inode);
	else if ((kind == STET_KIND_XATTR || kind == STET_KIND_RECORD) &&
		 !stet_xattr_decode(value, value_bytes, kind, STET_SEG_BLOCKS_MAX, &xattr))
		print_xattr(t, kind, &xattr);
	else if (kind == STET_KIND_DIRENT && !stet_dirent_decode(value, value_bytes, &dirent))
		stet_text_printf(t, "inode %" PRIu64 " type %u", dirent.ino, dirent.type);
	else if (kind == STET_KIND_EXTENT &&
		 !stet_extent_decode(value, value_bytes, STET_SEG_BLOCKS_MAX, &extent))
		stet_extent_print(t, &extent);
	else if (kind == STET_KIND_ORPHAN && !stet_orphan_decode(value, value_bytes, &orphan))
		stet_text_printf(t, "%s%s from block %" PRIu64,
				 orphan.flags & STET_ORPHAN_UNLINKED ? "unlinked" : "",
				 orphan.flags & STET_ORPHAN_TRUNCATE ? " truncated" : "",
				 orphan.from_block);
	else
		stet_text_printf(t, "(%zu bytes)", value_bytes);
}

void stet_value_print(struct stet_text *t, const void *key, size_t key_bytes, const void *value,
		      size_t value_bytes)
{
	uint8_t kind = 0;

	if (stet_key_verify(key, key_bytes) == 0)
		kind = stet_key_get_kind(key);
	print_decoded(t, kind, value, value_bytes);
}
