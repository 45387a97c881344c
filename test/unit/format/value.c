/* value.c - catalog values. */
#include "format/value.h"

#include "format_test.h"

#include <sys/stat.h>

/* Decodes from exact memory; what the result borrows is gone afterwards. */
static int decode_inode(const uint8_t *p, size_t n)
{
	uint8_t *copy = exact(n);
	struct stet_inode inode;
	struct stet_text t = { .p = NULL };
	int rc;

	memcpy(copy, p, n);
	rc = stet_inode_decode(copy, n, &inode);
	if (rc == 0)
		stet_inode_print(&t, &inode);
	stet_text_release(&t);
	free(copy);
	return rc;
}

static int encode_decode(const struct stet_inode *inode)
{
	uint8_t buf[STET_INODE_VALUE_MAX];

	return decode_inode(buf, stet_inode_encode(inode, buf));
}

static struct stet_inode file(void)
{
	return (struct stet_inode){ .mode = S_IFREG | 0644, .nlink = 1 };
}

static bool same_inode(const struct stet_inode *a, const struct stet_inode *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->flags == b->flags &&
	       a->nlink == b->nlink && a->inline_bytes == b->inline_bytes && a->size == b->size &&
	       a->rdev == b->rdev && a->atime_ns == b->atime_ns && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns && a->btime_ns == b->btime_ns && a->parent == b->parent &&
	       a->blocks == b->blocks && a->subdirs == b->subdirs &&
	       a->data_version == b->data_version &&
	       (a->inline_bytes == 0 ||
		memcmp(a->inline_data, b->inline_data, a->inline_bytes) == 0);
}

/* Often one that is near, or 0. */
static int64_t some_time(struct stet_random *random, int64_t near)
{
	uint64_t d = stet_random_next(random) >> stet_random_below(random, 64);

	switch (stet_random_below(random, 5)) {
	case 0:
		return near;
	case 1:
		return (int64_t)((uint64_t)near + d);
	case 2:
		return (int64_t)((uint64_t)near - d);
	default:
		return (int64_t)nasty(random, 8);
	}
}

static uint32_t some_id(struct stet_random *random)
{
	return stet_random_below(random, 2) ? (uint32_t)nasty(random, 4) % UINT32_MAX : 0;
}

/* What only one type has; content: STET_INLINE_MAX bytes without NUL. */
static void fill_by_type(struct stet_random *random, const uint8_t *content, struct stet_inode *i)
{
	static const uint32_t type[] = { S_IFREG, S_IFREG, S_IFDIR, S_IFLNK, S_IFBLK, S_IFIFO };

	i->mode |= type[stet_random_below(random, 6)];
	if (S_ISDIR(i->mode)) {
		i->nlink &= 1;
		i->size = nasty(random, 8) >> 1;
		i->subdirs = i->size ? nasty(random, 8) % i->size : 0;
		i->parent = nasty(random, 8) | 1;
	} else if (S_ISBLK(i->mode)) {
		i->rdev = nasty(random, 8);
	} else if (!S_ISFIFO(i->mode) && stet_random_below(random, 2)) {
		i->inline_bytes = 1 + (uint32_t)stet_random_below(random, STET_INLINE_MAX);
		i->inline_data = content;
		i->flags |= STET_INODE_INLINE;
		i->size = i->inline_bytes;
	} else if (S_ISREG(i->mode)) {
		i->size = nasty(random, 8) >> 1;
		i->blocks = nasty(random, 8) % (STET_FILE_BLOCKS_MAX + 1);
	} else if (S_ISLNK(i->mode)) {
		i->size = STET_SYMLINK_MAX;
		i->blocks = 1;
	}
}

static struct stet_inode some_inode(struct stet_random *random, const uint8_t *content)
{
	struct stet_inode i = {
		.mode = (uint32_t)stet_random_below(random, 010000),
		.uid = some_id(random),
		.gid = some_id(random),
		.flags = (uint32_t)stet_random_below(random, 16) & ~STET_INODE_INLINE,
		.nlink = stet_random_below(random, 2) ? 1 : (uint32_t)nasty(random, 4) >> 1,
		.btime_ns = some_time(random, 0),
		.data_version = nasty(random, 8),
	};

