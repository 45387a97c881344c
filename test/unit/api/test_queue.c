/* test_queue.c - records taken from either end of a table: what was taken costs nothing any more, and is not taken
 * for more than it is: what others put there since, a savepoint brings back, or an older view still has. */
#include "api_unit.h"

#include "base/random.h"

#include <pthread.h>
#include <stdlib.h>

#define ITEMS 3000u

struct queue {
	struct stet_volume *vol;
	struct stet_table *table;
};

static struct queue open_queue(void **state)
{
	struct queue q = { .vol = ((struct unit_volume *)*state)->vol };

	OK(stet_table_open(q.vol, NULL, STET_ROOT, "queue", O_RDWR | O_CREAT, 0644, &q.table));
	return q;
}

static int put(struct queue *q, struct stet_txn *txn, unsigned no)
{
	char key[16];
	int len = snprintf(key, sizeof(key), "%08u", no);

	return stet_put(q->table, txn, key, (size_t)len, &no, sizeof(no), 0);
}

static int del(struct queue *q, struct stet_txn *txn, unsigned no)
{
	char key[16];
	int len = snprintf(key, sizeof(key), "%08u", no);

	return stet_del(q->table, txn, key, (size_t)len);
}

/* The first or last of the bounds; -1: none. */
static int64_t look(struct queue *q, struct stet_txn *txn, const struct stet_bounds *bounds)
{
	struct stet_cursor *cursor;
	struct stet_record record;
	int64_t no = -1;
	int rc;

	OK(stet_cursor_open(q->table, txn, bounds, &cursor));
	rc = stet_cursor_next(cursor, &record);
	assert_true(rc >= 0);
	if (rc == 1) {
		char key[16] = "";

		assert_true(record.key_len < sizeof(key));
		memcpy(key, record.key, record.key_len);
		no = atoll(key);
	}
	stet_cursor_close(cursor);
	return no;
}

static void fill(struct queue *q)
{
	struct stet_txn *txn;

	OK(stet_begin(q->vol, STET_BEGIN_SNAPSHOT, &txn));
	for (unsigned i = 0; i < ITEMS; i++)
		OK(put(q, txn, i));
	OK(stet_commit(txn, STET_COMMIT_NOSYNC));
}

/* --- cost --- */

enum how { PLAIN, ONE, EACH, HOWS };

static const unsigned levels[] = { STET_BEGIN_SNAPSHOT, STET_BEGIN_SERIALIZABLE,
				   STET_BEGIN_LOCKING };

static void take_all(struct queue *q, enum how how, unsigned level, bool reverse)
{
	const struct stet_bounds bounds = { .reverse = reverse };
	unsigned n = how == ONE && level == STET_BEGIN_LOCKING ? ITEMS / 10 : ITEMS; /* locks */
	struct stet_txn *txn = NULL;

	if (how == ONE)
		OK(stet_begin(q->vol, level, &txn));
	for (unsigned i = 0; i < n; i++) {
		unsigned want = reverse ? ITEMS - 1 - i : i;

		if (how == EACH)
			OK(stet_begin(q->vol, level, &txn));
		assert_int_equal(look(q, txn, &bounds), want);
		OK(del(q, txn, want));
		if (how == EACH)
			OK(stet_commit(txn, STET_COMMIT_NOSYNC));
		if (how == EACH)
			txn = NULL;
	}
	if (n == ITEMS)
		assert_int_equal(look(q, txn, &bounds), -1);
	if (how == ONE)
		OK(stet_commit(txn, STET_COMMIT_NOSYNC));
}

static uint64_t passed(struct queue *q)
{
	return unit_counter(q->vol, "passed_keys");
}

/* Each scan passes a few of the deleted ones, not all of them: as a plain operation, in one transaction, in one for
 * each, from either end, and while an older view keeps all that was deleted. */
static void taking_is_linear(void **state)
{
	struct queue q;
	struct stet_txn *old;

	if (unit_is_remote())
		skip(); /* the same work, and twelve times as long */
	q = open_queue(state);
	for (unsigned l = 0; l < 3; l++) {
		for (unsigned how = 0; how < HOWS; how++) {
			for (unsigned reverse = 0; reverse < 2; reverse++) {
				uint64_t before;

				fill(&q);
				OK(stet_begin(q.vol, STET_BEGIN_READ_ONLY, &old));
				before = passed(&q);
				take_all(&q, (enum how)how, levels[l], reverse);
				assert_true(passed(&q) - before < 20 * ITEMS);
				assert_int_equal(look(&q, old, NULL), 0);
				stet_abort(old);
			}
		}
	}
	stet_table_close(q.table);
}

/* --- truth --- */
#define KEYS 60u
#define STEPS 4000u
#define TXNS 3u

struct shadow {
	struct stet_txn *txn;
	unsigned level;
	bool saved;
	uint64_t save;
	bool there[KEYS], at_save[KEYS];
};

