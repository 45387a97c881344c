/* wait.c - how threads wait: for tickets, and for durability (group commit).
 *
 * W1. A waiter lives on its thread's stack; it leaves all queues before the thread goes on.
 * W2. Group commit: whoever needs a serial to be durable and finds no flush in flight leads one itself
 *     (starts it under the lock, performs it without, finishes it under the lock). Others wait. What
 *     is ordered while a flush is in flight is taken along by the next one.
 * W3. When a flush ends while somebody still waits, exactly one of those who wait is poked, and leads
 *     the next. So there is always somebody who flushes: a leader is awake, or nobody waits.
 * W4. A leader that cannot start a flush although none is in flight (no memory; a checkpoint is at a point
 *     where none may start) leaves it to the background thread, and waits until a job ends (W3), with a time
 *     limit as a second line.
 * W5. Grouping. Threads that commit one after the other were all answered by the last flush, and are back a
 *     moment after it; a leader that started at once would take half of them along, the next one the other
 *     half. So it first waits until as many wait as did at the end of the last flush: for half of the
 *     time that a flush takes as measured, less when that was in vain of late, and never when there was only
 *     one. As long as one waits so, nobody else leads; nor does the background thread while anybody waits.
 * W6. The engine keeps tickets that wait for durability or a checkpoint until they fire; so these waits
 *     are never given up. They end: with success, or because the volume fails. A flush that could not
 *     be started (no memory) is tried again.
 * W7. A call that is made for somebody else (serve/) asks now and then whether he still wants it, as long as
 *     it waits for what others hold: it may be for ever.
 */
#include "api/api_internal.h"

#define RETRY_NS 10000000
#define PATIENCE_SHARE 2     /* of the time of a flush */
#define PATIENCE_MIN_NS 5000 /* less is not worth it */
#define PATIENCE_AGAIN 32    /* flushes after which it is tried again */
#define ASK_NS 200000000     /* W7 */

/* W7. Of this thread. */
static _Thread_local struct {
	stet_api_gone_fn *fn;
	void *arg;
} asked;

void stet_api_give_up_when(stet_api_gone_fn *fn, void *arg)
{
	asked.fn = fn;
	asked.arg = arg;
}

static void fired(struct stet_ticket *ticket, void *arg)
{
	struct stet_api_waiter *w = arg;

	(void)ticket;
	stet_cond_signal(&w->cond);
}

void stet_api_waiter_init_(struct stet_api_waiter *w)
{
	stet_ticket_init(&w->ticket, fired, w);
	stet_cond_init(&w->cond);
	stet_list_init(&w->link);
	w->poked = false;
	w->cancelled = false;
	w->counted = false;
	w->for_lock = false;
}

void stet_api_waiter_release_(struct stet_api_waiter *w)
{
	stet_ticket_cancel(&w->ticket);
	stet_list_del(&w->link);
	stet_cond_destroy(&w->cond);
}

void stet_api_waiter_rearm_(struct stet_api_waiter *w)
{
	stet_ticket_cancel(&w->ticket);
	stet_ticket_init(&w->ticket, fired, w);
	w->poked = false;
}

int stet_api_wait_until_(struct stet_volume *vol, struct stet_api_waiter *w, int64_t deadline_ns)
{
	bool in_time = true;

	stet_api_worker_kick_(vol, !w->for_lock);
	while (!w->ticket.fired && !w->cancelled && in_time) {
		if (deadline_ns == INT64_MAX)
			stet_cond_wait(&w->cond, &vol->lock);
		else
			in_time = stet_cond_timedwait(&w->cond, &vol->lock, deadline_ns);
	}
	if (w->cancelled)
		return STET_FAIL(-EAGAIN, "the transaction was ended while a call waited in it");
	return w->ticket.fired ? w->ticket.result : -ETIMEDOUT;
}

int stet_api_wait_(struct stet_volume *vol, struct stet_api_waiter *w)
{
	return stet_api_wait_until_(vol, w, INT64_MAX);
}

