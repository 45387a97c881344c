/* test_lock.c - the lock manager against a naive model that keeps plain arrays.
 *
 * The model grants by the letter of K1 and K2 and knows no merging, heads or graph search. Which
 * victims a deadlock takes is the manager's choice (cycles may share owners); the model checks that
 * each victim was the youngest of a cycle, and that none is left. Some runs are over two managers that are
 * paired, with owners in both; the model knows owners only.
 */
#include "txn/lock.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"

#define SECRET 0x5eed
#define OWNERS 7
#define NAMES 5
#define FIRST_NAMES 3 /* of them in the first manager; the others have runs with two only */
#define RECORDS 2     /* the name that is of keys */
#define ONLY_FIRST 5  /* the owner in the first manager only */
#define ONLY_SECOND 4 /* in the second */
#define PLACES 10u
#define WAITS_EACH 2
#define MAX_ITEMS 4096

struct m_item {
	int owner; /* -1: a probe */
	int name;
	uint64_t from, to;
	enum stet_lock_mode mode;
	bool upgrade;
	struct stet_ticket *ticket; /* waits only */
};

struct model {
	struct m_item grant[MAX_ITEMS];
	struct m_item wait[MAX_ITEMS];
	struct m_item probe[8]; /* that wait; ticket NULL: none */
	int grants, waits;
	bool victim[OWNERS];
};

/* One ticket slot of the test: what the manager told, in order. */
struct told {
	struct stet_ticket ticket;
	int owner;
	bool used;
};

static struct told slots[OWNERS + 1][8];
static struct {
	struct told *v[256];
	int n;
} log_of_told;

static void on_told(struct stet_ticket *ticket, void *arg)
{
	(void)ticket;
	assert_true(log_of_told.n < 256);
	log_of_told.v[log_of_told.n++] = arg;
}

static struct told *free_slot(int owner)
{
	for (int i = 0; i < 8; i++) {
		struct told *t = &slots[owner][i];

		if (!t->used) {
			*t = (struct told){ .owner = owner, .used = true };
			stet_ticket_init(&t->ticket, on_told, t);
			return t;
		}
	}
	return NULL;
}

static bool m_compatible(enum stet_lock_mode a, enum stet_lock_mode b)
{
	static const char *rows[] = { "111100", "110000", "101000", "100000", "000000", "000001" };

	return rows[a][b] == '1';
}

static bool m_conflict(const struct m_item *a, const struct m_item *b)
{
	return a->name == b->name && a->owner != b->owner && a->from < b->to && b->from < a->to &&
	       !m_compatible(a->mode, b->mode);
}

/* Whether each point of the item is held by its owner in a mode (or modes) as strong. */
static bool m_covered(const struct model *m, const struct m_item *want)
{
	static const char *strong[] = {
		"100000", "110000", "101000", "111100", "111111", "000001"
	};

	for (uint64_t at = want->from; at < want->to; at++) {
		bool found = false;

		for (int i = 0; i < m->grants && !found; i++) {
			const struct m_item *g = &m->grant[i];

			found = g->owner == want->owner && g->name == want->name && g->from <= at &&
				at < g->to && strong[g->mode][want->mode] == '1';
		}
		if (!found)
			return false;
	}
	return true;
}

static bool m_granted_conflict(const struct model *m, const struct m_item *want)
{
	for (int i = 0; i < m->grants; i++) {
		if (m_conflict(&m->grant[i], want))
			return true;
	}
	return false;
}

/* Whether wait i stands behind wait j in the queue of its name. */
static bool m_behind(const struct model *m, int i, int j)
{
	if (m->wait[i].upgrade != m->wait[j].upgrade)
		return m->wait[j].upgrade;
	return j < i;
}

static bool m_queue_conflict(const struct model *m, const struct m_item *want, int i)
{
	for (int j = 0; j < m->waits; j++) {
		if (j != i && (i < 0 || m_behind(m, i, j)) && m_conflict(&m->wait[j], want))
			return true;
	}
	return false;
}

static void m_remove_wait(struct model *m, int i)
{
	memmove(&m->wait[i], &m->wait[i + 1], (size_t)(m->waits - i - 1) * sizeof(m->wait[0]));
	m->waits--;
}

static void m_pump(struct model *m)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (int i = 0; i < m->waits && !changed; i++) {
			if (m_granted_conflict(m, &m->wait[i]) ||
			    (!m->wait[i].upgrade && m_queue_conflict(m, &m->wait[i], i)))
				continue;
			m->grant[m->grants++] = m->wait[i];
			m_remove_wait(m, i);
			changed = true;
		}
	}
}

/* Reachability in the waits-for graph among owners <= limit (age = number). */
static void m_closure(const struct model *m, int limit, bool reach[OWNERS][OWNERS])
{
	memset(reach, 0, sizeof(bool) * OWNERS * OWNERS);
	for (int i = 0; i < m->waits; i++) {
		const struct m_item *w = &m->wait[i];

		for (int g = 0; g < m->grants; g++) {
			if (m_conflict(&m->grant[g], w))
				reach[w->owner][m->grant[g].owner] = true;
		}
		for (int j = 0; j < m->waits && !w->upgrade; j++) {
			if (m_behind(m, i, j) && m_conflict(&m->wait[j], w))
				reach[w->owner][m->wait[j].owner] = true;
		}
	}
	for (int k = 0; k <= limit; k++) {
		for (int a = 0; a <= limit; a++) {
			for (int b = 0; b <= limit; b++)
				reach[a][b] = reach[a][b] || (reach[a][k] && reach[k][b]);
		}
	}
}

static bool m_has_cycle(const struct model *m)
{
	bool reach[OWNERS][OWNERS];

	m_closure(m, OWNERS - 1, reach);
	for (int o = 0; o < OWNERS; o++) {
		if (reach[o][o])
			return true;
	}
	return false;
}

