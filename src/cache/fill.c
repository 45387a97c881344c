/* fill.c - verified reads of data blocks from the device; needs no lock and no cache.
 *
 * F1. Not one byte is handed out whose block did not match its crc.
 * F2. A run is read in one go; only when that fails, or a block of it is wrong, are blocks read one
 *     by one, first copy before second. So one bad sector costs its neighbours nothing.
 */
#include "cache/cache_internal.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"

#include <string.h>

#define OFF_NONE UINT64_MAX

static bool block_is_right(const uint8_t *block, uint32_t crc)
{
	return stet_crc32c(block, STET_BLOCK_SIZE) == crc;
}

/* One block from one copy. */
static int read_block(struct stet_device *device, uint64_t off_bytes, uint32_t crc, uint8_t *block)
{
	int rc;

	if (off_bytes == OFF_NONE)
		return -EIO;
	rc = stet_device_read(device, off_bytes, block, STET_BLOCK_SIZE);
	if (!rc && !block_is_right(block, crc))
		rc = STET_FAIL(-EIO, "%s: block %llu: wrong crc", device->name,
			       (unsigned long long)(off_bytes >> STET_BLOCK_SHIFT));
	return rc;
}

static uint64_t off_of_block(uint64_t off_bytes, uint32_t index)
{
	return off_bytes == OFF_NONE ? OFF_NONE : off_bytes + (uint64_t)index * STET_BLOCK_SIZE;
}

int stet_cache_read_verified_(struct stet_device *device, uint64_t off_bytes, uint64_t off2_bytes,
			      uint32_t count, const uint32_t *crc, uint8_t *out,
			      uint32_t *ret_healed, uint32_t *ret_bad)
{
	uint32_t healed = 0;
	bool whole = off_bytes != OFF_NONE &&
		     stet_device_read(device, off_bytes, out, (size_t)count * STET_BLOCK_SIZE) == 0;

	for (uint32_t i = 0; i < count; i++) {
		uint8_t *block = out + (size_t)i * STET_BLOCK_SIZE;
		int rc = -EIO;

		if (whole && block_is_right(block, crc[i]))
			continue;
		if (!whole)
			rc = read_block(device, off_of_block(off_bytes, i), crc[i], block);
		if (!rc)
			continue;
		rc = read_block(device, off_of_block(off2_bytes, i), crc[i], block); /* F2 */
		if (rc) {
			*ret_bad = i;
			return rc == -ENOMEM ? rc : -EIO;
		}
		healed++;
	}
	*ret_healed = healed;
	return 0;
}

/* Reads the piece's blocks into `to`, which has room for all of them. */
static int fill_blocks(struct stet_device *device, const struct stet_read_piece *piece, uint8_t *to)
{
	uint32_t healed, bad = 0;
	int rc = stet_cache_read_verified_(device, piece->device_off, piece->device_off2,
					   piece->block_count, piece->crc, to, &healed, &bad);

	if (rc)
		return STET_FAIL(rc, "%s: block %llu: no copy reads right", device->name,
				 (unsigned long long)(piece->device_off >> STET_BLOCK_SHIFT) + bad);
	return 0;
}

int stet_cache_fill(struct stet_device *device, const struct stet_read_piece *piece)
{
	size_t whole_bytes = (size_t)piece->block_count * STET_BLOCK_SIZE;
	uint8_t *bounce;
	int rc;

	if (piece->buf) {
		STET_ASSERT(piece->buf->data && piece->buf->frozen > 0);
		STET_ASSERT_CMP((size_t)piece->buf_offset_bytes + piece->len_bytes, <=,
				(size_t)piece->buf->block_count * STET_BLOCK_SIZE);
		memcpy(piece->out, piece->buf->data + piece->buf_offset_bytes, piece->len_bytes);
		return 0;
	}
	if (piece->block_count == 0) {
		memset(piece->out, 0, piece->len_bytes);
		return 0;
	}
	STET_ASSERT_CMP(piece->block_count, <=, STET_EXTENT_BLOCKS_MAX);
	STET_ASSERT_CMP((size_t)piece->skip_bytes + piece->len_bytes, <=, whole_bytes);
	if (piece->len_bytes == whole_bytes)
		return fill_blocks(device, piece, piece->out);
	bounce = stet_alloc_aligned(STET_BLOCK_SIZE, whole_bytes);
	if (!bounce)
		return STET_FAIL(-ENOMEM, "no memory to read %zu bytes", whole_bytes);
	rc = fill_blocks(device, piece, bounce);
	if (!rc)
		memcpy(piece->out, bounce + piece->skip_bytes, piece->len_bytes);
	stet_free(bounce);
	return rc;
}
