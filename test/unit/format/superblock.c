/* superblock.c - the superblock: round trip, flips, one field at a time just wrong. */
#include "format/superblock.h"

#include "base/crc.h"
#include "format/checkpoint.h"
#include "format/segtable.h"

#include "format_test.h"

static struct stet_superblock sample(void)
{
	struct stet_superblock sb = {
		.volume_id = TEST_VOLUME,
		.uuid = { 1, 2, 3, 0xff },
		.label = "a label",
		.feature_compat = 0x10,
		.feature_ro_compat = 0x20,
		.device_blocks = 4096,
		.seg_start_block = STET_HEAD_BLOCKS,
		.slot_count = 63,
		.seg_blocks = 64,
		.compress = STET_COMPRESS_ZSTD,
		.meta_copies = 2,
		.data_copies = 1,
		.created_ns = -5,
	};

	return sb;
}

static void assert_same(const struct stet_superblock *a, const struct stet_superblock *b)
{
	struct stet_superblock_disk x;
	struct stet_superblock_disk y;

	stet_superblock_encode(a, 0, &x);
	stet_superblock_encode(b, 0, &y);
	assert_memory_equal(&x, &y, sizeof(x));
	assert_string_equal(a->label, b->label);
	assert_int_equal(a->created_ns, b->created_ns);
}

static void round_trips(void **state)
{
	struct stet_random random;
	struct stet_superblock_disk disk;
	struct stet_superblock back;

	(void)state;
	stet_random_seed(&random, 1);
	for (uint32_t i = 0; i < 500; i++) {
		struct stet_superblock sb = sample();
		uint64_t spare = stet_random_below(&random, 100000);

		sb.volume_id = stet_random_next(&random) | 1;
		stet_random_bytes(&random, sb.uuid, sizeof(sb.uuid));
		memset(sb.label, 'x', i % 65);
		sb.label[i % 65] = '\0';
		sb.seg_blocks = 64u << i % 7;
		sb.slot_count = 1 + (uint32_t)stet_random_below(&random, 10000);
		sb.seg_start_block = STET_HEAD_BLOCKS + stet_random_below(&random, 1000);
		sb.device_blocks = sb.seg_start_block + (uint64_t)sb.slot_count * sb.seg_blocks +
				   1 + spare;
		sb.created_ns = (int64_t)stet_random_next(&random);
		memset(&disk, 0xaa, sizeof(disk)); /* every byte must be set */
		stet_superblock_encode(&sb, i % 3, &disk);
		assert_int_equal(le32_get(disk.copy), i % 3);
		for (size_t r = 0; r < sizeof(disk.reserved); r++)
			assert_int_equal(disk.reserved[r], 0);
		assert_int_equal(stet_superblock_decode(&disk, &back), 0);
		assert_same(&sb, &back);
	}
}

static int decode(const uint8_t *buf, void *arg)
{
	struct stet_superblock sb;

	(void)arg;
	return stet_superblock_decode((const struct stet_superblock_disk *)buf, &sb);
}

static void every_flip_is_found(void **state)
{
	struct stet_superblock sb = sample();
	struct stet_superblock_disk disk;

	(void)state;
	stet_superblock_encode(&sb, 1, &disk);
	assert_flips_found((uint8_t *)&disk, sizeof(disk), decode, NULL);
}

static int decode_fixed(struct stet_superblock_disk *disk)
{
	struct stet_superblock sb;

	disk->check = le64_make(stet_crc64(disk, sizeof(*disk) - 8));
	return stet_superblock_decode(disk, &sb);
}

