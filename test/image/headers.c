/* headers.c - fields of superblocks, slots, records, table pages, nodes and summaries, one at a time.
 *
 * A field is *free* when another value in its range makes another volume rather than a wrong one: a time, a
 * label, what of the log counts. All others have a rule that open or check must notice.
 */
#include "mutation.h"

#include "base/assert.h"

#include <stddef.h>
#include <string.h>

struct field {
	const char *name;
	uint16_t at;
	uint8_t width;
	bool free;
};

#define FIELD(type, member, is_free)                                \
	{                                                           \
#member, (uint16_t)offsetof(struct type, member),   \
			sizeof(((struct type *)0)->member), is_free \
	}
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct field superblock_fields[] = {
	FIELD(stet_superblock_disk, magic, false),
	FIELD(stet_superblock_disk, version, false),
	FIELD(stet_superblock_disk, copy, false),
	FIELD(stet_superblock_disk, volume_id, false),
	FIELD(stet_superblock_disk, feature_compat, false),
	FIELD(stet_superblock_disk, feature_ro_compat, false),
	FIELD(stet_superblock_disk, feature_incompat, false),
	FIELD(stet_superblock_disk, device_blocks, false),
	FIELD(stet_superblock_disk, seg_start_block, false),
	FIELD(stet_superblock_disk, slot_count, false),
	FIELD(stet_superblock_disk, seg_blocks, false),
	FIELD(stet_superblock_disk, node_size_bytes, false),
	FIELD(stet_superblock_disk, checksum_kind, false),
	FIELD(stet_superblock_disk, compress, false),
	FIELD(stet_superblock_disk, meta_copies, false),
	FIELD(stet_superblock_disk, data_copies, false),
};

static const struct field slot_fields[] = {
	FIELD(stet_ckpt_slot_disk, magic, false),
	FIELD(stet_ckpt_slot_disk, volume_id, false),
	FIELD(stet_ckpt_slot_disk, sequence, false),
	FIELD(stet_ckpt_slot_disk, cut, false),
	FIELD(stet_ckpt_slot_disk, record.addr, false),
	FIELD(stet_ckpt_slot_disk, record.slot, false),
	FIELD(stet_ckpt_slot_disk, record_bytes, false),
};

static const struct field record_fields[] = {
	FIELD(stet_ckpt_record_disk, magic, false),
	FIELD(stet_ckpt_record_disk, volume_id, false),
	FIELD(stet_ckpt_record_disk, sequence, true),
	FIELD(stet_ckpt_record_disk, cut, true),
	FIELD(stet_ckpt_record_disk, generation, true),
	FIELD(stet_ckpt_record_disk, wall_ns, true),
	FIELD(stet_ckpt_record_disk, root.addr, true), /* none: an empty catalog at this cut */
	FIELD(stet_ckpt_record_disk, root.addr2, false),
	FIELD(stet_ckpt_record_disk, root_level, false),
	FIELD(stet_ckpt_record_disk, page_count, false),
	FIELD(stet_ckpt_record_disk, chain_next1.addr, true),
	FIELD(stet_ckpt_record_disk, chain_next1.slot, true),
	FIELD(stet_ckpt_record_disk, chain_next2.addr, true),
	FIELD(stet_ckpt_record_disk, chain_next2.slot, true),
	FIELD(stet_ckpt_record_disk, chain_serial, true),
	FIELD(stet_ckpt_record_disk, next_ino, false),
	FIELD(stet_ckpt_record_disk, next_seg_id, false),
	FIELD(stet_ckpt_record_disk, inode_count, false),
	FIELD(stet_ckpt_record_disk, data_blocks, false),
	FIELD(stet_ckpt_record_disk, node_blocks, false),
	FIELD(stet_ckpt_record_disk, prev_record.addr, false),
	FIELD(stet_ckpt_record_disk, prev_record.slot, false),
	FIELD(stet_ckpt_record_disk, prev_bytes, false),
	FIELD(stet_ckpt_record_disk, prev_check, false),
};

static const struct field page_fields[] = {
	FIELD(stet_table_page_disk, magic, false),
	FIELD(stet_table_page_disk, volume_id, false),
	FIELD(stet_table_page_disk, sequence, false),
	FIELD(stet_table_page_disk, page_no, false),
	FIELD(stet_table_page_disk, first_slot, false),
	FIELD(stet_table_page_disk, slot_count, false),
	FIELD(stet_table_page_disk, seg_blocks, false),
};

