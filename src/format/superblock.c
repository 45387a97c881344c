/* superblock.c - the superblock: encode, verify and decode, print.
 *
 * I1. Magic, version, volume id and check keep their places in all versions of the format.
 * I2. A decoded superblock describes segments that lie wholly between the head and the last block
 *     of the device, and whose table's checkpoint record fits one segment.
 */
#include "format/superblock.h"

#include "base/assert.h"
#include "base/crc.h"
#include "format/checkpoint.h"
#include "format/segtable.h"

#include <inttypes.h>
#include <string.h>

#define CHECK_AT offsetof(struct stet_superblock_disk, check)

void stet_superblock_encode(const struct stet_superblock *sb, uint32_t copy,
			    struct stet_superblock_disk *out)
{
	size_t label_bytes = strnlen(sb->label, sizeof(out->label));

	STET_ASSERT_CMP(copy, <=, 2);
	memset(out, 0, sizeof(*out));
	out->magic = le64_make(STET_SB_MAGIC);
	out->version = le32_make(STET_FORMAT_VERSION);
	out->copy = le32_make(copy);
	out->volume_id = le64_make(sb->volume_id);
	memcpy(out->uuid, sb->uuid, sizeof(out->uuid));
	memcpy(out->label, sb->label, label_bytes);
	out->feature_compat = le64_make(sb->feature_compat);
	out->feature_ro_compat = le64_make(sb->feature_ro_compat);
	out->feature_incompat = le64_make(sb->feature_incompat);
	out->device_blocks = le64_make(sb->device_blocks);
	out->seg_start_block = le64_make(sb->seg_start_block);
	out->slot_count = le32_make(sb->slot_count);
	out->seg_blocks = le32_make(sb->seg_blocks);
	out->node_size_bytes = le32_make(STET_NODE_SIZE);
	out->checksum_kind = STET_CHECKSUM_CRC32C;
	out->compress = sb->compress;
	out->meta_copies = sb->meta_copies;
	out->data_copies = sb->data_copies;
	out->created_ns = le64_make((uint64_t)sb->created_ns);
	out->check = le64_make(stet_crc64(out, CHECK_AT));
}

static int verify_identity(const struct stet_superblock_disk *in)
{
	uint64_t unknown = le64_get(in->feature_incompat) & ~STET_FEATURE_INCOMPAT_KNOWN;

	if (le64_get(in->magic) != STET_SB_MAGIC)
		return STET_FAIL(-EINVAL, "superblock: not a StetFS volume");
	if (le64_get(in->check) != stet_crc64(in, CHECK_AT))
		return STET_FAIL(-EUCLEAN, "superblock: bad checksum");
	if (le32_get(in->version) != STET_FORMAT_VERSION)
		return STET_FAIL(-EOPNOTSUPP, "superblock: format version %" PRIu32,
				 le32_get(in->version));
	if (unknown)
		return STET_FAIL(-EOPNOTSUPP, "superblock: unknown features %#" PRIx64, unknown);
	if (le32_get(in->copy) > 2)
		return STET_FAIL(-EUCLEAN, "superblock: copy %" PRIu32, le32_get(in->copy));
	if (le64_get(in->volume_id) == 0)
		return STET_FAIL(-EUCLEAN, "superblock: volume id 0");
	return 0;
}

static bool label_valid(const uint8_t label[64])
{
	size_t n = strnlen((const char *)label, 64);

	for (size_t i = n; i < 64; i++)
		if (label[i] != 0)
			return false;
	return true;
}

static int verify_options(const struct stet_superblock_disk *in)
{
	if (le32_get(in->node_size_bytes) != STET_NODE_SIZE)
		return STET_FAIL(-EUCLEAN, "superblock: node size %" PRIu32,
				 le32_get(in->node_size_bytes));
	if (in->checksum_kind != STET_CHECKSUM_CRC32C)
		return STET_FAIL(-EUCLEAN, "superblock: checksum kind %u", in->checksum_kind);
	if (in->compress > STET_COMPRESS_ZSTD)
		return STET_FAIL(-EUCLEAN, "superblock: compression %u", in->compress);
	if (in->meta_copies < 1 || in->meta_copies > 2 || in->data_copies < 1 ||
	    in->data_copies > 2)
		return STET_FAIL(-EUCLEAN, "superblock: copies %u and %u", in->meta_copies,
				 in->data_copies);
	if (!label_valid(in->label))
		return STET_FAIL(-EUCLEAN, "superblock: label not padded with NUL");
	return 0;
}

