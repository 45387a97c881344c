/* test_data.c - file data: random operations against arrays of bytes, in plain operations and in
 * transactions of every level, with flushes, checkpoints, reclaim and reopening in between. */
#include "unit.h"

#define FILES 3
#define MAX_BYTES (3u << 20)

struct model {
	uint8_t *data[FILES];
	uint64_t size[FILES];
};

static uint8_t *scratch;

static void model_init(struct model *m)
{
	for (int f = 0; f < FILES; f++) {
		m->data[f] = calloc(1, MAX_BYTES);
		m->size[f] = 0;
		assert_non_null(m->data[f]);
	}
}

static void model_release(struct model *m)
{
	for (int f = 0; f < FILES; f++)
		free(m->data[f]);
}

static void model_copy(struct model *to, const struct model *from)
{
	for (int f = 0; f < FILES; f++) {
		memcpy(to->data[f], from->data[f], MAX_BYTES);
		to->size[f] = from->size[f];
	}
}

struct run {
	struct unit *u;
	struct stet_random rnd;
	uint64_t ino[FILES];
	struct stet_txn *txn; /* or NULL: plain */
	struct model *m;      /* what is seen */
};

static uint64_t below(struct run *r, uint64_t n)
{
	return stet_random_below(&r->rnd, n);
}

