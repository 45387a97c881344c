/* fuse_internal.h - what the files of this folder share.
 *
 * Words
 *   view     a state of the tree that the kernel can look at: the main tree (one per mount, it goes
 *            with the time), a transaction's, or an old version of the main tree that open files
 *            still need
 *   node     an inode in a view, as known to the kernel by a node id. Node ids are never used
 *            twice, so whatever the kernel has cached under one, belongs to one inode in one view
 *   call     a request of the kernel while a worker thread answers it
 *   opening  an OPEN that may have to wait; it then has no thread
 *
 * Locks, in the order in which they are taken
 *   libfuse's lock of a request   held by libfuse around the callbacks for INTERRUPT
 *   server.opening_lock           openings (opening.c)
 *   server.reply_lock             readers: who send an answer that the kernel may cache; the
 *                                 writer: who changes what may be cached (publish.c)
 *   server.lock                   nodes and views (node.c, view.c)
 *   server.kept_lock              what listings keep (list.c); under a listing's own lock
 * The library may be called under opening_lock (to cancel a wait) and under none of the others.
 */
#ifndef STET_FUSE_FUSE_INTERNAL_H
#define STET_FUSE_FUSE_INTERNAL_H

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif

#include <fuse3/fuse_lowlevel.h>

#include "stetfs.h"
#include "stetfs_lowlevel.h"

#include "fuse/fuse.h"
#include "fuse/table.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STET_FUSE_NAME_MAX 255
#define STET_FUSE_WRITE_MAX (1u << 20) /* of one request: what the library writes atomically */
#define STET_FUSE_GENERATION 1u        /* node ids are never used twice */

/* How long the kernel may believe what it was told: in the main tree until it is told otherwise;
 * in a transaction, whose nodes all go stale together, a little. */
#define STET_FUSE_MAIN_TIMEOUT_S 60.0
#define STET_FUSE_VIEW_TIMEOUT_S 1.0

#define STET_FUSE_DOT_STET ".stet"

/* Tables look like regular files, which cannot be opened; see reply.c, I6. */
static inline bool stet_fuse_is_table_(uint32_t mode)
{
	return (mode & 0170000u) == STET_S_IFTABLE;
}

/* The mode that the kernel is told. */
uint32_t stet_fuse_show_mode_(uint32_t mode);

/* Node ids that are always there; the others count up from FIRST. */
enum {
	STET_FUSE_ID_ROOT = FUSE_ROOT_ID,
	STET_FUSE_ID_STET = 2,      /* .stet */
	STET_FUSE_ID_TXNS = 3,      /* .stet/txn */
	STET_FUSE_ID_SNAPSHOTS = 4, /* .stet/snapshots */
	STET_FUSE_ID_HISTORY = 5,   /* .stet/history */
	STET_FUSE_ID_FIRST = 16,
};

/// Views and nodes ///

enum stet_fuse_view_kind {
	STET_FUSE_MAIN,
	STET_FUSE_TXN,
	STET_FUSE_OLD, /* what files that were open when a commit changed them still see */
};

enum stet_fuse_view_state {
	STET_FUSE_OPEN,
	STET_FUSE_PAUSED,  /* calls wait: a part of it is being given up */
	STET_FUSE_CLOSING, /* takes only what the kernel must still write: pages of mappings */
	STET_FUSE_CLOSED,  /* takes nothing any more; the transaction is being ended */
	STET_FUSE_ENDED,   /* txn is NULL; waits for the kernel to forget its nodes */
};

struct stet_fuse_view {
	/* --- set when made, then constant --- */
	struct stet_fuse_server *server;
	enum stet_fuse_view_kind kind;
	uint64_t id;  /* of the transaction; 0: main */
	uint64_t tag; /* for the top 16 bits of st_ino; 0: none */
	uint64_t seq; /* counts views up: part of the key of its nodes */
	bool detached;
	bool read_only;
	bool is_base; /* what another one began with; it has no number of its own and ends with it */
	uid_t uid;
	gid_t gid;
	pid_t pid;
	int64_t begun_s;  /* main: when it was mounted */
	int64_t begun_ms; /* the same, monotonic */

