/* testvol.h - a volume for tests of cache/ and tree/: a memory device under a fault device, and a
 * segment table so simple that it is obviously right (it stands in for space/: only locating).
 *
 * Segment id n lies at the device's segment n; ids can be declared gone. Blocks are given out in
 * sequence, nodes never across a segment's end. */
#ifndef STET_TEST_TESTVOL_H
#define STET_TEST_TESTVOL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"
#include "base/random.h"
#include "cache/cache.h"
#include "sim/fault.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TESTVOL_SEG_BLOCKS 256u
#define TESTVOL_SEGS 4096u
#define TESTVOL_ID UINT64_C(0x1122334455667788)

struct testvol {
	struct stet_device *memory;
	struct sim_fault *fault;
	struct stet_device *device; /* the fault device */
	struct stet_space *space;
	struct stet_superblock sb;
	struct stet_cache *cache;
	uint64_t next_block; /* of the device */
};

void testvol_open(struct testvol *vol, uint8_t data_copies, uint64_t limit_bytes);
void testvol_close(struct testvol *vol);
/* Throws the cache away and makes a new one: everything is read anew. */
void testvol_drop_cache(struct testvol *vol, uint64_t limit_bytes);
/* A run of blocks in one segment. */
struct stet_addr testvol_place(struct testvol *vol, uint32_t blocks);
uint64_t testvol_offset(struct stet_addr addr);
void testvol_write(struct testvol *vol, struct stet_addr addr, const void *data, uint32_t blocks);
/* Flips one bit of what is on the device. */
void testvol_flip(struct testvol *vol, struct stet_addr addr, uint32_t bit);
/* The segment of addr is gone (or is there again). */
void testvol_set_gone(struct testvol *vol, struct stet_addr addr, bool gone);
struct stet_cache_usage testvol_usage(const struct testvol *vol);

#endif
