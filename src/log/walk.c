/* walk.c - one step along the chain.
 *
 * W1. A candidate is the next partial segment iff it is a summary of this volume that verifies, names
 *     the place where it lies, carries the check of the one before it, and has a higher serial and no
 *     lower generation.
 * W2. Of two, the one with the higher generation is the newer; within a generation (a group that was
 *     written again elsewhere) the one with the higher serial.
 * W3. What could not be read may be the next one: that is never taken for the end.
 */
#include "log/log_internal.h"

#include "base/crc.h"

#define READ_BLOCKS 64u

void stet_log_found_release_(struct stet_log_found *found)
{
	stet_buf_release(&found->summary);
	stet_buf_release(&found->other);
}

static int read_blocks(struct stet_log *log, struct stet_place from, uint32_t blocks,
		       struct stet_buf *buf)
{
	size_t bytes = (size_t)blocks * STET_BLOCK_SIZE;
	int rc;

	stet_buf_clear(buf);
	rc = stet_buf_reserve(buf, bytes);
	if (rc)
		return STET_FAIL(rc, "no memory to read a summary");
	rc = stet_device_read(log->device, stet_log_offset_(&log->sb, from), buf->p, bytes);
	if (!rc)
		buf->len = bytes;
	return rc;
}

/* W1, as far as the first block tells. */
static bool follows(const struct stet_log_walk *walk, struct stet_place place,
		    const struct stet_pseg *pseg)
{
	return pseg->self.addr.v == place.addr.v && pseg->self.slot == place.slot &&
	       (pseg->flags & STET_PSEG_OFF_CHAIN) == 0 && pseg->prev_check == walk->check &&
	       pseg->serial > walk->serial && pseg->generation >= walk->generation;
}

/* 0: it is a candidate. -ENOENT: it is not. Other errors: nobody knows. */
static int try_place(struct stet_log *log, const struct stet_log_walk *walk,
		     struct stet_place place, struct stet_buf *buf, struct stet_pseg *ret)
{
	struct stet_pseg pseg;
	int rc;

	if (stet_addr_is_none(place.addr))
		return -ENOENT;
	if (!stet_log_place_valid_(&log->sb, place, 1))
		return STET_FAIL(-EUCLEAN,
				 "log: serial %" PRIu64 " names a place that is not there",
				 walk->serial);
	rc = read_blocks(log, place, 1, buf);
	if (rc)
		return rc;
	if (stet_pseg_decode(buf->p, log->sb.volume_id, log->sb.seg_blocks, &pseg) ||
	    !follows(walk, place, &pseg))
		return -ENOENT;
	if (pseg.summary_blocks > 1) {
		rc = read_blocks(log, place, pseg.summary_blocks, buf);
		if (rc)
			return rc;
	}
	if (stet_pseg_verify(buf->p, &pseg))
		return -ENOENT;
	*ret = pseg;
	return 0;
}

static bool newer(const struct stet_pseg *a, const struct stet_pseg *b)
{
	if (a->generation != b->generation)
		return a->generation > b->generation; /* W2 */
	return a->serial > b->serial;
}

int stet_log_step_(struct stet_log *log, struct stet_log_walk *walk, struct stet_log_found *found)
{
	struct stet_pseg first, second;
	int rc1 = try_place(log, walk, walk->next1, &found->summary, &first);
	int rc2 = try_place(log, walk, walk->next2, &found->other, &second);

	if (rc1 && rc2)
		return rc1 != -ENOENT ? rc1 : rc2; /* W3 */
	if (rc1 || (!rc2 && newer(&second, &first))) {
		struct stet_buf loser = found->summary;

		found->summary = found->other;
		found->other = loser;
		first = second;
	}
	found->pseg = first;
	*walk = (struct stet_log_walk){
		.next1 = first.next1,
		.next2 = first.next2,
		.check = first.check,
		.serial = first.serial,
		.generation = first.generation,
	};
	return 0;
}

static bool torn_at(struct stet_log *log, const struct stet_log_walk *walk, struct stet_place place,
		    struct stet_buf *buf)
{
	struct stet_pseg pseg;

	return stet_log_place_valid_(&log->sb, place, 1) && !read_blocks(log, place, 1, buf) &&
	       !stet_pseg_decode(buf->p, log->sb.volume_id, log->sb.seg_blocks, &pseg) &&
	       follows(walk, place, &pseg);
}

bool stet_log_torn_(struct stet_log *log, const struct stet_log_walk *walk)
{
	struct stet_buf buf;
	bool torn;

	stet_buf_init(&buf);
	torn = torn_at(log, walk, walk->next1, &buf) || torn_at(log, walk, walk->next2, &buf);
	stet_buf_release(&buf);
	return torn;
}

/* --- payload --- */
/* Reads payload blocks in pieces; the piece at hand holds `count` blocks from `first` on. */
struct piece {
	uint8_t *buf; /* owned */
	uint32_t first, count;
};

static int piece_block(struct stet_log *log, const struct stet_pseg *pseg, struct piece *piece,
		       uint32_t block, const uint8_t **ret)
{
	if (block >= piece->first + piece->count) {
		struct stet_place at = pseg->self;
		uint32_t left = pseg->payload_blocks - block;
		int rc;

		at.addr = stet_addr_add(at.addr, pseg->summary_blocks + block);
		piece->first = block;
		piece->count = left < READ_BLOCKS ? left : READ_BLOCKS;
		rc = stet_device_read(log->device, stet_log_offset_(&log->sb, at), piece->buf,
				      (size_t)piece->count * STET_BLOCK_SIZE);
		if (rc)
			return rc;
	}
	*ret = piece->buf + (size_t)(block - piece->first) * STET_BLOCK_SIZE;
	return 0;
}

static int verify_entry(struct stet_log *log, const struct stet_pseg *pseg,
			const struct stet_payload *entry, struct piece *piece)
{
	const uint8_t *block;

	for (uint32_t i = 0; i < entry->block_count; i++) {
		int rc = piece_block(log, pseg, piece, entry->first_block + i, &block);

		if (rc)
			return rc;
		if (stet_crc32c(block, STET_BLOCK_SIZE) !=
		    stet_get_le32(entry->crcs + (size_t)i * sizeof(le32)))
			return STET_FAIL(-EUCLEAN, "log: serial %" PRIu64 ": bad payload block %u",
					 pseg->serial, entry->first_block + i);
	}
	return 0;
}

int stet_log_verify_payload_(struct stet_log *log, const struct stet_pseg *pseg,
			     const uint8_t *summary)
{
	struct piece piece = { 0 };
	struct stet_payload entry;
	uint32_t pos = 0;
	uint32_t first_block = 0;
	int rc = 0;

	if (pseg->payload_blocks == 0)
		return 0;
	piece.buf = stet_alloc((size_t)READ_BLOCKS * STET_BLOCK_SIZE);
	if (!piece.buf)
		return STET_FAIL(-ENOMEM, "no memory to verify payload");
	while (!rc && stet_payload_next(summary, pseg, &pos, &first_block, &entry))
		rc = verify_entry(log, pseg, &entry, &piece);
	stet_free(piece.buf);
	return rc;
}
