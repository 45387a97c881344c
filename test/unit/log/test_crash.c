/* test_crash.c - crashes at every point of a recorded run, opened, used on, and crashed again. */
#include "log_unit.h"
#include "steps.h"

#include "base/text.h"
#include "sim/fault.h"
#include "sim/image.h"
#include "sim/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS 30u
#define IMAGES_PER_EVENT 2u
#define TIGHT_SLOTS 30u

/* What was known to be durable at a mark. */
struct state {
	uint64_t acked;                     /* batch */
	const struct lt_ckpt *ckpt, *older; /* borrowed from run; older: NULL or also good */
};

struct run {
	struct stet_superblock sb;
	struct stet_device *image;
	struct sim_record *rec;
	struct sim_fault *fault;
	struct lt_model model;
	struct lt_vol vol;
	STET_VEC(struct state) states;
	STET_VEC(struct lt_ckpt *) ckpts;
	uint64_t seed;
};

static uint64_t last_batch(const struct lt_model *model)
{
	return model->order.n > 0 ? model->order.v[model->order.n - 1] : 0;
}

static void on_durable(void *arg, bool checkpoint)
{
	struct run *run = arg;
	struct state state = { .acked = last_batch(&run->model) };

	if (checkpoint)
		assert_int_equal(stet_vec_push(&run->ckpts, lt_ckpt_copy(lt_newest(&run->vol))), 0);
	state.ckpt = run->ckpts.v[run->ckpts.n - 1];
	state.older = run->ckpts.n > 1 ? run->ckpts.v[run->ckpts.n - 2] : NULL;
	assert_int_equal(sim_record_mark(run->rec, run->states.n), 0);
	assert_int_equal(stet_vec_push(&run->states, state), 0);
}

static void record_on(struct run *run, struct stet_device *lower)
{
	assert_int_equal(sim_record_create(lower, &run->rec), 0);
	assert_int_equal(sim_fault_create(sim_record_device(run->rec), run->seed, &run->fault), 0);
}

static void run_steps(struct run *run, uint32_t n, bool faults)
{
	struct lt_steps steps = {
		.vol = &run->vol,
		.fault = faults ? run->fault : NULL,
		.max_blocks = 90,
		.max_records = 300,
		.keep_blocks = 200,
		.tight = run->sb.slot_count < TIGHT_SLOTS,
		.lazy = run->seed % 2 == 0,
		.durable = on_durable,
		.arg = run,
	};

	for (uint32_t i = 0; i < n; i++)
		lt_step(&steps);
	lt_steps_end(&steps);
}

static void run_release(struct run *run)
{
	for (size_t i = 0; i < run->ckpts.n; i++)
		lt_ckpt_free(run->ckpts.v[i]);
	stet_vec_release(&run->ckpts);
	stet_vec_release(&run->states);
	sim_fault_destroy(run->fault);
	sim_record_destroy(run->rec);
}

/* The order of completion is the model's truth; a crash takes a copy of it to go on with. */
struct order {
	uint64_t *v;
	size_t n;
};

static struct order order_save(const struct lt_model *model)
{
	struct order order = { .n = model->order.n };

	order.v = stet_memdup(model->order.v, (order.n + 1) * sizeof(*order.v) - sizeof(*order.v));
	assert_true(order.v != NULL || order.n == 0);
	return order;
}

static void order_restore(struct lt_model *model, struct order *order)
{
	model->order.n = 0;
	for (size_t i = 0; i < order->n; i++)
		assert_int_equal(stet_vec_push(&model->order, order->v[i]), 0);
	stet_free(order->v);
}

static const struct lt_ckpt *pick_ckpt(const struct state *state, uint64_t seed)
{
	return state->older && seed % 3 == 0 ? state->older : state->ckpt;
}

static void crash_once(struct run *run, size_t k, uint64_t seed, bool again);

/* The crash image is used on, with failures, and crashed in its turn. */
static void go_on(struct run *run, struct stet_device *image, const struct lt_ckpt *ckpt,
		  uint64_t seed, bool again)
{
	struct order order = order_save(&run->model);
	struct run next = { .sb = run->sb, .seed = seed, .model = run->model };
	size_t count;

	record_on(&next, image);
	assert_int_equal(lt_mount(&next.vol, sim_fault_device(next.fault), &next.sb, &next.model,
				  ckpt, false, seed, NULL),
			 0);
	lt_adopt_seen(&next.vol, ckpt);
	assert_int_equal(stet_vec_push(&next.ckpts, lt_ckpt_copy(ckpt)), 0);
	on_durable(&next, false);
	next.states.v[0].acked = ckpt->last_batch;
	if (seed % 2)
		lt_commit(&next.vol, 3, 3);
	run_steps(&next, 4, seed % 4 == 0);
	lt_commit(&next.vol, 2, 2);
	on_durable(&next, false);
	count = sim_record_count(next.rec);
	crash_once(&next, count, seed, false);
	for (size_t k = 1; again && k < count; k += 3)
		crash_once(&next, k, seed + k, false);
	lt_close(&next.vol);
	run->model = next.model; /* its vectors have grown */
	run_release(&next);
	order_restore(&run->model, &order);
}

