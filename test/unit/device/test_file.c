/* test_file.c - the device on an image file: creation, locks, what is refused, I/O, threads. */
#include "base/mem.h"
#include "device/device.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE_BYTES ((uint64_t)1 << 20)
#define THREADS 4

#define CREATE (STET_DEVICE_CREATE | STET_DEVICE_EXCL)

/* A directory of its own for each test; path is "<dir>/image". */
struct fixture {
	char dir[256];
	char path[300];
};

static int set_up(void **state)
{
	struct fixture *fix = test_calloc(1, sizeof(*fix));
	const char *tmp = getenv("TMPDIR");

	snprintf(fix->dir, sizeof(fix->dir), "%s/stet-device-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(fix->dir));
	snprintf(fix->path, sizeof(fix->path), "%s/image", fix->dir);
	*state = fix;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fix = *state;

	unlink(fix->path);
	rmdir(fix->path);
	assert_int_equal(rmdir(fix->dir), 0);
	test_free(fix);
	return 0;
}

static struct stet_device *open_ok(const char *path, unsigned int flags, uint64_t size_bytes)
{
	struct stet_device *dev = NULL;
	int rc = stet_device_open_file(path, flags, size_bytes, &dev);

	if (rc)
		fail_msg("open: %d, %s", rc, stet_error_text());
	return dev;
}

static void open_fails(const char *path, unsigned int flags, int expected)
{
	struct stet_device *dev = NULL;

	assert_int_equal(stet_device_open_file(path, flags, SIZE_BYTES, &dev), expected);
	assert_null(dev);
}

/* Makes an image and leaves it closed. */
static void make_image(const char *path)
{
	struct stet_device *dev = open_ok(path, CREATE, SIZE_BYTES);

	assert_int_equal(stet_device_write(dev, 1000, "hello", 5), 0);
	assert_int_equal(stet_device_flush(dev), 0);
	stet_device_close(dev);
}

static void created_file_has_the_size_and_zeros(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev = open_ok(fix->path, CREATE, SIZE_BYTES);
	const uint8_t zeros[512] = { 0 };
	uint8_t buf[512];
	struct stat st;

	assert_int_equal(dev->size_bytes, SIZE_BYTES);
	assert_false(dev->read_only);
	assert_string_equal(dev->name, fix->path);
	assert_int_equal(stet_device_read(dev, SIZE_BYTES - 512, buf, 512), 0);
	assert_memory_equal(buf, zeros, 512);
	assert_int_equal(stat(fix->path, &st), 0);
	assert_int_equal(st.st_size, SIZE_BYTES);
	stet_device_close(dev);
}

static void creation_respects_what_is_there(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev;

	open_fails(fix->path, 0, -ENOENT);
	open_fails(fix->path, STET_DEVICE_READ_ONLY, -ENOENT);
	open_fails(fix->path, STET_DEVICE_READ_ONLY | STET_DEVICE_CREATE, -EINVAL);
	open_fails(fix->path, 64, -EINVAL);
	make_image(fix->path);
	open_fails(fix->path, CREATE, -EEXIST);
	dev = open_ok(fix->path, STET_DEVICE_CREATE, 7);
	assert_int_equal(dev->size_bytes, SIZE_BYTES);
	assert_int_equal(stet_device_resize(dev, 0), 0);
	stet_device_close(dev);
	dev = open_ok(fix->path, STET_DEVICE_CREATE, 7); /* empty: counts as new */
	assert_int_equal(dev->size_bytes, 7);
	stet_device_close(dev);
}

static void failed_creation_leaves_nothing(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev = NULL;

	assert_int_equal(stet_device_open_file(fix->path, CREATE, UINT64_MAX, &dev), -EINVAL);
	assert_int_equal(access(fix->path, F_OK), -1);
	for (int n = 1;; n++) {
		int rc;

		stet_mem_fail_after(n);
		rc = stet_device_open_file(fix->path, CREATE, SIZE_BYTES, &dev);
		stet_mem_fail_after(-1);
		if (!rc)
			break;
		assert_int_equal(rc, -ENOMEM);
		assert_null(dev);
		assert_int_equal(access(fix->path, F_OK), -1);
		assert_true(n < 100);
	}
	stet_device_close(dev);
}

static void written_bytes_survive_closing(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev;
	uint8_t buf[7];

	make_image(fix->path);
	dev = open_ok(fix->path, 0, 0);
	assert_int_equal(stet_device_read(dev, 999, buf, 7), 0);
	assert_memory_equal(buf, "\0hello", 7);
	assert_int_equal(stet_device_discard(dev, 0, 4096), 0);
	assert_int_equal(stet_device_flush(dev), 0);
	stet_device_close(dev);
}

static void a_writer_excludes_all(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev;

	make_image(fix->path);
	dev = open_ok(fix->path, 0, 0);
	open_fails(fix->path, 0, -EBUSY);
	assert_non_null(strstr(stet_error_text(), ": open already in this process"));
	open_fails(fix->path, STET_DEVICE_READ_ONLY, -EBUSY);
	open_fails(fix->path, STET_DEVICE_CREATE, -EBUSY);
	assert_int_equal(access(fix->path, F_OK), 0); /* and it is still there */
	stet_device_close(dev);
	stet_device_close(open_ok(fix->path, 0, 0));
}

static void readers_exclude_writers_only(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *first;
	struct stet_device *second;
	uint8_t buf[5];

	make_image(fix->path);
	first = open_ok(fix->path, STET_DEVICE_READ_ONLY, 0);
	second = open_ok(fix->path, STET_DEVICE_READ_ONLY, 0);
	assert_true(first->read_only);
	assert_int_equal(stet_device_read(second, 1000, buf, 5), 0);
	assert_memory_equal(buf, "hello", 5);
	assert_int_equal(stet_device_write(second, 0, buf, 5), -EROFS);
	assert_int_equal(stet_device_flush(second), 0);
	open_fails(fix->path, 0, -EBUSY);
	stet_device_close(first);
	open_fails(fix->path, 0, -EBUSY);
	stet_device_close(second);
	stet_device_close(open_ok(fix->path, 0, 0));
}

static void check_holder_is_named(struct fixture *fix, int how)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char expected[64];
	char byte;
	int to_us[2];
	int to_child[2];
	pid_t child;

	assert_int_equal(pipe(to_us), 0);
	assert_int_equal(pipe(to_child), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		int fd = open(fix->path, O_RDWR | O_CLOEXEC);

		close(to_child[1]);
		if (fd < 0 || fcntl(fd, how, &lock) || write(to_us[1], "x", 1) != 1)
			_exit(1);
		_exit(read(to_child[0], &byte, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(to_us[0], &byte, 1), 1);
	open_fails(fix->path, 0, -EBUSY);
	snprintf(expected, sizeof(expected), "in use by process %ld (", (long)child);
	assert_non_null(strstr(stet_error_text(), expected));
	close(to_child[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(to_child[0]);
	close(to_us[0]);
	close(to_us[1]);
}

/* Our own kind of lock, and the older one. */
static void the_holder_is_named(void **state)
{
	struct fixture *fix = *state;

	make_image(fix->path);
	check_holder_is_named(fix, F_OFD_SETLK);
	check_holder_is_named(fix, F_SETLK);
}

static void other_kinds_of_files_are_refused(void **state)
{
	struct fixture *fix = *state;

	alarm(20); /* a FIFO must not make us wait */
	assert_int_equal(mkfifo(fix->path, 0600), 0);
	open_fails(fix->path, 0, -EINVAL);
	open_fails(fix->path, STET_DEVICE_READ_ONLY, -EINVAL);
	open_fails(fix->path, STET_DEVICE_CREATE, -EINVAL);
	assert_int_equal(unlink(fix->path), 0);
	assert_int_equal(mkdir(fix->path, 0700), 0);
	open_fails(fix->path, 0, -EISDIR);
	open_fails(fix->path, STET_DEVICE_READ_ONLY, -EISDIR);
	assert_int_equal(rmdir(fix->path), 0);
	open_fails("/dev/null", 0, -EINVAL);
	open_fails("/dev/null", STET_DEVICE_READ_ONLY, -EINVAL);
	alarm(0);
}

static void the_descriptor_is_not_inherited(void **state)
{
	struct fixture *fix = *state;
	int before = dup(0);
	struct stet_device *dev;
	int flags;

	assert_true(before >= 0);
	close(before);
	dev = open_ok(fix->path, CREATE, SIZE_BYTES); /* takes the lowest free number */
	flags = fcntl(before, F_GETFD);
	assert_true(flags >= 0 && flags & FD_CLOEXEC);
	stet_device_close(dev);
}

static void symbolic_links_are_followed(void **state)
{
	struct fixture *fix = *state;
	char link[320];

	make_image(fix->path);
	snprintf(link, sizeof(link), "%s/link", fix->dir);
	assert_int_equal(symlink("image", link), 0);
	stet_device_close(open_ok(link, 0, 0));
	assert_int_equal(unlink(fix->path), 0);
	open_fails(link, 0, -ENOENT);
	open_fails(link, STET_DEVICE_CREATE, -ENOENT);
	assert_int_equal(unlink(link), 0);
}

/* More buffers than the kernel takes at once, empty ones among them. */
static void any_number_of_buffers_is_written(void **state)
{
	struct fixture *fix = *state;
	const int count = 3 * IOV_MAX + 17;
	struct stet_device *dev = open_ok(fix->path, CREATE, SIZE_BYTES);
	struct iovec *iov = test_calloc((size_t)count, sizeof(*iov));
	uint8_t *data = test_malloc(SIZE_BYTES);
	uint8_t *back = test_malloc(SIZE_BYTES);
	size_t len = 0;

	for (size_t i = 0; i < SIZE_BYTES; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	for (int i = 0; i < count; i++) {
		iov[i].iov_base = data + len;
		iov[i].iov_len = (size_t)(i % 5) * 13;
		len += iov[i].iov_len;
	}
	assert_int_equal(stet_device_writev(dev, 3, iov, count), 0);
	assert_int_equal(stet_device_read(dev, 3, back, len), 0);
	assert_memory_equal(back, data, len);
	stet_device_close(dev);
	test_free(back);
	test_free(data);
	test_free(iov);
}

static void resize_changes_the_file(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev = open_ok(fix->path, CREATE, SIZE_BYTES);
	struct stat st;
	uint8_t byte = 1;

	assert_int_equal(stet_device_resize(dev, 2 * SIZE_BYTES), 0);
	assert_int_equal(dev->size_bytes, 2 * SIZE_BYTES);
	assert_int_equal(stet_device_flush(dev), 0);
	assert_int_equal(stet_device_read(dev, 2 * SIZE_BYTES - 1, &byte, 1), 0);
	assert_int_equal(byte, 0);
	assert_int_equal(stet_device_resize(dev, 4096), 0);
	assert_int_equal(stet_device_read(dev, 4096, &byte, 1), -EIO);
	assert_int_equal(stat(fix->path, &st), 0);
	assert_int_equal(st.st_size, 4096);
	assert_int_equal(stet_device_resize(dev, UINT64_MAX), -EINVAL);
	assert_int_equal(dev->size_bytes, 4096);
	stet_device_close(dev);
}

static void a_file_cut_short_by_others_is_an_io_error(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev;
	uint8_t buf[100];

	make_image(fix->path);
	dev = open_ok(fix->path, 0, 0);
	assert_int_equal(truncate(fix->path, 1002), 0);
	assert_int_equal(stet_device_read(dev, 1000, buf, 100), -EIO);
	assert_non_null(strstr(stet_error_text(), "shorter"));
	stet_device_close(dev);
}

/* The limit on file sizes makes first a short write, then an error. */
static void a_full_host_is_told_from_a_broken_one(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev;
	struct rlimit old;
	struct rlimit small;
	uint8_t buf[4096] = { 1 };

	make_image(fix->path);
	dev = open_ok(fix->path, 0, 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = 6000;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	int rc = stet_device_write(dev, 4000, buf, sizeof(buf));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(rc, -ENOSPC);
	assert_int_equal(stet_device_write(dev, 4000, buf, sizeof(buf)), 0);
	stet_device_close(dev);
}

struct worker {
	struct stet_device *dev;
	uint64_t first_bytes;
	int errors;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint8_t out[1024];
	uint8_t in[1024];

	for (int i = 0; i < 200; i++) {
		uint64_t off = worker->first_bytes + (uint64_t)i * THREADS * sizeof(out);

		memset(out, i ^ (int)(worker->first_bytes >> 8), sizeof(out));
		worker->errors += stet_device_write(worker->dev, off, out, sizeof(out)) != 0;
		if (i % 50 == 0)
			worker->errors += stet_device_flush(worker->dev) != 0;
		worker->errors += stet_device_read(worker->dev, off, in, sizeof(in)) != 0;
		worker->errors += memcmp(in, out, sizeof(in)) != 0;
	}
	return NULL;
}

static void many_threads_do_not_disturb_each_other(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *dev = open_ok(fix->path, CREATE, SIZE_BYTES);
	struct worker worker[THREADS];
	pthread_t thread[THREADS];

	for (unsigned int i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){ .dev = dev, .first_bytes = (uint64_t)i * 1024 };
		assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(worker[i].errors, 0);
	}
	stet_device_close(dev);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(created_file_has_the_size_and_zeros),
		TEST(creation_respects_what_is_there),
		TEST(failed_creation_leaves_nothing),
		TEST(written_bytes_survive_closing),
		TEST(a_writer_excludes_all),
		TEST(readers_exclude_writers_only),
		TEST(the_holder_is_named),
		TEST(other_kinds_of_files_are_refused),
		TEST(the_descriptor_is_not_inherited),
		TEST(symbolic_links_are_followed),
		TEST(any_number_of_buffers_is_written),
		TEST(resize_changes_the_file),
		TEST(a_file_cut_short_by_others_is_an_io_error),
		TEST(a_full_host_is_told_from_a_broken_one),
		TEST(many_threads_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
