/* savepoint.c - savepoints of a transaction.
 *
 * Each call runs under one hold of the lock, so it is atomic to calls of other threads in the transaction, and
 * like those waits while what was changed is being written out (R3 of run.c). Calls that wait for a lock have
 * changed nothing yet; they start anew and find the state as it then is.
 */
#include "api/api_internal.h"

typedef int savepoint_fn(struct stet_tx *txn, uint64_t *savepoint);

static int run(struct stet_tx *txn, bool changes, savepoint_fn *fn, uint64_t *savepoint)
{
	int rc = stet_api_check_handle_(txn);

	if (rc)
		return rc;
	struct stet_volume *vol = txn->vol;
	stet_error_clear();
	stet_api_lock_(vol);
	stet_api_tx_get_(txn);
	rc = changes ? stet_api_wait_turn_to_change_(txn) : stet_api_wait_turn_(txn);
	if (!rc)
		rc = fn(txn, savepoint);
	stet_api_tx_put_(txn);
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
	return rc;
}

static int make(struct stet_tx *txn, uint64_t *savepoint)
{
	int rc = stet_api_check_limits_(txn);

	return rc ? rc : stet_txn_savepoint(txn->txn, savepoint);
}

static int roll_back(struct stet_tx *txn, uint64_t *savepoint)
{
	int rc = stet_txn_rollback_to(txn->txn, *savepoint);

	if (!rc)
		txn->changes++;
	return rc;
}

static int release(struct stet_tx *txn, uint64_t *savepoint)
{
	return stet_txn_savepoint_release(txn->txn, *savepoint);
}

/* --- calls of several operations --- */

int stet_api_alone_begin_(struct stet_tx *tx, uint64_t *ret_savepoint)
{
	int rc;

	stet_api_lock_(tx->vol);
	rc = stet_api_wait_turn_to_change_(tx);
	if (!rc) /* first: its mark would be a later savepoint, and go with ours */
		rc = stet_api_part_changes_(tx, stet_api_part_of_(tx));
	if (!rc)
		rc = stet_txn_savepoint(tx->txn, ret_savepoint);
	if (!rc) {
		tx->alone = true;
		stet_api_tx_get_(tx);
	}
	stet_api_unlock_(tx->vol);
	return rc;
}

static void end_whole(struct stet_tx *tx, uint64_t savepoint, bool failed)
{
	stet_api_assert_locked_(tx->vol);
	if (tx->state != STET_API_TX_OPEN || stet_txn_doomed(tx->txn))
		return;
	if (failed) {
		stet_api_changed_(tx, stet_api_part_of_(tx));
		stet_ignore(stet_txn_rollback_to(tx->txn, savepoint),
			    "it dooms the transaction then");
	}
	if (!stet_txn_doomed(tx->txn))
		stet_ignore(stet_txn_savepoint_release(tx->txn, savepoint), "it is there");
}

int stet_api_alone_end_(struct stet_tx *tx, uint64_t savepoint, int rc)
{
	struct stet_volume *vol = tx->vol;

	stet_api_lock_(vol);
	end_whole(tx, savepoint, rc != 0);
	tx->alone = false;
	stet_cond_broadcast(&tx->turn);
	stet_api_tx_put_(tx);
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
	return rc;
}

/* --- the calls --- */

int stet_savepoint(struct stet_tx *txn, uint64_t *ret_savepoint)
{
	return run(txn, false, make, ret_savepoint);
}

int stet_rollback_to(struct stet_tx *txn, uint64_t savepoint)
{
	return run(txn, true, roll_back, &savepoint);
}

int stet_savepoint_release(struct stet_tx *txn, uint64_t savepoint)
{
	return run(txn, false, release, &savepoint);
}
