/* gap.c - remembered ranges of keys in which nothing lives.
 *
 * What is deleted leaves tombstones, in the delta until a checkpoint and in a write-set until the end; whoever takes
 * the first record of a queue again and again would pass all of them each time. So a scan that has passed many notes
 * the range, and the next one begins behind it.
 *
 * G1. A gap of the engine says: at its serial and ever since, no key in it exists in the committed state. It may be
 *     used at every serial from there on. A scan that saw its own point alone takes care of what came later:
 *     of each key that it passed it looks at the newest version, and does not note a gap that holds a living one.
 *     A scan at a point before the newest checkpoint notes none: what came later may be in the tree alone.
 * G2. A gap of a transaction says: it sees no key in it, its own changes included. At LOCKING it sees what others
 *     commit, so that breaks its gaps, too; and what the log splits off an extent is there at every point that saw
 *     the whole, so that breaks the gaps of all.
 * G3. Publishing a key that lives, or staging one, breaks the gap in which it lies in two. Going back to a savepoint,
 *     giving up changes and spilling (which splits extents, too) end all gaps of the transaction.
 * G4. They are only a help: there are few, the oldest is forgotten, and without memory there are none.
 */
#include "base/mem.h"
#include "txn/txn_internal.h"

#define GAPS 8u

struct stet_gap {
	uint64_t serial;
	struct stet_key from, to; /* [from, to) */
};

static int cmp(const struct stet_key *a, const struct stet_key *b)
{
	return stet_key_cmp(a->b, a->bytes, b->b, b->bytes);
}

void stet_gaps_clear_(struct stet_gaps *gaps)
{
	stet_free(gaps->v);
	*gaps = (struct stet_gaps){ 0 };
}

bool stet_gap_behind_(const struct stet_gaps *gaps, const struct stet_key *at, uint64_t serial,
		      struct stet_key *ret_to)
{
	for (unsigned i = 0; i < gaps->n; i++) {
		const struct stet_gap *g = &gaps->v[i];

		if (g->serial > serial || cmp(&g->from, at) > 0 || cmp(&g->to, at) <= 0)
			continue;
		stet_key_copy(ret_to, &g->to);
		return true;
	}
	return false;
}

bool stet_gap_before_(const struct stet_gaps *gaps, const struct stet_key *before, uint64_t serial,
		      struct stet_key *ret_from)
{
	for (unsigned i = 0; i < gaps->n; i++) {
		const struct stet_gap *g = &gaps->v[i];

		if (g->serial > serial || cmp(&g->from, before) >= 0 || cmp(&g->to, before) < 0)
			continue;
		stet_key_copy(ret_from, &g->from);
		return true;
	}
	return false;
}

/* A place for one more: the one that was noted longest ago. */
static struct stet_gap *place(struct stet_gaps *gaps)
{
	struct stet_gap *g;

	if (!gaps->v)
		gaps->v = stet_alloc(GAPS * sizeof(*gaps->v));
	if (!gaps->v)
		return NULL;
	if (gaps->n < GAPS)
		return &gaps->v[gaps->n++];
	g = &gaps->v[gaps->next];
	gaps->next = (gaps->next + 1) % GAPS;
	return g;
}

void stet_gap_note_(struct stet_gaps *gaps, const struct stet_key *from, const struct stet_key *to,
		    uint64_t serial)
{
	struct stet_gap *g = NULL;

	if (cmp(from, to) >= 0)
		return;
	for (unsigned i = 0; i < gaps->n && !g; i++)
		if (cmp(&gaps->v[i].from, to) <= 0 && cmp(&gaps->v[i].to, from) >= 0)
			g = &gaps->v[i];
	if (!g) {
		g = place(gaps);
		if (!g)
			return; /* G4 */
		g->serial = serial;
		stet_key_copy(&g->from, from);
		stet_key_copy(&g->to, to);
		return;
	}
	if (g->serial < serial)
		g->serial = serial;
	if (cmp(from, &g->from) < 0)
		stet_key_copy(&g->from, from);
	if (cmp(to, &g->to) > 0)
		stet_key_copy(&g->to, to);
}

