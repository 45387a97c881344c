/* test_crash.c - crash images: what is certain is always there, what is not is there by the spec. */
#include "base/random.h"
#include "sim/image.h"
#include "sim/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SIZE_BYTES ((uint64_t)16 << 20)
#define SECTOR SIM_SECTOR_BYTES

struct fixture {
	struct stet_device *lower;
	struct sim_record *rec;
	struct stet_device *dev; /* borrowed from rec */
};

static int set_up(void **state)
{
	struct fixture *fix = test_calloc(1, sizeof(*fix));

	assert_int_equal(sim_image_create(SIZE_BYTES, &fix->lower), 0);
	assert_int_equal(stet_device_write(fix->lower, 12345, "base", 4), 0);
	assert_int_equal(sim_record_create(fix->lower, &fix->rec), 0);
	fix->dev = sim_record_device(fix->rec);
	*state = fix;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fix = *state;

	sim_record_destroy(fix->rec);
	stet_device_close(fix->lower);
	test_free(fix);
	return 0;
}

static void write_run(struct stet_device *dev, uint64_t off_bytes, int value, size_t len_bytes)
{
	uint8_t buf[65536];

	assert_true(len_bytes <= sizeof(buf));
	memset(buf, value, len_bytes);
	assert_int_equal(stet_device_write(dev, off_bytes, buf, len_bytes), 0);
}

static struct stet_device *crash(struct sim_record *rec, struct sim_crash_spec spec)
{
	struct stet_device *image = NULL;

	if (sim_record_crash_image(rec, &spec, &image))
		fail_msg("%s", stet_error_text());
	return image;
}

static struct stet_device *crash_mode(struct fixture *fix, size_t k, enum sim_crash_mode mode)
{
	return crash(fix->rec, (struct sim_crash_spec){ .event = k, .mode = mode });
}

static bool same(struct stet_device *a, struct stet_device *b)
{
	uint64_t off_bytes;

	assert_int_equal(sim_image_compare(a, b, &off_bytes), 0);
	return off_bytes == a->size_bytes;
}

static uint8_t byte_at(struct stet_device *dev, uint64_t off_bytes)
{
	uint8_t byte;

	assert_int_equal(stet_device_read(dev, off_bytes, &byte, 1), 0);
	return byte;
}

/* Writes, discards and flushes at random; overlapping often. live[i]: what it was before event i
 * (if live is not NULL; the caller closes them). */
static void run_workload(struct fixture *fix, size_t events, uint64_t seed,
			 struct stet_device **live)
{
	struct stet_random random;

	stet_random_seed(&random, seed);
	for (size_t i = 0; i < events; i++) {
		uint64_t len = 1 + stet_random_below(&random, 20000);
		uint64_t off = stet_random_below(&random, (1 << 20) - len);
		uint64_t what = stet_random_below(&random, 20);

		if (live)
			assert_int_equal(sim_image_copy(fix->lower, &live[i]), 0);
		if (what == 0)
			assert_int_equal(stet_device_flush(fix->dev), 0);
		else if (what == 1)
			assert_int_equal(stet_device_discard(fix->dev, off, len), 0);
		else
			write_run(fix->dev, off, (int)(i + 1) & 0xff, (size_t)len);
	}
	if (live)
		assert_int_equal(sim_image_copy(fix->lower, &live[events]), 0);
}

static void nothing_dropped_is_the_live_image(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *live[301];

	run_workload(fix, 300, 1, live);
	for (size_t k = 0; k <= 300; k++) {
		struct stet_device *image = crash_mode(fix, k, SIM_CRASH_ALL);

		assert_true(same(image, live[k]));
		stet_device_close(image);
		stet_device_close(live[k]);
	}
}

static void all_dropped_is_the_state_at_the_last_flush(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *live[301];
	size_t flushed = 0;

	run_workload(fix, 300, 2, live);
	for (size_t k = 0; k <= 300; k++) {
		struct stet_device *image;

		if (k && sim_record_event(fix->rec, k - 1).kind == SIM_EVENT_FLUSH)
			flushed = k;
		image = crash_mode(fix, k, SIM_CRASH_NONE);
		assert_true(same(image, live[flushed]));
		stet_device_close(image);
	}
	for (size_t k = 0; k <= 300; k++)
		stet_device_close(live[k]);
}

