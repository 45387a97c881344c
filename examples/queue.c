/* queue.c - a queue: every job is done once, whoever takes it and whatever fails in between.
 *
 *	queue IMAGE
 *
 * Jobs are records of a table, in the order of their keys. Who takes a job removes it and writes its result in
 * one transaction, so a worker that dies half way has taken nothing. The level is LOCKING: workers wait
 * for each other instead of failing. What waits in a circle is told so (-EDEADLK) and starts again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stetfs.h>

#define WORKERS 4
#define JOBS 200

struct queue {
	struct stet_volume *vol;
	struct stet_table *jobs, *results;
};

struct worker {
	struct queue *queue;
	pthread_t thread;
	int done, rc;
};

static bool again(int rc)
{
	return rc == -EBUSY || rc == -EDEADLK;
}

/* [take] */
#define JOB_KEY_MAX 31
#define JOB_MAX 63

/* The first job: its key (its length is returned; 0: there is none) and what is to be done. */
static int first_job(struct queue *queue, struct stet_txn *txn, char key[JOB_KEY_MAX + 1],
		     char what[JOB_MAX + 1])
{
	const struct stet_bounds all = { .update = true }; /* it will be taken */
	struct stet_record record;
	struct stet_cursor *cursor;
	int rc = stet_cursor_open(queue->jobs, txn, &all, &cursor);
	int len = 0;

	if (rc)
		return rc;
	rc = stet_cursor_next(cursor, &record);
	if (rc == 1 && (record.key_len > JOB_KEY_MAX || record.value_len > JOB_MAX))
		rc = -EUCLEAN; /* not given by this program */
	if (rc == 1) {
		len = (int)record.key_len;
		memcpy(key, record.key, record.key_len);
		memcpy(what, record.value, record.value_len);
		what[record.value_len] = 0;
	}
	stet_cursor_close(cursor);
	return rc < 0 ? rc : len;
}

static int take_in(struct queue *queue, struct stet_txn *txn, const char *name)
{
	char key[JOB_KEY_MAX + 1], what[JOB_MAX + 1], result[128];
	int len = first_job(queue, txn, key, what);
	int rc;

	if (len <= 0)
		return len;
	rc = stet_del(queue->jobs, txn, key, (size_t)len);
	if (!rc) {
		snprintf(result, sizeof(result), "%s, done by %s", what, name);
		rc = stet_put(queue->results, txn, key, (size_t)len, result, strlen(result),
			      STET_PUT_CREATE);
	}
	return rc ? rc : 1;
}

/* 1: a job was taken and done; 0: there is none. */
static int take(struct queue *queue, const char *name)
{
	struct stet_txn *txn;
	int taken = 0;
	int rc;

	do {
		rc = stet_begin(queue->vol, STET_BEGIN_LOCKING, &txn);
		if (rc)
			return rc;
		taken = take_in(queue, txn, name);
		rc = taken < 0 ? taken : stet_commit(txn, 0);
		if (rc)
			stet_abort(txn);
	} while (again(rc));
	return rc ? rc : taken;
}
/* [end] */

/* [give] */
/* Appends a job: at the next number, which is a record too. */
static int give_in(struct queue *queue, struct stet_txn *txn, const char *what)
{
	char key[32], number[24] = "0";
	ssize_t n = stet_get(queue->results, txn, "last", 4, number, sizeof(number) - 1,
			     STET_GET_UPDATE);
	int rc;

	if (n < 0 && n != -ENOENT)
		return (int)n;
	snprintf(number, sizeof(number), "%ld", strtol(number, NULL, 10) + 1);
	snprintf(key, sizeof(key), "job-%08ld", strtol(number, NULL, 10));
	rc = stet_put(queue->results, txn, "last", 4, number, strlen(number), 0);
	return rc ? rc
		  : stet_put(queue->jobs, txn, key, strlen(key), what, strlen(what),
			     STET_PUT_CREATE);
}
/* [end] */

static int give(struct queue *queue, const char *what)
{
	struct stet_txn *txn;
	int rc;

	do {
		rc = stet_begin(queue->vol, STET_BEGIN_LOCKING, &txn);
		if (rc)
			return rc;
		rc = give_in(queue, txn, what);
		if (!rc)
			rc = stet_commit(txn, 0);
		if (rc)
			stet_abort(txn);
	} while (again(rc));
	return rc;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	char name[32];

	snprintf(name, sizeof(name), "worker %d", (int)(worker->thread % 1000));
	while ((worker->rc = take(worker->queue, name)) == 1)
		worker->done++;
	return NULL;
}

static int run(struct queue *queue)
{
	struct worker workers[WORKERS];
	uint64_t left = 0, results = 0;
	char what[64];
	int rc = 0, done = 0;

	for (int i = 0; i < JOBS && !rc; i++) {
		snprintf(what, sizeof(what), "resize photo %d", i);
		rc = give(queue, what);
	}
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ .queue = queue };
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			abort();
	}
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(workers[i].thread, NULL);
		done += workers[i].done;
		rc = rc ? rc : workers[i].rc;
	}
	if (!rc)
		rc = stet_count(queue->jobs, NULL, NULL, &left);
	if (!rc)
		rc = stet_count(queue->results, NULL, NULL, &results);
	printf("%d jobs done, %" PRIu64 " left\n", done, left);
	if (!rc && (done != JOBS || left != 0 || results != JOBS + 1))
		rc = -EUCLEAN;
	return rc;
}

static int open_queue(struct queue *queue)
{
	int rc = stet_table_open(queue->vol, NULL, STET_ROOT, "jobs", O_RDWR | O_CREAT, 0644,
				 &queue->jobs);

	return rc ? rc
		  : stet_table_open(queue->vol, NULL, STET_ROOT, "results", O_RDWR | O_CREAT, 0644,
				    &queue->results);
}

/* Before the next call: the text is of the last one that failed. */
static void report(int rc)
{
	if (rc)
		fprintf(stderr, "queue: %s (%s)\n", strerror(-rc), stet_error_text());
}

int main(int argc, char **argv)
{
	struct stet_mkfs_options options = { .size_bytes = (uint64_t)32 << 20, .force = true };
	struct queue queue;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: queue IMAGE (made anew; one that is mounted is used as it "
				"is, once)\n");
		return 2;
	}
	rc = stet_mkfs(argv[1], &options);
	if (!rc || rc == -EBUSY || rc == -EACCES) /* it is mounted: then its daemon does the work */
		rc = stet_open(argv[1], NULL, &queue.vol);
	if (!rc) {
		rc = open_queue(&queue);
		if (rc) {
			report(rc);
		} else {
			rc = run(&queue);
			report(rc);
			stet_table_close(queue.jobs);
			stet_table_close(queue.results);
		}
		if (stet_close(queue.vol) != 0)
			rc = -EIO;
	} else {
		report(rc);
	}
	return rc ? 1 : 0;
}
