/* engine.c - reading and writing by pread/pwrite, libaio or io_uring. */
#include "files.h"

#include <errno.h>
#include <libaio.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum engine_kind engine;
static io_context_t aio;
static struct io_uring uring;

void engine_init(enum engine_kind kind)
{
	int rc = 0;

	engine = kind;
	if (kind == ENGINE_AIO)
		rc = io_setup(PIECES_MAX, &aio);
	else if (kind == ENGINE_URING)
		rc = io_uring_queue_init(PIECES_MAX, &uring, 0);
	if (rc == -ENOSYS || rc == -EPERM) {
		printf("not here: %s\n", strerror(-rc)); /* some sandboxes have no io_uring */
		exit(EX_SKIP);
	}
	if (rc < 0)
		ex_fail("set up the engine: %s", strerror(-rc));
}

static void run_plain(struct request *r)
{
	r->result = r->write ? pwrite(r->fd, r->buf, r->len, (off_t)r->off)
			     : pread(r->fd, r->buf, r->len, (off_t)r->off);
	if (r->result < 0)
		r->result = -errno;
}

static void run_aio(struct request *request, size_t count)
{
	struct iocb cb[PIECES_MAX], *list[PIECES_MAX];
	struct io_event event[PIECES_MAX];
	long done = 0;

	for (size_t i = 0; i < count; i++) {
		struct request *r = &request[i];

		if (r->write)
			io_prep_pwrite(&cb[i], r->fd, r->buf, r->len, (long long)r->off);
		else
			io_prep_pread(&cb[i], r->fd, r->buf, r->len, (long long)r->off);
		cb[i].data = r;
		list[i] = &cb[i];
	}
	for (size_t sent = 0; sent < count;) {
		int n = io_submit(aio, (long)(count - sent), list + sent);

		if (n < 0) { /* the first of the rest was refused; the others may be taken */
			request[sent].result = n;
			sent++;
			done++;
		} else {
			sent += (size_t)n;
		}
	}
	while (done < (long)count) {
		int n = io_getevents(aio, 1, (long)count - done, event, NULL);

		if (n < 0 && n != -EINTR)
			ex_fail("io_getevents: %s", strerror(-n));
		for (int i = 0; i < n; i++)
			((struct request *)event[i].data)->result = (ssize_t)event[i].res;
		done += n > 0 ? n : 0;
	}
}

static void run_uring(struct request *request, size_t count)
{
	int rc;

	for (size_t i = 0; i < count; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&uring);
		struct request *r = &request[i];

		if (!sqe)
			ex_fail("io_uring: no entry");
		if (r->write)
			io_uring_prep_write(sqe, r->fd, r->buf, (unsigned)r->len, r->off);
		else
			io_uring_prep_read(sqe, r->fd, r->buf, (unsigned)r->len, r->off);
		io_uring_sqe_set_data(sqe, r);
	}
	rc = io_uring_submit(&uring);
	if (rc != (int)count)
		ex_fail("io_uring_submit: %d of %zu", rc, count);
	for (size_t i = 0; i < count; i++) {
		struct io_uring_cqe *cqe;

		rc = io_uring_wait_cqe(&uring, &cqe);
		if (rc)
			ex_fail("io_uring_wait_cqe: %s", strerror(-rc));
		((struct request *)io_uring_cqe_get_data(cqe))->result = cqe->res;
		io_uring_cqe_seen(&uring, cqe);
	}
}

void engine_run(struct request *request, size_t count)
{
	switch (engine) {
	case ENGINE_PLAIN:
		for (size_t i = 0; i < count; i++)
			run_plain(&request[i]);
		break;
	case ENGINE_AIO:
		run_aio(request, count);
		break;
	case ENGINE_URING:
		run_uring(request, count);
		break;
	}
}
