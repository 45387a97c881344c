/* commit.c - how commits share flushes, by the number of committers and by how long a flush takes.
 *
 *	bench_commit FILE [SECONDS]
 *
 * Each of N threads changes 100 bytes of a file of its own and commits, again and again, on a volume in
 * FILE whose flushes take so many milliseconds longer than the device's own. Ideal is that every flush
 * takes everybody along: N commits in the time of one flush. Per line: the time of a flush as measured,
 * commits per second and per flush, the latency of a commit in flushes, and the rate as a share of ideal.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/volume.h"
#include "device/device.h"
#include "stetfs.h"

#define THREADS_MAX 64
#define VOLUME_BYTES ((uint64_t)1 << 30)

/* A device in front of another one whose flushes take longer. */
struct slow {
	struct stet_device base;
	struct stet_device *inner;
	/* --- atomic --- */
	_Atomic int64_t extra_ns, spent_ns, flushes;
};

static double seconds = 1;

static _Noreturn void die(const char *what, int rc)
{
	fprintf(stderr, "bench_commit: %s: %s\n", what,
		*stet_error_text() ? stet_error_text() : strerror(-rc));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct slow *slow_of(struct stet_device *dev)
{
	return (struct slow *)dev; /* base comes first */
}

static int slow_read(struct stet_device *dev, uint64_t off, void *buf, size_t len)
{
	return stet_device_read(slow_of(dev)->inner, off, buf, len);
}

static int slow_writev(struct stet_device *dev, uint64_t off, const struct iovec *iov, int count)
{
	return stet_device_writev(slow_of(dev)->inner, off, iov, count);
}

static int slow_flush(struct stet_device *dev)
{
	struct slow *slow = slow_of(dev);
	int64_t start = now_ns();
	int64_t extra = atomic_load(&slow->extra_ns);
	struct timespec ts = { .tv_nsec = extra };
	int rc = stet_device_flush(slow->inner);

	if (extra)
		nanosleep(&ts, NULL);
	atomic_fetch_add(&slow->spent_ns, now_ns() - start);
	atomic_fetch_add(&slow->flushes, 1);
	return rc;
}

static void slow_close(struct stet_device *dev)
{
	struct slow *slow = slow_of(dev);

	stet_device_close(slow->inner);
	stet_device_release(dev);
	free(slow);
}

static const struct stet_device_ops slow_ops = {
	.read = slow_read, .writev = slow_writev, .flush = slow_flush, .close = slow_close
};

static struct stet_volume *open_volume(const char *path, struct slow *slow)
{
	struct stet_mkfs_options options = { .size_bytes = VOLUME_BYTES, .force = true };
	struct stet_volume *vol;
	int rc = stet_mkfs(path, &options);

	if (rc)
		die(path, rc);
	rc = stet_device_open_file(path, 0, 0, &slow->inner);
	if (!rc)
		rc = stet_device_init(&slow->base, &slow_ops, VOLUME_BYTES, false, "slow");
	if (!rc)
		rc = stet_api_open_device(&slow->base, NULL, NULL, &vol);
	if (rc)
		die(path, rc);
	return vol;
}

struct committer {
	struct stet_volume *vol;
	int number;
	pthread_t thread;
	_Atomic uint64_t commits;
};

static _Atomic bool over;

static void *commit_on(void *arg)
{
	struct committer *c = arg;
	struct stet_file *file;
	struct stet_txn *txn;
	char name[16], record[100];
	int rc;

	memset(record, c->number, sizeof(record));
	snprintf(name, sizeof(name), "f%d", c->number);
	while (!atomic_load(&over)) {
		rc = stet_begin(c->vol, STET_BEGIN_SNAPSHOT, &txn);
		if (!rc)
			rc = stet_openat(c->vol, txn, STET_ROOT, name, O_WRONLY | O_CREAT, 0644,
					 &file);
		if (rc)
			die("begin", rc);
		ssize_t n = stet_pwrite(file, record, sizeof(record),
					atomic_load(&c->commits) % 40 * sizeof(record));
		stet_file_close(file);
		rc = n < 0 ? (int)n : stet_commit(txn, 0);
		if (rc)
			die("commit", rc);
		atomic_fetch_add(&c->commits, 1);
	}
	return NULL;
}

static void measure(struct stet_volume *vol, struct slow *slow, int threads)
{
	struct committer c[THREADS_MAX] = { 0 };
	uint64_t commits = 0;
	struct timespec ts = { .tv_sec = (time_t)seconds,
			       .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };

	atomic_store(&over, false);
	for (int i = 0; i < threads; i++) {
		c[i].vol = vol;
		c[i].number = i;
		if (pthread_create(&c[i].thread, NULL, commit_on, &c[i]))
			die("pthread_create", -EAGAIN);
	}
	nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	for (int i = 0; i < threads; i++)
		commits -= atomic_load(&c[i].commits);
	int64_t spent = atomic_load(&slow->spent_ns), flushes = atomic_load(&slow->flushes);
	int64_t start = now_ns();
	nanosleep(&ts, NULL);
	double took = (double)(now_ns() - start) / 1e9;
	for (int i = 0; i < threads; i++)
		commits += atomic_load(&c[i].commits);
	flushes = atomic_load(&slow->flushes) - flushes;
	spent = atomic_load(&slow->spent_ns) - spent;
	atomic_store(&over, true);
	for (int i = 0; i < threads; i++)
		pthread_join(c[i].thread, NULL);
	double flush_s = flushes ? (double)spent / 1e9 / (double)flushes : 0;
	double rate = (double)commits / took;

	printf("%7d %9.3f %10.0f %9.1f %9.2f %7.2f\n", threads, flush_s * 1e3, rate,
	       flushes ? (double)commits / (double)flushes : 0, threads / rate / flush_s,
	       rate * flush_s / threads);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const int64_t extra_us[] = { 0, 200, 1000, 5000 };
	static const int threads[] = { 1, 2, 8, 32, 64 };
	struct slow *slow = calloc(1, sizeof(*slow));
	struct stet_volume *vol;

	if (argc < 2 || argc > 3 || !slow) {
		fprintf(stderr, "usage: bench_commit FILE [SECONDS]\n");
		return 2;
	}
	if (argc == 3)
		seconds = atof(argv[2]);
	vol = open_volume(argv[1], slow);
	printf("%7s %9s %10s %9s %9s %7s\n", "threads", "flush ms", "commits/s", "per flush",
	       "latency", "ideal");
	for (size_t i = 0; i < sizeof(extra_us) / sizeof(extra_us[0]); i++) {
		atomic_store(&slow->extra_ns, extra_us[i] * 1000);
		for (size_t k = 0; k < sizeof(threads) / sizeof(threads[0]); k++)
			measure(vol, slow, threads[k]);
	}
	atomic_store(&slow->extra_ns, 0);
	int rc = stet_close(vol);
	if (rc)
		die("close", rc);
	return unlink(argv[1]) != 0;
}
