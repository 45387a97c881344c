/* test_fault.c - scripts are read and printed, and each kind of fault does what it says. */
#include "sim/fault.h"
#include "sim/image.h"
#include "sim/record.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SIZE_BYTES 65536
#define SEED 7
#define THREADS 4

struct fixture {
	struct stet_device *lower; /* holds 0x11 everywhere */
	struct sim_fault *fault;
	struct stet_device *dev; /* borrowed from fault */
};

static int set_up(void **state)
{
	struct fixture *fix = test_calloc(1, sizeof(*fix));
	uint8_t buf[SIZE_BYTES];

	memset(buf, 0x11, sizeof(buf));
	assert_int_equal(sim_image_create(SIZE_BYTES, &fix->lower), 0);
	assert_int_equal(stet_device_write(fix->lower, 0, buf, sizeof(buf)), 0);
	assert_int_equal(sim_fault_create(fix->lower, SEED, &fix->fault), 0);
	fix->dev = sim_fault_device(fix->fault);
	*state = fix;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fix = *state;

	sim_fault_destroy(fix->fault);
	stet_device_close(fix->lower);
	test_free(fix);
	return 0;
}

static void script(struct fixture *fix, const char *text)
{
	if (sim_fault_set(fix->fault, text))
		fail_msg("%s", stet_error_text());
}

static uint64_t hits(struct fixture *fix, enum sim_fault_kind kind)
{
	struct sim_fault_stats stats;

	sim_fault_stats(fix->fault, &stats);
	return stats.hits[kind];
}

/* How many bytes from off on, up to max, have the value below the fault device. */
static size_t run_of(struct fixture *fix, uint64_t off_bytes, uint8_t value, size_t max)
{
	uint8_t buf[SIZE_BYTES];
	size_t n = 0;

	assert_int_equal(stet_device_read(fix->lower, off_bytes, buf, max), 0);
	while (n < max && buf[n] == value)
		n++;
	return n;
}

static int write_2(struct fixture *fix, uint64_t off_bytes, size_t len_bytes)
{
	uint8_t buf[8192];

	memset(buf, 0x22, sizeof(buf));
	return stet_device_write(fix->dev, off_bytes, buf, len_bytes);
}

/* Reads through the fault device; how many bits are not those of 0x11. */
static int wrong_bits(struct fixture *fix, uint64_t off_bytes, size_t len_bytes)
{
	uint8_t buf[8192];
	int wrong = 0;

	assert_int_equal(stet_device_read(fix->dev, off_bytes, buf, len_bytes), 0);
	for (size_t i = 0; i < len_bytes; i++)
		wrong += __builtin_popcount((unsigned int)buf[i] ^ 0x11);
	return wrong;
}

/// Scripts ///

static void scripts_are_printed_as_read(void **state)
{
	static const char *const good[] = {
		"",
		"write#12:eio,flush#3:lie",
		"any#100+:eio",
		"read@4096-8192:rot=3,read#2@0-1:flip",
		"write:short=4,write#2+:tear,write:lose,write#9:misdirect=512,write:misdirect",
		"discard:enospc",
		"flush#18446744073709551615:eio",
	};
	struct stet_text text;

	(void)state;
	stet_text_init(&text);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct sim_fault_script parsed;

		if (sim_fault_script_parse(good[i], &parsed))
			fail_msg("%s", stet_error_text());
		stet_text_clear(&text);
		sim_fault_script_print(&text, &parsed);
		assert_string_equal(stet_text_cstr(&text), good[i]);
	}
	stet_text_release(&text);
}

