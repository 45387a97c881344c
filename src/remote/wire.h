/* wire.h - messages between a library client and whoever serves it the volume.
 *
 * A connection is a Unix socket that keeps packets apart (SOCK_SEQPACKET). A message is a head, its
 * arguments (fields one after the other, little-endian, no padding), and data (bytes of files, lists):
 *
 *	00  u32  kind: an enum stet_wire_kind
 *	04  u32  length of the arguments
 *	08  u32  length of the data
 *	0c  u32  0
 *	10  i64  answers: the result; requests: 0
 *
 * Head, arguments and as much of the data as fits are the first packet; the rest of the data follows in
 * packets that are full, but for the last. A client sends one request and gets any number of PARTs,
 * then one END. An END with a negative result begins with two strings: what went wrong, and where.
 *
 * W1. What is received is believed only after it was checked: lengths against what came and against the
 *     caller's bounds, strings for their NUL. A field that is not there makes the whole message bad.
 * W2. The first request is HELLO, whose kind no other protocol on the same socket begins with; its
 *     version stands for the meaning of all messages.
 */
#ifndef STET_REMOTE_WIRE_H
#define STET_REMOTE_WIRE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STET_WIRE_VERSION 2u
#define STET_WIRE_HEAD_SIZE ((size_t)24)
#define STET_WIRE_PACKET_MAX ((size_t)128 * 1024)
#define STET_WIRE_ARGS_MAX ((size_t)64 * 1024) /* of one message */
#define STET_WIRE_PIECE_MAX ((size_t)1 << 20)  /* bytes of a file in one message */
/* Of one message: a piece, or a record with its key and what goes before it. But for lists of paths. */
#define STET_WIRE_DATA_MAX (STET_WIRE_PIECE_MAX + ((size_t)128 << 10))
#define STET_WIRE_PATHS_MAX ((size_t)4 << 20)
#define STET_WIRE_PATH_MAX ((size_t)4095)
#define STET_WIRE_BATCH 32u /* entries of a listing in one answer */