static void m_kill(struct model *m, int owner)
{
	bool reach[OWNERS][OWNERS];

	m_closure(m, owner, reach);
	assert_true(reach[owner][owner]); /* the youngest of a cycle */
	m->victim[owner] = true;
	for (int i = m->waits - 1; i >= 0; i--) {
		if (m->wait[i].owner == owner)
			m_remove_wait(m, i);
	}
	m_pump(m);
}

static void m_release(struct model *m, int owner)
{
	for (int i = m->grants - 1; i >= 0; i--) {
		if (m->grant[i].owner == owner)
			m->grant[i] = m->grant[--m->grants];
	}
	for (int i = m->waits - 1; i >= 0; i--) {
		if (m->wait[i].owner == owner)
			m_remove_wait(m, i);
	}
	m->victim[owner] = false;
	m_pump(m);
}

/* The place i of a table begins with the key `keys` with i - 1 of its NULs: so each place but the first and
 * the last is one key. */
static const uint8_t keys[] = "abcdefg\0\0\0\0\0\0\0\0\0";
#define KEY_BYTES 7u

/* Names: bytes, bytes, records; bytes, bytes in the second manager. All have PLACES places. */
static struct stet_lock_name real_name(const struct m_item *item)
{
	bool last = item->to == PLACES;
	size_t key_len = item->from ? KEY_BYTES + item->from - 1 : 0;

	if (item->name != RECORDS)
		return (struct stet_lock_name){ .object = (uint64_t)(item->name % FIRST_NAMES) * 64,
						.sub = (uint64_t)(item->name % FIRST_NAMES),
						.from = item->from,
						.to = last ? UINT64_MAX : item->to,
						.class = STET_LOCK_DATA };
	if (item->from > 0 && item->to == item->from + 1 && !last)
		return stet_lock_record(7, keys, key_len);
	return stet_lock_records(7, keys, key_len, last ? NULL : keys,
				 last ? 0 : KEY_BYTES + item->to - 1);
}

/* The owner i is one in the first manager and OWNERS + i in the second. */
static struct stet_lock_owner *owner_of(struct stet_lock_owner *owners, int owner, int name)
{
	return &owners[name < FIRST_NAMES ? owner : OWNERS + owner];
}

/* Whether the owner is the youngest of a cycle. */
static bool m_may_give_up(const struct model *m, int owner)
{
	bool reach[OWNERS][OWNERS];

	m_closure(m, owner, reach);
	return reach[owner][owner];
}

/* The victims that were told of, in order; the requester, if it was one, was when the next one would not have
 * been, or last. No cycle is left. */
static void apply_victims(struct model *m, int requester, int rc)
{
	for (int i = 0; i < log_of_told.n; i++) {
		struct told *t = log_of_told.v[i];

		if (t->ticket.result != -EDEADLK || m->victim[t->owner])
			continue;
		if (rc == -EDEADLK && !m->victim[requester] && !m_may_give_up(m, t->owner))
			m_kill(m, requester);
		if (!m->victim[t->owner])
			m_kill(m, t->owner);
	}
	if (rc == -EDEADLK && !m->victim[requester])
		m_kill(m, requester);
	assert_false(m_has_cycle(m));
}

/* Everybody told "granted" must be granted in the model, and still waiting must not be. */
static void compare(struct model *m, struct stet_lock_owner *owners, struct stet_locks *locks[2])
{
	for (int i = 0; i < log_of_told.n; i++) {
		struct told *t = log_of_told.v[i];

		for (int j = 0; j < m->waits; j++)
			assert_ptr_not_equal(m->wait[j].ticket, &t->ticket);
		t->used = false;
	}
	log_of_told.n = 0;
	for (int j = 0; j < m->waits; j++)
		assert_false(m->wait[j].ticket->fired);
	for (int o = 0; o < OWNERS; o++) {
		for (int k = 0; k < NAMES * 10 * 5; k++) {
			struct m_item probe = { .owner = o,
						.name = k / 50,
						.from = (uint64_t)(k / 5 % 10),
						.to = (uint64_t)(k / 5 % 10) + 1,
						.mode = (enum stet_lock_mode)(k % 5) };
			struct stet_lock_name name = real_name(&probe);

			assert_int_equal(stet_lock_held(owner_of(owners, o, probe.name), &name,
							probe.mode),
					 m_covered(m, &probe));
		}
	}
	stet_locks_check(locks[0]);
	stet_locks_check(locks[1]);
}

static int waits_of(const struct model *m, int owner)
{
	int n = 0;

	for (int i = 0; i < m->waits; i++)
		n += m->wait[i].owner == owner;
	return n;
}

/* K2: it holds a part of what it wants, or what somebody in its way waits for. */
static bool m_upgrade(const struct model *m, const struct m_item *want)
{
	for (int i = 0; i < m->grants; i++) {
		const struct m_item *g = &m->grant[i];

		if (g->owner != want->owner || g->name != want->name)
			continue;
		if (g->from < want->to && want->from < g->to)
			return true;
		for (int j = 0; j < m->waits; j++) {
			if (m_conflict(&m->wait[j], want) && m_conflict(g, &m->wait[j]))
				return true;
		}
	}
	return false;
}

/* A probe is told exactly when nothing is in its way any longer. */
static void compare_probes(struct model *m)
{
	for (int i = 0; i < 8; i++) {
		struct m_item *p = &m->probe[i];
		bool told = p->ticket && !stet_container_of(p->ticket, struct told, ticket)->used;

		if (!p->ticket)
			continue;
		/* Who was told may be blocked again: by whom was granted since. */
		assert_true(told || m_granted_conflict(m, p) || m_queue_conflict(m, p, -1));
		if (told)
			p->ticket = NULL;
	}
}

