/* crc.c - checksums, computed by ISA-L (which picks the fastest code for the CPU).
 *
 * I1. crc32_iscsi inverts neither at start nor at end; we do both, as RFC 3720 has it.
 * I2. crc32_iscsi takes its length as int: longer buffers go in pieces.
 */
#include "base/crc.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>

#define MAX_PIECE_BYTES ((size_t)1 << 30)

uint32_t stet_crc32c_extend(uint32_t crc, const void *buf, size_t len_bytes)
{
	/* ISA-L's prototype lacks the const; it only reads. */
	unsigned char *p = (unsigned char *)(uintptr_t)buf;
	uint32_t raw = ~crc; /* I1 */

	while (len_bytes > 0) {
		size_t piece = len_bytes < MAX_PIECE_BYTES ? len_bytes : MAX_PIECE_BYTES;

		raw = crc32_iscsi(p, (int)piece, raw); /* I2 */
		p += piece;
		len_bytes -= piece;
	}
	return ~raw;
}

uint32_t stet_crc32c(const void *buf, size_t len_bytes)
{
	return stet_crc32c_extend(0, buf, len_bytes);
}

uint64_t stet_crc64(const void *buf, size_t len_bytes)
{
	if (len_bytes == 0)
		return 0;
	return crc64_ecma_refl(0, buf, len_bytes);
}
