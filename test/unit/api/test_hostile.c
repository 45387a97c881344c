/* test_hostile.c - walks of directories that lead in circles, or have two names: they end, and say so. */
#include "hostile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "api/volume.h"
#include "stetfs.h"

#define OK(call) assert_int_equal((call), 0)

static int count(void *arg, const struct stet_walk_entry *entry)
{
	unsigned *n = arg;

	(void)entry;
	return ++*n > 100 ? -ELOOP : 0;
}

/* From the root and from /a: first in a walk's own view, then in a transaction, where what does not fit may
 * have been moved meanwhile and is passed over. */
static void walk_all(enum hostile what, int from_root, int from_a)
{
	const struct stet_open_options options = { 0 };
	struct stet_device *device;
	struct stet_volume *vol;
	struct stet_txn *txn;
	unsigned n = 0;

	hostile_make(what, &device);
	OK(stet_api_open_device(device, &options, NULL, &vol));
	assert_int_equal(stet_walk(vol, NULL, STET_ROOT, "", STET_WALK_PRE, count, &n), from_root);
	n = 0;
	assert_int_equal(stet_walk(vol, NULL, STET_ROOT, "a", STET_WALK_PRE | STET_WALK_STAT, count,
				   &n),
			 from_a);
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	n = 0;
	OK(stet_walk(vol, txn, STET_ROOT, "", STET_WALK_PRE, count, &n));
	n = 0;
	OK(stet_walk(vol, txn, STET_ROOT, "a", STET_WALK_PRE | STET_WALK_POST, count, &n));
	stet_abort(txn);
	OK(stet_close(vol));
}

static void circles(void **state)
{
	(void)state;
	walk_all(HOSTILE_UP, -EUCLEAN, -EUCLEAN);
	walk_all(HOSTILE_CIRCLE, -EUCLEAN, -EUCLEAN);
	walk_all(HOSTILE_ROOT, -EUCLEAN, -EUCLEAN);
}

static void two_names(void **state)
{
	(void)state;
	walk_all(HOSTILE_TWICE, -EUCLEAN, -EUCLEAN);
	walk_all(HOSTILE_TWO, -EUCLEAN, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(circles),
		cmocka_unit_test(two_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
