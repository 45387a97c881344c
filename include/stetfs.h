/* stetfs.h - StetFS in a program: volumes, transactions, and files by path.
 *
 *	struct stet_volume *vol;
 *	struct stet_txn *txn;
 *	struct stet_file *file;
 *
 *	rc = stet_open("photos.stet", NULL, &vol);
 *	rc = stet_begin(vol, 0, &txn);
 *	rc = stet_openat(vol, txn, STET_ROOT, "a/b.txt", O_WRONLY | O_CREAT, 0644, &file);
 *	n = stet_pwrite(file, "hello", 5, 0);
 *	stet_file_close(file);
 *	rc = stet_commit(txn, 0);
 *
 * Results
 *   Every call that can fail returns 0 or a count, or a negative errno value; what it hands back in
 *   `ret_` parameters is written on success only. A call that fails has changed nothing, unless it
 *   says otherwise. stet_error_text() may tell more: where and why the failure arose.
 *
 *   Any call on a volume may give these, and they are not repeated below:
 *   -EIO      the device failed, or what lies on it could not be verified from any copy
 *   -EUCLEAN  what lies on the device is verified but makes no sense: the volume needs a check
 *   -ENOMEM   no memory
 *   -EINVAL   an argument that no volume could accept (unknown flag bits, a NULL handle)
 *   Any call that changes something, these as well:
 *   -EROFS    the volume or the transaction is read-only, or the volume has failed (see Failure)
 *   -ENOSPC   no room, also not after cleaning; the call waits while cleaning may still help
 *   -EDQUOT   (in a transaction) it would change more than one may on this mount (max_staged)
 *   -EBUSY    (in a transaction) a conflict: stet_conflict_text() says with whom; only stet_abort()
 *             helps, then begin again
 *   -EDEADLK  (in a transaction) it was chosen to give up a cycle of waits; only stet_abort() helps
 *   -ETIMEDOUT  (in a transaction) see stet_lock_timeout()
 *   -EAGAIN   the transaction was ended or is being committed by another thread
 *   -ESTALE   (in a transaction) room or memory ran short and it had the oldest view: only stet_abort()
 *             helps, then begin again
 *
 * Transactions
 *   Calls that take a `txn` run inside it; nobody else sees their changes until stet_commit().
 *   NULL stands for a plain operation: atomic by itself, visible to all at once, and durable with
 *   the next stet_fsync, stet_sync, commit, or flush_interval_ms later at the latest. A crash shows
 *   the volume as it was at one such moment, never a mixture.
 *   A plain operation that meets a lock of a transaction waits for that transaction's end, in the queue of those
 *   who wait for it.
 *
 * Paths
 *   A path is resolved from the directory `dir` (an inode number; STET_ROOT is the volume's root)
 *   inside the volume: "." and ".." are understood (".." of the root is the root), a leading "/"
 *   starts at the root, symbolic links on the way are followed and absolute ones resolve from the
 *   volume's root, at most 40 of them. The last component is followed or not as each call says. The
 *   empty path stands for the inode `dir` itself, of whatever type. Names are bytes, 1..255 of them,
 *   without '/' and NUL; ".stet" in the root is reserved (-EPERM for who would make it). Every call
 *   that takes a path may give
 *   -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG (also: a path of more than 4095 bytes).
 *
 * No permissions are checked (but see stet_open): who may open the volume may do everything in it. New
 * files belong to the effective user and group that the process had when it opened the volume.
 *
 * Threads
 *   A volume may be used by any number of threads at once, and so may a transaction, a file, or a
 *   directory iterator, a table, or a cursor; each call is atomic. Ending a handle (stet_close,
 *   stet_commit, stet_abort, stet_file_close, stet_dir_close ...) is final: it may not be used by a call that starts later.
 *   Callbacks are made by the calling thread, with no lock held: they may call the library again.
 *   After fork() the child may not use anything of the parent's.
 *
 * Ownership
 *   Handles belong to the caller and are opaque. Nothing that the library returns points into a
 *   volume; strings and structures passed in are read during the call and not kept.
 *
 * Failure
 *   A device that fails to flush makes the volume FAILED until it is opened again: what was not
 *   durable is gone, reads show the last durable state, open transactions can only be aborted,
 *   changes give -EROFS. A commit or fsync that was answered with -EIO has an unknown outcome until
 *   then: it is there whole or not at all.
 */
#ifndef STETFS_H
#define STETFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The result must be used. */
#if defined(__GNUC__)
#define STET_API_CHECKED __attribute__((warn_unused_result))
#else
#define STET_API_CHECKED
#endif

/// Version ///

#define STET_VERSION_MAJOR 0
#define STET_VERSION_MINOR 1
#define STET_VERSION_PATCH 0

/** The version of the library as built, "major.minor.patch". Constant. */
const char *stet_version(void);

/** The version of the format that it writes. */
uint32_t stet_format_version(void);

/// Handles ///

struct stet_volume; /* an open volume: stet_open .. stet_close */
struct stet_txn;    /* a transaction: stet_begin .. stet_commit or stet_abort */
struct stet_file;   /* an open file: stet_openat .. stet_file_close */
struct stet_dir;    /* a listing: stet_dir_open .. stet_dir_close */
struct stet_table;  /* an open table: stet_table_open .. stet_table_close */
struct stet_cursor; /* a scan of a table: stet_cursor_open .. stet_cursor_close */

