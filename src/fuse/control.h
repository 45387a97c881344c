/* control.h - talking to the daemon of a mount (client side).
 *
 *	struct stet_control *ctl;
 *	struct stet_control_begun begun;
 *	struct stet_control_end end;
 *
 *	rc = stet_control_open("/srv/app", &ctl);
 *	rc = stet_control_begin(ctl, STET_BEGIN_SNAPSHOT, 0, &begun);
 *	... work below begun.root ...
 *	rc = stet_control_commit(ctl, begun.id, 0, &end);
 *	stet_control_close(ctl);
 *
 * Commands never go through the mount's own request queue, so they work while it is busy.
 * Every call returns 0 or a negative errno value and waits for the daemon's answer:
 *   -EPIPE   the daemon has gone, or closed the connection; only stet_control_close is left
 *   -EPERM   not the owner of the transaction, not the owner of the mount
 *   -ENOENT  there is no such transaction (any more)
 * A sentence about the latest failure: stet_control_why(). A connection is for one thread at a
 * time.
 *
 * Who may what: anyone who can reach the mount may begin, look at `txns`, `stats` and `info`, and
 * sync; a transaction belongs to the uid that began it (and root); shutdown is for root and the
 * daemon's own uid.
 */
#ifndef STET_FUSE_CONTROL_H
#define STET_FUSE_CONTROL_H

#include "stetfs.h"
#include "stetfs_lowlevel.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stet_control; /* a connection: stet_control_open .. stet_control_close */

/// Tables on a mount ///

/** A table looks like a regular file that cannot be opened. It has this block size, and this extended
 * attribute: the number of its records, in decimal. */
#define STET_CONTROL_TABLE_BLKSIZE 512
#define STET_CONTROL_TABLE_XATTR "user.stetfs.table"

/// Finding mounts ///

/** The mount that the file at path is on (any file in it, also within `run`). -ENOENT: none of
 * ours. */
int stet_control_find_mount(const char *path, struct stet_ll_server *ret);

/// Connections ///

/**
 * Connects to the daemon of the mount that path is on. -ENOENT: path is not on a mount of ours;
 * else as connect(2). The caller owns *ret.
 */
int stet_control_open(const char *path, struct stet_control **ret);

/** The same to the daemon that has the volume at path mounted, wherever. -ENOENT: none has. */
int stet_control_open_volume(const char *path, struct stet_control **ret);

/**
 * Ends the connection. Transactions begun on it (without DETACHED) that are neither committed nor
 * aborted are aborted by the daemon. NULL is accepted.
 */
void stet_control_close(struct stet_control *ctl);

/**
 * The connection's descriptor, for poll(2) only: POLLRDHUP or POLLHUP between calls means that
 * the daemon has died, and with it all transactions. Close-on-exec. Closed by stet_control_close.
 */
int stet_control_fd(const struct stet_control *ctl);

/** One line about this connection's latest failure, "" if none. Valid until the next call on it. */
const char *stet_control_why(const struct stet_control *ctl);

/** The mount at the other end. */
const struct stet_ll_server *stet_control_info(const struct stet_control *ctl);

/// Transactions ///

/** Lives on when the connection ends; its st_ino carry a tag, so that they differ from the main
 * tree's. */
#define STET_CONTROL_DETACHED 0x1u

struct stet_control_begun {
	uint64_t id;
	char root[PATH_MAX]; /* "DIR/.stet/txn/ID/root": the tree as the transaction sees it */
};

/** Begins a transaction. level: as for stet_begin; 0: SNAPSHOT. flags: STET_CONTROL_DETACHED. */
int stet_control_begin(struct stet_control *ctl, unsigned level, unsigned flags,
		       struct stet_control_begun *ret);

/** How a transaction ended. */
struct stet_control_end {
	int result;      /* of the commit: 0 or a negative errno value; of an abort: 0 */
	bool conflict;   /* it met one on its way, whether or not that doomed it: worth a retry */
	char text[1024]; /* which, for people; "" if there was none */
};

/**
 * Commits and waits until that is durable. 0: the transaction has ended, see ret->result: also
 * after a failure nothing is left of it. flags: STET_COMMIT_NOSYNC. -EPIPE: the outcome is unknown.
 */
int stet_control_commit(struct stet_control *ctl, uint64_t id, unsigned flags,
			struct stet_control_end *ret);

