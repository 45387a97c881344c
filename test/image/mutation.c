/* mutation.c - life of a mutated image; values that hurt.
 *
 * X1. Everything follows from the seed.
 * X2. touched is exact: a block is in it iff its bytes differ from the base's, or cannot be read.
 */
#include "mutation.h"

#include "base/assert.h"
#include "device/device.h"
#include "sim/image.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a device that ends early --- */

struct lesser {
	struct stet_device dev;
	struct stet_device *under; /* borrowed */
	uint64_t readable_bytes;
};

static int lesser_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	struct lesser *l = (struct lesser *)dev;

	if (off_bytes + len_bytes > l->readable_bytes)
		return STET_FAIL(-EIO, "not readable from %llu on",
				 (unsigned long long)l->readable_bytes);
	return stet_device_read(l->under, off_bytes, buf, len_bytes);
}

static int lesser_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
			 int iov_count)
{
	return stet_device_writev(((struct lesser *)dev)->under, off_bytes, iov, iov_count);
}

static int lesser_flush(struct stet_device *dev)
{
	return stet_device_flush(((struct lesser *)dev)->under);
}

static void lesser_close(struct stet_device *dev)
{
	stet_device_release(dev);
	free(dev);
}

static const struct stet_device_ops lesser_ops = {
	.read = lesser_read,
	.writev = lesser_writev,
	.flush = lesser_flush,
	.close = lesser_close,
};

void mutation_lessen(struct mutation *m, uint64_t size_bytes, uint64_t readable_bytes)
{
	struct lesser *l = calloc(1, sizeof(*l));

	STET_ASSERT(l && m->device == m->image);
	STET_ASSERT(!stet_device_init(&l->dev, &lesser_ops, size_bytes, false, "lesser"));
	l->under = m->image;
	l->readable_bytes = readable_bytes;
	m->device = &l->dev;
	m->lessened = true;
	for (uint64_t b = readable_bytes / STET_BLOCK_SIZE;
	     b < m->image->size_bytes / STET_BLOCK_SIZE; b++)
		m->touched[b / 8] |= (uint8_t)(1u << b % 8);
}

/* --- helpers --- */

uint64_t mutation_pick(struct mutation *m, uint64_t n)
{
	return n ? stet_random_below(&m->random, n) : 0;
}

bool mutation_chance(struct mutation *m, unsigned percent)
{
	return mutation_pick(m, 100) < percent;
}

void mutation_note(struct mutation *m, const char *fmt, ...)
{
	size_t room = sizeof(m->what) - m->what_len;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(m->what + m->what_len, room, fmt, args);
	va_end(args);
	if (n > 0)
		m->what_len += (size_t)n < room ? (size_t)n : room - 1;
}

void mutation_read(struct mutation *m, uint64_t off, void *bytes, size_t len)
{
	STET_ASSERT(stet_device_read(m->image, off, bytes, len) == 0);
}

static void touch(struct mutation *m, uint64_t block)
{
	const uint8_t *was = m->base->atlas->bytes + block * STET_BLOCK_SIZE;
	uint8_t is[STET_BLOCK_SIZE];

	mutation_read(m, block * STET_BLOCK_SIZE, is, sizeof(is));
	if (memcmp(is, was, sizeof(is)) != 0)
		m->touched[block / 8] |= (uint8_t)(1u << block % 8);
	else
		m->touched[block / 8] &= (uint8_t) ~(1u << block % 8);
}

void mutation_write(struct mutation *m, uint64_t off, const void *bytes, size_t len)
{
	STET_ASSERT(stet_device_write(m->image, off, bytes, len) == 0);
	for (uint64_t b = off / STET_BLOCK_SIZE; b <= (off + len - 1) / STET_BLOCK_SIZE; b++)
		touch(m, b); /* X2 */
}

bool mutation_part(struct mutation *m, enum part_kind kind, uint32_t *ret)
{
	const struct atlas *a = m->base->atlas;

	if (a->kind_n[kind] == 0)
		return false;
	*ret = a->kind_first[kind][mutation_pick(m, a->kind_n[kind])];
	return true;
}

/* --- values that hurt --- */

static uint64_t get_int(const uint8_t *p, unsigned width)
{
	uint64_t v = 0;

	for (unsigned i = width; i > 0; i--)
		v = v << 8 | p[i - 1];
	return v;
}