/** The inode number of the root directory. */
#define STET_ROOT UINT64_C(1)

/// Errors ///

/**
 * What was wrong with this thread's latest call, for people, in one line; "" when there is nothing to
 * say beyond the errno value (no such file). Calls that end handles leave it as it is. Valid until
 * the next call into the library by this thread.
 */
const char *stet_error_text(void);

/** Where in the library that was noted, "layer/file.c:line", for bug reports; as stet_error_text. */
const char *stet_error_place(void);

/// Volumes ///

/** How a volume is made. All zero, or NULL for it, is a good choice. */
struct stet_mkfs_options {
	uint64_t size_bytes; /* of a new or empty image file, where it is required; 0: as it is. At
			      * least 16 MiB */
	uint32_t segment_bytes; /* a power of two, 256 KiB .. 16 MiB; 0: by the volume's size */
	uint32_t meta_copies;   /* of metadata nodes, 1 or 2; 0: 2 */
	uint32_t data_copies;   /* of file data, 1; 0: 1 (2 is reserved: -EOPNOTSUPP) */
	const char *label;      /* at most 64 bytes; NULL: none */
	uint32_t root_mode;     /* permissions of the root directory; 0: 0755 */
	uint32_t root_uid, root_gid; /* its owner */
	bool force;                  /* also over an existing StetFS volume */
};

/**
 * Makes an empty volume in the image file (created when missing) or block device. What was there is
 * lost; nothing is written before all options were checked.
 * -EEXIST: there is a StetFS volume (see force); -EBUSY: somebody has it open; -ENOSPC: too small;
 * -EINVAL: options out of range, or no size; otherwise as open(2).
 */
STET_API_CHECKED int stet_mkfs(const char *path, const struct stet_mkfs_options *options);

/** How a volume is opened. All zero, or NULL for it, is the default. */
struct stet_open_options {
	bool read_only;      /* nothing is written, not even by recovery; others may read it too */
	bool recover_prefix; /* with read_only: when the log is damaged, show what lies before that */
	bool no_remote;      /* -EBUSY also when the process that has it open would serve us */
	uint64_t cache_bytes;       /* limit of cache and uncommitted changes together; 0: 64 MiB */
	uint32_t flush_interval_ms; /* plain operations are durable at latest after; 0: 5000 */
	uint64_t
		checkpoint_bytes; /* log written between checkpoints, bounds recovery; 0: by size */
};

/**
 * Opens a volume: loads the last checkpoint and rolls the log forward, so a volume that was not
 * closed needs no check. Starts the volume's background thread (flushes, checkpoints, cleaning).
 *
 * If another process has it open and serves it to others (a mount does), it is used through that:
 * stet_statfs.remote tells. All calls are the same, but those of stetfs_lowlevel.h (-EOPNOTSUPP). They are made
 * for the user of this process, as he is when he opens it, whatever he becomes: permissions are checked as on a mount, and stet_clean is for
 * root and the other's user. Options but read_only and no_remote are ignored. Who may reach a mount may use its
 * volume so, also if he may not open the image. stet_close makes everything durable and leaves the volume open
 * there; what this process leaves behind when it ends (transactions, files) is dropped. Who cannot reach the root of
 * the mount, by the path that it was made with, gets -EACCES. Inside `stetfs run` on that mount all calls work in its
 * transaction, and stet_begin begins a part of it (doc/run.md); but root's on a mount of another user's: -EOPNOTSUPP.
 * Any call may then give
 *   -ESTALE   the transaction of the `stetfs run` around it has ended
 *   -EPIPE    the other process has gone, or has ended the connection: so does every later call; handles
 *             can be ended, which drops transactions, and the volume closed
 *   -EMFILE   it serves too many connections of this user
 *   -ENFILE   it holds too many handles, or transactions, of this user
 *
 * -EBUSY: somebody else has it open for writing, or we want to and somebody has it open at all;
 * -EINVAL: not a StetFS volume; -EOPNOTSUPP: of an unknown version or feature; -EUCLEAN: damaged
 * (see recover_prefix); otherwise as open(2). The caller owns *ret_vol (stet_close).
 */
STET_API_CHECKED int stet_open(const char *path, const struct stet_open_options *options,
			       struct stet_volume **ret_vol);

/**
 * Ends the volume: makes everything durable, writes a checkpoint, frees all. Its transactions,
 * files and iterators must have been ended before: otherwise -EBUSY, and the volume stays open.
 * With any other result the volume is closed; an error then means that what was not durable
 * before may be lost. NULL is accepted.
 */
int stet_close(struct stet_volume *vol);

/** Makes everything that was done so far durable; returns when it is. */
STET_API_CHECKED int stet_sync(struct stet_volume *vol);

/** What a volume is and how full it is. */
struct stet_statfs {
	uint64_t capacity_bytes; /* of all usable segments */
	uint64_t live_bytes;     /* needed by the current state */
	uint64_t held_bytes; /* not needed by it, but not yet free: open views, older checkpoint */
	uint64_t reserved_bytes; /* promised to what is in memory */
	uint64_t reserve_bytes;  /* kept back so that a full volume can still be emptied */
	uint64_t avail_bytes;    /* what can still be written */
	uint32_t block_bytes;    /* 4096 */
	uint32_t segment_bytes;
	uint32_t segments, segments_free;
	uint32_t name_max; /* bytes, 255 */
	uint32_t meta_copies, data_copies;
	uint8_t uuid[16];
	char label[65];     /* NUL terminated */
	int64_t created_ns; /* since the epoch */
	uint64_t serial;    /* of the last operation */
	uint64_t durable;   /* everything up to this serial is durable */
	bool read_only;
	bool failed;       /* see Failure above */
	char failure[256]; /* why it failed, NUL terminated; empty when it did not */
	bool remote;       /* another process holds it: see stet_open */
};