static const struct field entry_fields[] = {
	FIELD(stet_seg_entry_disk, id, true), /* the log may adopt what the table does not know */
	FIELD(stet_seg_entry_disk, opened, false),
	FIELD(stet_seg_entry_disk, last_death, false),
	FIELD(stet_seg_entry_disk, live_blocks, false),
	FIELD(stet_seg_entry_disk, state, false),
	FIELD(stet_seg_entry_disk, kind, false),
};

static const struct field node_fields[] = {
	FIELD(stet_node_disk, magic, false),
	FIELD(stet_node_disk, volume_id, false),
	FIELD(stet_node_disk, birth, true),
	FIELD(stet_node_disk, tree, false),
	FIELD(stet_node_disk, level, false),
	FIELD(stet_node_disk, item_count, true), /* attributes are not missed */
	FIELD(stet_node_disk, items_start, false),
	FIELD(stet_node_disk, low_bytes, false),
	FIELD(stet_node_disk, high_bytes, false),
	FIELD(stet_node_disk, prefix_bytes, false),
};

static const struct field summary_fields[] = {
	FIELD(stet_pseg_disk, magic, true),          FIELD(stet_pseg_disk, volume_id, true),
	FIELD(stet_pseg_disk, serial, true),         FIELD(stet_pseg_disk, prev_check, true),
	FIELD(stet_pseg_disk, generation, true),     FIELD(stet_pseg_disk, durable, true),
	FIELD(stet_pseg_disk, self.addr, true),      FIELD(stet_pseg_disk, self.slot, true),
	FIELD(stet_pseg_disk, next1.addr, true),     FIELD(stet_pseg_disk, next1.slot, true),
	FIELD(stet_pseg_disk, next2.addr, true),     FIELD(stet_pseg_disk, next2.slot, true),
	FIELD(stet_pseg_disk, batch, true),          FIELD(stet_pseg_disk, cut, true),
	FIELD(stet_pseg_disk, wall_ns, true),        FIELD(stet_pseg_disk, kind, true),
	FIELD(stet_pseg_disk, flags, true),          FIELD(stet_pseg_disk, summary_blocks, true),
	FIELD(stet_pseg_disk, payload_blocks, true), FIELD(stet_pseg_disk, table_bytes, true),
	FIELD(stet_pseg_disk, record_bytes, true),
};

static void change_field(struct mutation *m, uint8_t *p, const struct field *fields, size_t n)
{
	const struct field *f = &fields[mutation_pick(m, n)];

	mutate_int(m, p + f->at, f->width, f->name);
	m->free = m->free || f->free;
}

static bool change_part(struct mutation *m, enum part_kind kind, const char *name,
			const struct field *fields, size_t n)
{
	uint8_t buf[PART_BYTES_MAX];
	uint32_t part;

	if (!mutation_part(m, kind, &part))
		return false;
	mutation_note(m, " %s at %llu", name,
		      (unsigned long long)m->base->atlas->parts.v[part].off);
	patient_load(&m->patient, part, buf);
	change_field(m, buf, fields, n);
	patient_store(&m->patient, part, buf);
	return true;
}

/* A place becomes that of another summary, slot and all: a log that loops, or leads into something else. */
static bool change_place(struct mutation *m)
{
	static const uint16_t places[] = {
		offsetof(struct stet_pseg_disk, self),
		offsetof(struct stet_pseg_disk, next1),
		offsetof(struct stet_pseg_disk, next2),
	};
	const struct atlas *a = m->base->atlas;
	uint8_t buf[PART_BYTES_MAX];
	uint32_t part, other;
	uint16_t at = places[mutation_pick(m, 3)];

	if (mutation_chance(m, 30)) {
		if (!mutation_part(m, PART_RECORD, &part))
			return false;
		at = mutation_chance(m, 50) ? offsetof(struct stet_ckpt_record_disk, chain_next1)
					    : offsetof(struct stet_ckpt_record_disk, chain_next2);
	} else if (!mutation_part(m, PART_SUMMARY, &part)) {
		return false;
	}
	do
		other = (uint32_t)mutation_pick(m, a->parts.n);
	while (a->parts.v[other].kind != PART_SUMMARY);
	mutation_note(m, " place at %llu + %u -> that of the summary at %llu",
		      (unsigned long long)a->parts.v[part].off, at,
		      (unsigned long long)a->parts.v[other].off);
	patient_load(&m->patient, part, buf);
	memcpy(buf + at, a->bytes + a->parts.v[other].off + offsetof(struct stet_pseg_disk, self),
	       sizeof(struct stet_place_disk));
	patient_store(&m->patient, part, buf);
	m->free = true;
	return true;
}

