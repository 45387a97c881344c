/* connection.c - connections to the server, and who has which.
 *
 * C1. A connection is either idle, on the volume's list, or belongs to the call that has taken it.
 * C2. While the session is good one connection stays, idle or busy; so it lives (R1).
 * C3. When the server refuses one more connection, calls wait a while for those that there are. Those may
 *     all wait for a lock that only a further call would release: so as soon as there are two calls at once
 *     there is a connection in reserve, for calls that end handles. Where it cannot be had, or does not
 *     help, the session is given up rather than to wait for ever.
 * C4. A server that has gone closes all connections, so every thread that waits for an answer learns of
 *     it by itself.
 */
#include "remote/remote_internal.h"

#include "base/endian.h"
#include "remote/reach.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_MAX 16u
#define PATIENCE_NS (INT64_C(10) * 1000000000)
#define MUST_PATIENCE_NS (INT64_C(60) * 1000000000) /* of calls that end handles */

static int open_socket(const struct sockaddr_un *address, int *ret_fd)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int size = 2 * (int)STET_WIRE_PACKET_MAX;
	int rc;

	if (fd < 0)
		return STET_FAIL(-errno, "socket: %s", strerror(errno));
	do {
		rc = connect(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;
	} while (rc == -EINTR);
	/* If that is not allowed, what there is does for one packet. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (rc) {
		close(fd);
		return STET_FAIL(rc, "%s: %s", address->sun_path, strerror(-rc));
	}
	*ret_fd = fd;
	return 0;
}

/* A control socket that serves other clients too refuses in its own words (fuse/control_internal.h): a
 * head that begins with a version, a kind and the result. */
static int foreign_answer(const uint8_t *packet)
{
	int32_t result = (int32_t)stet_get_le32(packet + 8);

	if (result == -EMFILE)
		return STET_FAIL(-EMFILE, "too many connections are open");
	return STET_FAIL(-EPROTO, "the process that holds the volume is of another version");
}

/* A request of the greeting, and its answer: which session it is, or else what is to be shown. */
static int greet(struct stet_remote_volume *vol, struct stet_remote_conn *conn, uint32_t kind,
		 const struct stet_wire_out *out, const char **ret_word)
{
	struct stet_wire_message msg = { 0 };
	uint64_t token[2];
	int rc;

	memset(conn->packet, 0, STET_WIRE_HEAD_SIZE);
	rc = stet_wire_send(conn->fd, kind, 0, out, NULL, 0);
	/* Also if that failed: who is refused is told so. */
	if (rc != -EMSGSIZE)
		rc = stet_wire_receive(conn->fd, conn->packet, &msg);
	if (rc == -EPROTO || (!rc && msg.kind != STET_WIRE_END))
		return foreign_answer(conn->packet);
	if (rc)
		return STET_FAIL(-EPIPE, "the process that holds the volume has gone");
	if (msg.result < 0) {
		stet_error_note((int)msg.result, "",
				stet_wire_get_text(&msg.args, STET_WIRE_ARGS_MAX));
		return (int)msg.result;
	}
	token[0] = stet_wire_get_u64(&msg.args);
	token[1] = stet_wire_get_u64(&msg.args);
	*ret_word = stet_wire_get_text(&msg.args, STET_WIRE_ARGS_MAX);
	if (msg.args.bad || msg.args.left || msg.data_len)
		return STET_FAIL(-EPROTO, "not the answer that was expected");
	if (!vol->token[0] && !vol->token[1])
		memcpy(vol->token, token, sizeof(token));
	return 0;
}

static int say_hello(struct stet_remote_volume *vol, struct stet_remote_conn *conn)
{
	struct stet_wire_out out = { .p = conn->args, .cap = STET_WIRE_ARGS_MAX };
	const char *word;
	int rc;

	stet_wire_put_u32(&out, STET_WIRE_VERSION);
	stet_wire_put_u32(&out, vol->read_only ? STET_WIRE_READ_ONLY : 0);
	stet_wire_put_u64(&out, vol->token[0]);
	stet_wire_put_u64(&out, vol->token[1]);
	rc = greet(vol, conn, STET_WIRE_HELLO, &out, &word);
	if (!rc && word[0])
		rc = stet_reach_show(vol->reach_fd, word, !vol->read_only);
	if (!rc && word[0])
		rc = greet(vol, conn, STET_WIRE_SHOWN, NULL, &word);
	if (!rc && !vol->token[0] && !vol->token[1])
		rc = STET_FAIL(-EPROTO, "not the answer that was expected");
	return rc;
}

int stet_remote_connect_(struct stet_remote_volume *vol, struct stet_remote_conn **ret)
{
	struct stet_remote_conn *conn = stet_calloc(1, sizeof(*conn));
	int rc = 0;

	if (!conn)
		return STET_FAIL(-ENOMEM, "no memory for a connection");
	conn->fd = -1;
	stet_list_init(&conn->link);
	conn->packet = stet_alloc(STET_WIRE_PACKET_MAX);
	conn->args = stet_alloc(STET_WIRE_ARGS_MAX);
	if (!conn->packet || !conn->args)
		rc = STET_FAIL(-ENOMEM, "no memory for a connection");
	if (!rc)
		rc = open_socket(&vol->address, &conn->fd);
	if (!rc)
		rc = say_hello(vol, conn);
	if (rc)
		stet_remote_disconnect_(conn);
	else
		*ret = conn;
	return rc;
}

void stet_remote_disconnect_(struct stet_remote_conn *conn)
{
	if (!conn)
		return;
	if (conn->fd >= 0)
		close(conn->fd);
	stet_free(conn->packet);
	stet_free(conn->args);
	stet_free(conn);
}

/* C3 */
static struct stet_remote_conn *take_idle_locked(struct stet_remote_volume *vol, bool must)
{
	struct stet_list *first = stet_list_first(&vol->idle);
	struct stet_remote_conn *conn = NULL;

	stet_assert_held(&vol->lock);
	if (first) {
		conn = stet_container_of(first, struct stet_remote_conn, link);
		stet_list_del(first);
		vol->idle_count--;
	} else if (must && vol->reserve) {
		conn = vol->reserve;
		vol->reserve = NULL;
	}
	if (conn)
		stet_list_add_tail(&vol->busy, &conn->link);
	return conn;
}

static int gone(void)
{
	return STET_FAIL(-EPIPE, "the process that holds the volume has gone");
}

/* Has every call come to its end. */
static void give_up_locked(struct stet_remote_volume *vol)
{
	struct stet_list *pos;

	stet_assert_held(&vol->lock);
	vol->gone = true;
	STET_LIST_FOREACH(pos, &vol->busy)
		shutdown(stet_container_of(pos, struct stet_remote_conn, link)->fd, SHUT_RDWR);
	stet_cond_broadcast(&vol->freed);
}

/* C3 */
static int wait_for_idle_locked(struct stet_remote_volume *vol, bool must,
				struct stet_remote_conn **ret) STET_REQUIRES(vol->lock);
static int wait_for_idle_locked(struct stet_remote_volume *vol, bool must,
				struct stet_remote_conn **ret)
{
	int64_t deadline_ns = stet_clock_mono_ns(vol->clock) +
			      (must ? MUST_PATIENCE_NS : PATIENCE_NS);
	bool in_time = true;

	while (!vol->gone && !(*ret = take_idle_locked(vol, must)) && in_time)
		in_time = stet_cond_timedwait(&vol->freed, &vol->lock, deadline_ns);
	if (*ret)
		return 0;
	if (vol->gone)
		return gone();
	if (must)
		give_up_locked(vol);
	return STET_FAIL(-EMFILE, "too many connections are open");
}

/* One more; with the second one comes the reserve. */
static int connect_more(struct stet_remote_volume *vol, struct stet_remote_conn **ret)
{
	struct stet_remote_conn *conn;
	bool had_reserve;
	int rc = stet_remote_connect_(vol, &conn);

	if (rc)
		return rc;
	stet_mutex_lock(&vol->lock);
	had_reserve = vol->has_reserve;
	if (!had_reserve) {
		vol->has_reserve = true;
		vol->reserve = conn;
		stet_cond_signal(&vol->freed);
	}
	stet_mutex_unlock(&vol->lock);
	if (!had_reserve)
		rc = stet_remote_connect_(vol, &conn);
	if (!rc)
		*ret = conn;
	return rc;
}

int stet_remote_take_(struct stet_remote_volume *vol, bool must, struct stet_remote_conn **ret)
{
	struct stet_remote_conn *conn = NULL;
	int rc = 0;

	if (getpid() != vol->pid) /* R3 */
		return STET_FAIL(-EINVAL, "the volume was opened by another process");
	stet_mutex_lock(&vol->lock);
	if (vol->gone)
		rc = gone();
	else
		conn = take_idle_locked(vol, must);
	stet_mutex_unlock(&vol->lock);
	if (!rc && !conn) {
		rc = connect_more(vol, &conn);
		stet_mutex_lock(&vol->lock);
		if (!rc)
			stet_list_add_tail(&vol->busy, &conn->link);
		else
			rc = wait_for_idle_locked(vol, must, &conn);
		stet_mutex_unlock(&vol->lock);
	}
	if (!rc)
		*ret = conn;
	return rc;
}

/* It goes to where one is missing: the reserve, those that are idle; NULL then. */
static struct stet_remote_conn *keep_locked(struct stet_remote_volume *vol,
					    struct stet_remote_conn *conn)
{
	stet_assert_held(&vol->lock);
	if (vol->gone)
		return conn;
	if (vol->has_reserve && !vol->reserve) {
		vol->reserve = conn;
	} else if (vol->idle_count < IDLE_MAX) {
		stet_list_add_head(&vol->idle, &conn->link);
		vol->idle_count++;
	} else {
		return conn;
	}
	return NULL;
}

void stet_remote_give_back_(struct stet_remote_volume *vol, struct stet_remote_conn *conn,
			    bool broken)
{
	stet_mutex_lock(&vol->lock);
	stet_list_del(&conn->link);
	vol->gone = vol->gone || broken;
	conn = keep_locked(vol, conn);
	stet_cond_broadcast(&vol->freed); /* some wait for any, some for one of theirs */
	stet_mutex_unlock(&vol->lock);
	stet_remote_disconnect_(conn);
}