/* I2 */
static int verify_sizes(const struct stet_superblock_disk *in)
{
	uint64_t device = le64_get(in->device_blocks);
	uint64_t start = le64_get(in->seg_start_block);
	uint32_t seg_blocks = le32_get(in->seg_blocks);
	uint32_t slots = le32_get(in->slot_count);
	uint32_t pages;

	if (seg_blocks < STET_SEG_BLOCKS_MIN || seg_blocks > STET_SEG_BLOCKS_MAX ||
	    (seg_blocks & (seg_blocks - 1)) != 0)
		return STET_FAIL(-EUCLEAN, "superblock: segments of %" PRIu32 " blocks",
				 seg_blocks);
	if (device > STET_DEVICE_BLOCKS_MAX || start < STET_HEAD_BLOCKS || start >= device)
		return STET_FAIL(-EUCLEAN, "superblock: %" PRIu64 " blocks, segments at %" PRIu64,
				 device, start);
	/* The product of two 32-bit numbers fits; the last block is the superblock's. */
	if (slots == 0 || (uint64_t)slots * seg_blocks > device - 1 - start)
		return STET_FAIL(-EUCLEAN, "superblock: %" PRIu32 " segments in %" PRIu64 " blocks",
				 slots, device);
	pages = stet_table_page_count(slots, seg_blocks);
	if (stet_ckpt_record_bytes(pages) > STET_CKPT_RECORD_BYTES_MAX(seg_blocks))
		return STET_FAIL(-EUCLEAN, "superblock: %" PRIu32 " segments are too many", slots);
	return 0;
}

int stet_superblock_decode(const struct stet_superblock_disk *in, struct stet_superblock *ret_sb)
{
	int rc;

	rc = verify_identity(in);
	if (rc)
		return rc;
	rc = verify_options(in);
	if (rc)
		return rc;
	rc = verify_sizes(in);
	if (rc)
		return rc;
	*ret_sb = (struct stet_superblock){
		.volume_id = le64_get(in->volume_id),
		.feature_compat = le64_get(in->feature_compat),
		.feature_ro_compat = le64_get(in->feature_ro_compat),
		.feature_incompat = le64_get(in->feature_incompat),
		.device_blocks = le64_get(in->device_blocks),
		.seg_start_block = le64_get(in->seg_start_block),
		.slot_count = le32_get(in->slot_count),
		.seg_blocks = le32_get(in->seg_blocks),
		.compress = in->compress,
		.meta_copies = in->meta_copies,
		.data_copies = in->data_copies,
		.created_ns = (int64_t)le64_get(in->created_ns),
	};
	memcpy(ret_sb->uuid, in->uuid, sizeof(ret_sb->uuid));
	memcpy(ret_sb->label, in->label, sizeof(in->label));
	return 0;
}

void stet_superblock_print(struct stet_text *t, const struct stet_superblock *sb)
{
	static const char *const compress_name[] = { "none", "lz4", "zstd" };

	stet_text_printf(t, "volume %016" PRIx64 "\nuuid ", sb->volume_id);
	for (size_t i = 0; i < sizeof(sb->uuid); i++)
		stet_text_printf(t, "%02x%s", sb->uuid[i],
				 i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
	stet_text_puts(t, "\nlabel ");
	stet_text_name(t, sb->label, strnlen(sb->label, sizeof(sb->label)));
	stet_text_printf(t,
			 "\nfeatures compat %#" PRIx64 " ro_compat %#" PRIx64 " incompat %#" PRIx64
			 "\n",
			 sb->feature_compat, sb->feature_ro_compat, sb->feature_incompat);
	stet_text_printf(t,
			 "device %" PRIu64 " blocks, %" PRIu32 " segments of %" PRIu32
			 " blocks from block %" PRIu64 "\n",
			 sb->device_blocks, sb->slot_count, sb->seg_blocks, sb->seg_start_block);
	stet_text_printf(t,
			 "compression %s, copies: metadata %u, data %u\ncreated %" PRId64 " ns\n",
			 sb->compress <= STET_COMPRESS_ZSTD ? compress_name[sb->compress] : "?",
			 sb->meta_copies, sb->data_copies, sb->created_ns);
}
