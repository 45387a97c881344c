/* async.c - requests that are answered by a callback: commits and fsyncs of servers.
 *
 * Two threads, started with the first request. The committer publishes transactions, one after the
 * other, calling the watch; it never waits for durability. The completer calls on_done; it leads
 * flushes when no other thread does, and ends waits for open locks whose time is over.
 *
 * A1. Of two: what the watch waits for (a kernel that waits for the answer to an fsync) may depend on a
 *     completion, so they must not be one thread.
 * A2. An accepted request is completed exactly once; pending counts those that are not yet.
 * A3. While a request waits for durability (syncing > 0), the completer leads a flush whenever none is in
 *     flight; so it needs nobody else.
 */
#include "api/api_internal.h"

#define RETRY_NS 10000000

struct stet_api_async {
	/* --- under the volume's lock --- */
	pthread_t completer, committer;
	struct stet_cond completer_cond, committer_cond;
	struct stet_list done;    /* of stet_api_request.link: to be completed */
	struct stet_list commits; /* of the same: to be published */
	uint64_t pending;         /* A2 */
	uint64_t syncing;         /* A3 */
	bool poked;
	bool stopping;
};

/* A commit or an fsync. */
struct answer {
	struct stet_api_request req;
	struct stet_ticket ticket;
	struct stet_volume *vol;
	struct stet_tx *tx; /* commits */
	unsigned flags;
	stet_ll_done_fn *on_done;
	void *arg;
};

/* --- the completer --- */

void stet_api_async_poke_(struct stet_volume *vol)
{
	if (!vol->async)
		return;
	vol->async->poked = true;
	stet_cond_signal(&vol->async->completer_cond);
}

void stet_api_async_accept_(struct stet_volume *vol)
{
	vol->async->pending++;
}

void stet_api_async_complete_(struct stet_volume *vol, struct stet_api_request *req, int result)
{
	req->result = result;
	stet_list_add_tail(&vol->async->done, &req->link);
	stet_api_async_poke_(vol);
}

static bool complete_one(struct stet_volume *vol) STET_REQUIRES(vol->lock);
static bool complete_one(struct stet_volume *vol)
{
	struct stet_api_async *async = vol->async;
	struct stet_list *pos = stet_list_first(&async->done);

	if (!pos)
		return false;
	struct stet_api_request *req = stet_container_of(pos, struct stet_api_request, link);
	stet_list_del(&req->link);
	stet_api_unlock_(vol);
	req->complete(req, req->result);
	stet_api_lock_(vol);
	async->pending--;
	return true;
}

static void rest(struct stet_volume *vol, int64_t wake_ns)
{
	struct stet_api_async *async = vol->async;

	stet_api_assert_locked_(vol);
	if (async->poked)
		return;
	if (wake_ns == INT64_MAX)
		stet_cond_wait(&async->completer_cond, &vol->lock);
	else
		stet_ignore(stet_cond_timedwait(&async->completer_cond, &vol->lock, wake_ns),
			    "the caller looks at everything anyway");
}

static void *run_completer(void *arg)
{
	struct stet_volume *vol = arg;
	struct stet_api_async *async = vol->async;

	stet_api_lock_(vol);
	while (!async->stopping || async->pending > 0) {
		int64_t wake_ns;

		async->poked = false;
		if (complete_one(vol))
			continue;
		if (async->syncing > 0 && stet_api_lead_flush_(vol))
			continue;
		wake_ns = stet_api_open_waits_expire_(vol);
		if (async->syncing > 0 && !stet_engine_flushing(vol->engine)) {
			int64_t retry_ns = stet_clock_mono_ns(stet_api_real_clock_()) + RETRY_NS;

			stet_api_worker_kick_(vol, true);
			wake_ns = retry_ns < wake_ns ? retry_ns : wake_ns;
		}
		if (!async->stopping || async->pending > 0)
			rest(vol, wake_ns);
	}
	stet_api_unlock_(vol);
	return NULL;
}

/* --- commits and fsyncs --- */

static void durable(struct stet_ticket *ticket, void *arg)
{
	struct answer *a = arg;

	(void)ticket;
	stet_api_assert_locked_(a->vol);
	a->vol->async->syncing--;
	stet_api_async_complete_(a->vol, &a->req, a->ticket.result);
}

static void wait_durable(struct answer *a, uint64_t serial)
{
	struct stet_volume *vol = a->vol;
	int rc;

	stet_api_assert_locked_(vol);
	stet_ticket_init(&a->ticket, durable, a);
	rc = stet_engine_durable(vol->engine, serial, &a->ticket);
	if (rc == STET_WAIT) {
		vol->async->syncing++;
		stet_api_async_poke_(vol);
	} else {
		stet_api_async_complete_(vol, &a->req, rc);
	}
}

static void publish(struct answer *a)
{
	uint64_t serial = 0;
	int rc;

	stet_api_assert_locked_(a->vol);
	rc = stet_api_publish_(a->tx, &serial);
	if (rc || (a->flags & STET_COMMIT_NOSYNC))
		stet_api_async_complete_(a->vol, &a->req, rc);
	else
		wait_durable(a, serial);
	stet_api_worker_kick_(a->vol, false);
}

