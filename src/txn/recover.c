/* recover.c - from the device to a state in memory: slot, record, table, roll-forward.
 *
 * A1. Of the two slots the one with the higher sequence is tried first; when its record or a table page
 *     cannot be read right, the other one is: it names everything it needs, and its log leads to the
 *     same state. If it does not lead so far, that is corruption: the slot proves that it did.
 * A2. Roll-forward puts each batch into the delta under the batch's cut. Nothing is written by it; what
 *     it finds placed is held, and remembered until the first checkpoint says what is still needed.
 * A3. A patch is applied to its base as read and verified. If the base cannot be read, the block stays
 *     unreadable (EIO) and the rest of the volume opens.
 * A4. A checksum is no defence: every record, and every item of a run, is verified before it is used.
 */
#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

struct replay {
	struct stet_engine *engine;
	uint64_t cut;
};

/* Holds an extent that the log names, unless a root or an earlier record already accounts for it. */
static int hold_extent(struct stet_engine *engine, const struct stet_extent *e)
{
	for (uint32_t i = 0; i < e->phys_blocks; i++) {
		struct stet_addr addr = stet_addr_add(e->addr, i);

		if (stet_space_is_live(engine->space, addr) ||
		    stet_space_is_held(engine->space, addr))
			continue;
		int rc = stet_space_hold_checked(engine->space, addr, 1);
		if (!rc)
			rc = stet_rangeset_add(&engine->recovered, addr, 1, e->birth);
		if (rc)
			return rc;
	}
	return 0;
}

static int publish(struct stet_engine *engine, const struct stet_log_record *rec,
		   struct stet_version *v, uint64_t cut)
{
	int rc = stet_delta_publish_(engine, rec->key, rec->key_bytes, v, cut, true);

	if (rc) {
		if (v->buf)
			stet_databuf_put(v->buf);
		v->buf = NULL;
		stet_version_free_(v);
	}
	return rc;
}

static int replay_put(struct stet_engine *engine, const struct stet_log_record *rec, uint64_t cut)
{
	struct stet_version *v;
	int rc = 0;

	if (stet_key_get_kind(rec->key) == STET_KIND_EXTENT) {
		struct stet_extent e;

		rc = stet_extent_decode(rec->value, rec->value_bytes, engine->sb.seg_blocks, &e);
		if (!rc)
			rc = hold_extent(engine, &e);
	}
	if (!rc)
		rc = stet_version_bytes_(STET_V_BYTES, rec->value, rec->value_bytes, 0, &v);
	return rc ? rc : publish(engine, rec, v, cut);
}

static int replay_del(struct stet_engine *engine, const struct stet_log_record *rec, uint64_t cut)
{
	struct stet_version *v;
	int rc = stet_version_bytes_(STET_V_DEL, NULL, 0, 0, &v);

	return rc ? rc : publish(engine, rec, v, cut);
}

/* --- patches --- */
static int read_block(struct stet_engine *engine, struct stet_addr addr, uint32_t crc, uint8_t *out)
{
	uint8_t crcs[4];

	stet_put_le32(crcs, crc);
	return stet_cache_read(engine->cache, addr, STET_ADDR_NONE, 1, crcs, out);
}

/* The block as the delta has it under exactly this key. */
static int current_block(struct stet_engine *engine, const struct stet_log_record *rec,
			 uint8_t *out)
{
	struct stet_dnode *dnode = stet_delta_node_(engine, rec->key, rec->key_bytes);
	const struct stet_version *v = dnode ? dnode->newest : NULL;
	struct stet_extent e;

	if (v && v->kind == STET_V_BUF) {
		memcpy(out, v->buf->data + (size_t)v->from * STET_BLOCK_SIZE, STET_BLOCK_SIZE);
		return 0;
	}
	if (!v || v->kind != STET_V_BYTES)
		return STET_FAIL(-EUCLEAN, "a patch builds on a block that the log does not hold");
	int rc = stet_extent_decode(v->b, v->bytes, engine->sb.seg_blocks, &e);
	return rc ? rc : read_block(engine, e.addr, stet_get_le32(e.crcs), out);
}

static int patch_base(struct stet_engine *engine, const struct stet_log_record *rec, uint8_t *out)
{
	uint64_t base = stet_get_le64(rec->value);

	if (base == STET_PATCH_BASE_HOLE)
		return 0; /* the buffer is zeroed */
	if (base == STET_PATCH_BASE_CURRENT)
		return current_block(engine, rec, out);
	return read_block(engine, (struct stet_addr){ base }, stet_get_le32(rec->value + 8), out);
}

