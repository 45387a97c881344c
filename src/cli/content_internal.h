/* content_internal.h - what is in a file that may become a volume. */
#ifndef STET_CLI_CONTENT_INTERNAL_H
#define STET_CLI_CONTENT_INTERNAL_H

#include "cli/cli_internal.h"

struct stet_cli_content {
	bool exists;
	bool is_device; /* a block device; else a regular file */
	uint64_t size_bytes;
	const char *what; /* "an XFS file system", "data"; NULL: nothing but zeros. Constant */
};

/** 0, also when there is no such file; -EINVAL: it can be no volume; else as open(2), read(2). */
int stet_cli_inspect_(const char *path, struct stet_cli_content *ret);

#endif
