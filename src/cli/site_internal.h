/* site_internal.h - a place that trees are copied from or to: the host's files, or a volume.
 *
 * Copying knows only this interface, so it works in every direction. A file is named by a
 * directory and a name in it: trees of any depth need no long paths. At the starting point the
 * name is a whole path. The last component is never followed when it is a symbolic link; resolve
 * does that where it is wanted. All calls return 0 (or a count) or a negative errno value.
 */
#ifndef STET_CLI_SITE_INTERNAL_H
#define STET_CLI_SITE_INTERNAL_H

#include "cli/cli_internal.h"

/** A directory: a descriptor on the host, an inode number in a volume. */
struct stet_cli_dir {
	int fd;
	uint64_t ino;
};

struct stet_cli_attr {
	/* Its identity, everywhere: on the host dev and ino, volume 0; in a volume these of the
	 * image, and its own number. */
	uint64_t dev, volume, ino;
	uint32_t mode; /* with the type */
	uint64_t nlink;
	uint32_t uid, gid;
	uint64_t rdev; /* major << 32 | minor */
	uint64_t size;
	int64_t atime_ns, mtime_ns;
};

struct stet_cli_site {
	const struct stet_cli_site_ops *ops;
	struct stet_cli_volume *v; /* NULL: the host. Borrowed */
	bool is_root;              /* the host: owners can be set */
};

struct stet_cli_site_ops {
	/** Where starting points are resolved from. */
	struct stet_cli_dir (*start)(struct stet_cli_site *site);
	/** Adds the path that a path leads to when its last component is a symbolic link; one that
	 * leads nowhere is added as it is. */
	void (*resolve)(struct stet_cli_site *site, const char *path, struct stet_cli_text *ret);
	int (*stat)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		    struct stet_cli_attr *ret);
	/** Opens a directory (close_dir). -ENOTDIR. */
	int (*open_dir)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			struct stet_cli_dir *ret);
	void (*close_dir)(struct stet_cli_site *site, struct stet_cli_dir dir);
	/** All names, without "." and "..". */
	int (*list)(struct stet_cli_site *site, struct stet_cli_dir dir,
		    struct stet_cli_names *ret);
	int (*readlink)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			struct stet_cli_text *ret);

	/** Opens a regular file for reading. */
	int (*open)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		    struct stet_cli_stream *ret);
	/** Opens it for writing, empty, and makes it when it is missing. */
	int (*create)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		      struct stet_cli_stream *ret);
	int (*close)(struct stet_cli_stream *stream);
	ssize_t (*read)(struct stet_cli_stream *stream, void *buf, size_t len, uint64_t off);
	/** Writes all of it. */
	int (*write)(struct stet_cli_stream *stream, const void *buf, size_t len, uint64_t off);
	/** The next data (STET_SEEK_DATA) or hole from off on; -ENXIO: none. -EINVAL: cannot. */
	int (*seek)(struct stet_cli_stream *stream, uint64_t off, int what, uint64_t *ret_off);
	int (*truncate)(struct stet_cli_stream *stream, uint64_t size);
	int (*size)(struct stet_cli_stream *stream, uint64_t *ret);

	int (*mkdir)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name);
	int (*symlink)(struct stet_cli_site *site, const char *target, struct stet_cli_dir dir,
		       const char *name);
	/** attr: the type and rdev of a device, FIFO or socket. */
	int (*mknod)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
		     const struct stet_cli_attr *attr);
	/** Gives a file made before a second name. path: its path, ino: its number. */
	int (*link)(struct stet_cli_site *site, const char *path, uint64_t ino,
		    struct stet_cli_dir dir, const char *name);
	int (*unlink)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name);

	/** Owners, where that is allowed; before the next two, for it may cost what they set. */
	int (*set_owner)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			 const struct stet_cli_attr *attr);
	/** Permissions and times; the last thing done to a file. */
	int (*set_attr)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			const struct stet_cli_attr *attr);

	/** Extended attributes of the file itself; as stet_listxattr and its sisters. */
	ssize_t (*list_xattrs)(struct stet_cli_site *site, struct stet_cli_dir dir,
			       const char *name, char *buf, size_t cap);
	ssize_t (*get_xattr)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			     const char *xattr, void *buf, size_t cap);
	int (*set_xattr)(struct stet_cli_site *site, struct stet_cli_dir dir, const char *name,
			 const char *xattr, const void *value, size_t len);
};

void stet_cli_site_host_(struct stet_cli_site *ret);
void stet_cli_site_volume_(struct stet_cli_volume *v, struct stet_cli_site *ret);

/// Copying (copy.c) ///

struct stet_cli_copy {
	/* --- set by the caller --- */
	struct stet_cli_site *from, *to;
	bool recursive;
	bool stop; /* at the first error: the target is a transaction */
	/* --- own --- */
	struct stet_cli_text from_path, to_path; /* for messages */
	void *links;      /* tree of struct link: files with more names, made already */
	void *made;       /* tree of strings: files made at starting points */
	uint64_t top_ino; /* of the directory made or filled first, in a volume; 0: none yet */
	bool xattrs_lost;
	char *buf;
	struct stet_cli_progress progress;
	int code; /* of the first error */
};

/**
 * Copies what is at from_path (a path at its site, from_word for messages) to to_path, and all
 * below it when recursive. When to_path is a directory, it is filled, not replaced. Returns an
 * exit code.
 */
int stet_cli_copy_(struct stet_cli_copy *copy, const char *from_path, const char *from_word,
		   const char *to_path, const char *to_word);
void stet_cli_copy_release_(struct stet_cli_copy *copy);

#endif
