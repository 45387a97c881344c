/* savepoint.c - savepoints of a transaction.
 *
 * Each call runs under one hold of the lock, so it is atomic to calls of other threads in the transaction, and
 * like those waits while what was changed is being written out (R3 of run.c). Calls that wait for a lock have
 * changed nothing yet; they start anew and find the state as it then is.
 */
#include "api/api_internal.h"

/* Takes the lock; leave gives it back, whatever the result. */
static int enter(struct stet_volume *vol, struct stet_tx *txn, bool changes)
	STET_ACQUIRE(vol->lock);
static int enter(struct stet_volume *vol, struct stet_tx *txn, bool changes)
{
	int rc;

	stet_api_lock_(vol);
	stet_api_tx_get_(txn);
	rc = stet_api_wait_turn_(txn);
	if (!rc && changes && txn->frozen)
		rc = STET_FAIL(-EROFS, "the transaction takes no more changes");
	return rc;
}

static int leave(struct stet_volume *vol, struct stet_tx *txn, int rc) STET_RELEASE(vol->lock);
static int leave(struct stet_volume *vol, struct stet_tx *txn, int rc)
{
	stet_api_tx_put_(txn);
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
	return rc;
}

int stet_savepoint(struct stet_tx *txn, uint64_t *ret_savepoint)
{
	int rc = stet_api_check_handle_(txn);

	if (rc)
		return rc;
	struct stet_volume *vol = txn->vol;
	stet_error_clear();
	rc = enter(vol, txn, false);
	if (!rc)
		rc = stet_txn_savepoint(txn->txn, ret_savepoint);
	return leave(vol, txn, rc);
}

int stet_rollback_to(struct stet_tx *txn, uint64_t savepoint)
{
	int rc = stet_api_check_handle_(txn);

	if (rc)
		return rc;
	struct stet_volume *vol = txn->vol;
	stet_error_clear();
	rc = enter(vol, txn, true);
	if (!rc)
		rc = stet_txn_rollback_to(txn->txn, savepoint);
	if (!rc)
		txn->changes++;
	return leave(vol, txn, rc);
}

int stet_savepoint_release(struct stet_tx *txn, uint64_t savepoint)
{
	int rc = stet_api_check_handle_(txn);

	if (rc)
		return rc;
	struct stet_volume *vol = txn->vol;
	stet_error_clear();
	rc = enter(vol, txn, false);
	if (!rc)
		rc = stet_txn_savepoint_release(txn->txn, savepoint);
	return leave(vol, txn, rc);
}
