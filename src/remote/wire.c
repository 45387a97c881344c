/* wire.c - messages: fields, heads, packets. See wire.h, W1 and W2. */
#include "remote/wire.h"

#include "base/endian.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define STALLS_MAX 5u /* time-outs in the middle of a message */

/* --- fields --- */

static uint8_t *room(struct stet_wire_out *out, size_t len)
{
	uint8_t *at = out->p + out->len;

	if (out->bad || len > out->cap - out->len) {
		out->bad = true;
		return NULL;
	}
	out->len += len;
	return at;
}

void stet_wire_put_u32(struct stet_wire_out *out, uint32_t v)
{
	uint8_t *at = room(out, 4);

	if (at)
		stet_put_le32(at, v);
}

void stet_wire_put_u64(struct stet_wire_out *out, uint64_t v)
{
	uint8_t *at = room(out, 8);

	if (at)
		stet_put_le64(at, v);
}

void stet_wire_put_bytes(struct stet_wire_out *out, const void *bytes, size_t len)
{
	uint8_t *at = room(out, len);

	if (at)
		memcpy(at, bytes, len);
}

void stet_wire_put_text(struct stet_wire_out *out, const char *text)
{
	size_t len = strlen(text);

	if (len > out->cap) {
		out->bad = true;
		return;
	}
	stet_wire_put_u32(out, (uint32_t)len);
	stet_wire_put_bytes(out, text, len + 1);
}

static const uint8_t *take(struct stet_wire_in *in, size_t len)
{
	const uint8_t *at = in->p;

	if (in->bad || len > in->left) {
		in->bad = true;
		return NULL;
	}
	in->p += len;
	in->left -= len;
	return at;
}

uint32_t stet_wire_get_u32(struct stet_wire_in *in)
{
	const uint8_t *at = take(in, 4);

	return at ? stet_get_le32(at) : 0;
}

uint64_t stet_wire_get_u64(struct stet_wire_in *in)
{
	const uint8_t *at = take(in, 8);

	return at ? stet_get_le64(at) : 0;
}

void stet_wire_get_bytes(struct stet_wire_in *in, void *ret, size_t len)
{
	const uint8_t *at = take(in, len);

	if (at)
		memcpy(ret, at, len);
	else
		memset(ret, 0, len);
}

const char *stet_wire_get_text(struct stet_wire_in *in, size_t max)
{
	uint32_t len = stet_wire_get_u32(in);
	const uint8_t *at = len <= max ? take(in, (size_t)len + 1) : NULL;

	if (!at || memchr(at, 0, (size_t)len + 1) != at + len) {
		in->bad = true;
		return "";
	}
	return (const char *)at;
}

void stet_wire_put_blob(struct stet_wire_out *out, const void *bytes, size_t len)
{
	if (len > out->cap) {
		out->bad = true;
		return;
	}
	stet_wire_put_u32(out, (uint32_t)len);
	if (len > 0)
		stet_wire_put_bytes(out, bytes, len);
}

const void *stet_wire_get_blob(struct stet_wire_in *in, size_t *ret_len)
{
	uint32_t len = stet_wire_get_u32(in);
	const uint8_t *at = take(in, len);

	*ret_len = at ? len : 0;
	return at ? (const void *)at : "";
}

/* --- messages --- */

static int send_packet(int fd, struct iovec *iov, size_t count)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	ssize_t n;

	do {
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EMSGSIZE ? -EMSGSIZE : -EPIPE;
	return 0;
}