static void do_acquire(struct model *m, struct stet_lock_owner *owners, struct m_item item,
		       bool wait)
{
	struct stet_lock_name name = real_name(&item);
	struct told *t = wait ? free_slot(item.owner) : NULL;
	struct stet_lock_owner *blocker = NULL;
	bool covered = m_covered(m, &item);
	bool free_now;
	int rc;

	item.upgrade = m_upgrade(m, &item);
	free_now = !m_granted_conflict(m, &item) &&
		   (item.upgrade || !m_queue_conflict(m, &item, -1));
	rc = stet_lock_acquire(owner_of(owners, item.owner, item.name), &name, item.mode, wait,
			       t ? &t->ticket : NULL, &blocker);
	if (covered) {
		assert_int_equal(rc, 0);
	} else if (m->victim[item.owner]) {
		assert_int_equal(rc, -EDEADLK);
	} else if (free_now) {
		assert_true(rc == 0 || rc == -EDEADLK);
		m->grant[m->grants++] = item;
		apply_victims(m, item.owner, rc);
	} else if (!wait) {
		assert_int_equal(rc, -EBUSY);
		assert_non_null(blocker);
	} else {
		assert_non_null(blocker);
		item.ticket = &t->ticket;
		m->wait[m->waits++] = item;
		apply_victims(m, item.owner, rc);
		if (rc == 0) { /* granted when a victim gave way */
			for (int j = 0; j < m->waits; j++)
				assert_ptr_not_equal(m->wait[j].ticket, &t->ticket);
		}
	}
	if (t && rc != STET_WAIT)
		t->used = false;
}

static void do_probe(struct model *m, struct stet_locks *locks[2], struct m_item item, bool wait)
{
	struct stet_lock_name name = real_name(&item);
	struct told *t = wait ? free_slot(OWNERS) : NULL;
	int rc;

	item.owner = -1;
	rc = stet_lock_probe(locks[item.name >= FIRST_NAMES], NULL, &name, item.mode, t != NULL,
			     t ? &t->ticket : NULL, NULL);
	if (!m_granted_conflict(m, &item) && !m_queue_conflict(m, &item, -1))
		assert_int_equal(rc, 0);
	else
		assert_int_equal(rc, t ? STET_WAIT : -EBUSY);
	for (int i = 0; i < 8 && rc == STET_WAIT && t; i++) {
		if (!m->probe[i].ticket) {
			m->probe[i] = item;
			m->probe[i].ticket = &t->ticket;
			return;
		}
	}
	if (t && rc != STET_WAIT)
		t->used = false;
}

/* Whether its owner would get it at once, without asking for it. */
static void do_look(const struct model *m, struct stet_lock_owner *owners, struct m_item item)
{
	struct stet_lock_name name = real_name(&item);
	struct stet_lock_owner *owner = owner_of(owners, item.owner, item.name);
	bool free_now = !m_granted_conflict(m, &item) && !m_queue_conflict(m, &item, -1);

	assert_int_equal(stet_lock_probe(owner->locks, owner, &name, item.mode, false, NULL, NULL),
			 m_covered(m, &item) || free_now ? 0 : -EBUSY);
}

/* All waits in the manager of the name, or one of any name. */
static void do_cancel(struct model *m, struct stet_lock_owner *owners, int owner, int name,
		      bool one)
{
	for (int i = m->waits - 1; i >= 0; i--) {
		struct stet_ticket *ticket = m->wait[i].ticket;
		struct stet_lock_owner *of = owner_of(owners, owner, m->wait[i].name);

		if (m->wait[i].owner != owner || (!one && of != owner_of(owners, owner, name)))
			continue;
		stet_container_of(ticket, struct told, ticket)->used = false;
		m_remove_wait(m, i);
		if (one) {
			stet_lock_cancel_ticket(of, ticket);
			break;
		}
	}
	if (!one)
		stet_lock_cancel(owner_of(owners, owner, name));
	m_pump(m);
}

/* What is let go in one manager may close a cycle through the other one, as long as it waits there: so then it
 * first gives up all waits. */
static void do_release(struct model *m, struct stet_lock_owner *owners, struct stet_locks *locks[2],
		       int owner)
{
	for (int name = 0; owners[owner].peer && name < NAMES; name += FIRST_NAMES) {
		do_cancel(m, owners, owner, name, false);
		apply_victims(m, -1, 0);
		compare(m, owners, locks);
	}
	for (int i = 0; i < m->waits; i++) {
		if (m->wait[i].owner == owner)
			stet_container_of(m->wait[i].ticket, struct told, ticket)->used = false;
	}
	m_release(m, owner);
	stet_lock_release_all(&owners[owner]);
	stet_lock_release_all(&owners[OWNERS + owner]);
}

static struct m_item random_item(struct stet_random *rnd, bool two)
{
	struct m_item item = { .owner = (int)stet_random_below(rnd, OWNERS),
			       .name = (int)stet_random_below(rnd, two ? NAMES : FIRST_NAMES),
			       .mode = (enum stet_lock_mode)stet_random_below(rnd,
									      STET_LOCK_MODES) };

	if (two && item.owner == ONLY_FIRST)
		item.name %= FIRST_NAMES;
	if (two && item.owner == ONLY_SECOND)
		item.name = FIRST_NAMES + item.name % (NAMES - FIRST_NAMES);
	item.from = stet_random_below(rnd, PLACES);
	item.to = item.from + 1 + stet_random_below(rnd, PLACES - item.from);
	if (item.name % FIRST_NAMES == 0 && stet_random_below(rnd, 4) > 0) {
		item.from = 0;
		item.to = PLACES;
	}
	if (item.name == RECORDS && stet_random_below(rnd, 3) > 0)
		item.to = item.from + 1;
	return item;
}

