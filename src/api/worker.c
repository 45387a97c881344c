/* worker.c - the background thread: flushes in time, checkpoints, reclaims orphans, cleans.
 *
 * B1. All of it is made of steps below; this thread only calls them, performs their jobs, and sleeps
 *     until the engine's deadline or a kick.
 * B2. It never waits for a lock or for space itself (it is who makes space): a step that must wait
 *     leaves a ticket, and is left alone until that fires.
 * B3. It works in slices. When others wait for the lock at the end of one, it stays away from the lock as
 *     long as the slice lasted, so they get at least half of the time; nobody else can starve it, for what
 *     they have in hand waits for it when it falls behind (E3 of engine.c).
 */
#include "api/api_internal.h"

#include <time.h>

#define RETRY_NS 2000000
#define SLICE_NS 500000     /* it ends sooner when somebody waits */
#define SLICE_MIN_NS 100000 /* but not so soon that the waking costs more than the work */

static void step_ticket_fired(struct stet_ticket *ticket, void *arg)
{
	struct stet_volume *vol = arg;

	if (ticket == &vol->reclaim_ticket)
		vol->reclaim_waits = false;
	else
		vol->clean_waits = false;
	vol->worker_kick = true;
	stet_cond_signal(&vol->worker_cond);
}

int stet_api_step_engine_(struct stet_volume *vol)
{
	struct stet_job *job = NULL;
	int rc = stet_engine_step(vol->engine, &job);

	if (job)
		stet_api_run_job_(vol, job);
	return job ? 1 : rc;
}

static bool step_reclaim(struct stet_volume *vol)
{
	if (vol->reclaim_waits || !stet_fs_wants_reclaim(vol->fs))
		return false;
	stet_ticket_cancel(&vol->reclaim_ticket);
	stet_ticket_init(&vol->reclaim_ticket, step_ticket_fired, vol);
	int rc = stet_fs_reclaim_step(vol->fs, &vol->reclaim_ticket);
	vol->reclaim_waits = rc == STET_WAIT;
	return rc == 1;
}

static bool step_clean(struct stet_volume *vol)
{
	if (vol->clean_waits)
		return false;
	stet_ticket_cancel(&vol->clean_ticket);
	stet_ticket_init(&vol->clean_ticket, step_ticket_fired, vol);
	int rc = stet_api_clean_step_(vol, &vol->clean_ticket);
	vol->clean_waits = rc == STET_WAIT;
	return rc == 1;
}

static void tell_failed(struct stet_volume *vol)
{
	struct stet_ll_touched none = { 0 };
	struct stet_engine_stats stats;

	stet_api_assert_locked_(vol);
	if (vol->told_failed || !vol->watch)
		return;
	stet_engine_stats(vol->engine, &stats);
	if (!stats.failed)
		return;
	while (vol->publishing)
		stet_cond_wait(&vol->publish_cond, &vol->lock);
	if (!vol->watch)
		return;
	vol->told_failed = true;
	vol->publishing = true;
	stet_api_tell_(vol, STET_LL_FAILED, &none);
	vol->publishing = false;
	stet_cond_broadcast(&vol->publish_cond);
}

static void sleep_until_due(struct stet_volume *vol)
{
	int64_t wake_ns = stet_engine_deadline(vol->engine);
	int64_t soonest_ns = stet_clock_mono_ns(stet_api_real_clock_()) + RETRY_NS;
	int64_t expire_ns;

	stet_api_assert_locked_(vol);
	expire_ns = stet_api_txs_expire_(vol);
	if (expire_ns < wake_ns)
		wake_ns = expire_ns;
	if (wake_ns < soonest_ns) /* due, but another thread is at it, or it just failed */
		wake_ns = soonest_ns;
	vol->worker_wakes_ns = wake_ns;
	while (!vol->worker_kick && !vol->stopping) {
		if (wake_ns == INT64_MAX)
			stet_cond_wait(&vol->worker_cond, &vol->lock);
		else if (!stet_cond_timedwait(&vol->worker_cond, &vol->lock, wake_ns))
			break;
	}
	vol->worker_wakes_ns = INT64_MIN;
	vol->worker_kick = false;
}

static bool step_all(struct stet_volume *vol) STET_REQUIRES(vol->lock);
static bool step_all(struct stet_volume *vol)
{
	bool busy = stet_api_step_engine_(vol) == 1;

	busy = step_reclaim(vol) || busy;
	busy = step_clean(vol) || busy;
	tell_failed(vol);
	return busy;
}

/* B3. False: there is nothing to do. */
static bool work_slice(struct stet_volume *vol) STET_REQUIRES(vol->lock);
static bool work_slice(struct stet_volume *vol)
{
	int64_t start_ns = stet_clock_mono_ns(stet_api_real_clock_());
	int64_t spent_ns;

	do {
		if (!step_all(vol))
			return false;
		spent_ns = stet_clock_mono_ns(stet_api_real_clock_()) - start_ns;
	} while (!vol->stopping &&
		 spent_ns < (stet_mutex_contended(&vol->lock) ? SLICE_MIN_NS : SLICE_NS));
	if (!stet_mutex_contended(&vol->lock))
		return true;
	struct timespec away = { .tv_nsec = spent_ns < SLICE_NS ? spent_ns : SLICE_NS };
	stet_api_unlock_(vol);
	nanosleep(&away, NULL);
	stet_api_lock_(vol);
	return true;
}

static void *work(void *arg)
{
	struct stet_volume *vol = arg;

	stet_api_lock_(vol);
	while (!vol->stopping) {
		stet_error_clear();
		if (!work_slice(vol))
			sleep_until_due(vol);
	}
	stet_api_unlock_(vol);
	return NULL;
}

int stet_api_worker_start_(struct stet_volume *vol)
{
	int rc;

	stet_api_lock_(vol); /* the thread looks at has_worker too */
	rc = pthread_create(&vol->worker, NULL, work, vol);
	vol->has_worker = rc == 0;
	stet_api_unlock_(vol);
	return rc ? STET_FAIL(-rc, "the background thread could not be started") : 0;
}

void stet_api_worker_stop_(struct stet_volume *vol)
{
	if (!vol->has_worker)
		return;
	stet_api_lock_(vol);
	vol->stopping = true;
	stet_cond_signal(&vol->worker_cond);
	stet_api_unlock_(vol);
	pthread_join(vol->worker, NULL);
	vol->has_worker = false;
	stet_ticket_cancel(&vol->reclaim_ticket);
	stet_ticket_cancel(&vol->clean_ticket);
}

void stet_api_worker_kick_(struct stet_volume *vol, bool force)
{
	if (!vol->has_worker || vol->worker_kick)
		return;
	if (!force && !stet_engine_wants_work(vol->engine) &&
	    (vol->reclaim_waits || !stet_fs_wants_reclaim(vol->fs)) &&
	    (vol->clean_waits || !stet_api_clean_wanted_(vol)) &&
	    stet_engine_deadline(vol->engine) >= vol->worker_wakes_ns)
		return;
	vol->worker_kick = true;
	stet_cond_signal(&vol->worker_cond);
}
