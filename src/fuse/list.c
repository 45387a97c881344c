/* list.c - listing directories.
 *
 * A position (d_off) is an ordinal in the listing: "." is 0, ".." is 1, the entries follow in the
 * order of their names; the position handed to the kernel with entry n is n + 1.
 *
 * I1. A handle of the main tree lists the directory as it was when it was last read from the start
 *     (opendir, rewinddir): a directory of one batch is read in one atomic call; for a longer one a
 *     read-only snapshot is begun and kept until the handle is closed or rewound.
 * I2. In a transaction there is no older state to keep; reading goes on after the last name, so
 *     what stays in the directory is listed exactly once, whatever else is made or removed
 *     meanwhile.
 * I3. Every MARK-th name is kept, so that seekdir to any earlier position reads at most that many
 *     names.
 * I4. Attributes (READDIRPLUS) are never those of the listing but read when they are sent,
 *     together with a lookup: the kernel takes them for the truth. Of a name that does not lead
 *     to the same inode any more only the entry is sent.
 * I5. A snapshot may be ended by the library when space runs short; the listing then goes on with
 *     a new one, after the last name.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define BATCH 128u
#define MARK 256u
#define DOTS 2u /* "." and ".." */

struct stet_fuse_listing {
	pthread_mutex_t lock;      /* for all that follows */
	struct stet_txn *snapshot; /* I1; NULL: none needed yet */
	uint64_t base;             /* the entries without the dots: number of entry[0] */
	size_t count;
	bool at_end;                          /* none follow after these */
	char (*mark)[STET_FUSE_NAME_MAX + 1]; /* [i]: name of entry number MARK * (i + 1) - 1; I3 */
	size_t marks, marks_cap;
	struct stet_ll_entry entry[BATCH];
};

static struct stet_fuse_listing *create(void)
{
	struct stet_fuse_listing *l = calloc(1, sizeof(*l));

	if (l)
		pthread_mutex_init(&l->lock, NULL);
	return l;
}

void stet_fuse_listing_destroy_(struct stet_fuse_listing *l)
{
	if (!l)
		return;
	stet_abort(l->snapshot);
	pthread_mutex_destroy(&l->lock);
	free(l->mark);
	free(l);
}

static void rewind_listing(struct stet_fuse_listing *l)
{
	stet_abort(l->snapshot);
	l->snapshot = NULL;
	l->base = 0;
	l->count = 0;
	l->at_end = false;
	l->marks = 0;
}

/* --- reading in batches --- */

static void keep_mark(struct stet_fuse_listing *l, uint64_t number, const char *name)
{
	size_t at = (size_t)(number / MARK);

	if (number % MARK != MARK - 1 || at != l->marks)
		return;
	if (l->marks == l->marks_cap) {
		size_t cap = l->marks_cap ? l->marks_cap * 2 : 8;
		void *mark = realloc(l->mark, cap * sizeof(*l->mark));

		if (!mark)
			return; /* seeking reads more */
		l->mark = mark;
		l->marks_cap = cap;
	}
	memcpy(l->mark[l->marks++], name, STET_FUSE_NAME_MAX + 1);
}

static int begin_snapshot(struct stet_fuse_call *call, struct stet_fuse_listing *l)
{
	stet_abort(l->snapshot);
	l->snapshot = NULL;
	return stet_begin(call->server->vol, STET_BEGIN_READ_ONLY | STET_BEGIN_SNAPSHOT,
			  &l->snapshot);
}

static int read_once(struct stet_fuse_call *call, struct stet_fuse_listing *l, const char *after)
{
	struct stet_txn *txn = l->snapshot ? l->snapshot : call->txn;

	return stet_ll_readdir(call->server->vol, txn, call->node->ino, after, STET_LL_NOWAIT,
			       l->entry, BATCH);
}

static int read_anew(struct stet_fuse_call *call, struct stet_fuse_listing *l, const char *after)
{
	int rc = begin_snapshot(call, l);

	return rc ? rc : read_once(call, l, after);
}

/* Reads the batch that starts with entry `number`, the one after `after_name`. */
static int load(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t number,
		const char *after_name)
{
	bool is_main = call->view->kind == STET_FUSE_MAIN;
	char after[STET_FUSE_NAME_MAX + 1];
	int n;

	memcpy(after, after_name, strlen(after_name) + 1); /* it may lie in the batch */
	l->count = 0;
	if (is_main && number > 0 && !l->snapshot)
		n = read_anew(call, l, after);
	else
		n = read_once(call, l, after);
	if ((n == (int)BATCH && is_main && !l->snapshot) || /* I1: more than one */
	    (n == -ESTALE && l->snapshot))                  /* I5 */
		n = read_anew(call, l, after);
	if (n < 0)
		return n;
	l->base = number;
	l->count = (size_t)n;
	l->at_end = n < (int)BATCH;
	for (size_t i = 0; i < l->count; i++)
		keep_mark(l, number + i, l->entry[i].name);
	return 0;
}

