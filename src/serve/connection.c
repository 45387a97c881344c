/* connection.c - one connection of a client: requests in, answers out.
 *
 * N1. Nothing that came is believed: a message that is not as it should be ends the connection.
 * N2. What a connection keeps in memory is bounded; when nothing comes for a while it keeps little.
 * N3. A client that stops in the middle of a message, or does not read its answers, is given up. One that
 *     sends nothing is waited for: its session is open.
 * N4. A call that waits for others ends when the client has gone, the service stops, or somebody ends the transaction
 *     that the session is within.
 */
#include "serve/serve_internal.h"

#include "base/endian.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define LOOK_S 1 /* N2, N3 */
#define SEND_TIMEOUT_S 5

static const struct stet_serve_request requests[STET_WIRE_KINDS] = {
#define REQUEST(kind, name, data, does) \
	[STET_WIRE_##kind] = { .fn = stet_serve_do_##name##_, .data_max = (data), .what = (does) },
	STET_SERVE_REQUESTS(REQUEST)
#undef REQUEST
};

/* --- what requests use --- */

/* S7 of session.c */
static void use_part(struct stet_serve_call *c, struct stet_serve_handle *part)
{
	if (!part)
		return;
	c->part = part;
	c->stale = c->stale || (part->own->over && !c->outside);
	if (!c->outside)
		stet_api_in_part(&part->own->api);
}

struct stet_serve_handle *stet_serve_handle_(struct stet_serve_call *c, enum stet_serve_kind kind)
{
	uint64_t number = stet_wire_get_u64(&c->in);
	struct stet_serve_handle *h = stet_serve_handle_get_(c->session, number, kind);

	if (!h) {
		c->unknown_handle = true;
		return NULL;
	}
	STET_ASSERT(c->used_count < STET_SERVE_USED_MAX);
	c->used[c->used_count++] = h;
	use_part(c, h->own ? h : h->part);
	return h;
}

struct stet_txn *stet_serve_txn_(struct stet_serve_call *c)
{
	struct stet_wire_in ahead = c->in;
	struct stet_serve_handle *h;

	if (stet_wire_get_u64(&ahead) == 0) {
		c->in = ahead;
		return c->around;
	}
	h = stet_serve_handle_(c, STET_SERVE_TXN);
	return h ? h->txn : NULL;
}

const char *stet_serve_path_(struct stet_serve_call *c)
{
	return stet_wire_get_text(&c->in, STET_WIRE_PATH_MAX);
}

const char *stet_serve_text_(struct stet_serve_call *c)
{
	return stet_wire_get_text(&c->in, STET_WIRE_ARGS_MAX);
}

/* N1 */
struct stet_serve_at stet_serve_at_(struct stet_serve_call *c)
{
	struct stet_serve_at at = { .txn = stet_serve_txn_(c) };

	at.dir = stet_wire_get_u64(&c->in);
	at.path = stet_serve_path_(c);
	return at;
}

int stet_serve_ready_(struct stet_serve_call *c)
{
	if (c->in.bad || c->in.left) {
		c->lost = true;
		return -EPROTO;
	}
	if (c->unknown_handle)
		return STET_FAIL(-EINVAL, "there is no such handle");
	if (c->stale)
		return STET_FAIL(-ESTALE, "the transaction has ended");
	if (c->changes && c->part && c->part->own->read_only)
		return STET_FAIL(-EROFS, "the transaction is read-only");
	return 0;
}

int stet_serve_big_out_(struct stet_serve_call *c)
{
	if (!c->big_out)
		c->big_out = stet_alloc(STET_WIRE_DATA_MAX);
	return c->big_out ? 0 : STET_FAIL(-ENOMEM, "no memory for an answer");
}

int stet_serve_part_(struct stet_serve_call *c, size_t len)
{
	int rc = c->service->stopping ? -EPIPE : 0;

	if (!rc)
		rc = stet_wire_send(c->fd, STET_WIRE_PART, 0, NULL, c->big_out, len);
	if (rc)
		c->lost = true;
	return rc;
}

/* --- connections --- */

static int answer(struct stet_serve_call *c, int64_t result)
{
	struct stet_wire_out out = { .p = c->args, .cap = STET_WIRE_ARGS_MAX };

	if (result < 0) { /* before what the request has put there */
		uint8_t more[STET_ERROR_TEXT_SIZE * 2];
		size_t len = c->out.len < sizeof(more) ? c->out.len : 0;

		memcpy(more, c->args, len);
		stet_wire_put_text(&out, stet_error_text());
		stet_wire_put_text(&out, stet_error_place());
		stet_wire_put_bytes(&out, more, len);
		c->out = out;
		c->out_len = 0;
	}
	return stet_wire_send(c->fd, STET_WIRE_END, result, &c->out, c->big_out, c->out_len);
}

static int take_data(struct stet_serve_call *c, const struct stet_wire_message *msg)
{
	c->data = msg->data;
	c->data_len = msg->data_len;
	if (msg->data_here == msg->data_len)
		return 0;
	if (msg->data_len > c->big_in_cap) {
		stet_free(c->big_in);
		c->big_in = stet_alloc(msg->data_len);
		c->big_in_cap = c->big_in ? msg->data_len : 0;
		if (!c->big_in)
			return -ENOMEM;
	}
	c->data = c->big_in;
	return stet_wire_receive_data(c->fd, msg, c->big_in);
}

static int ended(void)
{
	return STET_FAIL(-ESTALE, "the transaction around it has ended");
}

/* Who is in no transaction that he knows of cannot ask what it was. */
static void note_conflict(struct stet_serve_call *c, int result)
{
	char text[STET_ERROR_TEXT_SIZE];

	c->service->mount->conflict(c->session->within);
	if (!stet_error_text()[0] && stet_conflict_text(c->around, text, sizeof(text)) > 0)
		(void)!STET_FAIL(result, "conflict: %s", text);
}

/* S7 of session.c */
static int64_t run_within(struct stet_serve_call *c, const struct stet_serve_request *request)
{
	const struct stet_ll_mount *mount = c->service->mount;
	void *within = c->session->within;
	struct stet_ll_touched list;
	int64_t result;

	if (mount->enter(within, &c->around))
		return ended();
	stet_api_told_init(&c->told, c->session->token[1]);
	result = request->fn(c);
	stet_api_in_part(NULL);
	if (result == -EBUSY || result == -EDEADLK)
		note_conflict(c, (int)result);
	if (result == -EINTR && mount->is_ending(within)) /* N4 */
		result = ended();
	mount->leave(within);
	c->around = NULL;
	stet_api_told_list(&c->told, &list);
	stet_serve_tell_(c->session, &list); /* P3 of part.c */
	stet_api_told_release(&c->told);
	return result;
}

static int64_t run(struct stet_serve_call *c, const struct stet_serve_request *request)
{
	c->unknown_handle = c->stale = false;
	c->part = NULL;
	c->changes = request->what & STET_SERVE_CHANGES;
	c->outside = request->what & STET_SERVE_OUTSIDE;
	if (c->changes && c->session->read_only)
		return STET_FAIL(-EROFS, "the volume was opened to be read only");
	return c->session->within && !c->outside ? run_within(c, request) : request->fn(c);
}

/* < 0: the connection is over. */
static int perform(struct stet_serve_call *c, const struct stet_wire_message *msg)
{
	const struct stet_serve_request *request = msg->kind < STET_WIRE_KINDS
							   ? &requests[msg->kind]
							   : NULL;
	int64_t result;
	int rc;

	if (!request || !request->fn || msg->data_len > request->data_max)
		return -EPROTO; /* N1 */
	rc = take_data(c, msg);
	if (rc)
		return rc;
	c->in = msg->args;
	c->out = (struct stet_wire_out){ .p = c->args, .cap = STET_WIRE_ARGS_MAX };
	c->out_len = 0;
	stet_error_clear();
	result = run(c, request);
	rc = c->lost ? -EPIPE : answer(c, result);
	while (c->used_count > 0)
		stet_serve_handle_put_(c->session, c->used[--c->used_count]);
	return rc;
}

/* N2 */
static void shrink(struct stet_serve_call *c)
{
	stet_free(c->big_in);
	stet_free(c->big_out);
	c->big_in = c->big_out = NULL;
	c->big_in_cap = 0;
}

/* N2: after a while with little in memory. */
static int receive(struct stet_serve_call *c, struct stet_wire_message *msg)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	int rc = c->service->stopping ? -ESHUTDOWN : stet_wire_receive(c->fd, c->packet, msg);

	while (rc == -EAGAIN) {
		shrink(c);
		while (poll(&p, 1, -1) < 0 && errno == EINTR)
			;
		rc = stet_wire_receive(c->fd, c->packet, msg);
	}
	return rc;
}

