/* remote.h - a volume that another process holds, used over its socket.
 *
 * The calls are those of stetfs.h, with the same results; the handles are this folder's. Of errors the
 * server's text and place are noted as if they had arisen here. Beside what a call says there is
 *   -EPIPE   the other process has gone, or has closed the connection: from then on all calls on the
 *            volume and its handles give this; handles can be ended, and the volume closed
 *   -EMFILE  it has too many connections of this user
 *
 * R1. A session is what the server knows of one stet_open: its handles. It lives while it has connections,
 *     and ends with all its handles, committing nothing, when the last one goes: so with this process,
 *     however that ends.
 * R2. A thread has a connection to itself for the time of a call: so a call that waits keeps none of
 *     another thread waiting. Connections are kept for the next call, and made when none is idle.
 * R3. A child made by fork() shares the connections and must not use them: its calls give -EINVAL.
 */
#ifndef STET_REMOTE_REMOTE_H
#define STET_REMOTE_REMOTE_H

#include "stetfs.h"

#include "base/clock.h"
#include "base/error.h"
#include "remote/calls.h"

/**
 * Connects to the server at that socket and opens a session. As connect(2); -EPROTO: it is of another
 * version; -EMFILE. reach_fd: the mount's root (stet_reach_open), borrowed for the call; -1: none.
 * clock: borrowed until close. The caller owns *ret (stet_close).
 */
STET_CHECKED int stet_remote_open(const char *socket, int reach_fd, bool read_only,
				  struct stet_clock *clock, struct stet_volume **ret);

#define STET_REMOTE_DECLARE(type, name, handle, other, err, params, args) \
	type stet_remote_##name params;
STET_CALLS(STET_REMOTE_DECLARE)
#undef STET_REMOTE_DECLARE
#define STET_REMOTE_DECLARE(type, name, handle, params, args) type stet_remote_##name params;
STET_CALLS_PLAIN(STET_REMOTE_DECLARE)
#undef STET_REMOTE_DECLARE
#define STET_REMOTE_DECLARE(name, handle, params, args) void stet_remote_##name params;
STET_CALLS_END(STET_REMOTE_DECLARE)
#undef STET_REMOTE_DECLARE

#endif
