/* image.c - a copy-on-write device in memory.
 *
 * I1. Chunk i holds the bytes from i * SIM_IMAGE_CHUNK_BYTES on; NULL: they are zero.
 * I2. A chunk's bytes change only while its one reference is that of the image whose lock is held.
 *     Only copying an image adds references to its chunks, under the same lock.
 * I3. Only one image's lock is held at a time.
 * I4. Chunks come from malloc, not from base/mem.h: allocation failures that a test injects into
 *     the library must not break the test's own equipment. The same holds for all of sim/.
 */
#include "sim/image.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/lock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES SIM_IMAGE_CHUNK_BYTES

struct chunk {
	_Atomic uint32_t refs; /* how many images have it */
	uint8_t bytes[];       /* CHUNK_BYTES of them */
};

struct image {
	struct stet_device dev;
	/* --- set at open, then constant --- */
	uint64_t chunk_count;
	/* --- the items: under lock --- */
	struct chunk **chunk; /* owned array; the chunks are shared */
	/* --- the lock --- */
	struct stet_mutex lock;
};

static struct image *image_of(struct stet_device *dev)
{
	return stet_container_of(dev, struct image, dev);
}

/// Chunks ///

static void put_chunk(struct chunk *chunk)
{
	if (chunk && atomic_fetch_sub(&chunk->refs, 1) == 1)
		free(chunk);
}

/* A chunk of one's own; its bytes are not set. NULL: no memory. */
static struct chunk *new_chunk(void)
{
	struct chunk *chunk = malloc(sizeof(*chunk) + CHUNK_BYTES);

	if (chunk)
		atomic_init(&chunk->refs, 1);
	return chunk;
}

/* I2: makes chunk no writable. The caller holds the lock. */
static int own_chunk_locked(struct image *image, uint64_t no)
{
	struct chunk *old = image->chunk[no];
	struct chunk *own;

	stet_assert_held(&image->lock);
	if (old && atomic_load(&old->refs) == 1)
		return 0;
	own = new_chunk();
	if (!own)
		return STET_FAIL(-ENOMEM, "%s: no memory for a chunk", image->dev.name);
	if (old)
		memcpy(own->bytes, old->bytes, CHUNK_BYTES);
	else
		memset(own->bytes, 0, CHUNK_BYTES);
	put_chunk(old);
	image->chunk[no] = own;
	return 0;
}

/* How much of the range lies in the chunk of its first byte. */
static size_t part_bytes(uint64_t off_bytes, uint64_t len_bytes)
{
	uint64_t room_bytes = CHUNK_BYTES - off_bytes % CHUNK_BYTES;

	return (size_t)(len_bytes < room_bytes ? len_bytes : room_bytes);
}

/// The device ///

static int image_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	struct image *image = image_of(dev);
	uint8_t *to = buf;

	stet_mutex_lock(&image->lock);
	while (len_bytes) {
		const struct chunk *chunk = image->chunk[off_bytes / CHUNK_BYTES];
		size_t n = part_bytes(off_bytes, len_bytes);

		if (chunk)
			memcpy(to, chunk->bytes + off_bytes % CHUNK_BYTES, n);
		else
			memset(to, 0, n);
		to += n;
		off_bytes += n;
		len_bytes -= n;
	}
	stet_mutex_unlock(&image->lock);
	return 0;
}

static int write_locked(struct image *image, uint64_t off_bytes, const uint8_t *from,
			size_t len_bytes)
{
	stet_assert_held(&image->lock);
	while (len_bytes) {
		uint64_t no = off_bytes / CHUNK_BYTES;
		size_t n = part_bytes(off_bytes, len_bytes);
		int rc = own_chunk_locked(image, no);

		if (rc)
			return rc;
		memcpy(image->chunk[no]->bytes + off_bytes % CHUNK_BYTES, from, n);
		from += n;
		off_bytes += n;
		len_bytes -= n;
	}
	return 0;
}

static int image_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
			int iov_count)
{
	struct image *image = image_of(dev);
	int rc = 0;

	stet_mutex_lock(&image->lock);
	for (int i = 0; i < iov_count && !rc; i++) {
		rc = write_locked(image, off_bytes, iov[i].iov_base, iov[i].iov_len);
		off_bytes += iov[i].iov_len;
	}
	stet_mutex_unlock(&image->lock);
	return rc;
}

static int image_flush(struct stet_device *dev)
{
	(void)dev;
	return 0;
}

/* Makes zeros, so that what a test sees does not depend on who shares a chunk. */
static int image_discard(struct stet_device *dev, uint64_t off_bytes, uint64_t len_bytes)
{
	struct image *image = image_of(dev);
	int rc = 0;

	stet_mutex_lock(&image->lock);
	while (len_bytes && !rc) {
		uint64_t no = off_bytes / CHUNK_BYTES;
		size_t n = part_bytes(off_bytes, len_bytes);

		if (n == CHUNK_BYTES) {
			put_chunk(image->chunk[no]);
			image->chunk[no] = NULL;
		} else if (image->chunk[no]) {
			rc = own_chunk_locked(image, no);
			if (!rc)
				memset(image->chunk[no]->bytes + off_bytes % CHUNK_BYTES, 0, n);
		}
		off_bytes += n;
		len_bytes -= n;
	}
	stet_mutex_unlock(&image->lock);
	return rc;
}

static void image_close(struct stet_device *dev)
{
	struct image *image = image_of(dev);

	for (uint64_t no = 0; no < image->chunk_count; no++)
		put_chunk(image->chunk[no]);
	free(image->chunk);
	stet_mutex_destroy(&image->lock);
	stet_device_release(dev);
	free(image);
}

static const struct stet_device_ops image_ops = {
	.read = image_read,
	.writev = image_writev,
	.flush = image_flush,
	.discard = image_discard,
	.close = image_close,
};

