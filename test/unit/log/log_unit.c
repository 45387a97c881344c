/* log_unit.c - the volume and the model of the log's tests. */
#include "log_unit.h"

#include <string.h>

/* --- the model --- */
void lt_model_init(struct lt_model *model)
{
	*model = (struct lt_model){ 0 };
}

void lt_model_release(struct lt_model *model)
{
	for (size_t i = 0; i < model->tried.n; i++) {
		stet_buf_release(&model->tried.v[i]->records);
		stet_vec_release(&model->tried.v[i]->runs);
		stet_free(model->tried.v[i]);
	}
	stet_vec_release(&model->tried);
	stet_vec_release(&model->order);
}

static struct lt_batch *model_new(struct lt_model *model)
{
	struct lt_batch *batch = stet_calloc(1, sizeof(*batch));

	assert_non_null(batch);
	assert_int_equal(stet_vec_push(&model->tried, batch), 0);
	batch->no = model->tried.n;
	batch->after = model->order.n > 0 ? model->order.v[model->order.n - 1] : 0;
	return batch;
}

static struct lt_batch *model_get(const struct lt_model *model, uint64_t no)
{
	assert_true(no >= 1 && no <= model->tried.n);
	return model->tried.v[no - 1];
}

/* --- opening and closing --- */
struct stet_superblock lt_sb(uint32_t slot_count, uint32_t seg_blocks)
{
	return (struct stet_superblock){
		.volume_id = LT_VOLUME_ID,
		.seg_start_block = STET_HEAD_BLOCKS,
		.slot_count = slot_count,
		.seg_blocks = seg_blocks,
		.device_blocks = STET_HEAD_BLOCKS + (uint64_t)slot_count * seg_blocks + 1,
	};
}

static void vol_init(struct lt_vol *vol, struct stet_device *device,
		     const struct stet_superblock *sb, struct lt_model *model, uint64_t seed)
{
	*vol = (struct lt_vol){ .device = device, .sb = *sb, .model = model, .alive_from = 1 };
	stet_random_seed(&vol->random, seed);
	assert_int_equal(stet_space_create(sb, &vol->space), 0);
	assert_int_equal(stet_log_create(device, vol->space, sb, &vol->log), 0);
}

void lt_mkfs(struct lt_vol *vol, struct stet_device *device, const struct stet_superblock *sb,
	     struct lt_model *model, uint64_t seed)
{
	vol_init(vol, device, sb, model, seed);
	assert_int_equal(stet_log_format(vol->log), 0);
	lt_checkpoint(vol, UINT64_MAX);
}

static int on_record(void *arg, uint64_t cut, int64_t wall_ns, const struct stet_log_record *rec)
{
	struct lt_vol *vol = arg;

	assert_int_equal(model_get(vol->model, (uint64_t)wall_ns)->cut, cut);
	assert_int_not_equal(rec->type, STET_REC_SEGMENT);
	return stet_record_append(&vol->seen_records, rec->type, rec->key, rec->key_bytes,
				  rec->value, rec->value_bytes);
}

static int on_batch_end(void *arg, uint64_t cut, int64_t wall_ns)
{
	struct lt_vol *vol = arg;
	struct lt_batch *batch = model_get(vol->model, (uint64_t)wall_ns);

	assert_int_equal(batch->cut, cut);
	assert_int_equal(batch->records.len, vol->seen_records.len);
	if (batch->records.len > 0)
		assert_memory_equal(batch->records.p, vol->seen_records.p, batch->records.len);
	stet_buf_clear(&vol->seen_records);
	for (size_t i = 0; i < batch->runs.n && batch->no >= vol->alive_from; i++)
		assert_int_equal(stet_space_hold_checked(vol->space, batch->runs.v[i].addr,
							 batch->runs.v[i].blocks),
				 0);
	return stet_vec_push(&vol->seen, batch->no);
}

int lt_mount(struct lt_vol *vol, struct stet_device *device, const struct stet_superblock *sb,
	     struct lt_model *model, const struct lt_ckpt *ckpt, bool accept_prefix, uint64_t seed,
	     struct stet_log_recovery *ret)
{
	struct stet_log_visitor visitor = { on_record, on_batch_end, vol };
	struct stet_log_recovery none;
	int rc;

