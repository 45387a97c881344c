/* serve_internal.h - what the files of this folder share: services, sessions, handles, calls. */
#ifndef STET_SERVE_SERVE_INTERNAL_H
#define STET_SERVE_SERVE_INTERNAL_H

#include "api/serving.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"
#include "remote/wire.h"
#include "stetfs_lowlevel.h"

#define STET_SERVE_SERVICE_RANK 90
#define STET_SERVE_SESSION_RANK 91

/* What one user may have open, who is neither root nor ours. */
#define STET_SERVE_HANDLES_MAX 16384u
/* of the paths of a revert, for others than the owner: each takes much more while it is looked at */
#define STET_SERVE_PATHS_MAX (256u << 10)
#define STET_SERVE_VIEWS_MAX \
	256u /* transactions, listings, cursors: they keep old states, or much in memory */

/// Services ///

/* What a user has open. */
struct stet_serve_user {
	struct stet_list link; /* service.users */
	uint32_t uid;
	uint32_t sessions;
	uint64_t handles, views;
};

struct stet_ll_service {
	/* --- set when made, then constant --- */
	struct stet_volume *vol;
	uint32_t own_uid;
	uint64_t mount_dev; /* clients must reach it (remote/reach.h); 0: none */

	struct stet_mutex lock;
	/* --- under lock --- */
	struct stet_list sessions; /* of stet_serve_session.link */
	struct stet_list users;    /* of stet_serve_user.link: those with sessions */
	struct stet_list calls;    /* of stet_serve_call.link: one for each connection */

	/* --- atomic --- */
	_Atomic bool no_begin, stopping;
	_Atomic unsigned begins; /* transactions that are being begun (session.c, S6) */
};

/// Sessions and their handles (session.c) ///

enum stet_serve_kind {
	STET_SERVE_TXN,
	STET_SERVE_FILE,
	STET_SERVE_DIR,
	STET_SERVE_TABLE,
	STET_SERVE_CURSOR,
};

struct stet_serve_handle {
	/* --- set when made, then constant --- */
	struct stet_hash_node node; /* session.handles; key: its number */
	enum stet_serve_kind kind;
	bool is_view;
	union {
		struct stet_txn *txn;
		struct stet_file *file;
		struct stet_dir *dir;
		struct stet_table *table;
		struct stet_cursor *cursor;
	};
	struct stet_txn *of; /* file: the transaction it is of, which the file keeps; or NULL */
	struct stet_serve_handle *above; /* cursor: its table, in use until it is closed */

	/* --- under session.lock --- */
	unsigned users; /* calls in progress, cursors of a table */
	bool gone;      /* not to be found any more; freed by its last user */
	bool ending; /* a call is in progress that another one may not meet: no abort a commit, on a
			 * cursor none at all */
};

struct stet_serve_session {
	/* --- set when made, then constant --- */
	struct stet_ll_service *service;
	uint64_t token[2];
	bool read_only;
	bool is_owner;          /* root, or the user of the process: no limits */
	struct stet_ll_who who; /* groups: owned */
	struct stet_serve_user *user;

	/* --- under service.lock --- */
	struct stet_list link;
	unsigned connections;

	struct stet_mutex lock;
	/* --- under lock --- */
	struct stet_hash handles;
	uint64_t next_number;
	struct stet_cond turn; /* some ending has ended */
};

/* A new session. -ENOMEM. One connection is in it. */
STET_CHECKED int stet_serve_session_open_(struct stet_ll_service *service,
					  const struct stet_ll_who *who, bool read_only,
					  struct stet_serve_session **ret);
/* One more connection for a session. -ENOENT: there is none with this token and user. */
STET_CHECKED int stet_serve_session_join_(struct stet_ll_service *service,
					  const struct stet_ll_who *who, const uint64_t token[2],
					  struct stet_serve_session **ret);
/* A connection leaves; with the last one the session ends, and all its handles. */
void stet_serve_session_leave_(struct stet_serve_session *session);

/* Makes room for one more handle. -ENFILE. Given back by the other, or with the handle. */
STET_CHECKED int stet_serve_admit_(struct stet_serve_session *session, bool is_view);
void stet_serve_dismiss_(struct stet_serve_session *session, bool is_view);
/* Adds a handle, for which there is room; *h is copied. From then on the client may end it, by a guess of its
 * number: what it stands for is not the caller's any more. -ENOMEM: nothing has changed. */
