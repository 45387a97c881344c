/* view.c - views: (a root, a serial), and the references that keep roots and runs readable.
 *
 * W1. An open view keeps its root's blocks held in space and the delta's versions between the root's cut
 *     and its serial in memory, until that lies over the root (overlay.c).
 * W2. Closing a view frees at once what it alone kept in the delta's hot keys; the rest goes at the
 *     next checkpoint's trim.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

int stet_view_open(struct stet_engine *engine, struct stet_view **ret)
{
	struct stet_view *view = stet_calloc(1, sizeof(*view));

	if (!view)
		return STET_FAIL(-ENOMEM, "no memory for a view");
	view->engine = engine;
	view->root = engine->root;
	view->root->refs++;
	view->serial = stet_read_serial_(engine);
	stet_list_add_tail(&engine->views, &view->link);
	engine->view_count++;
	*ret = view;
	return 0;
}

int stet_view_like_(struct stet_view *view, struct stet_view **ret)
{
	struct stet_view *copy = stet_calloc(1, sizeof(*copy));

	if (!copy)
		return STET_FAIL(-ENOMEM, "no memory for a view");
	copy->engine = view->engine;
	copy->root = view->root;
	copy->root->refs++;
	copy->serial = view->serial;
	stet_list_add_before(view->link.next, &copy->link); /* serials rise along the list */
	copy->engine->view_count++;
	*ret = copy;
	return 0;
}

void stet_view_close(struct stet_view *view)
{
	if (!view)
		return;
	if (view->overlaying)
		view->overlaying->view = NULL;
	stet_list_del(&view->link);
	view->engine->view_count--;
	if (view->pinned_blocks > 0)
		stet_room_comes_back_(view->engine);
	stet_rootref_put_(view->engine, view->root);
	stet_free(view);
}

uint64_t stet_view_serial(const struct stet_view *view)
{
	return view->serial;
}

int stet_view_get(struct stet_engine *engine, struct stet_view *view, const struct stet_key *key,
		  struct stet_val *ret)
{
	if (view)
		return stet_read_at_(engine, view->root, view->serial, key, ret);
	return stet_read_at_(engine, engine->root, stet_read_serial_(engine), key, ret);
}

void stet_rootref_put_(struct stet_engine *engine, struct stet_rootref *root)
{
	STET_ASSERT_CMP(root->refs, >, 0);
	if (--root->refs > 0)
		return;
	stet_overlay_free_(engine, root->over);
	stet_free(root);
}

void stet_runref_put_(struct stet_engine *engine, struct stet_runref *run)
{
	(void)engine;
	STET_ASSERT_CMP(run->refs, >, 0);
	if (--run->refs == 0)
		stet_free(run);
}
