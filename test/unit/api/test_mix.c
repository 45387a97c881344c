/* test_mix.c - everything at once, for the sanitizers: commits with a watch, plain writers with locks,
 * walks, fsyncs, cleaning; on a small volume that has to be cleaned all the time. */
#include "api_unit.h"

#include <pthread.h>
#include <stdlib.h>

#define ROUNDS 150
#define FILES 12

struct mix {
	struct unit_volume *u;
	struct stet_volume *vol;
	_Atomic unsigned pending; /* requests that are not answered */
	_Atomic unsigned commits, conflicts;
	_Atomic int phase; /* of the watch: 0 or 1 */
	_Atomic bool stop;
};

static void watch(void *arg, enum stet_ll_phase phase, const struct stet_ll_touched *touched)
{
	struct mix *m = arg;

	if (phase == STET_LL_BEFORE) {
		assert_int_equal(atomic_fetch_add(&m->phase, 1), 0); /* one at a time */
		assert_true(touched->ino_count > 0);
	} else {
		assert_int_equal(phase, STET_LL_AFTER);
		assert_int_equal(atomic_fetch_sub(&m->phase, 1), 1);
	}
}

struct commit {
	struct mix *m;
	struct stet_txn *txn;
};

static void committed(void *arg, int result)
{
	struct commit *c = arg;

	assert_true(result == 0 || result == -EBUSY || result == -EDEADLK);
	if (result) {
		stet_abort(c->txn);
		c->m->conflicts++;
	} else {
		c->m->commits++;
	}
	c->m->pending--;
	free(c);
}

static void synced(void *arg, int result)
{
	struct mix *m = arg;

	OK(result);
	m->pending--;
}

static void fill_name(char name[16], unsigned *seed)
{
	snprintf(name, 16, "file%d", rand_r(seed) % FILES);
}

/* Writes two files in a transaction; both get the same content. */
static int write_pair(struct stet_volume *vol, struct stet_txn *txn, unsigned *seed)
{
	static const char letters[] = "abcdefgh";
	char block[6000], name[16];
	int rc = 0;

	memset(block, letters[rand_r(seed) % 8], sizeof(block));
	for (int i = 0; i < 2 && !rc; i++) {
		struct stet_stat st;

		fill_name(name, seed);
		rc = stet_ll_lookup(vol, txn, STET_ROOT, name, STET_LL_NOWAIT, &st);
		if (!rc)
			rc = stet_ll_open_lock(vol, txn, st.ino, 0, 20, NULL, NULL, NULL, NULL);
		if (!rc)
			rc = (int)stet_ll_write(vol, txn, st.ino, 0, block, sizeof(block),
						STET_LL_NOWAIT);
		rc = rc > 0 ? 0 : rc;
	}
	return rc;
}

static void *transact(void *arg)
{
	struct mix *m = arg;
	unsigned seed = (unsigned)(uintptr_t)pthread_self();

	for (int i = 0; i < ROUNDS; i++) {
		struct commit *c = calloc(1, sizeof(*c));
		int rc;

		assert_non_null(c);
		c->m = m;
		OK(stet_begin(m->vol, STET_BEGIN_SNAPSHOT, &c->txn));
		rc = write_pair(m->vol, c->txn, &seed);
		assert_true(rc == 0 || rc == -EBUSY || rc == -EDEADLK);
		if (rc) {
			stet_abort(c->txn);
			free(c);
			m->conflicts++;
			continue;
		}
		m->pending++;
		OK(stet_ll_commit(c->txn, i % 3 ? 0 : STET_COMMIT_NOSYNC, committed, c));
	}
	return NULL;
}

static void *write_plain(void *arg)
{
	struct mix *m = arg;
	unsigned seed = (unsigned)(uintptr_t)pthread_self() + 1;
	char name[16], block[9000];

	memset(block, 'p', sizeof(block));
	for (int i = 0; i < ROUNDS; i++) {
		struct stet_ll_lock *lock;
		struct stet_stat st;
		int rc;

		fill_name(name, &seed);
		OK(stet_ll_lookup(m->vol, NULL, STET_ROOT, name, STET_LL_HOLD, &st));
		rc = stet_ll_open_lock(m->vol, NULL, st.ino, 0, 50, NULL, NULL, &lock, NULL);
		if (rc == 0) {
			/* What the open allowed is not refused. */
			assert_int_equal(stet_ll_write(m->vol, NULL, st.ino, 0, block,
						       sizeof(block), STET_LL_NOWAIT),
					 sizeof(block));
			m->pending++;
			OK(stet_ll_fsync_async(m->vol, NULL, synced, m));
			stet_ll_close_lock(m->vol, lock);
		} else {
			assert_int_equal(rc, -EBUSY);
		}
		stet_ll_unhold(m->vol, st.ino, 1);
	}
	return NULL;
}

static int look(void *arg, const struct stet_walk_entry *entry)
{
	struct mix *m = arg;
	char block[9000];
	ssize_t n;

	if (entry->depth == 0)
		return 0;
	n = stet_ll_read(m->vol, NULL, entry->ino, 0, block, sizeof(block), 0);
	assert_true(n > 0);
	assert_memory_equal(block, block + 1, 5999); /* never half a write */
	return m->stop;
}

static void *read_all(void *arg)
{
	struct mix *m = arg;

	while (!m->stop) {
		int rc = stet_walk(m->vol, NULL, STET_ROOT, "", STET_WALK_PRE | STET_WALK_STAT,
				   look, m);

		assert_true(rc == 0 || rc == 1);
		assert_true(stet_clean(m->vol, 1) >= 0);
	}
	return NULL;
}

static void everything(void **state)
{
	struct unit_volume *u = *state;
	struct mix m = { .u = u, .vol = u->vol };
	void *(*const fn[])(void *) = { transact,    transact,    transact,
					write_plain, write_plain, read_all };
	enum { COUNT = sizeof(fn) / sizeof(fn[0]) };
	pthread_t thread[COUNT];
	char name[16];
	static char block[9000];

	memset(block, 'z', sizeof(block));
	for (int i = 0; i < FILES; i++) {
		struct stet_file *file;

		snprintf(name, sizeof(name), "file%d", i);
		OK(stet_openat(u->vol, NULL, STET_ROOT, name, O_WRONLY | O_CREAT, 0644, &file));
		assert_int_equal(stet_pwrite(file, block, sizeof(block), 0), sizeof(block));
		stet_file_close(file);
	}
	OK(stet_ll_watch(u->vol, watch, &m));
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, fn[i], &m), 0);
	for (int i = 0; i < COUNT - 1; i++)
		pthread_join(thread[i], NULL);
	m.stop = true;
	pthread_join(thread[COUNT - 1], NULL);
	for (int i = 0; i < 10000 && m.pending; i++)
		unit_sleep_ms(1);
	assert_int_equal(m.pending, 0);
	OK(stet_ll_watch(u->vol, NULL, NULL));
	print_message("%u commits, %u conflicts, %llu checkpoints\n", m.commits, m.conflicts,
		      (unsigned long long)unit_counter(u->vol, "checkpoints"));
	assert_true(m.commits > 0);
	unit_reopen(u, false);
	m.vol = u->vol;
	m.stop = false;
	OK(stet_walk(u->vol, NULL, STET_ROOT, "", STET_WALK_PRE, look, &m));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(everything, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/mix", tests, NULL, NULL);
}