	i.mtime_ns = some_time(random, i.btime_ns);
	i.ctime_ns = some_time(random, i.mtime_ns);
	i.atime_ns = some_time(random, i.btime_ns);
	fill_by_type(random, content, &i);
	return i;
}

static void inode_round_trips(void **state)
{
	uint8_t content[STET_INLINE_MAX];
	uint8_t buf[STET_INODE_VALUE_MAX];
	uint8_t again[STET_INODE_VALUE_MAX];
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 1);
	memset(content, 'c', sizeof(content));
	for (uint32_t k = 0; k < 50000; k++) {
		struct stet_inode i = some_inode(&random, content);
		struct stet_inode back;
		size_t n;

		memset(buf, 0xaa, sizeof(buf));
		n = stet_inode_encode(&i, buf);
		assert_true(n <= STET_INODE_VALUE_MAX);
		assert_int_equal(stet_inode_decode(buf, n, &back), 0);
		assert_true(same_inode(&i, &back));
		assert_int_equal(stet_inode_encode(&back, again), n);
		assert_memory_equal(buf, again, n);
	}
}

/* The longest that there is, whether or not it is an inode. */
static void inode_bytes_max(void **state)
{
	uint8_t content[STET_INLINE_MAX] = { 0 };
	uint8_t *out = exact(STET_INODE_VALUE_MAX);
	const struct stet_inode i = {
		.mode = UINT16_MAX,
		.uid = UINT32_MAX,
		.gid = 0,
		.flags = UINT8_MAX,
		.nlink = UINT32_MAX,
		.inline_bytes = STET_INLINE_MAX,
		.size = UINT64_MAX,
		.rdev = UINT64_MAX,
		.atime_ns = INT64_MAX,
		.mtime_ns = INT64_MAX,
		.ctime_ns = -1,
		.btime_ns = -1,
		.parent = UINT64_MAX,
		.blocks = UINT64_MAX,
		.subdirs = UINT64_MAX,
		.data_version = UINT64_MAX,
		.inline_data = content,
	};

	(void)state;
	assert_int_equal(stet_inode_encode(&i, out), STET_INODE_VALUE_MAX);
	free(out);
}

/* The example of doc/format.md: a new, empty file of an ordinary user. */
static const uint8_t example[] = {
	0xa4, 0x81, 0x04, 0x63, 0x00, 0x00, 0x00, 0x2a, 0x36, 0xfe, 0x9c,
	0x97, 0x17, 0xe8, 0x07, 0x0c, 0xc0, 0x84, 0x3d, 0x80, 0x89, 0x7a,
};

static struct stet_inode example_inode(void)
{
	struct stet_inode i = file();

	i.flags = STET_INODE_INLINE;
	i.uid = 1000;
	i.gid = 996;
	i.btime_ns = i.atime_ns = INT64_C(1700000000000000000);
	i.mtime_ns = i.ctime_ns = i.btime_ns + 1000000;
	i.data_version = 1000000;
	return i;
}

static void inode_example(void **state)
{
	struct stet_inode i = example_inode(), back;
	uint8_t buf[STET_INODE_VALUE_MAX];

	(void)state;
	assert_int_equal(stet_inode_encode(&i, buf), sizeof(example));
	assert_memory_equal(buf, example, sizeof(example));
	assert_int_equal(stet_inode_decode(example, sizeof(example), &back), 0);
	assert_true(same_inode(&i, &back));
	/* With larger ids, in a transaction that took an hour, on a volume that has seen much. */
	i.mtime_ns = i.ctime_ns = i.btime_ns + INT64_C(3600) * 1000000000;
	i.uid = i.gid = 100000;
	i.data_version = UINT64_C(1) << 40;
	assert_true(stet_inode_encode(&i, buf) <= 36);
}