/* A3: the block's content is lost; what names it must answer EIO. */
static int publish_unreadable(struct stet_engine *engine, const struct stet_log_record *rec,
			      uint64_t cut)
{
	uint8_t value[STET_EXTENT_VALUE_MAX], crcs[4];
	struct stet_extent e = { .addr = { stet_get_le64(rec->value) },
				 .birth = cut,
				 .block_count = 1,
				 .phys_blocks = 1,
				 .crcs = crcs };
	struct stet_version *v;

	if (e.addr.v == STET_PATCH_BASE_CURRENT || e.addr.v == STET_PATCH_BASE_HOLE)
		return STET_FAIL(-EIO, "the base of a patch cannot be read");
	stet_put_le32(crcs, ~stet_get_le32(rec->value + 8));
	int rc = stet_version_bytes_(STET_V_BYTES, value, stet_extent_encode(&e, value), 0, &v);
	return rc ? rc : publish(engine, rec, v, cut);
}

static int replay_patch(struct stet_engine *engine, const struct stet_log_record *rec, uint64_t cut)
{
	struct stet_databuf *buf;
	struct stet_version *v;
	int rc = stet_databuf_create(engine->cache, 1, &buf);

	if (rc)
		return rc;
	rc = patch_base(engine, rec, buf->data);
	if (rc == -EIO || rc == -ESTALE) {
		stet_databuf_put(buf);
		return publish_unreadable(engine, rec, cut);
	}
	if (!rc) {
		memcpy(buf->data + stet_get_le32(rec->value + 12),
		       rec->value + STET_PATCH_HEADER_BYTES,
		       rec->value_bytes - STET_PATCH_HEADER_BYTES);
		rc = stet_version_buf_(buf, 0, 1, cut, &v);
	}
	stet_databuf_put(buf);
	if (!rc)
		rc = publish(engine, rec, v, cut);
	if (!rc)
		stet_delta_unplaced_(engine, stet_delta_node_(engine, rec->key, rec->key_bytes));
	return rc;
}

/* --- runs --- */
static int hold_run_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level,
			 const uint8_t *node)
{
	struct stet_engine *engine = arg;
	int rc = stet_space_hold_checked(engine->space, ptr->addr, STET_NODE_BLOCKS);

	for (uint32_t i = 0; level == 0 && i < stet_node_count(node) && !rc; i++) {
		struct stet_item item;
		struct stet_extent e;
		struct stet_key key;

		stet_node_key(node, i, &key);
		stet_node_item(node, i, &item);
		rc = item.tombstone ? stet_key_verify(key.b, key.bytes)
				    : stet_item_verify(key.b, key.bytes, item.value,
						       item.value_bytes, engine->sb.seg_blocks);
		if (rc || item.tombstone || stet_key_get_kind(key.b) != STET_KIND_EXTENT)
			continue;
		rc = stet_extent_decode(item.value, item.value_bytes, engine->sb.seg_blocks, &e);
		if (!rc)
			rc = hold_extent(engine, &e);
	}
	return rc;
}

/* Runs come in order, behind the root's cut. */
static uint64_t last_run_serial(const struct stet_engine *engine)
{
	const struct stet_list *last = stet_list_last(&engine->runs);

	return last ? stet_container_of(last, struct stet_runref, link)->run.serial
		    : engine->root->cut;
}

static int replay_run(struct stet_engine *engine, const struct stet_log_record *rec, uint64_t cut)
{
	struct stet_runref *ref = stet_calloc(1, sizeof(*ref));

	if (!ref)
		return STET_FAIL(-ENOMEM, "no memory for a run");
	int rc = stet_run_decode(rec->value, rec->value_bytes, &ref->run);
	if (!rc && (ref->run.serial <= last_run_serial(engine) || ref->run.serial > cut))
		rc = STET_FAIL(-EUCLEAN, "a run of serial %llu in the batch up to %llu",
			       (unsigned long long)ref->run.serial, (unsigned long long)cut);
	struct stet_root root = { ref->run.root, ref->run.root_level };
	if (!rc)
		rc = stet_tree_walk(engine->cache, STET_TREE_RUN, &root, hold_run_node, engine);
	if (rc) {
		stet_free(ref);
		return rc;
	}
	ref->refs = 1;
	ref->logged = true;
	ref->recovered = true;
	stet_list_add_tail(&engine->runs, &ref->link);
	return 0;
}