static void make_managers(struct stet_locks *locks[2], struct stet_lock_owner *owners, bool two)
{
	assert_int_equal(stet_locks_create(SECRET, &locks[0]), 0);
	assert_int_equal(stet_locks_create(SECRET, &locks[1]), 0);
	if (two)
		stet_locks_pair(locks[0], locks[1]);
	for (int o = 0; o < OWNERS; o++) {
		stet_lock_owner_init(&owners[o], locks[0], (uint64_t)o);
		stet_lock_owner_init(&owners[OWNERS + o], locks[1], (uint64_t)o);
		if (two && o != ONLY_FIRST && o != ONLY_SECOND)
			stet_lock_owner_pair(&owners[o], &owners[OWNERS + o]);
	}
}

/* Locks that nobody else asks for: what an owner has is looked for otherwise when it has many. */
static void take_many(struct stet_lock_owner *owners, int owner)
{
	for (uint64_t i = 0; i < 12; i++) {
		struct stet_lock_name n = { .object = 1000 + (uint64_t)owner,
					    .sub = i,
					    .to = UINT64_MAX,
					    .class = STET_LOCK_NAME };

		for (int k = 0; k < 2; k++)
			assert_int_equal(stet_lock_acquire(&owners[k * OWNERS + owner], &n,
							   STET_LOCK_S, false, NULL, NULL),
					 0);
	}
}

static void random_run(uint64_t seed)
{
	static struct model m;
	struct stet_lock_owner owners[2 * OWNERS];
	struct stet_locks *locks[2];
	struct stet_random rnd;
	bool two = seed % 2;
	int loaded = seed % 4 < 2 ? 0 : OWNERS - 1; /* owners that have many */

	memset(&m, 0, sizeof(m));
	memset(slots, 0, sizeof(slots));
	log_of_told.n = 0;
	stet_random_seed(&rnd, seed);
	make_managers(locks, owners, two);
	for (int o = 0; o < loaded; o++)
		take_many(owners, o);
	for (int step = 0; step < 600; step++) {
		struct m_item item = random_item(&rnd, two);
		uint64_t dice = stet_random_below(&rnd, 100);

		if (dice < 60 && waits_of(&m, item.owner) < WAITS_EACH)
			do_acquire(&m, owners, item, dice < 45);
		else if (dice < 75 && stet_random_below(&rnd, 4) == 0)
			do_look(&m, owners, item);
		else if (dice < 75)
			do_probe(&m, locks, item, dice < 68);
		else if (dice < 82)
			do_cancel(&m, owners, item.owner, item.name, dice < 79);
		else if (dice < 97)
			do_release(&m, owners, locks, item.owner);
		if (dice >= 82 && dice < 97 && item.owner < loaded)
			take_many(owners, item.owner);
		apply_victims(&m, -1, 0);
		compare(&m, owners, locks);
		compare_probes(&m);
	}
	for (int o = 0; o < OWNERS; o++)
		do_release(&m, owners, locks, o);
	compare(&m, owners, locks);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(stet_locks_count(locks[i]), 0);
		stet_locks_destroy(locks[i]);
	}
	for (int i = 0; i < 8; i++)
		assert_false(slots[OWNERS][i].used); /* no probe is left behind */
}

static void test_random(void **state)
{
	const char *rounds = getenv("STET_TEST_ROUNDS");
	uint64_t seeds = rounds ? strtoull(rounds, NULL, 10) : 80;

	(void)state;
	for (uint64_t seed = 1; seed <= seeds; seed++)
		random_run(seed);
}

#define ASK(owner, name, mode, t) stet_lock_acquire(owner, &(name), STET_LOCK_##mode, true, t, NULL)

static const struct stet_lock_name whole = {
	.object = 9, .from = 0, .to = UINT64_MAX, .class = STET_LOCK_EXISTS
};
static const struct stet_lock_name other = {
	.object = 10, .from = 0, .to = UINT64_MAX, .class = STET_LOCK_EXISTS
};

/* A stream of readers does not starve a writer; those behind it come after it. */
static void test_fairness(void **state)
{
	struct stet_lock_owner reader[3], writer;
	struct stet_ticket wt, rt;
	struct stet_locks *locks;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	for (unsigned i = 0; i < 3; i++)
		stet_lock_owner_init(&reader[i], locks, i);
	stet_lock_owner_init(&writer, locks, 3);
	stet_ticket_init(&wt, NULL, NULL);
	stet_ticket_init(&rt, NULL, NULL);
	assert_int_equal(stet_lock_acquire(&reader[0], &whole, STET_LOCK_S, true, &rt, NULL), 0);
	assert_int_equal(stet_lock_acquire(&writer, &whole, STET_LOCK_X, true, &wt, NULL),
			 STET_WAIT);
	assert_int_equal(stet_lock_acquire(&reader[1], &whole, STET_LOCK_S, false, NULL, NULL),
			 -EBUSY);
	assert_int_equal(stet_lock_acquire(&reader[2], &whole, STET_LOCK_S, true, &rt, NULL),
			 STET_WAIT);
	stet_lock_release_all(&reader[0]);
	assert_true(wt.fired);
	assert_int_equal(wt.result, 0);
	assert_false(rt.fired);
	stet_lock_release_all(&writer);
	assert_true(rt.fired);
	assert_int_equal(rt.result, 0);
	stet_lock_release_all(&reader[2]);
	stet_locks_destroy(locks);
}

