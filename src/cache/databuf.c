/* databuf.c - refcounted buffers of file data.
 *
 *   with data, dirty --placed, durable: clean--> with data, on the clock --evicted--> without data
 *
 * D1. A buffer is on the clock exactly when it was declared clean and still has its data.
 * D2. The data of a frozen buffer is never given back.
 * D3. The small part (struct, addresses, crcs) is one allocation and is charged as long as the
 *     buffer lives; the data is charged as long as it is there.
 * What a placed address means to the segment table is its owner's affair: the last put frees memory
 * only.
 */
#include "cache/cache_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

static size_t data_bytes(const struct stet_databuf *buf)
{
	return (size_t)buf->block_count * STET_BLOCK_SIZE;
}

static size_t small_bytes(uint16_t block_count, bool two_copies)
{
	size_t per_block = sizeof(struct stet_addr) * (two_copies ? 2 : 1) + sizeof(uint32_t);

	return sizeof(struct stet_databuf) + block_count * per_block;
}

/* Large ones are mapped: as they come and go between small things that stay, the heap would grow to several
 * times their size. Small ones would waste a system call each. */
#define MAPPED_BYTES ((size_t)64 << 10)

static void *alloc_data(size_t bytes)
{
	void *data;

	if (bytes >= MAPPED_BYTES)
		return stet_alloc_pages(bytes);
	data = stet_alloc_aligned(STET_BLOCK_SIZE, bytes);
	return data ? memset(data, 0, bytes) : NULL;
}

static void release_data(void *data, size_t bytes)
{
	if (bytes >= MAPPED_BYTES)
		stet_free_pages(data, bytes);
	else
		stet_free(data);
}

/* A buffer without data and addresses, not yet charged. */
static struct stet_databuf *make(struct stet_cache *cache, uint16_t block_count, bool two_copies)
{
	struct stet_databuf *buf;

	STET_ASSERT_CMP(block_count, >, 0);
	STET_ASSERT_CMP(block_count, <=, STET_EXTENT_BLOCKS_MAX);
	buf = stet_calloc(1, small_bytes(block_count, two_copies));
	if (!buf)
		return NULL;
	buf->cache = cache;
	buf->refs = 1;
	buf->block_count = block_count;
	buf->addr = (struct stet_addr *)(buf + 1);
	if (two_copies)
		buf->addr2 = buf->addr + block_count;
	buf->crc = (uint32_t *)(buf->addr + (size_t)block_count * (two_copies ? 2 : 1));
	buf->lru.kind = STET_CACHE_BUFFER_;
	stet_list_init(&buf->lru.list);
	return buf;
}

int stet_databuf_create(struct stet_cache *cache, uint16_t block_count, struct stet_databuf **ret)
{
	bool two_copies = cache->data_copies > 1;
	size_t small = small_bytes(block_count, two_copies);
	struct stet_databuf *buf;

	stet_cache_need_room_(cache, small + (size_t)block_count * STET_BLOCK_SIZE);
	buf = make(cache, block_count, two_copies);
	if (!buf)
		return STET_FAIL(-ENOMEM, "cache: no memory for a buffer");
	buf->data = alloc_data(data_bytes(buf));
	if (!buf->data) {
		stet_free(buf);
		return STET_FAIL(-ENOMEM, "cache: no memory for a buffer");
	}
	cache->usage.buffer_bytes += small + data_bytes(buf);
	*ret = buf;
	return 0;
}

int stet_databuf_stub(struct stet_cache *cache, struct stet_addr addr, struct stet_addr addr2,
		      uint16_t block_count, const uint8_t *crcs, struct stet_databuf **ret)
{
	bool two_copies = !stet_addr_is_none(addr2);
	size_t small = small_bytes(block_count, two_copies);
	struct stet_databuf *buf;

	STET_ASSERT(!stet_addr_is_none(addr));
	stet_cache_need_room_(cache, small);
	buf = make(cache, block_count, two_copies);
	if (!buf)
		return STET_FAIL(-ENOMEM, "cache: no memory for a buffer");
	for (uint16_t i = 0; i < block_count; i++) {
		buf->addr[i] = stet_addr_add(addr, i);
		if (two_copies)
			buf->addr2[i] = stet_addr_add(addr2, i);
		buf->crc[i] = stet_get_le32(crcs + (size_t)i * 4);
	}
	buf->rooted = UINT64_MAX; /* the blocks are somebody else's */
	cache->usage.buffer_bytes += small;
	*ret = buf;
	return 0;
}

struct stet_databuf *stet_databuf_get(struct stet_databuf *buf)
{
	STET_ASSERT_CMP(buf->refs, >, 0);
	buf->refs++;
	buf->lru.referenced = true;
	return buf;
}

/* Frees the data and uncounts it. */
static void free_data(struct stet_databuf *buf)
{
	STET_ASSERT_CMP(buf->frozen, ==, 0); /* D2 */
	STET_ASSERT_CMP(buf->cache->usage.buffer_bytes, >=, data_bytes(buf));
	stet_cache_clock_del_(buf->cache, &buf->lru);
	release_data(buf->data, data_bytes(buf));
	buf->data = NULL;
	buf->cache->usage.buffer_bytes -= data_bytes(buf);
}

void stet_databuf_give_back_(struct stet_databuf *buf)
{
	STET_ASSERT(buf->data && stet_databuf_placed(buf, 0, buf->block_count));
	free_data(buf);
}

void stet_databuf_put(struct stet_databuf *buf)
{
	size_t small;

	if (!buf)
		return;
	STET_ASSERT_CMP(buf->refs, >, 0);
	if (--buf->refs > 0)
		return;
	if (buf->data)
		free_data(buf);
	small = small_bytes(buf->block_count, buf->addr2 != NULL);
	STET_ASSERT_CMP(buf->cache->usage.buffer_bytes, >=, small);
	buf->cache->usage.buffer_bytes -= small;
	stet_free(buf);
}

void stet_databuf_clean(struct stet_databuf *buf)
{
	STET_ASSERT(stet_databuf_placed(buf, 0, buf->block_count));
	if (buf->data && !stet_list_linked(&buf->lru.list))
		stet_cache_clock_add_(buf->cache, &buf->lru); /* D1 */
}

bool stet_databuf_placed(const struct stet_databuf *buf, uint16_t from, uint16_t count)
{
	STET_ASSERT_CMP((uint32_t)from + count, <=, buf->block_count);
	for (uint16_t i = from; i < from + count; i++) {
		if (stet_addr_is_none(buf->addr[i]))
			return false;
	}
	return true;
}
