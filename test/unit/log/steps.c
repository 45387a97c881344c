/* steps.c - random use of a log. */
#include "steps.h"

#include <inttypes.h>
#include <stdio.h>

static bool one_in(struct lt_steps *steps, uint64_t n)
{
	return stet_random_below(&steps->vol->random, n) == 0;
}

/* Lets one of the next writes fail; sometimes after all of it has landed. */
static void plan_failure(struct lt_steps *steps)
{
	uint64_t nth = 1 + stet_random_below(&steps->vol->random, 4);
	char script[64];

	if (one_in(steps, 2))
		(void)snprintf(script, sizeof(script), "write#%" PRIu64 ":eio", nth);
	else
		(void)snprintf(script, sizeof(script), "write#%" PRIu64 ":short=%" PRIu64, nth,
			       1 + stet_random_below(&steps->vol->random, 300));
	assert_int_equal(sim_fault_set(steps->fault, script), 0);
}

static int perform(struct lt_steps *steps, struct lt_group *g, bool flush)
{
	int rc;

	if (steps->fault && one_in(steps, 10))
		plan_failure(steps);
	rc = stet_log_perform(g->group, flush);
	if (steps->fault)
		assert_int_equal(sim_fault_set(steps->fault, ""), 0);
	assert_int_equal(stet_log_group_failed(g->group), rc ? STET_LOG_WRITE_FAILED : STET_LOG_OK);
	return rc;
}

/* --- beside the commits --- */
static void open_side(struct lt_steps *steps)
{
	enum stet_seg_kind head = one_in(steps, 2) ? STET_SEGK_NODE : STET_SEGK_BULK;
	int rc = 0;

	steps->side = (struct lt_group){ 0 };
	assert_int_equal(stet_log_begin(steps->vol->log, true, &steps->side.group), 0);
	for (uint64_t i = stet_random_below(&steps->vol->random, 20); i > 0 && !rc; i--)
		rc = lt_put(steps->vol, &steps->side, head, STET_PAYLOAD_NODE, 4, true);
	for (uint64_t i = stet_random_below(&steps->vol->random, 3); i > 0 && !rc; i--)
		rc = lt_put(steps->vol, &steps->side, STET_SEGK_NODE2, STET_PAYLOAD_NODE, 4, true);
	if (!rc)
		rc = stet_log_end(steps->side.group, STET_PSEG_PAYLOAD, 0, 1, false);
	if (rc) {
		assert_int_equal(rc, -ENOSPC);
		lt_abandon(steps->vol, &steps->side);
		return;
	}
	steps->side_open = true;
}

/* The nodes stay held, as if no root ever named them. */
static void close_side(struct lt_steps *steps)
{
	steps->side_open = false;
	if (one_in(steps, 2) || perform(steps, &steps->side, one_in(steps, 2)))
		lt_abandon(steps->vol, &steps->side);
	else
		lt_complete(steps->vol, &steps->side);
}

void lt_steps_end(struct lt_steps *steps)
{
	if (steps->side_open)
		close_side(steps);
}

void lt_steps_checkpoint(struct lt_steps *steps)
{
	lt_steps_end(steps);
	lt_checkpoint(steps->vol, steps->keep_blocks);
	if (steps->durable)
		steps->durable(steps->arg, true);
}

/* --- commits --- */
/* Makes room: what is old is deleted, and two checkpoints let go of it. */
static void out_of_room(struct lt_steps *steps)
{
	uint64_t keep = steps->keep_blocks;

	steps->keep_blocks = 0;
	for (int i = 0; i < 3; i++)
		lt_steps_checkpoint(steps);
	steps->keep_blocks = keep;
}

static void retry(struct lt_steps *steps)
{
	struct lt_group g;

	assert_int_equal(lt_begin_commit(steps->vol, &g, true), 0);
	assert_int_equal(lt_fill(steps->vol, &g, 5, 5), 0);
	assert_int_equal(lt_end_commit(steps->vol, &g), 0);
	assert_int_equal(stet_log_perform(g.group, true), 0);
	lt_complete(steps->vol, &g);
	if (steps->durable)
		steps->durable(steps->arg, false);
}

static void commit(struct lt_steps *steps)
{
	bool flush = !steps->lazy || one_in(steps, 3);
	struct lt_group g;
	int rc;

	assert_int_equal(lt_begin_commit(steps->vol, &g, !steps->tight && one_in(steps, 2)), 0);
	rc = lt_fill(steps->vol, &g, one_in(steps, 4) ? steps->max_blocks : 6,
		     one_in(steps, 4) ? steps->max_records : 6);
	if (!rc && one_in(steps, 10)) {
		lt_abandon(steps->vol, &g);
		return;
	}
	if (!rc)
		rc = lt_end_commit(steps->vol, &g);
	if (rc) {
		assert_int_equal(rc, -ENOSPC);
		lt_abandon(steps->vol, &g);
		out_of_room(steps);
		return;
	}
	if (one_in(steps, 10)) {
		lt_abandon(steps->vol, &g);
		return;
	}
	rc = perform(steps, &g, flush);
	if (rc) {
		lt_abandon(steps->vol, &g);
		retry(steps);
		return;
	}
	lt_complete(steps->vol, &g);
	if (flush && steps->durable)
		steps->durable(steps->arg, false);
}

static void idle(struct lt_steps *steps)
{
	struct lt_group g = { 0 };
	int rc;

	assert_int_equal(stet_log_begin(steps->vol->log, true, &g.group), 0);
	rc = stet_log_end(g.group, STET_PSEG_IDLE, 0, 1, false);
	if (rc) {
		assert_int_equal(rc, -ENOSPC);
		lt_abandon(steps->vol, &g);
		return;
	}
	assert_int_equal(stet_log_perform(g.group, true), 0);
	lt_complete(steps->vol, &g);
	if (steps->durable)
		steps->durable(steps->arg, false);
}

void lt_step(struct lt_steps *steps)
{
	if (!steps->tight && !steps->side_open && one_in(steps, 5))
		open_side(steps);
	commit(steps);
	if (one_in(steps, 15))
		idle(steps);
	if (steps->side_open && one_in(steps, 3))
		close_side(steps);
	if (one_in(steps, 25))
		lt_steps_checkpoint(steps);
	if (one_in(steps, 10))
		stet_space_check(steps->vol->space);
}
