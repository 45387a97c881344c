/* save.c - savepoints: marks in what a transaction has done, to come back to.
 *
 * A savepoint is a position in two lists of undo records, each of which says what the write-set had for a key
 * before its first change since the newest savepoint of then.
 *
 * B1. The savepoints are a stack; their ids rise and are never used again. An entry's `noted` is the id of the
 *     newest savepoint that has a record of its key: so a key has at most one record for each savepoint,
 *     however often it is changed, and a savepoint costs nothing but its place on the stack. Those between which
 *     nothing was done have one place together (in a read-only transaction: all), and count as the first of them.
 * B2. An entry that was there before the newest savepoint is never changed in place, nor are the bytes of its
 *     buffer: the record takes it over as it is.
 * B3. An interval is the time between two spills. Records of finals (what was one, or became one out of
 *     nothing) are of this interval only: a spill takes them out of memory with the entries (swap.c), or
 *     there are none to take, for savepoints of earlier intervals do not need any (keep.c). The others stay in
 *     memory, as their entries do.
 * B4. Nothing becomes an intent again that was final. So of a key that is in both lists the finals are newer,
 *     and are undone first.
 * B5. What a savepoint's state needs of the volume was promised when it was taken, and giving back counts what
 *     records and points keep (N5 of txn.c). So going back asks for nothing, and may return to the promise of
 *     then.
 * B6. Locks and reads are not undone: another may have been refused because of them.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

/* --- records --- */

static void account_record(struct stet_txn *txn, const struct stet_undo *record, bool final,
			   bool add)
{
	uint64_t bytes = sizeof(*record) + record->key_bytes + 2 * sizeof(void *);

	txn->set_bytes = add ? txn->set_bytes + bytes : txn->set_bytes - bytes;
	if (final)
		txn->final_bytes = add ? txn->final_bytes + bytes : txn->final_bytes - bytes;
	stet_cache_charge(txn->engine->cache, add ? (int64_t)bytes : -(int64_t)bytes);
}

static void free_record(struct stet_txn *txn, struct stet_undo *record, bool final)
{
	account_record(txn, record, final, false);
	if (record->old)
		stet_set_drop_version_(txn, record->old);
	stet_free(record);
}

void stet_undo_free_(struct stet_txn *txn, struct stet_undo_list *records, size_t from, bool final)
{
	for (size_t i = from; i < records->list.n; i++)
		free_record(txn, records->list.v[i], final);
	if (from < records->list.n)
		records->list.n = from;
	if (from == 0)
		stet_vec_release(&records->list);
}

static int push_record(struct stet_txn *txn, struct stet_undo_list *records, bool final,
		       const struct stet_key *key, struct stet_version *old)
{
	struct stet_undo *record;
	int rc = stet_vec_reserve(&records->list, 1);

	if (rc || records->list.n == UINT32_MAX)
		return STET_FAIL(-ENOMEM, "no memory for a savepoint");
	record = stet_alloc(sizeof(*record) + key->bytes);
	if (!record)
		return STET_FAIL(-ENOMEM, "no memory for a savepoint");
	record->old = old;
	record->key_bytes = key->bytes;
	memcpy(record->key, key->b, key->bytes);
	records->list.v[records->list.n++] = record;
	account_record(txn, record, final, true);
	return 0;
}

int stet_undo_push_(struct stet_txn *txn, struct stet_undo_list *records, bool final,
		    const struct stet_key *key, struct stet_version *old)
{
	int rc;

	if (old)
		stet_set_account_(txn, old, true);
	rc = push_record(txn, records, final, key, old);
	if (rc && old)
		stet_set_drop_version_(txn, old);
	return rc;
}

int stet_save_note_(struct stet_txn *txn, const struct stet_key *key, struct stet_version *old,
		    struct stet_version *next, bool *ret_kept)
{
	struct stet_saves *saves = &txn->saves;
	const struct stet_save *top = stet_save_top_(saves);
	bool final = stet_version_is_final_(old ? old : next);
	int rc;

