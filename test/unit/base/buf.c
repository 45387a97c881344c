/* buf.c - the byte buffer. */
#include "base/buf.h"

#include "base/mem.h"
#include "base/random.h"

#include "unit.h"

#include <string.h>

static void integers_have_their_byte_order(void **state)
{
	struct stet_buf buf;

	(void)state;
	stet_buf_init(&buf);
	assert_int_equal(stet_buf_append_u8(&buf, 0x01), 0);
	assert_int_equal(stet_buf_append_le16(&buf, 0x0203), 0);
	assert_int_equal(stet_buf_append_le32(&buf, 0x04050607), 0);
	assert_int_equal(stet_buf_append_le64(&buf, 0x08090a0b0c0d0e0f), 0);
	assert_int_equal(stet_buf_append_be16(&buf, 0x1011), 0);
	assert_int_equal(stet_buf_append_be32(&buf, 0x12131415), 0);
	assert_int_equal(stet_buf_append_be64(&buf, 0x161718191a1b1c1d), 0);
	assert_int_equal(stet_buf_append_zero(&buf, 2), 0);
	assert_int_equal(stet_buf_append(&buf, "ab", 2), 0);
	assert_int_equal(buf.len, 33);
	assert_memory_equal(buf.p,
			    "\x01\x03\x02\x07\x06\x05\x04\x0f\x0e\x0d\x0c\x0b\x0a\x09\x08\x10\x11"
			    "\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\0\0ab",
			    33);
	stet_buf_release(&buf);
	assert_null(buf.p);
	stet_buf_release(&buf);
	stet_buf_release(NULL);
}

static void random_appends_match_a_plain_array(void **state)
{
	static uint8_t model[200000];
	struct stet_random random;
	struct stet_buf buf;
	size_t len = 0;

	(void)state;
	stet_random_seed(&random, 3);
	stet_buf_init(&buf);
	while (len + 1000 < sizeof(model)) {
		size_t n = stet_random_below(&random, 1000);

		if (stet_random_below(&random, 4) == 0) {
			memset(model + len, 0, n);
			assert_int_equal(stet_buf_append_zero(&buf, n), 0);
		} else {
			stet_random_bytes(&random, model + len, n);
			assert_int_equal(stet_buf_append(&buf, model + len, n), 0);
		}
		len += n;
		assert_int_equal(buf.len, len);
		assert_true(buf.len <= buf.cap);
	}
	assert_memory_equal(buf.p, model, len);
	stet_buf_clear(&buf);
	assert_int_equal(buf.len, 0);
	assert_non_null(buf.p);
	stet_buf_release(&buf);
}

static void failing_leaves_it_as_it_was(void **state)
{
	struct stet_buf buf;

	(void)state;
	stet_buf_init(&buf);
	stet_mem_fail_after(1);
	assert_int_equal(stet_buf_append(&buf, "abc", 3), -ENOMEM);
	assert_int_equal(stet_buf_append(&buf, NULL, 0), 0);
	assert_int_equal(buf.len, 0);
	stet_mem_fail_after(-1);
	assert_int_equal(stet_buf_append(&buf, "abc", 3), 0);
	stet_mem_fail_after(1);
	assert_int_equal(stet_buf_append_zero(&buf, 1000), -ENOMEM);
	assert_int_equal(stet_buf_reserve(&buf, 1000), -ENOMEM);
	stet_mem_fail_after(-1);
	assert_int_equal(stet_buf_reserve(&buf, SIZE_MAX), -ENOMEM);
	assert_int_equal(stet_buf_reserve(&buf, SIZE_MAX - 1), -ENOMEM);
	assert_int_equal(buf.len, 3);
	assert_memory_equal(buf.p, "abc", 3);
	stet_buf_release(&buf);
}

static void reserved_room_needs_no_memory(void **state)
{
	struct stet_buf buf;

	(void)state;
	stet_buf_init(&buf);
	assert_int_equal(stet_buf_reserve(&buf, 5000), 0);
	stet_mem_fail_after(1);
	assert_int_equal(stet_buf_append_zero(&buf, 5000), 0);
	assert_int_equal(stet_mem_count(), 0);
	stet_mem_fail_after(-1);
	stet_buf_release(&buf);
}

static void detaching_hands_over(void **state)
{
	struct stet_buf buf;
	size_t len = 99;
	uint8_t *p;

	(void)state;
	stet_buf_init(&buf);
	assert_null(stet_buf_detach(&buf, &len));
	assert_int_equal(len, 0);
	assert_int_equal(stet_buf_append(&buf, "abc", 3), 0);
	p = stet_buf_detach(&buf, &len);
	assert_int_equal(len, 3);
	assert_memory_equal(p, "abc", 3);
	assert_null(buf.p);
	assert_int_equal(buf.cap, 0);
	stet_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_have_their_byte_order),
		cmocka_unit_test(random_appends_match_a_plain_array),
		cmocka_unit_test(failing_leaves_it_as_it_was),
		cmocka_unit_test(reserved_room_needs_no_memory),
		cmocka_unit_test(detaching_hands_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