/* N4 */
bool stet_serve_gone_(void *arg)
{
	const struct stet_serve_call *c = arg;
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	if (c->service->stopping || (poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP))))
		return true;
	return c->session->within && c->service->mount->is_ending(c->session->within);
}

/* --- whose session it is --- */

struct hello {
	uint32_t version, flags;
	uint64_t token[2];
};

static int get_hello(struct stet_serve_call *c, struct hello *ret)
{
	struct stet_wire_message msg;
	int rc = receive(c, &msg);

	if (rc)
		return rc;
	if (msg.kind != STET_WIRE_HELLO || msg.data_len)
		return -EPROTO;
	ret->version = stet_wire_get_u32(&msg.args);
	ret->flags = stet_wire_get_u32(&msg.args);
	ret->token[0] = stet_wire_get_u64(&msg.args);
	ret->token[1] = stet_wire_get_u64(&msg.args);
	if (msg.args.bad || (ret->version == STET_WIRE_VERSION && msg.args.left))
		return -EPROTO;
	return 0;
}

/* Root is not asked to go to the mount of another user, who could keep him waiting there (remote/reach.h). */
static bool must_show(const struct stet_ll_service *service, const struct stet_ll_who *who)
{
	return service->mount && !(who->uid == 0 && service->own_uid != 0);
}

