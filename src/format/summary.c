/* summary.c - partial segments: seal, verify, iterate, print.
 *
 * I1. sizeof(header) + table_bytes + record_bytes <= summary_blocks * 4096, and summary_blocks +
 *     payload_blocks fit one segment from `self` on.
 * I2. The payload table is exactly its entries; their blocks add up to payload_blocks.
 * I3. The record area is exactly its records; only RECORDS and COMMIT have any.
 * I4. Nothing of a summary counts before I1-I3 and its check hold (stet_pseg_decode, then
 *     stet_pseg_verify); the iterators rely on them, and stop rather than leave their area.
 * I5. What lies behind the records is zero.
 */
#include "format/summary.h"

#include "base/assert.h"
#include "base/crc.h"
#include "format/format_internal.h"
#include "format/key.h"
#include "format/node.h"
#include "format/segtable.h"
#include "format/value.h"

#include <string.h>

#define HEADER_BYTES ((uint32_t)sizeof(struct stet_pseg_disk))
#define PAYLOAD_HEADER_BYTES ((uint32_t)sizeof(struct stet_payload_disk))
#define RECORD_HEADER_BYTES ((uint32_t)sizeof(struct stet_record_disk))
#define CRC_BYTES ((uint32_t)sizeof(le32))
#define PATCH_OFFSET_AT 12u

/* --- header --- */

