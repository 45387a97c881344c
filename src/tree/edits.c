/* edits.c - what one level of an apply tells the level above.
 *
 * The list says in key order which children are gone and which are new; unchanged ones do not occur,
 * so its size follows the number of changed nodes. Nearly all insertions are at the end; one in the
 * middle moves what belongs to the current cluster only.
 */
#include "tree/apply_internal.h"

#include "base/assert.h"

#include <string.h>

void stet_tree_edits_release_(struct stet_tree_edits_ *edits)
{
	stet_vec_release(&edits->list);
	stet_buf_release(&edits->keys);
}

void stet_tree_edits_clear_(struct stet_tree_edits_ *edits)
{
	stet_vec_clear(&edits->list);
	stet_buf_clear(&edits->keys);
}

int stet_tree_edits_insert_(struct stet_tree_edits_ *edits, size_t at, const void *key,
			    size_t key_bytes, const struct stet_node_ptr *ptr)
{
	struct stet_tree_edit_ edit = {
		.key_offset = edits->keys.len,
		.key_bytes = (uint16_t)key_bytes,
		.put = ptr != NULL,
	};
	int rc;

	STET_ASSERT_CMP(at, <=, edits->list.n);
	if (ptr)
		edit.ptr = *ptr;
	rc = stet_buf_append(&edits->keys, key, key_bytes);
	if (!rc)
		rc = stet_vec_push(&edits->list, edit);
	if (rc)
		return STET_FAIL(rc, "tree: no memory for edits");
	if (at + 1 < edits->list.n) {
		memmove(&edits->list.v[at + 1], &edits->list.v[at],
			(edits->list.n - 1 - at) * sizeof(edit));
		edits->list.v[at] = edit;
	}
	return 0;
}

const uint8_t *stet_tree_edits_key_(const struct stet_tree_edits_ *edits, size_t at)
{
	static const uint8_t empty[1];

	return edits->keys.p ? edits->keys.p + edits->list.v[at].key_offset : empty;
}
