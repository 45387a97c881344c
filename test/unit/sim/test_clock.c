/* test_clock.c - the clock of tests. */
#include "sim/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void time_passes_only_when_told(void **state)
{
	struct sim_clock sim;
	int64_t mono_ns;

	(void)state;
	sim_clock_init(&sim, 1000);
	mono_ns = stet_clock_mono_ns(&sim.clock);
	assert_true(mono_ns > 0);
	assert_int_equal(stet_clock_wall_ns(&sim.clock), 1000);
	assert_int_equal(stet_clock_wall_ns(&sim.clock), 1000);
	sim_clock_advance(&sim, 50);
	assert_int_equal(stet_clock_wall_ns(&sim.clock), 1050);
	assert_int_equal(stet_clock_mono_ns(&sim.clock), mono_ns + 50);
}

static void the_wall_clock_may_jump_alone(void **state)
{
	struct sim_clock sim;
	int64_t mono_ns;

	(void)state;
	sim_clock_init(&sim, 1000);
	mono_ns = stet_clock_mono_ns(&sim.clock);
	sim_clock_set_wall(&sim, -7);
	assert_int_equal(stet_clock_wall_ns(&sim.clock), -7);
	assert_int_equal(stet_clock_mono_ns(&sim.clock), mono_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_passes_only_when_told),
		cmocka_unit_test(the_wall_clock_may_jump_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