/* Loads the batch with entry `number`, from the nearest mark before it (I3). */
static int seek(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t number)
{
	size_t at = (size_t)(number / MARK);
	char after[STET_FUSE_NAME_MAX + 1] = "";
	int rc;

	if (at > l->marks)
		at = l->marks;
	if (at > 0)
		memcpy(after, l->mark[at - 1], sizeof(after));
	rc = load(call, l, (uint64_t)at * MARK, after);
	while (!rc && !l->at_end && l->base + l->count <= number)
		rc = load(call, l, l->base + l->count, l->entry[l->count - 1].name);
	return rc;
}

/* *ret NULL: there are no more. */
static int get(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t number,
	       const struct stet_ll_entry **ret)
{
	uint64_t end = l->base + l->count;
	int rc = 0;

	*ret = NULL;
	if (number < l->base || number > end || (l->count == 0 && !l->at_end))
		rc = seek(call, l, number);
	else if (number == end && !l->at_end)
		rc = load(call, l, number, l->entry[l->count - 1].name);
	if (!rc && number >= l->base && number < l->base + l->count)
		*ret = &l->entry[number - l->base];
	return rc;
}

/* Entry at a position, the dots included. 1, 0 or an error; *ret: ino and type in its stat. */
static int entry_at(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t pos,
		    struct stet_ll_entry *ret)
{
	const struct stet_ll_entry *entry;
	int rc;

	if (pos < DOTS) {
		*ret = (struct stet_ll_entry){ .stat = { .ino = call->node->ino,
							 .mode = S_IFDIR } };
		memcpy(ret->name, "..", pos + 1); /* the rest is zero */
		return 1;
	}
	if (call->node->kind != STET_FUSE_NODE_INO)
		return stet_fuse_guard_entry_(call->server, call->node, pos - DOTS, ret);
	rc = get(call, l, pos - DOTS, &entry);
	if (rc < 0)
		return rc;
	if (!entry)
		return 0;
	*ret = *entry;
	return 1;
}

/* --- READDIR --- */

static uint64_t shown(const struct stet_fuse_call *call, const struct stet_ll_entry *entry)
{
	if (call->node->kind != STET_FUSE_NODE_INO)
		return entry->stat.ino; /* as it is shown already */
	return stet_fuse_show_ino_(call->view, entry->stat.ino);
}

static int fill(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t pos, char *buf,
		size_t cap, size_t *ret_len)
{
	struct stet_ll_entry entry;
	size_t len = 0;
	int rc;

	while ((rc = entry_at(call, l, pos, &entry)) == 1) {
		struct stat st = { .st_ino = shown(call, &entry), .st_mode = entry.stat.mode };
		size_t need = fuse_add_direntry(call->req, buf + len, cap - len, entry.name, &st,
						(off_t)(++pos));

		if (need > cap - len)
			break;
		len += need;
	}
	if (rc < 0 && len == 0)
		return rc;
	*ret_len = len;
	return 0;
}

void stet_fuse_op_readdir_(fuse_req_t req, fuse_ino_t id, size_t cap, off_t off,
			   struct fuse_file_info *fi)
{
	struct stet_fuse_listing *l = stet_fuse_handle_of_(fi)->listing;
	struct stet_fuse_call call;
	size_t len = 0;
	char *buf;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_ANY))
		return;
	buf = malloc(cap);
	pthread_mutex_lock(&l->lock);
	if (off == 0)
		rewind_listing(l);
	rc = buf ? fill(&call, l, (uint64_t)off, buf, cap, &len) : -ENOMEM;
	pthread_mutex_unlock(&l->lock);
	if (rc)
		stet_fuse_reply_rc_(&call, rc);
	else
		fuse_reply_buf(req, buf, len);
	free(buf);
	stet_fuse_call_end_(&call);
}

/* --- READDIRPLUS (I4) --- */

struct plus_entry {
	struct fuse_entry_param param; /* ino 0: only the entry */
	uint64_t ino, pos;
	char name[STET_FUSE_NAME_MAX + 1];
};

struct plus {
	struct plus_entry *entry;
	size_t count, cap;
};

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Looks one up as it is now. */
static void look_up(struct stet_fuse_call *call, struct plus_entry *e)
{
	struct stet_fuse_server *server = call->server;
	struct fuse_entry_param param;
	struct stet_stat st;

	if (call->node->kind != STET_FUSE_NODE_INO || is_dots(e->name))
		return;
	if (stet_ll_lookup(server->vol, call->txn, call->node->ino, e->name,
			   STET_LL_NOWAIT | STET_LL_HOLD, &st) != 0)
		return;
	if (st.ino != e->ino)
		stet_ll_unhold(server->vol, st.ino, 1);
	else if (stet_fuse_entry_(call, e->name, &st, &param) == 0)
		e->param = param;
}

