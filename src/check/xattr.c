/* xattr.c - values of attributes that lie in several items: is each whole, and does each item belong to one?
 *
 * The parts of a value (names of byte 01, see doc/format.md 13) come before all attributes of their inode, by
 * id and number. They are collected per id; a value takes its id's; what is left at the end of the inode
 * belongs to nobody. An inode that is being reclaimed may have lost any of them.
 */
#include <string.h>
#include <sys/stat.h>

#include "check/check_internal.h"
#include "format/key.h"
#include "format/value.h"
#include "fs/acl.h"

#define PART_NAME_BYTES 21u /* 01 "." 16 digits "." 2 digits */
#define KEY_HEAD 9u         /* object and kind */

static bool digits(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] >= '0' && p[i] <= '9')
			v = v << 4 | (uint64_t)(p[i] - '0');
		else if (p[i] >= 'a' && p[i] <= 'f')
			v = v << 4 | (uint64_t)(p[i] - 'a' + 10);
		else
			return false;
	}
	*ret = v;
	return true;
}

static bool is_part(const struct stet_key *key)
{
	return key->bytes > KEY_HEAD && key->b[KEY_HEAD] == 1;
}

static bool parse_part(const struct stet_key *key, uint64_t *ret_id, uint64_t *ret_no)
{
	const uint8_t *name = key->b + KEY_HEAD;

	return key->bytes == KEY_HEAD + PART_NAME_BYTES && name[1] == '.' && name[18] == '.' &&
	       digits(name + 2, 16, ret_id) && digits(name + 19, 2, ret_no);
}

static struct stet_check_value *find_value(struct stet_checker *c, uint64_t id)
{
	for (size_t i = 0; i < c->values.n; i++)
		if (c->values.v[i].id == id)
			return &c->values.v[i];
	return NULL;
}

/* Parts come by id, so only the last value can go on. */
static int add_part(struct stet_checker *c, uint64_t ino, const struct stet_key *key,
		    const struct stet_xattr *x)
{
	struct stet_check_value *last = c->values.n > 0 ? &c->values.v[c->values.n - 1] : NULL;
	struct stet_check_value value = { 0 };
	uint64_t no;

	if (!parse_part(key, &value.id, &no) || !x->data)
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino,
					  "part of an attribute's value");
	if (!last || last->id != value.id) {
		int rc = stet_vec_push(&c->values, value);

		if (rc)
			return rc;
		last = &c->values.v[c->values.n - 1];
	}
	if (no != last->parts || last->bytes != no * STET_XATTR_INLINE_MAX)
		last->broken = true;
	last->parts++;
	last->bytes += x->size_bytes;
	return 0;
}

static bool being_reclaimed(const struct stet_checker *c)
{
	return c->inodes.n > 0 && c->inodes.v[c->inodes.n - 1].nlink == 0;
}

static int take_value(struct stet_checker *c, uint64_t ino, const struct stet_xattr *x)
{
	struct stet_check_value *value = find_value(c, x->chunks);

	if (value && !value->broken && !value->taken && value->bytes == x->size_bytes) {
		value->taken = true;
		return 0;
	}
	if (being_reclaimed(c))
		return 0;
	if (value)
		value->taken = true;
	return stet_check_report_(c, STET_PROBLEM_XATTR_VALUE, ino, "%u bytes, id %llu",
				  x->size_bytes, (unsigned long long)x->chunks);
}

/* What the system calls would not make sense of. Those in several items are not looked at. */
static int check_acl(struct stet_checker *c, uint64_t ino, const struct stet_key *key,
		     const struct stet_xattr *x)
{
	enum stet_fs_acl_kind kind = stet_fs_acl_kind((const char *)key->b + KEY_HEAD,
						      key->bytes - KEY_HEAD);
	uint32_t mode = c->inodes.n > 0 ? c->inodes.v[c->inodes.n - 1].mode : 0;
	uint8_t acl[STET_XATTR_INLINE_MAX];
	bool empty;

	if (kind == STET_FS_ACL_NONE || being_reclaimed(c))
		return 0;
	if (S_ISLNK(mode) || (kind == STET_FS_ACL_IS_DEFAULT && !S_ISDIR(mode)))
		return stet_check_report_(c, STET_PROBLEM_ACL_BAD, ino, "not of this type of file");
	memcpy(acl, x->data, x->size_bytes);
	if (stet_fs_acl_check(acl, x->size_bytes, &empty) == 0 && !empty)
		return 0;
	return stet_check_report_(c, STET_PROBLEM_ACL_BAD, ino, "%u bytes", x->size_bytes);
}

int stet_check_xattr_(struct stet_checker *c, uint64_t ino, const struct stet_key *key,
		      const struct stet_val *val)
{
	struct stet_xattr x;

	if (stet_xattr_decode(val->b, val->bytes, STET_KIND_XATTR,
			      stet_engine_superblock(c->engine)->seg_blocks, &x))
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino, "%s", stet_error_text());
	if (is_part(key))
		return add_part(c, ino, key, &x);
	if (x.chunks != 0)
		return take_value(c, ino, &x);
	if (!x.data) /* nobody writes that yet */
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino,
					  "an attribute's value in an extent");
	return check_acl(c, ino, key, &x);
}

int stet_check_xattrs_end_(struct stet_checker *c)
{
	uint64_t ino = c->inodes.n > 0 ? c->inodes.v[c->inodes.n - 1].ino : 0;
	int rc = 0;

	for (size_t i = 0; i < c->values.n && !rc; i++) {
		const struct stet_check_value *value = &c->values.v[i];

		if (!value->taken && !being_reclaimed(c))
			rc = stet_check_report_(c, STET_PROBLEM_XATTR_LEFTOVER, ino, "id %llu",
						(unsigned long long)value->id);
	}
	stet_vec_clear(&c->values);
	return rc;
}
