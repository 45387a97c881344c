/* buf.c - a byte buffer that grows by half, so that appending costs O(1) on average.
 *
 * The invariants are in buf.h.
 */
#include "base/buf.h"

#include "base/assert.h"
#include "base/endian.h"
#include "base/mem.h"

#include <string.h>

#define MIN_CAP_BYTES 64

void stet_buf_init(struct stet_buf *buf)
{
	*buf = (struct stet_buf){ 0 };
}

void stet_buf_release(struct stet_buf *buf)
{
	if (!buf)
		return;
	stet_free(buf->p);
	stet_buf_init(buf);
}

void stet_buf_clear(struct stet_buf *buf)
{
	buf->len = 0;
}

int stet_buf_reserve(struct stet_buf *buf, size_t extra_bytes)
{
	size_t need;
	size_t cap;
	uint8_t *p;

	STET_ASSERT_CMP(buf->len, <=, buf->cap);
	if (extra_bytes <= buf->cap - buf->len)
		return 0;
	if (__builtin_add_overflow(buf->len, extra_bytes, &need))
		return -ENOMEM;
	cap = buf->cap + buf->cap / 2;
	if (cap < need)
		cap = need;
	if (cap < MIN_CAP_BYTES)
		cap = MIN_CAP_BYTES;
	p = stet_realloc(buf->p, cap);
	if (!p)
		return -ENOMEM;
	buf->p = p;
	buf->cap = cap;
	return 0;
}

int stet_buf_append(struct stet_buf *buf, const void *p, size_t n)
{
	int rc;

	if (n == 0)
		return 0;
	rc = stet_buf_reserve(buf, n);
	if (rc)
		return rc;
	memcpy(buf->p + buf->len, p, n);
	buf->len += n;
	return 0;
}

int stet_buf_append_zero(struct stet_buf *buf, size_t n)
{
	int rc;

	if (n == 0)
		return 0;
	rc = stet_buf_reserve(buf, n);
	if (rc)
		return rc;
	memset(buf->p + buf->len, 0, n);
	buf->len += n;
	return 0;
}

int stet_buf_append_u8(struct stet_buf *buf, uint8_t v)
{
	return stet_buf_append(buf, &v, sizeof(v));
}

int stet_buf_append_le16(struct stet_buf *buf, uint16_t v)
{
	return stet_buf_append(buf, le16_make(v).b, sizeof(v));
}

int stet_buf_append_le32(struct stet_buf *buf, uint32_t v)
{
	return stet_buf_append(buf, le32_make(v).b, sizeof(v));
}

int stet_buf_append_le64(struct stet_buf *buf, uint64_t v)
{
	return stet_buf_append(buf, le64_make(v).b, sizeof(v));
}

int stet_buf_append_be16(struct stet_buf *buf, uint16_t v)
{
	return stet_buf_append(buf, be16_make(v).b, sizeof(v));
}

int stet_buf_append_be32(struct stet_buf *buf, uint32_t v)
{
	return stet_buf_append(buf, be32_make(v).b, sizeof(v));
}

int stet_buf_append_be64(struct stet_buf *buf, uint64_t v)
{
	return stet_buf_append(buf, be64_make(v).b, sizeof(v));
}

uint8_t *stet_buf_detach(struct stet_buf *buf, size_t *ret_len)
{
	uint8_t *p = buf->p;

	if (ret_len)
		*ret_len = buf->len;
	stet_buf_init(buf);
	return p;
}
