/* place.c - addresses that carry the slot of their segment, and node pointers.
 *
 * I1. A place is valid or wholly zero; "wholly none" has slot 0 on disk, so that it is all zero.
 */
#include "format/format_internal.h"

struct stet_place_disk stet_format_place_make_(const struct stet_place *place)
{
	bool none = stet_addr_is_none(place->addr);

	return (struct stet_place_disk){
		.addr = le64_make(place->addr.v),
		.slot = le32_make(none ? 0 : place->slot), /* I1 */
	};
}

struct stet_place stet_format_place_get_(const struct stet_place_disk *in)
{
	return (struct stet_place){
		.addr = { le64_get(in->addr) },
		.slot = le32_get(in->slot),
	};
}

bool stet_format_place_valid_(const struct stet_place *place, uint32_t blocks, uint32_t seg_blocks)
{
	if (stet_addr_is_none(place->addr))
		return place->slot == 0; /* I1 */
	return place->slot != STET_SLOT_NONE && stet_addr_fits(place->addr, blocks, seg_blocks);
}

void stet_format_place_print_(struct stet_text *t, const char *name, const struct stet_place *place)
{
	if (stet_addr_is_none(place->addr))
		stet_text_printf(t, " %s=none", name);
	else
		stet_text_printf(t, " %s=" STET_ADDR_FMT "@%" PRIu32, name,
				 STET_ADDR_ARG(place->addr), place->slot);
}

void stet_node_ptr_encode(const struct stet_node_ptr *ptr, struct stet_node_ptr_disk *out)
{
	out->addr = le64_make(ptr->addr.v);
	out->addr2 = le64_make(ptr->addr2.v);
	out->birth = le64_make(ptr->birth);
	out->check = le64_make(ptr->check);
}

void stet_node_ptr_decode(const struct stet_node_ptr_disk *in, struct stet_node_ptr *ret_ptr)
{
	ret_ptr->addr.v = le64_get(in->addr);
	ret_ptr->addr2.v = le64_get(in->addr2);
	ret_ptr->birth = le64_get(in->birth);
	ret_ptr->check = le64_get(in->check);
}

bool stet_format_node_ptr_valid_(const struct stet_node_ptr *ptr)
{
	if (!stet_addr_fits(ptr->addr, STET_NODE_BLOCKS, STET_SEG_BLOCKS_MAX))
		return false;
	return stet_addr_is_none(ptr->addr2) ||
	       (ptr->addr2.v != ptr->addr.v &&
		stet_addr_fits(ptr->addr2, STET_NODE_BLOCKS, STET_SEG_BLOCKS_MAX));
}

void stet_format_node_ptr_print_(struct stet_text *t, const struct stet_node_ptr *ptr)
{
	stet_text_printf(t, STET_ADDR_FMT, STET_ADDR_ARG(ptr->addr));
	if (!stet_addr_is_none(ptr->addr2))
		stet_text_printf(t, " and " STET_ADDR_FMT, STET_ADDR_ARG(ptr->addr2));
	stet_text_printf(t, " birth %" PRIu64 " check %016" PRIx64, ptr->birth, ptr->check);
}
