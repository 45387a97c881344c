/* atlas.c - finds every structure of an image from the superblock on.
 *
 * A1. The image is whole: what does not verify here is a bug of the test or of the writer, and ends it.
 * A2. Summaries are found by looking at each block, so also those of segments that nothing names any more.
 *     All others are reached: slots, records, pages, nodes of both roots and of all runs in the log, data.
 * A3. A part that is reached twice (two roots share most nodes) is one part with several refs.
 */
#include "atlas.h"

#include "base/assert.h"
#include "base/crc.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_PART UINT32_MAX

static void need(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "atlas: %s: %d (%s)\n", what, rc, stet_error_text());
	exit(1);
}

static uint32_t seg_blocks(const struct atlas *a)
{
	return a->sb.seg_blocks;
}

static uint64_t slot_offset(const struct atlas *a, uint32_t slot)
{
	return (a->sb.seg_start_block + (uint64_t)slot * seg_blocks(a)) * STET_BLOCK_SIZE;
}

uint64_t atlas_offset(const struct atlas *a, struct stet_addr addr)
{
	if (stet_addr_block(addr) >= seg_blocks(a))
		return UINT64_MAX;
	for (size_t i = 0; i < a->segments.n; i++)
		if (stet_addr_seg(a->segments.v[i].addr) == stet_addr_seg(addr))
			return slot_offset(a, a->segments.v[i].slot) +
			       (uint64_t)stet_addr_block(addr) * STET_BLOCK_SIZE;
	return UINT64_MAX;
}

static uint64_t must_offset(const struct atlas *a, struct stet_addr addr)
{
	uint64_t off = atlas_offset(a, addr);

	need(off == UINT64_MAX ? -ESTALE : 0, "an address leads nowhere");
	return off;
}

static void learn_segment(struct atlas *a, uint64_t id, uint32_t slot)
{
	const struct stet_place place = { .addr = stet_addr_make(id, 0), .slot = slot };

	if (atlas_offset(a, place.addr) == UINT64_MAX)
		need(stet_vec_push(&a->segments, place), "memory");
}

/* The part at off, made if need be; *ret_new tells. */
static uint32_t add_part(struct atlas *a, enum part_kind kind, uint64_t off, uint32_t len,
			 bool *ret_new)
{
	const struct part part = { .kind = kind, .off = off, .len = len, .live = true };

	for (size_t i = 0; i < a->parts.n; i++) {
		*ret_new = false;
		if (a->parts.v[i].off == off && a->parts.v[i].kind == kind)
			return (uint32_t)i;
	}
	*ret_new = true;
	need(stet_vec_push(&a->parts, part), "memory");
	return (uint32_t)a->parts.n - 1;
}

static void add_ref(struct atlas *a, enum ref_kind kind, uint32_t target, uint32_t holder,
		    uint64_t at, uint32_t block)
{
	const struct ref ref = {
		.target = target,
		.holder = holder,
		.kind = kind,
		.at = (uint32_t)at,
		.block = block,
	};

	need(stet_vec_push(&a->refs, ref), "memory");
}

/* --- items --- */

static void add_data(struct atlas *a, const struct item_place *item)
{
	const uint8_t *value = a->bytes + a->parts.v[item->part].off + item->value_at;
	struct stet_extent e;

	if (stet_extent_decode(value, item->value_bytes, seg_blocks(a), &e))
		return;
	for (uint32_t i = 0; i < e.phys_blocks; i++) {
		struct stet_addr addr = stet_addr_add(e.addr, i);
		uint64_t off = atlas_offset(a, addr);
		uint32_t part;
		bool is_new;

		if (off == UINT64_MAX)
			continue; /* of a root that is history */
		part = add_part(a, PART_DATA, off, STET_BLOCK_SIZE, &is_new);
		a->parts.v[part].addr = addr;
		add_ref(a, REF_BLOCK_CRC, part, item->part,
			item->value_at + sizeof(struct stet_extent_disk) + 4 * (uint64_t)i, 0);
	}
}

void atlas_key(const struct atlas *a, const struct item_place *item, struct stet_key *ret)
{
	const uint8_t *part = a->bytes + a->parts.v[item->part].off;

	ret->bytes = item->key_bytes;
	if (item->prefix_bytes > 0)
		memcpy(ret->b, part + STET_NODE_SIZE - item->prefix_bytes, item->prefix_bytes);
	memcpy(ret->b + item->prefix_bytes, part + item->key_at,
	       item->key_bytes - item->prefix_bytes);
}

