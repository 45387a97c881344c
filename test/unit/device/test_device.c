/* test_device.c - the door: ranges, read-only devices, counters, many buffers. */
#include "device/device.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SIZE_BYTES 65536

static int open_it(void **state)
{
	struct stet_device *dev;

	assert_int_equal(stet_device_open_memory(SIZE_BYTES, &dev), 0);
	*state = dev;
	return 0;
}

static int close_it(void **state)
{
	stet_device_close(*state);
	return 0;
}

static void ranges_are_checked(void **state)
{
	struct stet_device *dev = *state;
	uint8_t buf[16] = { 0 };

	assert_int_equal(stet_device_read(dev, SIZE_BYTES - 16, buf, 16), 0);
	assert_int_equal(stet_device_write(dev, SIZE_BYTES - 16, buf, 16), 0);
	assert_int_equal(stet_device_read(dev, SIZE_BYTES - 15, buf, 16), -EIO);
	assert_int_equal(stet_device_write(dev, SIZE_BYTES - 15, buf, 16), -EIO);
	assert_int_equal(stet_device_read(dev, UINT64_MAX - 3, buf, 16), -EIO);
	assert_int_equal(stet_device_write(dev, UINT64_MAX - 3, buf, 16), -EIO);
	assert_int_equal(stet_device_discard(dev, 4096, UINT64_MAX), -EIO);
	assert_non_null(strstr(stet_error_text(), "outside"));
	assert_int_equal(stet_device_read(dev, SIZE_BYTES, buf, 0), 0);
	assert_int_equal(stet_device_write(dev, SIZE_BYTES, buf, 0), 0);
	assert_int_equal(stet_device_read(dev, SIZE_BYTES + 1, buf, 0), -EIO);
}

static void lengths_that_overflow_are_refused(void **state)
{
	uint8_t byte = 0;
	const struct iovec iov[3] = {
		{ .iov_base = &byte, .iov_len = SIZE_MAX },
		{ .iov_base = &byte, .iov_len = 2 },
		{ .iov_base = &byte, .iov_len = 1 },
	};

	assert_int_equal(stet_device_writev(*state, 0, iov, 3), -EINVAL);
}

static void calls_and_bytes_are_counted(void **state)
{
	struct stet_device *dev = *state;
	struct stet_device_stats stats;
	uint8_t buf[100] = { 0 };

	assert_int_equal(stet_device_write(dev, 0, buf, 100), 0);
	assert_int_equal(stet_device_write(dev, SIZE_BYTES, buf, 100), -EIO);
	assert_int_equal(stet_device_read(dev, 0, buf, 50), 0);
	assert_int_equal(stet_device_read(dev, 50, buf, 25), 0);
	assert_int_equal(stet_device_read(dev, SIZE_BYTES, buf, 1), -EIO);
	assert_int_equal(stet_device_flush(dev), 0);
	assert_int_equal(stet_device_discard(dev, 0, 1000), 0);
	stet_device_stats(dev, &stats);
	assert_int_equal(stats.writes, 2);
	assert_int_equal(stats.write_bytes, 100);
	assert_int_equal(stats.reads, 3);
	assert_int_equal(stats.read_bytes, 75);
	assert_int_equal(stats.flushes, 1);
	assert_int_equal(stats.discards, 1);
	assert_int_equal(stats.discard_bytes, 1000);
}

/* A kind of device that can nothing but what it must; it must not be called here. */
static int never_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	(void)dev;
	(void)off_bytes;
	(void)buf;
	(void)len_bytes;
	fail();
	return 0;
}

static int never_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
			int iov_count)
{
	(void)dev;
	(void)off_bytes;
	(void)iov;
	(void)iov_count;
	fail();
	return 0;
}

static int never_flush(struct stet_device *dev)
{
	(void)dev;
	fail();
	return 0;
}

static void release_only(struct stet_device *dev)
{
	stet_device_release(dev);
}

static const struct stet_device_ops minimal_ops = {
	.read = never_read,
	.writev = never_writev,
	.flush = never_flush,
	.close = release_only,
};

static void read_only_is_never_changed(void **state)
{
	struct stet_device dev;
	uint8_t buf[16] = { 0 };

	(void)state;
	assert_int_equal(stet_device_init(&dev, &minimal_ops, 4096, true, "frozen"), 0);
	assert_int_equal(stet_device_write(&dev, 0, buf, 16), -EROFS);
	assert_int_equal(stet_device_discard(&dev, 0, 16), -EROFS);
	assert_int_equal(stet_device_resize(&dev, 16), -EROFS);
	assert_int_equal(stet_device_flush(&dev), 0);
	assert_string_equal(dev.name, "frozen");
	stet_device_close(&dev);
}

static void optional_operations_may_be_missing(void **state)
{
	struct stet_device dev;
	uint8_t buf[1];

	(void)state;
	assert_int_equal(stet_device_init(&dev, &minimal_ops, 4096, false, "minimal"), 0);
	assert_int_equal(stet_device_discard(&dev, 0, 4096), 0);
	assert_int_equal(stet_device_resize(&dev, 8192), -EOPNOTSUPP);
	assert_int_equal(stet_device_read(&dev, 0, buf, 0), 0);
	assert_int_equal(stet_device_write(&dev, 0, buf, 0), 0);
	assert_int_equal(stet_device_writev(&dev, 0, NULL, 0), 0);
	stet_device_close(&dev);
	stet_device_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ranges_are_checked, open_it, close_it),
		cmocka_unit_test_setup_teardown(lengths_that_overflow_are_refused, open_it,
						close_it),
		cmocka_unit_test_setup_teardown(calls_and_bytes_are_counted, open_it, close_it),
		cmocka_unit_test(read_only_is_never_changed),
		cmocka_unit_test(optional_operations_may_be_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
