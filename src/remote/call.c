/* call.c - one call: a request, and its answers.
 *
 * L1. Whatever the server says, a call ends: with its answer, or because the connection is over. What is
 *     not an answer to the call ends the connection, as nobody could tell what comes next.
 * L2. Ending a handle leaves the error text as it is, unless it fails itself.
 * L3. An answer for which there is no memory is received and dropped: the connection stays good.
 */
#include "remote/remote_internal.h"

#include <string.h>

static void begin(struct stet_remote_call *c, struct stet_remote_volume *vol, uint32_t kind,
		  bool must)
{
	*c = (struct stet_remote_call){ .vol = vol, .kind = kind };
	c->rc = stet_remote_take_(vol, must, &c->conn);
	if (!c->rc)
		c->out = (struct stet_wire_out){ .p = c->conn->args, .cap = STET_WIRE_ARGS_MAX };
}

void stet_remote_begin_(struct stet_remote_call *c, struct stet_remote_volume *vol, uint32_t kind)
{
	stet_error_clear();
	begin(c, vol, kind, false);
}

void stet_remote_begin_on_(struct stet_remote_call *c, const struct stet_remote_handle *h,
			   uint32_t kind)
{
	stet_remote_begin_(c, h->vol, kind);
	stet_wire_put_u64(&c->out, h->id);
}

void stet_remote_begin_end_(struct stet_remote_call *c, const struct stet_remote_handle *h,
			    uint32_t kind)
{
	begin(c, h->vol, kind, true);
	stet_wire_put_u64(&c->out, h->id);
}

void stet_remote_begin_at_(struct stet_remote_call *c, struct stet_volume *vol, uint32_t kind,
			   struct stet_txn *txn, uint64_t dir, const char *path)
{
	stet_remote_begin_(c, stet_remote_volume_(vol), kind);
	stet_remote_put_txn_(c, txn);
	stet_remote_put_path_(c, dir, path);
}

void stet_remote_put_txn_(struct stet_remote_call *c, struct stet_txn *txn)
{
	const struct stet_remote_txn *t = stet_remote_txn_(txn);

	if (t && t->h.vol != c->vol && !c->rc)
		c->rc = STET_FAIL(-EINVAL, "the transaction is of another volume");
	stet_wire_put_u64(&c->out, t ? t->h.id : 0);
}

void stet_remote_put_path_(struct stet_remote_call *c, uint64_t dir, const char *path)
{
	if (strlen(path) > STET_WIRE_PATH_MAX && !c->rc)
		c->rc = STET_FAIL(-ENAMETOOLONG, "a path of more than %zu bytes",
				  STET_WIRE_PATH_MAX);
	stet_wire_put_u64(&c->out, dir);
	stet_wire_put_text(&c->out, path);
}

static int lost(struct stet_remote_call *c, int rc)
{
	c->broken = true; /* L1 */
	if (rc == -EPIPE)
		return STET_FAIL(rc, "the process that holds the volume has gone");
	return STET_FAIL(rc, "not the answer that was expected");
}

static int take_data(struct stet_remote_call *c, const struct stet_wire_message *msg)
{
	int rc;

	if (msg->data_len == 0)
		return 0;
	if (msg->data_len > STET_WIRE_DATA_MAX)
		return -EPROTO;
	if (c->list) {
		if (!c->rc && stet_buf_reserve(c->list, msg->data_len)) /* L3 */
			c->rc = STET_FAIL(-ENOMEM, "no memory for an answer");
		if (c->rc)
			return stet_wire_receive_data(c->conn->fd, msg, NULL);
		rc = stet_wire_receive_data(c->conn->fd, msg, c->list->p + c->list->len);
		c->list->len += msg->data_len;
		return rc;
	}
	if (!c->to || msg->data_len > c->to_cap - c->to_len)
		return -EPROTO;
	rc = stet_wire_receive_data(c->conn->fd, msg, (uint8_t *)c->to + c->to_len);
	c->to_len += msg->data_len;
	return rc;
}

static int64_t finish(struct stet_remote_call *c, const struct stet_wire_message *msg)
{
	c->in = msg->args;
	if (msg->result < 0) {
		const char *text = stet_wire_get_text(&c->in, STET_WIRE_ARGS_MAX);
		const char *place = stet_wire_get_text(&c->in, STET_WIRE_ARGS_MAX);

		if (c->in.bad || msg->result < INT32_MIN)
			return lost(c, -EPROTO);
		if (text[0])
			stet_error_note((int)msg->result, place, text);
	}
	return c->rc && msg->result >= 0 ? c->rc : msg->result;
}

