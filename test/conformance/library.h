/* library.h - the commands as calls of libstetfs, as far as it has them. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "script.h"

extern const struct backend library_backend;

bool library_open(const char *image, bool is_read_only);
bool library_close(void);
bool library_begin_row(const char *name, bool is_new);
void library_end_row(void);

#endif
