/* check.c - checksums of structures that hold their own checksum.
 *
 * I1. Reading never writes: the field is left out of a copy of the first bytes, the rest is summed
 *     where it lies.
 */
#include "base/assert.h"
#include "base/crc.h"
#include "base/endian.h"
#include "format/format_internal.h"

#include <string.h>

#define HEAD_BYTES_MAX 256u

/* The CRC of what `crc` is of, followed by p: a state is carried over by adding it to the first 8
 * bytes of the next piece, which needs a copy of that piece. Pieces are at least 8 bytes long. */
static uint64_t extend(uint64_t crc, const uint8_t *p, size_t len_bytes)
{
	uint8_t piece[STET_BLOCK_SIZE];

	while (len_bytes > 0) {
		size_t n = len_bytes < sizeof(piece) ? len_bytes : sizeof(piece);

		STET_ASSERT_CMP(n, >=, sizeof(le64));
		memcpy(piece, p, n);
		stet_put_le64(piece, stet_get_le64(piece) ^ crc);
		crc = stet_crc64(piece, n);
		p += n;
		len_bytes -= n;
	}
	return crc;
}

uint64_t stet_format_check_(const uint8_t *buf, size_t len_bytes, size_t field_offset)
{
	uint8_t head[HEAD_BYTES_MAX];
	size_t head_bytes = field_offset + sizeof(le64);

	STET_ASSERT_CMP(head_bytes, <=, sizeof(head));
	STET_ASSERT_CMP(len_bytes, >=, STET_BLOCK_SIZE);
	memcpy(head, buf, field_offset);
	memset(head + field_offset, 0, sizeof(le64));
	return extend(stet_crc64(head, head_bytes), buf + head_bytes, len_bytes - head_bytes);
}