/* G3 */
void stet_gap_break_(struct stet_gaps *gaps, const struct stet_key *key)
{
	struct stet_key behind;
	unsigned n = gaps->n;

	for (unsigned i = 0; i < n; i++) {
		struct stet_gap *g = &gaps->v[i], *rest;

		if (cmp(&g->from, key) > 0 || cmp(&g->to, key) <= 0)
			continue;
		stet_key_copy(&behind, key);
		if (stet_key_step(&behind) && cmp(&behind, &g->to) < 0 && gaps->n < GAPS) {
			rest = &gaps->v[gaps->n++];
			rest->serial = g->serial;
			stet_key_copy(&rest->from, &behind);
			stet_key_copy(&rest->to, &g->to);
		}
		stet_key_copy(&g->to, key); /* empty, if it began there: it is found by nobody */
	}
}

/* --- scans --- */
#define WORTH_KEYS 2u

bool stet_gaps_own_(const struct stet_txn *txn)
{
	return txn && !txn->ordering && txn->level != STET_LEVEL_PLAIN;
}

void stet_passed_key_(struct stet_passed *p, const struct stet_dnode *dnode, uint64_t serial)
{
	const struct stet_version *newest = dnode ? dnode->newest : NULL;

	if (!newest || newest->serial <= serial)
		return;
	if (newest->kind != STET_V_DEL)
		p->unsure = true;
	else if (newest->serial > p->serial)
		p->serial = newest->serial;
}

void stet_passed_gap_(struct stet_passed *p, bool own)
{
	p->keys += WORTH_KEYS;
	p->unsure = p->unsure || own;
}

/* G1: whether the delta shows all that came after the serial. */
static bool sees_all_later(const struct stet_engine *engine, uint64_t serial)
{
	if (serial < engine->root->cut)
		return false;
	return stet_list_empty(&engine->runs) ||
	       stet_container_of(engine->runs.prev, struct stet_runref, link)->run.serial <= serial;
}

void stet_passed_note_(const struct stet_passed *p, struct stet_engine *engine,
		       struct stet_txn *txn, uint64_t serial, const struct stet_key *from,
		       const struct stet_key *to)
{
	if (p->keys < WORTH_KEYS || from->bytes == 0 || to->bytes == 0 || engine->failed)
		return;
	if (stet_gaps_own_(txn)) {
		bool had = txn->gaps.n > 0;

		stet_gap_note_(&txn->gaps, from, to, 0);
		if (txn->level == STET_LEVEL_LOCKING && !had && txn->gaps.n > 0)
			engine->locking_gaps++;
	}
	if (!p->unsure && sees_all_later(engine, serial))
		stet_gap_note_(&engine->gaps, from, to, p->serial > serial ? p->serial : serial);
}

/* G2 */
void stet_gaps_lives_(struct stet_engine *engine, const struct stet_key *key, uint64_t serial)
{
	bool is_new = serial > engine->serial;
	struct stet_list *pos;

	stet_gap_break_(&engine->gaps, key);
	if (is_new && engine->locking_gaps == 0)
		return;
	STET_LIST_FOREACH(pos, &engine->txns) {
		struct stet_txn *txn = stet_container_of(pos, struct stet_txn, link);

		if (!is_new || txn->level == STET_LEVEL_LOCKING)
			stet_gap_break_(&txn->gaps, key);
	}
}

void stet_gaps_forget_(struct stet_txn *txn)
{
	if (txn->level == STET_LEVEL_LOCKING && txn->gaps.n > 0)
		txn->engine->locking_gaps--;
	stet_gaps_clear_(&txn->gaps);
}

void stet_gaps_forget_all_(struct stet_engine *engine)
{
	struct stet_list *pos;

	stet_gaps_clear_(&engine->gaps);
	STET_LIST_FOREACH(pos, &engine->txns) {
		struct stet_txn *txn = stet_container_of(pos, struct stet_txn, link);

		if (txn->level == STET_LEVEL_LOCKING)
			stet_gaps_forget_(txn);
	}
}
