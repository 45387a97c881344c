/* txn.c - requests about transactions. */
#include "serve/serve_internal.h"

#include <string.h>

#define PART_BYTES ((size_t)64 * 1024) /* of a list, sent together */

/* --- begin --- */

/* The transaction, begun, as a handle; or it is ended. */
static int64_t add_txn(struct stet_serve_call *c, struct stet_txn *txn)
{
	struct stet_serve_handle h = { .kind = STET_SERVE_TXN, .is_view = true, .txn = txn };
	uint64_t id = stet_transaction_id(txn);
	int rc;

	stet_api_txn_pin(txn);
	rc = stet_serve_opened_(c, &h, 0);
	if (!rc)
		stet_wire_put_u64(&c->out, id);
	return rc;
}

/* One more transaction: a new one, or (of not NULL) what that one began with. */
static int64_t begin_counted(struct stet_serve_call *c, uint32_t flags, struct stet_txn *of)
{
	struct stet_txn *txn;
	int rc;

	if (c->service->no_begin)
		return STET_FAIL(-ESHUTDOWN, "the volume is about to be closed");
	rc = stet_serve_admit_(c->session, true);
	if (rc)
		return rc;
	rc = of ? stet_begin_base(of, &txn) : stet_begin(c->vol, flags, &txn);
	if (rc) {
		stet_serve_dismiss_(c->session, true);
		return rc;
	}
	return add_txn(c, txn);
}

/* session.c, S6 */
static int64_t begin(struct stet_serve_call *c, uint32_t flags, struct stet_txn *of)
{
	int64_t rc;

	c->service->begins++;
	rc = begin_counted(c, flags, of);
	c->service->begins--;
	return rc;
}

/* S7 of session.c. A level that is not named is the one around; no part is safer than the whole. */
static int check_part(struct stet_serve_call *c, uint32_t flags)
{
	const unsigned safe = STET_BEGIN_SERIALIZABLE | STET_BEGIN_LOCKING;
	int rc = stet_api_check_begin(flags);

	if (!rc && (flags & safe) && !(stet_api_txn_flags(c->around) & safe))
		rc = STET_FAIL(
			-EOPNOTSUPP,
			"the transaction around it is not serializable, so no part of it is");
	return rc ? rc : stet_serve_admit_(c->session, true);
}

static int64_t begin_part(struct stet_serve_call *c, uint32_t flags)
{
	struct stet_serve_handle h = { .kind = STET_SERVE_TXN, .is_view = true, .txn = c->around };
	uint64_t id = stet_transaction_id(c->around);
	int rc = check_part(c, flags);

	if (rc)
		return rc;
	rc = stet_serve_part_begin_(c->session, c->around, flags & STET_BEGIN_READ_ONLY,
				    stet_serve_gone_, c, &h.own);
	if (rc) {
		stet_serve_dismiss_(c->session, true);
		return rc;
	}
	stet_api_txn_pin(h.txn);
	rc = stet_serve_opened_(c, &h, 0);
	if (!rc)
		stet_wire_put_u64(&c->out, id);
	return rc;
}

int64_t stet_serve_do_begin_(struct stet_serve_call *c)
{
	uint32_t flags = stet_wire_get_u32(&c->in);
	int rc = stet_serve_ready_(c);

	if (!rc && c->session->read_only && !(flags & STET_BEGIN_READ_ONLY))
		rc = STET_FAIL(-EROFS, "the volume was opened to be read only");
	if (rc)
		return rc;
	return c->around ? begin_part(c, flags) : begin(c, flags, NULL);
}

int64_t stet_serve_do_begin_base_(struct stet_serve_call *c)
{
	struct stet_serve_handle *of = stet_serve_handle_(c, STET_SERVE_TXN);
	int rc = stet_serve_ready_(c);

	return rc ? rc : begin(c, 0, of->txn);
}

/* --- end (session.c, S3) --- */

int64_t stet_serve_do_commit_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	uint32_t flags = stet_wire_get_u32(&c->in);
	int rc = stet_serve_ready_(c);

	if (rc)
		return rc;
	if (!stet_serve_ending_begin_(c->session, h, false))
		return STET_FAIL(-EAGAIN, "the transaction is being committed");
	rc = h->own ? stet_serve_part_end_(c->session, h->own, false) : stet_commit(h->txn, flags);
	if (!rc)
		stet_serve_handle_drop_(c->session, h);
	stet_serve_ending_end_(c->session, h);
	return rc;
}

int64_t stet_serve_do_abort_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	int rc = stet_serve_ready_(c);

	if (rc)
		return rc;
	stet_serve_ending_begin_(c->session, h, true);
	if (h->own)
		(void)!stet_serve_part_end_(c->session, h->own,
					    true); /* if not, the whole is spoiled */
	else if (!stet_api_txn_has_ended(h->txn))
		stet_abort(h->txn);
	stet_serve_handle_drop_(c->session, h);
	stet_serve_ending_end_(c->session, h);
	return 0;
}

/* --- in between --- */

/* What concerns a transaction as a whole is not for a part of it: others are at work there. */
static int whole(const struct stet_serve_handle *h)
{
	return h->own ? STET_FAIL(-EOPNOTSUPP,
				  "not in a part of another transaction (`stetfs run`)")
		      : 0;
}

int64_t stet_serve_do_freeze_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = whole(h);
	return rc ? rc : stet_freeze(h->txn);
}

int64_t stet_serve_do_lock_timeout_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	uint32_t timeout_ms = stet_wire_get_u32(&c->in);
	int rc = stet_serve_ready_(c);

	return rc ? rc : stet_lock_timeout(h->txn, timeout_ms);
}