/* The root becomes another node, its check and all; half of the time with the right level. */
static bool change_root(struct mutation *m)
{
	const struct atlas *a = m->base->atlas;
	uint8_t buf[PART_BYTES_MAX];
	uint32_t part, other;

	if (!mutation_part(m, PART_RECORD, &part) || !mutation_part(m, PART_NODE, &other))
		return false;
	mutation_note(m, " record at %llu: root -> the node at %llu",
		      (unsigned long long)a->parts.v[part].off,
		      (unsigned long long)a->parts.v[other].off);
	patient_load(&m->patient, part, buf);
	stet_put_le64(buf + offsetof(struct stet_ckpt_record_disk, root), a->parts.v[other].addr.v);
	memcpy(buf + offsetof(struct stet_ckpt_record_disk, root) + 16,
	       a->bytes + a->parts.v[other].off + offsetof(struct stet_node_disk, birth), 16);
	if (mutation_chance(m, 50))
		stet_put_le32(buf + offsetof(struct stet_ckpt_record_disk, root_level),
			      a->parts.v[other].level);
	patient_store(&m->patient, part, buf);
	return true;
}

/* The same change in all copies, or in one. */
static bool change_superblocks(struct mutation *m)
{
	const struct atlas *a = m->base->atlas;
	const struct field *f = &superblock_fields[mutation_pick(m, COUNT(superblock_fields))];
	bool all = mutation_chance(m, 75);
	uint8_t value[8], buf[STET_BLOCK_SIZE];
	uint32_t first = a->kind_first[PART_SUPERBLOCK][mutation_pick(m, 3)];

	mutation_note(m, " superblock%s", all ? "s" : "");
	patient_load(&m->patient, first, buf);
	mutate_int(m, buf + f->at, f->width, f->name);
	memcpy(value, buf + f->at, f->width);
	for (uint32_t i = 0; i < a->kind_n[PART_SUPERBLOCK]; i++) {
		uint32_t part = a->kind_first[PART_SUPERBLOCK][i];

		if (!all && part != first)
			continue;
		patient_load(&m->patient, part, buf);
		memcpy(buf + f->at, value, f->width);
		patient_store(&m->patient, part, buf);
	}
	return true;
}

/* --- table pages --- */

static uint32_t recount(const uint8_t *bitmap, uint32_t bytes)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < bytes; i++)
		n += (uint32_t)__builtin_popcount(bitmap[i]);
	return n;
}

/* Bits of a bitmap, and the count that goes with them. */
static void change_bitmap(struct mutation *m, uint8_t *entry, uint32_t bytes)
{
	uint8_t *bitmap = entry + sizeof(struct stet_seg_entry_disk);
	uint32_t bit = (uint32_t)mutation_pick(m, bytes * 8);

	switch (mutation_pick(m, 4)) {
	case 0:
		memset(bitmap, 0, bytes);
		mutation_note(m, " bitmap cleared");
		break;
	case 1:
		memset(bitmap, 0xff, bytes);
		mutation_note(m, " bitmap filled");
		break;
	default:
		bitmap[bit / 8] ^= (uint8_t)(1u << bit % 8);
		mutation_note(m, " bit %u", bit);
		break;
	}
	stet_put_le32(entry + offsetof(struct stet_seg_entry_disk, live_blocks),
		      recount(bitmap, bytes));
}