	*ret_kept = false;
	next->noted = old ? old->noted : 0;
	if (!top || (old && old->noted >= top->id)) /* B1 */
		return 0;
	if (final && top->interval < saves->interval) /* B3 */
		return 0;
	rc = push_record(txn, final ? &saves->finals : &saves->others, final, key, old);
	if (rc)
		return rc;
	next->noted = top->id;
	*ret_kept = old != NULL;
	return 0;
}

bool stet_save_needs_(struct stet_txn *txn, const struct stet_version *v)
{
	if (stet_mutant_is(STET_MUTANT_SAVE_IN_PLACE))
		return false;
	return stet_save_in_interval_(&txn->saves) && v->noted < stet_save_top_(&txn->saves)->id;
}

/* --- savepoints --- */

static void charge(struct stet_txn *txn, size_t saves, bool add)
{
	int64_t bytes = (int64_t)(saves * sizeof(struct stet_save));

	stet_cache_charge(txn->engine->cache, add ? bytes : -bytes);
}

/* Whether it is the position of the newest savepoint, which then is this one, too (B1). */
static bool extend(struct stet_saves *saves, const struct stet_save *save)
{
	struct stet_save *top = stet_save_top_(saves);

	if (!top || top->last + 1 != save->id || top->interval != save->interval ||
	    top->finals != save->finals || top->others != save->others ||
	    top->mark[0] != save->mark[0])
		return false;
	if (top->promised < save->promised)
		top->promised = save->promised;
	top->last = save->id;
	return true;
}

int stet_txn_savepoint(struct stet_txn *txn, uint64_t *ret_savepoint)
{
	struct stet_saves *saves = &txn->saves;
	struct stet_save save = { .id = saves->last_id + 1,
				  .last = saves->last_id + 1,
				  .interval = saves->interval,
				  .finals = (uint32_t)saves->finals.list.n,
				  .others = (uint32_t)saves->others.list.n,
				  .promised = txn->promised };
	int rc;

	STET_ASSERT(txn->level != STET_LEVEL_PLAIN && !txn->spilling);
	if (txn->doomed)
		return txn->doomed;
	if (saves->last_id == UINT32_MAX)
		return STET_FAIL(-EOVERFLOW, "a transaction with too many savepoints");
	if (txn->user)
		txn->user_ops->mark(txn->user, save.mark);
	if (!extend(saves, &save)) {
		rc = stet_vec_push(&saves->stack, save);
		if (rc)
			return STET_FAIL(rc, "no memory for a savepoint");
		charge(txn, 1, true);
	}
	saves->last_id++;
	*ret_savepoint = save.id;
	return 0;
}

const uint64_t *stet_txn_save_mark(const struct stet_txn *txn)
{
	size_t n = txn->saves.stack.n;

	return n ? txn->saves.stack.v[n - 1].mark : NULL;
}

static int find(const struct stet_txn *txn, uint64_t id, size_t *ret)
{
	const struct stet_saves *saves = &txn->saves;
	size_t lo = 0, hi = saves->stack.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (saves->stack.v[mid].last < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == saves->stack.n || saves->stack.v[lo].id > id)
		return STET_FAIL(-ENOENT, "there is no savepoint %llu", (unsigned long long)id);
	*ret = lo;
	return 0;
}

/* Takes savepoints off the stack, down to `n`. */
static void cut_stack(struct stet_txn *txn, size_t n)
{
	charge(txn, txn->saves.stack.n - n, false);
	txn->saves.stack.n = n;
	if (n == 0)
		stet_vec_release(&txn->saves.stack);
}

/* --- releasing --- */

/* Of the records from `from` on, the savepoint `into` takes over those of keys that it has none of. */
static void fold(struct stet_txn *txn, struct stet_undo_list *records, size_t from, bool final,
		 const struct stet_save *into)
{
	size_t kept = from;

	for (size_t i = from; i < records->list.n; i++) {
		struct stet_undo *record = records->list.v[i];

		if (record->old && record->old->noted >= into->id)
			free_record(txn, record, final);
		else
			records->list.v[kept++] = record;
	}
	records->list.n = kept;
}

