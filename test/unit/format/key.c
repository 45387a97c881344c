/* key.c - catalog keys: codecs, order, what is legal. */
#include "format/key.h"

#include "format/node.h"

#include "format_test.h"

static int cmp(const struct stet_key *a, const struct stet_key *b)
{
	return stet_key_cmp(a->b, a->bytes, b->b, b->bytes);
}

static int verify(const struct stet_key *k)
{
	uint8_t *copy = exact(k->bytes);
	int rc;

	memcpy(copy, k->b, k->bytes);
	rc = stet_key_verify(copy, k->bytes);
	free(copy);
	return rc;
}

static void round_trips(void **state)
{
	struct stet_random random;
	struct stet_key k;

	(void)state;
	stet_random_seed(&random, 1);
	for (int i = 0; i < 1000; i++) {
		uint64_t ino = stet_random_next(&random) | 1;
		uint64_t block = stet_random_below(&random, STET_FILE_BLOCKS_MAX);

		stet_key_inode(&k, ino);
		assert_int_equal(k.bytes, 9);
		assert_true(stet_key_object(k.b) == ino);
		assert_int_equal(stet_key_get_kind(k.b), STET_KIND_INODE);
		assert_int_equal(verify(&k), 0);
		stet_key_extent(&k, ino, block);
		assert_true(stet_key_suffix_u64(k.b) == block);
		assert_int_equal(verify(&k), 0);
		stet_key_orphan(&k, ino);
		assert_true(stet_key_object(k.b) == 0);
		assert_true(stet_key_suffix_u64(k.b) == ino);
		assert_int_equal(verify(&k), 0);
		stet_key_dirent(&k, ino, "name", 4);
		assert_int_equal(k.bytes, 13);
		assert_memory_equal(k.b + 9, "name", 4);
		assert_int_equal(verify(&k), 0);
		stet_key_xattr(&k, ino, "user.x", 6);
		assert_int_equal(stet_key_get_kind(k.b), STET_KIND_XATTR);
		assert_int_equal(verify(&k), 0);
		stet_key_record(&k, ino, "\0any\xff", 5);
		assert_int_equal(verify(&k), 0);
	}
}

/* Any key of a random object and kind. */
static void random_key(struct stet_random *random, struct stet_key *k)
{
	uint8_t name[8];
	size_t n = stet_random_below(random, sizeof(name)) + 1;
	uint64_t ino = stet_random_below(random, 3) + 1;

	for (size_t i = 0; i < n; i++)
		name[i] = (uint8_t)('a' + stet_random_below(random, 3));
	switch (stet_random_below(random, 4)) {
	case 0:
		stet_key_inode(k, ino << 8 * stet_random_below(random, 7));
		break;
	case 1:
		stet_key_dirent(k, ino, name, n);
		break;
	case 2:
		stet_key_extent(k, ino, stet_random_next(random) >> stet_random_below(random, 64));
		break;
	default:
		stet_key_record(k, ino, name, n);
		break;
	}
}

static void order_is_by_object_kind_suffix(void **state)
{
	struct stet_random random;
	struct stet_key a;
	struct stet_key b;

	(void)state;
	stet_random_seed(&random, 2);
	for (int i = 0; i < 20000; i++) {
		random_key(&random, &a);
		random_key(&random, &b);
		uint64_t ao = stet_key_object(a.b);
		uint64_t bo = stet_key_object(b.b);
		uint8_t ak = stet_key_get_kind(a.b);
		uint8_t bk = stet_key_get_kind(b.b);

		assert_int_equal(cmp(&a, &b), -cmp(&b, &a));
		assert_int_equal(cmp(&a, &a), 0);
		if (ao != bo)
			assert_int_equal(cmp(&a, &b), ao < bo ? -1 : 1);
		else if (ak != bk)
			assert_int_equal(cmp(&a, &b), ak < bk ? -1 : 1);
		else if (ak == STET_KIND_EXTENT)
			assert_int_equal(cmp(&a, &b),
					 (stet_key_suffix_u64(a.b) > stet_key_suffix_u64(b.b)) -
						 (stet_key_suffix_u64(a.b) <
						  stet_key_suffix_u64(b.b)));
	}
}

static void order_is_transitive(void **state)
{
	struct stet_random random;
	struct stet_key a;
	struct stet_key b;
	struct stet_key c;

	(void)state;
	stet_random_seed(&random, 3);
	for (int i = 0; i < 20000; i++) {
		random_key(&random, &a);
		random_key(&random, &b);
		random_key(&random, &c);
		if (cmp(&a, &b) < 0 && cmp(&b, &c) < 0)
			assert_int_equal(cmp(&a, &c), -1);
	}
}

static void kind_bounds_hold_the_kind(void **state)
{
	uint8_t longest[STET_RECORD_KEY_MAX];
	struct stet_key low;
	struct stet_key high;
	struct stet_key k;

	(void)state;
	memset(longest, 0xff, sizeof(longest));
	stet_key_kind(&low, 7, STET_KIND_DIRENT);
	stet_key_kind(&high, 7, STET_KIND_DIRENT + 1);
	stet_key_dirent(&k, 7, NULL, 0);
	assert_int_equal(cmp(&low, &k), 0);
	stet_key_dirent(&k, 7, longest, STET_NAME_MAX);
	assert_int_equal(cmp(&k, &high), -1);
	stet_key_kind(&high, 7, STET_KIND_RECORD + 1);
	stet_key_record(&k, 7, longest, sizeof(longest));
	assert_int_equal(k.bytes, STET_ITEM_KEY_MAX);
	assert_int_equal(verify(&k), 0);
	assert_int_equal(cmp(&k, &high), -1);
	stet_key_inode(&k, 8);
	assert_int_equal(cmp(&high, &k), -1);
}

