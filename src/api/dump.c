/* dump.c - the structures of a volume in words.
 *
 * Superblock, slots and checkpoint record are read from the device, so they can be seen when the volume
 * cannot be opened; the rest is looked up in a volume opened read-only.
 */
#include "api/api_internal.h"

#include "base/text.h"
#include "format/node.h"
#include "format/superblock.h"
#include "log/log.h"

#include <string.h>

struct dump {
	stet_dump_fn *fn;
	void *arg;
	struct stet_text t;
};

/* Hands the text over line by line and clears it. */
static int emit(struct dump *d)
{
	const char *at = stet_text_cstr(&d->t);
	int rc = 0;

	while (*at && !rc) {
		size_t len = strcspn(at, "\n");
		char *line = stet_alloc(len + 1);

		if (!line)
			return STET_FAIL(-ENOMEM, "no memory for a line");
		memcpy(line, at, len);
		line[len] = 0;
		rc = d->fn(d->arg, line);
		stet_free(line);
		at += len + (at[len] == '\n');
	}
	stet_text_clear(&d->t);
	return rc;
}

/* --- from the device --- */
static int dump_superblock(struct dump *d, struct stet_device *device)
{
	struct stet_superblock sb;
	int rc = stet_engine_read_superblock(device, &sb);

	if (rc)
		return rc;
	stet_superblock_print(&d->t, &sb);
	return emit(d);
}

static int dump_slots(struct dump *d, struct stet_device *device)
{
	struct stet_ckpt_slot slot[2];
	struct stet_superblock sb;
	int slot_rc[2];
	int rc = stet_engine_read_superblock(device, &sb);

	if (rc)
		return rc;
	stet_log_read_slots(device, sb.volume_id, slot, slot_rc);
	for (int i = 0; i < 2; i++) {
		if (slot_rc[i])
			stet_text_printf(&d->t, "slot %d: %s\n", i,
					 slot_rc[i] == -ENOENT ? "never written" : "damaged");
		else
			stet_text_printf(&d->t,
					 "slot %d: checkpoint %llu cut %llu record %llu:%u slot %u "
					 "%u bytes\n",
					 i, (unsigned long long)slot[i].sequence,
					 (unsigned long long)slot[i].cut,
					 (unsigned long long)stet_addr_seg(slot[i].record.addr),
					 stet_addr_block(slot[i].record.addr), slot[i].record.slot,
					 slot[i].record_bytes);
	}
	return emit(d);
}

static int dump_checkpoint(struct dump *d, struct stet_device *device)
{
	struct stet_ckpt_slot slot[2];
	struct stet_ckpt_record rec;
	struct stet_superblock sb;
	uint8_t *bytes;
	int slot_rc[2];
	int rc = stet_engine_read_superblock(device, &sb);

	if (rc)
		return rc;
	stet_log_read_slots(device, sb.volume_id, slot, slot_rc);
	if (slot_rc[0] && slot_rc[1])
		return STET_FAIL(-EUCLEAN, "no checkpoint slot can be read");
	int i = slot_rc[0] || (!slot_rc[1] && slot[1].sequence > slot[0].sequence);
	rc = stet_log_read_record(device, &sb, &slot[i], &bytes, &rec);
	if (rc)
		return rc;
	stet_ckpt_record_print(&d->t, &rec);
	stet_free(bytes);
	return emit(d);
}

/* --- from the open volume --- */
static int dump_segments(struct dump *d, struct stet_volume *vol)
{
	struct stet_space *space = stet_engine_space(vol->engine);
	uint32_t slots = stet_engine_superblock(vol->engine)->slot_count;
	int rc = 0;

	for (uint32_t slot = 0; slot < slots && !rc; slot++) {
		struct stet_seg_info info;

		stet_space_info(space, slot, &info);
		const struct stet_seg_entry entry = {
			.id = info.id,
			.opened = info.opened,
			.last_death = info.last_death,
			.live_blocks = info.live_blocks,
			.state = info.state,
			.kind = info.kind,
		};
		stet_text_printf(&d->t, "slot %u: ", slot);
		stet_seg_entry_print(&d->t, &entry);
		stet_text_printf(&d->t, " held %u%s", info.held_blocks,
				 info.log_pinned ? " log" : "");
		rc = emit(d);
	}
	return rc;
}

static int dump_pseg(void *arg, const struct stet_pseg *pseg, const uint8_t *summary)
{
	struct dump *d = arg;
	struct stet_log_record rec;
	uint32_t pos = 0;
	int rc;

	stet_pseg_print(&d->t, pseg);
	rc = emit(d);
	while (!rc && stet_record_next(summary, pseg, &pos, &rec)) {
		stet_text_puts(&d->t, "  ");
		stet_record_print(&d->t, &rec);
		rc = emit(d);
	}
	return rc;
}

