/* posix.h - the commands as system calls. */
#ifndef POSIX_H
#define POSIX_H

#include "facts.h"
#include "script.h"

#include <sys/types.h>

extern const struct backend posix_backend;

/* Makes the row's directory (what is there is removed) and goes there; false: errno. */
bool posix_begin_row(const char *dir, bool is_new);
/* Closes, unmaps, unmounts what the row left, and leaves the directory. */
void posix_end_row(void);

/// Between the files of it ///

/* A path word: relative to a slot's directory ("<2>name"), else to the row's. */
struct place {
	int dir; /* descriptor or AT_FDCWD */
	const char *path;
};

struct place posix_place(struct call *call, size_t n);
int posix_fd(struct call *call, size_t n);
void posix_set_fd(int slot, int fd);

/* The content of data words is copied here before it is written, and read here: page-aligned. */
#define BUFFER_BYTES (4u << 20)
extern char *posix_buffer;

#define COMMANDS(name) extern const struct command name[]
COMMANDS(posix_file_commands);
COMMANDS(posix_name_commands);
COMMANDS(posix_attr_commands);
COMMANDS(posix_lock_commands);
COMMANDS(posix_list_commands);
COMMANDS(posix_other_commands);

void posix_list_end_row(void);
void posix_other_end_row(void);

#endif