struct truth {
	struct queue q;
	struct stet_random random;
	bool there[KEYS]; /* committed */
	struct shadow t[TXNS];
};

static unsigned below(struct truth *t, unsigned n)
{
	return (unsigned)stet_random_below(&t->random, n);
}

static void check(struct truth *t, struct stet_txn *txn, const bool *there, unsigned step)
{
	char from[16], to[16];
	unsigned lo = below(t, KEYS), hi = lo + 1 + below(t, KEYS - lo);
	struct stet_bounds bounds = { .reverse = below(t, 2) == 1 };
	int64_t want = -1;

	if (below(t, 2)) {
		lo = 0;
		hi = KEYS;
	} else {
		bounds.from = from;
		bounds.from_len = (size_t)snprintf(from, sizeof(from), "%08u", lo);
		bounds.to = to;
		bounds.to_len = (size_t)snprintf(to, sizeof(to), "%08u", hi);
	}
	for (unsigned i = lo; i < hi; i++)
		if (there[i] && (want < 0 || bounds.reverse))
			want = i;
	int64_t have = look(&t->q, txn, &bounds);
	if (have != want)
		fail_msg("step %u: [%u, %u) %s: %lld, not %lld", step, lo, hi,
			 bounds.reverse ? "last" : "first", (long long)have, (long long)want);
}

/* Each transaction, and who goes without, has keys of its own to change. */
static unsigned pick(struct truth *t, unsigned of)
{
	return below(t, KEYS / (TXNS + 1)) * (TXNS + 1) + of;
}

static void begin(struct truth *t, struct shadow *s)
{
	s->level = below(t, 2) ? STET_BEGIN_SNAPSHOT : STET_BEGIN_SERIALIZABLE;
	OK(stet_begin(t->q.vol, s->level, &s->txn));
	memcpy(s->there, t->there, sizeof(s->there));
	s->saved = false;
}

static void end(struct truth *t, struct shadow *s, unsigned of)
{
	int rc;

	if (below(t, 3) == 0) {
		stet_abort(s->txn);
		s->txn = NULL;
		return;
	}
	rc = stet_commit(s->txn, STET_COMMIT_NOSYNC);
	if (rc == -EBUSY && s->level == STET_BEGIN_SERIALIZABLE)
		stet_abort(s->txn);
	else
		OK(rc);
	for (unsigned k = of; k < KEYS && !rc; k += TXNS + 1)
		t->there[k] = s->there[k];
	s->txn = NULL;
}

static void save_or_go_back(struct shadow *s)
{
	if (s->saved) {
		OK(stet_rollback_to(s->txn, s->save));
		memcpy(s->there, s->at_save, sizeof(s->there));
	} else {
		OK(stet_savepoint(s->txn, &s->save));
		memcpy(s->at_save, s->there, sizeof(s->there));
	}
	s->saved = !s->saved;
}

static void change(struct truth *t, struct stet_txn *txn, bool *there, unsigned k)
{
	int rc;

	if (below(t, 4) == 0) {
		rc = put(&t->q, txn, k);
		OK(rc);
		there[k] = true;
		return;
	}
	rc = del(&t->q, txn, k);
	if (rc != -ENOENT)
		OK(rc);
	assert_int_equal(rc == 0, there[k]);
	there[k] = false;
}

static void step(struct truth *t, struct unit_volume *u, unsigned no)
{
	unsigned of = below(t, TXNS + 1);
	struct shadow *s = of < TXNS ? &t->t[of] : NULL;

	if (!s) {
		change(t, NULL, t->there, pick(t, of));
		check(t, NULL, t->there, no);
		if (below(t, 200) == 0)
			unit_checkpoint(u->local);
	} else if (!s->txn) {
		begin(t, s);
	} else if (below(t, 30) == 0) {
		end(t, s, of);
	} else if (below(t, 15) == 0) {
		save_or_go_back(s);
	} else {
		if (below(t, 2))
			change(t, s->txn, s->there, pick(t, of));
		check(t, s->txn, s->there, no);
	}
}

/* Most keys are deleted, so scans pass many; whatever they remember, the first and last are right. */
static void what_is_passed_is_gone(void **state)
{
	struct truth t = { .q = open_queue(state) };

	for (unsigned seed = 1; seed <= 4; seed++) {
		stet_random_seed(&t.random, seed);
		print_message("seed %u\n", seed);
		for (unsigned i = 0; i < STEPS; i++)
			step(&t, *state, i);
		for (unsigned i = 0; i < TXNS; i++) {
			stet_abort(t.t[i].txn);
			t.t[i].txn = NULL;
		}
	}
	stet_table_close(t.q.table);
}

