/* acl.c - see acl.h. The order of entries is as given: a row may have a wrong one. */
#include "acl.h"

#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned tag_of(char kind, bool has_id)
{
	switch (kind) {
	case 'u':
		return has_id ? ACL_USER : ACL_USER_OBJ;
	case 'g':
		return has_id ? ACL_GROUP : ACL_GROUP_OBJ;
	case 'm':
		return ACL_MASK;
	case 'o':
		return ACL_OTHER;
	default:
		return 0;
	}
}

/* One entry from *text on: "u:1001:r--". */
static bool parse_entry(const char **text, struct posix_acl_xattr_entry *ret)
{
	const char *at = *text;
	bool has_id = at[0] && at[1] == ':' && at[2] != ':';
	unsigned tag = tag_of(at[0], has_id);
	unsigned perm = 0;
	uint32_t id = UINT32_MAX;

	if (!tag || at[1] != ':')
		return false;
	at += 2;
	if (has_id) {
		char *end;

		id = (uint32_t)strtoul(at, &end, 10);
		at = end;
	}
	if (*at++ != ':' || strlen(at) < 3)
		return false;
	perm |= at[0] == 'r' ? ACL_READ : 0;
	perm |= at[1] == 'w' ? ACL_WRITE : 0;
	perm |= at[2] == 'x' ? ACL_EXECUTE : 0;
	ret->e_tag = htole16((uint16_t)tag);
	ret->e_perm = htole16((uint16_t)perm);
	ret->e_id = htole32(id);
	*text = at + 3;
	return true;
}

bool acl_parse(const char *text, char *value, size_t *ret_len)
{
	struct posix_acl_xattr_header header = { htole32(POSIX_ACL_XATTR_VERSION) };
	size_t len = sizeof(header);

	memcpy(value, &header, sizeof(header));
	while (*text) {
		struct posix_acl_xattr_entry entry;

		if (len + sizeof(entry) > ACL_BYTES_MAX || !parse_entry(&text, &entry))
			return false;
		memcpy(value + len, &entry, sizeof(entry));
		len += sizeof(entry);
		if (*text == ',')
			text++;
	}
	*ret_len = len;
	return true;
}

static const char *kind_of(unsigned tag)
{
	switch (tag) {
	case ACL_USER_OBJ:
	case ACL_USER:
		return "u";
	case ACL_GROUP_OBJ:
	case ACL_GROUP:
		return "g";
	case ACL_MASK:
		return "m";
	case ACL_OTHER:
		return "o";
	default:
		return "?";
	}
}

void acl_print(const char *value, size_t len, char *text)
{
	size_t used = 0;

	text[0] = 0;
	for (size_t at = sizeof(struct posix_acl_xattr_header);
	     at + sizeof(struct posix_acl_xattr_entry) <= len && used + 32 < ACL_TEXT_MAX;
	     at += sizeof(struct posix_acl_xattr_entry)) {
		struct posix_acl_xattr_entry entry;
		char id[16] = "";
		unsigned tag, perm;

		memcpy(&entry, value + at, sizeof(entry));
		tag = le16toh(entry.e_tag);
		perm = le16toh(entry.e_perm);
		if (tag == ACL_USER || tag == ACL_GROUP)
			snprintf(id, sizeof(id), "%u", le32toh(entry.e_id));
		used += (size_t)snprintf(text + used, ACL_TEXT_MAX - used, "%s%s:%s:%c%c%c",
					 used ? "," : "", kind_of(tag), id,
					 perm & ACL_READ ? 'r' : '-', perm & ACL_WRITE ? 'w' : '-',
					 perm & ACL_EXECUTE ? 'x' : '-');
	}
}