/* It decodes to what encodes to the same bytes, or not at all. */
static void decodes_to_itself(const uint8_t *p, size_t n)
{
	uint8_t buf[STET_INODE_VALUE_MAX];
	uint8_t *copy = exact(n);
	struct stet_inode i;

	memcpy(copy, p, n);
	if (stet_inode_decode(copy, n, &i) == 0) {
		assert_int_equal(stet_inode_encode(&i, buf), n);
		assert_memory_equal(buf, p, n);
	}
	free(copy);
}

static void an_inode_has_one_encoding(void **state)
{
	uint8_t content[STET_INLINE_MAX];
	uint8_t buf[STET_INODE_VALUE_MAX + 1];
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 2);
	memset(content, 'c', sizeof(content));
	for (int k = 0; k < 500; k++) {
		struct stet_inode i = some_inode(&random, content);

		if (i.inline_bytes > 0)
			i.size = i.inline_bytes = 1 + i.inline_bytes % 8;
		size_t n = stet_inode_encode(&i, buf);
		for (size_t len = 0; len < n; len++)
			decodes_to_itself(buf, len);
		for (size_t bit = 0; bit < n * 8; bit++) {
			buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
			decodes_to_itself(buf, n);
			buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		for (int m = 0; m < 200; m++) { /* and with a byte more */
			uint8_t bad[sizeof(buf)];

			memcpy(bad, buf, n);
			bad[n] = (uint8_t)stet_random_next(&random);
			mutate(&random, bad, n);
			decodes_to_itself(bad, n + 1);
			decodes_to_itself(bad, n);
		}
		buf[n] = 0; /* content of a file may be longer, and hold this */
		assert_int_equal(decode_inode(buf, n + 1),
				 S_ISREG(i.mode) && i.inline_bytes > 0 ? 0 : -EUCLEAN);
	}
}

/* An inode of the numbers `present`, which are the bytes p. */
static int decode_numbers(uint16_t present, const char *p, size_t n)
{
	uint8_t buf[64] = { 0 };

	stet_put_le16(buf, S_IFREG | 0600);
	stet_put_le16(buf + 3, present);
	memcpy(buf + 13, p, n);
	return decode_inode(buf, 13 + n);
}

