/* memory.c - a device in memory, sparse.
 *
 * I1. Chunk i holds the bytes from i * CHUNK_BYTES on; no chunk: they are zero.
 * I2. Bytes of the last chunk that lie beyond the size are zero, so that growing shows zeros.
 * I3. A chunk's pointer and bytes are read and changed only under stripe[i % STRIPES]; at most one
 *     stripe is held at a time. So each chunk's part of a call is atomic, the whole call is not.
 */
#include "device/device.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"

#include <string.h>

#define CHUNK_BYTES ((uint64_t)1 << 20)
#define STRIPES 64

struct memory_device {
	struct stet_device dev;
	/* --- changed by resize only, which excludes all other calls --- */
	uint64_t chunk_count;
	/* --- the items: under their stripe --- */
	uint8_t **chunk; /* owned, as are the chunks; NULL: zeros */
	/* --- the locks --- */
	struct stet_mutex stripe[STRIPES];
};

static struct memory_device *memory_of(struct stet_device *dev)
{
	return stet_container_of(dev, struct memory_device, dev);
}

static uint64_t chunks_for(uint64_t size_bytes)
{
	return size_bytes / CHUNK_BYTES + (size_bytes % CHUNK_BYTES != 0);
}

/* How much of the range lies in the chunk of its first byte. */
static size_t part_bytes(uint64_t off_bytes, uint64_t len_bytes)
{
	uint64_t room_bytes = CHUNK_BYTES - off_bytes % CHUNK_BYTES;

	return (size_t)(len_bytes < room_bytes ? len_bytes : room_bytes);
}

static int memory_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	struct memory_device *mem = memory_of(dev);
	uint8_t *to = buf;

	while (len_bytes) {
		uint64_t no = off_bytes / CHUNK_BYTES;
		size_t n = part_bytes(off_bytes, len_bytes);

		stet_mutex_lock(&mem->stripe[no % STRIPES]);
		if (mem->chunk[no])
			memcpy(to, mem->chunk[no] + off_bytes % CHUNK_BYTES, n);
		else
			memset(to, 0, n);
		stet_mutex_unlock(&mem->stripe[no % STRIPES]);
		to += n;
		off_bytes += n;
		len_bytes -= n;
	}
	return 0;
}

/* Writes what lies in one chunk. */
static int write_part(struct memory_device *mem, uint64_t off_bytes, const uint8_t *from, size_t n)
{
	uint64_t no = off_bytes / CHUNK_BYTES;
	int rc = 0;

	stet_mutex_lock(&mem->stripe[no % STRIPES]);
	if (!mem->chunk[no])
		mem->chunk[no] = stet_calloc(1, CHUNK_BYTES);
	if (mem->chunk[no])
		memcpy(mem->chunk[no] + off_bytes % CHUNK_BYTES, from, n);
	else
		rc = STET_FAIL(-ENOMEM, "%s: no memory for a chunk", mem->dev.name);
	stet_mutex_unlock(&mem->stripe[no % STRIPES]);
	return rc;
}

static int memory_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
			 int iov_count)
{
	for (int i = 0; i < iov_count; i++) {
		const uint8_t *from = iov[i].iov_base;
		size_t left_bytes = iov[i].iov_len;

		while (left_bytes) {
			size_t n = part_bytes(off_bytes, left_bytes);
			int rc = write_part(memory_of(dev), off_bytes, from, n);

			if (rc)
				return rc;
			from += n;
			off_bytes += n;
			left_bytes -= n;
		}
	}
	return 0;
}

static int memory_flush(struct stet_device *dev)
{
	(void)dev;
	return 0;
}

/* A whole chunk is given back, a part of one becomes zeros. */
static void clear_range(struct memory_device *mem, uint64_t off_bytes, uint64_t len_bytes)
{
	while (len_bytes) {
		uint64_t no = off_bytes / CHUNK_BYTES;
		size_t n = part_bytes(off_bytes, len_bytes);

		stet_mutex_lock(&mem->stripe[no % STRIPES]);
		if (n == CHUNK_BYTES) {
			stet_free(mem->chunk[no]);
			mem->chunk[no] = NULL;
		} else if (mem->chunk[no]) {
			memset(mem->chunk[no] + off_bytes % CHUNK_BYTES, 0, n);
		}
		stet_mutex_unlock(&mem->stripe[no % STRIPES]);
		off_bytes += n;
		len_bytes -= n;
	}
}

static int memory_discard(struct stet_device *dev, uint64_t off_bytes, uint64_t len_bytes)
{
	clear_range(memory_of(dev), off_bytes, len_bytes);
	return 0;
}

static int memory_resize(struct stet_device *dev, uint64_t size_bytes)
{
	struct memory_device *mem = memory_of(dev);
	uint64_t count = chunks_for(size_bytes);
	uint8_t **chunk = stet_calloc((size_t)count, sizeof(*chunk));

	if (!chunk)
		return STET_FAIL(-ENOMEM, "%s: no memory to resize", dev->name);
	if (size_bytes < dev->size_bytes)
		clear_range(mem, size_bytes, dev->size_bytes - size_bytes); /* I2 */
	for (uint64_t no = 0; no < mem->chunk_count; no++) {
		if (no < count)
			chunk[no] = mem->chunk[no];
		else
			stet_free(mem->chunk[no]);
	}
	stet_free(mem->chunk);
	mem->chunk = chunk;
	mem->chunk_count = count;
	dev->size_bytes = size_bytes;
	return 0;
}

static void memory_close(struct stet_device *dev)
{
	struct memory_device *mem = memory_of(dev);

	for (uint64_t no = 0; no < mem->chunk_count; no++)
		stet_free(mem->chunk[no]);
	stet_free(mem->chunk);
	for (int i = 0; i < STRIPES; i++)
		stet_mutex_destroy(&mem->stripe[i]);
	stet_device_release(dev);
	stet_free(mem);
}

static const struct stet_device_ops memory_ops = {
	.read = memory_read,
	.writev = memory_writev,
	.flush = memory_flush,
	.discard = memory_discard,
	.resize = memory_resize,
	.close = memory_close,
};

int stet_device_open_memory(uint64_t size_bytes, struct stet_device **ret)
{
	struct memory_device *mem = stet_calloc(1, sizeof(*mem));
	int rc;

	if (!mem)
		return STET_FAIL(-ENOMEM, "memory device: no memory");
	mem->chunk_count = chunks_for(size_bytes);
	mem->chunk = stet_calloc((size_t)mem->chunk_count, sizeof(*mem->chunk));
	if (!mem->chunk)
		rc = STET_FAIL(-ENOMEM, "memory device: no memory");
	else
		rc = stet_device_init(&mem->dev, &memory_ops, size_bytes, false, "memory");
	if (rc) {
		stet_free(mem->chunk);
		stet_free(mem);
		return rc;
	}
	for (int i = 0; i < STRIPES; i++)
		stet_mutex_init(&mem->stripe[i], STET_DEVICE_LOCK_RANK, "memory device");
	*ret = &mem->dev;
	return 0;
}
