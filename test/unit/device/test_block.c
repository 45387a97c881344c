/* test_block.c - the device on a block device, a loop device over a file. Skipped (77) where there
 * is none to be had: it takes root and a kernel with loop devices. */
#include "device/device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE_BYTES ((uint64_t)4 << 20)
#define SKIP 77
#define LOOP_TRIES 8

/* Set by main before the tests run. */
static char loop_path[64];

static struct stet_device *open_ok(unsigned int flags)
{
	struct stet_device *dev = NULL;
	int rc = stet_device_open_file(loop_path, flags, 0, &dev);

	if (rc)
		fail_msg("open: %d, %s", rc, stet_error_text());
	return dev;
}

static void bytes_are_read_back(void **state)
{
	struct stet_device *dev = open_ok(0);
	uint8_t buf[6];

	(void)state;
	assert_int_equal(dev->size_bytes, SIZE_BYTES);
	assert_int_equal(stet_device_write(dev, SIZE_BYTES - 6, "hello", 6), 0);
	assert_int_equal(stet_device_flush(dev), 0);
	stet_device_close(dev);
	dev = open_ok(STET_DEVICE_READ_ONLY);
	assert_int_equal(stet_device_read(dev, SIZE_BYTES - 6, buf, 6), 0);
	assert_string_equal((char *)buf, "hello");
	assert_int_equal(stet_device_read(dev, SIZE_BYTES - 5, buf, 6), -EIO);
	stet_device_close(dev);
}

static void a_writer_excludes_all(void **state)
{
	struct stet_device *dev = open_ok(0);
	struct stet_device *other = NULL;

	(void)state;
	assert_int_equal(stet_device_open_file(loop_path, 0, 0, &other), -EBUSY);
	assert_int_equal(stet_device_open_file(loop_path, STET_DEVICE_READ_ONLY, 0, &other),
			 -EBUSY);
	stet_device_close(dev);
	dev = open_ok(STET_DEVICE_READ_ONLY);
	other = open_ok(STET_DEVICE_READ_ONLY);
	stet_device_close(other);
	assert_int_equal(stet_device_open_file(loop_path, 0, 0, &other), -EBUSY);
	stet_device_close(dev);
}

static void creation_takes_it_as_it_is(void **state)
{
	struct stet_device *dev = NULL;

	(void)state;
	assert_int_equal(stet_device_open_file(loop_path, STET_DEVICE_CREATE, 5, &dev), 0);
	assert_int_equal(dev->size_bytes, SIZE_BYTES);
	assert_int_equal(stet_device_resize(dev, 2 * SIZE_BYTES), -EOPNOTSUPP);
	stet_device_close(dev);
}

static void discard_leaves_what_is_outside(void **state)
{
	struct stet_device *dev = open_ok(0);
	uint8_t buf[8192];

	(void)state;
	memset(buf, 0x77, sizeof(buf));
	assert_int_equal(stet_device_write(dev, 0, buf, sizeof(buf)), 0);
	assert_int_equal(stet_device_flush(dev), 0);
	assert_int_equal(stet_device_discard(dev, 1000, 5000), 0);
	assert_int_equal(stet_device_discard(dev, 10, 20), 0); /* less than a sector */
	assert_int_equal(stet_device_read(dev, 0, buf, sizeof(buf)), 0);
	for (size_t i = 0; i < sizeof(buf); i++) {
		if ((i < 1000 || i >= 6000) && buf[i] != 0x77)
			fail_msg("byte %zu is %#x", i, buf[i]);
	}
	stet_device_close(dev);
}

/* Ties a free loop device to the file; its descriptor, or -1. It unties itself when unused. */
static int attach(int file_fd)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	const struct loop_info64 info = { .lo_flags = LO_FLAGS_AUTOCLEAR };

	if (control < 0)
		return -1;
	for (int try = 0; try < LOOP_TRIES; try++) {
		int no = ioctl(control, LOOP_CTL_GET_FREE);
		int fd;

		if (no < 0)
			break;
		snprintf(loop_path, sizeof(loop_path), "/dev/loop%d", no);
		fd = open(loop_path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !ioctl(fd, LOOP_SET_FD, file_fd)) {
			close(control);
			if (!ioctl(fd, LOOP_SET_STATUS64, &info))
				return fd;
			ioctl(fd, LOOP_CLR_FD, 0);
			close(fd);
			return -1;
		}
		if (fd >= 0)
			close(fd); /* somebody was quicker */
	}
	close(control);
	return -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_read_back),
		cmocka_unit_test(a_writer_excludes_all),
		cmocka_unit_test(creation_takes_it_as_it_is),
		cmocka_unit_test(discard_leaves_what_is_outside),
	};
	const char *tmp = getenv("TMPDIR");
	char file[256];
	int file_fd;
	int loop_fd;
	int failed;

	if (geteuid() != 0)
		return SKIP;
	snprintf(file, sizeof(file), "%s/stet-block-XXXXXX", tmp ? tmp : "/tmp");
	file_fd = mkstemp(file);
	if (file_fd < 0)
		return SKIP;
	unlink(file);
	loop_fd = ftruncate(file_fd, SIZE_BYTES) ? -1 : attach(file_fd);
	close(file_fd);
	if (loop_fd < 0)
		return SKIP;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	close(loop_fd);
	return failed;
}
