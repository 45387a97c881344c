/* reach.h - who may reach a mount may use its volume.
 *
 * The socket of a mount's daemon is open to everybody, wherever the mount lies. So who begins a session is given a word,
 * and asks the mount's root for an extended attribute with that name, by the path of the mount's directory: the kernel lets
 * only those ask who get there, and passes it on to the daemon. Who wants to change something asks to set it: the
 * kernel refuses that where it is mounted for reading only. Inside `run` the same path leads to the transaction's tree: so
 * the daemon knows in which transaction the client is at work.
 *
 * (A descriptor of the root, sent along, would show the same. But whoever receives descriptors must close them, and that may
 * wait for ever for another file system.)
 *
 * R1. Who is asked is the file system with the device number of the server's record, which root or we ourselves have
 *     mounted; by any other, nothing here is waited for: only what the kernel knows is asked.
 * R2. Root shows nothing to a daemon of another user, who could keep him waiting; such a daemon does not ask it of him.
 *     So root does not work in a transaction of that user's either: within his `run` he is refused.
 */
#ifndef STET_REMOTE_REACH_H
#define STET_REMOTE_REACH_H

#include "base/error.h"
#include "stetfs_lowlevel.h"

#include <stdbool.h>

/**
 * Opens (O_PATH) the directory of a server's mount. *ret: owned by the caller; -1: there is nothing to be shown (R2, or the
 * server has no mount). -EACCES: it is not visible here; -EOPNOTSUPP: R2.
 */
STET_CHECKED int stet_reach_open(const struct stet_ll_server *server, int *ret);

/** Shows the word there; write: and that something may be changed, if so it is. -EACCES: it cannot. */
STET_CHECKED int stet_reach_show(int fd, const char *word, bool write);

#endif
