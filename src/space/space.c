/* space.c - the table as an object: made, destroyed, asked for places.
 *
 * I1. A new table is that of an empty volume: every slot FREE and never used, every page dirty,
 *     because none was ever written.
 * I2. The index of ids has its final size from the start, at least four buckets for each slot, and
 *     its memory too: inserting neither fails nor grows it, and finding is read-only.
 */
#include "space/space_internal.h"

#include "base/assert.h"
#include "base/mem.h"

/* The smallest power of two that keeps base/hash from growing (I2). */
static unsigned int index_log2_size(uint32_t slot_count)
{
	unsigned int log2_size = 2;

	while ((UINT64_C(1) << log2_size) < (uint64_t)slot_count * 4)
		log2_size++;
	return log2_size;
}

static int create_index(struct stet_space *space)
{
	struct stet_hash_node node;
	int rc;

	space->ids = stet_alloc(sizeof(*space->ids));
	if (!space->ids)
		return -ENOMEM;
	stet_hash_init(space->ids, index_log2_size(space->slot_count));
	rc = stet_hash_insert(space->ids, 0, &node); /* allocates the buckets now */
	if (rc)
		return rc;
	stet_hash_remove(space->ids, &node);
	return 0;
}

static int create_arrays(struct stet_space *space)
{
	space->slot = stet_calloc(space->slot_count, sizeof(*space->slot));
	space->page = stet_calloc(space->page_count, sizeof(*space->page));
	space->free_heap = stet_calloc(space->slot_count, sizeof(*space->free_heap));
	if (!space->slot || !space->page || !space->free_heap)
		return -ENOMEM;
	for (uint32_t i = 0; i < space->slot_count; i++) {
		space->state_n[STET_SEG_FREE]++;
		stet_space_free_add_(space, i);
	}
	for (uint32_t i = 0; i < space->page_count; i++)
		space->page[i].dirty = true; /* I1 */
	return create_index(space);
}

int stet_space_create(const struct stet_superblock *sb, struct stet_space **ret)
{
	struct stet_space *space;
	int rc;

	STET_ASSERT_CMP(sb->seg_blocks, >=, STET_SEG_BLOCKS_MIN);
	STET_ASSERT_CMP(sb->seg_blocks, <=, STET_SEG_BLOCKS_MAX);
	STET_ASSERT_CMP(sb->seg_blocks % 64, ==, 0);
	STET_ASSERT_CMP(sb->slot_count, >, 0);
	STET_ASSERT_CMP(sb->slot_count, <, STET_SLOT_NONE);
	space = stet_calloc(1, sizeof(*space));
	if (!space)
		return -ENOMEM;
	space->volume_id = sb->volume_id;
	space->seg_start_block = sb->seg_start_block;
	space->slot_count = sb->slot_count;
	space->seg_blocks = sb->seg_blocks;
	space->page_count = stet_table_page_count(sb->slot_count, sb->seg_blocks);
	space->page_entries = stet_table_page_entries(sb->seg_blocks);
	space->next_seg_id = 1;
	stet_vec_init(&space->runs);
	rc = create_arrays(space);
	if (rc) {
		stet_space_destroy(space);
		return rc;
	}
	*ret = space;
	return 0;
}

void stet_space_destroy(struct stet_space *space)
{
	if (!space)
		return;
	for (uint32_t i = 0; space->slot && i < space->slot_count; i++)
		stet_space_drop_bitmaps_(&space->slot[i]);
	stet_vec_release(&space->runs);
	if (space->ids)
		stet_hash_release(space->ids);
	stet_free(space->ids);
	stet_free(space->free_heap);
	stet_free(space->page);
	stet_free(space->slot);
	stet_free(space);
}

struct stet_slot *stet_space_find_(const struct stet_space *space, uint64_t seg_id)
{
	struct stet_hash_node *node = stet_hash_find(space->ids, seg_id); /* I2 */

	return node ? stet_container_of(node, struct stet_slot, node) : NULL;
}

uint32_t stet_space_slot(const struct stet_space *space, uint64_t seg_id)
{
	const struct stet_slot *slot = stet_space_find_(space, seg_id);

	return slot ? (uint32_t)(slot - space->slot) : STET_SLOT_NONE;
}

uint64_t stet_space_slot_offset(const struct stet_space *space, uint32_t slot)
{
	STET_ASSERT_CMP(slot, <, space->slot_count);
	return (space->seg_start_block + (uint64_t)slot * space->seg_blocks) * STET_BLOCK_SIZE;
}

int stet_space_locate(const struct stet_space *space, struct stet_addr addr, uint32_t blocks,
		      uint64_t *ret_off_bytes)
{
	uint32_t slot;

	if (!stet_addr_fits(addr, blocks, space->seg_blocks))
		return STET_FAIL(-EUCLEAN, "address %" PRIu64 ":%" PRIu32 ": %" PRIu32 " blocks",
				 stet_addr_seg(addr), stet_addr_block(addr), blocks);
	slot = stet_space_slot(space, stet_addr_seg(addr));
	if (slot == STET_SLOT_NONE)
		return -ESTALE; /* not noted: readers expect it of what was moved */
	*ret_off_bytes = stet_space_slot_offset(space, slot) +
			 (uint64_t)stet_addr_block(addr) * STET_BLOCK_SIZE;
	return 0;
}
