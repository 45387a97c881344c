/* opening.c - what files and tables share: they are found by a path or made, and held while open. */
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
