/* key.c - catalog keys: build, take apart, verify, print.
 *
 * I1. Keys are big-endian and compared as bytes, so all items of an object are neighbours, ordered
 *     by kind and then by suffix; (object, kind + 1) is above all keys of (object, kind).
 */
#include "format/key.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

#define KIND_AT 8u
#define SUFFIX_AT 9u
#define U64_KEY_BYTES (SUFFIX_AT + 8u)

static void begin(struct stet_key *k, uint64_t object, uint8_t kind)
{
	stet_put_be64(k->b, object);
	k->b[KIND_AT] = kind;
	k->bytes = SUFFIX_AT;
}

static void add_bytes(struct stet_key *k, const void *bytes, size_t n)
{
	if (n > 0)
		memcpy(k->b + SUFFIX_AT, bytes, n);
	k->bytes = (uint16_t)(SUFFIX_AT + n);
}

static void add_u64(struct stet_key *k, uint64_t v)
{
	stet_put_be64(k->b + SUFFIX_AT, v);
	k->bytes = U64_KEY_BYTES;
}

bool stet_key_step(struct stet_key *k)
{
	if (k->bytes >= STET_ITEM_KEY_MAX)
		return false;
	k->b[k->bytes++] = 0;
	return true;
}

void stet_key_inode(struct stet_key *k, uint64_t ino)
{
	begin(k, ino, STET_KIND_INODE);
}

void stet_key_dirent(struct stet_key *k, uint64_t dir, const void *name, size_t name_bytes)
{
	STET_ASSERT_CMP(name_bytes, <=, STET_NAME_MAX);
	begin(k, dir, STET_KIND_DIRENT);
	add_bytes(k, name, name_bytes);
}

void stet_key_xattr(struct stet_key *k, uint64_t ino, const void *name, size_t name_bytes)
{
	STET_ASSERT_CMP(name_bytes, <=, STET_NAME_MAX);
	begin(k, ino, STET_KIND_XATTR);
	add_bytes(k, name, name_bytes);
}

void stet_key_record(struct stet_key *k, uint64_t ino, const void *user_key, size_t user_key_bytes)
{
	STET_ASSERT_CMP(user_key_bytes, <=, STET_RECORD_KEY_MAX);
	begin(k, ino, STET_KIND_RECORD);
	add_bytes(k, user_key, user_key_bytes);
}

void stet_key_extent(struct stet_key *k, uint64_t ino, uint64_t first_block)
{
	begin(k, ino, STET_KIND_EXTENT);
	add_u64(k, first_block);
}

void stet_key_orphan(struct stet_key *k, uint64_t ino)
{
	begin(k, 0, STET_KIND_ORPHAN);
	add_u64(k, ino);
}

void stet_key_kind(struct stet_key *k, uint64_t object, uint8_t kind)
{
	begin(k, object, kind);
}

uint64_t stet_key_object(const void *key)
{
	return stet_get_be64(key);
}

uint8_t stet_key_get_kind(const void *key)
{
	return ((const uint8_t *)key)[KIND_AT];
}

uint64_t stet_key_suffix_u64(const void *key)
{
	return stet_get_be64((const uint8_t *)key + SUFFIX_AT);
}

static bool file_name_legal(const uint8_t *name, size_t n)
{
	if (n == 0 || n > STET_NAME_MAX)
		return false;
	if (name[0] == '.' && (n == 1 || (n == 2 && name[1] == '.')))
		return false;
	return !memchr(name, '/', n) && !memchr(name, '\0', n);
}

static bool xattr_name_legal(const uint8_t *name, size_t n)
{
	const uint8_t *dot;

	if (n == 0 || n > STET_NAME_MAX || memchr(name, '\0', n))
		return false;
	dot = memchr(name, '.', n);
	return dot && dot > name && dot < name + n - 1;
}