static int collect(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t pos,
		   size_t cap, struct plus *plus)
{
	size_t len = 0;
	int rc = 0;

	while (plus->count < plus->cap) {
		struct plus_entry *e = &plus->entry[plus->count];
		struct stet_ll_entry entry;

		rc = entry_at(call, l, pos, &entry);
		if (rc != 1)
			break;
		len += fuse_add_direntry_plus(call->req, NULL, 0, entry.name, NULL, 0);
		if (len > cap)
			break;
		*e = (struct plus_entry){ .ino = entry.stat.ino, .pos = pos++ };
		memcpy(e->name, entry.name, sizeof(e->name));
		e->param.attr.st_ino = shown(call, &entry);
		e->param.attr.st_mode = entry.stat.mode;
		plus->count++;
	}
	if (rc < 0 && plus->count == 0)
		return rc;
	for (size_t i = 0; i < plus->count; i++)
		look_up(call, &plus->entry[i]);
	return 0;
}

static void forget_all(struct stet_fuse_server *server, const struct plus *plus)
{
	for (size_t i = 0; i < plus->count; i++)
		if (plus->entry[i].param.ino)
			stet_fuse_node_forget_(server, plus->entry[i].param.ino, 1);
}

/* Timeouts are decided and the answer sent under one hold of reply_lock (reply.c, I1). */
static void send_plus(struct stet_fuse_call *call, struct plus *plus, char *buf, size_t cap)
{
	struct stet_fuse_server *server = call->server;
	size_t len = 0;
	int rc;

	pthread_rwlock_rdlock(&server->reply_lock);
	for (size_t i = 0; i < plus->count; i++) {
		struct plus_entry *e = &plus->entry[i];

		if (e->param.ino)
			stet_fuse_timeouts_locked_(call, &e->param, e->ino);
		len += fuse_add_direntry_plus(call->req, buf + len, cap - len, e->name, &e->param,
					      (off_t)(e->pos + 1));
	}
	rc = fuse_reply_buf(call->req, buf, len);
	pthread_rwlock_unlock(&server->reply_lock);
	if (rc)
		forget_all(server, plus);
}

void stet_fuse_op_readdirplus_(fuse_req_t req, fuse_ino_t id, size_t cap, off_t off,
			       struct fuse_file_info *fi)
{
	struct stet_fuse_listing *l = stet_fuse_handle_of_(fi)->listing;
	struct plus plus = { .cap = cap / fuse_add_direntry_plus(req, NULL, 0, "x", NULL, 0) };
	struct stet_fuse_call call;
	char *buf;
	int rc;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_ANY))
		return;
	buf = malloc(cap);
	plus.entry = calloc(plus.cap + 1, sizeof(*plus.entry));
	pthread_mutex_lock(&l->lock);
	if (off == 0)
		rewind_listing(l);
	rc = buf && plus.entry ? collect(&call, l, (uint64_t)off, cap, &plus) : -ENOMEM;
	pthread_mutex_unlock(&l->lock);
	if (rc)
		stet_fuse_reply_rc_(&call, rc);
	else
		send_plus(&call, &plus, buf, cap);
	free(plus.entry);
	free(buf);
	stet_fuse_call_end_(&call);
}

/* --- handles --- */

void stet_fuse_op_opendir_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct stet_fuse_handle *handle = NULL;
	struct stet_fuse_server *server;
	struct stet_fuse_call call;

	if (!stet_fuse_call_begin_(&call, req, id, STET_FUSE_ANY))
		return;
	server = call.server;
	if (call.node->type != S_IFDIR) {
		fuse_reply_err(req, ENOTDIR);
	} else if (!(handle = stet_fuse_handle_create_(server, call.node, fi->flags)) ||
		   !(handle->listing = create())) {
		fuse_reply_err(req, ENOMEM);
		if (handle)
			stet_fuse_handle_destroy_(server, handle, false);
	} else {
		stet_fuse_node_handle_(server, call.node, 1);
		stet_fuse_node_opening_(server, call.node, -1);
		fi->fh = (uint64_t)(uintptr_t)handle;
		if (fuse_reply_open(req, fi))
			stet_fuse_handle_destroy_(server, handle, true);
	}
	stet_fuse_call_end_(&call);
}

void stet_fuse_op_releasedir_(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	stet_fuse_op_release_(req, id, fi);
}