static void release_from(struct stet_txn *txn, size_t at)
{
	struct stet_saves *saves = &txn->saves;
	struct stet_save first = saves->stack.v[at];
	const struct stet_save *into;

	cut_stack(txn, at);
	into = stet_save_top_(saves);
	if (txn->user)
		txn->user_ops->released(txn->user, first.mark, into ? into->mark : NULL);
	if (!into || into->interval < saves->interval)
		stet_undo_free_(txn, &saves->finals, 0, true); /* B3 */
	else
		fold(txn, &saves->finals, first.finals, true, into);
	if (!into)
		stet_undo_free_(txn, &saves->others, 0, false);
	else
		fold(txn, &saves->others, first.others, false, into);
	stet_keep_trim_(txn, into ? into->interval : UINT32_MAX);
}

int stet_txn_savepoint_release(struct stet_txn *txn, uint64_t savepoint)
{
	size_t at;
	int rc = txn->doomed;

	STET_ASSERT(!txn->spilling);
	if (!rc)
		rc = find(txn, savepoint, &at);
	if (rc)
		return rc;
	if (savepoint > txn->saves.stack.v[at].id) /* what it shares its position with stays */
		txn->saves.stack.v[at++].last = (uint32_t)savepoint - 1;
	if (at < txn->saves.stack.n)
		release_from(txn, at);
	return 0;
}

void stet_save_release_all_(struct stet_txn *txn)
{
	if (txn->saves.stack.n > 0)
		release_from(txn, 0);
}

/* --- going back --- */

static int undo_records(struct stet_txn *txn, struct stet_undo_list *records, size_t to, bool final)
{
	while (records->list.n > to) {
		struct stet_undo *record = records->list.v[records->list.n - 1];
		struct stet_key key = { .bytes = record->key_bytes };
		int rc;

		memcpy(key.b, record->key, record->key_bytes);
		rc = stet_set_restore_(txn, &key, record->old);
		if (rc)
			return rc;
		records->list.n--;
		record->old = NULL;
		free_record(txn, record, final);
	}
	return 0;
}

/* To the end of an interval that spills have ended since: all finals are younger. */
static int go_before_spills(struct stet_txn *txn, uint32_t interval)
{
	struct stet_saves *saves = &txn->saves;
	struct stet_point *to = stet_keep_find_(txn, interval - 1);
	struct stet_point *out = stet_keep_find_(txn, interval);
	struct stet_rangeset taken;
	int rc;

	STET_ASSERT(to && out);
	stet_rangeset_init(&taken);
	stet_undo_free_(txn, &saves->finals, 0, true);
	stet_set_drop_finals_(txn);
	rc = stet_swap_in_(txn, out, &taken);
	if (!rc)
		rc = stet_keep_restore_(txn, to, &taken);
	if (!rc) {
		stet_swap_unroot_(txn);
		saves->interval = interval;
	}
	stet_rangeset_release(&taken);
	return rc;
}

static int roll_back(struct stet_txn *txn, size_t at)
{
	struct stet_saves *saves = &txn->saves;
	struct stet_save save = saves->stack.v[at];
	int rc = 0;

	cut_stack(txn, at + 1);
	stet_gaps_forget_(txn);
	if (save.interval < saves->interval)
		rc = go_before_spills(txn, save.interval);
	if (!rc) /* B4 */
		rc = undo_records(txn, &saves->finals, save.finals, true);
	if (!rc)
		rc = undo_records(txn, &saves->others, save.others, false);
	if (!rc && txn->user)
		rc = txn->user_ops->roll_back(txn->user, save.mark);
	if (rc)
		return rc;
	if (txn->promised > save.promised) { /* B5 */
		if (txn->promised - save.promised >= STET_RELIEF_BLOCKS)
			stet_room_comes_back_(txn->engine);
		stet_space_unreserve(txn->engine->space, txn->promised - save.promised);
		txn->promised = save.promised;
		txn->counted = 0;
	}
	return 0;
}

int stet_txn_rollback_to(struct stet_txn *txn, uint64_t savepoint)
{
	size_t at;
	int rc = txn->doomed;

	STET_ASSERT(!txn->spilling);
	if (!rc)
		rc = find(txn, savepoint, &at);
	if (rc)
		return rc;
	txn->saves.stack.v[at].last = (uint32_t)savepoint;
	rc = roll_back(txn, at);
	if (rc)
		stet_txn_doom(txn, rc);
	return rc;
}
