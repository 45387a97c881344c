/* txn.c - the life of a transaction: begin, locks, reservations, doom, end.
 *
 * N1. A transaction that is doomed answers every call with the same error and can only be ended.
 * N2. PLAIN transactions hold no locks: what they change is published before the volume's lock is let go. But who
 *     must wait, queues as the owner that stands in for the operation, and keeps what he is given until the
 *     operation has been made: else those who only read could take turns for ever.
 * N3. What a transaction reserved stays promised until it ends; when it is ordered, the promise passes
 *     to the engine until a checkpoint has made the blocks live.
 * N4. When space runs short and nothing else helps, the oldest transaction that only reads, or has only
 *     read so far and not asked for room either, loses its view: it is doomed with -ESTALE, and what only its view
 *     needed is released by the next checkpoint. One that writes is not ended for space: whoever asks gets ENOSPC (for
 *     memory it may be: Y5 of overlay.c). When a view ends that held blocks back, whoever needs them waits for that
 *     checkpoint, too. (Nothing is released but at the end of one: only it knows what the older slot still needs.)
 * N5. Each operation reserves for its worst case, and the next one may change the same blocks again. So when
 *     space is short, what a transaction needs is counted, and the rest of its promise given back. That looks at
 *     all of the write-set; it is done again only when the promise has grown by a quarter.
 * N6. What SERIALIZABLE has read is remembered up to a quarter of the cache's size, and of all transactions up
 *     to half of it. A transaction that reads more is one that has read everything: any change by others
 *     since its begin is in its way.
 * N7. LOCKING has no view: what it reads is what is current, and so is what its changes are compared with. Nothing
 *     that it locked has been changed by others, and what it does not lock (counts, times) it does not replace.
 * N8. The cleaner may move things for ever without gaining a segment, each time with a checkpoint. So one that
 *     leaves no more free segments than there were counts as made in vain; after STET_IN_VAIN_MAX of them since room
 *     was last given the volume is full: nobody waits for room any more, and nobody cleans, until there is some relief:
 *     blocks are taken out of files, or a checkpoint finds that fewer are live. Who asks for room asks for that
 *     checkpoint when much has changed.
 * N9. Checkpoints free blocks, only the cleaner frees segments, and both take room. So while segments are short they
 *     take turns: after a checkpoint the next one that is only to make room waits until the cleaner has moved
 *     something, or says that there is nothing to move. Else a stream of small changes, each of which may have freed
 *     something, would keep the cleaner away until the last segment is gone.
 * N10. A transaction that stands for one plain operation locks what it changes, not what it reads: else who may only
 *     look, and waits, would keep others from changing. The try that succeeds reads and is ordered under one hold of
 *     the volume's lock, but where its data has to be placed first: then what others did in between to what it has
 *     read only (the way to its file, permissions) came later, as far as anybody can tell.
 * N11. The last segments belong to the log, the checkpoints and the cleaner alone: who empties a full volume waits for
 *     room, too, when they are all that is left.
 * N12. What was deleted is reclaimed in steps that give room as they go. So who finds none waits while that goes on
 *     (the hook `reclaims`), in a queue of its own: the steps ask for room, too, and wait for a checkpoint, which who
 *     waits for them would ask for again and again.
 * N13. What a transaction may read stays where it is as long as it is open, so while it waits for room the cleaner gains
 *     little. So it cleans before: who begins one that may change something, when few of the segments that could be free
 *     are, waits until more are (FEW_FREE, ENOUGH_FREE), or the cleaner gains nothing. The fuller the volume, the
 *     fewer: what is cleaned is full of live blocks then. Where it gained nothing, the next ones do not wait until the free
 *     segments have become fewer by a part of all (STEP_OF_FREE), or a view has gone.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <stdarg.h>
#include <stdio.h>

#define ITEM_BYTES 32u    /* of an item besides its key and value */
#define EXTENT_BYTES 336u /* of the largest extent */
#define LAST_SLOTS 2u
#define FEW_FREE 4u /* N13 */
#define ENOUGH_FREE 2u
#define STEP_OF_FREE 64u
#define RELIEF_CHANGES 256u /* operations that may have freed as much as STET_RELIEF_BLOCKS */

static void txn_init(struct stet_txn *txn, struct stet_engine *engine, enum stet_level level,
		     bool read_only)
{
	txn->engine = engine;
	txn->id = engine->next_txn_id++;
	txn->level = level;
	txn->read_only = read_only;
	txn->begun_ns = stet_engine_now(engine);
	stet_lock_owner_init(&txn->owner, engine->locks, txn->id);
	stet_skiplist_init(&txn->set, stet_engine_random(engine), 0);
	stet_skiplist_init(&txn->reads, stet_engine_random(engine), 0);
	stet_ticket_queue_init(&txn->spill_waiters);
	txn->saves.interval = 1; /* point 0 is the beginning */
	stet_vec_init(&txn->ranges);
	stet_text_init(&txn->conflict);
	stet_list_init(&txn->link);
}