/* At LOCKING what others commit is seen, where nothing was a moment before. */
static void others_put_where_nothing_was(void **state)
{
	const struct stet_bounds all = { 0 }, last = { .reverse = true };
	struct queue q = open_queue(state);
	struct stet_txn *locking;
	char to[16];
	struct stet_bounds low = { .to = to, .to_len = (size_t)snprintf(to, 16, "%08u", 50) };

	for (unsigned i = 0; i < 100; i++)
		OK(put(&q, NULL, i));
	for (unsigned i = 0; i < 99; i++)
		OK(del(&q, NULL, i));
	OK(stet_begin(q.vol, STET_BEGIN_LOCKING, &locking));
	assert_int_equal(look(&q, locking, &low), -1);
	OK(put(&q, NULL, 70)); /* it has locked below 50 only */
	assert_int_equal(look(&q, locking, &low), -1);
	assert_int_equal(look(&q, NULL, &all), 70);
	assert_int_equal(look(&q, locking, &all), 70);
	assert_int_equal(look(&q, locking, &last), 99);
	OK(stet_commit(locking, 0));
	stet_table_close(q.table);
}

static uint64_t scan_hits(struct queue *q, const struct stet_bounds *bounds)
{
	uint64_t hits = unit_counter(q->vol, "node_hits");
	struct stet_cursor *cursor;
	struct stet_record record;
	unsigned n = 0;

	OK(stet_cursor_open(q->table, NULL, bounds, &cursor));
	while (stet_cursor_next(cursor, &record) == 1)
		n++;
	stet_cursor_close(cursor);
	assert_int_equal(n, ITEMS);
	return unit_counter(q->vol, "node_hits") - hits;
}

/* Without what is done in the background meanwhile, which looks at nodes, too. */
static uint64_t least_hits(struct queue *q, const struct stet_bounds *bounds)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < 10; i++) {
		uint64_t hits = scan_hits(q, bounds);

		least = hits < least ? hits : least;
	}
	return least;
}

/* A scan backwards steps from record to record, as one forwards does, instead of looking each up. */
static void backwards_is_as_cheap(void **state)
{
	const struct stet_bounds all = { 0 }, back = { .reverse = true };
	struct unit_volume *u = *state;
	struct queue q = open_queue(state);
	uint64_t forwards;

	fill(&q);
	unit_checkpoint(u->local);
	forwards = least_hits(&q, &all);
	assert_true(forwards < ITEMS);
	assert_true(least_hits(&q, &back) <= forwards + forwards / 2);
	stet_table_close(q.table);
}

/* A cursor whose transaction changes each record that it gives reads little ahead in vain. */
static void changing_what_is_given(void **state)
{
	const struct stet_bounds back = { .reverse = true };
	struct unit_volume *u = *state;
	struct queue q = open_queue(state);
	struct stet_cursor *cursor;
	struct stet_record record;
	struct stet_txn *txn;
	uint64_t hits;
	unsigned n = 0;

	fill(&q);
	unit_checkpoint(u->local);
	OK(stet_begin(q.vol, STET_BEGIN_SNAPSHOT, &txn));
	hits = unit_counter(q.vol, "node_hits");
	OK(stet_cursor_open(q.table, txn, &back, &cursor));
	while (stet_cursor_next(cursor, &record) == 1)
		OK(put(&q, txn, ITEMS - 1 - n++));
	stet_cursor_close(cursor);
	assert_int_equal(n, ITEMS);
	assert_true(unit_counter(q.vol, "node_hits") - hits < 40 * ITEMS);
	stet_abort(txn);
	stet_table_close(q.table);
}

struct taker {
	struct queue *q;
	pthread_t thread;
	unsigned taken;
};

static void *take_in_turns(void *arg)
{
	const struct stet_bounds first = { .update = true };
	struct taker *t = arg;
	int64_t no = 0;

	while (no >= 0) {
		struct stet_txn *txn;

		OK(stet_begin(t->q->vol, STET_BEGIN_LOCKING, &txn));
		no = look(t->q, txn, &first);
		if (no >= 0)
			OK(del(t->q, txn, (unsigned)no));
		OK(stet_commit(txn, STET_COMMIT_NOSYNC));
		t->taken += no >= 0;
	}
	return NULL;
}

/* Who says that he will change what he reads gets it for himself: nobody has to start again. */
static void takers_do_not_meet(void **state)
{
	struct queue q = open_queue(state);
	struct taker taker[4];
	unsigned all = 0;

	fill(&q);
	for (unsigned i = 0; i < 4; i++) {
		taker[i] = (struct taker){ .q = &q };
		assert_int_equal(pthread_create(&taker[i].thread, NULL, take_in_turns, &taker[i]),
				 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(taker[i].thread, NULL);
		all += taker[i].taken;
	}
	assert_int_equal(all, ITEMS);
	assert_int_equal(unit_counter(q.vol, "deadlocks"), 0);
	stet_table_close(q.table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(taking_is_linear, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(what_is_passed_is_gone, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(backwards_is_as_cheap, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(changing_what_is_given, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(takers_do_not_meet, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(others_put_where_nothing_was, unit_set_up,
						unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/queue", tests, NULL, NULL);
}
