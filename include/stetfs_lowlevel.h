/* stetfs_lowlevel.h - StetFS by inode number: what a FUSE, NFS or 9P server needs.
 *
 * All rules of stetfs.h hold here too: results, errors that any call may give, transactions (NULL:
 * a plain operation), threads, ownership. Names are NUL-terminated single components. In addition,
 * every call that takes an inode number may give
 *   -ENOENT    there is no such inode (in the state that the transaction sees)
 *   -ENOTDIR   a directory was wanted, -EISDIR: something else was
 *   -ENAMETOOLONG, -EINVAL   the name is empty, too long, or not one component
 *
 * Flags: each call takes `flags`, 0 or a combination of the STET_LL_ flags that it names.
 *
 * What may wait, and how a server avoids it:
 *   locks        with STET_LL_NOWAIT a lock that is not free gives -EBUSY at once. This does not doom
 *                a transaction: it may go on, and try again. Without, the thread waits.
 *   data at open stet_ll_open_lock can wait without a thread
 *   durability   stet_ll_commit and stet_ll_fsync_async wait without a thread
 *   space        a call that needs room may wait a little for the cleaner, always in its thread
 *
 * Callbacks (on_done, watch) come from threads of the library, with no lock held, and may call the
 * library, except stet_close. on_done is called exactly once for each accepted request, in no
 * particular order, always from one and the same thread: it should not block. stet_close waits for
 * all of them.
 */
#ifndef STETFS_LOWLEVEL_H
#define STETFS_LOWLEVEL_H

#include "stetfs.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A lock that is not free gives -EBUSY instead of waiting. Understood by every call with flags. */
#define STET_LL_NOWAIT 0x1000u
/** Hold the inode that is returned (see stet_ll_hold), in the same atomic step. */
#define STET_LL_HOLD 0x2000u
/** stet_ll_readdir: read the attributes too. */
#define STET_LL_STAT 0x4000u
/** stet_ll_open_lock: for appending only. */
#define STET_LL_APPEND 0x8000u
/** stet_ll_setxattr of an access ACL: clear the set-group-id bit too. */
#define STET_LL_KILL_SGID 0x800u

/// Holding inodes ///

/**
 * An inode that is held (open, or known to the kernel) lives on when its last name goes, until it is
 * held no more; then it is reclaimed. Holds count; they are of the volume, not of a transaction, and
 * vanish with stet_close. -ENOMEM. That the inode exists is not checked: hold it with the call
 * that finds it (STET_LL_HOLD).
 */
STET_API_CHECKED int stet_ll_hold(struct stet_volume *vol, uint64_t ino);

/** Gives up `count` holds. */
void stet_ll_unhold(struct stet_volume *vol, uint64_t ino, uint64_t count);

/// Names ///

/** Finds a name, "." and ".." included. flags: NOWAIT, HOLD. */
STET_API_CHECKED int stet_ll_lookup(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				    const char *name, unsigned flags, struct stet_stat *ret);

/** What stet_ll_make makes. */
struct stet_ll_new {
	uint32_t mode; /* type and permissions */
	uint32_t uid, gid;
	uint32_t umask;     /* taken from the permissions unless the directory has a default ACL */
	uint64_t rdev;      /* devices: major << 32 | minor */
	const char *target; /* symbolic links: 1..4095 bytes */
};

/** Makes an inode of any type with a name. flags: NOWAIT, HOLD. -EEXIST. ret may be NULL. */
STET_API_CHECKED int stet_ll_make(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				  const char *name, const struct stet_ll_new *what, unsigned flags,
				  struct stet_stat *ret);

struct stet_ll_lock;

/**
 * Makes a regular file and opens it for writing, as stet_ll_make and stet_ll_open_lock, in one atomic
 * step: so nobody else can have locked it. flags: NOWAIT, HOLD, APPEND. *ret_lock: NULL in a
 * transaction.
 */
STET_API_CHECKED int stet_ll_create(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				    const char *name, const struct stet_ll_new *what,
				    unsigned flags, struct stet_stat *ret,
				    struct stet_ll_lock **ret_lock);