int stet_txn_begin(struct stet_engine *engine, enum stet_level level, bool read_only,
		   struct stet_txn **ret)
{
	struct stet_txn *txn;
	int rc = 0;

	if (!read_only && engine->failed)
		return stet_engine_refuse_(engine);
	if (!read_only && engine->config.read_only)
		return STET_FAIL(-EROFS, "the volume is open read-only");
	txn = stet_calloc(1, sizeof(*txn));
	if (!txn)
		return STET_FAIL(-ENOMEM, "no memory for a transaction");
	txn_init(txn, engine, level, read_only);
	if (level == STET_LEVEL_SNAPSHOT || level == STET_LEVEL_SERIALIZABLE) /* N7 */
		rc = stet_view_open(engine, &txn->view);
	if (rc) {
		stet_free(txn);
		return rc;
	}
	if (level != STET_LEVEL_PLAIN) {
		stet_list_add_tail(&engine->txns, &txn->link);
		engine->txn_count++;
	}
	*ret = txn;
	return 0;
}

int stet_txn_begin_like(struct stet_txn *like, struct stet_txn **ret)
{
	struct stet_engine *engine = like->engine;
	struct stet_txn *txn;
	int rc;

	STET_ASSERT(like->view || like->level == STET_LEVEL_LOCKING);
	if (like->doomed == -ESTALE)
		return STET_FAIL(-ESTALE, "the state that the transaction began with is gone");
	txn = stet_calloc(1, sizeof(*txn));
	if (!txn)
		return STET_FAIL(-ENOMEM, "no memory for a transaction");
	txn_init(txn, engine, STET_LEVEL_SNAPSHOT, true);
	rc = like->level == STET_LEVEL_LOCKING ? stet_view_open(engine, &txn->view)
					       : stet_view_like_(like->view, &txn->view);
	if (rc) {
		stet_free(txn);
		return rc;
	}
	stet_list_add_before(like->link.next, &txn->link); /* as old as that one */
	engine->txn_count++;
	*ret = txn;
	return 0;
}

static void free_read(void *arg, struct stet_skipnode *node)
{
	(void)arg;
	node->value = NULL;
}

static void forget_reads(struct stet_txn *txn)
{
	stet_skiplist_release(&txn->reads, free_read, NULL);
	stet_vec_release(&txn->ranges);
	txn->engine->reads_bytes -= txn->reads_bytes;
	txn->reads_bytes = 0;
}

void stet_txn_end(struct stet_txn *txn)
{
	if (!txn)
		return;
	struct stet_engine *engine = txn->engine;

	stet_lock_owner_part(&txn->owner);
	if (txn->spilling) {
		txn->ended = true; /* the end of the job ends it */
		return;
	}
	stet_save_release_all_(txn);
	if (txn->user)
		txn->user_ops->release(txn->user);
	stet_cache_charge(engine->cache, -(int64_t)txn->user_bytes);
	if (!txn->ordered)
		stet_spill_abort_(txn);
	stet_set_clear_(txn);
	stet_skiplist_release(&txn->set, NULL, NULL);
	forget_reads(txn);
	stet_gaps_forget_(txn);
	stet_lock_cancel(&txn->owner);
	stet_lock_release_all(&txn->owner);
	if (txn->promised >= STET_RELIEF_BLOCKS)
		stet_room_comes_back_(engine);
	stet_space_unreserve(engine->space, txn->promised);
	stet_view_close(txn->view);
	if (txn->level != STET_LEVEL_PLAIN) {
		stet_list_del(&txn->link);
		engine->txn_count--;
	}
	stet_text_release(&txn->conflict);
	stet_free(txn->conflict_key);
	stet_crowd_release_(txn);
	stet_free(txn);
}

void stet_txn_mutant_release(struct stet_txn *txn)
{
	stet_lock_release_all(&txn->owner);
}

static bool holds_back(const struct stet_view *view)
{
	return view->root->base_cut < view->engine->root->cut || view->root->same_after;
}

static bool give_up_view(struct stet_txn *txn)
{
	struct stet_engine *engine = txn->engine;
	struct stet_view *now;

	if (!txn->view || !holds_back(txn->view) || txn->view->scans > 0 || txn->ordering ||
	    txn->spilling)
		return false; /* it holds nothing back, or is in use */
	if (stet_view_open(engine, &now))
		return false;
	if (!txn->doomed)
		stet_text_puts(&txn->conflict,
			       "space ran short, and this transaction read the oldest state");
	stet_txn_doom(txn, -ESTALE);
	stet_view_close(txn->view);
	txn->view = now;
	return true;
}

