/* test_record.c - what was done is remembered, in order. */
#include "sim/fault.h"
#include "sim/image.h"
#include "sim/record.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SIZE_BYTES ((uint64_t)1 << 20)
#define THREADS 4

struct fixture {
	struct stet_device *lower;
	struct sim_record *rec;
	struct stet_device *dev; /* borrowed from rec */
};

static int set_up(void **state)
{
	struct fixture *fix = test_calloc(1, sizeof(*fix));

	assert_int_equal(stet_device_open_memory(SIZE_BYTES, &fix->lower), 0);
	assert_int_equal(sim_record_create(fix->lower, &fix->rec), 0);
	fix->dev = sim_record_device(fix->rec);
	*state = fix;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fix = *state;

	sim_record_destroy(fix->rec);
	stet_device_close(fix->lower);
	test_free(fix);
	return 0;
}

static void events_are_kept_in_order(void **state)
{
	struct fixture *fix = *state;
	const struct iovec iov[2] = {
		{ .iov_base = (char[]){ 'a', 'b' }, .iov_len = 2 },
		{ .iov_base = (char[]){ 'c' }, .iov_len = 1 },
	};
	struct sim_event event;
	uint8_t byte;

	assert_int_equal(stet_device_writev(fix->dev, 100, iov, 2), 0);
	assert_int_equal(stet_device_read(fix->dev, 101, &byte, 1), 0);
	assert_int_equal(byte, 'b');
	assert_int_equal(stet_device_flush(fix->dev), 0);
	assert_int_equal(sim_record_mark(fix->rec, 42), 0);
	assert_int_equal(stet_device_discard(fix->dev, 4096, 8192), 0);
	assert_int_equal(sim_record_count(fix->rec), 4);
	event = sim_record_event(fix->rec, 0);
	assert_int_equal(event.kind, SIM_EVENT_WRITE);
	assert_int_equal(event.off_bytes, 100);
	assert_int_equal(event.len_bytes, 3);
	assert_memory_equal(event.data, "abc", 3);
	event = sim_record_event(fix->rec, 1);
	assert_int_equal(event.kind, SIM_EVENT_FLUSH);
	assert_int_equal(event.covers, 1);
	event = sim_record_event(fix->rec, 2);
	assert_int_equal(event.kind, SIM_EVENT_MARK);
	assert_int_equal(event.tag, 42);
	event = sim_record_event(fix->rec, 3);
	assert_int_equal(event.kind, SIM_EVENT_DISCARD);
	assert_int_equal(event.off_bytes, 4096);
	assert_int_equal(event.len_bytes, 8192);
}

static void marks_tell_what_was_acknowledged(void **state)
{
	struct fixture *fix = *state;
	uint64_t tag = 0;

	assert_int_equal(stet_device_write(fix->dev, 0, "x", 1), 0); /* 0 */
	assert_int_equal(sim_record_mark(fix->rec, 5), 0);           /* 1 */
	assert_int_equal(stet_device_flush(fix->dev), 0);            /* 2 */
	assert_int_equal(sim_record_mark(fix->rec, 6), 0);           /* 3 */
	assert_false(sim_record_last_mark(fix->rec, 0, &tag));
	assert_false(sim_record_last_mark(fix->rec, 1, &tag));
	assert_true(sim_record_last_mark(fix->rec, 2, &tag));
	assert_int_equal(tag, 5);
	assert_true(sim_record_last_mark(fix->rec, 3, &tag));
	assert_int_equal(tag, 5);
	assert_true(sim_record_last_mark(fix->rec, 4, &tag));
	assert_int_equal(tag, 6);
}

static void flushes_are_found(void **state)
{
	struct fixture *fix = *state;

	assert_int_equal(sim_record_next_flush(fix->rec, 0), 0);
	assert_int_equal(stet_device_write(fix->dev, 0, "x", 1), 0);
	assert_int_equal(stet_device_write(fix->dev, 0, "y", 1), 0);
	assert_int_equal(stet_device_flush(fix->dev), 0);
	assert_int_equal(stet_device_write(fix->dev, 0, "z", 1), 0);
	assert_int_equal(sim_record_next_flush(fix->rec, 0), 2);
	assert_int_equal(sim_record_next_flush(fix->rec, 2), 2);
	assert_int_equal(sim_record_next_flush(fix->rec, 3), 4);
	assert_int_equal(sim_record_unflushed(fix->rec, 0), 0);
	assert_int_equal(sim_record_unflushed(fix->rec, 1), 1);
	assert_int_equal(sim_record_unflushed(fix->rec, 2), 2);
	assert_int_equal(sim_record_unflushed(fix->rec, 3), 0);
	assert_int_equal(sim_record_unflushed(fix->rec, 4), 1);
}

static void closing_the_device_keeps_the_record(void **state)
{
	struct fixture *fix = *state;

	assert_int_equal(stet_device_write(fix->dev, 0, "x", 1), 0);
	stet_device_close(fix->dev);
	assert_int_equal(stet_device_write(sim_record_device(fix->rec), 0, "y", 1), 0);
	assert_int_equal(sim_record_count(fix->rec), 2);
}

