/* control_server.c - the daemon's side of the control socket.
 *
 * One thread accepts, each connection has a thread of its own; requests on it are done one after
 * the other.
 *
 * I1. A transaction begun on a connection (not detached) is aborted when the connection ends,
 *     however it ends; so its life is the client's.
 * I2. Who the client is, the kernel says (SO_PEERCRED), when it connects. A transaction is for
 *     the uid that began it and for root; shutdown and cleaning for root and our own uid.
 * I3. A transaction is ended by one request only (view.c, I1), also when two connections try.
 * I4. Shutting down refuses while transactions are open: the mount may be busy in other
 *     namespaces (`run`) without umount(2) noticing. While it tries, no transaction begins.
 * I5. Stopping closes all sockets and waits for all threads; a commit in progress is finished
 *     first. Answers under way have a moment to be read.
 * I6. Anyone may connect, so nobody can hold up others: a client that does not read its answers
 *     is given up after a while, and so is one that takes too long to read all of one; users other
 *     than root and us have a limited number of connections and of transactions, each and together
 *     (one may have many numbers). With those, descriptors do not run out for root. Who is refused is
 *     told so, with an answer to the request that he has sent or not.
 * I7. A transaction of the mount takes no locks by reading: whoever may read a file could otherwise
 *     keep others from writing it.
 * I8. Half of what a command does is never committed: a transaction that is bound to a connection is
 *     committed by no other one, nor is a part of it dropped. (All of it may be.)
 *
 * Lock: control.lock, for the list of connections; it is held while nothing else is.
 */
#include "fuse/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)256 * 1024)
#define BACKLOG 64
#define AGE_STEP_MS 500
#define SEND_TIMEOUT_S 10 /* I6, and those that follow */
#define ANSWER_TIMEOUT_S 120
#define CONNECTIONS_MAX 64u      /* of one user */
#define ALL_CONNECTIONS_MAX 512u /* of all users together, root and us not counted */
#define STOP_GRACE_S 5           /* I5 */

/* --- answers --- */

int stet_fuse_answer_end_(struct stet_fuse_connection *c, struct stet_fuse_wire head,
			  const char *text)
{
	head.kind = STET_FUSE_WIRE_END;
	return stet_fuse_wire_send_(c->fd, head, text, strlen(text), NULL);
}

int stet_fuse_answer_(struct stet_fuse_connection *c, int rc, const char *why)
{
	struct stet_fuse_wire head = { .result = rc };

	if (rc && !why)
		why = stet_error_text()[0] ? stet_error_text() : strerror(-rc);
	return stet_fuse_answer_end_(c, head, rc ? why : "");
}

static int64_t now_s(void)
{
	return stet_fuse_now_ms_() / 1000;
}

/* I6 */
int stet_fuse_answer_item_(struct stet_fuse_connection *c, struct stet_fuse_wire head,
			   const void *a, size_t a_len, const char *b)
{
	if (now_s() > c->give_up_s || now_s() > c->control->give_up_s)
		return -EPIPE;
	head.kind = STET_FUSE_WIRE_ITEM;
	return stet_fuse_wire_send_(c->fd, head, a, a_len, b);
}

bool stet_fuse_is_owner_(const struct stet_fuse_connection *c)
{
	return c->peer.uid == 0 || c->peer.uid == geteuid();
}

/* --- connections --- */

/* < 0: the connection is over. */
static int answer(struct stet_fuse_connection *c)
{
	switch (c->in.head.kind) {
	case STET_FUSE_WIRE_SYNC:
	case STET_FUSE_WIRE_STATFS:
	case STET_FUSE_WIRE_STATS:
	case STET_FUSE_WIRE_CLEAN:
	case STET_FUSE_WIRE_SHUTDOWN:
		return stet_fuse_request_volume_(c);
	default:
		return stet_fuse_request_txn_(c);
	}
}

static void *serve_connection(void *arg)
{
	struct stet_fuse_connection *c = arg;
	bool is_library = stet_ll_is_client(c->fd) == 1;
	int rc = is_library ? -EPIPE : stet_fuse_wire_init_(&c->in);

	if (is_library)
		stet_fuse_serve_library_(c);
	while (!rc) {
		rc = stet_fuse_wire_receive_(c->fd, &c->in);
		if (rc == -EPROTO)
			stet_fuse_answer_(c, rc, "the daemon is of another version");
		c->give_up_s = now_s() + ANSWER_TIMEOUT_S;
		if (!rc)
			rc = answer(c);
	}
	stet_fuse_txns_leave_(c);   /* I1 */
	shutdown(c->fd, SHUT_RDWR); /* it is closed when it is reaped */
	stet_fuse_wire_release_(&c->in);
	pthread_mutex_lock(&c->control->lock);
	c->over = true;
	pthread_mutex_unlock(&c->control->lock);
	return NULL;
}