	/* --- under server.lock --- */
	struct stet_fuse_list link; /* server.views */
	enum stet_fuse_view_state state;
	struct stet_txn *txn;        /* NULL: plain, or ended */
	uint64_t calls;              /* in progress */
	uint64_t refs;               /* its nodes, and those who hold on to it */
	uint64_t handles;            /* open files */
	struct stet_fuse_list nodes; /* TXN: of node.of_view, those that may hold their inode */
	pid_t flusher;               /* thread that may still open files while CLOSING; 0: none */
	struct stet_fuse_view *base; /* TXN: referenced; NULL: nobody has looked at it yet */
	bool conflict;               /* met one */
	uint64_t joined;             /* commands that work in it as if it were theirs */
	bool spoiled;                /* one of them failed in the middle: it cannot be committed */
	int write_error; /* of a page that the kernel wrote back: the commit must fail */

	/* --- atomic --- */
	_Atomic bool ending; /* whoever moved it out of OPEN may wait for the calls in it */
};

enum stet_fuse_node_kind {
	STET_FUSE_NODE_INO,   /* an inode of the volume */
	STET_FUSE_NODE_STET,  /* .stet */
	STET_FUSE_NODE_TXNS,  /* .stet/txn */
	STET_FUSE_NODE_GUARD, /* .stet/txn/ID */
	STET_FUSE_NODE_PAST,  /* .stet/snapshots, .stet/history */
};

/* A name by which the kernel may know a node. */
struct stet_fuse_name {
	struct stet_fuse_name *next;
	uint64_t dir_id; /* node id of the directory */
	char name[];
};

#define STET_FUSE_NAMES_MAX 64 /* remembered for one node; with more, its names are not cached */

struct stet_fuse_node {
	/* --- set when made, then constant --- */
	uint64_t id;
	uint64_t ino; /* 0: not of the volume */
	enum stet_fuse_node_kind kind;
	uint32_t type; /* S_IFMT bits */

	/* --- under server.lock --- */
	struct stet_fuse_link by_id;   /* server.by_id */
	struct stet_fuse_link by_ino;  /* server.by_ino; not when replaced */
	struct stet_fuse_list of_view; /* view.nodes; none: not TXN, or let go */
	struct stet_fuse_list open;    /* of handle.link: opened, or being opened */
	struct stet_fuse_view
		*view; /* referenced; changes once, when it is replaced: MAIN to OLD */
	bool replaced;
	bool names_overflow; /* more than NAMES_MAX */
	uint64_t lookups;    /* the kernel's references */
	uint64_t holds;      /* on the inode, given back when the node goes or its view has ended */
	uint64_t handles;    /* completed opens */
	uint64_t openings;   /* opens under way */
	uint64_t calls;      /* in progress */
	unsigned names_count;
	struct stet_fuse_name *names; /* regular files of the main tree and of transactions */
	uint64_t dir_id;              /* in which it was looked up last; 0: never */
};

/// The server ///

#define STET_FUSE_COUNTERS(C) \
	C(requests)           \
	C(opens_parked)       \
	C(opens_interrupted)  \
	C(nodes_replaced)     \
	C(inodes_invalidated) \
	C(names_invalidated)  \
	C(views_begun)        \
	C(views_committed)    \
	C(views_aborted)      \
	C(conflicts)

struct stet_fuse_counters {
#define C(name) _Atomic uint64_t name;
	STET_FUSE_COUNTERS(C)
#undef C
};

/* The inodes that a commit in progress touches. */
struct stet_fuse_touched {
	size_t count;
	uint64_t *ino;           /* sorted */
	_Atomic uint64_t *limit; /* [i]: the kernel is told no larger size of ino[i] */
	bool all;                /* any inode may be touched */
};

