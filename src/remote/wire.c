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

/* passed: a descriptor that goes along; -1: none. */
static int send_packet(int fd, struct iovec *iov, size_t count, int passed)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	ssize_t n;

	if (passed >= 0) {
		struct cmsghdr *c = (struct cmsghdr *)(void *)control;

		*c = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(c), &passed, sizeof(passed));
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
	}
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
	return stet_wire_send_with(fd, -1, kind, result, args, data, len);
}

int stet_wire_send_with(int fd, int passed, uint32_t kind, int64_t result,
			const struct stet_wire_out *args, const void *data, size_t len)
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
	rc = send_packet(fd, iov, 3, passed);
	for (size_t at = here; at < len && !rc; at += here) {
		here = len - at < STET_WIRE_PACKET_MAX ? len - at : STET_WIRE_PACKET_MAX;
		iov[0].iov_base = (char *)(uintptr_t)data + at;
		iov[0].iov_len = here;
		rc = send_packet(fd, iov, 1, -1);
	}
	return rc;
}

/* The descriptor that came along; of more than one, none. */
static int take_passed(struct msghdr *msg)
{
	int passed = -1;
	size_t count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			if (passed >= 0)
				close(passed);
			memcpy(&passed, (uint8_t *)c + at, sizeof(passed));
			count++;
		}
	}
	if (passed >= 0 && (count > 1 || msg->msg_flags & MSG_CTRUNC)) {
		close(passed);
		passed = -1;
	}
	return passed;
}

/* How many bytes; -EPIPE, -EAGAIN, -EPROTO: longer than cap. passed: NULL: none is taken, the kernel drops those
 * that come. */
static ssize_t receive_packet(int fd, void *buf, size_t cap, int *passed)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = buf, .iov_len = cap };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (passed) {
		*passed = -1;
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
	}
	do {
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n >= 0 && passed)
		*passed = take_passed(&msg);
	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	if (n == 0)
		return -EPIPE;
	return msg.msg_flags & MSG_TRUNC ? -EPROTO : n;
}

/* W1 */
int stet_wire_receive(int fd, uint8_t *buf, struct stet_wire_message *ret)
{
	return stet_wire_receive_with(fd, buf, ret, NULL);
}

int stet_wire_receive_with(int fd, uint8_t *buf, struct stet_wire_message *ret, int *ret_passed)
{
	ssize_t n = receive_packet(fd, buf, STET_WIRE_PACKET_MAX, ret_passed);
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
		ssize_t n = ret ? receive_packet(fd, (uint8_t *)ret + at, want, NULL)
				: drop_packet(fd);

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