bool stet_txn_expire_oldest_(struct stet_engine *engine, bool writers,
			     const struct stet_txn *except)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &engine->txns) {
		struct stet_txn *txn = stet_container_of(pos, struct stet_txn, link);

		bool reader = txn->read_only ||
			      (!stet_txn_changed(txn) && !txn->asked && txn->user_bytes == 0);

		if (txn != except && (writers || reader) && give_up_view(txn))
			return true;
	}
	return false;
}

enum stet_level stet_txn_level(const struct stet_txn *txn)
{
	return txn->level;
}

struct stet_engine *stet_txn_engine(const struct stet_txn *txn)
{
	return txn->engine;
}

uint64_t stet_txn_id(const struct stet_txn *txn)
{
	return txn->id;
}

uint64_t stet_txn_view_serial(const struct stet_txn *txn)
{
	return txn->view ? txn->view->serial : stet_read_serial_(txn->engine);
}

bool stet_txn_is_read_only(const struct stet_txn *txn)
{
	return txn->read_only;
}

bool stet_txn_changed(const struct stet_txn *txn)
{
	return stet_skiplist_count(&txn->set) > 0 || txn->have_run;
}

void stet_txn_doom(struct stet_txn *txn, int why)
{
	if (!txn->doomed)
		txn->doomed = why ? why : -EBUSY;
}

bool stet_txn_doomed(const struct stet_txn *txn)
{
	return txn->doomed != 0;
}

static void print_subject(struct stet_text *t, const struct stet_key *key)
{
	uint64_t ino = stet_key_object(key->b);
	const size_t head = sizeof(uint64_t) + 1; /* what a name follows */

	switch (stet_key_get_kind(key->b)) {
	case STET_KIND_DIRENT:
		stet_text_puts(t, "the name ");
		stet_text_name(t, key->b + head, key->bytes - head);
		stet_text_printf(t, " in directory %llu", (unsigned long long)ino);
		return;
	case STET_KIND_XATTR:
		stet_text_name(t, key->b + head, key->bytes - head);
		stet_text_printf(t, " of inode %llu", (unsigned long long)ino);
		return;
	case STET_KIND_RECORD:
		stet_text_puts(t, "the record ");
		stet_text_name(t, key->b + head, key->bytes - head);
		stet_text_printf(t, " of table %llu", (unsigned long long)ino);
		return;
	default:
		stet_text_printf(t, "inode %llu", (unsigned long long)ino);
	}
}

int stet_txn_conflict(struct stet_txn *txn, const struct stet_key *subject, const char *why)
{
	struct stet_text t;
	int rc;

	stet_text_init(&t);
	print_subject(&t, subject);
	stet_text_printf(&t, ": %s", why);
	if (!txn->doomed) {
		stet_text_puts(&txn->conflict, stet_text_cstr(&t));
		txn->conflict_key = stet_calloc(1, sizeof(*txn->conflict_key));
		if (txn->conflict_key)
			stet_key_copy(txn->conflict_key, subject);
		txn->conflict_why = why;
		txn->engine->stats.conflicts++;
	}
	stet_txn_doom(txn, -EBUSY);
	rc = STET_FAIL(-EBUSY, "conflict: %s", stet_text_cstr(&t));
	stet_text_release(&t);
	return rc;
}

const char *stet_txn_conflict_text(const struct stet_txn *txn)
{
	return stet_text_cstr(&txn->conflict);
}

const struct stet_key *stet_txn_conflict_key(const struct stet_txn *txn)
{
	return txn->conflict_key;
}

const char *stet_txn_conflict_why(const struct stet_txn *txn)
{
	return txn->conflict_why;
}

void stet_txn_moves(struct stet_txn *txn)
{
	txn->moves = true;
}

void stet_txn_cuts(struct stet_txn *txn, uint64_t blocks)
{
	if (!txn->moves)
		txn->cut_blocks += blocks;
}

uint64_t stet_txn_staged_bytes(const struct stet_txn *txn)
{
	return txn->set_bytes + txn->user_bytes +
	       (txn->set_blocks + txn->run_blocks) * STET_BLOCK_SIZE +
	       txn->run_nodes * STET_NODE_SIZE;
}

uint64_t stet_txn_held_bytes(const struct stet_txn *txn)
{
	return txn->owner.held_bytes + txn->saves.stack.n * sizeof(struct stet_save);
}