static void add_item(struct atlas *a, const struct item_place *item)
{
	struct item_place place = *item;
	struct stet_key key;

	if (place.kind == 1) {
		atlas_key(a, item, &key);
		place.kind = stet_key_get_kind(key.b);
	}
	need(stet_vec_push(&a->items, place), "memory");
	if (place.kind == STET_KIND_EXTENT && place.rec != STET_REC_PATCH && place.value_bytes > 0)
		add_data(a, &place);
}

/* --- nodes --- */

static void add_node(struct atlas *a, uint32_t tree, uint32_t level,
		     const struct stet_node_ptr *ptr, uint32_t holder, uint64_t at);

static void add_node_items(struct atlas *a, uint32_t part, uint32_t tree, uint32_t level)
{
	const uint8_t *node = a->bytes + a->parts.v[part].off;
	const uint8_t *table = node + sizeof(struct stet_node_disk);
	uint16_t prefix_bytes = le16_get(((const struct stet_node_disk *)node)->prefix_bytes);

	for (uint32_t i = 0; i < stet_node_count(node); i++) {
		uint32_t head = stet_get_le16(table + 2 * (size_t)i);
		struct stet_node_ptr ptr;
		struct stet_item item;
		struct stet_key key;

		stet_node_item(node, i, &item);
		stet_node_key(node, i, &key);
		const struct item_place place = {
			.part = part,
			.key_at = head + STET_ITEM_HEADER_BYTES,
			.value_at = (uint32_t)(item.value - node),
			.key_bytes = key.bytes,
			.prefix_bytes = prefix_bytes,
			.value_bytes = item.value_bytes,
			.kind = level == 0, /* add_item finds out */
			.head = head,
		};
		add_item(a, &place);
		if (level == 0)
			continue;
		stet_node_ptr_decode((const struct stet_node_ptr_disk *)item.value, &ptr);
		add_node(a, tree, level - 1, &ptr, part, place.value_at);
	}
}

/* at: of the pointer in its holder. */
static void add_node(struct atlas *a, uint32_t tree, uint32_t level,
		     const struct stet_node_ptr *ptr, uint32_t holder, uint64_t at)
{
	uint64_t off = must_offset(a, ptr->addr);
	bool is_new;
	uint32_t part = add_part(a, PART_NODE, off, STET_NODE_SIZE, &is_new);

	add_ref(a, REF_POINTER, part, holder, at + offsetof(struct stet_node_ptr_disk, birth), 0);
	if (!is_new)
		return;
	need(stet_node_verify(a->bytes + off, a->sb.volume_id, tree, level, ptr), "node");
	a->parts.v[part].tree = tree;
	a->parts.v[part].level = level;
	a->parts.v[part].addr = ptr->addr;
	if (!stet_addr_is_none(ptr->addr2))
		a->parts.v[part].off2 = must_offset(a, ptr->addr2);
	add_node_items(a, part, tree, level);
}

/* --- summaries --- */

static void add_records(struct atlas *a, uint32_t part, const struct stet_pseg *pseg, bool live)
{
	const uint8_t *summary = a->bytes + a->parts.v[part].off;
	struct stet_log_record rec;
	uint32_t pos = 0;

	while (live && stet_record_next(summary, pseg, &pos, &rec)) {
		const struct item_place place = {
			.part = part,
			.key_at = (uint32_t)(rec.key - summary),
			.value_at = (uint32_t)(rec.value - summary),
			.key_bytes = rec.key_bytes,
			.value_bytes = rec.value_bytes,
			.kind = rec.key_bytes > 0,
			.rec = (uint8_t)rec.type,
			.head = (uint32_t)(rec.key - summary) -
				(uint32_t)sizeof(struct stet_record_disk),
		};
		struct stet_run run;

		add_item(a, &place);
		if (rec.type != STET_REC_RUN)
			continue;
		need(stet_run_decode(rec.value, rec.value_bytes, &run), "run");
		add_node(a, STET_TREE_RUN, run.root_level, &run.root, part, place.value_at);
	}
}