static void number_forms(void **state)
{
	(void)state;
#define GIVES(rc, present, bytes) \
	assert_int_equal(decode_numbers(present, bytes, sizeof(bytes) - 1), rc)
	GIVES(0, 0, "");
	GIVES(0, 1u << STET_NUMBER_UID, "\x01");
	GIVES(-EUCLEAN, 0, "\x01"); /* more than the numbers */
	GIVES(-EUCLEAN, 1u << STET_NUMBER_UID, "");
	GIVES(-EUCLEAN, 1u << STET_NUMBER_UID, "\x01\x01");
	GIVES(-EUCLEAN, 1u << STET_NUMBER_UID, "\x81");
	GIVES(-EUCLEAN, 1u << STET_NUMBER_UID, "\x00"); /* what is usual */
	GIVES(-EUCLEAN, 1u << STET_NUMBER_UID, "\x81\x00");
	GIVES(0, 1u << STET_NUMBER_UID, "\xfe\xff\xff\xff\x0f");
	GIVES(-EUCLEAN, 1u << STET_NUMBER_UID, "\xff\xff\xff\xff\x0f"); /* 2^32 - 1 */
	GIVES(-EUCLEAN, 1u << STET_NUMBER_UID, "\x80\x80\x80\x80\x10"); /* 2^32 */
	GIVES(-EUCLEAN, 1u << STET_NUMBER_GID, "\x80\x80\x80\x80\x10");
	GIVES(-EUCLEAN, 1u << STET_NUMBER_NLINK, "\x80\x80\x80\x80\x10");
	GIVES(0, 1u << STET_NUMBER_DATA_VERSION, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	GIVES(-EUCLEAN, 1u << STET_NUMBER_DATA_VERSION,
	      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"); /* 2^65 - 1, less one bit */
	GIVES(-EUCLEAN, 1u << STET_NUMBER_DATA_VERSION,
	      "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
	for (unsigned int bit = STET_NUMBER_COUNT; bit < 16; bit++) {
		GIVES(-EUCLEAN, (uint16_t)(1u << bit), "");
		GIVES(-EUCLEAN, (uint16_t)(1u << bit), "\x01");
	}
#undef GIVES
}

static void inode_limits(void **state)
{
	struct stet_inode i;

	(void)state;
#define GIVES(rc, base, field, value)                    \
	do {                                             \
		i = base;                                \
		i.field = value;                         \
		assert_int_equal(encode_decode(&i), rc); \
	} while (0)
	GIVES(0, file(), size, INT64_MAX);
	GIVES(-EUCLEAN, file(), size, (uint64_t)INT64_MAX + 1);
	GIVES(-EUCLEAN, file(), mode, 0644);
	GIVES(-EUCLEAN, file(), mode, 0150000 | 0644);
	GIVES(-EUCLEAN, file(), mode, S_IFIFO | S_IFCHR | 0644);
	GIVES(-EUCLEAN, file(), uid, UINT32_MAX);
	GIVES(-EUCLEAN, file(), gid, UINT32_MAX);
	GIVES(-EUCLEAN, file(), nlink, (uint32_t)INT32_MAX + 1);
	GIVES(-EUCLEAN, file(), flags, 0x10);
	GIVES(-EUCLEAN, file(), flags, 0x80);
	GIVES(-EUCLEAN, file(), parent, 1);
	GIVES(-EUCLEAN, file(), subdirs, 1);
	GIVES(-EUCLEAN, file(), rdev, 1);
	GIVES(-EUCLEAN, file(), blocks, STET_FILE_BLOCKS_MAX + 1);
	const struct stet_inode dir = { .mode = S_IFDIR | 0755, .nlink = 1, .parent = 1 };

	const struct stet_inode table = { .mode = STET_MODE_TABLE | 0644, .nlink = 2 };

	GIVES(0, table, size, 5);
	GIVES(0, table, blocks, 5);
	GIVES(-EUCLEAN, table, parent, 1);
	GIVES(-EUCLEAN, table, subdirs, 1);
	GIVES(-EUCLEAN, table, rdev, 1);
	GIVES(-EUCLEAN, table, flags, STET_INODE_INLINE);
	GIVES(-EUCLEAN, table, blocks, STET_FILE_BLOCKS_MAX + 1);
	GIVES(0, dir, size, 5);
	GIVES(-EUCLEAN, dir, parent, 0);
	GIVES(-EUCLEAN, dir, nlink, 2);
	GIVES(-EUCLEAN, dir, subdirs, 1);
	GIVES(-EUCLEAN, dir, blocks, 1);
	GIVES(-EUCLEAN, dir, flags, STET_INODE_INLINE);
	const struct stet_inode device = { .mode = S_IFBLK | 0600, .nlink = 1, .rdev = 8ull << 32 };

	GIVES(0, device, rdev, UINT64_MAX);
	GIVES(-EUCLEAN, device, size, 1);
	GIVES(-EUCLEAN, device, mode, S_IFSOCK | 0600);
#undef GIVES
}

static struct stet_inode link_to(const char *target, size_t n)
{
	return (struct stet_inode){
		.mode = S_IFLNK | 0777,
		.nlink = 1,
		.flags = STET_INODE_INLINE,
		.size = n,
		.inline_bytes = (uint32_t)n,
		.inline_data = (const uint8_t *)target,
	};
}

static void symlink_limits(void **state)
{
	struct stet_inode i = link_to("/etc/motd", 9);

	(void)state;
	assert_int_equal(encode_decode(&i), 0);
	i.size = 8;
	assert_int_equal(encode_decode(&i), -EUCLEAN);
	i = link_to("a\0b", 3);
	assert_int_equal(encode_decode(&i), -EUCLEAN);
	i = link_to("", 0);
	assert_int_equal(encode_decode(&i), -EUCLEAN);
	i = link_to(NULL, 0);
	i.flags = 0;
	i.size = STET_SYMLINK_MAX;
	i.blocks = 1;
	assert_int_equal(encode_decode(&i), 0);
	i.size++;
	assert_int_equal(encode_decode(&i), -EUCLEAN);
	i.size = 5;
	i.blocks = 0;
	assert_int_equal(encode_decode(&i), -EUCLEAN);
}

static void inline_lengths(void **state)
{
	uint8_t content[STET_INLINE_MAX + 8] = { 0 };
	uint8_t buf[STET_INODE_VALUE_MAX + 8];
	struct stet_inode i = file();
	size_t n;

	(void)state;
	i.flags = STET_INODE_INLINE;
	i.inline_data = content;
	i.inline_bytes = STET_INLINE_MAX;
	i.size = STET_INLINE_MAX;
	n = stet_inode_encode(&i, buf);
	assert_int_equal(n, 13 + STET_INLINE_MAX);
	memset(buf + n, 0, sizeof(buf) - n);
	assert_int_equal(decode_inode(buf, n), 0);
	assert_int_equal(decode_inode(buf, n + 1), -EUCLEAN);
	assert_int_equal(decode_inode(buf, 12), -EUCLEAN);
	i.blocks = 1;
	assert_int_equal(encode_decode(&i), -EUCLEAN);
	i.blocks = 0;
	i.size--;
	assert_int_equal(encode_decode(&i), -EUCLEAN);
	i.size = 0;
	assert_int_equal(encode_decode(&i), -EUCLEAN);
	i.size = STET_INLINE_MAX;
	i.flags = 0;
	assert_int_equal(encode_decode(&i), -EUCLEAN);
	i.mode = S_IFDIR | 0755;
	i.parent = 1;
	i.flags = STET_INODE_INLINE;
	assert_int_equal(encode_decode(&i), -EUCLEAN);
}

static size_t make_extent(uint8_t *out, uint16_t blocks, struct stet_extent *ret)
{
	static uint8_t crcs[4 * STET_EXTENT_BLOCKS_MAX];

	for (size_t i = 0; i < sizeof(crcs); i++)
		crcs[i] = (uint8_t)(i * 7);
	*ret = (struct stet_extent){
		.addr = stet_addr_make(77, 0),
		.addr2 = stet_addr_make(78, 0),
		.birth = 5,
		.block_count = blocks,
		.phys_blocks = blocks,
		.crcs = crcs,
	};
	return stet_extent_encode(ret, out);
}

static void extent_round_trips(void **state)
{
	uint8_t buf[STET_EXTENT_VALUE_MAX];

	(void)state;
	for (uint16_t blocks = 1; blocks <= STET_EXTENT_BLOCKS_MAX; blocks++) {
		struct stet_extent in;
		struct stet_extent back;
		size_t n = make_extent(buf, blocks, &in);

		assert_int_equal(n, 0x20 + 4 * blocks);
		assert_int_equal(stet_extent_decode(buf, n, 64, &back), 0);
		assert_true(back.addr.v == in.addr.v && back.addr2.v == in.addr2.v);
		assert_int_equal(back.block_count, blocks);
		assert_memory_equal(back.crcs, in.crcs, 4 * blocks);
		for (size_t len = 0; len < n; len++)
			assert_int_equal(stet_extent_decode(buf, len, 64, &back), -EUCLEAN);
	}
}

static void extent_limits(void **state)
{
	uint8_t buf[STET_EXTENT_VALUE_MAX];
	struct stet_extent_disk *disk = (struct stet_extent_disk *)buf;
	struct stet_extent e;

	(void)state;
	size_t n = make_extent(buf, 8, &e);
	const struct stet_extent_disk good = *disk;

#define GIVES(rc, field, value)                                           \
	do {                                                              \
		*disk = good;                                             \
		disk->field = value;                                      \
		assert_int_equal(stet_extent_decode(buf, n, 64, &e), rc); \
	} while (0)
	GIVES(0, addr, le64_make(stet_addr_make(1, 56).v));
	GIVES(-EUCLEAN, addr, le64_make(stet_addr_make(1, 57).v));
	GIVES(-EUCLEAN, addr, le64_make(stet_addr_make(1, 4095).v));
	GIVES(-EUCLEAN, addr, le64_make(0));
	GIVES(-EUCLEAN, addr, le64_make(12));
	GIVES(-EUCLEAN, addr2, good.addr);
	GIVES(-EUCLEAN, addr2, le64_make(12));
	GIVES(0, addr2, le64_make(0));
	GIVES(0, birth, le64_make(0));
	GIVES(-EUCLEAN, block_count, le16_make(0));
	GIVES(-EUCLEAN, block_count, le16_make(65));
	GIVES(-EUCLEAN, block_count, le16_make(7));
	GIVES(-EUCLEAN, phys_blocks, le16_make(7));
	GIVES(-EUCLEAN, phys_offset, le16_make(1));
	GIVES(-EUCLEAN, flags, le16_make(STET_EXTENT_COMPRESSED));
	GIVES(-EUCLEAN, flags, le16_make(STET_EXTENT_SHARED));
#undef GIVES
}

static void dirents_and_orphans(void **state)
{
	uint8_t buf[16];
	struct stet_dirent dirent = { .ino = UINT64_MAX, .type = 4 };
	struct stet_orphan orphan = { .from_block = 7, .flags = STET_ORPHAN_TRUNCATE };
	struct stet_dirent d;
	struct stet_orphan o;

	(void)state;
	assert_int_equal(stet_dirent_encode(&dirent, buf), 9);
	assert_int_equal(stet_dirent_decode(buf, 9, &d), 0);
	assert_true(d.ino == UINT64_MAX && d.type == 4);
	assert_int_equal(stet_dirent_decode(buf, 8, &d), -EUCLEAN);
	assert_int_equal(stet_dirent_decode(buf, 10, &d), -EUCLEAN);
	for (unsigned int type = 0; type < 256; type++) {
		bool known = type == 1 || type == 2 || type == 4 || type == 6 || type == 8 ||
			     type == 10 || type == 12 || type == 14;

		dirent.type = (uint8_t)type;
		stet_dirent_encode(&dirent, buf);
		assert_int_equal(stet_dirent_decode(buf, 9, &d), known ? 0 : -EUCLEAN);
	}
	dirent = (struct stet_dirent){ .ino = 0, .type = 4 };
	stet_dirent_encode(&dirent, buf);
	assert_int_equal(stet_dirent_decode(buf, 9, &d), -EUCLEAN);

	assert_int_equal(stet_orphan_encode(&orphan, buf), 9);
	assert_int_equal(stet_orphan_decode(buf, 9, &o), 0);
	assert_true(o.from_block == 7 && o.flags == STET_ORPHAN_TRUNCATE);
	assert_int_equal(stet_orphan_decode(buf, 8, &o), -EUCLEAN);
	orphan.flags = 0;
	stet_orphan_encode(&orphan, buf);
	assert_int_equal(stet_orphan_decode(buf, 9, &o), -EUCLEAN);
	orphan.flags = 4;
	stet_orphan_encode(&orphan, buf);
	assert_int_equal(stet_orphan_decode(buf, 9, &o), -EUCLEAN);
}

static void xattrs(void **state)
{
	static uint8_t data[STET_RECORD_INLINE_MAX];
	uint8_t buf[STET_VALUE_MAX];
	struct stet_xattr x = { .data = data, .size_bytes = STET_XATTR_INLINE_MAX };
	struct stet_xattr back;
	uint8_t crc[STET_EXTENT_VALUE_MAX];
	size_t n;

	(void)state;
	n = stet_xattr_encode(&x, buf);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_XATTR, 64, &back), 0);
	assert_int_equal(back.size_bytes, STET_XATTR_INLINE_MAX);
	assert_non_null(back.data);
	x.size_bytes++;
	n = stet_xattr_encode(&x, buf);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_XATTR, 64, &back), -EUCLEAN);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_RECORD, 64, &back), 0);
	assert_int_equal(stet_xattr_decode(buf, 1, STET_KIND_XATTR, 64, &back), 0);
	assert_int_equal(back.size_bytes, 0);
	assert_int_equal(stet_xattr_decode(buf, 0, STET_KIND_XATTR, 64, &back), -EUCLEAN);
	buf[0] = 2;
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_XATTR, 64, &back), -EUCLEAN);

	x = (struct stet_xattr){ .size_bytes = STET_XATTR_SIZE_MAX };
	make_extent(crc, 16, &x.extent);
	n = stet_xattr_encode(&x, buf);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_XATTR, 64, &back), 0);
	assert_null(back.data);
	assert_int_equal(back.extent.block_count, 16);
	for (size_t len = 0; len < n; len++)
		assert_int_equal(stet_xattr_decode(buf, len, STET_KIND_XATTR, 64, &back), -EUCLEAN);
	stet_put_le32(buf + 1, STET_XATTR_SIZE_MAX + 1);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_XATTR, 64, &back), -EUCLEAN);
	stet_put_le32(buf + 1, 15 * 4096);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_XATTR, 64, &back), -EUCLEAN);
	stet_put_le32(buf + 1, 0);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_XATTR, 64, &back), -EUCLEAN);
}