enum stet_wire_kind {
	/* answers */
	STET_WIRE_PART = 1,
	STET_WIRE_END,
	/* after HELLO, if it asked for that: the word was shown (token, "") */
	STET_WIRE_SHOWN = 8,
	/* requests, in brackets what END carries beside the result */
	STET_WIRE_BEGIN = 16,    /* flags (handle, number) */
	STET_WIRE_BEGIN_BASE,    /* txn (handle, number) */
	STET_WIRE_COMMIT,        /* txn, flags */
	STET_WIRE_ABORT,         /* txn */
	STET_WIRE_FREEZE,        /* txn */
	STET_WIRE_CONFLICT_TEXT, /* txn (text) */
	STET_WIRE_TXNS,          /* - (PARTs; data: entries) */
	STET_WIRE_CHANGES,       /* txn (PARTs; data: changes) */
	STET_WIRE_REVERT,        /* txn, flags, count; data: paths (why) */
	STET_WIRE_SYNC,
	STET_WIRE_STATFS,      /* (struct stet_statfs) */
	STET_WIRE_STATS,       /* (name and value of each) */
	STET_WIRE_CLEAN,       /* segments */
	STET_WIRE_OPENAT,      /* txn, dir, path, flags, mode (handle, inode number) */
	STET_WIRE_FILE_CLOSE,  /* file */
	STET_WIRE_PREAD,       /* file, len, off (data, of PARTs too) */
	STET_WIRE_PWRITE,      /* file, off; data */
	STET_WIRE_APPEND,      /* file; data */
	STET_WIRE_TRUNCATE,    /* file, size */
	STET_WIRE_PUNCH,       /* file, off, len */
	STET_WIRE_FALLOCATE,   /* file, mode, off, len */
	STET_WIRE_FSYNC,       /* file */
	STET_WIRE_SEEK,        /* file, off, what (offset) */
	STET_WIRE_COPY_RANGE,  /* file, off, file, off, len */
	STET_WIRE_FILE_STAT,   /* file (stat) */
	STET_WIRE_STATAT,      /* txn, dir, path, flags (stat) */
	STET_WIRE_SETATTRAT,   /* txn, dir, path, flags, attributes */
	STET_WIRE_GETXATTR,    /* txn, dir, path, flags, name, cap (data) */
	STET_WIRE_SETXATTR,    /* txn, dir, path, flags, name; data */
	STET_WIRE_LISTXATTR,   /* txn, dir, path, flags, cap (data) */
	STET_WIRE_REMOVEXATTR, /* txn, dir, path, flags, name */
	STET_WIRE_MKDIRAT,     /* txn, dir, path, mode */
	STET_WIRE_MKNODAT,     /* txn, dir, path, mode, rdev */
	STET_WIRE_SYMLINKAT,   /* txn, dir, path, target */
	STET_WIRE_READLINKAT,  /* txn, dir, path, cap (data) */
	STET_WIRE_LINKAT,      /* txn, dir, path, dir, path, flags */
	STET_WIRE_RENAMEAT,    /* txn, dir, path, dir, path, flags */
	STET_WIRE_UNLINKAT,    /* txn, dir, path, flags */
	STET_WIRE_DIR_OPEN,    /* txn, dir, path, types, has glob, glob (handle) */
	STET_WIRE_DIR_NEXT, /* dir (whether there may be more; entries, as many as the result says) */
	STET_WIRE_DIR_CLOSE,    /* dir */
	STET_WIRE_LOCK_TIMEOUT, /* txn, milliseconds */
	STET_WIRE_TABLE_OPEN,   /* txn, dir, path, flags, mode (handle, inode number) */
	STET_WIRE_TABLE_CLOSE,  /* table */
	STET_WIRE_GET,          /* table, txn, key, flags, cap (data) */
	STET_WIRE_PUT,          /* table, txn, key, flags; data */
	STET_WIRE_DEL,          /* table, txn, key */
	STET_WIRE_COUNT,        /* table, txn, bounds (count) */
	STET_WIRE_CURSOR_OPEN,  /* table, txn, bounds (handle) */
	STET_WIRE_CURSOR_NEXT,  /* cursor, how many (whether there may be more; data: records) */
	STET_WIRE_CURSOR_SEEK,  /* cursor, key */
	STET_WIRE_CURSOR_CLOSE, /* cursor */
	STET_WIRE_SAVEPOINT,    /* txn (savepoint) */
	STET_WIRE_ROLLBACK_TO,  /* txn, savepoint */
	STET_WIRE_SAVEPOINT_RELEASE, /* txn, savepoint */
	/* the end of the requests */
	STET_WIRE_KINDS,

	/* W2: "stet", as bytes. Version, flags, token: 0 for a new session (token, word: 0, and what is to be
	 * shown first: reach.h) */
	STET_WIRE_HELLO = 0x74657473,
};

/* HELLO: flags. */
#define STET_WIRE_READ_ONLY 0x1u

/// Fields ///

/** Arguments being put together. All puts are accepted; what does not fit makes it bad. */
struct stet_wire_out {
	uint8_t *p; /* borrowed */
	size_t len, cap;
	bool bad;
};

void stet_wire_put_u32(struct stet_wire_out *out, uint32_t v);
void stet_wire_put_u64(struct stet_wire_out *out, uint64_t v);
static inline void stet_wire_put_i64(struct stet_wire_out *out, int64_t v)
{
	stet_wire_put_u64(out, (uint64_t)v);
}
/** A string, with its NUL. */
void stet_wire_put_text(struct stet_wire_out *out, const char *text);
void stet_wire_put_bytes(struct stet_wire_out *out, const void *bytes, size_t len);

/** Bytes, with their length. */
void stet_wire_put_blob(struct stet_wire_out *out, const void *bytes, size_t len);

