/* test_image.c - copies share, and do not see each other's writes. */
#include "base/random.h"
#include "sim/image.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK SIM_IMAGE_CHUNK_BYTES
#define SIZE_BYTES (8 * CHUNK + 1000)
#define THREADS 4

static struct stet_device *new_image(void)
{
	struct stet_device *dev;

	assert_int_equal(sim_image_create(SIZE_BYTES, &dev), 0);
	return dev;
}

static struct stet_device *copy_of(struct stet_device *dev)
{
	struct stet_device *copy;

	assert_int_equal(sim_image_copy(dev, &copy), 0);
	return copy;
}

static uint64_t first_difference(struct stet_device *a, struct stet_device *b)
{
	uint64_t off_bytes = UINT64_MAX;

	assert_int_equal(sim_image_compare(a, b, &off_bytes), 0);
	return off_bytes;
}

static uint8_t byte_at(struct stet_device *dev, uint64_t off_bytes)
{
	uint8_t byte;

	assert_int_equal(stet_device_read(dev, off_bytes, &byte, 1), 0);
	return byte;
}

static void behaves_like_a_memory_device(void **state)
{
	struct stet_device *image = new_image();
	struct stet_device *memory;
	struct stet_random random;
	uint8_t buf[3000];

	(void)state;
	stet_random_seed(&random, 3);
	assert_int_equal(stet_device_open_memory(SIZE_BYTES, &memory), 0);
	for (int i = 0; i < 500; i++) {
		size_t len = (size_t)stet_random_below(&random, sizeof(buf));
		uint64_t off = stet_random_below(&random, SIZE_BYTES - len);

		if (i % 10 == 9) {
			uint64_t n = stet_random_below(&random, SIZE_BYTES - off);

			assert_int_equal(stet_device_discard(image, off, n), 0);
			assert_int_equal(stet_device_discard(memory, off, n), 0);
			continue;
		}
		stet_random_bytes(&random, buf, len);
		assert_int_equal(stet_device_write(image, off, buf, len), 0);
		assert_int_equal(stet_device_write(memory, off, buf, len), 0);
	}
	assert_int_equal(first_difference(image, memory), SIZE_BYTES);
	assert_int_equal(stet_device_flush(image), 0);
	stet_device_close(memory);
	stet_device_close(image);
}

static void copies_do_not_see_each_other(void **state)
{
	struct stet_device *a = new_image();
	struct stet_device *b;
	struct stet_device *c;

	(void)state;
	assert_int_equal(stet_device_write(a, 10, "a", 1), 0);
	b = copy_of(a);
	c = copy_of(b);
	assert_int_equal(stet_device_write(a, 10, "A", 1), 0);
	assert_int_equal(stet_device_write(b, 11, "B", 1), 0);
	assert_int_equal(stet_device_discard(c, 0, 100), 0);
	assert_int_equal(byte_at(a, 10), 'A');
	assert_int_equal(byte_at(a, 11), 0);
	assert_int_equal(byte_at(b, 10), 'a');
	assert_int_equal(byte_at(b, 11), 'B');
	assert_int_equal(byte_at(c, 10), 0);
	stet_device_close(a);
	assert_int_equal(byte_at(b, 10), 'a');
	stet_device_close(c);
	assert_int_equal(byte_at(b, 10), 'a');
	stet_device_close(b);
}

static void only_what_differs_takes_memory(void **state)
{
	struct stet_device *a = new_image();
	struct stet_device *b;
	uint64_t present;
	uint64_t own;

	(void)state;
	assert_int_equal(stet_device_write(a, 0, "x", 1), 0);
	assert_int_equal(stet_device_write(a, 5 * CHUNK, "x", 1), 0);
	sim_image_chunks(a, &present, &own);
	assert_int_equal(present, 2);
	assert_int_equal(own, 2);
	b = copy_of(a);
	sim_image_chunks(b, &present, &own);
	assert_int_equal(present, 2);
	assert_int_equal(own, 0);
	assert_int_equal(stet_device_write(b, 5 * CHUNK + 1, "y", 1), 0);
	sim_image_chunks(b, &present, &own);
	assert_int_equal(present, 2);
	assert_int_equal(own, 1);
	stet_device_close(a);
	stet_device_close(b);
}

