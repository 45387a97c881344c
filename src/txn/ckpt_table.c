/* ckpt_table.c - the end of a checkpoint: table pages, the record, the slot.
 *
 * B1. Table pages and records are never live, only held: so placing them changes no bitmap, and what is
 *     written counts exactly what the root names. A page names the segments that were open when it was
 *     written; placing pages may open one more, so pages are written until none is stale.
 * B2. The record is placed last, holds the places of all pages, and is named by the slot.
 * B3. Pages that alone keep a segment from being reused move along.
 */
#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"
#include "txn/ckpt.h"

#include <string.h>

#define PAGE_ROUNDS_MAX 16u

static int put_page(struct stet_engine *engine, struct stet_job *job, uint32_t page_no)
{
	struct stet_ckpt *ck = engine->ckpt;
	struct stet_ckpt_page page = { .page_no = page_no };
	int rc = stet_vec_reserve(&ck->pages, 1);

	if (rc)
		return rc;
	page.bytes = stet_alloc_aligned(STET_BLOCK_SIZE, STET_BLOCK_SIZE);
	if (!page.bytes)
		return STET_FAIL(-ENOMEM, "no memory for a table page");
	stet_space_page_encode(engine->space, page_no, ck->rec.sequence, page.bytes);
	page.ptr.crc = stet_crc32c(page.bytes, STET_BLOCK_SIZE);
	ck->pages.v[ck->pages.n++] = page;
	struct stet_ckpt_page *p = &ck->pages.v[ck->pages.n - 1];
	rc = stet_log_put_whole(job->group, STET_SEGK_NODE, STET_PAYLOAD_TABLE, 0, page_no,
				p->bytes, &p->ptr.crc, 1, &p->ptr.addr);
	if (!rc)
		p->ptr.slot = stet_space_slot(engine->space, stet_addr_seg(p->ptr.addr));
	return rc;
}

/* B3: whether nothing but held blocks (such as this page) is left in the page's segment. */
static bool page_is_alone(const struct stet_engine *engine, uint32_t page_no)
{
	struct stet_table_ptr ptr = stet_space_page_ptr(engine->space, page_no);
	struct stet_seg_info info;

	if (stet_addr_is_none(ptr.addr))
		return false;
	stet_space_info(engine->space, ptr.slot, &info);
	return info.state == STET_SEG_FULL && info.live_blocks == 0;
}

static bool page_touched(const struct stet_engine *engine, uint32_t page_no)
{
	for (size_t i = 0; i < engine->touched_pages.n; i++)
		if (engine->touched_pages.v[i] == page_no)
			return true;
	return page_is_alone(engine, page_no);
}

static int put_pages(struct stet_engine *engine, struct stet_job *job, bool first)
{
	uint32_t count = stet_space_page_count(engine->space);
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		bool never = stet_addr_is_none(stet_space_page_ptr(engine->space, i).addr);

		if (stet_space_page_dirty(engine->space, i) ||
		    (first && (never || page_touched(engine, i))))
			rc = put_page(engine, job, i);
	}
	return rc;
}

static bool any_page_dirty(const struct stet_engine *engine)
{
	uint32_t count = stet_space_page_count(engine->space);

	for (uint32_t i = 0; i < count; i++)
		if (stet_space_page_dirty(engine->space, i))
			return true;
	return false;
}

/* Where every page lies once this checkpoint is durable. */
static int page_ptrs(struct stet_engine *engine, struct stet_table_ptr **ret)
{
	const struct stet_ckpt *ck = engine->ckpt;
	uint32_t count = stet_space_page_count(engine->space);
	struct stet_table_ptr *ptrs = stet_calloc(count, sizeof(*ptrs));

	if (!ptrs)
		return STET_FAIL(-ENOMEM, "no memory for %u table pointers", count);
	for (uint32_t i = 0; i < count; i++)
		ptrs[i] = stet_space_page_ptr(engine->space, i);
	for (size_t i = 0; i < ck->pages.n; i++)
		ptrs[ck->pages.v[i].page_no] = ck->pages.v[i].ptr; /* the last one counts */
	*ret = ptrs;
	return 0;
}

/* Counts that were read may be wrong; what is made of them must be in range, or nobody could read the record. */
static uint64_t count_on(uint64_t count, int64_t change, uint64_t max)
{
	uint64_t sum = count + (uint64_t)change;

	if (change < 0 && sum > count)
		return 0;
	return sum < count && change > 0 ? max : sum > max ? max : sum;
}

static void fill_record(struct stet_engine *engine)
{
	struct stet_ckpt *ck = engine->ckpt;
	struct stet_ckpt_record *rec = &ck->rec;

	rec->cut = ck->cut;
	rec->wall_ns = stet_engine_now(engine);
	rec->root = ck->new_root.ptr;
	rec->root_level = ck->new_root.level;
	rec->page_count = stet_space_page_count(engine->space);
	rec->next_ino = engine->next_ino;
	rec->next_seg_id = stet_space_next_seg_id(engine->space);
	rec->inode_count = count_on(engine->inode_count, ck->inode_change, engine->next_ino);
	rec->data_blocks = count_on(engine->data_blocks, ck->data_change, STET_DEVICE_BLOCKS_MAX);
	rec->node_blocks = 0;
	rec->prev_record = engine->record_place;
	rec->prev_bytes = engine->record_bytes;
	rec->prev_check = engine->record_check;
}