/** Fills in *ret; always succeeds on an open volume. */
STET_API_CHECKED int stet_statfs(struct stet_volume *vol, struct stet_statfs *ret);

/** Called with the name (valid until the volume is closed) and the value of one counter; non-zero stops. */
typedef int stet_stats_fn(void *arg, const char *name, uint64_t value);

/**
 * Calls fn for each counter of the volume, always in the same order; the names are stable. Returns
 * 0, or what fn returned to stop.
 */
int stet_stats(struct stet_volume *vol, stet_stats_fn *fn, void *arg);

/**
 * Cleans up to `segments` segments: moves what is live out of the emptiest ones so that they become
 * free. Returns how many were cleaned, 0 when it was not worth it: no segment more is free than before.
 * Cleaning goes on in the background without this. -EROFS.
 */
STET_API_CHECKED int stet_clean(struct stet_volume *vol, uint32_t segments);

/// Checking ///

/** What stet_check found; the pointers are valid during the callback. */
struct stet_problem {
	const char *id;   /* stable, for scripts: "LINK_COUNT" */
	const char *text; /* for people */
	const char *path; /* of the file concerned, "" when none or unknown */
	uint64_t ino;     /* 0: none */
};

/** Called for each problem; non-zero stops the check. */
typedef int stet_problem_fn(void *arg, const struct stet_problem *problem);

/** Flag of stet_check: only the structure; file data is not read. */
#define STET_CHECK_NO_DATA 0x1u

/**
 * Checks the volume at path, which must not be open for writing, and writes nothing: the log is
 * rolled forward in memory, all names, inodes, link counts and extents are compared with each
 * other, and all file data is read and verified. Returns the number of problems reported, 0 when
 * clean, or what fn returned to stop when that is negative. -EBUSY: it is in use; otherwise as
 * stet_open for what makes it impossible to look at all.
 */
STET_API_CHECKED int stet_check(const char *path, unsigned flags, stet_problem_fn *fn, void *arg);

/// Looking inside ///

/** Called with each line, without a line end, valid during the call; non-zero stops. */
typedef int stet_dump_fn(void *arg, const char *line);

/**
 * Prints a structure of the volume at path, for people; nothing is written. what:
 *   "superblock", "slots", "checkpoint"  read directly: also when the volume cannot be opened
 *   "segments"   the segment table as of the newest checkpoint and log
 *   "log"        the partial segments, with their records, of all segments of the main chain
 *   "tree"       the nodes of the newest checkpoint's tree
 *   "items"      every catalog item of the current state
 * The form of the lines may change. Returns 0, or what fn returned to stop. -EINVAL: no such
 * structure; otherwise as stet_open read-only.
 */
STET_API_CHECKED int stet_dump(const char *path, const char *what, stet_dump_fn *fn, void *arg);

/// Transactions ///

/* Levels, for stet_begin: one of them, or none for the default, which is SERIALIZABLE, with READ_ONLY
 * SNAPSHOT. */
/** Reads the state as of begin. A change to what another has committed since fails with -EBUSY. */
#define STET_BEGIN_SNAPSHOT 0x1u
/** As SNAPSHOT; and at commit all that was read must be unchanged since begin, else -EBUSY. */
#define STET_BEGIN_SERIALIZABLE 0x2u
/** Reads the current state and locks what it reads; waits instead of failing, may deadlock. On a volume that
 * another program serves: for user 0 and that program's own user (-EPERM). */
#define STET_BEGIN_LOCKING 0x4u
/** With LOCKING: data of files is locked by whole pages of 4096 bytes instead of by bytes. */
#define STET_LOCK_PAGE 0x8u
/** Changes give -EROFS. A read-only SNAPSHOT never conflicts with anybody. */
#define STET_BEGIN_READ_ONLY 0x10u

/**
 * Begins a transaction; takes no time, however large the volume. It holds on to what it can read,
 * so space of what others delete comes back only after it. -EROFS. The caller owns *ret_txn: it is
 * ended by stet_commit (when that succeeds) or stet_abort.
 * Inside `stetfs run` it is a part of that transaction. The level that is not named is that one's; a level that is
 * safer gives -EOPNOTSUPP. It waits for other parts that have not ended, 5 seconds at most: then -EBUSY.
 */
STET_API_CHECKED int stet_begin(struct stet_volume *vol, unsigned flags, struct stet_txn **ret_txn);

/**
 * Begins a read-only transaction that sees what txn saw when it began: what its changes are to be
 * compared with. It stands on its own. -ESTALE: that state is gone (see stet_begin). The caller
 * owns *ret_txn.
 */
STET_API_CHECKED int stet_begin_base(struct stet_txn *txn, struct stet_txn **ret_txn);

/** Do not wait until the commit is durable: the next flush takes it along. */
#define STET_COMMIT_NOSYNC 0x1u

