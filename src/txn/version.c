/* version.c - values with a serial: made, freed, read.
 *
 * V1. A version never changes once somebody else can see it; what follows is a new version.
 * V2. A BUF version holds one reference to its buffer. The buffer owns the places of its blocks until a
 *     root names them (bit `rooted`): when its last reference goes, what it still owns is given back.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

int stet_version_bytes_(enum stet_vkind kind, const void *bytes, size_t len, uint8_t room,
			struct stet_version **ret)
{
	struct stet_version *v = stet_alloc(sizeof(*v) + len + room);

	if (!v)
		return STET_FAIL(-ENOMEM, "no memory for a value of %zu bytes", len);
	memset(v, 0, sizeof(*v));
	v->kind = kind;
	v->bytes = (uint16_t)len;
	v->room = room;
	if (len > 0)
		memcpy(v->b, bytes, len);
	*ret = v;
	return 0;
}

int stet_version_buf_(struct stet_databuf *buf, uint16_t from, uint16_t count, uint64_t birth,
		      struct stet_version **ret)
{
	struct stet_version *v = stet_calloc(1, sizeof(*v));

	if (!v)
		return STET_FAIL(-ENOMEM, "no memory for an extent");
	STET_ASSERT_CMP((uint32_t)from + count, <=, buf->block_count);
	v->kind = STET_V_BUF;
	v->buf = stet_databuf_get(buf);
	v->from = from;
	v->count = count;
	v->birth = birth;
	*ret = v;
	return 0;
}

void stet_version_free_(struct stet_version *v)
{
	if (!v)
		return;
	STET_ASSERT(!v->buf);
	stet_free(v->patch);
	stet_free(v);
}

bool stet_version_is_final_(const struct stet_version *v)
{
	return v->kind != STET_V_INTENT && v->kind != STET_V_SAME;
}

size_t stet_version_memory_(const struct stet_version *v)
{
	size_t bytes = sizeof(*v) + v->bytes + v->room + 16;

	return v->patch ? bytes + sizeof(*v->patch) : bytes;
}

void stet_version_val_(const struct stet_version *v, struct stet_val *ret)
{
	ret->serial = v->serial;
	if (v->kind == STET_V_BUF) {
		ret->bytes = 0;
		ret->buf = v->buf;
		ret->buf_from = v->from;
		ret->buf_count = v->count;
		ret->birth = v->birth ? v->birth : v->serial;
		return;
	}
	ret->buf = NULL;
	ret->bytes = v->bytes;
	memcpy(ret->b, v->b, v->bytes);
}

static size_t encode_buf(const struct stet_databuf *buf, uint16_t from, uint16_t count,
			 uint64_t birth, uint8_t *out)
{
	uint8_t crcs[4 * STET_EXTENT_BLOCKS_MAX];
	struct stet_extent e = {
		.addr = buf->addr[from],
		.addr2 = buf->addr2 ? buf->addr2[from] : STET_ADDR_NONE,
		.birth = birth,
		.block_count = count,
		.phys_blocks = count,
		.crcs = crcs,
	};

	for (uint32_t i = 0; i < count; i++) {
		STET_ASSERT_CMP(buf->addr[from + i].v, ==, e.addr.v + i);
		stet_put_le32(crcs + (size_t)4 * i, buf->crc[from + i]);
	}
	return stet_extent_encode(&e, out);
}

size_t stet_version_encode_(const struct stet_version *v, uint8_t *out)
{
	return encode_buf(v->buf, v->from, v->count, v->birth ? v->birth : v->serial, out);
}

size_t stet_val_encode_(const struct stet_val *val, uint8_t *out)
{
	return encode_buf(val->buf, val->buf_from, val->buf_count, val->birth, out);
}

/* Gives back the places of a buffer that is about to go and that no root names (V2). */
static void drop_places(struct stet_engine *engine, struct stet_databuf *buf, uint64_t cut)
{
	for (uint32_t i = 0; i < buf->block_count; i++) {
		if (stet_addr_is_none(buf->addr[i]) || buf->rooted >> i & 1)
			continue;
		stet_ignore(stet_space_drop(engine->space, buf->addr[i], 1, 0, cut),
			    "without memory the block stays held until the next open");
	}
}

void stet_buf_put_at_(struct stet_engine *engine, struct stet_databuf *buf, uint64_t cut)
{
	if (buf->refs == 1)
		drop_places(engine, buf, cut);
	stet_databuf_put(buf);
}

void stet_buf_put_(struct stet_engine *engine, struct stet_databuf *buf)
{
	stet_buf_put_at_(engine, buf, engine->serial);
}