static void note_segments(struct atlas *a, const uint8_t *summary, const struct stet_pseg *pseg)
{
	struct stet_rec_segment seg;
	struct stet_log_record rec;
	uint32_t pos = 0;

	learn_segment(a, stet_addr_seg(pseg->self.addr), pseg->self.slot);
	while (stet_record_next(summary, pseg, &pos, &rec))
		if (rec.type == STET_REC_SEGMENT &&
		    !stet_rec_segment_decode(rec.value, rec.value_bytes, &seg))
			learn_segment(a, seg.id, seg.slot);
}

/* The summary at the device block, if one is there. */
static bool summary_at(const struct atlas *a, uint32_t slot, uint32_t block, struct stet_pseg *ret)
{
	const uint8_t *bytes = a->bytes + slot_offset(a, slot) + (uint64_t)block * STET_BLOCK_SIZE;

	return !stet_pseg_decode(bytes, a->sb.volume_id, seg_blocks(a), ret) &&
	       ret->self.slot == slot && stet_addr_block(ret->self.addr) == block &&
	       !stet_pseg_verify(bytes, ret);
}

static void add_summary(struct atlas *a, const struct stet_pseg *pseg, uint64_t off)
{
	bool is_new;
	uint32_t part = add_part(a, PART_SUMMARY, off, pseg->summary_blocks * STET_BLOCK_SIZE,
				 &is_new);

	a->parts.v[part].serial = pseg->serial;
	a->parts.v[part].chain = !(pseg->flags & STET_PSEG_OFF_CHAIN);
	a->parts.v[part].live = false;
}

static void find_summaries(struct atlas *a)
{
	for (uint32_t slot = 0; slot < a->sb.slot_count; slot++) {
		uint64_t newest = 0; /* segment id: what has a lower one is left over */

		for (int pass = 0; pass < 2; pass++) {
			for (uint32_t block = 0; block < seg_blocks(a); block++) {
				struct stet_pseg pseg;
				uint64_t off = slot_offset(a, slot) +
					       (uint64_t)block * STET_BLOCK_SIZE;

				if (!summary_at(a, slot, block, &pseg))
					continue;
				if (stet_addr_seg(pseg.self.addr) > newest)
					newest = stet_addr_seg(pseg.self.addr);
				if (pass == 0 || stet_addr_seg(pseg.self.addr) != newest)
					continue;
				note_segments(a, a->bytes + off, &pseg);
				add_summary(a, &pseg, off);
			}
		}
	}
}

/* --- the checkpoints --- */

static void add_pages(struct atlas *a, uint32_t record, const struct stet_ckpt_record *rec)
{
	const uint8_t *bytes = a->bytes + a->parts.v[record].off;

	for (uint32_t i = 0; i < rec->page_count; i++) {
		struct stet_table_ptr ptr = stet_ckpt_record_page(bytes, i);
		uint64_t off = slot_offset(a, ptr.slot) +
			       (uint64_t)stet_addr_block(ptr.addr) * STET_BLOCK_SIZE;
		bool is_new;
		uint32_t page = add_part(a, PART_PAGE, off, STET_BLOCK_SIZE, &is_new);

		need(stet_crc32c(a->bytes + off, STET_BLOCK_SIZE) != ptr.crc, "page");
		add_ref(a, REF_BLOCK_CRC, page, record,
			sizeof(struct stet_ckpt_record_disk) + 16 * (uint64_t)i + 12, 0);
		for (uint32_t k = 0; is_new && k < stet_table_page_entries(seg_blocks(a)); k++) {
			uint64_t bitmap[STET_SEG_BLOCKS_MAX / 64];
			struct stet_seg_entry entry;
			uint32_t slot = i * stet_table_page_entries(seg_blocks(a)) + k;

			if (slot >= a->sb.slot_count)
				break;
			stet_table_page_get(a->bytes + off, k, &entry, bitmap);
			if (entry.id != 0 && entry.state != STET_SEG_FREE)
				learn_segment(a, entry.id, slot);
		}
	}
}

static uint64_t add_checkpoint(struct atlas *a, uint32_t slot_block)
{
	uint64_t off = (uint64_t)slot_block * STET_BLOCK_SIZE;
	struct stet_ckpt_record rec;
	struct stet_ckpt_slot slot;
	uint32_t slot_part, record;
	bool is_new;

	need(stet_ckpt_slot_decode((const void *)(a->bytes + off), a->sb.volume_id, &slot), "slot");
	slot_part = add_part(a, PART_SLOT, off, STET_BLOCK_SIZE, &is_new);
	a->parts.v[slot_part].serial = slot.sequence;
	off = slot_offset(a, slot.record.slot) +
	      (uint64_t)stet_addr_block(slot.record.addr) * STET_BLOCK_SIZE;
	need(stet_ckpt_record_decode(a->bytes + off, slot.record_bytes, a->sb.volume_id, &rec),
	     "record");
	record = add_part(a, PART_RECORD, off, slot.record_bytes, &is_new);
	a->parts.v[record].serial = rec.sequence;
	add_ref(a, REF_RECORD, record, slot_part,
		offsetof(struct stet_ckpt_slot_disk, record_check), 0);
	add_pages(a, record, &rec);
	return rec.chain_serial;
}

