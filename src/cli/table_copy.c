/* table_copy.c - copies a table: all records of one into a new one.
 *
 * What is read is one state: that of the command's transaction, or of a cursor. Values are copied one by one.
 */
#include "cli/table_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#define NEW_TABLE_MODE 0600u

struct copying {
	struct stet_table *to;
	struct stet_txn *txn;
	struct stet_cli_progress *progress;
	bool at_target; /* the error is of the target */
};

static int copy_record(void *arg, const struct stet_record *record)
{
	struct copying *c = arg;
	int rc = stet_put(c->to, c->txn, record->key, record->key_len, record->value,
			  record->value_len, 0);

	c->at_target = rc != 0;
	c->progress->bytes += record->key_len + record->value_len;
	stet_cli_progress_(c->progress);
	return rc;
}

int stet_cli_table_copy_(const struct stet_cli_table_end *from, const struct stet_cli_table_end *to,
			 struct stet_cli_progress *progress, bool *ret_at_target)
{
	struct copying c = { .txn = to->v->txn, .progress = progress };
	struct stet_table *source;
	int rc = stet_table_open(from->v->vol, from->v->txn, from->dir, from->name,
				 O_RDONLY | O_NOFOLLOW, 0, &source);

	*ret_at_target = false;
	if (rc)
		return rc;
	rc = stet_table_open(to->v->vol, to->v->txn, to->dir, to->name, O_RDWR | O_CREAT | O_EXCL,
			     NEW_TABLE_MODE, &c.to);
	c.at_target = rc != 0;
	if (!rc) {
		rc = stet_scan(source, from->v->txn, NULL, copy_record, &c);
		stet_table_close(c.to);
	}
	stet_table_close(source);
	*ret_at_target = c.at_target;
	return rc;
}

int stet_cli_fail_data_(struct stet_cli_volume *v, const char *word, const char *path, int rc)
{
	struct stet_stat st;

	/* By the library, and through a mount. */
	if ((rc != -ENXIO && rc != -EPERM) || stet_cli_statat_(v, STET_ROOT, path, 0, &st) != 0 ||
	    (st.mode & 0170000u) != STET_S_IFTABLE)
		return stet_cli_fail_volume_(word, rc);
	stet_cli_error_(word, "is a table, not a file (see \"stetfs table --help\")");
	return STET_CLI_FAILED;
}

int stet_cli_true_type_(struct stet_cli_volume *v, uint64_t ino, uint8_t *type)
{
	struct stet_stat st;
	int rc;

	if (!v->mounted || *type != DT_REG)
		return 0;
	rc = stet_cli_statat_(v, ino, "", STET_AT_NOFOLLOW, &st);
	if (!rc && (st.mode & 0170000u) == STET_S_IFTABLE)
		*type = STET_DT_TABLE;
	return rc;
}