/** Arguments being taken apart. All gets give something; what was not there makes it bad. */
struct stet_wire_in {
	const uint8_t *p; /* borrowed */
	size_t left;
	bool bad;
};

uint32_t stet_wire_get_u32(struct stet_wire_in *in);
uint64_t stet_wire_get_u64(struct stet_wire_in *in);
static inline int64_t stet_wire_get_i64(struct stet_wire_in *in)
{
	return (int64_t)stet_wire_get_u64(in);
}
/** Borrowed from the message, NUL terminated, of at most max bytes without that; "" when bad. */
const char *stet_wire_get_text(struct stet_wire_in *in, size_t max);
/** Zeroed when bad. */
void stet_wire_get_bytes(struct stet_wire_in *in, void *ret, size_t len);

/** Borrowed from the message; "" of length 0 when bad. */
const void *stet_wire_get_blob(struct stet_wire_in *in, size_t *ret_len);

/// Structures of the public header, field by field ///

struct stet_stat;
struct stet_setattr;
struct stet_statfs;
struct stet_txn_entry;
struct stet_change;
struct stet_dir_entry;
struct stet_bounds;
struct stet_record;

void stet_wire_put_stat(struct stet_wire_out *out, const struct stet_stat *st);
void stet_wire_get_stat(struct stet_wire_in *in, struct stet_stat *ret);
void stet_wire_put_setattr(struct stet_wire_out *out, const struct stet_setattr *attr);
void stet_wire_get_setattr(struct stet_wire_in *in, struct stet_setattr *ret);
void stet_wire_put_statfs(struct stet_wire_out *out, const struct stet_statfs *st);
void stet_wire_get_statfs(struct stet_wire_in *in, struct stet_statfs *ret);
void stet_wire_put_txn(struct stet_wire_out *out, const struct stet_txn_entry *entry);
void stet_wire_get_txn(struct stet_wire_in *in, struct stet_txn_entry *ret);
/** The paths are borrowed from the message. */
void stet_wire_put_change(struct stet_wire_out *out, const struct stet_change *change);
void stet_wire_get_change(struct stet_wire_in *in, struct stet_change *ret);
void stet_wire_put_entry(struct stet_wire_out *out, const struct stet_dir_entry *entry);
void stet_wire_get_entry(struct stet_wire_in *in, struct stet_dir_entry *ret);
/** NULL: all of it. */
void stet_wire_put_bounds(struct stet_wire_out *out, const struct stet_bounds *bounds);
/** Keys are borrowed from the message. */
void stet_wire_get_bounds(struct stet_wire_in *in, struct stet_bounds *ret);
void stet_wire_put_record(struct stet_wire_out *out, const struct stet_record *record);
/** Key and value are borrowed from the message. */
void stet_wire_get_record(struct stet_wire_in *in, struct stet_record *ret);

/// Messages ///

struct stet_wire_message {
	uint32_t kind;
	uint32_t data_len;
	int64_t result;
	struct stet_wire_in args;
	const uint8_t *data; /* the beginning of the data, that came along */
	size_t data_here;
};

/**
 * Sends a message; iov-like: arguments, then data. 0; -EPIPE: the other end has gone, or does not
 * read; -EMSGSIZE.
 */
STET_CHECKED int stet_wire_send(int fd, uint32_t kind, int64_t result,
				const struct stet_wire_out *args, const void *data, size_t len);

/**
 * Waits for the first packet of a message; buf has STET_WIRE_PACKET_MAX bytes, and the message borrows
 * from it. 0; -EPIPE: the other end has gone; -EPROTO: that is no message; -EAGAIN: the socket's
 * time-out has passed.
 */
STET_CHECKED int stet_wire_receive(int fd, uint8_t *buf, struct stet_wire_message *ret);

/** Receives all of the data into ret, data_len bytes; NULL: and drops it. -EPIPE, -EPROTO. */
STET_CHECKED int stet_wire_receive_data(int fd, const struct stet_wire_message *msg, void *ret);

#endif