/* Lengths and offsets of all magnitudes, often at block boundaries. */
static uint64_t some_length(struct run *r, uint64_t max)
{
	uint64_t n = below(r, UINT64_C(1) << (1 + below(r, 21)));

	if (below(r, 3) == 0)
		n = (n + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE * BLOCK;
	return n > max ? max : n;
}

static void check_rc(struct run *r, int rc, const char *what)
{
	(void)r;
	if (rc)
		fail_msg("%s: %d %s", what, rc, stet_error_text());
}

static void do_write(struct run *r, int f)
{
	uint64_t off = below(r, 3) == 0 ? r->m->size[f] : some_length(r, MAX_BYTES - 1);
	uint64_t len = 1 + some_length(r, (1u << 20) - 1);

	if (len > MAX_BYTES - off)
		len = MAX_BYTES - off;
	if (len == 0)
		return;
	stet_random_bytes(&r->rnd, scratch, len);
	check_rc(r, unit_write(r->u, r->txn, r->ino[f], off, scratch, len), "write");
	memcpy(r->m->data[f] + off, scratch, len);
	if (off + len > r->m->size[f])
		r->m->size[f] = off + len;
}

static void do_append(struct run *r, int f)
{
	uint64_t len = 1 + some_length(r, 30000);

	if (len > MAX_BYTES - r->m->size[f])
		return;
	stet_random_bytes(&r->rnd, scratch, len);
	check_rc(r, unit_append(r->u, r->txn, r->ino[f], scratch, len), "append");
	memcpy(r->m->data[f] + r->m->size[f], scratch, len);
	r->m->size[f] += len;
}

static void do_truncate(struct run *r, int f)
{
	uint64_t size = below(r, 4) == 0 ? 0 : some_length(r, MAX_BYTES);

	check_rc(r, unit_truncate(r->u, r->txn, r->ino[f], size), "truncate");
	if (size < r->m->size[f])
		memset(r->m->data[f] + size, 0, r->m->size[f] - size);
	r->m->size[f] = size;
}

static void do_punch(struct run *r, int f)
{
	uint64_t off = some_length(r, MAX_BYTES - 1);
	uint64_t len = 1 + some_length(r, MAX_BYTES - off - 1);

	check_rc(r, unit_punch(r->u, r->txn, r->ino[f], off, len), "punch");
	if (off < r->m->size[f]) {
		uint64_t end = off + len < r->m->size[f] ? off + len : r->m->size[f];

		memset(r->m->data[f] + off, 0, end - off);
	}
}

static void compare_read(struct run *r, struct stet_txn *txn, const struct model *m, int f,
			 uint64_t off, uint64_t len)
{
	uint64_t want = off >= m->size[f] ? 0 : m->size[f] - off < len ? m->size[f] - off : len;
	int64_t got = unit_read(r->u, txn, r->ino[f], off, scratch, len);

	if (got != (int64_t)want)
		fail_msg("read %d at %llu + %llu: %lld instead of %llu %s", f,
			 (unsigned long long)off, (unsigned long long)len, (long long)got,
			 (unsigned long long)want, got < 0 ? stet_error_text() : "");
	for (uint64_t i = 0; i < want; i++) {
		if (scratch[i] != m->data[f][off + i])
			fail_msg("read %d: byte %llu (block %llu) is %02x instead of %02x", f,
				 (unsigned long long)(off + i),
				 (unsigned long long)((off + i) / STET_BLOCK_SIZE), scratch[i],
				 m->data[f][off + i]);
	}
}

static void compare_all(struct run *r, struct stet_txn *txn, const struct model *m)
{
	struct stet_fs_attr attr;

	for (int f = 0; f < FILES; f++) {
		compare_read(r, txn, m, f, 0, MAX_BYTES);
		check_rc(r, unit_getattr(r->u, txn, r->ino[f], &attr), "getattr");
		assert_int_equal(attr.size, m->size[f]);
	}
}

/* What seek calls data must be all that is not zero. */
static void do_seek(struct run *r, int f)
{
	uint64_t at = 0, data, hole;
	const struct model *m = r->m;

	while (at < m->size[f]) {
		int rc = unit_seek(r->u, r->txn, r->ino[f], at, false, &data);

		if (rc == -ENXIO)
			data = m->size[f];
		else
			check_rc(r, rc, "seek data");
		assert_true(data >= at);
		for (; at < data; at++)
			assert_int_equal(m->data[f][at], 0);
		if (at >= m->size[f])
			break;
		check_rc(r, unit_seek(r->u, r->txn, r->ino[f], at, true, &hole), "seek hole");
		assert_true(hole > at && hole <= m->size[f]);
		at = hole;
	}
	assert_int_equal(unit_seek(r->u, r->txn, r->ino[f], m->size[f], false, &data), -ENXIO);
}

static void one_op(struct run *r)
{
	int f = (int)below(r, FILES);

	switch (below(r, 9)) {
	case 0:
	case 1:
	case 2:
		do_write(r, f);
		break;
	case 3:
	case 4:
		do_append(r, f);
		break;
	case 5:
		do_truncate(r, f);
		break;
	case 6:
		do_punch(r, f);
		break;
	case 7:
		do_seek(r, f);
		break;
	default:
		compare_read(r, r->txn, r->m, f, some_length(r, MAX_BYTES - 1),
			     1 + some_length(r, 1u << 20));
		break;
	}
}

static void background(struct run *r)
{
	switch (below(r, 12)) {
	case 0:
		unit_flush(r->u, false);
		break;
	case 1:
		unit_flush(r->u, true);
		break;
	case 3:
	case 4:
		if (r->txn)
			unit_spill(r->u, r->txn);
		break;
	case 2:
		stet_ignore(stet_fs_reclaim_step(r->u->fs, NULL), "a step is a step");
		break;
	default:
		break;
	}
}

static void start(struct run *r, uint64_t seed, struct model *m, const struct unit_options *o)
{
	char name[24];

	*r = (struct run){ .m = m };
	stet_random_seed(&r->rnd, seed);
	scratch = malloc(MAX_BYTES);
	assert_non_null(scratch);
	r->u = unit_create(o);
	for (int f = 0; f < FILES; f++) {
		(void)snprintf(name, sizeof(name), "f%d", f);
		check_rc(r, unit_make(r->u, NULL, 1, name, S_IFREG | 0644, &r->ino[f]), "make");
	}
	model_init(m);
}

static void finish(struct run *r, struct model *m)
{
	compare_all(r, NULL, m);
	unit_idle(r->u);
	compare_all(r, NULL, m);
	unit_reopen(r->u);
	compare_all(r, NULL, m);
	unit_destroy(r->u);
	free(scratch);
	model_release(m);
}

static void plain_run(uint64_t seed, const struct unit_options *o)
{
	struct model m;
	struct run r;

	start(&r, seed, &m, o);
	for (int i = 0; i < 120; i++) {
		one_op(&r);
		background(&r);
		if (below(&r, 30) == 0) {
			unit_reopen(r.u);
			compare_all(&r, NULL, &m);
		}
		if (below(&r, 10) == 0)
			unit_check(r.u);
	}
	finish(&r, &m);
}

static void test_plain(void **state)
{
	const struct unit_options wide = { .size_bytes = 128u << 20, .seg_blocks = 512 };
	const struct unit_options twice = { .data_copies = 2, .size_bytes = 128u << 20 };

	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++)
		plain_run(seed, NULL);
	for (uint64_t seed = 11; seed <= 16; seed++)
		plain_run(seed, &wide);
	plain_run(21, &twice);
}

