/* session.c - what clients have open.
 *
 * S1. A client names its handles by numbers, which are looked up in the table of its session only; so it
 *     reaches nobody else's. A number is never used twice.
 * S2. Whatever a client sends on several connections at once, a handle is not freed while a call uses it:
 *     ending it hides it, and the last user frees it. A transaction's memory is pinned until then.
 * S3. A transaction is aborted while no commit, and no giving up of a part, is in progress in it.
 * S4. A session ends with its last connection, so when no call of it is in progress.
 * S5. What a user has open is counted over all his sessions, before it is opened.
 * S6. Who has forbidden to begin transactions and then asks for those that are open, misses none: it is counted
 *     as being begun before it is asked whether that is forbidden, until it is in a table. (It takes no time.)
 *
 * S7. A session may be within a transaction of the server's (struct stet_ll_mount). A transaction that it begins is a part
 *     of that (part.c): a handle that stands for the same one. What was opened in a part keeps it, and is stale when it has
 *     ended.
 *
 * Locks: service.lock, then session.lock; neither is held while the library is called.
 */
#include "serve/serve_internal.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define BEGIN_PAUSE_US 50

/* --- services --- */

int stet_ll_service_create(struct stet_volume *vol, const struct stet_ll_service_options *options,
			   struct stet_ll_service **ret)
{
	struct stet_ll_service *service;
	int rc = stet_api_use_open_locks(vol, options && options->open_locks);

	if (rc)
		return rc;
	service = stet_calloc(1, sizeof(*service));
	if (!service)
		return STET_FAIL(-ENOMEM, "no memory for a service");
	service->vol = vol;
	service->own_uid = geteuid();
	service->mount = options ? options->mount : NULL;
	stet_mutex_init(&service->lock, STET_SERVE_SERVICE_RANK, "service");
	stet_list_init(&service->sessions);
	stet_list_init(&service->users);
	stet_list_init(&service->calls);
	stet_list_init(&service->reaches);
	stet_list_init(&service->parts);
	stet_cond_init(&service->part_over);
	*ret = service;
	return 0;
}

void stet_ll_service_destroy(struct stet_ll_service *service)
{
	if (!service)
		return;
	STET_ASSERT(stet_list_empty(&service->sessions));
	stet_cond_destroy(&service->part_over);
	stet_mutex_destroy(&service->lock);
	stet_free(service);
}

void stet_ll_service_no_begin(struct stet_ll_service *service, bool on)
{
	service->no_begin = on;
}

/* Adds the open transactions of a session. */
static size_t list_txns(struct stet_serve_session *session, uint64_t *ids, size_t count, size_t cap)
{
	struct stet_hash_node *node;

	stet_mutex_lock(&session->lock);
	for (node = stet_hash_first(&session->handles); node;
	     node = stet_hash_next(&session->handles, node)) {
		const struct stet_serve_handle *h =
			stet_container_of(node, struct stet_serve_handle, node);

		if (h->kind != STET_SERVE_TXN || h->own)
			continue;
		if (count < cap)
			ids[count] = stet_transaction_id(h->txn);
		count++;
	}
	stet_mutex_unlock(&session->lock);
	return count;
}

size_t stet_ll_service_transactions(struct stet_ll_service *service, uint64_t *ids, size_t cap)
{
	struct stet_list *pos;
	size_t count = 0;

	while (service->begins > 0) /* S6 */
		usleep(BEGIN_PAUSE_US);
	stet_mutex_lock(&service->lock);
	STET_LIST_FOREACH(pos, &service->sessions)
		count = list_txns(stet_container_of(pos, struct stet_serve_session, link), ids,
				  count, cap);
	stet_mutex_unlock(&service->lock);
	return count;
}

/* --- users --- */

static struct stet_serve_user *find_user_locked(struct stet_ll_service *service, uint32_t uid)
{
	struct stet_list *pos;

	stet_assert_held(&service->lock);
	STET_LIST_FOREACH(pos, &service->users) {
		struct stet_serve_user *user = stet_container_of(pos, struct stet_serve_user, link);

		if (user->uid == uid)
			return user;
	}
	return NULL;
}

static struct stet_serve_user *get_user_locked(struct stet_ll_service *service, uint32_t uid)
{
	struct stet_serve_user *user = find_user_locked(service, uid);

	if (!user) {
		user = stet_calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->uid = uid;
		stet_list_add_tail(&service->users, &user->link);
	}
	user->sessions++;
	return user;
}

static void put_user_locked(struct stet_serve_user *user)
{
	if (--user->sessions > 0)
		return;
	stet_list_del(&user->link);
	stet_free(user);
}