void stet_txn_info(const struct stet_txn *txn, struct stet_txn_info *ret)
{
	const struct stet_lock_owner *blocker = stet_lock_waiting_for(&txn->owner);

	*ret = (struct stet_txn_info){
		.id = txn->id,
		.waiting_for = blocker && !blocker->plain ? blocker->age : 0,
		.view_serial = stet_txn_view_serial(txn),
		.locks_held = txn->owner.held_count,
		.staged_bytes = stet_txn_staged_bytes(txn),
		.pinned_bytes = txn->view ? txn->view->pinned_blocks * STET_BLOCK_SIZE : 0,
		.begun_ns = txn->begun_ns,
		.level = txn->level,
		.read_only = txn->read_only,
		.doomed = txn->doomed != 0,
	};
}

/* Mutants. EXISTS is locked by writers too. */
static bool is_left_out(const struct stet_lock_name *name, enum stet_lock_mode mode)
{
	bool range = name->keys == STET_LOCK_KEY_RANGE || name->from > 0 || name->to < UINT64_MAX;

	if (stet_mutant_is(STET_MUTANT_NO_LOCK) ||
	    (range && stet_mutant_is(STET_MUTANT_NO_RANGE_LOCK)))
		return true;
	if (mode != STET_LOCK_S && mode != STET_LOCK_IS)
		return false;
	return (stet_mutant_is(STET_MUTANT_NO_READ_LOCK) && name->class != STET_LOCK_EXISTS) ||
	       (stet_mutant_is(STET_MUTANT_NO_NAMES_LOCK) && name->class == STET_LOCK_NAMES);
}

void stet_txn_deadlocked(struct stet_txn *txn)
{
	if (!txn->doomed) {
		txn->engine->stats.deadlocks++;
		stet_text_puts(&txn->conflict, "a deadlock: it waited for one that waited for it, "
					       "and was the youngest of those in the circle");
	}
	stet_txn_doom(txn, -EDEADLK);
}

void stet_txn_stand_in(struct stet_txn *txn, struct stet_lock_owner *owner)
{
	STET_ASSERT(txn->level == STET_LEVEL_PLAIN);
	txn->stand_in = owner;
}

void stet_txn_set_plain(struct stet_txn *txn, uint64_t age)
{
	STET_ASSERT(txn->owner.held_count == 0 && !txn->owner.waiting);
	txn->owner.age = age;
	txn->owner.plain = true;
}

/* N2 */
static int lock_plain(struct stet_txn *txn, const struct stet_lock_name *name,
		      enum stet_lock_mode mode, bool wait, struct stet_ticket *ticket,
		      struct stet_lock_owner **ret_blocker)
{
	struct stet_lock_owner *owner = txn->stand_in;
	int rc = stet_lock_probe(txn->engine->locks, owner, name, mode, wait && !owner, ticket,
				 ret_blocker);

	if (rc == -EBUSY && wait)
		rc = stet_lock_acquire(owner, name, mode, true, ticket, ret_blocker);
	return rc;
}

/* N10. Of EXISTS, changers take S. */
static bool is_read_of_plain(const struct stet_txn *txn, const struct stet_lock_name *name,
			     enum stet_lock_mode mode)
{
	if (!txn->owner.plain)
		return false;
	if (name->class == STET_LOCK_EXISTS)
		return mode == STET_LOCK_IS || mode == STET_LOCK_IX;
	return mode == STET_LOCK_S || mode == STET_LOCK_IS;
}

static int locked_by(const struct stet_lock_owner *blocker)
{
	if (blocker->plain)
		return STET_FAIL(-EBUSY, "held by a change outside any transaction");
	return STET_FAIL(-EBUSY, "held by transaction %llu", (unsigned long long)blocker->age);
}

int stet_txn_lock(struct stet_txn *txn, const struct stet_lock_name *name, enum stet_lock_mode mode,
		  bool wait, struct stet_ticket *ticket)
{
	struct stet_lock_owner *blocker = NULL;
	int rc;

	if (txn->doomed)
		return txn->doomed;
	if (is_left_out(name, mode) || is_read_of_plain(txn, name, mode))
		return 0;
	if (txn->level == STET_LEVEL_PLAIN)
		rc = lock_plain(txn, name, mode, wait, ticket, &blocker);
	else
		rc = stet_lock_acquire(&txn->owner, name, mode, wait, ticket, &blocker);
	if (rc == STET_WAIT)
		txn->engine->stats.waits++;
	if (rc == -EDEADLK && txn->level != STET_LEVEL_PLAIN)
		stet_txn_deadlocked(txn);
	return rc == -EBUSY && blocker ? locked_by(blocker) : rc;
}