static void other_devices_are_copied_sparsely(void **state)
{
	struct stet_device *memory;
	struct stet_device *image;
	uint64_t present;
	uint64_t own;

	(void)state;
	assert_int_equal(stet_device_open_memory(SIZE_BYTES, &memory), 0);
	assert_int_equal(stet_device_write(memory, SIZE_BYTES - 1, "z", 1), 0);
	image = copy_of(memory);
	assert_true(sim_image_is(image));
	assert_false(sim_image_is(memory));
	assert_int_equal(first_difference(image, memory), SIZE_BYTES);
	sim_image_chunks(image, &present, &own);
	assert_int_equal(present, 1);
	stet_device_close(memory);
	stet_device_close(image);
}

static void the_first_difference_is_found(void **state)
{
	struct stet_device *a = new_image();
	struct stet_device *b = copy_of(a);
	struct stet_device *small;
	uint64_t off_bytes;

	(void)state;
	assert_int_equal(first_difference(a, b), SIZE_BYTES);
	assert_int_equal(stet_device_write(b, SIZE_BYTES - 1, "x", 1), 0);
	assert_int_equal(first_difference(a, b), SIZE_BYTES - 1);
	assert_int_equal(stet_device_write(a, 2 * CHUNK, "x", 1), 0);
	assert_int_equal(first_difference(a, b), 2 * CHUNK);
	assert_int_equal(stet_device_write(b, 7, "x", 1), 0);
	assert_int_equal(first_difference(a, b), 7);
	assert_int_equal(sim_image_create(1, &small), 0);
	assert_int_equal(sim_image_compare(a, small, &off_bytes), -EINVAL);
	stet_device_close(small);
	stet_device_close(a);
	stet_device_close(b);
}

/* Each copies the shared base, writes all over it and copies its own copies. */
static void *copy_and_write(void *arg)
{
	struct stet_device *base = arg;
	intptr_t errors = 0;

	for (int i = 0; i < 100; i++) {
		struct stet_device *mine = NULL;
		struct stet_device *copy = NULL;
		uint8_t byte = 0;

		errors += sim_image_copy(base, &mine) != 0;
		for (uint64_t off = 0; off < SIZE_BYTES; off += CHUNK)
			errors += stet_device_write(mine, off, "m", 1) != 0;
		errors += sim_image_copy(mine, &copy) != 0;
		errors += stet_device_write(copy, 0, "c", 1) != 0;
		stet_device_close(mine);
		errors += stet_device_read(copy, CHUNK, &byte, 1) != 0 || byte != 'm';
		errors += stet_device_read(base, CHUNK, &byte, 1) != 0 || byte != 'b';
		stet_device_close(copy);
	}
	return (void *)errors;
}

static void many_threads_share_chunks(void **state)
{
	struct stet_device *base = new_image();
	pthread_t thread[THREADS];

	(void)state;
	for (uint64_t off = 0; off < SIZE_BYTES; off += CHUNK)
		assert_int_equal(stet_device_write(base, off, "b", 1), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, copy_and_write, base), 0);
	for (int i = 0; i < THREADS; i++) {
		void *errors;

		assert_int_equal(pthread_join(thread[i], &errors), 0);
		assert_null(errors);
	}
	stet_device_close(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(behaves_like_a_memory_device),
		cmocka_unit_test(copies_do_not_see_each_other),
		cmocka_unit_test(only_what_differs_takes_memory),
		cmocka_unit_test(other_devices_are_copied_sparsely),
		cmocka_unit_test(the_first_difference_is_found),
		cmocka_unit_test(many_threads_share_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