struct stet_fuse_control_server;
struct stet_fuse_publishing;

struct stet_fuse_server {
	/* --- set at start, then constant --- */
	const struct stet_fuse_options *options;
	struct stet_volume *vol;
	struct fuse_session *session;
	char volume[PATH_MAX], dir[PATH_MAX]; /* absolute */
	uint64_t dev;                         /* st_dev of the mount */
	bool shared;                          /* other users may use it */
	bool is_root;
	bool read_only;
	uint32_t lock_timeout_ms;
	pthread_t main_thread;
	void (*on_ready)(
		struct stet_fuse_server *server); /* called when the kernel has said hello */
	struct stet_fuse_control_server *control;
	bool mounted;

	/* --- under lock --- */
	pthread_mutex_t lock;
	pthread_cond_t drained; /* calls of a view or node have ended */
	struct stet_fuse_table by_id, by_ino;
	struct stet_fuse_list views; /* of view.link, all but main */
	struct stet_fuse_view main_view;
	uint64_t next_id, next_seq, next_tag;

	/* --- under kept_lock --- */
	pthread_mutex_t kept_lock;
	struct stet_fuse_list kept; /* listings that keep something (list.c) */

	/* --- under reply_lock --- */
	pthread_rwlock_t reply_lock;
	struct stet_fuse_touched touched;

	/* --- of the library's thread that calls the watch --- */
	struct stet_fuse_publishing *publishing;

	/* --- written under reply_lock, read without --- */
	_Atomic uint64_t epoch; /* counts the changes of touched */

	/* --- under opening_lock --- */
	pthread_mutex_t opening_lock;
	pthread_cond_t no_pending;
	struct stet_fuse_list openings; /* of opening.link */
	uint64_t pending;               /* requests that wait without a thread, of any kind */

	/* --- of the thread that has the session's first exchange (session.c) --- */
	_Atomic bool init_seen, init_answered;
	uint32_t init_flags; /* of INIT, as offered */

	/* --- atomic --- */
	struct stet_fuse_counters counters;
	_Atomic bool stopping;
	_Atomic bool taken_out; /* of the tree, by us: libfuse need not do it, and could not */
	_Atomic uint64_t listing_marks; /* names that listings keep for seeking */
	_Atomic int64_t log_began_s;    /* log.c, I3 */
	_Atomic uint64_t log_lines;
};

#define stet_fuse_count_(server, name) \
	((void)atomic_fetch_add_explicit(&(server)->counters.name, 1, memory_order_relaxed))

/// Nodes (node.c) ///

int stet_fuse_nodes_init_(struct stet_fuse_server *server);
void stet_fuse_nodes_release_(struct stet_fuse_server *server);

/* The node of an inode of the volume in a view: finds or makes it, and counts one lookup. Takes
 * over one hold on the inode (given back on failure). -ENOMEM. Borrowed: valid while the lookup
 * counts. */
int stet_fuse_node_look_(struct stet_fuse_server *server, struct stet_fuse_view *view, uint64_t ino,
			 uint32_t mode, struct stet_fuse_node **ret);
/* The same for a guard directory, which has no inode. */
int stet_fuse_node_guard_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			  struct stet_fuse_node **ret);
/* Gives back what the nodes of a view that has ended hold. */
void stet_fuse_nodes_let_go_(struct stet_fuse_server *server, struct stet_fuse_view *view);
/* Takes back lookups. */
void stet_fuse_node_forget_(struct stet_fuse_server *server, uint64_t id, uint64_t count);
/* Under server.lock. NULL: none. */
struct stet_fuse_node *stet_fuse_node_find_locked_(struct stet_fuse_server *server, uint64_t id);
struct stet_fuse_node *stet_fuse_node_of_locked_(struct stet_fuse_server *server,
						 const struct stet_fuse_view *view, uint64_t ino);
