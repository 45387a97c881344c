/* patient.c - changes parts of a copy and makes all checksums right again.
 *
 * P1. Parts are resealed in the atlas's order: when one's turn comes, everything it holds a checksum of has had
 *     its turn. So one pass is enough.
 * P2. Checksums that were changed on purpose are overwritten: a mutation that is only that has no effect.
 */
#include "atlas.h"

#include "base/assert.h"
#include "base/crc.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

void patient_init(struct patient *p, const struct atlas *a, struct stet_device *device)
{
	*p = (struct patient){ .atlas = a, .device = device };
	p->dirty = calloc(a->parts.n, sizeof(*p->dirty));
	STET_ASSERT(p->dirty);
}

void patient_release(struct patient *p)
{
	free(p->dirty);
}

void patient_load(struct patient *p, uint32_t part, uint8_t *buf)
{
	const struct part *x = &p->atlas->parts.v[part];

	STET_ASSERT(stet_device_read(p->device, x->off, buf, x->len) == 0);
}

void patient_store(struct patient *p, uint32_t part, const uint8_t *buf)
{
	const struct part *x = &p->atlas->parts.v[part];

	STET_ASSERT(stet_device_write(p->device, x->off, buf, x->len) == 0);
	if (x->off2)
		STET_ASSERT(stet_device_write(p->device, x->off2, buf, x->len) == 0);
	p->dirty[part] = true;
}

static uint64_t crc64_without(uint8_t *buf, size_t len, size_t at)
{
	stet_put_le64(buf + at, 0);
	return stet_crc64(buf, len);
}

/* A part's checksum of its own. */
static void reseal_self(const struct part *x, uint8_t *buf)
{
	uint64_t check;
	size_t at, len = x->len;

	switch (x->kind) {
	case PART_SUPERBLOCK:
	case PART_SLOT:
		at = STET_BLOCK_SIZE - 8;
		stet_put_le64(buf + at, stet_crc64(buf, at));
		return;
	case PART_NODE:
		at = offsetof(struct stet_node_disk, check);
		break;
	case PART_SUMMARY:
		at = offsetof(struct stet_pseg_disk, check);
		/* As long as it claims to be, if we have so much. */
		len = (size_t)stet_get_le16(buf + offsetof(struct stet_pseg_disk, summary_blocks)) *
		      STET_BLOCK_SIZE;
		len = len == 0 || len > x->len ? x->len : len;
		break;
	default:
		return;
	}
	check = crc64_without(buf, len, at);
	stet_put_le64(buf + at, check);
}

static void reseal_ref(struct patient *p, const struct ref *ref, const uint8_t *target)
{
	const struct part *x = &p->atlas->parts.v[ref->target];
	uint8_t holder[PART_BYTES_MAX];

	patient_load(p, ref->holder, holder);
	switch (ref->kind) {
	case REF_BLOCK_CRC: {
		uint8_t block[STET_BLOCK_SIZE] = { 0 };
		size_t from = (size_t)ref->block * STET_BLOCK_SIZE;
		size_t n = x->len - from < STET_BLOCK_SIZE ? x->len - from : STET_BLOCK_SIZE;

		memcpy(block, target + from, n); /* a record's last block is zero behind its end */
		stet_put_le32(holder + ref->at, stet_crc32c(block, STET_BLOCK_SIZE));
		break;
	}
	case REF_POINTER:
		memcpy(holder + ref->at, target + offsetof(struct stet_node_disk, birth), 16);
		break;
	case REF_RECORD:
		stet_put_le64(holder + ref->at, stet_crc64(target, x->len));
		break;
	case REF_CHECK:
		memcpy(holder + ref->at, target + offsetof(struct stet_pseg_disk, check), 8);
		break;
	}
	patient_store(p, ref->holder, holder);
}

static size_t first_ref(const struct atlas *a, uint32_t target)
{
	size_t low = 0, high = a->refs.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (a->refs.v[mid].target < target)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void patient_reseal(struct patient *p)
{
	const struct atlas *a = p->atlas;

	for (size_t i = 0; i < a->order.n; i++) { /* P1 */
		uint32_t part = a->order.v[i];
		uint8_t buf[PART_BYTES_MAX];

		if (!p->dirty[part])
			continue;
		patient_load(p, part, buf);
		reseal_self(&a->parts.v[part], buf);
		patient_store(p, part, buf);
		for (size_t r = first_ref(a, part); r < a->refs.n && a->refs.v[r].target == part;
		     r++)
			reseal_ref(p, &a->refs.v[r], buf);
	}
}