/* An upgrade passes the queue; two upgrades of one name are a deadlock. */
static void test_upgrade(void **state)
{
	struct stet_lock_owner a, b, c;
	struct stet_ticket at, bt, ct;
	struct stet_locks *locks;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&a, locks, 1);
	stet_lock_owner_init(&b, locks, 2);
	stet_lock_owner_init(&c, locks, 3);
	stet_ticket_init(&at, NULL, NULL);
	stet_ticket_init(&bt, NULL, NULL);
	stet_ticket_init(&ct, NULL, NULL);
	assert_int_equal(stet_lock_acquire(&a, &whole, STET_LOCK_S, false, NULL, NULL), 0);
	assert_int_equal(stet_lock_acquire(&b, &whole, STET_LOCK_S, false, NULL, NULL), 0);
	assert_int_equal(stet_lock_acquire(&c, &whole, STET_LOCK_X, true, &ct, NULL), STET_WAIT);
	assert_int_equal(stet_lock_acquire(&a, &whole, STET_LOCK_X, true, &at, NULL), STET_WAIT);
	assert_int_equal(stet_lock_acquire(&b, &whole, STET_LOCK_X, true, &bt, NULL), -EDEADLK);
	assert_true(b.victim);
	assert_false(at.fired);
	stet_lock_release_all(&b);
	assert_true(at.fired && at.result == 0); /* before c, which asked earlier */
	assert_false(ct.fired);
	stet_lock_cancel(&c);
	stet_lock_release_all(&a);
	assert_false(ct.fired);
	assert_int_equal(stet_locks_count(locks), 0);
	stet_locks_destroy(locks);
}

/* The youngest gives up even when it is not the one that closes the cycle. */
static void test_youngest(void **state)
{
	struct stet_lock_owner old, young;
	struct stet_ticket ot, yt;
	struct stet_locks *locks;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&old, locks, 1);
	stet_lock_owner_init(&young, locks, 2);
	stet_ticket_init(&ot, NULL, NULL);
	stet_ticket_init(&yt, NULL, NULL);
	assert_int_equal(stet_lock_acquire(&old, &whole, STET_LOCK_X, false, NULL, NULL), 0);
	assert_int_equal(stet_lock_acquire(&young, &other, STET_LOCK_X, false, NULL, NULL), 0);
	assert_int_equal(stet_lock_acquire(&young, &whole, STET_LOCK_X, true, &yt, NULL),
			 STET_WAIT);
	assert_int_equal(stet_lock_acquire(&old, &other, STET_LOCK_X, true, &ot, NULL), STET_WAIT);
	assert_true(yt.fired);
	assert_int_equal(yt.result, -EDEADLK);
	stet_ticket_init(&yt, NULL, NULL);
	assert_int_equal(stet_lock_acquire(&young, &whole, STET_LOCK_X, true, &yt, NULL), -EDEADLK);
	stet_lock_release_all(&young);
	assert_true(ot.fired && ot.result == 0);
	stet_lock_release_all(&old);
	stet_locks_destroy(locks);
}

/* A cycle through two managers, closed in either: the youngest gives up in both, and gets nothing any more. */
static void test_pair(void **state)
{
	struct stet_lock_owner old[2], young[2];
	struct stet_ticket ot, yt, more;
	struct stet_locks *locks[2];

	(void)state;
	for (int first = 0; first < 2; first++) {
		for (int i = 0; i < 2; i++)
			assert_int_equal(stet_locks_create(SECRET, &locks[i]), 0);
		stet_locks_pair(locks[0], locks[1]);
		for (int i = 0; i < 2; i++) {
			stet_lock_owner_init(&old[i], locks[i], 1);
			stet_lock_owner_init(&young[i], locks[i], 2);
		}
		stet_lock_owner_pair(&old[0], &old[1]);
		stet_lock_owner_pair(&young[0], &young[1]);
		stet_ticket_init(&ot, NULL, NULL);
		stet_ticket_init(&yt, NULL, NULL);
		stet_ticket_init(&more, NULL, NULL);
		assert_int_equal(ASK(&old[first], whole, X, &ot), 0);
		assert_int_equal(ASK(&old[!first], other, X, &ot), 0);
		assert_int_equal(ASK(&young[!first], whole, X, &yt), 0);
		assert_int_equal(ASK(&young[first], whole, X, &yt), STET_WAIT);
		assert_int_equal(ASK(&young[!first], other, X, &more), STET_WAIT);
		assert_int_equal(ASK(&old[!first], whole, X, &ot), STET_WAIT);
		assert_true(yt.fired && yt.result == -EDEADLK);
		assert_true(more.fired && more.result == -EDEADLK);
		assert_true(young[0].victim && young[1].victim && !ot.fired);
		stet_locks_check(locks[0]);
		stet_lock_owner_part(&young[0]);
		for (int i = 0; i < 2; i++)
			stet_lock_release_all(&young[i]);
		assert_true(ot.fired && ot.result == 0);
		for (int i = 0; i < 2; i++) {
			stet_lock_release_all(&old[i]);
			stet_locks_destroy(locks[i]);
		}
	}
}

/* Neighbouring ranges become one grant, so a sequential reader holds one. */
static void test_merge(void **state)
{
	struct stet_lock_owner a;
	struct stet_locks *locks;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&a, locks, 1);
	for (uint64_t i = 0; i < 1000; i++) {
		struct stet_lock_name n = {
			.object = 5, .from = i * 4096, .to = (i + 1) * 4096, .class = STET_LOCK_DATA
		};
		assert_int_equal(stet_lock_acquire(&a, &n, STET_LOCK_S, false, NULL, NULL), 0);
	}
	assert_int_equal(a.held_count, 1);
	assert_int_equal(stet_locks_count(locks), 1);
	stet_lock_release_all(&a);
	stet_locks_destroy(locks);
}

/* --- records --- */

