/* acl.h - POSIX ACLs as text: "u::rw-,u:1001:r--,g::r--,g:1100:rwx,m::rwx,o::---". */
#ifndef ACL_H
#define ACL_H

#include <stdbool.h>
#include <stddef.h>

#define ACL_ENTRIES_MAX 64
#define ACL_BYTES_MAX (4 + 8 * ACL_ENTRIES_MAX)
#define ACL_TEXT_MAX 2048

/* To the form of the extended attributes system.posix_acl_*. False: not an ACL, or too long. */
bool acl_parse(const char *text, char *value, size_t *ret_len);
/* And back. */
void acl_print(const char *value, size_t len, char *text);

#endif