static int dump_log(struct dump *d, struct stet_volume *vol)
{
	struct stet_space *space = stet_engine_space(vol->engine);
	uint32_t slots = stet_engine_superblock(vol->engine)->slot_count;
	int rc = 0;

	for (uint32_t slot = 0; slot < slots && !rc; slot++) {
		struct stet_seg_info info;

		stet_space_info(space, slot, &info);
		if (info.state == STET_SEG_FREE || info.kind != STET_SEGK_LOG)
			continue;
		rc = stet_log_scan_segment(stet_engine_log(vol->engine), info.id, dump_pseg, d);
	}
	return rc;
}

static int dump_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level,
		     const uint8_t *node)
{
	struct dump *d = arg;

	stet_text_printf(&d->t,
			 "node %llu:%u level %u: ", (unsigned long long)stet_addr_seg(ptr->addr),
			 stet_addr_block(ptr->addr), level);
	stet_node_print(&d->t, node);
	return emit(d);
}

static int dump_tree(struct dump *d, struct stet_volume *vol)
{
	struct stet_root root;
	uint64_t cut;

	stet_engine_root(vol->engine, &root, &cut);
	return stet_tree_walk(stet_engine_cache(vol->engine), STET_TREE_CATALOG, &root, dump_node,
			      d);
}

static int dump_item(struct dump *d, const struct stet_key *key, const struct stet_val *val)
{
	stet_key_print(&d->t, key->b, key->bytes);
	stet_text_puts(&d->t, ": ");
	if (val->buf)
		stet_text_printf(&d->t, "%u blocks in memory", val->buf_count);
	else
		stet_value_print(&d->t, key->b, key->bytes, val->b, val->bytes);
	return emit(d);
}

static int dump_items(struct dump *d, struct stet_volume *vol)
{
	const struct stet_key all = { .bytes = 0 };
	struct stet_scan *scan;
	struct stet_val val;
	struct stet_key key;
	struct stet_txn *txn;
	int rc = stet_txn_begin(vol->engine, STET_LEVEL_PLAIN, true, &txn);

	if (rc)
		return rc;
	rc = stet_scan_open(txn, &all, &all, &scan);
	if (!rc) {
		while ((rc = stet_scan_next(scan, &key, &val)) == 1) {
			rc = dump_item(d, &key, &val);
			if (rc)
				break;
		}
		stet_scan_close(scan);
	}
	stet_txn_end(txn);
	return rc;
}

static const struct {
	const char *what;
	int (*from_device)(struct dump *d, struct stet_device *device);
	int (*from_volume)(struct dump *d, struct stet_volume *vol);
} dumps[] = {
	{ "superblock", dump_superblock, NULL },
	{ "slots", dump_slots, NULL },
	{ "checkpoint", dump_checkpoint, NULL },
	{ "segments", NULL, dump_segments },
	{ "log", NULL, dump_log },
	{ "tree", NULL, dump_tree },
	{ "items", NULL, dump_items },
};

static int with_device(struct dump *d, const char *path, size_t i)
{
	struct stet_device *device;
	int rc = stet_device_open_file(path, STET_DEVICE_READ_ONLY, 0, &device);

	if (rc)
		return rc;
	rc = dumps[i].from_device(d, device);
	stet_device_close(device);
	return rc;
}

static int with_volume(struct dump *d, const char *path, size_t i)
{
	const struct stet_open_options options = { .read_only = true, .no_remote = true };
	struct stet_volume *vol;
	int rc = stet_open(path, &options, &vol);

	if (rc)
		return rc;
	stet_api_lock_(vol);
	rc = dumps[i].from_volume(d, vol);
	stet_api_unlock_(vol);
	stet_ignore(stet_close(vol), "it was read-only");
	return rc;
}

int stet_dump(const char *path, const char *what, stet_dump_fn *fn, void *arg)
{
	struct dump d = { .fn = fn, .arg = arg };
	size_t n = sizeof(dumps) / sizeof(*dumps);
	size_t i = 0;
	int rc;

	if (!path || !what || !fn)
		return -EINVAL;
	while (i < n && strcmp(what, dumps[i].what) != 0)
		i++;
	if (i == n)
		return STET_FAIL(-EINVAL, "%s: no such structure", what);
	stet_text_init(&d.t);
	rc = dumps[i].from_device ? with_device(&d, path, i) : with_volume(&d, path, i);
	stet_text_release(&d.t);
	return rc;
}
