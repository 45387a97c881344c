/* txn.c - transactions of a volume that another process holds. */
#include "remote/remote_internal.h"

#include "base/text.h"

#include <string.h>

/* --- begin --- */

/* Does the call that begins a transaction. txn: owned. */
static int take_txn(struct stet_remote_call *c, struct stet_remote_txn *txn,
		    struct stet_txn **ret_txn)
{
	int rc = stet_remote_finish_open_(c, &txn->h, &txn->number);

	if (rc)
		stet_free(txn);
	else
		*ret_txn = (struct stet_txn *)(void *)txn;
	return rc;
}

int stet_remote_begin(struct stet_volume *vol, unsigned flags, struct stet_txn **ret_txn)
{
	struct stet_remote_txn *txn = stet_calloc(1, sizeof(*txn));
	struct stet_remote_call c;

	if (!txn)
		return STET_FAIL(-ENOMEM, "no memory for a transaction");
	stet_remote_begin_(&c, stet_remote_volume_(vol), STET_WIRE_BEGIN);
	stet_wire_put_u32(&c.out, flags);
	return take_txn(&c, txn, ret_txn);
}

int stet_remote_begin_base(struct stet_txn *of, struct stet_txn **ret_txn)
{
	struct stet_remote_txn *txn = stet_calloc(1, sizeof(*txn));
	struct stet_remote_call c;

	if (!txn)
		return STET_FAIL(-ENOMEM, "no memory for a transaction");
	stet_remote_begin_on_(&c, &stet_remote_txn_(of)->h, STET_WIRE_BEGIN_BASE);
	return take_txn(&c, txn, ret_txn);
}

/* --- end --- */

int stet_remote_commit(struct stet_txn *txn, unsigned flags)
{
	struct stet_remote_txn *handle = stet_remote_txn_(txn);
	struct stet_remote_call c;
	int64_t rc;

	stet_error_clear();
	stet_remote_begin_end_(&c, &handle->h, STET_WIRE_COMMIT);
	stet_wire_put_u32(&c.out, flags);
	rc = stet_remote_finish_(&c);
	if (!rc) {
		stet_remote_handle_closed_(handle->h.vol);
		stet_free(handle);
	}
	return (int)rc;
}

/* If the server cannot be told, it has gone, and the transaction with it. */
void stet_remote_abort(struct stet_txn *txn)
{
	struct stet_remote_txn *handle = stet_remote_txn_(txn);

	stet_remote_close_(&handle->h, STET_WIRE_ABORT);
	stet_free(handle);
}

/* --- in between --- */

/* Begins a call on a transaction. */
static void begin(struct stet_remote_call *c, struct stet_txn *txn, uint32_t kind)
{
	stet_remote_begin_on_(c, &stet_remote_txn_(txn)->h, kind);
}