static void free_connection(struct stet_fuse_connection *c)
{
	close(c->fd);
	free(c);
}

/* Joins the threads that are over; all: every one. */
static void reap(struct stet_fuse_control_server *control, bool all)
{
	for (;;) {
		struct stet_fuse_connection *c = NULL;

		pthread_mutex_lock(&control->lock);
		for (struct stet_fuse_list *l = control->connections.next;
		     l != &control->connections && !c; l = l->next) {
			c = stet_fuse_container_of(l, struct stet_fuse_connection, link);
			if (!all && !c->over)
				c = NULL;
		}
		if (c)
			stet_fuse_list_del(&c->link);
		pthread_mutex_unlock(&control->lock);
		if (!c)
			return;
		pthread_join(c->thread, NULL);
		free_connection(c);
	}
}

static int start_thread(pthread_t *ret, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(ret, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return -rc;
}

/* I6. Under control.lock. */
static bool is_one_too_many_locked(const struct stet_fuse_connection *c)
{
	const struct stet_fuse_list *list = &c->control->connections;
	unsigned count = 0, all = 0;

	for (const struct stet_fuse_list *l = list->next; l != list && !stet_fuse_is_owner_(c);
	     l = l->next) {
		const struct stet_fuse_connection *other =
			stet_fuse_container_of(l, struct stet_fuse_connection, link);

		if (other->over)
			continue;
		count += other->peer.uid == c->peer.uid;
		all += !stet_fuse_is_owner_(other);
	}
	return count >= CONNECTIONS_MAX || all >= ALL_CONNECTIONS_MAX;
}

/* The client may have sent its request already, or do so until it sees that we are gone. It must not
 * find the connection reset by what nobody has read, before it reads why. */
static void refuse_connection(struct stet_fuse_connection *c, int rc)
{
	char rest[64];

	stet_fuse_answer_(c, rc, rc == -EMFILE ? "too many connections are open" : NULL);
	shutdown(c->fd, SHUT_RD); /* nothing more comes; what came is dropped */
	while (recv(c->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
}

/* Under control.lock. */
static int start_locked(struct stet_fuse_connection *c)
{
	int rc;

	if (is_one_too_many_locked(c))
		return -EMFILE;
	rc = start_thread(&c->thread, serve_connection, c);
	if (!rc)
		stet_fuse_list_add(&c->control->connections, &c->link);
	return rc;
}

static void start_connection(struct stet_fuse_control_server *control, int fd)
{
	const struct timeval send_timeout = { .tv_sec = SEND_TIMEOUT_S };
	struct stet_fuse_connection *c = calloc(1, sizeof(*c));
	socklen_t len = sizeof(c->peer);
	int rc = -ESHUTDOWN; /* then nothing is told: to the client the daemon has gone */

	if (!c) {
		close(fd);
		return;
	}
	c->control = control;
	c->server = control->server;
	c->fd = fd;
	stet_fuse_list_init(&c->bound);
	stet_fuse_list_init(&c->joined);
	stet_fuse_list_init(&c->link);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &len) == 0 && /* I2 */
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof(send_timeout)) == 0) {
		pthread_mutex_lock(&control->lock);
		if (!control->stopping)
			rc = start_locked(c);
		pthread_mutex_unlock(&control->lock);
	}
	if (rc && rc != -ESHUTDOWN)
		refuse_connection(c, rc);
	if (rc)
		free_connection(c);
}

/* Until somebody comes; meanwhile what is too old is dropped. */
static void wait_for_somebody(struct stet_fuse_control_server *control)
{
	struct pollfd p = { .fd = control->listen_fd, .events = POLLIN };
	int64_t max_ms = control->server->options->max_age_ms;

	if (!max_ms)
		return;
	do {
		stet_fuse_views_expire_(control->server, stet_fuse_now_ms_() - max_ms);
	} while (poll(&p, 1, AGE_STEP_MS) == 0);
}

