/* guard.c - the directories below .stet, which are not of the volume.
 *
 *	MOUNT/.stet              not listed in the root; anyone may pass
 *	MOUNT/.stet/txn          the open transactions
 *	MOUNT/.stet/txn/ID       guard: mode 0700, of the transaction's owner
 *	MOUNT/.stet/txn/ID/root  the tree as the transaction sees it
 *	MOUNT/.stet/txn/ID/base  the tree as it was when the transaction began; read-only
 *	MOUNT/.stet/snapshots    places for trees of the past, which this version does not have
 *	MOUNT/.stet/history
 *
 * I1. The kernel keeps nothing about them (timeouts of 0), so nothing about them is invalidated
 *     while the transaction is open: that would detach what is mounted on a view (`run` mounts its
 *     view somewhere else). When it has ended, the guard is (view.c, I6), as by any look at it.
 * I2. A guard's permissions are the only thing that keeps others out of a view; so nothing but
 *     the lookup of "root" or "base" in the guard leads to a view's nodes.
 * I3. Nothing can be made, renamed or removed in them: -EPERM; below the past: -EROFS.
 * I4. Mounted with nodotstet, .stet is not there. Its name stays reserved.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INO_FIXED (UINT64_C(0xffff) << 48)
#define INO_GUARD (UINT64_C(0xfffe) << 48)

bool stet_fuse_is_reserved_(const struct stet_fuse_node *dir, const char *name)
{
	return dir->kind == STET_FUSE_NODE_INO && dir->ino == STET_ROOT &&
	       strcmp(name, STET_FUSE_DOT_STET) == 0;
}

int stet_fuse_guard_refuses_(const struct stet_fuse_node *node)
{
	if (node->kind == STET_FUSE_NODE_INO)
		return 0;
	return node->kind == STET_FUSE_NODE_PAST ? EROFS : EPERM;
}

/* What is in .stet. */
static const struct {
	const char *name;
	uint64_t id;
} places[] = {
	{ "history", STET_FUSE_ID_HISTORY },
	{ "snapshots", STET_FUSE_ID_SNAPSHOTS },
	{ "txn", STET_FUSE_ID_TXNS },
};

#define PLACES (sizeof(places) / sizeof(places[0]))

static mode_t mode_of(const struct stet_fuse_node *node)
{
	if (node->kind == STET_FUSE_NODE_GUARD)
		return 0700;
	return node->kind == STET_FUSE_NODE_PAST ? 0555 : 0755;
}

/* Two, and one for each directory in it; 1: so many that nobody counts. */
static nlink_t links_of(const struct stet_fuse_node *node)
{
	switch (node->kind) {
	case STET_FUSE_NODE_STET:
		return 2 + PLACES;
	case STET_FUSE_NODE_GUARD:
		return 3;
	case STET_FUSE_NODE_TXNS:
		return 1;
	case STET_FUSE_NODE_INO:
	case STET_FUSE_NODE_PAST:
		break;
	}
	return 2;
}

static void fill(const struct stet_fuse_server *server, const struct stet_fuse_node *node,
		 struct stat *ret)
{
	const struct stet_fuse_view *view = node->view;
	bool is_guard = node->kind == STET_FUSE_NODE_GUARD;

	*ret = (struct stat){
		.st_ino = is_guard ? INO_GUARD | view->id : INO_FIXED | node->id,
		.st_mode = S_IFDIR | mode_of(node),
		.st_nlink = links_of(node),
		.st_uid = is_guard ? view->uid : geteuid(),
		.st_gid = is_guard ? view->gid : getegid(),
		.st_blksize = 4096,
	};
	ret->st_mtim.tv_sec = is_guard ? view->begun_s : server->main_view.begun_s;
	ret->st_atim = ret->st_ctim = ret->st_mtim;
}

void stet_fuse_guard_getattr_(struct stet_fuse_call *call)
{
	struct stat attr;

	fill(call->server, call->node, &attr);
	fuse_reply_attr(call->req, &attr, 0); /* I1 */
}

static void reply_guard(struct stet_fuse_call *call, const struct stet_fuse_node *node)
{
	struct fuse_entry_param entry = { .ino = node->id, .generation = STET_FUSE_GENERATION };

	fill(call->server, node, &entry.attr);
	if (fuse_reply_entry(call->req, &entry))
		stet_fuse_node_forget_(call->server, entry.ino, 1);
}

static void reply_fixed(struct stet_fuse_call *call, uint64_t id)
{
	struct stet_fuse_server *server = call->server;
	struct stet_fuse_node *node;

	pthread_mutex_lock(&server->lock);
	node = stet_fuse_node_find_locked_(server, id);
	pthread_mutex_unlock(&server->lock);
	reply_guard(call, node); /* always there */
}