/* Who has scanned keeps out what would appear there, also keys that do not exist; and the other way round. */
static void test_phantom(void **state)
{
	struct stet_lock_name scan = stet_lock_records(3, "b", 1, "d", 1);
	struct stet_lock_name before = stet_lock_record(3, "azzzzzzzzzzz", 12);
	struct stet_lock_name first = stet_lock_record(3, "b", 1);
	struct stet_lock_name inside = stet_lock_record(3, "czzzzzzzzzzz", 12);
	struct stet_lock_name end = stet_lock_record(3, "d", 1);
	struct stet_lock_name elsewhere = stet_lock_record(4, "c", 1);
	struct stet_lock_owner reader, writer;
	struct stet_locks *locks;
	struct stet_ticket t;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&reader, locks, 1);
	stet_lock_owner_init(&writer, locks, 2);
	stet_ticket_init(&t, NULL, NULL);
	assert_int_equal(ASK(&reader, scan, S, &t), 0);
	assert_int_equal(ASK(&writer, before, X, &t), 0);
	assert_int_equal(ASK(&writer, end, X, &t), 0);
	assert_int_equal(ASK(&writer, elsewhere, X, &t), 0);
	assert_int_equal(ASK(&writer, inside, S, &t), 0);
	assert_int_equal(stet_lock_acquire(&writer, &first, STET_LOCK_X, false, NULL, NULL),
			 -EBUSY);
	assert_int_equal(stet_lock_probe(locks, NULL, &inside, STET_LOCK_X, false, NULL, NULL),
			 -EBUSY);
	assert_int_equal(ASK(&writer, inside, X, &t), STET_WAIT);
	assert_ptr_equal(stet_lock_waiting_for(&writer), &reader);
	assert_true(stet_lock_waits(&writer, &t));
	stet_lock_release_all(&reader);
	assert_true(t.fired && t.result == 0);
	assert_null(stet_lock_waiting_for(&writer));
	stet_ticket_init(&t, NULL, NULL);
	scan = stet_lock_records(3, "bb", 2, NULL, 0);
	assert_int_equal(ASK(&reader, scan, S, &t), STET_WAIT);
	stet_lock_release_all(&writer);
	assert_true(t.fired && t.result == 0);
	stet_lock_release_all(&reader);
	stet_locks_destroy(locks);
}

/* Who already holds what a scan waits for goes on; who holds something else waits behind the scan. */
static void test_queue_of_ranges(void **state)
{
	struct stet_lock_name scan = stet_lock_records(3, "b", 1, "d", 1);
	struct stet_lock_name one = stet_lock_record(3, "b", 1), two = stet_lock_record(3, "c", 1);
	struct stet_lock_name far = stet_lock_record(3, "x", 1);
	struct stet_lock_owner writer, reader, late;
	struct stet_ticket wt, rt, lt;
	struct stet_locks *locks;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&writer, locks, 1);
	stet_lock_owner_init(&reader, locks, 2);
	stet_lock_owner_init(&late, locks, 3);
	stet_ticket_init(&wt, NULL, NULL);
	stet_ticket_init(&rt, NULL, NULL);
	stet_ticket_init(&lt, NULL, NULL);
	assert_int_equal(ASK(&writer, one, X, &wt), 0);
	assert_int_equal(ASK(&late, far, X, &lt), 0);
	assert_int_equal(ASK(&reader, scan, S, &rt), STET_WAIT);
	assert_int_equal(ASK(&late, two, X, &lt), STET_WAIT);
	assert_int_equal(ASK(&writer, two, X, &wt), 0);
	stet_lock_release_all(&writer);
	assert_true(rt.fired && rt.result == 0 && !lt.fired);
	stet_lock_release_all(&reader);
	assert_true(lt.fired && lt.result == 0);
	stet_lock_release_all(&late);
	assert_int_equal(stet_locks_count(locks), 0);
	stet_locks_destroy(locks);
}

/* Very many locks of one name, taken in any order: this ends soon. */
static void test_many(void **state)
{
	enum { MANY = 100000 };
	struct stet_lock_owner a, b;
	struct stet_locks *locks;
	struct stet_ticket t;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&a, locks, 1);
	stet_lock_owner_init(&b, locks, 2);
	stet_ticket_init(&t, NULL, NULL);
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t at = i * 7919 % MANY;
		char key[32];
		int n = snprintf(key, sizeof(key), "account/%09llu", (unsigned long long)at);
		struct stet_lock_name record = stet_lock_record(5, key, (size_t)n);
		struct stet_lock_name bytes = {
			.object = 6, .from = 200 * at, .to = 200 * at + 100, .class = STET_LOCK_DATA
		};

		assert_int_equal(ASK(at % 2 ? &a : &b, record, X, &t), 0);
		assert_int_equal(ASK(at % 2 ? &a : &b, bytes, X, &t), 0);
	}
	assert_int_equal(stet_locks_count(locks), 2 * MANY);
	stet_lock_release_all(&a);
	assert_int_equal(stet_locks_count(locks), MANY);
	stet_lock_release_all(&b);
	assert_int_equal(stet_locks_count(locks), 0);
	stet_locks_destroy(locks);
}

static struct stet_lock_name record_no(char key[32], unsigned no)
{
	int n = snprintf(key, 32, "account/%09u", no);

	return stet_lock_record(5, key, (size_t)n);
}

static struct stet_lock_name name_in(uint64_t dir, uint64_t sub)
{
	return (struct stet_lock_name){
		.object = dir, .sub = sub, .to = UINT64_MAX, .class = STET_LOCK_NAME
	};
}

/* K5: one that has very many of a table is given all of it, if it is the only one there. */
static void test_all(void **state)
{
	struct stet_lock_name name;
	struct stet_lock_owner a, b;
	struct stet_locks *locks;
	struct stet_ticket t;
	char key[32];

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&a, locks, 1);
	stet_lock_owner_init(&b, locks, 2);
	stet_ticket_init(&t, NULL, NULL);
	name = record_no(key, 500000);
	assert_int_equal(ASK(&b, name, S, &t), 0);
	for (unsigned i = 0; i < 3 * STET_LOCK_ALL_AT / 2; i++) {
		name = record_no(key, i);
		assert_int_equal(ASK(&a, name, X, &t), 0);
	}
	assert_int_equal(a.held_count, 3 * STET_LOCK_ALL_AT / 2); /* another one is there */
	name = record_no(key, 600000);
	assert_int_equal(ASK(&b, name, X, &t), 0);
	stet_lock_release_all(&b);
	for (unsigned i = 3 * STET_LOCK_ALL_AT / 2; i < 3 * STET_LOCK_ALL_AT; i++) {
		name = record_no(key, i);
		assert_int_equal(ASK(&a, name, X, &t), 0);
	}
	assert_int_equal(a.held_count, 1);
	name = record_no(key, 600000);
	assert_int_equal(stet_lock_acquire(&b, &name, STET_LOCK_S, false, NULL, NULL), -EBUSY);
	stet_lock_release_all(&a);
	for (unsigned i = 0; i < STET_LOCK_ALL_AT; i++) { /* who only reads gets it to read */
		name = record_no(key, i);
		assert_int_equal(ASK(&a, name, S, &t), 0);
	}
	assert_int_equal(a.held_count, 1);
	assert_int_equal(ASK(&b, name, S, &t), 0);
	stet_locks_check(locks);
	stet_lock_release_all(&a);
	stet_lock_release_all(&b);
	assert_int_equal(stet_locks_count(locks), 0);
	stet_locks_destroy(locks);
}