static void prefix_is_smaller(void **state)
{
	(void)state;
	assert_int_equal(stet_key_cmp("ab", 2, "abc", 3), -1);
	assert_int_equal(stet_key_cmp("abc", 3, "ab", 2), 1);
	assert_int_equal(stet_key_cmp("abc", 3, "abc", 3), 0);
	assert_int_equal(stet_key_cmp("\xff", 1, "\x01\x01", 2), 1);
	assert_int_equal(stet_key_cmp(NULL, 0, "a", 1), -1);
	assert_int_equal(stet_key_cmp(NULL, 0, NULL, 0), 0);
}

static void bad_names_are_refused(void **state)
{
	static const struct {
		const char *name;
		size_t bytes;
		bool file, xattr;
	} sample[] = {
		{ "", 0, false, false },        { ".", 1, false, false },
		{ "..", 2, false, false },      { "...", 3, true, false },
		{ ".a", 2, true, false },       { "a/b", 3, false, false },
		{ "user.a/b", 8, false, true }, { "a\0b", 3, false, false },
		{ "user.\0", 6, false, false }, { "user.", 5, true, false },
		{ ".user", 5, true, false },    { "user", 4, true, false },
		{ "user.a", 6, true, true },    { "\xff\xfe\n", 3, true, false },
	};
	struct stet_key k;

	(void)state;
	for (size_t i = 0; i < sizeof(sample) / sizeof(sample[0]); i++) {
		stet_key_dirent(&k, 5, sample[i].name, sample[i].bytes);
		assert_int_equal(verify(&k), sample[i].file ? 0 : -EUCLEAN);
		stet_key_xattr(&k, 5, sample[i].name, sample[i].bytes);
		assert_int_equal(verify(&k), sample[i].xattr ? 0 : -EUCLEAN);
	}
}

static void bad_keys_are_refused(void **state)
{
	struct stet_key k;

	(void)state;
	stet_key_inode(&k, 0);
	assert_int_equal(verify(&k), -EUCLEAN);
	stet_key_inode(&k, 1);
	for (uint16_t n = 0; n < 9; n++) {
		k.bytes = n;
		assert_int_equal(verify(&k), -EUCLEAN);
	}
	k.bytes = 10;
	assert_int_equal(verify(&k), -EUCLEAN);
	stet_key_extent(&k, 1, STET_FILE_BLOCKS_MAX);
	assert_int_equal(verify(&k), -EUCLEAN);
	stet_key_extent(&k, 1, STET_FILE_BLOCKS_MAX - 1);
	assert_int_equal(verify(&k), 0);
	k.bytes--;
	assert_int_equal(verify(&k), -EUCLEAN);
	stet_key_orphan(&k, 0);
	assert_int_equal(verify(&k), -EUCLEAN);
	stet_key_record(&k, 1, NULL, 0);
	assert_int_equal(verify(&k), -EUCLEAN);
	for (unsigned int kind = 0; kind < 256; kind++) {
		stet_key_kind(&k, 0, (uint8_t)kind);
		assert_int_equal(verify(&k), -EUCLEAN);
		stet_key_kind(&k, 3, (uint8_t)kind);
		assert_int_equal(verify(&k), kind == STET_KIND_INODE ? 0 : -EUCLEAN);
	}
	assert_int_equal(stet_key_verify(k.b, STET_ITEM_KEY_MAX + 1), -EUCLEAN);
}

static void random_bytes_never_read_too_far(void **state)
{
	struct stet_random random;

	(void)state;
	stet_random_seed(&random, 4);
	for (int i = 0; i < 20000; i++) {
		size_t n = stet_random_below(&random, 30);
		uint8_t *p = exact(n);
		struct stet_text t = { .p = NULL };

		stet_random_bytes(&random, p, n);
		if (n > 8)
			p[8] = (uint8_t)stet_random_below(&random, 24);
		if (stet_random_below(&random, 2))
			memset(p, 0, n < 8 ? n : 8);
		int rc = stet_key_verify(p, n);

		assert_true(rc == 0 || rc == -EUCLEAN);
		stet_key_print(&t, p, n);
		stet_text_release(&t);
		free(p);
	}
}

static void printing(void **state)
{
	struct stet_text t = { .p = NULL };
	struct stet_key k;

	(void)state;
	stet_key_dirent(&k, 12, "a\nb", 3);
	stet_key_print(&t, k.b, k.bytes);
	assert_prints(&t, "12 dirent a\\x0ab");
	stet_key_extent(&k, 12, 77);
	stet_key_print(&t, k.b, k.bytes);
	assert_prints(&t, "12 extent 77");
	stet_key_kind(&k, 0, STET_KIND_RELOC);
	stet_key_print(&t, k.b, k.bytes);
	assert_prints(&t, "0 kind20");
	stet_key_print(&t, "\x01\xab", 2);
	assert_prints(&t, "01ab");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trips),
		cmocka_unit_test(order_is_by_object_kind_suffix),
		cmocka_unit_test(order_is_transitive),
		cmocka_unit_test(kind_bounds_hold_the_kind),
		cmocka_unit_test(prefix_is_smaller),
		cmocka_unit_test(bad_names_are_refused),
		cmocka_unit_test(bad_keys_are_refused),
		cmocka_unit_test(random_bytes_never_read_too_far),
		cmocka_unit_test(printing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