/** Removes a name of anything but a directory. flags: NOWAIT. *ret_ino (may be NULL): what it named. */
STET_API_CHECKED int stet_ll_unlink(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				    const char *name, unsigned flags, uint64_t *ret_ino);

/** Removes an empty directory. flags: NOWAIT. -ENOTEMPTY. *ret_ino (may be NULL): which. */
STET_API_CHECKED int stet_ll_rmdir(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				   const char *name, unsigned flags, uint64_t *ret_ino);

/**
 * As stet_renameat. flags: NOWAIT, STET_RENAME_. *ret_replaced (may be NULL): the inode that lost the
 * name to_name, 0 when none did.
 */
STET_API_CHECKED int stet_ll_rename(struct stet_volume *vol, struct stet_txn *txn,
				    uint64_t from_dir, const char *from_name, uint64_t to_dir,
				    const char *to_name, unsigned flags, uint64_t *ret_replaced);

/** Gives an inode one more name. flags: NOWAIT, HOLD. -EEXIST, -EPERM, -EMLINK. ret may be NULL. */
STET_API_CHECKED int stet_ll_link(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				  uint64_t dir, const char *name, unsigned flags,
				  struct stet_stat *ret);

/** As stet_readlinkat. flags: NOWAIT. */
STET_API_CHECKED ssize_t stet_ll_readlink(struct stet_volume *vol, struct stet_txn *txn,
					  uint64_t ino, unsigned flags, char *buf, size_t cap);

struct stet_ll_entry {
	struct stet_stat stat; /* without STET_LL_STAT only ino, and the type in mode */
	char name[256];        /* NUL terminated */
};

/**
 * Fills in up to cap entries of a directory, without "." and "..", in the order of the names, starting
 * with the first one > after ("": from the start). Returns how many, 0 at the end. One call is atomic;
 * for a listing that does not change from call to call, pass a read-only snapshot transaction.
 * flags: NOWAIT, STAT, HOLD (with STAT: each one).
 */
STET_API_CHECKED int stet_ll_readdir(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				     const char *after, unsigned flags,
				     struct stet_ll_entry *entries, size_t cap);

/// Attributes ///

/** flags: NOWAIT, HOLD. */
STET_API_CHECKED int stet_ll_getattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				     unsigned flags, struct stet_stat *ret);

/** flags: NOWAIT. *ret (may be NULL): the attributes afterwards. */
STET_API_CHECKED int stet_ll_setattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				     const struct stet_setattr *attr, unsigned flags,
				     struct stet_stat *ret);

/**
 * The inode was read: its access time becomes now, if it was not later than the last change or is a day
 * old (relatime). For servers that keep it: no other call changes it but setting it. A plain operation
 * that waits for nothing: 1: it was changed, 0: it need not be, or cannot be now. flags:
 * ACCESS_ALWAYS: however old it is; ACCESS_LOOK: nothing is changed, 1: it would be.
 */
#define STET_LL_ACCESS_ALWAYS 0x1u
#define STET_LL_ACCESS_LOOK 0x2u
STET_API_CHECKED int stet_ll_accessed(struct stet_volume *vol, uint64_t ino, unsigned flags);

/* Extended attributes: as stet_getxattr and its sisters. flags: NOWAIT; set also STET_XATTR_
 * and KILL_SGID. */
STET_API_CHECKED ssize_t stet_ll_getxattr(struct stet_volume *vol, struct stet_txn *txn,
					  uint64_t ino, const char *name, unsigned flags, void *buf,
					  size_t cap);
STET_API_CHECKED int stet_ll_setxattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				      const char *name, const void *value, size_t len,
				      unsigned flags);
STET_API_CHECKED ssize_t stet_ll_listxattr(struct stet_volume *vol, struct stet_txn *txn,
					   uint64_t ino, unsigned flags, char *buf, size_t cap);
STET_API_CHECKED int stet_ll_removexattr(struct stet_volume *vol, struct stet_txn *txn,
					 uint64_t ino, const char *name, unsigned flags);

/// Data ///

/** As stet_pread. flags: NOWAIT. */
STET_API_CHECKED ssize_t stet_ll_read(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				      uint64_t off, void *buf, size_t len, unsigned flags);

