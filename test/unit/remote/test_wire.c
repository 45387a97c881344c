/* test_wire.c - messages between a client and its server: fields, structures, packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/random.h"
#include "remote/wire.h"
#include "stetfs.h"

static uint8_t buf[STET_WIRE_ARGS_MAX];

static struct stet_wire_out writer(size_t cap)
{
	return (struct stet_wire_out){ .p = buf, .cap = cap };
}

static struct stet_wire_in reader(size_t len)
{
	return (struct stet_wire_in){ .p = buf, .left = len };
}

/* --- fields --- */

static void put_some(struct stet_wire_out *out)
{
	stet_wire_put_u32(out, UINT32_C(0x01020304));
	stet_wire_put_text(out, "text");
	stet_wire_put_u64(out, UINT64_MAX - 1);
	stet_wire_put_text(out, "");
	stet_wire_put_i64(out, -2);
	stet_wire_put_bytes(out, "\0\1\2", 3);
}

static bool get_some(struct stet_wire_in *in)
{
	bool same = stet_wire_get_u32(in) == UINT32_C(0x01020304);
	char bytes[3];

	same = same && strcmp(stet_wire_get_text(in, 4), "text") == 0;
	same = same && stet_wire_get_u64(in) == UINT64_MAX - 1;
	same = same && strcmp(stet_wire_get_text(in, 0), "") == 0;
	same = same && stet_wire_get_i64(in) == -2;
	stet_wire_get_bytes(in, bytes, sizeof(bytes));
	return same && memcmp(bytes, "\0\1\2", 3) == 0 && !in->bad && in->left == 0;
}

static void fields(void **state)
{
	struct stet_wire_out out = writer(sizeof(buf));
	struct stet_wire_in in;

	(void)state;
	put_some(&out);
	assert_false(out.bad);
	assert_int_equal(buf[0], 4); /* little-endian */
	in = reader(out.len);
	assert_true(get_some(&in));
	for (size_t len = 0; len < out.len; len++) { /* cut anywhere */
		in = reader(len);
		assert_false(get_some(&in));
		in = reader(len);
		for (unsigned i = 0; i < 8; i++)
			stet_wire_get_u64(&in);
		assert_true(in.bad);
		assert_true(in.left <= len);
	}
	for (size_t cap = 0; cap < out.len; cap++) { /* no room */
		struct stet_wire_out less = writer(cap);

		put_some(&less);
		assert_true(less.bad);
		assert_true(less.len <= cap);
	}
}

static void texts(void **state)
{
	struct stet_wire_out out = writer(sizeof(buf));
	struct stet_wire_in in;

	(void)state;
	stet_wire_put_text(&out, "text");
	in = reader(out.len);
	assert_string_equal(stet_wire_get_text(&in, 3), ""); /* longer than is wanted */
	assert_true(in.bad);
	buf[4 + 2] = 0; /* a NUL within */
	in = reader(out.len);
	assert_string_equal(stet_wire_get_text(&in, 100), "");
	assert_true(in.bad);
	buf[4 + 2] = 'x';
	buf[4 + 4] = 'x'; /* none at the end */
	in = reader(out.len);
	assert_string_equal(stet_wire_get_text(&in, 100), "");
	assert_true(in.bad);
	memset(buf, 0xff, 4); /* a length that is none */
	in = reader(out.len);
	assert_string_equal(stet_wire_get_text(&in, SIZE_MAX), "");
	assert_true(in.bad);
}

/* --- structures: every byte comes back, from whatever was in them --- */

_Static_assert(sizeof(struct stet_stat) == 96, "no padding");

static void structures(void **state)
{
	struct stet_random r;

	(void)state;
	stet_random_seed(&r, 1);
	for (unsigned i = 0; i < 100; i++) {
		struct stet_wire_out out = writer(sizeof(buf));
		struct stet_stat st, st2;
		struct stet_setattr set, set2;
		struct stet_txn_entry txn, txn2;
		struct stet_wire_in in;

		memset(&set, 0, sizeof(set));
		memset(&set2, 0, sizeof(set2));
		memset(&txn, 0, sizeof(txn));
		memset(&txn2, 0, sizeof(txn2));
		stet_random_bytes(&r, &st, sizeof(st)); /* it has no padding */
		set.set = (unsigned)stet_random_next(&r);
		set.mode = (uint32_t)stet_random_next(&r);
		set.uid = (uint32_t)stet_random_next(&r);
		set.gid = (uint32_t)stet_random_next(&r);
		set.size = stet_random_next(&r);
		set.atime_ns = (int64_t)stet_random_next(&r);
		set.mtime_ns = (int64_t)stet_random_next(&r);
		txn.id = stet_random_next(&r);
		txn.flags = (unsigned)stet_random_next(&r);
		txn.begun_ns = (int64_t)stet_random_next(&r);
		txn.view_serial = stet_random_next(&r);
		txn.locks = stet_random_next(&r);
		txn.staged_bytes = stet_random_next(&r);
		txn.pinned_bytes = stet_random_next(&r);
		txn.changes = stet_random_next(&r);
		txn.waiting_for = stet_random_next(&r);
		txn.uid = (uint32_t)stet_random_next(&r);
		txn.pid = (int32_t)stet_random_next(&r);
		txn.for_user = i & 1;
		txn.doomed = i & 2;
		stet_wire_put_stat(&out, &st);
		stet_wire_put_setattr(&out, &set);
		stet_wire_put_txn(&out, &txn);
		in = reader(out.len);
		stet_wire_get_stat(&in, &st2);
		stet_wire_get_setattr(&in, &set2);
		stet_wire_get_txn(&in, &txn2);
		assert_false(in.bad);
		assert_int_equal(in.left, 0);
		assert_memory_equal(&st, &st2, sizeof(st));
		assert_memory_equal(&set, &set2, sizeof(set));
		assert_memory_equal(&txn, &txn2, sizeof(txn));
	}
}