STET_CHECKED int stet_serve_handle_add_(struct stet_serve_session *session,
					const struct stet_serve_handle *h, uint64_t *ret_number);
/* What it stands for ends. */
void stet_serve_handle_end_(const struct stet_serve_handle *h);
/* One that is of this kind, in use until it is put back; NULL: there is none. */
struct stet_serve_handle *stet_serve_handle_get_(struct stet_serve_session *session,
						 uint64_t number, enum stet_serve_kind kind);
void stet_serve_handle_put_(struct stet_serve_session *session, struct stet_serve_handle *h);
/* In use by the caller: nobody finds it any more, and it ends when nobody uses it. */
void stet_serve_handle_drop_(struct stet_serve_session *session, struct stet_serve_handle *h);
/* A call begins that no abort may meet. False: there is one. wait: until there is none. */
bool stet_serve_ending_begin_(struct stet_serve_session *session, struct stet_serve_handle *h,
			      bool wait);
void stet_serve_ending_end_(struct stet_serve_session *session, struct stet_serve_handle *h);

/// Calls (connection.c) ///

#define STET_SERVE_USED_MAX 3u

struct stet_serve_call {
	/* --- under service.lock --- */
	struct stet_list link; /* service.calls */

	/* --- of the connection --- */
	struct stet_ll_service *service;
	struct stet_serve_session *session;
	struct stet_volume *vol;
	int fd;
	uint8_t *packet; /* owned: STET_WIRE_PACKET_MAX, what came */
	uint8_t *args;   /* owned: STET_WIRE_ARGS_MAX, what goes */
	uint8_t *big_in; /* owned, or NULL: data that did not come along */
	size_t big_in_cap;
	uint8_t *big_out; /* owned, or NULL: STET_WIRE_DATA_MAX, data that goes */

	/* --- of the request --- */
	struct stet_wire_in in;
	const uint8_t *data; /* that came */
	size_t data_len;
	struct stet_wire_out out; /* arguments of END */
	size_t out_len;           /* data of END, in big_out */
	struct stet_serve_handle *used[STET_SERVE_USED_MAX];
	size_t used_count;
	bool unknown_handle;
	bool lost; /* the connection is over */
};

/* Handles named by the request, in use until it is answered. The transaction: NULL is none. */
struct stet_txn *stet_serve_txn_(struct stet_serve_call *c);
struct stet_serve_handle *stet_serve_handle_(struct stet_serve_call *c, enum stet_serve_kind kind);
const char *stet_serve_path_(struct stet_serve_call *c);
const char *stet_serve_text_(struct stet_serve_call *c);
/* What calls on a path begin with. */
struct stet_serve_at {
	struct stet_txn *txn;
	uint64_t dir;
	const char *path;
};
struct stet_serve_at stet_serve_at_(struct stet_serve_call *c);
/* After the last field was taken: 0; -EPROTO: they were not as they should; -EINVAL: no such handle. */
STET_CHECKED int stet_serve_ready_(struct stet_serve_call *c);
/* The buffer for data that goes. -ENOMEM. */
STET_CHECKED int stet_serve_big_out_(struct stet_serve_call *c);
/* Sends a PART of what is in big_out. -EPIPE. */
STET_CHECKED int stet_serve_part_(struct stet_serve_call *c, size_t len);

/// Handles of a call: opened, dropped (open.c) ///

/* What a file or a table is opened with. */
struct stet_serve_open {
	struct stet_serve_at at;
	int flags;
	uint32_t mode;
};

/* All fields of such a request; then there is room for the handle. changing: the flags that a session that
 * only reads may not have. */
STET_CHECKED int stet_serve_get_open_(struct stet_serve_call *c, int changing,
				      struct stet_serve_open *ret);
/* Room was made; rc: whether h was opened. Puts its number into the answer, or gives the room back: then
 * nothing is open. h is copied. */
STET_CHECKED int stet_serve_opened_(struct stet_serve_call *c, const struct stet_serve_handle *h,
				    int rc);