	vol_init(vol, device, sb, model, seed);
	vol->alive_from = ckpt->alive_from;
	for (uint32_t i = 0; i < ckpt->pages.n; i++) {
		assert_int_equal(stet_table_page_verify(ckpt->pages.v[i], sb->volume_id, i,
							sb->seg_blocks, sb->slot_count),
				 0);
		assert_int_equal(
			stet_space_load_page(vol->space, i, ckpt->pages.v[i], &ckpt->ptrs.v[i]), 0);
	}
	assert_int_equal(stet_space_load_done(vol->space, ckpt->rec.next_seg_id), 0);
	rc = stet_log_recover(vol->log, &ckpt->rec, &visitor, accept_prefix, ret ? ret : &none);
	if (rc)
		return rc;
	stet_space_recovered(vol->space);
	stet_space_check(vol->space);
	assert_int_equal(stet_vec_push(&vol->ckpts, lt_ckpt_copy(ckpt)), 0);
	return 0;
}

void lt_close(struct lt_vol *vol)
{
	for (size_t i = 0; i < vol->ckpts.n; i++)
		lt_ckpt_free(vol->ckpts.v[i]);
	stet_vec_release(&vol->ckpts);
	stet_vec_release(&vol->seen);
	stet_buf_release(&vol->seen_records);
	stet_log_destroy(vol->log);
	stet_space_destroy(vol->space);
}

/* --- groups --- */
static void group_done(struct lt_group *g)
{
	for (size_t i = 0; i < g->memory.n; i++)
		stet_free(g->memory.v[i]);
	stet_vec_release(&g->memory);
	*g = (struct lt_group){ 0 };
}

int lt_begin_commit(struct lt_vol *vol, struct lt_group *g, bool privileged)
{
	int rc;

	*g = (struct lt_group){ 0 };
	rc = stet_log_begin(vol->log, privileged, &g->group);
	if (!rc)
		g->batch = model_new(vol->model);
	return rc;
}

int lt_end_commit(struct lt_vol *vol, struct lt_group *g)
{
	g->batch->cut = stet_log_next_serial(vol->log);
	return stet_log_end(g->group, STET_PSEG_COMMIT, g->batch->cut, (int64_t)g->batch->no,
			    stet_random_below(&vol->random, 4) == 0);
}

void lt_complete(struct lt_vol *vol, struct lt_group *g)
{
	stet_log_complete(g->group);
	if (g->batch)
		assert_int_equal(stet_vec_push(&vol->model->order, g->batch->no), 0);
	group_done(g);
}

void lt_abandon(struct lt_vol *vol, struct lt_group *g)
{
	(void)vol;
	stet_log_abandon(g->group);
	group_done(g);
}

int lt_put(struct lt_vol *vol, struct lt_group *g, enum stet_seg_kind head,
	   enum stet_payload_kind kind, uint16_t blocks, bool whole)
{
	uint8_t *data = stet_alloc((size_t)blocks * STET_BLOCK_SIZE);
	uint32_t crcs[UINT16_MAX];
	uint64_t owner = kind == STET_PAYLOAD_NODE ? STET_TREE_CATALOG : 7;
	uint64_t offset = kind == STET_PAYLOAD_NODE ? 0 : 11;
	uint16_t done = 0;

	assert_non_null(data);
	assert_int_equal(stet_vec_push(&g->memory, data), 0);
	memset(data, (int)stet_random_below(&vol->random, 256), (size_t)blocks * STET_BLOCK_SIZE);
	for (uint32_t i = 0; i < blocks; i++) {
		stet_random_bytes(&vol->random, data + (size_t)i * STET_BLOCK_SIZE, 32);
		crcs[i] = stet_crc32c(data + (size_t)i * STET_BLOCK_SIZE, STET_BLOCK_SIZE);
	}
	while (done < blocks) {
		const uint8_t *p = data + (size_t)done * STET_BLOCK_SIZE;
		uint16_t left = (uint16_t)(blocks - done);
		struct lt_run run = { .blocks = left };
		int rc = whole ? stet_log_put_whole(g->group, head, kind, owner, offset, p,
						    crcs + done, left, &run.addr)
			       : stet_log_put_payload(g->group, head, kind, owner, offset, p,
						      crcs + done, left, &run.addr, &run.blocks);

		if (rc)
			return rc;
		assert_in_range(run.blocks, 1, left);
		run.crc = stet_crc32c(p, (size_t)run.blocks * STET_BLOCK_SIZE);
		if (g->batch)
			assert_int_equal(stet_vec_push(&g->batch->runs, run), 0);
		done = (uint16_t)(done + run.blocks);
	}
	return 0;
}

