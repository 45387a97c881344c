/* node.c - what the kernel knows: nodes, and the calls that work on them.
 *
 * I1. A node id is never used again, so an answer that comes late cannot meet another file.
 * I2. A node lives while the kernel has it looked up, has it open or is opening it, or a call
 *     works on it; while it lives it refers to its view, and holds its inode, so the file outlives
 *     its last name. Of a transaction that has ended the nodes hold nothing, not even with handles:
 *     no call gets in and no lookup comes, and the kernel may know them for as long as it likes.
 * I3. An inode has at most one node in a view that can be looked up. When a commit changes a file
 *     that is open in the main tree, its node is replaced: it leaves the index, and sees an OLD
 *     view from then on; the next lookup makes a new node. Directories are never replaced.
 * I4. A call counts in its node and in its view, and answers before it ends. So who has closed a
 *     view (or replaced a node) and seen its calls end, knows that nobody uses its transaction
 *     any more.
 * I5. Holds are counted as they come with lookups and are given back all at once, without the lock;
 *     who gives them back has set the count to 0, or taken the node out, under the lock before.
 *
 * Lock: server.lock, for all of it, held for a few instructions each time.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static uint64_t hash_of(const struct stet_fuse_view *view, uint64_t ino)
{
	return stet_fuse_mix(ino ^ stet_fuse_mix(view->seq));
}

struct stet_fuse_node *stet_fuse_node_find_locked_(struct stet_fuse_server *server, uint64_t id)
{
	uint64_t hash = stet_fuse_mix(id);
	struct stet_fuse_link *l = stet_fuse_table_chain(&server->by_id, hash);

	for (; l; l = l->next) {
		struct stet_fuse_node *node = stet_fuse_container_of(l, struct stet_fuse_node,
								     by_id);

		if (node->id == id)
			return node;
	}
	return NULL;
}

struct stet_fuse_node *stet_fuse_node_of_locked_(struct stet_fuse_server *server,
						 const struct stet_fuse_view *view, uint64_t ino)
{
	uint64_t hash = hash_of(view, ino);
	struct stet_fuse_link *l = stet_fuse_table_chain(&server->by_ino, hash);

	for (; l; l = l->next) {
		struct stet_fuse_node *node = stet_fuse_container_of(l, struct stet_fuse_node,
								     by_ino);

		if (l->hash == hash && node->ino == ino && node->view == view)
			return node;
	}
	return NULL;
}

/* --- life --- */

static struct stet_fuse_node *make_locked(struct stet_fuse_server *server, uint64_t id,
					  enum stet_fuse_node_kind kind,
					  struct stet_fuse_view *view, uint64_t ino, uint32_t mode)
{
	struct stet_fuse_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->id = id;
	node->kind = kind;
	node->view = view;
	node->ino = ino;
	node->type = mode & S_IFMT;
	view->refs++;
	stet_fuse_table_add(&server->by_id, &node->by_id, stet_fuse_mix(id));
	stet_fuse_table_add(&server->by_ino, &node->by_ino, hash_of(view, ino));
	stet_fuse_list_init(&node->of_view);
	stet_fuse_list_init(&node->open);
	if (view->kind == STET_FUSE_TXN)
		stet_fuse_list_add(&view->nodes, &node->of_view);
	return node;
}

/* Those that are always there. Their numbers in the index must not be an inode's: the volume gives
 * numbers in sequence and never comes near the top. */
