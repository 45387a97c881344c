/* acl.c - POSIX ACLs: what they mean for permissions (POSIX 1003.1e draft 17, as Linux has it).
 *
 * A1. An ACL has one entry each for the owner, the group and all others, and a mask when it names
 *     users or groups; entries come in the order of their tags.
 * A2. The mode's permission bits are three entries of the access ACL: owner, mask (without one: the
 *     group), others. Where the two could differ, the mode is right.
 */
#include "fs/acl.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/endian.h"

#define VERSION 2u
#define HEAD 4u
#define ENTRY 8u
#define NO_ID UINT32_MAX
#define OWNER_SHIFT 6u
#define GROUP_SHIFT 3u
#define OTHER_SHIFT 0u

enum tag {
	TAG_USER_OBJ = 0x01,
	TAG_USER = 0x02,
	TAG_GROUP_OBJ = 0x04,
	TAG_GROUP = 0x08,
	TAG_MASK = 0x10,
	TAG_OTHER = 0x20,
};

enum stet_fs_acl_kind stet_fs_acl_kind(const char *name, size_t len)
{
	if (len == sizeof(STET_FS_ACL_ACCESS) - 1 && memcmp(name, STET_FS_ACL_ACCESS, len) == 0)
		return STET_FS_ACL_IS_ACCESS;
	if (len == sizeof(STET_FS_ACL_DEFAULT) - 1 && memcmp(name, STET_FS_ACL_DEFAULT, len) == 0)
		return STET_FS_ACL_IS_DEFAULT;
	return STET_FS_ACL_NONE;
}

static size_t entries_of(size_t len)
{
	STET_ASSERT_CMP(len, >=, HEAD);
	return (len - HEAD) / ENTRY;
}

static unsigned tag_of(const uint8_t *acl, size_t i)
{
	return stet_get_le16(acl + HEAD + i * ENTRY);
}

static uint32_t perm_of(const uint8_t *acl, size_t i)
{
	return stet_get_le16(acl + HEAD + i * ENTRY + 2);
}

static void set_perm(uint8_t *acl, size_t i, uint32_t perm)
{
	stet_put_le16(acl + HEAD + i * ENTRY + 2, (uint16_t)(perm & 7));
}

static bool is_named(unsigned tag)
{
	return tag == TAG_USER || tag == TAG_GROUP;
}

/* --- checking --- */

static bool is_tag(unsigned tag)
{
	return tag >= TAG_USER_OBJ && tag <= TAG_OTHER && (tag & (tag - 1)) == 0;
}

/* A1. Tags rise; only named ones repeat. */
static bool in_order(const uint8_t *acl, size_t count)
{
	unsigned seen = 0, before = 0;

	for (size_t i = 0; i < count; i++) {
		unsigned tag = tag_of(acl, i);

		if (!is_tag(tag) || tag < before || (tag == before && !is_named(tag)))
			return false;
		before = tag;
		seen |= tag;
	}
	if ((seen & (TAG_USER | TAG_GROUP)) && !(seen & TAG_MASK))
		return false;
	return (seen & TAG_USER_OBJ) && (seen & TAG_GROUP_OBJ) && (seen & TAG_OTHER);
}

int stet_fs_acl_check(uint8_t *acl, size_t len, bool *ret_empty)
{
	size_t count;

	if (len == 0) {
		*ret_empty = true;
		return 0;
	}
	if (len < HEAD)
		return -EINVAL;
	if (stet_get_le32(acl) != VERSION)
		return -EOPNOTSUPP;
	if ((len - HEAD) % ENTRY != 0)
		return -EINVAL;
	if (len > STET_FS_ACL_BYTES_MAX)
		return -E2BIG;
	count = entries_of(len);
	*ret_empty = count == 0;
	if (count > 0 && !in_order(acl, count))
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		uint8_t *id = acl + HEAD + i * ENTRY + 4;

		if (perm_of(acl, i) > 7)
			return -EINVAL;
		if (!is_named(tag_of(acl, i)))
			stet_put_le32(id, NO_ID);
		else if (stet_get_le32(id) == NO_ID)
			return -EINVAL;
	}
	return 0;
}

/* --- ACL and mode (A2) --- */

static bool has_mask(const uint8_t *acl, size_t len)
{
	for (size_t i = 0; i < entries_of(len); i++)
		if (tag_of(acl, i) == TAG_MASK)
			return true;
	return false;
}

/* Whether the mode has the entry's permissions, and where. */
static bool is_in_mode(unsigned tag, bool mask, unsigned *ret_shift)
{
	switch (tag) {
	case TAG_USER_OBJ:
		*ret_shift = OWNER_SHIFT;
		return true;
	case TAG_GROUP_OBJ:
		*ret_shift = GROUP_SHIFT;
		return !mask;
	case TAG_MASK:
		*ret_shift = GROUP_SHIFT;
		return true;
	case TAG_OTHER:
		*ret_shift = OTHER_SHIFT;
		return true;
	default:
		return false;
	}
}

bool stet_acl_to_mode_(const uint8_t *acl, size_t len, uint32_t *mode)
{
	bool mask = has_mask(acl, len);
	unsigned shift;

	for (size_t i = 0; i < entries_of(len); i++)
		if (is_in_mode(tag_of(acl, i), mask, &shift))
			*mode = (*mode & ~(7u << shift)) | perm_of(acl, i) << shift;
	return !mask;
}

void stet_acl_set_mode_(uint8_t *acl, size_t len, uint32_t mode)
{
	bool mask = has_mask(acl, len);
	unsigned shift;

	for (size_t i = 0; i < entries_of(len); i++)
		if (is_in_mode(tag_of(acl, i), mask, &shift))
			set_perm(acl, i, mode >> shift);
}

bool stet_acl_inherit_(uint8_t *acl, size_t len, uint32_t *mode)
{
	bool mask = has_mask(acl, len);
	unsigned shift;

	for (size_t i = 0; i < entries_of(len); i++) {
		if (!is_in_mode(tag_of(acl, i), mask, &shift))
			continue;
		set_perm(acl, i, perm_of(acl, i) & *mode >> shift);
		*mode &= ~(7u << shift) | perm_of(acl, i) << shift;
	}
	return !mask;
}

/* --- permissions --- */

bool stet_fs_acl_permits(const uint8_t *acl, size_t len, uint32_t mode,
			 const struct stet_fs_acl_user *user, uint32_t gid, unsigned want)
{
	bool mask = has_mask(acl, len);
	unsigned group_class = mode >> GROUP_SHIFT & 7; /* A2 */
	bool matched = false;

	for (size_t i = 0; i < entries_of(len); i++) {
		uint32_t id = stet_get_le32(acl + HEAD + i * ENTRY + 4);
		unsigned perm = perm_of(acl, i);

		switch (tag_of(acl, i)) {
		case TAG_USER:
			if (id == user->uid)
				return (perm & group_class & want) == want;
			break;
		case TAG_GROUP_OBJ:
			perm = mask ? perm & group_class : group_class;
			if (!user->in_group(user->arg, gid))
				break;
			if ((perm & want) == want)
				return true;
			matched = true;
			break;
		case TAG_GROUP:
			if (!user->in_group(user->arg, id))
				break;
			if ((perm & group_class & want) == want)
				return true;
			matched = true;
			break;
		default:
			break;
		}
	}
	return !matched && (mode & want) == want;
}
