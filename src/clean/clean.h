/* clean.h - the cleaner: empties segments so that they can be used again.
 *
 * A client of everything below: it picks a victim by a policy (space/), asks the log what lies there,
 * and has what is still needed written elsewhere: data by a plain operation (fs/), tree nodes and table
 * pages by the next checkpoint (txn/). It never frees anything itself: a segment comes free when
 * nothing in it is live or held.
 */
#ifndef STET_CLEAN_CLEAN_H
#define STET_CLEAN_CLEAN_H

#include "base/error.h"
#include "base/ticket.h"
#include "fs/fs.h"
#include "space/space.h"
#include "txn/engine.h"

struct stet_cleaner;

/* score: the policy; NULL = greedy. The fs is borrowed until destroyed. -ENOMEM. */
STET_CHECKED int stet_cleaner_create(struct stet_fs *fs, struct stet_engine *engine,
				     stet_space_score_fn *score, struct stet_cleaner **ret);
void stet_cleaner_destroy(struct stet_cleaner *cleaner); /* NULL ok */

/* Asks for `segments` segments to be emptied beyond what pressure asks for (stetfs clean). */
void stet_cleaner_request(struct stet_cleaner *cleaner, uint32_t segments);
bool stet_cleaner_wants_work(const struct stet_cleaner *cleaner);

/* A bounded step, under the volume's lock. 1 = did something (call again, after running what jobs the
 * engine has), 0 = nothing to do now, STET_WAIT = a file is locked or space is short: the ticket fires;
 * < 0 = error (the victim is left alone). */
STET_CHECKED int stet_clean_step(struct stet_cleaner *cleaner, struct stet_ticket *ticket);

struct stet_clean_stats {
	uint64_t victims, moved_blocks, touched_nodes, skipped;
};
void stet_clean_stats(const struct stet_cleaner *cleaner, struct stet_clean_stats *ret);

#endif