static int put_record(struct lt_vol *vol, struct lt_group *g)
{
	uint8_t key[64];
	uint8_t value[STET_VALUE_MAX];
	size_t key_bytes = 9 + stet_random_below(&vol->random, 50);
	size_t value_bytes = stet_random_below(&vol->random, 20) == 0
				     ? stet_random_below(&vol->random, sizeof(value))
				     : stet_random_below(&vol->random, 200);
	int rc;

	stet_random_bytes(&vol->random, key, key_bytes);
	stet_random_bytes(&vol->random, value, value_bytes);
	rc = stet_log_put_record(g->group, STET_REC_PUT, key, key_bytes, value, value_bytes);
	if (!rc)
		rc = stet_record_append(&g->batch->records, STET_REC_PUT, key, key_bytes, value,
					value_bytes);
	return rc;
}

int lt_fill(struct lt_vol *vol, struct lt_group *g, uint32_t max_blocks, uint32_t max_records)
{
	uint32_t blocks = (uint32_t)stet_random_below(&vol->random, max_blocks + 1);
	uint32_t records = (uint32_t)stet_random_below(&vol->random, max_records + 1);
	bool single = stet_random_below(&vol->random, 3) == 0;
	int rc = 0;

	while (blocks > 0 && !rc) {
		enum stet_seg_kind head = stet_random_below(&vol->random, 5) == 0 ? STET_SEGK_COLD
										  : STET_SEGK_LOG;
		uint32_t n = single ? 1 : 1 + (uint32_t)stet_random_below(&vol->random, blocks);

		rc = lt_put(vol, g, head, STET_PAYLOAD_DATA, (uint16_t)n,
			    n <= 8 && stet_random_below(&vol->random, 4) == 0);
		blocks -= n;
	}
	for (uint32_t i = 0; i < records && !rc; i++)
		rc = put_record(vol, g);
	return rc;
}

void lt_commit(struct lt_vol *vol, uint32_t max_blocks, uint32_t max_records)
{
	struct lt_group g;

	assert_int_equal(lt_begin_commit(vol, &g, true), 0);
	assert_int_equal(lt_fill(vol, &g, max_blocks, max_records), 0);
	assert_int_equal(lt_end_commit(vol, &g), 0);
	assert_int_equal(stet_log_perform(g.group, true), 0);
	lt_complete(vol, &g);
}

/* --- checkpoints --- */
static uint64_t alive_blocks(const struct lt_vol *vol)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < vol->model->order.n; i++) {
		const struct lt_batch *batch = model_get(vol->model, vol->model->order.v[i]);

		for (size_t r = 0; r < batch->runs.n && batch->no >= vol->alive_from; r++)
			sum += batch->runs.v[r].blocks;
	}
	return sum;
}

static void delete_batch(struct lt_vol *vol, const struct lt_batch *batch, uint64_t cut)
{
	for (size_t i = 0; i < batch->runs.n; i++) {
		const struct lt_run *run = &batch->runs.v[i];

		if (stet_space_is_live(vol->space, run->addr))
			assert_int_equal(
				stet_space_free(vol->space, run->addr, run->blocks, 1, cut), 0);
		else
			assert_int_equal(
				stet_space_drop(vol->space, run->addr, run->blocks, 1, cut), 0);
	}
}

static void account(struct lt_vol *vol, uint64_t keep_blocks, uint64_t cut)
{
	struct lt_model *model = vol->model;

	for (size_t i = 0; i < model->order.n; i++) {
		const struct lt_batch *batch = model_get(model, model->order.v[i]);

		if (batch->no < vol->alive_from)
			continue;
		if (alive_blocks(vol) > keep_blocks) {
			delete_batch(vol, batch, cut);
			vol->alive_from = batch->no + 1;
			continue;
		}
		for (size_t r = 0; r < batch->runs.n; r++)
			if (!stet_space_is_live(vol->space, batch->runs.v[r].addr))
				assert_int_equal(stet_space_make_live(vol->space,
								      batch->runs.v[r].addr,
								      batch->runs.v[r].blocks),
						 0);
	}
}