bool sim_image_is(const struct stet_device *dev)
{
	return dev->ops == &image_ops;
}

/// Making and comparing ///

int sim_image_create(uint64_t size_bytes, struct stet_device **ret)
{
	struct image *image = calloc(1, sizeof(*image));
	int rc;

	if (!image)
		return STET_FAIL(-ENOMEM, "image: no memory");
	image->chunk_count = size_bytes / CHUNK_BYTES + (size_bytes % CHUNK_BYTES != 0);
	image->chunk = calloc((size_t)image->chunk_count + 1, sizeof(struct chunk *));
	if (!image->chunk)
		rc = STET_FAIL(-ENOMEM, "image: no memory");
	else
		rc = stet_device_init(&image->dev, &image_ops, size_bytes, false, "image");
	if (rc) {
		free(image->chunk);
		free(image);
		return rc;
	}
	stet_mutex_init(&image->lock, STET_DEVICE_LOCK_RANK, "image");
	*ret = &image->dev;
	return 0;
}

/* to is new: nobody else knows it. */
static void share_chunks(struct image *to, struct image *from)
{
	stet_mutex_lock(&from->lock);
	for (uint64_t no = 0; no < from->chunk_count; no++) {
		to->chunk[no] = from->chunk[no];
		if (to->chunk[no])
			atomic_fetch_add(&to->chunk[no]->refs, 1);
	}
	stet_mutex_unlock(&from->lock);
}

static bool all_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* The bytes of dev in the given chunk; n of them inside the device. */
static size_t chunk_len(const struct stet_device *dev, uint64_t no)
{
	return part_bytes(no * CHUNK_BYTES, dev->size_bytes - no * CHUNK_BYTES);
}

/* to is new and as large as from. */
static int read_chunks(struct image *to, struct stet_device *from)
{
	uint8_t *buf = malloc(CHUNK_BYTES);
	int rc = 0;

	if (!buf)
		return STET_FAIL(-ENOMEM, "image: no memory");
	for (uint64_t no = 0; no < to->chunk_count && !rc; no++) {
		size_t n = chunk_len(from, no);

		rc = stet_device_read(from, no * CHUNK_BYTES, buf, n);
		if (!rc && !all_zero(buf, n))
			rc = stet_device_write(&to->dev, no * CHUNK_BYTES, buf, n);
	}
	free(buf);
	return rc;
}

int sim_image_copy(struct stet_device *dev, struct stet_device **ret)
{
	struct stet_device *copy;
	int rc = sim_image_create(dev->size_bytes, &copy);

	if (rc)
		return rc;
	if (sim_image_is(dev))
		share_chunks(image_of(copy), image_of(dev));
	else
		rc = read_chunks(image_of(copy), dev);
	if (rc) {
		stet_device_close(copy);
		return rc;
	}
	*ret = copy;
	return 0;
}

static const struct chunk *peek_chunk(struct stet_device *dev, uint64_t no)
{
	struct image *image = image_of(dev);
	const struct chunk *chunk;

	stet_mutex_lock(&image->lock);
	chunk = image->chunk[no];
	stet_mutex_unlock(&image->lock);
	return chunk;
}

static bool same_chunk(struct stet_device *a, struct stet_device *b, uint64_t no)
{
	return sim_image_is(a) && sim_image_is(b) && peek_chunk(a, no) == peek_chunk(b, no);
}

/* buf: two chunks. */
static int compare_chunk(struct stet_device *a, struct stet_device *b, uint64_t no, uint8_t *buf,
			 size_t *ret_same_bytes)
{
	size_t n = chunk_len(a, no);
	size_t i = 0;
	int rc = stet_device_read(a, no * CHUNK_BYTES, buf, n);

	if (!rc)
		rc = stet_device_read(b, no * CHUNK_BYTES, buf + CHUNK_BYTES, n);
	if (rc)
		return rc;
	if (!memcmp(buf, buf + CHUNK_BYTES, n))
		i = n;
	while (i < n && buf[i] == buf[CHUNK_BYTES + i])
		i++;
	*ret_same_bytes = i;
	return 0;
}

int sim_image_compare(struct stet_device *a, struct stet_device *b, uint64_t *ret_off_bytes)
{
	uint64_t off_bytes = 0;
	uint8_t *buf;
	int rc = 0;

	if (a->size_bytes != b->size_bytes)
		return STET_FAIL(-EINVAL, "compare: sizes differ");
	buf = malloc(2 * CHUNK_BYTES);
	if (!buf)
		return STET_FAIL(-ENOMEM, "compare: no memory");
	while (off_bytes < a->size_bytes) {
		uint64_t no = off_bytes / CHUNK_BYTES;
		size_t same_bytes = chunk_len(a, no);

		if (!same_chunk(a, b, no))
			rc = compare_chunk(a, b, no, buf, &same_bytes);
		if (rc)
			break;
		off_bytes += same_bytes;
		if (same_bytes < chunk_len(a, no))
			break;
	}
	free(buf);
	if (!rc)
		*ret_off_bytes = off_bytes;
	return rc;
}

void sim_image_chunks(struct stet_device *dev, uint64_t *ret_present, uint64_t *ret_own)
{
	struct image *image = image_of(dev);
	uint64_t present = 0;
	uint64_t own = 0;

	STET_ASSERT(sim_image_is(dev));
	stet_mutex_lock(&image->lock);
	for (uint64_t no = 0; no < image->chunk_count; no++) {
		present += image->chunk[no] != NULL;
		own += image->chunk[no] && atomic_load(&image->chunk[no]->refs) == 1;
	}
	stet_mutex_unlock(&image->lock);
	*ret_present = present;
	*ret_own = own;
}