/** As stet_pwrite. flags: NOWAIT. */
STET_API_CHECKED ssize_t stet_ll_write(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				       uint64_t off, const void *buf, size_t len, unsigned flags);

/** As stet_append. flags: NOWAIT. */
STET_API_CHECKED ssize_t stet_ll_append(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
					const void *buf, size_t len, unsigned flags);

/** As stet_truncate. flags: NOWAIT. */
STET_API_CHECKED int stet_ll_truncate(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				      uint64_t size, unsigned flags);

/** As stet_fallocate. flags: NOWAIT. */
STET_API_CHECKED int stet_ll_fallocate(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				       int mode, uint64_t off, uint64_t len, unsigned flags);

/** As stet_seek. flags: NOWAIT. */
STET_API_CHECKED int stet_ll_seek(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				  uint64_t off, int what, unsigned flags, uint64_t *ret_off);

/** Called when a request is done: 0 or a negative errno value. */
typedef void stet_ll_done_fn(void *arg, int result);

/** As stet_fsync; waits in the calling thread. */
STET_API_CHECKED int stet_ll_fsync(struct stet_volume *vol, struct stet_txn *txn);

/**
 * As stet_ll_fsync, but calls on_done when it is done. 0: accepted; otherwise on_done is not called.
 */
STET_API_CHECKED int stet_ll_fsync_async(struct stet_volume *vol, struct stet_txn *txn,
					 stet_ll_done_fn *on_done, void *arg);

/// Data locks of open files ///

/* A server whose files can be written without its knowledge (mapped by the kernel) must not have to
 * refuse data that it accepted at open. So it locks a file when it is opened for writing:
 * a transaction's lock excludes all others and lasts until the transaction ends; plain ones do not
 * exclude each other and last until released. STET_LL_APPEND: the lock of a file that is only
 * appended to; it goes along with other such locks, of whomever.
 *   -EBUSY     it is not free: at once with NOWAIT, else when the timeout has passed
 *   -EDEADLK   transactions wait for each other
 * Plain calls that change the data of a file (write, append, truncate, fallocate, setattr with SIZE)
 * respect the locks of transactions even where no lock was taken.
 */
struct stet_ll_lock; /* a plain lock; of the caller until stet_ll_close_lock */

/** The request is done. result 0: lock is the caller's (NULL for a transaction's). */
typedef void stet_ll_lock_fn(void *arg, int result, struct stet_ll_lock *lock);

/** A request that waits. */
struct stet_ll_wait;

/**
 * Locks the data of a file. timeout_ms: how long to wait, 0: for ever. flags: NOWAIT, APPEND.
 * on_done NULL: waits in the calling thread; *ret_lock is the lock (txn not NULL: NULL; ret_lock may
 * then be NULL).
 * Else 0: locked at once, *ret_lock as above, on_done will not be called; -EINPROGRESS: on_done will
 * be called. *ret_wait (may be NULL) is then good for stet_ll_open_lock_cancel until on_done was called.
 */
STET_API_CHECKED int stet_ll_open_lock(struct stet_volume *vol, struct stet_txn *txn, uint64_t ino,
				       unsigned flags, uint32_t timeout_ms,
				       stet_ll_lock_fn *on_done, void *arg,
				       struct stet_ll_lock **ret_lock,
				       struct stet_ll_wait **ret_wait);

/** Gives up waiting: on_done is called with -EINTR, unless it is on its way with another result. */
void stet_ll_open_lock_cancel(struct stet_volume *vol, struct stet_ll_wait *wait);

/** Releases a plain lock. NULL is accepted. */
void stet_ll_close_lock(struct stet_volume *vol, struct stet_ll_lock *lock);

/// Transactions ///

/**
 * As stet_commit, without waiting: from now on calls in the transaction give -EAGAIN; its changes are
 * published by a thread of the library (with the watch called before and after), and on_done is called
 * when they are durable. flags: STET_COMMIT_NOSYNC. 0: accepted; otherwise on_done is not called and
 * nothing has happened. When on_done gets 0, the handle is gone; with an error it stays, and is given
 * to stet_abort (also from within on_done).
 */
STET_API_CHECKED int stet_ll_commit(struct stet_txn *txn, unsigned flags, stet_ll_done_fn *on_done,
				    void *arg);

