/* slot.c - the two checkpoint slots, and the record that one names.
 *
 * S1. A slot is one block, overwritten only after the other one names a newer checkpoint: a torn write
 *     loses at most the checkpoint that was being made.
 * S2. Nothing that a record names is needed to read it: its place carries the device slot.
 */
#include "log/log_internal.h"

#include "base/crc.h"

static const uint64_t slot_offset_bytes[2] = {
	(uint64_t)STET_CKPT_SLOT_BLOCK_0 * STET_BLOCK_SIZE,
	(uint64_t)STET_CKPT_SLOT_BLOCK_1 *STET_BLOCK_SIZE,
};

int stet_log_write_slot(struct stet_log *log, const struct stet_ckpt_slot *slot)
{
	struct stet_ckpt_slot_disk disk;
	int rc;

	if (atomic_load(&log->dead))
		return STET_FAIL(-EROFS, "the log is dead");
	stet_ckpt_slot_encode(slot, log->sb.volume_id, &disk);
	rc = stet_device_write(log->device, slot_offset_bytes[slot->sequence % 2], &disk,
			       sizeof(disk));
	if (rc)
		return rc;
	rc = stet_device_flush(log->device);
	if (rc)
		atomic_store(&log->dead, true); /* L4 */
	return rc;
}

void stet_log_read_slots(struct stet_device *device, uint64_t volume_id,
			 struct stet_ckpt_slot slot[2], int rc[2])
{
	struct stet_ckpt_slot_disk disk;

	for (int i = 0; i < 2; i++) {
		rc[i] = stet_device_read(device, slot_offset_bytes[i], &disk, sizeof(disk));
		if (rc[i] == 0)
			rc[i] = stet_ckpt_slot_decode(&disk, volume_id, &slot[i]);
	}
}

static int read_verified(struct stet_device *device, const struct stet_superblock *sb,
			 const struct stet_ckpt_slot *slot, uint8_t *bytes, size_t whole_bytes)
{
	int rc = stet_device_read(device, stet_log_offset_(sb, slot->record), bytes, whole_bytes);

	if (rc)
		return rc;
	if (stet_crc64(bytes, slot->record_bytes) != slot->record_check)
		return STET_FAIL(-EUCLEAN, "checkpoint %" PRIu64 ": bad checksum", slot->sequence);
	return 0;
}

int stet_log_read_record(struct stet_device *device, const struct stet_superblock *sb,
			 const struct stet_ckpt_slot *slot, uint8_t **ret_bytes,
			 struct stet_ckpt_record *ret_rec)
{
	uint64_t blocks = ((uint64_t)slot->record_bytes + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;
	uint8_t *bytes;
	int rc;

	if (blocks == 0 || blocks > sb->seg_blocks ||
	    !stet_log_place_valid_(sb, slot->record, (uint32_t)blocks))
		return STET_FAIL(-EUCLEAN, "checkpoint %" PRIu64 ": its record lies nowhere",
				 slot->sequence);
	bytes = stet_alloc((size_t)blocks * STET_BLOCK_SIZE);
	if (!bytes)
		return STET_FAIL(-ENOMEM, "no memory for a checkpoint record");
	rc = read_verified(device, sb, slot, bytes, (size_t)blocks * STET_BLOCK_SIZE);
	if (!rc)
		rc = stet_ckpt_record_decode(bytes, slot->record_bytes, sb->volume_id, ret_rec);
	if (!rc && (ret_rec->sequence != slot->sequence || ret_rec->cut != slot->cut))
		rc = STET_FAIL(-EUCLEAN, "checkpoint %" PRIu64 ": its record is that of %" PRIu64,
			       slot->sequence, ret_rec->sequence);
	if (rc)
		stet_free(bytes);
	else
		*ret_bytes = bytes;
	return rc;
}