/* Each write has a place of its own, so what is there of each can be told. */
static void flushed_writes_are_always_present(void **state)
{
	struct fixture *fix = *state;
	struct stet_random random;

	stet_random_seed(&random, 3);
	for (int i = 0; i < 200; i++) {
		write_run(fix->dev, (uint64_t)i * 8192, i + 1, 4096);
		if (stet_random_below(&random, 8) == 0)
			assert_int_equal(stet_device_flush(fix->dev), 0);
	}
	for (uint64_t seed = 0; seed < 2000; seed++) {
		size_t k = (size_t)stet_random_below(&random, sim_record_count(fix->rec) + 1);
		struct stet_device *image = crash(fix->rec, sim_crash_random(k, seed));
		size_t certain = k;

		while (certain && sim_record_event(fix->rec, certain - 1).kind != SIM_EVENT_FLUSH)
			certain--;
		for (size_t no = 0; no < sim_record_count(fix->rec); no++) {
			struct sim_event event = sim_record_event(fix->rec, no);
			uint8_t buf[4096];

			if (event.kind != SIM_EVENT_WRITE || (no >= certain && no < k))
				continue;
			assert_int_equal(stet_device_read(image, event.off_bytes, buf, 4096), 0);
			if (no < certain)
				assert_memory_equal(buf, event.data, 4096);
			else
				assert_int_equal(buf[0] | buf[4095], 0); /* not yet done */
		}
		assert_int_equal(byte_at(image, 12345 + 8192 * 200), 0);
		stet_device_close(image);
	}
}

static void same_seed_same_image(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *first[64];
	size_t different = 0;

	run_workload(fix, 400, 4, NULL);
	for (uint64_t seed = 0; seed < 64; seed++)
		first[seed] = crash(fix->rec, sim_crash_random((size_t)seed * 6, seed));
	for (uint64_t seed = 64; seed-- > 0;) { /* backwards: I3 of crash.c */
		struct stet_device *again = crash(fix->rec,
						  sim_crash_random((size_t)seed * 6, seed));
		struct stet_device *other = crash(fix->rec,
						  sim_crash_random((size_t)seed * 6, seed + 1000));

		assert_true(same(first[seed], again));
		different += !same(first[seed], other);
		stet_device_close(other);
		stet_device_close(again);
		stet_device_close(first[seed]);
	}
	assert_true(different > 32);
}

static void subsets_are_exact(void **state)
{
	struct fixture *fix = *state;

	write_run(fix->dev, 0, 9, 512);
	assert_int_equal(stet_device_flush(fix->dev), 0);
	for (int i = 0; i < 5; i++)
		write_run(fix->dev, 4096 + (uint64_t)i * 512, 1, 512);
	assert_int_equal(sim_record_unflushed(fix->rec, 7), 5);
	for (uint64_t mask = 0; mask < 32; mask++) {
		struct stet_device *image = crash(
			fix->rec, (struct sim_crash_spec){
					  .event = 7, .mode = SIM_CRASH_SUBSET, .mask = mask });

		assert_int_equal(byte_at(image, 511), 9);
		for (unsigned int i = 0; i < 5; i++)
			assert_int_equal(byte_at(image, 4096 + (uint64_t)i * 512), mask >> i & 1);
		stet_device_close(image);
	}
}

/* What came up in 200 images, for each sector of the write. */
struct seen {
	int landed[16];
	int missing[16];
	int strange[16];
	int gaps; /* images in which a sector is new after one that is not */
};

/* Makes 200 images of one unflushed write of ones, each with the given fate. */
static void look_at_fate(struct fixture *fix, enum sim_fate fate, unsigned int sectors,
			 struct seen *ret)
{
	struct sim_crash_spec spec = { .event = 1, .mode = SIM_CRASH_SEEDED };

	memset(ret, 0, sizeof(*ret));
	write_run(fix->dev, 1 << 20, 1, (size_t)sectors * SECTOR);
	spec.weight[fate] = 1;
	for (spec.seed = 0; spec.seed < 200; spec.seed++) {
		struct stet_device *image = crash(fix->rec, spec);
		bool gap = false;
		bool after_gap = false;

		for (unsigned int i = 0; i < sectors; i++) {
			uint8_t buf[SECTOR];
			bool uniform;

			assert_int_equal(
				stet_device_read(image, (1 << 20) + i * SECTOR, buf, SECTOR), 0);
			uniform = !memcmp(buf, buf + 1, SECTOR - 1);
			ret->landed[i] += uniform && buf[0] == 1;
			ret->missing[i] += uniform && buf[0] == 0;
			ret->strange[i] += !uniform;
			after_gap |= gap && uniform && buf[0] == 1;
			gap |= !uniform || buf[0] != 1;
		}
		ret->gaps += after_gap;
		assert_int_equal(byte_at(image, (1 << 20) - 1), 0);
		assert_int_equal(byte_at(image, (1 << 20) + sectors * SECTOR), 0);
		stet_device_close(image);
	}
}