/* S5 */
int stet_serve_admit_(struct stet_serve_session *session, bool is_view)
{
	struct stet_serve_user *user = session->user;
	int rc = 0;

	stet_mutex_lock(&session->service->lock);
	if (!session->is_owner && user->handles >= STET_SERVE_HANDLES_MAX)
		rc = STET_FAIL(-ENFILE, "user %u has %u handles open", user->uid,
			       STET_SERVE_HANDLES_MAX);
	else if (!session->is_owner && is_view && user->views >= STET_SERVE_VIEWS_MAX)
		rc = STET_FAIL(-ENFILE, "user %u has %u transactions, listings and cursors open",
			       user->uid, STET_SERVE_VIEWS_MAX);
	if (!rc) {
		user->handles++;
		user->views += is_view;
	}
	stet_mutex_unlock(&session->service->lock);
	return rc;
}

void stet_serve_dismiss_(struct stet_serve_session *session, bool is_view)
{
	stet_mutex_lock(&session->service->lock);
	session->user->handles--;
	session->user->views -= is_view;
	stet_mutex_unlock(&session->service->lock);
}

/* --- sessions --- */

static void free_session(struct stet_serve_session *session)
{
	stet_hash_release(&session->handles);
	stet_cond_destroy(&session->turn);
	stet_mutex_destroy(&session->lock);
	stet_free((void *)(uintptr_t)session->who.groups);
	stet_free(session);
}

static int copy_who(const struct stet_ll_who *who, struct stet_ll_who *ret)
{
	size_t bytes = who->group_count * sizeof(*who->groups);

	*ret = *who;
	ret->groups = NULL;
	if (bytes == 0)
		return 0;
	ret->groups = stet_memdup(who->groups, bytes);
	return ret->groups ? 0 : STET_FAIL(-ENOMEM, "no memory for a session");
}

/* S7. The memory of the transaction around it is pinned as long as handles may name it. */
static int go_within(struct stet_serve_session *session, void *within)
{
	const struct stet_ll_mount *mount = session->service->mount;
	int rc = mount->enter(within, &session->around);

	if (rc)
		return rc;
	stet_api_txn_pin(session->around);
	mount->leave(within);
	session->within = within;
	return 0;
}

static void leave_within(struct stet_serve_session *session)
{
	if (!session->within)
		return;
	stet_api_txn_unpin(session->around);
	session->service->mount->release(session->within);
}

int stet_serve_session_open_(struct stet_ll_service *service, const struct stet_ll_who *who,
			     bool read_only, void *within, struct stet_serve_session **ret)
{
	struct stet_serve_session *session = stet_calloc(1, sizeof(*session));
	int rc;

	if (!session)
		return STET_FAIL(-ENOMEM, "no memory for a session");
	session->service = service;
	session->read_only = read_only;
	session->is_owner = who->uid == 0 || who->uid == service->own_uid;
	session->connections = 1;
	session->next_number = 1;
	stet_list_init(&session->link);
	stet_mutex_init(&session->lock, STET_SERVE_SESSION_RANK, "session");
	stet_cond_init(&session->turn);
	stet_hash_init(&session->handles, 4);
	rc = copy_who(who, &session->who);
	if (!rc &&
	    getrandom(session->token, sizeof(session->token), 0) != (ssize_t)sizeof(session->token))
		rc = STET_FAIL(-EIO, "no random numbers");
	session->token[0] |= 1; /* not 0, which stands for none */
	if (!rc && within)
		rc = go_within(session, within);
	if (!rc) {
		stet_mutex_lock(&service->lock);
		session->user = get_user_locked(service, who->uid);
		if (session->user)
			stet_list_add_tail(&service->sessions, &session->link);
		else
			rc = STET_FAIL(-ENOMEM, "no memory for a session");
		stet_mutex_unlock(&service->lock);
	}
	if (rc && session->within)
		stet_api_txn_unpin(session->around); /* `within` stays the caller's */
	if (rc)
		free_session(session);
	else
		*ret = session;
	return rc;
}

int stet_serve_session_join_(struct stet_ll_service *service, const struct stet_ll_who *who,
			     const uint64_t token[2], struct stet_serve_session **ret)
{
	struct stet_list *pos;
	int rc = -ENOENT;

	stet_mutex_lock(&service->lock);
	STET_LIST_FOREACH(pos, &service->sessions) {
		struct stet_serve_session *session =
			stet_container_of(pos, struct stet_serve_session, link);

		if (memcmp(session->token, token, sizeof(session->token)) != 0 ||
		    session->who.uid != who->uid)
			continue;
		session->connections++;
		*ret = session;
		rc = 0;
		break;
	}
	stet_mutex_unlock(&service->lock);
	return rc ? STET_FAIL(rc, "there is no such session of user %u", who->uid) : 0;
}

