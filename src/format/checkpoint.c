/* checkpoint.c - checkpoint slots and records: encode, verify and decode, print.
 *
 * I1. A slot is written only when the record it names, and all that the record names, is durable.
 * I2. A decoded record's places each lie within one segment; every page pointer was looked at.
 * I3. An empty tree has root address 0, level 0, and no other pointer field set.
 */
#include "format/checkpoint.h"

#include "base/assert.h"
#include "base/crc.h"
#include "format/format_internal.h"

#include <string.h>

#define CHECK_AT offsetof(struct stet_ckpt_slot_disk, check)
#define HEADER_BYTES sizeof(struct stet_ckpt_record_disk)
#define PTR_BYTES sizeof(struct stet_table_ptr_disk)

static uint32_t blocks_of(size_t bytes)
{
	return (uint32_t)((bytes + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE);
}

/* Whether a record may have this many bytes in any volume. */
static bool record_bytes_valid(size_t bytes)
{
	return bytes >= HEADER_BYTES && bytes <= STET_CKPT_RECORD_BYTES_MAX(STET_SEG_BLOCKS_MAX) &&
	       (bytes - HEADER_BYTES) % PTR_BYTES == 0;
}

/* --- slots --- */

void stet_ckpt_slot_encode(const struct stet_ckpt_slot *slot, uint64_t volume_id,
			   struct stet_ckpt_slot_disk *out)
{
	memset(out, 0, sizeof(*out));
	out->magic = le64_make(STET_SLOT_MAGIC);
	out->volume_id = le64_make(volume_id);
	out->sequence = le64_make(slot->sequence);
	out->cut = le64_make(slot->cut);
	out->record = stet_format_place_make_(&slot->record);
	out->record_bytes = le32_make(slot->record_bytes);
	out->record_check = le64_make(slot->record_check);
	out->check = le64_make(stet_crc64(out, CHECK_AT));
}

static bool all_zero(const uint8_t *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

int stet_ckpt_slot_decode(const struct stet_ckpt_slot_disk *in, uint64_t volume_id,
			  struct stet_ckpt_slot *ret_slot)
{
	struct stet_ckpt_slot slot = {
		.sequence = le64_get(in->sequence),
		.cut = le64_get(in->cut),
		.record = stet_format_place_get_(&in->record),
		.record_bytes = le32_get(in->record_bytes),
		.record_check = le64_get(in->record_check),
	};

	if (all_zero((const uint8_t *)in, sizeof(*in)))
		return -ENOENT;
	if (le64_get(in->magic) != STET_SLOT_MAGIC)
		return STET_FAIL(-EUCLEAN, "checkpoint slot: bad magic");
	if (le64_get(in->check) != stet_crc64(in, CHECK_AT))
		return STET_FAIL(-EUCLEAN, "checkpoint slot: bad checksum");
	if (le64_get(in->volume_id) != volume_id)
		return STET_FAIL(-EUCLEAN, "checkpoint slot: of volume %016" PRIx64,
				 le64_get(in->volume_id));
	if (slot.sequence == 0)
		return STET_FAIL(-EUCLEAN, "checkpoint slot: sequence 0");
	if (!record_bytes_valid(slot.record_bytes) || stet_addr_is_none(slot.record.addr) ||
	    !stet_format_place_valid_(&slot.record, blocks_of(slot.record_bytes),
				      STET_SEG_BLOCKS_MAX))
		return STET_FAIL(-EUCLEAN,
				 "checkpoint slot: record of %" PRIu32 " bytes at " STET_ADDR_FMT,
				 slot.record_bytes, STET_ADDR_ARG(slot.record.addr));
	*ret_slot = slot;
	return 0;
}

/* --- records --- */

size_t stet_ckpt_record_bytes(uint32_t page_count)
{
	return HEADER_BYTES + PTR_BYTES * (size_t)page_count;
}

void stet_ckpt_record_encode(const struct stet_ckpt_record *rec, uint64_t volume_id,
			     const struct stet_table_ptr *pages, uint8_t *out)
{
	struct stet_ckpt_record_disk *h = (struct stet_ckpt_record_disk *)out;

	memset(h, 0, sizeof(*h));
	h->magic = le64_make(STET_CKPT_MAGIC);
	h->volume_id = le64_make(volume_id);
	h->sequence = le64_make(rec->sequence);
	h->cut = le64_make(rec->cut);
	h->generation = le64_make(rec->generation);
	h->wall_ns = le64_make((uint64_t)rec->wall_ns);
	stet_node_ptr_encode(&rec->root, &h->root);
	h->root_level = le32_make(rec->root_level);
	h->page_count = le32_make(rec->page_count);
	h->chain_next1 = stet_format_place_make_(&rec->chain_next1);
	h->chain_next2 = stet_format_place_make_(&rec->chain_next2);
	h->chain_check = le64_make(rec->chain_check);
	h->chain_serial = le64_make(rec->chain_serial);
	h->next_ino = le64_make(rec->next_ino);
	h->next_seg_id = le64_make(rec->next_seg_id);
	h->inode_count = le64_make(rec->inode_count);
	h->data_blocks = le64_make(rec->data_blocks);
	h->node_blocks = le64_make(rec->node_blocks);
	h->prev_record = stet_format_place_make_(&rec->prev_record);
	h->prev_bytes = le32_make(rec->prev_bytes);
	h->prev_check = le64_make(rec->prev_check);
	for (uint32_t i = 0; i < rec->page_count; i++) {
		struct stet_table_ptr_disk ptr = {
			.addr = le64_make(pages[i].addr.v),
			.slot = le32_make(pages[i].slot),
			.crc = le32_make(pages[i].crc),
		};

		memcpy(out + HEADER_BYTES + PTR_BYTES * i, &ptr, sizeof(ptr));
	}
}

static bool root_valid(const struct stet_ckpt_record *rec)
{
	if (stet_addr_is_none(rec->root.addr)) /* I3 */
		return rec->root_level == 0 && stet_addr_is_none(rec->root.addr2) &&
		       rec->root.birth == 0 && rec->root.check == 0;
	return rec->root_level <= STET_TREE_LEVEL_MAX && stet_format_node_ptr_valid_(&rec->root);
}

static bool prev_valid(const struct stet_ckpt_record *rec)
{
	if (stet_addr_is_none(rec->prev_record.addr))
		return stet_format_place_valid_(&rec->prev_record, 1, STET_SEG_BLOCKS_MAX) &&
		       rec->prev_bytes == 0 && rec->prev_check == 0;
	return record_bytes_valid(rec->prev_bytes) &&
	       stet_format_place_valid_(&rec->prev_record, blocks_of(rec->prev_bytes),
					STET_SEG_BLOCKS_MAX);
}

/* I2 */
static int verify(const struct stet_ckpt_record *rec)
{
	if (rec->sequence == 0)
		return STET_FAIL(-EUCLEAN, "checkpoint: sequence 0");
	if (!root_valid(rec))
		return STET_FAIL(-EUCLEAN, "checkpoint: root " STET_ADDR_FMT " level %" PRIu32,
				 STET_ADDR_ARG(rec->root.addr), rec->root_level);
	if (!stet_format_place_valid_(&rec->chain_next1, 1, STET_SEG_BLOCKS_MAX) ||
	    !stet_format_place_valid_(&rec->chain_next2, 1, STET_SEG_BLOCKS_MAX) ||
	    (stet_addr_is_none(rec->chain_next1.addr) && stet_addr_is_none(rec->chain_next2.addr)))
		return STET_FAIL(-EUCLEAN, "checkpoint: start of the log");
	if (rec->next_seg_id == 0 || rec->next_seg_id > STET_SEG_ID_MAX)
		return STET_FAIL(-EUCLEAN, "checkpoint: next segment id %" PRIu64,
				 rec->next_seg_id);
	if (rec->next_ino < STET_ROOT_INO || rec->inode_count > rec->next_ino)
		return STET_FAIL(-EUCLEAN, "checkpoint: %" PRIu64 " inodes, next %" PRIu64,
				 rec->inode_count, rec->next_ino);
	if (rec->data_blocks > STET_DEVICE_BLOCKS_MAX || rec->node_blocks > STET_DEVICE_BLOCKS_MAX)
		return STET_FAIL(-EUCLEAN, "checkpoint: %" PRIu64 " + %" PRIu64 " blocks",
				 rec->data_blocks, rec->node_blocks);
	if (!prev_valid(rec))
		return STET_FAIL(-EUCLEAN, "checkpoint: predecessor");
	return 0;
}

static void decode(const struct stet_ckpt_record_disk *h, struct stet_ckpt_record *rec)
{
	*rec = (struct stet_ckpt_record){
		.sequence = le64_get(h->sequence),
		.cut = le64_get(h->cut),
		.generation = le64_get(h->generation),
		.wall_ns = (int64_t)le64_get(h->wall_ns),
		.root_level = le32_get(h->root_level),
		.page_count = le32_get(h->page_count),
		.chain_next1 = stet_format_place_get_(&h->chain_next1),
		.chain_next2 = stet_format_place_get_(&h->chain_next2),
		.chain_check = le64_get(h->chain_check),
		.chain_serial = le64_get(h->chain_serial),
		.next_ino = le64_get(h->next_ino),
		.next_seg_id = le64_get(h->next_seg_id),
		.inode_count = le64_get(h->inode_count),
		.data_blocks = le64_get(h->data_blocks),
		.node_blocks = le64_get(h->node_blocks),
		.prev_record = stet_format_place_get_(&h->prev_record),
		.prev_bytes = le32_get(h->prev_bytes),
		.prev_check = le64_get(h->prev_check),
	};
	stet_node_ptr_decode(&h->root, &rec->root);
}

int stet_ckpt_record_decode(const uint8_t *in, size_t len_bytes, uint64_t volume_id,
			    struct stet_ckpt_record *ret_rec)
{
	const struct stet_ckpt_record_disk *h = (const struct stet_ckpt_record_disk *)in;
	struct stet_ckpt_record rec;
	int rc;

	if (!record_bytes_valid(len_bytes))
		return STET_FAIL(-EUCLEAN, "checkpoint: record of %zu bytes", len_bytes);
	if (le64_get(h->magic) != STET_CKPT_MAGIC || le64_get(h->volume_id) != volume_id)
		return STET_FAIL(-EUCLEAN, "checkpoint: no record of this volume");
	decode(h, &rec);
	if (stet_ckpt_record_bytes(rec.page_count) != len_bytes)
		return STET_FAIL(-EUCLEAN, "checkpoint: %" PRIu32 " table pages in %zu bytes",
				 rec.page_count, len_bytes);
	rc = verify(&rec);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < rec.page_count; i++) {
		struct stet_table_ptr ptr = stet_ckpt_record_page(in, i);

		if (!stet_addr_fits(ptr.addr, 1, STET_SEG_BLOCKS_MAX) || ptr.slot == STET_SLOT_NONE)
			return STET_FAIL(-EUCLEAN, "checkpoint: table page %" PRIu32, i);
	}
	*ret_rec = rec;
	return 0;
}

struct stet_table_ptr stet_ckpt_record_page(const uint8_t *in, uint32_t page_no)
{
	struct stet_table_ptr_disk ptr;

	memcpy(&ptr, in + HEADER_BYTES + PTR_BYTES * page_no, sizeof(ptr));
	return (struct stet_table_ptr){
		.addr = { le64_get(ptr.addr) },
		.slot = le32_get(ptr.slot),
		.crc = le32_get(ptr.crc),
	};
}

void stet_ckpt_record_print(struct stet_text *t, const struct stet_ckpt_record *rec)
{
	stet_text_printf(t,
			 "checkpoint %" PRIu64 " cut %" PRIu64 " generation %" PRIu64
			 " time %" PRId64 "\nroot ",
			 rec->sequence, rec->cut, rec->generation, rec->wall_ns);
	if (stet_addr_is_none(rec->root.addr))
		stet_text_puts(t, "none");
	else
		stet_format_node_ptr_print_(t, &rec->root);
	stet_text_printf(t, " level %" PRIu32 "\nlog after serial %" PRIu64 " check %016" PRIx64,
			 rec->root_level, rec->chain_serial, rec->chain_check);
	stet_format_place_print_(t, "next1", &rec->chain_next1);
	stet_format_place_print_(t, "next2", &rec->chain_next2);
	stet_text_printf(t,
			 "\nnext inode %" PRIu64 ", next segment %" PRIu64 ", %" PRIu64
			 " inodes, %" PRIu64 " data blocks, %" PRIu64 " node blocks, %" PRIu32
			 " table pages\n",
			 rec->next_ino, rec->next_seg_id, rec->inode_count, rec->data_blocks,
			 rec->node_blocks, rec->page_count);
	if (stet_addr_is_none(rec->prev_record.addr))
		return;
	stet_text_puts(t, "predecessor");
	stet_format_place_print_(t, "record", &rec->prev_record);
	stet_text_printf(t, " %" PRIu32 " bytes check %016" PRIx64 "\n", rec->prev_bytes,
			 rec->prev_check);
}
