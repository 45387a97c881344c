/* endian.h - integers of a fixed byte order, as types of their own.
 *
 * An integer on disk is a struct of bytes: arithmetic on it does not compile, its alignment is 1,
 * so on-disk structs need no packed attribute. The compiler makes one load of each call.
 */
#ifndef STET_BASE_ENDIAN_H
#define STET_BASE_ENDIAN_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define STET_LE16_(v) (v)
#define STET_LE32_(v) (v)
#define STET_LE64_(v) (v)
#define STET_BE16_(v) __builtin_bswap16(v)
#define STET_BE32_(v) __builtin_bswap32(v)
#define STET_BE64_(v) __builtin_bswap64(v)
#else
#define STET_LE16_(v) __builtin_bswap16(v)
#define STET_LE32_(v) __builtin_bswap32(v)
#define STET_LE64_(v) __builtin_bswap64(v)
#define STET_BE16_(v) (v)
#define STET_BE32_(v) (v)
#define STET_BE64_(v) (v)
#endif

/** Little-endian 16-bit integer. */
typedef struct {
	uint8_t b[2];
} le16;

/** Reads 2 little-endian bytes; p need not be aligned. */
static inline uint16_t stet_get_le16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return STET_LE16_(v);
}

/** Writes 2 little-endian bytes; p need not be aligned. */
static inline void stet_put_le16(uint8_t *p, uint16_t v)
{
	v = STET_LE16_(v);
	memcpy(p, &v, sizeof(v));
}

/** The value of a le16. */
static inline uint16_t le16_get(le16 v)
{
	return stet_get_le16(v.b);
}

/** The le16 of a value. */
static inline le16 le16_make(uint16_t v)
{
	le16 r;

	stet_put_le16(r.b, v);
	return r;
}

/** Little-endian 32-bit integer. */
typedef struct {
	uint8_t b[4];
} le32;

/** Reads 4 little-endian bytes; p need not be aligned. */
static inline uint32_t stet_get_le32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return STET_LE32_(v);
}

/** Writes 4 little-endian bytes; p need not be aligned. */
static inline void stet_put_le32(uint8_t *p, uint32_t v)
{
	v = STET_LE32_(v);
	memcpy(p, &v, sizeof(v));
}

/** The value of a le32. */
static inline uint32_t le32_get(le32 v)
{
	return stet_get_le32(v.b);
}

/** The le32 of a value. */
static inline le32 le32_make(uint32_t v)
{
	le32 r;

	stet_put_le32(r.b, v);
	return r;
}

/** Little-endian 64-bit integer. */
typedef struct {
	uint8_t b[8];
} le64;

/** Reads 8 little-endian bytes; p need not be aligned. */
static inline uint64_t stet_get_le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return STET_LE64_(v);
}

/** Writes 8 little-endian bytes; p need not be aligned. */
static inline void stet_put_le64(uint8_t *p, uint64_t v)
{
	v = STET_LE64_(v);
	memcpy(p, &v, sizeof(v));
}

/** The value of a le64. */
static inline uint64_t le64_get(le64 v)
{
	return stet_get_le64(v.b);
}

/** The le64 of a value. */
static inline le64 le64_make(uint64_t v)
{
	le64 r;

	stet_put_le64(r.b, v);
	return r;
}

/** Big-endian 16-bit integer. */
typedef struct {
	uint8_t b[2];
} be16;

/** Reads 2 big-endian bytes; p need not be aligned. */
static inline uint16_t stet_get_be16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return STET_BE16_(v);
}

/** Writes 2 big-endian bytes; p need not be aligned. */
static inline void stet_put_be16(uint8_t *p, uint16_t v)
{
	v = STET_BE16_(v);
	memcpy(p, &v, sizeof(v));
}

/** The value of a be16. */
static inline uint16_t be16_get(be16 v)
{
	return stet_get_be16(v.b);
}

/** The be16 of a value. */
static inline be16 be16_make(uint16_t v)
{
	be16 r;

	stet_put_be16(r.b, v);
	return r;
}

/** Big-endian 32-bit integer. */
typedef struct {
	uint8_t b[4];
} be32;

/** Reads 4 big-endian bytes; p need not be aligned. */
static inline uint32_t stet_get_be32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return STET_BE32_(v);
}

/** Writes 4 big-endian bytes; p need not be aligned. */
static inline void stet_put_be32(uint8_t *p, uint32_t v)
{
	v = STET_BE32_(v);
	memcpy(p, &v, sizeof(v));
}

/** The value of a be32. */
static inline uint32_t be32_get(be32 v)
{
	return stet_get_be32(v.b);
}

/** The be32 of a value. */
static inline be32 be32_make(uint32_t v)
{
	be32 r;

	stet_put_be32(r.b, v);
	return r;
}

/** Big-endian 64-bit integer. */
typedef struct {
	uint8_t b[8];
} be64;

/** Reads 8 big-endian bytes; p need not be aligned. */
static inline uint64_t stet_get_be64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return STET_BE64_(v);
}

/** Writes 8 big-endian bytes; p need not be aligned. */
static inline void stet_put_be64(uint8_t *p, uint64_t v)
{
	v = STET_BE64_(v);
	memcpy(p, &v, sizeof(v));
}

/** The value of a be64. */
static inline uint64_t be64_get(be64 v)
{
	return stet_get_be64(v.b);
}

/** The be64 of a value. */
static inline be64 be64_make(uint64_t v)
{
	be64 r;

	stet_put_be64(r.b, v);
	return r;
}

#endif
