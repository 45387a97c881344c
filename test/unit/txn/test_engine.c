/* test_engine.c - the engine against a model map: records and data, plain and in transactions, with flushes,
 * checkpoints, views and reopening in between.
 *
 * Values live in RECORD keys (bytes) and EXTENT keys (one-block buffers, whole or patched). The model is an
 * array; each view and transaction keeps a copy of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "device/device.h"
#include "sim/clock.h"
#include "txn/engine.h"
#include "txn/txn.h"

#define KEYS 1000
#define VOLUME_BYTES (UINT64_C(512) << 20)

struct value {
	uint32_t stamp; /* 0 = absent */
};

struct model {
	struct value rec[KEYS];
	struct value data[KEYS];
};

struct world {
	struct stet_device *device;
	struct stet_superblock sb;
	struct sim_clock clock;
	struct stet_engine_config config;
	struct stet_engine *engine;
	struct stet_random random;
	struct model now;
	uint32_t stamp;
};

static bool same_value(void *arg, const struct stet_key *key, uint32_t mask,
		       const struct stet_val *a, const struct stet_val *b)
{
	(void)arg;
	(void)key;
	(void)mask;
	if (!a || !b)
		return a == b;
	if (a->buf || b->buf)
		return a->buf == b->buf && a->buf_from == b->buf_from;
	return a->bytes == b->bytes && memcmp(a->b, b->b, a->bytes) == 0;
}

static const struct stet_engine_hooks hooks = { .same = same_value };

static int fill_nothing(void *arg, struct stet_txn *txn)
{
	struct stet_key key;

	(void)arg;
	stet_key_record(&key, 2, "x", 1);
	return stet_txn_put(txn, &key, "\0first", 6);
}

static void world_open(struct world *w)
{
	int rc = stet_engine_open(w->device, &w->config, &hooks, &w->engine);

	if (rc)
		fail_msg("open: %d %s", rc, stet_error_text());
	stet_space_check(stet_engine_space(w->engine));
}

static void world_init(struct world *w, uint64_t seed, uint32_t seg_blocks, uint32_t copies)
{
	memset(w, 0, sizeof(*w));
	stet_random_seed(&w->random, seed);
	assert_int_equal(stet_device_open_memory(VOLUME_BYTES, &w->device), 0);
	w->sb = (struct stet_superblock){
		.volume_id = stet_random_next(&w->random),
		.device_blocks = VOLUME_BYTES / STET_BLOCK_SIZE,
		.seg_start_block = STET_HEAD_BLOCKS,
		.seg_blocks = seg_blocks,
		.slot_count = (uint32_t)((VOLUME_BYTES / STET_BLOCK_SIZE - 33) / seg_blocks),
		.meta_copies = (uint8_t)copies,
		.data_copies = 1,
	};
	sim_clock_init(&w->clock, INT64_C(1700000000000000000));
	w->config = (struct stet_engine_config){ .cache_bytes = 4 << 20,
						 .seed = seed,
						 .clock = &w->clock.clock };
	int rc = stet_engine_format(w->device, &w->sb, &w->config, fill_nothing, NULL, &hooks);
	if (rc)
		fail_msg("format: %d %s", rc, stet_error_text());
	world_open(w);
}

static void run_job(struct world *w, struct stet_job *job)
{
	if (!job)
		return;
	stet_job_perform(job);
	stet_engine_finish(w->engine, job);
}

static void key_of(struct stet_key *key, bool data, uint32_t i)
{
	char name[16];

	if (data) {
		stet_key_extent(key, 3, (uint64_t)i * 2);
		return;
	}
	snprintf(name, sizeof(name), "k%05u", i);
	stet_key_record(key, 2, name, strlen(name));
}

static void fill_block(uint8_t *block, uint32_t i, uint32_t stamp)
{
	memset(block, (int)(i & 0xff), STET_BLOCK_SIZE);
	memcpy(block + 100, &stamp, sizeof(stamp));
}