/**
 * Commits: all changes become visible together and (without NOSYNC) are durable when it returns.
 * 0: the transaction is ended, the handle gone; files and iterators opened in it remain to be
 * closed, other calls on them give -ESTALE.
 * On failure the handle stays, for stet_conflict_text, and must be given to stet_abort:
 * -EBUSY: a conflict, nothing was changed; -EIO: a flush failed, see Failure; others: nothing was
 * changed.
 */
STET_API_CHECKED int stet_commit(struct stet_txn *txn, unsigned flags);

/**
 * From now on calls that would change something in the transaction give -EROFS. So what was looked at
 * is what will be committed. -ESTALE, -EAGAIN.
 */
STET_API_CHECKED int stet_freeze(struct stet_txn *txn);

/**
 * Drops all changes and ends the transaction; the handle is gone. Calls by other threads that are
 * waiting inside it end with -EAGAIN first. Files and iterators as with stet_commit. NULL is
 * accepted.
 */
void stet_abort(struct stet_txn *txn);

/**
 * Writes the text of the conflict that doomed the transaction into buf, NUL terminated and cut to cap: the
 * path that it is about, as far as that is found, and what was in the way. Returns the length of the whole
 * text, 0 when there was no conflict.
 */
size_t stet_conflict_text(struct stet_txn *txn, char *buf, size_t cap);

/** The number of the transaction, as listed by stet_txns; never used again while the volume is open. */
uint64_t stet_transaction_id(struct stet_txn *txn);

/** One open transaction. */
struct stet_txn_entry {
	uint64_t id;
	unsigned flags;        /* STET_BEGIN_ */
	int64_t begun_ns;      /* since the epoch */
	uint64_t view_serial;  /* the serial whose state it reads */
	uint64_t locks;        /* held */
	uint64_t staged_bytes; /* changes in memory, and those that were written early */
	/* Of what others have deleted or replaced, so much cannot be used again because this one may still
	 * read it; as of the last checkpoint. What several need counts for the oldest. */
	uint64_t pinned_bytes;
	uint64_t changes;     /* rises with each call that may have changed something */
	uint64_t waiting_for; /* id of the transaction that it waits for, 0: none or unknown */
	uint32_t uid;         /* whose it is: of the program, or whom it works for */
	int32_t pid;          /* of his process, 0: unknown */
	bool for_user;        /* a server has begun it for him */
	bool doomed;          /* can only be aborted */
};

/** Called with each; valid during the call. Non-zero stops. */
typedef int stet_txns_fn(void *arg, const struct stet_txn_entry *entry);

/** Calls fn for the transactions open now, oldest first. Returns 0, or what fn returned to stop. */
int stet_txns(struct stet_volume *vol, stet_txns_fn *fn, void *arg);

/**
 * How long a call in the transaction waits for a lock: after that it gives -ETIMEDOUT, has changed nothing,
 * and the transaction may go on. 0, as at begin: for ever.
 */
STET_API_CHECKED int stet_lock_timeout(struct stet_txn *txn, uint32_t timeout_ms);

enum stet_change_kind {
	STET_CHANGE_ADDED,    /* the path is new */
	STET_CHANGE_REMOVED,  /* the path is gone */
	STET_CHANGE_REPLACED, /* the path leads to another inode now */
	STET_CHANGE_RENAMED,  /* the inode was at old_path */
	STET_CHANGE_MODIFIED, /* the same inode, changed */
};

/* Bits of stet_change.what. */
#define STET_CHANGED_DATA 0x1u /* content or size */
#define STET_CHANGED_ATTR 0x2u /* mode, owner, times set by hand */
#define STET_CHANGED_XATTR 0x4u

/** Attributes of an inode at one end of a change. */
struct stet_change_attr {
	uint64_t size; /* bytes */
	uint32_t mode; /* type and permissions; 0: there is no such inode */
	uint32_t uid, gid;
	uint32_t nlink;
};

/** One change of a transaction; the pointers are valid during the callback. */
struct stet_change {
	enum stet_change_kind kind;
	unsigned what; /* MODIFIED and RENAMED: what else changed; else 0 */
	uint64_t ino;
	uint8_t type; /* as d_type of readdir(3) */
	/* The same of what its name led to in its directory when the transaction began; 0: nothing. */
	uint8_t old_type;
	const char *path; /* from the root, with a leading "/" */
	/* Where it was (REPLACED: where what it replaces was) when the transaction began, if that is
	 * another path: RENAMED, and what lies below a directory that was; else NULL. */
	const char *old_path;
	/* Of the inode ino: as the transaction found it, and as it will be. */
	struct stet_change_attr before, after;
	/* The inode that path led to, if it leads there no more and was not renamed itself; 0: none. */
	uint64_t replaced_ino;
	struct stet_change_attr replaced; /* as it was */
};

/** Called with each change; non-zero stops. */
typedef int stet_changes_fn(void *arg, const struct stet_change *change);

/**
 * Calls fn for what the transaction would change, in the order of paths: against the state that it
 * began with, whatever others have done since.
 * What only follows from it (the time of a directory whose entries changed) is left out. Files that
 * were changed through other names than those known may take a walk of the tree. Returns 0, or what
 * fn returned to stop.
 */
STET_API_CHECKED int stet_changes(struct stet_txn *txn, stet_changes_fn *fn, void *arg);

/** Give up all but what is at or below the paths. */
#define STET_REVERT_OTHERS 0x1u