static void put_page(struct lt_vol *vol, struct lt_group *g, struct lt_ckpt *ckpt, uint32_t no)
{
	uint8_t *page = ckpt->pages.v[no];
	struct stet_table_ptr ptr = { 0 };

	if (ckpt->ptrs.v[no].addr.v != 0) /* written a second time */
		assert_int_equal(stet_space_drop(vol->space, ckpt->ptrs.v[no].addr, 1, 1,
						 stet_log_last_serial(vol->log)),
				 0);
	stet_space_page_encode(vol->space, no, 1, page);
	ptr.crc = stet_crc32c(page, STET_BLOCK_SIZE);
	assert_int_equal(stet_log_put_whole(g->group, STET_SEGK_NODE, STET_PAYLOAD_TABLE, 0, no,
					    page, &ptr.crc, 1, &ptr.addr),
			 0);
	ptr.slot = stet_space_slot(vol->space, stet_addr_seg(ptr.addr));
	ckpt->ptrs.v[no] = ptr;
}

static void put_pages(struct lt_vol *vol, struct lt_ckpt *ckpt)
{
	struct lt_group g = { 0 };
	bool dirty = true;

	assert_int_equal(stet_log_begin(vol->log, true, &g.group), 0);
	for (uint32_t i = 0; i < ckpt->pages.n; i++)
		put_page(vol, &g, ckpt, i);
	while (dirty) {
		dirty = false;
		for (uint32_t i = 0; i < ckpt->pages.n; i++) {
			if (!stet_space_page_dirty(vol->space, i))
				continue;
			put_page(vol, &g, ckpt, i);
			dirty = true;
		}
	}
	ckpt->rec.next_seg_id = stet_space_next_seg_id(vol->space);
	assert_int_equal(stet_log_end(g.group, STET_PSEG_PAYLOAD, 0, 1, false), 0);
	assert_int_equal(stet_log_perform(g.group, true), 0);
	lt_complete(vol, &g);
}

static struct lt_ckpt *ckpt_new(uint32_t page_count)
{
	struct lt_ckpt *ckpt = stet_calloc(1, sizeof(*ckpt));

	assert_non_null(ckpt);
	for (uint32_t i = 0; i < page_count; i++) {
		uint8_t *page = stet_alloc(STET_BLOCK_SIZE);

		assert_non_null(page);
		assert_int_equal(stet_vec_push(&ckpt->pages, page), 0);
		assert_int_equal(stet_vec_push(&ckpt->ptrs, (struct stet_table_ptr){ 0 }), 0);
	}
	return ckpt;
}

void lt_ckpt_free(struct lt_ckpt *ckpt)
{
	for (size_t i = 0; i < ckpt->pages.n; i++)
		stet_free(ckpt->pages.v[i]);
	stet_vec_release(&ckpt->pages);
	stet_vec_release(&ckpt->ptrs);
	stet_free(ckpt);
}

struct lt_ckpt *lt_ckpt_copy(const struct lt_ckpt *ckpt)
{
	struct lt_ckpt *copy = ckpt_new((uint32_t)ckpt->pages.n);

	copy->rec = ckpt->rec;
	copy->last_batch = ckpt->last_batch;
	copy->alive_from = ckpt->alive_from;
	for (size_t i = 0; i < ckpt->pages.n; i++) {
		memcpy(copy->pages.v[i], ckpt->pages.v[i], STET_BLOCK_SIZE);
		copy->ptrs.v[i] = ckpt->ptrs.v[i];
	}
	return copy;
}

struct lt_ckpt *lt_newest(const struct lt_vol *vol)
{
	return vol->ckpts.v[vol->ckpts.n - 1];
}