static int replay_next_ino(struct stet_engine *engine, const struct stet_log_record *rec)
{
	uint64_t next = stet_get_le64(rec->value);

	if (next > engine->next_ino)
		engine->next_ino = next;
	return 0;
}

static int replay_record(void *arg, uint64_t cut, int64_t wall_ns,
			 const struct stet_log_record *rec)
{
	struct stet_engine *engine = arg;
	int rc = stet_record_verify(rec, engine->sb.seg_blocks); /* A4 */

	(void)wall_ns;
	if (rc)
		return rc;
	if (cut < engine->serial)
		return STET_FAIL(-EUCLEAN, "the log goes back from %llu to %llu",
				 (unsigned long long)engine->serial, (unsigned long long)cut);
	if (cut == engine->root->cut && rec->type != STET_REC_NEXT_INO)
		return 0; /* the root holds it */
	switch (rec->type) {
	case STET_REC_PUT:
		return replay_put(engine, rec, cut);
	case STET_REC_DEL:
		return replay_del(engine, rec, cut);
	case STET_REC_PATCH:
		return replay_patch(engine, rec, cut);
	case STET_REC_RUN:
		return replay_run(engine, rec, cut);
	case STET_REC_NEXT_INO:
		return replay_next_ino(engine, rec);
	case STET_REC_SEGMENT:
		return 0; /* the log has adopted it */
	default:
		return STET_FAIL(-EUCLEAN, "record type %u in the log", (unsigned)rec->type);
	}
}

static int replay_end(void *arg, uint64_t cut, int64_t wall_ns)
{
	struct stet_engine *engine = arg;

	(void)wall_ns;
	if (cut < engine->serial)
		return STET_FAIL(-EUCLEAN, "the log goes back from %llu to %llu",
				 (unsigned long long)engine->serial, (unsigned long long)cut);
	engine->serial = cut;
	engine->durable_cut = cut;
	engine->flush_cut = cut;
	engine->stats.recovered_batches++;
	return 0;
}

/* --- the checkpoint --- */
static int load_page(struct stet_engine *engine, const uint8_t *record, uint32_t page_no)
{
	struct stet_table_ptr ptr = stet_ckpt_record_page(record, page_no);
	uint8_t page[STET_BLOCK_SIZE];

	if (ptr.slot >= engine->sb.slot_count || stet_addr_block(ptr.addr) >= engine->sb.seg_blocks)
		return STET_FAIL(-EUCLEAN, "table page %u lies outside the volume", page_no);
	uint64_t off = stet_space_slot_offset(engine->space, ptr.slot) +
		       (uint64_t)stet_addr_block(ptr.addr) * STET_BLOCK_SIZE;
	int rc = stet_device_read(engine->device, off, page, sizeof(page));
	if (rc)
		return rc;
	if (stet_crc32c(page, sizeof(page)) != ptr.crc)
		return STET_FAIL(-EUCLEAN, "table page %u: checksum", page_no);
	rc = stet_table_page_verify(page, engine->sb.volume_id, page_no, engine->sb.seg_blocks,
				    engine->sb.slot_count);
	return rc ? rc : stet_space_load_page(engine->space, page_no, page, &ptr);
}

static int load_table(struct stet_engine *engine, const uint8_t *record,
		      const struct stet_ckpt_record *rec)
{
	int rc = 0;

	if (rec->page_count != stet_space_page_count(engine->space))
		return STET_FAIL(-EUCLEAN, "the checkpoint names %u table pages, have %u",
				 rec->page_count, stet_space_page_count(engine->space));
	for (uint32_t i = 0; i < rec->page_count && !rc; i++)
		rc = load_page(engine, record, i);
	if (!rc)
		rc = stet_space_load_done(engine->space, rec->next_seg_id);
	return rc;
}