/// Acting for others ///

/** A user that a server works for. */
struct stet_ll_who {
	uint32_t uid, gid;
	const uint32_t *groups; /* the other groups he is in */
	size_t group_count;
	int32_t pid; /* of his process, for stet_txns; 0: unknown */
};

/**
 * From now on the calls of stetfs.h by this thread are made for a user, as setfsuid(2) does for system calls:
 * what he makes is his, and what POSIX does not permit him gives
 *   -EACCES    he may not search a directory on the path, or not read or change what is asked for;
 *              nobody but user 0 may name a file by its number (a directory he may, if he could go there)
 *   -EPERM     it is for the owner, or for user 0
 * User 0 may do everything. Permissions of a file are asked for when it is opened. The transactions that he
 * begins are listed as his. His plain operations are told to the watch, as transactions are: an operation
 * that would wait for ever for one that is told in turn (from within the watch) must not be made.
 * Calls of this header ask for no permissions. who: read by later calls of the thread, so it stays the
 * caller's and unchanged until the next stet_ll_act_as; NULL, as at first: the program itself.
 */
void stet_ll_act_as(const struct stet_ll_who *who);

/** What transactions may use; 0: as much as there is. */
struct stet_ll_limits {
	uint64_t
		max_staged_bytes; /* of all: a call that would change more gives -EDQUOT, and may go on */
	uint64_t
		max_age_ms; /* of those begun for a user: then it is ended, and its calls give -ESTALE */
	/* Of memory, for locks and savepoints, of all transactions of one user together, who is neither user 0 nor
	 * the program's own: a call that would lock more gives -EDQUOT, and may go on. */
	uint64_t max_held_bytes;
};

/** Sets them, for transactions that are open too. 0, or -EOPNOTSUPP: another process holds the volume. */
int stet_ll_set_limits(struct stet_volume *vol, const struct stet_ll_limits *limits);

/** What the transaction keeps counts as this user's (max_held_bytes). Those begun for a user are his anyway. */
void stet_ll_set_user(struct stet_txn *txn, uint32_t uid);

/**
 * Drops a transaction that was begun for a user (stet_ll_act_as, a client), by its number: its calls give -ESTALE from
 * then on. who: root and the user whose it is may; NULL: it is the server's own wish. 0, -ENOENT: there is none such;
 * -EPERM; -EBUSY: it is being ended, or places data, just now; -EOPNOTSUPP: another process holds the volume.
 */
int stet_ll_end_transaction(struct stet_volume *vol, uint64_t id, const struct stet_ll_who *who);

/// Serving other processes ///

/* A process that holds a volume can let others use it: their stet_open finds it and speaks to it. It listens
 * on a Unix socket that keeps packets apart (SOCK_SEQPACKET), announces that, and gives each connection a
 * thread that is in stet_ll_serve until the connection ends. One client may have several; what they have
 * opened together ends with the last of them.
 *
 *	stet_ll_service_create(vol, NULL, &service);
 *	stet_ll_announce(&server, &announced); bind and listen at server.socket
 *	for each connection, in a thread: stet_ll_serve(service, fd, &who)
 *	stet_ll_service_stop(service); join the threads
 *	stet_ll_service_destroy(service); stet_ll_announce_end(announced);
 */
struct stet_ll_service;
struct stet_ll_touched;

/** Called with what has changed for a transaction, which a cache of its state has to forget. */
typedef void stet_ll_told_fn(void *arg, const struct stet_ll_touched *touched);

/**
 * A mount that the volume is served beside: clients are served only if they reach its root, or that of a tree as a
 * transaction of the server's sees it (`within`, whatever the server makes of it). Those work within that transaction:
 * what they would do outside of one is done there, and a transaction of theirs is a part of it.
 * Called by threads in stet_ll_serve, without a lock, but for is_ending.
 */