void stet_txn_pair_owner(struct stet_txn *txn, struct stet_lock_owner *owner)
{
	stet_lock_owner_pair(&txn->owner, owner);
}

bool stet_txn_waits_for_lock(const struct stet_txn *txn, const struct stet_ticket *ticket)
{
	return stet_lock_waits(&txn->owner, ticket);
}

void stet_txn_cancel_wait(struct stet_txn *txn, const struct stet_ticket *ticket)
{
	stet_lock_cancel_ticket(&txn->owner, ticket);
}

static bool first_updater_wins(const struct stet_txn *txn)
{
	return (txn->level == STET_LEVEL_SNAPSHOT || txn->level == STET_LEVEL_SERIALIZABLE) &&
	       !stet_mutant_is(STET_MUTANT_NO_FIRST_UPDATER);
}

int stet_txn_unchanged(struct stet_txn *txn, const struct stet_key *key, uint32_t mask)
{
	struct stet_engine *engine = txn->engine;
	struct stet_val then, now;
	int a, b;

	if (txn->doomed)
		return txn->doomed;
	if (!first_updater_wins(txn) || txn->view->serial == engine->serial)
		return 0;
	a = stet_read_at_(engine, txn->view->root, txn->view->serial, key, &then);
	if (a && a != -ENOENT)
		return a;
	b = stet_read_at_(engine, engine->root, stet_read_serial_(engine), key, &now);
	if (b && b != -ENOENT)
		return b;
	if (engine->hooks.same(engine->hooks.arg, key, mask, a ? NULL : &then, b ? NULL : &now))
		return 0;
	return stet_txn_conflict(txn, key, "another has changed it since this transaction began");
}

/* Items end in leaves that may be half empty, each written meta_copies times. What does not fill a block
 * is carried over to the next reservation: many small ones must not each take a whole block. */
static uint64_t promise_blocks(const struct stet_engine *engine, uint64_t data_blocks,
			       uint64_t meta_bytes, uint64_t *ret_carry)
{
	uint64_t bytes = meta_bytes * 2 + engine->promise_carry;

	*ret_carry = bytes % STET_BLOCK_SIZE;
	return data_blocks * engine->sb.data_copies +
	       bytes / STET_BLOCK_SIZE * engine->sb.meta_copies;
}

static bool short_of_memory(const struct stet_engine *engine)
{
	return engine->delta_bytes > 2 * engine->delta_limit_bytes ||
	       engine->dirty_bytes > 2 * engine->dirty_limit_bytes;
}

bool stet_short_of_slots_(const struct stet_engine *engine, uint32_t spare, uint64_t *ret_missing)
{
	struct stet_space_usage u;
	uint64_t want;

	stet_space_usage(engine->space, &u);
	want = u.reserve_slots + spare + stet_promised_unplaced_(&u) / engine->sb.seg_blocks + 1;
	if (ret_missing)
		*ret_missing = u.slots_free < want ? want - u.slots_free : 0;
	return u.slots_free < want;
}

static void add_need(const struct stet_version *v, size_t key_bytes, uint64_t *blocks,
		     uint64_t *bytes)
{
	*bytes += key_bytes + v->bytes + ITEM_BYTES;
	if (v->kind == STET_V_BUF) {
		*blocks += v->count;
		*bytes += 2 * EXTENT_BYTES; /* itself, and a rest of what it was cut from */
	} else if (!stet_version_is_final_(v)) {
		*bytes += STET_INLINE_MAX; /* of the value that it is merged with */
	}
}

/* What savepoints may come back to takes the place of what is there now, key by key; but content that is
 * still in memory will have a place of its own when it is spilled. */
static uint64_t saved_blocks(const struct stet_txn *txn)
{
	const struct stet_undo_list *finals = &txn->saves.finals;
	uint64_t blocks = txn->saves.kept_blocks;

	for (size_t i = 0; i < finals->list.n; i++) {
		const struct stet_version *old = finals->list.v[i]->old;

		if (old && old->kind == STET_V_BUF)
			blocks += old->count;
	}
	return blocks;
}

/* What the write-set takes at most, with what ordering makes of it; or that of a savepoint. */
static uint64_t needed_blocks(struct stet_txn *txn)
{
	const struct stet_engine *engine = txn->engine;
	const struct stet_superblock *sb = &engine->sb;
	uint64_t nodes = txn->run_nodes * STET_NODE_BLOCKS * sb->meta_copies;
	uint64_t blocks = 0, bytes = 0, need;

	if (engine->hooks.staged)
		engine->hooks.staged(engine->hooks.arg, txn, &blocks, &bytes);
	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node;
	     node = stet_skiplist_next(node))
		add_need(node->value, node->key_len, &blocks, &bytes);
	blocks += saved_blocks(txn);
	nodes += txn->saves.kept_nodes * sb->meta_copies;
	need = (blocks + txn->run_blocks) * sb->data_copies + nodes + nodes / 2 +
	       bytes * 2 / STET_BLOCK_SIZE * sb->meta_copies + 16;
	return need + need / 4;
}

