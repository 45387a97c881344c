/* fuse.h - a volume mounted as a file system.
 *
 * The daemon is one process per mount: it holds the volume open, answers the kernel, and listens
 * on a control socket (control.h) for commands. It ends when the file system is unmounted, on
 * SIGTERM, SIGINT or SIGHUP, or when asked through the socket; it then writes a checkpoint,
 * closes the volume and removes its socket and runtime record.
 */
#ifndef STET_FUSE_FUSE_H
#define STET_FUSE_FUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What to mount, where and how. All zero but the first two is a good choice. */
struct stet_fuse_options {
	const char *volume; /* image file or block device */
	const char *dir;    /* an existing directory */

	bool foreground; /* no daemon; messages go to standard error, else to syslog */
	bool no_fail;    /* given, and nothing else: it is the caller's to see to it */
	bool sloppy;     /* of option words: unknown ones are passed over */
	bool debug;      /* in the foreground: print every request */
	bool read_only;
	bool recover_prefix; /* with read_only: show what lies before damage in the log */
	bool noallow_other;  /* of root: for nobody else. Others': always, unless allow_other */
	bool allow_other;    /* asked for by a user who is not root; /etc/fuse.conf must allow it */
	bool no_dot_stet; /* .stet cannot be reached: so there are no transactions on the mount */
	bool no_atime, no_diratime; /* reads change no access times (of directories) */
	bool strict_atime;          /* each one does; else as relatime */

	/* All files are shown as this user's and group's, and what is made is theirs; what the volume
	 * says of the owners of others stays as it is. */
	bool has_uid, has_gid;
	uint32_t uid, gid;

	uint64_t cache_bytes; /* these three as in struct stet_open_options */
	uint32_t flush_interval_ms;
	uint64_t checkpoint_bytes;
	uint32_t
		lock_timeout_ms; /* an open for writing waits so long for another's lock; 0: 5000 */

	uint32_t
		max_age_ms; /* a transaction of `begin`, or of a client of the library, that is older is
			      * dropped; 0: none is */
	uint64_t max_staged_bytes; /* what one transaction may change; 0: no limit */

	/* Options for the kernel ("noatime,nosuid"), collected by stet_fuse_option; cut off at
	 * the end. */
	char kernel[512];
};

/**
 * Understands a list of mount options as given to -o, separated by commas, and changes *options
 * accordingly. Ours:
 *   ro, rw, recovery=prefix, cache=SIZE, flush=SECONDS, checkpoint=SIZE, lock_timeout=SECONDS,
 *   max_age=SECONDS, max_staged=SIZE, uid=NUMBER, gid=NUMBER, allow_other, noallow_other, nodotstet, debug,
 *   foreground; of root: suid or allow_suid, dev or allow_dev
 * (sizes with K, M, G, T; seconds with decimals). What the kernel understands for every file
 * system, is passed on (noatime and its like are ours too; nosuid, nodev, noexec, dirsync, ...); what only mount(8) and
 * fstab use (defaults, auto, noauto, nofail, user, _netdev, x-...) is accepted and dropped.
 * -EINVAL: one is not understood; why says which and what is wrong, in one line, NUL terminated and
 * cut to cap.
 */
int stet_fuse_option(struct stet_fuse_options *options, const char *list, char *why, size_t cap);

/** Do they go together? As stet_fuse_option. */
int stet_fuse_options_check(const struct stet_fuse_options *options, char *why, size_t cap);

/**
 * Mounts and serves. Must be called by a process with one thread.
 * In the foreground it returns when the file system was unmounted and the volume is closed.
 * Otherwise the calling process returns as soon as the file system is mounted and answers (0) or
 * could not be mounted; the daemon is a child of its own session, and ends in here.
 * 0 or a negative errno value; what was wrong is then written to why, NUL terminated and cut to
 * cap: one line, without the names of the program and the volume.
 */
int stet_fuse_main(const struct stet_fuse_options *options, char *why, size_t cap);

#endif