/**
 * Gives up a part of what the transaction has changed: the changes that stet_changes lists at or below one of
 * `count` paths, or all the others. A change goes by its path and, if it has one, by its old_path. What was given up is again as it
 * was when the transaction began, for it as for everybody; its locks stay, and what was read is still checked.
 * What is left must stand alone; if it does not, nothing has changed and `why` (cap bytes; cap 0: none) holds one
 * line that says what is in the way:
 *   -EINVAL    e.g. a file that stays lies in a new directory that would go
 *   -ENOENT    there is no change at or below one of the paths
 * Calls of other threads in the transaction give -EAGAIN meanwhile. -EROFS: it is read-only. -ENOMEM, -EIO:
 * as always, and if it had begun to give up, the transaction can only be aborted.
 */
STET_API_CHECKED int stet_revert(struct stet_txn *txn, unsigned flags, const char *const *paths,
				 size_t count, char *why, size_t cap);

/// Savepoints ///

/**
 * Marks what the transaction has done so far, to come back to it. Savepoints nest: they are a stack. The
 * number is of this transaction only and never used again in it; costs nothing by itself. At most 2^32 - 1
 * in one transaction (-EOVERFLOW).
 */
STET_API_CHECKED int stet_savepoint(struct stet_txn *txn, uint64_t *ret_savepoint);

/**
 * Takes back what was done since the savepoint, which stays; later ones are gone. Takes time in
 * proportion to that. Locks that were taken stay, and what was read is still checked at commit. It does not
 * mend a conflict. Files and cursors opened since remain to be closed. -ENOENT: no such savepoint (any
 * more); other failures: the transaction can only be aborted.
 */
STET_API_CHECKED int stet_rollback_to(struct stet_txn *txn, uint64_t savepoint);

/** Forgets the savepoint and later ones; what was done stays. -ENOENT. */
STET_API_CHECKED int stet_savepoint_release(struct stet_txn *txn, uint64_t savepoint);

/// Files ///

/**
 * Opens a regular file. flags as open(2): O_RDONLY, O_WRONLY or O_RDWR, and O_CREAT, O_EXCL, O_TRUNC,
 * O_APPEND (every stet_pwrite appends), O_NOFOLLOW (-ELOOP when the last component is a symbolic link);
 * O_CLOEXEC is ignored. mode: permissions of a new file; the umask is not applied. A file stays
 * readable and writable by its handle after it was unlinked.
 * -EEXIST, -EISDIR, -ENXIO (neither regular file nor directory). The caller owns *ret_file
 * (stet_file_close).
 */
STET_API_CHECKED int stet_openat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				 const char *path, int flags, mode_t mode,
				 struct stet_file **ret_file);

/** Ends the handle; makes nothing durable. NULL is accepted. */
void stet_file_close(struct stet_file *file);

/** The inode number of an open file. */
uint64_t stet_file_ino(struct stet_file *file);

/**
 * Reads up to len bytes at off. Returns how many, less than len only at the end of the file. One
 * call shows one state of the file, however long it is. -EBADF: opened for writing only; -ESTALE:
 * its transaction has ended.
 */
STET_API_CHECKED ssize_t stet_pread(struct stet_file *file, void *buf, size_t len, uint64_t off);

/**
 * Writes len bytes at off, growing the file where needed; what lies between is a hole. Returns len.
 * A longer write is cut at each MiB of the file: every piece is atomic, and when one fails the count of bytes
 * written before is returned, if it is not 0 (so write the rest to learn why). In a transaction, too: it goes on, and
 * may be rolled back to a savepoint, or free something. -EBADF: opened for reading only; -ENOSPC; -EFBIG; -ESTALE.
 */
STET_API_CHECKED ssize_t stet_pwrite(struct stet_file *file, const void *buf, size_t len,
				     uint64_t off);

/**
 * Writes len bytes at the end of the file, wherever that is when it takes effect: in a transaction,
 * the end at commit, so two transactions may append to one file without conflict (up to 64 KiB each;
 * beyond, the file is locked). Returns len; cut as stet_pwrite. -EBADF, -EFBIG, -ESTALE.
 */
STET_API_CHECKED ssize_t stet_append(struct stet_file *file, const void *buf, size_t len);

/** Sets the size; what is added is a hole. -EBADF, -EFBIG, -ESTALE. */
STET_API_CHECKED int stet_truncate(struct stet_file *file, uint64_t size);

/** Makes a hole of [off, off + len); the size stays. -EBADF, -ESTALE. */
STET_API_CHECKED int stet_punch(struct stet_file *file, uint64_t off, uint64_t len);

/**
 * mode as fallocate(2), <linux/falloc.h>: 0 grows the size to off + len when it is smaller;
 * FALLOC_FL_KEEP_SIZE alone changes nothing; PUNCH_HOLE | KEEP_SIZE is stet_punch; ZERO_RANGE (and
 * KEEP_SIZE) too, without KEEP_SIZE growing the size. No space is set aside: a log writes elsewhere
 * anyway; but 0 and KEEP_SIZE give -ENOSPC when there is no room for what they ask for.
 * COLLAPSE_RANGE takes the range out, and what follows moves down by len; INSERT_RANGE puts in a hole,
 * and what was there moves up: both in whole blocks of 4096 bytes, before the end of the file (-EINVAL).
 * They copy the data that moves, in a transaction: all or nothing. Plain, they wait for others as any
 * change does, and give -EBUSY if others change the file again and again; in a transaction, other calls in it
 * wait, once it has the locks that it needs, and a failure leaves the transaction as it was.
 * -EOPNOTSUPP: any other mode; -EBADF: opened for reading only; -EFBIG, -ESTALE.
 */