static void applied_and_dropped_are_whole(void **state)
{
	struct fixture *fix = *state;
	struct seen seen;

	look_at_fate(fix, SIM_FATE_APPLY, 4, &seen);
	for (int i = 0; i < 4; i++)
		assert_int_equal(seen.landed[i], 200);
	look_at_fate(fix, SIM_FATE_DROP, 4, &seen);
	for (int i = 0; i < 4; i++)
		assert_int_equal(seen.missing[i], 200);
}

static void torn_writes_have_a_first_part(void **state)
{
	struct seen seen;

	look_at_fate(*state, SIM_FATE_TEAR, 4, &seen);
	assert_int_equal(seen.landed[0], 200);
	assert_int_equal(seen.missing[3], 200);
	for (int i = 1; i < 3; i++) {
		assert_true(seen.landed[i] > 0 && seen.missing[i] > 0);
		assert_int_equal(seen.landed[i] + seen.missing[i], 200);
	}
	assert_int_equal(seen.gaps, 0);
}

static void a_single_sector_is_not_torn(void **state)
{
	struct seen seen;

	look_at_fate(*state, SIM_FATE_TEAR, 1, &seen);
	assert_int_equal(seen.missing[0], 200);
}

static void scattered_writes_have_gaps(void **state)
{
	struct seen seen;

	look_at_fate(*state, SIM_FATE_SCATTER, 8, &seen);
	for (int i = 0; i < 8; i++) {
		assert_true(seen.landed[i] > 50 && seen.missing[i] > 50);
		assert_int_equal(seen.strange[i], 0);
	}
	assert_true(seen.gaps > 100);
}

