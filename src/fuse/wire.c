/* wire.c - messages on the control socket.
 *
 * The socket keeps packets apart (SOCK_SEQPACKET), so a message is whole or not there.
 * I1. Nothing received is believed before its lengths were checked against what came.
 * I2. Both ends are of one machine, but perhaps not of one version: a version that differs is
 *     refused before anything else is looked at.
 */
#include "fuse/control_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BUF_SIZE (sizeof(struct stet_fuse_wire) + STET_FUSE_WIRE_TEXT_MAX)

int stet_fuse_wire_send_(int fd, struct stet_fuse_wire head, const void *a, size_t a_len,
			 const char *b)
{
	static const char nul = 0;
	size_t b_len = b ? strlen(b) : 0;
	struct iovec iov[4] = {
		{ .iov_base = &head, .iov_len = sizeof(head) },
		{ .iov_base = (void *)(uintptr_t)a, .iov_len = a_len },
		{ .iov_base = (void *)(uintptr_t)&nul, .iov_len = 1 },
		{ .iov_base = (void *)(uintptr_t)(b ? b : &nul), .iov_len = b_len + 1 },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 4 };
	ssize_t n;

	if (a_len + b_len + 2 > STET_FUSE_WIRE_TEXT_MAX)
		return -EMSGSIZE;
	head.version = STET_FUSE_WIRE_VERSION;
	head.a_len = (uint32_t)a_len;
	head.b_len = (uint32_t)b_len;
	do {
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -EPIPE : 0;
}

int stet_fuse_wire_init_(struct stet_fuse_wire_in *in)
{
	*in = (struct stet_fuse_wire_in){ .buf = malloc(BUF_SIZE) };
	return in->buf ? 0 : -ENOMEM;
}

void stet_fuse_wire_release_(struct stet_fuse_wire_in *in)
{
	free(in->buf);
	in->buf = NULL;
}

/* I1, I2 */
static int parse(struct stet_fuse_wire_in *in, size_t len)
{
	const char *text = in->buf + sizeof(in->head);
	size_t a_len, b_len;

	if (len < sizeof(in->head))
		return -EPROTO;
	memcpy(&in->head, in->buf, sizeof(in->head));
	if (in->head.version != STET_FUSE_WIRE_VERSION)
		return -EPROTO;
	a_len = in->head.a_len;
	b_len = in->head.b_len;
	if (a_len > BUF_SIZE || b_len > BUF_SIZE || sizeof(in->head) + a_len + b_len + 2 != len ||
	    text[a_len] != 0 || text[a_len + 1 + b_len] != 0)
		return -EPROTO;
	in->a = text;
	in->b = text + a_len + 1;
	return 0;
}

int stet_fuse_wire_receive_(int fd, struct stet_fuse_wire_in *in)
{
	struct iovec iov = { .iov_base = in->buf, .iov_len = BUF_SIZE };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	do {
		n = recvmsg(fd, &msg, 0);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -EPIPE;
	return msg.msg_flags & MSG_TRUNC ? -EPROTO : parse(in, (size_t)n);
}