static void cut_off_values_are_not_read_past(void **state)
{
	struct stet_xattr x;

	(void)state;
	for (size_t n = 1; n < 40; n++) {
		uint8_t *p = exact(n);

		memset(p, 1, n);
		assert_int_equal(stet_xattr_decode(p, n, STET_KIND_XATTR, 64, &x), -EUCLEAN);
		free(p);
	}
}

static void items_by_kind(void **state)
{
	uint8_t buf[STET_EXTENT_VALUE_MAX];
	struct stet_extent e;
	struct stet_key k;
	size_t n = make_extent(buf, 8, &e);

	(void)state;
	stet_key_extent(&k, 3, STET_FILE_BLOCKS_MAX - 8);
	assert_int_equal(stet_item_verify(k.b, k.bytes, buf, n, 64), 0);
	stet_key_extent(&k, 3, STET_FILE_BLOCKS_MAX - 7);
	assert_int_equal(stet_item_verify(k.b, k.bytes, buf, n, 64), -EUCLEAN);
	stet_key_inode(&k, 3);
	assert_int_equal(stet_item_verify(k.b, k.bytes, buf, n, 64), -EUCLEAN);
	stet_key_kind(&k, 0, STET_KIND_BADBLOCK);
	memset(k.b + 9, 0, 8);
	k.bytes = 17;
	assert_int_equal(stet_item_verify(k.b, k.bytes, buf, 0, 64), 0);
	assert_int_equal(stet_item_verify(k.b, k.bytes, buf, 1, 64), -EUCLEAN);
	stet_key_dirent(&k, 3, "..", 2);
	assert_int_equal(stet_item_verify(k.b, k.bytes, buf, 9, 64), -EUCLEAN);
}