/* Under server.lock: takes it out of its view's index and gives it to another view (OLD); or
 * back. */
void stet_fuse_node_replace_locked_(struct stet_fuse_server *server, struct stet_fuse_node *node,
				    struct stet_fuse_view *old);
void stet_fuse_node_restore_locked_(struct stet_fuse_server *server, struct stet_fuse_node *node);
/* Remembers where a node was looked up, and the name of a regular file; that not in views that are only read. */
void stet_fuse_node_name_(struct stet_fuse_server *server, struct stet_fuse_node *node,
			  uint64_t dir_id, const char *name);
/* The name number `at` by which an inode is known in a view; false: there are no more. It may be out of
 * date. */
bool stet_fuse_node_known_name_(struct stet_fuse_server *server, const struct stet_fuse_view *view,
				uint64_t ino, unsigned at, struct stet_ll_name *ret);
/* Counters of a node, of openings and of handles: +1 or -1; may free the node. */
void stet_fuse_node_opening_(struct stet_fuse_server *server, struct stet_fuse_node *node,
			     int step);
void stet_fuse_node_handle_(struct stet_fuse_server *server, struct stet_fuse_node *node, int step);

/// Calls (node.c) ///

struct stet_fuse_call {
	struct stet_fuse_server *server;
	fuse_req_t req;
	struct stet_fuse_node *node; /* borrowed until the call ends, as are the next two */
	struct stet_fuse_view *view; /* of the node, when the call began */
	struct stet_txn *txn;        /* of the view; NULL: plain */
	uint64_t epoch;
};

enum stet_fuse_access {
	STET_FUSE_ANY,       /* an ordinary request */
	STET_FUSE_WRITEBACK, /* the kernel writes back a page of a mapping */
	STET_FUSE_NO_GUARDS, /* ordinary, but only for inodes of the volume: else guard.c, I3 */
};

/* False: it was answered with an error. */
bool stet_fuse_call_begin_(struct stet_fuse_call *call, fuse_req_t req, fuse_ino_t id,
			   enum stet_fuse_access access);
void stet_fuse_call_end_(struct stet_fuse_call *call);
/* A second node of the same request, for what has two. -ESTALE, -EXDEV (of another view),
 * -EPERM. */
int stet_fuse_call_second_(struct stet_fuse_call *call, fuse_ino_t id, struct stet_fuse_node **ret);
void stet_fuse_call_release_second_(struct stet_fuse_call *call, struct stet_fuse_node *node);

/// Answers (reply.c) ///

/* The errno value for the kernel; notes conflicts and logs what should not happen. */
int stet_fuse_errno_(struct stet_fuse_server *server, struct stet_fuse_view *view, int rc);
/* Answers with an error, or with success when rc is 0. */
void stet_fuse_reply_rc_(struct stet_fuse_call *call, int rc);
void stet_fuse_fill_(const struct stet_fuse_server *server, const struct stet_fuse_view *view,
		     const struct stet_stat *st, struct stat *ret);
/* With uid= or gid=: the owner of what is made. */
void stet_fuse_own_(const struct stet_fuse_server *server, uint32_t *uid, uint32_t *gid);
/* With uid= or gid=: takes out of set what changes nothing that can be seen. -EPERM: another owner. */
int stet_fuse_check_owner_(const struct stet_fuse_server *server, struct stet_setattr *set);
uint64_t stet_fuse_show_ino_(const struct stet_fuse_view *view, uint64_t ino);
void stet_fuse_reply_attr_(struct stet_fuse_call *call, const struct stet_stat *st);
/* Looks st up for the kernel under a name of the call's node; takes over one hold. Fills in all but
 * the timeouts. */
int stet_fuse_entry_(struct stet_fuse_call *call, const char *name, const struct stet_stat *st,
		     struct fuse_entry_param *ret);
/* Under reply_lock: sets the timeouts of an entry as long as the kernel may keep it, and the size
 * that it may be told. */
