/* serving.h - what whoever offers a volume to others (serve/) needs beside the public calls. */
#ifndef STET_API_SERVING_H
#define STET_API_SERVING_H

#include "base/skiplist.h"
#include "base/vec.h"
#include "stetfs_lowlevel.h"

#include <stdbool.h>
#include <sys/types.h>

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

/// Changes in a transaction, as who keeps a cache of its state must be told of them (told.c) ///

/** Inodes and names, each once. */
struct stet_api_told {
	struct stet_skiplist set; /* be64 inode number; or that, and a name with its NUL */
	int rc;                   /* as the touched->result that it gives */
};

void stet_api_told_init(struct stet_api_told *told, uint64_t seed);
void stet_api_told_release(struct stet_api_told *told);
void stet_api_told_ino(struct stet_api_told *told, uint64_t ino);
void stet_api_told_name(struct stet_api_told *told, uint64_t dir, const void *name, size_t len);
/** Adds what is listed. */
void stet_api_told_add(struct stet_api_told *told, const struct stet_ll_touched *list);
/** All of it; names are borrowed from told. The lists are the caller's. -ENOMEM as the result: they are empty. */
void stet_api_told_list(const struct stet_api_told *told, struct stet_ll_touched *ret);
void stet_api_told_list_release(struct stet_ll_touched *list);

/**
 * From now on fn is told what each call of this thread in a transaction has changed, also one that failed, before the
 * call returns, without a lock: a superset of the inodes, with no `what`, and of the names, with neither old nor new
 * inode. touched->result: -ENOMEM: that is not all. NULL: nobody. Savepoints and stet_revert are not told.
 */
void stet_api_tell_changes(stet_ll_told_fn *fn, void *arg);

/// Parts of a transaction (part.c) ///

/** Where a part can go back to. */
struct stet_api_mark {
	uint64_t savepoint;
	uint64_t others; /* changes of the transaction by then that were not the part's */
};

/** What some calls in a transaction do, and may be taken back alone as long as nobody else changes anything in it. */
struct stet_api_part {
	struct stet_txn *txn;

	/* --- under the volume's lock --- */
	uint64_t own; /* of the transaction's changes */
	bool over;    /* its calls give -ESTALE */
	STET_VEC(struct stet_api_mark)
	marks; /* the first: before its first change; none: it has made none */
};

void stet_api_part_init(struct stet_api_part *part, struct stet_txn *txn);
/** It has ended. */
void stet_api_part_release(struct stet_api_part *part);
/** From now on the calls of this thread in that transaction are of the part; NULL: of none. */
void stet_api_in_part(struct stet_api_part *part);
/**
 * It ends; back: and what it has changed is taken back. 0; -EBUSY: others have changed something since its first
 * change; -ESTALE: the transaction has ended, or was rolled back by another part; else as stet_rollback_to: what it has
 * changed is still there. The transaction's memory must be pinned.
 */
int stet_api_part_end(struct stet_api_part *part, bool back);
/** As those for transactions, for what the part does; -EBUSY: as above. */
int stet_api_part_savepoint(struct stet_api_part *part, uint64_t *ret_savepoint);
int stet_api_part_rollback_to(struct stet_api_part *part, uint64_t savepoint);
int stet_api_part_savepoint_release(struct stet_api_part *part, uint64_t savepoint);

/** What stet_begin would say to these flags. 0, -EINVAL. */
int stet_api_check_begin(unsigned flags);

/** As it was asked for, with the level filled in (STET_BEGIN_...). */
unsigned stet_api_txn_flags(const struct stet_txn *txn);

/** The monotonic time that waits are measured by. */
int64_t stet_api_now_ns(void);

/** With use: from now on transactions take open locks (see stet_ll_open_lock), whether anybody has yet or not. 0, or
 * -EOPNOTSUPP: another process holds the volume. */
int stet_api_use_open_locks(struct stet_volume *vol, bool use);

#endif