static void crash_once(struct run *run, size_t k, uint64_t seed, bool again)
{
	struct sim_crash_spec spec = sim_crash_random(k, seed);
	struct stet_device *image;
	struct state state;
	const struct lt_ckpt *ckpt;
	struct lt_vol vol;
	uint64_t tag;

	if (!sim_record_last_mark(run->rec, k, &tag))
		return;
	state = run->states.v[tag];
	ckpt = pick_ckpt(&state, seed);
	assert_int_equal(sim_record_crash_image(run->rec, &spec, &image), 0);
	assert_int_equal(lt_mount(&vol, image, &run->sb, &run->model, ckpt, false, seed, NULL), 0);
	lt_check_seen(&vol, ckpt, state.acked, true);
	lt_close(&vol);
	if (again)
		go_on(run, image, ckpt, seed, seed % 5 == 0);
	stet_device_close(image);
}

static void one_run(uint64_t seed, uint32_t slots, uint32_t seg_blocks)
{
	struct run run = { .sb = lt_sb(slots, seg_blocks), .seed = seed };
	size_t count;

	lt_model_init(&run.model);
	assert_int_equal(sim_image_create(lt_device_bytes(&run.sb), &run.image), 0);
	record_on(&run, run.image);
	lt_mkfs(&run.vol, sim_fault_device(run.fault), &run.sb, &run.model, seed);
	assert_int_equal(stet_vec_push(&run.ckpts, lt_ckpt_copy(lt_newest(&run.vol))), 0);
	on_durable(&run, false);
	if (slots < TIGHT_SLOTS)
		run_steps(&run, 5 * STEPS, false);
	else
		run_steps(&run, STEPS, seed % 3 == 0);
	count = sim_record_count(run.rec);
	for (size_t k = 0; k <= count; k++)
		for (uint64_t i = 0; i < IMAGES_PER_EVENT; i++)
			crash_once(&run, k, seed * 100000 + k * IMAGES_PER_EVENT + i,
				   i == 0 && slots >= TIGHT_SLOTS);
	lt_close(&run.vol);
	run_release(&run);
	stet_device_close(run.image);
	lt_model_release(&run.model);
}

/* A group of several partial segments, of which the last is written whole and yet reported as failed:
 * it may count or not, but what comes after must not tear it. */
static void failed_but_landed(struct run *run)
{
	struct lt_group g;
	char script[64];

	assert_int_equal(lt_begin_commit(&run->vol, &g, true), 0);
	assert_int_equal(lt_fill(&run->vol, &g, 100, 20), 0);
	if (stet_random_below(&run->vol.random, 2) == 0)
		assert_int_equal(lt_put(&run->vol, &g, STET_SEGK_COLD, STET_PAYLOAD_DATA, 5, false),
				 0);
	assert_int_equal(lt_fill(&run->vol, &g, 30, 1000), 0);
	assert_int_equal(lt_end_commit(&run->vol, &g), 0);
	(void)snprintf(script, sizeof(script), "write#%" PRIu64 ":short=100000",
		       1 + stet_random_below(&run->vol.random, 6));
	assert_int_equal(sim_fault_set(run->fault, script), 0);
	if (stet_log_perform(g.group, true)) {
		lt_abandon(&run->vol, &g);
	} else {
		lt_complete(&run->vol, &g);
		on_durable(run, false);
	}
	assert_int_equal(sim_fault_set(run->fault, ""), 0);
}

static void crash_after_landing(uint64_t seed)
{
	struct run run = { .sb = lt_sb(100, 64), .seed = seed };
	size_t before;
	size_t count;

	lt_model_init(&run.model);
	assert_int_equal(sim_image_create(lt_device_bytes(&run.sb), &run.image), 0);
	record_on(&run, run.image);
	lt_mkfs(&run.vol, sim_fault_device(run.fault), &run.sb, &run.model, seed);
	assert_int_equal(stet_vec_push(&run.ckpts, lt_ckpt_copy(lt_newest(&run.vol))), 0);
	on_durable(&run, false);
	for (uint64_t i = stet_random_below(&run.vol.random, 8); i > 0; i--)
		lt_commit(&run.vol, 10, 5);
	on_durable(&run, false);
	before = sim_record_count(run.rec);
	failed_but_landed(&run);
	for (int i = 0; i < 3; i++)
		lt_commit(&run.vol, 60, 50);
	on_durable(&run, false);
	count = sim_record_count(run.rec);
	for (size_t k = before; k <= count; k++)
		for (uint64_t i = 0; i < 6; i++)
			crash_once(&run, k, seed * 100000 + k * 6 + i, false);
	lt_close(&run.vol);
	run_release(&run);
	stet_device_close(run.image);
	lt_model_release(&run.model);
}

static uint64_t seeds(void)
{
	const char *more = getenv("STET_TEST_SEEDS");

	return more ? strtoull(more, NULL, 10) : 6;
}

static void crashes(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= seeds(); seed++) {
		one_run(seed, 100, 64);
		one_run(seed + 1000, 50, 128);
		one_run(seed + 2000, 24, 64); /* freed segments are used again at once */
	}
}

static void landed(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= seeds() * 10; seed++)
		crash_after_landing(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crashes),
		cmocka_unit_test(landed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