uint32_t stet_pseg_summary_blocks(size_t table_bytes, size_t record_bytes)
{
	size_t bytes = HEADER_BYTES + table_bytes + record_bytes;

	return (uint32_t)((bytes + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE);
}

static size_t summary_bytes(const struct stet_pseg *pseg)
{
	return (size_t)pseg->summary_blocks * STET_BLOCK_SIZE;
}

uint64_t stet_pseg_seal(uint8_t *summary, const struct stet_pseg *pseg, uint64_t volume_id)
{
	struct stet_pseg_disk *h = (struct stet_pseg_disk *)summary;
	size_t used = HEADER_BYTES + (size_t)pseg->table_bytes + pseg->record_bytes;
	uint64_t check;

	STET_ASSERT_CMP(used, <=, summary_bytes(pseg)); /* I1 */
	memset(h, 0, sizeof(*h));
	memset(summary + used, 0, summary_bytes(pseg) - used); /* I5 */
	h->magic = le64_make(STET_SUMMARY_MAGIC);
	h->volume_id = le64_make(volume_id);
	h->serial = le64_make(pseg->serial);
	h->prev_check = le64_make(pseg->prev_check);
	h->generation = le64_make(pseg->generation);
	h->durable = le64_make(pseg->durable);
	h->self = stet_format_place_make_(&pseg->self);
	h->next1 = stet_format_place_make_(&pseg->next1);
	h->next2 = stet_format_place_make_(&pseg->next2);
	h->batch = le64_make(pseg->batch);
	h->cut = le64_make(pseg->cut);
	h->wall_ns = le64_make((uint64_t)pseg->wall_ns);
	h->kind = (uint8_t)pseg->kind;
	h->flags = le16_make(pseg->flags);
	h->summary_blocks = le16_make(pseg->summary_blocks);
	h->payload_blocks = le16_make(pseg->payload_blocks);
	h->table_bytes = le32_make(pseg->table_bytes);
	h->record_bytes = le32_make(pseg->record_bytes);
	check = stet_crc64(summary, summary_bytes(pseg));
	h->check = le64_make(check);
	return check;
}

static void decode(const struct stet_pseg_disk *h, struct stet_pseg *pseg)
{
	*pseg = (struct stet_pseg){
		.serial = le64_get(h->serial),
		.prev_check = le64_get(h->prev_check),
		.generation = le64_get(h->generation),
		.durable = le64_get(h->durable),
		.self = stet_format_place_get_(&h->self),
		.next1 = stet_format_place_get_(&h->next1),
		.next2 = stet_format_place_get_(&h->next2),
		.batch = le64_get(h->batch),
		.cut = le64_get(h->cut),
		.wall_ns = (int64_t)le64_get(h->wall_ns),
		.kind = (enum stet_pseg_kind)h->kind,
		.flags = le16_get(h->flags),
		.summary_blocks = le16_get(h->summary_blocks),
		.payload_blocks = le16_get(h->payload_blocks),
		.table_bytes = le32_get(h->table_bytes),
		.record_bytes = le32_get(h->record_bytes),
		.check = le64_get(h->check),
	};
}

/* I1 */
static int verify_sizes(const struct stet_pseg *pseg, uint32_t seg_blocks)
{
	uint32_t blocks = (uint32_t)pseg->summary_blocks + pseg->payload_blocks;

	if (pseg->summary_blocks == 0 || blocks > seg_blocks)
		return STET_FAIL(-EUCLEAN, "summary: %u + %u blocks", pseg->summary_blocks,
				 pseg->payload_blocks);
	if ((uint64_t)HEADER_BYTES + pseg->table_bytes + pseg->record_bytes > summary_bytes(pseg))
		return STET_FAIL(-EUCLEAN, "summary: %" PRIu32 " + %" PRIu32 " bytes in %u blocks",
				 pseg->table_bytes, pseg->record_bytes, pseg->summary_blocks);
	if (stet_addr_is_none(pseg->self.addr) ||
	    !stet_format_place_valid_(&pseg->self, blocks, seg_blocks) ||
	    !stet_format_place_valid_(&pseg->next1, 1, seg_blocks) ||
	    !stet_format_place_valid_(&pseg->next2, 1, seg_blocks))
		return STET_FAIL(-EUCLEAN, "summary: places");
	return 0;
}

/* What the kind allows in the other fields. */
static int verify_kind(const struct stet_pseg *pseg)
{
	bool batch = pseg->kind == STET_PSEG_RECORDS || pseg->kind == STET_PSEG_COMMIT;

	if (pseg->kind < STET_PSEG_PAYLOAD || pseg->kind > STET_PSEG_IDLE)
		return STET_FAIL(-EUCLEAN, "summary: kind %u", (unsigned int)pseg->kind);
	if (pseg->flags & ~STET_PSEG_OFF_CHAIN)
		return STET_FAIL(-EUCLEAN, "summary: flags %#x", pseg->flags);
	if ((pseg->flags & STET_PSEG_OFF_CHAIN) &&
	    (pseg->kind != STET_PSEG_PAYLOAD || pseg->prev_check != 0 ||
	     !stet_addr_is_none(pseg->next1.addr) || !stet_addr_is_none(pseg->next2.addr)))
		return STET_FAIL(-EUCLEAN, "summary: off the chain, but linked");
	if (batch != (pseg->batch != 0) || (!batch && pseg->record_bytes > 0)) /* I3 */
		return STET_FAIL(-EUCLEAN, "summary: kind %u with batch %" PRIu64,
				 (unsigned int)pseg->kind, pseg->batch);
	if (pseg->kind == STET_PSEG_IDLE && (pseg->payload_blocks > 0 || pseg->table_bytes > 0))
		return STET_FAIL(-EUCLEAN, "summary: idle with payload");
	if (pseg->serial == 0 || pseg->durable > pseg->serial || pseg->cut > pseg->serial ||
	    (pseg->kind != STET_PSEG_COMMIT && pseg->cut != 0))
		return STET_FAIL(-EUCLEAN,
				 "summary: serial %" PRIu64 " durable %" PRIu64 " cut %" PRIu64,
				 pseg->serial, pseg->durable, pseg->cut);
	return 0;
}

int stet_pseg_decode(const uint8_t *block, uint64_t volume_id, uint32_t seg_blocks,
		     struct stet_pseg *ret_pseg)
{
	const struct stet_pseg_disk *h = (const struct stet_pseg_disk *)block;
	struct stet_pseg pseg;
	int rc;

	if (le64_get(h->magic) != STET_SUMMARY_MAGIC || le64_get(h->volume_id) != volume_id)
		return -ENOENT;
	decode(h, &pseg);
	rc = verify_sizes(&pseg, seg_blocks);
	if (rc)
		return rc;
	rc = verify_kind(&pseg);
	if (rc)
		return rc;
	*ret_pseg = pseg;
	return 0;
}

/* --- payload table --- */

int stet_payload_append(struct stet_buf *table, enum stet_payload_kind kind, uint64_t owner,
			uint64_t offset, const uint32_t *crcs, uint16_t block_count)
{
	struct stet_payload_disk disk = {
		.kind = (uint8_t)kind,
		.block_count = le16_make(block_count),
		.owner = le64_make(owner),
		.offset = le64_make(offset),
	};
	int rc;

	STET_ASSERT_CMP(block_count, >, 0);
	rc = stet_buf_reserve(table, PAYLOAD_HEADER_BYTES + CRC_BYTES * (size_t)block_count);
	if (rc)
		return rc;
	memcpy(table->p + table->len, &disk, sizeof(disk));
	table->len += sizeof(disk);
	for (uint32_t i = 0; i < block_count; i++) {
		stet_put_le32(table->p + table->len, crcs[i]);
		table->len += CRC_BYTES;
	}
	return 0;
}

/* Reads the entry at *pos of the table; false, changing nothing, at the end or when it is cut. */
static bool payload_at(const uint8_t *table, uint32_t table_bytes, uint32_t *pos,
		       struct stet_payload *ret)
{
	struct stet_payload_disk disk;
	uint32_t left = table_bytes - *pos;
	uint32_t crc_bytes;

	if (left < PAYLOAD_HEADER_BYTES)
		return false;
	memcpy(&disk, table + *pos, sizeof(disk));
	crc_bytes = CRC_BYTES * (uint32_t)le16_get(disk.block_count);
	if (left - PAYLOAD_HEADER_BYTES < crc_bytes)
		return false;
	*ret = (struct stet_payload){
		.kind = (enum stet_payload_kind)disk.kind,
		.block_count = le16_get(disk.block_count),
		.owner = le64_get(disk.owner),
		.offset = le64_get(disk.offset),
		.crcs = table + *pos + PAYLOAD_HEADER_BYTES,
	};
	*pos += PAYLOAD_HEADER_BYTES + crc_bytes;
	return true;
}

static bool payload_valid(const struct stet_payload *p)
{
	switch (p->kind) {
	case STET_PAYLOAD_DATA:
		return p->owner != 0 && p->offset < STET_FILE_BLOCKS_MAX &&
		       p->block_count <= STET_FILE_BLOCKS_MAX - p->offset;
	case STET_PAYLOAD_NODE:
		return (p->owner == STET_TREE_CATALOG || p->owner == STET_TREE_RUN) &&
		       p->offset <= STET_TREE_LEVEL_MAX && p->block_count % STET_NODE_BLOCKS == 0;
	case STET_PAYLOAD_TABLE:
		return p->owner == 0 && p->offset <= UINT32_MAX;
	case STET_PAYLOAD_CKPT:
		return p->owner == 0 && p->offset != 0;
	case STET_PAYLOAD_XATTR:
		return p->owner != 0 && p->offset == 0 && p->block_count <= STET_EXTENT_BLOCKS_MAX;
	default:
		return false;
	}
}

/* I2 */
static int verify_payload_table(const uint8_t *summary, const struct stet_pseg *pseg)
{
	struct stet_payload payload;
	uint32_t pos = 0;
	uint32_t blocks = 0;

	while (payload_at(summary + HEADER_BYTES, pseg->table_bytes, &pos, &payload)) {
		if (payload.block_count == 0 || !payload_valid(&payload))
			return STET_FAIL(-EUCLEAN,
					 "summary: payload kind %u owner %" PRIu64
					 " offset %" PRIu64 ", %u blocks",
					 (unsigned int)payload.kind, payload.owner, payload.offset,
					 payload.block_count);
		blocks += payload.block_count; /* at most table_bytes / 4 */
	}
	if (pos != pseg->table_bytes || blocks != pseg->payload_blocks)
		return STET_FAIL(-EUCLEAN, "summary: payload table: %" PRIu32 " blocks of %u",
				 blocks, pseg->payload_blocks);
	return 0;
}

bool stet_payload_next(const uint8_t *summary, const struct stet_pseg *pseg, uint32_t *pos,
		       uint32_t *first_block, struct stet_payload *ret)
{
	STET_ASSERT_CMP(*pos, <=, pseg->table_bytes);
	if (!payload_at(summary + HEADER_BYTES, pseg->table_bytes, pos, ret))
		return false;
	ret->first_block = *first_block;
	*first_block += ret->block_count;
	return true;
}

/* --- records --- */

int stet_record_append(struct stet_buf *records, enum stet_record_type type, const void *key,
		       size_t key_bytes, const void *value, size_t value_bytes)
{
	struct stet_record_disk disk = {
		.type = (uint8_t)type,
		.key_bytes = le16_make((uint16_t)key_bytes),
		.value_bytes = le32_make((uint32_t)value_bytes),
	};
	int rc;

	STET_ASSERT_CMP(key_bytes, <=, STET_ITEM_KEY_MAX);
	STET_ASSERT_CMP(value_bytes, <=, STET_PATCH_VALUE_MAX);
	rc = stet_buf_reserve(records, RECORD_HEADER_BYTES + key_bytes + value_bytes);
	if (rc)
		return rc;
	memcpy(records->p + records->len, &disk, sizeof(disk));
	records->len += sizeof(disk);
	if (key_bytes > 0)
		memcpy(records->p + records->len, key, key_bytes);
	records->len += key_bytes;
	if (value_bytes > 0)
		memcpy(records->p + records->len, value, value_bytes);
	records->len += value_bytes;
	return 0;
}

/* As payload_at. */
static bool record_at(const uint8_t *area, uint32_t area_bytes, uint32_t *pos,
		      struct stet_log_record *ret)
{
	struct stet_record_disk disk;
	uint32_t left = area_bytes - *pos;
	uint64_t body_bytes;

	if (left < RECORD_HEADER_BYTES)
		return false;
	memcpy(&disk, area + *pos, sizeof(disk));
	body_bytes = (uint64_t)le16_get(disk.key_bytes) + le32_get(disk.value_bytes);
	if (left - RECORD_HEADER_BYTES < body_bytes)
		return false;
	*ret = (struct stet_log_record){
		.type = (enum stet_record_type)disk.type,
		.key_bytes = le16_get(disk.key_bytes),
		.value_bytes = le32_get(disk.value_bytes),
		.key = area + *pos + RECORD_HEADER_BYTES,
		.value = area + *pos + RECORD_HEADER_BYTES + le16_get(disk.key_bytes),
	};
	*pos += RECORD_HEADER_BYTES + (uint32_t)body_bytes;
	return true;
}

/* The lengths that a type may have; false for types that version 1 does not know. */
static bool record_lengths_valid(const struct stet_log_record *rec)
{
	bool key = rec->key_bytes >= 1 && rec->key_bytes <= STET_ITEM_KEY_MAX;

	switch (rec->type) {
	case STET_REC_PUT:
		return key && rec->value_bytes <= STET_VALUE_MAX;
	case STET_REC_DEL:
		return key && rec->value_bytes == 0;
	case STET_REC_PATCH:
		return key && rec->value_bytes > STET_PATCH_HEADER_BYTES &&
		       rec->value_bytes <= STET_PATCH_VALUE_MAX;
	case STET_REC_RUN:
		return rec->key_bytes == 0 && rec->value_bytes == sizeof(struct stet_run_disk);
	case STET_REC_SEGMENT:
		return rec->key_bytes == 0 &&
		       rec->value_bytes == sizeof(struct stet_rec_segment_disk);
	case STET_REC_NEXT_INO:
		return rec->key_bytes == 0 && rec->value_bytes == sizeof(le64);
	default: /* DELETE_RANGE, SNAPSHOT, PREPARED are reserved */
		return false;
	}
}

/* I3 */
static int verify_records(const uint8_t *summary, const struct stet_pseg *pseg)
{
	const uint8_t *area = summary + HEADER_BYTES + pseg->table_bytes;
	struct stet_log_record rec;
	uint32_t pos = 0;

	while (record_at(area, pseg->record_bytes, &pos, &rec)) {
		if (!record_lengths_valid(&rec))
			return STET_FAIL(-EUCLEAN,
					 "summary: record type %u, %u + %" PRIu32 " bytes",
					 (unsigned int)rec.type, rec.key_bytes, rec.value_bytes);
	}
	if (pos != pseg->record_bytes)
		return STET_FAIL(-EUCLEAN, "summary: record cut at %" PRIu32 " of %" PRIu32, pos,
				 pseg->record_bytes);
	return 0;
}

bool stet_record_next(const uint8_t *summary, const struct stet_pseg *pseg, uint32_t *pos,
		      struct stet_log_record *ret)
{
	STET_ASSERT_CMP(*pos, <=, pseg->record_bytes);
	return record_at(summary + HEADER_BYTES + pseg->table_bytes, pseg->record_bytes, pos, ret);
}

int stet_pseg_verify(const uint8_t *summary, const struct stet_pseg *pseg)
{
	int rc;

	if (stet_format_check_(summary, summary_bytes(pseg),
			       offsetof(struct stet_pseg_disk, check)) != pseg->check)
		return STET_FAIL(-EUCLEAN, "summary: serial %" PRIu64 ": bad checksum",
				 pseg->serial);
	rc = verify_payload_table(summary, pseg);
	if (rc)
		return rc;
	return verify_records(summary, pseg);
}

static int verify_patch(const struct stet_log_record *rec, uint32_t seg_blocks)
{
	struct stet_addr base = { stet_get_le64(rec->value) };
	uint32_t offset = stet_get_le32(rec->value + PATCH_OFFSET_AT);
	uint32_t bytes = rec->value_bytes - STET_PATCH_HEADER_BYTES;

	if (stet_key_get_kind(rec->key) != STET_KIND_EXTENT)
		return STET_FAIL(-EUCLEAN, "record: patch of kind %u", stet_key_get_kind(rec->key));
	if (bytes > STET_BLOCK_SIZE || offset > STET_BLOCK_SIZE - bytes)
		return STET_FAIL(-EUCLEAN, "record: patch of %" PRIu32 " bytes at %" PRIu32, bytes,
				 offset);
	if (base.v != STET_PATCH_BASE_CURRENT && base.v != STET_PATCH_BASE_HOLE &&
	    !stet_addr_fits(base, 1, seg_blocks))
		return STET_FAIL(-EUCLEAN, "record: patch of block " STET_ADDR_FMT,
				 STET_ADDR_ARG(base));
	return 0;
}

int stet_record_verify(const struct stet_log_record *rec, uint32_t seg_blocks)
{
	struct stet_rec_segment seg;
	struct stet_run run;
	int rc;

	if (!record_lengths_valid(rec))
		return STET_FAIL(-EUCLEAN, "record: type %u, %u + %" PRIu32 " bytes",
				 (unsigned int)rec->type, rec->key_bytes, rec->value_bytes);
	switch (rec->type) {
	case STET_REC_PUT:
		return stet_item_verify(rec->key, rec->key_bytes, rec->value, rec->value_bytes,
					seg_blocks);
	case STET_REC_DEL:
		return stet_key_verify(rec->key, rec->key_bytes);
	case STET_REC_PATCH:
		rc = stet_key_verify(rec->key, rec->key_bytes);
		return rc ? rc : verify_patch(rec, seg_blocks);
	case STET_REC_RUN:
		return stet_run_decode(rec->value, rec->value_bytes, &run);
	case STET_REC_SEGMENT:
		return stet_rec_segment_decode(rec->value, rec->value_bytes, &seg);
	default: /* NEXT_INO */
		if (stet_get_le64(rec->value) < STET_ROOT_INO)
			return STET_FAIL(-EUCLEAN, "record: next inode 0");
		return 0;
	}
}

void stet_rec_segment_encode(const struct stet_rec_segment *seg, struct stet_rec_segment_disk *out)
{
	out->id = le64_make(seg->id);
	out->slot = le32_make(seg->slot);
	out->kind = seg->kind;
}

int stet_rec_segment_decode(const void *in, size_t len_bytes, struct stet_rec_segment *ret_seg)
{
	const struct stet_rec_segment_disk *disk = in;
	struct stet_rec_segment seg;

	if (len_bytes != sizeof(*disk))
		return STET_FAIL(-EUCLEAN, "segment record: %zu bytes", len_bytes);
	seg = (struct stet_rec_segment){
		.id = le64_get(disk->id),
		.slot = le32_get(disk->slot),
		.kind = disk->kind,
	};
	if (seg.id == 0 || seg.id > STET_SEG_ID_MAX || seg.slot == STET_SLOT_NONE ||
	    seg.kind >= STET_SEGK_COUNT)
		return STET_FAIL(-EUCLEAN,
				 "segment record: id %" PRIu64 " slot %" PRIu32 " kind %u", seg.id,
				 seg.slot, seg.kind);
	*ret_seg = seg;
	return 0;
}

void stet_run_encode(const struct stet_run *run, struct stet_run_disk *out)
{
	memset(out, 0, sizeof(*out));
	stet_node_ptr_encode(&run->root, &out->root);
	out->root_level = le32_make(run->root_level);
	out->serial = le64_make(run->serial);
	out->commit_ns = le64_make((uint64_t)run->commit_ns);
	out->item_count = le64_make(run->item_count);
}

int stet_run_decode(const void *in, size_t len_bytes, struct stet_run *ret_run)
{
	const struct stet_run_disk *disk = in;
	struct stet_run run;

	if (len_bytes != sizeof(*disk))
		return STET_FAIL(-EUCLEAN, "run: %zu bytes", len_bytes);
	stet_node_ptr_decode(&disk->root, &run.root);
	run.root_level = le32_get(disk->root_level);
	run.serial = le64_get(disk->serial);
	run.commit_ns = (int64_t)le64_get(disk->commit_ns);
	run.item_count = le64_get(disk->item_count);
	if (!stet_format_node_ptr_valid_(&run.root) || run.root_level > STET_TREE_LEVEL_MAX ||
	    run.item_count == 0)
		return STET_FAIL(-EUCLEAN,
				 "run: root " STET_ADDR_FMT " level %" PRIu32 ", %" PRIu64 " items",
				 STET_ADDR_ARG(run.root.addr), run.root_level, run.item_count);
	*ret_run = run;
	return 0;
}

/* --- print --- */

void stet_pseg_print(struct stet_text *t, const struct stet_pseg *pseg)
{
	static const char *const kind_name[] = { "?",      "payload",    "records",
						 "commit", "checkpoint", "idle" };

	stet_text_printf(t, "%s serial %" PRIu64 " generation %" PRIu64 " durable %" PRIu64,
			 kind_name[pseg->kind <= STET_PSEG_IDLE ? pseg->kind : 0], pseg->serial,
			 pseg->generation, pseg->durable);
	if (pseg->batch != 0)
		stet_text_printf(t, " batch %" PRIu64, pseg->batch);
	if (pseg->cut != 0)
		stet_text_printf(t, " cut %" PRIu64, pseg->cut);
	if (pseg->flags & STET_PSEG_OFF_CHAIN)
		stet_text_puts(t, " off-chain");
	stet_format_place_print_(t, "at", &pseg->self);
	stet_format_place_print_(t, "next1", &pseg->next1);
	stet_format_place_print_(t, "next2", &pseg->next2);
	stet_text_printf(t,
			 " blocks %u+%u table %" PRIu32 " records %" PRIu32 " time %" PRId64
			 " check %016" PRIx64 " after %016" PRIx64,
			 pseg->summary_blocks, pseg->payload_blocks, pseg->table_bytes,
			 pseg->record_bytes, pseg->wall_ns, pseg->check, pseg->prev_check);
}

static void print_run(struct stet_text *t, const struct stet_log_record *rec)
{
	struct stet_run run;

	if (stet_run_decode(rec->value, rec->value_bytes, &run)) {
		stet_text_puts(t, "run (damaged)");
		return;
	}
	stet_text_puts(t, "run ");
	stet_format_node_ptr_print_(t, &run.root);
	stet_text_printf(t, " level %" PRIu32 " serial %" PRIu64 " time %" PRId64 " items %" PRIu64,
			 run.root_level, run.serial, run.commit_ns, run.item_count);
}

void stet_record_print(struct stet_text *t, const struct stet_log_record *rec)
{
	struct stet_rec_segment seg;

	if (!record_lengths_valid(rec)) {
		stet_text_printf(t, "record type %u, %u + %" PRIu32 " bytes",
				 (unsigned int)rec->type, rec->key_bytes, rec->value_bytes);
		return;
	}
	switch (rec->type) {
	case STET_REC_PUT:
		stet_text_puts(t, "put ");
		stet_key_print(t, rec->key, rec->key_bytes);
		stet_text_puts(t, ": ");
		stet_value_print(t, rec->key, rec->key_bytes, rec->value, rec->value_bytes);
		return;
	case STET_REC_DEL:
		stet_text_puts(t, "delete ");
		stet_key_print(t, rec->key, rec->key_bytes);
		return;
	case STET_REC_PATCH:
		stet_text_puts(t, "patch ");
		stet_key_print(t, rec->key, rec->key_bytes);
		stet_text_printf(t, ": %" PRIu32 " bytes at %" PRIu32,
				 rec->value_bytes - STET_PATCH_HEADER_BYTES,
				 stet_get_le32(rec->value + PATCH_OFFSET_AT));
		return;
	case STET_REC_RUN:
		print_run(t, rec);
		return;
	case STET_REC_SEGMENT:
		if (stet_rec_segment_decode(rec->value, rec->value_bytes, &seg))
			stet_text_puts(t, "segment (damaged)");
		else
			stet_text_printf(t, "segment %" PRIu64 " in slot %" PRIu32 " kind %u",
					 seg.id, seg.slot, seg.kind);
		return;
	default: /* NEXT_INO */
		stet_text_printf(t, "next inode %" PRIu64, stet_get_le64(rec->value));
		return;
	}
}