/* A transaction at a time; others see nothing of it until it is ordered. */
static void txn_run(uint64_t seed, enum stet_level level, const struct unit_options *o)
{
	struct model committed, seen;
	struct run r;

	start(&r, seed, &committed, o);
	model_init(&seen);
	for (int round = 0; round < 12; round++) {
		bool keep = below(&r, 4) > 0;

		r.m = &committed;
		for (uint64_t i = below(&r, 8); i > 0; i--)
			one_op(&r);
		background(&r);
		model_copy(&seen, &committed);
		r.txn = unit_begin(r.u, level);
		r.m = &seen;
		for (uint64_t i = 1 + below(&r, 12); i > 0; i--) {
			one_op(&r);
			background(&r);
			if (below(&r, 6) == 0)
				compare_all(&r, NULL, &committed);
		}
		compare_all(&r, r.txn, &seen);
		if (keep) {
			int rc = unit_order(r.u, r.txn);

			if (rc)
				fail_msg("order: %d %s", rc, stet_error_text());
			model_copy(&committed, &seen);
		} else {
			unit_end(r.txn);
		}
		r.txn = NULL;
		unit_check(r.u);
		compare_all(&r, NULL, &committed);
		if (below(&r, 5) == 0) {
			unit_reopen(r.u);
			compare_all(&r, NULL, &committed);
		}
	}
	model_release(&seen);
	finish(&r, &committed);
}

static void test_snapshot(void **state)
{
	const struct unit_options tiny = { .cache_bytes = 1 };

	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++)
		txn_run(seed, STET_LEVEL_SNAPSHOT, NULL);
	for (uint64_t seed = 101; seed <= 108; seed++)
		txn_run(seed, STET_LEVEL_SNAPSHOT, &tiny);
}

static void test_serializable(void **state)
{
	const struct unit_options wide = { .size_bytes = 128u << 20, .seg_blocks = 512 };

	(void)state;
	for (uint64_t seed = 31; seed <= 34; seed++)
		txn_run(seed, STET_LEVEL_SERIALIZABLE, &wide);
}

static void test_locking(void **state)
{
	(void)state;
	for (uint64_t seed = 51; seed <= 56; seed++)
		txn_run(seed, STET_LEVEL_LOCKING, NULL);
}

/* Several LOCKING transactions and plain writers on one file, each on its ranges: what one sees is
 * what is committed and its own. What meets a lock is left out. */
#define TOGETHER 3
#define SHARED_BYTES (1u << 20)

struct locker {
	struct stet_txn *txn;
	uint8_t *own; /* bytes it wrote */
	bool *is_own;
};

static void locker_begin(struct run *r, struct locker *l)
{
	l->txn = unit_begin(r->u, STET_LEVEL_LOCKING);
	memset(l->is_own, 0, SHARED_BYTES);
}

