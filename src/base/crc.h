/* crc.h - checksums. */
#ifndef STET_BASE_CRC_H
#define STET_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/** CRC32C (Castagnoli) as in RFC 3720: stet_crc32c("123456789", 9) is 0xe3069283; of nothing, 0. */
uint32_t stet_crc32c(const void *buf, size_t len_bytes);

/**
 * CRC32C of a and then buf, where crc is that of a:
 * stet_crc32c_extend(stet_crc32c(a, n), b, m) is the checksum of a and b in one piece.
 */
uint32_t stet_crc32c_extend(uint32_t crc, const void *buf, size_t len_bytes);

/** CRC-64/XZ (ECMA-182 reflected): stet_crc64("123456789", 9) is 0x995dc9bbdf1939fa. */
uint64_t stet_crc64(const void *buf, size_t len_bytes);

#endif
