/* acl.h - POSIX ACLs: what they mean for permissions. Functions over the bytes of Linux's xattrs (version
 * 2: le32 version, then entries of le16 tag, le16 permissions, le32 id); no state, no I/O. */
#ifndef STET_FS_ACL_H
#define STET_FS_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* As many entries as Linux hands over in one page. */
#define STET_FS_ACL_BYTES_MAX 4092u
#define STET_FS_ACL_ACCESS "system.posix_acl_access"
#define STET_FS_ACL_DEFAULT "system.posix_acl_default"

enum stet_fs_acl_kind {
	STET_FS_ACL_NONE, /* another xattr */
	STET_FS_ACL_IS_ACCESS,
	STET_FS_ACL_IS_DEFAULT,
};

enum stet_fs_acl_kind stet_fs_acl_kind(const char *name, size_t len);

/* Checks an ACL as given by a user, and puts it into the form that is stored: ids of entries that have
 * none become UINT32_MAX. *ret_empty: it has no entries, which means none at all. -EOPNOTSUPP: of
 * another version; -EINVAL; -E2BIG. */
STET_CHECKED int stet_fs_acl_check(uint8_t *acl, size_t len, bool *ret_empty);

/* Whom an ACL is asked about. */
struct stet_fs_acl_user {
	uint32_t uid;
	bool (*in_group)(const void *arg, uint32_t gid);
	const void *arg;
};

/* Whether a user who does not own the inode is granted all of `want` (4 read, 2 write, 1 execute) by its
 * access ACL, which was checked, together with its mode and its group. */
bool stet_fs_acl_permits(const uint8_t *acl, size_t len, uint32_t mode,
			 const struct stet_fs_acl_user *user, uint32_t gid, unsigned want);

/* --- inside fs/; of ACLs that were checked --- */

/* The permission bits that the ACL stands for; the others of *mode stay. true: they say all that it
 * says. */
bool stet_acl_to_mode_(const uint8_t *acl, size_t len, uint32_t *mode);

/* What changing the mode means for the ACL. */
void stet_acl_set_mode_(uint8_t *acl, size_t len, uint32_t mode);

/* Turns a directory's default ACL into the access ACL of something made there with *mode, and takes from
 * *mode what the ACL does not grant. true: the mode says all that the ACL then says. */
bool stet_acl_inherit_(uint8_t *acl, size_t len, uint32_t *mode);

#endif