static void put_int(uint8_t *p, unsigned width, uint64_t v)
{
	for (unsigned i = 0; i < width; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* Any address with which the part that begins there may be named. */
static struct stet_addr addr_of(const struct atlas *a, uint64_t off)
{
	uint64_t block = off / STET_BLOCK_SIZE;

	if (block < a->sb.seg_start_block)
		return STET_ADDR_NONE;
	block -= a->sb.seg_start_block;
	for (size_t i = 0; i < a->segments.n; i++)
		if (a->segments.v[i].slot == block / a->sb.seg_blocks)
			return stet_addr_add(a->segments.v[i].addr,
					     (uint32_t)(block % a->sb.seg_blocks));
	return STET_ADDR_NONE;
}

struct stet_addr mutate_addr(struct mutation *m)
{
	const struct atlas *a = m->base->atlas;
	uint64_t seg = a->segments.n
			       ? stet_addr_seg(a->segments.v[mutation_pick(m, a->segments.n)].addr)
			       : 1;

	switch (mutation_pick(m, 8)) {
	case 0:
		return stet_addr_make(seg + mutation_pick(m, 1000), 0); /* perhaps not there */
	case 1:
		return stet_addr_make(seg, 63);
	case 2:
		return stet_addr_make(seg, (uint32_t)mutation_pick(m, STET_SEG_BLOCKS_MAX));
	case 3:
		return stet_addr_make(STET_SEG_ID_MAX - mutation_pick(m, 2), 0);
	case 4:
		return stet_addr_make(seg, (uint32_t)mutation_pick(m, 64));
	default:
		return addr_of(a, a->parts.v[mutation_pick(m, a->parts.n)].off);
	}
}

static uint64_t other_value(struct mutation *m, uint64_t old, unsigned width)
{
	switch (mutation_pick(m, 16)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return UINT64_C(1) << (width * 8 - 1);
	case 3:
		return (UINT64_C(1) << (width * 8 - 1)) - 1;
	case 4:
		return old + 1;
	case 5:
		return old - 1;
	case 6:
		return old ^ UINT64_C(1) << mutation_pick(m, width * 8);
	case 7:
		return mutation_pick(m, 8);
	case 8:
		return old + STET_BLOCK_SIZE;
	case 9:
		return mutation_pick(m, m->base->ino_end + 3);
	case 10:
		return m->base->cut[mutation_pick(m, m->base->state_count)];
	case 11:
		return UINT64_MAX - 1;
	case 12:
		return mutate_addr(m).v;
	case 13:
		return old * 2;
	case 14:
		return UINT64_C(1) << mutation_pick(m, 64);
	default:
		return stet_random_next(&m->random);
	}
}

void mutate_int(struct mutation *m, uint8_t *p, unsigned width, const char *name)
{
	uint64_t old = get_int(p, width);
	uint64_t now = old;

	for (int i = 0; i < 10 && now == old; i++) {
		put_int(p, width, other_value(m, old, width));
		now = get_int(p, width);
	}
	mutation_note(m, " %s %#llx -> %#llx", name, (unsigned long long)old,
		      (unsigned long long)now);
}

/* --- life --- */

struct mutation *mutation_create(struct base *const bases[], uint64_t seed)
{
	struct mutation *m = calloc(1, sizeof(*m));

	STET_ASSERT(m);
	stet_random_seed(&m->random, seed); /* X1 */
	m->base = bases[mutation_pick(m, BASE_COUNT)];
	m->touched = calloc(1, m->base->device->size_bytes / STET_BLOCK_SIZE / 8 + 1);
	STET_ASSERT(m->touched);
	STET_ASSERT(!sim_image_copy(m->base->device, &m->image));
	m->device = m->image;
	patient_init(&m->patient, m->base->atlas, m->image);
	mutation_note(m, "base \"%s\":", m->base->name);
	if (mutation_chance(m, 45)) {
		mutate_raw(m);
	} else {
		m->fixed = true;
		mutate_hostile(m);
		patient_reseal(&m->patient);
	}
	return m;
}

void mutation_destroy(struct mutation *m)
{
	if (m->device != m->image)
		stet_device_close(m->device);
	stet_device_close(m->image);
	patient_release(&m->patient);
	free(m->touched);
	free(m);
}
