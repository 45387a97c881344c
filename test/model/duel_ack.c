/* duel_ack.c - commits that are acknowledged later, several by one flush, while others go on.
 *
 * B1. What a commit must have made durable when it is acknowledged is worked out here, not taken from the
 *     system: its own changes, and the oldest state from which on the transaction would have seen what it
 *     has seen. So what it has read is there after a crash, be it a name that somebody had removed.
 * B2. The acknowledgement is noted at the moment when the system gives it.
 */
#include "duel.h"

#include "base/assert.h"
#include "model_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAST_MAX 300u /* states that are kept; older ones are taken to be needed no more */
#define PENDING_MAX 8u

struct duel_ack {
	struct duel *d;
	struct stet_ticket ticket;
	uint64_t need;
};

/* --- states --- */

void duel_note_state_(struct duel *d)
{
	struct duel_past p = { .state = d->now };

	if (!d->w->engine) /* it could not be opened again: the device fails */
		return;
	if (!d->late_acks || (d->past.n > 0 && d->past.v[d->past.n - 1].state == d->now))
		return;
	p.serial = stet_engine_serial(d->w->engine);
	if (d->past.n == PAST_MAX) {
		model_put(d->past.v[0].state);
		memmove(d->past.v, d->past.v + 1, (PAST_MAX - 1) * sizeof(d->past.v[0]));
		d->past.n--;
	}
	model_get(d->now);
	STET_ASSERT(stet_vec_push(&d->past, p) == 0);
}

void duel_forget_states_(struct duel *d)
{
	for (size_t k = 0; k < d->past.n; k++)
		model_put(d->past.v[k].state);
	stet_vec_clear(&d->past);
}

/* Whether the transaction would see in this state what it has seen. */
static bool sees_the_same(struct duel *d, const struct duel_txn *t, struct model *state)
{
	struct model *next = model_get(state);
	bool same = true;

	for (size_t k = 0; k < t->done.n && same; k++) {
		const struct duel_done *done = &t->done.v[k];

		if (duel_on_gone_(next, &done->op))
			continue;
		model_apply(&next, &done->op, done->op.now_ns, ++d->stamp, &d->model);
		if (d->model.rc < 0 && done->rc < 0)
			continue; /* in vain then and now: what it names by its number may be gone */
		same = d->model.rc == done->rc;
		if (same && done->rc == 0)
			same = d->model.ino == done->ino &&
			       duel_answer_(&done->op, &d->model) == done->answer;
	}
	model_put(next);
	return same;
}

uint64_t duel_needs_(struct duel *d, const struct duel_txn *t)
{
	const struct model *from = t->level == STET_LEVEL_LOCKING ? d->now : t->view;
	size_t k = d->past.n;

	while (k > 0 && d->past.v[k - 1].state != from)
		k--;
	if (k == 0)
		return 0; /* too long ago */
	while (k > 1 && sees_the_same(d, t, d->past.v[k - 2].state))
		k--;
	return k > 1 ? d->past.v[k - 1].serial : 0;
}

/* --- acknowledgements --- */

static void forget(struct duel *d, struct duel_ack *ack)
{
	for (size_t k = 0; k < d->acks.n; k++) {
		if (d->acks.v[k] != ack)
			continue;
		d->acks.v[k] = d->acks.v[--d->acks.n];
		free(ack);
		return;
	}
}

static void on_durable(struct stet_ticket *ticket, void *arg)
{
	struct duel_ack *ack = arg;
	struct duel *d = ack->d;

	if (ticket->result == 0) {
		d->counts.acks++;
		duel_ack_(d, ack->need); /* B2 */
	}
	forget(d, ack);
}

bool duel_ack_later_(struct duel *d, uint64_t serial, uint64_t need)
{
	struct duel_ack *ack = model_alloc_(sizeof(*ack));
	struct stet_engine_stats stats;
	int rc;

	stet_engine_stats(d->w->engine, &stats);
	if (serial < need &&
	    stats.durable < need) { /* whether or not a crash would show it just now */
		free(ack);
		return duel_fail(d,
				 "commit: answered when serial %" PRIu64
				 " is durable, but it has read what came with %" PRIu64,
				 serial, need);
	}
	ack->d = d;
	ack->need = need;
	stet_ticket_init(&ack->ticket, on_durable, ack);
	rc = stet_engine_durable(d->w->engine, serial, &ack->ticket);
	if (rc == STET_WAIT) {
		STET_ASSERT(stet_vec_push(&d->acks, ack) == 0);
		if (d->acks.n <= PENDING_MAX)
			return true;
		rc = world_durable(d->w, serial);
		return !rc || d->faults || duel_fail(d, "commit: not durable: %d", rc);
	}
	free(ack);
	if (rc)
		return d->faults || duel_fail(d, "commit: not durable: %d", rc);
	d->counts.acks++;
	return duel_ack_(d, need);
}

void duel_forget_acks_(struct duel *d)
{
	for (size_t k = 0; k < d->acks.n; k++)
		free(d->acks.v[k]);
	stet_vec_clear(&d->acks);
}