bool stet_txn_shrink_promise_(struct stet_txn *txn)
{
	uint64_t need = needed_blocks(txn);

	txn->counted = need;
	if (need >= txn->promised)
		return false;
	stet_space_unreserve(txn->engine->space, txn->promised - need);
	txn->promised = need;
	return true;
}

/* N5. True: something was given back. */
bool stet_txn_give_back_(struct stet_txn *txn)
{
	if (txn->level == STET_LEVEL_PLAIN || txn->promised <= txn->counted + txn->counted / 4)
		return false;
	return stet_txn_shrink_promise_(txn);
}

/* N8 */
static bool in_vain(const struct stet_engine *engine)
{
	return engine->in_vain >= STET_IN_VAIN_MAX;
}

void stet_room_comes_back_(struct stet_engine *engine)
{
	engine->release_wanted = true;
	engine->in_vain = 0;
	engine->clean_hopeless = false;
	engine->begun_with = UINT32_MAX;
}

/* N9 */
bool stet_clean_first_(const struct stet_engine *engine)
{
	return engine->clean_turn && !engine->clean_hopeless && !in_vain(engine);
}

/* Whether `txn` finds too few segments for what it asks for. */
static bool lacks_slots(const struct stet_txn *txn, bool privileged)
{
	const struct stet_engine *engine = txn->engine;
	struct stet_space_usage u;

	if (!privileged)
		return stet_short_of_slots_(engine, 0, NULL);
	if (txn->moves)
		return false; /* G5 of clean.c */
	stet_space_usage(engine->space, &u);
	return u.slots_free < LAST_SLOTS; /* N11 */
}

/* C7 of checkpoint.c. *ret_tight: it may help to wait. 0, -ENOSPC; and as stet_crowd_count_. */
static int look_at_crowd(struct stet_txn *txn, bool *ret_tight)
{
	struct stet_engine *engine = txn->engine;
	uint64_t slots;
	int rc;

	*ret_tight = false;
	if (!stet_crowded_(engine, stet_crowd_of_(txn), 3))
		return 0;
	rc = stet_crowd_count_of_(txn);
	if (rc || !stet_crowded_(engine, stet_crowd_of_(txn), 3))
		return rc;
	slots = stet_crowd_wants_(engine, stet_crowd_of_(txn));
	*ret_tight = slots > 0 && !engine->clean_hopeless && !in_vain(engine);
	if (slots > engine->wanted_slots)
		engine->wanted_slots = slots;
	return -ENOSPC;
}

/* *ret_tight: it may help to wait. */
static int take_room(struct stet_txn *txn, uint64_t blocks, bool privileged, bool *ret_tight)
{
	struct stet_engine *engine = txn->engine;
	int rc;

	if (stet_crowded_(engine, 0, 2)) {
		rc = stet_crowd_count_(engine);
		if (rc)
			return rc;
	}
	*ret_tight = short_of_memory(engine) || stet_crowded_(engine, 0, 3) ||
		     (lacks_slots(txn, privileged) && !engine->clean_hopeless && !in_vain(engine));
	if (*ret_tight)
		return -ENOSPC;
	rc = privileged ? 0 : look_at_crowd(txn, ret_tight);
	if (rc)
		return rc;
	rc = stet_space_reserve(engine->space, blocks,
				privileged ? STET_SPACE_PRIVILEGED : STET_SPACE_NORMAL);
	if (!rc && lacks_slots(txn, privileged)) {
		stet_space_unreserve(engine->space, blocks);
		*ret_tight = !engine->clean_hopeless && !in_vain(engine);
		return -ENOSPC;
	}
	if (!rc && !privileged) {
		engine->in_vain = 0;
		engine->most_free = 0;
		engine->vain_live = UINT64_MAX;
	}
	return rc;
}

/* N8. Whether a checkpoint may give space back. */
static bool checkpoint_may_help(const struct stet_engine *engine)
{
	if (in_vain(engine))
		return engine->serial - engine->root->cut >= RELIEF_CHANGES;
	return engine->serial > engine->root->cut || engine->release_wanted ||
	       stet_release_due_(engine);
}