/* The answer: which session it is, or what is to be shown. */
static int welcome(struct stet_serve_call *c, int rc, const char *word)
{
	c->out = (struct stet_wire_out){ .p = c->args, .cap = STET_WIRE_ARGS_MAX };
	if (!rc) {
		stet_wire_put_u64(&c->out, c->session ? c->session->token[0] : 0);
		stet_wire_put_u64(&c->out, c->session ? c->session->token[1] : 0);
		stet_wire_put_text(&c->out, word);
	}
	return answer(c, rc) ? -EPIPE : rc;
}

/* He may do no more than where he reaches the mount: it may be mounted there for reading only. */
static int open_reached(struct stet_serve_call *c, const struct stet_ll_who *who, bool read_only,
			const struct stet_serve_reach *reach)
{
	return stet_serve_session_open_(c->service, who, read_only || !reach->writable,
					reach->within, &c->session);
}

static int ask_to_show(struct stet_serve_call *c, const struct stet_ll_who *who, bool read_only)
{
	struct stet_wire_message msg;
	struct stet_serve_reach reach;
	bool shown;
	int rc = stet_serve_reach_begin_(c->service, who->uid, &reach);

	if (rc)
		return welcome(c, rc, "");
	rc = welcome(c, 0, reach.word);
	if (!rc)
		rc = receive(c, &msg);
	shown = stet_serve_reach_end_(c->service, &reach);
	if (!rc && (msg.kind != STET_WIRE_SHOWN || msg.data_len || msg.args.left))
		rc = -EPROTO;
	if (!rc) {
		stet_error_clear();
		rc = shown ? open_reached(c, who, read_only, &reach)
			   : STET_FAIL(-EACCES,
				       "the program has not shown that it reaches the mount");
		rc = welcome(c, rc, "");
	}
	if (!c->session && reach.within)
		c->service->mount->release(reach.within);
	return rc;
}