int stet_wire_send(int fd, uint32_t kind, int64_t result, const struct stet_wire_out *args,
		   const void *data, size_t len)
{
	uint8_t head[STET_WIRE_HEAD_SIZE] = { 0 };
	size_t args_len = args ? args->len : 0;
	size_t space = STET_WIRE_PACKET_MAX - STET_WIRE_HEAD_SIZE - args_len;
	size_t here = len < space ? len : space;
	struct iovec iov[3] = {
		{ .iov_base = head, .iov_len = sizeof(head) },
		{ .iov_base = args ? args->p : NULL, .iov_len = args_len },
		{ .iov_base = (void *)(uintptr_t)data, .iov_len = here },
	};
	int rc;

	if (args_len > STET_WIRE_ARGS_MAX || len > UINT32_MAX)
		return -EMSGSIZE;
	stet_put_le32(head, kind);
	stet_put_le32(head + 4, (uint32_t)args_len);
	stet_put_le32(head + 8, (uint32_t)len);
	stet_put_le64(head + 16, (uint64_t)result);
	rc = send_packet(fd, iov, 3);
	for (size_t at = here; at < len && !rc; at += here) {
		here = len - at < STET_WIRE_PACKET_MAX ? len - at : STET_WIRE_PACKET_MAX;
		iov[0].iov_base = (char *)(uintptr_t)data + at;
		iov[0].iov_len = here;
		rc = send_packet(fd, iov, 1);
	}
	return rc;
}

/* How many bytes; -EPIPE, -EAGAIN, -EPROTO: longer than cap. Descriptors that come along are dropped by the kernel. */
static ssize_t receive_packet(int fd, void *buf, size_t cap)
{
	struct iovec iov = { .iov_base = buf, .iov_len = cap };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	do {
		n = recvmsg(fd, &msg, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	if (n == 0)
		return -EPIPE;
	return msg.msg_flags & MSG_TRUNC ? -EPROTO : n;
}

/* W1 */
int stet_wire_receive(int fd, uint8_t *buf, struct stet_wire_message *ret)
{
	ssize_t n = receive_packet(fd, buf, STET_WIRE_PACKET_MAX);
	size_t args_len, after;

	if (n < 0)
		return (int)n;
	if ((size_t)n < STET_WIRE_HEAD_SIZE)
		return -EPROTO;
	args_len = stet_get_le32(buf + 4);
	if (args_len > STET_WIRE_ARGS_MAX || args_len > (size_t)n - STET_WIRE_HEAD_SIZE)
		return -EPROTO;
	after = (size_t)n - STET_WIRE_HEAD_SIZE - args_len;
	*ret = (struct stet_wire_message){
		.kind = stet_get_le32(buf),
		.data_len = stet_get_le32(buf + 8),
		.result = (int64_t)stet_get_le64(buf + 16),
		.args = { .p = buf + STET_WIRE_HEAD_SIZE, .left = args_len },
		.data = buf + STET_WIRE_HEAD_SIZE + args_len,
		.data_here = after,
	};
	if (stet_get_le32(buf + 12) != 0 || after > ret->data_len ||
	    (after < ret->data_len && (size_t)n != STET_WIRE_PACKET_MAX))
		return -EPROTO;
	return 0;
}

/* How long it was, as receive_packet. */
static ssize_t drop_packet(int fd)
{
	uint8_t byte;
	ssize_t n;

	do {
		n = recv(fd, &byte, 1, MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	return n == 0 ? -EPIPE : n;
}

int stet_wire_receive_data(int fd, const struct stet_wire_message *msg, void *ret)
{
	size_t len = msg->data_len, at = msg->data_here;
	unsigned stalls = 0;

	if (ret)
		memcpy(ret, msg->data, at);
	while (at < len) {
		size_t want = len - at < STET_WIRE_PACKET_MAX ? len - at : STET_WIRE_PACKET_MAX;
		ssize_t n = ret ? receive_packet(fd, (uint8_t *)ret + at, want) : drop_packet(fd);

		if (n == -EAGAIN && ++stalls < STALLS_MAX)
			continue;
		if (n < 0)
			return n == -EAGAIN ? -EPIPE : (int)n;
		if ((size_t)n != want)
			return -EPROTO;
		at += want;
	}
	return 0;
}