static void put_data(struct world *w, struct stet_txn *txn, uint32_t i, uint32_t stamp, bool had)
{
	struct stet_databuf *buf;
	struct stet_key key;

	key_of(&key, true, i);
	assert_int_equal(stet_databuf_create(stet_engine_cache(w->engine), 1, &buf), 0);
	fill_block(buf->data, i, stamp);
	if (had && stet_random_below(&w->random, 2))
		assert_int_equal(stet_txn_put_patch(txn, &key, buf, 0, 100, 4), 0);
	else
		assert_int_equal(stet_txn_put_buf(txn, &key, buf, 0, 1, 0), 0);
	stet_databuf_put(buf);
}

static void put_record(struct world *w, struct stet_txn *txn, uint32_t i, uint32_t stamp)
{
	uint8_t value[2500] = { 0 };
	struct stet_key key;
	size_t len = 5 + stet_random_below(&w->random, sizeof(value) - 5);

	key_of(&key, false, i);
	memcpy(value + 1, &stamp, sizeof(stamp));
	assert_int_equal(stet_txn_put(txn, &key, value, len), 0);
}

static void change(struct world *w, struct stet_txn *txn, struct model *m)
{
	bool data = stet_random_below(&w->random, 2);
	uint32_t i = (uint32_t)stet_random_below(&w->random, KEYS);
	struct value *v = data ? &m->data[i] : &m->rec[i];
	struct stet_key key;

	if (stet_random_below(&w->random, 4) == 0) {
		key_of(&key, data, i);
		assert_int_equal(stet_txn_del(txn, &key), 0);
		v->stamp = 0;
		return;
	}
	uint32_t stamp = ++w->stamp;
	if (data)
		put_data(w, txn, i, stamp, v->stamp != 0);
	else
		put_record(w, txn, i, stamp);
	v->stamp = stamp;
}

static uint32_t read_block(struct world *w, const struct stet_val *val)
{
	uint8_t block[STET_BLOCK_SIZE];
	uint32_t stamp;

	if (val->buf && val->buf->data) {
		memcpy(&stamp, val->buf->data + (size_t)val->buf_from * STET_BLOCK_SIZE + 100, 4);
		return stamp;
	}
	struct stet_extent e;
	uint8_t crcs[4];
	struct stet_addr addr;
	if (val->buf) {
		addr = val->buf->addr[val->buf_from];
		stet_put_le32(crcs, val->buf->crc[val->buf_from]);
	} else {
		assert_int_equal(stet_extent_decode(val->b, val->bytes, w->sb.seg_blocks, &e), 0);
		addr = e.addr;
		memcpy(crcs, e.crcs, 4);
	}
	int rc = stet_cache_read(stet_engine_cache(w->engine), addr, STET_ADDR_NONE, 1, crcs,
				 block);
	if (rc)
		fail_msg("read: %d %s", rc, stet_error_text());
	memcpy(&stamp, block + 100, 4);
	return stamp;
}

static uint32_t stamp_of(struct world *w, bool data, const struct stet_val *val)
{
	uint32_t stamp;

	if (data)
		return read_block(w, val);
	memcpy(&stamp, val->b + 1, 4);
	return stamp;
}

static void compare_txn(struct world *w, struct stet_txn *txn, const struct model *m)
{
	struct stet_val val;
	struct stet_key key;

	for (uint32_t n = 0; n < 2 * KEYS; n++) {
		bool data = n >= KEYS;
		uint32_t i = n % KEYS;
		uint32_t want = data ? m->data[i].stamp : m->rec[i].stamp;

		key_of(&key, data, i);
		int rc = stet_txn_get(txn, &key, &val);
		if (want == 0) {
			assert_int_equal(rc, -ENOENT);
			continue;
		}
		if (rc)
			fail_msg("key %u data %d: %d %s", i, data, rc, stet_error_text());
		assert_int_equal(stamp_of(w, data, &val), want);
	}
}

static void compare_scan(struct world *w, struct stet_txn *txn, const struct model *m)
{
	struct stet_key from, to, key, want;
	struct stet_scan *scan;
	struct stet_val val;
	uint32_t i = 0;
	int rc;

	stet_key_extent(&from, 3, 0);
	stet_key_extent(&to, 3, UINT64_MAX);
	assert_int_equal(stet_scan_open(txn, &from, &to, &scan), 0);
	while ((rc = stet_scan_next(scan, &key, &val)) == 1) {
		while (i < KEYS && m->data[i].stamp == 0)
			i++;
		assert_true(i < KEYS);
		key_of(&want, true, i);
		assert_int_equal(key.bytes, want.bytes);
		assert_memory_equal(key.b, want.b, key.bytes);
		assert_int_equal(stamp_of(w, true, &val), m->data[i].stamp);
		i++;
	}
	if (rc)
		fail_msg("scan: %d %s", rc, stet_error_text());
	while (i < KEYS && m->data[i].stamp == 0)
		i++;
	assert_int_equal(i, KEYS);
	stet_scan_close(scan);
}