static int take_record(struct stet_engine *engine, const struct stet_ckpt_slot *slot,
		       const struct stet_ckpt_record *rec)
{
	engine->root->root = (struct stet_root){ rec->root, rec->root_level };
	engine->root->cut = rec->cut;
	engine->root->base_cut = rec->cut;
	engine->serial = engine->durable_cut = engine->flush_cut = rec->cut;
	engine->older_cut = rec->cut;
	engine->next_ino = rec->next_ino;
	engine->ckpt_sequence = rec->sequence;
	engine->chain_serial = engine->older_chain_serial = rec->chain_serial;
	engine->inode_count = rec->inode_count;
	engine->data_blocks = rec->data_blocks;
	engine->record_place = slot->record;
	engine->record_bytes = slot->record_bytes;
	engine->record_check = slot->record_check;
	return stet_space_hold_checked(engine->space, slot->record.addr,
				       (slot->record_bytes + STET_BLOCK_SIZE - 1) /
					       STET_BLOCK_SIZE);
}

static int fresh_space(struct stet_engine *engine)
{
	stet_cache_destroy(engine->cache);
	stet_log_destroy(engine->log);
	stet_space_destroy(engine->space);
	engine->cache = NULL;
	engine->log = NULL;
	engine->space = NULL;
	int rc = stet_space_create(&engine->sb, &engine->space);
	if (!rc)
		rc = stet_log_create(engine->device, engine->space, &engine->sb, &engine->log);
	if (!rc)
		rc = stet_cache_create(engine->device, engine->space, &engine->sb,
				       engine->config.cache_bytes, &engine->cache);
	return rc;
}

static int load_checkpoint(struct stet_engine *engine, const struct stet_ckpt_slot *slot,
			   struct stet_ckpt_record *ret_rec)
{
	uint8_t *bytes = NULL;
	int rc = fresh_space(engine);

	if (!rc)
		rc = stet_log_read_record(engine->device, &engine->sb, slot, &bytes, ret_rec);
	if (!rc)
		rc = load_table(engine, bytes, ret_rec);
	if (!rc)
		rc = take_record(engine, slot, ret_rec);
	stet_free(bytes);
	return rc;
}

static int roll_forward(struct stet_engine *engine, const struct stet_ckpt_record *rec)
{
	const struct stet_log_visitor visitor = { replay_record, replay_end, engine };
	struct stet_log_recovery found;
	int rc = stet_log_recover(engine->log, rec, &visitor, engine->config.accept_prefix, &found);

	if (rc)
		return rc;
	engine->logged_next_ino = engine->next_ino;
	engine->stats.torn_tail = found.torn_tail;
	stet_space_recovered(engine->space);
	return 0;
}

/* No writer has come so far; one that went on from there would come to where the numbers end. */
static int check_counters(struct stet_engine *engine)
{
	struct stet_ckpt_record at;

	stet_log_position(engine->log, &at);
	if (stet_log_last_serial(engine->log) < STET_COUNTER_END && at.generation != 0 &&
	    at.generation < STET_COUNTER_END && engine->ckpt_sequence < STET_COUNTER_END &&
	    engine->next_ino < STET_COUNTER_END)
		return 0;
	return STET_FAIL(
		-EUCLEAN,
		"serial %llu, generation %llu, checkpoint %llu, inode %llu: can only be read",
		(unsigned long long)stet_log_last_serial(engine->log),
		(unsigned long long)at.generation, (unsigned long long)engine->ckpt_sequence,
		(unsigned long long)engine->next_ino);
}

int stet_recover_(struct stet_engine *engine)
{
	struct stet_ckpt_slot slot[2];
	struct stet_ckpt_record rec;
	int slot_rc[2];

	stet_log_read_slots(engine->device, engine->sb.volume_id, slot, slot_rc);
	if (slot_rc[0] == -ENOENT && slot_rc[1] == -ENOENT)
		return STET_FAIL(-EUCLEAN, "no checkpoint: the volume was never completed");
	if (slot_rc[0] && slot_rc[1])
		return STET_FAIL(-EUCLEAN, "both checkpoint slots are damaged");
	int first = slot_rc[0] || (!slot_rc[1] && slot[1].sequence > slot[0].sequence) ? 1 : 0;
	int rc = load_checkpoint(engine, &slot[first], &rec);
	if ((rc == -EUCLEAN || rc == -EIO) && !slot_rc[1 - first])
		rc = load_checkpoint(engine, &slot[1 - first], &rec); /* A1 */
	if (!rc)
		rc = roll_forward(engine, &rec);
	if (!rc && engine->serial < slot[first].cut && !engine->config.accept_prefix) /* A1 */
		rc = STET_FAIL(-EUCLEAN, "checkpoint %llu is damaged, and the log ends before it",
			       (unsigned long long)slot[first].sequence);
	return rc || engine->config.read_only ? rc : check_counters(engine);
}
