/* device.h - where blocks live: an image file, a block device, memory, or a wrapper around another
 * device (tests).
 *
 * A device is an array of size_bytes bytes. What is written is durable after the next flush that
 * succeeded; before, a crash may leave any part of it, in any order.
 *
 * Errors, the same for all kinds of device:
 *   -EIO     the device failed, or the range does not lie inside the device
 *   -ENOSPC  (write, resize) the host of an image file has no room left
 *   -EROFS   (write, discard, resize) the device was opened read-only
 *   -ENOMEM  no memory
 * After a failed write the range holds old and new bytes in any mixture.
 *
 * Threads: stet_device_read, write, writev, flush, discard and stats may be called from many
 * threads at once; calls on overlapping ranges must not conflict (their order is not defined).
 * stet_device_resize and stet_device_close exclude all other calls. A flush covers the writes that
 * had returned before it was called.
 */
#ifndef STET_DEVICE_DEVICE_H
#define STET_DEVICE_DEVICE_H

#include "base/counter.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/** Rank of the locks inside devices: above all others. No two of them are held at once. */
#define STET_DEVICE_LOCK_RANK 1000

/// Flags of stet_device_open_file ///

#define STET_DEVICE_READ_ONLY 1U /* only reads; others may read at the same time */
#define STET_DEVICE_CREATE 2U    /* make a regular file when there is nothing of that name */
#define STET_DEVICE_EXCL 4U      /* with CREATE: -EEXIST when there is something of that name */

struct stet_device;

/**
 * What a kind of device implements; called only through the functions below, which have checked
 * that the range is not empty and lies inside the device, and that a read-only one is not changed.
 */
struct stet_device_ops {
	/** Reads all len_bytes, or fails. */
	int (*read)(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes);
	/** Writes everything, or fails; any number of iovecs, empty ones among them. */
	int (*writev)(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
		      int iov_count);
	/** Makes durable what was written before. */
	int (*flush)(struct stet_device *dev);
	/** Optional (NULL: nothing is done). */
	int (*discard)(struct stet_device *dev, uint64_t off_bytes, uint64_t len_bytes);
	/** Optional (NULL: -EOPNOTSUPP). Must set size_bytes on success. */
	int (*resize)(struct stet_device *dev, uint64_t size_bytes);
	/** Ends the device and frees dev (after stet_device_release). Flushes nothing. */
	void (*close)(struct stet_device *dev);
};

/** Embedded as the first member by implementations. */
struct stet_device {
	/* --- set at open, then constant --- */
	const struct stet_device_ops *ops; /* borrowed: outlives the device */
	bool read_only;
	char *name; /* owned; for messages */
	/* --- changed by resize only, which excludes all other calls --- */
	uint64_t size_bytes;
	/* --- atomic --- */
	struct stet_counter reads;      /* calls, the failed ones too */
	struct stet_counter read_bytes; /* of calls that succeeded */
	struct stet_counter writes;
	struct stet_counter write_bytes;
	struct stet_counter flushes;
	struct stet_counter discards;
	struct stet_counter discard_bytes;
};

/** What was done with the device since it was opened. */
struct stet_device_stats {
	uint64_t reads;      /* calls, the failed ones too */
	uint64_t read_bytes; /* of calls that succeeded */
	uint64_t writes;
	uint64_t write_bytes;
	uint64_t flushes;
	uint64_t discards;
	uint64_t discard_bytes;
};

/// Opening and closing ///

/**
 * Opens an image file or a block device and takes its lock: a writer excludes all others, several
 * readers exclude writers only. The lock lasts until close. A new or empty regular file gets
 * create_size_bytes when STET_DEVICE_CREATE is given (holes, no space is taken); an existing one
 * keeps its size.
 * -EBUSY: somebody else has it open, or it is mounted. -EINVAL: neither regular file nor block
 * device, or flags that do not go together; -EISDIR: a directory. Otherwise as open(2).
 * The caller owns *ret (stet_device_close).
 */
STET_CHECKED int stet_device_open_file(const char *path, unsigned int flags,
				       uint64_t create_size_bytes, struct stet_device **ret);

/**
 * Makes a device of zeros in memory; only what is written takes memory. -ENOMEM.
 * The caller owns *ret (stet_device_close).
 */
STET_CHECKED int stet_device_open_memory(uint64_t size_bytes, struct stet_device **ret);

/** Closes and frees the device and gives its lock back; flushes nothing. NULL is accepted. */
void stet_device_close(struct stet_device *dev);

/// Use ///

/** Reads len_bytes at off_bytes: all or an error (buf is undefined then). */
STET_CHECKED int stet_device_read(struct stet_device *dev, uint64_t off_bytes, void *buf,
				  size_t len_bytes);

/** Writes the buffers, one behind the other, at off_bytes; iov_count has no upper limit. */
STET_CHECKED int stet_device_writev(struct stet_device *dev, uint64_t off_bytes,
				    const struct iovec *iov, int iov_count);

/** Writes len_bytes at off_bytes. */
STET_CHECKED int stet_device_write(struct stet_device *dev, uint64_t off_bytes, const void *buf,
				   size_t len_bytes);

/**
 * Makes durable all writes that had returned. After an error nothing is known about any write
 * since the last good flush, and calling it again does not help. Read-only: 0.
 */
STET_CHECKED int stet_device_flush(struct stet_device *dev);

/** Says that the bytes are no longer needed; they read as anything. 0 also when not supported. */
STET_CHECKED int stet_device_discard(struct stet_device *dev, uint64_t off_bytes,
				     uint64_t len_bytes);

/** Sets the size; new bytes are zero. -EOPNOTSUPP: this device cannot (block devices). */
STET_CHECKED int stet_device_resize(struct stet_device *dev, uint64_t size_bytes);

/** The counters now. */
void stet_device_stats(const struct stet_device *dev, struct stet_device_stats *ret);

/// For implementations ///

/** Fills in the common part: counters 0, a copy of the name. -ENOMEM. */
STET_CHECKED int stet_device_init(struct stet_device *dev, const struct stet_device_ops *ops,
				  uint64_t size_bytes, bool read_only, const char *name);

/** Frees what stet_device_init allocated; also right for a zeroed one. */
void stet_device_release(struct stet_device *dev);

#endif