static void compare(struct world *w)
{
	struct stet_txn *txn;

	assert_int_equal(stet_txn_begin(w->engine, STET_LEVEL_SNAPSHOT, true, &txn), 0);
	compare_txn(w, txn, &w->now);
	compare_scan(w, txn, &w->now);
	stet_txn_end(txn);
}

static void pump(struct world *w)
{
	struct stet_job *job = NULL;
	int rc = 0;

	switch (stet_random_below(&w->random, 12)) {
	case 0:
		rc = stet_engine_flush_start(w->engine, &job);
		break;
	case 1:
		if (stet_random_below(&w->random, 8) == 0)
			assert_int_equal(stet_engine_checkpoint(w->engine, NULL), 0);
		break;
	default:
		rc = stet_engine_step(w->engine, &job);
		break;
	}
	if (rc < 0)
		fail_msg("step: %d %s", rc, stet_error_text());
	run_job(w, job);
}

static void plain(struct world *w)
{
	struct stet_txn *txn;
	uint64_t wait;
	uint64_t n = 1 + stet_random_below(&w->random, 4);

	assert_int_equal(stet_txn_begin(w->engine, STET_LEVEL_PLAIN, false, &txn), 0);
	while (n-- > 0)
		change(w, txn, &w->now);
	assert_int_equal(stet_txn_order(txn, NULL, &wait), 0);
	stet_txn_end(txn);
}

static void transaction(struct world *w)
{
	struct model mine = w->now;
	struct model before = w->now;
	struct stet_txn *txn;
	uint64_t wait;
	uint64_t n = 1 +
		     stet_random_below(&w->random, stet_random_below(&w->random, 4) ? 60 : 3000);

	assert_int_equal(stet_txn_begin(w->engine, STET_LEVEL_SNAPSHOT, false, &txn), 0);
	while (n-- > 0) {
		struct stet_job *job;

		change(w, txn, &mine);
		pump(w);
		int rc = stet_txn_spill(txn, &job);
		if (rc < 0)
			fail_msg("spill: %d %s", rc, stet_error_text());
		run_job(w, job);
	}
	compare_txn(w, txn, &mine);
	compare_scan(w, txn, &mine);
	if (stet_random_below(&w->random, 3) == 0) {
		stet_txn_end(txn);
		w->now = before;
		return;
	}
	assert_int_equal(stet_txn_order(txn, NULL, &wait), 0);
	stet_txn_end(txn);
	w->now = mine;
}

static void reopen(struct world *w)
{
	struct stet_job *job;
	int rc = stet_engine_flush_start(w->engine, &job);

	if (rc)
		fail_msg("flush: %d %s", rc, stet_error_text());
	run_job(w, job);
	stet_space_check(stet_engine_space(w->engine));
	stet_engine_close(w->engine);
	world_open(w);
}

static void run_world(uint64_t seed, uint32_t seg_blocks, uint32_t copies, uint32_t rounds)
{
	struct world w;

	print_message("seed %llu seg %u copies %u\n", (unsigned long long)seed, seg_blocks, copies);
	world_init(&w, seed, seg_blocks, copies);
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t what = stet_random_below(&w.random, 100);

		if (what < 70)
			plain(&w);
		else if (what < 75)
			transaction(&w);
		else if (what < 76 && i % 8 == 0)
			reopen(&w);
		else
			pump(&w);
		if (i % 400 == 0) {
			compare(&w);
			stet_space_check(stet_engine_space(w.engine));
		}
	}
	compare(&w);
	assert_int_equal(stet_engine_settle(w.engine), 0);
	compare(&w);
	stet_engine_close(w.engine);
	world_open(&w);
	compare(&w);
	stet_engine_close(w.engine);
	stet_device_close(w.device);
}

