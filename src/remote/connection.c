/* connection.c - connections to the server, and who has which.
 *
 * C1. A connection is either idle, on the volume's list, or belongs to the call that has taken it.
 * C2. While the session is good one connection stays, idle or busy; so it lives (R1).
 * C3. When the server refuses one more connection, calls wait for those that there are: those that end
 *     handles as long as it takes, others a while. (Those that there are may all wait for a lock that
 *     only a further call would release.)
 * C4. A server that has gone closes all connections, so every thread that waits for an answer learns of
 *     it by itself.
 */
#include "remote/remote_internal.h"

#include "base/endian.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_MAX 16u
#define PATIENCE_NS (INT64_C(10) * 1000000000)

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

static int say_hello(struct stet_remote_volume *vol, struct stet_remote_conn *conn)
{
	struct stet_wire_out out = { .p = conn->args, .cap = STET_WIRE_ARGS_MAX };
	struct stet_wire_message msg = { 0 };
	uint64_t token[2];
	int rc;

	stet_wire_put_u32(&out, STET_WIRE_VERSION);
	stet_wire_put_u32(&out, vol->read_only ? STET_WIRE_READ_ONLY : 0);
	stet_wire_put_u64(&out, vol->token[0]);
	stet_wire_put_u64(&out, vol->token[1]);
	memset(conn->packet, 0, STET_WIRE_HEAD_SIZE);
	rc = stet_wire_send(conn->fd, STET_WIRE_HELLO, 0, &out, NULL, 0);
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
	if (msg.args.bad || msg.args.left || msg.data_len)
		return STET_FAIL(-EPROTO, "not the answer that was expected");
	if (!vol->token[0] && !vol->token[1])
		memcpy(vol->token, token, sizeof(token));
	return 0;
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

static struct stet_remote_conn *take_idle(struct stet_remote_volume *vol)
{
	struct stet_list *first = stet_list_first(&vol->idle);

	if (!first)
		return NULL;
	stet_list_del(first);
	vol->idle_count--;
	vol->busy_count++;
	return stet_container_of(first, struct stet_remote_conn, link);
}

/* C3 */
static int wait_for_idle(struct stet_remote_volume *vol, bool must, struct stet_remote_conn **ret)
	STET_REQUIRES(vol->lock);
static int wait_for_idle(struct stet_remote_volume *vol, bool must, struct stet_remote_conn **ret)
{
	int64_t deadline_ns = stet_clock_mono_ns(vol->clock) + PATIENCE_NS;
	bool in_time = true;

	stet_assert_held(&vol->lock);
	while (!vol->gone && !(*ret = take_idle(vol))) {
		if (must)
			stet_cond_wait(&vol->freed, &vol->lock);
		else if (in_time)
			in_time = stet_cond_timedwait(&vol->freed, &vol->lock, deadline_ns);
		else
			return STET_FAIL(-EMFILE, "too many connections are open");
	}
	return *ret ? 0 : STET_FAIL(-EPIPE, "the process that holds the volume has gone");
}

int stet_remote_take_(struct stet_remote_volume *vol, bool must, struct stet_remote_conn **ret)
{
	struct stet_remote_conn *conn = NULL;
	int rc = 0;

	if (getpid() != vol->pid) /* R3 */
		return STET_FAIL(-EINVAL, "the volume was opened by another process");
	stet_mutex_lock(&vol->lock);
	if (vol->gone)
		rc = STET_FAIL(-EPIPE, "the process that holds the volume has gone");
	else
		conn = take_idle(vol);
	stet_mutex_unlock(&vol->lock);
	if (rc || conn) {
		*ret = conn;
		return rc;
	}
	rc = stet_remote_connect_(vol, &conn);
	stet_mutex_lock(&vol->lock);
	if (!rc) {
		vol->busy_count++;
	} else if (vol->busy_count + vol->idle_count > 0) { /* C2 */
		rc = wait_for_idle(vol, must, &conn);
	} else {
		vol->gone = true;
		rc = STET_FAIL(-EPIPE, "the process that holds the volume has gone");
	}
	stet_mutex_unlock(&vol->lock);
	if (!rc)
		*ret = conn;
	return rc;
}

void stet_remote_give_back_(struct stet_remote_volume *vol, struct stet_remote_conn *conn,
			    bool broken)
{
	stet_mutex_lock(&vol->lock);
	vol->busy_count--;
	vol->gone = vol->gone || broken;
	if (!vol->gone && vol->idle_count < IDLE_MAX) {
		stet_list_add_head(&vol->idle, &conn->link);
		vol->idle_count++;
		conn = NULL;
	}
	if (vol->gone)
		stet_cond_broadcast(&vol->freed);
	else
		stet_cond_signal(&vol->freed);
	stet_mutex_unlock(&vol->lock);
	stet_remote_disconnect_(conn);
}
