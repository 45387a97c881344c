/* crash.h - a recorded run, and every state that a crash may have left of it.
 *
 * X1. After recovery the tree is exactly the one of a flush boundary: not older than the last one that was
 *     acknowledged before the crash, not newer than the crash. Transactions are in it whole or not.
 * X2. The catalog and the accounting of space are consistent, and the volume can be written to.
 * X3. A crash during recovery loses nothing: the next recovery gives the same tree.
 * X4. When the newest checkpoint slot cannot be read besides, the older one leads to the same state.
 * X5. What lies in free segments is never needed, by the older checkpoint slot neither.
 * X6. Commits that wait for one flush, while other transactions read what they have published and go on: each
 *     that was acknowledged is there, and so is all that it had read, by whomever it was written (duel_ack.c).
 */
#ifndef TEST_CRASH_CRASH_H
#define TEST_CRASH_CRASH_H

#include "runner.h"

struct crash_plan {
	struct run run;
	uint64_t images;       /* how many to look at, about */
	unsigned go_on_every;  /* every n-th image is written to after recovery; 0: none */
	unsigned deep_every;   /* recovery itself is crashed for every n-th image; 0: none */
	unsigned damage_every; /* X4 for every n-th image; 0: none */
	uint64_t only;         /* not 0: this image (from 1 on) and no other */
	bool late_acks;        /* X6 */
	bool quiet;
};

struct crash_counts {
	uint64_t images, deep_images, events, boundaries, torn, acks;
};

/** Volume, mix and numbers by the seed. */
void crash_by_seed(uint64_t seed, uint64_t images, struct crash_plan *ret);
/** The same with more and shorter transactions, whose commits are acknowledged by whatever flush comes. */
void crash_txns_by_seed(uint64_t seed, uint64_t images, struct crash_plan *ret);
/** In a child process. True: all states are allowed ones. Else what is wrong was printed. */
bool crash_run(const struct crash_plan *plan, struct crash_counts *counts);

#endif
