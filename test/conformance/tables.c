/* tables.c - all tables. */
#include "conformance.h"

#define TABLES(T)       \
	T(path_table)   \
	T(open_table)   \
	T(data_table)   \
	T(names_table)  \
	T(rename_table) \
	T(list_table)   \
	T(attr_table)   \
	T(time_table)   \
	T(who_table)    \
	T(setid_table)  \
	T(xattr_table)  \
	T(acl_table)    \
	T(lock_table)   \
	T(mount_table)  \
	T(readonly_table)

#define T(name) extern const struct table name;
TABLES(T)
#undef T

const struct table *const tables[] = {
#define T(name) &name,
	TABLES(T)
#undef T
		NULL,
};