static int put_record(struct stet_engine *engine, struct stet_job *job)
{
	struct stet_ckpt *ck = engine->ckpt;
	uint32_t crcs[STET_SEG_BLOCKS_MAX];
	struct stet_table_ptr *ptrs;
	int rc = page_ptrs(engine, &ptrs);

	if (rc)
		return rc;
	fill_record(engine);
	ck->record_bytes = (uint32_t)stet_ckpt_record_bytes(ck->rec.page_count);
	uint32_t blocks = stet_ckpt_record_blocks_(ck->record_bytes);
	stet_free(ck->record);
	ck->record = stet_alloc_aligned(STET_BLOCK_SIZE, (size_t)blocks * STET_BLOCK_SIZE);
	if (!ck->record) {
		stet_free(ptrs);
		return STET_FAIL(-ENOMEM, "no memory for a checkpoint record");
	}
	memset(ck->record, 0, (size_t)blocks * STET_BLOCK_SIZE);
	stet_ckpt_record_encode(&ck->rec, engine->sb.volume_id, ptrs, ck->record);
	stet_free(ptrs);
	for (uint32_t i = 0; i < blocks; i++)
		crcs[i] = stet_crc32c(ck->record + (size_t)i * STET_BLOCK_SIZE, STET_BLOCK_SIZE);
	rc = stet_log_put_whole(job->group, STET_SEGK_NODE, STET_PAYLOAD_CKPT, 0, ck->rec.sequence,
				ck->record, crcs, (uint16_t)blocks, &ck->record_place.addr);
	if (!rc)
		ck->record_place.slot = stet_space_slot(engine->space,
							stet_addr_seg(ck->record_place.addr));
	return rc;
}

static int put_all(struct stet_engine *engine, struct stet_job *job)
{
	struct stet_ckpt *ck = engine->ckpt;

	for (uint32_t round = 0; round < PAGE_ROUNDS_MAX; round++) {
		int rc = put_pages(engine, job, round == 0);

		if (!rc)
			rc = put_record(engine, job);
		if (rc || !any_page_dirty(engine))
			return rc;
		struct stet_ckpt_stale stale = { ck->record_place.addr, ck->record };
		rc = stet_vec_push(&ck->stale, stale);
		if (rc)
			return rc;
		ck->record = NULL;
	}
	return STET_FAIL(-ENOSPC, "the segment table does not settle");
}

int stet_ckpt_table_start_(struct stet_engine *engine, struct stet_job **ret)
{
	struct stet_ckpt *ck = engine->ckpt;
	struct stet_job *job;
	int rc = stet_job_create_(engine, STET_JOB_TABLE, &job);

	if (rc)
		return rc;
	ck->rec.sequence = engine->ckpt_sequence + 1;
	rc = stet_log_begin(engine->log, true, &job->group);
	if (!rc)
		rc = put_all(engine, job);
	if (!rc)
		rc = stet_log_end(job->group, STET_PSEG_PAYLOAD, 0, stet_engine_now(engine), false);
	if (rc) {
		if (job->group)
			stet_log_abandon(job->group);
		stet_job_destroy_(job);
		stet_ckpt_table_undo_(engine);
		stet_engine_fail_(engine, "the segment table could not be placed");
		return rc;
	}
	job->flush = true;
	job->slot = (struct stet_ckpt_slot){
		.sequence = ck->rec.sequence,
		.cut = ck->cut,
		.record = ck->record_place,
		.record_bytes = ck->record_bytes,
		.record_check = stet_crc64(ck->record, ck->record_bytes),
	};
	ck->state = STET_CKPT_TABLE;
	*ret = job;
	return 1;
}

void stet_ckpt_table_undo_(struct stet_engine *engine)
{
	struct stet_ckpt *ck = engine->ckpt;

	for (size_t i = 0; i < ck->pages.n; i++) {
		stet_space_page_redirty(engine->space, ck->pages.v[i].page_no);
		stet_free(ck->pages.v[i].bytes);
	}
	stet_vec_clear(&ck->pages);
	for (size_t i = 0; i < ck->stale.n; i++)
		stet_free(ck->stale.v[i].bytes);
	stet_vec_clear(&ck->stale);
}

static void drop_record(struct stet_engine *engine, struct stet_addr addr, uint32_t bytes)
{
	stet_ignore(stet_space_drop(engine->space, addr, stet_ckpt_record_blocks_(bytes), 0,
				    engine->ckpt->cut),
		    "without memory the blocks stay held until the next open");
}

void stet_ckpt_table_done_(struct stet_engine *engine)
{
	struct stet_ckpt *ck = engine->ckpt;

	for (size_t i = 0; i < ck->pages.n; i++) {
		const struct stet_ckpt_page *p = &ck->pages.v[i];
		struct stet_table_ptr old = stet_space_page_ptr(engine->space, p->page_no);

		if (!stet_addr_is_none(old.addr))
			stet_ignore(stet_space_drop(engine->space, old.addr, 1, 0, ck->cut),
				    "without memory the block stays held until the next open");
		stet_space_page_placed(engine->space, p->page_no, &p->ptr);
	}
	for (size_t i = 0; i < ck->stale.n; i++)
		drop_record(engine, ck->stale.v[i].addr, ck->record_bytes);
	if (!stet_addr_is_none(engine->record_place.addr))
		drop_record(engine, engine->record_place.addr, engine->record_bytes);
	engine->record_place = ck->record_place;
	engine->record_bytes = ck->record_bytes;
	engine->record_check = stet_crc64(ck->record, ck->record_bytes);
	stet_vec_clear(&engine->touched_pages);
}