int stet_api_wait_op_(struct stet_volume *vol, struct stet_api_waiter *w, int64_t deadline_ns)
{
	struct stet_clock *clock = stet_api_real_clock_();
	bool gone = false;

	if (asked.fn)
		stet_api_worker_kick_(vol, !w->for_lock);
	while (asked.fn && !gone && !w->ticket.fired && !w->cancelled) {
		int64_t ask_ns = stet_clock_mono_ns(clock) + ASK_NS;

		if (ask_ns >= deadline_ns)
			break; /* it ends soon anyway */
		if (!stet_cond_timedwait(&w->cond, &vol->lock, ask_ns))
			gone = asked.fn(asked.arg);
	}
	if (gone && !w->ticket.fired && !w->cancelled)
		return STET_FAIL(-EINTR, "whoever made the call has gone");
	return stet_api_wait_until_(vol, w, deadline_ns);
}

/* W3 */
static void poke_next(struct stet_volume *vol)
{
	struct stet_list *pos;

	stet_api_assert_locked_(vol);
	if (stet_engine_flushing(vol->engine))
		return;
	STET_LIST_FOREACH(pos, &vol->flush_waiters) {
		struct stet_api_waiter *w = stet_container_of(pos, struct stet_api_waiter, link);

		if (w->ticket.fired)
			continue;
		w->poked = true;
		stet_cond_signal(&w->cond);
		return;
	}
	stet_api_async_poke_(vol);
}

/* The watch must be told of a failure: the worker does it. */
static bool must_tell(const struct stet_volume *vol)
{
	struct stet_engine_stats stats;

	if (!vol->watch || vol->told_failed)
		return false;
	stet_engine_stats(vol->engine, &stats);
	return stats.failed;
}

void stet_api_run_job_(struct stet_volume *vol, struct stet_job *job)
{
	stet_api_unlock_(vol);
	stet_job_perform(job);
	stet_api_lock_(vol);
	stet_engine_finish(vol->engine, job);
	poke_next(vol);
	stet_api_worker_kick_(vol, must_tell(vol));
}

/* --- grouping (W5) --- */

/* If its ticket has fired it does not wait any more, although its thread has yet to see that. */
static void served(struct stet_volume *vol, struct stet_api_waiter *w)
{
	if (w->counted && w->ticket.fired && --vol->grouping.waiting == 0)
		stet_engine_led(vol->engine, false);
	w->counted = w->counted && !w->ticket.fired;
}

static void note_flush(struct stet_volume *vol, int64_t took_ns)
{
	struct stet_api_grouping *g = &vol->grouping;
	struct stet_list *pos;

	stet_api_assert_locked_(vol);
	g->flush_ns += (took_ns - g->flush_ns) / 8;
	g->expected = g->waiting;
	STET_LIST_FOREACH(pos, &vol->flush_waiters) {
		struct stet_api_waiter *w = stet_container_of(pos, struct stet_api_waiter, link);

		served(vol, w);
	}
	if (g->patience_ns == 0 && ++g->flushes % PATIENCE_AGAIN == 0)
		g->patience_ns = g->flush_ns / PATIENCE_SHARE;
}

/* Whether it has waited. */
static bool gather(struct stet_volume *vol)
{
	struct stet_api_grouping *g = &vol->grouping;
	int64_t deadline_ns = stet_clock_mono_ns(stet_api_real_clock_()) + g->patience_ns;
	uint32_t before = g->waiting;
	bool in_time = true;

	stet_api_assert_locked_(vol);
	if (g->waiting >= g->expected || g->patience_ns == 0 || stet_engine_flushing(vol->engine))
		return false;
	g->gathering = true;
	while (g->waiting < g->expected && in_time && !stet_engine_flushing(vol->engine))
		in_time = stet_cond_timedwait(&vol->group_cond, &vol->lock, deadline_ns);
	g->gathering = false;
	if (in_time)
		g->patience_ns = g->flush_ns / PATIENCE_SHARE;
	else if (g->waiting == before)
		g->patience_ns /= 2;
	if (g->patience_ns < PATIENCE_MIN_NS)
		g->patience_ns = 0;
	return true;
}