/* A key of the kind, right or nearly so. */
static void key_of_kind(struct stet_key *k, uint8_t kind)
{
	stet_key_kind(k, kind < STET_KIND_ORPHAN ? 3 : 0, kind);
	if (kind == STET_KIND_XATTR || kind == STET_KIND_DIRENT || kind == STET_KIND_RECORD) {
		memcpy(k->b + 9, "user.a", 6);
		k->bytes = 15;
	} else if (kind != STET_KIND_INODE) {
		stet_put_be64(k->b + 9, 4);
		k->bytes = 17;
	}
}

/* The value of a record in a table's blocks. */
static void records_in_blocks(void **state)
{
	struct stet_xattr x = { .size_bytes = STET_RECORD_SIZE_MAX, .chunks = 7 * 256 }, back;
	uint8_t buf[STET_VALUE_MAX];
	size_t n;

	(void)state;
	n = stet_xattr_encode(&x, buf);
	assert_int_equal(n, STET_XATTR_CHUNKED_BYTES);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_RECORD, 64, &back), 0);
	assert_int_equal(back.chunks, 7 * 256);
	assert_int_equal(back.size_bytes, STET_RECORD_SIZE_MAX);
	assert_null(back.data);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_XATTR, 64, &back), -EUCLEAN);
	assert_int_equal(stet_xattr_decode(buf, n - 1, STET_KIND_RECORD, 64, &back), -EUCLEAN);
	assert_int_equal(stet_xattr_decode(buf, n + 1, STET_KIND_RECORD, 64, &back), -EUCLEAN);
	stet_put_le32(buf + 1, STET_RECORD_SIZE_MAX + 1);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_RECORD, 64, &back), -EUCLEAN);
	stet_put_le32(buf + 1, STET_RECORD_INLINE_MAX);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_RECORD, 64, &back), -EUCLEAN);
	stet_put_le32(buf + 1, STET_RECORD_INLINE_MAX + 1);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_RECORD, 64, &back), 0);
	for (uint64_t first = 0; first < 512; first++) {
		stet_put_le64(buf + 5, first);
		assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_RECORD, 64, &back),
				 first == 256 ? 0 : -EUCLEAN);
	}
	stet_put_le64(buf + 5, STET_FILE_BLOCKS_MAX - 256);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_RECORD, 64, &back), 0);
	stet_put_le64(buf + 5, STET_FILE_BLOCKS_MAX);
	assert_int_equal(stet_xattr_decode(buf, n, STET_KIND_RECORD, 64, &back), -EUCLEAN);
}