static void *run_committer(void *arg)
{
	struct stet_volume *vol = arg;
	struct stet_api_async *async = vol->async;

	stet_api_lock_(vol);
	for (;;) {
		struct stet_list *pos = stet_list_first(&async->commits);

		if (pos) {
			struct stet_api_request *req =
				stet_container_of(pos, struct stet_api_request, link);

			stet_list_del(&req->link);
			publish(stet_container_of(req, struct answer, req));
		} else if (async->stopping) {
			break;
		} else {
			stet_cond_wait(&async->committer_cond, &vol->lock);
		}
	}
	stet_api_unlock_(vol);
	return NULL;
}

static void answer(struct stet_api_request *req, int result)
{
	struct answer *a = stet_container_of(req, struct answer, req);

	if (a->tx) {
		stet_api_lock_(a->vol);
		if (result)
			a->tx->state = STET_API_TX_FAILED;
		else
			stet_api_end_(a->tx);
		stet_api_unlock_(a->vol);
	}
	a->on_done(a->arg, result);
	stet_free(a);
}

static int new_answer(struct stet_volume *vol, stet_ll_done_fn *on_done, void *arg,
		      struct answer **ret)
{
	struct answer *a;
	int rc;

	stet_api_assert_locked_(vol);
	rc = stet_api_async_start_(vol);
	if (rc)
		return rc;
	a = stet_calloc(1, sizeof(*a));
	if (!a)
		return STET_FAIL(-ENOMEM, "no memory for a request");
	a->req.complete = answer;
	a->vol = vol;
	a->on_done = on_done;
	a->arg = arg;
	stet_list_init(&a->req.link);
	stet_ticket_init(&a->ticket, NULL, NULL);
	*ret = a;
	return 0;
}

int stet_ll_commit(struct stet_tx *txn, unsigned flags, stet_ll_done_fn *on_done, void *arg)
{
	struct stet_volume *vol;
	struct answer *a;
	int rc = stet_api_check_handle_(txn);

	if (!rc)
		rc = stet_api_check_flags_(flags, STET_COMMIT_NOSYNC);
	if (rc)
		return rc;
	vol = txn->vol;
	stet_api_lock_(vol);
	rc = stet_api_wait_whole_(txn);
	if (!rc)
		rc = new_answer(vol, on_done, arg, &a);
	if (!rc) {
		txn->state = STET_API_TX_COMMITTING;
		a->tx = txn;
		a->flags = flags;
		stet_api_async_accept_(vol);
		stet_list_add_tail(&vol->async->commits, &a->req.link);
		stet_cond_signal(&vol->async->committer_cond);
	}
	stet_api_unlock_(vol);
	return rc;
}

int stet_ll_fsync_async(struct stet_volume *vol, struct stet_tx *txn, stet_ll_done_fn *on_done,
			void *arg)
{
	struct answer *a;
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_api_lock_(vol);
	if (txn)
		rc = stet_api_tx_usable_(txn);
	if (!rc)
		rc = new_answer(vol, on_done, arg, &a);
	if (!rc) {
		stet_api_async_accept_(vol);
		if (txn || vol->read_only)
			stet_api_async_complete_(vol, &a->req, 0);
		else
			wait_durable(a, stet_engine_serial(vol->engine));
	}
	stet_api_unlock_(vol);
	return rc;
}

/* --- the threads --- */

static void free_async(struct stet_volume *vol)
{
	stet_cond_destroy(&vol->async->completer_cond);
	stet_cond_destroy(&vol->async->committer_cond);
	stet_free(vol->async);
	vol->async = NULL;
}

int stet_api_async_start_(struct stet_volume *vol)
{
	struct stet_api_async *async;
	int rc;

	if (vol->async)
		return 0;
	async = stet_calloc(1, sizeof(*async));
	if (!async)
		return STET_FAIL(-ENOMEM, "no memory for the threads of requests");
	stet_cond_init(&async->completer_cond);
	stet_cond_init(&async->committer_cond);
	stet_list_init(&async->done);
	stet_list_init(&async->commits);
	vol->async = async;
	rc = pthread_create(&async->completer, NULL, run_completer, vol);
	if (rc) {
		free_async(vol);
		return STET_FAIL(-rc, "the threads of requests could not be started");
	}
	rc = pthread_create(&async->committer, NULL, run_committer, vol);
	if (rc) {
		async->stopping = true;
		stet_api_async_poke_(vol);
		stet_api_unlock_(vol);
		pthread_join(async->completer, NULL);
		stet_api_lock_(vol);
		free_async(vol);
		return STET_FAIL(-rc, "the threads of requests could not be started");
	}
	return 0;
}

void stet_api_async_stop_(struct stet_volume *vol)
{
	struct stet_api_async *async = vol->async;

	if (!async)
		return;
	stet_api_lock_(vol);
	async->stopping = true;
	stet_cond_signal(&async->committer_cond);
	stet_api_async_poke_(vol);
	stet_api_unlock_(vol);
	pthread_join(async->committer, NULL);
	pthread_join(async->completer, NULL);
	free_async(vol);
}
