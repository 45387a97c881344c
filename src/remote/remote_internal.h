/* remote_internal.h - what the files of this folder share: handles, connections, calls. */
#ifndef STET_REMOTE_REMOTE_INTERNAL_H
#define STET_REMOTE_REMOTE_INTERNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "remote/handle.h"
#include "remote/remote.h"
#include "remote/wire.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/un.h>

#define STET_REMOTE_POOL_RANK 98    /* lock of the volume's connections */
#define STET_REMOTE_LISTING_RANK 97 /* lock of a listing; held during its calls */

struct stet_remote_volume {
	/* --- set at open, then constant --- */
	struct stet_handle head;
	pid_t pid; /* R3 */
	struct stet_clock *clock;
	bool read_only;
	uint64_t token[2]; /* joins a connection to the session */
	int reach_fd;      /* borrowed, while the session is opened; then -1 */
	struct sockaddr_un address;

	struct stet_mutex lock;
	/* --- under lock --- */
	struct stet_list idle, busy; /* of stet_remote_conn.link */
	size_t idle_count;
	struct stet_remote_conn *reserve; /* owned; for calls that end handles */
	bool has_reserve;                 /* it is there, or in use */
	struct stet_cond freed;           /* a connection has become idle, or is gone */
	bool gone;                        /* the server, or its connections: -EPIPE */
	uint64_t handles;                 /* open: close refuses while there are any */
	STET_VEC(char *) names;           /* owned; of counters, as given to callers */

	/* --- atomic --- */
	_Atomic uint64_t changes; /* calls that may have changed something */
};

/* What each handle that the server gives begins with. */
struct stet_remote_handle {
	/* --- set at open, then constant --- */
	struct stet_handle head;
	struct stet_remote_volume *vol;
	uint64_t id; /* to the server */
};

struct stet_remote_txn {
	struct stet_remote_handle h;
	uint64_t number; /* of the transaction */
};

struct stet_remote_file {
	struct stet_remote_handle h;
	uint64_t ino;
	bool append;
};

struct stet_remote_dir {
	struct stet_remote_handle h;

	struct stet_mutex lock;
	/* --- under lock --- */
	int result; /* of the batch: more may follow (1), none (0), or why not */
	size_t next, count;
	struct stet_dir_entry batch[STET_WIRE_BATCH];
};

struct stet_remote_table {
	struct stet_remote_handle h;
	uint64_t ino;
};

struct stet_remote_cursor {
	/* --- set at open, then constant --- */
	struct stet_remote_handle h;
	bool in_txn;

	struct stet_mutex lock;
	/* --- under lock --- */
	bool more;                  /* behind the batch there may be more */
	uint64_t given;             /* records, given away */
	uint64_t changes;           /* of the volume, before the batch was fetched */
	struct stet_buf buf;        /* the batch */
	struct stet_wire_in in;     /* what of it was not given away yet */
	uint64_t count;             /* so many records */
	uint8_t last[STET_KEY_MAX]; /* key of the one that was given away last */
	size_t last_len;
};

static inline struct stet_remote_volume *stet_remote_volume_(struct stet_volume *vol)
{
	return (struct stet_remote_volume *)(void *)vol;
}
static inline struct stet_remote_txn *stet_remote_txn_(struct stet_txn *txn)
{
	return (struct stet_remote_txn *)(void *)txn;
}
static inline struct stet_remote_file *stet_remote_file_(struct stet_file *file)
{
	return (struct stet_remote_file *)(void *)file;
}
static inline struct stet_remote_dir *stet_remote_dir_(struct stet_dir *it)
{
	return (struct stet_remote_dir *)(void *)it;
}

static inline struct stet_remote_table *stet_remote_table_(struct stet_table *table)
{
	return (struct stet_remote_table *)(void *)table;
}
static inline struct stet_remote_cursor *stet_remote_cursor_(struct stet_cursor *cursor)
{
	return (struct stet_remote_cursor *)(void *)cursor;
}

/* One more, or one less, handle that is open. */
void stet_remote_handle_opened_(struct stet_remote_volume *vol);
void stet_remote_handle_closed_(struct stet_remote_volume *vol);

/// Connections (connection.c) ///