static void statfs_too(void **state)
{
	struct stet_wire_out out = writer(sizeof(buf));
	struct stet_statfs st, st2;
	struct stet_wire_in in;

	(void)state;
	memset(&st, 0, sizeof(st));
	memset(&st2, 0, sizeof(st2));
	st.capacity_bytes = 1;
	st.live_bytes = 2;
	st.held_bytes = 3;
	st.reserved_bytes = 4;
	st.reserve_bytes = 5;
	st.avail_bytes = 6;
	st.block_bytes = 7;
	st.segment_bytes = 8;
	st.segments = 9;
	st.segments_free = 10;
	st.name_max = 11;
	st.meta_copies = 12;
	st.data_copies = 13;
	st.created_ns = -14;
	st.serial = 15;
	st.durable = 16;
	st.failed = true;
	memset(st.uuid, 17, sizeof(st.uuid));
	memset(st.label, 'l', sizeof(st.label) - 1);
	memset(st.failure, 'f', sizeof(st.failure) - 1);
	stet_wire_put_statfs(&out, &st);
	in = reader(out.len);
	stet_wire_get_statfs(&in, &st2);
	assert_false(in.bad);
	assert_int_equal(in.left, 0);
	assert_memory_equal(&st, &st2, sizeof(st));
}

static void changes(void **state)
{
	struct stet_wire_out out = writer(sizeof(buf));
	struct stet_change change = {
		.kind = STET_CHANGE_RENAMED,
		.what = 3,
		.ino = 4,
		.type = 5,
		.old_type = 6,
		.path = "/a",
		.old_path = "/b",
		.before = { .size = 7, .mode = 8, .uid = 9, .gid = 10, .nlink = 11 },
		.after = { .size = 12, .mode = 13, .uid = 14, .gid = 15, .nlink = 16 },
		.replaced_ino = 17,
		.replaced = { .size = 18, .mode = 19, .uid = 20, .gid = 21, .nlink = 22 },
	};
	struct stet_change got = { 0 };
	struct stet_wire_in in;

	(void)state;
	stet_wire_put_change(&out, &change);
	in = reader(out.len);
	stet_wire_get_change(&in, &got);
	assert_false(in.bad);
	assert_int_equal(in.left, 0);
	assert_string_equal(got.path, "/a");
	assert_string_equal(got.old_path, "/b");
	assert_int_equal(got.kind, change.kind);
	assert_int_equal(got.what, 3);
	assert_int_equal(got.ino, 4);
	assert_int_equal(got.type, 5);
	assert_int_equal(got.old_type, 6);
	assert_memory_equal(&got.before, &change.before, sizeof(got.before));
	assert_memory_equal(&got.after, &change.after, sizeof(got.after));
	assert_int_equal(got.replaced_ino, 17);
	assert_memory_equal(&got.replaced, &change.replaced, sizeof(got.replaced));
	buf[0] = 200; /* a kind that there is not */
	in = reader(out.len);
	stet_wire_get_change(&in, &got);
	assert_true(in.bad);
}

/* --- packets --- */

struct pair {
	int fd[2];
	const uint8_t *data;
	size_t len;
	int rc;
};

static void *send_all(void *arg)
{
	struct pair *p = arg;
	struct stet_wire_out args = writer(sizeof(buf));

	stet_wire_put_u64(&args, 42);
	p->rc = stet_wire_send(p->fd[0], STET_WIRE_PWRITE, -7, &args, p->data, p->len);
	return NULL;
}