STET_API_CHECKED int stet_fallocate(struct stet_file *file, int mode, uint64_t off, uint64_t len);

/**
 * Makes durable everything that was done to the volume so far, this file included. In a transaction
 * it does nothing: durability comes with the commit.
 */
STET_API_CHECKED int stet_fsync(struct stet_file *file);

/** Finds data, or a hole (the end of the file is one), at or after off. -ENXIO: off is at or beyond
 * the end, or no data follows. -ESTALE. */
#define STET_SEEK_DATA 0
#define STET_SEEK_HOLE 1
STET_API_CHECKED int stet_seek(struct stet_file *file, uint64_t off, int what, uint64_t *ret_off);

/**
 * Copies up to len bytes within one volume; holes stay holes. Returns how many, less than len only at
 * the end of `from`. The two may be the same file if the ranges do not overlap (-EINVAL). Each MiB
 * is atomic, as with stet_pwrite. -EXDEV: of different volumes; -EBADF, -EFBIG, -ESTALE.
 */
STET_API_CHECKED int64_t stet_copy_range(struct stet_file *from, uint64_t from_off,
					 struct stet_file *to, uint64_t to_off, uint64_t len);

/// Attributes ///

struct stet_stat {
	uint64_t ino;
	uint32_t mode; /* type and permissions */
	uint32_t nlink;
	uint32_t uid, gid;
	uint64_t rdev;   /* devices: major << 32 | minor */
	uint64_t size;   /* bytes; directories: 32 for each name; tables: the number of records */
	uint64_t blocks; /* of 512 bytes, as the file system's own blocks */
	int64_t atime_ns, mtime_ns, ctime_ns, btime_ns; /* since the epoch; btime: creation */
	uint64_t parent;       /* directories: the inode number of ".."; else 0 */
	uint64_t data_version; /* regular files: rises with each change of content or size */
};

/* Flags of calls that take a path. */
#define STET_AT_NOFOLLOW 0x1u  /* a symbolic link as last component is meant itself */
#define STET_AT_FOLLOW 0x2u    /* stet_linkat only: follow it */
#define STET_AT_REMOVEDIR 0x4u /* stet_unlinkat only: remove an empty directory */

/** Fills in *ret. flags: STET_AT_NOFOLLOW. */
STET_API_CHECKED int stet_statat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				 const char *path, unsigned flags, struct stet_stat *ret);

/** As stet_statat, of an open file. -ESTALE. */
STET_API_CHECKED int stet_file_stat(struct stet_file *file, struct stet_stat *ret);

/* Bits of stet_setattr.set. */
#define STET_SET_MODE 0x01u
#define STET_SET_UID 0x02u
#define STET_SET_GID 0x04u
#define STET_SET_SIZE 0x08u
#define STET_SET_ATIME 0x10u
#define STET_SET_MTIME 0x20u
#define STET_SET_ATIME_NOW 0x40u /* instead of ATIME */
#define STET_SET_MTIME_NOW 0x80u

struct stet_setattr {
	unsigned set;  /* which of the following */
	uint32_t mode; /* permissions; the type cannot be changed */
	uint32_t uid, gid;
	uint64_t size;
	int64_t atime_ns, mtime_ns;
};

/** Changes attributes, all at once. flags: STET_AT_NOFOLLOW. -EISDIR, -EINVAL: SIZE of what has none. */
STET_API_CHECKED int stet_setattrat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				    const char *path, unsigned flags,
				    const struct stet_setattr *attr);

/* Extended attributes. Names are "namespace.rest"; values have up to 64 KiB. flags: STET_AT_NOFOLLOW.
 *
 * POSIX ACLs are "system.posix_acl_access" and "system.posix_acl_default", in the form of acl(5) and
 * <linux/posix_acl_xattr.h>, up to 511 entries. An access ACL and the mode are kept in step: setting
 * one changes the other, and an ACL that says no more than a mode does is not kept. What is made in a
 * directory with a default ACL inherits it. -EINVAL: not an ACL; -EOPNOTSUPP: of a symbolic link, or
 * in another form; -EACCES: a default ACL of what is no directory. */

/**
 * Copies the value into buf and returns its length; cap 0 only asks for the length. -ENODATA: no
 * such attribute; -ERANGE: it does not fit.
 */
STET_API_CHECKED ssize_t stet_getxattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				       const char *path, unsigned flags, const char *name,
				       void *buf, size_t cap);

#define STET_XATTR_CREATE 0x10u  /* -EEXIST when it exists */
#define STET_XATTR_REPLACE 0x20u /* -ENODATA when it does not */

/** Sets it. flags also: STET_XATTR_. -E2BIG: the value is too long; -EOPNOTSUPP: the name. */
STET_API_CHECKED int stet_setxattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				   const char *path, unsigned flags, const char *name,
				   const void *value, size_t len);

/**
 * Copies the names, a NUL after each, in order into buf and returns their length in all; cap 0 only
 * asks for it. -ERANGE.
 */
STET_API_CHECKED ssize_t stet_listxattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
					const char *path, unsigned flags, char *buf, size_t cap);

/** Removes it. -ENODATA; not of an ACL that is not there, whose mode says all. */
STET_API_CHECKED int stet_removexattr(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				      const char *path, unsigned flags, const char *name);

/// Names ///

