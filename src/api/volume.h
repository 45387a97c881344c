/* volume.h - volumes on any device, for tests and tools that bring their own.
 *
 * The public headers open volumes by path; these do the same on a device that the caller has made.
 */
#ifndef STET_API_VOLUME_H
#define STET_API_VOLUME_H

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"

struct stet_mkfs_options;
struct stet_open_options;
struct stet_volume;

/** As stet_mkfs, on a device, which stays the caller's. size_bytes and force are not looked at. */
STET_CHECKED int stet_api_format_device(struct stet_device *device,
					const struct stet_mkfs_options *options,
					struct stet_clock *clock);

/** What only those who bring their own device may choose. */
struct stet_api_device_options {
	struct stet_clock *clock; /* borrowed until close; NULL: the real one */
	bool keep_device;         /* stet_close leaves the device open: it stays the caller's */
	bool no_worker; /* no background thread: flushes happen only when somebody waits */
};

/**
 * As stet_open, on a device. On success stet_close closes the device too (but see keep_device); on
 * failure it stays the caller's.
 */
STET_CHECKED int stet_api_open_device(struct stet_device *device,
				      const struct stet_open_options *options,
				      const struct stet_api_device_options *more,
				      struct stet_volume **ret);

/** Returns when a checkpoint holds everything that was done so far. */
STET_CHECKED int stet_api_checkpoint(struct stet_volume *vol);

#endif
