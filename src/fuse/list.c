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
 *     names; beyond MARKS_MAX names for all listings together, seeking reads more.
 * I4. Attributes (READDIRPLUS) are never those of the listing but read when they are sent,
 *     together with a lookup: the kernel takes them for the truth. Of a name that does not lead
 *     to the same inode any more only the entry is sent.
 * I5. A snapshot may be ended by the library when space runs short; the listing then goes on with
 *     a new one, after the last name.
 * I6. What a listing keeps, a batch and a snapshot, it keeps as one of KEPT_MAX (and USER_MAX of one
 *     user who is neither root nor us): the one that was longest not read gives way, and goes on as
 *     in I5. So open directories, of which users may have as many as they like, cost little.
 *
 * Locks: a listing's own; then server.kept_lock, for the list of those that keep something. Who makes
 * another one give way only tries to take its lock.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 128u
#define MARK 256u
#define MARKS_MAX 65536u
#define DOTS 2u /* "." and ".." */
#define KEPT_MAX 1024u
#define USER_MAX 256u

/* Entries read at once: inode numbers and types, then the names, each with its NUL. */
struct batch {
	uint64_t base; /* the entries without the dots: number of the first */
	size_t count;
	bool at_end; /* none follow after these */
	char *names; /* in this same piece of memory: the one before the first, then theirs */
	struct {
		uint64_t ino;
		uint32_t mode;
		uint32_t name_at;
	} entry[];
};

struct stet_fuse_listing {
	/* --- set when made, then constant --- */
	struct stet_fuse_server *server;
	uid_t uid; /* who opened it */

	/* --- under lock --- */
	pthread_mutex_t lock;
	struct stet_txn *snapshot; /* I1; NULL: none needed yet, or given up */
	struct batch *batch;       /* owned; NULL: none */
	uint64_t next;             /* number of the entry after the last that was sent */
	char *last_name; /* owned; of a batch that gave way: the name of the one before that; NULL: none */
	uint64_t after_last; /* `next`, then */
	char **mark; /* [i]: name of entry number MARK * (i + 1) - 1; owned, as they are; I3 */
	size_t marks, marks_cap;

	/* --- under server.kept_lock --- */
	struct stet_fuse_list kept; /* server.kept, the one longest not read first */
};

static struct stet_fuse_listing *create(struct stet_fuse_server *server, uid_t uid)
{
	struct stet_fuse_listing *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->server = server;
	l->uid = uid;
	pthread_mutex_init(&l->lock, NULL);
	stet_fuse_list_init(&l->kept);
	return l;
}

/* --- what is kept (I6) --- */

/* Under l's lock; it is in no list. */
static void give_up_kept(struct stet_fuse_listing *l)
{
	stet_abort(l->snapshot);
	l->snapshot = NULL;
	free(l->batch);
	l->batch = NULL;
}

static void unlist(struct stet_fuse_listing *l)
{
	pthread_mutex_lock(&l->server->kept_lock);
	stet_fuse_list_del(&l->kept);
	pthread_mutex_unlock(&l->server->kept_lock);
}

static const char *name_of(const struct batch *b, size_t i)
{
	return b->names + b->entry[i].name_at;
}

/* Remembers where it was, and gives up the rest. */
static void give_way(struct stet_fuse_listing *l)
{
	const struct batch *b = l->batch;

	if (b) {
		uint64_t at = l->next - b->base;

		free(l->last_name);
		l->last_name = NULL;
		l->after_last = l->next;
		if (at == 0)
			l->last_name = strdup(b->names);
		else if (at <= b->count)
			l->last_name = strdup(name_of(b, at - 1));
	}
	give_up_kept(l);
}

/* Under kept_lock. The one that must give way for l, locked and out of the list; NULL: none. */
static struct stet_fuse_listing *find_victim_locked(struct stet_fuse_server *server,
						    const struct stet_fuse_listing *l)
{
	bool limited = l->uid != 0 && l->uid != geteuid();
	struct stet_fuse_listing *first = NULL, *own = NULL, *victim;
	unsigned all = 0, of_user = 0;

	for (struct stet_fuse_list *at = server->kept.next; at != &server->kept; at = at->next) {
		struct stet_fuse_listing *other =
			stet_fuse_container_of(at, struct stet_fuse_listing, kept);

		all++;
		of_user += other->uid == l->uid;
		if (other == l)
			continue;
		first = first ? first : other;
		if (!own && other->uid == l->uid)
			own = other;
	}
	if (limited && of_user > USER_MAX)
		victim = own;
	else
		victim = all > KEPT_MAX ? first : NULL;
	if (!victim || pthread_mutex_trylock(&victim->lock) != 0)
		return NULL; /* it is being read: next time */
	stet_fuse_list_del(&victim->kept);
	return victim;
}