static void locker_end(struct run *r, struct locker *l, uint8_t *committed)
{
	if (below(r, 4) == 0) {
		unit_end(l->txn);
	} else {
		check_rc(r, unit_order(r->u, l->txn), "order");
		for (uint32_t i = 0; i < SHARED_BYTES; i++) {
			if (l->is_own[i])
				committed[i] = l->own[i];
		}
	}
	locker_begin(r, l);
}

/* A write of l (NULL: plain). */
static void locker_write(struct run *r, struct locker *l, uint8_t *committed)
{
	uint64_t off = some_length(r, SHARED_BYTES - 1);
	uint64_t len = 1 + some_length(r, 50000);
	int rc;

	if (len > SHARED_BYTES - off)
		len = SHARED_BYTES - off;
	stet_random_bytes(&r->rnd, scratch, len);
	rc = unit_write(r->u, l ? l->txn : NULL, r->ino[0], off, scratch, len);
	if (rc == -EBUSY)
		return;
	check_rc(r, rc, "write");
	memcpy((l ? l->own : committed) + off, scratch, len);
	if (l)
		memset(l->is_own + off, 1, len);
}

static void locker_read(struct run *r, struct locker *l, const uint8_t *committed)
{
	uint64_t off = some_length(r, SHARED_BYTES - 1);
	uint64_t len = 1 + some_length(r, 50000);
	int64_t got = unit_read(r->u, l->txn, r->ino[0], off, scratch, len);

	if (got == -EBUSY)
		return;
	assert_int_equal(got, len < SHARED_BYTES - off ? len : SHARED_BYTES - off);
	for (int64_t i = 0; i < got; i++) {
		uint64_t at = off + (uint64_t)i;

		assert_int_equal(scratch[i], l->is_own[at] ? l->own[at] : committed[at]);
	}
}

static void together_run(uint64_t seed)
{
	static uint8_t own[TOGETHER][SHARED_BYTES];
	static bool is_own[TOGETHER][SHARED_BYTES];
	struct locker l[TOGETHER];
	struct model m;
	struct run r;

	start(&r, seed, &m, NULL);
	for (int k = 0; k < TOGETHER; k++) {
		l[k].own = own[k];
		l[k].is_own = is_own[k];
	}
	check_rc(&r, unit_write(r.u, NULL, r.ino[0], 0, m.data[0], SHARED_BYTES), "write");
	m.size[0] = SHARED_BYTES;
	for (int k = 0; k < TOGETHER; k++)
		locker_begin(&r, &l[k]);
	for (int i = 0; i < 300; i++) {
		struct locker *one = &l[below(&r, TOGETHER)];
		uint64_t dice = below(&r, 20);

		if (dice < 9)
			locker_write(&r, one, m.data[0]);
		else if (dice < 12)
			locker_write(&r, NULL, m.data[0]);
		else if (dice < 17)
			locker_read(&r, one, m.data[0]);
		else if (dice == 17)
			locker_end(&r, one, m.data[0]);
		background(&r);
		if (below(&r, 20) == 0) {
			unit_check(r.u);
			compare_read(&r, NULL, &m, 0, 0, SHARED_BYTES);
		}
	}
	for (int k = 0; k < TOGETHER; k++) {
		locker_end(&r, &l[k], m.data[0]);
		unit_end(l[k].txn);
	}
	finish(&r, &m);
}

static void test_locking_together(void **state)
{
	(void)state;
	for (uint64_t seed = 71; seed <= 80; seed++)
		together_run(seed);
}

