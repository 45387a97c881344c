/* test_savepoint.c - what savepoints and aborting cost, in counts and not in time; sets of ranges. */
#include "unit.h"

#include "base/mem.h"
#include "fs/fs_internal.h"

/* --- ranges, against one byte a number --- */

#define NUMBERS 3000u

static void expect_ranges(const struct fs_ranges *r, const uint8_t *set)
{
	struct fs_range range = { 0, 0 };
	uint64_t at = 0;
	size_t n = 0;

	while (stet_ranges_next_(r, at, &range)) {
		for (; at < range.lo; at++)
			assert_int_equal(set[at], 0);
		for (; at < range.hi; at++)
			assert_int_equal(set[at], 1);
		n++;
	}
	for (; at < NUMBERS; at++)
		assert_int_equal(set[at], 0);
	assert_int_equal(n, r->count);
}

static void expect_gap(const struct fs_ranges *r, const uint8_t *set, uint64_t from, uint64_t end)
{
	uint64_t at = from, lo, want = from;
	bool found = stet_ranges_gap_(r, &at, end, &lo);

	while (want < end && set[want])
		want++;
	assert_int_equal(found, want < end);
	assert_int_equal(stet_ranges_has_(r, from), set[from]);
	if (!found)
		return;
	assert_int_equal(lo, want);
	while (want < end && !set[want])
		want++;
	assert_int_equal(at, want);
}

static void ranges_like_bytes(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct fs_ranges r = { .count = 0 };
		uint8_t set[NUMBERS] = { 0 };
		struct stet_random rnd;

		stet_random_seed(&rnd, seed);
		for (unsigned step = 0; step < 6000; step++) {
			uint64_t lo = stet_random_below(&rnd, NUMBERS);
			uint64_t most = stet_random_below(&rnd, 50) ? 2 : NUMBERS;
			uint64_t hi = lo + stet_random_below(&rnd, most + 1);

			hi = hi < NUMBERS ? hi : NUMBERS;
			if (stet_random_below(&rnd, 2)) {
				assert_int_equal(stet_ranges_add_(&r, lo, hi), 0);
				memset(set + lo, 1, hi - lo);
			} else if (hi > lo && !memchr(set + lo, 0, hi - lo)) {
				assert_int_equal(stet_ranges_take_(&r, lo, hi), 0);
				memset(set + lo, 0, hi - lo);
			}
			expect_gap(&r, set, lo, hi > lo ? hi : lo + 1);
			if (step % 500 == 0)
				expect_ranges(&r, set);
		}
		expect_ranges(&r, set);
		stet_ranges_release_(&r);
	}
}

/* --- space --- */

static uint64_t used_blocks(struct unit *u)
{
	struct stet_space_usage s;

	stet_space_usage(stet_engine_space(u->engine), &s);
	return s.held_blocks - s.dying_blocks + s.live_blocks;
}

static uint64_t promised_blocks(struct unit *u)
{
	struct stet_space_usage s;

	stet_space_usage(stet_engine_space(u->engine), &s);
	return s.reserved_blocks;
}

static void fill(struct unit *u, struct stet_txn *txn, unsigned files, char c)
{
	static char data[10 * BLOCK];

	memset(data, c, sizeof(data));
	for (unsigned i = 0; i < files; i++) {
		char name[16];
		uint64_t ino;

		snprintf(name, sizeof(name), "f%u", i);
		if (unit_lookup(u, txn, STET_ROOT_INO, name, &ino))
			assert_int_equal(
				unit_make(u, txn, STET_ROOT_INO, name, S_IFREG | 0644, &ino), 0);
		assert_int_equal(unit_write(u, txn, ino, 0, data, sizeof(data)), 0);
		unit_spill(u, txn);
	}
}

/* What was placed early comes back to the volume at once, as far as no savepoint needs it. */
static void places_come_back(void **state)
{
	const struct unit_options small = { .size_bytes = UINT64_C(64) << 20, .spill_bytes = 4096 };
	struct unit *u = unit_create(&small);
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	uint64_t none = used_blocks(u), some, more, promised, id[3];

	(void)state;
	assert_int_equal(stet_txn_savepoint(txn, &id[0]), 0);
	fill(u, txn, 30, 'a');
	assert_int_equal(stet_txn_savepoint(txn, &id[1]), 0);
	some = used_blocks(u);
	promised = promised_blocks(u);
	for (unsigned round = 0; round < 5; round++) {
		fill(u, txn, 100, 'b'); /* over those, again and again: what is between goes */
		more = used_blocks(u);
		assert_true(more >= some + 700 && more < some + 2500);
	}
	assert_int_equal(stet_txn_savepoint(txn, &id[2]), 0);
	fill(u, txn, 100, 'c');
	assert_int_equal(stet_txn_rollback_to(txn, id[1]), 0);
	assert_true(used_blocks(u) <= some);
	assert_true(promised_blocks(u) <= promised);
	assert_int_equal(stet_txn_rollback_to(txn, id[0]), 0);
	assert_int_equal(used_blocks(u), none);
	fill(u, txn, 50, 'd');
	fill(u, txn, 50, 'e');
	assert_int_equal(stet_txn_savepoint_release(txn, id[0]), 0);
	assert_true(used_blocks(u) < none + 1000); /* the d are gone */
	unit_end(txn);
	assert_int_equal(used_blocks(u), none);
	unit_destroy(u);
}

