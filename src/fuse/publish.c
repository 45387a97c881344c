/* publish.c - making a commit visible in the main tree, which the kernel has cached.
 *
 * What the library calls around the publication of a transaction:
 *   BEFORE  1. mark: the inodes it touches may not be cached, and opens of them are held up
 *           2. replace: open files whose existing bytes change go to an OLD view, with their node
 *           3. invalidate what the kernel has of the touched inodes and names
 *   ... the changes are published, at one instant ...
 *   AFTER   4. invalidate again: what was answered between 3 and now may be old or new
 *           5. unmark, and go on with the openings
 * and then the committer is answered.
 *
 * I1. From step 3 on the kernel has nothing of the old state: every look asks us, and sees the old
 *     before and the new after that instant. So nobody sees new and then old.
 * I2. An answer that may be cached was sent before step 1, and is dropped by step 3, or was
 *     computed after step 5 (reply.c, I1).
 * I3. Step 2 waits until no call works on a replaced node: none can read the new bytes for an old
 *     handle. Calls never wait for a commit, so this ends.
 * I4. Notifications block while the kernel holds a page or a directory for which a request is in
 *     progress; so they are sent by this thread of the library, which holds no lock, while the
 *     workers answer.
 * I5. A name is invalidated only if its object changed or went (it would detach what is mounted
 *     on it or below); a directory in which names came and went is invalidated as an inode too,
 *     for its listing and for names that the kernel knows to be absent.
 * I6. Of a file that only grows the kernel must not learn the new size while it has a page that
 *     ends, filled up with zeros, where the old data ends; a reader might be given those zeros.
 *     So until step 4 is over it is told the old size (as far as it has not written more itself);
 *     the new data is seen after that. Between the last answer with the old size and the first one
 *     with the new its attributes are invalidated once more: of answers that cross on their way
 *     through the kernel it takes any, but never one from before an invalidation.
 * I7. An answer that may be cached and was sent before step 1 may still be on its way through the
 *     kernel. If the kernel has the inode, it drops what is older than an invalidation. If it does
 *     not have it yet, there is nothing to invalidate; but who looked it up holds its directory, so
 *     the kernel is made to take that directory, and then invalidates.
 * I8. If there is no memory for this, everything is treated as touched: slower, never wrong.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>

/* What lasts from BEFORE to AFTER. Only one transaction is published at a time. */
struct stet_fuse_publishing {
	struct stet_fuse_view *old;   /* referenced, or NULL */
	struct stet_fuse_node **node; /* replaced; each counted in its `openings` */
	size_t count;
};

/* --- ids --- */

bool stet_fuse_ids_add_(struct stet_fuse_ids *ids, uint64_t id)
{
	if (ids->count == ids->cap) {
		size_t cap = ids->cap ? ids->cap * 2 : 64;
		uint64_t *more = realloc(ids->id, cap * sizeof(*more));

		if (!more)
			return false;
		ids->id = more;
		ids->cap = cap;
	}
	ids->id[ids->count++] = id;
	return true;
}

void stet_fuse_ids_release_(struct stet_fuse_ids *ids)
{
	free(ids->id);
	*ids = (struct stet_fuse_ids){ 0 };
}

/* --- telling the kernel --- */

bool stet_fuse_inval_inode_(struct stet_fuse_server *server, uint64_t id, bool data)
{
	stet_fuse_count_(server, inodes_invalidated);
	return fuse_lowlevel_notify_inval_inode(server->session, id, data ? 0 : -1, 0) != -ENOENT;
}

void stet_fuse_inval_name_(struct stet_fuse_server *server, uint64_t dir_id, const char *name)
{
	stet_fuse_count_(server, names_invalidated);
	fuse_lowlevel_notify_inval_entry(server->session, dir_id, name, strlen(name));
}

/* I7. No entry has this name, so none is dropped. */
static void wait_for_lookups(struct stet_fuse_server *server, uint64_t dir_id)
{
	if (dir_id)
		stet_fuse_inval_name_(server, dir_id, "/");
}

/* What the kernel has, or is about to have, of an inode of the main tree. */
static void inval_main(struct stet_fuse_server *server, uint64_t ino, bool data)
{
	struct stet_fuse_node *node;
	uint64_t id, dir_id;

	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_of_locked_(server, &server->main_view, ino);
	id = node ? node->id : 0;
	dir_id = node ? node->dir_id : 0;
	pthread_mutex_unlock(&server->lock);
	if (!id || stet_fuse_inval_inode_(server, id, data))
		return;
	wait_for_lookups(server, dir_id);
	stet_fuse_inval_inode_(server, id, data);
}

/* The node id of an inode of the main tree, 0 if the kernel does not know it. */
static uint64_t main_id(struct stet_fuse_server *server, uint64_t ino)
{
	struct stet_fuse_node *node;
	uint64_t id;

	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_of_locked_(server, &server->main_view, ino);
	id = node ? node->id : 0;
	pthread_mutex_unlock(&server->lock);
	return id;
}