static void test_random(void **state)
{
	const char *seed = getenv("ENGINE_SEED");
	uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;
	uint64_t count = seed ? 1 : 6;

	(void)state;
	for (uint64_t s = first; s < first + count; s++)
		run_world(s, s % 2 ? 64 : 256, s % 3 ? 2 : 1, 4000);
}

/* A view reads the state of its time, whatever is committed and checkpointed meanwhile; with little memory for
 * the delta also when it has moved to the device. So does another one like it, whenever that is made. */
static void run_views(uint64_t delta_bytes, uint64_t overlays)
{
	struct stet_txn *txn[4], *like[4];
	struct stet_engine_stats stats;
	struct model was[4];
	struct world w;

	world_init(&w, 77, 64, 2);
	stet_engine_close(w.engine);
	w.config.delta_bytes = delta_bytes;
	world_open(&w);
	for (uint32_t v = 0; v < 4; v++) {
		for (uint32_t i = 0; i < 300; i++)
			plain(&w);
		was[v] = w.now;
		assert_int_equal(stet_txn_begin(w.engine, STET_LEVEL_SNAPSHOT, true, &txn[v]), 0);
		if (delta_bytes == 0)
			assert_int_equal(stet_engine_settle(w.engine), 0);
	}
	for (uint32_t i = 0; i < 2000; i++) {
		plain(&w);
		pump(&w);
		if (i % 500 == 250)
			assert_int_equal(stet_txn_begin_like(txn[i / 500], &like[i / 500]), 0);
	}
	for (uint32_t v = 0; v < 4; v++) {
		compare_txn(&w, txn[v], &was[v]);
		compare_scan(&w, txn[v], &was[v]);
		stet_engine_stats(w.engine, &stats);
		stet_txn_end(v % 2 ? txn[v] : like[v]);
		assert_int_equal(stet_engine_settle(w.engine), 0);
	}
	for (uint32_t v = 0; v < 4; v++) {
		struct stet_txn *other = v % 2 ? like[v] : txn[v];

		compare_txn(&w, other, &was[v]);
		compare_scan(&w, other, &was[v]);
		stet_txn_end(other);
	}
	assert_int_equal(stet_engine_settle(w.engine), 0);
	assert_true(stats.overlays >= overlays);
	compare(&w);
	stet_space_check(stet_engine_space(w.engine));
	stet_engine_close(w.engine);
	stet_device_close(w.device);
}

static void test_views(void **state)
{
	(void)state;
	run_views(0, 0);
}

static void test_overlays(void **state)
{
	(void)state;
	run_views(16 << 10, 1);
}

/* Keys that only an old view can see do not slow down those who list in parts. */
static void test_listing_beside_old_view(void **state)
{
	struct stet_engine_stats stats;
	struct stet_txn *old, *txn;
	struct stet_key from, to, key;
	struct stet_scan *scan;
	struct stet_val val;
	struct world w;
	uint32_t count = 0;

	(void)state;
	world_init(&w, 5, 64, 1);
	for (uint32_t i = 0; i < 3000; i++)
		plain(&w);
	assert_int_equal(stet_txn_begin(w.engine, STET_LEVEL_SNAPSHOT, true, &old), 0);
	assert_int_equal(stet_engine_settle(w.engine), 0);
	assert_int_equal(stet_txn_begin(w.engine, STET_LEVEL_SNAPSHOT, true, &txn), 0);
	stet_key_kind(&from, 1, 1);
	stet_key_kind(&to, UINT32_MAX, 1);
	for (bool more = true; more;) { /* five keys at a time */
		assert_int_equal(stet_scan_open(txn, &from, &to, &scan), 0);
		for (int i = 0; i < 5 && more; i++) {
			more = stet_scan_next(scan, &key, &val) == 1;
			count += more;
			if (more)
				from = key;
		}
		stet_scan_close(scan);
		from.b[from.bytes++] = 0;
	}
	assert_true(count > 300);
	stet_engine_stats(w.engine, &stats);
	assert_true(stats.delta_keys > 300);
	assert_true(stats.invisible <= 2 * stats.delta_keys + count);
	stet_txn_end(txn);
	stet_txn_end(old);
	assert_int_equal(stet_engine_settle(w.engine), 0);
	stet_engine_close(w.engine);
	stet_device_close(w.device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_overlays),
		cmocka_unit_test(test_listing_beside_old_view),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