/* --- without memory --- */

static void make_some(struct unit *u, struct stet_txn *txn, const char *prefix)
{
	for (unsigned i = 0; i < 40; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%s%u", prefix, i);
		assert_int_equal(unit_make(u, txn, STET_ROOT_INO, name, S_IFREG | 0644, NULL), 0);
	}
}

/* That allocation, and all later ones, fail. 1: it has spilled. */
static int spill_without_memory(struct unit *u, struct stet_txn *txn, int64_t fail_after)
{
	struct stet_job *job;
	int rc;

	stet_mem_fail_after(fail_after);
	rc = stet_txn_spill(txn, &job);
	if (rc == 1) {
		stet_job_perform(job);
		stet_engine_finish(u->engine, job);
	}
	return rc;
}

/* False: nothing failed. */
static bool spill_and_come_back(struct unit *u, int64_t fail_after)
{
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	uint64_t early, late, ino;
	bool failed;
	int rc;

	assert_int_equal(stet_txn_savepoint(txn, &early), 0);
	make_some(u, txn, "a");
	rc = spill_without_memory(u, txn, fail_after);
	failed = stet_mem_count() >= (uint64_t)fail_after;
	stet_mem_fail_after(-1);
	assert_true(rc == 1 || rc == -ENOMEM);
	if (rc == 1) {
		assert_int_equal(stet_txn_savepoint(txn, &late), 0);
		make_some(u, txn, "b");
		unit_spill(u, txn);
		make_some(u, txn, "c");
		unit_spill(u, txn);
		assert_int_equal(stet_txn_rollback_to(txn, late), 0);
		assert_int_equal(unit_lookup(u, txn, STET_ROOT_INO, "a7", &ino), 0);
		assert_int_equal(unit_lookup(u, txn, STET_ROOT_INO, "b7", &ino), -ENOENT);
		assert_int_equal(stet_txn_rollback_to(txn, early), 0);
		assert_int_equal(unit_lookup(u, txn, STET_ROOT_INO, "a7", &ino), -ENOENT);
	}
	unit_end(txn);
	return failed;
}

/* A spill for which some memory is missing fails, or can be come back over like any other. */
static void spills_without_memory(void **state)
{
	const struct unit_options small = { .size_bytes = UINT64_C(64) << 20, .spill_bytes = 4096 };
	struct unit *u = unit_create(&small);
	int64_t n = 1;

	(void)state;
	while (spill_and_come_back(u, n))
		n++;
	assert_true(n > 10);
	unit_destroy(u);
}

/* --- aborting --- */

static uint64_t nodes_looked_at(struct unit *u)
{
	struct stet_cache_usage c;

	stet_cache_usage(stet_engine_cache(u->engine), &c);
	return c.node_hits + c.node_misses;
}

/* Nodes that aborting `changes` new files looks at, in a volume of so many. */
static uint64_t abort_nodes(unsigned files, unsigned changes, uint64_t spill_bytes)
{
	const struct unit_options options = { .size_bytes = UINT64_C(256) << 20,
					      .spill_bytes = spill_bytes };
	struct unit *u = unit_create(&options);
	struct stet_txn *txn;
	uint64_t before, ino;
	char name[16];

	for (unsigned i = 0; i < files; i++) {
		snprintf(name, sizeof(name), "old%u", i);
		assert_int_equal(unit_make(u, NULL, STET_ROOT_INO, name, S_IFREG | 0644, &ino), 0);
	}
	unit_flush(u, true);
	txn = unit_begin(u, STET_LEVEL_SNAPSHOT);
	for (unsigned i = 0; i < changes; i++) {
		snprintf(name, sizeof(name), "new%u", i);
		assert_int_equal(unit_make(u, txn, STET_ROOT_INO, name, S_IFREG | 0644, &ino), 0);
		unit_spill(u, txn);
	}
	before = nodes_looked_at(u);
	unit_end(txn);
	before = nodes_looked_at(u) - before;
	unit_destroy(u);
	return before;
}

static void aborting_costs_what_was_changed(void **state)
{
	uint64_t few, many;

	(void)state;
	assert_int_equal(abort_nodes(10, 100, 0), 0); /* nothing was spilled */
	assert_int_equal(abort_nodes(2500, 100, 0), 0);
	few = abort_nodes(10, 5000, 20000);
	many = abort_nodes(2500, 5000, 20000);
	assert_true(few > 10 && many <= few + few / 4);
	assert_true(abort_nodes(10, 20000, 20000) <= 6 * few);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_like_bytes),
		cmocka_unit_test(places_come_back),
		cmocka_unit_test(spills_without_memory),
		cmocka_unit_test(aborting_costs_what_was_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
