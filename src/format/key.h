/* key.h - catalog keys: object (be64) | kind (u8) | suffix, ordered by memcmp. */
#ifndef STET_FORMAT_KEY_H
#define STET_FORMAT_KEY_H

#include "base/endian.h"
#include "base/error.h"
#include "base/text.h"
#include "format/types.h"

#include <string.h>

enum stet_kind {
	STET_KIND_INODE = 1,  /* suffix: none */
	STET_KIND_XATTR = 2,  /* suffix: name */
	STET_KIND_DIRENT = 3, /* suffix: name */
	STET_KIND_EXTENT = 4, /* suffix: first file block, be64 */
	STET_KIND_RECORD = 5, /* suffix: user key */
	/* of object 0 */
	STET_KIND_ORPHAN = 16,   /* suffix: inode number, be64 */
	STET_KIND_BADBLOCK = 17, /* suffix: device block, be64 */
	STET_KIND_SNAPSHOT = 18, /* from here on: reserved, refused by version 1 */
	STET_KIND_DEADLIST = 19,
	STET_KIND_RELOC = 20,
	STET_KIND_REFS = 21,
	STET_KIND_PREPARED = 22,
};

struct stet_key {
	uint16_t bytes;
	uint8_t b[STET_ITEM_KEY_MAX];
};

/* Copies what is used of it: the rest is most of the structure. */
static inline void stet_key_copy(struct stet_key *to, const struct stet_key *from)
{
	to->bytes = from->bytes;
	memcpy(to->b, from->b, from->bytes);
}

/* Makes it the next key above: with a NUL more. false: it is of the greatest length, and stays. */
bool stet_key_step(struct stet_key *k);
void stet_key_inode(struct stet_key *k, uint64_t ino);
/* name_bytes <= STET_NAME_MAX (asserted). name may be NULL with 0: the lower bound of the kind. */
void stet_key_dirent(struct stet_key *k, uint64_t dir, const void *name, size_t name_bytes);
void stet_key_xattr(struct stet_key *k, uint64_t ino, const void *name, size_t name_bytes);
/* user_key_bytes <= STET_RECORD_KEY_MAX (asserted). */
void stet_key_record(struct stet_key *k, uint64_t ino, const void *user_key, size_t user_key_bytes);
void stet_key_extent(struct stet_key *k, uint64_t ino, uint64_t first_block);
void stet_key_orphan(struct stet_key *k, uint64_t ino);
/* The first key of (object, kind): object | kind. With kind + 1 the end of the kind's range. */
void stet_key_kind(struct stet_key *k, uint64_t object, uint8_t kind);

uint64_t stet_key_object(const void *key);
uint8_t stet_key_get_kind(const void *key);
/* For EXTENT and ORPHAN keys: the be64 suffix. */
uint64_t stet_key_suffix_u64(const void *key);
/* -EUCLEAN unless the key is well formed: length for its kind; file names without '/' and NUL, not
 * "." or ".."; xattr names as "namespace.rest" without NUL; user keys not empty; no reserved kind. */
STET_CHECKED int stet_key_verify(const void *key, size_t key_bytes);
void stet_key_print(struct stet_text *t, const void *key, size_t key_bytes);

#endif
