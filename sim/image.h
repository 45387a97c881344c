/* image.h - a device in memory that can be copied in no time: copies share their chunks until one
 * of them writes (copy on write). Thousands of crash images of one volume fit into memory.
 *
 * An image is a normal stet_device (close it with stet_device_close). Different images may be used
 * from different threads, also when they share chunks.
 */
#ifndef SIM_IMAGE_H
#define SIM_IMAGE_H

#include "device/device.h"

/** In all of sim/: a sector of a write lands whole or not at all. */
#define SIM_SECTOR_BYTES 512

/** Bytes shared or copied as one. */
#define SIM_IMAGE_CHUNK_BYTES ((uint64_t)64 << 10)

/** Makes an image of zeros; -ENOMEM. The caller owns *ret. */
STET_CHECKED int sim_image_create(uint64_t size_bytes, struct stet_device **ret);

/**
 * Makes an image with the bytes that dev has now: shared if dev is an image, else read. Errors of
 * reading; -ENOMEM. The caller owns *ret; dev stays the caller's and may be closed before it.
 */
STET_CHECKED int sim_image_copy(struct stet_device *dev, struct stet_device **ret);

/**
 * Looks for the first byte in which two devices of the same size differ: *ret_off_bytes is its
 * offset, or the size when they are equal. Quick where images share chunks. Errors of reading;
 * -EINVAL: the sizes differ.
 */
STET_CHECKED int sim_image_compare(struct stet_device *a, struct stet_device *b,
				   uint64_t *ret_off_bytes);

/** True when dev is an image. */
bool sim_image_is(const struct stet_device *dev);

/** How many chunks of the image take memory, and how many of those no other image shares. */
void sim_image_chunks(struct stet_device *dev, uint64_t *ret_present, uint64_t *ret_own);

#endif
