/* device.c - the door to every kind of device: checks the range, refuses changes to read-only
 * ones, counts.
 *
 * I1. An implementation is called only with ranges that are not empty and lie inside the device.
 * I2. An implementation is never asked to change a read-only device.
 */
#include "device/device.h"

#include "base/assert.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

int stet_device_init(struct stet_device *dev, const struct stet_device_ops *ops,
		     uint64_t size_bytes, bool read_only, const char *name)
{
	char *copy = stet_strdup(name);

	if (!copy)
		return STET_FAIL(-ENOMEM, "%s: no memory", name);
	memset(dev, 0, sizeof(*dev));
	dev->ops = ops;
	dev->size_bytes = size_bytes;
	dev->read_only = read_only;
	dev->name = copy;
	return 0;
}

void stet_device_release(struct stet_device *dev)
{
	stet_free(dev->name);
	dev->name = NULL;
}

void stet_device_close(struct stet_device *dev)
{
	if (dev)
		dev->ops->close(dev);
}

/* Without overflow, whatever the caller took the numbers from. */
static bool inside(const struct stet_device *dev, uint64_t off_bytes, uint64_t len_bytes)
{
	return off_bytes <= dev->size_bytes && len_bytes <= dev->size_bytes - off_bytes;
}

static int check_range(const struct stet_device *dev, const char *what, uint64_t off_bytes,
		       uint64_t len_bytes)
{
	if (inside(dev, off_bytes, len_bytes))
		return 0;
	return STET_FAIL(-EIO,
			 "%s: %s of %" PRIu64 " bytes at %" PRIu64 " is outside (size %" PRIu64 ")",
			 dev->name, what, len_bytes, off_bytes, dev->size_bytes);
}

static int check_writable(const struct stet_device *dev, const char *what)
{
	if (!dev->read_only)
		return 0;
	return STET_FAIL(-EROFS, "%s: %s: opened read-only", dev->name, what);
}

int stet_device_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	int rc;

	stet_counter_add(&dev->reads, 1);
	rc = check_range(dev, "read", off_bytes, len_bytes);
	if (rc || !len_bytes)
		return rc;
	rc = dev->ops->read(dev, off_bytes, buf, len_bytes);
	if (!rc)
		stet_counter_add(&dev->read_bytes, len_bytes);
	return rc;
}

/* The sum of the lengths; -EINVAL when it does not fit. */
static int sum_iov(const struct stet_device *dev, const struct iovec *iov, int iov_count,
		   uint64_t *ret_bytes)
{
	uint64_t sum_bytes = 0;

	for (int i = 0; i < iov_count; i++) {
		if (iov[i].iov_len > UINT64_MAX - sum_bytes)
			return STET_FAIL(-EINVAL, "%s: write too long", dev->name);
		sum_bytes += iov[i].iov_len;
	}
	*ret_bytes = sum_bytes;
	return 0;
}

int stet_device_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
		       int iov_count)
{
	uint64_t len_bytes = 0;
	int rc;

	STET_ASSERT_CMP(iov_count, >=, 0);
	stet_counter_add(&dev->writes, 1);
	rc = check_writable(dev, "write");
	if (!rc)
		rc = sum_iov(dev, iov, iov_count, &len_bytes);
	if (!rc)
		rc = check_range(dev, "write", off_bytes, len_bytes);
	if (rc || !len_bytes)
		return rc;
	rc = dev->ops->writev(dev, off_bytes, iov, iov_count);
	if (!rc)
		stet_counter_add(&dev->write_bytes, len_bytes);
	return rc;
}

int stet_device_write(struct stet_device *dev, uint64_t off_bytes, const void *buf,
		      size_t len_bytes)
{
	/* iovec has no const; writev only reads through it. */
	const struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len_bytes };

	return stet_device_writev(dev, off_bytes, &iov, 1);
}

int stet_device_flush(struct stet_device *dev)
{
	stet_counter_add(&dev->flushes, 1);
	if (dev->read_only)
		return 0;
	return dev->ops->flush(dev);
}

int stet_device_discard(struct stet_device *dev, uint64_t off_bytes, uint64_t len_bytes)
{
	int rc;

	stet_counter_add(&dev->discards, 1);
	rc = check_writable(dev, "discard");
	if (!rc)
		rc = check_range(dev, "discard", off_bytes, len_bytes);
	if (rc || !len_bytes || !dev->ops->discard)
		return rc;
	rc = dev->ops->discard(dev, off_bytes, len_bytes);
	if (!rc)
		stet_counter_add(&dev->discard_bytes, len_bytes);
	return rc;
}

int stet_device_resize(struct stet_device *dev, uint64_t size_bytes)
{
	int rc = check_writable(dev, "resize");

	if (rc)
		return rc;
	if (!dev->ops->resize)
		return STET_FAIL(-EOPNOTSUPP, "%s: its size cannot be changed", dev->name);
	rc = dev->ops->resize(dev, size_bytes);
	if (!rc)
		STET_ASSERT_CMP(dev->size_bytes, ==, size_bytes);
	return rc;
}

void stet_device_stats(const struct stet_device *dev, struct stet_device_stats *ret)
{
	ret->reads = stet_counter_get(&dev->reads);
	ret->read_bytes = stet_counter_get(&dev->read_bytes);
	ret->writes = stet_counter_get(&dev->writes);
	ret->write_bytes = stet_counter_get(&dev->write_bytes);
	ret->flushes = stet_counter_get(&dev->flushes);
	ret->discards = stet_counter_get(&dev->discards);
	ret->discard_bytes = stet_counter_get(&dev->discard_bytes);
}