static void *accept_connections(void *arg)
{
	struct stet_fuse_control_server *control = arg;

	for (;;) {
		int fd;

		wait_for_somebody(control);
		fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0) {
			start_connection(control, fd);
			reap(control, false);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
			usleep(10000);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return NULL; /* I5: shut down */
		}
	}
}

/* --- start and stop --- */

static int listen_at(struct stet_fuse_control_server *control)
{
	const struct sockaddr_un *addr = &control->address;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	control->listen_fd = fd;
	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) != 0 ||
	    chmod(addr->sun_path, control->server->shared ? 0666 : 0600) != 0 ||
	    listen(fd, BACKLOG) != 0)
		return -errno;
	return 0;
}

/* The record, and with it the name of the socket. */
static int announce(struct stet_fuse_control_server *control)
{
	const struct stet_fuse_server *server = control->server;
	struct stet_ll_server *what = calloc(1, sizeof(*what));
	struct timespec now;
	int rc;

	if (!what)
		return -ENOMEM;
	clock_gettime(CLOCK_BOOTTIME, &now);
	what->since_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	what->read_only = server->read_only;
	what->dev = server->dev;
	snprintf(what->dir, sizeof(what->dir), "%s", server->dir);
	snprintf(what->volume, sizeof(what->volume), "%s", server->volume);
	rc = stet_ll_announce(what, &control->announced);
	if (!rc) {
		control->address.sun_family = AF_UNIX;
		memcpy(control->address.sun_path, what->socket, sizeof(what->socket));
	}
	free(what);
	return rc;
}

static int start(struct stet_fuse_control_server *control)
{
	const struct stet_ll_service_options options = {
		.open_locks = true,
		.mount = &stet_fuse_library_mount_,
	};
	int rc = stet_ll_service_create(control->server->vol, &options, &control->service);

	if (!rc)
		rc = announce(control);
	if (!rc)
		rc = listen_at(control);
	if (!rc)
		rc = start_thread(&control->thread, accept_connections, control);
	control->has_thread = !rc;
	return rc;
}

int stet_fuse_control_start_(struct stet_fuse_server *server, char *why, size_t cap)
{
	struct stet_fuse_control_server *control = calloc(1, sizeof(*control));
	int rc;

	if (!control)
		return stet_fuse_why_(why, cap, -ENOMEM, "no memory");
	server->control = control;
	control->server = server;
	control->listen_fd = -1;
	control->give_up_s = INT64_MAX;
	pthread_mutex_init(&control->lock, NULL);
	stet_fuse_list_init(&control->connections);
	rc = start(control);
	if (rc)
		return stet_fuse_why_(why, cap, rc, "control socket: %s",
				      control->announced ? strerror(-rc) : stet_error_text());
	return 0;
}

/* Requests of the kernel may still come that are about it. */
static void end_service(struct stet_fuse_control_server *control)
{
	struct stet_ll_service *service;

	pthread_mutex_lock(&control->lock);
	service = control->service;
	control->service = NULL;
	pthread_mutex_unlock(&control->lock);
	stet_ll_service_destroy(service);
}

/* I5 */
void stet_fuse_control_stop_(struct stet_fuse_server *server)
{
	struct stet_fuse_control_server *control = server->control;

	if (!control)
		return;
	if (!control->has_thread) {
		end_service(control);
		return;
	}
	pthread_mutex_lock(&control->lock);
	control->stopping = true;
	stet_ll_service_stop(control->service);
	control->give_up_s = now_s() + STOP_GRACE_S;
	shutdown(control->listen_fd, SHUT_RDWR);
	for (struct stet_fuse_list *l = control->connections.next; l != &control->connections;
	     l = l->next)
		shutdown(stet_fuse_container_of(l, struct stet_fuse_connection, link)->fd,
			 SHUT_RD); /* answers still go */
	pthread_mutex_unlock(&control->lock);
	pthread_join(control->thread, NULL);
	reap(control, true);
	control->has_thread = false;
	end_service(control);
}

void stet_fuse_control_remove_(struct stet_fuse_server *server)
{
	struct stet_fuse_control_server *control = server->control;

	if (!control)
		return;
	stet_ll_announce_end(control->announced);
	if (control->listen_fd >= 0)
		close(control->listen_fd);
	pthread_mutex_destroy(&control->lock);
	free(control);
	server->control = NULL;
}
