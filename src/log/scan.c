/* scan.c - the partial segments of one segment, found by looking at it.
 *
 * N1. A partial segment counts if its summary verifies and it names the place where it lies, so that
 *     what the slot's former segments left is passed over.
 * N2. Behind one that counts the scan goes on behind its payload; elsewhere at the next block. So payload
 *     that looks like a summary is met only in a gap.
 * N3. A block that cannot be read is a gap; the error is returned when the scan is over.
 */
#include "log/log_internal.h"

#define WINDOW_BLOCKS 16u

struct scan {
	struct stet_log *log;
	struct stet_place seg; /* its first block */
	uint8_t *window;       /* owned */
	uint32_t first, count; /* the blocks in the window */
	struct stet_buf summary;
	int error; /* the first one of reading (N3) */
};

static struct stet_place at_block(const struct scan *scan, uint32_t block)
{
	struct stet_place place = scan->seg;

	place.addr = stet_addr_add(place.addr, block);
	return place;
}

static int read_at(struct scan *scan, uint32_t block, uint32_t blocks, uint8_t *buf)
{
	return stet_device_read(scan->log->device,
				stet_log_offset_(&scan->log->sb, at_block(scan, block)), buf,
				(size_t)blocks * STET_BLOCK_SIZE);
}

/* The block's bytes, NULL when it cannot be read. Reads ahead in a gap. */
static const uint8_t *look(struct scan *scan, uint32_t block, bool in_gap)
{
	uint32_t want = in_gap ? WINDOW_BLOCKS : 1;
	uint32_t left = scan->log->sb.seg_blocks - block;
	int rc;

	if (block < scan->first || block >= scan->first + scan->count) {
		scan->first = block;
		scan->count = want < left ? want : left;
		rc = read_at(scan, block, scan->count, scan->window);
		if (rc && scan->count > 1) {
			scan->count = 1;
			rc = read_at(scan, block, 1, scan->window);
		}
		if (rc) {
			scan->count = 0;
			scan->error = scan->error ? scan->error : rc;
			return NULL;
		}
	}
	return scan->window + (size_t)(block - scan->first) * STET_BLOCK_SIZE;
}

/* Whether a partial segment lies at the block; then *ret_summary is it, borrowed until the next call.
 * -ENOENT: no. -ENOMEM. */
static int find(struct scan *scan, uint32_t block, bool in_gap, struct stet_pseg *ret,
		const uint8_t **ret_summary)
{
	const struct stet_superblock *sb = &scan->log->sb;
	const uint8_t *bytes = look(scan, block, in_gap);
	size_t len;
	int rc;

	if (!bytes || stet_pseg_decode(bytes, sb->volume_id, sb->seg_blocks, ret) ||
	    ret->self.addr.v != at_block(scan, block).addr.v) /* N1 */
		return -ENOENT;
	if (ret->summary_blocks > 1) {
		len = (size_t)ret->summary_blocks * STET_BLOCK_SIZE;
		stet_buf_clear(&scan->summary);
		rc = stet_buf_reserve(&scan->summary, len);
		if (rc)
			return STET_FAIL(rc, "no memory to read a summary");
		rc = read_at(scan, block, ret->summary_blocks, scan->summary.p);
		if (rc) {
			scan->error = scan->error ? scan->error : rc;
			return -ENOENT;
		}
		bytes = scan->summary.p;
	}
	if (stet_pseg_verify(bytes, ret))
		return -ENOENT;
	*ret_summary = bytes;
	return 0;
}

static int scan_all(struct scan *scan, uint32_t from, stet_log_pseg_fn *fn, void *arg)
{
	bool in_gap = false;
	uint32_t block = from;

	while (block < scan->log->sb.seg_blocks) {
		struct stet_pseg pseg;
		const uint8_t *summary;
		int rc = find(scan, block, in_gap, &pseg, &summary);

		if (rc && rc != -ENOENT)
			return rc;
		in_gap = rc != 0;
		if (in_gap) {
			block++;
			continue;
		}
		rc = fn(arg, &pseg, summary);
		if (rc)
			return rc;
		block += stet_log_pseg_blocks_(&pseg); /* N2 */
	}
	return scan->error;
}

int stet_log_scan_(struct stet_log *log, struct stet_place from, stet_log_pseg_fn *fn, void *arg)
{
	struct scan scan = {
		.log = log,
		.seg = { stet_addr_make(stet_addr_seg(from.addr), 0), from.slot },
	};
	int rc;

	scan.window = stet_alloc((size_t)WINDOW_BLOCKS * STET_BLOCK_SIZE);
	if (!scan.window)
		return STET_FAIL(-ENOMEM, "no memory to scan a segment");
	rc = scan_all(&scan, stet_addr_block(from.addr), fn, arg);
	stet_free(scan.window);
	stet_buf_release(&scan.summary);
	return rc;
}

int stet_log_scan_segment(struct stet_log *log, uint64_t seg_id, stet_log_pseg_fn *fn, void *arg)
{
	struct stet_place seg = {
		.addr = stet_addr_make(seg_id, 0),
		.slot = stet_space_slot(log->space, seg_id),
	};

	if (seg.slot == STET_SLOT_NONE)
		return STET_FAIL(-ESTALE, "segment %" PRIu64 " is gone", seg_id);
	return stet_log_scan_(log, seg, fn, arg);
}
