/* endian.c - byte order types. */
#include "base/endian.h"

#include "unit.h"

#include <string.h>

_Static_assert(sizeof(le16) == 2 && _Alignof(le16) == 1, "le16 is two bytes");
_Static_assert(sizeof(le32) == 4 && _Alignof(le32) == 1, "le32 is four bytes");
_Static_assert(sizeof(le64) == 8 && _Alignof(le64) == 1, "le64 is eight bytes");
_Static_assert(sizeof(be16) == 2 && _Alignof(be16) == 1, "be16 is two bytes");
_Static_assert(sizeof(be32) == 4 && _Alignof(be32) == 1, "be32 is four bytes");
_Static_assert(sizeof(be64) == 8 && _Alignof(be64) == 1, "be64 is eight bytes");

static void types_have_their_byte_order(void **state)
{
	(void)state;
	assert_memory_equal(le16_make(0x0102).b, "\x02\x01", 2);
	assert_memory_equal(le32_make(0x01020304).b, "\x04\x03\x02\x01", 4);
	assert_memory_equal(le64_make(0x0102030405060708).b, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
	assert_memory_equal(be16_make(0x0102).b, "\x01\x02", 2);
	assert_memory_equal(be32_make(0x01020304).b, "\x01\x02\x03\x04", 4);
	assert_memory_equal(be64_make(0x0102030405060708).b, "\x01\x02\x03\x04\x05\x06\x07\x08", 8);
	assert_int_equal(le16_get(le16_make(0xfedc)), 0xfedc);
	assert_int_equal(le32_get(le32_make(0xfedcba98)), 0xfedcba98);
	assert_int_equal(le64_get(le64_make(0xfedcba9876543210)), 0xfedcba9876543210);
	assert_int_equal(be16_get(be16_make(0xfedc)), 0xfedc);
	assert_int_equal(be32_get(be32_make(0xfedcba98)), 0xfedcba98);
	assert_int_equal(be64_get(be64_make(0xfedcba9876543210)), 0xfedcba9876543210);
}

static void bytes_may_be_unaligned(void **state)
{
	uint8_t bytes[9] = { 0 };

	(void)state;
	stet_put_be64(bytes + 1, 0x0102030405060708);
	assert_memory_equal(bytes, "\0\1\2\3\4\5\6\7\10", 9);
	assert_int_equal(stet_get_be64(bytes + 1), 0x0102030405060708);
	assert_int_equal(stet_get_be32(bytes + 1), 0x01020304);
	assert_int_equal(stet_get_be16(bytes + 1), 0x0102);
	assert_int_equal(stet_get_le64(bytes + 1), 0x0807060504030201);
	assert_int_equal(stet_get_le32(bytes + 1), 0x04030201);
	assert_int_equal(stet_get_le16(bytes + 1), 0x0201);
	stet_put_be32(bytes, 0xa0a1a2a3);
	stet_put_be16(bytes + 4, 0xa4a5);
	stet_put_le16(bytes + 6, 0xa7a6);
	assert_memory_equal(bytes, "\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\x08", 9);
	stet_put_le32(bytes, 1);
	stet_put_le64(bytes + 1, 2);
	assert_memory_equal(bytes, "\1\2\0\0\0\0\0\0\0", 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_have_their_byte_order),
		cmocka_unit_test(bytes_may_be_unaligned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