/* After l was read: it is the last to give way. */
static void keep(struct stet_fuse_listing *l)
{
	struct stet_fuse_server *server = l->server;
	struct stet_fuse_listing *victim = NULL;

	pthread_mutex_lock(&server->kept_lock);
	stet_fuse_list_del(&l->kept);
	if (l->batch || l->snapshot) {
		stet_fuse_list_add(&server->kept, &l->kept);
		victim = find_victim_locked(server, l);
	}
	pthread_mutex_unlock(&server->kept_lock);
	if (!victim)
		return;
	give_way(victim);
	pthread_mutex_unlock(&victim->lock);
}

static void drop_marks(struct stet_fuse_listing *l)
{
	atomic_fetch_sub(&l->server->listing_marks, l->marks);
	while (l->marks > 0)
		free(l->mark[--l->marks]);
}

void stet_fuse_listing_destroy_(struct stet_fuse_listing *l)
{
	if (!l)
		return;
	unlist(l);
	pthread_mutex_lock(&l->lock); /* who makes it give way, has done so */
	give_up_kept(l);
	drop_marks(l);
	pthread_mutex_unlock(&l->lock);
	pthread_mutex_destroy(&l->lock);
	free(l->mark);
	free(l->last_name);
	free(l);
}

static void rewind_listing(struct stet_fuse_listing *l)
{
	unlist(l);
	give_up_kept(l);
	drop_marks(l);
	free(l->last_name);
	l->last_name = NULL;
	l->next = 0;
}

/* --- reading in batches --- */

static void keep_mark(struct stet_fuse_listing *l, uint64_t number, const char *name)
{
	size_t at = (size_t)(number / MARK);

	if (number % MARK != MARK - 1 || at != l->marks ||
	    atomic_load(&l->server->listing_marks) >= MARKS_MAX)
		return;
	if (l->marks == l->marks_cap) {
		size_t cap = l->marks_cap ? l->marks_cap * 2 : 8;
		void *mark = realloc(l->mark, cap * sizeof(*l->mark));

		if (!mark)
			return; /* seeking reads more */
		l->mark = mark;
		l->marks_cap = cap;
	}
	l->mark[l->marks] = strdup(name);
	if (!l->mark[l->marks])
		return;
	l->marks++;
	atomic_fetch_add(&l->server->listing_marks, 1);
}

static int begin_snapshot(struct stet_fuse_call *call, struct stet_fuse_listing *l)
{
	stet_abort(l->snapshot);
	l->snapshot = NULL;
	return stet_begin(call->server->vol, STET_BEGIN_READ_ONLY | STET_BEGIN_SNAPSHOT,
			  &l->snapshot);
}

static int read_once(struct stet_fuse_call *call, struct stet_fuse_listing *l, const char *after,
		     struct stet_ll_entry *ret)
{
	struct stet_txn *txn = l->snapshot ? l->snapshot : call->txn;

	return stet_ll_readdir(call->server->vol, txn, call->node->ino, after, STET_LL_NOWAIT, ret,
			       BATCH);
}

static int read_anew(struct stet_fuse_call *call, struct stet_fuse_listing *l, const char *after,
		     struct stet_ll_entry *ret)
{
	int rc = begin_snapshot(call, l);

	return rc ? rc : read_once(call, l, after, ret);
}

static struct batch *pack(const struct stet_ll_entry *entry, size_t count, uint64_t base,
			  const char *before)
{
	struct batch *b;
	size_t before_len = strlen(before) + 1;
	size_t names = before_len;
	size_t head = sizeof(*b) + count * sizeof(b->entry[0]);

	for (size_t i = 0; i < count; i++)
		names += strlen(entry[i].name) + 1;
	b = malloc(head + names);
	if (!b)
		return NULL;
	*b = (struct batch){
		.base = base,
		.count = count,
		.at_end = count < BATCH,
		.names = (char *)b + head,
	};
	memcpy(b->names, before, before_len);
	names = before_len;
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(entry[i].name) + 1;

		b->entry[i].ino = entry[i].stat.ino;
		b->entry[i].mode = stet_fuse_show_mode_(entry[i].stat.mode);
		b->entry[i].name_at = (uint32_t)names;
		memcpy(b->names + names, entry[i].name, len);
		names += len;
	}
	return b;
}

