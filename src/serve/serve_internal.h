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

struct stet_serve_call;

/// Services ///

/* What a user has open. */
struct stet_serve_user {
	struct stet_list link; /* service.users */
	uint32_t uid;
	uint32_t sessions;
	uint64_t handles, views;

	/* --- atomic --- */
	_Atomic uint64_t told; /* inodes and names that parts of transactions remember */
};

struct stet_ll_service {
	/* --- set when made, then constant --- */
	struct stet_volume *vol;
	uint32_t own_uid;
	const struct stet_ll_mount
		*mount; /* clients must reach it (reach.c); NULL: there is none */

	struct stet_mutex lock;
	/* --- under lock --- */
	struct stet_list sessions; /* of stet_serve_session.link */
	struct stet_list users;    /* of stet_serve_user.link: those with sessions */
	struct stet_list calls;    /* of stet_serve_call.link: one for each connection */
	struct stet_list reaches;  /* of stet_serve_reach.link: words that were given out */
	struct stet_list parts;    /* of stet_serve_part.link: at work, and waiting, in order */
	struct stet_cond part_over;

	/* --- atomic --- */
	_Atomic bool no_begin, stopping;
	_Atomic unsigned begins; /* transactions that are being begun (session.c, S6) */
};

/// Showing that one reaches the mount (reach.c) ///

#define STET_SERVE_WORD_SIZE 33 /* 32 digits and a NUL */

/* One who has to. */
struct stet_serve_reach {
	/* --- set when made, then constant --- */
	char word[STET_SERVE_WORD_SIZE];
	uint32_t uid;

	/* --- under service.lock --- */
	struct stet_list link; /* service.reaches */
	bool reached, writable;
	void *within; /* as struct stet_ll_mount; owned; NULL: the main tree */
};

/* Gives a word out. -EIO. */
STET_CHECKED int stet_serve_reach_begin_(struct stet_ll_service *service, uint32_t uid,
					 struct stet_serve_reach *reach);
/* It is not good any more. What is in `within` is the caller's. Whether it was shown. */
bool stet_serve_reach_end_(struct stet_ll_service *service, struct stet_serve_reach *reach);

/// Sessions and their handles (session.c) ///

enum stet_serve_kind {
	STET_SERVE_TXN,
	STET_SERVE_FILE,
	STET_SERVE_DIR,
	STET_SERVE_TABLE,
	STET_SERVE_CURSOR,
};

/* What the parts of a user may have told the mount, to tell it again when one is taken back. With more it cannot be. */
#define STET_SERVE_TOLD_MAX 65536u

/* A part of a transaction. */
struct stet_serve_part {
	/* --- set when made, then constant --- */
	bool read_only;
	void *within; /* borrowed from the session */

	struct stet_api_part api;
	_Atomic bool over;

	/* --- under service.lock --- */
	struct stet_list link; /* service.parts */

	/* --- under session.lock --- */
	struct stet_api_told told;
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
	struct stet_serve_handle
		*part; /* opened in this part of a transaction; in use until it is closed */
	struct stet_serve_part
		*own; /* transaction: it is a part of the one around the session (S7); owned */

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
	void *within;            /* as struct stet_ll_mount, owned; NULL: in no transaction (S7) */
	struct stet_txn *around; /* that one's, whose memory is pinned */

	/* --- under service.lock --- */
	struct stet_list link;
	unsigned connections;

	struct stet_mutex lock;
	/* --- under lock --- */
	struct stet_hash handles;
	uint64_t next_number;
	struct stet_cond turn; /* some ending has ended */
};

/* A new session. One connection is in it. within: as struct stet_ll_mount; the session's, if it succeeds. -ENOMEM;
 * -ESTALE: the transaction has ended. */
STET_CHECKED int stet_serve_session_open_(struct stet_ll_service *service,
					  const struct stet_ll_who *who, bool read_only,
					  void *within, struct stet_serve_session **ret);
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
void stet_serve_handle_end_(struct stet_serve_session *session, struct stet_serve_handle *h);
/* A part begins, when those before it let it: gone (of arg) is asked now and then whether it is wanted any more.
 * -ENOMEM; -EBUSY: it took too long; -EINTR: gone. */
STET_CHECKED int stet_serve_part_begin_(struct stet_serve_session *session, struct stet_txn *around,
					bool read_only, stet_api_gone_fn *gone, void *arg,
					struct stet_serve_part **ret);
/* It has ended. NULL ok. */
void stet_serve_part_free_(struct stet_serve_session *session, struct stet_serve_part *part);
/* It ends; back: and what it has changed is taken back, or the whole is spoiled. -ESTALE: it has ended before, or the
 * transaction has; and what stet_api_part_end gives, -E2BIG: it is not taken back. */
int stet_serve_part_end_(struct stet_serve_session *session, struct stet_serve_part *part,
			 bool back);
/* As stet_api_part_rollback_to; -E2BIG: the mount cannot be told. */
STET_CHECKED int stet_serve_part_rollback_to_(struct stet_serve_call *c,
					      struct stet_serve_part *part, uint64_t savepoint);
/* Notes what a call has changed, to be told: a stet_ll_told_fn; arg: the call. */
void stet_serve_told_(void *arg, const struct stet_ll_touched *touched);
/* Tells the mount, if there is anything, and releases the list. */
void stet_serve_tell_(struct stet_serve_session *session, struct stet_ll_touched *list);
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

/* A stet_api_gone_fn; arg: a call: nobody wants its answer any more, or its transaction is being ended. */
bool stet_serve_gone_(void *arg);

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
	struct stet_api_told told; /* within a transaction: what is to be told */
	struct stet_txn *around; /* what is in no other transaction is in this one; NULL: in none */
	struct stet_serve_handle
		*part; /* in which the request is made (S7 of session.c), or NULL: one of `used`,
					   * or what one of them was opened in */
	bool changes, outside; /* of the request (STET_SERVE_CHANGES, ...) */
	bool unknown_handle, stale;
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
/* After the last field was taken: 0; -EPROTO: they were not as they should; -EINVAL: no such handle; -ESTALE, -EROFS:
 * the part of a transaction that it is in has ended, or changes nothing. */
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
 * nothing is open. h, which gets the part that it is in, is copied. */
STET_CHECKED int stet_serve_opened_(struct stet_serve_call *c, struct stet_serve_handle *h, int rc);
/* The request that closes one. */
int64_t stet_serve_drop_(struct stet_serve_call *c, enum stet_serve_kind kind);

/// Requests: each gives the result of the call (volume.c, txn.c, file.c, names.c) ///

typedef int64_t stet_serve_fn(struct stet_serve_call *c);

struct stet_serve_request {
	stet_serve_fn *fn;
	size_t data_max; /* that comes with it */
	unsigned what;   /* STET_SERVE_CHANGES, STET_SERVE_OUTSIDE */
};

#define STET_SERVE_CHANGES 1u /* refused in a session that only reads */
#define STET_SERVE_OUTSIDE \
	2u /* not a call in the transaction around: good also when that has ended */

#define STET_SERVE_REQUESTS(R)                                        \
	R(BEGIN, begin, 0, 0)                                         \
	R(BEGIN_BASE, begin_base, 0, 0)                               \
	R(COMMIT, commit, 0, 0)                                       \
	R(ABORT, abort, 0, STET_SERVE_OUTSIDE)                        \
	R(FREEZE, freeze, 0, 0)                                       \
	R(CONFLICT_TEXT, conflict_text, 0, 0)                         \
	R(TXNS, txns, 0, STET_SERVE_OUTSIDE)                          \
	R(CHANGES, changes, 0, 0)                                     \
	R(REVERT, revert, STET_WIRE_PATHS_MAX, 0)                     \
	R(SYNC, sync, 0, STET_SERVE_OUTSIDE)                          \
	R(STATFS, statfs, 0, STET_SERVE_OUTSIDE)                      \
	R(STATS, stats, 0, STET_SERVE_OUTSIDE)                        \
	R(CLEAN, clean, 0, STET_SERVE_CHANGES | STET_SERVE_OUTSIDE)   \
	R(OPENAT, openat, 0, 0)                                       \
	R(FILE_CLOSE, file_close, 0, STET_SERVE_OUTSIDE)              \
	R(PREAD, pread, 0, 0)                                         \
	R(PWRITE, pwrite, STET_WIRE_PIECE_MAX, STET_SERVE_CHANGES)    \
	R(APPEND, append, STET_WIRE_PIECE_MAX, STET_SERVE_CHANGES)    \
	R(TRUNCATE, truncate, 0, STET_SERVE_CHANGES)                  \
	R(PUNCH, punch, 0, STET_SERVE_CHANGES)                        \
	R(FALLOCATE, fallocate, 0, STET_SERVE_CHANGES)                \
	R(FSYNC, fsync, 0, 0)                                         \
	R(SEEK, seek, 0, 0)                                           \
	R(COPY_RANGE, copy_range, 0, STET_SERVE_CHANGES)              \
	R(FILE_STAT, file_stat, 0, 0)                                 \
	R(STATAT, statat, 0, 0)                                       \
	R(SETATTRAT, setattrat, 0, STET_SERVE_CHANGES)                \
	R(GETXATTR, getxattr, 0, 0)                                   \
	R(SETXATTR, setxattr, STET_WIRE_DATA_MAX, STET_SERVE_CHANGES) \
	R(LISTXATTR, listxattr, 0, 0)                                 \
	R(REMOVEXATTR, removexattr, 0, STET_SERVE_CHANGES)            \
	R(MKDIRAT, mkdirat, 0, STET_SERVE_CHANGES)                    \
	R(MKNODAT, mknodat, 0, STET_SERVE_CHANGES)                    \
	R(SYMLINKAT, symlinkat, 0, STET_SERVE_CHANGES)                \
	R(READLINKAT, readlinkat, 0, 0)                               \
	R(LINKAT, linkat, 0, STET_SERVE_CHANGES)                      \
	R(RENAMEAT, renameat, 0, STET_SERVE_CHANGES)                  \
	R(UNLINKAT, unlinkat, 0, STET_SERVE_CHANGES)                  \
	R(DIR_OPEN, dir_open, 0, 0)                                   \
	R(DIR_NEXT, dir_next, 0, 0)                                   \
	R(DIR_CLOSE, dir_close, 0, STET_SERVE_OUTSIDE)                \
	R(LOCK_TIMEOUT, lock_timeout, 0, 0)                           \
	R(TABLE_OPEN, table_open, 0, 0)                               \
	R(TABLE_CLOSE, table_close, 0, STET_SERVE_OUTSIDE)            \
	R(GET, get, 0, 0)                                             \
	R(PUT, put, STET_WIRE_DATA_MAX, STET_SERVE_CHANGES)           \
	R(DEL, del, 0, STET_SERVE_CHANGES)                            \
	R(COUNT, count, 0, 0)                                         \
	R(CURSOR_OPEN, cursor_open, 0, 0)                             \
	R(CURSOR_NEXT, cursor_next, 0, 0)                             \
	R(CURSOR_SEEK, cursor_seek, 0, 0)                             \
	R(CURSOR_CLOSE, cursor_close, 0, STET_SERVE_OUTSIDE)          \
	R(SAVEPOINT, savepoint, 0, 0)                                 \
	R(ROLLBACK_TO, rollback_to, 0, 0)                             \
	R(SAVEPOINT_RELEASE, savepoint_release, 0, 0)

#define STET_SERVE_DECLARE(kind, name, data_max, what) \
	int64_t stet_serve_do_##name##_(struct stet_serve_call *c);
STET_SERVE_REQUESTS(STET_SERVE_DECLARE)
#undef STET_SERVE_DECLARE

#endif
