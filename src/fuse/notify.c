/* notify.c - telling a service manager how the daemon is: the protocol of sd_notify(3).
 *
 * A datagram of lines "KEY=value" goes to the socket that NOTIFY_SOCKET names; a name that starts
 * with '@' is an abstract one. Without the variable nothing is sent.
 *
 * I1. Only in the foreground: a daemon of its own is not the process that was asked to tell, and its
 *     parent says by its exit code that it is ready.
 * I2. The variable is taken out of the environment: no program that we run (fusermount3) speaks for us.
 */
#include "fuse/fuse_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address;
static socklen_t address_len; /* 0: nobody wants to know */

void stet_fuse_notify_open_(bool foreground)
{
	const char *name = getenv("NOTIFY_SOCKET");
	size_t len = name ? strlen(name) : 0;

	address_len = 0;
	if (foreground && len > 1 && (name[0] == '/' || name[0] == '@') &&
	    len < sizeof(address.sun_path)) {
		address = (struct sockaddr_un){ .sun_family = AF_UNIX };
		memcpy(address.sun_path, name, len);
		if (name[0] == '@')
			address.sun_path[0] = 0;
		address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	}
	unsetenv("NOTIFY_SOCKET"); /* I2 */
}

void stet_fuse_notify_(const char *state, const char *verb, const char *what)
{
	char escaped[PATH_MAX], text[PATH_MAX + 128];
	int len, fd;

	if (address_len == 0)
		return;
	stet_fuse_escape_(escaped, sizeof(escaped), what);
	len = snprintf(text, sizeof(text), "%s%sSTATUS=%s %s", state, state[0] ? "\n" : "", verb,
		       escaped);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, text, (size_t)len, MSG_NOSIGNAL, (const struct sockaddr *)&address,
		      address_len);
	close(fd);
}