/* The number in a name as begin printed it; 0: none. */
static uint64_t parse_id(const char *name)
{
	uint64_t id = 0;

	for (const char *c = name; *c; c++) {
		if (*c < '0' || *c > '9' || (id == 0 && *c == '0') || id > UINT64_MAX / 10 - 1)
			return 0;
		id = id * 10 + (uint64_t)(*c - '0');
	}
	return id;
}

static void lookup_txn(struct stet_fuse_call *call, const char *name)
{
	struct stet_fuse_server *server = call->server;
	uint64_t id = parse_id(name);
	struct stet_fuse_view *view = id ? stet_fuse_view_find_(server, id) : NULL;
	struct stet_fuse_node *node;
	int rc = view ? stet_fuse_node_guard_(server, view, &node) : -ENOENT;

	if (rc)
		stet_fuse_reply_rc_(call, rc);
	else
		reply_guard(call, node);
	if (view)
		stet_fuse_view_put_(server, view);
}

static void lookup_view(struct stet_fuse_call *call, const char *name)
{
	struct stet_stat st;
	int rc = stet_ll_getattr(call->server->vol, call->txn, STET_ROOT,
				 STET_LL_NOWAIT | STET_LL_HOLD, &st);

	if (rc)
		stet_fuse_reply_rc_(call, rc);
	else
		stet_fuse_reply_entry_(call, name, &st);
}

/* The call in the transaction keeps the other view as well (view.c, I8). */
static void lookup_base(struct stet_fuse_call *call)
{
	struct stet_fuse_call inner = *call;
	int rc = stet_fuse_view_base_(call->server, call->view, &inner.view);

	if (rc) {
		stet_fuse_reply_rc_(call, rc);
		return;
	}
	inner.txn = inner.view->txn;
	lookup_view(&inner, "base");
}

static void lookup_place(struct stet_fuse_call *call, const char *name)
{
	for (size_t i = 0; i < PLACES; i++)
		if (strcmp(name, places[i].name) == 0) {
			reply_fixed(call, places[i].id);
			return;
		}
	fuse_reply_err(call->req, ENOENT);
}

void stet_fuse_guard_lookup_(struct stet_fuse_call *call, const char *name)
{
	switch (call->node->kind) {
	case STET_FUSE_NODE_INO: /* the root of the main tree, the name is .stet */
		if (call->server->options->no_dot_stet) /* I4 */
			break;
		reply_fixed(call, STET_FUSE_ID_STET);
		return;
	case STET_FUSE_NODE_STET:
		lookup_place(call, name);
		return;
	case STET_FUSE_NODE_TXNS:
		lookup_txn(call, name);
		return;
	case STET_FUSE_NODE_GUARD:
		if (strcmp(name, "root") == 0) {
			lookup_view(call, name);
			return;
		}
		if (strcmp(name, "base") == 0) {
			lookup_base(call);
			return;
		}
		break;
	case STET_FUSE_NODE_PAST:
		break;
	}
	fuse_reply_err(call->req, ENOENT);
}

/* --- listing --- */

static void set_entry(struct stet_ll_entry *ret, uint64_t ino, const char *name)
{
	*ret = (struct stet_ll_entry){ .stat = { .ino = ino, .mode = S_IFDIR } };
	snprintf(ret->name, sizeof(ret->name), "%s", name);
}

static bool txn_entry(struct stet_fuse_server *server, uint64_t at, struct stet_ll_entry *ret)
{
	bool found = false;

	pthread_mutex_lock(&server->lock);
	for (struct stet_fuse_list *l = server->views.next; l != &server->views && !found;
	     l = l->next) {
		const struct stet_fuse_view *view = stet_fuse_container_of(l, struct stet_fuse_view,
									   link);
		char name[24];

		if (view->kind != STET_FUSE_TXN || view->is_base || view->state != STET_FUSE_OPEN ||
		    at-- > 0)
			continue;
		snprintf(name, sizeof(name), "%llu", (unsigned long long)view->id);
		set_entry(ret, INO_GUARD | view->id, name);
		found = true;
	}
	pthread_mutex_unlock(&server->lock);
	return found;
}

bool stet_fuse_guard_entry_(struct stet_fuse_server *server, const struct stet_fuse_node *node,
			    uint64_t at, struct stet_ll_entry *ret)
{
	switch (node->kind) {
	case STET_FUSE_NODE_STET:
		if (at < PLACES)
			set_entry(ret, INO_FIXED | places[at].id, places[at].name);
		return at < PLACES;
	case STET_FUSE_NODE_TXNS:
		return txn_entry(server, at, ret);
	case STET_FUSE_NODE_GUARD:
		if (at < 2)
			set_entry(ret, stet_fuse_show_ino_(node->view, STET_ROOT),
				  at == 0 ? "root" : "base");
		return at < 2;
	case STET_FUSE_NODE_INO:
	case STET_FUSE_NODE_PAST:
		break;
	}
	return false;
}