static bool make_fixed(struct stet_fuse_server *server)
{
	static const struct {
		uint64_t id, ino;
		enum stet_fuse_node_kind kind;
	} fixed[] = {
		{ STET_FUSE_ID_ROOT, STET_ROOT, STET_FUSE_NODE_INO },
		{ STET_FUSE_ID_STET, UINT64_MAX, STET_FUSE_NODE_STET },
		{ STET_FUSE_ID_TXNS, UINT64_MAX - 1, STET_FUSE_NODE_TXNS },
		{ STET_FUSE_ID_SNAPSHOTS, UINT64_MAX - 2, STET_FUSE_NODE_PAST },
		{ STET_FUSE_ID_HISTORY, UINT64_MAX - 3, STET_FUSE_NODE_PAST },
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (!make_locked(server, fixed[i].id, fixed[i].kind, &server->main_view,
				 fixed[i].ino, S_IFDIR))
			return false;
	return true;
}

int stet_fuse_nodes_init_(struct stet_fuse_server *server)
{
	server->next_id = STET_FUSE_ID_FIRST;
	server->next_seq = 1;
	server->main_view = (struct stet_fuse_view){
		.kind = STET_FUSE_MAIN,
		.refs = 1,
		.begun_s = (int64_t)time(NULL),
	};
	stet_fuse_list_init(&server->main_view.link);
	stet_fuse_list_init(&server->main_view.nodes);
	stet_fuse_list_init(&server->views);
	if (!stet_fuse_table_init(&server->by_id) || !stet_fuse_table_init(&server->by_ino) ||
	    !make_fixed(server))
		return -ENOMEM;
	return 0;
}

static void free_names(struct stet_fuse_node *node)
{
	while (node->names) {
		struct stet_fuse_name *name = node->names;

		node->names = name->next;
		free(name);
	}
}

/* With the mount gone nobody asks any more; holds vanish with the volume. */
void stet_fuse_nodes_release_(struct stet_fuse_server *server)
{
	for (size_t i = 0; server->by_id.slot && i <= server->by_id.mask; i++) {
		struct stet_fuse_link *l = server->by_id.slot[i];

		while (l) {
			struct stet_fuse_node *node =
				stet_fuse_container_of(l, struct stet_fuse_node, by_id);

			l = l->next;
			free_names(node);
			if (stet_fuse_view_put_locked_(node->view))
				stet_fuse_view_destroy_(node->view);
			free(node);
		}
	}
	stet_fuse_table_release(&server->by_id);
	stet_fuse_table_release(&server->by_ino);
}

/* What is left to do without the lock when a node may have gone. */
struct leftover {
	struct stet_fuse_node *node; /* NULL: nothing */
	struct stet_fuse_view *view; /* to be destroyed, or NULL */
};

static struct leftover maybe_gone_locked(struct stet_fuse_server *server,
					 struct stet_fuse_node *node)
{
	struct leftover left = { 0 };

	if (node->lookups || node->handles || node->openings || node->calls ||
	    node->id < STET_FUSE_ID_FIRST)
		return left;
	stet_fuse_table_del(&server->by_id, &node->by_id);
	if (!node->replaced)
		stet_fuse_table_del(&server->by_ino, &node->by_ino);
	stet_fuse_list_del(&node->of_view);
	left.node = node;
	if (stet_fuse_view_put_locked_(node->view))
		left.view = node->view;
	return left;
}

/* I5 */
static void finish(struct stet_fuse_server *server, struct leftover left)
{
	if (!left.node)
		return;
	if (left.node->holds)
		stet_ll_unhold(server->vol, left.node->ino, left.node->holds);
	free_names(left.node);
	free(left.node);
	if (left.view)
		stet_fuse_view_destroy_(left.view);
}

void stet_fuse_nodes_let_go_(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	bool more = true;

	while (more) {
		uint64_t ino = 0, holds = 0;

		pthread_mutex_lock(&server->lock);
		more = !stet_fuse_list_empty(&view->nodes);
		if (more) {
			struct stet_fuse_node *node = stet_fuse_container_of(
				view->nodes.next, struct stet_fuse_node, of_view);

			stet_fuse_list_del(&node->of_view);
			ino = node->ino;
			holds = node->holds;
			node->holds = 0;
		}
		pthread_mutex_unlock(&server->lock);
		if (holds)
			stet_ll_unhold(server->vol, ino, holds);
	}
}

static struct stet_fuse_node *look_locked(struct stet_fuse_server *server,
					  enum stet_fuse_node_kind kind,
					  struct stet_fuse_view *view, uint64_t ino, uint32_t mode)
{
	struct stet_fuse_node *node = stet_fuse_node_of_locked_(server, view, ino);

	if (!node)
		node = make_locked(server, server->next_id++, kind, view, ino, mode); /* I1 */
	if (node)
		node->lookups++;
	return node;
}

int stet_fuse_node_look_(struct stet_fuse_server *server, struct stet_fuse_view *view, uint64_t ino,
			 uint32_t mode, struct stet_fuse_node **ret)
{
	struct stet_fuse_node *node;

	pthread_mutex_lock(&server->lock);
	node = look_locked(server, STET_FUSE_NODE_INO, view, ino, mode);
	if (node)
		node->holds++;
	pthread_mutex_unlock(&server->lock);
	if (!node) {
		stet_ll_unhold(server->vol, ino, 1);
		return -ENOMEM;
	}
	*ret = node;
	return 0;
}

int stet_fuse_node_guard_(struct stet_fuse_server *server, struct stet_fuse_view *view,
			  struct stet_fuse_node **ret)
{
	struct stet_fuse_node *node;

	pthread_mutex_lock(&server->lock);
	node = look_locked(server, STET_FUSE_NODE_GUARD, view, 0, S_IFDIR);
	pthread_mutex_unlock(&server->lock);
	if (!node)
		return -ENOMEM;
	*ret = node;
	return 0;
}

void stet_fuse_node_forget_(struct stet_fuse_server *server, uint64_t id, uint64_t count)
{
	struct leftover left = { 0 };
	struct stet_fuse_node *node;

	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_find_locked_(server, id);
	if (node) {
		node->lookups -= count < node->lookups ? count : node->lookups;
		left = maybe_gone_locked(server, node);
	}
	pthread_mutex_unlock(&server->lock);
	finish(server, left);
}

void stet_fuse_node_opening_(struct stet_fuse_server *server, struct stet_fuse_node *node, int step)
{
	struct leftover left;

	pthread_mutex_lock(&server->lock);
	node->openings += (uint64_t)(int64_t)step;
	left = maybe_gone_locked(server, node);
	pthread_mutex_unlock(&server->lock);
	finish(server, left);
}

void stet_fuse_node_handle_(struct stet_fuse_server *server, struct stet_fuse_node *node, int step)
{
	struct leftover left;

	pthread_mutex_lock(&server->lock);
	node->handles += (uint64_t)(int64_t)step;
	node->view->handles += (uint64_t)(int64_t)step;
	left = maybe_gone_locked(server, node);
	pthread_mutex_unlock(&server->lock);
	finish(server, left);
}

/* --- replacing (I3) --- */

void stet_fuse_node_replace_locked_(struct stet_fuse_server *server, struct stet_fuse_node *node,
				    struct stet_fuse_view *old)
{
	stet_fuse_table_del(&server->by_ino, &node->by_ino);
	node->replaced = true;
	node->view->handles -= node->handles;
	node->view->refs--; /* of main, which stays */
	node->view = old;
	old->refs++;
	old->handles += node->handles;
	stet_fuse_count_(server, nodes_replaced);
}

/* The commit did not happen: it may see the main tree again, unless the inode got a new node. The
 * caller holds a reference to the OLD view. */
void stet_fuse_node_restore_locked_(struct stet_fuse_server *server, struct stet_fuse_node *node)
{
	struct stet_fuse_view *main_view = &server->main_view;

	if (!node->replaced || stet_fuse_node_of_locked_(server, main_view, node->ino))
		return;
	node->view->handles -= node->handles;
	node->view->refs--;
	node->view = main_view;
	main_view->refs++;
	main_view->handles += node->handles;
	node->replaced = false;
	stet_fuse_table_add(&server->by_ino, &node->by_ino, hash_of(main_view, node->ino));
}

/* --- names --- */

static struct stet_fuse_name *new_name(uint64_t dir_id, const char *name)
{
	size_t size = strlen(name) + 1;
	struct stet_fuse_name *n = malloc(sizeof(*n) + size);

	if (n) {
		n->dir_id = dir_id;
		memcpy(n->name, name, size);
	}
	return n;
}

static void add_name_locked(struct stet_fuse_node *node, uint64_t dir_id, const char *name)
{
	struct stet_fuse_name *n = node->names;

	while (n && !(n->dir_id == dir_id && strcmp(n->name, name) == 0))
		n = n->next;
	if (n)
		return;
	if (node->names_count < STET_FUSE_NAMES_MAX)
		n = new_name(dir_id, name);
	if (!n) {
		node->names_overflow = true;
		return;
	}
	n->next = node->names;
	node->names = n;
	node->names_count++;
}

void stet_fuse_node_name_(struct stet_fuse_server *server, struct stet_fuse_node *node,
			  uint64_t dir_id, const char *name)
{
	pthread_mutex_lock(&server->lock);
	node->dir_id = dir_id;
	if (node->type == S_IFREG && node->view->kind != STET_FUSE_OLD && !node->view->read_only)
		add_name_locked(node, dir_id, name);
	pthread_mutex_unlock(&server->lock);
}

bool stet_fuse_node_known_name_(struct stet_fuse_server *server, const struct stet_fuse_view *view,
				uint64_t ino, unsigned at, struct stet_ll_name *ret)
{
	const struct stet_fuse_node *node, *dir;
	const struct stet_fuse_name *n;

	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_of_locked_(server, view, ino);
	n = node ? node->names : NULL;
	while (n && at-- > 0)
		n = n->next;
	if (n) {
		dir = stet_fuse_node_find_locked_(server, n->dir_id);
		ret->dir = dir ? dir->ino : 0; /* 0: forgotten, and nowhere */
		snprintf(ret->name, sizeof(ret->name), "%s", n->name);
	}
	pthread_mutex_unlock(&server->lock);
	return n;
}

/* --- calls --- */

static bool may_enter(const struct stet_fuse_node *node, fuse_req_t req,
		      enum stet_fuse_access access)
{
	const struct stet_fuse_view *view = node->view;

	switch (view->state) {
	case STET_FUSE_OPEN:
		return true;
	case STET_FUSE_CLOSING:
		return access == STET_FUSE_WRITEBACK ||
		       (view->flusher && view->flusher == fuse_req_ctx(req)->pid);
	case STET_FUSE_PAUSED: /* see wait_for_view_locked */
	case STET_FUSE_CLOSED:
	case STET_FUSE_ENDED:
		break;
	}
	return false;
}

/* The node, when its view does not pause; NULL: there is none, or it has gone meanwhile. */
static struct stet_fuse_node *wait_for_view_locked(struct stet_fuse_server *server, fuse_ino_t id)
{
	struct stet_fuse_node *node = stet_fuse_node_find_locked_(server, id);

	while (node && node->view->state == STET_FUSE_PAUSED) {
		pthread_cond_wait(&server->drained, &server->lock);
		node = stet_fuse_node_find_locked_(server, id);
	}
	return node;
}

bool stet_fuse_call_begin_(struct stet_fuse_call *call, fuse_req_t req, fuse_ino_t id,
			   enum stet_fuse_access access)
{
	struct stet_fuse_server *server = fuse_req_userdata(req);
	struct stet_fuse_node *node;
	int err = 0;

	stet_fuse_count_(server, requests);
	pthread_mutex_lock(&server->lock);
	node = wait_for_view_locked(server, id);
	if (!node || !may_enter(node, req, access))
		err = ESTALE;
	else if (access == STET_FUSE_NO_GUARDS)
		err = stet_fuse_guard_refuses_(node);
	if (!err) {
		node->calls++;
		node->view->calls++;
		*call = (struct stet_fuse_call){
			.server = server,
			.req = req,
			.node = node,
			.view = node->view,
			.txn = node->view->txn,
			.epoch = atomic_load(&server->epoch),
		};
	}
	pthread_mutex_unlock(&server->lock);
	if (err)
		fuse_reply_err(req, err);
	return !err;
}

void stet_fuse_call_end_(struct stet_fuse_call *call)
{
	struct stet_fuse_server *server = call->server;
	struct leftover left;

	pthread_mutex_lock(&server->lock);
	call->view->calls--;
	call->node->calls--;
	if (call->view->calls == 0 || call->node->calls == 0)
		pthread_cond_broadcast(&server->drained);
	left = maybe_gone_locked(server, call->node);
	pthread_mutex_unlock(&server->lock);
	finish(server, left);
}

int stet_fuse_call_second_(struct stet_fuse_call *call, fuse_ino_t id, struct stet_fuse_node **ret)
{
	struct stet_fuse_server *server = call->server;
	struct stet_fuse_node *node;
	int rc = 0;

	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_find_locked_(server, id);
	if (!node)
		rc = -ESTALE;
	else if (stet_fuse_guard_refuses_(node))
		rc = -stet_fuse_guard_refuses_(node);
	else if (node->view != call->view &&
		 !(node->view->kind == STET_FUSE_OLD && call->view->kind == STET_FUSE_MAIN))
		rc = -EXDEV;
	if (!rc) {
		node->calls++;
		*ret = node;
	}
	pthread_mutex_unlock(&server->lock);
	return rc;
}

void stet_fuse_call_release_second_(struct stet_fuse_call *call, struct stet_fuse_node *node)
{
	struct stet_fuse_server *server = call->server;
	struct leftover left;

	pthread_mutex_lock(&server->lock);
	node->calls--;
	if (node->calls == 0)
		pthread_cond_broadcast(&server->drained);
	left = maybe_gone_locked(server, node);
	pthread_mutex_unlock(&server->lock);
	finish(server, left);
}
