/* table_internal.h - what the files of `stetfs table`, and who copies tables, share. */
#ifndef STET_CLI_TABLE_INTERNAL_H
#define STET_CLI_TABLE_INTERNAL_H

#include "cli/cli_internal.h"

/** A record as it was read. */
struct stet_cli_record {
	struct stet_cli_text key, value;
};

/** Writes a record as a line to standard output. */
void stet_cli_table_write_(bool json, const struct stet_record *record, bool with_value);
/** Reads a line, without its end. NULL, or what is wrong with it (constant). */
const char *stet_cli_table_parse_(bool json, const char *line, size_t len,
				  struct stet_cli_record *ret);
/** Adds what text with escapes stands for. False: one is none. */
bool stet_cli_table_unescape_(const char *s, size_t len, struct stet_cli_text *ret);

/** A name in a directory of a volume that was opened by the library. */
struct stet_cli_table_end {
	struct stet_cli_volume *v;
	uint64_t dir;
	const char *name;
};

/** Copies a table to where nothing is yet. 0 or a negative errno value; *ret_at_target: of which of the two. */
int stet_cli_table_copy_(const struct stet_cli_table_end *from, const struct stet_cli_table_end *to,
			 struct stet_cli_progress *progress, bool *ret_at_target);

/** The error line when a file could not be opened for its data: says so if it is a table. Returns
 * STET_CLI_FAILED. */
int stet_cli_fail_data_(struct stet_cli_volume *v, const char *word, const char *path, int rc);
/** A mount shows tables as files: *type of a name becomes what it is. 0 or a negative errno value. */
int stet_cli_true_type_(struct stet_cli_volume *v, uint64_t ino, uint8_t *type);

#endif