/* Reads the entries after a name into ret; number: of the first. */
static int read_batch(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t number,
		      const char *after, struct stet_ll_entry *ret)
{
	bool is_main = call->view->kind == STET_FUSE_MAIN;
	int n;

	if (is_main && number > 0 && !l->snapshot)
		n = read_anew(call, l, after, ret);
	else
		n = read_once(call, l, after, ret);
	if ((n == (int)BATCH && is_main && !l->snapshot) || /* I1: more than one */
	    (n == -ESTALE && l->snapshot))                  /* I5 */
		n = read_anew(call, l, after, ret);
	return n;
}

/* Reads the batch that starts with entry `number`, the one after `after`, which may lie in the batch
 * that there is. */
static int load(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t number,
		const char *after)
{
	struct stet_ll_entry *entry = malloc(BATCH * sizeof(*entry));
	struct batch *b;
	int n = entry ? read_batch(call, l, number, after, entry) : -ENOMEM;

	b = n < 0 ? NULL : pack(entry, (size_t)n, number, after);
	free(entry);
	if (!b)
		return n < 0 ? n : -ENOMEM;
	free(l->batch);
	l->batch = b;
	for (size_t i = 0; i < b->count; i++)
		keep_mark(l, number + i, name_of(b, i));
	return 0;
}

static int load_next(struct stet_fuse_call *call, struct stet_fuse_listing *l)
{
	const struct batch *b = l->batch;

	return load(call, l, b->base + b->count, name_of(b, b->count - 1));
}

/* Loads the batch with entry `number`, from the nearest mark before it (I3). */
static int seek(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t number)
{
	size_t at = (size_t)(number / MARK);
	int rc;

	if (at > l->marks)
		at = l->marks;
	rc = load(call, l, (uint64_t)at * MARK, at > 0 ? l->mark[at - 1] : "");
	while (!rc && !l->batch->at_end && l->batch->base + l->batch->count <= number)
		rc = load_next(call, l);
	return rc;
}

/* *ret: where it is in the batch; SIZE_MAX: there are no more. */
static int get(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t number,
	       size_t *ret)
{
	const struct batch *b = l->batch;
	int rc = 0;

	*ret = SIZE_MAX;
	if (!b && l->last_name && l->after_last == number)
		rc = load(call, l, number, l->last_name);
	else if (!b || number < b->base || number > b->base + b->count)
		rc = seek(call, l, number);
	else if (number == b->base + b->count && !b->at_end)
		rc = load_next(call, l);
	b = l->batch;
	if (rc)
		return rc;
	if (number >= b->base && number < b->base + b->count)
		*ret = (size_t)(number - b->base);
	return 0;
}

/* Entry at a position, the dots included. 1, 0 or an error; *ret: ino and type in its stat. */
static int entry_at(struct stet_fuse_call *call, struct stet_fuse_listing *l, uint64_t pos,
		    struct stet_ll_entry *ret)
{
	size_t at;
	int rc;

	if (pos < DOTS) {
		*ret = (struct stet_ll_entry){ .stat = { .ino = call->node->ino,
							 .mode = S_IFDIR } };
		memcpy(ret->name, "..", pos + 1); /* the rest is zero */
		return 1;
	}
	if (call->node->kind != STET_FUSE_NODE_INO)
		return stet_fuse_guard_entry_(call->server, call->node, pos - DOTS, ret);
	rc = get(call, l, pos - DOTS, &at);
	if (rc < 0)
		return rc;
	if (at == SIZE_MAX)
		return 0;
	*ret = (struct stet_ll_entry){ .stat = { .ino = l->batch->entry[at].ino,
						 .mode = l->batch->entry[at].mode } };
	snprintf(ret->name, sizeof(ret->name), "%s", name_of(l->batch, at));
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
						(off_t)(pos + 1));

		if (need > cap - len)
			break;
		len += need;
		pos++;
	}
	l->next = pos > DOTS ? pos - DOTS : 0;
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
	keep(l);
	pthread_mutex_unlock(&l->lock);
	if (!rc && call.node->kind == STET_FUSE_NODE_INO)
		stet_fuse_accessed_(&call, stet_fuse_handle_of_(fi));
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
	l->next = pos > DOTS ? pos - DOTS : 0;
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
	keep(l);
	pthread_mutex_unlock(&l->lock);
	if (!rc && call.node->kind == STET_FUSE_NODE_INO)
		stet_fuse_accessed_(&call, stet_fuse_handle_of_(fi));
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
		   !(handle->listing = create(server, fuse_req_ctx(req)->uid))) {
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
