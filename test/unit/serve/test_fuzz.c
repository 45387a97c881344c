/* test_fuzz.c - clients that send whatever they like: nothing breaks, hangs, or stays behind.
 *
 * Environment: STET_SERVE_ROUNDS (100), STET_SERVE_SEED (1).
 */
#include "around.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/endian.h"
#include "base/random.h"
#include "remote/wire.h"

/* The arguments of each request: u32, u64 (Handle, Transaction, Directory), text, bytes. */
static const struct layout {
	const char *args;
	bool data;
} layouts[STET_WIRE_KINDS] = {
	[STET_WIRE_BEGIN] = { "u", 0 },
	[STET_WIRE_BEGIN_BASE] = { "H", 0 },
	[STET_WIRE_COMMIT] = { "Hu", 0 },
	[STET_WIRE_ABORT] = { "H", 0 },
	[STET_WIRE_FREEZE] = { "H", 0 },
	[STET_WIRE_CONFLICT_TEXT] = { "H", 0 },
	[STET_WIRE_TXNS] = { "", 0 },
	[STET_WIRE_CHANGES] = { "H", 0 },
	[STET_WIRE_REVERT] = { "Huq", 1 },
	[STET_WIRE_SYNC] = { "", 0 },
	[STET_WIRE_STATFS] = { "", 0 },
	[STET_WIRE_STATS] = { "", 0 },
	[STET_WIRE_CLEAN] = { "u", 0 },
	[STET_WIRE_OPENAT] = { "TDtuu", 0 },
	[STET_WIRE_FILE_CLOSE] = { "H", 0 },
	[STET_WIRE_PREAD] = { "Hqq", 0 },
	[STET_WIRE_PWRITE] = { "Hq", 1 },
	[STET_WIRE_APPEND] = { "H", 1 },
	[STET_WIRE_TRUNCATE] = { "Hq", 0 },
	[STET_WIRE_PUNCH] = { "Hqq", 0 },
	[STET_WIRE_FALLOCATE] = { "Huqq", 0 },
	[STET_WIRE_FSYNC] = { "H", 0 },
	[STET_WIRE_SEEK] = { "Hqu", 0 },
	[STET_WIRE_COPY_RANGE] = { "HqHqq", 0 },
	[STET_WIRE_FILE_STAT] = { "H", 0 },
	[STET_WIRE_STATAT] = { "TDtu", 0 },
	[STET_WIRE_SETATTRAT] = { "TDtuuuuuqqq", 0 },
	[STET_WIRE_GETXATTR] = { "TDtutq", 0 },
	[STET_WIRE_SETXATTR] = { "TDtut", 1 },
	[STET_WIRE_LISTXATTR] = { "TDtuq", 0 },
	[STET_WIRE_REMOVEXATTR] = { "TDtut", 0 },
	[STET_WIRE_MKDIRAT] = { "TDtu", 0 },
	[STET_WIRE_MKNODAT] = { "TDtuq", 0 },
	[STET_WIRE_SYMLINKAT] = { "TDtt", 0 },
	[STET_WIRE_READLINKAT] = { "TDtq", 0 },
	[STET_WIRE_LINKAT] = { "TDtDtu", 0 },
	[STET_WIRE_RENAMEAT] = { "TDtDtu", 0 },
	[STET_WIRE_UNLINKAT] = { "TDtu", 0 },
	[STET_WIRE_DIR_OPEN] = { "TDtuut", 0 },
	[STET_WIRE_DIR_NEXT] = { "H", 0 },
	[STET_WIRE_DIR_CLOSE] = { "H", 0 },
	[STET_WIRE_LOCK_TIMEOUT] = { "Hu", 0 },
	[STET_WIRE_TABLE_OPEN] = { "TDtuu", 0 },
	[STET_WIRE_TABLE_CLOSE] = { "H", 0 },
	[STET_WIRE_GET] = { "HTbuq", 0 },
	[STET_WIRE_PUT] = { "HTbu", 1 },
	[STET_WIRE_DEL] = { "HTb", 0 },
	[STET_WIRE_COUNT] = { "HTubbb", 0 },
	[STET_WIRE_CURSOR_OPEN] = { "HTubbb", 0 },
	[STET_WIRE_CURSOR_NEXT] = { "Hu", 0 },
	[STET_WIRE_CURSOR_SEEK] = { "Hb", 0 },
	[STET_WIRE_CURSOR_CLOSE] = { "H", 0 },
	[STET_WIRE_SAVEPOINT] = { "H", 0 },
	[STET_WIRE_ROLLBACK_TO] = { "Hq", 0 },
	[STET_WIRE_SAVEPOINT_RELEASE] = { "Hq", 0 },
};