/* Steps 3 and 4. */
static void invalidate(struct stet_fuse_server *server, const struct stet_ll_touched *touched)
{
	const unsigned data = STET_LL_TOUCHED_DATA | STET_LL_TOUCHED_GROWN | STET_LL_TOUCHED_NAMES;
	const struct stet_fuse_publishing *p = server->publishing;

	for (size_t i = 0; i < touched->ino_count; i++)
		inval_main(server, touched->ino[i].ino, touched->ino[i].what & data);
	for (size_t i = 0; i < touched->name_count; i++) { /* I5 */
		uint64_t id = main_id(server, touched->name[i].dir);

		if (id)
			stet_fuse_inval_name_(server, id, touched->name[i].name);
	}
	/* The names by which a replaced node may be reached; they do not change any more. */
	for (size_t i = 0; i < p->count; i++)
		for (const struct stet_fuse_name *n = p->node[i]->names; n; n = n->next)
			stet_fuse_inval_name_(server, n->dir_id, n->name);
}

/* --- marking (steps 1 and 5) --- */

/* The place of an inode in what is touched, or SIZE_MAX. */
static size_t touched_at(const struct stet_fuse_touched *t, uint64_t ino)
{
	size_t low = 0, high = t->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->ino[mid] == ino)
			return mid;
		if (t->ino[mid] < ino)
			low = mid + 1;
		else
			high = mid;
	}
	return SIZE_MAX;
}

bool stet_fuse_touches_locked_(const struct stet_fuse_server *server, uint64_t ino)
{
	return server->touched.all || touched_at(&server->touched, ino) != SIZE_MAX;
}

uint64_t stet_fuse_size_locked_(const struct stet_fuse_server *server, uint64_t ino, uint64_t size)
{
	size_t at = touched_at(&server->touched, ino);
	uint64_t limit = at == SIZE_MAX ? UINT64_MAX : server->touched.limit[at];

	return size < limit ? size : limit; /* I6 */
}

void stet_fuse_note_write_(struct stet_fuse_server *server, uint64_t ino, uint64_t end)
{
	size_t at;

	pthread_rwlock_rdlock(&server->reply_lock);
	at = touched_at(&server->touched, ino);
	if (at != SIZE_MAX) {
		_Atomic uint64_t *limit = &server->touched.limit[at];
		uint64_t was = *limit;

		while (was < end && !atomic_compare_exchange_weak(limit, &was, end))
			;
	}
	pthread_rwlock_unlock(&server->reply_lock);
}

static void release_touched(struct stet_fuse_touched *touched)
{
	free(touched->ino);
	free(touched->limit);
}

/* I6. No answer can be sent meanwhile; attributes alone, which waits for nothing. */
static void drop_old_sizes_locked(struct stet_fuse_server *server)
{
	const struct stet_fuse_touched *t = &server->touched;

	for (size_t i = 0; i < t->count; i++) {
		uint64_t id = t->limit[i] == UINT64_MAX ? 0 : main_id(server, t->ino[i]);

		if (id)
			stet_fuse_inval_inode_(server, id, false);
	}
}

static void set_touched(struct stet_fuse_server *server, struct stet_fuse_touched touched)
{
	struct stet_fuse_touched last;

	pthread_rwlock_wrlock(&server->reply_lock);
	drop_old_sizes_locked(server);
	last = server->touched;
	server->touched = touched;
	atomic_fetch_add(&server->epoch, 1);
	pthread_rwlock_unlock(&server->reply_lock);
	release_touched(&last);
}

/* I6. The size of a file that only grows, if the kernel knows it; else no limit. */
static uint64_t limit_of(struct stet_fuse_server *server, const struct stet_ll_touched_ino *t)
{
	const unsigned others = STET_LL_TOUCHED_DATA | STET_LL_TOUCHED_NEW | STET_LL_TOUCHED_NAMES;
	struct stet_stat st;

	if (!(t->what & STET_LL_TOUCHED_GROWN) || (t->what & others) || !main_id(server, t->ino) ||
	    stet_ll_getattr(server->vol, NULL, t->ino, STET_LL_NOWAIT, &st) != 0)
		return UINT64_MAX;
	return st.size;
}

static void mark(struct stet_fuse_server *server, const struct stet_ll_touched *touched)
{
	size_t count = touched->ino_count;
	struct stet_fuse_touched set = {
		.ino = calloc(count + 1, sizeof(*set.ino)),
		.limit = calloc(count + 1, sizeof(*set.limit)),
	};

	set.all = !set.ino || !set.limit; /* I8 */
	for (size_t i = 0; !set.all && i < count; i++) {
		set.ino[i] = touched->ino[i].ino;
		set.limit[i] = limit_of(server, &touched->ino[i]);
		set.count++;
	}
	set_touched(server, set);
}

/* --- replacing (step 2) --- */

/* Under server.lock: an open file of the main tree whose bytes change? */
static struct stet_fuse_node *to_replace_locked(struct stet_fuse_server *server,
						const struct stet_ll_touched_ino *t)
{
	struct stet_fuse_node *node;

	if (!(t->what & STET_LL_TOUCHED_DATA) || (t->what & STET_LL_TOUCHED_NEW))
		return NULL;
	node = stet_fuse_node_of_locked_(server, &server->main_view, t->ino);
	return node && node->handles > 0 && node->type == S_IFREG ? node : NULL;
}