struct stet_ll_mount {
	/* A call of a client begins, until leave: *ret_txn does not end meanwhile. -ESTALE: it has ended, or is
	 * being ended. */
	int (*enter)(void *within, struct stet_txn **ret_txn);
	void (*leave)(void *within);
	/* Somebody who wants to end it waits for calls in it: they do not wait any more. It must not use the library. */
	bool (*is_ending)(void *within);
	/* Between enter and leave: a part begins. Until it ends there is no commit. spoiled: it was given up, or its
	 * client died, after it had changed something: then the whole can only be dropped. */
	void (*part_begin)(void *within);
	void (*part_end)(void *within, bool spoiled);
	/* A call in it has met another transaction, and failed. */
	void (*conflict)(void *within);
	/* With `within`: what a client's call has changed in it: a superset of the inodes, with no `what`, and of the
	 * names, with neither inode; txn_id 0; result -ENOMEM: that is not all. After leave, before he is answered: it may have
	 * ended meanwhile. */
	stet_ll_told_fn *told;
	/* No client needs it any more. */
	void (*release)(void *within);
};

/** The name of an extended attribute of a tree's root: this, and a word that the client was given. */
#define STET_LL_REACH_XATTR "system.stetfs.reach."

struct stet_ll_service_options {
	bool open_locks; /* files are opened for writing by stet_ll_open_lock too: transactions of clients
			  * lock the data of files as a whole, for it to be respected */
	const struct stet_ll_mount *mount; /* lasts as long as the service; NULL: there is none */
};

/**
 * The server of a mount was asked for, or (writable) to set, STET_LL_REACH_XATTR with this word, by this user, on the root
 * of a tree: so whoever was given the word gets there. within: NULL: of the main tree; else as in struct stet_ll_mount:
 * it is the service's from now on. False: nobody waits for that; within stays the caller's.
 */
bool stet_ll_service_reached(struct stet_ll_service *service, const char *word, uint32_t uid,
			     bool writable, void *within);

/** options NULL: all zero. -ENOMEM. The caller owns *ret. */
STET_API_CHECKED int stet_ll_service_create(struct stet_volume *vol,
					    const struct stet_ll_service_options *options,
					    struct stet_ll_service **ret);

/**
 * Waits for the first message on a connection, and leaves it there. 1: it is that of such a client; 0: it is
 * something else, of a protocol of the server's own; -EPIPE: there is none.
 */
STET_API_CHECKED int stet_ll_is_client(int fd);

/**
 * Serves a connection in the calling thread until it ends. who: at the other end, as the kernel says (SO_PEERCRED,
 * SO_PEERGROUPS); read during the call; NULL: he is refused. Calls are made for him (stet_ll_act_as). fd stays
 * the caller's.
 * Nothing that a client sends is believed; one that is neither root nor our user may have 16384 handles, 256 of
 * them transactions, listings or cursors.
 */
void stet_ll_serve(struct stet_ll_service *service, int fd, const struct stet_ll_who *who);

/** How many transactions clients have open; the numbers of the first `cap` are written to ids. */
size_t stet_ll_service_transactions(struct stet_ll_service *service, uint64_t *ids, size_t cap);

/** From now on (until off again) clients begin no transactions: -ESHUTDOWN. */
void stet_ll_service_no_begin(struct stet_ll_service *service, bool on);

/** Calls that wait for others give up, and each stet_ll_serve returns after the call that it is in. */
void stet_ll_service_stop(struct stet_ll_service *service);

/** No stet_ll_serve may be running. NULL is accepted. */
void stet_ll_service_destroy(struct stet_ll_service *service);

/** Who serves a volume: what others find. */
struct stet_ll_server {
	pid_t pid; /* of the process */
	uid_t uid; /* that it runs as */
	bool read_only;
	uint64_t dev;        /* a mount: its st_dev; else anything that tells it from others */
	uint64_t since_ns;   /* when it began, since the system started */
	uint64_t volume_dev; /* st_dev and st_ino of the image; of a block device: 0 and st_rdev */
	uint64_t volume_ino;
	char dir[4096];    /* a mount: where it is mounted, absolute; else "" */
	char volume[4096]; /* the image, absolute */
	char socket[108];  /* of its socket */
};

struct stet_ll_announced;

/**
 * Writes a record for others to find; fills in pid, uid, volume_dev, volume_ino and socket, which nobody else has
 * and is for the caller to bind. The record counts as long as this process lives. The caller owns *ret. As
 * open(2) and mkdir(2).
 */
