/* opening.c - what handles have in common.
 *
 * Files and tables are found by a path or made, and held while open. Listings and cursors read in one state,
 * for which they have a view of their own when they are in no transaction.
 */
#include "api/api_internal.h"

#include <fcntl.h>

static int make_new(struct stet_api_op *op, const struct stet_api_opening *o,
		    const struct stet_api_place *place, uint64_t *ret_ino)
{
	struct stet_fs_new what = stet_api_new_(op->vol, o->mode);

	if (!(o->flags & O_CREAT))
		return -ENOENT;
	if (place->must_be_dir)
		return o->if_slash;
	return stet_api_make_for_(op, place, &what, ret_ino);
}

int stet_api_find_or_make_(struct stet_api_op *op, const struct stet_api_opening *o,
			   struct stet_api_place *ret, bool *ret_made)
{
	bool exclusive = (o->flags & O_CREAT) && (o->flags & O_EXCL);
	int rc = stet_api_resolve_(op, o->dir, o->path, !exclusive && !(o->flags & O_NOFOLLOW),
				   ret);

	if (rc)
		return rc;
	*ret_made = ret->ino == 0;
	if (*ret_made)
		return make_new(op, o, ret, &ret->ino);
	return exclusive ? -EEXIST : 0;
}

void stet_api_unhold_(struct stet_volume *vol, struct stet_tx *tx, uint64_t ino)
{
	stet_api_lock_(vol);
	stet_fs_unhold(vol->fs, ino);
	stet_api_tx_put_(tx);
	vol->handles--;
	stet_api_worker_kick_(vol, false);
	stet_api_unlock_(vol);
}

/* Under the same hold of the lock, so the transaction cannot end in between. */
static int opened(struct stet_api_op *op, void *arg)
{
	(void)arg;
	stet_api_tx_get_(op->tx);
	op->vol->handles++;
	return 0;
}

int stet_api_reading_open_(struct stet_volume *vol, struct stet_tx *txn, stet_api_op_fn *fn,
			   void *arg, struct stet_api_reading *ret)
{
	struct stet_api_reading in = { .tx = txn, .is_own = !txn };
	int rc = txn ? 0 : stet_api_view_begin_(vol, &in.tx);

	if (rc)
		return rc;
	rc = stet_api_run_(vol, in.tx, STET_API_READ, fn, opened, arg);
	if (!rc)
		*ret = in;
	else if (in.is_own)
		stet_api_view_end_(in.tx);
	return rc;
}

void stet_api_reading_close_(struct stet_volume *vol, const struct stet_api_reading *in)
{
	if (in->is_own)
		stet_api_view_end_(in->tx);
	stet_api_lock_(vol);
	stet_api_tx_put_(in->tx);
	vol->handles--;
	stet_api_unlock_(vol);
}
