/* part.c - transactions of a client that is within a transaction of the server's: parts of that one.
 *
 * P1. Parts of one transaction are isolated from each other: one that may change something is there alone, those that only
 *     read are there together, in the order in which they came. Who would wait too long is told that it is busy: he may
 *     himself have begun the one before.
 * P2. A part that is given up is taken back alone, if nobody else has changed anything in the transaction since
 *     (api/part.c), and the mount can be told what is as it was before; else the whole is spoiled.
 * P3. The mount is told when the call is not in the transaction any more: what it tells may have to wait for a request that
 *     the transaction keeps waiting (for a call that has it for itself, for who waits until no call is in it).
 */
#include "serve/serve_internal.h"

#include <string.h>

#define PATIENCE_MS 5000
#define LOOK_MS 100 /* whether it is still wanted */
#define NS_PER_MS INT64_C(1000000)

/* --- taking turns (P1) --- */

/* Whether one that came before is in its way. */
static bool must_wait_locked(const struct stet_ll_service *service,
			     const struct stet_serve_part *part)
{
	struct stet_list *pos;

	STET_LIST_FOREACH(pos, &service->parts) {
		const struct stet_serve_part *other = stet_container_of(pos, struct stet_serve_part,
									link);

		if (other == part)
			break;
		if (other->within == part->within && !(other->read_only && part->read_only))
			return true;
	}
	return false;
}

static void leave_queue(struct stet_ll_service *service, struct stet_serve_part *part)
{
	stet_mutex_lock(&service->lock);
	stet_list_del(&part->link);
	stet_cond_broadcast(&service->part_over);
	stet_mutex_unlock(&service->lock);
}

static int wait_for_turn(struct stet_ll_service *service, struct stet_serve_part *part,
			 stet_api_gone_fn *gone, void *arg)
{
	int64_t now_ns = stet_api_now_ns();
	int64_t until_ns = now_ns + PATIENCE_MS * NS_PER_MS;
	int rc = 0;

	stet_mutex_lock(&service->lock);
	stet_list_add_tail(&service->parts, &part->link);
	while (must_wait_locked(service, part) && !rc) {
		(void)!stet_cond_timedwait(&service->part_over, &service->lock,
					   now_ns + LOOK_MS * NS_PER_MS);
		now_ns = stet_api_now_ns();
		if (gone(arg))
			rc = -EINTR;
		else if (now_ns > until_ns)
			rc = STET_FAIL(-EBUSY, "another part of the transaction has not ended yet");
	}
	stet_mutex_unlock(&service->lock);
	if (rc)
		leave_queue(service, part);
	return rc;
}

/* --- life --- */

int stet_serve_part_begin_(struct stet_serve_session *session, struct stet_txn *around,
			   bool read_only, stet_api_gone_fn *gone, void *arg,
			   struct stet_serve_part **ret)
{
	struct stet_serve_part *part = stet_calloc(1, sizeof(*part));
	int rc;

	if (!part)
		return STET_FAIL(-ENOMEM, "no memory for a part of a transaction");
	part->read_only = read_only;
	part->within = session->within;
	stet_list_init(&part->link);
	stet_api_part_init(&part->api, around);
	stet_api_told_init(&part->told, session->token[1]);
	rc = wait_for_turn(session->service, part, gone, arg);
	if (rc) {
		stet_free(part);
		return rc;
	}
	session->service->mount->part_begin(session->within);
	*ret = part;
	return 0;
}

void stet_serve_part_free_(struct stet_serve_session *session, struct stet_serve_part *part)
{
	if (!part)
		return;
	session->user->told -= stet_skiplist_count(&part->told.set);
	stet_api_part_release(&part->api);
	stet_api_told_release(&part->told);
	stet_free(part);
}

/* --- telling the mount (P3) --- */

/* What is there stays, as long as the part: lists borrow names. */
static void remember(struct stet_serve_session *session, struct stet_api_told *told,
		     const struct stet_ll_touched *touched)
{
	size_t before;

	stet_mutex_lock(&session->lock);
	before = stet_skiplist_count(&told->set);
	if (!told->rc)
		stet_api_told_add(told, touched);
	session->user->told += stet_skiplist_count(&told->set) - before;
	if (session->user->told > STET_SERVE_TOLD_MAX)
		told->rc = -E2BIG;
	stet_mutex_unlock(&session->lock);
}

void stet_serve_told_(void *arg, const struct stet_ll_touched *touched)
{
	struct stet_serve_call *c = arg;

	if (c->part)
		remember(c->session, &c->part->own->told, touched);
	stet_api_told_add(&c->told, touched);
}

void stet_serve_tell_(struct stet_serve_session *session, struct stet_ll_touched *list)
{
	if (list->ino_count > 0 || list->result)
		session->service->mount->told(session->within, list);
	stet_api_told_list_release(list);
}

/* All that the part has changed, as it is as it was before. */
static void list_all(struct stet_serve_session *session, const struct stet_serve_part *part,
		     struct stet_ll_touched *ret)
{
	stet_mutex_lock(&session->lock);
	stet_api_told_list(&part->told, ret);
	stet_mutex_unlock(&session->lock);
}

static int can_be_told(struct stet_serve_session *session, const struct stet_serve_part *part)
{
	int rc;

	stet_mutex_lock(&session->lock);
	rc = part->told.rc;
	stet_mutex_unlock(&session->lock);
	return rc ? STET_FAIL(rc, "the part has changed too much to be taken back alone") : 0;
}

/* --- going back, and the end --- */

int stet_serve_part_rollback_to_(struct stet_serve_call *c, struct stet_serve_part *part,
				 uint64_t savepoint)
{
	struct stet_ll_touched list;
	int rc = can_be_told(c->session, part);

	if (!rc)
		rc = stet_api_part_rollback_to(&part->api, savepoint);
	if (rc)
		return rc;
	list_all(c->session, part, &list);
	stet_api_told_add(&c->told, &list);
	stet_api_told_list_release(&list);
	return 0;
}

/* In the transaction. Non-zero: what it has changed is still there. */
static int take_back(struct stet_serve_session *session, struct stet_serve_part *part)
{
	int rc = can_be_told(session, part);

	if (rc) {
		(void)!stet_api_part_end(&part->api, false);
		return rc;
	}
	return stet_api_part_end(&part->api, true);
}

int stet_serve_part_end_(struct stet_serve_session *session, struct stet_serve_part *part,
			 bool back)
{
	const struct stet_ll_mount *mount = session->service->mount;
	struct stet_ll_touched list;
	struct stet_txn *txn;
	int rc;

	if (atomic_exchange(&part->over, true))
		return STET_FAIL(-ESTALE, "the part of the transaction has ended");
	rc = mount->enter(session->within, &txn);
	if (!rc) {
		rc = back ? take_back(session, part) : stet_api_part_end(&part->api, false);
		mount->leave(session->within);
	}
	if (!rc && back) {
		list_all(session, part, &list);
		stet_serve_tell_(session, &list);
	}
	mount->part_end(session->within, rc && back);
	leave_queue(session->service, part);
	return rc;
}