static void garbage_follows_the_first_part(void **state)
{
	struct seen seen;

	look_at_fate(*state, SIM_FATE_GARBAGE, 4, &seen);
	assert_int_equal(seen.strange[3], 200);
	assert_true(seen.landed[0] > 0 && seen.strange[0] > 0);
	assert_true(seen.landed[2] > 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(seen.missing[i], 0);
	assert_int_equal(seen.gaps, 0);
}

/* A write that starts and ends inside sectors is cut at their borders only. */
static void odd_writes_are_cut_at_sector_borders(void **state)
{
	struct fixture *fix = *state;
	struct sim_crash_spec spec = { .event = 1, .mode = SIM_CRASH_SEEDED };
	int cuts[3] = { 0 };

	write_run(fix->dev, 4096 + 300, 1, 1000); /* up to 5396: 212 + 512 + 276 bytes */
	spec.weight[SIM_FATE_TEAR] = 1;
	for (spec.seed = 0; spec.seed < 100; spec.seed++) {
		struct stet_device *image = crash(fix->rec, spec);
		uint64_t n = 0;

		while (byte_at(image, 4096 + 300 + n) == 1)
			n++;
		assert_true(n == 212 || n == 724);
		cuts[n == 212]++;
		assert_int_equal(byte_at(image, 4096 + 299), 0);
		stet_device_close(image);
	}
	assert_true(cuts[0] > 10 && cuts[1] > 10);
}

/* Overlapping unflushed writes: in their order the later one wins, reordered either may. */
static void reordering_lets_an_older_write_win(void **state)
{
	struct fixture *fix = *state;
	struct sim_crash_spec spec = { .event = 2, .mode = SIM_CRASH_SEEDED };
	int older[2] = { 0 };

	write_run(fix->dev, 0, 1, 512);
	write_run(fix->dev, 0, 2, 512);
	spec.weight[SIM_FATE_APPLY] = 1;
	for (int reorder = 0; reorder < 2; reorder++) {
		spec.reorder = reorder;
		for (spec.seed = 0; spec.seed < 100; spec.seed++) {
			struct stet_device *image = crash(fix->rec, spec);

			older[reorder] += byte_at(image, 0) == 1;
			stet_device_close(image);
		}
	}
	assert_int_equal(older[0], 0);
	assert_true(older[1] > 20 && older[1] < 80);
}

/* Later writes land while earlier ones do not, and the other way round. */
static void any_subset_comes_up(void **state)
{
	struct fixture *fix = *state;
	bool seen[16] = { false };

	for (unsigned int i = 0; i < 4; i++)
		write_run(fix->dev, (uint64_t)i * 4096, 1, 512);
	for (uint64_t seed = 0; seed < 1000; seed++) {
		struct stet_device *image = crash(fix->rec, sim_crash_random(4, seed));
		unsigned int mask = 0;

		for (unsigned int i = 0; i < 4; i++)
			mask |= (unsigned int)(byte_at(image, (uint64_t)i * 4096) == 1) << i;
		seen[mask] = true;
		stet_device_close(image);
	}
	for (int mask = 0; mask < 16; mask++)
		assert_true(seen[mask]);
}

static void only_the_last_may_be_in_doubt(void **state)
{
	struct fixture *fix = *state;
	struct sim_crash_spec spec = { .event = 8, .mode = SIM_CRASH_SEEDED, .keep_last = 2 };
	struct stet_device *image;

	for (unsigned int i = 0; i < 8; i++)
		write_run(fix->dev, (uint64_t)i * 4096, 1, 512);
	spec.weight[SIM_FATE_DROP] = 1;
	image = crash(fix->rec, spec);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(byte_at(image, (uint64_t)i * 4096), i < 6);
	stet_device_close(image);
}

/* A crash image used as the device of a recovery, which crashes in its turn. */
static void a_crash_image_can_be_recorded(void **state)
{
	struct fixture *fix = *state;
	struct stet_device *first;
	struct stet_device *second;
	struct sim_record *rec;

	write_run(fix->dev, 0, 1, 512);
	assert_int_equal(stet_device_flush(fix->dev), 0);
	write_run(fix->dev, 512, 2, 512);
	first = crash_mode(fix, 3, SIM_CRASH_NONE);
	assert_int_equal(sim_record_create(first, &rec), 0);
	write_run(sim_record_device(rec), 512, 3, 512);
	assert_int_equal(stet_device_flush(sim_record_device(rec)), 0);
	write_run(sim_record_device(rec), 1024, 4, 512);
	second = crash(rec, (struct sim_crash_spec){ .event = 3, .mode = SIM_CRASH_NONE });
	assert_int_equal(byte_at(second, 0), 1);
	assert_int_equal(byte_at(second, 512), 3);
	assert_int_equal(byte_at(second, 1024), 0);
	assert_int_equal(byte_at(second, 12345), 'b');
	sim_record_destroy(rec);
	stet_device_close(first);
	assert_int_equal(byte_at(second, 512), 3); /* outlives what it came from */
	stet_device_close(second);
	second = crash_mode(fix, 3, SIM_CRASH_ALL);
	assert_int_equal(byte_at(second, 512), 2); /* and the first record is as it was */
	stet_device_close(second);
}

/* More events than snapshots, asked for forwards, backwards and at random. */
static void thousands_of_images_in_any_order(void **state)
{
	struct fixture *fix = *state;
	struct stet_random random;
	const size_t events = 6000;

	for (size_t i = 0; i < events; i++) {
		if (i % 10 == 9)
			assert_int_equal(stet_device_flush(fix->dev), 0);
		else
			write_run(fix->dev, i % 3000 * 4096, (int)(i % 250) + 1, 4096);
	}
	stet_random_seed(&random, 5);
	for (size_t i = 0; i < 2 * events + 500; i++) {
		size_t k = i <= events       ? i
			   : i <= 2 * events ? 2 * events - i
					     : (size_t)stet_random_below(&random, events + 1);
		struct stet_device *image = crash_mode(fix, k, SIM_CRASH_NONE);
		size_t certain = k / 10 * 10;

		if (certain) {
			size_t last = certain - 2;

			assert_int_equal(byte_at(image, last % 3000 * 4096), last % 250 + 1);
		}
		if (certain < 3000)
			assert_int_equal(byte_at(image, certain * 4096), 0);
		stet_device_close(image);
	}
}

static void specs_are_printed(void **state)
{
	struct sim_crash_spec spec = sim_crash_random(12, 3);
	struct stet_text text;

	(void)state;
	stet_text_init(&text);
	sim_crash_spec_print(&text, &spec);
	assert_non_null(strstr(stet_text_cstr(&text), "event=12 mode=seeded seed=3 weight="));
	stet_text_clear(&text);
	spec = (struct sim_crash_spec){ .event = 1, .mode = SIM_CRASH_SUBSET, .mask = 5 };
	sim_crash_spec_print(&text, &spec);
	assert_string_equal(stet_text_cstr(&text), "event=1 mode=subset mask=0x5");
	stet_text_release(&text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_dropped_is_the_live_image),
		TEST(all_dropped_is_the_state_at_the_last_flush),
		TEST(flushed_writes_are_always_present),
		TEST(same_seed_same_image),
		TEST(subsets_are_exact),
		TEST(applied_and_dropped_are_whole),
		TEST(torn_writes_have_a_first_part),
		TEST(a_single_sector_is_not_torn),
		TEST(scattered_writes_have_gaps),
		TEST(garbage_follows_the_first_part),
		TEST(odd_writes_are_cut_at_sector_borders),
		TEST(reordering_lets_an_older_write_win),
		TEST(any_subset_comes_up),
		TEST(only_the_last_may_be_in_doubt),
		TEST(a_crash_image_can_be_recorded),
		TEST(thousands_of_images_in_any_order),
		cmocka_unit_test(specs_are_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