/* Very many who wait for one thing, one after the other. */
static void test_long_queue(void **state)
{
	enum { WAITERS = 3000 };
	static struct stet_lock_owner owner[WAITERS];
	static struct stet_ticket t[WAITERS];
	struct stet_lock_name hot = stet_lock_record(5, "hot", 3);
	struct stet_locks *locks;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	for (int i = 0; i < WAITERS; i++) {
		stet_lock_owner_init(&owner[i], locks, (uint64_t)i);
		stet_ticket_init(&t[i], NULL, NULL);
		assert_int_equal(ASK(&owner[i], hot, X, &t[i]), i ? STET_WAIT : 0);
	}
	for (int i = 0; i < WAITERS; i++) {
		assert_true(i == 0 || (t[i].fired && t[i].result == 0));
		assert_true(i + 1 == WAITERS || !t[i + 1].fired);
		stet_lock_release_all(&owner[i]);
	}
	stet_locks_destroy(locks);
}

/* What is quadratic takes several times as long, what is not a small part of it. */
static void expect_soon(clock_t begun)
{
	assert_true((clock() - begun) / CLOCKS_PER_SEC < 10);
}

/* Who takes the first record of a table again and again, at LOCKING, or the last: each time it locks what it looked at,
 * which is all that it took before, and the next. */
static void take_again_and_again(struct stet_locks *locks, unsigned taken, bool reverse)
{
	struct stet_lock_name far = stet_lock_record(5, reverse ? "A" : "zzz", reverse ? 1 : 3);
	struct stet_lock_name seen;
	struct stet_lock_owner a, b;
	struct stet_ticket t;
	char key[32], end[33];

	stet_lock_owner_init(&a, locks, 1);
	stet_lock_owner_init(&b, locks, 2);
	stet_ticket_init(&t, NULL, NULL);
	assert_int_equal(ASK(&b, far, X, &t), 0);
	for (unsigned i = 0; i < taken; i++) {
		struct stet_lock_name record = record_no(key, reverse ? taken - i : i);

		memcpy(end, key, record.key_len);
		end[record.key_len] = 0;
		if (reverse)
			seen = stet_lock_records(5, key, record.key_len, NULL, 0);
		else
			seen = stet_lock_records(5, NULL, 0, end, record.key_len + 1u);
		assert_int_equal(ASK(&a, seen, S, &t), 0);
		assert_int_equal(ASK(&a, record, X, &t), 0);
		assert_int_equal(stet_lock_acquire(&b, &record, STET_LOCK_S, false, NULL, NULL),
				 -EBUSY);
	}
	assert_int_equal(a.held_count, taken + 1); /* what was looked at is one */
	stet_locks_check(locks);
	stet_lock_release_all(&a);
	stet_lock_release_all(&b);
}

static void test_taking(void **state)
{
	clock_t begun = clock();
	struct stet_locks *locks;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	take_again_and_again(locks, 30000, false);
	take_again_and_again(locks, 30000, true);
	expect_soon(begun);
	stet_locks_destroy(locks);
}

/* Very many who share things, have many others, and ask for one thing more that they have already. */
static void test_many_share(void **state)
{
	enum { SHARERS = 3000, ROUNDS = 60 };
	clock_t begun = clock();
	static struct stet_lock_owner owner[SHARERS];
	struct stet_lock_name hot = stet_lock_record(5, "hot", 3);
	struct stet_lock_name dir = { .object = 6, .to = UINT64_MAX, .class = STET_LOCK_NAMES };
	struct stet_lock_name end = {
		.object = 6, .from = 100, .to = UINT64_MAX, .class = STET_LOCK_DATA
	};
	struct stet_locks *locks;
	struct stet_ticket t;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_ticket_init(&t, NULL, NULL);
	for (int i = 0; i < SHARERS; i++)
		stet_lock_owner_init(&owner[i], locks, (uint64_t)i);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < SHARERS; i++) {
			struct stet_lock_name n = name_in(7, (uint64_t)(round * SHARERS + i));

			assert_int_equal(ASK(&owner[i], hot, S, &t), 0);
			assert_int_equal(ASK(&owner[i], dir, IX, &t), 0);
			assert_int_equal(ASK(&owner[i], end, IX, &t), 0);
			assert_int_equal(ASK(&owner[i], n, S, &t), 0);
			if (round == 0)
				continue;
			assert_int_equal(stet_lock_acquire(&owner[i], &dir, STET_LOCK_S, false,
							   NULL, NULL),
					 -EBUSY);
		}
	}
	for (int i = 0; i < SHARERS; i++)
		stet_lock_release_all(&owner[i]);
	expect_soon(begun);
	assert_int_equal(stet_locks_count(locks), 0);
	stet_locks_destroy(locks);
}

struct weight {
	uint64_t w;
	unsigned no;
};

static int by_weight(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;

	return x->w < y->w ? 1 : x->w > y->w ? -1 : 0;
}