STET_API_CHECKED int stet_ll_announce(struct stet_ll_server *server,
				      struct stet_ll_announced **ret);

/** Removes the record and the socket. NULL is accepted. */
void stet_ll_announce_end(struct stet_ll_announced *announced);

/** Called with each; valid during the call; true stops. */
typedef bool stet_ll_server_fn(void *arg, const struct stet_ll_server *server);

/** Calls fn for those who serve volumes, as far as we may know of them and believe it. True: fn said stop. */
bool stet_ll_servers(stet_ll_server_fn *fn, void *arg);

/** Who serves the volume at path? -ENOENT: nobody that we may know of; else as stat(2). */
STET_API_CHECKED int stet_ll_find_server(const char *path, struct stet_ll_server *ret);

/// Being told of changes ///

enum stet_ll_phase {
	STET_LL_BEFORE, /* the changes are about to be published */
	STET_LL_AFTER,  /* they were (result 0), or were not */
	STET_LL_FAILED, /* the volume failed: what is cached may never have been; no lists */
};

/* Bits of stet_ll_touched_ino.what. */
#define STET_LL_TOUCHED_ATTR 0x1u  /* attributes */
#define STET_LL_TOUCHED_DATA 0x2u  /* bytes that existed before, or the size shrank */
#define STET_LL_TOUCHED_GROWN 0x4u /* data was added behind the old end */
#define STET_LL_TOUCHED_XATTR 0x8u
#define STET_LL_TOUCHED_NAMES 0x10u /* a directory: its entries */
#define STET_LL_TOUCHED_NEW 0x20u   /* did not exist before */
#define STET_LL_TOUCHED_GONE 0x40u  /* has no name any more */

struct stet_ll_touched_ino {
	uint64_t ino;
	unsigned what;
};

struct stet_ll_touched_name {
	uint64_t dir;
	uint64_t old_ino; /* what it named before; 0: it is added */
	uint64_t new_ino; /* what it names now; 0: it is removed */
	const char *name;
};

/** What a transaction changes; all of it valid during the call only. */
struct stet_ll_touched {
	uint64_t txn_id;
	int result; /* AFTER: of publishing */
	size_t ino_count, name_count;
	const struct stet_ll_touched_ino *ino;   /* by rising number, each once */
	const struct stet_ll_touched_name *name; /* by directory, then name */
};

typedef void stet_ll_watch_fn(void *arg, enum stet_ll_phase phase,
			      const struct stet_ll_touched *touched);

/**
 * Has fn called around the publication of every transaction that changed something, whether by
 * stet_commit (in its thread) or stet_ll_commit: BEFORE, then it is published, then AFTER, one
 * transaction at a time; the answer to the committer waits for both. Plain operations are not
 * told: they are the server's own. fn may wait for other calls into the library, but not for a
 * commit. One watch per volume: -EBUSY when there is another. fn NULL ends it, and returns when no call
 * of it is in progress (so not from within).
 */
STET_API_CHECKED int stet_ll_watch(struct stet_volume *vol, stet_ll_watch_fn *fn, void *arg);

/** A name that an inode may have. */
struct stet_ll_name {
	uint64_t dir;
	char name[256]; /* NUL terminated */
};

/** Fills in the name number `at` (from 0) that is known for the inode; false: no more are. They need not
 * be right. Called without a lock. */
typedef bool stet_ll_names_fn(void *arg, uint64_t ino, unsigned at, struct stet_ll_name *ret);

/**
 * As stet_changes. names (NULL: none): what the caller knows of the names of inodes, so that the tree need not
 * be walked for those.
 */
STET_API_CHECKED int stet_ll_changes(struct stet_txn *txn, stet_ll_names_fn *names, void *names_arg,
				     stet_changes_fn *fn, void *arg);

/**
 * As stet_revert; when a part was given up, fn (NULL: none) is told a superset of the inodes, and the names; result is
 * 0. Called once, before anybody else can use the transaction; it may not use it either.
 */
STET_API_CHECKED int stet_ll_revert(struct stet_txn *txn, unsigned flags, const char *const *paths,
				    size_t count, char *why, size_t cap, stet_ll_told_fn *fn,
				    void *arg);

#ifdef __cplusplus
}
#endif

#endif
