/* part.c - parts of a transaction: what a program does that works in the transaction of another (serve/).
 *
 * P1. Before its first change a part sets a savepoint. So what has changed nothing costs nothing, and can always be given
 *     up.
 * P2. Going back to a savepoint takes back what anybody has done in the transaction since. So a part may go back only
 *     where all changes since were its own: operations that change something are counted, the part's and all.
 * P3. A part that ends forgets its savepoints, and with them those that other parts have set since; so does one that
 *     goes back. Those parts cannot go back any more: it is as if others had changed something.
 */
#include "api/api_internal.h"

/* Of this thread. */
static _Thread_local struct stet_api_part *current;

void stet_api_in_part(struct stet_api_part *part)
{
	current = part;
}

struct stet_api_part *stet_api_part_of_(const struct stet_tx *tx)
{
	return current && current->txn == tx ? current : NULL;
}

void stet_api_part_init(struct stet_api_part *part, struct stet_tx *txn)
{
	*part = (struct stet_api_part){ .txn = txn };
	stet_vec_init(&part->marks);
}

void stet_api_part_release(struct stet_api_part *part)
{
	stet_vec_release(&part->marks);
}

/* P2 */
static uint64_t others(const struct stet_api_part *part)
{
	return part->txn->changes - part->own;
}

static int mark(struct stet_api_part *part, uint64_t *ret_savepoint)
{
	struct stet_api_mark m = { .others = others(part) };
	int rc = stet_vec_reserve(&part->marks, 1);

	if (!rc)
		rc = stet_txn_savepoint(part->txn->txn, &m.savepoint);
	if (rc)
		return rc;
	*ret_savepoint = m.savepoint;
	return stet_vec_push(&part->marks, m);
}

static int has_ended(void)
{
	return STET_FAIL(-ESTALE, "the part of the transaction has ended");
}

/* P1 */
int stet_api_part_changes_(struct stet_tx *tx, struct stet_api_part *part)
{
	uint64_t savepoint;

	stet_api_assert_locked_(tx->vol);
	if (!part)
		return 0;
	if (part->over)
		return has_ended();
	return part->marks.n > 0 ? 0 : mark(part, &savepoint);
}

void stet_api_changed_(struct stet_tx *tx, struct stet_api_part *part)
{
	stet_api_assert_locked_(tx->vol);
	tx->changes++;
	if (part)
		part->own++;
}

static int go_back(struct stet_api_part *part, size_t at)
{
	const struct stet_api_mark *m = &part->marks.v[at];
	int rc = 0;

	if (m->others != others(part))
		rc = STET_FAIL(-EBUSY, "others have changed something in the transaction since");
	if (!rc)
		rc = stet_txn_rollback_to(part->txn->txn, m->savepoint);
	if (rc == -ENOENT) /* P3 */
		rc = STET_FAIL(-EBUSY, "another part of the transaction has ended since");
	if (rc)
		return rc;
	part->marks.n = at + 1;
	stet_api_changed_(part->txn, part);
	return 0;
}

/* P3. If it is gone already, that is as well. */
static void forget(struct stet_api_part *part, size_t at)
{
	if (at >= part->marks.n)
		return;
	(void)!stet_txn_savepoint_release(part->txn->txn, part->marks.v[at].savepoint);
	part->marks.n = at;
}

int stet_api_part_end(struct stet_api_part *part, bool back)
{
	struct stet_tx *tx = part->txn;
	int rc;

	stet_error_clear();
	stet_api_lock_(tx->vol);
	part->over = true;
	rc = back ? stet_api_wait_turn_to_change_(tx) : stet_api_wait_turn_(tx);
	if (!rc && back && part->marks.n > 0)
		rc = go_back(part, 0);
	if (!rc)
		forget(part, 0);
	stet_api_worker_kick_(tx->vol, false);
	stet_api_unlock_(tx->vol);
	return rc;
}

/* --- savepoints of its own --- */

/* Their numbers rise. */
static int find(const struct stet_api_part *part, uint64_t savepoint, size_t *ret_at)
{
	size_t low = 1, high = part->marks.n; /* the first one is not the caller's */

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (part->marks.v[mid].savepoint == savepoint) {
			*ret_at = mid;
			return 0;
		}
		if (part->marks.v[mid].savepoint < savepoint)
			low = mid + 1;
		else
			high = mid;
	}
	return STET_FAIL(-ENOENT, "no such savepoint");
}

static int set(struct stet_api_part *part, uint64_t *savepoint)
{
	struct stet_tx *tx = part->txn;
	int rc = stet_api_check_limits_(tx);

	if (!rc)
		rc = stet_api_part_changes_(tx, part);
	return rc ? rc : mark(part, savepoint);
}

static int roll_back(struct stet_api_part *part, uint64_t *savepoint)
{
	size_t at;
	int rc = find(part, *savepoint, &at);

	return rc ? rc : go_back(part, at);
}

static int release(struct stet_api_part *part, uint64_t *savepoint)
{
	size_t at;
	int rc = find(part, *savepoint, &at);

	if (!rc)
		forget(part, at);
	return rc;
}

typedef int part_fn(struct stet_api_part *part, uint64_t *savepoint);

static int run(struct stet_api_part *part, bool changes, part_fn *fn, uint64_t *savepoint)
{
	struct stet_tx *tx = part->txn;
	int rc;

	stet_error_clear();
	stet_api_lock_(tx->vol);
	rc = changes ? stet_api_wait_turn_to_change_(tx) : stet_api_wait_turn_(tx);
	if (!rc && part->over)
		rc = has_ended();
	if (!rc)
		rc = fn(part, savepoint);
	stet_api_worker_kick_(tx->vol, false);
	stet_api_unlock_(tx->vol);
	return rc;
}

int stet_api_part_savepoint(struct stet_api_part *part, uint64_t *ret_savepoint)
{
	return run(part, false, set, ret_savepoint);
}

int stet_api_part_rollback_to(struct stet_api_part *part, uint64_t savepoint)
{
	return run(part, true, roll_back, &savepoint);
}

int stet_api_part_savepoint_release(struct stet_api_part *part, uint64_t savepoint)
{
	return run(part, false, release, &savepoint);
}