/** Makes a directory. mode: permissions; the umask is not applied. -EEXIST. */
STET_API_CHECKED int stet_mkdirat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				  const char *path, mode_t mode);

/** Makes an inode of any type but directories and symbolic links; rdev as in stet_stat. -EEXIST. */
STET_API_CHECKED int stet_mknodat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				  const char *path, mode_t mode, uint64_t rdev);

/** Makes a symbolic link to target, 1..4095 bytes. -EEXIST, -ENAMETOOLONG. */
STET_API_CHECKED int stet_symlinkat(struct stet_volume *vol, struct stet_txn *txn,
				    const char *target, uint64_t dir, const char *path);

/**
 * Copies the target of a symbolic link into buf, NUL terminated, and returns its length. -EINVAL: not a
 * link; -ERANGE: cap is not larger than the length.
 */
STET_API_CHECKED ssize_t stet_readlinkat(struct stet_volume *vol, struct stet_txn *txn,
					 uint64_t dir, const char *path, char *buf, size_t cap);

/** Gives the inode at `from` a second name. flags: STET_AT_FOLLOW. -EEXIST, -EPERM: a directory;
 * -EMLINK. */
STET_API_CHECKED int stet_linkat(struct stet_volume *vol, struct stet_txn *txn, uint64_t from_dir,
				 const char *from, uint64_t to_dir, const char *to, unsigned flags);

#define STET_RENAME_NOREPLACE 0x1u /* -EEXIST when `to` exists */
#define STET_RENAME_EXCHANGE 0x2u  /* both must exist, and change places */

/**
 * Renames, replacing what is at `to` if it is of the same kind (and empty, when a directory).
 * -EISDIR, -ENOTDIR, -ENOTEMPTY, -EEXIST; -EINVAL: a directory into itself.
 */
STET_API_CHECKED int stet_renameat(struct stet_volume *vol, struct stet_txn *txn, uint64_t from_dir,
				   const char *from, uint64_t to_dir, const char *to,
				   unsigned flags);

/**
 * Removes a name. What is still open lives until it is closed. flags: STET_AT_REMOVEDIR.
 * -EISDIR, -ENOTDIR, -ENOTEMPTY; -EINVAL: ".", -EBUSY: the root.
 */
STET_API_CHECKED int stet_unlinkat(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				   const char *path, unsigned flags);

/// Listing ///

/** The bit of a type (d_type of readdir(3)) in a mask of types. */
#define STET_TYPE_BIT(type) (1u << (type))

/** What a listing shows. All zero, or NULL for it: everything. */
struct stet_dir_filter {
	uint32_t types; /* STET_TYPE_BITs; 0: all */
	const char
		*glob; /* as fnmatch(3) with FNM_PERIOD off; a literal prefix is searched for, not
			   * filtered; NULL: all. Of at most 4096 bytes (-ENAMETOOLONG) */
};

struct stet_dir_entry {
	uint64_t ino;
	uint8_t type;   /* as d_type of readdir(3) */
	char name[256]; /* NUL terminated */
};

/**
 * Opens a listing of a directory, without "." and "..", in the order of the names' bytes. With txn
 * NULL it shows the directory as it is now, whatever happens meanwhile; in a transaction, as the
 * transaction sees it. Attributes are not read: names and types come from the directory alone.
 * The caller owns *ret_dir (stet_dir_close).
 */
STET_API_CHECKED int stet_dir_open(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				   const char *path, const struct stet_dir_filter *filter,
				   struct stet_dir **ret_dir);

/** 1: *ret is the next entry; 0: there are no more. -ESTALE: its transaction has ended. */
STET_API_CHECKED int stet_dir_next(struct stet_dir *it, struct stet_dir_entry *ret);

/** Ends the listing. NULL is accepted. */
void stet_dir_close(struct stet_dir *it);

/** One thing met by stet_walk; the pointers are valid during the callback. */
struct stet_walk_entry {
	const char *path; /* below the starting point, without a leading "/"; "" is that itself */
	const char *name; /* the last component of path */
	uint64_t ino;
	uint64_t dir;   /* the directory that holds the name; 0 for the starting point */
	uint32_t depth; /* 0: the starting point */
	uint8_t type;   /* as d_type of readdir(3) */
	bool post;      /* a directory, after what it holds */
	const struct stet_stat *stat; /* with STET_WALK_STAT, else NULL */
};

/** Returned by the callback on a directory (not post): do not descend. */
#define STET_WALK_SKIP 1

/** 0 goes on, STET_WALK_SKIP see there, anything else ends the walk. */
typedef int stet_walk_fn(void *arg, const struct stet_walk_entry *entry);

#define STET_WALK_PRE 0x1u  /* call for a directory before what it holds (others: always) */
#define STET_WALK_POST 0x2u /* call for a directory after what it holds */
#define STET_WALK_STAT 0x4u /* read the attributes too */

/**
 * Walks the tree at path, entries of a directory in the order of their names; links are not followed.
 * flags: PRE, POST or both. With txn NULL it shows one state of the volume, however long it takes.
 * Returns 0, or what the callback returned to end it.
 */
STET_API_CHECKED int stet_walk(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
			       const char *path, unsigned flags, stet_walk_fn *fn, void *arg);

/// Tables ///

