/* around.h - a transaction in which clients of a service are at work, as those within a mount's `run` are. */
#ifndef STET_TEST_AROUND_H
#define STET_TEST_AROUND_H

#include "api_unit.h"

#include "base/skiplist.h"

#include <pthread.h>

struct around {
	struct stet_volume *vol;
	pthread_mutex_t lock;
	pthread_cond_t drained;

	/* --- under lock --- */
	struct stet_txn *txn; /* NULL: it has ended */
	bool ending;
	unsigned calls, parts, refs;
	bool spoiled;
	unsigned conflicts;
	struct stet_skiplist told;    /* be64 inode number; or that of a directory, and a name */
	struct stet_skiplist changed; /* when it ended; names with no directory */
};

extern const struct stet_ll_mount around_mount;

void around_begin(struct around *a, struct stet_volume *vol, unsigned flags);
/* A client shows the word that he was given there. */
void around_reached(struct around *a, struct stet_ll_service *service, const char *word,
		    uint32_t uid);
/* Waits for the calls in it, which do not wait; then nobody works in it any more. keep: commits it, but if it is
 * spoiled. */
void around_end(struct around *a, bool keep);
/* Fails if a client has it still, or was not told all that it had changed. */
void around_release(struct around *a);

#endif
