/* control_internal.h - what both ends of the control socket share: messages (wire.c).
 */
#ifndef STET_FUSE_CONTROL_INTERNAL_H
#define STET_FUSE_CONTROL_INTERNAL_H

#include "fuse/control.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// Messages ///

/* Changes whenever the meaning or the layout of any message does. */
#define STET_FUSE_WIRE_VERSION 4u

#define STET_FUSE_WIRE_TEXT_MAX \
	((size_t)96 * 1024) /* of a message's two texts together, NULs included */

enum stet_fuse_wire_kind {
	/* requests */
	STET_FUSE_WIRE_BEGIN = 1, /* flags: STET_CONTROL_DETACHED, value: level */
	STET_FUSE_WIRE_COMMIT,    /* id; flags: STET_COMMIT_ */
	STET_FUSE_WIRE_ABORT,     /* id */
	STET_FUSE_WIRE_CHANGES,   /* id */
	STET_FUSE_WIRE_TXNS,
	STET_FUSE_WIRE_SYNC,
	STET_FUSE_WIRE_STATFS,
	STET_FUSE_WIRE_STATS,
	STET_FUSE_WIRE_CLEAN,    /* value: segments */
	STET_FUSE_WIRE_SHUTDOWN, /* flags: 1: lazily */
	/* answers: any number of items, then one end with the result */
	STET_FUSE_WIRE_ITEM,
	STET_FUSE_WIRE_END,
	/* requests that came later: numbers stay as they are */
	STET_FUSE_WIRE_MORE,   /* id; value: inode number. END: id: btime_ns, value: data_version */
	STET_FUSE_WIRE_PATHS,  /* a: paths, a NUL after each; kept for the next REVERT or COMMIT */
	STET_FUSE_WIRE_REVERT, /* id; gives up the paths */
	STET_FUSE_WIRE_FREEZE, /* id */
	STET_FUSE_WIRE_JOIN,   /* id */
	STET_FUSE_WIRE_QUIT,   /* id; flags: 1: it failed */
};

/* One message is one packet: this, then text a with its NUL, then text b with its. */
struct stet_fuse_wire {
	uint32_t version;
	uint32_t kind;
	int32_t result;
	uint32_t flags;
	uint64_t id;
	uint64_t value;
	uint32_t a_len, b_len; /* without the NULs; a may also be bytes of a structure */
};

/* COMMIT: flags, beside those of stet_commit: only the paths that were sent. */
#define STET_FUSE_WIRE_ONLY 0x100u

/* END of COMMIT and ABORT: flags. */
#define STET_FUSE_WIRE_CONFLICT 0x1u

/* ITEM of CHANGES: text a is this and then the path, text b the old path. */
struct stet_fuse_wire_change {
	uint64_t ino, replaced_ino;
	uint32_t kind, what, type, old_type;
	struct stet_change_attr before, after, replaced;
};

/* A received message; texts are borrowed from buf. */
struct stet_fuse_wire_in {
	struct stet_fuse_wire head;
	const char *a, *b;
	char *buf; /* owned; sized for any message */
};

/* Sends one message. 0, -EPIPE, -EMSGSIZE. */
int stet_fuse_wire_send_(int fd, struct stet_fuse_wire head, const void *a, size_t a_len,
			 const char *b);
/* Allocates in->buf; released by the other. -ENOMEM. */
int stet_fuse_wire_init_(struct stet_fuse_wire_in *in);
void stet_fuse_wire_release_(struct stet_fuse_wire_in *in);
/* Waits for one. 0; -EPIPE: the other end has gone; -EPROTO: that was no message of our version. */
int stet_fuse_wire_receive_(int fd, struct stet_fuse_wire_in *in);

/// Records (control.c) ///

/* Has the daemon of this record been unmounted, as far as one can see? Then it will end. */
bool stet_fuse_has_unmounted_(const struct stet_ll_server *mount);

#endif