void stet_serve_handle_end_(struct stet_serve_session *session, struct stet_serve_handle *h)
{
	switch (h->kind) {
	case STET_SERVE_TXN:
		if (h->own)
			(void)!stet_serve_part_end_(session, h->own, true); /* or it has ended */
		else if (!stet_api_txn_has_ended(h->txn))
			stet_abort(h->txn);
		stet_serve_part_free_(session, h->own);
		stet_api_txn_unpin(h->txn);
		break;
	case STET_SERVE_FILE:
		stet_file_close(h->file);
		break;
	case STET_SERVE_DIR:
		stet_dir_close(h->dir);
		break;
	case STET_SERVE_TABLE:
		stet_table_close(h->table);
		break;
	case STET_SERVE_CURSOR:
		stet_cursor_close(h->cursor);
		break;
	}
}

/* Without locks; nobody uses or finds it any more. */
static void destroy_handle(struct stet_serve_session *session, struct stet_serve_handle *h)
{
	bool is_view = h->is_view;

	stet_serve_handle_end_(session, h);
	if (h->above)
		stet_serve_handle_put_(session, h->above);
	if (h->part)
		stet_serve_handle_put_(session, h->part);
	stet_free(h);
	stet_serve_dismiss_(session, is_view);
}

/* One more is hidden; it is in use by the caller. NULL: there are none. */
static struct stet_serve_handle *take_any(struct stet_serve_session *session)
{
	struct stet_serve_handle *h = NULL;
	struct stet_hash_node *node;

	stet_mutex_lock(&session->lock);
	node = stet_hash_first(&session->handles);
	if (node) {
		stet_hash_remove(&session->handles, node);
		h = stet_container_of(node, struct stet_serve_handle, node);
		h->gone = true;
		h->users++;
	}
	stet_mutex_unlock(&session->lock);
	return h;
}

/* S4 */
void stet_serve_session_leave_(struct stet_serve_session *session)
{
	struct stet_ll_service *service = session->service;
	struct stet_serve_handle *h;
	bool last;

	stet_mutex_lock(&service->lock);
	last = --session->connections == 0;
	if (last)
		stet_list_del(&session->link);
	stet_mutex_unlock(&service->lock);
	if (!last)
		return;
	while ((h = take_any(session)))
		stet_serve_handle_put_(session, h); /* a table goes with its last cursor, ... */
	leave_within(session);
	stet_mutex_lock(&service->lock);
	put_user_locked(session->user);
	stet_mutex_unlock(&service->lock);
	free_session(session);
}

/* --- handles --- */

int stet_serve_handle_add_(struct stet_serve_session *session, const struct stet_serve_handle *h,
			   uint64_t *ret_number)
{
	struct stet_serve_handle *copy = stet_memdup(h, sizeof(*h));
	int rc;

	if (!copy)
		return STET_FAIL(-ENOMEM, "no memory for a handle");
	stet_mutex_lock(&session->lock);
	rc = stet_hash_insert(&session->handles, session->next_number, &copy->node);
	if (!rc) {
		*ret_number = session->next_number++;
		if (h->above)
			h->above->users++;
		if (h->part)
			h->part->users++;
	}
	stet_mutex_unlock(&session->lock);
	if (rc)
		stet_free(copy);
	return rc;
}

struct stet_serve_handle *stet_serve_handle_get_(struct stet_serve_session *session,
						 uint64_t number, enum stet_serve_kind kind)
{
	struct stet_serve_handle *h = NULL;
	struct stet_hash_node *node;

	stet_mutex_lock(&session->lock);
	node = stet_hash_find(&session->handles, number); /* S1 */
	if (node) {
		h = stet_container_of(node, struct stet_serve_handle, node);
		if (h->kind == kind)
			h->users++;
		else
			h = NULL;
	}
	stet_mutex_unlock(&session->lock);
	return h;
}

/* S2 */
void stet_serve_handle_put_(struct stet_serve_session *session, struct stet_serve_handle *h)
{
	bool last;

	stet_mutex_lock(&session->lock);
	last = --h->users == 0 && h->gone;
	stet_mutex_unlock(&session->lock);
	if (last)
		destroy_handle(session, h);
}

void stet_serve_handle_drop_(struct stet_serve_session *session, struct stet_serve_handle *h)
{
	stet_mutex_lock(&session->lock);
	if (!h->gone)
		stet_hash_remove(&session->handles, &h->node);
	h->gone = true;
	stet_mutex_unlock(&session->lock);
}

/* S3 */
bool stet_serve_ending_begin_(struct stet_serve_session *session, struct stet_serve_handle *h,
			      bool wait)
{
	bool mine;

	stet_mutex_lock(&session->lock);
	while (h->ending && wait)
		stet_cond_wait(&session->turn, &session->lock);
	mine = !h->ending;
	h->ending = true;
	stet_mutex_unlock(&session->lock);
	return mine;
}

void stet_serve_ending_end_(struct stet_serve_session *session, struct stet_serve_handle *h)
{
	stet_mutex_lock(&session->lock);
	h->ending = false;
	stet_cond_broadcast(&session->turn);
	stet_mutex_unlock(&session->lock);
}