static int no_room(const struct stet_txn *txn, uint64_t blocks, bool privileged)
{
	const struct stet_engine *engine = txn->engine;
	struct stet_space_usage u;

	stet_space_usage(engine->space, &u);
	if (!privileged && stet_crowded_(engine, stet_crowd_of_(txn), 3))
		return STET_FAIL(-ENOSPC,
				 "no room to write what is changed in %llu places of the tree: %u "
				 "segments are free",
				 (unsigned long long)stet_crowd_of_(txn), u.slots_free);
	if (lacks_slots(txn, privileged))
		return STET_FAIL(-ENOSPC, "no room: %u segments are free", u.slots_free);
	return STET_FAIL(-ENOSPC, "no room for %llu more blocks", (unsigned long long)blocks);
}

int stet_txn_reserve(struct stet_txn *txn, uint64_t data_blocks, uint64_t meta_bytes,
		     bool privileged, struct stet_ticket *ticket)
{
	struct stet_engine *engine = txn->engine;
	uint64_t carry;
	uint64_t blocks = promise_blocks(engine, data_blocks, meta_bytes, &carry);
	bool tight;
	int rc;

	if (txn->doomed)
		return txn->doomed;
	if (engine->failed)
		return stet_engine_refuse_(engine);
	txn->asked = true;
	rc = take_room(txn, blocks, privileged, &tight);
	if (rc == -ENOSPC && stet_txn_give_back_(txn))
		rc = take_room(txn, blocks, privileged, &tight);
	if (!rc) {
		txn->promised += blocks;
		engine->promise_carry = carry;
		return 0;
	}
	if (rc != -ENOSPC)
		return rc;
	/* What is not checkpointed yet may give space back; so may the cleaner. */
	if (tight || checkpoint_may_help(engine)) {
		engine->ckpt_wanted = engine->ckpt_wanted || engine->release_wanted ||
				      engine->serial > engine->root->cut;
		engine->stats.waits++;
		if (ticket) {
			stet_ticket_enqueue(&engine->space_waiters, ticket);
			return STET_WAIT;
		}
	}
	/* N12 */
	if (ticket && !privileged && engine->hooks.reclaims &&
	    engine->hooks.reclaims(engine->hooks.arg)) {
		engine->stats.waits++;
		stet_ticket_enqueue(&engine->reclaim_waiters, ticket);
		return STET_WAIT;
	}
	/* N4. What that gives back comes with the next checkpoint. */
	if (ticket && stet_txn_expire_oldest_(engine, false, txn)) {
		engine->ckpt_wanted = true;
		engine->in_vain = 0;
		engine->stats.waits++;
		stet_ticket_enqueue(&engine->space_waiters, ticket);
		return STET_WAIT;
	}
	return no_room(txn, blocks, privileged);
}

/* N13. *ret_few: so few free segments are too few; *ret_enough: so many will do. */
static void wanted_to_begin(const struct stet_engine *engine, const struct stet_space_usage *u,
			    uint64_t *ret_few, uint64_t *ret_enough)
{
	uint64_t live = u->reserve_slots + u->live_blocks / engine->sb.seg_blocks;
	uint64_t empty = live < u->slots_total ? u->slots_total - live : 0;

	empty = empty * empty / u->slots_total;
	*ret_few = u->reserve_slots + empty / FEW_FREE;
	*ret_enough = u->reserve_slots + empty / ENOUGH_FREE;
}

/* N13 */
int stet_txn_wait_to_begin(struct stet_engine *engine, struct stet_ticket *ticket)
{
	struct stet_space_usage u;
	uint64_t few, enough;

	if (engine->failed || engine->config.read_only || !engine->has_cleaner)
		return 0;
	stet_space_usage(engine->space, &u);
	wanted_to_begin(engine, &u, &few, &enough);
	if (u.slots_free >= few) {
		engine->begun_with = UINT32_MAX;
		return 0;
	}
	if (u.slots_free + u.slots_total / STEP_OF_FREE >= engine->begun_with)
		return 0;
	if (engine->clean_hopeless || in_vain(engine)) {
		engine->begun_with = u.slots_free;
		return 0;
	}
	if (engine->wanted_slots < enough)
		engine->wanted_slots = enough;
	engine->stats.waits++;
	stet_ticket_enqueue(&engine->space_waiters, ticket);
	return STET_WAIT;
}

/* N6. The share of one transaction, and that of all. */
static bool too_many_reads(const struct stet_txn *txn)
{
	const struct stet_engine *engine = txn->engine;

	return txn->reads_bytes > engine->config.cache_bytes / 4 ||
	       engine->reads_bytes > engine->config.cache_bytes / 2;
}