static void add_root(struct atlas *a, uint32_t record)
{
	struct stet_ckpt_record rec;

	need(stet_ckpt_record_decode(a->bytes + a->parts.v[record].off, a->parts.v[record].len,
				     a->sb.volume_id, &rec),
	     "record");
	add_node(a, STET_TREE_CATALOG, rec.root_level, &rec.root, record,
		 offsetof(struct stet_ckpt_record_disk, root));
}

static void add_checkpoints(struct atlas *a)
{
	uint64_t one, two;

	one = add_checkpoint(a, STET_CKPT_SLOT_BLOCK_0);
	two = add_checkpoint(a, STET_CKPT_SLOT_BLOCK_1);
	for (size_t i = 0, n = a->parts.n; i < n; i++) {
		struct part *part = &a->parts.v[i];

		if (part->kind == PART_SUMMARY)
			part->live = part->chain && part->serial > (one < two ? one : two);
	}
	for (size_t i = 0, n = a->parts.n; i < n; i++)
		if (a->parts.v[i].kind == PART_RECORD)
			add_root(a, (uint32_t)i);
}

static struct stet_pseg header_of(const struct atlas *a, uint32_t part)
{
	struct stet_pseg pseg;

	need(stet_pseg_decode(a->bytes + a->parts.v[part].off, a->sb.volume_id, seg_blocks(a),
			      &pseg),
	     "summary");
	return pseg;
}

static void add_log(struct atlas *a)
{
	for (size_t i = 0, n = a->parts.n; i < n; i++) {
		struct stet_pseg pseg;

		if (a->parts.v[i].kind != PART_SUMMARY)
			continue;
		pseg = header_of(a, (uint32_t)i);
		add_records(a, (uint32_t)i, &pseg, a->parts.v[i].live);
	}
}

/* --- refs among summaries, and of payload --- */

static void add_payload_refs(struct atlas *a, uint32_t part)
{
	const uint8_t *summary = a->bytes + a->parts.v[part].off;
	uint64_t payload = a->parts.v[part].off + a->parts.v[part].len;
	const struct stet_pseg pseg = header_of(a, part);
	uint32_t pos = 0, first = 0;
	struct stet_payload entry;

	while (stet_payload_next(summary, &pseg, &pos, &first, &entry)) {
		for (size_t t = 0; t < a->parts.n; t++) {
			const struct part *p = &a->parts.v[t];

			if (p->kind == PART_SUMMARY || p->kind < PART_RECORD)
				continue;
			for (uint32_t b = 0; b < entry.block_count; b++) {
				uint64_t off = payload +
					       ((uint64_t)entry.first_block + b) * STET_BLOCK_SIZE;
				uint64_t copy = off >= p->off && off < p->off + p->len ? p->off
						: p->off2 && off >= p->off2 &&
								off < p->off2 + p->len
							? p->off2
							: 0;

				if (copy)
					add_ref(a, REF_BLOCK_CRC, (uint32_t)t, part,
						(uint64_t)(entry.crcs - summary) + 4 * (uint64_t)b,
						(uint32_t)((off - copy) / STET_BLOCK_SIZE));
			}
		}
	}
}

static void add_chain_refs(struct atlas *a, uint32_t part)
{
	uint64_t check = header_of(a, part).check;

	for (size_t i = 0; i < a->parts.n; i++) {
		const struct part *p = &a->parts.v[i];

		if (p->kind == PART_SUMMARY && p->chain &&
		    header_of(a, (uint32_t)i).prev_check == check)
			add_ref(a, REF_CHECK, part, (uint32_t)i,
				offsetof(struct stet_pseg_disk, prev_check), 0);
		if (p->kind == PART_RECORD &&
		    stet_get_le64(a->bytes + p->off +
				  offsetof(struct stet_ckpt_record_disk, chain_check)) == check)
			add_ref(a, REF_CHECK, part, (uint32_t)i,
				offsetof(struct stet_ckpt_record_disk, chain_check), 0);
	}
}