int stet_remote_freeze(struct stet_txn *txn)
{
	struct stet_remote_call c;

	begin(&c, txn, STET_WIRE_FREEZE);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_lock_timeout(struct stet_txn *txn, uint32_t timeout_ms)
{
	struct stet_remote_call c;

	begin(&c, txn, STET_WIRE_LOCK_TIMEOUT);
	stet_wire_put_u32(&c.out, timeout_ms);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_savepoint(struct stet_txn *txn, uint64_t *ret_savepoint)
{
	struct stet_remote_call c;

	begin(&c, txn, STET_WIRE_SAVEPOINT);
	return stet_remote_finish_number_(&c, ret_savepoint);
}

static int with_savepoint(struct stet_txn *txn, uint32_t kind, uint64_t savepoint)
{
	struct stet_remote_call c;

	begin(&c, txn, kind);
	stet_wire_put_u64(&c.out, savepoint);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_rollback_to(struct stet_txn *txn, uint64_t savepoint)
{
	return with_savepoint(txn, STET_WIRE_ROLLBACK_TO, savepoint);
}

int stet_remote_savepoint_release(struct stet_txn *txn, uint64_t savepoint)
{
	return with_savepoint(txn, STET_WIRE_SAVEPOINT_RELEASE, savepoint);
}

size_t stet_remote_conflict_text(struct stet_txn *txn, char *buf, size_t cap)
{
	struct stet_remote_call c;
	const char *text = "";
	size_t len;
	int64_t rc;

	begin(&c, txn, STET_WIRE_CONFLICT_TEXT);
	rc = stet_remote_do_(&c);
	if (!rc)
		text = stet_wire_get_text(&c.in, STET_WIRE_ARGS_MAX);
	len = stet_text_copy(text, buf, cap); /* before the connection is somebody else's */
	(void)stet_remote_end_(&c, rc);
	return len;
}

uint64_t stet_remote_transaction_id(struct stet_txn *txn)
{
	return stet_remote_txn_(txn)->number;
}

/* --- lists: all of it is fetched before the caller sees any, who may take his time --- */

int stet_remote_txns(struct stet_volume *vol, stet_txns_fn *fn, void *arg)
{
	struct stet_buf list = { 0 };
	struct stet_remote_call c;
	struct stet_wire_in in;
	int64_t rc;

	stet_remote_begin_(&c, stet_remote_volume_(vol), STET_WIRE_TXNS);
	c.list = &list;
	rc = stet_remote_finish_(&c);
	in = (struct stet_wire_in){ .p = list.p, .left = list.len };
	while (!rc && in.left > 0) {
		struct stet_txn_entry entry;

		stet_wire_get_txn(&in, &entry);
		rc = in.bad ? STET_FAIL(-EPROTO, "not the answer that was expected")
			    : fn(arg, &entry);
	}
	stet_buf_release(&list);
	return (int)rc;
}

int stet_remote_changes(struct stet_txn *txn, stet_changes_fn *fn, void *arg)
{
	struct stet_buf list = { 0 };
	struct stet_remote_call c;
	struct stet_wire_in in;
	int64_t rc;

	begin(&c, txn, STET_WIRE_CHANGES);
	c.list = &list;
	rc = stet_remote_finish_(&c);
	in = (struct stet_wire_in){ .p = list.p, .left = list.len };
	while (!rc && in.left > 0) {
		struct stet_change change;

		stet_wire_get_change(&in, &change);
		rc = in.bad ? STET_FAIL(-EPROTO, "not the answer that was expected")
			    : fn(arg, &change);
	}
	stet_buf_release(&list);
	return (int)rc;
}

/* --- giving up a part --- */

static int join_paths(const char *const *paths, size_t count, struct stet_buf *ret)
{
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++) {
		size_t len = strlen(paths[i]) + 1;

		if (len > STET_WIRE_PATHS_MAX - ret->len)
			rc = STET_FAIL(-E2BIG, "more paths than a request holds");
		else
			rc = stet_buf_append(ret, paths[i], len);
	}
	return rc;
}

int stet_remote_revert(struct stet_txn *txn, unsigned flags, const char *const *paths, size_t count,
		       char *why, size_t cap)
{
	struct stet_buf list = { 0 };
	struct stet_remote_call c;
	int64_t rc;

	if (cap > 0)
		why[0] = 0;
	begin(&c, txn, STET_WIRE_REVERT);
	if (!c.rc && !paths && count > 0)
		c.rc = STET_FAIL(-EINVAL, "no paths");
	if (!c.rc)
		c.rc = join_paths(paths, count, &list);
	stet_wire_put_u32(&c.out, flags);
	stet_wire_put_u64(&c.out, count);
	c.data = list.p;
	c.data_len = list.len;
	rc = stet_remote_do_(&c);
	if (c.in.left > 0) /* there was an answer */
		stet_text_copy(stet_wire_get_text(&c.in, STET_WIRE_ARGS_MAX), why, cap);
	rc = stet_remote_end_(&c, rc);
	stet_buf_release(&list);
	return (int)rc;
}
