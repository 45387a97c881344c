/* connection.h - a client of the control socket: what the files that answer it share.
 *
 * control_server.c accepts and ends connections, control_txns.c answers what is about transactions,
 * control_volume.c the rest. The invariants that they share, I1 to I8, are in control_server.c.
 */
#ifndef STET_FUSE_CONNECTION_H
#define STET_FUSE_CONNECTION_H

#include "fuse/control_internal.h"
#include "fuse/fuse_internal.h"

#include <sys/socket.h>
#include <sys/un.h>

struct stet_fuse_connection {
	/* --- set at start, then constant --- */
	struct stet_fuse_control_server *control;
	struct stet_fuse_server *server;
	int fd;
	struct ucred peer;
	pthread_t thread;

	/* --- of its thread --- */
	int64_t give_up_s;            /* when the answer under way must have been read; monotonic */
	struct stet_fuse_list bound;  /* of bound.link: those begun here */
	struct stet_fuse_list joined; /* of bound.link: those that a command of ours works in */
	struct stet_fuse_wire_in in;
	char *paths; /* owned; for the next request that is about a part; a NUL after each */
	size_t paths_len;

	/* --- under control.lock --- */
	struct stet_fuse_list link;
	bool over; /* the thread is about to end: to be joined */
};

struct stet_fuse_control_server {
	/* --- set at start, then constant --- */
	struct stet_fuse_server *server;
	int listen_fd;
	struct sockaddr_un address;
	struct stet_ll_announced *announced;
	struct stet_ll_service
		*service; /* of library clients (control_library.c); NULL, under lock: over */
	pthread_t thread;
	bool has_thread;

	/* --- under lock --- */
	pthread_mutex_t lock;
	struct stet_fuse_list connections;
	bool stopping;

	/* --- atomic --- */
	_Atomic bool no_begin;     /* I4 */
	_Atomic int64_t give_up_s; /* as of a connection, for all of them; I5 */
};

/// Answers (control_server.c): 0, or what ends the connection ///

/* The last one of a request; head: result and what else it tells. */
int stet_fuse_answer_end_(struct stet_fuse_connection *c, struct stet_fuse_wire head,
			  const char *text);
/* The last one, with a result alone. why NULL: the library's text, or the errno value's. */
int stet_fuse_answer_(struct stet_fuse_connection *c, int rc, const char *why);
/* One of several before the last. */
int stet_fuse_answer_item_(struct stet_fuse_connection *c, struct stet_fuse_wire head,
			   const void *a, size_t a_len, const char *b);
/* What the library is told of the mount that its clients use (control_library.c). */
extern const struct stet_ll_mount stet_fuse_library_mount_;
/* Serves a client of the library until it goes (control_library.c). */
void stet_fuse_serve_library_(struct stet_fuse_connection *c);
/* Root, or the daemon's own user? */
bool stet_fuse_is_owner_(const struct stet_fuse_connection *c);

/// Requests: the answer's result; negative: the connection is over ///

/* About transactions (control_txns.c). */
int stet_fuse_request_txn_(struct stet_fuse_connection *c);
/* What a connection leaves behind: bound transactions end, joined ones are left. */
void stet_fuse_txns_leave_(struct stet_fuse_connection *c);
/* About the volume and the mount (control_volume.c). */
int stet_fuse_request_volume_(struct stet_fuse_connection *c);

#endif
