/* serving.h - what whoever offers a volume to others (serve/) needs beside the public calls. */
#ifndef STET_API_SERVING_H
#define STET_API_SERVING_H

#include <stdbool.h>
#include <sys/types.h>

struct stet_txn;
struct stet_volume;

/**
 * Keeps the handle's memory after the transaction has ended, until it is let go: calls that come too late
 * then give -ESTALE. Nothing else is kept: stet_close does not wait for it, but it must be let go before.
 */
void stet_api_txn_pin(struct stet_txn *txn);
void stet_api_txn_unpin(struct stet_txn *txn);

/** Has the transaction ended? */
bool stet_api_txn_has_ended(struct stet_txn *txn);

/**
 * Asked now and then while a call of this thread waits for others, with the volume's lock held: true: it
 * gives up, with -EINTR. NULL: never. It must not use the library.
 */
typedef bool stet_api_gone_fn(void *arg);
void stet_api_give_up_when(stet_api_gone_fn *fn, void *arg);

/** With use: from now on transactions take open locks (see stet_ll_open_lock), whether anybody has yet or not. 0, or
 * -EOPNOTSUPP: another process holds the volume. */
int stet_api_use_open_locks(struct stet_volume *vol, bool use);

#endif