static void hostile_values_stay_in_bounds(void **state)
{
	static const uint8_t kinds[] = { 1, 2, 3, 4, 5, 16, 17 };
	static const size_t sizes[] = { 0, 1, 5, 9, 22, 36, 64, 112, 113, 160, 293, 2160 };
	struct stet_random random;
	struct stet_key k;

	(void)state;
	stet_random_seed(&random, 9);
	for (int i = 0; i < 100000; i++) {
		size_t n = stet_random_below(&random, 3)
				   ? sizes[stet_random_below(&random, 12)]
				   : stet_random_below(&random, STET_VALUE_MAX + 2);
		uint8_t *p = exact(n);
		struct stet_text t = { .p = NULL };
		struct stet_extent e;

		memset(p, 0, n);
		if (n >= 36 && n <= STET_EXTENT_VALUE_MAX && (n - 32) % 4 == 0)
			make_extent(p, (uint16_t)((n - 32) / 4), &e);
		else if (n >= sizeof(example))
			memcpy(p, example, sizeof(example));
		for (uint64_t m = stet_random_below(&random, 3); n >= 8 && m > 0; m--)
			mutate(&random, p, n < 128 ? n : 128);
		key_of_kind(&k, kinds[stet_random_below(&random, sizeof(kinds))]);
		int rc = stet_item_verify(k.b, k.bytes, p, n, 64);

		assert_true(rc == 0 || rc == -EUCLEAN);
		stet_value_print(&t, k.b, k.bytes, p, n);
		stet_text_release(&t);
		free(p);
	}
}

