/* step.h - what a random run does, step by step, in a form that survives cutting.
 *
 * Steps name things by path, so that a list of them still means something when others are left out:
 * that is how a failing run is made small.
 */
#ifndef TEST_MODEL_STEP_H
#define TEST_MODEL_STEP_H

#include "model.h"

#include "base/random.h"

#define STEP_PATH_MAX 6
#define STEP_TXNS 4 /* actors 1..STEP_TXNS; actor 0 is plain */
#define STEP_HELD 4

/** Behind the kinds of operations. */
enum step_kind {
	STEP_BEGIN = MODEL_KINDS, /* level; flags 1: read-only */
	STEP_COMMIT,              /* flags 1: durable when it returns */
	STEP_ABORT,
	STEP_SYNC,
	STEP_CHECKPOINT,
	STEP_REOPEN, /* settled and closed */
	STEP_KILL,
	STEP_HOLD, /* a is held open in slot `slot` */
	STEP_UNHOLD,
	STEP_COMPARE,
	STEP_IDLE, /* background work only */
	STEP_SAVE, /* a savepoint */
	STEP_BACK, /* to the savepoint `slot` below the newest; flags 1: and release it */
	STEP_RELEASE,
	STEP_KINDS,
};

struct step_path {
	uint8_t n;
	uint8_t held;                /* not 0: what is held in slot held - 1 */
	uint8_t name[STEP_PATH_MAX]; /* indices into the table of names */
};

struct step {
	uint8_t kind, actor, level, slot;
	bool wait;     /* for locks */
	uint8_t xattr; /* index of its name; RECORD: of the key */
	uint8_t pump;  /* actions of background work afterwards */
	uint32_t flags, mode, uid;
	uint64_t off, len, seed, pump_seed;
	struct step_path a, b;
};

/** What kinds of steps there are, and how large things get. */
struct step_mix {
	unsigned txns; /* 0..STEP_TXNS */
	bool locking;  /* that level too */
	bool kill, reopen;
	bool long_txns;       /* that grow over their share of memory */
	bool saves;           /* savepoints */
	unsigned txn_percent; /* of steps that are in a transaction; 0: 60 */
	bool waits;           /* for locks */
	bool short_txns;      /* more of them, and more that only read */
	uint64_t pages_min;   /* below, more is written */
	uint64_t pages_max;   /* beyond, things get smaller */
	unsigned reads_percent;
	uint64_t inodes_max;
	uint64_t bytes_max;                 /* of one write */
	unsigned sync_every, compare_every; /* 0: never */
};

/** What the generator looks at; any may be NULL but now. */
struct step_state {
	const struct model *now;
	const struct model *txn[STEP_TXNS]; /* what each open transaction sees */
	bool doomed[STEP_TXNS];             /* only their end is left */
	bool old[STEP_TXNS];                /* it is time to end them: what they see takes room */
	bool reads[STEP_TXNS];              /* read-only ones */
	bool held[STEP_HELD];
};

void step_random(struct stet_random *random, const struct step_mix *mix,
		 const struct step_state *state, uint64_t no, struct step *ret);
void step_print(struct stet_text *t, const struct step *step);
struct model_name step_name(uint8_t index);
struct model_name step_xattr_name(uint8_t index);
struct model_name step_key(uint8_t index);

#endif