#define KIND_FIRST STET_WIRE_BEGIN
#define ARGS_MAX 4096
#define ANSWER_MS 20

/* --- the server --- */

struct serving {
	struct stet_ll_service *service;
	int fd;
	struct stet_ll_who who;
};

static void *serve(void *arg)
{
	struct serving *s = arg;

	stet_ll_serve(s->service, s->fd, &s->who);
	close(s->fd);
	return NULL;
}

/* --- the client --- */

struct client {
	struct stet_ll_service *service;
	struct stet_random random;
	struct serving serving;
	pthread_t thread; /* that serves it */
	int fd;
	uint64_t token[2];
	unsigned sent;
	bool is_user;
	struct around *around; /* it is within that; NULL: in no transaction */
};

/* Reads what has been answered; a call that waits for a lock is not waited for. */
static void drain(struct client *c)
{
	static _Thread_local uint8_t packet[STET_WIRE_PACKET_MAX];
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	poll(&p, 1, ANSWER_MS);
	while (recv(c->fd, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
}

static bool send_packet(struct client *c, const void *packet, size_t len)
{
	if (send(c->fd, packet, len, MSG_NOSIGNAL) != (ssize_t)len)
		return false;
	drain(c);
	return true;
}

static void receive_token(struct client *c, uint8_t *packet, struct stet_wire_message *msg)
{
	OK(stet_wire_receive(c->fd, packet, msg));
	assert_int_equal(msg->result, 0);
	c->token[0] = stet_wire_get_u64(&msg->args);
	c->token[1] = stet_wire_get_u64(&msg->args);
}

/* A connection, that is greeted; of the session with this token, or a new one. */
static void connect_to(struct client *c, struct stet_ll_service *service, const uint64_t token[2])
{
	uint8_t *packet = malloc(STET_WIRE_PACKET_MAX);
	uint8_t args[64];
	struct stet_wire_out out = { .p = args, .cap = sizeof(args) };
	struct stet_wire_message msg;
	int fd[2];

	assert_non_null(packet);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	c->service = service;
	c->fd = fd[0];
	c->serving = (struct serving){ .service = service, .fd = fd[1] };
	c->serving.who.uid = c->serving.who.gid = c->is_user ? 1000 : 0;
	assert_int_equal(pthread_create(&c->thread, NULL, serve, &c->serving), 0);
	stet_wire_put_u32(&out, STET_WIRE_VERSION);
	stet_wire_put_u32(&out, 0);
	stet_wire_put_u64(&out, token[0]);
	stet_wire_put_u64(&out, token[1]);
	OK(stet_wire_send(c->fd, STET_WIRE_HELLO, 0, &out, NULL, 0));
	receive_token(c, packet, &msg);
	if (c->around && !token[0]) {
		around_reached(c->around, service, stet_wire_get_text(&msg.args, 64),
			       c->serving.who.uid);
		OK(stet_wire_send(c->fd, STET_WIRE_SHOWN, 0, NULL, NULL, 0));
		receive_token(c, packet, &msg);
	}
	assert_false(msg.args.bad);
	assert_true(c->token[0]);
	free(packet);
}

static void hang_up(struct client *c)
{
	close(c->fd);
	pthread_join(c->thread, NULL);
}

static uint64_t below(struct client *c, uint64_t n)
{
	return stet_random_below(&c->random, n);
}

static void put_text(struct client *c, struct stet_wire_out *out)
{
	static const char *const texts[] = { "",
					     "a",
					     "b",
					     "d",
					     "d/a",
					     "d/b",
					     "..",
					     "/",
					     "/d/..",
					     "user.x",
					     "system.posix_acl_access",
					     ".stet",
					     "*" };
	char text[600];
	size_t len;

	if (below(c, 8)) {
		stet_wire_put_text(out, texts[below(c, sizeof(texts) / sizeof(texts[0]))]);
		return;
	}
	len = below(c, sizeof(text));
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(1 + below(c, 255));
	text[len] = 0;
	stet_wire_put_text(out, text);
}

static void put_args(struct client *c, const char *layout, struct stet_wire_out *out)
{
	static const uint32_t words[] = {
		0, 1, 2, 3, 4, 0x11, 0x41, 0x42, 0x441, 0x202, 0644, 04755
	};

	for (; *layout; layout++) {
		switch (*layout) {
		case 't':
			put_text(c, out);
			break;
		case 'u':
			stet_wire_put_u32(out, below(c, 8)
						       ? words[below(c, 12)]
						       : (uint32_t)stet_random_next(&c->random));
			break;
		case 'b':
			stet_wire_put_blob(out, "abc", below(c, 4));
			break;
		case 'H':
			stet_wire_put_u64(out, below(c, 10));
			break;
		case 'T':
			stet_wire_put_u64(out, below(c, 2) ? 0 : below(c, 6));
			break;
		case 'D':
			stet_wire_put_u64(out, below(c, 8) ? 1 : below(c, 8));
			break;
		default:
			stet_wire_put_u64(out, below(c, 4)   ? below(c, 7)
					       : below(c, 2) ? UINT64_C(1) << below(c, 34)
							     : stet_random_next(&c->random));
		}
	}
}

/* False: the server has hung up. */
static bool send_one(struct client *c, uint32_t kind, bool mutate)
{
	uint8_t args[ARGS_MAX], data[4096];
	struct stet_wire_out out = { .p = args, .cap = sizeof(args) };
	size_t len = layouts[kind].data ? below(c, sizeof(data)) : 0;
	uint8_t packet[STET_WIRE_HEAD_SIZE + ARGS_MAX + sizeof(data)] = { 0 };
	uint32_t head[3];
	size_t size;

	put_args(c, layouts[kind].args, &out);
	assert_false(out.bad);
	stet_random_bytes(&c->random, data, sizeof(data));
	if (len > 0 && below(c, 2)) { /* paths, perhaps */
		memcpy(data, "/a", 3);
		len = 3;
	}
	if (kind == STET_WIRE_REVERT && (!mutate || below(c, 8))) /* as many as it says */
		stet_put_le64(args + out.len - 8, len == 3);
	if (kind == STET_WIRE_REVERT && len != 3)
		len = 0;
	head[0] = kind;
	head[1] = (uint32_t)out.len;
	head[2] = (uint32_t)len;
	memcpy(packet, head, sizeof(head));
	memcpy(packet + STET_WIRE_HEAD_SIZE, args, out.len);
	memcpy(packet + STET_WIRE_HEAD_SIZE + out.len, data, len);
	size = STET_WIRE_HEAD_SIZE + out.len + len;
	for (uint64_t n = mutate ? 1 + below(c, 4) : 0; n > 0; n--)
		packet[below(c, size)] ^= (uint8_t)(1u << below(c, 8));
	if (mutate && below(c, 4) == 0)
		size = below(c, size);
	return send_packet(c, packet, size);
}

static uint32_t any_kind(struct client *c)
{
	return (uint32_t)(KIND_FIRST + below(c, STET_WIRE_KINDS - KIND_FIRST));
}

static const uint32_t busy_kinds[] = {
	STET_WIRE_BEGIN,        STET_WIRE_BEGIN,         STET_WIRE_COMMIT,
	STET_WIRE_ABORT,        STET_WIRE_OPENAT,        STET_WIRE_OPENAT,
	STET_WIRE_PWRITE,       STET_WIRE_PREAD,         STET_WIRE_REVERT,
	STET_WIRE_CHANGES,      STET_WIRE_FREEZE,        STET_WIRE_FILE_CLOSE,
	STET_WIRE_DIR_OPEN,     STET_WIRE_DIR_NEXT,      STET_WIRE_DIR_CLOSE,
	STET_WIRE_BEGIN_BASE,   STET_WIRE_MKDIRAT,       STET_WIRE_STATAT,
	STET_WIRE_UNLINKAT,     STET_WIRE_CONFLICT_TEXT, STET_WIRE_TABLE_OPEN,
	STET_WIRE_TABLE_OPEN,   STET_WIRE_TABLE_CLOSE,   STET_WIRE_PUT,
	STET_WIRE_CURSOR_OPEN,  STET_WIRE_CURSOR_NEXT,   STET_WIRE_CURSOR_SEEK,
	STET_WIRE_CURSOR_CLOSE, STET_WIRE_RENAMEAT,      STET_WIRE_APPEND,
	STET_WIRE_TXNS,         STET_WIRE_SYNC,          STET_WIRE_SAVEPOINT,
	STET_WIRE_ROLLBACK_TO,  STET_WIRE_BEGIN,
};

static uint32_t busy_kind(struct client *c)
{
	return busy_kinds[below(c, sizeof(busy_kinds) / sizeof(busy_kinds[0]))];
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* --- tests --- */

static void every_request_has_a_layout(void **state)
{
	(void)state;
	for (unsigned kind = KIND_FIRST; kind < STET_WIRE_KINDS; kind++)
		assert_non_null(layouts[kind].args);
}

/* One client after the other. */
static void nonsense(void **state)
{
	static const uint64_t none[2];
	struct unit_volume *u = *state;
	struct stet_ll_service *service;
	uint64_t rounds = number("STET_SERVE_ROUNDS", 100);
	uint64_t seed = number("STET_SERVE_SEED", 1);

	OK(stet_ll_service_create(u->local, NULL, &service));
	for (uint64_t i = 0; i < rounds; i++) {
		struct client c = { .is_user = i % 3 == 0 };
		unsigned left;

		stet_random_seed(&c.random, seed * 1000003 + i);
		connect_to(&c, service, none);
		left = 1 + (unsigned)below(&c, 100);
		while (left-- > 0 && send_one(&c, any_kind(&c), i % 2 && below(&c, 20) == 0))
			;
		assert_true(i % 2 || left == UINT_MAX); /* what is well formed is answered */
		hang_up(&c);
		assert_int_equal(stet_ll_service_transactions(service, NULL, 0), 0);
	}
	stet_ll_service_destroy(service);
	assert_int_equal(unit_counter(u->local, "handles"), 0);
	assert_true(unit_counter(u->local, "serial") > rounds / 2); /* some of it made sense */
}

static const struct stet_ll_service_options beside_a_mount = { .mount = &around_mount };

/* The same within a transaction, which is kept or dropped then. */
static void nonsense_within(void **state)
{
	static const uint64_t none[2];
	struct unit_volume *u = *state;
	struct stet_ll_service *service;
	uint64_t rounds = number("STET_SERVE_ROUNDS", 100);
	uint64_t seed = number("STET_SERVE_SEED", 1);
	uint64_t told = 0;

	OK(stet_ll_service_create(u->local, &beside_a_mount, &service));
	for (uint64_t i = 0; i < rounds; i++) {
		struct around around;
		struct client c = { .is_user = i % 3 == 0, .around = &around };
		unsigned left;

		around_begin(&around, u->local, i % 2 ? STET_BEGIN_SNAPSHOT : 0);
		stet_random_seed(&c.random, seed * 5000011 + i);
		connect_to(&c, service, none);
		left = 1 + (unsigned)below(&c, 100);
		while (left-- > 0 && send_one(&c, below(&c, 8) ? busy_kind(&c) : any_kind(&c),
					      i % 2 && below(&c, 20) == 0))
			;
		if (i % 5 == 0)
			around_end(&around, true); /* he is still there */
		hang_up(&c);
		if (i % 5 != 0)
			around_end(&around, i % 4);
		told += stet_skiplist_count(&around.told);
		around_release(&around);
		assert_int_equal(stet_ll_service_transactions(service, NULL, 0), 0);
	}
	stet_ll_service_destroy(service);
	assert_int_equal(unit_counter(u->local, "handles"), 0);
	assert_true(told > rounds / 5); /* some of it made sense */
}

static void *keep_busy(void *arg)
{
	struct client *c = arg;

	while (c->sent-- > 0 && send_one(c, busy_kind(c), false))
		;
	return NULL;
}

/* Connections of one session that use and end each other's handles. */
static void one_session_at_once(void **state)
{
	static const uint64_t none[2];
	struct unit_volume *u = *state;
	struct stet_ll_service *service;
	uint64_t rounds = number("STET_SERVE_ROUNDS", 100) / 5;
	uint64_t seed = number("STET_SERVE_SEED", 1);

	OK(stet_ll_service_create(u->local, NULL, &service));
	for (uint64_t i = 0; i < rounds; i++) {
		struct client c[4] = { 0 };
		pthread_t thread[4];

		for (unsigned j = 0; j < 4; j++) {
			stet_random_seed(&c[j].random, seed * 7000003 + i * 4 + j);
			c[j].sent = 60;
			connect_to(&c[j], service, j == 0 ? none : c[0].token);
		}
		for (unsigned j = 0; j < 4; j++)
			assert_int_equal(pthread_create(&thread[j], NULL, keep_busy, &c[j]), 0);
		for (unsigned j = 0; j < 4; j++)
			pthread_join(thread[j], NULL);
		for (unsigned j = 0; j < 4; j++)
			hang_up(&c[j]);
		assert_int_equal(stet_ll_service_transactions(service, NULL, 0), 0);
	}
	stet_ll_service_destroy(service);
	assert_int_equal(unit_counter(u->local, "handles"), 0);
}

/* The same within a transaction, and connections of another session in it, until somebody ends it. */
static void sessions_within_at_once(void **state)
{
	static const uint64_t none[2];
	struct unit_volume *u = *state;
	struct stet_ll_service *service;
	uint64_t rounds = number("STET_SERVE_ROUNDS", 100) / 10;
	uint64_t seed = number("STET_SERVE_SEED", 1);

	OK(stet_ll_service_create(u->local, &beside_a_mount, &service));
	for (uint64_t i = 0; i < rounds; i++) {
		struct around around;
		struct client c[4] = { 0 };
		pthread_t thread[4];

		around_begin(&around, u->local, STET_BEGIN_SNAPSHOT);
		for (unsigned j = 0; j < 4; j++) {
			stet_random_seed(&c[j].random, seed * 9000011 + i * 4 + j);
			c[j].sent = 60;
			c[j].around = &around;
			connect_to(&c[j], service, j % 2 == 0 ? none : c[j - 1].token);
		}
		for (unsigned j = 0; j < 4; j++)
			assert_int_equal(pthread_create(&thread[j], NULL, keep_busy, &c[j]), 0);
		unit_sleep_ms((unsigned)(i % 4) * 100);
		around_end(&around, i % 2);
		for (unsigned j = 0; j < 4; j++)
			pthread_join(thread[j], NULL);
		for (unsigned j = 0; j < 4; j++)
			hang_up(&c[j]);
		around_release(&around);
	}
	stet_ll_service_destroy(service);
	assert_int_equal(unit_counter(u->local, "handles"), 0);
}

/* A service that stops while its clients are busy, and wait. */
static void stopped_in_the_middle(void **state)
{
	static const uint64_t none[2];
	struct unit_volume *u = *state;

	for (unsigned i = 0; i < 5; i++) {
		struct stet_ll_service *service;
		struct client c[4] = { 0 };
		pthread_t thread[4];
		int64_t begun_ms;

		OK(stet_ll_service_create(u->local, NULL, &service));
		for (unsigned j = 0; j < 4; j++) {
			stet_random_seed(&c[j].random, 99 + i * 4 + j);
			c[j].sent = 1000000;
			connect_to(&c[j], service, none);
			assert_int_equal(pthread_create(&thread[j], NULL, keep_busy, &c[j]), 0);
		}
		unit_sleep_ms(50);
		begun_ms = unit_now_ms();
		stet_ll_service_stop(service);
		for (unsigned j = 0; j < 4; j++)
			pthread_join(c[j].thread, NULL);
		assert_true(unit_now_ms() - begun_ms < 10000);
		for (unsigned j = 0; j < 4; j++) {
			pthread_join(thread[j], NULL);
			close(c[j].fd);
		}
		stet_ll_service_destroy(service);
		assert_int_equal(unit_counter(u->local, "handles"), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_request_has_a_layout),
		cmocka_unit_test_setup_teardown(nonsense, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(nonsense_within, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(one_session_at_once, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(sessions_within_at_once, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(stopped_in_the_middle, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