static void count_read(struct stet_txn *txn, size_t bytes)
{
	txn->reads_bytes += bytes;
	txn->engine->reads_bytes += bytes;
	if (!too_many_reads(txn))
		return;
	forget_reads(txn);
	txn->read_too_much = true;
}

static bool notes_reads(const struct stet_txn *txn)
{
	return txn->level == STET_LEVEL_SERIALIZABLE && !txn->ordering && !txn->read_only &&
	       !txn->read_too_much;
}

int stet_txn_read_key(struct stet_txn *txn, const struct stet_key *key, uint32_t mask)
{
	struct stet_skipnode *node;
	int rc;

	if (!notes_reads(txn) || stet_mutant_is(STET_MUTANT_NO_KEY))
		return 0;
	rc = stet_skiplist_insert(&txn->reads, key->b, key->bytes, &node);
	if (rc && rc != -EEXIST)
		return rc;
	node->value = (void *)((uintptr_t)node->value | mask | UINT64_C(1) << 32);
	if (!rc)
		count_read(txn, sizeof(*node) + 2 * sizeof(void *) + key->bytes);
	return 0;
}

int stet_txn_read_range(struct stet_txn *txn, const struct stet_key *from,
			const struct stet_key *to)
{
	struct stet_read_range r = { *from, *to };
	int rc;

	if (!notes_reads(txn) || stet_mutant_is(STET_MUTANT_NO_RANGE))
		return 0;
	if (txn->ranges.n > 0) {
		struct stet_read_range *last = &txn->ranges.v[txn->ranges.n - 1];

		if (stet_key_cmp(last->from.b, last->from.bytes, from->b, from->bytes) == 0 &&
		    stet_key_cmp(last->to.b, last->to.bytes, to->b, to->bytes) == 0)
			return 0;
		if (stet_key_cmp(last->to.b, last->to.bytes, from->b, from->bytes) == 0) {
			stet_key_copy(&last->to, to);
			return 0;
		}
		if (stet_key_cmp(last->from.b, last->from.bytes, to->b, to->bytes) == 0) {
			stet_key_copy(&last->from, from);
			return 0;
		}
	}
	rc = stet_vec_push(&txn->ranges, r);
	if (!rc)
		count_read(txn, sizeof(r));
	return rc;
}

void stet_txn_set_user(struct stet_txn *txn, void *user, const struct stet_txn_user_ops *ops)
{
	txn->user = user;
	txn->user_ops = ops;
}

void *stet_txn_user(const struct stet_txn *txn)
{
	return txn->user;
}

void stet_txn_hold(struct stet_txn *txn, int64_t bytes)
{
	STET_DEBUG_ASSERT(bytes >= 0 || txn->user_bytes >= (uint64_t)-bytes);
	txn->user_bytes += (uint64_t)bytes;
	stet_cache_charge(txn->engine->cache, bytes);
}

bool stet_txn_holds_much(const struct stet_txn *txn)
{
	return txn->user_bytes > txn->engine->config.cache_bytes / 8;
}

void stet_txn_lock_pages(struct stet_txn *txn)
{
	txn->lock_pages = true;
}

bool stet_txn_locks_pages(const struct stet_txn *txn)
{
	return txn->lock_pages;
}

int stet_txn_get_begun(struct stet_txn *txn, const struct stet_key *key, struct stet_val *ret)
{
	if (!txn->view) /* N7 */
		return stet_read_at_(txn->engine, txn->engine->root, stet_read_serial_(txn->engine),
				     key, ret);
	return stet_read_at_(txn->engine, txn->view->root, txn->view->serial, key, ret);
}

int stet_txn_changes(struct stet_txn *txn, stet_txn_change_fn *fn, void *arg)
{
	struct stet_merge m;
	struct stet_key key;
	struct stet_val now, then;
	bool gone;
	int rc;

	if (txn->level == STET_LEVEL_PLAIN)
		return STET_FAIL(-EINVAL, "a plain operation has no changes to list");
	rc = stet_merge_open_own_(&m, txn);
	if (rc)
		return rc;
	while ((rc = stet_merge_next_(&m, &key, &now, &gone)) == 1) {
		const struct stet_version *v = stet_set_find_(txn, key.b, key.bytes);
		int old;

		if (v && v->kind == STET_V_SAME)
			continue;
		old = stet_txn_get_begun(txn, &key, &then);
		if (old && old != -ENOENT) {
			rc = old;
			break;
		}
		rc = stet_txn_get(txn, &key, &now);
		if (rc && rc != -ENOENT)
			break;
		rc = fn(arg, &key, old ? NULL : &then, rc ? NULL : &now);
		if (rc)
			break;
	}
	stet_merge_close_(&m);
	return rc;
}