static bool change_entry(struct mutation *m)
{
	uint32_t bitmap_bytes = m->base->atlas->sb.seg_blocks / 8;
	uint32_t entry_bytes = (uint32_t)sizeof(struct stet_seg_entry_disk) + bitmap_bytes;
	uint8_t page[STET_BLOCK_SIZE];
	uint32_t part, count, no;
	uint8_t *entry;

	if (!mutation_part(m, PART_PAGE, &part))
		return false;
	patient_load(&m->patient, part, page);
	count = stet_get_le32(page + offsetof(struct stet_table_page_disk, slot_count));
	count = count < 62 ? count : 62; /* an earlier change may have made it anything */
	no = (uint32_t)mutation_pick(m, count);
	entry = page + sizeof(struct stet_table_page_disk) + (size_t)no * entry_bytes;
	mutation_note(m, " table page at %llu entry %u",
		      (unsigned long long)m->base->atlas->parts.v[part].off, no);
	if (mutation_chance(m, 50)) {
		change_bitmap(m, entry, bitmap_bytes);
	} else if (mutation_chance(m, 20)) {
		uint8_t *other = page + sizeof(struct stet_table_page_disk) +
				 (size_t)mutation_pick(m, count) * entry_bytes;

		mutation_note(m, " id of another");
		memcpy(entry, other, 8);
		m->free = true;
	} else {
		change_field(m, entry, entry_fields, COUNT(entry_fields));
	}
	patient_store(&m->patient, part, page);
	return true;
}

/* --- payload tables --- */

static const struct field payload_fields[] = {
	FIELD(stet_payload_disk, kind, true),
	FIELD(stet_payload_disk, block_count, true),
	FIELD(stet_payload_disk, owner, true),
	FIELD(stet_payload_disk, offset, true),
};

static bool change_payload(struct mutation *m)
{
	uint8_t buf[PART_BYTES_MAX];
	struct stet_payload entry;
	struct stet_pseg pseg;
	uint32_t part, pos = 0, first = 0;

	if (!mutation_part(m, PART_SUMMARY, &part))
		return false;
	patient_load(&m->patient, part, buf);
	if (stet_pseg_decode(buf, m->base->atlas->sb.volume_id, m->base->atlas->sb.seg_blocks,
			     &pseg) ||
	    !stet_payload_next(buf, &pseg, &pos, &first, &entry))
		return false;
	mutation_note(m, " payload entry of serial %llu", (unsigned long long)pseg.serial);
	change_field(m, buf + sizeof(struct stet_pseg_disk), payload_fields, COUNT(payload_fields));
	patient_store(&m->patient, part, buf);
	return true;
}

/* --- anything --- */

/* Random bytes in a structure whose checksums are then right: nothing can be said of the outcome. */
static bool change_bytes(struct mutation *m)
{
	uint8_t buf[PART_BYTES_MAX];
	uint32_t part, len;
	size_t at, n;

	if (!mutation_part(m, (enum part_kind)mutation_pick(m, PART_KINDS), &part))
		return false;
	len = m->base->atlas->parts.v[part].len;
	at = mutation_chance(m, 50) ? mutation_pick(m, len) : mutation_pick(m, 256);
	n = 1 + mutation_pick(m, mutation_chance(m, 70) ? 8 : 200);
	if (n > len - at)
		n = len - at;
	mutation_note(m, " %zu random bytes at %llu + %zu", n,
		      (unsigned long long)m->base->atlas->parts.v[part].off, at);
	patient_load(&m->patient, part, buf);
	stet_random_bytes(&m->random, buf + at, n);
	patient_store(&m->patient, part, buf);
	m->free = true;
	return true;
}

bool mutate_header(struct mutation *m)
{
	switch (mutation_pick(m, 18)) {
	case 0:
		return change_superblocks(m);
	case 1:
		return change_part(m, PART_SLOT, "slot", slot_fields, COUNT(slot_fields));
	case 2:
	case 3:
	case 4:
		return change_part(m, PART_RECORD, "record", record_fields, COUNT(record_fields));
	case 5:
		return change_part(m, PART_PAGE, "table page", page_fields, COUNT(page_fields));
	case 6:
	case 7:
		return change_entry(m);
	case 8:
	case 9:
		return change_part(m, PART_NODE, "node", node_fields, COUNT(node_fields));
	case 10:
	case 11:
	case 12:
		return change_part(m, PART_SUMMARY, "summary", summary_fields,
				   COUNT(summary_fields));
	case 13:
		return change_payload(m);
	case 14:
		return change_place(m);
	case 15:
		return change_root(m);
	default:
		return change_bytes(m);
	}
}
