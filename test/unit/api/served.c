/* served.c - see served.h. */
#include "served.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "remote/remote.h"

#define CONNECTIONS_MAX 4096 /* ever accepted */

struct served {
	struct stet_ll_service *service;
	int listen_fd;
	struct sockaddr_un address;
	pthread_t thread;
	unsigned count;
	struct connection {
		struct served *server;
		int fd;
		pthread_t thread;
	} connection[CONNECTIONS_MAX];
};

static void *serve(void *arg)
{
	struct connection *c = arg;
	struct stet_ll_who who = { .uid = geteuid(), .gid = getegid(), .pid = getpid() };

	if (stet_ll_is_client(c->fd) == 1)
		stet_ll_serve(c->server->service, c->fd, &who);
	shutdown(c->fd, SHUT_RDWR);
	return NULL;
}

static void *accept_all(void *arg)
{
	struct served *s = arg;
	int fd;

	while ((fd = accept(s->listen_fd, NULL, NULL)) >= 0) {
		struct connection *c = &s->connection[s->count];

		if (s->count == CONNECTIONS_MAX) {
			fprintf(stderr, "more than %d connections\n", CONNECTIONS_MAX);
			abort();
		}
		c->server = s;
		c->fd = fd;
		if (pthread_create(&c->thread, NULL, serve, c))
			abort();
		s->count++;
	}
	return NULL;
}

static int64_t real_ns(struct stet_clock *clock)
{
	struct timespec t;

	(void)clock;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int start_listening(struct served *s)
{
	static atomic_uint number;

	s->address.sun_family = AF_UNIX;
	snprintf(s->address.sun_path, sizeof(s->address.sun_path), "/tmp/stet-unit-%d-%u",
		 (int)getpid(), number++);
	unlink(s->address.sun_path);
	s->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s->listen_fd < 0 ||
	    bind(s->listen_fd, (struct sockaddr *)&s->address, sizeof(s->address)) ||
	    listen(s->listen_fd, 64))
		return -errno;
	return -pthread_create(&s->thread, NULL, accept_all, s);
}

int served_start(struct stet_volume *local, const struct stet_ll_service_options *options,
		 struct served **ret, struct stet_volume **ret_client)
{
	static struct stet_clock clock = { .wall_ns = real_ns, .mono_ns = real_ns };
	struct served *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	rc = stet_ll_service_create(local, options, &s->service);
	if (!rc)
		rc = start_listening(s);
	if (!rc)
		rc = stet_remote_open(s->address.sun_path, -1, false, &clock, ret_client);
	*ret = s;
	return rc; /* after which the test has failed: nothing is undone */
}

void served_stop(struct served *s)
{
	stet_ll_service_stop(s->service);
	shutdown(s->listen_fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	for (unsigned i = 0; i < s->count; i++) {
		shutdown(s->connection[i].fd, SHUT_RDWR);
		pthread_join(s->connection[i].thread, NULL);
		close(s->connection[i].fd);
	}
	close(s->listen_fd);
	unlink(s->address.sun_path);
	stet_ll_service_destroy(s->service);
	free(s);
}