static size_t count_to_replace(struct stet_fuse_server *server,
			       const struct stet_ll_touched *touched)
{
	size_t count = 0;

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < touched->ino_count; i++)
		count += to_replace_locked(server, &touched->ino[i]) != NULL;
	pthread_mutex_unlock(&server->lock);
	return count;
}

/* Handles can only become fewer since they were counted (opening.c, I1). */
static void replace_locked(struct stet_fuse_server *server, const struct stet_ll_touched *touched)
{
	struct stet_fuse_publishing *p = server->publishing;

	for (size_t i = 0; i < touched->ino_count; i++) {
		struct stet_fuse_node *node = to_replace_locked(server, &touched->ino[i]);

		if (!node)
			continue;
		node->openings++;
		stet_fuse_node_replace_locked_(server, node, p->old);
		p->node[p->count++] = node;
	}
	for (size_t i = 0; i < p->count; i++) /* I3 */
		while (p->node[i]->calls > 0)
			pthread_cond_wait(&server->drained, &server->lock);
}

/* Without memory, or without a view, open files just see the new bytes. */
static void replace(struct stet_fuse_server *server, const struct stet_ll_touched *touched)
{
	struct stet_fuse_publishing *p = server->publishing;
	size_t count = count_to_replace(server, touched);
	int rc;

	if (count == 0)
		return;
	p->node = calloc(count, sizeof(struct stet_fuse_node *));
	rc = p->node ? stet_fuse_view_old_(server, &p->old) : -ENOMEM;
	if (rc) {
		stet_fuse_log_(LOG_WARNING, "open files see what transaction %llu changes: %s",
			       (unsigned long long)touched->txn_id, strerror(-rc));
		return;
	}
	pthread_mutex_lock(&server->lock);
	replace_locked(server, touched);
	pthread_mutex_unlock(&server->lock);
}

static void restore(struct stet_fuse_server *server)
{
	struct stet_fuse_publishing *p = server->publishing;

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < p->count; i++)
		stet_fuse_node_restore_locked_(server, p->node[i]);
	/* The view goes with our reference, if no node has it any more: then nobody else comes, but
	 * who is in it must have gone. */
	while (p->old && p->old->refs == 1 && p->old->calls > 0)
		pthread_cond_wait(&server->drained, &server->lock);
	pthread_mutex_unlock(&server->lock);
}

static void let_go(struct stet_fuse_server *server)
{
	struct stet_fuse_publishing *p = server->publishing;

	for (size_t i = 0; i < p->count; i++)
		stet_fuse_node_opening_(server, p->node[i], -1);
	free(p->node);
	if (p->old)
		stet_fuse_view_put_(server, p->old);
	*p = (struct stet_fuse_publishing){ 0 };
}

/* --- the volume has failed: what the kernel has, may never have been --- */

/* From now on the last durable state is shown, which does not change any more and may be cached. */
static void drop_all(struct stet_fuse_server *server)
{
	struct stet_fuse_ids ids = { 0 };
	struct stet_statfs st = { 0 };

	set_touched(server, (struct stet_fuse_touched){ 0 });
	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i <= server->by_id.mask; i++)
		for (struct stet_fuse_link *l = server->by_id.slot[i]; l; l = l->next) {
			const struct stet_fuse_node *node =
				stet_fuse_container_of(l, struct stet_fuse_node, by_id);

			if (node->kind == STET_FUSE_NODE_INO && node->view->kind == STET_FUSE_MAIN)
				stet_fuse_ids_add_(&ids, node->id);
		}
	pthread_mutex_unlock(&server->lock);
	for (size_t i = 0; i < ids.count; i++)
		stet_fuse_inval_inode_(server, ids.id[i], true);
	stet_fuse_ids_release_(&ids);
	if (stet_statfs(server->vol, &st))
		st.failure[0] = 0;
	stet_fuse_log_(LOG_CRIT,
		       "%s has failed: nothing can be changed until it is mounted again: %s",
		       server->volume, st.failure);
}

void stet_fuse_watch_(void *arg, enum stet_ll_phase phase, const struct stet_ll_touched *touched)
{
	struct stet_fuse_server *server = arg;

	switch (phase) {
	case STET_LL_BEFORE:
		mark(server, touched);
		replace(server, touched);
		invalidate(server, touched);
		break;
	case STET_LL_AFTER:
		invalidate(server, touched); /* before replaced nodes get new names again */
		if (touched->result)
			restore(server);
		set_touched(server, (struct stet_fuse_touched){ 0 });
		let_go(server);
		stet_fuse_openings_resume_(server);
		break;
	case STET_LL_FAILED:
		drop_all(server);
		break;
	}
}

int stet_fuse_publishing_init_(struct stet_fuse_server *server)
{
	server->publishing = calloc(1, sizeof(*server->publishing));
	return server->publishing ? 0 : -ENOMEM;
}

void stet_fuse_publishing_release_(struct stet_fuse_server *server)
{
	free(server->publishing);
	release_touched(&server->touched);
}
