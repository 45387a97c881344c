/* tables.c - all tables. */
#include "conformance.h"

#define TABLES(T) \
	T(attr_table) T(data_table) T(names_table) T(open_table) T(path_table) T(rename_table)

#define T(name) extern const struct table name;
TABLES(T)
#undef T

const struct table *const tables[] = {
#define T(name) &name,
	TABLES(T)
#undef T
		NULL,
};