/* Small sequential writes end up in few, large extents. */
static void test_coalesce(void **state)
{
	const struct unit_options wide = { .size_bytes = 128u << 20, .seg_blocks = 1024 };
	struct unit *u = unit_create(&wide);
	struct stet_engine_stats before, after;
	uint8_t block[STET_BLOCK_SIZE];
	struct stet_txn *txn;
	uint64_t ino;

	(void)state;
	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &ino), 0);
	stet_engine_stats(u->engine, &before);
	txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	for (uint64_t i = 0; i < 1024; i++) {
		memset(block, (int)i, sizeof(block));
		assert_int_equal(unit_write(u, txn, ino, i * 4096, block, sizeof(block)), 0);
	}
	assert_int_equal(unit_order(u, txn), 0);
	stet_engine_stats(u->engine, &after);
	assert_true(after.delta_keys - before.delta_keys <= 20);
	unit_destroy(u);
}

/* Two transactions append to one file, one of them a lot: both appends are whole. */
static void test_append_together(void **state)
{
	struct unit *u = unit_create(NULL);
	static uint8_t a[20000], b[20000], all[60000];
	struct stet_txn *x, *y;
	uint64_t ino;

	(void)state;
	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	assert_int_equal(unit_make(u, NULL, 1, "log", S_IFREG | 0600, &ino), 0);
	x = unit_begin(u, STET_LEVEL_SNAPSHOT);
	y = unit_begin(u, STET_LEVEL_SERIALIZABLE);
	assert_int_equal(unit_append(u, x, ino, a, sizeof(a)), 0);
	assert_int_equal(unit_append(u, y, ino, b, sizeof(b)), 0);
	assert_int_equal(unit_append(u, NULL, ino, "plain", 5), 0);
	assert_int_equal(unit_write(u, NULL, ino, 0, "P", 1),
			 -EBUSY); /* appenders keep writers out */
	assert_int_equal(unit_append(u, x, ino, "x", 1), 0);
	assert_int_equal(unit_read(u, x, ino, 0, all, sizeof(all)), 20001);
	assert_int_equal(unit_order(u, y), 0);
	assert_int_equal(unit_order(u, x), 0);
	assert_int_equal(unit_read(u, NULL, ino, 0, all, sizeof(all)), 40006);
	assert_memory_equal(all, "plain", 5);
	assert_memory_equal(all + 5, b, sizeof(b));
	assert_memory_equal(all + 20005, a, sizeof(a));
	assert_int_equal(all[40005], 'x');
	unit_destroy(u);
}

/* A transaction's cut of an extent survives that the extent is placed, split and moved below it. */
static void test_rebase(void **state)
{
	struct unit *u = unit_create(NULL);
	static uint8_t data[64 * BLOCK], back[64 * BLOCK];
	struct stet_txn *txn;
	uint64_t ino;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i >> 9);
	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &ino), 0);
	assert_int_equal(unit_write(u, NULL, ino, 0, data, sizeof(data)), 0);
	txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	memset(data + 5 * BLOCK, 0xee, 3 * BLOCK);
	assert_int_equal(unit_write(u, txn, ino, 5 * BLOCK, data + 5 * BLOCK, 3 * BLOCK), 0);
	memset(data + 16 * BLOCK, 0xdd, 16 * BLOCK);
	assert_int_equal(unit_write(u, txn, ino, 16 * BLOCK, data + 16 * BLOCK, 16 * BLOCK), 0);
	unit_flush(u, true);
	for (uint64_t block = 0; block < 64; block++) { /* move everything */
		struct stet_fs_ctx ctx = { .fs = u->fs, .txn = unit_begin(u, STET_LEVEL_PLAIN) };
		struct stet_extent e;
		struct stet_key key;
		struct stet_val val;
		uint32_t moved = 0;
		uint64_t wait;

		stet_key_extent(&key, ino, block);
		if (stet_txn_get(ctx.txn, &key, &val) == 0 && !val.buf) {
			assert_int_equal(stet_extent_decode(val.b, val.bytes, 64, &e), 0);
			assert_int_equal(stet_fs_move(&ctx, ino, block, e.addr, &moved), 0);
			assert_int_equal(moved, e.block_count);
			assert_int_equal(stet_txn_order(ctx.txn, NULL, &wait), 0);
		}
		stet_txn_end(ctx.txn);
	}
	unit_flush(u, true);
	assert_int_equal(unit_read(u, txn, ino, 0, back, sizeof(back)), sizeof(back));
	assert_memory_equal(back, data, sizeof(data));
	assert_int_equal(unit_order(u, txn), 0);
	unit_check(u);
	unit_reopen(u);
	assert_int_equal(unit_read(u, NULL, ino, 0, back, sizeof(back)), sizeof(back));
	assert_memory_equal(back, data, sizeof(data));
	unit_destroy(u);
}