/* The pages of the checkpoint before this one are given up. */
static void drop_pages(struct lt_vol *vol, const struct lt_ckpt *old, uint64_t cut)
{
	for (size_t i = 0; i < old->ptrs.n; i++)
		assert_int_equal(stet_space_drop(vol->space, old->ptrs.v[i].addr, 1, 1, cut), 0);
}

void lt_checkpoint(struct lt_vol *vol, uint64_t keep_blocks)
{
	struct lt_ckpt *ckpt = ckpt_new(stet_space_page_count(vol->space));
	const struct lt_model *model = vol->model;

	stet_log_position(vol->log, &ckpt->rec);
	ckpt->rec.cut = stet_log_next_serial(vol->log);
	account(vol, keep_blocks, ckpt->rec.cut);
	ckpt->last_batch = model->order.n > 0 ? model->order.v[model->order.n - 1] : 0;
	ckpt->alive_from = vol->alive_from;
	put_pages(vol, ckpt);
	assert_int_equal(stet_vec_push(&vol->ckpts, ckpt), 0);
	if (vol->ckpts.n >= 2) {
		struct lt_ckpt *older = vol->ckpts.v[vol->ckpts.n - 2];

		drop_pages(vol, older, ckpt->rec.cut);
		stet_log_trim(vol->log, older->rec.chain_serial);
		stet_space_release(vol->space, older->rec.cut, NULL, NULL);
	}
	if (vol->ckpts.n > 2) {
		lt_ckpt_free(vol->ckpts.v[0]);
		vol->ckpts.v[0] = vol->ckpts.v[1];
		vol->ckpts.v[1] = vol->ckpts.v[2];
		vol->ckpts.n = 2;
	}
	stet_space_check(vol->space);
}

/* --- comparing --- */
static void check_run(struct lt_vol *vol, const struct lt_run *run)
{
	uint8_t *data = stet_alloc((size_t)run->blocks * STET_BLOCK_SIZE);
	uint64_t off_bytes;

	assert_non_null(data);
	assert_int_equal(stet_space_locate(vol->space, run->addr, run->blocks, &off_bytes), 0);
	assert_int_equal(stet_device_read(vol->device, off_bytes, data,
					  (size_t)run->blocks * STET_BLOCK_SIZE),
			 0);
	assert_int_equal(stet_crc32c(data, (size_t)run->blocks * STET_BLOCK_SIZE), run->crc);
	stet_free(data);
}

static size_t order_index(const struct lt_model *model, uint64_t no)
{
	for (size_t i = 0; i < model->order.n; i++)
		if (model->order.v[i] == no)
			return i;
	return SIZE_MAX;
}

static void check_payload(struct lt_vol *vol, uint64_t no)
{
	const struct lt_batch *batch = model_get(vol->model, no);

	for (size_t i = 0; i < batch->runs.n && no >= vol->alive_from; i++)
		check_run(vol, &batch->runs.v[i]);
}

void lt_check_seen(struct lt_vol *vol, const struct lt_ckpt *ckpt, uint64_t acked, bool tail_ok)
{
	const struct lt_model *model = vol->model;
	size_t first = ckpt->last_batch ? order_index(model, ckpt->last_batch) + 1 : 0;
	size_t least = acked ? order_index(model, acked) + 1 : 0;

	assert_true(least == 0 || first + vol->seen.n >= least);
	for (size_t i = 0; i < first; i++)
		check_payload(vol, model->order.v[i]);
	for (size_t i = 0; i < vol->seen.n; i++) {
		uint64_t no = vol->seen.v[i];

		if (first + i >= model->order.n || model->order.v[first + i] != no) {
			uint64_t before = first + i > 0 ? model->order.v[first + i - 1] : 0;

			assert_true(tail_ok);
			assert_int_equal(i, vol->seen.n - 1);
			assert_int_equal(model_get(model, no)->after, before);
		}
		check_payload(vol, no);
	}
}

void lt_adopt_seen(struct lt_vol *vol, const struct lt_ckpt *ckpt)
{
	struct lt_model *model = vol->model;
	size_t first = ckpt->last_batch ? order_index(model, ckpt->last_batch) + 1 : 0;

	model->order.n = first;
	for (size_t i = 0; i < vol->seen.n; i++)
		assert_int_equal(stet_vec_push(&model->order, vol->seen.v[i]), 0);
}