static void printing(void **state)
{
	uint8_t buf[STET_INODE_VALUE_MAX];
	struct stet_text t = { .p = NULL };
	struct stet_inode i = link_to("/a\x1b", 3);
	struct stet_extent e;
	struct stet_key k;
	size_t n = stet_inode_encode(&i, buf);

	(void)state;
	stet_key_inode(&k, 3);
	stet_value_print(&t, k.b, k.bytes, buf, n);
	assert_prints(&t, "target /a\\x1b");
	stet_value_print(&t, k.b, k.bytes, buf, 12);
	assert_prints(&t, "(12 bytes)");
	make_extent(buf, 3, &e);
	stet_extent_print(&t, &e);
	assert_prints(&t, "3 blocks at 77:0 and 78:0 birth 5");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inode_round_trips),
		cmocka_unit_test(inode_bytes_max),
		cmocka_unit_test(inode_example),
		cmocka_unit_test(an_inode_has_one_encoding),
		cmocka_unit_test(number_forms),
		cmocka_unit_test(inode_limits),
		cmocka_unit_test(symlink_limits),
		cmocka_unit_test(inline_lengths),
		cmocka_unit_test(extent_round_trips),
		cmocka_unit_test(extent_limits),
		cmocka_unit_test(dirents_and_orphans),
		cmocka_unit_test(xattrs),
		cmocka_unit_test(cut_off_values_are_not_read_past),
		cmocka_unit_test(items_by_kind),
		cmocka_unit_test(records_in_blocks),
		cmocka_unit_test(hostile_values_stay_in_bounds),
		cmocka_unit_test(printing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
