/* clock.c - see clock.h.
 *
 * I1. The monotonic time never goes back.
 */
#include "sim/clock.h"

#include "base/assert.h"
#include "base/list.h"

#define MONO_START_NS ((int64_t)1000000000)

static int64_t wall_ns(struct stet_clock *clock)
{
	return atomic_load(&stet_container_of(clock, struct sim_clock, clock)->wall_ns);
}

static int64_t mono_ns(struct stet_clock *clock)
{
	return atomic_load(&stet_container_of(clock, struct sim_clock, clock)->mono_ns);
}

void sim_clock_init(struct sim_clock *sim, int64_t start_ns)
{
	sim->clock.wall_ns = wall_ns;
	sim->clock.mono_ns = mono_ns;
	atomic_init(&sim->wall_ns, start_ns);
	atomic_init(&sim->mono_ns, MONO_START_NS);
}

void sim_clock_advance(struct sim_clock *sim, int64_t delta_ns)
{
	STET_ASSERT_CMP(delta_ns, >=, 0); /* I1 */
	atomic_fetch_add(&sim->wall_ns, delta_ns);
	atomic_fetch_add(&sim->mono_ns, delta_ns);
}

void sim_clock_set_wall(struct sim_clock *sim, int64_t new_ns)
{
	atomic_store(&sim->wall_ns, new_ns);
}