/* Splits the committed extent at `first` before block `at`, as log and cleaner may. */
static void split(struct unit *u, uint64_t ino, uint64_t first, uint64_t at)
{
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_PLAIN);
	uint8_t value[STET_EXTENT_VALUE_MAX];
	uint16_t head = (uint16_t)(at - first);
	struct stet_extent e, part;
	struct stet_key key;
	struct stet_val val;
	uint64_t wait;

	stet_key_extent(&key, ino, first);
	assert_int_equal(stet_txn_get(txn, &key, &val), 0);
	if (val.buf) {
		struct stet_databuf *buf = stet_databuf_get(val.buf);

		assert_int_equal(stet_txn_put_buf(txn, &key, buf, val.buf_from, head, val.birth),
				 0);
		stet_key_extent(&key, ino, at);
		assert_int_equal(stet_txn_put_buf(txn, &key, buf, (uint16_t)(val.buf_from + head),
						  (uint16_t)(val.buf_count - head), val.birth),
				 0);
		stet_databuf_put(buf);
	} else {
		assert_int_equal(stet_extent_decode(val.b, val.bytes, 64, &e), 0);
		part = e;
		part.block_count = part.phys_blocks = head;
		assert_int_equal(stet_txn_put(txn, &key, value, stet_extent_encode(&part, value)),
				 0);
		part = e;
		part.addr = stet_addr_add(e.addr, head);
		part.block_count = part.phys_blocks = (uint16_t)(e.block_count - head);
		part.crcs = e.crcs + (size_t)4 * head;
		stet_key_extent(&key, ino, at);
		assert_int_equal(stet_txn_put(txn, &key, value, stet_extent_encode(&part, value)),
				 0);
	}
	assert_int_equal(stet_txn_order(txn, NULL, &wait), 0);
	stet_txn_end(txn);
}

/* Extents that are split below what a transaction has cut. */
static void split_run(enum stet_level level, bool placed)
{
	struct unit *u = unit_create(NULL);
	static uint8_t data[32 * BLOCK], back[32 * BLOCK];
	struct stet_fs_attr attr;
	struct stet_txn *txn;
	uint64_t ino;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(1 + (i >> 10));
	assert_int_equal(unit_make(u, NULL, 1, "f", S_IFREG | 0600, &ino), 0);
	assert_int_equal(unit_write(u, NULL, ino, 0, data, sizeof(data)), 0);
	if (placed)
		unit_flush(u, true);
	txn = unit_begin(u, level);
	memset(data + 12 * BLOCK, 0xaa, 2 * BLOCK);
	memset(data + 18 * BLOCK, 0xbb, 2 * BLOCK);
	assert_int_equal(unit_write(u, txn, ino, 12 * BLOCK, data + 12 * BLOCK, 2 * BLOCK), 0);
	assert_int_equal(unit_write(u, txn, ino, 18 * BLOCK, data + 18 * BLOCK, 2 * BLOCK), 0);
	split(u, ino, 0, 10);
	split(u, ino, 16, 26);
	assert_int_equal(unit_read(u, txn, ino, 0, back, sizeof(back)), sizeof(back));
	assert_memory_equal(back, data, sizeof(data));
	memset(data + 27 * BLOCK, 0xcc, 2 * BLOCK);
	assert_int_equal(unit_write(u, txn, ino, 27 * BLOCK, data + 27 * BLOCK, 2 * BLOCK), 0);
	assert_int_equal(unit_read(u, txn, ino, 0, back, sizeof(back)), sizeof(back));
	assert_memory_equal(back, data, sizeof(data));
	assert_int_equal(unit_getattr(u, txn, ino, &attr), 0);
	assert_int_equal(attr.blocks512, 32 * 8);
	assert_int_equal(unit_order(u, txn), 0);
	unit_check(u);
	assert_int_equal(unit_read(u, NULL, ino, 0, back, sizeof(back)), sizeof(back));
	assert_memory_equal(back, data, sizeof(data));
	unit_destroy(u);
}

