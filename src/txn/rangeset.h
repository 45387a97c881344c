/* rangeset.h - sets of block runs with even/odd coverage.
 *
 * Runs are added in any order; `net` then visits the places covered an odd number of times. So a block
 * that leaves one extent and enters another (an extent cut in two, a value rewritten) cancels out, and
 * what is left are blocks that really came or went.
 */
#ifndef STET_TXN_RANGESET_H
#define STET_TXN_RANGESET_H

#include "base/error.h"
#include "base/vec.h"
#include "format/types.h"

struct stet_range {
	struct stet_addr addr;
	uint32_t blocks;
	uint64_t birth;
};

struct stet_rangeset {
	STET_VEC(struct stet_range) list;
};

void stet_rangeset_init(struct stet_rangeset *set);
void stet_rangeset_release(struct stet_rangeset *set);
void stet_rangeset_clear(struct stet_rangeset *set);
/* -ENOMEM. A run that continues the last one added (same birth) is joined to it. */
STET_CHECKED int stet_rangeset_add(struct stet_rangeset *set, struct stet_addr addr,
				   uint32_t blocks, uint64_t birth);
/* Visits the net runs in address order and stops at the first error. -ENOMEM. The set is reordered. */
typedef int stet_rangeset_fn(void *arg, struct stet_addr addr, uint32_t blocks, uint64_t birth);
STET_CHECKED int stet_rangeset_net(struct stet_rangeset *set, stet_rangeset_fn *fn, void *arg);

#endif