/* The first messages: which session this is of. */
static int greet(struct stet_serve_call *c, const struct stet_ll_who *who)
{
	struct hello hello;
	bool read_only;
	int rc = get_hello(c, &hello);

	if (rc)
		return rc;
	stet_error_clear();
	read_only = hello.flags & STET_WIRE_READ_ONLY;
	if (!who)
		rc = STET_FAIL(-EACCES, "it serves no programs of this user");
	else if (hello.version != STET_WIRE_VERSION || (hello.flags & ~STET_WIRE_READ_ONLY))
		rc = STET_FAIL(-EPROTO, "the process that holds the volume is of another version");
	else if (hello.token[0] || hello.token[1])
		rc = stet_serve_session_join_(c->service, who, hello.token, &c->session);
	else if (must_show(c->service, who))
		return ask_to_show(c, who, read_only);
	else
		rc = stet_serve_session_open_(c->service, who, read_only, NULL, &c->session);
	return welcome(c, rc, "");
}

static void set_timeouts(int fd)
{
	const struct timeval look = { .tv_sec = LOOK_S }, send = { .tv_sec = SEND_TIMEOUT_S };
	int size = 2 * (int)STET_WIRE_PACKET_MAX;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof(look));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof(send));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static void join(struct stet_serve_call *c)
{
	stet_mutex_lock(&c->service->lock);
	stet_list_add_tail(&c->service->calls, &c->link);
	stet_mutex_unlock(&c->service->lock);
}

static void leave(struct stet_serve_call *c)
{
	stet_mutex_lock(&c->service->lock);
	stet_list_del(&c->link);
	stet_mutex_unlock(&c->service->lock);
}

/* Whoever waits for a message finds that none comes any more; answers still go. Who has not joined yet sees
 * that we stop. */
void stet_ll_service_stop(struct stet_ll_service *service)
{
	struct stet_list *pos;

	service->stopping = true;
	stet_mutex_lock(&service->lock);
	STET_LIST_FOREACH(pos, &service->calls)
		shutdown(stet_container_of(pos, struct stet_serve_call, link)->fd, SHUT_RD);
	stet_mutex_unlock(&service->lock);
}

void stet_ll_serve(struct stet_ll_service *service, int fd, const struct stet_ll_who *who)
{
	struct stet_serve_call c = { .service = service, .vol = service->vol, .fd = fd };
	struct stet_wire_message msg;
	int rc;

	c.packet = stet_alloc(STET_WIRE_PACKET_MAX);
	c.args = stet_alloc(STET_WIRE_ARGS_MAX);
	rc = c.packet && c.args ? 0 : -ENOMEM;
	join(&c);
	if (!rc) {
		set_timeouts(fd);
		rc = greet(&c, who);
	}
	if (c.session) {
		stet_ll_act_as(&c.session->who);
		stet_api_give_up_when(stet_serve_gone_, &c);
		if (c.session->within)
			stet_api_tell_changes(stet_serve_told_, &c);
		while (!rc) {
			rc = receive(&c, &msg);
			if (!rc)
				rc = perform(&c, &msg);
		}
		stet_api_give_up_when(NULL, NULL);
		stet_api_tell_changes(NULL, NULL);
		stet_ll_act_as(NULL);
		stet_serve_session_leave_(c.session);
	}
	leave(&c);
	shrink(&c);
	stet_free(c.packet);
	stet_free(c.args);
}

int stet_ll_is_client(int fd)
{
	uint8_t word[4];
	ssize_t n;

	do {
		n = recv(fd, word, sizeof(word), MSG_PEEK);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n <= 0)
		return -EPIPE;
	return n == (ssize_t)sizeof(word) && stet_get_le32(word) == STET_WIRE_HELLO;
}