/* A table holds records, in the order of the bytes of their keys: a key of 1 .. STET_KEY_MAX bytes and
 * a value of up to STET_RECORD_MAX bytes. It has names in directories, attributes and extended attributes as
 * a file has, and is renamed, linked and removed as one (stet_renameat, stet_unlinkat ...); calls that
 * change file data give -EINVAL. Its type in struct stet_stat is STET_S_IFTABLE, in listings
 * STET_DT_TABLE; its size there is the number of its records.
 *
 * Records are changed in the same transactions as files and names. A handle is not of a transaction: each
 * call takes one, or NULL for a plain operation. A table made in a transaction can be used by it alone
 * until it commits; if it does not, the handle gives -ENOENT.
 */
#define STET_KEY_MAX 512u
#define STET_RECORD_MAX (1u << 20)
#define STET_S_IFTABLE 0160000u /* in st_mode's place of the type */
#define STET_DT_TABLE 14u

/**
 * Opens a table. flags as open(2): O_RDONLY or O_RDWR, and O_CREAT, O_EXCL, O_NOFOLLOW; O_CLOEXEC is
 * ignored. mode: permissions of a new one. It stays usable by its handle after it was unlinked.
 * -EEXIST; -EINVAL: there is something else than a table. The caller owns *ret_table (stet_table_close).
 */
STET_API_CHECKED int stet_table_open(struct stet_volume *vol, struct stet_txn *txn, uint64_t dir,
				     const char *path, int flags, mode_t mode,
				     struct stet_table **ret_table);

/** Ends the handle. Cursors of it must have been closed. NULL is accepted. */
void stet_table_close(struct stet_table *table);

/** The inode number of an open table. */
uint64_t stet_table_ino(struct stet_table *table);

/** stet_get: the record is going to be changed: at LOCKING it is locked exclusively at once. */
#define STET_GET_UPDATE 0x1u

/**
 * Copies the value of a record into buf and returns its length; cap 0 only asks for it. flags:
 * STET_GET_UPDATE. -ENOENT: no such record; -ERANGE: it does not fit; -EINVAL: a key of 0 or more than
 * STET_KEY_MAX bytes (also below).
 */
STET_API_CHECKED ssize_t stet_get(struct stet_table *table, struct stet_txn *txn, const void *key,
				  size_t key_len, void *buf, size_t cap, unsigned flags);

#define STET_PUT_CREATE 0x1u  /* -EEXIST when there is such a record */
#define STET_PUT_REPLACE 0x2u /* -ENOENT when there is none; not both (-EINVAL) */

/** Sets the value of a record. flags: STET_PUT_. -E2BIG: the value is too long; -EBADF: opened O_RDONLY. */
STET_API_CHECKED int stet_put(struct stet_table *table, struct stet_txn *txn, const void *key,
			      size_t key_len, const void *value, size_t value_len, unsigned flags);

/** Removes a record. -ENOENT; -EBADF. */
STET_API_CHECKED int stet_del(struct stet_table *table, struct stet_txn *txn, const void *key,
			      size_t key_len);

/** Which records, and in which order. All zero, or NULL for it: all, by rising keys. */
struct stet_bounds {
	const void *prefix; /* only keys that begin with it */
	size_t prefix_len;
	const void *from; /* and no lesser than this one, also with reverse; NULL: from the least */
	size_t from_len;
	const void *to; /* and lesser than this one; NULL: to the greatest */
	size_t to_len;
	bool after_from; /* without `from` itself */
	bool with_to;    /* with `to` itself */
	bool reverse;    /* by falling keys */
	bool keys_only;  /* values are not read */
	/* They are going to be changed: at LOCKING what is scanned is locked exclusively at once, so that several that
	 * take the first record wait for each other, and do not all read it and then wait for ever to change it. */
	bool update;
};

/** One record; the pointers are valid until the cursor's next call, or during the callback. */
struct stet_record {
	const void *key;
	size_t key_len;
	const void *value; /* NULL with keys_only */
	size_t value_len;
};

/** How many records lie within the bounds (NULL: all of the table, which takes no time). */
STET_API_CHECKED int stet_count(struct stet_table *table, struct stet_txn *txn,
				const struct stet_bounds *bounds, uint64_t *ret_count);

/**
 * Opens a cursor before the first record. With txn NULL it shows the table as it is now, whatever happens
 * meanwhile; in a transaction, as that sees it, with its own changes, later ones too. The bounds are copied.
 * The caller owns *ret_cursor (stet_cursor_close), before the table is closed.
 */
STET_API_CHECKED int stet_cursor_open(struct stet_table *table, struct stet_txn *txn,
				      const struct stet_bounds *bounds,
				      struct stet_cursor **ret_cursor);

/** 1: *ret is the next record; 0: there are no more. -ESTALE: its transaction has ended. */
STET_API_CHECKED int stet_cursor_next(struct stet_cursor *cursor, struct stet_record *ret);

/** Goes on with the first record within the bounds at or after key (reverse: at or before). */
STET_API_CHECKED int stet_cursor_seek(struct stet_cursor *cursor, const void *key, size_t key_len);

/** Ends the cursor. NULL is accepted. */
void stet_cursor_close(struct stet_cursor *cursor);

/** Called with each record; non-zero stops. */
typedef int stet_scan_fn(void *arg, const struct stet_record *record);

/** Calls fn for the records within the bounds. Returns 0, or what fn returned to stop. */
STET_API_CHECKED int stet_scan(struct stet_table *table, struct stet_txn *txn,
			       const struct stet_bounds *bounds, stet_scan_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif
