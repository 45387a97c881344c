/* buf.h - a byte buffer that grows.
 *
 * I1. len <= cap; p is NULL exactly when cap is 0. All zero is a valid empty buffer.
 * I2. A call that fails with -ENOMEM leaves the buffer as it was.
 */
#ifndef STET_BASE_BUF_H
#define STET_BASE_BUF_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct stet_buf {
	uint8_t *p; /* owned */
	size_t len;
	size_t cap;
};

/** Makes an empty buffer; allocates nothing. */
void stet_buf_init(struct stet_buf *buf);

/** Frees the memory; the buffer is empty again and may be used on. NULL is accepted. */
void stet_buf_release(struct stet_buf *buf);

/** Sets the length to 0 and keeps the memory. */
void stet_buf_clear(struct stet_buf *buf);

/** Makes room for extra_bytes more after len. 0 or -ENOMEM. */
STET_CHECKED int stet_buf_reserve(struct stet_buf *buf, size_t extra_bytes);

/** Appends n bytes; p may be NULL when n is 0, and must not point into the buffer. 0 or -ENOMEM. */
STET_CHECKED int stet_buf_append(struct stet_buf *buf, const void *p, size_t n);

/** Appends n zero bytes. 0 or -ENOMEM. */
STET_CHECKED int stet_buf_append_zero(struct stet_buf *buf, size_t n);

/** Append one integer in the named byte order. 0 or -ENOMEM. */
STET_CHECKED int stet_buf_append_u8(struct stet_buf *buf, uint8_t v);
STET_CHECKED int stet_buf_append_le16(struct stet_buf *buf, uint16_t v);
STET_CHECKED int stet_buf_append_le32(struct stet_buf *buf, uint32_t v);
STET_CHECKED int stet_buf_append_le64(struct stet_buf *buf, uint64_t v);
STET_CHECKED int stet_buf_append_be16(struct stet_buf *buf, uint16_t v);
STET_CHECKED int stet_buf_append_be32(struct stet_buf *buf, uint32_t v);
STET_CHECKED int stet_buf_append_be64(struct stet_buf *buf, uint64_t v);

/**
 * Hands the memory over: the caller owns the result (stet_free; NULL when nothing was ever
 * reserved) and the buffer is empty. ret_len may be NULL.
 */
uint8_t *stet_buf_detach(struct stet_buf *buf, size_t *ret_len);

#endif
