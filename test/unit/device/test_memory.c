/* test_memory.c - the device in memory: sparse, resizable, many threads. */
#include "base/mem.h"
#include "base/random.h"
#include "device/device.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
#define THREADS 4

static void unwritten_bytes_are_zero(void **state)
{
	const uint8_t zeros[300] = { 0 };
	struct stet_device *dev;
	uint8_t buf[300];

	(void)state;
	/* Far more than there is memory: only what is written takes some. */
	assert_int_equal(stet_device_open_memory(MIB << 16, &dev), 0);
	memset(buf, 0xff, sizeof(buf));
	assert_int_equal(stet_device_read(dev, 5 * MIB - 150, buf, sizeof(buf)), 0);
	assert_memory_equal(buf, zeros, sizeof(buf));
	assert_int_equal(stet_device_write(dev, 5 * MIB, "x", 1), 0);
	assert_int_equal(stet_device_read(dev, 5 * MIB - 1, buf, 3), 0);
	assert_memory_equal(buf, "\0x", 3);
	stet_device_close(dev);
}

/* Random writes of several buffers across chunk borders, against a plain array. */
static void writes_are_read_back(void **state)
{
	const size_t size = 3 * MIB + 777;
	uint8_t *model = test_calloc(1, size);
	uint8_t *buf = test_malloc(size);
	struct stet_random random;
	struct stet_device *dev;

	(void)state;
	stet_random_seed(&random, 1);
	assert_int_equal(stet_device_open_memory(size, &dev), 0);
	for (int round = 0; round < 200; round++) {
		size_t off = (size_t)stet_random_below(&random, size);
		size_t len = (size_t)stet_random_below(&random, size - off + 1);
		size_t cut = (size_t)stet_random_below(&random, len + 1);

		if (stet_random_below(&random, 4))
			len = len < 9000 ? len : 9000, cut = cut < len ? cut : len;
		stet_random_bytes(&random, model + off, len);
		const struct iovec iov[3] = {
			{ .iov_base = model + off, .iov_len = cut },
			{ .iov_base = NULL, .iov_len = 0 },
			{ .iov_base = model + off + cut, .iov_len = len - cut },
		};
		assert_int_equal(stet_device_writev(dev, off, iov, 3), 0);
	}
	assert_int_equal(stet_device_read(dev, 0, buf, size), 0);
	assert_memory_equal(buf, model, size);
	stet_device_close(dev);
	test_free(buf);
	test_free(model);
}

static void discard_makes_zeros_in_the_range_only(void **state)
{
	uint8_t *buf = test_malloc(3 * MIB);
	struct stet_device *dev;

	(void)state;
	memset(buf, 0xaa, 3 * MIB);
	assert_int_equal(stet_device_open_memory(3 * MIB, &dev), 0);
	assert_int_equal(stet_device_write(dev, 0, buf, 3 * MIB), 0);
	assert_int_equal(stet_device_discard(dev, MIB - 10, MIB + 20), 0);
	assert_int_equal(stet_device_read(dev, 0, buf, 3 * MIB), 0);
	for (size_t i = 0; i < 3 * MIB; i++) {
		bool inside = i >= MIB - 10 && i < 2 * MIB + 10;

		if (buf[i] != (inside ? 0 : 0xaa))
			fail_msg("byte %zu is %#x", i, buf[i]);
	}
	stet_device_close(dev);
	test_free(buf);
}

static void resize_keeps_and_zeroes(void **state)
{
	const uint64_t sizes[] = { 2 * MIB, MIB + 5, 100, 4 * MIB };
	const uint8_t zeros[64] = { 0 };
	struct stet_device *dev;
	uint8_t buf[164];

	(void)state;
	memset(buf, 0x55, sizeof(buf));
	assert_int_equal(stet_device_open_memory(MIB, &dev), 0);
	assert_int_equal(stet_device_write(dev, 0, buf, sizeof(buf)), 0);
	assert_int_equal(stet_device_write(dev, MIB - 1, buf, 1), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(stet_device_resize(dev, sizes[i]), 0);
		assert_int_equal(dev->size_bytes, sizes[i]);
		assert_int_equal(stet_device_read(dev, sizes[i], buf, 1), -EIO);
	}
	assert_int_equal(stet_device_read(dev, 0, buf, sizeof(buf)), 0);
	assert_int_equal(buf[99], 0x55);
	assert_memory_equal(buf + 100, zeros, 64); /* cut off, so not to come back */
	assert_int_equal(stet_device_read(dev, MIB - 1, buf, 1), 0);
	assert_int_equal(buf[0], 0);
	stet_device_close(dev);
}

static void no_memory_is_an_error(void **state)
{
	struct stet_device *dev = NULL;

	(void)state;
	for (int n = 1;; n++) {
		int rc;

		stet_mem_fail_after(n);
		rc = stet_device_open_memory(MIB, &dev);
		stet_mem_fail_after(-1);
		if (!rc)
			break;
		assert_int_equal(rc, -ENOMEM);
		assert_null(dev);
		assert_true(n < 100);
	}
	stet_mem_fail_after(1);
	assert_int_equal(stet_device_write(dev, 0, "x", 1), -ENOMEM);
	assert_int_equal(stet_device_resize(dev, 2 * MIB), -ENOMEM);
	stet_mem_fail_after(-1);
	assert_int_equal(dev->size_bytes, MIB);
	assert_int_equal(stet_device_write(dev, 0, "x", 1), 0);
	stet_device_close(dev);
}

struct worker {
	struct stet_device *dev;
	uint64_t first_bytes; /* its own stripes lie at first_bytes + n * THREADS * 4096 */
	int errors;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint8_t out[4096];
	uint8_t in[4096];

	for (int i = 0; i < 400; i++) {
		uint64_t off = worker->first_bytes + (uint64_t)i * THREADS * sizeof(out);

		memset(out, i + (int)worker->first_bytes, sizeof(out));
		worker->errors += stet_device_write(worker->dev, off, out, sizeof(out)) != 0;
		worker->errors += stet_device_flush(worker->dev) != 0;
		worker->errors += stet_device_read(worker->dev, off, in, sizeof(in)) != 0;
		worker->errors += memcmp(in, out, sizeof(in)) != 0;
		/* Bytes that all threads fight for: any of theirs may win, none may tear. */
		worker->errors += stet_device_write(worker->dev, 8 * MIB - 16, out, 8) != 0;
		worker->errors += stet_device_read(worker->dev, 8 * MIB - 16, in, 8) != 0;
		worker->errors += memcmp(in, in + 1, 7) != 0;
	}
	return NULL;
}

static void many_threads_do_not_disturb_each_other(void **state)
{
	struct worker worker[THREADS];
	pthread_t thread[THREADS];
	struct stet_device_stats stats;
	struct stet_device *dev;

	(void)state;
	assert_int_equal(stet_device_open_memory(8 * MIB, &dev), 0);
	for (unsigned int i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){ .dev = dev, .first_bytes = (uint64_t)i * 4096 };
		assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(worker[i].errors, 0);
	}
	stet_device_stats(dev, &stats);
	assert_int_equal(stats.writes, THREADS * 800);
	assert_int_equal(stats.flushes, THREADS * 400);
	stet_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unwritten_bytes_are_zero),
		cmocka_unit_test(writes_are_read_back),
		cmocka_unit_test(discard_makes_zeros_in_the_range_only),
		cmocka_unit_test(resize_keeps_and_zeroes),
		cmocka_unit_test(no_memory_is_an_error),
		cmocka_unit_test(many_threads_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
