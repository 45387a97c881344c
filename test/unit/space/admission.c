/* admission.c - reservations up to their limits, and what counts against them. */
#include "space_unit.h"

#define SLOTS UINT32_C(60)
#define SEG_BLOCKS UINT64_C(64)

static void test_limits(void **state)
{
	struct stet_space *space = create_ok(SLOTS, (uint32_t)SEG_BLOCKS);
	struct stet_space_usage usage = usage_of(space);
	uint64_t normal, privileged;

	(void)state;
	assert_int_equal(usage.capacity_blocks, SLOTS * SEG_BLOCKS);
	assert_int_equal(usage.reserve_blocks, SLOTS * SEG_BLOCKS / 4); /* less than 4 MiB */
	assert_in_range(usage.reserve_slots, 4, SLOTS / 4);
	normal = usage.capacity_blocks - usage.reserve_blocks;
	privileged = usage.capacity_blocks - 4 * SEG_BLOCKS;
	assert_int_equal(stet_space_reserve(space, normal + 1, STET_SPACE_NORMAL), -ENOSPC);
	assert_int_equal(stet_space_reserve(space, UINT64_MAX, STET_SPACE_PRIVILEGED), -ENOSPC);
	assert_int_equal(stet_space_reserve(space, normal, STET_SPACE_NORMAL), 0);
	assert_int_equal(stet_space_reserve(space, 1, STET_SPACE_NORMAL), -ENOSPC);
	assert_int_equal(stet_space_reserve(space, 0, STET_SPACE_NORMAL), 0);
	assert_int_equal(stet_space_reserve(space, privileged - normal, STET_SPACE_PRIVILEGED), 0);
	assert_int_equal(stet_space_reserve(space, 1, STET_SPACE_PRIVILEGED), -ENOSPC);
	assert_int_equal(stet_space_reserve(space, 0, STET_SPACE_NORMAL), -ENOSPC);
	assert_int_equal(usage_of(space).reserved_blocks, privileged);
	stet_space_unreserve(space, privileged);
	assert_int_equal(usage_of(space).reserved_blocks, 0);
	stet_space_destroy(space);
}

static void test_reserve_of_a_large_volume(void **state)
{
	struct stet_space *space = create_ok(1000, 1024);
	struct stet_space_usage usage = usage_of(space);

	(void)state;
	assert_int_equal(usage.reserve_blocks, 1000 * 1024 / 10 + 1024);
	assert_int_equal(usage.reserve_slots, usage.reserve_blocks / 1024 / 2);
	stet_space_destroy(space);
}

static bool always(void *arg, uint64_t birth, uint64_t cut, uint32_t blocks)
{
	(void)blocks;
	(void)arg;
	return birth < cut;
}

/* Live and pinned blocks count, others that are held do not; a bad slot gives nothing. */
static void test_what_counts(void **state)
{
	struct stet_space *space = create_ok(SLOTS, (uint32_t)SEG_BLOCKS);
	struct stet_space_usage usage = usage_of(space);
	uint64_t normal = usage.capacity_blocks - usage.reserve_blocks;
	struct stet_place a = open_ok(space, 1), b = open_ok(space, 2);

	(void)state;
	stet_space_hold(space, a.addr, 60);
	assert_int_equal(stet_space_reserve(space, normal, STET_SPACE_NORMAL), 0);
	stet_space_unreserve(space, normal);
	assert_int_equal(stet_space_make_live(space, a.addr, 60), 0);
	assert_int_equal(stet_space_reserve(space, normal - 59, STET_SPACE_NORMAL), -ENOSPC);
	assert_int_equal(stet_space_free(space, a.addr, 60, 1, 5), 0);
	assert_int_equal(stet_space_reserve(space, normal, STET_SPACE_NORMAL), 0);
	stet_space_unreserve(space, normal);
	stet_space_release(space, 5, always, NULL);
	assert_int_equal(usage_of(space).pinned_blocks, 60);
	assert_int_equal(stet_space_reserve(space, normal - 59, STET_SPACE_NORMAL), -ENOSPC);
	assert_int_equal(stet_space_reserve(space, normal - 60, STET_SPACE_NORMAL), 0);
	stet_space_release(space, 6, NULL, NULL);
	assert_int_equal(usage_of(space).pinned_blocks, 0);
	stet_space_retire(space, stet_addr_seg(b.addr));
	assert_int_equal(usage_of(space).capacity_blocks, (SLOTS - 1) * SEG_BLOCKS);
	stet_space_check(space);
	stet_space_destroy(space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_reserve_of_a_large_volume),
		cmocka_unit_test(test_what_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