static void bad_scripts_are_refused(void **state)
{
	static const char *const bad[] = {
		"write",
		"write:",
		"write#:eio",
		"write#0:eio",
		"writ:eio",
		"writes:eio",
		"write:eioo",
		"write:eio,",
		",write:eio",
		"write:eio=3",
		"write:short=",
		"write:short=x",
		"write@5:eio",
		"write@5-5:eio",
		"flush@0-5:eio",
		"read:lie",
		"write:lie",
		"flush:lose",
		"any:flip",
		"read:short",
		"write#18446744073709551616:eio",
		"write :eio",
		"write:eio;read:eio",
	};
	struct sim_fault_script parsed = { .count = 99 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (sim_fault_script_parse(bad[i], &parsed) != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
		assert_non_null(strstr(stet_error_text(), "character"));
	}
	assert_int_equal(parsed.count, 99);
}

static void too_many_rules_are_refused(void **state)
{
	char text[11 * (SIM_FAULT_MAX_RULES + 1)] = "";
	struct sim_fault_script parsed;

	(void)state;
	for (int i = 0; i < SIM_FAULT_MAX_RULES; i++)
		strcat(text, i ? ",write:eio" : "write:eio");
	assert_int_equal(sim_fault_script_parse(text, &parsed), 0);
	strcat(text, ",write:eio");
	assert_int_equal(sim_fault_script_parse(text, &parsed), -EINVAL);
}

/// Choosing ///

static void without_a_script_nothing_happens(void **state)
{
	struct fixture *fix = *state;
	struct sim_fault_stats stats;

	assert_int_equal(write_2(fix, 0, 100), 0);
	assert_int_equal(run_of(fix, 0, 0x22, 200), 100);
	assert_int_equal(wrong_bits(fix, 4096, 4096), 0);
	assert_int_equal(stet_device_flush(fix->dev), 0);
	assert_int_equal(stet_device_discard(fix->dev, 8192, 4096), 0);
	assert_int_equal(run_of(fix, 8192, 0, 4096), 4096);
	sim_fault_stats(fix->fault, &stats);
	assert_int_equal(stats.calls[SIM_CALL_READ], 1);
	assert_int_equal(stats.calls[SIM_CALL_WRITE], 1);
	assert_int_equal(stats.calls[SIM_CALL_FLUSH], 1);
	assert_int_equal(stats.calls[SIM_CALL_DISCARD], 1);
	assert_int_equal(stats.total_hits, 0);
}

static void the_nth_call_fails_once(void **state)
{
	struct fixture *fix = *state;

	script(fix, "write#3:eio");
	assert_int_equal(stet_device_flush(fix->dev), 0);
	assert_int_equal(write_2(fix, 0, 100), 0);
	assert_int_equal(write_2(fix, 0, 100), 0);
	assert_int_equal(write_2(fix, 4096, 100), -EIO);
	assert_int_equal(run_of(fix, 4096, 0x11, 100), 100);
	assert_int_equal(write_2(fix, 4096, 100), 0);
	assert_int_equal(hits(fix, SIM_FAULT_EIO), 1);
}

static void a_sticky_rule_fails_from_then_on(void **state)
{
	struct fixture *fix = *state;
	uint8_t byte;

	script(fix, "read#2+:eio");
	assert_int_equal(stet_device_read(fix->dev, 0, &byte, 1), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(stet_device_read(fix->dev, 0, &byte, 1), -EIO);
	assert_int_equal(write_2(fix, 0, 1), 0);
	assert_int_equal(hits(fix, SIM_FAULT_EIO), 5);
	script(fix, "");
	assert_int_equal(stet_device_read(fix->dev, 0, &byte, 1), 0);
	assert_int_equal(hits(fix, SIM_FAULT_EIO), 0);
}

static void everything_fails_after_n(void **state)
{
	struct fixture *fix = *state;
	uint8_t byte;

	script(fix, "any#4+:eio");
	assert_int_equal(stet_device_read(fix->dev, 0, &byte, 1), 0);
	assert_int_equal(write_2(fix, 0, 1), 0);
	assert_int_equal(stet_device_flush(fix->dev), 0);
	assert_int_equal(stet_device_flush(fix->dev), -EIO);
	assert_int_equal(stet_device_read(fix->dev, 0, &byte, 1), -EIO);
	assert_int_equal(write_2(fix, 0, 1), -EIO);
	assert_int_equal(stet_device_discard(fix->dev, 0, 1), -EIO);
}

static void ranges_choose_by_place(void **state)
{
	struct fixture *fix = *state;

	script(fix, "write#2@4096-8192:enospc");
	assert_int_equal(write_2(fix, 0, 4096), 0);
	assert_int_equal(write_2(fix, 8192, 4096), 0);
	assert_int_equal(write_2(fix, 4095, 2), 0); /* the first that touches it */
	assert_int_equal(write_2(fix, 0, 4096), 0);
	assert_int_equal(write_2(fix, 8191, 1), -ENOSPC); /* the second */
	assert_int_equal(write_2(fix, 8191, 1), 0);
	assert_int_equal(hits(fix, SIM_FAULT_ENOSPC), 1);
}

static void the_first_rule_wins_and_all_count(void **state)
{
	struct fixture *fix = *state;

	script(fix, "write#1:enospc,write#1:eio,write#2:eio");
	assert_int_equal(write_2(fix, 0, 1), -ENOSPC);
	assert_int_equal(write_2(fix, 0, 1), -EIO);
	assert_int_equal(write_2(fix, 0, 1), 0);
}

/// The faults ///

static void short_writes_land_in_part_and_fail(void **state)
{
	struct fixture *fix = *state;

	script(fix, "write#1:short=3,write#2:short,write#3:short=0,write#4:short=99");
	assert_int_equal(write_2(fix, 0, 4096), -EIO);
	assert_int_equal(run_of(fix, 0, 0x22, 4096), 3 * 512);
	assert_int_equal(write_2(fix, 8192 + 100, 4096), -EIO); /* cut where sectors end */
	assert_int_equal(run_of(fix, 8192 + 100, 0x22, 4096), 412);
	assert_int_equal(write_2(fix, 16384, 4096), -EIO);
	assert_int_equal(run_of(fix, 16384, 0x11, 4096), 4096);
	assert_int_equal(write_2(fix, 20480, 4096), -EIO);
	assert_int_equal(run_of(fix, 20480, 0x22, 8192), 4096);
	assert_int_equal(hits(fix, SIM_FAULT_SHORT), 4);
}

static void torn_writes_land_in_part_and_lie(void **state)
{
	struct fixture *fix = *state;
	uint8_t half[1024];
	const struct iovec iov[2] = {
		{ .iov_base = half, .iov_len = 700 },
		{ .iov_base = half, .iov_len = 1024 },
	};

	memset(half, 0x22, sizeof(half));
	script(fix, "write#1:tear=2");
	assert_int_equal(stet_device_writev(fix->dev, 512, iov, 2), 0);
	assert_int_equal(run_of(fix, 512, 0x22, 2048), 1024);
	assert_int_equal(hits(fix, SIM_FAULT_TEAR), 1);
}

static void lost_writes_are_not_there(void **state)
{
	struct fixture *fix = *state;

	script(fix, "write#2:lose");
	assert_int_equal(write_2(fix, 0, 512), 0);
	assert_int_equal(write_2(fix, 512, 512), 0);
	assert_int_equal(run_of(fix, 0, 0x22, 1024), 512);
	assert_int_equal(hits(fix, SIM_FAULT_LOSE), 1);
}

static void misdirected_writes_land_elsewhere(void **state)
{
	struct fixture *fix = *state;
	size_t landed = 0;

	script(fix, "write#1:misdirect=8192,write#2:misdirect=999999,write#3:misdirect");
	assert_int_equal(write_2(fix, 0, 512), 0);
	assert_int_equal(run_of(fix, 0, 0x11, 512), 512);
	assert_int_equal(run_of(fix, 8192, 0x22, 1024), 512);
	assert_int_equal(write_2(fix, 0, 512), 0); /* as far as the device goes */
	assert_int_equal(run_of(fix, 0, 0x11, 512), 512);
	assert_int_equal(run_of(fix, SIZE_BYTES - 512, 0x22, 512), 512);
	assert_int_equal(stet_device_discard(fix->lower, 0, SIZE_BYTES), 0);
	assert_int_equal(write_2(fix, 4096, 512), 0);
	assert_int_equal(run_of(fix, 4096, 0, 512), 512);
	for (uint64_t off = 0; off < SIZE_BYTES; off += 512)
		landed += run_of(fix, off, 0x22, 512);
	assert_int_equal(landed, 512);
	assert_int_equal(hits(fix, SIM_FAULT_MISDIRECT), 3);
}

static void flipped_bits_are_wrong_once(void **state)
{
	struct fixture *fix = *state;

	script(fix, "read#2:flip");
	assert_int_equal(wrong_bits(fix, 0, 4096), 0);
	assert_int_equal(wrong_bits(fix, 0, 4096), 1);
	assert_int_equal(wrong_bits(fix, 0, 4096), 0);
	assert_int_equal(run_of(fix, 0, 0x11, 4096), 4096);
	assert_int_equal(hits(fix, SIM_FAULT_FLIP), 1);
}

static void flips_stay_in_the_range(void **state)
{
	struct fixture *fix = *state;
	uint8_t buf[64];

	script(fix, "read@100-101:flip");
	for (int i = 0; i < 50; i++) {
		assert_int_equal(stet_device_read(fix->dev, 64, buf, 64), 0);
		assert_int_equal(__builtin_popcount((unsigned int)buf[36] ^ 0x11), 1);
		buf[36] = 0x11;
		for (size_t at = 0; at < 64; at++)
			assert_int_equal(buf[at], 0x11);
	}
}

static void rotten_bits_stay_wrong_until_written(void **state)
{
	struct fixture *fix = *state;
	uint8_t first[4096];
	uint8_t second[4096];
	uint64_t at = 0;

	script(fix, "read#1:rot=3");
	assert_int_equal(stet_device_read(fix->dev, 0, first, 4096), 0);
	assert_int_equal(stet_device_read(fix->dev, 0, second, 4096), 0);
	assert_memory_equal(first, second, 4096);
	assert_int_equal(wrong_bits(fix, 0, 4096), 3);
	assert_int_equal(wrong_bits(fix, 0, 2048) + wrong_bits(fix, 2048, 2048), 3);
	assert_int_equal(run_of(fix, 0, 0x11, 4096), 4096);
	while (first[at] == 0x11)
		at++;
	memset(first, 0x11, 4096);
	assert_int_equal(stet_device_write(fix->dev, at + 1, first, (size_t)(4096 - at - 1)), 0);
	assert_true(wrong_bits(fix, 0, 4096) >= 1);
	script(fix, "write:lose"); /* a write that does not land heals nothing */
	assert_int_equal(stet_device_write(fix->dev, 0, first, 4096), 0);
	assert_true(wrong_bits(fix, 0, 4096) >= 1);
	script(fix, "");
	assert_int_equal(stet_device_write(fix->dev, 0, first, 4096), 0);
	assert_int_equal(wrong_bits(fix, 0, 4096), 0);
}

static void a_short_write_heals_what_it_reached(void **state)
{
	struct fixture *fix = *state;
	uint8_t buf[1024];

	memset(buf, 0x11, sizeof(buf));
	script(fix, "read#1@10-11:rot,read#2@600-601:rot,write:short");
	assert_int_equal(wrong_bits(fix, 0, 512), 1);
	assert_int_equal(wrong_bits(fix, 512, 512), 0);
	assert_int_equal(wrong_bits(fix, 512, 512), 1);
	assert_int_equal(stet_device_write(fix->dev, 0, buf, sizeof(buf)), -EIO);
	assert_int_equal(wrong_bits(fix, 0, 512), 0);
	assert_int_equal(wrong_bits(fix, 512, 512), 1);
}

/* A recorder below sees what really happened. */
static void a_lying_flush_makes_nothing_durable(void **state)
{
	struct fixture *fix = *state;
	struct sim_record *rec;
	struct sim_fault *fault;

	assert_int_equal(sim_record_create(fix->lower, &rec), 0);
	assert_int_equal(sim_fault_create(sim_record_device(rec), SEED, &fault), 0);
	assert_int_equal(sim_fault_set(fault, "flush#2:lie"), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(stet_device_flush(sim_fault_device(fault)), 0);
	assert_int_equal(sim_record_count(rec), 2);
	sim_fault_destroy(fault);
	sim_record_destroy(rec);
}

static void flush_errors_reach_the_caller(void **state)
{
	struct fixture *fix = *state;

	script(fix, "flush#1:eio");
	assert_int_equal(stet_device_flush(fix->dev), -EIO);
	assert_int_equal(stet_device_flush(fix->dev), 0);
	assert_non_null(strstr(stet_error_text(), "scripted"));
}

/// The rest ///

static void same_seed_same_faults(void **state)
{
	struct fixture *fix = *state;
	uint8_t seen[3][4096];

	for (int i = 0; i < 3; i++) {
		struct sim_fault *fault;

		assert_int_equal(sim_fault_create(fix->lower, i == 2 ? 99 : SEED, &fault), 0);
		assert_int_equal(sim_fault_set(fault, "read:flip=5"), 0);
		assert_int_equal(stet_device_read(sim_fault_device(fault), 0, seen[i], 4096), 0);
		sim_fault_destroy(fault);
	}
	assert_memory_equal(seen[0], seen[1], 4096);
	assert_memory_not_equal(seen[0], seen[2], 4096);
}

static void a_bad_script_changes_nothing(void **state)
{
	struct fixture *fix = *state;
	struct stet_text text;

	script(fix, "write#1:eio");
	assert_int_equal(sim_fault_set(fix->fault, "write#1"), -EINVAL);
	assert_int_equal(write_2(fix, 0, 1), -EIO);
	stet_text_init(&text);
	sim_fault_print(&text, fix->fault);
	assert_string_equal(stet_text_cstr(&text),
			    "seed=7 script=write#1:eio read=0 write=1 flush=0 discard=0 hits=1");
	stet_text_release(&text);
}

static void closing_the_device_keeps_it(void **state)
{
	struct fixture *fix = *state;

	stet_device_close(fix->dev);
	assert_int_equal(write_2(fix, 0, 1), 0);
}

static void *hammer(void *arg)
{
	struct stet_device *dev = arg;
	uint8_t buf[512] = { 0 };
	intptr_t failed = 0;

	for (int i = 0; i < 500; i++) {
		failed += stet_device_write(dev, 0, buf, sizeof(buf)) != 0;
		failed += stet_device_read(dev, 512, buf, sizeof(buf)) != 0;
		failed += stet_device_flush(dev) != 0;
	}
	return (void *)failed;
}

static void many_threads_hit_the_counted_faults(void **state)
{
	struct fixture *fix = *state;
	pthread_t thread[THREADS];
	intptr_t failed = 0;

	script(fix, "write#1000:eio,flush#1990+:eio,read#77:rot=2,read:flip");
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, fix->dev), 0);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		assert_int_equal(pthread_join(thread[i], &result), 0);
		failed += (intptr_t)result;
	}
	assert_int_equal(failed, 1 + 11);
	assert_int_equal(hits(fix, SIM_FAULT_FLIP), 1999);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scripts_are_printed_as_read),
		cmocka_unit_test(bad_scripts_are_refused),
		cmocka_unit_test(too_many_rules_are_refused),
		TEST(without_a_script_nothing_happens),
		TEST(the_nth_call_fails_once),
		TEST(a_sticky_rule_fails_from_then_on),
		TEST(everything_fails_after_n),
		TEST(ranges_choose_by_place),
		TEST(the_first_rule_wins_and_all_count),
		TEST(short_writes_land_in_part_and_fail),
		TEST(torn_writes_land_in_part_and_lie),
		TEST(lost_writes_are_not_there),
		TEST(misdirected_writes_land_elsewhere),
		TEST(flipped_bits_are_wrong_once),
		TEST(flips_stay_in_the_range),
		TEST(rotten_bits_stay_wrong_until_written),
		TEST(a_short_write_heals_what_it_reached),
		TEST(a_lying_flush_makes_nothing_durable),
		TEST(flush_errors_reach_the_caller),
		TEST(same_seed_same_faults),
		TEST(a_bad_script_changes_nothing),
		TEST(closing_the_device_keeps_it),
		TEST(many_threads_hit_the_counted_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