static void add_summary_refs(struct atlas *a)
{
	for (size_t i = 0, n = a->parts.n; i < n; i++) {
		if (a->parts.v[i].kind != PART_SUMMARY)
			continue;
		add_payload_refs(a, (uint32_t)i);
		if (a->parts.v[i].chain)
			add_chain_refs(a, (uint32_t)i);
	}
}

/* --- order --- */

/* Rises from what is named to what names it. */
static uint64_t rank(const struct part *p)
{
	const uint64_t kind[PART_KINDS] = {
		[PART_DATA] = 0,        [PART_NODE] = 1 + p->level,
		[PART_PAGE] = 20,       [PART_SUMMARY] = p->chain ? 30 : 60,
		[PART_RECORD] = 40,     [PART_SLOT] = 50,
		[PART_SUPERBLOCK] = 50,
	};

	return kind[p->kind] << 48 | (p->serial & 0xffffffffffff);
}

static const struct atlas *sorting;

static int by_rank(const void *x, const void *y)
{
	uint64_t a = rank(&sorting->parts.v[*(const uint32_t *)x]);
	uint64_t b = rank(&sorting->parts.v[*(const uint32_t *)y]);

	return (a > b) - (a < b);
}

static int by_target(const void *x, const void *y)
{
	uint32_t a = ((const struct ref *)x)->target;
	uint32_t b = ((const struct ref *)y)->target;

	return (a > b) - (a < b);
}

static void sort_all(struct atlas *a)
{
	for (uint32_t i = 0; i < a->parts.n; i++) {
		const struct part *p = &a->parts.v[i];

		need(stet_vec_push(&a->order, i), "memory");
		if (!p->live)
			continue;
		if (p->kind == PART_SUMMARY && p->chain)
			need(stet_vec_push(&a->chain, i), "memory");
		a->kind_n[p->kind]++;
	}
	sorting = a;
	qsort(a->order.v, a->order.n, sizeof(*a->order.v), by_rank);
	if (a->chain.n > 0)
		qsort(a->chain.v, a->chain.n, sizeof(*a->chain.v), by_rank);
	qsort(a->refs.v, a->refs.n, sizeof(*a->refs.v), by_target);
	for (int k = 0; k < PART_KINDS; k++) {
		uint32_t n = 0;

		a->kind_first[k] = calloc(a->kind_n[k] + 1, sizeof(uint32_t));
		STET_ASSERT(a->kind_first[k]);
		for (uint32_t i = 0; i < a->parts.n; i++)
			if (a->parts.v[i].live && (int)a->parts.v[i].kind == k)
				a->kind_first[k][n++] = i;
	}
}

static void add_superblocks(struct atlas *a)
{
	const uint64_t block[3] = { STET_SB_BLOCK_0, STET_SB_BLOCK_1,
				    a->size_bytes / STET_BLOCK_SIZE - 1 };

	need(stet_superblock_decode((const void *)a->bytes, &a->sb), "superblock");
	for (int i = 0; i < 3; i++) {
		bool is_new;
		uint32_t part = add_part(a, PART_SUPERBLOCK, block[i] * STET_BLOCK_SIZE,
					 STET_BLOCK_SIZE, &is_new);

		a->parts.v[part].serial = (uint64_t)i;
	}
}

struct atlas *atlas_create(struct stet_device *device)
{
	struct atlas *a = calloc(1, sizeof(*a));

	STET_ASSERT(a);
	a->size_bytes = device->size_bytes;
	a->bytes = malloc(a->size_bytes);
	STET_ASSERT(a->bytes);
	need(stet_device_read(device, 0, a->bytes, a->size_bytes), "read");
	add_superblocks(a);
	find_summaries(a);
	add_checkpoints(a);
	add_log(a);
	add_summary_refs(a);
	sort_all(a);
	return a;
}

void atlas_destroy(struct atlas *a)
{
	for (int k = 0; k < PART_KINDS; k++)
		free(a->kind_first[k]);
	stet_vec_release(&a->parts);
	stet_vec_release(&a->refs);
	stet_vec_release(&a->items);
	stet_vec_release(&a->order);
	stet_vec_release(&a->chain);
	stet_vec_release(&a->segments);
	free(a->bytes);
	free(a);
}