static bool suffix_legal(uint8_t kind, const uint8_t *key, size_t key_bytes)
{
	size_t n = key_bytes - SUFFIX_AT;

	switch (kind) {
	case STET_KIND_INODE:
		return n == 0;
	case STET_KIND_XATTR:
		return xattr_name_legal(key + SUFFIX_AT, n);
	case STET_KIND_DIRENT:
		return file_name_legal(key + SUFFIX_AT, n);
	case STET_KIND_EXTENT:
		return n == 8 && stet_key_suffix_u64(key) < STET_FILE_BLOCKS_MAX;
	case STET_KIND_RECORD:
		return n >= 1 && n <= STET_RECORD_KEY_MAX;
	case STET_KIND_ORPHAN:
		return n == 8 && stet_key_suffix_u64(key) != 0;
	case STET_KIND_BADBLOCK:
		return n == 8 && stet_key_suffix_u64(key) < STET_DEVICE_BLOCKS_MAX;
	default:
		return false;
	}
}

int stet_key_verify(const void *key, size_t key_bytes)
{
	uint64_t object;
	uint8_t kind;

	if (key_bytes < SUFFIX_AT || key_bytes > STET_ITEM_KEY_MAX)
		return STET_FAIL(-EUCLEAN, "key: %zu bytes", key_bytes);
	object = stet_key_object(key);
	kind = stet_key_get_kind(key);
	if ((object == 0) != (kind >= STET_KIND_ORPHAN))
		return STET_FAIL(-EUCLEAN, "key: kind %u of object %" PRIu64, kind, object);
	if (!suffix_legal(kind, key, key_bytes))
		return STET_FAIL(-EUCLEAN, "key: object %" PRIu64 " kind %u: bad suffix, %zu bytes",
				 object, kind, key_bytes - SUFFIX_AT);
	return 0;
}

static const char *kind_name(uint8_t kind)
{
	switch (kind) {
	case STET_KIND_INODE:
		return "inode";
	case STET_KIND_XATTR:
		return "xattr";
	case STET_KIND_DIRENT:
		return "dirent";
	case STET_KIND_EXTENT:
		return "extent";
	case STET_KIND_RECORD:
		return "record";
	case STET_KIND_ORPHAN:
		return "orphan";
	case STET_KIND_BADBLOCK:
		return "badblock";
	default:
		return NULL;
	}
}

static void print_hex(struct stet_text *t, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		stet_text_printf(t, "%02x", p[i]);
}

void stet_key_print(struct stet_text *t, const void *key, size_t key_bytes)
{
	const uint8_t *p = key;
	const char *name;

	if (key_bytes < SUFFIX_AT) {
		stet_text_puts(t, key_bytes == 0 ? "(empty)" : "key ");
		print_hex(t, p, key_bytes);
		return;
	}
	name = kind_name(stet_key_get_kind(p));
	stet_text_printf(t, "%" PRIu64 " ", stet_key_object(p));
	if (name)
		stet_text_puts(t, name);
	else
		stet_text_printf(t, "kind%u", stet_key_get_kind(p));
	if (key_bytes == SUFFIX_AT)
		return;
	stet_text_puts(t, " ");
	switch (stet_key_get_kind(p)) {
	case STET_KIND_EXTENT:
	case STET_KIND_ORPHAN:
	case STET_KIND_BADBLOCK:
		if (key_bytes == U64_KEY_BYTES) {
			stet_text_printf(t, "%" PRIu64, stet_key_suffix_u64(p));
			return;
		}
		print_hex(t, p + SUFFIX_AT, key_bytes - SUFFIX_AT);
		return;
	case STET_KIND_XATTR:
	case STET_KIND_DIRENT:
	case STET_KIND_RECORD:
		stet_text_name(t, p + SUFFIX_AT, key_bytes - SUFFIX_AT);
		return;
	default:
		print_hex(t, p + SUFFIX_AT, key_bytes - SUFFIX_AT);
		return;
	}
}
