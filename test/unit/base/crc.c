/* crc.c - checksums against published values and against bit-by-bit models. */
#include "base/crc.h"

#include "base/random.h"

#include "unit.h"

#include <string.h>

static uint32_t slow_crc32c(const uint8_t *p, size_t n)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
	}
	return ~crc;
}

static uint64_t slow_crc64(const uint8_t *p, size_t n)
{
	uint64_t crc = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xc96c5795d7870f42 : crc >> 1;
	}
	return ~crc;
}

static void published_values(void **state)
{
	uint8_t bytes[32] = { 0 };

	(void)state;
	assert_int_equal(stet_crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(stet_crc32c(bytes, 32), 0x8a9136aa); /* RFC 3720, B.4 */
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(stet_crc32c(bytes, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(stet_crc32c(bytes, 32), 0x46dd794e);
	assert_int_equal(stet_crc64("123456789", 9), 0x995dc9bbdf1939fa);
	assert_int_equal(stet_crc32c(NULL, 0), 0);
	assert_int_equal(stet_crc64(NULL, 0), 0);
}

static void all_lengths_and_alignments(void **state)
{
	struct stet_random random;
	uint8_t bytes[600];

	(void)state;
	stet_random_seed(&random, 1);
	stet_random_bytes(&random, bytes, sizeof(bytes));
	for (size_t len = 0; len < 560; len++) {
		const uint8_t *p = bytes + len % 17;

		assert_int_equal(stet_crc32c(p, len), slow_crc32c(p, len));
		assert_int_equal(stet_crc64(p, len), slow_crc64(p, len));
	}
}

static void extending_is_as_in_one_piece(void **state)
{
	struct stet_random random;
	uint8_t bytes[300];
	uint32_t whole;

	(void)state;
	stet_random_seed(&random, 2);
	stet_random_bytes(&random, bytes, sizeof(bytes));
	whole = stet_crc32c(bytes, sizeof(bytes));
	for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
		uint32_t first = stet_crc32c(bytes, cut);

		assert_int_equal(stet_crc32c_extend(first, bytes + cut, sizeof(bytes) - cut),
				 whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_values),
		cmocka_unit_test(all_lengths_and_alignments),
		cmocka_unit_test(extending_is_as_in_one_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
