/* reach.h - who may reach a mount may use its volume: the proof is a descriptor of the mount's root.
 *
 * The socket of a mount's daemon is open to everybody, wherever the mount lies. So a client opens the mount's
 * directory, which the kernel allows only to whoever gets there, and sends the descriptor (O_PATH) along
 * with HELLO; the daemon looks whether it is the root of its mount. Inside `run` the same path leads to the
 * transaction's tree, of which the library knows nothing: there it is refused, rather than to work
 * outside the transaction.
 *
 * R1. Nothing here waits for the daemon of any mount, ours or the client's: only what the kernel knows is asked. (That
 *     a descriptor is of our mount having been found so, its daemon asks whether it is mounted for reading only there.)
 * R2. A descriptor is sent only when it is such a root, and only to a daemon of root or of our own user: it may
 *     lie where the other end does not get. So a daemon that is not root's asks none of root.
 */
#ifndef STET_REMOTE_REACH_H
#define STET_REMOTE_REACH_H

#include "base/error.h"
#include "stetfs_lowlevel.h"

#include <stdint.h>

/**
 * Is fd the root of the mount with this device number? -EACCES: no; -EOPNOTSUPP: it is the root of a
 * transaction's tree there, or something else in it; or the kernel cannot tell.
 */
STET_CHECKED int stet_reach_check(int fd, uint64_t dev);

/**
 * Opens the directory of a mount and checks it. *ret: what is to be sent, owned by the caller; -1: none is
 * (R2, or the server has no mount). -EACCES, -EOPNOTSUPP.
 */
STET_CHECKED int stet_reach_open(const struct stet_ll_server *server, int *ret);

#endif