static void arrive(struct stet_volume *vol, struct stet_api_waiter *w)
{
	struct stet_api_grouping *g = &vol->grouping;

	stet_api_assert_locked_(vol);
	w->counted = true;
	g->waiting++;
	stet_engine_led(vol->engine, true);
	if (g->gathering && g->waiting >= g->expected)
		stet_cond_signal(&vol->group_cond);
}

bool stet_api_lead_flush_(struct stet_volume *vol)
{
	struct stet_job *job = NULL;

	if (stet_engine_flushing(vol->engine))
		return false;
	if (stet_engine_flush_start(vol->engine, &job) || !job)
		return false;
	int64_t start_ns = stet_clock_mono_ns(stet_api_real_clock_());
	stet_api_run_job_(vol, job);
	note_flush(vol, stet_clock_mono_ns(stet_api_real_clock_()) - start_ns);
	return true;
}

/* Somebody flushes, or is about to. */
static bool busy(const struct stet_volume *vol)
{
	return stet_engine_flushing(vol->engine) || vol->grouping.gathering;
}

static void wait_for_leader(struct stet_volume *vol, struct stet_api_waiter *w)
{
	int64_t deadline_ns = stet_clock_mono_ns(stet_api_real_clock_()) + RETRY_NS;
	bool in_time = true;

	stet_api_assert_locked_(vol);
	w->poked = false;
	stet_list_add_tail(&vol->flush_waiters, &w->link);
	if (!busy(vol)) { /* W4 */
		stet_engine_led(vol->engine, false);
		stet_api_worker_kick_(vol, true);
	}
	while (!w->ticket.fired && !w->poked && in_time) {
		if (busy(vol))
			stet_cond_wait(&w->cond, &vol->lock);
		else
			in_time = stet_cond_timedwait(&w->cond, &vol->lock, deadline_ns);
	}
	stet_list_del(&w->link);
	stet_engine_led(vol->engine, vol->grouping.waiting > 0);
}

/* Whether it has led a flush. Who was poked while it gathered has gone back to waiting without a time limit:
 * so if it does not flush after that, another one is poked (W3). */
static bool lead(struct stet_volume *vol, const struct stet_api_waiter *w)
{
	bool gathered, led;

	stet_api_assert_locked_(vol);
	if (busy(vol))
		return false;
	gathered = gather(vol);
	led = !w->ticket.fired && stet_api_lead_flush_(vol);
	if (!led && gathered)
		poke_next(vol);
	return led;
}

int stet_api_make_durable_(struct stet_volume *vol, uint64_t serial)
{
	struct stet_api_waiter w;
	int rc;

	stet_api_waiter_init_(&w);
	rc = stet_engine_durable(vol->engine, serial, &w.ticket);
	if (rc == STET_WAIT) {
		arrive(vol, &w);
		while (!w.ticket.fired) {
			if (!lead(vol, &w) && !w.ticket.fired)
				wait_for_leader(vol, &w);
		}
		served(vol, &w);
		rc = w.ticket.result;
	}
	stet_api_waiter_release_(&w);
	/* The failure was noted by the thread that flushed, perhaps not this one. */
	return rc ? STET_FAIL(-EIO, "not durable: a flush failed; the outcome shows on reopening")
		  : 0;
}

int stet_api_checkpoint_(struct stet_volume *vol)
{
	struct stet_api_waiter w;
	int rc;

	stet_api_waiter_init_(&w);
	rc = stet_engine_checkpoint(vol->engine, &w.ticket);
	while (!rc && !vol->has_worker && !w.ticket.fired)
		stet_ignore(stet_api_step_engine_(vol), "nobody else is there who does it");
	if (!rc)
		rc = stet_api_wait_(vol, &w);
	stet_api_waiter_release_(&w);
	return rc;
}

int stet_api_checkpoint(struct stet_volume *vol)
{
	int rc;

	stet_api_lock_(vol);
	rc = stet_api_checkpoint_(vol);
	stet_api_unlock_(vol);
	return rc;
}