/**
 * The same for a part: only the changes at or below `count` paths (as stet_control_changes gives them; see
 * stet_revert) are committed, and the others dropped. -EINVAL: what would be left does not stand alone, or a path
 * names no change (stet_control_why says which): the transaction goes on as it was. -E2BIG: too many paths.
 */
int stet_control_commit_only(struct stet_control *ctl, uint64_t id, const char *const *paths,
			     size_t count, unsigned flags, struct stet_control_end *ret);

/** Drops the changes at or below the paths; the transaction goes on with the others. Errors as above. */
int stet_control_revert(struct stet_control *ctl, uint64_t id, const char *const *paths,
			size_t count);

/** Drops a transaction. ret may be NULL. */
int stet_control_abort(struct stet_control *ctl, uint64_t id, struct stet_control_end *ret);

/**
 * Calls fn for what the transaction would change, in the order of paths; also when stores through
 * mappings are still in the kernel. fn may not use the connection; what it returns when not 0
 * ends the calls and is returned.
 */
int stet_control_changes(struct stet_control *ctl, uint64_t id, stet_changes_fn *fn, void *arg);

/**
 * From now on the transaction takes no changes (-EROFS for who tries): what is shown of it now is what
 * will be committed. Stores through mappings are taken before; one that comes later makes the commit
 * fail.
 */
int stet_control_freeze(struct stet_control *ctl, uint64_t id);

/** The transaction in whose tree path lies for this process (`run`); 0: none. No connection
 * needed. */
uint64_t stet_control_inside(const char *path);

/**
 * A command works in a transaction of somebody else's as if it were its own, until quit or the end of
 * the connection, which counts as failed. If it failed and has changed anything, all or nothing
 * would be broken: the transaction can then only be aborted. Nor can it be committed before quit.
 * -EPERM, -ENOENT: the transaction has ended.
 */
int stet_control_join(struct stet_control *ctl, uint64_t id);
int stet_control_quit(struct stet_control *ctl, uint64_t id, bool failed);

/**
 * What the system's calls do not tell of a file in a transaction's tree: when it was made, and its
 * data_version (struct stet_stat). Only of files that the kernel has looked up there, so that
 * whoever may not reach a file learns nothing; the caller holds it open (O_PATH). -ENOENT.
 */
int stet_control_more(struct stet_control *ctl, uint64_t id, uint64_t ino, int64_t *ret_btime_ns,
		      uint64_t *ret_data_version);

/** One open transaction. */
struct stet_control_txn {
	struct stet_txn_entry entry;
	/* It can be named in commands. Otherwise it is a library client's (entry.for_user), or the
	 * daemon's own (an old version of files that are open, a long listing). */
	bool is_view;
	bool detached;
	bool conflict;  /* see struct stet_control_end */
	uid_t uid;      /* its owner */
	pid_t pid;      /* that began it */
	uint64_t files; /* open in it */
};

/** Called with each; non-zero stops. */
typedef int stet_control_txns_fn(void *arg, const struct stet_control_txn *txn);

/** Calls fn for the open transactions, oldest first; what fn returned when not 0 is returned. */
int stet_control_txns(struct stet_control *ctl, stet_control_txns_fn *fn, void *arg);

/// The volume ///

/** Makes everything done so far durable. */
int stet_control_sync(struct stet_control *ctl);

/** As stet_statfs. */
int stet_control_statfs(struct stet_control *ctl, struct stet_statfs *ret);

/** As stet_stats; names are valid during the call of fn. The daemon's own start with "mount_". */
int stet_control_stats(struct stet_control *ctl, stet_stats_fn *fn, void *arg);

/** As stet_clean: cleans up to `segments`; *ret_count: how many it were. For root and the
 * daemon's uid. */
int stet_control_clean(struct stet_control *ctl, uint32_t segments, uint32_t *ret_count);

/// The end ///

/**
 * Unmounts the file system at dir and returns when the daemon has written its checkpoint, closed
 * the volume and exited. Asks the daemon, or, where none answers, fusermount3 -u. `lazy`: also
 * when it is in use: it disappears from the tree now, the daemon goes when the last user has.
 * why: one line, without the name of dir, NUL terminated and cut to cap. -EBUSY: in use, or a
 * transaction is open; -ENOENT: nothing of ours is mounted there.
 */
int stet_control_umount(const char *dir, bool lazy, char *why, size_t cap);

#endif