void stet_fuse_timeouts_locked_(struct stet_fuse_call *call, struct fuse_entry_param *entry,
				uint64_t ino);
/* Answers with an entry; takes over one hold. */
void stet_fuse_reply_entry_(struct stet_fuse_call *call, const char *name,
			    const struct stet_stat *st);
void stet_fuse_reply_absent_(struct stet_fuse_call *call);

/// The directories below .stet (guard.c) ///

bool stet_fuse_is_reserved_(const struct stet_fuse_node *dir, const char *name);
/* The errno value for whoever wants to change one of them, or something in it; 0: it is none. */
int stet_fuse_guard_refuses_(const struct stet_fuse_node *node);
void stet_fuse_guard_lookup_(struct stet_fuse_call *call, const char *name);
void stet_fuse_guard_getattr_(struct stet_fuse_call *call);
/* Fills in entry number `at` of the directory's listing, "." and ".." not counted; false: no
 * more. */
bool stet_fuse_guard_entry_(struct stet_fuse_server *server, const struct stet_fuse_node *node,
			    uint64_t at, struct stet_ll_entry *ret);

/// Open files and directories (opening.c, file.c, list.c) ///

struct stet_fuse_listing;

struct stet_fuse_handle {
	struct stet_fuse_list link;        /* node.open */
	struct stet_fuse_node *node;       /* counted in node.handles, or node.openings before */
	int flags;                         /* of open(2) */
	struct stet_ll_lock *lock;         /* plain writers; NULL: none */
	struct stet_fuse_listing *listing; /* directories */
	_Atomic int64_t accessed_s;        /* when the access time was last seen to (attr.c, I5) */
};

static inline struct stet_fuse_handle *stet_fuse_handle_of_(const struct fuse_file_info *fi)
{
	return (struct stet_fuse_handle *)(uintptr_t)fi->fh;
}

/* NULL: no memory. */
struct stet_fuse_handle *stet_fuse_handle_create_(struct stet_fuse_server *server,
						  struct stet_fuse_node *node, int flags);
/* Lets go of its lock and listing; `opened`: it was counted in node.handles. */
void stet_fuse_handle_destroy_(struct stet_fuse_server *server, struct stet_fuse_handle *handle,
			       bool opened);
void stet_fuse_listing_destroy_(struct stet_fuse_listing *listing);

/* statx.c: takes a request as it came, and gives it back as libfuse knows it; returns its length. */
size_t stet_fuse_statx_request_(char *buf, size_t len);
/* The time of creation of what a GETATTR is about to be answered with. */
void stet_fuse_statx_btime_(struct timespec btime);
/* Sends the answer, if it is one to STATX. */
struct iovec;
bool stet_fuse_statx_reply_(int fd, const struct iovec *iov, int count, ssize_t *ret);

/* attr.c, I5: something was read. handle NULL: a link. */
void stet_fuse_accessed_(struct stet_fuse_call *call, struct stet_fuse_handle *handle);
/* Whether a reader's handle must ask us for what the kernel has in its cache. */
bool stet_fuse_wants_reads_(struct stet_fuse_server *server, const struct stet_fuse_node *node,
			    const struct stet_fuse_view *view, int flags);

/* Answers an OPEN, now or later. */
void stet_fuse_open_(struct stet_fuse_call *call, const struct fuse_file_info *fi);
/* Opens a file that the call has made, and answers the CREATE. Takes over one hold, and the lock. */
void stet_fuse_open_created_(struct stet_fuse_call *call, const char *name,
			     const struct stet_stat *st, const struct fuse_file_info *fi,
			     struct stet_ll_lock *lock);
/* Of flags as for open(2). */
bool stet_fuse_only_appends_(int flags);
/* Goes on with the openings that a commit had held up. */
void stet_fuse_openings_resume_(struct stet_fuse_server *server);
/* Ends those of a view (NULL: all). */
void stet_fuse_openings_cancel_(struct stet_fuse_server *server, const struct stet_fuse_view *view);
/* Counts requests that wait without a thread; wait: until there are none. */
void stet_fuse_pending_(struct stet_fuse_server *server, int step);
void stet_fuse_pending_wait_(struct stet_fuse_server *server);

/// The operations, by file ///

void stet_fuse_op_lookup_(fuse_req_t req, fuse_ino_t dir, const char *name);
void stet_fuse_op_mknod_(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode, dev_t rdev);
void stet_fuse_op_mkdir_(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode);
void stet_fuse_op_symlink_(fuse_req_t req, const char *target, fuse_ino_t dir, const char *name);
void stet_fuse_op_create_(fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode,
			  struct fuse_file_info *fi);
void stet_fuse_op_unlink_(fuse_req_t req, fuse_ino_t dir, const char *name);
void stet_fuse_op_rmdir_(fuse_req_t req, fuse_ino_t dir, const char *name);
void stet_fuse_op_rename_(fuse_req_t req, fuse_ino_t dir, const char *name, fuse_ino_t new_dir,
			  const char *new_name, unsigned flags);
void stet_fuse_op_link_(fuse_req_t req, fuse_ino_t id, fuse_ino_t new_dir, const char *new_name);

/* Takes set-id bits and capabilities from the call's file, if the request asks for that (attr.c,
 * I3). */
int stet_fuse_kill_privileges_(struct stet_fuse_call *call);

void stet_fuse_op_getattr_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void stet_fuse_op_setattr_(fuse_req_t req, fuse_ino_t id, struct stat *attr, int to_set,
			   struct fuse_file_info *fi);
void stet_fuse_op_readlink_(fuse_req_t req, fuse_ino_t id);
void stet_fuse_op_statfs_(fuse_req_t req, fuse_ino_t id);
void stet_fuse_op_getxattr_(fuse_req_t req, fuse_ino_t id, const char *name, size_t cap);
void stet_fuse_op_setxattr_(fuse_req_t req, fuse_ino_t id, const char *name, const char *value,
			    size_t len, int flags);
void stet_fuse_op_listxattr_(fuse_req_t req, fuse_ino_t id, size_t cap);
void stet_fuse_op_removexattr_(fuse_req_t req, fuse_ino_t id, const char *name);

void stet_fuse_op_open_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void stet_fuse_op_release_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void stet_fuse_op_read_(fuse_req_t req, fuse_ino_t id, size_t len, off_t off,
			struct fuse_file_info *fi);
void stet_fuse_op_write_(fuse_req_t req, fuse_ino_t id, const char *buf, size_t len, off_t off,
			 struct fuse_file_info *fi);
void stet_fuse_op_fsync_(fuse_req_t req, fuse_ino_t id, int data_only, struct fuse_file_info *fi);
void stet_fuse_op_fallocate_(fuse_req_t req, fuse_ino_t id, int mode, off_t off, off_t len,
			     struct fuse_file_info *fi);
void stet_fuse_op_lseek_(fuse_req_t req, fuse_ino_t id, off_t off, int whence,
			 struct fuse_file_info *fi);
void stet_fuse_op_copy_file_range_(fuse_req_t req, fuse_ino_t from, off_t from_off,
				   struct fuse_file_info *from_fi, fuse_ino_t to, off_t to_off,
				   struct fuse_file_info *to_fi, size_t len, int flags);

void stet_fuse_op_opendir_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void stet_fuse_op_releasedir_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi);
void stet_fuse_op_readdir_(fuse_req_t req, fuse_ino_t id, size_t cap, off_t off,
			   struct fuse_file_info *fi);
void stet_fuse_op_readdirplus_(fuse_req_t req, fuse_ino_t id, size_t cap, off_t off,
			       struct fuse_file_info *fi);

/// Views (view.c) ///

/* Begins a transaction and its view. The caller gets a reference (stet_fuse_view_put_). */
struct stet_fuse_view_new {
	unsigned level; /* STET_BEGIN_ flags */
	bool detached;
	uid_t uid;
	gid_t gid;
	pid_t pid;
};
int stet_fuse_view_begin_(struct stet_fuse_server *server, const struct stet_fuse_view_new *what,
			  struct stet_fuse_view **ret);
/* An OLD view of the main tree as it is now; with a reference. */
int stet_fuse_view_old_(struct stet_fuse_server *server, struct stet_fuse_view **ret);
/* The open or closing transaction with that id, with a reference; NULL: none. */
struct stet_fuse_view *stet_fuse_view_find_(struct stet_fuse_server *server, uint64_t id);
void stet_fuse_view_put_(struct stet_fuse_server *server, struct stet_fuse_view *view);
/* Under server.lock; true: that was the last reference, and the caller gives it to _destroy_
 * without the lock. */
bool stet_fuse_view_put_locked_(struct stet_fuse_view *view);
void stet_fuse_view_destroy_(struct stet_fuse_view *view);

/* How a view ended. */
struct stet_fuse_view_end {
	int result;
	bool conflict;
	char text[1024];
};
/* Paths in a view; count 0: no part is meant. */
struct stet_fuse_part {
	const char *const *path;
	size_t count;
};
/* End it; -ENOENT: somebody else has, or does. part: commits only that, and drops the rest; if that does not
 * stand alone, -EINVAL (a path that names no change: the same), the view stays open and the reason is in
 * ret->text. */
int stet_fuse_view_commit_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			   unsigned flags, const struct stet_fuse_part *part,
			   struct stet_fuse_view_end *ret);
/* Gives up a part; the view stays open. Otherwise as commit. */
int stet_fuse_view_revert_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			   const struct stet_fuse_part *part, struct stet_fuse_view_end *ret);
int stet_fuse_view_abort_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			  struct stet_fuse_view_end *ret);
/* Keeps the view from being ended, as a call does, until leave. -ENOENT: it is not open. */
int stet_fuse_view_enter_(struct stet_fuse_server *server, struct stet_fuse_view *view);
void stet_fuse_view_leave_(struct stet_fuse_server *server, struct stet_fuse_view *view);
/* Calls fn for what it would change. */
int stet_fuse_view_changes_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			    stet_changes_fn *fn, void *arg);
/* The view of what a transaction began with, for a call in the transaction; it lasts as long as that
 * call. */
int stet_fuse_view_base_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			 struct stet_fuse_view **ret);
/* From now on it takes no changes. */
int stet_fuse_view_freeze_(struct stet_fuse_server *server, struct stet_fuse_view *view);
/* What was changed other than through the kernel, which has to forget it. Not from a thread that answers it. */
void stet_fuse_view_told_(struct stet_fuse_view *view, const struct stet_ll_touched *touched);
/* A command comes that works in it as if it were its own. -ENOENT. *ret_changes: for leave. */
int stet_fuse_view_join_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			 uint64_t *ret_changes);
/* It goes; failed: if it has changed anything, the transaction is spoiled. */
void stet_fuse_view_quit_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			  uint64_t changes, bool failed);
/* Aborts detached transactions that were begun before a time of the monotonic clock. */
void stet_fuse_views_expire_(struct stet_fuse_server *server, int64_t before_ms);
/* At the end: aborts all. */
void stet_fuse_views_end_(struct stet_fuse_server *server);
/* CLOCK_MONOTONIC. */
int64_t stet_fuse_now_ms_(void);

/// Publishing, and forgetting what the kernel has cached (publish.c, flush.c) ///