/* The request that closes one. */
int64_t stet_serve_drop_(struct stet_serve_call *c, enum stet_serve_kind kind);

/// Requests: each gives the result of the call (volume.c, txn.c, file.c, names.c) ///

typedef int64_t stet_serve_fn(struct stet_serve_call *c);

struct stet_serve_request {
	stet_serve_fn *fn;
	size_t data_max; /* that comes with it */
	bool changes;    /* refused in a session that only reads */
};

#define STET_SERVE_REQUESTS(R)                          \
	R(BEGIN, begin, 0, false)                       \
	R(BEGIN_BASE, begin_base, 0, false)             \
	R(COMMIT, commit, 0, false)                     \
	R(ABORT, abort, 0, false)                       \
	R(FREEZE, freeze, 0, false)                     \
	R(CONFLICT_TEXT, conflict_text, 0, false)       \
	R(TXNS, txns, 0, false)                         \
	R(CHANGES, changes, 0, false)                   \
	R(REVERT, revert, STET_WIRE_PATHS_MAX, false)   \
	R(SYNC, sync, 0, false)                         \
	R(STATFS, statfs, 0, false)                     \
	R(STATS, stats, 0, false)                       \
	R(CLEAN, clean, 0, true)                        \
	R(OPENAT, openat, 0, false)                     \
	R(FILE_CLOSE, file_close, 0, false)             \
	R(PREAD, pread, 0, false)                       \
	R(PWRITE, pwrite, STET_WIRE_PIECE_MAX, true)    \
	R(APPEND, append, STET_WIRE_PIECE_MAX, true)    \
	R(TRUNCATE, truncate, 0, true)                  \
	R(PUNCH, punch, 0, true)                        \
	R(FALLOCATE, fallocate, 0, true)                \
	R(FSYNC, fsync, 0, false)                       \
	R(SEEK, seek, 0, false)                         \
	R(COPY_RANGE, copy_range, 0, true)              \
	R(FILE_STAT, file_stat, 0, false)               \
	R(STATAT, statat, 0, false)                     \
	R(SETATTRAT, setattrat, 0, true)                \
	R(GETXATTR, getxattr, 0, false)                 \
	R(SETXATTR, setxattr, STET_WIRE_DATA_MAX, true) \
	R(LISTXATTR, listxattr, 0, false)               \
	R(REMOVEXATTR, removexattr, 0, true)            \
	R(MKDIRAT, mkdirat, 0, true)                    \
	R(MKNODAT, mknodat, 0, true)                    \
	R(SYMLINKAT, symlinkat, 0, true)                \
	R(READLINKAT, readlinkat, 0, false)             \
	R(LINKAT, linkat, 0, true)                      \
	R(RENAMEAT, renameat, 0, true)                  \
	R(UNLINKAT, unlinkat, 0, true)                  \
	R(DIR_OPEN, dir_open, 0, false)                 \
	R(DIR_NEXT, dir_next, 0, false)                 \
	R(DIR_CLOSE, dir_close, 0, false)               \
	R(LOCK_TIMEOUT, lock_timeout, 0, false)         \
	R(TABLE_OPEN, table_open, 0, false)             \
	R(TABLE_CLOSE, table_close, 0, false)           \
	R(GET, get, 0, false)                           \
	R(PUT, put, STET_WIRE_DATA_MAX, true)           \
	R(DEL, del, 0, true)                            \
	R(COUNT, count, 0, false)                       \
	R(CURSOR_OPEN, cursor_open, 0, false)           \
	R(CURSOR_NEXT, cursor_next, 0, false)           \
	R(CURSOR_SEEK, cursor_seek, 0, false)           \
	R(CURSOR_CLOSE, cursor_close, 0, false)         \
	R(SAVEPOINT, savepoint, 0, false)               \
	R(ROLLBACK_TO, rollback_to, 0, false)           \
	R(SAVEPOINT_RELEASE, savepoint_release, 0, false)

#define STET_SERVE_DECLARE(kind, name, data_max, changes) \
	int64_t stet_serve_do_##name##_(struct stet_serve_call *c);
STET_SERVE_REQUESTS(STET_SERVE_DECLARE)
#undef STET_SERVE_DECLARE

#endif