int64_t stet_serve_do_savepoint_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	uint64_t savepoint;
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = h->own ? stet_api_part_savepoint(&h->own->api, &savepoint)
			    : stet_savepoint(h->txn, &savepoint);
	if (!rc)
		stet_wire_put_u64(&c->out, savepoint);
	return rc;
}

int64_t stet_serve_do_rollback_to_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	uint64_t savepoint = stet_wire_get_u64(&c->in);
	int rc = stet_serve_ready_(c);

	if (rc || !h->own)
		return rc ? rc : stet_rollback_to(h->txn, savepoint);
	return stet_serve_part_rollback_to_(c, h->own, savepoint);
}

int64_t stet_serve_do_savepoint_release_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	uint64_t savepoint = stet_wire_get_u64(&c->in);
	int rc = stet_serve_ready_(c);

	if (rc)
		return rc;
	return h->own ? stet_api_part_savepoint_release(&h->own->api, savepoint)
		      : stet_savepoint_release(h->txn, savepoint);
}

int64_t stet_serve_do_conflict_text_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = stet_serve_big_out_(c);
	if (rc)
		return rc;
	c->big_out[0] = 0;
	stet_conflict_text(h->txn, (char *)c->big_out, STET_WIRE_ARGS_MAX / 2);
	stet_wire_put_text(&c->out, (const char *)c->big_out);
	return 0;
}

/* --- lists --- */

struct sending {
	struct stet_serve_call *c;
	struct stet_wire_out list; /* in big_out */
};

static int flush(struct sending *s)
{
	int rc = s->list.len > 0 ? stet_serve_part_(s->c, s->list.len) : 0;

	s->list.len = 0;
	return rc;
}

typedef void put_fn(struct stet_wire_out *out, const void *item);

static int put_item(struct sending *s, put_fn *put, const void *item)
{
	size_t before = s->list.len;
	int rc;

	put(&s->list, item);
	if (s->list.bad && before > 0) { /* again, from the start of the buffer */
		s->list.bad = false;
		s->list.len = before;
		rc = flush(s);
		if (rc)
			return rc;
		put(&s->list, item);
	}
	if (s->list.bad)
		return STET_FAIL(-EMSGSIZE, "longer than a message");
	return s->list.len >= PART_BYTES ? flush(s) : 0;
}

static void put_entry(struct stet_wire_out *out, const void *item)
{
	stet_wire_put_txn(out, item);
}

static int send_txn(void *arg, const struct stet_txn_entry *entry)
{
	return put_item(arg, put_entry, entry);
}

static void put_change(struct stet_wire_out *out, const void *item)
{
	stet_wire_put_change(out, item);
}

static int send_change(void *arg, const struct stet_change *change)
{
	return put_item(arg, put_change, change);
}

static int begin_list(struct stet_serve_call *c, struct sending *ret)
{
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = stet_serve_big_out_(c);
	*ret = (struct sending){ .c = c, .list = { .p = c->big_out, .cap = STET_WIRE_DATA_MAX } };
	return rc;
}

int64_t stet_serve_do_txns_(struct stet_serve_call *c)
{
	struct sending s;
	int rc = begin_list(c, &s);

	if (!rc)
		rc = stet_txns(c->vol, send_txn, &s);
	return rc ? rc : flush(&s);
}

int64_t stet_serve_do_changes_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	struct sending s;
	int rc = begin_list(c, &s);

	if (!rc)
		rc = stet_changes(h->txn, send_change, &s);
	return rc ? rc : flush(&s);
}

/* --- giving up a part --- */

/* The paths in the data, as a list; it borrows them. Owned by the caller. */
static int list_paths(struct stet_serve_call *c, uint64_t count, const char ***ret)
{
	const char *at = (const char *)c->data;
	const char *end = at + c->data_len;
	const char **paths;

	if (count > c->data_len || (c->data_len > 0 && end[-1] != 0))
		return -EPROTO;
	if (!c->session->is_owner && c->data_len > STET_SERVE_PATHS_MAX)
		return STET_FAIL(-E2BIG, "more than %u bytes of paths", STET_SERVE_PATHS_MAX);
	paths = stet_calloc(count + 1, sizeof(*paths));
	if (!paths)
		return STET_FAIL(-ENOMEM, "no memory for %llu paths", (unsigned long long)count);
	for (uint64_t i = 0; i < count && at < end; i++) {
		paths[i] = at;
		at += strlen(at) + 1;
	}
	if (at != end || (count > 0 && !paths[count - 1])) {
		stet_free(paths);
		return -EPROTO;
	}
	*ret = paths;
	return 0;
}

int64_t stet_serve_do_revert_(struct stet_serve_call *c)
{
	struct stet_serve_handle *h = stet_serve_handle_(c, STET_SERVE_TXN);
	uint32_t flags = stet_wire_get_u32(&c->in);
	uint64_t count = stet_wire_get_u64(&c->in);
	char why[STET_ERROR_TEXT_SIZE] = "";
	const char **paths;
	int rc = stet_serve_ready_(c);

	if (!rc)
		rc = whole(h);
	if (!rc) {
		rc = list_paths(c, count, &paths);
		c->lost = rc == -EPROTO;
	}
	if (rc)
		return rc;
	if (stet_serve_ending_begin_(c->session, h, false)) {
		rc = stet_revert(h->txn, flags, paths, count, why, sizeof(why));
		stet_serve_ending_end_(c->session, h);
	} else {
		rc = STET_FAIL(-EAGAIN, "the transaction is being committed");
	}
	stet_free(paths);
	stet_wire_put_text(&c->out, why);
	return rc;
}