static void messages(void **state)
{
	static const size_t lens[] = { 0,
				       1,
				       4096,
				       (128 << 10) - 33,
				       (128 << 10) - 32,
				       (128 << 10) - 31,
				       1 << 20,
				       (1 << 20) + 5 };
	uint8_t *packet = malloc(STET_WIRE_PACKET_MAX);
	uint8_t *data = malloc(2 << 20), *got = malloc(2 << 20);
	struct stet_random r;

	(void)state;
	assert_non_null(packet && data && got ? packet : NULL);
	stet_random_seed(&r, 2);
	stet_random_bytes(&r, data, 2 << 20);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct pair p = { .data = data, .len = lens[i] };
		struct stet_wire_message msg;
		pthread_t thread;

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p.fd), 0);
		assert_int_equal(pthread_create(&thread, NULL, send_all, &p), 0);
		assert_int_equal(stet_wire_receive(p.fd[1], packet, &msg), 0);
		assert_int_equal(msg.kind, STET_WIRE_PWRITE);
		assert_int_equal(msg.result, -7);
		assert_int_equal(msg.data_len, lens[i]);
		assert_int_equal(stet_wire_get_u64(&msg.args), 42);
		assert_int_equal(stet_wire_receive_data(p.fd[1], &msg, got), 0);
		pthread_join(thread, NULL);
		assert_int_equal(p.rc, 0);
		assert_memory_equal(got, data, lens[i]);
		close(p.fd[0]);
		assert_int_equal(stet_wire_receive(p.fd[1], packet, &msg), -EPIPE);
		close(p.fd[1]);
	}
	free(packet);
	free(data);
	free(got);
}

/* A head, changed at one place, and what follows it. */
static int receive_bad(size_t at, uint32_t value, size_t packet_len)
{
	uint8_t *packet = calloc(1, STET_WIRE_PACKET_MAX + 1);
	struct stet_wire_message msg;
	int fd[2];
	int rc;

	assert_non_null(packet);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	memcpy(packet + at, &value, sizeof(value));
	assert_int_equal(send(fd[0], packet, packet_len, 0), (ssize_t)packet_len);
	rc = stet_wire_receive(fd[1], packet, &msg);
	close(fd[0]);
	close(fd[1]);
	free(packet);
	return rc;
}

static void bad_heads(void **state)
{
	(void)state;
	assert_int_equal(receive_bad(0, 16, STET_WIRE_HEAD_SIZE), 0);
	assert_int_equal(receive_bad(0, 16, STET_WIRE_HEAD_SIZE - 1), -EPROTO);
	assert_int_equal(receive_bad(0, 16, 1), -EPROTO);
	assert_int_equal(receive_bad(4, 1, STET_WIRE_HEAD_SIZE), -EPROTO); /* arguments missing */
	assert_int_equal(receive_bad(4, UINT32_MAX, 1000), -EPROTO);
	assert_int_equal(receive_bad(4, 65 << 10, 100000), -EPROTO);        /* too many */
	assert_int_equal(receive_bad(8, 0, 1000), -EPROTO);                 /* data too much */
	assert_int_equal(receive_bad(8, 2000, 1000), -EPROTO);              /* not a full packet */
	assert_int_equal(receive_bad(12, 1, STET_WIRE_HEAD_SIZE), -EPROTO); /* not 0 */
	assert_int_equal(receive_bad(0, 16, STET_WIRE_PACKET_MAX + 1), -EPROTO); /* too long */
}

/* The rest of the data does not come, or is cut otherwise. */
static void bad_data(void **state)
{
	const struct timeval look = { .tv_usec = 1000 };
	uint8_t *packet = calloc(1, STET_WIRE_PACKET_MAX), *got = malloc(1 << 20);
	uint32_t data_len = 1 << 20;
	struct stet_wire_message msg;
	int fd[2];

	(void)state;
	assert_non_null(packet && got ? packet : NULL);
	for (unsigned i = 0; i < 3; i++) {
		memset(packet, 0, STET_WIRE_HEAD_SIZE);
		memcpy(packet + 8, &data_len, sizeof(data_len));
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
		setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &look, sizeof(look));
		assert_int_equal(stet_wire_receive(fd[1], packet, &msg), -EAGAIN);
		assert_int_equal(send(fd[0], packet, STET_WIRE_PACKET_MAX, 0),
				 STET_WIRE_PACKET_MAX);
		if (i == 1)
			assert_int_equal(send(fd[0], packet, 1000, 0), 1000);
		if (i == 2)
			close(fd[0]);
		assert_int_equal(stet_wire_receive(fd[1], packet, &msg), 0);
		assert_int_equal(stet_wire_receive_data(fd[1], &msg, got),
				 i == 1 ? -EPROTO : -EPIPE);
		if (i != 2)
			close(fd[0]);
		close(fd[1]);
	}
	free(packet);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields),     cmocka_unit_test(texts),
		cmocka_unit_test(structures), cmocka_unit_test(statfs_too),
		cmocka_unit_test(changes),    cmocka_unit_test(messages),
		cmocka_unit_test(bad_heads),  cmocka_unit_test(bad_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
