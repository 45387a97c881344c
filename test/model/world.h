/* world.h - a volume on a simulated device, driven from one thread by seeds.
 *
 * The devices, from below: an image in memory; a recorder, if crashes are wanted; a fault device.
 * Background work (flushes, checkpoints, reclaim, cleaning) happens only inside world_pump, world_await,
 * world_durable and world_settle. Between two calls jobs may be in flight: started and not performed, or
 * performed and not finished. Everything follows from the seeds, so a run can be repeated.
 */
#ifndef TEST_MODEL_WORLD_H
#define TEST_MODEL_WORLD_H

#include "model.h"

#include "base/random.h"
#include "base/text.h"
#include "fs/fs.h"
#include "sim/clock.h"
#include "sim/fault.h"
#include "sim/image.h"
#include "sim/record.h"
#include "txn/txn.h"

#ifdef STET_HAVE_CLEAN
#include "clean/clean.h"
#endif

#define WORLD_JOBS 3
#define WORLD_BYTES_MAX ((size_t)1 << 20) /* of one read or write */

struct world_config {
	uint64_t size_bytes;
	uint32_t seg_blocks;
	uint8_t meta_copies;
	uint64_t cache_bytes;
	uint64_t checkpoint_bytes; /* 0: the default */
	uint64_t delta_bytes;      /* likewise */
	uint64_t spill_bytes;      /* likewise */
	uint64_t seed;
	bool record, fault;
};

struct world_job {
	struct stet_job *job; /* NULL: free */
	bool performed;
};

/* Of all times that it was open, as far as they are over. */
struct world_totals {
	uint64_t flushes, checkpoints, spills, overlays, cleaned;
};

struct world {
	struct world_config config;
	struct sim_clock clock;
	struct stet_device *base;   /* an image; owned */
	struct sim_record *record;  /* or NULL */
	struct sim_fault *fault;    /* or NULL */
	struct stet_device *device; /* the topmost; borrowed from one of them */
	struct stet_engine *engine; /* NULL: not open */
	struct stet_fs *fs;
	struct world_job jobs[WORLD_JOBS];
	struct stet_random pump;
	struct stet_ticket reclaim_ticket, clean_ticket;
	bool reclaim_waits, clean_waits;
	bool cleaned; /* since it was opened */
#ifdef STET_HAVE_CLEAN
	struct stet_cleaner *cleaner;
#endif
	/* Called when a flush starts: what is ordered up to now may be seen after a crash. */
	void (*on_flush)(void *arg, uint64_t cut);
	void *on_flush_arg;
	struct world_totals totals;
	int background_rc; /* first error of background work */
	uint8_t *bytes;    /* WORLD_BYTES_MAX, for data to be written */
};

/** What the volume made from a config is called. */
uint64_t world_volume_id(const struct world_config *config);
/** Makes the devices and formats the volume; it is not open yet. */
int world_create(const struct world_config *config, struct world **ret);
/** The same on a copy of an existing device. config: what world_create was given. */
int world_create_on(const struct world_config *config, struct stet_device *image,
		    struct world **ret);
/** All transactions must have ended. NULL: nothing. */
void world_destroy(struct world *w);
/** Opens the volume (recovering it). */
int world_open(struct world *w);
/** Finishes what is in flight and frees the engine; writes nothing more. */
void world_close(struct world *w);
/** Goes on with what the device holds now, as if the process had been killed: jobs in flight never
 * happened. Transactions must have ended. Not with a recorder. */
int world_kill(struct world *w);

/// Background work ///

/** A number of random actions. */
void world_pump(struct world *w, uint64_t seed, unsigned actions);
/** Performs and finishes what is in flight. */
void world_drain(struct world *w);
/** Works until the ticket has fired (true), or nothing is left to do (false: it waits for a lock). */
bool world_await(struct world *w, struct stet_ticket *ticket);
/** Everything up to serial becomes durable: 0, or the error. */
int world_durable(struct world *w, uint64_t serial);
/** Flush and checkpoint. */
int world_settle(struct world *w);
bool world_failed(const struct world *w);

/// Operations ///

/**
 * Does op in txn (NULL: plain) and starts it anew while it waits for what background work brings.
 * wait: whether locks are waited for; STET_WAIT: it waits for one, with the ticket queued. Else
 * ret->rc is the same as what is returned.
 */
int world_op(struct world *w, struct stet_txn *txn, const struct model_op *op, bool wait,
	     struct stet_ticket *ticket, struct model_result *ret);
/** Orders a transaction and ends it. 0 and *ret_serial, or the error. */
int world_commit(struct world *w, struct stet_txn *txn, uint64_t *ret_serial);
/** The whole tree as the transaction (NULL: a plain reader) sees it. */
int world_read_tree(struct world *w, struct stet_txn *txn, struct model **ret);
/** Walks the catalog item by item and checks F1-F3 of fs.h and what format.md 15 says. 0, or -EUCLEAN
 * with the first violations in t. */
int world_check_catalog(struct world *w, struct stet_text *t);

#endif