static void *ask_in_order(void *arg)
{
	unsigned *key_of = arg;
	struct stet_lock_owner a, b;
	struct stet_locks *locks;

	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&a, locks, 1);
	stet_lock_owner_init(&b, locks, 2);
	for (unsigned i = 0; i < STET_LOCK_ALL_AT; i++) {
		struct stet_lock_name name = whole;

		name.from = 2 * (uint64_t)key_of[i];
		name.to = name.from + 1;
		/* the first is another one's, so that K5 does not help */
		assert_int_equal(
			stet_lock_acquire(i ? &a : &b, &name, STET_LOCK_X, false, NULL, NULL), 0);
	}
	stet_locks_check(locks);
	stet_lock_release_all(&a);
	stet_lock_release_all(&b);
	stet_locks_destroy(locks);
	return NULL;
}

/* Who knows the number of a file and asks for ranges in an order made for it does not get a tree as deep as a
 * list: searching it would take ever longer, and more than the stack of a thread. */
static void test_order_is_no_weapon(void **state)
{
	static struct weight weight[STET_LOCK_ALL_AT];
	static unsigned key_of[STET_LOCK_ALL_AT];
	uint64_t x = whole.object | 1;
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	for (unsigned i = 0; i < STET_LOCK_ALL_AT; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		weight[i] = (struct weight){ x, i };
	}
	qsort(weight, STET_LOCK_ALL_AT, sizeof(weight[0]), by_weight);
	for (unsigned i = 0; i < STET_LOCK_ALL_AT; i++)
		key_of[weight[i].no] = i;
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, 256 * 1024), 0);
	assert_int_equal(pthread_create(&thread, &attr, ask_in_order, key_of), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attr);
}

/* As lock.c does; the test below notices when it is another one. */
static uint64_t hash_of_object(uint64_t object)
{
	uint64_t h = stet_mix64((object << 3 | STET_LOCK_NAME) ^ SECRET);

	return stet_mix64(h + SECRET);
}

/* Who knows the numbers of many directories does not find a name for each so that all meet in the tables. */
static void test_names_are_no_weapon(void **state)
{
	struct stet_lock_owner a;
	struct stet_locks *locks;
	struct stet_lock_name first = name_in(1, stet_mix64(1 << 3 | STET_LOCK_NAME));

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&a, locks, 1);
	assert_int_equal(stet_lock_acquire(&a, &first, STET_LOCK_X, false, NULL, NULL), 0);
	for (uint64_t i = 2; i < 10; i++) {
		struct stet_lock_name n = name_in(i, stet_mix64(i << 3 | STET_LOCK_NAME));

		assert_false(stet_lock_held(&a, &n, STET_LOCK_X));
	}
	stet_lock_release_all(&a);
	stet_locks_destroy(locks);
}

/* Names that meet by chance are held together, and count as what they are. */
static void test_names_that_meet(void **state)
{
	struct stet_lock_owner a, b;
	struct stet_locks *locks;
	struct stet_lock_name n[3];

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&a, locks, 1);
	stet_lock_owner_init(&b, locks, 2);
	for (unsigned i = 0; i < 3; i++)
		n[i] = name_in(10 + i, hash_of_object(10 + i));
	assert_int_equal(stet_lock_acquire(&a, &n[0], STET_LOCK_X, false, NULL, NULL), 0);
	assert_true(stet_lock_held(&a, &n[2], STET_LOCK_X)); /* they do meet */
	assert_int_equal(a.held_count, 1);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(stet_lock_acquire(&b, &n[i], STET_LOCK_S, false, NULL, NULL),
				 -EBUSY);
		assert_int_equal(a.held_count, i + 1);
		assert_int_equal(stet_locks_count(locks), i + 1);
	}
	stet_lock_release_all(&a);
	assert_int_equal(stet_locks_count(locks), 0);
	/* one has a head: another of that hash gets no lone lock */
	assert_int_equal(stet_lock_acquire(&b, &n[0], STET_LOCK_S, false, NULL, NULL), 0);
	assert_int_equal(stet_lock_acquire(&a, &n[1], STET_LOCK_X, false, NULL, NULL), 0);
	assert_int_equal(stet_lock_acquire(&b, &n[1], STET_LOCK_S, false, NULL, NULL), -EBUSY);
	assert_int_equal(a.held_count, 1);
	stet_locks_check(locks);
	stet_lock_release_all(&a);
	stet_lock_release_all(&b);
	assert_int_equal(stet_locks_count(locks), 0);
	stet_locks_destroy(locks);
}

/* Who asks again and again, and each time gives up waiting, leaves nothing behind. */
static void test_given_up_probes(void **state)
{
	struct stet_lock_owner a;
	struct stet_locks *locks;
	struct stet_lock_name n = name_in(10, 1);
	struct stet_ticket t;
	size_t before;

	(void)state;
	assert_int_equal(stet_locks_create(SECRET, &locks), 0);
	stet_lock_owner_init(&a, locks, 1);
	stet_ticket_init(&t, NULL, NULL);
	assert_int_equal(ASK(&a, n, X, &t), 0);
	before = mallinfo2().uordblks;
	for (unsigned i = 0; i < 1000; i++) {
		stet_ticket_init(&t, NULL, NULL);
		assert_int_equal(stet_lock_probe(locks, NULL, &n, STET_LOCK_S, true, &t, NULL),
				 STET_WAIT);
		stet_ticket_cancel(&t);
	}
	assert_in_range(mallinfo2().uordblks - before, 0, 4096);
	stet_lock_release_all(&a);
	stet_locks_destroy(locks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_fairness),
		cmocka_unit_test(test_upgrade),
		cmocka_unit_test(test_youngest),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_phantom),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_queue_of_ranges),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_long_queue),
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_order_is_no_weapon),
		cmocka_unit_test(test_names_are_no_weapon),
		cmocka_unit_test(test_names_that_meet),
		cmocka_unit_test(test_given_up_probes),
		cmocka_unit_test(test_taking),
		cmocka_unit_test(test_many_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
