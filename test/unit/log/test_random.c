/* test_random.c - long random use with write failures, and opening again in between. */
#include "log_unit.h"
#include "steps.h"

#include "sim/fault.h"
#include "sim/image.h"

#define SEEDS 12u
#define ROUNDS 6u
#define STEPS 60u

struct geometry {
	uint32_t slots, seg_blocks, max_blocks, max_records;
};

static const struct geometry geometries[] = {
	{ 200, 64, 150, 400 },
	{ 120, 128, 40, 2000 },
	{ 60, 1024, 1500, 300 },
};

static void use(struct lt_vol *vol, struct sim_fault *fault, const struct geometry *geometry)
{
	struct lt_steps steps = {
		.vol = vol,
		.fault = fault,
		.max_blocks = geometry->max_blocks,
		.max_records = geometry->max_records,
		.keep_blocks = (uint64_t)geometry->slots * geometry->seg_blocks / 8,
		.lazy = stet_random_below(&vol->random, 2) == 0,
	};

	for (uint32_t i = 0; i < STEPS; i++)
		lt_step(&steps);
	lt_steps_end(&steps);
	lt_commit(vol, 3, 3);
}

static void run(uint64_t seed, const struct geometry *geometry)
{
	struct stet_superblock sb = lt_sb(geometry->slots, geometry->seg_blocks);
	struct stet_device *image;
	struct sim_fault *fault;
	struct lt_model model;
	struct lt_vol vol;

	lt_model_init(&model);
	assert_int_equal(sim_image_create(lt_device_bytes(&sb), &image), 0);
	assert_int_equal(sim_fault_create(image, seed, &fault), 0);
	lt_mkfs(&vol, sim_fault_device(fault), &sb, &model, seed);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct lt_vol next;
		size_t which = stet_random_below(&vol.random, vol.ckpts.n);
		struct stet_log_recovery stats;

		use(&vol, fault, geometry);
		assert_int_equal(lt_mount(&next, vol.device, &sb, &model, vol.ckpts.v[which], false,
					  seed + round, &stats),
				 0);
		lt_check_seen(&next, vol.ckpts.v[which], model.order.v[model.order.n - 1], false);
		assert_false(stats.corrupt);
		assert_true(stet_log_last_serial(next.log) >= vol.ckpts.v[which]->rec.cut);
		lt_close(&vol);
		vol = next;
	}
	lt_close(&vol);
	lt_model_release(&model);
	sim_fault_destroy(fault);
	stet_device_close(image);
}

static void random_use(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t g = 0; g < sizeof(geometries) / sizeof(geometries[0]); g++)
			run(seed, &geometries[g]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(random_use) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