static void an_error_below_makes_the_record_useless(void **state)
{
	struct fixture *fix = *state;
	struct sim_crash_spec spec = { .mode = SIM_CRASH_ALL };
	struct stet_device *image = NULL;
	struct sim_fault *fault;
	struct sim_record *rec;

	assert_int_equal(sim_fault_create(fix->lower, 1, &fault), 0);
	assert_int_equal(sim_fault_set(fault, "write#1:short"), 0);
	assert_int_equal(sim_record_create(sim_fault_device(fault), &rec), 0);
	assert_int_equal(stet_device_write(sim_record_device(rec), 0, "x", 1), -EIO);
	assert_int_equal(sim_record_count(rec), 0);
	assert_int_equal(sim_record_crash_image(rec, &spec, &image), -EIO);
	assert_null(image);
	sim_record_destroy(rec);
	sim_record_destroy(NULL);
	sim_fault_destroy(fault);
	sim_fault_destroy(NULL);
}

/* A device whose flush is interrupted by a write through the recorder above it. */
struct busy_device {
	struct stet_device dev;
	struct stet_device *recorder; /* borrowed */
};

static int busy_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	(void)dev;
	(void)off_bytes;
	memset(buf, 0, len_bytes);
	return 0;
}

static int busy_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
		       int iov_count)
{
	(void)dev;
	(void)off_bytes;
	(void)iov;
	(void)iov_count;
	return 0;
}

static int busy_flush(struct stet_device *dev)
{
	return stet_device_write(((struct busy_device *)dev)->recorder, 512, "during", 6);
}

static void busy_close(struct stet_device *dev)
{
	stet_device_release(dev);
}

static const struct stet_device_ops busy_ops = {
	.read = busy_read,
	.writev = busy_writev,
	.flush = busy_flush,
	.close = busy_close,
};

static void a_write_during_a_flush_is_not_certain(void **state)
{
	const struct sim_crash_spec spec = { .event = 3, .mode = SIM_CRASH_NONE };
	struct busy_device busy;
	struct sim_record *rec;
	struct stet_device *image;
	char buf[6];

	(void)state;
	assert_int_equal(stet_device_init(&busy.dev, &busy_ops, 4096, false, "busy"), 0);
	assert_int_equal(sim_record_create(&busy.dev, &rec), 0);
	busy.recorder = sim_record_device(rec);
	assert_int_equal(stet_device_write(busy.recorder, 0, "before", 6), 0);
	assert_int_equal(stet_device_flush(busy.recorder), 0);
	assert_int_equal(sim_record_count(rec), 3);
	assert_int_equal(sim_record_event(rec, 2).covers, 1);
	assert_int_equal(sim_record_unflushed(rec, 3), 1);
	assert_int_equal(sim_record_crash_image(rec, &spec, &image), 0);
	assert_int_equal(stet_device_read(image, 0, buf, 6), 0);
	assert_memory_equal(buf, "before", 6);
	assert_int_equal(stet_device_read(image, 512, buf, 6), 0);
	assert_memory_equal(buf, "\0\0\0\0\0\0", 6);
	stet_device_close(image);
	sim_record_destroy(rec);
	stet_device_close(&busy.dev);
}

/* Writes its counter, flushes, marks: so each mark is preceded by a flush that covers its write. */
static void *write_flush_mark(void *arg)
{
	struct fixture *fix = arg;
	static _Atomic uint64_t next_tag;
	intptr_t errors = 0;

	for (int i = 0; i < 100; i++) {
		uint64_t tag = next_tag++;

		errors += stet_device_write(fix->dev, tag * 512, &tag, sizeof(tag)) != 0;
		errors += stet_device_flush(fix->dev) != 0;
		errors += sim_record_mark(fix->rec, tag) != 0;
	}
	return (void *)errors;
}

static void many_threads_are_recorded_soundly(void **state)
{
	struct fixture *fix = *state;
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, write_flush_mark, fix), 0);
	for (int i = 0; i < THREADS; i++) {
		void *errors;

		assert_int_equal(pthread_join(thread[i], &errors), 0);
		assert_null(errors);
	}
	assert_int_equal(sim_record_count(fix->rec), THREADS * 300);
	for (size_t k = 0; k < sim_record_count(fix->rec); k++) {
		const struct sim_crash_spec spec = { .event = k + 1, .mode = SIM_CRASH_NONE };
		struct sim_event event = sim_record_event(fix->rec, k);
		struct stet_device *image;
		uint64_t value;

		if (event.kind != SIM_EVENT_MARK)
			continue;
		assert_int_equal(sim_record_crash_image(fix->rec, &spec, &image), 0);
		assert_int_equal(stet_device_read(image, event.tag * 512, &value, sizeof(value)),
				 0);
		assert_int_equal(value, event.tag);
		stet_device_close(image);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(events_are_kept_in_order),
		TEST(marks_tell_what_was_acknowledged),
		TEST(flushes_are_found),
		TEST(closing_the_device_keeps_the_record),
		TEST(an_error_below_makes_the_record_useless),
		cmocka_unit_test(a_write_during_a_flush_is_not_certain),
		TEST(many_threads_are_recorded_soundly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