struct stet_remote_conn {
	struct stet_list link; /* volume.idle or busy */
	int fd;
	uint8_t *packet; /* owned: STET_WIRE_PACKET_MAX, what was received last */
	uint8_t *args;   /* owned: STET_WIRE_ARGS_MAX, what is sent */
};

/* A connection that has said HELLO. vol->token: all zero for a new session, which is noted there then. */
STET_CHECKED int stet_remote_connect_(struct stet_remote_volume *vol,
				      struct stet_remote_conn **ret);
void stet_remote_disconnect_(struct stet_remote_conn *conn);
/* An idle one, or a new one (R2). must: for what ends a handle; it waits rather than to be refused.
 * -EPIPE, -EMFILE, -EINVAL (R3). */
STET_CHECKED int stet_remote_take_(struct stet_remote_volume *vol, bool must,
				   struct stet_remote_conn **ret);
/* Gives it back; broken: no answer can be had on it any more, and the server counts as gone. */
void stet_remote_give_back_(struct stet_remote_volume *vol, struct stet_remote_conn *conn,
			    bool broken);

/// Calls (call.c) ///

/*	struct stet_remote_call c;
 *
 *	stet_remote_begin_(&c, vol, STET_WIRE_STATAT);
 *	put fields into c.out
 *	rc = stet_remote_do_(&c);
 *	get fields from c.in, if rc says so
 *	return stet_remote_end_(&c, rc);
 *
 * What fails on the way is kept, and is what `do` gives.
 */
struct stet_remote_call {
	struct stet_remote_volume *vol;
	struct stet_remote_conn *conn; /* NULL: there is none */
	uint32_t kind;
	int rc; /* what has failed so far */
	bool broken;
	struct stet_wire_out out;
	const void *data; /* sent; borrowed */
	size_t data_len;

	struct stet_wire_in in; /* of END */
	void *to; /* where the data of the answer goes; borrowed; NULL: none is wanted */
	size_t to_cap, to_len;
	struct stet_buf *list; /* instead of that: appended here; borrowed */
};

void stet_remote_begin_(struct stet_remote_call *c, struct stet_remote_volume *vol, uint32_t kind);
/* Begins a call on a handle. */
void stet_remote_begin_on_(struct stet_remote_call *c, const struct stet_remote_handle *h,
			   uint32_t kind);
/* The same for what ends it. */
void stet_remote_begin_end_(struct stet_remote_call *c, const struct stet_remote_handle *h,
			    uint32_t kind);
/* Begins a call on a path. */
void stet_remote_begin_at_(struct stet_remote_call *c, struct stet_volume *vol, uint32_t kind,
			   struct stet_txn *txn, uint64_t dir, const char *path);
/* The transaction of a call; NULL: none. */
void stet_remote_put_txn_(struct stet_remote_call *c, struct stet_txn *txn);
/* The start of a path, and the path. */
void stet_remote_put_path_(struct stet_remote_call *c, uint64_t dir, const char *path);
/* Sends, and receives all answers. The result of the call, or why there is none. */
STET_CHECKED int64_t stet_remote_do_(struct stet_remote_call *c);
/* Gives the connection back. rc, or -EPROTO if it says that all is well but c->in was not as expected. */
int64_t stet_remote_end_(struct stet_remote_call *c, int64_t rc);

/* Both, for calls with these answers: the result alone; a number; attributes. *ret is written on success. */
int64_t stet_remote_finish_(struct stet_remote_call *c);
STET_CHECKED int stet_remote_finish_number_(struct stet_remote_call *c, uint64_t *ret);
STET_CHECKED int stet_remote_finish_stat_(struct stet_remote_call *c, struct stet_stat *ret);
/* The answer is a length, and, where there is room for it, what is that long. extra: bytes behind it. */
ssize_t stet_remote_finish_value_(struct stet_remote_call *c, void *buf, size_t cap, size_t extra);
/* A handle, h; then it counts as open. ret_number: a number behind it, of those that have one; or NULL. */
STET_CHECKED int stet_remote_finish_open_(struct stet_remote_call *c, struct stet_remote_handle *h,
					  uint64_t *ret_number);
/* The call that closes a handle; what h is part of is still the caller's. */
void stet_remote_close_(struct stet_remote_handle *h, uint32_t kind);

#endif