static void test_split(void **state)
{
	(void)state;
	split_run(STET_LEVEL_SNAPSHOT, true);
	split_run(STET_LEVEL_SNAPSHOT, false);
	split_run(STET_LEVEL_LOCKING, true);
	split_run(STET_LEVEL_LOCKING, false);
}

/* A buffer that was cut shorter and grows again shows nothing of what it held. */
static void test_spare_room(void **state)
{
	struct unit *u = unit_create(NULL);
	static uint8_t data[6 * BLOCK], back[6 * BLOCK];
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	uint64_t ino;

	(void)state;
	assert_int_equal(unit_make(u, txn, 1, "f", S_IFREG | 0600, &ino), 0);
	memset(data, 0xdd, sizeof(data));
	assert_int_equal(unit_write(u, txn, ino, 0, data, sizeof(data)), 0);
	assert_int_equal(unit_truncate(u, txn, ino, 2 * BLOCK), 0);
	assert_int_equal(unit_write(u, txn, ino, 2 * BLOCK, "x", 1), 0);
	assert_int_equal(unit_truncate(u, txn, ino, sizeof(data)), 0);
	memset(data + 2 * BLOCK, 0, 4 * BLOCK);
	data[2 * BLOCK] = 'x';
	assert_int_equal(unit_read(u, txn, ino, 0, back, sizeof(back)), sizeof(back));
	assert_memory_equal(back, data, sizeof(data));
	assert_int_equal(unit_order(u, txn), 0);
	unit_destroy(u);
}

/* What a spilled transaction has replaced does not come back when both reach the log in one flush. */
static void test_one_flush(void **state)
{
	const struct unit_options options = { .size_bytes = 256u << 20, .cache_bytes = 8u << 20 };
	struct unit *u = unit_create(&options);
	static uint8_t data[250000];
	uint64_t f[4], more;
	struct stet_txn *txn;
	char name[16];

	(void)state;
	memset(data, 'a', sizeof(data));
	for (size_t i = 0; i < 4; i++) {
		(void)snprintf(name, sizeof(name), "f%zu", i);
		assert_int_equal(unit_make(u, NULL, 1, name, S_IFREG | 0600, &f[i]), 0);
		assert_int_equal(unit_write(u, NULL, f[i], 0, data, sizeof(data)), 0);
	}
	txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	assert_int_equal(unit_unlink(u, txn, 1, "f0"), 0);
	for (size_t i = 1; i < 4; i++)
		assert_int_equal(unit_truncate(u, txn, f[i], 0), 0);
	for (size_t i = 0; i < 2000; i++) {
		(void)snprintf(name, sizeof(name), "more%zu", i);
		assert_int_equal(unit_make(u, txn, 1, name, S_IFREG | 0600, &more), 0);
		assert_int_equal(unit_write(u, txn, more, 0, data, 2000), 0);
		unit_spill(u, txn);
	}
	assert_int_equal(unit_order(u, txn), 0);
	unit_reopen(u);
	assert_int_equal(unit_lookup(u, NULL, 1, "f0", &more), -ENOENT);
	unit_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_serializable),
		cmocka_unit_test(test_locking),
		cmocka_unit_test(test_locking_together),
		cmocka_unit_test(test_coalesce),
		cmocka_unit_test(test_append_together),
		cmocka_unit_test(test_rebase),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_spare_room),
		cmocka_unit_test(test_one_flush),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