static void field_limits(void **state)
{
	struct stet_superblock sb = sample();
	struct stet_superblock_disk good;
	struct stet_superblock_disk disk;

	(void)state;
	stet_superblock_encode(&sb, 0, &good);
	assert_int_equal(decode_fixed(&good), 0);
#define GIVES(rc, field, value)                            \
	do {                                               \
		disk = good;                               \
		disk.field = value;                        \
		assert_int_equal(decode_fixed(&disk), rc); \
	} while (0)
	GIVES(-EINVAL, magic, le64_make(0));
	GIVES(-EOPNOTSUPP, version, le32_make(0));
	GIVES(-EOPNOTSUPP, version, le32_make(2));
	GIVES(-EOPNOTSUPP, feature_incompat, le64_make(1));
	GIVES(0, feature_compat, le64_make(UINT64_MAX));
	GIVES(0, feature_ro_compat, le64_make(UINT64_MAX));
	GIVES(-EUCLEAN, copy, le32_make(3));
	GIVES(-EUCLEAN, volume_id, le64_make(0));
	GIVES(-EUCLEAN, label[63], 'x');
	GIVES(-EUCLEAN, device_blocks, le64_make(0));
	GIVES(-EUCLEAN, device_blocks, le64_make(STET_HEAD_BLOCKS));
	GIVES(-EUCLEAN, device_blocks, le64_make(STET_HEAD_BLOCKS + 63 * 64));
	GIVES(0, device_blocks, le64_make(STET_HEAD_BLOCKS + 63 * 64 + 1));
	GIVES(0, device_blocks, le64_make(STET_DEVICE_BLOCKS_MAX));
	GIVES(-EUCLEAN, device_blocks, le64_make(STET_DEVICE_BLOCKS_MAX + 1));
	GIVES(-EUCLEAN, seg_start_block, le64_make(STET_HEAD_BLOCKS - 1));
	GIVES(-EUCLEAN, seg_start_block, le64_make(UINT64_MAX));
	GIVES(-EUCLEAN, slot_count, le32_make(0));
	GIVES(-EUCLEAN, slot_count, le32_make(64));
	GIVES(-EUCLEAN, slot_count, le32_make(UINT32_MAX));
	GIVES(-EUCLEAN, seg_blocks, le32_make(0));
	GIVES(-EUCLEAN, seg_blocks, le32_make(32));
	GIVES(-EUCLEAN, seg_blocks, le32_make(65));
	GIVES(-EUCLEAN, seg_blocks, le32_make(8192));
	GIVES(-EUCLEAN, seg_blocks, le32_make(UINT32_C(1) << 31));
	GIVES(-EUCLEAN, node_size_bytes, le32_make(8192));
	GIVES(-EUCLEAN, checksum_kind, 0);
	GIVES(-EUCLEAN, compress, 3);
	GIVES(-EUCLEAN, meta_copies, 0);
	GIVES(-EUCLEAN, meta_copies, 3);
	GIVES(-EUCLEAN, data_copies, 0);
	GIVES(-EUCLEAN, data_copies, 255);
	GIVES(0, reserved[0], 1); /* ignored */
#undef GIVES
	disk = good; /* 2^20 segments of 2^12 blocks: 0 in 32 bits */
	disk.seg_blocks = le32_make(4096);
	disk.slot_count = le32_make(UINT32_C(1) << 20);
	assert_int_equal(decode_fixed(&disk), -EUCLEAN);
	disk = good; /* a table that no checkpoint record could name */
	disk.device_blocks = le64_make(STET_DEVICE_BLOCKS_MAX);
	disk.slot_count = le32_make(UINT32_MAX);
	assert_int_equal(decode_fixed(&disk), -EUCLEAN);
}

static void hostile_superblocks(void **state)
{
	struct stet_superblock sb = sample();
	struct stet_superblock_disk good;
	struct stet_superblock_disk disk;
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 2);
	stet_superblock_encode(&sb, 0, &good);
	for (int i = 0; i < 20000; i++) {
		disk = good;
		mutate(&random, (uint8_t *)&disk + 8, 0xa8 - 8);
		mutate(&random, (uint8_t *)&disk + 0x80, 0x20);
		disk.check = le64_make(stet_crc64(&disk, sizeof(disk) - 8));
		if (stet_superblock_decode(&disk, &sb) != 0)
			continue;
		assert_true(sb.seg_start_block + (uint64_t)sb.slot_count * sb.seg_blocks <
			    sb.device_blocks);
		assert_true(stet_ckpt_record_bytes(
				    stet_table_page_count(sb.slot_count, sb.seg_blocks)) <
			    (size_t)sb.seg_blocks * STET_BLOCK_SIZE);
	}
}

static void printing(void **state)
{
	struct stet_superblock sb = sample();
	struct stet_text t = { .p = NULL };

	(void)state;
	stet_superblock_print(&t, &sb);
	assert_non_null(strstr(stet_text_cstr(&t), "uuid 010203ff-0000-"));
	assert_non_null(strstr(stet_text_cstr(&t), "zstd"));
	assert_prints(&t, "label a label");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trips),  cmocka_unit_test(every_flip_is_found),
		cmocka_unit_test(field_limits), cmocka_unit_test(hostile_superblocks),
		cmocka_unit_test(printing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
