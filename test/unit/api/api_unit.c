#include "api_unit.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "served.h"

void unit_ok(int rc, const char *call, const char *file, int line)
{
	if (rc == 0)
		return;
	print_error("%s:%d: %s gave %d: %s\n", file, line, call, rc, stet_error_text());
	_fail(file, line);
}

void unit_fails(int err, long rc, const char *call, const char *file, int line)
{
	if (rc == err)
		return;
	print_error("%s:%d: %s gave %ld, not %d: %s\n", file, line, call, rc, err,
		    stet_error_text());
	_fail(file, line);
}

/* --- the device --- */

static struct unit_device *unit_of(struct stet_device *dev)
{
	return (struct unit_device *)dev; /* base is the first member */
}

static int read_inner(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	return stet_device_read(unit_of(dev)->inner, off_bytes, buf, len_bytes);
}

static int write_inner(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
		       int iov_count)
{
	struct unit_device *u = unit_of(dev);

	if (u->no_room)
		return -ENOSPC;
	return u->dead ? 0 : stet_device_writev(u->inner, off_bytes, iov, iov_count);
}

static int flush_inner(struct stet_device *dev)
{
	struct unit_device *u = unit_of(dev);

	unit_sleep_ms(u->flush_ms);
	return u->fail_flush ? -EIO : stet_device_flush(u->inner);
}

static void close_inner(struct stet_device *dev)
{
	stet_device_close(unit_of(dev)->inner);
	stet_device_release(dev);
	free(dev);
}

static struct unit_device *wrap_memory(uint64_t size_bytes)
{
	static const struct stet_device_ops ops = {
		.read = read_inner,
		.writev = write_inner,
		.flush = flush_inner,
		.close = close_inner,
	};
	struct unit_device *u = calloc(1, sizeof(*u));

	assert_non_null(u);
	OK(stet_device_open_memory(size_bytes, &u->inner));
	OK(stet_device_init(&u->base, &ops, size_bytes, false, "unit"));
	return u;
}

/* --- volumes --- */

bool unit_is_remote(void)
{
	return getenv("STET_API_REMOTE");
}

void unit_open(struct unit_volume *u, const struct stet_open_options *options)
{
	struct stet_api_device_options more = { .keep_device = true };

	OK(stet_api_open_device(u->device, options, &more, &u->local));
	u->vol = u->local;
	if (unit_is_remote())
		OK(served_start(u->local, NULL, &u->server, &u->vol));
}

/* Of the local volume's close, when the client's says that all is well. */
int unit_try_close(struct unit_volume *u)
{
	int rc = stet_close(u->vol);
	int local;

	if (!u->server || rc == -EBUSY)
		return rc;
	served_stop(u->server);
	u->server = NULL;
	local = stet_close(u->local);
	return rc ? rc : local;
}

void unit_close(struct unit_volume *u)
{
	OK(unit_try_close(u));
}

int unit_set_up(void **state)
{
	struct unit_volume *u = calloc(1, sizeof(*u));

	assert_non_null(u);
	u->wrap = wrap_memory(UNIT_DEVICE_BYTES);
	u->device = &u->wrap->base;
	OK(stet_api_format_device(u->device, NULL, NULL));
	unit_open(u, NULL);
	*state = u;
	return 0;
}

int unit_tear_down(void **state)
{
	struct unit_volume *u = *state;

	unit_close(u);
	stet_device_close(u->device);
	free(u);
	return 0;
}

void unit_reopen(struct unit_volume *u, bool crash)
{
	u->wrap->dead = crash;
	int rc = unit_try_close(u);
	u->wrap->dead = false;
	if (crash) /* it may have read back what it believed to have written */
		assert_int_not_equal(rc, -EBUSY);
	else
		OK(rc);
	unit_open(u, NULL);
}

struct stet_volume *unit_vol(void **state)
{
	return ((struct unit_volume *)*state)->vol;
}

struct stet_txn *unit_begin(struct stet_volume *vol, unsigned flags)
{
	struct stet_txn *txn;

	OK(stet_begin(vol, flags, &txn));
	return txn;
}

void unit_write(struct stet_volume *vol, struct stet_txn *txn, const char *path, const char *text)
{
	struct stet_file *file;
	size_t len = strlen(text);

	OK(stet_openat(vol, txn, STET_ROOT, path, O_WRONLY | O_CREAT | O_TRUNC, 0644, &file));
	assert_int_equal(stet_pwrite(file, text, len, 0), len);
	stet_file_close(file);
}

void unit_expect(struct stet_volume *vol, struct stet_txn *txn, const char *path, const char *text)
{
	struct stet_file *file;
	char buf[4096] = { 0 };
	ssize_t n;

	OK(stet_openat(vol, txn, STET_ROOT, path, O_RDONLY, 0, &file));
	n = stet_pread(file, buf, sizeof(buf) - 1, 0);
	stet_file_close(file);
	assert_int_equal(n, strlen(text));
	assert_string_equal(buf, text);
}

bool unit_exists(struct stet_volume *vol, struct stet_txn *txn, const char *path)
{
	struct stet_stat st;
	int rc = stet_statat(vol, txn, STET_ROOT, path, STET_AT_NOFOLLOW, &st);

	assert_true(rc == 0 || rc == -ENOENT);
	return rc == 0;
}

void unit_expect_none(struct stet_volume *vol, struct stet_txn *txn, const char *path)
{
	assert_false(unit_exists(vol, txn, path));
}

uint64_t unit_ino(struct stet_volume *vol, struct stet_txn *txn, const char *path)
{
	struct stet_stat st;

	OK(stet_statat(vol, txn, STET_ROOT, path, STET_AT_NOFOLLOW, &st));
	return st.ino;
}

struct counter {
	const char *name;
	uint64_t value;
	bool found;
};

static int match(void *arg, const char *name, uint64_t value)
{
	struct counter *c = arg;

	if (strcmp(name, c->name) != 0)
		return 0;
	c->value = value;
	c->found = true;
	return 1;
}

uint64_t unit_counter(struct stet_volume *vol, const char *name)
{
	struct counter c = { .name = name };

	assert_int_equal(stet_stats(vol, match, &c), 1);
	assert_true(c.found);
	return c.value;
}

int64_t unit_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void unit_sleep_ms(unsigned ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&ts, NULL);
}

void unit_checkpoint(struct stet_volume *vol)
{
	OK(stet_api_checkpoint(vol));
}
