/* handle.h - what every handle of the library begins with: whose calls it is for.
 *
 * A volume, transaction, file or listing is of this process (api/), or stands for one in the process that
 * holds the volume (this folder). The calls of stetfs.h look here to tell; see api/dispatch.c.
 */
#ifndef STET_REMOTE_HANDLE_H
#define STET_REMOTE_HANDLE_H

#include <stdbool.h>

struct stet_handle {
	bool is_remote;
};

/** NULL is of this process: there they know what to say to it. */
static inline bool stet_handle_is_remote(const void *handle)
{
	return handle && ((const struct stet_handle *)handle)->is_remote;
}

#endif