/* Whatever is not known to leave everything as it is. */
static bool may_change(uint32_t kind)
{
	switch (kind) {
	case STET_WIRE_PREAD:
	case STET_WIRE_SEEK:
	case STET_WIRE_FILE_STAT:
	case STET_WIRE_STATAT:
	case STET_WIRE_GETXATTR:
	case STET_WIRE_LISTXATTR:
	case STET_WIRE_READLINKAT:
	case STET_WIRE_DIR_OPEN:
	case STET_WIRE_DIR_NEXT:
	case STET_WIRE_DIR_CLOSE:
	case STET_WIRE_GET:
	case STET_WIRE_COUNT:
	case STET_WIRE_CURSOR_OPEN:
	case STET_WIRE_CURSOR_NEXT:
	case STET_WIRE_CURSOR_SEEK:
	case STET_WIRE_CURSOR_CLOSE:
		return false;
	default:
		return true;
	}
}

int64_t stet_remote_do_(struct stet_remote_call *c)
{
	struct stet_wire_message msg;
	int rc = c->rc;

	if (!rc && c->out.bad)
		rc = STET_FAIL(-ENAMETOOLONG, "more than a message holds");
	if (rc)
		return rc;
	if (may_change(c->kind))
		c->vol->changes++;
	rc = stet_wire_send(c->conn->fd, c->kind, 0, &c->out, c->data, c->data_len);
	if (rc == -EMSGSIZE)
		return STET_FAIL(-E2BIG, "more than the socket takes at once");
	while (!rc) {
		rc = stet_wire_receive(c->conn->fd, c->conn->packet, &msg);
		if (!rc && msg.kind != STET_WIRE_PART && msg.kind != STET_WIRE_END)
			rc = -EPROTO;
		if (!rc)
			rc = take_data(c, &msg);
		if (rc || msg.kind != STET_WIRE_END)
			continue;
		if (may_change(c->kind))
			c->vol->changes++; /* it may have waited: who read meanwhile did not see it */
		return finish(c, &msg);
	}
	return lost(c, rc == -EAGAIN ? -EPIPE : rc);
}

int64_t stet_remote_end_(struct stet_remote_call *c, int64_t rc)
{
	if (rc >= 0 && (c->in.bad || c->in.left))
		rc = lost(c, -EPROTO);
	if (c->conn)
		stet_remote_give_back_(c->vol, c->conn, c->broken);
	return rc;
}

int64_t stet_remote_finish_(struct stet_remote_call *c)
{
	return stet_remote_end_(c, stet_remote_do_(c));
}

int stet_remote_finish_number_(struct stet_remote_call *c, uint64_t *ret)
{
	uint64_t number = 0;
	int64_t rc = stet_remote_do_(c);

	if (!rc)
		number = stet_wire_get_u64(&c->in);
	rc = stet_remote_end_(c, rc);
	if (!rc)
		*ret = number;
	return (int)rc;
}

int stet_remote_finish_stat_(struct stet_remote_call *c, struct stet_stat *ret)
{
	struct stet_stat st = { 0 };
	int64_t rc = stet_remote_do_(c);

	if (!rc)
		stet_wire_get_stat(&c->in, &st);
	rc = stet_remote_end_(c, rc);
	if (!rc)
		*ret = st;
	return (int)rc;
}

ssize_t stet_remote_finish_value_(struct stet_remote_call *c, void *buf, size_t cap, size_t extra)
{
	int64_t rc;

	c->to = buf;
	c->to_cap = cap;
	rc = stet_remote_do_(c);
	if (rc >= 0 && c->to_len != (cap > 0 ? (uint64_t)rc + extra : 0))
		c->in.bad = true;
	return stet_remote_end_(c, rc);
}

int stet_remote_finish_open_(struct stet_remote_call *c, struct stet_remote_handle *h,
			     uint64_t *ret_number)
{
	uint64_t number = 0;
	int64_t rc = stet_remote_do_(c);

	if (!rc) {
		h->id = stet_wire_get_u64(&c->in);
		if (ret_number)
			number = stet_wire_get_u64(&c->in);
	}
	rc = stet_remote_end_(c, rc);
	if (rc)
		return (int)rc;
	h->head.is_remote = true;
	h->vol = c->vol;
	if (ret_number)
		*ret_number = number;
	stet_remote_handle_opened_(c->vol);
	return 0;
}

void stet_remote_close_(struct stet_remote_handle *h, uint32_t kind)
{
	struct stet_remote_call c;

	stet_remote_begin_end_(&c, h, kind);
	(void)stet_remote_finish_(&c);
	stet_remote_handle_closed_(h->vol);
}
