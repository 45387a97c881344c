/* device_internal.h - what the files of this folder share. */
#ifndef STET_DEVICE_INTERNAL_H
#define STET_DEVICE_INTERNAL_H

#include <stdbool.h>
#include <sys/stat.h>

struct stet_text;

/* Adds "in use by process N (COMMAND)", or that this process has it, for the file or block device
 * that st describes (holder.c). False: nobody is found, and nothing was added. */
bool stet_device_find_holder_(const struct stat *st, struct stet_text *ret);

#endif