int stet_fuse_publishing_init_(struct stet_fuse_server *server);
void stet_fuse_publishing_release_(struct stet_fuse_server *server);
void stet_fuse_watch_(void *arg, enum stet_ll_phase phase, const struct stet_ll_touched *touched);
/* Under reply_lock: does the commit in progress touch the inode? */
bool stet_fuse_touches_locked_(const struct stet_fuse_server *server, uint64_t ino);
/* Under reply_lock: the size that the kernel may be told of an inode of the main tree. */
uint64_t stet_fuse_size_locked_(const struct stet_fuse_server *server, uint64_t ino, uint64_t size);
/* The kernel has written up to `end` of an inode of the main tree, as it sees it. */
void stet_fuse_note_write_(struct stet_fuse_server *server, uint64_t ino, uint64_t end);
/* Node ids, collected under server.lock, used without. */
struct stet_fuse_ids {
	uint64_t *id;
	size_t count, cap;
};
bool stet_fuse_ids_add_(struct stet_fuse_ids *ids, uint64_t id);
void stet_fuse_ids_release_(struct stet_fuse_ids *ids);
/* False: the kernel does not have it. */
bool stet_fuse_inval_inode_(struct stet_fuse_server *server, uint64_t id, bool data);
void stet_fuse_inval_name_(struct stet_fuse_server *server, uint64_t dir_id, const char *name);
/* Has the kernel write back what mappings of a view's files hold. */
void stet_fuse_flush_view_(struct stet_fuse_server *server, struct stet_fuse_view *view);
/* Drops what the kernel holds of a view's open files. */
void stet_fuse_drop_view_(struct stet_fuse_server *server, const struct stet_fuse_view *view);

/// The session with the kernel (session.c) ///

int stet_fuse_session_create_(struct stet_fuse_server *server, char *why, size_t cap);
/* Mounts; sets server.dev. */
int stet_fuse_session_mount_(struct stet_fuse_server *server, char *why, size_t cap);
/* Serves until unmounted or told to stop. */
int stet_fuse_session_serve_(struct stet_fuse_server *server);
/* Does the request that this thread works on take privileges away? */
bool stet_fuse_kills_privileges_(void);
/* Makes serve return, from any thread. */
void stet_fuse_session_stop_(struct stet_fuse_server *server);
/* Takes the mount out of the tree. -EBUSY. */
int stet_fuse_unmount_(const char *dir, bool lazy);
/* The same of our own mount. */
int stet_fuse_take_out_(struct stet_fuse_server *server, bool lazy);

/// Control (control_server.c, control_library.c, wire.c, runtime.c) ///

/* An extended attribute of a tree's root was asked for, or (write) to be set: is it a word of a client of the
 * library, who has shown by it that he gets there? */
bool stet_fuse_reached_(struct stet_fuse_call *call, const char *name, bool write);

int stet_fuse_control_start_(struct stet_fuse_server *server, char *why, size_t cap);
/* Closes all connections; transactions bound to them are aborted. */
void stet_fuse_control_stop_(struct stet_fuse_server *server);
/* Removes socket and record; last of all. */
void stet_fuse_control_remove_(struct stet_fuse_server *server);

/// Messages (log.c) ///

void stet_fuse_log_open_(bool foreground);
/* From now on what libfuse says goes into why; NULL: to the log again. Not with other threads of its. */
void stet_fuse_log_catch_(char *why, size_t cap);
/* One line, with whatever is no text escaped. */
void stet_fuse_log_(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Asked before a line that any user can cause. */
bool stet_fuse_may_log_(struct stet_fuse_server *server);
/* Copies text, cut to cap, with control characters and what is no UTF-8 as \ooo. */
void stet_fuse_escape_(char *ret, size_t cap, const char *text);
/* Writes a line into why; returns rc. */
int stet_fuse_why_(char *why, size_t cap, int rc, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/// The service manager (notify.c) ///

void stet_fuse_notify_open_(bool foreground);
/* state: "READY=1", "STOPPING=1" or ""; verb and what: for people, "mounted at", the directory. */
void stet_fuse_notify_(const char *state, const char *verb, const char *what);

#endif
